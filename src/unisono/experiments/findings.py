"""What an experiment gives back: numbers against what was expected, remarks and a picture.

An experiment is a module with `run(quick: bool) -> Findings`; one that reads files also has
`check()`, which refuses where they are missing. Data are synthetic or public and all noise is
simulated: no ledger on disk is touched, because nobody is protected.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple


class ExpectedNumber(NamedTuple):
    """One number that must be seen: measured, and the range in which it is expected.

    >>> ExpectedNumber("median KL", 0.03, 0.025, 0.06).as_expected
    True
    """

    name: str
    measured: float
    low: float
    high: float
    note: str = ""

    @property
    def as_expected(self) -> bool:
        return self.low <= self.measured <= self.high


@dataclass(frozen=True)
class Findings:
    """The outcome of one experiment; `draw` paints it onto a matplotlib figure.

    `remarks` say in plain words what is seen, and where the source's text and numbers disagree.
    """

    name: str
    title: str
    source: str
    numbers: tuple[ExpectedNumber, ...]
    remarks: tuple[str, ...]
    draw: Callable[[Any], None]
    size: tuple[float, float] = (8.0, 4.5)

    @property
    def as_expected(self) -> bool:
        return all(number.as_expected for number in self.numbers)
