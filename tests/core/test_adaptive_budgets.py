"""Budgets that hold when every request may depend on earlier answers: the ledger's side of it.

The filter itself, its charges and attacks on it are tested in tests/accounting/test_filter.py.
"""

import pytest

from unisono.accounting import gaussian
from unisono.accounting.accountant import ACCOUNTANT
from unisono.accounting.curve import PrivacyCurve
from unisono.core import journal
from unisono.core.costs import everyone
from unisono.core.events import Event, Gaussian, Laplace, Poisson, bounded_sum
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.trust import FINAL_MODEL, SERVER, Relation
from unisono.errors import BudgetExceeded, LedgerCorrupted
from unisono.statistics.ledgers import verify
from unisono.studies.keys import Identity

BOUND = bounded_sum(l1=1.0, l2=1.0, linf=1.0)
POLICY = Policy("ages", Budget(1.0, 1e-6))
NORTH = Identity.fresh("north")


def laplace(epsilon):
    return Event(Laplace(2 / epsilon, discrete=False), BOUND) * 1


def normal(mu):
    return Event(Gaussian(2 / mu), BOUND) * 1


def in_memory(epsilon=1.0, delta=1e-6):
    return Ledger.in_memory(Policy("ages", Budget(epsilon, delta)), ACCOUNTANT, seed=1)


def granted(ledger, history, most=1000):
    for count in range(most):
        try:
            ledger.authorize(everyone(history))
        except BudgetExceeded:
            return count
    return most


# ---------------------------------------------------------------- requests


def test_what_was_granted_before_is_refused_where_it_depends_on_answers():
    """Ten small Gaussians and then the largest Laplace that exact composition of this path allows:
    an analyst who chooses the moment exceeds the budget, so the ledger refuses it."""
    ledger = in_memory(0.5, 1e-3)
    small = normal(0.1 * gaussian.mu_for(0.5, 1e-3))
    for _ in range(10):
        ledger.authorize(everyone(small))
    path = small * 10

    def exact(epsilon):
        return PrivacyCurve(path + laplace(epsilon), Relation.REPLACE_ONE).fits(0.5, 1e-3)

    low, high = 0.01, 1.0
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (middle, high) if exact(middle) else (low, middle)
    with pytest.raises(BudgetExceeded, match="Gaussian noise"):
        ledger.authorize(everyone(laplace(low)))
    assert ledger.grants == 10


def test_pure_requests_add_up_and_gaussian_ones_lose_little():
    tenths = in_memory(1.0, 0.0)
    assert granted(tenths, laplace(0.1)) == 10  # three tenths are .3, whatever their digits are
    assert granted(in_memory(), laplace(0.1)) == 10
    mu = gaussian.mu_for(1.0, 1e-6) / 20
    assert 398 <= granted(in_memory(), normal(mu)) <= 400


def test_the_first_request_may_use_the_whole_budget():
    whole = normal(gaussian.mu_for(1.0, 1e-6) * (1 - 1e-9))
    ledger = in_memory()
    ledger.authorize(everyone(whole))
    assert ledger.left(SERVER).epsilon == 0
    with pytest.raises(BudgetExceeded):
        ledger.authorize(everyone(normal(1e-3)))


def test_what_is_left_is_what_is_then_granted():
    ledger = in_memory(3.0)
    for history in (normal(0.3), laplace(0.2), normal(0.1)):
        ledger.authorize(everyone(history))
    left = ledger.left(SERVER)
    mu = gaussian.mu_for(left.gaussian, 1e-6)
    ledger.check(everyone(normal(mu * (1 - 1e-6))))
    with pytest.raises(BudgetExceeded):
        ledger.check(everyone(normal(mu * 1.001)))
    ledger.check(everyone(laplace(left.pure * (1 - 1e-6))))
    assert ledger.left(SERVER, after=normal(mu / 2)).gaussian < left.gaussian
    assert ledger.left(SERVER) == left  # asking changes nothing


def test_order_matters_and_ledgers_of_another_order_are_not_asked_as_one():
    one, other = (in_memory(1.0) for _ in range(2))
    for history in (laplace(0.3), normal(0.05)):
        one.authorize(everyone(history))
    for history in (normal(0.05), laplace(0.3)):
        other.authorize(everyone(history))
    assert one.history(SERVER) == other.history(SERVER)
    assert one.left(SERVER) != other.left(SERVER)
    ledgers, small = sorted([one, other], key=lambda own: own.left(SERVER).gaussian), 0.01
    counts = [own.fits_more(everyone(laplace(small)), 500) for own in ledgers]
    assert counts[0] < counts[1]
    for _ in range(counts[0]):
        Ledger.authorize_all(ledgers, everyone(laplace(small)))
    for order in (ledgers, ledgers[::-1]):
        with pytest.raises(BudgetExceeded):
            Ledger.authorize_all(order, everyone(laplace(small)))


# ------------------------------------------------------------------- plans


def test_a_plan_is_one_request_and_its_releases_are_drawn_from_it():
    round_ = Event(Gaussian(2.0), BOUND, Poisson(0.01))
    relation = Relation.ADD_OR_REMOVE
    epsilon = PrivacyCurve(round_ * 100, relation).epsilon(1e-6) * 1.0001
    policy = Policy("ages", Budget(epsilon, 1e-6), relation=relation)
    apart, planned = (Ledger.in_memory(policy, ACCOUNTANT, seed=1) for _ in range(2))
    with Ledger.declared([planned], [everyone(round_ * 100)]):
        for _ in range(100):
            planned.authorize(everyone(round_ * 1))
        with pytest.raises(BudgetExceeded):  # the plan has no more, and nothing is left beside it
            planned.authorize(everyone(round_ * 1))
    assert planned.grants == 100
    assert granted(apart, round_ * 1, 100) < 100  # one after the other, each chosen from answers


def test_what_a_plan_still_holds_passes_a_check():
    """As it would be granted: a fit in two stages over Flower checks each of them again."""
    ledger, cost = in_memory(), everyone(laplace(1.0))
    with Ledger.declared([ledger], [cost]):
        ledger.check(cost)
        ledger.authorize(cost)
        with pytest.raises(BudgetExceeded):
            ledger.check(cost)


def test_what_a_plan_does_not_use_stays_charged(tmp_path):
    path, cost = tmp_path / "a", everyone(normal(0.1) + laplace(0.2))
    ledger = Ledger.create(path, POLICY, ACCOUNTANT)
    ledger.declare(cost, "study")
    left = ledger.left(SERVER)
    reopened = Ledger.open(path, ACCOUNTANT)
    assert reopened.has_plan("study")
    assert reopened.left(SERVER) == left
    with Ledger.declared([reopened], [cost], "study"):  # another process goes on with it
        reopened.authorize(everyone(laplace(0.2)))
    assert reopened.left(SERVER) == left
    assert ledger.left(SERVER) == left
    assert verify(path).sound


def test_a_plan_that_one_ledger_cannot_bear_charges_nobody():
    rich, poor = in_memory(5.0), in_memory(0.1)
    cost = everyone(laplace(0.5))
    with pytest.raises(BudgetExceeded), Ledger.declared([rich, poor], [cost, cost]):
        pass
    assert rich.left(SERVER).share == poor.left(SERVER).share == 1.0


# --------------------------------------------------------- written states


def _rewritten(tmp_path, change):
    ledger = Ledger.create(tmp_path / "a", POLICY, ACCOUNTANT)
    for history in (normal(0.1), laplace(0.05), normal(0.1)):
        ledger.authorize(everyone(history))
    lines, _ = journal.read(tmp_path / "a")
    change([line for line in lines if line["kind"] == "grant"])
    journal.create(tmp_path / "b", lines)  # with a chain of its own
    return tmp_path / "b"


def test_the_genuine_states_are_sound(tmp_path):
    path = _rewritten(tmp_path, lambda grants: None)
    assert verify(path).sound
    Ledger.open(path, ACCOUNTANT)


def test_a_line_that_charges_too_little_is_found_by_verify(tmp_path):
    def cheaper(grants):
        grants[1]["left"][0][2][0][2] *= 1.0005  # mu squared that is left after the Laplace release

    path = _rewritten(tmp_path, cheaper)
    finding = verify(path)
    assert not finding.sound
    assert "less than its releases cost" in finding.finding


@pytest.mark.parametrize("place", [0, 1, 2, 3])
def test_what_is_left_never_grows(tmp_path, place):
    def grown(grants):
        first, last = (grants[number]["left"][0][2][0] for number in (0, -1))
        last[place] = {0: "-1", 1: 0.0, 2: first[2] * 2, 3: first[3] * 2}[place]

    path = _rewritten(tmp_path, grown)
    assert not verify(path).sound
    with pytest.raises(LedgerCorrupted):
        Ledger.open(path, ACCOUNTANT)


def test_a_line_that_charges_one_viewer_less_is_refused(tmp_path):
    path = _rewritten(tmp_path, lambda grants: grants[-1]["left"][0][0].remove("server"))
    with pytest.raises(LedgerCorrupted, match="does not charge"):
        Ledger.open(path, ACCOUNTANT)


# ---------------------------------------------------------- budget increases


def test_an_increase_after_answers_is_a_budget_of_its_own(tmp_path):
    """Replayed under the larger budget, one increase chosen after answers would spend up to 3.2
    times delta; epsilons and deltas of two budgets add up."""
    ledger = Ledger.create(tmp_path / "a", POLICY, ACCOUNTANT)
    granted(ledger, normal(0.05))
    ledger.raise_budget(Budget(2.0, 2e-6), "agreed", NORTH)
    first, second = ledger._wallets[SERVER, 0]
    assert (first.epsilon, first.delta) == (second.epsilon, second.delta) == (1.0, 1e-6)
    assert second.fresh
    alone = granted(in_memory(), normal(0.05))
    assert granted(ledger, normal(0.05)) == alone  # and not what (2, 2e-6) would admit in all
    assert verify(tmp_path / "a").sound
    assert Ledger.open(tmp_path / "a", ACCOUNTANT).left(SERVER) == ledger.left(SERVER)


def test_an_increase_before_the_first_release_is_simply_the_budget(tmp_path):
    ledger = Ledger.create(tmp_path / "a", POLICY, ACCOUNTANT)
    ledger.raise_budget(Budget(2.0, 1e-6), "agreed", NORTH)
    assert granted(ledger, normal(0.05)) == granted(in_memory(2.0), normal(0.05))
    assert verify(tmp_path / "a").sound


def test_an_increase_at_the_same_delta_admits_pure_epsilon_only(tmp_path):
    ledger = Ledger.create(tmp_path / "a", POLICY, ACCOUNTANT)
    granted(ledger, normal(0.05))
    ledger.raise_budget(Budget(2.0, 1e-6), "agreed", NORTH)
    with pytest.raises(BudgetExceeded):
        ledger.authorize(everyone(normal(0.05)))
    assert granted(ledger, laplace(0.25)) == 4


# ---------------------------------------------------------- older ledgers


def older(path, histories, budget=POLICY.budget):
    """A ledger as it was written before budgets were filters."""
    ledger = Ledger.create(path.with_suffix(".new"), Policy("ages", budget), ACCOUNTANT)
    lines, _ = journal.read(path.with_suffix(".new"))
    lines[0]["format"] = "unisono-ledger-2"
    for number, history in enumerate(histories):
        known = ledger._known(everyone(history))
        if known.line not in lines:
            lines.append(known.line)
        grant = {"kind": "grant", "number": number, "cost": known.name, "releases": 1}
        lines.append(grant | {"purpose": "", "time": lines[0]["time"]})
    journal.create(path, lines)


def test_an_older_ledger_is_replayed_under_the_filter(tmp_path):
    path, story = tmp_path / "a", [normal(0.1), laplace(0.05), normal(0.1)]
    older(path, story)
    fresh = in_memory()
    for history in story:
        fresh.authorize(everyone(history))
    ledger = Ledger.open(path, ACCOUNTANT)
    assert ledger.grants == 3
    assert ledger.left(SERVER) == fresh.left(SERVER)
    assert ledger.older == ()
    before = path.read_bytes()
    for book in (ledger, fresh):
        book.authorize(everyone(laplace(0.02)))
    assert path.read_bytes().startswith(before)  # nothing of the past is rewritten
    for book in (ledger, Ledger.open(path, ACCOUNTANT)):
        assert book.left(SERVER) == fresh.left(SERVER)
    assert verify(path).sound


def test_an_older_ledger_that_exceeds_the_budget_says_so_and_stops(tmp_path):
    path = tmp_path / "a"
    older(path, [normal(0.1)] * 2 + [laplace(0.7)])
    ledger = Ledger.open(path, ACCOUNTANT)
    assert FINAL_MODEL in ledger.older
    assert ledger.left(SERVER).epsilon == 0
    with pytest.raises(BudgetExceeded, match="Older releases"):
        ledger.authorize(everyone(normal(1e-3)))
    assert verify(path).sound
    ledger.raise_budget(Budget(2.0, 2e-6), "agreed", NORTH)
    ledger.authorize(everyone(normal(0.1)))
    again = Ledger.open(path, ACCOUNTANT)
    assert FINAL_MODEL in again.older  # what happened stays said
    assert again.left(SERVER) == ledger.left(SERVER)


def test_a_filter_that_begins_without_a_viewer_is_corruption(tmp_path):
    """Whoever is left out would have a fresh budget."""
    path = tmp_path / "a"
    older(path, [normal(0.1)])
    lines, _ = journal.read(path)
    journal.create(tmp_path / "b", [*lines, {"kind": "filter", "left": []}])
    with pytest.raises(LedgerCorrupted, match="leaves somebody out"):
        Ledger.open(tmp_path / "b", ACCOUNTANT)
    assert not verify(tmp_path / "b").sound


def test_a_line_without_a_charge_after_the_filter_began_is_corruption(tmp_path):
    path = tmp_path / "a"
    older(path, [normal(0.1)])
    Ledger.open(path, ACCOUNTANT).authorize(everyone(normal(0.1)))
    lines, _ = journal.read(path)
    late = {key: value for key, value in lines[-1].items() if key != "left"} | {"number": 2}
    journal.create(tmp_path / "b", [*lines, late])
    with pytest.raises(LedgerCorrupted, match="does not say what is left"):
        Ledger.open(tmp_path / "b", ACCOUNTANT)
