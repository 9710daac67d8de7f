"""Scores evaluated in two rounds: noisy distributions first, then influence functions at them.

    first   counts of leaves of the scores by outcome, a tree; confusion matrix, losses (`survey`)
    then    ONE sum of a bounded row of every record: its influence on the AUC and its score of the
            calibration line, both at the distributions of the first round

With groups every record adds one row for everybody and one in its group's cell. What stands in a
row is computed from public values and that record's score and outcome alone. Its two parts are

    AUC           (φ(x, y) - centre) / half,  an interval of public ends that the first round tells;
                  0 as the centre where records are not counted in public
    calibration   (1, z) (y - π') / R, moved into the unit ball

weighted by α and β with α² + β² = 1, so that the row lies in the unit ball whatever a record holds:
it moves the sum by 1 at most where it is taken away, added or zeroed out, and by 2 where it is
replaced. Its price follows from that, and is known before the first round.

See `score_distributions` for the formulas. Units: record and person (a mean of its records' rows).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from unisono.algorithms import survey
from unisono.algorithms.noise_law import sum_law
from unisono.algorithms.quantiles import quantile_block
from unisono.algorithms.readings import Noisy, read_blocks
from unisono.algorithms.score_distributions import (
    EDGES,
    LEAVES,
    LIMIT,
    TREE,
    area,
    left_of,
    radius_of,
    shares,
    start_of,
)
from unisono.algorithms.survey import Question, Survey, remembered
from unisono.core.algorithm import Aggregate, Facts
from unisono.core.study import Study
from unisono.core.trust import Unit
from unisono.releases.algorithm import Algorithm, AlgorithmConfig, AlgorithmKind, Earlier
from unisono.releases.release import Priced, Release
from unisono.releases.rows import BallPoint, into_ball
from unisono.releases.table import Block, Table, TableRecords, codes

# Of the promise, the part that pays for the first round; in squares of μ it is about 3 quarters.
FIRST_SHARE = 0.63
# In squares, the AUC's part of a row where there is one.
_AUC_SHARE = 0.4
# Columns of a record: leaf and outcome of its score, its cell of the confusion matrix, two losses,
# its group, and the score itself.
LEAF, OUTCOME, PAIR, SQUARE, LOSS, PLACE, SCORE = range(7)
OUTCOMES, TREES = 0, 1  # the first questions


class ScoreInfluenceConfig(AlgorithmConfig):
    """What is public says everything."""


@dataclass(frozen=True)
class ScoreSurvey(Survey):
    """The problem: what the first round counts, of `parts` groups of records with `classes`; the
    second is about these. With two classes there is an AUC; with more, a score is that of the class
    that is predicted, and the outcome whether it is right."""

    parts: int = 1
    classes: int = 2

    @property
    def binary(self) -> bool:
        return self.classes == 2

    @property
    def dimension(self) -> int:
        """Of a row."""
        return 2 + self.binary

    @property
    def agreed(self) -> dict[str, Any]:
        return super().agreed | {"groups": self.parts, "classes": self.classes}

    def sizes(self, pairs: np.ndarray) -> np.ndarray:
        """Records without and with the outcome, of confusion matrices (..., classes, classes)."""
        if self.binary:
            return np.asarray(pairs.sum(axis=-1))
        right = np.trace(pairs, axis1=-2, axis2=-1)
        return np.stack([pairs.sum(axis=(-2, -1)) - right, right], axis=-1)

    def size_errors(self, noise: float) -> np.ndarray:
        """Their standard deviations, of noise in the cells of one matrix."""
        own = np.array([self.classes**2 - self.classes, self.classes])
        return noise * np.sqrt([2.0, 2.0] if self.binary else own)


@remembered
def tree_question(parts: int) -> Question:
    """Counts of all leaves and nodes by group and outcome."""
    block = quantile_block(LEAF, TREE, "scores").by(OUTCOME, 2 * parts)
    about = (("kind", "score-trees"), ("leaves", LEAVES), ("limit", LIMIT), ("groups", parts))
    return Question("scores", lambda hidden: block, lambda *_: (), about)


# ------------------------------------------------------------------- the first round


def _first_build(
    config: ScoreInfluenceConfig, problem: ScoreSurvey, facts: Facts, priced: Priced
) -> Algorithm:
    table, privacy = problem.table(facts), priced.privacy
    assert privacy is not None
    weights = np.array(table.factors(privacy, priced.step)) * priced.step
    widths = [block.width for block in table.blocks]
    made = survey.build(config, problem, facts, priced)  # type: ignore[arg-type]

    def result(opened: survey.Opened) -> np.ndarray:
        own = np.asarray(opened.total, np.float64) / np.repeat(weights, widths)
        ends = [float(opened.survivors), float(opened.records)]
        return np.concatenate([own, priced.noise_std / weights, ends])

    return made._replace(result=result)


def _first_release(config: ScoreInfluenceConfig, problem: ScoreSurvey, facts: Facts) -> Release:
    return Release(problem.table(facts))


SCORE_COUNTS = AlgorithmKind(
    "score-counts",
    "noisy counts of scores by outcome, a confusion matrix and losses",
    ScoreInfluenceConfig,
    ScoreSurvey,
    _first_release,
    _first_build,
    units=(Unit.RECORD, Unit.PERSON),
    unit_rows=False,
    sends="noisy counts of scores by outcome, and sums of losses",
)


class FirstRound(NamedTuple):
    """What it released: values (cells, k) of every block in their own units, the standard deviation
    of their noise if every party answers, who answered, and their records."""

    blocks: list[np.ndarray]
    noises: np.ndarray
    survivors: int
    records: int

    def left(self, problem: ScoreSurvey, parts: Sequence[int]) -> np.ndarray:
        """Records of both outcomes in these groups together left of every edge (2, leaves + 1)."""
        values, groups = self.blocks[TREES][:, 0], 2 * problem.parts
        levels = np.split(values, np.cumsum([groups * TREE.branching]))
        own = [level.reshape(problem.parts, 2, -1)[list(parts)].sum(axis=0) for level in levels]
        pairs = self.blocks[OUTCOMES].reshape(problem.parts, problem.classes, problem.classes)
        return left_of(np.concatenate(own, axis=1), problem.sizes(pairs[list(parts)].sum(axis=0)))


def unpacked_first(value: Any, table: Table) -> FirstRound:
    """What the first round said, from its flat result."""
    value, widths = np.asarray(value, np.float64), [block.width for block in table.blocks]
    parts = np.split(value[: sum(widths)], np.cumsum(widths)[:-1])
    blocks = [own.reshape(-1, b.length) for own, b in zip(parts, table.blocks, strict=True)]
    noises = value[sum(widths) : -2]
    return FirstRound(blocks, noises, int(value[-2]), round(float(value[-1])))


# ------------------------------------------------------------------- what a record adds


class Point(NamedTuple):
    """What everybody knows of the first round, of everybody and then of each group (p, ...):
    distribution functions at the edges (p, 2, leaves + 1), the AUC there, records of both outcomes
    (p, 2), the ends of the influence function as centre and half; centre and scale of z, (a, b)
    (p, 2) and the radius of calibration."""

    below: Any
    auc: Any
    sizes: Any
    centre: Any
    half: Any
    middle: Any
    scale: Any
    at: Any
    radius: Any


def influences(xp: Any, point: Point, part: Any, leaf: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """φ (n,) and (1, z) (y - π') (n, 2) of records of these parts (n,), not bounded yet."""
    edges = xp.asarray(EDGES)
    within = xp.clip((x - edges[leaf]) / (edges[leaf + 1] - edges[leaf]), 0.0, 1.0)
    low, high = (point.below[part, :, leaf + step] for step in (0, 1))
    zero, one = xp.moveaxis(low + (high - low) * within[:, None], -1, 0)
    auc = point.auc[part]
    above = (zero - auc) / point.sizes[part, 1]
    under = (1 - one - auc) / point.sizes[part, 0]
    z = (x - point.middle[part]) / point.scale[part]
    chance = 1 / (1 + xp.exp(-xp.clip(point.at[part, 0] + point.at[part, 1] * z, -60.0, 60.0)))
    residual = y - chance
    return xp.where(y > 0.5, above, under), xp.stack([residual, residual * z], axis=1)


def row_weights(problem: ScoreSurvey) -> tuple[float, float]:
    """α and β."""
    share = _AUC_SHARE if problem.binary else 0.0
    return math.sqrt(share), math.sqrt(1 - share)


def rows_of(xp: Any, problem: ScoreSurvey, point: Point, part: Any, records: Any) -> Any:
    """The rows (n, dimension), in the unit ball; of records that miss their score or outcome those
    of no influence."""
    x, code = records[:, SCORE], records[:, OUTCOME]
    leaf = xp.clip(records[:, LEAF], 0, LEAVES - 1)
    there = xp.isfinite(x + code + leaf)
    x, code = xp.where(there, x, 0.0), xp.where(there, code, 0.0)
    leaf = xp.where(there, leaf, 0.0).astype("int32")
    phi, score = influences(xp, point, part, leaf, x, code % 2)
    alpha, beta = row_weights(problem)
    score = xp.where(there[:, None], score / point.radius[part, None], 0.0)
    found = [beta * into_ball(xp, score)]
    if problem.binary:
        placed = (xp.where(there, phi, 0.0) - point.centre[part]) / point.half[part]
        found.insert(0, alpha * xp.clip(placed, -1.0, 1.0)[:, None])
    return xp.concatenate(found, axis=1)


def table(problem: ScoreSurvey, facts: Facts) -> Table:
    """One row of every record, and one in the cell of its group."""
    rows = BallPoint(problem.dimension, sized=False)

    def everybody(public: Point, records: Any) -> Any:
        return rows_of(jnp, problem, public, jnp.zeros(len(records), "int32"), records)

    def grouped(public: Point, records: Any) -> Any:
        part = 1 + jnp.maximum(codes(records[:, PLACE], problem.parts), 0)
        return rows_of(jnp, problem, public, part, records)

    blocks = [Block("influence", rows, everybody)]
    if problem.parts > 1:
        own = Block("influence by group", rows, grouped)
        blocks.append(own.by(PLACE, problem.parts))
    return Table(tuple(blocks), group=facts.group)


def _point_of(problem: ScoreSurvey, found: FirstRound, units: np.ndarray, facts: Facts) -> Point:
    """The public values of the second round; `units` are the standard deviations of its blocks."""
    parts = [list(range(problem.parts))]
    if problem.parts > 1:
        parts += [[p] for p in range(problem.parts)]
    made = []
    for place, own in enumerate(parts):
        left = found.left(problem, own)
        noise = float(found.noises[TREES]) * math.sqrt(len(own))
        below, sizes = shares(left), left[:, -1]
        auc, least = float(area(below)), float(sizes.min())
        low, high = -auc / least, (1 - auc) / least
        centred = place == 0 and facts.exact_sizes
        centre = (low + high) / 2 if centred else 0.0
        start = start_of(left, noise)
        unit = float(units[min(place, 1)]) / row_weights(problem)[1]
        made.append(
            Point(
                below,
                auc,
                sizes,
                centre,
                max(high - centre, centre - low),
                start.centre,
                start.scale,
                start.at,
                radius_of(start, noise, unit),
            )
        )
    return Point(*(np.stack([np.asarray(p) for p in own]) for own in zip(*made, strict=True)))


# ------------------------------------------------------------------- the algorithm


class ScoreState(NamedTuple):
    """The server's: the public values, the first round's result, and then the second round's sum,
    who answered, and their records."""

    point: Point
    first: Any
    total: Any
    survivors: Any
    records: Any


def _release(config: ScoreInfluenceConfig, problem: ScoreSurvey, facts: Facts) -> Release:
    return Release(table(problem, facts))


def _build(
    config: ScoreInfluenceConfig, problem: ScoreSurvey, facts: Facts, priced: Priced
) -> Algorithm:
    first, own = problem.table(facts), table(problem, facts)
    assert priced.privacy is not None
    weights = np.array(own.factors(priced.privacy, priced.step)) * priced.step
    width = first.dimension + len(first.blocks) + 2

    def begin(found: Any) -> tuple[ScoreState, None]:
        value = np.zeros(width) if found is None else np.asarray(found, np.float64)
        point = _point_of(problem, unpacked_first(value, first), priced.noise_std / weights, facts)
        state = ScoreState(
            Point(*(jnp.asarray(part, jnp.float32) for part in point)),
            jnp.asarray(value, jnp.float32),
            jnp.zeros(own.dimension, jnp.float32),
            jnp.int32(0),
            jnp.float32(0),
        )
        return state, None

    def merge(state: ScoreState, sums: Aggregate) -> ScoreState:
        return state._replace(
            total=jnp.asarray(sums.total, jnp.float32),
            survivors=jnp.asarray(sums.survivors, jnp.int32),
            records=jnp.asarray(sums.records, jnp.float32),
        )

    return Algorithm(
        init=lambda: begin(None),
        begin=begin,
        ask=lambda state: state.point,
        local=TableRecords(facts.group),
        merge=merge,
        result=lambda state: state,
    )


class Influence(NamedTuple):
    """The sum of the second round for one part: the AUC's influence and its noise, the sum of
    scores (2,) and the noise of each number of it."""

    auc: float
    auc_noise: float
    score: np.ndarray
    score_noise: float


class ScoreRounds(NamedTuple):
    """Both rounds, as they are read: the first one's blocks, what it made public, and the sums of
    everybody and of each group; none where too few parties answered the second."""

    first: FirstRound
    blocks: list[Noisy]
    point: Point
    sums: tuple[Influence, ...] | None

    def left(self, problem: ScoreSurvey, parts: Sequence[int]) -> np.ndarray:
        """Records of both outcomes left of every edge."""
        return self.first.left(problem, parts)


def opened(study: Study, value: ScoreState) -> ScoreRounds:
    """Of a finished study; refuses one whose first round was never opened."""
    problem, facts, trust = study.method.problem, study.facts, study.trust
    own, first_table = table(problem, facts), problem.table(facts)
    flat = np.asarray(value.first, np.float64)
    survey.unpack(flat)  # refuses
    first = unpacked_first(flat, first_table)
    algorithm = study.algorithm
    step, event = algorithm.grid(facts, trust), algorithm.event(facts, trust)
    shape = sum_law(event, facts, trust, first.survivors, step)
    whole = sum_law(event, facts, trust, facts.parties, step).std
    blocks = [
        Noisy(
            own,
            shape.scaled(noise / whole),
            np.zeros(own.shape[1]),
            first.records,
            facts.exact_sizes,
        )
        for own, noise in zip(first.blocks, first.noises, strict=True)
    ]
    first = first._replace(noises=np.array([block.law.std for block in blocks]))
    point = Point(*(np.asarray(part, np.float64) for part in value.point))
    if int(value.survivors) == 0:
        return ScoreRounds(first, blocks, point, None)
    total = np.asarray(value.total, np.float64)
    survivors, records = int(value.survivors), round(float(value.records))
    found = read_blocks(own, study, total, survivors, records)
    rows = np.concatenate([block.values for block in found])
    noises = np.repeat([block.law.std for block in found], [len(b.values) for b in found])
    alpha, beta = row_weights(problem)
    sums = []
    for place, (row, noise) in enumerate(zip(rows, noises, strict=True)):
        half, radius = float(point.half[place]), float(point.radius[place])
        auc = auc_noise = 0.0
        if problem.binary:
            auc = half * float(row[0]) / alpha + records * float(point.centre[place])
            auc_noise = half * noise / alpha
        sums.append(Influence(auc, auc_noise, radius * row[-2:] / beta, radius * noise / beta))
    return ScoreRounds(first, blocks, point, tuple(sums))


def _earlier(config: ScoreInfluenceConfig, problem: ScoreSurvey) -> Earlier | None:
    return Earlier(SCORE_COUNTS, FIRST_SHARE)


SCORE_INFLUENCE = AlgorithmKind(
    "score-influence",
    "noisy distributions of scores, then one bounded row a record for AUC and calibration",
    ScoreInfluenceConfig,
    ScoreSurvey,
    _release,
    _build,
    units=(Unit.RECORD, Unit.PERSON),
    unit_rows=False,
    sends="noisy counts of scores by outcome, and noisy sums of bounded influence functions",
    earlier=_earlier,
)

__all__ = [
    "FIRST_SHARE",
    "SCORE_COUNTS",
    "SCORE_INFLUENCE",
    "Influence",
    "Point",
    "ScoreInfluenceConfig",
    "ScoreRounds",
    "ScoreState",
    "ScoreSurvey",
    "opened",
    "rows_of",
    "table",
    "tree_question",
]
