"""A server that asks parties differently (model inconsistency, Pasquini et al. 2022).

Every attack has a control in which one defense is taken away and the attack works.
"""

from itertools import combinations

import numpy as np
import pytest

from unisono.secagg import masks, party
from unisono.secagg.roster import Roster, digest

from .adversary import survivors_told
from .harness import QUESTION, Relay, crowd, plain_sum, ring, run

VECTORS = {i: np.array([1000 + i, -(7**i)]) for i in range(14)}
OTHER = digest("another question")
EVERYONE = list(range(5))


@pytest.fixture
def unsigned(monkeypatch):
    """Parties and a server that do not look at signatures over questions."""
    true = Roster.verify

    def verify(self, index, signature, message):
        return true(self, index, signature, message) or message in questions

    questions = set()
    sent, agreed = party.sent, party.agreed

    def remembered(statement):
        def made(*parts):
            questions.add(statement(*parts))
            return statement(*parts)

        return made

    monkeypatch.setattr(party, "sent", remembered(sent))
    monkeypatch.setattr(party, "agreed", remembered(agreed))
    monkeypatch.setattr("unisono.secagg.server.sent", remembered(sent))
    monkeypatch.setattr("unisono.secagg.server.agreed", remembered(agreed))
    monkeypatch.setattr("tests.secagg.harness.Remembering.verify", verify)


@pytest.fixture
def unbound(monkeypatch):
    """Masks that do not depend on the question, as before."""

    def pair_seed_of(attempt, one, other, agreed, question):
        low, high = sorted((one, other))
        return masks.derived(agreed, digest("pair", attempt, low, high))

    for module in ("party", "server"):
        monkeypatch.setattr(f"unisono.secagg.{module}.pair_seed_of", pair_seed_of)
        monkeypatch.setattr(f"unisono.secagg.{module}.self_mask", lambda a, p, secret, q: secret)


def others_are_asked(question, victim=2):
    return {i: question for i in EVERYONE if i != victim}


def alike(total, vectors, parties=EVERYONE):
    return total is not None and total.tolist() == plain_sum(vectors, parties, 32).tolist()


@pytest.mark.parametrize("victim", [0, 2, 4])
def test_one_party_is_asked_otherwise(victim):
    """Everybody notices before any share is revealed, and names the reason."""
    questions = {victim: OTHER}
    signed = {}

    class Lying(Relay):
        def receive(self, stage, sender, message):
            if stage == "mask":  # an honest server would leave the victim out
                signed[sender] = message[1]
            return message

        def show(self, stage, receiver, shown):
            return dict(signed) if stage == "agree" else shown

    done = run(crowd(5), VECTORS, relay=Lying(), questions=questions)
    assert done.total is None
    asked = [i for i in EVERYONE if i != victim]
    assert sorted(done.refusals) == asked  # the victim is not even asked to agree
    for stage, error in done.refusals.values():
        assert stage == "agree"
        assert isinstance(error, party.AskedDifferently)
        assert "asked parties differently" in str(error)


def test_an_honest_server_leaves_out_who_answered_another_question():
    done = run(crowd(5), VECTORS, questions={2: OTHER})
    assert done.alive == [0, 1, 3, 4]
    assert alike(done.total, VECTORS, done.alive)


@pytest.mark.parametrize("size", range(1, 5))
def test_no_division_into_two_questions_opens_anything_but_one_large_group(size):
    """Whoever is asked what and told of which survivors, with one colluder: what can be worked out
    is a sum over at least minimum - colluders honest parties who were asked alike."""
    people = crowd(5, colluders=1)
    least = people.session.minimum - 1
    for first in combinations(range(4), size):
        questions = dict.fromkeys(first, OTHER)
        rest = [i for i in range(4) if i not in first]
        for told in (
            dict.fromkeys(range(4), EVERYONE),
            {i: [*first, 4] if i in first else [*rest, 4] for i in range(4)},
            {i: [*rest, 4] for i in range(4)},
        ):
            sums, _ = survivors_told(VECTORS, people, told, [4], questions)
            for group in sums:
                honest = group - {4}
                assert len(honest) >= least
                assert honest <= set(first) or not honest & set(first)
            assert len(sums) <= 1


def test_false_dropouts_with_another_question_keep_their_vectors():
    """The server asks party 0 otherwise and calls it a dropout: its mask key comes to light and its
    vector does not, under whatever question the server removes masks."""
    people, fewer = crowd(5), [1, 2, 3, 4]
    sums, answers = survivors_told(
        VECTORS, people, dict.fromkeys(fewer, fewer) | {0: fewer}, questions={0: OTHER}
    )
    assert answers == 4
    assert set(sums) == {frozenset(fewer)}


def test_masks_of_differently_asked_parties_do_not_cancel(unsigned):
    """Were no signature looked at, the sum of all would still be noise."""
    done = run(crowd(5), VECTORS, questions=others_are_asked(OTHER))
    assert done.alive == EVERYONE
    assert not alike(done.total, VECTORS)
    half = 2**30  # each of two numbers is uniform: both within a quarter of a quarter, 1 in 16
    several = [
        run(crowd(5, study=bytes([i])), VECTORS, questions=others_are_asked(OTHER)).total
        for i in range(12)
    ]
    assert np.any(np.abs(several) > half)  # all small: 2^-24


def test_they_would_cancel_without_the_question_in_them(unsigned, unbound):
    """The control, and the hole as it was: both defenses are gone, and the sum opens."""
    done = run(crowd(5), VECTORS, questions=others_are_asked(OTHER))
    assert alike(done.total, VECTORS)


def test_the_signatures_alone_refuse(unbound):
    done = run(crowd(5), VECTORS, questions=dict.fromkeys((0, 1, 2), OTHER))
    assert done.total is None


@pytest.mark.parametrize(
    "gone",
    [{}, {0: "mask"}, {0: "agree"}, {1: "deal", 3: "unmask"}, {2: "mask", 4: "unmask"}],
    ids=str,
)
def test_the_honest_sum_is_what_it_was(gone):
    """The control: bit for bit the sum over the survivors, whoever drops out and when."""
    done = run(crowd(6), VECTORS, gone)
    assert alike(done.total, VECTORS, done.alive)


def test_the_honest_sum_on_a_ring(monkeypatch):
    people = ring(monkeypatch, 14, 6, 4)
    done = run(people, VECTORS, {3: "mask", 9: "agree"})
    assert alike(done.total, VECTORS, done.alive)
    split = run(people, VECTORS, questions=dict.fromkeys(range(0, 14, 2), OTHER))
    assert split.total is None


def test_secrets_give_masks_of_one_question_only():
    """What is shared is neither mask: both are derived with the question."""
    secret = bytes(range(32))
    seeds = {
        party.self_mask(b"attempt", 0, secret, QUESTION),
        party.self_mask(b"attempt", 0, secret, OTHER),
        party.self_mask(b"attempt", 1, secret, QUESTION),
        party.pair_seed_of(b"attempt", 0, 1, secret, QUESTION),
        party.pair_seed_of(b"attempt", 0, 1, secret, OTHER),
        secret,
    }
    assert len(seeds) == 6
    one, other = (party.pair_seed_of(b"attempt", *p, secret, OTHER) for p in ((0, 1), (1, 0)))
    assert one == other
