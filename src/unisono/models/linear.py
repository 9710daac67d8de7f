"""Linear models: logistic regression, support vector machine, linear regression.

Rows are (u, 1) / r in the unit ball, u the features scaled by their public bounds and r the row's
own length, so that one record's gradient is bounded whatever it holds. Weights come back in the
user's units; they are scores for prediction, because each row was divided by its length.

A linear regression is also learnt by Fisher scoring, as the gaussian family of `glm`: there numbers
lie in [-1, 1] and dummies are 0 and 1, nothing is divided, and noise is drawn towards what is
likely (`models.line`). "auto" takes what is predicted to lose least of R²
(`algorithms.regression_choice`).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from unisono.algorithms.regression_choice import choice_of
from unisono.core.privacy import Privacy
from unisono.core.study import Result, Study
from unisono.core.trust import Unit
from unisono.data.encoding import Frame, Values
from unisono.data.schema import Schema
from unisono.models.glm import column_layout, regression, scored_rows
from unisono.models.line import PRIOR_SD, predicting
from unisono.models.model import (
    Choice,
    ModelConfig,
    ModelKind,
    Posed,
    Target,
    predicts,
    share_of_range,
)
from unisono.problems.glm import GeneralizedLinear
from unisono.problems.linear import MarginLoss, SquaredLoss, linear_loss
from unisono.releases.algorithm import AlgorithmKind

SCORES = (
    "These weights are scores for prediction, not effects or log-odds: every record was scaled to "
    "unit length before the model was fitted, so their sizes cannot be compared"
)
_SQUARES = (
    "These weights serve prediction, they are not effects: records far from the middle of their "
    "ranges counted less, steps may have stopped early, and there are no intervals"
)
_LINE = (
    "These weights serve prediction: where noise hides what records say they are drawn to zero, "
    "and records far out counted less. For effects with intervals and tests use model = glm"
)
_CLASSES = (
    f"{SCORES}. The sign of intercept + weights · values, or the largest of several scores, is the "
    "predicted class"
)


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


def posed(loss: str, schema: Schema) -> Posed:
    """A linear model of this loss over the columns of a schema."""
    frame, scale = Frame(schema), Frame(schema).scaling()
    several = len(frame.classes) > 2
    problem = linear_loss("multinomial" if several else loss, max(2, len(frame.classes)))

    def encode(values: Values) -> tuple[np.ndarray, ...]:
        rows, lengths = scale.rows(frame.rows(values))
        labels = frame.labels(values, signed=not several)
        # Least squares divides both sides of a record's equation by the row's length.
        return rows, labels if frame.classes else labels / lengths

    def present(study: Study, result: Result) -> dict[str, Any]:
        found = np.asarray(result.value, float)
        parameters = found.T if found.ndim == 2 else found[None, :]
        if not frame.classes:
            parameters = frame.targets.half * parameters
            parameters[:, -1] += frame.targets.centre
        slopes, intercepts = scale.coefficients(parameters)
        models = [
            {
                "intercept": float(intercept),
                "weights": dict(zip(frame.names, map(float, own), strict=True)),
            }
            for own, intercept in zip(slopes, intercepts, strict=True)
        ]
        shown: dict[str, Any] = {"loss": problem.loss, "target": frame.target}
        if several:
            classes = dict(zip(frame.classes, models, strict=True))
            return {**shown, "classes": classes, "note": _CLASSES}
        if not frame.classes:
            return shown | {"note": _SQUARES} | models[0]
        negative, positive = frame.classes
        words = {"positive": positive, "negative": negative, "note": _CLASSES}
        return shown | words | models[0]

    def score(value: Any, arrays: tuple[np.ndarray, ...]) -> np.ndarray:
        rows, labels = arrays
        scores = rows @ np.asarray(value, float)
        if several:
            return (np.argmax(scores, axis=1) == labels).astype(float)
        if frame.classes:
            return (np.where(scores > 0, 1, -1) == labels).astype(float)
        # A row (u, 1) / r ends in 1 / r: multiplied by r, both sides are the record's own again.
        return share_of_range(scores / rows[:, -1], labels / rows[:, -1])

    return Posed(problem, len(frame.names) + 1, encode, present, score=score)


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
        shown = {"loss": "squares", "target": frame.target, "note": _LINE}
        return shown | {"intercept": float(found[0]), "weights": weights}

    def score(value: Any, arrays: tuple[np.ndarray, ...]) -> np.ndarray:
        return scored_rows(made.problem, value, arrays[0])

    suggested = {"prior_sd": PRIOR_SD}
    settings = {name: suggested[name] for name in suggested.keys() & algorithm.config.model_fields}
    return Posed(made.problem, made.problem.width, encode, present, score=score, settings=settings)


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
        return posed(loss, schema)

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
            "Its weights will be scores for prediction, not effects or log-odds.",
        ),
        task=task,
        **more,
    )


LOGISTIC_REGRESSION = _kind(
    "logistic-regression",
    "predict a category by a linear model",
    "logistic",
    Target.CLASSES,
    "classification",
)
LINEAR_SVM = _kind(
    "linear-svm",
    "predict one of two classes by a support vector machine",
    "huber-svm",
    Target.TWO_CLASSES,
    "classification",
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
