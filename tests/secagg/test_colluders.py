"""Colluders who tell the server all they know: it learns the sum of the honest survivors only."""

from itertools import combinations

import numpy as np
import pytest

from unisono.secagg import masks, party
from unisono.secagg.session import Session

from .adversary import Adversary, survivors_told
from .harness import QUESTION, crowd, plain_sum, ring, run

VECTORS = {i: np.array([1000 + i, -(7**i)]) for i in range(14)}


def everybody_told(people, survivors, colluders):
    told = dict.fromkeys(range(people.session.parties), survivors)
    return survivors_told(VECTORS, people, told, colluders)[0]


@pytest.mark.parametrize("colluders", list(combinations(range(6), 2)))
def test_the_tolerated_colluders_learn_one_sum(colluders):
    """All pairs of colluders; all survive, or the server says of one who sent that it did not."""
    people = crowd(6, colluders=2)
    honest = [i for i in range(6) if i not in colluders]
    for lost in (None, honest[0], honest[-1]):
        survivors = [i for i in range(6) if i != lost]
        group = frozenset(survivors) - set(colluders)
        sums = everybody_told(people, survivors, colluders)
        assert set(sums) == {group}
        np.testing.assert_array_equal(sums[group], plain_sum(VECTORS, group, 32))


def test_as_many_colluders_as_open_secrets_would_learn_every_vector(monkeypatch):
    monkeypatch.setattr(Session, "__post_init__", lambda self: None)
    sums = everybody_told(crowd(5, 2, colluders=2), range(5), (3, 4))
    for victim in (0, 1, 2):
        assert sums[frozenset({victim})].tolist() == VECTORS[victim].tolist()


# -------------------------------------- the same transcript from other vectors


def transcript(done):
    """All messages of an attempt as bytes."""
    parts = []
    for stage, sent in done.messages.items():
        for index, message in sent.items():
            parts.append((stage, index, _plain(message)))
    return parts


def _plain(message):
    if isinstance(message, np.ndarray):
        return message.tobytes()
    if isinstance(message, dict):
        return tuple((key, _plain(value)) for key, value in sorted(message.items()))
    return tuple(_plain(part) for part in message) if isinstance(message, tuple) else message


@pytest.mark.parametrize("pair", [(0, 2), (0, 3), (2, 3)])
def test_other_vectors_with_the_same_sum_give_the_same_transcript(monkeypatch, pair):
    """Move any amount from one honest survivor to another, and the mask of their pair by as much:
    every message stays as it was, bit by bit, and so does all that colluders hold. The mask of
    the pair is uniform, and its seed is the one thing that nobody else can work out; so both
    transcripts are equally likely. Any two sets of vectors with one sum are such moves apart.
    """
    people, gone = crowd(6, colluders=1), {1: "mask"}
    first = run(people, VECTORS, gone)
    honest, (low, high) = (0, 2, 3, 5), pair
    table = first.table.keys
    seed = pair_seed(first, low, high)

    seen = Adversary(people.session, people.session.attempt(0, 0))
    colluder = first.states["mask"][4]
    seen.corrupts(4, colluder.held, colluder.before.secret)
    for index, answer in first.messages["unmask"].items():
        seen.hears(index, answer, first.alive)
    seen.sums({}, {0: table}, {0: range(6)}, {})
    for one, other in combinations((*honest, 4, 1), 2):
        hidden = one in honest and other in honest
        assert (seen._pair_seed(one, other, table) is None) == hidden

    move, true = np.array([123456789, -5], np.int64), masks.add_all

    def shifted(total, used):
        true(total, used)
        for one, sign in used:
            if one == seed:
                total += (np.sign(sign) * move).astype(total.dtype)

    monkeypatch.setattr(masks, "add_all", shifted)
    others = {**VECTORS, low: VECTORS[low] - move, high: VECTORS[high] + move}
    second = run(people, others, gone)
    assert transcript(first) == transcript(second)
    assert first.states["mask"][4].held == second.states["mask"][4].held
    np.testing.assert_array_equal(first.total, second.total)

    monkeypatch.setattr(masks, "add_all", true)  # the control: the vectors do change the messages
    assert transcript(first) != transcript(run(people, others, gone))


def pair_seed(done, low, high):
    state = done.states["announce"][low]
    secret = party.derive(state.secret, "mask")
    public = party.mask_key(done.table.keys[high])
    return party.pair_seed(state.attempt, low, high, secret, public, QUESTION)


# ----------------------------------------------------------------- on a ring


def two_arcs(people):
    """Two arcs of four survivors between gaps of three, on a ring of 14."""
    order = people.session._order
    return frozenset(order[0:4]), frozenset(order[7:11])


def test_a_ring_does_not_split_into_two_sums(monkeypatch):
    """Six neighbours, no colluders: τ = 6/2 + 2 = 5. Eight survivors are enough to sign."""
    people = ring(monkeypatch, 14, 6, 5)
    one, two = two_arcs(people)
    assert people.session.minimum == len(one | two)
    assert everybody_told(people, sorted(one | two), ()) == {}


def test_a_ring_with_one_holder_less_would_split(monkeypatch):
    people = ring(monkeypatch, 14, 6, 4)
    one, two = two_arcs(people)
    sums = everybody_told(people, sorted(one | two), ())
    assert set(sums) == {one, two}
    for arc in (one, two):
        np.testing.assert_array_equal(sums[arc], plain_sum(VECTORS, arc, 32))


def test_colluders_on_a_ring_learn_one_sum(monkeypatch):
    """One colluder around each party: τ = 6/2 + 1 + 2 = 6; one more is said to have dropped out."""
    people = ring(monkeypatch, 14, 6, 6, colluders=1)
    for colluder, lost in ((0, 1), (5, 6), (13, 2)):
        survivors = [i for i in range(14) if i != lost]
        group = frozenset(survivors) - {colluder}
        assert set(everybody_told(people, survivors, (colluder,))) == {group}
