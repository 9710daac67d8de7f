"""Rows and targets as scikit-learn checks them, and what to do about cells that are no numbers."""

from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data as _validate_data

from unisono.data import RecordTable, numbers
from unisono.data.cells import blanks
from unisono.errors import InvalidInput

_MISSING = (
    "{name} takes numbers only. What stands in for a missing value must not be computed from the "
    "records (a mean or median of them is a release): put a public constant there, with a column "
    "of 0 and 1 that says where, or leave these records out{declare}; nothing was spent"
)
_TEXT = (
    "{name} takes numbers only. Make columns of 0 and 1 from a public list of values "
    "(OneHotEncoder(categories=[...]), never found in the records){declare}; nothing was spent"
)
_NO_NUMBERS = "text (could not convert string to float)"
_TEXT_TARGETS = (
    "this estimator predicts numbers. Give numbers, or take a classifier for classes; nothing was "
    "spent"
)
# What those can be told that read frames by declarations.
_DECLARE_MISSING = (
    ', or declare the column, as columns={"age": {"kind": "number", "bounds": (0, 120), "missing": '
    '"indicator", "fill": 40}}, or "drop record"'
)
_DECLARE_TEXT = (
    ', or declare the column, as columns={"sex": {"kind": "category", "values": ["F", "M"]}}, or '
    'as "true-false" or "date"'
)


def _advice(estimator: Any, words: str, declare: str) -> str:
    able = estimator is None or hasattr(estimator, "columns")
    name = "an estimator" if estimator is None else type(estimator).__name__
    return words.format(name=name, declare=declare if able else "")


def validate_data(estimator: Any, *arrays: Any, **options: Any) -> Any:
    """As scikit-learn's function of this name; refusals of cells say what to do, and quote none."""
    if options.get("y_numeric") and len(arrays) > 1:
        require_numbers(arrays[1], "y")
    try:
        return _validate_data(estimator, *arrays, **options)
    except ValueError as error:
        first = str(error).partition("\n")[0].rstrip(".")
        if "contains NaN" in first or "contains infinity" in first:
            advice = _advice(estimator, _MISSING, _DECLARE_MISSING)
            raise InvalidInput(f"{first}: {advice}") from None
        if "could not convert string" in first:  # its further words quote a cell
            advice = _advice(estimator, _TEXT, _DECLARE_TEXT)
            raise InvalidInput(f"X holds {_NO_NUMBERS}: {advice}") from None
        raise


def require_numbers(values: Any, what: str) -> np.ndarray | None:
    """Values as an array of numbers; None of what makes no array, which is refused elsewhere. Text
    is refused in words of our own: NumPy's quote the cell, which is a record's secret."""
    try:
        found = np.asarray(values)
    except (ValueError, TypeError):
        return None
    if found.dtype.kind not in "OSU" or found.ndim == 0:
        return found
    try:
        return found.astype(np.float64)
    except (ValueError, TypeError):
        said = _advice(None, _TEXT, _DECLARE_TEXT) if what == "X" else _TEXT_TARGETS
        raise InvalidInput(f"{what} holds {_NO_NUMBERS}: {said}") from None


def numbers_of(table: RecordTable, names: tuple[str, ...]) -> np.ndarray:
    """The columns of a table that holds numbers only (n, c), or a refusal that names the column."""
    columns = []
    for name in names:
        cells = table.column(name)
        own = numbers(cells, table.decimal)
        unread = np.isnan(own)
        if unread.any():
            text = unread & ~blanks(cells)
            many = np.count_nonzero(text if text.any() else unread)
            what, advice = "misses values", (_MISSING, _DECLARE_MISSING)
            if text.any():
                what, advice = "holds text", (_TEXT, _DECLARE_TEXT)
            raise InvalidInput(
                f"column {name!r} of X {what} in {many} of {table.rows} records: "
                f"{_advice(None, *advice)}"
            )
        columns.append(own)
    return np.column_stack(columns)


def require_same_names(estimator: Any, names: tuple[str, ...]) -> None:
    """Refuse columns to predict from that are not those of `fit`, in their order."""
    known = getattr(estimator, "feature_names_in_", None)
    if known is None:
        if len(names) != estimator.n_features_in_:
            raise InvalidInput(
                f"X has {len(names)} features, but {type(estimator).__name__} is expecting "
                f"{estimator.n_features_in_} features as input"
            )
        return
    if names == tuple(known):
        return
    strange = [name for name in names if name not in known]
    lacking = [name for name in known if name not in names]
    words = "they are in another order"
    if strange or lacking:
        parts = [f"it lacks {', '.join(map(repr, lacking))}"] if lacking else []
        parts += [f"{', '.join(map(repr, strange))} were not there"] if strange else []
        words = " and ".join(parts)
    raise InvalidInput(
        f"the columns of X do not fit those of fit ({', '.join(map(str, known))}): {words}; give "
        "the same columns in the same order"
    )


__all__ = ["numbers_of", "require_numbers", "require_same_names", "validate_data"]
