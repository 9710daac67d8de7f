"""The examples of every `--help`: they fit a terminal of 80 columns, parse, and run."""

import glob
import shlex

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import typer
from typer.testing import CliRunner

from unisono import cli

RUNNER = CliRunner()
WIDTH = 78  # what is left of 80 columns beside the margins
# What needs nothing but files that are made here, and takes no longer than a test should.
ALONE = ("models", "algorithms", "query", "schema", "privacy", "ledger", "policy")
# These need words, or keys, that are somebody's own.
PLACEHOLDERS = ("...", "ledger raise")


def _walk(command, path=()):
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from _walk(inner, (*path, name))


def _lines(command):
    block = (command.help or "").partition("Example")[2].partition("Exit codes")[0]
    return [line for line in block.splitlines()[1:] if line.strip(" \b")]


def _examples(command):
    """Each example, its lines joined."""
    return "\n".join(_lines(command)).replace("\\\n", " ").splitlines()


ROOT = typer.main.get_command(cli.app)
COMMANDS = dict(_walk(ROOT))
EXAMPLES = list(dict.fromkeys(line.strip() for one in COMMANDS.values() for line in _examples(one)))


def _words(example):
    first, *words = shlex.split(example, comments=True)
    assert first == "unisono"
    return [file for word in words for file in (sorted(glob.glob(word)) or [word])]


def test_examples_are_found():
    assert len(EXAMPLES) > 60
    assert sum(example.startswith("unisono query") for example in EXAMPLES) >= 6


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_lines_of_examples_fit_a_terminal(path):
    assert [line for line in _lines(COMMANDS[path]) if len(line) > WIDTH] == []


@pytest.mark.parametrize("example", [one for one in EXAMPLES if "..." not in one])
def test_examples_parse(example):
    words, command = _words(example), ROOT
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]
    command.make_context("unisono", words)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The files that examples name."""
    folder = tmp_path_factory.mktemp("examples")
    draw = np.random.default_rng(1)
    for place in (folder, folder / "clinics", folder / "hospitals"):
        place.mkdir(exist_ok=True)
        for name in "ab":
            columns = {
                "age": draw.integers(18, 90, 60),
                "income": draw.integers(9_000, 90_000, 60),
                "disease": draw.choice(["flu", "none"], 60),
                "population": draw.choice(["north", "south"], 60),
                "place": draw.choice(["rural", "urban"], 60),
            }
            pyarrow.parquet.write_table(pyarrow.table(columns), place / f"{name}.parquet")
            rows = zip(*columns.values(), strict=True)
            text = "\n".join([",".join(columns), *(",".join(map(str, row)) for row in rows)])
            (place / f"{name}.csv").write_text(text + "\n")
    (folder / "north.csv").write_text("age\n50\n60\n")
    (folder / "lab.csv").write_text("creatinine;place\n1,5;Århus\n;Århus\n0,9;Århus\n", "latin-1")
    visits = [f"{patient},{120 + patient % 9}" for patient in range(40) for _ in range(2)]
    (folder / "visits.csv").write_text("\n".join(["patient,pressure", *visits]) + "\n")
    return folder


RUNNABLE = [
    one
    for one in EXAMPLES
    if one.split()[1] in ALONE and not any(place in one for place in PLACEHOLDERS)
]


@pytest.mark.filterwarnings("ignore")  # what is said of these few records is not asked here
@pytest.mark.parametrize("example", RUNNABLE)
def test_examples_run(example, files, monkeypatch):
    """In the order of the help, in one folder; ledgers that one begins, the next may use."""
    monkeypatch.chdir(files)
    words = _words(example)
    if words[0] == "query" and "--budget" not in words:
        words += ["--budget", "9"]  # on a terminal it is asked for
    for made in ("ages.ledger", "icu.ledger") if words[:2] == ["ledger", "create"] else ():
        (files / made).unlink(missing_ok=True)
    if words[0] == "ledger" and words[1] != "create" and not (files / "ages.ledger").exists():
        terms = ["ages.ledger", "--dataset", "ages", "--epsilon", "1", "--delta", "1e-6"]
        RUNNER.invoke(cli.app, ["ledger", "create", *terms])
    done = RUNNER.invoke(cli.app, words)
    assert done.exit_code == 0, (example, done.output)


@pytest.mark.filterwarnings("ignore")
def test_a_file_that_was_asked_with_others_is_asked_alone(files, monkeypatch):
    """The ledger plans for a colluder since; one party has all of its noise itself."""
    monkeypatch.chdir(files / "hospitals")
    asked = ("--mean", "age", "--bounds", "age=0:120", "--epsilon", "1", "--budget", "9")
    together = RUNNER.invoke(cli.app, ["query", "a.csv", "b.csv", *asked])
    assert together.exit_code == 0, together.output
    alone = RUNNER.invoke(cli.app, ["query", "a.csv", *asked])
    assert alone.exit_code == 0, alone.output
    shown = RUNNER.invoke(cli.app, ["ledger", "show", "a.ledger", "--json"])
    assert shown.exit_code == 0
    for options, words in (
        (["--trust", "secure-sum"], "leave --trust out"),
        (["--survivors", "2"], "--survivors 2 with 1 file"),
        (["--colluders", "-1"], "--colluders -1"),
    ):
        refused = RUNNER.invoke(cli.app, ["query", "a.csv", *asked, *options])
        assert refused.exit_code == 2
        assert words in refused.output
    refused = RUNNER.invoke(cli.app, ["query", "a.csv", "b.csv", *asked, "--colluders", "2"])
    assert refused.exit_code == 2
    assert "lower --colluders" in refused.output
