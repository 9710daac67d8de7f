"""Do 95 % intervals of a private evaluation hold what the model does in the population?

    python benchmarks/evaluation.py [--quick | --smoke] [--simulations n] [--only DESIGN]

A model is fixed; each simulation draws records, deals them to five unequal parties, and evaluates
the model through the engine (secure sum, delta 1e-6, replace-one). The truth are the
model's metrics in two million records. Printed for every design, number of records and epsilon: how
often the interval of each metric holds the truth, its width over that without noise, and how often
noise left nothing (counted apart).

    balanced    well specified but for a column that the model lacks
    rare        7 % have the outcome
    confident   a model that claims too much (slope .44)
    skewed      scores with a long tail and a sharp edge
    three       three classes
    numbers     errors that spread with the prediction, a long tail
    groups      balanced, with two subgroups of 1 : 3, one of which the model serves badly
    times       times until an event, a third of them censored, two subgroups
    fading      a score whose effect fades with time, and spreads less than the model says

All but the first three were written down after the method was fixed, and nothing was tuned to them:
where the calibration slope of "skewed" held too seldom (85 % of 2,000 records), the curve of scores
was mended on other shapes (uniform, two humps, gamma, folded normal, exponentials with other edges)
and this was run again. Of 1,000 simulations a share of 95 % has a standard error of .7 points.
"""

import argparse
import zlib
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logit, ndtri, softmax
from scipy.stats import binom

import figures
from unisono.accounting.accountant import ACCOUNTANT
from unisono.algorithms.evaluation import (
    WORST_LOSS,
    ClassEvaluation,
    Evaluated,
    NumberEvaluation,
    TimeEvaluation,
    time_evaluation,
)
from unisono.core.algorithm import agree_facts
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.privacy import Privacy
from unisono.core.study import Party
from unisono.core.trust import Trust
from unisono.core.values import Private
from unisono.estimators.configuration import in_rounds

SCORECARD = figures.Benchmark(seconds=1800)
PARTIES = np.array([0.4, 0.25, 0.2, 0.1, 0.05])
BOUNDS, LARGEST = (0.0, 200.0), 50.0
TRUTH = 2_000_000
PAIRS, BATCHES = 12_000, 25  # all pairs of so many records, so often, for the truth of concordance


class Drawn(NamedTuple):
    """What the model says of records, what is true of them, and their groups."""

    said: np.ndarray
    truth: np.ndarray
    group: np.ndarray | None = None
    interval: tuple[np.ndarray, np.ndarray] | None = None
    event: np.ndarray | None = None


def _two(score: np.ndarray, truth: np.ndarray, generator: np.random.Generator) -> Drawn:
    chance = expit(score)
    return Drawn(
        np.stack([1 - chance, chance], axis=1),
        (generator.random(len(truth)) < expit(truth)).astype(float),
    )


def balanced(n: int, generator: np.random.Generator) -> Drawn:
    x, z = generator.normal(size=(2, n))
    return _two(x, 1.2 * x + 0.6 * z, generator)


def rare(n: int, generator: np.random.Generator) -> Drawn:
    x, z = generator.normal(size=(2, n))
    return _two(x - 3, x + 0.5 * z - 3, generator)


def confident(n: int, generator: np.random.Generator) -> Drawn:
    x = generator.normal(size=n)
    return _two(1.6 * x + 0.3, 0.7 * x + 0.2, generator)


def skewed(n: int, generator: np.random.Generator) -> Drawn:
    x = generator.exponential(size=n)
    return _two(0.9 * x - 1.4, x - 1.5, generator)


def three(n: int, generator: np.random.Generator) -> Drawn:
    x = generator.normal(size=(n, 3))
    truth = softmax(1.3 * x + [0.3, 0.0, -0.5], axis=1).cumsum(axis=1)
    return Drawn(
        softmax(1.1 * x + [0.2, 0.0, -0.2], axis=1),
        (generator.random((n, 1)) > truth).sum(axis=1).astype(float),
    )


def numbers(n: int, generator: np.random.Generator) -> Drawn:
    said = 70 + 25 * generator.normal(size=n)
    spread = 6 + 0.1 * np.abs(said)
    truth = np.clip(said + 2 + spread * (generator.gamma(4, size=n) - 4) / 2, *BOUNDS)
    return Drawn(said, truth, None, (said - 1.9 * spread, said + 1.9 * spread))


def groups(n: int, generator: np.random.Generator) -> Drawn:
    x, z = generator.normal(size=(2, n))
    group = (generator.random(n) < 0.25).astype(float)
    served = np.where(group > 0, 0.5, 1.3)
    return _two(x, served * x + 0.4 * z + 0.3 * group, generator)._replace(group=group)


def times(n: int, generator: np.random.Generator) -> Drawn:
    x, z = generator.normal(size=(2, n))
    group = (generator.random(n) < 0.4).astype(float)
    time = generator.exponential(size=n) * np.exp(-0.8 * x - 0.4 * z - 0.3 * group)
    return _censored(x, time, generator)._replace(group=group)


def fading(n: int, generator: np.random.Generator) -> Drawn:
    x = 0.7 * generator.normal(size=n)
    time = generator.exponential(size=n) * np.exp(-1.5 * x)
    return _censored(x, np.where(time < 0.3, time, 0.3 + generator.exponential(size=n)), generator)


def _censored(score: np.ndarray, time: np.ndarray, generator: np.random.Generator) -> Drawn:
    """Up to a horizon of 1."""
    censored = generator.exponential(1.5, len(time))
    event = (time <= censored) & (time <= 1)
    return Drawn(score, np.minimum(time, censored), event=event.astype(float))


DESIGNS: dict[str, Callable[[int, np.random.Generator], Drawn]] = {
    one.__name__: one
    for one in (balanced, rare, confident, skewed, three, numbers, groups, times, fading)
}


# ------------------------------------------------------------------- the truth


@lru_cache
def wanted(design: str) -> dict[str, float]:
    """Every metric in the population, by its name; of groups as "group: name"."""
    generator = np.random.default_rng(zlib.crc32(b"truth " + design.encode()))
    if design in ("times", "fading"):
        batches = [_with_groups(DESIGNS[design](PAIRS, generator)) for _ in range(BATCHES)]
        return {name: float(np.mean([one[name] for one in batches])) for name in batches[0]}
    return _with_groups(DESIGNS[design](TRUTH, generator))


def _with_groups(drawn: Drawn) -> dict[str, float]:
    found = plain(drawn)
    if drawn.group is not None:
        for place, label in enumerate("ab"):
            own = drawn.group == place
            event = None if drawn.event is None else drawn.event[own]
            part = plain(Drawn(drawn.said[own], drawn.truth[own], event=event))
            found |= {f"{label}: {name}": value for name, value in part.items()}
    return found


def harrell(score: np.ndarray, time: np.ndarray, event: np.ndarray) -> float:
    """Of pairs of which one had its event while the other was at risk: how often it scored higher
    (Harrell et al. 1982)."""
    order = np.argsort(time)
    score, happened = score[order], np.flatnonzero(event[order])
    above = [int((score[place + 1 :] < score[place]).sum()) for place in happened]
    return sum(above) / int((len(score) - 1 - happened).sum())


def plain(drawn: Drawn) -> dict[str, float]:
    """Metrics without privacy, as textbooks have them."""
    if drawn.event is not None:
        return {"concordance": harrell(drawn.said, drawn.truth, drawn.event)}
    if drawn.said.ndim == 1:
        error = np.clip(drawn.said - drawn.truth, -LARGEST, LARGEST)
        assert drawn.interval is not None
        low, high = drawn.interval
        return {
            "RMSE": float(np.sqrt((error**2).mean())),
            "R²": float(1 - (error**2).mean() / drawn.truth.var()),
            "bias": float(error.mean()),
            "coverage": float(((low <= drawn.truth) & (drawn.truth <= high)).mean()),
        }
    chances, truth = drawn.said, drawn.truth.astype(int)
    rows, predicted = np.arange(len(truth)), chances.argmax(axis=1)
    hit = np.eye(chances.shape[1])[truth]
    two = chances.shape[1] == 2
    score = chances[:, 1] if two else chances[rows, predicted]
    outcome = truth if two else (predicted == truth).astype(int)
    intercept, slope = _line(logit(score), outcome)
    found = {
        "accuracy": float((predicted == truth).mean()),
        "Brier score": float(((chances - hit) ** 2).sum(axis=1).mean() / (2 if two else 1)),
        "log loss": float(np.minimum(-np.log(chances[rows, truth]), WORST_LOSS).mean()),
        "calibration slope": slope,
        "calibration intercept": intercept,
    }
    if two:
        ranks = np.empty(len(score))
        ranks[np.argsort(score)] = np.arange(1, len(score) + 1)
        one = int(outcome.sum())
        below = ranks[outcome == 1].sum() - one * (one + 1) / 2
        found["AUC"] = float(below / (one * (len(score) - one)))
    for place in range(chances.shape[1]):
        own, said = truth == place, predicted == place
        both = float((own & said).sum())
        found[f"recall of {place}"] = both / max(own.sum(), 1)
        found[f"precision of {place}"] = both / max(said.sum(), 1)
    return found


def _line(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Logistic regression on one column, by Newton."""
    at = np.zeros(2)
    design = np.stack([np.ones_like(x), x], axis=1)
    for _ in range(25):
        chance = expit(design @ at)
        curve = (design * (chance * (1 - chance))[:, None]).T @ design
        at = at + np.linalg.solve(curve, design.T @ (y - chance))
    return float(at[0]), float(at[1])


# ------------------------------------------------------------------- releases


class Cell(NamedTuple):
    """By metric: whether intervals hold (simulations,), NaN where nothing was determined, and their
    widths over those of sampling alone."""

    holds: dict[str, np.ndarray]
    width: dict[str, np.ndarray]


def measure(design: str, records: int, epsilon: float, simulations: int) -> Cell:
    privacy, truth = Privacy(epsilon, 1e-6), wanted(design)
    evaluation: Any
    if design == "numbers":
        evaluation = NumberEvaluation(BOUNDS, LARGEST, intervals=True)
    elif design in ("times", "fading"):
        evaluation = time_evaluation(records, privacy, ("a", "b") if design == "times" else ())
    else:
        classes = ("0", "1", "2")[: 3 if design == "three" else 2]
        evaluation = ClassEvaluation(classes, groups=("a", "b") if design == "groups" else ())
    sizes = np.round(PARTIES * records).astype(int)
    sizes[0] += records - sizes.sum()
    trust = Trust.SECURE_SUM
    facts = agree_facts(tuple(map(int, sizes)), evaluation.width, trust)
    plan = in_rounds(evaluation.kind.method(evaluation.survey, privacy), facts, trust)
    seed = zlib.crc32(f"{design} {records} {epsilon}".encode())
    found: list[dict[str, tuple[float, float]]] = []
    for number in range(simulations):
        drawn = DESIGNS[design](records, np.random.default_rng([seed, number]))
        rows = _columns(evaluation, drawn).astype(np.float32)
        parties = [
            Party(f"p{k}", Private((part,)), _ledger(k, seed % 100_003 + number))
            for k, part in enumerate(np.split(rows, np.cumsum(sizes)[:-1]))
        ]
        read = evaluation.read(plan.study, plan.run(parties))
        found.append(_judged(read, truth))
    holds = {name: np.array([one[name][0] for one in found]) for name in found[0]}
    width = {name: np.array([one[name][1] for one in found]) for name in found[0]}
    return Cell(holds, width)


def _columns(
    evaluation: ClassEvaluation | NumberEvaluation | TimeEvaluation, drawn: Drawn
) -> np.ndarray:
    if isinstance(evaluation, TimeEvaluation):
        assert drawn.event is not None
        cuts = ndtri(np.arange(1, evaluation.intervals) / evaluation.intervals)
        place = np.searchsorted(cuts, drawn.said).astype(float)
        time = np.where(drawn.truth > 1, 2.0, drawn.truth)
        return evaluation.columns(place, time, drawn.event, drawn.group)
    if isinstance(evaluation, NumberEvaluation):
        return evaluation.columns(drawn.said, drawn.truth, drawn.group, drawn.interval)
    return evaluation.columns(drawn.said, drawn.truth, drawn.group)


def _ledger(party: int, seed: int) -> Ledger:
    policy = Policy(f"d{party}", Budget(1e3, 1e-3))
    return Ledger.in_memory(policy, ACCOUNTANT, seed=10 * seed + party)


def _judged(read: Evaluated, truth: dict[str, float]) -> dict[str, tuple[float, float]]:
    """Whether each interval holds what it should, and its width over that of sampling."""
    found = {}
    for judged, prefix in ((read.overall, ""), *((one, f"{one.group}: ") for one in read.groups)):
        for one in judged.metrics:
            name = prefix + one.name
            holds = float(one.low <= truth[name] <= one.high) if one.determined else np.nan
            found[name] = (holds, one.std_error / max(one.sampling_error, 1e-12))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="40 simulations of 4,000 records")
    parser.add_argument("--simulations", type=int, default=1000)
    parser.add_argument("--records", type=int, nargs="+", default=[2000, 10000])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.5, 1.0])
    parser.add_argument("--only", nargs="+", choices=DESIGNS, default=list(DESIGNS))
    arguments = figures.options(parser, smoke)
    if arguments.quick:
        arguments.simulations, arguments.records, arguments.epsilons = 40, [4000], [1.0]
    every: list[np.ndarray] = []
    p_values = []
    for design in arguments.only:
        for records in arguments.records:
            for epsilon in arguments.epsilons:
                cell = measure(design, records, epsilon, arguments.simulations)
                print(f"{design}, {records:,} records, epsilon {epsilon:g}")
                for name, holds in cell.holds.items():
                    known = holds[np.isfinite(holds)]
                    if not len(known):
                        print(f"  {name:32} not determined")
                        continue
                    every.append(known)
                    p_values.append((binom.cdf(known.sum(), len(known), 0.93), design, name))
                    width = np.median(cell.width[name][np.isfinite(holds)])
                    apart = 1 - len(known) / len(holds)
                    more = f"   {apart:5.1%} not determined" if apart else ""
                    print(f"  {name:32} {known.mean():.3f}   width {width:5.2f}{more}", flush=True)
    pooled = float(np.concatenate(every).mean())
    worst = holm([p for p, *_ in p_values])
    refuted = [(d, n) for (_, d, n), p in zip(p_values, worst, strict=True) if p < 0.01]
    print(f"pooled {pooled:.4f}; below 93 % (Holm, 1 %): {refuted or 'none'}")
    figures.report("95 % intervals of an evaluation, pooled", pooled, "of them hold", aim=0.94)
    figures.report("the same, not too wide", pooled, "of them hold", aim=0.975, lower=True)
    figures.report("metrics that cover less than 93 %", len(refuted), "", aim=0, lower=True)


def holm(p_values: list[float]) -> np.ndarray:
    from unisono.algorithms.survey import holm_adjusted

    return holm_adjusted(np.array(p_values))


def smoke() -> dict[str, float]:
    cell = measure("numbers", 2000, 1.0, 2)
    return {name: float(np.nanmean(holds)) for name, holds in cell.holds.items()}


if __name__ == "__main__":
    main()
