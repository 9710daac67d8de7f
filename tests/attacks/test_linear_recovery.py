"""Linear networks give XᵀX and Xᵀy away (E002-12)."""

import jax
import numpy as np
import pytest

from unisono.attacks import linear_recovery
from unisono.attacks.defences import Nothing
from unisono.attacks.victim import Victim
from unisono.errors import InvalidInput
from unisono.problems.networks import two_layer

FEATURES, UNITS, RECORDS = 6, 9, 5
NETWORK = two_layer(FEATURES, UNITS, "identity")
_coins = np.random.default_rng(6)
ROWS = _coins.normal(size=(RECORDS, FEATURES))
ROWS[:, 2] = (np.arange(RECORDS) == 3) * 1.0  # a binary column, true for one person
TARGETS = _coins.normal(size=RECORDS)


def _rounds(count, leaves=("hidden", "output")):
    """Parameters and mean gradients of `count` rounds of training by gradient descent, in 64 bits:
    the server restarts the network each time, as it may."""
    with jax.enable_x64(True):
        states = [
            {
                name: np.asarray(leaf, float)
                for name, leaf in NETWORK.init(jax.random.key(k)).items()
            }
            for k in range(count)
        ]
        victims = (Victim(NETWORK.loss, state, ROWS, TARGETS) for state in states)
        updates = [Nothing().observe(victim, np.random.default_rng(0)).update for victim in victims]
        return states, [{name: np.asarray(u[name]) for name in leaves} for u in updates]


@pytest.mark.parametrize("leaves", [("hidden",), ("output",), ("hidden", "output")])
def test_d_plus_one_rounds_give_the_statistics_exactly(leaves):
    found = linear_recovery.from_rounds(*_rounds(FEATURES + 1, leaves), RECORDS)
    np.testing.assert_allclose(found.gram, ROWS.T @ ROWS, atol=1e-10)
    np.testing.assert_allclose(found.moment, ROWS.T @ TARGETS, atol=1e-10)
    assert found.misfit < 1e-10


def test_whoever_knows_the_others_learns_the_last_record():
    found = linear_recovery.from_rounds(*_rounds(FEATURES + 1), RECORDS)
    last = linear_recovery.last_record(found, ROWS[:-1], TARGETS[:-1])
    sign = np.sign(last.row @ ROWS[-1])
    np.testing.assert_allclose(sign * last.row, ROWS[-1], atol=1e-8)
    assert sign * last.target == pytest.approx(TARGETS[-1], abs=1e-8)


def test_a_column_of_one_person_is_that_persons_record():
    found = linear_recovery.from_rounds(*_rounds(FEATURES + 1), RECORDS)
    person = linear_recovery.singled_out(found, 2)
    np.testing.assert_allclose(person.row, ROWS[3], atol=1e-9)
    assert person.target == pytest.approx(TARGETS[3], abs=1e-9)
    with pytest.raises(InvalidInput, match="one is needed"):
        linear_recovery.singled_out(found, 0)


def test_d_rounds_are_too_few():
    with pytest.raises(InvalidInput, match="wait for 7 affinely independent"):
        linear_recovery.from_rounds(*_rounds(FEATURES), RECORDS)


def test_a_batch_that_changed_shows_as_misfit():
    states, updates = _rounds(FEATURES + 2)
    updates[3] = {name: 1.1 * leaf for name, leaf in updates[3].items()}
    assert linear_recovery.from_rounds(states, updates, RECORDS).misfit > 1e-3


def test_small_steps_between_rounds_are_enough():
    """Rounds of a slow descent: directions that differ by 1e-3 still give eight digits."""
    steps = 1e-3 * np.random.default_rng(1).normal(size=(FEATURES + 1, FEATURES))
    directions = 1.0 + steps
    sums = (directions @ ROWS.T - TARGETS) @ ROWS
    found = linear_recovery.statistics(directions, sums)
    np.testing.assert_allclose(found.gram, ROWS.T @ ROWS, atol=1e-8)


def test_a_narrow_hidden_layer_hides_from_the_output_gradient():
    with pytest.raises(InvalidInput, match="does not have rank 6"):
        linear_recovery.sum_of_residuals(np.ones((6, 2)), np.ones(2), {"output": np.ones(2)}, 1)


def test_nothing_left_is_said():
    with pytest.raises(InvalidInput, match="no record is left"):
        linear_recovery.record_of(-np.eye(2), np.zeros(2))
