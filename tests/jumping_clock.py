"""A clock that jumps: what is repeatable does not depend on when it is made.

    UNISONO_TEST_CLOCK=jump python -m pytest tests/deployment

`time.time`, `time.time_ns` and `datetime.now` are then off by up to two days, now and then by more
than a year, forwards and backwards, and differently at every call. `time.monotonic` stays: no
machine sets it back.
"""

import datetime
import random
import time
from datetime import timedelta
from typing import Any

HOURS, DAYS, RARELY = 48.0, 500.0, 0.1


def install() -> None:
    """Replace the clock, before any module has taken it."""
    chance, present, moments = random.Random(), time.time, datetime.datetime

    def seconds() -> float:
        far = chance.random() < RARELY
        return chance.uniform(-1.0, 1.0) * (24 * DAYS if far else HOURS) * 3600

    class Kind(type):
        """What others make is a moment too."""

        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, moments)

        def __subclasscheck__(cls, other: type) -> bool:
            return issubclass(other, moments)

    class Jumping(moments, metaclass=Kind):
        @classmethod
        def now(cls, tz: datetime.tzinfo | None = None) -> datetime.datetime:
            return moments.now(tz) + timedelta(seconds=seconds())

    time.time = lambda: present() + seconds()
    time.time_ns = lambda: int(time.time() * 1e9)
    datetime.datetime = Jumping  # type: ignore[misc]
