"""As printed and corrected: the parts that are quick to run, and a table of them."""

import math

import numpy as np
import pytest

from unisono.accounting import gaussian
from unisono.experiments import printed
from unisono.experiments.linear_case import DELTA, thesis_shards


def test_the_classical_gaussian_wastes_noise_and_then_lacks_it():
    small, large = printed._classical(0.5), printed._classical(16.0)
    assert small.most < 0.5
    assert small.nominal < small.printed
    assert large.most == pytest.approx(
        gaussian.epsilon(DELTA, 16 / math.sqrt(2 * math.log(1.25e5)))
    )
    assert large.nominal > large.printed
    for one in (small, large):
        assert one.equal == pytest.approx(one.printed, rel=1e-6)


def test_one_round_of_algorithm_3_has_no_state_to_spoil():
    """Later rounds do: then noise is corrected, and the printed version is nearer at one noise."""
    shards = thesis_shards(range(1, 6), 20, 10, 2.0)
    once = printed.PrintedSetting(1, 10.0, 1.0, 2.0)
    assert printed.learn(shards, once, True) == printed.learn(shards, once, False)
    often = printed.PrintedSetting(60, 10.0, 0.5, 2.0)
    assert printed.learn(shards, often, True) < printed.learn(shards, often, False) / 5


def test_an_attack_finds_more_than_algorithm_3_claims_and_no_more_than_is_proved():
    """An audit at 95 %, with a fixed seed."""
    epsilon, rounds = 2.0, 60
    sigma = math.sqrt(rounds) / gaussian.mu_for(epsilon, DELTA)
    found = printed.least_epsilon(printed.PrintedSetting(rounds, 1.0, 0.5, sigma), 1000)
    proved = gaussian.epsilon(DELTA, math.sqrt(rounds * printed.PARTIES) / sigma)
    assert 2 * epsilon < found < proved


def test_a_table_has_a_row_for_each_and_a_figure_shows_them():
    from matplotlib.figure import Figure

    one = printed.Comparison("a", "b", 1.0, 2.0, "loss", 0.1, 0.2, 0.1)
    found = (one, one._replace(name="c", least=1.5, again=0.15))
    text = printed.table(found)
    assert "| **a**: b | 1 | at most 2 | loss | 0.1 | 0.2 | 0.1 |" in text
    assert "at least 1.5, at most 2" in text
    figure = Figure()
    printed._draw(figure, found)
    assert len(figure.axes) == 2


@pytest.mark.slow
def test_everything_is_as_expected():
    findings = printed.run(True)
    outside = [number for number in findings.numbers if not number.as_expected]
    assert not outside
    assert np.isfinite([number.measured for number in findings.numbers]).all()
