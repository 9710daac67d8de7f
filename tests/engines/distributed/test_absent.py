"""Parties that are not there: for good, for a while, or just when the result is handed out."""

from types import SimpleNamespace

import pytest

from unisono.engines.distributed import presence
from unisono.engines.distributed.server import Conditions, coordinate

from .cluster import Cluster, descent
from .links import FaultyLink, ServerKilled

LONG = 600.0


class Clock:
    """Time passes when somebody sleeps; then something may happen."""

    def __init__(self):
        self.now, self.due = 0.0, []

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds
        for moment, action in [one for one in self.due if one[0] <= self.now]:
            self.due.remove((moment, action))
            action()


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    pretended = SimpleNamespace(monotonic=clock.monotonic, sleep=clock.sleep)
    monkeypatch.setattr(presence, "time", pretended)
    return clock


def run(cluster, link, checkpoint, **options):
    return coordinate(
        cluster.study,
        link,
        cluster.session,
        conditions=Conditions(1.0, connect_timeout=LONG),
        checkpoint=checkpoint,
        say=cluster.said.append,
        **options,
    )


def stopped(cluster, checkpoint, exchange):
    """The server dies in this exchange."""
    with pytest.raises(ServerKilled):
        run(cluster, FaultyLink(cluster.link, stops_at=exchange), checkpoint)


def test_the_first_start_waits_for_everybody(tmp_path, clock):
    cluster = Cluster(descent(rounds=2), tmp_path)
    cluster.kill(3)
    clock.due.append((100.0, lambda: cluster.start(3)))
    outcome = run(cluster, cluster.link, None)
    assert 100.0 <= clock.now < 110.0
    assert outcome.opened == 2
    assert cluster.turns(3) == [0, 1]


def test_who_is_gone_for_good_holds_up_the_first_start_and_no_other(tmp_path, clock):
    cluster, checkpoint = Cluster(descent(rounds=6), tmp_path), tmp_path / "checkpoint"
    cluster.kill(3)
    stopped(cluster, checkpoint, exchange=6)  # the first round is saved, the second has begun
    assert clock.now >= LONG
    for _ in range(2):
        before = clock.now
        stopped(cluster, checkpoint, exchange=6)
        assert clock.now - before < 5.0
    before = clock.now
    assert run(cluster, cluster.link, checkpoint).opened == 3
    assert clock.now - before < 5.0
    cluster.require_sound()


def test_before_the_first_sum_a_restarted_server_waits_a_moment_for_all(tmp_path, clock):
    cluster, checkpoint = Cluster(descent(rounds=2), tmp_path), tmp_path / "checkpoint"
    cluster.kill(3)
    stopped(cluster, checkpoint, exchange=5)
    before = clock.now
    assert run(cluster, cluster.link, checkpoint).opened == 1
    assert clock.now - before < 70.0


def test_a_restarted_server_waits_a_moment_for_those_who_were_there(tmp_path, clock):
    """They come back within seconds; a round without them would be opened without them."""
    cluster, checkpoint = Cluster(descent(rounds=3), tmp_path), tmp_path / "checkpoint"
    stopped(cluster, checkpoint, exchange=6)  # the first round is saved, the second not begun
    cluster.kill(0)
    cluster.kill(1)
    for party, moment in ((0, 3.0), (1, 7.0)):
        clock.due.append((clock.now + moment, lambda party=party: cluster.start(party)))
    before = clock.now
    outcome = run(cluster, cluster.link, checkpoint)
    assert 7.0 <= clock.now - before < 20.0
    assert outcome.opened == 2
    assert all(cluster.turns(party) == cluster.turns(2) for party in range(4))


def away_at_the_end(cluster):
    """The third party is gone once the last round is done."""
    return lambda number: cluster.kill(2) if number == cluster.study.algorithm.rounds else None


def test_who_is_away_for_a_moment_at_the_end_still_gets_the_result(tmp_path, clock):
    cluster = Cluster(descent(rounds=2), tmp_path)
    gone = away_at_the_end(cluster)

    def progress(number):
        gone(number)
        if number == 2:
            clock.due.append((clock.now + 10.0, lambda: cluster.start(2)))

    outcome = run(cluster, cluster.link, None, progress=progress)
    assert outcome.informed == {0, 1, 2, 3}
    assert cluster.parties[2].result_hash == outcome.result_hash
    assert clock.now < 60.0


def test_who_is_offline_at_the_end_gets_its_result_later(tmp_path, clock):
    """From a run that has nothing left to do; the others have left, and nobody waits for them."""
    cluster, checkpoint = Cluster(descent(rounds=2), tmp_path), tmp_path / "checkpoint"
    first = run(cluster, cluster.link, checkpoint, progress=away_at_the_end(cluster))
    assert first.informed == {0, 1, 3}
    assert clock.now < 90.0  # it is not waited for till the end of all connect_timeout
    turns = [cluster.turns(party) for party in range(4)]
    for party in (0, 1, 3):
        cluster.kill(party)
    began = clock.now
    clock.due.append((began + 200.0, lambda: cluster.start(2)))
    later = run(cluster, cluster.link, checkpoint, uninformed=[2])
    assert 200.0 <= clock.now - began < 210.0
    assert later.informed == {2}
    assert later.result_hash == first.result_hash == cluster.parties[2].result_hash
    assert cluster.parties[2].opened == first.opened == 2
    assert [cluster.turns(party) for party in range(4)] == turns


def test_who_never_comes_is_waited_for_as_long_as_patience_lasts(tmp_path, clock):
    cluster, checkpoint = Cluster(descent(rounds=2), tmp_path), tmp_path / "checkpoint"
    run(cluster, cluster.link, checkpoint, progress=away_at_the_end(cluster))
    began = clock.now
    later = run(cluster, cluster.link, checkpoint, uninformed=[2])
    assert later.informed == {0, 1, 3}  # who is there is told again
    assert LONG <= clock.now - began < LONG + 90.0
