"""What holds where nobody says otherwise, decided once for every entrance.

Study files, `unisono query`, estimators, `train` and statistics agree on these, and
`docs/defaults.md` tells users: one name means one guarantee wherever it is used.
"""

from collections.abc import Iterator

import numpy as np

from unisono.core.trust import Relation, Trust, Unit
from unisono.errors import ClippedValues, warn

RELATION = Relation.REPLACE_ONE  # sizes are public
# A party that is absent adds no share of the noise, so its presence is not hidden.
PARTY_RELATION = Relation.ZERO_OUT
# The model that a user names is the one that is fitted: no penalty unless it is asked for. Output
# and objective perturbation are proved with one only, and follow published rules of public facts.
RIDGE = 0.0
# Of the optimizer that networks are trained with, where none is given.
MOMENTUM = 0.9
# Bounds are compared after sums of floats: a relative slack for what the user rounded.
_SLACK = 1e-9


def default_relation(unit: Unit) -> Relation:
    """Replace-one for records, zero-out for whole parties, whatever the algorithm."""
    return PARTY_RELATION if unit is Unit.PARTY else RELATION


def default_trust(parties: int) -> Trust:
    """One party adds its noise alone; several trust nobody with more than their noisy sum."""
    return Trust.LOCAL if parties == 1 else Trust.SECURE_SUM


def default_colluders(trust: Trust, minimum_parties: int) -> int:
    """One curious party, unless the server is trusted or nobody else needs to answer.

    The promise then holds against the parties themselves too, and pure epsilon needs it. In a
    secure sum it costs a factor m / (m - 1) in variance; where noise is local it costs nothing.

    >>> default_colluders(Trust.SECURE_SUM, 3), default_colluders(Trust.LOCAL, 1)
    (1, 0)
    """
    return int(trust is not Trust.TRUSTED_SERVER and minimum_parties > 1)


def warn_of_clipping(values: np.ndarray, low: float, high: float, what: str) -> None:
    """Values outside public bounds are clipped, each by itself, and whoever holds them is told.

    How many there are is a fact about the records: it belongs on their holder's own screen.
    """
    slack = _SLACK * (high - low)
    least, most = low - slack, high + slack
    outside = sum(
        np.count_nonzero(block < least) + np.count_nonzero(block > most)
        for block in _blocks(np.ravel(values))
    )
    if outside:
        warn(
            f"{outside} of {values.size} {what} lie outside the public bounds {low:g} to {high:g} "
            "and are clipped to them; nobody else is told",
            ClippedValues,
        )


def _blocks(values: np.ndarray, size: int = 2**16) -> Iterator[np.ndarray]:
    """A flat array piece by piece: so few values that all passes over them stay in the cache."""
    for start in range(0, len(values), size):
        yield values[start : start + size]


__all__ = [
    "MOMENTUM",
    "PARTY_RELATION",
    "RELATION",
    "RIDGE",
    "default_colluders",
    "default_relation",
    "default_trust",
    "warn_of_clipping",
]
