"""A secret subset of fixed size, exactly uniform."""

import numpy as np
from numpy.typing import NDArray

from unisono.core.noise.keystream import Keystream
from unisono.core.noise.parameters import whole_number


def subset(stream: Keystream, size: int, population: int) -> NDArray[np.bool_]:
    """Mask of a uniform subset of exactly `size` of `population` units.

    Every unit gets a random word and the smallest words win; given that no two words are
    equal all orders are equally likely, so words are drawn again until they differ.
    """
    population = whole_number("population", population, 1, 2**31)
    size = whole_number("size", size, 1, population)
    words = stream.words(population)
    while len(np.unique(words)) < population:
        words = stream.words(population)
    mask = np.zeros(population, dtype=np.bool_)
    mask[np.argpartition(words, size - 1)[:size]] = True
    return mask
