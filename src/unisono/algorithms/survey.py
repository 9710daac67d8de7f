"""Statistics: several questions, one release, one round.

    opened = sum over the parties of the blocks of all questions  +  noise
    answer = what each question reads in its block                   post-processing only

The noise is discrete Laplace for pure epsilon (δ = 0; Pólya shares in a secure sum), else Gaussian.
With `published = true` it is the classical Gaussian, σ = Δ sqrt(2 log(1.25/δ)) / ε, as textbooks
print it for ε < 1: too much there, and too little above 8.42 (δ = 1e-5).

    survey = Survey([mean(0, (0, 120), name="age"), count(1, name="flu")])
    method = STATISTICS.method(survey, Privacy(1.0, 1e-6))
    study = Study(method, agree_facts(sizes, 2, trust), trust)
    for estimate in survey.read(study, run(study, parties)): print(estimate)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, wraps
from typing import Any, NamedTuple, ParamSpec

import jax.numpy as jnp
import numpy as np

from unisono.accounting import gaussian
from unisono.algorithms.estimates import Estimate
from unisono.algorithms.readings import Noisy, Sizes, read_blocks
from unisono.core.algorithm import Aggregate, Facts
from unisono.core.certificate import Certificate
from unisono.core.events import Gaussian
from unisono.core.privacy import Privacy
from unisono.core.sensitivity import Sensitivity
from unisono.core.study import Result, Study
from unisono.core.trust import Unit
from unisono.errors import InvalidInput
from unisono.releases.algorithm import Algorithm, AlgorithmKind, Publication, PublishedConfig
from unisono.releases.release import Priced, Release
from unisono.releases.table import Block, Table, TableRecords

P = ParamSpec("P")
Read = Callable[[Noisy, float, Certificate], Sequence[Any]]


@dataclass(frozen=True)
class Question:
    """A block, and how to read it; `build(sizes)` knows how sizes are counted, and None where they
    are public."""

    name: str
    build: Callable[[Sizes | None], Block]
    read: Read
    settings: tuple[tuple[str, Any], ...] = ()
    share: float = 1.0

    def weighing(self, share: float) -> "Question":
        """The same question with another part of the budget."""
        return replace(self, share=share)

    def counting(self, sizes: Sizes) -> "Question":
        """The same question about values some of which may be missing: their number is not public,
        as if sizes were hidden, so it is released with the answer, and divided by."""

        def read(noisy: Noisy, probability: float, certificate: Certificate) -> Sequence[Any]:
            return self.read(replace(noisy, exact_sizes=False), probability, certificate)

        settings = (*self.settings, ("counted", True))

        def build(hidden: Sizes | None) -> Block:
            return self.build(hidden or sizes)

        return replace(self, build=build, read=read, settings=settings)


def remembered(make: Callable[P, Question]) -> Callable[P, Question]:
    """Who asks again with the same settings gets the same question, and with it the program that
    was compiled for the first (`engines.rounds`): the functions of two questions are never equal.
    Settings are the same if they also read the same: 0 and 0.0 are spelt differently in a study."""

    @lru_cache(maxsize=64)
    def kept(spelt: str, *args: P.args, **options: P.kwargs) -> Question:
        return make(*args, **options)

    @wraps(make)
    def question(*args: P.args, **options: P.kwargs) -> Question:
        try:
            hash((args, *options.values()))
        except TypeError:  # lists of labels, say
            return make(*args, **options)
        return kept(repr((args, options)), *args, **options)  # type: ignore[arg-type]

    return question


@dataclass(frozen=True)
class Survey:
    """The problem: questions that one release answers, each with its share of the budget."""

    questions: Sequence[Question]

    def __post_init__(self) -> None:
        object.__setattr__(self, "questions", tuple(self.questions))
        if not self.questions:
            raise InvalidInput("no question was asked: name at least one statistic")

    @property
    def agreed(self) -> dict[str, Any]:
        asked = [{"name": q.name, "share": q.share, **dict(q.settings)} for q in self.questions]
        return {"questions": asked}

    def table(self, facts: Facts) -> Table:
        """What is released."""
        sizes = None if facts.exact_sizes else Sizes()
        blocks = tuple(replace(q.build(sizes), share=q.share) for q in self.questions)
        return Table(blocks, group=facts.group)

    def read(self, study: Study, result: Result, confidence: float = 0.95) -> list[Estimate]:
        """The answers of a finished run; `confidence` holds for each of them."""
        if not 0 < confidence < 1:
            raise InvalidInput(f"confidence = {confidence!r}: it lies between 0 and 1, as 0.95")
        opened = unpack(np.asarray(result.value))
        found = read_blocks(
            self.table(study.facts), study, opened.total, opened.survivors, opened.records
        )
        read = [
            estimate
            for question, noisy in zip(self.questions, found, strict=True)
            for estimate in question.read(noisy, 1 - confidence, result.certificate)
        ]
        return adjusted(read)


def adjusted(found: Sequence[Any]) -> list[Any]:
    """Estimates, the tests among them with Holm's p values where there are several. A test that
    says nothing counts as one: it was asked for."""
    places = [k for k, one in enumerate(found) if getattr(one, "test", None) is not None]
    answers = list(found)
    if len(places) < 2:
        return answers
    p_values = [found[k].test.p_value for k in places]
    holm = holm_adjusted(np.array([1.0 if p is None else p for p in p_values]))
    for place, p_value, own in zip(places, p_values, holm, strict=True):
        if p_value is not None:
            test = replace(found[place].test, adjusted_p=float(own))
            answers[place] = replace(found[place], test=test)
    return answers


def holm_adjusted(p_values: np.ndarray) -> np.ndarray:
    """Adjusted p values (Holm 1979): of all that is rejected where the adjusted value is below a
    level, anything is wrong no oftener than that.

    >>> holm_adjusted(np.array([0.01, 0.04, 0.03])).tolist()
    [0.03, 0.06, 0.06]
    """
    order = np.argsort(p_values)
    factors = len(p_values) - np.arange(len(p_values))
    found = np.empty(len(p_values))
    found[order] = np.minimum(np.maximum.accumulate(p_values[order] * factors), 1.0)
    return found


class Opened(NamedTuple):
    """What the server has once the round is open: the noisy sum, who answered, their records.

    Zero survivors say that too few parties answered and nothing was opened.
    """

    total: Any
    survivors: Any
    records: Any


def pack(opened: Opened) -> np.ndarray:
    """One flat array (width + 2,): the noisy sum, then the numbers of survivors and records."""
    ends = [float(opened.survivors), float(opened.records)]
    return np.concatenate([np.asarray(opened.total, np.float64).ravel(), ends])


def unpack(value: np.ndarray) -> Opened:
    """The inverse of `pack`; refuses a round that was never opened.

    >>> unpack(np.array([3.0, 4.0, 2.0, 50.0])).records
    50
    """
    survivors, records = int(value[-2]), round(float(value[-1]))
    if survivors == 0:
        raise InvalidInput(
            "fewer parties answered than the study requires, so the sum was not opened and there "
            "is no answer: ask again, or agree on a smaller minimum of survivors; what was "
            "granted stays spent"
        )
    return Opened(np.asarray(value[:-2], np.float64), survivors, records)


class StatisticsConfig(PublishedConfig):
    """The questions say everything else."""


def release(config: StatisticsConfig, problem: Survey, facts: Facts) -> Release:
    return Release(problem.table(facts))


def build(config: StatisticsConfig, problem: Survey, facts: Facts, priced: Priced) -> Algorithm:
    width = problem.table(facts).dimension
    if any(event != priced.event for event in priced.events):
        raise InvalidInput(
            "statistics of parties with epsilons of their own: intervals and guarantees are stated "
            "for noise that is the same for all; give every party the same epsilon"
        )

    def merge(state: Opened, sums: Aggregate) -> Opened:
        return Opened(
            jnp.asarray(sums.total, jnp.float32),
            jnp.asarray(sums.survivors, jnp.int32),
            jnp.asarray(sums.records, jnp.float32),
        )

    return Algorithm(
        init=lambda: (Opened(jnp.zeros(width, jnp.float32), jnp.int32(0), jnp.float32(0)), None),
        ask=lambda state: (),
        local=TableRecords(facts.group),
        merge=merge,
        result=pack,
    )


def printed_noise(
    config: StatisticsConfig,
    problem: Survey,
    facts: Facts,
    privacy: Privacy,
    sensitivity: Sensitivity,
) -> Gaussian:
    """The classical Gaussian, whatever epsilon: its condition is seldom remembered."""
    distance = sensitivity.under(privacy.relation).in_norm("l2")
    sigma = gaussian.published_classical_sigma(
        privacy.epsilon, privacy.delta, distance, beyond_its_condition=True
    )
    return Gaussian(sigma)


STATISTICS = AlgorithmKind(
    "statistics",
    "one noisy release that answers all questions; also for pure epsilon",
    StatisticsConfig,
    Survey,
    release,
    build,
    units=(Unit.RECORD, Unit.PERSON),
    sends="noisy counts and sums",
    printed=Publication(
        "the theorem on the Gaussian mechanism, sqrt(2 log(1.25/delta))",
        "it is proved for epsilon below 1, where it is more than enough, and false for large ones",
        printed_noise,
    ),
)

__all__ = [
    "STATISTICS",
    "Opened",
    "Question",
    "StatisticsConfig",
    "Survey",
    "pack",
    "remembered",
    "unpack",
]
