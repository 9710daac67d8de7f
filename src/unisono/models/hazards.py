"""Hazard ratios: a regression of times until an event, with a baseline hazard of constant pieces.

Coefficients are logarithms of hazard ratios in the user's units, with standard errors, intervals
and tests that count the noise in (`algorithms.hazard_scoring`). With pieces that follow the events
they are those of Cox's model, nearly (Holford 1980). A category's first value is the reference.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy.special import ndtri

from unisono.algorithms.estimands import estimand
from unisono.algorithms.hazard_scoring import FittedHazards, fitted, terms_for
from unisono.core.privacy import Privacy
from unisono.core.study import Result, Study
from unisono.core.trust import Unit
from unisono.data.encoding import Frame, Values
from unisono.data.schema import Schema
from unisono.models.glm import column_layout, described
from unisono.models.inference import Inference, determined
from unisono.models.kaplan_meier import (
    EventConfig,
    draft,
    event_faults,
    event_times,
    event_value,
)
from unisono.models.model import Choice, Fault, ModelKind, Posed, Target, columns_in_words
from unisono.models.prediction import HazardRatio
from unisono.problems.survival import ProportionalHazards
from unisono.releases.algorithm import AlgorithmKind

RATIO = "hazard ratio"
_HALVED = math.log(2)
_WIDEST_RISKS = 2.0  # the standard deviation of log hazards up to which intervals were checked
_STEPS = 40  # of time, within which the baseline hazard of a prediction is constant


class HazardsConfig(EventConfig):
    """All other columns are features."""


def _features(config: HazardsConfig, schema: Schema) -> Schema:
    """The schema without the event, which explains nothing."""
    kept = {name: own for name, own in schema.columns.items() if name != config.event}
    return schema.model_copy(update={"columns": kept})


def faults(config: HazardsConfig, schema: Schema) -> Iterator[Fault]:
    yield from event_faults(config, schema)
    if not _features(config, schema).features:
        yield ("model",), "no column is left to explain hazards: declare at least one more"


def pose(
    config: HazardsConfig, schema: Schema, algorithm: AlgorithmKind, privacy: Privacy
) -> Posed:
    """Numbers are brought into [-1, 1] by their public bounds, and stay straight lines."""
    horizon, read_times = event_times(config, schema)
    frame = Frame(_features(config, schema))
    low, high = (np.array(ends) for ends in zip(*(f.bounds for f in frame.features), strict=True))
    numeric = ~np.array([feature.indicator for feature in frame.features])
    middle = np.where(numeric, (low + high) / 2, 0.0)
    half = np.where(numeric, np.maximum((high - low) / 2, 1e-12), 1.0)
    problem = ProportionalHazards(column_layout(frame))
    pieces = problem.pieces

    def encode(values: Values) -> tuple[np.ndarray, ...]:
        rows = np.clip((frame.rows(values) - middle) / half, -1.0, 1.0)
        whole = np.column_stack([rows, *read_times(values)])
        # Who misses anything says nothing at all.
        return (np.where(np.isfinite(whole).all(axis=1, keepdims=True), whole, np.nan),)

    def read(study: Study, result: Result) -> tuple[FittedHazards, Inference]:
        found = fitted(terms_for(study), result.value)
        slopes = np.diag(1 / (found.scale * half))
        matrix = np.concatenate([np.zeros((len(slopes), pieces)), slopes], axis=1)
        limits = _limits(found, matrix @ found.theta, config.confidence)
        return found, Inference(
            tuple(frame.names),
            matrix @ found.theta,
            matrix @ found.covariance @ matrix.T,
            matrix @ found.sampling @ matrix.T,
            determined(found.covariance, found.prior, matrix) & (not found.few_events),
            RATIO,
            doubts=tuple(_doubts(found, frame.names, limits)),
            limits=limits,
        )

    def prediction(study: Study, result: Result) -> HazardRatio:
        found, inference = read(study, result)
        return HazardRatio(
            tuple(frame.schema.features),
            frame.names,
            middle - half,
            middle + half,
            middle + half * found.centre,
            inference.estimate,
            inference.covariance,
            *_course(found, horizon),
            float(np.linalg.norm(found.theta[pieces:])),
        )

    def present(study: Study, result: Result) -> dict[str, Any]:
        found, inference = read(study, result)
        return {
            "family": "proportional hazards",
            "link": "log-hazard",
            "target": schema.target,
            "event": config.event,
            "event_value": event_value(config, schema),
            "confidence": config.confidence,
            "coefficients": inference.to_json(config.confidence),
            "ratio": RATIO,
            "names": list(inference.names),
            "features": {
                one.name: described(one, deviation)
                for one, deviation in zip(frame.features, found.scale * half, strict=True)
            },
            "covariance": inference.covariance.tolist(),
            "baseline": _baseline(
                found, horizon, pieces, middle + half * found.centre, frame.names
            ),
            "scores": _scores(found, inference, pieces, middle + half * found.centre),
            "rounds": found.rounds,
            "note": " ".join(_notes(inference, horizon, found.rounds)),
            **(
                {"doubts": list(inference.doubts), "few_events": found.few_events}
                if inference.doubts
                else {}
            ),
        }

    return Posed(problem, problem.features + 2, encode, present, prediction=prediction)


def _scores(found: Any, inference: Inference, pieces: int, centre: np.ndarray) -> dict[str, float]:
    """Middle and spread of log hazards over records, of what is determined, as if columns were
    independent: enough to say where scores can be cut."""
    known = np.asarray(inference.determined, bool)
    return {
        "middle": float(inference.estimate[known] @ centre[known]),
        "spread": float(np.linalg.norm(found.theta[pieces:][known])),
    }


def _course(found: FittedHazards, horizon: float) -> tuple[np.ndarray, np.ndarray]:
    """The baseline hazard in time: ends of short intervals (m + 1,), those of pieces among them,
    and the mean hazard of each (m,). Pieces are constant in t^k, which bends within them."""
    times = np.union1d(np.arange(_STEPS + 1) / _STEPS, found.ends)
    piece = np.searchsorted(found.ends, (times[1:] + times[:-1]) / 2) - 1
    rates = np.exp(found.theta[: len(found.ends) - 1]) / np.diff(found.ends**found.power)
    hazards = rates[piece] * np.diff(times**found.power) / np.diff(times)
    return horizon * times, hazards / horizon


def _baseline(
    found: Any, horizon: float, pieces: int, centre: np.ndarray, names: Sequence[str]
) -> dict[str, Any]:
    """Hazards of a record in the middle of all columns, by pieces of time: the mean of each."""
    hazards = np.exp(found.theta[:pieces]) / np.diff(found.ends)
    return {
        "ends": [float(one) for one in horizon * found.ends],
        "hazard": [float(one) for one in hazards / horizon],
        "at": {name: float(one) for name, one in zip(names, centre, strict=True)},
    }


def _notes(found: Inference, horizon: float, rounds: int) -> Iterator[str]:
    yield (
        f"{estimand('hazards', horizon=horizon)} "
        "Intervals and tests account for sampling and the noise of privacy; "
        f"{rounds} noisy round{'s' * (rounds > 1)}."
    )
    if found.doubts:
        yield from found.doubts
    elif len(found.drowned) == len(found.names):
        yield (
            "Noise drowned every coefficient: more records, a larger epsilon, a later horizon, "
            "tighter bounds or fewer columns would help."
        )
    elif found.drowned:
        it = "it hardly varies" if len(found.drowned) == 1 else "they hardly vary"
        yield (
            f"Noise drowned {', '.join(found.drowned)}, or {it}: more records, a larger epsilon, "
            "tighter bounds or fewer columns would help."
        )


def _limits(found: FittedHazards, estimate: np.ndarray, confidence: float) -> np.ndarray:
    """Infinite ends of intervals (d, 2), NaN elsewhere: of a value whose hazard ratio is below a
    half, and may be zero for all that was released; and the same of all others against it."""
    open_ends = found.margins < ndtri(0.5 + confidence / 2)
    low = open_ends[:, 0] & (estimate < -_HALVED)
    high = open_ends[:, 1] & (estimate > _HALVED)
    return np.stack([np.where(low, -np.inf, np.nan), np.where(high, np.inf, np.nan)], axis=1)


def _doubts(found: FittedHazards, names: Sequence[str], limits: np.ndarray) -> Iterator[str]:
    """Of events as they were released, with their noise."""
    if found.few_events:
        yield (
            f"Too few events for {len(found.centre)} coefficients, or none: about "
            f"{max(found.events, 0.0):.0f} ± {2 * found.events_std:.0f}, each by its weight, can "
            "be told from noise, and at least five for each are needed. Check which value of the "
            "event's column means that it happened; more records, a later horizon, a larger "
            "epsilon or fewer columns would help."
        )
        return
    for rows, words in (
        (np.isneginf(limits[:, 0]), "no lower limit: possibly no events there (separation)"),
        (np.isposinf(limits[:, 1]), "no upper limit: possibly no events elsewhere (separation)"),
        (
            found.unsettled,
            f"not converged after {found.rounds} rounds: its last step exceeds its standard error, "
            "so that its interval may be too short; more records or a larger epsilon allow more "
            "rounds",
        ),
    ):
        if rows.any():
            yield f"{', '.join(np.asarray(names)[rows])}: {words}."
    spread = float(np.linalg.norm(found.theta[-len(names) :]))
    if spread > _WIDEST_RISKS:
        yield (
            f"Log hazards of records have a standard deviation of about {spread:.1f}: effects of "
            f"{', '.join(names)} are so strong that intervals may be too short. An earlier "
            "horizon would help, or one analysis for each value of a column with strong effects."
        )


def choose(config: HazardsConfig, schema: Schema, privacy: Privacy, unit: Unit) -> Choice:
    return Choice("hazard-scoring", "few noisy rounds of bounded martingale scores")


def _learns(config: HazardsConfig, schema: Schema) -> str:
    columns = columns_in_words(_features(config, schema))
    return f"hazard ratios of {config.event} over {schema.target} by {columns}, with intervals"


HAZARDS = ModelKind(
    "hazards",
    "hazard ratios with valid intervals and tests, of times until an event",
    HazardsConfig,
    Target.NUMBER,
    ProportionalHazards,
    pose,
    choose,
    learns=_learns,
    faults=faults,
    draft=draft,
    describes=True,
    prediction=HazardRatio,
)

__all__ = ["HAZARDS", "HazardsConfig"]
