"""Values by who may see them: private, contributed, released, shared, masked, disclosed.

`Private` data opens only to a grant. A `Contribution` is bounded but not yet noised, and is made by
bounding functions only. What leaves a party is one of `Released`, `Share` (before masking),
`Masked` or `Disclosed`; each but the masked integers is sealed by the ledger whose entry paid
for it.
"""

import math
from collections.abc import Callable
from dataclasses import InitVar, dataclass, replace
from typing import Any, Generic, NoReturn, TypeVar

import numpy as np

from unisono.core.events import Distance, Sensitivity, positive
from unisono.core.grant import Draw, Grant, SamplingMask
from unisono.core.trust import Unit
from unisono.errors import GrantMisused, InvalidInput

T = TypeVar("T")

# A float32 product, square, sum of d squares, square root and quotient, each rounded once,
# err by at most (d + 8) units in the last place relative to the norm; doubled for safety.
_FLOAT32_UNIT = 2.0**-24
# Held by the functions that enforce the bound they state, and by the engine that compiles them.
_BOUNDED_ONLY = object()


class Private(Generic[T]):
    """Records that answer only to a grant; they do not print, pickle or turn into arrays."""

    __slots__ = ("_steps", "_value", "name")

    def __init__(self, value: Any, name: str = "records", steps: tuple[Any, ...] = ()) -> None:
        self._value, self.name, self._steps = value, name, steps

    def open(self, permission: Grant | Draw) -> T:
        """The records, for code that holds a paid permission."""
        if not isinstance(permission, (Grant, Draw)):
            raise GrantMisused(
                f"{self.name} open to a grant only, not to a {type(permission).__name__}: "
                "authorize the release first"
            )
        value = self._value
        for step in self._steps:
            value = step(value)
        return value

    def map(self, function: Callable[[T], Any]) -> "Private[Any]":
        """Transform the records when they are opened; the result is just as private."""
        return Private(self._value, self.name, (*self._steps, function))

    def __repr__(self) -> str:
        return f"<Private {self.name}>"

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise GrantMisused(f"{self.name} are private and cannot be pickled or sent")

    def __array__(self, *_: Any, **__: Any) -> NoReturn:
        raise GrantMisused(f"{self.name} are private: open them with a grant")


@dataclass(frozen=True)
class Contribution:
    """A bounded value on an integer grid, before noise; `value` is in grid steps.

    Made by functions that enforce the bound they state, such as `clipped_sum`; nobody else holds
    what it takes to make one, and it is no pytree, so that its numbers cannot be changed under a
    bound that was proved for others. Where the bound could not be kept (a solver missed its public
    tolerance) `valid` is false and the party counts as a dropout. Of a `run` of several
    releases the sensitivity is that of all of them together; only an event of as many releases pays
    for it. `sample` is the draw whose sampling mask was applied, None if every record took part:
    amplification is claimed by the release that was sampled, and by no other.
    """

    value: Any
    grid: float
    sensitivity: Sensitivity
    valid: Any = True
    run: int = 1
    sample: Draw | None = None
    maker: InitVar[object] = None

    def __post_init__(self, maker: object) -> None:
        if maker is not _BOUNDED_ONLY:
            raise GrantMisused(
                "contributions are made by functions that enforce their bound: use clipped_sum or "
                "clipped_updates, whose clip is the sensitivity"
            )
        if isinstance(self.value, np.ndarray):  # nobody changes what was bounded
            object.__setattr__(self, "value", self.value.copy())
            self.value.setflags(write=False)

    def silenced(self) -> "Contribution":
        """What a party sends that sits a round out: zero, within every bound."""
        return replace(self, maker=_BOUNDED_ONLY, value=0 * self.value)


@dataclass(frozen=True)
class _Sealed:
    """An integer vector in grid steps, bound to the ledger entry that paid for it."""

    value: np.ndarray
    grid: float
    entry: int
    index: int
    ledger: str
    simulated: bool
    seal: bytes = b""

    def content(self) -> bytes:
        """The bytes that the seal and the receipt speak about."""
        head = f"{type(self).__name__} {self.value.shape} {self.grid!r} {self.simulated} "
        return head.encode() + self.ledger.encode() + np.ascontiguousarray(self.value, "<i8").data

    @property
    def array(self) -> np.ndarray:
        """The value in its own units."""
        return self.value * self.grid


@dataclass(frozen=True)
class Released(_Sealed):
    """A value with all of its noise: it may be seen by the viewers its entry names."""


@dataclass(frozen=True)
class Share(_Sealed):
    """A contribution with one share of the noise: private only inside a secure sum."""


@dataclass(frozen=True)
class Disclosed(_Sealed):
    """A clean value for a server that the study trusts."""


@dataclass(frozen=True)
class Masked:
    """A share under a one-time mask, modulo 2**bits: uniformly random to whoever sees one."""

    value: np.ndarray
    bits: int
    simulated: bool


def sealed(kind: type[_Sealed], value: np.ndarray, grid: float, draw: Draw) -> Any:
    """Bind a value to the draw that paid for it."""
    entry, index = draw.release_name
    ledger = draw.grant.ledger
    release = kind(value, grid, entry, index, ledger.identity, ledger.simulated)
    return replace(release, seal=ledger.seal(entry, index, release.content()))


# ------------------------------------------------------------- bounded sums


def sum_sensitivity(
    clip: float, grid: float, dimension: int, hides_presence: bool = True
) -> Sensitivity:
    """Sensitivity of `clipped_sum`: the clip, the float error of clipping, and the rounding.

    Rounding each coordinate moves a record by at most sqrt(d)/2 grid steps; float32
    arithmetic lets its norm exceed the clip by a relative 2 (d + 8) 2^-24. Where a record
    comes or goes, another one may move into its place (`engines.layout`) and be rounded there the
    other way: one step more in every coordinate.
    """
    positive(clip=clip, grid=grid, dimension=dimension)
    if clip < 1e-12:
        raise InvalidInput(f"clip = {clip!r} is lost in float32 arithmetic: rescale the records")
    slack = 1 + 2 * (dimension + 8) * _FLOAT32_UNIT
    norm = clip * slack + grid * math.sqrt(dimension) / 2
    return _sum_in_all_norms(norm, norm + grid * math.sqrt(dimension), dimension, hides_presence)


def _sum_in_all_norms(
    norm: float, present: float, dimension: int, hides_presence: bool
) -> Sensitivity:
    """A sum of vectors of l2 norm at most `norm`, which moves by `present` if one comes or goes.

    Where that is hidden, who is not chosen for a batch is gone from it, whatever the relation.
    """
    alone = present if hides_presence else norm

    def far(l2: float) -> Distance:
        return Distance(l1=l2 * math.sqrt(dimension), l2=l2, linf=l2)

    return Sensitivity(
        Unit.RECORD, far(2 * alone), far(alone), far(alone) if hides_presence else None
    )


def clipped_sum(
    rows: Any, clip: float, grid: float, mask: Any | None = None, hides_presence: bool = True
) -> Contribution:
    """Sum over records of round(clip(row) / grid), as integers: (n, d) -> (d,).

    Each row is scaled to l2 norm at most `clip` and rounded to the grid *before* the sum,
    so the sum moves by no more than one rounded row when one record changes. Rows
    that are masked out, or not finite, contribute exactly zero. Works on NumPy and JAX
    arrays alike; integers are 32 bits wide under JAX, so the caller keeps
    n * clip / grid below 2^31.
    """
    if isinstance(mask, SamplingMask) and mask.shape != rows.shape[:-1]:
        raise GrantMisused(
            f"a sampling mask of shape {mask.shape} for records of shape {rows.shape[:-1]}: one "
            "coin that many records share amplifies nothing; draw one for each of them"
        )
    steps = _clipped_steps(rows, clip, grid, mask)
    total = steps.__array_namespace__().sum(steps, axis=-2, dtype=steps.dtype)
    bound = sum_sensitivity(clip, grid, rows.shape[-1], hides_presence)
    return Contribution(total, grid, bound, sample=sampled_by(mask), maker=_BOUNDED_ONLY)


def sampled_by(mask: Any) -> Draw | None:
    """The draw that chose these units, where a sampling mask still says so."""
    return mask.draw if isinstance(mask, SamplingMask) else None


def blocked_sum_sensitivity(
    grid: float,
    dimension: int,
    block: int,
    terms: int,
    gauges: int = 0,
    gauge: float = 0.0,
    hides_presence: bool = True,
    clip: float = 1.0,
) -> Sensitivity:
    """Sensitivity of sums that are added in float32 within blocks of records, then rounded.

    Every record is scaled to l2 norm at most C = `clip`, a block of at most b records is added up
    in floats (a matrix product, in any order), each coordinate is rounded to the grid, and blocks
    are added as integers. u = 2^-24. Then:

    * The norm of a record is computed from `terms` squares: too small by at most a relative
      (terms + 16) u, so that the scaled record is longer than C by no more; doubled here.
    * A float sum of b products errs in each coordinate by at most γ = 1.01 (b + 4) u times the sum
      of absolute values. By Minkowski's inequality the error of the whole vector is at most γ times
      the sum of the b norms, γ b C. Both worlds have such an error, in the one block that differs:
      the others hold the same numbers in the same places, and the same program rounds them alike.
    * Rounding two numbers moves their difference by at most one step: sqrt(d) steps in all.
    * A record that comes or goes touches two blocks (`engines.layout`): its own, where the last
      record takes its place, and the last. Errors and rounding are then paid twice.

    A record also adds `gauges` numbers of size at most `gauge` each, on the grid.
    """
    positive(grid=grid, dimension=dimension, block=block, terms=terms, clip=clip)
    length = clip * (1 + 2 * (terms + 16) * _FLOAT32_UNIT)
    error = 2 * 1.01 * (block + 4) * _FLOAT32_UNIT * block * length
    rounding = grid * math.sqrt(dimension + gauges)

    def norm(blocks: int) -> float:
        moved = math.hypot(length + blocks * error, gauge * math.sqrt(gauges))
        return moved + blocks * rounding

    return _sum_in_all_norms(norm(1), norm(2), dimension + gauges, hides_presence)


def _clipped_steps(rows: Any, clip: float, grid: float, mask: Any | None = None) -> Any:
    """Every row scaled to norm at most `clip` and rounded, in grid steps: (n, d) integers."""
    xp = rows.__array_namespace__()
    if rows.dtype.itemsize < 4 or rows.dtype.kind != "f":
        rows = rows.astype(xp.float32)  # the float error is proved for 32 bits and more
    finite = xp.all(xp.isfinite(rows), axis=-1)
    keep = finite if mask is None else xp.logical_and(finite, mask)
    safe = xp.where(keep[..., None], rows, 0.0)
    norms = xp.sqrt(xp.sum(safe * safe, axis=-1, keepdims=True))
    scaled = safe * (xp.minimum(1.0, clip / xp.maximum(norms, 1e-30)) / grid)
    return xp.asarray(xp.round(scaled), dtype=xp.int64 if xp is np else xp.int32)


def clipped_updates(rows: Any, clip: float, grid: float, unit: Unit) -> tuple[Contribution, Any]:
    """Updates (k, d) of a party's k shards, each scaled to norm at most `clip` and rounded, and
    their sum as a contribution; also the k rounded updates, in grid steps.

    A record lies in one shard and may move that shard's update anywhere in the ball, whether it is
    replaced or zeroed: twice the clip. A whole party (k = 1) without records sends zero, so that
    zeroing it moves its update by the clip. Presence is hidden in neither case: an absent party's
    share of noise is missing too.
    """
    xp = rows.__array_namespace__()
    if unit is Unit.PARTY and rows.shape[0] != 1:
        raise InvalidInput(f"{rows.shape[0]} shards of one party: to hide a party it has one")
    steps = _clipped_steps(rows, clip, grid)
    total = xp.sum(steps, axis=0, dtype=steps.dtype)
    bound = update_sensitivity(clip, grid, rows.shape[1], unit)
    return Contribution(total, grid, bound, maker=_BOUNDED_ONLY), steps


def update_sensitivity(clip: float, grid: float, dimension: int, unit: Unit) -> Sensitivity:
    """Sensitivity of `clipped_updates`."""
    bound = sum_sensitivity(clip, grid, dimension, hides_presence=False)
    zeroed = bound.zero_out if unit is Unit.PARTY else bound.replace_one
    return Sensitivity(unit, bound.replace_one, zeroed)


def within(actual: Sensitivity, authorised: Sensitivity, norm: str) -> bool:
    """Whether a contribution moves no further than the event that was paid for allows."""
    if actual.unit != authorised.unit:
        return False
    if not authorised.relations or not set(authorised.relations) <= set(actual.relations):
        return False
    return all(
        actual.under(relation).in_norm(norm) <= authorised.under(relation).in_norm(norm)
        for relation in authorised.relations
    )


def require_finite(values: np.ndarray, name: str) -> np.ndarray:
    """Refuse NaN and infinity before anything is clipped or spent."""
    array = np.asarray(values, dtype=float)
    bad = int(np.count_nonzero(~np.isfinite(array)))
    if bad:
        raise InvalidInput(
            f"{name} holds {bad} value(s) that are not finite numbers (NaN or infinity): "
            "remove or replace them; nothing was spent"
        )
    return array


__all__ = [
    "Contribution",
    "Disclosed",
    "Distance",
    "Masked",
    "Private",
    "Released",
    "Share",
    "blocked_sum_sensitivity",
    "clipped_sum",
    "clipped_updates",
    "require_finite",
    "sealed",
    "sum_sensitivity",
    "update_sensitivity",
    "within",
]
