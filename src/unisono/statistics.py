"""A private statistic in three lines.

    import unisono
    book = unisono.open_ledger("ages.ledger", dataset="ages", epsilon=1.0, delta=1e-6)
    print(unisono.mean(ages, bounds=(0, 120), epsilon=0.5, ledger=book))

Each function bounds the records by *public* bounds, pays with the data set's ledger, draws
exact integer noise and returns an `Answer` that prints its guarantee. The noise is discrete
Laplace (pure epsilon) or, with a `delta`, Gaussian.

Every record is read by itself (`unisono.data`): a list is never made one array of one kind, and a
value that cannot be read adds nothing to a count, a sum or a histogram. Whoever calls is warned.
"""

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unisono.accounting.accountant import ACCOUNTANT
from unisono.accounting.curve import PrivacyCurve
from unisono.core.algorithm import Facts
from unisono.core.costs import everyone
from unisono.core.defaults import warn_of_clipping
from unisono.core.events import Event
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.privacy import Privacy
from unisono.core.release import release
from unisono.core.study import warn_large_delta
from unisono.core.trust import Relation, Trust
from unisono.data import codes, listed, numbers, warn_unread
from unisono.errors import InvalidInput
from unisono.mechanisms import tail
from unisono.releases.exact_sums import STEPS_IN_RANGE, ColumnSums, CountedCells
from unisono.releases.release import Bound, Release, price

# Sums of so small or so large values, or their grid, are not numbers that doubles hold.
_SMALLEST, _LARGEST = 1e-250, 1e250


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
    path: str | os.PathLike[str],
    dataset: str,
    epsilon: float,
    delta: float = 0.0,
    *,
    relation: Relation | str = Relation.REPLACE_ONE,
    seed: int | None = None,
) -> Ledger:
    """Open the data set's ledger, or create it with this budget if there is none yet."""
    policy = Policy(dataset, Budget(epsilon, delta), relation=Relation(relation))
    if Path(path).exists():
        return Ledger.open(path, ACCOUNTANT, policy, seed)
    return Ledger.create(path, policy, ACCOUNTANT, seed)


def count(condition: Any, *, epsilon: float, ledger: Ledger, delta: float = 0.0) -> Answer:
    """How many records fulfil a condition (an array of true and false)."""
    flags = codes(listed(condition), (False, True))
    warn_unread(flags < 0, "values", "true or false (write a condition, as ages > 65)")
    places = np.where(flags == 1, 0, -1)
    released, event = _pay_and_release(CountedCells(1), places, epsilon, delta, ledger, "count")
    return _answer("count", float(released[0]), event, 1, ledger, delta, 1.0, step=1.0)


def total(
    values: Any,
    bounds: tuple[float, float],
    *,
    epsilon: float,
    ledger: Ledger,
    delta: float = 0.0,
) -> Answer:
    """The sum of values, each clipped to public bounds; one that cannot be read adds nothing."""
    records, low, high = _bounded(values, bounds)
    reach = max(abs(low), abs(high))
    released, event = _pay_and_release(
        ColumnSums(reach), records[:, None], epsilon, delta, ledger, "sum"
    )
    return _answer("sum", float(released[0]), event, 1, ledger, delta, 1.0)


def mean(
    values: Any,
    bounds: tuple[float, float],
    *,
    epsilon: float,
    ledger: Ledger,
    delta: float = 0.0,
) -> Answer:
    """The average of values, each clipped to public bounds.

    Values are centred first, so the noise is in proportion to half the range. Where the number
    of records is public (replace-one, zero-out) it divides the sum; under add-or-remove a noisy
    count is released beside the sum, in one event. A value that cannot be read adds nothing: it
    counts as the centre of the bounds, or not at all where records are counted.
    """
    records, low, high = _bounded(values, bounds, centred=True)
    centre, half = low / 2 + high / 2, high / 2 - low / 2
    centred = (records - centre)[:, None]
    if ledger.policy.relation is not Relation.ADD_OR_REMOVE:
        released, event = _pay_and_release(
            ColumnSums(half), centred, epsilon, delta, ledger, "mean"
        )
        value = centre + float(released[0]) / len(records)
        return _answer("mean", value, event, 1, ledger, delta, 1 / len(records))
    pair = np.concatenate([centred, np.where(np.isnan(centred), np.nan, half)], axis=1)
    released, event = _pay_and_release(ColumnSums(half, 2), pair, epsilon, delta, ledger, "mean")
    size = max(float(released[1]) / half, 1.0)
    shift = min(max(float(released[0]) / size, -half), half)
    # The sum and the count err together: |s/c - s'/c'| <= (|ds| + half |dc| / half) / c.
    return _answer("mean", centre + shift, event, 2, ledger, delta, 2 / size)


def histogram(
    values: Any,
    categories: Sequence[Any],
    *,
    epsilon: float,
    ledger: Ledger,
    delta: float = 0.0,
) -> Answer:
    """How many records fall into each of the public categories; others are left out.

    What a record counts as is decided for it alone, as `unisono.data.codes` says.
    """
    places = codes(listed(values), categories)
    cells = CountedCells(len(categories))
    released, event = _pay_and_release(cells, places, epsilon, delta, ledger, "histogram")
    return _answer("histogram", released, event, len(categories), ledger, delta, 1.0, step=1.0)


# ------------------------------------------------------------------ pieces


def _bounded(
    values: Any, bounds: tuple[float, float], centred: bool = False
) -> tuple[np.ndarray, float, float]:
    """Numbers within their bounds (n,), NaN where a value is none, and the bounds."""
    low, high = (float(b) for b in bounds)
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InvalidInput(
            f"bounds {bounds!r} are not a finite range: give the public lowest and highest value, "
            "never read from the data"
        )
    if not _SMALLEST < max(abs(low), abs(high)) < _LARGEST:
        raise InvalidInput(
            f"bounds {bounds!r} are too small or too large to add up in doubles: choose another "
            "unit for values and bounds"
        )
    if centred and (high / 2 - low / 2) / STEPS_IN_RANGE < math.ulp(max(abs(low), abs(high))):
        raise InvalidInput(
            f"bounds {bounds!r} are too narrow for where they lie: doubles cannot tell the values "
            "between them apart; subtract a public constant from values and bounds first"
        )
    records = numbers(listed(values))
    warn_unread(np.isnan(records), "values", "finite numbers")
    warn_of_clipping(records, low, high, "values")
    return np.clip(records, low, high), low, high


def _pay_and_release(
    bound: Bound, raw: np.ndarray, epsilon: float, delta: float, ledger: Ledger, name: str
) -> tuple[np.ndarray, Event]:
    """Authorise, then compute, then add the noise: in this order."""
    privacy = Privacy(epsilon, delta, ledger.policy.relation)
    hidden = privacy.relation is Relation.ADD_OR_REMOVE
    facts = Facts((max(1, len(raw)),), 1, 1, exact_sizes=not hidden)
    priced = price(Release(bound), privacy, facts, Trust.LOCAL)
    if delta:
        warn_large_delta(delta, len(raw))
    cost = everyone(priced.event * 1, ledger.policy.colluders)
    grant = ledger.authorize(cost, purpose=name)
    present = np.ones(len(raw), bool)
    contribution, _ = bound.integers(facts, privacy, priced.step, raw, present)
    released = release(grant.draw(0), contribution, priced.event)
    ledger.dispatch(released)
    return released.array, priced.event


def _answer(
    name: str,
    value: Any,
    event: Event,
    columns: int,
    ledger: Ledger,
    delta: float,
    factor: float,
    step: float = 0.0,
) -> Answer:
    """`step` is the grid where it is coarse: tails of integer noise reach one step further."""
    relation = ledger.policy.relation
    curve = PrivacyCurve(event * 1, relation)
    return Answer(
        name=name,
        value=value,
        margin=(tail(event.noise, columns, 0.05) + step) * factor,
        epsilon=curve.epsilon(delta),
        delta=delta,
        relation=relation,
        guess=curve.guess,
        simulated=ledger.simulated,
    )


__all__ = ["Answer", "count", "histogram", "mean", "open_ledger", "total"]
