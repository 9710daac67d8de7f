"""Metrics of a model from one noisy release: they are the textbook's, and say what noise hides."""

import json
import math

import numpy as np
import pytest
from scipy.special import expit, ndtri
from sklearn import metrics as textbook
from sklearn.linear_model import LogisticRegression

from unisono.accounting.accountant import ACCOUNTANT
from unisono.algorithms import metrics
from unisono.algorithms.estimates import _guarantees
from unisono.algorithms.evaluation import (
    WORST_LOSS,
    ClassEvaluation,
    NumberEvaluation,
    TimeEvaluation,
    evaluated_json,
)
from unisono.algorithms.metrics import Counts
from unisono.algorithms.survival_table import cells_of
from unisono.core.algorithm import agree_facts
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.privacy import Privacy
from unisono.core.study import Party
from unisono.core.trust import Relation, Trust
from unisono.core.values import Private
from unisono.errors import InvalidInput
from unisono.estimators.configuration import in_rounds


def released(evaluation, rows, privacy, trust=Trust.SECURE_SUM, **hidden):
    """What an evaluation of three parties says, and its certificate."""
    parts = np.array_split(rows.astype(np.float32), 3)
    facts = agree_facts(tuple(map(len, parts)), rows.shape[1], trust, **hidden)
    plan = in_rounds(evaluation.kind.method(evaluation.survey, privacy), facts, trust)
    ledgers = [
        Ledger.in_memory(Policy(f"d{k}", Budget(1e5, 1e-2)), ACCOUNTANT, seed=k) for k in range(3)
    ]
    parties = [
        Party(f"p{k}", Private((part,)), ledger)
        for k, (part, ledger) in enumerate(zip(parts, ledgers, strict=True))
    ]
    result = plan.run(parties)
    return evaluation.read(plan.study, result), result.certificate


def two_classes(n, seed=0, slope=1.0):
    generator = np.random.default_rng(seed)
    x = generator.normal(size=n)
    chance = expit(x)
    truth = (generator.random(n) < expit(slope * x + 0.2)).astype(float)
    return np.stack([1 - chance, chance], axis=1), truth


def log_odds(chances):
    return np.log(chances[:, 1:]) - np.log(chances[:, :1])


NO_NOISE = Privacy(20000.0, 1e-6)


def test_without_noise_metrics_are_those_of_the_textbook():
    chances, truth = two_classes(20000)
    evaluation = ClassEvaluation(("no", "yes"))
    found, _ = released(evaluation, evaluation.columns(chances, truth), NO_NOISE)
    said = chances.argmax(axis=1)
    exact = {
        "accuracy": textbook.accuracy_score(truth, said),
        "Brier score": textbook.brier_score_loss(truth, chances[:, 1]),
        "log loss": textbook.log_loss(truth, chances[:, 1]),
        "recall of yes": textbook.recall_score(truth, said),
        "precision of yes": textbook.precision_score(truth, said),
    }
    for name, value in exact.items():
        assert found.overall.metric(name).value == pytest.approx(value, abs=2e-4), name
    score = textbook.roc_auc_score(truth, chances[:, 1])
    assert found.overall.metric("AUC").value == pytest.approx(score, abs=5e-4)
    line = LogisticRegression(C=np.inf).fit(log_odds(chances), truth)
    assert found.overall.metric("calibration slope").value == pytest.approx(
        line.coef_[0, 0], abs=2e-3
    )
    intercept = found.overall.metric("calibration intercept").value
    assert intercept == pytest.approx(line.intercept_[0], abs=2e-3)
    counted = textbook.confusion_matrix(truth, said)
    assert np.array(found.overall.confusion) == pytest.approx(counted, abs=1.0)
    assert all(one["low"] <= one["share"] <= one["high"] for one in found.overall.curve)
    assert found.overall.roc[0] == (0.0, 0.0)
    assert found.overall.roc[-1] == pytest.approx((1.0, 1.0))


def test_without_noise_numbers_are_those_of_the_textbook():
    generator = np.random.default_rng(1)
    said = generator.normal(50, 10, 9000)
    truth = said + generator.normal(1, 5, 9000)
    evaluation = NumberEvaluation((0.0, 100.0), 25.0, intervals=True)
    rows = evaluation.columns(said, truth, interval=(said - 10, said + 10))
    found, _ = released(evaluation, rows, NO_NOISE)
    exact = {
        "RMSE": textbook.root_mean_squared_error(truth, said),
        "R²": textbook.r2_score(truth, said),
        "bias": float((said - truth).mean()),
        "coverage": float((np.abs(said - truth) <= 10).mean()),
    }
    for name, value in exact.items():
        assert found.overall.metric(name).value == pytest.approx(value, abs=2e-3), name


def test_more_classes_have_no_auc():
    generator = np.random.default_rng(2)
    chances = generator.dirichlet((1, 1, 1), 4000)
    truth = (generator.random((4000, 1)) > chances.cumsum(axis=1)).sum(axis=1)
    evaluation = ClassEvaluation(("a", "b", "c"))
    found, _ = released(evaluation, evaluation.columns(chances, truth), NO_NOISE)
    assert found.overall.metric("calibration slope").value == pytest.approx(1.0, abs=0.15)
    exact = -np.log(np.maximum(chances[np.arange(4000), truth], 0.01)).mean()
    assert found.overall.metric("log loss").value == pytest.approx(exact, abs=1e-3)
    with pytest.raises(StopIteration):
        found.overall.metric("AUC")


def test_labels_alone_have_a_confusion_matrix():
    chances, truth = two_classes(5000)
    evaluation = ClassEvaluation(("no", "yes"), scored=False)
    found, _ = released(evaluation, evaluation.columns(np.round(chances), truth), NO_NOISE)
    exact = textbook.accuracy_score(truth, chances.argmax(axis=1))
    assert found.overall.metric("accuracy").value == pytest.approx(exact, abs=1e-3)
    assert [one.name.split(" of ")[0] for one in found.overall.metrics] == [
        "accuracy",
        "recall",
        "precision",
        "recall",
        "precision",
    ]


def test_groups_are_judged_apart_and_compared():
    chances, truth = two_classes(12000, slope=1.0)
    group = np.arange(12000) % 2
    truth = np.where(group == 1, 1 - truth, truth)  # the model is wrong about one of them
    evaluation = ClassEvaluation(("no", "yes"), groups=("north", "south"))
    found, _ = released(evaluation, evaluation.columns(chances, truth, group), NO_NOISE)
    north, south = found.groups
    assert (north.group, south.group) == ("north", "south")
    said = chances.argmax(axis=1)
    for place, own in enumerate((north, south)):
        exact = textbook.accuracy_score(truth[group == place], said[group == place])
        assert own.metric("accuracy").value == pytest.approx(exact, abs=1e-3)
    [gap] = [one for one in found.gaps if one.name == "accuracy, south less north"]
    assert gap.high < 0


def test_records_without_outcome_or_group_count_nowhere():
    chances, truth = two_classes(3000)
    truth[::3] = np.nan
    evaluation = ClassEvaluation(("no", "yes"), complete=False)
    found, _ = released(evaluation, evaluation.columns(chances, truth), NO_NOISE)
    there = np.isfinite(truth)
    exact = textbook.accuracy_score(truth[there], chances[there].argmax(axis=1))
    assert found.overall.metric("accuracy").value == pytest.approx(exact, abs=2e-3)
    assert found.overall.records == pytest.approx(2000, abs=2)
    grouped = ClassEvaluation(("no", "yes"), groups=("a", "b"))
    assert np.isnan(grouped.columns(chances, truth, np.full(3000, 7.0))).all()
    with pytest.raises(InvalidInput, match="without their groups"):
        grouped.columns(chances, truth)


@pytest.mark.parametrize("odd", [np.nan, np.inf, -3.0, 7.0])
def test_odd_chances_stay_within_what_is_paid_for(odd):
    """Whatever a model says, codes are cells and losses lie in their bounds; what is no number
    counts nowhere."""
    evaluation = ClassEvaluation(("no", "yes"))
    rows = evaluation.columns(np.full((1, 2), odd), np.array([1.0]))
    if not np.isfinite(odd):
        assert np.isnan(rows).all()
        return
    leaf, outcome, pair, square, loss, _, score = rows[0]
    assert 0 <= leaf < 256
    assert 0 <= outcome < 2
    assert 0 <= pair < 4
    assert 0 <= square <= 1
    assert 0 <= loss <= WORST_LOSS
    assert abs(score) <= 20


def test_what_noise_hides_is_not_determined():
    chances, truth = two_classes(150)
    truth[:] = 0
    truth[:4] = 1
    privacy = Privacy(0.3, 1e-6)
    evaluation = ClassEvaluation(("no", "yes"))
    found, certificate = released(evaluation, evaluation.columns(chances, truth), privacy)
    assert not found.overall.metric("AUC").determined
    shown = evaluated_json(found)
    assert "value" not in next(one for one in shown["metrics"] if one["name"] == "AUC")
    assert json.loads(json.dumps(shown)) is not None
    paid = max(one.epsilon for one in _guarantees(certificate))
    assert 0.29 < paid <= 0.3 * (1 + 1e-6)


@pytest.mark.parametrize("trust", [Trust.SECURE_SUM, Trust.LOCAL])
def test_hidden_sizes_are_released_with_the_scores(trust):
    chances, truth = two_classes(6000)
    privacy = Privacy(8.0, 1e-6, Relation.ADD_OR_REMOVE)
    evaluation = ClassEvaluation(("no", "yes"))
    rows = evaluation.columns(chances, truth)
    found, _ = released(evaluation, rows, privacy, trust, exact_sizes=False)
    exact = textbook.accuracy_score(truth, chances.argmax(axis=1))
    assert found.overall.metric("accuracy").low < exact < found.overall.metric("accuracy").high
    loss = found.overall.metric("log loss")
    assert loss.low < textbook.log_loss(truth, chances[:, 1]) < loss.high


def test_intervals_of_shares_hold_near_the_ends():
    """300 releases of 60 records, a share of 97 %: at least 92 % hold (false alarm 1e-3)."""
    generator = np.random.default_rng(5)
    right = generator.binomial(60, 0.97, 300)
    tables = np.zeros((300, 2, 2))
    tables[:, 0, 0], tables[:, 0, 1] = right, 60 - right
    tables += generator.normal(0, 2.0, tables.shape)
    found = [metrics.accuracy(Counts(table, 2.0, 60.0), 0.95) for table in tables]
    assert np.mean([one.low <= 0.97 <= one.high for one in found]) > 0.92


def test_noise_widens_and_is_told():
    table = np.array([[800.0, 100.0], [120.0, 480.0]])
    quiet, loud = (metrics.accuracy(Counts(table, noise, 1500.0), 0.95) for noise in (0.0, 40.0))
    assert quiet.privacy_share == pytest.approx(0.0, abs=1e-9)
    assert loud.privacy_share > 0.5
    assert loud.high - loud.low > 2 * (quiet.high - quiet.low)
    share = 1280 / 1500
    wide = 2 * 1.96 * math.sqrt(share * (1 - share) / 1500)
    assert quiet.high - quiet.low == pytest.approx(wide, rel=0.01)


# ------------------------------------------------------------------- times until an event


def test_times_are_counted_record_by_record_in_one_cell():
    """Whatever a record holds, it is in one cell or in none, and moves no other."""
    how = TimeEvaluation(6, groups=("f", "m"), complete=False)
    facts = agree_facts((10, 10, 10), 5, Trust.SECURE_SUM)
    generator = np.random.default_rng(4)
    odd = np.array([0.0, -1.0, 0.5, 1.0, 1.0001, 2.0, 1e300, np.inf, -np.inf, np.nan])
    records = 400
    places = generator.integers(0, 8, records).astype(float)
    given = [places, *(generator.choice(odd, records) for _ in range(2))]
    given.append(generator.choice([0.0, 1.0, 5.0, np.nan], records))
    cells = how.columns(*given)[:, 0]
    known = np.isfinite(cells)
    assert 0 < known.sum() < records
    assert (cells[known] == np.floor(cells[known])).all()
    assert cells[known].min() >= 0
    assert cells[known].max() < 2 * how.cells == how.survey.table(facts).dimension
    for place in range(20):
        other = [np.array(own) for own in given]
        for own in other:
            own[place] = generator.choice(odd)
        moved = how.columns(*other)[:, 0]
        assert np.array_equal(np.delete(moved, place), np.delete(cells, place), equal_nan=True)


def test_cells_are_those_of_the_table_of_survival():
    """A time at the end of an interval is in it, whoever outlasts the horizon is beyond."""
    time = np.array([0.0, 0.1, 0.25, 0.2501, 1.0, 1.5])
    cuts = np.linspace(0, 1, 5)
    assert cells_of(time, np.ones(6), cuts, np)[0].tolist() == [0, 0, 0, 1, 3, 8]
    assert cells_of(time, np.zeros(6), cuts, np)[0].tolist() == [4, 4, 4, 5, 7, 8]


@pytest.mark.parametrize(("spread", "known"), [(1.0, True), (0.1, False), (20.0, False)])
def test_scores_that_crowd_into_one_interval_have_no_concordance(spread, known):
    """What happens within an interval is not seen, so that an interval would be false."""
    generator = np.random.default_rng(8)
    score = generator.normal(size=6000)
    time = generator.exponential(size=6000) * np.exp(-score)
    how = TimeEvaluation(10)
    place = np.searchsorted(ndtri(np.arange(1, 8) / 8), spread * score).astype(float)
    rows = how.columns(place, np.where(time > 1, 2.0, time), (time <= 1).astype(float))
    found, _ = released(how, rows, Privacy(4.0, 1e-6))
    assert found.overall.metric("concordance").determined is known
