"""`unisono init`: a study file from a few answers, that `check` accepts for every algorithm."""

import json

import pytest
from typer.testing import CliRunner

from unisono.cli import app
from unisono.studies.build import BUILDERS
from unisono.studies.file import load_study
from unisono.studies.template import ALGORITHMS, GOALS

RUNNER = CliRunner()
COLUMNS = ("--column", "age=0:120", "--column", "radius=0:30", "--column", "ill=yes,no")
PEOPLE = ("--parties", "north=300,south=200,west=100")
MARKER = "17.73182736"


def init(*arguments: object, code: int = 0, typed: str | None = None) -> str:
    result = RUNNER.invoke(app, ["init", *map(str, arguments)], input=typed)
    assert result.exit_code == code, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert "Traceback" not in result.output
    assert MARKER not in result.output
    return " ".join((result.stdout if code == 0 else result.stderr).split())


def test_the_list_of_algorithms_is_complete():
    assert set(ALGORITHMS) == set(BUILDERS)


LIGHT = ("statistics", "classes", "number", "clusters")


@pytest.mark.parametrize("goal", [
    *LIGHT, *(pytest.param(goal, marks=pytest.mark.slow) for goal in GOALS if goal not in LIGHT)
])  # fmt: skip
def test_every_goal_gives_a_file_that_builds(tmp_path, goal):
    """`init` builds the study before it writes it; `load_study` reads what was written."""
    path = tmp_path / "study.toml"
    target = {"number": ("--target", "radius")}.get(goal, ())
    text = init(path, "--title", 'A "title"', "--goal", goal, *COLUMNS, *PEOPLE, *target, "--yes")
    assert f"unisono check {path}" in text
    file = load_study(path)
    assert file.title == 'A "title"'
    assert [party.records for party in file.parties] == [300, 200, 100]
    assert (file.privacy.epsilon, file.privacy.delta) == (1.0, 1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("name", ALGORITHMS)
def test_every_algorithm_gives_a_file_that_builds(tmp_path, name):
    target = "radius" if name == "one-shot-regression" else "ill"
    path = tmp_path / "study.toml"
    init(path, "--algorithm", name, *COLUMNS, *PEOPLE, "--target", target, "--yes")
    assert load_study(path).algorithm.name == name


def test_a_conversation(tmp_path):
    typed = "classes\nage,ill\n0:120\nyes,no\nAges\n\nnorth=300,south=200\n2\n"
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
    init(path, "--header", data, "--goal", "statistics", "--title", "T", *PEOPLE, "--epsilon", 1,
         typed=typed)  # fmt: skip
    assert list(load_study(path).data.columns) == ["age", "ill"]
    assert MARKER not in path.read_text()
    data.write_text(f"{MARKER},2,3\n")
    text = init(tmp_path / "b.toml", "--header", data, "--goal", "statistics", code=2)
    assert "looks like a record" in text


def test_nothing_is_overwritten(tmp_path):
    path = tmp_path / "study.toml"
    path.write_text("mine")
    text = init(path, "--goal", "statistics", *COLUMNS, *PEOPLE, "--yes", code=2)
    assert "not overwritten" in text
    assert path.read_text() == "mine"
    assert "no folder" in init(tmp_path / "none" / "study.toml", code=2)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--goal", "magic", *COLUMNS, *PEOPLE), "goal 'magic' is unknown: choose one of"),
        (("--goal", "statistics", "--column", "age", *PEOPLE), "write NAME=LOW:HIGH"),
        (("--goal", "statistics", "--column", "age=9:1", *PEOPLE), "the lowest comes first"),
        (("--goal", "statistics", "--column", "age=a:b", *PEOPLE), "are no bounds"),
        (("--goal", "statistics", "--column", "sex=f", *PEOPLE), "all values of a category"),
        (("--goal", "statistics", *COLUMNS), "give --parties"),
        (("--goal", "statistics", *PEOPLE), "give --column"),
        ((*COLUMNS, *PEOPLE), "give --goal"),
        (("--goal", "statistics", *COLUMNS, "--parties", "north"), "NAME=RECORDS"),
        (("--goal", "statistics", *COLUMNS, "--parties", "north=0"), "NAME=RECORDS"),
        (("--goal", "statistics", *COLUMNS, "--parties", "a=1,a=2"), "each party once"),
        (("--goal", "classes", *COLUMNS, *PEOPLE, "--target", "rage"), "'rage' is no column"),
        (("--goal", "classes", *COLUMNS, *PEOPLE, "--target", "age", "--algorithm", "dp-magic"),
         "algorithm 'dp-magic' is unknown"),
        (("--goal", "statistics", *COLUMNS, *PEOPLE, "--epsilon", "-1"), "privacy.epsilon"),
        (("--goal", "statistics", *COLUMNS, *PEOPLE, "--server", "nowhere"), "server.address"),
        (("--goal", "statistics", "--header", "none.csv", *PEOPLE), "header cannot be read"),
    ],
)  # fmt: skip
def test_mistakes_are_one_line_and_write_nothing(tmp_path, arguments, words):
    path = tmp_path / "study.toml"
    assert words in init(path, *arguments, "--yes", code=2)
    assert not path.exists()


def test_without_a_terminal_it_says_which_option_to_give(tmp_path):
    assert "give --goal" in init(tmp_path / "study.toml", typed="", code=2)


def test_json_and_help(tmp_path):
    path = tmp_path / "study.toml"
    arguments = (path, "--goal", "statistics", *COLUMNS, *PEOPLE, "--json")
    assert json.loads(init(*arguments)) == {"file": str(path)}
    text = init("--help")
    assert "unisono init --header north.csv" in text
