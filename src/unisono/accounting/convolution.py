r"""Composition of loss laws by one Fourier transform per distinct event, with certified errors.

The composed law is tilted by ``exp(theta L)`` so that it is centred where it is asked for
(Esscher). With cumulants ``K(theta) = sum_e n_e log sum_k m_e(k) exp(theta k h)`` and ``c`` the
circular convolution of the tilted laws, the composed mass at loss ``L`` is
``exp(K(theta) - theta L) c(L)``, so the absolute error of the transform is a *relative* error of
delta, however small delta is. Errors that are bounded, not estimated:

* rounding of the transform: an output of a length-N transform of a law of total mass one errs by
  at most ``eta = 8 u (log2 N + ...)``, so the product errs by at most
  ``prod_e (|f_e| + eta)^{n_e} - prod_e |f_e|^{n_e}`` at every frequency;
* wrap-around and loss at the window ``[w, w + W]``: the tilted mass above ``x`` is at most
  ``exp(K(theta + s) - K(theta) - s x)`` (Chernoff), and below with ``s < 0``. Mass below ``w``, or
  above ``epsilon + W``, may reappear above epsilon (harmless for an upper bound, subtracted from a
  lower one); mass above ``w + W`` is missing (added to an upper bound).
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import fft

from unisono.accounting.discretisation import EXCESS, GridLaw
from unisono.accounting.pairs import UNIT_ROUNDOFF
from unisono.accounting.validation import FloatArray
from unisono.core.collector import return_freed_memory

_BLOCK = 2**15
# SciPy keeps the plans of the last sixteen lengths, 8 bytes a place, until the process ends; NumPy
# computes the same bits and keeps none. Up to this length a plan costs more time than memory.
_KEPT_PLAN = 2**18
# Windows of so many places take 8 MB or more an array, and come after many smaller ones.
_LARGE_WINDOW = 2**20


class ConvolutionPlan(NamedTuple):
    """Tilt, window of the composed loss, and the orders at which Chernoff bounds certify it.

    ``order_lost`` bounds the mass above the window, ``order_low`` that below it and ``order_high``
    that above ``epsilon + W``.
    """

    tilt: float
    low: float
    high: float
    order_lost: float
    order_low: float
    order_high: float


class ComposedLoss(NamedTuple):
    """A certified bound, from above or from below, of the composed curve ``H``.

    ``losses``, shape (n,), ascend from ``max(0, window)``; ``tail[i]`` and ``shrunk[i]`` are the
    sums over ``j >= i`` of the mass and of the mass times ``exp(losses[n // 2] - losses[j])``,
    shape (n+1,). ``remainder`` counts fully at every epsilon: infinite losses and, above, what lies
    beyond the window. The upper bound is known for epsilon >= ``known_from``. Below, the sum of
    ``exp(constant - order epsilon)`` over ``wrapped`` bounds what wrap-around may have added.
    """

    losses: FloatArray
    tail: FloatArray
    shrunk: FloatArray
    remainder: float
    upper: bool
    known_from: float = 0.0
    wrapped: tuple[tuple[float, float], ...] = ()

    def deltas(self, epsilon: FloatArray) -> FloatArray:
        """The bound of ``H`` at every epsilon >= 0; trivial (0 or 1) where it is not known."""
        return self._bound(epsilon, np.searchsorted(self.losses, epsilon, side="right"))

    def _bound(self, epsilon: FloatArray, index: NDArray[np.intp]) -> FloatArray:
        """:meth:`deltas` with the position of the first loss above every epsilon."""
        origin = self.losses[len(self.losses) // 2]
        # Farther away the exponentials leave the range of doubles.
        near = np.abs(epsilon - origin) < 650.0
        kept = np.exp(np.where(near, epsilon - origin, -700.0)) * self.shrunk[index]
        value = np.maximum(self.tail[index] - np.where(near, kept, 0.0), 0.0)
        rounding = (len(self.losses) + 16) * UNIT_ROUNDOFF * self.tail[index]
        if self.upper:
            bound = np.minimum(value + rounding + self.remainder, 1.0)
            return np.where(epsilon < self.known_from, 1.0, bound)
        for constant, order in self.wrapped:
            rounding = rounding + np.exp(np.minimum(constant - order * epsilon, 0.0))
        return np.where(near, np.maximum(value - rounding, 0.0), 0.0) + self.remainder

    def epsilon(self, delta: float) -> float:
        """An epsilon with true ``H(epsilon) <= delta`` (upper) or ``>= delta`` (lower, or 0)."""
        last = self._last_above(delta)
        if last is None:
            least = self.known_from if self.upper else 0.0
            within = self.deltas(np.array([least]))[0] <= delta
            return least if within or not self.upper else float(self.losses[0])
        if last + 1 == len(self.losses):
            return math.inf if self.upper else float(self.losses[last])
        # Every point is valid on its own, so rounding cannot mislead the search.
        points = self.losses[last : last + 2]
        for _ in range(4):
            points = np.linspace(points[0], points[-1], 64)
            above = np.flatnonzero(self.deltas(points[:-1]) > delta)
            begin = int(above[-1]) if above.size else 0
            points = points[begin : begin + 2]
        return float(points[1] if self.upper else points[0])

    def _last_above(self, delta: float) -> int | None:
        """The last loss at which the bound exceeds delta, from the end in blocks that fit into the
        cache: of millions of losses few are looked at."""
        for end in range(len(self.losses), 0, -_BLOCK):
            begin = max(0, end - _BLOCK)
            bound = self._bound(self.losses[begin:end], np.arange(begin + 1, end + 1))
            over = np.flatnonzero(bound > delta)
            if over.size:
                return begin + int(over[-1])
        return None


def compose_laws(
    laws: Sequence[tuple[GridLaw, int]], plan: ConvolutionPlan, step: float, *, upper: bool
) -> ComposedLoss:
    """Certified bound of the curve of the composition of ``laws``, each used ``count`` times."""
    infinite = max(_any_infinite(laws), 0.0)
    start = math.floor(plan.low / step)
    size = int(fft.next_fast_len(math.ceil((plan.high - plan.low) / step) + 2, real=True))
    if size >= _LARGE_WINDOW:
        return_freed_memory()
    cumulants, slack, drift = np.zeros(3), 0.0, 0.0
    rows, noise = [], []
    for law, count in laws:
        losses = np.arange(law.first, law.first + len(law.mass), dtype=np.float64) * step
        tilted, own = _tilt(law.mass, plan.tilt * losses)
        if own == -math.inf:
            return ComposedLoss(np.zeros(1), np.zeros(2), np.zeros(2), infinite, upper)
        orders = (plan.order_lost,) if upper else (plan.order_low, plan.order_high)
        others = [_tilt(law.mass, order * losses)[1] for order in orders]
        cumulants[: 1 + len(others)] += count * np.array([own, *others])
        extent = float(np.max(np.abs(losses)))
        largest = (abs(plan.tilt) + max(map(abs, orders))) * extent
        drift += count * (4.0 * UNIT_ROUNDOFF * extent + (0.0 if upper else 2.0 * EXCESS))
        slack += count * 8.0 * UNIT_ROUNDOFF * (4.0 + largest)
        rows.append(_folded(tilted, law.first, size))
        noise.append(8.0 * UNIT_ROUNDOFF * (math.log2(size) + 4.0 + largest))
    # Windows of long studies have millions of places: nothing is kept longer than it is needed,
    # and from the transform on most is done in place.
    del losses, tilted
    counts = np.array([count for _, count in laws], np.float64)
    values, error = _circular(rows, counts, np.array(noise), size)
    first, places = max(start, 0), size - max(-start, 0)
    losses = np.arange(first, first + places, dtype=np.float64)
    losses *= step
    begin = first % size
    if begin + places > size:
        values = np.concatenate([values[begin:], values[: begin + places - size]])
    else:
        values = values[begin : begin + places]
    wrapped: tuple[tuple[float, float], ...] = ()
    if upper:
        mass, scale = np.maximum(values, 0.0, out=values), cumulants[0] + slack
        mass += error
        top = (start + size - 1) * step
        beyond = math.exp(min(cumulants[1] + slack - plan.order_lost * top, 0.0))
        remainder = infinite * (1.0 + 1e-12) + beyond
    else:
        mass, scale = np.subtract(values, error, out=values), cumulants[0] - slack
        np.maximum(mass, 0.0, out=mass)
        fall_low, fall_high = plan.tilt - plan.order_low, plan.order_high - plan.tilt
        wrapped = (
            (cumulants[1] + slack + fall_low * start * step, plan.tilt),
            (cumulants[2] + slack - fall_high * (size - 1) * step, plan.order_high),
        )
        remainder = infinite * (1.0 - 1e-12)
    del values
    exponents = losses * plan.tilt
    np.subtract(scale, exponents, out=exponents)
    mass *= _exp(np.minimum(exponents, 690.0, out=exponents))
    # Where this overflows, `_bound` either looks too far away (650), or the mass is above e^59,
    # a bound without content, whose rounding term alone makes the upper bound 1.
    with np.errstate(over="ignore"):
        np.subtract(losses[len(losses) // 2], losses, out=exponents)
        shrunk = _exp(np.minimum(exponents, 700.0, out=exponents))
        shrunk *= mass
        kept = _suffix(shrunk)
    del exponents, shrunk
    known_from = max(float(losses[0]), 0.0) + drift if start > 0 else 0.0
    # Nodes k h are rounded; what all uses together can be off by is moved to the safe side.
    losses += drift if upper else -drift
    return ComposedLoss(losses, _suffix(mass), kept, remainder, upper, known_from, wrapped)


def _tilt(mass: FloatArray, exponent: FloatArray) -> tuple[FloatArray, float]:
    """``mass exp(exponent)`` normalised, and the logarithm of its sum."""
    held = mass > 0
    if not np.any(held):
        return mass, -math.inf
    # Nodes without mass must not set the scale: a large order would underflow all the others.
    shift = float(np.max(exponent, where=held, initial=-math.inf))
    tilted = mass * np.exp(np.minimum(exponent - shift, 0.0))
    total = float(np.sum(tilted))
    return tilted / total, shift + math.log(total)


def _folded(mass: FloatArray, first: int, size: int) -> FloatArray:
    """``mass`` wrapped around a circle of ``size`` places, starting at ``first``."""
    begin = first % size
    padded = np.zeros(-(-(begin + len(mass)) // size) * size)
    padded[begin : begin + len(mass)] = mass
    return padded if len(padded) == size else padded.reshape(-1, size).sum(axis=0)


def _circular(
    rows: list[FloatArray], counts: FloatArray, noise: FloatArray, size: int
) -> tuple[FloatArray, float]:
    """Circular convolution of ``rows``, which are used up, to the powers ``counts``; every entry's
    error bound."""
    frequencies = size // 2 + 1
    log_worst = np.zeros(frequencies)
    transforms = fft if size <= _KEPT_PLAN else np.fft
    chunk = max(1, 2**21 // size)
    spectra = []
    for begin in range(0, len(counts), chunk):
        own, rows[:chunk] = rows[:chunk], []
        spectrum = transforms.rfft(own[0][None] if len(own) == 1 else np.stack(own), axis=1)
        del own
        part = slice(begin, begin + chunk)
        modulus = np.abs(spectrum)
        modulus += noise[part, None]
        log_worst += counts[part] @ np.log(modulus, out=modulus)
        spectra.append(spectrum)
    del spectrum, modulus
    # Powers damp most frequencies to nothing; only their bound is kept.
    active = log_worst > -90.0
    log_worst = log_worst[active]
    log_size, phase = np.zeros(len(log_worst)), np.zeros(len(log_worst))
    for begin in range(0, len(counts), chunk):
        part = slice(begin, begin + chunk)
        kept = spectra.pop(0)[:, active]
        log_size += counts[part] @ np.log(np.maximum(np.abs(kept), 1e-300))
        phase += counts[part] @ np.angle(kept)
    # Powers are exponentials of logarithms: n u (1 + pi) more, and the phase's own size.
    log_worst += 8.0 * UNIT_ROUNDOFF * (4.0 * np.sum(counts) + np.abs(phase))
    worst = np.exp(np.minimum(log_worst, 700.0))
    product = np.zeros(frequencies, dtype=np.complex128)
    product[active] = np.exp(log_size + 1j * phase)
    doubt = float(np.sum(worst - np.exp(2.0 * log_size - log_worst))) + math.exp(-90.0) * size
    rounding = 8.0 * UNIT_ROUNDOFF * (math.log2(size) + 4.0)
    error = 1e-290 + 2.0 * (doubt + rounding * float(np.sum(worst))) / size
    return transforms.irfft(product, n=size), error


def _any_infinite(laws: Sequence[tuple[GridLaw, int]]) -> float:
    """Probability that at least one use has infinite loss."""
    if any(law.infinite >= 1.0 for law, _ in laws):
        return 1.0
    return -math.expm1(math.fsum(count * math.log1p(-law.infinite) for law, count in laws))


def _suffix(values: FloatArray) -> FloatArray:
    """Sums from every place to the end, and 0."""
    sums = np.zeros(len(values) + 1)
    np.cumsum(values[::-1], out=sums[-2::-1])
    return sums


def _exp(values: FloatArray) -> FloatArray:
    """Exponentials, in place."""
    return np.exp(values, out=values)
