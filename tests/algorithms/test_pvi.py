"""Partitioned inference without privacy: the properties that hold, and the one that does not."""

import math
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unisono.algorithms.pvi import Climb, infer, schedule
from unisono.errors import InvalidInput
from unisono.problems import gaussian_family as family
from unisono.problems import likelihoods
from unisono.problems.gaussian_family import Natural

ORDERS = ("synchronous", "sequential", "asynchronous")
SIZES = (30, 1, 50, 0, 20)  # a party without records takes part, and changes nothing


def regression(sizes=SIZES, features=3, seed=0):
    generator = np.random.default_rng(seed)
    truth = generator.normal(size=features)
    rows = [generator.normal(size=(n, features)) for n in sizes]
    return [(x, x @ truth + 0.5 * generator.normal(size=len(x))) for x in rows]


def classification(seed=0):
    generator = np.random.default_rng(seed + 100)
    return [
        (x, np.where(y + generator.logistic(size=len(y)) > 0, 1.0, -1.0)) for x, y in regression()
    ]


def pooled(parties):
    return [tuple(np.concatenate(columns) for columns in zip(*parties, strict=True))]


def exact_posterior(prior, parties, noise_std):
    rows, targets = pooled(parties)[0]
    return Natural(
        prior.shift + rows.T @ targets / noise_std**2,
        prior.precision + rows.T @ rows / noise_std**2,
    )


def distance(q, p):
    return float(family.kl(*(Natural(*(np.asarray(part, float) for part in r)) for r in (q, p))))


@lru_cache
def found_together(name="logistic", full=False):
    """The posterior of all records in one place."""
    likelihood, prior = likelihoods.likelihood_named(name), family.prior(3, 0.0, 4.0, full)
    climb = Climb(steps=300)
    return infer(likelihood, prior, pooled(classification()), passes=1, climb=climb).posterior


@pytest.mark.parametrize("order", ORDERS)
def test_one_pass_of_a_conjugate_model_is_exact(order):
    """003 (4.8)-(4.11): a factor does not depend on q, so everyone's first turn settles it."""
    prior, parties = family.prior(3, 0.5, 25.0, full=True), regression()
    passes = 3 if order == "asynchronous" else 1  # its slowest party answers in the third round
    found = infer(likelihoods.linear(0.5), prior, parties, passes=passes, order=order)
    assert distance(found.posterior, exact_posterior(prior, parties, 0.5)) < 1e-5
    whole = family.product(prior, Natural(*(np.asarray(f).sum(0) for f in found.factors)))
    assert np.allclose(whole.precision, found.posterior.precision, rtol=1e-4)
    empty = SIZES.index(0)
    assert np.abs(np.asarray(found.factors.precision)[empty]).max() < 1e-3


@pytest.mark.parametrize(
    ("name", "full", "order"),
    [
        ("logistic", False, "asynchronous"),
        ("probit", True, "sequential"),
        pytest.param("logistic", False, "synchronous", marks=pytest.mark.slow),
        pytest.param("logistic", False, "sequential", marks=pytest.mark.slow),
        pytest.param("logistic", True, "synchronous", marks=pytest.mark.slow),
    ],
)
def test_parties_find_what_pooled_data_find(name, full, order):
    likelihood = likelihoods.likelihood_named(name)
    prior, parties = family.prior(3, 0.0, 4.0, full), classification()
    climb = Climb(steps=60, size=0.5)
    found = infer(likelihood, prior, parties, passes=40, order=order, damping=0.5, climb=climb)
    assert distance(found.posterior, found_together(name, full)) < 1e-4


def test_plain_gradients_climb_to_the_same_place():
    prior, parties = family.prior(3, 0.0, 4.0), classification()
    climb = Climb("gradient", steps=400, size=0.03)
    plain = infer(likelihoods.logistic(), prior, pooled(parties), passes=2, climb=climb)
    assert distance(plain.posterior, found_together()) < 1e-3


def test_a_users_own_likelihood_is_sampled():
    own = likelihoods.custom(lambda t, x, y: -jnp.logaddexp(0.0, -y * (x @ t)), 3)
    prior, parties = family.prior(3, 0.0, 4.0), classification()
    climb = Climb("gradient", steps=600, size=0.05, samples=8)
    found = infer(own, prior, pooled(parties), passes=1, climb=climb)
    assert distance(found.posterior, found_together()) < 0.05


@pytest.mark.slow
def test_a_network_learns_a_pattern_that_no_line_separates():
    generator = np.random.default_rng(0)
    rows = generator.uniform(-1, 1, size=(400, 2))
    labels = np.where(np.abs(rows[:, 0]) > 0.5, 1.0, -1.0)
    network = likelihoods.two_layer(2, 8)
    size = network.size(2)
    prior = family.prior(size, 0.0, 25.0)
    scattered = generator.normal(size=size)
    prior = Natural(scattered * prior.precision, prior.precision)  # units must differ to begin
    parties = [(rows[k::4], labels[k::4]) for k in range(4)]
    climb = Climb("gradient", steps=150, size=0.05, samples=4)
    found = infer(network, prior, parties, passes=8, damping=0.25, climb=climb)
    normals = jax.random.normal(jax.random.key(1), (64, size))
    chances = likelihoods.predictive(network, found.posterior, jnp.asarray(rows), normals)
    accuracy = np.mean((np.asarray(chances) > 0.5) == (labels > 0))
    assert accuracy > 0.9  # the best line reaches about 0.5


def test_local_free_energies_add_up_to_the_global_one():
    """E003-11: Σ F_m(q*) = F(q*) where q* = p Π t_m is normalised; (2.27).

    With unnormalised factors the sum is F - M log-normalisers of what each cavity lacks; here all
    terms are computed with their normalisers, F_m(q) = E_q[log p_m] - KL(q || cavity) + log of the
    cavity's mass relative to q*/t_m.
    """
    prior, parties = family.prior(3, 0.0, 4.0), classification()
    climb = Climb(steps=60, size=0.5)
    found = infer(likelihoods.logistic(), prior, parties, passes=60, damping=0.5, climb=climb)
    with jax.enable_x64(True):
        q = Natural(*(jnp.asarray(np.asarray(part, float)) for part in found.posterior))
        prior = Natural(*map(jnp.asarray, prior))
        slack = family.log_normaliser(q)

        fits = jax.jit(
            lambda rows, labels: likelihoods.score_slopes(likelihoods.logistic(), q, rows, labels)
        )

        def fit(party):
            return float(fits(*map(jnp.asarray, party)).value.sum())

        whole = sum(fit(p) for p in parties if len(p[1])) - float(family.kl(q, prior))
        # t_m with scale: log t_m = θ·a - ½θPθ + s_m, Σ s_m chosen so that p Π t_m is normalised.
        scale = (float(family.log_normaliser(prior)) - float(slack)) / len(parties)
        local = 0.0
        for index, party in enumerate(parties):
            factor = Natural(*(jnp.asarray(np.asarray(p[index], float)) for p in found.factors))
            centre, spread = family.mean(q), family.variances(q)
            log_factor = factor.shift @ centre - 0.5 * factor.precision @ (centre**2 + spread)
            local += (fit(party) if len(party[1]) else 0.0) - float(log_factor) - scale
    assert local == pytest.approx(whole, abs=1e-3)


def test_joint_local_maxima_need_not_maximise_the_global_free_energy():
    """E003-12: (2.28) is false. Σ F_m = F - (M-1) KL(q || q*): the joint maximum of both parties
    at μ = 0 is a local *minimum* of F, whose maxima lie at ±1.371, higher by 0.260.

    q = N(μ, 1), prior N(0, 1), two parties with log p_m(θ) = A (1 - exp(-θ²/2)), A = 0.8·2^1.5.
    """
    height = 0.8 * 2**1.5
    points = np.linspace(-3, 3, 6001)
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / weights.sum()
    drawn = points[:, None] + nodes
    fit = (height * (1 - np.exp(-(drawn**2) / 2))) @ weights
    penalty = points**2 / 2  # KL(N(μ, 1) || N(0, 1))
    local, whole = fit - penalty, 2 * fit - penalty
    assert points[local.argmax()] == pytest.approx(0, abs=1e-3)
    middle = len(points) // 2
    assert whole[middle] < whole[middle - 1]
    assert whole[middle] < whole[middle + 1]
    best = points[whole.argmax()]
    assert abs(best) == pytest.approx(math.sqrt(4 * math.log(1.6)), abs=2e-3)
    assert whole.max() - whole[middle] == pytest.approx(0.260, abs=5e-4)
    assert 2 * local == pytest.approx(whole - penalty, abs=1e-12)  # the identity, M = 2


def test_schedules():
    assert schedule("synchronous", 2, 3).asked.all()
    assert (schedule("sequential", 7, 3).asked.sum(1) == 1).all()
    slow = schedule("asynchronous", 6, 3, paces=(1, 2, 6))
    assert slow.asked.sum(0).tolist() == [6, 3, 1]
    assert slow.stale
    with pytest.raises(InvalidInput, match="unknown schedule"):
        schedule("random", 3, 3)
    with pytest.raises(InvalidInput, match="every party a turn"):
        schedule("sequential", 2, 3)
    with pytest.raises(InvalidInput, match="whole number of rounds"):
        schedule("asynchronous", 3, 2, paces=(1, 4))


def test_bad_input_is_refused_with_a_remedy():
    prior, parties = family.prior(3, 0.0, 4.0), classification()
    logistic = likelihoods.logistic()
    cases = [
        ({"damping": 0.0}, "damping"),
        ({"damping": 1.5}, "damping"),
        ({"prior": Natural(np.zeros(3), np.array([1.0, 0.0, 1.0]))}, "positive variance"),
        ({"prior": family.prior(2, 0.0, 1.0)}, "same size"),
        ({"parties": []}, "nothing to infer"),
        ({"parties": [(np.zeros((0, 3)), np.zeros(0))]}, "nothing to infer"),
        ({"parties": [(np.full((2, 3), np.nan), np.ones(2))]}, "not finite"),
        ({"parties": [(np.zeros((2, 3)), np.ones(3))]}, "one label for each"),
    ]
    for changes, message in cases:
        arguments = {"prior": prior, "parties": parties, **changes}
        first, second = arguments.pop("prior"), arguments.pop("parties")
        with pytest.raises(InvalidInput, match=message):
            infer(logistic, first, second, **arguments)
    with pytest.raises(InvalidInput, match="unknown climb"):
        Climb("newton")
    with pytest.raises(InvalidInput, match="at least 1"):
        Climb(steps=0)
    with pytest.raises(InvalidInput, match="positive number"):
        likelihoods.linear(0.0)
    broken = likelihoods.custom(lambda t, x, y: jnp.log(-jnp.sum(t**2)), 3)
    with pytest.raises(InvalidInput, match="not finite"):
        infer(broken, prior, parties, climb=Climb("gradient"))
