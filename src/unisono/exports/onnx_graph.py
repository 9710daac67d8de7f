"""A model as an ONNX graph, in double precision: one input for each column, named as it is.

Numbers are tensors (n, 1) of doubles, NaN where a cell is missing; categories are tensors (n, 1) of
strings, empty where one is. Outputs: `label` and `probabilities` (or `scores`, where there are no
probabilities), or `value`. A record that misses what it needs has NaN for all its numbers.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from unisono.data.databases import installed
from unisono.errors import InvalidInput
from unisono.exports.features import columns_of, features_of, predicted
from unisono.models.average import LEAST, Average
from unisono.models.fitted import FittedModel
from unisono.models.prediction import (
    QUADRATURE,
    HazardRatio,
    NearestCentre,
    Scores,
)

_OPSET, _ML_OPSET = 17, 3
_SELU, _ALPHA = 1.0507009873554805, 1.6732632423543772


def as_bytes(model: FittedModel) -> bytes:
    """The graph, checked and serialised."""
    return bytes(graph(model).SerializeToString())


def graph(model: FittedModel) -> Any:
    """The graph of a model's predictions."""
    onnx = installed("onnx", "onnx")
    found = predicted(model)
    if isinstance(found, Scores) and found.offset is not None and not found.offset.log:
        raise InvalidInput(
            f"scores need the offset {found.offset.column!r}, which the graph does not take: "
            "export to json, or predict with unisono.load"
        )
    build = _Graph(onnx)
    rows = build.rows(model)
    if isinstance(found, Scores):
        outputs = build.scores(found, rows)
    elif isinstance(found, Average):
        outputs = build.average(found, rows)
    elif isinstance(found, NearestCentre):
        outputs = build.nearest(found, rows)
    elif isinstance(found, HazardRatio):
        outputs = build.hazards(found, rows)
    else:
        raise InvalidInput(f"there is no graph for {found.words}: predict with unisono.load")
    made = onnx.helper.make_graph(
        build.nodes, "unisono", build.inputs, outputs, initializer=build.constants
    )
    whole = onnx.helper.make_model(
        made,
        producer_name="unisono",
        doc_string=model.summary(),
        opset_imports=[
            onnx.helper.make_opsetid("", _OPSET),
            onnx.helper.make_opsetid("ai.onnx.ml", _ML_OPSET),
        ],
    )
    whole.ir_version = 8
    onnx.checker.check_model(whole)
    return whole


class _Graph:
    """Nodes, inputs and constants that are added one by one."""

    def __init__(self, onnx: Any) -> None:
        self.onnx = onnx
        self.nodes: list[Any] = []
        self.inputs: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, value: Any, kind: Any = np.float64) -> str:
        name = f"constant {len(self.constants)}"
        array = np.asarray(value, kind)
        if kind is object:
            text = [str(one).encode() for one in array.ravel()]
            made = self.onnx.helper.make_tensor(
                name, self.onnx.TensorProto.STRING, array.shape, text
            )
        else:
            made = self.onnx.numpy_helper.from_array(array, name)
        self.constants.append(made)
        return name

    def node(self, kind: str, *inputs: str, output: str = "", **more: Any) -> str:
        name = output or f"{kind} {len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(kind, list(inputs), [name], **more))
        return name

    def number(self, value: str) -> str:
        return self.node("Cast", value, to=self.onnx.TensorProto.DOUBLE)

    def _input(self, name: str, kind: Any) -> str:
        self.inputs.append(self.onnx.helper.make_tensor_value_info(name, kind, [None, 1]))
        return name

    def _output(self, name: str, kind: Any, shape: Sequence[Any]) -> Any:
        return self.onnx.helper.make_tensor_value_info(name, kind, shape)

    # ------------------------------------------------------------- features

    def rows(self, model: FittedModel) -> str:
        """Features (n, d); NaN where a record misses what it needs."""
        kinds = self.onnx.TensorProto
        read: dict[str, tuple[str, str]] = {}  # a column's value, and whether it is missing
        for name, column in columns_of(model).items():
            codes = column.get("missing_codes", [""])
            if column["kind"] == "number" and codes != [""]:
                raise InvalidInput(
                    f"column {name!r} has codes for what is missing: export to json, or predict "
                    "with unisono.load"
                )
            if column["kind"] == "date":
                raise InvalidInput(
                    f"column {name!r} holds dates, which a graph cannot read: export to json, or "
                    "predict with unisono.load"
                )
            if column["kind"] == "number":
                cell = self._input(name, kinds.DOUBLE)
                missing = self.node("IsNaN", cell)
                clipped = self.node(
                    "Clip", cell, self.constant(column["low"]), self.constant(column["high"])
                )
                stand_in = np.nan if column["missing"] is None else column["missing"]
                value = self.node("Where", missing, self.constant(stand_in), clipped)
            else:
                value, missing = self._place(self._input(name, kinds.STRING), column), ""
            read[name] = (value, missing)
        made: list[str] = []
        for feature in features_of(model):
            made.append(self._feature(feature, read, made))
        return self.node("Concat", *made, axis=1)

    def _place(self, cell: str, column: dict[str, Any]) -> str:
        """The place of a text as a number; NaN for none."""
        places = {text: -1 if own is None else own for text, own in column["places"].items()}
        other = -1 if column["other"] is None else column["other"]
        code = self.node(
            "LabelEncoder",
            cell,
            domain="ai.onnx.ml",
            keys_strings=list(places),
            values_floats=[float(own) for own in places.values()],
            default_float=float(other),
        )
        value = self.number(code)
        unknown = self.node("Less", value, self.constant(0.0))
        return self.node("Where", unknown, self.constant(np.nan), value)

    def _feature(
        self, feature: dict[str, Any], read: dict[str, tuple[str, str]], made: list[str]
    ) -> str:
        make = feature["make"]
        if make == "product":
            first, second = feature["of"]
            return self.node("Mul", made[first], made[second])
        value, missing = read[feature["column"]]
        if make == "missing":
            return self.number(missing)
        if make == "place":
            return value
        if make == "level":
            place = self.constant(feature["place"])
            return self._known(value, self.number(self.node("Equal", value, place)))
        if make == "between":
            above = self.node("GreaterOrEqual", value, self.constant(feature["low"]))
            if feature["high"] is None:
                return self._known(value, self.number(above))
            below = self.node("Less", value, self.constant(feature["high"]))
            return self._known(value, self.number(self.node("And", above, below)))
        if make == "bend":
            return self._bend(value, feature["knots"], feature["bend"])
        if make == "log1p":
            return self.node("Log", self.node("Add", value, self.constant(1.0)))
        if feature["power"] == 1:
            return value
        return self.node("Pow", value, self.constant(feature["power"]))

    def _known(self, value: str, result: str) -> str:
        return self.node("Where", self.node("IsNaN", value), self.constant(np.nan), result)

    def _bend(self, value: str, knots: Sequence[float], number: int) -> str:
        *_, before, last = knots
        knot, width = knots[number], (knots[-1] - knots[0]) ** 2
        terms = (
            (knot, 1 / width),
            (before, -(last - knot) / (last - before) / width),
            (last, (before - knot) / (last - before) / width),
        )
        parts = []
        for at, weight in terms:
            beyond = self.node("Sub", value, self.constant(at))
            rest = self.node("Max", beyond, self.constant(0.0))
            cube = self.node("Pow", rest, self.constant(3.0))
            parts.append(self.node("Mul", cube, self.constant(weight)))
        return self._known(value, self.node("Sum", *parts))

    # ------------------------------------------------------------- scores

    def scores(self, found: Scores, rows: str) -> list[Any]:
        inner, scores = self._scored(found, rows)
        if found.labels:
            return self._classes(found, inner, scores)
        self._value(found, scores, output="value")
        return [self._output("value", self.onnx.TensorProto.DOUBLE, [None, 1])]

    def _scored(self, found: Scores, rows: str) -> tuple[str, str]:
        """Rows as the layers take them, and scores before the link."""
        scores = inner = self._inner(found, rows)
        for place, (weights, bias) in enumerate(found.layers):
            if place:
                scores = self._activation(found.activation, scores)
            product = self.node("MatMul", scores, self.constant(weights))
            scores = self.node("Add", product, self.constant(bias))
        return inner, scores

    def _value(self, found: Scores, scores: str, output: str = "") -> str:
        """The number that is predicted (n, 1)."""
        if found.link == "exp":
            capped = self.node("Min", scores, self.constant(700.0))
            return self.node("Exp", self._known(scores, capped), output=output)
        scaled = self.node("Mul", scores, self.constant(found.half))
        return self.node("Add", scaled, self.constant(found.centre), output=output)

    def average(self, found: Average, rows: str) -> list[Any]:
        """The mean of numbers, or of the logarithms of probabilities."""
        scored = [(own, *self._scored(own, rows)) for own in found.members]
        if not found.classes:
            values = [self._value(own, scores) for own, _, scores in scored]
            share = self.constant(1 / len(values))
            self.node("Mul", self.node("Sum", *values), share, output="value")
            return [self._output("value", self.onnx.TensorProto.DOUBLE, [None, 1])]
        logs = []
        for own, inner, scores in scored:
            chances = self._chances(own, inner, scores)
            least = self._known(chances, self.node("Max", chances, self.constant(LEAST)))
            logs.append(self.node("Log", least))
        mean = self.node("Mul", self.node("Sum", *logs), self.constant(1 / len(logs)))
        self.node("Softmax", mean, axis=1, output="probabilities")
        self._labels(found.classes, self.node("ArgMax", mean, axis=1, keepdims=0))
        kinds = self.onnx.TensorProto
        return [
            self._output("label", self._label_kind(found.classes), [None]),
            self._output("probabilities", kinds.DOUBLE, [None, len(found.classes)]),
        ]

    def _inner(self, found: Scores, rows: str) -> str:
        """(u, 1), or that divided by its length."""
        moved = self.node("Sub", rows, self.constant(found.shift))
        scaled = self.node("Div", moved, self.constant(found.scale))
        if found.norm is None:
            clipped = self.node("Clip", scaled, self.constant(-1.0), self.constant(1.0))
            inner = self._known(scaled, clipped)
        else:
            length = self._length(scaled)
            inner = self.node("Div", scaled, self.node("Max", length, self.constant(1.0)))
        first = self.node("MatMul", inner, self.constant(np.zeros((len(found.shift), 1))))
        # A constant of as many rows; zero times what is missing is missing too.
        ones = self.node("Add", first, self.constant(1.0))
        whole = self.node("Concat", inner, ones, axis=1)
        if not found.divided:
            return whole
        length = self._length(whole) if found.norm is None else self.constant(np.sqrt(2.0))
        return self.node("Div", whole, length)

    def _length(self, rows: str) -> str:
        squares = self.node("Mul", rows, rows)
        axis = self.constant([1], np.int64)
        return self.node("Sqrt", self.node("ReduceSum", squares, axis, keepdims=1))

    def _activation(self, name: str, value: str) -> str:
        if name in ("tanh", "relu", "sigmoid"):
            return self.node(name.title(), value)
        if name == "softplus":
            far = self.node("Neg", self.node("Abs", value))
            near = self.node("Log", self.node("Add", self.node("Exp", far), self.constant(1.0)))
            return self.node("Add", near, self.node("Max", value, self.constant(0.0)))
        if name in ("elu", "selu"):
            below = self.node("Exp", self.node("Min", value, self.constant(0.0)))
            below = self.node("Sub", below, self.constant(1.0))
            scale, alpha = (_SELU, _ALPHA) if name == "selu" else (1.0, 1.0)
            below = self.node("Mul", below, self.constant(alpha))
            above = self.node("Max", value, self.constant(0.0))
            return self.node("Mul", self.node("Add", above, below), self.constant(scale))
        if name == "gelu":
            return self.node("Mul", value, self._normal(value))
        return value

    def _normal(self, value: str) -> str:
        """The normal distribution function; Erf is one of single precision."""
        inner = self.node("Mul", value, self.constant(1 / np.sqrt(2.0)))
        single = self.node("Cast", inner, to=self.onnx.TensorProto.FLOAT)
        erf = self.number(self.node("Erf", single))
        return self.node("Mul", self.node("Add", erf, self.constant(1.0)), self.constant(0.5))

    def _classes(self, found: Scores, inner: str, scores: str) -> list[Any]:
        kinds, number = self.onnx.TensorProto, len(found.labels)
        outputs = [self._output("label", self._label_kind(found.labels), [None])]
        if found.link == "softmax":
            self._chances(found, inner, scores, output="probabilities")
            best = self.node("ArgMax", scores, axis=1, keepdims=0)
            self._labels(found.labels, best)
            return [*outputs, self._output("probabilities", kinds.DOUBLE, [None, number])]
        second = self.node("Greater", scores, self.constant(0.0))
        places = self.node("Cast", second, to=kinds.INT64)
        self._labels(found.labels, self.node("Squeeze", places, self.constant([1], np.int64)))
        if found.link == "sign":
            self.node("Identity", scores, output="scores")
            return [*outputs, self._output("scores", kinds.DOUBLE, [None, 1])]
        self._chances(found, inner, scores, output="probabilities")
        return [*outputs, self._output("probabilities", kinds.DOUBLE, [None, number])]

    def _chances(self, found: Scores, inner: str, scores: str, output: str = "") -> str:
        """Of every class (n, k)."""
        if found.link == "softmax":
            return self.node("Softmax", scores, axis=1, output=output)
        chance = self._chance(found, inner, scores)
        other = self.node("Sub", self.constant(1.0), chance)
        return self.node("Concat", other, chance, axis=1, output=output)

    def _chance(self, found: Scores, inner: str, scores: str) -> str:
        if found.averaged:
            nodes = QUADRATURE[0]
            spread = self.node("MatMul", inner, self.constant(found.covariance))
            products = self.node("Mul", spread, inner)
            axis = self.constant([1], np.int64)
            square = self.node("ReduceSum", products, axis, keepdims=1)
            deviation = self.node("Sqrt", self.node("Max", square, self.constant(0.0)))
            away = self.node("Mul", deviation, self.constant(nodes[None, :]))
            scores = self.node("Add", scores, away)
        chances = self._normal(scores) if found.link == "probit" else self.node("Sigmoid", scores)
        if not found.averaged:
            return chances
        return self.node("MatMul", chances, self.constant(QUADRATURE[1][:, None]))

    def _label_kind(self, labels: Sequence[Any]) -> Any:
        whole = all(isinstance(one, int) for one in labels)
        return self.onnx.TensorProto.INT64 if whole else self.onnx.TensorProto.STRING

    def _labels(self, labels: Sequence[Any], places: str) -> None:
        whole = self._label_kind(labels) == self.onnx.TensorProto.INT64
        listed = self.constant(labels, np.int64 if whole else object)
        self.node("Gather", listed, places, axis=0, output="label")

    # ------------------------------------------------------------- other forms

    def nearest(self, found: NearestCentre, rows: str) -> list[Any]:
        scaled = self.node("Div", rows, self.constant(found.ranges))
        single = self.node("Unsqueeze", scaled, self.constant([1], np.int64))
        gaps = self.node("Sub", single, self.constant((found.centres / found.ranges)[None]))
        squares = self.node("Mul", gaps, gaps)
        distance = self.node("ReduceSum", squares, self.constant([2], np.int64), keepdims=0)
        self._labels(found.classes, self.node("ArgMin", distance, axis=1, keepdims=0))
        return [self._output("label", self.onnx.TensorProto.STRING, [None])]

    def hazards(self, found: HazardRatio, rows: str) -> list[Any]:
        low = self.node("Max", rows, self.constant(found.low))
        clipped = self._known(rows, self.node("Min", low, self.constant(found.high)))
        steps = self.node("Sub", clipped, self.constant(found.at))
        score = self.node("MatMul", steps, self.constant(found.coefficients[:, None]))
        self.node("Exp", score, output="value")
        return [self._output("value", self.onnx.TensorProto.DOUBLE, [None, 1])]


__all__ = ["as_bytes", "graph"]
