"""Who is trusted, who looks on, and what is hidden from them.

Four small vocabularies that every claim of the package names: where the noise is
added (`Trust`), whose presence is hidden (`Unit`), how neighbouring data sets differ
(`Relation`) and who sees a message (`Viewer`).
"""

from enum import StrEnum
from typing import TypeVar

from unisono.errors import InvalidInput

Term = TypeVar("Term", bound=StrEnum)


def named(kind: type[Term], what: str, name: str) -> Term:
    """The term of this name: equal to it, and also the same, which is what code asks for.

    >>> named(Trust, "trust", "local") is Trust.LOCAL
    True
    """
    try:
        return kind(name)
    except ValueError:
        raise InvalidInput(f"{what} = {name!r}: choose one of {', '.join(kind)}") from None


class Trust(StrEnum):
    """Where the noise is added, which decides what the server learns."""

    LOCAL = "local"  # every party adds all of the noise itself
    SECURE_SUM = "secure-sum"  # every party adds a share; only the noisy sum is opened
    TRUSTED_SERVER = "trusted-server"  # the server sees clean values and adds the noise


class Unit(StrEnum):
    """Whose presence is hidden."""

    RECORD = "record"
    PERSON = "person"  # all records of one person at a party
    PARTY = "party"


class Relation(StrEnum):
    """How two neighbouring data sets differ in one unit.

    `REPLACE_ONE` and `ZERO_OUT` keep sizes public; `ADD_OR_REMOVE` hides them too.
    """

    REPLACE_ONE = "replace-one"
    ZERO_OUT = "zero-out"
    ADD_OR_REMOVE = "add-or-remove"


class Viewer(str):
    """Someone who sees part of the transcript; guarantees are stated per viewer.

    >>> Viewer.colluders(3)
    'colluders:3'
    >>> Viewer("serverr")
    Traceback (most recent call last):
    unisono.errors.InvalidInput: unknown viewer 'serverr': use one of final-model, iterates, \
server, party, network, or colluders:<number>
    """

    __slots__ = ()

    def __new__(cls, name: str) -> "Viewer":
        kind, _, number = str(name).partition(":")
        if kind == "colluders" and number.isascii() and number.isdigit() and int(number) > 0:
            name = f"colluders:{int(number)}"
        elif name not in _PLAIN_VIEWERS:
            raise InvalidInput(
                f"unknown viewer {name!r}: use one of {', '.join(_PLAIN_VIEWERS)}, "
                "or colluders:<number>"
            )
        return super().__new__(cls, name)

    @classmethod
    def colluders(cls, count: int) -> "Viewer":
        """The server together with `count` parties."""
        return cls(f"colluders:{count}")

    @property
    def coalition(self) -> int:
        """How many parties work together with the server; 0 for everyone else."""
        return int(self.partition(":")[2] or 0)


_PLAIN_VIEWERS = ("final-model", "iterates", "server", "party", "network")

FINAL_MODEL = Viewer("final-model")
ITERATES = Viewer("iterates")
SERVER = Viewer("server")
PARTY = Viewer("party")
NETWORK = Viewer("network")
EVERYONE = (FINAL_MODEL, ITERATES, SERVER, PARTY, NETWORK)

VIEWER_WORDS = {
    FINAL_MODEL: "anyone who sees the final result",
    ITERATES: "anyone who sees every intermediate result",
    SERVER: "the server",
    PARTY: "another party",
    NETWORK: "an eavesdropper on the network",
}


def describe(viewer: Viewer) -> str:
    """Plain words for a viewer.

    >>> describe(Viewer.colluders(2))
    'the server and 2 parties working together'
    """
    if viewer in VIEWER_WORDS:
        return VIEWER_WORDS[viewer]
    count = viewer.coalition
    parties = "party" if count == 1 else "parties"
    return f"the server and {count} {parties} working together"
