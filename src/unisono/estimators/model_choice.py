"""Choosing among models, with one budget for everything: every fit, every score and the choice.

    search = PrivateSearch(
        PrivateLogisticRegression(bounds=(low, high), classes=[0, 1]),
        epsilon=2.0, delta=1e-6, ledger=ledgers)       # a line or a network: `usual_candidates`
    search.fit(X, y, parties=hospital)
    print(search.summary())

Every record learns and judges. A private model has learnt little of any single record, so that its
score on these records is hardly too good, and scores of many records need little epsilon: a tenth
to a hundredth of what fits show, by a rule of public facts. With `holdout` a share of each party's
records, drawn in secret, learns nothing and judges. Then a record is among those that learn or
among those that judge, and scores cost nothing in addition as long as they show no more of a record
than training does (`core.prepaid`); what is lost are the records that do not learn.

Noise is calibrated so that the whole search keeps (epsilon, delta):

    "all"               Every candidate is fitted once; then ONE release has the noisy scores of all
                        of them, and the best is read off it. Everybody pays the composition of all
                        fits. Gaussian noise adds up in squares: 20 fits cost about 5 times one, not
                        20 times. Candidates that are functions of one release (ridges, or subsets
                        of columns, on the same noisy sums) share it, and cost what one of them
                        does. So does the average of all releases' models (`average`), which is
                        judged beside them.
    "random-stopping"   A secret random number of runs is made, each of a release that is drawn at
                        random, with noisy scores of its own for all candidates that are functions
                        of it; the best is shown, and nobody learns what else ran, or how often
                        (Papernot and Steinke 2022; Liu and Talwar 2019;
                        `accounting.random_stopping`). Against whoever sees the model that comes out
                        20 candidates cost about twice one run. This is so for them alone: whoever
                        sees iterates (the server, the parties, the network) sees all that ran, and
                        pays the composition of as many runs as there can be, which the ledgers
                        authorise before the first. So many are made, too: how long a search takes
                        does not tell how many of them count.

Ledgers are asked for all of it before the first record is read: what they refuse costs nothing.
Where records learn and judge, "all" then pays for each fit and for the scores one after the other.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_regressor
from sklearn.model_selection import ParameterGrid
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from unisono.accounting.accountant import ACCOUNTANT
from unisono.core.certificate import Certificate, certify
from unisono.core.costs import Cost, added
from unisono.core.events import RandomStopping
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget
from unisono.core.prepaid import (
    SHAPE,
    UNPROVED,
    lots_of,
    one_of,
    prepaid,
    stopping_cost,
)
from unisono.core.privacy import Privacy
from unisono.core.study import Party, Study
from unisono.core.trust import ITERATES, Relation, Viewer, describe
from unisono.core.values import Private
from unisono.core.words import did_you_mean
from unisono.data import listed, numbers
from unisono.data.order import order_key, secret_order
from unisono.data.scaling import target_scaling
from unisono.engines.payments import local_cost
from unisono.errors import InvalidInput, UnknownEvent, warn
from unisono.estimators.averaged import AveragedModel, can_be_averaged
from unisono.estimators.classifiers import places_of
from unisono.estimators.foundation import Quoted
from unisono.estimators.members import (
    Membership,
    facts_of,
    fresh_ledgers,
    given_ledgers,
    membership,
    public_sizes,
    warn_of_fresh,
)
from unisono.estimators.statements import DrownedByNoise
from unisono.releases.together import largest_part

ALL, RANDOM_STOPPING = "all", "random-stopping"
METHODS = (ALL, RANDOM_STOPPING)
# Scores of all candidates get this part of epsilon: where fits have no exact curve, what is dearer
# is found by Rényi bounds, which are up to a tenth above the exact one of Gaussian scores.
_SCORES = 0.9
_ADDED = 0.4  # of what all fits show, at most, where scores are added to them
# Less, down to a tenth of it, where noise between two scores stays within half a point.
_APART, _LEAST_SCORES = 0.005, 0.1
# Networks that are tried where nobody says; set on moons, banana, ring, phoneme and bent planes.
_HIDDEN, _FAST = (32,), 3.0


@dataclass(frozen=True)
class Tried:
    """One candidate: its settings, and its noisy score, where that was released."""

    settings: Mapping[str, Any]
    score: float | None


class _Plan(NamedTuple):
    """What one epsilon for a fit makes of the search: what each run costs, the study of scores, and
    what all of it costs together."""

    epsilon: float
    fits: tuple[Cost, ...]  # of each group
    scores: tuple[Study, ...]  # of all candidates, or, with random stopping, of each group's
    groups: tuple[tuple[int, ...], ...]  # places of candidates that are functions of one release
    total: Cost
    studies: tuple[str, ...]  # hashes of the candidates' studies
    apart: bool  # whether a record is counted as in one part, fits or scores

    @property
    def together(self) -> Cost:
        """All fits."""
        return added(self.fits)


class PrivateSearch(MetaEstimatorMixin, BaseEstimator):
    """The best of several candidates, found and fitted within one budget.

    Guarantee: (epsilon, delta)-differential privacy for one record under the estimator's
    `relation`, for all fits, scores and the choice together: with method "all" against everyone who
    sees anything, with "random-stopping" against whoever sees the chosen model, its score and its
    certificate only (`certificate_` states what holds against the others).

    Parameters
    ----------
    estimator : a private estimator of Unisono, unfitted, without a ledger of its own.
    candidates : a list of overrides of its parameters, each a dict, as [{}, {"rounds": 50}]; or a
        grid, {"regularisation": [0, 1e-3], "rounds": [20, 100]}. "estimator" in a candidate names
        another estimator. None: `usual_candidates`, which are the estimator as it is, a network,
        and for ridge regression the half and the quarter of the columns that matter most.
    epsilon, delta : the budget of the whole search.
    method : "all" or "random-stopping", as this module explains.
    holdout : the share of each party's records that judges, and teaches nothing; 0: all records
        learn and judge.
    most_runs : with "random-stopping", the largest number of runs; None: twice the number of
        releases that candidates differ in.
    average : with "all", whether the average of the first candidates of all releases is judged,
        too. It costs nothing, and is often the best; it predicts, and is not saved as one model.
    scoring : "accuracy", or "brier" (1 minus the squared error of the true class's probability);
        regressions have 1 minus the squared error in units of half the target's range, at least 0.
    ledger, random_state : as those of estimators.

    Attributes
    ----------
    best_estimator_, best_params_, best_index_ : the chosen one, fitted.
    best_score_ : its noisy score; too good on average, as it was chosen for being large, and,
        without `holdout`, as it is of records that were learnt from.
    tried_ : all candidates, with noisy scores where these were released ("all").
    certificate_ : what is guaranteed to whom, for the whole search.
    epsilon_of_one_fit_ : what each fit was calibrated for.
    """

    def __init__(
        self,
        estimator: Any,
        candidates: Any = None,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        method: str = ALL,
        holdout: float = 0.0,
        most_runs: int | None = None,
        average: bool = False,
        scoring: str = "accuracy",
        ledger: Any = None,
        random_state: int | None = None,
    ) -> None:
        self.estimator, self.candidates = estimator, candidates
        self.epsilon, self.delta, self.method = epsilon, delta, method
        self.holdout, self.most_runs, self.average = holdout, most_runs, average
        self.scoring = scoring
        self.ledger, self.random_state = ledger, random_state

    # ------------------------------------------------------------- fitting

    def fit(self, X: Any, y: Any, parties: Any = None) -> "PrivateSearch":
        """Choose and fit: rows X (n, d), labels or targets y (n,), the party of each row (n,)."""
        X, y = _rows(X), _as_given(y)
        settings, models = self._candidates(X.shape[1])
        self._require(models)
        check_consistent_length(X, y)
        split = _split(models[0], membership(parties, len(X)), self.holdout, self.random_state)
        if self.candidates is None:
            self._warn_where_it_cannot_help(models, split)
        plan = self._planned(models, X, y, split)
        books = self._ledgers(split, plan, models[0])
        plan = plan._replace(total=local_cost(plan.scores[0], plan.total, books))
        self.epsilon_of_one_fit_ = plan.epsilon
        if self.method == ALL:
            fitted, scores = self._fit_all(models, plan, X, y, split, books)
            if len(fitted) > len(models):
                settings = [*settings, {"average": tuple(own[0] for own in plan.groups)}]
            self.best_index_ = int(np.argmax(scores))
            best, self.best_score_ = fitted[self.best_index_], float(scores[self.best_index_])
            shown: list[float | None] = [float(one) for one in scores]
        else:
            self.best_index_, best, self.best_score_ = self._fit_at_random(
                models, plan, X, y, split, books
            )
            shown = [None] * len(models)
            shown[self.best_index_] = self.best_score_
        self.tried_ = tuple(map(Tried, settings, shown))
        self.best_params_ = dict(settings[self.best_index_])
        self.certificate_ = self._certificate(best, plan, split, books)
        self.best_estimator_ = self._handed_over(best)
        if hasattr(best, "classes_"):
            self.classes_ = best.classes_
        self.n_features_in_ = X.shape[1]
        return self

    def _fit_all(
        self,
        models: Sequence[Any],
        plan: _Plan,
        X: Any,
        y: Any,
        split: "_Split",
        books: Sequence[Ledger],
    ) -> tuple[list[Any], np.ndarray]:
        if plan.apart:
            parts = [plan.together, plan.scores[0].cost]
            grants = Ledger.authorize_all(books, plan.total, 1, _purpose(plan))
            pots = [prepaid(grant.draw(0), one_of(parts, ITERATES), parts) for grant in grants]
        else:  # every fit pays for itself, if all of them can
            Ledger.check_all(books, plan.total)
            pots = list(books)
        fitted: dict[int, Any] = {}
        for members in plan.groups:
            fitted |= self._fit_group(models, members, plan, X, y, split, pots)
        found = [fitted[place] for place in range(len(models))]
        if self._averages(models, plan.groups):
            mean = AveragedModel([fitted[members[0]] for members in plan.groups])
            mean._search_study = found[0]._search_study
            found.append(mean)
        return found, self._judged(found, plan.scores[0], X, y, split, pots, _purpose(plan))

    def _fit_group(
        self,
        models: Sequence[Any],
        members: Sequence[int],
        plan: _Plan,
        X: Any,
        y: Any,
        split: "_Split",
        pots: Sequence[Ledger],
    ) -> dict[int, Any]:
        """By place, candidates that are functions of one release, which is made once."""
        fitted: dict[int, Any] = {}
        for place in members:
            own = _copied(
                models[place], plan.epsilon, self.delta, split.ledgers(pots), self.random_state
            )
            if fitted:
                own._released = fitted[members[0]]._kept
            fitted[place] = split.fitted(own, X, y)
        return fitted

    def _judged(
        self,
        fitted: Sequence[Any],
        study: Study,
        X: Any,
        y: Any,
        split: "_Split",
        pots: Sequence[Ledger],
        purpose: str,
    ) -> np.ndarray:
        """The noisy score of each, in one release."""
        judged = np.stack([_scores(own, self.scoring, *split.judges(X, y)) for own in fitted], 1)
        return _released_scores(study, judged, split, pots, purpose)

    def _fit_at_random(
        self,
        models: Sequence[Any],
        plan: _Plan,
        X: Any,
        y: Any,
        split: "_Split",
        books: Sequence[Ledger],
    ) -> tuple[int, Any, float]:
        """Pay for as many runs as there can be, make them, and keep the best of so many as were
        drawn to count. A run is one release, and the best of all candidates that are functions of
        it."""
        most = self._most(len(plan.groups))
        grants = Ledger.authorize_all(books, plan.total, most, _purpose(plan))
        runs, options = _runs(plan)
        event = one_of(options, ITERATES)
        law = RandomStopping(tuple(part[ITERATES] for part in options), most, SHAPE)
        number, chosen = law.drawn(lots_of(grants), len(plan.groups))
        best: tuple[float, int, Any] | None = None
        for index, group in enumerate(chosen):
            own = [prepaid(grant.draw(index), event, runs[group]) for grant in grants]
            fitted = self._fit_group(models, plan.groups[group], plan, X, y, split, own)
            study = plan.scores[group]
            scores = self._judged([*fitted.values()], study, X, y, split, own, "scores")
            top = int(np.argmax(scores))
            place = plan.groups[group][top]
            if index < number and (best is None or scores[top] > best[0]):
                best = (float(scores[top]), place, fitted[place])
        assert best is not None
        return best[1], best[2], best[0]

    def _averages(self, models: Sequence[Any], groups: Sequence[Any]) -> bool:
        """Whether an average is judged beside the candidates."""
        return bool(self.average) and len(groups) > 1 and can_be_averaged(models)

    # ------------------------------------------------------------- planning

    def _planned(self, models: Sequence[Any], X: Any, y: Any, split: "_Split") -> _Plan:
        """The largest epsilon of one fit with which the whole search keeps its promise."""
        promise = Privacy(self.epsilon, self.delta, _relation(models[0]))

        def tried(epsilon: float) -> tuple[_Plan, float]:
            plan = self._priced(models, epsilon, X, y, split, apart=bool(self.holdout))
            if not _accountable(plan.total, promise):
                if self.method == RANDOM_STOPPING:
                    raise InvalidInput(f"{UNPROVED.format('method=')}; nothing was spent")
                plan = self._priced(models, epsilon, X, y, split, apart=False)
            viewers = self._promised(plan, promise)
            whole = _largest(plan.total, viewers, promise)
            if plan.apart and self.method == ALL and whole <= promise.epsilon:
                # Scores do not follow the fits.
                return plan, _largest(plan.together, viewers, promise)
            return plan, whole

        fits = len(models) if self.method == ALL else 4  # what is saved by a good first guess
        found = largest_part(promise.epsilon, promise.epsilon / math.sqrt(fits), tried)
        if found is not None:
            return found[0]
        raise InvalidInput(
            f"no noise makes a search among {len(models)} candidates keep epsilon "
            f"{self.epsilon:g} at delta {self.delta:g}: try fewer, or a larger budget; nothing was "
            "spent"
        )

    def _priced(
        self,
        models: Sequence[Any],
        epsilon: float,
        X: Any,
        y: Any,
        split: "_Split",
        apart: bool,
    ) -> _Plan:
        """What one epsilon for a fit makes of the search. Not `apart`, where records learn and
        judge, or where what is dearer, fits or scores, is not known: then both are added up."""
        quotes = [split.quoted(model, epsilon, self.delta, X, y) for model in models]
        groups = _groups(models, quotes)
        studies = tuple(quote.plan.study.hash for quote in quotes)
        fits = tuple(quotes[members[0]].cost for members in groups)
        every = self.method == ALL
        # Scores may show as much of a record as all fits do, or as one, where runs are single.
        most = _SCORES * self.epsilon if every else epsilon
        if not apart:
            most = _ADDED * epsilon * (math.sqrt(len(groups)) if every else 1.0)
        shown = Privacy(most, self.delta, quotes[0].relation)
        gain = _gain(models[0], self.scoring)
        everything = len(models) + self._averages(models, groups)
        judged = [everything] if every else [len(members) for members in groups]
        scores = tuple(
            _scores_study(number, gain, shown, quotes[0], split, frugal=not apart)
            for number in judged
        )
        plan = _Plan(epsilon, fits, scores, groups, {}, studies, apart)
        if not every:
            _, options = _runs(plan)
            return plan._replace(total=stopping_cost(options, self._most(len(groups))))
        parts = [added(fits), scores[0].cost]
        if not apart:
            return plan._replace(total=added(parts))
        return plan._replace(total={viewer: one_of(parts, viewer) * 1 for viewer in parts[0]})

    def _promised(self, plan: _Plan, promise: Privacy) -> list[Viewer]:
        """To whom the promise is made: to whom one fit keeps its own, or, with random stopping, to
        whoever sees the best run only."""
        kept = [v for v, seen in plan.total.items() if not seen.discloses]
        if self.method == RANDOM_STOPPING:
            kept = [v for v in kept if plan.total[v].parts[0][1] == 1]
        else:
            one = plan.fits[0]
            kept = [
                v
                for v in kept
                if ACCOUNTANT.fits(one[v], promise.relation, 1.001 * plan.epsilon, promise.delta)
            ]
        if not kept:
            raise InvalidInput("nobody is promised anything: choose another trust or method")
        return kept

    def _most(self, candidates: int) -> int:
        return 2 * candidates if self.most_runs is None else int(self.most_runs)

    # ------------------------------------------------------------- checks

    def _candidates(self, columns: int) -> tuple[list[dict[str, Any]], list[Any]]:
        given = self.candidates
        if given is None:
            given = usual_candidates(self.estimator, columns, pure=not self.delta)
        settings = [dict(one) for one in (ParameterGrid(given) if _is_grid(given) else given)]
        models = []
        for one in settings:
            own = dict(one)
            model = clone(own.pop("estimator", self.estimator))
            unknown = [name for name in own if name not in model.get_params(deep=False)]
            if unknown:
                known = sorted(model.get_params(deep=False))
                raise InvalidInput(
                    f"{type(model).__name__} has no parameter {unknown[0]!r}"
                    f"{did_you_mean(unknown[0], known)}; nothing was spent"
                )
            reserved = {"epsilon", "delta", "ledger", "random_state"} & set(own)
            if reserved:
                raise InvalidInput(
                    f"a candidate sets {sorted(reserved)[0]}: the search has one budget and one "
                    "ledger, and gives each fit its part; nothing was spent"
                )
            models.append(model.set_params(**own))
        return settings, models

    def _require(self, models: Sequence[Any]) -> None:
        """Refuse what cannot be searched, before anything is read."""
        if self.method not in METHODS:
            raise InvalidInput(
                f"method = {self.method!r}: choose one of {', '.join(METHODS)}"
                f"{did_you_mean(self.method, METHODS)}"
            )
        if len(models) < 2:
            raise InvalidInput(f"{len(models)} candidates: a choice needs two or more")
        if not (isinstance(self.holdout, int | float) and 0 <= self.holdout < 1):
            raise InvalidInput(f"holdout = {self.holdout!r}: a share from 0 to below 1")
        if self.scoring not in ("accuracy", "brier"):
            raise InvalidInput(f"scoring = {self.scoring!r}: choose accuracy or brier")
        if self.average and self.method != ALL:
            raise InvalidInput(
                f"average = {self.average!r} with method = {self.method!r}, of which one model is "
                'shown: use method="all", whose candidates are all released; nothing was spent'
            )
        if self.method == RANDOM_STOPPING and not 1 <= self._most(len(models)) <= 1000:
            raise InvalidInput(f"most_runs = {self.most_runs!r}: it lies between 1 and 1000")
        for model in models:
            _require_searchable(model, self.scoring)
        for name in ("relation", "trust", "records", "minimum_parties", "colluders"):
            if len({repr(getattr(model, name)) for model in models}) > 1:
                raise InvalidInput(f"candidates differ in {name}: they are compared under one")
        if len({is_regressor(model) for model in models}) > 1:
            raise InvalidInput("classifiers and regressions cannot be compared by one score")
        bounds = [getattr(model, "target_bounds", None) for model in models]
        if len(set(map(target_scaling, bounds))) > 1:  # a wide one would make any error small
            raise InvalidInput(
                "candidates differ in target_bounds, in units of which they are scored: give all "
                "of them the same; nothing was spent"
            )

    def _warn_where_it_cannot_help(self, models: Sequence[Any], split: "_Split") -> None:
        """Of the usual candidates, by public facts, before anything is paid."""
        from unisono.planning.verdicts import network_beside_line

        classes = 0 if is_regressor(models[0]) else len(models[0].classes)
        if words := network_beside_line(split.taught, self.epsilon, classes):
            warn(
                f"a search cannot be expected to help here: {words}; the estimator by itself with "
                "all of epsilon is likely to be better, or give candidates of your own",
                DrownedByNoise,
            )

    def _ledgers(self, split: "_Split", plan: _Plan, model: Any) -> list[Ledger]:
        seed = self.random_state
        if self.ledger is not None:
            return given_ledgers(self.ledger, split.members, seed)
        warn_of_fresh(seed)
        parties, budget = len(split.members.names), Budget(self.epsilon, self.delta)
        return fresh_ledgers(
            split.members, [plan.total] * parties, [budget] * parties, _relation(model), seed
        )

    def _certificate(
        self, best: Any, plan: _Plan, split: "_Split", books: Sequence[Ledger]
    ) -> Certificate:
        named = dict(zip(split.members.names, books, strict=True))
        study = Study(best._search_study.method, best._search_study.facts, plan.scores[0].trust)
        return certify(
            study,
            named,
            books[0].accountant,
            secure_sum=best.certificate_.secure_sum,
            costs=[plan.total] * len(named),
        )

    def _handed_over(self, best: Any) -> Any:
        """The chosen estimator, with the certificate of the whole search and the ledger of it."""
        members = best.members_ if isinstance(best, AveragedModel) else ()
        for own in members or [best]:
            own.set_params(ledger=self.ledger)
            own._keeping, own._released, own._kept = False, None, None
        for own in (*members, best):
            own.certificate_, own._search_study = self.certificate_, None
        best.epsilon_spent_ = max(
            (
                spent
                for group in self.certificate_.spending
                for viewer, spent in group.epsilon.items()
                if group.budget[viewer] < math.inf
            ),
            default=math.inf,
        )
        best.statements_ = (
            *best.statements_,
            f"chosen among {len(self.tried_)} candidates; the certificate is of the whole search",
        )
        return best

    # ------------------------------------------------------------- using it

    def predict(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        found: np.ndarray = self.best_estimator_.predict(X)
        return found

    def predict_proba(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        found: np.ndarray = self.best_estimator_.predict_proba(X)
        return found

    def score(self, X: Any, y: Any) -> float:
        """The best estimator's score on records that are nobody's secret: nothing is paid."""
        check_is_fitted(self)
        return float(self.best_estimator_.score(X, y))

    def save(self, path: Any) -> None:
        """Write the chosen model to a folder, for `unisono.load`."""
        check_is_fitted(self)
        self.best_estimator_.save(path)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        own = self.estimator.__sklearn_tags__()
        tags.estimator_type, tags.classifier_tags = own.estimator_type, own.classifier_tags
        tags.regressor_tags = own.regressor_tags
        return tags

    def summary(self) -> str:
        """What was tried, which was chosen, and what it cost whom."""
        check_is_fitted(self)
        judged = (
            "records that none learnt from" if self.holdout else "records that were learnt from"
        )
        lines = [f"{len(self.tried_)} candidates, method {self.method}; scores on {judged}"]
        for place, one in enumerate(self.tried_):
            mark = "*" if place == self.best_index_ else " "
            score = "not shown" if one.score is None else f"{one.score:.4f}"
            lines.append(f"{mark} {score:>9}  {_words(one.settings)}")
        lines.append(
            f"epsilon of the whole search at delta {self.delta:g}, of one fit "
            f"{self.epsilon_of_one_fit_:.4g}:"
        )
        relation = _relation(self.best_estimator_)
        for line in self.certificate_.lines:
            if line.relation is relation:
                shown = "no protection" if math.isinf(line.epsilon) else f"{line.epsilon:.4g}"
                lines.append(f"  {describe(line.viewer)}: {shown}")
        return "\n".join(lines)


# ------------------------------------------------------------------- records


@dataclass(frozen=True)
class _Split:
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
        own = (_safe_indexing(X, rows), _some(y, rows))
        return (*own, self._names(self.learning)) if several else own

    def fitted(self, model: Any, X: Any, y: Any) -> Any:
        """Fitted, with what it learnt from in `_kept`, be it released for it or for another."""
        model.set_params(records=self.learnt)
        model._keeping = True
        model.fit(*self._learning(model, X, y))
        model._search_study = model._kept.study
        return model

    def quoted(self, model: Any, epsilon: float, delta: float, X: Any, y: Any) -> Quoted:
        own = _copied(model, epsilon, delta, None, None).set_params(records=self.learnt)
        own._quoting = True
        try:
            own.fit(*self._learning(own, X, y))
        except Quoted as quote:
            return quote
        raise InvalidInput(f"{type(model).__name__} does not say what a fit costs: leave it out")

    def judges(self, X: Any, y: Any) -> tuple[Any, Any]:
        rows = np.concatenate(self.judging)
        return _safe_indexing(X, rows), _some(y, rows)

    def ledgers(self, books: Sequence[Ledger]) -> Any:
        named = dict(zip(self.members.names, books, strict=True))
        return named if len(named) > 1 else books[0]


def _split(model: Any, members: Membership, holdout: float, seed: int | None) -> _Split:
    """A secret share of each party's records; its number is public, or, where sizes are hidden, an
    estimate, and every record tosses a coin of its own."""
    relation = _relation(model)
    sizes = public_sizes(model.records, members, relation)
    hidden = relation is Relation.ADD_OR_REMOVE
    learning, judging, judged = [], [], []
    for name, rows, size in zip(members.names, members.rows, sizes, strict=True):
        number = int(size * holdout)
        if not holdout:
            learning.append(rows)
            judging.append(rows)
            judged.append(size)
            continue
        if number < 1 or size - number < 1:
            raise InvalidInput(
                f"{size} records of {name} leave nothing to learn from or to judge by at holdout = "
                f"{holdout!r}: bring more records; nothing was spent"
            )
        key = order_key(seed, f"{name} holdout")
        if hidden:
            coins = np.random.default_rng(list(key)).random(len(rows)) < holdout
            learning.append(rows[~coins])
            judging.append(rows[coins])
        else:
            order = secret_order(len(rows), key)
            learning.append(np.sort(rows[order[number:]]))
            judging.append(np.sort(rows[order[:number]]))
        judged.append(number)
    learnt = None
    if hidden:
        pairs = zip(members.names, sizes, judged, strict=True)
        learnt = {name: size - number * bool(holdout) for name, size, number in pairs}
    taught = sum(sizes) - sum(judged) * bool(holdout)
    return _Split(members, tuple(learning), tuple(judging), learnt, taught, tuple(judged))


def _rows(X: Any) -> Any:
    own = np.asarray(X, np.float64) if not hasattr(X, "columns") else X
    if not np.isfinite(np.asarray(own, np.float64)).all():
        raise InvalidInput(
            "rows with missing or infinite values: a search reads numbers; fill them in by a "
            "public rule first; nothing was spent"
        )
    return own


def _as_given(y: Any) -> Any:
    return np.asarray(y) if isinstance(getattr(y, "dtype", None), np.dtype) else list(listed(y))


def _some(y: Any, rows: np.ndarray) -> Any:
    return y[rows] if isinstance(y, np.ndarray) else [y[row] for row in rows]


# -------------------------------------------------------------------- scores


def _scores(model: Any, scoring: str, X: Any, y: Any) -> np.ndarray:
    """The score (m,) of every record by a model, in [0, 1]."""
    if is_regressor(model):
        half = target_scaling(model.target_bounds).half
        errors = (np.asarray(model.predict(X), float) - numbers(listed(y))) / half
        return 1.0 - np.clip(np.nan_to_num(errors, nan=1.0), -1.0, 1.0) ** 2
    own = places_of(np.asarray(y), y, model.classes_)
    if scoring == "brier":
        chances = np.asarray(model.predict_proba(X), float)
        true = np.where(own >= 0, chances[np.arange(len(own)), np.maximum(own, 0)], 0.0)
        return 1.0 - (1.0 - np.clip(np.nan_to_num(true), 0.0, 1.0)) ** 2
    return ((own >= 0) & (model.classes_[own] == model.predict(X))).astype(float)


def _gain(model: Any, scoring: str) -> float:
    """Right and wrong differ by 1, and numbers and chances by little."""
    from unisono.algorithms.held_out_scores import NUMBERS_GAIN

    return NUMBERS_GAIN if is_regressor(model) or scoring == "brier" else 1.0


def _scores_study(
    models: int, gain: float, privacy: Privacy, quote: Quoted, split: _Split, frugal: bool
) -> Study:
    """The release of scores; a `frugal` one adds as much noise as leaves two scores well apart."""
    from unisono.algorithms.held_out_scores import HELD_OUT_SCORES, JudgedModels, score_deviation

    own, problem = quote.facts, JudgedModels(models, gain)
    facts = facts_of(
        split.judged, models, quote.trust, privacy.relation, own.minimum_parties, own.colluders
    )

    def made(epsilon: float) -> Study:
        paid = Privacy(epsilon, privacy.delta, privacy.relation)
        return Study(HELD_OUT_SCORES.method(problem, paid), facts, quote.trust)

    study = made(privacy.epsilon)
    if not frugal:
        return study
    event = study.algorithm.event(facts, quote.trust)
    noise = score_deviation(problem, event.noise.deviation(models + 1), sum(split.judged))
    share = noise * gain / _APART
    return study if share >= 1 else made(privacy.epsilon * max(share, _LEAST_SCORES))


def _released_scores(
    study: Study, judged: np.ndarray, split: _Split, books: Sequence[Ledger], purpose: str
) -> np.ndarray:
    """Noisy scores (models,) from the scores (m, models) of all parties' records, one after the
    other."""
    from unisono.engines import in_process

    cuts = np.cumsum([len(own) for own in split.judging])[:-1]
    parts = np.split(judged.astype(np.float32), cuts)
    parties = [
        Party(name, Private((own,), name), book)
        for name, own, book in zip(split.members.names, parts, books, strict=True)
    ]
    found: np.ndarray = np.asarray(in_process.run(study, parties, purpose=purpose).value)
    return found


# ------------------------------------------------------------------ candidates


def usual_candidates(estimator: Any, columns: int, pure: bool = False) -> list[dict[str, Any]]:
    """What is tried where nobody says: the estimator as it is, and what a line cannot do, a network
    of one layer. Of ridge regression also half and a quarter of its columns, which share a release
    with all of them. Networks for classes learn faster than by their own rule, which is made for
    the case that nothing else is tried. For pure epsilon there are no networks."""
    from unisono.estimators.networks import PrivateClassifier, PrivateRegressor
    from unisono.estimators.ridge import PrivateRidge

    found: list[dict[str, Any]] = [{}]
    if isinstance(estimator, PrivateRidge) and estimator.features is None:
        found += [{"features": part} for part in (columns // 2, columns // 4) if part]
    if not pure and not isinstance(estimator, PrivateClassifier | PrivateRegressor):
        kind: Any = PrivateRegressor if is_regressor(estimator) else PrivateClassifier
        more = {"hidden": _HIDDEN} | ({} if is_regressor(estimator) else {"learning_rate": _FAST})
        given = estimator.get_params(deep=False)
        own = {name: given[name] for name in kind().get_params(deep=False) if name in given}
        found += [{"estimator": kind(**own | more)}]
    if len(found) < 2:
        raise InvalidInput(
            f"there is no usual list of candidates for {type(estimator).__name__} here: give "
            "candidates=[{}, {...}]; nothing was spent"
        )
    return found


def _is_grid(given: Any) -> bool:
    return isinstance(given, Mapping)


def _copied(model: Any, epsilon: float, delta: float, ledger: Any, seed: int | None) -> Any:
    return clone(model).set_params(epsilon=epsilon, delta=delta, ledger=ledger, random_state=seed)


def _relation(model: Any) -> Relation:
    return Relation(model.relation)


def _require_searchable(model: Any, scoring: str) -> None:
    from unisono.estimators.foundation import PrivateEstimator

    name = type(model).__name__
    if not isinstance(model, PrivateEstimator) or not hasattr(model, "predict"):
        raise InvalidInput(f"{name} is no private estimator of Unisono: its fits are not counted")
    if model.ledger is not None:
        raise InvalidInput(
            "a candidate brings its own ledger: give the ledger to the search, which books every "
            "fit and the choice in it; nothing was spent"
        )
    if model.columns is not None or model.records_per_person is not None:
        raise InvalidInput(
            f"{name} with columns or persons: a search compares candidates on arrays of numbers, "
            "whose single records are hidden; nothing was spent"
        )
    if getattr(model, "engine", "in-process") != "in-process":
        raise InvalidInput(f"engine = {model.engine!r}: a search runs in this process")
    if isinstance(getattr(model, "target_bounds", None), str):
        raise InvalidInput("target_bounds = 'private': scores need public bounds of the target")
    if not is_regressor(model):
        if model.classes is None or isinstance(model.classes, str):
            raise InvalidInput(
                f"a candidate has classes = {model.classes!r}: pass classes=[...], the public "
                "classes, which are not read from the records; nothing was spent"
            )
        if scoring == "brier" and not hasattr(model, "predict_proba"):
            raise InvalidInput(f"{name} has no probabilities: use scoring='accuracy'")


def _groups(models: Sequence[Any], quotes: Sequence[Quoted]) -> tuple[tuple[int, ...], ...]:
    """The places of candidates, those together that are functions of one release."""
    known: dict[Any, list[int]] = {}
    for place, (model, quote) in enumerate(zip(models, quotes, strict=True)):
        given = model.get_params(deep=False)
        own = {name: _told(value) for name, value in given.items() if name not in model._afterwards}
        study, start = quote.plan.study, quote.plan.start
        method = study.method.released
        agreed = Study(method, study.facts, study.trust).hash
        key = (
            type(model),
            tuple(sorted(own.items())),
            agreed,
            None if start is None else start.hash,
            # Ranges that are found on the way are another release, and not kept.
            None if (quote.alone and study.algorithm.rounds == 1) or _same(quote) else place,
        )
        known.setdefault(key, []).append(place)
    return tuple(map(tuple, known.values()))


def _runs(plan: _Plan) -> tuple[list[list[Cost]], list[Cost]]:
    """With random stopping, what a run of each group releases, and what a record may be in of any
    run: learnt or judged, where records are kept apart, or both."""
    pairs = [[fit, scores.cost] for fit, scores in zip(plan.fits, plan.scores, strict=True)]
    runs = pairs if plan.apart else [[added(pair)] for pair in pairs]
    options: list[Cost] = []
    for cost in (cost for run in runs for cost in run):
        if cost not in options:
            options.append(cost)
    return runs, options


def _told(value: Any) -> str:
    """A parameter, told apart from any other: arrays and columns of frames shorten themselves in
    their own words."""
    if isinstance(value, (tuple, list)):
        return f"{type(value).__name__} {[_told(one) for one in value]}"
    if not hasattr(value, "__array__"):
        return repr(value)
    own = np.asarray(value)
    if own.dtype == object:
        return f"{own.shape} {[_told(one) for one in own.ravel().tolist()]}"
    return f"{own.dtype} {own.shape} {own.tobytes().hex()}"


def _same(quote: Quoted) -> bool:
    """Whether the method has nothing that acts afterwards: then equal studies are one study."""
    return quote.alone and not quote.plan.study.method.kind.afterwards


def _purpose(plan: _Plan) -> str:
    """What ledgers say of a search; by hashes it is known which models it has paid for."""
    named = dict.fromkeys(f"study {study[:16]}" for study in plan.studies)
    return f"search among {len(plan.studies)} candidates: {', '.join(named)}"


def _accountable(total: Cost, promise: Privacy) -> bool:
    """Whether what the search costs can be stated: of samples under replace-one pairs of
    distributions are known, and no Rényi bounds, by which parts are compared."""
    try:
        for seen in total.values():
            if not seen.discloses:
                ACCOUNTANT.epsilon(seen, promise.relation, promise.delta)
    except UnknownEvent:
        return False
    return True


def _largest(total: Cost, viewers: Sequence[Viewer], promise: Privacy) -> float:
    return max(
        ACCOUNTANT.epsilon(total[viewer], promise.relation, promise.delta) for viewer in viewers
    )


def _words(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in settings.items()) or "as it is"


__all__ = ["ALL", "METHODS", "RANDOM_STOPPING", "PrivateSearch", "Tried", "usual_candidates"]
