"""How good each of several models is on the same records: one noisy release.

The score of a record by a model lies in [0, 1]: whether its answer is right, or how close it is. Of
one record the scores of c models are mostly alike, and a choice needs their differences only. So a
record adds

    ( clip_1(g (s - s̄)),  s̄ - 1/2 ),    s (c,) its scores, s̄ their mean, g a public gain,

a vector of norm at most sqrt(5/4), whatever c is: the differences, shortened to length 1 where many
models disagree about it, and the level. Right and wrong differ by 1, and g = 1; predictions of
numbers are seldom far apart, and a larger g lets their differences stand out of the noise. The sum
over all records of all parties is released once, with Gaussian noise (discrete Laplace for pure
epsilon), in shares under a secure sum. Noise on a score does not grow with the number of models;
scores added one by one would grow by sqrt(c).

    released        score of model j = 1/2 + level / m + difference_j / (g m)    m public records
    unit            record (replace-one, zero-out, add-or-remove where sizes are hidden)

The best is found by everybody from what was released (report noisy max): nothing more is paid. The
score of the best is too good on average, as it was chosen for being large. Whether the records were
kept out of training is for the caller to say, and to pay for (`PrivateSearch`).
"""

import math
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from unisono.core.algorithm import Aggregate, Facts
from unisono.core.events import positive
from unisono.errors import InvalidInput
from unisono.releases.algorithm import Algorithm, AlgorithmConfig, AlgorithmKind, Records
from unisono.releases.bounds import ClippedSum
from unisono.releases.release import Priced, Release


class HeldOutScoresConfig(AlgorithmConfig):
    """One release, nothing to set."""


@dataclass(frozen=True)
class JudgedModels:
    """The problem: so many models, each with a score in [0, 1] for every record."""

    models: int
    gain: float = 1.0  # by which differences are multiplied before they are bounded

    def __post_init__(self) -> None:
        if self.models < 1:
            raise InvalidInput("no model to judge: name at least one")
        positive(gain=self.gain)

    @property
    def norm(self) -> float:
        """How far a record reaches: with one model there is no difference, only the level."""
        return 0.5 if self.models == 1 else math.sqrt(1.25)

    @property
    def agreed(self) -> dict[str, Any]:
        return {"models": self.models} | ({} if self.gain == 1 else {"gain": self.gain})


def release(config: HeldOutScoresConfig, problem: JudgedModels, facts: Facts) -> Release:
    return Release(ClippedSum(problem.norm, problem.models + 1, pure="laplace"))


def build(
    config: HeldOutScoresConfig, problem: JudgedModels, facts: Facts, priced: Priced
) -> Algorithm:
    def local(public: Any, own: None, records: Records) -> tuple[None, Any]:
        [scores] = records.columns
        known = jnp.clip(jnp.nan_to_num(scores), 0.0, 1.0)
        level = known.mean(axis=1, keepdims=True)
        apart = problem.gain * (known - level)
        length = jnp.sqrt(jnp.sum(apart * apart, axis=1, keepdims=True))
        shortened = apart / jnp.maximum(length, 1.0)
        return own, jnp.concatenate([shortened, level - 0.5], axis=1)

    def merge(state: Any, sums: Aggregate) -> Any:
        total = jnp.asarray(sums.total, jnp.float32)
        return total, jnp.asarray(sums.records, jnp.float32)

    def result(state: Any) -> np.ndarray:
        """The noisy scores (models,)."""
        total, records = np.asarray(state[0], np.float64), max(float(state[1]), 1.0)
        return 0.5 + (total[-1] + total[:-1] / problem.gain) / records

    nothing = (jnp.zeros(problem.models + 1, jnp.float32), jnp.float32(0))
    return Algorithm(
        init=lambda: (nothing, None), ask=lambda state: (), local=local, merge=merge, result=result
    )


def score_deviation(problem: JudgedModels, noise_std: float, records: int) -> float:
    """The noise's standard deviation in the difference of two models' scores."""
    return math.sqrt(2) * noise_std / (problem.gain * max(records, 1))


# Of errors as shares of a range: two models seldom differ by more than an eighth.
NUMBERS_GAIN = 8.0

HELD_OUT_SCORES = AlgorithmKind(
    "held-out-scores",
    "noisy scores of several models on the same records",
    HeldOutScoresConfig,
    JudgedModels,
    release,
    build,
    unit_rows=False,
    sends="noisy sums of scores",
)

__all__ = ["HELD_OUT_SCORES", "NUMBERS_GAIN", "JudgedModels", "score_deviation"]
