"""Source 001 (lecture 16): what fails there and holds here."""

import math

import mpmath
import numpy as np
import pytest

from unisono.accounting import composition, gaussian, pld, renyi, zcdp
from unisono.errors import ConditionViolated

ORDERS = np.concatenate([1 + np.geomspace(1e-5, 1, 30), np.geomspace(2, 400, 250)])


def response(epsilon):
    """The two output laws of randomized response."""
    truth = 1 / (1 + math.exp(-epsilon))
    return [truth, 1 - truth], [1 - truth, truth]


def concentration(divergence, epsilon):
    """The smallest rho with divergence(a) <= rho a at every order."""
    one, other = response(epsilon)
    return max(divergence(float(a), one, other) / a for a in ORDERS)


def exact_delta(total, epsilon, count):
    """delta of `count` randomized responses with 40 digits, straight from the binomial law."""
    with mpmath.workdps(40):
        truth = 1 / (1 + mpmath.exp(-mpmath.mpf(epsilon)))
        losses = [(count - 2 * lies) * mpmath.mpf(epsilon) for lies in range(count + 1)]
        masses = [
            mpmath.binomial(count, lies) * (1 - truth) ** lies * truth ** (count - lies)
            for lies in range(count + 1)
        ]
        excess = [m * (1 - mpmath.exp(total - x)) for m, x in zip(masses, losses, strict=True)]
        return float(sum(e for e in excess if e > 0))


def test_no_constant_saves_the_gaussian_for_every_epsilon():
    """E001-4: sigma = c Delta/epsilon has delta near 1 for large epsilon, whatever c is."""
    delta = 1e-5
    for multiple in (1, 10, 100):
        constant = multiple * math.sqrt(math.log(1 / delta))
        epsilon = 10 * constant**2
        assert gaussian.delta(epsilon, epsilon / constant) > 0.999999
        assert gaussian.delta(epsilon, gaussian.mu_for(epsilon, delta)) <= delta


@pytest.mark.parametrize(
    ("epsilon", "true", "misprint"), [(1, 0.462, 0.141), (2, 1.523, 0.329), (10, 10.0, 1.72)]
)
def test_the_inverted_divergence_underrates_randomized_response(epsilon, true, misprint):
    """E001-5: dQ/dP in place of dP/dQ makes randomized response look several times safer."""
    assert concentration(renyi.published_inverted_renyi, epsilon) == pytest.approx(
        misprint, rel=5e-3
    )
    assert concentration(renyi.divergence, epsilon) == pytest.approx(true, rel=2e-3)
    assert zcdp.pure(epsilon) == pytest.approx(true, rel=2e-3)
    # A rho that is too small would promise an epsilon below the exact one.
    exact = composition.optimal(epsilon, 0.0, 100, 1e-5)
    assert (
        zcdp.epsilon(100 * misprint, 1e-5) < exact <= zcdp.epsilon(100 * zcdp.pure(epsilon), 1e-5)
    )


def test_publishing_the_data_satisfies_the_inverted_definition():
    """E001-5: for disjoint outputs the printed divergence is minus infinity; ours is infinite."""
    one, other = [1.0, 0.0], [0.0, 1.0]
    for order in (1.5, 2.0, 8.0, 64.0):
        assert renyi.published_inverted_renyi(order, one, other) == -math.inf
        assert renyi.divergence(order, one, other) == math.inf
    for pair in (response(3.0), ([0.9, 0.1], [0.2, 0.8])):
        assert renyi.published_inverted_renyi(2.0, *pair) == pytest.approx(0.0, abs=1e-12)
        assert renyi.published_inverted_renyi(1.5, *pair) <= 0


def test_gaussians_do_not_notice_the_inversion():
    """E001-5: on Gaussians the misprint agrees for large orders, so such a test proves nothing."""
    grid = np.linspace(-12, 13, 4001)
    one, other = (np.exp(-((grid - centre) ** 2) / 2) for centre in (0.0, 0.5))
    one, other = one / one.sum(), other / other.sum()
    true = renyi.divergence(12.0, one, other) / 12
    printed = renyi.published_inverted_renyi(12.0, one, other) / 12
    assert true == pytest.approx(0.125, rel=1e-3)
    assert printed == pytest.approx(true * 10 / 12, rel=1e-3)


def test_a_thousand_randomized_responses():
    """E001-7: sqrt(6 T log 1/delta) claims 262.83 where the exact epsilon is 577.83."""
    claimed = composition.published_sqrt6(1.0, 1000, 1e-5)
    assert claimed == pytest.approx(262.83, abs=0.005)
    assert 1 - exact_delta(claimed, 1.0, 1000) == pytest.approx(3.79e-12, rel=1e-2)
    assert composition.optimal_delta(claimed, 1.0, 1000) >= exact_delta(claimed, 1.0, 1000)
    assert composition.optimal(1.0, 0.0, 1000, 1e-5) == pytest.approx(577.83, abs=0.005)
    bracket = pld.compose([(pld.PurePair(1.0), 1000)]).epsilon(1e-5)
    assert bracket.lower <= 577.835
    assert bracket.upper >= 577.825
    with pytest.raises(ConditionViolated, match="use the optimal composition"):
        composition.sqrt6(1.0, 0.0, 1000, 1e-5)


def test_the_sqrt6_theorem_holds_inside_its_condition():
    """E001-7: while T epsilon^2 <= 4.287 log(1/delta) it is true, and just beyond refused."""
    count, delta = 1000, 1e-5
    edge = math.sqrt(4.287 * math.log(1 / delta) / count)
    for epsilon in (0.01, 0.1, edge * 0.999):
        bound = composition.sqrt6(epsilon, 0.0, count, delta)
        assert bound >= composition.optimal(epsilon, 0.0, count, delta)
    with pytest.raises(ConditionViolated):
        composition.sqrt6(edge * 1.001, 0.0, count, delta)
