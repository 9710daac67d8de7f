"""Gradient inversion of what one viewer holds of a study that trains a network by DP-SGD.

Of every round the viewer has public parameters θ, the clip C and a sum over unknown records, of one
party or of all. A record x with target y adds its gradient g, cut to the length C:

    seen / C  =  Σ_i g_i min(1, C / ||g_i||) / C  +  rounding to the grid  +  noise of a known width

What has to be found is not only the rows:

    targets     as unknown as the rows, and searched together with them: a number in [-1, 1], or
                softmax(20 t) for t in [-1, 1]^classes, which can come within e^-40 of a class
    how many    coins decide who takes part. The first layer's gradient Σ_i x_i δ_i' has the rank of
                its records, as far as singular values stand out from rounding and noise; where
                none does, the expected number is tried. More are tried until the sum is explained.
    which round the one that shows fewest records, as the attacker may choose

Whether that works at all depends on the network and the batch: an error means something only beside
that of the same attack on a sum without noise, and that of rows which saw nothing at all.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from scipy.stats import binom

from unisono.attacks.gradient_inversion import InversionSettings, Inverted, invert
from unisono.attacks.victim import Loss, Seen, attacker_model
from unisono.core.transcript import Message

MOST_RECORDS = 8  # expected in a round; the search is not reliable beyond
_SHARP = 20.0
_RARE = 1e-3  # of counts of records that are not tried
_SLACK = 1.5  # times the known errors: what still counts as explained


@dataclass(frozen=True)
class Known:
    """Public facts: the scores of rows (u, 1), the box of u, classes (0: a number), how many
    `records` take part with chance `rate`, the grid to which each of `messages` was rounded before
    they were added, and the width of the noise in units of the clip."""

    predict: Callable[[Any, Any], Any]
    low: tuple[float, ...]
    high: tuple[float, ...]
    classes: int
    rate: float
    records: int
    grid: float
    messages: int
    std: float

    @property
    def expected(self) -> int:
        return max(1, round(self.rate * self.records))

    @property
    def variance(self) -> float:
        """Of what hides each coordinate, in units of the clip."""
        return self.std**2 + self.messages * self.grid**2 / 12


class Sight(NamedTuple):
    """One round in a viewer's transcript: parameters, clip, and a sum in units of the clip."""

    parameters: Any
    clip: float
    total: np.ndarray


class Found(NamedTuple):
    """Rows u (k, d), and whether they explain the sum but for errors of the known size."""

    rows: np.ndarray
    explained: bool


def sights(messages: Sequence[Message], grid: float, party: int | None) -> list[Sight]:
    """What one viewer's messages tell of one party; of the sum of all, if `party` is None.

    Whoever holds the single messages adds them up: a trusted server's own noise is not in them.
    """
    rounds: dict[int, dict[str, Any]] = {}
    for message in messages:
        rounds.setdefault(message.round, {})[message.name] = message.value
    found = []
    for own in rounds.values():
        steps = own.get("messages")
        if steps is not None:
            steps = np.sum(steps, axis=0) if party is None else steps[party]
        elif party is None:
            steps = own.get("sum")
        if steps is not None:
            public = own["public"]
            total = np.asarray(steps, float) * grid
            found.append(Sight(public.parameters, float(public.bounds[0]), total))
    return found


def inverted(known: Known, seen: Sequence[Sight], seed: int, restarts: int = 24) -> Found | None:
    """Rows that explain the round with the fewest records; None if no record ever took part."""
    shown = [(sight, visible_records(known, sight)) for sight in seen if sight.total.any()]
    if not shown:
        return None
    sight, rank = min(shown, key=lambda pair: pair[1])
    best: tuple[float, Inverted] | None = None
    for count in _counts(known, rank):
        height, found = _searched(known, sight, count, seed, restarts)
        if best is None or height < best[0]:
            best = height, found
        if best[0] <= _SLACK:
            break
    assert best is not None
    low, high = np.array(known.low), np.array(known.high)
    rows = best[1].rows[:, : len(low)]
    return Found((low + high) / 2 + (high - low) / 2 * rows, best[0] <= _SLACK)


def visible_records(known: Known, sight: Sight) -> int:
    """How many singular values of the first layer's gradient stand out from known errors."""
    first = np.asarray(_shaped(sight)["dense0"]["weights"])
    noise = np.sqrt(known.variance) * (np.sqrt(first.shape[0]) + np.sqrt(first.shape[1]))
    return int(np.sum(np.linalg.svd(first, compute_uv=False) > _SLACK * noise))


def _counts(known: Known, rank: int) -> Sequence[int]:
    if rank == 0:
        return [known.expected]
    fewest, most = binom.ppf([_RARE, 1 - _RARE], known.records, known.rate).astype(int)
    least = min(max(rank, fewest, 1), known.records)
    return range(least, max(least, min(most, 2 * MOST_RECORDS)) + 1)


def _searched(
    known: Known, sight: Sight, count: int, seed: int, restarts: int
) -> tuple[float, Inverted]:
    """The best of several starts, and how far it is from the sum in terms of known errors."""
    update = jax.tree.map(lambda leaf: leaf * sight.clip / count, _shaped(sight))
    seen = Seen(update, {"clip": sight.clip, "clipped": "record"})
    loss = _loss(known.predict, known.low, known.high, known.classes)
    model = attacker_model(loss, sight.parameters, seen, count)
    unknown = len(known.low) + (known.classes or 1)
    unit = sight.total @ sight.total / (sight.total.size * known.variance)
    best = None
    for start in range(restarts):
        settings = InversionSettings(low=-1.0, high=1.0, restarts=1, steps=2000, seed=seed + start)
        found = invert(model, np.zeros(count), unknown, settings)
        best = found if best is None or found.distance < best.distance else best
        # Without noise there is nothing better than a sum explained up to rounding.
        if known.std == 0 and best.distance * unit <= _SLACK:
            break
    assert best is not None
    return best.distance * unit, best


def _shaped(sight: Sight) -> Any:
    """The sum, shaped like the parameters."""
    leaves, structure = jax.tree.flatten(sight.parameters)
    ends = np.cumsum([np.size(leaf) for leaf in leaves])
    parts = np.split(sight.total, ends)[: len(leaves)]
    shaped = [part.reshape(np.shape(leaf)) for part, leaf in zip(parts, leaves, strict=True)]
    return jax.tree.unflatten(structure, shaped)


@lru_cache(maxsize=8)
def _loss(
    predict: Callable[[Any, Any], Any],
    low: tuple[float, ...],
    high: tuple[float, ...],
    classes: int,
) -> Loss:
    """The study's loss of one record, by unknowns in [-1, 1]: its features, then its target."""
    middle, half = (np.array(high) + low) / 2, (np.array(high) - low) / 2

    def loss(parameters: Any, record: Any) -> Any:
        features, target = jnp.split(record[0], [len(low)])
        out = predict(parameters, jnp.append(middle + half * features, 1.0))
        if not classes:
            return (out - target[0]) ** 2 / 2
        return -jnp.sum(jax.nn.softmax(_SHARP * target) * jax.nn.log_softmax(out))

    return loss


# ------------------------------------------------------------- scores


def error(rows: np.ndarray, real: np.ndarray) -> float:
    """How far rows (k, d) lie from the k real ones that suit them best, over their lengths."""
    distances = cdist(rows, real)
    which, matched = linear_sum_assignment(distances)
    lengths = np.linalg.norm(real[matched], axis=1)
    return float(distances[which, matched].sum() / max(lengths.sum(), 1e-12))


def blind_error(fresh: np.ndarray, real: np.ndarray, count: int) -> float:
    """The error of `count` made-up rows that saw nothing, averaged over those in `fresh`."""
    parts = [fresh[start : start + count] for start in range(0, len(fresh) - count + 1, count)]
    return float(np.mean([error(part, real) for part in parts]))


__all__ = ["MOST_RECORDS", "Found", "Known", "Sight", "blind_error", "error", "inverted", "sights"]
