"""Choosing among models, with one budget for everything: every fit, every score and the choice.

    search = PrivateSearch(
        PrivateLogisticRegression(bounds=(low, high), classes=[0, 1]),
        {"algorithm": ["preconditioned-gradients", "output-perturbation"],
         "regularisation": [1e-4, 1e-3, 1e-2]},
        epsilon=1.0, delta=1e-6, ledger=ledgers)
    search.fit(X, y, parties=hospital)
    print(search.summary())

A share of each party's records, drawn in secret, learns nothing and judges the candidates. A record
is among those that learn or among those that judge, and never both, so that scores cost nothing in
addition as long as they show no more of a record than training does (`core.prepaid`). Noise is
calibrated so that the whole search keeps (epsilon, delta):

    "all"               Every candidate is fitted once; then ONE release has the noisy scores of all
                        of them, and the best is read off it. Everybody pays the composition of all
                        fits. Gaussian noise adds up in squares: 20 fits cost about 5 times one, not
                        20 times. Candidates that are functions of one release (ridges on the same
                        noisy sums) share it, and cost what one of them does.
    "random-stopping"   A secret random number of runs is made, each of a candidate that is drawn at
                        random, with a noisy score of its own; the best is shown, and nobody learns
                        what else ran, or how often (Papernot and Steinke 2022; Liu and Talwar 2019;
                        `accounting.random_stopping`). Against whoever sees the model that comes out
                        20 candidates cost about twice one run. This is so for them alone: whoever
                        sees iterates (the server, the parties, the network) sees all that ran, and
                        pays the composition of as many runs as there can be, which the ledgers
                        authorise before the first. So many are made, too: how long a search takes
                        does not tell how many of them count.

Everything is authorised before the first record is read: what a ledger refuses costs nothing.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
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
from unisono.engines.payments import local_cost
from unisono.errors import InvalidInput, UnknownEvent
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
from unisono.releases.together import largest_part

ALL, RANDOM_STOPPING = "all", "random-stopping"
METHODS = (ALL, RANDOM_STOPPING)
# Scores of all candidates get this part of epsilon: where fits have no exact curve, what is dearer
# is found by Rényi bounds, which are up to a tenth above the exact one of Gaussian scores.
_SCORES = 0.9
_ADDED = 0.4  # of what all fits show, where scores are added to them


@dataclass(frozen=True)
class Tried:
    """One candidate: its settings, and its noisy score, where that was released."""

    settings: Mapping[str, Any]
    score: float | None


class _Plan(NamedTuple):
    """What one epsilon for a fit makes of the search: what each run costs, the study of scores, and
    what all of it costs together."""

    epsilon: float
    fits: tuple[Cost, ...]
    scores: Study
    groups: tuple[int, ...]  # by candidate, the first one with the same release
    total: Cost
    studies: tuple[str, ...]  # hashes of the candidates' studies
    apart: bool = True  # whether a record is counted as in one part, fits or scores

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
        another estimator.
    epsilon, delta : the budget of the whole search.
    method : "all" or "random-stopping", as this module explains.
    holdout : the share of each party's records that judges, and teaches nothing.
    most_runs : with "random-stopping", the largest number of runs; None: twice the candidates.
    scoring : "accuracy", or "brier" (1 minus the squared error of the true class's probability);
        regressions have 1 minus the squared error in units of half the target's range, at least 0.
    ledger, random_state : as those of estimators.

    Attributes
    ----------
    best_estimator_, best_params_, best_index_ : the chosen one, fitted.
    best_score_ : its noisy score; too good on average, as it was chosen for being large.
    tried_ : all candidates, with noisy scores where these were released ("all").
    certificate_ : what is guaranteed to whom, for the whole search.
    epsilon_of_one_fit_ : what each fit was calibrated for.
    """

    def __init__(
        self,
        estimator: Any,
        candidates: Any,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        method: str = ALL,
        holdout: float = 0.25,
        most_runs: int | None = None,
        scoring: str = "accuracy",
        ledger: Any = None,
        random_state: int | None = None,
    ) -> None:
        self.estimator, self.candidates = estimator, candidates
        self.epsilon, self.delta, self.method = epsilon, delta, method
        self.holdout, self.most_runs, self.scoring = holdout, most_runs, scoring
        self.ledger, self.random_state = ledger, random_state

    # ------------------------------------------------------------- fitting

    def fit(self, X: Any, y: Any, parties: Any = None) -> "PrivateSearch":
        """Choose and fit: rows X (n, d), labels or targets y (n,), the party of each row (n,)."""
        settings, models = self._candidates()
        self._require(models)
        X, y = _rows(X), _as_given(y)
        check_consistent_length(X, y)
        split = _split(models[0], membership(parties, len(X)), self.holdout, self.random_state)
        plan = self._planned(models, X, y, split)
        books = self._ledgers(split, plan, models[0])
        plan = plan._replace(total=local_cost(plan.scores, plan.total, books))
        self.epsilon_of_one_fit_ = plan.epsilon
        if self.method == ALL:
            fitted, scores = self._fit_all(models, plan, X, y, split, books)
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
        parts = [plan.together, plan.scores.cost]
        if plan.apart:
            grants = Ledger.authorize_all(books, plan.total, 1, _purpose(plan))
            pots = [prepaid(grant.draw(0), one_of(parts, ITERATES), parts) for grant in grants]
        else:  # every fit pays for itself, if all of them can
            Ledger.check_all(books, plan.total)
            pots = list(books)
        fitted: list[Any] = []
        for model, first in zip(models, plan.groups, strict=True):
            own = _copied(model, plan.epsilon, self.delta, split.ledgers(pots), self.random_state)
            if first < len(fitted):
                own._released = fitted[first]._kept
            fitted.append(split.fitted(own, X, y))
        judged = np.stack([_scores(own, self.scoring, *split.judges(X, y)) for own in fitted], 1)
        return fitted, _released_scores(plan.scores, judged, split, pots)

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
        drawn to count."""
        most, scores = self._most(len(models)), plan.scores.cost
        grants = Ledger.authorize_all(books, plan.total, most, _purpose(plan))
        run = one_of([*plan.fits, scores], ITERATES)
        options = tuple(part[ITERATES] for part in (*plan.fits, scores))
        law = RandomStopping(options, most, SHAPE)
        number, chosen = law.drawn(lots_of(grants), len(models))
        best: tuple[float, int, Any] | None = None
        for index, candidate in enumerate(chosen):
            parts = [plan.fits[candidate], scores]
            own = [prepaid(grant.draw(index), run, parts) for grant in grants]
            ledgers = split.ledgers(own)
            model = _copied(models[candidate], plan.epsilon, self.delta, ledgers, self.random_state)
            split.fitted(model, X, y)
            judged = _scores(model, self.scoring, *split.judges(X, y))[:, None]
            [score] = _released_scores(plan.scores, judged, split, own)
            if index < number and (best is None or score > best[0]):
                best = (float(score), candidate, model)
        assert best is not None
        return best[1], best[2], best[0]

    # ------------------------------------------------------------- planning

    def _planned(self, models: Sequence[Any], X: Any, y: Any, split: "_Split") -> _Plan:
        """The largest epsilon of one fit with which the whole search keeps its promise."""
        promise = Privacy(self.epsilon, self.delta, _relation(models[0]))

        def tried(epsilon: float) -> tuple[_Plan, float]:
            plan = self._priced(models, epsilon, X, y, split)
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
        apart: bool = True,
    ) -> _Plan:
        """What one epsilon for a fit makes of the search. Not `apart`, where what is dearer, fits
        or scores, is not known: then both are added up."""
        quotes = [split.quoted(model, epsilon, self.delta, X, y) for model in models]
        groups = tuple(_groups(models, quotes))
        studies = tuple(quote.plan.study.hash for quote in quotes)
        every, kept = self.method == ALL, sorted(set(groups))
        # Scores may show as much of a record as all fits do, or as one, where runs are single.
        most = _SCORES * self.epsilon if every else epsilon
        if not apart:
            most = _ADDED * math.sqrt(len(kept)) * epsilon
        shown = Privacy(most, self.delta, quotes[0].relation)
        scores = _scores_study(len(models) if every else 1, shown, quotes[0], split)
        if every:
            fits = tuple(quotes[first].cost for first in kept)
            parts = [added(fits), scores.cost]
            if not apart:
                return _Plan(epsilon, fits, scores, groups, added(parts), studies, apart)
            total = {viewer: one_of(parts, viewer) * 1 for viewer in scores.cost}
            return _Plan(epsilon, fits, scores, groups, total, studies)
        if len(kept) < len(groups):
            raise InvalidInput(
                "some candidates are functions of one release, which random stopping would make "
                'again for each: use method="all", which makes it once; nothing was spent'
            )
        fits = tuple(quote.cost for quote in quotes)
        total = stopping_cost([*fits, scores.cost], self._most(len(models)))
        return _Plan(epsilon, fits, scores, groups, total, studies)

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

    def _candidates(self) -> tuple[list[dict[str, Any]], list[Any]]:
        given = self.candidates
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
        if not (isinstance(self.holdout, float) and 0 < self.holdout < 1):
            raise InvalidInput(f"holdout = {self.holdout!r}: it lies between 0 and 1")
        if self.scoring not in ("accuracy", "brier"):
            raise InvalidInput(f"scoring = {self.scoring!r}: choose accuracy or brier")
        if self.method == RANDOM_STOPPING and not 1 <= self._most(len(models)) <= 1000:
            raise InvalidInput(f"most_runs = {self.most_runs!r}: it lies between 1 and 1000")
        for model in models:
            _require_searchable(model, self.scoring)
        for name in ("relation", "trust", "records", "minimum_parties", "colluders"):
            if len({repr(getattr(model, name)) for model in models}) > 1:
                raise InvalidInput(f"candidates differ in {name}: they are compared under one")
        if len({is_regressor(model) for model in models}) > 1:
            raise InvalidInput("classifiers and regressions cannot be compared by one score")

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
        study = Study(best._search_study.method, best._search_study.facts, plan.scores.trust)
        return certify(
            study,
            named,
            books[0].accountant,
            secure_sum=best.certificate_.secure_sum,
            costs=[plan.total] * len(named),
        )

    def _handed_over(self, best: Any) -> Any:
        """The chosen estimator, with the certificate of the whole search and the ledger of it."""
        best.set_params(ledger=self.ledger)
        best.certificate_ = self.certificate_
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
        del best._search_study
        best._released = best._kept = None
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
        lines = [f"{len(self.tried_)} candidates, method {self.method}"]
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
    judged: tuple[int, ...]  # public sizes

    def _names(self, rows: Sequence[np.ndarray]) -> np.ndarray:
        return np.repeat(np.array(self.members.names, object), [len(own) for own in rows])

    def _learning(self, model: Any, X: Any, y: Any) -> tuple[Any, ...]:
        rows = np.concatenate(self.learning)
        several = len(self.members.names) > 1
        own = (_safe_indexing(X, rows), _some(y, rows))
        return (*own, self._names(self.learning)) if several else own

    def fitted(self, model: Any, X: Any, y: Any) -> Any:
        """Fitted, with what it released in `_kept`, be it its own or another's."""
        model.set_params(records=self.learnt)
        model._keeping = True
        model.fit(*self._learning(model, X, y))
        model._kept = model._kept or model._released
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
        learnt = {name: size - number for name, size, number in pairs}
    return _Split(members, tuple(learning), tuple(judging), learnt, tuple(judged))


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
        low, high = model.target_bounds or (-1.0, 1.0)
        errors = (np.asarray(model.predict(X), float) - numbers(listed(y))) / ((high - low) / 2)
        return 1.0 - np.fmin(1.0, np.nan_to_num(errors**2, nan=1.0, posinf=1.0))
    own = places_of(np.asarray(y), y, model.classes_)
    if scoring == "brier":
        chances = np.asarray(model.predict_proba(X), float)
        true = np.where(own >= 0, chances[np.arange(len(own)), np.maximum(own, 0)], 0.0)
        return 1.0 - (1.0 - np.clip(np.nan_to_num(true), 0.0, 1.0)) ** 2
    return ((own >= 0) & (model.classes_[own] == model.predict(X))).astype(float)


def _scores_study(models: int, privacy: Privacy, quote: Quoted, split: _Split) -> Study:
    from unisono.algorithms.held_out_scores import HELD_OUT_SCORES, JudgedModels

    own = quote.facts
    facts = facts_of(
        split.judged, models, quote.trust, privacy.relation, own.minimum_parties, own.colluders
    )
    return Study(HELD_OUT_SCORES.method(JudgedModels(models), privacy), facts, quote.trust)


def _released_scores(
    study: Study, judged: np.ndarray, split: _Split, books: Sequence[Ledger]
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
    found: np.ndarray = np.asarray(in_process.run(study, parties, purpose="scores").value)
    return found


# ------------------------------------------------------------------ candidates


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


def _groups(models: Sequence[Any], quotes: Sequence[Quoted]) -> Iterator[int]:
    """By candidate, the first one whose release it shares; itself, where there is none."""
    known: dict[Any, int] = {}
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
        yield known.setdefault(key, place)


def _told(value: Any) -> str:
    """A parameter, told apart from any other: NumPy shortens long arrays in their own words."""
    if isinstance(value, (tuple, list)):
        return f"{type(value).__name__} {[_told(one) for one in value]}"
    if isinstance(value, np.ndarray) and value.dtype != object:
        return f"{value.dtype} {value.shape} {value.tobytes().hex()}"
    return repr(value)


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


__all__ = ["ALL", "METHODS", "RANDOM_STOPPING", "PrivateSearch", "Tried"]
