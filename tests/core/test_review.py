"""Claims that a review found without a test: party bounds, continuous Laplace, delta per viewer."""

import numpy as np
import pytest

from unisono.accounting.accountant import ACCOUNTANT
from unisono.core.algorithm import Facts
from unisono.core.events import Event, Laplace, bounded_sum
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.release import noise_steps
from unisono.core.study import Party, Study
from unisono.core.trust import SERVER, Relation, Trust, Unit
from unisono.core.values import Private, clipped_updates
from unisono.engines import in_process
from unisono.errors import GrantMisused, UnknownEvent

from .. import methods

GRID = 2.0**-6


def test_a_partys_whole_vector_is_clipped_and_its_absence_is_not_hidden():
    huge = clipped_updates(np.full((1, 4), 1000.0), 1.0, GRID, Unit.PARTY)[0]
    bound = huge.sensitivity.under(Relation.ZERO_OUT).in_norm("l2")
    assert np.linalg.norm(huge.value * GRID) <= bound < 1.1
    assert huge.sensitivity.unit is Unit.PARTY
    assert Relation.ADD_OR_REMOVE not in huge.sensitivity.relations


def test_the_laplace_law_that_is_drawn_is_the_one_accounted():
    bound = bounded_sum(l1=1.0)
    with pytest.raises(UnknownEvent, match="for analysis"):
        noise_steps(bytes(32), Event(Laplace(1.0, discrete=False), bound), GRID, (1,), 1)
    with pytest.raises(GrantMisused, match="coordinates"):
        noise_steps(bytes(32), Event(Laplace(1.0, 2), bound), GRID, (3,), 1)


def test_a_certificate_prints_each_viewers_own_delta():
    policy = Policy("d", Budget(5.0, 1e-6), ((SERVER, Budget(5.0, 1e-3)),))
    party = Party(
        "a", Private((np.zeros((20, 2)), np.ones(20))), Ledger.in_memory(policy, ACCOUNTANT, seed=1)
    )
    algorithm = methods.gradient_perturbation(epsilon=1.0, delta=1e-6, rounds=2)
    run = in_process.run(Study(algorithm, Facts((20,), 2, 1), Trust.LOCAL), [party])
    deltas = {line.viewer: line.delta for line in run.certificate.lines}
    assert deltas.pop(SERVER) == 1e-3
    assert set(deltas.values()) == {1e-6}
    (row,) = [r for r in run.certificate.text().splitlines() if r.strip().startswith("the server ")]
    assert row.endswith("0.001")
