"""The stages of a study: what it releases before, while and after it learns, one after the other.

A stage is a study of its own: priced from public facts alone, so that what all stages cost is known
and authorised before the first one begins. What a stage reads of a party's records may depend on
what earlier ones released, which everybody knows by then: ranges that nobody knew bound
what the model reads, and scores of records that were kept out depend on the model that was learnt.

    found = {}
    for stage in stages:
        found[stage.name] = run(stage.begun(found), stage.prepare(records, found))

A stage may also begin with what an earlier one found (`start`): its price does not depend on that.

Ledgers add up all stages (sequential composition, adaptive): a later stage may depend on earlier
results in any way.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from unisono.core.costs import added
from unisono.core.events import Composed
from unisono.core.study import Study
from unisono.core.trust import Viewer
from unisono.data.encoding import Values

# What the stages before have released, by their names.
Found = Mapping[str, Any]
BOUNDS, START, FIT = "bounds", "start", "fit"
FIRST = "first"  # what START begins with
EVALUATION_START, EVALUATION = "evaluation-start", "evaluation"
TESTS = (EVALUATION_START, EVALUATION)


class SplitRecords(NamedTuple):
    """A party's records, read and checked: those to learn from, and those that are kept to test."""

    learnt: Values
    kept: Values


@dataclass(frozen=True)
class Stage:
    """One release of a study, or one run of rounds. `prepare` makes of a party's records the arrays
    that the stage's algorithm reads, given what earlier stages found. `last_if_lost`: where it
    opened nothing, no stage follows."""

    name: str
    study: Study
    prepare: Callable[[SplitRecords, Found], tuple[np.ndarray, ...]]
    last_if_lost: bool = True
    begins_with: str = START

    def begun(self, found: Found) -> Study:
        """Its study, from the states that the stage before told, if there is one."""
        first = self.begins_with
        return self.study.begun(found[first]) if first in found else self.study

    def columns(self, records: Any, found: Found) -> Any:
        """What the stage reads of a party's records: arrays, or a stream of them."""
        if isinstance(records, SplitRecords):
            return self.prepare(records, found)
        return records.columns(lambda part: self.prepare(part, found))

    @property
    def suffix(self) -> str:
        """What tells its payments and its session from those of the stage that learns."""
        return "" if self.name == FIT else f" {self.name}"


def costs_of(stages: Sequence[Stage]) -> Sequence[Mapping[Viewer, Composed]]:
    """What all stages together show of each party to each viewer."""
    first, *others = (stage.study.costs for stage in stages)
    if not others:
        return first
    made: dict[tuple[int, ...], Mapping[Viewer, Composed]] = {}  # parties that pay alike share one
    for parts in zip(first, *others, strict=True):
        made.setdefault(tuple(map(id, parts)), added(parts))
    return [made[tuple(map(id, parts))] for parts in zip(first, *others, strict=True)]


__all__ = [
    "BOUNDS",
    "EVALUATION",
    "EVALUATION_START",
    "FIRST",
    "FIT",
    "START",
    "TESTS",
    "Found",
    "SplitRecords",
    "Stage",
    "costs_of",
]
