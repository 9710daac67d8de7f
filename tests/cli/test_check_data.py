"""`unisono check --data` and `join --dry-run`: all that is wrong with one's own file, at once."""

import contextlib
import json

import pytest
from typer.testing import CliRunner

from unisono.cli import app
from unisono.studies.build import build
from unisono.studies.file import load_study
from unisono.studies.policy_file import load_policy

RUNNER = CliRunner()
STUDY = """\
title = "Free light chains"
[data]
target = "died"
{csv}
[data.columns]
age = {{ kind = "number", bounds = [18, 100] }}
creatinine = {{ kind = "number", bounds = [0, 10], {missing} }}
sex = {{ kind = "category", values = ["F", "M"], {other} }}
seen = {{ kind = "date", bounds = ["2000-01-01", "2024-12-31"] }}
died = {{ kind = "true-false" }}
[[parties]]
name = "clinic"
records = {records}
{more}
[privacy]
epsilon = 1
delta = 1e-3
[trust]
mode = "local"
[model]
name = "logistic-regression"
"""
OTHER = '[[parties]]\nname = "other"\nrecords = 900\n'
HEADER = "age,creatinine,sex,seen,died"
FINE = "50,1.2,F,2020-01-03,yes"
POLICY = """\
dataset = { name = "clinic", ledger = "clinic.ledger" }
budget = { epsilon = EPSILON, delta = 1e-3, colluders = 1 }
allow = { maximum_epsilon = EPSILON, maximum_delta = 1e-3, minimum_parties = 1, models = [MODELS] }
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def declare(place, *, csv="", missing="", other="", records=4, more=OTHER):
    text = STUDY.format(csv=csv, missing=missing, other=other, records=records, more=more)
    (place / "study.toml").write_text(text.replace(",  }", " }"))


def written(place, *lines, header=HEADER, encoding="utf-8"):
    (place / "clinic.csv").write_bytes("\n".join([header, *lines, ""]).encode(encoding))


def check(*arguments, code=1):
    done = RUNNER.invoke(app, ["check", "study.toml", "--data", "clinic.csv", *arguments])
    assert done.exit_code == code, done.output
    assert "Traceback" not in done.output
    return done.stdout if "--json" in arguments else " ".join(done.stdout.split())


def test_a_file_that_fits_has_nothing_to_correct(place):
    declare(place)
    written(place, FINE, FINE, FINE, FINE.replace("yes", "no"))
    text = check(code=0)
    assert "4 records, 4 complete" in text
    assert "nothing is to be corrected" in text
    assert "no policy lies beside the records" in text
    assert sorted(path.name for path in place.iterdir()) == ["clinic.csv", "study.toml"]


def test_all_problems_come_at_once_with_records_and_values(place):
    declare(place, records=9)
    written(
        place,
        FINE,
        "50,n.d.,F,2020-01-03,yes",
        '50,"1,5",divers,2020-01-03,yes',
        "500,,f,03.01.2020,no",
        "50,1.2,F,2020-01-03,ja",
        "too,few",
    )
    text = check()
    for words in (
        "it holds 6 records, and the study states 9 for clinic",
        "1 line has another number of cells than the header",
        "(record 6)",
        "creatinine: 2 cells are not numbers (records 2, 3): 'n.d.' 1x, '1,5' 1x",
        "Some are numbers with decimal = ',': the study says '.'",
        "sex: 1 cell is not any of F, M",
        "'divers' 1x",
        "declare other = true with everybody, from public knowledge and before the study begins",
        "seen: 1 cell is not dates, as ISO 8601 writes them (record 4): '03.01.2020' 1x",
        "They look like %d.%m.%Y",
        "died: 1 cell is not true or false",
        "creatinine: 1 cell is empty, 17% of 6 (record 4)",
        "age: 1 cell is outside the public bounds 18 to 100 (record 4): '500' 1x",
        "each is clipped to the nearer bound",
    ):
        assert words in text, (words, text)


def test_declarations_say_what_becomes_of_odd_cells(place):
    declare(place, missing='missing = "indicator", fill = 5', other="other = true")
    written(place, "50,?,divers,2020-01-03,yes", "50,n.d.,F,2020-01-03,no", FINE, FINE)
    text = check(code=0)
    assert 'each counts as "(other)", as declared' in text
    assert "5 (with an indicator) takes its place, as declared" in text
    assert "4 records, 4 complete" in text
    declare(place, missing="missing = 1.5")
    written(place, FINE, ",,,,", FINE, "50,,F,2020-01-03,no")
    assert "1.5 takes its place, as declared" in check(code=0)


def test_codes_for_missing_values_are_empty_cells(place):
    """Not numbers outside the bounds, which would be clipped."""
    declare(place, missing='missing = "indicator", fill = 5, missing_codes = [-9, 99]', records=200)
    odd = ["50,-9,F,2020-01-03,yes", "50,99.0,F,2020-01-03,no", "50,,F,2020-01-03,no"]
    written(place, *odd, *[FINE] * 197)
    text = check(code=0)
    assert "creatinine: 3 cells are empty or coded as missing, 2% of 200 (records 1, 2, 3)" in text
    assert "outside" not in text.partition("WHAT THE DECLARATIONS DO")[2]
    written(place, odd[0], *[FINE] * 199)
    assert "less than 1% of 200 (record 1)" in check(code=0)


def test_json_counts_and_shows_no_cell(place):
    declare(place)
    written(place, FINE, "50,9.87654321,divers,2020-01-03,no", FINE, "50,17.25,,2020-01-03,yes")
    text = check("--json")
    found = json.loads(text)
    assert not found["ready"]
    assert found["columns"]["sex"] == {
        "kind": "category",
        "readable": 2,
        "missing": 1,
        "missing_share": 0.25,
        "unreadable": 1,
        "outside_bounds": 0,
    }
    assert found["columns"]["creatinine"]["outside_bounds"] == 1
    [problem] = found["problems"]
    assert (problem["column"], problem["count"], problem["first_records"]) == ("sex", 1, [2])
    for cell in ("divers", "9.87654321", "17.25"):
        assert cell not in text


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (HEADER.replace("age", "Age "), "there is no column 'age' → it has 'Age '"),
        (HEADER.replace("creatinine", "creatinin"), "it has 'creatinin'"),
        (HEADER.replace("age", "x").replace("died", "y"), "there is no column 'died'"),
        (HEADER.replace(",", " "), "its header holds a single name"),
    ],
)
def test_columns_that_are_missing_or_called_otherwise(place, header, words):
    declare(place)
    written(place, FINE, FINE, FINE, FINE, header=header)
    assert words in check()


def test_encodings(place):
    declare(place, other="other = true")
    written(place, *[FINE.replace("F", "größer")] * 4, encoding="latin-1")
    text = check(code=0)
    assert "some of its lines are not UTF-8" in text
    assert "'größer' 4x" in text
    written(place, *[FINE] * 4, encoding="utf-16-le")
    assert "UTF-16 is likely" in check()
    declare(place, other="other = true", csv='csv = { encoding = "latin-1" }')
    written(
        place, FINE.replace("yes", "no"), *[FINE.replace("F", "größer")] * 3, encoding="latin-1"
    )
    check(code=0)


def test_one_class_is_a_problem_where_nobody_has_the_other(place):
    declare(place)
    written(place, *[FINE] * 4)
    assert "all targets are 'true', one of 2 classes" in check(code=0)
    declare(place, more="")
    assert "nothing can be learnt from one class" in check()


@pytest.mark.parametrize("content", [b"", b"\n", None])
def test_files_that_are_no_tables(place, content):
    declare(place)
    if content is not None:
        (place / "clinic.csv").write_bytes(content)
    assert "correct the file, or give the right one" in check()
    (place / "clinic.parquet").write_bytes(content or b"x")
    done = RUNNER.invoke(app, ["check", "study.toml", "--data", "clinic.parquet"])
    assert done.exit_code == 1, done.output
    assert "Traceback" not in done.output


def test_policy_and_budget_are_asked_and_no_ledger_is_begun(place):
    declare(place)
    written(place, FINE, FINE, FINE, FINE.replace("yes", "no"))
    policy = place / "clinic.policy.toml"
    allowed = POLICY.replace("EPSILON", "2.0").replace("MODELS", '"logistic-regression"')
    policy.write_text(allowed)
    assert "clinic.policy.toml allows it, and the budget suffices" in check(code=0)
    assert not list(place.glob("*.ledger"))
    policy.write_text(allowed.replace('"logistic-regression"', '"statistics"'))
    assert "models logistic-regression: only statistics may be used" in check()
    assert json.loads(check("--json"))["takes_part"] is False
    policy.write_text(allowed.replace("2.0", "0.5"))
    assert "at most epsilon 0.5" in check()


def test_whose_file_it_is(place):
    declare(place)
    written(place, FINE, FINE, FINE, FINE.replace("yes", "no"))
    (place / "clinic.csv").rename(place / "mine.csv")
    done = RUNNER.invoke(app, ["check", "study.toml", "--data", "mine.csv"])
    assert done.exit_code == 2
    assert "Give --party, one of clinic, other" in done.stderr
    done = RUNNER.invoke(app, ["check", "study.toml", "--data", "mine.csv", "--party", "clinic"])
    assert done.exit_code == 0, done.output
    done = RUNNER.invoke(app, ["check", "study.toml", "--data", "mine.csv", "--party", "east"])
    assert done.exit_code == 2
    assert "no party 'east'" in done.stderr


def test_a_ledger_that_cannot_pay_or_is_broken_is_told_and_left_as_it_is(place):
    declare(place)
    written(place, FINE, FINE, FINE, FINE.replace("yes", "no"))
    policy = place / "clinic.policy.toml"
    # Two of these studies take about 1.49 together.
    allowed = POLICY.replace("EPSILON", "1.3").replace("MODELS", '"logistic-regression"')
    policy.write_text(allowed)
    built = build(load_study(place / "study.toml"))
    with contextlib.closing(load_policy(policy).open_ledger()) as ledger:
        ledger.authorize(built.costs[0], built.study.algorithm.rounds, "an earlier study")
    own = place / "clinic.ledger"
    before = own.read_bytes()
    assert "Budget exceeded for" in check()
    assert own.read_bytes() == before
    assert not list(place.glob("*.source"))
    own.write_bytes(before.replace(b"an earlier study", b"another    study"))
    found = json.loads(check("--json"))
    assert (found["ready"], found["takes_part"], found["problems"]) == (False, False, [])
