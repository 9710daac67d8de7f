"""The log-rank test, private: a table of times first, then one bounded score of each record.

From the table (`survival_table`) everybody knows a hazard Λ₀ of all groups together and the share
π_g(t) of each group among those at risk, a straight line in time. A record of group g adds

    u = ∫ (e_g - π(t)) (dN(t) - Y(t) dΛ₀(t))          over t from 0 to τ, with Λ₀(τ) = 1

with N its event and Y whether it is at risk: if the groups' hazards are equal this is a martingale,
stopped where Λ₀ is 1, so that it is bounded whatever the record holds. A sum over records is the
numerator of the log-rank test (Mantel 1966), with both terms centred: errors of Λ₀ and of π come
into its expectation only as a product (Neyman 1959; Chernozhukov et al. 2018), which a table with
much noise affords. A score that is centred by constant shares rejects too often where groups are
censored differently.

Scores of G groups add up to nothing, so they have G - 1 coordinates. In them the score of a record
lies within a public radius R of a public centre, computed from Λ₀ and π; it is moved into that ball
in any case. Between two records it then differs by 2 R at most: that, and the price, are known
before the table is.

    U ~ N(0, V),     V = Σ_k D_k (diag π - π πᵀ)  +  R² σ²  +  E[b bᵀ]

D_k are events up to τ. The last term is what is left of the product, with estimates π' and h' of
shares and hazards b = Σ_k N_k (π - π')(h - h'): its size is found by adding the table's noise
again, 200 times with a public seed. Uᵀ V⁻¹ U is compared with the chi-square law of G - 1 degrees
of freedom.
"""

import math
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from pydantic import Field
from scipy.special import chdtrc

from unisono.algorithms.noise_law import sum_law
from unisono.algorithms.survival_curves import nearest_counts, shifted, split
from unisono.algorithms.survival_table import (
    MOST_BINS,
    SURVIVAL_TABLE,
    SurvivalTable,
    packed,
    unpacked_table,
)
from unisono.core.algorithm import Aggregate, Facts
from unisono.core.privacy import Privacy
from unisono.core.trust import Trust
from unisono.errors import InvalidInput
from unisono.problems.survival import SurvivalTimes
from unisono.releases.algorithm import Algorithm, AlgorithmConfig, AlgorithmKind, Earlier
from unisono.releases.release import Priced, Release
from unisono.releases.rows import BallPoint, Interval, Rows
from unisono.releases.table import Block, Table, TableRecords, codes, lone_weight

# Of the promise, the part that pays for the table; in squares of μ it is 4 tenths.
TABLE_SHARE = 0.45
# Λ₀ and π are told at so many points of time, whatever the table's intervals were.
_POINTS = 240
_LEAST_SHARE = 0.02  # of a group among those at risk
_DRAWS, _SEED = 200, 21


class LogRankConfig(AlgorithmConfig):
    """What is public says everything else."""

    stop_at: float = Field(
        1.0,
        gt=0,
        le=3,
        description="Records count until the cumulative hazard of all groups reaches this.",
    )


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
    """What everybody knows from the table, at `_POINTS` + 1 equal steps of time: Λ₀ (m,), the
    groups' shares (m, G) and their integrals over Λ₀ (m, G); when records stop to count; the centre
    (G - 1,) and the radius of scores."""

    hazard: Any
    shares: Any
    expected: Any
    stop: Any
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
    groups = course.shares.shape[1]
    own = (group[:, None] == xp.arange(groups)) * 1.0
    until = xp.clip(xp.minimum(time, course.stop), 0.0, 1.0)
    happened = xp.where((event > 0.5) & (time <= course.stop), 1.0, 0.0)[:, None]
    place = xp.clip(xp.floor(_POINTS * until), 0, _POINTS - 1).astype("int32")
    part = (_POINTS * until - place)[:, None]
    step = (course.hazard[place + 1] - course.hazard[place])[:, None]
    slope = course.shares[place + 1] - course.shares[place]
    share = course.shares[place] + slope * part
    hazard = course.hazard[place][:, None] + step * part
    expected = course.expected[place] + step * part * (course.shares[place] + slope * part / 2)
    score = happened * (own - share) - (own * hazard - expected)
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
    """Tables, read: hazards of all groups in intervals (..., K), shares of groups (..., K + 1, G)
    at their ends, and records at risk and events of all groups (..., K)."""

    hazards: np.ndarray
    shares: np.ndarray
    at_risk: np.ndarray
    events: np.ndarray


def known_of(cells: np.ndarray, noise: float, records: float | None) -> Known:
    """What tables (..., groups, 2 K + 1) say of all groups together."""
    raw = shifted(cells, records)
    count = np.maximum(1.0, raw.sum(axis=(-2, -1)))
    events, censored, at_risk = (part.sum(axis=-2) for part in split(nearest_counts(raw, count)))
    exposed = at_risk - (events + censored) / 2
    hazards = np.clip(events / np.maximum(exposed, 1.0), 0.0, 2.0)
    return Known(hazards, _shares(raw, noise, exposed, hazards), exposed, events)


def _shares(raw: np.ndarray, noise: float, exposed: np.ndarray, hazards: np.ndarray) -> np.ndarray:
    """Straight lines in time, fitted to the noisy shares by their precision while records count."""
    _, _, by_group = split(raw)
    bins = exposed.shape[-1]
    whole = np.maximum(by_group.sum(axis=-2, keepdims=True), max(noise, 1.0))
    found = np.clip(by_group / whole, 0.0, 1.0)
    at_least = np.maximum(exposed, 1.0)
    variance = noise**2 * (2 * np.arange(bins, 0, -1) + 1) + at_least / 4
    counts = np.cumsum(hazards, axis=-1) - hazards < 1.0
    weights = at_least**2 / variance * counts
    ends = np.column_stack([np.ones(bins + 1), np.arange(bins + 1) / bins])
    weighed = weights[..., None, :] * ends[:-1].T
    # Slopes are held back a little, or a single interval would leave them open.
    held = 0.01 * weights.sum(axis=-1)[..., None, None] * np.diag([0.0, 1.0])
    lines = np.linalg.solve(weighed @ ends[:-1] + held, weighed @ np.swapaxes(found, -1, -2))
    shares = np.clip(ends @ lines, _LEAST_SHARE, 1.0)
    return np.asarray(shares / shares.sum(axis=-1, keepdims=True))


def course_of(known: Known, stop_at: float, *, centred: bool) -> Course:
    """All that scores depend on."""
    bins, groups = len(known.hazards), known.shares.shape[1]
    ends, points = np.arange(bins + 1) / bins, np.arange(_POINTS + 1) / _POINTS
    hazard = np.interp(points, ends, np.concatenate([[0.0], np.cumsum(known.hazards)]))
    shares = np.stack([np.interp(points, ends, own) for own in known.shares.T], axis=1)
    grown = np.cumsum(np.diff(hazard)[:, None] * _middle(shares), axis=0)
    expected = np.concatenate([np.zeros((1, groups)), grown])
    over = hazard[-1] > stop_at
    stop = float(np.interp(stop_at, hazard + 1e-9 * points, points)) if over else 1.0
    course = Course(hazard, shares, expected, stop, np.zeros(groups - 1), 1.0)
    # Scores are monotone between points of time, or nearly: the release moves others into the ball.
    times = np.unique(np.append(points[points <= stop], stop))
    every = [
        scores(np, course, times, np.full(len(times), event), np.full(len(times), group))
        for event in (0.0, 1.0)
        for group in range(groups)
    ]
    seen = np.concatenate(every)
    centre = (seen.max(axis=0) + seen.min(axis=0)) / 2 if centred else np.zeros(groups - 1)
    radius = float(np.linalg.norm(seen - centre, axis=1).max())
    return course._replace(centre=centre, radius=max(radius, 1e-3))


# ------------------------------------------------------------- the algorithm


class LogRankState(NamedTuple):
    """The server's: the course, the table that it was made of (padded to the most intervals that a
    table may have), its intervals, noise, survivors and records; then the sum of points (G - 1,),
    who answered, and their records."""

    course: Course
    table: Any
    bins: Any
    noise: Any
    table_survivors: Any
    table_records: Any
    total: Any
    survivors: Any
    records: Any


def _cells(problem: SurvivalTimes, bins: int) -> int:
    return len(problem.groups) * (2 * bins + 1) + (not problem.complete)


def release(config: LogRankConfig, problem: SurvivalTimes, facts: Facts) -> Release:
    return Release(table(config, problem, facts))


def build(config: LogRankConfig, problem: SurvivalTimes, facts: Facts, priced: Priced) -> Algorithm:
    groups, weight = len(problem.groups), lone_weight(priced.step)

    def begin(found: Any) -> tuple[LogRankState, None]:
        padded = np.zeros(_cells(problem, MOST_BINS))
        own = SurvivalTable(np.zeros((groups, 2 * MOST_BINS + 1)), None, 1.0, 0, 0)
        if found is not None and float(np.asarray(found)[-2]) > 0:
            own = unpacked_table(found, problem)
            flat = np.asarray(found, np.float64)[:-3]
            padded[: len(flat)] = flat
        known = known_of(own.cells, own.noise, own.counted(facts))
        # A public number of records says what the centre has added up to.
        course = course_of(known, config.stop_at, centred=facts.exact_sizes)
        as_float = Course(*(jnp.asarray(part, jnp.float32) for part in course))
        state = LogRankState(
            as_float,
            jnp.asarray(padded, jnp.float32),
            jnp.int32(own.bins),
            jnp.float32(own.noise),
            jnp.int32(own.survivors),
            jnp.float32(own.records),
            jnp.zeros(groups - 1, jnp.float32),
            jnp.int32(0),
            jnp.float32(0),
        )
        return state, None

    def merge(state: LogRankState, sums: Aggregate) -> LogRankState:
        points = sums.total / weight
        return state._replace(
            total=jnp.asarray(points if groups == 2 else points[1:], jnp.float32),
            survivors=jnp.asarray(sums.survivors, jnp.int32),
            records=jnp.asarray(sums.records, jnp.float32),
        )

    return Algorithm(
        init=lambda: begin(None),
        begin=begin,
        ask=lambda state: state.course,
        local=TableRecords(facts.group),
        merge=merge,
        result=lambda state: state,
    )


def table_of(problem: SurvivalTimes, value: LogRankState) -> SurvivalTable:
    """The table that a run began with; refuses one that was never opened."""
    cells = np.asarray(value.table, np.float64)[: _cells(problem, int(value.bins))]
    ends = (float(value.noise), value.table_survivors, value.table_records)
    return unpacked_table(packed(cells, *ends), problem)


class LogRank(NamedTuple):
    """The test: a chi-square statistic; and in each group how many events more there were than
    under equal hazards, with the deviation of that, both until records stop to count."""

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
    if int(value.survivors) == 0:
        return None
    problem, facts, trust = study.method.problem, study.facts, study.trust
    own = table_of(problem, value)
    algorithm = study.algorithm
    step = algorithm.grid(facts, trust)
    own_noise = own.noise_of(facts, trust)
    law = sum_law(algorithm.event(facts, trust), facts, trust, int(value.survivors), step)
    noise = law.std / lone_weight(step)
    course = Course(*(np.asarray(part, np.float64) for part in value.course))
    total = course.radius * np.asarray(value.total, np.float64)
    if facts.exact_sizes:
        total = total + float(value.records) * course.centre
    known = known_of(own.cells, own.noise, own.counted(facts))
    information, product = variances(known, own, own_noise, facts, float(course.stop))
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


def variances(
    known: Known, own: SurvivalTable, noise: float, facts: Facts, stop: float
) -> tuple[np.ndarray, np.ndarray]:
    """What scores vary by themselves, and by errors of hazards and shares: (G - 1, G - 1) each."""
    bins, groups = len(known.hazards), known.shares.shape[1]
    turned, counted = basis(groups), own.counted(facts)
    parts = np.clip(bins * stop - np.arange(bins), 0.0, 1.0)  # of intervals, before the stop
    spread = [
        number * (np.diag(share) - np.outer(share, share))
        for number, share in zip(known.events * parts, _middle(known.shares), strict=True)
    ]
    information = turned.T @ np.sum(spread, axis=0) @ turned + 0.5 / groups * np.eye(groups - 1)
    generator = np.random.default_rng(_SEED)
    truth = nearest_counts(own.cells, max(1.0, float(shifted(own.cells, counted).sum())))
    drawn = truth + noise * generator.standard_normal((_DRAWS, *truth.shape))
    base, again = known_of(truth, noise, counted), known_of(drawn, noise, counted)
    lost = base.at_risk * parts * (base.hazards - again.hazards)
    apart = _middle(base.shares) - _middle(again.shares)
    lost = np.einsum("dk,dkg->dg", lost, apart) @ turned
    product = lost.T @ lost / _DRAWS
    return information, product


def _middle(shares: np.ndarray) -> np.ndarray:
    """Shares in the middle of intervals, of those at their ends."""
    return np.asarray((shares[..., 1:, :] + shares[..., :-1, :]) / 2)


def earlier(config: LogRankConfig, problem: SurvivalTimes) -> Earlier | None:
    return Earlier(SURVIVAL_TABLE, TABLE_SHARE)


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

__all__ = ["LOG_RANK", "LogRank", "LogRankConfig", "LogRankState", "log_rank_of", "table_of"]
