"""What all private linear estimators share: from rows to a study, a run and its certificate."""

import warnings
from typing import Any, NoReturn

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from unisono.accounting.validation import warn_large_delta
from unisono.core.certificate import Certificate
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget
from unisono.core.study import Party
from unisono.core.trust import Relation, Trust
from unisono.core.values import Private
from unisono.errors import InvalidInput
from unisono.estimators.configuration import Request, plan
from unisono.estimators.members import facts_of, ledgers_of, membership, public_sizes
from unisono.estimators.scaling import Scaling, require_inside, scaling
from unisono.estimators.statements import (
    IN_MEMORY,
    UNBOUNDED,
    RepeatedFits,
    UnboundedFeatures,
    repeated,
)


class PrivateLinear(BaseEstimator):
    """Parameters, checks and the run; subclasses know the loss and the labels."""

    epsilon: float
    delta: float
    bounds: Any
    relation: Any
    trust: Any
    algorithm: str
    regularisation: float | None
    rounds: int
    records: Any
    ledger: Any
    minimum_survivors: int | None
    colluders: int | None
    random_state: Any

    def __sklearn_clone__(self) -> Any:
        """An unfitted copy that shares the ledger, and the count of fits made without one."""
        copy = type(self)(**self.get_params(deep=False))
        copy._fits = self._count()
        return copy

    def _count(self) -> list[int]:
        if not hasattr(self, "_fits"):
            self._fits = [0]
        return self._fits

    def _learn(
        self, X: np.ndarray, labels: np.ndarray, parties: Any, loss: str, classes: int
    ) -> np.ndarray:
        """Run the study on rows (n, d) and labels (n,); parameters (k, d + 1).

        Everything that can be refused is refused before a ledger is asked; then the ledgers
        authorise, and only then are the rows read by the algorithm.
        """
        relation, budget = self._relation(), Budget(self.epsilon, self.delta)
        members = membership(parties, len(X))
        scale = scaling(self.bounds, X.shape[1])
        for name, rows in zip(members.names, members.rows, strict=True):
            require_inside(X[rows], self.bounds, name)
        trust = self._trust(len(members.names))
        sizes = public_sizes(self.records, members, relation)
        warn_large_delta(self.delta, sum(sizes))
        facts = facts_of(
            sizes, X.shape[1] + 1, trust, relation, self.minimum_survivors, self.colluders
        )
        request = Request(
            self.algorithm, loss, classes, self.epsilon, self.delta, relation,
            self.regularisation, self.rounds,
        )  # fmt: skip
        _prepare()
        planned = plan(request, facts, trust)
        ledgers = ledgers_of(self.ledger, members, planned.cost, budget, relation, self._seed())
        data = self._in_the_ball(scale, X, labels)
        result = planned.run([
            Party(name, Private(tuple(column[rows] for column in data)), ledger)
            for name, rows, ledger in zip(members.names, members.rows, ledgers, strict=True)
        ])  # fmt: skip
        self._state(scale, result.certificate, ledgers)
        parameters = np.asarray(result.value, float)
        return parameters.T if parameters.ndim == 2 else parameters[None, :]

    def _in_the_ball(
        self, scale: Scaling, X: np.ndarray, labels: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """What the algorithm reads: rows of norm at most 1, and their labels."""
        return scale.rows(X)[0], labels

    def _relation(self) -> Relation:
        try:
            return Relation(self.relation)
        except ValueError:
            _unknown("relation", self.relation, Relation)

    def _trust(self, parties: int) -> Trust:
        if self.trust is None:
            return Trust.LOCAL if parties == 1 else Trust.SECURE_SUM
        try:
            return Trust(self.trust)
        except ValueError:
            _unknown("trust", self.trust, Trust)

    def _seed(self) -> int | None:
        """None draws from the operating system; anything else makes a simulation."""
        if self.random_state is None or isinstance(self.random_state, (int, np.integer)):
            return None if self.random_state is None else int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _state(self, scale: Scaling, certificate: Certificate, ledgers: list[Ledger]) -> None:
        """Fitted attributes, and what the user must be told."""
        self._scaling = scale
        self.certificate_ = certificate
        self.epsilon_spent_ = max(
            spent
            for group in certificate.spending
            for viewer, spent in group.epsilon.items()
            if group.budget[viewer] < float("inf")
        )
        statements = []
        if self.bounds is None:
            statements.append(UNBOUNDED)
            warnings.warn(UNBOUNDED, UnboundedFeatures, stacklevel=4)
        if self.ledger is None:
            statements.append(IN_MEMORY)
            count = self._count()
            count[0] += 1
            if count[0] > 1:
                message = repeated(count[0], self.epsilon, self.delta)
                warnings.warn(message, RepeatedFits, stacklevel=4)
        self.statements_ = tuple(statements)


def _prepare() -> None:
    """JAX is imported here, when a model is really fitted."""
    from unisono.engines import compilation_cache

    compilation_cache.enable()


def _unknown(name: str, value: Any, choices: Any) -> NoReturn:
    raise InvalidInput(f"{name} = {value!r}: choose one of {', '.join(map(str, choices))}")


__all__ = ["PrivateLinear"]
