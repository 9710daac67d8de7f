"""Identification: the bound on any attacker, and refusals. Studies are attacked in tests/cli."""

import math

import numpy as np
import pytest

from unisono.attacks.identify import identified, largest_share
from unisono.errors import InvalidInput


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 5.0])
def test_randomised_response_attains_the_bound(epsilon):
    """Answer truly with weight e^ε and each of the K - 1 others with weight 1: pure epsilon."""
    count = 7
    truth = math.exp(epsilon) / (math.exp(epsilon) + count - 1)
    assert largest_share(epsilon, 0.0, count) == pytest.approx(truth)


def test_delta_and_extremes():
    assert largest_share(0.0, 0.0, 20) == pytest.approx(1 / 20)
    assert largest_share(1.0, 1e-3, 20) > largest_share(1.0, 0.0, 20)
    assert largest_share(math.inf, 0.0, 20) == largest_share(900.0, 0.0, 20) == 1


def test_one_candidate_is_no_choice():
    with pytest.raises(InvalidInput, match="at least two"):
        identified(None, [], (np.zeros((1, 2)),), 10, 0)
