"""What every side of the network benchmark shares: models, data, the clock. NumPy alone.

A side (`networks_peer_torch`, `networks_peer_jax`) is a table from a method's name to a function

    prepare(model, noise) -> run,    run(steps) trains for that many steps and waits for the end.

`serve` prints one JSON line per measurement: seconds of processor and of wall clock per step,
medians over repetitions that take turns (so that a busy minute hurts every method alike), or the
peak memory of this process, which must then be a fresh one.
"""

import argparse
import json
import math
import resource
import statistics
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

import figures

CLIP, NOISE, RATE = 1.0, 1.0, 0.1  # clipping norm, std of the noise over it, learning rate
Run = Callable[[int], None]
Prepare = Callable[[str, bool], Run]


class Task(NamedTuple):
    """One model's data and (expected) batch; `chunk` steps are compiled or called at a time."""

    records: int
    shape: tuple[int, ...]
    classes: int
    batch: int
    chunk: int


TASKS = {
    "mlp": Task(60_000, (784,), 10, 600, 16),
    "conv": Task(60_000, (28, 28, 1), 10, 600, 4),
    "logistic": Task(48_000, (100,), 2, 480, 100),
}


def shrink() -> None:
    """Make the smallest task tiny, for a smoke run, which ends with its process."""
    TASKS["logistic"] = Task(480, (100,), 2, 48, 2)


def data(model: str) -> tuple[np.ndarray, np.ndarray]:
    """Synthetic records: time depends on shapes only."""
    task, generator = TASKS[model], np.random.default_rng(0)
    features = generator.standard_normal((task.records, *task.shape), np.float32)
    return features, generator.integers(0, task.classes, task.records, np.int32)


def _clock() -> tuple[float, float]:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime, time.perf_counter()


def _seconds(run: Run, steps: int) -> tuple[float, float]:
    processor, wall = _clock()
    run(steps)
    later = _clock()
    return later[0] - processor, later[1] - wall


def measure(runs: Mapping[str, Run], chunk: int, seconds: float, repeats: int) -> None:
    """Print the median seconds per step of each run; a repetition takes at least `seconds`."""
    counts: dict[str, int] = {}
    taken: dict[str, list[tuple[float, float]]] = {}
    for name, run in runs.items():
        run(chunk)  # compiles
        steps, trial = chunk, _seconds(run, chunk)
        while trial[0] < seconds:
            rise = min(50, 1.1 * seconds / max(trial[0], 1e-6))
            steps = chunk * math.ceil(rise * steps / chunk)
            trial = _seconds(run, steps)
        counts[name], taken[name] = steps, [trial]
    for _ in range(repeats - 1):
        for name, run in runs.items():
            taken[name].append(_seconds(run, counts[name]))
    for name, pairs in taken.items():
        processor, wall = zip(*pairs, strict=True)
        answer = {
            "method": name,
            "steps": counts[name],
            "processor": statistics.median(processor) / counts[name],
            "wall": statistics.median(wall) / counts[name],
            "spread": (max(processor) - min(processor)) / statistics.median(processor),
        }
        print(json.dumps(answer), flush=True)


def labels(methods: Iterable[str], without_noise: Sequence[str] = ()) -> list[str]:
    """`method` and `method+noise`, but for those that never add any."""
    return [
        method + noise
        for method in methods
        for noise in ("", "+noise")
        if not (noise and method in without_noise)
    ]


def serve(side: Mapping[str, Prepare], without_noise: Sequence[str], chunked: bool) -> int:
    """The command line of one side; `chunked` if its runs come in whole chunks of steps."""
    known = labels(side, without_noise)
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=TASKS, default="logistic")
    parser.add_argument("--methods", nargs="*", default=known, choices=known, metavar="METHOD")
    parser.add_argument(
        "--seconds", type=float, default=0.2, help="least processor time of a repetition"
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--memory", action="store_true", help="peak of this process, instead")
    parser.add_argument("--smoke", action="store_true", help=figures.SMOKE_HELP)
    arguments = parser.parse_args()
    if arguments.smoke:
        shrink()
        last = list(side)[-1]
        processor, wall = _seconds(side[last]("logistic", False), TASKS["logistic"].chunk)
        figures.smoked({f"seconds of {last}": wall, "of processor": processor})
        return 0
    chunk = TASKS[arguments.model].chunk if chunked else 1
    runs: dict[str, Run] = {}
    for name in arguments.methods:
        method, _, noise = name.partition("+")
        try:
            runs[name] = side[method](arguments.model, bool(noise))
        except NotImplementedError as reason:
            print(json.dumps({"method": name, "reason": str(reason)}))
    if not arguments.memory:
        measure(runs, chunk, arguments.seconds, arguments.repeats)
        return 0
    for name, run in runs.items():
        run(2 * chunk)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
        print(json.dumps({"method": name, "memory": peak}))
    return 0
