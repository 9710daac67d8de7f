"""Conditions on one column, `column op value`, read by a small grammar and never evaluated as code.

age >= 65        disease == 'flu'        insured == true        all
"""

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unisono.errors import InvalidInput

if TYPE_CHECKING:
    import numpy as np

    from unisono.data import RecordTable

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_GRAMMAR = re.compile(
    r"""\s*(?P<column>[^=!<>'"]+?)\s*(?P<operator>==|!=|<=|>=|<|>)\s*"""
    r"""(?:'(?P<single>[^']*)'|"(?P<double>[^"]*)"|(?P<bare>[^\s'"=<>!]+))\s*"""
)


@dataclass(frozen=True)
class Condition:
    """A test of one column; without a column it holds for every record."""

    text: str
    column: str | None = None
    operator: str = "=="
    value: float | str | bool = True

    def holds(self, table: "RecordTable") -> "np.ndarray":
        """1 where the condition holds, 0 where not, NaN where it cannot be told: (rows,).

        Each cell is read as what the condition compares it with: a number, true or false, or text.
        """
        import numpy as np

        from unisono.data.cells import as_text, truths

        if self.column is None:
            return np.ones(table.rows)
        wanted: float = 0
        if isinstance(self.value, bool):
            kind, own, wanted = "true or false", truths(table.column(self.column)), self.value
            unread = np.isnan(own)
        elif isinstance(self.value, str):
            kind, own = "text", table.codes(self.column, (self.value,))
            unread = np.array([as_text(cell) is None for cell in table.column(self.column)])
        else:
            kind, own, wanted = "numbers", table.numbers(self.column), self.value
            unread = np.isnan(own)
        table.warn_unread(unread, self.column, kind)
        return np.where(unread, np.nan, _OPERATORS[self.operator](own, wanted))


def parse_condition(text: str) -> Condition:
    """Read a condition.

    >>> parse_condition("disease == 'flu'")
    Condition(text="disease == 'flu'", column='disease', operator='==', value='flu')
    >>> parse_condition("age >= 65").value
    65.0
    """
    if text.strip() == "all":
        return Condition("all")
    match = _GRAMMAR.fullmatch(text)
    if match is None:
        raise InvalidInput(
            f"cannot read the condition {text!r}: write COLUMN OPERATOR VALUE with one of "
            f"{' '.join(_OPERATORS)}, as \"age >= 65\" or \"disease == 'flu'\", or 'all'"
        )
    parts = match.groupdict()
    column, sign, bare = parts["column"], parts["operator"], parts["bare"]
    if bare is None:
        quoted = parts["single"] if parts["single"] is not None else parts["double"]
        return _equality(Condition(text.strip(), column, sign, quoted))
    if bare in ("true", "false"):
        return _equality(Condition(text.strip(), column, sign, bare == "true"))
    try:
        number = float(bare)
    except ValueError:
        raise InvalidInput(
            f"{bare!r} in the condition {text!r} is not a number: put text in quotes, as "
            f"\"{column} {sign} '{bare}'\""
        ) from None
    if number != number or number in (float("inf"), float("-inf")):
        raise InvalidInput(f"{bare!r} in the condition {text!r} is not a finite number")
    return Condition(text.strip(), column, sign, number)


def _equality(condition: Condition) -> Condition:
    if condition.value == "":
        raise InvalidInput(
            f"{condition.text!r}: an empty cell is missing, and what is missing equals nothing"
        )
    if condition.operator not in ("==", "!="):
        raise InvalidInput(
            f"{condition.text!r}: text and true/false know == and != only; {condition.operator} "
            "needs a number"
        )
    return condition
