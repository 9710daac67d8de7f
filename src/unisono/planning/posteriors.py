"""How much wider privacy makes a posterior, before there are data.

A plan supposes features that are spread evenly over their public ranges and independent of each
other, and coefficients near the prior's mean. Then the information Λ that n records hold is known,
diagonal, and the posterior without privacy has the standard deviation 1 / sqrt(1/v₀ + Λ), v₀ the
prior's variance. With privacy:

    fisher-scoring        by `planning.widths`, of a column as it usually is
    one-shot-regression, pvi-natural-gradient   by `algorithms.noise_aware`, the very functions that
                                                will compute the posterior of the run
    pvi-clipped-updates   P = 1/v₀ + min(Λ, reach), reach = ρ T m C / sqrt(p), since updates are
                          clipped; noise of variance V = ρ² σ² T in P · mean: variance 1/P + V/P²
    pvi-dp-sga            P = 1/v₀ + Λ, V = σ² m / (q² T): as if all noisy steps were averaged

The last two are rough, the last one at best: their answers know nothing of their own noise, and
their results have no intervals.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from unisono.algorithms.noise_aware import RoundNoise, from_statistics, from_window, opened_variance
from unisono.algorithms.pvi_natural_gradient import Window, row_norms
from unisono.core.study import Study
from unisono.errors import InvalidInput
from unisono.models.posterior import LEARNT
from unisono.planning.noise import Noise
from unisono.planning.widths import widths_of
from unisono.problems.gaussian_family import Natural, covariance, prior
from unisono.problems.glm import GeneralizedLinear
from unisono.problems.likelihoods import likelihood_named

# The algorithms whose posteriors are predicted.
WIDTHS = (
    "fisher-scoring",
    "one-shot-regression",
    "pvi-natural-gradient",
    "pvi-clipped-updates",
    "pvi-dp-sga",
)
_EVEN = 1 / 3  # variance of a number that is even on [-1, 1]
_BEND = {"logistic": 0.25, "probit": 2 / math.pi}  # of -log p(y | score), at score 0


class Width(NamedTuple):
    """Standard deviations of a slope, in scaled units: private, not private, and the prior's."""

    private: float
    plain: float
    prior: float
    rough: bool

    @property
    def inflation(self) -> float:
        """By how much privacy widens the posterior."""
        return self.private / self.plain

    @property
    def learnt(self) -> bool:
        """Whether results would say more than that nothing was learnt."""
        return 1 - (self.private / self.prior) ** 2 >= LEARNT


def width_of(study: Study, noise: Noise) -> Width:
    """The posterior of a slope under a study, with and without privacy."""
    name, settings = study.algorithm.name, study.algorithm.settings
    if isinstance(study.method.problem, GeneralizedLinear):
        own = widths_of(study).typical
        return Width(own.std_error, own.sampling_error, settings["prior_sd"], rough=False)
    if name not in WIDTHS:
        raise InvalidInput(
            f"nobody has measured how wide the posteriors of {name} get: they are not predicted; "
            "its noise is in `unisono check`"
        )
    start = settings["prior_variance"]
    information = _information(study, settings)
    plain = 1 / np.sqrt(1 / start + information)
    match name:
        case "one-shot-regression":
            private = _from_statistics(study, settings, information)
        case "pvi-natural-gradient":
            private = _from_window(study, settings, information)
        case "pvi-clipped-updates":
            reach = settings["damping"] * noise.rounds * noise.units * noise.bound
            known = 1 / start + np.minimum(information, reach / math.sqrt(noise.numbers))
            left = (settings["damping"] * noise.std) ** 2 * noise.rounds
            private = np.sqrt(1 / known + left / known**2)
        case _:
            known = 1 / start + information
            rate = noise.units / sum(study.facts.records)
            left = (noise.std / rate) ** 2 / noise.rounds
            private = np.minimum(np.sqrt(1 / known + left / known**2), math.sqrt(start))
    rough = name not in ("one-shot-regression", "pvi-natural-gradient")
    return Width(float(private[0]), float(plain[0]), math.sqrt(start), rough)


def _information(study: Study, settings: Mapping[str, Any]) -> np.ndarray:
    """Λ (d,): what all records know of each coefficient; the intercept comes last."""
    d, n = study.facts.features, sum(study.facts.records)
    squares = np.full(d, _EVEN)
    squares[-1] = 1.0
    if "noise_std" in settings:  # a line with normal errors, over rows as they are
        return n * squares / settings["noise_std"] ** 2
    known = n * _BEND[settings["likelihood"]] * squares
    if study.algorithm.name == "pvi-natural-gradient":  # long rows are weighted down
        reach = row_norms(
            likelihood_named(settings["likelihood"]),
            settings["curvature_weight"],
            math.sqrt(squares.sum()),
        )
        return known * min(1.0, settings["clipping_norm"] / reach)
    # Rows (u, 1) are divided by their length, about the square root of the sum of these.
    return known / squares.sum()


def _from_statistics(study: Study, settings: Mapping[str, Any], known: np.ndarray) -> np.ndarray:
    spread = settings["noise_std"]
    first = prior(len(known), 0.0, settings["prior_variance"], full=True)
    answer = Natural(np.asarray(first.shift), np.asarray(first.precision) + np.diag(known))
    variance = opened_variance(_event(study), study.facts, study.trust)
    return _deviations(from_statistics(answer, first, spread, variance))


def _from_window(study: Study, settings: Mapping[str, Any], known: np.ndarray) -> np.ndarray:
    """As if the rounds had arrived at the prior's mean."""
    first, size = prior(len(known), 0.0, settings["prior_variance"], full=True), len(known)
    rounds = settings["rounds"] - int(settings["rounds"] * (1 - settings["average_last"]))
    nowhere, bends = np.zeros((2, size)), np.stack([np.diag(known)] * 2)
    window = Window(nowhere, nowhere, bends, np.array([0.0, max(1, rounds)]))
    variance = opened_variance(_event(study), study.facts, study.trust)
    noise = RoundNoise(variance, variance / settings["curvature_weight"] ** 2)
    return _deviations(from_window(window, first, noise))


def _event(study: Study) -> Any:
    return study.algorithm.event(study.facts, study.trust)


def _deviations(found: Natural) -> np.ndarray:
    return np.sqrt(np.diag(covariance(found)))


__all__ = ["WIDTHS", "Width", "width_of"]
