"""Adding the noise: the engine's job, never the algorithm's.

A bound makes a `Contribution`; the engine turns it into a `Released` value or a `Share` here, with
exact integer noise from the ledger's own key. Secret noise can therefore not leak back into a
party's state (the flaw of the thesis's Algorithm 3).
"""

import hashlib
import math
import os
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from unisono.core.algorithm import Facts, Inside, PricedAlgorithm
from unisono.core.events import Event, Everyone, Gaussian, releases_of
from unisono.core.grant import Draw, derive
from unisono.core.kinds import LAWS, Drawing, require_known
from unisono.core.trust import SERVER, Trust, Unit
from unisono.core.values import Contribution, Disclosed, Released, Share, sealed, within
from unisono.errors import GrantMisused, InvalidInput, UnknownEvent

_HEADROOM = 2**62


def release(draw: Draw, contribution: Contribution, event: Event) -> Released:
    """Add all of the event's noise: what comes back may be seen as the entry says."""
    value = _noised(draw, contribution, event, honest=1)
    return sealed(Released, value, contribution.grid, draw)


def post_processed(draw: Draw, value: np.ndarray, grid: float) -> Released:
    """A function of values this draw and earlier ones released, in grid steps: costs nothing.

    The caller answers for its being such a function: `Inner.absorb` and `Inner.report` see no data.
    """
    if not draw.used:
        raise GrantMisused("nothing was released by this draw yet: there is nothing to report")
    return sealed(Released, np.asarray(value, np.int64), grid, draw)


def share(draw: Draw, contribution: Contribution, event: Event, honest: int) -> Share:
    """Add one of `honest` equal shares of the event's noise, for a secure sum.

    `honest` is the minimum number of survivors less the tolerated colluders.
    """
    value = _noised(draw, contribution, event, honest)
    return sealed(Share, value, contribution.grid, draw)


def disclose(draw: Draw, contribution: Contribution, event: Event) -> Disclosed:
    """The clean value, for a server whose ledger entry books an infinite cost."""
    seen = draw.grant.cost.get(SERVER)
    if seen is None or not seen.discloses:
        raise GrantMisused(
            "a clean value may go only to a server that the ledger books as trusted: authorize "
            "a cost with NoNoise for the viewer 'server'"
        )
    require_paid_for(contribution, event, contribution.grid)
    require_sampled(draw, contribution, event)
    draw.take(event)
    return sealed(Disclosed, np.asarray(contribution.value, np.int64), contribution.grid, draw)


def server_noise(
    algorithm: PricedAlgorithm, facts: Facts, trust: Trust, seed: int | None
) -> Callable[..., np.ndarray]:
    """A trusted server's own noise, in grid steps, fresh in every round and in every attempt at it:
    two sums with the same noise would show their difference. A seed simulates."""
    study = algorithm.study_hash(facts, trust)
    simulated = hashlib.sha256(f"simulation {seed} {study}".encode()).digest()
    secret = os.urandom(32) if seed is None else simulated
    grid = algorithm.grid(facts, trust)

    def noise(round_number: int, shape: tuple[int, ...], attempt: int = 0) -> np.ndarray:
        event = algorithm.event_of(facts, trust, 0, round_number)
        place = (round_number, attempt) if attempt else (round_number,)
        return noise_steps(derive(secret, "server", *place), event, grid, shape, honest=1)

    return noise


def inside_noise(draw: Draw, inside: Inside, parties: int = 1) -> np.ndarray:
    """Noise for a party's computation, in whole steps, by the exact sampler: the event's slack pays
    for what is computed with it, not for a sampler's error."""
    noise = inside.event.noise
    if not isinstance(noise, Gaussian):
        raise GrantMisused(f"{type(noise).__name__} noise inside a computation: use Gaussian")
    exact = replace(inside.event, noise=replace(noise, slack=0.0))
    shape = (parties, *inside.shape) if parties > 1 else inside.shape
    steps = noise_steps(draw.take(inside.event), exact, inside.grid, shape, 1, inside.shape)
    return steps.astype(np.int32)


def coins(draw: Draw, event: Event, records: int) -> tuple[np.ndarray, bool]:
    """Which records take part (records,), and whether the party does: each unit tosses its own."""
    if event.sensitivity.unit is not Unit.PARTY:
        return draw.sample(event.sampler, records), True
    return np.ones(records, bool), bool(draw.sample(event.sampler, 1)[0])


def require_paid_for(contribution: Contribution, event: Event, grid: float) -> None:
    """Refuse a contribution that is not what the event was authorised for.

    Works on arrays and on their abstract shapes, so that engines can ask before they compile.
    """
    if not isinstance(contribution, Contribution):
        raise GrantMisused(
            f"a {type(contribution).__name__} has no proved sensitivity: make it with a bounding "
            "function such as clipped_sum"
        )
    if not within(contribution.sensitivity, event.sensitivity, event.noise.norm):
        raise GrantMisused(
            f"the contribution moves by {contribution.sensitivity}, more than was authorised "
            f"({event.sensitivity}): authorise its true sensitivity"
        )
    if contribution.run != releases_of(event):
        raise GrantMisused(
            f"a contribution to a run of {contribution.run} releases, paid by an event of "
            f"{releases_of(event)}: what single releases show does not add up to one event"
        )
    if contribution.grid != grid:
        raise GrantMisused(f"a contribution on grid {contribution.grid:g}, released on {grid:g}")
    if np.dtype(contribution.value.dtype) not in (np.dtype(np.int32), np.dtype(np.int64)):
        raise InvalidInput(
            f"a contribution of dtype {contribution.value.dtype} is not on the integer grid: round "
            "it to 32 or 64 bit integers first"
        )


def require_sampled(draw: Draw, contribution: Contribution, event: Event) -> None:
    """Refuse a sum that claims the amplification of a sample it was not made from."""
    if not isinstance(event.sampler, Everyone) and contribution.sample is not draw:
        raise GrantMisused(
            f"the event claims {event.sampler}, but the sum was not made with the sampling mask of "
            "this draw: hand the mask that Draw.sample returned to the bounding function"
        )


def require_room_for_noise(value: np.ndarray) -> None:
    """Refuse integers to which noise cannot be added without leaving 64 bits.

    Ends are compared as Python's integers: the least 64-bit integer has no absolute value there.
    """
    if value.size and max(int(value.max()), -int(value.min())) >= _HEADROOM:
        raise InvalidInput(
            "the contribution overflows 62-bit integers: use a coarser grid or a smaller clip"
        )


def _noised(draw: Draw, contribution: Contribution, event: Event, honest: int) -> np.ndarray:
    require_paid_for(contribution, event, getattr(contribution, "grid", 0.0))
    require_sampled(draw, contribution, event)
    value = np.asarray(contribution.value)
    require_room_for_noise(value)
    steps = noise_steps(draw.take(event), event, contribution.grid, value.shape, honest)
    if value.dtype == np.int32:
        # A sum of 32-bit integers lives modulo 2^32; noise must be added in the same ring, or a
        # wrapped sum would stand out by 2^32.
        return (value + steps.astype(np.int32)).astype(np.int64)
    return value.astype(np.int64) + steps


def noise_steps(
    key: bytes,
    event: Event,
    grid: float,
    shape: tuple[int, ...],
    honest: int,
    one: tuple[int, ...] | None = None,
) -> np.ndarray:
    """Integer noise in grid steps: one of `honest` shares of the event's noise.

    Several releases may be drawn at once: `shape` then begins with their number, and `one` is
    the shape of each.
    """
    noise = event.noise
    require_known(noise)
    if not noise.additive or (honest > 1 and not noise.shared):
        shared = ", ".join(law.__name__ for law in LAWS if law.shared and not law.run)
        raise UnknownEvent(
            f"{type(noise).__name__} cannot be added to an integer sum in {honest} shares: use one "
            f"of {shared}"
        )
    dimension = math.prod(shape if one is None else one)
    return noise.steps(Drawing(key, grid, shape, dimension, honest))


def party_keys(key: bytes, parties: int) -> np.ndarray:
    """ChaCha20 keys (parties, 8) for noise in the graph: the key itself, or one for each party."""
    if parties == 1:
        return np.frombuffer(key, "<u4")[None]
    keys = [derive(key, "party", number) for number in range(parties)]
    return np.stack([np.frombuffer(own, "<u4") for own in keys])
