"""Several questions, one release: the algorithm that asks them and the reading of its result."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from unisono.algorithms import blocks as encoding
from unisono.algorithms.blocks import Block, Noisy
from unisono.algorithms.estimates import Estimate
from unisono.algorithms.one_shot import Promise, one_shot, pack, unpack
from unisono.core.algorithm import Algorithm, Facts
from unisono.core.certificate import Certificate
from unisono.core.events import Event
from unisono.core.study import Result, Study
from unisono.core.trust import Trust
from unisono.core.values import Contribution
from unisono.errors import InvalidInput

Read = Callable[[Noisy, float, Certificate], Sequence[Any]]


@dataclass(frozen=True)
class Question:
    """A block, and how to read it; `build(hidden)` knows whether sizes are hidden."""

    name: str
    build: Callable[[bool], Block]
    read: Read
    settings: tuple[tuple[str, Any], ...] = ()
    share: float = 1.0

    def weighing(self, share: float) -> "Question":
        """The same question with another part of the budget."""
        return replace(self, share=share)


@dataclass(frozen=True)
class Survey:
    """Questions that are answered by one release."""

    questions: tuple[Question, ...]
    promise: Promise
    algorithm: Algorithm

    def read(self, study: Study, result: Result, confidence: float = 0.95) -> list[Estimate]:
        """The answers of a finished run; `confidence` holds for each of them."""
        if not 0 < confidence < 1:
            raise InvalidInput(f"confidence = {confidence!r}: it lies between 0 and 1, as 0.95")
        opened = unpack(np.asarray(result.value))
        built = _blocks(self.questions, not study.facts.exact_sizes)
        event = study.algorithm.event(study.facts, study.trust)
        found = encoding.read_blocks(built, self.promise, study.facts, study.trust, event, opened)
        return [
            estimate
            for question, noisy in zip(self.questions, found, strict=True)
            for estimate in question.read(noisy, 1 - confidence, result.certificate)
        ]


def ask(questions: Sequence[Question], promise: Promise, name: str = "survey") -> Survey:
    """One release that answers all questions, each with its share of the budget."""
    asked = tuple(questions)
    if not asked:
        raise InvalidInput("no question was asked: name at least one statistic")

    def built(facts: Facts) -> tuple[Block, ...]:
        return _blocks(asked, not facts.exact_sizes)

    def contribute(facts: Facts, data: Any, mask: Any) -> Contribution:
        return encoding.contribute(built(facts), promise, facts, (), data[0], mask)

    def grid(facts: Facts, trust: Trust) -> float:
        return encoding.plan(built(facts), promise, facts).grid

    def event(facts: Facts, trust: Trust) -> Event:
        made = encoding.plan(built(facts), promise, facts)
        return promise.event(made.sensitivity, made.width, made.grid, facts, trust)

    settings = {
        "promise": promise.to_json(),
        "questions": [{"name": q.name, "share": q.share, **dict(q.settings)} for q in asked],
    }
    algorithm = one_shot(
        name, contribute, pack, event, grid,
        reach=lambda facts: encoding.plan(built(facts), promise, facts).reach,
        shape=lambda facts: (encoding.plan(built(facts), promise, facts).width,),
        settings=settings,
    )  # fmt: skip
    return Survey(asked, promise, algorithm)


@lru_cache(maxsize=256)
def _blocks(questions: tuple[Question, ...], hidden: bool) -> tuple[Block, ...]:
    return tuple(replace(q.build(hidden), share=q.share) for q in questions)
