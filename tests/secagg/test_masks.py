"""Masks: published vectors, evenness, and no relation between places."""

import hashlib
import hmac
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import chi2

from unisono.secagg import masks, party
from unisono.secagg.roster import Identity, Roster

from .harness import QUESTION, crowd

# RFC 7748, section 6.1.
ALICE = bytes.fromhex("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a")
BOB = bytes.fromhex("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb")
ALICES_PUBLIC = "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a"
BOBS_PUBLIC = "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f"
EXCHANGED = bytes.fromhex("4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742")


def test_the_stream_is_aes_256_in_counter_mode():
    """Blocks 0, 1 and 2 under the zero key are published with GCM (McGrew and Viega, cases 13 and
    14): the hash key, the tag of nothing, and the encryption of zeros."""
    published = (
        "dc95c078a2408989ad48a21492842087"
        "530f8afbc74536b9a963b4f1c4cb738b"
        "cea7403d4d606b6e074ec5d3baf39d18"
    )
    assert masks.stream(bytes(32), 48).hex() == published


def test_the_stream_depends_on_the_key_as_published():
    """NIST's known answers for a variable key (AESAVS, 256 bits, first and last count)."""
    first, last = b"\x80" + bytes(31), b"\xff" * 32
    assert masks.stream(first, 16).hex() == "e35a6dcb19b201a01ebcfa8aa22b5759"
    assert masks.stream(last, 16).hex() == "4bf85f1b5d54adbc307b0a048389adcb"


def expand(secret, info):
    """HKDF-SHA256 without a salt, 32 bytes, by its definition (RFC 5869)."""
    key = hmac.new(bytes(32), secret, hashlib.sha256).digest()
    return hmac.new(key, info + b"\x01", hashlib.sha256).digest()


def test_agreements_follow_rfc_7748_and_rfc_5869():
    published = "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d"
    assert expand(b"\x0b" * 22, b"").hex() == published  # RFC 5869, case 3
    assert masks.public_key(ALICE).hex() == ALICES_PUBLIC
    assert masks.public_key(BOB).hex() == BOBS_PUBLIC
    for info in (b"", b"a pair of one attempt"):
        expected = expand(EXCHANGED, info)
        assert masks.shared(ALICE, bytes.fromhex(BOBS_PUBLIC), info) == expected
        assert masks.shared(BOB, bytes.fromhex(ALICES_PUBLIC), info) == expected


def test_signatures_follow_rfc_8032():
    """Section 7.1, test 1: the empty message."""
    secret = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
    one = Identity("one", secret)
    signature = one.sign(b"")
    assert one.public.hex() == "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a"
    assert signature.hex() == (
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"
        "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
    )
    roster = Roster(("one",), (one.public,))
    assert roster.verify(0, signature, b"")
    for wrong in (b"", signature[:-1], signature + b"x", bytes(64)):
        assert not roster.verify(0, wrong, b"")
    assert "9d61" not in repr(one)


@pytest.mark.parametrize(("bits", "dtype"), [(32, "<u4"), (64, "<u8")])
@pytest.mark.parametrize("size", [0, 1, 2**15, 2**16 + 3])
def test_adding_is_adding_the_stream_and_is_undone(bits, dtype, size):
    seed = bytes(range(32))
    stream = np.frombuffer(masks.stream(seed, size * bits // 8), dtype)
    start = np.arange(size).astype(dtype)
    total = start.copy()
    masks.add(total, seed, 1)
    np.testing.assert_array_equal(total, start + stream)
    masks.add(total, seed, -1)
    np.testing.assert_array_equal(total, start)
    masks.add(total, seed, -1)
    np.testing.assert_array_equal(total, start - stream)


@pytest.mark.parametrize("dtype", ["<u4", "<u8"])
def test_masks_are_even(dtype):
    """Chi-square over 256 values of every byte of the words, for three seeds.

    36 tests at most, each with false-alarm rate 1e-7: 4e-6 in all.
    """
    for label in (b"a", b"b", b"c"):
        total = np.zeros(2**16, dtype)
        masks.add(total, hashlib.sha256(label).digest(), 1)
        table = total.view(np.uint8).reshape(total.size, -1)
        for column in table.T:
            counts = np.bincount(column, minlength=256)
            statistic = np.sum((counts - total.size / 256) ** 2) / (total.size / 256)
            assert chi2.sf(statistic, 255) > 1e-7


def test_the_evenness_test_can_fail():
    """The control: masks whose low byte repeats after 251 words."""
    counts = np.bincount(np.arange(2**16) % 251, minlength=256)
    statistic = np.sum((counts - 256) ** 2) / 256
    assert chi2.sf(statistic, 255) < 1e-7


def test_seeds_of_different_places_are_unrelated():
    """Every round, attempt, session and pair has a seed of its own, far from all others.

    Two unrelated seeds of 256 bits agree in 128 of them, give or take 8: fewer than 70 or more
    than 186 differing bits have chance 1e-13 for one pair, 3e-10 for all of these.
    """
    one, two = crowd(4), crowd(4, study=b"another study")
    places = [
        people.session.attempt(r, a)
        for people in (one, two)
        for r in (0, 1, 256)
        for a in (0, 1, 2)
    ]
    assert len(set(places)) == len(places)
    keys = {i: masks.public_key(bytes([i + 1]) * 32) for i in range(4)}
    seeds = [
        party.pair_seed(place, low, high, bytes([low + 1]) * 32, keys[high], QUESTION)
        for place in places
        for low, high in combinations(range(4), 2)
    ]
    numbers = [int.from_bytes(seed, "big") for seed in seeds]
    for first, second in combinations(numbers, 2):
        assert 70 <= (first ^ second).bit_count() <= 186


def test_both_ends_of_a_pair_find_the_same_seed():
    keys = {i: masks.public_key(bytes([i + 1]) * 32) for i in range(2)}
    here = party.pair_seed(b"attempt", 0, 1, bytes([1]) * 32, keys[1], QUESTION)
    there = party.pair_seed(b"attempt", 1, 0, bytes([2]) * 32, keys[0], QUESTION)
    assert here == there
