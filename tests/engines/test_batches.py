"""The batches that the engine draws for many rounds at once have the law that is accounted."""

import jax
import numpy as np
import optax
import pytest
from scipy import stats

from unisono.accounting.accountant import ACCOUNTANT
from unisono.core.algorithm import Facts
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.study import Study
from unisono.core.trust import Relation, Trust
from unisono.engines.chunks import Chunk
from unisono.engines.rounds import stack
from unisono.problems.networks import logistic
from unisono.problems.record_loss import RecordLoss

from .. import methods

FALSE_ALARM = 1e-6  # of every assertion with a p-value here, with a fixed seed
RECORDS, ROUNDS, PIECES, PARTIES = 4800, 120, 3, 2
NETWORK = logistic(3, 2)


def drawn(rate, seed=5):
    """Row numbers (rounds, parties, rows) of all rounds, drawn in pieces as an engine does, the
    keys of their noise (rounds, parties, 8), and the event that was paid for."""
    record = (np.zeros(3, np.float32), np.float32(0))
    loss = RecordLoss(NETWORK.loss, NETWORK.init(jax.random.key(0)), record)
    method = methods.dp_sgd(
        loss,
        optax.sgd(0.1),
        4.0,
        1e-5,
        rounds=ROUNDS,
        sampling_rate=rate,
        relation=Relation.ADD_OR_REMOVE,
    )
    facts = Facts((RECORDS,) * PARTIES, 3, 1, exact_sizes=False)
    study = Study(method, facts, Trust.LOCAL)
    policy = Policy("law", Budget(4.01, 1e-5), relation=Relation.ADD_OR_REMOVE)
    grants = [
        Ledger.in_memory(policy, ACCOUNTANT, seed=seed + party).authorize(study.cost, ROUNDS)
        for party in range(PARTIES)
    ]
    columns = [(np.zeros((RECORDS, 3), np.float32), np.zeros(RECORDS, np.float32))] * PARTIES
    chunk = Chunk(study, stack(study, columns, grants), np.ones((ROUNDS, PARTIES), bool), seed=1)
    length = ROUNDS // PIECES
    found = [
        chunk._draw(grants, 0, range(first, first + length)) for first in range(0, ROUNDS, length)
    ]
    rows = np.concatenate([masks[:, 0] for masks, _, _ in found])
    keys = np.concatenate([noise.words[:, 0] for _, noise, _ in found])
    return rows, keys, study.algorithm.event(facts, Trust.LOCAL)


@pytest.mark.parametrize("rate", [0.02, 0.1])
def test_the_engines_batches_are_independent_poisson_samples(rate):
    """By a size (0.02) and by coins (0.1). How many take part, how often each record does, and how
    many take part in two rounds, or at two parties, at once: of a probability that is twice or half
    of the one accounted, or of a stream that is used twice, none of this is as expected."""
    rows, keys, event = drawn(rate)
    assert event.sampler.rate == rate
    taken = np.zeros((ROUNDS, PARTIES, RECORDS), bool)
    for batch, own in zip(
        rows.reshape(-1, rows.shape[-1]), taken.reshape(-1, RECORDS), strict=True
    ):
        chosen = batch[batch >= 0]
        own[chosen] = True
        assert own.sum() == len(chosen)  # nobody twice
    assert stats.binomtest(int(taken.sum()), taken.size, rate).pvalue > FALSE_ALARM
    sizes = ((taken.sum(axis=2) - RECORDS * rate) ** 2).sum() / (RECORDS * rate * (1 - rate))
    assert FALSE_ALARM < stats.chi2(ROUNDS * PARTIES).cdf(sizes) < 1 - FALSE_ALARM
    times = ((taken.sum(axis=0) - ROUNDS * rate) ** 2).sum() / (ROUNDS * rate * (1 - rate))
    assert FALSE_ALARM < stats.chi2(RECORDS * PARTIES).cdf(times) < 1 - FALSE_ALARM
    # At most one in a million pairs of rounds shares so many: each pair is looked at, so that one
    # stream that is used twice shows, and the bound is divided by the number of pairs.
    batches = taken.reshape(-1, RECORDS)
    shared = (batches.astype(np.float32) @ batches.T.astype(np.float32))[
        np.triu_indices(len(batches), 1)
    ]
    most = stats.binom(RECORDS, rate**2).isf(FALSE_ALARM / len(shared))
    assert shared.max() <= most < RECORDS * rate / 2
    assert stats.binomtest(int(shared.sum()), len(shared) * RECORDS, rate**2).pvalue > FALSE_ALARM
    assert len(np.unique(keys.reshape(-1, 8), axis=0)) == ROUNDS * PARTIES


def test_places_of_a_batch_are_all_alike():
    """Every place of a segment is taken equally often, and the records of a batch lie in no order:
    of batches that fit into one segment."""
    rows, _, _ = drawn(0.02)
    size = rows.shape[-1] // 2
    batches = rows.reshape(-1, 2 * size)
    batches = batches[(batches[:, size:] < 0).all(axis=1), :size]
    assert len(batches) > 200
    held = batches >= 0
    filled = held.mean(axis=1)
    # Given its size a batch takes a uniform subset: counts of places have a fixed sum.
    spread = ((held.sum(axis=0) - filled.sum()) ** 2).sum() / (filled * (1 - filled)).sum()
    assert FALSE_ALARM < stats.chi2(size - 1).cdf(spread * (size - 1) / size) < 1 - FALSE_ALARM
    rising = sum(np.count_nonzero(np.diff(own[own >= 0])[::2] > 0) for own in batches)
    pairs = sum(len(np.diff(own[own >= 0])[::2]) for own in batches)
    assert stats.binomtest(rising, pairs, 0.5).pvalue > FALSE_ALARM
