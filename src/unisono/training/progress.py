"""How far a training run is, and what it has cost so far.

The privacy of the first t rounds is that of t releases, by the same accountant as the whole run. A
loss is shown only if it was released and paid for.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from unisono.accounting.accountant import ACCOUNTANT
from unisono.core.events import compose
from unisono.core.study import Study
from unisono.core.trust import ITERATES, Relation
from unisono.errors import InvalidInput

# Certified loss distributions take a moment: ask for so many of them in a run.
_ANSWERS = 10


class Step(NamedTuple):
    """After `round` of `rounds`: epsilon at the run's delta, against whoever saw all iterates.

    Where parties have budgets of their own it is the largest. `loss` is that round's noisy average,
    if it was released.
    """

    round: int
    rounds: int
    epsilon: float
    loss: float | None = None


def epsilon_so_far(study: Study, rounds: int, relation: Relation, delta: float) -> float:
    """What the first rounds cost; an algorithm that is paid for as a whole costs all at once."""
    algorithm, facts, trust = study.algorithm, study.facts, study.trust
    if algorithm.round_event is not None:
        each = [algorithm.round_event(facts, trust, number) * 1 for number in range(rounds)]
        return ACCOUNTANT.epsilon(compose(each), relation, delta)
    parties = range(facts.parties if algorithm.own_event else 1)
    try:
        costs = [algorithm.cost(facts, trust, rounds, party) for party in parties]
    except InvalidInput:
        costs = [study.cost]
    histories = dict.fromkeys(cost[ITERATES] for cost in costs)
    return max(ACCOUNTANT.epsilon(history, relation, delta) for history in histories)


@contextmanager
def following(
    progress: bool | Callable[[Step], None], study: Study, relation: Relation, delta: float
) -> Iterator[Callable[..., None] | None]:
    """What is called after some rounds, with their loss or None; None: nobody looks on."""
    if callable(progress):
        yield _thinned(progress, study, relation, delta)
    elif progress and sys.stderr.isatty():
        with _bar(study.algorithm.rounds, delta) as show:
            yield _thinned(show, study, relation, delta)
    else:
        yield None


def _thinned(
    tell: Callable[[Step], None], study: Study, relation: Relation, delta: float
) -> Callable[..., None]:
    total, last = study.algorithm.rounds, 0

    def after(rounds: int, loss: float | None = None) -> None:
        nonlocal last
        if rounds == total or rounds - last >= total / _ANSWERS:
            last = rounds
            tell(Step(rounds, total, epsilon_so_far(study, rounds, relation, delta), loss))

    return after


@contextmanager
def _bar(total: int, delta: float) -> Iterator[Callable[[Step], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    parts: list[Any] = [
        TextColumn("round"), MofNCompleteColumn(), BarColumn(), TextColumn("{task.description}")
    ]  # fmt: skip
    with Progress(*parts, console=Console(stderr=True)) as shown:
        task = shown.add_task("compiling", total=total)

        def show(step: Step) -> None:
            text = f"epsilon {step.epsilon:.3f} at delta {delta:g}"
            text += "" if step.loss is None else f", noisy loss {step.loss:.3g}"
            shown.update(task, completed=step.round, description=text)

        yield show


__all__ = ["Step", "epsilon_so_far", "following"]
