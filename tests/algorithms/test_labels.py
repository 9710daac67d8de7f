"""Labels that nobody has listed: found where they can be, and paid for in full."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unisono.accounting.accountant import ACCOUNTANT
from unisono.algorithms.labels import USUAL, frequent, least_count, least_spelt, ordered
from unisono.attacks.audit import audit, check
from unisono.core.algorithm import agree_facts
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.privacy import Privacy
from unisono.core.study import Party
from unisono.core.trust import SERVER, Relation, Trust
from unisono.core.values import Private
from unisono.data.spelling import GRID, among, identities, label_of, places, readable, spelt
from unisono.engines import in_process
from unisono.errors import AuditFailed, InvalidInput
from unisono.scaling import Wanted, private_ranges

NOISE = 64.0


def noisy(counts, seed, noise=NOISE):
    found = np.random.default_rng(seed).normal(0, noise, (GRID.levels, GRID.width))
    for label, count in counts.items():
        found[np.arange(GRID.levels), list(spelt(label))] += count
    return found


def released(labels, epsilon, sizes, trust=Trust.SECURE_SUM, seed=0, delta=1e-6):
    facts = agree_facts(sizes, 1, trust)
    asked = private_ranges([], Privacy(epsilon, delta), facts, trust, {"kind": Wanted(2)})
    parties = [
        Party(
            f"p{number}",
            Private((places(part),)),
            Ledger.in_memory(
                Policy(f"d{number}", Budget(1e6, 1e-5), colluders=facts.colluders),
                ACCOUNTANT,
                seed=seed,
            ),
        )
        for number, part in enumerate(np.split(labels, np.cumsum(sizes)[:-1]))
    ]
    return asked, in_process.run(asked.study, parties)


# ------------------------------------------------------------- one label


@settings(deadline=None)
@given(st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=15))
def test_a_short_label_can_be_read_from_its_places(label):
    own = spelt(label)
    assert readable([place % GRID.symbols for place in own]) == label
    assert len({place // GRID.symbols for place in own}) == 1  # one cell
    assert all(0 <= place < GRID.width for place in own)


@given(st.lists(st.one_of(st.text(), st.integers(), st.floats(), st.none(), st.booleans())))
@settings(max_examples=60, deadline=None)
def test_each_label_is_read_by_itself(values):
    """Of any record the same is made, whatever the others hold."""
    for place, value in enumerate(values):
        assert np.array_equal(places(values)[place], places([value])[0], equal_nan=True)
        assert np.array_equal(identities(values)[place], identities([value])[0], equal_nan=True)
        known = label_of(value)
        assert np.isnan(places([value])).all() == (known is None)
        if known is not None:
            assert among(identities([value]), ["another one", known]) == [1]


def test_numbers_are_one_label_however_they_are_written():
    assert len({label_of(value) for value in (2, 2.0, "2", "2.0", "02", np.int8(2))}) == 1
    assert label_of("2.5") == "2.5"
    assert label_of(2**70) == str(2**70)


# ------------------------------------------------------------- many labels


@pytest.mark.parametrize(
    ("counts", "most"),
    [
        ({"0": 212, "1": 357}, 2),
        ({str(number): 200 for number in range(10)}, 12),
        ({"yes": 200, "no": 150}, 5),
        ({"Art 1": 600, "Art 2": 900, "q": 700, "zzz-9": 800}, 6),
    ],
)
def test_labels_are_found_and_no_others(counts, most):
    """Right in each of 10 noisy grids; wrong ones, once in a thousand."""
    for seed in range(10):
        assert set(frequent(noisy(counts, seed), NOISE, most)) == set(counts)


def test_noise_alone_shows_no_label():
    assert all(frequent(noisy({}, seed), NOISE, 2) == [] for seed in range(100))


def test_the_fullest_come_first_and_no_more_than_asked_for():
    counts = {"0": 2000, "1": 1000, "2": 500, "3": 300}
    assert frequent(noisy(counts, 0), NOISE, 3) == ["0", "1", "2"]


def test_labels_of_one_cell_are_told_apart():
    """Two labels whose hash is the same share a cell: the fuller one is read, then the other."""
    words = [f"word {a}{b}" for a in "abcdefghij" for b in "abcdefghij"]
    cell = {word: spelt(word)[0] // GRID.symbols for word in words}
    one = words[0]
    other = next(word for word in words[1:] if cell[word] == cell[one])
    assert frequent(noisy({one: 3000, other: 1000}, 1), NOISE, 4) == [one, other]


def test_how_few_records_are_enough_is_stated_rightly():
    """Twice the stated number is found in each of 20 grids, half of it in none."""
    for seed in range(20):
        for label, least in (("7", least_count(NOISE)), ("Art 7", least_spelt(NOISE))):
            assert frequent(noisy({label: 2 * least}, seed), NOISE, 2) == [label]
            assert frequent(noisy({label: least / 3}, seed), NOISE, 2) == []


def test_a_label_too_long_to_be_spelt_is_found_by_who_expects_it():
    label = "chronic obstructive pulmonary disease"
    counts = noisy({label: 5000}, 0)
    assert frequent(counts, NOISE, 2) == []
    assert frequent(counts, NOISE, 2, (label, *USUAL)) == [label]


def test_numbers_come_in_order_and_before_words():
    assert ordered(["b", "10", "9", "-1", "a"]) == ("-1", "9", "10", "a", "b")


# ------------------------------------------------------------- what it costs


@pytest.mark.parametrize("trust", [Trust.LOCAL, Trust.SECURE_SUM])
def test_a_release_over_parties_finds_the_labels_for_the_stated_price(trust):
    labels = np.array(["flu", "cold"])[np.arange(3000) % 2]
    asked, result = released(labels, 3.0, (1000, 1500, 500), trust)
    assert asked.read(result.value)["kind"].names == ("cold", "flu")
    assert result.certificate.epsilon(SERVER, Relation.REPLACE_ONE) <= 3.0
    distance = asked.study.algorithm.event(asked.study.facts, trust).sensitivity
    found = distance.under(Relation.REPLACE_ONE).in_norm("l2")
    assert found == pytest.approx(math.sqrt(2 * GRID.levels), rel=1e-3)


def test_pure_epsilon_is_refused_with_the_remedy():
    facts = agree_facts((100,), 1, Trust.LOCAL)
    with pytest.raises(InvalidInput, match="list them from public knowledge"):
        private_ranges([], Privacy(1.0), facts, Trust.LOCAL, {"kind": Wanted(2)})


def test_an_audit_finds_no_more_than_was_promised_and_would_find_twice_as_much():
    """Noise is independent from place to place, so that each empty one is a run of the best test of
    two neighbours. Seeds are fixed; a right audit fails one choice of them in twenty."""
    asked, result = released(np.array(["a"] * 60), 1.0, (60,), Trust.LOCAL, delta=1e-5)
    values = np.asarray(result.value, float)[:-2]
    step = asked.study.algorithm.grid(asked.study.facts, asked.study.trust)
    [factor] = asked.survey.table(asked.study.facts).factors(Privacy(1.0, 1e-5), step)
    empty = np.ones(values.shape, bool)
    empty[np.arange(GRID.levels) * GRID.width + np.array(spelt("a"))] = False
    noise = values[empty] / (factor * step) / math.sqrt(2 * GRID.levels)
    half = len(noise) // 2
    check(1.0, 1e-5, audit(noise[:half] + 1.0, noise[half : 2 * half], 1e-5))
    with pytest.raises(AuditFailed):
        check(1.0, 1e-5, audit(noise[:half] / 2 + 1.0, noise[half : 2 * half] / 2, 1e-5))
