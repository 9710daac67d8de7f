"""The clock by which a ledger dates its lines.

A simulation has no date: two runs with the same seed are equal to the last bit, whenever they are
made. Certificates name the head of a ledger, a hash over its lines and so over their dates.
"""

import time
from collections.abc import Callable


def ledger_clock(seed: int | None) -> Callable[[], float]:
    """The machine's clock for real ledgers; for simulated ones (`seed`) a clock that stands still.

    >>> ledger_clock(7)()
    0.0
    """
    return time.time if seed is None else _standing


def _standing() -> float:
    return 0.0  # 1970-01-01, which nobody takes for the date of a real payment


__all__ = ["ledger_clock"]
