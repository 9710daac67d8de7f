"""Steps of indicators on the scale of means, where a Newton step is a straight line.

A round at a public point finds, for the records with a value of a category and for those with its
reference, by how much their mean outcome differs from that of the point. That is linear in the
outcome, however far the truth is; the coefficient is not. So the linear step d of an indicator with
the share π of the records' weight is read as a change of two means, and these are turned into a
log-rate ratio or a log-odds ratio:

    counts     a₁ = 1 + d (1 - π)          a₀ = 1 - d π            ratios of means to the point's
               step  log a₁ - log a₀
    binomial   p₁ = q₁ + v₁ d (1 - π)      p₀ = q₀ - v₀ d π        q, v: probability and variance
               step  (logit p₁ - logit q₁) - (logit p₀ - logit q₀)

For a category of several values, d (1 - π) is d less the mean of d over the values, and -d π minus
that mean. Counts also have a level, 1 + u·z̄ at the mean row z̄: the intercept moves by its
logarithm, and slopes are divided by it, which is exact if all means change by one factor.

An interval of d is turned likewise, end by end. If an end leaves no positive mean, or a probability
outside (0, 1), the coefficient has no limit there: the records do not exclude that nobody with this
value has the outcome, or everybody (separation; Albert and Anderson 1984).
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import logit

_LEAST_SHARE = 0.002
# Means of groups are kept from zero: in rounds before the last by so many deviations too.
_LEAST_RATIO, _LEAST_CHANCE, _PILOT_DEVIATIONS = 0.05, 0.002, 1.5
# By how much the level of counts may grow in a round.
_MOST_LEVEL = 20.0
# Changes of log-odds below which a logistic step is straight enough.
_STRAIGHT = 0.2


class Groups(NamedTuple):
    """Of the features (d,): which are indicators, and which belong to the same category (d, d)."""

    indicator: np.ndarray
    same: np.ndarray


class GroupMeans(NamedTuple):
    """The last step of indicators, (p,) each and NaN for other coefficients: the coefficient where
    the round was asked, d with its standard error, π, and of the binomial q₁ and q₀ (NaN for
    counts)."""

    point: np.ndarray
    step: np.ndarray
    error: np.ndarray
    share: np.ndarray
    chance: np.ndarray
    reference: np.ndarray

    def ends(self, deviations: float) -> np.ndarray:
        """Lower and upper ends of coefficients (p, 2), so many standard errors from d; infinite
        where there is no limit, NaN for what is not an indicator."""
        found = [self._at(self.step + side * deviations * self.error) for side in (-1, 1)]
        low, high = (
            np.where(there, own, side * np.inf)
            for side, (own, there) in zip((-1, 1), found, strict=True)
        )
        return np.where(np.isnan(self.step), np.nan, [low, high]).T

    def _at(self, step: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The coefficient for this d, and whether there is one."""
        up, down = step * (1 - self.share), -step * self.share
        with np.errstate(all="ignore"):
            if np.isnan(self.chance).all():
                above, below = 1 + up, 1 + down
                return self.point + np.log(above / below), (above > 0) & (below > 0)
            q1, q0 = self.chance, self.reference
            p1, p0 = q1 + q1 * (1 - q1) * up, q0 + q0 * (1 - q0) * down
            inside = (p1 > 0) & (p1 < 1) & (p0 > 0) & (p0 < 1)
            moved = (logit(p1) - logit(q1)) - (logit(p0) - logit(q0))
            return self.point + moved, inside


def groups_of(columns: Any) -> Groups:
    """By the columns of a problem."""
    widths = [own.width for own in columns]
    column = np.repeat(np.arange(len(widths)), widths)
    indicator = np.repeat([not own.number for own in columns], widths).astype(bool)
    same = (column[:, None] == column) & indicator[:, None] & indicator
    return Groups(indicator, same.astype(float))


def _changes(xp: Any, groups: Groups, step: Any, share: Any) -> tuple[Any, Any]:
    """d less the mean of its category, and minus that mean (d,)."""
    below = -(xp.asarray(groups.same, step.dtype) @ (step * share))
    return step + below, below


def count_step(
    xp: Any,
    groups: Groups,
    way: Any,
    error: Any,
    mean_row: Any,
    centre: Any,
    scale: Any,
    floor: Any,
) -> tuple[Any, Any, Any]:
    """The way (p,) of counts in standardized coordinates, its Jacobian (p, p) by the linear way,
    and d, its error, π, q₁ and q₀ (5, d). `error` (p,) are those of the linear way, `mean_row` (p,)
    is z̄. Ratios of means stay above `floor`, which is 0 in the last round."""
    level = 1 + xp.clip(way @ mean_row, -0.8, _MOST_LEVEL)
    slopes, errors = way[1:] / level, error[1:] / level
    share = xp.clip(centre + mean_row[1:] * scale, _LEAST_SHARE, 1 - _LEAST_SHARE)
    above, below = _changes(xp, groups, slopes / scale, share)
    unsure = errors / scale

    def kept(change: Any, part: Any) -> Any:
        least = xp.clip(_PILOT_DEVIATIONS * unsure * part, floor, 0.8)
        least = xp.where(floor > 0, least, _LEAST_RATIO)
        return xp.maximum(1 + change, least)

    one, other = kept(above, 1 - share), kept(below, share)
    new = xp.where(xp.asarray(groups.indicator), scale * xp.log(one / other), slopes)
    way = xp.concatenate([xp.stack([xp.log(level) - new @ mean_row[1:]]), new])
    inner = _jacobian(xp, groups, 1 / one, 1 / other, share, scale, 1.0) / level
    # The score of the mean row moves by the level, and the intercept is that less the slopes.
    top = xp.concatenate([xp.stack([1 / level]), mean_row[1:] / level - mean_row[1:] @ inner])
    jacobian = xp.concatenate([top[None], xp.pad(inner, ((0, 0), (1, 0)))])
    own = xp.stack([slopes / scale, unsure, share, xp.nan * share, xp.nan * share])
    return way, jacobian, own


def _jacobian(
    xp: Any, groups: Groups, steep: Any, flat: Any, share: Any, scale: Any, numbers: Any
) -> Any:
    """Of slopes by linear slopes (d, d), in standardized coordinates, if means of groups with a
    value and with the reference change by these factors (d,); `numbers` is that of other slopes."""
    same = xp.asarray(groups.same) * ((flat - steep)[:, None] * share)
    own = xp.where(xp.asarray(groups.indicator), steep, numbers)
    return (xp.eye(len(share)) * own + same) * scale[:, None] / scale


def chance_step(
    xp: Any,
    groups: Groups,
    way: Any,
    straight: Any,
    error: Any,
    theta: Any,
    mean: Any,
    centre: Any,
    scale: Any,
    first: Any,
    stretch: Any,
    floor: Any,
) -> tuple[Any, Any, Any]:
    """The same of the binomial, for a way whose slopes were multiplied by `stretch` and the
    `straight` one, from the point `theta`; in the `first` round all have the `mean` probability.
    Variances of groups stay above `floor`, which is 0 in the last round."""
    unit = theta[1:] / scale
    base = theta[0] + _changes(xp, groups, unit, centre)[1]
    own_base = xp.where(first, xp.log(mean / (1 - mean)), base)
    q0 = 1 / (1 + xp.exp(-xp.clip(own_base, -30.0, 30.0)))
    q1 = 1 / (1 + xp.exp(-xp.clip(own_base + xp.where(first, 0.0, unit), -30.0, 30.0)))
    up, down = _changes(xp, groups, straight[1:] / scale, centre)
    unsure = error[1:] / scale

    def moved(chance: Any, change: Any, part: Any) -> tuple[Any, Any]:
        variance = chance * (1 - chance)
        deviation = xp.where(floor > 0, 1.0, 0.25) * variance * unsure * part
        least = xp.minimum(deviation, 0.5 * xp.minimum(chance, 1 - chance))
        least = xp.maximum(least, (1 - xp.sqrt(1 - 4 * floor)) / 2)
        least = xp.maximum(least, _LEAST_CHANCE)
        new = xp.clip(chance + variance * change, least, 1 - least)
        change = xp.log(new / (1 - new)) - xp.log(chance / (1 - chance))
        return change, xp.maximum(1.0, variance / (new * (1 - new)))

    (one, steep), (other, flat) = moved(q1, up, 1 - centre), moved(q0, down, centre)
    same = xp.asarray(groups.same)
    far = first | (same @ (xp.abs(up) + xp.abs(down)) > _STRAIGHT)
    far = xp.asarray(groups.indicator) & far
    slopes = xp.where(far, scale * (one - other), way[1:])
    # The mean over a category's values, the reference among them, moves the intercept.
    values = xp.maximum(xp.sum(same, axis=1), 1.0)
    means = centre * (one - other) + other / values
    way = xp.concatenate([xp.stack([way[0] + xp.sum(xp.where(far, means, 0.0))]), slopes])
    inner = _jacobian(xp, groups, steep, flat, centre, scale, stretch)
    # ∂ of that mean by d is π times how much steeper this group is than the category as a whole.
    usual = same @ (centre * steep) + (1 - same @ centre) * flat
    top = xp.where(far, centre * (steep - usual) / scale, 0.0)
    top = xp.concatenate([xp.ones(1, dtype=top.dtype), top])
    jacobian = xp.concatenate([top[None], xp.pad(inner, ((0, 0), (1, 0)))])
    return way, jacobian, xp.stack([straight[1:] / scale, unsure, centre, q1, q0])


__all__ = ["GroupMeans", "Groups", "chance_step", "count_step", "groups_of"]
