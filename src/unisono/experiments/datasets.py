"""Adult and KDDCup99, read from files that the user has, and scaled by public knowledge only.

The files lie in the folder that the environment variable UNISONO_DATA names; nothing is
downloaded. Every bound and category stands here as a constant from the documentation of the
data: nothing is read from training records.
"""

import csv
import gzip
import math
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np

from unisono.errors import InvalidInput

ADULT_FILES = ("adult.data.gz", "adult.test.gz")
KDDCUP_FILE = "kddcup.data_10_percent.gz"
_SOURCES = {
    **dict.fromkeys(
        ADULT_FILES,
        "download adult.data and adult.test from https://archive.ics.uci.edu/dataset/2/adult and "
        "compress each with gzip",
    ),
    KDDCUP_FILE: "download it from https://archive.ics.uci.edu/dataset/130/kdd+cup+1999+data",
}


class MissingData(InvalidInput):
    """The files are not on this machine."""


class PublicDataset(NamedTuple):
    """A split, and the public bounds (2, d) of its features: lowest, highest."""

    name: str
    train: np.ndarray
    train_labels: np.ndarray
    test: np.ndarray
    test_labels: np.ndarray
    bounds: np.ndarray


class Split(NamedTuple):
    """Rows in the unit ball (n, d) and labels -1, +1."""

    train: np.ndarray
    train_labels: np.ndarray
    test: np.ndarray
    test_labels: np.ndarray


def data_folder() -> Path:
    """The folder that the environment variable UNISONO_DATA names, else the working directory."""
    return Path(os.environ.get("UNISONO_DATA") or ".")


def require(folder: Path, *names: str) -> None:
    """Refuse, with the way to get them, where one of the files is missing."""
    for name in names:
        if not (folder / name).is_file():
            raise MissingData(
                f"{name} is not in {folder.resolve()}: {_SOURCES[name]}, then set the environment "
                "variable UNISONO_DATA to the folder of the file"
            )


# ------------------------------------------------------------- Adult

# Ranges of the survey's fields: `adult.names` keeps people over 16 who work at least an hour, the
# census codes age up to 90, hours up to 99, capital gains in five digits, losses in four, and
# `adult.names` lists 16 levels of education. `fnlwgt` counts how many people a record stands
# for and says nothing about its income, so it is left out.
_ADULT_NUMBERS = {
    "age": (17.0, 90.0),
    "education-num": (1.0, 16.0),
    "capital-gain": (0.0, 99999.0),
    "capital-loss": (0.0, 9999.0),
    "hours-per-week": (1.0, 99.0),
}
# Money spans five orders of magnitude: log(1 + amount) is a public transformation.
_ADULT_LOGARITHMIC = ("capital-gain", "capital-loss")
_ADULT_CATEGORIES = {
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
_ADULT_COLUMNS = (
    "age",
    "workclass",
    "fnlwgt",
    "education",
    "education-num",
    "marital-status",
    "occupation",
    "relationship",
    "race",
    "sex",
    "capital-gain",
    "capital-loss",
    "hours-per-week",
    "native-country",
    "income",
)


def adult(folder: Path) -> PublicDataset:
    """Adult with its official split; an unknown category ("?") is a row of zeros."""
    train, train_labels = _adult_part(folder / "adult.data.gz")
    test, test_labels = _adult_part(folder / "adult.test.gz")
    return PublicDataset("adult", train, train_labels, test, test_labels, _adult_bounds())


def _adult_bounds() -> np.ndarray:
    ranges = []
    for name, (low, high) in _ADULT_NUMBERS.items():
        logarithmic = name in _ADULT_LOGARITHMIC
        ranges.append((np.log1p(low), np.log1p(high)) if logarithmic else (low, high))
    for names in _ADULT_CATEGORIES.values():
        ranges += [(0.0, 1.0)] * len(names.split(", "))
    return np.array(ranges).T


def _adult_part(path: Path) -> tuple[np.ndarray, np.ndarray]:
    require(path.parent, path.name)
    with gzip.open(path, "rt", encoding="ascii") as file:
        rows = [
            row
            for row in csv.reader(file, skipinitialspace=True)
            if len(row) == len(_ADULT_COLUMNS)
        ]
    columns = zip(*rows, strict=True)
    table = {name: np.array(values) for name, values in zip(_ADULT_COLUMNS, columns, strict=True)}
    parts = []
    for name in _ADULT_NUMBERS:
        values = table[name].astype(float)[:, None]
        parts.append(np.log1p(values) if name in _ADULT_LOGARITHMIC else values)
    for name, names in _ADULT_CATEGORIES.items():
        parts.append((table[name][:, None] == np.array(names.split(", "))).astype(float))
    labels = np.char.startswith(table["income"], ">50K").astype(int)
    return np.concatenate(parts, axis=1), labels


# ------------------------------------------------------------- KDDCup99

TRAIN, TEST, _SPLIT_SEED = 50_000, 20_000, 2018
# Public knowledge of the 41 fields (task description of KDD Cup 1999). One-hot: the protocols,
# services and connection states of its feature list. Rates lie in [0, 1]; counters of the last
# two seconds stop at 511, those of the last 255 connections at 255. What has no natural end is
# log(1 + x) / log(1 + limit), cut at 1.
_PROTOCOLS = "tcp udp icmp"
_STATES = "OTH REJ RSTO RSTOS0 RSTR S0 S1 S2 S3 SF SH"
_SERVICES = (
    "aol auth bgp courier csnet_ns ctf daytime discard domain domain_u echo eco_i ecr_i efs exec "
    "finger ftp ftp_data gopher harvest hostnames http http_2784 http_443 http_8001 imap4 IRC "
    "iso_tsap klogin kshell ldap link login mtp name netbios_dgm netbios_ns netbios_ssn netstat "
    "nnsp nntp ntp_u other pm_dump pop_2 pop_3 printer private red_i remote_job rje shell smtp "
    "sql_net ssh sunrpc supdup systat telnet tftp_u tim_i time urh_i urp_i uucp uucp_path vmnet "
    "whois X11 Z39_50"
)
_KDDCUP_CATEGORIES = {1: _PROTOCOLS, 2: _SERVICES, 3: _STATES}
_KDDCUP_LIMITS = {22: 511.0, 23: 511.0, 31: 255.0, 32: 255.0}
_KDDCUP_LOGARITHMIC = {0: 86_400.0, 4: 1e9, 5: 1e9} | dict.fromkeys(
    (7, 8, 9, 10, 12, 15, 16, 17, 18), 1e3
)
_KDDCUP_LOGARITHMIC |= {14: 2.0}


def kddcup(folder: Path) -> Split:
    """Normal (-1) or attack (+1): 70,000 records of the 10 % file drawn with a public seed, 50,000
    to train on and 20,000 to test on; rows (n, 122) projected onto the unit ball."""
    require(folder, KDDCUP_FILE)
    with gzip.open(folder / KDDCUP_FILE, "rt", encoding="ascii") as file:
        lines = file.readlines()
    chosen = np.random.default_rng(_SPLIT_SEED).permutation(len(lines))[: TRAIN + TEST]
    rows = [lines[i].rstrip(".\n").split(",") for i in chosen]
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    parts = []
    for index, column in enumerate(columns[:-1]):
        if index in _KDDCUP_CATEGORIES:
            parts.append(
                (column[:, None] == np.array(_KDDCUP_CATEGORIES[index].split())).astype(float)
            )
            continue
        values = column.astype(float)
        if index in _KDDCUP_LOGARITHMIC:
            values = np.log1p(values) / math.log1p(_KDDCUP_LOGARITHMIC[index])
        parts.append(np.clip(values / _KDDCUP_LIMITS.get(index, 1.0), 0.0, 1.0)[:, None])
    features = np.concatenate(parts, axis=1)
    features /= np.maximum(1.0, np.linalg.norm(features, axis=1, keepdims=True))
    labels = np.where(columns[-1] == "normal", -1.0, 1.0)
    return Split(features[:TRAIN], labels[:TRAIN], features[TRAIN:], labels[TRAIN:])
