"""`unisono query`: right answers, budgets that survive, refusals that spend nothing."""

import contextlib
import json

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

import unisono
from unisono import cli
from unisono.accounting.accountant import ACCOUNTANT
from unisono.cli.conditions import parse_condition
from unisono.core.journal import read
from unisono.core.ledger import Ledger
from unisono.data import read_table
from unisono.errors import InvalidInput

RUNNER = CliRunner()
AGES = ("--bounds", "age=0:120", "--integer", "age")
WARDS = ("--categories", "population=north,south")


def table(rows, seed):
    generator = np.random.default_rng(seed)
    return {
        "age": generator.integers(18, 90, rows).tolist(),
        "income": np.round(generator.uniform(1e4, 9e4, rows), 2).tolist(),
        "disease": generator.choice(["flu", "none"], rows).tolist(),
        "population": generator.choice(["north", "south"], rows).tolist(),
    }


@pytest.fixture
def clinics(tmp_path, monkeypatch):
    """Three files, one of them Parquet; the working folder is theirs."""
    monkeypatch.chdir(tmp_path)
    for name, rows, seed in (("a", 200, 1), ("b", 300, 2)):
        columns = table(rows, seed)
        lines = [
            ",".join(columns),
            *(",".join(map(str, row)) for row in zip(*columns.values(), strict=True)),
        ]
        (tmp_path / f"{name}.csv").write_text("\n".join(lines) + "\n")
    pyarrow.parquet.write_table(pyarrow.table(table(250, 3)), tmp_path / "c.parquet")
    return tmp_path


def query(*options, files=("a.csv", "b.csv", "c.parquet"), budget="1e8"):
    arguments = ["query", *map(str, files), *options]
    return RUNNER.invoke(cli.app, arguments + (["--budget", budget] if budget else []))


def everything():
    parts = [table(200, 1), table(300, 2), table(250, 3)]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


@pytest.mark.filterwarnings("always::unisono.data.UnreadValues")
@pytest.mark.parametrize(
    "asked",
    [("--histogram", "sex"), ("--mean", "los", "--by", "sex"), ("--t-test", "los", "--by", "sex")],
    ids=" ".join,
)
def test_whoever_asks_is_told_of_categories_that_are_not_listed(tmp_path, monkeypatch, asked):
    monkeypatch.chdir(tmp_path)
    rows = [f"{'male' if n < 60 else 'fm'[n % 2]},{n % 20}" for n in range(200)]
    (tmp_path / "own.csv").write_text("\n".join(["sex,los", *rows]) + "\n")
    known = () if "los" not in asked else ("--bounds", "los=0:20")
    options = (*asked, *known, "--categories", "sex=f,m", "--epsilon", "1")
    done = query(*options, files=["own.csv"])
    assert done.exit_code == 0, done.output
    assert "60 of 200 values of 'sex' in own.csv are not any of f, m" in done.stderr
    assert "'male'" not in done.output


def test_answers_are_right_with_hardly_any_noise(clinics):
    result = query(
        "--sum",
        "age",
        "--mean",
        "income",
        "--std",
        "income",
        "--count",
        "disease == 'flu'",
        "--median",
        "age",
        "--histogram",
        "age:4",
        "--table",
        "population,disease",
        *AGES,
        *WARDS,
        "--categories",
        "disease=flu,none",
        "--bounds",
        "income=0:100000",
        "--epsilon",
        "1e6",
        "--json",
    )
    assert result.exit_code == 0, result.stderr
    document = json.loads(result.stdout)
    found = {answer["name"]: answer for answer in document["answers"]}
    data = everything()
    flu = data["disease"] == "flu"
    assert found["count of disease == 'flu'"]["value"] == pytest.approx(flu.sum(), abs=1)
    assert found["sum of age"]["value"] == pytest.approx(data["age"].sum(), rel=1e-3)
    assert found["mean of income"]["value"] == pytest.approx(data["income"].mean(), rel=1e-3)
    assert found["standard deviation of income"]["value"] == pytest.approx(
        data["income"].std(), rel=1e-2
    )
    assert found["median of age"]["value"] == pytest.approx(np.median(data["age"]), abs=1.1)
    bins = np.histogram(data["age"], (0, 30, 60, 90, 120))[0]
    assert found["histogram of age"]["value"] == pytest.approx(bins.tolist(), abs=1)
    north = data["population"] == "north"
    cells = [np.sum(a & b) for a in (north, ~north) for b in (flu, ~flu)]
    assert found["population by disease"]["value"] == pytest.approx(cells, abs=1)
    assert found["population by disease"]["labels"][0] == "north, flu"
    assert document["certificate"]["trust"] == "secure-sum"
    beside = {name: str((clinics / f"{name}.ledger").resolve()) for name in "abc"}
    assert document["ledgers"] == beside


def test_quantiles_by_group_are_those_of_each_group(clinics):
    asked = ("--median", "age", "--quantile", "age:0.9", "--maximum", "age", "--by", "population")
    result = query(*asked, *AGES, *WARDS, "--epsilon", "1e6", "--json")
    assert result.exit_code == 0, result.stderr
    found = {answer["name"]: answer for answer in json.loads(result.stdout)["answers"]}
    data = everything()
    ages = [data["age"][data["population"] == place] for place in ("north", "south")]
    for level, name in ((0.5, "median of age by population"), (0.9, "quantile 0.9 of age by popu")):
        [answer] = [one for title, one in found.items() if title.startswith(name)]
        assert answer["labels"] == ["north", "south"]
        assert answer["value"] == pytest.approx([np.quantile(own, level) for own in ages], abs=2)
    assert "of each group" in found["maximum of age by population"]["note"]


def test_means_and_quantiles_name_what_their_intervals_are_about(clinics):
    asked = ("--mean", "age", "--median", "age", "--quantile", "age:0.9", *AGES, "--epsilon", "1")
    shown = query(*asked).stdout
    assert shown.count("] for these records") == 3
    assert shown.count("] for the population they were drawn from") == 3
    answers = json.loads(query(*asked, "--json").stdout)["answers"]
    for one in answers:
        (low, high), (lower, higher) = one["interval"], one["population_interval"]
        assert lower <= low < high <= higher
    by = query("--median", "age", *AGES, "--by", "population", *WARDS, "--epsilon", "1").stdout
    assert "for these records; then for the population they were drawn from" in by
    pure = query("--mean", "age", *AGES, "--delta", "0", "--epsilon", "1").stdout
    assert "An interval for the population needs delta > 0." in pure


def test_a_spread_that_noise_swamps_is_not_printed_as_zero(clinics):
    result = query("--std", "age", *AGES, "--epsilon", "0.001", "--seed", "3")
    assert result.exit_code == 0, result.stderr
    assert "standard deviation of age: not determined, 95% interval [0, " in result.stdout
    assert "too noisy to estimate" in result.stdout


def test_incidence_by_population_in_plain_words(clinics):
    result = query(
        "--proportion",
        "disease == 'flu'",
        "--by",
        "population",
        *WARDS,
        "--epsilon",
        "1e4",
        "--delta",
        "0",
    )
    assert result.exit_code == 0, result.stderr
    assert "north: 0." in result.stdout
    assert "95% intervals hold for all numbers at once" in result.stdout
    assert "CERTIFICATE\n" in result.stdout
    assert "Laplace noise" in result.stdout
    data = everything()
    share = np.mean(data["disease"][data["population"] == "north"] == "flu")
    shown = float(result.stdout.split("north: ")[1].split(" ")[0])
    assert shown == pytest.approx(share, abs=1e-3)


def test_groups_and_categories_are_compared(clinics):
    """750 records in which nothing depends on anything; all tests in one release."""
    sick = ("--categories", "disease=flu,none")
    result = query(
        "--t-test",
        "income",
        "--median-test",
        "age",
        "--proportion-test",
        "disease == 'flu'",
        "--chi-square",
        "population,disease",
        "--fisher",
        "population,disease",
        *("--by", "population", "--between", "south,north", "--bounds", "income=0:1e5"),
        *AGES,
        *WARDS,
        *sick,
        *("--epsilon", "1e4", "--json"),
    )
    assert result.exit_code == 0, result.stderr
    income, age, shares, table, odds = json.loads(result.stdout)["answers"]
    found = everything()
    south, north = (found["population"] == name for name in ("south", "north"))
    values = found["income"].astype(float)
    gap = values[south].mean() - values[north].mean()
    assert income["name"] == "difference of means of income, south less north"
    assert income["value"] == pytest.approx(gap, abs=150)
    low, high = income["population_interval"]
    assert low < gap < high
    ages = found["age"].astype(float)
    assert age["value"] == pytest.approx(np.median(ages[south]) - np.median(ages[north]), abs=2)
    ill = found["disease"] == "flu"
    assert shares["value"] == pytest.approx(ill[south].mean() - ill[north].mean(), abs=0.01)
    assert shares["test"]["p_value"] == pytest.approx(table["test"]["p_value"], abs=0.05)
    assert odds["interval"][0] <= odds["value"] <= odds["interval"][1]
    assert all(one["test"]["adjusted_p"] >= one["test"]["p_value"] for one in (income, age, odds))


def test_the_budget_survives_from_query_to_query(clinics):
    asked = ("--count", "age >= 65", "--delta", "0", "--epsilon", "0.6")
    assert query(*asked, budget="1").exit_code == 0
    refused = query(*asked, budget=None)
    assert refused.exit_code == 3
    assert "0.6" in refused.stderr
    assert query(*asked[:-1], "0.4", budget=None).exit_code == 0
    assert query(*asked[:-1], "0.001", budget=None).exit_code == 3
    assert all(unisono.verify(path).sound for path in clinics.glob("*.ledger"))


@pytest.mark.parametrize("trust", ["local", "trusted-server"])
def test_other_trusts(clinics, trust):
    result = query("--mean", "age", *AGES, "--epsilon", "1e4", "--trust", trust)
    assert result.exit_code == 0, result.stderr
    assert f"trust      {trust}" in result.stdout


@pytest.mark.filterwarnings("default:.*holds more records:UserWarning")
def test_hidden_sizes(clinics):
    hidden = ("--relation", "add-or-remove", "--count", "all", "--mean", "age", *AGES)
    assert "--nominal-rows" in query(*hidden, "--epsilon", "1e4").stderr
    result = query(*hidden, "--epsilon", "1e4", "--nominal-rows", "400", "--json")
    assert result.exit_code == 0, result.stderr
    count, mean = json.loads(result.stdout)["answers"]
    assert count["value"] == pytest.approx(750, abs=1)
    assert mean["value"] == pytest.approx(everything()["age"].mean(), rel=1e-2)
    more = query(
        *hidden,
        "--epsilon",
        "1e4",
        "--nominal-rows",
        "100",
        "--json",
        "--second-ledgers",
        "more",
    )
    assert "holds more records than --nominal-rows 100" in more.stderr
    assert more.exit_code == 0, more.stderr  # a refusal would tell the size
    assert json.loads(more.stdout)["answers"][0]["value"] == pytest.approx(750, abs=1)


def test_a_simulation_says_so(clinics):
    first = query("--count", "age >= 65", "--epsilon", "1", "--seed", "7")
    assert "SIMULATION" in first.stdout
    assert not list(clinics.glob("*.ledger*"))
    assert "SIMULATION" not in query("--count", "age >= 65", "--epsilon", "1").stdout
    again = query("--count", "age >= 65", "--epsilon", "1", "--seed", "7")
    assert again.stdout == first.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--sum", "height", "--bounds", "height=0:3"), "no column 'height'"),
        (("--sum", "age"), "--bounds age=LOWEST:HIGHEST"),
        (("--sum", "age", "--bounds", "age=9:1"), "not a finite range"),
        (("--sum", "age", "--bounds", "age"), "write COLUMN="),
        (("--count", "age > old"), "put text in quotes"),
        (("--count", "__import__('os').system('true')"), "cannot read the condition"),
        (("--count", "disease < 'flu'"), "know == and != only"),
        (("--count", "disease == ''"), "an empty cell is missing"),
        (("--quantile", "age", *AGES), "between 0 and 1"),
        (("--quantile", "age:half", *AGES), "COLUMN:LEVEL"),
        (("--histogram", "age:0", *AGES), "1 to 10000 bins"),
        (("--histogram", "disease"), "--categories disease="),
        (("--table", "population", *WARDS), "two columns"),
        (("--count", "all", "--by", "population"), "--categories population="),
        (("--t-test", "age", *AGES), "compares groups: say whose with --by"),
        (
            ("--t-test", "age", *AGES, "--by", "population", "--categories", "population=a"),
            "one gr",
        ),
        (("--count", "all", "--between", "a,b"), "no test was asked for"),
        (
            ("--median-test", "age", *AGES, "--by", "population", *WARDS, "--between", "a"),
            "two gro",
        ),
        (("--fisher", "population", *WARDS), "--fisher 'population': write two columns"),
        (("--count", "all", "--categories", "population=a,a"), "each category once"),
        ((), "nothing was asked"),
        (("--count", "all", "--colluders", "0", "--delta", "0"), "colluders to 1 or more"),
        (("--count", "all", "--survivors", "9"), "--survivors 9 with 3 files"),
        (("--count", "all", "--confidence", "2"), "between 0 and 1"),
        (("--mean", "age", *AGES, "--complete", "income"), "columns it can name: age"),
        (("--count", "all", "--missing-codes", "age=-9"), "nothing is asked about 'age' that"),
        (("--mean", "age", *AGES, "--missing-codes", "age=none"), "write numbers with commas"),
        (("--mean", "age", *AGES, "--decimal", ";"), "the decimal mark is . or a comma"),
        (("--mean", "age", *AGES, "--decimal", ","), "save it with semicolons"),
        (("--mean", "age", *AGES, "--encoding", "ebcdic"), "utf-8, utf-16 or latin-1"),
    ],
)
def test_bad_questions_cost_nothing(clinics, options, message):
    result = query(*options, "--epsilon", "1")
    assert result.exit_code == 2
    assert message in result.stderr
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert not list(clinics.glob("*.ledger*"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("age\n", "no records"),
        ("years\n30\n", "no column 'age'"),
        ("", "cannot be read"),
    ],
)
def test_bad_files_cost_nothing(clinics, content, message):
    (clinics / "bad.csv").write_text(content)
    result = query("--sum", "age", *AGES, "--epsilon", "1", files=("a.csv", "bad.csv"))
    assert result.exit_code == 2
    assert message in result.stderr
    assert "bad.csv" in result.stderr
    assert not list(clinics.glob("*.ledger*"))


@pytest.mark.parametrize(
    "line",
    [
        "unknown,flu,north",
        "nan,flu,north",
        "1e999,,west",
        "",
        '30,"flu,north',
        "30,flu,north,more",
        "\udcff,flu,north",
        "x,\x00,\r",
    ],
)
@pytest.mark.filterwarnings("always::unisono.data.UnreadValues")
def test_one_record_that_cannot_be_read_changes_no_other(clinics, line):
    """Every question is answered, the owner alone is told, and the others count as before."""
    lines = ["age,disease,population", *["20,flu,north"] * 30, *["40,none,south"] * 20]
    lines[7] = line
    content = "\n".join(lines) + "\n"
    (clinics / "odd.csv").write_bytes(content.encode("utf-8", "surrogateescape"))
    result = query(
        "--count",
        "disease == 'flu'",
        "--count",
        "disease != 'flu'",
        "--count",
        "age >= 30",
        "--histogram",
        "age:2",
        "--median",
        "age",
        "--table",
        "population,disease",
        "--categories",
        "disease=flu,none",
        "--bounds",
        "age=0:60",
        *WARDS,
        "--trust",
        "local",
        "--epsilon",
        "1e6",
        "--json",
        files=("odd.csv",),
    )
    assert result.exit_code == 0, result.stderr
    found = {one["name"]: one["value"] for one in json.loads(result.stdout)["answers"]}
    own = 1 if line.startswith(("unknown", "nan", "\udcff")) else 0  # read as Latin-1
    assert found["count of disease == 'flu'"] == pytest.approx(29 + own, abs=0.5)
    assert found["count of disease != 'flu'"] == pytest.approx(20 + line.count("\x00"), abs=0.5)
    assert found["count of age >= 30"] == pytest.approx(20, abs=0.5)
    assert found["histogram of age"] == pytest.approx([29, 20], abs=0.5)
    assert found["median of age"] == pytest.approx(20, abs=0.5)
    assert found["population by disease"] == pytest.approx([29 + own, 0, 0, 20], abs=0.5)
    assert "1 of 50 values of 'age' in odd.csv are not numbers, first in record 7" in result.stderr
    assert "unread" not in result.stdout.lower()


@pytest.mark.filterwarnings("always::unisono.data.UnreadValues")
@pytest.mark.filterwarnings("always::unisono.errors.ClippedValues")
def test_a_table_of_a_laboratory_needs_no_cleaning(clinics):
    """Semicolons, decimal commas, Latin-1, empty cells and the code -9: the mean is that of the
    values which are there, and their owner is told in one line."""
    lines = ["größe;wert", *["x;1,5"] * 60, *["x;2,5"] * 60, *["x;"] * 40, *["x;-9"] * 40]
    (clinics / "lab.csv").write_bytes("\n".join(lines).encode("latin-1"))
    options = ("--mean", "wert", "--median", "wert", "--bounds", "wert=0:10", "--trust", "local")
    options += ("--decimal", ",", "--encoding", "latin-1", "--epsilon", "1e4", "--json")
    result = query(*options, "--missing-codes", "wert=-9", files=("lab.csv",))
    assert result.exit_code == 0, result.stderr
    mean, median = json.loads(result.stdout)["answers"]
    assert mean["value"] == pytest.approx(2.0, abs=0.01)
    assert median["value"] == pytest.approx(2.0, abs=0.51)
    assert "200 records, which do not count unless declared: wert 80" in result.stderr
    assert "correct them" not in result.stderr
    result = query(*options, "--complete", "wert", files=("lab.csv",), budget=None)
    assert result.exit_code == 0, result.stderr
    mean, _ = json.loads(result.stdout)["answers"]
    assert mean["value"] == pytest.approx((60 * 1.5 + 60 * 2.5 + 40 * 5) / 200, abs=0.01)
    assert "where some may be missing leave out --complete wert" in result.stderr
    point = [word if word != "," else "." for word in options]
    result = query(*point, files=("lab.csv",), budget=None)
    assert "Some are numbers with --decimal , instead" not in result.stderr  # -9 can be read
    (clinics / "commas.csv").write_text("\n".join(["wert;x", *["1,5;x"] * 60]))
    result = query(*point, files=("commas.csv",))
    assert "60 of 60 values of 'wert'" in result.stderr
    assert "Some are numbers with --decimal , instead" in result.stderr


@pytest.mark.filterwarnings("always::unisono.data.UnreadValues")
def test_newlines_in_cells_are_declared_and_warned_about(clinics):
    (clinics / "long.csv").write_text('age,note\n20,"two\nlines"\n40,x\n')
    asked = ("--count", "age > 0", "--trust", "local", "--epsilon", "1e6", "--json")
    for option, records, warned in ((), 1, False), (("--multiline",), 2, True):
        result = query(*asked, *option, files=("long.csv",))
        assert result.exit_code == 0, result.stderr
        [answer] = json.loads(result.stdout)["answers"]
        assert answer["value"] == pytest.approx(records, abs=0.5)
        assert ("one record can change many" in result.stderr) is warned


def test_one_party_alone_and_missing_budget(clinics):
    secure = ("--trust", "secure-sum")
    alone = query("--count", "all", "--epsilon", "1", *secure, files=("a.csv",))
    assert (alone.exit_code, "leave --trust out" in alone.stderr) == (2, True)
    poor = query("--count", "all", "--epsilon", "1", budget=None)
    assert (poor.exit_code, "--budget" in poor.stderr) == (2, True)
    twice = query("--count", "all", "--epsilon", "1", files=("a.csv", "a.csv"))
    assert (twice.exit_code, "same name" in twice.stderr) == (2, True)
    assert not list(clinics.glob("*.ledger*"))


@pytest.mark.filterwarnings("always::unisono.ClippedValues")
def test_values_outside_the_bounds_are_clipped_and_that_is_said(clinics):
    """How many they were is for the holder of the files alone: it is no part of the answer."""
    result = query("--mean", "age", "--bounds", "age=0:40", "--epsilon", "1e5")
    assert "of 200 values of 'age' in a.csv lie outside the public bounds 0 to 40" in result.stderr
    assert "of 200 values" not in result.stdout
    assert "values outside the bounds were clipped" in result.stdout
    shown = float(result.stdout.split("mean of age: ")[1].split(",")[0])
    assert shown == pytest.approx(np.clip(everything()["age"], 0, 40).mean(), abs=0.05)


@pytest.mark.filterwarnings("always::unisono.LargeDeltaWarning")
def test_a_large_delta_is_told_once(clinics):
    result = query("--count", "all", "--epsilon", "1", "--delta", "0.1")
    assert result.exit_code == 0
    assert result.stderr.count("delta is 0.1 with") == 1


@given(st.text(max_size=30))
@settings(max_examples=100, deadline=None)
def test_conditions_are_read_or_refused(text):
    try:
        condition = parse_condition(text)
    except InvalidInput:
        return
    assert condition.operator in ("==", "!=", "<=", ">=", "<", ">")


@given(value=st.floats(-1e6, 1e6), sign=st.sampled_from(["==", "!=", "<=", ">=", "<", ">"]))
@settings(max_examples=40, deadline=None)
def test_conditions_compare_numbers(tmp_path_factory, value, sign):
    path = tmp_path_factory.getbasetemp() / "numbers.csv"
    path.write_text("x\n-5\n0\n2.5\n7\n")
    found = parse_condition(f"x {sign} {value!r}").holds(read_table(path))
    expected = {
        "==": np.equal,
        "!=": np.not_equal,
        "<=": np.less_equal,
        ">=": np.greater_equal,
        "<": np.less,
        ">": np.greater,
    }[sign]([-5, 0, 2.5, 7], value)
    assert found.tolist() == expected.astype(float).tolist()


# ------------------------------------------------------------- one data set, one ledger

ALONE = ("--count", "all", "--trust", "local", "--delta", "0", "--epsilon", "1")


def spend_all(file, *options, budget="1"):
    return query(*ALONE, *options, files=(file,), budget=budget)


def test_a_link_or_another_folder_is_the_same_data_set(clinics, monkeypatch):
    assert spend_all("a.csv").exit_code == 0
    (clinics / "elsewhere").mkdir()
    (clinics / "elsewhere" / "b_2024.csv").symlink_to(clinics / "a.csv")
    monkeypatch.chdir(clinics / "elsewhere")
    for way in ("../a.csv", "b_2024.csv", clinics / "a.csv"):
        refused = spend_all(way)
        assert refused.exit_code == 3
        assert "Of epsilon 1, nothing is left" in refused.stderr
    assert [path.name for path in clinics.rglob("*.ledger")] == ["a.ledger"]


def test_a_renamed_file_and_a_copy_are_refused(clinics):
    assert spend_all("a.csv").exit_code == 0
    (clinics / "copy.csv").write_bytes((clinics / "a.csv").read_bytes())
    (clinics / "a.csv").rename(clinics / "west.csv")
    for name in ("copy.csv", "west.csv"):
        refused = spend_all(name)
        assert refused.exit_code == 4
        assert "a.ledger" in refused.stderr
    assert len(list(clinics.glob("*.ledger"))) == 1


def test_the_same_records_for_two_parties_are_refused(clinics):
    (clinics / "copy.csv").write_bytes((clinics / "a.csv").read_bytes())
    (clinics / "link.csv").symlink_to(clinics / "a.csv")
    for other, code in (("copy.csv", 4), ("link.csv", 2)):
        refused = query("--count", "all", "--epsilon", "1", files=("a.csv", other))
        assert refused.exit_code == code
        assert "same records" in refused.stderr or "are one" in refused.stderr
    assert not list(clinics.glob("*.ledger*"))


def test_a_refusal_begins_no_ledger_for_the_others(clinics):
    assert spend_all("c.parquet").exit_code == 0
    refused = query(
        "--count", "all", "--delta", "0", "--epsilon", "1", "--colluders", "0", "--trust", "local"
    )
    assert refused.exit_code == 3
    assert query(*ALONE, files=("a.csv",), budget="0.5").exit_code == 3
    assert [path.name for path in clinics.glob("*.ledger")] == ["c.ledger"]


def test_second_ledgers_are_begun_on_purpose_and_say_what_they_forget(clinics):
    assert spend_all("a.csv").exit_code == 0
    second = spend_all("a.csv", "--second-ledgers", "books")
    assert second.exit_code == 0
    said = " ".join(second.stderr.split())
    assert "NOT counted are:" in said
    assert "a.ledger: 100 % of epsilon 1 at delta 0 is spent" in said
    assert (clinics / "books" / "a.ledger").exists()
    assert spend_all("a.csv", "--second-ledgers", "books").exit_code == 3


POLICY = """\
[dataset]
name = "a"
ledger = "kept/a.ledger"

[budget]
epsilon = 3.0
delta = 1e-6

[allow]
maximum_epsilon = 1.0
maximum_delta = 0.0
minimum_parties = {quorum}
trust = ["local"]
columns = ["age"]
"""


def test_a_policy_beside_a_file_is_obeyed(clinics):
    policy, ledger = clinics / "a.policy.toml", clinics / "kept" / "a.ledger"
    ledger.parent.mkdir()
    policy.write_text(POLICY.format(quorum=2))
    refused = spend_all("a.csv", budget=None)
    assert refused.exit_code == 4
    assert "minimum_parties" in refused.stderr
    policy.write_text(POLICY.format(quorum=1))
    for options, words in (
        (("--epsilon", "2"), "costs epsilon 2"),
        (("--mean", "income", "--bounds", "income=0:1e9"), "columns income"),
    ):
        refused = spend_all("a.csv", *options, budget=None)
        assert refused.exit_code == 4
        assert words in refused.stderr
    assert not ledger.exists()
    assert spend_all("a.csv", budget=None).exit_code == 0
    second = spend_all("a.csv", "--second-ledgers", "books", budget=None)
    assert second.exit_code == 0  # a data set with a policy keeps its ledger
    assert len(list(clinics.rglob("*.ledger"))) == 1
    assert sum(line["kind"] == "grant" for line in read(ledger)[0]) == 2


def test_python_pays_from_the_same_ledger(clinics):
    book = unisono.ledger_for("a.csv", epsilon=1.0)
    unisono.count(np.ones(200, bool), epsilon=1.0, ledger=book)
    book.close()
    assert "Of epsilon 1, nothing is left" in spend_all("a.csv").stderr


# ------------------------------------------------------------- persons


@pytest.fixture
def visits(tmp_path, monkeypatch):
    """A clinic whose patients come once to four times, and the means of their pressures."""
    monkeypatch.chdir(tmp_path)
    generator = np.random.default_rng(7)
    owners = np.repeat(np.arange(200), generator.integers(1, 5, 200))
    pressure = 60.0 + 20 * np.bincount(owners)[owners] + generator.uniform(-9, 9, len(owners))
    generator.shuffle(order := np.arange(len(owners)))
    lines = [f"p{owners[place]},{pressure[place]:.3f}" for place in order]
    (tmp_path / "visits.csv").write_text("\n".join(["patient,pressure", *lines]) + "\n")
    return np.bincount(owners, pressure) / np.bincount(owners), pressure


PERSONS = ("--mean", "pressure", "--bounds", "pressure=0:200", "--trust", "local")
VISITS = {"files": ("visits.csv",)}


@pytest.mark.filterwarnings("ignore::unisono.ClippedValues")
def test_every_person_counts_once(visits):
    means, pressure = visits
    assert abs(means.mean() - pressure.mean()) > 5
    asked = (*PERSONS, "--person", "patient", "--epsilon", "1e4", "--json")
    found = query(*asked, **VISITS)
    assert found.exit_code == 0, found.output
    document = json.loads(found.stdout)
    assert document["answers"][0]["value"] == pytest.approx(means.mean(), abs=0.1)
    assert document["certificate"]["unit"] == "person"
    single = query(*asked, "--records-per-person", "1", **VISITS)
    assert single.exit_code == 0, single.output
    assert json.loads(single.stdout)["answers"][0]["value"] == pytest.approx(means.mean(), abs=3)


def test_a_ledger_of_persons_pays_for_no_other_unit(visits):
    asked = (*PERSONS, "--epsilon", "1")
    assert query(*asked, "--person", "patient", budget="9", **VISITS).exit_code == 0
    for others, words in ((), "hides single records"), (("--person", "pressure"), "by 'pressure'"):
        refused = query(*asked, *others, budget=None, **VISITS)
        assert refused.exit_code != 0
        assert words in refused.output
        assert "ask with --person patient" in refused.output
    with contextlib.closing(Ledger.open("visits.ledger", ACCOUNTANT)) as book:
        assert book.grants == 1
    lost = query(*asked, "--records-per-person", "2", **VISITS)
    assert "--records-per-person without --person" in lost.output
    unknown = query(*asked, "--person", "who", budget=None, **VISITS)
    assert "no column 'who'" in unknown.output
