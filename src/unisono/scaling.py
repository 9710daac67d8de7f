"""Ranges and scales that nobody knows beforehand, learnt across all parties and paid for.

A model needs features of comparable size, and bounds. Reading them from the data would leak; here
they come from one noisy hierarchical histogram per column (`unisono.algorithms.quantiles`), all
columns in one release, over a public range so wide that it is certain to hold (thesis, 4.2.2).
Leaves are spaced by asinh(x / fine), so a range of ±1e9 still resolves single units.

    scaler = PrivateScaler(epsilon=0.2, delta=1e-6, reach=1e9, fine=1.0)
    scaling = scaler.fit(parties, trust=Trust.SECURE_SUM, records=sizes, features=14)
    parties = [Party(p.name, p.data.map(scaling.apply), p.ledger) for p in parties]

`PrivateRanges` does the same where not even a public range is at hand, as the first stage of a
study or of an estimator's fit: see `unisono.algorithms.ranges` for how few records it needs. Labels
that nobody has listed are found in the same release (`unisono.algorithms.labels`).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from unisono.algorithms.estimates import Estimate
from unisono.algorithms.labels import Labels, label_names, least_count, least_spelt
from unisono.algorithms.quantiles import Tree, quantiles
from unisono.algorithms.ranges import COARSE, Range, column_range, resolution
from unisono.algorithms.readings import read_blocks
from unisono.algorithms.survey import STATISTICS, Survey
from unisono.core.algorithm import Facts, agree_facts
from unisono.core.certificate import Certificate
from unisono.core.events import positive
from unisono.core.privacy import Privacy
from unisono.core.study import Party, Result, Study
from unisono.core.transcript import Transcript
from unisono.core.trust import Relation, Trust
from unisono.data.spelling import GRID
from unisono.errors import InvalidInput


@dataclass(frozen=True)
class Scaling:
    """Private quantiles per column, and what follows from them; all arrays (features,).

    `low` and `high` bound all but a known part of the records, `centre` is the median and `scale`
    half the spread between the quartiles (never below half of the finest resolution).
    """

    low: np.ndarray
    high: np.ndarray
    centre: np.ndarray
    scale: np.ndarray
    beyond: float
    certificate: Certificate

    @property
    def bounds(self) -> tuple[tuple[float, float], ...]:
        """Bounds per column, which other algorithms may use as public from now on."""
        return tuple((float(a), float(b)) for a, b in zip(self.low, self.high, strict=True))

    def transform(self, features: np.ndarray) -> np.ndarray:
        """Clip (n, features) to the bounds and map them linearly to [-1, 1]."""
        half = (self.high - self.low) / 2
        clipped = np.clip(np.asarray(features, float), self.low, self.high)
        return (clipped - self.low) / half - 1

    def standardise(self, features: np.ndarray) -> np.ndarray:
        """Clip to the bounds, then subtract the median and divide by the scale."""
        clipped = np.clip(np.asarray(features, float), self.low, self.high)
        return (clipped - self.centre) / self.scale

    def apply(self, data: tuple[Any, ...]) -> tuple[Any, ...]:
        """`transform` on the first array of a party's data: for `Private.map`."""
        return (self.transform(data[0]), *data[1:])

    @property
    def text(self) -> str:
        rows = zip(self.low, self.high, self.centre, self.scale, strict=True)
        return "\n".join(
            f"column {i}: {1 - 2 * self.beyond:.0%} of the records in [{a:.5g}, {b:.5g}], median "
            f"{c:.5g}, scale {s:.5g}"
            for i, (a, b, c, s) in enumerate(rows)
        )


@dataclass(frozen=True)
class PrivateScaler:
    """How to learn a `Scaling`: the promise for all columns together, the public range
    [-reach, reach] and the finest resolution, and how many records may be left outside."""

    epsilon: float
    delta: float = 0.0
    reach: float = 1e9
    fine: float = 1.0
    beyond: float = 0.01
    branching: int = 16
    depth: int = 2
    relation: Relation = Relation.REPLACE_ONE

    def __post_init__(self) -> None:
        positive(epsilon=self.epsilon, reach=self.reach, fine=self.fine, beyond=self.beyond)
        if self.beyond >= 0.25:
            raise InvalidInput(
                f"beyond = {self.beyond!r}: bounds that leave a quarter or more outside on each "
                "side are no bounds; choose about 0.01"
            )

    def survey(self, features: int) -> Survey:
        """The one release that all columns are read from."""
        levels = (self.beyond, 0.25, 0.5, 0.75, 1 - self.beyond)
        questions = [
            quantiles(
                column,
                (-self.reach, self.reach),
                levels,
                name=f"column {column}",
                branching=self.branching,
                depth=self.depth,
                fine=self.fine,
            )
            for column in range(features)
        ]
        return Survey(questions)

    @property
    def privacy(self) -> Privacy:
        """The promise for all columns together."""
        return Privacy(self.epsilon, self.delta, self.relation)

    def read(self, survey: Survey, study: Study, result: Result) -> Scaling:
        """The scaling that a finished run of `survey` says."""
        return _scaling(survey.read(study, result), self, result.certificate)

    def fit(
        self,
        parties: Sequence[Party],
        *,
        records: Sequence[int],
        features: int,
        trust: Trust = Trust.SECURE_SUM,
        exact_sizes: bool = True,
        minimum_parties: int | None = None,
        colluders: int | None = None,
        run: Callable[..., Result] | None = None,
    ) -> Scaling:
        """Pay for the scaling at every party and learn it; `run` is the engine's, in process
        unless given. Sizes and the number of features are public facts."""
        survey = self.survey(features)
        facts = agree_facts(
            records,
            features,
            trust,
            minimum_parties=minimum_parties,
            colluders=colluders,
            exact_sizes=exact_sizes,
        )
        study = Study(STATISTICS.method(survey, self.privacy), facts, trust)
        if run is None:
            from unisono.engines import in_process

            run = in_process.run
        return self.read(survey, study, run(study, parties))


# ------------------------------------------------------------- ranges of columns without any


@dataclass(frozen=True)
class PrivateRanges:
    """The one release that the ranges of some columns are read from, and the labels of others, all
    together. A party's rows hold first the `columns`, then the places of each column of labels."""

    survey: Survey
    study: Study
    columns: int

    def read(self, value: Any, certificate: Certificate | None = None) -> dict[str, Range | Labels]:
        """What a finished run of `study` says, by the columns' names: ranges, or labels."""
        result = Result(value, certificate, Transcript())  # type: ignore[arg-type]
        found: list[Any] = self.survey.read(self.study, result)
        return {q.name: one for q, one in zip(self.survey.questions, found, strict=True)}

    @property
    def noise_std(self) -> float:
        """The noise of a count."""
        return self._noises[0]

    @property
    def ratio(self) -> float:
        """How many records there are for each unit of noise: below about 3, ranges are guesses."""
        return sum(self.study.facts.records) / self.noise_std

    @property
    def least_count(self) -> float:
        """From how many records on a label is found that is looked up; infinite without any."""
        return least_count(self._noises[-1]) if self._labelled else math.inf

    @property
    def least_spelt(self) -> float:
        """From how many records on any other label is found, if it is short."""
        return least_spelt(self._noises[-1]) if self._labelled else math.inf

    @property
    def _labelled(self) -> bool:
        return len(self.survey.questions) > self.columns

    @property
    def _noises(self) -> list[float]:
        study, table = self.study, self.survey.table(self.study.facts)
        parties, records = study.facts.parties, sum(study.facts.records)
        found = read_blocks(table, study, np.zeros(table.dimension), parties, records)
        return [noisy.law.std for noisy in found]


class Wanted(NamedTuple):
    """How many labels of a column are to be found, and those that may be expected."""

    most: int
    candidates: tuple[str, ...] = ()


def private_ranges(
    columns: Sequence[str],
    privacy: Privacy,
    facts: Facts,
    trust: Trust,
    labels: Mapping[str, Wanted] | None = None,
) -> PrivateRanges:
    """The release that finds the ranges of these columns, and the labels of others; which tree,
    public facts decide."""
    labels = labels or {}
    if labels and privacy.pure:
        raise InvalidInput(
            f"delta = 0, and the values of {', '.join(labels)} are to be found out: Laplace "
            f"noise in {GRID.levels} counts of each record would drown them; list them from public "
            "knowledge, or choose delta above 0"
        )

    def made(tree: Tree) -> PrivateRanges:
        asked = [column_range(number, name, tree) for number, name in enumerate(columns)]
        for number, (name, wanted) in enumerate(labels.items()):
            first = len(columns) + number * GRID.levels
            question = label_names(first, name, wanted.most, wanted.candidates)
            # Half of it all for labels: a lost class is worse than a range that is too wide.
            asked.append(question.weighing(max(1, len(columns)) / len(labels)))
        survey = Survey(asked)
        own = replace(facts, features=len(columns) + len(labels) * GRID.levels)
        study = Study(STATISTICS.method(survey, privacy), own, trust)
        return PrivateRanges(survey, study, len(columns))

    coarse = made(COARSE)
    if not columns:
        return coarse
    tree = resolution(sum(facts.records), coarse.noise_std)
    return coarse if tree is COARSE else made(tree)


def _scaling(found: list[Estimate], scaler: PrivateScaler, certificate: Certificate) -> Scaling:
    table = np.array([estimate.value for estimate in found]).reshape(-1, 5)
    # Noisy quantiles of one tree are ordered, but may coincide: keep a range of positive width.
    least = scaler.fine / 2
    low = table[:, 0]
    high = np.maximum(table[:, 4], low + 2 * least)
    scale = np.maximum((table[:, 3] - table[:, 1]) / 2, least)
    return Scaling(low, high, table[:, 2], scale, scaler.beyond, certificate)


__all__ = ["PrivateRanges", "PrivateScaler", "Scaling", "Wanted", "private_ranges"]
