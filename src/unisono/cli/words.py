"""Plain words for a terminal; words and numbers that reports share are in `core.words`."""

import math

from unisono.core.events import Everyone, Poisson, Sampler, WithoutReplacement
from unisono.core.trust import Relation, Unit
from unisono.core.words import (
    RELATION_WORDS,
    clean,
    clean_lines,
    controls,
    jsonable,
    number,
    one_in,
    percent,
    plain,
    promise_words,
    remaining,
    round_up,
    times,
)


def bar(share: float, width: int = 24) -> str:
    """How much of something is used up; a little is never drawn as nothing.

    >>> bar(0.5, 8), bar(0.001, 4), bar(math.inf, 4)
    ('####----', '#---', '####')
    """
    filled = width if share >= 1 else min(width - 1, math.ceil(max(share, 0.0) * width))
    return "#" * filled + "-" * (width - filled)


_UNITS = {
    Unit.RECORD: "each single record",
    Unit.PERSON: "each person with all of its records",
    Unit.PARTY: "each whole party",
}
_CHANGES = {
    Relation.REPLACE_ONE: "exchanging it for any other",
    Relation.ZERO_OUT: "blanking out its values",
    Relation.ADD_OR_REMOVE: "adding or removing it",
}


def protection_words(unit: Unit, relation: Relation) -> str:
    """What a policy hides.

    >>> protection_words(Unit.RECORD, Relation.REPLACE_ONE)
    'each single record: exchanging it for any other must hardly change what anyone sees'
    """
    return f"{_UNITS[unit]}: {_CHANGES[relation]} must hardly change what anyone sees"


def sampler_words(sampler: Sampler) -> str:
    match sampler:
        case Everyone():
            return "every record takes part"
        case Poisson(rate):
            return f"each record takes part with a secret probability of {rate:g}"
        case WithoutReplacement(size, population):
            return f"a secret subset of {size:,} out of {population:,} records takes part"


def reconstruction_words(blind: float, bound: float) -> str:
    """How often a secret is found that is sometimes found without any release."""
    return (
        f"A secret value that is found with probability {one_in(blind)} without these releases is "
        f"found with probability at most {percent(bound)} with them."
    )


__all__ = [
    "RELATION_WORDS",
    "bar",
    "clean",
    "clean_lines",
    "controls",
    "jsonable",
    "number",
    "one_in",
    "percent",
    "plain",
    "promise_words",
    "protection_words",
    "reconstruction_words",
    "remaining",
    "round_up",
    "sampler_words",
    "times",
]
