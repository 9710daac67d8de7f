"""PrivateGLM: coefficients, intervals and tests in the user's units, ledgers, and bad input.

One small fit is compiled once and shared: what is fitted elsewhere in the fast tests has the same
public facts, and so the same program.
"""

import math
import pickle
import warnings

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="scikit-learn is not installed")
pytest.importorskip("pandas", reason="pandas is not installed")

import pandas
from scipy.stats import norm
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor
from sklearn.metrics import d2_tweedie_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import unisono
from unisono.algorithms.fisher_scoring import Fitted
from unisono.algorithms.party_cases import Cases
from unisono.core.trust import FINAL_MODEL, Relation
from unisono.data.columns import Feature
from unisono.errors import BudgetExceeded, ClippedValues, InvalidInput
from unisono.estimators import (
    DrownedByNoise,
    FewEvents,
    NotConverged,
    PrivateGLM,
    PrivateLogisticRegression,
)
from unisono.models.glm import Rarer, _doubts, regression
from unisono.models.inference import NOT_DETERMINED, Inference
from unisono.models.summary import RegressionSummary
from unisono.problems.glm import Columns, GeneralizedLinear

# A test's seeds and budgets are its own; that users are told of theirs is tested elsewhere.
pytestmark = pytest.mark.filterwarnings(
    "ignore::unisono.PredictableNoiseWarning", "ignore::unisono.FreshBudgetWarning"
)
RECORDS, EPSILON, DELTA = 1500, 30.0, 1e-6
LOW, HIGH = np.array([20.0, -4.0, 0.0]), np.array([90.0, 4.0, 1.0])
NAMES = ["age", "marker", "smokes"]


@pytest.fixture(autouse=True, scope="module")
def cache(tmp_path_factory):
    """Compiled programs of the tests stay out of the user's own cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
        yield


def columns(seed=0, records=RECORDS):
    generator = np.random.default_rng(seed)
    age = np.clip(generator.normal(55, 12, records), 20, 90)
    marker = np.clip(generator.normal(0, 1, records), -4, 4)
    smokes = generator.integers(0, 2, records).astype(float)
    scores = -0.4 + 0.03 * (age - 55) + 0.5 * marker + 0.6 * smokes
    return np.column_stack([age, marker, smokes]), scores, generator


def binomial(seed=0):
    X, scores, generator = columns(seed)
    return X, (generator.random(RECORDS) < 1 / (1 + np.exp(-scores))).astype(int)


def estimator(**changed):
    usual = {"bounds": (LOW, HIGH), "classes": [0, 1], "random_state": 7}
    return PrivateGLM(epsilon=EPSILON, delta=DELTA, **{**usual, **changed})


@pytest.fixture(scope="module")
def model():
    X, y = binomial()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimator().fit(pandas.DataFrame(X, columns=NAMES), y)


# ------------------------------------------------------------- what is found


def test_it_agrees_with_a_fit_without_noise(model):
    """At so large an epsilon an estimate lies within a fraction of its error of the usual one. The
    seed is fixed; a wrong unit, sign or reference would be many errors away."""
    usual = LogisticRegression(C=1e6, max_iter=5000).fit(*binomial())
    params = np.r_[usual.intercept_, usual.coef_[0]]
    assert model.determined_.all()
    assert np.all(np.abs(model.params_ - params) < 0.75 * model.bse_)
    chances = usual.predict_proba(binomial()[0])[:, 1]
    design = np.column_stack([np.ones(RECORDS), binomial()[0]])
    information = design.T @ (design * (chances * (1 - chances))[:, None])
    errors = np.sqrt(np.diagonal(np.linalg.inv(information)))
    assert np.all(model.bse_ > 0.9 * errors)
    assert np.all(model.bse_ < 1.6 * errors)


def test_tests_and_intervals_follow_from_estimates_and_errors(model):
    assert np.array_equal(np.r_[model.intercept_, model.coef_], model.params_)
    assert np.allclose(model.zvalues_, model.params_ / model.bse_)
    assert np.allclose(model.pvalues_, 2 * norm.sf(np.abs(model.zvalues_)))
    assert np.allclose(np.diagonal(model.cov_params_), model.bse_**2)
    for alpha in (0.05, 0.2):
        reach = norm.isf(alpha / 2) * model.bse_
        ends = np.column_stack([model.params_ - reach, model.params_ + reach])
        # Intervals of indicators are those of means, so they are not symmetric.
        assert np.allclose(model.conf_int(alpha)[:3], ends[:3])
        low, high = model.conf_int(alpha)[3]
        assert low < model.params_[3] < high
        assert [low, high] == pytest.approx(ends[3], abs=0.2 * reach[3])
    one = model.wald_test("marker")
    assert one.statistic == pytest.approx(model.zvalues_[2] ** 2)
    assert one.p_value == pytest.approx(model.pvalues_[2])
    assert model.wald_test(["age", "marker"]).degrees == 2
    assert ((model.privacy_share_ >= 0) & (model.privacy_share_ < 1)).all()


def test_names_are_those_of_a_frame(model):
    assert model.names_ == ("intercept", *NAMES)
    with pytest.raises(InvalidInput, match=r"'smoke' is no coefficient.*did you mean"):
        model.wald_test("smoke")
    X, y = binomial()
    assert estimator().fit(X, y).names_ == ("intercept", "x0", "x1", "x2")
    with pytest.raises(InvalidInput, match="same name"):
        estimator().fit(pandas.DataFrame(X, columns=["age", "intercept", "smokes"]), y)


def test_units_are_the_users(model):
    """In months, a year's effect is twelve times as large; nothing else changes."""
    X, y = binomial()
    months = np.array([12.0, 1.0, 1.0])
    other = estimator(bounds=(LOW * months, HIGH * months)).fit(X * months, y)
    assert np.allclose(other.coef_ * months, model.coef_)
    assert np.allclose(other.bse_[1:] * months, model.bse_[1:])
    assert np.allclose(other.pvalues_, model.pvalues_)


def test_the_second_class_is_modelled(model):
    X, y = binomial()
    named = estimator(classes=["sick", "well"]).fit(X, np.where(y == 1, "well", "sick"))
    assert np.allclose(named.params_, model.params_)
    assert named.classes_.tolist() == ["sick", "well"]
    assert set(named.predict(X)) == {"sick", "well"}
    assert "log-odds of well" in str(named.summary())


def test_prediction(model):
    X, y = binomial()
    frame = pandas.DataFrame(X, columns=NAMES)
    chances = model.predict_proba(frame)
    assert np.allclose(chances[:, 1], 1 / (1 + np.exp(-model.intercept_ - X @ model.coef_)))
    assert np.allclose(np.exp(model.predict_log_proba(frame)), chances)
    assert np.array_equal(model.predict(frame), chances[:, 1] > 0.5)
    assert model.score(frame, y) == np.mean(model.predict(frame) == y)
    far = frame.assign(age=1000.0)
    assert np.allclose(model.predict_proba(far), model.predict_proba(frame.assign(age=90.0)))


def test_the_summary_says_it_all(model):
    text = str(model.summary())
    for word in ("logit", "1,500", "30, 1e-06", "P>|z|", "[0.025", "odds ratio", "SIMULATION"):
        assert word in text
    assert "[0.05" in str(model.summary(alpha=0.1))
    assert text.index("intercept") < text.index("age") < text.index("smokes")
    page = model.summary()._repr_html_()
    assert "<table" in page
    assert "smokes" in page
    shown = model._repr_mimebundle_()["text/html"]
    assert "<td>odds ratio" in shown or "odds ratio</th>" in shown
    assert shown.count("SIMULATION") == 1
    assert 'class="unisono"' not in estimator()._repr_mimebundle_()["text/html"]


def test_what_is_not_determined_has_a_row_without_numbers():
    two = np.diag([0.04, 0.09])
    known = np.array([True, False])
    found = Inference(("intercept", "<dose>"), np.array([1.0, 123.0]), two, two, known, "odds")
    summary = RegressionSummary("title", {"Family": "binomial"}, found, ["one note"])
    row = next(line for line in str(summary).splitlines() if "<dose>" in line)
    assert NOT_DETERMINED in row
    assert "123" not in str(summary)
    assert "&lt;dose&gt;" in summary.as_html()
    assert "123" not in summary.as_html()


def test_it_has_scikit_learns_manners(model):
    assert is_classifier(PrivateGLM())
    assert is_regressor(PrivateGLM("poisson"))
    assert not hasattr(PrivateGLM("gaussian"), "predict_proba")
    assert clone(model).get_params() == model.get_params()
    assert unisono.PrivateGLM is PrivateGLM
    with pytest.raises(NotFittedError):
        PrivateGLM().summary()


def test_what_is_saved_predicts_the_same_with_intervals(model, tmp_path):
    model.save(tmp_path / "model")
    loaded = unisono.load(tmp_path / "model")
    names = list(model.feature_names_in_)
    X = pandas.DataFrame(3 * binomial()[0][:50], columns=names)  # some beyond the bounds
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ClippedValues)
        chances = loaded.predict_proba(X)
        low, high = loaded.predict_interval(X).T
    np.testing.assert_allclose(chances, model.predict_proba(X), rtol=1e-9)
    assert list(loaded.classes_) == list(model.classes_)
    assert ((low < chances[:, 1]) & (chances[:, 1] < high)).all()
    assert "odds ratio" in loaded.summary()


def test_no_record_stays_in_a_fitted_model(model):
    X, _ = binomial()
    kept = pickle.dumps(model)
    assert len(kept) < X.nbytes
    assert X[3, 1].tobytes() not in kept


# ------------------------------------------------------------- what it costs


def test_a_ledger_on_disk_is_charged_what_the_certificate_says(tmp_path):
    X, y = binomial()
    place = tmp_path / "clinic.ledger"
    ledger = unisono.open_ledger(place, "clinic", epsilon=1.5 * EPSILON, delta=DELTA)
    model = estimator(ledger=ledger, random_state=None).fit(X, y)
    assert not model.certificate_.simulated
    epsilon = model.certificate_.epsilon(FINAL_MODEL, Relation.REPLACE_ONE)
    assert 0.9 * EPSILON < epsilon <= EPSILON
    assert model.epsilon_spent_ == pytest.approx(epsilon)
    spent = ledger.spent(FINAL_MODEL, DELTA)
    assert spent == pytest.approx(epsilon)
    with pytest.raises(BudgetExceeded):
        estimator(ledger=ledger, random_state=None).fit(X, y)
    again = ledger.spent(FINAL_MODEL, DELTA)
    assert again == spent  # a fit that cannot be paid as a whole releases no scales either


# ------------------------------------------------------------- what cannot be estimated


def test_few_of_an_outcome_are_judged_by_their_noise():
    told, untold = (Cases(np.array([n]), np.array([9.0]), np.array([5.0])) for n in (30.0, 10.0))
    assert Rarer(1, 0.02, 90.0, 30.0).fewer_than(41.0)  # 1.645 deviations are 49
    assert not Rarer(1, 0.02, 90.0, 30.0).fewer_than(40.0)
    assert Rarer(1, 0.01, 9000.0, 30.0).fewer_than(1.0)  # moved to one per cent
    hidden = Rarer(1, 0.02, 40.0, 30.0)
    assert hidden.told([told, told])
    assert not hidden.told([told, untold])
    assert Rarer(1, 0.02, 90.0, 30.0).told([untold])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::unisono.estimators.DrownedByNoise")
def test_constant_labels_determine_nothing():
    """12 fits with much noise: two tests at 5 % each miss in 10 %, more than 5 times 1 in 1,800."""
    determined = 0
    for seed in range(12):
        X = np.random.default_rng(seed).uniform(-1, 1, (3000, 2))
        model = PrivateGLM(
            epsilon=1.0, delta=1e-6, bounds=(-1, 1), classes=[0, 1], random_state=seed
        )
        with pytest.warns(FewEvents, match="or none at all"):
            model.fit(X, np.zeros(3000, int))
        determined += bool(model.determined_.any())
        if not model.determined_.any():
            assert "cannot be told from none" in str(model.summary())
    assert determined <= 5


@pytest.mark.filterwarnings("ignore::unisono.estimators.DrownedByNoise")
def test_one_label_alone_is_told():
    X, y = binomial()
    with pytest.warns(FewEvents, match=r"are 1, by a noisy count: that may be too few for 4"):
        estimator().fit(X, 0 * y)


def test_separated_classes_are_told():
    X, _ = binomial()
    with pytest.warns(NotConverged, match="too near to zero"):
        model = estimator().fit(X, (X[:, 1] > 0).astype(int))
    assert "too near to zero" in str(model.summary())


@pytest.mark.parametrize(
    ("family", "widest"), [("binomial", 4.0), ("poisson", 1.0), ("gaussian", math.inf)]
)
def test_effects_that_few_rounds_do_not_reach_are_doubted(family, widest):
    """By the spread of scores, of which what noise adds is taken off."""
    problem = GeneralizedLinear(family, (Columns("x", 1, number=True),), (0.0, 1.0))
    one, noise = np.ones(1), np.diag([9.0, 0.25])
    for slope, doubted in ((0.9, False), (1.1, widest < math.inf)):
        effect = slope * min(widest, 10.0)
        theta = np.array([5.0, math.sqrt(effect**2 + 0.25)])
        found = Fitted(theta, noise, noise, np.ones(2), one, one, 3)
        assert bool(_doubts(problem, found, ("x",))) == doubted


def test_a_constant_column_is_not_determined():
    X, y = binomial()
    X[:, 1] = 2.5
    with pytest.warns(DrownedByNoise, match="x1.*a column that is constant or the same as others"):
        model = estimator().fit(X, y)
    assert "a column that is constant" in str(model.summary())
    assert model.determined_.tolist() == [False, True, False, True]
    assert math.isnan(model.coef_[1])
    assert np.isnan(model.bse_[2])
    assert np.isnan(model.conf_int()[2]).all()
    assert np.isfinite(model.coef_[[0, 2]]).all()
    assert NOT_DETERMINED in str(model.summary())
    with pytest.warns(DrownedByNoise, match="x1 are not determined"):
        assert np.isfinite(model.predict_proba(X)).all()
    with pytest.raises(InvalidInput, match="nothing to test"):
        model.wald_test(["x0", "x1"])


# ------------------------------------------------------------- bad input

COUNTS = {"family": "poisson", "target_bounds": (0, 20)}
BOOK = unisono.Ledger.in_memory(
    unisono.Policy("a", unisono.Budget(100.0, DELTA)), unisono.ACCOUNTANT, seed=3
)


@pytest.mark.parametrize(
    ("changed", "given", "words"),
    [
        ({"family": "binomal"}, {}, "did you mean 'binomial'"),
        ({"delta": 0.0}, {}, "no pure epsilon"),
        ({"classes": None}, {}, "classes = None"),
        ({"classes": [0, 1, 2]}, {}, r"Classes has 3 labels, \[0, 1, 2\]: list the two"),
        ({"epsilon": 0.0}, {}, r"epsilon = 0\.0 is not a positive finite number"),
        ({"ledger": {"a": BOOK}}, {}, r"names \['a'\].*parties= is missing"),
        (
            {"ledger": {"a": BOOK}},
            {"parties": ["z"] * RECORDS},
            r"names \['a'\], who hold no records, and lacks \['z'\], who do",
        ),
        ({"classes": "private"}, {}, "known beforehand"),
        ({"classes": [1, 2]}, {}, "not among the public classes"),
        ({"bounds": (LOW, LOW)}, {}, "lowest value must lie below"),
        ({"bounds": None, "epsilon": 0.01}, {}, "too few to find ranges"),
        ({"indicators": ["sex"]}, {}, "'sex', which is no feature"),
        ({"family": "poisson"}, {}, "largest count"),
        (COUNTS, {"y": -np.ones(RECORDS)}, "negative numbers"),
        (COUNTS, {"exposure": np.zeros(RECORDS)}, "exposure_bounds = None"),
        ({**COUNTS, "exposure_bounds": (0, 9)}, {"exposure": np.zeros(RECORDS)}, "no rate"),
        (
            {**COUNTS, "exposure_bounds": (-1, 9)},
            {"exposure": np.ones(RECORDS)},
            "exposure_bounds begin at -1",
        ),
        ({}, {"exposure": np.ones(RECORDS)}, "exposure with binomial"),
        ({}, {"offset": np.ones(RECORDS)}, "offset_bounds = None"),
        ({"offset_bounds": (0, 1)}, {"offset": [1.0]}, "one number for each"),
        ({"offset_bounds": (0, 1)}, {"offset": np.full(RECORDS, np.nan)}, "no finite"),
        ({}, {"sample_weight": np.ones(RECORDS)}, "largest_weight = None"),
        ({"largest_weight": 2.0}, {"sample_weight": -np.ones(RECORDS)}, "negative numbers"),
        ({"largest_weight": 2.0}, {"sample_weight": np.zeros(RECORDS)}, "zeros only"),
    ],
)
def test_refusals_say_why_and_spend_nothing(changed, given, words):
    X, y = binomial()
    ledger = unisono.Ledger.in_memory(
        unisono.Policy("clinic", unisono.Budget(100.0, DELTA)), unisono.ACCOUNTANT, seed=3
    )
    model = estimator(random_state=None, ledger=ledger).set_params(**changed)
    with pytest.raises(InvalidInput, match=words):
        model.fit(X, **{"y": y, **given})
    assert ledger.grants == BOOK.grants == 0


def test_missing_cells_are_refused():
    X, y = binomial()
    X[5, 0] = np.nan
    with pytest.raises(InvalidInput, match=r"contains NaN.*nothing was spent") as error:
        estimator().fit(X, y)
    assert "columns=" not in str(error.value)  # which it does not have
    assert "\n    columns\n" not in PrivateGLM.__doc__
    with pytest.raises(InvalidInput, match=r"columns=\{"):
        PrivateLogisticRegression(classes=[0, 1]).fit(X, y)


def test_text_is_refused_with_what_the_class_can_do():
    X, y = binomial()
    frame = pandas.DataFrame(X, columns=NAMES).assign(sex="F")
    with pytest.raises(InvalidInput, match=r"PrivateGLM takes numbers only.*OneHot") as error:
        estimator().fit(frame, y)
    assert "columns=" not in str(error.value)


# ------------------------------------------------------------- other families; each compiles


@pytest.mark.slow
def test_lines_in_the_targets_units():
    X, scores, generator = columns(1)
    y = 120 + 10 * scores + generator.normal(0, 8, RECORDS)
    model = estimator(family="gaussian", target_bounds=(40, 220)).fit(X, y, np.arange(RECORDS) % 3)
    usual = LinearRegression().fit(X, y)
    params = np.r_[usual.intercept_, usual.coef_]
    assert np.all(np.abs(model.params_ - params) < 2 * model.bse_)
    assert np.all(model.bse_[1:] < 1.0 * np.array([0.06, 0.6, 1.2]))
    assert model.score(X, y) == pytest.approx(usual.score(X, y), abs=0.02)
    assert "identity" in str(model.summary())
    assert "3 parties" in str(model.summary())


@pytest.mark.slow
def test_rates_of_an_exposure():
    X, scores, generator = columns(2)
    years = generator.uniform(0.5, 5, RECORDS)
    y = np.minimum(generator.poisson(years * np.exp(scores / 2)), 40)
    model = estimator(family="poisson", target_bounds=(0, 40), exposure_bounds=(0.5, 5))
    model.fit(X, y, exposure=years)
    usual = PoissonRegressor(alpha=0, max_iter=1000).fit(X, y / years, sample_weight=years)
    assert np.all(np.abs(model.coef_ - usual.coef_) < 2 * model.bse_[1:])
    one = model.predict(X)
    assert np.allclose(model.predict(X, exposure=years), years * one)
    explained = d2_tweedie_score(y, years * usual.predict(X), power=1)
    assert model.score(X, y, exposure=years) == pytest.approx(explained, abs=0.02)
    assert "rate ratio" in str(model.summary())


@pytest.mark.slow
def test_weights_and_offsets_enter():
    """A record of weight zero says nothing; a part of the score that is known is not learnt."""
    X, y = binomial()
    wrong = np.arange(RECORDS) % 3 == 0
    changed = np.where(wrong, 1 - y, y)
    model = estimator(largest_weight=2.0).fit(X, changed, sample_weight=np.where(wrong, 0.0, 2.0))
    usual = LogisticRegression(C=1e6, max_iter=5000).fit(X[~wrong], y[~wrong])
    assert np.all(np.abs(model.coef_ - usual.coef_[0]) < 1.5 * model.bse_[1:])
    known = 0.5 * X[:, 1]
    model = estimator(offset_bounds=(-2, 2)).fit(X, y, offset=known)
    assert abs(model.coef_[1]) < 3 * model.bse_[2]
    assert np.allclose(model.predict_proba(X, known)[:, 1] > 0.5, model.predict(X, known) == 1)


@pytest.mark.slow
def test_private_bounds_are_paid_for():
    X, y = binomial()
    model = estimator(bounds="private").fit(X, y)
    assert 0 < model.bounds_epsilon_ < EPSILON
    epsilon = model.certificate_.epsilon(FINAL_MODEL, Relation.REPLACE_ONE)
    assert epsilon <= EPSILON
    assert model.epsilon_spent_ == pytest.approx(epsilon)  # ranges, scales and rounds
    usual = LogisticRegression(C=1e6, max_iter=5000).fit(X, y)
    assert np.all(np.abs(model.coef_ - usual.coef_[0]) < 1.5 * model.bse_[1:])


@pytest.mark.slow
@pytest.mark.parametrize("private", ["bounds", "target_bounds"])
def test_released_ranges_bias_no_line(private):
    """Ranges that clipped two per cent moved slopes by about two errors. Eight fits: their mean is
    further than 4 of its errors from the truth once in 16,000 times."""
    away = []
    for seed in range(8):
        generator = np.random.default_rng(seed)
        x = generator.normal(60, 10, 20_000)
        y = x + generator.normal(0, 8, 20_000)
        public = {"bounds": ([0.0], [120.0]), "target_bounds": (-20.0, 140.0)}
        model = PrivateGLM(
            "gaussian", 1.0, 1e-6, random_state=seed, **{**public, private: "private"}
        ).fit(x[:, None], y)
        away.append((model.coef_[0] - 1) / model.bse_[1])
    assert abs(np.mean(away)) < 4 / math.sqrt(8)
    assert (model.bounds_ is None) == (private != "bounds")
    assert (model.target_bounds_ is None) == (private != "target_bounds")
    assert f"({private}_)" in model.statements_[0]
    assert "moved outward" in str(model.summary())


def test_records_beyond_a_released_range_teach_nothing():
    one = Feature("a", 0.0, 10.0, 5.0), Feature("b", 0.0, 10.0)
    columns = tuple(Columns(own.name, 1, number=True) for own in one)
    rows = np.array([[5.0, 5.0], [10.0, 20.0], [11.0, 5.0]])
    selects = regression("binomial", columns, one, None, selects=True)
    clips = regression("binomial", columns, one, None)
    said = selects.rows(rows, np.zeros(3))
    assert np.isnan(said[2]).all()
    assert np.array_equal(said[:2], clips.rows(rows, np.zeros(3))[:2])
    assert clips.rows(rows, np.zeros(3))[2].tolist() == [1.0, 0.0, 0.0]


# One round: the checks are about manners, not about accuracy.
_CHECKED = {"epsilon": 1.0, "bounds": (-20, 20), "rounds": 1, "largest_weight": 10.0}
_NOISY = {
    "check_sample_weight_equivalence_on_dense_data": "noise depends on how many records there are",
    "check_sample_weight_equivalence_on_sparse_data": "noise depends on how many records there are",
}


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore::unisono.estimators.DrownedByNoise",
    "ignore::unisono.estimators.FewEvents",
    "ignore::unisono.estimators.NotConverged",
    "ignore::unisono.ClippedValues",
    "ignore::unisono.PrivacyWarning",
)
@parametrize_with_checks(
    [PrivateGLM(**_CHECKED), PrivateGLM("gaussian", target_bounds=(-500, 500), **_CHECKED)],
    expected_failed_checks=lambda _: _NOISY,
)
def test_scikit_learn_checks(estimator, check, labels_are_public):
    check(estimator)


# ------------------------------------------------------------- parties that differ, and persons


def at_sites(nobody=False):
    """Three parties with baselines and ages of their own; in the third there are no cases."""
    X, scores, generator = columns(seed=5)
    site = np.array(["north", "south", "west"])[np.digitize(generator.random(RECORDS), [0.5, 0.8])]
    shift = np.select([site == "south", site == "west"], [1.5, -40.0 if nobody else -0.5])
    y = generator.random(RECORDS) < 1 / (1 + np.exp(-scores - shift))
    return X, y.astype(int), site


@pytest.fixture(scope="module")
def by_site():
    X, y, site = at_sites()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimator(site_effects=True).fit(X, y, parties=site), X, site


def test_every_party_has_an_intercept_of_its_own(by_site):
    """Within five standard errors: a chance of less than 1e-5 for six of them."""
    model, X, site = by_site
    assert model.names_[-2:] == ("site=south", "site=west")
    assert list(model.site_effects_) == ["north", "south", "west"]
    assert len(model.coef_) == X.shape[1]
    truth = np.array([0.03, 0.5, 0.6, 1.5, -0.5])
    assert (np.abs(model.params_[1:] - truth) < 5 * model.bse_[1:]).all()
    assert model.bse_[1:].max() < 0.5
    assert "site=south" in str(model.summary())
    effects = model.decision_function(X[:1].repeat(2, axis=0), parties=["north", "south"])
    assert effects[1] - effects[0] == pytest.approx(model.site_effects_["south"])
    usual = model.decision_function(X)
    shares = np.array([np.mean(site == name) for name in ("south", "west")])
    mean = model.inference_.estimate[-2:] @ shares
    assert usual - model.decision_function(X, parties=["north"] * len(X)) == pytest.approx(mean)
    with pytest.raises(InvalidInput, match="'east' has no effect of its own"):
        model.predict(X[:1], parties=["east"])


def test_nested_models_are_compared(by_site):
    model, *_ = by_site
    together = model.lr_test("site")
    assert together.degrees == 2
    assert together.p_value < 1e-4
    assert model.wald_test("site").degrees == 2
    assert model.lr_test("marker" if "marker" in model.names_ else "x1").p_value < 1e-4


@pytest.mark.slow
def test_a_party_without_cases_is_not_determined_and_the_others_are():
    X, y, site = at_sites(nobody=True)
    with pytest.warns(DrownedByNoise, match="site=west"):
        found = estimator(site_effects=True).fit(X, y, parties=site)
    assert np.isnan(found.site_effects_["west"])
    assert found.determined_[:5].all()
    assert "The noise hides whether" in str(found.summary())


def test_one_party_has_no_site_effects():
    X, y = binomial()
    with pytest.raises(InvalidInput, match="no other to be compared with"):
        estimator(site_effects=True).fit(X, y)


def test_errors_are_a_sandwich_or_the_models():
    X, y = binomial()
    with pytest.raises(InvalidInput, match="did you mean"):
        estimator(covariance="modell").fit(X, y)
    with pytest.raises(InvalidInput, match="for independent"):
        estimator(covariance="model").fit(X, y, persons=np.arange(RECORDS))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        robust, usual = (estimator(covariance=name).fit(X, y) for name in ("sandwich", "model"))
    assert usual.params_ == pytest.approx(robust.params_, abs=0.02)
    assert usual.bse_ == pytest.approx(robust.bse_, rel=0.3)
    assert not np.array_equal(usual.bse_, robust.bse_)
    assert "model, noise counted in" in str(usual.summary())


@pytest.mark.slow
def test_records_of_a_person_that_say_the_same_are_no_more_than_one():
    """Every record three times: errors by person are those of single records, where errors by
    record would be 1.7 times too small."""
    X, y = binomial()
    people = np.repeat(np.arange(RECORDS), 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one = estimator().fit(X, y)
        three = estimator(records_per_person=3).fit(X[people], y[people], persons=people)
    assert three.bse_ == pytest.approx(one.bse_, rel=0.15)
    assert three.params_ == pytest.approx(one.params_, abs=3 * one.bse_.max())
    text = str(three.summary())
    assert "Persons: 1,500" in text
    assert "sandwich by person" in text
