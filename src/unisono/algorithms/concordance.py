"""How well scores order times: Harrell's C of a noisy table, with an interval.

Of all pairs of records of which one had its event while the other was still at risk, C is the share
in which the one with the event had the higher score; equal scores count one half (Harrell et al.
1982). A pair may lie at two parties, and a sum over pairs is no sum over records: what is released
is the table of `survival_table` with intervals of the score for groups, in which a record counts
once. With D_k(g) events of score interval g in time interval k, and beside them at risk

    R_k(g) = those who outlast interval k + half of those who leave within it

the estimate is

    C = Σ_k Σ_g D_k(g) (Σ_{h<g} R_k(h) + R_k(g) / 2) / Σ_k Σ_g D_k(g) Σ_h R_k(h) .

Halves are the actuarial rule of the curves (Cutler and Ederer 1958): of two records that leave in
the same short interval either may be the first, whatever their scores. A product D_k(g) D_k(g) of
one noisy count with itself is too large by the noise's variance, and counts each record beside
itself: both are taken off.

Scores within one interval are not told apart, but the event is a little more often with the higher
one there too. If the hazard ratio between neighbouring intervals is exp(Δ), by the estimate of
Mantel and Haenszel (1959) over all of them and all times

    exp(Δ) = Σ_k Σ_g D_k(g + 1) R_k(g) / Σ_k Σ_g D_k(g) R_k(g + 1)

then events lie within an interval as exp(Δ u), u in [0, 1], where others lie evenly, and of pairs
within it a share of 1/2 + Δ / 12 is in order, to first order: that takes the place of 1/2 above.

Of two records with their events in the same interval of time the one with the higher hazard is the
first a little more often, too: if hazards are constant within it and add up to H_k(g) there, in a
share of 1/2 + (H_k(g) - H_k(h)) / 12, to first order. H_k(g) is that of all records, split by
exp(Δ g).

The interval comes from the bootstrap of the curves, records *and* noise: C ± z sqrt(sd² + bias² +
binning²), where half of what both corrections for intervals add counts as an error of its own.
Where noise hides how many pairs there are, C is *not determined*.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from unisono.algorithms.survival_curves import (
    NOT_DETERMINED,
    Numbers,
    redrawn_apart,
    shifted,
    split,
)

_DRAWS = 399  # of the bootstrap, whose deviation they tell to 4 %
_DROWNED = 3.0  # deviations of the number of pairs, below which there may be none
_DOUBT = 0.5  # the part of the correction for intervals that counts as an error
_WIDEST = 0.5  # half an interval, beyond which it says nothing


@dataclass(frozen=True)
class Concordance:
    """C, its interval, and the share of the interval's width that is the noise of privacy; nothing
    where it is not determined."""

    value: float | None
    low: float | None
    high: float | None
    privacy_share: float | None
    confidence: float
    std_error: float | None = None

    @property
    def determined(self) -> bool:
        return self.value is not None

    def to_json(self) -> dict[str, Any]:
        return {
            "determined": self.determined,
            "value": self.value,
            "interval": [self.low, self.high],
            "privacy_share": self.privacy_share,
            "confidence": self.confidence,
        }


def concordance_of(cells: np.ndarray, numbers: Numbers, confidence: float = 0.95) -> Concordance:
    """Of a noisy table (score intervals, 2 K + 1), low scores first."""
    cells = shifted(np.asarray(cells, float), numbers.records)
    good, pairs = _pairs(cells, numbers.noise)
    truth, tables, quiet = redrawn_apart(cells, numbers, _DRAWS)
    expected = np.divide(*_pairs(truth, 0.0))
    drawn_good, drawn_pairs = _pairs(tables, numbers.noise)
    if pairs < _DROWNED * drawn_pairs.std() or (drawn_pairs <= 0).any():
        return Concordance(None, None, None, None, confidence)
    apart = drawn_good / drawn_pairs - expected
    z = float(ndtri((1 + confidence) / 2))
    binned = _DOUBT * (good / pairs - np.divide(*_pairs(cells, numbers.noise, halves=True)))
    reach = z * math.hypot(apart.std(), apart.mean(), binned)
    if reach > _WIDEST:
        return Concordance(None, None, None, None, confidence)
    alone = z * float(np.std(np.divide(*_pairs(quiet, 0.0))))
    value = float(np.clip(good / pairs, 0.0, 1.0))
    share = 1 - min(alone / reach, 1.0)
    ends = max(value - reach, 0.0), min(value + reach, 1.0)
    return Concordance(value, *ends, share, confidence, reach / z)


def _pairs(cells: np.ndarray, noise: float, halves: bool = False) -> tuple[Any, Any]:
    """Pairs in which the higher score had the event, and all pairs, of tables (..., G, 2 K + 1);
    with `halves` one half of those that intervals of score or time do not tell apart."""
    events, censored, at_risk = split(cells)
    beside = at_risk - (events + censored) / 2
    below = np.cumsum(beside, axis=-2) - beside
    count = events.shape[-1] * events.shape[-2]
    itself = (events.sum(axis=(-2, -1)) + count * noise**2) / 2
    higher = np.sum(events[..., 1:, :] * beside[..., :-1, :], axis=(-2, -1))
    lower = np.sum(events[..., :-1, :] * beside[..., 1:, :], axis=(-2, -1))
    least = 1e-3 * np.maximum(higher + lower, 1e-9)
    step = np.log(np.maximum(higher, least) / np.maximum(lower, least))
    within = 0.5 + np.clip(step, -1.0, 1.0) / 12
    same = np.sum(events * beside, axis=(-2, -1)) - itself
    good = np.sum(events * below, axis=(-2, -1)) + (0.5 if halves else within) * same
    if not halves:
        good = good + _same_time(events, beside, step)
    pairs = np.sum(events * beside.sum(axis=-2, keepdims=True), axis=(-2, -1)) - itself
    return good, pairs


def _same_time(events: np.ndarray, beside: np.ndarray, step: np.ndarray) -> np.ndarray:
    """By how much more than one half of the pairs that have their events in the same interval of
    time are in order: Σ_k Σ_{h<g} D_k(g) D_k(h) (H_k(g) - H_k(h)) / 12."""
    groups = events.shape[-2]
    apart = np.clip(step, -1.0, 1.0)[..., None] * (np.arange(groups) - (groups - 1) / 2)
    ratio = np.exp(np.clip(apart, -3.0, 3.0))[..., None]
    everybody = np.sum(beside * ratio, axis=-2, keepdims=True)
    least = np.maximum(1e-3 * beside.sum(axis=-2, keepdims=True), 1e-9)
    hazard = events.sum(axis=-2, keepdims=True) / np.maximum(everybody, least)
    hazard = ratio * np.clip(hazard, 0.0, 3.0)
    weighted = events * hazard
    lower = np.cumsum(events, axis=-2) - events
    lower_weighted = np.cumsum(weighted, axis=-2) - weighted
    return np.asarray(np.sum(weighted * lower - events * lower_weighted, axis=(-2, -1)) / 12)


def as_text(found: Mapping[str, Any]) -> str:
    """In one line."""
    what = f"concordance of {found['score']} with {found['time']} until {found['event']}"
    if not found["determined"]:
        return f"{what}: {NOT_DETERMINED}"
    low, high = found["interval"]
    percent = f"{100 * found['confidence']:g} % interval"
    return f"{what}: {found['value']:.3f} ({percent} {low:.3f} to {high:.3f})"


__all__ = ["Concordance", "as_text", "concordance_of"]
