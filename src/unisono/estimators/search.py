"""Choosing among candidates, with every fit and the choice itself paid for.

    chosen = private_search([PrivateLogisticRegression(0.3, 1e-6, regularisation=r, bounds=b,
                                                       classes=[0, 1])
                             for r in (0, 1e-3)], X, y, epsilon=0.2)

Each record tosses one coin: it trains all candidates, or it judges them. Every candidate is
fitted on the training records under its own budget; on the others each gets a score to which one
record adds between 0 and 1 (a right answer, or 1 minus the squared error in units of the target's
range). The winner is drawn by permute-and-flip.

Guarantee: the ledger books all candidates and the selection as if they had read the same
records, so the whole search is (Σ ε_i + ε, Σ δ_i)-private, and in truth no worse: a record is
in one of the two parts only. The scores themselves are not released.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone, is_regressor
from sklearn.utils import check_consistent_length

from unisono.accounting.accountant import ACCOUNTANT
from unisono.core.costs import everyone
from unisono.core.events import Distance, Sensitivity, positive
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.trust import FINAL_MODEL, Relation, Trust, Unit
from unisono.data import listed, numbers
from unisono.errors import InvalidInput
from unisono.estimators.classifiers import places_of
from unisono.estimators.frames import require_numbers
from unisono.estimators.members import warn_of_fresh
from unisono.mechanisms import selection

_STEPS = 2.0**30


class Selected(NamedTuple):
    """The winner, its place among the candidates, and what the ledger has spent in all."""

    estimator: Any
    position: int
    epsilon: float
    delta: float
    ledger: Ledger


def private_search(
    candidates: Sequence[Any],
    X: Any,
    y: Any,
    *,
    epsilon: float,
    holdout: float = 0.25,
    ledger: Ledger | None = None,
    random_state: int | None = None,
) -> Selected:
    """Fit all candidates, choose one privately; `epsilon` pays for the choice alone.

    One party's records only: several parties cannot draw the winner without showing their scores.
    """
    relation = _checked(candidates, ledger, epsilon, holdout)
    found = require_numbers(X, "X")
    X, y = np.asarray(X if found is None else found, np.float64), _as_given(y)
    check_consistent_length(X, y)
    total = epsilon + sum(candidate.epsilon for candidate in candidates)
    delta = sum(candidate.delta for candidate in candidates)
    book = ledger
    if book is None:
        warn_of_fresh(random_state)
        policy = Policy("search", Budget(total, delta), relation=relation)
        book = Ledger.in_memory(policy, ACCOUNTANT, random_state)
    judges = np.random.default_rng(random_state).random(len(X)) < holdout
    if not judges.any() or judges.all():
        raise InvalidInput(
            f"{len(X)} records leave nothing to train on or nothing to judge by at holdout = "
            f"{holdout!r}: bring more records; nothing was spent"
        )
    once = Distance(linf=1.0)
    event = selection.calibrate(Sensitivity(Unit.RECORD, once, once, once), relation, epsilon)
    # Charged first: a pure release costs the filter less before others than after them.
    grant = book.authorize(everyone(event * 1), purpose="choice among candidates")
    fitted = []
    for candidate in candidates:
        fresh = clone(candidate).set_params(ledger=book, random_state=random_state)
        fitted.append(fresh.fit(X[~judges], _some(y, ~judges)))
    scores = np.array([_score(model, X[judges], _some(y, judges)) for model in fitted])
    position = selection.noisy_max(grant.draw(0), scores, event)
    return Selected(fitted[position], position, book.spent(FINAL_MODEL, delta), delta, book)


def _as_given(y: Any) -> Any:
    """Labels as an array of their own type, or as a list, whose labels are read one by one."""
    return np.asarray(y) if isinstance(getattr(y, "dtype", None), np.dtype) else list(listed(y))


def _some(y: Any, chosen: np.ndarray) -> Any:
    return y[chosen] if isinstance(y, np.ndarray) else [y[i] for i in np.flatnonzero(chosen)]


def _score(model: Any, X: np.ndarray, y: Any) -> float:
    """A sum to which each record adds a number in [0, 1]."""
    answers = model.predict(X)
    if not is_regressor(model):
        own = places_of(np.asarray(y), y, model.classes_)
        return float(np.count_nonzero((own >= 0) & (model.classes_[own] == answers)))
    low, high = model.target_bounds or (-1.0, 1.0)
    errors = ((answers - numbers(listed(y))) / (high - low)) ** 2
    # A target that is no number was missed. Whole steps add up to the same in any order.
    steps = np.rint((1.0 - np.fmin(1.0, errors)) * _STEPS).astype(np.int64)
    return float(steps.sum()) / _STEPS


def _checked(
    candidates: Sequence[Any], ledger: Ledger | None, epsilon: float, holdout: float
) -> Relation:
    """Refuse what cannot be searched; the relation that all candidates share."""
    positive(epsilon=epsilon)
    if not candidates:
        raise InvalidInput("private_search without candidates: give at least one estimator")
    if not (isinstance(holdout, float) and math.isfinite(holdout) and 0 < holdout < 1):
        raise InvalidInput(f"holdout = {holdout!r}: the part of records that judge is in (0, 1)")
    relations = {str(candidate.relation) for candidate in candidates}
    if len(relations) > 1:
        raise InvalidInput(f"candidates under {sorted(relations)}: compare them under one relation")
    for candidate in candidates:
        if candidate.ledger is not None:
            raise InvalidInput(
                "a candidate brings its own ledger: give the ledger to private_search, which books "
                "every fit and the choice in it"
            )
        if candidate.trust not in (None, Trust.LOCAL):
            raise InvalidInput(f"trust = {candidate.trust!r}: a search runs at one party, locally")
        if candidate.columns is not None:
            raise InvalidInput(
                "a candidate declares columns: private_search compares candidates on arrays of "
                "numbers; give them bounds, and rows without missing values; nothing was spent"
            )
        if not is_regressor(candidate) and (
            candidate.classes is None or isinstance(candidate.classes, str)
        ):
            raise InvalidInput(
                f"a candidate has classes = {candidate.classes!r}: pass classes=[...], the public "
                "classes, which are not read from the records; nothing was spent"
            )
    if ledger is not None and ledger.policy.relation is not Relation(relations.copy().pop()):
        raise InvalidInput(
            f"the ledger accounts under {ledger.policy.relation!s}, the candidates under "
            f"{relations.pop()}: give both the same relation"
        )
    return Relation(relations.pop())


__all__ = ["Selected", "private_search"]
