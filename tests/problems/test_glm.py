"""What one record says: centred at the truth, bounded whatever it holds."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import nbinom, poisson

from unisono.errors import InvalidInput
from unisono.problems.glm import FAMILIES, Columns, GeneralizedLinear

ENDS = {"binomial": (0.0, 1.0), "gaussian": (-1.0, 1.0), "poisson": (0.0, 40.0)}


def problem(family):
    return GeneralizedLinear(family, (Columns("x", 1, number=True),), ENDS[family])


@settings(deadline=None)  # the first one compiles
@given(
    st.sampled_from(FAMILIES),
    st.floats(-20, 20),
    st.floats(0, 1),
    st.sampled_from((0.05, 0.4, 2.0)),
    st.sampled_from((1.2, 2.0)),
)
def test_residuals_never_exceed_their_reach(family, score, place, spread, bend_at):
    low, high = ENDS[family]
    y = low + place * (high - low)
    y = float(np.round(y)) if family != "gaussian" else y
    said = problem(family).said(np.float32([score]), np.float32([y]), spread, bend_at)
    assert abs(float(said.residual[0])) <= float(said.reach[0]) * (1 + 1e-4) + 1e-5
    assert float(said.root[0]) > 0
    assert 0 <= float(said.slope[0]) <= 1 + 1e-4


@pytest.mark.parametrize("alpha", [0.0, 2.0])
@pytest.mark.parametrize("mean", [0.2, 1.5, 8.0])
def test_residuals_of_counts_have_mean_zero_however_overdispersed(alpha, mean):
    counts = np.arange(0, 4000)
    law = poisson(mean) if alpha == 0 else nbinom(1 / alpha, 1 / (1 + alpha * mean))
    scores = np.full(len(counts), np.log(mean), np.float32)
    said = problem("poisson").said(scores, counts.astype(np.float32), 1.0, 1.5)
    assert law.pmf(counts) @ np.asarray(said.residual, float) == pytest.approx(0.0, abs=2e-3)
    assert float(said.root[0]) == pytest.approx(np.sqrt(mean), rel=1e-5)


def test_residuals_of_a_line_are_bounded_only_if_errors_are_symmetric():
    far = np.float32([0.9])
    own = (Columns("x", 1, number=True),)
    for residuals, found in (("bounded", 1.5), ("wide", 9.0), ("whole", 9.0)):
        line = GeneralizedLinear("gaussian", own, (-1.0, 1.0), residuals=residuals)
        said = line.said(np.float32([0.0]), far, 0.1, 1.5)
        assert float(said.residual[0]) == pytest.approx(found, rel=1e-5)
        assert float(said.slope[0]) == (0.0 if residuals == "bounded" else 1.0)
    with pytest.raises(InvalidInput, match="choose one of bounded, wide, whole"):
        GeneralizedLinear("gaussian", own, (-1.0, 1.0), residuals="none")


def test_binomial_residuals_are_centred_and_of_unit_variance():
    chance = 0.13
    score = np.float32([np.log(chance / (1 - chance))] * 2)
    said = problem("binomial").said(score, np.float32([0, 1]), 1.0, 1.5)
    residual = np.asarray(said.residual)
    assert residual @ [1 - chance, chance] == pytest.approx(0.0, abs=1e-6)
    assert residual**2 @ [1 - chance, chance] == pytest.approx(1.0, abs=1e-5)


def test_rows_are_told_apart_from_offsets_and_weights():
    one = GeneralizedLinear(
        "poisson", (Columns("x", 1, number=True),), (0.0, 9.0), (-1.0, 2.0), weighted=True
    )
    assert one.width == 4
    rows = jax.numpy.asarray([[0.5, 3.0, 7.0, 2.0]])
    features, y, offset, weight = one.parts(rows)
    assert (float(features[0, 0]), float(y[0])) == (0.5, 3.0)
    assert (float(offset[0]), float(weight[0])) == (2.0, 1.0)  # moved to their public ends


def test_an_unknown_family_is_refused():
    with pytest.raises(InvalidInput, match="choose one of binomial, gaussian, poisson"):
        GeneralizedLinear("gamma", (Columns("x", 1, number=True),), (0.0, 1.0))
