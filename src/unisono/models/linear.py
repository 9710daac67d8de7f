"""Linear models: logistic regression, support vector machine, linear regression.

Rows are (u, 1) / r in the unit ball, u the features scaled by their public bounds and r the row's
own length, so that one record's gradient is bounded whatever it holds. Weights come back in the
user's units; they are scores for prediction, because each row was divided by its length.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from unisono.core.privacy import Privacy
from unisono.core.study import Result, Study
from unisono.core.trust import Unit
from unisono.data.encoding import Frame, Values
from unisono.data.scaling import UnitScaling
from unisono.data.schema import Schema
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
from unisono.problems.linear import LinearLoss, MarginLoss, linear_loss
from unisono.releases.algorithm import AlgorithmKind

SCORES = (
    "These weights are scores for prediction, not effects or log-odds: every record was scaled to "
    "unit length before the model was fitted, so their sizes cannot be compared"
)
_SQUARES = (
    "These weights serve prediction, they are not effects: records far from the middle of their "
    "ranges counted less, steps may have stopped early, and there are no intervals"
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
            tuple(schema.features), frame.names, scale, found_by(result), loss, frame.classes
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

    return Posed(problem, len(frame.names) + 1, encode, present, score=score, prediction=prediction)


def linear_prediction(
    inputs: tuple[str, ...],
    names: tuple[str, ...],
    scale: UnitScaling,
    parameters: np.ndarray,
    loss: str,
    classes: tuple[Any, ...],
) -> Scores:
    """Classes by scores of rows that are divided by their length, as they were learnt from; numbers
    by rows as they are, since both sides of each equation were divided."""
    link = "softmax" if len(classes) > 2 else _LINKS[loss]
    return Scores.linear(
        inputs,
        names,
        scale,
        parameters,
        link,
        labels=classes,
        divided=bool(classes),
        silence="its weights are scores for prediction, whose errors are not known",
    )


def _kind(
    name: str, summary: str, loss: str, target: Target, task: str, problem: type = MarginLoss
) -> ModelKind:
    def pose(
        config: LinearConfig, schema: Schema, algorithm: AlgorithmKind, privacy: Privacy
    ) -> Posed:
        return posed(loss, schema)

    return ModelKind(
        name,
        summary,
        LinearConfig,
        target,
        problem,
        pose,
        choose,
        learns=lambda config, schema: predicts("a linear model", schema),
        notes=lambda config, algorithm: (
            "Its weights will be scores for prediction, not effects or log-odds.",
        ),
        task=task,
        prediction=Scores,
    )


LOGISTIC_REGRESSION = _kind(
    "logistic-regression",
    "predict a category by a linear model",
    "logistic",
    Target.CLASSES,
    "classification",
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
    LinearLoss,
)
