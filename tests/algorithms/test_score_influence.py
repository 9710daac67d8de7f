"""AUC and calibration in two rounds: rows are bounded whatever a record holds, noise is what is
stated, and influence functions are derivatives."""

import numpy as np
import pytest
from scipy.special import expit, logit

from unisono.accounting.accountant import ACCOUNTANT
from unisono.algorithms import score_distributions
from unisono.algorithms.evaluation import ClassEvaluation, evaluated_json
from unisono.algorithms.evaluation_text import ESTIMAND, evaluation_text
from unisono.algorithms.score_influence import Point, influences, opened, rows_of
from unisono.core.algorithm import Facts
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.privacy import Privacy
from unisono.core.study import Party
from unisono.core.trust import Relation, Trust
from unisono.core.values import Private
from unisono.engines import in_process
from unisono.estimators.configuration import in_rounds
from unisono.releases.together import studies_of

TWO = ClassEvaluation(("no", "yes"), complete=False)
GROUPED = ClassEvaluation(("no", "yes"), groups=("a", "b"), complete=False)
PRIVACY = Privacy(1.0, 1e-6)


def chances_of(x):
    return np.stack([expit(-x), expit(x)], axis=1)


def over_confident(n, seed):
    generator = np.random.default_rng([31, seed])
    x = 5 * generator.normal(size=n)
    return x, (generator.random(n) < expit(0.2 * x - 0.3)).astype(float)


def party(rows, seed, relation=Relation.REPLACE_ONE):
    policy = Policy("d", Budget(1e5, 1e-3), relation=relation)
    book = Ledger.in_memory(policy, ACCOUNTANT, seed=seed)
    return Party("p", Private((rows.astype(np.float32),), "p"), book)


def evaluated(evaluation, rows, privacy=PRIVACY, seed=1):
    facts = Facts((len(rows),), evaluation.width, 1, 0)
    plan = in_rounds(evaluation.kind.method(evaluation.survey, privacy), facts, Trust.LOCAL)
    return evaluation.read(plan.study, plan.run([party(rows, seed)]))


@pytest.fixture(scope="module")
def begun():
    """The second study of two groups, begun with a first round of over-confident scores."""
    x, y = over_confident(4000, 0)
    rows = GROUPED.columns(chances_of(x), y, (x > 1).astype(float))
    facts = Facts((len(rows),), GROUPED.width, 1, 0)
    method = GROUPED.kind.method(GROUPED.survey, PRIVACY)
    start, study = studies_of(method, facts, Trust.LOCAL)
    found = in_process.run(start, [party(rows, 1)])
    return study.begun(found.value), rows


def point_of(study):
    state, _ = study.algorithm.init(study.facts)
    return Point(*(np.asarray(part, np.float64) for part in study.algorithm.ask(state)))


@pytest.mark.parametrize("scale", [1.0, 1e-3, 1e3])
def test_rows_lie_in_the_unit_ball_whatever_a_record_holds(begun, scale):
    """Also where the first round was odd: the clip holds, and not what noise happens to say."""
    generator = np.random.default_rng(4)
    point = point_of(begun[0])
    point = point._replace(half=point.half * scale, radius=point.radius * scale)
    odd = [0.0, 1.0, -1.0, 300.0, 1e30, -1e30, np.nan, np.inf, -np.inf, 19.99, 1e-6]
    records = generator.choice(odd, (4000, GROUPED.width))
    with np.errstate(invalid="ignore", over="ignore"):
        for part in range(3):
            every = np.full(len(records), part)
            rows = rows_of(np, GROUPED.survey, point, every, records)
            assert np.isfinite(rows).all()
            assert np.linalg.norm(rows, axis=1).max() <= 1 + 1e-9
    if scale < 1:
        assert np.linalg.norm(rows, axis=1).max() > 0.99  # clipped, and not small


def test_a_record_that_misses_its_outcome_has_no_influence(begun):
    point = point_of(begun[0])
    records = np.full((2, GROUPED.width), np.nan)
    row = rows_of(np, GROUPED.survey, point, np.zeros(2, int), records)[0]
    alpha = np.sqrt(0.4)
    assert row[0] == pytest.approx(-alpha * point.centre[0] / point.half[0])
    assert row[1:].tolist() == [0.0, 0.0]


def test_noise_of_the_second_round_is_what_is_stated(begun):
    """80 sums of the same records, begun with the same first round. Halved noise would be at .5."""
    study, rows = begun
    names = ("auc", "score")
    found = {name: [] for name in names}
    for seed in range(80):
        sums = opened(study, in_process.run(study, [party(rows, 100 + seed)]).value).sums
        for name in names:
            found[name].append(
                [np.atleast_1d(getattr(one, name)) / getattr(one, f"{name}_noise") for one in sums]
            )
    for name in names:
        assert np.std(found[name], axis=0) == pytest.approx(1.0, abs=0.28)


@pytest.mark.parametrize("relation", list(Relation))
def test_the_price_holds_for_two_rounds_together(relation):
    facts = Facts((5000,), TWO.width, 1, 0, exact_sizes=relation is not Relation.ADD_OR_REMOVE)
    method = TWO.kind.method(TWO.survey, Privacy(0.7, 1e-6, relation))
    start, study = studies_of(method, facts, Trust.LOCAL)
    for one in (start, study):
        event = one.algorithm.event(facts, Trust.LOCAL)
        assert event.sensitivity.under(relation).in_norm("l2") > 0
    sensitivity = study.algorithm.event(facts, Trust.LOCAL).sensitivity
    far = 2.0 if relation is Relation.REPLACE_ONE else 1.0
    weight = 1 / far  # a block is weighted to a norm of 1
    own = sensitivity.under(relation).in_norm("l2")
    assert own >= far * weight * 0.98


def test_influences_are_derivatives():
    """The AUC of a mixture with one more record, and the score of a logistic regression."""
    generator = np.random.default_rng(2)
    x = np.clip(3 * generator.normal(size=4000), -20, 20)
    y = (generator.random(4000) < expit(x - 1)).astype(float)
    leaf = score_distributions.leaf_of(x)
    left = np.stack([np.append(0, np.cumsum(np.bincount(leaf[y == k], minlength=256)))
                     for k in (0, 1)]).astype(float)  # fmt: skip
    below = score_distributions.shares(left)
    auc = score_distributions.area(below)
    one = np.array([0])
    point = Point(
        below[None], np.array([auc]), left[None, :, -1], *np.zeros((3, 1)), np.ones(1),
        np.zeros((1, 2)), np.ones(1)
    )  # fmt: skip
    for outcome in (0.0, 1.0):
        at = 200
        middle = (score_distributions.EDGES[at : at + 1] + score_distributions.EDGES[at + 1]) / 2
        phi, score = influences(np, point, one, np.array([at]), middle, np.array([outcome]))
        more = left.copy()
        step = 1e-3
        more[int(outcome), at + 1 :] += step
        slope = (score_distributions.area(score_distributions.shares(more)) - auc) / step
        assert phi[0] == pytest.approx(slope, rel=1e-3, abs=1e-9)
        assert score[0] == pytest.approx((outcome - 0.5) * np.array([1.0, middle[0]]))


def test_what_two_rounds_cannot_tell_is_not_determined():
    generator = np.random.default_rng(6)
    x = 2 * generator.normal(size=2000)
    rare = TWO.columns(chances_of(x - 6), (generator.random(2000) < 0.01).astype(float))
    found = evaluated(TWO, rare).overall
    assert not found.metric("AUC").determined
    assert not found.metric("calibration slope").determined
    apart = evaluated(TWO, TWO.columns(chances_of(x), (x > 0).astype(float))).overall
    assert apart.metric("AUC").determined
    assert apart.metric("AUC").high > 0.99
    assert not apart.metric("calibration slope").determined


def test_many_scores_of_0_or_1_are_warned_of():
    generator = np.random.default_rng(7)
    votes = generator.binomial(10, 0.5 + 0.4 * np.sign(generator.normal(size=4000))) / 10
    y = (generator.random(4000) < votes).astype(float)
    rows = TWO.columns(np.stack([1 - votes, votes], axis=1), y)
    shown = evaluated_json(evaluated(TWO, rows))
    assert shown["clipped"] == pytest.approx(np.mean((votes == 0) | (votes == 1)), abs=0.06)
    words = evaluation_text(shown, 0.95)
    assert "of the scores are 0 or 1" in words
    assert ESTIMAND in words
    usual = evaluated_json(evaluated(TWO, TWO.columns(chances_of(votes - 0.5), y)))
    assert "clipped" not in usual
    assert "0 or 1" not in evaluation_text(usual, 0.95)


def test_pure_epsilon_has_two_rounds_too():
    x, y = over_confident(4000, 3)
    found = evaluated(TWO, TWO.columns(chances_of(x), y), Privacy(4.0, 0.0)).overall
    assert found.metric("AUC").determined
    assert found.metric("calibration slope").low < 0.2 < found.metric("calibration slope").high


@pytest.mark.slow
@pytest.mark.parametrize("draw", ["over-confident", "crowded"])
def test_intervals_hold_where_scores_crowd(draw):
    """150 evaluations: at least 90 % hold (false alarm 1e-2 of intervals that hold 95 %)."""
    truth = {"over-confident": (0.2, -0.3), "crowded": (0.8, 0.1)}[draw]
    held = []
    for seed in range(150):
        x, y = over_confident(3000, seed)
        if draw == "crowded":
            generator = np.random.default_rng([32, seed])
            x = logit(generator.choice([0.02, 0.021, 0.5, 0.505], 3000, p=[0.4, 0.3, 0.2, 0.1]))
            y = (generator.random(3000) < expit(0.8 * x + 0.1)).astype(float)
        found = evaluated(TWO, TWO.columns(chances_of(x), y), seed=seed).overall
        for name, exact in zip(("calibration slope", "calibration intercept"), truth, strict=True):
            metric = found.metric(name)
            held.append(not metric.determined or metric.low <= exact <= metric.high)
    assert np.mean(np.reshape(held, (-1, 2)), axis=0).min() >= 0.9
