"""Convex losses: gradients by finite differences, constants by random search."""

import jax
import numpy as np
import pytest

from unisono.errors import InvalidInput
from unisono.problems.losses import LOSSES, bounded_records, loss_named

CLASSES = 4


def problem(name, generator, n=60, d=5, spread=6.0):
    rows = generator.normal(size=(n, d))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    shape = (d, CLASSES) if name == "multinomial" else (d,)
    parameters = spread * generator.normal(size=shape)
    if name == "multinomial":
        labels = generator.integers(0, CLASSES, n).astype(float)
    elif name == "squares":
        labels = generator.uniform(-1, 1, n)
    else:
        labels = generator.choice([-1.0, 1.0], n)
    return parameters, rows, labels


@pytest.mark.parametrize("name", LOSSES)
def test_gradients_by_finite_differences(name, generator):
    loss = loss_named(name)
    with jax.enable_x64(True):
        parameters, rows, labels = problem(name, generator)
        exact = np.asarray(loss.gradients(parameters, rows, labels))
        step = 1e-6
        for index in np.ndindex(parameters.shape):
            moved = np.zeros_like(parameters)
            moved[index] = step
            up = np.asarray(loss.values(parameters + moved, rows, labels))
            down = np.asarray(loss.values(parameters - moved, rows, labels))
            assert exact[(slice(None), *index)] == pytest.approx((up - down) / (2 * step), abs=2e-6)


@pytest.mark.parametrize("name", [name for name in LOSSES if LOSSES[name].curvatures])
def test_curvatures_are_derivatives_of_slopes(name, generator):
    loss = loss_named(name)
    with jax.enable_x64(True):
        scores = np.linspace(-3, 3, 400) + 1e-3
        labels = generator.choice([-1.0, 1.0], 400)
        up, down = loss.slopes(scores + 1e-6, labels), loss.slopes(scores - 1e-6, labels)
        assert np.asarray(loss.curvatures(scores, labels)) == pytest.approx(
            np.asarray(up - down) / 2e-6, abs=1e-5
        )


@pytest.mark.parametrize("name", LOSSES)
def test_constants_bound_a_random_search_and_are_nearly_attained(name, generator):
    """Gradient norms and the slopes' rate of change, over wild parameters."""
    loss = loss_named(name)
    with jax.enable_x64(True):
        lengths, rates = [], []
        for spread in (0.0, 0.1, 1.0, 30.0):
            parameters, rows, labels = problem(name, generator, n=400, spread=spread)
            gradients = np.asarray(loss.gradients(parameters, rows, labels)).reshape(400, -1)
            lengths.append(np.linalg.norm(gradients, axis=1).max())
            direction = generator.normal(size=parameters.shape)
            direction *= 1e-4 / np.linalg.norm(direction)
            after = np.asarray(loss.gradients(parameters + direction, rows, labels))
            moved = np.linalg.norm(after.reshape(400, -1) - gradients, axis=1)
            rates.append(moved.max() / 1e-4)
        if np.isfinite(loss.lipschitz):
            assert 0.9 * loss.lipschitz < max(lengths) <= loss.lipschitz * (1 + 1e-9)
        assert 0.3 * loss.smoothness < max(rates) <= loss.smoothness * (1 + 1e-6)


@pytest.mark.parametrize("name", [name for name in LOSSES if LOSSES[name].one_signed])
def test_slopes_keep_their_sign(name):
    scores = np.linspace(-50, 50, 2001)
    for label in (-1.0, 1.0):
        slopes = np.asarray(LOSSES[name].slopes(scores, np.full(2001, label)))
        assert (slopes * label <= 0).all()


def test_records_are_bounded_one_by_one(generator):
    rows = np.array([[3.0, 4.0], [0.3, 0.4], [np.nan, 0.1], [1e30, 1e30], [0.1, 0.2], [1.0, 0.0]])
    labels = np.array([7.0, -1.0, 1.0, 1.0, np.inf, -3.0])
    mask = np.array([True, True, True, True, True, False])
    bounded, marks, keep = bounded_records(LOSSES["logistic"], rows, labels, mask)
    assert keep.tolist() == [True, True, False, True, False, False]
    assert np.asarray(bounded[0]) == pytest.approx([0.6, 0.8], rel=1e-6)
    assert np.asarray(bounded[1]) == pytest.approx([0.3, 0.4], rel=1e-6)
    assert np.asarray(bounded[3]) == pytest.approx([0.5**0.5] * 2, rel=1e-6)
    assert np.asarray(bounded)[[2, 4, 5]].tolist() == [[0.0, 0.0]] * 3
    assert np.abs(np.asarray(marks)).max() <= 1
    wild = generator.normal(size=(500, 7)) * np.exp(5 * generator.normal(size=(500, 1)))
    with jax.enable_x64(True):
        inside = bounded_records(LOSSES["logistic"], wild, np.ones(500), np.ones(500, bool))[0]
        assert np.linalg.norm(np.asarray(inside), axis=1).max() <= 1 + 1e-14


def test_classes_are_not_cut():
    labels = np.array([0.0, 3.0, 9.0])
    rows = np.zeros((3, 2))
    marks = bounded_records(LOSSES["multinomial"], rows, labels, np.ones(3, bool))[1]
    assert np.asarray(marks).tolist() == [0.0, 3.0, 9.0]


def test_unknown_losses_are_refused():
    with pytest.raises(InvalidInput, match="choose one of logistic"):
        loss_named("hinge")
