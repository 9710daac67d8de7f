"""`unisono reproduce`: files, table, index, and what is said when something is wrong."""

import json
import os
import sys
import types

import pytest
from typer.testing import CliRunner

from unisono import cli
from unisono.experiments import catalogue
from unisono.experiments.findings import ExpectedNumber, Findings

RUNNER = CliRunner()


def findings(*numbers):
    def draw(figure):
        figure.subplots().plot([0, 1], [0, 1])

    return Findings("toy", "A toy", "Source 9", numbers, ("A | remark.",), draw, (3.0, 2.0))


@pytest.fixture
def toys(monkeypatch):
    """Three experiments that cost nothing: right, wrong, and one that must not be run."""
    found = {
        "right": findings(
            ExpectedNumber("half", 0.5, 0.4, 0.6, "a note"),
            ExpectedNumber("big", 2.0, 1, float("inf")),
        ),
        "wrong": findings(ExpectedNumber("half", 0.7, 0.4, 0.6)),
    }
    asked = []
    for name in ("right", "wrong", "never"):
        module = types.ModuleType(f"toy_{name}")

        def run(quick, name=name):
            asked.append((name, quick))
            return found[name]

        module.run = run
        monkeypatch.setitem(sys.modules, f"toy_{name}", module)
        monkeypatch.setitem(catalogue.EXPERIMENTS, name, f"toy_{name}")
    return asked


def reproduce(*arguments):
    return RUNNER.invoke(cli.app, ["reproduce", *map(str, arguments)])


def test_pictures_numbers_and_index(tmp_path, toys):
    result = reproduce("right", "wrong", "--folder", tmp_path / "new" / "folder")
    assert result.exit_code == 0, result.stderr
    assert toys == [("right", False), ("wrong", False)]
    assert "1/2 right" in result.stderr
    assert "2/2 wrong" in result.stderr
    assert "as expected" in result.stdout
    assert "outside" in result.stdout
    assert "0.4 to 0.6" in result.stdout
    assert "at least 1" in result.stdout
    folder = tmp_path / "new" / "folder"
    assert sorted(os.listdir(folder)) == [
        "index.md",
        "right.json",
        "right.png",
        "wrong.json",
        "wrong.png",
    ]
    assert (folder / "right.png").read_bytes().startswith(b"\x89PNG")
    document = json.loads((folder / "right.json").read_text())
    assert document["as_expected"] is True
    assert document["numbers"][0] == {
        "name": "half",
        "measured": 0.5,
        "low": 0.4,
        "high": 0.6,
        "note": "a note",
        "verdict": "as expected",
    }
    assert document["numbers"][1]["high"] == "inf"
    assert json.loads((folder / "wrong.json").read_text())["as_expected"] is False


def test_the_index_keeps_what_earlier_runs_left(tmp_path, toys):
    reproduce("right", "--folder", tmp_path)
    (tmp_path / "other.json").write_text('{"not": "ours"}')
    (tmp_path / "broken.json").write_text("{")
    reproduce("wrong", "--quick", "--folder", tmp_path)
    assert toys[-1] == ("wrong", True)
    index = (tmp_path / "index.md").read_text()
    assert index.index("## right: A toy") < index.index("## wrong: A toy")
    assert "![A toy](right.png)" in index
    assert "| half | 0.7 | 0.4 to 0.6 | outside |" in index
    assert index.count("A quick run") == 1
    assert "ours" not in index


def test_json(tmp_path, toys):
    result = reproduce("wrong", "--json", "--folder", tmp_path)
    document = json.loads(result.stdout)
    assert document["experiments"][0]["name"] == "wrong"
    assert document["experiments"][0]["numbers"][0]["verdict"] == "outside"


def test_list_runs_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = reproduce("constructed", "--list")
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.stdout.splitlines()] == list(catalogue.CONSTRUCTED)
    listed = json.loads(reproduce("bias", "--list", "--json").stdout)
    assert list(listed) == ["fig4.3"]
    assert os.listdir(tmp_path) == []


def test_an_unknown_name_stops_before_anything_runs(tmp_path, toys):
    result = reproduce("right", "fig4.22", "--folder", tmp_path / "results")
    assert result.exit_code == 2
    assert "there is no experiment 'fig4.22': did you mean fig4.2?" in result.stderr
    assert toys == []
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("name", "file", "source"),
    [
        ("adult-parties", "adult.data.gz", "archive.ics.uci.edu/dataset/2/adult"),
        ("kddcup", "kddcup.data_10_percent.gz", "archive.ics.uci.edu/dataset/130"),
    ],
)
def test_missing_files_are_refused_before_anything_runs(
    tmp_path, monkeypatch, toys, name, file, source
):
    monkeypatch.setenv("UNISONO_DATA", str(tmp_path))
    results = tmp_path / "results"
    outcome = reproduce("right", name, "--quick", "--folder", results)
    assert outcome.exit_code == 2
    for word in (f"{file} is not in {tmp_path}", source, "UNISONO_DATA"):
        assert word in " ".join(outcome.stderr.split())
    assert not results.exists()
    assert toys == []


def test_a_folder_that_cannot_be_written(tmp_path, toys):
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        result = reproduce("right", "--folder", folder)
        assert result.exit_code == 2
        assert f"cannot write into {folder}" in result.stderr
        assert "choose another --folder" in result.stderr
    assert toys == []


def test_a_real_experiment(tmp_path):
    result = reproduce("composition", "--quick", "--folder", tmp_path)
    assert result.exit_code == 0, result.stderr
    assert "577.8" in result.stdout
    assert "outside" not in result.stdout
    assert (tmp_path / "composition.png").stat().st_size > 10_000
