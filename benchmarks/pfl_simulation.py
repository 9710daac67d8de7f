"""Seconds per round: many parties in one process, against pfl-research's simulation.

    python benchmarks/pfl_simulation.py [--peer path/to/python] [--quick]

Logistic regression over 100 and 500 parties (100 records, 20 columns each), with ours as in
`speed_rounds.py`: gradient perturbation with records clipped, a secure sum, ledgers and accounting
included. pfl (Granqvist et al. 2024) runs federated averaging of one local step with central
noise, in the Python named by --peer (or UNISONO_PEER_PYTHON) that has pfl and torch. The seconds
are of processor, since others may use the machine; each side's best round, or run, counts.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import figures
import speed_rounds
from peers import PEERS, last_line

SCORECARD = figures.Benchmark(peer="pfl")

HERE = Path(__file__).parent
NAME = "pfl-research's simulation"
FASTER = 10.0


def peer(python: str, count: int, rounds: int) -> dict[str, Any] | str:
    """Its seconds per round, or why there are none."""
    command = [python, str(HERE / "pfl_rounds.py"), f"--parties={count}", f"--rounds={rounds}"]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    except (OSError, subprocess.TimeoutExpired) as reason:
        return f"{type(reason).__name__}: {reason}"
    lines = [line for line in run.stdout.splitlines() if line.startswith('{"parties"')]
    if run.returncode or not lines:
        return last_line(run.stderr if run.returncode else run.stdout)
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def compare(python: str | None, count: int, runs: int, rounds: int) -> None:
    _, warm = speed_rounds.ours(count, runs)
    mine = warm.processor / speed_rounds.ROUNDS
    print(f"{count} parties, ours: {mine * 1e3:.3f} ms of processor a round, everything included")
    name = f"a round of {count} parties, all included, processor time"
    theirs = peer(python, count, rounds) if python else "no Python with pfl and torch"
    if isinstance(theirs, str):
        print(f"{count} parties, pfl: not measured: {theirs}", flush=True)
        figures.unmeasured(name, theirs, aim=FASTER, peer=NAME)
        return
    best = min(theirs["busy"][1:])  # the first round compiles, and evaluates
    print(
        f"{count} parties, pfl: {best * 1e3:.2f} ms of processor a round, {best / mine:,.0f} "
        f"times as much (aim: {FASTER:g})",
        flush=True,
    )
    figures.report(
        name,
        best / mine,
        "times faster",
        aim=FASTER,
        peer=NAME,
        ratio=True,
        ours=mine,
        theirs=best,
        measure="s",
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--peer", default=os.environ.get("UNISONO_PEER_PYTHON"))
    parser.add_argument(
        "--quick", action="store_true", help="one run of ours, ten rounds of theirs"
    )
    arguments = figures.options(parser, speed_rounds.smoke, ("pfl",))
    if arguments.peer is None:
        figures.missing(NAME, next(one.install for one in PEERS if one.name == "pfl"))
    runs, rounds = (1, 10) if arguments.quick else (3, 50)
    for count in speed_rounds.PARTIES:
        compare(arguments.peer, count, runs, rounds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
