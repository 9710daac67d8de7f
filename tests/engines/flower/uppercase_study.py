"""A study for the tests of the transport: parties answer in capitals, the server asks on command.

The server's part reads orders from its job folder, one file each (a JSON object with the text to
send and the deadline), and writes what came back beside them, until an order says stop. A test
so decides between two exchanges which process to kill. Run as a script, this file is a party.
"""

import json
import sys
import threading
import time
import warnings
from pathlib import Path

from unisono.engines.flower.app import client_app, server_app
from unisono.engines.flower.certificates import load_node_keys
from unisono.engines.flower.link import GridLink
from unisono.engines.flower.party_client import serve
from unisono.errors import UnisonoError


def answer(data: bytes) -> bytes:
    """Capitals; one word is an order to fail, one to be slow."""
    if data.startswith(b"fail"):
        raise RuntimeError("secret detail of a record")
    if data.startswith(b"slow"):
        time.sleep(1.5)
    return data.upper()


def obey(link: GridLink, job: Path) -> None:
    """Carries out the orders in the job folder until told to stop."""
    for number in range(1000):
        order_file = job / f"order{number}.json"
        while not order_file.exists():
            time.sleep(0.02)
        order = json.loads(order_file.read_text())
        if order["text"] == "stop":
            return
        if order["text"] == "nodes":
            result = {"nodes": list(link.nodes())}
        else:
            started = time.perf_counter()
            to_all = order.get("same", False)  # as most questions of a study are
            requests = {
                node: (order["text"] if to_all else f"{order['text']} {node}").encode()
                for node in order["nodes"]
            }
            replies = link.exchange(requests, order["deadline"])
            result = {
                "replies": {str(node): data.decode() for node, data in replies.items()},
                "seconds": time.perf_counter() - started,
            }
        part = job / f"result{number}.part"
        part.write_text(json.dumps(result))
        part.replace(job / f"result{number}.json")


server = server_app(obey)
client = client_app(answer)


def party(address: str, key: str, authority: str, told: str, connect_timeout: str) -> None:
    """A resident party; writes each node id it is told to the file `told`."""

    def connected(node: int) -> None:
        with Path(told).open("a") as file:
            file.write(f"{node}\n")

    previous = Path(told).read_text().split()[-1] if Path(told).exists() else None
    secure = authority != "insecure"
    serve(
        answer,
        address,
        root_certificates=Path(authority).read_bytes() if secure else None,
        keys=load_node_keys(Path(key)) if secure else None,
        insecure=not secure,
        stop=threading.Event(),
        previous=int(previous) if previous else None,
        connected=connected,
        connect_timeout=float(connect_timeout),
    )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    try:
        party(*sys.argv[1:])
    except UnisonoError as error:
        print(error, file=sys.stderr)
        sys.exit(error.exit_code)
