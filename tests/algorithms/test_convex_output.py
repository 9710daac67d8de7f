"""Output perturbation: sensitivity by brute force, calibration, pure epsilon, dropouts."""

import math
from functools import lru_cache, partial

import jax
import numpy as np
import pytest

from unisono.accounting import gaussian
from unisono.accounting.accountant import ACCOUNTANT
from unisono.core.algorithm import Facts
from unisono.core.events import Gaussian, Laplace, NormNoise
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.privacy import Privacy
from unisono.core.release import noise_steps
from unisono.core.study import Party, Study
from unisono.core.trust import FINAL_MODEL, SERVER, Relation, Trust, Viewer
from unisono.core.values import Private
from unisono.engines import in_process
from unisono.errors import InvalidInput
from unisono.problems.linear import LinearLoss
from unisono.releases import solver
from unisono.releases.minimiser import Minimiser
from unisono.releases.release import Release

from .. import methods

output_perturbation = partial(methods.output_perturbation, regularisation=1e-2)
PROMISE = Privacy(1.0, 1e-5, Relation.REPLACE_ONE)
SIZES = (48, 48, 48, 48)
DIRECTION = np.array([2.0, -1.0, 0.5])


def toy(sizes=SIZES, seed=0):
    generator = np.random.default_rng(seed)
    parties = []
    for size in sizes:
        rows = generator.normal(size=(size, 3))
        rows /= np.maximum(1, np.linalg.norm(rows, axis=1, keepdims=True))
        labels = np.where(rows @ DIRECTION + 0.1 * generator.normal(size=size) > 0, 1.0, -1.0)
        parties.append((rows, labels))
    return parties


def members(data, epsilon=100.0, delta=1e-5, trusted=False, seed=3):
    infinite = Budget(math.inf)
    exceptions = ((SERVER, infinite), (Viewer.colluders(1), infinite)) if trusted else ()
    policy = [Policy(f"data-{j}", Budget(epsilon, delta), exceptions) for j in range(len(data))]
    return [
        Party(f"party-{j}", Private(columns), Ledger.in_memory(policy[j], ACCOUNTANT, seed=seed))
        for j, columns in enumerate(data)
    ]


def run(method, trust, data=None, survivors=3, colluders=1, sizes=SIZES, **options):
    study = Study(method, Facts(sizes, 3, survivors, colluders), trust)
    parties = members(toy(sizes) if data is None else data, trusted=trust is Trust.TRUSTED_SERVER)
    return in_process.run(study, parties, **options)


def bound_of(loss="logistic", regularisation=1e-2, tolerance=1e-3, features=3):
    return Minimiser(LinearLoss(loss), features, regularisation, tolerance)


def step_of(bound, facts):
    return next(bound.steps(Release(bound), facts, PROMISE))


@lru_cache
def compiled(bound, facts):
    step = step_of(bound, facts)

    @jax.jit
    @jax.vmap
    def solve(x, y, mask):
        contribution, _ = bound.integers(facts, PROMISE, step, (x, y), mask)
        return contribution.value, contribution.valid

    return solve, step


def minimisers(bound, rows, labels):
    """Contributions of single parties, for a batch of data sets, in the model's units."""
    solve, step = compiled(bound, Facts(np.shape(labels)[1:], 3, 1))
    values, valid = solve(np.float32(rows), np.float32(labels), np.ones(np.shape(labels), bool))
    assert np.asarray(valid).all()
    return np.asarray(values) * step


def stacked(data):
    return (np.stack(columns) for columns in zip(*data, strict=True))


@pytest.mark.parametrize(
    "loss",
    ["logistic", *(pytest.param(n, marks=pytest.mark.slow) for n in ("huber-svm", "squares"))],
)
def test_neighbours_are_never_further_apart_than_the_sensitivity(loss):
    """Random and adversarial replacements and removals of one record out of eight."""
    minimiser = bound_of(loss, regularisation=0.05)
    facts = Facts((8,), 3, 1)
    generator = np.random.default_rng(5)
    rows = generator.normal(size=(200, 8, 3))
    rows /= np.linalg.norm(rows, axis=2, keepdims=True)
    labels = generator.choice([-1.0, 1.0], (200, 8))
    rows[:40] = [1.0, 0.0, 0.0]  # everyone alike, one record against them
    labels[:40] = -1.0
    other_rows, other_labels = rows.copy(), labels.copy()
    other_rows[:, 0] = generator.normal(size=(200, 3)) * 3
    other_rows[:40, 0] = [1.0, 0.0, 0.0]
    other_labels[:, 0] = -labels[:, 0]
    here = minimisers(minimiser, rows, labels)
    replaced = minimisers(minimiser, other_rows, other_labels)
    bound = minimiser.sensitivity(facts, PROMISE, step_of(minimiser, facts))
    assert np.linalg.norm(here - replaced, axis=1).max() <= bound.replace_one.l2
    assert np.abs(here - replaced).sum(1).max() <= bound.replace_one.l1
    # Zeroing a record out keeps the public divisor, so the row is zeroed, not the count.
    zeroed = rows.copy()
    zeroed[:, 0] = 0.0
    gone = minimisers(minimiser, zeroed, labels)
    assert np.linalg.norm(here - gone, axis=1).max() <= bound.zero_out.l2


def test_the_bound_is_nearly_attained_where_the_loss_is_linear():
    """Huber's loss is linear below its bend: with λ = 2 no margin passes 1/2, so θ* is the mean of
    y x over λ, and a flipped label moves it by exactly 2 / (n λ) (E000-8)."""
    minimiser = bound_of("huber-svm", regularisation=2.0, tolerance=1e-4)
    facts = Facts((8,), 3, 1)
    generator = np.random.default_rng(2)
    rows = generator.normal(size=(1, 8, 3))
    rows /= np.linalg.norm(rows, axis=2, keepdims=True)
    labels = np.ones((1, 8))
    flipped = labels.copy()
    flipped[0, 0] = -1.0
    here, there = (minimisers(minimiser, rows, y) for y in (labels, flipped))
    bound = minimiser.sensitivity(facts, PROMISE, step_of(minimiser, facts))
    distance = np.linalg.norm(here - there)
    assert distance == pytest.approx(2 / (8 * 2.0), rel=5e-3)
    assert 0.99 * bound.replace_one.l2 < distance <= bound.replace_one.l2


def test_sensitivity_of_the_average_is_the_inventory_formula():
    minimiser = bound_of(regularisation=0.1, features=5)
    facts = Facts((100,) * 10, 5, 10)
    step = step_of(minimiser, facts)
    distance = minimiser.sensitivity(facts, PROMISE, step).replace_one.l2 / 10
    tau = minimiser.required_gradient(100)
    assert distance == pytest.approx(2 / (10 * 100 * 0.1) + 2 * tau / (10 * 0.1), rel=2e-3)
    bound = output_perturbation(1.0, 1e-6, regularisation=0.1).bind(facts, Trust.TRUSTED_SERVER)
    std = bound.event(facts, Trust.TRUSTED_SERVER).noise.std
    assert std / 10 == pytest.approx(distance / gaussian.mu_for(1.0, 1e-6), rel=1e-6)


@pytest.mark.parametrize(
    ("trust", "delta", "law"),
    [
        (Trust.LOCAL, 0.0, NormNoise),
        (Trust.TRUSTED_SERVER, 0.0, NormNoise),
        (Trust.SECURE_SUM, 0.0, Laplace),
        (Trust.LOCAL, 1e-5, Gaussian),
        (Trust.SECURE_SUM, 1e-5, Gaussian),
    ],
)
def test_every_trust_has_its_noise_and_its_claim(trust, delta, law):
    method, facts = output_perturbation(2.0, delta), Facts(SIZES, 3, 3, 1)
    result = run(method, trust)
    event = method.bind(facts, trust).event(facts, trust)
    assert isinstance(event.noise, law)
    history = result.certificate.events[FINAL_MODEL]
    claim = ACCOUNTANT.epsilon(history, Relation.REPLACE_ONE, delta)
    assert 2.0 * (1 - 1e-6) < claim <= 2.0
    assert np.isfinite(result.value).all()


def test_the_published_noise_is_charged_its_true_epsilon():
    """Laplace noise of scale 2 G / (n_(1) λ ε) in every coordinate of the sum, and charged sqrt(p)
    ε, more by what a solver's tolerance and rounding add to the sensitivity: 0.1 % each."""
    settings = {"published": True, "regularisation": 0.1, "tolerance": 1e-3}
    method, facts = output_perturbation(1.0, **settings), Facts(SIZES, 3, 3, 1)
    event = method.bind(facts, Trust.SECURE_SUM).event(facts, Trust.SECURE_SUM)
    assert isinstance(event.noise, Laplace)
    assert event.noise.scale == pytest.approx(2 / (min(SIZES) * 0.1), rel=1e-8)
    result = run(method, Trust.SECURE_SUM)
    claim = ACCOUNTANT.epsilon(result.certificate.events[FINAL_MODEL], Relation.REPLACE_ONE, 0.0)
    assert math.sqrt(3) < claim < math.sqrt(3) * 1.004
    said = result.certificate.text()
    assert "noise as printed in Chen 2019" in said
    assert "the printed epsilon is 1, the true one at most 1.73" in said
    with pytest.raises(InvalidInput, match="pure epsilon"):
        run(output_perturbation(1.0, 1e-5, **settings), Trust.LOCAL)


def test_shares_add_up_to_the_noise_of_one_place():
    """No colluders, all survive: the pooled noise. 8000 x 3 sums: std within 3 % but for 1e-9."""
    method, facts = output_perturbation(1.0, 1e-5), Facts(SIZES, 3, 4)
    whole, shared = (method.bind(facts, t) for t in (Trust.TRUSTED_SERVER, Trust.SECURE_SUM))
    pooled = whole.event(facts, Trust.TRUSTED_SERVER).noise.std
    event, grid = shared.event(facts, Trust.SECURE_SUM), shared.grid(facts, Trust.SECURE_SUM)
    assert event.noise.std == pytest.approx(pooled, rel=1e-6)
    keys = [bytes([j]) * 32 for j in range(4)]
    sums = sum(noise_steps(key, event, grid, (8000, 3), 4, (3,)) for key in keys)
    assert np.std(sums) * grid == pytest.approx(pooled, rel=0.03)


@pytest.mark.slow
def test_the_error_falls_with_epsilon():
    """Noise of relative size 1 / epsilon, same seeds: the distance to the minimisers shrinks."""
    clean = minimisers(bound_of(), *stacked(toy())).mean(0)
    far, near = (run(output_perturbation(e, 1e-5), Trust.SECURE_SUM).value for e in (0.5, 50.0))
    assert np.linalg.norm(near - clean) < 0.2 * np.linalg.norm(far - clean)


def test_dropouts_are_left_out_of_the_average():
    silent = np.zeros((1, 4), bool)
    silent[0, 1] = True
    method = output_perturbation(500.0, 1e-5, regularisation=0.5)
    result = in_process.run(
        Study(method, Facts(SIZES, 3, 3, 1), Trust.SECURE_SUM),
        members(toy(), epsilon=1e6),
        dropouts=silent,
    )
    alone = minimisers(bound_of(regularisation=0.5), *stacked(toy()))[[0, 2, 3]]
    assert result.value == pytest.approx(alone.mean(0), abs=0.03)


def test_newton_steps_that_fail_are_made_good(monkeypatch):
    """Falling out because of one's data would be a message: the proved method takes over."""
    expected = run(output_perturbation(50.0, 1e-5), Trust.SECURE_SUM).value
    monkeypatch.setattr(solver, "NEWTON_STEPS", 0)
    made_good = run(output_perturbation(50.0, 1e-5), Trust.SECURE_SUM).value
    assert made_good == pytest.approx(expected, abs=0.05)


def test_a_solver_that_misses_the_tolerance_is_a_dropout(monkeypatch):
    """X-5: it cannot happen by the proof; if it does, nothing unproved leaves."""
    monkeypatch.setattr(solver, "NEWTON_STEPS", 0)
    monkeypatch.setattr(solver, "_proved_steps", lambda *_: 1)
    result = run(output_perturbation(2.0, 1e-5), Trust.SECURE_SUM)
    assert not result.value.any()  # nobody answered, so the sum was not opened


def test_broken_rows_contribute_nothing_and_one_class_is_fine():
    data = toy()
    rows = data[0][0].copy()
    rows[0], rows[1] = np.nan, 1e6
    broken = [(rows, np.ones(len(rows))), *data[1:]]
    assert np.isfinite(run(output_perturbation(2.0, 1e-5), Trust.LOCAL, broken).value).all()


def test_bad_settings_are_refused():
    for ridge in (0.0, -1.0, math.nan):
        with pytest.raises(InvalidInput, match="regularisation"):
            output_perturbation(1.0, regularisation=ridge)
    with pytest.raises(InvalidInput, match="delta"):
        output_perturbation(1.0, 1.0)
    method = output_perturbation(1.0, 1e-5, "squares", relation=Relation.ADD_OR_REMOVE)
    with pytest.raises(InvalidInput, match="exact sizes"):
        Study(method, Facts((10, 10), 3, 2, exact_sizes=False), Trust.LOCAL)


def test_nominal_sizes_hide_presence_at_the_price_of_a_switched_off_record():
    facts = Facts((40, 50), 3, 2, exact_sizes=False)
    method = output_perturbation(1.0, 1e-5, relation=Relation.ADD_OR_REMOVE)
    event = method.bind(facts, Trust.LOCAL).event(facts, Trust.LOCAL)
    assert event.sensitivity.add_or_remove == event.sensitivity.zero_out
    ratio = event.sensitivity.replace_one.l2 / event.sensitivity.zero_out.l2
    assert 1.99 < ratio < 2
