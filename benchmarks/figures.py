"""How a benchmark hands its figures over to the scorecard: one JSON line each.

    report("sum of 1e6 integers", 146, "times faster", aim=100, peer="MPyC", ratio=True,
           ours=0.055, theirs=8.0, measure="s")

Lines go to the file that UNISONO_FIGURES names, which `run.py` sets; without it nothing is written.
`aim` is what the figure should be at least, or, with `lower=True`, at most. `ours` and `theirs` are
what a ratio was made of. `unmeasured` is a row without a figure that says why, `missing` names a
peer that is not on this machine, and the command that installs it. A missed aim is no failure: the
exit code is 0, and the page judges.

A script in this folder is a benchmark, and on the scorecard, when it calls `figures.report` or says
how it is called (without which: `--quick`, if it has that option, in the quick form):

    SCORECARD = figures.Benchmark(quick=("--quick",), full=("--seeds", "5"), peer="torch")

which `run.py` reads without importing the script, so it is written with literals. `peer` names an
environment of `peers.py`, whose Python the script finds in UNISONO_PEER_PYTHON; those of all
environments are in UNISONO_PEER_TORCH, UNISONO_PEER_DIFFPRIVLIB and so on.

Every benchmark has `--smoke`: one tiny measurement of ours, in seconds, printed as one line of JSON

    {"smoke": {"what": number, ...}, "missing": ["a peer that is not installed", ...]}

which says that the benchmark still works, and nothing about speed.
"""

import argparse
import importlib.util
import json
import math
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, NoReturn

Smoke = Callable[[], Mapping[str, float]]
SMOKE_HELP = "one tiny measurement of ours as a line of JSON, without peers"


class Benchmark(NamedTuple):
    """How a benchmark is called. `quick` None: only in full; `seconds` at most for the full form.

    `peer` is the environment in `peers.py` whose Python the benchmark reads from
    UNISONO_PEER_PYTHON.
    """

    quick: tuple[str, ...] | None = ("--quick",)
    full: tuple[str, ...] = ()
    seconds: int = 1800
    peer: str = ""


def report(
    name: str,
    value: float,
    unit: str,
    *,
    aim: float | None = None,
    peer: str = "",
    command: str = "",
    lower: bool = False,
    ratio: bool = False,
    ours: float | None = None,
    theirs: float | None = None,
    measure: str = "",
) -> None:
    """One figure; `ratio=True` draws it on the scorecard's axis of costs, ours over the peer's.

    A ratio with `lower=True` is that cost; otherwise it is how many times better we are, the
    cost's inverse. `ours` and `theirs` are in units of `measure`. What is not finite, and a ratio
    that is not positive (differences of times on a busy machine may be), was not measured.
    """
    number = float(value)
    measured = math.isfinite(number) and (number > 0 or not ratio)
    _write(
        {
            "name": name,
            "value": number if measured else None,
            "unit": unit,
            "aim": aim,
            "peer": peer,
            "command": command,
            "lower": lower,
            "ratio": ratio,
            "ours": ours if ours is not None and math.isfinite(ours) else None,
            "theirs": theirs if theirs is not None and math.isfinite(theirs) else None,
            "measure": measure,
        }
    )


def unmeasured(name: str, why: str, *, aim: float | None = None, peer: str = "") -> None:
    """A row that has no figure, and the reason: data that cannot be shipped and how to get it."""
    _write({"name": name, "value": None, "unit": "", "aim": aim, "peer": peer, "why": why})


def missing(peer: str, install: str) -> None:
    """A peer that could not be measured."""
    _write({"missing": peer, "install": install})


def least(runs: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Seconds of processor time, all in turns, the least of each. A run should take milliseconds:
    the clock hears late of what a thread of another library has just done."""
    found = dict.fromkeys(runs, float("inf"))
    for _ in range(repeats):
        for name, run in runs.items():
            began = time.process_time()
            run()
            found[name] = min(found[name], time.process_time() - began)
    return found


def options(
    parser: argparse.ArgumentParser, smoke: Smoke, peers: Sequence[str] = ()
) -> argparse.Namespace:
    """The options of a benchmark; with --smoke its line is printed and the program ends."""
    parser.add_argument("--smoke", action="store_true", help=SMOKE_HELP)
    found = parser.parse_args()
    if found.smoke:
        smoked(smoke(), peers)
        raise SystemExit(0)
    return found


def smoked(measured: Mapping[str, float], peers: Sequence[str] = ()) -> None:
    """The line of a smoke run; `peers` are modules that a whole run compares with."""
    absent = [name for name in peers if importlib.util.find_spec(name) is None]
    plain = {name: float(value) for name, value in measured.items()}
    print(json.dumps({"smoke": plain, "missing": absent}), flush=True)


def without_peer(description: str | None, peer: str, remedy: str, code: int = 0) -> NoReturn:
    """The end of a peer's own script in a Python without the peer: help, smoke line, or why not."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--smoke", action="store_true", help=SMOKE_HELP)
    if parser.parse_known_args()[0].smoke:
        print(json.dumps({"smoke": {}, "missing": [peer]}))
        raise SystemExit(0)
    print(f"skipped: this Python has no {peer}; {remedy}", file=sys.stderr if code else sys.stdout)
    raise SystemExit(code)


def _write(line: dict[str, object]) -> None:
    place = os.environ.get("UNISONO_FIGURES")
    if place:
        with open(place, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
