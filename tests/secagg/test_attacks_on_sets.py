"""A server that lies about who survived: what it tries, why it fails, and what would let it.

Every attack has a control in which one check is taken away and the attack works.
"""

from itertools import combinations

import numpy as np
import pytest

from unisono.errors import InvalidInput, PrivacyViolation
from unisono.secagg import party
from unisono.secagg.roster import Roster
from unisono.secagg.session import Session

from .adversary import survivors_told
from .harness import crowd, ring, run

VECTORS = {i: np.array([1000 + i, -(7**i)]) for i in range(14)}


@pytest.fixture
def any_minimum(monkeypatch):
    """Parties that accept a minimum at which two sets of survivors can both be signed."""
    monkeypatch.setattr(Session, "__post_init__", lambda self: None)


def halves(parties, victim):
    """The first half hears that all survived, the second that the victim did not."""
    everyone = list(range(parties))
    others = [i for i in everyone if i != victim]
    return {i: everyone if i < parties // 2 else others for i in everyone}


def test_one_party_alive_and_dropped():
    """Both secrets of one party would show its vector; but no half is enough to sign or open."""
    sums, answers = survivors_told(VECTORS, crowd(6), halves(6, 0))
    assert not sums
    assert answers == 0


def test_one_party_alive_and_dropped_if_half_were_enough(any_minimum):
    sums, answers = survivors_told(VECTORS, crowd(6, 3), halves(6, 0))
    assert answers == 6
    assert sums[frozenset({0})].tolist() == VECTORS[0].tolist()


def test_two_sets_of_survivors_told_to_two_halves():
    """Differencing: sums over all and over all but one tell the one, if both could be had.

    Every way to tell four honest parties either set, with a colluder who signs both.
    """
    people = crowd(5, colluders=1)
    everyone, fewer = [0, 1, 2, 3, 4], [1, 2, 3, 4]
    for size in range(5):
        for first in combinations(range(4), size):
            told = {i: everyone if i in first else fewer for i in range(4)}
            sums, _ = survivors_told(VECTORS, people, told, colluders=[4])
            assert set(sums) <= {frozenset({0, 1, 2, 3}), frozenset({1, 2, 3})}
            assert len(sums) <= 1


def test_two_sets_would_give_a_vector_if_colluders_were_not_counted(any_minimum):
    """A minimum of 3 is safe for 5 honest parties, and not with one who signs twice."""
    everyone, fewer = [0, 1, 2, 3, 4], [1, 2, 3, 4]
    told = {0: everyone, 1: everyone, 2: fewer, 3: fewer}
    sums, _ = survivors_told(VECTORS, crowd(5, 3, colluders=1), told, colluders=[4])
    assert sums[frozenset({0})].tolist() == VECTORS[0].tolist()


def test_fewer_survivors_than_the_minimum():
    told = {i: [0, 4] if i in (0, 4) else [1, 2, 3, 4] for i in range(5)}
    sums, _ = survivors_told(VECTORS, crowd(5, colluders=1), told, colluders=[4])
    assert frozenset({0}) not in sums


def test_fewer_survivors_would_give_a_vector_to_a_party_that_does_not_count(any_minimum):
    told = {i: [0, 4] if i in (0, 4) else [1, 2, 3, 4] for i in range(5)}
    sums, _ = survivors_told(VECTORS, crowd(5, 2, colluders=1), told, colluders=[4])
    assert sums[frozenset({0})].tolist() == VECTORS[0].tolist()


# --------------------------------------------------- signatures of survivors


def around_the_victim(people):
    """Every other holder of party 5's secrets hears that it survived, all others that not."""
    everyone = list(range(people.session.parties))
    fewer = [i for i in everyone if i != 5]
    first = people.session.holders(5)[::2]
    return survivors_told(VECTORS, people, {i: everyone if i in first else fewer for i in everyone})


def test_unmasking_without_the_quorum_of_signatures(monkeypatch):
    people = ring(monkeypatch, 14, 4, 4)
    done = run(people, VECTORS, until="agree")
    state, votes = done.states["agree"][0], done.messages["agree"]
    minimum = people.session.minimum
    assert party.unmask(state, dict(list(votes.items())[:minimum]))
    for count in range(minimum):
        with pytest.raises(PrivacyViolation, match="at least 8"):
            party.unmask(state, dict(list(votes.items())[:count]))


def test_without_the_quorum_two_sets_would_open_on_a_ring(monkeypatch):
    """Small thresholds open either secret of a party, each by some of its holders."""
    monkeypatch.setattr(party, "_require_set", lambda *_: None)
    sums, answers = around_the_victim(ring(monkeypatch, 14, 6, 3))
    assert answers == 14
    assert sums[frozenset({5})].tolist() == VECTORS[5].tolist()


def test_the_same_thresholds_with_the_quorum(monkeypatch):
    sums, _ = around_the_victim(ring(monkeypatch, 14, 6, 3))
    assert all(5 not in group for group in sums)


def test_a_duplicate_vote_by_one_colluder():
    """Its signature under other numbers, a number outside the roster, and a key listed twice."""
    people = crowd(5, colluders=1)
    done = run(people, VECTORS, until="agree")
    state, votes = done.states["agree"][0], done.messages["agree"]
    some = {i: votes[i] for i in (0, 1, 4)}
    with pytest.raises(PrivacyViolation, match="has not signed"):
        party.unmask(state, {**some, 2: votes[4]})
    for outside in (-1, 5, 99):
        with pytest.raises(PrivacyViolation, match="not in the roster"):
            party.unmask(state, {**some, outside: votes[4]})
    with pytest.raises(InvalidInput, match="one holder of two votes"):
        Roster(("a", "b"), (people.identities[0].public,) * 2)


def test_a_duplicate_vote_would_count_if_signatures_were_not_checked(monkeypatch):
    done = run(crowd(5, colluders=1), VECTORS, until="agree")
    state, votes = done.states["agree"][0], done.messages["agree"]
    monkeypatch.setattr(party, "_require_signed", lambda *_: None)
    assert party.unmask(state, dict.fromkeys(range(4), votes[4]))


def test_unmasking_asked_of_a_party_that_was_left_out():
    done = run(crowd(5), VECTORS, until="mask")
    sealed = {i: one for i, (_, one) in done.messages["mask"].items() if i != 2}
    with pytest.raises(PrivacyViolation, match="leaves this party out"):
        party.agree(done.states["mask"][2], sealed)


def test_a_party_that_does_not_look_for_itself_would_give_its_own_mask_key(monkeypatch):
    done = run(crowd(5), VECTORS, until="mask")
    sealed = {i: one for i, (_, one) in done.messages["mask"].items() if i != 2}
    monkeypatch.setattr(party, "_require_set", lambda *_: None)
    state = done.states["mask"][2]
    agreed, _ = party.agree(state, sealed)
    assert party.unmask(agreed, {})[2] == state.held[2][0]
