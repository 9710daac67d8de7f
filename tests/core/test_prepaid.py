"""A ledger for one run of several that were paid for together: what it grants, and its noise."""

import numpy as np
import pytest
from scipy import stats

from unisono.accounting.accountant import ACCOUNTANT
from unisono.core.costs import everyone
from unisono.core.events import Event, Gaussian, RandomStopping, bounded_sum, random_stopping
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.prepaid import exhausted, prepaid
from unisono.core.release import noise_steps
from unisono.core.trust import FINAL_MODEL, ITERATES, SERVER, Relation
from unisono.errors import BudgetExceeded, GrantMisused

STD, GRID, MOST, SHAPE = 4.0, 2.0**-6, 6, 2
ONCE = Event(Gaussian(STD), bounded_sum(l2=1.0)) * 1
OTHER = Event(Gaussian(2 * STD), bounded_sum(l2=1.0)) * 3
RUN = random_stopping([ONCE, OTHER], 1)
COST = everyone(RUN * MOST) | {FINAL_MODEL: random_stopping([ONCE, OTHER], MOST, SHAPE) * 1}


def book(epsilon=100.0, seed=1):
    policy = Policy("records", Budget(epsilon, 1e-6), relation=Relation.ZERO_OUT)
    return Ledger.in_memory(policy, ACCOUNTANT, seed=seed)


def test_all_runs_are_paid_for_before_the_first_and_the_final_viewer_pays_less():
    ledger = book()
    ledger.authorize(COST, MOST)
    spent = {viewer: ledger.spent(viewer) for viewer in (FINAL_MODEL, ITERATES, SERVER)}
    assert (
        spent[ITERATES] == spent[SERVER] == ACCOUNTANT.epsilon(RUN * MOST, Relation.ZERO_OUT, 1e-6)
    )
    assert spent[FINAL_MODEL] < spent[ITERATES]
    with pytest.raises(BudgetExceeded):
        book(epsilon=0.9 * spent[ITERATES]).authorize(COST, MOST)
    book(epsilon=1.01 * spent[ITERATES]).authorize(COST, MOST)


def test_a_prepaid_ledger_grants_what_was_bought_once_and_nothing_else():
    grant = book().authorize(COST, MOST)
    own = prepaid(grant.draw(0), RUN, [everyone(ONCE)])
    own.authorize(everyone(ONCE))
    with pytest.raises(BudgetExceeded):
        own.authorize(everyone(ONCE))
    other = prepaid(grant.draw(1), RUN, [everyone(OTHER)])
    with pytest.raises(BudgetExceeded):
        other.authorize(everyone(ONCE))
    with pytest.raises(GrantMisused, match="none of those"):
        prepaid(grant.draw(2), RUN, [everyone(ONCE * 2)])


def test_runs_whose_noise_is_gone_grant_nothing():
    """In another process of the party that paid: not what was bought, nor something smaller."""
    over = exhausted(book())
    for cost in (ONCE, OTHER, Event(Gaussian(1e9), bounded_sum(l2=1.0)) * 1):
        with pytest.raises(BudgetExceeded):
            over.authorize(everyone(cost))
    assert over.grants == 0


def test_a_ledger_of_runs_that_are_gone_is_not_answered_for_by_another():
    """Ledgers that must answer alike are asked once; one that grants nothing is not like others."""
    other, over = book(epsilon=1.0), exhausted(book())
    cost = everyone(Event(Gaussian(50.0), bounded_sum(l2=1.0)) * 1)
    with pytest.raises(BudgetExceeded):
        Ledger.authorize_all([other, over], cost)
    assert other.grants == over.grants == 0


def test_parts_of_different_records_are_granted_together():
    own = prepaid(book().authorize(COST, MOST).draw(0), RUN, [everyone(ONCE), everyone(OTHER)])
    own.authorize(everyone(ONCE))
    own.authorize(everyone(OTHER), 3)
    with pytest.raises(BudgetExceeded):
        own.authorize(everyone(ONCE))


def test_there_are_no_more_runs_than_were_paid_for():
    grant = book().authorize(COST, 2 * MOST)
    for index in range(MOST):
        prepaid(grant.draw(index), RUN, [everyone(ONCE)])
    with pytest.raises(GrantMisused, match="paid for"):
        prepaid(grant.draw(MOST), RUN, [everyone(ONCE)])
    with pytest.raises(GrantMisused, match="used already"):
        grant.draw(0)


def test_real_ledgers_have_fresh_noise_in_every_run():
    keys = set()
    grant = book(seed=None).authorize(COST, MOST)
    for index in range(MOST):
        own = prepaid(grant.draw(index), RUN, [everyone(ONCE)])
        keys.add(own.authorize(everyone(ONCE)).draw(0).take(ONCE.parts[0][0]))
    assert len(keys) == MOST


def test_the_best_of_all_runs_has_the_law_that_is_accounted_for():
    """An audit of the whole chain, 300 times: the ledger pays, lots are drawn, each run draws its
    noise, the best is kept. Its law is F(x) = f(Φ(x / σ)), with f the generating function of the
    number of runs; with half of the noise, or one run more, the test would notice. False-alarm
    rate 1e-4, with this seed never."""
    event, law = ONCE.parts[0][0], RandomStopping((ONCE,), MOST, SHAPE)
    run = random_stopping([ONCE], 1)
    cost = everyone(run * MOST) | {FINAL_MODEL: random_stopping([ONCE], MOST, SHAPE) * 1}
    best = []
    for seed in range(300):
        grant = book(seed=seed).authorize(cost, MOST)
        number, _ = law.drawn(grant.lot(), 1)
        found = []
        for index in range(number):
            own = prepaid(grant.draw(index), run, [everyone(ONCE)]).authorize(everyone(ONCE))
            found.append(noise_steps(own.draw(0).take(event), event, GRID, (1,), 1)[0] * GRID)
        best.append(max(found))

    def law_of(std, weights):
        chances = np.array(weights, float) / sum(weights)

        def cumulative(x):
            below = stats.norm.cdf(np.asarray(x) / std)
            return sum(p * below**k for k, p in enumerate(chances, 1))

        return cumulative

    assert stats.kstest(best, law_of(STD, law.weights)).pvalue > 1e-4
    assert stats.kstest(best, law_of(STD / 2, law.weights)).pvalue < 1e-6
    assert stats.kstest(best, law_of(STD, (1,))).pvalue < 1e-6
