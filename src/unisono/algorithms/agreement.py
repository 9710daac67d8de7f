"""What parties agreed on when an algorithm does not fit the rounds of an engine.

Objective perturbation draws its noise before it optimises, and SGD1 asks one party at a time. They
run on their own, but pay, certify and record like everything else.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unisono.core.algorithm import Facts
from unisono.core.events import Composed, canonical
from unisono.core.study import warn_of_the_promise
from unisono.core.trust import Trust, Viewer
from unisono.errors import InvalidInput


@dataclass(frozen=True)
class Agreement:
    """The public part of a run: what a `Study` is to an engine."""

    name: str
    settings: Mapping[str, Any]
    facts: Facts
    trust: Trust
    cost: Mapping[Viewer, Composed]

    def __post_init__(self) -> None:
        warn_of_the_promise(self)

    @property
    def algorithm(self) -> "Agreement":
        """Name and settings, where a certificate looks for them."""
        return self

    @property
    def costs(self) -> Sequence[Mapping[Viewer, Composed]]:
        """What the run shows of each party: all pay alike."""
        return [self.cost] * self.facts.parties

    @property
    def hash(self) -> str:
        """What all parties agreed on, in one number."""
        facts = self.facts
        agreed = {
            "algorithm": self.name,
            "settings": dict(self.settings),
            "trust": str(self.trust),
            "records": list(facts.records),
            "features": facts.features,
            "colluders": facts.colluders,
        }
        return hashlib.sha256(canonical(agreed)).hexdigest()


def require_fitting(facts: Facts, columns: Sequence[tuple[np.ndarray, ...]]) -> None:
    """Refuse data whose shapes are not the public ones."""
    for index, ((features, labels), promised) in enumerate(
        zip(columns, facts.records, strict=True)
    ):
        rows, width = np.shape(features)
        if rows != promised or width != facts.features or np.shape(labels) != (rows,):
            raise InvalidInput(
                f"party {index} holds {rows} records of {width} features and labels of shape "
                f"{np.shape(labels)}; agreed were {promised} of {facts.features}: agree on the "
                "public sizes first"
            )
