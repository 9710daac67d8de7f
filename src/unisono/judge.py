"""How good a model is, in one call and one private release.

    book = unisono.open_ledger("new-patients.ledger", dataset="new", epsilon=1.0, delta=1e-6)
    print(unisono.evaluate(model, X, y, epsilon=0.5, delta=1e-6, ledger=book))

The model is any object that predicts: one that `unisono.load` read, a fitted estimator of Unisono
or of scikit-learn. It is taken to be public; only the records are protected.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unisono.algorithms.estimates import Estimate, guaranteed_parts
from unisono.algorithms.evaluation import (
    ClassEvaluation,
    Evaluated,
    NumberEvaluation,
    TimeEvaluation,
    evaluated_json,
    time_evaluation,
)
from unisono.algorithms.evaluation_text import evaluation_parts, evaluation_text, learnt_from
from unisono.algorithms.metrics import Metric
from unisono.core import notebook
from unisono.core.algorithm import Facts
from unisono.core.certificate import ROWWISE, Certificate
from unisono.core.defaults import default_trust, warn_of_clipping
from unisono.core.ledger import Ledger
from unisono.core.privacy import Privacy
from unisono.core.study import Party
from unisono.core.trust import Trust
from unisono.core.values import Private
from unisono.data import as_text, listed, numbers
from unisono.data.blocks import in_blocks
from unisono.engines.layout import spread
from unisono.engines.payments import paid_training
from unisono.errors import InvalidInput
from unisono.estimators.configuration import in_rounds
from unisono.estimators.members import (
    facts_of,
    given_ledgers,
    membership,
    public_sizes,
    shuffled,
)
from unisono.estimators.private_predictions import (
    require_fitted,
    require_fitting,
    unisono_model,
    unisono_table,
    user_predictions,
)
from unisono.models.evaluation import Judging
from unisono.models.prediction import HazardRatio, Prediction
from unisono.problems.survival import BEYOND


@dataclass(frozen=True)
class Evaluation:
    """A finished evaluation: `evaluation["AUC"]` is a metric with `value`, `low` and `high`; it
    prints as a table, and in notebooks too."""

    figures: Evaluated
    confidence: float
    certificate: Certificate
    # Whose ledgers have paid for the training of this model, as far as they can tell.
    learnt_from: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Metric:
        known = {one.name: one for one in self.figures.overall.metrics}
        if name not in known:
            raise KeyError(f"{name!r} was not measured: there are {', '.join(known)}")
        return known[name]

    def to_json(self) -> dict[str, Any]:
        """All of it, fit for plotting: subgroups, gaps, ROC, calibration and confusion."""
        label = {"learnt_from": list(self.learnt_from)} if self.learnt_from else {}
        return evaluated_json(self.figures) | label

    @property
    def text(self) -> str:
        table = evaluation_text(self.to_json(), self.confidence)
        return "\n".join(filter(None, [table, learnt_from(self.to_json())]))

    @property
    def epsilon(self) -> float:
        """What the release cost, against the viewer who sees most."""
        return self._released.epsilon

    @property
    def _released(self) -> Estimate:
        """The release as an estimate of no number: what it cost is said as everywhere else."""
        return Estimate("evaluation", 0.0, (0.0, 0.0), self.confidence, "", self.certificate)

    def _repr_html_(self) -> str:
        """As notebooks show it."""
        return notebook.shown(
            "Evaluation",
            *evaluation_parts(self.to_json(), self.confidence),
            *guaranteed_parts(self.certificate),
            simulated=self.certificate.simulated,
        )

    def __str__(self) -> str:
        guarantee = str(self._released).removeprefix(self._released.text).lstrip("\n")
        return f"{self.text}\n{guarantee}"


def evaluate(
    model: Any,
    X: Any,
    y: Any,
    *,
    epsilon: float,
    ledger: Ledger | Mapping[Any, Ledger],
    delta: float = 0.0,
    classes: Sequence[Any] | None = None,
    bounds: tuple[float, float] | None = None,
    largest_error: float | None = None,
    groups: Any = None,
    labels: Sequence[Any] | None = None,
    events: Any = None,
    cuts: Sequence[float] | None = None,
    parties: Any = None,
    trust: str | Trust | None = None,
    records: Any = None,
    minimum_parties: int | None = None,
    colluders: int | None = None,
    confidence: float = 0.95,
    rowwise: bool = False,
) -> Evaluation:
    """Judge a public model by private records X (n, ...) and what is true of them, y (n,).

    Of classifiers (`classes`, or those that the model names): accuracy, AUC, Brier score, log loss,
    calibration, recall and precision. Of regressions (`bounds` of y): RMSE, R², bias, and the
    coverage of prediction intervals that the model has; an error counts as `largest_error` at most,
    by default a quarter of the bounds. Of survival models (`events` (n,), true where the event
    happened at the time y; `bounds` of y end at the horizon): concordance, of a model that
    `unisono.load` read, or of any whose `predict` is higher where the event is expected sooner,
    with public `cuts` of it, seven or so. `groups` (n,) with their public `labels` are judged apart
    and compared. Intervals count sampling and noise.

    `parties` (n,) says whose each record is, where there are several, each with its `ledger`; under
    add-or-remove `records` is a public number of them for each party. Records that miss y, or that
    the model cannot predict, are ignored: nothing is refused because of a record's values. A model
    that is not of Unisono gets one record at a time, whole numbers as floats. `rowwise=True` is the
    data owner's statement that it predicts each row by itself, whatever other rows there are: it
    gets blocks of 64 then, and the certificate repeats the statement. If a ledger has paid for
    training this model, its records may be those that it learnt from: then figures are too good,
    and labelled so.
    """
    truth = listed(y)
    members = membership(parties, len(truth))
    ledgers = given_ledgers(ledger, members, None)
    relation = ledgers[0].policy.relation
    privacy = Privacy(epsilon, delta, relation)
    chosen = default_trust(len(members.names)) if trust is None else Trust(trust)
    sizes = public_sizes(records, members, relation)
    places, names = _groups(groups, labels, len(truth))
    known = _classes(model, classes) if bounds is None and events is None else None
    predictor = _Predictor(model, X, len(truth), rowwise)
    made: tuple[Judging, Callable[[np.ndarray], np.ndarray]]
    if events is not None:
        timed = time_evaluation(sum(sizes), privacy, names, complete=False)
        made = (
            timed,
            _judged_times(predictor, truth, listed(events), _range(bounds), cuts, timed, places),
        )
    elif known is not None:
        classed = ClassEvaluation(known, _scored(model), groups=names, complete=False)
        made = classed, _judged_classes(predictor, truth, classed, places)
    else:
        low, high = _range(bounds)
        largest = (high - low) / 4 if largest_error is None else float(largest_error)
        if not 0 < largest < np.inf:
            raise InvalidInput(f"largest_error = {largest_error!r}: a number above zero")
        intervals = hasattr(model, "predict_interval") and _knows_spread(model)
        number = NumberEvaluation((low, high), largest, intervals, groups=names, complete=False)
        made = number, _judged_numbers(predictor, truth, number, places)
    evaluation, rows = made
    facts = facts_of(sizes, evaluation.width, chosen, relation, minimum_parties, colluders)
    method = evaluation.kind.method(evaluation.survey, privacy)
    plan = in_rounds(method, facts, chosen, purpose="evaluation")
    Ledger.check_all(ledgers, plan.cost)  # a model of one's own may take long
    parts = [
        Party(name, Private((rows(_seats(own, book, facts)),), name), book)
        for name, own, book in zip(members.names, members.rows, ledgers, strict=True)
    ]
    result = plan.run(parts)
    found = evaluation.read(plan.study, result, confidence)
    pairs = zip(members.names, ledgers, strict=True)
    learnt = tuple(str(name) for name, book in pairs if paid_training(book, *_trained_by(model)))
    return Evaluation(found, confidence, predictor.stated(result.certificate), learnt)


def _seats(own: np.ndarray, ledger: Ledger, facts: Facts) -> np.ndarray:
    """A party's records in a random order that is not disclosed, before anything is computed; -1
    for seats that are empty. Where sizes are hidden each record has a random seat, which it keeps
    whoever else is there (`engines.layout`)."""
    order = shuffled(own, ledger)
    if facts.exact_sizes:
        return order
    return spread(order, shuffled(np.arange(facts.places), ledger), facts.places)


class _Predictor:
    """A model and the records that it is to predict (`estimators.private_predictions`)."""

    def __init__(self, model: Any, X: Any, records: int, rowwise: bool) -> None:
        self.model, self.X, self.rowwise = model, X, rowwise
        require_fitted(model)
        self.own = unisono_model(model)
        if self.own is not None:
            self.X = unisono_table(model, self.own, X)
        require_fitting(model, self.X, records)

    def stated(self, certificate: Certificate) -> Certificate:
        """With what the data owner states about the model."""
        if self.own is not None or not self.rowwise:
            return certificate
        return replace(
            certificate,
            declarations={**certificate.declarations, ROWWISE: "stated by the data owner"},
        )

    def chances(self, seats: np.ndarray) -> np.ndarray:
        """(n, classes) in the order of `classes_`; NaN where there is no answer."""
        if self.own is not None:
            return self._computed(lambda said, *row: said.probabilities(*row), seats)
        return self._numbers("predict_proba", seats, len(self.model.classes_))

    def labels(self, seats: np.ndarray) -> list[Any]:
        if self.own is None:
            return user_predictions(self.model.predict, self.X, seats, self.rowwise)
        places = self._computed(lambda said, *row: said.predict(*row), seats)
        names = self.own.classes_
        return [names[int(place)] if place >= 0 else None for place in places]

    def values(self, seats: np.ndarray, intervals: bool = False) -> np.ndarray:
        """Numbers (n, 1), or (n, 3) with the ends of their intervals."""

        def computed(said: Prediction, rows: np.ndarray, offset: np.ndarray | None) -> np.ndarray:
            ends = [said.interval(rows, 0.95, offset, new=True)] if intervals else []
            return np.column_stack([said.predict(rows, offset), *ends])

        if self.own is not None:
            return self._computed(computed, seats)
        return self._numbers("predict", seats, 1)

    def log_ratios(self, seats: np.ndarray) -> np.ndarray:
        return self._computed(lambda said, rows, _: said.log_ratio(rows)[:, None], seats)

    def _computed(self, compute: Any, seats: np.ndarray) -> np.ndarray:
        assert self.own is not None
        return self.own.each(compute, self.X, seats[seats >= 0])

    def _numbers(self, name: str, seats: np.ndarray, width: int) -> np.ndarray:
        said = user_predictions(getattr(self.model, name), self.X, seats, self.rowwise)
        return np.array([_finite(one, width) for one in said]).reshape(-1, width)


def _finite(said: Any, width: int) -> np.ndarray:
    """So many numbers, or NaN where a model says something else."""
    try:
        own = np.asarray(said, float).reshape(-1)
    except (TypeError, ValueError, OverflowError):
        own = np.zeros(0)
    return own if own.shape == (width,) and np.isfinite(own).all() else np.full(width, np.nan)


def _trained_by(model: Any) -> tuple[str, str]:
    """The hashes of the study file and of the study that a model says it was learnt by."""
    said = getattr(model, "result", None)
    file = said.get("file", "") if isinstance(said, Mapping) else ""
    stated = getattr(model, "certificate_", None)
    if stated is not None:
        return str(file), str(getattr(stated, "study", ""))
    kept = getattr(model, "certificate", None)
    return str(file), str(kept.get("study", "")) if isinstance(kept, Mapping) else ""


def _judged_times(
    predictor: _Predictor,
    truth: Any,
    events: Any,
    bounds: tuple[float, float],
    cuts: Sequence[float] | None,
    evaluation: TimeEvaluation,
    places: np.ndarray,
) -> Callable[[np.ndarray], np.ndarray]:
    if len(events) != len(truth):
        raise InvalidInput(f"{len(events)} events for {len(truth)} times: give each record one")
    scores: Callable[[np.ndarray], np.ndarray] = predictor.values
    prediction = getattr(predictor.model, "prediction", None)
    if cuts is not None:
        limits = np.asarray(cuts, float)
    elif predictor.own is not None and isinstance(prediction, HazardRatio):
        scores, limits = predictor.log_ratios, prediction.cuts(evaluation.intervals)
    else:
        raise InvalidInput(
            "the model does not say how its scores spread: give cuts=[...] of them, from public "
            "knowledge; they are not read from the records"
        )
    if limits.shape != (evaluation.intervals - 1,) or not (np.diff(limits) > 0).all():
        raise InvalidInput(
            f"cuts = {limits.tolist()}: {evaluation.intervals - 1} numbers are needed, rising from "
            "one to the next"
        )
    low, horizon = bounds
    if low < 0:
        raise InvalidInput(f"bounds = {bounds!r}: times are not negative; let them begin at 0")
    times, happened = numbers(truth), numbers(events)

    def columns(score: np.ndarray, time: np.ndarray, *more: np.ndarray) -> tuple[np.ndarray]:
        time = np.where(time >= horizon, BEYOND, time / horizon)
        time = np.where(time >= 0, time, np.nan)
        place = np.where(np.isfinite(score), np.searchsorted(limits, score), np.nan)
        return (evaluation.columns(place, time, *more).astype(np.float32),)

    def rows(seats: np.ndarray) -> np.ndarray:
        order = seats[seats >= 0]
        own = (times[order], happened[order], places[order])
        return in_blocks(columns, scores(seats)[:, 0], *own)[0]

    return rows


def _judged_classes(
    predictor: _Predictor, truth: Any, evaluation: ClassEvaluation, places: np.ndarray
) -> Callable[[np.ndarray], np.ndarray]:
    code = {name: place for place, name in enumerate(evaluation.classes)}
    own = np.array([code.get(as_text(one) or "", np.nan) for one in truth], float)

    def columns(chances: np.ndarray, *more: np.ndarray) -> tuple[np.ndarray]:
        return (evaluation.columns(chances, *more).astype(np.float32),)

    def rows(seats: np.ndarray) -> np.ndarray:
        order = seats[seats >= 0]
        if evaluation.scored:
            chances = np.zeros((len(order), len(code)))
            chances[:, [code[as_text(one) or ""] for one in predictor.model.classes_]] = (
                predictor.chances(seats)
            )
        else:
            said = [code.get(_label(one), -1) for one in predictor.labels(seats)]
            chances = np.array([*np.eye(len(code)), np.full(len(code), np.nan)])[said]
        return in_blocks(columns, chances, own[order], places[order])[0]

    return rows


def _label(said: Any) -> str:
    """A predicted class as it is listed."""
    one = said.item() if isinstance(said, np.ndarray) and said.size == 1 else said
    return as_text(one) or ""


def _judged_numbers(
    predictor: _Predictor, truth: Any, evaluation: NumberEvaluation, places: np.ndarray
) -> Callable[[np.ndarray], np.ndarray]:
    own = numbers(truth)
    warn_of_clipping(own, *evaluation.bounds, "values of y")

    def columns(said: np.ndarray, true: np.ndarray, group: np.ndarray) -> tuple[np.ndarray]:
        interval = (said[:, 1], said[:, 2]) if evaluation.intervals else None
        return (evaluation.columns(said[:, 0], true, group, interval).astype(np.float32),)

    def rows(seats: np.ndarray) -> np.ndarray:
        order = seats[seats >= 0]
        said = predictor.values(seats, evaluation.intervals)
        return in_blocks(columns, said, own[order], places[order])[0]

    return rows


def _classes(model: Any, given: Sequence[Any] | None) -> tuple[str, ...] | None:
    """The public values of y; None where the model predicts a number."""
    known = getattr(model, "classes_", None) if given is None else given
    if known is None:
        raise InvalidInput(
            "the model names no classes: give classes=[...] that y may have, or bounds=(low, high) "
            "of y where it is a number; both are public, and not read from the records"
        )
    found = tuple(as_text(one) or "" for one in known)
    missing = [one for one in getattr(model, "classes_", ()) if (as_text(one) or "") not in found]
    if missing:
        raise InvalidInput(
            f"the model predicts {str(missing[0])!r}, which is none of {', '.join(found)}"
        )
    if len(set(found)) < 2:
        raise InvalidInput(f"classes = {list(found)!r}: at least two different ones are needed")
    return found


def _scored(model: Any) -> bool:
    """Whether it has probabilities. A model of `load` says so when it is asked."""
    if not hasattr(model, "predict_proba"):
        return False
    prediction = getattr(model, "prediction", None)
    return getattr(prediction, "link", "") != "sign"


def _knows_spread(model: Any) -> bool:
    said = getattr(model, "prediction", None)
    return getattr(said, "spread", None) is not None and not getattr(said, "silence", "unknown")


def _groups(
    groups: Any, labels: Sequence[Any] | None, size: int
) -> tuple[np.ndarray, tuple[str, ...]]:
    if groups is None:
        return np.zeros(size), ()
    if labels is None:
        raise InvalidInput("groups need their public labels=[...]: they are not read from the data")
    names = tuple(as_text(one) or "" for one in labels)
    own = listed(groups)
    if len(own) != size:
        raise InvalidInput(f"{len(own)} groups for {size} records: give each record one")
    code = {name: place for place, name in enumerate(names)}
    return np.array([code.get(as_text(one) or "", np.nan) for one in own], float), names


def _range(bounds: Any) -> tuple[float, float]:
    try:
        low, high = map(float, bounds)
    except (TypeError, ValueError):
        raise InvalidInput(f"bounds = {bounds!r}: give (low, high) of y") from None
    if not -np.inf < low < high < np.inf:
        raise InvalidInput(f"bounds = {bounds!r}: the first must be below the second, both finite")
    return low, high


__all__ = ["Evaluation", "evaluate"]
