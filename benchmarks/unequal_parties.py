"""Convex learning over parties of different sizes, beside equal ones and beside the plan.

    python benchmarks/unequal_parties.py [--records 8000] [--seeds 1] [--data folder] [--markdown]
    python benchmarks/unequal_parties.py --smoke                     one study, in seconds

Five parties hold 45, 25, 15, 10 and 5 % of the records, or a fifth each. Every registered algorithm
for logistic regression learns Adult (8,000 of its training records, unless told otherwise) and
breast_cancer (test accuracy) at epsilon 0.5, 1, 3 and 10, and every one for linear regression
learns the classes of Adult as the numbers -1 and 1 (R² on test records) at epsilon 1 and 10, with
delta 0 (where it is offered) and 1e-6. Replace-one, a secure sum with one colluder
(local noise where there is no other), defaults of the algorithms; nothing is tuned on test records.

    equal       a fifth each
    unequal     45 / 25 / 15 / 10 / 5 %, the pooled objective
    by party    the same parties with objective = "equal-parties", where there is a choice
    the plan    what the planner says of each from public facts, after the number:
                ++ good, + usable, ? doubtful, - useless, nothing where it does not predict

Fails where a result that the planner calls good or usable is worse than the commonest class (or
than the mean, where a number is predicted).
"""

import argparse
import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

import figures
import unisono
from datasets import MissingData, PublicDataset, adult, breast_cancer, data_folder
from unisono.core.trust import Trust
from unisono.data.scaling import scaling
from unisono.engines import compilation_cache, in_process
from unisono.errors import ConditionViolated, InvalidInput
from unisono.models.registry import algorithms_for, model_named
from unisono.planning.predict import predict
from unisono.planning.tasks import Task
from unisono.planning.verdicts import Grade
from unisono.problems.linear import linear_loss
from unisono.releases.algorithm import AlgorithmKind

SCORECARD = figures.Benchmark(quick=("--smoke",))

SHARES = (0.45, 0.25, 0.15, 0.10, 0.05)
EQUAL = (0.2,) * 5
EPSILONS, FEWER, DELTAS = (0.5, 1.0, 3.0, 10.0), (1.0, 10.0), (0.0, 1e-6)
SPLITS = {
    "equal": (EQUAL, {}),
    "unequal": (SHARES, {}),
    "by party": (SHARES, {"objective": "equal-parties"}),
}
MARKS = {Grade.GOOD: "++", Grade.USABLE: "+", Grade.DOUBTFUL: "?", Grade.USELESS: "-", None: ""}
SMOKE = "gradient-perturbation"
# It asks for one record at a time, so often that a fit takes minutes.
ONE_BY_ONE = "sgd-sequential"
TRUSTED = (Grade.GOOD, Grade.USABLE)


class Records(NamedTuple):
    """Rows in the unit ball in an order that says nothing, labels -1 / 1, and for squares both
    divided by the row's length, which the last number of a row undoes."""

    name: str
    task: Task
    train: np.ndarray
    train_labels: np.ndarray
    test: np.ndarray
    test_labels: np.ndarray

    @property
    def loss(self) -> str:
        return "logistic" if self.task is Task.CLASSIFICATION else "squares"

    @property
    def constant(self) -> float:
        """What knowing nothing scores: the commonest class, or R² 0 of the mean."""
        share = float(np.mean(self.test_labels > 0))
        return max(share, 1 - share) if self.task is Task.CLASSIFICATION else 0.0

    def score(self, parameters: np.ndarray) -> float:
        scores = self.test @ parameters
        if self.task is Task.CLASSIFICATION:
            return float(np.mean(np.where(scores > 0, 1, -1) == self.test_labels))
        missed = self.test_labels - scores / self.test[:, -1]
        spread = self.test_labels - self.test_labels.mean()
        return float(1 - (missed @ missed) / (spread @ spread))


class Cell(NamedTuple):
    """Scores over seeds, and what the plan said; no scores where a study cannot be."""

    scores: tuple[float, ...]
    grade: Grade | None

    @property
    def text(self) -> str:
        return f"{np.mean(self.scores):.3f} {MARKS[self.grade]:<2}" if self.scores else "-    "


def records_of(data: PublicDataset, task: Task, most: int) -> Records:
    order = np.random.default_rng(0).permutation(len(data.train))[: most or None]
    scale = scaling(data.bounds, data.train.shape[1])
    (train, lengths), (test, _) = scale.rows(data.train[order]), scale.rows(data.test)
    labels = 2.0 * data.train_labels[order] - 1
    if task is Task.REGRESSION:
        labels = labels / lengths
    return Records(data.name, task, train, labels, test, 2.0 * data.test_labels - 1)


def without_privacy(records: Records) -> float:
    from sklearn.linear_model import LogisticRegression, Ridge

    if records.task is Task.REGRESSION:
        model = Ridge(1e-3, fit_intercept=False).fit(records.train, records.train_labels)
    else:
        model = LogisticRegression(C=1e3, max_iter=3000, fit_intercept=False)
        model.fit(records.train, records.train_labels)
    return records.score(np.ravel(model.coef_))


def learn(
    kind: AlgorithmKind,
    records: Records,
    split: str,
    epsilon: float,
    delta: float,
    seeds: range,
) -> Cell:
    """Runs of one study, one for each seed."""
    shares, settings = SPLITS[split]
    if not settings.keys() <= kind.config.model_fields.keys():
        return Cell((), None)
    cuts = np.round(np.cumsum(shares)[:-1] * len(records.train)).astype(int)
    rows = np.split(records.train.astype(np.float32), cuts)
    labels = np.split(records.train_labels.astype(np.float32), cuts)
    secure = Trust.SECURE_SUM in kind.trusts
    facts = unisono.Facts(tuple(map(len, labels)), records.train.shape[1], len(shares), int(secure))
    try:
        method = kind.method(linear_loss(records.loss), unisono.Privacy(epsilon, delta), **settings)
        study = unisono.Study(method, facts, Trust.SECURE_SUM if secure else Trust.LOCAL)
    except (InvalidInput, ConditionViolated):  # no pure epsilon, for most
        return Cell((), None)
    found = []
    for seed in seeds:
        parties = [
            unisono.Party(
                f"party-{j}",
                unisono.Private((rows[j], labels[j])),
                unisono.Ledger.in_memory(
                    unisono.Policy(f"party-{j}", unisono.Budget(epsilon * 1.01, delta)),
                    unisono.ACCOUNTANT,
                    seed=1000 * seed + j,
                ),
            )
            for j in range(len(shares))
        ]
        value = np.asarray(in_process.run(study, parties).value, float)
        found.append(records.score(value))
    classes = 2 if records.task is Task.CLASSIFICATION else 0
    told = records.task in kind.laws
    return Cell(tuple(found), predict(study, records.task, classes).grade if told else None)


def competitors(task: Task) -> Sequence[AlgorithmKind]:
    """Every registered algorithm for the linear model of this task."""
    classes = task is Task.CLASSIFICATION
    model = model_named("logistic-regression" if classes else "linear-regression")
    return [kind for kind in algorithms_for(model) if kind.name != ONE_BY_ONE]


def table(
    records: Records,
    kinds: Sequence[AlgorithmKind],
    epsilons: tuple[float, ...],
    seeds: range,
    markdown: bool,
) -> Iterator[str]:
    """Print a table; yields what the planner promised and the run did not keep."""
    classes = records.task is Task.CLASSIFICATION
    measure = "test accuracy" if classes else "R² on test records"
    print(
        f"\n{records.name}, {records.task}: {measure} ({len(records.train)} training records; "
        f"without privacy {without_privacy(records):.3f}, knowing nothing {records.constant:.3f})\n"
    )
    _line(["algorithm", "delta", "split", *(f"epsilon {e:g}" for e in epsilons)], markdown, True)
    for delta in DELTAS:
        for kind in kinds:
            for split in SPLITS:
                cells = [learn(kind, records, split, e, delta, seeds) for e in epsilons]
                if not any(cell.scores for cell in cells):
                    continue
                _line([kind.name, f"{delta:g}", split, *(cell.text for cell in cells)], markdown)
                for epsilon, cell in zip(epsilons, cells, strict=True):
                    if cell.grade in TRUSTED and min(cell.scores) < records.constant:
                        yield (
                            f"{records.name}, {kind.name}, {split}, epsilon {epsilon:g}, delta "
                            f"{delta:g}: planned as {cell.grade}, yet {min(cell.scores):.3f} is "
                            f"below {records.constant:.3f}"
                        )


def _line(cells: list[str], markdown: bool, head: bool = False) -> None:
    if markdown:
        print("| " + " | ".join(cell.strip() for cell in cells) + " |", flush=True)
        if head:
            print("|" + "---|" * 3 + "---:|" * (len(cells) - 3))
        return
    widths = (24, 8, 10)
    left = "".join(f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=False))
    print(left + "".join(f"{cell:>13}" for cell in cells[3:]), flush=True)


def wanted(folder: str | None) -> Iterator[tuple[PublicDataset, Task, tuple[float, ...]]]:
    """What is learnt, and at which epsilons."""
    try:
        data = adult(data_folder(folder))
        yield data, Task.CLASSIFICATION, EPSILONS
        yield data, Task.REGRESSION, FEWER
    except MissingData as reason:
        print(f"Adult is absent: {reason}")
    yield breast_cancer(), Task.CLASSIFICATION, EPSILONS


def smoke() -> Mapping[str, float]:
    """One study of unequal parties, with what it scores beside a constant."""
    records = records_of(breast_cancer(), Task.CLASSIFICATION, 0)
    [kind] = [kind for kind in competitors(records.task) if kind.name == SMOKE]
    cell = learn(kind, records, "unequal", EPSILONS[-1], DELTAS[-1], range(1))
    return {"unequal parties": cell.scores[0], "constant": records.constant}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--data", help="folder of adult.data.gz (default: UNISONO_DATA)")
    parser.add_argument("--records", type=int, default=8000, help="for training; 0: all of them")
    parser.add_argument("--markdown", action="store_true", help="tables for a page")
    arguments = figures.options(parser, smoke)
    warnings.simplefilter("ignore")
    compilation_cache.enable()
    began = time.perf_counter()
    broken = [
        words
        for data, task, epsilons in wanted(arguments.data)
        for words in table(
            records_of(data, task, arguments.records),
            competitors(task),
            epsilons,
            range(arguments.seeds),
            arguments.markdown,
        )
    ]
    print(f"\n{time.perf_counter() - began:.0f} seconds")
    for words in broken:
        print("PLAN NOT KEPT:", words)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
