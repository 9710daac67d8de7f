"""A roster party whose masked vector ignores its bound: the round is refused, charged and retried;
parties refuse what a server lets pass."""

import numpy as np
import pytest

from unisono.core.transcript import Transcript
from unisono.engines.distributed.server import Conditions, _Run, coordinate
from unisono.errors import SumRefused
from unisono.secagg import party as secure_sum

from .cluster import Cluster, descent

TURNS = {"parties": 4, "minimum": 4, "rounds": 3}


@pytest.fixture
def poison(monkeypatch):
    """Party 1 adds `size` to the first number under its masks, so many times."""
    honest = secure_sum.mask

    def begin(size, times=100):
        left = iter(range(times))

        def mask(state, share, question):
            after, total, signature = honest(state, share, question)
            if state.before.before.party == 1 and next(left, None) is not None:
                total = total.copy()
                total[0] += np.asarray(size % 2**32, np.uint64).astype(total.dtype)
            return after, total, signature

        monkeypatch.setattr(secure_sum, "mask", mask)

    return begin


def run(cluster, transcript=None):
    return coordinate(
        cluster.study,
        cluster.link,
        cluster.session,
        conditions=Conditions(1.0, connect_timeout=0.0),
        say=cluster.said.append,
        transcript=transcript,
    )


@pytest.mark.parametrize("size", [2**20, -(2**20), 2**31 - 1, 2**31, -(2**31)])
def test_a_poisoned_sum_ends_the_study(tmp_path, poison, size):
    cluster = Cluster(descent(**TURNS), tmp_path)
    poison(size)
    seen = Transcript()
    with pytest.raises(SumRefused, match="number 1 of 2") as caught:
        run(cluster, seen)
    words = str(caught.value)
    assert "at least one party broke the protocol or has a fault" in words
    assert "The round stays charged" in words
    assert cluster.said[-1] == words.splitlines()[0]
    assert [cluster.turns(party) for party in range(4)] == [[0]] * 4
    assert [m.name for m in seen.messages if "sum" in m.name] == ["refused sum"]
    cluster.require_sound()


def test_a_refused_round_uses_a_retry_and_stays_charged(tmp_path, poison):
    cluster = Cluster(descent(**TURNS, retries=2), tmp_path)
    poison(2**20, times=1)
    outcome = run(cluster)
    assert (outcome.opened, outcome.attempts) == (3, 1)
    assert any("is refused" in words for words in cluster.said)
    assert [cluster.turns(party) for party in range(4)] == [[0, 1, 2, 3]] * 4
    assert np.abs(np.asarray(outcome.value)).max() < 100
    cluster.require_sound()


def test_without_retries_left_the_study_ends(tmp_path, poison):
    cluster = Cluster(descent(**TURNS, retries=2), tmp_path)
    poison(2**20)
    with pytest.raises(SumRefused):
        run(cluster)
    assert cluster.turns(0) == [0, 1, 2]
    cluster.require_sound()


@pytest.mark.parametrize("rounds", [1, 3])
def test_parties_refuse_a_sum_that_their_server_lets_pass(tmp_path, poison, monkeypatch, rounds):
    """A server without the check: parties hear the sum with the next question, or with the result;
    they answer nothing more, and believe no result."""
    cluster = Cluster(descent(**TURNS | {"rounds": rounds}), tmp_path)
    poison(2**20)
    monkeypatch.setattr(_Run, "_allowed", lambda *_: True)
    outcome = run(cluster)
    assert not outcome.informed
    for number, party in cluster.parties.items():
        assert "the sum of 4 parties is refused: number 1 of 2" in str(party.refusal)
        assert not party.finished
        assert cluster.turns(number) == [0]


def test_an_honest_study_is_told_and_believed(tmp_path):
    """The control: parties hear every sum that counted."""
    cluster = Cluster(descent(**TURNS), tmp_path)
    assert run(cluster).informed == frozenset(range(4))
    told = [one for one in cluster.link.heard if one.request.tag == "sum" and one.node == 1]
    assert [one.request.scalars["round"] for one in told] == [0, 1, 2]
    assert all(one.reply.tag == "sum" for one in told)
