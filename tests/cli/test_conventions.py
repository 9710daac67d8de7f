"""What every command has in common: examples, JSON, exit codes, plain errors, quiet logs."""

import inspect
import logging
import os
import re
import subprocess
import sys
import typing
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from unisono import cli, errors
from unisono.cli.query_run import Setting, _facts_before
from unisono.core.defaults import RELATION, default_colluders
from unisono.core.trust import Trust

RUNNER = CliRunner()
UNFINISHED = "To be written."
HEAVY = ("jax", "numpy", "scipy", "matplotlib", "pyarrow", "sklearn", "starlette", "jinja2")
# A schema is JSON whatever is asked for.
WITHOUT_JSON = {("schema",)}
COLOUR = re.compile("\x1b\\[[0-9;]*[34][0-9]")
SENTINEL = "73.184467440737"


def walk(command, path=()):
    if hasattr(command, "commands"):
        for name, inner in command.commands.items():
            yield from walk(inner, (*path, name))
    elif UNFINISHED not in (command.help or ""):
        yield pytest.param(path, command, id=" ".join(path))


def is_option(parameter):
    return parameter.param_type_name == "option"


def is_number(command, parameter):
    hint = typing.get_type_hints(inspect.unwrap(command.callback))[parameter.name]
    return not {int, float}.isdisjoint({hint, *typing.get_args(hint)})


COMMANDS = list(walk(typer.main.get_command(cli.app)))
everywhere = pytest.mark.parametrize(("path", "command"), COMMANDS)


def test_the_walk_finds_commands_and_commands_of_groups():
    found = {param.id for param in COMMANDS}
    assert {"plan", "doctor", "query", "audit", "privacy cost", "ledger show"} <= found


# ------------------------------------------------------------- defaults


@everywhere
def test_the_relation_is_the_one_of_every_entrance(path, command):
    for parameter in command.params:
        if parameter.name == "relation" and parameter.default is not None:
            assert parameter.default == RELATION


@pytest.mark.parametrize("trust", Trust)
@pytest.mark.parametrize(("parties", "minimum"), [(1, None), (2, None), (5, 3), (5, 1)])
def test_a_query_plans_for_as_many_colluders_as_every_entrance(trust, parties, minimum):
    if parties == 1 and trust is Trust.SECURE_SUM:
        pytest.skip("one party is no secure sum")
    asked = Setting(1.0, 1e-6, RELATION, trust, Path(), survivors=minimum)
    expected = default_colluders(trust, minimum or parties)
    assert _facts_before(parties, asked, {}).colluders == expected


# ------------------------------------------------------------- help


@everywhere
def test_help_begins_with_a_sentence_and_has_an_example(path, command):
    assert command.help.splitlines()[0].strip()[0].isupper()
    examples = command.help.partition("Example")[2]
    assert f"unisono {' '.join(path)}" in examples


@everywhere
def test_whatever_prints_also_speaks_json(path, command):
    known = {option for parameter in command.params for option in parameter.opts}
    assert ("--json" in known) != (path in WITHOUT_JSON)


@everywhere
def test_every_option_is_explained(path, command):
    silent = [p.name for p in command.params if is_option(p) and not p.help]
    assert silent == []


def test_help_loads_nothing_heavy():
    code = (
        "import sys\n"
        "from unisono.cli import main\n"
        "sys.argv = ['unisono', '--help']\n"
        "try: main()\n"
        f"except SystemExit: print('LOADED', [n for n in {HEAVY!r} if n in sys.modules])\n"
    )
    shown = _python(code).stdout
    assert "Usage" in shown
    assert shown.rstrip().endswith("LOADED []")


def test_completion_names_commands_and_options():
    def completed(words):
        extra = {
            "_UNISONO_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(words.count(" ")),
        }
        code = "import sys; sys.argv = ['unisono']\nfrom unisono.cli import main; main()"
        return _python(code, **extra).stdout.split()

    assert completed("unisono pl") == ["plan"]
    assert "--epsilon" in completed("unisono plan --eps")


def test_completion_is_shown_for_bash():
    """In bash, wherever the tests run: a build may have no shell among its ancestors."""
    code = "import shellingham; shellingham.detect_shell = lambda: ('bash', '/bin/bash')\n"
    code += "import sys; sys.argv = ['unisono', '--show-completion', 'bash']\n"
    shown = _python(code + "from unisono.cli import main; main()").stdout
    assert "complete" in shown
    assert "_UNISONO_COMPLETE" in shown


# ------------------------------------------------------------- errors


def _classes():
    inside = (one for _, one in inspect.getmembers(errors, inspect.isclass))
    return [one for one in inside if issubclass(one, errors.UnisonoError)]


def _stated():
    """Exit codes as the tree in the description of `errors` states them, inherited by depth."""
    codes, codes_at = {}, {}
    for line in errors.__doc__.splitlines():
        found = re.match(r"^([\s│├└─]*)([A-Z]\w+)(?:\s{2,}.*?)?(?:exit (\d))?$", line)
        if found and found[2] in vars(errors):
            depth = len(found[1])
            inherited = [code for own, code in codes_at.items() if own < depth]
            code = int(found[3]) if found[3] else (inherited[-1] if inherited else 1)
            codes_at = {own: kept for own, kept in codes_at.items() if own < depth} | {depth: code}
            codes[found[2]] = code
    return codes


@pytest.mark.parametrize("kind", _classes(), ids=lambda kind: kind.__name__)
def test_errors_end_with_their_stated_exit_code_and_one_message(kind):
    assert kind.exit_code == _stated()[kind.__name__]
    app = typer.Typer(cls=cli.PlainErrors)

    @app.command()
    def fail() -> None:
        raise kind("the value, the cause and the remedy")

    @app.command()
    def other() -> None:
        """So that there is a group."""

    result = RUNNER.invoke(app, ["fail"])
    assert result.exit_code == kind.exit_code
    assert result.stdout == ""
    assert result.stderr == "unisono: the value, the cause and the remedy\n"


@everywhere
def test_bad_input_gives_a_message_and_no_traceback(path, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _refused([*path, "--no-such-option"])
    for parameter in command.params:
        if is_option(parameter) and is_number(command, parameter):
            _refused([*path, parameter.opts[0], "nonsense"])
    required = [p for p in command.params if p.required]
    if required:
        _refused([*path])
        given = [word for p in required for word in _nonsense(p, is_number(command, p))]
        _refused([*path, *given])
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def _nonsense(parameter, number):
    value = "-1" if number else "nowhere/nothing"
    return [f"{parameter.opts[0]}={value}"] if is_option(parameter) else [value]


def _refused(words):
    result = RUNNER.invoke(cli.app, words)
    assert isinstance(result.exception, SystemExit), (words, result.exception)
    assert result.exit_code == 2, (words, result.output)
    assert "Traceback" not in result.output
    assert result.stderr.strip()


# ------------------------------------------------------------- colours and logs


@pytest.mark.parametrize(
    "words", [["privacy", "cost", "--noise", "4"], ["plan", "--task", "mean"]], ids=" ".join
)
def test_no_color_is_respected(words, monkeypatch):
    for name in list(os.environ):
        if "COLOR" in name:
            monkeypatch.delenv(name)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", "1")
    result = RUNNER.invoke(cli.app, words, color=True)
    assert result.exit_code == 0, result.output
    assert not COLOUR.search(result.stdout)


@pytest.mark.filterwarnings("always::unisono.data.UnreadValues")
def test_logs_never_contain_records(tmp_path, monkeypatch, caplog, capfd):
    """One record's number occurs in no output, no log at the finest level and no file."""
    monkeypatch.chdir(tmp_path)
    for name, youngest in (("north", 20), ("south", 30)):
        ages = (f"{youngest + n}.5,east" for n in range(30))
        lines = ["age,ward", *ages, f"{SENTINEL},secretward"]
        (tmp_path / f"{name}.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "logs").mkdir()
    handler = logging.FileHandler(tmp_path / "logs" / "debug.log")
    root = logging.getLogger()
    root.addHandler(handler)
    caplog.set_level(logging.DEBUG)
    try:
        query = RUNNER.invoke(
            cli.app,
            [
                "query",
                "north.csv",
                "south.csv",
                "--epsilon",
                "1",
                "--delta",
                "1e-6",
                "--budget",
                "5",
                "--mean",
                "age",
                "--bounds",
                "age=0:120",
            ],
        )
        wrong = RUNNER.invoke(
            cli.app,
            [
                "query",
                "north.csv",
                "south.csv",
                "--epsilon",
                "1",
                "--delta",
                "1e-6",
                "--budget",
                "5",
                "--mean",
                "ward",
                "--bounds",
                "ward=0:1",
            ],
        )
        logging.getLogger("unisono").debug("the last line of the log")
    finally:
        root.removeHandler(handler)
        handler.close()
    assert query.exit_code == 0, query.output
    said = "\n".join([query.output, *capfd.readouterr(), caplog.text])
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".csv"]
    assert "the last line of the log" in (tmp_path / "logs" / "debug.log").read_text()
    assert {"north.ledger", "north.ledger.source"} <= {path.name for path in files}
    kept = b"\n".join(path.read_bytes() for path in files)
    for secret in (SENTINEL, SENTINEL[:9], "secretward"):
        assert secret not in said
        assert secret.encode() not in kept
    # A warning on the party's own screen may name a record, never its value.
    assert wrong.exit_code == 0
    assert "31 of 31 values of 'ward' in north.csv are not numbers" in wrong.stderr
    assert "secretward" not in wrong.output


def _python(code, **extra):
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={**os.environ, **extra},
    )
