"""Do 95 % intervals contain the truth in tables that nobody tuned a method on?

    python benchmarks/strangers.py [--quick | --smoke] [--family counts ...] [--setting W500 ...]
        [--simulations 200] [--salt word] [--repeat] [--output build/strangers.jsonl]

Every setting calls the functions that users call, with every default and delta 1e-6. The truth is
the coefficient where the model holds; otherwise it is the usual estimate from a million records,
clipped to the same bounds. Beside it stands the usual analysis without privacy on the same records:
maximum likelihood or least squares with sandwich errors (statsmodels, if it is installed), Cox's
regression, Kaplan-Meier with Greenwood's error, the log-rank test, DeLong's error of an AUC, order
statistics. For quantiles of the records it is the exponential mechanism's interval.

Settings named N... were written down by a person who had not read the methods, and before any
setting was run. The others are earlier reports of failures and of settings that held. Seeds depend
on the setting, the number of the simulation and --salt.

For a real table (family `tables`) records are fixed and only noise varies. The question there is
whether the interval contains the estimate without privacy.

Columns of a printed table: coverage pooled over slopes; the worst slope; the intercept; the same
pooled coverage without privacy; the median width over the width without privacy; the share that
was not estimable; the share of fits with a warning. "Not estimable" is a miss where the effect
exceeds six predicted standard errors: the error without privacy times the setting's median width.
With --repeat, 1,000 fresh simulations repeat each setting in which something covers below .93.
"""

import argparse
import csv
import gzip
import importlib.util
import json
import math
import sys
import time
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logit
from scipy.stats import chi2, norm

import figures
import unisono
from cohorts import cox
from datasets import data_folder
from unisono.accounting.accountant import ACCOUNTANT
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy

SCORECARD = figures.Benchmark(
    quick=("--simulations", "4"), full=("--simulations", "200"), seconds=28800
)
DELTA, MANY, Z = 1e-6, 1_000_000, float(norm.ppf(0.975))
SHARES = np.array([0.4, 0.25, 0.2, 0.1, 0.05])
ROOT = Path(__file__).parent.parent
Generator = np.random.Generator
Array = np.ndarray

# ------------------------------------------------------------- regressions: designs


class Model(NamedTuple):
    """A law of records. `x(g, n)` are columns, clipped to `bounds`, one pair or a pair each;
    `y(eta, x, g)` are outcomes at eta = beta[0] + x beta[1:]. With `projection` the model does not
    hold: outcomes follow unclipped columns, and the truth is estimated from many records."""

    family: str
    x: Callable[[Generator, int], Array]
    bounds: Any
    beta: tuple[float, ...]
    y: Callable[[Array, Array, Generator], Array]
    target: tuple[float, float] = (0.0, 1.0)
    n: int = 8000
    epsilon: float = 1.0
    projection: bool = False
    exposure: Callable[[Generator, int], Array] | None = None
    exposure_bounds: tuple[float, float] | None = None
    parties: int = 1


def normals(columns: int, correlation: float = 0.0) -> Callable[[Generator, int], Array]:
    def drawn(g: Generator, n: int) -> Array:
        common, own = g.standard_normal((n, 1)), g.standard_normal((n, columns))
        return math.sqrt(correlation) * common + math.sqrt(1 - correlation) * own

    return drawn


def with_indicators(columns: int, *shares: float) -> Callable[[Generator, int], Array]:
    return lambda g, n: np.column_stack(
        [g.standard_normal((n, columns)), g.random((n, len(shares))) < np.array(shares)]
    )


def ends(columns: int, indicators: int = 0, end: float = 4.0) -> list[tuple[float, float]]:
    return [(-end, end)] * columns + [(0.0, 1.0)] * indicators


def bernoulli(eta: Array, x: Array, g: Generator) -> Array:
    return (g.random(len(eta)) < expit(eta)).astype(float)


def risk(eta: Array, x: Array, g: Generator) -> Array:
    return (g.random(len(eta)) < eta).astype(float)


def plain_errors(eta: Array, x: Array, g: Generator) -> Array:
    return eta + g.standard_normal(len(eta))


def pure(eta: Array, x: Array, g: Generator) -> Array:
    return g.poisson(np.exp(eta)).astype(float)


def negative_binomial(alpha: float, largest: float = np.inf) -> Callable[..., Array]:
    def drawn(eta: Array, x: Array, g: Generator) -> Array:
        return np.minimum(
            g.poisson(np.exp(eta) * g.gamma(1 / alpha, alpha, len(eta))), largest
        ).astype(float)

    return drawn


def _collinear(g: Generator, n: int) -> Array:
    return np.column_stack([normals(3, 0.98)(g, n), g.standard_normal(n)])


def _skew(g: Generator, n: int) -> Array:
    return np.column_stack([g.gamma(1.5, 1.0, n), g.standard_normal(n), g.random(n) < 0.4])


def _student(g: Generator, n: int) -> Array:
    return g.standard_t(3, (n, 4))


def _ages(g: Generator, n: int) -> Array:
    age, sex = g.uniform(18, 95, n), (g.random(n) < 0.5).astype(float)
    return np.column_stack([age, age**2, sex, age * sex])


def _heavy(g: Generator, n: int) -> Array:
    return np.column_stack([g.lognormal(2, 1.5, n), g.lognormal(1, 1.5, n), normals(2)(g, n)])


def _no_events(eta: Array, x: Array, g: Generator) -> Array:
    return np.where(x[:, -1] == 1, 0.0, bernoulli(eta, x, g))


def _cauchit(eta: Array, x: Array, g: Generator) -> Array:
    return (g.random(len(eta)) < 0.5 + np.arctan(eta) / math.pi).astype(float)


def _bent(eta: Array, x: Array, g: Generator) -> Array:
    return bernoulli(eta + 0.5 * (x[:, 0] - 1.5) * x[:, 1] + 0.2 * x[:, 1] ** 2, x, g)


def _binomial(x: Any, bounds: Any, *beta: float, y: Any = bernoulli, **more: Any) -> Model:
    return Model("binomial", x, bounds, beta, y, **more)


def _indicator(effect: float, share: float = 0.1, **more: Any) -> Model:
    """Two numbers and a strong indicator."""
    return _binomial(with_indicators(2, share), ends(2, 1), -0.5, 0.4, -0.3, effect, **more)


_BIG: dict[str, Any] = {"n": 40_000, "epsilon": 3.0}
_FOUR, _MILD = ends(4), (-0.5, 0.4, -0.3, 0.2, 0.0)
BINOMIAL = {
    "B1 t3 columns": _binomial(_student, (-15, 15), *_MILD),
    "B2 omitted terms": _binomial(
        _skew, [(0, 12), (-4, 4), (0, 1)], -0.8, 0.3, 0.4, 0.5, y=_bent, projection=True
    ),
    "B2 omitted terms, large": _binomial(
        _skew, [(0, 12), (-4, 4), (0, 1)], -0.8, 0.3, 0.4, 0.5, y=_bent, projection=True, **_BIG
    ),
    "B3 bounds 20 times wide": _binomial(normals(4), (-80, 80), *_MILD),
    "B4 bounds clip 5 %": _binomial(normals(4), (-1.96, 1.96), *_MILD, projection=True),
    "B5 collinear .98": _binomial(_collinear, _FOUR, -0.5, 0.6, -0.4, 0.0, 0.3),
    "B6 scores of sd 3": _binomial(normals(4), _FOUR, -0.5, 2.0, -1.7, 1.4, 0.0),
    "B6b scores of sd 8": _binomial(normals(4), _FOUR, -0.5, 5.4, -4.5, 3.7, 0.0),
    "B6c no events, epsilon 1": _indicator(-np.inf)._replace(y=_no_events),
    "B6c no events, epsilon 3": _indicator(-np.inf, epsilon=3.0)._replace(y=_no_events),
    "B7 scales 1e-6 to 1e6": _binomial(
        lambda g, n: normals(3)(g, n) * np.array([1e-6, 1.0, 1e6]),
        [(-4e-6, 4e-6), (-4, 4), (-4e6, 4e6)],
        *(-0.5, 0.4e6, -0.3, 0.0),
    ),
    "B8 rare indicators": _binomial(
        with_indicators(0, 0.005, 0.01, 0.99, 0.5), ends(0, 4), -0.5, 0.5, 0.0, 0.3, 0.4
    ),
    "B9 null, 8 columns": _binomial(normals(8), ends(8), -0.5, *[0.0] * 8),
    "B10 age squared": _binomial(
        _ages, [(18, 95), (324, 9025), (0, 1), (0, 95)], -3.0, 0.08, -0.0006, 0.5, -0.01
    ),
    "B11 lognormal columns": _binomial(
        _heavy, [(0, 2000), (0, 2000), (-4, 4), (-4, 4)], -0.7, 0.01, 0.0, 0.3, -0.2
    ),
    "B12 outcome 1.5 %": _binomial(normals(4), _FOUR, -4.3, *_MILD[1:], n=20_000),
    "B13 cauchit link": _binomial(normals(4), _FOUR, *_MILD, y=_cauchit, projection=True),
    "BI log-OR -3": _indicator(-3.0),
    "BI log-OR -4, large": _indicator(-4.0, **_BIG),
    "BI log-OR -4, 30 %, large": _indicator(-4.0, 0.3, **_BIG),
    "BI log-OR +4": _indicator(4.0),
    "BI log-OR +5, large": _indicator(5.0, **_BIG),
    "small 500, epsilon .5": _binomial(normals(3), ends(3), *_MILD[:4], n=500, epsilon=0.5),
    "small 500, epsilon 1": _binomial(normals(3), ends(3), *_MILD[:4], n=500),
    "small 500, epsilon 3": _binomial(normals(3), ends(3), *_MILD[:4], n=500, epsilon=3.0),
    "small 1,000": _binomial(normals(3), ends(3), *_MILD[:4], n=1000),
}


def _doses(g: Generator, n: int) -> Array:
    dose = np.where(g.random(n) < 0.7, 0.0, g.lognormal(2.5, 0.9, n))
    return np.column_stack([dose, g.normal(60, 12, n), g.random(n) < 0.45])


def _stages(g: Generator, n: int) -> Array:
    stage = np.searchsorted(np.cumsum([0.05, 0.35, 0.3, 0.2]), g.random(n))
    return np.column_stack([stage[:, None] == np.arange(1, 5), g.standard_normal(n)])


def _treated(g: Generator, n: int) -> Array:
    age, arm = np.round(g.normal(64, 13, n)).clip(18, 95), (g.random(n) < 0.5).astype(float)
    return np.column_stack([age, arm, age * arm, g.random(n) < 0.08])


def _gompit(eta: Array, x: Array, g: Generator) -> Array:
    return (g.random(len(eta)) < -np.expm1(-np.exp(eta))).astype(float)


BINOMIAL |= {
    "NB1 rare strong symptom": _binomial(
        with_indicators(2, 0.04, 0.5), ends(2, 2), -4.0, 0.4, 0.0, 3.0, -0.3, n=20_000
    ),
    "NB2 zero-inflated dose": _binomial(
        _doses, [(0, 200), (18, 100), (0, 1)], -3.2, 0.03, 0.03, -0.4
    ),
    "NB3 reference of 5 %": _binomial(
        _stages, [(0, 1)] * 4 + [(-4, 4)], -1.5, 0.0, 0.3, 0.6, 0.9, 0.25
    ),
    "NB4 outcome 85 %, effect by age": _binomial(
        _treated, [(18, 95), (0, 1), (0, 95), (0, 1)], 4.0, -0.04, -1.2, 0.02, 1.0
    ),
    "NB5 log-log link, 5 parties": _binomial(
        normals(6, 0.7),
        ends(6),
        *(-1.2, 0.3, 0.0, -0.2, 0.2, 0.0, 0.1),
        **{"y": _gompit, "projection": True, "n": 6000, "epsilon": 2.0, "parties": 5},
    ),
}


def _gaussian(x: Any, bounds: Any, *beta: float, **more: Any) -> Model:
    return Model("gaussian", x, bounds, beta, **({"y": plain_errors} | more))


def _lognormal_errors(spread: float) -> Callable[..., Array]:
    middle = math.exp(spread**2 / 2)
    return lambda eta, x, g: eta + g.lognormal(0, spread, len(eta)) - middle


def _stays(eta: Array, x: Array, g: Generator) -> Array:
    """Lognormal stays of which one arm's have a longer tail; eta is the mean."""
    spread = np.where(x[:, 0] == 1, 1.0, 0.6)
    return eta * np.exp(spread * g.standard_normal(len(eta)) - spread**2 / 2)


def _costs(eta: Array, x: Array, g: Generator) -> Array:
    paid = eta / 0.6 * g.lognormal(-0.5, 1.0, len(eta))
    return np.where(g.random(len(eta)) < 0.4, 0.0, paid)


def _omitted(eta: Array, x: Array, g: Generator) -> Array:
    return plain_errors(eta + 0.5 * (x[:, 0] - 1.5) ** 2 + 0.5 * x[:, 0] * x[:, 1], x, g)


def _humps(eta: Array, x: Array, g: Generator) -> Array:
    return eta + g.choice([-1.5, 1.5], len(eta)) + 0.3 * g.standard_normal(len(eta))


def _uniforms(g: Generator, n: int) -> Array:
    return g.random((n, 3))


_ARM = with_indicators(0, 0.5, 0.3)
_LINE: tuple[float, ...] = (1.0, 0.5, -0.3, 0.2, 0.0)
GAUSSIAN = {
    "G1 t3 columns and errors": _gaussian(
        _student, (-15, 15), *_LINE, y=lambda e, x, g: e + g.standard_t(3, len(e)), target=(-40, 40)
    ),
    "G2 sd exp(.6 x)": _gaussian(
        normals(4),
        _FOUR,
        *_LINE,
        y=lambda e, x, g: e + np.exp(0.6 * x[:, 0]) * g.standard_normal(len(e)),
        target=(-40, 40),
    ),
    "G3 gamma, sd = mean": _gaussian(
        _uniforms, (0, 1), 1, 3, 1, 0, y=lambda e, x, g: g.exponential(e), target=(0, 60)
    ),
    "G9 risk difference": _gaussian(_ARM, (0, 1), 0.1, 0.06, 0.0, y=risk),
    "G9 risk difference, large": _gaussian(_ARM, (0, 1), 0.1, 0.06, 0.0, y=risk, **_BIG),
    "GL 0/1 outcome of 30 %": _gaussian(_ARM, (0, 1), 0.25, 0.1, 0.05, y=risk),
    "GS length of stay": _gaussian(_ARM, (0, 1), 4.0, 1.3, 0.5, y=_stays, target=(0, 90)),
    "G10 costs": _gaussian(_ARM, (0, 1), 1.2, 0.54, 0.0, y=_costs, target=(0, 60)),
    "G10 costs, large": _gaussian(_ARM, (0, 1), 1.2, 0.54, 0.0, y=_costs, target=(0, 60), **_BIG),
    "G4 omitted square": _gaussian(
        _skew,
        [(0, 12), (-4, 4), (0, 1)],
        *(0.0, 0.5, 0.3, 0.4),
        **{"y": _omitted, "target": (-60, 60), "projection": True},
    ),
    "G11 pain 0 to 10": _gaussian(
        with_indicators(2, 0.5),
        ends(2, 1),
        *(1.0, 1.2, 0.5, -1.0),
        y=lambda e, x, g: np.clip(np.round(e + 2 * g.standard_normal(len(e))), 0, 10),
        target=(0, 10),
        projection=True,
    ),
    "G7 target clipped 5 %": _gaussian(normals(4), _FOUR, *_LINE, target=(-1, 3), projection=True),
    "GK lognormal errors": _gaussian(
        normals(4), _FOUR, *_LINE, y=_lognormal_errors(1.0), target=(-20, 60)
    ),
    "G5 two humps": _gaussian(normals(4), _FOUR, *_LINE, y=_humps, target=(-20, 20)),
    "G6 bounds 20 times wide": _gaussian(normals(4), (-80, 80), *_LINE, target=(-100, 100)),
    "G8 R2 .99": _gaussian(normals(4), _FOUR, 1.0, 7.0, -6.0, 4.0, 0.0, target=(-60, 60)),
    "plain": _gaussian(normals(4), _FOUR, *_LINE, target=(-10, 10)),
    "plain, large": _gaussian(normals(4), _FOUR, *_LINE, target=(-10, 10), **_BIG),
    "small 1,000": _gaussian(normals(3), ends(3), *_LINE[:4], target=(-10, 10), n=1000),
}


def _clinic(g: Generator, n: int) -> Array:
    age, diabetes = g.normal(60, 12, n), (g.random(n) < 0.25).astype(float)
    return np.column_stack([age, diabetes, g.gamma(4, 1.5, n)])


def _decline(eta: Array, x: Array, g: Generator) -> Array:
    """Declines, longer tailed to the left with diabetes and with age."""
    shape = np.where(x[:, 1] == 1, 0.8, 6.0) * np.exp(-(x[:, 0] - 60) / 40)
    return eta - 8 * (g.gamma(shape) - shape) / np.sqrt(shape)


def _heaped(eta: Array, x: Array, g: Generator) -> Array:
    smoked = np.maximum(eta + 9 * g.standard_normal(len(eta)), 0)
    coarse = np.round(smoked / 10) * 10
    return np.where(g.random(len(eta)) < 0.7, coarse, np.round(smoked))


def _pressure(eta: Array, x: Array, g: Generator) -> Array:
    read = eta + 14 * g.standard_normal(len(eta))
    return np.where(g.random(len(eta)) < 0.5, np.round(read / 10) * 10, np.round(read))


def _charges(eta: Array, x: Array, g: Generator) -> Array:
    return eta * g.lognormal(-0.18, 0.6, len(eta))


_CLINIC = [(18, 100), (0, 1), (0, 40)]
GAUSSIAN |= {
    "NG1 skew by diabetes and age": _gaussian(
        _clinic, _CLINIC, 80, -0.4, -5.0, 0.3, y=_decline, target=(-60, 140)
    ),
    "NG2 heaped cigarettes": _gaussian(
        _clinic, _CLINIC, 5, -0.1, 3, 0.4, y=_heaped, target=(0, 60), projection=True
    ),
    "NG3 rare transplant": _gaussian(
        with_indicators(1, 0.01, 0.5), ends(1, 2), 8, 1, 80, -1, y=_charges, target=(0, 400)
    ),
    "NG4 rounded pressure, 5 parties": _gaussian(
        _clinic, _CLINIC, 95, 0.5, 6, 0.4, y=_pressure, target=(60, 260), n=4000, parties=5
    ),
    "NG5 detection limit": _gaussian(
        _clinic,
        _CLINIC,
        *(2.5, 0.0, 0.5, 0.1),
        y=lambda e, x, g: np.maximum(e + 1.1 * g.standard_normal(len(e)), 1.7),
        target=(0, 8),
        epsilon=2.0,
        projection=True,
    ),
}


def _poisson(largest: float, *beta: float, **more: Any) -> Model:
    usual = {"x": normals(len(beta) - 1), "bounds": ends(len(beta) - 1), "y": pure}
    return Model("poisson", beta=beta, target=(0.0, largest), **(usual | more))


def _inflated(share: float, alpha: float = 0.0) -> Callable[..., Array]:
    def drawn(eta: Array, x: Array, g: Generator) -> Array:
        """A structural zero in a share that depends on x; the mean is not log-linear."""
        zero = g.random(len(eta)) < expit(logit(share) + 0.5 * x[:, 0])
        counts = negative_binomial(alpha)(eta, x, g) if alpha else pure(eta, x, g)
        return np.where(zero, 0.0, counts)

    return drawn


def _spread_years(g: Generator, n: int) -> Array:
    return np.exp(g.uniform(0, math.log(1000), n))


def _near_years(g: Generator, n: int) -> Array:
    return g.lognormal(1.0, 0.4, n).clip(1, 10)


_COUNT = (0.5, 0.25, -0.2, 0.15, 0.0)
_RATE = {"exposure": _spread_years, "exposure_bounds": (1.0, 1000.0)}
_YEARS = {"exposure": _near_years, "exposure_bounds": (1.0, 1000.0)}
COUNTS = {
    **{f"W{end} pure": _poisson(end, *_COUNT) for end in (20, 32, 60, 100, 200, 500)},
    **{
        f"V{end} alpha .5, cut at 32": _poisson(
            end, *_COUNT, y=negative_binomial(0.5, 32), projection=True
        )
        for end in (32, 64, 150)
    },
    "N1_32 alpha 1": _poisson(32, *_COUNT, y=negative_binomial(1.0), projection=True),
    "PN0.5 alpha .5": _poisson(150, *_COUNT, y=negative_binomial(0.5)),
    "PN1 alpha 1": _poisson(150, *_COUNT, y=negative_binomial(1.0)),
    "P1 alpha 3": _poisson(100, *_COUNT, y=negative_binomial(3.0)),
    "P2 zero-inflated": _poisson(60, *_COUNT, y=_inflated(0.6), projection=True),
    "P3 mean 150": _poisson(1000, 4.9, 0.25, -0.2, 0.15, 0.0),
    "P4 mean .03": _poisson(10, -3.6, 0.25, -0.2, 0.15, 0.0),
    "P6 exposure 1 to 1,000": _poisson(200, -4.5, 0.4, -0.2, 0.0, **_RATE),
    "PX exposure, wide bounds": _poisson(200, -0.6, 0.4, -0.2, 0.0, **_YEARS),
    "PXb exposure, tight bounds": _poisson(
        30, -0.6, 0.4, -0.2, 0.0, **(_YEARS | {"exposure_bounds": (1.0, 10.0)})
    ),
    "P7 risk ratio": _poisson(
        1, -1.6, 0.3, 0.2, x=_ARM, bounds=(0, 1), y=lambda e, x, g: risk(np.exp(e), x, g)
    ),
    "PB log-RR -2": _poisson(
        32, 0.5, 0.25, -0.2, -2.0, x=with_indicators(2, 0.1), bounds=ends(2, 1)
    ),
    "P5 omitted interaction": _poisson(
        100,
        *_COUNT,
        y=lambda e, x, g: pure(e + 0.3 * x[:, 0] * x[:, 1], x, g),
        projection=True,
    ),
}


def _varying(eta: Array, x: Array, g: Generator) -> Array:
    alpha = np.exp(-1.0 + 0.7 * x[:, 0])
    return g.poisson(np.exp(eta) * g.gamma(1 / alpha, alpha)).astype(float)


def _absences(eta: Array, x: Array, g: Generator) -> Array:
    days = negative_binomial(1.5)(eta, x, g)
    return np.where((days > 3) & (g.random(len(eta)) < 0.6), np.round(days / 7) * 7, days)


COUNTS |= {
    "NP1 falls, 80 % zeros": _poisson(60, 0.4, *_COUNT[1:], y=_inflated(0.7, 0.8), projection=True),
    "NP2 rare RR 4, skewed years": _poisson(
        50,
        *(-1.0, 0.3, 0.0, 1.4),
        x=with_indicators(2, 0.02),
        bounds=ends(2, 1),
        exposure=lambda g, n: g.gamma(0.7, 2.0, n).clip(0.02, 10),
        exposure_bounds=(0.02, 10.0),
    ),
    "NP3 dispersion by x": _poisson(400, 2.4, 0.2, -0.3, 0.0, y=_varying),
    "NP4 mean .2, 5 parties": _poisson(15, -1.7, 0.4, 0.0, -0.3, n=6000, epsilon=2.0, parties=5),
    "NP5 heaped absences": _poisson(365, 1.5, 0.3, -0.2, 0.0, y=_absences, projection=True),
}


# ------------------------------------------------------------- times: designs


class Times(NamedTuple):
    """A law of times. `draw(g, n)` gives the uncensored times, the censoring times and groups. With
    `null` hazards are equal, and the log-rank test should reject in 5 %. `grid` is the distance of
    visits at which events and censoring are recorded."""

    draw: Callable[[Generator, int], tuple[Array, Array, Array]]
    horizon: float
    groups: int = 2
    null: bool = False
    grid: float = 0.0
    n: int = 2000
    epsilon: float = 1.0
    at: float = 0.0
    parties: int = 1


def _arms(g: Generator, n: int, share: float = 0.5) -> Array:
    return (g.random(n) < share).astype(int)


def _dropout(g: Generator, n: int) -> tuple[Array, Array, Array]:
    arm = _arms(g, n)
    return g.exponential(30, n), g.exponential(np.where(arm == 1, 20, 60)), arm


def _mostly_censored(g: Generator, n: int) -> tuple[Array, Array, Array]:
    return g.exponential(100, n), g.uniform(0, 24, n), _arms(g, n)


def _small_arm(g: Generator, n: int) -> tuple[Array, Array, Array]:
    return g.exponential(10, n), g.exponential(20, n), _arms(g, n, 0.05)


def _early_unequal(g: Generator, n: int) -> tuple[Array, Array, Array]:
    arm = _arms(g, n)
    return g.exponential(10, n), g.exponential(np.where(arm == 1, 3, 30)), arm


def _curved(g: Generator, n: int) -> tuple[Array, Array, Array]:
    arm = _arms(g, n)
    late = np.where(arm == 1, 4 + g.exponential(2, n), g.exponential(25, n))
    return 10 * g.weibull(1.3, n), late, arm


def _ties(g: Generator, n: int) -> tuple[Array, Array, Array]:
    arm = _arms(g, n)
    return g.exponential(np.where(arm == 1, 29, 20)), g.exponential(50, n), arm


def _crossing(g: Generator, n: int) -> tuple[Array, Array, Array]:
    arm = _arms(g, n)
    return (
        np.where(arm == 1, 10 * g.weibull(2.2, n), 10 * g.weibull(0.8, n)),
        g.uniform(8, 30, n),
        arm,
    )


def _early(g: Generator, n: int) -> tuple[Array, Array, Array]:
    soon = g.random(n) < 0.5
    time = np.where(soon, g.uniform(0, 1.8, n), 1.8 + g.exponential(40, n))
    return time, g.uniform(20, 80, n), _arms(g, n)


def _administrative(g: Generator, n: int) -> tuple[Array, Array, Array]:
    closed = np.where(g.random(n) < 0.75, 12.0, 30.0)
    return 20 * g.weibull(1.1, n), closed, _arms(g, n)


CURVES = {
    "L1 visits, 2,000": Times(_dropout, 36, null=True, grid=6),
    "L1 visits, 8,000, epsilon 3": Times(_dropout, 36, null=True, grid=6, n=8000, epsilon=3.0),
    "L2 90 % censored": Times(_mostly_censored, 24, null=True),
    "L3 groups 95 : 5": Times(_small_arm, 20, null=True),
    "L4 early unequal censoring": Times(_early_unequal, 20, null=True),
    "L5 curved share at risk": Times(_curved, 15, null=True),
    "K1 visits": Times(_ties, 36, grid=3),
    "K3 crossing curves": Times(_crossing, 20, null=True),
    "K4 early deaths": Times(_early, 60),
    "K6 closed at 12, 2,000": Times(_administrative, 30, groups=1, at=12),
    "K6 closed at 12, 10,000": Times(_administrative, 30, groups=1, at=12, n=10_000),
}


def _registry(g: Generator, n: int) -> tuple[Array, Array, Array]:
    """Entry over three years, one closing date."""
    return 45 * g.weibull(0.9, n), g.uniform(24, 60, n), _arms(g, n, 0.4)


def _operated(g: Generator, n: int) -> tuple[Array, Array, Array]:
    arm = _arms(g, n)
    first = g.random(n) < np.where(arm == 1, 0.12, 0.18)
    return (
        np.where(first, g.integers(0, 8, n) / 30.4, 0.25 + g.exponential(90, n)),
        g.uniform(12, 72, n),
        arm,
    )


def _three_groups(g: Generator, n: int) -> tuple[Array, Array, Array]:
    group = np.searchsorted([0.6, 0.9], g.random(n))
    after = g.exponential(np.array([14.0, 22.0, 40.0])[group])
    first = g.exponential(14, n)
    return np.where(first < 6, first, 6 + after), np.minimum(g.exponential(60, n), 30), group


def _cured(g: Generator, n: int) -> tuple[Array, Array, Array]:
    arm = _arms(g, n, 1 / 3)
    time = np.where(g.random(n) < 0.7, 1e6, 6 * g.weibull(1.4, n))
    return time, np.where(arm == 1, g.uniform(3, 24, n), g.uniform(12, 36, n)), arm


def _half_exact(g: Generator, n: int) -> tuple[Array, Array, Array]:
    time = 18 * g.weibull(1.2, n)
    seen = np.where(g.random(n) < 0.5, np.ceil(time / 3) * 3, time)
    return seen, np.ceil(g.exponential(40, n) / 3) * 3, _arms(g, n)


CURVES |= {
    "NS1 registry, whole months": Times(_registry, 48, null=True, grid=1, n=4000),
    "NS2 deaths in the first week": Times(_operated, 60, n=3000),
    "NS3 three groups, late effect": Times(_three_groups, 30, groups=3, n=6000),
    "NS4 cured 70 %, arms 2 : 1": Times(_cured, 24, null=True, n=3000),
    "NS5 half on visits, 5 parties": Times(
        _half_exact, 36, null=True, n=5000, epsilon=2.0, parties=5
    ),
}


class Hazards(NamedTuple):
    """Hazards exp(x beta), x as in `Model`. `time(g, risk, x)` and `censored(g, x)` draw times.
    With `projection` the truth is Cox's estimate from many records."""

    x: Callable[[Generator, int], Array]
    bounds: Any
    beta: tuple[float, ...]
    time: Callable[[Generator, Array, Array], Array]
    censored: Callable[[Generator, Array], Array]
    horizon: float = 10.0
    n: int = 8000
    epsilon: float = 1.0
    projection: bool = False
    grid: float = 0.0
    parties: int = 1


def weibull(shape: float, scale: float) -> Callable[[Generator, Array, Array], Array]:
    return lambda g, risk, x: scale * g.weibull(shape, len(risk)) * np.exp(-risk / shape)


def _leave(mean: float) -> Callable[[Generator, Array], Array]:
    return lambda g, x: g.exponential(mean, len(x))


def _close(low: float, high: float) -> Callable[[Generator, Array], Array]:
    return lambda g, x: g.uniform(low, high, len(x))


def _fading(g: Generator, risk: Array, x: Array) -> Array:
    """The effects of the first three units of time end there."""
    first = g.exponential(9, len(risk)) * np.exp(-risk)
    return np.where(first < 3, first, 3 + g.exponential(9, len(risk)))


def _frail(g: Generator, risk: Array, x: Array) -> Array:
    return g.exponential(8, len(risk)) * np.exp(-risk) / g.gamma(2, 0.5, len(risk))


_THREE, _HR = with_indicators(2, 0.4), (0.4, -0.3, 0.3)
_THREE_ENDS = ends(2, 1)
HAZARDS = {
    "H1 effects that end": Hazards(
        _THREE, _THREE_ENDS, _HR, _fading, _leave(15), 10, projection=True
    ),
    "H2 yearly ties": Hazards(
        _THREE, _THREE_ENDS, _HR, weibull(1.2, 8), _leave(15), 10, grid=1, projection=True
    ),
    "H3 90 % censored": Hazards(_THREE, _THREE_ENDS, _HR, weibull(1, 80), _close(2, 15)),
    "H4 strong effects": Hazards(
        _THREE, _THREE_ENDS, (1.4, -1.1, 0.6), weibull(1.2, 8), _leave(15)
    ),
    "H5 frailty": Hazards(_THREE, _THREE_ENDS, _HR, _frail, _leave(15), projection=True),
    "H6 falling hazard": Hazards(_THREE, _THREE_ENDS, _HR, weibull(0.6, 8), _leave(15)),
}


def _marker(g: Generator, n: int) -> Array:
    return np.column_stack([g.lognormal(3, 1, n), g.normal(62, 11, n), g.random(n) < 0.5])


def _soon(g: Generator, risk: Array, x: Array) -> Array:
    """A tenth dies within the first fiftieth of the horizon."""
    later = 14 * g.weibull(1.1, len(risk)) * np.exp(-risk / 1.1)
    return np.where(g.random(len(risk)) < 0.1 * np.exp(risk).clip(0, 5), g.uniform(0, 0.2), later)


HAZARDS |= {
    "NH1 rare log-HR 2, closed at 5": Hazards(
        with_indicators(2, 0.04),
        _THREE_ENDS,
        (0.3, 0.0, 2.0),
        weibull(1, 12),
        lambda g, x: np.where(g.random(len(x)) < 0.6, 5.0, 10.0),
    ),
    "NH2 early deaths, monthly ties": Hazards(
        _THREE, _THREE_ENDS, _HR, _soon, _leave(20), grid=1 / 12, projection=True
    ),
    "NH3 raw marker": Hazards(
        _marker, [(0, 500), (18, 100), (0, 1)], (0.006, 0.03, -0.4), weibull(1.3, 60), _leave(20)
    ),
    "NH4 reference of 5 %, 5 parties": Hazards(
        _stages,
        [(0, 1)] * 4 + [(-4, 4)],
        (0.2, 0.5, 0.8, 1.1, 0.3),
        weibull(1.5, 12),
        _close(3, 14),
        **{"n": 6000, "epsilon": 2.0, "parties": 5},
    ),
    "NH5 12 % events": Hazards(
        with_indicators(2, 0.2, 0.5),
        ends(2, 2),
        (0.4, 0.0, 0.7, -0.2),
        weibull(0.8, 90),
        _close(1, 10),
        n=12_000,
    ),
}

# ------------------------------------------------------------- scores and columns: designs


class Scores(NamedTuple):
    """`draw(g, n)` gives the log-odds that a model states and those that are true."""

    draw: Callable[[Generator, int], tuple[Array, Array]]
    n: int = 2000
    epsilon: float = 1.0
    parties: int = 1


def _line(
    slope: float, intercept: float = 0.0, spread: float = 1.0, middle: float = 0.0
) -> Callable[[Generator, int], tuple[Array, Array]]:
    """True log-odds are intercept + slope times the stated ones."""

    def drawn(g: Generator, n: int) -> tuple[Array, Array]:
        said = middle + spread * g.standard_normal(n)
        return said, intercept + slope * said

    return drawn


def _leaves(g: Generator, n: int) -> tuple[Array, Array]:
    said = logit(np.array([0.05, 0.15, 0.4, 0.7]))[g.integers(0, 4, n)]
    return said, 0.8 * said - 0.1


def _narrow(g: Generator, n: int) -> tuple[Array, Array]:
    said = logit(g.uniform(0.48, 0.52, n))
    return said, 26.7 * said


EVALUATION = {
    "E1 calibrated": Scores(_line(1)),
    "E1 calibrated, 10,000": Scores(_line(1), 10_000),
    "E2 2 % events": Scores(_line(1, middle=-4.3)),
    "E2 2 % events, 20,000": Scores(_line(1, middle=-4.3), 20_000),
    "E8 1 % events": Scores(_line(1, middle=-5.1)),
    "E3 separable": Scores(_line(6, spread=2)),
    "E4 four leaves": Scores(_leaves),
    "E4 four leaves, 10,000": Scores(_leaves, 10_000),
    "E5 scores .48 to .52": Scores(_narrow),
    "E6 over-confident": Scores(_line(0.126, spread=7)),
    "E6 over-confident, 10,000": Scores(_line(0.126, spread=7), 10_000),
    "E7 useless": Scores(_line(0)),
}


def _percents(g: Generator, n: int) -> tuple[Array, Array]:
    truth = -4.2 + 1.3 * g.standard_normal(n)
    return logit(np.round(expit(truth), 2).clip(0.005, 0.995)), truth


def _crowded(g: Generator, n: int) -> tuple[Array, Array]:
    low = g.random(n) < 0.5
    said = np.where(low, logit(0.001), -1 + 2 * g.standard_normal(n))
    return said, np.where(low, -4.5, 0.7 * said - 0.3)


def _points(g: Generator, n: int) -> tuple[Array, Array]:
    said = -3 + 0.8 * np.minimum(g.poisson(1.8, n), 6)
    return said, 0.9 * said - 0.2 + 0.4 * g.standard_normal(n)


def _beta_risks(g: Generator, n: int) -> tuple[Array, Array]:
    said = logit(g.beta(0.3, 6, n).clip(1e-6, 1 - 1e-6))
    return said, said


EVALUATION |= {
    "NE1 whole percents, 3 %": Scores(_percents, 20_000),
    "NE2 half at .001": Scores(_crowded, 5000),
    "NE3 under-confident, other prevalence": Scores(_line(2, -2, spread=0.6), 5000),
    "NE4 seven points, 5 parties": Scores(_points, 4000, 2.0, parties=5),
    "NE5 skewed risks": Scores(_beta_risks, 8000),
}


class Column(NamedTuple):
    draw: Callable[[Generator, int], Array]
    bounds: tuple[float, float]
    n: int = 2000
    epsilon: float = 1.0


def _normal(g: Generator, n: int) -> Array:
    return g.normal(50, 15, n)


def _lognormal(g: Generator, n: int) -> Array:
    return g.lognormal(0, 1, n)


def _two_humps(g: Generator, n: int) -> Array:
    return np.where(g.random(n) < 0.5, g.normal(25, 4, n), g.normal(75, 4, n))


COLUMNS = {
    **{f"normal, {n:,}": Column(_normal, (0, 100), n) for n in (200, 2000, 20_000)},
    **{f"lognormal, {n:,}": Column(_lognormal, (0, 50), n) for n in (200, 2000, 20_000)},
    "normal, wide bounds": Column(_normal, (0, 1000)),
    "counts": Column(lambda g, n: g.poisson(3, n).astype(float), (0, 50)),
    "two humps": Column(_two_humps, (0, 100)),
    "0/1 of 3 %": Column(lambda g, n: (g.random(n) < 0.03).astype(float), (0, 1)),
    "exponential": Column(lambda g, n: g.exponential(1, n), (0, 20)),
    "NM1 CRP, detection limit": Column(
        lambda g, n: np.maximum(g.lognormal(0.8, 1.4, n), 0.9), (0, 400), 3000
    ),
    "NM2 ages heaped at 5": Column(
        lambda g, n: np.where(
            g.random(n) < 0.4, np.round(g.normal(52, 17, n) / 5) * 5, np.round(g.normal(52, 17, n))
        ),
        (0, 120),
        1000,
    ),
    "NM3 nights in hospital": Column(
        lambda g, n: g.geometric(0.18, n).astype(float), (0, 365), 5000
    ),
    "NM4 costs, 55 % zero": Column(
        lambda g, n: np.where(g.random(n) < 0.55, 0.0, 300 * (1 + g.pareto(2.2, n))),
        (0, 100_000),
        10_000,
    ),
    "NM5 pH": Column(lambda g, n: g.normal(7.4, 0.05, n), (6.5, 8.0), 500),
}
