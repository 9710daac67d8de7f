"""How near a reconstruction came, against the truth that only the laboratory knows.

An attack returns records in no particular order, and some attacks cannot tell x from -x. Each truth
is matched with one reconstruction such that the sum of squared distances is least (assignment),

    error_i = ||x̂_i - x_i|| / ||x_i||        PSNR_i = 10 log10(peak² d / ||x̂_i - x_i||²)

and an attack is worth its trouble only where its error is below that of an attacker who saw
nothing and guesses the mean of public records: `mean_baseline`.

A bound on the error of the form size^exponent is compared with the slope fitted to logarithms. It
bounds the error from above: an error that grows faster than promised violates it, one that grows
more slowly leaves it loose.
"""

import math
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from unisono.errors import InvalidInput

Array = NDArray[np.float64]
Verdict = Literal["holds", "loose", "violated"]


class Score(NamedTuple):
    """For each true record: relative error (B,), PSNR (B,), and what it was matched with (B, d):
    its reconstruction, with the sign that fits best where signs are free."""

    errors: Array
    psnr: Array
    matched: Array

    @property
    def error(self) -> float:
        """The mean relative error."""
        return float(np.mean(self.errors))


class Slope(NamedTuple):
    """error ~ size^exponent: the exponent by least squares on logarithms, and its standard error
    (NaN for two points)."""

    exponent: float
    uncertainty: float


def match(
    recovered: Any, truth: Any, *, signs_free: bool = False, peak: float | None = None
) -> Score:
    """Match rows (K, d) with true rows (B, d); a record that nobody guessed counts as a guess of 0.

    `peak` is the public range of a value (1 for grey values in [0, 1]); the truth's range if None.

    >>> truth = np.eye(2)
    >>> match(-truth[::-1], truth, signs_free=True).errors
    array([0., 0.])
    """
    guesses, records = _rows("recovered", recovered), _rows("truth", truth)
    if guesses.shape[1] != records.shape[1]:
        raise InvalidInput(
            f"recovered rows have {guesses.shape[1]} values and true ones {records.shape[1]}: "
            f"score reconstructions in the units and features of the truth"
        )
    products = records @ guesses.T
    signs = np.where(products < 0, -1.0, 1.0) if signs_free else np.ones_like(products)
    squares = np.sum(records**2, axis=1)[:, None] + np.sum(guesses**2, axis=1)
    which, chosen = linear_sum_assignment(squares - 2 * signs * products)
    matched = np.zeros_like(records)
    matched[which] = signs[which, chosen, None] * guesses[chosen]
    return _score(matched, records, peak)


def mean_baseline(reference: Any, truth: Any, *, peak: float | None = None) -> Score:
    """The score of guessing the mean of public rows (n, d) for every record."""
    records = _rows("truth", truth)
    guess = np.mean(_rows("reference", reference), axis=0)
    if guess.shape != records.shape[1:]:
        raise InvalidInput(
            f"reference rows have {len(guess)} values and true ones {records.shape[1]}: "
            f"give public records with the features of the truth"
        )
    return _score(np.tile(guess, (len(records), 1)), records, peak)


def fit_slope(sizes: Any, errors: Any) -> Slope:
    """The exponent of error ~ size^exponent.

    >>> round(fit_slope([1e4, 1e5, 1e6], [0.3, 0.03, 0.003]).exponent, 12)
    -1.0
    """
    x, y = (np.asarray(values, np.float64).ravel() for values in (sizes, errors))
    usable = x.shape == y.shape and len(np.unique(x)) >= 2
    if not usable or not (np.all(np.isfinite([x, y])) and np.all(x > 0) and np.all(y > 0)):
        raise InvalidInput(
            f"sizes {x.shape} and errors {y.shape} have no slope: give equally many positive "
            f"finite numbers, at two sizes or more"
        )
    x, y = np.log(x) - np.mean(np.log(x)), np.log(y) - np.mean(np.log(y))
    exponent = float(x @ y / (x @ x))
    freedom = len(x) - 2
    spread = (
        math.sqrt(float(np.sum((y - exponent * x) ** 2) / freedom / (x @ x)))
        if freedom
        else math.nan
    )
    return Slope(exponent, spread)


def verdict(measured: float, predicted: float, tolerance: float = 0.1) -> Verdict:
    """Whether errors grow with the predicted exponent, more slowly (loose) or faster (violated)."""
    if measured > predicted + tolerance:
        return "violated"
    return "loose" if measured < predicted - tolerance else "holds"


def judge(slope: Slope, predicted: float) -> Verdict | None:
    """The verdict on a fitted slope, which is contradicted only beyond two standard errors and 0.1;
    None where two points leave its uncertainty open.

    >>> judge(Slope(-0.3, 0.12), -0.5)
    'holds'
    """
    if math.isnan(slope.uncertainty):
        return None
    return verdict(slope.exponent, predicted, max(0.1, 2 * slope.uncertainty))


def _score(matched: Array, records: Array, peak: float | None) -> Score:
    lengths = np.linalg.norm(records, axis=1)
    if np.min(lengths) == 0:
        raise InvalidInput("a true record is all zeros: it has no relative error; leave it out")
    distances = np.linalg.norm(matched - records, axis=1)
    if peak is None:
        peak = float(np.ptp(records)) or 1.0
    with np.errstate(divide="ignore"):  # a perfect reconstruction has infinite PSNR
        psnr = 20 * np.log10(peak * math.sqrt(records.shape[1]) / distances)
    return Score(distances / lengths, psnr, matched)


def _rows(name: str, value: Any) -> Array:
    found = np.asarray(value, np.float64)
    if found.ndim != 2 or found.size == 0:
        raise InvalidInput(f"{name} has shape {found.shape}: give rows, (records, features)")
    if not np.all(np.isfinite(found)):
        raise InvalidInput(f"{name} holds NaN or infinity: the attack failed; score its last guess")
    return found
