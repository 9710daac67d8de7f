"""Benchmarks are run by hand: a name that a refactor took away must not go unnoticed till then."""

import ast
import importlib
import importlib.util
import json
import math
import runpy
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


PEERS = (
    *("dp_accounting", "jax_privacy", "opendp", "torch", "opacus", "ray", "mpyc", "diffprivlib"),
    "pfl",
)
RUN = [script for script in SCRIPTS if 'if __name__ == "__main__":' in script.read_text("utf-8")]
ELSEWHERE = pytest.mark.filterwarnings("ignore")  # as when a user runs them


class WithoutPeers:
    """An importer that comes first, and knows that no peer is installed."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in PEERS:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def started(script, monkeypatch, *options):
    """Run a benchmark in this process, on a machine that has none of its peers."""
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *own: None if name in PEERS else found(name, *own)
    )
    monkeypatch.setattr(sys, "meta_path", [WithoutPeers(), *sys.meta_path])
    for name in [one for one in sys.modules if one.partition(".")[0] in PEERS]:
        monkeypatch.delitem(sys.modules, name)
    for own in SCRIPTS:  # they import each other by plain names
        monkeypatch.delitem(sys.modules, own.stem, raising=False)
    monkeypatch.syspath_prepend(str(script.parent))
    monkeypatch.delenv("UNISONO_FIGURES", raising=False)
    monkeypatch.setattr(sys, "argv", [str(script), *options])
    try:
        runpy.run_path(str(script), run_name="__main__")
    except SystemExit as ended:
        return ended.code or 0
    finally:
        for own in SCRIPTS:
            sys.modules.pop(own.stem, None)
    return 0


def serves(script):
    """Whether a smoke run starts a server and parties: for `make test-slow`, in a process."""
    return "SMOKE_SERVES = True" in script.read_text("utf-8")


@ELSEWHERE
@pytest.mark.parametrize("script", RUN, ids=lambda script: script.stem)
def test_help_needs_no_peer(script, monkeypatch, capsys):
    assert started(script, monkeypatch, "--help") == 0
    shown = capsys.readouterr().out
    assert "--smoke" in shown
    assert shown.startswith(f"usage: {script.name}")


@ELSEWHERE
@pytest.mark.parametrize(
    "script", [one for one in RUN if not serves(one)], ids=lambda script: script.stem
)
def test_a_smoke_run_measures_something_of_ours(script, monkeypatch, capsys):
    """A new benchmark needs --smoke; `figures.options` gives it one for a function."""
    assert started(script, monkeypatch, "--smoke") == 0
    check_line(capsys.readouterr().out)


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.parametrize("script", [one for one in RUN if serves(one)], ids=lambda one: one.stem)
def test_a_smoke_run_with_a_server(script):
    ended = subprocess.run(
        [sys.executable, str(script), "--smoke"], capture_output=True, text=True, timeout=300
    )
    assert ended.returncode == 0, ended.stderr
    check_line(ended.stdout)


def check_line(printed):
    found = json.loads(printed.splitlines()[-1])
    assert set(found) == {"smoke", "missing"}
    assert all(math.isfinite(value) for value in found["smoke"].values())
    assert found["smoke"] or found["missing"], "neither a measurement nor a peer to wait for"
