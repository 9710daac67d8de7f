"""What a report says, as plain data: sections of blocks, which are drawn as HTML, Markdown or JSON.

Every block is a frozen record of plain values, so that the three forms of a report cannot say
different things.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal

from unisono.core.words import jsonable
from unisono.reports.charts import (
    BandedCurve,
    Bell,
    CalibrationBin,
    DrawnInterval,
    ForestRow,
    Level,
)

Tone = Literal["", "lead", "note", "warning"]


@dataclass(frozen=True)
class Text:
    words: str
    tone: Tone = ""


@dataclass(frozen=True)
class ReportHeading:
    kind: ClassVar[str] = "heading"
    words: str


@dataclass(frozen=True)
class Items:
    words: Sequence[str]


@dataclass(frozen=True)
class FactList:
    """Names and what they are, in pairs."""

    kind: ClassVar[str] = "facts"
    pairs: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Tiles:
    """A few large figures, each with the words that belong to it."""

    pairs: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class ReportGrid:
    """A table; the first column names its rows."""

    kind: ClassVar[str] = "grid"
    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class JournalTable:
    """Table 1: rows of a name, whether it belongs to the row above, and cells of words and the
    intervals below them."""

    kind: ClassVar[str] = "journal-table"
    caption: str
    header: Sequence[str]
    rows: Sequence[tuple[str, bool, Sequence[tuple[str, str]]]]


@dataclass(frozen=True)
class Code:
    """Text as it was written, folded away."""

    title: str
    text: str


@dataclass(frozen=True)
class Gauge:
    label: str
    value: float
    limit: float
    words: str
    before: float = 0.0


@dataclass(frozen=True)
class Gauges:
    items: Sequence[Gauge]


@dataclass(frozen=True)
class Guesses:
    """How many of a hundred attacks succeed at most, and how many by chance."""

    title: str
    right: float
    caption: str


@dataclass(frozen=True)
class Curves:
    title: str
    series: Mapping[str, Sequence[tuple[float, float]]]
    x_label: str
    y_label: str
    caption: str = ""
    reference: Level | None = None
    square: bool = False  # both axes are shares


@dataclass(frozen=True)
class BandedCurves:
    """Curves with a band each, as far as they are determined."""

    kind: ClassVar[str] = "banded-curves"
    title: str
    curves: Mapping[str, BandedCurve]
    x_label: str
    y_label: str
    caption: str = ""


@dataclass(frozen=True)
class Intervals:
    title: str
    items: Sequence[DrawnInterval]
    caption: str = ""
    unit: str = ""
    reference: Level | None = None


@dataclass(frozen=True)
class Calibration:
    """What was predicted beside what came true."""

    title: str
    bins: Sequence[CalibrationBin]
    caption: str = ""


@dataclass(frozen=True)
class Forest:
    """Effects beside a line of none; `ratios` of 1, or differences of 0."""

    title: str
    rows: Sequence[ForestRow]
    ratios: bool
    caption: str = ""
    unit: str = ""


@dataclass(frozen=True)
class Bells:
    title: str
    items: Sequence[Bell]
    caption: str = ""
    unit: str = ""


@dataclass(frozen=True)
class Flow:
    """What goes from whom to whom, and where noise is added; `trust` is None where unknown."""

    title: str
    trust: str
    names: Sequence[str]
    parties: int
    caption: str = ""


@dataclass(frozen=True)
class Laboratory:
    """Attacks of the laboratory, as `reports.laboratory` draws them."""

    document: Mapping[str, Any]


Block = (
    Text
    | ReportHeading
    | Items
    | FactList
    | Tiles
    | ReportGrid
    | JournalTable
    | Code
    | Gauges
    | Guesses
    | Curves
    | BandedCurves
    | Intervals
    | Calibration
    | Forest
    | Bells
    | Flow
    | Laboratory
)


@dataclass(frozen=True)
class Part:
    """A section of a report."""

    title: str
    anchor: str
    blocks: Sequence[Block]

    def to_json(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "anchor": self.anchor,
            "blocks": [jsonable({"kind": _kind(block), **asdict(block)}) for block in self.blocks],
        }


def _kind(block: Block) -> str:
    """What JSON calls a block: what it says itself, or its class in small letters."""
    return getattr(block, "kind", type(block).__name__.lower())


def shorter(items: Sequence[Any], most: int, words: str) -> tuple[Sequence[Any], list[Block]]:
    """The first `most` of them, and a sentence where that is not all."""
    if len(items) <= most:
        return items, []
    return items[:most], [Text(f"Shown are {most:,} of {len(items):,} {words}.", "note")]
