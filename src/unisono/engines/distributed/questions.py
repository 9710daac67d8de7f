"""What a party is asked in one attempt: its digest, and what no honest server asks.

Everything that an answer depends on besides own records and own noise is in the digest:

    attempt   session (roster, study, version, protocol, results of earlier stages), round, attempt
    counted   for every party the last round whose sum held its answer: its state follows from it
    earlier   the questions of those rounds: a party holds them against what it answered itself
    public    every number of the public state, with its type and shape

Server and parties compute it, each from what they hold. Masks and signatures of a secure
aggregation cover it (`secagg.party`), so that whatever is unmasked is a sum over parties that were
asked alike, in this round and in all rounds that their states remember.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from unisono.core.algorithm import PricedAlgorithm
from unisono.engines.distributed.results import described
from unisono.errors import DishonestServer, InvalidInput
from unisono.secagg.roster import digest, framed

QUESTION_BYTES = 32
# Squares of larger numbers do not fit into the 32-bit floats that algorithms compute in.
LARGEST = 2.0**63
# Rounding carries a projected point outside of its set by no more than this part of its size.
_SLACK = 1e-3


class Question(NamedTuple):
    """The leaves of the public state, the last rounds that counted, and the questions of those."""

    public: Sequence[np.ndarray]
    counted: Sequence[int]
    earlier: Mapping[int, bytes]

    def digest(self, attempt: bytes) -> bytes:
        """What masks and signatures cover; `attempt` is `Session.attempt`."""
        rows = [framed(number, self.earlier[number]) for number in sorted(self.earlier)]
        states = framed(*(number + 1 for number in self.counted)), framed(*rows)
        return digest("question", attempt, *states, *described(self.public))

    def require_answered(self, party: int, answered: Mapping[int, bytes]) -> None:
        """Refuse questions of earlier rounds that are not those that this party answered.

        `answered` are the questions that it remembers, by rounds.
        """
        if set(self.earlier) != set(self.counted) - {-1}:
            raise InvalidInput("questions of other rounds than those that counted: refused")
        last = self.counted[party]
        if last in answered and self.earlier[last] != answered[last]:
            raise DishonestServer(
                f"in round {last + 1} this party answered another question than the server says: "
                "it asked parties differently"
            )


def require_public(algorithm: PricedAlgorithm, public: Any) -> None:
    """Refuse a public state that is not finite, or outside of what the algorithm can ask for."""
    for leaf in jax.tree.leaves(public):
        array = np.asarray(leaf)
        if array.dtype.kind == "f" and not np.all(np.abs(array) <= LARGEST):
            raise DishonestServer(
                "a public state with numbers that are not finite, or beyond 2^63: no honest server "
                "asks there"
            )
    if algorithm.within is None:
        return
    for found, nearest in zip(
        jax.tree.leaves(public), jax.tree.leaves(algorithm.within(public)), strict=True
    ):
        far, size = np.abs(np.asarray(found) - np.asarray(nearest)), np.abs(np.asarray(nearest))
        if far.max(initial=0.0) > _SLACK * (1 + size.max(initial=0.0)):
            raise DishonestServer(
                f"a public state outside of the set in which {algorithm.name} keeps it: no honest "
                "server asks there"
            )


def require_counted(given: Any, number: int, parties: int) -> list[int]:
    """The last rounds that counted, one for each party: earlier ones, or -1."""
    if (
        not isinstance(given, list)
        or len(given) != parties
        or any(type(one) is not int or not -1 <= one < number for one in given)
    ):
        raise InvalidInput(
            f"round {number} with answers that counted in rounds {given!r:.60}: one earlier round "
            f"for each of {parties} parties is needed"
        )
    return given


__all__ = ["Question", "require_counted", "require_public"]
