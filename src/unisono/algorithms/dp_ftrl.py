"""DP-FTRL by banded matrix factorisation, for any loss: where who takes part cannot be hidden.

It is DP-SGD whose batches go by turns, every record's in every s-th round, and whose noise is
correlated over `bands` rounds, so that most of it cancels in the model, which is a sum of gradients
(Kairouz et al. 2021; Denisov et al. 2022; Choquette-Choo et al. 2023). Turns, memory, noise and the
proof are the release's (`releases.banded`); the steps are those of `dp_sgd`.

Unit: one record. Sampler: none, and the claim needs none. The whole run is one Gaussian release.
"""

from functools import lru_cache
from typing import Any, Self

import numpy as np
from pydantic import Field, model_validator

from unisono.accounting import matrix_mechanism as matrix
from unisono.algorithms.dp_sgd import build
from unisono.algorithms.optimise import (
    NETWORK_LAW,
    NetworkConfig,
    Rounds,
    resolve_learning_rate,
)
from unisono.core.algorithm import Facts
from unisono.core.defaults import MOMENTUM
from unisono.core.privacy import Privacy
from unisono.core.trust import Trust
from unisono.problems.record_loss import RecordLoss
from unisono.releases.algorithm import AlgorithmKind
from unisono.releases.banded import COEFFICIENT_UNIT, BandedSum
from unisono.releases.blocked_sum import BlockedSum
from unisono.releases.release import Release

# Noise of so many rounds is correlated where nobody says otherwise.
_BANDS = 32


class DpFtrlConfig(NetworkConfig):
    """Noisy gradients of batches that take turns, with noise that is correlated over rounds."""

    rounds: Rounds = Field(150, description="Noisy steps in all; the budget covers them.")
    separation: int = Field(10, ge=1, description="A record takes part every so many rounds.")
    bands: int | None = Field(
        None,
        ge=1,
        description="Over how many rounds noise is correlated, and sums are remembered; 1: none. "
        "Left out: 32, or the rounds or the separation, if fewer.",
    )
    momentum: float | None = Field(
        None,
        ge=0,
        lt=1,
        description="Of the optimizer, for which the correlation is chosen; a wrong one costs "
        "accuracy, never privacy.",
    )
    optimised: bool = Field(
        True, description="Coefficients by optimisation; else the truncated square root."
    )

    @model_validator(mode="after")
    def _no_more_bands_than_rounds(self) -> Self:
        if self.bands is not None and self.bands > self.rounds:
            raise ValueError(
                f"bands = {self.bands} of {self.rounds} rounds: nothing older than the run is "
                "remembered; use fewer bands"
            )
        return self

    @property
    def sampling_rate(self) -> float:
        """Which part of the records takes part in a round."""
        return 1 / self.separation

    @property
    def coefficients(self) -> tuple[int, ...]:
        """c in units of 2^-12: integers that begin with 2^12 and never rise, up to the last that is
        not 0."""
        assert self.bands is not None  # resolved
        assert self.momentum is not None
        if self.optimised:
            return _optimised(self.bands, self.rounds, self.separation, self.momentum)
        return _in_units(matrix.square_root(self.bands, self.momentum))

    def agreed(self, problem: RecordLoss) -> dict[str, Any]:
        return {**super().agreed(problem), "coefficients": list(self.coefficients)}


@lru_cache(maxsize=16)
def _optimised(bands: int, rounds: int, separation: int, momentum: float) -> tuple[int, ...]:
    return _in_units(matrix.optimised(bands, rounds, separation, momentum))


def _in_units(coefficients: np.ndarray) -> tuple[int, ...]:
    units = np.trim_zeros(np.round(coefficients * COEFFICIENT_UNIT).astype(np.int32))
    return tuple(units.tolist())


def resolve(
    config: DpFtrlConfig, problem: RecordLoss, facts: Facts, privacy: Privacy, trust: Trust
) -> DpFtrlConfig:
    """Bands, and the momentum of the usual optimizer: one that is given may have any."""
    config = resolve_learning_rate(config, problem, facts, privacy, trust)
    bands, momentum = config.bands, config.momentum
    if bands is None:
        bands = min(_BANDS, config.rounds, config.separation)
    if momentum is None:
        momentum = MOMENTUM if config.optimizer is None else 0.0
    return config.model_copy(update={"bands": bands, "momentum": momentum})


def release(config: DpFtrlConfig, problem: RecordLoss, facts: Facts) -> Release:
    batch = BlockedSum(problem.plan, config.clipping)
    bound = BandedSum(batch, config.coefficients, config.rounds, config.separation)
    return Release(bound, config.rounds, run=True)


DP_FTRL = AlgorithmKind(
    "dp-ftrl",
    "noisy gradients of batches that take turns, with correlated noise",
    DpFtrlConfig,
    RecordLoss,
    release,
    build,
    resolve,
    sends="sums of gradients whose noise is correlated between rounds",
    laws={"network": NETWORK_LAW},
)
