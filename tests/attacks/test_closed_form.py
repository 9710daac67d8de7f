"""Records and labels without any search."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unisono.attacks import closed_form
from unisono.attacks.defences import Nothing
from unisono.attacks.scoring import match
from unisono.attacks.victim import Victim
from unisono.errors import InvalidInput
from unisono.problems.networks import mlp

RELU = mlp(8, (64,), 5, "relu")
PARAMETERS = RELU.init(jax.random.key(4))


def _update(rows, labels):
    victim = Victim(RELU.loss, PARAMETERS, rows, labels)
    return Nothing().observe(victim, np.random.default_rng(0)).update


def _batch(size, seed):
    generator = np.random.default_rng(seed)
    return generator.normal(size=(size, 8)).astype(np.float32), generator.integers(5, size=size)


def test_one_record_is_a_quotient():
    rows, labels = _batch(1, 1)
    layer = _update(rows, labels)["dense0"]
    np.testing.assert_allclose(
        closed_form.one_record(layer["weights"], layer["bias"]), rows[0], rtol=1e-5
    )


def test_units_that_one_record_wakes_betray_it():
    rows, labels = _batch(3, 2)
    layer = _update(rows, labels)["dense0"]
    found = closed_form.lone_records(layer["weights"], layer["bias"])
    assert match(found, rows).errors.max() < 1e-5
    strict = closed_form.lone_records(layer["weights"], layer["bias"], units=1000)
    assert strict.shape == (0, 8)


def test_records_lie_in_the_span_of_the_weight_gradient():
    rows, labels = _batch(3, 2)
    basis = closed_form.span(_update(rows, labels)["dense0"]["weights"], 3)
    assert basis.shape == (8, 3)
    np.testing.assert_allclose(rows @ basis @ basis.T, rows, atol=1e-4)
    others = _batch(3, 7)[0]
    assert np.abs(others @ basis @ basis.T - others).max() > 0.1


@pytest.mark.parametrize("seed", range(5))
def test_the_bias_gradient_counts_the_labels(seed):
    """Exact where the average prediction is known."""
    rows, labels = _batch(6, seed)
    gradient = _update(rows, labels)["dense1"]["bias"]
    expected = jax.nn.softmax(RELU.predict(PARAMETERS, jnp.asarray(rows))).mean(axis=0)
    np.testing.assert_array_equal(closed_form.labels(gradient, 6, expected), np.sort(labels))
    alone = _update(rows[:1], labels[:1])["dense1"]["bias"]
    assert closed_form.labels(alone, 1)[0] == labels[0]


def test_what_says_nothing_is_refused():
    with pytest.raises(InvalidInput, match="bias gradient is zero"):
        closed_form.one_record(np.zeros((3, 2)), np.zeros(2))
    with pytest.raises(InvalidInput, match="one dense layer"):
        closed_form.one_record(np.zeros((3, 2)), np.zeros(3))
    with pytest.raises(InvalidInput, match="at least one record"):
        closed_form.labels(np.zeros(3), 0)
