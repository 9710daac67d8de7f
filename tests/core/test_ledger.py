"""The ledger: authorises first, never forgets, never overspends, is the only source of noise."""

import copy
import errno
import gc
import math
import os
import pickle
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import FrozenInstanceError, replace
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unisono.accounting import gaussian
from unisono.accounting.accountant import ACCOUNTANT
from unisono.core.compiled import computed
from unisono.core.costs import everyone
from unisono.core.events import (
    Composed,
    Event,
    Everyone,
    Gaussian,
    NoNoise,
    Poisson,
    WithoutReplacement,
    bounded_sum,
)
from unisono.core.grant import Draw, Grant, chosen_together, join, take_together
from unisono.core.journal import MemoryJournal, read
from unisono.core.ledger import Ledger
from unisono.core.ledger_summary import summary
from unisono.core.policy import Budget, Policy
from unisono.core.release import disclose, release, share
from unisono.core.study import Party, require_same_kind
from unisono.core.trust import FINAL_MODEL, ITERATES, PARTY, SERVER, Relation, Unit, Viewer
from unisono.core.values import (
    Contribution,
    Private,
    Released,
    Share,
    clipped_sum,
    clipped_updates,
)
from unisono.core.wallet import states_to_json
from unisono.errors import (
    BudgetExceeded,
    GrantMisused,
    InvalidInput,
    LedgerCorrupted,
    LedgerUnavailable,
    UndefinedRelation,
)
from unisono.statistics.ledgers import verify

GRID = 1 / 64


def contribution(rows=None, mask=None):
    return clipped_sum(np.ones((5, 1)) if rows is None else rows, 0.9, GRID, mask)


def paid_for(contribution, std=20.0, count=1, sampler=None):
    sampler = () if sampler is None else (sampler,)
    event = Event(Gaussian(std), contribution.sensitivity, *sampler)
    return event, everyone(event * count)


# -------------------------------------------------------------------- budget


def test_spending_survives_a_restart_and_cannot_be_exceeded(file_ledger, cost, event, policy):
    granted = _spend_everything(file_ledger, event)
    mu = gaussian.compose([2 / 20], [granted])
    assert gaussian.epsilon(1e-6, mu) <= 1.0 < gaussian.epsilon(1e-6, math.hypot(mu, 0.1))
    reopened = Ledger.open(file_ledger._journal.path, ACCOUNTANT, policy)
    assert reopened.grants == granted
    assert reopened.spent(SERVER) == pytest.approx(gaussian.epsilon(1e-6, mu))
    with pytest.raises(BudgetExceeded):
        reopened.authorize(cost)


def test_a_refusal_says_what_was_asked_what_remains_and_what_would_fit(ledger, event):
    ledger.authorize(everyone(event * 2))
    with pytest.raises(BudgetExceeded) as refusal:
        ledger.authorize(everyone(event * 50), releases=50)
    message = str(refusal.value)
    assert message.startswith("Budget exceeded for 'ages'")
    assert f"Of epsilon 1, {ledger.left(SERVER).words(1e-6)} is left" in message
    assert message.endswith("No data was read.")
    fits = int(message.split("\n")[1].split(" of ")[0])
    ledger.authorize(everyone(event * fits))
    with pytest.raises(BudgetExceeded):
        ledger.authorize(everyone(event * 1))


def test_a_refusal_writes_nothing(file_ledger, event):
    before = file_ledger._journal.path.read_bytes()
    with pytest.raises(BudgetExceeded, match="Ask for less"):
        file_ledger.authorize(everyone(Event(Gaussian(0.1), event.sensitivity) * 1))
    assert file_ledger._journal.path.read_bytes() == before


def test_budgets_are_kept_per_viewer(event):
    policy = Policy(
        "ages", Budget(1.0, 1e-6), ((SERVER, Budget(math.inf)), (FINAL_MODEL, Budget(0.5, 1e-6)))
    )
    ledger = Ledger.in_memory(policy, ACCOUNTANT, seed=1)
    clean = Event(NoNoise(), event.sensitivity) * 1
    ledger.authorize(everyone(event * 1) | {SERVER: clean})
    assert ledger.spent(SERVER) == math.inf
    with pytest.raises(BudgetExceeded, match="final result"):
        ledger.authorize(everyone(event * 2) | {SERVER: clean})
    tiny = Event(Gaussian(1e6), event.sensitivity) * 1
    with pytest.raises(BudgetExceeded, match="every intermediate"):
        ledger.authorize(everyone(tiny) | {SERVER: clean, ITERATES: clean})


def test_unknown_viewers_and_units_and_relations_are_refused(ledger, event):
    with pytest.raises(InvalidInput, match="unknown viewer"):
        ledger.authorize(everyone(event * 1) | {"everybody": event * 1})
    with pytest.raises(InvalidInput, match="what party sees"):
        ledger.authorize({v: h for v, h in everyone(event * 1).items() if v != PARTY})
    whole = Ledger.in_memory(Policy("ages", Budget(1, 1e-6), unit=Unit.PARTY), ACCOUNTANT)
    with pytest.raises(InvalidInput, match="hides a record, the budget counts whole parties"):
        whole.authorize(everyone(event * 1))
    hidden = bounded_sum(l2=1.0, hides_presence=False)
    book = Ledger.in_memory(
        Policy("ages", Budget(1, 1e-6), relation=Relation.ADD_OR_REMOVE), ACCOUNTANT
    )
    with pytest.raises(UndefinedRelation, match="add-or-remove"):
        book.authorize(everyone(Event(event.noise, hidden) * 1))
    with pytest.raises(InvalidInput, match="pays for nothing"):
        ledger.authorize({})
    with pytest.raises(InvalidInput, match="pays for nothing"):
        ledger.authorize(everyone(Composed()))
    with pytest.raises(InvalidInput, match="at least one"):
        ledger.authorize(everyone(event * 1), releases=0)
    assert ledger.grants == 0


@given(st.lists(st.floats(5, 60), min_size=1, max_size=12))
@settings(max_examples=40, deadline=None)
def test_whatever_is_authorised_stays_within_budget(stds):
    """The ledger's own sum never exceeds the budget, whatever mixture is asked for."""
    ledger = Ledger.in_memory(Policy("d", Budget(1.0, 1e-6)), ACCOUNTANT, seed=0)
    paid = []
    for std in stds:
        event = Event(Gaussian(std), bounded_sum(l2=1.0))
        try:
            ledger.authorize(everyone(event * 1))
            paid.append(2 / std)
        except BudgetExceeded:
            # After the first request a filter loses up to half a per cent of all-Gaussian budgets.
            assert gaussian.epsilon(1e-6, math.hypot(*paid, 2 / std)) > 0.995
    assert gaussian.epsilon(1e-6, max(math.hypot(*paid, 0.0), 1e-9)) <= 1.0


# ------------------------------------------------------- crashes and processes


def test_without_the_disks_word_there_is_no_grant_and_the_cost_stays(
    file_ledger, cost, monkeypatch
):
    """A line that may or may not be on the disk counts as spent, and nobody gets its noise."""

    def fail(_):
        raise OSError(errno.EIO, "bad disk")

    monkeypatch.setattr(os, "fdatasync", fail)
    with pytest.raises(LedgerUnavailable, match="counts as spent"):
        file_ledger.authorize(cost)
    monkeypatch.undo()
    assert file_ledger.grants == 1
    assert file_ledger.authorize(cost).number == 1
    assert verify(file_ledger._journal.path).entries == 2


def test_threads_share_the_disk_and_the_budget(file_ledger, policy, event):
    """Eight threads, one file: every grant has its own number, none exceeds the budget."""
    expected = _spend_everything(Ledger.in_memory(policy, ACCOUNTANT, seed=1), event)
    costs = [everyone(event * 1), everyone(event * 1, 0)]
    numbers = []

    def spend(worker):
        while True:
            try:
                numbers.append(file_ledger.authorize(costs[worker % 2]).number)
            except BudgetExceeded:
                return

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(spend, range(8)))
    assert sorted(numbers) == list(range(expected))
    assert verify(file_ledger._journal.path).entries == expected


def test_a_grant_taken_and_not_used_is_spent(file_ledger, cost, policy):
    file_ledger.authorize(cost)
    path = file_ledger._journal.path
    del file_ledger
    assert Ledger.open(path, ACCOUNTANT).spent(SERVER) > 0.3


CRASHER = """
import os, sys
from unisono.accounting.accountant import ACCOUNTANT
from unisono.core.compiled import computed
from unisono.core.costs import everyone
from unisono.core.ledger import Ledger
from unisono.core.events import *
book = Ledger.open(sys.argv[1], ACCOUNTANT)
cost = everyone(Event(Gaussian(200.0), bounded_sum(l2=1.0)) * 1)
print("ready", flush=True)
while True:
    book.authorize(cost)
    print("granted", flush=True)
"""


def test_killing_a_writer_loses_no_grant_it_was_told_about(file_ledger, policy):
    path = file_ledger._journal.path
    command = [sys.executable, "-c", CRASHER, str(path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.2)
        process.kill()
        told = process.stdout.read().count("granted")
    book = Ledger.open(path, ACCOUNTANT, policy)
    assert told <= book.grants <= told + 1
    assert verify(path).sound


SPENDER = """
import sys
from unisono.accounting.accountant import ACCOUNTANT
from unisono.core.compiled import computed
from unisono.core.costs import everyone
from unisono.core.ledger import Ledger
from unisono.core.events import *
from unisono.errors import BudgetExceeded
book, count = Ledger.open(sys.argv[1], ACCOUNTANT), 0
event = Event(Gaussian(20.0), bounded_sum(l1=1.0, l2=1.0, linf=1.0))
try:
    while True:
        book.authorize(everyone(event * 1))
        count += 1
except BudgetExceeded:
    print(count)
"""


def test_two_processes_share_one_budget(file_ledger, policy, event):
    """Together they get exactly as many grants as one process alone would."""
    path = str(file_ledger._journal.path)
    expected = _spend_everything(Ledger.in_memory(policy, ACCOUNTANT, seed=1), event)
    command = [sys.executable, "-c", SPENDER, path]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    counts = [int(process.communicate(timeout=60)[0]) for process in processes]
    assert sum(counts) == expected
    assert Ledger.open(path, ACCOUNTANT).grants == expected


def _spend_everything(ledger, event):
    count = 0
    while True:
        try:
            ledger.authorize(everyone(event * 1))
        except BudgetExceeded:
            return count
        count += 1


@pytest.mark.filterwarnings("ignore:.*fork.*")
def test_a_forked_process_cannot_use_its_parents_grant(ledger):
    _, cost = paid_for(contribution())
    grant = ledger.authorize(cost)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            grant.draw(0)
            os.write(writer, b"drew")
        except GrantMisused as error:
            os.write(writer, str(error).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert b"belongs to process" in os.read(reader, 1000)
    os.close(reader)
    os.close(writer)
    grant.draw(0)


# ------------------------------------------------------ identity and integrity


def test_identity_is_the_data_set_and_a_random_number_wherever_the_file_lies(tmp_path, policy):
    one = Ledger.create(tmp_path / "a", policy, ACCOUNTANT)
    (tmp_path / "a").rename(tmp_path / "b")
    assert Ledger.open(tmp_path / "b", ACCOUNTANT, policy).identity == one.identity
    lower = Policy("ages", Budget(0.5, 1e-6))
    assert Ledger.open(tmp_path / "b", ACCOUNTANT, lower).identity == one.identity
    assert Ledger.create(tmp_path / "c", policy, ACCOUNTANT).identity != one.identity
    with pytest.raises(InvalidInput, match="allows more than the ledger"):
        Ledger.open(tmp_path / "b", ACCOUNTANT, Policy("ages", Budget(2.0, 1e-6)))
    for other in (Policy("weights", Budget(1.0, 1e-6)), replace(policy, colluders=1)):
        with pytest.raises(InvalidInput, match="another policy"):
            Ledger.open(tmp_path / "b", ACCOUNTANT, other)


def test_truncation_and_rewriting_show_against_a_head_kept_elsewhere(file_ledger, cost, policy):
    path = file_ledger._journal.path
    file_ledger.authorize(cost)
    file_ledger.authorize(cost)
    head = file_ledger.head
    assert verify(path, head).sound
    assert verify(path, head).entries == 2
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]))
    assert verify(path).sound
    found = verify(path, head)
    assert not found.sound
    assert "removed" in found.finding
    path.write_bytes(b"".join(lines).replace(b'"releases":1', b'"releases":9'))
    assert not verify(path).sound
    with pytest.raises(LedgerCorrupted):
        Ledger.open(path, ACCOUNTANT)


def test_a_file_that_is_no_ledger_is_refused(tmp_path):
    (tmp_path / "x").write_text("hello\n")
    with pytest.raises(LedgerCorrupted):
        Ledger.open(tmp_path / "x", ACCOUNTANT)
    (tmp_path / "y").write_text("")
    with pytest.raises(LedgerCorrupted, match="not a ledger"):
        Ledger.open(tmp_path / "y", ACCOUNTANT)
    assert not verify(tmp_path / "x").sound


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes to read-only files")
def test_a_read_only_file_is_refused_before_anything_is_spent(file_ledger, cost):
    os.chmod(file_ledger._journal.path, 0o400)
    with pytest.raises(LedgerUnavailable, match="permission"):
        Ledger.open(file_ledger._journal.path, ACCOUNTANT)


def test_copies_are_the_same_ledger_and_pickling_is_refused(ledger, cost):
    assert copy.copy(ledger) is ledger
    assert copy.deepcopy({"book": ledger})["book"] is ledger
    grant = ledger.authorize(cost)
    assert copy.deepcopy(grant) is grant
    for thing in (ledger, grant, grant.draw(0), Private([1])):
        with pytest.raises(GrantMisused, match="pickled"):
            pickle.dumps(thing)


def test_simulation_is_stamped_and_kept_apart(tmp_path, policy, cost):
    Ledger.create(tmp_path / "s", policy, ACCOUNTANT, seed=3)
    with pytest.raises(InvalidInput, match="give its seed"):
        Ledger.open(tmp_path / "s", ACCOUNTANT)
    Ledger.create(tmp_path / "r", policy, ACCOUNTANT)
    with pytest.raises(InvalidInput, match="predictable"):
        Ledger.open(tmp_path / "r", ACCOUNTANT, seed=3)
    assert Ledger.open(tmp_path / "s", ACCOUNTANT, seed=3).authorize(cost).simulated


def test_a_seed_repeats_and_os_entropy_does_not(policy):
    def noise(seed):
        value = contribution()
        event, cost = paid_for(value)
        book = Ledger.in_memory(policy, ACCOUNTANT, seed=seed)
        return int(release(book.authorize(cost).draw(0), value, event).value[0])

    assert noise(5) == noise(5)
    assert len({noise(None) for _ in range(6)}) > 1


# ------------------------------------------------ the only source of releases


def test_release_dispatch_once(ledger):
    value = contribution()
    event, cost = paid_for(value)
    released = release(ledger.authorize(cost).draw(0), value, event)
    receipt = ledger.dispatch(released)
    assert (receipt.entry, receipt.index) == (0, 0)
    with pytest.raises(GrantMisused, match="left already"):
        ledger.dispatch(released)


def test_of_threads_that_dispatch_one_release_one_succeeds(ledger, hasty):
    value = contribution()
    event, cost = paid_for(value)
    released = release(ledger.authorize(cost).draw(0), value, event)
    gate = threading.Barrier(8)

    def dispatched(_):
        gate.wait()
        try:
            return bool(ledger.dispatch(released))
        except GrantMisused:
            return False

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(dispatched, range(8))) == 1


def test_many_ledgers_in_memory_are_ledgers_of_their_own(policy, cost):
    policies = [replace(policy, dataset=f"ages {number}") for number in range(3)]
    books = Ledger.all_in_memory(policies, ACCOUNTANT)
    assert gc.isenabled()
    assert [book.policy for book in books] == policies
    assert len({book.identity for book in books}) == len({book.place for book in books}) == 3
    books[1].authorize(cost, purpose="one")
    assert [book.grants for book in books] == [0, 1, 0]
    assert [sorted(book.purposes()) for book in books] == [[], ["one"], []]
    assert len({book.spending_key for book in books}) == 2
    [first, *later] = books[1]._journal.lines
    assert (first["kind"], [line["kind"] for line in later]) == ("policy", ["cost", "grant"])


def test_forged_changed_and_raw_releases_do_not_leave(ledger, policy):
    value = contribution()
    event, cost = paid_for(value)
    released = release(ledger.authorize(cost).draw(0), value, event)
    forged = Released(released.value - 1, GRID, 0, 0, ledger.identity, True, released.seal)
    with pytest.raises(GrantMisused, match="changed"):
        ledger.dispatch(forged)
    disguised = Share(*(getattr(released, f) for f in released.__dataclass_fields__))
    with pytest.raises(GrantMisused, match="changed"):
        ledger.dispatch(disguised)
    for raw in (np.ones(3), value, Private([1]), None):
        with pytest.raises(GrantMisused):
            ledger.dispatch(raw)
    other = Ledger.in_memory(policy, ACCOUNTANT, seed=1)
    with pytest.raises(GrantMisused, match="not made under this ledger"):
        other.dispatch(released)


def test_grants_and_draws_are_not_made_by_hand(ledger, cost):
    with pytest.raises(GrantMisused, match="authorize only"):
        Grant(object(), ledger, 0, cost, 1, b"0" * 32)
    with pytest.raises(GrantMisused, match=r"Grant\.draw only"):
        Draw(object(), ledger.authorize(cost), 0, b"0" * 32)
    with pytest.raises(GrantMisused, match=r"Ledger\.create"):
        Ledger(object(), MemoryJournal(), ledger.policy, ACCOUNTANT, None)


def test_each_draw_once_in_order_and_no_more_than_paid(ledger):
    value = contribution()
    event, cost = paid_for(value, count=3)
    grant = ledger.authorize(cost, releases=3)
    draw = grant.draw(1)
    with pytest.raises(GrantMisused, match="used already"):
        grant.draw(0)
    with pytest.raises(GrantMisused, match="used already"):
        grant.draw(1)
    with pytest.raises(GrantMisused, match="paid for 3"):
        grant.draw(3)
    release(draw, value, event)
    with pytest.raises(GrantMisused, match="has its noise already"):
        release(draw, value, event)


def test_draws_and_keys_together_are_those_one_by_one():
    """Of twin grants: the same coins, places and keys, no two of them equal, and all paid for."""
    event, cost = paid_for(contribution(), count=6, sampler=Poisson(0.02))

    def twin():
        policy = Policy("twin", Budget(8.0, 1e-5))
        return Ledger.in_memory(policy, ACCOUNTANT, seed=11).authorize(cost, releases=6)

    first, second = twin(), twin()
    together = first.draws([0, 1, 2, 4], b"public")
    alone = [second.draw(index, b"public") for index in (0, 1, 2, 4)]
    chosen = [own.tolist() for own in chosen_together(together, event.sampler, 500)]
    assert chosen == [draw.chosen(event.sampler, 500).tolist() for draw in alone]
    keys = take_together(together, event)
    assert keys == [draw.take(event) for draw in alone]
    assert len({*keys, *map(tuple, chosen)}) == 8
    with pytest.raises(GrantMisused, match="has its noise already"):
        take_together(together, event)
    with pytest.raises(GrantMisused, match="used already"):
        first.draws([4], b"public")
    with pytest.raises(GrantMisused, match="paid for 6"):
        first.draws([5, 6], b"public")


def test_keys_together_are_refused_as_one_by_one(ledger):
    event, cost = paid_for(contribution(), count=2, sampler=Poisson(0.02))
    grant, other = (ledger.authorize(cost, releases=4) for _ in range(2))
    draws = grant.draws(range(4))
    with pytest.raises(GrantMisused, match="accounted as"):
        take_together(draws[:1], event)  # nobody was sampled
    chosen_together(draws, event.sampler, 50)
    with pytest.raises(GrantMisused, match="accounted as"):
        take_together(draws[:1], replace(event, sampler=Poisson(0.04)))
    with pytest.raises(GrantMisused, match="not as often"):
        take_together(draws[:3], event)  # paid for two
    foreign = other.draws([0])
    chosen_together(foreign, event.sampler, 50)
    with pytest.raises(GrantMisused, match="one grant"):
        take_together([draws[0], *foreign], event)
    assert not any(draw.used for draw in draws)
    with pytest.raises(GrantMisused, match="has its noise already"):
        take_together([draws[0], draws[0]], event)  # the same noise twice would cancel


def test_the_wrong_event_is_refused(ledger):
    value = contribution()
    event, cost = paid_for(value)
    draw = ledger.authorize(cost).draw(0)
    with pytest.raises(GrantMisused, match="authorize the event"):
        release(draw, value, Event(Gaussian(1.0), value.sensitivity))
    release(ledger.authorize(cost).draw(0), value, event)


def test_a_contribution_that_moves_further_than_paid_is_refused(ledger):
    value, wider = contribution(), clipped_sum(np.ones((5, 1)), 1.8, GRID)
    event, cost = paid_for(value)
    with pytest.raises(GrantMisused, match="more than was authorised"):
        release(ledger.authorize(cost).draw(0), wider, event)
    with pytest.raises(GrantMisused, match="no proved sensitivity"):
        release(ledger.authorize(cost).draw(0), np.ones(1), event)


def test_the_sampler_used_is_the_sampler_accounted(ledger):
    value = contribution()
    event, cost = paid_for(value, sampler=Poisson(0.5))
    draw = ledger.authorize(cost).draw(0)
    with pytest.raises(GrantMisused, match="not made with the sampling mask"):
        release(draw, value, event)
    with pytest.raises(GrantMisused, match="accounted as"):
        draw.take(event)
    mask = draw.sample(Poisson(0.5), 5)
    assert mask.shape == (5,)
    with pytest.raises(GrantMisused, match="tossed already"):
        draw.sample(Poisson(0.5), 5)
    with pytest.raises(GrantMisused, match="not made with the sampling mask"):
        release(draw, value, event)
    assert isinstance(release(draw, contribution(mask=mask), event), Released)


@pytest.mark.parametrize("sampler", [Poisson(0.3), WithoutReplacement(7, 40), Everyone()])
def test_a_list_of_the_chosen_is_the_mask_in_secret_order_and_is_drawn_once(sampler):
    """Two ledgers of one seed: one draw gives the mask, its twin the numbers of those in it (at
    small rates a Poisson sample has the same law and other bits: `test_poisson_sample`)."""

    def twin():
        ledger = Ledger.in_memory(Policy("twin", Budget(8.0, 1e-5)), ACCOUNTANT, seed=11)
        _, cost = paid_for(contribution(), sampler=sampler)
        return ledger.authorize(cost).draw(0)

    draw = twin()
    chosen = draw.chosen(sampler, 40).tolist()
    assert sorted(chosen) == np.flatnonzero(twin().sample(sampler, 40)).tolist()
    assert sorted(chosen) != chosen
    slots = draw.places(40, 2)
    assert [sorted(own) for own in slots.tolist()] == [list(range(40))] * 2
    assert slots[0].tolist() != slots[1].tolist()
    with pytest.raises(GrantMisused, match="choose first"):
        twin().places(40)
    with pytest.raises(GrantMisused, match="tossed already"):
        draw.chosen(sampler, 40)
    with pytest.raises(GrantMisused, match="tossed already"):
        draw.sample(sampler, 40)


def grant_of_one(ledger):
    _, cost = paid_for(contribution(), std=100.0, sampler=Poisson(0.5))
    return ledger.authorize(cost).draw(0)


def test_amplification_is_claimed_with_the_mask_that_was_drawn(ledger):
    """Neither the mask of another release, nor one that was changed, makes a sampled sum."""
    event, cost = paid_for(contribution(), sampler=Poisson(0.5), count=2)
    grant = ledger.authorize(cost, releases=2)
    first, second = grant.draw(0), grant.draw(1)
    masks = [draw.sample(Poisson(0.5), 5) for draw in (first, second)]
    with pytest.raises(ValueError, match="read-only"):
        masks[0][:] = True
    shared = grant_of_one(ledger)
    with pytest.raises(GrantMisused, match="one coin that many records share"):
        contribution(mask=shared.sample(Poisson(0.5), 1))
    for forged in (masks[1], masks[0] | True, masks[0].copy(), np.ones(5, bool)):
        with pytest.raises(GrantMisused, match="not made with the sampling mask"):
            release(first, contribution(mask=forged), event)
    assert isinstance(release(first, contribution(mask=masks[0]), event), Released)


def test_nobody_but_bounding_functions_makes_contributions():
    """A sum a thousand times too large has no maker, whichever way it is tried."""
    honest = contribution()
    with pytest.raises(GrantMisused, match="enforce their bound"):
        Contribution(1000 * honest.value, honest.grid, honest.sensitivity)
    with pytest.raises(GrantMisused, match="enforce their bound"):
        replace(honest, value=1000 * honest.value)
    with pytest.raises(FrozenInstanceError):
        honest.value = 1000 * honest.value
    with pytest.raises(ValueError, match="read-only"):
        honest.value[:] = 10**9
    assert jax.tree.leaves(honest) == [honest]  # no pytree: nothing maps over its numbers
    with pytest.raises(TypeError):
        jax.tree.map(lambda number: 1000 * number, honest)


def test_two_draws_of_one_grant_have_different_noise(ledger):
    value = contribution()
    event, cost = paid_for(value, std=60.0, count=20)
    grant = ledger.authorize(cost, releases=20)
    values = {int(release(grant.draw(i), value, event).value[0]) for i in range(20)}
    assert len(values) > 15


def test_clean_values_only_to_a_server_booked_as_trusted(event):
    policy = Policy("ages", Budget(1.0, 1e-6), ((SERVER, Budget(math.inf)),))
    ledger = Ledger.in_memory(policy, ACCOUNTANT, seed=1)
    value = contribution()
    event, cost = paid_for(value)
    with pytest.raises(GrantMisused, match="books as trusted"):
        disclose(ledger.authorize(cost).draw(0), value, event)
    trusted = cost | {SERVER: Event(NoNoise(), value.sensitivity) * 1}
    clean = disclose(ledger.authorize(trusted).draw(0), value, event)
    assert (clean.value == value.value).all()


def test_shares_need_a_grid_fine_enough_for_their_gap(ledger):
    value = contribution()
    event, cost = paid_for(value)
    with pytest.raises(GrantMisused, match="finer grid"):
        share(ledger.authorize(cost).draw(0), value, event, honest=10**6)
    assert isinstance(share(ledger.authorize(cost).draw(0), value, event, honest=1), Share)


def test_private_data_open_to_grants_only(ledger, cost):
    records = Private(np.arange(3), "patients")
    assert "patients" in repr(records)
    assert "0" not in repr(records)
    for attempt in (lambda: records.open(None), lambda: np.asarray(records)):
        with pytest.raises(GrantMisused, match="grant"):
            attempt()
    assert records.open(ledger.authorize(cost)).sum() == 3


# --------------------------------------------------------------------- scale


def test_twenty_thousand_entries_open_and_answer(tmp_path):
    """Cost follows distinct events: one definition line, whatever the number of grants."""
    policy = Policy("big", Budget(4.0, 1e-6))
    book = Ledger.create(tmp_path / "big", policy, ACCOUNTANT)
    event = Event(Gaussian(1000.0), bounded_sum(l2=1.0))
    book.authorize(everyone(event * 1))
    line = {"kind": "grant", "releases": 1, "purpose": "", "time": book._last_time}
    name, wallets, lines = next(iter(book._costs)), book._wallets, []
    for number in range(1, 20_000):
        wallets = book._charged(wallets, book._costs[name], book._last_time, policy)
        left = {"left": states_to_json(wallets)}
        lines.append(line | left | {"cost": name, "number": number})
    with book._journal.locked():
        book._journal.append(lines)
    reopened = Ledger.open(tmp_path / "big", ACCOUNTANT)
    assert reopened.grants == 20_000
    assert len(reopened.history(SERVER).parts) == 1
    expected = gaussian.epsilon(1e-6, gaussian.compose([2 / 1000], [20_000]))
    assert reopened.spent(SERVER) == pytest.approx(expected)


def test_coalitions_are_counted_as_the_policy_says(event):
    """Larger planned coalitions cover smaller ones; a study planned for fewer is refused."""
    book = Ledger.in_memory(Policy("d", Budget(1.0, 1e-6), colluders=2), ACCOUNTANT, seed=0)
    with pytest.raises(InvalidInput, match="plan the study"):
        book.authorize(everyone(event * 1, colluders=1))
    weaker = Event(Gaussian(15.0), event.sensitivity) * 1
    book.authorize(everyone(event * 1) | {Viewer("colluders:03"): weaker})
    book.authorize(everyone(event * 1, colluders=2))
    assert book.viewers == ("colluders:2", "final-model", "iterates", "network", "party", "server")
    assert book.history(Viewer.colluders(2)) == weaker + event * 1
    assert book.spent(Viewer.colluders(2)) > book.spent(SERVER)
    with pytest.raises(InvalidInput, match="counts coalitions of 2"):
        book.spent(Viewer.colluders(1))


# ------------------------------------------------- holes that a reviewer found


def test_lines_added_by_hand_cannot_redefine_the_past(file_ledger, event):
    """A later line that renames, repeats or reorders is corruption, chain or no chain."""
    file_ledger.authorize(everyone(event * 1))
    path, journal = file_ledger._journal.path, file_ledger._journal
    name = next(iter(file_ledger._costs))
    cheap = {"kind": "cost", "cost": name, "viewers": {}}
    renamed = {"kind": "cost", "cost": "0" * 32, "viewers": {}}
    unknown = {"kind": "grant", "cost": "1" * 32, "number": 1, "releases": 1}
    early = {"kind": "grant", "cost": name, "number": 0, "releases": 1}
    for line in (cheap, renamed, unknown, early, {"kind": "refund"}):
        before = path.read_bytes()
        with journal.locked():
            journal.append([line])
        assert not verify(path).sound
        with pytest.raises(LedgerCorrupted):
            Ledger.open(path, ACCOUNTANT)
        path.write_bytes(before)
        journal._offset, journal.length = len(before), journal.length - 1
        journal.head = verify(path).head
    assert verify(path).sound


def test_senseless_numbers_buy_nothing(ledger):
    value = contribution()
    event, cost = paid_for(value, std=200.0, count=2)
    grant = ledger.authorize(cost, releases=2)
    for index in (math.nan, 0.0, "0", None):
        with pytest.raises(TypeError):
            grant.draw(index)
    draw = grant.draw(0)
    for times in (-3, 0):
        with pytest.raises(GrantMisused, match="at least one"):
            draw.take(event, times=times)
    with pytest.raises(TypeError):
        draw.take(event, times=math.nan)
    release(draw, value, event)
    with pytest.raises(GrantMisused, match="used already"):
        grant.draw(0)


def test_one_sample_serves_one_release(ledger):
    value = contribution()
    event, cost = paid_for(value, std=200.0, count=5, sampler=Poisson(0.1))
    draw = ledger.authorize(cost, releases=5).draw(0)
    draw.sample(Poisson(0.1), 5)
    with pytest.raises(GrantMisused, match="one sample serves one release"):
        draw.take(event, times=5)


def test_threads_cannot_overspend_a_ledger_in_memory(policy, event):
    ledger = Ledger.in_memory(policy, ACCOUNTANT, seed=1)
    expected = _spend_everything(Ledger.in_memory(policy, ACCOUNTANT, seed=1), event)
    with ThreadPoolExecutor(8) as pool:
        counts = list(pool.map(lambda _: _spend_everything(ledger, event), range(8)))
    assert sum(counts) == expected


@pytest.mark.filterwarnings("ignore:.*fork.*")
def test_a_forked_process_cannot_spend_a_ledger_in_memory(ledger, cost):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            ledger.authorize(cost)
            os.write(writer, b"granted")
        except LedgerUnavailable as error:
            os.write(writer, str(error).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert b"forked process" in os.read(reader, 1000)
    os.close(reader)
    os.close(writer)


def test_a_replaced_or_closed_file_takes_no_more_spending(file_ledger, cost, tmp_path):
    path = file_ledger._journal.path
    path.rename(tmp_path / "old")
    path.write_bytes((tmp_path / "old").read_bytes())
    with pytest.raises(LedgerCorrupted, match="replaced"):
        file_ledger.authorize(cost)
    file_ledger.close()
    with pytest.raises(LedgerUnavailable, match="closed"):
        file_ledger.authorize(cost)


def test_a_crash_while_creating_leaves_a_name_that_can_be_used(tmp_path, policy, cost, monkeypatch):
    """Before the file has its name it has its first line; before that there is none."""

    class Killed(BaseException):
        pass

    def kill(*_):
        raise Killed

    path = tmp_path / "book"
    monkeypatch.setattr(os, "link", kill)
    with pytest.raises(Killed):
        Ledger.create(path, policy, ACCOUNTANT)
    monkeypatch.undo()
    assert not path.exists()
    Ledger.create(path, policy, ACCOUNTANT).authorize(cost)
    assert verify(path).entries == 1


@pytest.mark.parametrize("content", [b"", bytes(range(11, 43)), b'{"entropy":"os","form', b"a\n"])
def test_a_file_that_is_no_ledger_is_left_alone(tmp_path, policy, content):
    path = tmp_path / "key.bin"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match="exists and is not a ledger"):
        Ledger.create(path, policy, ACCOUNTANT)
    with pytest.raises(LedgerCorrupted):
        Ledger.open(path, ACCOUNTANT)
    assert not verify(path).sound
    assert path.read_bytes() == content


def test_a_payment_whose_newline_was_stripped_stays_spent(file_ledger, policy, event):
    _spend_everything(file_ledger, event)
    spent, grants, path = file_ledger.spent(SERVER), file_ledger.grants, file_ledger._journal.path
    file_ledger.close()
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    assert verify(path).entries == grants
    reopened = Ledger.open(path, ACCOUNTANT, policy)
    assert reopened.spent(SERVER) == spent
    with pytest.raises(BudgetExceeded):
        reopened.authorize(everyone(event * 1))


@pytest.fixture
def hasty():
    """Threads that take turns as often as Python lets them."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_threads_that_ask_many_ledgers_at_once_overspend_none(tmp_path, hasty, kind):
    sensitivity = bounded_sum(l2=1.0)
    for trial in range(30 if kind == "memory" else 5):
        policies = [Policy(f"{trial} {number}", Budget(1.0, 1e-6)) for number in range(3)]
        books = [
            Ledger.in_memory(policy, ACCOUNTANT)
            if kind == "memory"
            else Ledger.create(tmp_path / policy.dataset, policy, ACCOUNTANT)
            for policy in policies
        ]
        gate = threading.Barrier(4)

        def spend(thread, books=books, gate=gate):
            cost = everyone(Event(Gaussian(12.0 + thread / 100), sensitivity) * 1)
            # Whoever takes locks in the order in which they are given waits in a circle.
            asked, got = books[thread % 3 :] + books[: thread % 3], []
            gate.wait()
            try:
                while True:
                    got += [grant.number for grant in Ledger.authorize_all(asked, cost)]
                    books[0].spent(SERVER)
            except BudgetExceeded:
                return got

        with ThreadPoolExecutor(4) as pool:
            granted = [number for got in pool.map(spend, range(4)) for number in got]
        for book in books:
            assert 0.5 < book.spent(SERVER) <= 1.0
            numbers = [line["number"] for line in _lines(book) if line["kind"] == "grant"]
            assert numbers == list(range(book.grants))
        assert len(granted) == sum(book.grants for book in books)


def _lines(book):
    return read(book._journal.path)[0] if book._journal.path else book._journal.lines


def test_one_ledger_does_not_pay_for_two_parties(file_ledger, ledger, cost):
    again = Ledger.open(file_ledger._journal.path, ACCOUNTANT)
    for pair in ([ledger, ledger], [file_ledger, again]):
        with pytest.raises(InvalidInput, match="two parties share one ledger"):
            Ledger.authorize_all(pair, cost)
        study = SimpleNamespace(facts=SimpleNamespace(parties=2))
        with pytest.raises(InvalidInput, match="two parties share one ledger"):
            require_same_kind(
                study, [Party(n, Private(()), b) for n, b in zip("ab", pair, strict=True)]
            )
    assert ledger.grants == file_ledger.grants == 0


def test_many_ledgers_pay_all_or_none(file_ledger, ledger, event, policy, tmp_path):
    other = Ledger.create(tmp_path / "other", policy, ACCOUNTANT)
    other.authorize(everyone(event * 5))
    asked = everyone(event * 3)
    while True:
        try:
            Ledger.authorize_all([file_ledger, other], asked)
        except BudgetExceeded:
            break
    assert other.grants == file_ledger.grants + 1
    with pytest.raises(InvalidInput, match="at least one whole"):
        Ledger.authorize_all([ledger], asked, releases=0)


# ------------------------------------------------------------------- units


def whole_party(std=20.0, sampler=None):
    sampler = () if sampler is None else (sampler,)
    bound = bounded_sum(l2=1.0, unit=Unit.PARTY, hides_presence=False)
    return Event(Gaussian(std), bound, *sampler)


@pytest.mark.parametrize("relation", [Relation.REPLACE_ONE, Relation.ZERO_OUT])
def test_what_hides_a_party_is_counted_for_its_records_as_replacing_it(tmp_path, relation):
    """Whatever happens to a record may move all that its party sends, by twice the clip."""
    policy = Policy("ages", Budget(1.0, 1e-6), relation=relation)
    book = Ledger.create(tmp_path / "book", policy, ACCOUNTANT)
    event = whole_party()
    grant = book.authorize(everyone(event * 4), releases=4)
    expected = gaussian.epsilon(1e-6, gaussian.compose([2 / 20], [4]))
    assert book.spent(SERVER) == pytest.approx(expected)
    rows = np.ones((1, 1))
    made = clipped_updates(rows, 0.9, GRID, Unit.PARTY)[0]
    release(grant.draw(0), made, event)  # the noise that was asked for is there to be drawn
    again = Ledger.open(tmp_path / "book", ACCOUNTANT, policy)
    assert again.spent(SERVER) == pytest.approx(expected)
    found = summary(read(tmp_path / "book")[0])
    assert ACCOUNTANT.epsilon(found.histories[SERVER], relation, 1e-6) == pytest.approx(expected)
    assert found.entries[0].cost[SERVER] == event * 4
    assert verify(tmp_path / "book").sound


def test_records_and_parties_draw_on_one_budget(ledger, event):
    ledger.authorize(everyone(event * 2))
    ledger.authorize(everyone(whole_party() * 2))
    both = gaussian.epsilon(1e-6, gaussian.compose([2 / 20], [4]))
    assert ledger.spent(SERVER) == pytest.approx(both)
    with pytest.raises(BudgetExceeded):
        ledger.authorize(everyone(whole_party() * 40))


def test_the_coin_of_a_party_hides_a_record_only_where_that_is_proved():
    """Replacing: both worlds toss it. Zeroing one record does not leave the party out."""
    event = whole_party(sampler=Poisson(0.1))
    spent = {}
    for relation in (Relation.REPLACE_ONE, Relation.ZERO_OUT):
        book = Ledger.in_memory(Policy("ages", Budget(5.0, 1e-6), relation=relation), ACCOUNTANT)
        book.authorize(everyone(event * 10), releases=10)
        spent[relation] = book.spent(SERVER)
    replaced = ACCOUNTANT.epsilon(event * 10, Relation.REPLACE_ONE, 1e-6)
    assert spent[Relation.REPLACE_ONE] == pytest.approx(replaced)
    no_coin = gaussian.epsilon(1e-6, gaussian.compose([2 / 20], [10]))
    assert spent[Relation.ZERO_OUT] == pytest.approx(no_coin)
    assert no_coin > 2 * replaced


def test_a_party_that_does_not_hide_its_presence_hides_no_records():
    policy = Policy("ages", Budget(1, 1e-6), relation=Relation.ADD_OR_REMOVE)
    book = Ledger.in_memory(policy, ACCOUNTANT)
    with pytest.raises(UndefinedRelation, match="add-or-remove"):
        book.authorize(everyone(whole_party() * 1))
    assert book.grants == 0


def test_floats_and_foreign_grids_have_no_release(ledger):
    value = contribution()
    event, cost = paid_for(value)
    for wrong in (value.value + 0.5, value.value.astype(np.uint64), value.value.astype(np.int8)):
        with pytest.raises(InvalidInput, match="integer grid"):
            release(ledger.authorize(cost).draw(0), computed(value, wrong, True), event)


def test_a_wrapped_sum_does_not_stand_out(policy):
    """int32 sums live modulo 2^32, and so does their noise: neighbours stay close in the ring."""
    book = Ledger.in_memory(Policy("d", Budget(50.0, 1e-6)), ACCOUNTANT, seed=1)
    event, cost = paid_for(contribution())
    values = [np.array([2**31 - 1], np.int32), np.array([-(2**31)], np.int32)]
    for value in values:
        near = computed(contribution(), value, True)
        out = [int(release(book.authorize(cost).draw(0), near, event).value[0]) for _ in range(20)]
        assert min(out) < 0 < max(out)
        assert max(abs(o) for o in out) <= 2**31


def test_a_party_opens_to_its_own_ledger_only(ledger, policy, cost):
    party = Party("a", Private((np.ones((2, 1)),)), ledger)
    other = Ledger.in_memory(policy, ACCOUNTANT, seed=2)
    with pytest.raises(GrantMisused, match="own ledger"):
        party.open(other.authorize(cost))
    assert len(party.open(ledger.authorize(cost))) == 1
    looked = []
    hidden = party.data.map(looked.append)
    assert not looked
    hidden.open(ledger.authorize(cost))
    assert len(looked) == 1


class Unhurried(dict):
    """A cost that takes its time to be compared."""

    def __ne__(self, other):
        time.sleep(0.02)
        return dict.__ne__(self, other)


def test_threads_cannot_join_the_same_grants_twice(policy, event):
    """Both would find them fresh, and draw for two releases what was paid for once."""
    books = [Ledger.in_memory(replace(policy, dataset=name), ACCOUNTANT) for name in "ab"]
    grants = Ledger.authorize_all(books, everyone(event * 1))
    for grant in grants:
        grant.cost = Unhurried(grant.cost)

    def joined(_):
        try:
            return join(grants)
        except GrantMisused:
            return None

    with ThreadPoolExecutor(4) as threads:
        assert sum(found is not None for found in threads.map(joined, range(4))) == 1
