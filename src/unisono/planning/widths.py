"""How wide the intervals of a generalised linear model will be, before there are data.

A plan supposes records and lets the algorithm's own functions (`algorithms.fisher_scoring`) work on
their sums, with noise of the deviation that the study will add, a few times with fixed seeds. What
`fitted` says of its errors then is the prediction, the median over these. No table is read.
Supposed are columns that are independent of each other, numbers normal, values of a category alike
often, and effects that are small, so that the target does not depend on them:

    binomial   outcomes of a given share, a half unless told
    gaussian   errors that are normal; effects count in deviations of the target
    poisson    counts of mean 1 without further dispersion

Real columns are correlated, values are rare, and large effects move the curvature: all of that
widens intervals, with privacy and without. By the variance inflation factor 1 / (1 - R²), a number
that others explain half of has intervals 1.4 times as wide; a value that one record in twenty has
is known 2.3 times less well than one of a half. A rare outcome widens intervals and their part of
privacy: its share is worth telling.

Power is that of the two-sided 5 % test, Φ(|β| / s - z) + Φ(-|β| / s - z) with z = 1.96, times how
often the coefficient is determined at all (`models.inference`).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import ndtr, ndtri

from unisono.algorithms import column_scales, fisher_scoring
from unisono.algorithms.noisy_scores import numpy_loop
from unisono.algorithms.survey import Opened, pack
from unisono.core.study import Study
from unisono.errors import InvalidInput
from unisono.models.inference import determined
from unisono.problems.glm import Columns, GeneralizedLinear
from unisono.releases.release import price

DRAWS = 7  # of the noise, over which medians are taken
_SUPPOSED = 4096  # records that stand for all
SPREAD = 0.25  # of a number within [-1, 1]
_COUNT = 1.0  # the mean of counts
_TEST = float(ndtri(0.975))
# What is asked for where nobody names an effect: ratios, or parts of the target's deviation.
RATIOS, DIFFERENCES = (1.1, 1.2, 1.5), (0.05, 0.1, 0.2)


@dataclass(frozen=True)
class PlannedWidth:
    """Of one column: the standard error of its coefficient, the one that the usual fit of the same
    records without privacy would have, and how often it is determined. A number's coefficient is
    for a change by its deviation, a category's for a value instead of the reference."""

    name: str
    number: bool
    values: int  # of a category, the reference among them; 0 of a number
    std_error: float
    sampling_error: float
    determined: float

    @property
    def inflation(self) -> float:
        """How many times wider privacy makes the interval."""
        return self.std_error / self.sampling_error

    def reach(self, confidence: float = 0.95) -> float:
        """Half the width of an interval."""
        return float(ndtri(0.5 + confidence / 2)) * self.std_error

    def power(self, effect: float) -> float:
        """How often a coefficient of this size is told from zero."""
        size = abs(effect) / self.std_error
        return self.determined * float(ndtr(size - _TEST) + ndtr(-size - _TEST))

    def detectable(self, power: float = 0.8) -> float:
        """The least coefficient that is found this often, where it is determined."""
        return (_TEST + float(ndtri(power))) * self.std_error


@dataclass(frozen=True)
class Widths:
    """The columns of a study, in the order of its file."""

    family: str
    records: int
    rounds: int
    columns: tuple[PlannedWidth, ...]

    @property
    def ratios(self) -> bool:
        """Whether exp of a coefficient is a ratio."""
        return self.family != "gaussian"

    @cached_property
    def typical(self) -> PlannedWidth:
        """The column in the middle, by its error."""
        return sorted(self.columns, key=lambda one: one.std_error)[len(self.columns) // 2]

    def coefficient(self, effect: float) -> float:
        """The coefficient of an effect as people name it: a ratio, or a difference in deviations
        of the target.

        >>> Widths("gaussian", 1, 1, ()).coefficient(0.2)
        0.2
        """
        if not self.ratios:
            return effect
        if not effect > 0:
            raise InvalidInput(f"effect = {effect!r}: a ratio is above zero, as 1.2")
        return math.log(effect)


def widths_of(study: Study, share: float | None = None) -> Widths:
    """The prediction for a study by Fisher scoring; `share` of the records have the outcome."""
    problem = study.method.problem
    if not isinstance(problem, GeneralizedLinear):
        raise InvalidInput(
            f"widths of intervals are predicted for generalised linear models, not for "
            f"{study.algorithm.name}"
        )
    if share is not None and (problem.family != "binomial" or not 0 < share < 1):
        raise InvalidInput(
            f"share = {share!r}: the share of records with the outcome lies between 0 and 1, and "
            f"goes with the binomial family; this one is {problem.family}"
        )
    rows = jnp.asarray(_supposed(problem, 0.5 if share is None else share), jnp.float32)
    errors, known = [], []
    for own in _fits(study, problem, rows):
        # Numbers count by their deviation, values as 0 and 1, and the gaussian's in deviations.
        unit = np.where(problem.numeric, SPREAD / own.scale, 1 / own.scale)
        unit = unit / (SPREAD if problem.family == "gaussian" else 1.0)
        matrix = np.diag([1.0, *unit])
        errors.append(np.sqrt(np.diagonal(matrix @ own.covariance @ matrix)))
        known.append(determined(own.covariance, own.prior, matrix, own.weak))
    records, half = sum(study.facts.records), 0.5 if share is None else share
    each = {"binomial": half * (1 - half), "poisson": _COUNT}.get(problem.family, 1.0)
    columns = by_column(
        problem.columns,
        np.median(np.stack(errors), axis=0)[1:],
        sampling_errors(problem.columns, records * each),
        np.mean(known, axis=0)[1:],
    )
    return Widths(problem.family, records, own.rounds, columns)


def sampling_errors(columns: Sequence[Columns], information: float) -> np.ndarray:
    """Standard errors (d,) of the usual fit without privacy, which has no weights: the inverse of
    the information of all records times the covariance of the features."""
    if not columns:
        return np.zeros(0)
    features = supposed_columns(columns, _SUPPOSED, np.random.default_rng(20))
    units = np.repeat([SPREAD if c.number else 1.0 for c in columns], [c.width for c in columns])
    covariance = np.atleast_2d(np.cov(features / units, rowvar=False))
    return np.asarray(np.sqrt(np.diagonal(np.linalg.pinv(information * covariance))))


def _fits(study: Study, problem: GeneralizedLinear, rows: Any) -> Iterator[fisher_scoring.Fitted]:
    """What the algorithm would say of sums of these rows, as many as the study has, with noise."""
    method, facts, algorithm = study.method, study.facts, study.algorithm
    config = fisher_scoring.resolve(method.config, problem, facts, method.privacy, study.trust)
    released = fisher_scoring.release(config, problem, facts)
    priced = price(released, method.privacy, facts, study.trust)
    terms = fisher_scoring.terms_of(config, problem, priced)
    [block] = fisher_scoring.table(config, problem, facts).blocks
    assert algorithm.begin is not None
    first = jax.tree.map(np.array, algorithm.begin(facts, _scales(study, problem, rows))[0])
    records = sum(facts.records)
    supposed = rows if facts.group == 1 else _lone(rows, facts.group)
    for seed in range(DRAWS):
        noise = np.random.default_rng(seed)
        # The rounds of `fisher_scoring.build`, in NumPy: nothing is compiled for a plan.
        state = jax.tree.map(np.copy, first)
        for number, deviation in enumerate(terms.noise):
            for kept, point in zip(state.points, state.point, strict=True):
                kept[number] = point
            values = block.values(algorithm.ask(state), supposed)
            sums = np.asarray(block.rows.of(values), float).mean(axis=0) * records
            state.sums[number] = sums + deviation * noise.standard_normal(len(sums))
            state.records[number] = records
            point = fisher_scoring.next_point(np, numpy_loop, terms, state, number)
            state = state._replace(point=point, round=number + 1)
        yield fisher_scoring.fitted(terms, state)


def _lone(rows: Any, group: int) -> tuple[Any, Any]:
    """Records as persons who have one each: how many they have is not public, and more of them
    would say more."""
    points = jnp.full((len(rows), group, rows.shape[1]), jnp.nan).at[:, 0].set(rows)
    return points, jnp.zeros((len(rows), group)).at[:, 0].set(1.0)


def by_column(
    columns: Sequence[Columns], errors: np.ndarray, alone: np.ndarray, known: np.ndarray
) -> tuple[PlannedWidth, ...]:
    """One row for each column: its values are alike, so the noise of single ones is averaged."""
    ends = np.cumsum([0, *(own.width for own in columns)])
    return tuple(
        PlannedWidth(
            own.name,
            own.number,
            0 if own.number else own.width + 1,
            *(float(part[a:b].mean()) for part in (errors, alone, known)),
        )
        for own, a, b in zip(columns, ends[:-1], ends[1:], strict=True)
    )


def _supposed(problem: GeneralizedLinear, share: float) -> np.ndarray:
    """Rows (n, width) as `GeneralizedLinear` takes them, always the same."""
    random = np.random.default_rng(20)
    parts: list[Any] = [supposed_columns(problem.columns, _SUPPOSED, random)]
    if problem.family == "binomial":
        y = random.permutation(np.arange(_SUPPOSED) < share * _SUPPOSED).astype(float)
    elif problem.family == "gaussian":
        y = np.clip(SPREAD * random.standard_normal(_SUPPOSED), *problem.target)
    else:
        y = np.minimum(random.poisson(_COUNT, _SUPPOSED), problem.target[1])
    parts.append(y[:, None])
    if problem.offset is not None:
        parts.append(np.full((_SUPPOSED, 1), sum(problem.offset) / 2))
    if problem.weighted:
        parts.append(np.ones((_SUPPOSED, 1)))
    return np.concatenate(parts, axis=1).astype(float)


def supposed_columns(
    columns: Sequence[Columns], records: int, random: np.random.Generator
) -> np.ndarray:
    """Independent features (n, d): numbers normal, values of a category alike often, or by their
    public shares."""
    parts: list[Any] = []
    for own in columns:
        if own.number:
            numbers = np.clip(SPREAD * random.standard_normal(records), -1.0, 1.0)
            parts.append(numbers[:, None])
        else:
            values = random.permutation(_values(own, records))
            parts.append(values[:, None] == np.arange(1, own.width + 1))
    return np.concatenate([np.zeros((records, 0)), *parts], axis=1)


def _values(own: Columns, records: int) -> np.ndarray:
    """Places of a category's values (n,): alike often, or by their public shares."""
    place = np.arange(records)
    if own.shares is None:
        return place % (own.width + 1)
    ends = np.cumsum([1 - sum(own.shares), *own.shares])
    return np.searchsorted(ends[:-1], (place + 0.5) / records)


def _scales(study: Study, problem: GeneralizedLinear, rows: Any) -> Any:
    """What the first stage would have released of these rows, without its noise, which is small."""
    records = sum(study.facts.records)
    [block] = column_scales.table(problem, study.facts).blocks
    assert block.cells is not None
    cells = np.asarray(block.cells((), rows)).ravel()
    counts = np.bincount(cells, minlength=sum(block.level_sizes)) * (records / len(rows))
    total = jnp.asarray(counts, jnp.float32)
    return pack(Opened(total, jnp.int32(study.facts.parties), jnp.float32(records)))


__all__ = [
    "DIFFERENCES",
    "DRAWS",
    "RATIOS",
    "SPREAD",
    "PlannedWidth",
    "Widths",
    "by_column",
    "sampling_errors",
    "supposed_columns",
    "widths_of",
]
