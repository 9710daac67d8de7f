"""What all private estimators share: from rows to a study, a run and its certificate."""

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from unisono.core.algorithm import Facts
from unisono.core.certificate import Certificate, certify
from unisono.core.costs import Cost, added
from unisono.core.defaults import default_trust
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget
from unisono.core.privacy import Privacy
from unisono.core.study import Party, Result
from unisono.core.trust import FINAL_MODEL, Relation, Trust
from unisono.core.values import Private
from unisono.core.words import did_you_mean
from unisono.data.columns import WIDEST
from unisono.data.scaling import (
    Targets,
    UnitScaling,
    scaling,
    target_scaling,
    warn_of_clipped_rows,
)
from unisono.errors import InvalidInput, warn
from unisono.estimators.configuration import FitPlan, FitRequest, plan, runner
from unisono.estimators.members import (
    Membership,
    facts_of,
    fresh_ledgers,
    given_ledgers,
    membership,
    public_sizes,
    secret_order,
    warn_of_fresh,
)
from unisono.estimators.statements import (
    IN_MEMORY,
    PREDICTABLE,
    UNBOUNDED,
    RepeatedFits,
    UnboundedFeatures,
    classes_not_found,
    no_pure_epsilon,
    paid_for,
    paid_for_classes,
    repeated,
    too_few_for_classes,
)
from unisono.estimators.unlisted import PRIVATE, UnlistedClasses

if TYPE_CHECKING:  # JAX is imported when a model is really fitted
    from unisono.algorithms.labels import Labels
    from unisono.algorithms.ranges import Range
    from unisono.scaling import PrivateRanges

# Without being asked for, ranges are paid for from so many records for each unit of noise on.
LEAST_RATIO = 3.0
# Classes that nobody has listed are looked for where one with such a part of the records is found.
LEAST_CLASS = 0.25
_CLASSES = "classes"


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
    bounds_share: float
    _pure = True  # whether it can keep a promise of delta = 0
    _centred = "none"  # where `scaling` puts zero
    _ranges: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None  # released low, centre, high
    _targets: Targets  # public, or released on the way
    _unlisted: UnlistedClasses | None = None  # the labels of a fit whose classes are private

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
        planned: Callable[[Facts, Trust, Privacy], FitPlan],
    ) -> tuple[Result, FitPlan]:
        """Run the planned study on rows (n, d) and labels (n,).

        Everything that can be refused is refused before a ledger is asked; then the ledgers
        authorise, and only then are the rows read by the algorithm. Where bounds are private, or
        nothing is said of them, ranges are released first, for a part of the same promise; so are
        classes that are private.
        """
        if not self.delta and not self._pure:
            raise InvalidInput(no_pure_epsilon(type(self).__name__))
        relation, budget = self._relation(), Budget(self.epsilon, self.delta)
        members = membership(parties, len(X))
        self._ranges = None
        if not self._features_unknown:
            self._scale(X.shape[1])  # refuses what are no bounds
            for name, rows in zip(members.names, members.rows, strict=True):
                warn_of_clipped_rows(X[rows], self.bounds, name)
        public = None if self._target_unknown else getattr(self, "target_bounds", None)
        self._targets = target_scaling(public)
        trust = self._trust(len(members.names))
        sizes = public_sizes(self.records, members, relation)
        facts = facts_of(
            sizes, X.shape[1] + 1, trust, relation, self.minimum_parties, self.colluders
        )
        _prepare()
        promise = Privacy(self.epsilon, self.delta, relation)
        first, plan = self._planned(facts, trust, promise, planned)
        costs = [plan.cost] if first is None else [first.study.cost, plan.cost]
        ledgers = self._ledgers(members, added(costs), budget, relation)

        by_company = plan.study.algorithm.by_company(facts)

        def party_data(columns: tuple[np.ndarray, ...]) -> list[Party]:
            found = []
            for name, rows, ledger in zip(members.names, members.rows, ledgers, strict=True):
                # In sorted arrays a record that is replaced moves others beside other ones.
                drawn = by_company and not ledger.simulated
                own = rows[secret_order(len(rows))] if drawn else rows
                data: Private[Any] = Private(tuple(column[own] for column in columns))
                found.append(Party(name, data, ledger))
            return found

        paid = 0.0
        if first is not None:
            Ledger.check_all(ledgers, added(costs))  # the whole fit, before its first release
            run = runner(getattr(self, "engine", "in-process"))
            found = run(first.study, party_data((self._unbounded(first, X, labels),)))
            paid = found.certificate.epsilon(FINAL_MODEL, relation)
            released = first.read(found.value)
            if self._unlisted is not None:
                X, labels = self._learn_classes(released.pop(_CLASSES), X, paid)
            self._learn_ranges([*released.values()], X.shape[1])
        scale = self._scale(X.shape[1])
        result = plan.run(party_data(self._in_the_ball(scale, X, labels)))
        certificate = result.certificate
        if first is not None:
            books = dict(zip(members.names, ledgers, strict=True))
            certificate = certify(
                plan.study,
                books,
                ledgers[0].accountant,
                secure_sum=certificate.secure_sum,
                transport=certificate.transport,
                costs=[added(costs)] * len(books),
            )
        self._state(scale, certificate, ledgers, paid)
        return result, plan

    # ------------------------------------------------------------- bounds that nobody gave

    @property
    def _features_unknown(self) -> bool:
        return unknown_bounds(self.bounds, "bounds")

    @property
    def _asked(self) -> bool:
        """Whether somebody said "private"."""
        given = (self.bounds, getattr(self, "target_bounds", None))
        return any(isinstance(bounds, str) for bounds in given)

    @property
    def _target_unknown(self) -> bool:
        """Whether there is a target whose range is to be found; most models have classes."""
        return False

    def _planned(
        self,
        facts: Facts,
        trust: Trust,
        promise: Privacy,
        planned: Callable[[Facts, Trust, Privacy], FitPlan],
    ) -> tuple["PrivateRanges | None", FitPlan]:
        """The release that finds ranges, if there is one, and the fit: priced together.

        Where nobody asks for it, and noise would leave nothing but guesses, none is made."""
        if not (self._features_unknown or self._target_unknown or self._unlisted):
            return None, planned(facts, trust, promise)
        from unisono.releases.together import together
        from unisono.scaling import Wanted, private_ranges

        columns = [f"feature {j}" for j in range(facts.features - 1)] * self._features_unknown
        columns += ["target"] * self._target_unknown
        wanted = {} if self._unlisted is None else {_CLASSES: Wanted(self._unlisted.number)}

        def first(part: Privacy) -> "PrivateRanges":
            return private_ranges(columns, part, facts, trust, wanted)

        tried = first(promise.split(self.bounds_share)[0])
        if columns and not self._asked and tried.ratio < LEAST_RATIO:
            columns.clear()
            if not wanted:
                return None, planned(facts, trust, promise)
            tried = first(promise.split(self.bounds_share)[0])
        if wanted and tried.least_count > LEAST_CLASS * sum(facts.records):
            raise InvalidInput(too_few_for_classes(sum(facts.records), tried.least_count))
        if self._features_unknown and columns:  # what is priced does not depend on the ranges
            nothing = np.zeros(facts.features - 1)
            self._ranges = (nothing - 1, nothing, nothing + 1)
        return together(
            promise,
            self.bounds_share,
            first,
            lambda part: planned(facts, trust, part),
            lambda one, other: ([one.study.cost], [other.cost]),
        )

    def _unbounded(self, first: "PrivateRanges", X: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """The columns whose ranges are to be found (n, k), and the places of labels; larger numbers
        than all count as the largest."""
        features = [X] if self._features_unknown and first.columns else []
        own = [*features, labels] if self._target_unknown else features
        columns = [np.clip(column, -WIDEST, WIDEST) for column in own]
        spelt = [] if self._unlisted is None else [self._unlisted.places]
        return np.column_stack([*columns, *spelt])

    def _learn_classes(
        self, found: "Range | Labels", X: np.ndarray, paid: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Rows and labels, once classes are known: a record with another label teaches nothing."""
        from unisono.algorithms.labels import Labels

        assert self._unlisted is not None
        assert isinstance(found, Labels)
        if len(found.names) < self._unlisted.number:
            raise InvalidInput(classes_not_found(list(found.names), self._unlisted.number, paid))
        self.classes_, places = self._unlisted.among(found.names)
        known = places >= 0
        labels = np.where(known, self._unlisted.numbers(places), np.nan)
        return np.where(known[:, None], X, np.nan), labels

    def _learn_ranges(self, found: "list[Range | Labels]", features: int) -> None:
        if self._target_unknown:
            from unisono.algorithms.ranges import Range

            *found, target = found
            assert isinstance(target, Range)
            self._targets = replace(target_scaling(target.bounds), paid=True)
        if found and self._features_unknown:
            low, centre, high = np.array(found).T
            self._ranges = (low, centre, high)

    def _ledgers(
        self, members: Membership, cost: Cost, budget: Budget, relation: Relation
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
        return fresh_ledgers(members, [cost] * parties, [budget] * parties, relation, seed)

    def _scale(self, features: int) -> UnitScaling:
        """By the public bounds, or by ranges that were released."""
        if self._ranges is None:
            public = None if self._features_unknown else self.bounds
            return scaling(public, features, self._centred)
        low, centre, high = self._ranges
        return scaling((low, high), features, self._centred, list(centre))

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

    def _state(
        self, scale: UnitScaling, certificate: Certificate, ledgers: list[Ledger], paid: float
    ) -> None:
        """Fitted attributes, and what the user must be told; ranges were `paid` with an epsilon."""
        self._scaling = scale
        self.certificate_ = certificate
        self.epsilon_spent_ = max(
            spent
            for group in certificate.spending
            for viewer, spent in group.epsilon.items()
            if group.budget[viewer] < float("inf")
        )
        self.statements_: tuple[str, ...] = ()
        self.bounds_ = None if self._ranges is None else (self._ranges[0], self._ranges[2])
        self.bounds_epsilon_ = paid
        if paid and self._unlisted is not None:
            self._tell(paid_for_classes(self.classes_.tolist(), paid, self.epsilon))
        if paid and (self._ranges is not None or self._targets.paid):
            which = ["features"] * self._features_unknown + ["targets"] * self._target_unknown
            told = paid_for(" and ".join(which), paid, self.epsilon)
            self._tell(told, None if self._asked else UnboundedFeatures)
        elif self._features_unknown:
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

        def planned(facts: Facts, trust: Trust, promise: Privacy) -> FitPlan:
            request = FitRequest(
                self.algorithm,
                loss,
                classes,
                promise.epsilon,
                promise.delta,
                promise.relation,
                self.regularisation,
                self.rounds,
            )
            return plan(request, facts, trust)

        parameters = np.asarray(self._run(X, labels, parties, planned)[0].value, float)
        return parameters.T if parameters.ndim == 2 else parameters[None, :]


def unknown_bounds(bounds: Any, name: str) -> bool:
    """Whether bounds are to be found out: where they are private, or nothing is said of them."""
    if isinstance(bounds, str) and bounds != PRIVATE:
        raise InvalidInput(
            f"{name} = {bounds!r}: give public (lowest, highest) values, or {PRIVATE!r} to pay for "
            "a range with a part of epsilon"
        )
    return bounds is None or isinstance(bounds, str)


def _prepare() -> None:
    """JAX is imported here, when a model is really fitted."""
    from unisono.engines import compilation_cache

    compilation_cache.enable()


def _unknown(name: str, value: Any, choices: Any) -> NoReturn:
    known = list(map(str, choices))
    hint = did_you_mean(value, known)
    raise InvalidInput(f"{name} = {value!r}: choose one of {', '.join(known)}{hint}")


__all__ = ["PRIVATE", "PrivateEstimator", "PrivateLinear", "unknown_bounds"]
