"""A party's side of the secure sum, as functions from one state to the next.

The protocol follows Bonawitz et al. (2017) in the version against a lying server, with the ring
of neighbours of Bell et al. (2020). One attempt at one round of one session goes

    announce -> Announced   two one-time X25519 keys, signed
    deal     -> Dealt       shares of the mask key and of the self-mask's seed, sealed for each
                            neighbour; a signature over everybody's keys
    accept   -> Accepted    nothing is sent: all dealers signed the same keys
    mask     -> Sent        the vector under all masks, and a signature over the question
    agree    -> Agreed      a signature over question and set of survivors, each of whom signed
                            that it answered this very question
    unmask   -> done        shares of survivors' self-masks and of dropouts' mask keys, if the
                            minimum of parties signed the same question and set of survivors

Each step checks what the server passes on with the party's own roster, minimum and session. A step
takes the state that the step before returned, and whoever holds the states uses each once: no
message can be had twice. An attempt may be begun anew before its vector was sent, with fresh keys:
every later signature covers the keys, so nothing of the old beginning fits the new one. Nothing
here draws entropy, reads a clock or sends anything.

All were asked alike. A server that asks one party at the model, and all others where they have
nothing to say, would unmask the one's vector (model inconsistency, Pasquini et al. 2022). So
`question` is a digest of all that an answer depends on besides own records and own noise: session
(with version, protocol and results of earlier stages), round, attempt, public state, and which
answers counted in which earlier questions (`engines.distributed.questions`). Party i computes its
own q_i from what it was asked, and from nothing that the server says about q_i. It enters

    self-mask of i       stream of HKDF(b_i, attempt, i, q_i)           b_i is shared by Shamir
    mask of i and j      stream of HKDF(X25519(i, j), attempt, i, j, q_i)   so are mask keys
    what i signs         (attempt, i, dealers, q_i), and later (attempt, dealers, q_i, survivors)

Let n parties, c colluders, minimum s with 2 s > n + c, and threshold τ > c (`neighbours`).

1. An honest party j reveals shares for a set S only if every member of S signed q_j with its
   vector, and s parties signed (q_j, S). Honest parties sign one question and one set, so that by
   2 s > n + c one pair (q, S) at most is signed by s parties. Hence all honest members of S, at
   least s - c, were asked q, and whatever is unmasked is a sum over all of them.
2. An honest party d outside of S, whether it dropped out or is only said to have, may have been
   asked anything. Honest holders reveal its mask key and never b_d, of which c < τ shares tell
   nothing: the stream of b_d keeps its vector uniform under every question.
3. Secrets that are revealed would give masks under other questions too. No vector carries those:
   a party masks one vector in an attempt, with keys of this attempt, under one question. Where a
   mask key of d comes to light, the masks that it shares with survivors were to be removed anyway,
   and its own vector keeps the stream of b_d.
4. Even without signatures (1), the mask that honest i shares with honest j is a stream that nobody
   else knows, and under q_i != q_j it occurs once: nothing cancels it, and the vectors of both stay
   uniform, unless the holders of one of the two give its mask key away, which they do for
   dropouts only.

So a server is left with sums over at least s - c honest parties who were all asked alike. It may
still choose what all are asked, and whom it calls a dropout.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from unisono.core.grant import derive
from unisono.core.values import Share
from unisono.errors import DishonestServer, GrantMisused, InvalidInput, PrivacyViolation
from unisono.secagg import masks, shamir
from unisono.secagg.encoding import encode
from unisono.secagg.roster import KEY_BYTES, Identity, digest, framed
from unisono.secagg.session import Session

SECRET_BYTES = 32
BOX_BYTES = 2 * shamir.SHARE_BYTES + 16
# The key of a box serves for one message, so its nonce may be constant.
_NONCE = bytes(12)


class BadBox(PrivacyViolation):
    """A dealer's shares cannot be opened: one of the two is lying."""

    def __init__(self, dealer: int, message: str) -> None:
        super().__init__(message)
        self.dealer = dealer


class AskedDifferently(DishonestServer):
    """Somebody among the survivors answered another question than this party."""


class Announcement(NamedTuple):
    """Public mask key and box key, one after the other, and a signature."""

    keys: bytes
    signature: bytes


class Deal(NamedTuple):
    """A commitment to the self-mask and a signature over all keys; a sealed box per neighbour."""

    commitment: bytes
    signature: bytes
    boxes: Mapping[int, bytes]


@dataclass(frozen=True, repr=False)
class Announced:
    session: Session
    identity: Identity
    party: int
    attempt: bytes
    secret: bytes
    announcement: Announcement


@dataclass(frozen=True, repr=False)
class Dealt:
    before: Announced
    table: Mapping[int, bytes]  # everybody's keys
    table_digest: bytes
    self_seed: bytes
    own_shares: tuple[bytes, bytes]
    # With each neighbour: what the seed of the common mask and the keys of boxes are derived from.
    pair_secrets: Mapping[int, bytes]
    box_secrets: Mapping[int, bytes]


@dataclass(frozen=True, repr=False)
class Accepted:
    before: Dealt
    dealers: tuple[int, ...]
    dealers_digest: bytes
    partners: tuple[int, ...]
    held: Mapping[int, tuple[bytes, bytes]]  # shares of (mask key, self-mask) of each partner


@dataclass(frozen=True, repr=False)
class Sent:
    before: Announced
    dealers: tuple[int, ...]
    dealers_digest: bytes
    question: bytes
    held: Mapping[int, tuple[bytes, bytes]]


@dataclass(frozen=True, repr=False)
class Agreed:
    before: Sent
    survivors: tuple[int, ...]
    statement: bytes


# ------------------------------------------------------------------- steps


def announce(
    session: Session, identity: Identity, party: int, round_number: int, attempt: int, secret: bytes
) -> tuple[Announced, Announcement]:
    """Begin an attempt with 32 fresh secret bytes, from which all of its keys follow."""
    if len(secret) != SECRET_BYTES:
        raise InvalidInput(f"a secret of {len(secret)} bytes: give {SECRET_BYTES} random ones")
    if session.roster.keys[party] != identity.public:
        raise PrivacyViolation(f"{identity.name} does not hold the key of party {party}")
    name = session.attempt(round_number, attempt)
    keys = b"".join(masks.public_key(derive(secret, label)) for label in ("mask", "box"))
    announcement = Announcement(keys, identity.sign(announced(name, party, keys)))
    return Announced(session, identity, party, name, secret, announcement), announcement


def deal(state: Announced, announcements: Mapping[int, Announcement]) -> tuple[Dealt, Deal]:
    """Share one's secrets with one's neighbours among those who announced keys."""
    session, party, attempt = state.session, state.party, state.attempt
    _require_set(session, announcements, party, "announced keys")
    if announcements[party] != state.announcement:
        raise PrivacyViolation("the server passes on another key than this party announced")
    for other, (keys, signature) in announcements.items():
        _require_signed(session, other, signature, announced(attempt, other, keys), "its keys")
    pair_secrets, box_secrets = _agreements(state, announcements)
    table = {other: announcements[other].keys for other in sorted(announcements)}
    table_digest = digest_of_table(attempt, table)
    self_seed = derive(state.secret, "self-mask")
    holders = [holder for holder in session.holders(party) if holder in table]
    if len(holders) < session.threshold:
        raise PrivacyViolation(
            f"{len(holders)} holders of shares where {session.threshold} open a secret: too few"
        )
    shares = [
        shamir.split(
            secret,
            holders,
            session.threshold,
            masks.stream(derive(state.secret, label), shamir.randomness(session.threshold)),
        )
        for secret, label in (
            (derive(state.secret, "mask"), "shares of the mask key"),
            (self_seed, "shares of the self-mask"),
        )
    ]
    boxes = {
        other: _box(attempt, party, other, box_secrets[other]).encrypt(
            _NONCE, shares[0][other] + shares[1][other], table_digest
        )
        for other in holders
        if other != party
    }
    commitment = digest("self-mask", attempt, party, self_seed)
    signature = state.identity.sign(dealt(attempt, party, table_digest, commitment))
    own = shares[0][party], shares[1][party]
    after = Dealt(state, table, table_digest, self_seed, own, pair_secrets, box_secrets)
    return after, Deal(commitment, signature, boxes)


def accept(state: Dealt, deals: Mapping[int, Deal]) -> Accepted:
    """Check that all dealers signed the same keys, and open the boxes meant for this party.

    Of each deal only the box for this party is needed. Nothing is read or paid for before this.
    """
    before = state.before
    session, party, attempt = before.session, before.party, before.attempt
    _require_set(session, deals, party, "dealt shares")
    if not set(deals) <= set(state.table):
        raise PrivacyViolation("a dealer of shares who has not announced keys")
    for other, one in deals.items():
        statement = dealt(attempt, other, state.table_digest, one.commitment)
        _require_signed(session, other, one.signature, statement, "the keys of all")
    partners = tuple(other for other in session.neighbours(party) if other in deals)
    held = {other: _opened(state, other, deals[other]) for other in partners}
    held[party] = state.own_shares
    dealers_digest = digest_of_dealers(state.table_digest, deals)
    return Accepted(state, tuple(sorted(deals)), dealers_digest, partners, held)


def mask(state: Accepted, share: Share, question: bytes) -> tuple[Sent, np.ndarray, bytes]:
    """The vector under its self-mask and the masks of all pairs, and a signature that tells the
    others which question it answers; the vector itself is signed with the message that carries it.
    `question` is this party's own digest of what it was asked."""
    if not isinstance(share, Share):
        raise GrantMisused(f"only noised shares are masked, not a {type(share).__name__}")
    first = state.before.before
    party, attempt = first.party, first.attempt
    total = encode(share.value, first.session.bits).ravel()
    secrets = state.before.pair_secrets
    pairs = [
        (pair_seed_of(attempt, party, other, secrets[other], question), other - party)
        for other in state.partners
    ]
    own = self_mask(attempt, party, state.before.self_seed, question)
    masks.add_all(total, [(own, 1), *pairs])
    signature = first.identity.sign(sent(attempt, party, state.dealers_digest, question))
    after = Sent(first, state.dealers, state.dealers_digest, question, state.held)
    return after, total, signature


def agree(state: Sent, survivors: Mapping[int, bytes]) -> tuple[Agreed, bytes]:
    """Sign the set of survivors, once, if it is large enough and each has signed that it answered
    the question that this party was asked.

    An honest server passes on only such signatures, so that any other is reason to stop.
    """
    before = state.before
    _require_set(before.session, survivors, before.party, "sent vectors")
    if not set(survivors) <= set(state.dealers):
        raise PrivacyViolation("a survivor who has dealt no shares")
    for other, signature in survivors.items():
        statement = sent(before.attempt, other, state.dealers_digest, state.question)
        what = (
            "its vector as an answer to the question that this party was asked (the server asked "
            "parties differently)"
        )
        _require_signed(before.session, other, signature, statement, what, AskedDifferently)
    chosen = tuple(sorted(survivors))
    statement = agreed(before.attempt, state.dealers_digest, state.question, chosen)
    return Agreed(state, chosen, statement), before.identity.sign(statement)


def unmask(state: Agreed, signatures: Mapping[int, bytes]) -> dict[int, bytes]:
    """One share of each neighbour's secret: the self-mask of survivors, the mask key of dropouts.

    Never both: survivors and dropouts are those who dealt, divided by the one set that was signed.
    """
    sender = state.before
    session = sender.before.session
    _require_set(session, signatures, None, "signed the set of survivors")
    if not set(signatures) <= set(state.survivors):
        raise PrivacyViolation("a set of survivors signed by someone who is not among them")
    for other, signature in signatures.items():
        _require_signed(session, other, signature, state.statement, "this set of survivors")
    alive = set(state.survivors)
    return {other: pair[1] if other in alive else pair[0] for other, pair in sender.held.items()}


# -------------------------------------------------------- what is signed


def announced(attempt: bytes, party: int, keys: bytes) -> bytes:
    return digest("announce", attempt, party, keys)


def dealt(attempt: bytes, party: int, table: bytes, commitment: bytes) -> bytes:
    return digest("deal", attempt, party, table, commitment)


def sent(attempt: bytes, party: int, dealers: bytes, question: bytes) -> bytes:
    return digest("masked", attempt, party, dealers, question)


def agreed(attempt: bytes, dealers: bytes, question: bytes, survivors: Sequence[int]) -> bytes:
    return digest("survivors", attempt, dealers, question, *survivors)


def digest_of_table(attempt: bytes, table: Mapping[int, bytes]) -> bytes:
    rows = [framed(party, table[party]) for party in sorted(table)]
    return digest("keys", attempt, *rows)


def digest_of_dealers(table: bytes, deals: Mapping[int, Deal]) -> bytes:
    rows = [framed(party, deals[party].commitment) for party in sorted(deals)]
    return digest("dealers", table, *rows)


# ------------------------------------------------------------------- keys


def mask_key(keys: bytes) -> bytes:
    return keys[:KEY_BYTES]


def box_key(keys: bytes) -> bytes:
    return keys[KEY_BYTES:]


def pair_seed(
    attempt: bytes, party: int, other: int, secret: bytes, public: bytes, question: bytes
) -> bytes:
    """The seed that two parties share in one attempt, if both were asked this question."""
    agreed = masks.exchanged(masks.private_key(secret), public)
    return pair_seed_of(attempt, party, other, agreed, question)


def pair_seed_of(attempt: bytes, party: int, other: int, agreed: bytes, question: bytes) -> bytes:
    """The same, from what their two mask keys agree on."""
    low, high = sorted((party, other))
    return masks.derived(agreed, digest("pair", attempt, low, high, question))


def self_mask(attempt: bytes, party: int, secret: bytes, question: bytes) -> bytes:
    """The seed of a party's own mask, from the secret that it has shared."""
    return masks.derived(secret, digest("own mask", attempt, party, question))


def _agreements(
    state: Announced, announcements: Mapping[int, Announcement]
) -> tuple[dict[int, bytes], dict[int, bytes]]:
    """With each neighbour who announced keys: what the seed of the common mask, and what the keys
    of both boxes between the two are derived from. Each agreement is made once in an attempt: there
    are as many as parties, and they are most of its cost."""
    session, party = state.session, state.party
    mask, box = (masks.private_key(derive(state.secret, label)) for label in ("mask", "box"))
    pairs, boxes = {}, {}
    for other in session.neighbours(party):
        if other not in announcements:
            continue
        keys = announcements[other].keys
        try:
            pairs[other] = masks.exchanged(mask, mask_key(keys))
            boxes[other] = masks.exchanged(box, box_key(keys))
        except ValueError:
            name = session.roster.names[other]
            raise PrivacyViolation(f"{name} announced a key of no use") from None
    return pairs, boxes


def _box(attempt: bytes, sender: int, receiver: int, agreed: bytes) -> ChaCha20Poly1305:
    """The box for one message from one party to another, by what the two have agreed on."""
    return ChaCha20Poly1305(masks.derived(agreed, digest("box", attempt, sender, receiver)))


def _opened(state: Dealt, dealer: int, deal: Deal) -> tuple[bytes, bytes]:
    """The two shares in the box that a dealer sent to this party."""
    party = state.before.party
    name = state.before.session.roster.names[dealer]
    if party not in deal.boxes:
        raise BadBox(dealer, f"no shares of {name} arrived")
    box = _box(state.before.attempt, dealer, party, state.box_secrets[dealer])
    try:
        content = box.decrypt(_NONCE, deal.boxes[party], state.table_digest)
    except InvalidTag:
        raise BadBox(dealer, f"the shares of {name} were changed on the way") from None
    return content[: shamir.SHARE_BYTES], content[shamir.SHARE_BYTES :]


# ------------------------------------------------------------------ checks


def _require_set(session: Session, named: Mapping[int, object], own: int | None, did: str) -> None:
    """Known parties, at least this party's own minimum of them, and itself among them."""
    if any(not 0 <= party < session.parties for party in named):
        raise PrivacyViolation("the server names a party that is not in the roster")
    if len(named) < session.minimum:
        raise PrivacyViolation(
            f"{len(named)} parties {did}, this party answers to at least {session.minimum}"
        )
    if own is not None and own not in named:
        raise PrivacyViolation(f"the server leaves this party out of those who {did}")


def _require_signed(
    session: Session,
    party: int,
    signature: bytes,
    message: bytes,
    what: str,
    error: type[PrivacyViolation] = PrivacyViolation,
) -> None:
    if not session.roster.verify(party, signature, message):
        raise error(f"{session.roster.names[party]} has not signed {what}: refused")
