"""A server that guesses secrets and substitutes keys: each attack and its control.

In every control one check is taken away, and the attack works.
"""

import random

import numpy as np
import pytest

from unisono.core.grant import derive
from unisono.errors import InvalidInput, PrivacyViolation
from unisono.secagg import masks, party, server
from unisono.secagg.roster import digest

from .adversary import Adversary
from .harness import QUESTION, crowd, share

VECTORS = {i: np.array([1000 + i, -(7**i)]) for i in range(6)}
LOW_ORDER = [
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0100000000000000000000000000000000000000000000000000000000000000",
    "e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800",
    "5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
]


@pytest.fixture
def no_signatures(monkeypatch):
    """Parties that believe everything is signed."""
    monkeypatch.setattr(party, "_require_signed", lambda *_: None)


# ----------------------------------------------------------------- guessing


def guessed(session, announcement, candidates):
    """The secret whose keys were announced, if it is among the candidates."""
    for secret in candidates:
        keys = b"".join(masks.public_key(derive(secret, label)) for label in ("mask", "box"))
        if keys == announcement.keys:
            return secret
    return None


def small_secrets():
    """All that a generator with 10 bits of state can give."""
    return [random.Random(seed).randbytes(32) for seed in range(2**10)]


def test_brute_forcing_the_mask_seed():
    """Keys follow from 32 secret bytes and nothing smaller: reseeding every generator of the
    process changes nothing, and each of the 256 bits changes both keys and the self-mask."""
    people = crowd(3)

    def keys(secret):
        state, message = party.announce(people.session, people.identities[0], 0, 0, 0, secret)
        return message.keys[:32], message.keys[32:], derive(state.secret, "self-mask")

    base = bytes(range(32))
    random.seed(1)
    np.random.seed(1)
    first = keys(base)
    random.seed(2)
    np.random.seed(2)
    assert keys(base) == first
    found = {first}
    for bit in range(256):
        flipped = (int.from_bytes(base, "big") ^ 1 << bit).to_bytes(32, "big")
        found.add(keys(flipped))
    for column in zip(*found, strict=True):
        assert len(set(column)) == 257
    fresh = party.announce(people.session, people.identities[0], 0, 0, 0, digest("not small"))
    assert guessed(people.session, fresh[1], small_secrets()) is None


def test_a_small_seed_would_be_found():
    people = crowd(3)
    weak = random.Random(777).randbytes(32)
    _, announcement = party.announce(people.session, people.identities[0], 0, 0, 0, weak)
    assert guessed(people.session, announcement, small_secrets()) == weak


@pytest.mark.parametrize("secret", [b"", b"few", bytes(31)])
def test_a_short_secret_is_refused(secret):
    people = crowd(3)
    with pytest.raises(InvalidInput):
        party.announce(people.session, people.identities[0], 0, 0, 0, secret)


# ------------------------------------------------------------- substitution


def victims_vector(people):
    """The server shows party 0 keys of its own in place of everybody else's, reads the shares that
    party 0 deals, and takes its masks off."""
    session, place = people.session, people.session.attempt(0, 0)
    own = {i: digest("the server's secret", i) for i in range(1, session.parties)}
    fake = {}
    for i, secret in own.items():
        keys = b"".join(masks.public_key(derive(secret, label)) for label in ("mask", "box"))
        fake[i] = party.Announcement(keys, bytes(64))
    state, message = people.announce(0)
    dealt, deal = party.deal(state, {0: message, **fake})
    table = dealt.table
    seen = Adversary(session, place)
    agreed = {
        i: masks.exchanged(masks.private_key(derive(secret, "box")), party.box_key(table[0]))
        for i, secret in own.items()
    }
    for i, secret in own.items():
        box = party._box(place, 0, i, agreed[i])
        content = box.decrypt(bytes(12), deal.boxes[i], dealt.table_digest)
        seen.corrupts(i, {0: (content[:33], content[33:])}, secret)
    boxes = {}
    for i in own:
        box = party._box(place, i, 0, agreed[i])
        sealed = box.encrypt(bytes(12), bytes(66), dealt.table_digest)
        boxes[i] = party.Deal(bytes(32), bytes(64), {0: sealed})
    accepted = party.accept(dealt, {0: deal, **boxes})
    _, vector, _ = party.mask(accepted, share(VECTORS[0]), QUESTION)
    partners = {0: session.neighbours(0)}
    return seen.sums({0: vector}, {0: table}, partners, {0: deal.commitment})


def test_substituting_keys():
    with pytest.raises(PrivacyViolation, match="has not signed its keys"):
        victims_vector(crowd(5))


def test_substituted_keys_would_show_the_vector(no_signatures):
    sums = victims_vector(crowd(5))
    assert sums[frozenset({0})].tolist() == VECTORS[0].tolist()


def test_the_own_key_substituted():
    people = crowd(3)
    state, _ = people.announce(0)
    other = people.announce(0, salt=b"another beginning")[1]
    keys = {i: people.announce(i)[1] for i in (1, 2)}
    with pytest.raises(PrivacyViolation, match="another key than this party announced"):
        party.deal(state, {0: other, **keys})


@pytest.mark.parametrize("point", LOW_ORDER)
@pytest.mark.parametrize("half", [0, 1])
def test_points_of_low_order(point, half):
    """An agreement with them is known to everybody. The server leaves their owner out; a party
    that is shown them anyway raises before anything is masked with a known seed."""
    people = crowd(4, 3)
    announced = {i: people.announce(i) for i in range(4)}
    keys = announced[3][1].keys
    bad = bytes.fromhex(point) + keys[32:] if half == 0 else keys[:32] + bytes.fromhex(point)
    statement = party.announced(people.session.attempt(0, 0), 3, bad)
    forged = party.Announcement(bad, people.identities[3].sign(statement))
    shown = {i: message for i, (_, message) in announced.items()} | {3: forged}
    assert set(server.collect_keys(people.session, 0, 0, shown).keys) == {0, 1, 2}
    assert not masks.is_usable(bytes.fromhex(point))
    with pytest.raises(ValueError, match="shared"):
        masks.shared(bytes([7]) * 32, bytes.fromhex(point), b"")


def test_a_party_refuses_a_mask_key_of_low_order_before_it_deals():
    """A colluder's signed key that a lying server does not leave out."""
    people = crowd(4, 3)
    announced = {i: people.announce(i) for i in range(4)}
    bad = bytes(32) + announced[3][1].keys[32:]
    statement = party.announced(people.session.attempt(0, 0), 3, bad)
    forged = party.Announcement(bad, people.identities[3].sign(statement))
    shown = {i: message for i, (_, message) in announced.items()} | {3: forged}
    with pytest.raises(PrivacyViolation):
        party.deal(announced[0][0], shown)


def test_a_point_of_low_order_would_give_everybody_the_seed(monkeypatch):
    """The control: X25519 without the check for a zero result gives all the same seed."""
    published = masks.HKDF(masks.SHA256(), length=32, salt=None, info=b"").derive(bytes(32))

    class Unchecked:
        @staticmethod
        def from_private_bytes(secret):
            return Unchecked()

        def exchange(self, other):
            return bytes(32)

    monkeypatch.setattr(masks, "X25519PrivateKey", Unchecked)
    point = bytes.fromhex(LOW_ORDER[0])
    assert masks.shared(bytes([7]) * 32, point, b"") == published
    assert masks.shared(bytes([8]) * 32, point, b"") == published
