"""How a study grows with its parties: seconds, requests, memory and traffic of each round.

    python benchmarks/many_parties.py [--parties 30 100] [--rounds 20] [--processes 2] [--smoke]

A real coordinator (TLS, front door, SuperLink, the server's part in a process of its own) and
resident parties on this machine, in a secure-sum study from keys to certificates. Parties share
processes (`unisono.deployment.several`), each with its own keys, ledger, policy and folder; with
`--processes` as many as parties, each has one of its own.

    seconds a round     from one round's end to the next, as the server wrote them down
    requests            what the parties and the server's part asked of the SuperLink, each round
    memory of a party   proportional set size of all processes of parties, less that of the first
                        party alone, divided by the others
    server              proportional set size of the SuperLink and of the server's part, at the end
    traffic             bytes of messages that the server sent and received

The study must finish, every party must hold the result and its certificate, and nobody may have
paid for more turns than there were rounds and retries.
"""

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import figures

SCORECARD = figures.Benchmark(quick=("--smoke",), seconds=3600)

RECORDS, COLUMNS, RETRIES = 40, 10, 3
AIM_SECONDS = {30: 5.0, 100: 15.0}
AIM_MEGABYTES = 150.0
LIMIT = 3600.0  # seconds for a whole study
STUDY = """\
title = "Many parties"

[data]
target = "label"

[data.columns]
{columns}
label = {{ kind = "category", values = ["no", "yes"] }}
{parties}
[privacy]
epsilon = 4.0
delta = 1e-5

[trust]
mode = "secure-sum"
minimum_parties = {survivors}
colluders = 1
retries = {retries}

[model]
name = "logistic-regression"

[algorithm]
name = "gradient-perturbation"
rounds = {rounds}
"""
POLICY = """\
[dataset]
name = "{name}"
ledger = "records.ledger"

[budget]
epsilon = 20.0
delta = 1e-5

[allow]
maximum_epsilon = 20.0
maximum_delta = 1e-5
minimum_parties = 2
maximum_retries = {retries}
trust = ["secure-sum"]
"""
SMOKE_SERVES = True  # a smoke run starts a server and parties: half a minute


def names_of(parties: int) -> list[str]:
    return [f"party-{number:03d}" for number in range(parties)]


def write_files(folder: Path, parties: int, rounds: int) -> None:
    """What every party and the coordinator hold before the study."""
    import numpy as np

    from unisono.studies.keys import keygen
    from unisono.studies.roster import make_roster

    names, columns = names_of(parties), [f"x{number}" for number in range(COLUMNS)]
    text = STUDY.format(
        columns="\n".join(f'{c} = {{ kind = "number", bounds = [-3, 3] }}' for c in columns),
        parties="".join(f'\n[[parties]]\nname = "{n}"\nrecords = {RECORDS}\n' for n in names),
        survivors=-(-3 * parties // 4),
        retries=RETRIES,
        rounds=rounds,
    )
    (folder / "study.toml").write_text(text)
    for number, name in enumerate(names):
        home, generator = folder / name, np.random.default_rng(number)
        home.mkdir()
        rows = np.clip(generator.normal(size=(RECORDS, COLUMNS)), -3, 3)
        with (home / "records.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([*columns, "label"])
            writer.writerows([*map("{:.6f}".format, r), "yes" if r[0] > 0 else "no"] for r in rows)
        (home / "policy.toml").write_text(POLICY.format(name=name, retries=RETRIES))
    make_roster([keygen(folder / name / "keys", name) for name in names], folder / "roster.toml")


# ------------------------------------------------------------- what is measured in a process


class Requests:
    """Counts what a process asks over HTTP."""

    def __init__(self) -> None:
        import httpx

        self.count, lock, send = 0, threading.Lock(), httpx.Client.send

        def counted(client: httpx.Client, request: httpx.Request, **options: Any) -> Any:
            with lock:
                self.count += 1
            return send(client, request, **options)

        httpx.Client.send = counted  # type: ignore[method-assign, assignment]


def megabytes(process: int) -> float:
    """Proportional set size: memory that processes share counts in equal parts."""
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def host(folder: str, address: str, authority: str, mark: str, *names: str) -> None:
    """A process of several parties; writes down what it measured."""
    import logging

    from unisono.deployment import party, several

    logging.basicConfig(level=logging.WARNING)
    home, requests = Path(folder), Requests()
    seats = [
        party.PartyConfig(
            name,
            home / "study.toml",
            home / "roster.toml",
            home / name / "records.csv",
            home / name / "policy.toml",
            home / name / "keys",
            home / name / "output",
        )
        for name in names
    ]
    members = several.members(seats, address)
    members[0].prepare()
    first = megabytes(os.getpid())
    for member in members[1:]:
        member.prepare()
    connection = party.connection(address, Path(authority), insecure=False)
    found = several.join(members, connection, connect_timeout=600.0)
    spent = os.times()
    measured = {
        "first": first,
        "all": megabytes(os.getpid()),
        "parties": len(names),
        "requests": requests.count,
        "cpu": spent.user + spent.system,
        "failed": {n: repr(one) for n, one in found.items() if not isinstance(one, dict)},
    }
    (home / f"host-{mark}.json").write_text(json.dumps(measured))


def serve_and_measure(link: Any, job: Path) -> None:
    """The server's part, as always, and what it asked and needed."""
    from unisono.deployment.server import main

    requests = Requests()
    main(link, job)
    spent = os.times()
    measured = {
        "requests": requests.count,
        "memory": megabytes(os.getpid()),
        "cpu": spent.user + spent.system,
    }
    (job / "measured.json").write_text(json.dumps(measured))


def __getattr__(name: str) -> Any:
    """`server` is made when Flower asks for it: --help works without Flower."""
    if name != "server":
        raise AttributeError(name)
    from unisono.engines.flower.app import server_app

    return server_app(serve_and_measure)


# ------------------------------------------------------------- one study


def run(folder: Path, parties: int, rounds: int, processes: int) -> dict[str, Any]:
    """One study of so many parties; what was measured in it."""
    from unisono.deployment.coordinate import ServerPlace, authority_of, serving
    from unisono.deployment.job import Job
    from unisono.engines.distributed.server import Conditions
    from unisono.engines.flower.app import write_app

    write_files(folder, parties, rounds)
    here = str(Path(__file__).parent)
    path = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))
    os.environ["PYTHONPATH"] = path
    study, roster = folder / "study.toml", folder / "roster.toml"
    job = Job.begin(folder / "server", study, roster, Conditions(120.0, 600.0))
    names = names_of(parties)
    shares = [names[number::processes] for number in range(min(processes, parties))]
    started: list[subprocess.Popen[bytes]] = []
    began = time.monotonic()
    with serving(job, ServerPlace("127.0.0.1", None, ("127.0.0.1",))) as link:
        given = [str(folder), link.address, str(authority_of(job))]
        command = [sys.executable, __file__, "--host", *given]
        try:
            for number, share in enumerate(shares):
                started.append(subprocess.Popen([*command, str(number), *share]))
            app = write_app(folder / "app", f"{Path(__file__).stem}:server", job.folder.resolve())
            link.submit(app).wait(LIMIT)
            for process in started:
                process.wait(120)
            assert link._process is not None
            superlink = link._process.pid
            server_memory = megabytes(superlink)
            spent = _cpu(superlink)
        finally:
            for process in started:
                process.terminate()
            for process in started:
                process.wait()
    took = time.monotonic() - began
    _require_finished(folder, names, rounds)
    hosts = [json.loads((folder / f"host-{n}.json").read_text()) for n in range(len(shares))]
    app_part = json.loads((job.folder / "measured.json").read_text())
    traffic = json.loads((job.folder / "traffic.json").read_text())
    asked = sum(one["requests"] for one in hosts)
    first = hosts[0]["first"]
    return {
        "parties": parties,
        "rounds": rounds,
        "seconds": _seconds(job.folder / "timeline.jsonl"),
        "took": took,
        "retries": traffic["retries"],
        "requests": (asked + app_part["requests"]) / rounds,
        "requests_of_parties": asked / rounds,
        "party": (sum(one["all"] for one in hosts) - first) / max(parties - 1, 1),
        "first": first,
        "superlink": server_memory,
        "server_part": app_part["memory"],
        "sent": traffic["bytes"]["sent"] / rounds,
        "received": traffic["bytes"]["received"] / rounds,
        "cpu": {
            "superlink": spent / rounds,
            "server's part": app_part["cpu"] / rounds,
            "parties": sum(one["cpu"] for one in hosts) / rounds,
        },
    }


def _cpu(process: int) -> float:
    """Seconds of processor time of a running process."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _seconds(timeline: Path) -> list[float]:
    """Of each round but the first, which also waits for the parties."""
    lines = [json.loads(line) for line in timeline.read_text().splitlines()]
    ends = [datetime.fromisoformat(line["time"]).timestamp() for line in lines]
    return [later - earlier for earlier, later in pairwise(ends)]


def _require_finished(folder: Path, names: Sequence[str], rounds: int) -> None:
    from unisono.core import journal

    shown = json.loads((folder / "server" / "result.json").read_text())
    assert shown["rounds_opened"] == rounds, shown
    for name in names:
        output = folder / name / "output"
        assert json.loads((output / "result.json").read_text()) == shown, name
        assert (output / "certificate.json").exists(), name
        lines, _ = journal.read(folder / name / "records.ledger")
        turns = [line["purpose"] for line in lines if line["kind"] == "grant"]
        assert len(turns) == len(set(turns)) <= rounds + RETRIES, (name, turns)


def report(found: dict[str, Any]) -> None:
    parties, seconds = found["parties"], found["seconds"] or [found["took"]]
    middle, worst = statistics.median(seconds), max(seconds)
    print(
        f"{parties} parties, {found['rounds']} rounds in {found['took']:.0f} s, "
        f"{found['retries']} retries: finished"
    )
    print(f"  seconds a round       {middle:8.2f} median {worst:8.2f} longest")
    print(
        f"  requests a round      {found['requests']:8.0f}, "
        f"{found['requests_of_parties'] / parties:.1f} of each party"
    )
    print(
        f"  memory of a party     {found['party']:8.1f} MB beyond the first, whose process has "
        f"{found['first']:.0f} MB"
    )
    print(
        f"  memory of the server  {found['superlink']:8.0f} MB SuperLink "
        f"{found['server_part']:6.0f} MB server's part"
    )
    print(
        f"  traffic a round       {found['sent'] / 1e3:8.0f} kB sent "
        f"{found['received'] / 1e3:8.0f} kB received"
    )
    spent = ", ".join(f"{who} {seconds:.2f}" for who, seconds in found["cpu"].items())
    print(f"  processor, s a round  {spent} (starting up included)")
    figures.report(
        f"a round of {parties} parties",
        middle,
        "s",
        aim=AIM_SECONDS.get(parties),
        lower=True,
    )
    figures.report(
        f"memory of a party among {parties}", found["party"], "MB", aim=AIM_MEGABYTES, lower=True
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--parties", type=int, nargs="+", default=[30, 100])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--processes", type=int, default=2, help="that parties share")
    parser.add_argument("--smoke", action="store_true", help="five parties, three rounds")
    parser.add_argument("--json", type=Path, help="where figures go, as JSON")
    arguments = parser.parse_args()
    sizes, rounds = ([5], 3) if arguments.smoke else (arguments.parties, arguments.rounds)
    print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}", flush=True)
    everything = []
    for parties in sizes:
        with tempfile.TemporaryDirectory() as temporary:
            everything.append(run(Path(temporary), parties, rounds, arguments.processes))
        report(everything[-1])
        sys.stdout.flush()
    if arguments.smoke:
        figures.smoked({"parties": sizes[0], "rounds": rounds})
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(everything, indent=1))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--host"]:
        host(*sys.argv[2:])
    else:
        main()
