"""A budget for years: allowances by the calendar year, raises that are signed, dates that stay."""

import datetime
import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unisono.accounting import gaussian
from unisono.accounting.accountant import ACCOUNTANT
from unisono.core import journal
from unisono.core.costs import everyone
from unisono.core.events import Event, Gaussian, Laplace, bounded_sum, canonical, compose
from unisono.core.ledger import Ledger, terms
from unisono.core.ledger_summary import summary
from unisono.core.policy import Budget, Policy
from unisono.core.raises import require_key
from unisono.core.trust import FINAL_MODEL, SERVER
from unisono.errors import BudgetExceeded, InvalidInput, LedgerCorrupted, UnknownEvent
from unisono.secagg.roster import Identity
from unisono.statistics.ledgers import verify

NORTH = Identity("north", bytes(range(32)))
PACED = Policy("ages", Budget(1.0, 1e-6, per_year=0.6))


class Clock:
    """Time as a test sets it."""

    def __init__(self, year, month=6, day=1):
        self.set(year, month, day)

    def set(self, year, month=6, day=1, hour=0, minute=0, second=0):
        when = datetime.datetime(year, month, day, hour, minute, second, tzinfo=datetime.UTC)
        self.now = when.timestamp()

    def __call__(self):
        return self.now


def spend_all(ledger, cost, most=100):
    """How many such costs a ledger still pays."""
    for count in range(most):
        try:
            ledger.authorize(cost, purpose=f"spend {ledger.grants}")
        except BudgetExceeded:
            return count
    raise AssertionError("no budget refused")


# ------------------------------------------------------------------- years


def test_a_year_pays_its_allowance_and_all_years_the_budget(tmp_path, event, cost):
    """Both compositions are the accountant's: of 0.397 alone two fit into 0.6 and five into 1,
    where sums of epsilons would say one and two."""
    clock = Clock(2026)
    ledger = Ledger.create(tmp_path / "a", PACED, ACCOUNTANT, clock=clock)
    mus = []
    for year in (2026, 2027, 2028, 2029, 2030):
        clock.set(year)
        assert ledger.year == year
        assert ledger.spent_this_year(SERVER) == 0.0
        before = ledger.spent(SERVER)
        count = spend_all(ledger, cost)
        mus.append(count)
        assert ledger.spent(SERVER) >= before
        assert ledger.spent_this_year(SERVER) <= 0.6
        ledger = Ledger.open(tmp_path / "a", ACCOUNTANT, clock=clock)  # it remembers the year
    own = gaussian.compose([2 / 20], [mus[0]])
    assert (
        gaussian.epsilon(1e-6, own)
        <= 0.6
        < gaussian.epsilon(1e-6, gaussian.compose([0.1], [mus[0] + 1]))
    )
    total = gaussian.compose([2 / 20], [sum(mus)])
    assert gaussian.epsilon(1e-6, total) <= 1.0
    assert gaussian.epsilon(1e-6, gaussian.compose([0.1], [sum(mus) + 1])) > 1.0
    assert mus == [2, 2, 1, 0, 0]


def test_the_year_changes_at_midnight_in_utc(cost):
    clock = Clock(2026)
    ledger = Ledger.in_memory(PACED, ACCOUNTANT, seed=1, clock=clock)
    clock.set(2026, 12, 31, 23, 59, 59)
    assert spend_all(ledger, cost) > 0
    with pytest.raises(BudgetExceeded, match=r"(?s)for 2026, the allowance.*1 January 2027"):
        ledger.check(cost)
    clock.set(2027, 1, 1)
    ledger.check(cost)
    ledger.authorize(cost)


def test_a_clock_that_goes_back_wins_no_second_allowance(tmp_path, cost):
    clock = Clock(2027)
    ledger = Ledger.create(tmp_path / "a", PACED, ACCOUNTANT, clock=clock)
    spend_all(ledger, cost)
    clock.set(2026)
    for book in (ledger, Ledger.open(tmp_path / "a", ACCOUNTANT, clock=clock)):
        assert book.year == 2027
        with pytest.raises(BudgetExceeded, match="for 2027"):
            book.authorize(cost)
    tiny = everyone(Event(Gaussian(5000.0), bounded_sum(l2=1.0)) * 1)
    assert ledger.authorize(tiny)  # a corrected clock stops nobody
    times = [line["time"] for line in journal.read(tmp_path / "a")[0] if "time" in line]
    assert times == sorted(times)
    assert times[-1].startswith("2027")


def test_dates_that_go_back_in_a_file_are_refused(tmp_path, cost):
    clock = Clock(2026)
    ledger = Ledger.create(tmp_path / "a", PACED, ACCOUNTANT, clock=clock)
    ledger.authorize(cost)
    lines = journal.read(tmp_path / "a")[0]
    for time in ("2025-12-31T00:00:00+00:00", "2027", None, "2027-01-01T00:00:00+01:00"):
        lines[-1]["time"] = time
        place = tmp_path / f"b{time}"
        journal.create(place, lines)
        assert not verify(place).sound
        with pytest.raises(LedgerCorrupted):
            Ledger.open(place, ACCOUNTANT)
        with pytest.raises(LedgerCorrupted):
            summary(lines)


@given(st.lists(st.tuples(st.integers(2020, 2026), st.floats(8, 60)), max_size=14))
@settings(max_examples=40, deadline=None)
def test_whatever_clocks_say_no_year_and_no_life_is_exceeded(asked):
    """Years in any order: by the dates that are written, each keeps to its allowance."""
    clock = Clock(2020)
    ledger = Ledger.in_memory(PACED, ACCOUNTANT, seed=0, clock=clock)
    for year, std in asked:
        clock.set(year)
        try:
            ledger.authorize(everyone(Event(Gaussian(std), bounded_sum(l2=1.0)) * 1))
        except BudgetExceeded:
            continue
    lines = ledger._journal.lines
    found = summary(lines)
    for year in range(2020, 2027):
        for viewer in found.histories:
            own = [one.counted[viewer] for one in found.entries if one.time[:4] == str(year)]
            assert not own or ACCOUNTANT.fits(compose(own), PACED.relation, 0.6, 1e-6)
    for history in found.histories.values():
        assert ACCOUNTANT.fits(history, PACED.relation, 1.0, 1e-6)


def test_many_ledgers_pay_together_or_not_at_all_also_by_the_year(cost):
    """Ledgers with equal histories in all and others this year are not asked as one."""
    clock = Clock(2026)
    early, late = (Ledger.in_memory(PACED, ACCOUNTANT, seed=1, clock=clock) for _ in range(2))
    early.authorize(cost)
    clock.set(2027)
    late.authorize(cost)
    assert early.history_key == late.history_key
    while True:
        try:
            early.check(cost)
            late.check(cost)
        except BudgetExceeded:
            break
        Ledger.authorize_all([early, late], cost)
    before = early.grants, late.grants
    early.check(cost)  # only the other's year is used up
    with pytest.raises(BudgetExceeded, match="for 2027"):
        Ledger.authorize_all([early, late], cost)
    with pytest.raises(BudgetExceeded, match="for 2027"):
        Ledger.check_all([early, late], cost)
    assert (early.grants, late.grants) == before


def test_an_exception_is_paced_as_everybody_unless_it_says_otherwise():
    policy = Policy(
        "ages",
        Budget(6.0, 1e-6, 2.0),
        ((SERVER, Budget(9.0, 1e-6)), (FINAL_MODEL, Budget(1.0, 1e-6))),
    )
    assert policy.budget_for(SERVER).per_year == 2.0
    assert policy.budget_for(FINAL_MODEL).per_year is None  # less in all than others in a year
    own = replace(policy, exceptions=((SERVER, Budget(9.0, 1e-6, 4.0)),))
    assert own.budget_for(SERVER).per_year == 4.0
    assert Policy.from_json(json.loads(json.dumps(own.to_json()))) == own


def test_an_allowance_lies_below_the_budget():
    for wrong in (6.0, 7.0, 0.0, -1.0, float("nan")):
        with pytest.raises(InvalidInput, match="below epsilon = 6"):
            Budget(6.0, 1e-6, wrong)


def test_a_policy_may_begin_to_pace_or_lower_the_pace_and_never_end_it(tmp_path):
    Ledger.create(tmp_path / "a", PACED, ACCOUNTANT).close()
    for year in (0.5, 0.6):
        Ledger.open(tmp_path / "a", ACCOUNTANT, replace(PACED, budget=Budget(1.0, 1e-6, year)))
    Ledger.open(tmp_path / "a", ACCOUNTANT, replace(PACED, budget=Budget(0.6, 1e-6)))
    for more in (Budget(1.0, 1e-6, 0.7), Budget(1.0, 1e-6)):
        with pytest.raises(InvalidInput, match="ledger raise"):
            Ledger.open(tmp_path / "a", ACCOUNTANT, replace(PACED, budget=more))


# ------------------------------------------------------------------- raises


def test_a_raise_is_signed_chained_and_believed_by_all_who_read(tmp_path, policy, cost):
    path = tmp_path / "a"
    ledger = Ledger.create(path, policy, ACCOUNTANT, clock=Clock(2026))
    other = Ledger.open(path, ACCOUNTANT, clock=Clock(2026))
    identity = ledger.identity
    spend_all(ledger, cost)
    found = ledger.raise_budget(Budget(2.0, 2e-6), "the board agreed on 3 May", NORTH)
    assert (found.before, found.budget, found.signer) == (policy.budget, Budget(2.0, 2e-6), "north")
    for book in (ledger, other, Ledger.open(path, ACCOUNTANT)):
        book.check(cost)
        assert book.policy.budget == Budget(2.0, 2e-6)
        assert book.issued == policy.budget
        assert [one.reason for one in book.raises] == ["the board agreed on 3 May"]
        assert book.identity == identity
    assert spend_all(other, cost) > 0
    assert other.spent(SERVER) <= 2.0
    assert verify(path).sound
    lines = journal.read(path)[0]
    assert terms(lines, path).budget == summary(lines).policy.budget == Budget(2.0, 2e-6)
    require_key(summary(lines).raises, NORTH.public, "north's key")
    with pytest.raises(LedgerCorrupted, match="somebody else raised it"):
        require_key(summary(lines).raises, Identity.fresh("x").public, "north's key")


def test_an_owner_who_allows_less_than_a_raise_is_obeyed(tmp_path, policy, cost):
    ledger = Ledger.create(tmp_path / "a", policy, ACCOUNTANT)
    bound = Ledger.open(tmp_path / "a", ACCOUNTANT, policy)
    ledger.raise_budget(Budget(2.0, 1e-6), "agreed", NORTH)
    spend_all(bound, cost)
    assert bound.spent(SERVER) <= 1.0
    ledger.check(cost)
    Ledger.open(tmp_path / "a", ACCOUNTANT, replace(policy, budget=Budget(2.0, 1e-6))).check(cost)


def test_a_raise_that_begins_an_allowance_counts_what_the_year_has_seen(tmp_path):
    """Before, all of epsilon could be spent in a year; the raise is no second allowance."""
    clock = Clock(2026)
    pure = everyone(Event(Laplace(2.0), bounded_sum(l1=1.0)) * 1)  # epsilon 1 under replace-one
    path = tmp_path / "a"
    ledger = Ledger.create(path, Policy("ages", Budget(2.0)), ACCOUNTANT, clock=clock)
    assert spend_all(ledger, pure) == 2
    ledger.raise_budget(Budget(9.0, 0.0, per_year=3.0), "agreed", NORTH)
    assert ledger.left_this_year(SERVER).pure == 1.0
    assert spend_all(ledger, pure) == 1
    assert ledger.spent_this_year(SERVER) == 3.0
    assert Ledger.open(path, ACCOUNTANT, clock=clock).left_this_year(SERVER).pure == 0.0
    assert verify(path).sound
    clock.set(2027)
    assert spend_all(ledger, pure) == 3


@pytest.mark.parametrize(
    "to", [Budget(1.0, 1e-6), Budget(0.5, 1e-6), Budget(2.0, 1e-7), Budget(2.0, 1e-6, 0.4)]
)
def test_a_raise_only_raises(tmp_path, policy, to):
    ledger = Ledger.create(tmp_path / "a", policy, ACCOUNTANT)
    before = (tmp_path / "a").read_bytes()
    with pytest.raises(InvalidInput, match="not above the present budget"):
        ledger.raise_budget(to, "agreed", NORTH)
    with pytest.raises(InvalidInput, match="gives its reason"):
        ledger.raise_budget(Budget(2.0, 1e-6), "  ", NORTH)
    assert (tmp_path / "a").read_bytes() == before


def test_the_key_of_the_first_raise_signs_the_others(tmp_path, policy):
    ledger = Ledger.create(tmp_path / "a", policy, ACCOUNTANT)
    ledger.raise_budget(Budget(2.0, 1e-6), "agreed", NORTH)
    with pytest.raises(InvalidInput, match="sign with the key that was used before"):
        ledger.raise_budget(Budget(3.0, 1e-6), "agreed", Identity.fresh("north"))
    ledger.raise_budget(Budget(3.0, 1e-6, 2.5), "agreed again", NORTH)
    assert [one.before.epsilon for one in ledger.raises] == [1.0, 2.0]


def _without(word):
    return lambda line: line.pop(word)


def _set(word, value):
    return lambda line: line.update({word: value})


@pytest.mark.parametrize(
    "change",
    [
        _set("budget", [9.0, 1e-6]),
        _set("reason", "another"),
        _set("time", "2031-01-01T00:00:00+00:00"),
        _set("signer", "south"),
        _set("key", Identity("other", bytes(32)).public.hex()),
        _set("signature", "00" * 64),
        _without("signature"),
        _without("after"),
        _without("key"),
        _set("number", 1),
    ],
)
def test_a_raise_that_was_changed_or_not_signed_is_refused_by_all(tmp_path, policy, cost, change):
    """The chain is made anew, so that the signature alone can tell."""
    ledger = Ledger.create(tmp_path / "a", policy, ACCOUNTANT, clock=Clock(2026))
    ledger.authorize(cost)
    ledger.raise_budget(Budget(2.0, 1e-6), "agreed", NORTH)
    lines = journal.read(tmp_path / "a")[0]
    change(lines[-1])
    _refused_by_all(tmp_path / "b", lines)


def test_a_raise_counts_in_its_own_ledger_and_at_its_own_place_alone(tmp_path, policy, cost):
    clock = Clock(2026)
    books = [Ledger.create(tmp_path / name, policy, ACCOUNTANT, clock=clock) for name in "ab"]
    for book in books:
        book.authorize(cost)
    books[0].raise_budget(Budget(2.0, 1e-6), "agreed", NORTH)
    lines, other = (journal.read(tmp_path / name)[0] for name in "ab")
    _refused_by_all(tmp_path / "moved", [*other, lines[-1]])
    first, grant = lines[0], lines[1:-1]
    _refused_by_all(tmp_path / "earlier", [first, lines[-1], *grant])
    _refused_by_all(tmp_path / "twice", [*lines, lines[-1]])
    grant[-1]["purpose"] = "something else"  # what was signed for before is vouched for too
    _refused_by_all(tmp_path / "rewritten", [first, *grant, lines[-1]])


def _refused_by_all(place, lines):
    journal.create(place, lines)
    assert not verify(place).sound
    with pytest.raises((LedgerCorrupted, UnknownEvent)):
        Ledger.open(place, ACCOUNTANT)
    with pytest.raises((LedgerCorrupted, UnknownEvent)):
        summary(journal.read(place)[0])


def test_a_raise_that_does_not_reach_the_disk_raises_nothing(tmp_path, policy, monkeypatch):
    import os

    from unisono.errors import LedgerUnavailable

    ledger = Ledger.create(tmp_path / "a", policy, ACCOUNTANT)
    before = (tmp_path / "a").read_bytes()

    def fail(_):
        raise OSError(5, "bad disk")

    monkeypatch.setattr(os, "fdatasync", fail)
    with pytest.raises(LedgerUnavailable):
        ledger.raise_budget(Budget(2.0, 1e-6), "agreed", NORTH)
    monkeypatch.undo()
    assert ledger.policy.budget == policy.budget
    assert (tmp_path / "a").read_bytes() == before
    assert not ledger.raises


def _changes(document):
    """The document with one value changed, for every value in it."""
    inner = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in list(inner):
        if isinstance(value, dict | list):
            for changed in _changes(value):
                yield type(document)(
                    {**document, key: changed}
                    if isinstance(document, dict)
                    else [*document[:key], changed, *document[key + 1 :]]
                )
        changed = value + 1 if isinstance(value, int | float) else f"{value}0"
        yield type(document)(
            {**document, key: changed}
            if isinstance(document, dict)
            else [*document[:key], changed, *document[key + 1 :]]
        )


def test_a_raise_vouches_for_every_value_before_it(tmp_path, policy, cost):
    """Whoever rewrites any line, chains the file anew and corrects `after` is found out."""
    ledger = Ledger.create(tmp_path / "a", policy, ACCOUNTANT, clock=Clock(2026))
    ledger.authorize(cost)
    ledger.raise_budget(Budget(2.0, 1e-6), "agreed", NORTH)
    lines = journal.read(tmp_path / "a")[0]
    tried = 0
    for number, line in enumerate(lines):
        for changed in _changes(line):
            forged = [*lines[:number], changed, *lines[number + 1 :]]
            head = journal.GENESIS
            for one in forged[:-1]:
                head = journal.link(head, canonical(one))
            forged[-1] = forged[-1] | {"after": head}
            if forged == lines:  # it was `after` itself that was changed
                continue
            _refused_by_all(tmp_path / f"forged-{number}-{tried}", forged)
            tried += 1
    assert tried > 40


def test_a_raise_that_was_torn_by_a_crash_raises_nothing(tmp_path, policy, cost):
    path = tmp_path / "a"
    ledger = Ledger.create(path, policy, ACCOUNTANT)
    ledger.authorize(cost)
    before = path.read_bytes()
    ledger.raise_budget(Budget(2.0, 1e-6), "agreed", NORTH)
    ledger.close()
    whole = path.read_bytes()
    for length in range(len(before), len(whole) - 2, 37):
        path.write_bytes(whole[:length])
        book = Ledger.open(path, ACCOUNTANT)
        assert book.policy.budget == policy.budget
        book.authorize(cost)
        assert book.grants == 2
        book.close()
        assert verify(path).sound
