"""A model judged by records that it did not learn from: one or two rounds, all metrics.

Each party computes what the public model says of its records, and what is made of it: codes of
cells and bounded losses, `columns`. Counts and sums of these are questions of one survey, priced as
any statistic, through whatever trust the study has; a model with scores has a second round, whose
price is known before the first (`score_influence`):

    two classes      counts by score, outcome        its calibration curve, ROC
                     then: sums of influences        AUC, calibration
                     counts by outcome, prediction   accuracy, recall, precision, confusion
                     sums of (p - y)²                Brier score
                     sums of -log p, clipped         log loss
    more classes     the same; scores are those of the class that is predicted, the outcome
                     whether it is right, and there is no AUC
    numbers          sums of squared errors, clipped RMSE, R²
                     sums of errors                  bias
                     counts within the interval      coverage of prediction intervals
    times            counts by score, time and event concordance

A record counts in one cell of each table, also where there are subgroups: in the first round they
cost no privacy but share the records, in the second they take half of it. Records that miss their
outcome count nowhere. How the budget is divided is fixed.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from unisono.algorithms import metrics, score_distributions, statistics
from unisono.algorithms.concordance import concordance_of
from unisono.algorithms.hypothesis_tests import wilson
from unisono.algorithms.metrics import Counts, Metric, Sums
from unisono.algorithms.noise_law import NoiseLaw
from unisono.algorithms.readings import Noisy, Sizes, read_blocks
from unisono.algorithms.score_influence import (
    OUTCOMES,
    SCORE_INFLUENCE,
    TREES,
    ScoreRounds,
    ScoreSurvey,
    opened,
    tree_question,
)
from unisono.algorithms.survey import STATISTICS, Question, Survey, unpack
from unisono.algorithms.survival_curves import Numbers
from unisono.algorithms.survival_table import bins_for, cells_of
from unisono.core.privacy import Privacy
from unisono.core.study import Result, Study
from unisono.errors import InvalidInput
from unisono.problems.columns import Groups
from unisono.problems.survival import BEYOND
from unisono.releases.algorithm import AlgorithmKind

# Chances below this count as this in the log loss, which is bounded by it.
LEAST_CHANCE = 0.01
WORST_LOSS = -math.log(LEAST_CHANCE)
# Parts of the first round: scores, right and wrong, losses.
_SCORES, _OUTCOMES, _LOSS = 0.7, 1.0, 1.0
EVERYBODY = "all"
# A larger share of scores at the clip is worth a warning.
MUCH_CLIPPED = 0.02
# A class of fewer standard deviations of its noisy number may as well be empty.
_LEAST_CLASS = 4.0
# Scores whose AUC may be so high may separate the outcomes: then no line is the best one.
_SEPARATE = 0.995
# Where one interval of a score holds a larger share of the records, what happens within it decides.
_CROWDED = 0.35
# A calibration curve has at most so many bins.
_BINS = 12
# And none of fewer records than so many deviations of those left of an edge.
_LEAST_BIN = 8.0


@dataclass(frozen=True)
class Judged:
    """Metrics of one set of records: all of them, or a subgroup; with what is drawn of them, and
    the share of scores that are too near to 0 or 1 for their log-odds to be told."""

    group: str
    records: float
    metrics: tuple[Metric, ...]
    confusion: tuple[tuple[float, ...], ...] = ()
    curve: tuple[dict[str, float], ...] = ()
    roc: tuple[tuple[float, float], ...] = ()
    clipped: float = 0.0

    def metric(self, name: str) -> Metric:
        """One of them."""
        return next(one for one in self.metrics if one.name == name)


@dataclass(frozen=True)
class Evaluated:
    """What one release says of a model: of everybody, of subgroups, and how far these differ from
    each other."""

    overall: Judged
    groups: tuple[Judged, ...] = ()
    gaps: tuple[Metric, ...] = ()


@dataclass(frozen=True)
class _Evaluation:
    """What evaluations share: subgroups, and whether all records have an outcome and a group."""

    groups: tuple[str, ...] = field(default=(), kw_only=True)
    complete: bool = field(default=True, kw_only=True)
    width = 5  # columns of a record

    @property
    def kind(self) -> AlgorithmKind:
        """The algorithm that releases it."""
        return STATISTICS

    @property
    def parts(self) -> int:
        return max(1, len(self.groups))

    def _grouped(self, group: np.ndarray | None, size: int) -> np.ndarray:
        """The place of each record's group (n,), NaN where it is none of them."""
        if not self.groups:
            return np.zeros(size)
        if group is None:
            raise InvalidInput(f"records without their groups: name that of {self.groups}")
        found = np.asarray(group, float)
        return np.where((found >= 0) & (found < len(self.groups)), found, np.nan)

    def _mean(self, place: int, bounds: tuple[float, float], name: str, last: int) -> Question:
        by = Groups(last, self.groups) if self.groups else None
        question = statistics.mean(place, bounds, name=name, by=by)
        return question if self.complete or by else question.counting(Sizes())

    def _sums(self, noisy: Noisy, part: int, bounds: tuple[float, float]) -> Sums:
        """One group's, or everybody's."""
        low, high = bounds
        exact = noisy.values.shape[1] == 2
        row = noisy.values[part]
        size, first, second = (noisy.records, *row) if exact else row
        centre, half = (low + high) / 2, (high - low) / 2
        return Sums(float(size), float(first), float(second), noisy.law.std, exact, centre, half)

    def _public(self, noisy: Noisy, parts: Sequence[int]) -> float | None:
        """How many records these groups have, where that is known: all together."""
        known = self.complete and noisy.exact_sizes and len(parts) == self.parts
        return float(noisy.records) if known else None


def _together(sums: Sequence[Sums]) -> Sums:
    """Those of several groups."""
    first = sums[0]
    if len(sums) == 1:
        return first
    size, one, two = (sum(getattr(own, name) for own in sums) for name in Sums._fields[:3])
    return first._replace(
        size=size, first=one, second=two, noise=first.noise * math.sqrt(len(sums))
    )


# ------------------------------------------------------------------- classes


@dataclass(frozen=True)
class ClassEvaluation(_Evaluation):
    """Of a model that gives chances to `classes`, or, where it is not `scored`, only says which
    class it is."""

    classes: tuple[str, ...]
    scored: bool = True
    width = 7

    @property
    def binary(self) -> bool:
        return len(self.classes) == 2

    @property
    def kind(self) -> AlgorithmKind:
        return SCORE_INFLUENCE if self.scored else STATISTICS

    @property
    @lru_cache(maxsize=16)  # noqa: B019  (equal evaluations share the program that was compiled)
    def survey(self) -> Survey:
        pairs = self.parts * len(self.classes) ** 2
        outcomes = statistics.histogram(2, tuple(range(pairs)), name="outcomes")
        if not self.scored:
            return Survey([outcomes])
        asked = [
            outcomes.weighing(_OUTCOMES),
            tree_question(self.parts).weighing(_SCORES),
            self._mean(3, (0.0, self._brier), "Brier score", 5).weighing(_LOSS),
            self._mean(4, (0.0, WORST_LOSS), "log loss", 5).weighing(_LOSS),
        ]
        return ScoreSurvey(asked, self.parts, len(self.classes))

    @property
    def _brier(self) -> float:
        return 1.0 if self.binary else 2.0

    def columns(
        self, chances: np.ndarray, truth: np.ndarray, group: np.ndarray | None = None
    ) -> np.ndarray:
        """(n, 7) of chances (n, classes) and the place of each record's class (n,), NaN where they
        are missing, and that of its group (see `score_influence`)."""
        truth, classes = np.asarray(truth, float), len(self.classes)
        chances = np.asarray(chances, float)
        groups = self._grouped(group, len(truth))
        known = (truth >= 0) & (truth < classes) & np.isfinite(groups)
        known = known & np.isfinite(chances).all(axis=1)
        chances = np.clip(np.where(known[:, None], chances, 0.0), 0.0, 1.0)
        own = np.where(known, truth, 0).astype(int)
        place = np.where(known, groups, 0).astype(int)
        predicted = chances.argmax(axis=1)
        rows = np.arange(len(own))
        if self.binary:
            score, outcome = chances[:, 1], own
        else:
            score, outcome = chances[rows, predicted], (predicted == own).astype(int)
        with np.errstate(divide="ignore"):
            log_odds = np.log(score) - np.log1p(-score)
        log_odds = np.clip(log_odds, -score_distributions.LIMIT, score_distributions.LIMIT)
        hit = np.zeros_like(chances)
        hit[rows, own] = 1.0
        squares = ((chances - hit) ** 2).sum(axis=1) / (2.0 if self.binary else 1.0)
        losses = -np.log(np.clip(chances[rows, own], LEAST_CHANCE, 1.0))
        found = np.column_stack(
            [
                score_distributions.leaf_of(log_odds),
                place * 2 + outcome,
                (place * classes + own) * classes + predicted,
                squares,
                losses,
                place,
                log_odds,
            ]
        )
        return np.where(known[:, None], found, np.nan)

    def read(self, study: Study, result: Result, confidence: float = 0.95) -> Evaluated:
        """The metrics of a finished release."""
        rounds = opened(study, result.value) if self.scored else None
        blocks = released_blocks(self.survey, study, result) if rounds is None else rounds.blocks
        classes = len(self.classes)

        def judged(name: str, parts: Sequence[int], place: int) -> Judged:
            block = blocks[OUTCOMES]
            table = block.values.reshape(self.parts, classes, classes)[list(parts)].sum(axis=0)
            noise = block.law.std * math.sqrt(len(parts))
            outcomes = Counts(table, noise, self._public(block, parts))
            confusion = tuple(tuple(map(float, row)) for row in outcomes.moved)
            known = self._known(outcomes, confidence)
            if rounds is None:
                return Judged(name, outcomes.size, known, confusion)
            losses = [
                metrics.mean_loss(
                    label,
                    _together([self._sums(block, part, (0.0, worst)) for part in parts]),
                    confidence,
                )
                for label, block, worst in (
                    ("Brier score", blocks[2], self._brier),
                    ("log loss", blocks[3], WORST_LOSS),
                )
            ]
            ranked, calibrated, left = self._scores(rounds, parts, place, confidence)
            law = blocks[TREES].law.scaled(math.sqrt(len(parts)))
            drawn = _calibration_curve(left, law, confidence)
            roc = _roc(left) if self.binary else ()
            found = (*known[:1], *ranked, *losses, *calibrated, *known[1:])
            clipped = float(np.diff(left)[:, [0, -1]].sum() / left[:, -1].sum())
            return Judged(name, outcomes.size, found, confusion, drawn, roc, clipped)

        every = judged(EVERYBODY, range(self.parts), 0)
        groups = [judged(label, [part], 1 + part) for part, label in enumerate(self.groups)]
        return Evaluated(every, tuple(groups), _gaps(groups, confidence))

    def _scores(
        self, rounds: ScoreRounds, parts: Sequence[int], place: int, confidence: float
    ) -> tuple[list[Metric], list[Metric], np.ndarray]:
        """The AUC, if there is one, slope and intercept; and the records left of every edge."""
        problem = self.survey
        assert isinstance(problem, ScoreSurvey)
        place = 0 if problem.parts == 1 else place
        left = rounds.left(problem, parts)
        sums = None if rounds.sums is None else rounds.sums[place]
        noise = float(rounds.first.noises[TREES]) * math.sqrt(len(parts))
        errors = problem.size_errors(float(rounds.first.noises[OUTCOMES])) * math.sqrt(len(parts))
        known = bool((left[:, -1] >= _LEAST_CLASS * errors).all())
        if sums is None or not known:
            ranked = [metrics.undetermined("AUC", (0.0, 1.0))] if self.binary else []
            return ranked, metrics.no_calibration(), left
        drawn = score_distributions.again(left, noise, errors)
        ranked = [metrics.auc(left, drawn, sums, confidence)] if self.binary else []
        if ranked and ranked[0].high > _SEPARATE:
            return ranked, metrics.no_calibration(), left
        return ranked, metrics.calibration(left, drawn, noise, sums, confidence), left

    def _known(self, outcomes: Counts, confidence: float) -> tuple[Metric, ...]:
        """What the confusion matrix says."""
        found = [metrics.accuracy(outcomes, confidence)]
        for place, label in enumerate(self.classes):
            found.append(metrics.recall(outcomes, place, confidence, f"recall of {label}"))
            found.append(metrics.precision(outcomes, place, confidence, f"precision of {label}"))
        return tuple(found)


def released_blocks(survey: Survey, study: Study, result: Result) -> list[Noisy]:
    """What a survey released, question by question; of two rounds what the first did."""
    if study.method.kind is SCORE_INFLUENCE:
        return opened(study, result.value).blocks
    told = unpack(np.asarray(result.value))
    table = survey.table(study.facts)
    return read_blocks(table, study, told.total, told.survivors, told.records)


def _calibration_curve(
    left: np.ndarray, law: NoiseLaw, confidence: float
) -> tuple[dict[str, float], ...]:
    """In bins of about as many records each, which end at leaves: the mean score, and the share
    with the outcome. Bins hold much more than noise."""
    whole = left.sum(axis=0)
    least = max(whole[-1] / _BINS, _LEAST_BIN * law.std * score_distributions.PREFIX)
    number = int(whole[-1] / least)
    if number < 1:
        return ()
    inner = np.unique(np.searchsorted(whole, whole[-1] * np.arange(1, number) / number))
    ends = np.concatenate([[0], inner[(inner > 0) & (inner < len(whole) - 1)], [len(whole) - 1]])
    with_, sizes = np.diff(left[1, ends]), np.diff(whole[ends])
    error = law.std * score_distributions.between_errors(ends)
    shown = sizes >= metrics.LEAST_SIZE * error * math.sqrt(2.0)
    chances = score_distributions.mean_chances(np.diff(whole), ends)[shown]
    with_, sizes = with_[shown], sizes[shown]
    ranges = [
        wilson(one, size, law.scaled(own / law.std), 1 - confidence)
        for one, size, own in zip(with_[:, None], sizes[:, None], error[shown], strict=True)
    ]
    low, high = np.array(ranges).reshape(-1, 2).T
    rate = np.clip(with_ / sizes, 0.0, 1.0)
    drawn = {
        "score": chances,
        "share": rate,
        "low": np.minimum(low, rate),
        "high": np.maximum(high, rate),
        "records": sizes,
    }
    columns = zip(*(own.tolist() for own in drawn.values()), strict=True)
    return tuple(dict(zip(drawn, row, strict=True)) for row in columns)


def _roc(left: np.ndarray) -> tuple[tuple[float, float], ...]:
    """False and true positive rates at the edges of leaves, from the strictest to none."""
    above = np.round(1 - score_distributions.shares(left)[:, ::-1], 3).T
    kept = np.append(True, (np.diff(above, axis=0) != 0).any(axis=1))
    return tuple((float(zero), float(one)) for zero, one in above[kept])


def _gaps(groups: Sequence[Judged], confidence: float) -> tuple[Metric, ...]:
    """Each group less the first, metric by metric."""
    if len(groups) < 2:
        return ()
    first, *others = groups
    return tuple(
        metrics.difference(f"{mine.name}, {other.group} less {first.group}", mine, base, confidence)
        for other in others
        for mine, base in zip(other.metrics, first.metrics, strict=True)
    )


# ------------------------------------------------------------------- numbers


@dataclass(frozen=True)
class NumberEvaluation(_Evaluation):
    """Of a model that predicts a number in public `bounds`; an error of more than `largest` counts
    as that. `intervals`: the model has prediction intervals, which hold so often by its own words.
    """

    bounds: tuple[float, float]
    largest: float
    intervals: bool = False

    @cached_property
    def survey(self) -> Survey:
        asked = [
            self._mean(0, self.bounds, "target", 4),
            self._mean(1, (0.0, self.largest**2), "squared error", 4),
            self._mean(2, (-self.largest, self.largest), "error", 4),
        ]
        if self.intervals:
            cells = tuple(range(2 * self.parts))
            asked.append(statistics.histogram(3, cells, name="inside"))
        return Survey(asked)

    def columns(
        self,
        predicted: np.ndarray,
        truth: np.ndarray,
        group: np.ndarray | None = None,
        interval: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> np.ndarray:
        """(n, 5) of predictions and true values (n,), NaN where they are missing, the place of each
        record's group, and the ends of prediction intervals."""
        truth = np.asarray(truth, float)
        groups = self._grouped(group, len(truth))
        error = np.asarray(predicted, float) - np.clip(truth, *self.bounds)
        known = np.isfinite(error) & np.isfinite(groups)
        error = np.clip(error, -self.largest, self.largest)
        inside = np.zeros(len(truth))
        if interval is not None:
            inside = ((interval[0] <= truth) & (truth <= interval[1])).astype(float)
        place = np.where(known, groups, 0)
        found = np.column_stack([truth, error**2, error, 2 * place + inside, place])
        return np.where(known[:, None], found, np.nan)

    def read(self, study: Study, result: Result, confidence: float = 0.95) -> Evaluated:
        """The metrics of a finished release."""
        blocks = released_blocks(self.survey, study, result)
        bounds = (self.bounds, (0.0, self.largest**2), (-self.largest, self.largest))
        sums = [
            [self._sums(block, part, ends) for part in range(self.parts)]
            for block, ends in zip(blocks[:3], bounds, strict=True)
        ]

        def judged(name: str, parts: Sequence[int]) -> Judged:
            target, squares, errors = (_together([own[p] for p in parts]) for own in sums)
            found = [
                metrics.rmse(squares, confidence),
                metrics.r_squared(squares, target, confidence),
                metrics.mean_loss("bias", errors, confidence),
            ]
            if self.intervals:
                table = blocks[3].values.reshape(self.parts, 2)[list(parts)].sum(axis=0)
                noise = blocks[3].law.std * math.sqrt(len(parts))
                counts = Counts(table, noise, self._public(blocks[3], parts))
                found.append(metrics.share("coverage", counts, np.array([0.0, 1.0]), confidence))
            return Judged(name, target.size, tuple(found))

        every = judged(EVERYBODY, range(self.parts))
        groups = [judged(label, [part]) for part, label in enumerate(self.groups)]
        return Evaluated(every, tuple(groups), _gaps(groups, confidence))


# ------------------------------------------------------------------- times until an event


@dataclass(frozen=True)
class TimeEvaluation(_Evaluation):
    """Of a model that gives records a score which is higher where an event is expected sooner; it
    is cut into public `intervals`, and time up to the horizon into `bins` (`concordance`)."""

    bins: int
    intervals: int = 8

    @property
    def cells(self) -> int:
        """Of one group."""
        return self.intervals * (2 * self.bins + 1)

    @cached_property
    def survey(self) -> Survey:
        cells = tuple(range(self.parts * self.cells))
        return Survey([statistics.histogram(0, cells, name="times")])

    def columns(
        self,
        interval: np.ndarray,
        time: np.ndarray,
        event: np.ndarray,
        group: np.ndarray | None = None,
    ) -> np.ndarray:
        """(n, 5), of which the first is the cell: of places of scores, low ones first, times as
        shares of the horizon and events (n,), NaN where they are missing, and of groups."""
        groups = self._grouped(group, len(time))
        known = np.isfinite(interval) & np.isfinite(time) & np.isfinite(event) & np.isfinite(groups)
        place, score = (np.where(known, own, 0.0) for own in (groups, interval))
        cuts = np.arange(self.bins + 1) / self.bins
        own, _ = cells_of(np.clip(np.where(known, time, 0.0), 0.0, BEYOND), event, cuts, np)
        cell = place * self.cells + score * (2 * self.bins + 1) + own
        found = np.zeros((len(time), 5))
        found[:, 0] = np.where(known, cell, np.nan)
        return found

    def read(self, study: Study, result: Result, confidence: float = 0.95) -> Evaluated:
        """The concordance in a finished release: of everybody, of pairs within each group."""
        [block] = released_blocks(self.survey, study, result)
        table = block.values.reshape(self.parts, self.intervals, -1)
        laplace = bool(study.method.privacy.pure)

        def judged(name: str, parts: Sequence[int]) -> Judged:
            cells = table[list(parts)].sum(axis=0)
            noise = block.law.std * math.sqrt(len(parts))
            known = self._public(block, parts)
            numbers = Numbers(noise, known, 0.0, laplace)
            found = concordance_of(cells, numbers, confidence)
            size = float(cells.sum()) if known is None else known
            crowded = float(cells.sum(axis=1).max()) > _CROWDED * size
            if crowded or found.std_error is None or found.value is None:
                metric = metrics.undetermined("concordance", (0.0, 1.0))
            else:
                error = found.std_error
                assert found.low is not None
                assert found.high is not None
                assert found.privacy_share is not None
                alone = (1 - found.privacy_share) * error
                metric = Metric("concordance", found.value, error, alone, found.low, found.high)
            return Judged(name, size, (metric,))

        every = judged(EVERYBODY, range(self.parts))
        groups = [judged(label, [part]) for part, label in enumerate(self.groups)]
        return Evaluated(every, tuple(groups), _gaps(groups, confidence))


def time_evaluation(
    records: int, privacy: Privacy, groups: Sequence[str] = (), complete: bool = True
) -> TimeEvaluation:
    """With as many intervals of time as public facts allow."""
    parts, intervals = max(1, len(groups)), TimeEvaluation.intervals
    bins = bins_for(records, parts * intervals, privacy)
    return TimeEvaluation(bins, groups=tuple(groups), complete=complete)


def evaluated_json(found: Evaluated) -> dict[str, Any]:
    """As plain JSON."""

    def metric(one: Metric) -> dict[str, Any]:
        shown = {"name": one.name, "determined": one.determined}
        if not one.determined:
            return shown
        return shown | {
            "value": one.value,
            "low": one.low,
            "high": one.high,
            "std_error": one.std_error,
            "privacy_share": one.privacy_share,
        }

    def judged(one: Judged) -> dict[str, Any]:
        drawn = {"confusion": one.confusion, "calibration": one.curve, "roc": one.roc}
        return {
            "group": one.group,
            "records": one.records,
            "metrics": [metric(own) for own in one.metrics],
            **{name: json.loads(json.dumps(own)) for name, own in drawn.items() if own},
            **({"clipped": one.clipped} if one.clipped > MUCH_CLIPPED else {}),
        }

    return {
        **judged(found.overall),
        "groups": [judged(one) for one in found.groups],
        "gaps": [metric(one) for one in found.gaps],
    }


__all__ = [
    "ClassEvaluation",
    "Evaluated",
    "Judged",
    "NumberEvaluation",
    "TimeEvaluation",
    "evaluated_json",
    "released_blocks",
    "time_evaluation",
]
