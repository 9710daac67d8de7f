"""Memory: Python's garbage collector, where very many objects are made that are all kept, and what
is free already, where large arrays follow."""

import contextlib
import ctypes
import gc
import sys
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


def return_freed_memory() -> None:
    """Hand free memory back to the system. glibc keeps what lies between arrays that live: while a
    long study is priced, 50 MB, on top of which its largest arrays would come. Elsewhere nothing
    happens."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)


__all__ = ["collector_paused", "return_freed_memory"]
