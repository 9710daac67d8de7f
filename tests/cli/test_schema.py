"""`unisono schema`: the formats for editors; every key has a sentence."""

import json
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from unisono.algorithms.registry import algorithms
from unisono.cli import app
from unisono.models.registry import models
from unisono.studies.file import json_schema
from unisono.studies.policy_file import PolicyFile

RUNNER = CliRunner()
EXAMPLE = Path(__file__).parents[2] / "examples" / "hospitals"


def tables(schema):
    yield schema.get("title"), schema
    yield from schema["$defs"].items()


def study_schema():
    return json_schema()


def policy_schema():
    return json_schema(PolicyFile)


@pytest.mark.parametrize(
    ("options", "schema"), [((), study_schema), (("--policy",), policy_schema)]
)
def test_every_key_is_described(options, schema, tmp_path):
    result = RUNNER.invoke(app, ["schema", *options])
    assert result.exit_code == 0
    found = json.loads(result.stdout)
    assert found == json.loads(json.dumps(schema()))
    assert found["$schema"].startswith("https://json-schema.org/")
    for name, table in tables(found):
        for key, entry in table.get("properties", {}).items():
            assert entry["description"].endswith("."), (name, key)
    path = tmp_path / "schema.json"
    assert RUNNER.invoke(app, ["schema", *options, "--output", str(path)]).exit_code == 0
    assert json.loads(path.read_text()) == found


def test_every_entry_of_the_registries_has_a_table():
    properties = study_schema()["properties"]
    for section, known in (("model", set(models())), ("algorithm", {"auto", *algorithms()})):
        assert set(properties[section]["discriminator"]["mapping"]) == known


def test_the_example_uses_known_keys_only():
    """A schema that forbids what files say would be worse than none."""
    for file, schema in (("study.toml", study_schema()), ("policy.toml", policy_schema())):
        document = tomllib.loads((EXAMPLE / file).read_text())
        assert set(document) <= set(schema["properties"])
        assert set(schema["required"]) <= set(document)


def test_a_file_that_cannot_be_written(tmp_path):
    result = RUNNER.invoke(app, ["schema", "--output", str(tmp_path / "none" / "schema.json")])
    assert result.exit_code == 2
    assert "cannot write" in result.stderr
