"""Where residuals are clipped, and what a histogram of them says of their tails."""

import numpy as np
import pytest

from unisono.algorithms import residual_range
from unisono.algorithms.column_scales import without_far
from unisono.algorithms.residual_range import BINS, clip_level, heavy_tail

RECORDS, NOISE, TOP = 40_000, 8.0, 60.0


def histogram(lengths: np.ndarray, seed: int = 0) -> np.ndarray:
    counts = np.bincount(np.asarray(residual_range.place_of(lengths)), minlength=BINS)
    return counts + NOISE * np.random.default_rng(seed).standard_normal(BINS)


def lengths(law: str) -> np.ndarray:
    g = np.random.default_rng(7)
    normal = g.standard_normal(RECORDS)
    if law == "one group":  # four in ten have a tail that others do not have
        sigma = np.where(g.random(RECORDS) < 0.4, 1.2, 0.4)
        return np.exp(sigma * normal) - np.exp(sigma**2 / 2)
    return {"normal": normal, "both sides": g.standard_t(2.5, RECORDS)}[law]


@pytest.mark.parametrize(("law", "heavy"), [("normal", 0), ("both sides", 0), ("one group", 1)])
def test_a_heavy_tail_is_one_of_one_side(law: str, heavy: bool) -> None:
    found = [heavy_tail(histogram(lengths(law), s), NOISE, RECORDS, TOP) for s in range(20)]
    assert np.mean(found) == pytest.approx(heavy, abs=0.2)


def test_noise_that_grows_brings_a_narrower_clip() -> None:
    counts = histogram(lengths("one group"))
    levels = [
        float(clip_level(np, counts, NOISE, RECORDS, unit, 1.1, TOP, 0.0).bound)
        for unit in (50.0, 200.0, 800.0)
    ]
    assert levels[0] > levels[1] > levels[2] > 1


def test_the_expected_effect_of_the_clip_is_what_it_takes_away() -> None:
    own = lengths("one group")
    level = clip_level(np, histogram(own), NOISE, RECORDS, 200.0, 1.1, TOP, 0.0)
    edge = 1.1 * float(level.bound)
    taken = np.maximum(own - edge, 0.0).sum() - np.maximum(-own - edge, 0.0).sum()
    assert 0.5 * taken < float(level.miss) < 6 * taken


def test_noise_far_out_does_not_move_the_mean_of_counts() -> None:
    g = np.random.default_rng(3)
    noise = 20.0 * g.standard_normal(20)
    near = np.array([900.0, 500.0, 200.0, 80.0, *np.zeros(16)])
    kept = without_far(near + noise, 20.0)
    assert (kept[5:] == 0).all() or (kept[5:] > 0).sum() <= 1
    np.testing.assert_allclose(kept[:3], (near + noise)[:3])


def test_counts_that_stand_out_far_away_stay() -> None:
    counts = np.array([900.0, 500.0, -12.0, 9.0, -20.0, 15.0, 300.0, -8.0])
    np.testing.assert_allclose(without_far(counts, 15.0)[:7], counts[:7])
    spread = np.array([900.0, *np.full(16, 30.0)])
    np.testing.assert_allclose(without_far(spread, 15.0)[:8], spread[:8])
