"""Membership inference: was this record among those a model, or an update, was computed from?

Every attack gives each candidate a score, high where it looks like a member:

    loss threshold    -l(θ; record)                                      of a released model
    likelihood ratio  log N(φ; members) - log N(φ; others)               of a released model
    matched filter    <u, g> / |g|, less what others would give          of an update u

with φ = -log(e^l - 1), the log-odds that a classifier gives the true class, and normal laws fitted
to shadow models: models that the attacker trains on halves of similar records, so that each
candidate is a member of one half of them (Carlini et al. 2022). g is the candidate's own gradient,
clipped as the recipe says; for u = mean of gradients + Gaussian noise the matched filter is the
most powerful score if the other records are known and subtracted.

An (ε, δ)-private release bounds every score: true positives <= e^ε false positives + δ. `measured`
reports points; for a bound with confidence, hand many independent scores to `attacks.audit`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import norm, rankdata

from unisono.attacks.victim import Loss, Seen, as_gradient, sender
from unisono.errors import InvalidInput

Train = Callable[[np.ndarray, int], Any]
"""``train(mask, seed)`` -> parameters, from the candidates whose mask (n,) is on."""


class MeasuredMembership(NamedTuple):
    """How well scores separate: area under the curve, the best (TPR - FPR), and TPR at `rate`."""

    area: float
    advantage: float
    true_positives: float
    rate: float


class Shadows(NamedTuple):
    """Log-odds φ (models, n) of candidates under shadow models, and whose members they were."""

    odds: np.ndarray
    members: np.ndarray


def losses(loss: Loss, parameters: Any, rows: Any, targets: Any) -> np.ndarray:
    """The loss of every candidate, (n,)."""
    each = jax.jit(jax.vmap(lambda row, target: loss(parameters, (row, target))))
    return np.asarray(each(jnp.asarray(rows), jnp.asarray(targets)), float)


def loss_scores(loss: Loss, parameters: Any, rows: Any, targets: Any) -> np.ndarray:
    """Minus the loss: members are fitted better (Yeom et al. 2018)."""
    return -losses(loss, parameters, rows, targets)


def log_odds(values: Any) -> np.ndarray:
    """φ = log(p / (1 - p)) for p = e^-l: nearly normal where losses are skewed.

    >>> log_odds(np.log([2.0, 4.0 / 3.0])).round(3) + 0.0
    array([0.   , 1.099])
    """
    clipped = np.clip(np.asarray(values, float), 1e-12, 700.0)
    return -np.log(np.expm1(clipped))


def shadows(
    train: Train, loss: Loss, rows: Any, targets: Any, models: int, generator: np.random.Generator
) -> Shadows:
    """Train `models` shadow models, in pairs on a random half of the candidates and on the rest."""
    count = len(rows)
    odds, members = [], []
    for _ in range(-(-models // 2)):
        mask = generator.permutation(count) < count // 2
        for own in (mask, ~mask):
            parameters = train(own, int(generator.integers(2**31)))
            odds.append(log_odds(losses(loss, parameters, rows, targets)))
            members.append(own)
    return Shadows(np.array(odds), np.array(members))


def likelihood_ratio(found: Shadows, odds: Any) -> np.ndarray:
    """Log-likelihood ratio (n,) of a model's log-odds (n,): member against not.

    Means are a candidate's own; with few shadow models its variances would be noise, so that one
    variance for members and one for others is taken from all candidates.
    """
    inside, outside = _by_side(found, True), _by_side(found, False)
    values = np.asarray(odds, float)
    return norm.logpdf(values, *inside) - norm.logpdf(values, *outside)


def _by_side(found: Shadows, members: bool) -> tuple[np.ndarray, float]:
    side = found.members == members
    if side.sum(axis=0).min() < 2:
        raise InvalidInput(
            f"a candidate is {'inside' if members else 'outside'} fewer than 2 shadow models of "
            f"{len(found.odds)}: train more, at least 4"
        )
    means = np.where(side, found.odds, 0.0).sum(axis=0) / side.sum(axis=0)
    squares = np.where(side, (found.odds - means) ** 2, 0.0).sum()
    freedom = side.sum() - side.shape[1]
    # A mean of few models is itself uncertain: a new model scatters about it a little more.
    spread = squares / freedom * (1 + 1 / side.sum(axis=0).mean())
    return means, max(float(np.sqrt(spread)), 1e-9)


def update_scores(
    loss: Loss, parameters: Any, seen: Seen, rows: Any, targets: Any, others: Any | None = None
) -> np.ndarray:
    """Matched filter (n,) of one update against each candidate's own gradient.

    `others` is the mean gradient that is expected without the candidate (of public records, say, or
    of the known rest of the batch); it is subtracted from the update.
    """
    recipe = {key: seen.public[key] for key in ("clip", "clipped") if key in seen.public}
    own = sender(loss, recipe)

    def flat(tree: Any) -> Any:
        return jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(tree)])

    update = flat(as_gradient(seen))
    rest = jnp.zeros_like(update) if others is None else flat(others)

    def score(row: Any, target: Any) -> Any:
        slope = flat(own(parameters, row[None], target[None]))
        return slope @ (update - rest) / jnp.maximum(jnp.linalg.norm(slope), 1e-30)

    return np.asarray(jax.jit(jax.vmap(score))(jnp.asarray(rows), jnp.asarray(targets)), float)


def measured(scores: Any, members: Any, rate: float = 0.05) -> MeasuredMembership:
    """How well scores (n,) tell members from others.

    >>> measured([3.0, 2.0, 1.0, 0.0], [True, True, False, False])
    MeasuredMembership(area=1.0, advantage=1.0, true_positives=1.0, rate=0.05)
    """
    values, inside = np.asarray(scores, float), np.asarray(members, bool)
    if values.shape != inside.shape or not inside.any() or inside.all():
        raise InvalidInput(
            f"scores of shape {values.shape} for members of shape {inside.shape}, "
            f"{int(inside.sum())} of them inside: give both members and others"
        )
    yes, no = inside.sum(), (~inside).sum()
    area = (rankdata(values)[inside].sum() - yes * (yes + 1) / 2) / (yes * no)
    thresholds = np.unique(values)
    true = (values[inside][:, None] >= thresholds).mean(axis=0)
    false = (values[~inside][:, None] >= thresholds).mean(axis=0)
    allowed = np.append(true[false <= rate], 0.0)
    best = float(max((true - false).max(), 0.0))
    return MeasuredMembership(float(area), best, float(allowed.max()), rate)
