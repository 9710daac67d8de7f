"""k-means over parties: finds separated clusters, bounds hold, both engines agree."""

import math

import jax
import numpy as np
import pytest

from unisono.accounting.accountant import ACCOUNTANT
from unisono.algorithms.clustering import first_centres, read_clusters
from unisono.core.algorithm import agree_facts
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.study import Party, Study
from unisono.core.trust import ITERATES, SERVER, Relation, Trust
from unisono.core.values import Private
from unisono.engines import in_process
from unisono.errors import InvalidInput

from ..methods import k_means

SIZES = (400, 300, 500)
BOUNDS = ((0.0, 10.0), (-50.0, 50.0))
CENTRES = np.array([[2.0, -30.0], [8.0, -20.0], [5.0, 35.0]])


def records(sizes=SIZES, seed=0):
    generator = np.random.default_rng(seed)
    return [
        CENTRES[generator.integers(0, 3, n)] + generator.normal(size=(n, 2)) * [0.4, 4.0]
        for n in sizes
    ]


def members(data, seed=2):
    return [
        Party(
            f"p{j}",
            Private((rows,)),
            Ledger.in_memory(
                Policy(f"d{j}", Budget(1e9, 1e-5), colluders=1), ACCOUNTANT, seed=seed
            ),
        )
        for j, rows in enumerate(data)
    ]


def agreed(method, trust=Trust.SECURE_SUM, sizes=SIZES, **facts):
    return Study(method, agree_facts(sizes, 2, trust, colluders=1, **facts), trust)


@pytest.mark.parametrize("epsilon", [2.0, 1e5])
def test_finds_the_clusters(epsilon):
    method = k_means(BOUNDS, 3, epsilon, 1e-6)
    data = records()
    study = agreed(method)
    found = read_clusters(method.problem, study, in_process.run(study, members(data)))
    order = found.nearest(CENTRES, BOUNDS)
    assert sorted(order) == [0, 1, 2]
    distance = np.abs(found.centres[order] - CENTRES)
    assert np.all(distance < found.margin[order] + [0.2, 2.0])
    sizes = np.bincount(found.nearest(np.concatenate(data), BOUNDS), minlength=3)
    assert np.all(np.abs(found.sizes - sizes) <= found.size_margin + 30)
    assert "records around" in found.text


def test_without_noise_it_is_lloyds_algorithm():
    method = k_means(BOUNDS, 3, 1e6, 1e-6, rounds=3)
    data = np.concatenate(records())
    study = agreed(method)
    found = read_clusters(method.problem, study, in_process.run(study, members(records())))
    low, high = np.array(BOUNDS).T
    unit = (2 * (np.clip(data, low, high) - low) / (high - low) - 1) / math.sqrt(2)
    centres = first_centres(3, 2)
    for _ in range(3):
        nearest = np.argmin(((unit[:, None] - centres) ** 2).sum(axis=2), axis=1)
        centres = np.array([unit[nearest == c].mean(axis=0) for c in range(3)])
    expected = (centres * math.sqrt(2) + 1) * (high - low) / 2 + low
    assert found.centres == pytest.approx(expected, rel=1e-2, abs=1e-2)


def test_first_centres_are_public_and_inside():
    centres = first_centres(20, 2)
    assert np.array_equal(centres, first_centres(20, 2))
    assert np.all(np.linalg.norm(centres, axis=1) <= 1)
    assert len(np.unique(centres, axis=0)) == 20


def test_sensitivity_by_brute_force():
    method = k_means(BOUNDS, 3, 1.0, 1e-6)
    study = agreed(method, sizes=(4, 4), exact_sizes=False)
    algorithm, facts = study.algorithm, study.facts
    grid, bound = (
        algorithm.grid(facts, study.trust),
        algorithm.event(facts, study.trust).sensitivity,
    )
    public = algorithm.ask(algorithm.init(facts)[0])
    one = jax.jit(lambda rows, mask: algorithm.local(facts, public, None, (rows,), mask)[1].value)
    generator = np.random.default_rng(1)
    largest = dict.fromkeys(Relation, 0.0)

    def record():
        corner = [generator.choice([-9, 0, 10, 99]), generator.choice([-50, 50, 1e6, np.nan])]
        inner = [generator.uniform(0, 10), generator.uniform(-50, 50)]
        return np.where(generator.random(2) < 0.7, corner, inner)

    for _ in range(200):
        rows = np.stack([record() for _ in range(4)]).astype(np.float32)
        other = rows.copy()
        other[1] = record()
        everyone, without = np.ones(4, bool), np.array([True, False, True, True])
        start = np.asarray(one(rows, everyone), np.int64)
        removed = one(rows[[0, 2, 3, 3]], np.array([True, True, True, False]))
        for relation, value in (
            (Relation.REPLACE_ONE, one(other, everyone)),
            (Relation.ZERO_OUT, one(rows, without)),
            (Relation.ADD_OR_REMOVE, removed),
        ):
            gap = np.linalg.norm((start - np.asarray(value, np.int64)) * grid)
            largest[relation] = max(largest[relation], gap)
    for relation, seen in largest.items():
        assert 0.95 * bound.under(relation).l2 < seen <= bound.under(relation).l2


@pytest.mark.slow  # tests/engines/test_conformance.py has it on every trust
@pytest.mark.parametrize("trust", [Trust.SECURE_SUM, Trust.TRUSTED_SERVER])
def test_engines_agree(trust):
    loopback = pytest.importorskip("unisono.engines.flower.loopback")
    study = agreed(k_means(BOUNDS, 3, 2.0, 1e-6, rounds=3), trust)
    exceptions = ((SERVER, Budget(math.inf)), ("colluders:1", Budget(math.inf)))
    values, books = [], []
    for run in (in_process.run, loopback.run):
        parties = [
            Party(
                f"p{j}",
                Private((rows,)),
                Ledger.in_memory(
                    Policy(
                        f"d{j}",
                        Budget(1e9, 1e-5),
                        exceptions if trust is Trust.TRUSTED_SERVER else (),
                        colluders=1,
                    ),
                    ACCOUNTANT,
                    seed=4,
                ),
            )
            for j, rows in enumerate(records())
        ]
        values.append(run(study, parties).value)
        books.append([p.ledger.history(ITERATES) for p in parties])
    assert books[0] == books[1]
    assert values[0] == pytest.approx(values[1], rel=1e-2, abs=1e-2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"delta": 0.0}, "no pure epsilon"),
        ({"clusters": 0}, "clusters = 0: there is at least one"),
        ({"bounds": ((1.0, 0.0),)}, "not a finite range"),
        ({"epsilon": -1.0}, "epsilon"),
    ],
)
def test_bad_settings_are_refused(options, message):
    good = {"bounds": BOUNDS, "clusters": 3, "epsilon": 1.0, "delta": 1e-6}
    with pytest.raises(InvalidInput, match=message):
        Study(k_means(**{**good, **options}), agree_facts(SIZES, 2, Trust.LOCAL), Trust.LOCAL)


def test_bounds_are_needed_for_every_column():
    method, facts = k_means(BOUNDS, 3, 1.0, 1e-6), agree_facts(SIZES, 3, Trust.LOCAL)
    with pytest.raises(InvalidInput, match="public bounds for each"):
        Study(method, facts, Trust.LOCAL)
