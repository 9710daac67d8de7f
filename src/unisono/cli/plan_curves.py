"""The plan of survival curves: how wide their intervals will be, and which hazard ratios a log-rank
test will find, and whether the smallest and the largest party would be better off alone. No table
is read."""

import json as plain
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from pydantic import ValidationError
from rich.table import Table

from unisono.algorithms.log_rank import LOG_RANK
from unisono.algorithms.survival_table import SURVIVAL_TABLE
from unisono.cli import words
from unisono.cli.output import console, write_json
from unisono.core.trust import Trust
from unisono.errors import ConditionViolated, InvalidInput
from unisono.planning.alone import Place, gain, places, who
from unisono.planning.curve_widths import CurveWidths, curve_widths
from unisono.studies.build import build
from unisono.studies.schema import StudyFile

_RATIOS = (1.2, 1.5, 2.0)


def curve_plan(
    file: StudyFile, effects: Sequence[float] = (), majority: float | None = None
) -> tuple[CurveWidths, dict[float, float | None]]:
    """The prediction for a study file, and the power at each hazard ratio."""
    studies = {stage.study.algorithm.name: stage.study for stage in build(file).stages}
    table, test = studies[SURVIVAL_TABLE.name], studies.get(LOG_RANK.name)
    found = curve_widths(table, test, None if majority is None else 1 - majority)
    return found, {one: found.power(one) for one in tuple(effects) or _RATIOS}


class AloneCurve(NamedTuple):
    """Half the width of the interval at the horizon, together, alone under the same promise (None
    where noise drowns it) and alone without noise."""

    party: str
    place: Place
    records: int
    together: float | None
    promised: float | None
    unshared: float

    @property
    def words(self) -> str:
        together, promised, unshared = (
            "not determined" if one is None else f"± {one:.3f}"
            for one in (self.together, self.promised, self.unshared)
        )
        known = math.inf if self.together is None else self.together
        return (
            f"{who(self.party, self.place, self.records)} "
            f"{gain(known, self.promised, self.unshared)}: survival at the horizon is {together} "
            f"together; alone {promised} under the same promise, and {unshared} without noise, for "
            "its own eyes."
        )


def apart(
    file: StudyFile, found: CurveWidths, majority: float | None = None
) -> Iterator[AloneCurve]:
    """The smallest and the largest party; whoever cannot run it alone is left out."""
    said = file.model_dump(mode="json", exclude_unset=True)
    for place, number in places([party.records for party in file.parties]).items():
        party = said["parties"][number]
        own = {**said, "parties": [party], "trust": {"mode": str(Trust.LOCAL)}}
        try:
            alone, _ = curve_plan(StudyFile.model_validate_json(plain.dumps(own)), (), majority)
        except (InvalidInput, ConditionViolated, ValidationError):
            continue
        last, horizon = alone.points[-1], found.points[-1]
        yield AloneCurve(
            party["name"],
            place,
            party["records"],
            horizon.reach,
            last.reach,
            last.without_privacy,
        )


def write_curves(
    file: StudyFile,
    found: CurveWidths,
    powers: dict[float, float | None],
    json: bool,
    majority: float | None = None,
) -> None:
    alone = list(apart(file, found, majority))
    if json:
        write_json({**_document(file, found, powers), "parties": [x._asdict() for x in alone]})
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
    for party in alone:
        out.print(party.words)
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
