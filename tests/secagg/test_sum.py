"""The secure sum is the ideal one, bit for bit, for all sizes, dropouts and extremes."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unisono.errors import GrantMisused, InvalidInput
from unisono.secagg import neighbours, party, server
from unisono.secagg.encoding import encode, signed
from unisono.secagg.ideal import Dealer
from unisono.secagg.session import Session

from .harness import QUESTION, STAGES, Relay, crowd, plain_sum, ring, run, share

EXTREMES = [0, 1, -1, 2**31 - 1, -(2**31), 2**32 - 1, 2**63 - 1, -(2**63)]


def ideal_sum(vectors, alive, parties, minimum, bits):
    """What the dealer of the ideal functionality opens."""
    dealer = Dealer(b"s" * 32, parties, minimum, bits)
    return dealer.open(0, {i: dealer.mask(0, i, share(vectors[i])) for i in alive}).ravel()


def test_the_harness_remembers_only_true_signatures():
    people = crowd(2)
    signature = people.identities[0].sign(b"message")
    roster = people.session.roster
    for _ in range(2):
        assert roster.verify(0, signature, b"message")
        assert not roster.verify(1, signature, b"message")
        assert not roster.verify(0, signature, b"another")
        assert not roster.verify(-1, signature, b"message")


@st.composite
def attempts(draw):
    """A crowd, its vectors, and dropouts that leave at least the minimum at every stage."""
    parties = draw(st.integers(2, 12))
    colluders = draw(st.integers(0, max(0, parties - 2)))
    least = (parties + colluders) // 2 + 1
    minimum = draw(st.integers(least, parties))
    bits = draw(st.sampled_from([32, 64]))
    size = draw(st.sampled_from([0, 1, 2, 7, 33]))
    numbers = st.sampled_from(EXTREMES) | st.integers(-(2**63), 2**63 - 1)
    row = st.lists(numbers, min_size=size, max_size=size)
    vectors = {i: np.array(draw(row), np.int64) for i in range(parties)}
    order = draw(st.permutations(range(parties)))
    leaving = order[: draw(st.integers(0, parties - minimum))]
    gone = {i: draw(st.sampled_from(STAGES)) for i in leaving}
    return parties, minimum, colluders, bits, vectors, gone


@given(attempts())
@settings(max_examples=40, deadline=None, derandomize=True)
def test_the_real_total_is_the_ideal_total_and_the_plain_sum(case):
    parties, minimum, colluders, bits, vectors, gone = case
    done = run(crowd(parties, minimum, colluders, bits), vectors, gone)
    before_sending = ("announce", "deal", "mask")
    alive = [i for i in range(parties) if gone.get(i) not in before_sending]
    assert done.alive == alive
    assert not done.refusals
    expected = plain_sum(vectors, alive, bits)
    np.testing.assert_array_equal(done.total, expected)
    np.testing.assert_array_equal(ideal_sum(vectors, alive, parties, minimum, bits), expected)


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("bits", [32, 64])
def test_everybody_who_may_leave_leaves_at_one_stage(stage, bits):
    vectors = {i: [i + 1, -(10**i), 2 ** (bits - 1) - 1 - i] for i in range(7)}
    gone = dict.fromkeys((0, 3, 6), stage)
    done = run(crowd(7, 4, bits=bits), vectors, gone)
    np.testing.assert_array_equal(done.total, plain_sum(vectors, done.alive, bits))


@pytest.mark.parametrize("stage", STAGES)
def test_one_party_too_few_opens_nothing(stage):
    vectors = {i: [i] for i in range(5)}
    gone = dict.fromkeys((0, 1), stage)
    done = run(crowd(5, 4), vectors, gone)
    assert isinstance(done.failure, server.TooFew)
    assert done.total is None
    # Only the last step hands out shares; before it nothing that opens anything was sent.
    assert ("unmask" in done.messages) == (stage == "unmask")
    dealer = Dealer(b"s" * 32, 5, 4)
    with pytest.raises(InvalidInput, match="at least 4"):
        dealer.open(0, {i: dealer.mask(0, i, share(vectors[i])) for i in (2, 3, 4)})


@pytest.mark.parametrize(("size", "bits"), [(0, 32), (65_535, 32), (65_537, 32), (40_000, 64)])
def test_vectors_longer_than_a_block_of_the_stream(size, bits):
    generator = np.random.default_rng(size)
    vectors = {i: generator.integers(-(2**31), 2**31, (size, 1)) for i in range(3)}
    done = run(crowd(3, 2, bits=bits), vectors, {1: "mask"})
    np.testing.assert_array_equal(done.total, plain_sum(vectors, [0, 2], bits))


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64, np.uint32, np.uint64])
def test_all_integer_types_are_encoded_as_residues(dtype):
    edge = np.iinfo(dtype)
    values = np.array([[edge.min, edge.max], [0, 1]], dtype)
    for bits in (32, 64):
        back = signed(encode(values, bits), bits)
        wanted = plain_sum({0: values}, [0], bits).reshape(2, 2)
        np.testing.assert_array_equal(back, wanted)
    np.testing.assert_array_equal(encode(values.T, 64), encode(values, 64).T)


def test_masking_leaves_the_share_as_it_was():
    value = np.arange(5)
    done = run(crowd(2), {0: value, 1: value}, until="deal")
    dealers = server.collect_deals(done.table, done.messages["deal"])
    accepted = party.accept(done.states["deal"][0], dealers.for_party(0))
    party.mask(accepted, share(value), QUESTION)
    np.testing.assert_array_equal(value, np.arange(5))
    with pytest.raises(GrantMisused, match="only noised shares"):
        party.mask(accepted, value, QUESTION)
    with pytest.raises(InvalidInput, match="not on the integer grid"):
        party.mask(accepted, share(value * 0.5), QUESTION)


# --------------------------------------------------------------- on a ring


@pytest.fixture
def small_ring(monkeypatch):
    """Rings where all pairs would do: parties up to this number mask with all others."""
    neighbours.choose.cache_clear()
    monkeypatch.setattr(neighbours, "ALL_PAIRS", 10)
    yield
    neighbours.choose.cache_clear()


def test_a_small_ring_sums_with_dropouts_at_every_stage(small_ring):
    parties, minimum = 20, 18
    people = crowd(parties, minimum, study=b"a small ring")
    assert people.session.degree < parties - 1
    generator = np.random.default_rng(parties)
    vectors = {i: generator.integers(-(2**63), 2**63, 3) for i in range(parties)}
    for first, second in (("announce", "unmask"), ("deal", "agree"), ("mask", "mask")):
        done = run(people, vectors, {1: first, 7: second})
        np.testing.assert_array_equal(done.total, plain_sum(vectors, done.alive, 32))


def test_a_ring_of_120_parties():
    people = crowd(120, 110)
    assert people.session.degree < 119
    vectors = {i: [i, -i] for i in range(120)}
    gone = {i: STAGES[i % 5] for i in range(0, 120, 13)}
    done = run(people, vectors, gone)
    np.testing.assert_array_equal(done.total, plain_sum(vectors, done.alive, 32))
    assert len(done.alive) == 120 - sum(s in STAGES[:3] for s in gone.values())


def test_a_ring_fails_closed_when_a_party_loses_its_holders(monkeypatch):
    people = ring(monkeypatch, 14, 4, 4)
    victim = 5
    around = people.session.neighbours(victim)
    gone = dict.fromkeys(around[:2], "mask")
    vectors = {i: [i] for i in range(14)}
    done = run(people, vectors, gone)
    assert isinstance(done.failure, server.TooFew)
    assert "do not open the secret" in str(done.failure)


class Asked(dict):
    """Shares by holder; counts how often they are asked for, and cannot be walked through."""

    count = 0

    def __getitem__(self, holder):
        self.count += 1
        return super().__getitem__(holder)

    def get(self, holder, default=None):
        self.count += 1
        return super().get(holder, default)

    def __iter__(self):
        raise AssertionError("all holders are walked through for one party's secret")

    items = keys = values = __iter__


def test_opening_asks_the_holders_of_each_secret_only(monkeypatch):
    """Walking through all parties for each secret made opening quadratic: 40 n here, 2 (k + 1) n
    at most now."""
    people = ring(monkeypatch, 40, 4, 4)
    vectors = {i: [i] for i in range(40)}
    seen = []
    opened = server.open_sum

    def counted(survivors, shares):
        seen.append(Asked(shares))
        return opened(survivors, seen[-1])

    monkeypatch.setattr(server, "open_sum", counted)
    done = run(people, vectors, {7: "mask"})
    np.testing.assert_array_equal(done.total, plain_sum(vectors, done.alive, 32))
    assert 0 < seen[0].count <= 2 * 40 * 5


# -------------------------------------------------- sizes tell nothing private


class Sizes(Relay):
    """Writes down how many bytes go where."""

    def __init__(self):
        self.seen = []

    def receive(self, stage, sender, message):
        self.seen.append(("sent", stage, sender, size_of(message)))
        return message

    def show(self, stage, receiver, shown):
        self.seen.append(("shown", stage, receiver, size_of(shown)))
        return shown


def size_of(message):
    if isinstance(message, np.ndarray):
        return message.nbytes
    if isinstance(message, bytes):
        return len(message)
    if isinstance(message, dict):
        return tuple((key, size_of(value)) for key, value in sorted(message.items()))
    return tuple(size_of(part) for part in message or ())


def test_message_sizes_follow_from_public_facts_alone():
    """Numbers of records, values and noise change no size; the roster and the dimension do."""
    seen = []
    for values in (np.zeros(9, np.int64), np.full(9, -(2**63)), np.arange(9) * 2**40):
        relay = Sizes()
        run(crowd(5, 4), {i: values * (i + 1) for i in range(5)}, relay=relay)
        seen.append(relay.seen)
    assert seen[0] == seen[1] == seen[2]
    sent = {stage: size for kind, stage, who, size in seen[0] if kind == "sent" and who == 0}
    assert sent["announce"] == (64, 64)
    assert sent["deal"] == (32, 64, tuple((other, party.BOX_BYTES) for other in (1, 2, 3, 4)))
    assert sent["mask"] == (9 * 4, 64)
    assert sent["agree"] == 64
    assert sent["unmask"] == tuple((other, 33) for other in range(5))


# ------------------------------------------------------------ bad parameters


def test_sessions_that_could_open_two_sums_are_refused():
    for parties in range(2, 9):
        for colluders in range(parties):
            for minimum in range(parties + 1):
                safe = colluders < minimum and 2 * minimum > parties + colluders
                if safe:
                    crowd(parties, minimum, colluders)
                else:
                    roster = crowd(parties).session.roster
                    with pytest.raises(InvalidInput):
                        Session(roster, b"", minimum, colluders)
