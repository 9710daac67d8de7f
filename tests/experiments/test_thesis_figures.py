"""The thesis's figures in their quick modes, the gradients behind them, and the data generator."""

import importlib
import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy import integrate, stats

from unisono.algorithms.free_energy import (
    data_free_gradient,
    data_gradients,
    free_energy,
    from_coordinates,
    in_log_variance,
    to_coordinates,
)
from unisono.experiments import clamp_bias, linear_case
from unisono.experiments.climb import ClimbPlan, climb_all
from unisono.problems.gaussian_family import Natural
from unisono.problems.likelihoods import linear, logistic

QUICK = ("fig4_6", "fig4_7", "clamp_bias", "one_shot")
LONGER = ("fig4_1", "fig4_4", "fig4_5", "dataset_level")


def check(name):
    found = importlib.import_module(f"unisono.experiments.{name}").run(quick=True)
    missed = [number for number in found.numbers if not number.as_expected]
    assert not missed
    assert found.name == name
    assert found.remarks
    figure = Figure(figsize=found.size, layout="constrained")
    found.draw(figure)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure.canvas.draw()
    assert figure.axes
    assert all(axes.has_data() for axes in figure.axes)


@pytest.mark.parametrize("name", QUICK)
def test_a_figure_shows_what_it_must(name):
    check(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", LONGER)
def test_a_figure_that_takes_longer_shows_what_it_must(name):
    check(name)


@pytest.mark.slow
def test_the_hybrid_reaches_the_target_at_a_fifth_of_the_price():
    check("hybrid")


@pytest.mark.parametrize("likelihood", [linear(0.5), logistic()])
def test_the_gradient_is_that_of_the_free_energy(likelihood):
    """E003-21: both parts together are the derivative of F in (m, log v), halves included.

    The logistic expectations are quadratures, good to a few parts in ten thousand here.
    """
    with jax.enable_x64(True):
        generator = np.random.default_rng(0)
        rows = jnp.asarray(generator.normal(size=(7, 3)))
        labels = jnp.asarray(np.sign(generator.normal(size=7)))
        cavity = Natural(jnp.asarray(generator.normal(size=3)), jnp.asarray([0.3, 2.0, 0.7]))
        point = jnp.asarray(generator.normal(size=6))

        def climbed(at):
            return free_energy(likelihood, from_coordinates(at), cavity, rows, labels)

        @jax.jit
        def both_parts(q):
            from_data = data_gradients(likelihood, q, rows, labels).sum(0)
            return from_data + data_free_gradient(q, cavity)

        q = from_coordinates(point)
        whole = both_parts(q)
        slope = np.asarray(jax.jit(jax.grad(climbed))(point))
        assert in_log_variance(q, whole) == pytest.approx(slope, rel=1e-3)
        assert to_coordinates(q) == pytest.approx(np.asarray(point))


def test_a_climb_without_noise_ends_at_the_posterior_and_the_printed_one_does_not():
    """E003-21: with the halves KL vanishes; as printed the precision grows for ever."""
    shards = linear_case.thesis_shards([3], 3, 10, 2.0)
    right = ClimbPlan(2e-3, 0.2, clip=1e9, sigma=0.0, rate=1.0, data_only=True)
    start = Natural(np.full((1, 3), 20.0), np.full((1, 3), 10.0))
    found = climb_all([right, right._replace(printed=2.0)], shards, 150, 2, start)
    assert found.kl[0, 0, -1] < 1e-6
    ratio = found.q.precision[1, 0] / linear_case.posterior(shards).precision[0]
    assert ratio[-1] > ratio[-50] > 3


def test_poisson_lots_have_their_rate():
    """20 000 coins at rate 0.1: five standard errors, false-alarm rate below 1e-6."""
    from unisono.experiments.climb import _lots

    plan = ClimbPlan(1.0, 1.0, 1.0, 1.0, rate=0.1)
    lots = np.asarray(_lots(plan, jax.random.key(0), 2000, 10))
    assert lots.mean() == pytest.approx(0.1, abs=0.011)
    one = np.asarray(_lots(plan._replace(poisson=False), jax.random.key(0), 2000, 10))
    assert (one.sum(axis=1) == 1).all()


def test_the_thesis_data_are_the_legacy_streams():
    """Slope first; then each party draws all records afresh, keeps its own, and 400 test draws."""
    shards = linear_case.thesis_shards([7], 2, 3)
    np.random.seed(7)
    slope = np.random.normal(0, 5)
    np.random.randn(6), np.random.randn(6), np.random.randn(400)
    x = np.random.randn(6)
    y = slope * x + 0.5 * np.random.randn(6)
    assert shards.slope[0] == slope
    assert shards.x[0, 1] == pytest.approx(x[3:])
    assert shards.y[0, 1] == pytest.approx(y[3:])


def test_the_other_reading_of_the_prior_scales_the_slopes():
    """N(0, 5) of variance 5 in place of 25: the same streams, slopes smaller by √5."""
    wide = linear_case.thesis_shards([7, 8], 2, 3)
    narrow = linear_case.thesis_shards([7, 8], 2, 3, prior_variance=5.0)
    assert narrow.slope == pytest.approx(wide.slope / np.sqrt(5))
    assert np.array_equal(narrow.x, wide.x)
    gap = linear_case.posterior(narrow, 5.0).precision - linear_case.posterior(narrow).precision
    assert gap == pytest.approx(1 / 5 - 1 / 25)
    with jax.enable_x64(True):
        sums = linear_case.clipped_sums(jnp.asarray(linear_case.records(narrow)), 1e9)
        quiet = jnp.zeros((200, *sums.shape))
        q = linear_case.damped_iteration(sums, quiet, 0.2, "local", prior_variance=5.0)
        last = Natural(q.shift[-1], q.precision[-1])
        assert np.max(linear_case.divergence(last, linear_case.posterior(narrow, 5.0))) < 1e-12


def test_the_clamps_bias_is_the_mean_of_its_law():
    """Equation (4.24) by quadrature: the atom at zero adds nothing to the mean."""
    for total, noise_std in ((1.0, 1.25), (10.0, 5.0), (10.0, 320.0)):
        upper, norm = total + 12 * noise_std, stats.norm(total, noise_std)
        mass = integrate.quad(norm.pdf, 0, upper, epsabs=1e-12)[0]
        assert clamp_bias.atom(total, noise_std) + mass == pytest.approx(1)
        mean = integrate.quad(lambda x, law=norm: x * law.pdf(x), 0, upper, epsabs=1e-12)[0]
        assert clamp_bias.clamp_bias(total, noise_std) == pytest.approx(mean - total, abs=1e-7)


def test_the_iteration_without_noise_ends_at_the_clipped_posterior():
    shards = linear_case.thesis_shards([1, 2], 4, 5)
    with jax.enable_x64(True):
        sums = linear_case.clipped_sums(jnp.asarray(linear_case.records(shards)), 1e9)
        q = linear_case.damped_iteration(sums, jnp.zeros((200, *sums.shape)), 0.2, "sum")
        last = Natural(q.shift[-1], q.precision[-1])
        assert np.max(linear_case.divergence(last, linear_case.posterior(shards))) < 1e-12
