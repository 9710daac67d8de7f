"""How a benchmark hands its figures over to the scorecard: one JSON line each.

    report("sum of 1e6 integers", 146, "times faster", aim=100, peer="MPyC", command="...")

Lines go to the file that UNISONO_FIGURES names, which `run.py` sets; without it nothing is written.
`aim` is what the figure should be at least, or, with `lower=True`, at most. `missing` names a peer
that is not on this machine, and the command that installs it.
"""

import json
import math
import os


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


def _write(line: dict[str, object]) -> None:
    place = os.environ.get("UNISONO_FIGURES")
    if place:
        with open(place, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
