"""The local solver: its certificate is true, and it reaches the public tolerance."""

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from unisono.problems.losses import LOSSES, loss_named
from unisono.releases import solver


def records(n=200, d=6, seed=0, classes=2):
    generator = np.random.default_rng(seed)
    rows = generator.normal(size=(n, d)) * 0.8
    direction = generator.normal(size=(d, classes))
    scores = rows @ direction + 0.3 * generator.normal(size=(n, classes))
    labels = scores.argmax(1).astype(float)
    return rows.astype(np.float32), labels.astype(np.float32)


@lru_cache
def compiled(name, shape, regularisation, tolerance):
    @jax.jit
    def run(rows, labels, mask, tilt):
        count = float(len(rows))
        return solver.minimise(
            loss_named(name), rows, labels, mask, count, regularisation, shape, tolerance, tilt
        )

    return run


def solve(name, rows, labels, mask=None, regularisation=1e-3, tolerance=1e-8, tilt=None):
    shape = (rows.shape[1], 3) if name == "multinomial" else (rows.shape[1],)
    mask = np.ones(len(rows), bool) if mask is None else mask
    tilt = np.zeros(shape) if tilt is None else tilt
    with jax.enable_x64(True):
        run = compiled(name, shape, regularisation, tolerance)
        solution = run(np.float32(rows), np.float32(labels), mask, tilt)
        return np.asarray(solution.parameters), float(np.asarray(solution.certified))


def signed(name, labels):
    return labels if name == "multinomial" else 2 * (labels > 0) - 1.0


@pytest.mark.parametrize("regularisation", [pytest.param(1e-1, marks=pytest.mark.slow), 1e-3])
@pytest.mark.parametrize("name", LOSSES)
def test_reaches_the_tolerance_and_the_certificate_is_true(name, regularisation):
    """The gradient is recomputed in extended precision by independent formulas."""
    rows, labels = records(classes=3 if name == "multinomial" else 2)
    labels = signed(name, labels)
    point, certified = solve(name, rows, labels, regularisation=regularisation)
    assert certified <= 1e-8
    wide = rows.astype(np.longdouble)
    wide /= np.maximum(1, np.sqrt((wide**2).sum(1, keepdims=True)))
    scores, y = wide @ point.astype(np.longdouble), labels.astype(np.longdouble)
    if name == "multinomial":
        powers = np.exp(scores - scores.max(1, keepdims=True))
        slopes = powers / powers.sum(1, keepdims=True) - np.eye(3)[labels.astype(int)]
    elif name == "logistic":
        slopes = -y / (1 + np.exp(y * scores))
    elif name == "squares":
        slopes = scores - y
    else:
        slopes = -y * np.clip((1.5 - y * scores), 0, 1)
    true = np.linalg.norm(
        (wide.T @ slopes / len(rows) + regularisation * point).ravel().astype(float)
    )
    assert true <= certified
    assert np.linalg.norm(point) <= solver.radius(LOSSES[name], regularisation, 3)


def test_many_parameters_use_nesterov_and_reach_the_tolerance():
    generator = np.random.default_rng(1)
    rows = generator.normal(size=(40, solver.NEWTON_PARAMETERS + 1)).astype(np.float32)
    labels = generator.choice([-1.0, 1.0], 40).astype(np.float32)
    tolerance = 1e-6
    assert solver.steps_needed(LOSSES["logistic"], rows.shape[1], 1e-2, tolerance) > 16
    assert solve("logistic", rows, labels, regularisation=1e-2, tolerance=tolerance)[1] <= tolerance


def test_separable_data_and_one_class_only_are_solved():
    rows, _ = records()
    for labels in (np.ones(200), np.where(rows[:, 0] > 0, 1.0, -1.0)):
        for name in ("logistic", "huber-svm"):
            found = solve(name, rows, labels.astype(np.float32), regularisation=1e-6)
            assert found[1] <= 1e-8


def test_masked_and_not_finite_rows_count_as_zero():
    rows, labels = records()
    labels = signed("logistic", labels)
    broken, mask = rows.copy(), np.ones(200, bool)
    broken[3], broken[7, 2], mask[11] = np.nan, np.inf, False
    zeroed = rows.copy()
    zeroed[[3, 7, 11]] = 0
    first, second = solve("logistic", broken, labels, mask), solve("logistic", zeroed, labels)
    assert first[0] == pytest.approx(second[0], abs=1e-9)


def test_the_certificate_notices_a_point_that_is_not_the_minimiser():
    rows, labels = records()
    with jax.enable_x64(True):
        wide = jnp.asarray(rows, np.float64) / 4
        problem = solver.Problem(
            LOSSES["logistic"],
            wide,
            jnp.asarray(signed("logistic", labels), np.float64),
            np.ones(200, bool),
            jnp.float64(200.0),
            1e-3,
            jnp.zeros(6, np.float64),
        )
        away = float(jnp.linalg.norm(solver.gradient(problem, jnp.full(6, 5.0))))
        assert away > 0.01
        assert float(solver.rounding(problem, jnp.full(6, 5.0))) < 1e-12


def test_a_tilt_moves_the_minimiser_as_it_must():
    """grad J = 0 means mean gradient + λ θ = -b."""
    rows, labels = records()
    labels, tilt = signed("logistic", labels), np.array([0.1, -0.2, 0.0, 0.3, 0.0, 0.0])
    plain, _ = solve("logistic", rows, labels)
    tilted, certified = solve("logistic", rows, labels, tilt=tilt)
    assert certified <= 1e-8
    assert (tilted - plain) @ tilt < 0
