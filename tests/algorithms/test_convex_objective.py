"""Objective perturbation: its profile against numerical truth, its price, its use."""

import math

import numpy as np
import pytest
from scipy.special import expit

from unisono.accounting import gaussian
from unisono.accounting.accountant import ACCOUNTANT
from unisono.accounting.curve import PrivacyCurve
from unisono.algorithms import objective_perturbation as objectives
from unisono.algorithms.objective_perturbation import Settings, plan, run_objective_perturbation
from unisono.core.algorithm import Facts
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.study import Party
from unisono.core.trust import FINAL_MODEL, SERVER, Relation
from unisono.core.values import Private
from unisono.errors import BudgetExceeded, InvalidInput, UnisonoError


def toy(sizes, seed=0):
    generator = np.random.default_rng(seed)
    parties = []
    for size in sizes:
        rows = generator.normal(size=(size, 3))
        rows /= np.maximum(1, np.linalg.norm(rows, axis=1, keepdims=True))
        parties.append((rows, np.where(rows @ [2.0, -1.0, 0.5] > 0, 1.0, -1.0)))
    return parties


def members(data, epsilon=3.0, seed=1):
    return [
        Party(
            f"party-{j}",
            Private(columns),
            Ledger.in_memory(Policy(f"data-{j}", Budget(epsilon, 1e-5)), ACCOUNTANT, seed=seed),
        )
        for j, columns in enumerate(data)
    ]


def density(points, rows, labels, ridge, std):
    """Law of the perturbed minimiser of one-dimensional logistic regression, at these points."""
    slopes = -(labels * rows * expit(-labels * rows * points[:, None])).sum(1)
    curve = rows**2 * expit(rows * points[:, None]) * expit(-rows * points[:, None])
    needed = -(slopes + ridge * points)  # the b that makes a point the minimiser
    normal = np.exp(-0.5 * (needed / std) ** 2) / (std * math.sqrt(2 * math.pi))
    return normal * (curve.sum(1) + ridge)


@pytest.mark.parametrize("ridge", [0.3, 1.0, 10.0])
@pytest.mark.parametrize("std", [0.7, 3.0])
def test_the_proved_profile_bounds_the_exact_one(ridge, std):
    """Hockey-stick divergences of the exact laws, by quadrature, in every direction.

    The quadrature errs by less than 1e-6. Where the slope is nearly constant (large ridge) the
    exact law of a flipped label is a Gaussian pair of μ, so an account of 0.8 μ breaks.
    """
    points = np.linspace(-7 * (std + 4) / ridge, 7 * (std + 4) / ridge, 200_001)
    width = points[1] - points[0]
    base = (np.array([0.4, -0.8, 0.9]), np.array([1.0, 1.0, -1.0]))

    def law(row=None, label=1.0):
        rows, labels = base
        if row is not None:
            rows, labels = np.append(rows, row), np.append(labels, label)
        mass = density(points, rows, labels, ridge, std) * width
        assert mass.sum() == pytest.approx(1.0, abs=1e-6)
        return mass

    mu, bend = 1 / std, math.log1p(0.25 / ridge)
    without, plus, minus = law(), law(1.0, 1.0), law(1.0, -1.0)

    def hockey_stick(p, q, epsilon):
        return np.maximum(p - math.exp(epsilon) * q, 0).sum()

    broken = False
    for epsilon in (0.0, 0.1, 0.5, 1.0, 2.0, 3.0):
        reached = epsilon >= bend
        for record in (plus, minus):
            zero_out = gaussian.delta(epsilon - bend, mu) if reached else 1.0
            assert hockey_stick(record, without, epsilon) <= zero_out + 1e-6
            assert hockey_stick(without, record, epsilon) <= gaussian.delta(epsilon, mu) + 1e-6
        for pair in ((plus, minus), (minus, plus)) if reached else ():
            found = hockey_stick(*pair, epsilon)
            assert found <= math.exp(bend) * gaussian.delta(epsilon - bend, 2 * mu) + 1e-6
            broken |= found > math.exp(bend) * gaussian.delta(epsilon - bend, 0.8 * mu)
    assert broken or ridge < 10


@pytest.mark.parametrize("relation", [Relation.REPLACE_ONE, Relation.ZERO_OUT])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_the_whole_budget_is_spent_and_no_more(epsilon, relation):
    facts = Facts((1000, 1500), 10, 2)
    agreed = objectives.agreement(Settings(epsilon, 1e-5, relation=relation), facts)
    found = PrivacyCurve(agreed.cost[SERVER], relation).epsilon(1e-5)
    assert epsilon * 0.999 < found <= epsilon


def test_the_event_carries_the_proved_profile():
    """e^ℓ dG(ε - 2ℓ; 2μ), which exceeds the proved e^ℓ dG(ε - ℓ; 2μ)."""
    planned = plan(Settings(1.0, 1e-5, regularisation=0.01), Facts((1000,), 3, 1))
    noise, bend = planned.objective.noise, math.log1p(0.25 / 10)
    assert noise.slack == pytest.approx(bend, rel=1e-6)
    curve = PrivacyCurve(planned.objective * 1, Relation.REPLACE_ONE)
    proved = math.exp(bend) * gaussian.delta(1.0 - bend, 2 / noise.std)
    assert curve.delta(1.0) >= proved


def test_it_learns_alone_and_together_and_pays():
    sizes = (400, 300)
    data, facts = toy(sizes), Facts(sizes, 3, 2)
    parties = members(data, epsilon=2.0)
    result = run_objective_perturbation(Settings(2.0, 1e-5), parties, facts)
    accuracy = np.mean(np.concatenate([np.sign(x @ result.value) == y for x, y in data]))
    assert accuracy > 0.9
    assert result.certificate.epsilon(FINAL_MODEL, Relation.REPLACE_ONE) <= 2.0
    assert [p.ledger.grants for p in parties] == [1, 1]
    with pytest.raises(BudgetExceeded):
        run_objective_perturbation(Settings(2.0, 1e-5), parties, facts)


def test_noise_in_the_objective_has_the_planned_spread():
    """With empty records θ = -b / (n λ): 60 releases of 3 numbers, within 40 % but for 1e-4."""
    facts, settings = Facts((50,), 3, 1), Settings(1.0, 1e-5, regularisation=0.1)
    empty = [(np.zeros((50, 3)), np.ones(50))]
    values = [
        run_objective_perturbation(settings, members(empty, seed=s), facts).value for s in range(60)
    ]
    planned = plan(settings, facts)
    spread = (planned.objective.noise.std / 5) ** 2 + planned.output.noise.std**2
    assert np.mean(np.square(values)) == pytest.approx(spread, rel=0.4)


def test_bad_input_is_refused():
    with pytest.raises(InvalidInput, match="one sign"):
        Settings(1.0, 1e-5, loss="squares")
    with pytest.raises(InvalidInput, match="regularisation"):
        Settings(1.0, 1e-5, regularisation=0.0)
    with pytest.raises(InvalidInput, match="use at least"):
        plan(Settings(0.1, 1e-5, regularisation=1e-4), Facts((100,), 3, 1))
    with pytest.raises(InvalidInput, match="exact sizes"):
        plan(Settings(1.0, 1e-5), Facts((100,), 3, 1, exact_sizes=False))
    with pytest.raises(InvalidInput, match="public sizes"):
        run_objective_perturbation(Settings(1.0, 1e-5), members(toy((9,))), Facts((10,), 3, 1))


def test_a_missed_tolerance_releases_nothing(monkeypatch):
    monkeypatch.setattr(objectives.solver, "NEWTON_STEPS", 0)
    monkeypatch.setattr(objectives.solver, "_proved_steps", lambda *_: 1)
    objectives._solve.clear_cache()
    with pytest.raises(UnisonoError, match="tolerance"):
        run_objective_perturbation(Settings(1.0, 1e-5), members(toy((30,))), Facts((30,), 3, 1))
    objectives._solve.clear_cache()
