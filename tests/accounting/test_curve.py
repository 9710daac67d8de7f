"""One object for every question: cross-checked against independent accountants."""

import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from unisono.accounting import gaussian, theorems
from unisono.accounting.accountant import ACCOUNTANT
from unisono.accounting.calibrate import smallest_scale
from unisono.accounting.curve import PrivacyCurve
from unisono.core.events import (
    NOTHING,
    Composed,
    DiscreteGaussian,
    Distance,
    Event,
    Gaussian,
    Laplace,
    NoNoise,
    Poisson,
    RandomizedResponse,
    Sensitivity,
    Skellam,
    WithoutReplacement,
    bounded_sum,
    composed_from_json,
    composed_to_json,
    event_from_json,
    event_to_json,
)
from unisono.core.trust import Relation, Unit
from unisono.core.words import budget_guess
from unisono.errors import InvalidInput, UndefinedRelation, UnknownEvent

RECORD = bounded_sum(l1=1.0, l2=1.0, linf=1.0)
ADD = Relation.ADD_OR_REMOVE
REPLACE = Relation.REPLACE_ONE
NEIGHBOURS = {
    ADD: dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE,
    REPLACE: dp_accounting.NeighboringRelation.REPLACE_ONE,
}


def oracle(event, count, relation, delta):
    """dp-accounting's pessimistic privacy loss distribution."""
    accountant = PLDAccountant(NEIGHBOURS[relation], value_discretization_interval=1e-3)
    return accountant.compose(event, count).get_epsilon(delta)


@pytest.mark.parametrize("relation", [ADD, REPLACE])
@pytest.mark.parametrize(
    ("rate", "noise", "count"), [(1.0, 2.0, 10), (0.1, 1.0, 100), (0.01, 0.8, 500), (0.5, 4.0, 30)]
)
def test_gaussian_against_an_independent_accountant(rate, noise, count, relation):
    event = Event(Gaussian(noise), RECORD, Poisson(rate))
    theirs = dp_accounting.GaussianDpEvent(noise)
    if rate < 1:
        theirs = dp_accounting.PoissonSampledDpEvent(rate, theirs)
    ours = PrivacyCurve(event * count, relation).epsilon(1e-5)
    expected = oracle(theirs, count, relation, 1e-5)
    assert ours == pytest.approx(expected, rel=5e-3)
    assert ours <= expected * (1 + 1e-6) + 1e-3
    halved = PrivacyCurve(Event(Gaussian(noise / 2), RECORD, Poisson(rate)) * count, relation)
    assert halved.epsilon(1e-5) > 1.3 * expected


@pytest.mark.parametrize("count", [1, 30])
def test_laplace_against_an_independent_accountant(count):
    event = Event(Laplace(2.0, discrete=False), RECORD)
    expected = oracle(dp_accounting.LaplaceDpEvent(2.0), count, ADD, 1e-5)
    assert PrivacyCurve(event * count, ADD).epsilon(1e-5) == pytest.approx(expected, rel=5e-3)
    discrete = PrivacyCurve(Event(Laplace(2.0), RECORD) * count, ADD).epsilon(1e-5)
    assert discrete >= expected * (1 - 1e-3)


def test_mixtures_compose_tightly():
    """A Gaussian run, a pure count and a sampled step: below the sum of their epsilons."""
    parts = [
        Event(Gaussian(8.0), RECORD) * 4,
        Event(RandomizedResponse(0.3), RECORD) * 1,
        Event(Gaussian(1.0), RECORD, Poisson(0.01)) * 50,
    ]
    alone = [PrivacyCurve(part, ADD).epsilon(1e-6) for part in parts]
    together = PrivacyCurve(sum(parts, NOTHING), ADD).epsilon(1e-6)
    assert max(alone) < together < sum(alone)


def test_integer_noises_lie_above_the_gaussian_and_approach_it():
    mu = 0.5
    exact = gaussian.epsilon(1e-5, mu)
    for noise in (Skellam(2.0, 2.0**-6), DiscreteGaussian(2.0, 2.0**-6, 1, 5)):
        epsilon = PrivacyCurve(Event(noise, RECORD) * 1, ADD).epsilon(1e-5)
        assert exact < epsilon < 1.15 * exact


def test_integer_and_sampled_noise_together():
    """No common method: the integer part is turned into one (epsilon, delta/2) step."""
    skellam = Event(Skellam(10.0, 2.0**-4), RECORD) * 1
    sampled = Event(Gaussian(1.0), RECORD, Poisson(0.01)) * 50
    together = PrivacyCurve(skellam + sampled, REPLACE)
    assert together.method == "Rényi divergence"
    parts = [PrivacyCurve(part, REPLACE).epsilon(1e-5) for part in (skellam, sampled)]
    assert max(parts) < together.epsilon(1e-5) < 1.3 * sum(parts)


def test_without_replacement_keeps_its_factor_of_two():
    """Replace-one distance 2 C: dp-accounting's event takes sigma / (2 C) (INVENTORY 2.0)."""
    event = Event(Gaussian(4.0), RECORD, WithoutReplacement(10, 100))
    ours = PrivacyCurve(event * 20, REPLACE).epsilon(1e-5)
    theirs = dp_accounting.rdp.RdpAccountant(
        orders=list(range(2, 129)), neighboring_relation=NEIGHBOURS[REPLACE]
    )
    inner = dp_accounting.GaussianDpEvent(4.0 / 2)
    theirs.compose(dp_accounting.SampledWithoutReplacementDpEvent(100, 10, inner), 20)
    assert ours == pytest.approx(theirs.get_epsilon(1e-5), rel=0.02)


def test_the_sampler_changes_the_claim():
    plain, poisson, subset = (
        PrivacyCurve(Event(Gaussian(2.0), RECORD, *sampler) * 10, REPLACE).epsilon(1e-5)
        for sampler in ((), (Poisson(0.1),), (WithoutReplacement(10, 100),))
    )
    assert poisson < subset < plain


@given(
    st.floats(0.3, 20),
    st.integers(1, 50),
    st.sampled_from([1.0, 0.2]),
    st.sampled_from([ADD, REPLACE]),
)
@settings(max_examples=25, deadline=None)
def test_answers_are_consistent(noise, count, rate, relation):
    curve = PrivacyCurve(Event(Gaussian(noise), RECORD, Poisson(rate)) * count, relation)
    epsilon = curve.epsilon(1e-5)
    assert curve.delta(epsilon + 2e-3) <= 1e-5 * (1 + 2e-3)
    assert curve.fits(epsilon * 1.001 + 1e-6, 1e-5)
    assert not curve.fits(epsilon * 0.98 - 1e-6, 1e-5)
    assert 0 <= curve.advantage <= 1
    for alpha in (0.01, 0.3):
        assert 1 - alpha - curve.advantage - 2e-3 <= curve.trade_off(alpha) <= 1 - alpha + 1e-12
        assert curve.reconstruction(alpha) >= alpha - 1e-12


def test_trade_off_of_a_gaussian_is_its_closed_form():
    curve = PrivacyCurve(Event(Gaussian(1.0), RECORD) * 1, ADD)
    assert curve.trade_off(0.05) == pytest.approx(1 - 0.25951, abs=1e-4)
    assert curve.reconstruction(0.001) == pytest.approx(0.018299, abs=1e-4)


def test_disclosure_is_infinite_and_nothing_is_free():
    clean = PrivacyCurve(Event(NoNoise(), RECORD) * 1, ADD)
    assert clean.epsilon(1e-5) == math.inf
    assert clean.delta(3.0) == 1.0
    assert clean.reconstruction(0.01) == 1.0
    assert not clean.fits(100, 0.1)
    assert PrivacyCurve(NOTHING, ADD).epsilon(1e-5) == 0.0


def test_a_gap_of_rounded_shares_is_paid_for():
    plain = PrivacyCurve(Event(Gaussian(2.0), RECORD) * 1, ADD)
    gapped = PrivacyCurve(Event(Gaussian(2.0, gap=1e-7), RECORD) * 1, ADD)
    assert gapped.epsilon(1e-5) > plain.epsilon(1e-5)
    assert gapped.delta(1.0) == pytest.approx(plain.delta(1.0) + 1e-7 * (1 + math.e))
    hopeless = PrivacyCurve(Event(Gaussian(2.0, gap=1e-4), RECORD) * 1, ADD)
    assert hopeless.epsilon(1e-5) == math.inf
    assert not hopeless.fits(3.0, 1e-5)


def test_pure_events_have_an_epsilon_at_delta_zero():
    history = Event(Laplace(2.0), RECORD) * 3
    assert PrivacyCurve(history, ADD).epsilon(0.0) == pytest.approx(1.5)
    assert PrivacyCurve(history, REPLACE).epsilon(0.0) == pytest.approx(3.0)
    assert PrivacyCurve(Event(Gaussian(2.0), RECORD) * 1, ADD).epsilon(0.0) == math.inf
    sampled = Event(Laplace(2.0), RECORD, Poisson(0.1)) * 1
    expected = math.log1p(0.1 * math.expm1(0.5))
    assert PrivacyCurve(sampled, ADD).epsilon(0.0) == pytest.approx(expected)


def test_relations_that_are_not_defined_raise():
    hidden = Event(Gaussian(1.0), bounded_sum(l2=1.0, hides_presence=False))
    with pytest.raises(UndefinedRelation, match="add-or-remove"):
        PrivacyCurve(hidden * 1, ADD).epsilon(1e-5)
    only = Event(Gaussian(1.0), Sensitivity(Unit.RECORD, Distance(l2=2.0)), Poisson(0.1))
    with pytest.raises(UndefinedRelation, match="single record"):
        PrivacyCurve(only * 1, REPLACE).epsilon(1e-5)
    with pytest.raises(UndefinedRelation, match="no l1"):
        PrivacyCurve(Event(Laplace(1.0), bounded_sum(l2=1.0)) * 1, ADD).epsilon(0.0)


def test_calibration_is_tight_for_any_history():
    def history(scale):
        return (
            Event(Gaussian(scale), RECORD, Poisson(0.02)) * 100 + Event(Laplace(20.0), RECORD) * 2
        )

    scale = smallest_scale(history, ADD, 1.0, 1e-5)
    assert PrivacyCurve(history(scale), ADD).epsilon(1e-5) <= 1.0
    assert PrivacyCurve(history(scale * 0.998), ADD).epsilon(1e-5) > 1.0
    with pytest.raises(InvalidInput, match="no amount of noise"):
        smallest_scale(lambda s: Event(NoNoise(), RECORD) * 1, ADD, 1.0, 1e-5)


# ------------------------------------------------------------------- events


def events():
    noises = st.sampled_from(
        [
            Gaussian(1.5),
            Gaussian(2.0, 1e-9),
            Laplace(1.0, 3),
            Skellam(1.0, 0.1),
            NoNoise(),
            RandomizedResponse(0.5, 3),
            DiscreteGaussian(1.0, 0.1, 2, 3),
        ]
    )
    samplers = st.sampled_from([(), (Poisson(0.25),), (WithoutReplacement(2, 7),)])
    bounds = st.sampled_from([RECORD, bounded_sum(l2=0.3, unit=Unit.PARTY, hides_presence=False)])
    return st.builds(lambda n, b, s: Event(n, b, *s), noises, bounds, samplers)


@given(st.lists(st.tuples(events(), st.integers(1, 5)), max_size=6))
def test_events_survive_json_and_order_does_not_matter(parts):
    history = Composed(tuple(parts))
    assert composed_from_json(composed_to_json(history)) == history
    assert Composed(tuple(reversed(parts))) == history
    assert Composed(tuple(reversed(parts))).fingerprint == history.fingerprint


@pytest.mark.parametrize(
    "damage",
    [
        lambda d: d["noise"].update(kind="cauchy"),
        lambda d: d["noise"].pop("std"),
        lambda d: d["noise"].update(extra=1),
        lambda d: d.update(unit="village"),
        lambda d: d["sampler"].update(kind="shuffle"),
        lambda d: d.pop("sensitivity"),
        lambda d: d["sensitivity"].update({"swap": {"l2": 1.0}}),
    ],
)
def test_unknown_events_raise(damage):
    document = event_to_json(Event(Gaussian(1.0), RECORD))
    damage(document)
    with pytest.raises((UnknownEvent, InvalidInput)):
        event_from_json(document)


def test_senseless_events_are_refused():
    for build in (
        lambda: Poisson(0.0),
        lambda: Poisson(1.5),
        lambda: WithoutReplacement(5, 3),
        lambda: Gaussian(1.0, gap=1.0),
        lambda: RandomizedResponse(1.0, 1),
        lambda: bounded_sum(l2=math.inf),
        lambda: Event(Gaussian(1.0), RECORD) * 0,
        lambda: Event(Gaussian(1.0), RECORD) * 1.5,
    ):
        with pytest.raises(InvalidInput):
            build()
    with pytest.raises(UnknownEvent):
        Composed((("gaussian", 1),))


def test_parallel_composition_is_the_worst_party():
    """Disjoint parties: a record pays only its own party's cost."""
    assert theorems.parallel([(1.0, 1e-6), (0.5, 1e-5)]) == (1.0, 1e-5)
    assert theorems.sequential([(1.0, 1e-6), (0.5, 1e-5)]) == pytest.approx((1.5, 1.1e-5))
    assert np.isfinite(PrivacyCurve(Event(Gaussian(1.0), RECORD) * 3, ADD).epsilon(1e-6))


def test_sampled_continuous_laplace_has_no_cheap_pure_epsilon():
    """Its zero-out epsilon before sampling is not its replace-one epsilon after."""
    curve = PrivacyCurve(Event(Laplace(1.0, discrete=False), RECORD, Poisson(0.9)) * 1, REPLACE)
    assert curve.epsilon(1e-6) > 1.7
    assert not curve.fits(1.0, 0.0)
    assert curve.delta(1.0) > 0.2


def test_below_the_slack_delta_is_not_flattered():
    noise = Gaussian(1000.0, slack=0.1)
    assert PrivacyCurve(Event(noise, RECORD) * 1, ADD).advantage > 0.2


def test_a_gap_does_not_refuse_what_fits():
    curve = PrivacyCurve(Event(Gaussian(2.0, gap=1e-9), RECORD) * 1, ADD)
    epsilon = curve.epsilon(1e-6)
    assert math.isfinite(epsilon)
    assert curve.fits(epsilon, 1e-6)


def test_distances_are_positive_numbers():
    for value in (0.0, -1e-9, math.nan, math.inf):
        with pytest.raises(InvalidInput, match="positive finite"):
            Distance(l2=value)


@pytest.mark.parametrize("std", [0.5, 2.0, 8.0])
def test_the_best_guess_is_what_events_allow_and_no_more_than_epsilon_does(std):
    """Of a Gaussian, Φ(μ / 2); the accountant never says more than any (epsilon, delta) release."""
    history = Event(Gaussian(std), bounded_sum(l1=1.0, l2=1.0, linf=1.0)) * 1
    for relation, distance in ((Relation.ADD_OR_REMOVE, 1.0), (Relation.REPLACE_ONE, 2.0)):
        guess = ACCOUNTANT.guess(history, relation, 1e-6)
        assert guess == pytest.approx(ndtr(distance / std / 2), rel=1e-9)
        assert guess <= budget_guess(ACCOUNTANT.epsilon(history, relation, 1e-6), 1e-6)


def test_a_guess_about_what_hardly_has_noise_is_as_good_as_certain():
    """Sampled with little noise, nothing overflows on the way to a bound."""
    little = Event(Gaussian(0.01), bounded_sum(l1=1.0, l2=1.0, linf=1.0), Poisson(0.5)) * 2
    assert 1 - 1e-6 < ACCOUNTANT.guess(little, Relation.ADD_OR_REMOVE, 1e-6) <= 1
