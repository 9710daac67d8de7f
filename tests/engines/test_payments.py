"""What parties pay, where very many of them pay alike."""

from types import SimpleNamespace

import pytest

from unisono.core.costs import everyone
from unisono.core.events import Event, Gaussian, bounded_sum
from unisono.core.trust import SERVER, Trust, Viewer
from unisono.engines.payments import local_cost, local_costs

COST = everyone(Event(Gaussian(1.0), bounded_sum(l2=1.0)) * 1)


class CountingLedger:
    """A ledger that counts how often its policy was asked for."""

    def __init__(self, colluders):
        self.asked, self.colluders = 0, colluders

    @property
    def policy(self):
        self.asked += 1
        return SimpleNamespace(colluders=self.colluders)


@pytest.mark.parametrize("trust", list(Trust))
def test_every_policy_is_asked_at_most_once_however_many_parties_pay(trust):
    """Asking all policies for each cost takes time in the square of the number of parties."""
    ledgers = [CountingLedger(number % 3) for number in range(50)]
    found = local_costs(SimpleNamespace(trust=trust), [COST] * len(ledgers), ledgers)
    assert max(ledger.asked for ledger in ledgers) <= 1
    study = SimpleNamespace(trust=trust)
    assert found == [local_cost(study, COST, ledgers)] * len(ledgers)
    if trust is Trust.LOCAL:
        assert found[0] == {**COST, Viewer.colluders(2): COST[SERVER]}
    else:
        assert found[0] == COST
