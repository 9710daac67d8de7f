"""Rounds that are paid for piece by piece: the noise is that of the study, and fresh in each."""

import jax
import numpy as np

from unisono.accounting.accountant import ACCOUNTANT
from unisono.core.algorithm import Facts
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.study import Party, Study
from unisono.core.trust import Trust
from unisono.core.values import Private
from unisono.engines import in_process
from unisono.engines.driver import drive

from .. import methods

ROUNDS, FEATURES = 6, 400


def parties():
    """Records of zeros, whose gradients are zero: what the rounds show is noise alone."""
    columns = (np.zeros((20, FEATURES), np.float32), np.ones(20, np.float32))
    names = ("north", "south", "west")
    policies = [Policy(name, Budget(2.0, 1e-6)) for name in names]
    return [
        Party(p.dataset, Private(columns, p.dataset), Ledger.in_memory(p, ACCOUNTANT, seed=k))
        for k, p in enumerate(policies)
    ]


def test_noise_is_whole_and_fresh_in_every_piece(tmp_path):
    """Against the engine's own rounds, whose spread `test_conformance` holds to the promise: half
    of the noise would be off by 50 %, noise used twice correlated by 1. With 400 numbers a round
    both stay within these limits except with probability below 1e-4."""
    method = methods.gradient_perturbation(1.0, 1e-6, rounds=ROUNDS)
    facts = Facts((20, 20, 20), features=FEATURES, minimum_parties=3, colluders=1)
    study = Study(method, facts, Trust.SECURE_SUM)
    found = [np.zeros(FEATURES)]

    def watch(done, server, words):
        found.append(
            np.concatenate([np.ravel(x) for x in jax.tree.leaves(study.algorithm.ask(server))])[
                :FEATURES
            ]
        )

    drive(study, parties(), "run", checkpoint=tmp_path / "run.checkpoint", watch=watch)
    steps = np.diff(np.array(found), axis=0)
    assert len(steps) == ROUNDS  # a piece, and a payment, for each round
    whole = in_process.run(study, parties())
    publics = [
        np.ravel(m.value)[:FEATURES] for m in whole.transcript.messages if m.name == "public"
    ]
    reference = np.diff(np.array(publics), axis=0)
    assert abs(steps.std() / reference.std() - 1) < 0.1
    between = np.corrcoef(steps)[np.triu_indices(ROUNDS, 1)]
    assert np.abs(between).max() < 0.25
