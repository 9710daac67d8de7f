"""From a noisy table of times to survival curves with bands: post-processing only.

With D_k events and N_k records at risk when interval k begins (the tail sum of the table), and
places f in [0, 1] of records in their intervals (`survival_table`),

    E_k = N_k - Σ w(S_k / S_{k-1}, f) over the records that are censored in interval k
    Λ_k = Σ_{j<=k} -log(1 - D_j / E_j),     S_k = exp(-(max_{j<=k} Λ_j + min_{j>=k} Λ_j) / 2)

with w(s, f) = (1 - s^(1 - f)) / (1 - s), near 1 - f where few have the event. A record that is
censored at f goes on with the hazard of the others, and has outlasted the interval with probability
s^(1 - f): this is the estimate that agrees with itself (Efron 1967), found in a few steps. Sums of
w are those of 1 - f, times what w is beside 1 - f at the mean place of the censored, with a usual
spread. Where records are censored after the events of their interval, as at visits, E is the number
at risk of Kaplan and Meier (1958); where they are censored evenly and few have the event, that of
the actuarial estimate (Cutler and Ederer 1958). Counts keep their noise: moving negative ones to
zero before the sum would bend every curve downwards. They are only shifted, all alike, so that they
add up to the number of records where that is public, which is the least-squares estimate. E is no
smaller than three deviations of a cell's noise.

Bands come from a bootstrap with a public seed. Its truth is the nearest table without negative
counts (on the simplex), half a record added to each cell; it repeats the sampling of records and of
their places, and the noise, 999 times, through the same estimate. With deviation sd_k and bias_k of
Λ_k from the truth

    pointwise       Λ_k ± z sqrt(sd_k² + bias_k²)
    simultaneous    Λ_k ± q (sd_k + bias_k)

with q the quantile of max_k |Λ*_k - Λ_k| / (sd_k + bias_k), on the scale of Λ, and then as
survival. Where E is below twice the deviation of its own noise the curve is *not estimable* from
there on: no value, and a band down to zero.

Medians and their intervals are where curve and pointwise band cross one half (Brookmeyer and
Crowley 1982). Within an interval the events' mean place f tells how: a share u of the way down is
reached at u^((1 - f) / f) of the interval, whose mean place is f. Ends of intervals allow for any
density of events that falls or rises within the interval and has this mean place, and for what is
not known of f. Where intervals end at visits, or exits crowd on few times, all that is known is
the interval in which a curve crosses: then ends are moved outwards to the ends of intervals.

Restricted means are areas under the curve: with w the width of an interval,

    Σ_k w_k ((S_{k-1} + S_k) / 2 + S_{k-1} Σ (f - 1/2) over the events / E_k),

exact for ties. Deviations and biases of them, and of their differences between groups, come from
the same bootstrap.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import isotonic_regression
from scipy.special import ndtri

from unisono.algorithms.exit_times import Intervals
from unisono.releases.algorithm import rounded

NOT_DETERMINED = "not determined"
_DRAWS, _SEED = 999, 20
_FLOOR = 3.0  # deviations of a cell's noise that a number at risk is not below
_DROWNED = 2.0  # deviations of its own noise below which a number at risk says nothing
_STEPS = 4  # of the equation for the fall within an interval
_USUAL_SPREAD = 0.25  # deviation of events' mean places between intervals, before any is seen
_PLACE_DOUBT = 0.6  # of the deviation of a mean place, which ends of medians allow for
_AT_AN_END = 0.15  # a mean place so near to the end of an interval between visits is at the visit


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
    pointwise interval and its simultaneous band; noisy numbers of events, and of records at risk,
    which are made to fall by least squares."""

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


class TimeCounts(NamedTuple):
    """Counts (..., groups, 2 K + 1) and sums of centered places (..., groups, 2 K)."""

    cells: np.ndarray
    places: np.ndarray

    def shifted(self, records: Any) -> "TimeCounts":
        return self._replace(cells=shifted(self.cells, records))

    @property
    def exposed(self) -> np.ndarray:
        """E of each interval (..., K)."""
        _, censored, at_risk = split(self.cells)
        return np.asarray(at_risk - censored / 2 + self.places[..., censored.shape[-1] :])

    @property
    def event_places(self) -> np.ndarray:
        """Sums of the events' centered places (..., K)."""
        return self.places[..., : self.places.shape[-1] // 2]


def hazards(table: TimeCounts, noise: float) -> tuple[np.ndarray, np.ndarray]:
    """D / E and E of each interval (..., K); see the module for w(s)."""
    events, censored, at_risk = split(table.cells)
    late = table.places[..., censored.shape[-1] :]
    least = max(_FLOOR * noise, 1e-9)
    found = np.zeros_like(events)
    place = np.minimum(0.5 + _shrunk(late, np.maximum(censored, 0.0), noise), 0.98)
    place = np.maximum(place, 0.0)
    for _ in range(_STEPS):
        fall = np.minimum(np.log1p(-found), -1e-6)
        stays = (1 - place) * fall
        spread = np.exp(stays) * fall**2 * place * (1 - place) / 6
        more = (np.expm1(stays) + spread) / (np.expm1(fall) * (1 - place))
        exposed = np.maximum(at_risk - (censored / 2 - late) * more, least)
        found = np.clip(events / exposed, -0.5, 0.97)
    return found, exposed


def cumulative_hazard(table: TimeCounts, noise: float) -> np.ndarray:
    """Λ at the ends of intervals (..., K)."""
    found, _ = hazards(table, noise)
    return np.asarray(np.cumsum(-np.log1p(-found), axis=-1))


def restricted_means(hazard: np.ndarray, table: TimeCounts, noise: float, times: Any) -> np.ndarray:
    """Areas under exp(-Λ) up to the last of `times` (K + 1,), (...,) of Λ (..., K).

    >>> table = TimeCounts(np.array([[3.0, 0.0, 1.0]]), np.array([[1.5, 0.0]]))  # three at time 2
    >>> restricted_means(cumulative_hazard(table, 0.0), table, 0.0, [0.0, 2.0])
    array([2.])
    """
    after = np.exp(-_rising(hazard))
    before = np.concatenate([np.ones((*after.shape[:-1], 1)), after[..., :-1]], axis=-1)
    fall = (before - after) / 2 + 0.02
    late = before * table.event_places / hazards(table, noise)[1]
    means = (before + after) / 2 + np.clip(late, -fall, fall)
    return np.asarray((means * np.diff(times)).sum(axis=-1))


def estimate(
    table: TimeCounts,
    numbers: Numbers,
    groups: Sequence[str],
    intervals: Intervals,
    horizon: float,
    confidence: float = 0.95,
) -> Curves:
    """Curves of a noisy table."""
    table = TimeCounts(*(np.asarray(part, float) for part in table)).shifted(numbers.records)
    bins, noise = table.places.shape[1] // 2, numbers.noise
    # Ends of intervals were 32-bit shares of the horizon; an event at one of them is not after it.
    times = np.array([rounded(horizon * float(cut)) for cut in intervals.cuts])
    found = cumulative_hazard(table, noise)
    original, drawn = redrawn(table, numbers)
    truth, draws = cumulative_hazard(original, 0.0), cumulative_hazard(drawn, noise)
    apart = draws - truth
    sd, bias = apart.std(axis=0), np.abs(apart.mean(axis=0))
    z = float(ndtri((1 + confidence) / 2))
    reach = z * np.hypot(sd, bias)
    scale = np.maximum(sd + bias, 1e-12)
    # Of 999 draws and the one that was released, all are equally likely to be the farthest.
    place = min(math.ceil(confidence * (_DRAWS + 1)), _DRAWS) - 1
    widest = np.sort(np.max(np.abs(apart) / scale, axis=-1), axis=0)[place]
    band = widest[:, None] * scale

    events, _, at_risk = split(table.cells)
    of_tail = noise * np.sqrt(2.0 * np.arange(bins, 0, -1) + 1)
    drowned = np.maximum.accumulate(table.exposed < np.maximum(_DROWNED * of_tail, 1.0), axis=1)
    areas = restricted_means(found, table, noise, times)
    areas_apart = restricted_means(draws, drawn, noise, times) - restricted_means(
        truth, original, 0.0, times
    )
    known = np.asarray(~drowned.any(axis=1))
    within = _within(table, noise, intervals.crowded)

    def area(value: float, own_apart: np.ndarray, shown: bool) -> Measure:
        if not shown:
            return Measure(None, None, None)
        margin = z * math.hypot(own_apart.std(), own_apart.mean())
        return Measure(float(value), float(value - margin), float(value + margin))

    curves = []
    for place, name in enumerate(groups):
        survival = np.exp(-_rising(np.where(drowned[place], np.inf, found[place])))
        shown = np.append(1.0, np.where(drowned[place], np.nan, survival))
        low, high = _as_survival(found[place], reach[place], drowned[place])
        low, high = np.fmin(low, shown), np.fmax(high, shown)
        ends = _as_survival(found[place], band[place], drowned[place])
        band_low, band_high = _narrowed(*ends)
        mean = area(float(areas[place]), areas_apart[:, place], bool(known[place]))
        if mean.value is not None:
            assert mean.low is not None
            assert mean.high is not None
            mean = Measure(mean.value, max(mean.low, 0.0), min(mean.high, horizon))
        left = np.append(at_risk[place], table.cells[place, -1])
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
                np.maximum(isotonic_regression(left, increasing=False).x, 0.0),
                np.concatenate([[0.0], events[place]]),
                _median(times, survival, low, high, drowned[place], within.of(place)),
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
    table: TimeCounts, numbers: Numbers, draws: int = _DRAWS
) -> tuple[TimeCounts, TimeCounts]:
    """The bootstrap: a table for the truth (groups, ...), and tables drawn from it with records,
    their places and noise (draws, groups, ...). Places of records in a cell are drawn as if they
    were spread evenly on both sides of their mean, as far as [0, 1] allows."""
    counts, cells, quiet = redrawn_apart(table.cells, numbers, draws)
    drawn, expected = quiet[..., :-1], counts[..., :-1]
    generator, shape = np.random.default_rng(_SEED + 1), drawn.shape
    mean = np.clip(_shrunk(table.places, expected, numbers.noise), -0.5, 0.5)
    spread = np.sqrt(np.maximum((0.5 - mean) * (0.5 + mean) / 3, 0.0))
    places = drawn * mean + np.sqrt(drawn) * spread * generator.standard_normal(shape)
    noise = _noise(generator, numbers, shape)
    return TimeCounts(counts, expected * mean), TimeCounts(cells, places + noise)


def _shrunk(places: np.ndarray, counts: np.ndarray, noise: float) -> np.ndarray:
    """Mean centered places of counts of records, drawn to zero by how little is known of them."""
    known = (counts * _USUAL_SPREAD) ** 2
    return np.asarray(places * counts * _USUAL_SPREAD**2 / (known + noise**2 + counts / 12 + 1e-9))


def redrawn_apart(
    cells: np.ndarray, numbers: Numbers, draws: int = _DRAWS
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The bootstrap of counts alone: a table for the truth (groups, cells), tables drawn from it
    with records and noise (draws, groups, cells), and the same tables before their noise."""
    generator = np.random.default_rng(_SEED)
    records: Any = numbers.records
    count = max(1, round(float(cells.sum()) if records is None else records))
    chances = nearest_counts(cells, float(count)) + 0.5
    chances = chances / chances.sum()
    drawn = generator.multinomial(count, chances.ravel(), size=draws).astype(float)
    shape = drawn.shape
    noise = _noise(generator, numbers, shape)
    if records is not None:
        records = count + numbers.of_records * generator.standard_normal((draws, 1, 1))
    noisy, quiet = (own.reshape(draws, *cells.shape) for own in (drawn + noise, drawn))
    return count * chances, shifted(noisy, records), quiet


def _noise(generator: np.random.Generator, numbers: Numbers, shape: tuple[int, ...]) -> np.ndarray:
    if numbers.laplace:
        return generator.laplace(scale=numbers.noise / math.sqrt(2), size=shape)
    return numbers.noise * generator.standard_normal(shape)


def _rising(hazard: np.ndarray) -> np.ndarray:
    """The middle between the least curve above this one that never falls and the greatest below,
    from 0 on: the first alone would grow with the noise."""
    above = np.maximum.accumulate(hazard, axis=-1)
    below = np.minimum.accumulate(hazard[..., ::-1], axis=-1)[..., ::-1]
    return np.asarray(np.maximum((above + below) / 2, 0.0))


def _as_survival(
    hazard: np.ndarray, reach: np.ndarray, drowned: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Both ends, at time 0 too, of which nothing more is known: events then count in the first
    interval. Behind the last time that is estimable, its upper end still holds."""
    high = np.exp(-np.maximum(hazard - reach, 0.0))
    last = int(np.count_nonzero(~drowned))
    high = np.where(drowned, high[last - 1] if last else 1.0, high)
    low = np.where(drowned, 0.0, np.exp(-np.maximum(hazard + reach, 0.0)))
    return np.append(low[0], low), np.append(1.0, high)


def _narrowed(low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Ends that hold together: as survival never rises, an upper end holds for all later times, and
    a lower end for all earlier ones. Of single ends the least of several would hold less often."""
    high = np.minimum.accumulate(high)
    return np.minimum(np.maximum.accumulate(low[::-1])[::-1], high), high


class Within(NamedTuple):
    """Mean places (K,) of one group's events, or of all groups' (groups, K), in their intervals,
    their deviations, and whether places have gaps that those do not tell."""

    place: np.ndarray
    deviation: np.ndarray
    unknown: bool

    def of(self, group: int) -> "Within":
        return Within(self.place[group], self.deviation[group], self.unknown)

    def reached(self, interval: int, share: float, side: int) -> float:
        """Where in an interval this share of its fall is reached; with `side` -1 or 1 at the
        earliest or at the latest."""
        place = float(self.place[interval])
        if self.unknown and (side or place > 1 - _AT_AN_END):
            return (1.0 + (side or 1)) / 2
        place += side * _PLACE_DOUBT * float(self.deviation[interval])
        place = min(max(place, 0.02), 0.98)
        if side:
            return float(_earliest_and_latest(place, share)[(side + 1) // 2])
        return float(share ** ((1 - place) / place))


def _earliest_and_latest(place: float, share: float) -> tuple[float, float]:
    """Where in an interval a share of its fall may be reached, if the density of events falls or
    rises within it, by their mean place.

    A falling density on [0, 1] is a mixture of uniform ones on [0, b] with a mean b of twice the
    place. At x they have reached min(x / b, 1), so that mixtures lie between the least concave
    function of b above that and the largest convex one below it, which both are solved for x.

    >>> _earliest_and_latest(0.5, 0.25), _earliest_and_latest(0.25, 0.75)
    ((0.25, 0.25), (0.25, 0.5))
    """
    if place > 0.5:
        earliest, latest = _earliest_and_latest(1 - place, 1 - share)
        return 1 - latest, 1 - earliest
    mean = 2 * place
    latest = mean * share
    if share > 0.5:
        latest = mean / (4 * (1 - share)) if share < 1 else 1.0
        latest = latest if latest <= 0.5 else 1 - (1 - share) / mean
    return max(0.0, share - 1 + mean), latest


def _within(table: TimeCounts, noise: float, unknown: bool) -> Within:
    events = np.maximum(split(table.cells)[0], 0.0)
    own = noise**2 + events / 12 + 1e-9
    deviation = np.sqrt(_USUAL_SPREAD**2 * own / ((events * _USUAL_SPREAD) ** 2 + own))
    mean = np.clip(_shrunk(table.event_places, events, noise), -0.5, 0.5)
    return Within(0.5 + mean, deviation, unknown)


def _median(
    times: np.ndarray,
    survival: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    drowned: np.ndarray,
    within: Within,
) -> Measure:
    own = np.where(drowned, np.nan, survival)
    return Measure(
        _crossing(times, np.concatenate([[1.0], own]), within, 0),
        _crossing(times, np.append(1.0, low[1:]), within, -1),
        # The last time at which one half is inside.
        _crossing(times, np.maximum.accumulate(high[::-1])[::-1], within, 1),
    )


def _crossing(times: np.ndarray, survival: np.ndarray, within: Within, side: int) -> float | None:
    """Where a curve falls to one half.

    >>> even = Within(np.array([0.5, 0.5]), np.zeros(2), False)
    >>> _crossing(np.array([0.0, 1.0, 2.0]), np.array([1.0, 0.75, 0.25]), even, 0)
    1.5
    """
    below = np.flatnonzero(survival <= 0.5)
    if len(below) == 0 or np.isnan(survival[: below[0]]).any():
        return None
    place = int(below[0])
    before, after = survival[place - 1], survival[place]
    if after <= 0 and side < 0:  # too noisy to estimate, at any time from here on
        return float(times[place - 1])
    share = (before - 0.5) / (before - after)
    reached = within.reached(place - 1, share, side)
    return float(times[place - 1] + reached * (times[place] - times[place - 1]))


def as_text(found: Mapping[str, Any]) -> str:
    """A result's `kaplan_meier` as lines: each group's medians and means, then the curves."""
    percent = f"{100 * found['confidence']:g} %"
    lines = [
        f"probability of no event ({found['event']}) by each {found['time']} up to "
        f"{found['horizon']:g}, in the population of the records; {percent} intervals"
    ]
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


class Steps(NamedTuple):
    """What is drawn of a curve until it is too noisy to estimate: a curve of steps with the ends of
    its band at the same times, and at some of them the numbers at risk."""

    times: list[float]
    values: list[float]
    low: list[float]
    high: list[float]
    at_risk: list[tuple[float, float]]


def steps(curve: Mapping[str, Any]) -> Steps:
    """Between two times survival is no higher than at the first, and no lower than at the second:
    so far the band holds at all times."""
    last = sum(map(bool, curve["determined"]))
    columns = (curve["times"], curve["survival"], *curve["band"], curve["at_risk"])
    times, values, low, high, left = ([float(one) for one in own[:last]] for own in columns)
    chosen: list[int] = []
    for place, time in enumerate(times):
        if not chosen or time - times[chosen[-1]] >= curve["times"][-1] / 7:
            chosen.append(place)
    return Steps(
        [times[0], *(one for time in times[1:] for one in (time, time))],
        [*(one for value in values[:-1] for one in (value, value)), values[-1]],
        [*(one for end in low[1:] for one in (end, end)), low[-1]],
        [*(one for end in high[:-1] for one in (end, end)), high[-1]],
        [(times[place], left[place]) for place in chosen],
    )


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
    "TimeCounts",
    "as_text",
    "cumulative_hazard",
    "curve_rows",
    "estimate",
    "log_rank_text",
    "measure_text",
    "median_text",
    "nearest_counts",
    "redrawn",
    "redrawn_apart",
    "restricted_means",
    "shifted",
    "split",
    "steps",
]
