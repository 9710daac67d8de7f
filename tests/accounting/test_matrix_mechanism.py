"""Strategies for correlated noise: square roots, worst patterns by brute force, errors, optima."""

import itertools
import math

import numpy as np
import pytest
from scipy.linalg import toeplitz
from scipy.special import binom

from unisono.accounting import matrix_mechanism as matrix
from unisono.errors import InvalidInput


def dense(coefficients, rounds):
    """The lower triangular Toeplitz matrix (rounds, rounds)."""
    column = np.zeros(rounds)
    column[: len(coefficients)] = coefficients[:rounds]
    return toeplitz(column, np.zeros(rounds))


def falling(bands, generator):
    """Random coefficients that begin with 1 and never rise; sometimes with ties and zeros."""
    steps = np.sort(generator.choice([0.0, 0.3, 0.7, *generator.random(4)], bands - 1))[::-1]
    return np.concatenate([[1.0], steps])


def patterns(rounds, separation, most):
    """All sets of at most `most` rounds that lie at least `separation` apart."""
    for count in range(1, most + 1):
        for chosen in itertools.combinations(range(rounds), count):
            if all(b - a >= separation for a, b in itertools.pairwise(chosen)):
                yield list(chosen)


@pytest.mark.parametrize(("momentum", "shrinkage"), [(0, 1), (0.9, 1), (0.5, 0.95), (0, 0.9)])
def test_square_roots_square_to_the_workload(momentum, shrinkage):
    root = matrix.require_strategy(matrix.square_root(40, momentum, shrinkage))
    wanted = dense(matrix.workload(40, momentum, shrinkage), 40)
    assert np.abs(dense(root, 40) @ dense(root, 40) - wanted).max() < 1e-12


def test_the_square_root_of_prefix_sums_is_the_published_series():
    published = np.abs(binom(-0.5, np.arange(60)))
    assert np.abs(matrix.square_root(60) - published).max() < 1e-14


def test_a_workload_is_what_momentum_does():
    gradients, model, speed = np.random.default_rng(0).normal(size=9), 0.0, 0.0
    for value in gradients:
        speed = 0.7 * speed + value
        model = 0.9 * model + speed
    assert model == pytest.approx(matrix.workload(9, 0.7, 0.9)[::-1] @ gradients, abs=1e-14)


@pytest.mark.parametrize("separation", [1, 2, 3, 5, 8, 11])
@pytest.mark.parametrize("bands", [1, 2, 4, 8])
def test_no_pattern_is_worse_than_the_one_at_the_start(separation, bands):
    """Brute force over all patterns of 8 rounds; the bound is reached, so that it is exact."""
    generator = np.random.default_rng(100 * separation + bands)
    for coefficients in (matrix.square_root(bands), *(falling(bands, generator) for _ in range(8))):
        columns = dense(coefficients, 8)
        for most in (1, 2, 8):
            found = max(
                np.linalg.norm(columns[:, chosen].sum(axis=1))
                for chosen in patterns(8, separation, most)
            )
            claim = matrix.sensitivity(coefficients, 8, separation, most)
            assert claim == pytest.approx(found, rel=1e-12)


def test_rising_coefficients_are_refused_because_the_pattern_would_be_another():
    columns = dense([1.0, 0.0, 1.0], 6)
    start, later = (np.linalg.norm(columns[:, c].sum(axis=1)) for c in ([0, 1, 2], [0, 2, 4]))
    assert later > start
    for wrong in ([1.0, 0.0, 1.0], [0.5, 0.1], [1.0, -0.1], [1.0, math.nan], [], [[1.0]]):
        with pytest.raises(InvalidInput, match="never rise"):
            matrix.sensitivity(np.array(wrong), 6, 1)


def test_vectors_of_any_direction_and_missing_entries_move_no_further():
    """Every entry of C may be missing, as after dropouts, and records may turn."""
    generator = np.random.default_rng(3)
    for _ in range(300):
        coefficients, separation = falling(5, generator), int(generator.integers(1, 6))
        claim = matrix.sensitivity(coefficients, 12, separation)
        moves = np.zeros((12, 3))
        moves[generator.integers(separation) :: separation] = generator.normal(size=3)
        moves += 0.3 * generator.normal(size=moves.shape) * moves.any(axis=1, keepdims=True)
        moves /= np.maximum(1e-30, np.linalg.norm(moves, axis=1, keepdims=True))
        partial = dense(coefficients, 12) * (generator.random((12, 12)) < generator.random())
        assert np.linalg.norm(partial @ moves) <= claim * (1 + 1e-12)


def test_disjoint_columns_add_up_like_independent_releases():
    c = matrix.square_root(7)
    assert matrix.sensitivity(c, 40, 10) == pytest.approx(2 * np.linalg.norm(c), rel=1e-14)
    assert matrix.sensitivity(np.ones(1), 40, 10) == 2
    assert matrix.sensitivity(c, 40, 5) > math.sqrt(8) * np.linalg.norm(c)
    assert matrix.turns(41, 10) == 5


def test_errors_are_those_of_the_covariance():
    c, asked = matrix.square_root(5), matrix.workload(20, 0.6)
    reading = dense(asked, 20) @ np.linalg.inv(dense(c, 20))
    assert np.abs(matrix.errors(c, asked) ** 2 - np.diag(reading @ reading.T)).max() < 1e-12
    whole = matrix.error_at_equal_privacy(c, asked, 8)
    sensitivity = np.linalg.norm(dense(c, 20)[:, ::8].sum(axis=1))
    assert whole == pytest.approx(sensitivity * math.sqrt(np.mean(reading**2) * 20), rel=1e-12)


@pytest.mark.parametrize(
    ("bands", "rounds", "separation", "momentum"), [(8, 60, 20, 0), (12, 60, 5, 0), (8, 60, 9, 0.9)]
)
def test_optimised_coefficients_cannot_be_improved(bands, rounds, separation, momentum):
    """Better than the square root, and no small change of the ratios helps."""
    asked = matrix.workload(rounds, momentum)
    best = matrix.require_strategy(matrix.optimised(bands, rounds, separation, momentum))
    found = matrix.error_at_equal_privacy(best, asked, separation)
    root = matrix.square_root(bands, momentum)
    alone = matrix.error_at_equal_privacy(np.ones(1), asked, separation)
    assert found < matrix.error_at_equal_privacy(root, asked, separation) < alone
    generator = np.random.default_rng(4)
    for _ in range(200):
        ratios = best[1:] / best[:-1] * np.exp(0.02 * generator.normal(size=bands - 1))
        other = np.concatenate([[1.0], np.cumprod(np.minimum(1.0, ratios))])
        assert matrix.error_at_equal_privacy(other, asked, separation) >= found * (1 - 1e-9)


def test_correlated_noise_beats_independent_noise_by_the_predicted_factor():
    """Four epochs of 100 rounds: iterates err by a fifth of what independent noise costs."""
    asked = matrix.workload(400)
    alone = matrix.error_at_equal_privacy(np.ones(1), asked, 100)
    assert alone == pytest.approx(2 * math.sqrt(401 / 2))
    best = matrix.error_at_equal_privacy(matrix.optimised(100, 400, 100), asked, 100)
    assert best == pytest.approx(0.2065 * alone, rel=1e-3)


def test_impossible_workloads_are_refused():
    for momentum, shrinkage in ((1.0, 1.0), (-0.1, 1.0), (0.9, 0.8), (0.0, 1.1)):
        with pytest.raises(InvalidInput, match="momentum"):
            matrix.workload(5, momentum, shrinkage)
    for arguments in ((0, 1), (5, 0), (5, 1, 0)):
        with pytest.raises(InvalidInput, match="greater than zero"):
            matrix.sensitivity(np.ones(1), *arguments)


# ------------------------------------------------------- another implementation


@pytest.fixture(scope="module")
def peer():
    return pytest.importorskip("jax_privacy.matrix_factorization.toeplitz")


def test_another_library_has_the_same_series_and_errors(peer):
    theirs = np.asarray(peer.optimal_max_error_strategy_coefs(30))
    assert theirs == pytest.approx(matrix.square_root(30), rel=1e-5)
    asked = matrix.workload(50, 0.8)
    squares = peer.per_query_error(strategy_coef=theirs[:9], n=50, workload_coef=asked)
    ours = matrix.errors(matrix.square_root(9), asked) ** 2
    assert np.asarray(squares) == pytest.approx(ours, rel=1e-4)


@pytest.mark.parametrize("separation", [1, 3, 7, 20, 60])
def test_another_library_has_the_same_sensitivity(peer, separation):
    c = matrix.square_root(16)
    for most in (None, 1, 3):
        theirs = peer.minsep_sensitivity_squared(c, separation, most, n=50)
        ours = matrix.sensitivity(c, 50, separation, most) ** 2
        assert ours == pytest.approx(float(theirs), rel=1e-5)


def test_another_library_finds_no_better_coefficients(peer):
    """Both minimise the mean squared error of prefix sums where columns are disjoint."""
    theirs = np.asarray(peer.optimize_banded_toeplitz(n=80, bands=10), float)
    ours = matrix.optimised(10, 80, 80)
    assert theirs / theirs[0] == pytest.approx(ours, rel=0.01)
    asked = matrix.workload(80)
    best, other = (matrix.error_at_equal_privacy(c, asked, 80) for c in (ours, theirs / theirs[0]))
    assert best <= other * (1 + 1e-6)
