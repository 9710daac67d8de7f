"""From a noisy table of times to survival curves with bands: post-processing only.

With D_k events and C_k censored records in interval k, and N_k records at risk when it begins (the
tail sum of the table), the actuarial estimate at the end of interval k is

    Λ_k = Σ_{j<=k} -log(1 - D_j / (N_j - C_j / 2)),     S_k = exp(-max_{j<=k} Λ_j)

(Cutler and Ederer 1958; of ever shorter intervals it is that of Kaplan and Meier). Counts keep
their noise: moving negative ones to zero before the sum would bend every curve downwards. They are
only shifted, all alike, so that they add up to the number of records where that is public, which is
the least-squares estimate. Numbers at risk are no smaller than three deviations of a cell's noise.

Bands come from a bootstrap with a public seed. Its truth is the nearest table without negative
counts (on the simplex), half a record added to each cell; it repeats both the sampling and the
noise, 999 times, through the same estimate. With deviation sd_k and bias_k of Λ_k from the truth

    pointwise       Λ_k ± z sqrt(sd_k² + bias_k²)
    simultaneous    Λ_k ± q (sd_k + bias_k)

with q the quantile of max_k |Λ*_k - Λ_k| / (sd_k + bias_k), on the scale of Λ, and then as
survival. Where the number at risk is below twice the deviation of its own noise the curve is *not
determined* from there on: no value, and a band down to zero.

Medians and their intervals are where curve and pointwise band cross one half (Brookmeyer and
Crowley 1982). Restricted means are areas under the curve, which is made smooth between the ends of
intervals (a monotone cubic of Λ; Fritsch and Carlson 1980); deviations and biases of them, and of
their differences between groups, come from the same bootstrap.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.special import ndtri

NOT_DETERMINED = "not determined"
_DRAWS, _SEED = 999, 20
_FLOOR = 3.0  # deviations of a cell's noise that a number at risk is not below
_DROWNED = 2.0  # deviations of its own noise below which a number at risk says nothing
_WITHIN = 8  # points within an interval at which areas are added up


class Numbers(NamedTuple):
    """What is known of a table: the deviation of its cells' noise; the number of records in it,
    where it is known better than by adding them up, and the deviation of that; and whether the
    noise is that of pure epsilon."""

    noise: float
    records: float | None = None
    of_records: float = 0.0
    laplace: bool = False


@dataclass(frozen=True)
class Measure:
    """A number with its interval; an end that lies beyond the horizon, or is drowned, is None."""

    value: float | None
    low: float | None
    high: float | None

    def to_json(self) -> dict[str, Any]:
        return {"value": self.value, "interval": [self.low, self.high]}


@dataclass(frozen=True)
class Curve:
    """One group's: at the ends of intervals (K + 1,), which begin with time 0, survival with its
    pointwise interval and its simultaneous band; noisy numbers of records at risk and events."""

    group: str
    times: np.ndarray
    survival: np.ndarray
    low: np.ndarray
    high: np.ndarray
    band_low: np.ndarray
    band_high: np.ndarray
    determined: np.ndarray
    at_risk: np.ndarray
    events: np.ndarray
    median: Measure
    restricted_mean: Measure

    def to_json(self) -> dict[str, Any]:
        def shown(values: np.ndarray) -> list[float | None]:
            pairs = zip(values, self.determined, strict=True)
            return [float(value) if known else None for value, known in pairs]

        def numbers(values: np.ndarray) -> list[float]:
            return [float(value) for value in values]

        return {
            "times": numbers(self.times),
            "survival": shown(self.survival),
            "interval": [numbers(self.low), numbers(self.high)],
            "band": [numbers(self.band_low), numbers(self.band_high)],
            "determined": [bool(known) for known in self.determined],
            "at_risk": numbers(self.at_risk),
            "events": numbers(self.events),
            "median": self.median.to_json(),
            "restricted_mean": self.restricted_mean.to_json(),
        }


@dataclass(frozen=True)
class Curves:
    """All groups', and how much longer the restricted mean of each is than that of the first."""

    curves: tuple[Curve, ...]
    differences: tuple[Measure, ...]


def nearest_counts(cells: np.ndarray, records: Any) -> np.ndarray:
    """The nearest tables (..., groups, cells) without negative counts that hold so many records
    (Duchi et al. 2008).

    >>> nearest_counts(np.array([[3.0, -1.0, 1.0]]), 3.0)
    array([[2.5, 0. , 0.5]])
    """
    flat = cells.reshape(*cells.shape[:-2], -1)
    falling = np.sort(flat, axis=-1)[..., ::-1]
    numbers = np.arange(1, flat.shape[-1] + 1)
    excess = (np.cumsum(falling, axis=-1) - np.asarray(records, float)[..., None]) / numbers
    kept = np.sum(falling > excess, axis=-1, keepdims=True) - 1
    less = np.take_along_axis(excess, kept, axis=-1)
    return np.asarray(np.maximum(flat - less, 0.0).reshape(cells.shape))


def shifted(cells: np.ndarray, records: Any) -> np.ndarray:
    """Tables (..., groups, cells) whose sum is the known number of records, if there is one."""
    if records is None:
        return cells
    missing = records - cells.sum(axis=(-2, -1), keepdims=True)
    return np.asarray(cells + missing / (cells.shape[-2] * cells.shape[-1]))


def split(cells: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Events, censored, and records at risk when each interval begins: (..., K) each."""
    bins = (cells.shape[-1] - 1) // 2
    events, censored, beyond = np.split(cells, [bins, 2 * bins], axis=-1)
    left = np.cumsum((events + censored)[..., ::-1], axis=-1)[..., ::-1]
    return events, censored, left + beyond


def cumulative_hazard(cells: np.ndarray, floor: float) -> np.ndarray:
    """Λ at the ends of intervals (..., K)."""
    events, censored, at_risk = split(cells)
    hazard = events / np.maximum(at_risk - censored / 2, max(floor, 1e-9))
    return np.asarray(np.cumsum(-np.log1p(-np.clip(hazard, -0.5, 0.95)), axis=-1))


def estimate(
    cells: np.ndarray,
    numbers: Numbers,
    groups: Sequence[str],
    horizon: float,
    confidence: float = 0.95,
) -> Curves:
    """Curves of a noisy table (groups, 2 K + 1)."""
    cells = shifted(np.asarray(cells, float), numbers.records)
    bins = (cells.shape[1] - 1) // 2
    found = cumulative_hazard(cells, _FLOOR * numbers.noise)
    table, tables = redrawn(cells, numbers)
    truth = cumulative_hazard(table, 0.0)
    draws = cumulative_hazard(tables, _FLOOR * numbers.noise)
    apart = draws - truth
    sd, bias = apart.std(axis=0), np.abs(apart.mean(axis=0))
    z = float(ndtri((1 + confidence) / 2))
    reach = z * np.hypot(sd, bias)
    scale = np.maximum(sd + bias, 1e-12)
    # Of 999 draws and the one that was released, all are equally likely to be the farthest.
    place = min(math.ceil(confidence * (_DRAWS + 1)), _DRAWS) - 1
    widest = np.sort(np.max(np.abs(apart) / scale, axis=-1), axis=0)[place]
    band = widest[:, None] * scale

    events, _, at_risk = split(cells)
    of_tail = numbers.noise * np.sqrt(2.0 * np.arange(bins, 0, -1) + 1)
    drowned = np.maximum.accumulate(at_risk < np.maximum(_DROWNED * of_tail, 1.0), axis=1)
    times = horizon * np.arange(bins + 1) / bins
    areas = restricted_means(found, horizon)
    areas_apart = restricted_means(draws, horizon) - restricted_means(truth, horizon)
    known = np.asarray(~drowned.any(axis=1))

    def area(value: float, own_apart: np.ndarray, shown: bool) -> Measure:
        if not shown:
            return Measure(None, None, None)
        margin = z * math.hypot(own_apart.std(), own_apart.mean())
        return Measure(float(value), float(value - margin), float(value + margin))

    curves = []
    for place, name in enumerate(groups):
        low, high = _as_survival(found[place], reach[place], drowned[place])
        band_low, band_high = _as_survival(found[place], band[place], drowned[place])
        survival = np.exp(-_rising(found[place]))
        mean = area(float(areas[place]), areas_apart[:, place], bool(known[place]))
        if mean.value is not None:
            assert mean.low is not None
            assert mean.high is not None
            mean = Measure(mean.value, max(mean.low, 0.0), min(mean.high, horizon))
        curves.append(
            Curve(
                name,
                times,
                np.concatenate([[1.0], survival]),
                low,
                high,
                band_low,
                band_high,
                np.concatenate([[True], ~drowned[place]]),
                np.concatenate([at_risk[place], cells[place, -1:]]),
                np.concatenate([[0.0], events[place]]),
                _median(times, survival, low, high, drowned[place]),
                mean,
            )
        )
    differences = tuple(
        area(
            areas[place] - areas[0],
            areas_apart[:, place] - areas_apart[:, 0],
            bool(known[place] and known[0]),
        )
        for place in range(1, len(groups))
    )
    return Curves(tuple(curves), differences)


def redrawn(
    cells: np.ndarray, numbers: Numbers, draws: int = _DRAWS
) -> tuple[np.ndarray, np.ndarray]:
    """The bootstrap: a table for the truth (groups, cells), and tables drawn from it with records
    and noise (draws, groups, cells)."""
    truth, tables, _ = redrawn_apart(cells, numbers, draws)
    return truth, tables


def redrawn_apart(
    cells: np.ndarray, numbers: Numbers, draws: int = _DRAWS
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """As `redrawn`, and the same tables before their noise."""
    generator = np.random.default_rng(_SEED)
    records: Any = numbers.records
    count = max(1, round(float(cells.sum()) if records is None else records))
    chances = nearest_counts(cells, float(count)) + 0.5
    chances = chances / chances.sum()
    drawn = generator.multinomial(count, chances.ravel(), size=draws).astype(float)
    shape = drawn.shape
    noise = (
        generator.laplace(scale=numbers.noise / math.sqrt(2), size=shape)
        if numbers.laplace
        else numbers.noise * generator.standard_normal(shape)
    )
    if records is not None:
        records = count + numbers.of_records * generator.standard_normal((draws, 1, 1))
    noisy, quiet = (own.reshape(draws, *cells.shape) for own in (drawn + noise, drawn))
    return count * chances, shifted(noisy, records), quiet


def _rising(hazard: np.ndarray) -> np.ndarray:
    """The least curve above this one that never falls, from 0 on."""
    return np.asarray(np.maximum.accumulate(np.maximum(hazard, 0.0), axis=-1))


def _as_survival(
    hazard: np.ndarray, reach: np.ndarray, drowned: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Both ends, at time 0 too. Survival never rises, so that an upper end holds for all later
    times, and a lower end for all earlier ones."""
    high = np.where(drowned, 1.0, np.exp(-np.maximum(hazard - reach, 0.0)))
    low = np.where(drowned, 0.0, np.exp(-np.maximum(hazard + reach, 0.0)))
    high = np.minimum.accumulate(np.concatenate([[1.0], high]))
    low = np.maximum.accumulate(np.concatenate([[1.0], low])[::-1])[::-1]
    return np.minimum(low, high), high


def _median(
    times: np.ndarray, survival: np.ndarray, low: np.ndarray, high: np.ndarray, drowned: np.ndarray
) -> Measure:
    own = np.where(drowned, np.nan, survival)
    return Measure(
        _crossing(times, np.concatenate([[1.0], own])),
        _crossing(times, low),
        _crossing(times, high),
    )


def _crossing(times: np.ndarray, survival: np.ndarray) -> float | None:
    """Where a curve falls to one half, with a constant hazard within each interval; where it falls
    to nothing, at once.

    >>> _crossing(np.array([0.0, 1.0, 2.0]), np.array([1.0, 0.8, 0.4]))
    1.678...
    """
    below = np.flatnonzero(survival <= 0.5)
    if len(below) == 0 or np.isnan(survival[: below[0]]).any():
        return None
    place = int(below[0])
    before, after = survival[place - 1], survival[place]
    if after <= 0:
        return float(times[place - 1])
    share = math.log(before / 0.5) / math.log(before / after)
    return float(times[place - 1] + share * (times[place] - times[place - 1]))


def restricted_means(hazard: np.ndarray, horizon: float) -> np.ndarray:
    """Areas under exp(-Λ) up to the horizon, (...,) of Λ (..., K) at the ends of K intervals.

    >>> float(restricted_means(np.linspace(0.1, 1.0, 10), 10.0).round(4)), 10 * (1 - math.exp(-1))
    (6.3212, 6.321205588285577)
    """
    bins = hazard.shape[-1]
    start = np.zeros((*hazard.shape[:-1], 1))
    rising = _rising(np.concatenate([start, hazard], axis=-1))
    points = np.arange(bins * _WITHIN + 1) / (bins * _WITHIN)
    smooth = PchipInterpolator(np.arange(bins + 1) / bins, rising, axis=-1)(points)
    survival = np.exp(-smooth)
    weights = np.where(np.arange(len(points)) % 2 == 1, 4.0, 2.0)  # Simpson's
    weights[[0, -1]] = 1.0
    return np.asarray(horizon * (survival @ weights) / (3 * bins * _WITHIN))


# ------------------------------------------------------------- in words


def as_text(found: Mapping[str, Any]) -> str:
    """A result's `kaplan_meier` as lines: each group's medians and means, then the curves."""
    percent = f"{100 * found['confidence']:g} %"
    lines = [f"survival of {found['time']} until {found['event']}, {percent} intervals"]
    rows = [["", "events", "median", "restricted mean"]]
    for name, curve in found["groups"].items():
        rows.append(
            [
                name,
                f"{max(0.0, sum(curve['events'])):.0f}",
                median_text(curve),
                measure_text(curve["restricted_mean"]),
            ]
        )
    lines += _aligned(rows)
    for name, one in found.get("restricted_mean_differences", {}).items():
        lines.append(f"  restricted mean of {name}: {measure_text(one)}")
    test = found.get("log_rank")
    if test:
        lines.append(f"  {log_rank_text(test)}")
    for name, curve in found["groups"].items():
        lines += [f"curve of {name}", *_aligned(curve_rows(curve))]
    return "\n".join(lines)


def curve_rows(curve: Mapping[str, Any]) -> list[list[str]]:
    """A header, and at each time survival, its interval and its band."""
    rows = [["time", "at risk", "survival", "interval", "band for all times"]]
    for place, time in enumerate(curve["times"]):
        value = curve["survival"][place]
        ends = [
            f"{curve[kind][0][place]:.3f} to {curve[kind][1][place]:.3f}"
            for kind in ("interval", "band")
        ]
        at_risk = f"{max(0.0, curve['at_risk'][place]):.0f}"
        rows.append([f"{time:.4g}", at_risk, _survival(value), *ends])
    return rows


def median_text(curve: Mapping[str, Any]) -> str:
    """A median with its interval; one that lies beyond the horizon was not reached."""
    own = curve["median"]
    if own["value"] is None:
        low = own["interval"][0]
        what = "not reached" if curve["determined"][-1] else NOT_DETERMINED
        return what if low is None else f"{what} (above {low:.4g})"
    return measure_text(own)


def measure_text(own: Mapping[str, Any]) -> str:
    """A number with its interval."""
    if own["value"] is None:
        return NOT_DETERMINED
    low, high = ("…" if end is None else f"{end:.4g}" for end in own["interval"])
    return f"{own['value']:.4g} ({low} to {high})"


def log_rank_text(test: Mapping[str, Any]) -> str:
    """The log-rank test in one line."""
    p = test["p_value"]
    words = "p < .001" if p < 0.001 else f"p = {p:.3f}".replace("0.", ".")
    return f"log-rank test: chi-square {test['statistic']:.2f}, {test['degrees']} df, {words}"


def _survival(value: float | None) -> str:
    return NOT_DETERMINED if value is None else f"{value:.3f}"


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    return [
        "  " + "  ".join(w.ljust(size) for w, size in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


__all__ = [
    "NOT_DETERMINED",
    "Curve",
    "Curves",
    "Measure",
    "Numbers",
    "as_text",
    "cumulative_hazard",
    "curve_rows",
    "estimate",
    "log_rank_text",
    "measure_text",
    "median_text",
    "nearest_counts",
    "redrawn",
    "restricted_means",
    "shifted",
    "split",
]
