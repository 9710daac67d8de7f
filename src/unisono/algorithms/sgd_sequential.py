"""SGD1: steps on one record each, in an order that a coordinator drew.

    G_i     = n clip_L(grad l(θ_i; d_π(i))) + N(0, σ² I)           by the owner of record π(i)
    θ_{i+1} = Π_C(θ_i - η_i (G_i + n Δ θ_i)),                      C of diameter |C|, within R of 0

    convex (Δ = 0)           η_i = |C| / sqrt(i (n² L'² + p σ²))      (L' = L + Δ R)
    strongly convex (Δ > 0)  η_i = 1 / (n Δ i);                       the last iterate is returned

There are n records and T steps, n² as published; i counts those that were answered, and θ_1 is
drawn uniformly from C by a public seed, which no record has a part in. (Step sizes and last
iterates: Shamir and Zhang 2013, theorems 1 and 2.)

The protocol. The coordinator draws π, uniform and independent, and keeps it. In step i it gives the
owner of π(i) its permission, which names the record and says θ_i. The owner answers with G_i, which
everybody may see. The write-up sends G_i to all parties at once, and each follows θ by itself;
here θ_i, which is made of G_1, ..., G_{i-1} and public numbers, travels with the permission
instead: one message to a step in place of m, and the same to know. All is accounted as if everybody
saw all G_i.

Who may be told what. A hidden order protects only against those who do not know it: the coordinator
drew π, so against it there is *no* amplification by sampling, and it might name one record again
and again. Each party therefore enforces a public number of `uses` (k_max) per record and is silent
beyond it: μ = sqrt(k_max) 2 n L / σ against everyone, which is what ledgers are charged before
the first step, and what σ is calibrated to. Silence depends on π alone. `views` says what would
hold against (a) who knows neither order nor party, (b) who knows a random order, (c) who sees which
party works. The redesign that keeps the amplification against everyone is `dp_sgd_convex`.
"""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax.numpy as jnp
from pydantic import Field

from unisono.accounting import gaussian, hidden_order
from unisono.algorithms.projections import ProjectedConfig, uniform_point, with_shape
from unisono.core.algorithm import Aggregate, Facts, Named
from unisono.core.events import Gaussian
from unisono.core.privacy import Privacy
from unisono.core.sensitivity import Sensitivity
from unisono.core.study import Study
from unisono.core.trust import Relation, Trust
from unisono.core.words import number
from unisono.errors import InvalidInput
from unisono.problems.linear import LinearLoss
from unisono.releases.algorithm import (
    PUBLISHED,
    Algorithm,
    AlgorithmKind,
    Publication,
    PublishedConfig,
)
from unisono.releases.bounds import ClippedSum
from unisono.releases.release import Priced, Release

MOST_RECORDS = 2000


class SequentialSgdConfig(ProjectedConfig, PublishedConfig):
    """Noisy gradients of single records; `strong_convexity` = 0 chooses the convex regime."""

    steps: int | None = Field(
        None,
        gt=0,
        le=MOST_RECORDS**2,
        description="Records that are named, one after another; left out: n² for n records.",
    )
    uses: int | None = Field(
        None,
        gt=0,
        description="How often one record may be named; left out: k + 4 sqrt(k), where each is "
        "named k times on average.",
    )
    lipschitz: float = Field(1.0, gt=0, description="The bound of one record's gradient.")
    strong_convexity: float = Field(0.0, ge=0, description="Of the loss; 0 unless regularised.")
    start_seed: int = Field(
        0, ge=0, description="The public seed of the starting point, drawn uniformly from the set."
    )
    # Part of every hash: it came with the algorithm.
    published: bool = Field(False, description=PUBLISHED)

    def steepness(self, parameters: int) -> float:
        """L': the largest gradient of one record's loss with its regulariser on the set."""
        return self.lipschitz + self.strong_convexity * self.set_of(parameters).largest_norm


class SequentialSgdState(NamedTuple):
    """The coordinator's: parameters, and how many steps were answered."""

    parameters: Any
    step: Any


def resolve(
    config: SequentialSgdConfig, problem: LinearLoss, facts: Facts, privacy: Privacy, trust: Trust
) -> SequentialSgdConfig:
    """The number of steps and of uses, from the public number of records."""
    n = sum(facts.records)
    if not facts.exact_sizes:
        raise InvalidInput(
            "sgd-sequential names single records and multiplies by their number: sizes must be "
            "exact; choose dp-sgd-convex where they are hidden"
        )
    if n > MOST_RECORDS:
        raise InvalidInput(
            f"{n} records, whose gradients are asked for one by one ({n}² times as published): "
            f"sgd-sequential is for at most {MOST_RECORDS}; use dp-sgd-convex"
        )
    steps = n**2 if config.steps is None else config.steps
    each = steps / n
    uses = math.ceil(each + 4 * math.sqrt(each)) if config.uses is None else config.uses
    found = config.model_copy(update={"steps": steps, "uses": min(uses, steps)})
    return with_shape(found, problem, facts)


def release(config: SequentialSgdConfig, problem: LinearLoss, facts: Facts) -> Release:
    assert config.steps is not None  # resolved
    assert config.uses is not None
    n = sum(facts.records)
    bound = ClippedSum(n * config.lipschitz, problem.parameters(facts.features))
    return Release(bound, config.steps, trusts=frozenset({Trust.LOCAL}), named=Named(config.uses))


def build(
    config: SequentialSgdConfig, problem: LinearLoss, facts: Facts, priced: Priced
) -> Algorithm:
    n, p = sum(facts.records), problem.parameters(facts.features)
    shape, bend = problem.shape(facts.features), config.strong_convexity
    gradients, inside = problem.function.gradients, config.set_of(p)
    moment = (n * config.steepness(p)) ** 2 + p * priced.noise_std**2
    scale = jnp.float32(inside.diameter / math.sqrt(moment))
    start = inside.project(jnp.zeros(shape, jnp.float32))
    if config.own_set is None:
        drawn = uniform_point(config.projection, config.radius, p, config.start_seed)
        start = jnp.asarray(drawn.reshape(shape), jnp.float32)

    def merge(state: SequentialSgdState, sums: Aggregate) -> SequentialSgdState:
        parameters, step = state.parameters, state.step + 1
        rate = 1.0 / (n * bend * step) if bend else scale / jnp.sqrt(step.astype(jnp.float32))
        move = sums.total.reshape(shape) + n * bend * parameters
        return SequentialSgdState(inside.project(parameters - rate * move), step)

    return Algorithm(
        init=lambda: (SequentialSgdState(start, jnp.int32(0)), None),
        ask=lambda state: state.parameters,
        local=lambda public, own, records: (own, n * gradients(public, *records.columns)),
        merge=merge,
        result=lambda state: state.parameters,
        within=inside.project,
    )


def views(study: Study) -> dict[str, float]:
    """Epsilon at the study's delta against each viewer, replace-one; all but `capped` believe that
    the order was drawn uniformly, and (a), (c) that it stays hidden."""
    algorithm, facts = study.algorithm, study.facts
    assert algorithm.named is not None
    assert algorithm.privacy is not None
    n, delta, steps = sum(facts.records), algorithm.privacy.delta, algorithm.rounds
    event = algorithm.event(facts, study.trust)
    assert isinstance(event.noise, Gaussian)
    sigma = event.noise.std
    # The clip of a message is exceeded by float error and rounding: charge them here too.
    clip = event.sensitivity.under(Relation.REPLACE_ONE).in_norm("l2") / (2 * n)
    mu = hidden_order.capped_mu(algorithm.named.uses, n, clip, sigma)
    each = {
        hidden_order.visible_parties_epsilon(delta, n, size, clip, sigma, steps)
        for size in set(facts.records)
    }
    return {
        "hidden-order": hidden_order.without_order_epsilon(delta, n, clip, sigma, steps),
        "known-order": hidden_order.known_order_epsilon(delta, n, clip, sigma, steps),
        "visible-party": max(each),
        "capped": gaussian.epsilon(delta, mu),
    }


def remarks(study: Study) -> Iterator[tuple[str, str]]:
    """What the order is worth, and to whom."""
    found = {viewer: number(epsilon, 3) for viewer, epsilon in views(study).items()}
    yield (
        "a random order protects those who do not know it (replace-one epsilon "
        f"{found['hidden-order']}; {found['visible-party']} if they see which party answers), and "
        f"not the coordinator, who knows it ({found['known-order']}) or may name a record as often "
        f"as its owner answers: ledgers are charged that, {found['capped']}, against everyone",
        "dp-sgd-convex keeps what sampling is worth against everyone",
    )


def printed_noise(
    config: SequentialSgdConfig,
    problem: LinearLoss,
    facts: Facts,
    privacy: Privacy,
    sensitivity: Sensitivity,
) -> Gaussian:
    """Equation (3), which counts on an order that nobody knows."""
    n = sum(facts.records)
    sigma = hidden_order.published_sigma(privacy.epsilon, privacy.delta, n, config.lipschitz)
    return Gaussian(sigma)


SEQUENTIAL_SGD = AlgorithmKind(
    "sgd-sequential",
    "noisy gradients of single records, which a coordinator names one by one (SGD1)",
    SequentialSgdConfig,
    LinearLoss,
    release,
    build,
    resolve,
    trusts=frozenset({Trust.LOCAL}),
    sends="noisy gradients of single records",
    remarks=remarks,
    printed=Publication(
        "the write-up of SGD1 and SGD2, equation (3)",
        "it counts on an order that the coordinator knows",
        printed_noise,
    ),
)
