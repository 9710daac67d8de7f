"""Audits beside those of jax-privacy, on the same scores: bounds, false alarms and seconds.

    python benchmarks/audits.py            (jax-privacy comes with the extra `bench`)

Two worlds of a Gaussian mechanism at epsilon 1, 4 and 8 (delta 1e-5), 10,000 runs in each, and one
run with 2,000 canaries of which 400 are guessed about. Confidence 0.95 throughout. Ours spends half
of it on the direct bound and half on the Gaussian one, which then hold together. Peers get
their recommended way to choose a threshold, and the whole confidence for each bound.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np

import figures
from unisono.accounting import gaussian
from unisono.attacks.audit import audit
from unisono.attacks.one_run import one_run

DELTA, DOUBT, RUNS, CANARIES, GUESSES = 1e-5, 0.05, 10_000, 2_000, 400
EPSILONS, REPETITIONS = (1.0, 4.0, 8.0), 40

Bounds = dict[str, float]


def ours(inside: np.ndarray, outside: np.ndarray) -> Bounds:
    found = audit(inside, outside, DELTA, 1 - DOUBT)
    return {"direct": found.epsilon_direct, "gaussian": found.epsilon_model_based or 0.0}


def ours_one_run(scores: np.ndarray, coins: np.ndarray) -> Bounds:
    found = one_run(scores, coins, GUESSES, DELTA, 1 - DOUBT, only_in=True)
    return {"one run": found.epsilon, "one run, f-DP": found.epsilon_model_based}


def theirs(inside: np.ndarray, outside: np.ndarray) -> Bounds:
    from jax_privacy.auditing import CanaryScoreAuditor, Split

    auditor = CanaryScoreAuditor(inside, outside)
    direct = auditor.epsilon_clopper_pearson(
        DOUBT, DELTA, one_sided=False, threshold_strategy=Split(seed=0)
    )
    return {"direct": direct, "gaussian": auditor.epsilon_from_gdp(DOUBT, DELTA)}


def theirs_one_run(scores: np.ndarray, coins: np.ndarray) -> Bounds:
    from jax_privacy.auditing import CanaryScoreAuditor, Explicit

    auditor = CanaryScoreAuditor(scores[coins], scores[~coins])
    # The same guesses as ours: "in" for the 400 highest scores.
    place = Explicit(float(np.sort(scores)[-GUESSES - 1 :][:2].mean()))
    return {
        "one run": auditor.epsilon_one_run(DOUBT, DELTA, threshold_strategy=place),
        "one run, f-DP": auditor.epsilon_one_run_fdp(DOUBT, DELTA, threshold_strategy=place),
    }


def measured(
    audits: dict[str, Callable[[np.ndarray, np.ndarray], Bounds]],
    pairs: list[tuple[np.ndarray, np.ndarray]],
    epsilon: float,
) -> None:
    spent: dict[str, float] = {}
    for name, method in audits.items():
        begin = time.perf_counter()
        found = [method(*pair) for pair in pairs]
        seconds = spent[name] = (time.perf_counter() - begin) / len(pairs)
        for bound in found[0]:
            values = np.array([own[bound] for own in found])
            above = int((values > epsilon).sum())
            print(
                f"{epsilon:7g}  {bound:14s}  {name:12s}  {np.median(values):7.3f}  "
                f"{above:3d} of {len(values)}  {seconds:9.4f}"
            )
            if name == "unisono":
                figures.report(
                    f"audit at epsilon {epsilon:g}, {bound}: bounds above the truth",
                    above / len(values),
                    "of all audits",
                    aim=DOUBT,
                    lower=True,
                )
    if "jax-privacy" in spent:
        kind = "one run" if "one run" in found[0] else "two worlds"
        figures.report(
            f"an audit of {kind}, epsilon {epsilon:g}",
            spent["jax-privacy"] / spent["unisono"],
            "times faster",
            peer="jax-privacy",
            ratio=True,
            ours=spent["unisono"],
            theirs=spent["jax-privacy"],
            measure="s",
        )


def smoke() -> dict[str, float]:
    noise = np.random.default_rng(0).standard_normal((2, 1000))
    return ours(noise[0] + gaussian.mu_for(4.0, DELTA), noise[1])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="10 audits of each kind, not 40")
    repetitions = 10 if figures.options(parser, smoke, ("jax_privacy",)).quick else REPETITIONS
    peers = True
    try:
        import jax_privacy  # noqa: F401
    except ImportError:
        peers = False
        print("jax-privacy is not installed (pip install unisono[bench]): ours only")
        figures.missing("jax-privacy", "pip install 'unisono[bench]'")
    print("epsilon  bound           by            median   above true  seconds an audit")
    for epsilon in EPSILONS:
        mu, generator = gaussian.mu_for(epsilon, DELTA), np.random.default_rng(0)
        noise = generator.standard_normal((repetitions, 2, RUNS))
        worlds = [(own[0] + mu, own[1]) for own in noise]
        measured({"unisono": ours} | ({"jax-privacy": theirs} if peers else {}), worlds, epsilon)
        runs = []
        for _ in range(repetitions):
            coins = generator.random(CANARIES) < 0.5
            runs.append((mu * coins + generator.standard_normal(CANARIES), coins))
        single = {"unisono": ours_one_run} | ({"jax-privacy": theirs_one_run} if peers else {})
        measured(single, runs, epsilon)


if __name__ == "__main__":
    main()
