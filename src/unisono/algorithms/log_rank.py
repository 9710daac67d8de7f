"""The log-rank test, private: a table of times first, then one bounded score of each record.

From the table (`survival_table`) everybody knows, for each of its intervals j, a hazard h_j of all
groups together and the shares π_j of the groups among those at risk. A record of group g adds

    u = Σ_j (e_g - π_j) (dN_j - Y_j h_j)               over the intervals up to the horizon

with dN_j = 1 where it has its event, and Y_j = 1 where it is at risk, or its place f in the
interval in which it is censored. If the groups' hazards are equal this is a martingale. The
hypothesis is that hazards are equal *on the intervals*, which equal curves imply. Intervals count
until the hazards add up to 3, or until too few are at risk for the noise of the table, so that a
score is bounded whatever the record holds. A sum over records is the numerator of the log-rank test
(Mantel 1966) of grouped times, with both terms centred: errors of h and of π come into its
expectation only as a product (Neyman 1959; Chernozhukov et al. 2018), which a table with much noise
affords. A score that is centred by constant shares rejects too often where groups are censored
differently.

Scores of G groups add up to nothing, so they have G - 1 coordinates. In them the score of a record
lies within a public radius R of a public centre, computed from h and π: a score is linear in f, so
that ends of intervals are the farthest. It is moved into that ball in any case. Between two records
it then differs by 2 R at most: that, and the price, are known before the table is.

    U ~ N(0, V),     V = Σ_j D_j (1 - h_j) (diag π_j - π_j π_jᵀ)  +  R² σ²  +  E[b bᵀ]

D_j are events; 1 - h is the hypergeometric factor of ties. The last term is what is left of the
product, with estimates π' and h' of shares and hazards b = Σ_j E_j (π_j - π_j')(h_j - h_j'): its
size is found by adding the table's noise again, 200 times with a public seed. Uᵀ V⁻¹ U is compared
with the chi-square distribution of G - 1 degrees of freedom.
"""

import math
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from scipy.special import chdtrc

from unisono.algorithms.exit_times import OneSum, no_sum, opened_sum
from unisono.algorithms.noise_law import sum_law
from unisono.algorithms.survival_curves import Numbers, TimeCounts, redrawn, split
from unisono.algorithms.survival_table import (
    SURVIVAL_TABLE,
    cells_of,
    packed_size,
    unpacked_table,
    visits_of,
)
from unisono.core.algorithm import Aggregate, Facts
from unisono.core.privacy import Privacy
from unisono.core.trust import Trust
from unisono.errors import InvalidInput
from unisono.problems.survival import BEYOND, MOST_BINS, SurvivalTimes
from unisono.releases.algorithm import Algorithm, AlgorithmConfig, AlgorithmKind, Earlier
from unisono.releases.release import Priced, Release
from unisono.releases.rows import BallPoint, Interval, Rows
from unisono.releases.table import Block, Table, TableRecords, codes, lone_weight

# Of the promise, the parts that pay for the table with its intervals, and for the table alone; in
# squares of μ it is a half.
_TABLE_SHARE = {True: 0.5, False: 0.55}
_LEAST_SHARE = 0.02  # of a group among those at risk
_MOST_HAZARD = 3.0  # up to which records count
_DROWNED = 3.0  # deviations of its noise below which a pooled number at risk says nothing
_DRAWS, _SEED = 200, 21
_LOST = 5  # intervals where there is no table


class LogRankConfig(AlgorithmConfig):
    """What is public says everything."""


def resolve(
    config: LogRankConfig, problem: SurvivalTimes, facts: Facts, privacy: Privacy, trust: Trust
) -> LogRankConfig:
    if len(problem.groups) < 2:
        raise InvalidInput(
            "log-rank compares groups, and there is one: name a column of groups with by, or use "
            "survival-table, which draws its curve"
        )
    if privacy.pure:
        raise InvalidInput(
            "log-rank with delta = 0: its test takes Gaussian noise; set delta, for example 1e-6, "
            "or use survival-table, whose curves need none"
        )
    return config


# ------------------------------------------------------------- what a record adds


class Course(NamedTuple):
    """What everybody knows from the table: ends of K intervals (K + 1,), which of them count (K,),
    hazards (K,) and shares of groups (K, G) in them; the centre (G - 1,) and the radius of scores.
    """

    cuts: Any
    counts: Any
    hazards: Any
    shares: Any
    centre: Any
    radius: Any


def basis(groups: int) -> np.ndarray:
    """Orthonormal directions (G, G - 1) in which numbers of groups that add up to 0 differ.

    >>> basis(2).round(3).ravel()
    array([-0.707,  0.707])
    """
    made = np.zeros((groups, groups - 1))
    for place in range(1, groups):  # each group against the mean of those before it
        made[:place, place - 1], made[place, place - 1] = -1.0 / place, 1.0
    return np.asarray(made / np.linalg.norm(made, axis=0))


def scores(xp: Any, course: Course, time: Any, event: Any, group: Any) -> Any:
    """Σ over records is the test's numerator: (n, G - 1), of a group's number in 0 .. G - 1."""
    bins, groups = course.shares.shape
    cell, place = cells_of(time, event, course.cuts, xp)
    interval, beyond, happened = cell % bins, cell == 2 * bins, cell < bins
    own = (group[:, None] == xp.arange(groups)) * 1.0
    spent = xp.concatenate([xp.zeros(1), xp.cumsum(course.hazards)])
    steps = course.shares * course.hazards[:, None]
    expected = xp.concatenate([xp.zeros((1, groups)), xp.cumsum(steps, axis=0)])
    before = xp.where(beyond, bins, interval)
    score = expected[before] - own * spent[before][:, None]
    exposed = xp.where(beyond, 0.0, xp.where(happened, 1.0, place)) * course.hazards[interval]
    jump = xp.where(happened, course.counts[interval], 0.0) - exposed
    score = score + jump[:, None] * (own - course.shares[interval])
    return score @ xp.asarray(basis(groups))


def table(config: LogRankConfig, problem: SurvivalTimes, facts: Facts) -> Table:
    """The score in units of its radius. A record that misses something has score 0."""
    groups = len(problem.groups)
    rows: Rows = Interval(-1.0, 2.0) if groups == 2 else BallPoint(groups - 1)

    def values(public: Course, records: Any) -> Any:
        time, event, group = (records[:, place] for place in range(3))
        number = codes(group, groups)
        there = jnp.isfinite(time + event) & (number >= 0)
        own = scores(
            jnp, public, jnp.nan_to_num(time), jnp.nan_to_num(event), jnp.maximum(number, 0)
        )
        point = (jnp.where(there[:, None], own, 0.0) - public.centre) / public.radius
        return point[:, 0] if groups == 2 else point

    return Table((Block("scores", rows, values),), group=facts.group)


# ------------------------------------------------------------- from the table to the course


class Known(NamedTuple):
    """Tables, read: hazards of all groups in intervals (..., K), shares of groups (..., K, G), how
    many are exposed and have events (..., K), and which intervals count (..., K)."""

    hazards: np.ndarray
    shares: np.ndarray
    exposed: np.ndarray
    events: np.ndarray
    counts: np.ndarray


def known_of(table: TimeCounts, noise: float) -> Known:
    """What tables (..., groups, cells) say of all groups together."""
    events, _, at_risk = split(table.cells)
    bins, groups = events.shape[-1], events.shape[-2]
    of_tail = noise * np.sqrt(2.0 * np.arange(bins, 0, -1) + 1)
    happened = np.maximum(events.sum(axis=-2), 0.0)
    exposed = np.maximum(table.exposed.sum(axis=-2), max(2 * noise, 1e-9))
    hazards = np.clip(happened / exposed, 0.0, 1.0)
    pooled = at_risk.sum(axis=-2) < _DROWNED * math.sqrt(groups) * of_tail
    late = np.cumsum(hazards, axis=-1) - hazards >= _MOST_HAZARD
    counts = ~np.maximum.accumulate(pooled | late, axis=-1)
    # A number at risk never rises; those exposed are less by the same as before.
    falling = np.maximum(np.minimum.accumulate(at_risk, axis=-1), 0.0) + table.exposed - at_risk
    own = np.maximum(falling, _LEAST_SHARE * exposed[..., None, :])
    shares = np.clip(own / own.sum(axis=-2, keepdims=True), _LEAST_SHARE, 1.0)
    shares = np.swapaxes(shares / shares.sum(axis=-2, keepdims=True), -1, -2)
    return Known(hazards, shares, own.sum(axis=-2), happened, counts)


def course_of(known: Known, cuts: np.ndarray, *, centred: bool) -> Course:
    """All that scores depend on."""
    groups = known.shares.shape[1]
    counts = known.counts.astype(float)
    hazards = known.hazards * counts
    course = Course(cuts, counts, hazards, known.shares, np.zeros(groups - 1), 1.0)
    ends = np.append(cuts, BEYOND)  # scores are linear in a place, and events' do not depend on it
    every = [
        scores(np, course, ends, np.full(len(ends), event), np.full(len(ends), group))
        for event in (0.0, 1.0)
        for group in range(groups)
    ]
    seen = np.concatenate(every)
    centre = (seen.max(axis=0) + seen.min(axis=0)) / 2 if centred else np.zeros(groups - 1)
    radius = float(np.linalg.norm(seen - centre, axis=1).max())
    return course._replace(centre=centre, radius=max(radius, 1e-3))


# ------------------------------------------------------------- the algorithm


class LogRankState(NamedTuple):
    """The server's: the course; the table that it was made of, as it was released; then the sum of
    points (G - 1,)."""

    course: Course
    table: Any
    opened: OneSum


def release(config: LogRankConfig, problem: SurvivalTimes, facts: Facts) -> Release:
    return Release(table(config, problem, facts))


def build(config: LogRankConfig, problem: SurvivalTimes, facts: Facts, priced: Priced) -> Algorithm:
    groups, weight = len(problem.groups), lone_weight(priced.step)

    def begin(found: Any) -> tuple[LogRankState, None]:
        released = np.zeros(packed_size(groups)) if found is None else np.asarray(found)
        # A public number of records says what the centre has added up to.
        course = _course(problem, released, facts)
        as_float = Course(*(jnp.asarray(part, jnp.float32) for part in course))
        return LogRankState(as_float, jnp.asarray(released, jnp.float32), no_sum(groups - 1)), None

    def merge(state: LogRankState, sums: Aggregate) -> LogRankState:
        opened = opened_sum(sums, weight)
        points = opened.total if groups == 2 else opened.total[1:]
        return state._replace(opened=opened._replace(total=points))

    return Algorithm(
        init=lambda: begin(None),
        begin=begin,
        ask=lambda state: state.course,
        local=TableRecords(facts.group),
        merge=merge,
        result=lambda state: state,
    )


def _course(problem: SurvivalTimes, released: np.ndarray, facts: Facts) -> Course:
    """The course, with intervals of no length after the last one, so that its size is public."""
    if released[-2] > 0:
        own = unpacked_table(released, problem)
        known, cuts = known_of(own.counts_of(facts), own.noise), own.intervals.cuts
    else:  # of a table that was lost there is no test, whatever scores are
        alike = np.ones((_LOST, len(problem.groups))) / len(problem.groups)
        known = Known(
            np.full(_LOST, 1 / _LOST), alike, np.ones(_LOST), np.ones(_LOST), alike[:, 0] > 0
        )
        cuts = np.arange(_LOST + 1) / _LOST
    course = course_of(known, cuts, centred=facts.exact_sizes)
    less, groups = MOST_BINS - len(known.hazards), len(problem.groups)
    return course._replace(
        cuts=np.pad(course.cuts, (0, less), constant_values=1.0),
        counts=np.pad(course.counts, (0, less)),
        hazards=np.pad(course.hazards, (0, less)),
        shares=np.pad(course.shares, ((0, less), (0, 0)), constant_values=1 / groups),
    )


class LogRank(NamedTuple):
    """The test: a chi-square statistic; and in each group how many events more there were than
    under equal hazards on the intervals, with the deviation of that."""

    statistic: float
    degrees: int
    p_value: float
    excess: tuple[float, ...]
    excess_sd: tuple[float, ...]
    privacy_share: float

    def to_json(self, groups: tuple[str, ...]) -> dict[str, Any]:
        return {
            "statistic": self.statistic,
            "degrees": self.degrees,
            "p_value": self.p_value,
            "observed_minus_expected": dict(zip(groups, self.excess, strict=True)),
            "std_error": dict(zip(groups, self.excess_sd, strict=True)),
            "privacy_share": self.privacy_share,
        }


def log_rank_of(study: Any, value: LogRankState) -> LogRank | None:
    """The test of a finished study; None if too few parties answered its second round."""
    survivors = int(value.opened.survivors)
    if survivors == 0:
        return None
    problem, facts, trust = study.method.problem, study.facts, study.trust
    own = unpacked_table(value.table, problem)
    algorithm = study.algorithm
    step = algorithm.grid(facts, trust)
    law = sum_law(algorithm.event(facts, trust), facts, trust, survivors, step)
    noise = law.std / lone_weight(step)
    course = Course(*(np.asarray(part, np.float64) for part in value.course))
    total = course.radius * np.asarray(value.opened.total, np.float64)
    if facts.exact_sizes:
        total = total + float(value.opened.records) * course.centre
    information, product = variances(own.counts_of(facts), own.noise, own.numbers(facts, trust))
    added = (course.radius * noise) ** 2 * np.eye(len(total)) + product
    covariance = information + added
    statistic = float(total @ np.linalg.solve(covariance, total))
    back = basis(len(problem.groups))
    whole = np.diag(back @ covariance @ back.T)
    return LogRank(
        statistic,
        len(total),
        float(chdtrc(len(total), statistic)),
        tuple(float(one) for one in back @ total),
        tuple(math.sqrt(max(float(one), 0.0)) for one in whole),
        float(np.trace(added) / np.trace(covariance)),
    )


def variances(table: TimeCounts, nominal: float, numbers: Numbers) -> tuple[np.ndarray, np.ndarray]:
    """What scores vary by themselves, and by errors of hazards and shares: (G - 1, G - 1) each.
    The course was made with the `nominal` noise of the table."""
    known = known_of(table, nominal)
    groups = known.shares.shape[1]
    turned = basis(groups)
    spread = [
        number * (np.diag(share) - np.outer(share, share))
        for number, share in zip(
            known.events * known.counts * (1 - known.hazards), known.shares, strict=True
        )
    ]
    information = turned.T @ np.sum(spread, axis=0) @ turned + 0.5 / groups * np.eye(groups - 1)
    truth = redrawn(table, numbers, 1)[0]
    generator = np.random.default_rng(_SEED)
    noisy = TimeCounts(
        *(part + numbers.noise * generator.standard_normal((_DRAWS, *part.shape)) for part in truth)
    )
    base, again = known_of(truth, nominal), known_of(noisy.shifted(numbers.records), nominal)
    lost = known.counts * base.exposed * (base.hazards - again.hazards)
    lost = np.einsum("dk,dkg->dg", lost, base.shares - again.shares) @ turned
    return information, lost.T @ lost / _DRAWS


def earlier(config: LogRankConfig, problem: SurvivalTimes) -> Earlier | None:
    return Earlier(SURVIVAL_TABLE, _TABLE_SHARE[bool(visits_of(problem))])


LOG_RANK = AlgorithmKind(
    "log-rank",
    "a table of times for curves with bands, then one bounded score a record for the log-rank test",
    LogRankConfig,
    SurvivalTimes,
    release,
    build,
    resolve,
    unit_rows=False,
    sends="noisy counts by time, and a noisy sum of bounded scores",
    earlier=earlier,
)

__all__ = ["LOG_RANK", "LogRank", "LogRankConfig", "LogRankState", "log_rank_of"]
