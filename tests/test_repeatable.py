"""Simulations are equal to the last bit, certificates included, whatever the clock says."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import unisono
from unisono import cli
from unisono.estimators import PrivateLogisticRegression, PrivateSearch
from unisono.estimators.search import private_search

ROWS = np.random.default_rng(5).uniform(-1.0, 1.0, (240, 2))
LABELS = (ROWS[:, 0] > 0).astype(int)
SIDES = np.repeat(["north", "south"], 120)


def model(**settings):
    given = {"bounds": (-1, 1), "classes": [0, 1], "algorithm": "output-perturbation"}
    return PrivateLogisticRegression(1.0, 1e-6, **given | settings)


def a_statistic(folder):
    ledger = unisono.open_ledger(folder / "own.ledger", "own", 1.0, seed=3)
    found = unisono.mean(ROWS[:, 0], bounds=(-1, 1), epsilon=0.5, ledger=ledger)
    ledger.close()
    return found.to_json(), (folder / "own.ledger").read_bytes()


def a_fit(folder):
    found = model(random_state=3).fit(ROWS, LABELS, parties=SIDES)
    return found.coef_.tolist(), found.certificate_.to_json()


def a_choice(folder):
    found = private_search([model(), model()], ROWS, LABELS, epsilon=1.0, random_state=3)
    return found.position, found.ledger.head


def a_search(folder, **how):
    settings = {"epsilon": 4.0, "delta": 1e-6, "random_state": 3, **how}
    found = PrivateSearch(model(), {"regularisation": [0.1, 1.0]}, **settings)
    found.fit(ROWS, LABELS, SIDES)
    best = found.best_estimator_
    return best.coef_.tolist(), found.certificate_.to_json(), best.certificate_.to_json()


def a_search_at_random(folder):
    return a_search(folder, method="random-stopping", holdout=0.25)


def a_query(folder):
    for side in ("north", "south"):
        lines = [f"{value:.3f}" for value in ROWS[np.equal(SIDES, side), 1]]
        (folder / f"{side}.csv").write_text("\n".join(["x", *lines]) + "\n")
    files = [str(folder / f"{side}.csv") for side in ("north", "south")]
    asked = ["--mean", "x", "--bounds", "x=-1:1", "--epsilon", "1", "--budget", "2", "--seed", "3"]
    done = CliRunner().invoke(cli.app, ["query", *files, *asked, "--json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout.replace(str(folder), ""))


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "entrance", [a_statistic, a_fit, a_choice, a_search, a_search_at_random, a_query]
)
def test_a_simulation_is_the_same_decades_later(tmp_path, set_ahead, entrance):
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    first = entrance(tmp_path / "first")
    set_ahead()
    assert entrance(tmp_path / "second") == first
