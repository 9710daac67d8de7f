"""Do 95 % intervals of generalised linear models hold the truth, and how wide are they?

    python benchmarks/inference_coverage.py [--quick | --smoke] [--simulations 1000]
        [--designs 0 a ...] [--families binomial ...] [--records 2000 ...] [--epsilons 1 ...]

Every simulation has its own records, dealt to five unequal parties, and its own noise: the study of
`model = "glm"` with every default, under a secure sum, delta 1e-6, replace-one. Seeds are fixed by
design, family, records and epsilon. Printed for every cell, without the intercept: the share of
intervals that hold the truth, pooled over coefficients that are determined; the worst coefficient,
and the p value that it truly covers less than 93 % (one-sided, Holm-corrected over coefficients);
the median width over that of maximum likelihood without privacy in the same simulations; the type-I
error of tests of true zeros; and the share of coefficients that are not determined.

    0 ten columns, skewed, correlated, rare     a five even numbers        b 25 mixed columns
    c binaries, 1 to 50 %                       d heavy tails, .5 % of their range
    e outcomes of 5 %                           f collinear (.97)          h f with opposite effects
    g misspecified: an omitted interaction (binomial), errors that depend on x (gaussian),
      overdispersed counts (poisson); the truth is that of the usual projection
    i errors that are not symmetric (gaussian)
    j zero-inflated and two-humped numbers      k a category of ten values
    l 3 % of records far out, strong effects

Designs j, k and l were written down before anything was run on them, and nothing was changed after.
"""

import argparse
import sys
import time
import warnings
import zlib
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit
from scipy.stats import binom, norm

from figures import Benchmark, options, report
from unisono.accounting.accountant import ACCOUNTANT
from unisono.algorithms.fisher_scoring import FISHER_SCORING
from unisono.core.algorithm import agree_facts
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.privacy import Privacy
from unisono.core.study import Party, Result, Study
from unisono.core.trust import Trust
from unisono.core.values import Private
from unisono.data.schema import Schema
from unisono.engines import in_process
from unisono.models.glm import GLM
from unisono.releases.together import together

SCORECARD = Benchmark(quick=("--quick",), full=("--simulations", "300"), seconds=14400)
FAMILIES = ("binomial", "gaussian", "poisson")
DELTA, SHARES = 1e-6, (0.4, 0.25, 0.2, 0.1, 0.05)
SIGMA, COUNTS = 0.15, 32.0
Generator = np.random.Generator


class Design(NamedTuple):
    """`numbers(generator, n)` (n, d) in [0, 1], chances of categories, effects per deviation of a
    number and per value of a category, and the intercept of the binomial."""

    numbers: Callable[[Generator, int], np.ndarray]
    categories: tuple[tuple[float, ...], ...]
    effects: tuple[float, ...]
    values: tuple[float, ...]
    intercept: float = -0.6


def two(chance: float) -> tuple[float, float]:
    return 1 - chance, chance


def _usual(generator: Generator, n: int) -> np.ndarray:
    law = np.eye(6)
    for a, b, r in ((0, 1, 0.7), (0, 2, 0.2), (1, 2, 0.2), (0, 3, 0.1), (1, 3, 0.1), (2, 3, 0.5)):
        law[a, b] = law[b, a] = r
    law[4, 5] = law[5, 4] = 0.5
    g = generator.standard_normal((n, 6)) @ np.linalg.cholesky(law).T
    columns = [norm.cdf(0.8 * g[:, 0]), 0.4 + 0.15 * g[:, 1], np.exp(-2.9 + 0.6 * g[:, 2])]
    columns += [np.exp(-3.4 + 0.8 * g[:, 3]), 0.3 + 0.12 * g[:, 4], 0.65 + 0.1 * g[:, 5]]
    return np.clip(np.stack(columns, axis=1), 0, 1)


def _mixed(generator: Generator, n: int) -> np.ndarray:
    g = 0.5 * generator.standard_normal((n, 1)) + 0.87 * generator.standard_normal((n, 15))
    found = 0.4 + 0.13 * g
    found[:, ::3] = np.exp(-3 + 0.7 * g[:, ::3])
    return np.clip(found, 0, 1)


def _tails(generator: Generator, n: int) -> np.ndarray:
    found = 0.4 + 0.12 * generator.standard_normal((n, 4))
    found[:, 0] = 0.005 * np.exp(generator.standard_normal(n))
    found[:, 1] = 0.005 * np.abs(generator.standard_t(3, n))
    return np.clip(found, 0, 1)


def _collinear(generator: Generator, n: int) -> np.ndarray:
    g = generator.standard_normal((n, 5))
    g[:, 1] = 0.97 * g[:, 0] + np.sqrt(1 - 0.97**2) * g[:, 1]
    return np.clip(0.45 + 0.12 * g, 0, 1)


def _humps(generator: Generator, n: int) -> np.ndarray:
    zero = np.where(generator.random(n) < 0.8, 0.0, generator.beta(2, 5, n))
    humps = np.where(generator.random(n) < 0.5, 0.2, 0.7) + 0.06 * generator.standard_normal(n)
    steps = generator.poisson(3.0, n) / 20
    related = 0.5 * humps + 0.2 + 0.08 * generator.standard_normal(n)
    return np.clip(np.stack([zero, humps, steps, related], axis=1), 0, 1)


def _far(generator: Generator, n: int) -> np.ndarray:
    found = 0.3 + 0.08 * generator.standard_normal((n, 4))
    far = generator.random(n) < 0.03
    found[far] = generator.uniform(0, 1, (int(far.sum()), 4))
    return np.clip(found, 0, 1)


def _even(generator: Generator, n: int) -> np.ndarray:
    return generator.beta(1.5, 1.5, (n, 5))


def _none(generator: Generator, n: int) -> np.ndarray:
    return np.zeros((n, 0))


def _four(generator: Generator, n: int) -> np.ndarray:
    return np.clip(0.4 + 0.14 * generator.standard_normal((n, 4)), 0, 1)


_KINDS = (two(0.5), two(0.3), two(0.02), (0.45, 0.3, 0.15, 0.1))
_MANY = (two(0.5), two(0.2), two(0.1), two(0.4), two(0.05), (0.4, 0.3, 0.2, 0.1), (0.6, 0.3, 0.1))
_BINARY = tuple(map(two, (0.5, 0.4, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01)))
_TEN = ((0.25, 0.2, 0.15, 0.1, 0.08, 0.07, 0.05, 0.05, 0.03, 0.02), two(0.4))
_USUAL = (0.4, 0.0, 0.3, 0.0, -0.3, 0.0), (0.5, 0.0, 0.8, 0.4, 0.0, -0.5)
DESIGNS = {
    "0": Design(_usual, _KINDS, *_USUAL, -1.1),
    "a": Design(_even, (), (0.4, -0.3, 0.2, 0.0, 0.0), ()),
    "b": Design(
        _mixed, _MANY, (0.3, 0, -0.3, 0, 0.2) * 3, (0.4, 0, 0.3, 0, 0.5, 0.3, 0, -0.3, 0.2, 0)
    ),
    "c": Design(_none, _BINARY, (), (0.5, 0.0, -0.4, 0.3, 0.0, 0.6, 0.8, 0.0)),
    "d": Design(_tails, (two(0.3), (0.5, 0.3, 0.2)), (0.3, 0.0, 0.3, 0.0), (0.4, 0.0, -0.3)),
    "e": Design(_usual, _KINDS, *_USUAL, -3.4),
    "f": Design(_collinear, (two(0.4),), (0.3, 0.0, 0.2, 0.0, -0.2), (0.4,)),
    "g": Design(_four, (two(0.5), two(0.3)), (0.4, 0.0, -0.3, 0.2), (0.5, -0.3)),
    "h": Design(_collinear, (two(0.4),), (2.0, -2.0, 0.2, 0.0, -0.2), (0.4,)),
    "i": Design(_usual, _KINDS, *_USUAL),
    "j": Design(_humps, (two(0.15), two(0.6)), (0.3, -0.3, 0.2, 0.0), (0.4, 0.0)),
    "k": Design(
        _four, _TEN, (0.3, 0.0, -0.2, 0.0), (0.3, 0, -0.3, 0, 0.4, 0, 0.5, 0, -0.5, 0.3), -0.3
    ),
    "l": Design(_far, (two(0.3),), (1.0, -0.8, 0.5, 0.0), (0.6,), -0.2),
}
ONLY = {"e": ("binomial",), "i": ("gaussian",)}


class Drawn(NamedTuple):
    """Numbers (n, d), places of categories (n, k) and y (n,)."""

    numbers: np.ndarray
    places: np.ndarray
    y: np.ndarray


@lru_cache(maxsize=64)
def truth(name: str, family: str) -> np.ndarray:
    """Intercept and coefficients (p,), in units of [0, 1] for numbers."""
    design = DESIGNS[name]
    numbers = design.numbers(np.random.default_rng(99), 200_000)
    effects, values, intercept = np.array(design.effects), np.array(design.values), design.intercept
    if family == "poisson":
        effects, values, intercept = effects / 2, values / 2, 0.3
    if family == "gaussian":
        effects, values, intercept = SIGMA * effects, 0.1 * values, 0.3
    slopes = effects / numbers.std(axis=0) if len(effects) else effects
    return np.concatenate([[intercept - slopes @ numbers.mean(axis=0)], slopes, values])


def matrix(design: Design, drawn: Drawn) -> np.ndarray:
    """Rows (1, x) with reference coding (n, p)."""
    dummies = [
        (drawn.places[:, [k]] == np.arange(1, len(chances))).astype(float)
        for k, chances in enumerate(design.categories)
    ]
    return np.concatenate([np.ones((len(drawn.y), 1)), drawn.numbers, *dummies], axis=1)


def draw(name: str, family: str, n: int, generator: Generator) -> Drawn:
    design, beta = DESIGNS[name], truth(name, family)
    numbers = design.numbers(generator, n)
    places = [
        np.minimum(np.searchsorted(np.cumsum(c), generator.random(n)), len(c) - 1)
        for c in design.categories
    ]
    whole = np.stack(places, axis=1) if places else np.zeros((n, 0), int)
    scores = matrix(design, Drawn(numbers, whole, np.zeros(n))) @ beta
    if family == "binomial":
        if name == "g":
            scores = scores + 1.2 * (numbers[:, 0] - 0.4) / 0.14 * (whole[:, 0] - 0.5)
        y = (generator.random(n) < expit(scores)).astype(float)
    elif family == "poisson":
        spread = generator.gamma(2, 0.5, n) if name == "g" else 1.0
        y = np.minimum(generator.poisson(np.exp(np.minimum(scores, 5.0)) * spread), COUNTS)
    else:
        skewed = name == "i"
        errors = generator.exponential(1.0, n) - 1 if skewed else generator.standard_normal(n)
        if name == "g":
            errors = errors * (0.3 + 1.5 * np.abs(numbers[:, 0] - 0.4) / 0.14)
        y = np.clip(scores + SIGMA * errors, -2, 2)
    return Drawn(numbers, whole, y.astype(float))


def likelihood(design: Design, family: str, drawn: Drawn) -> tuple[np.ndarray, np.ndarray]:
    """Maximum likelihood without privacy and its robust standard errors, by Newton's method."""
    rows, y = matrix(design, drawn), drawn.y
    beta = np.zeros(rows.shape[1])
    mean = y.mean()
    beta[0] = {"binomial": np.log(mean / (1 - mean)), "poisson": np.log(mean)}.get(family, mean)
    for _ in range(1 if family == "gaussian" else 10):
        scores = rows @ beta
        fitted = {"binomial": expit(scores), "poisson": np.exp(scores)}.get(family, scores)
        spread = {"binomial": fitted * (1 - fitted), "poisson": fitted}.get(family, np.ones(len(y)))
        bread = np.linalg.inv((rows * spread[:, None]).T @ rows)
        beta = beta + bread @ (rows.T @ (y - fitted))
    residuals = y - rows @ beta if family == "gaussian" else y - fitted
    meat = (rows * (residuals**2)[:, None]).T @ rows
    return beta, np.sqrt(np.diag(bread @ meat @ bread))


@lru_cache(maxsize=64)
def wanted(name: str, family: str) -> np.ndarray:
    """What is estimated: the model's coefficients, or where it does not hold, the projection."""
    if name != "g" or family == "gaussian":
        return truth(name, family)
    many = draw(name, family, 2_000_000, np.random.default_rng(5))
    return likelihood(DESIGNS[name], family, many)[0]


def schema_of(name: str, family: str) -> Schema:
    design = DESIGNS[name]
    columns: dict[str, Any] = {
        f"x{k}": {"kind": "number", "bounds": (0.0, 1.0)} for k in range(len(design.effects))
    }
    for k, chances in enumerate(design.categories):
        values = tuple(f"v{place}" for place in range(len(chances)))
        columns[f"c{k}"] = {"kind": "category", "values": values}
    columns["y"] = {
        "binomial": {"kind": "category", "values": ("no", "yes")},
        "gaussian": {"kind": "number", "bounds": (-2.0, 2.0)},
        "poisson": {"kind": "number", "bounds": (0.0, COUNTS), "integer": True},
    }[family]
    return Schema.model_validate({"columns": columns, "target": "y"})


class Cell(NamedTuple):
    """Over simulations and coefficients (s, p - 1): whether intervals hold the truth, are
    determined, hold zero, and widths over those without privacy."""

    holds: np.ndarray
    determined: np.ndarray
    rejects: np.ndarray
    width: np.ndarray
    null: np.ndarray


def measured(name: str, family: str, records: int, epsilon: float, simulations: int) -> Cell:
    """Simulations of one cell through the engine that studies run on."""
    config = GLM.configured(family=family)
    promise = Privacy(epsilon, DELTA)
    posed = GLM.pose(config, schema_of(name, family), FISHER_SCORING, promise)
    cuts = np.cumsum([int(share * records) for share in SHARES[:-1]])
    sizes = [len(part) for part in np.split(np.arange(records), cuts)]
    facts = agree_facts(sizes, posed.features, Trust.SECURE_SUM)
    before = FISHER_SCORING.method(posed.problem, promise).earlier
    assert before is not None

    def study(kind: Any) -> Callable[[Privacy], Study]:
        return lambda part: Study(kind.method(posed.problem, part), facts, Trust.SECURE_SUM)

    first, second = together(
        promise,
        before.share,
        study(before.kind),
        study(FISHER_SCORING),
        lambda one, other: (one.costs, other.costs),
    )
    seed = zlib.crc32(f"{name} {family} {records} {epsilon}".encode())
    design, target = DESIGNS[name], wanted(name, family)
    found: list[tuple[np.ndarray, ...]] = []
    for number in range(simulations):
        generator = np.random.default_rng([seed, number])
        drawn = draw(name, family, records, generator)
        values = {f"x{k}": drawn.numbers[:, k] for k in range(drawn.numbers.shape[1])}
        values |= {f"c{k}": drawn.places[:, k].astype(float) for k in range(drawn.places.shape[1])}
        rows = posed.encode(values | {"y": drawn.y})[0].astype(np.float32)
        parties = [
            Party(f"p{k}", Private((part,)), _ledger(k, seed % 100_003 + number))
            for k, part in enumerate(np.split(rows, cuts))
        ]
        start = in_process.run(first, parties)
        result = in_process.run(second.begun(start.value), parties)
        found.append(_read(posed, second, result, target, likelihood(design, family, drawn)[1]))
    holds, known, rejects, width = (np.array(part) for part in zip(*found, strict=True))
    return Cell(holds, known, rejects, width, target[1:] == 0)


def _ledger(party: int, seed: int) -> Ledger:
    policy = Policy(f"d{party}", Budget(1e3, 1e-3))
    return Ledger.in_memory(policy, ACCOUNTANT, seed=10 * seed + party)


def _read(
    posed: Any, study: Study, result: Result, target: np.ndarray, errors: np.ndarray
) -> tuple[np.ndarray, ...]:
    shown = list(posed.present(study, result)["coefficients"].values())
    known = np.array([own["determined"] for own in shown])
    estimate, error = (
        np.array([own.get(word, np.nan) for own in shown]) for word in ("estimate", "std_error")
    )
    z = (estimate - target) / error
    rejects = np.abs(estimate / error) > 1.959964
    return np.abs(z)[1:] < 1.959964, known[1:], rejects[1:], (error / errors)[1:]


class Summary(NamedTuple):
    pooled: float
    worst: float
    holm: float
    width: float
    type_one: float
    unknown: float


def summary(cell: Cell) -> Summary:
    """Of what is determined; Holm's p value that some coefficient covers less than 93 %."""
    counts = cell.determined.sum(axis=0)
    hits = (cell.holds & cell.determined).sum(axis=0)
    enough = counts >= max(10, 0.1 * len(cell.holds))
    shares = np.where(enough, hits / np.maximum(counts, 1), np.nan)
    p = np.sort(binom.cdf(hits[enough], counts[enough], 0.93))
    holm = float(np.min(p * np.arange(len(p), 0, -1))) if len(p) else np.nan
    null = cell.determined & cell.null
    return Summary(
        float(hits.sum() / max(counts.sum(), 1)),
        float(np.nanmin(shares)) if enough.any() else np.nan,
        min(1.0, holm),
        float(np.nanmedian(cell.width)) if cell.determined.any() else np.nan,
        float((cell.rejects & null).sum() / max(null.sum(), 1)),
        float(1 - cell.determined.mean()),
    )


def smoke() -> dict[str, float]:
    found = summary(measured("a", "binomial", 1500, 3.0, 3))
    return {"pooled": found.pooled, "width": found.width}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="two designs, few simulations")
    parser.add_argument("--simulations", type=int, default=1000, metavar="n")
    parser.add_argument("--designs", nargs="+", default=list(DESIGNS), choices=list(DESIGNS))
    parser.add_argument("--families", nargs="+", default=list(FAMILIES), choices=FAMILIES)
    parser.add_argument("--records", nargs="+", type=int, default=[2000, 8000, 40000])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.5, 1.0, 3.0])
    said = options(parser, smoke)
    if said.quick:
        said.simulations, said.designs = 40, ["0", "j"]
        said.records, said.epsilons = [8000], [1.0]
    warnings.simplefilter("ignore")
    print("design family    records epsilon | pooled worst  p<93%  width type-I unknown seconds")
    for name in said.designs:
        for family in said.families:
            if family not in ONLY.get(name, FAMILIES):
                continue
            for records in said.records:
                for epsilon in said.epsilons:
                    _cell(name, family, records, epsilon, said.simulations)
    return 0


def _cell(name: str, family: str, records: int, epsilon: float, simulations: int) -> None:
    began = time.process_time()
    found = summary(measured(name, family, records, epsilon, simulations))
    print(
        f"{name:6} {family:9} {records:7d} {epsilon:7g} | {found.pooled:6.3f} {found.worst:5.3f} "
        f"{found.holm:6.3f} {found.width:6.2f} {found.type_one:6.3f} {found.unknown:7.2f} "
        f"{time.process_time() - began:7.0f}",
        flush=True,
    )
    what = f"intervals of glm, design {name}, {family}, {records:,} records, epsilon {epsilon:g}"
    report(f"{what}: coverage of 95 %", found.pooled, "of the intervals", aim=0.94)
    aims = {(40000, 1.0): 1.3 if family == "poisson" else 1.2, (8000, 1.0): 1.8, (2000, 1.0): 6.0}
    aims |= {(40000, 3.0): 1.1, (8000, 3.0): 1.3, (2000, 3.0): 1.6}
    report(
        f"{what}: width over that without privacy",
        found.width,
        "times as wide",
        aim=aims.get((records, epsilon)) if name == "0" else None,
        lower=True,
    )


if __name__ == "__main__":
    sys.exit(main())
