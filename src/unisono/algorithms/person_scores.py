"""Scores of persons with several records: summed, and bounded together by a weight of x alone.

Records of a person are alike, so that k of them say less than k records of as many persons, and
they are hidden together. What the records j = 1 ... m <= k of a person add in a round of
`fisher_scoring` is one unit:

    gradient    G = W Σ_j ω_j q_j (ψ_j - a_j)        ω_j: a record's own weight, 1 where it has none
    curvature   H = W Σ_j ω_j b_j q_j q_jᵀ
    meat        G Gᵀ

    W = min(1, C_g / Σ_j ω_j |q_j| sup_y |ψ_j - a_j|, C_H / Σ_j ω_j b_j |q_j|²)

*The bound.* |G| <= W Σ_j ω_j |q_j| sup |ψ_j - a_j| <= C_g by the triangle inequality, whatever the
targets are; |H|_F <= tr H = W Σ_j ω_j b_j |q_j|² <= C_H, as H is a sum of m outer products; and
|G Gᵀ|_F = |G|² <= C_g². That is what one record is bounded by, so a person moves a release by no
more than a record does in a study of records: `ScoredPoint` with k points, whose clip makes sure of
it again. Records that are missing have ω = 0, and m shows in no shape.

*The estimand.* W depends on x and on m, and not on targets, so each record's expectation at the
truth stays zero, however much targets of one person depend on each other: these are generalised
estimating equations with independence as the working correlation (Liang and Zeger 1986). People
with more records count for more, up to what the bound allows, so that means are between those of
records and those of persons.

*Errors.* G Gᵀ is the square of a person's sum, so that the sandwich is robust to any dependence
within persons (clustered errors). How widely *records* scatter, which sets σ of a gaussian with
bounded residuals, such squares do not say: in rounds before the last it releases

    Σ_j u_j (ψ_j - a_j)² q_j q_jᵀ        u_j = ω_j min(W, C_g² / Σ_i ω_i |q_i|² sup |ψ_i - a_i|²)

in the meat's place, whose trace is at most C_g², again by x alone.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp

from unisono.core.algorithm import Facts
from unisono.errors import InvalidInput
from unisono.problems.glm import GeneralizedLinear
from unisono.releases.rows import into_ball

# Of so many numbers at most norms are computed exactly enough (`releases.table`).
_MOST_NUMBERS = 1000
_LEAST = 1e-9


class Recorded(NamedTuple):
    """What records say, (n,) each: rows q (n, p) and their squares, ψ - a and the largest of it,
    the slope b as weights take it and as the curvature does, their own weights, and wide
    residuals."""

    row: Any
    square: Any
    residual: Any
    reach: Any
    slope: Any
    bend: Any
    weight: Any
    far: Any


class AskedOfPersons(NamedTuple):
    """What is asked of records, and whether the meat is that of persons' sums, or of records."""

    asked: Any
    clustered: Any


def rounds_of_persons(
    said: int | None, rounds: int, problem: GeneralizedLinear, facts: Facts
) -> int:
    """As many rounds as there would be; two at least, where the spread of records is to be told
    apart from that of persons."""
    many, p = facts.group, problem.parameters
    if many > 1 and many * p > _MOST_NUMBERS:
        raise InvalidInput(
            f"records_per_person = {many} with {p} coefficients: more than {_MOST_NUMBERS} numbers "
            f"of a person; say records_per_person = {max(1, _MOST_NUMBERS // p)}, or fewer columns"
        )
    if problem.family == "binomial" or (many == 1 and not problem.wide):
        return rounds
    if said == 1:
        raise InvalidInput(
            f"rounds = 1 with family {problem.family}: the range of residuals is found in a round "
            "of its own. Set rounds = 2, or leave it out. No privacy budget was spent."
        )
    return max(rounds, 2)


def person_scores(
    recorded: Callable[..., Recorded],
    histogram_row: Callable[..., Any],
    problem: GeneralizedLinear,
    public: AskedOfPersons,
    points: Any,
    marks: Any,
) -> Any:
    """What every person adds, as `ScoredPoint` takes it: (n, vector + 2 k p + 3). `points`
    (n, k, columns) are records, `marks` (n, k) which of them are there."""
    asked, (people, many) = public.asked, points.shape[:2]
    there = (marks > 0) & jnp.all(jnp.isfinite(points), axis=2)
    rows = jnp.where(there[:, :, None], points, 0.0).reshape(people * many, -1)
    flat = recorded(problem, asked, rows)
    said = Recorded(*(part.reshape(people, many, *part.shape[1:]) for part in flat))
    weight = jnp.where(there, said.weight, 0.0)
    longest = jnp.sqrt(said.square) * said.reach
    furthest = jnp.sum(weight * longest, axis=1)
    bent = jnp.sum(weight * jnp.maximum(said.slope, 1e-6) * said.square, axis=1)
    share = jnp.minimum(1.0, asked.gradient_norm / jnp.maximum(furthest, _LEAST))
    share = jnp.minimum(share, asked.curvature_norm / jnp.maximum(bent, _LEAST))
    whole = weight * share[:, None]
    scores = (whole * said.residual / asked.gradient_norm)[:, :, None] * said.row
    gradient = jnp.sum(scores, axis=1)
    if problem.wide:
        sign = jnp.sum(whole * said.residual * jnp.sqrt(said.square), axis=1)
        beside = histogram_row(asked, gradient, sign)
        gradient = into_ball(jnp, gradient)
    else:
        far = jnp.sum(weight * said.far, axis=1) / jnp.maximum(jnp.sum(there, axis=1), 1)
        beside = far[:, None][:, : int(problem.family == "gaussian")]
    curvature = jnp.sqrt(whole * said.bend / asked.curvature_norm)[:, :, None] * said.row
    squares = jnp.sum(weight * longest**2, axis=1)
    apart = jnp.minimum(share, asked.gradient_norm**2 / jnp.maximum(squares, _LEAST))
    single = jnp.sqrt(weight * apart[:, None]) * said.residual / asked.gradient_norm
    first = jnp.arange(many) == 0
    meat = jnp.where(
        public.clustered,
        first[None, :, None] * gradient[:, None, :],
        single[:, :, None] * said.row,
    )
    vector = jnp.concatenate([asked.split[0] * gradient, asked.split[1] * beside], axis=1)
    shares = jnp.broadcast_to(asked.weights, (people, 3))
    return jnp.concatenate(
        [vector, curvature.reshape(people, -1), meat.reshape(people, -1), shares], axis=1
    )


__all__ = ["AskedOfPersons", "Recorded", "person_scores", "rounds_of_persons"]
