"""What everybody does first: a private mean of a long list, and a study from a file.

    python benchmarks/everyday.py [--numbers 10000000] [--repeats 5] [--smoke]

1. `unisono.mean` of ten million doubles, some of them outside their bounds, paid for in a ledger on
   the disk, beside NumPy's clip-and-mean and NumPy's mean of the same array, in turns in one
   process. NumPy's mean alone is one pass over the memory; a private one must also look for
   what cannot be read, clip, centre, round and count what it clipped.
2. `unisono run` of the example with five hospitals, 20 rounds, from the files to the report, in a
   fresh process: after its imports, with an empty cache of compiled programs and with a full one.

Processor time, the least of several: on a machine that others use it is the better guide.
"""

import argparse
import json
import os
import runpy
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

import figures

SCORECARD = figures.Benchmark(quick=("--repeats", "3"))

BOUNDS = (0.0, 120.0)
AIM_MEAN, AIM_RUN = 3.0, 2.0
HOSPITALS = Path(__file__).parents[1] / "examples" / "hospitals" / "make_data.py"
# Imports everything that the command uses before the clock starts.
RUN = """
import json, sys, time, warnings
import unisono.cli.deploy_record, unisono.cli.run, unisono.deployment.local_run
import unisono.deployment.record, unisono.reports.html, unisono.studies.explain
from unisono.cli import main
sys.argv = ["unisono", "run", *sys.argv[1:]]
began = time.process_time()
try:
    main()
except SystemExit as ended:
    assert not ended.code, ended.code
print(json.dumps(time.process_time() - began))
"""


def means(numbers: int, repeats: int) -> dict[str, float]:
    """Seconds of NumPy's mean, of its clip-and-mean and of ours."""
    import unisono

    values = np.random.default_rng(0).normal(50, 20, numbers)  # 0.6 % lie outside
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that some are clipped
        ledger = unisono.open_ledger(Path(folder) / "values.ledger", "values", epsilon=1.0)
        return figures.least(
            {
                "mean": values.mean,
                "clip and mean": lambda: np.clip(values, *BOUNDS).mean(),
                "ours": lambda: unisono.mean(values, BOUNDS, epsilon=1e-3, ledger=ledger),
            },
            repeats,
        )


def hospitals(repeats: int) -> dict[str, float]:
    """Seconds of `unisono run` after its imports."""
    found = {"empty cache": float("inf"), "full cache": float("inf")}
    for _ in range(repeats):
        with tempfile.TemporaryDirectory() as cache:
            for name in found:
                found[name] = min(found[name], _hospitals(cache))
    return found


def _hospitals(cache: str) -> float:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "hospitals"
        made = subprocess.run([sys.executable, str(HOSPITALS), str(folder)], capture_output=True)
        made.check_returncode()
        ended = subprocess.run(
            [sys.executable, "-c", RUN, str(folder / "study.toml"), "--data", str(folder)],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "XDG_CACHE_HOME": cache},
        )
        return float(json.loads(ended.stdout.splitlines()[-1]))


def smoke() -> dict[str, float]:
    with tempfile.TemporaryDirectory() as place:  # the example can still be made
        runpy.run_path(str(HOSPITALS))["main"](Path(place) / "hospitals")
    return means(100_000, 1)


def main(numbers: int, repeats: int) -> None:
    found = means(numbers, repeats)
    print(f"mean of {numbers:,} doubles, processor time (load {os.getloadavg()[0]:.1f})")
    for name, seconds in found.items():
        print(f"  {name:<16}{seconds * 1e3:>9.1f} ms")
    for peer in ("clip and mean", "mean"):
        ratio = found["ours"] / found[peer]
        print(f"  ours / NumPy's {peer}: {ratio:.1f} (aim: at most {AIM_MEAN:g})")
        figures.report(
            f"private mean of {numbers:,} doubles over NumPy's {peer}",
            ratio,
            "times the processor time",
            aim=AIM_MEAN,
            peer="NumPy",
            lower=True,
            ratio=True,
            ours=found["ours"],
            theirs=found[peer],
            measure="s",
        )
    for name, seconds in hospitals(max(1, repeats // 2)).items():
        print(f"unisono run, five hospitals, 20 rounds, {name}: {seconds:.2f} s of processor")
        figures.report(
            f"unisono run of the hospitals, {name}", seconds, "s", aim=AIM_RUN, lower=True
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--numbers", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    given = figures.options(parser, smoke)
    main(given.numbers, given.repeats)
