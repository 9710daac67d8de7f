"""Filling an array from candidates of which some are refused."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from unisono.core.noise.inversion import CHUNK

Candidates = tuple[NDArray[np.int64], NDArray[np.bool_]]


def first_accepted(
    count: int, acceptance: float, propose: Callable[[int], Candidates]
) -> NDArray[np.int64]:
    """The first `count` accepted candidates of independent ones, shape (count,).

    `propose(n)` gives n candidates and whether each is accepted; `acceptance`, about the share
    accepted, only sets how many are asked for at a time. How many are asked for never depends on
    their values, so what is returned is a sample of the law given acceptance.
    """
    out = np.empty(count, dtype=np.int64)
    filled = 0
    while filled < count:
        asked = min(CHUNK, int((count - filled) / acceptance * 1.01) + 4)
        candidates, accepted = propose(asked)
        kept = candidates[accepted][: count - filled]
        out[filled : filled + kept.size] = kept
        filled += kept.size
    return out
