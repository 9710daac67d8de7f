"""Secret sharing (Shamir 1979): any `threshold` shares give the secret, fewer give nothing.

The secret is the value at 0 of a random polynomial of degree threshold - 1 over the integers
modulo the prime p = 2^256 + 297, which holds every 32-byte secret; holder i has the value at
i + 1.
"""

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import accumulate

from unisono.errors import InvalidInput

PRIME = 2**256 + 297
SECRET_BYTES, SHARE_BYTES = 32, 33
# Coefficients are drawn from so many bytes: what is left of evenness modulo p is 2^-128.
_WIDE_BYTES = 48


def randomness(threshold: int) -> int:
    """How many random bytes `split` needs."""
    return (threshold - 1) * _WIDE_BYTES


def split(secret: bytes, holders: Sequence[int], threshold: int, random: bytes) -> dict[int, bytes]:
    """A share for each holder; `random` are `randomness(threshold)` fresh bytes.

    >>> shares = split(bytes(31) + b"7", [0, 4, 9], 2, bytes(range(48)))
    >>> join({0: shares[0], 9: shares[9]}) == bytes(31) + b"7"
    True
    """
    if len(secret) != SECRET_BYTES or len(random) != randomness(threshold):
        raise InvalidInput(
            f"a secret of {len(secret)} bytes and {len(random)} random ones: {SECRET_BYTES} and "
            f"{randomness(threshold)} are needed"
        )
    if not 1 <= threshold <= len(holders) or len(set(holders)) != len(holders):
        raise InvalidInput(
            f"{threshold} of {len(holders)} shares should open a secret: as many different "
            "holders are needed"
        )
    coefficients = [
        int.from_bytes(random[i : i + _WIDE_BYTES], "big") % PRIME
        for i in range(0, len(random), _WIDE_BYTES)
    ]
    coefficients.append(int.from_bytes(secret, "big"))

    def value(point: int) -> int:
        result = 0
        for coefficient in coefficients:  # Horner
            result = (result * point + coefficient) % PRIME
        return result

    return {holder: value(holder + 1).to_bytes(SHARE_BYTES, "big") for holder in holders}


def join(shares: Mapping[int, bytes]) -> bytes | None:
    """The secret behind these shares (as many as the threshold), or None if they do not fit."""
    holders = tuple(sorted(shares))
    total = 0
    for holder, weight in zip(holders, _weights(holders), strict=True):
        total = (total + weight * int.from_bytes(shares[holder], "big")) % PRIME
    return total.to_bytes(SECRET_BYTES, "big") if total < 2**256 else None


@lru_cache(maxsize=1024)
def _weights(holders: tuple[int, ...]) -> tuple[int, ...]:
    """Lagrange's weights of the points at 0: product over j of x_j / (x_j - x_i).

    On a ring every party has other holders, so this is most of what joining costs. Points are small
    integers, whose products need no modulus on the way, and all denominators are inverted at once
    (Montgomery 1987): one inverse of their product, from which the others follow.
    """
    points = [holder + 1 for holder in holders]
    over = math.prod(points) % PRIME
    under = [
        own * math.prod([other - own for other in points if other != own]) % PRIME for own in points
    ]
    before = list(accumulate(under, lambda a, b: a * b % PRIME, initial=1))
    inverse = pow(before.pop(), -1, PRIME)
    weights = []
    for denominator, product in zip(reversed(under), reversed(before), strict=True):
        weights.append(over * inverse * product % PRIME)
        inverse = inverse * denominator % PRIME
    return tuple(reversed(weights))
