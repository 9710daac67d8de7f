"""The best adaptive analyst against a budget: the privacy filter beside exact composition.

    python benchmarks/adaptive_attack.py            all menus and budgets; some minutes
    python benchmarks/adaptive_attack.py --quick    one budget

An analyst chooses the next release, its mechanism and its noise, from all earlier answers. For a
menu of releases the largest delta that any strategy reaches is found by dynamic programming over
(step, state of the ledger, privacy loss): ``V = max(stop, max_M E[V(next state, loss + L_M)])``
with ``stop = (1 - e^(epsilon - loss))_+``. The lattice of losses contains epsilon and the sizes of
pure releases; otherwise interpolation across the kink at epsilon raises false alarms. Strategies
are also simulated. Two rules grant releases: the ledger's filter (`unisono.accounting.filter`), and
the rule that it replaced, exact composition of the releases that happened. The figure is realized
delta over the delta of the budget.

The second table counts how many equal releases each rule grants: exact composition is valid only
for releases that are fixed in advance, and bounds every filter from above. The Rényi filter has the
best single order, chosen with hindsight.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.signal import fftconvolve
from scipy.special import ndtr

import figures
from unisono.accounting import filter, gaussian, law_costs
from unisono.accounting.curve import PrivacyCurve
from unisono.core.events import (
    Composed,
    DiscreteGaussian,
    Event,
    Gaussian,
    Laplace,
    Poisson,
    RandomizedResponse,
    bounded_sum,
    compose,
)
from unisono.core.trust import Relation
from unisono.core.wallet import Wallet

SCORECARD = figures.Benchmark(quick=("--quick",))

BUDGETS = ((1.0, 1e-6), (0.5, 1e-3), (3.0, 1e-6))
RELATION = Relation.ADD_OR_REMOVE
ONE = bounded_sum(l1=1.0, l2=1.0, linf=1.0)
ORDERS = np.unique(np.concatenate([np.arange(2, 200), np.geomspace(200, 4096, 200).round()]))
SAMPLED = ("sampled plans, Gaussians, one Laplace", "the same in the other order")
STEP = 2e-3  # of epsilon: lattice of exact composition


# ------------------------------------------------------------------ releases


class Move(NamedTuple):
    """A release: its event, and its losses with their masses; a Gaussian has mu instead."""

    history: Composed
    mu: float = 0.0
    losses: Any = None
    masses: Any = None
    infinite: float = 0.0
    kind: str = ""
    size: float = 0.0


def gaussian_move(mu: float) -> Move:
    return Move(Event(Gaussian(1 / mu), ONE) * 1, mu, kind="gaussian", size=mu)


def laplace_move(epsilon: float, points: int = 2000) -> Move:
    inner = epsilon * ((np.arange(points) + 0.5) / points * 2 - 1)  # density e^{(l - e)/2} / 4
    mass = 2 * epsilon / points * np.exp((inner - epsilon) / 2) / 4
    losses = np.concatenate([[-epsilon], inner, [epsilon]])
    masses = np.concatenate([[math.exp(-epsilon) / 2], mass, [0.5]])
    history = Event(Laplace(1 / epsilon), ONE) * 1
    return Move(history, 0.0, losses, masses / masses.sum(), kind="laplace", size=epsilon)


def response_move(epsilon: float) -> Move:
    truth = 1 / (1 + math.exp(-epsilon))
    losses, masses = np.array([-epsilon, epsilon]), np.array([1 - truth, truth])
    history = Event(RandomizedResponse(epsilon), ONE) * 1
    return Move(history, 0.0, losses, masses, kind="response", size=epsilon)


def plan_move(budget: tuple[float, float], forward: bool) -> Move:
    """A DP-SGD plan, in one order of the two data sets."""
    history = Event(Gaussian(1.0), ONE, Poisson(0.01)) * (20 if budget[0] < 2 else 100)
    law = filter.law_of(history, RELATION, *budget)
    return Move(history, 0.0, *law.sides[0 if forward else 1], law.infinite, kind="plan")


def draw(move: Move, count: int, sign: int, rng: np.random.Generator) -> np.ndarray:
    """Losses of a release on the first (sign 1) or the second data set (-1)."""
    if move.kind == "gaussian":
        return sign * move.mu**2 / 2 + move.mu * rng.standard_normal(count)
    if move.kind == "laplace":
        y = (sign > 0) + rng.laplace(0, 1 / move.size, count)
        return move.size * (np.abs(y) - np.abs(y - 1))
    truth = move.masses[1] if sign > 0 else move.masses[0]
    return np.where(rng.random(count) < truth, move.size, -move.size)


# --------------------------------------------------------------------- rules


class Filter(NamedTuple):
    """What the ledger does."""

    wallet: Wallet

    def grant(self, move: Move) -> Filter | None:
        after = filter.charge(self.wallet, move.history, RELATION)
        return None if after is None else Filter(after)


class Exact:
    """Exact composition of the releases that happened, on a lattice; or the sum of epsilons."""

    def __init__(self, epsilon: float, delta: float) -> None:
        self.epsilon, self.delta, self.half = epsilon, delta, int(4 / STEP)
        one = np.zeros(2 * self.half + 1)
        one[self.half] = 1.0
        self.sides: tuple[Any, ...] = (one, one)
        self.names: tuple[Any, ...] = ()
        self.mu2 = self.total = self.lost = 0.0

    def __hash__(self) -> int:
        return hash(self.names)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Exact) and self.names == other.names

    def grant(self, move: Move) -> Exact | None:
        new = Exact(self.epsilon, self.delta)
        new.names = tuple(sorted((*self.names, (move.kind, move.size))))
        new.mu2, new.sides, new.lost = self.mu2 + move.mu**2, self.sides, self.lost + move.infinite
        new.total = self.total + move.size if move.kind in ("laplace", "response") else math.inf
        if not move.mu:
            laws: Any = ((move.losses, move.masses),) * 2
            if move.kind == "plan":
                laws = filter.law_of(move.history, RELATION, self.epsilon, self.delta).sides
            new.sides = tuple(map(self._add, self.sides, laws))
        within = new.total <= self.epsilon * (1 + 1e-12) or new.spent <= self.delta
        return new if within else None

    def _add(self, one: np.ndarray, law: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
        n, hats = _hats(*law, STEP * self.epsilon)
        both = fftconvolve(one, hats)
        return np.maximum(both[n : n + len(one)], 0.0)

    @property
    def spent(self) -> float:
        x: Any = self.epsilon * (1 - (np.arange(2 * self.half + 1) - self.half) * STEP)
        profile = filter.profile_of(x, self.mu2)
        return self.lost + max(float(one @ profile) for one in self.sides)


State = Filter | Exact


def _hats(losses: np.ndarray, masses: np.ndarray, step: float) -> tuple[int, np.ndarray]:
    """Masses on a lattice, each divided between its two neighbours."""
    low = np.floor(losses / step + 1e-7).astype(int)
    up = np.maximum(losses / step - low, 0.0)
    n = int(np.max(np.abs(low))) + 2
    hats = np.bincount(low + n, masses * (1 - up), 2 * n + 1)
    return n, hats + np.bincount(low + n + 1, masses * up, 2 * n + 1)


def _gaussian_hats(mu: float, step: float) -> tuple[int, np.ndarray]:
    """Integrals of hat functions are second differences of E(t - L)_+."""
    n = int((mu * mu / 2 + 10 * mu) / step) + 2
    z = (np.arange(-n - 1, n + 2) * step - mu * mu / 2) / mu
    density = np.exp(-z * z / 2) / math.sqrt(2 * math.pi)
    # Far from the middle both tails are accurate; second differences of the kink are added.
    tail = mu * (density - np.abs(z) * ndtr(-np.abs(z)))
    hats = np.maximum(np.diff(tail, 2) / step, 0.0)
    for i in np.flatnonzero(np.diff(np.sign(z[:-1])) + np.diff(np.sign(z[1:]))):
        t = z[i : i + 3]
        whole = mu * (np.exp(-t * t / 2) / math.sqrt(2 * math.pi) + t * ndtr(t))
        hats[i] = (whole[0] - 2 * whole[1] + whole[2]) / step
    return n, hats


def largest(state: State, make: Callable[[float], Move], top: float) -> list[Move]:
    """The largest release of a family that is granted, by bisection."""
    low, high = 0.0, top
    for _ in range(10):
        middle = float(f"{(low + high) / 2:.4g}")
        low, high = (middle, high) if state.grant(make(middle)) else (low, middle)
    return [make(low)] if low > 1e-3 else []


# ---------------------------------------------------------------------- game

Options = Callable[[int, Any], Iterable[Move]]


class Game:
    """The best strategy for a menu."""

    def __init__(self, epsilon: float, options: Options, steps: int, span: float, size: int):
        self.epsilon, self.options, self.steps = epsilon, options, steps
        step = epsilon / (48 * math.ceil(size / 2 * epsilon / span / 48))
        self.grid = step * np.arange(-(size // 2), size // 2 + 1)
        self.step = step
        self.found: dict[tuple[int, State], Any] = {}

    def value(self, k: int, state: State) -> np.ndarray:
        key = k, state
        if key not in self.found:
            best = -np.expm1(np.minimum(self.epsilon - self.grid, 0.0))
            which, moves = np.full(len(best), -1), list[Any]()
            for move in self.options(k, state) if k < self.steps else ():
                after = state.grant(move)
                if after is None:
                    continue
                later = self.value(k + 1, after)
                known = move.mu and _gaussian_hats(move.mu, self.step)
                n, hats = known or _hats(move.losses, move.masses, self.step)
                padded = np.pad(later, n, mode="edge")
                new = move.infinite + fftconvolve(padded, hats[::-1], mode="valid")
                which = np.where(new > best, len(moves), which)
                best = np.maximum(best, new)
                moves.append((move, after))
            self.found[key] = best, which, moves
        return self.found[key][0]

    def solve(self, state: State) -> float:
        return float(self.value(0, state)[len(self.grid) // 2])

    def simulate(self, state: State, trials: int, rng: np.random.Generator) -> tuple[float, float]:
        """P(S) - e^epsilon Q(S) of the strategy, S = {loss > epsilon}, and its standard error."""
        shares = [self._exceeding(state, trials, sign, rng) / trials for sign in (1, -1)]
        factors = [1.0, math.exp(self.epsilon)]
        error = math.sqrt(sum(f * f * p for f, p in zip(factors, shares, strict=True)) / trials)
        return shares[0] - factors[1] * shares[1], error

    def _exceeding(self, state: State, trials: int, sign: int, rng: np.random.Generator) -> int:
        groups, count = [(0, state, np.zeros(trials))], 0
        while groups:
            k, own, losses = groups.pop()
            _, which, moves = self.found[k, own]
            at = np.rint((losses - self.grid[0]) / self.step).astype(int)
            choice = which[np.clip(at, 0, len(which) - 1)]
            count += int((losses[choice < 0] > self.epsilon).sum())
            for i, (move, after) in enumerate(moves):
                chosen = losses[choice == i]
                if len(chosen):
                    groups.append((k + 1, after, chosen + draw(move, len(chosen), sign, rng)))
        return count


def menus(epsilon: float, delta: float) -> dict[str, tuple[Options, int]]:
    """What analysts may choose from at step k, and in how many steps."""
    mu = gaussian.mu_for(epsilon, delta)

    def last(s: State, *makes: Callable[[float], Move]) -> list[Move]:
        tops = [mu if make is gaussian_move else epsilon + 1 for make in makes]
        return [one for make, top in zip(makes, tops, strict=True) for one in largest(s, make, top)]

    def looks(times: int, *final: Callable[[float], Move]) -> tuple[Options, int]:
        clock = np.concatenate([[0], np.geomspace(3e-3, 0.97, times)]) * mu * mu
        sizes = np.sqrt(np.diff(clock))

        def options(k: int, s: State) -> list[Move]:
            further = [gaussian_move(sizes[k])] if k < times else last(s, gaussian_move)
            return (last(s, *final) if k else []) + further

        return options, times + 1

    def sampled(forward: bool) -> tuple[Options, int]:
        plan = plan_move((epsilon, delta), forward)

        def options(k: int, s: State) -> list[Move]:
            first = [plan, gaussian_move(mu / 4)] if k < 3 else last(s, gaussian_move)
            return first + (last(s, laplace_move) if k else [])

        return options, 4

    small, large = epsilon / 12, epsilon / 8
    everything = (gaussian_move, laplace_move, response_move)
    return {
        "8 Gaussians, one Laplace": looks(8, laplace_move),
        "30 Gaussians, one Laplace or response": looks(30, laplace_move, response_move),
        "8 Laplaces, one Gaussian": (
            lambda k, s: last(s, gaussian_move) + ([laplace_move(small)] if k < 8 else []),
            9,
        ),
        "Laplace, response or Gaussian, then all": (
            lambda k, s: (
                [laplace_move(large), gaussian_move(mu / 3), response_move(large)]
                if k < 4
                else last(s, laplace_move, gaussian_move)
            ),
            5,
        ),
        "two sizes of Laplace, a Gaussian last": (
            lambda k, s: (
                [laplace_move(epsilon / 4), laplace_move(epsilon / 16)]
                + (last(s, gaussian_move) if k == 5 else [])
            ),
            6,
        ),
        "8 Gaussians, one response": (
            lambda k, s: (
                ([gaussian_move(mu / 3.2)] if k < 8 else []) + (last(s, response_move) if k else [])
            ),
            9,
        ),
        "sampled plans, Gaussians, one Laplace": sampled(True),
        "the same in the other order": sampled(False),
        "small Gaussians and Laplaces, then all": (
            lambda k, s: (
                [gaussian_move(mu / 24)] + ([laplace_move(small)] if k else [])
                if k < 6
                else last(s, *everything)
            ),
            7,
        ),
    }


def attack(epsilon: float, delta: float, name: str, size: int = 8001, trials: int = 0) -> Any:
    """Realized delta over the budget's, for exact composition and for the filter; simulated too."""
    options, steps = menus(epsilon, delta)[name]
    span = 3 * epsilon + 14 * gaussian.mu_for(epsilon, delta)
    found = []
    for state in (Exact(epsilon, delta), Filter(filter.begin(epsilon, delta))):
        game = Game(epsilon, options, steps, span, size)
        computed = game.solve(state) / delta
        drawn = game.simulate(state, trials, np.random.default_rng(1)) if trials else (0.0, 0.0)
        found.append((computed, *(value / delta for value in drawn)))
    return found


# ------------------------------------------------------------------ requests


def requests(budget: tuple[float, float], turns: Sequence[Composed]) -> dict[str, int | None]:
    """How many requests each rule grants, in turns; None where a rule has no such form."""
    epsilon, delta = budget

    def first(n: int) -> Composed:
        counts = [(n - i + len(turns) - 1) // len(turns) for i in range(len(turns))]
        return compose(one * count for one, count in zip(turns, counts, strict=True) if count)

    n = -1
    wallet: Wallet | None = filter.begin(*budget)
    while wallet is not None:
        n += 1
        wallet = filter.charge(wallet, turns[n % len(turns)], RELATION)
    parts = [part for one in turns for part in one.parts]
    curves = [law_costs.renyi_curve(event, RELATION, ORDERS) * count for event, count in parts]
    mean = np.sum(curves, axis=0) / len(turns)
    allowed = epsilon + np.log(delta * ORDERS) / (ORDERS - 1) - np.log1p(-1 / ORDERS)
    pure = [law_costs.sampled_pure_epsilon(event, RELATION) for event, _ in parts]
    sampled = any(isinstance(event.sampler, Poisson) for event, _ in parts)
    rhos = [
        own**2 / 2 if own else np.max(curve / ORDERS)
        for own, curve in zip(pure, curves, strict=True)
    ]
    return {
        "exact": _most(lambda n: PrivacyCurve(first(n), RELATION).fits(*budget)),
        "filter": n,
        "Rényi": max(0, int(np.max(allowed / mean))),
        "zCDP": None if sampled else max(0, int(np.max(allowed / ORDERS) / np.mean(rhos))),
        "basic": None if None in pure else int(epsilon / np.mean(pure) * (1 + 1e-9)),
    }


def _most(fits: Callable[[int], bool]) -> int:
    low, high = 0, 1
    while fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def kinds(epsilon: float) -> dict[str, list[Composed]]:
    def laplace(size: float) -> Composed:
        return Event(Laplace(1 / size), ONE) * 1

    def normal(mu: float) -> Composed:
        return Event(Gaussian(1 / mu), ONE) * 1

    plans = ((1.0, 0.001, 1000), (0.7, 0.01, 50)) if epsilon < 2 else ((1.0, 0.01, 100),)
    mixed = ((0.03, 0.03), (0.1, 0.05), (0.1, 0.1), (0.3, 0.05))
    return {
        **{f"Laplace {one:g}": [laplace(one)] for one in (0.01, 0.03, 0.1, 0.3)},
        **{f"Gaussian {one:g}": [normal(one)] for one in (0.01, 0.05, 0.1)},
        "discrete Gaussian 1/20": [Event(DiscreteGaussian(20.0, 1.0, 1), ONE) * 1],
        **{f"Laplace {a:g}, Gaussian {b:g}": [laplace(a), normal(b)] for a, b in mixed},
        **{
            f"{rounds} rounds, mu {mu:g}, rate {rate:g}": [
                Event(Gaussian(1 / mu), ONE, Poisson(rate)) * rounds
            ]
            for mu, rate, rounds in plans
        },
    }


def seconds(make: Callable[[float], Composed], repeats: int) -> tuple[float, float]:
    """Processor time of one charge after some Gaussian releases, the median: known law, new law."""
    epsilon, delta = BUDGETS[0]
    times: list[list[float]] = [[], []]
    for i in range(repeats):
        history = make(1 + i / 1000)
        for j, mu in enumerate((0.02, 0.06)):  # the second state has seen the law
            wallet = filter.charge(
                filter.begin(epsilon, delta), gaussian_move(mu + i / 1e4).history, RELATION
            )
            began = time.process_time()
            assert wallet is not None
            assert filter.charge(wallet, history, RELATION)
            times[1 - j].append(time.process_time() - began)
    return float(np.median(times[0])), float(np.median(times[1]))


def timed(repeats: int) -> dict[str, tuple[float, float]]:
    return {
        "Laplace": seconds(lambda x: laplace_move(0.03 * x).history, repeats),
        "sampled plan": seconds(
            lambda x: Event(Gaussian(1.5 * x), ONE, Poisson(0.01)) * 30, repeats
        ),
    }


# ---------------------------------------------------------------------- main


def require_valid(exact: float, own: float) -> None:
    if not (exact > 3 and own <= 1):
        raise SystemExit(f"exact composition {exact}, filter {own}: above 3 and at most 1")


def smoke() -> dict[str, float]:
    (old, *_), (new, *_) = attack(1.0, 1e-6, "8 Gaussians, one Laplace", size=2001)
    require_valid(old, new)
    counts = requests((1.0, 1e-6), [laplace_move(0.1).history])
    return {"exact composition": old, "filter": new, "Laplace 0.1": float(counts["filter"] or 0)}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="one budget, a coarser lattice")
    quick = figures.options(parser, smoke).quick
    budgets = BUDGETS[:1] if quick else BUDGETS
    worst = [0.0, 0.0]
    print("realized delta / delta of the budget: exact composition, filter (simulated)")
    for epsilon, delta in budgets:
        for name in menus(epsilon, delta):
            trials = 2_000_000 if delta >= 1e-3 and name not in SAMPLED else 0
            found = attack(epsilon, delta, name, 4001 if quick else 8001, trials)
            worst = [max(one, found[i][0]) for i, one in enumerate(worst)]
            shown = "   ".join(
                f"{computed:6.3f}" + (f" ({mean:.2f} +- {error:.2f})" if error else "")
                for computed, mean, error in found
            )
            print(f"({epsilon:g}, {delta:g})  {name:40} {shown}", flush=True)
    figures.report("adaptive attack: filter", worst[1], "of delta", aim=1, lower=True)
    figures.report("adaptive attack: exact composition", worst[0], "of delta")
    print(f"largest: exact composition {worst[0]:.2f}, filter {worst[1]:.4f}")
    require_valid(*worst)
    for budget in budgets[:1] if quick else (BUDGETS[0], BUDGETS[2]):
        print(f"\nhow many requests fit into {budget}")
        for name, turns in kinds(budget[0]).items():
            counts = requests(budget, turns)
            shown = "  ".join(f"{rule} {'-' if n is None else n}" for rule, n in counts.items())
            print(f"{name:32} {shown}", flush=True)
    print("\nprocessor time of one charge")
    for name, (known, new) in timed(5 if quick else 15).items():
        print(f"{name}: known law {1e3 * known:.1f} ms, new law {1e3 * new:.1f} ms")
        figures.report(f"charge, {name}, known law", 1e3 * known, "ms", aim=50, lower=True)
        figures.report(f"charge, {name}, new law", 1e3 * new, "ms", aim=200, lower=True)


if __name__ == "__main__":
    main()
