"""How wide intervals of survival curves will be, and what a log-rank test will find, before there
are data.

Supposed are groups of equal size with the same constant hazard, and records that are all followed
up to the horizon, at which a given share has had the event, a half unless told; intervals of time
that hold equally many events, or end at public visits. The table that this would make goes through
the estimate of the curves (`algorithms.survival_curves`) with the noise of the study, and once
without.

The log-rank test of two groups has the numerator U = Σ u of scores up to a radius R
(`algorithms.log_rank`). With D events, hazards h of intervals and shares π, for a
hazard ratio e^β not far from 1,

    E U = √2 β D (1 - h/2) π (1 - π),     Var U = 2 D (1 - h) π (1 - π) + R² σ²

in the orthonormal coordinate of the release, and power is Φ(|E U| / sd - 1.96) + Φ(-...).
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from unisono.algorithms import log_rank, survival_table
from unisono.algorithms.exit_times import Intervals, number_for
from unisono.algorithms.survival_curves import Numbers, TimeCounts, estimate
from unisono.core.study import Study
from unisono.errors import InvalidInput
from unisono.problems.survival import SurvivalTimes
from unisono.releases.release import price
from unisono.releases.table import lone_weight

_TEST = float(ndtri(0.975))


@dataclass(frozen=True)
class PlannedPoint:
    """At a share of the horizon: survival, and half the width of its 95 % interval with and without
    noise; None where noise will drown it."""

    time: float
    survival: float
    reach: float | None
    without_privacy: float


@dataclass(frozen=True)
class CurveWidths:
    """One group's curve stands for all; the deviation of the log hazard ratio that the log-rank
    test is about, with and without noise, where there are two groups."""

    records: int
    groups: int
    bins: int
    points: tuple[PlannedPoint, ...]
    ratio_error: float | None
    ratio_error_alone: float | None

    def power(self, ratio: float) -> float | None:
        """How often a hazard ratio is found by the 5 % test."""
        if not ratio > 0:
            raise InvalidInput(f"effect = {ratio!r}: a hazard ratio is above zero, as 1.5")
        if self.ratio_error is None:
            return None
        size = abs(math.log(ratio)) / self.ratio_error
        return float(ndtr(size - _TEST) + ndtr(-size - _TEST))


def curve_widths(
    first: Study, second: Study | None = None, share: float | None = None
) -> CurveWidths:
    """The prediction for a study's table, and for its log-rank test if it has one."""
    problem = first.method.problem
    share = 0.5 if share is None else share
    if not isinstance(problem, SurvivalTimes) or not 0 < share < 1:
        raise InvalidInput(
            f"share = {share!r} of {first.algorithm.name}: curves are predicted of tables of "
            "times, with a share of events between 0 and 1"
        )
    method, facts, trust = first.method, first.facts, first.trust
    config = survival_table.resolve(method.config, problem, facts, method.privacy, trust)
    priced = price(survival_table.release(config, problem, facts), method.privacy, facts, trust)
    noise = priced.noise_std / lone_weight(priced.step)
    groups, records = len(problem.groups), sum(facts.records)
    if problem.visits:
        left = (1 - share) ** np.array([0.0, *problem.visits])
    else:
        left = np.linspace(1.0, 1 - share, 1 + number_for(share, 1.0, config.bins or 1))
    intervals = Intervals(np.log(left) / math.log(1 - share))
    counts = _expected(left, groups, records)
    numbers = Numbers(noise, float(records), laplace=bool(method.privacy.pure))
    names = problem.groups
    noisy = estimate(counts, numbers, names, intervals, 1.0).curves[0]
    quiet = estimate(counts, Numbers(0.0, float(records)), names, intervals, 1.0).curves[0]
    points, times = [], intervals.cuts
    near = {int(np.argmin(np.abs(times - part))) for part in (0.25, 0.5, 0.75, 1.0)}
    for place in sorted(near - {0}):
        reach = float(noisy.high[place] - noisy.low[place]) / 2
        plain = float(quiet.high[place] - quiet.low[place]) / 2
        known = bool(noisy.determined[place])
        points.append(
            PlannedPoint(
                float(times[place]), float(quiet.survival[place]), reach if known else None, plain
            )
        )
    errors: tuple[float | None, float | None] = (None, None)
    if second is not None and groups == 2:
        errors = _ratio_errors(second, counts, intervals, noise)
    return CurveWidths(records, groups, len(left) - 1, tuple(points), *errors)


def _expected(left: np.ndarray, groups: int, records: int) -> TimeCounts:
    """The table of supposed records, of whom such shares (K + 1,) are left at ends of intervals."""
    one = np.concatenate([-np.diff(left), np.zeros(len(left) - 1), left[-1:]])
    cells = np.tile(one * records / groups, (groups, 1))
    return TimeCounts(cells, np.zeros((groups, 2 * len(left) - 2)))


def _ratio_errors(
    study: Study, counts: TimeCounts, intervals: Intervals, noise: float
) -> tuple[float, float]:
    """Deviations of U over its slope in the log hazard ratio, with noise and without."""
    method, facts, trust = study.method, study.facts, study.trust
    released = log_rank.release(method.config, method.problem, facts)
    priced = price(released, method.privacy, facts, trust)
    known = log_rank.known_of(counts, noise)
    course = log_rank.course_of(known, intervals.cuts, centred=facts.exact_sizes)
    events, hazards = known.events * known.counts, known.hazards
    own = course.radius * priced.noise_std / lone_weight(priced.step)
    slope = math.sqrt(2) / 4 * float(np.sum(events * (1 - hazards / 2)))
    variance = float(np.sum(events * (1 - hazards))) / 2
    return math.sqrt(variance + own**2) / slope, math.sqrt(variance) / slope


__all__ = ["CurveWidths", "PlannedPoint", "curve_widths"]
