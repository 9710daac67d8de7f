"""Seconds per round: many parties in one process, against Flower's Ray simulation.

    python benchmarks/speed_rounds.py [--peer path/to/python] [--quick] [--runs 3]

1. Logistic regression by gradient perturbation over 100 and 500 parties (100 records, 20 columns),
   a secure sum with a tenth colluding, ledgers and accounting included, beside the same round of
   clipped gradients in Flower's simulation, in the same run. The simulation runs in the Python
   named by --peer (or UNISONO_PEER_PYTHON, or this one) that has `flwr[simulation]`; without it
   the reason is printed. Steady: rounds after the first chunk. First: start to first result.
2. 100,000 parties (10 records, 20 columns) x 100 rounds in a fresh process: everything from the
   arrays to the certificate, ledgers and accounting included, and its peak memory.

`hot_spots.py` tells where the second spends its time.

Wall clock and processor time are both printed: on a machine that others use, the second is the
better guide, and minima over runs count.
"""

import argparse
import importlib.util
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import figures
import flower_ray

SCORECARD = figures.Benchmark(peer="ray")

HERE = Path(__file__).parent
PARTIES = (100, 500)
GOALS = {100: 100.0, 500: 300.0}
# Whole chunks of the engine, so that nothing is compiled after the first.
CHUNK, ROUNDS = 64, 640
SCALE_SECONDS = 10.0
FLOWER = "Flower's Ray simulation"
INSTALL = "python -m venv peer && peer/bin/pip install 'flwr[simulation]==1.41.0' numpy"


class Timing(NamedTuple):
    """Seconds: a steady round, start to first chunk, the whole run, and its processor time."""

    steady: float
    first: float
    total: float
    processor: float


def learn(features: np.ndarray, labels: np.ndarray, rounds: int) -> tuple[Timing, float]:
    """Gradient perturbation over features (parties, n, d); accuracy on the training records."""
    from unisono import (
        ACCOUNTANT,
        Budget,
        Facts,
        Ledger,
        Party,
        Policy,
        Privacy,
        Private,
        Study,
        Trust,
    )
    from unisono.algorithms.gradient_perturbation import GRADIENT_PERTURBATION
    from unisono.engines import in_process
    from unisono.problems.linear import LinearLoss

    count, size, width = features.shape
    began, busy = time.perf_counter(), time.process_time()
    policies = (Policy(f"p{j}", Budget(2.0, 1e-6)) for j in range(count))
    parties = [
        Party(ledger.policy.dataset, Private((features[j], labels[j])), ledger)
        for j, ledger in enumerate(Ledger.all_in_memory(policies, ACCOUNTANT))
    ]
    facts = Facts((size,) * count, width, max(1, count * 9 // 10), count // 10)
    method = GRADIENT_PERTURBATION.method(
        LinearLoss(),
        Privacy(1.0, 1e-6),
        rounds=rounds,
        clipping_norm=1.0,
        learning_rate=4.0,
        momentum=0.0,
        average_last=0.0,
    )
    study = Study(method, facts, Trust.SECURE_SUM)
    marks: list[float] = []
    result = in_process.run(
        study, parties, progress=lambda _: marks.append(time.perf_counter() - began)
    )
    total, processor = time.perf_counter() - began, time.process_time() - busy
    steady = (marks[-1] - marks[0]) / max(1, rounds - CHUNK)
    right = np.mean(np.sign(features @ np.asarray(result.value)) == labels)
    return Timing(steady, marks[0], total, processor), float(right)


def ours(count: int, runs: int) -> tuple[Timing, Timing]:
    """The first run of this process, and the fastest of the later ones."""
    columns = [flower_ray.records(party) for party in range(count)]
    features, labels = (np.stack(parts) for parts in zip(*columns, strict=True))
    timings = [learn(features, labels, ROUNDS)[0] for _ in range(runs + 1)]
    return timings[0], Timing(*(min(values) for values in zip(*timings[1:], strict=True)))


def peer(python: str, count: int, rounds: int) -> dict[str, Any] | str:
    """Flower's seconds per round, or why there are none."""
    command = [python, str(HERE / "flower_ray.py"), f"--parties={count}", f"--rounds={rounds}"]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    except (OSError, subprocess.TimeoutExpired) as reason:
        return f"{type(reason).__name__}: {reason}"
    lines = [line for line in run.stdout.splitlines() if line.startswith("{")]
    if run.returncode or not lines:
        said = (run.stderr if run.returncode else run.stdout).strip().splitlines()
        return (said or ["no output"])[-1]
    answer: dict[str, Any] = json.loads(lines[-1])
    if set(answer["answers"]) != {count}:
        return f"clients failed: {answer['answers']} of {count} answered"
    return answer


def compare(python: str | None, runs: int, rounds: int) -> None:
    print(
        f"one round of logistic regression, {flower_ray.RECORDS} records and "
        f"{flower_ray.FEATURES} columns per party; load {os.getloadavg()[0]:.1f}"
    )
    if python is None:
        figures.missing(FLOWER, INSTALL)
        print(
            "Flower's Ray simulation: not measured, no Python with flwr[simulation]: install "
            "it in an environment of its own and name its Python with --peer"
        )
    for count in PARTIES:
        cold, warm = ours(count, runs)
        print(
            f"\n{count} parties, ours: {warm.steady * 1e3:.2f} ms a round (steady); "
            f"{warm.total / ROUNDS * 1e3:.2f} ms a round with compilation, ledgers, accounting "
            f"and certificate over {ROUNDS} rounds ({warm.total:.2f} s); first call of the "
            f"process: {cold.first:.2f} s to {CHUNK} rounds, "
            f"{cold.total:.2f} s to the end"
        )
        theirs = peer(python, count, rounds) if python else None
        if isinstance(theirs, str):
            print(f"{count} parties, Flower: not measured: {theirs}")
            figures.unmeasured(f"a round of {count} parties", theirs, aim=GOALS[count], peer=FLOWER)
        elif theirs is not None:
            later = theirs["seconds"][1:]
            best = min(later)
            print(
                f"{count} parties, Flower's Ray simulation: {statistics.median(later):.2f} s "
                f"(least {best:.2f}) a round after the first; first result after "
                f"{theirs['until_first']:.1f} s"
            )
            for name, mine in (("steady", warm.steady), ("all included", warm.total / ROUNDS)):
                factor = best / mine
                verdict = "reached" if factor >= GOALS[count] else "MISSED"
                figures.report(
                    f"a round of {count} parties, {name}",
                    factor,
                    "times faster",
                    aim=GOALS[count],
                    peer=FLOWER,
                    ratio=True,
                    ours=mine,
                    theirs=best,
                    measure="s",
                )
                print(
                    f"  {name}: {factor:,.0f} times faster than its fastest round "
                    f"(goal {GOALS[count]:.0f}: {verdict})",
                    flush=True,
                )


def scale(count: int, rounds: int = 100) -> dict[str, float]:
    """`count` parties of 10 records, 20 columns; to be called in a fresh process."""
    generator = np.random.default_rng(0)
    features = generator.normal(size=(count, 10, 20)).astype(np.float32) / 5
    labels = np.where(features @ generator.normal(size=20) > 0, 1.0, -1.0).astype(np.float32)
    timing, right = learn(features, labels, rounds)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return {**timing._asdict(), "accuracy": right, "memory": memory}


def many(runs: int) -> None:
    print("\n100,000 parties (10 records, 20 columns) x 100 rounds, everything included:")
    best = float("inf")
    for _ in range(runs):
        command = [sys.executable, __file__, "--scale", "100000"]
        run = subprocess.run(command, capture_output=True, text=True, check=True)
        seen = json.loads(run.stdout)
        best = min(best, seen["total"])
        print(
            f"  {seen['total']:.1f} s wall clock, {seen['processor']:.1f} s of processor, "
            f"peak memory {seen['memory']:.2f} GB, training accuracy {seen['accuracy']:.3f}, "
            f"load {os.getloadavg()[0]:.1f}",
            flush=True,
        )
    verdict = "reached" if best < SCALE_SECONDS else "MISSED"
    figures.report("100,000 parties x 100 rounds", best, "s", aim=SCALE_SECONDS, lower=True)
    print(f"  goal: under {SCALE_SECONDS:.0f} s on 2 cores: {best:.1f} s {verdict}")


def smoke() -> dict[str, float]:
    """One chunk of rounds over three parties."""
    generator = np.random.default_rng(0)
    features = generator.normal(size=(3, 10, 5)).astype(np.float32)
    features /= np.linalg.norm(features, axis=2, keepdims=True)
    found, right = learn(features, np.sign(features[..., 0]), CHUNK)
    return {"seconds": found.total, "accuracy": right}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    here = sys.executable if importlib.util.find_spec("ray") else None
    parser.add_argument("--peer", default=os.environ.get("UNISONO_PEER_PYTHON", here))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=6, help="rounds of the peer")
    parser.add_argument("--quick", action="store_true", help="one run each, three peer rounds")
    parser.add_argument("--only", choices=("rounds", "scale"))
    parser.add_argument("--scale", type=int, help=argparse.SUPPRESS)
    arguments = figures.options(parser, smoke, ("ray",))
    if arguments.scale:
        print(json.dumps(scale(arguments.scale)))
        return 0
    runs, rounds = (1, 3) if arguments.quick else (arguments.runs, arguments.rounds)
    if arguments.only != "scale":
        compare(arguments.peer, runs, rounds)
    if arguments.only != "rounds":
        many(runs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
