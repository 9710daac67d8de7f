"""The exponential family and the likelihoods: identities that must hold on every input."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from scipy.special import ndtr

from unisono.errors import InvalidInput
from unisono.problems import gaussian_family as family
from unisono.problems import likelihoods
from unisono.problems.gaussian_family import Natural

SEEDS = st.integers(0, 2**32 - 1)


def random_gaussian(seed, size, full):
    generator = np.random.default_rng(seed)
    root = generator.normal(size=(size, size))
    spread = root @ root.T + np.eye(size) if full else generator.uniform(0.2, 4.0, size)
    return family.gaussian(generator.normal(size=size), spread)


@given(SEEDS, st.integers(1, 4), st.booleans())
def test_moments_and_densities_agree_with_scipy(seed, size, full):
    q = random_gaussian(seed, size, full)
    law = stats.multivariate_normal(family.mean(q), family.covariance(q))
    point = np.random.default_rng(seed + 1).normal(size=size)
    assert family.log_density(q, point) == pytest.approx(law.logpdf(point), rel=1e-9, abs=1e-9)
    assert np.diag(family.covariance(q)) == pytest.approx(family.variances(q))
    rows = np.random.default_rng(seed).normal(size=(5, size))
    spread = np.einsum("ni,ij,nj->n", rows, family.covariance(q), rows)
    assert family.score_variances(q, rows) == pytest.approx(spread)


@given(SEEDS, st.integers(1, 4), st.booleans())
def test_a_quotient_undoes_a_product_and_packing_keeps_the_norm(seed, size, full):
    first, second = (random_gaussian(seed + k, size, full) for k in range(2))
    back = family.quotient(family.product(first, second), second)
    assert np.allclose(back.shift, first.shift)
    assert np.allclose(back.precision, first.precision)
    vector = family.pack(first)
    assert len(vector) == family.packed_size(size, full)
    norm = np.sqrt(np.sum(first.shift**2) + np.sum(first.precision**2))
    assert np.linalg.norm(vector) == pytest.approx(norm)
    again = family.unpack(vector, size, full)
    assert np.allclose(again.precision, first.precision)
    assert np.allclose(again.shift, first.shift)


@given(SEEDS, st.integers(1, 3))
def test_kl_is_the_expected_log_ratio(seed, size):
    """By the definition E_q[log q - log p], which is exact for quadratics in closed form."""
    q, p = random_gaussian(seed, size, True), random_gaussian(seed + 1, size, True)
    centre, spread = family.mean(q), family.covariance(q)

    def expected_log(r):
        apart = centre - family.mean(r)
        quadratic = apart @ r.precision @ apart + np.trace(r.precision @ spread)
        return -0.5 * (quadratic - np.linalg.slogdet(r.precision)[1] + size * np.log(2 * np.pi))

    assert family.kl(q, p) == pytest.approx(expected_log(q) - expected_log(p), abs=1e-9)
    assert family.kl(q, q) == pytest.approx(0, abs=1e-9)


def test_the_printed_normaliser_has_the_wrong_sign():
    """E003-20: N(0.3 | 1, 2²) is 0.18762; A = μ²/(2σ²) - ln σ would make it 0.75048."""
    q = family.gaussian(np.array([1.0]), np.array([4.0]))
    assert np.exp(family.log_density(q, np.array([0.3]))) == pytest.approx(0.18762, abs=1e-5)
    printed = 1 / 8 - np.log(2) + 0.5 * np.log(2 * np.pi)
    exponent = 0.3 * 0.25 - 0.5 * 0.25 * 0.3**2
    assert np.exp(exponent - printed) == pytest.approx(0.75048, abs=1e-5)


def test_sampling_has_the_moments_of_q():
    """Means of 40,000 draws: five standard errors, a false alarm in 1e-6 per coordinate."""
    normals = np.random.default_rng(0).normal(size=(40_000, 3))
    for full in (True, False):
        q = random_gaussian(3, 3, full)
        drawn = family.sample(q, normals)
        allowed = 5 * np.sqrt(family.variances(q) / len(normals))
        assert (np.abs(drawn.mean(0) - family.mean(q)) < allowed).all()
        assert np.cov(drawn.T) == pytest.approx(family.covariance(q), rel=0.1, abs=0.1)


@pytest.mark.parametrize("full", [True, False])
def test_directions_of_noise_alone_fall_back_to_the_prior(full):
    precision = np.array([5.0, -3.0, 0.0])
    prior = family.prior(3, 1.0, 2.0, full)
    q = Natural(np.array([10.0, 1e6, -7.0]), np.diag(precision) if full else precision)
    fixed, count = family.fall_back(q, prior, 0.5)
    assert count == 2
    assert family.mean(fixed) == pytest.approx([2.0, 1.0, 1.0])
    assert family.variances(fixed) == pytest.approx([0.2, 2.0, 2.0])
    raised, count = family.project(q, 0.5)
    assert count == 2
    assert family.variances(raised) == pytest.approx([0.2, 2.0, 2.0])


@pytest.mark.parametrize("variance", [0.0, -1.0, np.inf, np.nan])
def test_a_prior_needs_a_positive_variance(variance):
    with pytest.raises(InvalidInput, match="positive number"):
        family.prior(2, 0.0, variance)


# ----------------------------------------------------------------- likelihoods

LIKELIHOODS = {
    "linear": likelihoods.linear(0.5),
    "logistic": likelihoods.logistic(),
    "probit": likelihoods.probit(),
}


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_slopes_and_bends_are_derivatives(name):
    likelihood = LIKELIHOODS[name]
    scores = jnp.linspace(-6, 6, 41)
    labels = jnp.where(jnp.arange(41) % 2 == 0, 1.0, -1.0)
    value, slope, bend = jax.jit(likelihood.scores)(scores, labels)

    def one(s, y):
        return likelihood.scores(s, y)[0]

    first = jax.jit(jax.vmap(jax.grad(one)))(scores, labels)
    assert np.asarray(slope) == pytest.approx(np.asarray(first), abs=1e-4)
    second = jax.jit(jax.vmap(jax.grad(jax.grad(one))))(scores, labels)
    assert np.asarray(bend) == pytest.approx(np.asarray(second), abs=2e-3)
    assert (np.abs(slope) <= likelihood.slope_bound + 1e-6).all()
    assert (np.abs(bend) <= likelihood.bend_bound * (1 + 1e-5)).all()
    if name != "linear":
        assert (np.asarray(value) <= 0).all()


@pytest.mark.parametrize("name", LIKELIHOODS)
@pytest.mark.parametrize("full", [True, False])
def test_expectations_agree_with_sampling(name, full):
    """200,000 draws, six standard errors: false alarms below 1e-7 in all."""
    likelihood = LIKELIHOODS[name]
    q = random_gaussian(5, 2, full)
    generator = np.random.default_rng(1)
    rows, labels = generator.normal(size=(3, 2)), np.array([1.0, -1.0, 1.0])
    found = jax.jit(partial(likelihoods.score_slopes, likelihood))(q, rows, labels)
    scores = family.sample(q, generator.normal(size=(200_000, 2))) @ rows.T
    value, slope, bend = jax.jit(likelihood.scores)(scores, labels)
    for exact, drawn in ((found.value, value), (found.slope, slope), (found.bend, -bend)):
        error = 6 * np.asarray(drawn).std(0) / np.sqrt(len(scores)) + 1e-4
        assert (np.abs(np.asarray(exact) - np.asarray(drawn).mean(0)) < error).all()


def test_sampled_gradients_agree_with_quadrature():
    """A user's own log-likelihood, sampled, finds what the ready-made one computes."""
    q = Natural(jnp.array([0.5, -0.2]), jnp.array([2.0, 4.0]))
    rows, labels = jnp.array([[1.0, 0.5], [-1.0, 2.0]]), jnp.array([1.0, -1.0])
    own = likelihoods.custom(lambda t, x, y: -jnp.logaddexp(0.0, -y * (x @ t)), 2)
    normals = jax.random.normal(jax.random.key(0), (20_000, 2))
    gradients = jax.jit(likelihoods.expected_gradients, static_argnums=0)
    sampled = gradients(own, q, rows, labels, normals)
    exact = gradients(likelihoods.logistic(), q, rows, labels)
    for one, other in zip(sampled, exact, strict=True):
        assert np.asarray(one) == pytest.approx(np.asarray(other), abs=0.01)
    with pytest.raises(InvalidInput, match="public normals"):
        likelihoods.expected_gradients(own, q, rows, labels)


def test_predictions_average_over_the_posterior():
    q = Natural(jnp.array([2.0]), jnp.array([2.0]))
    rows = jnp.array([[1.0], [-2.0]])
    predictive = jax.jit(likelihoods.predictive, static_argnums=0)
    probit = predictive(likelihoods.probit(), q, rows)
    expected = ndtr(np.array([1.0, -2.0]) / np.sqrt(1 + np.array([0.5, 2.0])))
    assert np.asarray(probit) == pytest.approx(expected, abs=1e-5)
    logistic = predictive(likelihoods.logistic(), q, rows)
    network = likelihoods.custom(lambda t, x, y: 0.0, 1, answer=lambda t, x: jax.nn.sigmoid(x @ t))
    normals = jax.random.normal(jax.random.key(1), (50_000, 1))
    sampled = predictive(network, q, rows, normals)
    assert np.asarray(sampled) == pytest.approx(np.asarray(logistic), abs=0.01)


def test_a_network_has_as_many_parameters_as_it_says():
    network = likelihoods.two_layer(3, 4)
    theta = jnp.arange(network.size(3), dtype=jnp.float32) / 10
    assert network.size(3) == 4 * 3 + 4 + 4 + 1
    row = jnp.array([0.1, 0.2, 0.3])
    weights, biases, out = theta[:12].reshape(4, 3), theta[12:16], theta[16:]
    logit = jnp.tanh(weights @ row + biases) @ out[:4] + out[4]
    assert network.log_density(theta, row, 1.0) == pytest.approx(
        float(jnp.log(jax.nn.sigmoid(logit))), abs=1e-5
    )
    with pytest.raises(InvalidInput, match="at least 1"):
        likelihoods.two_layer(3, 0)
    with pytest.raises(InvalidInput, match="unknown likelihood"):
        likelihoods.likelihood_named("poisson")
