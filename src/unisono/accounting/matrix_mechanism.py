"""Correlated noise for sums over time: banded Toeplitz strategies (matrix factorisation).

A model that learns from gradients G_0, G_1, ... adds them up: iterate t is Σ_{i<=t} a_{t-i} G_i, or
A G with a lower triangular Toeplitz matrix (a_k = 1: prefix sums). Instead of the gradients one
releases

    Y = C G + Z,   Z ~ N(0, std² I),      and reads      A C⁻¹ Y  =  A G  +  (A C⁻¹) Z

C holds the coefficients c_0 = 1 >= c_1 >= ... >= c_{b-1} >= 0 in b bands. The noise C⁻¹ Z of
successive gradients is negatively correlated, and cancels in sums. Reading is post-processing.

Sensitivity. A record takes part k times, at least s rounds apart, and moves each of its G_i by a
vector of norm <= 1. With X = Cᵀ C >= 0, ||C u||² = Σ X_{im} <u_i, u_m> <= Σ X_{im} over its rounds.

* The worst rounds are 0, s, 2s, ... (Kalinin and Lampert 2024, Theorem 2): for i <= m,
  X_{im} = Σ_{r < T-m} c_r c_{r+m-i} grows when m-i falls at equal m, because c decreases, and when
  both fall together, because terms are added. Rounds p_0 < p_1 < ... have p_n >= n s and
  p_m - p_n >= (m-n) s: move each pair to (n s, m s), first the difference, then both.
* So sens² = ||Σ_n c shifted by n s||², which is k ||c||² where s >= b: the columns are disjoint.
* Entries may be missing (0 <= C' <= C, by anything public): all X' <= X, and the bound holds.

Noise of std = sens / μ makes the whole run μ-Gaussian private. That later gradients depend on
earlier releases costs nothing with Gaussian noise (Denisov et al. 2022, Theorem 2.1): along every
history the squared distances of all releases add up to sens² at most.

Square roots (C C = A): c_k = |binom(-1/2, k)| for prefix sums (Fichtenberger et al. 2023), and with
momentum β and shrinkage α a convolution of two such series (Kalinin and Lampert 2024).
"""

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logit

from unisono.core.sensitivity import positive
from unisono.errors import InvalidInput

Array = np.ndarray


def workload(rounds: int, momentum: float = 0.0, shrinkage: float = 1.0) -> Array:
    """How much of the gradient of k rounds before is in an iterate: (rounds,).

    m_t = momentum m_{t-1} + G_t and θ_t = shrinkage θ_{t-1} + m_t: prefix sums by default.

    >>> workload(4).tolist(), workload(3, momentum=0.5).tolist()
    ([1.0, 1.0, 1.0, 1.0], [1.0, 1.5, 1.75])
    """
    _require_memory(momentum, shrinkage)
    positive(rounds=rounds)
    impulse = np.eye(1, rounds)[0]
    return _divided(np.convolve([1.0, -momentum], [1.0, -shrinkage]), impulse)


def square_root(bands: int, momentum: float = 0.0, shrinkage: float = 1.0) -> Array:
    """The first coefficients of the matrix whose square is the workload: (bands,).

    >>> square_root(4).tolist()
    [1.0, 0.5, 0.375, 0.3125]
    """
    _require_memory(momentum, shrinkage)
    positive(bands=bands)
    steps = np.arange(1, bands)
    series = np.cumprod(np.concatenate([[1.0], (2 * steps - 1) / (2 * steps)]))
    powers = np.arange(bands)
    return np.convolve(series * shrinkage**powers, series * momentum**powers)[:bands]


def optimised(
    bands: int, rounds: int, separation: int, momentum: float = 0.0, shrinkage: float = 1.0
) -> Array:
    """Coefficients (bands,) of the least mean squared error of iterates at equal privacy.

    Minimises mean error x sens² from the square root on, by L-BFGS on logits of c_k / c_{k-1}, so
    that coefficients stay positive and decrease: the sensitivity above is exact, and reading is
    stable (Eneström and Kakeya).
    """
    bands = min(bands, rounds)
    from scipy.signal import correlate

    asked = workload(rounds, momentum, shrinkage)
    start = require_strategy(square_root(bands, momentum, shrinkage))
    if bands == 1:
        return start
    weights = 1 - np.arange(rounds) / rounds  # in what part of the iterates an entry occurs

    def objective(logits: Array) -> tuple[float, Array]:
        ratios = expit(logits)
        coefficients = np.concatenate([[1.0], np.cumprod(ratios)])
        reading = _divided(coefficients, asked)  # the first column of A C⁻¹
        error = float(weights @ reading**2)
        back = _divided(coefficients, (weights * reading)[::-1])[::-1]
        error_slope = -2 * correlate(back, reading, method="fft")[rounds - 1 :][:bands]
        moved = _moved(coefficients, rounds, separation)
        square = float(moved @ moved)
        square_slope = 2 * _gathered(moved, bands, separation)
        slope = error_slope / error + square_slope / square
        # c_k holds the ratios 1..k: d c_k / d logit_j = c_k (1 - ratio_j) for k >= j.
        tail = np.cumsum((slope * coefficients)[::-1])[::-1]
        return float(np.log(error * square)), tail[1:] * (1 - ratios)

    first = logit(np.clip(start[1:] / start[:-1], 1e-9, 1 - 1e-9))
    found = minimize(objective, first, jac=True, method="L-BFGS-B", options={"maxiter": 500})
    return np.concatenate([[1.0], np.cumprod(expit(found.x))])


def sensitivity(
    coefficients: Array, rounds: int, separation: int, participations: int | None = None
) -> float:
    """How far a record moves C G, whose G_i it moves by at most 1, in at most `participations`
    rounds that lie at least `separation` apart (as many as there are, unless told)."""
    moved = _moved(require_strategy(coefficients), rounds, separation, participations)
    return float(np.linalg.norm(moved))


def turns(rounds: int, separation: int) -> int:
    """In how many rounds a record takes part at most."""
    positive(rounds=rounds, separation=separation)
    return -(-rounds // separation)


def errors(coefficients: Array, asked: Array) -> Array:
    """Standard deviation of every iterate of a workload, for noise of standard deviation 1."""
    return np.sqrt(np.cumsum(_divided(require_strategy(coefficients), asked) ** 2))


def error_at_equal_privacy(coefficients: Array, asked: Array, separation: int) -> float:
    """Root mean squared error of the iterates where μ = 1: the figure to compare strategies by.

    >>> asked = workload(400)
    >>> alone = error_at_equal_privacy(np.ones(1), asked, separation=100)
    >>> round(error_at_equal_privacy(square_root(100), asked, separation=100) / alone, 2)
    0.21
    """
    spread = np.sqrt(np.mean(errors(coefficients, asked) ** 2))
    return float(spread * sensitivity(coefficients, len(asked), separation))


def require_strategy(coefficients: Array) -> Array:
    """Refuse coefficients for which the sensitivity above is not proved."""
    given = np.asarray(coefficients, float)
    decreasing = given.ndim == 1 and given.size > 0 and np.isfinite(given).all()
    if not decreasing or given[0] != 1 or given[-1] < 0 or (np.diff(given) > 0).any():
        raise InvalidInput(
            f"coefficients {coefficients!r}: they begin with 1, never rise and are not negative, "
            "or the worst pattern of participation is another"
        )
    return given


def _divided(coefficients: Array, series: Array) -> Array:
    """A power series divided by another: its first coefficients, as many as are given."""
    from scipy.signal import lfilter  # loads scipy.stats, which parties have no other use for

    found: Array = lfilter([1.0], coefficients, series)
    return found


def _moved(
    coefficients: Array, rounds: int, separation: int, participations: int | None = None
) -> Array:
    """The sum of the columns 0, s, 2s, ... of C: (rounds,)."""
    count = turns(rounds, separation)
    if participations is not None:
        positive(participations=participations)
        count = min(count, participations)
    moved = np.zeros(rounds)
    for begin in range(0, count * separation, separation):
        part = coefficients[: rounds - begin]
        moved[begin : begin + len(part)] += part
    return moved


def _gathered(moved: Array, bands: int, separation: int) -> Array:
    """Σ_n moved[k + n s] for every k < bands: the transpose of adding shifted columns."""
    total = np.zeros(bands)
    for begin in range(0, len(moved), separation):
        part = moved[begin : begin + bands]
        total[: len(part)] += part
    return total


def _require_memory(momentum: float, shrinkage: float) -> None:
    if not (0 <= momentum < 1 and momentum < shrinkage <= 1):
        raise InvalidInput(
            f"momentum = {momentum!r}, shrinkage = {shrinkage!r}: momentum lies in [0, 1) and "
            "below shrinkage, which is at most 1"
        )
