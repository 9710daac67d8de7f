"""One round of logistic regression in Flower's Ray simulation, for `speed_rounds.py`.

    python benchmarks/flower_ray.py --parties 100 --rounds 5

Needs `pip install "flwr[simulation]==1.41.0"`, which may live in an environment of its own: this
file imports nothing of unisono. Prints one line of JSON: seconds per round, in order, and
the seconds from the start of the simulation until the first round ended. Every client clips the
gradients of its records and adds its share of Gaussian noise, in NumPy; the server adds up and
steps. No ledger, no accounting, no secure sum: less than what it is compared with.
"""

import argparse
import importlib.util
import json
import os
import tempfile
import time
from typing import Any

import numpy as np

import figures

RECORDS, FEATURES, CLIP, NOISE, RATE = 100, 20, 1.0, 20.0, 4.0


def records(party: int) -> tuple[np.ndarray, np.ndarray]:
    """Features (RECORDS, FEATURES) in the unit ball and labels -1 / +1 of one party."""
    plane = np.random.default_rng(0).normal(size=FEATURES)
    generator = np.random.default_rng(party + 1)
    features = generator.normal(size=(RECORDS, FEATURES)).astype(np.float32)
    features /= np.maximum(1.0, np.linalg.norm(features, axis=1, keepdims=True))
    return features, np.where(features @ plane >= 0, 1.0, -1.0).astype(np.float32)


def clipped_gradient(
    parameters: np.ndarray, features: np.ndarray, labels: np.ndarray
) -> np.ndarray:
    """Sum of the records' logistic gradients (FEATURES,), each at most CLIP long."""
    slopes = -labels / (1 + np.exp(labels * (features @ parameters)))
    rows = slopes[:, None] * features
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return (rows * np.minimum(1.0, CLIP / np.maximum(lengths, 1e-12))).sum(axis=0)


def simulate(parties: int, rounds: int) -> dict[str, Any]:
    """Seconds per round under Ray, one actor per core."""
    from flwr.app import Array, ArrayRecord, Context, Message, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp
    from flwr.simulation import run_simulation

    client, server = ClientApp(), ServerApp()
    seconds: list[float] = []
    began = time.perf_counter()
    first: list[float] = []
    answers: list[int] = []

    @client.query()
    def gradient(message: Message, context: Context) -> Message:
        party = int(context.node_config["partition-id"])
        parameters = message.content["values"]["parameters"].numpy()
        value = clipped_gradient(parameters, *records(party))
        value += np.random.default_rng().normal(0, NOISE / np.sqrt(parties), len(value))
        values = ArrayRecord({"gradient": Array(value.astype(np.float32))})
        return Message(RecordDict({"values": values}), reply_to=message)

    @server.main()
    def main(grid: Grid, context: Context) -> None:
        while len(nodes := list(grid.get_node_ids())) < parties:
            time.sleep(0.01)
        parameters = np.zeros(FEATURES, np.float32)
        for _ in range(rounds):
            start = time.perf_counter()
            values = ArrayRecord({"parameters": Array(parameters)})
            messages = [
                Message(RecordDict({"values": values}), dst_node_id=node, message_type="query")
                for node in nodes
            ]
            replies = [r for r in grid.send_and_receive(messages) if not r.has_error()]
            total = sum(r.content["values"]["gradient"].numpy() for r in replies)
            parameters = (parameters - RATE * total / (parties * RECORDS)).astype(np.float32)
            seconds.append(time.perf_counter() - start)
            answers.append(len(replies))
            first[:] = first or [time.perf_counter() - began]

    run_simulation(
        server,
        client,
        parties,
        backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
    )
    return {"parties": parties, "seconds": seconds, "until_first": first[0], "answers": answers}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--parties", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    if importlib.util.find_spec("ray") is None or importlib.util.find_spec("flwr") is None:
        figures.without_peer(__doc__, "flwr[simulation]", "install it and name it with --peer")
    parser.add_argument("--smoke", action="store_true", help="two parties, one round")
    arguments = parser.parse_args()
    if arguments.smoke:
        arguments.parties, arguments.rounds = 2, 1
    with tempfile.TemporaryDirectory() as home:
        os.environ |= {
            "FLWR_HOME": home,
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "RAY_USAGE_STATS_ENABLED": "0",
        }
        found = simulate(arguments.parties, arguments.rounds)
        print(json.dumps({"smoke": found, "missing": []} if arguments.smoke else found), flush=True)
