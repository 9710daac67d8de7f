"""What releases are made of: a closed set, because its members carry the proofs.

A bound's proof rests on its parts (rows of a table, the clipping of gradients, the constants of a
loss), and a price on the release's own words. A class of another package that is like one of these,
or inherits from it, could say less than is true; so all of them are asked for by their exact type.
"""

from collections.abc import Iterator
from typing import Any

from unisono.core.algorithm import Named
from unisono.core.events import Everyone, Poisson, WithoutReplacement
from unisono.core.privacy import Privacy
from unisono.core.trust import Trust, Unit
from unisono.errors import InvalidInput
from unisono.problems.linear import LinearLoss, MarginLoss, SquaredLoss
from unisono.problems.per_record import PerRecord
from unisono.releases.banded import BandedSum
from unisono.releases.blocked_sum import BlockedSum, Clipping
from unisono.releases.bounds import ClippedSum, ClippedUpdate
from unisono.releases.minimiser import Minimiser
from unisono.releases.person_sum import PersonSum
from unisono.releases.perturbed_minimiser import PerturbedMinimiser
from unisono.releases.release import Release
from unisono.releases.rows import (
    BallPoint,
    Interval,
    Moments,
    Ones,
    OuterProduct,
    PlacedOne,
    ScoredPoint,
)
from unisono.releases.scaled_sum import ScaledSum
from unisono.releases.table import Block, Table

# Whatever is released is bounded by one of these, each with its proof.
BOUNDS = (
    *(ClippedSum, ScaledSum, PersonSum, BlockedSum, BandedSum, ClippedUpdate),
    *(Table, Minimiser, PerturbedMinimiser),
)
_SAMPLERS = (Everyone, Poisson, WithoutReplacement)
_ROWS = (Ones, PlacedOne, Interval, Moments, BallPoint, OuterProduct, ScoredPoint)
_LOSSES = (LinearLoss, MarginLoss, SquaredLoss)


def require_closed(release: Release, name: str) -> None:
    """Refuse a release with a part that is none of ours, or parts that contradict each other."""
    for what, part, known in _parts(release):
        if type(part) not in known:
            raise InvalidInput(
                f"{name} releases a {type(part).__name__}, which is no {what} of this package: "
                f"{what}s carry proofs and are a closed set; use one of "
                + ", ".join(one.__name__ for one in known)
            )
    _require_sampled(release, name)
    _require_run(release, name)
    _require_named(release, name)


def _parts(release: Release) -> Iterator[tuple[str, Any, tuple[type, ...]]]:
    yield "release", release, (Release,)
    yield "sampler", release.sampler, _SAMPLERS
    yield "bound", release.bound, BOUNDS
    yield "order", release.named, (type(None), Named)
    match release.bound:
        case Table(blocks):
            for block in blocks:
                yield "block", block, (Block,)
                yield "kind of row", block.rows, _ROWS
        case BlockedSum() as sums:
            yield from _gradients(sums)
        case BandedSum(batch):
            yield "bound", batch, (BlockedSum,)
            yield from _gradients(batch)
        case Minimiser(problem) | PerturbedMinimiser(problem):
            yield "loss", problem, _LOSSES


def _gradients(sums: BlockedSum) -> Iterator[tuple[str, Any, tuple[type, ...]]]:
    yield "clipping", sums.clipping, (Clipping,)
    yield "gradient", sums.plan, (PerRecord,)


def _require_sampled(release: Release, name: str) -> None:
    """A sum leaves out whoever was not chosen. What is made of all records at once does not, and a
    minimiser would divide by the number of the chosen, of which its sensitivity knows nothing."""
    bound = release.bound
    if bound.whole and bound.unit is not Unit.PARTY and not isinstance(release.sampler, Everyone):
        raise InvalidInput(
            f"{name} samples records for a {type(bound).__name__}, which is made of all of a "
            "party's records at once: only sums can be sampled by records; use Everyone()"
        )


def _require_run(release: Release, name: str) -> None:
    """All rounds are one event where noise is correlated, and nowhere else."""
    bound = release.bound
    if not release.run and not isinstance(bound, BandedSum):
        return
    alone = isinstance(release.sampler, Everyone) and not (
        release.scales or release.turns or release.local_steps or release.each
    )
    if not (isinstance(bound, BandedSum) and release.run and alone) or (
        bound.rounds != release.rounds
    ):
        raise InvalidInput(
            f"{name}: a run of rounds is one event for a BandedSum of as many rounds, with "
            "everybody in each and nothing that changes between them; say run=True for that, and "
            "for nothing else"
        )


def _require_named(release: Release, name: str) -> None:
    """Records that are named one by one are for plain sums whose noise their owner adds: for
    nothing else is the cost proved."""
    plain = isinstance(release.sampler, Everyone) and not (
        release.scales or release.turns or release.local_steps or release.each or release.run
    )
    local = release.trusts == frozenset({Trust.LOCAL})
    if release.named is not None and (
        not (isinstance(release.bound, ClippedSum) and plain and local)
        or type(release.named.uses) is not int
        or not 1 <= release.named.uses <= release.rounds
    ):
        raise InvalidInput(
            f"{name}: records are named for a ClippedSum of trust local, everybody's noise the "
            f"same in every round, and used 1 to {release.rounds} times (once a round at most)"
        )


def require_printable(release: Release, privacy: Privacy, name: str) -> None:
    """Refuse printed noise where an event of it would not say what really happens: noise inside a
    computation, correlated or scheduled noise, parties that take turns or have an epsilon each."""
    changing = release.scales or release.turns or release.run or privacy.own
    if changing or isinstance(release.bound, (PerturbedMinimiser, BandedSum)):
        raise InvalidInput(
            f"{name} with published = true: what is printed is one noise for everybody and every "
            "round; leave out schedules of noise, subsets of parties and epsilons of their own"
        )


__all__ = ["BOUNDS", "require_closed", "require_printable"]
