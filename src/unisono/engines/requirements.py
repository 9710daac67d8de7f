"""What must hold before a study runs, on whatever engine, by public facts."""

from collections.abc import Sequence

import numpy as np

from unisono.core.study import Study
from unisono.core.trust import Trust
from unisono.errors import InvalidInput

MODULUS_BITS = 32


def require_columns(study: Study, index: int, columns: Sequence[np.ndarray]) -> None:
    """Widths, and sizes where they are exact, are public facts: refuse what does not fit."""
    facts = study.facts
    rows, width = np.shape(columns[0])
    promised = facts.records[index]
    if (rows != promised and facts.exact_sizes) or width != facts.features:
        raise InvalidInput(
            f"party {index} holds {rows} records of {width} features; the study says {promised} of "
            f"{facts.features}: agree on the public sizes first"
        )
    if any(len(column) != rows for column in columns):
        raise InvalidInput(f"party {index} has columns of different lengths: align its records")


def require_headroom(study: Study) -> None:
    """The sum of all contributions and noises must fit the modulus, by public bounds.

    A sum that wraps around is useless, not unsafe: all arithmetic is modulo 2^32.
    """
    facts, trust = study.facts, study.trust
    event, grid = study.algorithm.event(facts, trust), study.algorithm.grid(facts, trust)
    reach = study.algorithm.reach(facts)
    std = getattr(event.noise, "std", 1.5 * getattr(event.noise, "scale", 0.0))
    spread = facts.parties if trust is Trust.LOCAL else facts.parties / facts.honest
    steps = (reach + 12 * std * spread**0.5) / grid
    if steps >= 2 ** (MODULUS_BITS - 1):
        raise InvalidInput(
            f"sums may reach {steps:.3g} grid steps, beyond a {MODULUS_BITS}-bit modulus: "
            "use a coarser grid, a smaller clip or fewer records"
        )
