"""A real SuperLink with TLS and node authentication, and resident parties that are killed.

The processes are real, so times depend on the machine: a limit here is the deadline under test
plus `SLACK`, far below what Flower would wait by itself (47 s for a killed node).
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from unisono.engines.flower.app import write_app
from unisono.engines.flower.certificates import generate_node_keys, issue, public_path
from unisono.engines.flower.cluster import ServerFailed, SuperLink
from unisono.engines.flower.processes import marked
from unisono.engines.flower.superlink import Control
from unisono.errors import InvalidInput

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent
STUDY = HERE / "uppercase_study.py"
SLACK = 4.0
TEXT = "hello"


def until(condition, seconds, what):
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, f"{what} took longer than {seconds} s"
        time.sleep(0.05)


class Cluster:
    """A server, three parties and a run that carries out orders."""

    def __init__(self, folder):
        self.folder, self.parties, self.orders, self.runs = folder, {}, 0, 0
        self.tls = issue(folder / "tls", ["127.0.0.1"])
        self.server = SuperLink(folder, tls=self.tls)

    def party(self, name, *, authority=None, connect_timeout=30.0, **options):
        """Starts a party's process."""
        told = self.folder / f"{name}.told"
        arguments = [self.server.address, self.folder / name, authority or self.tls.authority]
        command = [sys.executable, STUDY, *arguments, told, connect_timeout]
        return subprocess.Popen([str(part) for part in command], **options)

    def register(self):
        self.server.register(*(public_path(self.folder / f"party{i}") for i in range(3)))

    def start(self, index):
        self.parties[index] = self.party(f"party{index}")

    def await_new(self, before, what):
        """Waits until each party has been told more often than `before`, by index."""
        for index, number in before.items():
            until(lambda i=index, n=number: len(self.told(i)) > n, 40, what)

    def restart(self, index):
        before = {index: len(self.told(index))}
        self.start(index)
        self.await_new(before, "connecting")

    def told(self, index):
        path = self.folder / f"party{index}.told"
        return [int(node) for node in path.read_text().split()] if path.exists() else []

    def node(self, index):
        return self.told(index)[-1]

    def submit(self):
        self.runs, self.orders = self.runs + 1, 0
        app = write_app(
            self.folder / f"app{self.runs}",
            "uppercase_study:server",
            self.folder / f"job{self.runs}",
        )
        self.run = self.server.submit(app)

    def order(self, text, nodes=(), deadline=20.0):
        """What came back of one exchange."""
        result = self.run.job / f"result{self.orders}.json"
        part = self.run.job / "order.part"
        part.write_text(json.dumps({"text": text, "nodes": list(nodes), "deadline": deadline}))
        part.replace(self.run.job / f"order{self.orders}.json")
        self.orders += 1
        until(lambda: result.exists() or not self.run.alive(), deadline + 60, "an exchange")
        return json.loads(result.read_text())

    def ask(self, indices=(0, 1, 2), text=TEXT, deadline=20.0):
        """Who gave the right answer, and in how many seconds."""
        nodes = {index: self.node(index) for index in indices}
        result = self.order(text, nodes.values(), deadline)
        right = {
            index
            for index, node in nodes.items()
            if result["replies"].get(str(node)) == f"{text} {node}".upper()
        }
        assert len(result["replies"]) == len(right)
        return right, result["seconds"]

    def kill(self, index):
        self.parties[index].send_signal(signal.SIGKILL)
        self.parties[index].wait()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(HERE), prepend=os.pathsep)
        cluster = Cluster(tmp_path_factory.mktemp("cluster"))
        for index in range(3):
            generate_node_keys(cluster.folder / f"party{index}")
        with cluster.server:
            try:
                for index in range(3):
                    cluster.start(index)  # before anybody knows them: they wait
                cluster.register()
                cluster.submit()
                cluster.await_new({0: 0, 1: 0, 2: 0}, "connecting")
                yield cluster
            finally:
                for party in cluster.parties.values():
                    party.kill()
                    party.wait()


def test_parties_answer(cluster):
    for text in ("one", "two", "three"):
        right, _ = cluster.ask(text=text)
        assert right == {0, 1, 2}
    assert set(cluster.order("nodes")["nodes"]) == {cluster.node(i) for i in range(3)}


def test_registering_twice_is_harmless_and_a_bad_key_is_refused(cluster):
    cluster.server.register(public_path(cluster.folder / "party0"))
    with pytest.raises(InvalidInput, match="public half"):
        cluster.server.register(cluster.tls.authority)


def test_an_answer_that_fails_is_missing_at_once_and_leaves_no_trace(cluster):
    right, seconds = cluster.ask(text="fail")
    assert right == set()
    assert seconds < SLACK
    assert "secret detail" not in cluster.server.tail(10_000)
    assert cluster.ask()[0] == {0, 1, 2}


def test_a_late_answer_is_missing_and_not_taken_for_the_next(cluster):
    right, seconds = cluster.ask(text="slow", deadline=0.7)
    assert right == set()
    assert seconds < 0.7 + SLACK
    assert cluster.ask()[0] == {0, 1, 2}


@pytest.mark.parametrize(
    ("name", "words"),
    [("stranger", "does not admit this party's transport key"), ("party0", "is not accepted")],
    ids=["unregistered key", "wrong authority"],
)
def test_strangers_are_turned_away_in_words(cluster, tmp_path, name, words):
    if name == "stranger":
        generate_node_keys(cluster.folder / name)
        started = cluster.party(name, connect_timeout=1.0, stderr=subprocess.PIPE, text=True)
    else:
        other = issue(tmp_path, ["127.0.0.1"]).authority
        started = cluster.party(name, authority=other, stderr=subprocess.PIPE, text=True)
    _, said = started.communicate(timeout=30)
    assert started.returncode == InvalidInput.exit_code
    assert words in said
    assert "Traceback" not in said


def test_a_killed_party_costs_no_more_than_the_deadline_and_comes_back(cluster):
    cluster.kill(0)
    right, seconds = cluster.ask(deadline=3.0)
    assert right == {1, 2}
    assert seconds < 3.0 + SLACK
    node, started = cluster.node(0), time.monotonic()
    cluster.restart(0)  # remembers its node id
    assert cluster.node(0) == node
    assert time.monotonic() - started < 10 + SLACK
    assert cluster.ask()[0] == {0, 1, 2}


def test_a_killed_party_that_remembers_nothing_comes_back_too(cluster):
    """The server must first miss two heartbeats: about 20 s."""
    cluster.kill(1)
    (cluster.folder / "party1.told").unlink()
    cluster.restart(1)
    assert cluster.ask()[0] == {0, 1, 2}


def test_parties_outlive_a_killed_server(cluster):
    cluster.server.stop(kill=True)
    assert not cluster.run.alive()
    with pytest.raises(ServerFailed, match="SuperLink ended"):
        cluster.run.wait()
    before = {index: len(cluster.told(index)) for index in range(3)}
    cluster.server.start()
    cluster.register()
    cluster.submit()
    cluster.await_new(before, "coming back")
    assert cluster.ask()[0] == {0, 1, 2}
    assert all(party.poll() is None for party in cluster.parties.values())
    cluster.run.job.joinpath(f"order{cluster.orders}.json").write_text('{"text": "stop"}')
    cluster.run.wait(30)
    assert not cluster.run.alive()


def test_a_run_that_cannot_start_says_why(cluster, tmp_path):
    app = write_app(tmp_path / "app", "uppercase_study:client", tmp_path / "job")
    with pytest.raises(ServerFailed, match="ServerApp"):
        cluster.server.submit(app).wait(60)


SCRIPT = """
import sys, time
from pathlib import Path
from unisono.engines.flower.cluster import SuperLink
with SuperLink(Path(sys.argv[1]), insecure=True) as server:
    print(server._mark, flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_nothing_is_left_of_a_server_whose_owner_was_stopped(tmp_path, number):
    owner = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    mark = owner.stdout.readline().strip()
    assert marked("UNISONO_SUPERLINK", mark)
    os.kill(owner.pid, number)
    owner.communicate(timeout=20)
    assert not marked("UNISONO_SUPERLINK", mark)
    assert list(tmp_path.iterdir()) == []


def test_a_database_remembers_who_was_registered(tmp_path):
    generate_node_keys(tmp_path / "party")
    tls = issue(tmp_path / "tls", ["127.0.0.1"])
    with SuperLink(tmp_path, tls=tls, database=tmp_path / "state.db") as server:
        server.register(public_path(tmp_path / "party"))
        server.stop(kill=True)
        server.start()
        with Control(server.inside) as control:
            assert len(control.registered()) == 1
    assert (tmp_path / "state.db").exists()


def test_a_server_that_cannot_start_quotes_its_log(tmp_path):
    files = issue(tmp_path / "tls", ["127.0.0.1"])
    files.key.write_bytes(b"no key")
    with pytest.raises(ServerFailed, match=r"did not start:\n(.|\n)*\w"):
        SuperLink(tmp_path, tls=files).__enter__()
    assert not (tmp_path / "flower").exists()


def test_an_insecure_server_stays_on_this_machine(tmp_path):
    with pytest.raises(InvalidInput, match="refused"):
        SuperLink(tmp_path, host="0.0.0.0", insecure=True)
    with pytest.raises(InvalidInput, match="either"):
        SuperLink(tmp_path)
