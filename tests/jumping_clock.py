"""A clock that jumps: what is repeatable does not depend on when it is made.

    UNISONO_TEST_CLOCK=jump python -m pytest tests/deployment

`time.time` and the times of run folders are then off by up to two days, now and then by more than a
year, forwards and backwards, and differently at every call. `time.monotonic` stays: no machine
sets it back.
"""

import datetime
import random
import time
from types import SimpleNamespace

HOURS, DAYS, RARELY = 48.0, 500.0, 0.1


def install() -> None:
    """Replace the clock, before any module of the package has taken it."""
    chance, present = random.Random(), time.time

    def jumping() -> float:
        hours = 24 * DAYS if chance.random() < RARELY else HOURS
        return present() + chance.uniform(-1.0, 1.0) * hours * 3600

    def now(zone: datetime.tzinfo) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(jumping(), zone)

    time.time = jumping
    time.time_ns = lambda: int(jumping() * 1e9)
    from unisono.deployment import record

    # Compiled modules know the class `datetime` by its layout: it is replaced here only.
    record.datetime = SimpleNamespace(datetime=SimpleNamespace(now=now), UTC=datetime.UTC)  # type: ignore[assignment]
