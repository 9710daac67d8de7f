"""SGD1, SGD2 and sampled SGD: calibration, step sizes, caps, views, and their bounds."""

import math

import numpy as np
import pytest
from scipy.optimize import minimize

from unisono.accounting import gaussian
from unisono.accounting.accountant import ACCOUNTANT
from unisono.algorithms import bounds, sgd_sequential
from unisono.core.algorithm import Facts
from unisono.core.events import Poisson
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.study import Party, Study
from unisono.core.trust import PARTY, SERVER, Relation, Trust, Viewer
from unisono.core.values import Private
from unisono.engines import in_process
from unisono.errors import BudgetExceeded, InvalidInput
from unisono.releases.release import copies

from .. import methods

SIZES = (20, 15, 25)


def toy(sizes=SIZES, seed=0):
    generator = np.random.default_rng(seed)
    parties = []
    for size in sizes:
        rows = generator.normal(size=(size, 3))
        rows /= np.maximum(1, np.linalg.norm(rows, axis=1, keepdims=True))
        labels = np.where(
            rows @ [2.0, -1.0, 0.5] + 0.3 * generator.normal(size=size) > 0, 1.0, -1.0
        )
        parties.append((rows, labels))
    return parties


def members(data, epsilon=1e3, seed=3):
    return [
        Party(
            f"party-{j}",
            Private(columns),
            Ledger.in_memory(Policy(f"data-{j}", Budget(epsilon, 1e-5)), ACCOUNTANT, seed=seed),
        )
        for j, columns in enumerate(data)
    ]


def risk(parameters, data, ridge=0.0):
    """The summed logistic loss with its regulariser."""
    rows, labels = (np.concatenate(c) for c in zip(*data, strict=True))
    loss = np.logaddexp(0, -labels * (rows @ parameters)).sum()
    return loss + 0.5 * ridge * len(labels) * parameters @ parameters


def best_risk(data, radius, ridge=0.0):
    def inside(theta):
        return theta * min(1.0, radius / max(np.linalg.norm(theta), 1e-12))

    return minimize(lambda theta: risk(inside(theta), data, ridge), np.zeros(3)).fun


# ------------------------------------------------------------------------ SGD2


def test_sgd2_noise_is_the_golden_value():
    """004_SGD2: L = 1, T = 100, epsilon = 1, delta = 1e-6 -> 84.49; rounding adds a thousandth.
    Divided by m n_(1) = 1000 it is 000_GP's 0.0845."""
    method, facts = methods.sgd_synchronous(1.0, 1e-6, rounds=100), Facts((100,) * 10, 3, 10)
    event = method.bind(facts, Trust.LOCAL).event(facts, Trust.LOCAL)
    assert 84.49357779 < event.noise.std < 84.49357779 * 1.0015
    assert event.noise.std / 1000 == pytest.approx(0.08449357779, rel=1.5e-3)


@pytest.mark.filterwarnings("ignore::unisono.LargeDeltaWarning")  # hardly any noise
@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_sgd2_without_noise_follows_the_recursion(ridge):
    """A reference in NumPy, both step-size regimes; epsilon so large that noise is nothing, and a
    ridge so large that the ball does not hide the steps; few rounds, before they all agree."""
    data, facts, rounds = toy(), Facts(SIZES, 3, 3), 5
    method = methods.sgd_synchronous(1e7, 0.5, rounds=rounds, radius=4.0, strong_convexity=ridge)
    study = Study(method, facts, Trust.TRUSTED_SERVER)
    infinite = Budget(math.inf)
    parties = [
        Party(
            f"party-{j}",
            Private(columns),
            Ledger.in_memory(
                Policy(f"data-{j}", Budget(1e8, 0.5), ((SERVER, infinite),)), ACCOUNTANT, seed=1
            ),
        )
        for j, columns in enumerate(data)
    ]
    found = in_process.run(study, parties).value
    rows, labels = (np.concatenate(c) for c in zip(*data, strict=True))
    theta, average, weights = np.zeros(3), np.zeros(3), 0.0
    variance = study.algorithm.event(facts, Trust.TRUSTED_SERVER).noise.std ** 2
    for t in range(1, rounds + 1):
        weight = t if ridge else 1.0
        average, weights = average + weight * theta, weights + weight
        gradient = -(labels / (1 + np.exp(labels * (rows @ theta)))) @ rows + 60 * ridge * theta
        eta = 8.0 / math.sqrt(rounds * ((60.0 * (1 + 4 * ridge)) ** 2 + 3 * variance))
        theta = theta - (2 / (60 * ridge * (t + 1)) if ridge else eta) * gradient
        theta *= min(1.0, 4.0 / np.linalg.norm(theta))
    assert found == pytest.approx(average / weights, abs=1e-3)


def test_sgd2_under_a_secure_sum_has_m_times_less_variance():
    facts, method = Facts((50,) * 9, 3, 9), methods.sgd_synchronous(1.0, 1e-5)
    variance = {}
    for trust in (Trust.LOCAL, Trust.SECURE_SUM):
        event = method.bind(facts, trust).event(facts, trust)
        variance[trust] = event.noise.std**2 * copies(facts, trust)
    assert variance[Trust.LOCAL] / variance[Trust.SECURE_SUM] == pytest.approx(9, rel=1e-6)


def test_sgd2_survives_dropouts_and_stays_in_the_ball():
    method = methods.sgd_synchronous(5.0, 1e-5, rounds=10, radius=0.5)
    silent = np.zeros((10, 3), bool)
    silent[3, 1] = True
    study = Study(method, Facts(SIZES, 3, 2, 1), Trust.SECURE_SUM)
    result = in_process.run(study, members(toy()), dropouts=silent)
    iterates = [m.value for m in result.transcript.seen_by(SERVER) if m.name == "public"]
    assert max(np.linalg.norm(theta) for theta in iterates) <= 0.5 + 1e-6
    with pytest.raises(InvalidInput, match="cannot run with trust"):
        Study(study.algorithm, Facts(SIZES, 3, 2, 1), Trust.LOCAL)


# ------------------------------------------------------------------------ SGD1


def test_sgd1_is_charged_the_capped_cost_against_everyone():
    facts, settings = Facts(SIZES, 3, 3), sgd_sequential.Settings(2.0, 1e-5)
    agreed = sgd_sequential.agreement(settings, facts)
    uses, sigma = agreed.settings["uses"], agreed.settings["sigma"]
    assert uses == math.ceil(60 + 4 * math.sqrt(60))
    # mu = sqrt(k_max) 2 n L / sigma; rounding and float error add a thousandth.
    mu = math.sqrt(uses) * 2 * 60 / sigma
    assert gaussian.mu_for(2.0, 1e-5) * 0.998 < mu < gaussian.mu_for(2.0, 1e-5)
    for viewer in (SERVER, PARTY):
        assert 1.99 < ACCOUNTANT.epsilon(agreed.cost[viewer], Relation.REPLACE_ONE, 1e-5) <= 2.0


def test_sgd1_views_are_ordered_and_the_hidden_order_is_only_for_those_it_is_hidden_from():
    views = sgd_sequential.views(sgd_sequential.Settings(2.0, 1e-5), Facts(SIZES, 3, 3))
    assert views["hidden-order"] < views["visible-party"] < views["known-order"]
    assert views["known-order"] < views["capped"] <= 2.0


def test_sgd1_published_noise_is_charged_what_it_costs():
    """Eq. (3) promises 0.5 to B as well, who knows the order (E004-5)."""
    facts, settings = (
        Facts((300,), 3, 1),
        sgd_sequential.Settings(0.5, 0.5 / 300**3, published=True),
    )
    views = sgd_sequential.views(settings, facts)
    assert views["known-order"] == pytest.approx(0.73, abs=0.01)
    assert views["capped"] > 0.73
    parties = members(toy((300,)), epsilon=0.5)
    with pytest.raises(BudgetExceeded):
        sgd_sequential.run_sgd_sequential(settings, parties, facts)


@pytest.mark.parametrize("ridge", [0.0, 0.1])
def test_sgd1_learns_within_its_bound(ridge):
    data, facts = toy(), Facts(SIZES, 3, 3)
    settings = sgd_sequential.Settings(8.0, 1e-5, radius=3.0, strong_convexity=ridge)
    runs = [
        sgd_sequential.run_sgd_sequential(settings, members(data, seed=s), facts, order_seed=s)
        for s in range(3)
    ]
    sigma = sgd_sequential.agreement(settings, facts).settings["sigma"]
    moment = bounds.second_moment(60, 1 + 3 * ridge, 3, sigma**2)
    excess = np.mean([risk(r.value, data, ridge) for r in runs]) - best_risk(data, 3.0, ridge)
    if ridge:
        bound = bounds.last_iterate_strongly_convex(60, ridge, moment, 3600)
    else:
        bound = bounds.last_iterate_convex(6.0, moment, 3600)
    assert 0 <= excess <= min(bound, bounds.trivial(60, 1 + 3 * ridge, 6.0))
    assert excess < risk(np.zeros(3), data, ridge)


def test_sgd1_owner_refuses_a_coordinator_who_names_one_record_again_and_again():
    facts, settings = Facts(SIZES, 3, 3), sgd_sequential.Settings(2.0, 1e-5, uses=7)
    order = np.concatenate([np.full(100, 21), np.arange(60)])
    result = sgd_sequential.run_sgd_sequential(settings, members(toy()), facts, order=order)
    seen = {m.name: m.value for m in result.transcript.seen_by(SERVER)}
    answered = ~seen["refused"]
    assert np.flatnonzero(answered[:100]).tolist() == list(range(7))
    assert answered[100:].sum() == 59
    assert not seen["messages"][~answered].any()
    assert len({tuple(m) for m in seen["messages"][:7]}) == 7  # fresh noise in every use


def test_sgd1_refuses_nonsense():
    facts = Facts(SIZES, 3, 3)
    good = sgd_sequential.Settings(2.0, 1e-5)
    with pytest.raises(InvalidInput, match="outside 0"):
        sgd_sequential.run_sgd_sequential(good, members(toy()), facts, order=np.array([60]))
    with pytest.raises(InvalidInput, match="dp_sgd_convex"):
        sgd_sequential.run_sgd_sequential(good, members(toy()), Facts((3000,), 3, 1))
    with pytest.raises(InvalidInput, match="uses"):
        sgd_sequential.Settings(2.0, 1e-5, uses=0)
    with pytest.raises(InvalidInput, match="exact"):
        sgd_sequential.use_event(good, Facts(SIZES, 3, 3, exact_sizes=False))


# ----------------------------------------------------------------- sampled SGD


def test_sampled_sgd_is_accounted_by_its_sampler_and_learns():
    method = methods.dp_sgd_convex(4.0, 1e-5, rounds=30, sampling_rate=0.25)
    facts = Facts((400, 300, 350), 3, 2, 1)
    study = Study(method, facts, Trust.SECURE_SUM)
    event = study.algorithm.event(facts, Trust.SECURE_SUM)
    assert event.sampler == Poisson(0.25)
    full = gaussian.mu_for(4.0, 1e-5)
    distance = event.sensitivity.under(Relation.REPLACE_ONE).in_norm("l2")
    assert event.noise.std < 0.6 * distance * math.sqrt(30) / full  # sampling amplifies
    data = toy((400, 300, 350))
    result = in_process.run(study, members(data))
    for viewer in (SERVER, Viewer.colluders(1)):
        assert 3.9 < result.certificate.epsilon(viewer, Relation.REPLACE_ONE) <= 4.0
    hits = np.concatenate([np.sign(x @ result.value) == y for x, y in data])
    assert hits.mean() > 0.8


def test_rates_outside_a_probability_are_refused():
    for rate in (0.0, 1.5, math.nan):
        with pytest.raises(InvalidInput, match="rate"):
            methods.dp_sgd_convex(1.0, 1e-5, sampling_rate=rate)


# ---------------------------------------------------------------------- bounds


def test_corrected_equation_12_holds_where_the_printed_one_fails():
    """E004-10: f = a|θ|²/2, a = 1, η = .1, σ = 1, m = 5, p = 10: stationary excess 1.32.

    20000 steps of a chain that mixes in ten: the mean is within 5 % but for 1e-6.
    """
    generator = np.random.default_rng(4)
    theta, total = np.zeros(10), 0.0
    for noise in math.sqrt(5) * generator.normal(size=(20_000, 10)):
        theta = theta - 0.1 * (theta + noise)
        total += 0.5 * theta @ theta / 20_000
    assert total == pytest.approx(1.32, rel=0.05)
    assert total > bounds.published_equation_12(1e-9, 1.0, 20_000, 0.1)
    assert total < bounds.constant_step(0.0, bounds.second_moment(1, 1e-9, 10, 5.0), 20_000, 0.1)


def test_bounds_have_the_printed_orders_and_refuse_nonsense():
    moment = bounds.second_moment(100, 1.0, 10, 4.0)
    sharp = bounds.weighted_average(100, 0.1, moment, 50)
    printed = bounds.published_equation_11(100, 1.0, 10, 4, 1.0, 0.1, 50)
    assert sharp < printed
    # (9) at T = n² and the source's noise: between 1 and 16 (2 + 2 log n) times its order.
    from unisono.accounting.hidden_order import published_sigma

    sigma = published_sigma(0.5, 1e-7, 100, 1.0)
    value = bounds.last_iterate_convex(2.0, bounds.second_moment(100, 1.0, 10, sigma**2), 100**2)
    order = 2.0 * math.log(1.25e4 / 1e-7) ** 2 * math.sqrt(10) / 0.5
    assert 0.1 * order < value < 16 * (2 + 2 * math.log(100)) * order
    assert bounds.plain_average(2.0, moment, 100) < bounds.last_iterate_convex(2.0, moment, 100)
    for broken in (-1.0, math.nan):
        with pytest.raises(InvalidInput):
            bounds.second_moment(10, 1.0, 2, broken)
        with pytest.raises(InvalidInput):
            bounds.trivial(10, broken, 2.0)
