"""The server's side of the secure sum: it passes messages on, and opens one sum per attempt.

Each function takes what parties sent in one step, leaves out what is malformed or not signed (its
sender counts as a dropout), and refuses to go on with fewer than the minimum. A server that keeps
to this learns the sum of the survivors' vectors, and so does one that does not.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np

from unisono.errors import UnisonoError
from unisono.secagg import masks, shamir
from unisono.secagg.encoding import signed, word
from unisono.secagg.party import (
    Announcement,
    Deal,
    agreed,
    announced,
    box_key,
    dealt,
    digest_of_dealers,
    digest_of_table,
    mask_key,
    pair_seed_of,
    self_mask,
    sent,
)
from unisono.secagg.roster import KEY_BYTES, digest
from unisono.secagg.session import Session

T = TypeVar("T")


class TooFew(UnisonoError):
    """An attempt that keeps too few parties: it is not opened."""


@dataclass(frozen=True)
class ShareTable:
    """Who announced which keys."""

    session: Session
    attempt: bytes
    announcements: Mapping[int, Announcement]

    @cached_property
    def keys(self) -> Mapping[int, bytes]:
        return {party: one.keys for party, one in self.announcements.items()}

    @cached_property
    def digest(self) -> bytes:
        return digest_of_table(self.attempt, self.keys)


@dataclass(frozen=True)
class Dealers:
    """Who dealt shares of its secrets."""

    table: ShareTable
    deals: Mapping[int, Deal]

    @cached_property
    def digest(self) -> bytes:
        return digest_of_dealers(self.table.digest, self.deals)

    @cached_property
    def boxes(self) -> Mapping[int, Mapping[int, bytes]]:
        """The boxes for each receiver, by dealer."""
        found: dict[int, dict[int, bytes]] = {}
        for dealer, deal in self.deals.items():
            for receiver, box in deal.boxes.items():
                found.setdefault(receiver, {})[dealer] = box
        return found

    def for_party(self, party: int) -> dict[int, Deal]:
        """What one party is shown: all signatures, and the boxes meant for it."""
        own = self.boxes.get(party, {})
        return {
            other: deal._replace(boxes={party: own[other]} if other in own else {})
            for other, deal in self.deals.items()
        }


@dataclass(frozen=True)
class Survivors:
    """Whose vectors are in the sum, which question they answer, and the sum under its masks."""

    dealers: Dealers
    question: bytes
    signatures: Mapping[int, bytes]
    masked: np.ndarray

    @property
    def statement(self) -> bytes:
        attempt, chosen = self.dealers.table.attempt, sorted(self.signatures)
        return agreed(attempt, self.dealers.digest, self.question, chosen)


def collect_keys(
    session: Session, round_number: int, attempt: int, announcements: Mapping[int, Announcement]
) -> ShareTable:
    """The keys of all who announced properly; keys that can share nothing are left out."""
    name = session.attempt(round_number, attempt)
    fine = {
        party: one
        for party, one in sorted(announcements.items())
        if len(one.keys) == 2 * KEY_BYTES
        and session.roster.verify(party, one.signature, announced(name, party, one.keys))
        and all(masks.is_usable(key) for key in (mask_key(one.keys), box_key(one.keys)))
    }
    return ShareTable(session, name, _enough(session, fine, "announced keys"))


def collect_deals(table: ShareTable, deals: Mapping[int, Deal]) -> Dealers:
    """Those who dealt shares and signed these keys."""
    session, expected = table.session, table.digest
    fine = {
        party: one
        for party, one in sorted(deals.items())
        if party in table.keys
        and session.roster.verify(
            party, one.signature, dealt(table.attempt, party, expected, one.commitment)
        )
    }
    return Dealers(table, _enough(session, fine, "dealt shares"))


def collect_vectors(
    dealers: Dealers, vectors: Mapping[int, tuple[np.ndarray, bytes]], question: bytes
) -> Survivors:
    """Add up the masked vectors of all who signed that they answer this question."""
    table, expected = dealers.table, dealers.digest
    fine: dict[int, bytes] = {}
    total: np.ndarray | None = None
    sizes = Counter(vector.size for vector, _ in vectors.values())
    kind = (word(table.session.bits), max(sizes, key=lambda size: sizes[size], default=0))
    for party, (vector, signature) in sorted(vectors.items()):
        flat = vector.ravel()
        if (flat.dtype, flat.size) != kind:
            continue
        statement = sent(table.attempt, party, expected, question)
        if party not in dealers.deals or not table.session.roster.verify(
            party, signature, statement
        ):
            continue
        total = flat.copy() if total is None else np.add(total, flat, out=total)
        fine[party] = signature
    _enough(table.session, fine, "sent vectors")
    assert total is not None
    return Survivors(dealers, question, fine, total)


def collect_signatures(survivors: Survivors, signatures: Mapping[int, bytes]) -> dict[int, bytes]:
    """As many valid signatures over the survivors as are needed."""
    session, statement = survivors.dealers.table.session, survivors.statement
    fine = {
        party: one
        for party, one in sorted(signatures.items())
        if party in survivors.signatures and session.roster.verify(party, one, statement)
    }
    return _enough(session, fine, "signed the set of survivors")


def open_sum(survivors: Survivors, shares: Mapping[int, Mapping[int, bytes]]) -> np.ndarray:
    """The signed sum of the survivors' vectors; `shares[holder][party]` is what parties sent."""
    dealers, table = survivors.dealers, survivors.dealers.table
    session, attempt = table.session, table.attempt
    total, found = survivors.masked.copy(), []
    for party, deal in dealers.deals.items():
        holders = [h for h in session.holders(party) if h in survivors.signatures]
        held = {h: shares[h][party] for h in holders if party in shares.get(h, ())}
        for secret in _candidates(held, session.threshold):
            if party in survivors.signatures:
                if digest("self-mask", attempt, party, secret) == deal.commitment:
                    found.append((self_mask(attempt, party, secret, survivors.question), -1))
                    break
            elif masks.public_key(secret) == mask_key(table.keys[party]):
                found += _left_behind(survivors, party, secret)
                break
        else:
            raise TooFew(
                f"{len(held)} shares do not open the secret of {session.roster.names[party]}: "
                f"{session.threshold} good ones are needed"
            )
    masks.add_all(total, found)
    return signed(total, session.bits)


def _left_behind(survivors: Survivors, dropout: int, secret: bytes) -> list[tuple[bytes, int]]:
    """What takes back the masks that survivors share with a dropout."""
    table, own = survivors.dealers.table, masks.private_key(secret)
    found = []
    for other in table.session.neighbours(dropout):
        if other in survivors.signatures:
            agreement = masks.exchanged(own, mask_key(table.keys[other]))
            seed = pair_seed_of(table.attempt, dropout, other, agreement, survivors.question)
            found.append((seed, other - dropout))
    return found


def _candidates(held: Mapping[int, bytes], threshold: int) -> Iterator[bytes]:
    """Secrets that these shares may mean: the first holders', then without each in turn.

    One party that answers with a wrong share is so left out, if enough others answered.
    """
    holders = sorted(held)
    if len(holders) < threshold:
        return
    liars: list[int | None] = [None, *holders[:threshold]] if len(holders) > threshold else [None]
    for liar in liars:
        subset = [holder for holder in holders if holder != liar][:threshold]
        secret = shamir.join({holder: held[holder] for holder in subset})
        if secret is not None:
            yield secret


def _enough(session: Session, found: dict[int, T], did: str) -> dict[int, T]:
    if len(found) < session.minimum:
        raise TooFew(
            f"{len(found)} of {session.parties} parties {did}, at least {session.minimum} are "
            "needed before a sum may be opened"
        )
    return found
