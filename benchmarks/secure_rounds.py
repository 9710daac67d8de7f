"""Seconds and bytes per round of a whole study over Flower, with and without the secure sum.

    python benchmarks/secure_rounds.py [--quick]

Three resident parties in processes of their own, TLS and node authentication, gradients of 1e5
floats: keys, shares, noise, masks, signatures, ledgers and all. The first round, which compiles,
is left out.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

import figures
from unisono.accounting.accountant import ACCOUNTANT
from unisono.algorithms.gradient_perturbation import GRADIENT_PERTURBATION
from unisono.core.algorithm import Facts
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.privacy import Privacy
from unisono.core.study import Party, Study
from unisono.core.trust import Trust
from unisono.core.values import Private
from unisono.engines.distributed.link import Link
from unisono.engines.distributed.party import Responder
from unisono.engines.distributed.server import Conditions, coordinate
from unisono.engines.distributed.sessions import session_of
from unisono.engines.flower.app import server_app, write_app
from unisono.engines.flower.certificates import (
    generate_node_keys,
    issue,
    load_node_keys,
    public_path,
)
from unisono.engines.flower.cluster import SuperLink
from unisono.engines.flower.party_client import serve
from unisono.problems.linear import LinearLoss
from unisono.secagg.roster import Identity, Roster

PARTIES, FEATURES, RECORDS = 3, 100_000, 4
AIMS = {"local": 0.8, "secure-sum": 0.8}
PEOPLE = [Identity(f"party-{i}", bytes([i + 1]) * 32) for i in range(PARTIES)]
ROSTER = Roster(tuple(p.name for p in PEOPLE), tuple(p.public for p in PEOPLE))


def study(trust: str, rounds: int) -> Study:
    method = GRADIENT_PERTURBATION.method(LinearLoss(), Privacy(2.0, 1e-6), rounds=rounds)
    facts = Facts((RECORDS,) * PARTIES, FEATURES, PARTIES - 1)
    return Study(method, facts, Trust(trust))


def measure(link: Link, job: Path) -> None:
    """The server's part: when each round was done, and how many bytes went."""
    order = json.loads((job / "order.json").read_text())
    agreed = study(**order)
    done: list[float] = []
    outcome = coordinate(
        agreed,
        link,
        session_of(agreed, ROSTER),
        conditions=Conditions(60.0, 120.0),
        progress=lambda number: done.append(time.perf_counter()),
    )
    found = {"seconds": np.diff(done).tolist(), "opened": outcome.opened, **outcome.traffic}
    (job / "seconds.json").write_text(json.dumps(found))


server = server_app(measure)


def resident(number: str, trust: str, rounds: str, address: str, key: str, authority: str) -> None:
    """One party, in a process of its own."""
    agreed, index = study(trust, int(rounds)), int(number)
    generator = np.random.default_rng(index)
    rows = generator.normal(size=(RECORDS, FEATURES)) / FEATURES**0.5
    ledger = Ledger.in_memory(Policy(PEOPLE[index].name, Budget(3.0, 1e-6)), ACCOUNTANT)
    party = Party(PEOPLE[index].name, Private((rows, np.sign(rows[:, 0]))), ledger)
    responder = Responder(agreed, party, PEOPLE[index], session_of(agreed, ROSTER))
    stop = threading.Event()

    def answer(data: bytes) -> bytes:
        reply = responder.answer(data)
        if responder.finished:
            stop.set()
        return reply

    serve(
        answer,
        address,
        root_certificates=Path(authority).read_bytes(),
        keys=load_node_keys(Path(key)),
        stop=stop,
    )


def run(folder: Path, trust: str, rounds: int) -> dict[str, object]:
    here = str(Path(__file__).parent)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))
    tls = issue(folder / "tls", ["127.0.0.1"])
    keys = [folder / f"party{index}" for index in range(PARTIES)]
    for key in keys:
        generate_node_keys(key)
    job = folder / "job"
    app = write_app(folder / "app", f"{Path(__file__).stem}:server", job)
    (job / "order.json").write_text(json.dumps({"trust": trust, "rounds": rounds}))
    with SuperLink(folder, tls=tls) as superlink:
        superlink.register(*map(public_path, keys))
        own = [trust, str(rounds), superlink.address]
        command = [sys.executable, __file__, "--resident"]
        parties = [
            subprocess.Popen([*command, str(index), *own, str(key), str(tls.authority)])
            for index, key in enumerate(keys)
        ]
        try:
            superlink.submit(app).wait(900)
        finally:
            for party in parties:
                party.terminate()
            for party in parties:
                party.wait()
    return dict(json.loads((job / "seconds.json").read_text()))


def smoke() -> dict[str, float]:
    """What the parties agree on before the first round: the studies and their noise; no server."""
    began = time.perf_counter()
    agreed = {trust: study(trust, 2) for trust in AIMS}
    noise = {
        f"noise, {trust}": own.algorithm.event(own.facts, own.trust).noise.std
        for trust, own in agreed.items()
    }
    return {"seconds": time.perf_counter() - began, **noise}


if __name__ == "__main__":
    if sys.argv[1:2] == ["--resident"]:
        resident(*sys.argv[2:])
        raise SystemExit(0)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="five rounds in place of twelve")
    rounds = 5 if figures.options(parser, smoke).quick else 12
    print(f"{PARTIES} parties, {FEATURES} floats, load {os.getloadavg()[0]:.1f}")
    print(
        f"{'trust':12s}{'minimum':>9s}{'median':>9s}  seconds a round"
        f"{'sent':>12s}{'received':>10s}  kB per party and round"
    )
    for trust, aim in AIMS.items():
        with tempfile.TemporaryDirectory() as temporary:
            found = run(Path(temporary), trust, rounds)
        seconds = found["seconds"]
        traffic = [found[kind] / PARTIES / rounds / 1e3 for kind in ("sent", "received")]
        middle = statistics.median(seconds)
        print(
            f"{trust:12s}{min(seconds):9.2f}{middle:9.2f}{'':17s}{traffic[0]:12.0f}"
            f"{traffic[1]:10.0f}{'':25s}aim {aim:g} s: "
            f"{'reached' if middle <= aim else 'MISSED'}"
        )
        figures.report(f"a round over Flower, {trust}", middle, "s", aim=aim, lower=True)
