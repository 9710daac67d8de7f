"""How far noise reaches: never exceeded more often than claimed, by the exact samplers."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from unisono.core.events import Event, Gaussian, Laplace, NormNoise, Poisson, bounded_sum
from unisono.core.kinds import Drawing
from unisono.engines.sum_limits import _most
from unisono.mechanisms import mechanism_of

DRAWS, GRID = 100_000, 0.25
# A law, the number of numbers, planned shares, and parties that answered.
CASES = [
    (Gaussian(3.0), 1, 1, 1),
    (Gaussian(3.0), 20, 1, 1),
    (Gaussian(3.0, gap=1e-9), 20, 3, 5),
    (Laplace(3.0, 1, grid=GRID), 1, 1, 1),
    (Laplace(3.0, 8, grid=GRID), 8, 1, 1),
    (Laplace(3.0, 8, grid=GRID), 8, 2, 3),
    (NormNoise(3.0), 3, 1, 1),
]


def drawn(noise, dimension, honest, parties, draws):
    """Sums of shares (draws, dimension), in the units of the noise."""
    total = 0
    for number in range(parties):
        key = bytes([number + 1]) * 32
        shape = (draws, dimension)
        total = total + noise.steps(Drawing(key, GRID, shape, dimension, honest))
    return GRID * total


def exceeded(reach, values):
    each = np.abs(values).max(axis=1) > reach.each
    l1 = np.abs(values).sum(axis=1) > reach.l1
    return np.count_nonzero(each | l1 | (np.sqrt((values**2).sum(axis=1)) > reach.l2))


@pytest.mark.parametrize(("noise", "dimension", "honest", "parties"), CASES)
def test_no_false_alarms_in_many_draws(noise, dimension, honest, parties):
    draws = 2000 if isinstance(noise, NormNoise) else DRAWS
    values = drawn(noise, dimension, honest, parties, draws)

    def reach(probability):
        found = mechanism_of(noise).reach
        return found(noise, parties / honest, parties, GRID, dimension, probability)

    assert exceeded(reach(1e-12), values) == 0
    # Valid where it can be measured, and a control: a count of alarms can be above zero.
    for probability in (0.1, 0.5):
        assert exceeded(reach(probability), values) <= probability * draws
    assert exceeded(reach(0.9), values) > 0


def test_a_norm_is_held_tighter_than_its_numbers():
    """In 10,000 numbers the norm's limit is a sixth of what single numbers allow."""
    reach = mechanism_of(Gaussian(1.0)).reach(Gaussian(1.0), 1.0, 1, 1e-3, 10_000, 1e-12)
    assert 6 * reach.l2 < math.sqrt(10_000) * reach.each


@pytest.mark.parametrize(("records", "rate"), [(10, 0.5), (1000, 0.01), (100_000, 0.1)])
@pytest.mark.parametrize("probability", [1e-3, 1e-15])
def test_poisson_samples_are_no_larger_than_claimed(records, rate, probability):
    event = Event(Gaussian(1.0), bounded_sum(l2=1.0), Poisson(rate))
    most = _most(records, event, probability)
    assert binom.sf(math.floor(most), records, rate) <= probability
    assert most <= records
