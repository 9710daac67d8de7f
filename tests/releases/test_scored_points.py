"""Scored points: whatever is given, a row and the distance of two stay within what is claimed."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from unisono.releases.rows import OuterProduct, ScoredPoint, into_ball, unpacked

KIND = ScoredPoint(3, 2)
WIDTH = 3 + 2 + 2 + 3
NUMBERS = st.floats(-1e6, 1e6, width=32)


@settings(deadline=None)  # the first one compiles
@given(arrays(np.float32, (2, WIDTH), elements=NUMBERS))
def test_rows_stay_within_their_bounds(values):
    one, other = np.asarray(KIND.of(values), np.float64)
    for row in (one, other):
        assert np.linalg.norm(row) <= KIND.alone.l2 + 1e-5
        assert np.abs(row).sum() <= KIND.alone.l1 + 1e-5
    assert np.linalg.norm(one - other) <= KIND.within.l2 + 1e-5
    assert np.abs(one - other).sum() <= KIND.within.l1 + 1e-5


def test_the_bound_is_reached_in_every_part():
    """A claim that could be smaller would waste noise."""
    far = np.zeros((2, WIDTH), np.float32)
    far[:, 0], far[:, -3] = [1, -1], 1.0  # opposite gradients
    apart = np.zeros((2, WIDTH), np.float32)
    apart[0, 3], apart[1, 4], apart[:, -2] = 1.0, 1.0, 1.0  # orthogonal curvatures
    for values in (far, apart):
        one, other = np.asarray(KIND.of(values), np.float64)
        assert np.linalg.norm(one - other) > 0.9999 * KIND.within.l2


def test_sums_of_outer_products_are_unpacked():
    points = into_ball(np, np.random.default_rng(3).normal(size=(50, 4)).astype(np.float32))
    packed = np.asarray(OuterProduct(4, sized=False).of(points), np.float64).sum(axis=0)
    assert np.allclose(unpacked(4, packed), points.T @ points, atol=1e-4)
