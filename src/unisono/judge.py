"""How good a model is, in one call and one private release.

    book = unisono.open_ledger("new-patients.ledger", dataset="new", epsilon=1.0, delta=1e-6)
    print(unisono.evaluate(model, X, y, epsilon=0.5, delta=1e-6, ledger=book))

The model is any object that predicts: one that `unisono.load` read, a fitted estimator of Unisono
or of scikit-learn. It is taken to be public; only the records are protected.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unisono.algorithms.estimates import Estimate, guaranteed_parts
from unisono.algorithms.evaluation import (
    ClassEvaluation,
    Evaluated,
    NumberEvaluation,
    TimeEvaluation,
    class_evaluation,
    evaluated_json,
    time_evaluation,
)
from unisono.algorithms.evaluation_text import evaluation_parts, evaluation_text, learnt_from
from unisono.algorithms.metrics import Metric
from unisono.algorithms.survey import STATISTICS
from unisono.core import notebook
from unisono.core.certificate import Certificate
from unisono.core.defaults import default_trust, warn_of_clipping
from unisono.core.ledger import Ledger
from unisono.core.privacy import Privacy
from unisono.core.study import Party, Study
from unisono.core.trust import Trust
from unisono.core.values import Private
from unisono.data import as_text, listed
from unisono.engines import in_process
from unisono.engines.payments import paid_training
from unisono.errors import InvalidInput
from unisono.estimators.members import (
    facts_of,
    given_ledgers,
    membership,
    public_sizes,
    shuffled,
)
from unisono.models.prediction import HazardRatio
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
) -> Evaluation:
    """Judge a public model by private records X (n, ...) and what is true of them, y (n,).

    Of classifiers (`classes`, or those that the model names): accuracy, AUC, Brier score, log loss,
    calibration, recall and precision. Of regressions (`bounds` of y): RMSE, R², bias, and the
    coverage of prediction intervals that the model has; an error counts as `largest_error` at most,
    by default a quarter of the bounds. Of survival models (`events` (n,), true where the event
    happened at the time y; `bounds` of y end at the horizon): concordance, of a model that
    `unisono.load` read, or of any whose `predict` is higher where the event is expected sooner,
    with public `cuts` of it, seven or so. `groups` (n,) with their public `labels` are judged apart
    and compared. Intervals count sampling, noise and bins.

    `parties` (n,) says whose each record is, where there are several, each with its `ledger`; under
    add-or-remove `records` is a public number of them for each party. Records that miss y, or that
    the model cannot predict, count nowhere. If a ledger has paid for training this model, its
    records may be those that it learnt from: then figures are too good, and labelled so.
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
    evaluation: ClassEvaluation | NumberEvaluation | TimeEvaluation
    if events is not None:
        evaluation = time_evaluation(sum(sizes), privacy, names, complete=False)
        rows = _judged_times(
            model, X, truth, listed(events), _range(bounds), cuts, evaluation, places
        )
    elif known is not None:
        evaluation = class_evaluation(
            known, sum(sizes), privacy, names, complete=False, scored=_scored(model)
        )
        rows = _judged_classes(model, X, truth, evaluation, places)
    else:
        low, high = _range(bounds)
        largest = (high - low) / 4 if largest_error is None else float(largest_error)
        if not 0 < largest < np.inf:
            raise InvalidInput(f"largest_error = {largest_error!r}: a number above zero")
        intervals = hasattr(model, "predict_interval") and _knows_spread(model)
        evaluation = NumberEvaluation((low, high), largest, intervals, groups=names, complete=False)
        rows = _judged_numbers(model, X, truth, evaluation, places)
    facts = facts_of(sizes, rows.shape[1], chosen, relation, minimum_parties, colluders)
    study = Study(STATISTICS.method(evaluation.survey, privacy), facts, chosen)
    order = members.rows
    if study.algorithm.by_company(facts):  # in sorted arrays a record that is replaced moves others
        order = tuple(shuffled(*own) for own in zip(order, ledgers, strict=True))
    parts = [
        Party(name, Private((rows[own],), name), book)
        for name, own, book in zip(members.names, order, ledgers, strict=True)
    ]
    result = in_process.run(study, parts, purpose="evaluation")
    found = evaluation.read(study, result, confidence)
    pairs = zip(members.names, ledgers, strict=True)
    learnt = tuple(str(name) for name, book in pairs if paid_training(book, *_trained_by(model)))
    return Evaluation(found, confidence, result.certificate, learnt)


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
    model: Any,
    X: Any,
    truth: Any,
    events: Any,
    bounds: tuple[float, float],
    cuts: Sequence[float] | None,
    evaluation: TimeEvaluation,
    places: np.ndarray | None,
) -> np.ndarray:
    if len(events) != len(truth):
        raise InvalidInput(f"{len(events)} events for {len(truth)} times: give each record one")
    score = np.asarray(model.predict(X), float)
    prediction = getattr(model, "prediction", None)
    if cuts is not None:
        limits = np.asarray(cuts, float)
    elif isinstance(prediction, HazardRatio):
        score, limits = np.log(score), prediction.cuts(evaluation.intervals)
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
    time = np.array([_number(one) for one in truth])
    time = np.where(time >= horizon, BEYOND, time / horizon)
    time = np.where(time >= 0, time, np.nan)
    happened = np.array([_number(one) for one in events])
    place = np.where(np.isfinite(score), np.searchsorted(limits, score), np.nan)
    return evaluation.columns(place, time, happened, places).astype(np.float32)


def _judged_classes(
    model: Any,
    X: Any,
    truth: Any,
    evaluation: ClassEvaluation,
    places: np.ndarray | None,
) -> np.ndarray:
    code = {name: place for place, name in enumerate(evaluation.classes)}
    own = np.array([code.get(as_text(one) or "", np.nan) for one in truth], float)
    if evaluation.half:
        order = [code[as_text(one) or ""] for one in model.classes_]
        chances = np.full((len(own), len(code)), 0.0)
        chances[:, order] = np.asarray(model.predict_proba(X), float)
    else:
        said = np.array([code.get(as_text(one) or "", -1) for one in listed(model.predict(X))])
        own = np.where(said >= 0, own, np.nan)
        chances = np.eye(len(code))[np.maximum(said, 0)]
    return evaluation.columns(chances, own, places).astype(np.float32)


def _judged_numbers(
    model: Any,
    X: Any,
    truth: Any,
    evaluation: NumberEvaluation,
    places: np.ndarray | None,
) -> np.ndarray:
    own = np.array([_number(one) for one in truth])
    warn_of_clipping(own, *evaluation.bounds, "values of y")
    interval = None
    if evaluation.intervals:
        low, high = np.asarray(model.predict_interval(X, new=True), float).T
        interval = low, high
    said = np.asarray(model.predict(X), float)
    return evaluation.columns(said, own, places, interval).astype(np.float32)


def _number(cell: Any) -> float:
    """What is no number counts nowhere, and stops nobody."""
    try:
        return float(cell)
    except (TypeError, ValueError):
        return float("nan")


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
) -> tuple[np.ndarray | None, tuple[str, ...]]:
    if groups is None:
        return None, ()
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
