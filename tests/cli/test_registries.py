"""`unisono models` and `unisono algorithms`: what can be learnt and how, as the registries say."""

import json

import pytest
from typer.testing import CliRunner

from unisono.algorithms.registry import algorithms
from unisono.cli import app
from unisono.core.trust import Trust, Unit
from unisono.models.registry import algorithms_for, models

RUNNER = CliRunner()


def said(*arguments: str, code: int = 0) -> str:
    result = RUNNER.invoke(app, list(arguments))
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return result.stdout if code == 0 else result.stderr


def test_models_come_with_the_algorithms_that_learn_them():
    lines = said("models").splitlines()
    assert len(lines) == 2 * len(models())
    found = json.loads(said("models", "--json"))
    for number, (kind, one) in enumerate(zip(models().values(), found, strict=True)):
        able = [own.name for own in algorithms_for(kind)]
        assert able
        assert one == {"name": kind.name, "summary": kind.summary, "algorithms": able}
        assert lines[2 * number].split() == [kind.name, *kind.summary.split()]
        assert lines[2 * number + 1].strip() == f"by {', '.join(able)}"


def test_algorithms_say_whom_they_hide_and_whom_they_trust():
    lines = said("algorithms").splitlines()
    found = json.loads(said("algorithms", "--json"))
    for kind, line, one in zip(algorithms().values(), lines, found, strict=True):
        assert one == {"name": kind.name, "summary": kind.summary}
        assert line.startswith(f"{kind.name} ")
        assert kind.summary in line
        assert ("hides a whole party" in line) == (Unit.PARTY in kind.units)
        assert ("(trust " in line) == (kind.trusts != frozenset(Trust))


@pytest.mark.parametrize("name", algorithms())
def test_every_setting_of_an_algorithm_is_explained(name):
    config = algorithms()[name].config
    fields = {key: info for key, info in config.model_fields.items() if not info.exclude}
    text = said("algorithms", name)
    assert text.startswith(f"{name}: {algorithms()[name].summary}")
    assert len(text.splitlines()) == 1 + len(fields)
    schema = json.loads(said("algorithms", name, "--json"))
    assert set(schema["properties"]) == {"name", *fields}
    for key, info in fields.items():
        assert f"  {key:<20}{info.description} [" in text
        assert schema["properties"][key]["description"] == info.description
    for inside in ("None", "PydanticUndefined", "{'", "object at"):
        assert inside not in text, (name, inside)


def test_an_unknown_algorithm_is_refused_with_the_known_ones():
    assert "algorithm = 'magic': choose one of statistics, score-influence, k-means" in said(
        "algorithms", "magic", code=2
    )
