"""Networks of dense layers, by the algorithms of `training.choices`.

Rows enter as (u, 1), scaled by public bounds. Parties must start at the same first parameters to
the last bit on every machine, so these are uniform and made from integers: with 24 random bits k
of a fixed public seed and v the variance that He's or Glorot's rule asks for,

    weight = (k / 2^23 - 1) sqrt(3 v),        bias = 0
"""

import math
from itertools import pairwise
from typing import Any

import numpy as np

from unisono.algorithms.clipping import Clipping
from unisono.algorithms.optimise import Problem
from unisono.core.study import Result, Study
from unisono.errors import InvalidInput
from unisono.problems.networks import mlp
from unisono.studies import settings as choices
from unisono.studies.plan import Parts, facts_of, share_of_range
from unisono.studies.schema import StudyFile
from unisono.studies.table import Frame, Values
from unisono.training.choices import ALGORITHMS, Request, chosen

_SEED = 20_240_229
_MOST_PARAMETERS = 10_000_000


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


def _require_small(sizes: tuple[int, ...]) -> None:
    """Refuse a network before anything of its size is made: here, at a party or at the server."""
    parameters = sum((inputs + 1) * outputs for inputs, outputs in pairwise(sizes))
    if parameters > _MOST_PARAMETERS:
        raise InvalidInput(
            f"hidden = {list(sizes[1:-1])} makes {parameters:,} parameters, and every party sends "
            f"that many numbers in every round: at most {_MOST_PARAMETERS:,} are supported; choose "
            "smaller layers"
        )


def _layered(
    file: StudyFile, own: choices.Layered, sampling: dict[str, Any], options: dict[str, Any],
    clipping: Clipping,
) -> Parts:  # fmt: skip
    frame, scale = Frame(file), Frame(file).scaling("away from zero")
    width, classes = len(frame.names) + 1, len(frame.classes)
    facts = facts_of(file, width)
    sizes = (width, *own.hidden, classes or 1)
    _require_small(sizes)
    network = mlp(width, own.hidden, classes, own.activation)
    record = (np.zeros(width, np.float32), np.zeros((), np.float32))
    problem = Problem(network.loss, first_parameters(sizes, own.activation), record)
    name: str = own.name  # type: ignore[attr-defined]
    choice, known = chosen(name, options)
    request = Request(
        (file.privacy.epsilon,) * facts.parties, file.privacy.delta, sum(facts.records),
        sampling.get("batch_size"), sampling.get("rate"), sampling.get("epochs"),
        sampling["rounds"], clipping, None, own.learning_rate, own.averaged, 0.0,
        file.privacy.relation, problem, known,
    )  # fmt: skip

    def encode(values: Values) -> tuple[np.ndarray, ...]:
        return scale.whole(frame.rows(values)), frame.labels(values, signed=False)

    def arrays(value: Any) -> dict[str, np.ndarray]:
        """Layers for rows ((x - shift) / scale clipped to [-1, 1], 1)."""
        layers = ALGORITHMS[name].read(value).parameters
        return {
            "scaling.shift": scale.shift, "scaling.scale": scale.scale,
            **{f"{layer}.{part}": np.asarray(array) for layer, parts in layers.items()
               for part, array in parts.items()},
        }  # fmt: skip

    def present(study: Study, result: Result) -> dict[str, Any]:
        found = arrays(result.value)
        if not all(np.isfinite(array).all() for array in found.values()):
            raise InvalidInput(
                "training diverged: parameters are infinite or not numbers. Lower learning_rate "
                "(try a tenth); the budget of this run IS SPENT"
            )
        shown: dict[str, Any] = {
            "target": frame.target, "features": list(frame.names), "layers": list(sizes),
            "activation": own.activation,
            "arrays": {name: list(array.shape) for name, array in found.items()},
        }  # fmt: skip
        if frame.classes:
            return shown | {"classes": list(frame.classes)}
        targets = frame.targets
        return shown | {"target_scaling": {"centre": targets.centre, "half": targets.half}}

    def score(value: Any, arrays: tuple[np.ndarray, ...]) -> np.ndarray:
        rows, labels = arrays
        found = np.asarray(network.predict(ALGORITHMS[name].read(value).parameters, rows))
        if frame.classes:
            return (np.argmax(found, axis=1) == labels).astype(float)
        return share_of_range(found, labels)

    return Parts(choice.build(request), facts, encode, present, arrays, score)


def dp_sgd(file: StudyFile, own: choices.DpSgd) -> Parts:
    return _layered(
        file, own, {"rounds": own.rounds, "rate": own.rate}, {}, Clipping(bound=own.clip)
    )


def local_dp_sgd(file: StudyFile, own: choices.LocalDpSgd) -> Parts:
    sampling = {"rounds": own.rounds, "rate": own.rate}
    return _layered(file, own, sampling, {"steps": own.steps}, Clipping(bound=own.clip))


def dp_ftrl(file: StudyFile, own: choices.DpFtrl) -> Parts:
    options = {"separation": own.separation, "bands": own.bands}
    return _layered(file, own, {"rounds": own.rounds}, options, Clipping(bound=own.clip))


def fed_avg(file: StudyFile, own: choices.FedAvg) -> Parts:
    sampling = own.model_dump(include={"rounds", "rate", "epochs", "batch_size"})
    quantile = 0.5 if own.follow_median else None
    return _layered(file, own, sampling, {}, Clipping(bound=own.clip, quantile=quantile))


__all__ = ["dp_ftrl", "dp_sgd", "fed_avg", "first_parameters", "local_dp_sgd"]
