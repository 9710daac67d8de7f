"""Linear models: rows (u, 1) / r in the unit ball by public bounds, and weights in user's units.

What is left out of the file follows the algorithm's published rule, by public facts.
"""

from typing import Any

import numpy as np

from unisono.algorithms.registry import algorithm_named
from unisono.core.privacy import Privacy
from unisono.core.study import Result, Study
from unisono.problems.linear import LinearLoss
from unisono.studies import settings as choices
from unisono.studies.plan import Parts, facts_of, share_of_range
from unisono.studies.schema import StudyFile
from unisono.studies.table import Frame, Values

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


def _linear(file: StudyFile, chosen: choices.Linear) -> Parts:
    """What the linear algorithms share."""
    frame, scale = Frame(file), Frame(file).scaling()
    facts = facts_of(file, len(frame.names) + 1)
    several = len(frame.classes) > 2
    loss = "multinomial" if several else chosen.loss
    privacy = Privacy(file.privacy.epsilon, file.privacy.delta, file.privacy.relation)
    said = chosen.model_dump(exclude={"name", "loss"}, exclude_none=True)
    if "rate" in said:
        said["sampling_rate"] = said.pop("rate")
    problem = LinearLoss(loss, max(2, len(frame.classes)))
    method = algorithm_named(chosen.name).method(problem, privacy, **said)  # type: ignore[attr-defined]

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
            {"intercept": float(intercept), "weights": dict(zip(frame.names, map(float, own),
                                                                strict=True))}
            for own, intercept in zip(slopes, intercepts, strict=True)
        ]  # fmt: skip
        shown: dict[str, Any] = {"loss": loss, "target": frame.target}
        if several:
            return {**shown, "classes": dict(zip(frame.classes, models, strict=True)),
                    "note": _CLASSES}  # fmt: skip
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

    return Parts(method, facts, encode, present, score=score)


def gradient_perturbation(file: StudyFile, chosen: choices.GradientPerturbation) -> Parts:
    return _linear(file, chosen)


def dp_sgd_convex(file: StudyFile, chosen: choices.DpSgdConvex) -> Parts:
    return _linear(file, chosen)


def output_perturbation(file: StudyFile, chosen: choices.OutputPerturbation) -> Parts:
    return _linear(file, chosen)


def sgd_synchronous(file: StudyFile, chosen: choices.SgdSynchronous) -> Parts:
    return _linear(file, chosen)


__all__ = [
    "SCORES",
    "dp_sgd_convex",
    "gradient_perturbation",
    "output_perturbation",
    "sgd_synchronous",
]
