"""Secret sharing: enough shares open, fewer tell nothing, and wrong ones are noticed."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unisono.errors import InvalidInput
from unisono.secagg import server, shamir
from unisono.secagg.shamir import PRIME, join, randomness, split

from .harness import QUESTION, Relay, crowd, plain_sum, ring, run


def test_the_modulus_is_prime_and_holds_every_secret():
    """Miller-Rabin with 40 bases: a composite passes with chance 4^-40 at most."""
    odd, twos = PRIME - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in range(2, 42):
        powers = [pow(base, odd << i, PRIME) for i in range(twos)]
        assert powers[0] == 1 or PRIME - 1 in powers
    assert PRIME > 2**256
    assert PRIME.bit_length() < shamir.SHARE_BYTES * 8


@given(
    st.binary(min_size=32, max_size=32),
    st.lists(st.integers(0, 1000), min_size=1, max_size=9, unique=True),
    st.data(),
)
@settings(max_examples=60, deadline=None, derandomize=True)
def test_any_threshold_of_shares_opens(secret, holders, data):
    threshold = data.draw(st.integers(1, len(holders)))
    random = data.draw(st.binary(min_size=randomness(threshold), max_size=randomness(threshold)))
    shares = split(secret, holders, threshold, random)
    chosen = data.draw(st.permutations(holders))[:threshold]
    assert join({holder: shares[holder] for holder in chosen}) == secret


@pytest.mark.parametrize("secret", [bytes(32), b"\xff" * 32, bytes(31) + b"\x01"])
def test_the_outermost_secrets_open(secret):
    shares = split(secret, range(5), 3, bytes(range(96)))
    for chosen in combinations(range(5), 3):
        assert join({holder: shares[holder] for holder in chosen}) == secret


def interpolated(points):
    """Coefficients, constant first, of the polynomial through these points."""
    coefficients = [0] * len(points)
    for x, y in points.items():
        basis, under = [1], 1
        for other in points:
            if other != x:
                basis = [
                    (b - other * a) % PRIME for a, b in zip([*basis, 0], [0, *basis], strict=True)
                ]
                under = under * (x - other) % PRIME
        weight = y * pow(under, -1, PRIME) % PRIME
        coefficients = [(c + weight * b) % PRIME for c, b in zip(coefficients, basis, strict=True)]
    return coefficients


@pytest.mark.parametrize("other", [bytes(32), b"\xff" * 32, b"any other secret, of thirty-two "])
def test_fewer_shares_fit_every_secret_alike(other):
    """For each secret there is exactly one choice of coefficients that gives the shares seen, so
    that with even coefficients every secret is as likely after seeing them as before."""
    secret, threshold = b"the secret that was truly shared", 4
    random = bytes(range(144))
    shares = split(secret, range(6), threshold, random)
    seen = {holder: shares[holder] for holder in (0, 2, 5)}
    points = {holder + 1: int.from_bytes(value, "big") for holder, value in seen.items()}
    constant, *rest = interpolated({0: int.from_bytes(other, "big"), **points})
    assert constant == int.from_bytes(other, "big")
    # `split` takes the highest coefficient first.
    alternative = b"".join(c.to_bytes(48, "big") for c in reversed(rest))
    again = split(other, range(6), threshold, alternative)
    assert {holder: again[holder] for holder in seen} == seen


def test_coefficients_are_even_but_for_the_claimed_remainder():
    """48 bytes modulo p: residues differ in weight by one in 2^384 / p, about 2^-128."""
    assert 8 * 48 - PRIME.bit_length() >= 127
    assert randomness(5) == 4 * 48


@pytest.mark.parametrize(
    ("secret", "holders", "threshold", "random"),
    [
        (bytes(31), [0, 1], 2, bytes(48)),
        (bytes(32), [0, 1], 2, bytes(47)),
        (bytes(32), [0, 1], 3, bytes(96)),
        (bytes(32), [0, 0], 2, bytes(48)),
        (bytes(32), [], 1, b""),
    ],
)
def test_what_cannot_be_shared_is_refused(secret, holders, threshold, random):
    with pytest.raises(InvalidInput):
        split(secret, holders, threshold, random)


# ------------------------------------------------------------------- liars


class Liars(Relay):
    """Parties that answer the last step with other shares than they hold."""

    def __init__(self, *liars, owner=None):
        self.liars, self.owner = liars, owner

    def receive(self, stage, sender, message):
        if stage != "unmask" or sender not in self.liars:
            return message
        wrong = {o: bytes([piece[0] ^ 1]) + piece[1:] for o, piece in message.items()}
        return wrong if self.owner is None else {**message, self.owner: wrong[self.owner]}


@pytest.mark.parametrize("liar", range(6))
@pytest.mark.parametrize("gone", [{}, {1: "mask"}])
def test_one_liar_is_survived_when_enough_others_answer(liar, gone):
    """Survivors' self-masks are checked by their commitments, dropouts' keys by their own."""
    vectors = {i: [i, 10**i] for i in range(6)}
    done = run(crowd(6, 4), vectors, gone, Liars(liar))
    np.testing.assert_array_equal(done.total, plain_sum(vectors, done.alive, 32))


@pytest.mark.parametrize("owner", [None, 0, 3])
def test_a_liar_among_just_enough_is_noticed(owner):
    done = run(crowd(5, 4), {i: [i] for i in range(5)}, {4: "mask"}, Liars(2, owner=owner))
    assert isinstance(done.failure, server.TooFew)
    assert "do not open the secret" in str(done.failure)


def test_shares_of_those_who_hold_none_do_not_count(monkeypatch):
    """On a ring, colluders far from a party cannot keep its secret from being opened."""
    people = ring(monkeypatch, 14, 6, 5)
    victim = next(i for i in range(14) if min(people.session.holders(i)) >= 2)

    class Meddlers(Relay):
        def receive(self, stage, sender, message):
            meddles = stage == "unmask" and sender in (0, 1)
            return {**message, victim: bytes(33)} if meddles else message

    vectors = {i: [i] for i in range(14)}
    done = run(people, vectors, relay=Meddlers())
    assert done.failure is None
    np.testing.assert_array_equal(done.total, plain_sum(vectors, range(14), 32))


def test_without_the_checks_a_liar_would_change_the_total(monkeypatch):
    """The control: a server that believes the first shares opens a wrong sum."""
    true = shamir.join

    def believed(held, threshold):
        return iter([true({h: held[h] for h in sorted(held)[:threshold]})])

    class Anything(bytes):
        def __eq__(self, other):
            return True

        __hash__ = bytes.__hash__

    monkeypatch.setattr(server, "_candidates", believed)
    monkeypatch.setattr(server, "digest", lambda *parts: Anything())
    vectors = {i: [i] for i in range(4)}
    people = crowd(4, 3)
    done = run(people, vectors, until="mask")
    dealers = server.Dealers(done.table, done.messages["deal"])
    sealed = {i: one for i, (_, one) in done.messages["mask"].items()}
    masked = np.sum([v for v, _ in done.messages["mask"].values()], axis=0, dtype="<u4")
    survivors = server.Survivors(dealers, QUESTION, sealed, masked)
    shares = {
        i: {o: held[1] for o, held in state.held.items()}
        for i, state in done.states["mask"].items()
    }
    assert server.open_sum(survivors, shares) == [6]
    shares[0] = {o: bytes([piece[0] ^ 1]) + piece[1:] for o, piece in shares[0].items()}
    assert server.open_sum(survivors, shares) != [6]
