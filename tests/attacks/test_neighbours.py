"""The neighbour fuzzer: before the noise, one record moves no release further than is claimed.

`make test` tries 20,000 pairs, `make test-slow` a million. A failure is a proof, not a statistic:
the pair that is printed is further apart than the event that would pay for it says. (That records
on the very edge of rounding stay where they are is tried in tests/engines/test_layout.py.)
"""

import os

import jax.numpy as jnp
import numpy as np
import pytest

from unisono.algorithms import blocks, clipping
from unisono.attacks import neighbours
from unisono.attacks.neighbours import search
from unisono.core import values
from unisono.core.sensitivity import Sensitivity
from unisono.core.trust import Trust
from unisono.engines import layout
from unisono.engines.distributed import work

from .neighbour_cases import FEATURES, RECORDS, cases, study_of

CASES = {name: rest for name, *rest in cases()}
# Solvers and long correlated runs take many times as long as sums.
HEAVY = {"output-perturbation-hidden": 40, "output-perturbation-public": 150, "dp-ftrl-public": 60,
         "dp-ftrl-hidden": 60}  # fmt: skip
FAST, SLOW = 600, 28_000
# Places that are full leave records out, and tell their owner.
pytestmark = pytest.mark.filterwarnings("ignore:party 0 holds:UserWarning")


def test_there_are_enough_pairs_and_few_enough_programs():
    assert sum(HEAVY.get(name, FAST) for name in CASES) >= 20_000
    assert sum(SLOW * HEAVY.get(name, FAST) // FAST for name in CASES) >= 1_000_000 - 40 * FAST
    assert len(CASES) <= 40


def fuzzed(name, pairs, seed):
    build, facts, shapes = CASES[name]
    study, relations = study_of(build, facts)
    slack = 2.0 if study.algorithm.batch is not None else 0.0  # two blocks of floats
    found = search(study, shapes, relations, pairs, seed, name, slack)
    return [str(pair) for pair in found if pair is not None]


@pytest.mark.parametrize("name", CASES)
def test_no_pair_of_neighbours_is_further_apart_than_claimed(name):
    assert fuzzed(name, HEAVY.get(name, FAST), seed=1) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_nor_is_any_of_a_million(name):
    seed = int(os.environ.get("UNISONO_FUZZ_SEED", "2"))
    assert fuzzed(name, SLOW * HEAVY.get(name, FAST) // FAST, seed) == []


# ------------------------------------------------- bugs that it has to notice


def caught(name, pairs=300, seed=3):
    build, facts, shapes = CASES[name]
    study, relations = study_of(build, facts)
    slack = 2.0 if study.algorithm.batch is not None else 0.0
    found = search(study, shapes, relations, pairs, seed, name, slack)
    return next((pair for pair in found if pair is not None), None)


def test_a_clip_that_is_twice_as_wide_is_noticed(monkeypatch):
    honest = values._clipped_steps
    monkeypatch.setattr(
        values, "_clipped_steps",
        lambda rows, clip, grid, mask=None: honest(rows, 2 * clip, grid, mask),
    )  # fmt: skip
    assert caught("gradient-perturbation-public")


@pytest.mark.parametrize("name", ["gradient-perturbation-public", "moments-public"])
def test_half_the_sensitivity_is_noticed(monkeypatch, name):
    """The claim of one record zeroed out, made for one replaced."""

    def halved(unit, replace_one=None, zero_out=None, add_or_remove=None):
        return Sensitivity(unit, zero_out, zero_out, add_or_remove)

    monkeypatch.setattr(values, "Sensitivity", halved)
    monkeypatch.setattr(blocks, "Sensitivity", halved)
    blocks._plan.cache_clear()
    try:
        assert caught(name)
    finally:
        blocks._plan.cache_clear()


def test_records_that_displace_each_other_are_noticed(monkeypatch):
    """Hidden sizes, more records than places: an added record took another one's."""
    everything = layout.chosen_rows

    def displaced(study, draw, event, records):
        return [rows[: study.algorithm.batch(study.facts)] for rows in
                everything(study, draw, event, records)]  # fmt: skip

    monkeypatch.setattr(work, "chosen_rows", displaced)
    found = caught("dp-sgd-hidden", pairs=1500)
    assert found is not None
    assert found.world.size > CASES["dp-sgd-hidden"][1].places


def test_positions_that_coins_are_tossed_for_are_noticed(monkeypatch):
    """A batch in the order of the file: a record that goes shifts all that come after it."""
    everything = layout.chosen_rows

    def in_order(study, draw, event, records):
        return [np.sort(rows) for rows in everything(study, draw, event, records)]

    monkeypatch.setattr(work, "chosen_rows", in_order)
    monkeypatch.setattr(neighbours, "NORMS", ())
    assert caught("dp-sgd-small-blocks-hidden", pairs=2000)


def test_a_norm_that_overflows_is_noticed(monkeypatch):
    """Squares of huge norms are infinite: a weight of zero where there should be a clip, or worse;
    here the clip is simply trusted to a norm of one coordinate."""
    honest = clipping._weights

    def first_layer_only(rule, norms, bounds):
        return honest(rule, norms * jnp.array([1.0] + [0.0] * (norms.shape[1] - 1)), bounds)

    monkeypatch.setattr(clipping, "_weights", first_layer_only)
    assert caught("dp-sgd-public")


def test_a_correlated_run_is_compared_as_a_whole():
    """Single messages of DP-FTRL stay far below the claim, all of them together come close."""
    build, facts, shapes = CASES["dp-ftrl-public"]
    study, _ = study_of(build, facts)
    party = neighbours.CleanParty(study)
    assert party.turns == 8
    generator = np.random.default_rng(0)
    world = neighbours.draw_world(generator, study, party.event, shapes)
    long = np.ones((RECORDS, FEATURES), np.float32) * 100
    world = world._replace(columns=(long, np.ones(RECORDS, np.float32)))
    server, state = study.algorithm.init(facts)
    publics = [study.algorithm.ask(server)] * 8
    other = neighbours.silent(world, 5, by_value=True)
    grid = study.algorithm.grid(facts, Trust.LOCAL)
    first, second = (party.releases(w, publics, state)[0] for w in (world, other))
    claim = party.event.sensitivity.zero_out.l2
    whole = neighbours.distances(first, second, grid)["l2"]
    single = max(neighbours.distances(a, b, grid)["l2"] for a, b in zip(first, second, strict=True))
    assert 0.8 * claim < whole <= claim
    assert single < 0.75 * claim
