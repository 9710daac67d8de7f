"""Fisher scoring: one to three noisy rounds of gradient and curvature, for coefficients that have
valid intervals.

Columns are standardised by what `column_scales` released, z = (x - centre) / scale with a 1 in
front. At the public point θ and with the public matrix A a record has the row q = A z sqrt(v), and
adds, with a weight w of x alone,

    gradient    w q (ψ - a)          w = min(1, C_g / (|q| sup_y |ψ - a|), C_H / (b |q|²))
    curvature   w b q qᵀ
    meat        w² (ψ - a)² q qᵀ

|gradient| <= C_g and |curvature| <= C_H whatever the record holds, by its weight; a clip in the
release makes sure. A weight of x alone leaves the gradient's expectation zero at the truth
(Mallows; Künsch, Stefanski and Carroll 1989), so that what is bounded brings no bias under the
model. One round releases all three as one point of `ScoredPoint`, weighed a² against each other:
one replaced record moves it by sqrt 2, and the noise of gradient, curvature and meat is
sqrt 2 C_g σ / a₁, C_H σ / a₂ and C_g² σ / a₃. Of persons with several records, see `person_scores`.

After the first round A is changed once so that rows have about unit covariance; every round ends
in a step that knows of its noise (`noisy_scores`). How many rounds there are, how the budget is
spread over them, where residuals are bounded and how large C_g and C_H are, are rules of public
facts: with μ the Gaussian-DP parameter of the promise, n records and p parameters,

    κ = n μ / p^1.5     below 11 one round, below 35 two, else three;
                        C_H = p κ / 50, in [p, 4 p], see `_curvature_norm`
                        for prediction alone (`prediction`) one below n μ = 330
    λ = sqrt(n / p) μ   residuals are bounded at k = 1 + λ / 33 in [1.2, 2];
                        C_g = c sqrt(p) sup|ψ - a|, c from .85 on, see `_gradient_norm`

k and c are about where the variance of a step is least: with E ψ² and b = E ψ' of a normal law and
t = 2 c / λ, it goes with (E ψ² + t² k²) / b², so that little noise is worth wide bounds, and much
noise narrow ones.

Wide residuals (gaussian, counts) have no bound of their own: the weight bounds the row alone, the
gradient is clipped to C_g = c R sqrt(p), and R of the last round follows from a histogram of signed
lengths that the round before it releases beside its gradient (`residual_range`). Steps of
indicators, and of the level of counts, are taken on the scale of means (`group_steps`); between
rounds the group of an indicator keeps a variance that noise cannot hide. C_H of the binomial falls
with the mean curvature of the round before, which strong effects make small.

What is estimated: the coefficients of the model, if it holds. If it does not, the root of the
weighted expected gradient: the usual projection, with records of extreme x counting less. Slopes of
a gaussian with bounded residuals are those of the mean if errors are symmetric given x, and its
intercept is moved to the mean of residuals.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field
from scipy.special import ndtr

from unisono.accounting import gaussian
from unisono.algorithms import column_scales
from unisono.algorithms.column_scales import COLUMN_SCALES, ColumnScalesConfig, Scales, scales_of
from unisono.algorithms.group_steps import GroupMeans, chance_step, count_step, groups_of
from unisono.algorithms.nested_tests import Evidence
from unisono.algorithms.noisy_scores import (
    Scored,
    arrays_of,
    attenuation,
    modelled_meat,
    noise_aware_step,
    numpy_loop,
    positive,
    weak_directions,
    whitened,
    with_round,
)
from unisono.algorithms.party_cases import Cases, cases_of_all, site_places, without_cases
from unisono.algorithms.person_scores import (
    AskedOfPersons,
    Recorded,
    person_scores,
    rounds_of_persons,
)
from unisono.algorithms.residual_range import BINS, Level, clip_level, heavy_tail, place_of
from unisono.algorithms.steady_scales import steady_scales
from unisono.core.algorithm import Aggregate, Facts
from unisono.core.privacy import Privacy
from unisono.core.trust import Trust, Unit
from unisono.errors import InvalidInput
from unisono.problems.glm import WIDE, GeneralizedLinear
from unisono.releases.algorithm import (
    Algorithm,
    AlgorithmConfig,
    AlgorithmKind,
    Earlier,
    UtilityLaw,
    rounded,
)
from unisono.releases.release import Priced, Release, price
from unisono.releases.rows import ScoredPoint, into_ball, unpacked
from unisono.releases.table import Block, Table, TableRecords, lone_weight

# Of the promise, the part that pays for middles and spreads; in squares of μ it is 7 hundredths.
SCALES_SHARE = 0.215
# The same where coefficients are for prediction: middles and spreads that are far off cost more
# there than noise in rounds.
PREDICTION_SHARE = 0.3
# A prediction has one round where n μ is less: two would be noise each.
_ONE_ROUND = 330.0
# Parts of μ² that rounds have, and in each of them gradient, curvature and meat.
_SCHEDULES: dict[int, tuple[tuple[float, tuple[float, float, float]], ...]] = {
    1: ((1.0, (0.46, 0.50, 0.04)),),
    2: ((0.226, (0.28, 0.70, 0.02)), (0.774, (0.56, 0.40, 0.04))),
    3: (
        (0.183, (0.29, 0.69, 0.02)),
        (0.301, (0.45, 0.52, 0.03)),
        (0.516, (0.75, 0.20, 0.05)),
    ),
}
# The same of wide residuals, with the histogram of them in the last place; where κ is below 120,
# and so C_H is at its least, more of it is for curvature.
_WIDE_SCHEDULES: dict[int, tuple[tuple[float, float, float, float], ...]] = {
    2: ((0.06, 0.15, 0.01, 0.08), (0.42, 0.26, 0.02, 0.0)),
    3: ((0.04, 0.10, 0.01, 0.0), (0.08, 0.10, 0.005, 0.08), (0.495, 0.05, 0.02, 0.0)),
}
_NOISY_SCHEDULE = ((0.05, 0.16, 0.01, 0.0), (0.11, 0.17, 0.005, 0.07), (0.32, 0.055, 0.02, 0.0))
_LEAST_CURVATURE = 1.5
# Of the gaussian's rounds of bounded residuals, the part for their mean.
_MEAN_SHARE = 0.02
# Wide residuals are clipped at so many deviations in rounds before the last.
_PILOT = 2.5
# Tails of counts are taken for no heavier than lognormal ones of this σ.
_COUNTS_SIGMA = 1.0
# Between rounds the variance of an indicator's group is kept at so many times what noise can hide
# of a curvature, relative to the start: its step is exact from any point, and a point where hardly
# anything varies tells nothing of it.
_KEPT, _LEAST_KEPT = 30.0, (0.02, 0.6)
# C_H of the binomial falls with the mean curvature, no further than to this part.
_LEAST_LEVEL = 0.25
# And counts at as many times this, by how much wider than by the Poisson law they are.
_MOST_DISPERSION = 6.0
# How far scores may spread before anything is known, in units of the target's own spread.
_SCORES_SPREAD = {"binomial": 2.0, "gaussian": 1.0, "poisson": 1.0}
_WIDE_SPREAD = 1.5
# Points between rounds are drawn to the start by a prior so many times narrower than the last one:
# a step that noise made long would be far from where curvature is known.
_CAUTION = 5.0
_INTERCEPT_SD = 10.0
_ROUNDS = "Noisy rounds, 1 to 3; left out: a rule of records, parameters and epsilon."


class FisherScoringConfig(AlgorithmConfig):
    """Rules of public facts fill in what is left out."""

    rounds: int | None = Field(None, ge=1, le=3, description=_ROUNDS)
    bend_at: float | None = Field(
        None, gt=0.5, le=6, description="Residuals are bounded at so many deviations (k)."
    )
    gradient_norm: float | None = Field(
        None, gt=0, description="C_g, over sqrt(parameters) times the largest residual."
    )
    curvature_norm: float | None = Field(None, gt=0, description="C_H, over the parameters.")
    prior_sd: float = Field(
        5.0,
        gt=0,
        description="Spread of the weak prior: for a change of a number by its deviation, and for "
        "a category's value.",
    )
    prediction: bool = Field(
        False,
        description="Coefficients are for prediction alone: fewer rounds, and middles and spreads "
        "that are drawn to what is likely where noise drowns counts.",
    )
    count_noise: float | None = Field(
        None,
        gt=0,
        description="The deviation of noise in a count of columns; left out: as paid for.",
    )


def resolve(
    config: FisherScoringConfig,
    problem: GeneralizedLinear,
    facts: Facts,
    privacy: Privacy,
    trust: Trust,
) -> FisherScoringConfig:
    if privacy.pure:
        raise InvalidInput(
            "fisher-scoring with delta = 0: its noise is Gaussian; set delta, for example 1e-6"
        )
    records, p = sum(facts.records), problem.parameters
    mu = gaussian.mu_for(privacy.epsilon, privacy.delta)
    kappa, signal = records * mu / p**1.5, math.sqrt(records / p) * mu
    rounds = config.rounds or (1 if kappa < 11 else 2 if kappa < 35 else 3)
    if config.prediction and config.rounds is None and records * mu < _ONE_ROUND:
        rounds = 1
    if problem.wide and config.rounds is None:
        rounds = 2 if kappa < 35 and problem.family == "gaussian" else 3
    rounds = rounds_of_persons(config.rounds, rounds, problem, facts)
    rule = {
        "rounds": rounds,
        "bend_at": rounded(min(max(1 + signal / 33, 1.2), 2.0)),
        "gradient_norm": rounded(_gradient_norm(problem.family, signal)),
        "curvature_norm": rounded(1.0 if rounds == 1 else _curvature_norm(problem.family, kappa)),
        "count_noise": count_noise(config, problem, facts, privacy, trust),
    }
    if problem.wide:
        widest = min(max(kappa / 80, _LEAST_CURVATURE), 6.0)
        rule |= {"bend_at": _PILOT, "gradient_norm": 1.1, "curvature_norm": rounded(widest)}
    said = {name: value for name, value in config if value is not None}
    return config.model_copy(update={**rule, **said})


def scales_share(config: FisherScoringConfig) -> float:
    """Of the promise, the part that pays for middles and spreads."""
    return PREDICTION_SHARE if config.prediction else SCALES_SHARE


def count_noise(
    config: FisherScoringConfig,
    problem: GeneralizedLinear,
    facts: Facts,
    privacy: Privacy,
    trust: Trust,
) -> float:
    """The deviation of noise in a count of the first stage, where `privacy` is that of the rounds:
    `together` gives both the same delta, and shares of one epsilon."""
    share = scales_share(config)
    own = replace(privacy, epsilon=privacy.epsilon * share / (1 - share))
    priced = price(column_scales.release(ColumnScalesConfig(), problem, facts), own, facts, trust)
    return rounded(priced.noise_std / lone_weight(priced.step))


def _gradient_norm(family: str, signal: float) -> float:
    """c by λ. Noise grows with c, and what weights below 1 cost in variance is small: 1 is enough.
    But where the model does not hold, weights move what is estimated, and logistic models hold the
    least often: there c grows as noise falls, first so that noise keeps its part of the errors,
    beyond λ = 9 more slowly, so that it loses it."""
    if family == "binomial":
        return max(0.85, min(0.85 * signal / 6, 1.275 * (signal / 9) ** 0.3, 2.5))
    return max(0.85, min(0.085 * signal, 1.0))


def _curvature_norm(family: str, kappa: float) -> float:
    """C_H over the parameters, by κ. The mean of b |q|² is about one parameter each, so that noise
    that is C_H large hides a direction of little curvature the sooner, and wide bounds gain only
    what records far out say of their own columns. A rare outcome of the binomial makes the gradient
    noisier than the curvature, and there weights below 1 cost more."""
    least = max(1.3, min(kappa / 25, 1.6)) if family == "binomial" else 1.0
    return min(max(kappa / 50, least), 4.0)


def release(config: FisherScoringConfig, problem: GeneralizedLinear, facts: Facts) -> Release:
    scales = _scales(config, problem)
    rounds = len(scales)
    return Release(table(config, problem, facts), rounds, scales=scales if rounds > 1 else ())


def _parts(config: FisherScoringConfig, problem: GeneralizedLinear) -> np.ndarray:
    """Of the rounds' μ², the parts (rounds, 4) of gradient, curvature, meat, and of what stands
    beside the gradient: the histogram of wide residuals, or the mean of bounded ones."""
    rounds = config.rounds or 1
    if problem.wide:
        noisy = rounds == 3 and (config.curvature_norm or 0.0) <= _LEAST_CURVATURE
        found = np.array(_NOISY_SCHEDULE if noisy else _WIDE_SCHEDULES[rounds])
        return found / found.sum()
    mean = _MEAN_SHARE if problem.family == "gaussian" else 0.0
    own = np.array([[share * part for part in parts] for share, parts in _SCHEDULES[rounds]])
    return np.column_stack([(1 - mean) * own, mean * own.sum(axis=1)])


def _scales(config: FisherScoringConfig, problem: GeneralizedLinear) -> tuple[float, ...]:
    """How much larger the noise of a round is than that of the round with the least."""
    shares = _parts(config, problem).sum(axis=1)
    return tuple(rounded(math.sqrt(shares.max() / share)) for share in shares)


def table(config: FisherScoringConfig, problem: GeneralizedLinear, facts: Facts) -> Table:
    """What a round releases."""
    width, p, many = _vector(problem), problem.parameters, facts.group
    kind = ScoredPoint(width, p, points=many, others=many)
    return Table((Block("scores", kind, _Scores(problem)),), group=many, together=many > 1)


@dataclass(frozen=True)
class _Scores:
    """What records add, or persons of several records each."""

    problem: GeneralizedLinear

    def __call__(self, public: Any, rows: Any) -> Any:
        if isinstance(rows, tuple):
            return person_scores(recorded, histogram_row, self.problem, public, *rows)
        return record_scores(self.problem, public, rows)


def _bounded_line(problem: GeneralizedLinear) -> bool:
    return problem.family == "gaussian" and not problem.wide


def _vector(problem: GeneralizedLinear) -> int:
    """Numbers of the vector: the gradient, and for the gaussian the mean of bounded residuals, or
    the histogram of wide ones."""
    beside = BINS if problem.wide else int(_bounded_line(problem))
    return problem.parameters + beside


# ------------------------------------------------------------- what is known, and what is asked


class Start(NamedTuple):
    """What the first release told: middles and spreads (d,), the first θ (p,), v there, the largest
    residual there, the target's own spread and mean, and what of each number lies far out (d,)."""

    centre: Any
    scale: Any
    theta: Any
    variance: Any
    reach: Any
    spread: Any
    mean: Any
    far: Any = ()


class Point(NamedTuple):
    """Where a round is asked: θ (p,), A (p, p), σ of the gaussian, R, where residuals are clipped
    that are wide, else the largest one, what the clip may move the gradient by in a direction, and
    the mean curvature of the round before over that of the start, at most 1: C_H falls with it."""

    theta: Any
    whitening: Any
    sigma: Any
    bound: Any
    miss: Any
    level: Any


class Asked(NamedTuple):
    """All that a record needs to know: a point, the columns' middles and spreads, C_g, C_H, the
    weights a (3,) and (2,) of the release, whether residuals beyond k are left out of the
    gaussian's curvature (not in the first round, see `_inside`), and k."""

    point: Point
    centre: Any
    scale: Any
    gradient_norm: Any
    curvature_norm: Any
    weights: Any
    split: Any
    bounded: Any
    bend_at: Any


class ScoringState(NamedTuple):
    """The server's: the start, the next point, how many rounds are done, and all that was asked
    and released in them: points (rounds, ...), sums (rounds, width), records (rounds,)."""

    start: Start
    point: Point
    round: Any
    points: Point
    sums: Any
    records: Any


def start_of(
    config: FisherScoringConfig, problem: GeneralizedLinear, scales: Scales, records: float
) -> Start:
    assert config.bend_at is not None
    mean = problem.inside(scales.mean, records)
    theta = np.zeros(problem.parameters)
    theta[0] = problem.link(mean) - scales.offset
    return Start(
        scales.centre,
        scales.scale,
        theta,
        problem.variance(mean),
        problem.reach(mean, config.bend_at) * _dispersion(problem, mean, scales.spread),
        scales.spread if problem.family == "gaussian" else 1.0,
        mean,
        scales.far,
    )


def _dispersion(problem: GeneralizedLinear, mean: float, deviation: float) -> float:
    """How many times wider than by the Poisson law counts are before anything is explained."""
    if problem.family != "poisson":
        return 1.0
    return min(max(deviation / math.sqrt(mean), 1.0), _MOST_DISPERSION)


def round_weights(
    xp: Any, config: FisherScoringConfig, problem: GeneralizedLinear, number: Any, reach: Any
) -> tuple[Any, Any]:
    """The weights (3,) of a round's vector, curvature and meat, and (2,) of gradient and what
    stands beside it within the vector. Rare outcomes have large residuals, and so large a C_g:
    there the gradient has half as much again."""
    parts = _parts(config, problem)
    parts = xp.asarray(parts / parts.sum(axis=1, keepdims=True))[number]
    gradient = parts[0]
    if problem.family == "binomial":
        gradient = xp.where(reach > 3.0, xp.minimum(0.8, 1.5 * gradient), gradient)
    others = parts[1:3] * (1 - gradient - parts[3]) / (1 - parts[0] - parts[3])
    vector = gradient + parts[3]
    weights = xp.sqrt(xp.concatenate([xp.stack([vector]), others]))
    split = xp.sqrt(xp.stack([gradient / vector, parts[3] / vector]))
    return weights, split


def _norms(
    config: FisherScoringConfig, problem: GeneralizedLinear, bound: Any, level: Any
) -> tuple[Any, Any]:
    """C_g and C_H."""
    assert config.gradient_norm is not None
    assert config.curvature_norm is not None
    p = problem.parameters
    return config.gradient_norm * math.sqrt(p) * bound, config.curvature_norm * p * level


def recorded(problem: GeneralizedLinear, public: Asked, rows: Any) -> Recorded:
    """What records (n,) say, before they are bounded."""
    features, y, offset, weight = problem.parts(rows)
    point = public.point
    standard = (features - public.centre) / public.scale
    standard = jnp.concatenate([jnp.ones_like(y)[:, None], standard], axis=1)
    scores = standard @ point.theta + offset
    said = problem.said(scores, y, point.sigma, public.bend_at)
    row = (standard @ point.whitening.T) * said.root[:, None]
    square = jnp.maximum(jnp.sum(row * row, axis=1), 1e-12)
    # The gaussian's slope is 0 or 1 by y, so that its weight takes it for 1.
    slope = jnp.ones_like(y) if problem.family == "gaussian" else said.slope
    bend = jnp.where(public.bounded, said.slope, slope)
    far = jnp.clip((y - scores) / point.sigma / WIDE, -1.0, 1.0)
    reach = said.reach
    if problem.wide:  # weights bound rows alone, and the product is clipped
        longest = public.curvature_norm / math.sqrt(problem.parameters)
        reach = jnp.broadcast_to(public.gradient_norm / longest, y.shape)
    return Recorded(row, square, said.residual, reach, slope, bend, weight, far)


def record_scores(problem: GeneralizedLinear, public: Asked, rows: Any) -> Any:
    """What every record adds, as `ScoredPoint` takes it: (n, vector + 2 p + 3)."""
    said = recorded(problem, public, rows)
    row, square, slope, weight = said.row, said.square, said.slope, said.weight
    most = jnp.maximum(weight, 1e-6)
    by_gradient = public.gradient_norm / (most * jnp.sqrt(square) * said.reach)
    by_curvature = public.curvature_norm / (most * jnp.maximum(slope, 1e-6) * square)
    whole = weight * jnp.minimum(1.0, jnp.minimum(by_gradient, by_curvature))
    gradient = (whole * said.residual / public.gradient_norm)[:, None] * row
    curvature = jnp.sqrt(whole * said.bend / public.curvature_norm)[:, None] * row
    if problem.wide:
        beside = histogram_row(public, gradient, said.residual)
        gradient = into_ball(jnp, gradient)
    else:
        beside = (weight * said.far)[:, None][:, : int(_bounded_line(problem))]
    vector = jnp.concatenate([public.split[0] * gradient, public.split[1] * beside], axis=1)
    shares = jnp.broadcast_to(public.weights, (len(row), 3))
    return jnp.concatenate([vector, curvature, gradient, shares], axis=1)


def histogram_row(public: Asked, gradient: Any, sign: Any) -> Any:
    """The cell (n, bins) of a gradient (n, p) in units of C_g: its length in units of sqrt(p),
    with this sign (n,)."""
    unit = public.gradient_norm / math.sqrt(gradient.shape[1])
    length = unit * jnp.sqrt(jnp.sum(gradient * gradient, axis=1))
    own = jax.nn.one_hot(place_of(jnp.sign(sign) * length), BINS)
    return jnp.where(jnp.isfinite(length)[:, None], own, jnp.nan)


# ------------------------------------------------------------- what a round has told


class Terms(NamedTuple):
    """What the server knows besides: the configuration, the problem, and the deviation of noise in
    a number of each round's sum of points (rounds,)."""

    config: FisherScoringConfig
    problem: GeneralizedLinear
    noise: tuple[float, ...]


def first_state(terms: Terms, start: Start) -> ScoringState:
    """Before any round."""
    problem, p, rounds = terms.problem, terms.problem.parameters, len(terms.noise)
    start = Start(*(np.asarray(part, np.float32) for part in start))
    whitening = np.eye(p, dtype=np.float32) / np.sqrt(start.variance)
    first = Point(start.theta, whitening, start.spread, start.reach, np.float32(0), np.float32(1))
    point = Point(*(np.float32(part) for part in first))
    points = Point(*(np.stack([part] * rounds) for part in point))
    sums = np.zeros((rounds, _vector(problem) + p * (p + 1)), np.float32)
    return ScoringState(start, point, np.int32(0), points, sums, np.zeros(rounds, np.float32))


class Opened(NamedTuple):
    """A round's sums in their own units, and of the gaussian the sum of far residuals, or the
    histogram of wide ones (bins,); with the noise in one number of it."""

    scored: Scored
    residuals: Any
    s_residuals: Any


def opened(xp: Any, terms: Terms, state: ScoringState, number: Any) -> Opened:
    """The sums of a round."""
    problem, p, width = terms.problem, terms.problem.parameters, _vector(terms.problem)
    sums, start, config = state.sums[number], state.start, terms.config
    weights, split = round_weights(xp, config, problem, number, start.reach)
    gradient_norm, curvature_norm = _norms(
        config, problem, state.points.bound[number], state.points.level[number]
    )
    noise = xp.asarray(terms.noise)[number]
    half = p * (p + 1) // 2
    vector, one, other = sums[:width], sums[width : width + half], sums[width + half :]
    by_vector = math.sqrt(2) / weights[0]
    by_gradient = gradient_norm * by_vector / split[0]
    by_curvature, by_meat = curvature_norm / weights[1], gradient_norm**2 / weights[2]
    scored = Scored(
        by_gradient * vector[:p],
        by_curvature * unpacked(p, one, xp),
        by_meat * unpacked(p, other, xp),
        by_gradient * noise,
        by_curvature * noise,
        by_meat * noise,
    )
    if problem.wide:
        by_cell = by_vector / xp.maximum(split[1], 1e-9)
        return Opened(scored, by_cell * vector[p:], by_cell * noise)
    if problem.family == "binomial":
        return Opened(scored, xp.asarray(0.0), xp.asarray(0.0))
    by_mean = WIDE * by_vector / split[1]
    inside = xp.where(xp.asarray(number) == 0, _inside(xp, terms.config, scored), 1.0)
    scored = scored._replace(
        curvature=inside * scored.curvature, s_curvature=inside * scored.s_curvature
    )
    return Opened(scored, by_mean * vector[p], by_mean * noise)


def _inside(xp: Any, config: FisherScoringConfig, scored: Scored) -> Any:
    """The share of residuals within k, by how widely bounded ones scatter, for a normal law.

    In the first round residuals hold the whole effect of x, so that records whose residual is small
    are no fair sample of x. There all records count in the curvature, and by Stein's identity the
    slope of the bounded residual's mean is this share times it.
    """
    spreads, squares, shares = _normal_scatter(config.bend_at or 1.0)
    seen = xp.trace(scored.meat) / xp.maximum(xp.trace(scored.curvature), 1e-6)
    spread = xp.interp(seen, xp.asarray(squares), xp.asarray(spreads))
    return xp.interp(spread, xp.asarray(spreads), xp.asarray(shares))


@lru_cache(maxsize=32)
def _normal_scatter(bend_at: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Spreads of a normal law, the mean squares of its residuals bounded at k, and the shares
    within k."""
    spreads = np.linspace(0.2, 4.0, 200)
    edge = bend_at / spreads
    shares = 2 * ndtr(edge) - 1
    density = np.exp(-(edge**2) / 2) / math.sqrt(2 * math.pi)
    squares = spreads**2 * (shares - 2 * edge * density) + bend_at**2 * (1 - shares)
    return spreads, squares, shares


def averaged(xp: Any, terms: Terms, state: ScoringState, number: Any) -> Opened:
    """The sums of a round, with the curvature of all rounds so far that have the same A: averaged
    by precision, the first round being by itself.

    The gaussian's σ is another one in every round, and so is the share of residuals within k. Their
    average has the level of the last round, whose gradient it goes with: its trace is well known.
    """
    own = opened(xp, terms, state, number)
    precision, total = 0.0, 0.0 * own.scored.curvature
    for other in range(len(terms.noise)):
        found = opened(xp, terms, state, other).scored
        counts = (other <= number) & ((other > 0) == (number > 0))
        variance = found.s_curvature**2
        if terms.problem.family == "poisson":
            variance = variance + _changed(xp, own.scored, found)
        weight = xp.where(counts, 1 / variance, 0.0)
        precision, total = precision + weight, total + weight * found.curvature
    curvature = total / precision
    if terms.problem.family == "poisson" or _bounded_line(terms.problem):
        level = xp.trace(own.scored.curvature) / xp.maximum(xp.trace(curvature), 1e-6)
        curvature = xp.clip(level, 0.5, 2.0) * curvature
    scored = own.scored._replace(curvature=curvature, s_curvature=precision**-0.5)
    return own._replace(scored=scored)


def _changed(xp: Any, own: Scored, other: Scored) -> Any:
    """The mean square by which numbers of two curvatures differ beyond their noise: that of counts
    follows their means, so that strong effects change it from round to round."""
    p = len(own.gradient)
    apart = own.curvature - other.curvature
    numbers = p * (p + 1) / 2
    square = xp.sum(apart * apart) / numbers
    return 4 * xp.maximum(square - own.s_curvature**2 - other.s_curvature**2, 0.0)


class Moved(NamedTuple):
    """A step from a point, in standardised coordinates: where it leads (p,), the covariance of
    that (p, p), the part of it that the sample alone would have, and how much of the residuals'
    mean square the step explains; what it was made of; the covariance before `group_steps`, and of
    indicators d, its error, π, q₁ and q₀ (5, d) there."""

    theta: Any
    covariance: Any
    sampling: Any
    explained: Any
    evidence: Any
    linear: Any
    indicators: Any


def prior_sd(config: FisherScoringConfig, problem: GeneralizedLinear, start: Start, xp: Any) -> Any:
    """The prior's deviations in standardised coordinates (p,): a category's value has the same one
    however rare it is."""
    own = xp.where(xp.asarray(problem.numeric, bool), 1.0, start.scale)
    whole = xp.concatenate([xp.asarray([_INTERCEPT_SD / config.prior_sd]), own])
    return config.prior_sd * start.spread * whole


def moved(
    xp: Any,
    loop: Any,
    terms: Terms,
    state: ScoringState,
    number: Any,
    *,
    last: bool,
    by_model: bool = False,
    endless: Sequence[int] = (),
) -> tuple[Moved, Opened]:
    """The step of a round, the last of which takes the prior as it is; with errors `by_model` its
    meat is the one that the model has. Of `endless` coefficients the way leads to infinity, and how
    far a step misses there does not matter."""
    config, problem, start = terms.config, terms.problem, state.start
    p, rounds = problem.parameters, len(terms.noise)
    point = Point(*(part[number] for part in state.points))
    told = averaged(xp, terms, state, number)
    if by_model:
        told = told._replace(scored=modelled_meat(xp, told.scored, problem.family))
    scored, sigma, whitening = told.scored, point.sigma, point.whitening
    inverse = xp.linalg.inv(whitening)
    caution = 1.0 if last else _CAUTION
    precision = (caution * sigma / prior_sd(config, problem, start, xp)) ** 2
    prior = (whitening * precision) @ whitening.T
    prior_way = inverse.T @ (start.theta - point.theta) / sigma
    curvature = positive(xp, scored.curvature)
    level = xp.maximum(xp.trace(curvature) / p, 1e-6)
    spread = _SCORES_SPREAD[problem.family]
    if problem.wide:
        spread = max(spread, _WIDE_SPREAD) if problem.family == "gaussian" else spread
        scored = scored._replace(meat=scored.meat + point.miss**2 * xp.eye(p))
    largest = start.variance * (spread * start.spread / sigma) ** 2
    if rounds == 1:  # where noise is large, the gradient itself says how long the way may be
        square = scored.gradient @ scored.gradient - p * scored.s_gradient**2
        noise = 2 * math.sqrt(2 * p) * scored.s_gradient**2
        largest = xp.minimum(largest, (xp.maximum(square, 0.0) + noise) / level**2)
    # Only errors need to know how far off a long step is; the points between need to get there.
    curved = last and problem.family != "gaussian"
    curving = 1 / (level * start.variance) if curved else 0.0
    curving = curving / 4 if rounds == 1 else curving
    # Steps of indicators, and of the level of counts, are exact on the scale of means.
    groups = groups_of(problem.columns)
    bent = np.concatenate([[problem.family != "poisson"], ~groups.indicator])
    bent[list(endless)] = False
    bends = inverse.T @ np.diag(bent * 1.0) @ whitening.T if curved else None
    step = noise_aware_step(xp, scored, prior, prior_way, largest, curving, loop, bends)
    explained = _explained(xp, curvature, step.way, step.covariance) / level
    back = sigma * whitening.T
    made_of = Evidence(scored, prior, prior_way, largest, curving, point.theta, back)
    way, covariance, sampling = (
        back @ step.way,
        back @ step.covariance @ back.T,
        back @ step.sampling @ back.T,
    )
    error = xp.sqrt(xp.maximum(xp.diagonal(covariance), 0.0))
    linear, jacobian, indicators = covariance, xp.eye(p), xp.zeros((5, p - 1))
    share = told.scored.s_curvature / xp.maximum(state.records[number], 1.0)
    floor = 0.0 if last else xp.clip(_KEPT * share, *_LEAST_KEPT)
    if problem.family == "binomial":
        first = xp.where(number == 0, 1.0, 0.0)
        steady = xp.asarray(np.concatenate([[0.0], ~groups.indicator]))
        kept, whole = xp.outer(steady, steady), inverse @ curvature @ inverse.T
        numbers = _explained(xp, whole, steady * way, kept * covariance) / level
        factor, shift = _stretched(xp, loop, numbers, start)
        factor, straight = 1 + first * (factor - 1), way
        way = xp.concatenate([way[:1] + first * shift, factor * way[1:]])
        place = point.theta, start.mean, start.centre, start.scale, number == 0, factor
        way, jacobian, indicators = chance_step(
            xp, groups, way, straight, error, *place, floor * start.variance
        )
        if not last:  # they stay where the first step led, so that rounds share a curvature
            held = xp.asarray(np.concatenate([[False], groups.indicator])) & (number > 0)
            way = xp.where(held, 0.0, way)
    elif problem.family == "poisson":
        rows = inverse @ curvature @ inverse.T
        mean_row = rows[0] / xp.maximum(rows[0, 0], 1e-9)
        way, jacobian, indicators = count_step(
            xp, groups, way, error, mean_row, start.centre, start.scale, floor
        )
    covariance = jacobian @ covariance @ jacobian.T
    sampling = jacobian @ sampling @ jacobian.T
    theta = point.theta + way
    return Moved(theta, covariance, sampling, explained, made_of, linear, indicators), told


def _explained(xp: Any, curvature: Any, way: Any, covariance: Any) -> Any:
    """The square of a way's effect on scores, less what noise adds to it."""
    return xp.maximum(way @ curvature @ way - xp.trace(curvature @ covariance), 0.0)


def _stretched(xp: Any, loop: Any, explained: Any, start: Start) -> tuple[Any, Any]:
    """By how much slopes of a first logistic step fall short, and how the intercept moves."""
    spread = xp.sqrt(explained / start.variance)
    factor, middle = attenuation(xp, start.mean, spread, start.variance, loop)
    return factor, middle - xp.log(start.mean / (1 - start.mean))


# ------------------------------------------------------------- the algorithm


def build(
    config: FisherScoringConfig, problem: GeneralizedLinear, facts: Facts, priced: Priced
) -> Algorithm:
    terms = terms_of(config, problem, priced)
    rounds, weight = len(terms.noise), lone_weight(priced.step)

    def scaled(found: Any) -> Scales:
        if found is None:
            return scales_of(problem, found)
        assert config.count_noise is not None
        noise, records = config.count_noise, sum(facts.records)
        return steady_scales(problem, found, noise, records, columns=config.prediction)

    def begin(found: Any) -> tuple[ScoringState, None]:
        start = start_of(config, problem, scaled(found), sum(facts.records))
        return first_state(terms, start), None

    def ask(state: ScoringState) -> Any:
        xp, _ = arrays_of(state)
        start = state.start
        number = xp.minimum(state.round, rounds - 1)
        weights, split = round_weights(xp, config, problem, number, start.reach)
        norms = _norms(config, problem, state.point.bound, state.point.level)
        place = (state.point, start.centre, start.scale)
        asked = Asked(*place, *norms, weights, split, 1.0 * (number > 0), config.bend_at)
        asked = jax.tree.map(lambda part: xp.asarray(part, xp.float32), asked)
        asked = asked._replace(bounded=asked.bounded > 0)
        if facts.group == 1:
            return asked
        clustered = (number == rounds - 1) | (not _bounded_line(problem))
        return AskedOfPersons(asked, xp.asarray(clustered))

    def merge(state: ScoringState, sums: Aggregate) -> ScoringState:
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


def next_point(xp: Any, loop: Any, terms: Terms, state: ScoringState, number: Any) -> Point:
    """Where the round after this one is asked."""
    problem, p, old = terms.problem, terms.problem.parameters, state.point
    step, told = moved(xp, loop, terms, state, number, last=False)
    curvature, noise = positive(xp, told.scored.curvature), told.scored.s_curvature
    turn = whitened(xp, curvature, noise, xp.maximum(state.records[number], 1.0))
    first = xp.where(number == 0, 1.0, 0.0)
    turn = first * turn + (1 - first) * xp.eye(p)
    sigma = old.sigma * _sigma_factor(xp, problem, told.scored)
    clip = _next_level(xp, terms, state, number, step, told)
    level = xp.asarray(1.0)
    if problem.family == "binomial":  # strong effects leave little of it, and noise would hide that
        mean = xp.trace(curvature) / p / xp.maximum(state.records[number], 1.0)
        level = xp.where(number == 0, 1.0, xp.clip(mean, _LEAST_LEVEL, 1.0))
    return Point(step.theta, turn @ old.whitening, sigma, *clip, level)


def _next_level(
    xp: Any, terms: Terms, state: ScoringState, number: Any, step: "Moved", told: Opened
) -> Level:
    """Where wide residuals of the next round are clipped: in the last one by the histogram of this
    one, before it at a few deviations, which of the gaussian follow from meat over curvature."""
    problem, config, old = terms.problem, terms.config, state.point
    start, p, rounds = state.start, problem.parameters, len(terms.noise)
    if not problem.wide:
        return Level(old.bound, old.miss)
    assert config.gradient_norm is not None
    records, counts = xp.maximum(state.records[number], 1.0), problem.family == "poisson"
    square = xp.trace(told.scored.meat) / xp.maximum(xp.trace(told.scored.curvature), 1e-6)
    square = square - step.explained / records
    narrowest, widest = (1.0, _MOST_DISPERSION) if counts else (0.2, 1.2)
    pilot = _PILOT * xp.clip(xp.sqrt(xp.maximum(square, 0.0)), narrowest, widest)
    top = _top(xp, problem, start, old.sigma)
    least = xp.where(start.mean < 0.5, 1.3 / xp.sqrt(start.mean) / config.gradient_norm, 0.0)
    following = xp.minimum(number + 1, rounds - 1)
    weights, split = round_weights(xp, config, problem, following, start.reach)
    noise = xp.asarray(terms.noise)[following] * math.sqrt(2) / weights[0] / split[0]
    unit = config.gradient_norm * math.sqrt(p) * noise
    found = clip_level(
        *(xp, told.residuals, told.s_residuals, records, unit, config.gradient_norm, top),
        *((least, _COUNTS_SIGMA) if counts else (0.0,)),
    )
    if problem.residuals == "whole":
        found = Level(top, 0.0 * found.miss)
    last = number + 2 >= rounds
    return Level(xp.where(last, found.bound, pilot), xp.where(last, found.miss, 0.0))


def _top(xp: Any, problem: GeneralizedLinear, start: Start, sigma: Any) -> Any:
    """The largest residual that the target's bounds allow."""
    width = problem.target[1] - problem.target[0]
    return width / (xp.sqrt(start.mean) if problem.family == "poisson" else sigma)


def _sigma_factor(xp: Any, problem: GeneralizedLinear, scored: Scored) -> Any:
    """By how much residuals spread more than was thought: the trace of the meat over that of the
    curvature is their mean square."""
    if not _bounded_line(problem):
        return 1.0
    square = xp.trace(scored.meat) / xp.maximum(xp.trace(scored.curvature), 1e-6)
    return xp.clip(xp.sqrt(xp.maximum(square, 0.01)), 0.15, 1.5)


def terms_for(study: Any) -> Terms:
    """The terms of a study by this algorithm."""
    return _terms(study.method, study.facts, study.trust)


# Priced once for equal studies, as they are.
@lru_cache(maxsize=64)
def _terms(method: Any, facts: Facts, trust: Trust) -> Terms:
    config = resolve(method.config, method.problem, facts, method.privacy, trust)
    priced = price(release(config, method.problem, facts), method.privacy, facts, trust)
    return terms_of(config, method.problem, priced)


def terms_of(config: FisherScoringConfig, problem: GeneralizedLinear, priced: Priced) -> Terms:
    one = priced.noise_std / lone_weight(priced.step)
    return Terms(config, problem, tuple(one * scale for scale in _scales(config, problem)))


# ------------------------------------------------------------- reading the result


class Fitted(NamedTuple):
    """Coefficients in standardised coordinates, the intercept first: their estimate (p,), its
    covariance, the part that a sample without noise would have, and the prior's deviations (p,).
    `centre` and `scale` (d,) lead back to the features. `evidence` is what tests of nested models
    need, `without_cases` says of which parties cases cannot be told from none. `weak` (p, p) is the
    prior's covariance along directions whose curvature cannot be told from noise. `heavy` says that
    wide residuals were clipped in a heavy tail, `moved` (rounds - 1, p) are the steps after the
    first; `far` (d,) are those of the start."""

    theta: np.ndarray
    covariance: np.ndarray
    sampling: np.ndarray
    prior: np.ndarray
    centre: np.ndarray
    scale: np.ndarray
    rounds: int
    evidence: Evidence | None = None
    without_cases: tuple[bool, ...] = ()
    weak: np.ndarray | None = None
    cases: tuple[Cases, ...] = ()
    means: GroupMeans | None = None
    linear: np.ndarray | None = None
    heavy: bool = False
    moved: np.ndarray | None = None
    far: np.ndarray = np.zeros(0)


def fitted(terms: Terms, value: ScoringState, by_model: bool = False) -> Fitted:
    """What a run has found, computed from what it released in double precision; errors are those
    of a sandwich, or `by_model` those that the model has."""
    done = int(value.round)
    if done == 0:
        raise InvalidInput(
            "fewer parties answered than the study requires, so no round was opened and there is "
            "no answer: ask again, or agree on a smaller minimum of survivors; what was granted "
            "stays spent"
        )
    state = _double(value)
    last = done - 1
    start, point, whitening = state.start, state.points, state.points.whitening[last]
    step, told = moved(np, numpy_loop, terms, state, last, last=True, by_model=by_model)
    few = without_cases(
        terms.problem, told.scored, whitening, point.theta[last], start.centre, start.scale
    )
    if any(few):
        endless = site_places(terms.problem, few)
        step, told = moved(
            np, numpy_loop, terms, state, last, last=True, by_model=by_model, endless=endless
        )
    if _bounded_line(terms.problem):
        step = _at_the_mean(state, told, last, step)
    return Fitted(
        step.theta,
        step.covariance,
        step.sampling,
        np.asarray(prior_sd(terms.config, terms.problem, state.start, np)),
        start.centre,
        start.scale,
        done,
        step.evidence,
        few,
        _weak(step.evidence),
        cases_of_all(terms.problem, told.scored, whitening, point.theta[last]),
        _group_means(terms, state, last, step),
        step.linear,
        _heavy(terms, state, last - 1),
        np.diff([*point.theta[:done], step.theta], axis=0)[1:],
        start.far,
    )


def _heavy(terms: Terms, state: ScoringState, number: int) -> bool:
    """Whether the round's histogram of residuals has a tail that is heavier than the clip allows
    for. One that is not clipped has none."""
    problem = terms.problem
    if not problem.wide or problem.residuals == "whole" or number < 0:
        return False
    told, records = opened(np, terms, state, number), max(state.records[number], 1.0)
    top = _top(np, terms.problem, state.start, state.points.sigma[number])
    clipped = bool(state.points.bound[number + 1] < top)
    return clipped and heavy_tail(told.residuals, told.s_residuals, records, top)


def _group_means(terms: Terms, state: ScoringState, last: int, step: Moved) -> GroupMeans | None:
    """The last step of indicators on the scale of means."""
    indicator = groups_of(terms.problem.columns).indicator
    if terms.problem.family == "gaussian" or not indicator.any():
        return None
    own = np.stack([state.points.theta[last][1:] / state.start.scale, *step.indicators])
    own = np.where(indicator, own, np.nan)
    return GroupMeans(*np.column_stack([np.full(len(own), np.nan), own]))


def _weak(evidence: Evidence) -> np.ndarray:
    """The prior's covariance along weak directions, in standardised coordinates (p, p)."""
    along = weak_directions(evidence.scored.curvature, evidence.scored.s_curvature)
    spread = along @ (along.T @ np.linalg.inv(evidence.prior) @ along) @ along.T
    return np.asarray(evidence.back @ spread @ evidence.back.T)


def _double(value: Any) -> Any:
    return jax.tree.map(lambda part: np.asarray(part, np.float64), value)


def _at_the_mean(state: ScoringState, told: Opened, number: int, step: Moved) -> Moved:
    """The intercept moved from where bounded residuals balance to where wide ones do. Σ w ψ is the
    first number of A⁻¹ g, so that the difference is known from the same round."""
    sigma, records = state.points.sigma[number], max(float(state.records[number]), 1.0)
    inverse = np.linalg.inv(state.points.whitening[number])
    narrow = inverse[0] @ told.scored.gradient
    noise = told.s_residuals**2 + told.scored.s_gradient**2 * (inverse[0] @ inverse[0])
    theta, covariance = step.theta.copy(), step.covariance.copy()
    theta[0] += sigma * (told.residuals - narrow) / records
    covariance[0, 0] += sigma**2 * noise / records**2
    return step._replace(theta=theta, covariance=covariance)


def earlier(config: FisherScoringConfig, problem: GeneralizedLinear) -> Earlier | None:
    return Earlier(COLUMN_SCALES, scales_share(config))


FISHER_SCORING = AlgorithmKind(
    "fisher-scoring",
    "few noisy rounds of gradient and curvature, whose intervals count the noise in",
    FisherScoringConfig,
    GeneralizedLinear,
    release,
    build,
    resolve,
    units=(Unit.RECORD, Unit.PERSON),
    unit_rows=False,
    sends="noisy sums of bounded gradients, curvatures and their squares",
    laws={"regression": UtilityLaw(17.4, 1.69, 2.84, 3.01)},
    earlier=earlier,
)

__all__ = [
    "FISHER_SCORING",
    "FisherScoringConfig",
    "Fitted",
    "count_noise",
    "fitted",
    "terms_for",
]
