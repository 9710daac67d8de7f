"""Run the benchmarks, each in a process of its own, and write the scorecard.

    python benchmarks/run.py [--quick] [name ...]     run, then write the page
    python benchmarks/run.py --page                   write the page from what was run before

    benchmarks/results/scorecard.html, scorecard.md   every figure, peer by peer
    benchmarks/results/<name>.txt                     what each benchmark printed
    benchmarks/results/scorecard/<name>.json          its state, seconds and figures

With --quick everything goes to benchmarks/results/quick, so that no full run is overwritten. Aims
are those of full runs on a machine that does nothing else.

Peers that need an environment of their own are named by variables; a peer that is not there is
named on the page with the command that installs it:

    UNISONO_PEER_TORCH        a Python with torch and opacus
    UNISONO_PEER_MPYC         a Python with mpyc, numpy and gmpy2
    UNISONO_PEER_RAY          a Python with flwr[simulation]
    UNISONO_PEER_DIFFPRIVLIB  a Python with diffprivlib
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import figures
import scorecard

HERE = Path(__file__).parent
RESULTS = HERE / "results"


class Benchmark(NamedTuple):
    """How a benchmark is called, and for how many seconds at most. `quick` None: only in full.

    `peer` is the variable that names the peer's Python, which the benchmark reads from `reads`.
    """

    name: str
    quick: tuple[str, ...] | None
    full: tuple[str, ...] = ()
    seconds: int = 1800
    peer: str = ""
    reads: str = "UNISONO_PEER_PYTHON"


BENCHMARKS = (
    Benchmark("accounting", ("--quick", "--repetitions", "2")),
    Benchmark("exact_samplers", ("--draws", "200000", "--repeats", "3")),
    Benchmark("in_graph_noise", ("262144", "10", "5")),
    Benchmark("ledger", ()),
    Benchmark("secure_sum", ("--quick",), peer="UNISONO_PEER_MPYC", reads="UNISONO_MPYC_PYTHON"),
    Benchmark("secure_sum_graphs", ("--quick",)),
    Benchmark("secure_rounds", ("--quick",)),
    Benchmark("flower_latency", ("--quick",)),
    Benchmark("many_parties", ("--smoke",), seconds=3600),
    Benchmark("soak", ("--smoke",), seconds=3600),
    Benchmark("speed_rounds", ("--quick",), peer="UNISONO_PEER_RAY"),
    Benchmark(
        "networks", ("--quick", "--models", "logistic"), seconds=5400, peer="UNISONO_PEER_TORCH"
    ),
    Benchmark("pvi_speed", ()),
    Benchmark("adult", ("--seeds", "1"), peer="UNISONO_PEER_DIFFPRIVLIB"),
    Benchmark("adult_bayes", None),
    Benchmark("network_estimators", None),
    Benchmark("convex_accuracy", None),
    Benchmark("kddcup", None),
    Benchmark("mnist", None, seconds=5400),
    Benchmark("parties", None),
    Benchmark("unequal_parties", ("--smoke",)),
    Benchmark("utility_bounds", None),
    Benchmark("audits", ("--quick",)),
    Benchmark("tensor_attack", ("--quick",)),
    Benchmark(
        "gradient_inversion", ("--quick", "--parts", "plain", "peer"), peer="UNISONO_PEER_TORCH"
    ),
    Benchmark("streaming", ("--rows", "4000000"), seconds=3600),
    Benchmark("posterior_coverage", ("--quick",), seconds=1800),
    Benchmark("planning", ("--quick", "--seeds", "6", "--tasks", "classification"), seconds=5400),
)
QUICK_SECONDS = 300


def run(benchmark: Benchmark, quick: bool) -> dict[str, Any]:
    """One benchmark: its state, what it printed and the figures that it handed over."""
    options = benchmark.quick if quick else benchmark.full
    if options is None:
        return {"state": "left to the full run", "figures": [], "missing": []}
    command = [sys.executable, str(HERE / f"{benchmark.name}.py"), *options]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "figures.jsonl"
        limit, began = QUICK_SECONDS if quick else benchmark.seconds, time.monotonic()
        load = round(os.getloadavg()[0], 1)
        text, code = _ended(command, _environment(benchmark, place), limit)
        lines = place.read_text().splitlines() if place.exists() else []
    found = [json.loads(line) for line in lines]
    return {
        "state": _state(code, limit),
        "seconds": round(time.monotonic() - began, 1),
        "command": " ".join(["python", f"benchmarks/{benchmark.name}.py", *options]),
        "figures": [one for one in found if "name" in one],
        "missing": [one for one in found if "missing" in one] + _absent(text),
        "printed": text,
        "quick": quick,
        "load": load,
    }


def _absent(text: str) -> list[dict[str, str]]:
    """A library whose absence ended a benchmark."""
    last = (text.strip().splitlines() or [""])[-1]
    name = last.partition("No module named ")[2].strip("'\"").partition(".")[0]
    return [{"missing": name, "install": "pip install -e '.[bench,test,flower]'"}] if name else []


def _environment(benchmark: Benchmark, figures: Path) -> dict[str, str]:
    """Figures go to the file; a peer's Python is only known to the benchmark that it is for."""
    known = {k: v for k, v in os.environ.items() if k not in ("UNISONO_PEER_PYTHON",)}
    python = os.environ.get(benchmark.peer, "") if benchmark.peer else ""
    if python:
        known[benchmark.reads] = python
    return {**known, "UNISONO_FIGURES": str(figures)}


def _ended(command: list[str], environment: dict[str, str], limit: int) -> tuple[str, int | None]:
    """What was printed, and the exit code; None where the time was over."""
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        start_new_session=True,
    )
    try:
        return process.communicate(timeout=limit)[0], process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGTERM)  # with whatever it has started
        return process.communicate()[0], None
    finally:  # whoever stops this program stops what it runs
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGTERM)


def _state(code: int | None, limit: int) -> str:
    if code is None:
        return f"failed: not done after {limit} s"
    return "done" if code == 0 else f"failed: exit code {code}"


def smoke() -> dict[str, float]:
    """Whether all files are there; `tests/test_benchmarks.py` runs each with --smoke."""
    there = [one.name for one in BENCHMARKS if (HERE / f"{one.name}.py").is_file()]
    return {"benchmarks": len(BENCHMARKS), "of which there are": len(there)}


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    known = {one.name: one for one in BENCHMARKS}
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(known))
    parser.add_argument("--quick", action="store_true", help="a small part, in ten minutes")
    parser.add_argument("--page", action="store_true", help="only write the page anew")
    arguments = figures.options(parser, smoke)
    unknown = set(arguments.names) - set(known)
    if unknown:
        print(f"unknown benchmark {', '.join(sorted(unknown))}: choose from {', '.join(known)}")
        return 2
    place = RESULTS / "quick" if arguments.quick else RESULTS
    kept = place / "scorecard"
    kept.mkdir(parents=True, exist_ok=True)
    for name in () if arguments.page else arguments.names or known:
        print(f"== {name}", flush=True)
        found = run(known[name], arguments.quick)
        if "printed" in found:
            print(found["printed"], flush=True)
            (place / f"{name}.txt").write_text(found["printed"])
        (kept / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")
    card = scorecard.collect(kept, list(known))
    for path in scorecard.write(card, place):
        print(f"page: {path.relative_to(HERE.parent)}")
    print(scorecard.summary(card))
    return 1 if card.failed else 0


if __name__ == "__main__":
    sys.exit(main())
