"""How much noise a study will add, read from the algorithm that will run.

The scale comes from the event that the algorithm will pay for, and the spread from the law of the
opened sum under the study's trust; how many numbers are released is the dimension of its bound.
Of these follows one number that all algorithms share, the signal-to-noise ratio

    all units together, each at its bound   /   length of the noise in all numbers of the sum

of one round, and over the run: T rounds of independent noise weigh sqrt(T) times as much as one.
It is the q of `algorithms.descent`, for whatever noise, sampler and trust a study has. Real records
pull in different directions, so the signal is the largest possible, not the one that data will
have; that is what the laws of `planning.laws` were fitted for.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from unisono.algorithms.noise_law import sum_law
from unisono.core.events import Event, Poisson
from unisono.core.study import Study
from unisono.core.trust import Relation, Unit
from unisono.releases.release import copies

_COEFFICIENTS = 2**12  # dp-ftrl states its coefficients in these parts


# Below these a run's sums weigh so little beside their noise that it swamps them, or is large.
SWAMPED, ROUGH = 2.0, 10.0


class Noise(NamedTuple):
    """The noise of one number of the sum that is opened in a round when every party answers.

    `scale` is the event's own (what one place, or all planned shares together, add); `bound` the
    largest norm of one unit's contribution; `units` how many take part in a round, on average.
    """

    kind: str
    scale: float
    std: float
    numbers: int
    rounds: int
    bound: float
    units: float

    @property
    def ratio(self) -> float:
        """Signal to noise of one round."""
        return self.bound * self.units / (self.std * math.sqrt(self.numbers))

    @property
    def total(self) -> float:
        """Signal to noise of the whole run."""
        return self.ratio * math.sqrt(self.rounds)


def noise_of(study: Study) -> Noise:
    """The noise of a study; no data are read, and none are needed."""
    algorithm, facts, trust = study.algorithm, study.facts, study.trust
    event = algorithm.event(facts, trust)
    numbers = released_numbers(study)
    scale, std = _spread(event, study, numbers)
    bound = event.sensitivity.under(Relation.ZERO_OUT).in_norm("l2")
    if event.noise.run:
        std, bound = std * _remaining(algorithm.settings, algorithm.rounds), 1.0
    return Noise(
        type(event.noise).__name__,
        scale,
        std,
        numbers,
        algorithm.rounds * algorithm.steps,
        bound,
        _units(event, study),
    )


def released_numbers(study: Study) -> int:
    """How many numbers a party sends in a round: as its bound says, or else a guess from the names
    in the server's state."""
    import jax

    if study.algorithm.dimension is not None:
        return study.algorithm.dimension
    server, _ = study.algorithm.init(study.facts)
    model = getattr(server, "model", server)  # correlated noise remembers sums beside it
    for name in ("parameters", "total", "q"):
        if hasattr(model, name):
            leaves = jax.tree.leaves(getattr(model, name))
            return sum(int(np.size(leaf)) for leaf in leaves)
    return 2 * study.facts.features


def _spread(event: Event, study: Study, numbers: int) -> tuple[float, float]:
    """Scale of the event, and standard deviation of one opened number."""
    facts, trust, noise = study.facts, study.trust, event.noise
    if not noise.independent:
        return noise.size, noise.deviation(numbers) * math.sqrt(copies(facts, trust))
    answering = facts.parties if study.algorithm.named is None else 1
    law = sum_law(event, facts, trust, answering, study.algorithm.grid(facts, trust))
    return noise.size, law.std


def _units(event: Event, study: Study) -> float:
    facts = study.facts
    if study.algorithm.named is not None:
        return 1.0
    rate = event.sampler.rate if isinstance(event.sampler, Poisson) else 1.0
    if event.noise.run:
        rate = 1 / study.algorithm.settings["separation"]
    if event.sensitivity.unit is Unit.PARTY:
        return rate * facts.parties
    counted = study.algorithm.effective_records
    return rate * float(sum(facts.records) if counted is None else counted)


def weights_in_words(study: Study) -> str:
    """What weights of parties cost in noise; empty where all records weigh the same."""
    counted, records = study.algorithm.effective_records, study.facts.records
    if counted is None or counted >= sum(records):
        return ""
    return (
        f"every party weighs the same, so the noise follows the smallest, of {min(records):,} "
        f"records: it is as large as if all parties held so few ({counted:,.0f} records in all "
        f"instead of {sum(records):,})"
    )


def _remaining(settings: Any, rounds: int) -> float:
    """What is left of correlated noise in the sum of all rounds, over that of independent noise:
    ||C⁻ᵀ 1|| / sqrt(T), C the banded matrix of the agreed coefficients."""
    c = np.asarray(settings["coefficients"], float) / _COEFFICIENTS
    sums = np.zeros(rounds)
    for t in range(rounds):  # cumulative sums of the inverse's first column
        past = sums[max(0, t - len(c) + 1) : t][::-1]
        sums[t] = 1.0 - float(c[1 : len(past) + 1] @ past)
    return math.sqrt(float(np.mean(sums**2)))


__all__ = ["Noise", "noise_of", "released_numbers", "weights_in_words"]
