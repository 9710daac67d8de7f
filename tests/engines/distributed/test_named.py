"""Records that a coordinator names, between machines: caps that hold whoever asks, and crashes."""

from collections import Counter
from functools import lru_cache

import numpy as np
import pytest

from unisono.core.algorithm import Facts
from unisono.core.study import Party, Study
from unisono.core.trust import SERVER, Trust
from unisono.engines import in_process, wire
from unisono.engines.distributed.envelope import HEAD_BYTES
from unisono.engines.distributed.server import Conditions, coordinate

from ... import methods
from .cluster import DELTA, Cluster
from .links import FaultyLink, ServerKilled

SIZES = (7, 9, 8)
PUBLIC = np.zeros(2, np.float32)


@lru_cache(maxsize=8)
def sequential(steps=12, uses=3, sizes=SIZES):
    method = methods.sgd_sequential(2.0, DELTA, steps=steps, uses=uses)
    return Study(method, Facts(sizes, 2, 2), Trust.LOCAL)


def coordinated(cluster, order=None, link=None, **options):
    return coordinate(
        cluster.study,
        link or cluster.link,
        cluster.session,
        conditions=Conditions(1.0, connect_timeout=0.0),
        say=cluster.said.append,
        order=order,
        **options,
    )


def ask(cluster, party, number, **scalars):
    parties = cluster.study.facts.parties
    request = cluster.request("ask", number, 0, PUBLIC, counted=[-1] * parties, **scalars)
    return wire.decode(cluster.parties[party].answer(request)[HEAD_BYTES:]).tag


def used(cluster):
    """How often each party has ever answered for each of its records."""
    return [
        Counter(
            said.request.scalars["row"]
            for said in cluster.link.heard
            if said.node == party + 1 and said.reply.tag == "released"
        )
        for party in range(cluster.study.facts.parties)
    ]


def in_one_process(cluster, order):
    """The same run, in process, from ledgers with the same seed."""
    twins = Cluster(cluster.study, cluster.folder / "twins", seed=cluster.seed)
    own = [twins.parties[i].party for i in range(len(twins.parties))]
    parties = [Party(p.name, p.data, p.ledger) for p in own]
    return in_process.run(cluster.study, parties, order=order)


def agree(cluster, order):
    """Between machines and in process: the same integers, but for two steps of rounding."""
    outcome = coordinated(cluster, order)
    alone = in_one_process(cluster, order)
    sums = [m.value for m in outcome.transcript.messages if m.name == "sum"]
    seen = {m.name: m.value for m in alone.transcript.messages if m.name == "refused"}
    opened = [m.value for m in alone.transcript.messages if m.name == "sum"]
    answered = ~seen["refused"]
    assert outcome.opened == len(sums) == answered.sum()
    assert np.abs(np.array(sums) - np.array(opened)[answered]).max() <= 2
    assert outcome.value == pytest.approx(alone.value, abs=1e-3)
    return outcome


@pytest.fixture
def seeded(tmp_path):
    (tmp_path / "twins").mkdir()

    def made(study):
        return Cluster(study, tmp_path, seed=5)

    return made


def test_it_runs_between_machines_as_in_process(seeded):
    order = np.array([3, 8, 20, 3, 23, 0, 3, 15, 3, 7, 3, 16])  # 3 five times, thrice allowed
    cluster = seeded(sequential())
    outcome = agree(cluster, order)
    assert outcome.opened == 10
    assert used(cluster) == [
        Counter({3: 3, 0: 1}),
        Counter({1: 1, 8: 1, 0: 1}),
        Counter({4: 1, 7: 1, 0: 1}),
    ]
    assert outcome.informed == {0, 1, 2}
    for party in range(3):
        assert len(cluster.charges(party)) == 1  # the whole run, before its first turn


def test_a_party_hears_of_its_own_records_only(tmp_path):
    cluster = Cluster(sequential(), tmp_path)
    outcome = coordinated(cluster)
    (order,) = (m for m in outcome.transcript.messages if m.name == "order")
    assert order.viewers == {SERVER}
    ends = np.cumsum(SIZES)
    owners = np.searchsorted(ends, order.value, side="right")
    asked = [s for s in cluster.link.heard if s.request.tag == "ask"]
    assert [s.node - 1 for s in asked] == owners.tolist()
    for said in asked:
        others = np.delete(said.request.scalars["counted"], said.node - 1)
        assert (others == -1).all()  # nor when others worked
    told = {key for s in asked for key in s.request.scalars}
    assert told == {"session", "round", "attempt", "counted", "row"}


def test_a_server_that_names_one_record_again_and_again_is_refused_at_the_cap(tmp_path):
    cluster = Cluster(sequential(), tmp_path)
    answers = [ask(cluster, 0, number, row=2) for number in range(12)]
    assert answers == ["released"] * 3 + ["dropout"] * 9
    assert cluster.spent(0, SERVER)[0] <= cluster.most(0, SERVER) * (1 + 1e-9) <= 2.0 * (1 + 1e-9)
    assert len(cluster.charges(0)) == 1


@pytest.mark.parametrize("row", [7, -1, 2.0, True, "2", None, [2]])
def test_a_record_that_is_not_there_is_not_named(tmp_path, row):
    cluster = Cluster(sequential(), tmp_path)
    assert ask(cluster, 0, 0, row=row) == "dropout"
    assert cluster.charges(0) == []
    assert ask(cluster, 0, 0) == "dropout"
    assert ask(cluster, 0, 0, row=2) == "released"
    assert ask(cluster, 0, 0, row=3) == "dropout"  # a turn is answered once


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_party_that_crashed_is_silent_and_no_record_exceeds_its_cap(tmp_path, when):
    """The whole run was paid for by a process that is gone with its noise: nothing goes on."""
    cluster = Cluster(sequential(), tmp_path)
    order = np.array([3, 3, 10, 3, 3, 3, 11, 4, 0, 20, 3, 3])
    link = FaultyLink(cluster.link, {("ask", 1, 2): cluster.killed(when)})
    outcome = coordinated(cluster, order, link)
    assert link.befallen == 1
    counts = used(cluster)
    assert counts[0] == Counter({3: 2 if when == "before" else 3})
    assert outcome.opened == 2 + 3
    assert len(cluster.charges(0)) == 1
    assert cluster.spent(0, SERVER)[0] <= cluster.most(0, SERVER) * (1 + 1e-9)
    assert [ask(cluster, 0, number, row=5) for number in (10, 11)] == ["dropout"] * 2


def test_a_server_that_was_killed_goes_on_and_caps_hold(tmp_path):
    cluster = Cluster(sequential(), tmp_path)
    order, place = np.full(12, 3), tmp_path / "server"
    link = FaultyLink(cluster.link, stops_at=3, answered=True)
    with pytest.raises(ServerKilled):
        coordinated(cluster, order, link, checkpoint=place)
    outcome = coordinated(cluster, order, checkpoint=place)
    assert used(cluster)[0] == Counter({3: 3})
    assert outcome.opened <= 3
    assert any("left out" in words for words in cluster.said)


@pytest.mark.slow
def test_n_squared_steps_between_machines(seeded):
    """24 records of three parties, 576 steps, n + 4 sqrt(n) uses of each at most."""
    cluster = seeded(sequential(None, None))
    assert cluster.study.algorithm.rounds == 576
    order = np.random.default_rng(3).integers(0, 24, 576)
    agree(cluster, order)
    assert max(max(own.values()) for own in used(cluster)) <= 44
