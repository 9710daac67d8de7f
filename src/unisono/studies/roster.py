"""`roster.toml`: the cards of all parties in the order of their names, the same at everybody.

Whoever exchanges a key in it changes the roster's hash, and with it the session: the others notice
at the first message. Parties compare the roster's fingerprint, or each other's, over the phone
before the first study; nothing else tells them that a key is the right one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from unisono.core.config import Config
from unisono.errors import InvalidInput
from unisono.secagg.roster import Roster
from unisono.studies import source
from unisono.studies.keys import Card, card_faults, fingerprint
from unisono.studies.schema import StudyFile
from unisono.studies.source import Fault


class RosterFile(Config):
    """The whole file: one card for each party, and the fingerprint of all of them."""

    fingerprint: str
    parties: tuple[Card, ...] = Field(min_length=1)


@dataclass(frozen=True)
class Members:
    """Who takes part: signing keys for the secure sum, node keys (OpenSSH lines) for transport."""

    roster: Roster
    node_keys: tuple[bytes, ...]

    @property
    def fingerprint(self) -> str:
        """To be compared by all parties, in words."""
        return fingerprint(self.roster.hash, b"".join(self.roster.keys), b"\n".join(self.node_keys))

    def of_study(self, file: StudyFile) -> "Members":
        """The same members in the order of a study, which numbers them; refuses other parties."""
        names = self.roster.names
        if sorted(names) != sorted(file.names):
            raise InvalidInput(
                f"the roster names {', '.join(names)}, and the study {', '.join(file.names)}: make "
                "the roster from the cards of the same parties"
            )
        order = [names.index(name) for name in file.names]
        roster = Roster(file.names, tuple(self.roster.keys[number] for number in order))
        return Members(roster, tuple(self.node_keys[number] for number in order))


def make_roster(cards: Sequence[Card], path: str | Path) -> Members:
    """Write the roster of these cards, given in any order; refuses duplicates and an existing
    file."""
    members = _members(cards)
    ordered = sorted(cards, key=lambda card: card.name)
    entries = "\n".join(f"[[parties]]\n{card.to_toml()}" for card in ordered)
    text = f'fingerprint = "{members.fingerprint}"\n\n{entries}'
    source.parse(text, str(path), RosterFile, _faults)
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise InvalidInput(
            f"{path} exists already: a roster is never overwritten; another one is another session"
        ) from None
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror}") from None
    return members


def load_roster(path: str | Path) -> Members:
    """The members that a file names, once every key and fingerprint in it is in order."""
    return _members(source.read(path, RosterFile, _faults)[0].parties)


def _members(cards: Sequence[Card]) -> Members:
    ordered = sorted(cards, key=lambda card: card.name)
    roster = Roster(tuple(c.name for c in ordered), tuple(c.signing_key for c in ordered))
    return Members(roster, tuple(card.node_key for card in ordered))


def _faults(file: RosterFile) -> Iterator[Fault]:
    broken = False
    for number, card in enumerate(file.parties):
        for place, words in card_faults(card):
            broken = True
            yield ("parties", number, *place), words
        for word in ("name", "signing", "node"):
            if getattr(card, word) in (getattr(other, word) for other in file.parties[:number]):
                broken = True
                yield ("parties", number, word), "stands twice: every party has a name and keys"
    if not broken and file.fingerprint != _members(file.parties).fingerprint:
        words = "is not that of these cards: the roster was changed; make it again from the cards"
        yield ("fingerprint",), words


__all__ = ["Members", "RosterFile", "load_roster", "make_roster"]
