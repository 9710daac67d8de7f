"""Made-up records for attacks and audits of a study: within its public bounds, and nobody's.

No file of a party is ever read; what an attack then shows is what it could do to anybody.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from unisono.cli.output import console

if TYPE_CHECKING:
    from unisono.studies.schema import StudyFile

Progress = Callable[[str, int, int], None]


def parties(built: Any, seed: int) -> list[tuple[Any, ...]]:
    """Typical records of every party, as the study's algorithm reads them."""
    sizes = built.study.facts.records
    return [encoded(built, typical(built.file, size, seed + k)) for k, size in enumerate(sizes)]


def encoded(built: Any, values: dict[str, Any]) -> tuple[Any, ...]:
    """As the study's algorithm reads them; a person has as many equal records as it may."""
    found: tuple[Any, ...] = built.synthetic(values)
    return found


def typical(file: "StudyFile", records: int, seed: int) -> dict[str, Any]:
    """Records anywhere within the public bounds, by column: numbers, and places of categories."""
    import numpy as np

    from unisono.data.columns import NumericColumn

    generator = np.random.default_rng([seed, 1])
    return {
        name: generator.uniform(*column.span, records)
        if isinstance(column, NumericColumn)
        else generator.integers(0, len(column.even), records).astype(float)
        for name, column in file.data.columns.items()
    }


def extremes(file: "StudyFile", seed: int) -> dict[str, Any]:
    """Corners of the public box, each with both ends of the target."""
    import numpy as np

    from unisono.data.columns import NumericColumn

    ends = {
        name: column.span if isinstance(column, NumericColumn) else (0.0, len(column.even) - 1.0)
        for name, column in file.data.columns.items()
    }
    generator = np.random.default_rng([seed, 2])
    corners = [np.zeros(len(ends), int), np.ones(len(ends), int)]
    corners += [generator.integers(0, 2, len(ends)) for _ in range(2)]
    names, rows = list(ends), []
    for corner in corners:
        for side in (0, 1) if file.data.target else (None,):
            row = [ends[name][end] for name, end in zip(names, corner, strict=True)]
            if side is not None and file.data.target:
                row[names.index(file.data.target)] = ends[file.data.target][side]
            rows.append(row)
    table = np.unique(np.array(rows, float), axis=0)
    return {name: table[:, place] for place, name in enumerate(names)}


def viewer(file: "StudyFile") -> str:
    parties, known = len(file.parties), file.colluders + len(file.parties) - file.survivors
    match str(file.trust.mode):
        case "secure-sum" if known:
            return f"everyone who sees all sums, with {known} of {parties} parties"
        case "local" if parties > 1:
            return "everyone who sees all messages, with all other parties"
    return "everyone who sees all sums"


@contextmanager
def bar(quiet: bool, first: str = "building the study") -> Iterator[Progress]:
    """A bar on stderr; nothing where nobody watches."""
    if quiet or not sys.stderr.isatty():
        yield lambda words, done, total: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    words = TextColumn("{task.description}", markup=False)
    columns = (words, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bar(*columns, console=console(stderr=True)) as shown:
        task = shown.add_task(first, total=None)

        def follow(words: str, done: int, total: int) -> None:
            shown.update(task, completed=done, total=total, description=words)

        yield follow
