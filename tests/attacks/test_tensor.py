"""The tensor method end to end: what it recovers, how its error scales, and what it refuses."""

import numpy as np
import pytest

from unisono.attacks.scoring import match
from unisono.attacks.tensor import ACTIVATIONS, Activation, attack, gaussian_neurons, shifted
from unisono.attacks.tensor.activations import activation_of
from unisono.errors import InvalidInput


def sphere(batch, features, generator, norm=1.0):
    rows = generator.normal(size=(batch, features))
    return norm * rows / np.linalg.norm(rows, axis=1, keepdims=True)


def problem(activation, m, d, batch, seed=0, norm=1.0, scale=1.0):
    """Rows, weights, residuals of one size, and the gradient of the output weights."""
    generator = np.random.default_rng(seed)
    rows = sphere(batch, d, generator, norm)
    weights = scale * generator.normal(size=(m, d))
    residuals = generator.uniform(0.8, 1.2, batch) * np.where(np.arange(batch) % 2, -1, 1)
    gradient = activation_of(activation).value(weights @ rows.T) @ residuals
    return rows, weights, residuals, gradient


FIXED = ["selu", "elu", "relu", "gelu", "softplus", shifted("relu", 0.5), shifted("tanh", 0.5)]


@pytest.mark.parametrize("activation", FIXED, ids=lambda one: activation_of(one).name)
def test_records_signs_and_residuals_to_machine_precision(activation):
    rows, weights, residuals, gradient = problem(activation, 12_000, 8, 3)
    found = attack(gradient, weights, activation, 3)
    assert match(found.rows, rows).errors.max() < 1e-9
    assert np.sort(found.residuals) == pytest.approx(np.sort(residuals), abs=1e-9)
    assert found.diagnostics.misfit < 1e-12
    assert not found.diagnostics.signs_free


@pytest.mark.parametrize("activation", ["tanh", "sigmoid"])
def test_odd_activations_give_records_up_to_sign(activation):
    rows, weights, residuals, gradient = problem(activation, 12_000, 8, 3)
    found = attack(gradient, weights, activation, 3)
    assert found.diagnostics.orders == (3,)
    assert found.diagnostics.signs_free
    assert match(found.rows, rows, signs_free=True).errors.max() < 1e-9
    assert np.sort(np.abs(found.residuals)) == pytest.approx(np.sort(np.abs(residuals)), abs=1e-9)


def test_moments_alone_find_the_records_and_their_signs():
    """Before any polish, which could mend a wrong sign of itself."""
    for activation in ("selu", "relu"):
        rows, weights, residuals, gradient = problem(activation, 100_000, 8, 3)
        found = attack(gradient, weights, activation, 3, polished=False)
        assert match(found.rows, rows).errors.max() < 0.15
        assert np.sort(found.residuals) == pytest.approx(np.sort(residuals), abs=0.15)


def mean_error(m, seeds, change=lambda gradient, seed: gradient, **options):
    found = []
    for seed in range(seeds):
        rows, weights, _, gradient = problem("selu", m, 16, 3, seed)
        guess = attack(change(gradient, seed), weights, "selu", 3, polished=False, **options)
        found.append(match(guess.rows, rows).error)
    return float(np.mean(found))


def test_error_falls_as_one_over_root_m():
    """16 times the neurons, a quarter of the error: 20 other sets of 6 seeds gave ratios of 3.0 to
    5.0, none outside the band; exponents of -1/4 and -1 would give 2 and 16."""
    assert 2.5 < mean_error(6_000, 6) / mean_error(96_000, 6) < 6.0


def test_batch_clipping_changes_nothing_and_noise_does():
    plain = mean_error(20_000, 3)
    clipped = mean_error(20_000, 3, lambda gradient, seed: gradient / np.linalg.norm(gradient))
    assert clipped == pytest.approx(plain, rel=1e-6)

    def noisy(gradient, seed):
        return gradient + 1.0 * np.random.default_rng([seed, 9]).normal(size=len(gradient))

    assert mean_error(20_000, 3, noisy) > 2 * plain


def test_the_gradient_of_w_shows_the_span():
    """dL/dw_j = a_j Σ r_i σ'(w_j · x_i) x_i: the span is exact, and less error is left."""
    rows, weights, residuals, gradient = problem("selu", 6_000, 32, 3)
    slopes = ACTIVATIONS["selu"].slope(weights @ rows.T)
    outputs = np.random.default_rng(5).normal(size=(6_000, 1)) / np.sqrt(6_000)
    hidden = (outputs * slopes * residuals) @ rows
    blind = attack(gradient, weights, "selu", 3, polished=False)
    exact = attack(gradient, weights, "selu", 3, polished=False, hidden_gradient=hidden)
    outside = exact.rows - exact.rows @ np.linalg.pinv(rows) @ rows
    assert np.abs(outside).max() < 1e-9
    assert match(exact.rows, rows).error < 0.6 * match(blind.rows, rows).error


def test_known_norm_and_weight_scale():
    rows, weights, residuals, gradient = problem("selu", 12_000, 8, 3, norm=2.5, scale=0.35)
    found = attack(gradient, weights, "selu", 3, norm=2.5, scale=0.35)
    assert match(found.rows, rows).errors.max() < 1e-9
    assert np.sort(found.residuals) == pytest.approx(np.sort(residuals), abs=1e-9)
    moments = found.diagnostics.moment_rows
    assert np.linalg.norm(moments, axis=1) == pytest.approx(2.5)
    wrong = attack(gradient, weights, "selu", 3, norm=1.0, scale=0.35, polished=False)
    assert match(wrong.rows, rows).error > 0.5


def test_free_lengths_recover_records_of_different_length():
    generator = np.random.default_rng(3)
    rows = sphere(3, 8, generator) * [[0.7], [1.0], [1.4]]
    weights = generator.normal(size=(12_000, 8))
    gradient = ACTIVATIONS["selu"].value(weights @ rows.T) @ [1.0, -1.0, 0.9]
    free = attack(gradient, weights, "selu", 3, free_lengths=True)
    assert match(free.rows, rows).errors.max() < 1e-9
    bound = attack(gradient, weights, "selu", 3)
    assert bound.diagnostics.misfit > 1e-3  # and the attacker sees that it was wrong


def test_cross_entropy_of_several_classes():
    """Softmax residuals p - y, two records of one class among them."""
    generator = np.random.default_rng(1)
    rows, labels = sphere(4, 10, generator), np.array([0, 0, 1, 3])
    weights = generator.normal(size=(15_000, 10))
    outputs = generator.normal(size=(15_000, 4)) / np.sqrt(15_000)
    values = ACTIVATIONS["relu"].value(weights @ rows.T)
    scores = values.T @ outputs
    residuals = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True) - np.eye(4)[labels]
    found = attack(values @ residuals, weights, "relu", 4)
    assert match(found.rows, rows).errors.max() < 1e-9
    assert np.abs(found.residuals.sum(axis=1)).max() < 1e-9
    assert sorted(np.argmin(found.residuals, axis=1)) == [0, 0, 1, 3]


def test_second_order_alone_suffices_for_three_outputs():
    """σ = t² has no order above 2; three independent outputs still tell the records apart."""
    square = Activation("square", np.square, lambda t: 2 * t)
    generator = np.random.default_rng(2)
    rows, weights = sphere(3, 6, generator), generator.normal(size=(3_000, 6))
    gradient = np.square(weights @ rows.T) @ generator.normal(size=(3, 3))
    found = attack(gradient, weights, square, 3)
    assert found.diagnostics.signs_free
    assert match(found.rows, rows, signs_free=True).errors.max() < 1e-7


def test_other_starts_help_where_the_first_one_is_stuck():
    """Here the polish of the best candidate ends in a false minimum, at a misfit of 0.005."""
    generator = np.random.default_rng(0)
    rows, weights = sphere(4, 16, generator), generator.normal(size=(8_000, 16))
    outputs = generator.normal(size=8_000) / np.sqrt(8_000)
    values = ACTIVATIONS["softplus"].value(weights @ rows.T)
    residuals = 2 * (outputs @ values - generator.choice([-1.0, 1.0], 4))
    found = attack(values @ residuals, weights, "softplus", 4)
    assert match(found.rows, rows).errors.max() < 1e-9


def test_ten_records_beyond_the_plain_diagonalisation():
    rows, weights, _, gradient = problem("selu", 60_000, 16, 10)
    found = attack(gradient, weights, "selu", 10)
    assert match(found.rows, rows).errors.max() < 1e-9


def test_neurons_from_a_seed_are_the_same_in_any_blocks():
    neurons = gaussian_neurons(70_000, 4, seed=3)
    whole = np.concatenate([block for _, block in neurons.blocks()])
    parts = np.concatenate([block for _, block in neurons.blocks(10_001)])
    assert whole.shape == (70_000, 4)
    assert np.array_equal(whole, parts)
    assert abs(np.corrcoef(whole[:30_000, 0], whole[32_768:62_768, 0])[0, 1]) < 0.03
    rows = sphere(2, 4, np.random.default_rng(0))
    gradient = ACTIVATIONS["selu"].value(whole.astype(float) @ rows.T) @ [1.0, -1.0]
    assert match(attack(gradient, neurons, "selu", 2).rows, rows).errors.max() < 1e-9


def test_dp_sgd_error_does_not_fall_with_m():
    """A record's gradient grows as sqrt(m), and its clip takes that away (Table 1 of 002). Without
    the clip the ratio would be near 4. Of 20 other sets of 6 seeds none was outside the bands:
    ratios 1.06 to 1.74 (few neurons have some error of their own), smaller errors from 0.12."""
    found = []
    for m in (6_000, 96_000):
        own = []
        for seed in range(6):
            generator = np.random.default_rng([seed, m])
            rows, weights = sphere(2, 16, generator), generator.normal(size=(m, 16))
            shares = ACTIVATIONS["selu"].value(weights @ rows.T) * [1.0, -1.0]
            clipped = np.sum(shares / np.linalg.norm(shares, axis=0), axis=1)
            seen = clipped + 0.006 * generator.normal(size=m)
            guess = attack(seen, weights, "selu", 2, polished=False)
            own.append(match(guess.rows, rows).error)
        found.append(np.mean(own))
    assert min(found) > 0.1
    assert 0.7 < found[0] / found[1] < 2.2


GOOD = problem("selu", 500, 4, 2)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"activation": "identity"}, "straight line"),
        ({"activation": Activation("square", np.square, lambda t: 2 * t)}, "shows no record"),
        ({"activation": "swish"}, "unknown"),
        ({"batch": 5}, "from 1 to d = 4"),
        ({"batch": 0}, "from 1 to d"),
        ({"gradient": GOOD[3][:-1]}, "500 neurons"),
        ({"gradient": np.full(500, np.nan)}, "NaN"),
        ({"gradient": np.zeros(500)}, "singular"),
        ({"scale": 0.5}, "root mean square"),
        ({"weights": GOOD[1][:8], "gradient": GOOD[3][:8]}, "too few"),
        ({"hidden_gradient": np.zeros((3, 4))}, "weights' shape"),
        ({"norm": -1.0}, "positive"),
    ],
)
def test_refusals_say_why(changes, words):
    given = {"gradient": GOOD[3], "weights": GOOD[1], "activation": "selu", "batch": 2} | changes
    with pytest.raises(InvalidInput, match=words):
        attack(**given)
