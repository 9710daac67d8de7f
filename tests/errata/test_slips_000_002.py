"""Sources 000 to 002: what is wrong there without costing privacy, and what needs precision."""

import math

import numpy as np
import pytest
from scipy import stats

from unisono.accounting import gaussian, theorems, zcdp
from unisono.accounting.accountant import ACCOUNTANT
from unisono.accounting.curve import PrivacyCurve
from unisono.attacks.defences import DpSgd, Dropout, GradientNoise, Nothing, Pruning
from unisono.core.events import Event, Gaussian, bounded_sum
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.trust import FINAL_MODEL, Relation
from unisono.errors import InvalidInput, UndefinedRelation
from unisono.experiments import two_layer
from unisono.problems.losses import LOSSES
from unisono.releases import solver
from unisono.statistics import histogram, total

DELTA = 1e-6


def book(epsilon=1.0, seed=1):
    """A simulated ledger for one small data set."""
    return Ledger.in_memory(Policy("ages", Budget(epsilon, DELTA)), ACCOUNTANT, seed=seed)


def unit(vector):
    return vector / np.linalg.norm(vector)


# ------------------------------------------------------------------------ source 000


def test_one_release_has_a_price_for_each_relation():
    """E000-1: "presence or absence" and "replacement" are two promises with two prices."""
    event = Event(Gaussian(4.0), bounded_sum(l2=1.0))
    replace, blank = (
        PrivacyCurve(event * 1, relation).epsilon(DELTA)
        for relation in (Relation.REPLACE_ONE, Relation.ZERO_OUT)
    )
    assert replace == pytest.approx(gaussian.epsilon(DELTA, 2 / 4), rel=1e-6)
    assert blank == pytest.approx(gaussian.epsilon(DELTA, 1 / 4), rel=1e-6)
    with pytest.raises(UndefinedRelation):  # sizes are public here: presence is not hidden
        PrivacyCurve(
            Event(Gaussian(4.0), bounded_sum(l2=1.0, hides_presence=False)) * 1,
            Relation.ADD_OR_REMOVE,
        ).epsilon(DELTA)


def test_the_same_algorithm_on_a_wider_domain_needs_more_noise():
    """E000-4: sensitivity depends on the domain; without public bounds there is none."""
    scales = []
    for high in (10, 1000):
        ledger = book()
        total([1.0, 2.0], bounds=(0, high), epsilon=0.5, ledger=ledger)
        scales.append(ledger.history(FINAL_MODEL).parts[0][0].noise.scale)
    assert scales[1] == pytest.approx(100 * scales[0], rel=0.02)
    with pytest.raises(InvalidInput):
        total([1.0, 2.0], bounds=(0, math.inf), epsilon=0.1, ledger=book())


def test_flipping_a_label_moves_the_gradient_while_the_rows_stay():
    """E000-6: (1/n)||x - x'|| bounds nothing when y flips; |c| ||x|| + |c'| ||x'|| <= 2 does."""
    row = unit(np.array([1.0, 2.0, -1.0]))
    gradients = [
        np.asarray(LOSSES["logistic"].gradients(np.zeros(3), row[None], np.array([label])))[0]
        for label in (1.0, -1.0)
    ]
    moved = np.linalg.norm(gradients[0] - gradients[1])
    published = np.linalg.norm(row - row)
    assert published == 0.0
    assert moved == pytest.approx(1.0, rel=1e-6)  # slope 1/2 on either side
    assert moved <= 2 * LOSSES["logistic"].lipschitz


def test_a_strongly_convex_loss_is_not_lipschitz():
    """E000-7: gradients of a regulariser grow without end; G is that of the loss alone."""
    loss, strength = LOSSES["logistic"], 0.1
    for length in (10.0, 1e3, 1e5):
        theta = length * unit(np.array([1.0, -1.0]))
        alone = np.linalg.norm(loss.gradients(theta, np.array([[0.6, 0.8]]), np.array([1.0])))
        assert alone <= loss.lipschitz
        assert np.linalg.norm(strength * theta) > (length / 11) * loss.lipschitz
    assert solver.lipschitz(loss, strength) <= 1.001 * loss.lipschitz


# ------------------------------------------------------------------------ source 001


def test_groups_pay_by_their_size():
    """E001-1: k epsilon where delta is 0; delta grows by (e^(k eps) - 1)/(e^eps - 1) otherwise."""
    assert theorems.group_pure(0.3, 4) == pytest.approx(1.2)
    epsilon, delta = theorems.group_approximate(0.3, 1e-6, 4)
    assert (epsilon, delta) == pytest.approx((1.2, 1e-6 * math.expm1(1.2) / math.expm1(0.3)))
    assert delta > 4e-6  # so "k delta" would be too little
    mu = gaussian.mu_for(0.3, 1e-6)
    assert gaussian.delta(epsilon, gaussian.group(mu, 4)) <= delta


def test_the_ratio_of_laplace_densities_stays_below_its_bound():
    """E001-2: the last "=" of the proof is "<=": between the two centres the ratio is smaller."""
    epsilon, one, other = 0.7, 0.0, 1.0
    outputs = np.linspace(-3, 4, 701)
    ratio = stats.laplace.pdf(outputs, one, 1 / epsilon) / stats.laplace.pdf(
        outputs, other, 1 / epsilon
    )
    assert np.all(ratio <= math.exp(epsilon) * (1 + 1e-12))
    assert np.min(np.abs(np.log(ratio))) < 1e-12  # halfway it is 1, not e^epsilon
    assert np.max(ratio) == pytest.approx(math.exp(epsilon))


def test_a_rare_cell_drowns_however_many_records_there_are():
    """E001-3: no n makes every count right up to a factor; the error is additive.

    A cell with one record among 200,000: 40 seeds, of which at least half miss it by half or
    more. Each does with probability 0.88, so this fails by chance less than once in 1e9.
    """
    values, misses = [0] * 199_999 + [1], 0
    for seed in range(40):
        counts = histogram(values, [0, 1, 2], epsilon=0.5, ledger=book(seed=seed)).value
        misses += abs(counts[1] - 1) >= 0.5
        assert abs(counts[0] - 199_999) < 0.001 * 199_999  # additive: large cells are fine
    assert misses >= 20


def test_gaussian_accuracy_needs_the_noise_that_was_added():
    """E001-6: calibrated noise exceeds Delta/epsilon sqrt(log d), not sigma sqrt(2 log(2d/eta)).

    20,000 maxima of 50 normals; the true rate is below 0.05, and 0.06 is six standard errors off.
    """
    epsilon, delta, d, eta = 0.5, 1e-6, 50, 0.05
    sigma = 1 / gaussian.mu_for(epsilon, delta)
    largest = np.abs(np.random.default_rng(2).normal(scale=sigma, size=(20_000, d))).max(axis=1)
    printed = (1 / epsilon) * math.sqrt(2 * math.log(2 * d / eta))
    assert np.mean(largest >= printed) > 0.95  # sqrt(log 1/delta) is missing
    assert np.mean(largest >= sigma * math.sqrt(2 * math.log(2 * d / eta))) < 0.06
    weaker = zcdp.gaussian(1.0, 1 / epsilon)  # the printed accuracy belongs to this promise
    assert weaker == pytest.approx(epsilon**2 / 2)
    assert zcdp.epsilon(weaker, delta) > 3 * epsilon


# ------------------------------------------------------------------------ source 002


def test_noise_is_centred():
    """E002-2: a location other than 0 only shifts the answers; 64 draws, six standard errors."""
    values = [
        total([5.0], bounds=(0, 10), epsilon=1.0, ledger=book(seed=s)).value for s in range(64)
    ]
    assert abs(np.mean(values) - 5.0) < 6 * math.sqrt(2) * 10 / math.sqrt(64)


def test_the_laplace_proof_holds_for_the_right_sensitivity():
    """E002-3: (3.4)-(3.9) are right given Delta, and wrong by its factor if Delta is too small."""
    epsilon, true_move = 0.5, 100.0
    outputs = np.linspace(-500, 600, 2001)
    for assumed, claim in ((100.0, 0.5), (1.0, 50.0)):
        losses = stats.laplace.logpdf(outputs, 0, assumed / epsilon) - stats.laplace.logpdf(
            outputs, true_move, assumed / epsilon
        )
        assert np.max(losses) == pytest.approx(claim)


def test_the_network_sums_over_its_units():
    """E002-4: f = sum over j <= m of a_j sigma(w_j . x); a_j are weights, not outputs of units."""
    weights = two_layer.as_published(7, 3, "tanh")
    rows = np.random.default_rng(0).normal(size=(4, 3))
    by_hand = [
        sum(weights.output[j] * math.tanh(weights.hidden[j] @ row) for j in range(7))
        for row in rows
    ]
    np.testing.assert_allclose(two_layer.predictions(weights, rows), by_hand)
    assert weights.hidden.shape == (7, 3)


def test_gradients_by_finite_differences(generator):
    """E002-5: 2 r sigma and 2 a_j r sigma' x; as printed they lack 2, and 2 a_j."""
    weights = two_layer.Weights(generator.normal(size=(5, 4)), generator.normal(size=5))
    row, label, step = unit(generator.normal(size=4))[None], np.array([0.3]), 1e-6

    def loss(hidden, output):
        return ((two_layer.predictions(two_layer.Weights(hidden, output), row) - label) ** 2)[0]

    by_output, factors = (g[0] for g in two_layer.gradients(weights, row, label))
    by_hidden = factors[:, None] * row
    for j in range(5):
        shift = np.eye(5)[j] * step
        slope = loss(weights.hidden, weights.output + shift)
        slope = (slope - loss(weights.hidden, weights.output - shift)) / (2 * step)
        assert by_output[j] == pytest.approx(slope, rel=1e-5, abs=1e-8)
        for k in range(4):
            bump = np.zeros((5, 4))
            bump[j, k] = step
            slope = loss(weights.hidden + bump, weights.output)
            slope = (slope - loss(weights.hidden - bump, weights.output)) / (2 * step)
            assert by_hidden[j, k] == pytest.approx(slope, rel=1e-5, abs=1e-8)
    residual = two_layer.predictions(weights, row)[0] - label[0]
    slopes = 1 - np.tanh(weights.hidden @ row[0]) ** 2
    printed = residual * slopes[:, None] * row
    np.testing.assert_allclose(by_hidden / printed, 2 * weights.output[:, None] * np.ones((1, 4)))


def test_weights_are_normal_and_labels_are_numbers():
    """E002-6: w_j ~ N(0, I_d); a label is one number, so it cannot be ~ N(0, I_d)."""
    weights = two_layer.as_published(4000, 5, "tanh")
    assert np.cov(weights.hidden.T) == pytest.approx(np.eye(5), abs=0.12)  # 5 standard errors
    rows, labels = two_layer.teacher_records(10, 5)
    assert labels.shape == (10,)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0)


def test_hidden_gradients_do_not_grow_with_the_units():
    """E002-9: with a_j = 1/m the sum over units is at most 4 R sqrt(d), whatever m is."""
    d, largest = 16, {}
    for m in (50, 400):
        weights = two_layer.as_published(m, d, "relu")
        generator = np.random.default_rng(d)
        rows = np.array([unit(row) for row in generator.normal(size=(60, d))])
        labels = generator.choice([-1.0, 1.0], size=60)
        _, factors = two_layer.gradients(weights, rows, labels)
        hidden = factors[:, :, None] * rows[:, None, :]
        largest[m] = np.abs(hidden[:30] - hidden[30:]).sum(axis=(1, 2)).max()
        reach = np.abs(two_layer.predictions(weights, rows) - labels).max()
        assert 0.2 < largest[m] / (4 * reach * math.sqrt(d)) <= 1
    assert 0.5 < largest[400] / largest[50] < 2  # the printed m sqrt(d) grows by 8


def test_noise_of_the_network_in_numbers(generator):
    """E002-11: b = m sqrt(d)/eps has std 1.4 b, length sqrt(2) m^1.5 d/eps, not d sqrt(m)/eps^2.

    10,000 numbers: the standard deviation is right to 5 %, seven standard errors.
    """
    m, d, epsilon = 25, 400, 0.5
    scale = m * math.sqrt(d) / epsilon
    noise = generator.laplace(scale=scale, size=(m, d))
    assert noise.std() == pytest.approx(math.sqrt(2) * m * math.sqrt(d) / epsilon, rel=0.05)
    assert np.linalg.norm(noise) == pytest.approx(math.sqrt(2) * m**1.5 * d / epsilon, rel=0.05)
    published = d * math.sqrt(m) / epsilon**2
    for true in (noise.std(), noise.var(), np.linalg.norm(noise)):
        assert not 0.5 < true / published < 2
    assert noise.var() / published == pytest.approx(2 * m**1.5, rel=0.1)


def test_only_one_row_of_table_1_is_a_defence():
    """E002-14: the table bounds one attack; of its rows only DP-SGD has an epsilon. p keeps."""
    for defence in (Nothing(), GradientNoise(0.1), Pruning(0.1), Dropout(0.9, ("hidden",))):
        assert defence.epsilon(1e-5, 1000, 10) == math.inf
    assert DpSgd(1.0, 2.0, 10).epsilon(1e-5, 1000, 10) < 10
    assert Dropout(0.9, ("hidden",)).name.startswith("dropout keeps 0.9")
