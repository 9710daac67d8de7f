"""Sums of very many records, finer than what is released, exactly and in 32-bit integers.

Where a sum is over so many records that a quantization step is no longer small beside what one of
them adds, rounding each of them to it could move their mean by half a step. So each is rounded to a
step that is finer by `shift` binary digits, these are added up without any error, and the sum is
rounded, once:

    fine = q 2^shift + r,  0 <= r < 2^shift          of every record
    sum  = Σ q + floor((Σ r + 2^(shift - 1)) / 2^shift)

Σ r does not fit 32 bits: r is cut into limbs of so few bits that the sum of each does, and carries
are handed up from the lowest. Nested floors are the floor of the whole.
"""

from typing import Any


def limb_widths(shift: int, rows: int) -> list[int]:
    """The bits of each limb of r, lowest first: a sum of so many rows stays below 2^30.

    >>> limb_widths(17, 2**16), limb_widths(0, 9)
    ([13, 4], [])
    """
    most = max(1, 30 - int(rows).bit_length())
    widths = []
    while shift > 0:
        widths.append(min(most, shift))
        shift -= widths[-1]
    return widths


def split(fine: Any, widths: list[int]) -> list[Any]:
    """q and the limbs of r, of integers: they add up to the same in any order."""
    shift = sum(widths)
    parts, rest = [fine >> shift], fine & ((1 << shift) - 1)
    for width in widths:
        parts.append(rest & ((1 << width) - 1))
        rest = rest >> width
    return parts


def joined(sums: Any, widths: list[int]) -> Any:
    """The rounded sum, of the sums of q and of each limb: see the module.

    >>> import numpy as np
    >>> fine = np.array([5, -3, 9, 2])
    >>> joined([part.sum() for part in split(fine, [1, 2])], [1, 2]), round(fine.sum() / 8)
    (np.int64(2), 2)
    """
    carry: Any = 0
    for number, width in enumerate(widths):
        half = 1 << (width - 1) if number == len(widths) - 1 else 0
        carry = (sums[1 + number] + carry + half) >> width
    return sums[0] + carry


__all__ = ["joined", "limb_widths", "split"]
