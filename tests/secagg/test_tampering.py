"""Every bit of every message, flipped once.

What holds, with three parties of whom two are enough, and party 2's message changed:

* On the way to the server a changed announcement, deal (but for its boxes), vector, digest or
  signature leaves its sender out, and nobody else; the total is that of the others.
* A changed box leaves out its receiver, who cannot read it, and not its sender.
* A changed share is noticed when the secret is joined: another holder's share takes its place, or
  nothing opens if there is none.
* On the way from the server to a party a changed message makes the party refuse.

So no bit flip gives a wrong total. A party that changes its own vector before it signs can of
course change the sum: nobody else knows what its vector was.
"""

import numpy as np
import pytest

from unisono.errors import PrivacyViolation
from unisono.secagg import party, server, shamir

from .harness import QUESTION, Relay, crowd, plain_sum, run

VECTORS = {i: np.array([5 + i, -(3**i)]) for i in range(3)}


def flips(data):
    """All copies of some bytes with one bit changed."""
    number = int.from_bytes(data, "big")
    return [(number ^ 1 << bit).to_bytes(len(data), "big") for bit in range(8 * len(data))]


@pytest.fixture(scope="module")
def good():
    return run(crowd(3, 2), VECTORS)


def flipped(message):
    """All copies of an announcement, a deal or a sealed digest with one bit of a field changed."""
    for name in message._fields:
        if name != "boxes":
            for value in flips(getattr(message, name)):
                yield message._replace(**{name: value})


# ------------------------------------------------------ on the way to the server


def test_a_changed_announcement_leaves_its_sender_out(good):
    session, sent = crowd(3, 2).session, good.messages["announce"]
    tried = 0
    for message in flipped(sent[2]):
        table = server.collect_keys(session, 0, 0, {**sent, 2: message})
        assert set(table.keys) == {0, 1}
        tried += 1
    assert tried == 8 * 128


def test_a_changed_deal_leaves_its_sender_out(good):
    sent = good.messages["deal"]
    for message in flipped(sent[2]):
        assert set(server.collect_deals(good.table, {**sent, 2: message}).deals) == {0, 1}


def test_a_changed_signature_leaves_a_vector_out(good):
    """The vector itself is signed with the message that carries it (the envelope)."""
    sent = good.messages["mask"]
    vector, signature = sent[2]
    expected = server.collect_vectors(good.dealers, {i: sent[i] for i in (0, 1)}, QUESTION).masked
    for message in [(vector, one) for one in flips(signature)]:
        survivors = server.collect_vectors(good.dealers, {**sent, 2: message}, QUESTION)
        assert set(survivors.signatures) == {0, 1}
        np.testing.assert_array_equal(survivors.masked, expected)


def test_a_changed_signature_does_not_count(good):
    sent = good.messages["agree"]
    for message in flips(sent[2]):
        assert set(server.collect_signatures(good.survivors, {**sent, 2: message})) == {0, 1}


def test_a_changed_share_is_replaced_or_opens_nothing(good):
    """Every bit of party 2's share of every secret; with a third holder, and without."""
    sent = good.messages["unmask"]
    expected = plain_sum(VECTORS, range(3), 32)
    for owner in range(3):
        for piece in flips(sent[2][owner]):
            wrong = {**sent[2], owner: piece}
            total = server.open_sum(good.survivors, {**sent, 2: wrong})
            np.testing.assert_array_equal(total, expected)
            with pytest.raises(server.TooFew, match="do not open the secret"):
                server.open_sum(good.survivors, {0: sent[0], 2: wrong})


class Changes(Relay):
    """Changes one message of party 2, by a function."""

    def __init__(self, stage, change):
        self.stage, self.change = stage, change

    def receive(self, stage, sender, message):
        return self.change(message) if (stage, sender) == (self.stage, 2) else message


def first_bit(data):
    return bytes([data[0] ^ 128]) + data[1:]


FIELDS = {
    "keys": ("announce", lambda m: m._replace(keys=first_bit(m.keys)), [0, 1]),
    "signed keys": ("announce", lambda m: m._replace(signature=first_bit(m.signature)), [0, 1]),
    "commitment": ("deal", lambda m: m._replace(commitment=first_bit(m.commitment)), [0, 1]),
    "signed deal": ("deal", lambda m: m._replace(signature=first_bit(m.signature)), [0, 1]),
    "box": ("deal", lambda m: m._replace(boxes={**m.boxes, 0: first_bit(m.boxes[0])}), [1, 2]),
    "signed vector": ("mask", lambda m: (m[0], first_bit(m[1])), [0, 1]),
    "vote": ("agree", first_bit, [0, 1, 2]),
    "share": ("unmask", lambda m: {**m, 0: first_bit(m[0])}, [0, 1, 2]),
}


@pytest.mark.parametrize("field", FIELDS)
def test_an_attempt_with_one_changed_field_ends_with_the_right_total(field):
    stage, change, alive = FIELDS[field]
    done = run(crowd(3, 2), VECTORS, relay=Changes(stage, change))
    assert done.alive == alive
    np.testing.assert_array_equal(done.total, plain_sum(VECTORS, alive, 32))


# ------------------------------------------------------ on the way to a party


def test_a_party_refuses_changed_announcements(good):
    sent = good.messages["announce"]
    for message in flipped(sent[2]):
        with pytest.raises(PrivacyViolation, match="p2 has not signed its keys"):
            party.deal(good.states["announce"][0], {**sent, 2: message})


def test_a_party_refuses_changed_deals(good):
    state, sent = good.states["deal"][0], good.messages["deal"]
    for message in flipped(sent[2]):
        with pytest.raises(PrivacyViolation, match="p2 has not signed the keys of all"):
            party.accept(state, {**sent, 2: message})
    for box in flips(sent[2].boxes[0]):
        with pytest.raises(PrivacyViolation, match="shares of p2 were changed"):
            party.accept(state, {**sent, 2: sent[2]._replace(boxes={0: box})})
    for boxes in ({}, {1: sent[2].boxes[0]}):
        with pytest.raises(PrivacyViolation, match="no shares of p2 arrived"):
            party.accept(state, {**sent, 2: sent[2]._replace(boxes=boxes)})


def test_a_party_refuses_changed_digests(good):
    sealed = {i: one for i, (_, one) in good.messages["mask"].items()}
    for message in flips(sealed[2]):
        with pytest.raises(PrivacyViolation, match="p2 has not signed its vector"):
            party.agree(good.states["mask"][0], {**sealed, 2: message})


def test_a_party_refuses_changed_votes(good):
    sent = good.messages["agree"]
    for message in flips(sent[2]):
        with pytest.raises(PrivacyViolation, match="p2 has not signed this set"):
            party.unmask(good.states["agree"][0], {**sent, 2: message})


def test_boxes_and_shares_have_the_sizes_that_were_flipped(good):
    assert len(good.messages["deal"][2].boxes[0]) == party.BOX_BYTES
    assert len(good.messages["unmask"][2][0]) == shamir.SHARE_BYTES


# ------------------------------------------------------------ malformed messages


@pytest.mark.parametrize(
    "wrong",
    [
        lambda v: v[:1],
        lambda v: np.append(v, v),
        lambda v: v.astype(np.uint64),
        lambda v: v[:0],
        lambda v: v.astype(np.int32),
    ],
)
def test_a_signed_vector_of_another_shape_leaves_its_sender_out(good, wrong):
    """A party may sign a vector of another length or type: one element would be added to all."""
    people, state = crowd(3, 2), good.states["mask"][2]
    sent = good.messages["mask"]
    vector = wrong(sent[2][0])
    statement = party.sent(state.before.attempt, 2, state.dealers_digest, QUESTION)
    signature = people.identities[2].sign(statement)
    survivors = server.collect_vectors(good.dealers, {**sent, 2: (vector, signature)}, QUESTION)
    assert set(survivors.signatures) == {0, 1}
