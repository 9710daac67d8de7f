"""How often reality falls into the band that `unisono plan` predicts.

    python benchmarks/planning.py [--quick] [--tasks ...] [--data folder] [--runs file]
    python benchmarks/planning.py --fit [--tasks ...]                     constants of the laws
"""

import argparse
import functools
import json
import math
import sys
import warnings
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

from datasets import MissingData, data_folder
from figures import Benchmark, report
from figures import options as parsed
from planning_tables import REAL, SHAPES, Table, dealt, plane
from unisono.accounting.accountant import ACCOUNTANT
from unisono.cli.plan_studies import PlanRequest, automatic, candidate, document, prediction, request_of
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.study import Party
from unisono.core.trust import SERVER, Relation, Trust
from unisono.core.values import Private
from unisono.data.encoding import Frame
from unisono.engines import in_process
from unisono.models.fitted import features_of
from unisono.planning.noise import noise_of
from unisono.planning.tasks import Task
from unisono.studies.schema import StudyFile

MODELS = {
    Task.CLASSIFICATION: "logistic-regression",
    Task.REGRESSION: "linear-regression",
    Task.NETWORK: "network",
}
PARTY_LEVEL = "fed-avg"


class Case(NamedTuple):
    table: Table
    sizes: tuple[int, ...]
    trust: Trust
    epsilon: float
    seed: int
    relation: Relation = Relation.REPLACE_ONE


def study_file(task: Task, case: Case) -> StudyFile:
    said = {
        "title": f"{case.table.name}",
        "data": {"target": case.table.target, "columns": dict(case.table.columns)},
        "parties": [
            {"name": f"party-{n}", "records": size} for n, size in enumerate(case.sizes, start=1)
        ],
        "privacy": {"epsilon": case.epsilon, "delta": 1e-6, "relation": str(case.relation)},
        "trust": {"mode": str(case.trust)},
        "model": {"name": MODELS[task]},
        "algorithm": {"name": "auto"},
    }
    if task is Task.NETWORK:
        said["model"]["hidden"] = [64]
    return StudyFile.model_validate_json(json.dumps(said))


_PLAIN: dict[Any, tuple[float, float]] = {}


def without_privacy(task: Task, table: Table, frame: Frame, key: Any) -> tuple[float, float]:
    """Accuracy or R² of the same kind of model without privacy, and of one that knows nothing."""
    if (task, key) in _PLAIN:
        return _PLAIN[task, key]
    rows, fresh = (frame.rows(part) for part in (table.train, table.test))
    labels, truth = table.train[table.target], table.test[table.target]
    scaler = StandardScaler().fit(rows)
    rows, fresh = scaler.transform(rows), scaler.transform(fresh)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not table.classes:
            found = float(Ridge(1.0).fit(rows, labels).score(fresh, truth)), 0.0
        else:
            model = (
                MLPClassifier((64,), "tanh", max_iter=60, early_stopping=True, random_state=0)
                if task is Task.NETWORK
                else LogisticRegression(max_iter=300)
            )
            common = float(np.bincount(labels.astype(int)).argmax())
            found = float(model.fit(rows, labels).score(fresh, truth)), float(np.mean(truth == common))
    _PLAIN[task, key] = found
    return found


def run(task: Task, name: str, case: Case) -> dict[str, Any] | str:
    import time

    t0 = time.time()
    file = study_file(task, case)
    request = request_of(file)
    found = candidate(document(request, name, case.trust))
    if found.built is None:
        return found.reason
    built = found.built
    t1 = time.time()
    parts = dealt(case.sizes, case.table)

    def parties(posed: Any) -> list[Party]:
        return [_party(built, posed, part, number, case.seed) for number, part in enumerate(parts)]

    study = built.study
    if built.start is not None:
        first = in_process.run(built.start.study, parties(built.start.posed))
        study = study.begun(first.value)
    result = in_process.run(study, parties(built.posed))
    t2 = time.time()
    said = built.posed.prediction(study, result)
    guesses = said.predict(said.rows(features_of(built.file.data, said), case.table.test))
    truth = case.table.test[case.table.target]
    if case.table.classes:
        kept = float(np.mean(guesses == truth))
    else:
        kept = float(1 - np.mean((guesses - truth) ** 2) / np.var(truth))
    plain, guess = without_privacy(task, case.table, Frame(built.file.data), (case.table.name, case.table.classes, case.table.records, case.seed))
    noise = noise_of(built.study)
    from unisono.algorithms.regression_choice import predicted_loss

    try:
        eq = predicted_loss(built.study)
    except Exception as e:
        eq = math.nan
    return dict(
        task=str(task), name=name, table=case.table.name, trust=str(case.trust), epsilon=case.epsilon,
        sizes=[len(case.sizes), min(case.sizes), max(case.sizes), sum(case.sizes)],
        K=case.table.classes, columns=len(case.table.columns) - 1, d=len(Frame(built.file.data).names),
        total=noise.total, ratio=noise.ratio, numbers=noise.numbers, rounds=noise.rounds,
        ms=Frame(built.file.data).mean_square, eq=eq,
        kept=kept, plain=plain, guess=guess, tests=len(truth), t=[t1 - t0, t2 - t1, time.time() - t2],
    )


def _party(built: Any, posed: Any, values: Any, number: int, seed: int) -> Party:
    columns = posed.encode(values)
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


# ------------------------------------------------------------- cases

DEVELOPMENT = ("breast_cancer", "digits")
HELD_BACK = {
    Task.CLASSIFICATION: (
        *("iris", "wine", "adult", "kddcup", "spambase"),
        *("magic", "mushroom", "penbased", "churn"),
    ),
    Task.REGRESSION: ("diabetes", "diamonds", "cps1988", "wage", "ames"),
    Task.NETWORK: ("adult", "magic", "penbased", "churn"),
}
# Algorithms, and on how many planes each law is fitted.
ALGORITHMS = {
    Task.CLASSIFICATION: {
        "preconditioned-gradients": 36,
        "gradient-perturbation": 30,
        "dp-sgd-convex": 18,
        "output-perturbation": 18,
        "sgd-synchronous": 18,
        "fed-avg": 12,
    },
    Task.REGRESSION: {
        "fisher-scoring": 16,
        "adaptive-statistics": 12,
        "gradient-perturbation": 12,
        "output-perturbation": 10,
        "dp-sgd-convex": 10,
        "sgd-synchronous": 10,
        "fed-avg": 8,
    },
    Task.NETWORK: {"dp-sgd": 8, "dp-ftrl": 4, "local-dp-sgd": 4, "fed-avg": 4},
}
EPSILONS = (0.5, 2.0, 8.0)
# Shares of the parties, and who adds noise.
LAYOUTS = (
    ((1 / 3,) * 3, Trust.SECURE_SUM),
    ((0.1,) * 10, Trust.LOCAL),
    ((0.55, 0.25, 0.12, 0.06, 0.02), Trust.SECURE_SUM),
    ((0.7, 0.2, 0.08, 0.02), Trust.TRUSTED_SERVER),
)
_RANKS = tuple(1 / (10 + place) for place in range(60))
# To hide whole parties takes many of them.
CROWDS = (
    ((1 / 50,) * 50, Trust.SECURE_SUM),
    ((1 / 200,) * 200, Trust.TRUSTED_SERVER),
    (tuple(rank / sum(_RANKS) for rank in _RANKS), Trust.SECURE_SUM),
    ((1 / 100,) * 100, Trust.LOCAL),
)
_LEAST = 4  # records of a party


def case_of(
    table: Table, name: str, layout: int, epsilon: float, seed: int
) -> Case | None:
    """A table over the parties of a layout; none where somebody would have next to nothing."""
    whole = name == PARTY_LEVEL
    shares, trust = (CROWDS if whole else LAYOUTS)[layout % 4]
    sizes = tuple(int(share * table.records) for share in shares)
    if name == "local-dp-sgd":
        trust = Trust.LOCAL
    if min(sizes) < (_LEAST if whole else 1):
        return None
    relation = Relation.ZERO_OUT if whole else Relation.REPLACE_ONE
    return Case(table, sizes, trust, epsilon, seed, relation)


def by_auto(task: Task, tables: Mapping[str, Table]) -> Iterator[tuple[str, str, Case]]:
    """Every table at every epsilon, over layouts in turn, by what `auto` takes."""
    for number, where in enumerate(HELD_BACK[task]):
        if where not in tables:
            continue
        for turn, epsilon in enumerate(EPSILONS[1:2] if task is Task.NETWORK else EPSILONS):
            case = case_of(tables[where], "auto", number + turn, epsilon, 0)
            if case is not None:
                found = automatic(request_of(study_file(task, case)), case.trust)
                yield f"{task} auto {where} {epsilon:g}", found.algorithm, case


def by_each(task: Task, tables: Mapping[str, Table]) -> Iterator[tuple[str, str, Case]]:
    """Every algorithm on every table, over budgets and layouts in turn."""
    for turn, name in enumerate(ALGORITHMS[task]):
        for number, where in enumerate(HELD_BACK[task]):
            if where in tables:
                epsilon = EPSILONS[(turn + number) % 3]
                case = case_of(tables[where], name, turn + 2 * number + 1, epsilon, 1)
                if case is not None:
                    yield f"{task} {name} {where} {epsilon:g}", name, case


def development(task: Task, name: str, tables: Mapping[str, Table]) -> Iterator[tuple[str, str, Case]]:
    """Planes of every shape with sizes, budgets and parties at random, and two real tables."""
    for seed in range(ALGORITHMS[task][name]):
        random = np.random.default_rng([seed, zlib.crc32(f"{task} {name}".encode())])
        whole = name == PARTY_LEVEL
        layout, epsilon = int(random.integers(4)), float(random.choice([0.3, 1.0, 3.0, 8.0]))
        records = int(np.exp(random.uniform(np.log(1500 if whole else 150), np.log(10_000))))
        classes = 0 if task is Task.REGRESSION else int(random.choice([2, 2, 4]))
        features = int(random.choice([3, 6, 12, 25]))
        bend = 0.5 if task is Task.NETWORK else 0.0
        shape = SHAPES[seed % len(SHAPES)]
        table = plane(zlib.crc32(f"{name} {seed}".encode()), shape, records, features, classes, bend)
        found = case_of(table, name, layout, epsilon, seed)
        if found is not None:
            yield f"{task} {name} plane {seed}", name, found
    if task is not Task.REGRESSION:
        turn = list(ALGORITHMS[task]).index(name)
        for number, where in enumerate(DEVELOPMENT if task is Task.CLASSIFICATION else ("digits",)):
            for k, epsilon in enumerate(EPSILONS):
                found = case_of(tables[where], name, turn + number + k, epsilon, 0)
                if found is not None:
                    yield f"{task} {name} {where} {epsilon:g}", name, found
