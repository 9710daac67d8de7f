"""Linear models: logistic regression, support vector machine, linear regression.

Rows are (u, 1), u the features scaled by their public bounds; for most algorithms (u, 1) / r in the
unit ball, r the row's own length, so that one record's gradient is bounded whatever it holds.
Weights come back in the user's units; where each row was divided by its length, they are scores for
prediction, where not, their scores are log-odds and their probabilities mean something.

A linear regression is also learnt by Fisher scoring, as the gaussian family of `glm`: there numbers
lie in [-1, 1] and dummies are 0 and 1, nothing is divided, and noise is drawn towards what is
likely (`models.line`). "auto" takes what is predicted to lose least of R²
(`algorithms.regression_choice`).
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from unisono.algorithms.estimands import estimand
from unisono.algorithms.preconditioned_gradients import (
    MOST_FEATURES,
    PRECONDITIONED_GRADIENTS,
    calibrating,
)
from unisono.algorithms.regression_choice import choice_of
from unisono.core.privacy import Privacy
from unisono.core.study import Result, Study
from unisono.core.trust import Unit
from unisono.data.blocks import row_product
from unisono.data.encoding import Frame, Values
from unisono.data.scaling import UnitScaling
from unisono.data.schema import Schema
from unisono.models.glm import column_layout, regression
from unisono.models.line import PREDICTION, predicting
from unisono.models.model import (
    Choice,
    ModelConfig,
    ModelKind,
    Posed,
    Target,
    predicts,
    share_of_range,
)
from unisono.models.prediction import Scores
from unisono.problems.glm import GeneralizedLinear
from unisono.problems.linear import MarginLoss, SquaredLoss, linear_loss
from unisono.releases.algorithm import AlgorithmKind, Method

SCORES = (
    "These weights are scores for prediction, not effects or log-odds: every record was scaled to "
    "unit length before the model was fitted, so their sizes cannot be compared"
)
_SQUARES = (
    "These weights serve prediction, they are not effects: records far from the middle of their "
    "ranges counted less, steps may have stopped early, and there are no intervals"
)
_PROBABILITIES = (
    "Probabilities are those of logistic regression: {how}. {quality} Weights serve prediction: "
    "for effects with intervals and tests there is the model glm"
)
_CALIBRATED = "The last rounds calibrated them."
_UNCALIBRATED = "They rank records but are not calibrated."
_LOG_ODDS = "1 / (1 + exp(-score)) of the positive value, with score = intercept + weights · values"
_SOFTMAX = "exp(score) of a value over their sum, with score = intercept + weights · values"
_LINE = (
    "These weights serve prediction: where noise hides what records say they are drawn to zero, "
    "and records far out counted less. For effects with intervals and tests use model = glm"
)
_CLASSES = (
    f"{SCORES}. The sign of intercept + weights · values, or the largest of several scores, is the "
    "predicted class"
)


# What a loss makes of scores: a support vector machine has no probabilities.
_LINKS = {"logistic": "logistic", "huber-svm": "sign", "squares": "identity"}


class LinearConfig(ModelConfig):
    """A linear model has no settings of its own."""


def choose(config: LinearConfig, schema: Schema, privacy: Privacy, unit: Unit) -> Choice:
    """Pure epsilon needs the one release that offers it; otherwise many cheap rounds cost no more
    than few, because Gaussian noise composes exactly."""
    if privacy.pure:
        return Choice("output-perturbation", "pure epsilon was asked for: one noisy average")
    return Choice(
        "gradient-perturbation", "many noisy full gradients compose exactly as one release"
    )


def choose_calibrated(config: LinearConfig, schema: Schema, privacy: Privacy, unit: Unit) -> Choice:
    """As `choose`; where a record is hidden and columns are not too many, probabilities are worth a
    release of how they vary."""
    hidden = PRECONDITIONED_GRADIENTS.hides(unit, schema.group or 1)
    few = len(Frame(schema).names) < MOST_FEATURES
    if privacy.pure or not (hidden and few):
        return choose(config, schema, privacy, unit)
    return Choice(
        PRECONDITIONED_GRADIENTS.name,
        "after a release of how columns vary, noisy gradients of the model itself",
    )


def calibrates(method: Method) -> bool:
    """Whether what it learns has calibrated probabilities."""
    if method.kind is not PRECONDITIONED_GRADIENTS:
        return False
    return calibrating(method.config, method.problem) > 0


def posed(loss: str, schema: Schema, algorithm: AlgorithmKind) -> Posed:
    """A linear model of this loss over the columns of a schema, with rows as an algorithm wants
    them."""
    frame, scale = Frame(schema), Frame(schema).scaling()
    several = len(frame.classes) > 2
    problem = linear_loss("multinomial" if several else loss, max(2, len(frame.classes)))
    whole_rows = not algorithm.unit_rows and problem.loss in ("logistic", "multinomial")

    def encode(values: Values) -> tuple[np.ndarray, ...]:
        if not algorithm.unit_rows:
            whole = scale.whole(frame.rows(values))
            labels = frame.labels(values, signed=bool(frame.classes) and not several)
            # Who misses anything says nothing at all, not even the 1 of the intercept.
            return np.where(np.isfinite(labels)[:, None], whole, np.nan), labels
        rows, lengths = scale.rows(frame.rows(values))
        labels = frame.labels(values, signed=not several)
        # Least squares divides both sides of a record's equation by the row's length.
        return rows, labels if frame.classes else labels / lengths

    def found_by(result: Result) -> np.ndarray:
        """Parameters (k, d + 1) for rows (u, 1), in the units of a target that is a number."""
        found = np.asarray(result.value, float)
        parameters = found.T if found.ndim == 2 else found[None, :]
        if not frame.classes:
            parameters = frame.targets.half * parameters
            parameters[:, -1] += frame.targets.centre
        return parameters

    def prediction(study: Study, result: Result) -> Scores:
        return linear_prediction(
            tuple(schema.features),
            frame.names,
            scale,
            found_by(result),
            loss,
            frame.classes,
            algorithm.unit_rows,
        )

    def present(study: Study, result: Result) -> dict[str, Any]:
        parameters = found_by(result)
        slopes, intercepts = scale.coefficients(parameters)
        models = [
            {
                "intercept": float(intercept),
                "weights": dict(zip(frame.names, map(float, own), strict=True)),
            }
            for own, intercept in zip(slopes, intercepts, strict=True)
        ]
        shown: dict[str, Any] = {"loss": problem.loss, "target": frame.target}
        note = f"{estimand('classes')} {_CLASSES}"
        calibrated = calibrates(study.method)
        if frame.classes:
            shown["calibrated"] = calibrated
        if whole_rows:
            shown["link"] = "softmax" if several else "logit"
            shown["features"] = {one.name: {"bounds": list(one.bounds)} for one in frame.features}
            quality = _CALIBRATED if calibrated else _UNCALIBRATED
            how = _SOFTMAX if several else _LOG_ODDS
            note = f"{estimand('classes')} {_PROBABILITIES.format(how=how, quality=quality)}"
        if several:
            classes = dict(zip(frame.classes, models, strict=True))
            return {**shown, "classes": classes, "note": note}
        if not frame.classes:
            return shown | {"note": f"{estimand('number')} {_SQUARES}"} | models[0]
        negative, positive = frame.classes
        words = {"positive": positive, "negative": negative, "note": note}
        return shown | words | models[0]

    def score(study: Study, value: Any, arrays: tuple[np.ndarray, ...]) -> np.ndarray:
        rows, labels = arrays
        scores = row_product(rows, value)
        if several:
            return (np.argmax(scores, axis=1) == labels).astype(float)
        if frame.classes:
            return (np.where(scores > 0, 1, -1) == labels).astype(float)
        # A row (u, 1) / r ends in 1 / r: multiplied by r, both sides are the record's own again.
        return share_of_range(scores / rows[:, -1], labels / rows[:, -1])

    return Posed(problem, len(frame.names) + 1, encode, present, score=score, prediction=prediction)


def linear_prediction(
    inputs: tuple[str, ...],
    names: tuple[str, ...],
    scale: UnitScaling,
    parameters: np.ndarray,
    loss: str,
    classes: tuple[Any, ...],
    unit_rows: bool = True,
) -> Scores:
    """Classes by scores of rows as they were learnt from, which some algorithms want to be divided
    by their length; numbers by rows as they are, since both sides of each equation were divided."""
    link = "softmax" if len(classes) > 2 else _LINKS[loss]
    return Scores.linear(
        inputs,
        names,
        scale,
        parameters,
        link,
        labels=classes,
        divided=bool(classes) and unit_rows,
        silence="its weights are scores for prediction, whose errors are not known",
    )


def scored_line(schema: Schema, algorithm: AlgorithmKind) -> Posed:
    """A linear regression for Fisher scoring, and for what it begins with: its problem is the
    gaussian family's."""
    frame = Frame(schema)
    made = regression("gaussian", column_layout(frame), frame.features, frame.targets)

    def encode(values: Values) -> tuple[np.ndarray, ...]:
        return (made.rows(frame.rows(values), frame.labels(values, signed=False)),)

    def present(study: Study, result: Result) -> dict[str, Any]:
        found = predicting(made, study, result.value)
        weights = dict(zip(frame.names, map(float, found[1:]), strict=True))
        shown = {"loss": "squares", "target": frame.target, "note": f"{estimand('number')} {_LINE}"}
        return shown | {"intercept": float(found[0]), "weights": weights}

    def score(study: Study, value: Any, arrays: tuple[np.ndarray, ...]) -> np.ndarray:
        found = predicting(made, study, value)
        features, y, *_ = (np.asarray(part, float) for part in made.problem.parts(arrays[0]))
        said = found[0] + row_product(made.middle + made.half * features, found[1:])
        return share_of_range((said - frame.targets.centre) / frame.targets.half, y)

    def prediction(study: Study, result: Result) -> Scores:
        found = predicting(made, study, result.value)
        scale = UnitScaling(made.middle, made.half, None)
        # With x = middle + half u, slopes of x become those of u.
        parameters = np.array([[*(found[1:] * made.half), found[0] + found[1:] @ made.middle]])
        inputs = tuple(schema.features)
        return linear_prediction(inputs, frame.names, scale, parameters, "squares", ())

    fields = algorithm.config.model_fields  # the stage that comes first has none of them
    settings = {name: own for name, own in PREDICTION.items() if name in fields}
    return Posed(
        made.problem,
        made.problem.width,
        encode,
        present,
        score=score,
        settings=settings,
        prediction=prediction,
    )


def choose_line(config: LinearConfig, schema: Schema, privacy: Privacy, unit: Unit) -> Choice:
    """Where nothing can be compared: what is usually best of what is possible."""
    if privacy.pure or unit is not Unit.RECORD:
        return choose(config, schema, privacy, unit)
    return Choice("fisher-scoring", "few noisy rounds of gradient and curvature")


def _prefer(studies: Mapping[str, Study]) -> Choice:
    found = choice_of(studies)
    return Choice(found.algorithm, found.reason)


def _kind(name: str, summary: str, loss: str, target: Target, task: str, **more: Any) -> ModelKind:
    def pose(
        config: LinearConfig, schema: Schema, algorithm: AlgorithmKind, privacy: Privacy
    ) -> Posed:
        if issubclass(algorithm.problem, GeneralizedLinear):
            return scored_line(schema, algorithm)
        return posed(loss, schema, algorithm)

    return ModelKind(
        name,
        summary,
        LinearConfig,
        target,
        more.pop("problem", MarginLoss),
        pose,
        more.pop("choose", choose),
        learns=lambda config, schema: predicts("a linear model", schema),
        notes=lambda config, algorithm: (
            "Its weights will be scores for prediction, not effects or log-odds."
            if algorithm.unit_rows
            else "Probabilities of two classes will be calibrated; for effects with intervals see "
            "glm.",
        ),
        task=task,
        prediction=Scores,
        **more,
    )


LOGISTIC_REGRESSION = _kind(
    "logistic-regression",
    "predict a category by a linear model",
    "logistic",
    Target.CLASSES,
    "classification",
    choose=choose_calibrated,
)
LINEAR_SVM = replace(
    _kind(
        "linear-svm",
        "predict one of two classes by a support vector machine",
        "huber-svm",
        Target.TWO_CLASSES,
        "classification",
    ),
    chances=False,
)
LINEAR_REGRESSION = _kind(
    "linear-regression",
    "predict a number by a linear model",
    "squares",
    Target.NUMBER,
    "regression",
    problem=(SquaredLoss, GeneralizedLinear),
    choose=choose_line,
    compared=(
        *("fisher-scoring", "adaptive-statistics"),
        *("gradient-perturbation", "output-perturbation"),
    ),
    prefer=_prefer,
)
