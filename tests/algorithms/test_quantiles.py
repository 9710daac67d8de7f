"""Quantiles from one noisy tree: exact without noise, consistent, with intervals that hold."""

import math
from functools import partial
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unisono.accounting.accountant import ACCOUNTANT
from unisono.algorithms.quantiles import (
    Tree,
    consistent_leaves,
    distribution,
    invert,
    median,
    quantiles,
    rank_variance,
)
from unisono.core.algorithm import agree_facts
from unisono.core.compiled import numbers
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.release import noise_steps
from unisono.core.study import Party, Study
from unisono.core.trust import ITERATES, Relation, Trust
from unisono.core.values import Private
from unisono.engines import in_process
from unisono.errors import InvalidInput

from ..methods import statistics

SIZES = (400, 250, 350)
LEVELS = ("minimum", 0.1, 0.5, 0.9, "maximum")
AGES = [np.random.default_rng(j).gamma(4, 10, n)[:, None] for j, n in enumerate(SIZES)]


COMPILED = {}


def agreed(method, trust=Trust.SECURE_SUM, **facts):
    return Study(method, agree_facts(SIZES, 1, trust, **facts), trust)


def members(seed=3):
    return [
        Party(
            f"p{j}",
            Private((rows,)),
            Ledger.in_memory(
                Policy(f"d{j}", Budget(1e9, 1e-5), colluders=1), ACCOUNTANT, seed=seed
            ),
        )
        for j, rows in enumerate(AGES)
    ]


def encoded(study, rows, mask=None):
    """All records' contribution: rows are rounded one by one, so parties need not be told apart."""
    mask = np.ones(len(rows), bool) if mask is None else np.asarray(mask)
    if study.hash not in COMPILED:
        COMPILED[study.hash] = jax.jit(
            numbers(partial(study.algorithm.local, study.facts, (), None))
        )
    value = COMPILED[study.hash]((np.asarray(rows, np.float32),), mask)[1]
    return np.asarray(value).astype(np.int64)


def noisy_results(study, runs, seed):
    facts, trust, algorithm = study.facts, study.trust, study.algorithm
    event, grid = algorithm.event(facts, trust), algorithm.grid(facts, trust)
    clean = encoded(study, np.concatenate(AGES))
    totals = np.tile(clean, (runs, 1))
    for source in range(len(SIZES)):
        key = np.random.default_rng([seed, source]).bytes(32)
        totals = totals + noise_steps(key, event, grid, totals.shape, facts.honest, clean.shape)
    ends = np.tile([len(SIZES), sum(SIZES)], (runs, 1))
    return [
        SimpleNamespace(value=row, certificate=None)
        for row in np.concatenate([totals * grid, ends], axis=1)
    ]


def nodes_of(leaves, tree):
    counts = [tree.branching**level for level in range(1, tree.levels + 1)]
    return np.concatenate([leaves.reshape(count, -1).sum(axis=1) for count in counts])


@pytest.mark.parametrize("exact", [True, False])
def test_quantiles_without_noise(exact):
    method = statistics([quantiles(0, (0, 200), LEVELS, name="age")], 1e6)
    study = agreed(method, exact_sizes=exact)
    found = method.problem.read(study, in_process.run(study, members()))
    rows = np.sort(np.concatenate(AGES)[:, 0])
    leaf = 200 / 16**3
    assert rows[0] - leaf <= found[0].value <= rows[3] + leaf
    assert rows[-4] - leaf <= found[-1].value <= rows[-1] + leaf
    middle = [e.value for e in found[1:4]]
    assert middle == pytest.approx(np.quantile(rows, [0.1, 0.5, 0.9]).tolist(), abs=0.3)
    assert "not the minimum itself" in found[0].text
    assert found[2].name == "median of age"


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("exact", [True, False])
def test_intervals_hold(delta, exact):
    """95 % intervals miss more than 16 of 100 times with probability below 1e-4; they are
    conservative by up to one leaf."""
    method = statistics([quantiles(0, (0, 200), (0.1, 0.5, 0.9), branching=8)], 1.0, delta)
    study = agreed(method, exact_sizes=exact)
    truth = np.quantile(np.concatenate(AGES)[:, 0], [0.1, 0.5, 0.9])
    misses, widths = np.zeros(3), []
    for result in noisy_results(study, 100, 4):
        for i, estimate in enumerate(method.problem.read(study, result)):
            low, high = estimate.interval
            assert low <= estimate.value <= high
            misses[i] += not low <= truth[i] <= high
            widths.append(high - low)
    assert np.all(misses <= 16)
    assert np.mean(widths) < 60


@given(st.sampled_from([(2, 4), (3, 2), (4, 3), (16, 1)]), st.integers(0, 2**32 - 1), st.booleans())
@settings(max_examples=40, deadline=None)
def test_consistency_is_least_squares(shape, seed, known):
    """The two passes give the minimiser over leaves, under a fixed root if it is known."""
    tree = Tree(0, 1, *shape)
    generator = np.random.default_rng(seed)
    leaves = generator.integers(0, 30, tree.leaves).astype(float)
    nodes = nodes_of(leaves, tree) + generator.normal(size=tree.nodes)
    design = np.stack([nodes_of(row, tree) for row in np.eye(tree.leaves)], axis=1)
    root = float(leaves.sum()) if known else None
    found = consistent_leaves(nodes, tree, root)
    weight = 1e5 if known else 0.0
    system = np.vstack([design, weight * np.ones(tree.leaves)])
    goal = np.append(nodes, weight * leaves.sum())
    best = np.linalg.lstsq(system, goal, rcond=None)[0]
    assert found == pytest.approx(best, abs=1e-4)
    if known:
        assert found.sum() == pytest.approx(root)


@pytest.mark.parametrize("shape", [(2, 4), (3, 3), (4, 2), (5, 1)])
@pytest.mark.parametrize("share", [0.05, 0.5, 0.8])
@pytest.mark.parametrize("known", [True, False])
def test_the_variance_of_ranks_is_that_of_least_squares(shape, share, known):
    """And no node weighs more than 1, which `error_margin` needs of Laplace noise."""
    tree = Tree(0.0, 1.0, *shape)
    root = 0.0 if known else None
    leaves = np.stack([consistent_leaves(one, tree, root) for one in np.eye(tree.nodes)], axis=1)
    found = rank_variance(tree, share, known)
    for edge in range(tree.leaves + 1):
        below = (np.arange(tree.leaves) < edge).astype(float)
        weights = (below if known else below - share) @ leaves
        assert found[edge] == pytest.approx(np.square(weights).sum(), abs=1e-12)
        assert np.abs(weights).max() <= 1 + 1e-12


@given(st.integers(0, 2**32 - 1), st.floats(0, 1), st.booleans())
@settings(max_examples=40, deadline=None)
def test_distribution_is_monotone_and_inverts_within_the_range(seed, level, known):
    tree = Tree(-5, 7, 4, 3)
    nodes = np.random.default_rng(seed).normal(scale=20, size=tree.nodes)
    counts = distribution(nodes, tree, 50.0 if known else None)
    assert np.all(np.diff(counts) >= -1e-9)
    assert counts[0] == 0
    assert -5 <= invert(counts, tree.edges, level * counts[-1]) <= 7


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_sensitivity_by_brute_force(delta):
    """All ways to replace, take away or add one record move the tree as stated, and no less."""
    method = statistics([quantiles(0, (0, 16), (0.5,), branching=4, depth=2)], 1.0, delta)
    study = Study(
        method,
        agree_facts((3, 3), 1, Trust.SECURE_SUM, exact_sizes=False),
        Trust.SECURE_SUM,
    )
    grid = study.algorithm.grid(study.facts, study.trust)
    bounds = study.algorithm.event(study.facts, study.trust).sensitivity
    values = [-3.0, 0.0, 0.5, 5.0, 15.9, 99.0, np.nan]
    worlds = [encoded(study, [[1.0], [value], [8.0]]) for value in values]
    without = encoded(study, [[1.0], [2.0], [8.0]], [True, False, True])
    swaps = [np.abs(a - b) * grid for a in worlds for b in worlds]
    taken = [np.abs(a - without) * grid for a in worlds]
    for gaps, bound in ((swaps, bounds.replace_one), (taken, bounds.zero_out)):
        assert max(g.sum() for g in gaps) == pytest.approx(bound.l1)
        assert max(math.sqrt((g**2).sum()) for g in gaps) == pytest.approx(bound.l2)
    assert bounds.add_or_remove == bounds.zero_out


@pytest.mark.slow  # tests/engines/test_conformance.py has it on every trust
def test_engines_agree():
    loopback = pytest.importorskip("unisono.engines.flower.loopback")
    method = statistics([quantiles(0, (0, 200), (0.5,), branching=4)], 1.0, 1e-6)
    study = agreed(method)
    values, books = [], []
    for run in (in_process.run, loopback.run):
        parties = members()
        values.append(run(study, parties).value)
        books.append([p.ledger.history(ITERATES) for p in parties])
    assert books[0] == books[1]
    grid = study.algorithm.grid(study.facts, study.trust)
    assert np.abs(values[0] - values[1]).max() <= 6 * grid * (1 + 1e-3)


def test_wide_ranges_are_resolved_on_a_curved_scale():
    tree = Tree(-1e9, 1e9, fine=1.0)
    edges = tree.edges
    assert np.all(np.diff(edges) > 0)
    near, far = np.diff(edges)[[tree.leaves // 2, -1]]
    assert near < 0.02
    assert far < 0.02 * 1e9
    method = statistics([median(0, (-1e9, 1e9), fine=1.0, name="age")], 1e6)
    study = agreed(method)
    found = method.problem.read(study, noisy_results(study, 1, 0)[0])[0]
    assert found.value == pytest.approx(np.median(np.concatenate(AGES)), rel=0.02)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: quantiles(0, (0, 1), (1.5,)), "between 0 and 1"),
        (lambda: quantiles(0, (0, 1), (math.nan,)), "between 0 and 1"),
        (lambda: quantiles(0, (0, 1), ("middle",)), "'minimum' or 'maximum'"),
        (lambda: quantiles(0, (1, 0), (0.5,)), "not a finite range"),
        (lambda: Tree(0, 1, branching=1), "at least 2 branches"),
        (lambda: Tree(0, 1, branching=64, levels=8), "2\\^20 leaves"),
        (lambda: Tree(0, 1, fine=0.0), "positive"),
        (
            lambda: agreed(statistics([median(0, (0, 1))], 1.0, 0, Relation.ADD_OR_REMOVE)),
            "exact sizes",
        ),
    ],
)
def test_bad_questions_are_refused(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()
