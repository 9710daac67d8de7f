"""`unisono schema`: the formats for editors; every key has a sentence, and no sentence is left."""

import json
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner
from unisono.studies.descriptions import WORDS, policy_schema, study_schema

from unisono.cli import app

RUNNER = CliRunner()
EXAMPLE = Path(__file__).parents[2] / "examples" / "hospitals"


def tables(schema):
    yield schema.get("title"), schema
    yield from schema["$defs"].items()


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


def test_no_sentence_is_about_nothing():
    keys = set()
    for schema in (study_schema(), policy_schema()):
        for name, table in tables(schema):
            for key in table.get("properties", {}):
                keys |= {key, f"{name}.{key}"}
    assert set(WORDS) <= keys


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
