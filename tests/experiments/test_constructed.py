"""Experiments that the sources never ran, in their quick form, beside independent calculations.

Draws come from fixed seeds. Ranges leave at least four standard errors, so that a change of the
random streams raises a false alarm in fewer than one out of a thousand runs of this file.
"""

import math

import numpy as np
import pytest
from matplotlib.figure import Figure

from unisono.core.algorithm import Facts
from unisono.core.study import Study
from unisono.core.trust import Trust
from unisono.engines import in_process
from unisono.experiments import (
    composition,
    histogram_accuracy,
    noise_by_dimension,
    output_or_gradient,
    sgd_bounds,
    simulation,
)
from unisono.experiments.findings import ExpectedNumber

from .. import methods

MODULES = (
    composition,
    histogram_accuracy,
    noise_by_dimension,
    pytest.param(output_or_gradient, marks=pytest.mark.slow),
    pytest.param(sgd_bounds, marks=pytest.mark.slow),
)


@pytest.mark.parametrize("module", MODULES, ids=lambda m: m.__name__.rsplit(".", 1)[1])
def test_every_number_is_as_expected_and_can_be_drawn(module):
    found = module.run(True)
    assert len(found.numbers) >= 5
    assert [number for number in found.numbers if not number.as_expected] == []
    figure = Figure(figsize=found.size)
    found.draw(figure)
    assert figure.axes
    assert all(len(remark) > 30 for remark in found.remarks)


def test_a_number_outside_its_range_is_not_as_expected():
    assert not ExpectedNumber("error", 0.2, 0.3, 0.4).as_expected
    assert not ExpectedNumber("error", math.nan, 0.3, 0.4).as_expected


def test_simulated_runs_are_those_of_the_engine():
    """Without noise both give the same model; with noise they differ from it, and by draw."""
    data = simulation.logistic_records(3, 40, 4)
    facts = Facts((40, 40, 40), 4, 3)
    weak, strong = (
        Study(methods.gradient_perturbation(epsilon, 1e-6, rounds=10), facts, Trust.SECURE_SUM)
        for epsilon in (3000.0, 1.0)
    )
    ours = simulation.simulate(weak, data, 1, silent=True)[0]
    theirs = in_process.run(weak, simulation.simulated_parties(data, 1)).value
    assert np.linalg.norm(ours) > 0.1
    assert ours == pytest.approx(theirs, abs=0.02 * np.linalg.norm(ours))
    noisy = simulation.simulate(strong, data, 2)
    assert np.linalg.norm(noisy - ours, axis=1).min() > 0.05
    assert not np.allclose(noisy[0], noisy[1])


@pytest.mark.parametrize("trust", list(Trust))
def test_simulated_noise_has_the_variance_that_the_trust_says(trust):
    """One round from zero: θ = -η (g + noise)/n. 2,000 draws x 4 numbers: variance within 8 %,
    more than four standard errors."""
    data, facts = simulation.logistic_records(5, 30, 4), Facts((30,) * 5, 4, 5)
    method = methods.gradient_perturbation(1.0, 1e-6, rounds=1, learning_rate=1.0)
    study = Study(method, facts, trust)
    models = simulation.simulate(study, data, 2000)
    places = 5 if trust is Trust.LOCAL else 1
    std = study.algorithm.event(facts, trust).noise.std * math.sqrt(places) / 150
    assert np.mean(models.var(axis=0)) == pytest.approx(std**2, rel=0.08)


def test_least_risk_is_a_minimum_in_the_ball():
    data = simulation.logistic_records(2, 100, 3)
    generator = np.random.default_rng(0)
    points = generator.normal(size=(500, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    inside = simulation.logistic_risks(points * generator.uniform(0, 1, (500, 1)), data, 0.1)
    least = simulation.least_risk(data, 0.1, radius=1.0)
    assert least <= inside.min() + 1e-9
    assert least == pytest.approx(inside.min(), abs=0.02)
    assert simulation.least_risk(data, 0.1) < least


@pytest.mark.parametrize("p", [1, 3, 40])
def test_mean_length_of_laplace_noise(p):
    """NumPy's own Laplace noise, 40,000 vectors: 1 % is at least two standard errors for p = 1
    (fixed seed) and more than six beyond."""
    drawn = np.random.default_rng(p).laplace(size=(40_000, p))
    expected = math.sqrt(p) * np.linalg.norm(drawn, axis=1).mean()
    assert noise_by_dimension.expected_length("Laplace", p) == pytest.approx(expected, rel=0.01)


def test_the_cross_over_is_at_18_and_moves_with_delta():
    assert noise_by_dimension.first_win("norm") == 18
    assert noise_by_dimension.first_win("norm", delta=1e-8) > 18
    # Of 17 and 18 coordinates only the longer vector is better off with Gaussian noise.
    assert noise_by_dimension.expected_length("Gaussian", 17) > 17
    assert noise_by_dimension.expected_length("Gaussian", 18) < 18


def test_failure_rate_of_the_corollary_by_hand():
    """Two cells at scale 4: bound 4 log 40 = 14.76, so the first integer that fails is 15."""
    q = math.exp(-0.25)
    one = 1 - sum(q ** abs(k) * (1 - q) / (1 + q) for k in range(-14, 15))
    assert histogram_accuracy.bound(2) == pytest.approx(4 * math.log(40))
    assert histogram_accuracy.exact_failure(2) == pytest.approx(1 - (1 - one) ** 2, rel=1e-9)


def test_the_square_root_formula_turns_false_exactly_there():
    for epsilon in composition.EPSILONS:
        count = composition.first_false(epsilon)
        for shift, false in ((0, True), (-1, False)):
            claim = composition.published_sqrt6(epsilon, count + shift, composition.DELTA)
            truth = composition.totals(epsilon, count + shift)["optimal"]
            assert (claim < truth) is false


def test_who_knows_the_order_sees_more():
    """E004-5 at 300 records: claimed 0.5, recorded 0.73 against the coordinator."""
    views = sgd_bounds.published_views(300)
    assert views["b"] == pytest.approx(0.73, abs=0.006)
    assert views["a"] < views["c"] < sgd_bounds.CLAIM < views["b"]
