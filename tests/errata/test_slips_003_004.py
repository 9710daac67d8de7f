"""Sources 003 and 004: what is wrong there without costing privacy, and what needs precision."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from unisono.accounting import gaussian, moments, theorems
from unisono.accounting.curve import PrivacyCurve
from unisono.algorithms import bounds
from unisono.algorithms.free_energy import data_free_gradient, data_gradients, free_energy
from unisono.algorithms.pvi import infer
from unisono.core.algorithm import Facts
from unisono.core.events import Event, Gaussian, bounded_sum
from unisono.core.study import Study
from unisono.core.trust import SERVER, Relation, Trust
from unisono.experiments import fig4_3, fig4_4, linear_case
from unisono.problems import gaussian_family as family
from unisono.problems import likelihoods
from unisono.problems.gaussian_family import Natural
from unisono.releases.release import copies

from .. import methods
from ..methods import iterated_regression, one_shot_regression

DELTA = 1e-5


# ------------------------------------------------------------------- the accountant of 003


def test_the_moments_are_those_of_the_larger_direction():
    """E003-3: alpha is the larger of two integrals; the tight conversion is below the loose."""
    rate, noise, power = 0.1, 1.0, 3
    x = np.linspace(-14, 15, 400_001)
    alone = stats.norm.pdf(x, 0, noise)
    mixed = (1 - rate) * alone + rate * stats.norm.pdf(x, 1, noise)
    integrals = [
        np.trapezoid(alone * (alone / mixed) ** power, x),
        np.trapezoid(mixed * (mixed / alone) ** power, x),
    ]
    assert integrals[1] >= integrals[0]
    assert moments.log_moments(rate, noise)[power - 1] == pytest.approx(math.log(integrals[1]))
    run = 78 * moments.log_moments(1, 5)
    loose, tight = moments.epsilon(run, DELTA), moments.epsilon_tight(run, DELTA)
    assert (loose, tight) == pytest.approx((10.08, 9.33), abs=0.01)
    assert gaussian.epsilon(DELTA, math.sqrt(78) / 5) < tight < loose


def test_only_ratios_enter_the_account():
    """E003-4: noise is sigma times the clip, so the clip drops out and sigma remains."""
    found = [
        PrivacyCurve(Event(Gaussian(5 * c), bounded_sum(l2=c)) * 78, Relation.ZERO_OUT).epsilon(
            DELTA
        )
        for c in (0.01, 1.0, 300.0)
    ]
    assert found == pytest.approx([8.5875] * 3, abs=2e-4)


# ----------------------------------------------------------------------- inference of 003


def conjugate(seed=0, size=6):
    """One party's records of a line through the origin, as rows and targets."""
    generator = np.random.default_rng(seed)
    rows = generator.normal(size=(size, 1))
    return rows, 2.0 * rows[:, 0] + 0.5 * generator.normal(size=size)


def test_the_local_step_minimises_the_divergence():
    """E003-10: F_b = log Z_b - KL(q || tilted), so its maximum is where KL is *least*."""
    rows, targets = conjugate()
    likelihood, cavity = likelihoods.linear(0.5), family.prior(1, 0.0, 4.0)
    tilted = Natural(
        cavity.shift + rows.T @ targets / 0.25, cavity.precision + (rows**2).sum(0) / 0.25
    )
    with jax.enable_x64(True):
        sums = []
        for mean, variance in ((0.0, 1.0), (2.0, 0.1), (1.5, 0.01)):
            q = family.gaussian(np.array([mean]), np.array([variance]))
            value = float(free_energy(likelihood, q, cavity, jnp.array(rows), jnp.array(targets)))
            sums.append(value + float(family.kl(q, tilted)))
        best = float(free_energy(likelihood, tilted, cavity, jnp.array(rows), jnp.array(targets)))
    assert sums == pytest.approx([sums[0]] * 3)  # F + KL is log Z, whatever q is
    assert best == pytest.approx(sums[0])  # and F is largest where KL is 0


def test_free_energies_of_unnormalised_factors_miss_a_constant():
    """E003-11: sum F_m = F - log Z_q where q* = p prod t_m is not normalised; 0 where it is."""
    prior, factor = family.prior(1, 0.0, 4.0), Natural(np.array([3.0]), np.array([2.0]))
    q = family.product(prior, factor, factor)
    missing = family.log_normaliser(q) - family.log_normaliser(prior)  # scale 1 in each t_m
    theta = np.array([0.7])
    unnormalised = family.log_density(prior, theta) + 2 * float(
        factor.shift @ theta - 0.5 * factor.precision @ theta**2
    )
    assert unnormalised - family.log_density(q, theta) == pytest.approx(float(missing))
    assert abs(float(missing)) > 0.5


def test_a_joint_local_optimum_can_be_a_global_minimum():
    """E003-12: at mu = 0 both local energies are largest and the global one is least."""
    height, mu = 0.8 * 2**1.5, np.linspace(-3, 3, 6001)

    def expected(m):  # E over N(m, 1) of height (1 - exp(-theta^2 / 2))
        return height * (1 - np.exp(-(m**2) / 4) / math.sqrt(2))

    one_party, together = expected(mu) - mu**2 / 2, 2 * expected(mu) - mu**2 / 2
    assert abs(mu[np.argmax(one_party)]) < 1e-9
    assert abs(mu[np.argmax(together)]) == pytest.approx(math.sqrt(4 * math.log(1.6)), abs=1e-3)
    assert together.max() - together[3000] == pytest.approx(0.260, abs=1e-3)


def test_one_turn_changes_one_factor():
    """E003-13: at a party's turn the others' factors stay, so each turn adds its own sums to q."""
    parties = [conjugate(seed) for seed in range(3)]
    prior = family.prior(1, 0.0, 25.0)
    found = infer(likelihoods.linear(0.5), prior, parties, passes=1, order="sequential")
    before = prior
    for turn, (rows, targets) in enumerate(parties):
        after = Natural(found.history.shift[turn], found.history.precision[turn])
        added = family.quotient(after, before)
        assert float(added.precision[0]) == pytest.approx((rows**2).sum() / 0.25, rel=1e-3)
        assert float(added.shift[0]) == pytest.approx((rows.T @ targets)[0] / 0.25, rel=1e-3)
        before = after
    np.testing.assert_allclose(found.posterior.precision, before.precision, rtol=1e-6)


def test_changes_add_up_in_natural_parameters_only():
    """E003-14: (3.6) adds factors up; true of (shift, precision), false of (mean, variance)."""
    one, other = (
        family.gaussian(np.array([m]), np.array([v])) for m, v in ((1.0, 2.0), (3.0, 1.0))
    )
    both = family.product(one, other)
    x = np.linspace(-10, 10, 20_001)
    density = stats.norm.pdf(x, 1, math.sqrt(2)) * stats.norm.pdf(x, 3, 1)
    mean = np.trapezoid(x * density, x) / np.trapezoid(density, x)
    assert family.mean(both)[0] == pytest.approx(mean)
    assert family.mean(one)[0] + family.mean(other)[0] != pytest.approx(mean, abs=1)


def test_a_common_factor_is_free():
    """E003-15: the step size multiplies clip and noise alike; mu = sqrt(T) Delta/sigma stays."""
    costs = [
        PrivacyCurve(Event(Gaussian(5.0 * eta), bounded_sum(l2=eta)) * 78, relation).epsilon(DELTA)
        for eta in (0.1, 1.0)
        for relation in (Relation.ZERO_OUT, Relation.REPLACE_ONE)
    ]
    assert costs == pytest.approx([8.5875, 20.6536] * 2, abs=1e-3)


def test_single_messages_are_weaker_by_the_root_of_m():
    """E003-17: mu, not epsilon, grows by sqrt(M) if single shares are seen: 191 at M = 20."""
    mu = 2 * math.sqrt(78) / 5
    assert gaussian.epsilon(DELTA, mu * math.sqrt(20)) == pytest.approx(191, abs=0.5)
    assert gaussian.epsilon(DELTA, mu * math.sqrt(20)) > 2 * math.sqrt(20) * gaussian.epsilon(
        DELTA, mu
    )


@pytest.mark.parametrize(("colluding", "epsilon"), [(0, 8.59), (5, 10.24), (15, 20.65)])
def test_colluders_take_their_noise_with_them(colluding, epsilon):
    """E003-18: t of M shares known: variance times (M - t)/M, mu times sqrt(M/(M - t))."""
    mu = gaussian.colluders(math.sqrt(78) / 5, 20, colluding)
    assert gaussian.epsilon(DELTA, mu) == pytest.approx(epsilon, abs=0.01)


def test_a_promise_to_groups_is_a_promise_to_records():
    """E003-19: (3.8) is right, and a shard's epsilon holds for each of its records as it is."""
    epsilon, delta = theorems.group_approximate(1.0, 1e-6, 10)
    assert (epsilon, delta) == (pytest.approx(10), pytest.approx(0.0128, abs=1e-4))
    assert theorems.group_approximate(1.0, 1e-6, 1) == pytest.approx((1.0, 1e-6))
    mu = gaussian.group(gaussian.mu_for(1.0, 1e-6), 10)
    assert gaussian.delta(10.0, mu) < delta / 10  # the curve says far more than the pair


# ---------------------------------------------------------------------- chapter 4 of 003


def test_the_normaliser_has_a_plus():
    """E003-20: N(0.3 | 1, 4) is 0.18762; with - ln sigma it would be 0.75048."""
    q = family.gaussian(np.array([1.0]), np.array([4.0]))
    value = float(np.exp(family.log_density(q, np.array([0.3]))))
    assert value == pytest.approx(stats.norm.pdf(0.3, 1, 2), rel=1e-9)
    assert value * 4 == pytest.approx(0.75048, abs=1e-5)  # sigma^2 too large, as printed


def test_the_variance_gradient_has_its_halves():
    """E003-21: dF/dv = 1/(2v) - x'x/(2 s^2) - 1/(2 w); without the halves it is twice that."""
    rows, targets = conjugate()
    variance, cavity = 0.3, family.prior(1, 0.0, 4.0)
    q = family.gaussian(np.array([1.0]), np.array([variance]))
    right = 1 / (2 * variance) - (rows**2).sum() / (2 * 0.25) - 1 / (2 * 4.0)
    with jax.enable_x64(True):
        of_data = data_gradients(likelihoods.linear(0.5), q, jnp.array(rows), jnp.array(targets))
        found = float(of_data.sum(axis=0)[1] + data_free_gradient(q, cavity)[1])
    assert found == pytest.approx(right, rel=1e-6)


def test_raising_to_zero_biases_upwards():
    """E003-22: E max(0, N(S, s^2)) - S = s[phi(u) - u Phi(-u)], u = S/s; 10^6 draws, 6 s.e."""
    for statistic, std, bias in ((1.0, 1.25, 0.1502590424), (10.0, 5.0, 0.04245351308)):
        u = statistic / std
        assert std * (stats.norm.pdf(u) - u * stats.norm.cdf(-u)) == pytest.approx(bias)
        drawn = np.random.default_rng(0).normal(statistic, std, 10**6)
        assert drawn.mean() == pytest.approx(statistic, abs=6 * std / 1000)
        raised = np.maximum(drawn, 0).mean() - statistic
        assert raised == pytest.approx(bias, abs=6 * std / 1000)


def test_the_mean_is_over_rather_than_underestimated():
    """E003-23: even odds to exceed it, a trimmed mean above it, and only the mode below it.

    400,000 draws: the share above is 0.5 up to 0.004, five standard errors.
    """
    true, _ = fig4_3.exact_posterior(2.0)
    drawn = np.asarray(fig4_3.noisy_posteriors(2.0, 400_000, seed=1).means)
    assert np.mean(drawn > true) == pytest.approx(0.5, abs=0.004)
    low, high = np.quantile(drawn, [0.01, 0.99])
    assert drawn[(drawn > low) & (drawn < high)].mean() > true + 0.03
    assert fig4_3.mode_of_mean() < true


def test_the_captions_clip_fits_the_text():
    """E003-24: the text's median KL of 22 is figure 4.4's at C = 0.25, the caption of 4.5 says
    C = 2. 40 draws of the noise, fixed keys: at both clips some draws have a median below 22 and
    some above, at C = 4 and with the statistic raised (4.20) none or all. Without noise (4.7)
    C = 2 is wider than the posterior, hence not the "practically unmodified" extreme.
    """
    shards = linear_case.thesis_shards(fig4_4.SEEDS, fig4_4.PARTIES, fig4_4.POINTS)
    true, places, clips = linear_case.posterior(shards), ("local", "statistic"), (0.25, 2.0, 4.0)
    found = fig4_4.measure(shards, fig4_4.SIGMA, 40, places, true, clips)
    below = np.mean(np.median(found["local"].kl, axis=-1) <= 22, axis=0)
    assert (below[:2] >= 0.1).all()
    assert (below[:2] <= 0.9).all()
    assert below[2] <= 0.05
    assert np.median(found["statistic"].kl, axis=-1).min() > 60
    clipped = fig4_4.measure(shards, 0.0, 1, ("local",), true, clips)["local"]
    assert np.median(clipped.ratio[0, 1]) == pytest.approx(0.44, abs=0.01)


def test_the_mean_is_shift_over_precision():
    """E003-24: eta_2/eta_1, not eta_1/eta_2."""
    q = Natural(np.array([6.0]), np.array([2.0]))
    assert family.mean(q)[0] == 3.0
    np.testing.assert_allclose(family.gaussian(family.mean(q), family.variances(q)).shift, [6.0])


def test_one_release_costs_what_the_iteration_does_and_is_less_noisy():
    """E003-25: at equal epsilon one release has 1/sqrt(T) of the noise of each of T rounds, and
    damped averaging keeps only (2 - eta)/eta of them: 19 of 78."""
    facts, rounds, damping = Facts((200,) * 3, 2, 3), 78, 0.1
    alone = one_shot_regression(8.0, DELTA).bind(facts, Trust.LOCAL)
    each = iterated_regression(8.0, DELTA, rounds=rounds, damping=damping).bind(facts, Trust.LOCAL)
    once, noise = (one.event(facts, Trust.LOCAL).noise.std for one in (alone, each))
    assert noise == pytest.approx(once * math.sqrt(rounds), rel=0.01)
    weights = damping * (1 - damping) ** np.arange(1000)
    kept = 1 / np.sum(weights**2)
    assert kept == pytest.approx(19.0)
    assert noise / math.sqrt(kept) > 2 * once


def test_a_standard_deviation_is_not_a_variance():
    """E003-26: prior_std 5 passed as a variance of 5: an error of 3e-4 in KL at slope 2, and it
    grows with the square of the slope."""
    gaps = []
    for slope in (2.0, 10.0):
        shards = linear_case.thesis_shards(range(1, 13), 20, 10, slope)
        with jax.enable_x64(True):
            right = linear_case.posterior(shards)
            wrong = linear_case.posterior(shards, prior_variance=linear_case.PRIOR_STD)
            gaps.append(float(np.mean(linear_case.divergence(right, wrong))))
    assert 0 < gaps[0] < 1e-3
    assert 5 < gaps[1] / gaps[0] < 30


# ------------------------------------------------------------------------------ source 004


def test_every_party_and_round_has_noise_of_its_own(generator):
    """E004-1: b_k must be drawn per party *and* round: one draw for all would be m^2, not m.

    The variance of a sum of 9 independent shares, 20,000 sums: 5 % is five standard errors.
    """
    facts = Facts((50,) * 9, 3, 9)
    algorithm = methods.sgd_synchronous(1.0, DELTA).bind(facts, Trust.LOCAL)
    std = algorithm.event(facts, Trust.LOCAL).noise.std
    planned = std**2 * copies(facts, Trust.LOCAL)
    apart = generator.normal(scale=std, size=(20_000, 9)).sum(axis=1)
    assert apart.var() == pytest.approx(planned, rel=0.05)
    assert (9 * generator.normal(scale=std, size=20_000)).var() > 8 * planned


def test_amplification_by_sampling_one_of_n():
    """E004-4: (1/n)(e^eps0 - 1) <= 2 eps0/n up to eps0 = 1, and not at 2; it is log(1 + ...)."""
    for start in (0.1, 0.5, 1.0):
        assert math.expm1(start) <= 2 * start
        exact, _ = theorems.amplify_by_sampling(
            start, 0.0, 1 / 100, sampler="without-replacement", relation="replace-one"
        )
        assert exact == pytest.approx(math.log1p(math.expm1(start) / 100))
        assert exact <= 2 * start / 100
    assert math.expm1(2.0) > 4.0


def test_the_lemmas_and_orders_that_hold():
    """E004-6: Lemma 1 bounds the exact cost, and the step (4) balances both terms of (12)."""
    exact = theorems.optimal(0.05, 0.0, 100, 1e-6)
    assert exact <= theorems.advanced(0.05, 0.0, 100, 1e-6)
    diameter, moment, steps = 10.0, 400.0, 900
    best = diameter / math.sqrt(moment * steps)
    found = [bounds.constant_step(diameter, moment, steps, best * k) for k in (0.5, 1.0, 2.0)]
    assert found[1] == min(found)
    assert found[1] == pytest.approx(bounds.plain_average(diameter, moment, steps))


def test_parties_with_different_records_do_not_add_up():
    """E004-8: one record lies with one party, so the promise is the worst party's, not the sum."""
    assert theorems.parallel([(0.5, 1e-6), (1.0, 1e-7)]) == (1.0, 1e-6)
    method = methods.sgd_synchronous(1.0, DELTA)
    for parties in (2, 20):
        cost = Study(method, Facts((50,) * parties, 3, parties), Trust.LOCAL).cost[SERVER]
        assert PrivacyCurve(cost, Relation.REPLACE_ONE).epsilon(DELTA) <= 1.0


def test_private_noise_leaves_a_floor_however_long_the_run():
    """E004-9: (11) is valid but loose; with sigma^2 = 4 L^2 T/mu^2 noise does not vanish."""
    records, parties, p, strong = 1000, 5, 10, 0.5
    mu = gaussian.mu_for(1.0, DELTA)
    found, printed = [], []
    for steps in (10**3, 10**5, 10**7):
        sigma = 2 * math.sqrt(steps) / mu
        moment = bounds.second_moment(records, 1.0, p, parties * sigma**2)
        found.append(bounds.weighted_average(records, strong, moment, steps))
        printed.append(bounds.published_equation_11(records, 1.0, p, parties, sigma, strong, steps))
    floor = 8 * parties * p / (records * strong * mu**2)
    assert found[-1] == pytest.approx(floor, rel=0.01)
    assert found[0] > found[1] > found[2]
    assert all(loose > tight for loose, tight in zip(printed, found, strict=True))


def test_the_constant_step_bound_lacks_m_p():
    """E004-10: stationary excess m p eta s^2/(2 (2 - eta a)) = 1.32 where (12) says 0.1."""
    step, sigma, parties, p = 0.1, 1.0, 5, 10
    true = parties * p * step * sigma**2 / (2 * (2 - step))
    assert true == pytest.approx(1.3158, abs=1e-4)
    theta, excess = np.zeros((400, p)), []
    generator = np.random.default_rng(4)
    for number in range(300):
        theta -= step * (theta + generator.normal(scale=math.sqrt(parties), size=theta.shape))
        if number >= 150:
            excess.append(np.mean(np.sum(theta**2, axis=1) / 2))
    assert np.mean(excess) == pytest.approx(true, rel=0.05)
    assert np.mean(excess) > 10 * bounds.published_equation_12(1e-9, sigma, 10**6, step)
    moment = bounds.second_moment(1, 1e-9, p, parties * sigma**2)
    assert np.mean(excess) <= bounds.constant_step(0.0, moment, 10**6, step)
