"""A server that restarts, replays and reflects: each attack and its control.

In every control one check is taken away, and the attack works.
"""

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from unisono.core.grant import derive
from unisono.errors import PrivacyViolation
from unisono.secagg import masks, party, shamir
from unisono.secagg.roster import digest
from unisono.secagg.session import Session

from .harness import crowd, run

VECTORS = {i: np.array([1000 + i, -(7**i)]) for i in range(3)}


def old_deals_under_new_keys():
    """Party 2 begins anew; party 0 sees its new keys, and the old deal of party 1."""
    people = crowd(3, 2)
    old = run(people, VECTORS, until="deal")
    state = old.states["announce"][0]
    keys = {**old.messages["announce"], 2: people.announce(2, salt=b"anew")[1]}
    dealt, deal = party.deal(state, keys)
    return party.accept(dealt, {0: deal, 1: old.messages["deal"][1]})


def test_restarting_set_up():
    with pytest.raises(PrivacyViolation, match="has not signed the keys of all"):
        old_deals_under_new_keys()
    people = crowd(3, 2)
    first, second = people.announce(0)[1], people.announce(0, salt=b"anew")[1]
    assert first.keys[:32] != second.keys[:32]
    assert first.keys[32:] != second.keys[32:]


def test_old_deals_would_do_if_signatures_did_not_cover_the_keys(monkeypatch):
    monkeypatch.setattr(party, "digest_of_table", lambda attempt, table: attempt)
    assert old_deals_under_new_keys().partners == (1,)


OTHER_PLACES = {
    "round": ((1, 0), b"study"),
    "attempt": ((0, 1), b"study"),
    "session": ((0, 0), b"another study"),
}


def replays(place, study):
    """Every message of party 1 from another place, shown to party 0 instead of the right one.

    The worst case: party 1 drew the same secrets in both places.
    """
    here = run(crowd(3, 2), VECTORS)
    there = run(crowd(3, 2, study=study), VECTORS, place=place)

    def mixed(stage, pick=lambda message: message):
        found = {i: pick(message) for i, message in here.messages[stage].items()}
        return {**found, 1: pick(there.messages[stage][1])}

    states = here.states
    return {
        "announce": lambda: party.deal(states["announce"][0], mixed("announce")),
        "deal": lambda: party.accept(states["deal"][0], mixed("deal")),
        "mask": lambda: party.agree(states["mask"][0], mixed("mask", lambda m: m[1])),
        "agree": lambda: party.unmask(states["agree"][0], mixed("agree")),
    }


@pytest.mark.parametrize("stage", ["announce", "deal", "mask", "agree"])
@pytest.mark.parametrize("kind", OTHER_PLACES)
def test_replaying_messages(kind, stage):
    with pytest.raises(PrivacyViolation, match="p1 has not signed"):
        replays(*OTHER_PLACES[kind])[stage]()


@pytest.mark.parametrize("stage", ["announce", "deal", "mask", "agree"])
@pytest.mark.parametrize("kind", OTHER_PLACES)
def test_replays_would_do_if_places_had_no_names(monkeypatch, kind, stage):
    monkeypatch.setattr(Session, "attempt", lambda *_: b"the same for all")
    assert replays(*OTHER_PLACES[kind])[stage]()


def as_another_party():
    """Every message of party 1, shown to party 0 as party 2's."""
    done = run(crowd(3, 2), VECTORS)
    states, sent = done.states, done.messages
    sealed = {i: one for i, (_, one) in sent["mask"].items()}
    return {
        "announce": lambda: party.deal(
            states["announce"][0], {**sent["announce"], 2: sent["announce"][1]}
        ),
        "deal": lambda: party.accept(states["deal"][0], {**sent["deal"], 2: sent["deal"][1]}),
        "mask": lambda: party.agree(states["mask"][0], {**sealed, 2: sealed[1]}),
        "agree": lambda: party.unmask(states["agree"][0], {**sent["agree"], 2: sent["agree"][1]}),
    }


@pytest.mark.parametrize("stage", ["announce", "deal", "mask", "agree"])
def test_replaying_messages_as_another_party(stage):
    with pytest.raises(PrivacyViolation, match="p2 has not signed"):
        as_another_party()[stage]()


@pytest.mark.parametrize("stage", ["announce", "mask", "agree"])
def test_another_partys_messages_would_do_if_signatures_were_not_checked(monkeypatch, stage):
    """Deals excepted: their boxes fit one sender only, see below."""
    monkeypatch.setattr(party, "_require_signed", lambda *_: None)
    assert as_another_party()[stage]()


# ---------------------------------------------------------------- reflection


def reflected(sender, receiver):
    """Party 0 is shown another box in place of the one from party 1 to party 0."""
    done = run(crowd(3, 2), VECTORS, until="deal")
    deals = done.messages["deal"]
    false = deals[1]._replace(boxes={0: deals[sender].boxes[receiver]})
    return party.accept(done.states["deal"][0], {**deals, 1: false}), done


ANOTHER = [(0, 1), (0, 2), (1, 2), (2, 0), (2, 1)]


@pytest.mark.parametrize(("sender", "receiver"), ANOTHER)
def test_reflecting_a_box_or_sending_it_to_another(sender, receiver):
    with pytest.raises(PrivacyViolation, match="the shares of p1 were changed on the way"):
        reflected(sender, receiver)


def test_a_reflected_box_would_open_if_both_directions_had_one_key(monkeypatch):
    """Party 0 would hold a share of its own mask key as a share of party 1's, and tell it once
    party 1 is said to have dropped out."""

    def both_ways(attempt, sender, receiver, agreed):
        purpose = digest("box", attempt, *sorted((sender, receiver)))
        return ChaCha20Poly1305(masks.derived(agreed, purpose))

    monkeypatch.setattr(party, "_box", both_ways)
    accepted, done = reflected(0, 1)
    own = derive(done.states["announce"][0].secret, "mask")
    pieces = {0: accepted.held[0][0], 1: accepted.held[1][0]}
    assert shamir.join(pieces) == own


@pytest.mark.parametrize(("sender", "receiver"), ANOTHER)
def test_any_box_would_open_if_keys_were_not_of_pairs(monkeypatch, sender, receiver):
    monkeypatch.setattr(party, "_box", lambda *_: ChaCha20Poly1305(bytes(32)))
    assert reflected(sender, receiver)
