"""How many persons were cut: what a person's records teach together is clipped as one record's.

That is the bias of hiding persons by clipped sums, and how large it is nobody can tell without the
records. So each party counts its own persons, at the model that came out, which everybody knows;
the count is told on the party's own screen, is written nowhere and leaves it never.
"""

import warnings
from typing import Any

import numpy as np

from unisono.algorithms.objectives import record_weight
from unisono.core.study import Study
from unisono.errors import ClippedValues
from unisono.problems.linear import LinearLoss
from unisono.problems.per_record import cut
from unisono.problems.record_loss import RecordLoss
from unisono.releases.person_sum import PersonSum, person_gradients

# So many persons are looked at, at most: a share needs no more, and their gradients fit in memory.
LOOKED_AT = 2000


def person_lengths(
    study: Study, number: int, columns: tuple[np.ndarray, ...], value: Any
) -> tuple[np.ndarray, float] | None:
    """The norms of the gradients of a party's persons at a result (persons,), and where they are
    clipped; None where no sums over a person's records are."""
    method = study.method
    if study.facts.group == 1:
        return None
    columns = tuple(np.asarray(column[:LOOKED_AT], np.float32) for column in columns)
    if isinstance(method.problem, LinearLoss):
        bound = method.kind.release(method.config, method.problem, study.facts).bound
        assert isinstance(bound, PersonSum)
        size = study.facts.records[number]
        weight = record_weight(getattr(method.config, "objective", "pooled"), study.facts, size)
        rows, labels = columns
        parameters = np.asarray(value, np.float32)
        slopes = np.asarray(method.problem.coefficients(parameters, rows, labels))
        slopes = weight * slopes.reshape(*rows.shape[:-1], -1)
        gradients = np.asarray(person_gradients(slopes, rows), float)
        return np.linalg.norm(gradients.reshape(len(gradients), -1), axis=1), bound.clipping_norm
    if isinstance(method.problem, RecordLoss) and np.size(value.bounds) == 1:
        plan = method.problem.plan
        norms = plan.norms(cut(plan.pieces(value.parameters, columns)))
        return np.linalg.norm(np.asarray(norms, float), axis=1), float(np.ravel(value.bounds)[0])
    return None


def warn_of_cut_persons(party: str, norms: np.ndarray, most: float) -> None:
    """Tell whoever holds the records, and nobody else, how many persons are clipped."""
    over = norms > most
    if not over.any():
        return
    kept = float(np.sum(np.minimum(norms, most)) / np.sum(norms))
    warnings.warn(
        f"{party}: at the result, what the records of {over.sum()} of {len(norms)} persons teach "
        f"together is longer than the clipping norm of {most:g} and is cut to it; of the length of "
        f"all persons' gradients {kept:.0%} counts. People with many records count for less; a "
        "larger clipping norm keeps more, and takes more noise. Nobody else is told",
        ClippedValues,
        stacklevel=2,
    )


__all__ = ["person_lengths", "warn_of_cut_persons"]
