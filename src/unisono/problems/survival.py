"""Times until an event, some of them censored: what is asked, and what one record says about it.

A record is (time, event, group): the time at which it was last seen, as a share of a public
horizon; 1 if the event happened then, 0 if it was censored, so that the event comes later or never;
and the number of its group. Whoever was still there at the horizon has a time beyond 1. A record
that misses any of the three counts nowhere.

    S(t) = P(T > t) = exp(-Λ(t))       survival, and the cumulative hazard

Censoring is taken to be independent of the event within every group, as Kaplan and Meier (1958) do.
"""

from dataclasses import dataclass
from typing import Any

from unisono.errors import InvalidInput

BEYOND = 2.0  # the time of records that outlast the horizon


@dataclass(frozen=True)
class SurvivalTimes:
    """The problem. `groups` are public names, one or more; `complete` says that no record misses a
    value, so that all of them count."""

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


__all__ = ["BEYOND", "SurvivalTimes"]
