"""Benchmarks are run by hand: a name that a refactor took away must not go unnoticed till then."""

import ast
import importlib
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
