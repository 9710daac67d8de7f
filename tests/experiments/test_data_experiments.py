"""Experiments on public files: how they are read, and what is said where they are missing."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from unisono.errors import InvalidInput
from unisono.experiments import adult_parties, catalogue, datasets, kddcup

ADULT = (
    "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male,"
    " 2174, 0, 40, United-States, <=50K\n"
    "52, ?, 209642, HS-grad, 9, Married-civ-spouse, Exec-managerial, Husband, White, Male,"
    " 0, 0, 45, Atlantis, >50K.\n"
    "\n|1x3 Cross validator\n"
)
KDDCUP = (
    "0,tcp,http,SF,181,5450,0,0,0,0,0,1,0,0,0,0,0,0,0,0,0,0,8,8,0,0,0,0,1,0,0,9,9,1,0,0.11,0,0,0,0,"
    "0,normal.\n"
    "0,icmp,ecr_i,SF,1032,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,511,511,0,0,0,0,1,0,0,255,255,1,0,1,0,"
    "0,0,0,0,smurf.\n"
)


def write(path, text):
    with gzip.open(path, "wt", encoding="ascii") as file:
        file.write(text)


def test_adult_is_read_by_its_documentation(tmp_path):
    for name in datasets.ADULT_FILES:
        write(tmp_path / name, ADULT)
    data = datasets.adult(tmp_path)
    assert data.train.shape == (2, data.bounds.shape[1])
    assert data.train[0, :5] == pytest.approx([39, 13, np.log1p(2174), 0, 40])
    assert data.train_labels.tolist() == [0, 1]
    assert data.train[0, 5:].sum() == 8
    assert data.train[1, 5:].sum() == 6  # an unknown workclass and country are rows of zeros
    low, high = data.bounds
    assert ((data.train >= low) & (data.train <= high)).all()


def test_kddcup_is_read_into_the_unit_ball(tmp_path):
    write(tmp_path / datasets.KDDCUP_FILE, KDDCUP)
    split = datasets.kddcup(tmp_path)
    assert split.train.shape == (2, 122)
    assert sorted(split.train_labels) == [-1, 1]
    assert np.linalg.norm(split.train, axis=1).max() <= 1 + 1e-12
    assert (split.train >= 0).all()


@pytest.mark.parametrize("name", catalogue.DATA)
def test_missing_files_are_refused_with_the_way_to_get_them(tmp_path, monkeypatch, name):
    monkeypatch.setenv("UNISONO_DATA", str(tmp_path))
    with pytest.raises(InvalidInput, match=r"is not in .*archive\.ics\.uci\.edu.*UNISONO_DATA"):
        catalogue.experiment(name)(True)


def test_pictures_are_drawn():
    """Of made-up outcomes: the data need not be there."""
    wanted = kddcup.lines(0.5)[:4]
    found = [kddcup.KddOutcome(line, [0.1, 0.2], [0.0, 0.1], 0.5) for line in wanted]
    records = adult_parties.AdultRecords("Adult", *(np.ones(3),) * 4, ceiling=0.85)
    curves = {name: [0.8, 0.7] for name in adult_parties.NAMES}
    for draw in (
        lambda figure: kddcup.draw(figure, found),
        lambda figure: adult_parties.draw(figure, (1, 10), curves, records),
    ):
        figure = Figure(figsize=(8, 5), layout="constrained")
        draw(figure)
        figure.canvas.draw()
        assert all(axes.has_data() for axes in figure.axes)


@pytest.mark.slow
@pytest.mark.parametrize("name", catalogue.DATA)
def test_every_number_is_as_expected(name):
    """Seeded noise, about a minute each."""
    if not os.environ.get("UNISONO_DATA"):
        pytest.skip("UNISONO_DATA names no folder with the files of Adult and KDDCup99")
    if not any((Path(os.environ["UNISONO_DATA"]) / file).exists() for file in datasets._SOURCES):
        pytest.skip("the folder UNISONO_DATA holds none of the files")
    found = catalogue.experiment(name)(True)
    assert [number for number in found.numbers if not number.as_expected] == []
