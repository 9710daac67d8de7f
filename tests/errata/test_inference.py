"""Published private inference: what its code promises, and what one record can really do.

The package FDPCox (Hung and Yu, arXiv 2508.19640; github.com/EKHung/FDPCox, of 17 February 2026,
c74cb18) descends the partial likelihood of Cox with noise. Its bound of the gradient's movement is
a function of the current coefficients; here it meets the gradient itself.
"""

import numpy as np
import pytest


def published_bound(n, length, largest=1.0):
    """What one of n records may move the mean gradient by, at coefficients of this length."""
    spread = np.exp(2 * largest * length) * (2 * largest + largest**2)
    return (4 * largest + spread * np.log1p(n)) / n


def mean_gradient(coefficients, rows, times):
    """The gradient of log partial likelihood over n, where every time is an event."""
    rows = rows[np.argsort(times)]
    weights = np.exp(rows @ coefficients)
    at_risk = np.cumsum(weights[::-1])[::-1]
    means = np.cumsum((weights[:, None] * rows)[::-1], axis=0)[::-1] / at_risk[:, None]
    return (rows - means).mean(axis=0)


def movement(n, slope):
    """How far the gradient moves at `slope` when the record that outlasts all others is replaced:
    n - 1 records have -1 in their only column, and so has that one, or it has +1."""
    rows, times = -np.ones((n, 1)), np.arange(float(n))
    replaced = rows.copy()
    replaced[-1] = 1.0
    at = np.array([slope])
    return abs(mean_gradient(at, rows, times) - mean_gradient(at, replaced, times))[0]


@pytest.mark.parametrize("n", [100, 1000, 10000])
def test_noise_for_the_first_iterate_is_too_little_for_later_ones(n):
    """I-1: the bound is computed once, at zero, and kept while coefficients move away."""
    assert movement(n, 0.0) < published_bound(n, 0.0)
    assert movement(n, 1.0) < published_bound(n, 1.0)  # the bound itself holds
    assert movement(n, 1.0) > 2.1 * published_bound(n, 0.0)  # and is not the one that is used
    assert movement(n, 2.0) > 6.2 * published_bound(n, 0.0)


def test_the_sensitivity_of_one_server_is_used_for_all():
    """I-2: a loop over servers keeps the last one's bound, and small servers get its noise."""
    small, large = 100, 10_000
    assert movement(small, 0.0) < published_bound(small, 0.0)
    assert movement(small, 0.0) > 25 * published_bound(large, 0.0)
