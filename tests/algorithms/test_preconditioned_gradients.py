"""Linear classifiers whose probabilities mean something: calibrated, not underfitted, private."""

from itertools import combinations, product

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit

from unisono.accounting.accountant import ACCOUNTANT
from unisono.algorithms.preconditioned_gradients import (
    PRECONDITIONED_GRADIENTS,
    Coordinates,
    PreconditionedGradientsConfig,
    ScoreAxis,
    _asked_of_scores,
    _calibrated,
    _response,
    coordinates_of,
    signal_share,
)
from unisono.algorithms.row_moments import ROW_MOMENTS, moments_of
from unisono.attacks.audit import audit, check
from unisono.core.algorithm import agree_facts
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.privacy import Privacy
from unisono.core.study import Party, Study
from unisono.core.trust import Relation, Trust
from unisono.core.values import Private
from unisono.engines import in_process
from unisono.errors import InvalidInput
from unisono.problems.linear import linear_loss

from ..methods import CleanSums

TRUTH = np.array([2.0, -6.0, 1.0, -0.5])
RECORDS = 4000
TWO_CLASSES = linear_loss()


def rows(seed, records=RECORDS):
    """(u, 1): one column that uses a fifth of its range, two that go together."""
    generator = np.random.default_rng(seed)
    wide = np.clip(0.5 * generator.normal(size=records), -1, 1)
    narrow = np.clip(0.2 + 0.08 * generator.normal(size=records), -1, 1)
    close = np.clip(0.8 * wide + 0.1 * generator.normal(size=records), -1, 1)
    return np.stack([wide, narrow, close, np.ones(records)], axis=1).astype(np.float32)


def labels(points, seed):
    chances = expit(points @ TRUTH)
    return np.where(np.random.default_rng(seed).random(len(points)) < chances, 1, -1)


def ledger(party, seed):
    policy = Policy(f"d{party}", Budget(1e4, 1e-3))
    return Ledger.in_memory(policy, ACCOUNTANT, seed=10 * seed + party)


def learnt(epsilon, seed, points, targets, problem=TWO_CLASSES, **settings):
    """Weights of one run of both stages, at two parties."""
    sizes = (len(points) // 4, len(points) - len(points) // 4)
    facts = agree_facts(sizes, points.shape[1], Trust.SECURE_SUM)
    studies = [
        Study(kind.method(problem, Privacy(epsilon, 1e-6), **more), facts, Trust.SECURE_SUM)
        for kind, more in ((ROW_MOMENTS, {}), (PRECONDITIONED_GRADIENTS, settings))
    ]
    columns = [np.split(np.asarray(own, np.float32), [sizes[0]]) for own in (points, targets)]
    parties = [
        Party(f"p{k}", Private(own), ledger(k, seed))
        for k, own in enumerate(zip(*columns, strict=True))
    ]
    found = in_process.run(studies[0], parties)
    return np.asarray(in_process.run(studies[1].begun(found.value), parties).value, float)


def newton(points, targets, ridge=0.0):
    """Logistic regression without privacy."""
    beta, y = np.zeros(points.shape[1]), (targets + 1) / 2
    for _ in range(25):
        chances = expit(points @ beta)
        bend = (points * (chances * (1 - chances))[:, None]).T @ points / len(y)
        gradient = points.T @ (y - chances) / len(y) - ridge * beta
        beta = beta + np.linalg.solve(bend + ridge * np.eye(len(beta)), gradient)
    return beta


def test_with_next_to_no_noise_it_is_logistic_regression():
    """Weights of x alone leave the model what it is, so that estimates differ by sampling only: a
    standard error is below .05 but for the narrow column, .5. Unit rows are off by tenths of it."""
    points = rows(1, 20_000)
    targets = labels(points, 2)
    found = learnt(1000.0, 1, points, targets)
    usual = newton(points.astype(float), targets)
    assert found == pytest.approx(usual, rel=0.05, abs=0.1)


def test_a_ridge_is_what_it_says():
    points = rows(1, 20_000)
    targets = labels(points, 2)
    found = learnt(1000.0, 1, points, targets, regularisation=0.05)
    assert found == pytest.approx(newton(points.astype(float), targets, 0.05), rel=0.1, abs=0.05)


def test_probabilities_are_calibrated():
    """The slope of labels on the scores of 20,000 other records, over eight runs at epsilon 1: its
    mean has a deviation of about .03 around 1, so that .85 and 1.15 are four of them off. Scores of
    unit rows have a slope of about .5."""
    fresh = rows(99, 20_000)
    truth = labels(fresh, 98)
    slopes = []
    for seed in range(8):
        points = rows(seed)
        beta = learnt(1.0, seed, points, labels(points, 100 + seed))
        scores = fresh @ beta
        slopes.append(newton(np.stack([scores, np.ones(len(fresh))], axis=1), truth)[0])
    assert 0.85 < np.mean(slopes) < 1.15


def test_several_classes_are_not_underfitted():
    """Two directions that hardly vary tell the classes apart: descent in unit rows leaves them
    where they were."""
    generator = np.random.default_rng(3)
    base = generator.normal(0.3, 0.25, size=(6000, 1))
    sides = 0.02 * generator.normal(size=(6000, 2))
    points = np.concatenate([base + sides, base - sides, np.ones((6000, 1))], axis=1)
    centres = 0.02 * np.array([[1.5, 0.0], [-1.0, 1.2], [-1.0, -1.2]])
    chances = np.exp(-((sides[:, None, :] - centres) ** 2).sum(axis=2) / (2 * 0.01**2))
    chances /= chances.sum(axis=1, keepdims=True)
    classes = (chances.cumsum(axis=1) > generator.random((6000, 1))).argmax(axis=1)
    beta = learnt(30.0, 1, points, classes, linear_loss("multinomial", 3))
    right = (np.argmax(points @ beta, axis=1) == classes).mean()
    assert right > (chances.argmax(axis=1) == classes).mean() - 0.03


# ------------------------------------------------------------- what is done about noise


def test_the_response_is_that_of_the_descent():
    """Gains and arrivals against a descent that is carried out, push by push."""
    rounds, momentum, curvature = 30, 0.8, 0.05
    grid, gains, arrivals = _response(rounds, momentum, 0.5)
    effects = []
    for pushed in [*np.eye(rounds), np.ones(rounds)]:
        point = velocity = 0.0
        late = []
        for number in range(rounds):
            velocity = momentum * velocity + curvature * point - pushed[number]
            point = point - velocity
            late.append(point)
        effects.append(np.mean(late[rounds // 2 :]))
    gain = np.interp(np.log(curvature), np.log(grid), gains)
    assert gain == pytest.approx(np.sum(np.square(effects[:-1])), rel=0.02)
    arrival = np.interp(np.log(curvature), np.log(grid), arrivals)
    assert arrival == pytest.approx(curvature * effects[-1], rel=0.02)


def test_scores_that_are_noise_are_shrunk():
    config = PreconditionedGradientsConfig()
    one = np.ones(3)
    known = Coordinates(np.eye(3), 1.7, 1.0, np.eye(3), one, one, np.array([0.0, 0.0, 1.0]))
    theta = np.array([1.0, 0.5, 0.2])
    quiet, loud = (signal_share(np, config, known, theta, sigma, 1e6, 100) for sigma in (1e-6, 0.3))
    assert quiet == pytest.approx(1.0, abs=0.01)
    assert 0.3 <= loud < 0.9
    assert signal_share(np, config, known, theta, 1e-6, 50, 100) < 0.9  # so does a small sample


@pytest.mark.parametrize(("slope", "shift"), [(0.5, -1.0), (1.8, 0.7), (1.0, 0.0)])
def test_the_last_rounds_lead_to_the_calibrated_model(slope, shift):
    """Whatever law scores have: normal ones only set the length of steps. No label is clipped."""
    generator, clip, rounds = np.random.default_rng(2), 0.25, 15
    skewed = generator.exponential(1.0, 200_000) ** 1.3
    features = np.column_stack([skewed / 40, generator.normal(0, 0.2, 200_000), np.ones(200_000)])
    weights = np.array([50.0, 1.0, -3.0])
    scores = features @ weights
    axis = ScoreAxis(jnp.asarray(weights), scores.mean(), scores.std())
    labels = 2.0 * (generator.random(200_000) < expit(slope * scores + shift)) - 1
    moved = jnp.zeros(2)
    for number in range(rounds):
        asked = _asked_of_scores(np, axis, moved, clip)
        rows = features @ np.asarray(asked.matrix).T
        slopes = np.asarray(linear_loss().coefficients(asked.parameters, rows, labels))
        scaled = clip / np.maximum(np.linalg.norm(rows, axis=1), 1.0) * slopes
        added = scaled[:, None] * rows
        assert np.linalg.norm(added, axis=1).max() <= clip * (1 + 1e-6)
        gradient = 2.5 / clip * added.sum(axis=0)[:2]
        moved = _calibrated(axis, moved, gradient, 0.0, 200_000.0, number)
    found = 1 + float(moved[0]) / scores.std()
    level = (1 - found) * scores.mean() + float(moved[1])
    assert (found, level) == (pytest.approx(slope, rel=0.06), pytest.approx(shift, abs=0.1))
    chances = expit(found * scores + level)
    assert chances.mean() == pytest.approx((labels > 0).mean(), rel=0.03)


def test_noise_that_outweighs_the_usual_error_leaves_scores_as_they_are():
    axis = ScoreAxis(jnp.array([1.0, 0.0]), -1.0, 1.5)
    loud = _calibrated(axis, jnp.zeros(2), jnp.array([300.0, -300.0]), 300.0, 1000.0, 0)
    assert np.abs(loud).max() < 0.1


def test_directions_below_the_noise_are_not_stretched():
    config = PreconditionedGradientsConfig(learning_rate=1.0, least_variance=0.01)
    moments = np.diag([0.5, 1e-6, 0.5])
    known = coordinates_of(config, linear_loss(), moments)
    stretch = np.diag(known.matrix) / np.sqrt(0.5)  # of rows that are sqrt 2 long
    assert stretch == pytest.approx([1.4, 10.0, 1.4], rel=0.02)
    assert known.norm == pytest.approx(np.sqrt(2), rel=0.02)
    assert moments_of(3, None) == pytest.approx(np.eye(3) / 3)


def test_pure_epsilon_is_refused():
    pure = PRECONDITIONED_GRADIENTS.method(linear_loss(), Privacy(1.0, 0.0))
    with pytest.raises(InvalidInput, match="its noise is Gaussian"):
        Study(pure, agree_facts((40,), 3, Trust.LOCAL), Trust.LOCAL)
    with pytest.raises(InvalidInput, match="learns a ClassificationLoss"):
        PRECONDITIONED_GRADIENTS.method(linear_loss("squares"), Privacy(1.0, 1e-6))


# ------------------------------------------------------------- privacy


@pytest.mark.parametrize("factor", [1, 0.5])
@pytest.mark.parametrize("loss", ["logistic", "multinomial"])
def test_audit_of_both_stages(loss, factor):
    """One record at any corner of what a record may be, or at any other: honest noise passes,
    halved noise is caught; honest noise would be accused once in 10,000. A clip that was forgotten,
    or a neighbour that moves farther than is claimed, fails before any noise is drawn."""
    delta, generator = 1e-5, np.random.default_rng(11)
    several = loss == "multinomial"
    problem, privacy = linear_loss(loss, 3 if several else 2), Privacy(1.0, delta)
    facts = agree_facts((40,), 4, Trust.LOCAL)
    first = Study(ROW_MOMENTS.method(problem, privacy), facts, Trust.LOCAL)
    second = Study(PRECONDITIONED_GRADIENTS.method(problem, privacy, rounds=1), facts, Trust.LOCAL)
    points = rows(4, 40)
    own = np.arange(40.0) % 3 if several else labels(points, 4)
    ends = ((-1, 0, 1), (-1, 0, 1), (-1, 1), (1,), (0, 1, 2) if several else (-1, 1))
    for study, gap, sums in _audited(first, second, points, own, ends):
        length = np.linalg.norm(gap)
        bound = sums.sensitivity.under(Relation.REPLACE_ONE).in_norm("l2")
        assert 0.7 * bound < length <= bound
        scale = factor * study.algorithm.event(facts, Trust.LOCAL).noise.std
        scores = [c + scale * length * generator.normal(size=10_000) for c in (gap @ gap, 0.0)]
        found = audit(*scores, delta, confidence=0.9999, gaussian=True)
        best = max(found.epsilon_direct, found.epsilon_model_based or 0.0)
        if factor == 1:
            check(1.0, delta, found)
        assert best > (0.25 if factor == 1 else 1.0)


def _audited(first, second, points, own, ends):
    """Each stage, the longest way between two worlds, and what a party makes of them."""
    for study in (first, second.begun(None)):
        algorithm = study.algorithm
        public = algorithm.ask(algorithm.init(study.facts)[0])
        sums, worlds = CleanSums(algorithm, study.facts, public), []
        for *corner, label in product(*ends):
            here, marks = points.copy(), np.asarray(own, np.float32).copy()
            here[0], marks[0] = corner, label
            worlds.append(sums(here, marks))
        yield (
            study,
            max((one - two for one, two in combinations(worlds, 2)), key=np.linalg.norm),
            sums,
        )
