"""An intercept of its own for every party, from the study file to what its machine encodes."""

import numpy as np
import pytest

from unisono.algorithms.column_scales import cell_counts, scales_of
from unisono.algorithms.fisher_scoring import Fitted
from unisono.algorithms.noisy_scores import Scored
from unisono.algorithms.party_cases import site_places, without_cases
from unisono.data import RecordTable
from unisono.data.columns import Feature
from unisono.errors import InvalidInput
from unisono.models.glm import regression
from unisono.problems.glm import Columns, GeneralizedLinear
from unisono.studies.build import build
from unisono.studies.file import parse_study

TEXT = """\
title = "Hospitals that differ"
data.target = "ill"
data.columns.age = { kind = "number", bounds = [20, 100] }
data.columns.ill = { kind = "category", values = ["no", "yes"] }
parties = [{ name = "north", records = 30 }, { name = "south", records = 50 },
           { name = "west", records = 20 }]
privacy = { epsilon = 1.0, delta = 1e-6 }
trust = { mode = "secure-sum" }
model = { name = "glm", site_effects = true }
"""


def table(records):
    generator = np.random.default_rng(records)
    cells = {
        "age": generator.integers(20, 100, records).astype(str).tolist(),
        "ill": generator.choice(["no", "yes"], records).tolist(),
    }
    return RecordTable("records", cells, records)


@pytest.fixture(scope="module")
def built():
    return build(parse_study(TEXT))


def test_every_party_adds_who_it_is_and_no_file_says_it(built):
    assert built.column_names == ("age", "ill")
    for party, size, site in (("north", 30, (1, 0)), ("south", 50, (0, 0)), ("west", 20, (0, 1))):
        [rows] = built.columns(table(size), party)
        assert rows.shape == (size, 4)
        assert (rows[:, 1:3] == site).all()


def test_the_largest_party_is_the_reference_and_its_effects_have_rows(built):
    site = built.posed.problem.columns[-1]
    assert site == Columns("site", 2, number=False, shares=(0.3, 0.2))
    kind, settings = built.file.model_kind, built.file.model_settings
    assert "and the party" in kind.learns(settings, built.file.data)


def test_public_shares_are_not_counted_and_not_paid_for(built):
    problem = built.posed.problem
    without = build(parse_study(TEXT.replace(", site_effects = true", "")))
    assert cell_counts(problem) == cell_counts(without.posed.problem)
    start, other = built.start.study, without.start.study
    assert start.algorithm.dimension == other.algorithm.dimension
    assert scales_of(problem, None).centre[-2:] == pytest.approx([0.3, 0.2])


def test_files_without_it_mean_what_they_meant():
    plain = TEXT.replace(", site_effects = true", "")
    assert (
        parse_study(plain).hash
        == parse_study(TEXT.replace("site_effects = true", "site_effects = false")).hash
    )
    assert parse_study(plain).hash != parse_study(TEXT).hash


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("columns.age", "columns.site", "give the column another one"),
        ('name = "glm",', 'name = "glm", covariance = "robust",', "covariance"),
    ],
)
def test_what_does_not_fit_is_refused(old, new, words):
    with pytest.raises(InvalidInput, match=words):
        parse_study(TEXT.replace(old, new))


def test_one_party_has_no_site_effects():
    text = TEXT.replace(TEXT[TEXT.index("parties") : TEXT.index("privacy")], "").replace(
        "secure-sum", "local"
    )
    with pytest.raises(InvalidInput, match="no other to be compared with"):
        parse_study(text + 'parties = [{ name = "north", records = 30 }]\n')


# ------------------------------------------------------------- parties without cases

PROBLEM = GeneralizedLinear(
    "binomial",
    (Columns("x", 1, number=True), Columns("site", 2, number=False, shares=(0.3, 0.2))),
    (0.0, 1.0),
)
CENTRE, SCALE = np.array([0.0, 0.3, 0.2]), np.array([1.0, 0.46, 0.4])


def released(chances, noise=0.0):
    """Sums of a round at an intercept of -1, where parties have these shares of cases."""
    generator = np.random.default_rng(1)
    site = np.repeat([0, 1, 2], [500, 300, 200])
    raw = np.column_stack([generator.normal(size=1000), site == 1, site == 2])
    rows = np.column_stack([np.ones(1000), (raw - CENTRE) / SCALE])
    y = generator.random(1000) < np.array(chances)[site]
    mean = 1 / (1 + np.e)
    gradient, curvature = rows.T @ (y - mean), mean * (1 - mean) * rows.T @ rows
    return Scored(gradient, curvature, curvature, noise, noise, noise)


@pytest.mark.parametrize(
    ("chances", "noise", "found"),
    [
        ((0.3, 0.3, 0.3), 0.0, (False, False, False)),
        ((0.3, 0.0, 0.3), 0.0, (False, True, False)),
        ((0.3, 0.3, 1.0), 0.0, (False, False, True)),
        ((0.0, 0.3, 0.3), 0.0, (True, False, False)),
        ((0.3, 0.3, 0.02), 20.0, (False, False, True)),
    ],
)
def test_parties_whose_cases_cannot_be_told_from_none_are_found(chances, noise, found):
    theta = np.array([-1.0, 0.0, 0.0, 0.0])
    told = without_cases(PROBLEM, released(chances, noise), np.eye(4), theta, CENTRE, SCALE)
    assert told == found


def test_their_intercepts_are_not_determined_and_others_are():
    features = [Feature("x", -1.0, 1.0), Feature("site=b", 0.0, 1.0, indicator=True)]
    features.append(Feature("site=c", 0.0, 1.0, indicator=True))
    made = regression("binomial", PROBLEM.columns, features, None)
    small = 0.01 * np.eye(4)

    def open_of(few):
        found = Fitted(
            np.zeros(4), small, small, 5 * np.ones(4), CENTRE, SCALE, 3, without_cases=few
        )
        return made._without_cases(found)

    assert open_of((False, False, True))[0] == ["site=c"]
    assert open_of((True, False, False))[0] == ["intercept", "site=b", "site=c"]
    assert "The noise hides whether both outcomes occur at" in open_of((False, True, False))[1][0]
    assert open_of((False, False, False)) == ([], ())
    assert site_places(PROBLEM, (False, False, True)) == (3,)
    assert site_places(PROBLEM, (True, False, True)) == (0, 2, 3)
