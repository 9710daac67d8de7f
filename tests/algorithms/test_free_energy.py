"""Global and local free energies: the evidence bound, theorem 2.2.3, and what it does not say."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from unisono.algorithms import free_energy
from unisono.algorithms.free_energy import from_coordinates, in_log_variance, to_coordinates
from unisono.errors import InvalidInput
from unisono.problems import gaussian_family as family
from unisono.problems.gaussian_family import Natural
from unisono.problems.likelihoods import linear

NOISE_STD = 0.5
# Compiled, which is faster than operation by operation.
global_free_energy = jax.jit(free_energy.global_free_energy, static_argnums=0)
local_free_energies = jax.jit(free_energy.local_free_energies, static_argnums=0)
fixed_point = jax.jit(free_energy.fixed_point, static_argnums=0)


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def records(sizes=(4, 6, 3), features=2, seed=0):
    generator = np.random.default_rng(seed)
    slope = generator.normal(size=features)
    parties = []
    for size in sizes:
        rows = generator.normal(size=(size, features))
        parties.append(
            (jnp.asarray(rows), jnp.asarray(rows @ slope + NOISE_STD * generator.normal(size=size)))
        )
    return parties


def pooled(parties):
    return tuple(jnp.concatenate([part[k] for part in parties]) for k in (0, 1))


def exact_factors(parties):
    """The likelihood itself as a factor: full precision, as the model is conjugate."""
    shift = jnp.stack([x.T @ y for x, y in parties]) / NOISE_STD**2
    return Natural(shift, jnp.stack([x.T @ x for x, _ in parties]) / NOISE_STD**2)


def density(features, full, seed):
    generator = np.random.default_rng(seed)
    root = generator.normal(size=(features, features))
    precision = root @ root.T + np.eye(features)
    return Natural(
        jnp.asarray(generator.normal(size=features)),
        jnp.asarray(precision if full else np.diag(precision).copy()),
    )


def test_the_global_free_energy_is_the_evidence_minus_the_divergence():
    """Conjugate: F(q) = log N(y; 0, σ² I + v X Xᵀ) - KL(q || posterior), for two q."""
    parties = records()
    rows, labels = pooled(parties)
    prior = Natural(*map(jnp.asarray, family.prior(2, 0.0, 4.0, full=True)))
    seen = exact_factors(parties)
    posterior = family.product(prior, Natural(seen.shift.sum(0), seen.precision.sum(0)))
    cover = NOISE_STD**2 * np.eye(len(labels)) + 4.0 * np.asarray(rows @ rows.T)
    evidence = stats.multivariate_normal(np.zeros(len(labels)), cover).logpdf(np.asarray(labels))
    best = global_free_energy(linear(NOISE_STD), posterior, prior, rows, labels)
    assert best == pytest.approx(evidence, abs=1e-9)
    other = density(2, True, seed=3)
    gap = best - global_free_energy(linear(NOISE_STD), other, prior, rows, labels)
    assert gap == pytest.approx(float(family.kl(other, posterior)), rel=1e-9)


@pytest.mark.parametrize("full", [False, True])
def test_local_free_energies_add_up_for_every_q(full):
    """Σ F_m(q) = F(q) - (M - 1) KL(q || q*), for factors that no party would choose."""
    parties, prior = records(), density(2, full, seed=1)
    generator = np.random.default_rng(5)
    precision = jnp.stack([density(2, full, seed=k).precision for k in (7, 8, 9)])
    factors = Natural(jnp.asarray(generator.normal(size=(3, 2))), precision)
    centre = family.product(prior, Natural(factors.shift.sum(0), factors.precision.sum(0)))
    for q in (centre, density(2, full, seed=2)):
        local = local_free_energies(linear(NOISE_STD), q, prior, factors, parties)
        whole = global_free_energy(linear(NOISE_STD), q, prior, *pooled(parties))
        assert local.shape == (3,)
        assert local.sum() == pytest.approx(float(whole - 2 * family.kl(q, centre)), rel=1e-9)
    assert float(family.kl(density(2, full, seed=2), centre)) > 0.1


def test_at_the_exact_factors_every_party_and_all_together_are_stationary():
    """One feature, so that the conjugate posterior is diagonal; its free energy is the evidence."""
    parties = records(features=1)
    prior = Natural(*map(jnp.asarray, family.prior(1, 0.0, 4.0)))
    exact = exact_factors(parties)
    factors = Natural(exact.shift, exact.precision[:, :, 0])
    found = fixed_point(linear(NOISE_STD), prior, factors, parties)
    assert np.abs(found.local_gradients).max() < 1e-10
    assert np.abs(found.gradient).max() < 1e-10
    rows, labels = pooled(parties)
    cover = NOISE_STD**2 * np.eye(len(labels)) + 4.0 * np.asarray(rows @ rows.T)
    evidence = stats.multivariate_normal(np.zeros(len(labels)), cover).logpdf(np.asarray(labels))
    assert found.local.sum() == pytest.approx(evidence, abs=1e-9)
    assert found.whole == pytest.approx(evidence, abs=1e-9)


def test_gradients_add_up_and_are_those_of_the_free_energies():
    """Away from a fixed point: Σ ∇F_m(q*) = ∇F(q*) != 0, checked by automatic differentiation."""
    parties, likelihood = records(), linear(NOISE_STD)
    prior = Natural(*map(jnp.asarray, family.prior(2, 0.0, 4.0)))
    generator = np.random.default_rng(4)
    factors = Natural(
        jnp.asarray(generator.normal(size=(3, 2))), jnp.asarray(generator.uniform(0.2, 1, (3, 2)))
    )
    found = fixed_point(likelihood, prior, factors, parties)
    assert np.abs(found.gradient).max() > 0.1
    assert found.local_gradients.sum(0) == pytest.approx(np.asarray(found.gradient), rel=1e-9)
    assert found.local.sum() == pytest.approx(float(found.whole), rel=1e-9)
    centre = family.product(prior, Natural(factors.shift.sum(0), factors.precision.sum(0)))

    def both(point):
        q = from_coordinates(point)
        local = local_free_energies(likelihood, q, prior, factors, parties)
        return jnp.append(local, global_free_energy(likelihood, q, prior, *pooled(parties)))

    slopes = jax.jit(jax.jacfwd(both))(to_coordinates(centre))
    ours = jnp.vstack([found.local_gradients, found.gradient])
    for slope, gradient in zip(slopes, ours, strict=True):
        assert in_log_variance(centre, gradient) == pytest.approx(np.asarray(slope), rel=1e-8)


def test_refusals_say_why():
    parties, prior = records(), Natural(*map(jnp.asarray, family.prior(2, 0.0, 4.0)))
    short = Natural(jnp.zeros((2, 2)), jnp.ones((2, 2)))
    with pytest.raises(InvalidInput, match="2 factors for 3 parties"):
        local_free_energies(linear(NOISE_STD), prior, prior, short, parties)
    full = Natural(prior.shift, jnp.diag(prior.precision))
    with pytest.raises(InvalidInput, match="diagonal q"):
        fixed_point(linear(NOISE_STD), full, short, parties)
