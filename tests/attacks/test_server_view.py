"""Gradient inversion of a study's own sums: the control without noise, and what noise leaves."""

import warnings
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest

from unisono.attacks import server_view
from unisono.core.trust import ITERATES, SERVER, Trust
from unisono.studies.build import build
from unisono.studies.file import load_study

with warnings.catch_warnings():  # of Typer about Click, as in tests/cli
    warnings.filterwarnings("ignore", message=r".*removed in Click 9", category=DeprecationWarning)
    from unisono.cli import attack_inversion, synthetic

NUMBER = '{ kind = "number", bounds = [0, 10] }'
STUDY = f"""\
title = "A small network"
[data]
sizes = "exact"
target = "y"
[data.columns]
a = {NUMBER}
b = {{ kind = "number", bounds = [40, 90] }}
c = {{ kind = "number", bounds = [-5, 2] }}
d = {{ kind = "category", values = ["low", "middle", "high"] }}
e = {NUMBER}
y = TARGET
[[parties]]
name = "north"
records = RECORDS
[[parties]]
name = "south"
records = 3
[privacy]
epsilon = 4
delta = 1e-5
relation = "zero-out"
[trust]
mode = "MODE"
"""
NETWORK = """\
[model]
name = "network"
hidden = [64]
[algorithm]
name = "dp-sgd"
rounds = 1
sampling_rate = 1.0
clipping = { bound = 0.5 }
"""
LINEAR = """\
[model]
name = "logistic-regression"
[algorithm]
name = "dp-sgd-convex"
rounds = 2
"""
CLASSES = '{ kind = "category", values = ["no", "perhaps", "yes"] }'


@lru_cache
def study(folder, mode="trusted-server", target=CLASSES, records=3, sections=NETWORK):
    """The study, and made-up records."""
    path = folder / "study.toml"
    words = STUDY + sections
    for old, new in (("TARGET", target), ("MODE", mode), ("RECORDS", str(records))):
        words = words.replace(old, new)
    path.write_text(words)
    built = build(load_study(path))
    return built, synthetic.parties(built, 0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("studies")


def looked(built, base, viewer, party, transcript=None):
    """Public facts, and what a viewer's transcript shows."""
    transcript = transcript or attack_inversion._simulated(built, base, 0, built.study.trust)
    known = attack_inversion._known(built, party, 0.0)
    return known, server_view.sights(transcript.seen_by(viewer), known.grid, party)


def scores(known, seen, base, restarts=4):
    """Errors of the rows found and of blind ones, and how many there are."""
    found = server_view.inverted(known, seen, 0, restarts)
    real, count = base[0][0][:, :-1], len(found.rows)
    box = np.random.default_rng(1).uniform(known.low, known.high, (100, len(known.low)))
    return server_view.error(found.rows, real), server_view.blind_error(box, real, count), count


def test_records_come_back_from_a_sum_without_noise_only_if_the_clip_is_modelled(folder):
    built, base = study(folder)
    known, seen = looked(built, base, SERVER, 0)
    error, blind, count = scores(known, seen, base)
    assert count == 3
    assert error < 0.05 < 0.4 < blind
    # The same sum, explained by gradients that nobody clips.
    factor = 1e-6
    loose = [s._replace(clip=s.clip / factor, total=s.total * factor) for s in seen]
    naive, _, _ = scores(replace(known, grid=known.grid * factor), loose, base, restarts=1)
    assert naive > 0.2


def test_numbers_as_targets_and_an_unknown_count(folder):
    built, base = study(folder, target=NUMBER)
    known, seen = looked(built, base, SERVER, 0)
    coins = replace(known, rate=0.1, records=20)  # as far as the attacker knows
    error, blind, count = scores(coins, seen, base)
    assert (coins.expected, count) == (2, 3)
    assert error < 0.05 < 0.4 < blind


def test_noise_of_the_study_hides_the_records(folder):
    """Deterministic: the seed of the simulated noise is fixed."""
    built, base = study(folder, "local")
    found = attack_inversion.inversion(built, base, True, 0, lambda *_: None)
    (own,) = found["viewers"]
    assert own["without_noise"] < 0.05
    assert own["error"] > 0.9 * own["blind"]
    assert "without noise 0.0" in attack_inversion.words(found)[0]


def test_a_control_that_fails_is_told():
    own = {"viewer": "v", "records": 1, "error": 0.7, "without_noise": 0.6, "blind": 0.7, "mean": 1}
    lines = attack_inversion.words({"applies": True, "viewers": [own]})
    assert "FAILS even without noise" in lines[0]
    nobody = own | {"error": None}
    assert "no record" in attack_inversion.words({"applies": True, "viewers": [nobody]})[0]


def test_only_what_the_viewer_holds_is_read(folder):
    built, base = study(folder)
    run = attack_inversion._simulated(built, base, 0, Trust.TRUSTED_SERVER)
    pairs = ((SERVER, 0), (ITERATES, 0), (ITERATES, None), (SERVER, None))
    mine, nothing, noisy, clean = (looked(built, base, *pair, run)[1] for pair in pairs)
    assert len(mine) == len(noisy) == len(clean) == 1
    assert nothing == []
    assert np.linalg.norm(clean[0].total) <= 6.1 < np.linalg.norm(noisy[0].total)
    hidden = attack_inversion._simulated(built, base, 0, Trust.SECURE_SUM)
    assert looked(built, base, SERVER, 0, hidden)[1] == []


@pytest.mark.parametrize(
    ("records", "sections", "why"),
    [
        (20, NETWORK, "about 20 records take part"),
        (3, LINEAR, "sends noisy sums of sampled records' gradients; no inversion is built"),
    ],
)
def test_studies_that_are_not_attacked_say_why(folder, records, sections, why):
    built, base = study(folder, records=records, sections=sections)
    found = attack_inversion.inversion(built, base, True, 0, lambda *_: None)
    assert not found["applies"]
    assert why in attack_inversion.words(found)[0]


def test_errors_are_those_of_the_best_assignment():
    real = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    assert server_view.error(real[[2, 0]], real) == 0
    assert server_view.error(np.zeros((1, 2)), real) == pytest.approx(1)
    assert server_view.blind_error(real, real, 1) == 0
