"""Benchmarks are run by hand: a name that a refactor took away must not go unnoticed till then."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = sorted((Path(__file__).parents[1] / "benchmarks").glob("*.py"))


def borrowed(script):
    """(module, name) for everything that a script takes from us."""
    for node in ast.walk(ast.parse(script.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "unisono":
            yield from ((node.module, alias.name) for alias in node.names)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of what others import
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_what_a_benchmark_imports_is_there(script):
    for module, name in borrowed(script):
        home = importlib.import_module(module)
        if not hasattr(home, name):
            importlib.import_module(f"{module}.{name}")


@pytest.mark.slow
def test_plans_of_unequal_parties_are_kept():
    """A result that the planner calls usable is not below the commonest class (exit code 0)."""
    script = next(one for one in SCRIPTS if one.stem == "unequal_parties")
    done = subprocess.run(
        [sys.executable, str(script), "--smoke"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for split in ("equal", "unequal", "by party"):
        assert f"1e-06   {split}" in done.stdout
