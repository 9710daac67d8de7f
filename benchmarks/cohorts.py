"""Cohorts for the benchmark of hazard ratios, and Cox's regression without privacy beside them.

Three simulated designs. Constants of the method were looked at on the first one alone; the other
two were written down before they were run.

    mixed      eight columns: correlated numbers, a skewed one, a rare value (3 %), 55 % events
    unequal    six columns, one of them with four values; whoever is in one arm or old is censored
               sooner; a falling hazard (Weibull, shape .8), about a third of records have events
    sparse     five columns: a number with a heavy tail at 3 % of its range, a rare value (3 %) that
               goes with it, rising hazards (shape 1.6), one record in five has an event

`cox` is the partial likelihood with Breslow's ties, and `harrell` the concordance of all pairs.
"""

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from scipy.stats import norm


class Cohort(NamedTuple):
    """Columns by name, categories as places of their values; times and events."""

    columns: Mapping[str, np.ndarray]
    time: np.ndarray
    event: np.ndarray


class Design(NamedTuple):
    """A law of cohorts: `bounds` of numbers, `values` of categories, coefficients in their order
    (numbers first, a category's first value is the reference), and a draw of n records."""

    bounds: Mapping[str, tuple[float, float]]
    values: Mapping[str, tuple[str, ...]]
    truth: np.ndarray
    horizon: float
    draw: Callable[[int, np.random.Generator], Cohort]

    def matrix(self, own: Cohort) -> np.ndarray:
        """Features (n, d) as coefficients count them."""
        parts = [own.columns[name][:, None] for name in self.bounds]
        for name, values in self.values.items():
            parts.append(own.columns[name][:, None] == np.arange(1, len(values)))
        return np.concatenate(parts, axis=1).astype(float)

    def frame(self, own: Cohort) -> dict[str, np.ndarray]:
        """As `HazardRatios.fit` takes it."""
        made = {"time": own.time, "event": own.event}
        made |= {name: own.columns[name] for name in self.bounds}
        for name, values in self.values.items():
            made[name] = np.array(values)[own.columns[name]]
        return made


def _followed(risk, shape, scale, censored, generator) -> tuple[np.ndarray, np.ndarray]:
    time = generator.weibull(shape, len(risk)) * scale * np.exp(-risk / shape)
    return np.minimum(time, censored), (time <= censored).astype(int)


def _mixed(n: int, generator: np.random.Generator) -> Cohort:
    g = generator.standard_normal((n, 4))
    g[:, 3] = 0.5 * g[:, 2] + math.sqrt(0.75) * g[:, 3]
    g[:, 1] = 0.3 * g[:, 0] + math.sqrt(0.91) * g[:, 1]
    numbers = [norm.cdf(0.8 * g[:, 0]), np.exp(-2.9 + 0.6 * g[:, 1]), 0.3 + 0.12 * g[:, 2]]
    numbers = np.clip(np.column_stack([*numbers, 0.65 + 0.1 * g[:, 3]]), 0, 1)
    shares = np.array([0.5, 0.3, 0.03, 0.5])
    whole = np.column_stack([numbers, generator.random((n, 4)) < shares])
    risk = (whole - np.array([0.5, 0.066, 0.3, 0.65, *shares])) @ MIXED_TRUTH
    censored = generator.exponential(15, n)
    time, event = _followed(risk, 1.3, 9.0, censored, generator)
    names = ("age", "skewed", "n1", "n2", "half", "third", "rare", "arm")
    columns = dict(zip(names, whole.T, strict=True))
    return Cohort(
        {name: own if k < 4 else own.astype(int) for k, (name, own) in enumerate(columns.items())},
        time,
        event,
    )


def _unequal(n: int, generator: np.random.Generator) -> Cohort:
    age = np.clip(generator.normal(62, 11, n), 18, 95)
    mass = np.clip(generator.normal(27, 4.5, n) + 0.05 * (age - 62), 15, 60)
    arm, sex = generator.integers(0, 2, n), (generator.random(n) < 0.4).astype(int)
    stage = np.searchsorted(np.cumsum([0.4, 0.3, 0.2]), generator.random(n))
    columns = {"age": age, "mass": mass, "arm": arm, "sex": sex, "stage": stage}
    steps = np.concatenate([[0.0], UNEQUAL_TRUTH[4:]])
    slopes = UNEQUAL_TRUTH[:4]
    risk = np.column_stack([age - 62, mass - 27, arm, sex]) @ slopes + steps[stage]
    sooner = np.where(arm == 1, 20.0, 60.0) * np.exp(-0.03 * (age - 62))
    censored = np.minimum(generator.exponential(sooner), generator.uniform(24, 72, n))
    return Cohort(columns, *_followed(risk, 0.8, 90.0, censored, generator))


def _sparse(n: int, generator: np.random.Generator) -> Cohort:
    marker = np.clip(np.exp(generator.normal(0, 1, n)), 0, 100)
    score = np.clip(generator.beta(2, 5, n) * 10, 0, 10)
    rare = (generator.random(n) < np.clip(0.022 * marker**0.5, 0, 1)).astype(int)
    smokes, woman = (generator.random(n) < 0.2).astype(int), generator.integers(0, 2, n)
    columns = {"marker": marker, "score": score, "rare": rare, "smokes": smokes, "woman": woman}
    middle = np.array([1.6, 2.9, 0.0, 0.0, 0.0])
    risk = (np.column_stack(list(columns.values())) - middle) @ SPARSE_TRUTH
    censored = generator.exponential(12, n)
    return Cohort(columns, *_followed(risk, 1.6, 16.0, censored, generator))


MIXED_TRUTH = np.array([0.4 / 0.246, 0.25 / 0.043, 0.0, -2.5, 0.0, 0.4, 0.6, -0.35])
UNEQUAL_TRUTH = np.array([0.025, 0.0, -0.4, 0.3, 0.2, 0.5, 0.9])
SPARSE_TRUTH = np.array([0.08, 0.15, 0.6, 0.0, -0.3])
_TWO = ("0", "1")

DESIGNS = {
    "mixed": Design(
        dict.fromkeys(("age", "skewed", "n1", "n2"), (0.0, 1.0)),
        dict.fromkeys(("half", "third", "rare", "arm"), _TWO),
        MIXED_TRUTH,
        10.0,
        _mixed,
    ),
    "unequal": Design(
        {"age": (18.0, 95.0), "mass": (15.0, 60.0)},
        {"arm": _TWO, "sex": _TWO, "stage": ("I", "II", "III", "IV")},
        UNEQUAL_TRUTH,
        60.0,
        _unequal,
    ),
    "sparse": Design(
        {"marker": (0.0, 100.0), "score": (0.0, 10.0)},
        dict.fromkeys(("rare", "smokes", "woman"), _TWO),
        SPARSE_TRUTH,
        10.0,
        _sparse,
    ),
}


class Fit(NamedTuple):
    coefficients: np.ndarray
    std_error: np.ndarray


def cox(features: np.ndarray, time: np.ndarray, event: np.ndarray, horizon: float) -> Fit:
    """The maximum of the partial likelihood of events up to the horizon, by Newton steps."""
    order = np.argsort(-time, kind="stable")
    x = features[order] - features.mean(axis=0)
    died = ((event > 0) & (time <= horizon))[order]
    # Who is at risk at an event: all up to the last record with the same time.
    last = np.searchsorted(-time[order], -time[order], side="right") - 1
    beta = np.zeros(x.shape[1])
    for _ in range(25):
        risk = np.exp(x @ beta)
        s0 = np.cumsum(risk)[last][died]
        s1 = np.cumsum(risk[:, None] * x, axis=0)[last][died] / s0[:, None]
        # The weight of a record is the sum of 1 / s0 over the events that it is at risk for.
        shares = np.bincount(last[died], 1 / s0, minlength=len(x))
        weights = risk * np.cumsum(shares[::-1])[::-1]
        information = (x * weights[:, None]).T @ x - s1.T @ s1
        step = np.linalg.solve(information, x[died].sum(axis=0) - s1.sum(axis=0))
        beta = beta + step
        if np.abs(step).max() < 1e-9:
            break
    return Fit(beta, np.sqrt(np.diag(np.linalg.inv(information))))


def harrell(scores: np.ndarray, time: np.ndarray, event: np.ndarray, horizon: float) -> float:
    """Of all pairs of which the sooner is an event, how often it has the higher score; ties count
    one half (Harrell 1982). Whoever is seen after the horizon counts as censored there."""
    happened = (event > 0) & (time <= horizon)
    seen = np.where(time > horizon, horizon, time) + np.where(happened, 0.0, 1e-12 * horizon)
    order = np.argsort(-seen, kind="stable")
    values, ranks = np.unique(scores[order], return_inverse=True)
    counts, size = np.zeros(len(values) + 1), len(values)
    tree = np.zeros(size + 1)

    def below(rank: int) -> float:
        total, place = 0.0, rank
        while place > 0:
            total += tree[place]
            place -= place & -place
        return total

    good = pairs = 0.0
    inside, start = 0, 0
    times = seen[order]
    while start < len(times):
        end = start
        while end < len(times) and times[end] == times[start]:
            end += 1
        for place in range(start, end):
            if happened[order[place]]:
                rank = int(ranks[place])
                less, same = below(rank), counts[rank]
                good += less + same / 2
                pairs += inside
        for place in range(start, end):
            rank = int(ranks[place])
            counts[rank] += 1
            inside += 1
            at = rank + 1
            while at <= size:
                tree[at] += 1
                at += at & -at
        start = end
    return good / pairs
