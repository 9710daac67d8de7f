"""Projections: nearest points, by a quadratic program; and the algorithms that use them."""

import math

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize

from unisono.algorithms.projections import ConvexSet, convex_set, uniform_point
from unisono.algorithms.sgd_synchronous import convex_step
from unisono.core.study import Study
from unisono.core.trust import Trust
from unisono.engines import in_process
from unisono.errors import InvalidInput

from .. import methods
from .test_convex_sgd import FACTS, SIZES, members, toy

NAMES = ("ball", "box", "simplex", "l1-ball")


def inside(name, point, radius, slack=1e-5):
    match name:
        case "ball":
            return np.linalg.norm(point) <= radius + slack
        case "box":
            return np.abs(point).max() <= radius + slack
        case "simplex":
            return point.min() >= -slack and abs(point.sum() - radius) <= slack
        case "l1-ball":
            return np.abs(point).sum() <= radius + slack


def nearest(name, point, radius):
    """By a quadratic program in (u, v), θ = u - v: a solver that knows nothing of thresholds."""
    p = len(point)
    constraints = {
        "ball": [{"type": "ineq", "fun": lambda z: radius**2 - ((z[:p] - z[p:]) ** 2).sum()}],
        "box": [{"type": "ineq", "fun": lambda z: radius - np.abs(z[:p] - z[p:])}],
        "simplex": [
            {"type": "eq", "fun": lambda z: (z[:p] - z[p:]).sum() - radius},
            {"type": "ineq", "fun": lambda z: z[:p] - z[p:]},
        ],
        "l1-ball": [{"type": "ineq", "fun": lambda z: radius - z.sum()}],
    }[name]
    found = minimize(
        lambda z: ((z[:p] - z[p:] - point) ** 2).sum(),
        np.full(2 * p, radius / (4 * p)),
        bounds=[(0, None)] * (2 * p),
        constraints=constraints,
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-14},
    )
    return found.x[:p] - found.x[p:]


@pytest.mark.parametrize("name", NAMES)
def test_projections_are_nearest_points(name):
    generator = np.random.default_rng(0)
    for p in (2, 5) * 6:
        radius = float(generator.uniform(0.3, 3))
        point = generator.normal(size=p) * generator.choice([0.1, 1.0, 4.0])
        project = convex_set(name, radius, p).project
        found = np.asarray(project(jnp.asarray(point, jnp.float32)))
        assert inside(name, found, radius)
        assert found == pytest.approx(nearest(name, point, radius), abs=2e-3)
        assert np.asarray(project(found)) == pytest.approx(found, abs=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_no_point_of_the_set_is_nearer(name):
    """Against many points drawn from the set, in more dimensions than a solver likes."""
    generator, p, radius = np.random.default_rng(1), 40, 1.7
    point = generator.normal(size=p)
    found = np.asarray(convex_set(name, radius, p).project(jnp.asarray(point, jnp.float32)))
    assert inside(name, found, radius, 1e-4)
    # The angle at the projection is never acute, which characterises it (Hilbert's theorem).
    for seed in range(200):
        other = uniform_point(name, radius, p, seed)
        assert inside(name, other, radius)
        assert (point - found) @ (other - found) <= 1e-4


@pytest.mark.parametrize("name", NAMES)
def test_sizes_of_sets_are_reached_and_not_exceeded(name):
    p, radius = 3, 2.0
    known = convex_set(name, radius, p)
    corners = {
        "ball": np.eye(p)[[0, 0]] * [[radius], [-radius]],
        "box": np.full((2, p), radius) * [[1.0], [-1.0]],
        "simplex": radius * np.eye(p)[:2],
        "l1-ball": np.eye(p)[[0, 0]] * [[radius], [-radius]],
    }[name]
    assert np.linalg.norm(corners[0] - corners[1]) == pytest.approx(known.diameter)
    assert np.linalg.norm(corners, axis=1).max() == pytest.approx(known.largest_norm)
    drawn = np.array([uniform_point(name, radius, p, seed) for seed in range(100)])
    apart = np.linalg.norm(drawn[:, None] - drawn[None], axis=2).max()
    assert 0.5 * known.diameter < apart <= known.diameter
    assert np.linalg.norm(drawn, axis=1).max() <= known.largest_norm * (1 + 1e-12)


def test_points_are_drawn_uniformly():
    """Of 4000 points each: P(|θ| <= R/2) is 2^-p of a ball or an l1-ball, and each coordinate of a
    simplex exceeds R/2 with 2^(1-p). Five standard errors: a false alarm once in 10^6."""
    p, shares = 3, {"ball": 1 / 8, "l1-ball": 1 / 8, "simplex": 1 / 4}
    for name, share in shares.items():
        drawn = np.array([uniform_point(name, 2.0, p, seed) for seed in range(4000)])
        sizes = {
            "ball": np.linalg.norm(drawn, axis=1) <= 1,
            "l1-ball": np.abs(drawn).sum(axis=1) <= 1,
            "simplex": drawn[:, 0] >= 1,
        }[name]
        assert abs(sizes.mean() - share) < 5 * math.sqrt(share * (1 - share) / 4000)


LEARNERS = {
    "sgd1": lambda **settings: methods.sgd_sequential(8.0, 1e-5, steps=60, **settings),
    "sgd2": lambda **settings: methods.sgd_synchronous(8.0, 1e-5, rounds=10, **settings),
    "dp-sgd-convex": lambda **settings: methods.dp_sgd_convex(
        8.0, 1e-5, rounds=10, sampling_rate=0.5, learning_rate=20.0, **settings
    ),
}


@pytest.mark.parametrize(
    ("learner", "name"),
    [
        ("sgd1", "simplex"),
        ("sgd1", "box"),
        ("sgd2", "simplex"),
        ("sgd2", "l1-ball"),
        ("dp-sgd-convex", "ball"),
        ("dp-sgd-convex", "box"),
    ],
)
def test_every_iterate_stays_in_the_set_and_costs_nothing(learner, name):
    study = Study(LEARNERS[learner](projection=name, radius=0.5), FACTS, Trust.LOCAL)
    result = in_process.run(study, members(toy()))
    iterates = [m.value for m in result.transcript.messages if m.name == "public"]
    assert all(inside(name, point, 0.5, 1e-4) for point in [*iterates, result.value])
    ball = Study(LEARNERS[learner](projection="ball", radius=0.5), FACTS, Trust.LOCAL)
    assert study.costs == ball.costs


@pytest.mark.parametrize("learner", LEARNERS)
def test_a_set_of_ones_own(learner):
    """Weights that are not negative and at most 1: post-processing, and part of what is agreed."""
    own = ConvexSet(lambda point: jnp.clip(point, 0.0, 1.0), math.sqrt(3.0), math.sqrt(3.0))
    other = ConvexSet(lambda point: jnp.clip(point, 0.0, 2.0), math.sqrt(3.0), math.sqrt(3.0))
    study = Study(LEARNERS[learner](own_set=own), FACTS, Trust.LOCAL)
    result = in_process.run(study, members(toy()))
    assert result.value.min() >= 0
    assert result.value.max() <= 1
    assert study.algorithm.settings["own_set"]["diameter"] == math.sqrt(3.0)
    hashes = {study.hash, Study(LEARNERS[learner](own_set=other), FACTS, Trust.LOCAL).hash}
    assert len(hashes | {Study(LEARNERS[learner](), FACTS, Trust.LOCAL).hash}) == 3
    wrong = ConvexSet(lambda point: point[:2], 1.0, 1.0)
    with pytest.raises(InvalidInput, match="keeps their shape"):
        Study(LEARNERS[learner](own_set=wrong), FACTS, Trust.LOCAL)


def test_a_set_without_a_size_is_refused():
    for diameter, largest in ((0.0, 1.0), (1.0, math.inf), (math.nan, 1.0)):
        with pytest.raises(InvalidInput):
            ConvexSet(lambda point: point, diameter, largest)


def test_sgd2_returns_the_last_iterate_or_the_average():
    found = {}
    for iterate in ("average", "last"):
        method = methods.sgd_synchronous(8.0, 1e-5, rounds=6, iterate=iterate)
        study = Study(method, FACTS, Trust.LOCAL)
        study.__dict__["hash"] = "the same noise"
        result = in_process.run(study, members(toy()))
        found[iterate] = result.value
    said = {
        name: [m.value for m in result.transcript.messages if m.name == name]
        for name in ("public", "sum")
    }
    assert found["average"] == pytest.approx(np.mean(said["public"], axis=0), abs=1e-5)
    event = study.algorithm.event(FACTS, Trust.LOCAL)
    step = convex_step(method.config, sum(SIZES), 3, 3 * event.noise.std**2)
    moved = said["public"][-1] - step * said["sum"][-1] * study.algorithm.grid(FACTS, Trust.LOCAL)
    moved *= min(1.0, 5.0 / np.linalg.norm(moved))
    assert found["last"] == pytest.approx(moved, abs=1e-5)
    assert not np.allclose(found["last"], found["average"], atol=1e-3)
    assert methods.sgd_synchronous(8.0, 1e-5).config.iterate == "average"
