"""Do 95 % intervals of generalised linear models hold the truth, and how wide are they?

    python benchmarks/inference_coverage.py [--quick | --smoke] [--simulations 1000]
        [--designs 0 a ...] [--families binomial ...] [--records 2000 ...] [--epsilons 1 ...]
        [--salt word] [--engine] [--place build/inference_coverage] [--table]

Every simulation has its own records, dealt to five unequal parties, and its own noise: the study of
`model = "glm"` with every default, under a secure sum, delta 1e-6, replace-one. Seeds are fixed by
design, family, records, epsilon and --salt.

The first three simulations of every cell go through the engine, its ledgers and its exact samplers;
with --engine all of them do. The others have noise by its law (`noise_by_law.py`): the same
integers before noise, which the first three assert exactly, and in every party's share the rounded
Gaussian that the price says, drawn by NumPy. That is several times as fast.

Counts of every cell are kept in --place, a file each, and a later run goes on where the last one
stopped: first with few simulations, then with more. They hold for one state of the method's source
files and begin anew when those change. --table prints what is there and simulates nothing.

Printed for every cell, without the intercept: the share of intervals that hold the truth, pooled
over coefficients that are determined; the worst coefficient, and the p value that it truly covers
less than 93 % (90 % where the model does not hold: g, i; one-sided, Holm-corrected over the cell's
coefficients); the median width over that of maximum likelihood without privacy in the same
simulations; the type-I error of tests of true zeros; and the share of coefficients that are not
determined. Aims that a cell misses are named behind it:

    short   pooled below 94 % (by more than two of its standard errors, taken over simulations)
    worst   some coefficient below 93 % (90 %), p < 1 %
    wide    median width above the aim at this size and epsilon (design 0)

and coverage above 97 % is marked +, since it is paid for in width. The last lines test the worst
coefficient once more, Holm-corrected over all coefficients of all cells.

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
import hashlib
import json
import os
import sys
import time
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logit
from scipy.stats import binom, norm

from figures import Benchmark, options, report
from noise_by_law import StudyByLaw
from unisono.accounting.accountant import ACCOUNTANT
from unisono.algorithms import (
    column_scales,
    fisher_scoring,
    group_steps,
    noisy_scores,
    residual_range,
)
from unisono.algorithms.fisher_scoring import FISHER_SCORING
from unisono.core.algorithm import agree_facts
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.privacy import Privacy
from unisono.core.study import Party, Study
from unisono.core.trust import Trust
from unisono.core.values import Private
from unisono.data.encoding import Frame
from unisono.data.schema import Schema
from unisono.engines import in_process
from unisono.models import inference
from unisono.models.glm import GLM, Regression, column_layout, regression
from unisono.problems import glm
from unisono.releases.together import together

SCORECARD = Benchmark(quick=("--quick",), full=("--simulations", "300"), seconds=14400)
FAMILIES = ("binomial", "gaussian", "poisson")
DELTA, SHARES = 1e-6, (0.4, 0.25, 0.2, 0.1, 0.05)
SIGMA, COUNTS = 0.15, 32.0
Generator = np.random.Generator
PLACE = Path(__file__).parent.parent / "build" / "inference_coverage"
BATCH = 50  # simulations, after which counts are written
BY_ENGINE = 3  # simulations that the engine runs in any case
METHOD = (column_scales, fisher_scoring, group_steps, residual_range, noisy_scores, inference, glm)


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


_SPREADS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "binomial": lambda fitted: fitted * (1 - fitted),
    "gaussian": np.ones_like,
    "poisson": lambda fitted: fitted,
}
_MEANS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "binomial": expit,
    "gaussian": lambda scores: scores,
    "poisson": np.exp,
}


def likelihood(
    design: Design, family: str, drawn: Drawn, start: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Maximum likelihood without privacy and its robust standard errors, by Newton's method, until
    a step is a thousandth of an error; from the mean, or from where it is known to be near."""
    rows, y = matrix(design, drawn), drawn.y
    beta = start
    if beta is None:
        links = {"binomial": logit, "gaussian": float, "poisson": np.log}
        beta = np.concatenate([[links[family](y.mean())], np.zeros(rows.shape[1] - 1)])
    for _ in range(12):
        fitted = _MEANS[family](rows @ beta)
        bread = np.linalg.inv((rows * _SPREADS[family](fitted)[:, None]).T @ rows)
        errors_in_y = y - fitted
        step = bread @ (rows.T @ errors_in_y)
        beta = beta + step
        scattered = rows * errors_in_y[:, None]
        errors = np.sqrt(np.diag(bread @ (scattered.T @ scattered) @ bread))
        if np.max(np.abs(step) / errors) < 1e-3:
            break
    return beta, errors


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
    """One line of the table; `salt` makes other seeds of the same."""

    design: str
    family: str
    records: int
    epsilon: float
    salt: str = ""

    @property
    def name(self) -> str:
        return " ".join(str(part) for part in self if part != "")

    @property
    def floor(self) -> float:
        """What no coefficient may cover less than."""
        return 0.90 if self.design in "gi" else 0.93

    @property
    def widest(self) -> float | None:
        """The aim of the median width, which is for the usual design."""
        poisson = self.family == "poisson"
        aims = {(40000, 1.0): 1.3 if poisson else 1.2, (8000, 1.0): 1.8, (2000, 1.0): 6.0}
        aims |= {(40000, 3.0): 1.1, (8000, 3.0): 1.3, (2000, 3.0): 1.6}
        return aims.get((self.records, self.epsilon)) if self.design == "0" else None


class Tally(NamedTuple):
    """Counts over simulations, of each coefficient (p - 1,): how often it was determined, and then
    held the truth and was found to differ from zero. `squares` is the sum over simulations of
    squared misses beyond 5 % of what was determined, `widths` count ratios of widths by the place
    of their logarithm, in steps of half a percent."""

    simulations: int
    determined: np.ndarray
    holds: np.ndarray
    rejects: np.ndarray
    squares: float
    widths: Counter[int]

    def plus(self, other: "Tally") -> "Tally":
        return Tally(*(a + b for a, b in zip(self, other, strict=True)))

    def to_json(self) -> dict[str, Any]:
        found = self._asdict() | {"widths": {str(k): v for k, v in self.widths.items()}}
        arrays = ("determined", "holds", "rejects")
        return found | {name: found[name].tolist() for name in arrays}

    @staticmethod
    def of_json(found: dict[str, Any]) -> "Tally":
        arrays = {name: np.array(found[name]) for name in ("determined", "holds", "rejects")}
        widths = Counter({int(place): count for place, count in found["widths"].items()})
        return Tally(**(found | arrays | {"widths": widths}))


_STEP = 0.005


def tally(holds: np.ndarray, known: np.ndarray, rejects: np.ndarray, width: np.ndarray) -> Tally:
    """Of flags and ratios (s, p - 1)."""
    places = np.round(np.log(width[known]) / _STEP).astype(int).tolist()
    excess = (~holds & known).sum(axis=1) - 0.05 * known.sum(axis=1)
    return Tally(
        len(holds),
        known.sum(axis=0),
        (holds & known).sum(axis=0),
        (rejects & known).sum(axis=0),
        float(np.sum(excess**2)),
        Counter(places),
    )


def _none_yet(coefficients: int) -> Tally:
    nothing = np.zeros(coefficients, int)
    return Tally(0, nothing, nothing, nothing, 0.0, Counter())


class Stages(NamedTuple):
    """Both stages of a cell as studies, how records are dealt, how results are read, and the same
    stages with noise by its law."""

    posed: Any
    first: Study
    second: Study
    cuts: np.ndarray
    read: Regression
    by_law: StudyByLaw


def stages(cell: Cell) -> Stages:
    """What `model = "glm"` runs, priced together."""
    promise = Privacy(cell.epsilon, DELTA)
    config, schema = GLM.configured(family=cell.family), schema_of(cell.design, cell.family)
    frame = Frame(schema)
    targets = None if frame.classes else frame.targets
    posed = GLM.pose(config, schema, FISHER_SCORING, promise)
    cuts = np.cumsum([int(share * cell.records) for share in SHARES[:-1]])
    sizes = [len(part) for part in np.split(np.arange(cell.records), cuts)]
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
    read = regression(cell.family, column_layout(frame), frame.features, targets)
    return Stages(posed, first, second, cuts, read, StudyByLaw(first, second))


def simulated(cell: Cell, made: Stages, numbers: range, engine: bool = False) -> Tally:
    """These simulations of a cell: the first through the engine that studies run on, where asked
    for all of them."""
    seed = zlib.crc32(cell.name.encode())
    design, target = DESIGNS[cell.design], wanted(cell.design, cell.family)
    found: list[tuple[np.ndarray, ...]] = []
    for number in numbers:
        generator = np.random.default_rng([seed, number])
        drawn = draw(cell.design, cell.family, cell.records, generator)
        values = {f"x{k}": drawn.numbers[:, k] for k in range(drawn.numbers.shape[1])}
        values |= {f"c{k}": drawn.places[:, k].astype(float) for k in range(drawn.places.shape[1])}
        rows = made.posed.encode(values | {"y": drawn.y})[0].astype(np.float32)
        if engine or number < BY_ENGINE:
            value = through_the_engine(made, rows, seed % 100_003 + number)
        else:
            value = made.by_law.run(rows, generator)
        errors = likelihood(design, cell.family, drawn, target)[1]
        found.append(_judged(made.read.read(made.second, value), target, errors))
    return tally(*(np.array(part) for part in zip(*found, strict=True)))


def through_the_engine(made: Stages, rows: np.ndarray, seed: int) -> Any:
    """What the engine finds, with an assertion that noise by its law is added to the same integers,
    and that results are read as users have them."""
    parts = np.split(rows, made.cuts)
    parties = [Party(f"p{k}", Private((part,)), _ledger(k, seed)) for k, part in enumerate(parts)]
    start = in_process.run(made.first, parties)
    result = in_process.run(made.second.begun(start.value), parties)
    new = [_ledger(k, seed) for k in range(len(parts))]
    again = made.by_law.same_integers(rows, (start, result), new)
    one, other = (made.read.read(made.second, value) for value in (result.value, again))
    assert one.to_json() == made.posed.present(made.second, result)["coefficients"]
    # Between rounds the server computes in single precision, here in another compiled program.
    apart = np.abs(one.estimate - other.estimate) / one.std_error
    assert np.max(apart[one.determined], initial=0.0) < 0.01, apart
    return result.value


def _ledger(party: int, seed: int) -> Ledger:
    policy = Policy(f"d{party}", Budget(1e3, 1e-3))
    return Ledger.in_memory(policy, ACCOUNTANT, seed=10 * seed + party)


def _judged(
    found: inference.Inference, target: np.ndarray, errors: np.ndarray
) -> tuple[np.ndarray, ...]:
    """Whether intervals hold the truth, are determined, miss zero, and how wide they are over those
    without privacy (p - 1,)."""
    z, width = (found.estimate - target) / found.std_error, found.std_error / errors
    whole = np.abs(z) < 1.959964, found.determined, np.abs(found.z) > 1.959964, width
    return tuple(own[1:] for own in whole)


# ------------------------------------------------------------- what is kept


@lru_cache(maxsize=1)
def method_hash() -> str:
    """Counts of another method are not these."""
    sources = [Path(str(module.__file__)).read_bytes() for module in METHOD]
    return hashlib.sha256(b"".join(sources)).hexdigest()[:16]


def _file(place: Path, cell: Cell, engine: bool) -> Path:
    return place / f"{cell.name.replace(' ', '-')}{'-engine' if engine else ''}.json"


def kept(place: Path, cell: Cell, engine: bool = False) -> Tally | None:
    """What earlier runs have counted, with this method and these designs."""
    file = _file(place, cell, engine)
    if not file.exists():
        return None
    found = json.loads(file.read_text("utf-8"))
    same = found.pop("method") == method_hash() and found.pop("design") == _design_hash(cell)
    return Tally.of_json(found) if same else None


def keep(place: Path, cell: Cell, counts: Tally, engine: bool = False) -> None:
    place.mkdir(parents=True, exist_ok=True)
    file = _file(place, cell, engine)
    said = {"method": method_hash(), "design": _design_hash(cell), **counts.to_json()}
    new = file.with_suffix(".new")
    new.write_text(json.dumps(said), "utf-8")
    os.replace(new, file)


def _design_hash(cell: Cell) -> str:
    """By the records that it draws."""
    drawn = draw(cell.design, cell.family, 50, np.random.default_rng(0))
    return hashlib.sha256(b"".join(part.tobytes() for part in drawn)).hexdigest()[:16]


def measured(
    cell: Cell, simulations: int, place: Path | None = PLACE, engine: bool = False
) -> Tally:
    """A cell's counts of so many simulations, those that are kept among them."""
    before = kept(place, cell, engine) if place else None
    counts = before or _none_yet(len(truth(*cell[:2])) - 1)
    if counts.simulations >= simulations:
        return counts
    made = stages(cell)
    if counts.simulations and not engine:
        simulated(cell, made, range(1))  # for its assertions: it was counted before
    while counts.simulations < simulations:
        done = counts.simulations
        numbers = range(done, min(done + BATCH, simulations))
        counts = counts.plus(simulated(cell, made, numbers, engine))
        if place:
            keep(place, cell, counts, engine)
    return counts


# ------------------------------------------------------------- what is said


class Summary(NamedTuple):
    pooled: float
    error: float
    worst: float
    p: tuple[float, ...]
    holm: float
    width: float
    type_one: float
    unknown: float
    missed: tuple[str, ...]


def holm(p: tuple[float, ...]) -> float:
    """The least p value, corrected for all the others (Holm 1979)."""
    return min(1.0, len(p) * min(p)) if p else np.nan


def summary(cell: Cell, counts: Tally) -> Summary:
    """Of what is determined, and of coefficients that are so in a tenth of the simulations."""
    number, whole = counts.determined, max(int(counts.determined.sum()), 1)
    enough = number >= max(10, 0.1 * counts.simulations)
    shares = counts.holds[enough] / number[enough]
    p = tuple(binom.cdf(counts.holds[enough], number[enough], cell.floor).tolist())
    null = wanted(cell.design, cell.family)[1:] == 0
    known = bool(counts.determined.any())
    pooled = float(counts.holds.sum() / whole) if known else np.nan
    error = float(np.sqrt(counts.squares) / whole)
    width = _median(counts.widths)
    aim = cell.widest
    missed = [
        name
        for name, broken in (
            ("short", known and pooled + 2 * error < 0.94),
            ("worst", bool(p) and holm(p) < 0.01),
            ("wide", aim is not None and known and width > aim),
        )
        if broken
    ]
    return Summary(
        pooled,
        error,
        float(shares.min()) if len(shares) else np.nan,
        p,
        holm(p),
        width,
        float(counts.rejects[null].sum() / max(counts.determined[null].sum(), 1)),
        float(1 - counts.determined.sum() / (len(number) * max(counts.simulations, 1))),
        tuple(missed),
    )


def _median(widths: Counter[int]) -> float:
    if not widths:
        return np.nan
    places = sorted(widths)
    below = np.cumsum([widths[place] for place in places])
    return float(np.exp(_STEP * places[int(np.searchsorted(below, below[-1] / 2))]))


def smoke() -> dict[str, float]:
    cell = Cell("a", "binomial", 1500, 3.0)
    found = summary(cell, simulated(cell, stages(cell), range(BY_ENGINE, BY_ENGINE + 3)))
    return {"pooled": found.pooled, "width": found.width}


def cells(said: argparse.Namespace) -> Iterator[Cell]:
    for name in said.designs:
        for family in said.families:
            if family in ONLY.get(name, FAMILIES):
                for records in said.records:
                    for epsilon in said.epsilons:
                        yield Cell(name, family, records, epsilon, said.salt)


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
    parser.add_argument("--salt", default="", help="other seeds: those that nothing is tuned on")
    parser.add_argument("--engine", action="store_true", help="every simulation, not the first 3")
    parser.add_argument("--place", type=Path, default=PLACE, help="where counts are kept")
    parser.add_argument("--table", action="store_true", help="print what is kept, simulate nothing")
    said = options(parser, smoke)
    if said.quick:
        said.simulations, said.designs = 40, ["0", "j"]
        said.records, said.epsilons = [8000], [1.0]
    warnings.simplefilter("ignore")
    print(
        "design family    records epsilon simulations | pooled  worst p(worst)  width type-I "
        "unknown seconds missed"
    )
    p: list[float] = []
    lines, missed = 0, 0
    for cell in cells(said):
        began = time.process_time()
        counts = (
            kept(said.place, cell, said.engine)
            if said.table
            else measured(cell, said.simulations, said.place, said.engine)
        )
        if counts is None:
            continue
        found = summary(cell, counts)
        _say(cell, counts, found, time.process_time() - began)
        p += found.p
        lines, missed = lines + 1, missed + bool(found.missed)
    print(f"{lines - missed} of {lines} cells meet their aims")
    print(f"p of the worst coefficient, Holm-corrected over all {len(p)}: {holm(tuple(p)):.2g}")
    if lines:
        report("intervals of glm: cells that meet their aims", (lines - missed) / lines, "of them")
    return 0


def _say(cell: Cell, counts: Tally, found: Summary, seconds: float) -> None:
    over = "+" if found.pooled > 0.97 else " "
    print(
        f"{cell.design:6} {cell.family:9} {cell.records:7d} {cell.epsilon:7g} "
        f"{counts.simulations:11d} | {found.pooled:6.3f}{over} {found.worst:5.3f} "
        f"{found.holm:8.3f} {found.width:6.2f} {found.type_one:6.3f} {found.unknown:7.2f} "
        f"{seconds:7.0f} {' '.join(found.missed)}",
        flush=True,
    )
    what = (
        f"intervals of glm, design {cell.design}, {cell.family}, {cell.records:,} records, "
        f"epsilon {cell.epsilon:g}"
    )
    report(f"{what}: coverage of 95 %", found.pooled, "of the intervals", aim=0.94)
    report(
        f"{what}: width over that without privacy",
        found.width,
        "times as wide",
        aim=cell.widest,
        lower=True,
    )


if __name__ == "__main__":
    sys.exit(main())
