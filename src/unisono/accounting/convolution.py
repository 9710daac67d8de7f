r"""Composition of loss laws by one Fourier transform per distinct event, with certified errors.

The composed law is tilted by ``exp(theta L)`` so that it is centred where it is asked for
(Esscher). With cumulants ``K(theta) = sum_e n_e log sum_k m_e(k) exp(theta k h)`` and ``c`` the
circular convolution of the tilted laws, the composed mass at loss ``L`` is
``exp(K(theta) - theta L) c(L)``, so the absolute error of the transform is a *relative* error of
delta, however small delta is. Errors that are bounded, not estimated:

* rounding of the transform: an output of a length-N transform of a law of total mass one errs by
  at most ``eta = 8 u (log2 N + ...)``, so the product errs by at most
  ``prod_e (|f_e| + eta)^{n_e} - prod_e |f_e|^{n_e}`` at every frequency;
* wrap-around: the tilted mass outside the window is at most
  ``exp(K(theta + s) - K(theta) - s w)`` on either side (Chernoff), with ``s`` of either sign.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import fft

from unisono.accounting.discretisation import GridLaw
from unisono.accounting.pairs import UNIT_ROUNDOFF
from unisono.accounting.validation import FloatArray


class Plan(NamedTuple):
    """Where to look: tilt, window of the composed loss, and the exponents that certify it."""

    tilt: float
    low: float
    high: float
    slope_low: float
    slope_high: float


class Composed(NamedTuple):
    """A certified bound, from above or from below, of the composed curve ``H``.

    ``losses``, shape (n,), ascend from ``max(0, window)``; ``tail[i]`` and ``shrunk[i]`` are the
    sums over ``j >= i`` of the mass and of the mass times ``exp(losses[0] - losses[j])``, shape
    (n+1,). ``remainder`` counts fully at every epsilon: infinite losses and, above, what lies
    beyond the window. Below, ``exp(log_wrapped - tilt epsilon)`` bounds what wrap-around added.
    """

    losses: FloatArray
    tail: FloatArray
    shrunk: FloatArray
    remainder: float
    upper: bool
    tilt: float
    log_wrapped: float

    def deltas(self, epsilon: FloatArray) -> FloatArray:
        """The bound of ``H`` at every epsilon >= 0; trivial (0 or 1) where it is not known."""
        index = np.searchsorted(self.losses, epsilon, side="right")
        kept = np.exp(np.minimum(epsilon - self.losses[0], 700.0)) * self.shrunk[index]
        value = np.maximum(self.tail[index] - kept, 0.0)
        rounding = (len(self.losses) + 16) * UNIT_ROUNDOFF * self.tail[index]
        if self.upper:
            bound = np.minimum(value + rounding + self.remainder, 1.0)
            return np.where(epsilon < self.losses[0], 1.0, bound)
        wrapped = np.exp(np.minimum(self.log_wrapped - self.tilt * epsilon, 0.0))
        near = epsilon < self.losses[0] + 690.0
        return np.where(near, np.maximum(value - rounding - wrapped, 0.0), 0.0) + self.remainder

    def epsilon(self, delta: float) -> float:
        """An epsilon with true ``H(epsilon) <= delta`` (upper) or ``>= delta`` (lower, or 0)."""
        over = np.flatnonzero(self.deltas(self.losses) > delta)
        if not over.size:
            return float(self.losses[0]) if self.upper else 0.0
        last = int(over[-1])
        if last + 1 == len(self.losses):
            return math.inf if self.upper else float(self.losses[last])
        low, high = float(self.losses[last]), float(self.losses[last + 1])
        for _ in range(30):
            middle = 0.5 * (low + high)
            if self.deltas(np.array([middle]))[0] > delta:
                low = middle
            else:
                high = middle
        return high if self.upper else low


def compose_laws(
    laws: Sequence[tuple[GridLaw, int]], plan: Plan, step: float, *, upper: bool
) -> Composed:
    """Certified bound of the curve of the composition of ``laws``, each used ``count`` times."""
    start = math.floor(plan.low / step)
    size = int(fft.next_fast_len(math.ceil((plan.high - plan.low) / step) + 2, real=True))
    low, high = start * step, (start + size - 1) * step
    cumulant = over_high = over_low = slack = 0.0
    rows, counts, noise = [], [], []
    for law, count in laws:
        losses = np.arange(law.first, law.first + len(law.mass)) * step
        tilted, cumulant_one = _tilt(law.mass, plan.tilt * losses)
        if not math.isfinite(cumulant_one):
            return _nothing(laws, plan, upper)
        cumulant += count * cumulant_one
        over_high += count * _tilt(tilted, plan.slope_high * losses)[1]
        over_low += count * _tilt(tilted, -plan.slope_low * losses)[1]
        largest = plan.tilt * max(abs(float(losses[0])), abs(float(losses[-1])))
        slack += count * 8.0 * UNIT_ROUNDOFF * (4.0 + largest)
        rows.append(_folded(tilted, law.first, size))
        counts.append(count)
        noise.append(8.0 * UNIT_ROUNDOFF * (math.log2(size) + 4.0 + largest))
    values, error = _circular(rows, np.array(counts, np.float64), np.array(noise), size)
    log_outside_high = over_high + slack - plan.slope_high * high
    log_outside_low = over_low + slack + plan.slope_low * low
    indices = np.arange(max(start, 0), start + size)
    losses = indices * step
    values = values[indices % size]
    infinite = _any_infinite(laws)
    if upper:
        mass = np.maximum(values, 0.0) + error
        beyond = math.exp(min(cumulant + slack - plan.tilt * high + log_outside_high, 0.0))
        remainder, log_wrapped = infinite * (1.0 + 1e-12) + beyond, -math.inf
    else:
        mass = np.maximum(values - error, 0.0)
        log_wrapped = cumulant + float(np.logaddexp(log_outside_high, log_outside_low))
        remainder, log_wrapped = infinite * (1.0 - 1e-12), log_wrapped
    sign = 1.0 if upper else -1.0
    mass = mass * np.exp(np.minimum(cumulant + sign * slack - plan.tilt * losses, 690.0))
    origin = losses[0] if len(losses) else 0.0
    shrunk = mass * np.exp(np.maximum(origin - losses, -700.0))
    return Composed(
        losses, _suffix(mass), _suffix(shrunk), remainder, upper, plan.tilt, log_wrapped
    )


def _tilt(mass: FloatArray, exponent: FloatArray) -> tuple[FloatArray, float]:
    """``mass exp(exponent)`` normalised, and the logarithm of its sum."""
    shift = float(np.max(exponent))
    tilted = mass * np.exp(exponent - shift)
    total = float(np.sum(tilted))
    if total <= 0:
        return tilted, -math.inf
    return tilted / total, shift + math.log(total)


def _folded(mass: FloatArray, first: int, size: int) -> FloatArray:
    """``mass`` wrapped around a circle of ``size`` places, starting at ``first``."""
    begin = first % size
    padded = np.zeros(-(-(begin + len(mass)) // size) * size)
    padded[begin : begin + len(mass)] = mass
    return padded if len(padded) == size else padded.reshape(-1, size).sum(axis=0)


def _circular(
    rows: Sequence[FloatArray], counts: FloatArray, noise: FloatArray, size: int
) -> tuple[FloatArray, float]:
    """Circular convolution of ``rows`` to the powers ``counts``; every entry's error bound."""
    frequencies = size // 2 + 1
    log_size, log_worst, phase = np.zeros(frequencies), np.zeros(frequencies), np.zeros(frequencies)
    chunk = max(1, 2**21 // size)
    for begin in range(0, len(rows), chunk):
        part = slice(begin, begin + chunk)
        spectrum = fft.rfft(np.stack(rows[part]), axis=1)
        modulus = np.maximum(np.abs(spectrum), 1e-300)
        log_size += counts[part] @ np.log(modulus)
        log_worst += counts[part] @ np.log(modulus + noise[part, None])
        phase += counts[part] @ np.angle(spectrum)
    # Powers are taken as exponentials of logarithms: n u (1 + pi) more, and the phase's own size.
    log_worst += 8.0 * UNIT_ROUNDOFF * (4.0 * np.sum(counts) + np.abs(phase))
    worst = np.exp(np.minimum(log_worst, 0.0))
    product = np.exp(log_size + 1j * phase)
    # The modulus can fall short by as much as it can exceed.
    doubt = worst - np.exp(2.0 * log_size - log_worst)
    error = 2.0 * float(np.sum(doubt)) / size
    error += 16.0 * UNIT_ROUNDOFF * (math.log2(size) + 4.0) * float(np.sum(worst)) / size
    return fft.irfft(product, n=size), error


def _any_infinite(laws: Sequence[tuple[GridLaw, int]]) -> float:
    """Probability that at least one use has infinite loss."""
    if any(law.infinite >= 1.0 for law, _ in laws):
        return 1.0
    return -math.expm1(math.fsum(count * math.log1p(-law.infinite) for law, count in laws))


def _nothing(laws: Sequence[tuple[GridLaw, int]], plan: Plan, upper: bool) -> Composed:
    """All mass at infinity: the bound is the same at every epsilon."""
    zero = np.zeros(1)
    return Composed(
        zero, np.zeros(2), np.zeros(2), _any_infinite(laws), upper, plan.tilt, -math.inf
    )


def _suffix(values: FloatArray) -> FloatArray:
    return np.concatenate([np.cumsum(values[::-1])[::-1], np.zeros(1)])
