"""Models and algorithms that other distributions bring, by name and version.

A plugin runs code on every party's machine and is part of what parties agree on: the study's hash
names it with its version, and a party's policy lists the plugins that it allows.
"""

from collections.abc import Iterator
from functools import lru_cache
from importlib import metadata

GROUPS = ("unisono.models", "unisono.algorithms")


@lru_cache(maxsize=1)
def _brought() -> dict[str, tuple[str, str]]:
    """Distribution and version by the name of each model and algorithm that is not ours."""
    found = {}
    for group in GROUPS:
        for entry in metadata.entry_points(group=group):
            if entry.dist is not None:
                found[entry.name] = (entry.dist.name, entry.dist.version)
    return found


def plugins_of(*names: str) -> Iterator[tuple[str, str]]:
    """The distributions, with versions, that bring any of these models or algorithms."""
    yield from sorted({_brought()[name] for name in names if name in _brought()})
