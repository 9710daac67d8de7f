"""What `pip install unisono` brings is enough, and the program is the same whatever it brought."""

import ast
import os
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from unisono.accounting.accountant import ACCOUNTANT
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
# Where a library is imported under another name than it is installed by.
INSTALLED_AS = {"sklearn": "scikit-learn"}
# The program of this environment, and of one that has the wheel and nothing else.
PROGRAMS = ["here", pytest.param("wheel", marks=pytest.mark.slow)]
ASK = [
    "query",
    "north.csv",
    "south.csv",
    "--mean",
    "age",
    "--bounds",
    "age=0:120",
    "--delta",
    "1e-6",
    "--budget",
    "1",
]
# What was typed, the exit code, and words of the message.
MISTAKES = [
    (["nonsense"], 2, "No such command"),
    (["query"], 2, "Missing argument"),
    (["privacy", "cost", "--noise", "many"], 2, "Invalid value for '--noise'"),
    (["privacy", "cost", "--noise", "-1"], 2, "noise = -1.0 is not a positive"),
    (["check", "nowhere.toml"], 2, "nowhere.toml cannot be read"),
    (["ledger", "show", "nothing.ledger"], 2, "no ledger at nothing.ledger"),
    ([*ASK, "--epsilon", "0"], 2, "epsilon = 0.0 is not a positive"),
    ([*ASK, "--epsilon", "1", "--mean", "height"], 2, "bounds of 'height' are missing"),
    ([*ASK, "--epsilon", "2"], 3, "Budget exceeded for 'north'"),
    (
        ["privacy", "cost", "--noise", "1", "--subset", "3/10", "--relation", "add-or-remove"],
        4,
        "under replace-one only",
    ),
    (["ledger", "verify", "forged.ledger"], 5, "does not continue the hash chain"),
]


# ------------------------------------------------------------- what is declared


def declared(extra=None):
    """The requirements of the package, or of one extra, by name."""
    lines = PROJECT["optional-dependencies"][extra] if extra else PROJECT["dependencies"]
    return {Requirement(line).name: line for line in lines}


def imported(folder):
    """Top-level names that Python files in a folder import, without Python's own."""
    names = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names.add(node.module.partition(".")[0])
    return {INSTALLED_AS.get(name, name) for name in names - sys.stdlib_module_names - {"unisono"}}


def test_every_import_is_declared_and_every_declaration_imported():
    """What another library happens to bring today, it may keep to itself tomorrow."""
    used = imported(ROOT / "src")
    assert used == {*declared(), *declared("flower")}


def test_every_range_has_an_oldest_version_and_ends():
    lowest = runpy.run_path(str(ROOT / ".ci" / "lowest.py"))["lowest"]
    for name, line in (declared() | declared("test")).items():
        assert lowest(line).startswith(f"{name}==")
        assert re.search("<|==", line), line
    assert lowest("jax>=0.10,<0.11") == "jax==0.10"
    with pytest.raises(ValueError, match="states no oldest version"):
        lowest("jax<0.11")


# ------------------------------------------------------------- what is installed


def pip(python, *words):
    command = [python, "-m", "pip", "--disable-pip-version-check", *words]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """The program of a fresh environment, in which `pip install unisono` is all that was done."""
    folder = tmp_path_factory.mktemp("wheel")
    if pip(sys.executable, "download", "--no-deps", "--dest", folder / "tried", "typer").returncode:
        pytest.skip("pip reaches no index from which libraries could be installed")
    made = pip(sys.executable, "wheel", "--no-deps", "--wheel-dir", folder, ROOT)
    assert made.returncode == 0, made.stderr
    [built] = folder.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    installed = pip(folder / "venv" / "bin" / "python", "install", built)
    assert installed.returncode == 0, installed.stderr
    return folder / "venv" / "bin" / "unisono"


@pytest.fixture(scope="module")
def program(request):
    """A function that calls the program of an environment with words, in a folder."""
    command = [sys.executable, "-m", "unisono"]
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "COLUMNS": "200"}
    if request.param == "wheel":
        command = [request.getfixturevalue("wheel")]
        environment.pop("PYTHONPATH", None)

    def call(words, folder):
        done = subprocess.run(
            [*command, *words],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert "Traceback" not in done.stdout + done.stderr, done.stderr
        return done

    return call


@pytest.mark.parametrize("program", PROGRAMS, indirect=True)
@pytest.mark.parametrize(("words", "code", "message"), MISTAKES, ids=lambda value: str(value)[:40])
def test_a_mistake_is_one_message_and_its_exit_code(program, words, code, message, tmp_path):
    for name, first in (("north", 20), ("south", 30)):
        ages = "".join(f"{age}\n" for age in range(first, first + 40))
        (tmp_path / f"{name}.csv").write_text("age\n" + ages)
    book = tmp_path / "forged.ledger"
    Ledger.create(book, Policy("ages", Budget(1.0, 1e-6)), ACCOUNTANT)
    book.write_text(book.read_text().replace("ages", "aged", 1))
    done = program(words, tmp_path)
    assert done.returncode == code, done.stderr
    assert message in " ".join((done.stdout + done.stderr).split())


@pytest.mark.parametrize("program", PROGRAMS[1:], indirect=True)
def test_the_wheel_alone_plans_asks_learns_and_reports(program, tmp_path):
    runpy.run_path(str(ROOT / "examples" / "hospitals" / "make_data.py"))["main"](tmp_path)
    for words, shown in (
        (["--help"], "Examples:"),
        (["--version"], PROJECT["version"]),
        (["doctor"], "Sound."),
        (["check", "study.toml"], "epsilon"),
        (["plan", "study.toml"], "epsilon"),
        (
            [
                "query",
                "north/records.csv",
                "public.csv",
                "--mean",
                "mean_radius",
                "--bounds",
                "mean_radius=5:30",
                "--epsilon",
                "1",
                "--delta",
                "1e-6",
                "--budget",
                "3",
                "--second-ledgers",
                "books",
            ],
            "mean_radius",
        ),
        (["run", "study.toml", "--data", ".", "--budget", "20"], "RESULT"),
        (["ledger", "verify", "north/records.ledger"], "Sound"),
        (["report", "study.run"], "report"),
        (["privacy", "cost", "--noise", "4", "--count", "10"], "epsilon"),
    ):
        done = program(words, tmp_path)
        assert done.returncode == 0, (words, done.stderr)
        assert shown in done.stdout, words
