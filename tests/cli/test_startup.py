"""The program itself: quick start, version, exit codes, no traceback."""

import os
import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from unisono import cli
from unisono.errors import (
    AuditFailed,
    BudgetExceeded,
    ConditionViolated,
    InvalidInput,
    LedgerCorrupted,
)

RUNNER = CliRunner()
PLAIN = {name: value for name, value in os.environ.items() if "COLOR" not in name}
HEAVY = ("jax", "scipy", "matplotlib", "dp_accounting", "numpy")
COMMANDS = [
    ["privacy", "cost"],
    ["privacy", "calibrate"],
    ["privacy", "compare"],
    ["privacy", "curve"],
    ["query"],
    ["ledger", "create"],
    ["ledger", "show"],
    ["ledger", "raise"],
    ["policy", "init"],
    ["ledger", "verify"],
    ["ledger", "export"],
]


def test_help_answers_at_once_and_loads_nothing_heavy():
    code = (
        "import sys, time\n"
        "from unisono.cli import app\n"
        "from typer.testing import CliRunner\n"
        "from typer.main import get_command\n"
        "get_command(app)\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])\n"
        "print(time.process_time())\n"
        "sys.argv = ['unisono', '--help']\n"
        "from unisono.cli import main\n"
        "main()\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    loaded, seconds, help_text = result.stdout.split("\n", 2)
    assert loaded == "[]"
    # Processor time, so that a busy machine raises no false alarm; 0.2 s on the first machine.
    assert float(seconds) < 1.0
    assert "privacy" in help_text
    assert "ledger" in help_text
    assert "Examples" in help_text


@pytest.mark.parametrize("command", [[], ["privacy"], ["ledger"], *COMMANDS])
def test_every_help_has_examples(command):
    result = RUNNER.invoke(cli.app, [*command, "--help"])
    assert result.exit_code == 0
    assert "Examples:" in result.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_speaks_json(command):
    assert "--json" in RUNNER.invoke(cli.app, [*command, "--help"]).stdout


def test_version():
    result = RUNNER.invoke(cli.app, ["--version"])
    assert result.exit_code == 0
    assert result.stdout.startswith("unisono ")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (InvalidInput("seven"), 2),
        (BudgetExceeded("seven"), 3),
        (ConditionViolated("seven"), 4),
        (LedgerCorrupted("seven"), 5),
        (AuditFailed("seven"), 6),
        (KeyboardInterrupt(), 130),
    ],
)
def test_errors_become_messages_and_exit_codes(monkeypatch, error, code):
    def fail(*_):
        raise error

    monkeypatch.setattr("unisono.cli.answers.cost", fail)
    result = RUNNER.invoke(cli.app, ["privacy", "cost", "--noise", "1"])
    assert result.exit_code == code
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert ("seven" in result.stderr) or ("interrupted" in result.stderr)


def test_the_installed_program_prints_no_traceback(tmp_path):
    code = "import sys; sys.argv = ['unisono', 'ledger', 'show', 'nothing']\n"
    code += "from unisono.cli import main; main()"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, timeout=60
    )
    assert result.returncode == 2
    assert result.stderr == "unisono: no ledger at nothing: check the name\n"


def test_no_color_is_respected():
    code = "import sys; sys.argv = ['unisono', '--help']\nfrom unisono.cli import main; main()"
    shown = []
    for extra in ({}, {"NO_COLOR": "1"}):
        result = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
            env={**PLAIN, "FORCE_COLOR": "1", "TERM": "xterm-256color", **extra},
        )
        # Codes 30 to 49 are colours; bold (1) and dim (2) are none.
        shown.append(bool(re.search("\x1b\\[[0-9;]*[34][0-9]", result.stdout)))
    assert shown == [True, False]


def test_a_terminal_without_unicode_is_served():
    code = "import sys; sys.argv = ['unisono', 'privacy', 'cost', '--noise', '9', '--mechanism',"
    code += " 'skellam']\nfrom unisono.cli import main; main()"
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        timeout=60,
        check=True,
        env={**PLAIN, "PYTHONIOENCODING": "ascii"},
    )
    assert b"R?nyi" in result.stdout
