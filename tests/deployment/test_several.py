"""Several parties in one process: each with its own files, and none in another's way."""

import os
import signal
import subprocess
import sys
import threading

import pytest

from unisono.deployment import party, several
from unisono.errors import InvalidInput, UnisonoError

from .trial import ADDRESS, NAMES, Trial, study_text


@pytest.fixture
def trial(tmp_path):
    return Trial(tmp_path, study_text())


def seats(trial, *names):
    return [
        party.PartyConfig(
            name,
            trial.study,
            trial.roster,
            trial.folder / name / "records.csv",
            trial.policy(name),
            trial.folder / name / "keys",
            trial.output(name),
        )
        for name in names
    ]


def test_parties_share_what_all_hold_and_nothing_else(trial):
    made = several.members(seats(trial, *NAMES), ADDRESS)
    assert len({id(one.agreed) for one in made}) == 1
    for kind in ("ledger", "responder", "_lock", "_policy", "_records"):
        assert len({id(getattr(one, kind)) for one in made}) == len(NAMES), kind
    assert [one.ledger._journal.path for one in made] == [trial.ledger(name) for name in NAMES]
    identities = {one.responder._identity for one in made}
    assert {identity.name for identity in identities} == set(NAMES)
    for one in made:
        one.close()


def test_if_one_may_not_take_part_none_does_and_all_may_try_again(trial):
    allowed = trial.policy("west").read_text()
    trial.policy("west").write_text(allowed.replace('"secure-sum", ', ""))
    with pytest.raises(UnisonoError, match="secure-sum"):
        several.members(seats(trial, *NAMES), ADDRESS)
    trial.policy("west").write_text(allowed)
    for one in several.members(seats(trial, *NAMES), ADDRESS):
        one.close()
    assert not any(trial.charges(name) for name in NAMES)


def test_a_party_stands_once_in_a_process(trial):
    with pytest.raises(InvalidInput, match="a party stands twice in north, north"):
        several.members(seats(trial, "north", "north"), ADDRESS)


def test_what_stops_one_stops_none_of_the_others(trial, monkeypatch):
    def serve(member, server, *, stop, **options):
        if member.seat.name == "south":
            raise InvalidInput("refused")

    monkeypatch.setattr(several, "serve", serve)
    monkeypatch.setattr(party.Member, "finish", lambda self: {"of": self.seat.name})
    made = several.members(seats(trial, *NAMES), ADDRESS)
    found = several.join(made, party.Connection(ADDRESS, None), connect_timeout=1.0)
    assert {name: one for name, one in found.items() if name != "south"} == {
        "north": {"of": "north"},
        "west": {"of": "west"},
    }
    assert isinstance(found["south"], InvalidInput)
    for one in made:
        one.close()


def test_sigterm_ends_all_of_them(trial, monkeypatch):
    """Each answers what it has begun and takes its leave."""
    resident = pytest.importorskip("unisono.engines.flower.party_client", reason="needs flwr")
    here, left = threading.Barrier(len(NAMES) + 1), []

    def serve(answer, address, *, stop, **options):
        here.wait(60)
        assert stop.wait(60)
        left.append(address)

    def ask_to_end():
        here.wait(60)
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(resident, "serve", serve)
    before = signal.getsignal(signal.SIGTERM)
    made = several.members(seats(trial, *NAMES), ADDRESS)
    threading.Thread(target=ask_to_end).start()
    found = several.join(made, party.Connection(ADDRESS, None), connect_timeout=1.0)
    assert len(left) == len(NAMES)
    assert all(isinstance(one, SystemExit) for one in found.values())
    assert signal.getsignal(signal.SIGTERM) is before
    for one in made:
        one.close()


def test_a_party_loads_nothing_that_it_does_not_need():
    """Each of these takes tens of megabytes, in every process of a party."""
    code = (
        "import sys, unisono.deployment.party, unisono.deployment.several; "
        "print([name for name in ('sklearn', 'scipy.stats', 'matplotlib', 'pandas', 'pyarrow') "
        "if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
