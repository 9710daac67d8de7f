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
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone, is_regressor
from sklearn.model_selection import ParameterGrid
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
from unisono.core.study import Study
from unisono.core.trust import ITERATES, Viewer, describe
from unisono.core.words import did_you_mean, number, times
from unisono.data.scaling import target_scaling
from unisono.engines.payments import local_cost
from unisono.errors import InvalidInput, UnknownEvent, warn
from unisono.estimators.averaged import AveragedModel, can_be_averaged
from unisono.estimators.candidates import (
    copied,
    groups_of,
    is_grid,
    relation_of,
    require_searchable,
    usual_candidates,
)
from unisono.estimators.foundation import require_ledger
from unisono.estimators.judged_candidates import (
    record_scores,
    released_scores,
    score_gain,
    scores_study,
)
from unisono.estimators.learn_or_judge import Split, as_given, read_rows, split_records
from unisono.estimators.members import (
    fresh_ledgers,
    given_ledgers,
    membership,
    warn_of_fresh,
)
from unisono.estimators.statements import DrownedByNoise
from unisono.releases.together import largest_part

ALL, RANDOM_STOPPING = "all", "random-stopping"
METHODS = (ALL, RANDOM_STOPPING)
MOST_RUNS = 1000
# Scores of all candidates get this part of epsilon: where fits have no exact curve, what is dearer
# is found by Rényi bounds, which are up to a tenth above the exact one of Gaussian scores.
_SCORES = 0.9
_ADDED = 0.4  # of what all fits show, at most, where scores are added to them


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
        too. It costs nothing, and is often the best; it predicts and is saved as one model.
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

    _without_ledger = False  # whether it was pickled, and so parted from its ledger

    # ------------------------------------------------------------- fitting

    def fit(self, X: Any, y: Any, parties: Any = None) -> "PrivateSearch":
        """Choose and fit: rows X (n, d), labels or targets y (n,), the party of each row (n,)."""
        require_ledger(self)
        X, y = read_rows(X), as_given(y)
        settings, models = self._candidates(X.shape[1])
        self._require(models)
        check_consistent_length(X, y)
        split = split_records(
            models[0], membership(parties, len(X)), self.holdout, self.random_state
        )
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
        split: Split,
        books: Sequence[Ledger],
    ) -> tuple[list[Any], np.ndarray]:
        fitted: dict[int, Any] = {}
        with ExitStack() as stack:
            if plan.apart:
                parts = [plan.together, plan.scores[0].cost]
                grants = Ledger.authorize_all(books, plan.total, 1, _purpose(plan))
                pots = [prepaid(grant.draw(0), one_of(parts, ITERATES), parts) for grant in grants]
            else:  # all fits and scores are one plan
                stack.enter_context(Ledger.declared(books, [plan.total] * len(books)))
                pots = list(books)
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
        split: Split,
        pots: Sequence[Ledger],
    ) -> dict[int, Any]:
        """By place, candidates that are functions of one release, which is made once."""
        fitted: dict[int, Any] = {}
        for place in members:
            own = copied(
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
        split: Split,
        pots: Sequence[Ledger],
        purpose: str,
    ) -> np.ndarray:
        """The noisy score of each, in one release."""
        judged = np.stack(
            [record_scores(own, self.scoring, *split.judges(X, y)) for own in fitted], 1
        )
        return released_scores(study, judged, split, pots, purpose)

    def _fit_at_random(
        self,
        models: Sequence[Any],
        plan: _Plan,
        X: Any,
        y: Any,
        split: Split,
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

    def _planned(self, models: Sequence[Any], X: Any, y: Any, split: Split) -> _Plan:
        """The largest epsilon of one fit with which the whole search keeps its promise."""
        promise = Privacy(self.epsilon, self.delta, relation_of(models[0]))

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
        split: Split,
        apart: bool,
    ) -> _Plan:
        """What one epsilon for a fit makes of the search. Not `apart`, where records learn and
        judge, or where what is dearer, fits or scores, is not known: then both are added up."""
        quotes = [split.quoted(model, epsilon, self.delta, X, y) for model in models]
        groups = groups_of(models, quotes)
        studies = tuple(quote.plan.study.hash for quote in quotes)
        fits = tuple(quotes[members[0]].cost for members in groups)
        every = self.method == ALL
        # Scores may show as much of a record as all fits do, or as one, where runs are single.
        most = _SCORES * self.epsilon if every else epsilon
        if not apart:
            most = _ADDED * epsilon * (math.sqrt(len(groups)) if every else 1.0)
        shown = Privacy(most, self.delta, quotes[0].relation)
        gain = score_gain(models[0], self.scoring)
        everything = len(models) + self._averages(models, groups)
        judged = [everything] if every else [len(members) for members in groups]
        scores = tuple(
            scores_study(number, gain, shown, quotes[0], split, frugal=not apart)
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
        return min(2 * candidates, MOST_RUNS) if self.most_runs is None else int(self.most_runs)

    # ------------------------------------------------------------- checks

    def _candidates(self, columns: int) -> tuple[list[dict[str, Any]], list[Any]]:
        given = self.candidates
        if given is None:
            given = usual_candidates(self.estimator, columns, pure=not self.delta)
        settings = [dict(one) for one in (ParameterGrid(given) if is_grid(given) else given)]
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
        self._require_most()
        for model in models:
            require_searchable(model, self.scoring)
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

    def _require_most(self) -> None:
        most = self.most_runs
        whole = isinstance(most, int | np.integer) and not isinstance(most, bool)
        if most is not None and not (whole and 1 <= most <= MOST_RUNS):
            raise InvalidInput(
                f"most_runs = {most!r}: give a whole number from 1 to {MOST_RUNS}, or leave it "
                "out; nothing was spent"
            )

    def _warn_where_it_cannot_help(self, models: Sequence[Any], split: Split) -> None:
        """Of the usual candidates, by public facts, before anything is paid."""
        from unisono.planning.verdicts import network_beside_line

        classes = 0 if is_regressor(models[0]) else len(models[0].classes)
        if words := network_beside_line(split.taught, self.epsilon, classes, bool(self.average)):
            warn(
                f"a search cannot be expected to help here: {words}; the estimator by itself with "
                "all of epsilon is likely to be better, or give candidates of your own",
                DrownedByNoise,
            )

    def _ledgers(self, split: Split, plan: _Plan, model: Any) -> list[Ledger]:
        seed = self.random_state
        if self.ledger is not None:
            return given_ledgers(self.ledger, split.members, seed)
        warn_of_fresh(seed)
        parties, budget = len(split.members.names), Budget(self.epsilon, self.delta)
        return fresh_ledgers(
            split.members, [plan.total] * parties, [budget] * parties, relation_of(model), seed
        )

    def _certificate(
        self, best: Any, plan: _Plan, split: Split, books: Sequence[Ledger]
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

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: the chosen model and the scores, without the ledger and its secrets."""
        state = dict(super().__getstate__())
        if self.ledger is not None or hasattr(self, "certificate_"):
            state |= {"ledger": None, "_without_ledger": True}
        return state

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
        lines = [
            f"{times(len(self.tried_), 'candidate')}, method {self.method}; scores on {judged}"
        ]
        for place, one in enumerate(self.tried_):
            mark = "*" if place == self.best_index_ else " "
            score = "not shown" if one.score is None else f"{one.score:.4f}"
            lines.append(f"{mark} {score:>9}  {_words(one.settings)}")
        lines.append(f"epsilon of one fit {number(self.epsilon_of_one_fit_)}, of the whole search:")
        relation = relation_of(self.best_estimator_)
        for line in self.certificate_.lines:
            if line.relation is relation:
                shown = f"{number(line.epsilon)} at delta {line.delta:g}"
                shown = "no protection" if math.isinf(line.epsilon) else shown
                lines.append(f"  {describe(line.viewer)}: {shown}")
        return "\n".join(lines)


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
