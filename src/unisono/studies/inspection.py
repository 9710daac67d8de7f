"""A party's own file against a study: everything that is wrong with it, at once.

All of it is computed on the party's own machine, for its own screen. Nothing is released, so that
nothing is paid; and what is found is about records, so that it belongs to nobody else. That is also
why no declaration is proposed here: bounds, values or formats that are chosen because of what a
file holds would tell everybody about it. A finding says what to correct in the file, and what could
have been declared from public knowledge.
"""

import difflib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from unisono.data import RecordTable
from unisono.data.cells import as_text, blanks, dates, numbers
from unisono.data.columns import (
    Category,
    ColumnKind,
    Date,
    Number,
    NumericColumn,
)
from unisono.data.csv_file import read_csv
from unisono.data.people import owner_of
from unisono.data.schema import Schema
from unisono.data.sources import read_table
from unisono.errors import InvalidInput
from unisono.studies.schema import StudyFile

_FEW = 5  # record numbers and values that are named; the others are counted
_AGREED = (
    "with everybody, from public knowledge and before the study begins: what is declared because "
    "of this file tells about it"
)
# Ways to write dates that people mean, tried on cells that are no dates as declared.
_FORMATS = ("%Y-%m-%d", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d", "%Y%m%d", "%d-%m-%Y")


@dataclass(frozen=True)
class Finding:
    """Something about the file, and what to do about it. A problem stops the party or spoils its
    answer; other findings are what the declarations say will happen. `values` are cells, with how
    often they occur."""

    words: str
    remedy: str
    problem: bool = True
    column: str | None = None
    count: int | None = None
    records: tuple[int, ...] = ()
    values: tuple[tuple[str, int], ...] = field(default=(), repr=False)

    def to_json(self) -> dict[str, Any]:
        """Without values: JSON goes into files and logs."""
        return {
            "problem": self.problem,
            "column": self.column,
            "words": self.words,
            "remedy": self.remedy,
            "count": self.count,
            "first_records": list(self.records),
        }


@dataclass(frozen=True)
class ColumnCounts:
    """How many cells of a column are what."""

    name: str
    kind: str
    readable: int
    missing: int
    unreadable: int
    outside: int

    def to_json(self) -> dict[str, Any]:
        total = self.readable + self.missing + self.unreadable
        return {
            "kind": self.kind,
            "readable": self.readable,
            "missing": self.missing,
            "missing_share": self.missing / max(total, 1),
            "unreadable": self.unreadable,
            "outside_bounds": self.outside,
        }


@dataclass(frozen=True)
class Inspection:
    """Everything that was found in a party's file."""

    path: str
    party: str
    records: int | None  # None where the file cannot be read at all
    complete: int | None
    columns: tuple[ColumnCounts, ...]
    findings: tuple[Finding, ...]
    persons: int | None = None  # where they are the unit

    @property
    def problems(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.problem)

    @property
    def notes(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if not finding.problem)

    def to_json(self) -> dict[str, Any]:
        return {
            "file": self.path,
            "party": self.party,
            "records": self.records,
            **({} if self.persons is None else {"persons": self.persons}),
            "complete_records": self.complete,
            "columns": {column.name: column.to_json() for column in self.columns},
            "problems": [finding.to_json() for finding in self.problems],
            "notes": [finding.to_json() for finding in self.notes],
        }


def inspect_file(file: StudyFile, path: str | Path, party: str) -> Inspection:
    """Everything that is wrong with a party's file, and what the study's declarations do with it.

    The file is read as the study would read it, and nothing else is opened.
    """
    try:
        names = _names(Path(path), file.data)
        present = [name for name in file.data.columns if name in names]
        wanted = [name for name in file.data.read if name in names]
        table = read_table(path, wanted, file.data.multiline, file.data.csv) if present else None
    except InvalidInput as error:
        wrong = Finding(str(error), "correct the file, or give the right one")
        return Inspection(str(path), party, None, None, (), (wrong, *_encoding(Path(path))))
    findings = list(_absent(names, file.data))
    if table is None:
        findings += _encoding(Path(path))
        return Inspection(str(path), party, None, None, (), tuple(findings))
    findings += _size(file, table, party)
    broken = _broken_lines(Path(path), table)
    findings += [*_broken(broken), *_encoding(Path(path), file.data.csv.encoding)]
    columns, readings = [], {}
    for name in present:
        reading = _Reading.of(table, name, file.data.columns[name])
        readings[name] = reading
        columns.append(reading.counts)
        findings += reading.findings(name == file.data.target, broken, file.data.csv.decimal)
    if file.data.target in readings:
        findings += _classes(file, readings[file.data.target])
    complete = _complete(file.data, readings, table.rows)
    if not complete and file.data.target is not None:
        findings.append(
            Finding(
                "no record is complete: a model would learn nothing from this file",
                "correct what is listed here",
            )
        )
    return Inspection(
        str(path),
        party,
        table.rows,
        complete,
        tuple(columns),
        tuple(_sorted(findings)),
        _persons(file, table),
    )


def _sorted(findings: Iterable[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda finding: not finding.problem)


# ------------------------------------------------------------- the file


def _names(path: Path, data: Schema) -> list[str]:
    """The columns of a file, whatever the study wants of it."""
    if path.suffix.lower() != ".csv" or not path.is_file():
        return _parquet_names(path) if path.suffix.lower() == ".parquet" else _refused(path)
    try:
        return read_csv(path, (), data.multiline, data.csv)[0]
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror or 'it is damaged'}") from None


def _parquet_names(path: Path) -> list[str]:
    import pyarrow
    import pyarrow.parquet

    if not path.is_file():
        return _refused(path)
    try:
        return list(pyarrow.parquet.read_schema(path).names)
    except (pyarrow.ArrowException, OSError, ValueError, MemoryError):
        return _refused(path)


def _refused(path: Path) -> list[str]:
    """Let the reader of records say what is wrong."""
    return list(read_table(path).columns)


def _absent(names: Sequence[str], data: Schema) -> Iterator[Finding]:
    wanted = [name for name in data.read if name not in names]
    if wanted and len(names) == 1 and len(data.columns) > 1:
        yield Finding(
            f"its header holds a single name, {names[0]!r}",
            f"cells are separated by {_separator(data)}, as the study says; save the file so, or "
            f"declare csv.separator {_AGREED}",
        )
    folded = {name.strip().casefold(): name for name in names}
    for name in wanted:
        close = folded.get(name.strip().casefold())
        close = close or next(iter(difflib.get_close_matches(name, names, n=1)), None)
        hint = (
            f"it has {close!r}: if that is meant, rename it in your file (letters, spaces and case "
            "count)"
            if close is not None
            else f"it has {', '.join(map(repr, names[:20]))}: add the column, or rename one"
        )
        yield Finding(f"there is no column {name!r}", hint, column=name)


def _separator(data: Schema) -> str:
    words = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
    return words.get(data.csv.separator or "", "commas, semicolons, tabs or bars")


def _persons(file: StudyFile, table: RecordTable) -> int | None:
    """How many persons the records are about, where persons are the unit."""
    person = file.data.person
    if person is None or person not in table.columns:
        return None
    return len(set(map(owner_of, table.column(person))) - {None})


def _size(file: StudyFile, table: RecordTable, party: str) -> Iterator[Finding]:
    stated, found, units = file.parties[file.party(party)].records, table.rows, "records"
    person = file.data.person
    if person is not None:
        if person not in table.columns:
            return  # which is a finding of its own
        found, units = _persons(file, table) or 0, f"persons (by {person!r})"
        nobody = list(map(owner_of, table.column(person))).count(None)
        if nobody:
            yield Finding(
                f"{nobody} of {table.rows} records do not say in {person!r} whose they are",
                "they are left out: fill them in if they should count",
                problem=False,
                column=person,
                count=nobody,
            )
    if found == stated:
        return
    exact = file.data.sizes == "exact"
    yield Finding(
        f"it holds {found} {units}, and the study states {stated} for {party}",
        "sizes are public and exact here: give the file that was counted, or correct the number in "
        "the study with everybody"
        if exact
        else f"sizes are hidden: all {units} are used, and nobody is told",
        problem=exact,
    )


def _broken_lines(path: Path, table: RecordTable) -> np.ndarray:
    """Which lines of a CSV file make no cells (n,): their cells are not even empty text."""
    if path.suffix.lower() != ".csv":
        return np.zeros(table.rows, bool)
    return np.array([cell is None for cell in next(iter(table.columns.values()))], bool)


def _broken(broken: np.ndarray) -> Iterator[Finding]:
    if broken.any():
        lines = "line has" if np.count_nonzero(broken) == 1 else "lines have"
        yield Finding(
            f"{np.count_nonzero(broken)} {lines} another number of cells than the header, quotes "
            "that do not close, or bytes that are no text",
            "correct them: each is a record of missing values (record 1 stands in line 2)",
            count=int(np.count_nonzero(broken)),
            records=_first(broken),
        )


def _encoding(path: Path, declared: str = "utf-8") -> Iterator[Finding]:
    """How bytes that are not the declared UTF-8 are read, or were perhaps meant."""
    if declared != "utf-8":
        return
    try:
        content = path.read_bytes() if path.suffix.lower() == ".csv" else b""
    except OSError:
        return
    try:
        content.decode("utf-8")
        likely = "UTF-16" if content.count(b"\0") > len(content) // 4 else None
    except UnicodeDecodeError:
        likely = "UTF-16" if content.count(b"\0") > len(content) // 4 else "Latin-1"
        likely = None if content[:2] in (b"\xff\xfe", b"\xfe\xff") else likely
    if likely == "Latin-1":
        yield Finding(
            "some of its lines are not UTF-8, as the study declares",
            "each of them is read as Latin-1; save the file as UTF-8 if letters look wrong",
            problem=False,
        )
    elif likely:
        yield Finding(
            f"its bytes are not the text that the study declares; {likely} is likely",
            f'save the file as UTF-8, or declare csv.encoding = "{likely.lower()}" {_AGREED}',
        )


# ------------------------------------------------------------- one column


@dataclass(frozen=True, repr=False)
class _Reading:
    """One column of a file, as its declaration reads it with nothing put in place of anything."""

    name: str
    column: ColumnKind
    cells: Sequence[Any] | np.ndarray
    values: np.ndarray  # float64 (n,), NaN where a cell is missing or unreadable
    unreadable: np.ndarray  # bool (n,): something stands there
    missing: np.ndarray  # bool (n,): nothing stands there

    @classmethod
    def of(cls, table: RecordTable, name: str, column: ColumnKind) -> "_Reading":
        cells = table.column(name)
        values = _bare(column).read(cells, table.decimal)
        unread, blank = np.isnan(values), blanks(column.uncoded(cells, table.decimal))
        return cls(name, column, cells, values, unread & ~blank, unread & blank)

    @property
    def outside(self) -> np.ndarray:
        """Which numbers lie outside the public bounds."""
        if not isinstance(self.column, NumericColumn):
            return np.zeros(len(self.values), bool)
        low, high = self.column.span
        return (self.values < low) | (self.values > high)

    @property
    def counts(self) -> ColumnCounts:
        missing, unreadable, outside = (
            int(np.count_nonzero(mask)) for mask in (self.missing, self.unreadable, self.outside)
        )
        readable = len(self.values) - missing - unreadable
        kind = str(getattr(self.column, "kind", "column"))
        return ColumnCounts(self.name, kind, readable, missing, unreadable, outside)

    @property
    def other(self) -> bool:
        """Whether values that are in no list are declared to be one of their own."""
        return isinstance(self.column, Category) and self.column.other

    def findings(self, target: bool, broken: np.ndarray, decimal: str) -> Iterator[Finding]:
        """All but those of broken lines, which have been told of."""
        fate, empty = _fate(self.column, target), self.missing & ~broken
        if np.isnan(self.values).all() and not self.other:
            yield self._finding(
                ~broken,
                f"none of its cells can be read as {self.column.wanted}",
                "check that it is the right column, and the right file" + self._hint(decimal),
            )
            return
        if self.unreadable.any():
            yield from self._unreadable(fate, target, decimal)
        if empty.any():
            coded = self.column.coded(self.cells, decimal) & empty
            says = "empty or coded as missing" if coded.any() else "empty"
            words = f"{_cells(empty)} {says}, {_share(empty)} of {len(empty)}"
            yield self._finding(empty, words, fate, problem=self.column.complete, show=False)
        if self.outside.any():
            low, high = self.column.span  # type: ignore[attr-defined]
            yield self._finding(
                self.outside,
                f"{_cells(self.outside)} outside the public bounds {low:g} to {high:g}",
                "each is clipped to the nearer bound; correct the cells if they are mistakes",
                problem=False,
            )

    def _unreadable(self, fate: str, target: bool, decimal: str) -> Iterator[Finding]:
        if self.other:
            words = f"{_cells(self.unreadable)} in no list"
            yield self._finding(
                self.unreadable, words, 'each counts as "(other)", as declared', problem=False
            )
            return
        problem = target or getattr(self.column, "missing", None) is None
        remedy = f"correct the cells; as it is, {fate}{self._hint(decimal)}"
        if not problem:
            remedy = f"{fate}; correct the cells if they are mistakes{self._hint(decimal)}"
        if isinstance(self.column, Category):
            remedy += f". If other values occur, declare other = true {_AGREED}"
        yield self._finding(
            self.unreadable,
            f"{_cells(self.unreadable)} not {self.column.wanted}",
            remedy,
            problem=problem,
        )

    def _finding(
        self, which: np.ndarray, words: str, remedy: str, problem: bool = True, show: bool = True
    ) -> Finding:
        values = (
            Counter(_shown(self.cells[place]) for place in np.flatnonzero(which).tolist())
            if show
            else {}
        )
        return Finding(
            words,
            remedy,
            problem,
            self.name,
            int(np.count_nonzero(which)),
            _first(which),
            tuple(Counter(values).most_common(_FEW)),
        )

    def _hint(self, decimal: str) -> str:
        """What was perhaps meant by cells that cannot be read."""
        cells = [self.cells[place] for place in np.flatnonzero(self.unreadable).tolist()]
        if not cells:
            return ""
        if isinstance(self.column, Number):
            other = "," if decimal == "." else "."
            if np.isfinite(numbers(cells, other)).any():
                return f". Some are numbers with decimal = {other!r}: the study says {decimal!r}"
            bare = [str(cell).replace(" ", "").replace("'", "") for cell in cells]
            if decimal == ".":
                bare = [text.replace(",", "") for text in bare]
            if np.isfinite(numbers(bare, decimal)).any():
                return ". Some have marks between thousands: leave these out"
        if isinstance(self.column, Date):
            for pattern in _FORMATS:
                if np.isfinite(dates(cells, pattern)).mean() > 0.9:
                    return f". They look like {pattern}: the study says {self.column.wanted}"
        return ""


def _bare(column: ColumnKind) -> ColumnKind:
    """The same declaration, with nothing said of missing and other cells."""
    silent = {"missing": None, "other": False}
    known = {name: value for name, value in silent.items() if name in type(column).model_fields}
    return column.model_copy(update=known)


def _fate(column: ColumnKind, target: bool) -> str:
    """What the declaration does with a cell that is missing, in words."""
    missing = getattr(column, "missing", None)
    if target:
        return "the record is a zero row in every model, as its target is missing"
    if missing in (None, "drop record"):
        if column.complete:
            return (
                "the record is a zero row, and the public number of records divides nevertheless: "
                "the study declares complete = true, which this file contradicts"
            )
        return "the record is a zero row in every model, and counts in no statistic of the column"
    if missing == "category":
        return 'it is a value of its own, as declared (missing = "category")'
    return f"{column.fill_words} takes its place, as declared"


def _share(which: np.ndarray) -> str:
    """
    >>> _share(np.array([True, False])), _share(np.arange(300) == 0)
    ('50%', 'less than 1%')
    """
    share = np.count_nonzero(which) / len(which)
    return "less than 1%" if 0 < share < 0.01 else f"{share:.0%}"


def _cells(which: np.ndarray) -> str:
    count = int(np.count_nonzero(which))
    return "1 cell is" if count == 1 else f"{count} cells are"


def _first(which: np.ndarray) -> tuple[int, ...]:
    """The numbers of the first few records, from 1."""
    return tuple(int(place) + 1 for place in np.flatnonzero(which)[:_FEW])


def _shown(cell: Any) -> str:
    text = as_text(cell) or ""
    return text if len(text) <= 30 else f"{text[:30]}…"


# ------------------------------------------------------------- all columns together


def _classes(file: StudyFile, reading: _Reading) -> Iterator[Finding]:
    """A target that is always the same."""
    classes = file.data.classes
    found = np.unique(reading.values[np.isfinite(reading.values)])
    if not classes or len(found) != 1:
        return
    listed = file.data.target not in file.data.unlisted
    same = repr(classes[int(found[0])]) if listed else "the same"
    alone = len(file.parties) == 1
    yield Finding(
        f"all targets are {same}, one of {len(classes)} classes",
        "nothing can be learnt from one class; check the column, or join others who have the rest"
        if alone
        else "the other parties must hold the rest; check that the column is the right one",
        problem=alone,
        column=reading.name,
    )


def _complete(data: Schema, readings: dict[str, _Reading], records: int) -> int:
    """How many records miss nothing that a model needs."""
    whole = np.ones(records, bool)
    for name, reading in readings.items():
        lost = reading.missing | (reading.unreadable & (not reading.other))
        if reading.column.drops or name == data.target:
            whole &= ~lost
    return int(np.count_nonzero(whole))


__all__ = ["ColumnCounts", "Finding", "Inspection", "inspect_file"]
