r"""A privacy filter: budgets that hold when every question may depend on earlier answers.

Exact composition of the releases that happened is not such a filter. It is a statement about
distributions of noise that were fixed in advance; an analyst who chooses the next one after seeing
answers can exceed it (up to 17 times delta: `benchmarks/adaptive_attack.py`). What is left of a
budget is therefore a pair of distributions, not a number (`core.wallet`).

Notation. ``h_B(x) = sup_S B1(S) - e^x B2(S)``, x real, is the privacy profile of a pair B, and
``G(mu)`` the pair N(mu, 1), N(0, 1). ``l`` is the log-likelihood ratio of all answers so far.

Theorem. Let B_0, B_1, ... be symmetric pairs and w_0, w_1, ... numbers, functions of public state,
with ``P(|l_k| > w_k for some k) <= eta_0`` for both data sets. If

    h_{M x B_{k+1}}(x) <= h_{B_k}(x) + eta_{k+1}   for all x in [epsilon - w_k, epsilon + w_k],  (*)

where M dominates the next request in both orders, and ``h_{B_0}(epsilon) + sum eta <= delta``, then
the whole interaction, stopped at any time, is (epsilon, delta)-private. Proof: the potential
``E_P[h_{B_k}(epsilon - l_k); no exit so far] + P(exit so far)`` grows by at most eta and the
probability of an exit in each step, as the next value of its first term given the past is the left
side of (*) at ``x = epsilon - l_k``; in the end it is at least the delta of the interaction,
``E_P[(1 - e^{epsilon - l})_+]``, because ``h_B(x) >= (1 - e^x)_+``.

So the analyst may choose questions, mechanisms, noise and the moment to stop from all earlier
answers. Releases of one grant happen, by Blackwell's theorem, when they are granted; a plan whose
distributions are declared together is one M. What follows from (*):

* First request: l_0 = 0, so that (*) is needed at x = epsilon only: exact composition of the
  request with what is to remain, or with nothing.
* Pure requests: h_M is 0 on the window if w + epsilon_M <= epsilon, so that the empty pair may
  remain. Histories of pure releases alone (w is the sum of their epsilons) lose nothing.
* Gaussian requests: mu^2 - mu_M^2, with equality in (*).
* Any other request: the smallest certified c with (*) for G(sqrt(mu^2 - c)). Without a window the
  charge c falls as mu grows (compose both sides with a Gaussian), so that the charge of a slightly
  smaller mu is valid.
* Windows: the Gaussian part of l is a Brownian motion with drift 1/2, or -1/2, at the clock
  sum mu^2. It leaves [-t, t] before clock L with probability at most (1 + e^-t) times
  ``Phi((L/2 - t) / sqrt L) + e^t Phi(-(L/2 + t) / sqrt L)``. This is paid for at the beginning for
  14 clocks. A plan without a largest loss stays within a reach that is paid for when it is granted:
  ``P(l > t) <= h(s) / (1 - e^{s - t})`` for s < t, at the first passage.

(*) is decided for all x by finitely many evaluations: the left side is convex in a = e^x, hence
below its chord on a cell; the right side is convex, hence above its tangent at the middle.

Rogers, Roth, Ullman and Vadhan 2016 introduced filters; Feldman and Zrnic 2021 and Whitehouse et
al. 2023 give them for Rényi and zero-concentrated privacy, Smith and Thakurta 2022 for Gaussian
privacy. arXiv 2602.15815 (residue filters) and 2602.06756 (f-DP filters) treat what remains of a
profile, and show that exact composition is not a filter. Interactive plans of which only a total is
known are post-processing of one draw (Vadhan and Zhang 2023).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import erfcx, log_ndtr, ndtr

from unisono.accounting import gaussian, law_costs, renyi
from unisono.accounting.bracketing import curve_above, estimate_epsilon
from unisono.accounting.curve import PrivacyCurve
from unisono.accounting.pairs import LARGEST_LOSS, ApproximatePair, Pair
from unisono.accounting.validation import FloatArray
from unisono.core.events import NOTHING, Composed
from unisono.core.trust import Relation
from unisono.core.wallet import Wallet

SPARE = 0.02  # of delta, for tails and for what samplers leave: up to .5 % of Gaussian requests
_WINDOWS = 0.25 * SPARE  # of delta, for losses beyond the windows of Gaussian releases
_LEVELS = 14  # clocks at which those are known
_REACH = _WINDOWS / 8  # of delta, for losses of one plan beyond its reach
_FAR = 1e6  # a reach that is of no use
_SAFE = 1e-10  # relative error granted to evaluations of the normal distribution
_SMALLEST = 1e-8  # mu^2 below which that error is not known, and nothing is left
_NEGLIGIBLE = 1e-6  # of mu^2: a charge that is not worth a search
_ORDERS = np.unique(np.concatenate([np.arange(2, 65), np.geomspace(72, 4096, 40).round()]))
Profile = Callable[[FloatArray], FloatArray]
Side = tuple[FloatArray, FloatArray]  # losses, and their masses under P
_NOWHERE: Side = np.zeros(1), np.zeros(1)


# ------------------------------------------------------------------- filter


def begin(epsilon: float, delta: float) -> Wallet:
    """The state before the first release."""
    if delta == 0:
        return Wallet(epsilon, 0.0, Fraction(0), 0.0, None, 0.0)
    mu = gaussian.mu_for(epsilon, (1 - SPARE) * delta)
    left = (SPARE - _WINDOWS) * delta
    return Wallet(epsilon, delta, Fraction(0), 0.0, mu * mu * (1 - 1e-12), left)


@lru_cache(maxsize=65536)
def charge(wallet: Wallet, history: Composed, relation: Relation) -> Wallet | None:
    """The state after a request that is declared as a whole; None if it is refused."""
    if history == NOTHING:
        return wallet
    if history.discloses:
        return None
    if wallet.delta == 0:
        return _closed(wallet, _strictly_pure(history, relation), 0.0)
    law = law_of(history, relation, wallet.epsilon, wallet.delta)
    if wallet.fresh:
        found = _first(wallet, law) or _closed(wallet, law.pure, law.extra)
        if found is None and _fits(wallet, law, history, relation):
            # Nothing was seen: exact composition, after which nothing remains.
            return wallet._replace(window=None, mu2=0.0, left=0.0)
        return found
    return _next(wallet, law) or _closed(wallet, law.pure, law.extra)


def _closed(wallet: Wallet, pure: Fraction | None, extra: float) -> Wallet | None:
    """After a pure request that mu2 does not bear: all losses stay within epsilon, and the Gaussian
    form ends."""
    if pure is None or wallet.window is None or not wallet.left >= extra:
        return None
    total = wallet.window + pure
    reach = _decimal(gaussian_reach(wallet))
    if total + reach > _decimal(wallet.epsilon):
        return None
    return wallet._replace(window=total, mu2=None, left=_less(wallet.left, extra))


def follows(before: Wallet, after: Wallet, history: Composed, relation: Relation) -> bool:
    """Whether (*) certainly holds between two states as they were written, for this request."""
    if before[:2] != after[:2] or history.discloses or not 0 <= after.left <= before.left:
        return False
    if after.mu2 is not None and (before.mu2 is None or not 0 <= after.mu2 <= before.mu2):
        return False
    if before.delta == 0:
        pure = _strictly_pure(history, relation)
        if pure is None:
            return False
        law = Law(pure=pure)
    else:
        law = law_of(history, relation, before.epsilon, before.delta)
        if before.fresh and after.window is None and after.mu2 == after.left == 0:
            return _fits(before, law, history, relation)
    eta = before.left - after.left - law.extra
    clock = before.clock + (law.mu2 or 0.0)
    if not (eta >= 0 and after.clock >= clock):
        return False
    if after.window is not None:
        if before.window is None:
            return False
        more = after.window - before.window
        if law.mu2 is None and law.pure is None:
            eta -= _REACH * before.delta
            if not (eta >= 0 and more > 0):
                return False
            if not _beyond(law, float(more)) <= _REACH * before.delta:
                return False
        elif more < (law.pure or 0):
            return False
    if after.mu2 is None:
        if after.window is None or law.pure is None:
            return False
        return after.window + _decimal(gaussian_reach(after)) <= _decimal(after.epsilon)
    assert before.mu2 is not None
    if before.fresh:
        return after.mu2 <= _remaining(before, law)
    if law.mu2 is not None:
        return after.mu2 <= before.mu2 - law.mu2
    if after.mu2 <= before.mu2 - _plain_charge(law).mu2:
        return True
    return _certified(law, before.mu2, after.mu2, _window(before), eta)


def _fits(wallet: Wallet, law: "Law", history: Composed, relation: Relation) -> bool:
    """Whether exact composition certainly is within the budget."""
    if law.infinite >= wallet.delta:
        return False
    return PrivacyCurve(history, relation).fits(wallet.epsilon, wallet.delta)


def _moved(wallet: Wallet, law: "Law") -> Wallet | None:
    """The bounds on losses after a law, with what it takes of delta beside its tail."""
    left = wallet.left - law.extra
    if not left >= law.infinite:
        return None
    if law.mu2 is not None:
        clock = math.nextafter(wallet.clock + law.mu2, math.inf)
        return wallet._replace(clock=clock, left=_less(wallet.left, law.extra))
    if wallet.window is None or law.pure is not None:
        window = None if wallet.window is None or law.pure is None else wallet.window + law.pure
        return wallet._replace(window=window, left=_less(wallet.left, law.extra))
    cost = _REACH * wallet.delta
    window = wallet.window + _decimal(_reach_of(law, cost))
    if window > _decimal(wallet.epsilon) or cost > left / 2:  # of no use, so not paid for
        return wallet._replace(window=None, left=_less(wallet.left, law.extra))
    return wallet._replace(window=window, left=_less(wallet.left, law.extra + cost))


def _first(wallet: Wallet, law: "Law") -> Wallet | None:
    moved = _moved(wallet, law)
    if moved is None:
        return None
    mu2 = _remaining(wallet, law)
    return None if mu2 < 0 else moved._replace(mu2=_rounded(mu2))


def _remaining(wallet: Wallet, law: "Law") -> float:
    """The largest mu^2 with ``h_{M x G(mu)}(epsilon) <= (1 - spare) delta``; below 0 for none."""
    if law.mu2 is not None:
        assert wallet.mu2 is not None
        return wallet.mu2 - law.mu2
    at, most = np.array([wallet.epsilon]), (1 - SPARE) * wallet.delta

    def fits(mu2: float) -> bool:
        return all(float(_left(at, side, law.infinite, mu2)[0]) <= most for side in law.sides)

    if not fits(0.0):
        return -1.0
    low, high = 0.0, 1e-4
    while fits(high):
        low, high = high, 2 * high
    for _ in range(48):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _next(wallet: Wallet, law: "Law") -> Wallet | None:
    moved = _moved(wallet, law)
    if wallet.mu2 is None or moved is None:
        return None
    if law.mu2 is not None:
        mu2 = wallet.mu2 - law.mu2
        return None if mu2 < 0 else moved._replace(mu2=_rounded(mu2))
    if wallet.mu2 == 0:
        return None
    # Tails use up delta at the pace of mu^2, so that neither is left over. Few rates: charges are
    # remembered.
    left = moved.left
    rate = 2.0 ** (math.floor(2 * math.log2(0.8 * left / wallet.mu2)) / 2) if left > 0 else 0.0
    plain, found = _plain_charge(law), None
    if not plain.mu2 < _NEGLIGIBLE * wallet.mu2:
        found = _smallest_charge(law, wallet.mu2, _window(wallet), rate)
    if found is None or not found.eta <= left:
        found = plain  # evaluations are not exact enough for the smallest requests
    if not found.mu2 <= wallet.mu2:
        return None
    return moved._replace(mu2=_rounded(wallet.mu2 - found.mu2), left=_less(left, found.eta))


# ------------------------------------------------------------------ windows


def _window(wallet: Wallet) -> tuple[float, float]:
    """All x = epsilon - l at which (*) is needed; x < 0 follows from the other order."""
    if wallet.window is None:
        return 0.0, math.inf
    seen = float(wallet.window) * (1 + 1e-12) + gaussian_reach(wallet)
    return max(0.0, wallet.epsilon - seen), wallet.epsilon + seen


def gaussian_reach(wallet: Wallet) -> float:
    """All Gaussian releases so far have moved the loss by no more, up to a delta that was paid for
    at the beginning."""
    if wallet.clock == 0:
        return 0.0
    start = begin(wallet.epsilon, wallet.delta).mu2 or 0.0
    levels = [start * 2.0**-level for level in range(_LEVELS)]
    clock = min((level for level in levels if level >= wallet.clock), default=None)
    return _FAR if clock is None else _reach_of_clock(clock, wallet.delta)


@lru_cache(maxsize=1024)
def _reach_of_clock(clock: float, delta: float) -> float:
    root = math.sqrt(clock)

    def beyond(t: float) -> float:
        up = ndtr((clock / 2 - t) / root) + math.exp(t + log_ndtr(-(clock / 2 + t) / root))
        return float(up * (1 + math.exp(-t)))

    return _smallest(beyond, _WINDOWS / _LEVELS * delta)


@lru_cache(maxsize=1024)
def _reach_of(law: "Law", eta: float) -> float:
    return _smallest(lambda t: _beyond(law, t), eta)


def _beyond(law: "Law", t: float) -> float:
    """The probability that the loss of a plan ever leaves [-t, t], at most."""
    shares = np.array([0.7, 0.8, 0.87, 0.92, 0.95])
    up = np.max([_left(shares * t, side, law.infinite, 0.0) for side in law.sides], axis=0)
    return float(np.min(up / -np.expm1((shares - 1) * t)) * (1 + math.exp(-t)))


def _smallest(beyond: Callable[[float], float], eta: float) -> float:
    """A t with ``beyond(t) <= eta``, nearly the smallest."""
    low, high = 0.0, 1e-3
    while not beyond(high) <= eta:
        low, high = high, 2 * high
        if high > 700:
            return _FAR
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (low, middle) if beyond(middle) <= eta else (middle, high)
    return high * (1 + 1e-9)


def _rounded(mu2: float) -> float:
    return math.nextafter(mu2, 0.0) if mu2 > _SMALLEST else 0.0


def _less(left: float, spent: float) -> float:
    """What is left of delta, rounded down."""
    return max(math.nextafter(left - spent, 0.0), 0.0) if spent else left


def _decimal(value: float) -> Fraction:
    """A number as people write it: three tenths are .3, whatever their binary digits are."""
    return Fraction(repr(float(value)))


# --------------------------------------------------------------------- laws


@dataclass(frozen=True, eq=False)
class Law:
    """A dominating pair of one request, or of a whole declared plan, with finitely many losses.

    `sides` has (losses, masses under P) for each order, one where the pair is symmetric;
    `infinite` is the mass of an infinite loss, `pure` the largest loss if there is one, `mu2` that
    of a Gaussian pair, `extra` a further additive delta for what samplers leave.
    """

    sides: tuple[Side, ...] = ()
    infinite: float = 0.0
    pure: Fraction | None = None
    mu2: float | None = None
    extra: float = 0.0

    def __post_init__(self) -> None:
        if not self.sides and self.mu2 is None and self.pure is None:
            raise ArithmeticError("a pair of distributions has no losses")
        numbers = [self.infinite, self.extra, self.mu2 or 0.0]
        for losses, masses in self.sides:
            numbers += [*losses, *masses]
            # A profile that begins at 1 has all of P's mass; dominating pairs may have more.
            if not math.fsum(masses) + self.infinite >= 1 - 1e-9:
                raise ArithmeticError("a pair of distributions has lost mass")
        if not all(map(math.isfinite, numbers)) or min(self.infinite, self.extra) < 0:
            raise ArithmeticError("a pair of distributions has a loss or a mass that is no number")

    @property
    def spread(self) -> float:
        """A scale of its losses, for grids."""
        return max(
            math.sqrt(float((masses * losses**2).sum() / max(masses.sum(), 1e-300)))
            for losses, masses in self.sides
        )


@lru_cache(maxsize=4096)
def law_of(history: Composed, relation: Relation, epsilon: float, delta: float) -> Law:
    """The pair that dominates all of a history, declared together, with what samplers leave."""
    parts, tail = history.parts, 1e-5 * delta
    gap = math.fsum(count * event.noise.gap for event, count in parts)
    slack = math.fsum(count * event.noise.slack for event, count in parts)
    squares = [law_costs.dominating_square(event, relation, delta) for event, _ in parts]
    known = [one for one in squares if one is not None]
    # Larger errors of samplers count as losses, unless there are too many losses for a grid.
    as_delta = 3.1 * slack <= tail or _hopeless(history, relation, epsilon, delta)
    if len(known) == len(squares) and as_delta:
        pairs = list(zip(known, parts, strict=True))
        mu2 = math.fsum(count * one.mu2 for one, (_, count) in pairs)
        more = math.fsum(count * one.slack for one, (_, count) in pairs)
        mu2 *= 1 + 1e-12
        top = gaussian.epsilon(tail, math.sqrt(mu2)) if gap and mu2 else 0.0
        own = _left_by_samplers(gap, epsilon, top, lambda x: profile_of(x, mu2))
        # Ratios within e^a: e^a h(x - 2a) <= h(x) + 3.1 a.
        return Law(mu2=mu2, extra=own + 3.1 * (slack + more))
    pure = _pure_sum(history, relation)
    if (pure is None or pure > epsilon) and _hopeless(history, relation, epsilon, delta):
        return Law((_NOWHERE,), infinite=1.0)
    pure = None if pure is None else pure + _decimal(2 * slack)
    sides, infinite, top = _sides(history, relation, pure, tail, delta, slack)

    def profile(x: FloatArray) -> FloatArray:
        return np.max([_left(x, side, infinite, 0.0) for side in sides], axis=0)

    own = _left_by_samplers(gap, epsilon, top, profile)
    return Law(sides, infinite, pure, None, own)


def _left_by_samplers(gap: float, epsilon: float, top: float, profile: Profile) -> float:
    """What samplers leave of the intended pair, whose losses lie within `top` but for its tail.

    Total variation g on both sides adds ``g (1 + e^epsilon)`` to the delta of the interaction. Or
    it adds ``g (1 + e^x)`` to the profile at all points up to x and, as profiles fall, ``h(x)``
    more beyond, for any x."""
    if gap == 0:
        return 0.0
    x = np.linspace(0.0, min(top, 700.0), 161)
    own = float(np.min(profile(x) + gap * (1 + np.exp(x))))
    return min(own, gap * (1 + math.exp(min(epsilon, 700.0))))


def _pure_sum(history: Composed, relation: Relation) -> Fraction | None:
    """The largest loss of the intended distributions, if there is one."""
    total = Fraction(0)
    for event, count in history.parts:
        one = law_costs.sampled_pure_epsilon(event, relation)
        if one is None or not math.isfinite(one):
            return None
        total += count * _decimal(one)
    return total


def _strictly_pure(history: Composed, relation: Relation) -> Fraction | None:
    """The same, if nothing else was drawn than was intended."""
    noises = [event.noise for event, _ in history.parts]
    exact = not any(noise.gap or noise.slack for noise in noises)
    return _pure_sum(history, relation) if exact else None


def _sides(
    history: Composed,
    relation: Relation,
    pure: Fraction | None,
    smallest: float,
    delta: float,
    slack: float,
) -> tuple[tuple[Side, ...], float, float]:
    """Finitely many losses, in both orders, from certified upper profiles; losses that are larger
    than any other have a mass of about `smallest`; and the largest."""
    limit = math.inf if pure is None else float(pure) * (1 + 2.0**-50)
    pairs = [(law_costs.pair(event, relation), count) for event, count in history.parts]
    known = [(pair, count) for pair, count in pairs if pair is not None]
    curve = None if len(known) == len(pairs) else _renyi_curve(history, relation)
    if curve is not None:
        top = renyi.epsilon(_ORDERS, curve, smallest)
        ways: tuple[Profile, Profile] = (lambda x: _from_renyi(curve, x),) * 2
    elif len(pairs) == len(known) == 1 and known[0][1] == 1 and limit < math.inf:
        top, ways = limit - 2 * slack, _exactly(known[0][0])
    else:
        if len(known) < len(pairs):
            known = _mixed(history, relation, known, delta)
        curves = [curve_above(known, forward, smallest) for forward in (True, False)]
        top = max(float(one.epsilon(smallest)) for one in curves)
        above, below = (lambda x, one=one: one.deltas(x) * (1 + 1e-9) for one in curves)
        ways = above, below
    if slack:
        ways, top = (_slackened(ways[0], slack), _slackened(ways[1], slack)), top + 2 * slack
    top = min(top, limit, LARGEST_LOSS)
    grid = np.linspace(-top, top, 13 if top == limit and limit < 1 else 161)
    both = [_from_profile(grid, _both_signs(*order, limit)) for order in (ways, (ways[1], ways[0]))]
    return tuple(side for side, _ in both), max(infinite for _, infinite in both), top


def _slackened(way: Profile, slack: float) -> Profile:
    """The profile of what is drawn, whose probabilities are within a factor of e^a of the intended
    ones: at most ``e^a h(x - 2a)``, where h falls by no more than the distance."""

    def profile(x: FloatArray) -> FloatArray:
        before = x - 2 * slack
        found = way(np.maximum(before, 0.0)) + np.maximum(-before, 0.0)
        return np.minimum(1.0, found * math.exp(slack))

    return profile


def _hopeless(history: Composed, relation: Relation, epsilon: float, delta: float) -> bool:
    """Whether one release alone exceeds the budget, or all together have losses beyond any: what
    grids are too small for."""
    pairs = [(law_costs.pair(event, relation), count) for event, count in history.parts]
    known = [(pair, count) for pair, count in pairs if pair is not None]
    if any(max(pair.hockey_stick(epsilon)) > delta for pair, _ in known):
        return True
    return bool(known) and estimate_epsilon(known, delta) > LARGEST_LOSS


def _renyi_curve(history: Composed, relation: Relation) -> FloatArray | None:
    curves = [law_costs.renyi_curve(event, relation, _ORDERS) for event, _ in history.parts]
    known = [one for one in curves if one is not None]
    if len(known) < len(curves):
        return None
    return renyi.compose(known, [count for _, count in history.parts])


def _from_renyi(curve: FloatArray, x: FloatArray) -> FloatArray:
    """``delta(x) <= e^{(a-1)(D_a - x)} (1 - 1/a)^{a-1} / a`` at every order (Canonne, Kamath and
    Steinke 2020, Proposition 12)."""
    scaled = (_ORDERS - 1) * (curve - x[:, None]) + (_ORDERS - 1) * np.log1p(-1 / _ORDERS)
    return np.exp(np.minimum(np.min(scaled - np.log(_ORDERS), axis=1), 0.0))


def _mixed(
    history: Composed, relation: Relation, known: list[tuple[Pair, int]], delta: float
) -> list[tuple[Pair, int]]:
    """Pairs where there are any, and the rest as one (epsilon, delta / 1000) pair."""
    rest = [
        (event, count) for event, count in history.parts if law_costs.pair(event, relation) is None
    ]
    curves = [law_costs.renyi_curve(event, relation, _ORDERS) for event, _ in rest]
    for (event, _), curve in zip(rest, curves, strict=True):
        if curve is None:
            raise law_costs.unknown(event, relation)
    own = [curve for curve in curves if curve is not None]
    total = renyi.compose(own, [count for _, count in rest])
    return [*known, (ApproximatePair(renyi.epsilon(_ORDERS, total, delta / 1000), delta / 1000), 1)]


def _exactly(pair: Pair) -> tuple[Profile, Profile]:
    def way(index: int) -> Profile:
        return lambda x: np.array([pair.hockey_stick(float(one))[index] for one in x]) * (1 + 1e-9)

    return way(0), way(1)


def _both_signs(above: Profile, below: Profile, limit: float) -> Profile:
    """A profile at all x from those of both orders at x >= 0: h(-y) = 1 - e^-y + e^-y h_rev(y). It
    is at most that of randomized response at the largest loss."""

    def profile(x: FloatArray) -> FloatArray:
        y = np.abs(x)
        found = np.where(x >= 0, above(y), -np.expm1(-y) + np.exp(-y) * below(y))
        if limit == math.inf:
            return found
        response = -np.expm1(np.minimum(x - limit, 0.0)) / (1 + math.exp(-limit))
        return np.minimum(found, np.maximum(response, -np.expm1(np.minimum(x, 0.0))))

    return profile


def _from_profile(
    grid: FloatArray, profile: Profile
) -> tuple[tuple[FloatArray, FloatArray], float]:
    """The pair whose profile interpolates upper bounds at `grid`, linearly in e^x, after their
    lower convex hull: it dominates, by convexity (Doroshenko et al. 2022)."""
    values = np.clip(profile(grid), 0.0, 1.0)
    values = np.maximum(values, -np.expm1(np.minimum(grid, 0.0)))
    a = np.concatenate([[0.0], np.exp(grid)])
    v = np.concatenate([[1.0], np.minimum.accumulate(values)])
    kept = [0]
    for i in range(1, len(a)):
        while len(kept) > 1 and (v[kept[-1]] - v[kept[-2]]) * (a[i] - a[kept[-1]]) >= (
            v[i] - v[kept[-1]]
        ) * (a[kept[-1]] - a[kept[-2]]):
            kept.pop()
        kept.append(i)
    a, v = a[kept], v[kept]
    slopes = np.concatenate([np.diff(v) / np.diff(a), [0.0]])
    masses = np.maximum(np.diff(slopes), 0.0)  # of Q, at a[1:]
    return (np.log(a[1:]), masses * a[1:]), float(v[-1])


# ---------------------------------------------------------------- dominance


def profile_of(x: FloatArray, mu2: float) -> FloatArray:
    """h of N(mu, 1) against N(0, 1) at any real x; mu = 0 is "nothing"."""
    mu = math.sqrt(mu2)
    negative = np.minimum(x, 0.0)
    if mu == 0:
        return -np.expm1(negative)
    y = np.abs(x)
    t = y / mu - mu / 2
    with np.errstate(over="ignore", invalid="ignore"):
        far = np.exp(-t * t / 2) * (erfcx(t / math.sqrt(2)) - erfcx((t + mu) / math.sqrt(2))) / 2
    near = ndtr(-t) - np.exp(np.minimum(y, 700.0)) * ndtr(-t - mu)
    right = np.where(t > -3, far, near)
    return np.where(x >= 0, right, -np.expm1(negative) + np.exp(negative) * right)


def _slope_of(x: FloatArray, mu2: float) -> FloatArray:
    """Q(loss > x), minus the slope of the profile in a = e^x."""
    mu = math.sqrt(mu2)
    if mu == 0:
        return np.where(x < 0, 1.0, 0.0)
    return np.asarray(ndtr(-x / mu - mu / 2))


def _left(x: FloatArray, side: Side, infinite: float, mu2: float) -> FloatArray:
    """The left side of (*), rounded up."""
    losses, masses = side
    total = np.full(x.shape, infinite)
    for start in range(0, len(losses), 64):  # bounded memory
        part = slice(start, start + 64)
        total += profile_of(x[:, None] - losses[part], mu2) @ masses[part]
    return total * (1 + _SAFE)


class _Charge(NamedTuple):
    mu2: float
    eta: float


def _plain_charge(law: Law) -> _Charge:
    """Randomized response is dominated by ``G(epsilon sqrt(pi / 2))``, as ``2 Phi(mu / 2) - 1 >=
    tanh(epsilon / 2)``: its trade-off function is the largest convex one through that point."""
    pure = math.inf if law.pure is None else float(law.pure)
    return _Charge(math.pi / 2 * pure * pure * (1 + 1e-12), 0.0)


def _smallest_charge(
    law: Law, mu2: float, window: tuple[float, float], rate: float
) -> _Charge | None:
    """The smallest certified decrement of mu^2 that pays for a law, with its eta."""
    if window == (0.0, math.inf) or law.spread < 0.05 * math.sqrt(mu2):
        # A pocket at most 2 % smaller, whose charge is valid and is shared by many requests. For
        # small requests the window saves less than 1 %.
        lower = math.exp(0.02 * math.floor(math.log(mu2) / 0.02))
        found = _remembered(law, min(lower, mu2), (0.0, math.inf), rate)
        if found is not None:
            return found
    return _remembered(law, mu2, window, rate)


@lru_cache(maxsize=4096)
def _remembered(law: Law, mu2: float, window: tuple[float, float], rate: float) -> _Charge | None:
    low, high = window
    mu = math.sqrt(mu2)
    reach = min(high, max(law.spread + 9 * mu + mu2, low + 6 * mu))
    near = low + max(reach - low, 0.0) / 8
    nodes = np.unique(np.concatenate([np.linspace(low, reach, 120), np.linspace(low, near, 20)]))
    target = profile_of(nodes, mu2)

    def plausible(cost: float) -> bool:
        most = target + law.infinite + rate * cost
        after = _rounded(mu2 - cost)
        return all(bool(np.all(_left(nodes, s, law.infinite, after) <= most)) for s in law.sides)

    if not plausible(mu2):
        return None
    bottom, top, guess = 0.0, mu2, min(law.spread**2, mu2)
    for factor in (0.8, 1.02, 1.2):
        if guess * factor >= mu2:
            break
        if plausible(guess * factor):
            top = guess * factor
            break
        bottom = guess * factor
    while top - bottom > 5e-4 * top:
        middle = (bottom + top) / 2
        bottom, top = (bottom, middle) if plausible(middle) else (middle, top)
    for step in (1.0005, 1.001, 1.002, 1.005, 1.01, 1.03, 1.1, 1.3):
        top = min(top * step, mu2)
        eta = law.infinite + rate * top
        after = _rounded(mu2 - top)
        if _certified(law, mu2, after, window, eta):
            # A rest that is too small to keep is part of the charge, for larger pockets too.
            return _Charge(top if after else mu2, eta)
        if top == mu2:
            break
    return None


def _certified(
    law: Law, before: float, after: float, window: tuple[float, float], eta: float
) -> bool:
    return all(
        _certified_side(side, law.infinite, before, after, window, eta) for side in law.sides
    )


def _certified_side(
    side: Side,
    infinite: float,
    before: float,
    after: float,
    window: tuple[float, float],
    eta: float,
) -> bool:
    """(*) for all x of the window, by chords and tangents; cells that fail are divided."""
    low, high = window
    room = eta * (1 - 1e-9)
    if low > 600:  # beyond the range of e^x
        return False
    top = low + 1.0
    while top < high and not float(_left(np.array([top]), side, infinite, after)[0]) <= room:
        top = top * 1.3 + 0.1  # where the left side is below eta, it is so for all larger x
        if top > 600:
            return False
    top = min(top, high)

    def right(x: FloatArray) -> FloatArray:
        return profile_of(x, before) * (1 - _SAFE) + room

    nodes = np.linspace(low, top, 97) if top - low > 1e-12 else np.array([low, low])
    left, end = nodes[:-1], nodes[1:]
    for _ in range(7):
        a, b = _left(left, side, infinite, after), _left(end, side, infinite, after)
        if not (np.all(a <= right(left)) and np.all(b <= right(end))):
            return False
        middle = (left + end) / 2
        height = right(middle)
        fall = _slope_of(middle, before) * (1 - _SAFE) * np.exp(middle)
        good = (a <= height - fall * np.expm1(left - middle)) & (
            b <= height - fall * np.expm1(end - middle)
        )
        if good.all():
            return True
        left, end = left[~good], end[~good]
        cuts = [left + i * (end - left) / 4 for i in range(5)]
        left, end = np.stack(cuts[:4], 1).ravel(), np.stack(cuts[1:], 1).ravel()
        if len(left) > 20_000:
            return False
    return False


__all__ = [
    "SPARE",
    "Law",
    "begin",
    "charge",
    "follows",
    "gaussian_reach",
    "law_of",
    "profile_of",
]
