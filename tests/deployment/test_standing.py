"""What holds when a process is asked to end, is started twice, or waits for nobody."""

import os
import signal
from types import SimpleNamespace

import pytest

from unisono.deployment import party, server
from unisono.deployment.server import Unhurried, _await_parties
from unisono.errors import InvalidInput

from .trial import ADDRESS, Trial, study_text


@pytest.fixture
def trial(tmp_path):
    return Trial(tmp_path, study_text())


def member(trial, name="north"):
    home = trial.folder / name
    seat = party.Seat(
        name, trial.study, trial.roster, home / "records.csv", trial.policy(name),
        home / "keys", trial.output(name),
    )  # fmt: skip
    return party.Member(seat, ADDRESS)


def test_a_party_takes_part_once_at_a_time(trial):
    first = member(trial)
    with pytest.raises(InvalidInput, match="north takes part in this study already"):
        member(trial)
    other = member(trial, "south")
    first._alone.close()  # its process ends
    again = member(trial)
    for one in (first, other, again):
        one.ledger.close()


def test_a_refused_second_process_leaves_no_trace(trial):
    first = member(trial)
    before = sorted(path for path in trial.folder.rglob("*"))
    with pytest.raises(InvalidInput):
        member(trial)
    assert sorted(path for path in trial.folder.rglob("*")) == before
    first.ledger.close()


def test_sigterm_lets_a_party_take_its_leave(trial, monkeypatch):
    resident = pytest.importorskip("unisono.engines.flower.resident", reason="needs flwr")
    before, left = signal.getsignal(signal.SIGTERM), []

    def serve(answer, address, *, stop, **options):
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.wait(5)
        left.append(address)

    monkeypatch.setattr(resident, "serve", serve)
    one = member(trial)
    with pytest.raises(SystemExit) as ended:
        party.serve(one, party.Connection(ADDRESS, None), patience=1.0, connected=print)
    assert ended.value.code == 128 + signal.SIGTERM
    assert left == [ADDRESS]
    assert signal.getsignal(signal.SIGTERM) is before
    one.ledger.close()


def test_without_parties_no_round_begins():
    said = []
    with pytest.raises(InvalidInput, match=r"1 parties are connected after 0\.6 s.* needs 2"):
        _await_parties(SimpleNamespace(nodes=lambda: [7]), 2, 0.6, said.append)
    assert said[0] == "waiting for parties: 1 of at least 2 are connected"
    _await_parties(SimpleNamespace(nodes=lambda: [7, 8]), 2, 0.0, said.append)


def test_after_failed_exchanges_the_server_takes_its_time(monkeypatch):
    """Longer each time, up to a limit; once answered, it hurries again."""
    slept, answering = [], {1, 2, 3}
    monkeypatch.setattr(server, "time", SimpleNamespace(sleep=slept.append))

    def exchange(requests, deadline):
        return {node: b"" for node in requests if node in answering}

    link = Unhurried(SimpleNamespace(nodes=lambda: [1, 2, 3], exchange=exchange), 3)

    def rests(asked=(1, 2, 3)):
        link.exchange(dict.fromkeys(asked, b""), 1.0)
        slept.clear()
        assert link.nodes() == link.nodes() == [1, 2, 3]
        return slept.copy()

    assert rests() == [0.0, 0.0]
    answering.remove(2)
    assert [rests()[0] for _ in range(6)] == [5.0, 10.0, 20.0, 40.0, 60.0, 60.0]
    assert rests() == [60.0, 0.0]  # once for each failure
    assert rests(asked=[2]) == [0.0, 0.0]  # a single greeting is no round
    answering.add(2)
    assert rests() == [0.0, 0.0]
    answering.remove(2)
    assert rests() == [5.0, 0.0]
