"""The plan of survival curves: how wide their intervals will be, and which hazard ratios a log-rank
test will find. No table is read."""

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from unisono.algorithms.log_rank import LOG_RANK
from unisono.cli import words
from unisono.cli.output import console, write_json
from unisono.planning.curve_widths import CurveWidths, curve_widths
from unisono.studies.build import build
from unisono.studies.schema import StudyFile

_RATIOS = (1.2, 1.5, 2.0)


def curve_plan(
    file: StudyFile, effects: Sequence[float] = (), majority: float | None = None
) -> tuple[CurveWidths, dict[float, float | None]]:
    """The prediction for a study file, and the power at each hazard ratio."""
    first, *others = (stage.study for stage in build(file).stages)
    second = others[-1] if others and others[-1].algorithm.name == LOG_RANK.name else None
    found = curve_widths(first, second, None if majority is None else 1 - majority)
    return found, {one: found.power(one) for one in tuple(effects) or _RATIOS}


def write_curves(
    file: StudyFile, found: CurveWidths, powers: dict[float, float | None], json: bool
) -> None:
    if json:
        write_json(_document(file, found, powers))
        return
    out = console()
    size = words.times(len(file.parties), "party", "parties")
    out.print(
        f"survival of {file.data.target}: {size}, {found.records:,} records in all, "
        f"{words.times(found.groups, 'group')}, {found.bins} intervals of time; epsilon "
        f"{file.privacy.epsilon:g} at delta {words.plain(file.privacy.delta)}, {file.trust.mode}"
    )
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for head in ("share of the horizon", "survival", "95 % interval", "without privacy"):
        table.add_column(head, justify="right", no_wrap=True)
    for one in found.points:
        reach = "not determined" if one.reach is None else f"± {one.reach:.3f}"
        row = (f"{one.time:.2f}", f"{one.survival:.3f}", reach, f"± {one.without_privacy:.3f}")
        table.add_row(*row)
    out.print(table)
    for ratio, power in powers.items():
        if power is not None:
            out.print(f"A hazard ratio of {ratio:g} is found by {100 * power:.0f} % of 5 % tests.")
    out.print(
        "Supposed: groups of equal size, a constant hazard, everybody followed up to the horizon, "
        "and a half with an event by then unless told (--majority)."
    )
    out.print("No data were read and nothing was spent.")


def _document(
    file: StudyFile, found: CurveWidths, powers: dict[float, float | None]
) -> dict[str, Any]:
    return {
        "task": "survival curves",
        "records": [party.records for party in file.parties],
        "epsilon": file.privacy.epsilon,
        "delta": file.privacy.delta,
        "trust": str(file.trust.mode),
        "intervals_of_time": found.bins,
        "points": [vars(one) for one in found.points],
        "log_hazard_ratio_error": found.ratio_error,
        "log_hazard_ratio_error_without_privacy": found.ratio_error_alone,
        "power": {f"{ratio:g}": power for ratio, power in powers.items()},
    }


__all__ = ["curve_plan", "write_curves"]
