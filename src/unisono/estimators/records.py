"""What `fit` and `predict` are given, as numbers: arrays, frames, files and batches, of records or
of persons.

Arrays, and frames that hold numbers only, go through scikit-learn's checks. Where columns are
declared, as in study files, a frame is read by these declarations, each record by itself
(`data.columns`), and whatever else is in the frame is left alone. A record that misses what it
needs teaches nothing: all of its row is NaN, and the public number of records stays what it is.

With `persons` a row of what algorithms read is a person, with at most as many records as
`records_per_person` says (`data.people`): that is what study files do with unit = "person".
"""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets

from unisono.core.streamed import StreamedColumns
from unisono.core.trust import Unit
from unisono.data import RecordTable, UnreadValues, as_text, listed, numbers, warn_unread
from unisono.data.arrow import ArrowColumn
from unisono.data.cells import blanks, codes
from unisono.data.columns import ColumnKind, NamedColumn, NumericColumn, TrueFalse
from unisono.data.encoding import Frame
from unisono.data.given import MOST_HELD, is_frame, stream_of, table_of
from unisono.data.order import new_key, order_key, secret_order
from unisono.data.people import as_rows, blanked, records_per_person
from unisono.data.reading import declared_values
from unisono.data.scaling import warn_of_clipped_rows
from unisono.data.schema import Schema
from unisono.data.sources import require_columns
from unisono.data.streams import RecordStream
from unisono.errors import ClippedValues, InvalidInput
from unisono.estimators.frames import numbers_of, require_same_names, validate_data
from unisono.estimators.members import ALONE, Membership, membership, persons_at
from unisono.estimators.weights import as_shares

# From rows (n, c) as they are given and labels (n,) to the arrays that an algorithm reads.
Encode = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, ...]]
_STAND_IN = 0.0


# ------------------------------------------------------------- what is declared


@dataclass(frozen=True)
class Declared:
    """Columns that are declared: those to learn from, and the target, where it is among them."""

    schema: Schema
    target: ColumnKind | None = None

    @classmethod
    def of(cls, columns: Mapping[str, Any], target: str | None) -> "Declared":
        """The declarations of a user, in the words of study files."""
        own = {str(name): _plain(said) for name, said in columns.items()}
        if target is not None and list(own) == [target]:
            raise InvalidInput(
                f"columns declares the target {target!r} alone: declare features too"
            )
        known = Schema.declaring(own)
        for name in known.unlisted:
            raise InvalidInput(
                f'columns: {name!r}: values = "private" is for study files: list the values; of a '
                'target, leave it out of columns and pass classes="private"'
            )
        features = {name: column for name, column in known.columns.items() if name != target}
        schema = known.model_copy(update={"columns": features})
        return cls(schema, known.columns.get(target or ""))

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that are read."""
        return tuple(self.schema.columns)

    @property
    def private(self) -> list[int]:
        """The places of columns whose ranges are to be found out."""
        return [self.names.index(name) for name in self.schema.private]

    def read(self, table: RecordTable) -> np.ndarray:
        """Values (n, c) of the columns: numbers in their bounds, places of categories, NaN."""
        values = declared_values(table, self.schema.columns)
        return np.column_stack([values[name] for name in self.names])

    def rows(self, values: np.ndarray) -> np.ndarray:
        """A model's features (n, d); NaN where a record misses what it needs."""
        return Frame(self.schema).rows(dict(zip(self.names, values.T, strict=True)))

    def within(self, ranges: Mapping[str, tuple[float, float, float]]) -> "Declared":
        """With the ranges (low, high, centre) that were released of some columns."""
        return replace(self, schema=self.schema.within(ranges))


def _plain(said: Any) -> Any:
    """A declaration as Python's own values: lists are tuples, and listed values are text."""
    if isinstance(said, ColumnKind):
        return said
    if not isinstance(said, Mapping):
        raise InvalidInput(
            f"columns declares {said!r}: give each column a dictionary, as "
            '{"kind": "number", "bounds": (0, 120)} or {"kind": "category", "values": ["F", "M"]}'
        )
    plain = {str(name): _value(value) for name, value in said.items()}
    if isinstance(plain.get("values"), tuple):
        plain["values"] = tuple(as_text(one) or "" for one in plain["values"])
    return plain


def _value(value: Any) -> Any:
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    return tuple(map(_value, value)) if isinstance(value, list | tuple) else value


# ------------------------------------------------------------- records in memory


@dataclass(frozen=True)
class FitRecords:
    """Values X (n, c) and labels y (n,) of records, and whose they are. Where a target is `lacking`
    its label is a stand-in, and the record teaches nothing. `people` are each party's persons, by
    the places of their records among the party's (persons, k), -1 where there are fewer."""

    X: np.ndarray
    y: Any
    members: Membership
    given: Any = None  # labels as they were given
    classes: Any = None  # where they are public
    lacking: np.ndarray | None = None
    people: tuple[np.ndarray, ...] | None = None
    group: int | None = None
    person: str = ""  # the column that says whose a record is
    kind: str = ""  # of the array that the labels came in, as NumPy calls it; "" for a list
    weights: np.ndarray | None = None  # shares of the largest (n,), in the order of X

    @property
    def names(self) -> tuple[str, ...]:
        return self.members.names

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many records, or persons, each party holds."""
        if self.people is None:
            return self.members.sizes
        return tuple(len(rows) for rows in self.people)

    @property
    def width(self) -> int:
        return self.X.shape[1]

    @property
    def unit(self) -> Unit:
        return Unit.RECORD if self.group is None else Unit.PERSON

    def labelled(self, labels: np.ndarray, classes: Any) -> "FitRecords":
        """With the places of their labels among the classes."""
        own = np.asarray(labels, float)
        if self.lacking is not None:
            own = np.where(self.lacking, np.nan, own)
        return replace(self, y=own)

    def weighed(self, factors: np.ndarray) -> "FitRecords":
        """With weights that are these shares (n,), times those that they have."""
        return replace(self, weights=factors if self.weights is None else self.weights * factors)

    def mapped(self, function: Callable[[np.ndarray], np.ndarray]) -> "FitRecords":
        """With a function of their labels."""
        return replace(self, y=function(self.y))

    def shuffled(self, seed: int | None) -> "FitRecords":
        """With each party's records in a secret order, where they are rows of a query: a record
        that changes may come in another place there, and move others."""
        return self._ordered([order_key(seed, name) for name in self.names])

    def among_strangers(self, real: Sequence[bool]) -> "FitRecords":
        """With the records of parties that are real, and no simulation, in a secret order, where it
        matters which ones lie side by side. Persons are in one anyway."""
        if self.people is not None:
            return self
        return self._ordered([new_key() if own else None for own in real])

    def _ordered(self, keys: Sequence[bytes | None]) -> "FitRecords":
        rows = tuple(
            own if key is None else own[secret_order(len(own), key)]
            for own, key in zip(self.members.rows, keys, strict=True)
        )
        return replace(self, members=replace(self.members, rows=rows))

    def warn_of_clipping(self, bounds: Any) -> None:
        """Tell whoever holds the records what public bounds of features clip."""
        for name, rows in zip(self.names, self.members.rows, strict=True):
            warn_of_clipped_rows(self.X[rows], bounds, name)

    def columns(self, encode: Encode) -> list[tuple[np.ndarray, ...]]:
        """Each party's arrays, a row for each record or person."""
        arrays = encode(self.X, np.asarray(self.y, float))
        if self.people is None:
            return [tuple(array[rows] for array in arrays) for rows in self.members.rows]
        own = zip(self.members.rows, self.people, strict=True)
        return [_by_person(arrays, rows, people) for rows, people in own]


def _by_person(
    arrays: tuple[np.ndarray, ...], rows: np.ndarray, people: np.ndarray
) -> tuple[np.ndarray, ...]:
    """Arrays of a party's persons, (persons, k, ...), or (persons, ...) of one record each."""
    places = rows[people]  # what stands for no record is taken out again
    if people.shape[1] == 1:
        return tuple(blanked(array[places[:, 0]], people[:, 0] >= 0) for array in arrays)
    flat = places.reshape(-1)
    return as_rows(tuple(array[flat] for array in arrays), people >= 0)


# ------------------------------------------------------------- records that are streamed


@dataclass(frozen=True, repr=False)
class StreamedFit:
    """Records that are read whenever they are opened, one stream for each party; the target is one
    of their columns. A label that is none of the classes counts as missing."""

    streams: tuple[RecordStream, ...]
    names: tuple[str, ...]
    target: str
    features: tuple[str, ...]
    declared: Declared | None
    classes: Any = None
    steps: tuple[Callable[[np.ndarray], np.ndarray], ...] = ()
    known: tuple[Any, ...] | None = None
    told: set[str] = field(default_factory=set)
    group = None
    person = ""
    unit = Unit.RECORD

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(stream.rows for stream in self.streams)

    @property
    def width(self) -> int:
        return len(self.features)

    @property
    def cells(self) -> int:
        """Of the largest party."""
        return max(self.sizes) * (self.width + 1)

    @property
    def unordered(self) -> bool:
        return any(stream.unordered for stream in self.streams)

    @property
    def y(self) -> Any:
        """Labels that stand for all: the classes themselves, which are public."""
        return np.asarray(self.classes if self.classes is not None else [])

    given = y

    def labelled(self, labels: np.ndarray, classes: Any) -> "StreamedFit":
        return replace(self, known=tuple(np.asarray(classes).tolist()))

    def mapped(self, function: Callable[[np.ndarray], np.ndarray]) -> "StreamedFit":
        return replace(self, steps=(*self.steps, function))

    def warn_of_clipping(self, bounds: Any) -> None:
        """Nothing is read before it is paid for."""

    def columns(self, encode: Encode) -> list[StreamedColumns]:
        """Each party's stream of what an algorithm reads."""
        nobody = encode(np.zeros((0, self.width)), np.zeros(0))
        shapes = tuple(array.shape[1:] for array in nobody)

        def begin(stream: RecordStream) -> StreamedColumns:
            def read() -> Iterator[tuple[np.ndarray, ...]]:
                for X, y in self._batches(stream):
                    yield encode(X, y)

            return StreamedColumns(stream.rows, shapes, read)

        return [begin(stream) for stream in self.streams]

    def _batches(self, stream: RecordStream) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Values and labels, batch by batch; after the first time, whoever holds the records is
        told what was missing or clipped."""
        unread, outside = 0, 0
        for batch in stream.batches():
            with warnings.catch_warnings(record=True) as quiet:
                warnings.simplefilter("always", ClippedValues)
                warnings.simplefilter("ignore", UnreadValues)
                if self.declared is not None:
                    X = self.declared.read(batch)
                else:
                    X = np.column_stack([batch.numbers(name) for name in self.features])
                y = self._labels(batch)
                for step in self.steps:
                    y = step(y)
            outside += batch.rows if quiet else 0
            unread += int(np.count_nonzero(np.isnan(X).any(axis=1) | np.isnan(y)))
            yield X, y
        if stream.name in self.told:
            return
        self.told.add(stream.name)
        if unread:
            warnings.warn(
                f"{unread} of {stream.rows} records of {stream.name} miss a value, or hold one "
                "that cannot be read: it counts as missing, which changes what is read of no other "
                "record. Nobody else is told",
                UnreadValues,
                stacklevel=2,
            )
        if outside:
            warnings.warn(
                f"{stream.name}: values outside the public bounds are clipped to them; nobody else "
                "is told",
                ClippedValues,
                stacklevel=2,
            )

    def _labels(self, batch: RecordTable) -> np.ndarray:
        declared = None if self.declared is None else self.declared.target
        cells = batch.column(self.target)
        if self.known is None:
            if isinstance(declared, NumericColumn):
                return np.clip(declared.read(cells, batch.decimal), *declared.span)
            return numbers(cells, batch.decimal)
        if isinstance(declared, NamedColumn):
            places = declared.read(cells, batch.decimal)
            order = codes(list(_classes_of(declared)), self.known).astype(float)
            return np.where(np.isnan(places), np.nan, order[np.nan_to_num(places).astype(int)])
        places = codes(cells, self.known).astype(float)
        return np.where(places < 0, np.nan, places)

    def in_memory(self, seed: int | None) -> FitRecords:
        """All records at once, one party after the other."""
        numeric = self.known is None
        parts = [
            _of_table(
                stream.table(), self.target, self.features, self.declared, self.known, numeric
            )
            for stream in self.streams
        ]
        cuts = np.cumsum([len(X) for X, *_ in parts])
        rows = np.split(np.arange(cuts[-1]), cuts[:-1])
        members = Membership(self.names, tuple(rows))
        X, lacking = (np.concatenate([part[n] for part in parts]) for n in (0, 2))
        y = [label for _, own, _ in parts for label in own]
        if self.known is None:
            found = FitRecords(X, np.asarray(y, float), members)
        else:
            places = codes(y, self.known)
            warn_unread(places < 0, "labels", f"any of the classes {list(self.known)}")
            found = FitRecords(X, y, members, lacking=lacking | (places < 0))
            found = found.labelled(places, self.known)
        for step in self.steps:
            found = found.mapped(step)
        return found.shuffled(seed) if self.unordered else found


Records = FitRecords | StreamedFit


# ------------------------------------------------------------- reading what is given


def read_records(
    estimator: Any,
    X: Any,
    y: Any,
    parties: Any,
    persons: Any,
    *,
    numeric: bool,
    weights: Any = None,
) -> tuple[Records, Declared | None]:
    """What `fit` was given, and how columns are declared, if they are. `numeric` targets are
    numbers, others classes. `weights` (n,) are those of records, or the name of their column."""
    said = estimator.columns
    target = y if isinstance(y, str) else None
    declared = None if said is None else Declared.of(said, target)
    if declared is not None and estimator.bounds is not None:
        raise InvalidInput(
            "bounds and columns are both given: declare the bounds of each column in columns"
        )
    _require_one_target(estimator, declared, numeric)
    classes = None if numeric else getattr(estimator, "classes", None)
    classes = None if isinstance(classes, str) else classes  # private: see `unlisted`
    if declared is not None and isinstance(declared.target, NamedColumn) and not numeric:
        classes = _classes_of(declared.target)
    wanted = None
    if declared is not None:
        others = (y, parties, persons, weights)
        wanted = [*declared.names, *(one for one in others if isinstance(one, str))]
    streams = _streams(X)
    if streams is not None and (weights is not None or persons is None):
        _require_no_weights(estimator, weights)
    if streams is not None and persons is not None:
        X = _one_table(streams, wanted)
    elif streams is not None:
        return _streamed(estimator, streams, y, parties, declared, classes), declared
    named = declared is not None or _named(y, parties, persons, weights)
    if is_frame(X, pandas=named) or (isinstance(X, Iterator) and not hasattr(X, "__array__")):
        X = table_of(X, wanted)
        found = _framed(estimator, X, y, parties, persons, weights, declared, classes, numeric)
        if isinstance(weights, str):
            weights = numbers(X.column(weights), X.decimal)
        if X.unordered and persons is None:  # persons are put into one anyway
            found = found.shuffled(estimator._seed())
    elif declared is not None:
        raise InvalidInput(
            f"columns are declared by name, and X is a {type(X).__name__} without names: give a "
            "frame of pandas, polars or Arrow, a DuckDB relation, lists by name, or a path"
        )
    elif _named(y, parties, persons, weights):
        raise InvalidInput(
            f"X is a {type(X).__name__} without names of columns: give y, parties, persons and "
            "sample_weight one value for each row, or give a frame"
        )
    else:
        given = y
        X, y = validate_data(estimator, X, y, dtype=np.float64, y_numeric=numeric)
        if not numeric:
            check_classification_targets(y)
        found = FitRecords(X, y, membership(parties, len(X)), given, classes, kind=_kind_of(given))
    if weights is not None:
        found = found.weighed(as_shares(weights, estimator.largest_weight, len(found.X)))
    return found if persons is None else of_persons(estimator, found, X, persons), declared


def _require_no_weights(estimator: Any, weights: Any) -> None:
    """Refuse weights of records that are streamed."""
    if weights is None and getattr(estimator, "class_weight", None) is None:
        return
    raise InvalidInput(
        "sample_weight or class_weight with records in files or batches, which are read block by "
        "block: give a frame or arrays; nothing was spent"
    )


def _named(*given: Any) -> bool:
    return any(isinstance(one, str) for one in given)


def _require_one_target(estimator: Any, declared: Declared | None, numeric: bool) -> None:
    """Refuse a target that is declared in two ways, or not as what the estimator predicts."""
    if declared is None or declared.target is None:
        return
    kind = "number" if numeric else "category"
    if isinstance(declared.target, NumericColumn) is not numeric:
        raise InvalidInput(
            f"columns declares the target as {declared.target.wanted}, and "
            f"{type(estimator).__name__} predicts {'numbers' if numeric else 'classes'}: declare "
            f'it with kind = "{kind}"'
        )
    name = "target_bounds" if numeric else "classes"
    if getattr(estimator, name) is not None:
        raise InvalidInput(f"{name} and columns both say what the target is: leave {name} out")


def _classes_of(column: NamedColumn) -> tuple[Any, ...]:
    """The classes of a declared target, by their places."""
    if isinstance(column, TrueFalse) and column.missing != "category":
        return (False, True)
    return column.levels


def _framed(
    estimator: Any,
    table: RecordTable,
    y: Any,
    parties: Any,
    persons: Any,
    weights: Any,
    declared: Declared | None,
    classes: Any,
    numeric: bool,
) -> FitRecords:
    """Records of a table; y, parties, persons and weights may be names of its columns."""
    taken = {name for name in (y, parties, persons, weights) if isinstance(name, str)}
    require_columns(table.name, table.columns, sorted(taken))
    features = tuple(name for name in table.columns if name not in taken)
    if declared is not None:
        features = declared.names
        if both := sorted(taken & set(features)):
            raise InvalidInput(
                f"{both[0]!r} is declared as a feature, and says whose a record is, or what it "
                "weighs: leave it out of columns"
            )
    if not features:
        raise InvalidInput(f"{table.name} has no columns but {', '.join(sorted(taken))}: add some")
    X, labels, lacking = _of_table(table, y, features, declared, classes, numeric)
    estimator.n_features_in_ = len(features)
    estimator.feature_names_in_ = np.array(features, object)
    whose = table.column(parties) if isinstance(parties, str) else parties
    if isinstance(whose, Sequence) and not isinstance(whose, list | tuple):
        whose = list(whose)
    kind = _kind_of(table.column(y) if isinstance(y, str) else y)
    members = membership(whose, table.rows)
    return FitRecords(X, labels, members, labels, classes, lacking, kind=kind)


def _kind_of(cells: Any) -> str:
    """The kind of an array, as its type says; that of a list would depend on all its values."""
    if isinstance(cells, ArrowColumn):
        return "b" if str(cells.values.type) == "bool" else ""
    return getattr(getattr(cells, "dtype", None), "kind", "")


def _of_table(
    table: RecordTable,
    y: Any,
    features: tuple[str, ...],
    declared: Declared | None,
    classes: Any,
    numeric: bool,
) -> tuple[np.ndarray, Any, np.ndarray]:
    """Values (n, c), labels (n,) with stand-ins for missing ones, and which of them are missing."""
    require_columns(table.name, table.columns, features)
    X = declared.read(table) if declared is not None else numbers_of(table, features)
    cells = table.column(y) if isinstance(y, str) else listed(y)
    if len(cells) != table.rows:
        raise InvalidInput(f"{len(cells)} targets for {table.rows} records: give one for each")
    title = repr(y) if isinstance(y, str) else "y"
    target = None if declared is None else declared.target
    if numeric:
        own = numbers(cells, table.decimal)
        if isinstance(target, NumericColumn):
            own = np.clip(target.read(cells, table.decimal), *target.span)
        lacking = np.isnan(own)
        labels: Any = own
    elif isinstance(target, NamedColumn):
        places = target.read(cells, table.decimal)
        lacking, levels = np.isnan(places), np.array(_classes_of(target))
        labels = levels[np.nan_to_num(places, nan=_STAND_IN).astype(int)]
    else:
        labels, lacking = _labels_of(cells, classes)
    if lacking.any():
        warnings.warn(
            f"{np.count_nonzero(lacking)} of {table.rows} targets ({title}) are missing: their "
            "records teach nothing; the public number of records stays. Nobody else is told",
            UnreadValues,
            stacklevel=2,
        )
    return X, labels, lacking


def _labels_of(cells: Any, classes: Any) -> tuple[Any, np.ndarray]:
    """Labels (n,) with stand-ins for missing ones, and which of them are missing. Where some are
    none of the classes, or these are not known, all of them as they are."""
    lacking = blanks(cells)
    known = [] if classes is None else list(dict.fromkeys(classes))
    if known:
        places = codes(cells, known)
        if (lacking | (places >= 0)).all():
            return np.asarray(known)[np.maximum(places, 0)], lacking & (places < 0)
    stand_in = next(iter(known), None)
    pairs = zip(cells, lacking, strict=True)
    return [stand_in if missing else cell for cell, missing in pairs], lacking


# ------------------------------------------------------------- streams


def _streams(X: Any) -> list[RecordStream] | None:
    """The streams that X names: one, or a list with one for each party."""
    several = isinstance(X, list | tuple) and len(X) > 0
    first = X[0] if several else X
    if isinstance(first, Iterator) or is_frame(first) or hasattr(first, "__array__"):
        return None
    if isinstance(first, str | RecordStream) or hasattr(first, "__fspath__") or callable(first):
        found = [stream_of(one) for one in (X if several else [X])]
        return None if any(one is None for one in found) else [s for s in found if s is not None]
    return None


def _one_table(streams: list[RecordStream], columns: Sequence[str] | None) -> RecordTable:
    """Persons are not streamed: their records may lie anywhere."""
    [first, *others] = streams
    cells = first.rows * len(first.names if columns is None else columns)
    if others or cells > MOST_HELD:
        raise InvalidInput(
            f"{len(streams)} streams with {cells} cells in the first, and persons: they are not "
            "streamed, as their records may lie anywhere; give one file or frame that fits into "
            "memory, with the party in one of its columns"
        )
    return table_of(first, columns)


def _streamed(
    estimator: Any,
    streams: list[RecordStream],
    y: Any,
    parties: Any,
    declared: Declared | None,
    classes: Any,
) -> StreamedFit:
    """One stream for each party, by the columns that the first one has."""
    if not isinstance(y, str):
        raise InvalidInput(
            "records are read from files or batches: give y as the name of one of their columns"
        )
    names = _stream_names(streams, parties)
    for stream in streams:
        require_columns(stream.name, stream.names, [y])
    features = tuple(name for name in streams[0].names if name != y)
    if declared is not None:
        features = declared.names
    for stream in streams:
        require_columns(stream.name, stream.names, features)
    estimator.n_features_in_ = len(features)
    estimator.feature_names_in_ = np.array(features, object)
    return StreamedFit(tuple(streams), names, y, features, declared, classes)


def _stream_names(streams: list[RecordStream], parties: Any) -> tuple[str, ...]:
    if parties is None and len(streams) == 1:
        return (ALONE,)
    if parties is None or isinstance(parties, str) or len(parties) != len(streams):
        raise InvalidInput(
            f"{len(streams)} files or streams of batches, each of which is one party's: give "
            "parties a name for each of them"
        )
    names = tuple(as_text(one) or str(one) for one in parties)
    if len(set(names)) < len(names):
        raise InvalidInput(f"parties {', '.join(names)}: give every file a party of its own")
    return names


# ------------------------------------------------------------- persons


def of_persons(estimator: Any, records: FitRecords, X: Any, persons: Any) -> FitRecords:
    """The same records, by the persons whose they are; a column is one of the table X."""
    group = records_per_person(estimator.records_per_person)
    column = persons if isinstance(persons, str) else ""
    cells = list(X.column(persons) if column else listed(persons))
    if len(cells) != len(records.X):
        raise InvalidInput(f"{len(cells)} persons for {len(records.X)} rows: name one for each row")
    people = persons_at(
        records.members, cells, group, estimator._seed(), column, estimator.person_at_parties
    )
    return replace(records, people=people, group=group, person=column)


# ------------------------------------------------------------- rows to predict


def predicted_rows(estimator: Any, declared: Declared | None, X: Any) -> np.ndarray:
    """The features (n, d) of records to predict; columns that do not fit are refused."""
    if declared is None:
        if not (is_frame(X, pandas=False) or _streams(X) is not None):
            return validate_data(estimator, X, dtype=np.float64, reset=False)
        table = table_of(X)
        require_same_names(estimator, tuple(table.columns))
        return numbers_of(table, tuple(table.columns))
    if not (is_frame(X) or _streams(X) is not None or isinstance(X, Iterator)):
        raise InvalidInput(
            f"X is a {type(X).__name__} without names of columns, and they are declared by name: "
            f"give a frame with {', '.join(declared.names)}"
        )
    table = table_of(X, declared.names)
    with warnings.catch_warnings():  # what nothing stands in for is refused below
        warnings.simplefilter("ignore", UnreadValues)
        values = declared.read(table)
    rows = declared.rows(values)
    for place, name in enumerate(declared.names):
        missing = np.isnan(values[:, place])
        if declared.schema.columns[name].drops and missing.any():
            raise InvalidInput(
                f"{np.count_nonzero(missing)} of {table.rows} records miss {name!r}, first record "
                f"{int(np.argmax(missing)) + 1}, and nothing stands in for it: leave these records "
                'out, or fit with missing = "indicator", "category" or a public value'
            )
    return rows


__all__ = [
    "Declared",
    "Encode",
    "FitRecords",
    "Records",
    "StreamedFit",
    "of_persons",
    "predicted_rows",
    "read_records",
]
