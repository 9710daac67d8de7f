"""Natural-gradient inference: exact where conjugate, the optimum elsewhere, noise, bad input."""

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

from unisono.accounting.accountant import ACCOUNTANT
from unisono.accounting.curve import PrivacyCurve
from unisono.algorithms.pvi_natural_gradient import (
    damping_of,
    for_intervals,
    record_statistics,
    row_norms,
)
from unisono.core.algorithm import Aggregate, Facts
from unisono.core.compiled import numbers
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.study import Party, Study
from unisono.core.trust import SERVER, Relation, Trust
from unisono.core.values import Private
from unisono.engines import in_process
from unisono.errors import InvalidInput
from unisono.problems.gaussian_family import Natural, covariance, mean, variances
from unisono.problems.likelihoods import linear, logistic, predictive, two_layer
from unisono.releases.release import price

from .. import methods

# Whether a record is there at all is hidden, as is the custom for sampled batches.
natural_gradient = partial(methods.natural_gradient, relation=Relation.ADD_OR_REMOVE)
SIZES = (60, 40, 50)
FACTS = Facts(SIZES, 2, 3, exact_sizes=False)
# With a delta of one half there is hardly any noise, which is what some of these tests want.
pytestmark = pytest.mark.filterwarnings("ignore::unisono.LargeDeltaWarning")
PLENTY = {"epsilon": 1e8, "delta": 0.5}  # noise of about a ten-thousandth of the clip per round
NEWTON = {"learning_rate": 1.0, "momentum": 0.0, "memory": 0.0, "average_last": 0.0}
STD = 0.5


def toy(kind, features=3, seed=0):
    generator = np.random.default_rng(seed)
    theta = generator.normal(size=features)
    data = []
    for size in SIZES:
        rows = generator.normal(size=(size, features)) + 0.5  # correlated second moments
        score = rows @ theta
        if kind == "linear":
            labels = score + STD * generator.normal(size=size)
        else:
            labels = np.where(generator.random(size) < 1 / (1 + np.exp(-score)), 1.0, -1.0)
        data.append((rows, labels))
    return data


def pooled(data):
    return tuple(np.concatenate(column) for column in zip(*data, strict=True))


def facts_of(data, **options):
    sizes = tuple(len(rows) for rows, _ in data)
    return Facts(sizes, data[0][0].shape[1], len(data), exact_sizes=False, **options)


def run(algorithm, data, trust=Trust.LOCAL, dropouts=None, minimum=None):
    parties = []
    for number, own in enumerate(data):
        trusted = ((SERVER, Budget(math.inf)),)
        policy = Policy(f"data-{number}", Budget(1e9, 0.5), trusted, Relation.ADD_OR_REMOVE)
        ledger = Ledger.in_memory(policy, ACCOUNTANT, seed=number)
        parties.append(Party(f"party-{number}", Private(own), ledger))
    facts = facts_of(data)
    if minimum:
        facts = Facts(facts.records, facts.features, minimum, exact_sizes=False)
    return in_process.run(Study(algorithm, facts, trust), parties, dropouts=dropouts).value


@pytest.mark.parametrize("trust", [Trust.LOCAL, Trust.TRUSTED_SERVER])
@pytest.mark.parametrize("full", [True, False])
def test_one_newton_step_is_the_exact_posterior_of_a_line(full, trust):
    """Full covariance: the conjugate posterior. Diagonal: one step reaches P = P0 + diag(XᵀX)/s²
    and m = P⁻¹ Xᵀy / s² from m = 0."""
    data = toy("linear")
    method = natural_gradient(
        linear(STD),
        prior_variance=4.0,
        rounds=1,
        clipping_norm=200.0,
        curvature_weight=2.0,
        full_covariance=full,
        **NEWTON,
        **PLENTY,
    )
    answer = run(method, data, trust)
    rows, labels = pooled(data)
    bend = rows.T @ rows / STD**2
    precision = np.eye(3) / 4 + (bend if full else np.diag(np.diag(bend)))
    expected = np.linalg.solve(precision, rows.T @ labels / STD**2)
    found = answer.precision if full else np.diag(answer.precision)
    np.testing.assert_allclose(found, precision, atol=2e-3 * np.abs(precision).max())
    np.testing.assert_allclose(mean(answer.natural), expected, atol=5e-3)
    assert answer.floored == 0


def test_mean_field_iterations_reach_the_exact_mean_of_a_line():
    """Undamped diagonal steps overshoot on correlated columns; damped ones find XᵀX's solution,
    with the mean-field variances 1 / diagonal of the precision. The prior is strong enough to
    show if it is left out."""
    data = toy("linear")
    method = natural_gradient(
        linear(STD),
        prior_variance=0.05,
        rounds=60,
        clipping_norm=200.0,
        curvature_weight=1.0,
        learning_rate=0.3,
        momentum=0.5,
        **PLENTY,
    )
    answer = run(method, data)
    rows, labels = pooled(data)
    precision = np.eye(3) / 0.05 + rows.T @ rows / STD**2
    exact = np.linalg.solve(precision, rows.T @ labels / STD**2)
    np.testing.assert_allclose(mean(answer.natural), exact, atol=5e-3)
    np.testing.assert_allclose(variances(answer.natural), 1 / np.diag(precision), rtol=5e-3)


def free_energy_optimum(rows, labels, prior_variance, full):
    """The best Gaussian by direct maximisation of the free energy, in mean and Cholesky factor;
    its own quadrature and its own parameters."""
    size = rows.shape[1]
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    weights = weights / weights.sum()
    lower = np.tril_indices(size) if full else (np.arange(size), np.arange(size))

    def parts(point):
        factor = np.zeros((size, size))
        factor[lower] = point[size:]
        return point[:size], factor

    def loss(point):
        centre, factor = parts(point)
        width = np.linalg.norm(rows @ factor, axis=1)
        scores = (rows @ centre)[:, None] + width[:, None] * nodes
        fit = -np.logaddexp(0, -labels[:, None] * scores) @ weights
        entropy = np.log(np.abs(np.diag(factor))).sum()
        shrink = (centre @ centre + (factor**2).sum()) / (2 * prior_variance)
        return -(fit.sum() + entropy - shrink)

    first = np.concatenate([np.zeros(size), np.eye(size)[lower] * 0.3])
    centre, factor = parts(minimize(loss, first, method="BFGS", options={"gtol": 1e-7}).x)
    return centre, factor @ factor.T


@pytest.mark.parametrize("full", [pytest.param(True, marks=pytest.mark.slow), False])
def test_without_noise_logistic_regression_reaches_the_variational_optimum(full):
    data = toy("logistic")
    method = natural_gradient(
        prior_variance=4.0,
        rounds=60,
        clipping_norm=30.0,
        curvature_weight=1.0,
        learning_rate=0.4,
        momentum=0.3,
        memory=0.5,
        full_covariance=full,
        **PLENTY,
    )
    answer = run(method, data)
    centre, spread = free_energy_optimum(*pooled(data), 4.0, full)
    np.testing.assert_allclose(mean(answer.natural), centre, atol=1e-2)
    np.testing.assert_allclose(covariance(answer.natural), spread, atol=2e-3)


def test_clipping_bounds_what_one_record_says():
    """A record a thousand times too long moves the released sum by at most the clip."""
    data = toy("logistic")
    facts = facts_of(data)
    algorithm = natural_gradient(clipping_norm=0.5).bind(facts, Trust.LOCAL)
    server, party = algorithm.init(facts)
    rows, labels = (jnp.asarray(c, jnp.float32) for c in data[0])
    wild = rows.at[0].multiply(1e3)
    mask = jnp.ones(len(rows), bool)

    local = jax.jit(numbers(partial(algorithm.local, facts)))

    def told(rows, mask):
        _, own, _ = local(algorithm.ask(server), party, (rows, labels), mask)
        return np.asarray(own) * algorithm.grid(facts, Trust.LOCAL)

    moved = np.linalg.norm(told(wild, mask) - told(wild, mask.at[0].set(False)))
    distance = algorithm.event(facts, Trust.LOCAL).sensitivity.under(Relation.ADD_OR_REMOVE).l2
    assert 0.49 < moved <= distance < 0.502


@pytest.mark.parametrize("relation", [Relation.ADD_OR_REMOVE, Relation.REPLACE_ONE])
@pytest.mark.parametrize("rate", [1.0, 0.2])
def test_the_whole_run_costs_what_it_says(relation, rate):
    facts = facts_of(toy("logistic"))
    method = natural_gradient(epsilon=1.0, rounds=4, relation=relation, sampling_rate=rate)
    algorithm = method.bind(facts, Trust.LOCAL)
    curve = PrivacyCurve(algorithm.event(facts, Trust.LOCAL) * 4, relation)
    assert 0.98 < curve.epsilon(method.privacy.delta) <= 1.0 + 1e-9


@pytest.mark.parametrize("full", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_noise_that_drowns_the_data_is_flagged_and_leaves_a_density(full):
    """At epsilon 0.01 the noise of a bend (std > 100) dwarfs 150 records: a floor must act. Six
    coordinates would all miss it with chance 1/64 in a fresh draw; the seeds are fixed."""
    data = toy("logistic", features=6)
    answer = run(natural_gradient(epsilon=0.01, rounds=5, full_covariance=full), data)
    assert answer.floored >= 1
    if full:
        assert np.linalg.eigvalsh(answer.precision).min() > 0.9
    else:
        assert (answer.precision >= 1 - 1e-6).all()  # the prior's precision


def test_missing_parties_are_stood_for_by_public_sizes():
    """One of three equal parties never answers: the posterior is that of the two others, counted
    as if they were three."""
    half = toy("linear")[0]
    data = [half, half, half]
    method = natural_gradient(
        linear(STD), rounds=1, clipping_norm=200.0, curvature_weight=1.0, **NEWTON, **PLENTY
    )
    absent = np.array([[False, True, False]])
    lost = run(method, data, dropouts=absent, minimum=2)
    whole = run(method, data)
    np.testing.assert_allclose(lost.precision, whole.precision, rtol=5e-3)
    # What was measured, though, are the records that came: intervals count no others.
    np.testing.assert_allclose(lost.window.bends[1], 2 / 3 * whole.window.bends[1], rtol=5e-3)


def test_a_sampled_sum_counts_for_all_records():
    """Coins of probability 1/2 halve the sum; the server doubles it."""
    facts, total = facts_of(toy("logistic")), jnp.arange(6.0)
    means = []
    for rate, scale in ((1.0, 2.0), (0.5, 1.0)):
        algorithm = natural_gradient(sampling_rate=rate).bind(facts, Trust.LOCAL)
        arrived = Aggregate(scale * total, 3, jnp.float32(sum(SIZES)))
        means.append(algorithm.merge(algorithm.init(facts)[0], arrived).mean)
    np.testing.assert_allclose(means[0], means[1], rtol=1e-6)
    assert np.abs(means[0]).max() > 0.05


def test_damping_follows_the_noise_of_the_opened_sum():
    facts = facts_of(toy("logistic"))
    method = natural_gradient(rounds=4, damping=None, noise_damping=2.0)
    std = method.bind(facts, Trust.LOCAL).event(facts, Trust.LOCAL).noise.std

    def damping(trust):
        released = method.kind.release(method.config, method.problem, facts)
        return damping_of(method.config, price(released, method.privacy, facts, trust))

    local, shared = damping(Trust.LOCAL), damping(Trust.SECURE_SUM)
    assert local == pytest.approx(2.0 * std * math.sqrt(3) / 2, rel=1e-5)
    assert shared == pytest.approx(local / math.sqrt(3), rel=1e-3)


def test_the_opened_noise_is_the_sum_of_what_parties_add():
    """Three parties with epsilons of their own: the variance of the sum is that of all three."""
    facts, method = facts_of(toy("logistic")), natural_gradient(rounds=4, own=(0.5, 1.0, 2.0))
    released = method.kind.release(method.config, method.problem, facts)
    priced = price(released, method.privacy, facts, Trust.LOCAL)
    assert priced.noise_std == pytest.approx(math.hypot(*(e.noise.std for e in priced.events)))


@pytest.mark.slow
def test_a_small_network_learns_what_no_line_can():
    """Labels by the sign of x1 x2; a line guesses half of them."""
    generator = np.random.default_rng(2)
    data = []
    for _ in range(2):
        rows = generator.uniform(-2, 2, size=(200, 2))
        data.append((rows, np.sign(rows[:, 0] * rows[:, 1])))
    model = two_layer(2, 8)
    method = natural_gradient(
        model,
        prior_variance=4.0,
        rounds=150,
        clipping_norm=5.0,
        curvature_weight=1.0,
        learning_rate=0.3,
        momentum=0.8,
        damping=2.0,
        spread=1.0,
        seed=1,
        **PLENTY,
    )
    answer = run(method, data)
    rows, labels = pooled(data)
    normals = jnp.asarray(generator.normal(size=(32, model.size(2))), jnp.float32)
    q = Natural(*(jnp.asarray(part) for part in answer.natural))
    chances = np.asarray(predictive(model, q, jnp.asarray(rows, jnp.float32), normals))
    assert np.mean((chances > 0.5) == (labels > 0)) > 0.9


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"clipping_norm": 0.0}, "clipping_norm"),
        ({"momentum": 1.0}, "momentum"),
        ({"memory": -0.1}, "memory"),
        ({"sampling_rate": 1.5}, "sampling_rate"),
        ({"damping": -1.0}, "damping"),
        ({"delta": 1.0}, "delta"),
        ({"average_last": 2.0}, "average_last"),
        ({"prior_variance": 0.0}, "variance"),
        ({"spread": math.nan}, "spread"),
    ],
)
def test_bad_settings_are_refused(wrong, words):
    with pytest.raises(InvalidInput, match=words):
        natural_gradient(**wrong)


def test_a_sampled_likelihood_has_no_full_covariance():
    with pytest.raises(InvalidInput, match="diagonal"):
        natural_gradient(two_layer(2, 3), full_covariance=True).bind(FACTS, Trust.LOCAL)


# ------------------------------------------------------------- for intervals


def with_intervals(**options):
    rule = for_intervals(logistic(), square=3.0)
    return natural_gradient(prior_variance=25.0, **PLENTY, **rule | options)


def test_newton_steps_find_the_mode_of_the_weighted_posterior():
    """With `at_mode` the fixed point is the mode, not the variational mean; weights are those of
    the module's rule, computed here by hand. The window has then stopped at it, too."""
    data = toy("logistic")
    method = with_intervals(rounds=14)
    answer, config = run(method, data), method.config
    rows, labels = pooled(data)
    lengths = np.linalg.norm(rows, axis=1)
    reach = lengths * np.sqrt(1 + (config.curvature_weight * lengths / 4) ** 2)
    weights = np.minimum(1, config.clipping_norm / reach)
    assert 0.2 < np.mean(weights < 1) < 0.95
    theta = np.zeros(3)
    for _ in range(20):
        chance = 1 / (1 + np.exp(labels * (rows @ theta)))
        bend = (rows * (weights * chance * (1 - chance))[:, None]).T @ rows
        slope = (weights * labels * chance) @ rows - theta / 25
        theta = theta + np.linalg.solve(bend + np.eye(3) / 25, slope)
    np.testing.assert_allclose(mean(answer.natural), theta, atol=2e-2)
    np.testing.assert_allclose(answer.window.means[1], theta, atol=2e-2)
    np.testing.assert_allclose(answer.window.bends[1], bend, rtol=2e-2, atol=0.1)
    np.testing.assert_allclose(answer.window.slopes[1], theta / 25, atol=0.1)
    assert answer.window.rounds.tolist() == [4, 5]  # five eighths of 14, from round 5


def test_weights_of_rows_do_not_look_at_labels_and_leave_nothing_to_clip():
    facts = facts_of(toy("logistic"))
    method = with_intervals()
    algorithm, config = method.bind(facts, Trust.LOCAL), method.config
    drawn = np.random.default_rng(0).normal(size=(50, 3))
    rows = jnp.asarray(drawn * np.geomspace(0.01, 1e3, 50)[:, None], jnp.float32)
    public = algorithm.ask(algorithm.init(facts)[0])
    for label in (-1.0, 1.0):
        told = record_statistics(config, logistic(), public, rows, jnp.full(50, label))
        norms = np.linalg.norm(told, axis=1)
        assert norms.max() <= config.clipping_norm * (1 + 1e-5)
        own = jnp.abs(told[:, :3] / rows)  # at θ = 0 a slope is half of its row, times the weight
        reach = row_norms(logistic(), config.curvature_weight, jnp.linalg.norm(rows, axis=1))
        expected = np.repeat(0.5 * np.minimum(1, config.clipping_norm / reach)[:, None], 3, axis=1)
        np.testing.assert_allclose(own, expected, rtol=1e-4)


@pytest.mark.parametrize("likelihood", [linear(STD), two_layer(2, 3)])
@pytest.mark.parametrize("option", ["at_mode", "weighted_rows"])
def test_only_the_logistic_and_the_probit_have_modes_and_weights(likelihood, option):
    with pytest.raises(InvalidInput, match="leave them out"):
        natural_gradient(likelihood, **{option: True}).bind(FACTS, Trust.LOCAL)
