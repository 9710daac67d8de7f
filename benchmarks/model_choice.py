"""Is a search worth its epsilon? The chosen model beside the default one, at equal total epsilon.

    python benchmarks/model_choice.py [DATA ...] [--seeds 3] [--quick]

The default estimator gets all records and all of epsilon. `PrivateSearch` pays for every fit, the
scores and the choice with the same epsilon, and keeps a quarter of the records to judge by:
"all" against everybody, "random-stopping" against whoever sees the chosen model only. Simulated
noise, seeds from 0, zero-out, unit record, one party; accuracy or R² on test parts that nobody
learnt from. Also: what 20 candidates cost, in multiples of one run.

Adult is left out where UNISONO_DATA does not have it.
"""

import argparse
import math
import sys
import time
import warnings
from typing import Any, NamedTuple

import numpy as np

import figures
from datasets import MissingData, adult, breast_cancer, data_folder, digits
from unisono.accounting import gaussian
from unisono.accounting.accountant import ACCOUNTANT
from unisono.core.events import Event, Gaussian, bounded_sum, random_stopping
from unisono.core.trust import Relation
from unisono.estimators import (
    PrivateClassifier,
    PrivateLogisticRegression,
    PrivateRidge,
    PrivateSearch,
)

SCORECARD = figures.Benchmark(quick=("--quick",), full=("--seeds", "3"), seconds=3600)
DELTA = 1e-5
METHODS = ("all", "random-stopping")


class Table(NamedTuple):
    """Records to learn from and to test on, the default estimator, and what is tried."""

    train: np.ndarray
    labels: np.ndarray
    test: np.ndarray
    test_labels: np.ndarray
    epsilon: float
    default: Any
    candidates: list[dict[str, Any]]


def classification(
    data: Any, epsilon: float, hidden: tuple[int, ...] = (16,), most: int = 10**9
) -> Table:
    """Logistic regression by default; other penalties and algorithms, and a network."""
    names = np.unique(data.train_labels)
    default = PrivateLogisticRegression(bounds=data.bounds, classes=names, relation="zero-out")
    tried: list[dict[str, Any]] = [{}, *({"regularisation": r} for r in (1e-2, 1e-1))]
    tried += [{"algorithm": "output-perturbation", "regularisation": r} for r in (1e-2, 1e-1)]
    network = PrivateClassifier(
        bounds=data.bounds, classes=names, hidden=hidden, relation="zero-out"
    )
    tried += [{"estimator": network}]
    rows = slice(0, most)
    train, labels = data.train[rows], data.train_labels[rows]
    return Table(train, labels, data.test, data.test_labels, epsilon, default, tried)


class Given(NamedTuple):
    """As a `PublicDataset`."""

    train: np.ndarray
    train_labels: np.ndarray
    test: np.ndarray
    test_labels: np.ndarray
    bounds: Any


def moons() -> Table:
    """Two interleaved half circles, which no line tells apart."""
    from sklearn.datasets import make_moons

    X, y = make_moons(10_000, noise=0.25, random_state=0)
    return classification(Given(X[:8000], y[:8000], X[8000:], y[8000:], (-2.5, 3.5)), 2.0)


def regression(
    X: np.ndarray, y: np.ndarray, epsilon: float, bounds: Any, targets: tuple[float, float]
) -> Table:
    """Least squares by default; ten penalties on the same noisy sums, and the default."""
    held = np.arange(len(X)) % 5 == 0
    default = PrivateRidge(bounds=bounds, target_bounds=targets, relation="zero-out")
    sums = {"algorithm": "adaptive-statistics"}
    tried = [{}, sums, *({**sums, "regularisation": float(r)} for r in np.geomspace(1e-4, 1, 9))]
    return Table(X[~held], y[~held], X[held], y[held], epsilon, default, tried)


def diabetes() -> Table:
    """Ten columns, standardised; bounds and targets by the description of the data."""
    from sklearn.datasets import load_diabetes

    X, y = load_diabetes(return_X_y=True)
    return regression(X, y, 4.0, (-0.2, 0.2), (0.0, 350.0))


def collinear() -> Table:
    """Thirty columns that say nearly the same, and bounds ten times too wide."""
    generator = np.random.default_rng(0)
    common = generator.normal(size=(5000, 1))
    X = common + 0.3 * generator.normal(size=(5000, 30))
    y = X.mean(axis=1) + 0.5 * generator.normal(size=5000)
    return regression(X, y, 2.0, (-30.0, 30.0), (-10.0, 10.0))


TABLES = {
    "breast cancer": lambda: classification(breast_cancer(), 3.0),
    "digits": lambda: classification(digits(), 6.0, (32,)),
    "adult": lambda: classification(adult(data_folder()), 1.0, (16,), 16_000),
    "moons": moons,
    "diabetes": diabetes,
    "collinear": collinear,
}


def fitted(table: Table, method: str, seed: int) -> Any:
    """The default by itself, or the winner of a search."""
    if method == "default":
        own = table.default.set_params(epsilon=table.epsilon, delta=DELTA, random_state=seed)
        return own.fit(table.train, table.labels)
    search = PrivateSearch(
        table.default.set_params(random_state=None),
        table.candidates,
        epsilon=table.epsilon,
        delta=DELTA,
        method=method,
        random_state=seed,
    )
    return search.fit(table.train, table.labels)


def costs() -> dict[str, float]:
    """What 20 candidates cost, in multiples of the epsilon of one run, at epsilon 1 and 1e-6."""
    delta, relation = 1e-6, Relation.ZERO_OUT
    run = Event(Gaussian(1 / gaussian.mu_for(1.0, delta)), bounded_sum(l2=1.0)) * 1
    best = random_stopping([run], 40, 2) * 1
    return {
        "who sees the final model (random stopping)": ACCOUNTANT.epsilon(best, relation, delta),
        "everybody (all 20, secure sum)": ACCOUNTANT.epsilon(run * 20, relation, delta),
    }


def smoke() -> dict[str, float]:
    """Ridges on the same noisy sums, and what 20 candidates cost."""
    warnings.simplefilter("ignore")
    table = diabetes()._replace(candidates=[{}, {"regularisation": 0.1}])
    table.default.set_params(algorithm="adaptive-statistics")
    began = time.perf_counter()
    fitted(table, "all", 0)
    return {"seconds of a search": time.perf_counter() - began, **costs()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("wanted", nargs="*", metavar="DATA", help=", ".join(TABLES))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one seed, regressions only")
    said = figures.options(parser, smoke)
    warnings.simplefilter("ignore")
    wanted = said.wanted or (["diabetes", "collinear"] if said.quick else list(TABLES))
    seeds = 1 if said.quick else said.seeds
    aims = {"who sees": 3.0, "everybody": 5.5}
    for name, cost in costs().items():
        print(f"20 candidates, {name}: {cost:.2f} times the epsilon of one run")
        aim = next(own for words, own in aims.items() if name.startswith(words))
        figures.report(f"20 candidates, {name}", cost, "times one run", aim=aim, lower=True)
    better = dict.fromkeys(METHODS, 0)
    for name in wanted:
        try:
            table = TABLES[name]()
        except MissingData as error:
            print(f"{name}: {error}")
            continue
        means = {}
        for method in ("default", *METHODS):
            if method == "random-stopping" and isinstance(table.default, PrivateRidge):
                continue  # they share a release: "all" costs what one fit does
            began, found, chosen = time.process_time(), [], []
            for seed in range(seeds):
                model = fitted(table, method, seed)
                found.append(model.score(table.test, table.test_labels))
                chosen.append(getattr(model, "best_index_", "-"))
            means[method] = float(np.mean(found))
            spread = np.std(found) / math.sqrt(max(len(found), 1))
            seconds = (time.process_time() - began) / seeds
            print(
                f"{name:<14} epsilon {table.epsilon:g}  {method:<16} {means[method]:.4f} ± "
                f"{spread:.4f}  chosen {chosen}  {seconds:.1f} s of processor"
            )
            sys.stdout.flush()
        for method in METHODS:
            better[method] += means.get(method, means["all"]) > means["default"]
    for method, number in better.items():
        print(f"{method}: better than the default on {number} of {len(wanted)}")
        if len(wanted) == len(TABLES):
            figures.report(
                f"model choice, {method}: better than the default", number, "of 6 data sets", aim=4
            )


if __name__ == "__main__":
    main()
