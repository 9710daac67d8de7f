"""Objective perturbation: its profile against numerical truth, its price, its use."""

import math

import numpy as np
import pytest
from scipy.special import expit

from unisono.accounting import gaussian
from unisono.accounting.accountant import ACCOUNTANT
from unisono.accounting.curve import PrivacyCurve
from unisono.core.algorithm import Facts
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.study import Party, Study
from unisono.core.trust import FINAL_MODEL, ITERATES, SERVER, Relation, Trust
from unisono.core.values import Private
from unisono.engines import in_process
from unisono.errors import BudgetExceeded, InvalidInput
from unisono.problems.linear import LinearLoss
from unisono.releases import solver
from unisono.releases.perturbed_minimiser import PerturbedMinimiser

from .. import methods


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
            Ledger.in_memory(Policy(f"data-{j}", Budget(epsilon, 1e-5)), ACCOUNTANT, seed=seed + j),
        )
        for j, columns in enumerate(data)
    ]


def study(facts, *promise, **settings):
    return Study(methods.objective_perturbation(*promise, **settings), facts, Trust.LOCAL)


def events(agreed):
    """That of the noise inside the objective, and that of the output."""
    return agreed.algorithm.inside.event, agreed.algorithm.event(agreed.facts, agreed.trust)


def models(agreed, data):
    """What every party releases (parties, p)."""
    result = in_process.run(agreed, members(data))
    (sent,) = (m.value for m in result.transcript.seen_by(SERVER) if m.name == "sum")
    return sent * agreed.algorithm.grid(agreed.facts, agreed.trust)


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
    agreed = study(facts, epsilon, 1e-5, relation=relation)
    found = PrivacyCurve(agreed.cost[SERVER], relation).epsilon(1e-5)
    assert epsilon * 0.999 < found <= epsilon


def test_the_event_carries_the_proved_profile():
    """e^ℓ dG(ε - 2ℓ; 2μ), which exceeds the proved e^ℓ dG(ε - ℓ; 2μ)."""
    inside, _ = events(study(Facts((1000,), 3, 1), 1.0, 1e-5, regularisation=0.01))
    noise, bend = inside.noise, math.log1p(0.25 / 10)
    assert noise.slack == pytest.approx(bend, rel=1e-6)
    curve = PrivacyCurve(inside * 1, Relation.REPLACE_ONE)
    proved = math.exp(bend) * gaussian.delta(1.0 - bend, 2 / noise.std)
    assert curve.delta(1.0) >= proved


def test_it_learns_alone_and_together_and_pays():
    sizes = (400, 300)
    data, facts = toy(sizes), Facts(sizes, 3, 2)
    parties = members(data, epsilon=2.0)
    agreed = study(facts, 2.0, 1e-5)
    result = in_process.run(agreed, parties)
    accuracy = np.mean(np.concatenate([np.sign(x @ result.value) == y for x, y in data]))
    assert accuracy > 0.9
    assert result.certificate.epsilon(FINAL_MODEL, Relation.REPLACE_ONE) <= 2.0
    assert [p.ledger.grants for p in parties] == [1, 1]
    with pytest.raises(BudgetExceeded):
        in_process.run(agreed, parties)


def test_noise_in_the_objective_has_the_planned_spread():
    """With empty records θ = -b / (n λ): 60 releases of 3 numbers, within 40 % but for 1e-4."""
    agreed = study(Facts((50,) * 60, 3, 60), 1.0, 1e-5, regularisation=0.1)
    values = models(agreed, [(np.zeros((50, 3)), np.ones(50))] * 60)
    inside, output = events(agreed)
    spread = (inside.noise.std / 5) ** 2 + output.noise.std**2
    assert np.mean(np.square(values)) == pytest.approx(spread, rel=0.4)


def test_bad_input_is_refused():
    with pytest.raises(InvalidInput, match="learns a MarginLoss, not a SquaredLoss"):
        study(Facts((100,), 3, 1), 1.0, 1e-5, "squares")
    with pytest.raises(InvalidInput, match="one sign"):
        PerturbedMinimiser(LinearLoss("squares"), 3, 0.1)
    with pytest.raises(InvalidInput, match="regularisation"):
        methods.objective_perturbation(1.0, 1e-5, regularisation=0.0)
    with pytest.raises(InvalidInput, match="use at least"):
        study(Facts((100,), 3, 1), 0.1, 1e-5, regularisation=1e-4)
    with pytest.raises(InvalidInput, match="exact sizes"):
        study(Facts((100,), 3, 1, exact_sizes=False), 1.0, 1e-5)
    with pytest.raises(InvalidInput, match="public sizes"):
        in_process.run(study(Facts((10,), 3, 1), 1.0, 1e-5), members(toy((9,))))
    with pytest.raises(InvalidInput, match="retries"):
        study(Facts((100,), 3, 1, retries=1), 1.0, 1e-5)
    with pytest.raises(InvalidInput, match="cannot come in shares"):
        Study(methods.objective_perturbation(1.0, 1e-5), Facts((9, 9), 3, 2), Trust.SECURE_SUM)


def test_a_missed_tolerance_releases_nothing(monkeypatch):
    monkeypatch.setattr(solver, "NEWTON_STEPS", 0)
    monkeypatch.setattr(solver, "_proved_steps", lambda *_: 1)
    result = in_process.run(study(Facts((30,), 3, 1), 1.0, 1e-5), members(toy((30,))))
    assert not result.value.any()
    seen = {message.name: message.value for message in result.transcript.seen_by(SERVER)}
    assert not seen["sum"].any()


def test_both_events_are_paid_in_one_entry_and_drawn_once_each():
    parties, agreed = members(toy((40,))), study(Facts((40,), 3, 1), 2.0, 1e-5)
    in_process.run(agreed, parties)
    paid = parties[0].ledger.history(ITERATES)
    assert [event for event, count in paid.parts for _ in range(count)] == list(events(agreed))


def test_the_released_model_minimises_the_perturbed_objective():
    """With the noise that the grant handed in, read off the released model itself: the gradient of
    the loss there is -b / n, whose spread over 40 parties is the planned one within 40 %."""
    rows, labels = toy((60,))[0]
    agreed = study(Facts((60,) * 40, 3, 40), 1.0, 1e-5, regularisation=0.1)
    found = []
    for model in models(agreed, [(rows, labels)] * 40):
        slopes = -labels * expit(-labels * (rows @ model))
        found.append(slopes @ rows + 60 * 0.1 * model)
    std = events(agreed)[0].noise.std
    assert np.std(found) == pytest.approx(std, rel=0.4)
    assert np.abs(np.mean(found, axis=0)).max() < 4 * std / math.sqrt(40)


def test_parties_are_weighted_by_their_public_sizes():
    """At a huge epsilon the answer is the weighted mean of exact minimisers."""
    data, ridge = toy((40, 160)), 0.1
    agreed = study(Facts((40, 160), 3, 2), 1e5, 1e-5, regularisation=ridge)
    value = in_process.run(agreed, members(data, epsilon=1e6)).value

    def exact(rows, labels):
        theta = np.zeros(3)
        for _ in range(200):
            chance = expit(-labels * (rows @ theta))
            gradient = -(labels * chance) @ rows / len(rows) + ridge * theta
            bend = (rows.T * (chance * (1 - chance))) @ rows / len(rows) + ridge * np.eye(3)
            theta = theta - np.linalg.solve(bend, gradient)
        return theta

    mean = 0.2 * exact(*data[0]) + 0.8 * exact(*data[1])
    assert value == pytest.approx(mean, abs=2e-2)
