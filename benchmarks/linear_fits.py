"""Linear models over parties, against scikit-learn without privacy, NumPy and diffprivlib.

    python benchmarks/linear_fits.py [--quick] [--only rounds fits memory] [--repeats 3]

1. One gradient round of Adult's size (48,842 x 100): clipped gradients of all records, quantized
   and summed, beside NumPy's closed form of the same clipped sum, and of the sum without clipping.
2. Logistic regression by gradient perturbation over ten parties, with the default number of rounds,
   ledgers, noise and certificate included, after compilation; beside scikit-learn's
   LogisticRegression on the same rows in one place. First: with compilation.
3. Peak memory of such a fit beyond what the process held before (the records among it), over the
   size of the records.

Processor time of one process with one thread each, both sides alternating, minima over repeats: the
machine may have other work. diffprivlib runs in the Python that UNISONO_PEER_PYTHON names.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import figures

SCORECARD = figures.Benchmark(seconds=3600, peer="diffprivlib")

PARTIES = 10
ADULT = (48_842, 100)
FITS = ((100_000, 20), (200_000, 100), (1_000_000, 20), (1_000_000, 100))
QUICK = ((100_000, 20), (200_000, 100))
AIM_RATIO, AIM_FIRST, AIM_MEMORY, AIM_ROUND = 5.0, 4.0, 1.5, 1.0
CLIPPING_NORM = 0.4
TOGETHER = 30
INSTALL = "python -m venv peer && peer/bin/pip install diffprivlib==0.6.6 'scikit-learn<1.6'"
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
}
Columns = tuple[np.ndarray, np.ndarray]


def records(count: int, features: int) -> Columns:
    """Rows in the unit ball and labels -1, +1 that follow a plane, but for noise."""
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(count, features)).astype(np.float32)
    rows /= np.maximum(1, np.linalg.norm(rows, axis=1))[:, None]
    scores = rows @ generator.normal(size=features) + 0.3 * generator.normal(size=count)
    return rows, np.where(scores > 0, 1.0, -1.0).astype(np.float32)


def one_thread() -> None:
    """Start this program anew if libraries would use several: they decide when they are loaded."""
    if not os.environ.keys() >= ONE_THREAD.keys():
        environment = {**ONE_THREAD, **os.environ}
        os.execve(sys.executable, [sys.executable, *sys.argv], environment)


# ------------------------------------------------------------- ours


def study_of(sizes: Sequence[int], features: int, rounds: int | None = None) -> Any:
    """A secure sum in which one party may be curious; one party alone adds all of its noise."""
    from unisono import Facts, Privacy, Study, Trust
    from unisono.algorithms.gradient_perturbation import GRADIENT_PERTURBATION
    from unisono.problems.linear import linear_loss

    settings = {} if rounds is None else {"rounds": rounds}
    method = GRADIENT_PERTURBATION.method(
        linear_loss(), Privacy(1.0, 1e-8), clipping_norm=CLIPPING_NORM, **settings
    )
    several = len(sizes) > 1
    facts = Facts(tuple(sizes), features, len(sizes), int(several))
    return Study(method, facts, Trust.SECURE_SUM if several else Trust.LOCAL)


def fit(columns: Columns, parties: int = PARTIES, rounds: int | None = None) -> np.ndarray:
    """Parameters, learnt over so many parties with a ledger each."""
    from unisono import ACCOUNTANT, Budget, Ledger, Party, Policy, Private
    from unisono.engines import in_process

    split = list(zip(*(np.array_split(column, parties) for column in columns), strict=True))
    study = study_of([len(own[1]) for own in split], columns[0].shape[1], rounds)
    members = [
        Party(
            f"p{number}",
            Private(own),
            Ledger.in_memory(Policy(f"p{number}", Budget(1.01, 1e-8)), ACCOUNTANT),
        )
        for number, own in enumerate(split)
    ]
    return np.asarray(in_process.run(study, members).value)


def one_round(columns: Columns) -> Callable[[], Any]:
    """A compiled round of the engine over one party, without its noise."""
    import jax

    study = study_of([len(columns[1])], columns[0].shape[1])
    algorithm = study.algorithm
    server, own = algorithm.init(study.facts)
    public, mask = algorithm.ask(server), np.ones(len(columns[1]), bool)
    given = jax.device_put((public, own, columns, mask, np.int32(len(mask))))
    compiled = jax.jit(lambda *one: algorithm.local(study.facts, *one)[1].value)
    jax.block_until_ready(compiled(*given))
    return lambda: jax.block_until_ready(compiled(*given))


# ------------------------------------------------------------- peers


def closed_form(columns: Columns, clip: bool) -> Callable[[], Any]:
    """The sum of all records' gradients in NumPy, each clipped or not."""
    rows, labels = columns
    parameters = np.zeros(rows.shape[1], np.float32)

    def run() -> np.ndarray:
        slopes = -labels / (1 + np.exp(labels * (rows @ parameters)))
        if clip:
            norms = np.sqrt(np.einsum("ij,ij->i", rows, rows)) * np.abs(slopes)
            slopes = slopes * np.minimum(1, CLIPPING_NORM / np.maximum(norms, 1e-30))
        return slopes @ rows

    return run


def scikit_learn(columns: Columns) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression().fit(*columns)


_DIFFPRIVLIB = """
import json, sys, time, warnings
import numpy as np
from diffprivlib.models import LogisticRegression
warnings.simplefilter("ignore")
given = np.load(sys.argv[1])
best = float("inf")
for _ in range(int(sys.argv[2])):
    began = time.process_time()
    LogisticRegression(epsilon=1.0, data_norm=1.0).fit(given["rows"], given["labels"])
    best = min(best, time.process_time() - began)
print(json.dumps(best))
"""


def diffprivlib(columns: Columns, repeats: int) -> float | str:
    """Seconds of processor time, or why there are none."""
    import tempfile

    python = os.environ.get("UNISONO_PEER_PYTHON")
    if not python:
        return "set UNISONO_PEER_PYTHON to an interpreter with diffprivlib"
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "records.npz"
        np.savez(place, rows=columns[0], labels=columns[1])
        command = [python, "-c", _DIFFPRIVLIB, str(place), str(repeats)]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        return (run.stderr.strip().splitlines() or ["no output"])[-1]
    return float(json.loads(run.stdout.splitlines()[-1]))


# ------------------------------------------------------------- what is measured


def _repeatedly(run: Callable[[], Any]) -> None:
    for _ in range(TOGETHER):
        run()


def rounds(repeats: int) -> None:
    columns = records(*ADULT)
    forms = {
        "ours": one_round(columns),
        "NumPy, clipped": closed_form(columns, clip=True),
        "NumPy, not clipped": closed_form(columns, clip=False),
    }
    # Many at a time: the clock hears late of what a thread of another library has just done.
    runs = {name: partial(_repeatedly, form) for name, form in forms.items()}
    found = {name: seconds / TOGETHER for name, seconds in figures.least(runs, repeats).items()}
    print(f"one gradient round of {ADULT[0]:,} x {ADULT[1]}, ms of processor time")
    for name, seconds in found.items():
        print(f"  {name:<20} {1e3 * seconds:7.2f}   ours is {found['ours'] / seconds:.2f} of it")
    figures.report(
        "one gradient round of Adult's size, processor time",
        found["ours"] / found["NumPy, clipped"],
        "of the peer's",
        aim=AIM_ROUND,
        peer="NumPy's closed form",
        lower=True,
        ratio=True,
        ours=found["ours"],
        theirs=found["NumPy, clipped"],
        measure="s",
    )


def fits(sizes: Sequence[tuple[int, int]], repeats: int) -> None:
    print(f"\nlogistic regression over {PARTIES} parties, seconds of processor time")
    print(f"{'records':>12} {'columns':>8} {'first':>7} {'ours':>7} {'sklearn':>8} {'ratio':>6}")
    for count, features in sizes:
        columns = records(count, features)
        began = time.process_time()
        fit(columns)
        first = time.process_time() - began
        runs = {"ours": lambda own=columns: fit(own), "peer": lambda own=columns: scikit_learn(own)}
        found = figures.least(runs, repeats)
        ratio = found["ours"] / found["peer"]
        print(
            f"{count:12,} {features:8} {first:7.2f} {found['ours']:7.2f} {found['peer']:8.2f} "
            f"{ratio:6.2f}",
            flush=True,
        )
        name = f"logistic fit over {PARTIES} parties, {count:,} x {features}"
        figures.report(
            f"{name}, processor time",
            ratio,
            "of the peer's",
            aim=None if (count, features) == FITS[0] else AIM_RATIO,  # there it is the first fit
            peer="scikit-learn, without privacy",
            lower=True,
            ratio=True,
            ours=found["ours"],
            theirs=found["peer"],
            measure="s",
        )
        if (count, features) == FITS[0]:
            figures.report(f"{name}, with compilation", first, "s", aim=AIM_FIRST, lower=True)
            with_diffprivlib(name, columns, found["ours"], repeats)


def with_diffprivlib(name: str, columns: Columns, ours: float, repeats: int) -> None:
    found = diffprivlib(columns, repeats)
    if isinstance(found, str):
        figures.missing("diffprivlib", INSTALL)
        print(f"  diffprivlib: not measured: {found}")
        return
    print(
        f"  diffprivlib (pure epsilon, one party): {found:.2f} s, ours is {ours / found:.2f} of it"
    )
    figures.report(
        f"{name}, processor time",
        ours / found,
        "of the peer's",
        peer="diffprivlib",
        lower=True,
        ratio=True,
        ours=ours,
        theirs=found,
        measure="s",
    )


def peak(count: int, features: int) -> dict[str, float]:
    """Peak memory of a fit in this process beyond what there was, over the size of the records."""
    columns = records(count, features)
    fit(records(2_000, 5), rounds=2)  # whatever is imported is not the fit's
    Path("/proc/self/clear_refs").write_text("5")
    before = _memory("VmRSS")
    fit(columns, rounds=20)
    size = sum(column.nbytes for column in columns)
    return {"ratio": (_memory("VmHWM") - before) / size, "megabytes": size / 1e6}


def _memory(name: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024.0 * int(next(one for one in lines if one.startswith(name)).split()[1])


def memory(size: tuple[int, int]) -> None:
    command = [sys.executable, __file__, "--peak", *map(str, size)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    found = json.loads(run.stdout.splitlines()[-1])
    name = f"memory of a fit of {size[0]:,} x {size[1]} beyond the records"
    print(f"\n{name}: {found['ratio']:.2f} times their {found['megabytes']:.0f} MB")
    figures.report(name, found["ratio"], "of the records' size", aim=AIM_MEMORY, lower=True)


def smoke() -> dict[str, float]:
    """One tiny fit and one round."""
    columns = records(400, 5)
    one = figures.least(
        {"a fit": lambda: fit(columns, 2, rounds=2), "a round": one_round(columns)}, 1
    )
    return {f"seconds of {name}": seconds for name, seconds in one.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parts = ("rounds", "fits", "memory")
    parser.add_argument("--quick", action="store_true", help="no fits of a million records")
    parser.add_argument("--only", nargs="+", choices=parts, default=parts)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--peak", type=int, nargs=2, help=argparse.SUPPRESS)
    arguments = figures.options(parser, smoke, ("diffprivlib",))
    if arguments.peak:
        print(json.dumps(peak(*arguments.peak)))
        return
    one_thread()
    print(f"load {os.getloadavg()[0]:.1f}", flush=True)
    if "rounds" in arguments.only:
        rounds(arguments.repeats)
    if "fits" in arguments.only:
        fits(QUICK if arguments.quick else FITS, arguments.repeats)
    if "memory" in arguments.only:
        memory(QUICK[-1] if arguments.quick else FITS[-1])


if __name__ == "__main__":
    main()
