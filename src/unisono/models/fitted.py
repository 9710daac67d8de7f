"""A finished model on disk: what `result.json` keeps of it, and the object that `load` makes of it.

The document `fitted` of a result is self-contained and versioned:

    format        unisono-model-1
    model         its name in the registry, which says how it predicts, and its settings
    schema        all columns: kinds, bounds, values, transforms, what becomes of missing cells
    formula       what is predicted from what
    prediction    scaling, weights, covariance, link and classes (`models.prediction`); null where
                  the model predicts nothing
    certificate   the SHA-256 of certificate.json beside it, as canonical JSON of named fields:
                  all of them; between machines, where each writes a certificate of its own and
                  all have the same result, those that were agreed on
    arrays        the file that holds larger arrays, and its SHA-256

Nothing of it is code, and nothing that is loaded is run: JSON, and arrays of NumPy without pickles.
"""

import hashlib
import io
import json
import os
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from markupsafe import Markup
from pydantic import ValidationError

from unisono.core import notebook
from unisono.core.documents import ARRAYS, CERTIFICATE, RESULT, write
from unisono.core.events import canonical
from unisono.core.trust import Viewer, describe
from unisono.core.words import NOTHING_LEARNT, did_you_mean, number
from unisono.data import RecordTable, UnreadValues, read_table
from unisono.data.blocks import values_in_blocks
from unisono.data.columns import NumericColumn
from unisono.data.encoding import Values
from unisono.data.given import is_frame, table_of
from unisono.data.reading import declared_column
from unisono.data.schema import Schema
from unisono.errors import ClippedValues, InvalidInput
from unisono.models.inference import as_grid, as_text
from unisono.models.model import ModelKind
from unisono.models.prediction import HazardRatio, Offset, Prediction, Scores

FORMAT = "unisono-model-1"
# Fields of a certificate that are the same on all machines of a study.
AGREED = (
    *("study", "file", "algorithm", "settings", "trust"),
    *("parties", "minimum_parties", "colluders", "unit"),
)
INLINE = 2048  # numbers of an array that stay in the JSON
Incomplete = Literal["refuse", "empty"]
_ADDED = "\0offset"  # the name of no column


# ------------------------------------------------------------- writing


def fitted_document(
    model: str,
    settings: Mapping[str, Any],
    schema: Schema,
    prediction: Prediction | None,
    known: Mapping[str, np.ndarray] | None = None,
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The document of a model, and the arrays that are too large for it; those that are `known`
    are written anyway, and named instead of written again."""
    arrays: dict[str, np.ndarray] = {}
    known = {} if known is None else known
    kept = None if prediction is None else _packed(prediction.document(), "", arrays, known)
    said = {
        "format": FORMAT,
        "model": model,
        "settings": dict(settings),
        "schema": schema.model_dump(mode="json"),
        "formula": "" if prediction is None else formula(schema, prediction),
        "prediction": kept,
    }
    try:
        return json.loads(json.dumps(said, allow_nan=False)), arrays
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"this model cannot be written as JSON: {error}") from None


def formula(schema: Schema, prediction: Prediction) -> str:
    """What is predicted from what, as statisticians write it."""
    terms = [*prediction.inputs, *(":".join(pair) for pair in schema.interactions)]
    offset = prediction.offset if isinstance(prediction, Scores) else None
    if offset is not None:
        terms.append(f"offset({'log ' * offset.log}{offset.column})")
    return f"{schema.target or prediction.words} ~ {' + '.join(terms)}"


def save_model(
    folder: Path,
    shown: Mapping[str, Any],
    fitted: Mapping[str, Any],
    arrays: Mapping[str, Any],
    *,
    alone: bool = True,
) -> dict[str, Any]:
    """Write a result with its model beside the certificate that lies there already; not `alone`
    where other machines write the same result."""
    sealed = dict(fitted)
    if arrays:
        packed = io.BytesIO()
        np.savez(packed, **arrays)
        write(folder / ARRAYS, packed.getvalue())
        sealed["arrays"] = {"file": ARRAYS, "sha256": _digest(packed.getvalue())}
    certificate = CERTIFICATE.read(folder) or {}
    named = sorted(certificate) if alone else [name for name in AGREED if name in certificate]
    digest = _digest(canonical({name: certificate[name] for name in named}))
    sealed["certificate"] = {"fields": named, "sha256": digest}
    return RESULT.write(folder, {**shown, "fitted": sealed})


def _packed(
    value: Any,
    place: str,
    arrays: dict[str, np.ndarray],
    known: Mapping[str, np.ndarray],
    inline: int | None = INLINE,
) -> Any:
    """Plain values; an array of more than `inline` numbers by its name."""
    if isinstance(value, np.ndarray) and inline is not None and value.size > inline:
        same = [n for n, own in known.items() if own.shape == value.shape and (own == value).all()]
        name = next(iter(same), f"model{place}")
        if not same:
            arrays[name] = value
        return {"array": name}
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Mapping):
        pairs = value.items()
        return {key: _packed(own, f"{place}.{key}", arrays, known, inline) for key, own in pairs}
    if isinstance(value, list | tuple):
        each = enumerate(value)
        return [_packed(own, f"{place}.{n}", arrays, known, inline) for n, own in each]
    return value


def _unpacked(value: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    if isinstance(value, dict):
        if list(value) == ["array"]:
            return arrays[value["array"]]
        return {key: _unpacked(own, arrays) for key, own in value.items()}
    if isinstance(value, list):
        return [_unpacked(own, arrays) for own in value]
    return value


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


# ------------------------------------------------------------- loading


def load(path: str | os.PathLike[str]) -> "FittedModel":
    """The model of a finished run, or of an estimator that was saved: a folder, as "study.run".

    Only JSON and plain arrays are read; no code from a file is run. A folder whose parts do not
    belong together is refused."""
    folder = Path(path)
    folder = folder.parent if folder.name == RESULT.file else folder
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "does not exist"
        raise InvalidInput(
            f"{folder} {what}: give the folder of a finished run, as study.run, or one that an "
            "estimator was saved to"
        )
    result = RESULT.read(folder)
    if result is None:
        raise InvalidInput(
            f"{folder} holds no {RESULT.file}: give the folder of a run that has finished, or let "
            "this one go on"
        )
    if "failed" in result:
        raise InvalidInput(f"{folder} holds no model, as its run failed: {result['failed']}")
    fitted = result.get("fitted")
    if not isinstance(fitted, dict):
        raise InvalidInput(
            f"{folder / RESULT.file} was written by an earlier version, which kept no model in it, "
            "so nothing can be predicted from it: agree on the study's next edition and run it "
            "again; what was spent stays spent"
        )
    if fitted.get("format") != FORMAT:
        raise InvalidInput(
            f"{folder / RESULT.file} holds a model of format {fitted.get('format')!r:.40}, where "
            f"{FORMAT!r} is read: load it with the version of unisono that wrote it, or run the "
            "study again"
        )
    certificate = CERTIFICATE.read(folder)
    if certificate is None or not _belongs(certificate, fitted.get("certificate")):
        what = "is missing" if certificate is None else "is not the one of this result"
        raise InvalidInput(
            f"{folder / CERTIFICATE.file} {what}: keep the files of a run together, or restore "
            "them from a backup"
        )
    return _read(folder, result, fitted, certificate)


def _read(
    folder: Path, result: Mapping[str, Any], fitted: Mapping[str, Any], certificate: Any
) -> "FittedModel":
    from unisono.models.registry import kind_read

    where = folder / RESULT.file
    try:
        kind = kind_read(str(fitted["model"]))
        schema = Schema.model_validate_json(json.dumps(fitted["schema"]))
        kept = fitted["prediction"]
        prediction = None
        if kept is not None:
            if kind.prediction is None:
                raise InvalidInput(f"it predicts, and {kind.name} does not: {kind.silent}")
            prediction = kind.prediction.read(_unpacked(kept, _arrays(folder, fitted)))
            _require_columns(schema, prediction)
    except (KeyError, TypeError, ValidationError, InvalidInput) as error:
        first = str(error).splitlines()[0]
        raise InvalidInput(
            f"{where} is damaged ({first}): restore it from a backup, or run the study again"
        ) from None
    return FittedModel(folder, kind, schema, prediction, result, certificate)


def _unpickled(folder: str, result: str, certificate: str, prediction: str) -> "FittedModel":
    """A model of a pickle, whose larger arrays are in the text of its prediction."""
    said = json.loads(result)
    fitted = {key: own for key, own in said["fitted"].items() if key != "arrays"}
    fitted["prediction"] = json.loads(prediction)
    return _read(Path(folder), said, fitted, json.loads(certificate))


def _belongs(certificate: Mapping[str, Any], sealed: Any) -> bool:
    """Whether a certificate is the one that a result names."""
    try:
        own = {name: certificate[name] for name in sealed["fields"]}
        return bool(own) and _digest(canonical(own)) == sealed["sha256"]
    except (TypeError, KeyError, ValueError):
        return False


class Portable(NamedTuple):
    """A model in one text, as the study of an evaluation holds it: how it predicts, from which
    columns, the study file that it was learnt by (its hash), and what that says of the model."""

    kind: ModelKind
    schema: Schema
    prediction: Prediction
    title: str
    file: str
    settings: Any = None

    def rows(self, values: Values) -> np.ndarray:
        """Features (n, d) of records whose columns are declared as the model's."""
        return self.prediction.rows(features_of(self.schema, self.prediction), values)


def portable_text(model: "FittedModel") -> str:
    """All of a model that predicts as one JSON text, larger arrays included."""
    prediction = _packed(model._predicts().document(), "", {}, {}, inline=None)
    said = {
        "format": FORMAT,
        "model": model.model,
        "title": model.title,
        "file": str(model.result.get("file", "")),
        "settings": dict(model.result["fitted"].get("settings", {})),
        "schema": model.schema.model_dump(mode="json"),
        "prediction": prediction,
    }
    return json.dumps(said, allow_nan=False)


def portable(text: str) -> Portable:
    """The model of a text that `portable_text` wrote."""
    from unisono.models.registry import kind_read

    try:
        said = json.loads(text)
        if said["format"] != FORMAT:
            raise InvalidInput(f"format {said['format']!r:.40} where {FORMAT!r} is read")
        kind = kind_read(str(said["model"]))
        schema = Schema.model_validate_json(json.dumps(said["schema"]))
        if kind.prediction is None:
            raise InvalidInput(f"{kind.name} predicts nothing: {kind.silent}")
        prediction = kind.prediction.read(said["prediction"])
        _require_columns(schema, prediction)
        named = str(said["title"]), str(said["file"])
        known = said.get("settings") or {}
        return Portable(
            kind, schema, prediction, *named, kind.configured(**known) if known else None
        )
    except (KeyError, TypeError, ValueError, InvalidInput) as error:
        first = str(error).splitlines()[0]
        raise InvalidInput(
            f"is no model that can be read ({first}): let `unisono evaluate RUN` write it"
        ) from None


def _sealed(fitted: Mapping[str, Any], what: str) -> Any:
    own = fitted.get(what)
    return own.get("sha256") if isinstance(own, dict) else None


def _arrays(folder: Path, fitted: Mapping[str, Any]) -> Mapping[str, np.ndarray]:
    if "arrays" not in fitted:
        return {}
    path = folder / ARRAYS
    try:
        content = path.read_bytes()
    except OSError:
        raise InvalidInput(f"{ARRAYS}, which holds its larger arrays, is missing") from None
    if _digest(content) != _sealed(fitted, "arrays"):
        raise InvalidInput(f"{ARRAYS} is not the one that belongs to it")
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (ValueError, EOFError, OSError, zipfile.BadZipFile):
        raise InvalidInput(f"{ARRAYS} holds what are no plain arrays") from None


def _require_columns(schema: Schema, prediction: Prediction) -> None:
    """Refuse a prediction whose features are not those that the columns make."""
    offset = prediction.offset if isinstance(prediction, Scores) else None
    for name in (*prediction.inputs, *(() if offset is None else (offset.column,))):
        if name not in schema.columns:
            raise InvalidInput(f"it predicts from {name!r}, which is no column")
    anybody = {name: np.zeros(1) for name in prediction.inputs}
    made = prediction.rows(features_of(schema, prediction), anybody).shape[1]
    if made != len(prediction.names):
        raise InvalidInput(f"{len(prediction.names)} features, where its columns make {made}")


def features_of(schema: Schema, prediction: Prediction) -> Schema:
    """The columns that features are made of, without a target."""
    kept = {name: schema.columns[name] for name in prediction.inputs}
    return schema.model_copy(update={"columns": kept, "target": None})


# ------------------------------------------------------------- the model


@dataclass(frozen=True, repr=False, eq=False)
class FittedModel:
    """A model that has been learnt: it predicts, and says what it promises and to whom.

    Records come as frames by the names of their columns, as lists by name, as one record by name,
    as a path to a CSV or Parquet file, or as an array with the names of its `columns`. They are
    read as those of training were: by the declared kinds, bounds and rules for missing cells.
    Other columns are left alone. A record that misses what it needs is refused; with
    `incomplete="empty"` it has no prediction (None or NaN)."""

    folder: Path
    kind: ModelKind
    schema: Schema
    prediction: Prediction | None
    result: Mapping[str, Any]
    certificate: Mapping[str, Any]

    def __reduce__(self) -> tuple[Any, ...]:
        """A pickle holds what the files of the run hold, as JSON, which is read as `load` does."""
        kept = None
        if self.prediction is not None:
            kept = _packed(self.prediction.document(), "", {}, {}, inline=None)
        said = (dict(self.result), dict(self.certificate), kept)
        return _unpickled, (str(self.folder), *map(json.dumps, said))

    # ------------------------------------------------------------- what it is

    @property
    def model(self) -> str:
        """Its name in the registry."""
        return self.kind.name

    @property
    def title(self) -> str:
        return str(self.result.get("title", ""))

    @property
    def target(self) -> str | None:
        """The column that is predicted."""
        return self.schema.target

    @property
    def formula(self) -> str:
        """What is predicted from what."""
        return str(self.result["fitted"]["formula"])

    @property
    def simulated(self) -> bool:
        """Whether its noise was predictable, so that it protects nobody."""
        return bool(self.certificate.get("entropy") == "simulation")

    @property
    def feature_names_in_(self) -> np.ndarray:
        """The columns that records must have."""
        return np.array(self._predicts().inputs, object)

    @property
    def n_features_in_(self) -> int:
        return len(self._predicts().inputs)

    @cached_property
    def classes_(self) -> np.ndarray:
        """The values that it predicts, in the order of probabilities."""
        found = self._predicts()
        if not found.classes:
            raise AttributeError(f"it predicts {found.words}, not a class: there are no classes_")
        return np.array(found.classes)

    @property
    def _named(self) -> bool:
        """Whether the columns have names of their own, and not only places."""
        return self._predicts().inputs != tuple(f"x{n}" for n in range(self.n_features_in_))

    def _predicts(self) -> Prediction:
        if self.prediction is None:
            raise InvalidInput(
                f"{self.model} predicts nothing of single records: "
                f"{self.kind.silent or 'its model does not say how'}; see result and summary()"
            )
        return self.prediction

    # ------------------------------------------------------------- predictions

    def predict(
        self,
        X: Any,
        *,
        columns: Sequence[str] | None = None,
        offset: Any = None,
        incomplete: Incomplete = "refuse",
    ) -> np.ndarray:
        """The likeliest class of each record, or the number that is expected of it (n,)."""
        found = self._predicts()
        rows, added, whole = self._rows(X, columns, offset, incomplete)
        said = found.predict(rows, added)
        if found.classes:
            return _among(self.classes_, said, whole)
        return _filled(said, whole)

    def predict_proba(
        self,
        X: Any,
        *,
        columns: Sequence[str] | None = None,
        offset: Any = None,
        incomplete: Incomplete = "refuse",
    ) -> np.ndarray:
        """The probability of each class (n, k), in the order of `classes_`."""
        rows, added, whole = self._rows(X, columns, offset, incomplete)
        return _filled(self._predicts().probabilities(rows, added), whole)

    def predict_interval(
        self,
        X: Any,
        level: float = 0.95,
        *,
        new: bool = False,
        columns: Sequence[str] | None = None,
        offset: Any = None,
        incomplete: Incomplete = "refuse",
    ) -> np.ndarray:
        """Ends (n, 2) between which what is expected of a record lies, with this `level`: its
        number, or the chance of the second class. They count sampling and the noise of privacy.
        With `new` a new record's own number lies there, where the model knows how they scatter."""
        rows, added, whole = self._rows(X, columns, offset, incomplete)
        return _filled(self._predicts().interval(rows, level, added, new), whole)

    def decision_function(
        self,
        X: Any,
        *,
        columns: Sequence[str] | None = None,
        offset: Any = None,
        incomplete: Incomplete = "refuse",
    ) -> np.ndarray:
        """Scores before the link: (n,), positive for the second of two classes; else (n, k)."""
        found = self._predicts()
        if not isinstance(found, Scores):
            raise InvalidInput(f"it predicts {found.words}, and has no scores: use predict")
        rows, added, whole = self._rows(X, columns, offset, incomplete)
        scores = found.scores(rows, added)
        if scores.shape[1] == 2:
            scores = scores[:, 1:] - scores[:, :1]
        return _filled(scores[:, 0] if scores.shape[1] == 1 else scores, whole)

    def predict_survival(
        self,
        X: Any,
        times: Any,
        *,
        columns: Sequence[str] | None = None,
        incomplete: Incomplete = "refuse",
    ) -> np.ndarray:
        """The chance (n, t) of no event up to each of the times, for hazards."""
        found = self._predicts()
        if not isinstance(found, HazardRatio):
            raise InvalidInput(f"it predicts {found.words}, and no survival: learn hazards")
        rows, _, whole = self._rows(X, columns, None, incomplete)
        return _filled(found.survival(rows, np.asarray(times, float)), whole)

    def each(
        self,
        compute: Callable[[Prediction, np.ndarray, np.ndarray | None], np.ndarray],
        table: RecordTable,
        places: np.ndarray,
    ) -> np.ndarray:
        """What `compute` makes of features and offsets of the private records at these `places`,
        each by itself (`data.blocks`): (n, ...), NaN where a record misses something. Nothing is
        refused because of a value."""
        found = self._predicts()
        with warnings.catch_warnings():  # how a model reads a record is no news about the record
            warnings.simplefilter("ignore", ClippedValues)
            values = self._values(table, refuse=False)
            added = self._offset_column(table)
        if added is not None:
            values[_ADDED] = added
        features = features_of(self.schema, found)

        def block(own: dict[str, np.ndarray]) -> tuple[np.ndarray]:
            offset = self._offset_of(own.pop(_ADDED, None))
            rows = found.rows(features, own)
            whole = np.isfinite(rows).all(axis=1)
            if offset is not None:
                whole = whole & np.isfinite(offset)
                offset = np.where(whole, offset, 0.0)
            said = compute(found, np.where(whole[:, None], rows, 0.0), offset)
            return (_filled(np.asarray(said, float), whole),)

        return values_in_blocks(block, {name: own[places] for name, own in values.items()})[0]

    # ------------------------------------------------------------- reading records

    def _rows(
        self, X: Any, columns: Sequence[str] | None, offset: Any, incomplete: str
    ) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
        """Features (n, d) and offsets (n,) of records, and which of them (n,) miss nothing."""
        found = self._predicts()
        if incomplete not in ("refuse", "empty"):
            raise InvalidInput(f"incomplete = {incomplete!r}: choose refuse or empty")
        table = self.table(X, columns)
        values = self._values(table, refuse=True)
        rows = found.rows(features_of(self.schema, found), values)
        whole = np.isfinite(rows).all(axis=1)
        added = self._offset(table, offset)
        if added is not None:
            whole = whole & np.isfinite(added)
            added = np.where(whole, added, 0.0)
        if incomplete == "refuse" and not whole.all():
            self._refuse(table, values, whole)
        return np.where(whole[:, None], rows, 0.0), added, whole

    def table(self, X: Any, columns: Sequence[str] | None = None) -> RecordTable:
        """Records by the names of their columns, or a refusal that says which do not fit."""
        found = self._predicts()
        if isinstance(X, str | os.PathLike) and Path(X).suffix.lower() == ".csv":
            table = read_table(Path(X), None, self.schema.multiline, self.schema.csv)
        elif isinstance(X, Mapping) and X and not any(map(_several, X.values())):
            table = table_of({key: [cell] for key, cell in X.items()}, name="the record")
        elif isinstance(X, list) and X and all(isinstance(one, Mapping) for one in X):
            names = list(dict.fromkeys(name for one in X for name in one))
            table = table_of({n: [one.get(n) for one in X] for n in names}, name="the records")
        elif is_frame(X) or isinstance(X, str | os.PathLike | Iterator) or callable(X):
            table = table_of(X, name="the records")
        else:
            table = self._of_array(X, columns)
        lacking = [name for name in found.inputs if name not in table.columns]
        if lacking:
            others = [name for name in table.columns if name not in found.inputs]
            column = "column" if len(lacking) == 1 else "columns"
            raise InvalidInput(
                f"there is no {column} {', '.join(map(repr, lacking))}, which this model predicts "
                f"from, in {table.name}: the columns there are {', '.join(table.columns)}; give "
                f"all of {', '.join(found.inputs)}{did_you_mean(lacking[0], others)}"
            )
        return table

    def _of_array(self, X: Any, columns: Sequence[str] | None) -> RecordTable:
        inputs = self._predicts().inputs
        array = np.asarray(X)
        if array.ndim != 2:
            raise InvalidInput(
                f"an array of shape {array.shape}: give one row for each record, or a frame with "
                f"{', '.join(inputs)}"
            )
        if columns is None and self._named:
            raise InvalidInput(
                f"an array of {array.shape[1]} columns without names, and the model knows them by "
                f"name: say columns=[...], or give a frame with {', '.join(inputs)}"
            )
        names = [f"x{n}" for n in range(array.shape[1])] if columns is None else list(columns)
        if len(names) != array.shape[1] or (columns is None and len(names) != len(inputs)):
            wanted = len(names) if columns is not None else len(inputs)
            raise InvalidInput(
                f"an array of {array.shape[1]} columns where {wanted} belong: give one for each of "
                f"{', '.join(inputs)}"
            )
        return table_of(dict(zip(names, array.T, strict=True)), name="the array")

    def _values(self, table: RecordTable, refuse: bool) -> dict[str, np.ndarray]:
        """The inputs' values; a column in which nothing can be read is refused, or missing."""
        values = {}
        with warnings.catch_warnings():  # what is missing is said below, record by record
            warnings.simplefilter("ignore", UnreadValues)
            for name in self._predicts().inputs:
                column = self.schema.columns[name]
                values[name] = declared_column(table, name, column, "as in training")
                if refuse and column.drops and np.isnan(values[name]).all():
                    raise InvalidInput(
                        f"no cell of {name!r} in {table.name} can be read: the model takes "
                        f"{column.wanted} there; give such values"
                    )
        return values

    def _offset(self, table: RecordTable, given: Any) -> np.ndarray | None:
        """What is added to scores (n,): given, or the column that the model names."""
        if given is not None:
            found = self._predicts()
            own = np.asarray(given, float)
            if own.shape != (table.rows,) or not isinstance(found, Scores):
                raise InvalidInput(
                    f"offset of shape {own.shape} for {table.rows} records: give one number for "
                    "each, to a model with scores"
                )
            return own
        return self._offset_of(self._offset_column(table))

    def _offset_column(self, table: RecordTable) -> np.ndarray | None:
        """The column (n,) that the model adds to scores, as it is read."""
        known = self._offset_known
        if known is None:
            return None
        if known.column not in table.columns:
            if known.log:
                return None  # of one unit of exposure
            raise InvalidInput(
                f"{table.name} has no column {known.column!r}, which is added to every score: "
                "give it, or offset=..."
            )
        column = self.schema.columns[known.column]
        return declared_column(table, known.column, column, "as in training")

    def _offset_of(self, own: np.ndarray | None) -> np.ndarray | None:
        """What is added of that column."""
        known = self._offset_known
        if own is None or known is None or not known.log:
            return own
        return np.log(np.where(own > 0, own, np.nan))

    @property
    def _offset_known(self) -> Offset | None:
        found = self._predicts()
        return found.offset if isinstance(found, Scores) else None

    def _refuse(self, table: RecordTable, values: Values, whole: np.ndarray) -> None:
        """Say what the first record misses that cannot be predicted."""
        first = int(np.argmin(whole))
        lacking = [
            name
            for name, own in values.items()
            if np.isnan(own[first]) and self.schema.columns[name].drops
        ]
        what = ", ".join(map(repr, lacking)) or "its offset"
        wanted = f" ({self.schema.columns[lacking[0]].wanted})" if lacking else ""
        raise InvalidInput(
            f"{np.count_nonzero(~whole)} of {table.rows} records cannot be predicted: record "
            f"{first + 1} of {table.name} has no readable {what}{wanted}, and nothing was agreed "
            "on that stands in for it; leave such records out, or say incomplete='empty'"
        )

    # ------------------------------------------------------------- in words

    def summary(self) -> str:
        """What was learnt, from what it predicts, and what is promised; for people."""
        lines = [f"{self.title or self.model}: {self.kind.summary}"]
        if self.simulated:
            lines.append("SIMULATION: the noise was predictable; this protects nobody.")
        if self.prediction is None:
            lines.append(f"  predicts   nothing: {self.kind.silent}")
        else:
            lines.append(f"  formula    {self.formula}")
            lines += [f"  column     {own}" for own in self._columns()]
            if self.prediction.classes:
                lines.append(f"  classes    {', '.join(map(str, self.prediction.classes))}")
        lines.append(f"  algorithm  {self.result.get('algorithm', '')}")
        lines += [f"  promise    {own}" for own in self._promises()]
        if isinstance(self.result.get("coefficients"), dict):
            ratio, sure = str(self.result["ratio"]), float(self.result["confidence"])
            lines.append(as_text(self.result["coefficients"], ratio, sure, 98))
        elif isinstance(self.result.get("weights"), dict):
            lines += [f"  {'intercept':<24} {self.result['intercept']:.4g}"]
            lines += [f"  {name:<24} {own:.4g}" for name, own in self.result["weights"].items()]
        if note := self.result.get("note"):
            lines.append(str(note))
        return "\n".join(lines)

    def _columns(self) -> Iterator[str]:
        for name in self._predicts().inputs:
            column = self.schema.columns[name]
            said = column.wanted
            if isinstance(column, NumericColumn):
                said += f", {column.span[0]:g} to {column.span[1]:g}"
            if column.fill_words:
                said += f"; in the place of a missing one: {column.fill_words}"
            yield f"{name}: {said}"

    def _promises(self) -> Iterator[str]:
        """Epsilon against each viewer, under the first relation that is stated of it."""
        stated: dict[str, Mapping[str, Any]] = {}
        for line in self.certificate.get("guarantees", ()):
            stated.setdefault(str(line["viewer"]), line)
        alike: dict[str, list[str]] = {}
        for viewer, line in stated.items():
            said = line["epsilon"]
            epsilon = "no protection" if said == "inf" else f"epsilon {number(float(said))}"
            unit, relation = self.certificate["unit"], line["relation"]
            words = f"{epsilon} at delta {line['delta']:g} for one {unit}, {relation}, against"
            alike.setdefault(words, []).append(describe(Viewer(viewer)))
        for words, viewers in alike.items():
            yield f"{words} {'; '.join(viewers)}"

    def _repr_html_(self) -> str:
        """The summary as notebooks show it."""
        facts = {"algorithm": str(self.result.get("algorithm", ""))}
        if self.prediction is None:
            facts["predicts"] = f"nothing: {self.kind.silent}"
        else:
            facts["formula"] = self.formula
            facts["classes"] = ", ".join(map(str, self.prediction.classes))
        columns = [] if self.prediction is None else list(self._columns())
        return notebook.shown(
            f"{self.title or self.model}: {self.kind.summary}",
            notebook.facts(facts),
            self._found_html(),
            notebook.folded("Columns that it predicts from", *map(notebook.sentence, columns))
            if columns
            else Markup(""),
            *(notebook.sentence(f"Promise: {own}.") for own in self._promises()),
            notebook.sentence(str(self.result.get("note") or ""), "note"),
            simulated=self.simulated,
        )

    def _found_html(self) -> Markup:
        """Coefficients with intervals, a posterior, or weights, where there are any to read."""
        result = self.result
        if isinstance(result.get("coefficients"), dict):
            ratio, sure = str(result["ratio"]), float(result["confidence"])
            return as_grid(result["coefficients"], ratio, sure)
        if isinstance(result.get("weights"), dict):
            rows = [["intercept", f"{result['intercept']:.4g}"]]
            rows += [[name, f"{own:.4g}"] for name, own in result["weights"].items()]
            return notebook.grid(["", "weight"], rows)
        if isinstance(result.get("mean"), dict):
            learnt = result.get("learnt", {})
            rows = [
                [name, f"{own:.4g}", f"{result['std'][name]:.3g}"]
                if learnt.get(name, True)
                else [name, NOTHING_LEARNT]
                for name, own in result["mean"].items()
            ]
            return notebook.grid(["", "mean", "std"], rows, "Posterior")
        return Markup("")

    def __repr__(self) -> str:
        said = f" of {self.title!r}" if self.title else ""
        inner = "predicts nothing" if self.prediction is None else self.formula
        return f"<FittedModel {self.model}{said}: {inner}>"


def _several(cell: Any) -> bool:
    return not isinstance(cell, str | bytes) and hasattr(cell, "__len__") and np.ndim(cell) > 0


def _filled(said: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """NaN for records that miss something."""
    if whole.all():
        return said
    return np.where(whole.reshape(-1, *[1] * (said.ndim - 1)), said, np.nan)


def _among(classes: np.ndarray, places: np.ndarray, whole: np.ndarray) -> np.ndarray:
    if whole.all():
        return classes[places]
    found = classes[places].astype(object)
    found[~whole] = None
    return found


__all__ = ["FORMAT", "FittedModel", "fitted_document", "formula", "load", "save_model"]
