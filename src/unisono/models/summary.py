"""A regression printed as statisticians are used to: a header, a table of coefficients, notes.

What is not determined has a row that says so, and no numbers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from unisono.core import notebook
from unisono.models.inference import NOT_DETERMINED, Inference, end_texts, p_text

_GAP = "  "


@dataclass(frozen=True)
class RegressionSummary:
    """Of `inference`: `title`, `header` in pairs of a name and what is said of it, `notes` in
    sentences, and 1 - `alpha` as how often intervals hold."""

    title: str
    header: Mapping[str, str]
    inference: Inference
    notes: Sequence[str]
    alpha: float = 0.05

    @property
    def columns(self) -> tuple[str, ...]:
        """Titles of the table's columns; the first is the coefficient's name."""
        ends = (f"[{self.alpha / 2:.4g}", f"{1 - self.alpha / 2:.4g}]")
        ratio = (self.inference.ratio, *ends) if self.inference.ratio else ()
        return ("", "coef", "std err", "z", "P>|z|", *ends, *ratio, "privacy")

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """Cells of each coefficient; of one that is not determined, its name alone."""
        found = self.inference.to_json(1 - self.alpha)
        return [_cells(name, own, bool(self.inference.ratio)) for name, own in found.items()]

    def as_text(self) -> str:
        """As `print` shows it."""
        titles, rows = self.columns, self.rows
        whole = [row for row in rows if len(row) > 1]
        widths = [max(len(row[place]) for row in [titles, *whole]) for place in range(len(titles))]
        widths[0] = max(len(row[0]) for row in rows)

        def line(cells: Sequence[str]) -> str:
            if len(cells) == 1:
                return f"{cells[0].ljust(widths[0])}{_GAP}{NOT_DETERMINED}"
            first, *others = cells
            aligned = (own.rjust(wide) for own, wide in zip(others, widths[1:], strict=True))
            return _GAP.join([first.ljust(widths[0]), *aligned]).rstrip()

        table = [line(titles), *map(line, rows)]
        head = self._header_lines()
        width = max(map(len, [*table, *head, self.title]))
        double, single = "=" * width, "-" * width
        said = [f"[{number}] {note}" for number, note in enumerate(self.notes, 1)]
        return "\n".join(
            [
                self.title.center(width).rstrip(),
                double,
                *head,
                double,
                table[0],
                single,
                *table[1:],
                double,
                *(["Notes:"] * bool(said)),
                *said,
            ]
        )

    def as_html(self) -> str:
        """As notebooks show it."""
        return notebook.shown(self.title, *self.as_parts())

    def as_parts(self) -> list[Markup]:
        """The same, to be put among other things."""
        rows = [[*row] if len(row) > 1 else [*row, NOT_DETERMINED] for row in self.rows]
        return [
            notebook.facts(self.header),
            notebook.grid(self.columns, rows),
            notebook.sentences(self.notes),
        ]

    def _header_lines(self) -> list[str]:
        """Two names with what is said of them in each line."""
        cells = [(f"{name}:", said) for name, said in self.header.items()]
        left, right = cells[: (len(cells) + 1) // 2], cells[(len(cells) + 1) // 2 :]
        widths = [max(len(cell[place]) for cell in left) for place in (0, 1)]
        others = max((len(name) for name, _ in right), default=0)
        lines = []
        for place, (name, said) in enumerate(left):
            line = f"{name.ljust(widths[0])} {said.ljust(widths[1])}"
            if place < len(right):
                other, words = right[place]
                line = f"{line}    {other.ljust(others)} {words}"
            lines.append(line.rstrip())
        return lines

    def __str__(self) -> str:
        return self.as_text()

    def __repr__(self) -> str:
        return self.as_text()

    def _repr_html_(self) -> str:
        return self.as_html()


def _cells(name: str, own: Mapping[str, Any], ratio: bool) -> tuple[str, ...]:
    if not own["determined"]:
        return (name,)
    low, high = end_texts(own["interval"], "{:.4g}".format)
    numbers = [f"{own['estimate']:.4g}", f"{own['std_error']:.3g}", f"{own['z']:.2f}"]
    cells = [name, *numbers, p_text(own["p_value"]), low, high]
    if ratio:
        ends = own.get("ratio_interval", ())
        three = "{:.3g}".format
        cells += [three(own["ratio"]), *end_texts(ends, three)] if ends else [""] * 3
    return (*cells, f"{100 * own['privacy_share']:.0f} %")


__all__ = ["RegressionSummary"]
