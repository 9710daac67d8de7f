"""A dozen parties at a real server, some of which do what they can to end the study."""

import json
import threading
import time

import pytest
from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest

from unisono.engines.flower.app import write_app
from unisono.engines.flower.certificates import (
    generate_node_keys,
    issue,
    load_node_keys,
    public_path,
)
from unisono.engines.flower.cluster import SuperLink
from unisono.engines.flower.fleet import Fleet
from unisono.engines.flower.mailboxes import LONGEST_WAIT
from unisono.engines.flower.party_client import _Resident

pytestmark = pytest.mark.cluster

PARTIES, ROUNDS = 12, 4


class Hasty(Fleet):
    """Says that it has each message before it answers, again and again, and answers twice."""

    def next_message(self, identifier, reply, wait):
        confirmation = ConfirmMessageReceivedRequest(
            node=self._node, run_id=1, message_object_id=identifier.hex()
        )
        for _ in range(3):
            self._client.ConfirmMessageReceived(confirmation)
        if identifier:
            super().next_message(bytes(16), b"an answer to nothing", wait=False)
            super().next_message(identifier, reply, wait=False)
        return super().next_message(identifier, b"another answer", wait=wait)


@pytest.mark.parametrize("hasty", [0, 4])
def test_a_dozen_parties_finish_and_none_can_delete_what_is_sent(tmp_path, monkeypatch, hasty):
    """All get the same question, so a party can have all of it before its message is complete."""
    monkeypatch.setenv("PYTHONPATH", str(__file__).rpartition("/")[0], prepend=":")
    tls, stop, nodes = issue(tmp_path / "tls", ["127.0.0.1"]), threading.Event(), {}

    def party(index, server):
        kind = Hasty if index < hasty else Fleet
        keys = load_node_keys(tmp_path / f"party{index}")
        fleet = kind(server.address, False, tls.authority.read_bytes(), keys)
        nodes[index] = fleet.open(None)
        resident = _Resident(fleet, bytes.upper, stop)
        resident.work()
        resident.leave()
        fleet.close()

    with SuperLink(tmp_path, tls=tls, stock=True) as server:  # where confirmations are heard
        for index in range(PARTIES):
            generate_node_keys(tmp_path / f"party{index}")
        server.register(*(public_path(tmp_path / f"party{i}") for i in range(PARTIES)))
        threads = [threading.Thread(target=party, args=(i, server)) for i in range(PARTIES)]
        for thread in threads:
            thread.start()
        job = tmp_path / "job"
        run = server.submit(write_app(tmp_path / "app", "uppercase_study:server", job))
        try:
            while len(nodes) < PARTIES:
                time.sleep(0.05)
            for number in range(ROUNDS):
                order = {
                    "text": "hello" * 2000,
                    "nodes": list(nodes.values()),
                    "deadline": 20.0,
                    "same": True,
                }
                (job / "part").write_text(json.dumps(order))
                (job / "part").replace(job / f"order{number}.json")
                result = job / f"result{number}.json"
                while not result.exists():
                    assert run.alive(), server.tail()
                    time.sleep(0.02)
                replies = json.loads(result.read_text())["replies"]
                assert replies == dict.fromkeys(map(str, nodes.values()), "HELLO" * 2000)
            (job / f"order{ROUNDS}.json").write_text(json.dumps({"text": "stop"}))
            run.wait(20)
        finally:
            began = time.monotonic()
            stop.set()
            for thread in threads:
                thread.join()
            took = time.monotonic() - began
    # All were waiting for a message, and were told that there is none, in place of waiting on.
    assert took < LONGEST_WAIT - 2
