"""Middles and spreads from counts that noise may drown."""

import numpy as np
import pytest

from unisono.accounting.accountant import ACCOUNTANT
from unisono.algorithms import column_scales, fisher_scoring
from unisono.algorithms.column_scales import BINS, quantile_scale, scales_of
from unisono.algorithms.steady_scales import number_scale, steady_scales, to_even_shares, two_valued
from unisono.algorithms.survey import Opened, pack
from unisono.core.algorithm import agree_facts
from unisono.core.privacy import Privacy
from unisono.core.study import Study
from unisono.core.trust import Trust
from unisono.estimators.scored import scored_plan
from unisono.problems.glm import Columns, GeneralizedLinear
from unisono.releases.release import price
from unisono.releases.table import lone_weight

from .. import methods

PROBLEM = GeneralizedLinear(
    "gaussian",
    (Columns("age", 1, number=True), Columns("ward", 2, number=False)),
    (-1.0, 1.0),
)


def counts_of(numbers):
    return np.histogram(np.clip(numbers, -1, 1), BINS, (-1, 1))[0].astype(float)


def released(random, records, noise):
    """Of an age, one of three wards and a target, each with its noise."""
    age, target = random.normal(0.3, 0.2, records), random.normal(-0.4, 0.15, records)
    ward = np.bincount(random.choice(3, records, p=[0.5, 0.4, 0.1]), minlength=3)
    clean = np.concatenate([counts_of(age), ward, counts_of(target)])
    noisy = clean + noise * random.standard_normal(len(clean))
    return pack(Opened(noisy, 3, records))


def test_where_noise_is_small_they_are_what_quantiles_say():
    found = released(np.random.default_rng(0), 100_000, 5.0)
    usual, steady = scales_of(PROBLEM, found), steady_scales(PROBLEM, found, 5.0, 100_000)
    for one, other in zip(usual, steady, strict=True):
        assert other == pytest.approx(one, abs=1e-3)


def test_where_noise_is_large_they_err_less():
    """Noise of a tenth of the records in every count: root mean squares of 400 errors of either,
    whose ratio varies by about a twentieth."""
    random, errors = np.random.default_rng(1), []
    for _ in range(400):
        found = released(random, 600, 60.0)
        both = scales_of(PROBLEM, found), steady_scales(PROBLEM, found, 60.0, 600)
        errors.append([[own.centre[0] - 0.3, own.mean + 0.4] for own in both])
    usual, steady = np.sqrt(np.mean(np.square(errors), axis=0))
    assert (steady < 0.9 * usual).all()


def test_counts_of_nothing_but_noise_mean_what_is_likely():
    """Quantiles of noise lie anywhere. Of 300 draws, noise is mistaken for counts with a chance of
    about 1 in 200 each: more than 12 are a chance of 1e-7."""
    random = np.random.default_rng(2)
    noise = 1e4 * random.standard_normal((300, BINS))
    steady = np.array([number_scale(own, 1e4, 100) for own in noise])
    usual = np.array([quantile_scale(own, -1.0, 1.0) for own in noise])
    far = (np.abs(steady[:, 0]) > 0.05) | (np.abs(steady[:, 1] / np.median(steady[:, 1]) - 1) > 0.1)
    assert far.sum() <= 12
    assert np.mean(np.abs(usual[:, 0]) > 0.05) > 0.8
    assert to_even_shares(noise[0, :4], 1e4, 100) == pytest.approx(np.full(4, 25.0), abs=1.0)


@pytest.mark.parametrize("share", [0.03, 0.5, 0.9])
def test_two_values_have_their_share_for_a_middle(share):
    counts = np.zeros(BINS)
    counts[0], counts[-1] = 4000 * (1 - share), 4000 * share
    noisy = counts + 20 * np.random.default_rng(3).standard_normal(BINS)
    middle, spread = number_scale(noisy, 20.0, 4000)
    assert middle == pytest.approx(2 * share - 1, abs=0.03)
    assert spread == pytest.approx(2 * max(0.2, np.sqrt(share * (1 - share))), abs=0.03)
    # Even after single precision, in which a run keeps them.
    assert two_valued(
        np.float32([middle, middle]), np.float32([spread, 0.9 * spread])
    ).tolist() == [
        True,
        False,
    ]


def test_many_zeros_are_no_second_value():
    """Nine of ten records have nothing, the others a tenth of the range: no two ends."""
    random = np.random.default_rng(4)
    numbers = np.where(random.random(4000) < 0.9, -1.0, -1 + 0.2 * random.random(4000))
    counts = counts_of(numbers)
    noisy = counts + 20 * random.standard_normal(BINS)
    middle, spread = number_scale(noisy, 20.0, 4000)
    assert (middle, spread) == pytest.approx(quantile_scale(counts, -1.0, 1.0), abs=0.03)


@pytest.mark.parametrize("trust", [Trust.SECURE_SUM, Trust.LOCAL])
def test_the_noise_that_is_supposed_is_the_noise_that_is_drawn(trust):
    facts = agree_facts((300, 200, 100), PROBLEM.width, trust)
    promise = Privacy(1.0, 1e-6)
    plan = scored_plan(PROBLEM, {"prediction": True}, facts, trust, promise)
    first = plan.start
    priced = price(
        column_scales.release(column_scales.ColumnScalesConfig(), PROBLEM, facts),
        first.method.privacy,
        facts,
        trust,
    )
    drawn = priced.noise_std / lone_weight(priced.step)
    assert fisher_scoring.terms_for(plan.study).config.count_noise == pytest.approx(drawn, rel=1e-3)
    viewer = next(iter(plan.cost))
    assert ACCOUNTANT.epsilon(plan.cost[viewer], promise.relation, 1e-6) <= 1.0 + 1e-9


def test_only_the_target_is_steadied_unless_coefficients_are_for_prediction():
    """Columns of coefficients with intervals begin with quantiles as they were released."""
    facts = agree_facts((300, 300), 5, Trust.SECURE_SUM)
    for prediction in (False, True):
        method = methods.fisher_scoring("gaussian", 4, 1.0, 1e-6, prediction=prediction)
        study = Study(method, facts, Trust.SECURE_SUM)
        random = np.random.default_rng(5)
        counts = 80 * random.standard_normal(sum(column_scales.cell_counts(method.problem)))
        found = pack(Opened(counts, 2, 600))
        state, _ = study.begun(found).algorithm.init(facts)
        noise = fisher_scoring.terms_for(study).config.count_noise
        expected = steady_scales(method.problem, found, noise, 600, columns=prediction)
        usual = scales_of(method.problem, found)
        assert (expected.centre.tolist() == usual.centre.tolist()) is not prediction
        assert np.asarray(state.start.centre) == pytest.approx(expected.centre, rel=1e-5)
        assert np.asarray(state.start.scale) == pytest.approx(expected.scale, rel=1e-5)
        assert float(state.start.spread) == pytest.approx(expected.spread, rel=1e-5)
