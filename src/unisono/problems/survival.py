"""Times until an event, some of them censored: what is asked, and what one record says about it.

A record is (time, event, group): the time at which it was last seen, as a share of a public
horizon; 1 if the event happened then, 0 if it was censored, so that the event comes later or never;
and the number of its group. Whoever was still there at the horizon has a time beyond 1. A record
that misses any of the three counts nowhere.

    S(t) = P(T > t) = exp(-Λ(t))       survival, and the cumulative hazard

Censoring is taken to be independent of the event within every group, as Kaplan and Meier (1958) do.

Of a regression a record is (features, time, event), and its hazard, with constant pieces in time,

    h(t | x) = exp(α_k + β·x)          t in piece k
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from unisono.errors import InvalidInput
from unisono.problems.glm import Columns

BEYOND = 2.0  # the time of records that outlast the horizon
MOST_BINS = 60  # intervals of time, at most


@dataclass(frozen=True)
class CountedTimes:
    """Times by group. `groups` are public names, one or more; `complete` says that no record misses
    a value, so that all of them count."""

    groups: tuple[str, ...]
    complete: bool = True

    def __post_init__(self) -> None:
        if not self.groups or len(set(self.groups)) < len(self.groups):
            raise InvalidInput(
                f"groups {self.groups!r}: name at least one, each once, from public knowledge"
            )

    @property
    def agreed(self) -> dict[str, Any]:
        return {"groups": list(self.groups), "complete": self.complete}


@dataclass(frozen=True)
class SurvivalTimes(CountedTimes):
    """The problem of curves, and of tests whether groups differ. `visits` are the times, in
    horizons, at which records are seen, where they are public: they end the intervals of time, and
    the horizon is the last of them."""

    visits: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        rising = all(a < b for a, b in pairwise((0.0, *self.visits)))
        if self.visits and not (rising and self.visits[-1] == 1 and len(self.visits) <= MOST_BINS):
            raise InvalidInput(
                f"visits {self.visits!r}: give at most {MOST_BINS} times that rise from above zero "
                "up to the horizon"
            )

    @property
    def agreed(self) -> dict[str, Any]:
        return {**super().agreed, "visits": list(self.visits)}


@dataclass(frozen=True)
class ScoredTimes(CountedTimes):
    """The problem of concordance: groups are intervals of a score, low ones first."""


@dataclass(frozen=True)
class ProportionalHazards:
    """The problem of a regression. Numbers among the features lie in [-1, 1], others are 0 or 1.
    The baseline hazard has so many `pieces`, which end where events do: every one of them is a
    parameter more that noise is added for, and four leave no bias that shows beside it."""

    columns: tuple[Columns, ...]
    pieces: int = 4

    @property
    def features(self) -> int:
        return sum(one.width for one in self.columns)

    def parts(self, rows: Any) -> tuple[Any, Any, Any]:
        """Features (n, d), times (n,) and events (n,) of rows."""
        d = self.features
        if rows.shape[1] < d + 2:  # or indices beyond the end would repeat its last number
            raise InvalidInput(f"rows of {rows.shape[1]} numbers for {d} features, time and event")
        return rows[:, :d], rows[:, d], rows[:, d + 1]

    @property
    def parameters(self) -> int:
        """Logarithms of the pieces' hazards, which come first, and coefficients."""
        return self.pieces + self.features

    @property
    def numeric(self) -> np.ndarray:
        """Which features are numbers (d,)."""
        return np.repeat([c.number for c in self.columns], [c.width for c in self.columns])

    @property
    def agreed(self) -> dict[str, Any]:
        columns = [[one.name, one.width, one.number] for one in self.columns]
        return {"columns": columns, "pieces": self.pieces}


__all__ = [
    "BEYOND",
    "MOST_BINS",
    "CountedTimes",
    "ProportionalHazards",
    "ScoredTimes",
    "SurvivalTimes",
]
