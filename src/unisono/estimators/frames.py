"""Rows and targets as scikit-learn checks them, and what to do about cells that are no numbers."""

from typing import Any

from sklearn.utils.validation import validate_data as _validate_data

from unisono.errors import InvalidInput

_MISSING = (
    "an estimator takes numbers only. What stands in for a missing value must not be computed from "
    "the records (a mean or median of them is a release): put a public constant there, or declare "
    'missing = "indicator" or "drop record" in a study file, which reads such tables; nothing was '
    "spent"
)
_TEXT = (
    "an estimator takes numbers only. Make columns of 0 and 1 from a public list of values "
    "(OneHotEncoder(categories=[...]), never found in the records), or declare the column as a "
    'category, "true-false" or "date" in a study file, which reads such tables; nothing was spent'
)


def validate_data(estimator: Any, *arrays: Any, **options: Any) -> Any:
    """As scikit-learn's function of this name; refusals of cells say what to do."""
    try:
        return _validate_data(estimator, *arrays, **options)
    except ValueError as error:
        first = str(error).partition("\n")[0].rstrip(".")
        if "contains NaN" in first or "contains infinity" in first:
            raise InvalidInput(f"{first}: {_MISSING}") from None
        if "could not convert string" in first:  # its further words quote a cell
            raise InvalidInput(
                f"X holds text (could not convert string to float): {_TEXT}"
            ) from None
        raise


__all__ = ["validate_data"]
