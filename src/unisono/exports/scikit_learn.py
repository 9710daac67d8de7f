"""A model as a pipeline of scikit-learn's own parts, which predicts where unisono is not installed.

The parts are fitted to public knowledge alone: bounds, lists of values, weights.

    columns   numbers: what stands in for missing ones, clip to bounds, curve; categories: 0 and 1
    scaling   MinMaxScaler: (x - shift) / scale, clipped to [-1, 1]
    rows      divided by their length where the model was learnt so: a constant, and Normalizer
    model     LogisticRegression, LinearSVC, LinearRegression, PoissonRegressor, MLP*, KMeans, and
              VotingRegressor for averages of numbers
"""

import pickle
from typing import Any

import numpy as np

from unisono.data.columns import Category, ColumnKind, Date, Number, Ordinal, TrueFalse
from unisono.data.databases import installed
from unisono.errors import InvalidInput
from unisono.exports.features import features_of, predicted
from unisono.models.average import Average
from unisono.models.fitted import FittedModel
from unisono.models.prediction import NearestCentre, Prediction, Scores

_REMEDY = "export to json or onnx, or predict with unisono.load"
_ACTIVATIONS = {"tanh": "tanh", "relu": "relu", "sigmoid": "logistic", "identity": "identity"}
_POWERS = {2.0: np.square, 0.5: np.sqrt, -1.0: np.reciprocal}


def pipeline(model: FittedModel) -> Any:
    """The pipeline, for frames with the model's columns by name; true-false columns hold booleans.
    What scikit-learn has no part for is refused."""
    from sklearn.pipeline import Pipeline

    found = predicted(model)
    steps = [("columns", _columns(model, found))]
    if isinstance(found, NearestCentre):
        return Pipeline([*steps, ("scaling", _ranges(found)), ("model", _nearest(found))])
    if isinstance(found, Average):
        return Pipeline([*steps, ("model", _mean(found))])
    if not isinstance(found, Scores):
        raise InvalidInput(f"scikit-learn has no part for {found.words}: {_REMEDY}")
    return Pipeline([*steps, *_scored(found)])


def _scored(found: Scores) -> list[tuple[str, Any]]:
    """From features to the answer."""
    if found.norm is not None:
        raise InvalidInput(
            f"rows were scaled to a ball (one bound for their norm, or none): {_REMEDY}"
        )
    if found.offset is not None:
        raise InvalidInput(f"scikit-learn takes no offset or exposure: {_REMEDY}")
    steps = [("scaling", _scaling(found))]
    if found.divided:
        steps += _divided(len(found.names))
    return [*steps, ("model", _last(found))]


def _mean(found: Average) -> Any:
    """The mean of numbers; of probabilities scikit-learn has the arithmetic mean only."""
    from sklearn.ensemble import VotingRegressor
    from sklearn.pipeline import Pipeline
    from sklearn.utils import Bunch

    if found.classes:
        raise InvalidInput(
            f"scikit-learn averages probabilities, and this model their logarithms: {_REMEDY}"
        )
    made = [Pipeline(_scored(own)) for own in found.members]
    named = [(f"member {place}", own) for place, own in enumerate(made, 1)]
    model = VotingRegressor(named)
    model.estimators_, model.named_estimators_ = made, Bunch(**dict(named))
    return model


def as_bytes(model: FittedModel) -> bytes:
    """The pipeline, pickled: whoever loads it runs what is in the file, as with every pickle."""
    return pickle.dumps(pipeline(model))


# ------------------------------------------------------------- columns


def _columns(model: FittedModel, found: Prediction) -> Any:
    from sklearn.compose import ColumnTransformer

    if model.schema.interactions:
        raise InvalidInput(f"products of columns have no plain part in scikit-learn: {_REMEDY}")
    raw = isinstance(found, NearestCentre)
    parts, public = [], {}
    for name in found.inputs:
        column = model.schema.columns[name]
        part, cells = _part(name, column, raw)
        parts.append((name, part, [name]))
        public[name] = np.resize(np.array(cells, object), 64)
    made = ColumnTransformer(parts, sparse_threshold=0.0, verbose_feature_names_out=False)
    fitted = made.fit(_frame(public))
    if (made := fitted.transform(_frame(public)).shape[1]) != len(features_of(model)):
        raise InvalidInput(f"{made} features where the model has others: {_REMEDY}")
    return fitted


def _frame(columns: dict[str, np.ndarray]) -> Any:
    pandas = installed("pandas", "pandas")  # scikit-learn knows columns by name by it
    return pandas.DataFrame({name: own.tolist() for name, own in columns.items()})


def _part(name: str, column: ColumnKind, raw: bool) -> tuple[Any, list[Any]]:
    """What encodes one column, and public cells to fit it to."""
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder

    missing = getattr(column, "missing", None)
    if isinstance(column, Date):
        raise InvalidInput(
            f"column {name!r} holds dates, which scikit-learn has no part for: export to json, or "
            "predict with unisono.load"
        )
    if getattr(column, "missing_codes", ()):
        raise InvalidInput(f"column {name!r} has codes for what is missing: {_REMEDY}")
    if isinstance(column, Number):
        return _number(name, column, raw), list(column.span)
    if isinstance(column, TrueFalse) and missing in (None, "drop record"):
        return OneHotEncoder(categories=[[False, True]], drop="first", sparse_output=False), [
            False,
            True,
        ]
    if isinstance(column, Category | Ordinal) and not getattr(column, "other", False):
        levels = list(column.levels)
        steps: list[Any] = []
        if missing not in (None, "drop record"):
            steps.append(_imputer("(missing)" if missing == "category" else missing))
        if isinstance(column, Ordinal):
            steps.append(OrdinalEncoder(categories=[levels]))
        else:
            steps.append(OneHotEncoder(categories=[levels], drop="first", sparse_output=False))
        return make_pipeline(*steps), levels
    raise InvalidInput(
        f"column {name!r} is read in a way that scikit-learn has no plain part for: {_REMEDY}"
    )


def _imputer(value: Any) -> Any:
    from sklearn.impute import SimpleImputer

    return SimpleImputer(missing_values=np.nan, strategy="constant", fill_value=value)


def _number(name: str, column: Number, raw: bool) -> Any:
    from sklearn.pipeline import FeatureUnion, make_pipeline
    from sklearn.preprocessing import FunctionTransformer, MinMaxScaler

    if not raw and (column.bins is not None or column.knots is not None):
        raise InvalidInput(f"column {name!r} has bins or knots: {_REMEDY}")
    low, high = column.span
    steps: list[Any] = []
    if column.stand_in is not None:
        steps.append(_imputer(column.stand_in))
    # Between its own ends the scaling changes nothing, and beyond them it clips.
    steps.append(MinMaxScaler((low, high), clip=True))
    if not raw and column.transform is not None:
        steps.append(FunctionTransformer({"log1p": np.log1p, "sqrt": np.sqrt}[column.transform]))
    if not raw and column.power is not None:
        if column.power not in _POWERS:
            raise InvalidInput(f"column {name!r} is seen to the power {column.power:g}: {_REMEDY}")
        steps.append(FunctionTransformer(_POWERS[column.power]))
    made = make_pipeline(*steps)
    if raw or column.missing != "indicator":
        return made
    from sklearn.impute import MissingIndicator

    return FeatureUnion([("number", made), ("missing", MissingIndicator(features="all"))])


# ------------------------------------------------------------- rows


def _scaling(found: Scores) -> Any:
    from sklearn.preprocessing import MinMaxScaler

    ends = np.stack([found.shift - found.scale, found.shift + found.scale])
    made = MinMaxScaler((-1.0, 1.0), clip=True).fit(ends)
    made.scale_, made.min_ = 1 / found.scale, -found.shift / found.scale
    return made


def _divided(width: int) -> list[tuple[str, Any]]:
    """(1, u) divided by its length."""
    from sklearn.preprocessing import Normalizer, PolynomialFeatures

    constant = PolynomialFeatures(1).fit(np.zeros((1, width)))
    return [("constant", constant), ("length", Normalizer().fit(np.zeros((1, width + 1))))]


def _ranges(found: NearestCentre) -> Any:
    from sklearn.preprocessing import MinMaxScaler

    made = MinMaxScaler().fit(np.stack([np.zeros(len(found.ranges)), found.ranges]))
    made.scale_, made.min_ = 1 / found.ranges, np.zeros(len(found.ranges))
    return made


# ------------------------------------------------------------- models


def _last(found: Scores) -> Any:
    if len(found.layers) > 1:
        return _network(found)
    parameters = found.layers[0].weights.T.copy()  # (k, d + 1) of (u, 1)
    if found.labels:
        return _classifier(found, parameters)
    from sklearn.linear_model import LinearRegression, PoissonRegressor

    if found.link == "exp":
        model = PoissonRegressor()
        model._base_loss = model._get_loss()
    else:
        model = LinearRegression()
        parameters = found.half * parameters
        parameters[:, -1] += found.centre
    model.coef_, model.intercept_ = parameters[0, :-1], float(parameters[0, -1])
    model.n_features_in_ = parameters.shape[1] - 1
    return model


def _classifier(found: Scores, parameters: np.ndarray) -> Any:
    """Of averaged chances only the classes are the same: there is no part for the average."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import LinearSVC

    plain = found.link in ("logistic", "softmax") and not found.averaged
    model = LogisticRegression() if plain else LinearSVC()
    if found.divided:  # rows (1, u) / length hold the constant themselves
        parameters = np.roll(parameters, 1, axis=1)
        model.coef_, model.intercept_ = parameters, np.zeros(len(parameters))
    else:
        model.coef_, model.intercept_ = parameters[:, :-1], parameters[:, -1]
    model.classes_, model.n_features_in_ = np.array(found.labels), model.coef_.shape[1]
    return model


def _network(found: Scores) -> Any:
    from sklearn.neural_network import MLPClassifier, MLPRegressor
    from sklearn.preprocessing import LabelBinarizer

    if found.activation not in _ACTIVATIONS:
        raise InvalidInput(f"scikit-learn has no {found.activation} between layers: {_REMEDY}")
    layers = [(np.asarray(w, float), np.asarray(b, float)) for w, b in found.layers]
    first, bias = layers[0]
    layers[0] = (first[:-1], bias + first[-1])  # the row's own 1 is a bias
    weights, biases = [w for w, _ in layers], [b for _, b in layers]
    hidden = tuple(len(b) for b in biases[:-1])
    kind = MLPClassifier if found.labels else MLPRegressor
    model = kind(hidden_layer_sizes=hidden, activation=_ACTIVATIONS[found.activation])
    if found.labels:
        classes = np.array(found.labels)
        model.out_activation_ = "softmax"
        if len(classes) == 2:  # its one output is the difference of two scores
            weights[-1] = weights[-1][:, 1:] - weights[-1][:, :1]
            biases[-1], model.out_activation_ = biases[-1][1:] - biases[-1][:1], "logistic"
        model.classes_, model._label_binarizer = classes, LabelBinarizer().fit(classes)
        order = np.argsort(classes)
        if not np.array_equal(order, np.arange(len(classes))):
            raise InvalidInput(
                f"scikit-learn's networks sort classes, and these are not: {_REMEDY}"
            )
    else:
        weights[-1] = found.half * weights[-1]
        biases[-1] = found.half * biases[-1] + found.centre
        model.out_activation_ = "identity"
    model.coefs_, model.intercepts_ = weights, biases
    model.n_layers_, model.n_outputs_ = len(weights) + 1, len(biases[-1])
    model.n_features_in_ = len(weights[0])
    return model


def _nearest(found: NearestCentre) -> Any:
    """Groups are 0, 1, ... here, where unisono calls them group 1, group 2, ..."""
    from sklearn.cluster import KMeans

    centres = np.ascontiguousarray(found.centres / found.ranges)
    model = KMeans(len(centres), init=centres, n_init=1, max_iter=1)
    model.fit(centres)
    model.cluster_centers_ = centres
    return model


__all__ = ["as_bytes", "pipeline"]
