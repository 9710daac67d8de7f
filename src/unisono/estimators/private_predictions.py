"""What a model predicts for private records, in which no record changes the answer for another.

    models of Unisono      read here by their declared columns, computed in blocks of one public
                           shape by arithmetic that mixes no rows (`data.blocks`)
    a user's own model     gets ONE record at a time: a pipeline that scales a batch by its mean, or
                           a matrix product, makes other records' predictions depend on one. The
                           type and the categories of a column follow from all records too, so that
                           whole numbers are given as floats, and a category without the others
    with rowwise=True      blocks of BLOCK records, as they are typed: the data owner states that
                           the model predicts each row by itself, and the certificate repeats it

A record for which a model raises an error, or has no finite answer, has no prediction. Nothing is
refused because of a value. A model is taken to be a fixed function: one that remembers earlier
records is no such function, and nothing is claimed about it.
"""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from numbers import Complex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _num_samples, check_is_fitted

from unisono.data import RecordTable
from unisono.data.given import is_frame, table_of
from unisono.errors import InvalidInput
from unisono.estimators.averaged import AveragedModel, widest_schema
from unisono.estimators.foundation import PrivateEstimator

if TYPE_CHECKING:
    from unisono.models.fitted import FittedModel

# Records of a block, where a user's model gets several at a time: a public number.
BLOCK = 64


# ------------------------------------------------------------- models of Unisono


def unisono_model(model: Any) -> "FittedModel | None":
    """A model that Unisono computes, as `unisono.load` reads it; None for all others, a subclass
    that may predict in its own way among them."""
    from unisono.estimators.model_choice import PrivateSearch
    from unisono.models.average import AVERAGE, Average
    from unisono.models.fitted import FittedModel
    from unisono.models.registry import kind_read

    if type(model) is FittedModel:
        return model
    if isinstance(model, PrivateSearch):
        return unisono_model(getattr(model, "best_estimator_", None))
    if type(model) is AveragedModel:
        members = Average.of([own._prediction() for own in model.members_])
        schema = widest_schema([own._schema_kept() for own in model.members_])
        return FittedModel(Path(), AVERAGE, schema, members, {}, {})
    if isinstance(model, PrivateEstimator) and type(model).__module__.startswith("unisono."):
        kind, schema = kind_read(model._model), model._schema_kept()
        return FittedModel(Path(), kind, schema, model._prediction(), {}, {})
    return None


def unisono_table(given: Any, model: "FittedModel", X: Any) -> RecordTable:
    """The columns of records that such a model reads; estimators take arrays, as scikit-learn's
    do, whatever they were fitted to. Of a list each record is read by itself, by name or place."""
    inputs = model._predicts().inputs
    if isinstance(X, list | tuple):
        cells = [_cells(one, inputs) for one in X]
        columns = {name: [own[place] for own in cells] for place, name in enumerate(inputs)}
        return table_of(columns, name="the records")
    if is_frame(X) and not model._named:
        X = np.asarray(X)
    named = given is model or is_frame(X) or isinstance(X, str | Path)
    return model.table(X, None if named else list(inputs))


def _cells(record: Any, inputs: Sequence[str]) -> Sequence[Any]:
    """A record's cells in the order of these columns; what has another shape misses all of them."""
    if isinstance(record, Mapping):
        return [record.get(name) for name in inputs]
    listed = isinstance(record, list | tuple) or getattr(record, "ndim", 0) == 1
    if listed and len(record) == len(inputs):
        return list(record)
    return [None] * len(inputs)


# ------------------------------------------------------------- a user's own model


def require_fitted(model: Any) -> None:
    """Refuse what predicts nothing, whatever the records are."""
    if not hasattr(model, "predict"):
        raise InvalidInput(
            f"a {type(model).__name__} has no predict: give a fitted model that predicts rows"
        )
    if isinstance(model, BaseEstimator):
        try:
            check_is_fitted(model)
        except NotFittedError:
            raise InvalidInput(f"this {type(model).__name__} is not fitted: fit it first") from None


def require_fitting(model: Any, X: Any, records: int) -> None:
    """Refuse rows by their number, and by the names and the number of their columns."""
    given = X.rows if isinstance(X, RecordTable) else _rows_of(X)
    if given != records:
        raise InvalidInput(f"{given} rows of X for {records} values of y: give each record one")
    if isinstance(X, RecordTable):
        return
    shape: tuple[int, ...] = tuple(getattr(X, "shape", ()))
    wanted = getattr(model, "n_features_in_", None)
    names = getattr(model, "feature_names_in_", None)
    if is_frame(X) and names is not None:
        lacking = [str(name) for name in names if name not in list(X.columns)]
        if lacking:
            raise InvalidInput(f"X lacks the column {lacking[0]!r}, which the model predicts from")
    elif len(shape) == 2 and isinstance(wanted, int | np.integer) and shape[1] != wanted:
        raise InvalidInput(f"X has {shape[1]} columns, and the model was fitted to {wanted}")


def _rows_of(X: Any) -> int:
    try:
        if isinstance(X, str | bytes | Mapping):
            raise TypeError
        _safe_indexing(X, [0])
        return int(_num_samples(X))
    except (TypeError, ValueError, KeyError, IndexError):
        raise InvalidInput(
            f"X is a {type(X).__name__}: give an array or a frame with one row for each record"
        ) from None


def user_predictions(
    call: Callable[[Any], Any], X: Any, seats: np.ndarray, rowwise: bool
) -> list[np.ndarray | None]:
    """What a user's model says of the record in each seat, in their order, and nothing for seats
    that are empty (-1); None where it raises an error or says something of another shape."""
    with warnings.catch_warnings():
        # Whether a warning stops the program is no matter of a record's values.
        warnings.simplefilter("ignore")
        if not rowwise:
            return [_answers(call, X, [place], _alone)[0] for place in seats[seats >= 0]]
        found: list[np.ndarray | None] = []
        for first in range(0, len(seats), BLOCK):
            found += _block_answers(call, X, seats[first : first + BLOCK])
        return found


def _block_answers(
    call: Callable[[Any], Any], X: Any, seats: np.ndarray
) -> list[np.ndarray | None]:
    """Of one block; copies of one of its records take the empty seats. Where the model raises an
    error each record is asked about in its own seat, among copies of itself: for a model that
    treats rows by themselves, others are answered as they would be otherwise."""
    taken = np.flatnonzero(seats >= 0)
    if not len(taken):
        return []
    filled = np.full(BLOCK, seats[taken[0]])
    filled[taken] = seats[taken]
    together = _answers(call, X, filled)
    if together[taken[0]] is not None:
        return [together[seat] for seat in taken]
    return [_answers(call, X, np.full(BLOCK, seats[seat]))[seat] for seat in taken]


def _answers(
    call: Callable[[Any], Any],
    X: Any,
    places: Sequence[int] | np.ndarray,
    given: Callable[[Any], Any] = lambda rows: rows,
) -> list[np.ndarray | None]:
    try:
        said = call(given(_safe_indexing(X, places)))
        if not isinstance(said, list | tuple):  # each of a list is read by itself
            said = np.asarray(said)
        if len(said) == len(places):
            return [np.asarray(one) for one in said]
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # whatever a model raises, a panic of Rust too, is about these records
        pass
    return [None] * len(places)


def _alone(row: Any) -> Any:
    """One record as its own cells say, whatever a library made of its column: there a single
    missing value turns all whole numbers into floats, and a category is one of all that occur."""
    if type(row).__module__.partition(".")[0] == "pandas":
        return _alone_in_pandas(row)
    kind = getattr(getattr(row, "dtype", None), "kind", "")
    if kind in "biu" and kind:
        return row.astype(np.float64)
    if kind == "O" and isinstance(row, np.ndarray):
        cells = [_cell(one) for one in row.flat]
        alike = all(isinstance(one, float | np.floating) for one in cells)
        found = np.empty(row.shape, np.float64 if alike else object)
        found.reshape(-1)[:] = cells
        return found
    return row


def _alone_in_pandas(row: Any) -> Any:
    frame = row.to_frame() if row.ndim == 1 else row
    made = {}
    for place, kind in enumerate(frame.dtypes):
        column = frame.iloc[:, place]
        own = type(column)([_cell(column.iat[0])])
        made[place] = own.astype("category") if kind.name == "category" else own
    found = type(frame)(made)
    found.columns = frame.columns
    return found if row.ndim == 2 else found.iloc[:, 0]


def _cell(value: Any) -> Any:
    """Numbers as floats, and nothing as NaN."""
    if isinstance(value, bool | np.bool_ | np.floating):
        return value
    if isinstance(value, Complex) and value.imag == 0:
        return float(value.real)
    missing = value is None or type(value).__name__ in ("NAType", "NaTType")
    return math.nan if missing else value


__all__ = [
    "BLOCK",
    "require_fitted",
    "require_fitting",
    "unisono_model",
    "unisono_table",
    "user_predictions",
]
