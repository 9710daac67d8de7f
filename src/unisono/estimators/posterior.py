"""A normal distribution over named coefficients, to read, compare and draw from."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri
from sklearn.utils import check_random_state

from unisono.errors import InvalidInput
from unisono.models.gaussian_family import Natural, gaussian
from unisono.models.gaussian_family import kl as divergence


@dataclass(frozen=True, repr=False, eq=False)
class Posterior:
    """N(mean (d,), covariance (d, d)) of the coefficients called `names`; the intercept is last.

    `floored` counts the directions in which noise drowned the data; the answer there is the prior.
    `noise_aware` says whether mean and covariance allow for the noise that privacy added. Where
    they do not, every interval is too narrow: it takes noisy statistics for exact ones.
    """

    mean: np.ndarray
    covariance: np.ndarray
    names: tuple[str, ...]
    floored: int = 0
    noise_aware: bool = True

    @property
    def std(self) -> np.ndarray:
        """Standard deviation of each coefficient (d,)."""
        return np.sqrt(np.diagonal(self.covariance))

    @property
    def natural(self) -> Natural:
        """Precision · mean, and precision."""
        return gaussian(self.mean, self.covariance)

    def interval(self, level: float = 0.95) -> np.ndarray:
        """Central intervals (d, 2), each of which holds its coefficient with chance `level`."""
        if not 0 < level < 1:
            raise InvalidInput(f"level = {level!r}: a chance lies between 0 and 1, such as 0.95")
        reach = ndtri(0.5 + level / 2) * self.std
        return np.stack([self.mean - reach, self.mean + reach], axis=1)

    def sample(self, size: int, random_state: Any = None) -> np.ndarray:
        """Draws (size, d). They read no data, so they cost no privacy."""
        normals = check_random_state(random_state).normal(size=(size, len(self.mean)))
        # The factor of the correlations: units of very different size do it no harm.
        factor = np.linalg.cholesky(self.covariance / np.outer(self.std, self.std))
        return self.mean + (normals @ factor.T) * self.std

    def kl(self, other: "Posterior") -> float:
        """KL(self || other) in nats: how much is lost by using the other instead."""
        if other.names != self.names:
            raise InvalidInput(
                f"a posterior of {', '.join(self.names)} against one of {', '.join(other.names)}: "
                "compare posteriors of the same coefficients"
            )
        # The divergence does not depend on units: measured in own deviations nothing is lost.
        unit = np.outer(self.std, self.std)
        one, two = (gaussian(q.mean / self.std, q.covariance / unit) for q in (self, other))
        return float(divergence(one, two))

    def mapped(self, matrix: np.ndarray, offset: np.ndarray, names: Sequence[str]) -> "Posterior":
        """The distribution of matrix · θ + offset."""
        spread = matrix @ self.covariance @ matrix.T
        centre = matrix @ self.mean + offset
        return Posterior(centre, spread, tuple(names), self.floored, self.noise_aware)

    def summary(self, level: float = 0.95) -> str:
        """A table of mean, deviation and interval, and what is to be known about it."""
        width = max(9, *map(len, self.names))
        title = f"{100 * level:g} % interval"
        lines = [f"{'':<{width}}  {'mean':>10}  {'std':>10}  {title:>24}"]
        columns = zip(self.names, self.mean, self.std, self.interval(level), strict=True)
        for name, mean, std, (low, high) in columns:
            lines.append(f"{name:<{width}}  {mean:10.4g}  {std:10.3g}  {low:10.4g} to {high:10.4g}")
        lines.append(
            "The noise of privacy is part of these intervals."
            if self.noise_aware
            else "The noise of privacy is NOT part of these intervals: they are too narrow."
        )
        if self.floored:
            lines.append(drowned(self.floored, len(self.mean)))
        return "\n".join(lines)

    def __repr__(self) -> str:
        return self.summary()


def drowned(floored: int, directions: int) -> str:
    return (
        f"in {floored} of {directions} directions noise drowned the data, so the answer there is "
        "the prior: more records, a larger epsilon, tighter bounds or fewer features would help"
    )


__all__ = ["Posterior", "drowned"]
