"""A private statistic in three lines.

    import unisono
    book = unisono.open_ledger("ages.ledger", dataset="ages", epsilon=1.0, delta=1e-6)
    print(unisono.mean(ages, bounds=(0, 120), epsilon=0.5, ledger=book))

Each function bounds the records by *public* bounds, pays with the data set's ledger, draws
exact integer noise and returns an `Answer` that prints its guarantee. The noise is discrete
Laplace (pure epsilon) or, with a `delta`, Gaussian.
"""

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unisono.accounting.accountant import ACCOUNTANT
from unisono.accounting.curve import PrivacyCurve
from unisono.core.costs import everyone
from unisono.core.defaults import warn_of_clipping
from unisono.core.events import Distance, Event, Laplace, Sensitivity, bounded_sum
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.release import release
from unisono.core.study import warn_large_delta
from unisono.core.trust import Relation, Unit
from unisono.core.values import Contribution, require_finite
from unisono.errors import InvalidInput
from unisono.mechanisms import gaussian, laplace

# Bounded values are rounded to 2^-20 of their range; the rounding is in the sensitivity.
_STEPS = 2**20


@dataclass(frozen=True)
class Answer:
    """A released statistic, its 95 % interval from the noise, and what it cost."""

    name: str
    value: float | np.ndarray
    margin: float
    epsilon: float
    delta: float
    relation: Relation
    guess: float
    simulated: bool

    def __str__(self) -> str:
        shown = (
            f"{self.value:.6g}"
            if np.ndim(self.value) == 0
            else "[" + ", ".join(f"{v:.6g}" for v in np.ravel(self.value)) + "]"
        )
        stamp = "  SIMULATED: seeded noise protects nobody." if self.simulated else ""
        return (
            f"{self.name}: {shown} ± {self.margin:.3g} (95 % of the noise)\n"
            f"  guarantee: epsilon = {self.epsilon:.4g}, delta = {self.delta:g}, {self.relation}, "
            "one record, against everyone\n"
            "  in words:  whoever knows all other records tells yours from another with at most "
            f"{100 * self.guess:.1f} % success (50 % is a blind guess).{stamp}"
        )


def open_ledger(
    path: str | os.PathLike[str], dataset: str, epsilon: float, delta: float = 0.0, *,
    relation: Relation | str = Relation.REPLACE_ONE, seed: int | None = None,
) -> Ledger:  # fmt: skip
    """Open the data set's ledger, or create it with this budget if there is none yet."""
    policy = Policy(dataset, Budget(epsilon, delta), relation=Relation(relation))
    if Path(path).exists():
        return Ledger.open(path, ACCOUNTANT, policy, seed)
    return Ledger.create(path, policy, ACCOUNTANT, seed)


def count(condition: Any, *, epsilon: float, ledger: Ledger, delta: float = 0.0) -> Answer:
    """How many records fulfil a condition (an array of true and false)."""
    flags = _flat(condition)
    if flags.dtype.kind != "b":
        raise InvalidInput(
            f"count takes true/false values, got {flags.dtype}: write a condition, as ages > 65"
        )
    once = Distance(l1=1.0, l2=1.0, linf=1.0)  # one record changes the count by one at most
    sensitivity = Sensitivity(Unit.RECORD, once, once, once)
    released, event = _pay_and_release(
        lambda: Contribution(np.array([np.count_nonzero(flags)]), 1.0, sensitivity),
        sensitivity, 1, epsilon, delta, ledger, "count", flags.size,
    )  # fmt: skip
    return _answer("count", float(released[0]), event, 1, ledger, delta, 1.0, step=1.0)


def total(
    values: Any, bounds: tuple[float, float], *, epsilon: float, ledger: Ledger,
    delta: float = 0.0,
) -> Answer:  # fmt: skip
    """The sum of values, each clipped to public bounds."""
    records, low, high = _bounded(values, bounds)
    reach = max(abs(low), abs(high))
    released, event = _release_sum(records[:, None], reach, epsilon, delta, ledger, "sum")
    return _answer("sum", float(released[0]), event, 1, ledger, delta, 1.0)


def mean(
    values: Any, bounds: tuple[float, float], *, epsilon: float, ledger: Ledger,
    delta: float = 0.0,
) -> Answer:  # fmt: skip
    """The average of values, each clipped to public bounds.

    Values are centred first, so the noise is in proportion to half the range. Where the number
    of records is public (replace-one, zero-out) it divides the sum; under add-or-remove a noisy
    count is released beside the sum, in one event.
    """
    records, low, high = _bounded(values, bounds)
    centre, half = (low + high) / 2, (high - low) / 2
    centred = (records - centre)[:, None]
    if ledger.policy.relation is not Relation.ADD_OR_REMOVE:
        released, event = _release_sum(centred, half, epsilon, delta, ledger, "mean")
        value = centre + float(released[0]) / len(records)
        return _answer("mean", value, event, 1, ledger, delta, 1 / len(records))
    pair = np.concatenate([centred, np.full_like(centred, half)], axis=1)
    released, event = _release_sum(pair, half, epsilon, delta, ledger, "mean", columns=2)
    size = max(float(released[1]) / half, 1.0)
    shift = min(max(float(released[0]) / size, -half), half)
    # The sum and the count err together: |s/c - s'/c'| <= (|ds| + half |dc| / half) / c.
    return _answer("mean", centre + shift, event, 2, ledger, delta, 2 / size)


def histogram(
    values: Any, categories: Sequence[Any], *, epsilon: float, ledger: Ledger, delta: float = 0.0,
) -> Answer:  # fmt: skip
    """How many records fall into each of the public categories; others are left out."""
    labels = np.asarray(values)
    if labels.ndim != 1 or labels.size == 0:
        raise InvalidInput(
            f"a histogram needs a flat list of at least one value, got {labels.shape}"
        )
    if len(set(categories)) != len(categories) or not len(categories):
        raise InvalidInput(f"a histogram needs distinct public categories, got {categories!r}")
    # One record is in one cell: all norms are 1, and replacing it touches two cells (E001-3).
    once, moved = Distance(l1=1.0, l2=1.0, linf=1.0), Distance(l1=2.0, l2=math.sqrt(2), linf=1.0)
    sensitivity = Sensitivity(Unit.RECORD, moved, once, once)

    def contribute() -> Contribution:
        counts, free = [], np.ones(labels.shape, bool)
        for category in categories:  # a record counts once, even if categories compare equal
            hit = (labels == category) & free
            counts.append(np.count_nonzero(hit))
            free &= ~hit
        return Contribution(np.array(counts), 1.0, sensitivity)

    released, event = _pay_and_release(
        contribute, sensitivity, len(categories), epsilon, delta, ledger, "histogram", labels.size
    )
    return _answer("histogram", released, event, len(categories), ledger, delta, 1.0, step=1.0)


# ------------------------------------------------------------------ pieces


def _bounded(values: Any, bounds: tuple[float, float]) -> tuple[np.ndarray, float, float]:
    low, high = (float(b) for b in bounds)
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InvalidInput(
            f"bounds {bounds!r} are not a finite range: give the public lowest and highest value, "
            "never read from the data"
        )
    records = require_finite(_flat(values), "the data")
    if records.size == 0:
        raise InvalidInput("the data are empty: there is nothing to release; nothing was spent")
    warn_of_clipping(records, low, high, "values")
    return np.clip(records, low, high), low, high


def _flat(values: Any) -> np.ndarray:
    """One value per record; several values of one record would be one record counted often."""
    array = np.asarray(values)
    if array.ndim != 1:
        raise InvalidInput(f"got {array.ndim} dimensions: give a flat list with one value a record")
    return array


def _release_sum(
    rows: np.ndarray, reach: float, epsilon: float, delta: float, ledger: Ledger, name: str,
    columns: int = 1,
) -> tuple[np.ndarray, Event]:  # fmt: skip
    """Release the column sums of rows whose entries are at most `reach`."""
    grid = 2.0 ** math.floor(math.log2(reach / _STEPS))
    entry = (math.floor(reach / grid) + 1) * grid
    sensitivity = bounded_sum(l1=entry * columns, l2=entry * math.sqrt(columns), linf=entry)

    def contribute() -> Contribution:
        return Contribution(np.rint(rows / grid).astype(np.int64).sum(axis=0), grid, sensitivity)

    return _pay_and_release(
        contribute, sensitivity, columns, epsilon, delta, ledger, name, len(rows)
    )


def _pay_and_release(
    contribute: Callable[[], Contribution], sensitivity: Sensitivity, columns: int,
    epsilon: float, delta: float, ledger: Ledger, name: str, records: int,
) -> tuple[np.ndarray, Event]:  # fmt: skip
    """Authorise, then compute, then add the noise: in this order."""
    relation = ledger.policy.relation
    if delta:
        event = gaussian.calibrate(sensitivity, relation, epsilon, delta)
        warn_large_delta(delta, records)
    else:
        event = laplace.calibrate(sensitivity, relation, epsilon, dimension=columns)
    cost = everyone(event * 1, ledger.policy.colluders)
    grant = ledger.authorize(cost, purpose=name)
    released = release(grant.draw(0), contribute(), event)
    ledger.dispatch(released)
    return released.array, event


def _answer(
    name: str, value: Any, event: Event, columns: int, ledger: Ledger, delta: float, factor: float,
    step: float = 0.0,
) -> Answer:  # fmt: skip
    """`step` is the grid where it is coarse: tails of integer noise reach one step further."""
    relation = ledger.policy.relation
    curve = PrivacyCurve(event * 1, relation)
    tail = laplace.tail if isinstance(event.noise, Laplace) else gaussian.tail
    return Answer(
        name=name,
        value=value,
        margin=(tail(event.noise, columns, 0.05) + step) * factor,  # type: ignore[arg-type]
        epsilon=curve.epsilon(delta),
        delta=delta,
        relation=relation,
        guess=curve.guess,
        simulated=ledger.simulated,
    )


__all__ = ["Answer", "count", "histogram", "mean", "open_ledger", "total"]
