"""Source 000 (Chen's slides after Jayaraman et al. 2018): what fails there and holds here."""

import math

import numpy as np
import pytest

from unisono.accounting import gaussian, published_gaussian, zcdp
from unisono.accounting.accountant import ACCOUNTANT
from unisono.accounting.curve import PrivacyCurve
from unisono.accounting.pairs import DiscretePair
from unisono.accounting.shares import norm_mechanism_epsilon
from unisono.attacks.audit import audit, check
from unisono.core.algorithm import Facts
from unisono.core.events import Distance, Event, NormNoise, Sensitivity
from unisono.core.ledger import Ledger
from unisono.core.noise.norm import norm_share
from unisono.core.policy import Budget, Policy
from unisono.core.study import Study
from unisono.core.trust import FINAL_MODEL, SERVER, Relation, Trust, Unit
from unisono.errors import AuditFailed, ConditionViolated, LargeDeltaWarning, UndefinedRelation
from unisono.mechanisms import laplace, norm
from unisono.statistics import count

from .. import methods

REPLACE = Relation.REPLACE_ONE


def moves(l2):
    """The sensitivity of a minimiser that moves by `l2` when one record is replaced."""
    return Sensitivity(Unit.RECORD, replace_one=Distance(l2=l2))


def roomy():
    """A simulated book with room for one release at a delta of 1/40."""
    return Ledger.in_memory(Policy("d", Budget(1.0, 0.03)), ACCOUNTANT, seed=1)


def minimisers(p, n=50, strength=0.1, seed=0):
    """Exact minimisers of mean(-y theta.x) + strength ||theta||^2 / 2, before and after a flip."""
    rows = np.random.default_rng(seed).normal(size=(n, p))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    rows[-1] = 1 / math.sqrt(p)
    labels = np.ones(n)
    flipped = np.where(np.arange(n) == n - 1, -1.0, 1.0)
    return labels @ rows / (n * strength), flipped @ rows / (n * strength), 2 / (n * strength)


def test_publishing_a_random_record_meets_a_delta_of_one_in_n():
    """E000-2: delta = 1/n allows publishing somebody in clear; we warn at delta >= 1/n."""
    n = 40
    before = np.append(np.full(n, 1 / n), 0.0)  # outcome k: record k is printed
    after = np.append(np.full(n - 1, 1 / n), [0.0, 1 / n])  # the last record was replaced
    lottery = DiscretePair(tuple(before), tuple(after))
    assert max(lottery.hockey_stick(0.0)) == pytest.approx(1 / n)
    assert before.sum() == pytest.approx(1.0)  # whatever happens, a whole record is out
    with pytest.warns(LargeDeltaWarning, match="publishing one whole record"):
        count(np.ones(n, bool), epsilon=0.1, delta=1 / n, ledger=roomy())
    count(np.ones(n, bool), epsilon=0.1, delta=n**-2.0, ledger=roomy())


@pytest.mark.parametrize(("epsilon", "true_delta"), [(10, 2.27e-5), (20, 1.5e-3)])
def test_the_classical_gaussian_is_false_for_large_epsilon(epsilon, true_delta):
    """E000-3: sqrt(2 log(1.25/delta))/epsilon gives too little noise at epsilon 10 and 20."""
    sigma = gaussian.published_classical_sigma(epsilon, 1e-5, beyond_its_condition=True)
    assert gaussian.delta(epsilon, 1 / sigma) == pytest.approx(true_delta, rel=0.02)
    assert gaussian.delta(epsilon, 1 / sigma) > 1e-5
    with pytest.raises(ConditionViolated, match="epsilon <= 1"):
        gaussian.published_classical_sigma(epsilon, 1e-5)
    assert gaussian.delta(epsilon, gaussian.mu_for(epsilon, 1e-5)) <= 1e-5


def test_where_the_classical_gaussian_stops_being_true():
    """E000-3: the formula holds up to these epsilons and no further; below 1 it wastes noise."""
    table = {1e-2: 6.77, 1e-3: 7.46, 1e-5: 8.41, 1e-6: 8.78, 1e-10: 9.84}
    for delta, limit in table.items():
        assert limit <= published_gaussian.classical_limit(delta) < limit + 0.0101
        sigma = gaussian.published_classical_sigma(limit + 0.02, delta, beyond_its_condition=True)
        assert gaussian.delta(limit + 0.02, 1 / sigma) > delta
    assert gaussian.published_classical_sigma(1, 1e-5) == pytest.approx(4.84, abs=0.01)
    assert 1 / gaussian.mu_for(1, 1e-5) == pytest.approx(3.73, abs=0.01)


def test_the_norm_density_needs_the_euclidean_norm(generator):
    """E000-5: exp(-n lambda epsilon |b| / 2) is epsilon-DP for the L2 norm, not coordinate-wise."""
    one, other, distance = minimisers(p=25)
    epsilon = 0.7
    outputs = one + generator.normal(size=(2000, 25)) * 0.2
    outputs = np.concatenate([outputs, [one]])

    def loss(order):
        far, near = (np.linalg.norm(outputs - centre, order, axis=1) for centre in (other, one))
        return np.max(far - near) * epsilon / distance

    assert loss(2) <= epsilon * (1 + 1e-12)
    assert loss(1) == pytest.approx(5 * epsilon)  # sqrt(25) times the claim
    event = norm.calibrate(moves(distance), REPLACE, epsilon)
    assert event.noise.scale == pytest.approx(distance / epsilon)
    assert epsilon * (1 - 1e-9) < PrivacyCurve(event * 1, REPLACE).epsilon(0.0) <= epsilon


def test_an_inexact_solver_moves_the_minimiser_further():
    """E000-5: with gradients up to tau at the answer, the sensitivity grows by 2 tau/lambda."""
    strength, tau, epsilon = 0.1, 0.02, 1.0
    one, other, exact = minimisers(p=9, strength=strength)
    apart = (one - other) / np.linalg.norm(one - other)
    # The gradient of the objective at theta is strength * (theta - minimiser).
    stopped = [one + apart * tau / strength, other - apart * tau / strength]
    for found, minimiser in zip(stopped, (one, other), strict=True):
        assert strength * np.linalg.norm(found - minimiser) <= tau * (1 + 1e-12)
    moved = np.linalg.norm(stopped[0] - stopped[1])
    published = Event(NormNoise(exact / epsilon), moves(moved))
    assert PrivacyCurve(published * 1, REPLACE).epsilon(0.0) == pytest.approx(2.0)
    assert moved <= exact + 2 * tau / strength + 1e-12
    ours = norm.calibrate(moves(exact + 2 * tau / strength), REPLACE, epsilon)
    assert moved / ours.noise.scale <= epsilon * (1 + 1e-12)


def test_laplace_noise_on_an_l2_bound_costs_sqrt_p():
    """E000-8: the linear loss attains sqrt(p) epsilon; at p = 1000 the claim is off by 31.6."""
    one, other, claimed = minimisers(p=1000)
    assert np.linalg.norm(one - other) == pytest.approx(claimed)
    epsilon = 0.5
    true = np.abs(one - other).sum() / (claimed / epsilon)
    assert true / epsilon == pytest.approx(31.6, abs=0.05)
    with pytest.raises(UndefinedRelation, match="no l1 sensitivity"):
        laplace.calibrate(moves(claimed), REPLACE, epsilon)
    both = Sensitivity(Unit.RECORD, replace_one=Distance(l1=claimed * math.sqrt(1000), l2=claimed))
    honest = laplace.calibrate(both, REPLACE, epsilon, dimension=1000).noise
    assert np.abs(one - other).sum() / honest.scale <= epsilon * (1 + 1e-12)
    assert norm.calibrate(both, REPLACE, epsilon).noise.scale < honest.scale / 31


def test_an_audit_catches_the_published_output_perturbation():
    """E000-8: 6000 runs refute iid Laplace noise at p = 64; the norm mechanism stands.

    False-alarm rate of the second half: 5 %, with a fixed seed.
    """
    one, other, distance = minimisers(p=64)
    epsilon, runs = 1.0, 6000
    scale, generator = distance / epsilon, np.random.default_rng(5)

    def scores(draw, order):
        worlds = []
        for centre in (one, other):
            released = centre + draw()
            far = np.linalg.norm(released - other, order, axis=1)
            worlds.append(far - np.linalg.norm(released - one, order, axis=1))
        return worlds

    published = audit(
        *scores(lambda: generator.laplace(scale=scale, size=(runs, 64)), 1), 0.0, gaussian=False
    )
    with pytest.raises(AuditFailed):
        check(epsilon, 0.0, published)
    ours = audit(*scores(lambda: norm_share(generator, scale, 64, 1, runs), 2), 0.0, gaussian=False)
    check(epsilon, 0.0, ours)


def test_shares_of_norm_noise_need_the_colluders_counted():
    """E000-8: shares planned for m parties leak when t collude; h = m - t makes them exact."""
    assert norm_mechanism_epsilon(1.0, 1, 10, 9) == pytest.approx(1.19, abs=0.005)
    assert norm_mechanism_epsilon(1.0, 1, 10, 6) == pytest.approx(2.49, abs=0.005)
    assert norm_mechanism_epsilon(1.0, 9, 10, 9) == math.inf  # one colluder, p = m - 1
    assert norm_mechanism_epsilon(1.0, 9, 9, 9) == 1.0


@pytest.mark.parametrize(
    ("claimed", "true"), [(1, 0.759), (4, 3.55), (8, 8.007), (16, 19.14), (32, 49.91)]
)
def test_gradient_perturbation_as_published(claimed, true):
    """E000-9: the printed sigma is false above epsilon* = 7.96; exact calibration is not."""
    found = published_gaussian.published_gradient_perturbation_true_epsilon(claimed, 1e-5)
    assert found == pytest.approx(true, rel=2e-3)
    sigma = published_gaussian.published_gradient_perturbation_sigma(
        claimed, 1e-5, parties=10, smallest_party=100, lipschitz=1.0, rounds=50
    )
    mu = math.sqrt(50) * 2 / (10 * 100) / sigma
    assert gaussian.epsilon(1e-5, mu) == pytest.approx(found, rel=1e-9)
    method = methods.gradient_perturbation(epsilon=claimed, delta=1e-5, rounds=50)
    cost = Study(method, Facts((100,) * 10, 3, 10), Trust.SECURE_SUM).cost[FINAL_MODEL]
    curve = PrivacyCurve(cost, REPLACE)
    assert curve.fits(claimed, 1e-5)
    assert curve.epsilon(1e-5) == pytest.approx(claimed, rel=1e-6)  # and wastes nothing


def test_the_zcdp_proof_of_gradient_perturbation_never_closes():
    """E000-9: "by zCDP lemmas" yields epsilon + epsilon^2/(4 log 1/delta), above every claim."""
    level = math.log(1e5)
    for claimed in (0.01, 0.1, 1.0, 8.0):
        proved = zcdp.epsilon_standard(claimed**2 / (4 * level), 1e-5)
        assert proved == pytest.approx(claimed + claimed**2 / (4 * level))
        assert proved > claimed
        assert zcdp.epsilon_standard(zcdp.rho_standard(claimed, 1e-5), 1e-5) <= claimed
    limits = {1e-2: 6.24, 1e-3: 6.97, 1e-4: 7.52, 1e-5: 7.96, 1e-6: 8.33, 1e-8: 8.94, 1e-10: 9.42}
    for delta, limit in limits.items():
        found = published_gaussian.published_gradient_perturbation_limit(delta)
        assert limit <= found < limit + 0.0101


def test_prefixes_of_a_run_cost_what_the_exact_curve_says():
    """E000-10: (sqrt(t/T) epsilon, delta) is false while sqrt(t/T) epsilon > epsilon*(delta)."""
    claimed, rounds = 16.0, 100
    mu = claimed / math.sqrt(2 * math.log(1e5))  # the published calibration
    for done, holds in ((16, True), (24, True), (26, False), (64, False)):
        share = math.sqrt(done / rounds)
        assert (gaussian.epsilon(1e-5, mu * share) <= share * claimed) is holds
    method = methods.gradient_perturbation(claimed, 1e-5, rounds=rounds)
    facts = Facts((100,) * 3, 3, 3)
    event = method.bind(facts, Trust.LOCAL).event(facts, Trust.LOCAL)
    exact = gaussian.mu_for(claimed, 1e-5)
    for done in (16, 64):
        spent = PrivacyCurve(event * done, REPLACE).epsilon(1e-5)
        assert spent == pytest.approx(gaussian.epsilon(1e-5, exact * math.sqrt(done / rounds)))


def test_clean_gradients_at_the_server_are_booked_as_no_protection():
    """E000-10: "no additional information" holds only while local gradients stay in the sum."""
    method = methods.gradient_perturbation(epsilon=1.0, delta=1e-5, rounds=10)
    facts = Facts((100,) * 3, 3, 3)

    def against_the_server(trust):
        return PrivacyCurve(Study(method, facts, trust).cost[SERVER], REPLACE)

    assert against_the_server(Trust.TRUSTED_SERVER).epsilon(1e-5) == math.inf
    assert against_the_server(Trust.SECURE_SUM).fits(1.0, 1e-5)
