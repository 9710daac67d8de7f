"""What whoever looks on may read while a study runs: how far it is, who answered, what it cost.

Progress, timeline, budgets and transcript (`unisono.runs.folder`): everything in them is public, or
the party's own. Results so far are what everybody sees (whoever watches is a viewer of iterates),
and no message of a single party is written down.
"""

import datetime
import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np

from unisono.core.ledger import Ledger
from unisono.core.study import Study
from unisono.core.transcript import EVERYONE, EVERYONE_AT_THE_END, viewers_of_contribution
from unisono.core.trust import ITERATES, PARTY, SERVER, Viewer
from unisono.errors import InvalidInput
from unisono.runs.folder import BUDGETS, PROGRESS, TRANSCRIPT, append_line

_MANY = 200  # names of so many parties are not repeated in every line
_MOMENT = 2.0  # seconds


def now() -> str:
    """The time, as documents have it."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")


class RunLog:
    """Writes the timeline of a run; `change` is how far the public iterate moved in each step. A
    simulation has no times (`dated`): it is the same whenever it is run."""

    def __init__(self, folder: Path, rounds: int, dated: bool = True) -> None:
        self._folder, self._rounds, self._dated = folder, rounds, dated
        self._last: np.ndarray | None = None

    def step(
        self,
        done: int,
        iterate: Any = None,
        *,
        answered: Sequence[str] | None = None,
        score: float | None = None,
        words: str = "",
    ) -> None:
        """So many rounds are done."""
        names = None if answered is None or len(answered) > _MANY else list(answered)
        line = {
            "round": done,
            "time": now() if self._dated else None,
            "answered": names,
            "change": self._change(iterate),
            "score": score,
        }
        append_line(self._folder, line)
        document = {"rounds": done, "of": self._rounds, "words": words, "answered": names}
        PROGRESS.write(self._folder, document)

    def say(self, words: str) -> None:
        """The last words, when all rounds are done."""
        before = PROGRESS.read(self._folder) or {"rounds": self._rounds, "of": self._rounds}
        PROGRESS.write(self._folder, before | {"words": words})

    def _change(self, value: Any) -> float | None:
        """The l2 length of the change since the step before; None for the first, or no number."""
        if value is None:
            return None
        leaves = [np.ravel(np.asarray(leaf, float)) for leaf in jax.tree.leaves(value)]
        present = np.concatenate([*leaves, np.zeros(0)])
        before, self._last = self._last, present
        if before is None:
            return None
        length = float(np.linalg.norm(present - before))
        return length if math.isfinite(length) else None


def model_so_far(study: Study, server: Any) -> Any:
    """What the public iterate would be as a result: the result itself may be an average over late
    rounds, which says nothing before they begin."""
    public, result = study.algorithm.ask(server), study.algorithm.result(server)
    shapes = [
        (jax.tree.structure(tree), [np.shape(leaf) for leaf in jax.tree.leaves(tree)])
        for tree in (public, result)
    ]
    return jax.tree.map(np.asarray, public if shapes[0] == shapes[1] else result)


class Budgets:
    """What ledgers say of a run: before it began (also if it was killed since), and now."""

    def __init__(self, folder: Path, viewers: Sequence[Viewer], books: Mapping[str, Ledger]):
        self._folder, self._books = folder, books
        self._viewers = {party: counted(viewers, book) for party, book in books.items()}
        self._before = self._found()
        self.write()

    def _found(self) -> dict[str, dict[str, Any]]:
        """What was spent before the run began, as an earlier process of it wrote down, or now."""
        try:
            written = (BUDGETS.read(self._folder) or {"parties": []})["parties"]
            known = {one["party"]: one["viewers"] for one in written}
            return {
                party: {
                    str(viewer): known[party][viewer]["before"]
                    if viewer in known.get(party, {})
                    else book.spent(viewer)
                    for viewer in self._viewers[party]
                }
                for party, book in self._books.items()
            }
        except (LookupError, TypeError, AttributeError):
            raise InvalidInput(
                f"{self._folder / BUDGETS.file} is damaged: remove it, or restore it from a backup"
            ) from None

    def refresh(self) -> None:
        """As `write`, unless it was done a moment ago: somebody may be waiting for an answer."""
        if time.monotonic() - self._written > _MOMENT:
            self.write()

    def write(self) -> None:
        """Bring the document up to date."""
        self._written = time.monotonic()
        entries = [self._entry(*item) for item in self._books.items()]
        BUDGETS.write(self._folder, {"parties": entries})

    def _entry(self, party: str, book: Ledger) -> dict[str, Any]:
        policy = book.policy
        return {
            "party": party,
            "relation": str(policy.relation),
            "delta": policy.budget.delta,
            "viewers": {
                str(viewer): {
                    "before": _number(self._before[party][str(viewer)]),
                    "spent": _number(book.spent(viewer)),
                    "budget": _number(policy.budget_for(viewer).epsilon),
                    "left": _number(book.left(viewer).epsilon),
                }
                for viewer in self._viewers[party]
            },
        }


def counted(viewers: Sequence[Viewer], book: Ledger) -> list[Viewer]:
    """Those of a study's viewers whom a ledger counts: a coalition is as large as its policy says.
    A study that tolerates more colluders protects against fewer too."""
    single = [viewer for viewer in viewers if not viewer.coalition]
    size = book.policy.colluders
    larger = any(viewer.coalition >= size for viewer in viewers)
    return [*single, Viewer.colluders(size)] if size and larger else single


def _number(value: float | str) -> float | str:
    return "inf" if value == "inf" or math.isinf(float(value)) else value


def write_transcript(
    folder: Path,
    study: Study,
    shape: Sequence[int],
    value: Any,
    done: int,
    tests: Sequence[Sequence[int]] = (),
    start: Sequence[int] | None = None,
    first: Sequence[int] | None = None,
    bounds: Sequence[int] | None = None,
) -> None:
    """Which messages each viewer sees, in a run whose first `done` rounds are over; `tests`,
    `start`, `first` and `bounds` are the shapes of what a party sends in rounds that test the
    result, and in releases before the first round, if there were such."""
    server, _ = study.algorithm.init(study.facts)
    single = viewers_of_contribution(study.trust)
    rounds = [0, max(done - 1, 0)]
    messages: list[tuple[str, list[int], list[int], frozenset[Viewer]]] = []
    for name, before in (("bounds", bounds), ("first", first), ("start", start)):
        if before is None:
            continue
        if single:
            messages.append((f"{name} messages", [0, 0], [study.facts.parties, *before], single))
        messages.append((name, [0, 0], list(before), EVERYONE))
    messages.append(("public", rounds, _shape(study.algorithm.ask(server)), EVERYONE))
    if single:
        messages.append(("messages", rounds, [study.facts.parties, *shape], single))
    messages.append(("sum", rounds, list(shape), EVERYONE))
    last = study.algorithm.rounds
    if done == last:
        messages.append(("result", [last, last], _shape(value), EVERYONE_AT_THE_END))
    for number, test in enumerate(tests, start=last + 1):
        after = [number, number]
        if single:
            messages.append(("test messages", after, [study.facts.parties, *test], single))
        messages.append(("test", after, list(test), EVERYONE_AT_THE_END))
    coalition = {SERVER, PARTY, ITERATES}  # as `Transcript.seen_by` reads it
    TRANSCRIPT.write(
        folder,
        {
            "messages": [
                {"name": name, "rounds": span, "shape": size, "viewers": sorted(map(str, seen))}
                for name, span, size, seen in messages
            ],
            "viewers": {
                str(viewer): [
                    name
                    for name, _, _, seen in messages
                    if viewer in seen or (viewer.coalition and seen & coalition)
                ]
                for viewer in study.cost
            },
        },
    )


def _shape(value: Any) -> list[int]:
    """The shape of an array; how many numbers, where there are several."""
    leaves = jax.tree.leaves(value)
    if len(leaves) == 1:
        return list(np.shape(leaves[0]))
    return [sum(int(np.size(leaf)) for leaf in leaves)]


__all__ = [
    "Budgets",
    "RunLog",
    "model_so_far",
    "now",
    "write_transcript",
]
