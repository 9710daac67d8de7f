"""The parts of the tensor method against brute force: coefficients, moments, fits, Jacobians."""

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, special

from unisono.attacks.tensor.activations import (
    ACTIVATIONS,
    Activation,
    hermite_coefficients,
    plan,
    shifted,
)
from unisono.attacks.tensor.diagonalise import joint_directions, slices
from unisono.attacks.tensor.least_squares import Normal, minimise, moved_on_spheres, on_spheres
from unisono.attacks.tensor.moments import (
    array_neurons,
    contracted,
    deflated,
    leading_span,
    leading_span_of_order_three,
)
from unisono.attacks.tensor.polish import _assembled, _sums
from unisono.attacks.tensor.refine import _normal, fit_residuals, fitted


@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
@pytest.mark.parametrize("scale", [1.0, 0.4])
def test_coefficients_against_adaptive_quadrature(name, scale):
    shape = ACTIVATIONS[name]
    found, _ = hermite_coefficients(name, scale)
    for p in range(5):

        def integrand(z, p=p):
            density = math.exp(-z * z / 2) / math.sqrt(2 * math.pi)
            return float(shape.value(scale * z)) * special.eval_hermitenorm(p, z) * density

        halves = [integrate.quad(integrand, *ends, epsabs=1e-12)[0] for ends in ((-12, 0), (0, 12))]
        assert found[p] == pytest.approx(sum(halves), abs=1e-9)


@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
def test_slopes_are_derivatives(name):
    t = np.linspace(-3, 3, 40)  # misses the kinks
    shape = ACTIVATIONS[name]
    assert (shape.value(t + 1e-6) - shape.value(t - 1e-6)) / 2e-6 == pytest.approx(
        np.asarray(shape.slope(t)), abs=1e-8
    )


@pytest.mark.parametrize(
    ("activation", "orders", "free"),
    [
        ("selu", (2, 3), False),
        ("elu", (2, 3), False),
        (shifted("relu", 0.5), (2, 3), False),
        (shifted("tanh", 0.5), (2, 3), False),
        ("relu", (2, 4), False),
        ("gelu", (2, 4), False),
        ("softplus", (2, 4), False),
        ("tanh", (3,), True),
        ("sigmoid", (3,), True),
        (Activation("cosine", np.cos, lambda t: -np.sin(t)), (2, 4), True),
    ],
)
def test_orders_follow_from_the_coefficients(activation, orders, free):
    chosen = plan(activation)
    assert chosen.orders == orders
    assert chosen.signs_free is free


def hermite(order, v):
    """H_p(v) entry by entry: per coordinate the product of one-dimensional polynomials."""
    found = np.empty((len(v),) * order)
    for index in itertools.product(range(len(v)), repeat=order):
        times = np.bincount(index, minlength=len(v))
        found[index] = np.prod(special.eval_hermitenorm(times, v))
    return found


def test_contracted_moments_are_those_of_hermite_tensors():
    """After deflation the short formulas equal the means of g H_p(v), seen from the span."""
    generator = np.random.default_rng(0)
    weights = generator.normal(size=(60, 3))
    neurons = array_neurons(weights)
    left, _ = deflated(generator.normal(size=(60, 2)), neurons)
    assert np.abs(left.sum(axis=0)).max() < 1e-12
    assert np.abs(weights.T @ left).max() < 1e-12
    basis = np.linalg.qr(generator.normal(size=(3, 2)))[0]
    found = contracted(left, neurons, basis, (2, 3, 4))
    for p, letters in ((2, "ab"), (3, "abc"), (4, "abcd")):
        inside = np.array([hermite(p, basis.T @ v) for v in weights])
        mean = np.einsum(f"jo,j{letters}->o{letters}", left, inside) / 60
        assert found[p] == pytest.approx(mean, abs=1e-12)


def test_deflation_slopes_are_order_one_and_span_ignores_signs():
    """Residuals of both signs: eigenvalues of both signs, and both directions are in the span."""
    generator = np.random.default_rng(1)
    rows = np.linalg.qr(generator.normal(size=(6, 2)))[0].T
    weights = generator.normal(size=(40_000, 6))
    gradient = ACTIVATIONS["selu"].value(weights @ rows.T) @ np.array([[1.0], [-1.0]])
    left, slopes = deflated(gradient, array_neurons(weights))
    first = hermite_coefficients("selu")[0][1]
    assert slopes[0] == pytest.approx(first * (rows[0] - rows[1]), abs=0.02)
    assert np.std(left) < 0.3 * np.std(gradient)
    basis, _ = leading_span(left, array_neurons(weights), 2)
    assert np.linalg.norm(rows @ basis) ** 2 == pytest.approx(2, abs=0.02)


def test_span_of_an_activation_without_order_two():
    """Of a squared length of 4, what the span leaves out: 0.042 to 0.050 for 8 other seeds, and
    0.12 to 0.23 without alternation."""
    generator = np.random.default_rng(7)
    rows = np.linalg.qr(generator.normal(size=(64, 4)))[0].T
    weights = generator.standard_normal((30_000, 64), np.float32)
    gradient = np.tanh(weights @ rows.T) @ np.array([[1.0], [-1.0], [1.0], [-1.0]])
    neurons = array_neurons(weights)
    left, _ = deflated(gradient, neurons)
    basis, _ = leading_span_of_order_three(left, neurons, 4, generator)
    assert 4 - np.linalg.norm(rows @ basis) ** 2 < 0.08


def exact_moments(columns, residuals, coefficients, orders):
    letters = "abcd"
    found = {}
    for p in orders:
        sides = ",".join(f"{letter}i" for letter in letters[:p])
        tensor = np.einsum(f"io,{sides}->o{letters[:p]}", residuals, *[columns] * p)
        found[p] = coefficients[p] * tensor
    return found


COEFFICIENTS = np.array([0.1, 0.9, 0.2, -0.3, 0.25])


def unit_columns(batch, generator):
    columns = generator.normal(size=(batch, batch))
    return columns / np.linalg.norm(columns, axis=0)


@pytest.mark.parametrize("orders", [(2, 3), (2, 4), (3,)])
def test_exact_tensors_give_exact_directions_signs_and_residuals(orders):
    generator = np.random.default_rng(2)
    truth = unit_columns(5, generator)
    residuals = np.array([[1.0], [-0.7], [0.4], [-1.2], [0.9]])
    moments = exact_moments(truth, residuals, COEFFICIENTS, orders)
    found = joint_directions(slices(moments), generator)[0]
    assert found.real
    fit = fitted(
        {1: exact_moments(truth, residuals, COEFFICIENTS, (1,))[1], **moments},
        COEFFICIENTS,
        found.columns,
        refine=False,
    )
    products = fit.columns.T @ truth
    best = np.argmax(np.abs(products), axis=0)
    assert sorted(best) == list(range(5))
    if 2 in orders:
        assert products[best, range(5)] == pytest.approx(np.ones(5))
        assert fit.residuals[best] == pytest.approx(residuals)
    else:
        assert np.abs(products[best, range(5)]) == pytest.approx(np.ones(5))


def test_refinement_finds_the_exact_tensor_from_nearby():
    generator = np.random.default_rng(3)
    truth, residuals = unit_columns(9, generator), generator.choice((-1.0, 1.0), (9, 1))
    moments = exact_moments(truth, residuals, COEFFICIENTS, (1, 2, 3))
    start = truth + 0.05 * generator.normal(size=truth.shape)
    start /= np.linalg.norm(start, axis=0)
    rough = fitted(moments, COEFFICIENTS, start, refine=False)
    fine = fitted(moments, COEFFICIENTS, start, refine=True)
    assert fine.cost < 1e-9 * rough.cost
    assert np.abs(fine.columns - truth).max() < 1e-4
    assert np.abs(rough.columns - truth).max() > 0.02


def test_normal_equations_of_the_moments_by_finite_differences():
    """Against the residual vector written out and differentiated number by number."""
    generator = np.random.default_rng(4)
    batch, outputs, orders = 3, 2, (1, 2, 3, 4)
    rows, residuals = unit_columns(batch, generator).T, generator.normal(size=(batch, outputs))
    moments = {p: generator.normal(size=(outputs, *[batch] * p)) for p in orders}
    for p in (2, 3, 4):  # moments are symmetric
        ways = itertools.permutations(range(1, p + 1))
        moments[p] = np.mean([moments[p].transpose(0, *way) for way in ways], axis=0)

    def error(unknowns):
        columns = unknowns[: rows.size].reshape(batch, batch).T
        own = exact_moments(
            columns, unknowns[rows.size :].reshape(batch, outputs), COEFFICIENTS, orders
        )
        return np.concatenate(
            [((own[p] - moments[p]) / math.sqrt(math.factorial(p))).ravel() for p in orders]
        )

    at = np.concatenate([rows.ravel(), residuals.ravel()])
    found = _normal(moments, COEFFICIENTS, rows, residuals)
    check_normal(found, error, at)


def test_normal_equations_of_the_polish_by_finite_differences():
    generator = np.random.default_rng(5)
    shape, weights = ACTIVATIONS["softplus"], generator.normal(size=(50, 4))
    rows, readout = generator.normal(size=(2, 4)), generator.normal(size=(3, 2))
    gradient = generator.normal(size=(50, 2))

    def error(unknowns):
        own, last = unknowns[:8].reshape(2, 4), unknowns[8:].reshape(3, 2)
        return (shape.value(weights @ own.T) @ last[:-1] + last[-1] - gradient).ravel()

    sums = _sums(gradient, array_neurons(weights), shape, rows, readout)
    at = np.concatenate([rows.ravel(), readout.ravel()])
    check_normal(_assembled(sums, readout, rows.size), error, at)


def check_normal(found, error, at):
    step = 1e-5
    columns = [(error(at + step * e) - error(at - step * e)) / (2 * step) for e in np.eye(len(at))]
    jacobian = np.array(columns).T
    assert found.cost == pytest.approx(np.sum(error(at) ** 2))
    assert found.gradient == pytest.approx(jacobian.T @ error(at), abs=1e-6)
    assert found.hessian == pytest.approx(jacobian.T @ jacobian, abs=1e-6)


def test_levenberg_marquardt_stays_on_spheres():
    """The nearest point of the circle of radius 2 to (3, 4), as a least-squares problem."""
    target = np.array([3.0, 4.0])

    def normal(at):
        error = at - target
        return on_spheres(Normal(float(error @ error), error, np.eye(2)), at[None])

    end, cost = minimise(
        np.array([2.0, 0.0]), normal, lambda at, step: moved_on_spheres(at, step, (1, 2))
    )
    assert end == pytest.approx([1.2, 1.6], abs=1e-4)
    assert np.linalg.norm(end) == pytest.approx(2.0, abs=1e-12)
    assert cost == pytest.approx(9.0)


def test_residuals_by_parity_differ_in_the_sign_of_a_flipped_direction():
    generator = np.random.default_rng(6)
    truth, residuals = unit_columns(3, generator), np.array([[1.0], [-2.0], [0.5]])
    moments = exact_moments(truth, residuals, COEFFICIENTS, (1, 2, 3))
    flipped = truth * [1, -1, 1]
    even, odd = (fit_residuals(moments, COEFFICIENTS, flipped, parity) for parity in (0, 1))
    assert even == pytest.approx(residuals)
    assert odd == pytest.approx(residuals * [[1], [-1], [1]])
