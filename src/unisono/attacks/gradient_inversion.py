"""Gradient inversion: look for records whose update is the one that was seen (lecture 13, eq. 5.1).

    minimise over x̂    D(send(x̂, ŷ), seen) + λ TV(x̂)        within the known range of features

    l2        D = |a - b|² / |b|²                 exact updates, and Gaussian noise
    cosine    D = 1 - <a, b> / (|a| |b|)          blind to the length: clipped, rescaled updates
    TV        mean absolute difference of neighbouring pixels, for images

`send` is the attacker's model of the party (`victim.attacker_model`): it goes through local steps,
clips and masks, and is differentiated through them. L-BFGS-B runs from one start after another
until one explains the update; Adam runs all starts side by side. Everything is computed in 64 bits.

Labels come from the bias gradient of the last layer (`closed_form.labels`), corrected by what the
network says about the rows that were found. What comes out is one explanation of the update: with
noise or many records it need not be the truth, and its failure certifies no defence.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from unisono.attacks import closed_form, search
from unisono.attacks.victim import Model
from unisono.core.events import positive
from unisono.errors import InvalidInput

_TINY = 1e-30


@dataclass(frozen=True)
class InversionSettings:
    """How to search. `low` and `high` bound the features; `image` is (height, width), needed for
    `smoothness`, the λ of the total variation. A start whose distance is below `tolerance` ends
    the search. `rate` is Adam's."""

    distance: Literal["l2", "cosine"] = "l2"
    optimiser: Literal["lbfgs", "adam"] = "lbfgs"
    steps: int = 2000
    restarts: int = 4
    low: float = -np.inf
    high: float = np.inf
    smoothness: float = 0.0
    image: tuple[int, int] | None = None
    tolerance: float = 1e-12
    rate: float = 0.05
    seed: int = 0

    def __post_init__(self) -> None:
        positive(steps=self.steps, restarts=self.restarts, rate=self.rate)
        if self.distance not in ("l2", "cosine") or self.optimiser not in ("lbfgs", "adam"):
            raise InvalidInput(
                f"distance = {self.distance!r}, optimiser = {self.optimiser!r}: choose l2 or "
                "cosine, and lbfgs or adam"
            )
        if not self.low < self.high:
            raise InvalidInput(f"features in [{self.low}, {self.high}]: low must be below high")
        if self.smoothness and self.image is None:
            raise InvalidInput("smoothness is for images: give image = (height, width)")


class Inverted(NamedTuple):
    """The rows (records, d) that explain the update best, their targets, and for every start that
    was tried the distance at its end."""

    rows: np.ndarray
    targets: np.ndarray
    distances: np.ndarray

    @property
    def distance(self) -> float:
        return float(self.distances.min())


def invert(
    model: Model,
    targets: Any,
    features: int,
    settings: InversionSettings | None = None,
    start: Any | None = None,
) -> Inverted:
    """Find rows for given targets (records, ...); `start` (records, d) replaces the first start."""
    settings = settings or InversionSettings()
    if len(targets) != model.records:
        raise InvalidInput(
            f"{len(targets)} targets for {model.records} records: give one for each, in any order"
        )
    if settings.image and settings.image[0] * settings.image[1] != features:
        raise InvalidInput(f"images of {settings.image} are not rows of {features} features")
    with jax.enable_x64(True):
        evidence = _evidence(model, targets)
        sizes = (model.records, features, model.units)
        objective = _objective(
            model.send, sizes, settings.distance, settings.smoothness, settings.image
        )
        starts = _starts(sizes, settings, start)
        bounds = _bounds(sizes, settings)
        if settings.optimiser == "lbfgs":
            ends = search.lbfgs(
                objective, evidence, starts, bounds, settings.steps, settings.tolerance
            )
        else:
            ends = search.adam(objective, evidence, starts, bounds, settings.steps, settings.rate)
        best = ends.points[int(np.argmin(ends.heights))]
    rows = best[: model.records * features].reshape(model.records, features)
    return Inverted(rows, np.asarray(targets), ends.heights)


def invert_without_labels(
    model: Model,
    bias_gradient: Any,
    probabilities: Callable[[Any], Any],
    features: int,
    settings: InversionSettings | None = None,
    guess: Any | None = None,
    tries: int = 3,
) -> Inverted:
    """Find rows and class labels. `bias_gradient` (classes,) belongs to the last layer, and
    `probabilities(rows)` (n, classes) is the public network; `guess` (n, d) are made-up rows of
    the kind expected, zeros if none are given."""
    rows = np.zeros((1, features)) if guess is None else guess
    best, seen = None, set()
    for _ in range(tries):
        expected = np.asarray(probabilities(rows)).mean(axis=0)
        labels = closed_form.labels(bias_gradient, model.records, expected)
        if tuple(labels) in seen:
            break
        seen.add(tuple(labels))
        found = invert(model, labels, features, settings)
        best = found if best is None or found.distance < best.distance else best
        rows = found.rows
    assert best is not None
    return best


# ------------------------------------------------------------- what is minimised


class _Evidence(NamedTuple):
    """What the attacker holds, as 64-bit arrays: arguments, so that programs are compiled once."""

    parameters: Any
    seen: list[Any]
    counted: list[Any]
    targets: Any
    mask: Any


def _evidence(model: Model, targets: Any) -> _Evidence:
    flat = jax.tree.leaves(model.update), jax.tree.leaves(model.counted)
    parts = (model.parameters, *flat, targets, model.mask)
    return _Evidence(*jax.tree.map(lambda leaf: jnp.asarray(leaf, jnp.float64), parts))


@lru_cache(maxsize=64)
def _objective(
    send: Callable[..., Any],
    sizes: tuple[int, int, int],
    distance: str,
    smoothness: float,
    image: tuple[int, int] | None,
) -> Callable[..., Any]:
    """objective(vector, evidence) of one flat vector: the rows, then the logits of unseen masks."""
    records, features, units = sizes
    count = records * features

    def objective(vector: Any, evidence: _Evidence) -> Any:
        rows = vector[:count].reshape(records, features)
        unseen = jax.nn.sigmoid(vector[count:]).reshape(records, units)
        masks = unseen if units else evidence.mask
        sent = jax.tree.leaves(send(evidence.parameters, rows, evidence.targets, masks))
        pairs = [
            (mask * leaf, seen)
            for mask, leaf, seen in zip(evidence.counted, sent, evidence.seen, strict=True)
        ]
        square = sum(jnp.sum(b * b) for _, b in pairs) + _TINY
        if distance == "l2":
            far = sum(jnp.sum((a - b) ** 2) for a, b in pairs) / square
        else:
            length = sum(jnp.sum(a * a) for a, _ in pairs) + _TINY
            far = 1 - sum(jnp.sum(a * b) for a, b in pairs) / jnp.sqrt(length * square)
        return far + smoothness * total_variation(rows, image) if smoothness else far

    return objective


def total_variation(rows: Any, image: tuple[int, int] | None) -> Any:
    """Mean absolute difference of neighbours, for rows (n, height * width)."""
    assert image is not None
    pictures = rows.reshape(len(rows), *image)
    down = jnp.abs(pictures[:, 1:] - pictures[:, :-1]).mean()
    return down + jnp.abs(pictures[:, :, 1:] - pictures[:, :, :-1]).mean()


def _starts(
    sizes: tuple[int, int, int], settings: InversionSettings, start: Any | None
) -> np.ndarray:
    """(restarts, unknowns): uniform in the known range, normal where there is none."""
    records, features, units = sizes
    generator = np.random.default_rng(settings.seed)
    shape = (settings.restarts, records * features)
    if np.isfinite([settings.low, settings.high]).all():
        rows = generator.uniform(settings.low, settings.high, shape)
    else:
        rows = generator.normal(size=shape).clip(settings.low, settings.high)
    if start is not None:
        rows[0] = np.asarray(start, float).ravel()
    masks = generator.normal(size=(settings.restarts, records * units))
    return np.concatenate([rows, masks], axis=1)


def _bounds(
    sizes: tuple[int, int, int], settings: InversionSettings
) -> tuple[np.ndarray, np.ndarray]:
    records, features, units = sizes
    free, known = np.full(records * units, np.inf), np.ones(records * features)
    low = np.concatenate([settings.low * known, -free])
    return low, np.concatenate([settings.high * known, free])
