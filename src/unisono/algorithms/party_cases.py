"""Whether a party has cases at all, as far as the noise lets it be told.

Where nobody of a party has the outcome, its own intercept is minus infinity, and a Newton step from
elsewhere stops anywhere on the way there, with an error that means nothing. Others are not harmed:
a party without cases says nothing of slopes. What was released tells. In the last round, at θ, over
the records of party s,

    I = Σ w v        G = Σ w (y - μ)        η = Σ w v θ·z / I,     μ(η) the usual chance there

are numbers of the released curvature and gradient, and so about Σ w μ + G = I / (1 - μ) + G cases
and I / μ - G others, with a noise that is known. Where one of these is not above 1.645 deviations
of its noise and one, and a seventh of what was expected, "none" cannot be excluded (5 %
one-sided), an interval would have no end, and the party's intercept is not determined. Of counts,
whose v is about μ, I + G is asked.

Such a way to infinity makes the last step long, and how far it misses there does not matter to
others: what curvature it would count in for that is left out.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from unisono.problems.glm import GeneralizedLinear

_LEAST = 1.0
_DEVIATIONS = 1.645
# Of the cases that were expected: a party has no one chance, and so few are far from convergence.
_ROUGHLY = 0.15


def without_cases(
    problem: GeneralizedLinear,
    scored: Any,
    whitening: np.ndarray,
    theta: np.ndarray,
    centre: np.ndarray,
    scale: np.ndarray,
) -> tuple[bool, ...]:
    """Of all parties, the reference first, whether cases cannot be told from none; nothing of
    families that know no cases, or where there are no effects of parties."""
    first, width = _sites(problem)
    if not width or problem.family == "gaussian":
        return ()
    # The indicator of a value is centre + scale z, and 1 is the intercept's column.
    values = np.zeros((1 + width, problem.parameters))
    for number in range(width):
        values[1 + number, [0, 1 + first + number]] = centre[first + number], scale[first + number]
    values[0] = -values[1:].sum(axis=0)
    values[0, 0] += 1.0
    few = np.zeros(len(values), bool)
    for cases in _counted(problem, scored, whitening, theta, values):
        few |= cases.fewer_than(_LEAST)
    return tuple(few.tolist())


class Cases(NamedTuple):
    """About how many cases groups have (g,), with the deviation of noise in that, and how many were
    expected where the round was asked."""

    found: np.ndarray
    noise: np.ndarray
    expected: np.ndarray

    def fewer_than(self, least: float) -> np.ndarray:
        """Whether so few cannot be excluded (g,)."""
        return self.found < least + _DEVIATIONS * self.noise + _ROUGHLY * self.expected


def cases_of_all(
    problem: GeneralizedLinear, scored: Any, whitening: np.ndarray, theta: np.ndarray
) -> tuple[Cases, ...]:
    """Of all records together: cases, and of the binomial what are none; nothing of a gaussian."""
    if problem.family == "gaussian":
        return ()
    return tuple(_counted(problem, scored, whitening, theta, np.eye(1, problem.parameters)))


def _counted(
    problem: GeneralizedLinear,
    scored: Any,
    whitening: np.ndarray,
    theta: np.ndarray,
    values: np.ndarray,
) -> Iterator[Cases]:
    """Cases, and of the binomial what are none, of groups whose indicators are these sums of
    standardised columns (g, p)."""
    rows = values @ np.linalg.inv(whitening)
    gradient = rows @ scored.gradient
    information = np.einsum("sp,pq,sq->s", rows, scored.curvature, rows)
    squares = np.sum(rows**2, axis=1)
    # Each record's score is back · its row, and the party's usual one is weighted by w v.
    back = np.linalg.solve(whitening.T, theta)
    usual = rows @ scored.curvature @ back / np.maximum(information, 1e-9)
    chance = np.clip(expit(usual), 0.05, 0.95) if problem.family == "binomial" else 0.0 * usual
    found = [(information, 1 - chance, gradient)]
    if problem.family == "binomial":
        found.append((information, chance, -gradient))
    for own, rest, surplus in found:
        noise = np.hypot(scored.s_gradient * np.sqrt(squares), scored.s_curvature * squares / rest)
        yield Cases(own / rest + surplus, noise, own / rest)


def site_places(problem: GeneralizedLinear, which: Sequence[bool]) -> tuple[int, ...]:
    """The coefficients, the intercept being the first, that belong to these of the parties; to the
    reference, that and all effects of parties."""
    first, width = _sites(problem)
    if which[0]:
        return (0, *range(1 + first, 1 + first + width))
    return tuple(1 + first + number for number, own in enumerate(which[1:]) if own)


def _sites(problem: GeneralizedLinear) -> tuple[int, int]:
    """The first feature of the column of parties, and how many it has; none where there is none."""
    first = 0
    for own in problem.columns:
        if own.shares is not None:
            return first, own.width
        first += own.width
    return 0, 0


__all__ = ["Cases", "cases_of_all", "site_places", "without_cases"]
