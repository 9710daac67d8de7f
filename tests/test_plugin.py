"""A plugin that lives in another distribution works everywhere without a change in ours."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

EXAMPLE = Path(__file__).parents[1] / "examples" / "plugin"
SOURCE = Path(__file__).parents[1] / "src"
BUDGET = ("--budget", "50")


@pytest.fixture(scope="session")
def installed(tmp_path_factory):
    """A folder with the plugin, installed by pip as anybody would."""
    folder = tmp_path_factory.mktemp("plugin")
    project = shutil.copytree(EXAMPLE, folder / "project")
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--target",
        str(folder / "site"),
        str(project),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    if done.returncode and "Could not find a version" in done.stderr:
        pytest.skip("pip reaches no index, so that nothing can be built")
    assert done.returncode == 0, done.stderr
    return folder / "site"


@pytest.fixture
def study(tmp_path):
    """The example's study, and synthetic records that differ most along weight and height."""
    shutil.copy(EXAMPLE / "study.toml", tmp_path)
    generator = np.random.default_rng(0)
    for name, records in (("north", 400), ("south", 500), ("west", 300)):
        size = generator.normal(size=records)
        columns = (
            50 + generator.normal(size=records),
            170 + 20 * size,
            105 + 35 * size,
        )
        rows = "\n".join(
            ",".join(f"{cell:.1f}" for cell in row) for row in zip(*columns, strict=True)
        )
        (tmp_path / f"{name}.csv").write_text(f"age,height,weight\n{rows}\n")
    return tmp_path


def unisono(installed, *arguments, code=0):
    path = os.pathsep.join([str(installed), str(SOURCE)])
    done = subprocess.run(
        [sys.executable, "-m", "unisono", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"PYTHONPATH": path},
    )
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


def test_it_is_listed_checked_run_and_reported(installed, study):
    assert "principal-direction" in unisono(installed, "models")
    settings = unisono(installed, "algorithms", "power-iteration")
    assert "Products in all" in settings
    said = unisono(installed, "check", study / "study.toml")
    assert "the direction in which records differ most" in said
    assert "power-iteration" in said
    unisono(
        installed, "run", study / "study.toml", "--data", study, "--folder", study / "run", *BUDGET
    )
    result = json.loads((study / "run" / "result.json").read_text())
    direction = result["direction"]
    assert set(direction) == {"age", "height", "weight"}
    assert abs(direction["age"]) < 0.35 < min(abs(direction["height"]), abs(direction["weight"]))
    certificate = json.loads((study / "run" / "certificate.json").read_text())
    assert certificate["algorithm"] == "power-iteration"
    unisono(installed, "report", study / "run", "--format", "markdown")
    page = (study / "run" / "report.md").read_text()
    assert "the direction in which records differ most" in page


def test_a_policy_that_does_not_list_the_plugin_refuses_it(installed, study):
    (study / "north.policy.toml").write_text(POLICY)
    refused = unisono(
        installed,
        "run",
        study / "study.toml",
        "--data",
        study,
        "--folder",
        study / "run",
        *BUDGET,
        code=4,
    )
    assert "plugins unisono-power: only nothing may be used" in refused
    (study / "north.policy.toml").write_text(POLICY + 'plugins = ["unisono-power"]\n')
    unisono(
        installed, "run", study / "study.toml", "--data", study, "--folder", study / "run", *BUDGET
    )


def test_the_hash_of_a_study_names_the_plugin_and_its_version(installed, study):
    code = (
        "from unisono.studies.file import load_study\n"
        f"print(load_study({str(study / 'study.toml')!r}).meaning['plugins'])"
    )
    path = os.pathsep.join([str(installed), str(SOURCE)])
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": path},
        timeout=120,
    )
    assert done.stdout.strip() == "{'unisono-power': '0.1.0'}", done.stderr


FUZZED = """
import numpy as np
from unisono.algorithms.registry import algorithm_named
from unisono.attacks.neighbours import search
from unisono.core.algorithm import Facts
from unisono.core.privacy import Privacy
from unisono.core.study import Study
from unisono.core.trust import Relation, Trust
from unisono.problems.columns import BoundedColumns
kind = algorithm_named("power-iteration")
problem = BoundedColumns(((-1.0, 1.0),) * 4)
study = Study(kind.method(problem, Privacy(2.0, 1e-6)), Facts((64,), 4, 1), Trust.LOCAL)
found = search(study, ((4,),), (Relation.REPLACE_ONE, Relation.ZERO_OUT), 300, 1, kind.name, 0.0)
print([str(pair) for pair in found if pair is not None])
"""


def test_the_neighbour_fuzzer_takes_it_as_it_is(installed):
    path = os.pathsep.join([str(installed), str(SOURCE)])
    done = subprocess.run(
        [sys.executable, "-c", FUZZED],
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONPATH": path},
        timeout=300,
    )
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.slow
def test_it_is_audited_and_runs_between_processes(installed, study):
    unisono(installed, "audit", study / "study.toml", "--seconds", "5")
    unisono(
        installed,
        "local-cluster",
        study / "study.toml",
        "--data",
        study,
        "--folder",
        study / "all",
        *BUDGET,
    )


POLICY = """\
[dataset]
name = "north"
ledger = "north.ledger"

[budget]
epsilon = 5.0
delta = 1e-6
colluders = 1

[allow]
maximum_epsilon = 5.0
maximum_delta = 1e-6
minimum_parties = 2
"""
