"""Composition, group and sampling theorems: true inside their conditions, refused outside."""

import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from unisono.accounting import gaussian, theorems
from unisono.errors import ConditionViolated, InvalidInput, UndefinedRelation

FEW = settings(max_examples=30, deadline=None)


def exact_delta(total: float, epsilon: float, count: int) -> float:
    """Hockey-stick divergence of ``count`` randomized responses with 40 digits."""
    with mp.workdps(40):
        grow = mp.exp(mp.mpf(epsilon))
        below = mp.exp(mp.mpf(total))
        terms = (
            mp.binomial(count, lies)
            * max(grow ** (count - lies) - below * grow**lies, 0)
            / (1 + grow) ** count
            for lies in range(count + 1)
        )
        return float(mp.fsum(terms))


def test_sequential_and_parallel():
    assert theorems.sequential([(1, 1e-6), (2, 1e-7)]) == (3, pytest.approx(1.1e-6))
    assert theorems.parallel([(1, 1e-6), (2, 1e-7)]) == (2, 1e-6)
    with pytest.raises(ConditionViolated, match="promises nothing"):
        theorems.sequential([(1, 0.6), (1, 0.6)])


@pytest.mark.parametrize("count", [1, 2, 5, 30])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_optimal_delta_against_forty_digits(count, epsilon):
    for total in (0.0, 0.3 * count * epsilon, 0.9 * count * epsilon):
        assert theorems.optimal_delta(total, epsilon, count) == pytest.approx(
            exact_delta(total, epsilon, count), rel=1e-11
        )
    assert theorems.optimal_delta(count * epsilon, epsilon, count) == 0


def test_randomized_response_counterexample():
    """E001-7: claimed 262.8, true 577.8, and at 262.8 nothing is protected."""
    claimed = theorems.published_sqrt6(1, 1000, 1e-5)
    assert claimed == pytest.approx(262.83, abs=5e-3)
    assert theorems.optimal(1, 0, 1000, 1e-5) == pytest.approx(577.83, abs=5e-3)
    # The errata quote 0.99999999999680 at 262.8; with 40 digits it is 0.9999999999962.
    exact = exact_delta(262.8, 1, 1000)
    assert 1 - exact == pytest.approx(3.77e-12, abs=1e-14)
    assert exact <= theorems.optimal_delta(262.8, 1, 1000) <= 1
    with pytest.raises(ConditionViolated, match="use the optimal composition"):
        theorems.sqrt6(1, 0, 1000, 1e-5)


def test_optimal_against_dp_accounting():
    from dp_accounting.pld import privacy_loss_distribution

    single = privacy_loss_distribution.from_privacy_parameters(
        privacy_loss_distribution.common.DifferentialPrivacyParameters(0.1, 1e-8),
        value_discretization_interval=1e-3,
    )
    oracle = single.self_compose(100).get_epsilon_for_delta(1e-5)
    assert theorems.optimal(0.1, 1e-8, 100, 1e-5) == pytest.approx(oracle, abs=2e-3)


@given(st.floats(-3, 0.7), st.integers(1, 400), st.floats(-10, -2), st.floats(0, 0.9))
@FEW
def test_no_valid_theorem_promises_more_than_the_truth(log_epsilon, count, log_delta, share):
    epsilon, delta = 10**log_epsilon, 10**log_delta
    each = share * delta / count
    table = {line.name: line for line in theorems.compare_composition(epsilon, each, count, delta)}
    truth = table["optimal"].epsilon
    assert table["optimal"].valid
    assert truth <= count * epsilon
    for line in table.values():
        assert line.valid is (line.reason == "")
        assert line.source
        if line.valid:
            assert line.epsilon >= truth * (1 - 1e-6) - 1e-9
    assert {line.name for line in table.values() if not line.valid} <= {"sqrt(6 T log 1/delta)"}


@given(st.floats(-3, 0.5), st.integers(1, 300), st.floats(-10, -2))
@FEW
def test_optimal_is_exact_and_rounded_up(log_epsilon, count, log_delta):
    epsilon, delta = 10**log_epsilon, 10**log_delta
    found = theorems.optimal(epsilon, 0, count, delta)
    assert exact_delta(found, epsilon, count) <= delta
    if found > 1e-6:
        assert exact_delta(found * (1 - 1e-6), epsilon, count) > delta * (1 - 1e-8)


def test_comparison_marks_the_invalid_ones():
    table = theorems.compare_composition(1.0, 0.0, 1000, 1e-5)
    (wrong,) = [line for line in table if not line.valid]
    assert wrong.name.startswith("sqrt(6")
    assert wrong.epsilon == pytest.approx(262.83, abs=5e-3)
    assert "use the optimal composition" in wrong.reason
    table = theorems.compare_composition(0.1, 1e-7, 100, 1e-6)
    assert not any(line.valid for line in table)
    assert all("delta" in line.reason for line in table)


@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-10])
def test_sqrt6_conditions_are_the_ones_of_the_errata(delta):
    level = math.log(1 / delta)
    for count in (10, 1000):
        edge = math.sqrt(4.287 * level / count)
        inside = theorems.sqrt6(edge * 0.999, 0, count, delta)
        assert inside >= theorems.optimal(edge * 0.999, 0, count, delta)
        with pytest.raises(ConditionViolated):
            theorems.sqrt6(edge * 1.001, 0, count, delta)
        # With delta_each > 0 only the route through the advanced theorem is proved.
        edge = math.log1p(math.sqrt(1.0717 * level / count))
        each = 1e-9 * delta / count
        assert theorems.sqrt6(edge * 0.999, each, count, delta) >= theorems.advanced(
            edge * 0.999, each, count, delta
        )
        with pytest.raises(ConditionViolated):
            theorems.sqrt6(edge * 1.001, each, count, delta)


def test_advanced_formula():
    expected = 0.1 * math.sqrt(2 * 50 * math.log(1e6)) + 50 * 0.1 * math.expm1(0.1)
    assert theorems.advanced(0.1, 0, 50, 1e-6) == pytest.approx(expected)
    expected = 0.1 * math.sqrt(2 * 50 * math.log(2e6)) + 50 * 0.1 * math.expm1(0.1)
    assert theorems.advanced(0.1, 1e-8, 50, 1e-6) == pytest.approx(expected)
    assert theorems.advanced(1000, 0, 2, 1e-6) == math.inf  # true, useless, and no overflow


def test_strong_for_unequal_parts():
    equal = theorems.strong_heterogeneous([(0.1, 0.0)] * 100, 1e-6)
    assert equal == theorems.strong(0.1, 0, 100, 1e-6)
    mixed = theorems.strong_heterogeneous([(0.1, 0.0)] * 50 + [(0.2, 1e-9)] * 10, 1e-6)
    assert theorems.optimal(0.1, 0, 50, 1e-6) < mixed < theorems.optimal(0.2, 1e-9, 60, 1e-6) * 1.3
    # 004 Lemma 1 holds (E004-6): k eps^2 + eps sqrt(2 k log 1/delta') is never below the truth.
    lemma = 100 * 0.1**2 + 0.1 * math.sqrt(200 * math.log(1e6))
    assert lemma >= equal


def test_group_privacy():
    """E001-1, E003-19."""
    epsilon, delta = theorems.group_approximate(1, 1e-6, 10)
    assert (epsilon, delta) == (10, pytest.approx(0.01281830805, rel=1e-9))
    assert theorems.group_approximate(0, 1e-6, 10) == (0, pytest.approx(1e-5))
    assert theorems.group_approximate(1e-9, 1e-6, 10)[1] == pytest.approx(1e-5)
    assert theorems.group_approximate(500, 0, 10) == (5000, 0)
    assert theorems.group_pure(0.5, 3) == 1.5
    with pytest.raises(ConditionViolated, match="promises nothing"):
        theorems.group_approximate(5, 1e-6, 10)
    with pytest.raises(ConditionViolated):
        theorems.group_approximate(500, 1e-300, 100)


@given(st.floats(0.01, 2), st.floats(-12, -6), st.integers(1, 6))
@FEW
def test_group_theorem_is_above_the_exact_gaussian(epsilon, log_delta, size):
    mu = gaussian.mu_for(epsilon, 10**log_delta)
    try:
        grouped = theorems.group_approximate(epsilon, 10**log_delta, size)
    except ConditionViolated:
        return
    assert gaussian.delta(grouped[0], gaussian.group(mu, size)) <= grouped[1]


@given(st.floats(0.01, 60), st.floats(0.001, 1))
@FEW
def test_amplification_is_the_hockey_stick_of_sampled_randomized_response(epsilon, rate):
    amplified, delta = theorems.amplify_by_sampling(
        epsilon, 1e-6, rate, sampler="poisson", relation="add-or-remove"
    )
    assert delta == pytest.approx(rate * 1e-6)
    assert amplified <= epsilon * (1 + 1e-12)
    # The mixture's largest likelihood ratio is attained: 1 + q (e^epsilon - 1).
    exact = float(mp.log1p(mp.mpf(rate) * mp.expm1(epsilon)))
    assert amplified == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize(
    ("sampler", "relation", "error"),
    [
        ("poisson", "replace-one", UndefinedRelation),
        ("without-replacement", "add-or-remove", UndefinedRelation),
        ("without-replacement", "zero-out", UndefinedRelation),
        ("shuffle", "replace-one", InvalidInput),
    ],
)
def test_amplification_is_refused_where_it_is_not_proved(sampler, relation, error):
    with pytest.raises(error):
        theorems.amplify_by_sampling(1, 0, 0.1, sampler=sampler, relation=relation)


def test_004_amplification_factor():
    """E004-4: (1/n)(e^{eps0} - 1) <= 2 eps0 / n for eps0 <= 1, and (5) needs .1835 log(1/delta)."""
    for start in (0.1, 0.5, 1.0):
        amplified, _ = theorems.amplify_by_sampling(
            start, 0, 1 / 100, sampler="without-replacement", relation="replace-one"
        )
        assert amplified <= math.expm1(start) / 100 <= 2 * start / 100
    level = 10.0
    for epsilon, holds in ((0.18349 * level, True), (0.1836 * level, False)):
        assert (epsilon / level + math.sqrt(2 / 3) <= 1) is holds


class TestLaplaceWithAnL2Sensitivity:
    """E000-8."""

    def test_true_epsilon(self):
        assert theorems.published_laplace_true_epsilon(1, 1000) == pytest.approx(31.6, abs=0.03)
        assert theorems.published_laplace_true_epsilon(0.7, 1) == 0.7

    def test_attained_by_one_flipped_label(self):
        """theta* = sum y_i x_i / (n lambda); flip the label of x = (1, ..., 1)/sqrt(p)."""
        p, n, strength, epsilon = 16, 50, 0.1, 0.5
        x = np.full(p, 1 / math.sqrt(p))
        change = 2 * x / (n * strength)
        claimed = 2 / (n * strength)
        assert np.linalg.norm(change) == pytest.approx(claimed)
        worst = stats.laplace.logpdf(0, scale=claimed / epsilon) * p - np.sum(
            stats.laplace.logpdf(change, scale=claimed / epsilon)
        )
        assert worst == pytest.approx(theorems.published_laplace_true_epsilon(epsilon, p))

    def test_gaussian_beats_the_norm_mechanism_from_dimension_18(self):
        mu = gaussian.mu_for(1, 1e-6)
        better = [p for p in range(1, 60) if stats.chi.mean(p) / mu < p]
        assert better[0] in (17, 18, 19)
        assert better == list(range(better[0], 60))


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0, None, "x"])
@pytest.mark.parametrize(
    "call",
    [
        lambda bad: theorems.sequential([(bad, 0)]),
        lambda bad: theorems.parallel([(1, bad)]),
        lambda bad: theorems.basic(bad, 0, 1, 1e-5),
        lambda bad: theorems.advanced(1, 0, bad, 1e-5),
        lambda bad: theorems.strong(bad, 0, 2, 1e-5),
        lambda bad: theorems.optimal(1, 0, 2, bad),
        lambda bad: theorems.optimal_delta(bad, 1, 2),
        lambda bad: theorems.sqrt6(bad, 0, 2, 1e-5),
        lambda bad: theorems.group_approximate(1, bad, 2),
        lambda bad: theorems.group_pure(1, bad),
        lambda bad: theorems.compare_composition(bad, 0, 2, 1e-5),
        lambda bad: theorems.published_laplace_true_epsilon(bad, 2),
        lambda bad: theorems.amplify_by_sampling(1, 0, bad, sampler="poisson", relation="zero-out"),
    ],
)
def test_bad_input(call, bad):
    with pytest.raises(InvalidInput):
        call(bad)


def test_empty_and_exhausted():
    with pytest.raises(InvalidInput):
        theorems.sequential([])
    for theorem in (theorems.basic, theorems.advanced, theorems.strong, theorems.optimal):
        with pytest.raises(ConditionViolated, match="delta"):
            theorem(0.1, 1e-6, 100, 1e-6)
