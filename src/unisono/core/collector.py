"""Python's garbage collector, where very many objects are made that are all kept."""

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Without automatic garbage collection: a hundred thousand new grants are all kept, and walking
    through everything that lives, again and again as they grow, takes longer than making them."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


__all__ = ["collector_paused"]
