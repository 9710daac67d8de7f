"""What holds when a process is asked to end, is started twice, or waits for nobody."""

import contextlib
import json
import os
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from unisono.cli import app
from unisono.deployment import party, server
from unisono.deployment.job import Job
from unisono.deployment.record import RunLog
from unisono.deployment.server import Unhurried, _await_parties
from unisono.engines.distributed.server import Conditions
from unisono.errors import InvalidInput

from .trial import ADDRESS, NAMES, Trial, study_text


@pytest.fixture
def trial(tmp_path):
    return Trial(tmp_path, study_text())


def member(trial, name="north"):
    home = trial.folder / name
    seat = party.PartyConfig(
        name,
        trial.study,
        trial.roster,
        home / "records.csv",
        trial.policy(name),
        home / "keys",
        trial.output(name),
    )
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
    resident = pytest.importorskip("unisono.engines.flower.party_client", reason="needs flwr")
    before, left = signal.getsignal(signal.SIGTERM), []

    def serve(answer, address, *, stop, **options):
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.wait(60)
        left.append(address)

    monkeypatch.setattr(resident, "serve", serve)
    one = member(trial)
    with pytest.raises(SystemExit) as ended:
        party.serve(one, party.Connection(ADDRESS, None), connect_timeout=1.0, connected=print)
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


class Network:
    """Members of one process at nodes 1, 2, ...; those who are away neither hear nor answer."""

    def __init__(self, members):
        self.members, self.away = members, set()

    def nodes(self):
        return [n for n, one in enumerate(self.members, 1) if one.seat.name not in self.away]

    def exchange(self, requests, deadline):
        here = set(self.nodes())
        return {
            node: self.members[node - 1].answer(data)
            for node, data in requests.items()
            if node in here
        }


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_a_party_that_is_offline_at_the_end_fetches_its_result_later(trial, monkeypatch):
    """The same folder, once more: nothing is asked or paid, and what came out stays as it is."""
    monkeypatch.setattr("unisono.engines.distributed.server._RETURN", 0.0)
    job = Job.begin(trial.job, trial.study, trial.roster, Conditions(5.0, 5.0))
    members = [member(trial, name) for name in NAMES]
    network, step = Network(members), RunLog.step

    def absent(diary, done, *rest, **options):
        step(diary, done, *rest, **options)
        if done == 3:
            network.away = {"west"}

    with monkeypatch.context() as patch:
        patch.setattr(RunLog, "step", absent)
        server.main(network, trial.job)
    assert job.finished
    assert job.uninformed(NAMES) == ["west"]
    assert [one.responder.finished for one in members] == [True, True, False]
    shown = members[0].finish()
    before, turns = files(trial.job), [trial.turns(name) for name in NAMES]

    members[2].close()
    again = member(trial, "west")  # the same command, in another process
    network.members, network.away = [*members[:2], again], {"north", "south"}
    server.main(network, trial.job)
    assert job.uninformed(NAMES) == []
    assert again.finish() == shown
    assert (trial.output("west") / "certificate.json").exists()
    assert [trial.turns(name) for name in NAMES] == turns
    after = files(trial.job)
    assert {n for n in after if after[n] != before.get(n)} <= {"informed.json", "progress.json"}
    for one in (*members[:2], again):
        one.close()


def test_a_party_that_is_killed_after_the_last_word_has_its_result(trial, monkeypatch):
    """The server believes that it holds it, and hands out nothing more."""
    resident = pytest.importorskip("unisono.engines.flower.party_client", reason="needs flwr")
    monkeypatch.setattr("unisono.engines.distributed.server._RETURN", 0.0)
    job = Job.begin(trial.job, trial.study, trial.roster, Conditions(5.0, 5.0))
    members = [member(trial, name) for name in NAMES]
    server.main(Network(members), trial.job)
    assert job.uninformed(NAMES) == []
    shown, turns = members[0].finish(), trial.turns("west")
    members[2].close()  # its process is killed before it has written anything

    def nobody_answers(*arguments, **options):
        raise AssertionError("it asks the server, which has nothing more to say")

    monkeypatch.setattr(resident, "serve", nobody_answers)
    again = member(trial, "west")
    party.serve(again, party.Connection(ADDRESS, None), connect_timeout=1.0, connected=print)
    assert again.finish() == shown
    assert trial.turns("west") == turns
    left = {path.suffix for path in trial.ledger("west").parent.iterdir()}
    assert left.isdisjoint({".told", ".lock", ".memory"})
    for one in (*members[:2], again):
        one.close()


def test_a_party_without_room_for_the_result_is_told_again(trial, monkeypatch):
    monkeypatch.setattr("unisono.engines.distributed.server._RETURN", 0.0)
    job = Job.begin(trial.job, trial.study, trial.roster, Conditions(5.0, 5.0))
    members = [member(trial, name) for name in NAMES]

    def full(message):
        raise OSError(28, "No space left on device")

    keep, members[2].responder._keep = members[2].responder._keep, full
    server.main(Network(members), trial.job)
    assert job.uninformed(NAMES) == ["west"]
    assert not members[2].responder.finished
    members[2].responder._keep = keep
    server.main(Network(members), trial.job)
    assert job.uninformed(NAMES) == []
    assert members[2].finish() == members[0].finish()
    for one in members:
        one.close()


def test_what_was_kept_is_believed_no_more_than_the_server(trial):
    """A damaged file, or one that nobody signed, is no result."""
    one = member(trial)
    for content in (b"", b"UNIS", bytes(100)):
        one._private(one.agreed.session, "told").write_bytes(content)
        assert not one.recall()
    one.close()


@pytest.mark.parametrize("where", ["result", "certificate", "cleaning up", "report"])
def test_a_party_that_is_killed_between_result_and_report_gets_both(trial, monkeypatch, where):
    """The same command, wherever it was killed; the server is not asked for anything again."""
    resident = pytest.importorskip("unisono.engines.flower.party_client", reason="needs flwr")
    monkeypatch.setattr("unisono.engines.distributed.server._RETURN", 0.0)
    Job.begin(trial.job, trial.study, trial.roster, Conditions(5.0, 5.0))
    members = [member(trial, name) for name in NAMES]
    server.main(Network(members), trial.job)
    shown, turns = members[0].finish(), trial.turns("west")

    class Killed(BaseException):
        pass

    def killed(*arguments, **options):
        raise Killed

    unlink, output = Path.unlink, trial.output("west")

    def killed_after_one(path, *arguments, **options):
        unlink(path, *arguments, **options)
        raise Killed

    members[2].prepare()
    with monkeypatch.context() as patch:
        if where == "result":
            patch.setattr(party, "warn_of_clipping", killed)
        elif where == "certificate":
            patch.setattr("unisono.deployment.files.RESULT", SimpleNamespace(write=killed))
        elif where == "cleaning up":
            patch.setattr(Path, "unlink", killed_after_one)
        with contextlib.suppress(Killed):
            members[2].finish()
    members[2].close()
    assert not (output / "report.html").exists()

    def nobody_answers(*arguments, **options):
        raise AssertionError("it asks the server, which has nothing more to say")

    monkeypatch.setattr(resident, "serve", nobody_answers)
    done = CliRunner().invoke(app, [*trial.join("west", "--insecure"), "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["result"] == shown
    assert "Three hospitals" in (output / "report.html").read_text()
    assert json.loads((output / "run.json").read_text())["state"] == "finished"
    assert trial.turns("west") == turns
    left = {path.suffix for path in trial.ledger("west").parent.iterdir()}
    assert left.isdisjoint({".told", ".lock", ".memory", ".order"})
    again = CliRunner().invoke(app, trial.join("west", "--insecure"))
    assert again.exit_code == 2  # it is over
    assert "it runs once" in " ".join(again.stderr.split())
    for one in members[:2]:
        one.close()
