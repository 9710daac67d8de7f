"""Whether a party has cases at all, as far as the noise lets it be told.

Where nobody of a party has the outcome, its own intercept is minus infinity, and a Newton step from
elsewhere stops anywhere on the way there, with an error that means nothing. Others are not harmed:
a party without cases says nothing of slopes. What was released tells: with 1_s the party's
indicator, of gradients and curvatures in the last round

    Σ_s w v + Σ_s w (y - μ)  =  Σ_s w y - Σ_s w μ²        if everybody is as likely as μ
    Σ_s w v - Σ_s w (y - μ)  =  Σ_s w (1 - y) - Σ_s w (1 - μ)²

At the truth both are about the party's information, n p (1 - p); the first is below zero where there
are no cases, the second where there is nothing else. Noise of both sums is known. Where the smaller
one is not above two of its deviations and five, "none" cannot be excluded, an interval would have no
lower end, and the party's intercept is not determined. Of counts only the first is asked.
"""

from typing import Any

import numpy as np

from unisono.problems.glm import GeneralizedLinear

_LEAST = 5.0
_DEVIATIONS = 2.0


def without_cases(
    problem: GeneralizedLinear, scored: Any, whitening: np.ndarray, centre: Any, scale: Any
) -> tuple[bool, ...]:
    """Of all parties, the reference first, whether cases cannot be told from none; nothing of
    families that know no cases, or where there are no effects of parties."""
    places = np.cumsum([0, *(own.width for own in problem.columns)])
    found = [
        place
        for own, place in zip(problem.columns, places, strict=False)
        if own.shares is not None
    ]
    if not found or problem.family == "gaussian":
        return ()
    [first] = found
    width = next(own.width for own in problem.columns if own.shares is not None)
    # The indicator of a value is centre + scale z, and 1 is the intercept's column.
    values = np.zeros((1 + width, problem.parameters))
    for number in range(width):
        values[1 + number, [0, 1 + first + number]] = centre[first + number], scale[first + number]
    values[0] = -values[1:].sum(axis=0)
    values[0, 0] += 1.0
    rows = values @ np.linalg.inv(whitening)
    gradient = rows @ scored.gradient
    information = np.einsum("sp,pq,sq->s", rows, scored.curvature, rows)
    squares = np.sum(rows**2, axis=1)
    noise = np.sqrt(scored.s_gradient**2 * squares + scored.s_curvature**2 * squares**2)
    other = -gradient if problem.family == "binomial" else gradient
    least = information + np.minimum(gradient, other)
    return tuple((least < _LEAST + _DEVIATIONS * noise).tolist())


__all__ = ["without_cases"]
