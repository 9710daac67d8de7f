"""Neural networks of dense layers: a category as target makes a classifier, a number a regression.

Rows enter as (u, 1), scaled by public bounds. Parties must start at the same first parameters to
the last bit on every machine, so these are uniform and made from integers: with 24 random bits k
of a fixed public seed and v the variance that He's or Glorot's rule asks for,

    weight = (k / 2^23 - 1) sqrt(3 v),        bias = 0
"""

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from unisono.algorithms.estimands import estimand
from unisono.core.privacy import Privacy
from unisono.core.study import Result, Study
from unisono.core.trust import Unit
from unisono.data.encoding import Frame, Values
from unisono.data.scaling import Targets, UnitScaling
from unisono.data.schema import Schema
from unisono.errors import InvalidInput
from unisono.models.model import (
    Choice,
    ModelConfig,
    ModelKind,
    Posed,
    Target,
    predicts,
    share_of_range,
)
from unisono.models.prediction import Layer, Scores, layer_scores
from unisono.problems.networks import mlp
from unisono.problems.record_loss import RecordLoss
from unisono.releases.algorithm import AlgorithmKind

_SEED = 20_240_229
_MOST_PARAMETERS = 10_000_000

_RANKS = "Its scores rank records but are not calibrated: clipped gradients make rare classes rarer"


def first_parameters(sizes: tuple[int, ...], activation: str) -> dict[str, dict[str, np.ndarray]]:
    """Weights and biases of layers of these sizes, equal on every machine."""
    bits = np.random.PCG64(_SEED)
    layers = {}
    for number, (inputs, outputs) in enumerate(pairwise(sizes)):
        silent = activation in ("relu", "softplus")
        variance = 2 / inputs if silent else 2 / (inputs + outputs)
        whole = bits.random_raw(inputs * outputs) >> np.uint64(40)
        weights = (whole / 2.0**23 - 1) * math.sqrt(3 * variance)
        layers[f"dense{number}"] = {
            "weights": weights.reshape(inputs, outputs).astype(np.float32),
            "bias": np.zeros(outputs, np.float32),
        }
    return layers


class NetworkModelConfig(ModelConfig):
    """Dense layers."""

    hidden: tuple[Annotated[int, Field(gt=0, le=1_000_000)], ...] = Field(
        (64,), max_length=32, description="How many units each hidden layer has."
    )
    activation: Literal["tanh", "relu", "softplus", "sigmoid", "identity"] = Field(
        "tanh", description="The function between layers."
    )


def _require_small(sizes: tuple[int, ...]) -> None:
    """Refuse a network before anything of its size is made: here, at a party or at the server."""
    parameters = sum((inputs + 1) * outputs for inputs, outputs in pairwise(sizes))
    if parameters > _MOST_PARAMETERS:
        raise InvalidInput(
            f"hidden = {list(sizes[1:-1])} makes {parameters:,} parameters, and every party sends "
            f"that many numbers in every round: at most {_MOST_PARAMETERS:,} are supported; choose "
            "smaller layers"
        )


def pose(
    config: NetworkModelConfig, schema: Schema, algorithm: AlgorithmKind, privacy: Privacy
) -> Posed:
    frame, scale = Frame(schema), Frame(schema).scaling("away from zero")
    width, classes = len(frame.names) + 1, len(frame.classes)
    sizes = (width, *config.hidden, classes or 1)
    _require_small(sizes)
    network = mlp(width, config.hidden, classes, config.activation)
    record = (np.zeros(width, np.float32), np.zeros((), np.float32))
    problem = RecordLoss(network.loss, first_parameters(sizes, config.activation), record)

    def encode(values: Values) -> tuple[np.ndarray, ...]:
        return scale.whole(frame.rows(values)), frame.labels(values, signed=False)

    def arrays(value: Any) -> dict[str, np.ndarray]:
        """Layers for rows ((x - shift) / scale clipped to [-1, 1], 1)."""
        layers = {
            f"{layer}.{part}": np.asarray(array)
            for layer, parts in value.parameters.items()
            for part, array in parts.items()
        }
        return {"scaling.shift": scale.shift, "scaling.scale": scale.scale, **layers}

    def present(study: Study, result: Result) -> dict[str, Any]:
        found = arrays(result.value)
        if not all(np.isfinite(array).all() for array in found.values()):
            raise InvalidInput(
                "training diverged: parameters are infinite or not numbers. Lower learning_rate "
                "(try a tenth); the budget of this run IS SPENT"
            )
        shown: dict[str, Any] = {
            "target": frame.target,
            "features": list(frame.names),
            "layers": list(sizes),
            "activation": config.activation,
            "arrays": {name: list(array.shape) for name, array in found.items()},
        }
        if frame.classes:
            classes = {"classes": list(frame.classes), "calibrated": False}
            return shown | classes | {"note": f"{estimand('classes')} {_RANKS}"}
        targets = frame.targets
        return shown | {"target_scaling": {"centre": targets.centre, "half": targets.half}}

    def score(study: Study, value: Any, arrays: tuple[np.ndarray, ...]) -> np.ndarray:
        rows, labels = arrays
        found = layer_scores(dense_layers(value.parameters), config.activation, rows)
        if frame.classes:
            return (np.argmax(found, axis=1) == labels).astype(float)
        return share_of_range(found[:, 0], labels)

    def prediction(study: Study, result: Result) -> Scores:
        return network_prediction(
            tuple(schema.features),
            frame.names,
            scale,
            result.value.parameters,
            config.activation,
            frame.classes,
            None if frame.classes else frame.targets,
        )

    return Posed(problem, width, encode, present, arrays, score, prediction=prediction)


def dense_layers(parameters: Mapping[str, Mapping[str, Any]]) -> tuple[Layer, ...]:
    """The layers of a network, in their order."""
    return tuple(
        Layer(np.asarray(own["weights"]), np.asarray(own["bias"]))
        for own in (parameters[f"dense{place}"] for place in range(len(parameters)))
    )


def network_prediction(
    inputs: tuple[str, ...],
    names: tuple[str, ...],
    scale: UnitScaling,
    parameters: Mapping[str, Mapping[str, Any]],
    activation: str,
    classes: tuple[Any, ...],
    targets: Targets | None,
) -> Scores:
    """Dense layers over rows (u, 1)."""
    return Scores(
        inputs,
        names,
        scale.shift,
        scale.scale,
        dense_layers(parameters),
        "softmax" if classes else "identity",
        labels=classes,
        norm=scale.norm,
        activation=activation,
        centre=0.0 if targets is None else targets.centre,
        half=1.0 if targets is None else targets.half,
        silence="a network does not know its errors",
    )


def choose(config: Any, schema: Schema, privacy: Privacy, unit: Unit) -> Choice:
    """Secret batches are the best way to hide records; whole parties are hidden by averaging."""
    if unit is Unit.PARTY:
        return Choice("fed-avg", "whole parties are to be hidden: averages of their models")
    return Choice("dp-sgd", "noisy gradients of secret batches learn any loss, under every trust")


NETWORK = ModelKind(
    "network",
    "predict a category or a number by a neural network",
    NetworkModelConfig,
    Target.EITHER,
    RecordLoss,
    pose,
    choose,
    learns=lambda config, schema: predicts("a small neural network", schema),
    task="network",
    prediction=Scores,
)
