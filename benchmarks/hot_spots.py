"""Where the processor's time goes in three main jobs, function by function.

    python benchmarks/hot_spots.py [fit step parties] [--lines 12]

fit      logistic regression over ten parties, 1,000,000 x 100, as in `linear_fits.py`
step     steps of DP-SGD on logistic regression, 100 columns, batches of 480 of 48,000 records, as
         in `networks.py`, after compilation
parties  100,000 parties x 100 rounds, as in `speed_rounds.py`

Whenever the process has used some milliseconds of processor time, what it has used since the last
look belongs to the innermost function of ours on the main thread's stack, with all that it calls
outside of us: NumPy, OpenSSL, and compiled programs, for which the caller waits. Compilation,
tracing and imports are lines of their own. Noise that is usually drawn by one thread for each core
is drawn here on the main thread. Processor time, as the machine may have other work.
"""

import argparse
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import figures

INTERVAL = 0.005  # seconds of processor time between two looks
STEPS = 6400
OUTSIDE = {
    "jax/_src/compiler.py": "compilation by XLA",
    "jax/_src/interpreters/": "tracing by JAX",
    "jax/_src/pjit.py": "tracing by JAX",
    "<frozen importlib": "imports",
}
# Programs run beside Python: what they take shows where it waits for their results.
AWAITED = ("engines/driver: _record", "networks_ours: _trained.<locals>.run")


class Profile:
    """Seconds of processor time by function, while it is `sampled`."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self._last = 0.0

    @contextmanager
    def sampled(self) -> Iterator[None]:
        before = signal.signal(signal.SIGPROF, self._look)
        self._last = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, INTERVAL, INTERVAL)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0.0)
            self._look(0, sys._getframe(2))
            signal.signal(signal.SIGPROF, before)

    def _look(self, number: int, frame: FrameType | None) -> None:
        now = time.process_time()
        self.seconds[place(frame)] += now - self._last
        self._last = now


def place(frame: FrameType | None) -> str:
    """The innermost function of ours, or what JAX or Python does for it."""
    while frame is not None:
        name = frame.f_code.co_filename
        for part, said in OUTSIDE.items():
            if part in name:
                return said
        own = Path(name).parts
        if "unisono" in own and "site-packages" not in own:
            inside = "/".join(own[len(own) - own[::-1].index("unisono") :])
            return f"{inside.removesuffix('.py')}: {frame.f_code.co_qualname}"
        if Path(name).parent == Path(__file__).parent:
            return f"{Path(name).stem}: {frame.f_code.co_qualname}"
        frame = frame.f_back
    return "elsewhere"


class OneThread:
    """In place of a pool of threads, whose stacks nobody looks at."""

    def __init__(self, workers: int | None = None) -> None:
        pass

    def __enter__(self) -> "OneThread":
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def map(self, function: Callable[[Any], Any], items: Any) -> Any:
        return map(function, items)


# ------------------------------------------------------------- jobs


def fit(profile: Profile, records: int = 1_000_000, features: int = 100) -> None:
    import linear_fits

    columns = linear_fits.records(records, features)
    with profile.sampled():
        linear_fits.fit(columns)


def step(profile: Profile, steps: int = STEPS) -> None:
    import networks_ours
    from networks_common import TASKS

    networks_ours.ours("logistic", TASKS["logistic"].chunk, True)
    with profile.sampled():
        networks_ours.ours("logistic", steps, True)


def parties(profile: Profile, count: int = 100_000, rounds: int = 100) -> None:
    import speed_rounds
    from unisono.engines import chunks

    pool = chunks.ThreadPoolExecutor
    chunks.ThreadPoolExecutor = OneThread  # type: ignore
    try:
        generator = np.random.default_rng(0)
        rows = generator.normal(size=(count, 10, 20)).astype(np.float32) / 5
        labels = np.where(rows @ generator.normal(size=20) > 0, 1.0, -1.0).astype(np.float32)
        with profile.sampled():
            speed_rounds.learn(rows, labels, rounds)
    finally:
        chunks.ThreadPoolExecutor = pool


JOBS: dict[str, tuple[str, Callable[[Profile], None]]] = {
    "fit": ("logistic fit over ten parties, 1,000,000 x 100", fit),
    "step": (f"{STEPS:,} steps of DP-SGD, logistic regression, 100 columns, batch 480", step),
    "parties": ("100,000 parties x 100 rounds", parties),
}


def show(title: str, profile: Profile, lines: int) -> None:
    """The functions that use most, as a table for the documentation."""
    total = profile.seconds.total()
    print(f"\n{title}: {total:.1f} s of processor time\n")
    print("| function | seconds | share |\n| --- | --- | --- |")
    most = profile.seconds.most_common(lines)
    for name, seconds in [*most, ("all others", total - sum(seconds for _, seconds in most))]:
        shown = f"compiled rounds, awaited in {name}" if name in AWAITED else name
        print(f"| {shown} | {seconds:.2f} | {seconds / total:.0%} |", flush=True)


def smoke() -> dict[str, float]:
    """A small fit, of which our own functions are found."""
    profile = Profile()
    fit(profile, 2_000, 5)
    ours = sum(": " in name for name in profile.seconds)
    return {"seconds": profile.seconds.total(), "functions of ours": ours}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("jobs", nargs="*", metavar="job", help=", ".join(JOBS))
    parser.add_argument("--lines", type=int, default=12)
    arguments = figures.options(parser, smoke)
    unknown = set(arguments.jobs) - set(JOBS)
    if unknown:
        parser.error(f"no job is named {', '.join(sorted(unknown))}: choose from {', '.join(JOBS)}")
    for name in arguments.jobs or JOBS:
        title, job = JOBS[name]
        profile = Profile()
        job(profile)
        show(title, profile, arguments.lines)


if __name__ == "__main__":
    main()
