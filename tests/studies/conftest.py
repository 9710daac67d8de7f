"""A study file in pieces: tests change one of them."""

import numpy as np
import pytest

from unisono.data import RecordTable
from unisono.studies import build as building

TEXT = """\
title = "Three hospitals"

[data]
target = "diagnosis"
sizes = "exact"

[data.columns]
radius = { kind = "number", bounds = [5, 30] }
age = { kind = "number", bounds = [0, 120], integer = true }
sex = { kind = "category", values = ["f", "m"] }
diagnosis = { kind = "category", values = ["benign", "malignant"] }

[[parties]]
name = "north"
records = 40

[[parties]]
name = "south"
records = 50

[[parties]]
name = "west"
records = 40

[privacy]
epsilon = 1
delta = 1e-4
unit = "record"
relation = "replace-one"

[trust]
mode = "secure-sum"
minimum_parties = 3
colluders = 1
retries = 0

[model]
name = "logistic-regression"

[algorithm]
name = "gradient-perturbation"
rounds = 20
"""
SECTIONS = TEXT[TEXT.index("[model]") :]


@pytest.fixture
def text():
    return TEXT


@pytest.fixture
def change():
    """`TEXT` with replacements, each of which must be there."""

    def changed(*pairs: tuple[str, str]) -> str:
        made = TEXT
        for old, new in pairs:
            assert old in made, old
            made = made.replace(old, new)
        return made

    return changed


@pytest.fixture
def study(change):
    """The study with another model and algorithm, each its name and lines of settings; an empty
    algorithm is left out."""

    def changed(model: str, algorithm: str = "", *pairs: tuple[str, str]) -> str:
        said = {"model": model, "algorithm": algorithm}
        tables = [_section(title, lines) for title, lines in said.items() if lines]
        return change((SECTIONS, "\n".join(tables)), *pairs)

    return changed


def _section(title: str, lines: str) -> str:
    name, _, more = lines.partition("\n")
    return f'[{title}]\nname = "{name}"\n{more}'.rstrip() + "\n"


@pytest.fixture
def table():
    """A party's made-up table, of so many records."""

    def made(records: int, seed: int = 0) -> RecordTable:
        generator = np.random.default_rng(seed)
        ill = generator.random(records) < 0.5
        columns = {
            "radius": 10 + 8 * ill + generator.normal(size=records),
            "age": generator.integers(0, 100, records).astype(float),
            "sex": np.array(["f", "m"], object)[generator.integers(0, 2, records)],
            "diagnosis": np.array(["benign", "malignant"], object)[ill.astype(int)],
        }
        return RecordTable("north.csv", columns, records)

    return made


@pytest.fixture
def in_order(monkeypatch):
    """Records as they lie in their file, where it is looked at how each of them is read."""
    monkeypatch.setattr(building, "secret_order", lambda records, key: np.arange(records))
