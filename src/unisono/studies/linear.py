"""Linear models: rows (u, 1) / r in the unit ball by public bounds, and weights in user's units.

What is left out of the file follows the published rule of `algorithms.choose`, by public facts.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from unisono.algorithms import dp_sgd_convex as sampled
from unisono.algorithms import gradient_perturbation as gradients
from unisono.algorithms import output_perturbation as outputs
from unisono.algorithms import sgd_synchronous as projected
from unisono.algorithms.choose import (
    AVERAGED,
    CLIP,
    MOMENTUM,
    NOISE_LENGTH,
    gradient_rate,
    output_ridge,
    signal,
    stable_rate,
)
from unisono.core.algorithm import Algorithm, Facts
from unisono.core.study import Result, Study
from unisono.core.trust import Trust
from unisono.studies import settings as choices
from unisono.studies.plan import Parts, facts_of, rounded, share_of_range
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


def _linear(
    file: StudyFile, chosen: choices.Linear,
    made: Callable[[Facts, dict[str, Any]], Algorithm],
) -> Parts:  # fmt: skip
    """What the four linear algorithms share; `made` gets facts, loss, classes and promise."""
    frame, scale = Frame(file), Frame(file).scaling()
    facts = facts_of(file, len(frame.names) + 1)
    several = len(frame.classes) > 2
    loss = "multinomial" if several else chosen.loss
    promise = {
        "epsilon": file.privacy.epsilon, "delta": file.privacy.delta, "loss": loss,
        "classes": max(2, len(frame.classes)), "relation": file.privacy.relation,
    }  # fmt: skip

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

    return Parts(made(facts, promise), facts, encode, present, score=score)


def gradient_perturbation(file: StudyFile, chosen: choices.GradientPerturbation) -> Parts:
    def made(facts: Facts, promise: dict[str, Any]) -> Algorithm:
        rate, trust = chosen.learning_rate, file.trust.mode
        if rate is None:
            quality = signal(
                facts, trust, promise["epsilon"], promise["delta"], promise["relation"],
                _parameters(facts, promise),
            )  # fmt: skip
            rate = gradient_rate(quality, promise["loss"], chosen.regularisation, chosen.rounds)
        descent = _descent(chosen.rounds, chosen.regularisation)
        own = gradients.Settings(**promise, **descent, learning_rate=rounded(rate))
        return gradients.gradient_perturbation(own)

    return _linear(file, chosen, made)


def dp_sgd_convex(file: StudyFile, chosen: choices.DpSgdConvex) -> Parts:
    def made(facts: Facts, promise: dict[str, Any]) -> Algorithm:
        options = promise | _descent(chosen.rounds, chosen.regularisation) | {"rate": chosen.rate}
        rate = chosen.learning_rate
        if rate is None:
            noise = sampled.dp_sgd_convex(sampled.Settings(**options)).event(facts, file.trust.mode)
            length = _sampled_noise(noise, facts, file.trust.mode, chosen, promise)
            quiet = NOISE_LENGTH[promise["loss"]] * (1 - MOMENTUM) / length
            rate = min(stable_rate(promise["loss"], chosen.regularisation), quiet)
        return sampled.dp_sgd_convex(sampled.Settings(**options, learning_rate=rounded(rate)))

    return _linear(file, chosen, made)


def output_perturbation(file: StudyFile, chosen: choices.OutputPerturbation) -> Parts:
    def made(facts: Facts, promise: dict[str, Any]) -> Algorithm:
        ridge = chosen.regularisation
        if ridge is None:
            ridge = output_ridge(
                facts, file.trust.mode, promise["epsilon"], promise["delta"], promise["loss"],
                promise["classes"], promise["relation"],
            )  # fmt: skip
        return outputs.output_perturbation(
            outputs.Settings(**promise, regularisation=rounded(ridge))
        )

    return _linear(file, chosen, made)


def sgd_synchronous(file: StudyFile, chosen: choices.SgdSynchronous) -> Parts:
    def made(facts: Facts, promise: dict[str, Any]) -> Algorithm:
        own = chosen.model_dump(include={"rounds", "lipschitz", "radius", "strong_convexity"})
        return projected.sgd_synchronous(projected.Settings(**promise, **own), file.trust.mode)

    return _linear(file, chosen, made)


# ------------------------------------------------------------- rules


def _parameters(facts: Facts, promise: dict[str, Any]) -> int:
    return facts.features * (promise["classes"] if promise["loss"] == "multinomial" else 1)


def _descent(rounds: int, regularisation: float) -> dict[str, Any]:
    return {"rounds": rounds, "regularisation": regularisation, "clip": CLIP, "momentum": MOMENTUM,
            "averaged": AVERAGED}  # fmt: skip


def _sampled_noise(
    event: Any, facts: Facts, trust: Trust, chosen: choices.DpSgdConvex, promise: dict[str, Any]
) -> float:
    """How long all rounds' noise in the mean gradient is, as `estimators.configuration` counts."""
    spread = {
        Trust.LOCAL: float(facts.parties),
        Trust.SECURE_SUM: facts.parties / facts.honest,
        Trust.TRUSTED_SERVER: 1.0,
    }[trust]
    one_round = event.noise.std / (chosen.rate * sum(facts.records))
    return one_round * math.sqrt(chosen.rounds * _parameters(facts, promise) * spread)


__all__ = [
    "SCORES",
    "dp_sgd_convex",
    "gradient_perturbation",
    "output_perturbation",
    "sgd_synchronous",
]
