"""Processes that die: a party at any stage and for any time, the server in any exchange."""

import re
import threading

import numpy as np
import pytest

from unisono.core.ledger import Ledger
from unisono.core.trust import SERVER, Trust
from unisono.engines import wire
from unisono.engines.distributed.envelope import HEAD_BYTES
from unisono.errors import InvalidInput

from . import faults
from .cluster import Cluster, descent
from .links import FaultyLink, ServerKilled

STAGES = ["announce", "deal", "ask", "agree", "unmask"]
# A run of three rounds: greeting, first set-up, three exchanges a round, and the result.
EXCHANGES = ["hello", "announce", "deal", *["ask", "agree", "unmask"] * 3, "finish"]


# ----------------------------------------------------------------- a party


@pytest.mark.parametrize("away", [1, 4, 7])
@pytest.mark.parametrize("stage", STAGES)
def test_a_party_is_away_for_a_while(tmp_path, stage, away):
    """Killed after its reply was made in the first round, back some exchanges later: it has paid
    for the turns that it began, and takes part again once it can be set up with the others."""
    cluster = Cluster(descent(parties=3, minimum=2, rounds=4), tmp_path)
    link = FaultyLink(cluster.link, {(stage, 2, 0): cluster.killed("after", away)})
    outcome = cluster.run(link)
    assert outcome.opened == 4
    turns = cluster.turns(1)
    assert (0 in turns) is (stage in ("ask", "agree", "unmask"))
    # Whoever is here before the last round is set up takes part in it.
    assert 3 in turns
    # What it paid for is what it made: a turn that was begun is never begun again.
    assert cluster.values(1) == turns
    cluster.require_sound()


def test_a_party_killed_in_every_round_pays_for_every_turn_once(tmp_path):
    """Dead after each vector, alive before the next exchange; the server asks on and on."""
    cluster = Cluster(descent(Trust.LOCAL, retries=2), tmp_path)
    die = cluster.killed("after")
    link = FaultyLink(cluster.link, {("ask", node, n): die for node in (1, 2) for n in range(5)})
    outcome = cluster.run(link)
    # Two of four never get an answer through: every retry is used, no round is opened.
    assert (outcome.opened, outcome.attempts) == (0, 2)
    assert all(cluster.turns(party) == [0, 1, 2, 3, 4] for party in range(4))
    cluster.require_sound()
    assert cluster.spent(0, SERVER) == pytest.approx([cluster.most(0, SERVER)], rel=1e-9)


def test_the_noise_of_a_lost_turn_is_never_drawn_again(tmp_path):
    """A restarted party asked for a turn that it paid for answers nothing; a later turn has other
    noise. Records of zeros make the answer pure noise: 32 equal integers at random in two turns
    have a chance below 2^-64."""
    study = descent(Trust.LOCAL, features=32)
    cluster = Cluster(study, tmp_path, data={0: (np.zeros((5, 32)), np.ones(5))})
    public = np.zeros(32, np.float32)

    def asked(number):
        request = cluster.request("ask", number, 0, public, counted=[-1] * 4)
        return wire.decode(cluster.parties[0].answer(request)[HEAD_BYTES:])

    lost = asked(0)
    cluster.kill(0)
    cluster.start(0)
    assert asked(0).tag == "dropout"
    fresh = asked(1)
    assert (lost.tag, fresh.tag) == ("released", "released")
    assert not np.array_equal(lost.arrays[0], fresh.arrays[0])
    assert cluster.turns(0) == [0, 1]


def test_two_processes_of_one_party(tmp_path):
    """Both hold the same ledger file, key and records; of every turn one of them gives a value."""
    cluster = Cluster(descent(Trust.LOCAL), tmp_path)
    first = cluster.parties[0]
    second = cluster.start(0)
    assert first.party.ledger is not second.party.ledger
    public = np.zeros(2, np.float32)
    for number in range(3):
        request = cluster.request("ask", number, 0, public, counted=[-1] * 4)
        barrier, found = threading.Barrier(2), []

        def answer(responder, request=request, barrier=barrier, found=found):
            barrier.wait()
            found.append(wire.decode(responder.answer(request)[HEAD_BYTES:]).tag)

        threads = [threading.Thread(target=answer, args=(one,)) for one in (first, second)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(found) == ["dropout", "released"]
    assert cluster.turns(0) == [0, 1, 2]


def test_two_processes_cannot_divide_the_turns_to_spend_more(tmp_path):
    """One is asked forwards, the other backwards: every turn is paid for once, by either."""
    cluster = Cluster(descent(Trust.LOCAL, retries=1), tmp_path)
    responders = [cluster.parties[0], cluster.start(0)]
    asks = [(n, a) for n in range(3) for a in range(2)]
    public = np.zeros(2, np.float32)
    for forwards, backwards in zip(asks, reversed(asks), strict=True):
        for responder, (number, attempt) in zip(responders, (forwards, backwards), strict=True):
            request = cluster.request("ask", number, attempt, public, counted=[-1] * 4)
            responder.answer(request)
    assert len(cluster.turns(0)) >= 2
    cluster.require_affordable(0)


# -------------------------------------------------------------- the server


def expected(stage, retries):
    (row,) = [r for r in faults.STOPPED if stage in r.stages and r.retries == retries]
    return row


def left_out(cluster):
    return {re.match(r"round (\d+)", text)[1] for text in cluster.said if "left out" in text}


@pytest.mark.parametrize(
    "answered",
    [True, pytest.param(False, marks=pytest.mark.slow)],
    ids=["answered", "unsent"],
)
@pytest.mark.parametrize("retries", [0, 1])
@pytest.mark.parametrize("exchange", range(len(EXCHANGES)))
def test_the_server_is_killed_and_goes_on(tmp_path, exchange, retries, answered):
    """In every exchange, before anything is sent and after parties have answered."""
    cluster = Cluster(descent(parties=3, minimum=2, retries=retries), tmp_path)
    link = FaultyLink(cluster.link, stops_at=exchange, answered=answered)
    with pytest.raises(ServerKilled):
        cluster.run(link, tmp_path / "checkpoint")
    assert link.tags[exchange] == EXCHANGES[exchange]
    row = expected(EXCHANGES[exchange], retries)
    outcome = cluster.run(checkpoint=tmp_path / "checkpoint")
    assert outcome.opened == 3 - row.left_out
    assert outcome.opened + len(left_out(cluster)) == 3
    stopped = EXCHANGES[exchange] in ("ask", "agree", "unmask")
    assert outcome.attempts == (retries if stopped else 0)
    assert np.isfinite(outcome.value).all()
    assert all(np.array_equal(p.result, outcome.value) for p in cluster.parties.values())
    cluster.require_sound()


@pytest.mark.parametrize("exchange", [3, 5, 8])
def test_the_server_and_a_party_die_together(tmp_path, exchange):
    cluster = Cluster(descent(retries=1), tmp_path)
    link = FaultyLink(cluster.link, stops_at=exchange, answered=True)
    with pytest.raises(ServerKilled):
        cluster.run(link, tmp_path / "checkpoint")
    for party in range(4):
        cluster.kill(party)
        cluster.start(party)
    outcome = cluster.run(checkpoint=tmp_path / "checkpoint")
    assert outcome.opened == 3
    cluster.require_sound()


def test_a_server_that_dies_in_every_round_comes_to_an_end(tmp_path):
    """Killed at every fourth exchange until it is through: one retry, then rounds are left out."""
    cluster = Cluster(descent(parties=3, minimum=2, retries=1), tmp_path)
    for _ in range(10):
        try:
            outcome = cluster.run(FaultyLink(cluster.link, stops_at=4), tmp_path / "checkpoint")
            break
        except ServerKilled:
            continue
    assert (outcome.opened, outcome.attempts) == (0, 1)
    assert left_out(cluster) == {"1", "2", "3"}
    cluster.require_sound()


def test_a_server_without_its_checkpoint_gains_nothing(tmp_path):
    """It forgot everything and begins anew: parties refuse turns that they have answered."""
    cluster = Cluster(descent(parties=3, minimum=2), tmp_path)
    assert cluster.run().opened == 3
    again = cluster.run()
    assert again.opened == 0
    assert all(cluster.turns(party) == [0, 1, 2] for party in range(3))


def test_a_checkpoint_of_another_run_is_refused(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first = Cluster(descent(parties=3, minimum=2), tmp_path / "a")
    first.run(checkpoint=tmp_path / "checkpoint")
    second = Cluster(descent(parties=3, minimum=2), tmp_path / "b")
    with pytest.raises(InvalidInput, match="another study"):
        second.run(checkpoint=tmp_path / "checkpoint")
    assert second.turns(0) == []


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"PK\x03\x04 torn",
        b"no checkpoint",
    ],
    ids=["empty", "torn", "other"],
)
def test_a_damaged_checkpoint_is_refused_in_plain_words(tmp_path, content):
    cluster = Cluster(descent(parties=3, minimum=2), tmp_path)
    (tmp_path / "checkpoint").write_bytes(content)
    with pytest.raises(InvalidInput, match="remove it to start anew"):
        cluster.run(checkpoint=tmp_path / "checkpoint")


def test_ledgers_opened_later_know_what_was_granted(tmp_path):
    """The control of all tests above: purposes survive the process that paid for them."""
    cluster = Cluster(descent(Trust.LOCAL), tmp_path)
    cluster.run()
    ledger = Ledger.open(cluster.book(0), cluster.parties[0].party.ledger.accountant)
    assert len(ledger.purposes()) == 3
    assert cluster.start(0).spender.last == 2
