"""What all private estimators share: from rows to a study, a run and its certificate."""

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from unisono.core.algorithm import Facts
from unisono.core.certificate import Certificate
from unisono.core.defaults import default_trust
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget
from unisono.core.study import Party, Result
from unisono.core.trust import Relation, Trust
from unisono.core.values import Private
from unisono.core.words import did_you_mean
from unisono.data.scaling import UnitScaling, scaling, warn_of_clipped_rows
from unisono.errors import InvalidInput, warn
from unisono.estimators.configuration import FitPlan, FitRequest, plan
from unisono.estimators.members import (
    Membership,
    facts_of,
    fresh_ledgers,
    given_ledgers,
    membership,
    public_sizes,
    warn_of_fresh,
)
from unisono.estimators.statements import (
    IN_MEMORY,
    PREDICTABLE,
    UNBOUNDED,
    RepeatedFits,
    UnboundedFeatures,
    no_pure_epsilon,
    repeated,
)


class PrivateEstimator(BaseEstimator):
    """Parameters, checks and the run; subclasses know the algorithm and the labels."""

    epsilon: float
    delta: float
    bounds: Any
    relation: Any
    trust: Any
    records: Any
    ledger: Any
    minimum_parties: int | None
    colluders: int | None
    random_state: Any
    _pure = True  # whether it can keep a promise of delta = 0

    def __sklearn_clone__(self) -> Any:
        """An unfitted copy that shares the ledger, and the count of fits made without one."""
        copy = type(self)(**self.get_params(deep=False))
        copy._fits = self._count()
        return copy

    def _count(self) -> list[int]:
        if not hasattr(self, "_fits"):
            self._fits = [0]
        return self._fits

    def _run(
        self,
        X: np.ndarray,
        labels: np.ndarray,
        parties: Any,
        planned: Callable[[Facts, Trust, Relation], FitPlan],
    ) -> Result:
        """Run the planned study on rows (n, d) and labels (n,).

        Everything that can be refused is refused before a ledger is asked; then the ledgers
        authorise, and only then are the rows read by the algorithm.
        """
        if not self.delta and not self._pure:
            raise InvalidInput(no_pure_epsilon(type(self).__name__))
        relation, budget = self._relation(), Budget(self.epsilon, self.delta)
        members = membership(parties, len(X))
        scale = self._scale(X.shape[1])
        for name, rows in zip(members.names, members.rows, strict=True):
            warn_of_clipped_rows(X[rows], self.bounds, name)
        trust = self._trust(len(members.names))
        sizes = public_sizes(self.records, members, relation)
        facts = facts_of(
            sizes, X.shape[1] + 1, trust, relation, self.minimum_parties, self.colluders
        )
        _prepare()
        plan = planned(facts, trust, relation)
        ledgers = self._ledgers(members, plan, budget, relation)
        data = self._in_the_ball(scale, X, labels)
        result = plan.run(
            [
                Party(name, Private(tuple(column[rows] for column in data)), ledger)
                for name, rows, ledger in zip(members.names, members.rows, ledgers, strict=True)
            ]
        )
        self._state(scale, result.certificate, ledgers)
        return result

    def _ledgers(
        self, members: Membership, plan: FitPlan, budget: Budget, relation: Relation
    ) -> list[Ledger]:
        """The given ones, or one in memory for each party, which is worth a warning."""
        seed, fits = self._seed(), self._count()[0]
        if self.ledger is not None:
            return given_ledgers(self.ledger, members, seed)
        if fits == 0 or seed is not None:
            warn_of_fresh(seed)
        if fits:
            warn(repeated(fits + 1, self.epsilon, self.delta), RepeatedFits)
        parties = len(members.names)
        return fresh_ledgers(members, [plan.cost] * parties, [budget] * parties, relation, seed)

    def _scale(self, features: int) -> UnitScaling:
        return scaling(self.bounds, features)

    def _in_the_ball(
        self, scale: UnitScaling, X: np.ndarray, labels: np.ndarray
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
            return default_trust(parties)
        try:
            return Trust(self.trust)
        except ValueError:
            _unknown("trust", self.trust, Trust)

    def _seed(self) -> int | None:
        """None draws from the operating system; anything else makes a simulation."""
        if self.random_state is None or isinstance(self.random_state, (int, np.integer)):
            return None if self.random_state is None else int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _state(self, scale: UnitScaling, certificate: Certificate, ledgers: list[Ledger]) -> None:
        """Fitted attributes, and what the user must be told."""
        self._scaling = scale
        self.certificate_ = certificate
        self.epsilon_spent_ = max(
            spent
            for group in certificate.spending
            for viewer, spent in group.epsilon.items()
            if group.budget[viewer] < float("inf")
        )
        self.statements_: tuple[str, ...] = ()
        if self.bounds is None:
            self._tell(UNBOUNDED, UnboundedFeatures)
        if self.ledger is None:
            self._tell(IN_MEMORY if self.random_state is None else PREDICTABLE)
            self._count()[0] += 1

    def _tell(self, text: str, category: type[Warning] | None = None) -> None:
        """Add to `statements_`, and warn whoever called `fit`."""
        self.statements_ = (*self.statements_, text)
        if category is not None:
            warn(text, category)


class PrivateLinear(PrivateEstimator):
    """Linear models by the minimum of a loss, which subclasses name."""

    algorithm: str
    regularisation: float | None
    rounds: int

    def _learn(
        self, X: np.ndarray, labels: np.ndarray, parties: Any, loss: str, classes: int
    ) -> np.ndarray:
        """Parameters (k, d + 1) from rows (n, d) and labels (n,)."""

        def planned(facts: Facts, trust: Trust, relation: Relation) -> FitPlan:
            request = FitRequest(
                self.algorithm,
                loss,
                classes,
                self.epsilon,
                self.delta,
                relation,
                self.regularisation,
                self.rounds,
            )
            return plan(request, facts, trust)

        parameters = np.asarray(self._run(X, labels, parties, planned).value, float)
        return parameters.T if parameters.ndim == 2 else parameters[None, :]


def _prepare() -> None:
    """JAX is imported here, when a model is really fitted."""
    from unisono.engines import compilation_cache

    compilation_cache.enable()


def _unknown(name: str, value: Any, choices: Any) -> NoReturn:
    known = list(map(str, choices))
    hint = did_you_mean(value, known)
    raise InvalidInput(f"{name} = {value!r}: choose one of {', '.join(known)}{hint}")


__all__ = ["PrivateEstimator", "PrivateLinear"]
