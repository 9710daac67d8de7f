"""How a benchmark hands its figures over to the scorecard: one JSON line each.

    report("sum of 1e6 integers", 146, "times faster", aim=100, peer="MPyC", command="...")

Lines go to the file that UNISONO_FIGURES names, which `run.py` sets; without it nothing is written.
`aim` is what the figure should be at least, or, with `lower=True`, at most. `missing` names a peer
that is not on this machine, and the command that installs it.

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
from collections.abc import Callable, Mapping, Sequence
from typing import NoReturn

Smoke = Callable[[], Mapping[str, float]]
SMOKE_HELP = "one tiny measurement of ours as a line of JSON, without peers"


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
) -> None:
    """One figure; `ratio=True` draws it on the scorecard's axis of ratios.

    What is not finite, and a ratio that is not positive (differences of times on a busy machine
    may be), was not measured.
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
        }
    )


def missing(peer: str, install: str) -> None:
    """A peer that could not be measured."""
    _write({"missing": peer, "install": install})


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
