"""The ideal secure sum: a dealer hands out one-time pads and opens only whole sums.

Each party adds its pad to its share modulo 2^k, which makes the single message uniformly
random. The dealer tells the server the sum of the survivors' pads, once per round and only
if enough survive, so the server learns the sum of the shares and nothing else. This is what
a protocol without a dealer must be indistinguishable from; it protects nobody from the
dealer itself, so it serves one process and its tests.
"""

import numpy as np

from unisono.core.grant import derive
from unisono.core.noise import Keystream
from unisono.core.values import Masked, Share
from unisono.errors import GrantMisused, InvalidInput
from unisono.secagg.encoding import signed


class Dealer:
    """Knows all pads; opens a round once, for at least `minimum` survivors."""

    def __init__(self, secret: bytes, parties: int, minimum: int, bits: int = 32) -> None:
        self._secret, self.parties, self.minimum, self.bits = secret, parties, minimum, bits
        self._opened: set[int] = set()

    def pad(self, round_number: int, party: int, size: int) -> np.ndarray:
        """Party's one-time pad for a round: uniform integers modulo 2^bits."""
        words = Keystream(derive(self._secret, "pad", round_number, party)).words(size)
        return words & np.uint64(2**self.bits - 1)

    def mask(self, round_number: int, party: int, share: Share) -> Masked:
        """The party's share under its pad."""
        if not isinstance(share, Share):
            raise GrantMisused(f"only noised shares are masked, not a {type(share).__name__}")
        modulus = np.uint64(2**self.bits - 1)
        flat = share.value.ravel().astype(np.uint64)
        masked = (flat + self.pad(round_number, party, flat.size)) & modulus
        return Masked(masked.reshape(share.value.shape), self.bits, share.simulated)

    def open(self, round_number: int, messages: dict[int, Masked]) -> np.ndarray:
        """The signed sum of the survivors' shares; refuses small rounds and second openings."""
        if len(messages) < self.minimum:
            raise InvalidInput(
                f"{len(messages)} of {self.parties} parties answered, at least {self.minimum} are "
                "needed before a sum may be opened: wait for more, or end the study"
            )
        if round_number in self._opened:
            raise GrantMisused(f"round {round_number} was opened already: difference attacks")
        self._opened.add(round_number)
        shape = next(iter(messages.values())).value.shape
        total = np.zeros(int(np.prod(shape)), np.uint64)
        for party, message in messages.items():
            total += message.value.ravel() - self.pad(round_number, party, total.size)
        return signed(total, self.bits).reshape(shape)
