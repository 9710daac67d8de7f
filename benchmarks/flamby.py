"""Two of FLamby's cross-silo tasks with differential privacy: hospitals, and survival by region.

    python benchmarks/flamby.py [--seeds 5] [--data folder] [--no-privacy]

Fed-Heart-Disease: whether 740 patients of four hospitals are ill, by logistic regression from 13
features, accuracy averaged over the hospitals' test records; beside FLamby's own private runs
(FedAvg, each hospital adds its own noise with Opacus) at the same epsilon and delta.
Fed-TCGA-BRCA: survival of 1,088 patients of six regions by a linear risk score, concordance on
all test records; beside FLamby's FedAvg without privacy, as no private figure was published.
Splits are those of FLamby (du Terrail et al. 2022); its figures are the means over the five seeds
of the result files in its repository. What we scale by is public: no hospital's own means.

The unit is one patient, relation replace-one, a secure sum of all parties, none of which colludes.

Data, in the folder of --data or UNISONO_DATA: `processed.cleveland.data`, `.hungarian.data`,
`.switzerland.data` and `.va.data` of UCI's heart disease archive (CC BY 4.0); `brca.csv` and
`train_test_split.csv` of flamby/datasets/fed_tcga_brca in FLamby's repository.
"""

import argparse
import csv
import sys
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.nn import softplus

import figures
from datasets import MissingData, data_folder
from unisono.engines import compilation_cache
from unisono.estimators import PrivateLogisticRegression
from unisono.training import train

SCORECARD = figures.Benchmark(quick=("--seeds", "2"))

DELTA = 1e-4
# Accuracy at delta 1e-4, flamby/dp_example/results_fed_heart_disease.csv; without privacy .7125.
HEART = {1.0: 0.6853, 5.0: 0.7036, 10.0: 0.7004}
BRCA = 0.7353  # FedAvg without privacy, flamby/results/results_benchmark_fed_tcga_brca
BRCA_EPSILONS = (1.0, 3.0, 10.0)
ROUNDS, LEARNING_RATE, CLIP = 60, 0.4, 1.0
UCI = "the four processed.*.data files of archive.ics.uci.edu/dataset/45/heart+disease"
TCGA = "brca.csv and train_test_split.csv of flamby/datasets/fed_tcga_brca in owkin/FLamby"


class Federated(NamedTuple):
    """Records of several parties: features (n, d), targets, the party of each, training or not."""

    rows: np.ndarray
    targets: np.ndarray
    party: np.ndarray
    train: np.ndarray


# --------------------------------------------------------------------- hospitals

HOSPITALS = ("cleveland", "hungarian", "switzerland", "va")
# Age, sex, resting blood pressure, cholesterol, fasting sugar, largest heart rate, angina and ST
# depression, in wide ranges known beforehand; then three kinds of pain and two of the curve.
LOW = np.array([20.0, 0, 80, 0, 0, 60, 0, -3] + [0] * 5)
HIGH = np.array([80.0, 1, 200, 600, 1, 210, 1, 7] + [1] * 5)


def heart(folder: Path) -> Federated:
    """As FLamby prepares them: ten columns, complete records only, two of them as indicators."""
    from sklearn.model_selection import train_test_split

    found = []
    for number, hospital in enumerate(HOSPITALS):
        path = folder / f"processed.{hospital}.data"
        if not path.exists():
            raise MissingData(f"{path.name} is not there: {UCI}")
        with path.open() as file:
            lines = [line[:10] + line[13:] for line in csv.reader(file) if line]
        table = np.array([line for line in lines if "?" not in line], float)
        ill = table[:, -1] > 0
        several = min(np.sum(ill), np.sum(~ill)) > 2
        chosen, _ = train_test_split(
            np.arange(len(table)),
            train_size=0.66,
            test_size=1 - 0.66,
            random_state=43,
            stratify=ill if several else None,
        )
        plain = table[:, [0, 1, 3, 4, 5, 7, 8, 9]]
        pain = table[:, 2:3] == np.array([2, 3, 4])
        curve = table[:, 6:7] == np.array([1, 2])
        rows = np.concatenate([plain, pain, curve], axis=1)
        train = np.isin(np.arange(len(table)), chosen)
        found.append(Federated(rows, ill.astype(int), np.full(len(table), number), train))
    return Federated(*(np.concatenate(parts) for parts in zip(*found, strict=True)))


def over_hospitals(data: Federated, right: np.ndarray) -> float:
    """The mean over parties of how many of each one's test records are right."""
    return float(np.mean([right[data.party[~data.train] == j].mean() for j in range(4)]))


def diagnosed(data: Federated, epsilon: float, seed: int) -> float:
    train = data.train
    model = PrivateLogisticRegression(
        epsilon,
        DELTA,
        bounds=np.stack([LOW, HIGH]),
        classes=(0, 1),
        relation="replace-one",
        minimum_parties=len(HOSPITALS),
        colluders=0,
        random_state=seed,
    )
    model.fit(data.rows[train], data.targets[train], parties=data.party[train])
    return over_hospitals(data, model.predict(data.rows[~train]) == data.targets[~train])


def hospitals(folder: Path, seeds: int, bare: bool) -> None:
    try:
        data = heart(folder)
    except MissingData as reason:
        print(f"Fed-Heart-Disease skipped: {reason}")
        for epsilon, aim in HEART.items():
            figures.unmeasured(_heart(epsilon), f"data missing; get {UCI}", aim=aim, peer="FLamby")
        return
    print(f"Fed-Heart-Disease, {data.train.sum()} training records of 4 hospitals, delta {DELTA:g}")
    for epsilon, aim in HEART.items():
        each = [diagnosed(data, epsilon, seed) for seed in range(seeds)]
        told(_heart(epsilon), each, aim, "accuracy")
    if bare:
        from sklearn.linear_model import LogisticRegression

        rows, train = (data.rows - LOW) / (HIGH - LOW), data.train
        model = LogisticRegression(C=10.0, max_iter=1000).fit(rows[train], data.targets[train])
        right = model.predict(rows[~train]) == data.targets[~train]
        print(f"  without privacy, pooled: {over_hospitals(data, right):.4f}")


def _heart(epsilon: float) -> str:
    return f"Fed-Heart-Disease, accuracy at epsilon {epsilon:g}"


# --------------------------------------------------------------------- survival

REGIONS = 6
YEARS = np.array([1.0, 2, 3, 4, 5, 6, 8, 10])  # the ends of intervals, chosen beforehand


def brca(folder: Path) -> Federated:
    """Age in centuries and 38 indicators; targets are the event and the years until it."""
    for name in ("brca.csv", "train_test_split.csv"):
        if not (folder / name).exists():
            raise MissingData(f"{name} is not there: {TCGA}")
    with (folder / "train_test_split.csv").open() as file:
        folds = {line["pid"]: line["fold2"].split("_") for line in csv.DictReader(file)}
    with (folder / "brca.csv").open() as file:
        lines = [line for line in list(csv.reader(file))[1:] if line[0] in folds]
    table = np.array([line[1:] for line in lines], np.float32)
    table[:, 0] /= 100
    table[:, -1] /= 365.25
    fold = [folds[line[0]] for line in lines]
    train = np.array([kind == "train" for kind, _ in fold])
    return Federated(table[:, :39], table[:, 39:], np.array([int(j) for _, j in fold]), train)


def hazard_loss(parameters: Any, record: Any) -> Any:
    """Discrete proportional hazards: one logistic regression for each interval survived so far.

    With the log-odds b_k + w·x of dying in interval k among those alive (Brown 1975), a record that
    is seen until interval K loses Σ_{k<K} log(1 + e^{b_k + w·x}), and its event -(b_K + w·x) +
    log(1 + e^{b_K + w·x}). Unlike Cox's, the loss is a sum over records (Andreux et al. 2020).
    """
    row, (event, years) = record[0], record[1]
    odds = parameters["intervals"] + row @ parameters["risk"]
    ends = jnp.asarray(YEARS, jnp.float32)
    survived = jnp.sum(jnp.where(years >= ends, softplus(odds), 0.0))
    starts = jnp.concatenate([jnp.zeros(1), ends[:-1]])
    here = (years >= starts) & (years < ends) & (event > 0)
    return survived + jnp.sum(jnp.where(here, softplus(-odds), 0.0))


def concordance(score: np.ndarray, event: np.ndarray, years: np.ndarray) -> float:
    """Harrell's C: of pairs whose order is known, how many have the higher risk die first."""
    known = (years[:, None] < years[None, :]) & (event[:, None] > 0)
    known |= (years[:, None] == years[None, :]) & (event[:, None] > 0) & (event[None, :] == 0)
    higher = np.sign(score[:, None] - score[None, :])
    return float(np.sum((higher + 1)[known]) / (2 * np.sum(known)))


def followed(data: Federated, epsilon: float, seed: int, rounds: int = ROUNDS) -> float:
    training, width = data.train, data.rows.shape[1]
    first = {"risk": np.zeros(width, np.float32), "intervals": np.full(len(YEARS), -4, np.float32)}
    own = [training & (data.party == j) for j in range(1 + int(data.party.max()))]
    found = train(
        hazard_loss,
        [(data.rows[some], data.targets[some]) for some in own],
        parameters=first,
        epsilon=epsilon,
        delta=DELTA,
        rate=1.0,
        rounds=rounds,
        clipping=CLIP,
        learning_rate=LEARNING_RATE,
        relation="replace-one",
        trust="secure-sum" if len(own) > 1 else None,
        minimum_parties=len(own),
        colluders=0,
        seed=seed,
        progress=False,
    )
    score = data.rows[~training] @ np.asarray(found.parameters["risk"])
    return concordance(score, *data.targets[~training].T)


def survival(folder: Path, seeds: int, bare: bool) -> None:
    try:
        data = brca(folder)
    except MissingData as reason:
        print(f"Fed-TCGA-BRCA skipped: {reason}")
        for epsilon in BRCA_EPSILONS:
            figures.unmeasured(_brca(epsilon), f"data missing; get {TCGA}", aim=BRCA, peer="FLamby")
        return
    print(f"Fed-TCGA-BRCA, {data.train.sum()} training records of 6 regions, delta {DELTA:g}")
    for epsilon in (*BRCA_EPSILONS, *((1e4,) if bare else ())):
        each = [followed(data, epsilon, seed) for seed in range(seeds)]
        told(_brca(epsilon), each, BRCA if epsilon in BRCA_EPSILONS else None, "concordance")


def _brca(epsilon: float) -> str:
    return f"Fed-TCGA-BRCA, concordance at epsilon {epsilon:g}; FLamby's FedAvg without privacy"


# --------------------------------------------------------------------- both


def told(name: str, each: list[float], aim: float | None, unit: str) -> None:
    mean, spread = float(np.mean(each)), float(np.std(each))
    print(f"  {name}: {mean:.4f} ± {spread:.4f} ({len(each)} seeds; FLamby {aim})", flush=True)
    if aim is not None:
        figures.report(name, mean, unit, aim=aim, peer="FLamby", theirs=aim, measure=unit)


def smoke() -> dict[str, float]:
    """Two rounds of the hazard model on noise, and a concordance that is known."""
    generator = np.random.default_rng(0)
    rows, years = generator.random((40, 3)).astype(np.float32), generator.random(40) * 12
    targets = np.stack([generator.random(40) < 0.5, years], axis=1).astype(np.float32)
    data = Federated(rows, targets, np.zeros(40, int), np.arange(40) < 30)
    ordered = concordance(-years, np.ones(40), years)
    return {"concordance": followed(data, 5.0, 0, rounds=2), "of the best score": ordered}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--data", help="folder of the files named above (default: UNISONO_DATA)")
    parser.add_argument("--no-privacy", action="store_true", help="also what privacy costs")
    arguments = figures.options(parser, smoke)
    compilation_cache.enable()
    # Seeds make every run a simulation, and some blood pressures lie outside the public range.
    warnings.simplefilter("ignore", UserWarning)
    folder = data_folder(arguments.data)
    hospitals(folder, arguments.seeds, arguments.no_privacy)
    survival(folder, arguments.seeds, arguments.no_privacy)
    return 0


if __name__ == "__main__":
    sys.exit(main())
