"""How a finished model predicts: numbers alone, written to JSON and read back, never code.

A model names the form that its predictions have (`ModelKind.prediction`), and fills it in when a
run is over (`Posed.prediction`). Features x (d,) of a record are what its declared columns make of
it (`data.encoding`). There are three forms:

    Scores          u = (x - shift) / scale, clipped to [-1, 1];  row = (u, 1), or that divided by
                    its length;  score = layers(row) + offset;  the link makes a class or a number
    NearestCentre   the group whose centre is nearest, in units of public ranges
    HazardRatio     exp(β · (x - at)), and the survival that pieces of a baseline hazard give

With C the covariance of the parameters, which counts sampling and the noise of privacy, a score has
the variance row C rowᵀ; intervals are those of a normal score, taken through the link.
"""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from scipy.special import expit, ndtr, ndtri, softmax

from unisono.data.blocks import row_product, row_variance
from unisono.data.encoding import Frame, Values
from unisono.data.scaling import UnitScaling
from unisono.data.schema import Schema
from unisono.errors import InvalidInput

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(32)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
_LARGEST_EXPONENT = 700.0
_SELU, _ALPHA = 1.0507009873554805, 1.6732632423543772  # Klambauer et al. (2017)
CHANCES: dict[str, Callable[[np.ndarray], np.ndarray]] = {"logistic": expit, "probit": ndtr}
QUADRATURE = (_NODES, _WEIGHTS)  # of a standard normal variable
ACTIVATIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "tanh": np.tanh,
    "relu": lambda x: np.maximum(x, 0.0),
    "softplus": partial(np.logaddexp, 0.0),
    "sigmoid": expit,
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0.0))),
    "selu": lambda x: _SELU * np.where(x > 0, x, _ALPHA * np.expm1(np.minimum(x, 0.0))),
    "gelu": lambda x: x * ndtr(x),
    "identity": lambda x: x,
}
LINKS = (*CHANCES, "softmax", "sign", "identity", "exp")


class Offset(NamedTuple):
    """A column that is added to scores, as it is or by its logarithm. Who has no exposure is
    predicted for one unit of it; any other offset is needed."""

    column: str
    log: bool


class Layer(NamedTuple):
    """row ↦ row · weights (inputs, outputs) + bias (outputs,)."""

    weights: np.ndarray
    bias: np.ndarray


def layer_scores(layers: Sequence[Layer], activation: str, rows: np.ndarray) -> np.ndarray:
    """Outputs (n, k) of layers with an activation between them, each record by itself."""
    bend, found = ACTIVATIONS[activation], rows
    for place, layer in enumerate(layers):
        found = row_product(bend(found) if place else found, layer.weights) + layer.bias
    return found


@dataclass(frozen=True, eq=False)
class Prediction:
    """From the features of a record to what a model says of it. `inputs` are the columns that make
    the features, `names` (d,) what these are called."""

    form: ClassVar[str]
    inputs: tuple[str, ...]
    names: tuple[str, ...]

    # ------------------------------------------------------------- reading and writing

    def document(self) -> dict[str, Any]:
        """All of it as plain values and arrays."""
        return {"form": self.form, **{one.name: getattr(self, one.name) for one in fields(self)}}

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """What `document` wrote; anything else is refused."""
        if document.get("form") != cls.form:
            raise InvalidInput(f"a prediction of form {document.get('form')!r:.40}, not {cls.form}")
        said = {one.name: document[one.name] for one in fields(cls) if one.name in document}
        try:
            found = cls(**{name: _frozen(value) for name, value in said.items()})
            found._check()
        except (TypeError, ValueError, IndexError, AttributeError) as error:
            raise InvalidInput(f"its numbers do not fit together ({error})") from None
        return found

    def _check(self) -> None:
        """Refuse numbers that do not fit together."""

    def rows(self, schema: Schema, values: Values) -> np.ndarray:
        """Features (n, d) of records whose columns are declared by a schema of the inputs."""
        return Frame(schema).rows(values)

    # ------------------------------------------------------------- what it says

    @property
    def classes(self) -> tuple[Any, ...]:
        """The values that it may predict; none where it predicts a number."""
        return ()

    @property
    def words(self) -> str:
        """What is predicted."""
        raise NotImplementedError

    def predict(self, X: np.ndarray, offset: np.ndarray | None = None) -> np.ndarray:
        """Places of classes, or numbers (n,)."""
        raise NotImplementedError

    def probabilities(self, X: np.ndarray, offset: np.ndarray | None = None) -> np.ndarray:
        """Of every class (n, k)."""
        raise InvalidInput(f"it predicts {self.words}, and has no probabilities: use predict")

    def interval(
        self, X: np.ndarray, level: float, offset: np.ndarray | None = None, new: bool = False
    ) -> np.ndarray:
        """Ends (n, 2) between which the expected value, or the chance of the second class, lies
        with this `level`; with `new`, a new record's own value."""
        raise InvalidInput(f"it predicts {self.words}, without intervals: use predict")


def _frozen(value: Any) -> Any:
    """Lists of JSON as tuples; arrays as they are."""
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def _array(values: Any, *shape: int) -> np.ndarray:
    found = np.asarray(values, float)
    if found.shape != shape or not np.isfinite(found).all():
        raise ValueError(f"an array of shape {found.shape} where {shape} finite numbers belong")
    return found


def _deviations(level: float) -> float:
    if not 0 < level < 1:
        raise InvalidInput(f"level = {level!r}: a chance lies between 0 and 1, such as 0.95")
    return float(ndtri(0.5 + level / 2))


# ------------------------------------------------------------- scores


@dataclass(frozen=True, eq=False)
class Scores(Prediction):
    """Scores of scaled rows, and what a link makes of them.

    Classes: "logistic" and "probit" make one score the chance of the second class, "softmax" k
    scores those of k, "sign" has no chances. Numbers: half · score + centre, or exp(score).
    `averaged` chances are expected ones over the covariance. `silence` says why there are no
    intervals; `spread` is how far new numbers scatter about what is expected."""

    form: ClassVar[str] = "scores"
    shift: np.ndarray
    scale: np.ndarray
    layers: tuple[Layer, ...]
    link: str
    labels: tuple[Any, ...] = ()
    norm: float | None = None
    divided: bool = False
    activation: str = "identity"
    centre: float = 0.0
    half: float = 1.0
    covariance: np.ndarray | None = None
    averaged: bool = False
    silence: str = "its noise is not counted in"
    spread: float | None = None
    offset: Offset | None = None

    @classmethod
    def linear(
        cls,
        inputs: tuple[str, ...],
        names: tuple[str, ...],
        scale: UnitScaling,
        parameters: np.ndarray,
        link: str,
        **more: Any,
    ) -> "Scores":
        """Of parameters (k, d + 1) for rows (u, 1)."""
        layer = Layer(np.asarray(parameters, float).T, np.zeros(len(parameters)))
        return cls(inputs, names, scale.shift, scale.scale, (layer,), link, norm=scale.norm, **more)

    def document(self) -> dict[str, Any]:
        layers = [layer._asdict() for layer in self.layers]
        offset = None if self.offset is None else self.offset._asdict()
        return super().document() | {"layers": layers, "offset": offset}

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        try:
            layers = tuple(Layer(one["weights"], one["bias"]) for one in document["layers"])
            said = document.get("offset")
            offset = None if said is None else Offset(str(said["column"]), bool(said["log"]))
        except (TypeError, KeyError, AttributeError):
            raise InvalidInput("its layers or its offset are not written as such") from None
        return super().read({**document, "layers": layers, "offset": offset})

    def _check(self) -> None:
        def put(name: str, value: Any) -> None:
            object.__setattr__(self, name, value)  # lists of a document become arrays once

        width = len(self.names)
        put("shift", _array(self.shift, width))
        put("scale", _array(self.scale, width))
        if not (self.scale > 0).all():
            raise ValueError("a scale that is not positive")
        inputs, layers = width + 1, []
        for layer in self.layers:
            outputs = len(layer.bias)
            weights, bias = _array(layer.weights, inputs, outputs), _array(layer.bias, outputs)
            layers.append(Layer(weights, bias))
            inputs = outputs
        put("layers", tuple(layers))
        wanted = len(self.labels) if self.link == "softmax" else 1
        if not layers or inputs != wanted or self.link not in LINKS:
            raise ValueError(f"{inputs} scores for the link {self.link!r:.20}")
        if bool(self.labels) is (self.link in ("identity", "exp")) or len(self.labels) == 1:
            raise ValueError(f"{len(self.labels)} classes for the link {self.link!r}")
        if self.labels and self.link != "softmax" and len(self.labels) != 2:
            raise ValueError(f"{len(self.labels)} classes for the link {self.link!r}, which has 2")
        if self.activation not in ACTIVATIONS:
            raise ValueError(f"the activation {self.activation!r:.20}, which is not known")
        if self.covariance is not None:
            put("covariance", _array(self.covariance, width + 1, width + 1))
        for name in ("norm", "spread"):
            given = getattr(self, name)
            if given is not None and not (math.isfinite(given) and given > 0):
                raise ValueError(f"{name} = {given!r}")
        _array((self.centre, self.half), 2)

    # ------------------------------------------------------------- what it says

    @property
    def classes(self) -> tuple[Any, ...]:
        return self.labels

    @property
    def words(self) -> str:
        return "a class" if self.labels else "a number"

    @property
    def scaling(self) -> UnitScaling:
        return UnitScaling(self.shift, self.scale, self.norm)

    def inner(self, X: np.ndarray) -> np.ndarray:
        """Rows (n, d + 1)."""
        return self.scaling.rows(X)[0] if self.divided else self.scaling.whole(X)

    def scores(self, X: np.ndarray, offset: np.ndarray | None = None) -> np.ndarray:
        """Scores (n, k)."""
        found = layer_scores(self.layers, self.activation, self.inner(X))
        return found if offset is None else found + offset[:, None]

    def predict(self, X: np.ndarray, offset: np.ndarray | None = None) -> np.ndarray:
        scores = self.scores(X, offset)
        if self.link == "softmax":
            return scores.argmax(axis=1)
        if self.labels:
            return (scores[:, 0] > 0).astype(int)
        return self._value(scores[:, 0])

    def _value(self, scores: np.ndarray) -> np.ndarray:
        if self.link == "exp":
            return np.exp(np.minimum(scores, _LARGEST_EXPONENT))
        return self.half * scores + self.centre

    def probabilities(self, X: np.ndarray, offset: np.ndarray | None = None) -> np.ndarray:
        scores = self.scores(X, offset)
        if self.link == "softmax":
            return softmax(scores, axis=1)
        if self.link == "sign":
            raise InvalidInput(
                "a support vector machine has scores and no probabilities: use predict, or "
                "decision_function"
            )
        if self.link not in CHANCES:
            return super().probabilities(X, offset)
        chance = CHANCES[self.link]
        if not self.averaged:
            return np.stack([chance(-scores[:, 0]), chance(scores[:, 0])], axis=1)
        means = row_product(chance(scores + self._deviation(X)[:, None] * _NODES), _WEIGHTS)
        return np.stack([1 - means, means], axis=1)

    def _deviation(self, X: np.ndarray) -> np.ndarray:
        """Of scores (n,)."""
        assert self.covariance is not None
        return np.sqrt(row_variance(self.inner(X), self.covariance))

    def interval(
        self, X: np.ndarray, level: float, offset: np.ndarray | None = None, new: bool = False
    ) -> np.ndarray:
        reach = _deviations(level)
        if self.covariance is None or self.silence:
            raise InvalidInput(
                f"there are no intervals: {self.silence or 'no covariance was kept'}; for some "
                "learn a glm or a Bayesian model"
            )
        middle, deviation = self.scores(X, offset)[:, 0], self._deviation(X)
        if new:
            if self.spread is None:
                raise InvalidInput(
                    "it does not say how far new values scatter about the expected one: leave "
                    "new=True out, for intervals of what is expected"
                )
            deviation = np.hypot(deviation, self.spread / self.half)
        ends = middle[:, None] + reach * deviation[:, None] * np.array([-1.0, 1.0])
        return CHANCES[self.link](ends) if self.link in CHANCES else self._value(ends)


# ------------------------------------------------------------- groups


@dataclass(frozen=True, eq=False)
class NearestCentre(Prediction):
    """The nearest of centres (k, d), distances being in units of the columns' public ranges."""

    form: ClassVar[str] = "nearest centre"
    centres: np.ndarray
    ranges: np.ndarray

    def _check(self) -> None:
        width = len(self.names)
        object.__setattr__(self, "ranges", _array(self.ranges, width))
        object.__setattr__(self, "centres", _array(self.centres, len(self.centres), width))
        if not len(self.centres) or not (self.ranges > 0).all():
            raise ValueError("no centres, or ranges that are not positive")

    def rows(self, schema: Schema, values: Values) -> np.ndarray:
        """Numbers as they are: groups are of the columns' own units."""
        return np.column_stack([values[name] for name in self.inputs])

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple(f"group {place}" for place in range(1, len(self.centres) + 1))

    @property
    def words(self) -> str:
        return "the group of a record"

    def predict(self, X: np.ndarray, offset: np.ndarray | None = None) -> np.ndarray:
        gaps = (X[:, None, :] - self.centres[None]) / self.ranges
        return np.asarray(np.argmin((gaps**2).sum(axis=2), axis=1))


# ------------------------------------------------------------- hazards


@dataclass(frozen=True, eq=False)
class HazardRatio(Prediction):
    """exp(β · (x - at)) with x clipped to `low` and `high`: the hazard of a record against that of
    one at the middle, whose hazard is constant between `ends` (pieces + 1,). `spread` is about the
    deviation of its logarithm over records."""

    form: ClassVar[str] = "hazard ratio"
    low: np.ndarray
    high: np.ndarray
    at: np.ndarray
    coefficients: np.ndarray
    covariance: np.ndarray
    ends: np.ndarray
    hazard: np.ndarray
    spread: float | None = None

    def _check(self) -> None:
        width, pieces = len(self.names), len(self.hazard)
        shapes: dict[str, tuple[int, ...]] = {
            **dict.fromkeys(("low", "high", "at", "coefficients"), (width,)),
            "covariance": (width, width),
            "ends": (pieces + 1,),
            "hazard": (pieces,),
        }
        for name, shape in shapes.items():
            object.__setattr__(self, name, _array(getattr(self, name), *shape))
        if not (np.diff(self.ends) > 0).all() or not (self.hazard >= 0).all():
            raise ValueError("pieces that do not rise, or negative hazards")
        if self.spread is not None and not 0 <= float(self.spread) < math.inf:
            raise ValueError("a spread of scores that is no number")

    def cuts(self, intervals: int) -> np.ndarray:
        """Where logarithms of ratios are cut into so many intervals, about equally full; of a model
        that does not say how they spread, as if columns were spread evenly in their bounds."""
        spread = self.spread
        if spread is None:
            widths = (self.high - self.low) / math.sqrt(12.0)
            spread = float(np.linalg.norm(self.coefficients * widths))
        return np.asarray(max(spread, 1e-6) * ndtri(np.arange(1, intervals) / intervals))

    @property
    def words(self) -> str:
        return "the hazard ratio against a record in the middle of all columns"

    def _steps(self, X: np.ndarray) -> np.ndarray:
        return np.clip(X, self.low, self.high) - self.at

    def log_ratio(self, X: np.ndarray) -> np.ndarray:
        """The logarithm (n,) of what is predicted."""
        return row_product(self._steps(X), self.coefficients)

    def predict(self, X: np.ndarray, offset: np.ndarray | None = None) -> np.ndarray:
        return np.exp(np.minimum(self.log_ratio(X), _LARGEST_EXPONENT))

    def interval(
        self, X: np.ndarray, level: float, offset: np.ndarray | None = None, new: bool = False
    ) -> np.ndarray:
        reach, steps = _deviations(level), self._steps(X)
        if new:
            raise InvalidInput("a hazard ratio is not observed of a record: leave new=True out")
        spread = np.sqrt(row_variance(steps, self.covariance))
        ends = self.log_ratio(X)[:, None] + reach * spread[:, None] * np.array([-1, 1])
        return np.exp(np.minimum(ends, _LARGEST_EXPONENT))

    def survival(self, X: np.ndarray, times: np.ndarray) -> np.ndarray:
        """The share (n, t) that is expected to have had no event by each time."""
        times = np.asarray(times, float)
        if times.ndim != 1 or not ((times >= 0) & (times <= self.ends[-1])).all():
            raise InvalidInput(
                f"times = {json.dumps(times.tolist())[:60]}: nothing was learnt beyond "
                f"{self.ends[-1]:g}; give times between 0 and that"
            )
        within = np.clip(times[:, None], self.ends[:-1], self.ends[1:]) - self.ends[:-1]
        return np.exp(-np.outer(self.predict(X), within @ self.hazard))


__all__ = [
    "ACTIVATIONS",
    "CHANCES",
    "QUADRATURE",
    "HazardRatio",
    "Layer",
    "NearestCentre",
    "Offset",
    "Prediction",
    "Scores",
    "layer_scores",
]
