"""Bayesian models: a normal distribution of the weights, in the user's units.

The prior N(0, prior_variance) holds in scaled units (`estimators.bayesian`). Where the law of the
noise in the answer is known, the posterior allows for it (`estimators.noise_aware`); where not,
the result says that its intervals are too narrow.
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
from unisono.core.trust import Trust, Unit
from unisono.estimators.noise_aware import Descent, from_descent, from_statistics, opened_variance
from unisono.estimators.posterior import Posterior
from unisono.estimators.scaling import Scaling
from unisono.models.gaussian_family import Natural, covariance, mean, prior
from unisono.models.likelihoods import likelihood_named
from unisono.studies import settings as choices
from unisono.studies.plan import Parts, facts_of, rounded, share_of_range
from unisono.studies.schema import StudyFile
from unisono.studies.table import Frame, Values

Refine = Callable[[Natural], Natural]


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
    variance = _variance(algorithm, facts, file.trust.mode)

    def encode(values: Values) -> tuple[np.ndarray, ...]:
        return scale.whole(frame.rows(values)), frame.labels(values, signed=False)

    def refine(q: Natural) -> Natural:
        return from_statistics(q, start, spread, variance)

    def present(study: Study, result: Result) -> dict[str, Any]:
        found = _posterior(result.value, frame, refine)
        return _shown(_in_units(found, scale, targets.half, targets.centre), frame)

    def score(value: Any, arrays: tuple[np.ndarray, ...]) -> np.ndarray:
        rows, labels = arrays
        return share_of_range(rows @ _posterior(value, frame, refine).mean, labels)

    return Parts(algorithm, facts, encode, present, score=score)


def pvi_natural_gradient(file: StudyFile, own: choices.PviNaturalGradient) -> Parts:
    """Steps as `BayesianLogisticRegression` takes them, damped by the published rule."""
    likelihood, trust = likelihood_named(own.link), file.trust.mode

    def made(facts: Facts) -> tuple[Algorithm, Refine]:
        settings = natural.Settings(
            **_promise(file), prior_variance=own.prior_variance, full=own.covariance == "full",
            clip=own.clip, rounds=own.rounds, step=0.3, momentum=0.5, memory=0.5,
        )  # fmt: skip
        settings = natural.damped_for_noise(settings, likelihood, facts, trust)
        settings = replace(settings, damping=rounded(settings.damping))
        algorithm = natural.natural_gradient_pvi(settings, likelihood)
        descent = Descent(
            settings.rounds, settings.step, settings.momentum, settings.damping, settings.averaged,
            _variance(algorithm, facts, trust),
        )  # fmt: skip
        start = prior(facts.features, 0.0, own.prior_variance, full=True)
        return algorithm, lambda q: from_descent(q, start, descent)

    return _two_classes(file, made)


def pvi_dp_sga(file: StudyFile, own: choices.PviDpSga) -> Parts:
    chosen = own.model_dump(exclude={"name", "link"})
    settings = climbing.Settings(**chosen, **_promise(file))
    algorithm = climbing.dp_sga(settings, likelihood_named(own.link))
    return _two_classes(file, lambda facts: (algorithm, None))


def pvi_clipped_updates(file: StudyFile, own: choices.PviClippedUpdates) -> Parts:
    chosen = own.model_dump(exclude={"name", "link", "covariance"})
    settings = updates.Settings(
        **chosen, **_promise(file), unit=Unit.PARTY, full=own.covariance == "full"
    )
    algorithm = updates.clipped_update_inference(settings, likelihood_named(own.link))
    return _two_classes(file, lambda facts: (algorithm, None))


# ------------------------------------------------------------- what they share


def _promise(file: StudyFile) -> dict[str, Any]:
    privacy = file.privacy
    return {"epsilon": privacy.epsilon, "delta": privacy.delta, "relation": privacy.relation}


def _two_classes(
    file: StudyFile, made: Callable[[Facts], tuple[Algorithm, Refine | None]]
) -> Parts:
    """Rows (u, 1) / r in the unit ball, and labels -1 and +1."""
    frame, scale = Frame(file), Frame(file).scaling("away from zero")
    facts = facts_of(file, len(frame.names) + 1)
    algorithm, refine = made(facts)

    def encode(values: Values) -> tuple[np.ndarray, ...]:
        return scale.rows(frame.rows(values))[0], frame.labels(values, signed=True)

    def present(study: Study, result: Result) -> dict[str, Any]:
        found = _in_units(_posterior(result.value, frame, refine), scale, 1.0, 0.0)
        negative, positive = frame.classes
        return {"positive": positive, "negative": negative, **_shown(found, frame)}

    def score(value: Any, arrays: tuple[np.ndarray, ...]) -> np.ndarray:
        rows, labels = arrays
        middle = _posterior(value, frame, refine).mean
        return (np.where(rows @ middle > 0, 1, -1) == labels).astype(float)

    return Parts(algorithm, facts, encode, present, score=score)


def _variance(algorithm: Algorithm, facts: Facts, trust: Trust) -> float:
    return opened_variance(algorithm.event(facts, trust), facts, trust)


def _posterior(value: Any, frame: Frame, refine: Refine | None) -> Posterior:
    """Of the scaled weights, made aware of the noise where the law of its effect is known."""
    precision = np.asarray(value.precision, float)
    full = precision if precision.ndim == 2 else np.diag(precision)
    answer = Natural(np.asarray(value.shift, float), full)
    q = answer if refine is None else refine(answer)
    names = (*frame.names, "intercept")
    return Posterior(mean(q), covariance(q), names, int(value.floored), refine is not None)


def _in_units(found: Posterior, scale: Scaling, factor: float, offset: float) -> Posterior:
    """The posterior of factor · θ + (0, ..., offset) as weights of unscaled features."""
    slopes, intercepts = scale.coefficients(np.eye(len(found.mean)))
    matrix = factor * np.concatenate([slopes, intercepts[:, None]], axis=1).T
    shift = np.zeros(len(matrix))
    shift[-1] = offset
    return found.mapped(matrix, shift, found.names)


def _shown(found: Posterior, frame: Frame) -> dict[str, Any]:
    numbers = {"mean": found.mean, "std": found.std}
    return {
        "target": frame.target,
        **{word: dict(zip(found.names, map(float, own), strict=True))
           for word, own in numbers.items()},
        "names": list(found.names),
        "covariance": found.covariance.tolist(),
        "noise_aware": found.noise_aware,
        "floored": found.floored,
        "note": found.summary().splitlines()[len(found.names) + 1],
    }  # fmt: skip


__all__ = [
    "one_shot_regression", "pvi_clipped_updates", "pvi_dp_sga", "pvi_natural_gradient"
]  # fmt: skip
