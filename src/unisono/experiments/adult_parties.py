"""Adult over many parties: what a secure sum keeps and local noise loses, by the number of parties.

Adult's 32,561 training records are dealt to m parties in turn; logistic regression on rows in the
unit ball, ε = 1, δ = 1e-5, replace-one, judged on the official test file.

    pooled          one holder of all records, gradient perturbation by the shipped rule
    secure sum      the same over m parties; no colluders, all survive
    local noise     the same, every party adds all of its noise
    SGD2            as in the SGD write-up: local noise, convex step sizes, plain average, radius 10

Without colluders the sum holds m shares of σ²/m, the noise of the pooled run exactly, so that their
accuracies differ by chance only; local noise grows as √m in the sum. A curious party that knows its
own share leaves (m - 1)/m of the variance, which its ledger is charged for. The data are public,
and read from the folder that UNISONO_DATA names.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from unisono.accounting.accountant import ACCOUNTANT
from unisono.algorithms.choose import choose
from unisono.algorithms.sgd_synchronous import SYNCHRONOUS_SGD
from unisono.core.algorithm import Facts
from unisono.core.events import Gaussian
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.privacy import Privacy
from unisono.core.study import Party, Study
from unisono.core.trust import Trust
from unisono.core.values import Private
from unisono.data.scaling import scaling
from unisono.engines import in_process
from unisono.experiments import datasets
from unisono.experiments.datasets import PublicDataset
from unisono.experiments.findings import ExpectedNumber, Findings
from unisono.problems.linear import LinearLoss
from unisono.releases.algorithm import Method

DELTA, ROUNDS, EPSILON = 1e-5, 100, 1.0
PARTIES, QUICK_PARTIES = (1, 10, 100, 1_000), (1, 10, 100)
NAMES = ("pooled", "secure sum", "local noise", "SGD2")


class AdultRecords(NamedTuple):
    """Rows in the unit ball (n, d), labels -1 / +1, and the accuracy without privacy."""

    name: str
    train: np.ndarray
    train_labels: np.ndarray
    test: np.ndarray
    test_labels: np.ndarray
    ceiling: float


class AdultOutcome(NamedTuple):
    """Test accuracies over seeds, and the standard deviation of the noise in the sum."""

    accuracies: list[float]
    noise: float


def prepared(data: PublicDataset) -> AdultRecords:
    """Rows scaled into the unit ball by public bounds, with the accuracy to reach."""
    scale = scaling(data.bounds, data.train.shape[1])
    train, test = scale.rows(data.train)[0], scale.rows(data.test)[0]
    labels = 2.0 * data.train_labels - 1, 2.0 * data.test_labels - 1
    return with_ceiling("Adult", train, labels[0], test, labels[1])


def with_ceiling(
    name: str, train: np.ndarray, labels: np.ndarray, test: np.ndarray, test_labels: np.ndarray
) -> AdultRecords:
    """The accuracy without privacy is that of a hardly regularised logistic regression."""
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=1e4, max_iter=3000, fit_intercept=False).fit(train, labels)
    top = float(model.score(test, test_labels))
    return AdultRecords(name, train.astype(np.float32), labels, test, test_labels, top)


def method_named(name: str, epsilon: float) -> Method:
    problem, privacy = LinearLoss(), Privacy(epsilon, DELTA)
    if name == "SGD2":
        return SYNCHRONOUS_SGD.method(problem, privacy, rounds=ROUNDS, radius=10.0)
    return choose(problem, privacy, most_rounds=ROUNDS).method


def learn(
    name: str, records: AdultRecords, count: int, epsilon: float, seeds: Sequence[int]
) -> AdultOutcome:
    """Runs of one method over `count` parties, one per seed."""
    count = 1 if name == "pooled" else count
    trust = Trust.SECURE_SUM if name == "secure sum" and count > 1 else Trust.LOCAL
    owners = np.arange(len(records.train)) % count
    order = np.argsort(owners, kind="stable")
    cuts = np.cumsum(np.bincount(owners))[:-1]
    features = np.split(records.train[order], cuts)
    labels = np.split(records.train_labels[order].astype(np.float32), cuts)
    facts = Facts(tuple(len(part) for part in labels), records.train.shape[1], count)
    study = Study(method_named(name, epsilon), facts, trust)
    event = study.algorithm.event(facts, trust)
    assert isinstance(event.noise, Gaussian)
    spread = count if trust is Trust.LOCAL else count / facts.honest
    scores = []
    for seed in seeds:
        # The curious party's view costs sqrt(m / (m - 1)) more: allowed here, and charged.
        budget = Budget(2 * epsilon, DELTA)
        parties = [
            Party(
                f"party{j}",
                Private((features[j], labels[j])),
                Ledger.in_memory(
                    Policy(f"party{j}", budget),
                    ACCOUNTANT,
                    seed=1_000_003 * seed + j,
                ),
            )
            for j in range(count)
        ]
        parameters = np.asarray(in_process.run(study, parties).value, float)
        right = np.where(records.test @ parameters >= 0, 1, -1) == records.test_labels
        scores.append(float(right.mean()))
    return AdultOutcome(scores, event.noise.std * math.sqrt(spread))


# ------------------------------------------------------------- findings


def check() -> None:
    """Refuse where a file is missing, before anything runs."""
    datasets.require(datasets.data_folder(), *datasets.ADULT_FILES)


def run(quick: bool) -> Findings:
    """Quick: to 100 parties, one seed. Full: to 1,000 parties, three seeds."""
    records = prepared(datasets.adult(datasets.data_folder()))
    counts, seeds = (QUICK_PARTIES, 1) if quick else (PARTIES, 3)
    pooled = learn("pooled", records, 1, EPSILON, range(max(seeds, 2)))
    curves = {
        name: [learn(name, records, m, EPSILON, range(100, 100 + seeds)) for m in counts]
        for name in NAMES[1:]
    }
    mean = {name: [float(np.mean(one.accuracies)) for one in curves[name]] for name in curves}
    base, most = float(np.mean(pooled.accuracies)), counts[-1]
    share = float(np.mean(records.test_labels < 0))
    ratios = [one.noise / pooled.noise for one in curves["secure sum"]]
    growth = curves["local noise"][-1].noise / pooled.noise / math.sqrt(most)
    numbers = (
        ExpectedNumber("accuracy without privacy", records.ceiling, 0.84, 0.855),
        ExpectedNumber(
            "accuracy of the pooled run", base, 0.838, 0.852, f"always the larger: {share:.3f}"
        ),
        ExpectedNumber(
            "secure sum: largest distance from the pooled run",
            max(abs(value - base) for value in mean["secure sum"]),
            0,
            0.006,
            f"to {most:,} parties",
        ),
        ExpectedNumber(
            "secure sum: largest noise over the pooled run's", max(ratios), 0.999, 1.001
        ),
        ExpectedNumber(
            f"local noise over √m times the pooled run's, m = {most:,}",
            growth,
            0.999,
            1.001,
        ),
        ExpectedNumber(
            f"accuracy that local noise loses against the secure sum, m = {most:,}",
            mean["secure sum"][-1] - mean["local noise"][-1],
            0.003,
            0.4,
        ),
        ExpectedNumber(
            f"accuracy that SGD2 loses against the secure sum, m = {most:,}",
            mean["secure sum"][-1] - mean["SGD2"][-1],
            0.003,
            0.6,
            "the SGD write-up: local noise, plain average",
        ),
    )
    remarks = (
        f"However many parties share the records, the secure sum learns what one holder of all "
        f"would: {mean['secure sum'][-1]:.4f} at m = {most:,}, {base:.4f} pooled, "
        f"{records.ceiling:.4f} without privacy.",
        f"Where each party adds its own noise, the sum has √m times as much: "
        f"{mean['local noise'][-1]:.4f} at m = {most:,}, and SGD2 as published "
        f"{mean['SGD2'][-1]:.4f}.",
        "No colluders are planned for here; t of them cost noise of √(m/(m - t)), which a study "
        "asks for with `colluders`.",
    )
    return Findings(
        "adult_parties",
        f"Adult over the number of parties, ε = {EPSILON:g}",
        "Sources 000 and 004, on Adult",
        numbers,
        remarks,
        lambda figure: draw(figure, counts, {"pooled": [base] * len(counts), **mean}, records),
        (8.0, 4.8),
    )


def draw(
    figure: Any, counts: Sequence[int], curves: dict[str, list[float]], records: AdultRecords
) -> None:
    """Test accuracy over the number of parties."""
    axes = figure.subplots()
    styles = {"pooled": "--", "secure sum": "o-", "local noise": "s-", "SGD2": "^-"}
    for name, values in curves.items():
        axes.plot(counts, values, styles[name], label=name)
    axes.axhline(records.ceiling, color="black", linewidth=1, label="no privacy")
    share = float(np.mean(records.test_labels < 0))
    axes.axhline(
        max(share, 1 - share), color="grey", linestyle=":", label="always the larger class"
    )
    axes.set(xscale="log", xlabel="parties m (the same records in all)", ylabel="test accuracy")
    axes.set_xticks(counts, [f"{count:,}" for count in counts])
    axes.minorticks_off()
    axes.legend()
