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
        histories = [algorithm.cost(facts, trust, rounds, party)[ITERATES] for party in parties]
    except InvalidInput:
        histories = [study.cost[ITERATES]]
    return max(ACCOUNTANT.epsilon(one, relation, delta) for one in dict.fromkeys(histories))


@contextmanager
def following(
    progress: bool | Callable[[Step], None],
    study: Study,
    relation: Relation,
    delta: float,
    loss_of: Callable[[Any], float | None],
) -> Iterator[Callable[[int, Any], None] | None]:
    """What an engine calls with the rounds done and the result so far; None: nobody looks on."""
    total, last = study.algorithm.rounds, 0

    def watching(tell: Callable[[Step], None]) -> Callable[[int, Any], None]:
        def watch(done: int, value: Any) -> None:
            nonlocal last
            if done == total or done - last >= total / _ANSWERS:
                last = done
                spent = epsilon_so_far(study, done, relation, delta)
                tell(Step(done, total, spent, loss_of(value)))

        return watch

    if callable(progress):
        yield watching(progress)
    elif progress and sys.stderr.isatty():
        with _bar(total, delta) as show:
            yield watching(show)
    else:
        yield None


@contextmanager
def _bar(total: int, delta: float) -> Iterator[Callable[[Step], None]]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    parts: list[Any] = [
        TextColumn("round"),
        MofNCompleteColumn(),
        BarColumn(),
        TextColumn("{task.description}"),
    ]
    with Progress(*parts, console=Console(stderr=True)) as shown:
        task = shown.add_task("compiling", total=total)

        def show(step: Step) -> None:
            text = f"epsilon {step.epsilon:.3f} at delta {delta:g}"
            text += "" if step.loss is None else f", noisy loss {step.loss:.3g}"
            shown.update(task, completed=step.round, description=text)

        yield show


__all__ = ["Step", "epsilon_so_far", "following"]
