"""Parties that remember something between rounds, and runs that are one event as a whole.

Here ledgers are seeded: noise then depends on the number of the grant alone, so that two runs that
the protocol calls equal are equal bit by bit.
"""

import errno
import os
import stat
from functools import lru_cache

import jax.numpy as jnp
import numpy as np
import optax
import pytest

from unisono.algorithms.pvi import Climb
from unisono.core.algorithm import Facts
from unisono.core.study import Study
from unisono.core.trust import Relation, Trust
from unisono.errors import InvalidInput
from unisono.problems.record_loss import RecordLoss
from unisono.releases.blocked_sum import Clipping

from ... import methods
from . import links
from .cluster import DELTA, RECORDS, Cluster
from .links import FaultyLink

PARTY, NODE = 1, 2


@lru_cache(maxsize=4)
def updates():
    """Every party keeps a factor without noise, which moves by what was counted."""
    algorithm = methods.clipped_updates(
        epsilon=8.0,
        delta=DELTA,
        rounds=4,
        clipping_norm=2.0,
        damping=0.5,
        prior_variance=4.0,
        climb=Climb("gradient", steps=2, size=0.1),
    )
    return Study(algorithm, Facts((RECORDS,) * 3, 1, 2), Trust.SECURE_SUM)


@lru_cache(maxsize=4)
def in_turn():
    """Asynchronous: a party works on the public values that it saw at its last turn."""
    algorithm = methods.dp_sga(
        epsilon=500.0,
        delta=DELTA,
        rounds=6,
        local_steps=2,
        sampling_rate=1.0,
        clipping_norm=2.0,
        prior_variance=4.0,
        relation=Relation.ZERO_OUT,
        order="asynchronous",
    )
    return Study(algorithm, Facts((RECORDS,) * 3, 1, 1), Trust.LOCAL)


def ran(study, folder, *, restart=(), faults=None, remember=True, forget=False):
    """A run in which a party dies, and is back at once, after the named rounds."""
    folder.mkdir()
    cluster = Cluster(study, folder, epsilon=1000.0, remember=remember, seed=3)
    outcome = cluster.run(
        FaultyLink(cluster.link, faults and faults(cluster)),
        ahead=False,  # a party that dies between rounds has nothing set up
        progress=lambda done: done in restart and reborn(cluster, forget),
    )
    return cluster, outcome


def reborn(cluster, forget):
    cluster.kill(PARTY)
    if forget:
        cluster.memory(PARTY).unlink()
    cluster.start(PARTY)


def same(first, second):
    return np.array_equal(first.value.shift, second.value.shift)


@pytest.mark.parametrize("study", [updates, in_turn], ids=["factors", "stale"])
def test_a_restarted_party_goes_on_from_its_memory(tmp_path, study):
    """Bit by bit as if it had never died; without the file it starts anew, which is another run."""
    whole, expected = ran(study(), tmp_path / "whole")
    killed, found = ran(study(), tmp_path / "killed", restart=(1, 2, 3))
    assert same(expected, found)
    assert killed.charges(PARTY) == [
        purpose.replace(whole.session.account.hex()[:32], killed.session.account.hex()[:32])
        for purpose in whole.charges(PARTY)
    ]
    forgetful, other = ran(study(), tmp_path / "forgetful", restart=(2,), forget=True)
    assert not same(expected, other)
    assert other.opened == expected.opened
    nothing, another = ran(study(), tmp_path / "nothing", restart=(2,), remember=False)
    assert same(other, another)
    assert len(forgetful.charges(PARTY)) == len(nothing.charges(PARTY))


def test_only_the_owner_can_read_what_a_party_remembers(tmp_path):
    cluster, _ = ran(updates(), tmp_path / "run")
    assert stat.S_IMODE(cluster.memory(PARTY).stat().st_mode) == 0o600
    cluster, _ = ran(in_turn(), tmp_path / "other", remember=False)
    assert not cluster.memory(PARTY).exists()


@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize("dies", [True, False])
def test_a_step_is_remembered_if_its_answer_counted(tmp_path, counted, dies):
    """In the second round the party's reply arrives or is lost, and then it dies or lives. In the
    third it knows which: its factor has moved, or it has taken the step back."""
    cluster = Cluster(updates(), tmp_path, remember=True, seed=3)
    die = cluster.killed("after")
    faults = {("agree", NODE, 1): die} if dies else {}
    if not counted:
        faults = {("ask", NODE, 1): die if dies else links.drop_reply}
    factors = {}

    def look(done):
        factors[done] = np.asarray(cluster.parties[PARTY]._state[0])  # beside what it last sent

    outcome = cluster.run(FaultyLink(cluster.link, faults), ahead=False, progress=look)
    assert outcome.opened == 4
    assert len(cluster.turns(PARTY)) == 4
    assert np.any(factors[3] != factors[2]) == counted
    assert np.any(factors[2] != factors[1])  # the first round's answer counted


def test_a_request_that_arrives_twice_changes_no_memory(tmp_path):
    """The second is refused and must leave no trace: the answer to the first one counted."""

    def faults(cluster):
        return {("ask", NODE, 1): links.duplicate}

    _, twice = ran(updates(), tmp_path / "twice", faults=faults)
    _, once = ran(updates(), tmp_path / "once")
    assert same(twice, once)


@pytest.mark.parametrize("honest", [False, True])
def test_a_full_disk_under_the_memory_is_a_dropout(tmp_path, monkeypatch, caplog, honest):
    """The turn is paid for before, so its answer is lost; the next round goes well again. What the
    party logs must not say that nothing was spent."""
    cluster = Cluster(updates(), tmp_path, remember=True, seed=3)
    original, failures = os.replace, []

    def replace(source, target):
        if target == cluster.memory(PARTY) and not failures:
            failures.append(target)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        original(source, target)

    monkeypatch.setattr(os, "replace", replace)
    outcome = cluster.run(ahead=False)
    assert len(failures) == 1
    assert outcome.opened == 4
    assert cluster.turns(PARTY) == [0, 1, 2, 3]
    assert cluster.values(PARTY) == [1, 2, 3]
    assert "the disk is full" in caplog.text
    if honest:
        assert "nothing was spent" not in caplog.text


def test_a_memory_of_another_session_is_refused(tmp_path):
    first, _ = ran(updates(), tmp_path / "first")
    (tmp_path / "second").mkdir()
    second = Cluster(updates(), tmp_path / "second", remember=True, seed=3)
    first.memory(0).rename(second.memory(0))
    with pytest.raises(InvalidInput, match="another study"):
        second.start(0)


@lru_cache(maxsize=2)
def one_event():
    problem = RecordLoss(
        lambda weights, record: jnp.logaddexp(0.0, -record[1] * (record[0] @ weights)),
        np.zeros(1, np.float32),
        (np.zeros(1, np.float32), np.float32(0)),
    )
    algorithm = methods.dp_ftrl(
        problem,
        optax.sgd(1.0),
        2.0,
        DELTA,
        rounds=4,
        separation=2,
        bands=2,
        clipping=Clipping(loss_range=2.0),
    )
    return Study(algorithm, Facts((8,) * 3, 1, 2), Trust.LOCAL)


def test_a_run_that_is_one_event_ends_with_the_process(tmp_path):
    """DP-FTRL: noise of all rounds hangs together and is paid for once. A restarted party cannot
    draw it again, so it sits out; the others go on, and nothing is paid for twice."""
    cluster, outcome = ran(one_event(), tmp_path / "run", restart=(2,))
    assert outcome.opened == 4
    assert [len(cluster.charges(party)) for party in range(3)] == [1, 1, 1]
    made = [
        said.request.scalars["round"]
        for said in cluster.link.heard
        if said.node == NODE and said.reply.tag == "released"
    ]
    assert made == [0, 1]
    most = cluster.most(PARTY, next(iter(cluster.study.costs[PARTY])))
    assert max(cluster.spent(PARTY, *cluster.study.costs[PARTY])) <= most * (1 + 1e-9)
