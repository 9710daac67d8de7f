"""Generalised linear models from study files: families, columns that are no features, words."""

import warnings

import numpy as np
import pytest

from unisono.algorithms.column_scales import far_part, quantile_scale
from unisono.algorithms.fisher_scoring import FISHER_SCORING, Fitted
from unisono.core.privacy import Privacy
from unisono.data.schema import Schema
from unisono.errors import InvalidInput
from unisono.estimators.glm import PrivateGLM
from unisono.estimators.statements import NotConverged
from unisono.models.glm import GLM, in_units
from unisono.models.inference import Inference, as_text, determined, p_text
from unisono.studies.file import parse_study

COLUMNS = {
    "age": {"kind": "number", "bounds": (20.0, 100.0)},
    "smokes": {"kind": "category", "values": ("never", "former", "current")},
    "days": {"kind": "number", "bounds": (0.0, 365.0)},
    "ill": {"kind": "category", "values": ("no", "yes")},
    "visits": {"kind": "number", "bounds": (0.0, 30.0), "integer": True},
    "drop": {"kind": "number", "bounds": (-5.0, 5.0)},
}


def schema(target):
    return Schema.model_validate({"columns": COLUMNS, "target": target})


def posed(target, **settings):
    config = GLM.configured(**settings)
    return GLM.pose(config, schema(target), FISHER_SCORING, Privacy(1.0, 1e-6))


def values(records=4):
    generator = np.random.default_rng(1)
    return {
        "age": np.array([20.0, 100.0, 60.0, 30.0]),
        "smokes": np.array([0.0, 1.0, 2.0, 0.0]),
        "days": np.array([365.0, 0.0, 73.0, 10.0]),
        "ill": np.array([0.0, 1.0, 1.0, 0.0]),
        "visits": np.array([0.0, 3.0, 30.0, 2.0]),
        "drop": generator.uniform(-5, 5, records),
    }


def test_numbers_are_scaled_by_their_bounds_and_categories_have_a_reference():
    made = posed("ill")
    assert made.problem.family == "binomial"
    [rows] = made.encode(values())
    assert made.features == rows.shape[1] == 7
    assert rows[:, 0].tolist() == [-1.0, 1.0, 0.0, -0.75]
    assert rows[:, 1:3].tolist() == [[0, 0], [1, 0], [0, 1], [0, 0]]
    assert rows[:, -1].tolist() == [0.0, 1.0, 1.0, 0.0]


def test_exposure_is_a_logarithm_and_whoever_has_none_says_nothing():
    made = posed("visits", family="poisson", exposure="days")
    [rows] = made.encode(values())
    assert rows[:, -1] == pytest.approx([np.log(365), np.nan, np.log(73), np.log(10)], nan_ok=True)
    assert np.isnan(rows[1]).all()
    assert rows[0, -2] == 0.0
    assert rows[2, -2] == 30.0
    assert "days" not in [own.name for own in made.problem.columns]


def test_weights_are_shares_of_the_largest():
    [rows] = posed("ill", weights="days").encode(values())
    assert rows[:, -1] == pytest.approx([1.0, 0.0, 0.2, 10 / 365])


@pytest.mark.parametrize(
    ("target", "settings", "words"),
    [
        ("visits", {"family": "binomial"}, "declare it as a category"),
        ("ill", {"family": "gaussian"}, "use family = binomial"),
        ("smokes", {}, "binomial takes two"),
        ("drop", {"family": "poisson"}, "begin at zero"),
        ("visits", {"family": "poisson", "exposure": "weeks"}, "no column"),
        ("visits", {"family": "poisson", "exposure": "drop"}, "cannot be negative"),
        ("visits", {"family": "poisson", "exposure": "days"}, "who was not exposed has no rate"),
        ("ill", {"exposure": "days"}, "exposure is for poisson"),
        ("ill", {"weights": "smokes"}, "must be a number"),
    ],
)
def test_what_does_not_fit_is_said_in_words(target, settings, words):
    found = list(GLM.faults(GLM.configured(**settings), schema(target)))
    assert words in " ".join(text for _, text in found)
    assert {place[0] for place, _ in found} == {"model"}


@pytest.mark.parametrize(
    ("settings", "line", "words"),
    [
        ('family = "poisson"\nexposure = "dayz"', 5, "'dayz' is no column"),
        ('exposure = "days"', 4, "exposure is for poisson"),
        ('weights = "drop"', 4, "weights cannot be negative"),
        ('family = "poisson"\nexposure = "days"', 5, "bounds from zero"),
    ],
)
def test_errors_of_a_study_name_the_line_of_the_option(settings, line, words):
    text = f"""title = "Visits"
[model]
name = "glm"
{settings}
[data]
target = "visits"
[data.columns]
age = {{ kind = "number", bounds = [20, 100] }}
days = {{ kind = "number", bounds = [0, 365] }}
drop = {{ kind = "number", bounds = [-5, 5] }}
visits = {{ kind = "number", bounds = [0, 30] }}
[privacy]
epsilon = 1
delta = 1e-6
[trust]
mode = "local"
[[parties]]
name = "north"
records = 500
[[parties]]
name = "south"
records = 500
"""
    with pytest.raises(InvalidInput) as refused:
        parse_study(text)
    assert any(f"line {line}" in one and words in one for one in str(refused.value).splitlines())


def test_coefficients_come_in_the_users_units():
    """A straight line through known points stays what it is."""
    found = Fitted(
        np.array([2.0, 0.6]),
        np.eye(2),
        np.eye(2),
        np.ones(2),
        centre=np.array([0.25]),
        scale=np.array([0.5]),
        rounds=1,
    )
    matrix = in_units(found, middle=np.array([60.0]), half=np.array([40.0]))
    intercept, slope = matrix @ found.theta
    for age in (20.0, 55.0, 100.0):
        standard = ((age - 60) / 40 - 0.25) / 0.5
        assert intercept + slope * age == pytest.approx(2.0 + 0.6 * standard)


# ------------------------------------------------------------- the table


def inference(std=(0.5, 0.1, 3.0), known=(True, True, False)):
    covariance = np.diag(np.square(std))
    return Inference(
        ("intercept", "age", "rare"),
        np.array([-1.0, 0.25, 0.9]),
        covariance,
        covariance / 4,
        np.array(known),
        "odds ratio",
    )


def test_what_drowned_has_no_numbers():
    found = inference()
    assert found.to_json()["rare"] == {"determined": False}
    own = found.to_json()["age"]
    assert own["interval"] == pytest.approx([0.25 - 0.195996, 0.25 + 0.195996], abs=1e-5)
    assert own["ratio"] == pytest.approx(np.exp(0.25))
    assert own["privacy_share"] == pytest.approx(0.5)
    assert "ratio" not in found.to_json()["intercept"]
    text = as_text(found.to_json(), "odds ratio")
    assert "rare       not determined: noise hides what data say" in text
    assert max(map(len, text.splitlines())) <= 100


def test_wald_tests_several_at_once_and_refuses_what_drowned():
    found = inference()
    assert found.wald(["age"]).statistic == pytest.approx(2.5**2)
    assert found.wald(["age"]).p_value == pytest.approx(float(found.p_value[1]))
    assert found.wald(["intercept", "age"]).degrees == 2
    with pytest.raises(InvalidInput, match="rare: not determined"):
        found.wald(["age", "rare"])
    with pytest.raises(InvalidInput, match="did you mean"):
        found.wald(["agee"])


def test_directions_that_noise_drowned_take_all_their_coefficients_along():
    """A contrast of two columns is unknown: then neither of them is known, their sum is."""
    contrast = np.array([1.0, -1.0]) / np.sqrt(2)
    covariance = 0.01 * np.eye(2) + 20.0 * np.outer(contrast, contrast)
    prior = np.array([5.0, 5.0])
    assert determined(covariance, prior, np.eye(2)).tolist() == [False, False]
    assert determined(covariance, prior, np.array([[1.0, 1.0]])).tolist() == [True]
    assert determined(0.01 * np.eye(2), prior, np.eye(2)).tolist() == [True, True]


def test_directions_whose_curvature_may_be_noise_are_not_determined_however_small_errors_are():
    contrast = np.array([1.0, -1.0]) / np.sqrt(2)
    prior, small = np.array([5.0, 5.0]), 0.01 * np.eye(2)
    weak = 25.0 * np.outer(contrast, contrast)
    assert determined(small, prior, np.eye(2), weak).tolist() == [False, False]
    assert determined(small, prior, np.array([[1.0, 1.0]]), weak).tolist() == [True]
    assert determined(small, prior, np.eye(2), 0.0 * weak).tolist() == [True, True]


def test_p_values_are_printed_as_journals_do():
    assert (p_text(0.0499), p_text(0.00002)) == (".050", "<.001")


def test_a_heavy_tail_is_named_with_its_remedy_and_a_normal_number_is_not():
    """By released counts: a lognormal column beside a normal one whose bounds are far out."""
    generator = np.random.default_rng(0)
    heavy = np.exp(1.3 * generator.normal(size=8000)).clip(0, 40)
    normal = generator.normal(size=8000)
    y = (generator.random(8000) < 1 / (1 + np.exp(-0.5 * np.log(heavy)))).astype(int)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = PrivateGLM(
            "binomial",
            epsilon=3.0,
            delta=1e-6,
            classes=[0, 1],
            bounds=([0, -60], [40, 60]),
            random_state=0,
        ).fit(np.column_stack([heavy, normal]), y)
    first, *others = model.summary().notes
    assert first.startswith("Estimand: log odds ratios")
    assert [one for one in others if one.startswith("Heavy tail: x0. ") and "log1p" in one]


def doubts(family, X, y, **more):
    """What a fit doubts, by the warning that it gives."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        PrivateGLM(family, 1.0, 1e-6, random_state=0, **more).fit(X, y)
    return " ".join(str(one.message) for one in heard if one.category is NotConverged)


def test_a_small_group_and_a_missing_square_are_named_and_a_plain_line_is_not():
    draw = np.random.default_rng(5)
    rare, usual = draw.random(8000) < 0.008, draw.normal(size=8000).clip(-4, 4)
    skewed = draw.gamma(1.5, 1.0, 8000).clip(0, 12)
    y = 1 + usual + draw.normal(size=8000)
    line = {"bounds": ([0, -4], [1, 4]), "target_bounds": (-20, 40)}
    small = doubts("gaussian", np.column_stack([rare, usual]), y + 9 * rare, **line)
    assert "Fewer than 2 % of the records differ in x0." in small
    square = {"bounds": ([0, -4], [12, 4]), "target_bounds": (-20, 60)}
    bent = doubts("gaussian", np.column_stack([skewed, usual]), y + skewed**2, **square)
    assert "add the square" in bent
    assert not doubts("gaussian", np.column_stack([skewed > 1, usual]), y, **line)


def test_a_last_step_that_is_far_too_long_is_named():
    draw = np.random.default_rng(6)
    X = draw.normal(size=(8000, 2)).clip(-4, 4)
    steep = (draw.random(8000) < 1 / (1 + np.exp(-X @ [6.0, -5.0]))).astype(int)
    flat = (draw.random(8000) < 1 / (1 + np.exp(-X @ [0.5, -0.4]))).astype(int)
    known = {"bounds": ([-4, -4], [4, 4]), "classes": [0, 1]}
    assert "fall short" in doubts("binomial", X, steep, **known)
    assert not doubts("binomial", X, flat, **known)


@pytest.mark.parametrize(
    ("draw", "least", "most"),
    [
        (lambda g: g.normal(0, 0.05, 20_000), 0.0, 0.001),
        (lambda g: g.exponential(0.1, 20_000) - 1, 0.01, 0.024),
        (lambda g: 0.05 * np.exp(1.5 * g.normal(size=20_000)) - 1, 0.05, 0.09),
    ],
)
def test_the_share_far_out_is_that_of_the_law(draw, least, most):
    generator = np.random.default_rng(1)
    counts = np.histogram(draw(generator).clip(-1, 1), 32, (-1, 1))[0]
    noisy = counts + generator.normal(0, 5, 32)
    middle, spread = quantile_scale(noisy, -1.0, 1.0)
    own = far_part(noisy, np.array([middle]), np.array([spread]), 5.0)
    assert least <= own <= most
