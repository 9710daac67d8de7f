"""A normal distribution over named coefficients, to read, compare and draw from."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from markupsafe import Markup
from scipy.special import ndtr, ndtri

from unisono.algorithms.noise_aware import Aware, Refine, full_natural
from unisono.core import notebook
from unisono.core.words import NOTHING_LEARNT, chance_text
from unisono.errors import InvalidInput
from unisono.problems.gaussian_family import Natural, covariance, gaussian
from unisono.problems.gaussian_family import kl as divergence
from unisono.problems.gaussian_family import mean as centre

# Of a coefficient's prior variance: what data must remove for the answer to be more than the prior.
LEARNT = 0.5


@dataclass(frozen=True, repr=False, eq=False)
class Posterior:
    """N(mean (d,), covariance (d, d)) of the coefficients called `names`; the intercept is last.

    `floored` counts the directions in which noise drowned the data; the answer there is the prior.
    `noise_aware` says whether mean and covariance allow for the noise that privacy added. Where
    they do not, there are no intervals: the covariance takes noisy statistics for exact ones.
    `converged` is False where the rounds of the run disagree by more than their noise.
    `prior_covariance` (d, d) is the prior's; it tells what was learnt. `measured` (d,) says of
    which coefficients more than noise was measured; None: of all. `doubts` say in sentences why it
    has not converged, where that is known.
    """

    mean: np.ndarray
    covariance: np.ndarray
    names: tuple[str, ...]
    floored: int = 0
    noise_aware: bool = True
    converged: bool = True
    prior_covariance: np.ndarray | None = None
    measured: np.ndarray | None = None
    doubts: tuple[str, ...] = ()

    @property
    def std(self) -> np.ndarray:
        """Standard deviation of each coefficient (d,)."""
        return np.sqrt(np.diagonal(self.covariance))

    @property
    def information(self) -> np.ndarray:
        """1 - variance / prior variance of each coefficient (d,): 0 where only the prior speaks."""
        if self.prior_covariance is None:
            return np.ones(len(self.mean))
        return 1 - np.diagonal(self.covariance) / np.diagonal(self.prior_covariance)

    @property
    def learnt(self) -> np.ndarray:
        """Whether data, and not noise alone, removed half of the prior's variance of a coefficient
        (d,), or more."""
        enough = self.information >= LEARNT
        return enough if self.measured is None else enough & self.measured

    @property
    def natural(self) -> Natural:
        """Precision · mean, and precision."""
        return gaussian(self.mean, self.covariance)

    def interval(self, level: float = 0.95) -> np.ndarray:
        """Central intervals (d, 2), each of which holds its coefficient with chance `level`.

        Where nothing was `learnt` they are the prior's. They are not to be trusted unless
        `converged`.
        """
        if not 0 < level < 1:
            raise InvalidInput(f"level = {level!r}: a chance lies between 0 and 1, such as 0.95")
        if not self.noise_aware:
            raise InvalidInput(f"{NO_INTERVALS}; use noise_aware=True and a full covariance")
        reach = ndtri(0.5 + level / 2) * self.std
        return np.stack([self.mean - reach, self.mean + reach], axis=1)

    def sample(self, size: int, random_state: Any = None) -> np.ndarray:
        """Draws (size, d). They read no data, so they cost no privacy."""
        # Only here: a party of a study has posteriors, and no need of scikit-learn.

        from sklearn.utils import check_random_state  # 30 MB that parties need not have

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
        first, same = self.prior_covariance, matrix.shape == self.covariance.shape
        return replace(
            self,
            mean=matrix @ self.mean + offset,
            covariance=matrix @ self.covariance @ matrix.T,
            names=tuple(names),
            prior_covariance=None if first is None else matrix @ first @ matrix.T,
            measured=self.measured if same else None,  # one coefficient in other units
        )

    def summary(self, level: float = 0.95) -> str:
        """A table of mean, deviation and interval, and what is to be known about it."""
        width = max(9, *map(len, self.names))
        if not self.noise_aware:
            pairs = zip(self.names, self.mean, strict=True)
            rows = [f"{name:<{width}}  {mean:10.4g}" for name, mean in pairs]
            return "\n".join([f"{'':<{width}}  {'mean':>10}", *rows, *self.notes])
        title = f"{100 * level:g} % interval"
        lines = [f"{'':<{width}}  {'mean':>10}  {'std':>10}  {title:>24}"]
        columns = (self.mean, self.std, self.interval(level), self.learnt)
        for name, mean, std, (low, high), learnt in zip(self.names, *columns, strict=True):
            if learnt:
                said = f"{mean:10.4g}  {std:10.3g}  {low:10.4g} to {high:10.4g}"
            else:
                said = f"  {NOTHING_LEARNT}"
            lines.append(f"{name:<{width}}  {said}")
        return "\n".join([*lines, *self.notes])

    @property
    def notes(self) -> list[str]:
        """What is to be known about it, in sentences."""
        notes = []
        if not self.noise_aware:
            notes.append(f"{NO_INTERVALS[0].upper()}{NO_INTERVALS[1:]}.")
        elif self.learnt.any():
            notes.append("The noise of privacy is part of these intervals.")
        if self.noise_aware and not self.learnt.all():
            unknown = [name for name, own in zip(self.names, self.learnt, strict=True) if not own]
            notes.append(f"Nothing was learnt of {', '.join(unknown)}: noise hides what data say.")
        if self.doubts:
            notes.extend(self.doubts)
        elif not self.converged:
            notes.append(f"{NOT_CONVERGED[0].upper()}{NOT_CONVERGED[1:]}.")
        if self.floored:
            notes.append(drowned(self.floored, len(self.mean)))
        return notes

    def as_parts(self, level: float = 0.95) -> list[Markup]:
        """The same as HTML."""
        if not self.noise_aware:
            pairs = zip(self.names, self.mean, strict=True)
            table = notebook.grid(["", "mean"], [[name, f"{mean:.4g}"] for name, mean in pairs])
            return [table, notebook.sentences(self.notes)]
        rows = []
        columns = (self.mean, self.std, self.interval(level), self.learnt)
        for name, mean, std, (low, high), learnt in zip(self.names, *columns, strict=True):
            above = ndtr(mean / std)
            said = [f"{mean:.4g}", f"{std:.3g}", f"{low:.4g} to {high:.4g}", chance_text(above)]
            rows.append([name, *(said if learnt else [NOTHING_LEARNT])])
        head = ["", "mean", "std", f"{100 * level:g} % interval", "chance to be above 0"]
        return [notebook.grid(head, rows), notebook.sentences(self.notes)]

    def _repr_html_(self) -> str:
        return notebook.shown("Posterior of the coefficients", *self.as_parts())

    def __repr__(self) -> str:
        return self.summary()


NO_INTERVALS = (
    "no intervals: the noise of privacy is not counted in, so deviations would be far too small"
)
NOT_CONVERGED = (
    "not converged: intervals are not to be trusted; the rounds are too few, or disagree by more "
    "than their noise: give more rounds"
)


def posterior_of(
    value: Any, names: Sequence[str], prior: Natural, refine: Refine | None
) -> Posterior:
    """The posterior that an answer stands for; without `refine` it does not know of the noise."""
    aware = Aware(full_natural(value)) if refine is None else refine(value)
    return Posterior(
        centre(aware.q),
        covariance(aware.q),
        tuple(names),
        int(value.floored),
        refine is not None,
        aware.converged,
        covariance(prior),
        aware.measured,
    )


def drowned(floored: int, directions: int) -> str:
    return (
        f"in {floored} of {directions} directions noise drowned the data, so the answer there is "
        "the prior: more records, a larger epsilon, tighter bounds or fewer features would help"
    )


__all__ = ["LEARNT", "NOT_CONVERGED", "NO_INTERVALS", "Posterior", "drowned", "posterior_of"]
