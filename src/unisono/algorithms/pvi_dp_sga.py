"""Private partitioned inference by DP-SGA: noisy steps up the local free energy.

Unit: one record. Everyone but its own party is an adversary (trust LOCAL): whatever a party sends
is made from noisy gradients. At its turn a party starts at the public q and takes `local_steps`
steps; for each it draws a secret sampling mask, each record with probability r, and

    S  = Σ over chosen records of clip_C(d/d(m, v) E_q[log p(y | x, θ)])  +  N(0, σ² I)
    (m, log v) <- (m, log v) + η ∘ [ S / (r n) + (entropy and cavity) / n ]  in (m, log v)

The entropy and the cavity need no noise and are added after it, with the halves that the published
gradient lacks (`free_energy`); the chain rule to log v is post-processing. Where log p is quadratic
in θ (a line with normal errors) the cavity's pull is taken at the end of the step (implicitly):
that is stable however much the others know, where an explicit step must shrink with their number.
Gradients of means and of variances differ in scale, and clipping is by their common norm: a
`variance_weight` makes them alike, and is divided out after the noise. The party's factor
becomes t <- t (q_new / q_old)^ρ, a function of what it released, so T turns of `local_steps`
releases compose as Poisson-sampled Gaussians, accounted by a certified loss distribution. Every
party may have its own epsilon, and parties may take turns in any public order. n is the public size
of a party, on average: it only sets the scale of steps.

Learning rates may fall linearly over the steps of the run, to `end_rate` of what they were (Abadi
et al. 2016 begin with large ones and reduce them), and a `sampling_rate` of "sqrt" makes samples of
about sqrt(n) records, which the same authors advise: both are public.

A `start` is what is known of all parties' factors together from an earlier release, such as the
posterior of a one-shot regression divided by its prior. Each party begins with an equal part of it;
both releases are paid for. With "one-shot" that release is a stage of the same study (the hybrid
that Sharma 2019 suggests): it takes `start_share` of epsilon and delta, the steps take the rest,
and the promise holds for both together. q is mean-field, so of the earlier posterior it takes the
mean and the diagonal of the precision, the mean-field density that is nearest to it.
"""

import math
from typing import Annotated, Any, Literal, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np
from pydantic import Field, model_validator

from unisono.algorithms.descent import Rounds
from unisono.algorithms.free_energy import (
    data_free_gradient,
    data_gradients,
    from_coordinates,
    in_log_variance,
    to_coordinates,
)
from unisono.algorithms.noise_aware import full_natural
from unisono.algorithms.posterior import (
    PosteriorAnswer,
    PosteriorConfig,
    PublicPosterior,
    answer_of,
    start_of,
    usable,
)
from unisono.algorithms.pvi import ScheduleName, schedule
from unisono.algorithms.pvi_analytic import ONE_SHOT_REGRESSION
from unisono.core.algorithm import Aggregate, Facts, Schedule
from unisono.core.events import Poisson
from unisono.core.privacy import Privacy
from unisono.core.trust import Trust
from unisono.errors import InvalidInput
from unisono.problems.bayesian import BayesianProblem
from unisono.problems.gaussian_family import Natural, mean, power, product, quotient
from unisono.problems.likelihoods import usual_error
from unisono.releases.algorithm import (
    Algorithm,
    AlgorithmKind,
    Earlier,
    Records,
    RowScale,
    rounded,
)
from unisono.releases.bounds import ClippedSum
from unisono.releases.release import LocalSteps, Priced, Release

# Changes of natural parameters travel as integers: steps of 2^-12, each change below 2^17.
_REPORT_STEP, _REPORT_LARGEST = 2.0**-12, 2.0**17
_LOCAL = frozenset({Trust.LOCAL})


class DpSgaConfig(PosteriorConfig):
    """What the parties agree on. Both learning rates are per record of the party."""

    rounds: Rounds = Field(10, description="Rounds in which parties report.")
    local_steps: Rounds = Field(20, description="Noisy steps of a party between two reports.")
    sampling_rate: Annotated[float, Field(gt=0, le=1)] | Literal["sqrt"] = Field(
        0.1,
        description='A record\'s chance to take part in a step; "sqrt": 1 / sqrt(n), n the public '
        "size of a party, on average.",
    )
    clipping_norm: float = Field(1.0, gt=0, description="The largest gradient of one record.")
    variance_weight: float = Field(
        1.0,
        gt=0,
        description="Weighs a record's gradient of variances against that of means before both are "
        "clipped.",
    )
    learning_rate: float | None = Field(
        None,
        gt=0,
        description="The length of a step of means; left out: 0.1, for normal errors by a rule.",
    )
    variance_rate: float | None = Field(
        None,
        gt=0,
        description="The length of a step of log variances; left out: 0.01, for normal errors as "
        "the learning rate.",
    )
    end_rate: float = Field(
        1.0, gt=0, le=1, description="The part of both rates that is left at the last step."
    )
    step_limit: float = Field(
        1.0, gt=0, description="Bounds every number of a step, so that rare noise does no harm."
    )
    damping: float | None = Field(
        None,
        gt=0,
        le=1,
        description="The part of a turn's change that counts; left out: 1, for normal errors and "
        "turns at once 1 / parties.",
    )
    samples: int = Field(
        4, gt=0, description="Public draws per step, for likelihoods without a score."
    )
    order: ScheduleName = Field("synchronous", description="Who takes a turn when.")
    start: Literal["one-shot"] | tuple[tuple[float, ...], tuple[float, ...]] | None = Field(
        None,
        description="Shift and precisions of the factors that an earlier release told; "
        '"one-shot": a stage of this study tells them.',
    )
    start_share: float = Field(
        0.3, gt=0, lt=1, description="The share of the promise that a start by one-shot takes."
    )

    @model_validator(mode="after")
    def _shared(self) -> Self:
        if "start_share" in self.model_fields_set and self.start != "one-shot":
            raise InvalidInput(
                f'start_share = {self.start_share:g} without a start: say start = "one-shot", or '
                "leave it out"
            )
        return self

    def turns(self, facts: Facts) -> Schedule:
        return schedule(self.order, self.rounds, facts.parties)


class DpSgaPartyState(NamedTuple):
    """A function of the party's releases: its factor, where its climb stands, and by how much the
    factor will change if the server accepts this turn."""

    factor: Natural
    point: Any
    change: Natural
    step: Any


def started(factor: Natural) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """A factor that is known from an earlier release, as the setting `start`."""
    shift, precision = (np.asarray(part, np.float32) for part in factor)
    if precision.shape != shift.shape or not bool(np.all(precision >= 0)):
        raise InvalidInput(
            f"a start with precision of shape {precision.shape}: q is mean-field, so give "
            f"non-negative precisions of shape {shift.shape}"
        )
    return tuple(map(float, shift)), tuple(map(float, precision))


def resolve(
    config: DpSgaConfig, problem: BayesianProblem, facts: Facts, privacy: Privacy, trust: Trust
) -> DpSgaConfig:
    """Sampling rate, steps and damping, where they are left to a rule of public facts.

    For a line with normal errors of precision 1/σ² the records' part of the free energy, over n,
    bends by at most d/σ² in the means, for rows of d numbers within [-1, 1]: steps of σ²/d are
    stable. M parties that take their turns at once each move the mean, all of them by what their
    records have in common; so a change counts by 1/M.
    """
    parties, exact = facts.parties, problem.likelihood.exact
    step = rounded(1 / (problem.likelihood.bend_bound * facts.features)) if exact else 0.1
    usual = {
        "learning_rate": step,
        "variance_rate": step if exact else 0.01,
        "damping": rounded(1 / parties) if exact and config.order != "sequential" else 1.0,
    }
    found: dict[str, Any] = {n: v for n, v in usual.items() if getattr(config, n) is None}
    if config.sampling_rate == "sqrt":
        found["sampling_rate"] = rounded(1 / math.sqrt(sum(facts.records) / parties))
    return config.model_copy(update=found)


def earlier(config: DpSgaConfig, problem: BayesianProblem) -> Earlier | None:
    """The one-shot regression that tells the start, where that is asked for."""
    if config.start != "one-shot":
        return None
    if not isinstance(problem, ONE_SHOT_REGRESSION.problem):
        raise InvalidInput(
            f'start = "one-shot" for a {type(problem).__name__}: only a linear regression has '
            "sums that tell its posterior in one release; leave start out"
        )
    return Earlier(ONE_SHOT_REGRESSION, config.start_share)


def suggest(problem: BayesianProblem, rows: RowScale) -> dict[str, Any]:
    """For a line with normal errors, whose slopes grow with the precision of the targets, gradients
    are clipped beyond usual errors e of usual rows: |(e x, w x²/2)| / σ², with |x²| at most |x|,
    and the weight w for which both parts are alike."""
    likelihood = problem.likelihood
    if not likelihood.exact:
        return {}
    error = usual_error(likelihood)
    bound = math.sqrt(2) * likelihood.bend_bound * error * rows.length
    return {"clipping_norm": rounded(bound), "variance_weight": rounded(2 * error)}


def release(config: DpSgaConfig, problem: BayesianProblem, facts: Facts) -> Release:
    return Release(
        ClippedSum(config.clipping_norm, 2 * problem.likelihood.size(facts.features)),
        config.rounds,
        Poisson(float(config.sampling_rate)),
        local_steps=LocalSteps(config.local_steps, _REPORT_STEP, _REPORT_LARGEST),
        turns=None if config.order == "synchronous" else config.turns,
        trusts=_LOCAL,
    )


def build(config: DpSgaConfig, problem: BayesianProblem, facts: Facts, priced: Priced) -> Algorithm:
    likelihood, size = problem.likelihood, sum(facts.records) / facts.parties
    first = start_of(problem, likelihood.size(facts.features))
    rate, steps = float(config.sampling_rate), config.rounds * config.local_steps
    learning_rate, variance_rate, damping = _resolved(config)
    dimension = len(first.shift)
    weights = jnp.repeat(jnp.array([1.0, config.variance_weight], jnp.float32), dimension)

    def where(public: PublicPosterior, own: DpSgaPartyState) -> Natural:
        """The point of the climb: at the first step of a turn, the public q."""
        here = jnp.where(own.step == 0, to_coordinates(public.q), own.point)
        return from_coordinates(here)

    def normals(public: PublicPosterior, own: DpSgaPartyState) -> Any:
        if likelihood.scores is not None:
            return None
        key = jax.random.fold_in(jax.random.key(config.seed), public.round)
        shape = (config.samples, public.q.shift.shape[0])
        return jax.random.normal(jax.random.fold_in(key, own.step), shape)

    def left(public: PublicPosterior, own: DpSgaPartyState) -> Any:
        """What is left of the learning rates at this step of the run."""
        if config.end_rate == 1:
            return 1.0
        done = (public.round * config.local_steps + own.step) / max(1, steps - 1)
        return 1 - (1 - config.end_rate) * done

    def from_known(known: Natural) -> tuple[PublicPosterior, DpSgaPartyState]:
        q = product(first, known)
        own = DpSgaPartyState(
            power(known, 1 / facts.parties), to_coordinates(q), power(q, 0.0), jnp.int32(0)
        )
        return PublicPosterior(q, jnp.int32(0)), own

    def local(
        public: PublicPosterior, own: DpSgaPartyState, records: Records
    ) -> tuple[DpSgaPartyState, Any]:
        rows, labels = records.columns
        q = where(public, own)
        return own, weights * data_gradients(likelihood, q, rows, labels, normals(public, own))

    def absorb(public: PublicPosterior, own: DpSgaPartyState, noisy: Any) -> DpSgaPartyState:
        q, cavity = where(public, own), quotient(public.q, own.factor)
        fit = noisy / (rate * size) / weights
        slope = in_log_variance(q, fit + data_free_gradient(q, cavity) / size)
        means, logs = jnp.split(slope, 2)
        lengths = left(public, own) * learning_rate, left(public, own) * variance_rate
        if likelihood.exact:
            means = means / (1 + lengths[0] * cavity.precision / size)
        step = jnp.concatenate([lengths[0] * means, lengths[1] * logs])
        moved = to_coordinates(q) + jnp.clip(step, -config.step_limit, config.step_limit)
        change = power(quotient(from_coordinates(moved), public.q), damping)
        return DpSgaPartyState(own.factor, moved, _quantized(change), own.step + 1)

    def settle(own: DpSgaPartyState, _: None, accepted: Any) -> DpSgaPartyState:
        kept = power(own.change, jnp.where(accepted, 1.0, 0.0))
        return DpSgaPartyState(product(own.factor, kept), own.point, kept, jnp.int32(0))

    def merge(server: PublicPosterior, reports: Aggregate) -> PublicPosterior:
        change = Natural(*jnp.split(reports.total, 2))
        return PublicPosterior(product(server.q, change), server.round + 1)

    return Algorithm(
        init=lambda: from_known(_known(config, first)),
        begin=None
        if config.start != "one-shot"
        else lambda found: from_known(quotient(mean_field(found), first)),
        ask=lambda server: PublicPosterior(usable(config, problem, server.q)[0], server.round),
        local=local,
        merge=merge,
        result=lambda server: answer_of(config, problem, server.q),
        settle=settle,
        absorb=absorb,
        report=lambda own: jnp.concatenate(own.change),
    )


def _resolved(config: DpSgaConfig) -> tuple[float, float, float]:
    """Learning rate, variance rate and damping, which `resolve` filled in."""
    rates = config.learning_rate, config.variance_rate, config.damping
    given = [float(rate) for rate in rates if rate is not None]
    assert len(given) == len(rates)
    return given[0], given[1], given[2]


def _known(config: DpSgaConfig, first: Natural) -> Natural:
    """What an earlier release told of all factors together: nothing, unless there is a start."""
    if config.start is None or config.start == "one-shot":
        return power(first, 0.0)
    shifts, precisions = config.start
    least, sizes = min(precisions, default=0.0), {len(shifts), len(precisions)}
    if sizes != {len(first.shift)} or least < 0:
        raise InvalidInput(
            f"a start of {len(shifts)} shifts and {len(precisions)} precisions, the least of them "
            f"{least:g}: q is mean-field and has {len(first.shift)} of both; give precisions of "
            "zero or above"
        )
    return Natural(jnp.asarray(shifts, jnp.float32), jnp.asarray(precisions, jnp.float32))


def mean_field(found: PosteriorAnswer) -> Natural:
    """The diagonal density that is nearest to a posterior (in KL(q ‖ p)): its mean, and the
    diagonal of its precision."""
    full = full_natural(found)
    precision = np.diagonal(full.precision)
    return Natural(*(jnp.asarray(a, jnp.float32) for a in (precision * mean(full), precision)))


def _quantized(change: Natural) -> Natural:
    """The change as it travels: the party applies to its factor exactly what the server applies."""
    return Natural(*(jnp.round(part / _REPORT_STEP) * _REPORT_STEP for part in change))


DP_SGA = AlgorithmKind(
    "pvi-dp-sga",
    "a posterior by noisy steps at every party; own epsilons, and turns",
    DpSgaConfig,
    BayesianProblem,
    release,
    build,
    resolve,
    trusts=_LOCAL,
    sends="changes of posteriors after many noisy local steps",
    suggest=suggest,
    earlier=earlier,
    own_epsilons=True,
)
