"""`roster.toml`: the cards of all parties in the order of the study, the same file at everybody.

Whoever exchanges a key in it changes the roster's hash, and with it the session: the others notice
at the first message. Parties compare the roster's fingerprint, or each other's, over the phone
before the first study; nothing else tells them that a key is the right one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from unisono.errors import InvalidInput
from unisono.secagg.roster import Roster
from unisono.studies import source
from unisono.studies.keys import Card, card_faults, fingerprint
from unisono.studies.schema import StudyFile
from unisono.studies.source import Fault, Section


class RosterFile(Section):
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

    def require_parties_of(self, file: StudyFile) -> None:
        """Refuse a roster whose parties are not the study's, in the study's order."""
        if self.roster.names != file.names:
            raise InvalidInput(
                f"the roster names {', '.join(self.roster.names)}, and the study "
                f"{', '.join(file.names)}: make the roster from the same parties, in the same order"
            )


def make_roster(cards: Sequence[Card], path: str | Path) -> Members:
    """Write the roster of these cards; refuses duplicates and an existing file."""
    members = _members(cards)
    entries = "\n".join(f"[[parties]]\n{card.to_toml()}" for card in cards)
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
    roster = Roster(tuple(c.name for c in cards), tuple(c.signing_key for c in cards))
    return Members(roster, tuple(card.node_key for card in cards))


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
