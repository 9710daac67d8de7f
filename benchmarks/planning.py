"""How often reality falls into the band that `unisono plan` predicts.

    python benchmarks/planning.py [--quick] [--tasks ...] [--data folder]    coverage, per task
    python benchmarks/planning.py --fit [--tasks ...]                        constants of the laws

Studies are built as `unisono plan` builds them and run with simulated noise, one run each: what a
user gets. "lost" is the accuracy (classification, network) or the R² (regression) of the same kind
of model without privacy, on the same records, minus that of the private one, on fresh records.

Laws are fitted on planes with seeds below 1000; coverage is measured on other planes (seeds from
1000) and on breast_cancer, digits and Adult, none of which was used to fit.
"""

import argparse
import math
import sys
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neural_network import MLPClassifier, MLPRegressor

from datasets import MissingData, PublicDataset, adult, breast_cancer, data_folder, digits
from figures import Benchmark, report
from figures import options as parsed
from unisono.accounting.accountant import ACCOUNTANT
from unisono.algorithms.registry import algorithm_named
from unisono.cli.plan_studies import Candidate, PlanRequest, candidate, document
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.study import Party
from unisono.core.trust import SERVER, Relation, Trust
from unisono.core.values import Private
from unisono.engines import in_process
from unisono.models.model import Posed
from unisono.planning.laws import band, fit, holds
from unisono.planning.noise import noise_of
from unisono.planning.tasks import Task
from unisono.problems.networks import mlp

SCORECARD = Benchmark(quick=("--quick", "--tasks", "classification"), seconds=5400)

FRESH, HELD_OUT = 4000, 1000
NAMES = {
    Task.CLASSIFICATION: (
        "gradient-perturbation",
        "dp-sgd-convex",
        "output-perturbation",
        "sgd-synchronous",
        "fed-avg",
    ),
    Task.REGRESSION: (
        "fisher-scoring",
        "adaptive-statistics",
        "gradient-perturbation",
        "dp-sgd-convex",
        "output-perturbation",
        "sgd-synchronous",
        "fed-avg",
    ),
    Task.NETWORK: ("dp-sgd", "dp-ftrl", "local-dp-sgd", "fed-avg"),
}


class Case(NamedTuple):
    """What is run: a study's facts, its trust, the records and the seed of the noise."""

    request: PlanRequest
    trust: Trust
    data: PublicDataset
    seed: int


class Seen(NamedTuple):
    """One run: where it stood, and what it lost."""

    where: str
    total: float
    classes: int
    lost: float


# ------------------------------------------------------------- studies of tables


def run(
    request: PlanRequest, name: str, trust: Trust, data: PublicDataset, seed: int
) -> Seen | str:
    """A study of the request on these records, dealt to the parties in turn."""
    said = document(request, name, trust)
    for number, (low, high) in enumerate(data.bounds.T, start=1):
        said["data"]["columns"][f"x{number}"]["bounds"] = (float(low), float(high))
    found = candidate(said)
    if found.built is None:
        return found.reason
    built = found.built
    total, count = sum(request.records), len(request.records)

    def parties(posed: Posed) -> list[Party]:
        deal = (np.arange(place, total, count) for place in range(count))
        return [_party(built, posed, data, own, k, seed) for k, own in enumerate(deal)]

    study = built.study
    if built.start is not None:
        first = in_process.run(built.start.study, parties(built.start.posed))
        study = study.begun(first.value)
    result = in_process.run(study, parties(built.posed))
    if built.algorithm.unit_rows:
        test = built.posed.encode(_values(data.test, data.test_labels))
        train = built.posed.encode(_values(data.train, data.train_labels))
        kept = score(request, found, result.value, test)
    else:
        train, test = (
            (np.column_stack([rows, np.ones(len(rows))]), labels)
            for rows, labels in (
                (data.train, data.train_labels),
                (data.test, data.test_labels),
            )
        )
        shown = built.present(result)
        line = np.array([*shown["weights"].values(), shown["intercept"]])
        kept = _explained(test[0] @ line, test[1])
    lost = ceiling(request, name, train, test) - kept
    return Seen(data.name, noise_of(built.study).total, request.classes, lost)


def _values(rows: np.ndarray, labels: np.ndarray) -> dict[str, np.ndarray]:
    return {**{f"x{n}": column for n, column in enumerate(rows.T, start=1)}, "y": labels}


def _explained(guesses: np.ndarray, truth: np.ndarray) -> float:
    return float(1 - np.mean((guesses - truth) ** 2) / np.var(truth))


def _party(
    built: Any, posed: Posed, data: PublicDataset, places: np.ndarray, number: int, seed: int
) -> Party:
    columns = posed.encode(_values(data.train[places], data.train_labels[places]))
    event = built.study.algorithm.event(built.study.facts, built.study.trust)
    trusted = built.study.trust is Trust.TRUSTED_SERVER
    policy = Policy(
        f"party-{number + 1}",
        Budget(1e3, built.file.privacy.delta),
        ((SERVER, Budget(math.inf, 0.0)),) if trusted else (),
        relation=built.file.privacy.relation,
        unit=event.sensitivity.unit,
    )
    ledger = Ledger.in_memory(policy, ACCOUNTANT, seed=seed * 10_007 + number)
    held = tuple(np.asarray(column, np.float32) for column in columns)
    return Party(f"party-{number + 1}", Private(held), ledger)


def score(
    request: PlanRequest, found: Candidate, value: Any, test: tuple[np.ndarray, ...]
) -> float:
    rows, labels = test
    file = found.built.file  # type: ignore[union-attr]
    if file.model.name == "network":
        hidden = file.model_settings.hidden
        network = mlp(rows.shape[1], hidden, request.classes, "tanh")
        outputs = np.asarray(network.predict(value.parameters, rows))
        guesses = outputs.argmax(1) if request.classes else outputs
        truth = (labels > 0) if labels.min() < 0 and request.classes else labels
    else:
        outputs = rows @ np.asarray(value, float)
        guesses = outputs.argmax(1) if outputs.ndim == 2 else outputs
        truth = labels
        if request.classes == 2:
            guesses = np.where(outputs > 0, 1, -1)
    if request.classes:
        return float(np.mean(guesses == truth))
    return _explained(guesses, truth)


def ceiling(request: PlanRequest, name: str, train: Any, test: Any) -> float:
    """The same kind of model without privacy."""
    layered = request.task is Task.NETWORK
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if request.classes:
            model = (
                MLPClassifier((64,), "tanh", max_iter=60, early_stopping=True, random_state=0)
                if layered
                else LogisticRegression(C=1e3, max_iter=500, fit_intercept=False)
            )
        else:
            model = (
                MLPRegressor((64,), "tanh", max_iter=60, random_state=0)
                if layered
                else Ridge(1e-6, fit_intercept=False)
            )
        return float(model.fit(*train).score(*test))


# ------------------------------------------------------------- made-up records


def plane(seed: int, task: Task, records: int, features: int, classes: int) -> PublicDataset:
    """Scores linear in features that are even on [-1, 1]; some planes are harder than others."""
    generator = np.random.default_rng([seed, 7])
    rows = generator.uniform(-1, 1, (records + FRESH, features))
    outputs = max(1, classes if classes > 2 else 1)
    plane = generator.normal(size=(features, outputs))
    scores = rows @ plane / np.linalg.norm(plane, axis=0)
    if task is Task.NETWORK:
        scores = scores + np.sin(3 * rows[:, :1]) * generator.uniform(0, 1)
    steepness = generator.choice([3.0, 10.0])
    if classes == 2:
        labels = generator.random(len(rows)) < 1 / (1 + np.exp(-steepness * scores[:, 0]))
    elif classes:
        labels = np.argmax(steepness * scores + generator.gumbel(size=scores.shape), axis=1)
    else:
        noise = generator.uniform(-1, 1, len(rows)) / steepness
        labels = np.clip(scores[:, 0] / 3 + noise, -1, 1)
    bounds = np.repeat([[-1.0], [1.0]], features, axis=1)
    labels = labels.astype(float if not classes else int)
    return PublicDataset(
        "planes", rows[:records], labels[:records], rows[records:], labels[records:], bounds
    )


def scenarios(task: Task, name: str, seeds: range) -> Iterator[Case]:
    """Sizes, budgets and trusts at random."""
    for seed in seeds:
        generator = np.random.default_rng([seed, 11])
        whole = name == "fed-avg"
        parties = int(generator.choice([50, 200, 500] if whole else [2, 5, 20]))
        each = int(generator.choice([20, 50] if whole else [50, 200, 1000]))
        classes = int(generator.choice([2, 2, 4])) if task is not Task.REGRESSION else 0
        features = int(generator.choice([3, 10, 30]))
        epsilon = float(generator.choice([0.3, 1.0, 3.0, 8.0]))
        trust = Trust.LOCAL if name == "local-dp-sgd" else generator.choice(list(Trust))
        relation = Relation.ZERO_OUT if whole else Relation.REPLACE_ONE
        request = PlanRequest(
            task,
            (each,) * parties,
            features,
            classes,
            epsilon=epsilon,
            delta=1e-6,
            relation=relation,
        )
        data = plane(seed, task, each * parties, features, classes)
        yield Case(request, Trust(trust), data, seed)


def real(task: Task, name: str, folder: Any, quick: bool) -> Iterator[Case]:
    """The data sets of the accuracy benchmarks, over parties and budgets."""
    if task is Task.REGRESSION:
        return
    sets = [breast_cancer(), digits()]
    try:
        sets += [] if quick else [adult(folder)]
    except MissingData as reason:
        print(f"Adult is left out: {reason}")
    for data in sets:
        for epsilon in (0.5, 8.0) if quick else (0.5, 2.0, 8.0):
            for parties, trust in ((3, Trust.SECURE_SUM), (10, Trust.LOCAL)):
                if name == "local-dp-sgd" and trust is not Trust.LOCAL:
                    continue
                sizes = tuple(len(range(p, len(data.train), parties)) for p in range(parties))
                classes = len(np.unique(data.train_labels))
                relation = Relation.ZERO_OUT if name == "fed-avg" else Relation.REPLACE_ONE
                request = PlanRequest(
                    task,
                    sizes,
                    data.train.shape[1],
                    classes,
                    epsilon=epsilon,
                    delta=1e-6,
                    relation=relation,
                )
                yield Case(request, trust, data, 0)


def observe(task: Task, name: str, cases: Any) -> list[Seen]:
    found = []
    for request, trust, data, seed in cases:
        seen = run(request, name, trust, data, seed)
        if isinstance(seen, str):
            print(f"  not possible: {name}, {trust}: {seen[:90]}", flush=True)
        else:
            found.append(seen)
    return found


def main(options: argparse.Namespace) -> None:
    folder, count = data_folder(options.data), options.seeds or (4 if options.quick else 40)
    for task in options.tasks:
        for name in NAMES[task]:
            if options.fit:
                seen = observe(task, name, scenarios(task, name, range(count)))
                law = fit(
                    [s.total for s in seen],
                    [s.classes for s in seen],
                    [s.lost for s in seen],
                    task is Task.NETWORK,
                )
                print(f"{task} {name}: {law}  # {len(seen)} planes", flush=True)
                continue
            fresh = range(HELD_OUT, HELD_OUT + count)
            seen = observe(task, name, scenarios(task, name, fresh))
            seen += observe(task, name, real(task, name, folder, options.quick))
            show(task, name, seen)


def smoke() -> dict[str, float]:
    """One study of gradient perturbation on one synthetic plane."""
    task = Task.CLASSIFICATION
    seen = observe(task, NAMES[task][0], scenarios(task, NAMES[task][0], range(1)))
    return {"runs": len(seen), "lost": sum(one.lost for one in seen)}


def show(task: Task, name: str, seen: list[Seen]) -> None:
    law = algorithm_named(name).laws[task]
    for where in dict.fromkeys(one.where for one in seen):
        own = [one for one in seen if one.where == where]
        bands = [band(law, one.total, one.classes) for one in own]
        inside = [holds(law, one.total, one.classes, one.lost) for one in own]
        print(
            f"{task:<15} {name:<24} {where:<14} {sum(inside):>3} of {len(own):>3} in the band",
            flush=True,
        )
        for one, b, good in zip(own, bands, inside, strict=True):
            if not good or where != "planes":
                print(
                    f"      ratio {one.total:8.2f}  lost {one.lost:7.3f}  "
                    f"band {b.low:.3f} to {b.high:.3f}{'' if good else '  OUTSIDE'}"
                )
        report(
            f"plan: {task}, {name}, {where}",
            np.mean(inside),
            "share of runs in the band",
            aim=0.6,
            peer="planner",
            command=f"python benchmarks/planning.py --tasks {task}",
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fit", action="store_true")
    parser.add_argument("--quick", action="store_true", help="4 planes, 2 budgets, no Adult")
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--tasks", nargs="*", type=Task, default=list(NAMES))
    parser.add_argument("--data", help="folder with adult.data.gz (default: UNISONO_DATA)")
    sys.exit(main(parsed(parser, smoke)))
