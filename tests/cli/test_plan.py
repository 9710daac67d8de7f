"""`unisono plan`: a recommendation, a picture and JSON from public facts; no data are read."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from unisono import cli
from unisono.algorithms.survey import Opened, pack
from unisono.cli.plan_advice import AdviceLine, best_by_trust, recommended
from unisono.cli.plan_studies import Candidate, PlanRequest, request_of
from unisono.core.study import Result
from unisono.core.trust import Trust, Unit
from unisono.core.values import Private
from unisono.data import csv_stream, databases, parquet_files, sources
from unisono.planning.laws import Band
from unisono.planning.noise import Noise
from unisono.planning.predict import Prediction
from unisono.planning.tasks import Task
from unisono.planning.verdicts import Grade
from unisono.studies.build import build
from unisono.studies.file import parse_study

RUNNER = CliRunner()
HOSPITALS = ("--records", "300,400,350", "--features", "10")
STUDY = """\
title = "Three hospitals"
[data]
target = "ill"
[data.columns]
age = { kind = "number", bounds = [0, 120] }
sex = { kind = "category", values = ["f", "m"] }
ill = { kind = "category", values = ["no", "yes"] }
[[parties]]
name = "north"
records = 400
[[parties]]
name = "south"
records = 500
[[parties]]
name = "west"
records = 400
[privacy]
epsilon = 1
delta = 1e-6
[trust]
mode = "secure-sum"
[model]
name = "logistic-regression"
[algorithm]
name = "gradient-perturbation"
rounds = 30
"""


@pytest.fixture(autouse=True)
def no_data(monkeypatch):
    """Whoever opens a table or private records fails the test."""

    def opened(*_, **__):
        raise AssertionError("data were read")

    readers = [  # what each of them calls first, whatever name it was imported by
        (sources, "_read_csv"),
        (csv_stream, "header_of"),
        (parquet_files, "_opened"),
        (databases, "installed"),
    ]
    for module, reader in readers:
        monkeypatch.setattr(module, reader, opened)
    monkeypatch.setattr(Private, "open", opened)


def plan(*words):
    result = RUNNER.invoke(cli.app, ["plan", *words])
    assert result.exit_code == 0, result.output
    return result


def document(*words):
    return json.loads(plan(*words, "--json").stdout)


def refused(*words):
    result = RUNNER.invoke(cli.app, ["plan", *words])
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    return result.stderr


# ------------------------------------------------------------- what is said


def test_every_algorithm_and_trust_is_predicted():
    found = document(*HOSPITALS)
    seen = {(one["algorithm"], one["trust"]) for one in found["studies"]}
    names = PlanRequest(Task.CLASSIFICATION, (1,)).algorithms
    assert seen == {(name, trust) for name in names for trust in Trust}
    assert {one["unit"] for one in found["studies"]} == {"record", "party"}
    for one in found["studies"]:
        assert one["noise"]["std"] >= one["noise"]["scale"] * 0.999
        assert one["low"] <= one["likely"] <= one["high"]
        assert one["rough"]
    assert found["recommended"] in found["studies"]
    assert found["recommended"]["unit"] == "record"
    assert found["recommended"]["trust"] in found["reason"]


def test_a_mean_in_the_units_of_its_bounds():
    years = document("--task", "mean", "--parties", "5", "--records", "300", "--bounds", "0:120")
    units = document("--task", "mean", "--parties", "5", "--records", "300")
    assert years["records"] == [300] * 5
    for one, other in zip(years["studies"], units["studies"], strict=True):
        assert one["likely"] == pytest.approx(60 * other["likely"], rel=1e-3)
        assert not one["rough"]


def test_text_says_what_to_choose_and_that_nothing_was_read():
    shown = plan("--task", "posterior", "--classes", "2", *HOSPITALS).stdout
    assert "\nUse " in shown
    assert "pvi-natural-gradient" in shown
    assert "No data were read and nothing was spent." in shown
    assert "rough" in shown


def test_a_useless_plan_says_what_would_help():
    few = ("--task", "mean", "--records", "10,10,10", "--epsilon", "0.5")
    found = document(*few)
    assert found["recommended"]["grade"] == "useless"
    changes = [one["change"] for one in found["remedies"]]
    assert any("epsilon" in words for words in changes)
    assert any("parties" in words for words in changes)
    for one in found["remedies"]:
        assert one["grade"] in ("good", "usable")
    assert "Do not run this" in found["reason"]
    words = next(words for words in changes if words.startswith("epsilon"))
    enough = words.split()[1]
    assert document(*few[:-1], enough)["recommended"]["grade"] in ("good", "usable")
    assert "To make it usable" in plan(*few).stdout


def test_what_somebody_knows_of_the_field_decides_what_a_loss_means():
    """Six points lost are little of a headroom of 40, and more than half of 9."""
    easy = document(*HOSPITALS, "--without-privacy", "0.95", "--majority", "0.55")
    adult = document(*HOSPITALS, "--without-privacy", "0.85", "--majority", "0.76")
    assert easy["headroom"] == pytest.approx(0.4)
    order = list(Grade)
    for one, other in zip(easy["studies"], adult["studies"], strict=True):
        # Nobody loses what a model without privacy does not have.
        assert other["likely"] == pytest.approx(min(one["likely"], 0.85 - 0.5))
        assert other["high"] <= 0.85 - 0.5
        assert order.index(one["grade"]) <= order.index(other["grade"])
    assert [s["grade"] for s in easy["studies"]] != [s["grade"] for s in adult["studies"]]
    shown = plan(*HOSPITALS, "--without-privacy", "0.85", "--majority", "0.76").stdout
    words = " ".join(shown.split())
    assert "a model without privacy beats guessing by 9.0 points (as you say)" in words


def test_whole_parties_are_hidden_by_other_algorithms():
    crowd = ("--task", "posterior", "--classes", "2", "--parties", "60", "--records", "20")
    found = document(*crowd, "--features", "3", "--relation", "zero-out", "--unit", "party")
    assert found["recommended"]["algorithm"] == "pvi-clipped-updates"
    assert found["recommended"]["unit"] == "party"


# ------------------------------------------------------------- pictures and studies


@pytest.mark.parametrize("task", ["mean", "classification", "posterior"])
def test_the_trade_off_is_drawn(task, tmp_path):
    path = tmp_path / "trade-off.svg"
    plan("--task", task, *HOSPITALS, "--plot", str(path))
    drawn = path.read_text()
    assert drawn.startswith("<?xml")
    assert "local" not in refused("--plot", str(tmp_path / "picture.txt"))


def test_the_picture_has_a_line_for_each_trust_and_marks_the_epsilon(tmp_path, monkeypatch):
    from unisono.cli import plan_picture

    kept = {}
    monkeypatch.setattr(plan_picture, "_save", lambda figure, path: kept.update(figure=figure))
    plan(*HOSPITALS, "--epsilon", "3", "--plot", str(tmp_path / "x.png"))
    [axes] = kept["figure"].axes
    labels = [line.get_label() for line in axes.lines]
    for trust in Trust:
        [line] = [line for line in axes.lines if str(line.get_label()).startswith(trust)]
        heights = list(line.get_ydata())
        assert heights == sorted(heights, reverse=True)
    assert 3.0 in [line.get_xdata()[0] for line in axes.lines if len(line.get_xdata()) == 2]
    assert len(labels) == 4


def test_a_study_file_is_planned_with_its_own_settings(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(STUDY)
    found = document(str(path))
    own = [one for one in found["studies"] if one["algorithm"] == "gradient-perturbation"]
    assert {one["noise"]["rounds"] for one in own} == {30}
    assert {one["noise"]["numbers"] for one in own} == {3}  # age, sex=m, intercept
    assert found["records"] == [400, 500, 400]
    assert found["task"] == "classification"


@pytest.mark.parametrize(
    ("model", "algorithm", "task", "classes"),
    [
        ("logistic-regression", "gradient-perturbation", Task.CLASSIFICATION, 2),
        ("linear-svm", "auto", Task.CLASSIFICATION, 2),
        ("network", "dp-sgd", Task.NETWORK, 2),
        ("bayesian-logistic-regression", "pvi-natural-gradient", Task.POSTERIOR, 2),
        ("linear-regression", "gradient-perturbation", Task.REGRESSION, 0),
    ],
)
def test_what_a_study_wants_is_read_from_its_file(model, algorithm, task, classes):
    text = STUDY.replace("logistic-regression", model)
    text = text.replace('"gradient-perturbation"\nrounds = 30', f'"{algorithm}"')
    if task is Task.REGRESSION:
        text = text.replace('target = "ill"', 'target = "age"')
    request = request_of(parse_study(text))
    assert (request.task, request.classes, request.records) == (task, classes, (400, 500, 400))


SEVEN = STUDY.replace(
    'sex = { kind = "category", values = ["f", "m"] }',
    """\
weight = { kind = "number", bounds = [0, 200], transform = "log1p" }
sex = { kind = "category", values = ["f", "m"] }
stage = { kind = "category", values = ["I", "II", "III", "IV"] }
smokes = { kind = "true-false" }
dose = { kind = "number", bounds = [0, 9], bins = [3, 6] }
height = { kind = "number", bounds = [0, 250] }""",
).replace("[0, 120] }", '[0, 120], missing = "indicator", fill = 50 }')


def test_features_are_counted_as_models_see_them(tmp_path):
    """Three dummies of four stages, two of three bins, and an indicator: 7 columns make 11."""
    path = tmp_path / "study.toml"
    path.write_text(SEVEN)
    found = document(str(path))
    assert (found["columns"], found["features"]) == (7, 11)
    assert {one["noise"]["numbers"] for one in found["studies"] if one["unit"] == "record"} == {12}
    assert "11 features of 7 columns" in plan(str(path)).stdout
    declared = document("--features", "4", "--categories", "5,7", "--records", "300,400")
    assert (declared["columns"], declared["features"]) == (6, 14)
    numbers = {one["noise"]["numbers"] for one in declared["studies"] if one["unit"] == "record"}
    assert numbers == {15}
    assert "two of them or more" in refused("--categories", "1")
    assert "one for each column of named values" in refused("--categories", "few")


# ------------------------------------------------------------- as auto would run it


@pytest.mark.parametrize("epsilon", [0.3, 4.0])
@pytest.mark.parametrize("records", [200, 20_000])
@pytest.mark.parametrize("model", ["linear-regression", "logistic-regression"])
def test_the_plan_recommends_what_auto_takes(model, records, epsilon, tmp_path):
    """Of a regression they had two different opinions."""
    text = SEVEN.replace("logistic-regression", model).replace(
        "epsilon = 1", f"epsilon = {epsilon}"
    )
    text = text.replace("records = 400", f"records = {records}")
    text = text.replace('\n[algorithm]\nname = "gradient-perturbation"\nrounds = 30', "")
    if model == "linear-regression":
        text = text.replace('target = "ill"', 'target = "weight"')
    path = tmp_path / "study.toml"
    path.write_text(text)
    found = document(str(path))["recommended"]
    other = text.replace('"secure-sum"', f'"{found["trust"]}"')
    assert build(parse_study(other)).algorithm.name == found["algorithm"]


# ------------------------------------------------------------- together or alone


@pytest.mark.parametrize("task", ["mean", "classification", "regression", "posterior"])
def test_the_smallest_and_the_largest_party_hear_whether_to_take_part(task):
    words = ("--task", task, "--records", "40,20000,3000", "--features", "4")
    smallest, largest = document(*words)["parties"]
    assert (smallest["place"], smallest["party"], smallest["records"]) == (
        "smallest",
        "party-1",
        40,
    )
    assert (largest["place"], largest["records"]) == ("largest", 20_000)
    for one in (smallest, largest):
        alone, quiet = one["alone_under_the_same_promise"], one["alone_without_noise"]
        assert alone["likely"] > quiet["likely"] > 0
        assert alone["low"] <= alone["likely"] <= alone["high"]
    assert smallest["verdict"] == "gains"
    assert smallest["alone_without_noise"]["likely"] > largest["alone_without_noise"]["likely"]
    assert largest["verdict"] != "gains"


def test_together_or_alone_is_said_in_words():
    shown = " ".join(plan("--records", "40,20000,3000", "--features", "4").stdout.split())
    assert "party-1, the smallest party with 40 records, gains" in shown
    assert "party-2, the largest party with 20,000 records, would do better alone" in shown
    assert "without noise, for its own eyes" in shown


def test_equal_parties_hear_it_once_and_a_lone_one_not_at_all():
    [every] = document("--records", "300", "--parties", "3")["parties"]
    assert every["place"] == "every"
    assert document("--records", "300")["parties"] == []
    assert "Every party, of 300 records," in plan("--records", "300", "--parties", "3").stdout


def test_alone_nobody_can_hide_that_it_takes_part():
    crowd = ("--parties", "60", "--records", "20", "--relation", "zero-out", "--unit", "party")
    [every] = document(*crowd)["parties"]
    assert every["alone_under_the_same_promise"] is None
    assert "cannot hide that it takes part" in every["reason"]


def test_a_party_with_an_epsilon_of_its_own_is_alone_with_it(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text(STUDY)
    usual = document(str(path))["parties"][0]
    path.write_text(STUDY.replace("records = 400\n", "records = 400\nepsilon = 0.25\n", 1))
    stricter = document(str(path))["parties"][0]
    assert stricter["party"] == usual["party"] == "north"
    alone = [one["alone_under_the_same_promise"]["likely"] for one in (usual, stricter)]
    assert alone[1] > 1.5 * alone[0]


# ------------------------------------------------------------- the rule


def line(trust, likely, grade, name="first", unit=Unit.RECORD, rough=True):
    noise = Noise("Gaussian", 1.0, 1.0, 1, 1, 1.0, 1.0)
    band = Band(likely, likely, likely)
    found = Prediction(Task.CLASSIFICATION, name, trust, unit, noise, band, grade, rough)
    return AdviceLine(Candidate(name, trust, unit, None), found)


GOOD, USABLE, DOUBTFUL, USELESS = Grade
LOCAL, SECURE, SERVER = Trust


@pytest.mark.parametrize(
    ("grades", "expected"),
    [
        ((GOOD, GOOD, GOOD), LOCAL),
        ((USABLE, GOOD, GOOD), SECURE),
        ((USABLE, USABLE, GOOD), SECURE),
        ((USELESS, USABLE, GOOD), SECURE),
        ((DOUBTFUL, DOUBTFUL, USABLE), SERVER),
        ((USABLE, DOUBTFUL, USELESS), LOCAL),
        ((DOUBTFUL, DOUBTFUL, USELESS), SECURE),
        ((USELESS, USELESS, USABLE), SERVER),
        ((USELESS, USELESS, USELESS), SERVER),
    ],
)
def test_the_rule_prefers_little_trust(grades, expected):
    losses = dict(zip(Trust, (0.3, 0.2, 0.1), strict=True))
    lines = [line(t, losses[t], g) for t, g in zip(Trust, grades, strict=True)]
    assert recommended(lines, Unit.RECORD).trust is expected
    assert recommended(lines, Unit.PARTY) is None


def test_nearly_equal_algorithms_go_by_their_order_and_rough_ones_come_last():
    lines = [line(LOCAL, 0.105, GOOD, "one"), line(LOCAL, 0.1, GOOD, "other")]
    assert best_by_trust(lines, Unit.RECORD)[LOCAL].candidate.algorithm == "one"
    lines = [line(LOCAL, 0.2, GOOD, "one"), line(LOCAL, 0.1, GOOD, "other")]
    assert best_by_trust(lines, Unit.RECORD)[LOCAL].candidate.algorithm == "other"
    lines.append(line(LOCAL, 0.3, GOOD, "exact", rough=False))
    assert best_by_trust(lines, Unit.RECORD)[LOCAL].candidate.algorithm == "exact"


# ------------------------------------------------------------- coefficients with intervals


@pytest.fixture(scope="module")
def odds(tmp_path_factory):
    """A study of odds ratios, of parties large enough for them."""
    text = STUDY.partition("[model]")[0].replace("00\n", "000\n") + '[model]\nname = "glm"\n'
    path = tmp_path_factory.mktemp("odds") / "odds.toml"
    path.write_text(text)
    return str(path)


def test_a_study_of_odds_has_widths_powers_and_a_word_for_the_smallest(odds):
    found = document(odds, "--effect", "1.2", "--majority", "0.8")
    assert [row["column"] for row in found["columns"]] == ["age", "sex"]
    age, sex = found["columns"]
    assert age["interval_width"] < sex["interval_width"]
    assert age["power"]["1.2"] > sex["power"]["1.2"]
    assert 1 < age["least_effect_found"] < sex["least_effect_found"]
    wider = found["wider_than_without_privacy"]
    assert 1 < wider["trusted-server"] < wider["secure-sum"] < wider["local"]
    smallest = found["smallest"]
    assert (smallest["name"], smallest["records"]) == ("north", 4000)
    assert smallest["wider_alone"] > smallest["wider_alone_without_noise"] > 1
    assert found["largest"]["name"] == "south"
    assert found["largest"]["wider_alone"] < smallest["wider_alone"]


def test_widths_are_said_in_words(odds):
    text = " ".join(plan(odds).stdout.split())
    assert "age (per deviation)" in text
    assert "sex (2 values)" in text
    assert "north, the smallest party with 4,000 records, gains" in text
    assert "south, the largest party with 5,000 records, gains" in text
    assert "Supposed: independent columns" in text
    assert "nothing was spent" in text


def test_options_that_say_nothing_about_widths_are_refused(odds):
    words = "of a study with intervals the widths of these are predicted"
    assert words in refused(odds, "--plot", "x.png")
    assert words in refused(odds, "--without-privacy", "0.8")
    assert "a ratio is above zero" in refused(odds, "--effect", "0")


# ------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--records", "many"), "whole numbers"),
        (("--records", "300,400", "--parties", "3"), "one for each party"),
        (("--records", "0"), "at least one"),
        (("--classes", "1"), "two classes or more"),
        (("--epsilon", "-1"), "epsilon = -1.0"),
        (("--delta", "2"), "delta = 2.0"),
        (("--task", "mean", "--bounds", "5"), "no bounds"),
        (("--without-privacy", "0.9"), "give both"),
        (("--without-privacy", "0.7", "--majority", "0.8"), "not above majority"),
        (("--without-privacy", "80", "--majority", "0.6"), "it is a share"),
        (("--task", "regression", "--majority", "0.6"), "majority is for classes"),
        (("--task", "mean", "--without-privacy", "0.6"), "say nothing about mean"),
        (("--plot", "nowhere/x.png"), "does not exist"),
        (("nothing.toml",), "nothing.toml"),
    ],
)
def test_bad_plans_are_refused(words, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert said in refused(*words)


def test_what_no_study_can_promise_has_its_reasons():
    found = document("--task", "mean", *HOSPITALS, "--survivors", "9")
    assert found["studies"] == []
    assert found["recommended"] is None
    assert len(found["not_possible"]) == 3
    assert all("9 of 3 parties" in one["reason"] for one in found["not_possible"])
    shown = plan("--task", "mean", *HOSPITALS, "--survivors", "9").stdout
    assert "No algorithm can run this" in shown


def test_no_standard_error_is_beyond_the_margin():
    """Noise that swamps an answer was told as the 16 steps by which slopes are measured."""
    arguments = ["plan", "--task", "mean", "--records", "1000", "--epsilon", "1e-7", "--json"]
    done = RUNNER.invoke(cli.app, arguments)
    assert done.exit_code == 0, done.output
    answers = [
        answer for line in json.loads(done.stdout)["studies"] for answer in line.get("answers", ())
    ]
    assert answers
    for answer in answers:
        assert 0 < answer["error"] <= answer["margin"]


TABLE = """
title = "Who they are"

[data.columns]
age = { kind = "number", bounds = [18, 100], integer = true }
stage = { kind = "category", values = ["I", "II", "III"] }
arm = { kind = "category", values = ["drug", "placebo"], missing = "placebo" }

[[parties]]
name = "north"
records = 4000

[privacy]
epsilon = 1.0
delta = 1e-6

[trust]
mode = "local"

[model]
name = "table-one"
by = "arm"

[algorithm]
name = "statistics"
"""


def test_widths_of_a_table_one_are_those_that_its_run_will_state(tmp_path):
    """Of numbers as widely spread as the plan supposes; noise moves margins by a few per cent."""
    (tmp_path / "study.toml").write_text(TABLE)
    [found] = [
        one for one in document(str(tmp_path / "study.toml"))["studies"] if one["trust"] == "local"
    ]
    margins = {one["name"]: one["margin"] for one in found["answers"]}
    assert list(margins) == [
        "records",
        "mean of age",
        "standard deviation of age",
        "quartiles of age",
        "shares of stage",
    ]
    built = build(parse_study(TABLE))
    generator = np.random.default_rng(0)
    rows = np.column_stack(
        [
            generator.uniform(18, 100, 4000),
            generator.choice(3, 4000, p=[0.5, 0.3, 0.2]),
            generator.integers(0, 2, 4000),
        ]
    )
    _, sent = built.study.algorithm.local(
        built.study.facts, (), None, (rows.astype(np.float32),), np.ones(4000, bool)
    )
    total = np.asarray(sent.value, float) * sent.grid
    total += generator.normal(0, found["noise"]["std"], total.shape)
    result = Result(pack(Opened(total, 1, 4000)), None, None)
    for answer, _ in built.posed.planned(built.study, result):
        low, high = map(np.array, answer["interval"])
        # Quantiles move by whole numbers, and depend on how many records are near.
        loose = 2.5 if "quartiles" in answer["name"] else 1.25
        assert 1 / loose < (high - low).max() / 2 / margins[answer["name"]] < loose
