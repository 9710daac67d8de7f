"""Bayesian models: a normal distribution of the weights, in the user's units.

The prior N(0, prior_variance) holds in scaled units (`estimators.bayesian`). Where the law of the
noise in the answer is known, the posterior allows for it (`estimators.noise_aware`); where not,
the result says that it has no intervals.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from unisono.algorithms import pvi_analytic as analytic
from unisono.algorithms import pvi_dp_sga as climbing
from unisono.algorithms import pvi_natural_gradient as natural
from unisono.algorithms import pvi_updates as updates
from unisono.core.algorithm import Algorithm, Facts
from unisono.core.study import Result, Study
from unisono.core.trust import Unit
from unisono.estimators.noise_aware import (
    Refine,
    aware_of_rounds,
    aware_of_statistics,
    posterior_of,
)
from unisono.estimators.posterior import Posterior
from unisono.estimators.scaling import Scaling
from unisono.problems.gaussian_family import prior
from unisono.problems.likelihoods import likelihood_named
from unisono.studies import settings as choices
from unisono.studies.linear import SCORES
from unisono.studies.plan import Parts, facts_of, rounded, share_of_range
from unisono.studies.schema import StudyFile
from unisono.studies.table import Frame, Values


def one_shot_regression(file: StudyFile, own: choices.OneShotRegression) -> Parts:
    """Rows (u, 1) with every range centred; nothing inside the bounds is clipped unless asked."""
    frame, scale = Frame(file), Frame(file).scaling("all")
    targets, facts = frame.targets, facts_of(file, len(frame.names) + 1)
    spread = 1.0 if own.noise_std is None else own.noise_std / targets.half
    clip = math.sqrt(facts.features**2 + facts.features) if own.clip is None else own.clip
    settings = analytic.Settings(
        **_promise(file), clip=clip, noise_std=spread, prior_variance=own.prior_variance
    )
    algorithm = analytic.one_shot_regression(settings)
    start = prior(facts.features, 0.0, own.prior_variance, full=True)
    refine = aware_of_statistics(algorithm, facts, file.trust.mode, start, spread)

    def encode(values: Values) -> tuple[np.ndarray, ...]:
        return scale.whole(frame.rows(values)), frame.labels(values, signed=False)

    def present(study: Study, result: Result) -> dict[str, Any]:
        found = _posterior(result.value, frame, own.prior_variance, refine)
        return _shown(_in_units(found, scale, targets.half, targets.centre), frame)

    def score(value: Any, arrays: tuple[np.ndarray, ...]) -> np.ndarray:
        rows, labels = arrays
        return share_of_range(
            rows @ _posterior(value, frame, own.prior_variance, refine).mean, labels
        )

    return Parts(algorithm, facts, encode, present, score=score)


def pvi_natural_gradient(file: StudyFile, own: choices.PviNaturalGradient) -> Parts:
    """Newton steps as `BayesianLogisticRegression` takes them: rows stay as they are."""
    likelihood, trust, frame = likelihood_named(own.link), file.trust.mode, Frame(file)

    def made(facts: Facts) -> tuple[Algorithm, Refine]:
        settings = natural.Settings(
            **_promise(file), prior_variance=own.prior_variance, rounds=own.rounds
        )
        settings = natural.for_intervals(
            settings, likelihood, facts, trust, frame.mean_square, own.clip
        )
        settings = replace(
            settings, damping=rounded(settings.damping), clip=rounded(settings.clip),
            bend_weight=rounded(settings.bend_weight),
        )  # fmt: skip
        algorithm = natural.natural_gradient_pvi(settings, likelihood)
        start = prior(facts.features, 0.0, own.prior_variance, full=True)
        return algorithm, aware_of_rounds(algorithm, facts, trust, start)

    return _two_classes(file, own, made, whole=True)


def pvi_dp_sga(file: StudyFile, own: choices.PviDpSga) -> Parts:
    chosen = own.model_dump(exclude={"name", "link"})
    settings = climbing.Settings(**chosen, **_promise(file))
    algorithm = climbing.dp_sga(settings, likelihood_named(own.link))
    return _two_classes(file, own, lambda facts: (algorithm, None))


def pvi_clipped_updates(file: StudyFile, own: choices.PviClippedUpdates) -> Parts:
    chosen = own.model_dump(exclude={"name", "link", "covariance"})
    settings = updates.Settings(
        **chosen, **_promise(file), unit=Unit.PARTY, full=own.covariance == "full"
    )
    algorithm = updates.clipped_update_inference(settings, likelihood_named(own.link))
    return _two_classes(file, own, lambda facts: (algorithm, None))


# ------------------------------------------------------------- what they share


def _promise(file: StudyFile) -> dict[str, Any]:
    privacy = file.privacy
    return {"epsilon": privacy.epsilon, "delta": privacy.delta, "relation": privacy.relation}


def _two_classes(
    file: StudyFile, own: choices.TwoClasses,
    made: Callable[[Facts], tuple[Algorithm, Refine | None]], whole: bool = False,
) -> Parts:  # fmt: skip
    """Labels -1 and +1, and rows (u, 1): as they are, or divided by their length r."""
    frame, scale = Frame(file), Frame(file).scaling("away from zero")
    facts = facts_of(file, len(frame.names) + 1)
    algorithm, refine = made(facts)

    def encode(values: Values) -> tuple[np.ndarray, ...]:
        rows = frame.rows(values)
        inner = scale.whole(rows) if whole else scale.rows(rows)[0]
        return inner, frame.labels(values, signed=True)

    def present(study: Study, result: Result) -> dict[str, Any]:
        scaled = _posterior(result.value, frame, own.prior_variance, refine)
        negative, positive = frame.classes
        shown = _shown(_in_units(scaled, scale, 1.0, 0.0), frame)
        if not whole:
            shown["note"] = f"{shown['note']} {SCORES}."
        return {"positive": positive, "negative": negative, **shown}

    def score(value: Any, arrays: tuple[np.ndarray, ...]) -> np.ndarray:
        rows, labels = arrays
        middle = _posterior(value, frame, own.prior_variance, refine).mean
        return (np.where(rows @ middle > 0, 1, -1) == labels).astype(float)

    return Parts(algorithm, facts, encode, present, score=score)


def _posterior(value: Any, frame: Frame, variance: float, refine: Refine | None) -> Posterior:
    """Of the scaled weights, made aware of the noise where the law of its effect is known."""
    names = (*frame.names, "intercept")
    return posterior_of(value, names, prior(len(names), 0.0, variance, full=True), refine)


def _in_units(found: Posterior, scale: Scaling, factor: float, offset: float) -> Posterior:
    """The posterior of factor · θ + (0, ..., offset) as weights of unscaled features."""
    slopes, intercepts = scale.coefficients(np.eye(len(found.mean)))
    matrix = factor * np.concatenate([slopes, intercepts[:, None]], axis=1).T
    shift = np.zeros(len(matrix))
    shift[-1] = offset
    return found.mapped(matrix, shift, found.names)


def _shown(found: Posterior, frame: Frame) -> dict[str, Any]:
    """Deviations only where they count the noise in; `learnt` false where they are the prior's."""
    numbers: dict[str, Any] = {"mean": found.mean.tolist()}
    shown: dict[str, Any] = {"names": list(found.names)}
    if found.noise_aware:
        numbers |= {"std": found.std.tolist(), "learnt": found.learnt.tolist()}
        shown["covariance"] = found.covariance.tolist()
    by_name = {word: dict(zip(found.names, own, strict=True)) for word, own in numbers.items()}
    return {
        "target": frame.target, **by_name, **shown, "noise_aware": found.noise_aware,
        "converged": found.converged, "floored": found.floored, "note": " ".join(found.notes),
    }  # fmt: skip


__all__ = [
    "one_shot_regression", "pvi_clipped_updates", "pvi_dp_sga", "pvi_natural_gradient"
]  # fmt: skip
