"""Accuracy of private networks beside private logistic regression, on Adult and digits.

    python benchmarks/network_estimators.py [digits] [adult]

Both estimators with their defaults, seeds 0 to 4 (simulated noise), on test parts that no constant
was chosen on. Unit record; Gaussian noise; the network over secret Poisson coins.
"""

import argparse
import sys
import time
import warnings
from collections.abc import Iterable

import numpy as np

import figures
from datasets import PublicDataset, adult, breast_cancer, data_folder, digits
from unisono.errors import PrivacyWarning
from unisono.estimators import PrivateClassifier, PrivateLogisticRegression

SCORECARD = figures.Benchmark(quick=None)

SEEDS = range(5)


def accuracy(
    kind: type,
    data: PublicDataset,
    relation: str,
    epsilon: float,
    delta: float,
    seeds: Iterable[int] = SEEDS,
) -> str:
    options = {"records": len(data.train)} if relation == "add-or-remove" else {}
    found, began = [], time.process_time()
    for seed in seeds:
        model = kind(
            epsilon,
            delta,
            bounds=data.bounds,
            classes=np.unique(data.train_labels),
            relation=relation,
            random_state=seed,
            **options,
        )
        model.fit(data.train, data.train_labels)
        found.append(model.score(data.test, data.test_labels))
    seconds = (time.process_time() - began) / len(SEEDS)
    return f"{np.mean(found):.4f} ± {np.std(found):.4f}  {seconds:5.1f} s of processor a fit"


def smoke() -> dict[str, float]:
    """One network on breast cancer."""
    warnings.simplefilter("ignore", PrivacyWarning)
    data, began = breast_cancer(), time.perf_counter()
    data = data._replace(train=data.train[:100], train_labels=data.train_labels[:100])
    accuracy(PrivateClassifier, data, "replace-one", 3.0, 1e-4, range(1))
    return {"seconds of a fit": time.perf_counter() - began}


def main() -> None:
    plans = {"digits": ((3.0, 1e-4), (8.0, 1e-4)), "adult": ((1.0, 1e-5), (4.0, 1e-5))}
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("wanted", nargs="*", metavar="DATA", help=", ".join(plans))
    wanted = figures.options(parser, smoke).wanted or list(plans)
    warnings.simplefilter("ignore", PrivacyWarning)
    for name in wanted:
        data = digits() if name == "digits" else adult(data_folder())
        for epsilon, delta in plans[name]:
            for relation in ("add-or-remove", "replace-one"):
                print(f"{name}, epsilon {epsilon:g} at delta {delta:g}, {relation}")
                for kind in (PrivateLogisticRegression, PrivateClassifier):
                    print(f"  {kind.__name__:<26}", accuracy(kind, data, relation, epsilon, delta))
                sys.stdout.flush()


if __name__ == "__main__":
    main()
