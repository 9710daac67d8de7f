"""What a study file becomes: a `Study`, how a table enters it, and how its result is read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from unisono.algorithms.one_shot import agree_facts
from unisono.core.algorithm import Algorithm, Facts
from unisono.core.study import Result, Study
from unisono.data import Table
from unisono.studies.schema import StudyFile
from unisono.studies.table import Values, values_of


def _no_arrays(value: Any) -> dict[str, np.ndarray]:
    return {}


@dataclass(frozen=True)
class Parts:
    """What an algorithm's builder knows: how checked values become its arrays, how its result
    becomes JSON, and which arrays are too large for JSON (an .npz file)."""

    algorithm: Algorithm
    facts: Facts
    encode: Callable[[Values], tuple[np.ndarray, ...]]
    present: Callable[[Study, Result], dict[str, Any]]
    arrays: Callable[[Any], Mapping[str, np.ndarray]] = field(default=_no_arrays)


@dataclass(frozen=True)
class Built:
    """A study that is ready to run; equal files give an equal `study.hash` (see `build`)."""

    file: StudyFile
    study: Study
    parts: Parts

    @property
    def column_names(self) -> tuple[str, ...]:
        """The columns of a party's file that are read."""
        return tuple(self.file.data.columns)

    def columns(self, table: Table, party: str) -> tuple[np.ndarray, ...]:
        """A party's records as the algorithm reads them: float32, one row for each record.

        Refuses wrong columns, types, categories and sizes; clips numbers and warns locally.
        """
        values = values_of(self.file, table, party, self.study.facts.places)
        return tuple(array.astype(np.float32) for array in self.parts.encode(values))

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
        [party.records for party in file.parties], features, file.trust.mode,
        minimum_survivors=file.survivors, colluders=file.colluders,
        exact_sizes=file.data.sizes == "exact",
    )  # fmt: skip
    return replace(facts, retries=file.trust.retries)


def rounded(number: float) -> float:
    """Six digits: what a rule computes, libraries of other machines compute to the last bit only
    nearly, and parties must agree exactly.

    >>> rounded(0.12345678901)
    0.123457
    """
    return float(f"{number:.6g}")


__all__ = ["Built", "Parts", "facts_of", "rounded"]
