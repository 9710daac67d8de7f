"""Ranges of columns without bounds: near the truth where they can be, and paid for in full."""

import math

import numpy as np
import pytest

from unisono.accounting.accountant import ACCOUNTANT
from unisono.algorithms import ranges
from unisono.algorithms.quantiles import Tree
from unisono.algorithms.ranges import COARSE, EXACT, column_range, likeliest_range, ordered
from unisono.attacks.audit import audit, check
from unisono.core.algorithm import agree_facts
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.privacy import Privacy
from unisono.core.study import Party
from unisono.core.trust import SERVER, Relation, Trust
from unisono.core.values import Private
from unisono.engines import in_process
from unisono.errors import AuditFailed
from unisono.releases.together import together
from unisono.scaling import private_ranges

SIZES = (300, 350, 350)


def columns(records, generator):
    """Years, a laboratory value, counts that are mostly zero, small changes about zero."""
    return np.column_stack(
        [
            generator.normal(1970, 15, records),
            generator.lognormal(-5, 0.6, records),
            generator.poisson(3, records) * (generator.random(records) < 0.3),
            generator.normal(0, 1e4, records),
        ]
    )


def released(epsilon, sizes, seed=0, trust=Trust.SECURE_SUM, delta=1e-6, data=None):
    generator = np.random.default_rng(seed)
    rows = columns(sum(sizes), generator) if data is None else data
    parts = np.split(rows, np.cumsum(sizes)[:-1])
    names = [f"column {j}" for j in range(rows.shape[1])]
    facts = agree_facts(sizes, rows.shape[1], trust)
    asked = private_ranges(names, Privacy(epsilon, delta), facts, trust)
    parties = [
        Party(
            f"p{j}",
            Private((part.astype(np.float32),)),
            Ledger.in_memory(
                Policy(f"d{j}", Budget(1e6, 1e-5), colluders=facts.colluders),
                ACCOUNTANT,
                seed=seed,
            ),
        )
        for j, part in enumerate(parts)
    ]
    return asked, in_process.run(asked.study, parties), rows


@pytest.mark.parametrize(("epsilon", "tree"), [(0.7, COARSE), (60.0, EXACT)])
def test_ranges_hold_most_records_and_not_much_more(epsilon, tree):
    """With much noise within a factor of a few, with little noise by the quantiles themselves."""
    asked, result, rows = released(epsilon, SIZES)
    assert asked.survey.questions[0].settings == column_range(0, "", tree).settings
    found = asked.read(result.value)
    assert list(found) == [f"column {j}" for j in range(4)]
    for own, (low, centre, high) in zip(rows.T, found.values(), strict=True):
        assert low <= centre <= high
        assert low < high
        assert np.mean((own >= low) & (own <= high)) > 0.85
        widest = 2.5 if tree is EXACT else 12
        true = np.quantile(own, 0.99) - np.quantile(own, 0.01)
        if tree is EXACT or own.mean() < 1000:  # coarse cells tell years apart by a factor of two
            assert high - low < widest * true
    assert result.certificate.epsilon(SERVER, Relation.REPLACE_ONE) <= epsilon


def test_sparse_columns_stay_centred_at_zero():
    asked, result, _ = released(1.0, SIZES)
    low, centre, high = asked.read(result.value)["column 2"]
    assert (low, centre) == (0.0, 0.0)
    assert 3 < high < 40


@pytest.mark.parametrize("zeros", [0.85, 0.93])
def test_a_column_of_mostly_zeros_has_a_range(zeros):
    """As shares of words in e-mails: a range of 1e-9 would make weights of 1e9. Of 40 draws none
    may fail."""
    generator = np.random.default_rng(4)
    values = np.where(generator.random(4600) < zeros, 0.0, generator.exponential(0.7, 4600))
    cells = np.clip(np.searchsorted(COARSE.edges, values, side="right") - 1, 0, 127)
    counts = np.bincount(cells, minlength=128).astype(float)
    for _ in range(40):
        noisy = counts + generator.normal(0, 30.0, 128)
        assert 0.1 < likeliest_range(noisy, 30.0, len(values)).high < 10


@pytest.mark.parametrize("trust", list(Trust))
def test_public_facts_decide_the_tree(trust):
    few, many = (
        private_ranges(["a"], Privacy(1.0, 1e-7), agree_facts(sizes, 1, trust), trust)
        for sizes in ((100, 100), (10**6, 10**6))
    )
    assert few.ratio < many.ratio
    assert dict(few.survey.questions[0].settings)["depth"] == 1
    assert dict(many.survey.questions[0].settings)["depth"] == 3


def test_missing_values_count_nowhere():
    generator = np.random.default_rng(1)
    own = generator.normal(50, 5, (1000, 1))
    own[:400] = np.nan
    asked, result, _ = released(2.0, SIZES, data=own)
    low, centre, high = asked.read(result.value)["column 0"]
    assert low < 45
    assert 35 < centre < 75
    assert 55 < high < 130


def test_a_matched_law_beats_single_cells():
    """30 columns of 400 records with noise of 60: nine of ten ranges are right
    within a factor of 4, where the largest cell alone is right in far fewer."""
    generator = np.random.default_rng(2)
    matched = largest = 0
    for _ in range(100):
        scale = 2.0 ** generator.uniform(-8, 12)
        own = generator.gamma(4, scale / 4, 400)
        counts = np.histogram(own, COARSE.edges)[0] + generator.normal(0, 60, 128)
        matched += scale / 4 < likeliest_range(counts, 60, 400).centre < scale * 4
        cell = int(np.argmax(counts))
        largest += scale / 4 < COARSE.edges[cell : cell + 2].mean() < scale * 4
    assert matched >= 90
    assert matched > largest


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ((1.0, 1.0, 1.0), (0.999, 1.0, 1.001)),
        ((0.0, 0.0, 0.0), None),
        ((1.23456789, 2.0, 3.0), (1.23457, 2.0, 3.0)),
        ((1.0, 0.5, 3.0), (1.0, 1.0, 3.0)),
    ],
)
def test_a_range_is_always_one(ends, expected):
    found = ordered(*ends)
    assert found.low < found.high
    assert expected is None or tuple(found) == pytest.approx(expected)


# ------------------------------------------------------------- what it costs


def scores(epsilon, runs=8):
    """Noise of cells that no record is in, in units of the distance of two neighbours."""
    noise = []
    for seed in range(runs):
        asked, result, rows = released(epsilon, (60,), seed, Trust.LOCAL, delta=1e-5)
        values = np.asarray(result.value, float)[:-2].reshape(4, 128)
        edges = np.clip(COARSE.edges, -np.inf, np.inf)
        for own, counted in zip(rows.T, values, strict=True):
            held = np.histogram(own, edges)[0] > 0
            # A step of the fixed grid is the unit of what is opened.
            noise.append(counted[~held])
    step = asked.study.algorithm.grid(asked.study.facts, asked.study.trust)
    [factor, *_] = asked.survey.table(asked.study.facts).factors(Privacy(epsilon, 1e-5), step)
    distance = math.sqrt(2 * 4)  # one record replaced: another cell of each of four columns
    return np.concatenate(noise) / (factor * step) / distance


def test_an_audit_finds_no_more_than_was_promised_and_would_find_twice_as_much():
    """Noise is independent from cell to cell, so that each empty one is a run of the best test of
    two neighbours. Seeds are fixed; a right audit fails one choice of them in twenty."""
    noise = scores(1.0)
    half = len(noise) // 2
    assert half > 1500
    check(1.0, 1e-5, audit(noise[:half] + 1.0, noise[half : 2 * half], 1e-5))
    with pytest.raises(AuditFailed):
        check(1.0, 1e-5, audit(noise[:half] / 2 + 1.0, noise[half : 2 * half] / 2, 1e-5))


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_two_releases_keep_one_promise(delta):
    facts = agree_facts((500, 500), 2, Trust.SECURE_SUM)
    promise = Privacy(1.0, delta)

    def made(part):
        return private_ranges(["a", "b"], part, facts, Trust.SECURE_SUM).study

    first, rest = together(promise, 0.25, made, made, lambda one, other: (one.costs, other.costs))
    whole = first.cost[SERVER] + rest.cost[SERVER]
    spent = ACCOUNTANT.epsilon(whole, Relation.REPLACE_ONE, delta)
    assert 0.95 < spent <= 1.0
    least = 0.75 if delta == 0 else 0.9  # Gaussian noise adds up in squares
    assert ACCOUNTANT.epsilon(rest.cost[SERVER], Relation.REPLACE_ONE, delta) >= least - 1e-6


def test_the_dictionary_holds_laws():
    laws = ranges.dictionary(ranges.BEYOND)
    assert np.all(laws.cells >= -1e-12)
    assert laws.cells.sum(axis=1) == pytest.approx(1.0, abs=1e-3)
    assert np.all(np.diff(laws.quantiles, axis=1) >= 0)
    assert isinstance(COARSE, Tree)
