"""The short form of `benchmarks/soak.py`: a study in which everything fails, again and again."""

import importlib
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"
KINDS = {
    "failed system calls",
    "party cut off",
    "party killed",
    "party's disk full",
    "request late",
    "server ended for its full disk",
    "server killed",
    "server's disk full",
}


@pytest.fixture
def soak(monkeypatch):
    """With faults ten times as often, so that a few rounds meet all of them."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    module = importlib.import_module("soak")
    often = module.Chances(0.015, 0.015, 0.015, 0.015, 0.04, 0.03)
    monkeypatch.setattr(module, "Chances", lambda: often)
    return module


def test_through_all_faults_nothing_is_lost_and_nothing_is_paid_twice(soak, tmp_path):
    found = soak.soak(tmp_path, rounds=20, parties=5, seed=7)
    assert set(found["faults"]) == KINDS
    assert found["opened"] + found["left out"] == 20
    assert found["opened"] >= 5


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_through_the_faults_of_a_day(soak, tmp_path, seed):
    found = soak.soak(tmp_path, rounds=300, parties=6, seed=seed)
    assert found["slope"] < 100.0  # kB a round, with faults ten times as often
