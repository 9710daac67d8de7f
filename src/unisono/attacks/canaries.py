"""Canaries for one training run: loss-free coordinates that nobody else touches.

The model's parameters θ get m more numbers w, which no prediction reads. A canary is a record whose
loss is a steep line in a coordinate of its own,

    loss of canary i      =  s w_i              gradient  s e_i,  clipped to  e_i  in units of C
    loss of other records =  loss(θ; record)    gradient  0 in w

so that it moves the noisy sum by as much as one record may, in a direction where there is nothing
but noise: the worst case that the guarantee covers. It leaves θ as it is. Training goes through the
same rounds, sampling, clipping and noise as ever; only the vector is longer by m.

The server sees S_t[i] = (canary i took part in round t) + N(0, σ²). With rate q the most powerful
score is the likelihood ratio over rounds,

    score_i = Σ_t log(1 - q + q exp((S_t[i] - 1/2) / σ²)).

A fair coin decides for each canary whether it is among the records: what is audited is the presence
of a record (zero-out or add-or-remove), against viewers of every noisy sum. Clipping must be flat
or normalised: by layers, a canary would have a share of the bound only.
"""

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from unisono.accounting.accountant import ACCOUNTANT
from unisono.attacks.one_run import OneRun, one_run, refuted
from unisono.attacks.trade_off import epsilon_in_family, noise_family
from unisono.core.algorithm import Facts
from unisono.core.events import Event, Everyone
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.study import Party, Study
from unisono.core.trust import ITERATES, Relation, Trust
from unisono.core.values import Private
from unisono.engines import in_process
from unisono.errors import InvalidInput
from unisono.problems.record_loss import RecordLoss
from unisono.releases.algorithm import Method

# Steep enough for every clipping bound up to a million.
_STEEP = 1e6


@dataclass(frozen=True)
class TrainedOnCanaries:
    """One audited run: the bounds it gives and the model it learned, without the canaries.

    `epsilon` is the largest one refuted if the claimed mechanism has another amount of noise: the
    claimed curve may be that of sampled Gaussians, for which `found.mu` says nothing.
    """

    found: OneRun
    epsilon: float
    parameters: Any


def with_canaries(problem: RecordLoss, canaries: int) -> RecordLoss:
    """The problem with m more parameters, for records with one more column: 0, or a canary's
    number from 1 on."""

    def loss(parameters: Any, record: Any) -> Any:
        *own, number = record
        usual = problem.loss(parameters["model"], tuple(own))
        line = _STEEP * jnp.sum(
            jnp.where(jnp.arange(1, canaries + 1) == number, parameters["canaries"], 0.0)
        )
        return jnp.where(number > 0, line, usual)

    parameters = {"canaries": jnp.zeros(canaries), "model": problem.parameters}
    return RecordLoss(loss, parameters, (*problem.record, np.zeros((), np.float32)))


def with_canary_rows(
    columns: tuple[np.ndarray, ...], included: np.ndarray, zeroed: bool
) -> tuple[np.ndarray, ...]:
    """Records, then canaries (rows of zeros), and a last column with their numbers.

    Canaries that are not included are left out; or, `zeroed`, they keep their place and have a
    number that nobody knows: their gradient is zero, and their presence is no secret.
    """
    numbers = np.arange(1, len(included) + 1, dtype=np.float32)
    unknown = len(included) + 1
    shown = np.where(included, numbers, unknown) if zeroed else numbers[included]
    longer = [
        np.concatenate([column, np.zeros((len(shown), *column.shape[1:]), np.float32)])
        for column in columns
    ]
    return (*longer, np.concatenate([np.zeros(len(columns[0])), shown]).astype(np.float32))


def likelihood_ratios(sums: np.ndarray, event: Event) -> np.ndarray:
    """Scores (m,) of canaries from what they moved by at most 1, sums (rounds, m)."""
    rate = 1.0 if isinstance(event.sampler, Everyone) else event.sampler.rate  # type: ignore[union-attr]
    exponent = (sums - 0.5) / event.noise.deviation(1) ** 2
    absent = np.log1p(-rate) if rate < 1 else -np.inf
    return np.logaddexp(absent, np.log(rate) + exponent).sum(axis=0)


def audited_training(
    method: Method,
    columns: tuple[np.ndarray, ...],
    *,
    canaries: int = 1000,
    guesses: int | None = None,
    confidence: float = 0.95,
    seed: int = 0,
) -> TrainedOnCanaries:
    """Train once with a method of DP-SGD on records and canaries, and guess which canaries were
    there.

    The noise is seeded: a simulation, whose model must not be published as a private one. By
    default a fifth of the canaries is guessed about. The claim that is tested is the method's
    epsilon and delta for the presence of one record.
    """
    config, privacy = method.config, method.privacy
    if config.clipping.style == "per-layer" or privacy.relation is Relation.REPLACE_ONE:
        raise InvalidInput(
            f"clipping {config.clipping.style!r} under {privacy.relation}: canaries are "
            "the worst case for flat and normalised clipping, and are present or not; use zero-out "
            "or add-or-remove"
        )
    included = np.random.default_rng(seed).random(canaries) < 0.5
    hidden = privacy.relation is Relation.ADD_OR_REMOVE
    data = with_canary_rows(columns, included, zeroed=not hidden)
    longer = replace(method, problem=with_canaries(method.problem, canaries))
    # Hidden sizes are nominal: half of the canaries are expected.
    size = len(columns[0]) + canaries // 2 if hidden else len(data[0])
    width = int(np.prod(columns[0].shape[1:]))
    study = Study(longer, Facts((size,), width, 1, 0, not hidden), Trust.LOCAL)
    algorithm = study.algorithm
    policy = Policy(
        "canaries", Budget(2 * privacy.epsilon, privacy.delta), relation=privacy.relation
    )
    party = Party("canaries", Private(data), Ledger.in_memory(policy, ACCOUNTANT, seed))
    result = in_process.run(study, [party])
    grid = algorithm.grid(study.facts, study.trust)
    sums = [m.value for m in result.transcript.seen_by(ITERATES) if m.name == "sum"]
    if not sums:
        raise InvalidInput(
            "the run is too large for its transcript to be kept: fewer canaries or rounds"
        )
    event = algorithm.event(study.facts, study.trust)
    scores = likelihood_ratios(np.stack(sums)[:, :canaries] * grid, event)
    made = guesses if guesses is not None else 2 * max(1, canaries // 10)
    found = one_run(
        scores, included, made, privacy.delta, confidence, only_in=config.sampling_rate < 1
    )
    family = noise_family(study.cost[ITERATES], privacy.relation)

    def falls(curve: Any) -> bool:
        return refuted(canaries, made, found.correct, curve, 1 - confidence)

    epsilon = max(found.epsilon, epsilon_in_family(family, falls, privacy.delta))
    return TrainedOnCanaries(
        found, epsilon, jax.tree.map(np.asarray, result.value.parameters["model"])
    )
