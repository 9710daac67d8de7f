"""Hazard ratios: noisy rounds of bounded martingale scores, for coefficients with valid intervals.

Hazards are h(t | x) = exp(α_k + β·z) in piece k of time, with columns z standardised by what
`hazard_scales` released. At the public point θ = (α, β) and with the public matrix A a record has
in piece k the row q_k = A (e_k, z), spends the cumulative hazard l_k there, and adds

    gradient    w Σ_k q_k (dN_k - l_k)      stopped where Σ l_k reaches 1.5
    curvature   w Σ_k l_k q_k q_kᵀ
    meat        the gradient's square

with dN_k its event. A martingale that is stopped is a martingale: its mean at the truth is zero,
but now it is bounded, whatever time and event are, and its supremum over both is attained at ends
of pieces, so that it is computed from x alone. The weight w of x alone,

    w = min(1, C_g / sup_{t, N} |Σ_k q_k (dN_k - l_k)|, C_H / sup_t Σ_k l_k |q_k|²)

keeps |gradient| <= C_g and |curvature| <= C_H and brings no bias under the model (Mallows'
weights). A record is one unit: what it adds in all pieces is summed before it is bounded. Scores of
partial likelihoods (Cox 1972) are not bounded so: every record is in the risk set of others.

Rounds, whitening and the step that knows of its noise are as in `fisher_scoring`.

What is estimated: log hazard ratios of proportional hazards, if hazards are proportional; if not,
an average of them in which early times, up to the stop, count more.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field

from unisono.accounting import gaussian
from unisono.algorithms.hazard_scales import HAZARD_SCALES, HazardScales, scales_of
from unisono.algorithms.noisy_scores import (
    Scored,
    arrays_of,
    noise_aware_step,
    numpy_loop,
    positive,
    whitened,
    with_round,
)
from unisono.core.algorithm import Aggregate, Facts
from unisono.core.privacy import Privacy
from unisono.core.trust import Trust
from unisono.errors import InvalidInput
from unisono.problems.survival import ProportionalHazards
from unisono.releases.algorithm import Algorithm, AlgorithmConfig, AlgorithmKind, Earlier, rounded
from unisono.releases.release import Priced, Release, price
from unisono.releases.rows import ScoredPoint, unpacked
from unisono.releases.table import Block, Table, TableRecords, lone_weight

# Of the promise, the part that pays for scales and times; in squares of μ it is a tenth.
SCALES_SHARE = 0.25
STOP = 1.5
# Parts of μ² that rounds have, and in each of them gradient, curvature and meat.
_SCHEDULES: dict[int, tuple[tuple[float, tuple[float, float, float]], ...]] = {
    1: ((1.0, (0.46, 0.50, 0.04)),),
    2: ((0.226, (0.28, 0.70, 0.02)), (0.774, (0.56, 0.40, 0.04))),
    3: (
        (0.183, (0.29, 0.69, 0.02)),
        (0.301, (0.45, 0.52, 0.03)),
        (0.516, (0.75, 0.20, 0.05)),
    ),
    5: (
        (0.13, (0.29, 0.69, 0.02)),
        (0.14, (0.40, 0.57, 0.03)),
        (0.17, (0.50, 0.47, 0.03)),
        (0.21, (0.60, 0.36, 0.04)),
        (0.35, (0.75, 0.20, 0.05)),
    ),
}
_CAUTION = 5.0  # as in `fisher_scoring`
_BASELINE_SD = 1.5
_SCORES_SPREAD = 2.0
_LEAST_RATIO = 0.08  # of hazards to those at a point, that one step goes to
_POWERS = (0.3, 3.0)
_DECREMENT = 2.5  # standard errors of a point, beyond which a step away from it is not noise
_EVENTS = 5  # for each coefficient, below which intervals do not hold
_ROUNDS = "Noisy rounds, 1, 2, 3 or 5; left out: a rule of records, parameters and epsilon."


class HazardScoringConfig(AlgorithmConfig):
    """Rules of public facts fill in what is left out."""

    rounds: Literal[1, 2, 3, 5] | None = Field(None, description=_ROUNDS)
    gradient_norm: float | None = Field(
        None, gt=0, description="C_g, over sqrt(parameters / share of events)."
    )
    curvature_norm: float | None = Field(None, gt=0, description="C_H, over the parameters.")
    prior_sd: float = Field(
        5.0,
        gt=0,
        description="Spread of the weak prior: for a change of a number by its deviation, and for "
        "a category's value.",
    )


def resolve(
    config: HazardScoringConfig,
    problem: ProportionalHazards,
    facts: Facts,
    privacy: Privacy,
    trust: Trust,
) -> HazardScoringConfig:
    if privacy.pure:
        raise InvalidInput(
            "hazard-scoring with delta = 0: its noise is Gaussian; set delta, for example 1e-6"
        )
    records, p = sum(facts.records), problem.parameters
    kappa = records * gaussian.mu_for(privacy.epsilon, privacy.delta) / p**1.5
    rounds = config.rounds or (1 if kappa < 14 else 2 if kappa < 35 else 3 if kappa < 70 else 5)
    rule = {
        "rounds": rounds,
        "gradient_norm": 0.85,
        "curvature_norm": rounded(min(max(kappa / 25, 1.3), 4.0)),
    }
    said = {name: value for name, value in config if value is not None}
    return config.model_copy(update={**rule, **said})


def release(config: HazardScoringConfig, problem: ProportionalHazards, facts: Facts) -> Release:
    rounds = config.rounds or 1
    scales = _scales(rounds)
    return Release(table(problem, facts), rounds, scales=scales if rounds > 1 else ())


def _scales(rounds: int) -> tuple[float, ...]:
    shares = [share for share, _ in _SCHEDULES[rounds]]
    return tuple(rounded(math.sqrt(max(shares) / share)) for share in shares)


def table(problem: ProportionalHazards, facts: Facts) -> Table:
    """What a round releases."""
    kind = ScoredPoint(problem.parameters, problem.parameters, problem.pieces)
    return Table((Block("scores", kind, _Scores(problem)),), group=facts.group)


@dataclass(frozen=True)
class _Scores:
    """What records add."""

    problem: ProportionalHazards

    def __call__(self, public: Any, rows: Any) -> Any:
        return record_scores(self.problem, public, rows)


# ------------------------------------------------------------- what a record adds


class Point(NamedTuple):
    """Where a round is asked: θ (p,), A (p, p), and the power of time in which hazards of pieces
    are constant."""

    theta: Any
    whitening: Any
    power: Any


class Asked(NamedTuple):
    """All that a record needs to know."""

    point: Point
    start: HazardScales
    gradient_norm: Any
    curvature_norm: Any
    weights: Any


def record_scores(problem: ProportionalHazards, public: Asked, rows: Any) -> Any:
    """What every record adds, as `ScoredPoint` takes it: (n, (pieces + 2) p + 3)."""
    pieces = problem.pieces
    theta, whitening, power = public.point
    features, time, event = problem.parts(rows)
    time, ends = jnp.maximum(time, 0.0) ** power, public.start.ends**power
    begun, ended = ends[:-1], ends[1:]
    standard = (features - public.start.centre) / public.start.scale
    risk = jnp.clip(theta[:pieces] + (standard @ theta[pieces:])[:, None], -14.0, 8.0)
    whole = jnp.exp(risk)  # (n, pieces)
    rate = whole / (ended - begun)
    before = jnp.cumsum(whole, axis=1) - whole
    most = jnp.clip(STOP - before, 0.0, whole)  # what a record can spend in each piece
    spent = rate * jnp.clip(time[:, None] - begun, 0.0, ended - begun)
    stopped = jnp.sum(spent, axis=1) > STOP
    happened = jnp.where((event > 0.5) & ~stopped & (time <= 1), 1.0, 0.0)
    spent = jnp.minimum(spent, most)
    inside = (time[:, None] > begun) & (time[:, None] <= ended)
    inside = inside | ((time[:, None] <= 0) & (jnp.arange(pieces) == 0))
    row = (standard @ whitening[:, pieces:].T)[:, None, :] + whitening[:, :pieces].T[None]
    score = jnp.einsum("nk,nkp->np", happened[:, None] * inside - spent, row)
    furthest = _supremum(row, most, before < STOP)
    square = jnp.sum(row * row, axis=2)
    bent = jnp.maximum(jnp.sum(most * square, axis=1), 1e-9)
    weight = jnp.minimum(1.0, public.gradient_norm / jnp.maximum(furthest, 1e-9))
    weight = jnp.minimum(weight, public.curvature_norm / bent)[:, None]
    gradient = weight * score / public.gradient_norm
    points = jnp.sqrt(weight * spent / public.curvature_norm)[:, :, None] * row
    shares = jnp.broadcast_to(public.weights, (len(rows), 3))
    return jnp.concatenate([gradient, points.reshape(len(rows), -1), gradient, shares], axis=1)


def _supremum(row: Any, most: Any, alive: Any) -> Any:
    """The longest score that a record can have, over all times and events (n,). Within a piece the
    score is a straight line in the hazard spent, with or without an event, and a norm is convex: it
    is longest at an end."""
    spent = jnp.zeros_like(row[:, 0])
    longest = jnp.zeros_like(most[:, 0])
    for piece in range(row.shape[1]):
        there = alive[:, piece]
        at_first = jnp.sum((row[:, piece] - spent) ** 2, axis=1)
        spent = spent + most[:, piece, None] * row[:, piece]
        at_last = jnp.sum((row[:, piece] - spent) ** 2, axis=1)
        event = jnp.where(there, jnp.maximum(at_first, at_last), 0.0)
        longest = jnp.maximum(longest, jnp.maximum(event, jnp.sum(spent**2, axis=1)))
    return jnp.sqrt(longest)


# ------------------------------------------------------------- what a round has told


class HazardState(NamedTuple):
    """The server's: the start, the next point, how many rounds are done, and all that was asked
    and released in them."""

    start: HazardScales
    first: Any
    point: Point
    round: Any
    points: Point
    sums: Any
    records: Any


class Terms(NamedTuple):
    """The configuration, the problem, and the deviation of noise in a number of each round's sum of
    points (rounds,)."""

    config: HazardScoringConfig
    problem: ProportionalHazards
    noise: tuple[float, ...]


def _norms(
    config: HazardScoringConfig, problem: ProportionalHazards, events: Any
) -> tuple[Any, Any]:
    """C_g and C_H."""
    assert config.gradient_norm is not None
    assert config.curvature_norm is not None
    p = problem.parameters
    return config.gradient_norm * (p / events) ** 0.5, config.curvature_norm * p


def _weights(xp: Any, rounds: int, number: Any) -> Any:
    return xp.sqrt(xp.asarray([own for _, own in _SCHEDULES[rounds]])[number])


def opened(xp: Any, terms: Terms, state: HazardState, number: Any) -> Scored:
    """The sums of a round, in their own units."""
    p = terms.problem.parameters
    weights = _weights(xp, len(terms.noise), number)
    gradient_norm, curvature_norm = _norms(terms.config, terms.problem, state.start.events)
    noise, half = xp.asarray(terms.noise)[number], p * (p + 1) // 2
    sums = state.sums[number]
    by_gradient = gradient_norm * math.sqrt(2) / weights[0]
    by_curvature, by_meat = curvature_norm / weights[1], gradient_norm**2 / weights[2]
    return Scored(
        by_gradient * sums[:p],
        by_curvature * unpacked(p, sums[p : p + half], xp),
        by_meat * unpacked(p, sums[p + half :], xp),
        by_gradient * noise,
        by_curvature * noise,
        by_meat * noise,
    )


def averaged(xp: Any, terms: Terms, state: HazardState, number: Any) -> tuple[Scored, Any]:
    """The sums of all rounds so far that have the same A, and the mean of the points θ at which
    they were asked.

    Curvatures are averaged by precision, and so are gradients together with their points: each has
    the mean H (truth - θ), a straight line in θ, so that their mean is that of a round at the mean
    point. All of them are of the same records, and only noise is averaged out: the meat stays.

    Lines they are nearby alone. A round whose point is a way d from the last one misses by about
    τ/2 of H d, with τ² the variance of d·z over events, and its curvature by τ/2 of itself: that
    counts as noise of that round.
    """
    own = opened(xp, terms, state, number)
    p, events = terms.problem.parameters, state.start.events
    now, whitening = state.points.theta[number], state.points.whitening[number]
    curvature = positive(xp, own.curvature)
    level = xp.maximum(xp.trace(curvature) / p, 1e-6)
    inverse = xp.linalg.inv(whitening)
    precise, curved = 0.0, 0.0 * own.curvature
    told, gradient, point = 0.0, 0.0 * own.gradient, 0.0 * own.gradient
    for other in range(len(terms.noise)):
        found = opened(xp, terms, state, other)
        counts = (other <= number) & ((other > 0) == (number > 0))
        way = inverse.T @ (now - state.points.theta[other])
        moved = curvature @ way
        bent = xp.minimum(1.0, (way @ moved) / (level * events) / 4)
        weight = xp.where(counts, 1 / (found.s_curvature**2 + bent * level**2), 0.0)
        precise, curved = precise + weight, curved + weight * found.curvature
        weight = xp.where(counts, 1 / (found.s_gradient**2 + bent * (moved @ moved) / p), 0.0)
        told, gradient = told + weight, gradient + weight * found.gradient
        point = point + weight * state.points.theta[other]
    scored = own._replace(
        gradient=gradient / told,
        curvature=curved / precise,
        s_gradient=told**-0.5,
        s_curvature=precise**-0.5,
    )
    return scored, point / told


class Moved(NamedTuple):
    """Where a step leads (p,), the covariance of that, and the sample's own part of it; and by how
    many standard errors the ratios of the hazards of values, and of all others, to those at the
    point are above zero (d, 2): infinitely many for numbers."""

    theta: Any
    covariance: Any
    sampling: Any
    margins: Any


def prior_sd(xp: Any, config: HazardScoringConfig, problem: ProportionalHazards, start: Any) -> Any:
    """The prior's deviations in standardised coordinates (p,)."""
    own = xp.where(xp.asarray(problem.numeric, bool), 1.0, start.scale)
    return xp.concatenate([xp.full(problem.pieces, _BASELINE_SD), config.prior_sd * own])


def moved(
    xp: Any, loop: Any, terms: Terms, state: HazardState, number: Any, *, last: bool
) -> tuple[Moved, Scored]:
    """The step of a round, the last of which takes the prior as it is."""
    config, problem, events = terms.config, terms.problem, state.start.events
    p, rounds = problem.parameters, len(terms.noise)
    whitening = state.points.whitening[number]
    scored, theta = averaged(xp, terms, state, number)
    inverse = xp.linalg.inv(whitening)
    caution = 1.0 if last else _CAUTION
    sd = prior_sd(xp, config, problem, state.start)
    early = xp.where(xp.arange(p) < problem.pieces, 1.0, caution)
    prior = (whitening * (early / sd) ** 2) @ whitening.T
    prior_way = inverse.T @ (state.first - theta)
    meat, own = _scatter(xp, scored)
    scored = scored._replace(meat=meat, s_meat=0.0)
    level = xp.maximum(xp.trace(positive(xp, scored.curvature)) / p, 1e-6)
    largest = events * (_SCORES_SPREAD**2 + problem.pieces / 4)
    if rounds == 1:  # where noise is large, the gradient itself says how long the way may be
        square = scored.gradient @ scored.gradient - p * scored.s_gradient**2
        noise = 2 * math.sqrt(2 * p) * scored.s_gradient**2
        largest = xp.minimum(largest, (xp.maximum(square, 0.0) + noise) / level**2)
    curving = (0.25 if rounds == 1 else 1.0) / (level * events)
    back = whitening.T
    number_like = xp.concatenate([xp.ones(problem.pieces), xp.asarray(problem.numeric, float)])
    bends = inverse.T @ (number_like[:, None] * back)
    step = noise_aware_step(xp, scored, prior, prior_way, largest, curving, loop, bends)
    way, unsure = back @ step.way, back @ step.covariance @ back.T
    turned, slope, margins = _by_ratios(xp, problem, state.start, whitening, scored, way, unsure)
    found = Moved(
        theta + turned,
        slope[:, None] * unsure * slope,
        own * (slope[:, None] * (back @ step.sampling @ back.T) * slope),
        margins,
    )
    return found, scored


class _AtRisk(NamedTuple):
    """Of those at risk: the standardised columns' mean (d,) and covariance (d, d)."""

    middle: Any
    spread: Any


def _at_risk(xp: Any, pieces: int, whitening: Any, scored: Scored) -> _AtRisk:
    inverse = xp.linalg.inv(whitening)
    curvature = inverse @ positive(xp, scored.curvature) @ inverse.T
    spent = xp.maximum(xp.trace(curvature[:pieces, :pieces]), 1e-6)
    middle = xp.sum(curvature[:pieces, pieces:], axis=0) / spent
    return _AtRisk(middle, curvature[pieces:, pieces:] / spent - xp.outer(middle, middle))


def _by_ratios(
    xp: Any,
    problem: ProportionalHazards,
    start: HazardScales,
    whitening: Any,
    scored: Scored,
    way: Any,
    covariance: Any,
) -> tuple[Any, Any, Any]:
    """A linear way, with steps of values of categories as logarithms of ratios; slopes of that
    (p,), and margins.

    If a part π of those at risk has a value, a step d from its coefficient expects 1 + d (1 - π)
    times as many events among them, and 1 - d π times as many among others. Newton adds d, but
    the logarithm of the ratio of both is exact for a single category, however far the point is.
    The baseline is that of the middle of all columns, and moves with it. Ratios are kept away from
    zero by 1.5 of their standard errors.
    """
    pieces = problem.pieces
    unit = 1 / start.scale
    value = ~xp.asarray(problem.numeric, bool)
    middle = _at_risk(xp, pieces, whitening, scored).middle
    part = xp.clip(start.centre + start.scale * middle, 0.002, 0.998)
    step = way[pieces:] * unit
    error = xp.sqrt(xp.diagonal(covariance)[pieces:]) * unit
    with_it, others = 1 + step * (1 - part), 1 - step * part
    errors = error * (1 - part), error * part
    margins = xp.stack([with_it / errors[0], others / errors[1]], axis=1)
    kept = [
        xp.maximum(ratio, xp.clip(1.5 * own, _LEAST_RATIO, 0.5))
        for ratio, own in zip((with_it, others), errors, strict=True)
    ]
    change = xp.log(kept[0]) - xp.log(kept[1])
    slope = (1 - part) / kept[0] + part / kept[1]
    level = xp.sum(xp.where(value, xp.log(kept[1]) + part * change, 0.0))
    turned = xp.concatenate(
        [way[:pieces] + level, xp.where(value, change * start.scale, way[pieces:])]
    )
    slopes = xp.concatenate([xp.ones(pieces), xp.where(value, slope, 1.0)])
    return turned, slopes, xp.where(value[:, None], margins, xp.inf)


def _scatter(xp: Any, scored: Scored) -> tuple[Any, Any]:
    """How gradients of single records scatter: E[w² ...], a part of the curvature E[w ...] in every
    direction under the model, more of it where weights are 1. The released meat tells the mean of
    that part over directions, r, but noise hides single ones; drawn to r, it would be too little in
    some of them. Weights are at most 1, so the part lies between r and 1, and sqrt(r) is taken for
    all. Where scores scatter more than the model says, all of it counts, evenly.

    Returned with it is how much of that a fit without weights would have: of even weights r, which
    shrink scatter and curvature alike. The rest is what weights cost, and they are there for
    privacy alone.
    """
    p, curvature = len(scored.gradient), positive(xp, scored.curvature)
    seen = xp.trace(scored.meat) + scored.s_meat * p**0.5  # the wider one, when in doubt
    ratio = xp.clip(seen / xp.maximum(xp.trace(curvature), 1e-6), 0.1, 25.0)
    root = xp.sqrt(xp.minimum(ratio, 1.0))
    return xp.maximum(ratio, root) * curvature, root


# ------------------------------------------------------------- the algorithm


def build(
    config: HazardScoringConfig, problem: ProportionalHazards, facts: Facts, priced: Priced
) -> Algorithm:
    terms = terms_of(config, problem, priced)
    rounds, pieces = len(terms.noise), problem.pieces
    width, weight = priced.bound.dimension, lone_weight(priced.step)

    def begin(found: Any) -> tuple[HazardState, None]:
        start = scales_of(problem, found)
        theta = np.concatenate([start.log_hazards, np.zeros(problem.features)]).astype(np.float32)
        stretch = np.concatenate([np.full(pieces, math.sqrt(pieces)), np.ones(problem.features)])
        whitening = (np.diag(stretch) / math.sqrt(start.events)).astype(np.float32)
        start = HazardScales(*(np.asarray(part, np.float32) for part in start))
        point = Point(theta, whitening, start.power)
        points = Point(*(np.stack([part] * rounds) for part in point))
        empty = np.zeros((rounds, width), np.float32)
        records = np.zeros(rounds, np.float32)
        return HazardState(start, theta, point, np.int32(0), points, empty, records), None

    def ask(state: HazardState) -> Asked:
        xp, _ = arrays_of(state)
        number = xp.minimum(state.round, rounds - 1)
        norms = _norms(config, problem, state.start.events)
        asked = Asked(state.point, state.start, *norms, _weights(xp, rounds, number))
        return jax.tree.map(lambda part: xp.asarray(part, xp.float32), asked)

    def merge(state: HazardState, sums: Aggregate) -> HazardState:
        xp, loop = arrays_of(state)
        state = with_round(xp, state, sums, weight)
        point = next_point(xp, loop, terms, state, state.round)
        point = Point(*(xp.asarray(part, xp.float32) for part in point))
        return state._replace(point=point, round=state.round + 1)

    return Algorithm(
        init=lambda: begin(None),
        begin=begin,
        ask=ask,
        local=TableRecords(facts.group),
        merge=merge,
        result=lambda state: state,
    )


def next_point(xp: Any, loop: Any, terms: Terms, state: HazardState, number: Any) -> Point:
    """Where the round after this one is asked; the first round alone changes A, since later
    curvatures are averaged."""
    p = terms.problem.parameters
    step, scored = moved(xp, loop, terms, state, number, last=False)
    curvature, records = positive(xp, scored.curvature), xp.maximum(state.records[number], 1.0)
    turn = whitened(xp, curvature, scored.s_curvature, records)
    first = xp.where(number == 0, 1.0, 0.0)
    turn = first * turn + (1 - first) * xp.eye(p)
    risks = _spread_of_risks(xp, terms.problem, state.point.whitening, scored, step)
    lower = xp.where(xp.arange(p) < terms.problem.pieces, first * risks / 2, 0.0)
    power = _next_power(xp, terms.problem.pieces, state, step)
    return Point(step.theta - lower, turn @ state.point.whitening, power)


def _next_power(xp: Any, pieces: int, state: HazardState, step: Moved) -> Any:
    """The power of time in which hazards of pieces are constant, as rounds have found them.

    The table of times shows the hazard of all, which falls as those of high risk leave: too small
    a power for the hazard of a single record where effects are strong, and within pieces it would
    draw coefficients to zero. Hazards of pieces that grow with s = t^k like s^b have the power
    k (1 + b). b is a straight line's slope, and counts the less the noisier it is.
    """
    ends = state.start.ends**state.point.power
    place = xp.log((ends[1:] + ends[:-1]) / 2)
    place = place - xp.mean(place)
    weights = place / xp.maximum(place @ place, 1e-6)
    slope = weights @ (step.theta[:pieces] - xp.log(ends[1:] - ends[:-1]))
    noise = weights @ step.covariance[:pieces, :pieces] @ weights
    slope = slope**3 / (slope**2 + noise + 1e-9)
    return xp.clip(state.point.power * (1 + xp.clip(slope, -0.6, 1.5)), *_POWERS)


def _spread_of_risks(
    xp: Any, problem: ProportionalHazards, whitening: Any, scored: Scored, step: Moved
) -> Any:
    """The variance v of log hazards β·z of numbers over those at risk, without what noise adds.

    From β = 0 a Newton step leaves the mean hazard as it was, while the mean of exp(β·z) grows by
    exp(v / 2): so much lower the baseline is. What is asked at a point that is too far from the
    truth bends, and would draw the coefficients along.
    """
    numeric = xp.asarray(problem.numeric, float)
    spread = _at_risk(xp, problem.pieces, whitening, scored).spread * xp.outer(numeric, numeric)
    slopes = step.theta[problem.pieces :]
    unsure = step.covariance[problem.pieces :, problem.pieces :]
    found = slopes @ spread @ slopes - xp.sum(spread * unsure)
    return xp.clip(found, 0.0, _SCORES_SPREAD**2)


def terms_of(config: HazardScoringConfig, problem: ProportionalHazards, priced: Priced) -> Terms:
    rounds = config.rounds or 1
    one = priced.noise_std / lone_weight(priced.step)
    scales = _scales(rounds) if rounds > 1 else (1.0,)
    return Terms(config, problem, tuple(one * scale for scale in scales))


def terms_for(study: Any) -> Terms:
    """The terms of a study by this algorithm."""
    method, facts, trust = study.method, study.facts, study.trust
    config = resolve(method.config, method.problem, facts, method.privacy, trust)
    priced = price(release(config, method.problem, facts), method.privacy, facts, trust)
    return terms_of(config, method.problem, priced)


class FittedHazards(NamedTuple):
    """Log hazards of pieces, then coefficients, in standardised coordinates (p,); covariances, and
    the prior's deviations (p,). `centre` and `scale` (d,) lead back to features, `ends` (K + 1,)
    are those of pieces, as powers of shares of the horizon. `events` are those that rounds have
    counted, each by its weight, and `events_std` is the noise in that number. A coefficient is
    `unsettled` (d,) if the last step moved it further than its standard error and than noise
    explains."""

    theta: np.ndarray
    covariance: np.ndarray
    sampling: np.ndarray
    margins: np.ndarray
    prior: np.ndarray
    centre: np.ndarray
    scale: np.ndarray
    ends: np.ndarray
    power: float
    rounds: int
    events: float
    events_std: float
    unsettled: np.ndarray

    @property
    def few_events(self) -> bool:
        """Whether there may be fewer events than five for each coefficient: intervals do not hold
        then (Vittinghoff and McCulloch 2007), and without any there is nothing to compare."""
        return self.events - 2 * self.events_std < _EVENTS * len(self.centre)


def counted_events(terms: Terms, state: HazardState, done: int) -> tuple[float, float]:
    """How many events rounds have counted, each by its weight, and the deviation of noise in that.

    Of the baseline the gradient is Σ w (dN - l) and the curvature Σ w l: together Σ w dN, whatever
    point was asked at. Rounds are of the same records, and are averaged by precision.
    """
    pieces, told, precision = terms.problem.pieces, 0.0, 0.0
    for number in range(done):
        scored = opened(np, terms, state, number)
        rows = np.linalg.inv(state.points.whitening[number])[:pieces]
        square, whole = rows.T @ rows, rows.sum(axis=0)
        found = whole @ scored.gradient + np.sum(square * scored.curvature)
        noise = scored.s_gradient**2 * (whole @ whole) + scored.s_curvature**2 * np.sum(square**2)
        told, precision = told + found / noise, precision + 1 / noise
    return float(told / precision), float(precision**-0.5)


def fitted(terms: Terms, value: HazardState) -> FittedHazards:
    """What a run has found, computed from what it released in double precision."""
    done = int(value.round)
    if done == 0:
        raise InvalidInput(
            "fewer parties answered than the study requires, so no round was opened and there is "
            "no answer: ask again, or agree on a smaller minimum of survivors; what was granted "
            "stays spent"
        )
    state = jax.tree.map(lambda part: np.asarray(part, np.float64), value)
    step, _ = moved(np, numpy_loop, terms, state, done - 1, last=True)
    start = state.start
    prior = np.asarray(prior_sd(np, terms.config, terms.problem, start))
    return FittedHazards(
        *step,
        prior,
        start.centre,
        start.scale,
        start.ends,
        float(state.points.power[done - 1]),
        done,
        *counted_events(terms, state, done),
        _unsettled(terms, state, done, step),
    )


def _unsettled(terms: Terms, state: HazardState, done: int, step: Moved) -> np.ndarray:
    """Newton's decrement by coefficient (d,). The point before was found with noise, too: a step
    of up to 2.5 of its standard errors may be noise alone. A single round has no point before."""
    if done == 1:
        return np.zeros(terms.problem.features, bool)
    before, _ = moved(np, numpy_loop, terms, state, done - 2, last=False)
    last = np.abs(step.theta - state.points.theta[done - 1])
    own, known = (np.sqrt(np.diagonal(one.covariance)) for one in (step, before))
    far = last > np.maximum(own, _DECREMENT * known)
    return np.asarray(far[terms.problem.pieces :])


def earlier(config: HazardScoringConfig, problem: ProportionalHazards) -> Earlier | None:
    return Earlier(HAZARD_SCALES, SCALES_SHARE)


HAZARD_SCORING = AlgorithmKind(
    "hazard-scoring",
    "few noisy rounds of bounded martingale scores, whose intervals count the noise in",
    HazardScoringConfig,
    ProportionalHazards,
    release,
    build,
    resolve,
    unit_rows=False,
    sends="noisy sums of bounded scores, curvatures and their squares",
    earlier=earlier,
)

__all__ = ["HAZARD_SCORING", "FittedHazards", "HazardScoringConfig", "fitted", "terms_for"]
