"""A party that cannot or will not answer: a dropout on the wire, a clear line in its own log."""

import errno
import logging
import os

import numpy as np
import pytest

from unisono.accounting.accountant import ACCOUNTANT
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.trust import Trust, Unit
from unisono.engines import wire
from unisono.engines.distributed.envelope import HEAD_BYTES
from unisono.engines.distributed.sessions import session_of
from unisono.errors import InvalidInput, PrivacyViolation
from unisono.secagg.roster import Identity

from . import faults
from .cluster import DELTA, Cluster, descent

PARTY = 1


def reopened(cluster, policy):
    """Give the party another ledger."""
    cluster.kill(PARTY)
    cluster.book(PARTY).unlink()
    return Ledger.create(cluster.book(PARTY), policy, ACCOUNTANT)


def budget(cluster, monkeypatch):
    """Room for one turn of three."""
    one = cluster.study.algorithm.turn_cost(cluster.study.facts, cluster.study.trust, PARTY, 0)
    epsilon = max(ACCOUNTANT.epsilon(h, cluster.relation, DELTA) for h in one.values())
    reopened(cluster, Policy("small", Budget(epsilon * 1.01, DELTA))).close()
    cluster.start(PARTY)


def once_in_second_turn(cluster, monkeypatch, function, code):
    """An operating system call fails for the party's ledger in the second round, once."""
    ledger = cluster.parties[PARTY].party.ledger
    original = getattr(os, function)

    def fail(descriptor, *rest):
        if descriptor == ledger._journal._file and ledger.grants == failing[0]:
            failing[0] = -1
            raise OSError(code, os.strerror(code))
        return original(descriptor, *rest)

    # A payment is counted between being written and being confirmed.
    failing = [1 if function == "write" else 2]
    monkeypatch.setattr(os, function, fail)


def full_disk(cluster, monkeypatch):
    once_in_second_turn(cluster, monkeypatch, "write", errno.ENOSPC)


def failing_disk(cluster, monkeypatch):
    once_in_second_turn(cluster, monkeypatch, "fdatasync", errno.EIO)


def other_ledger(cluster, monkeypatch):
    reopened(cluster, Policy("other", Budget(9.0, DELTA), (), cluster.relation, Unit.PARTY)).close()
    cluster.start(PARTY)


def spent_elsewhere(cluster, monkeypatch):
    most = max(cluster.most(PARTY, viewer) for viewer in cluster.study.costs[PARTY])
    ledger = reopened(cluster, Policy("used", Budget(most * 1.01, DELTA)))
    ledger.authorize(cluster.study.costs[PARTY], 3, "another study")
    ledger.close()
    cluster.start(PARTY)


def other_key(cluster, monkeypatch):
    cluster.kill(PARTY)
    with pytest.raises(InvalidInput, match="lists another key"):
        cluster.start(PARTY, identity=Identity.fresh(cluster.identities[PARTY].name))


def other_study(cluster, monkeypatch):
    study = descent(cluster.study.trust, rounds=4)
    cluster.start(PARTY, study=study, session=session_of(study, cluster.roster))


def policy(cluster, monkeypatch):
    def allow(number):
        if number >= 1:
            raise PrivacyViolation("by its policy this party answers in the first round only")

    cluster.start(PARTY, allow=allow)


def other_records(cluster, monkeypatch):
    rows, labels = cluster.data[PARTY]
    cluster.data[PARTY] = rows[:-1], labels[:-1]
    cluster.start(PARTY)


SCENARIOS = {
    "budget": budget,
    "full-disk": full_disk,
    "failing-disk": failing_disk,
    "other-ledger": other_ledger,
    "spent-elsewhere": spent_elsewhere,
    "other-key": other_key,
    "other-study": other_study,
    "policy": policy,
    "other-records": other_records,
}


@pytest.mark.parametrize("trust", [Trust.LOCAL, Trust.SECURE_SUM])
@pytest.mark.parametrize("name", faults.REFUSALS)
def test_it_is_a_dropout_for_the_others(tmp_path, monkeypatch, caplog, name, trust):
    """The run goes on with the other three; the refusing party's own log says why, once for each
    refusal and without a traceback; it pays what the table says."""
    expected = faults.REFUSALS[name]
    cluster = Cluster(descent(trust), tmp_path)
    SCENARIOS[name](cluster, monkeypatch)
    with caplog.at_level(logging.ERROR, "unisono.party"):
        outcome = cluster.run()
    assert outcome.opened == 3
    assert np.isfinite(outcome.value).all()
    paid = cluster.charges(PARTY)
    if name == "spent-elsewhere":
        assert paid == ["another study"]
    else:
        assert tuple(cluster.turns(PARTY)) == expected.paid
    for other in (0, 2, 3):
        assert cluster.turns(other) == [0, 1, 2]
    if expected.log:
        assert any(expected.log in record.getMessage() for record in caplog.records)
    assert all(record.exc_info is None for record in caplog.records)
    assert all(record.getMessage().startswith("party-1:") for record in caplog.records)


@pytest.mark.parametrize("name", [name for name in faults.REFUSALS if name != "other-key"])
def test_the_wire_does_not_tell_why(tmp_path, monkeypatch, name):
    """Every refusal of a turn is the same packet, whatever its cause."""
    cluster = Cluster(descent(Trust.LOCAL), tmp_path)
    SCENARIOS[name](cluster, monkeypatch)
    responder = cluster.parties[PARTY]
    public = np.zeros(2, np.float32)
    replies = [
        wire.decode(
            responder.answer(cluster.request("ask", number, 0, public, counted=[-1] * 4))[
                HEAD_BYTES:
            ]
        )
        for number in range(3)
    ]
    refused = [reply for reply in replies if reply.tag == "dropout"]
    assert refused
    for reply in refused:
        assert (dict(reply.scalars), reply.arrays) == ({}, ())


def test_every_refusal_has_a_scenario():
    assert SCENARIOS.keys() == faults.REFUSALS.keys()


def test_a_stranger_to_the_roster_cannot_begin(tmp_path):
    cluster = Cluster(descent(), tmp_path)
    with pytest.raises(InvalidInput, match="not in the roster"):
        cluster.start(PARTY, identity=Identity.fresh("nobody"))
