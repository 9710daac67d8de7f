"""The worked example: its files fit together, and its hospitals allow its study."""

import json
import re
import runpy
import tomllib
from pathlib import Path

import numpy as np

from unisono.algorithms.registry import algorithms
from unisono.data import read_table
from unisono.data.schema import Schema
from unisono.models.registry import models
from unisono.studies.build import build
from unisono.studies.file import load_study, parse_study
from unisono.studies.policy import load_policy, require_allowed, require_server

EXAMPLE = Path(__file__).parents[2] / "examples" / "hospitals"


def test_the_hospitals(tmp_path, capsys):
    runpy.run_path(str(EXAMPLE / "make_data.py"))["main"](tmp_path)
    assert "north: 91 records" in capsys.readouterr().out
    file = load_study(tmp_path / "study.toml")
    assert file.hash == load_study(EXAMPLE / "study.toml").hash
    built = build(file)
    for name in file.names:
        policy = load_policy(tmp_path / name / "policy.toml")
        assert policy.dataset.name == name
        require_allowed(policy, file, built.study, name)
        require_server(policy, file.server.address)
        # No number is clipped: warnings are errors here.
        rows, labels = built.columns(
            read_table(tmp_path / name / "records.csv", built.column_names), name
        )
        assert rows.shape == (file.parties[file.party(name)].records, 11)
        assert set(np.unique(labels)) == {-1.0, 1.0}


def test_the_formats_in_the_documentation_are_accepted(tmp_path):
    page = (EXAMPLE.parents[1] / "docs" / "studies.md").read_text()
    blocks = re.findall(r"```toml\n(.*?)```", page, re.S)
    study, columns, unlisted, people, questions, algorithm, policy, *sources = blocks
    file = parse_study(study)
    between = study.index("[[parties]]")
    build(parse_study(study[: study.index("[data]")] + columns + "\n" + study[between:]))
    found = Schema.model_validate_json(json.dumps(tomllib.loads(unlisted)["data"]))
    assert list(found.unlisted) == ["diagnosis"]
    hidden = study.replace("[data]", people.rpartition("columns.")[0], 1)
    persons = build(parse_study(hidden.replace('unit = "record"', 'unit = "person"')))
    assert persons.study.facts.records_per_person == 8
    (tmp_path / "policy.toml").write_text(policy)
    require_allowed(load_policy(tmp_path / "policy.toml"), file, build(file).study, "north")
    for source in sources:
        (tmp_path / "policy.toml").write_text(policy + source)
        assert load_policy(tmp_path / "policy.toml").records is not None
    untargeted = study.replace('target = "diagnosis"', "")
    head, _, tail = untargeted.partition("[model]")
    build(parse_study(head + questions + tail[tail.index("[server]") :]))
    head, _, tail = study.partition("[algorithm]")
    network = head.replace('"logistic-regression"', '"network"') + algorithm
    build(parse_study(f"{network}\n{tail[tail.index('[server]') :]}"))
    for name in (*models(), *algorithms()):
        assert f"| `{name}` |" in page
