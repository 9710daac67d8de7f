"""A study on one machine as between many: a server and one process for each party.

Keys, roster and certificates are made in the folder, and for a party that brings no policy one that
allows exactly this study. Its ledger lies beside its records, as always. Everything runs over TLS
with node keys, as it would between hospitals.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

from unisono.accounting.accountant import ACCOUNTANT
from unisono.core.ledger import Ledger
from unisono.core.outlook import Outlook, outlook
from unisono.core.policy import Budget
from unisono.deployment.coordinate import ServerPlace, authority_of, run, serving
from unisono.deployment.files import folder_for
from unisono.deployment.job import Job, Progress
from unisono.deployment.parties_here import (
    Ask,
    agreed_budget,
    explained,
    policy_for,
    refuse,
    was_made,
)
from unisono.deployment.public_test import public_test, require_public
from unisono.engines.distributed.server import Conditions
from unisono.errors import InvalidInput
from unisono.runs.folder import ROSTER, write
from unisono.studies.build import Built, build
from unisono.studies.data_set import data_set, require_apart
from unisono.studies.file import load_study
from unisono.studies.keys import keygen
from unisono.studies.policy import require_allowed
from unisono.studies.policy_file import PolicyFile
from unisono.studies.roster import make_roster
from unisono.studies.schema import StudyFile

_LEAVE = 20.0  # seconds for parties to write their results once the study is over
_HOST = "127.0.0.1"


def run_local(
    study: Path,
    data: Mapping[str, Path],
    folder: Path,
    follow: Callable[[Progress], None],
    conditions: Conditions,
    recorded: Callable[[], AbstractContextManager[Any]] = nullcontext,
    budget: Budget | None = None,
    ask: Ask = refuse,
    say: Callable[[Mapping[str, Outlook]], None] = lambda outlooks: None,
) -> dict[str, Any]:
    """Run the study with all its parties on this machine; returns what came out.

    `recorded` is entered while the server runs, and told how it ended. `budget` is for parties that
    have none, or `ask` says it; `say` is told what the study takes before anything is spent.
    """
    file = load_study(study)
    built = build(file)
    require_apart({name: data[name] for name in file.names})
    for name in file.names:  # here rather than in a party's log
        built.columns(built.table(data[name]), name)
    require_public(public_test(file, study), data)
    sets = {name: data_set(data[name]) for name in file.names}
    budget = agreed_budget(built, sets, None, budget, ask)
    policies = {
        name: policy_for(built, own, name, None, False, budget) for name, own in sets.items()
    }
    for name, policy in policies.items():
        with explained(policy):
            require_allowed(policy, file, built.study, name, built.costs)
    say(_outlooks(built, policies))
    folder_for(folder)
    roster = folder / ROSTER
    if not roster.exists():
        make_roster([keygen(folder / name, name) for name in file.names], roster)
    places = {name: _kept(policy, folder / name) for name, policy in policies.items()}
    job = Job.begin(folder / "server", study, roster, conditions)
    place = ServerPlace(_HOST, _port(file), (_HOST, "localhost"))
    with serving(job, place) as link, recorded() as record:
        commands = [
            [
                *(sys.executable, "-m", "unisono", "join", str(study)),
                *("--name", name, "--data", str(data[name]), "--roster", str(roster)),
                *("--policy", str(places[name]), "--keys", str(folder / name)),
                *("--server", link.address, "--ca-cert", str(authority_of(job))),
                *("--output", str(folder / name / "output")),
            ]
            for name in file.names
        ]
        logs = [folder / name / "join.log" for name in file.names]
        with _processes(commands, logs) as parties:

            def watch(progress: Progress) -> None:
                follow(progress)
                _require_enough(parties, logs, built.study.facts.minimum_parties)

            shown = run(job, link, watch)
            _wait(parties)
        if record is not None:
            record.end(shown.get("failed"))
    return shown


def _kept(policy: PolicyFile, home: Path) -> Path:
    """Where the party reads its policy: its own file, or the one that was made."""
    if not was_made(policy):
        return Path(policy.source.path)
    write(home / "policy.toml", policy.source.text.encode())
    return home / "policy.toml"


def _outlooks(built: Built, policies: Mapping[str, PolicyFile]) -> dict[str, Outlook]:
    """What the study takes of each party's budget; no ledger is begun."""
    found = {}
    for name, policy in policies.items():
        kept = policy.ledger_path.exists()
        book = policy.open_ledger() if kept else Ledger.in_memory(policy.core_policy(), ACCOUNTANT)
        own = outlook(book, built.costs[built.file.party(name)])
        book.close()
        if own is not None:
            found[name] = own
    return found


def _port(file: StudyFile) -> int | None:
    """The study's own port, where it names one: policies may allow no other."""
    return None if file.server is None else int(file.server.address.rpartition(":")[2])


@contextmanager
def _processes(
    commands: Sequence[Sequence[str]], logs: Sequence[Path]
) -> Iterator[list[subprocess.Popen[bytes]]]:
    """One process for each party, all gone at the end."""
    started: list[subprocess.Popen[bytes]] = []
    try:
        for command, log in zip(commands, logs, strict=True):
            with log.open("wb") as output:
                started.append(
                    subprocess.Popen(
                        list(command),
                        stdin=subprocess.DEVNULL,
                        stdout=output,
                        stderr=subprocess.STDOUT,
                    )
                )
        yield started
    finally:
        for process in started:
            process.terminate()
        for process in started:
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _require_enough(
    parties: Sequence[subprocess.Popen[bytes]], logs: Sequence[Path], needed: int
) -> None:
    """Nobody waits for a study that can no longer be done; the party's own words say why."""
    gone = [log for party, log in zip(parties, logs, strict=True) if party.poll()]
    if len(parties) - len(gone) < needed:
        words = "".join(f"\n{log}: {_last_line(log)}" for log in gone)
        raise InvalidInput(f"{len(parties) - len(gone)} parties are left of {needed}:{words}")


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return lines[-1] if lines else "(it said nothing)"


def _wait(parties: Sequence[subprocess.Popen[bytes]]) -> None:
    ends = time.monotonic() + _LEAVE
    while any(party.poll() is None for party in parties) and time.monotonic() < ends:
        time.sleep(0.1)
