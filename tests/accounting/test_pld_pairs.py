"""Dominating pairs and their discretisation, against quadrature and brute force."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from unisono.accounting.discretisation import discretise
from unisono.accounting.pairs import ApproximatePair, DiscretePair, Pair, PurePair
from unisono.accounting.shift_pairs import GaussianPair, LaplacePair
from unisono.errors import InvalidInput

RELATIONS = ("add-or-remove", "zero-out", "replace-one")
SHIFT_PAIRS = [
    family(shift, rate, relation)
    for family in (GaussianPair, LaplacePair)
    for shift, rate in ((0.3, 0.05), (1.0, 0.5), (2.5, 0.2), (1.2, 1.0))
    for relation in ("add-or-remove", "replace-one")
]
ATOM_PAIRS = [
    PurePair(0.7),
    ApproximatePair(0.4, 0.01),
    DiscretePair((0.5, 0.3, 0.2, 0.0), (0.1, 0.3, 0.5, 0.1)),
]
ALL_PAIRS: list[Pair] = [*SHIFT_PAIRS, *ATOM_PAIRS]


def densities(pair, x):
    """P and Q of a shift pair on the points x, straight from the definition (INVENTORY 2.0)."""
    law = stats.norm if isinstance(pair, GaussianPair) else stats.laplace
    q, shift = pair.rate, pair.shift
    centre, right, left = law.pdf(x), law.pdf(x - shift), law.pdf(x + shift)
    upper = (1 - q) * centre + q * right
    return upper, (1 - q) * centre + q * left if pair.relation == "replace-one" else centre


@pytest.mark.parametrize("pair", SHIFT_PAIRS, ids=str)
@pytest.mark.parametrize("epsilon", [0.0, 0.03, 0.4, 1.1])
def test_hockey_stick_is_the_integral(pair, epsilon):
    x = np.linspace(-40, 45, 170_001)  # the kinks of Laplace lie on the points
    upper, lower = densities(pair, x)
    ratio = math.exp(epsilon)
    forward = np.trapezoid(np.maximum(upper - ratio * lower, 0), x)
    reverse = np.trapezoid(np.maximum(lower - ratio * upper, 0), x)
    assert pair.hockey_stick(epsilon) == pytest.approx((forward, reverse), abs=3e-7)


def test_hockey_stick_catches_a_factor_of_two_in_noise():
    right, wrong = GaussianPair(1 / 2.0, 0.1), GaussianPair(1 / 1.0, 0.1)
    assert wrong.hockey_stick(0.2)[0] > 2 * right.hockey_stick(0.2)[0]


@pytest.mark.parametrize("relation", RELATIONS)
def test_rate_one_is_the_plain_mechanism(relation):
    factor = 2 if relation == "replace-one" else 1
    plain = GaussianPair(factor * 0.7)
    assert GaussianPair(0.7, 1.0, relation).hockey_stick(0.9) == plain.hockey_stick(0.9)
    almost = GaussianPair(0.7, 1.0 - 1e-12, relation)
    assert almost.hockey_stick(0.9) == pytest.approx(plain.hockey_stick(0.9), rel=1e-9)


@pytest.mark.parametrize("family", [stats.norm, stats.laplace])
def test_replace_one_pair_dominates_every_replacement(family):
    """The Neyman-Pearson argument of the module, tried on all replacements of a grid."""
    x, rate, shift = np.linspace(-25, 25, 50_001), 0.3, 1.0
    pair = (GaussianPair if family is stats.norm else LaplacePair)(shift, rate, "replace-one")
    for epsilon in (0.0, 0.1, 0.4):
        bound = pair.hockey_stick(epsilon)[0]
        for g in np.linspace(-shift, shift, 9):
            for other in np.linspace(-shift, shift, 9):
                gap = rate * (family.pdf(x - g) - math.exp(epsilon) * family.pdf(x - other))
                gap += (1 - rate) * (1 - math.exp(epsilon)) * family.pdf(x)
                assert np.trapezoid(np.maximum(gap, 0), x) <= bound + 1e-6


def curve_of(law, step, epsilon):
    losses = (law.first + np.arange(len(law.mass))) * step
    return float(np.sum(law.mass * np.maximum(-np.expm1(epsilon - losses), 0))) + law.infinite


@pytest.mark.parametrize("pair", ALL_PAIRS, ids=str)
@pytest.mark.parametrize("step", [0.4, 0.07, 0.011, 0.0013])
def test_discretised_laws_enclose_the_pair(pair, step):
    """At, between and off the nodes, in both orders, up to the mass cut from the tails."""
    grid = discretise(pair, step, 1e-14)
    for epsilon in (0.0, 0.3 * step, step, 0.123, 0.5, 1.3, 3.0):
        exact = pair.hockey_stick(epsilon)
        for forward, truth in ((True, exact[0]), (False, exact[1])):
            above = curve_of(grid.law_above(forward=forward), step, epsilon)
            below = curve_of(grid.law_below(forward=forward), step, epsilon)
            assert below <= truth + 1e-14
            assert truth <= above + 1e-14


@pytest.mark.parametrize("pair", SHIFT_PAIRS[:4], ids=str)
def test_both_laws_are_second_order(pair):
    """Halving the step divides the gap at the nodes and between by about four."""
    gaps = []
    for step in (0.02, 0.01):
        grid = discretise(pair, step, 1e-14)
        points = np.linspace(0.0, 0.4, 161)
        above = [curve_of(grid.law_above(forward=True), step, e) for e in points]
        below = [curve_of(grid.law_below(forward=True), step, e) for e in points]
        gaps.append(np.sum(np.subtract(above, below)))
    assert gaps[1] < 0.35 * gaps[0]


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(0, 20), min_size=2, max_size=6),
    st.lists(st.integers(0, 20), min_size=2, max_size=6),
    st.floats(0.005, 0.7),
    st.floats(0.0, 3.0),
)
def test_any_discrete_pair_is_enclosed(first, second, step, epsilon):
    size = min(len(first), len(second))
    upper, lower = np.array(first[:size], float), np.array(second[:size], float)
    if not (upper.sum() and lower.sum()):
        return
    pair = DiscretePair(tuple(upper / upper.sum()), tuple(lower / lower.sum()))
    grid = discretise(pair, step, 1e-12)
    for forward, truth in zip((True, False), pair.hockey_stick(epsilon), strict=True):
        assert curve_of(grid.law_below(forward=forward), step, epsilon) <= truth + 1e-12
        assert truth <= curve_of(grid.law_above(forward=forward), step, epsilon) + 1e-12


@pytest.mark.parametrize(
    "make",
    [
        lambda: GaussianPair(0.0),
        lambda: GaussianPair(-1.0),
        lambda: GaussianPair(math.nan),
        lambda: GaussianPair(math.inf),
        lambda: GaussianPair(1.0, 0.0),
        lambda: GaussianPair(1.0, 1.5),
        lambda: GaussianPair(1.0, math.nan),
        lambda: GaussianPair(1.0, 0.5, "swap"),
        lambda: LaplacePair(0.0),
        lambda: LaplacePair(1.0, -0.1),
        lambda: PurePair(0.0),
        lambda: PurePair(math.nan),
        lambda: ApproximatePair(1.0, 1.0),
        lambda: ApproximatePair(-1.0, 0.1),
        lambda: DiscretePair((0.5, 0.5), (1.0,)),
        lambda: DiscretePair((), ()),
        lambda: DiscretePair((0.5, 0.4), (0.5, 0.5)),
        lambda: DiscretePair((1.5, -0.5), (0.5, 0.5)),
        lambda: DiscretePair((math.nan, 0.5), (0.5, 0.5)),
    ],
)
def test_bad_parameters_are_refused(make):
    with pytest.raises(InvalidInput):
        make()


def test_pairs_are_values():
    assert len({GaussianPair(1.0, 0.1), GaussianPair(1.0, 0.1), LaplacePair(1.0, 0.1)}) == 2
    with pytest.raises(AttributeError):
        GaussianPair(1.0).mu = 2.0  # type: ignore[misc]
