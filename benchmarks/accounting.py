"""Privacy accounting against dp-accounting and jax-privacy, in one run.

    python benchmarks/accounting.py            everything; the slow peer takes some minutes
    python benchmarks/accounting.py --quick    without the peers that need more than a minute

Every line is timed from the description of the events to the answer, ours and the peer's in turn,
and the minimum over the repetitions counts. Ours is a certified bracket; the peer is an upper bound
at a discretisation of 1e-4. Calibration asks for 0.2 % of the noise from everybody.
"""

from __future__ import annotations

import argparse
import importlib.util
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import figures
from unisono.accounting.calibrate import smallest_scale
from unisono.accounting.pld import GaussianPair, compose
from unisono.core.events import Composed, Event, Gaussian, Poisson, bounded_sum
from unisono.core.events import compose as composed
from unisono.core.trust import Relation
from unisono.mechanisms.gaussian import calibrate

try:
    import dp_accounting
    from dp_accounting import pld as peer
except ImportError:
    dp_accounting = None
try:
    from jax_privacy import accounting as jax_privacy
except ImportError:
    jax_privacy = None

SCORECARD = figures.Benchmark(quick=("--quick", "--repetitions", "2"))

PEERS = {"dp-accounting": "dp_accounting", "jax-privacy": "jax_privacy"}
DELTA = 1e-5
NOISES = np.random.default_rng(0).uniform(0.8, 2, 100)
PRECISION = 2e-3
ONE = bounded_sum(l2=1.0)


class Case(NamedTuple):
    name: str
    ours: Callable[[], Any]
    peer_name: str
    peer: Callable[[], float]
    expected: float | None
    margin: float
    factor: float
    slow: bool = False


def _poisson(rate: float, noise: float) -> dp_accounting.DpEvent:
    return dp_accounting.PoissonSampledDpEvent(rate, dp_accounting.GaussianDpEvent(noise))


def _peer_epsilon(events: list[tuple[dp_accounting.DpEvent, int]]) -> float:
    accountant = peer.PLDAccountant(value_discretization_interval=1e-4)
    for event, count in events:
        accountant.compose(event, count)
    return float(accountant.get_epsilon(DELTA))


def _peer_calibration(make: Callable[[float], dp_accounting.DpEvent], guess: float) -> float:
    return float(
        dp_accounting.calibrate_dp_mechanism(
            lambda: peer.PLDAccountant(value_discretization_interval=1e-4),
            make,
            1.0,
            DELTA,
            dp_accounting.ExplicitBracketInterval(guess / 2, guess * 2),
            tol=PRECISION * guess,
        )
    )


def _jax_calibration(rate: float, count: int, guess: float) -> float:
    config = jax_privacy.PldAccountantConfig(value_discretization_interval=1e-4)
    return float(
        jax_privacy.calibrate_noise_multiplier(
            target_epsilon=1.0,
            accountant=jax_privacy.DpsgdTrainingAccountant(dp_accountant_config=config),
            batch_sizes=round(rate * 1_000_000),
            num_updates=count,
            num_samples=1_000_000,
            target_delta=DELTA,
            initial_min_noise=guess / 2,
            initial_max_noise=guess * 2,
            tol=PRECISION * guess,
        )
    )


def _noise(rate: float, count: int) -> float:
    """As studies are priced."""
    event = calibrate(ONE, Relation.ADD_OR_REMOVE, 1.0, DELTA, count=count, sampler=Poisson(rate))
    assert isinstance(event.noise, Gaussian)
    return event.noise.std


def _events(factor: float) -> Composed:
    return composed(Event(Gaussian(factor * noise), ONE, Poisson(0.01)) * 1 for noise in NOISES)


def _schedule(factor: float) -> list[tuple[GaussianPair, int]]:
    return [(GaussianPair(1 / (factor * noise), 0.01), 1) for noise in NOISES]


def _peer_schedule(factor: float) -> dp_accounting.DpEvent:
    return dp_accounting.ComposedDpEvent([_poisson(0.01, factor * noise) for noise in NOISES])


def cases() -> list[Case]:
    """Figures of the privacy core; the factor is how much faster we want to be."""

    def epsilon(terms: list[tuple[GaussianPair, int]]) -> Callable[[], Any]:
        return lambda: compose(terms).epsilon(DELTA)

    def sampled(rate: float, noise: float, count: int, expected: float, factor: float) -> Case:
        return Case(
            f"epsilon q={rate} noise={noise} T={count}",
            epsilon([(GaussianPair(1 / noise, rate), count)]),
            "dp-accounting",
            lambda: _peer_epsilon([(_poisson(rate, noise), count)]),
            expected,
            0.01,
            factor,
        )

    found = [sampled(0.01, 1.0, 10_000, 6.188, 5), sampled(0.001, 0.6, 100_000, 6.113, 8)]
    found.append(
        Case(
            "epsilon 100 different noises q=0.01",
            epsilon(_schedule(1.0)),
            "dp-accounting",
            lambda: _peer_epsilon([(_poisson(0.01, noise), 1) for noise in NOISES]),
            0.778,
            0.001,
            20,
            slow=True,
        )
    )
    for rate, count, guess in ((0.01, 10_000, 4.0), (0.001, 100_000, 1.4)):
        name = f"noise for epsilon=1 q={rate} T={count}"
        ours = lambda rate=rate, count=count: _noise(rate, count)  # noqa: E731
        found.append(
            Case(
                name,
                ours,
                "dp-accounting",
                lambda rate=rate, count=count, guess=guess: _peer_calibration(
                    lambda noise: dp_accounting.SelfComposedDpEvent(_poisson(rate, noise), count),
                    guess,
                ),
                None,
                PRECISION,
                5,
            )
        )
        found.append(
            Case(
                name,
                ours,
                "jax-privacy",
                lambda rate=rate, count=count, guess=guess: _jax_calibration(rate, count, guess),
                None,
                PRECISION,
                5,
            )
        )
    found.append(
        Case(
            "factor for epsilon=1 on 100 noises q=0.01",
            lambda: smallest_scale(_events, Relation.ADD_OR_REMOVE, 1.0, DELTA),
            "dp-accounting",
            lambda: _peer_calibration(_peer_schedule, 1.0),
            None,
            PRECISION,
            5,
            slow=True,
        )
    )
    return found


def _timed(function: Callable[[], Any]) -> tuple[float, Any]:
    begin = time.perf_counter()
    value = function()
    return time.perf_counter() - begin, value


def smoke() -> dict[str, float]:
    seconds, found = _timed(lambda: compose([(GaussianPair(1.0, 0.01), 100)]).epsilon(DELTA))
    return {"epsilon": found.upper, "at least": found.lower, "seconds": seconds}


def measure(case: Case, repetitions: int, quick: bool) -> tuple[str, bool]:
    """One line of the table, and whether the figure was reached."""
    absent = importlib.util.find_spec(PEERS[case.peer_name]) is None
    case.ours()  # imports and the first touch of memory are nobody's fault
    ours, theirs, value, other = np.inf, np.inf, None, np.nan
    for _ in range(1 if case.slow else repetitions):
        if not (case.slow and quick) and not absent:
            seconds, other = _timed(case.peer)
            theirs = min(theirs, seconds)
        for _ in range(3 if case.slow else 1):
            seconds, value = _timed(case.ours)
            ours = min(ours, seconds)
    upper = float(getattr(value, "upper", value))  # type: ignore[arg-type]
    shown = f"[{value.lower:.4f}, {value.upper:.4f}]" if hasattr(value, "lower") else f"{upper:.4f}"
    if case.expected is not None:
        tight = abs(upper - case.expected) <= case.margin
    else:
        # Both stop within the precision above the tight noise, so they differ by at most that.
        tight = not np.isfinite(other) or abs(upper / other - 1) <= 2 * case.margin
    known = np.isfinite(theirs)
    reached = tight and (not known or theirs / ours >= case.factor)
    verdict = ("reached" if known else "not compared") if reached else "MISSED"
    speed = f"{theirs / ours:8.1f}x" if known else "  (skipped)"
    if known:
        figures.report(
            case.name,
            theirs / ours,
            "times faster",
            aim=case.factor,
            peer=case.peer_name,
            ratio=True,
            ours=ours,
            theirs=theirs,
            measure="s",
        )
    return (
        f"{case.name:42s} {shown:18s} {ours * 1e3:9.1f} ms   {case.peer_name:13s} "
        f"{other:9.4f} {theirs:9.2f} s {speed}  want {case.factor:3.0f}x  "
        f"{verdict}"
    ), reached


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="skip peers slower than a minute")
    parser.add_argument("--repetitions", type=int, default=5)
    arguments = figures.options(parser, smoke, tuple(PEERS.values()))
    for name, module in PEERS.items():
        if importlib.util.find_spec(module) is None:
            print(f"{name} is not installed (pip install unisono[bench]): not compared")
            figures.missing(name, "pip install 'unisono[bench]'")
    all_reached = True
    for case in cases():
        line, reached = measure(case, arguments.repetitions, arguments.quick)
        all_reached &= reached
        print(line, flush=True)
    print("jax-privacy calibrates one noise multiplier only; it cannot be asked the last question.")
    if not all_reached:
        print("not all figures were reached")


if __name__ == "__main__":
    main()
