"""Labels that nobody has listed, as places in a public grid: how they are counted and read again.

The grid has L levels of C cells, each with one place for every symbol. A label counts on every
level once, in the same cell, which is a public hash of the label:

    level    1   2   3   4   5    6 ...  L
    symbol   f   l   u   end      symbols of the label's hash

A label is spelt by its letters, an end, and symbols of its hash, so that a noisy grid can be read
without knowing the label: in each cell the fullest place of each level. One that is longer than
L - 1 letters, or holds other letters than printable ASCII, has symbols of its hash alone: it can
only be looked up, by whoever has it in a list of candidates. Neither hash is secret, and neither
needs to be: the counts are what noise protects.

What is made of a label is made of it alone. 2, 2.0 and 02 are one label, as they are one number.
"""

import hashlib
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from unisono.data.arrow import ArrowColumn
from unisono.data.cells import as_number, as_text, is_blank

END = 0
_FIRST, _LAST = 32, 126  # printable ASCII
_WHOLE = re.compile(r"[+-]?[0-9]+(?:\.0*)?")
_LARGEST_WHOLE = 2.0**53


@dataclass(frozen=True)
class Grid:
    """So many levels, cells of each, and symbols of each cell."""

    levels: int = 16
    cells: int = 32
    symbols: int = _LAST - _FIRST + 2

    @property
    def width(self) -> int:
        """Places on each level."""
        return self.cells * self.symbols


GRID = Grid()


def label_of(value: Any) -> str | None:
    """The label that one value is, as text; None where there is none.

    >>> [label_of(value) for value in ("flu", 2, 2.0, "02", True, "", None, math.nan)]
    ['flu', '2', '2', '2', 'true', None, None, None]
    """
    text = None if is_blank(value) else as_text(value)
    if text is not None and _WHOLE.fullmatch(text):
        number = as_number(text)
        return str(int(number)) if abs(number) < _LARGEST_WHOLE else text
    return text


def identity(label: str) -> float:
    """A whole number below 2^52 that stands for a label: equal ones have equal numbers."""
    return float(int.from_bytes(_digest(label)[-8:]) >> 12)


@lru_cache(maxsize=65_536)
def spelt(label: str, grid: Grid = GRID) -> tuple[int, ...]:
    """The label's place on each level (levels,)."""
    digest = _digest(label)
    symbols = [
        int.from_bytes(digest[2 * level + 2 : 2 * level + 4]) % grid.symbols
        for level in range(grid.levels)
    ]
    if len(label) < grid.levels and all(_FIRST <= ord(letter) <= _LAST for letter in label):
        letters = [ord(letter) - _FIRST + 1 for letter in label]
        symbols[: len(letters) + 1] = [*letters, END]
    cell = int.from_bytes(digest[:2]) % grid.cells
    return tuple(cell * grid.symbols + symbol for symbol in symbols)


def readable(symbols: Sequence[int]) -> str | None:
    """The letters before the end; None where there is no end, or no letter before it."""
    letters = list(symbols)
    if END not in letters[1:] or letters[0] == END:
        return None
    return "".join(chr(symbol - 1 + _FIRST) for symbol in letters[: letters.index(END)])


def _digest(label: str) -> bytes:
    return hashlib.blake2b(label.encode("utf-8", "surrogatepass"), person=b"label").digest()


# ------------------------------------------------------------- one label of each record


def identities(values: Iterable[Any]) -> np.ndarray:
    """`identity` of each value's label, float64 (n,); NaN where there is none."""
    if isinstance(values, ArrowColumn):
        return values.each(identities)
    labels = map(label_of, values)
    return np.array([math.nan if own is None else identity(own) for own in labels], np.float64)


def places(values: Iterable[Any], grid: Grid = GRID) -> np.ndarray:
    """`spelt` of each value's label, float32 (n, levels); NaN where there is none."""
    if isinstance(values, ArrowColumn):
        return values.each(lambda cells: places(cells, grid))
    nowhere = (math.nan,) * grid.levels
    labels = map(label_of, values)
    found = [nowhere if own is None else spelt(own, grid) for own in labels]
    return np.array(found, np.float32).reshape(-1, grid.levels)


def among(found: np.ndarray, labels: Sequence[str]) -> np.ndarray:
    """The place of each label, given by its `identity` (n,), in a list; -1 for others."""
    known = {identity(label): place for place, label in enumerate(labels)}
    return np.array([known.get(own, -1) for own in found.tolist()], np.int64)


__all__ = ["GRID", "Grid", "among", "identities", "identity", "label_of", "places", "spelt"]
