"""Kaplan-Meier curves and the log-rank test: the table, the curves, what they cost and cover.

Statistical tests have fixed seeds, so that they pass or fail for ever; comments say how often a
correct method would fail them over the choice of seeds.
"""

import json
import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import chi2

import unisono
from unisono.accounting import gaussian
from unisono.accounting.accountant import ACCOUNTANT
from unisono.algorithms import log_rank
from unisono.algorithms.survival_curves import (
    Numbers,
    cumulative_hazard,
    estimate,
    nearest_counts,
    restricted_means,
)
from unisono.algorithms.survival_table import SURVIVAL_TABLE, SurvivalTable, unpacked_table
from unisono.attacks.audit import audit, check
from unisono.core.algorithm import Facts
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.privacy import Privacy
from unisono.core.study import Party, Study
from unisono.core.trust import ITERATES, Relation, Trust
from unisono.core.values import Private
from unisono.engines import in_process
from unisono.errors import BudgetExceeded, ClippedValues, InvalidInput
from unisono.models.kaplan_meier import KAPLAN_MEIER
from unisono.problems.survival import BEYOND, SurvivalTimes

from ..methods import CleanSums

HORIZON, SHAPE, SCALE = 10.0, 1.2, 6.0
TWO = ("placebo", "drug")


def ledger(relation=Relation.REPLACE_ONE, epsilon=3.0, name="trial"):
    return Ledger.in_memory(
        Policy(name, Budget(epsilon, 1e-5), relation=relation), ACCOUNTANT, seed=4
    )


def patients(n, generator, ratio=1.0, unequal=False):
    """Weibull times, censored; hazards of the second group are `ratio` times those of the first."""
    group = (generator.random(n) < 0.5).astype(int)
    time = generator.weibull(SHAPE, n) * SCALE / np.where(group == 1, ratio ** (1 / SHAPE), 1.0)
    censored = generator.exponential(12.0, n)
    if unequal:
        censored = np.where(
            group == 1, np.minimum(censored, generator.exponential(6.0, n)), censored
        )
    return np.minimum(time, censored), (time <= censored).astype(int), group


def counted(time, event, group, bins, groups):
    """The table, without any of our code."""
    inside = np.clip(np.ceil(time / HORIZON * bins).astype(int) - 1, 0, bins - 1)
    cell = np.where(event == 1, inside, bins + inside)
    cell = np.where(time > HORIZON, 2 * bins, cell)
    made = np.zeros((groups, 2 * bins + 1))
    np.add.at(made, (group, cell), 1)
    return made


# ------------------------------------------------------------- the table


def rows_of(time, event, group):
    return np.column_stack([time / HORIZON, event, group]).astype(np.float32)


def opened(problem, rows, epsilon=500.0, sizes=None, **settings):
    """The table of one party, with almost no noise."""
    sizes = (len(rows),) if sizes is None else sizes
    study = Study(
        SURVIVAL_TABLE.method(problem, Privacy(epsilon, 1e-6), **settings),
        Facts(sizes, 3, 1),
        Trust.LOCAL,
    )
    party = Party("only", Private((rows,)), ledger(epsilon=1000.0))
    return unpacked_table(in_process.run(study, [party]).value, problem)


def test_every_record_counts_where_it_belongs():
    time, event, group = patients(300, np.random.default_rng(1))
    found = opened(SurvivalTimes(TWO), rows_of(time, event, group), bins=8)
    assert found.cells == pytest.approx(counted(time, event, group, 8, 2), abs=0.4)
    assert found.records == 300
    assert found.incomplete is None


@pytest.mark.parametrize("bins", [6, 7, 12, 40])
def test_whole_times_are_in_the_interval_that_they_end(bins):
    """Thirds of an interval and its ends, whatever 32-bit shares of the horizon are."""
    time = np.arange(3 * bins + 1) * HORIZON / (3 * bins)
    rows = rows_of(time, np.ones(len(time)), np.zeros(len(time)))
    found = opened(SurvivalTimes(("all",)), rows, bins=bins)
    expected = np.full(bins, 3.0)
    expected[0] = 4  # time 0 too
    assert found.cells[0, :bins] == pytest.approx(expected, abs=0.4)


def test_records_that_miss_something_have_a_cell_of_their_own():
    time, event, group = patients(200, np.random.default_rng(2))
    rows = rows_of(time, event, group)
    rows[0, 0], rows[1, 1], rows[2, 2], rows[3, 2] = np.nan, np.nan, np.nan, 7
    found = opened(SurvivalTimes(TWO, complete=False), rows, bins=5)
    assert found.incomplete == pytest.approx(4, abs=0.4)
    assert found.cells.sum() == pytest.approx(196, abs=1)
    assert found.counted(Facts((200,), 3, 1)) == pytest.approx(196, abs=0.5)
    assert found.counted(Facts((200,), 3, 1, exact_sizes=False)) is None


def test_whoever_outlasts_the_horizon_is_not_an_event():
    rows = np.array([[1.0, 1, 0], [1.001, 1, 0], [BEYOND, 1, 0], [BEYOND, 0, 0]], np.float32)
    found = opened(SurvivalTimes(("all",)), rows, bins=2)
    assert found.cells[0].round().tolist() == [0, 1, 0, 0, 3]


def test_the_number_of_intervals_follows_a_rule_of_public_facts():
    def bins(records, epsilon, delta=1e-6, groups=("all",)):
        facts = Facts((records,), 3, 1)
        method = SURVIVAL_TABLE.method(SurvivalTimes(groups), Privacy(epsilon, delta))
        width = Study(method, facts, Trust.LOCAL).algorithm.init(facts)[0].total.shape[0]
        return (width // len(groups) - 1) // 2

    assert [bins(n, 1.0) for n in (100, 1000, 5000, 40_000)] == [5, 6, 16, 40]
    assert bins(5000, 1.0, groups=TWO) == 12
    assert bins(5000, 1.0, delta=0.0) == 24


def test_the_table_moves_by_sqrt_2_when_a_record_is_replaced():
    facts = Facts((50,), 3, 1)
    for complete in (True, False):
        method = SURVIVAL_TABLE.method(SurvivalTimes(TWO, complete), Privacy(1.0, 1e-6), bins=5)
        event = Study(method, facts, Trust.LOCAL).algorithm.event(facts, Trust.LOCAL)
        for relation, length in ((Relation.REPLACE_ONE, math.sqrt(2)), (Relation.ZERO_OUT, 1.0)):
            assert event.sensitivity.under(relation).in_norm("l2") == pytest.approx(length)


# ------------------------------------------------------------- curves


def test_curves_without_noise_are_those_of_life_tables():
    """By hand: 3 and 1 events, 1 and 2 censored, of 7."""
    cells = np.array([[3.0, 1.0, 1.0, 2.0, 0.0]])
    hazard = cumulative_hazard(cells, 0.0)[0]
    assert np.exp(-hazard) == pytest.approx([1 - 3 / 6.5, (1 - 3 / 6.5) * (1 - 1 / 2)])
    curve = estimate(cells, Numbers(1e-6, 7), ["all"], 2.0).curves[0]
    assert curve.survival == pytest.approx([1.0, *np.exp(-hazard)], abs=1e-4)
    assert curve.at_risk == pytest.approx([7, 3, 0], abs=1e-4)
    assert curve.median.value == pytest.approx(1 + math.log(0.5385 / 0.5) / math.log(2), abs=1e-3)


def test_restricted_means_are_areas():
    ends = np.arange(1, 17) * HORIZON / 16
    area = quad(lambda t: math.exp(-((t / SCALE) ** SHAPE)), 0, HORIZON)[0]
    assert restricted_means((ends / SCALE) ** SHAPE, HORIZON) == pytest.approx(area, rel=5e-4)
    assert restricted_means(np.zeros((3, 4)), 5.0) == pytest.approx([5.0] * 3)


def test_shapes_hold_whatever_the_noise():
    """Curves and bands never rise, lie between 0 and 1 and around each other; twice the same."""
    generator = np.random.default_rng(3)
    for noise in (1.0, 20.0, 200.0):
        for _ in range(8):
            cells = counted(*patients(400, generator), 6, 2)
            cells = cells + noise * generator.standard_normal(cells.shape)
            found = estimate(cells, Numbers(noise, 400), TWO, HORIZON)
            for curve in found.curves:
                for falling in (curve.survival, curve.low, curve.high, curve.band_low):
                    assert (np.diff(falling) <= 1e-12).all()
                    assert ((falling >= 0) & (falling <= 1)).all()
                assert (curve.low <= curve.high).all()
                assert (curve.low[~curve.determined] == 0).all()
                assert not (np.diff(curve.determined.astype(int)) > 0).any()
            again = estimate(cells, Numbers(noise, 400), TWO, HORIZON)
            assert again.curves[0].to_json() == found.curves[0].to_json()
            json.dumps([curve.to_json() for curve in found.curves])


def test_what_noise_drowned_is_not_determined():
    generator = np.random.default_rng(5)
    cells = counted(*patients(400, generator), 6, 2)
    cells[1] = 0.0  # nobody in the second group
    noisy = cells + 8 * generator.standard_normal(cells.shape)
    found = estimate(noisy, Numbers(8.0, cells.sum()), TWO, HORIZON)
    full, empty = found.curves
    assert full.determined[3]
    assert not empty.determined[1:].any()
    shown = empty.to_json()
    assert shown["survival"] == [1.0] + [None] * 6
    assert shown["median"] == {"value": None, "interval": [0.0, None]}
    assert shown["restricted_mean"]["value"] is None
    assert found.differences[0].value is None


def coverage(n, epsilon, repetitions, seed):
    """How often intervals at each time, bands, medians and restricted means cover the truth."""
    generator = np.random.default_rng(seed)
    noise = math.sqrt(2) / gaussian.mu_for(epsilon, 1e-6)
    rule = SURVIVAL_TABLE.resolve(
        SURVIVAL_TABLE.config(),
        SurvivalTimes(("all",)),
        Facts((n,), 3, 1),
        Privacy(epsilon, 1e-6),
        Trust.LOCAL,
    )
    ends = np.arange(1, rule.bins + 1) * HORIZON / rule.bins
    truth = np.exp(-((ends / SCALE) ** SHAPE))
    median = SCALE * math.log(2) ** (1 / SHAPE)
    area = quad(lambda t: math.exp(-((t / SCALE) ** SHAPE)), 0, HORIZON)[0]
    pointwise, band, medians, areas = [], [], [], []
    for _ in range(repetitions):
        time, event, group = patients(n, generator)
        cells = counted(time, event, 0 * group, rule.bins, 1)
        cells = cells + noise * generator.standard_normal(cells.shape)
        own = estimate(cells, Numbers(noise, n), ["all"], HORIZON).curves[0]
        pointwise.append((own.low[1:] <= truth) & (truth <= own.high[1:]))
        band.append(np.all((own.band_low[1:] <= truth) & (truth <= own.band_high[1:])))
        low, high = own.median.low, own.median.high
        medians.append((low is None or low <= median) and (high is None or median <= high))
        if own.restricted_mean.value is not None:
            areas.append(own.restricted_mean.low <= area <= own.restricted_mean.high)
    return tuple(float(np.mean(one)) for one in (pointwise, band, medians, areas))


def test_intervals_cover_quickly():
    """150 repetitions: a method that covers 94 % fails a bound of .875 in less than 1 of 500."""
    assert min(coverage(1000, 1.0, 150, seed=11)) > 0.875


@pytest.mark.slow
@pytest.mark.parametrize(("n", "epsilon"), [(1000, 0.5), (1000, 1.0), (5000, 0.5), (5000, 1.0)])
def test_intervals_cover(n, epsilon):
    """2000 repetitions: a band that covers 94 % fails a bound of .925 in 1 of 300; over all times
    pointwise intervals that cover 94.5 % fail .93 less often."""
    pointwise, band, median, area = coverage(n, epsilon, 2000, seed=12)
    assert pointwise > 0.93
    assert min(band, median, area) > 0.925


# ------------------------------------------------------------- the log-rank test


def course(generator, groups=2, n=500, bins=8, centred=True):
    time, event, _ = patients(n, generator)
    group = generator.integers(0, groups, n)
    known = log_rank.known_of(counted(time, event, group, bins, groups), 1e-3, n)
    return log_rank.course_of(known, 1.0, centred=centred), (time / HORIZON, event, group)


@pytest.mark.parametrize("groups", [2, 3, 5])
@pytest.mark.parametrize("centred", [True, False])
def test_scores_lie_in_the_ball(groups, centred):
    """Any record at all, not only those that the course was made of."""
    generator = np.random.default_rng(groups)
    made, _ = course(generator, groups, centred=centred)
    time = np.concatenate([generator.random(4000), [0.0, 1.0, BEYOND, made.stop]])
    event = generator.integers(0, 2, len(time))
    found = log_rank.scores(np, made, time, event, generator.integers(0, groups, len(time)))
    assert found.shape == (len(time), groups - 1)
    assert np.linalg.norm(found - made.centre, axis=1).max() <= made.radius * (1 + 1e-3)


def test_scores_are_martingales():
    """Under the course's own hazard they have mean zero in every group: simulated, z below 4."""
    generator = np.random.default_rng(7)
    made, _ = course(generator)
    points = np.arange(len(made.hazard)) / (len(made.hazard) - 1)
    n = 40_000
    drawn = generator.exponential(size=n)
    beyond = drawn >= made.hazard[-1]
    time = np.where(beyond, BEYOND, np.interp(drawn, made.hazard, points))
    censored = generator.exponential(0.8, n)
    event = (time <= censored) & ~beyond
    for group in (0, 1):
        found = log_rank.scores(np, made, np.minimum(time, censored), event, np.full(n, group))[
            :, 0
        ]
        assert abs(found.mean()) / found.std() * math.sqrt(n) < 4


def test_the_sum_of_scores_is_the_numerator_of_the_test():
    """Beside observed minus expected of the textbook, with exact risk sets up to the stop."""
    generator = np.random.default_rng(8)
    time, event, group = patients(3000, generator, ratio=1.3)
    known = log_rank.known_of(counted(time, event, group, 20, 2), 1e-3, 3000)
    made = log_rank.course_of(known, 1.0, centred=True)
    ours = log_rank.scores(np, made, time / HORIZON, event, group).sum() * math.sqrt(2)
    order = np.argsort(time)
    t, e, g = time[order], event[order], group[order]
    at_risk = np.arange(len(t), 0, -1)
    share = np.cumsum(g[::-1])[::-1] / at_risk
    inside = t <= made.stop * HORIZON
    textbook = np.sum((e * (g - share))[inside]) * 2
    variance = 4 * np.sum((e * share * (1 - share))[inside])
    assert ours == pytest.approx(textbook, abs=0.25 * math.sqrt(variance))
    assert textbook > 3 * math.sqrt(variance)


def level(n, epsilon, repetitions, seed, ratio=1.0, unequal=False):
    """How often a 5 % test rejects."""
    generator = np.random.default_rng(seed)
    share = log_rank.TABLE_SHARE
    whole = gaussian.mu_for(epsilon, 1e-6) / math.hypot(share, 1 - share)
    noise, of_score, bins = math.sqrt(2) / (share * whole), 2 / ((1 - share) * whole), 6
    rejected = 0
    for _ in range(repetitions):
        time, event, group = patients(n, generator, ratio, unequal)
        cells = counted(time, event, group, bins, 2)
        cells = cells + noise * generator.standard_normal(cells.shape)
        known = log_rank.known_of(cells, noise, n)
        made = log_rank.course_of(known, 1.0, centred=True)
        own = log_rank.scores(np, made, time / HORIZON, event, group) - made.centre
        total = own.sum(axis=0) + made.radius * of_score * generator.standard_normal(1)
        total = total + n * made.centre
        table = SurvivalTable(cells, None, noise, 1, n)
        information, product = log_rank.variances(known, table, noise, Facts((n,), 3, 1), made.stop)
        variance = information + product + (made.radius * of_score) ** 2
        rejected += chi2.sf(float(total @ np.linalg.solve(variance, total)), 1) < 0.05
    return rejected / repetitions


def test_the_level_holds_quickly():
    """100 repetitions: a test of level 6 % rejects more than 14 in 1 of 1000. And it has power."""
    assert level(1000, 1.0, 100, seed=13) <= 0.14
    assert level(1000, 1.0, 40, seed=14, ratio=2.0) > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("unequal", [False, True])
@pytest.mark.parametrize(("n", "epsilon"), [(1000, 0.5), (1000, 1.0), (5000, 1.0)])
def test_the_level_holds(n, epsilon, unequal):
    """2000 repetitions: a test of level 5.5 % rejects more than 7 % in 1 of 500."""
    assert 0.03 < level(n, epsilon, 2000, seed=15, unequal=unequal) <= 0.07


# ------------------------------------------------------------- in one call


def curves(n=600, seed=9, ratio=2.0, **given):
    time, event, group = patients(n, np.random.default_rng(seed), ratio)
    return {
        "durations": time,
        "event_observed": event,
        "groups": np.array(TWO)[group],
        "epsilon": 2.0,
        "delta": 1e-6,
        **given,
    }


def test_curves_of_two_groups_in_one_call():
    book = ledger()
    model = unisono.KaplanMeier(horizon=HORIZON, labels=TWO)
    assert model.fit(**curves(), ledger=book) is model
    assert book.grants == 2
    assert book.spent(ITERATES, 1e-6) <= 2.0 * (1 + 1e-6)
    assert 1.8 < model.epsilon_ <= 2.0 * (1 + 1e-6)
    assert list(model.survival_function_) == list(TWO)
    assert model.timeline_[-1] == HORIZON
    low, high = model.confidence_interval_["drug"].T
    assert ((low <= high) & (high <= 1)).all()
    assert model.median_survival_time_["drug"] < model.median_survival_time_["placebo"]
    assert model.log_rank_["p_value"] < 0.05
    assert model.log_rank_["observed_minus_expected"]["drug"] > 0
    assert "log-rank test: chi-square" in str(model)
    assert "guarantee: epsilon = " in str(model)
    assert json.loads(json.dumps(model.to_json())) == model.to_json()


def test_one_curve_costs_one_release_and_takes_pure_epsilon():
    given = curves(groups=None, delta=0.0, epsilon=1.0)
    book = ledger()
    model = unisono.KaplanMeier(horizon=HORIZON).fit(**given, ledger=book)
    assert book.grants == 1
    assert model.log_rank_ is None
    assert isinstance(model.median_survival_time_, float)
    low, high = model.to_json()["groups"]["all"]["restricted_mean"]["interval"]
    assert 0 < low < high < HORIZON


@pytest.mark.parametrize("relation", [Relation.REPLACE_ONE, Relation.ZERO_OUT])
def test_parties_add_up_in_a_secure_sum(relation):
    """Three of them, one without any event; the answer is that of all records together."""
    given = curves(900, epsilon=2.5)
    party = np.repeat(["a", "b", "c"], 300)
    given["event_observed"] = np.where(party == "c", 0, given["event_observed"])
    books = {name: ledger(relation, name=name) for name in "abc"}
    model = unisono.KaplanMeier(horizon=HORIZON, labels=TWO)
    model.fit(**given, parties=party, ledger=books)
    assert all(book.grants == 2 for book in books.values())
    events = sum(sum(own["events"]) for own in model.to_json()["groups"].values())
    true = np.sum((given["event_observed"] == 1) & (given["durations"] <= HORIZON))
    assert events == pytest.approx(true, abs=5 * model.to_json()["noise_std"] * 5)


def test_hidden_sizes_need_a_public_number():
    book = ledger(Relation.ADD_OR_REMOVE)
    model = unisono.KaplanMeier(horizon=HORIZON, labels=TWO)
    with pytest.raises(InvalidInput, match="give records"):
        model.fit(**curves(), ledger=book)
    assert book.grants == 0
    model.fit(**curves(), ledger=book, records=1000)
    assert model.log_rank_["p_value"] < 0.05


def test_three_groups_are_compared_by_two_degrees_of_freedom():
    generator = np.random.default_rng(10)
    time, event, _ = patients(900, generator)
    labels = ("I", "II", "III")
    given = curves(durations=time, event_observed=event)
    given["groups"] = np.array(labels)[generator.integers(0, 3, 900)]
    model = unisono.KaplanMeier(horizon=HORIZON, labels=labels).fit(**given, ledger=ledger())
    assert model.log_rank_["degrees"] == 2
    assert model.log_rank_["p_value"] > 1e-3
    assert sum(model.log_rank_["observed_minus_expected"].values()) == pytest.approx(0, abs=1e-3)
    assert len(model.to_json()["restricted_mean_differences"]) == 2


def test_no_event_in_a_group_is_said():
    given = curves(3000, epsilon=2.5)
    given["event_observed"] = np.where(given["groups"] == "drug", 0, given["event_observed"])
    model = unisono.KaplanMeier(horizon=6.0, labels=TWO).fit(**given, ledger=ledger())
    assert model.to_json()["groups"]["drug"]["survival"][-1] > 0.9
    assert "not reached" in str(model)
    assert model.log_rank_["p_value"] < 1e-3


def test_records_that_cannot_be_used_are_left_out_with_a_warning():
    given = curves()
    given["durations"][:3] = -1.0, np.nan, 4.0
    given["groups"][2] = "other"
    with pytest.warns(ClippedValues, match="3 records count nowhere: their time is negative"):
        model = unisono.KaplanMeier(horizon=HORIZON, labels=TWO).fit(**given, ledger=ledger())
    at_risk = sum(own["at_risk"][0] for own in model.to_json()["groups"].values())
    assert at_risk == pytest.approx(597, abs=4 * model.to_json()["noise_std"])


@pytest.mark.parametrize(
    ("made", "given", "message"),
    [
        ({"horizon": -1.0}, {}, "give a public time above zero"),
        ({}, {"groups": None}, "fit got none"),
        ({"labels": None}, {}, "never read from the data"),
        ({"labels": ["one"]}, {}, "name two groups or more"),
        ({"bins": 1}, {}, "bins"),
        ({"confidence": 1.0}, {}, "confidence"),
        ({}, {"event_observed": [1, 0]}, "differ in length"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_spent(made, given, message):
    book = ledger()
    with pytest.raises(InvalidInput, match=message):
        unisono.KaplanMeier(**{"horizon": HORIZON, "labels": TWO} | made).fit(
            **curves(60) | given, ledger=book
        )
    assert book.grants == 0


def test_both_stages_are_refused_before_the_first():
    book = ledger(epsilon=1.5)
    with pytest.raises(BudgetExceeded):
        unisono.KaplanMeier(horizon=HORIZON, labels=TWO).fit(**curves(), ledger=book)
    assert book.grants == 0


# ------------------------------------------------------------- what it hides


@pytest.mark.parametrize("factor", [1.0, 0.5])
def test_audit_of_both_stages(factor):
    """A record that dies at once in one group, or outlasts all in the other: honest noise passes,
    halved noise is caught; 95 % confidence, one fixed seed."""
    delta, generator = 1e-5, np.random.default_rng(7)
    facts, problem = Facts((40,), 3, 1), SurvivalTimes(TWO)
    time, event, group = patients(40, np.random.default_rng(1))
    first = Study(SURVIVAL_TABLE.method(problem, Privacy(1.0, delta), bins=5), facts, Trust.LOCAL)
    second = Study(log_rank.LOG_RANK.method(problem, Privacy(1.0, delta)), facts, Trust.LOCAL)
    table = counted(time, event, group, 5, 2)
    begun = second.begun(np.concatenate([table.ravel(), [1.0, 1.0, 40.0]]))
    for study in (first, begun):
        algorithm = study.algorithm
        public = algorithm.ask(algorithm.init(facts)[0])
        sums, worlds = CleanSums(algorithm, facts, public), []
        for own in ((0.0, 1, 0), (0.0, 1, 1), (1.0, 0, 0), (1.0, 0, 1), (0.5, 1, 0), (0.5, 1, 1)):
            rows = rows_of(time, event, group)
            rows[0] = own
            worlds.append(sums(rows))
        scale = factor * algorithm.event(facts, Trust.LOCAL).noise.std
        gap = max((one - other for one in worlds for other in worlds), key=np.linalg.norm)
        bound = sums.sensitivity.under(Relation.REPLACE_ONE).in_norm("l2")
        assert 0.95 * bound < np.linalg.norm(gap) <= bound
        centres = (gap @ gap, 0.0)
        length = np.linalg.norm(gap)
        scores = [centre + scale * length * generator.normal(size=10_000) for centre in centres]
        found = audit(*scores, delta=delta, gaussian=True)
        best = max(found.epsilon_direct, found.epsilon_model_based or 0.0)
        if factor == 1:
            check(1.0, delta, found)
            assert best > 0.5
        else:
            assert best > 1.0


def test_the_model_says_what_it_learns():
    assert KAPLAN_MEIER.solved_by(SURVIVAL_TABLE)
    assert KAPLAN_MEIER.solved_by(log_rank.LOG_RANK)
    assert nearest_counts(np.array([[5.0, -2.0]]), 4.0).tolist() == [[4.0, 0.0]]
