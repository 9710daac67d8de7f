"""Federated Bayesian inference on Adult: accuracy, log-likelihood and calibration of posteriors.

    python benchmarks/adult_bayes.py [--seeds 5] [--data folder]    logistic regression
    python benchmarks/adult_bayes.py --network                      one hidden layer, slower

Official split, delta = 1e-5, unit one record, through the real engine. One set of constants (the
defaults of `pvi-natural-gradient` and its public rule for damping) serves every line; it
was chosen on a held-out quarter of the *training* file. Every seed counts: a run that diverges is
reported, never replaced. "no privacy" is the same algorithm with negligible noise; "centralised"
is one party, no clipping in effect, run to convergence.
"""

import argparse
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import figures
from datasets import MissingData, PublicDataset, adult, breast_cancer, data_folder
from unisono.accounting.accountant import ACCOUNTANT
from unisono.algorithms.pvi_natural_gradient import NATURAL_GRADIENT
from unisono.core.algorithm import Facts
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.privacy import Privacy
from unisono.core.study import Party, Study
from unisono.core.trust import Relation, Trust
from unisono.core.values import Private
from unisono.data.scaling import UnitScaling, scaling
from unisono.engines import in_process
from unisono.problems.bayesian import BayesianProblem
from unisono.problems.gaussian_family import Natural
from unisono.problems.likelihoods import Likelihood, logistic, predictive, two_layer

SCORECARD = figures.Benchmark(quick=None)

DELTA = 1e-5
NO_PRIVACY = 1e7
BINS = 15
BRACKETS = 8


@dataclass(frozen=True)
class Case:
    """One line of the table; `goal` is the accuracy aimed at, None where there is none."""

    title: str
    parties: int
    epsilon: float
    trust: Trust
    relation: Relation = Relation.ADD_OR_REMOVE
    skewed: bool = False
    goal: float | None = None
    prior_variance: float = 1.0
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def rounds(self) -> int:
        return NATURAL_GRADIENT.configured(**self.settings).rounds


LOCAL, SUM = Trust.LOCAL, Trust.SECURE_SUM
REPLACE = Relation.REPLACE_ONE
CASES = (
    Case("10 parties, epsilon 1, local noise", 10, 1.0, LOCAL, goal=0.841),
    Case("  skewed labels", 10, 1.0, LOCAL, skewed=True),
    Case("  replace-one", 10, 1.0, LOCAL, REPLACE),
    Case("10 parties, epsilon 1, secure sum", 10, 1.0, SUM, goal=0.843),
    Case("  skewed labels", 10, 1.0, SUM, skewed=True),
    Case("  replace-one", 10, 1.0, SUM, REPLACE),
    Case("200 parties, epsilon 0.5, secure sum", 200, 0.5, SUM, goal=0.841),
    Case("  skewed labels", 200, 0.5, SUM, skewed=True),
    Case("  replace-one", 200, 0.5, SUM, REPLACE),
    Case("10 parties, no privacy", 10, NO_PRIVACY, LOCAL),
    # Without privacy more rounds cost nothing.
    Case("  60 rounds", 10, NO_PRIVACY, LOCAL, settings={"rounds": 60}),
)
CENTRALISED = Case(
    "centralised, no privacy",
    1,
    NO_PRIVACY,
    LOCAL,
    settings={"rounds": 200, "clipping_norm": 4.0, "average_last": 0.05},
)
HIDDEN = 8
NETWORK = {
    "rounds": 60,
    "clipping_norm": 3.0,
    "curvature_weight": 1.0,
    "learning_rate": 0.05,
    "momentum": 0.8,
    "average_last": 0.3,
    "spread": 0.3,
}


def rows_of(data: PublicDataset) -> tuple[np.ndarray, np.ndarray]:
    """Rows in the unit ball, by public bounds: ranges without zero are centred, others start at
    zero so that sparse rows stay short."""
    plain = scaling(data.bounds, data.train.shape[1])
    low, high = data.bounds
    centred = low > 0
    shift = np.where(centred, (low + high) / 2, plain.shift)
    public = UnitScaling(shift, np.where(centred, (high - low) / 2, plain.scale), None)
    return public.rows(data.train)[0], public.rows(data.test)[0]


def bracketed(data: PublicDataset) -> tuple[np.ndarray, np.ndarray]:
    """The same rows, not shortened, with every number also as one of eight equal brackets of its
    public range (of its logarithm, for money)."""
    low, high = data.bounds
    numbers = np.flatnonzero(high - low != 1)
    rows = []
    for features, plain in zip((data.train, data.test), rows_of(data), strict=True):
        place = (features - low) / (high - low) * BRACKETS
        place = np.clip(place.astype(int), 0, BRACKETS - 1)[:, numbers]
        marks = np.eye(BRACKETS)[place].reshape(len(features), -1)
        # The last entry of a row is 1 divided by the length it had.
        rows.append(np.concatenate([marks, plain / plain[:, -1:]], axis=1))
    return rows[0], rows[1]


def split(labels: np.ndarray, parties: int, skewed: bool, seed: int) -> list[np.ndarray]:
    """Who holds which records; skewed: half of the parties hold 95 % of one label."""
    generator = np.random.default_rng(seed)
    order = generator.permutation(len(labels))
    if not skewed or parties == 1:
        return np.array_split(order, parties)
    chance = np.where(labels[order] > 0, 0.95, 0.25)
    first = generator.random(len(order)) < chance
    half = parties // 2
    return [*np.array_split(order[first], half), *np.array_split(order[~first], parties - half)]


def delta_of(case: Case) -> float:
    return 0.5 if case.epsilon == NO_PRIVACY else DELTA


def member(number: int, own: tuple[np.ndarray, ...], case: Case, seed: int) -> Party:
    """A party whose policy pays for exactly this run, against every viewer."""
    budget = Budget(case.epsilon * (1 + 1e-6), delta_of(case))
    policy = Policy(f"adult-{number}", budget, relation=case.relation)
    ledger = Ledger.in_memory(policy, ACCOUNTANT, seed=1000 * seed + number)
    return Party(f"party-{number}", Private(own), ledger)


def fit(
    case: Case, rows: np.ndarray, labels: np.ndarray, likelihood: Likelihood, seed: int
) -> tuple[Natural, int]:
    """The private posterior, and how many directions of its precision were raised."""
    shares = split(labels, case.parties, case.skewed, seed)
    exact = case.relation is Relation.REPLACE_ONE
    curious = 1 if case.trust is SUM else 0  # epsilon holds against the server and one party
    sizes = tuple(len(share) for share in shares)
    facts = Facts(sizes, rows.shape[1], case.parties, colluders=curious, exact_sizes=exact)
    problem = BayesianProblem(likelihood, prior_variance=case.prior_variance)
    privacy = Privacy(case.epsilon, delta_of(case), case.relation)
    method = NATURAL_GRADIENT.method(problem, privacy, seed=seed, **case.settings)
    parties = [
        member(number, (rows[share], labels[share]), case, seed)
        for number, share in enumerate(shares)
    ]
    study = Study(method, facts, case.trust)
    answer = in_process.run(study, parties).value
    return answer.natural, int(answer.floored)


def judged(chances: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Accuracy, mean log-likelihood, expected calibration error of P(y = 1)."""
    truth = labels > 0
    told = np.where(truth, chances, 1 - chances)
    _, frequency, confidence, share = reliability(chances, truth)
    return {
        "accuracy": float(np.mean((chances >= 0.5) == truth)),
        "log-likelihood": float(np.mean(np.log(np.maximum(told, 1e-12)))),
        "calibration": float(np.sum(share * np.abs(frequency - confidence))),
    }


def reliability(chances: np.ndarray, truth: np.ndarray) -> tuple[np.ndarray, ...]:
    """Per occupied bin of predicted chances: middle, how often true, mean chance, share."""
    place = np.minimum((chances * BINS).astype(int), BINS - 1)
    counts = np.bincount(place, minlength=BINS)
    used = counts > 0
    frequency = np.bincount(place, truth, BINS)[used] / counts[used]
    confidence = np.bincount(place, chances, BINS)[used] / counts[used]
    return (np.arange(BINS)[used] + 0.5) / BINS, frequency, confidence, counts[used] / len(chances)


def line(case: Case, found: list[dict[str, float]], floored: list[int], top: float | None) -> None:
    """One line: means over seeds, and every seed."""
    each = np.array([scores["accuracy"] for scores in found])
    # A posterior worse than always answering "no" (0.764) has diverged.
    diverged = [seed for seed, value in enumerate(each) if not value > 0.764]
    cells = (
        f"{case.title:<38}{np.mean(each):.4f} ±{np.std(each, ddof=min(1, len(each) - 1)):.4f} "
        f"{np.mean([s['log-likelihood'] for s in found]):8.4f} "
        f"{np.mean([s['calibration'] for s in found]):7.4f} {case.rounds:6d} "
    )
    gap = "" if top is None else f"{100 * (np.mean(each) - top):+6.2f}"
    goal = case.goal
    verdict = (
        "" if goal is None else f"goal {goal:g} {'met' if np.mean(each) >= goal else 'MISSED'}"
    )
    if goal is not None:
        figures.report(f"Adult, posterior: {case.title}", np.mean(each), "accuracy", aim=goal)
    seeds = " ".join(f"{value:.4f}" for value in each)
    lost = f"diverged: seeds {diverged}" if diverged else "none diverged"
    print(f"{cells}{gap:>7}  {verdict:<16}[{seeds}] {lost}, raised {max(floored)}", flush=True)


def table(data: PublicDataset, seeds: int) -> None:
    """Logistic regression: every case, and a calibration picture of three of them."""
    train, test = rows_of(data)
    labels, truth = 2.0 * data.train_labels - 1, 2.0 * data.test_labels - 1
    likelihood = logistic()
    print(
        f"Adult, {len(train)} training and {len(test)} test records, delta = {DELTA:g}, unit "
        "record, add-or-remove unless said"
    )
    print(f"{'':<38}{'accuracy':<17}{'log-lik':>8} {'ECE':>7} {'rounds':>6} {'gap':>7}")

    def chances(case: Case, seed: int) -> tuple[np.ndarray, int]:
        q, floored = fit(case, train, labels, likelihood, seed)
        return np.asarray(predictive(likelihood, q, test.astype(np.float32))), floored

    curves: dict[str, np.ndarray] = {}
    top: float | None = None
    for case in (CENTRALISED, *CASES):
        count = 1 if case is CENTRALISED else seeds
        runs = [chances(case, seed) for seed in range(count)]
        found = [judged(predicted, truth) for predicted, _ in runs]
        line(case, found, [floored for _, floored in runs], top)
        if case is CENTRALISED:
            top = found[0]["accuracy"]
        if case is CENTRALISED or case.goal is not None:
            curves[case.title] = runs[0][0]
    print("picture:", picture(curves, truth > 0))


def network(data: PublicDataset, seeds: int) -> None:
    """A network of tanh units and logistic regression on the same bracketed rows, epsilon 2."""
    train, test = bracketed(data)
    labels, truth = 2.0 * data.train_labels - 1, 2.0 * data.test_labels - 1
    units = two_layer(train.shape[1], HIDDEN)
    lengths = [np.linalg.norm(rows, axis=1, keepdims=True) for rows in (train, test)]
    line_rows = (train / lengths[0], test / lengths[1])
    models = (
        (f"network of {HIDDEN} units", 0.850, NETWORK, 1 / 9, units, (train, test)),
        ("logistic regression, same rows", None, {}, 1.0, logistic(), line_rows),
    )
    print("10 parties, epsilon 2, secure sum, numbers also in eight public brackets")
    for title, goal, settings, variance, likelihood, (own, unseen) in models:
        case = Case(title, 10, 2.0, SUM, goal=goal, prior_variance=variance, settings=settings)
        normals = np.random.default_rng(0).normal(size=(16, likelihood.size(own.shape[1])))
        found, raised = [], []
        for seed in range(seeds):
            start = time.perf_counter()
            q, floored = fit(case, own, labels, likelihood, seed)
            arrays = (part.astype(np.float32) for part in (unseen, normals))
            found.append(judged(np.asarray(predictive(likelihood, q, *arrays)), truth))
            raised.append(floored)
            took = time.perf_counter() - start
            print(f"  seed {seed}: {found[-1]['accuracy']:.4f}  {took:.0f} s", flush=True)
        line(case, found, raised, None)


def picture(curves: dict[str, np.ndarray], truth: np.ndarray) -> str:
    """How often a predicted chance comes true."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6.5, 6))
    axes.plot([0, 1], [0, 1], color="black", linewidth=1, label="perfectly calibrated")
    for title, chances in curves.items():
        _, frequency, confidence, _ = reliability(chances, truth)
        axes.plot(confidence, frequency, "o-", markersize=4, label=title)
    axes.set(
        xlabel="predicted chance of income above 50 000",
        ylabel="how often it is true",
        title="Adult: calibration of private posteriors (seed 0)",
    )
    axes.legend(fontsize=8, loc="upper left")
    axes.grid(alpha=0.3)
    path = Path(__file__).parent / "results" / "adult_bayes.png"
    path.parent.mkdir(exist_ok=True)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    return str(path.relative_to(path.parents[2]))


def smoke() -> dict[str, float]:
    """Two rounds of two parties."""
    data = breast_cancer()
    case = Case("smoke", 2, 1.0, LOCAL, settings={"rounds": 2})
    natural, floored = fit(case, rows_of(data)[0], 2.0 * data.train_labels - 1, logistic(), 0)
    return {"floored": floored, "length": float(np.linalg.norm(natural.shift))}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--data", help="folder with adult.data.gz (default: UNISONO_DATA)")
    parser.add_argument("--network", action="store_true")
    arguments = figures.options(parser, smoke)
    try:
        data = adult(data_folder(arguments.data))
    except MissingData as reason:
        print(f"skipped: {reason}")
        return 0
    (network if arguments.network else table)(data, arguments.seeds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
