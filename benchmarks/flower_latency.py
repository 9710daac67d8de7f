"""Seconds per exchange over Flower: resident parties against stock SuperNodes.

    python benchmarks/flower_latency.py [--quick]

One SuperLink with TLS and node authentication on this machine, three resident parties and three
stock SuperNodes on it, one run that asks the two kinds in turn: 1e5 float32 to each party and
the same back. Everybody echoes, so what is timed is the transport. The stock nodes run the
smallest app there is (Flower alone, nothing of unisono), with Flower's default settings, and are
asked through the same link as the residents: Flower's own `send_and_receive` would add up to 3 s.
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
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import figures
from unisono.engines.flower.app import server_app, write_app
from unisono.engines.flower.certificates import (
    generate_node_keys,
    issue,
    load_node_keys,
    public_path,
)
from unisono.engines.flower.cluster import SuperLink
from unisono.engines.flower.link import GridLink
from unisono.engines.flower.party_client import serve
from unisono.engines.flower.processes import free_port, script
from unisono.engines.flower.runs import ServerFailed

PARTIES, VALUES = 3, 100_000
DEADLINE = 60.0
AIM_SECONDS, AIM_RATIO = 1.0, 5.0
STOCK = """
from flwr.app import Message
from flwr.clientapp import ClientApp

app = ClientApp()


@app.query("unisono")
def echo(message, context):
    return Message(message.content, reply_to=message)
"""


def measure(link: GridLink, job: Path) -> None:
    """The server's part: alternates between the kinds, and writes the seconds to the job folder."""
    order = json.loads((job / "order.json").read_text())
    limit = time.monotonic() + DEADLINE
    while len(nodes := link.nodes()) < 2 * PARTIES:
        if time.monotonic() > limit:
            raise TimeoutError(f"{len(nodes)} of {2 * PARTIES} nodes came in {DEADLINE:.0f} s")
        time.sleep(0.1)
    residents = [node for node in nodes if node in order["residents"]]
    kinds = {"resident": residents, "stock": [n for n in nodes if n not in residents]}
    generator = np.random.default_rng(0)
    seconds: dict[str, list[float]] = {kind: [] for kind in kinds}
    for _ in range(order["rounds"]):
        for kind, times in (("resident", order["times"]), ("stock", 1)):
            for _ in range(times):
                data = {n: generator.random(VALUES, np.float32).tobytes() for n in kinds[kind]}
                started = time.perf_counter()
                replies = link.exchange(data, DEADLINE)
                seconds[kind].append(time.perf_counter() - started)
                assert replies == data, f"{kind}: {len(replies)} of {PARTIES} answered"
    (job / "seconds.json").write_text(json.dumps(seconds))


server = server_app(measure)


def resident(address: str, key: str, authority: str, told: str) -> None:
    """One resident party, in a process of its own."""
    serve(
        lambda data: data,
        address,
        root_certificates=Path(authority).read_bytes(),
        keys=load_node_keys(Path(key)),
        stop=threading.Event(),
        connected=lambda node: Path(told).write_text(str(node)) and None,
    )


def run(folder: Path, rounds: int, times: int) -> dict[str, list[float]]:
    """Seconds of each exchange by kind of party."""
    here = str(Path(__file__).parent)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))
    os.environ["FLWR_HOME"] = str(folder / "home")  # of the stock nodes
    tls = issue(folder / "tls", ["127.0.0.1"])
    names = [f"{kind}{index}" for kind in ("resident", "stock") for index in range(PARTIES)]
    keys = [folder / name for name in names]
    for key in keys:
        generate_node_keys(key)
    job = folder / "job"
    app = write_app(folder / "app", f"{Path(__file__).stem}:server", job, client="stock:app")
    (app / "stock.py").write_text(STOCK)
    processes = []
    with SuperLink(folder, tls=tls, stock=True) as superlink:
        try:
            superlink.register(*map(public_path, keys))
            own = [superlink.address, str(tls.authority)]
            processes += [_resident(key, *own) for key in keys[:PARTIES]]
            processes += [_stock(key, *own) for key in keys[PARTIES:]]
            told = [key.with_suffix(".node") for key in keys[:PARTIES]]
            limit = time.monotonic() + DEADLINE
            while not all(path.exists() and path.read_text() for path in told):
                if time.monotonic() > limit:
                    raise TimeoutError(f"the residents are not there after {DEADLINE:.0f} s")
                time.sleep(0.1)
            residents = [int(path.read_text()) for path in told]
            order = {"residents": residents, "rounds": rounds, "times": times}
            (job / "order.json").write_text(json.dumps(order))
            try:
                superlink.submit(app).wait(600)
            except ServerFailed as error:
                raise SystemExit(f"{_last_words(keys[PARTIES:])}\n{error}") from None
            return json.loads((job / "seconds.json").read_text())
        finally:
            for process in processes:
                process.terminate()
            for process in processes:
                process.wait()


def _resident(key: Path, address: str, authority: str) -> subprocess.Popen[bytes]:
    arguments = [address, str(key), authority, str(key.with_suffix(".node"))]
    return subprocess.Popen([sys.executable, __file__, "--resident", *arguments])


def _stock(key: Path, address: str, authority: str) -> subprocess.Popen[bytes]:
    """One stock SuperNode, which starts further commands of Flower by their bare names."""
    command, port = script("flower-supernode"), str(free_port("127.0.0.1"))
    path = f"{Path(command).parent}{os.pathsep}{os.environ['PATH']}"
    settings = ["--superlink", address, "--root-certificates", authority]
    settings += ["--host", "127.0.0.1", "--port", port, "--auth-supernode-private-key", str(key)]
    quiet = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}
    with key.with_suffix(".log").open("wb") as log:
        return subprocess.Popen(
            [command, *settings],
            stdout=log,
            stderr=log,
            env={**os.environ, **quiet, "PATH": path},
        )


def _last_words(keys: Sequence[Path]) -> str:
    """What the stock SuperNodes said last."""
    logs = [key.with_suffix(".log").read_text(errors="replace").splitlines() for key in keys]
    return "\n".join(line for log in logs for line in log[-3:])


def report(seconds: dict[str, list[float]]) -> None:
    print(f"{PARTIES} parties, {VALUES} float32 each way, TLS and node keys, one machine")
    print(f"{'party':10s}{'exchanges':>10s}{'minimum':>10s}{'median':>10s}  seconds per exchange")
    for kind, values in seconds.items():
        row = f"{kind:10s}{len(values):10d}{min(values):10.2f}{statistics.median(values):10.2f}"
        print(row)
    medians = {kind: statistics.median(values) for kind, values in seconds.items()}
    minima = {kind: min(values) for kind, values in seconds.items()}
    print(
        f"stock / resident: {medians['stock'] / medians['resident']:.1f} (medians), "
        f"{minima['stock'] / minima['resident']:.1f} (minima); aim {AIM_RATIO:.0f}"
    )
    print(f"resident: median {medians['resident']:.2f} s; aim at most {AIM_SECONDS:.0f} s")
    figures.report(
        "an exchange of 1e5 floats",
        medians["stock"] / medians["resident"],
        "times faster",
        aim=AIM_RATIO,
        peer="Flower, stock SuperNode",
        ratio=True,
        ours=medians["resident"],
        theirs=medians["stock"],
        measure="s",
    )
    figures.report(
        "an exchange of 1e5 floats, resident", medians["resident"], "s", aim=AIM_SECONDS, lower=True
    )


def smoke() -> dict[str, float]:
    """What comes before the first exchange: certificates, node keys and the app; no server."""
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        issue(folder / "tls", ["127.0.0.1"])
        generate_node_keys(folder / "node")
        app = write_app(folder / "app", "flower_latency:server", folder / "job", client="stock:app")
        files = sum(1 for _ in app.rglob("*"))
    return {"seconds": time.perf_counter() - began, "files of the app": files}


if __name__ == "__main__":
    if sys.argv[1:2] == ["--resident"]:
        resident(*sys.argv[2:])
        raise SystemExit(0)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="three rounds in place of eight")
    arguments = figures.options(parser, smoke)
    with tempfile.TemporaryDirectory() as temporary:
        report(run(Path(temporary), rounds=3 if arguments.quick else 8, times=4))
