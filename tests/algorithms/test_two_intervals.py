"""Both intervals of means, medians and quantiles hold: for these records, and for the population.

The designs were written down before the intervals were first computed, and are none of those that
the method was developed on. After a first run with trees of 16^3 leaves, the shape 5^5 was chosen
by its computed variance (widths with 4^6 had been seen on `stays` and `pressures`), every design
got its own seeds, and the limit of widths was made to allow for leaves. The formulas were not
changed. Central simulation: one party's sums with noise of the law that epsilon 1 and delta 1e-6
need, read as the product reads them.
"""

from functools import cache

import numpy as np
import pytest
from scipy import stats

from unisono.algorithms.quantiles import Tree, read_quantile, tree_shape
from unisono.algorithms.readings import Noisy, read_moments, read_proportions
from unisono.mechanisms.gaussian import GaussianSum
from unisono.mechanisms.laplace import LaplaceSum

MULTIPLIER = 4.224678889  # Gaussian noise for an l2 sensitivity of 1 at epsilon 1, delta 1e-6
SIZES = (200, 2_000, 20_000)
ROOT = np.sqrt(2.0)


def stays(generator, n):
    return np.clip(generator.gamma(1.5, 4.0, n), 0, 60)


def pressures(generator, n):
    return np.clip(120 + 12 * generator.standard_t(4, n), 40, 260)


def doses(generator, n):
    return np.exp(generator.uniform(0, 5, n))


def costs(generator, n):
    return np.clip(np.where(generator.random(n) < 0.3, 0.0, 20 * generator.weibull(1.3, n)), 0, 200)


def visits(generator, n):
    return np.clip(generator.negative_binomial(3, 0.2, n), 0, 100).astype(float)


def opinions(generator, n):
    return generator.choice(5, n, p=[0.05, 0.1, 0.15, 0.3, 0.4]) + 1.0


def extremes(generator, n):
    return 10 * generator.beta(0.4, 0.6, n)


def rare(generator, n):
    return (generator.random(n) < 0.12).astype(float)


# Drawn how, in which public bounds.
MEANS = {
    "stays": (stays, 0.0, 60.0),
    "pressures": (pressures, 40.0, 260.0),
    "opinions": (opinions, 1.0, 5.0),
    "extremes": (extremes, 0.0, 10.0),
    "rare": (rare, 0.0, 1.0),
}
QUANTILES = {
    "stays": (stays, 0.0, 60.0),
    "pressures": (pressures, 40.0, 260.0),
    "doses": (doses, 0.0, 200.0),
    "costs": (costs, 0.0, 200.0),
    "visits": (visits, 0.0, 100.0),
}


def opened(values, law, generator, n, exact=True):
    noise = generator.normal(0, law.std, values.shape)
    if not law.gaussian:
        noise = generator.laplace(0, law.scale, values.shape)
    return Noisy(values + noise, law, np.zeros(values.shape[1]), n, exact)


def mean_noise(values, low, high, generator, law, hidden=False):
    u = (values - (low + high) / 2) / ((high - low) / 2)
    sums = [u.sum(), (ROOT * (u * u - 0.75)).sum()]
    row = np.array([[float(len(u)), *sums] if hidden else sums])
    return opened(row, law, generator, len(u), not hidden)


@cache
def population(draw):
    return np.sort(draw(np.random.default_rng(1), 2_000_000))


def mean_coverage(design, n, runs, law=None, hidden=False, first=0):
    """Shares of both intervals that hold, the median width of the second, and without privacy."""
    draw, low, high = MEANS[design]
    law = GaussianSum(2 * MULTIPLIER) if law is None else law
    truth = population(draw).mean()
    held, widths = [], []
    for run in range(first, first + runs):
        generator = np.random.default_rng([7, n, run, list(MEANS).index(design)])
        values = draw(generator, n)
        noisy = mean_noise(values, low, high, generator, law, hidden)
        about = ("x", (), (low + high) / 2, (high - low) / 2, ("mean",), False, True)
        [found] = read_moments(*about, noisy, 0.05, None)
        (a, b), (c, d) = found.interval, found.population_interval
        held.append((a <= values.mean() <= b, c <= truth <= d))
        widths.append((d - c, 2 * 1.96 * values.std() / np.sqrt(n)))
    return np.mean(held, axis=0), np.median(widths, axis=0)


def nodes_of(values, tree):
    place = (values - tree.low) / (tree.high - tree.low) * tree.leaves
    counts = np.bincount(np.clip(place.astype(int), 0, tree.leaves - 1), minlength=tree.leaves)
    levels = [counts.reshape(tree.branching**k, -1).sum(1) for k in range(1, tree.levels + 1)]
    return np.concatenate(levels).astype(float)[:, None]


def exponential_mechanism(values, share, low, high, generator):
    """The width of the anchor's interval (Drechsler et al. 2022): three draws of epsilon / 3 at
    shifted ranks, for these records, central."""
    points = np.concatenate([[low], np.sort(values), [high]])
    gaps, ranks = np.log(np.maximum(np.diff(points), 1e-12)), np.arange(len(values) + 1)
    shift = 6 * np.log(1 / 0.025)

    def drawn(rank):
        noise = generator.gumbel(size=len(ranks))
        place = np.argmax(gaps - np.abs(ranks - rank) / 6 + noise)
        return generator.uniform(points[place], points[place + 1])

    rank = share * len(values)
    return drawn(min(rank + shift, len(values))) - drawn(max(rank - shift, 0))


def quantile_coverage(design, share, n, runs, law=None, exact=True, first=0):
    """Shares of both intervals that hold; median widths of both and of the anchor."""
    draw, low, high = QUANTILES[design]
    tree = Tree(low, high, *tree_shape(law is not None and not law.gaussian).values())
    law = GaussianSum(np.sqrt(2 * tree.levels) * MULTIPLIER) if law is None else law
    drawn = population(draw)
    truth = drawn[int(np.ceil(share * len(drawn))) - 1]
    held, widths = [], []
    for run in range(first, first + runs):
        generator = np.random.default_rng([8, n, run, list(QUANTILES).index(design)])
        values = draw(generator, n)
        noisy = opened(nodes_of(values, tree), law, generator, n, exact)
        found = read_quantile(noisy, tree, share, 0.05)
        (a, b), (c, d) = found.interval, found.population
        assert c <= a <= found.value <= b <= d
        own = np.quantile(values, share, method="inverted_cdf")
        held.append((a <= own <= b, c <= truth <= d))
        anchor = exponential_mechanism(values, share, low, high, generator)
        widths.append((b - a, d - c, anchor))
    return np.mean(held, axis=0), np.median(widths, axis=0)


def every_mean(runs):
    return {(d, n): mean_coverage(d, n, runs) for d in MEANS for n in SIZES}


def every_quantile(runs):
    return {
        (d, share, n): quantile_coverage(d, share, n, runs)
        for d in QUANTILES
        for share in (0.5, 0.95)
        for n in SIZES
    }


def judged(cells):
    """Every cell's coverage up to chance (four standard errors of 200), and pooled."""
    held = np.array([found for found, _ in cells.values()])
    assert held.mean(axis=0).min() >= 0.94, held.mean(axis=0)
    assert held.min() >= 0.89, {cell: found for cell, (found, _) in cells.items()}


@pytest.mark.slow
def test_both_intervals_of_means_hold():
    cells = every_mean(200)
    judged(cells)
    assert all(w / free <= 1.2 for (_, n), (_, (w, free)) in cells.items() if n == 20_000)


@pytest.mark.slow
def test_both_intervals_of_quantiles_hold_and_are_narrow():
    """At most 2.5 times as wide as the anchor, which no sum can be, and two leaves, to which ends
    are rounded outwards. With ties the anchor's interval is too short to compare with."""
    cells = every_quantile(200)
    judged(cells)
    for (design, *_), (_, (width, _, anchor)) in cells.items():
        _, low, high = QUANTILES[design]
        assert design == "visits" or width <= 2.5 * anchor + 2 * (high - low) / 5**5


@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize("law", [GaussianSum(2 * MULTIPLIER), LaplaceSum(2 * ROOT)])
def test_means_of_a_few_samples(law, hidden):
    """Of 120 intervals for each of 95 %, more than 16 miss with probability below 1e-3."""
    held = np.mean([mean_coverage(d, 2_000, 24, law, hidden)[0] for d in MEANS], axis=0)
    assert held.min() >= 1 - 16 / 120


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("law", [None, LaplaceSum(6.0)])
@pytest.mark.parametrize("share", [0.5, 0.95])
def test_quantiles_of_a_few_samples(law, exact, share):
    held = [quantile_coverage(d, share, 2_000, 20, law, exact)[0] for d in QUANTILES]
    assert np.mean(held, axis=0).min() >= 1 - 14 / 100


def test_the_records_interval_of_a_mean_is_not_about_the_population():
    """The control: what was printed without a label holds the population's mean far too seldom."""
    draw, low, high = MEANS["pressures"]
    truth = population(draw).mean()
    held = []
    for run in range(60):
        generator = np.random.default_rng([9, run])
        noisy = mean_noise(draw(generator, 20_000), low, high, generator, GaussianSum(8.45))
        about = ("x", (), (low + high) / 2, (high - low) / 2, ("mean",), False, True)
        [found] = read_moments(*about, noisy, 0.05, None)
        held.append(found.interval[0] <= truth <= found.interval[1])
    assert np.mean(held) < 0.6


def test_shares_have_the_interval_of_wilson_without_noise():
    noisy = Noisy(np.array([[3.0]]), GaussianSum(1e-9), np.zeros(1), 40, True)
    [found] = read_proportions("p", (), False, noisy, 0.05, None)
    usual = stats.binomtest(3, 40).proportion_ci(method="wilson")
    assert found.population_interval == pytest.approx((usual.low, usual.high), abs=1e-6)
    pair = Noisy(np.array([[37.0], [3.0]]), GaussianSum(1e-9), np.zeros(1), 40, False)
    [found] = read_proportions("p", (), True, pair, 0.05, None)
    assert found.population_interval == pytest.approx((usual.low, usual.high), abs=1e-6)
    sums = np.array([[2 * 3.0 - 40, ROOT / 4 * 40]])
    about = ("x", (), 0.5, 0.5, ("mean",), False, True)
    noisy = Noisy(sums, GaussianSum(1e-9), np.zeros(2), 40, True)
    [found] = read_moments(*about, noisy, 0.05, None)
    assert found.population_interval == pytest.approx((usual.low, usual.high), abs=1e-6)


def test_a_mean_over_a_hidden_size_that_noise_hides_may_be_anything():
    noisy = Noisy(np.array([[5.0, 1.0, 0.0]]), GaussianSum(8.0), np.zeros(3), 1, False)
    about = ("x", (), 10.0, 2.0, ("mean",), False, True)
    [found] = read_moments(*about, noisy, 0.05, None)
    assert found.population_interval == (8.0, 12.0)


@pytest.mark.parametrize(("n", "estimable"), [(20, False), (2_000, True)])
def test_a_quantile_that_noise_covers_is_not_estimable(n, estimable):
    tree = Tree(0.0, 60.0, 5, 5)
    generator = np.random.default_rng(3)
    law = GaussianSum(np.sqrt(10) * MULTIPLIER)
    noisy = opened(nodes_of(stays(generator, n), tree), law, generator, n)
    found = read_quantile(noisy, tree, 0.5, 0.05)
    assert found.estimable == estimable
    assert (found.interval == (0.0, 60.0)) != estimable


if __name__ == "__main__":
    for cells in (every_mean(200), every_quantile(200)):
        for cell, (held, widths) in cells.items():
            print(*cell, *np.round(held, 3), *(f"{w:.4g}" for w in widths))
