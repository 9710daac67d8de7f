"""How exact the answers of a survey will be, before there are data.

The reading of a survey turns noisy sums into answers. A plan hands it the sums of made-up records,
spread evenly over the public ranges, and moves each sum by a little: what the answer moves is its
slope s_k, and

    standard error of the noise = std of one sum · sqrt(Σ s_k²)

exactly so where the answer is linear in the sums (means, sums and counts of public sizes, whatever
the data are), and to first order elsewhere. The margin is half of the interval that the run will
state. Neither counts the error of having sampled people at all.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from unisono.algorithms.survey import Opened, pack
from unisono.core.study import Result, Study

# More sums than this are not moved one by one; their margins say enough.
_MOVED = 64

Present = Callable[[Study, Any], Mapping[str, Any]]


class PlannedError(NamedTuple):
    """One question's error: of the worst of its numbers, where it has several."""

    name: str
    value: float
    error: float | None
    margin: float
    confidence: float


def answers_of(
    study: Study, present: Present, columns: tuple[np.ndarray, ...], std: float
) -> list[PlannedError]:
    """The errors of all answers; `columns` are made-up records, as the algorithm reads them, and
    stand for those of every party."""
    total = _clean_sum(study, columns)
    found = _read(study, present, total)
    slopes = _slopes(study, present, total, std) if len(total) <= _MOVED else None
    return [_answer(one, None if slopes is None else slopes[n], std) for n, one in enumerate(found)]


def _clean_sum(study: Study, columns: tuple[np.ndarray, ...]) -> np.ndarray:
    """The sum over all parties, as if each made-up record stood for as many as there are."""
    held = tuple(np.asarray(column, np.float32) for column in columns)
    mask = np.ones(len(held[0]), bool)
    _, sent = study.algorithm.local(study.facts, (), None, held, mask)
    times = sum(study.facts.records) / len(mask)
    return np.asarray(sent.value, float) * sent.grid * times


def _read(study: Study, present: Present, total: np.ndarray) -> list[Mapping[str, Any]]:
    facts = study.facts
    value = pack(Opened(total, facts.parties, sum(facts.records)))
    return list(present(study, Result(value, None, None))["answers"])  # type: ignore[arg-type]


def _slopes(study: Study, present: Present, total: np.ndarray, std: float) -> list[np.ndarray]:
    """For each answer (its numbers, sums): by how much it moves with each sum."""
    little = std / 16
    columns = []
    for place in range(len(total)):
        moved = np.zeros(len(total))
        moved[place] = little
        up, down = _read(study, present, total + moved), _read(study, present, total - moved)
        columns.append(
            [(_numbers(a) - _numbers(b)) / (2 * little) for a, b in zip(up, down, strict=True)]
        )
    return [np.stack(one, axis=-1) for one in zip(*columns, strict=True)]


def _answer(found: Mapping[str, Any], slopes: np.ndarray | None, std: float) -> PlannedError:
    low, high = (np.ravel(np.asarray(end, float)) for end in found["interval"])
    margins = (high - low) / 2
    worst = int(np.argmax(margins))
    error = None if slopes is None else std * float(np.sqrt((slopes**2).sum(-1)).max())
    if error is not None:
        # Answers are kept within their bounds, and slopes know nothing of what lies beyond: where
        # noise swamps an answer, it is still no further off than its interval is wide.
        error = min(error, float(margins.max()))
    value = float(_numbers(found)[worst])
    return PlannedError(
        found["name"], value, error, float(margins[worst]), float(found["confidence"])
    )


def _numbers(found: Mapping[str, Any]) -> np.ndarray:
    return np.ravel(np.asarray(found["value"], float))


__all__ = ["PlannedError", "answers_of"]
