"""The commands as people type them, each a process of its own; nothing is left behind.

A killed coordinator, the documentation's first example, and hosts in network namespaces.
"""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from unisono.accounting.accountant import ACCOUNTANT
from unisono.core.ledger import Ledger
from unisono.engines.flower.processes import free_port
from unisono.studies.build import build
from unisono.studies.file import load_study

from .trial import DESCENT, NAMES, Trial, study_text

pytestmark = [pytest.mark.slow, pytest.mark.cluster]

ROOT = Path(__file__).parents[2]
LONG = 150.0  # seconds after which something hangs, on a busy machine too


def until(condition, what, seconds=LONG):
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, f"{what} took longer than {seconds} s"
        time.sleep(0.05)


class Started:
    """A `unisono` command in a process group of its own, and what it says."""

    def __init__(self, arguments, log, before=()):
        self.log = log
        command = [*before, sys.executable, "-m", "unisono", *map(str, arguments)]
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    @property
    def said(self):
        return self.log.read_text()

    def kill(self):
        """At once, and everything in its group."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def done(self):
        assert self.process.wait(LONG) == 0, self.said
        assert "Traceback" not in self.said


@contextmanager
def all_ended(*started):
    """Whatever happens, these and what they started are gone."""
    try:
        yield
    finally:
        for one in started:
            if one.process.poll() is None:
                one.process.terminate()
        for one in started:
            one.process.wait(30)


def processes_about(folder):
    """Processes whose command line or environment names the folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            known = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
        except OSError:
            continue
        if str(folder).encode() in known and int(entry.name) != os.getpid():
            found.append(int(entry.name))
    return found


def is_open(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def rounds_done(trial):
    """What the server has noted, read while it writes."""
    path = trial.job / "progress.json"
    return json.loads(path.read_text())["rounds"] if path.exists() else 0


def require_affordable(trial):
    """Nobody paid a turn twice, or more than noise was calibrated for."""
    study = build(load_study(trial.study)).study
    for index, name in enumerate(NAMES):
        turns = trial.turns(name)
        assert turns == sorted(set(turns))
        assert len(turns) <= study.facts.attempts(study.algorithm.rounds)
        ledger = Ledger.open(trial.ledger(name), ACCOUNTANT)
        for viewer, history in study.costs[index].items():
            most = ACCOUNTANT.epsilon(history, ledger.policy.relation, 1e-5)
            assert ledger.spent(viewer, 1e-5) <= most * (1 + 1e-9)
        ledger.close()


# ------------------------------------------------------------- the server is killed


def test_a_killed_coordinator_goes_on_and_leaves_nothing_behind(tmp_path):
    rounds, port = 24, free_port("127.0.0.1")
    trial = Trial(tmp_path / "trial", study_text(DESCENT.format(rounds=rounds), retries=2))
    address = f"127.0.0.1:{port}"
    serve = trial.coordinate(address=address)
    first = Started(serve, tmp_path / "first.log")
    with all_ended(first):
        until(trial.authority.exists, "the server's certificate")
        parties = [
            Started(trial.join(name, server=address), tmp_path / f"{name}.log") for name in NAMES
        ]
        with all_ended(*parties):
            until(lambda: rounds_done(trial) >= 1, "the first round")
            first.kill()
            before = rounds_done(trial)
            assert before < rounds
            second = Started(serve, tmp_path / "second.log")
            with all_ended(second):
                second.done()
                for one in parties:
                    one.done()
    shown = json.loads((trial.job / "result.json").read_text())
    assert before <= shown["rounds_opened"] <= rounds
    for name, one in zip(NAMES, parties, strict=True):
        assert one.said.count("connected to") == 2
        assert json.loads((trial.output(name) / "result.json").read_text()) == shown
    require_affordable(trial)  # a round that was under way is tried again, and paid for again
    trial.require_no_records(*(one.said for one in (first, second, *parties)))
    until(lambda: not processes_about(trial.folder), "the end of all processes", 20)
    assert not is_open(port)
    assert not (trial.job / "flower").exists()


# ------------------------------------------------------------- the documentation


def test_the_first_example_of_the_documentation_runs_as_it_stands(tmp_path):
    """With fewer rounds; the study's own port must be free."""
    page = (ROOT / "docs" / "deployment.md").read_text()
    section = page.split("## Try it on one machine")[1].split("\n## ")[0]
    blocks = re.findall(r"```bash\n(.*?)```", section, re.DOTALL)
    assert "unisono local-cluster" in "".join(blocks)
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    study = tmp_path / "examples" / "hospitals" / "study.toml"
    assert "rounds = 20" in study.read_text()
    study.write_text(study.read_text().replace("rounds = 20", "rounds = 2"))
    port = int(re.search(r"127.0.0.1:(\d+)", study.read_text())[1])
    if is_open(port):
        pytest.skip(f"port {port} is taken on this machine")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    script = "set -e\n" + "".join(blocks)
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert "rounds_opened: 2" in done.stdout
    assert "CERTIFICATE" in done.stdout
    north = tmp_path / "trial" / "north"  # as the page says
    assert (north / "north.signing").exists()
    for name in ("result.json", "certificate.txt"):
        assert (north / "output" / name).exists()
    assert (tmp_path / "hospitals" / "north" / "records.ledger").exists()
    assert not processes_about(tmp_path)
    assert not is_open(port)


# ------------------------------------------------------------- several hosts


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


@contextmanager
def hosts(*names):
    """A network namespace for each name, at 10.213.7.1, .2, ..., joined by a bridge."""
    mark = f"u{os.getpid() % 100000}"
    spaces = {name: f"{mark}-{name}" for name in names}
    hub = f"{mark}-hub"
    try:
        ip("netns", "add", hub)
        ip("-n", hub, "link", "add", "bridge", "type", "bridge")
        ip("-n", hub, "link", "set", "bridge", "up")
        for number, space in enumerate(spaces.values(), 1):
            ip("netns", "add", space)
            ends = ("eth0", "netns", space, "type", "veth", "peer", "name", f"v{number}")
            ip("-n", hub, "link", "add", *ends, "netns", hub)
            ip("-n", hub, "link", "set", f"v{number}", "master", "bridge", "up")
            ip("-n", space, "address", "add", f"10.213.7.{number}/24", "dev", "eth0")
            for device in ("lo", "eth0"):
                ip("-n", space, "link", "set", device, "up")
        yield spaces
    finally:
        for space in (*spaces.values(), hub):
            subprocess.run(["ip", "netns", "delete", space], capture_output=True)


def reaches(within, address):
    """Whether a connection can be made from that host."""
    code = "import socket, sys; socket.create_connection(sys.argv[1:], timeout=1)"
    probe = [*within, sys.executable, "-c", code, *address.split(":")]
    return subprocess.run(probe, capture_output=True).returncode == 0


def require_namespaces():
    if shutil.which("ip") is None:
        pytest.skip("no `ip` command on this machine")
    try:
        with hosts("one"):
            pass
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no network namespaces on this machine: {error.stderr.strip()}")


def test_hosts_of_their_own_and_a_cable_that_is_pulled_out_for_a_while(tmp_path):
    require_namespaces()
    rounds, address = 8, "10.213.7.1:9092"
    trial = Trial(tmp_path / "trial", study_text(DESCENT.format(rounds=rounds)))
    with hosts("server", *NAMES) as spaces:
        within = {host: ["ip", "netns", "exec", space] for host, space in spaces.items()}
        server = Started(
            trial.coordinate("--deadline", 20, address=address),
            tmp_path / "server.log",
            within["server"],
        )
        with all_ended(server):
            until(trial.authority.exists, "the server's certificate")
            parties = [
                Started(trial.join(name, server=address), tmp_path / f"{name}.log", within[name])
                for name in NAMES
            ]
            with all_ended(*parties):
                until(lambda: rounds_done(trial) >= 1, "the first round")
                assert reaches(within["west"], address)
                ip("-n", spaces["west"], "link", "set", "eth0", "down")
                assert rounds_done(trial) < rounds
                assert not reaches(within["west"], address)
                time.sleep(4)
                ip("-n", spaces["west"], "link", "set", "eth0", "up")
                server.done()
                for one in parties:
                    one.done()
    shown = json.loads((trial.job / "result.json").read_text())
    assert shown["rounds_opened"] == rounds
    for name in NAMES:
        assert json.loads((trial.output(name) / "result.json").read_text()) == shown
    assert trial.turns("north") == list(range(rounds))
    require_affordable(trial)
    trial.require_no_records(*(one.said for one in (server, *parties)))
