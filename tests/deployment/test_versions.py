"""Who runs another version, or was told another result of an earlier stage, is refused in words."""

from dataclasses import replace

import numpy as np
import pytest

from unisono.deployment import party, server
from unisono.deployment.job import Job, agreement
from unisono.engines import wire
from unisono.engines.distributed.presence import Presence
from unisono.engines.distributed.server import Conditions
from unisono.engines.distributed.sessions import other_version
from unisono.errors import DishonestServer, InvalidInput, SumRefused
from unisono.secagg.session import PROTOCOL

from .test_stages import PRIVATE
from .test_standing import Network, member
from .trial import ADDRESS, NAMES, Trial, study_text

NEWER = "9.9.1"


@pytest.fixture
def trial(tmp_path, monkeypatch):
    monkeypatch.setattr("unisono.engines.distributed.server._RETURN", 0.0)
    found = Trial(tmp_path, study_text() + PRIVATE, epsilon=2000.0)
    Job.begin(found.job, found.study, found.roster, Conditions(5.0, 0.5))
    return found


def of_version(trial, monkeypatch, version=NEWER, protocol=PROTOCOL):
    """The session of the first stage, as another version has it."""
    [first, *_] = agreement(trial.study, trial.roster).sessions
    monkeypatch.setattr("unisono.secagg.session.PROTOCOL", protocol)
    for module in ("sessions", "presence"):
        monkeypatch.setattr(f"unisono.engines.distributed.{module}.PROTOCOL", protocol)
    return replace(first, version=version)


@pytest.mark.parametrize(("version", "protocol"), [(NEWER, PROTOCOL), ("0.2.0", PROTOCOL + 1)])
def test_another_version_is_refused_by_both_sides_before_anything_is_charged(
    trial, monkeypatch, version, protocol
):
    resident = pytest.importorskip("unisono.engines.flower.party_client", reason="needs flwr")
    one = member(trial)
    own, words = one.agreed.session.version, []
    with monkeypatch.context() as patch:
        session = of_version(trial, patch, version, protocol)
        greeting = []

        class Ear(Network):
            def exchange(self, requests, deadline):
                greeting.extend(requests.values())
                return {}

        Presence(Ear([one]), session, 1.0).meet()
    reply = one.answer(greeting[0])
    with monkeypatch.context() as patch:
        session = of_version(trial, patch, version, protocol)
        present = Presence(Network([one]), session, 1.0)
        present._note_version(reply)
        present._say_versions(words.append)
        present._say_versions(words.append)
    assert len(words) == 1
    for text in (own, f"protocol {PROTOCOL}", version, f"protocol {protocol}"):
        assert text in words[0]

    def serve(answer, address, *, stop, **options):
        answer(greeting[0])
        assert stop.is_set()

    monkeypatch.setattr(resident, "serve", serve)
    with pytest.raises(InvalidInput) as refused:
        party.serve(one, party.Connection(ADDRESS, None), connect_timeout=1.0, connected=print)
    lines = str(refused.value).splitlines()
    assert lines[0] == (
        f"The server runs Unisono {version} (protocol {protocol}), and this party Unisono {own} "
        f"(protocol {PROTOCOL})."
    )
    assert lines[-1] == "No privacy budget was spent."
    assert trial.charges("north") == []
    one.close()


def test_the_same_version_is_greeted(trial):
    """The control."""
    one = member(trial)
    present = Presence(Network([one]), one.agreed.sessions[0], 1.0)
    assert present.meet() == [0]
    one.close()


@pytest.mark.parametrize("version", ["\x1b[2J", "1\n2", "", "x" * 41, None, 7])
def test_what_a_stranger_calls_its_version_is_not_printed(trial, version):
    session = agreement(trial.study, trial.roster).sessions[0]
    shown = other_version(session, {"protocol": 2, "version": version})
    assert shown == "Unisono of an unknown version (protocol 2)"
    assert "(protocol unknown)" in other_version(session, {"version": "1", "protocol": "\n"})
    assert "unknown version" in other_version(session, {})


def test_a_version_makes_another_session_and_no_other_account(trial):
    """Whoever updates in the middle of a study is refused, and never charged for a turn again."""
    session = agreement(trial.study, trial.roster).sessions[0]
    newer = replace(session, version=NEWER)
    assert newer.id != session.id
    assert newer.account == session.account


def test_a_false_result_of_an_earlier_stage(trial, monkeypatch):
    """The server tells one party another model, and asks for the test of the true one: the party is
    in another session, names the reason and pays for nothing; the others are enough."""
    members = [member(trial, name) for name in NAMES]
    network, answer = Network(members), type(members[2]).answer

    def false(packet):
        arrays = packet.arrays
        if packet.tag == "finish":
            arrays = [(a + (a.dtype.kind == "f")).astype(a.dtype) for a in arrays]
        return wire.encode(packet.tag, packet.scalars, arrays)

    def deceived(self, data):
        packet = wire.decode(data)
        if self is members[2]:  # a result comes after the last sum, or alone
            parts = wire.unbundle(packet) if packet.tag == "bundle" else [packet]
            data = wire.bundle([false(part) for part in parts]) if parts[1:] else false(packet)
        reply = answer(self, data)
        if reason := self.objection(data):
            reasons.setdefault(self.seat.name, reason)
        return reply

    reasons = {}
    monkeypatch.setattr(type(members[2]), "answer", deceived)
    server.main(network, trial.job)
    assert "another result of an earlier stage" in reasons["west"]
    assert list(reasons) == ["west"]
    assert [len(trial.charges(name)) for name in NAMES] == [4, 4, 3]
    assert len({one._responders[0].result_hash for one in members}) == 2
    for one in members:
        one.close()


def test_a_party_that_is_asked_what_no_honest_server_asks_ends(trial, monkeypatch):
    resident = pytest.importorskip("unisono.engines.flower.party_client", reason="needs flwr")
    members = [member(trial, name) for name in NAMES]

    class Lying(Network):
        def exchange(self, requests, deadline):
            return super().exchange({n: self.changed(n, d) for n, d in requests.items()}, deadline)

        def changed(self, node, data):
            packet = wire.decode(data)
            parts = wire.unbundle(packet) if packet.tag == "bundle" else [packet]
            if node != 3 or parts[0].tag != "ask":
                return data
            lies.append(
                wire.encode("ask", parts[0].scalars, [nowhere(parts), *parts[0].arrays[1:]])
            )
            return lies[-1]

    def nowhere(parts):
        return np.full_like(parts[0].arrays[0], np.nan)

    def serve(answer, address, *, stop, **options):
        answer(lies[0])
        assert stop.is_set()

    lies = []
    server.main(Lying(members), trial.job)
    monkeypatch.setattr(resident, "serve", serve)
    with pytest.raises(
        DishonestServer, match=r"(?s)not finite.*No privacy budget was spent"
    ) as told:
        party.serve(
            members[2], party.Connection(ADDRESS, None), connect_timeout=1.0, connected=print
        )
    assert told.value.exit_code == 4
    assert [len(trial.charges(name)) for name in NAMES] == [4, 4, 0]
    for one in members:
        one.close()


def test_a_party_that_refuses_a_sum_ends(trial, monkeypatch):
    """It would answer nothing more: whoever started it is told why, and need not look at a log."""
    resident = pytest.importorskip("unisono.engines.flower.party_client", reason="needs flwr")
    one = member(trial)
    said = {"session": one.responder.session.id.hex(), "round": 0}
    total = np.full(np.size(one.responder._limits.study.algorithm.terms.low), 2**31 - 1, np.int32)
    false = wire.encode("sum", said, [total, np.arange(3, dtype=np.int32)])

    def serve(answer, address, *, stop, **options):
        answer(false)
        assert stop.is_set()

    monkeypatch.setattr(resident, "serve", serve)
    with pytest.raises(SumRefused, match="the sum of 3 parties is refused"):
        party.serve(one, party.Connection(ADDRESS, None), connect_timeout=1.0, connected=print)
    one.close()


def test_the_session_of_a_stage_covers_the_results_before_it(trial):
    """The hash of the study does not change with them; sessions do, and accounts do not."""
    agreed = agreement(trial.study, trial.roster)
    one, other = (agreed.session_at([digest * 32]) for digest in ("00", "01"))
    assert len({one.id, other.id, agreed.sessions[1].id}) == 3
    assert one.account == other.account == agreed.sessions[1].account
    assert agreed.session_at([]) == agreed.sessions[0]
