"""`unisono init`: a file from a few answers, that `check` accepts for every model and algorithm."""

import json
import re

import pytest
from typer.testing import CliRunner

from unisono.algorithms.gradient_perturbation import GradientPerturbationConfig
from unisono.cli import app
from unisono.models.registry import algorithms_for, models
from unisono.studies.build import build
from unisono.studies.file import load_study, parse_study

RUNNER = CliRunner()
COLUMNS = ("--column", "age=0:120", "--column", "radius=0:30", "--column", "ill=yes,no")
LOGISTIC = ("--model", "logistic-regression")
PEOPLE = ("--parties", "north=300,south=200,west=100")
MARKER = "17.73182736"


def init(*arguments: object, code: int = 0, typed: str | None = None) -> str:
    result = RUNNER.invoke(app, ["init", *map(str, arguments)], input=typed)
    assert result.exit_code == code, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert "Traceback" not in result.output
    assert MARKER not in result.output
    return " ".join((result.stdout if code == 0 else result.stderr).split())


CASES = [
    (model.name, algorithm.name)
    for model in models().values()
    for algorithm in algorithms_for(model)
]
HEAVY = ("network", "bayesian-logistic-regression")


def given(model):
    """Columns, and the target that the model needs."""
    if model == "k-means":
        return COLUMNS[:4]
    numbers = ("linear-regression", "bayesian-linear-regression", "kaplan-meier", "hazards")
    timed = (*numbers, "concordance")
    return (*COLUMNS, *(("--target", "radius") if model in timed else ()))


@pytest.mark.parametrize(
    "model",
    [
        name if name not in HEAVY else pytest.param(name, marks=pytest.mark.slow)
        for name in models()
    ],
)
def test_every_model_gives_a_file_that_builds(tmp_path, model):
    """`init` builds the study before it writes it; `load_study` reads what was written."""
    path = tmp_path / "study.toml"
    text = init(path, "--title", 'A "title"', "--model", model, *given(model), *PEOPLE, "--yes")
    assert f"unisono check {path}" in text
    file = load_study(path)
    assert file.title == 'A "title"'
    assert (file.model.name, file.algorithm.name) == (model, "auto")
    assert f"# that is {build(file).algorithm.name} here" in path.read_text()
    assert [party.records for party in file.parties] == [300, 200, 100]
    assert (file.privacy.epsilon, file.privacy.delta) == (1.0, 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("model", "name"), CASES)
def test_every_pair_gives_a_file_that_builds(tmp_path, model, name):
    path = tmp_path / "study.toml"
    init(path, "--model", model, "--algorithm", name, *given(model), *PEOPLE, "--yes")
    file = load_study(path)
    assert file.algorithm.name == name
    # Every setting is there as a comment, and whoever removes the hash changes nothing.
    said = re.sub(r"^# (\w+ = (?!\.\.\.))", r"\1", path.read_text(), flags=re.M)
    stated = parse_study(said)
    left_open = {key for key, own in stated.algorithm_settings.items() if own is None}
    assert not left_open
    assert build(stated).study.hash == build(file).study.hash


def test_a_regression_says_its_family_and_what_values_are_compared_with(tmp_path):
    file = tmp_path / "odds.toml"
    columns = ("--column", "age=0:120", "--column", "sex=female,male")
    common = ("--model", "glm", *columns, "--parties", "north=900,south=900,west=900", "--yes")
    init(file, *common, "--column", "ill=no,yes", "--target", "ill")
    text = file.read_text()
    assert "# family = ..." in text
    assert "# family is binomial here: odds of ill = yes" in text
    assert "# values are compared with the first of their list: sex=female" in text
    other = tmp_path / "visits.toml"
    init(other, *common, "--column", "visits=0:30", "--target", "visits")
    assert 'counts want family = "poisson"' in other.read_text()


def test_every_setting_that_is_left_out_is_there_as_a_comment(tmp_path):
    path = tmp_path / "study.toml"
    init(
        path,
        "--model",
        "logistic-regression",
        "--algorithm",
        "gradient-perturbation",
        *COLUMNS,
        *PEOPLE,
        "--yes",
    )
    text = path.read_text()
    for name, info in GradientPerturbationConfig.model_fields.items():
        assert f"# {name} = " in text
        assert info.description in text
    said = parse_study(text.replace("# rounds", "rounds"))
    assert set(said.algorithm_settings) == {"rounds"}
    assert build(said).study.hash == build(load_study(path)).study.hash


def test_a_conversation(tmp_path):
    typed = "logistic-regression\nage,ill\n0:120\nyes,no\nAges\n\nnorth=300,south=200\n2\n"
    path = tmp_path / "study.toml"
    init(path, typed=typed)
    file = load_study(path)
    assert (file.title, file.data.target, file.privacy.epsilon) == ("Ages", "ill", 2.0)
    assert list(file.data.columns) == ["age", "ill"]


def test_of_a_data_file_only_the_header_is_read(tmp_path):
    data = tmp_path / "north.csv"
    data.write_bytes(b"age,name,ill\n" + MARKER.encode() + b",\xff\xfe,1\n" * 3)
    path = tmp_path / "study.toml"
    typed = "0:120\n-\nyes,no\n"
    init(
        path,
        "--header",
        data,
        "--model",
        "statistics",
        "--title",
        "T",
        *PEOPLE,
        "--epsilon",
        1,
        typed=typed,
    )
    assert list(load_study(path).data.columns) == ["age", "ill"]
    assert MARKER not in path.read_text()
    data.write_text(f"{MARKER},2,3\n")
    text = init(tmp_path / "b.toml", "--header", data, "--model", "statistics", code=2)
    assert "looks like a record" in text


def test_a_header_of_any_kind_is_drafted_where_nobody_is_asked(tmp_path):
    """Semicolons, quotes and a first column without a name, as R writes it."""
    data = tmp_path / "north.csv"
    data.write_text('"";"age";"sample.yr"\n1;' + MARKER + ";1997\n")
    path = tmp_path / "study.toml"
    text = init(path, "--header", data, "--model", "statistics", *PEOPLE, "--yes")
    assert "where the file says TODO: age, sample.yr" in text
    assert '"sample.yr" = { kind = "number", bounds = "TODO" }' in path.read_text()
    assert MARKER not in path.read_text()


def test_nothing_is_overwritten(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text("mine")
    text = init(path, "--model", "statistics", *COLUMNS, *PEOPLE, "--yes", code=2)
    assert "not overwritten" in text
    assert path.read_text() == "mine"
    assert "no folder" in init(tmp_path / "none" / "study.toml", code=2)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--model", "magic", *COLUMNS, *PEOPLE), "model = 'magic': choose one of"),
        (("--model", "statistics", "--column", "age", *PEOPLE), "write NAME=LOW:HIGH"),
        (("--model", "statistics", "--column", "age=9:1", *PEOPLE), "the lowest comes first"),
        (("--model", "statistics", "--column", "age=a:b", *PEOPLE), "are no bounds"),
        (("--model", "statistics", "--column", "sex=f", *PEOPLE), "all values of a category"),
        (("--model", "statistics", *COLUMNS), "give --parties"),
        (("--model", "statistics", *PEOPLE), "give --column"),
        ((*COLUMNS, *PEOPLE), "give --model"),
        (("--model", "statistics", *COLUMNS, "--parties", "north"), "NAME=RECORDS"),
        (("--model", "statistics", *COLUMNS, "--parties", "north=0"), "NAME=RECORDS"),
        (("--model", "statistics", *COLUMNS, "--parties", "a=1,a=2"), "each party once"),
        ((*LOGISTIC, *COLUMNS, *PEOPLE, "--target", "rage"), "'rage' is no column"),
        (
            (*LOGISTIC, *COLUMNS, *PEOPLE, "--target", "age", "--algorithm", "dp-magic"),
            "'dp-magic' cannot learn a logistic-regression: choose preconditioned-gradients",
        ),
        (
            ("--model", "statistics", *COLUMNS, *PEOPLE, "--epsilon", "-1"),
            "epsilon = -1.0 is not a positive",
        ),
        (("--model", "statistics", *COLUMNS, *PEOPLE, "--server", "nowhere"), "server.address"),
        (("--model", "statistics", "--header", "none.csv", *PEOPLE), "header cannot be read"),
    ],
)
def test_mistakes_are_one_line_and_write_nothing(tmp_path, arguments, words):
    path = tmp_path / "study.toml"
    assert words in init(path, *arguments, "--yes", code=2)
    assert not path.exists()


def test_without_a_terminal_it_says_which_option_to_give(tmp_path):
    assert "give --model" in init(tmp_path / "study.toml", typed="", code=2)


def test_json_and_help(tmp_path):
    path = tmp_path / "study.toml"
    arguments = (path, "--model", "statistics", *COLUMNS, *PEOPLE, "--json")
    assert json.loads(init(*arguments)) == {"file": str(path)}
    text = init("--help")
    assert "unisono init --header north.csv" in text
