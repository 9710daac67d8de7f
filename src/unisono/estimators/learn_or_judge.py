"""Which records of a search learn and which judge: all do both, or a secret share of each party's
judges and learns nothing."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.utils import _safe_indexing

from unisono.core.ledger import Ledger
from unisono.core.trust import Relation
from unisono.data import listed
from unisono.data.order import order_key, secret_order
from unisono.errors import InvalidInput
from unisono.estimators.candidates import copied, relation_of
from unisono.estimators.foundation import Quoted
from unisono.estimators.frames import require_numbers
from unisono.estimators.members import Membership, public_sizes


@dataclass(frozen=True)
class Split:
    """Which rows learn and which judge, for every party."""

    members: Membership
    learning: tuple[np.ndarray, ...]
    judging: tuple[np.ndarray, ...]
    learnt: Any  # nominal sizes, where sizes are hidden
    taught: int  # how many learn of all parties, by public sizes
    judged: tuple[int, ...]  # public sizes

    def _names(self, rows: Sequence[np.ndarray]) -> np.ndarray:
        return np.repeat(np.array(self.members.names, object), [len(own) for own in rows])

    def _learning(self, model: Any, X: Any, y: Any) -> tuple[Any, ...]:
        rows = np.concatenate(self.learning)
        several = len(self.members.names) > 1
        own = (_safe_indexing(X, rows), some_of(y, rows))
        return (*own, self._names(self.learning)) if several else own

    def fitted(self, model: Any, X: Any, y: Any) -> Any:
        """Fitted, with what it learnt from in `_kept`, be it released for it or for another."""
        model.set_params(records=self.learnt)
        model._keeping = True
        model.fit(*self._learning(model, X, y))
        model._search_study = model._kept.study
        return model

    def quoted(self, model: Any, epsilon: float, delta: float, X: Any, y: Any) -> Quoted:
        own = copied(model, epsilon, delta, None, None).set_params(records=self.learnt)
        own._quoting = True
        try:
            own.fit(*self._learning(own, X, y))
        except Quoted as quote:
            return quote
        raise InvalidInput(f"{type(model).__name__} does not say what a fit costs: leave it out")

    def judges(self, X: Any, y: Any) -> tuple[Any, Any]:
        rows = np.concatenate(self.judging)
        return _safe_indexing(X, rows), some_of(y, rows)

    def ledgers(self, books: Sequence[Ledger]) -> Any:
        named = dict(zip(self.members.names, books, strict=True))
        return named if len(named) > 1 else books[0]


def split_records(model: Any, members: Membership, holdout: float, seed: int | None) -> Split:
    """A secret share of each party's records; its number is public, or, where sizes are hidden, an
    estimate, and every record tosses a coin of its own."""
    relation = relation_of(model)
    sizes = public_sizes(model.records, members, relation)
    hidden = relation is Relation.ADD_OR_REMOVE
    learning, judging, judged = [], [], []
    for name, rows, size in zip(members.names, members.rows, sizes, strict=True):
        number = int(size * holdout)
        key = order_key(seed, f"{name} holdout")
        if not holdout:
            learning.append(rows)
            judging.append(rows[secret_order(len(rows), key)])
            judged.append(size)
            continue
        if number < 1 or size - number < 1:
            raise InvalidInput(
                f"{size} records of {name} leave nothing to learn from or to judge by at holdout = "
                f"{holdout!r}: bring more records; nothing was spent"
            )
        if hidden:
            coins = np.random.default_rng(list(key)).random(len(rows)) < holdout
            learning.append(rows[~coins])
            judging.append(rows[coins])
        else:
            order = secret_order(len(rows), key)
            learning.append(np.sort(rows[order[number:]]))
            judging.append(rows[order[:number]])
        judged.append(number)
    learnt = None
    if hidden:
        pairs = zip(members.names, sizes, judged, strict=True)
        learnt = {name: size - number * bool(holdout) for name, size, number in pairs}
    taught = sum(sizes) - sum(judged) * bool(holdout)
    return Split(members, tuple(learning), tuple(judging), learnt, taught, tuple(judged))


def read_rows(X: Any) -> Any:
    found = require_numbers(X, "X")
    if found is None or found.ndim != 2:
        raise InvalidInput(
            f"X is a {type(X).__name__} that is no table: give one row for each record, each of as "
            "many numbers; nothing was spent"
        )
    own = X if hasattr(X, "columns") else found.astype(np.float64)
    if not np.isfinite(np.asarray(own, np.float64)).all():
        raise InvalidInput(
            "rows with missing or infinite values: a search reads numbers; fill them in by a "
            "public rule first; nothing was spent"
        )
    return own


def as_given(y: Any) -> Any:
    return np.asarray(y) if isinstance(getattr(y, "dtype", None), np.dtype) else list(listed(y))


def some_of(y: Any, rows: np.ndarray) -> Any:
    return y[rows] if isinstance(y, np.ndarray) else [y[row] for row in rows]


__all__ = ["Split", "as_given", "read_rows", "some_of", "split_records"]
