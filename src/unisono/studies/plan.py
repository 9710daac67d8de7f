"""What a study file becomes: a `Study`, how a table enters it, and how its result is read."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from unisono.core.algorithm import Facts, agree_facts
from unisono.core.events import Composed
from unisono.core.study import Result, Study
from unisono.core.trust import Viewer
from unisono.data import Table, read_table
from unisono.errors import InvalidInput
from unisono.studies.evaluation import Examination, read_public
from unisono.studies.order import secret_order
from unisono.studies.schema import StudyFile
from unisono.studies.table import Values, public_values, values_of

Score = Callable[[Any, tuple[np.ndarray, ...]], np.ndarray]


def _no_arrays(value: Any) -> dict[str, np.ndarray]:
    return {}


@dataclass(frozen=True)
class Parts:
    """What an algorithm's builder knows: how checked values become its arrays, how its result
    becomes JSON, and which arrays are too large for JSON (an .npz file).

    `score` judges a result record by record, from its arrays: (n,) in [0, 1], where the target is a
    category 1 for a right prediction and 0 for a wrong one, where it is a number the absolute error
    as a share of the target's range."""

    algorithm: Any
    facts: Facts
    encode: Callable[[Values], tuple[np.ndarray, ...]]
    present: Callable[[Study, Result], dict[str, Any]]
    arrays: Callable[[Any], Mapping[str, np.ndarray]] = field(default=_no_arrays)
    score: Score | None = None


@dataclass(frozen=True)
class Built:
    """A study that is ready to run; equal files give an equal `study.hash` (see `build`)."""

    file: StudyFile
    study: Study
    parts: Parts
    test: Examination | None = None

    @property
    def column_names(self) -> tuple[str, ...]:
        """The columns of a party's file that are read."""
        return tuple(self.file.data.columns)

    def table(self, path: str | Path) -> Table:
        """The study's columns of a file of records."""
        return read_table(path, self.column_names, self.file.data.multiline)

    def columns(self, table: Table, party: str) -> tuple[np.ndarray, ...]:
        """A party's records as the algorithm reads them: float32, one row for each record.

        Refuses wrong columns and sizes; clips numbers, takes what cannot be read for missing, and
        warns locally. In a secret order, and without those that are kept out, where there is such a
        thing (`split`).
        """
        return self.split(table, party)[0]

    def split(
        self, table: Table, party: str, seed: int | None = None
    ) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
        """A party's records to learn from, and those that are kept to test the result.

        How many are kept is public, which is drawn anew in every call and is a secret (see
        `order`); so is the order of those to learn from, where the algorithm goes by places. A seed
        makes both a simulation's.
        """
        arrays = self._encoded(values_of(self.file, table, party))
        held = self.file.held_out[self.file.party(party)]
        if held or self.study.algorithm.rows is not None:
            order = secret_order(len(arrays[0]), party, seed)
            arrays = tuple(array[order] for array in arrays)
        return tuple(array[held:] for array in arrays), tuple(array[:held] for array in arrays)

    def _encoded(self, values: Values) -> tuple[np.ndarray, ...]:
        return tuple(array.astype(np.float32) for array in self.parts.encode(values))

    @property
    def costs(self) -> Sequence[Mapping[Viewer, Composed]]:
        """What all of it shows of each party to each viewer: the training, and the test."""
        if self.test is None:
            return self.study.costs
        tested = self.test.study.cost
        both = {  # parties that pay alike share one
            id(cost): {viewer: history + tested[viewer] for viewer, history in cost.items()}
            for cost in self.study.costs
        }
        return [both[id(cost)] for cost in self.study.costs]

    def judge(self, value: Any, values: Values, name: str) -> dict[str, Any]:
        """How good a result is on public records that are `testable`; nothing is paid."""
        assert self.parts.score is not None
        scores = self.parts.score(value, self._encoded(values))
        return read_public(self.file, scores, values[self.file.data.target or ""], name)

    def testable(self, table: Table) -> Values:
        """The values of public records, where there is something to test on them."""
        if self.parts.score is None:
            raise InvalidInput(
                f"{self.file.algorithm.name} predicts nothing that could be right or wrong: run it "
                "without test records"
            )
        return public_values(self.file, table)

    def present(self, result: Result) -> dict[str, Any]:
        """The result as plain JSON, in the user's words and units."""
        shown = self.parts.present(self.study, result)
        return {
            "title": self.file.title, "algorithm": self.file.algorithm.name,
            "study": self.study.hash, "file": self.file.hash, **shown,
        }  # fmt: skip

    def arrays(self, result: Result) -> dict[str, np.ndarray]:
        """What belongs into an .npz file, by name; empty where JSON says it all."""
        return dict(self.parts.arrays(result.value))


def facts_of(file: StudyFile, features: int) -> Facts:
    """The public facts, for so many numbers in a row."""
    facts = agree_facts(
        file.training, features, file.trust.mode,
        minimum_survivors=file.survivors, colluders=file.colluders,
        exact_sizes=file.data.sizes == "exact",
    )  # fmt: skip
    return replace(facts, retries=file.trust.retries)


def share_of_range(predicted: np.ndarray, true: np.ndarray) -> np.ndarray:
    """Absolute errors of targets scaled to [-1, 1], as shares of that range.

    >>> share_of_range(np.array([0.5, 7.0]), np.array([0.0, -1.0]))
    array([0.25, 1.  ])
    """
    errors = np.abs(np.clip(predicted, -1.0, 1.0) - np.clip(true, -1.0, 1.0)) / 2
    return np.nan_to_num(np.asarray(errors, float), nan=1.0)


def rounded(number: float) -> float:
    """Six digits: what a rule computes, libraries of other machines compute to the last bit only
    nearly, and parties must agree exactly.

    >>> rounded(0.12345678901)
    0.123457
    """
    return float(f"{number:.6g}")


__all__ = ["Built", "Parts", "Score", "facts_of", "rounded", "share_of_range"]
