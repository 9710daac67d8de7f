"""Accuracy without bounds: ranges that are paid for, beside bounds that somebody knows.

    python benchmarks/private_bounds.py [--quick] [--seeds 10] [--epsilon 1]

1. breast_cancer (scikit-learn) as it comes, 30 columns from 0.001 to 4,254: ranges from a part of
   epsilon, rows scaled on their own (all that was possible without bounds before), the wide bounds
   of an honest guess (0 to 5,000), and those of a codebook.
2. Word frequencies as in spambase: 57 columns that are mostly zero, else log-normal, between which
   classes differ. Honest bounds 0 to 100, the same seen through log(1 + x), and private ones.

70 % of the records are learnt from, one party, delta = 1e-5, replace-one, defaults of
`PrivateLogisticRegression`. One constant was chosen by such figures: the share of epsilon that pays
for ranges, 0.3 (.918 ± .032), against 0.25 (.897 ± .037), on other splits of breast_cancer.
"""

import argparse
import sys
import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import figures
from datasets import breast_cancer
from unisono.estimators import PrivateLogisticRegression

SCORECARD = figures.Benchmark(seconds=900)

DELTA = 1e-5
AIM = 0.90
WORDS, MESSAGES = 57, 4601


class Task(NamedTuple):
    """Records, and what may be known about their bounds beforehand, by name."""

    rows: np.ndarray
    labels: np.ndarray
    bounds: dict[str, Any]


def measurements() -> Task:
    rows, labels = load_breast_cancer(return_X_y=True)
    return Task(
        rows,
        labels,
        {
            "private bounds": None,
            "rows on their own": 1.0,
            "honest bounds 0:5000": (0.0, 5000.0),
            "bounds of a codebook": breast_cancer().bounds,
        },
    )


def words() -> Task:
    """A third of the messages are of the second class, which uses some words more and some less."""
    generator = np.random.default_rng(57)
    labels = (generator.random(MESSAGES) < 0.4).astype(int)
    often = generator.uniform(0.05, 0.35, (2, WORDS))
    often[1, WORDS // 2 :] = often[0, WORDS // 2 :]  # half of the words say nothing
    scale = generator.uniform(-2.0, 1.0, WORDS)
    rows = np.exp(scale + 0.9 * generator.normal(size=(MESSAGES, WORDS)))
    rows *= generator.random((MESSAGES, WORDS)) < often[labels]
    return Task(
        np.minimum(rows, 100.0),
        labels,
        {"private bounds": None, "honest bounds 0:100": (0.0, 100.0), "log1p of 0:100": "log1p"},
    )


def score(task: Task, bounds: Any, epsilon: float, seed: int) -> float:
    rows = task.rows
    if isinstance(bounds, str):
        rows, bounds = np.log1p(rows), (0.0, float(np.log1p(100.0)))
    train, test, known, wanted = train_test_split(
        rows, task.labels, test_size=0.3, random_state=seed, stratify=task.labels
    )
    model = PrivateLogisticRegression(
        epsilon, DELTA, bounds=bounds, classes=[0, 1], random_state=seed
    )
    return float(model.fit(train, known).score(test, wanted))


def reference(task: Task, seed: int) -> float:
    train, test, known, wanted = train_test_split(
        task.rows, task.labels, test_size=0.3, random_state=seed, stratify=task.labels
    )
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    return float(model.fit(train, known).score(test, wanted))


def table(name: str, task: Task, epsilon: float, seeds: int, aim: float | None) -> None:
    print(f"\n{name}: {len(task.rows)} records, {task.rows.shape[1]} columns, epsilon {epsilon:g}")
    for what, bounds in task.bounds.items():
        found = [score(task, bounds, epsilon, seed) for seed in range(seeds)]
        print(f"  {what:24} {np.mean(found):.3f} ± {np.std(found):.3f}", flush=True)
        if bounds is None:
            figures.report(
                f"{name} without bounds, accuracy at epsilon {epsilon:g}",
                float(np.mean(found)),
                "accuracy",
                aim=aim,
            )
    found = [reference(task, seed) for seed in range(seeds)]
    print(f"  {'scikit-learn, no privacy':24} {np.mean(found):.3f} ± {np.std(found):.3f}")


def smoke() -> dict[str, float]:
    warnings.simplefilter("ignore")
    return {"accuracy on breast cancer": score(measurements(), None, 1.0, 0)}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--quick", action="store_true", help="three seeds")
    arguments = figures.options(parser, smoke)
    warnings.simplefilter("ignore")  # simulations on public data
    seeds = 3 if arguments.quick else arguments.seeds
    table("breast cancer", measurements(), arguments.epsilon, seeds, AIM)
    table("word frequencies", words(), arguments.epsilon, seeds, None)
    return 0


if __name__ == "__main__":
    sys.exit(main())
