"""The data sets of the accuracy benchmarks, scaled by public knowledge only.

Adult comes from the folder in the environment variable UNISONO_DATA (files `adult.data.gz` and
`adult.test.gz` of the UCI archive); breast_cancer and digits ship with scikit-learn. Every bound
and category stands here as a constant from the documentation of the data: nothing is read from
training records.
"""

import csv
import gzip
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np


class Dataset(NamedTuple):
    """A split, and the public bounds (2, d) of its features: lowest, highest."""

    name: str
    train: np.ndarray
    train_labels: np.ndarray
    test: np.ndarray
    test_labels: np.ndarray
    bounds: np.ndarray


class MissingData(Exception):
    """The files are not on this machine."""


# Ranges of the survey's fields: `adult.names` keeps people over 16 who work at least an hour, the
# census codes age up to 90, hours up to 99, capital gains in five digits, losses in four, and
# `adult.names` lists 16 levels of education. `fnlwgt` counts how many people a record stands
# for and says nothing about its income, so it is left out.
_NUMBERS = {
    "age": (17.0, 90.0),
    "education-num": (1.0, 16.0),
    "capital-gain": (0.0, 99999.0),
    "capital-loss": (0.0, 9999.0),
    "hours-per-week": (1.0, 99.0),
}
# Money spans five orders of magnitude: log(1 + amount) is a public transformation.
_LOGARITHMIC = ("capital-gain", "capital-loss")
_CATEGORIES = {
    "workclass": "Private, Self-emp-not-inc, Self-emp-inc, Federal-gov, Local-gov, State-gov, "
    "Without-pay, Never-worked",
    "education": "Bachelors, Some-college, 11th, HS-grad, Prof-school, Assoc-acdm, Assoc-voc, 9th, "
    "7th-8th, 12th, Masters, 1st-4th, 10th, Doctorate, 5th-6th, Preschool",
    "marital-status": "Married-civ-spouse, Divorced, Never-married, Separated, Widowed, "
    "Married-spouse-absent, Married-AF-spouse",
    "occupation": "Tech-support, Craft-repair, Other-service, Sales, Exec-managerial, "
    "Prof-specialty, Handlers-cleaners, Machine-op-inspct, Adm-clerical, Farming-fishing, "
    "Transport-moving, Priv-house-serv, Protective-serv, Armed-Forces",
    "relationship": "Wife, Own-child, Husband, Not-in-family, Other-relative, Unmarried",
    "race": "White, Asian-Pac-Islander, Amer-Indian-Eskimo, Other, Black",
    "sex": "Female, Male",
    "native-country": "United-States, Cambodia, England, Puerto-Rico, Canada, Germany, "
    "Outlying-US(Guam-USVI-etc), India, Japan, Greece, South, China, Cuba, Iran, Honduras, "
    "Philippines, Italy, Poland, Jamaica, Vietnam, Mexico, Portugal, Ireland, France, "
    "Dominican-Republic, Laos, Ecuador, Taiwan, Haiti, Columbia, Hungary, Guatemala, Nicaragua, "
    "Scotland, Thailand, Yugoslavia, El-Salvador, Trinadad&Tobago, Peru, Hong, "
    "Holand-Netherlands",
}
_COLUMNS = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation",
    "relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week",
    "native-country", "income",
)  # fmt: skip


def data_folder(argument: str | None = None) -> Path:
    """Where the data lie: the argument, UNISONO_DATA, or a folder beside the repository."""
    beside = Path(__file__).parents[2] / "shared" / "data"
    return Path(argument or os.environ.get("UNISONO_DATA") or beside)


def adult(folder: Path) -> Dataset:
    """Adult with its official split; an unknown category ("?") is a row of zeros."""
    train, train_labels = _adult_part(folder / "adult.data.gz")
    test, test_labels = _adult_part(folder / "adult.test.gz")
    return Dataset("adult", train, train_labels, test, test_labels, _adult_bounds())


def _adult_bounds() -> np.ndarray:
    ranges = []
    for name, (low, high) in _NUMBERS.items():
        logarithmic = name in _LOGARITHMIC
        ranges.append((np.log1p(low), np.log1p(high)) if logarithmic else (low, high))
    for names in _CATEGORIES.values():
        ranges += [(0.0, 1.0)] * len(names.split(", "))
    return np.array(ranges).T


def _adult_part(path: Path) -> tuple[np.ndarray, np.ndarray]:
    if not path.exists():
        raise MissingData(
            f"{path.name} is not in {path.parent}: download it from the UCI archive (Adult), "
            "compress it with gzip and set UNISONO_DATA to its folder"
        )
    with gzip.open(path, "rt", encoding="ascii") as file:
        rows = [row for row in csv.reader(file, skipinitialspace=True) if len(row) == len(_COLUMNS)]
    columns = zip(*rows, strict=True)
    table = {name: np.array(values) for name, values in zip(_COLUMNS, columns, strict=True)}
    parts = []
    for name in _NUMBERS:
        values = table[name].astype(float)[:, None]
        parts.append(np.log1p(values) if name in _LOGARITHMIC else values)
    for name, names in _CATEGORIES.items():
        parts.append((table[name][:, None] == np.array(names.split(", "))).astype(float))
    labels = np.char.startswith(table["income"], ">50K").astype(int)
    return np.concatenate(parts, axis=1), labels
