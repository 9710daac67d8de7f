"""Models and algorithms that other distributions bring.

A plugin is an installed distribution with an entry point `unisono.models` or `unisono.algorithms`
whose name is the entry's own name and whose value is the entry. It runs code on every party's
machine, so it is part of what parties agree on: a study's hash names it with its version, and a
party's policy lists the plugins that it allows. Bounds, samplers, noise laws and events cannot be
brought: they carry the proofs.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from importlib import metadata
from types import MappingProxyType
from typing import Any, TypeVar

from unisono.errors import InvalidInput

Kind = TypeVar("Kind")
_GROUPS = ("unisono.models", "unisono.algorithms")
_UNKNOWN = "an unknown distribution"


def with_plugins(own: Iterable[Kind], group: str) -> Mapping[str, Kind]:
    """Our entries by their names, and those of plugins; no name is taken twice."""
    entries: list[Any] = list(own)
    found: dict[str, Any] = {kind.name: kind for kind in entries}
    wanted = type(entries[0])
    for entry in metadata.entry_points(group=group):
        kind = entry.load()
        if not isinstance(kind, wanted) or kind.name in found or kind.name != entry.name:
            raise InvalidInput(
                f"the plugin {entry.value!r} brings no new {wanted.__name__} called "
                f"{entry.name!r}: its entry point must be named like what it brings, and no name "
                "may be taken twice; uninstall it, or tell its author"
            )
        found[kind.name] = kind
    return MappingProxyType(found)


@lru_cache(maxsize=1)
def _brought() -> dict[tuple[str, str], tuple[str, str]]:
    """Distribution and version by the group and name of each entry that is not ours: a model and an
    algorithm of one name may come from two of them."""
    return {
        (group, entry.name): (entry.dist.name, entry.dist.version) if entry.dist else (_UNKNOWN, "")
        for group in _GROUPS
        for entry in metadata.entry_points(group=group)
    }


def plugins_of(model: str, *algorithms: str) -> Iterator[tuple[str, str]]:
    """The distributions, with versions, that bring this model or one of these algorithms."""
    models, others = _GROUPS
    keys = [(models, model), *((others, algorithm) for algorithm in algorithms)]
    yield from sorted({_brought()[key] for key in keys if key in _brought()})
