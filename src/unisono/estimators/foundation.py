"""What all private estimators share: from rows to a study, a run and its certificate."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np
from markupsafe import Markup
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from unisono.core import notebook
from unisono.core.algorithm import Facts
from unisono.core.certificate import Certificate, certify
from unisono.core.costs import Cost, added
from unisono.core.defaults import default_trust
from unisono.core.documents import CERTIFICATE
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget
from unisono.core.privacy import Privacy
from unisono.core.study import Party, Result, Study
from unisono.core.trust import FINAL_MODEL, Relation, Trust
from unisono.core.values import Private
from unisono.core.words import did_you_mean
from unisono.data.columns import WIDEST, Number, NumericColumn, range_given
from unisono.data.encoding import Frame
from unisono.data.given import HELD, MOST_HELD
from unisono.data.people import require_same_persons
from unisono.data.scaling import Targets, UnitScaling, scaling, target_scaling
from unisono.data.schema import Schema
from unisono.errors import InvalidInput, warn
from unisono.estimators.configuration import FitPlan, FitRequest, plan, runner
from unisono.estimators.members import (
    facts_of,
    fresh_ledgers,
    given_ledgers,
    public_sizes,
    warn_of_fresh,
)
from unisono.estimators.records import (
    Declared,
    FitRecords,
    Records,
    predicted_rows,
    read_records,
)
from unisono.estimators.statements import (
    IN_MEMORY,
    PREDICTABLE,
    UNBOUNDED,
    WITHOUT_LEDGER,
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
    from unisono.models.prediction import Prediction
    from unisono.scaling import PrivateRanges

# Without being asked for, ranges are paid for from so many records for each unit of noise on.
LEAST_RATIO = 3.0
# Classes that nobody has listed are looked for where one with such a part of the records is found.
LEAST_CLASS = 0.25
_CLASSES = "classes"
FOR_PREDICTION = "Weights for prediction: they have no intervals (see PrivateGLM)."
_UNLIMITED = 1e150  # whose squares are numbers still


class Quoted(Exception):
    """What a fit would cost each viewer, by public facts alone; `alone` if nothing is released
    before it."""

    def __init__(
        self, cost: Cost, facts: Facts, trust: Trust, relation: Relation, alone: bool, plan: FitPlan
    ) -> None:
        super().__init__("a fit that was asked for its price only")
        self.cost, self.facts, self.trust = cost, facts, trust
        self.relation, self.alone, self.plan = relation, alone, plan


class Released(NamedTuple):
    """What a fit has released, for others that need nothing more."""

    result: Result
    study: Study

    def seen_by(self, study: Study) -> Result:
        """What a study that releases the same makes of it: post-processing."""
        if study.hash == self.study.hash:
            return self.result
        import jax

        from unisono.core.algorithm import Aggregate

        facts, own = study.facts, study.algorithm
        [opened] = [m for m in self.result.transcript.messages if m.name == "sum"]
        there = np.ones(facts.parties, bool)
        total = np.asarray(opened.value) * own.grid(facts, study.trust)
        sums = Aggregate(total, facts.parties, float(sum(facts.records)), there)
        server = own.merge(own.init(facts)[0], sums)
        return replace(self.result, value=jax.tree.map(np.asarray, own.result(server)))


def write_model(
    path: str | os.PathLike[str],
    certificate: Certificate,
    fitted_as: "tuple[str, Mapping[str, Any], Schema, Prediction]",
    **shown: Any,
) -> None:
    """A folder for `unisono.load`: a model, `fitted_as` this, its certificate, and what is shown of
    it to people."""
    from unisono.models.fitted import fitted_document, save_model

    folder = Path(path)
    if (folder / "run.json").exists() or folder.is_file():
        what = "holds a run" if folder.is_dir() else "is a file"
        raise InvalidInput(f"{folder} {what}: choose another folder to save to")
    document, arrays = fitted_document(*fitted_as)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InvalidInput(
            f"{folder} cannot be made into a folder: {error.strerror}; choose another place"
        ) from None
    CERTIFICATE.write(folder, certificate.to_json())
    save_model(folder, shown, document, arrays)


def require_ledger(estimator: Any) -> None:
    """Refuse to fit again what was parted from its ledger."""
    if estimator._without_ledger and estimator.ledger is None:
        raise InvalidInput(
            f"this {type(estimator).__name__} was pickled or loaded, and its ledger was left out: "
            "whoever fits again must pay again; pass set_params(ledger=...), the ledger of "
            "these records; nothing was spent"
        )


class PrivateEstimator(BaseEstimator):
    """Parameters, checks and the run; subclasses know the algorithm and the labels."""

    epsilon: float
    delta: float
    bounds: Any
    columns: Any
    records_per_person: int | None
    person_at_parties: int
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
    _declared: Declared | None = None  # how the columns of frames are read
    largest_weight: float | None
    _weights: np.ndarray | None = None  # of the fit under way: shares of the largest (n,)
    _without_ledger = False  # whether it was pickled, and so parted from its ledger
    _model: str  # what study files call it
    _quoting = False  # whether `fit` only says what it would cost (`Quoted`)
    _released: "Released | None" = None  # what an equal fit has released already
    _keeping = False  # whether what is released is kept, as `_kept`
    _kept: "Released | None" = None
    _afterwards: tuple[str, ...] = ()  # parameters that act on what was released, if on anything

    def __sklearn_clone__(self) -> Any:
        """An unfitted copy that shares the ledger, and the count of fits made without one. What is
        routed to it (`set_fit_request`) goes with it, as scikit-learn's own clones have it."""
        copy = type(self)(**self.get_params(deep=False))
        if hasattr(self, "_metadata_request"):
            copy._metadata_request = deepcopy(self._metadata_request)
        copy._fits, copy._without_ledger = self._count(), self._without_ledger
        return copy

    # ------------------------------------------------------------- kept and handed on

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: the model without its ledger, whose secrets are no part of it."""
        state = dict(super().__getstate__())
        state.pop("_kept", None)  # all that was released, which a model is not
        if self.ledger is not None or hasattr(self, "certificate_"):
            state |= {"ledger": None, "_without_ledger": True}
        if "statements_" in state and WITHOUT_LEDGER not in state["statements_"]:
            state["statements_"] = (*state["statements_"], WITHOUT_LEDGER)
        return state

    def __copy__(self) -> Any:
        """A copy in the same process spends from the same ledger."""
        copy = type(self).__new__(type(self))
        copy.__dict__.update(self.__dict__)
        return copy

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        copy = type(self).__new__(type(self))
        memo[id(self)] = copy
        copy.__dict__.update({name: deepcopy(own, memo) for name, own in self.__dict__.items()})
        return copy

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a folder, for `unisono.load`: JSON and plain arrays in the
        format of a run's result, without the ledger."""
        check_is_fitted(self)
        write_model(
            path,
            self.certificate_,
            fitted_as=(self._model, self._settings_kept(), self._schema_kept(), self._prediction()),
            title=type(self).__name__,
            model=self._model,
            algorithm=self.certificate_.algorithm,
            study=self.certificate_.study,
            statements=list(self.statements_),
            **self._result_kept(),
        )

    # ------------------------------------------------------------- in notebooks

    def _repr_html_inner(self) -> str:
        return self._with_found(super()._repr_html_inner())

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**options)
        if "text/html" in bundle:
            bundle["text/html"] = self._with_found(bundle["text/html"])
        return bundle

    def _with_found(self, page: str) -> str:
        """scikit-learn's diagram, and below it, once it is fitted, what was found and promised."""
        if not hasattr(self, "certificate_"):
            return page
        told = [one for one in self.statements_ if one != PREDICTABLE]  # said above already
        return page + notebook.shown(
            type(self).__name__,
            *self._found_parts(),
            notebook.sentences(told),
            notebook.folded("Certificate", *self.certificate_.as_parts()),
            simulated=self.certificate_.simulated,
        )

    def _found_parts(self) -> list[Markup]:
        """What was found, as HTML: nothing where single parameters mean nothing to people."""
        return []

    def _prediction(self) -> "Prediction":
        """How it predicts, as `unisono.load` reads it."""
        raise NotImplementedError

    def _settings_kept(self) -> dict[str, Any]:
        """Settings of the model, in the words of study files."""
        return {}

    def _result_kept(self) -> dict[str, Any]:
        """What was found, in the words of results."""
        return {}

    @property
    def _inputs(self) -> tuple[str, ...]:
        """The columns that are predicted from; x0, x1, ... where they have no names."""
        if self._declared is not None:
            return self._declared.names
        given = getattr(self, "feature_names_in_", None)
        return tuple(f"x{n}" for n in range(self.n_features_in_)) if given is None else tuple(given)

    @property
    def _encoded_names(self) -> tuple[str, ...]:
        return self._inputs if self._declared is None else tuple(self.encoded_names_)

    def _schema_kept(self) -> Schema:
        """The declared columns; numbers within what the scaling clips to, where none are."""
        if self._declared is not None:
            return self._declared.schema
        low, high = self._kept_limits()
        columns = {
            name: {"kind": "number", "bounds": (float(a), float(b))}
            for name, a, b in zip(self._inputs, low, high, strict=True)
        }
        return Schema.model_validate({"columns": columns})

    def _kept_limits(self) -> tuple[np.ndarray, np.ndarray]:
        """Beyond these (d,) numbers change no prediction."""
        shift, scale = self._scaling.shift, self._scaling.scale
        if self._scaling.norm is not None:
            return -_UNLIMITED * np.ones(len(shift)), _UNLIMITED * np.ones(len(shift))
        return shift - scale, shift + scale

    def _count(self) -> list[int]:
        if not hasattr(self, "_fits"):
            self._fits = [0]
        return self._fits

    def _read(
        self, X: Any, y: Any, parties: Any, persons: Any, numeric: bool, weights: Any = None
    ) -> Records:
        """What `fit` was given; frames by the columns that are declared, if any are."""
        records, self._declared = read_records(
            self, X, y, parties, persons, numeric=numeric, weights=weights
        )
        return records

    def _matrix(self, X: Any) -> np.ndarray:
        """The features (n, d) of rows to predict."""
        return predicted_rows(self, self._declared, X)

    def _run(
        self, records: Records, planned: Callable[[Facts, Trust, Privacy], FitPlan]
    ) -> tuple[Result, FitPlan]:
        require_ledger(self)
        try:
            self._weights = records.weights if isinstance(records, FitRecords) else None
            return self._fitted(records, planned)
        finally:  # what is of records is nothing to keep, or to pickle
            self._unlisted, self._weights = None, None

    def _fitted(
        self, records: Records, planned: Callable[[Facts, Trust, Privacy], FitPlan]
    ) -> tuple[Result, FitPlan]:
        """Run the planned study on records or persons, and their labels.

        Everything that can be refused is refused before a ledger is asked; then the ledgers
        authorise, and only then are the rows read by the algorithm. Where bounds are private, or
        nothing is said of them, ranges are released first, for a part of the same promise; so are
        classes that are private.
        """
        if not self.delta and not self._pure:
            raise InvalidInput(no_pure_epsilon(type(self).__name__))
        relation = self._relation()
        promise = Privacy(self.epsilon, self.delta, relation)  # refuses what is no promise
        budget = Budget(self.epsilon, self.delta)
        self._ranges = None
        features = self._features(records)
        if not self._features_unknown and self._declared is None:
            self._scale(features)  # refuses what are no bounds
            records.warn_of_clipping(self._bounds)
        public = None if self._target_unknown else self._target_bounds
        self._targets = target_scaling(public)
        trust = self._trust(len(records.names))
        sizes = public_sizes(self.records, records, relation)
        facts = facts_of(sizes, features + 1, trust, relation, self.minimum_parties, self.colluders)
        facts = replace(
            facts,
            records_per_person=records.group,
            person_at_parties=1 if records.group is None else self.person_at_parties,
        )
        _prepare()
        first, plan = self._planned(facts, trust, promise, planned)
        studies = [] if first is None else [first.study]
        studies += [plan.study] if plan.start is None else [plan.start, plan.study]
        records = self._held(records, studies)
        costs = [plan.cost] if first is None else [first.study.cost, plan.cost]
        if self._quoting:
            raise Quoted(added(costs), facts, trust, relation, first is None, plan)
        if self._released is not None:
            self._state(self._scale(features), self._released.result.certificate, [], 0.0)
            result = self._released.seen_by(plan.study)
            self._kept = Released(result, plan.study) if self._keeping else None
            return result, plan
        ledgers = self._ledgers(records, added(costs), budget, relation)

        if plan.study.algorithm.by_company(facts) and isinstance(records, FitRecords):
            # In sorted arrays a record that is replaced moves others beside other ones.
            records = records.among_strangers([not ledger.simulated for ledger in ledgers])

        def parties(columns: Sequence[Any]) -> list[Party]:
            return [
                Party(name, Private(own), ledger)
                for name, own, ledger in zip(records.names, columns, ledgers, strict=True)
            ]

        paid = 0.0
        with ExitStack() as stack:
            if first is not None:
                # The whole fit is charged as one plan, before its first release.
                stack.enter_context(Ledger.declared(ledgers, [added(costs)] * len(ledgers)))
                run = runner(getattr(self, "engine", "in-process"))
                unbounded = records.columns(lambda X, labels: (self._unbounded(first, X, labels),))
                found = run(first.study, parties(unbounded))
                paid = found.certificate.epsilon(FINAL_MODEL, relation)
                released = first.read(found.value)
                if self._unlisted is not None:
                    records = self._learn_classes(released.pop(_CLASSES), records, paid)
                self._learn_ranges([*released.values()])
            scale = self._scale(features)
            columns = records.columns(lambda X, labels: self._encoded(scale, X, labels))
            result = plan.run(parties(columns))
        certificate = result.certificate
        if first is not None:
            books = dict(zip(records.names, ledgers, strict=True))
            certificate = certify(
                plan.study,
                books,
                ledgers[0].accountant,
                secure_sum=certificate.secure_sum,
                transport=certificate.transport,
                costs=[added(costs)] * len(books),
            )
        if records.group is not None:
            _warn_of_cut(plan.study, records.names, columns, result.value)
        self._state(scale, certificate, ledgers, paid)
        if self._keeping:
            self._kept = Released(result, plan.study)
        return result, plan

    def _held(self, records: Records, studies: list[Study]) -> Records:
        """Records as they are read: a stream block by block, where all that is released are sums
        that can be added up so, and in memory where it is short; else it is refused. Public facts
        decide."""
        if isinstance(records, FitRecords):
            return records
        from unisono.engines.streaming import streamable

        able = all(streamable(study, records.unordered) for study in studies)
        if able and records.cells > HELD:
            return records
        if records.cells <= MOST_HELD:
            return records.in_memory(self._seed())
        raise InvalidInput(
            f"{records.cells} cells, more than the {MOST_HELD} that are held in memory, and "
            f"{type(self).__name__} learns by {studies[-1].algorithm.name}, which cannot read them "
            "block by block here: use PrivateLogisticRegression, PrivateLinearSVC or PrivateRidge "
            "with gradient-perturbation and public sizes, or fewer records; nothing was spent"
        )

    def _features(self, records: Records) -> int:
        """How many numbers a model learns from."""
        if self._declared is None:
            return records.width
        return len(Frame(self._declared.schema).names)

    def _encoded(
        self, scale: UnitScaling, X: np.ndarray, labels: np.ndarray
    ) -> tuple[np.ndarray, ...]:
        """What the algorithm reads of values (n, c); of a record that misses what it needs, nothing
        but NaN."""
        rows = X if self._declared is None else self._declared.rows(X)
        points, targets = self._in_the_ball(scale, rows, labels)
        whole = np.isfinite(rows).all(axis=1) & np.isfinite(labels)
        if not whole.all():
            points = np.where(whole[:, None], points, np.nan)
            targets = np.where(whole, targets, np.nan)
        return (points, targets) if self._weights is None else self._weighed(points, targets)

    def _weighed(self, points: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, ...]:
        """The same with `_weights`, as the algorithm reads them: they count before the clip."""
        raise NotImplementedError

    # ------------------------------------------------------------- bounds that nobody gave

    @property
    def _features_unknown(self) -> bool:
        if self._declared is not None:
            return bool(self._declared.private)
        return unknown_bounds(self.bounds, "bounds")

    @property
    def _bounds(self) -> Any:
        """The bounds as (lowest, highest) of each feature, where they were given by name."""
        if not isinstance(self.bounds, Mapping):
            return self.bounds
        return bounds_by_name(self.bounds, getattr(self, "feature_names_in_", None))

    @property
    def _target_bounds(self) -> Any:
        """What is said of the target's range, by its declaration or by `target_bounds`."""
        declared = None if self._declared is None else self._declared.target
        if isinstance(declared, Number) and declared.private:
            return PRIVATE
        if isinstance(declared, NumericColumn):
            return declared.span
        return getattr(self, "target_bounds", None)

    @property
    def _asked(self) -> bool:
        """Whether somebody said "private"."""
        declared = self._declared is not None and (
            self._features_unknown or self._ranges is not None
        )
        given = (self.bounds, self._target_bounds)
        return declared or any(isinstance(bounds, str) for bounds in given)

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
        if self._declared is not None:
            columns = list(self._declared.schema.private)
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
        if self._features_unknown and columns and self._declared is None:
            # What is priced does not depend on the ranges.
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
        features = [X if self._declared is None else X[:, self._declared.private]]
        own = features if self._features_unknown and first.columns else []
        own = [*own, labels] if self._target_unknown else own
        columns = [np.clip(column, -WIDEST, WIDEST) for column in own]
        spelt = [] if self._unlisted is None else [self._unlisted.places]
        return np.column_stack([*columns, *spelt])

    def _learn_classes(self, found: "Range | Labels", records: Records, paid: float) -> Records:
        """Records with labels, once classes are known: one with another label teaches nothing."""
        from unisono.algorithms.labels import Labels

        assert self._unlisted is not None
        assert isinstance(found, Labels)
        if len(found.names) < self._unlisted.number:
            raise InvalidInput(classes_not_found(list(found.names), self._unlisted.number, paid))
        self.classes_, places = self._unlisted.among(found.names)
        labels = np.where(places >= 0, self._unlisted.numbers(places), np.nan)
        return records.labelled(labels, self.classes_)

    def _learn_ranges(self, found: "list[Range | Labels]") -> None:
        if self._target_unknown:
            from unisono.algorithms.ranges import Range

            *found, target = found
            assert isinstance(target, Range)
            self._targets = replace(target_scaling(target.bounds), paid=True)
        if found and self._declared is not None:
            names = self._declared.schema.private
            low, centre, high = np.array(found).T
            self._ranges = (low, centre, high)
            ends = dict(zip(names, zip(low, high, centre, strict=True), strict=True))
            self._declared = self._declared.within(ends)
        elif found:
            low, centre, high = np.array(found).T
            self._ranges = (low, centre, high)

    def _ledgers(
        self, records: Records, cost: Cost, budget: Budget, relation: Relation
    ) -> list[Ledger]:
        """The given ones, or one in memory for each party, which is worth a warning."""
        seed, fits = self._seed(), self._count()[0]
        if self.ledger is not None:
            found = given_ledgers(self.ledger, records, seed)
            for ledger in found:
                require_same_persons(ledger.policy, records.unit, records.person)
            return found
        if fits == 0 or seed is not None:
            warn_of_fresh(seed)
        if fits:
            warn(repeated(fits + 1, self.epsilon, self.delta), RepeatedFits)
        parties = len(records.names)
        return fresh_ledgers(
            records, [cost] * parties, [budget] * parties, relation, seed, records.unit
        )

    def _scale(self, features: int) -> UnitScaling:
        """By the public bounds, or by ranges that were released."""
        if self._declared is not None:
            return Frame(self._declared.schema).scaling(self._centred)
        if self._ranges is None:
            public = None if self._features_unknown else self._bounds
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
        if hasattr(self, "target_bounds"):
            self.target_bounds_ = self._targets.bounds if self._targets.paid else None
        if self._declared is not None:
            self.encoded_names_ = np.array(Frame(self._declared.schema).names, object)
        self.bounds_epsilon_ = paid
        if paid and self._unlisted is not None:
            self._tell(paid_for_classes(self.classes_.tolist(), paid, self.epsilon))
        if paid and (self._ranges is not None or self._targets.paid):
            told = paid_for(self._ranges is not None, self._targets.paid, paid, self.epsilon)
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
    rounds: int | None
    _unit_rows = True  # whether rows are divided by their length for the algorithm
    _parameters: np.ndarray  # (k, d + 1), of rows (u, 1)

    def _learn(self, records: Records, loss: str, classes: int) -> np.ndarray:
        """Parameters (k, d + 1) from records and their labels."""

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
                self._weights is not None,
            )
            made = plan(request, facts, trust)
            self._unit_rows = made.study.method.kind.unit_rows
            self._learnt_method = made.study.method
            return made

        parameters = np.asarray(self._run(records, planned)[0].value, float)
        self._learnt_loss = loss
        return parameters.T if parameters.ndim == 2 else parameters[None, :]

    def _weighed(self, points: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, ...]:
        assert self._weights is not None
        return points, np.stack([targets, self._weights], axis=1)

    def _prediction(self) -> "Prediction":
        from unisono.models.linear import linear_prediction

        return linear_prediction(
            self._inputs,
            self._encoded_names,
            self._scaling,
            self._parameters,
            self._learnt_loss,
            tuple(np.asarray(getattr(self, "classes_", ())).tolist()),
            self._unit_rows,
        )

    def _found_parts(self) -> list[Markup]:
        slopes, intercepts = self._scaling.coefficients(self._parameters)
        several = len(slopes) > 1
        titles = list(map(str, self.classes_)) if several else ["weight"]
        pairs = zip(("intercept", *self._encoded_names), [intercepts, *slopes.T], strict=True)
        rows = [[str(name), *(f"{one:.4g}" for one in own)] for name, own in pairs]
        return [notebook.sentence(FOR_PREDICTION, "note"), notebook.grid(["", *titles], rows)]

    def _result_kept(self) -> dict[str, Any]:
        slopes, intercepts = self._scaling.coefficients(self._parameters)
        if len(slopes) > 1:
            return {}
        weights = dict(zip(self._encoded_names, map(float, slopes[0]), strict=True))
        return {"intercept": float(intercepts[0]), "weights": weights}


def unknown_bounds(bounds: Any, name: str) -> bool:
    """Whether bounds are to be found out: where they are private, or nothing is said of them."""
    if isinstance(bounds, str) and bounds != PRIVATE:
        raise InvalidInput(
            f"{name} = {bounds!r}: give public (lowest, highest) values, or {PRIVATE!r} to pay for "
            "a range with a part of epsilon"
        )
    return bounds is None or isinstance(bounds, str)


def bounds_by_name(bounds: Mapping[str, Any], names: Sequence[str] | None) -> Any:
    """(lowest, highest) of every feature (2, d), of bounds that are given for each column by name.

    >>> bounds_by_name({"bmi": (10, 60), "age": (18, 100)}, ["age", "bmi"])
    array([[ 18.,  10.],
           [100.,  60.]])
    """
    if names is None:
        raise InvalidInput(
            f"bounds name {', '.join(map(repr, bounds))}, and the columns of X have no names: give "
            "a frame, or (lowest, highest), each a number or one per column; nothing was spent"
        )
    known = [*map(str, names)]
    if strange := [name for name in bounds if name not in known]:
        raise InvalidInput(
            f"bounds name {strange[0]!r}, which is no column to learn from: there are "
            f"{', '.join(known)}; nothing was spent{did_you_mean(strange[0], known)}"
        )
    if lacking := [name for name in known if name not in bounds]:
        raise InvalidInput(
            f"bounds lack {', '.join(map(repr, lacking))}: give every column that is learnt from "
            "its (lowest, highest); nothing was spent"
        )
    return np.array([range_given(name, bounds[name]) for name in known]).T


def _warn_of_cut(study: Study, names: Sequence[str], columns: Sequence[Any], value: Any) -> None:
    """Tell whoever holds the records, and nobody else, how many persons were clipped."""
    from unisono.algorithms.clipped_people import person_lengths, warn_of_cut_persons

    for number, (name, own) in enumerate(zip(names, columns, strict=True)):
        found = person_lengths(study, number, own, value)
        if found is not None:
            warn_of_cut_persons(name, *found)


def _prepare() -> None:
    """JAX is imported here, when a model is really fitted."""
    from unisono.engines import compilation_cache

    compilation_cache.enable()


def _unknown(name: str, value: Any, choices: Any) -> NoReturn:
    known = list(map(str, choices))
    hint = did_you_mean(value, known)
    raise InvalidInput(f"{name} = {value!r}: choose one of {', '.join(known)}{hint}")


__all__ = [
    "FOR_PREDICTION",
    "PRIVATE",
    "PrivateEstimator",
    "PrivateLinear",
    "Quoted",
    "Released",
    "bounds_by_name",
    "unknown_bounds",
    "write_model",
]
