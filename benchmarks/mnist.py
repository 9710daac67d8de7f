"""MNIST with differential privacy: accuracy over epsilon, and over one or many parties.

    python benchmarks/mnist.py [--seeds 3] [--full] [--picture FILE] [--data folder]
    python benchmarks/mnist.py --federated       the same records at 1, 10 and 100 parties
    python benchmarks/mnist.py --network         a network on raw pixels, for comparison

Multinomial logistic regression without intercept on scattering features: wavelets of four (with
`--full` eight) directions, normalised by groups within each record, each row divided by its own
norm. Features are a public function of one record, so nothing is spent on them. Learned by DP-SGD:
each record takes part with probability 1/16 (its own secret coin), gradients are clipped to 0.1.

Unit one record, add-or-remove, Gaussian noise, delta = 1e-5. The epsilon printed is what the run's
certificate claims against whoever sees every iterate, and against another party, who knows its own
share of the noise. Seeds make the noise, and so the run, a simulation.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import figures
from datasets import MissingData, PublicDataset, data_folder, mnist
from unisono.accounting.accountant import ACCOUNTANT
from unisono.algorithms.dp_sgd import DP_SGD
from unisono.core.algorithm import Facts
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.privacy import Privacy
from unisono.core.study import Party, Study
from unisono.core.trust import ITERATES, PARTY, Relation, Trust
from unisono.core.values import Private
from unisono.engines import compilation_cache, in_process
from unisono.problems.networks import Network, mlp
from unisono.problems.record_loss import RecordLoss
from unisono.problems.scattering import group_normalised, scattering
from unisono.releases.algorithm import Method
from unisono.releases.blocked_sum import Clipping

SCORECARD = figures.Benchmark(quick=None, full=("--full",), seconds=5400)

DELTA, CLASSES, SIDE, HELD = 1e-5, 10, 28, 10_000
AIMS = {1.0: 95.0, 3.0: 98.7, 8.0: 98.0}
# Tramèr and Boneh 2021 also have 69.3 % on CIFAR-10.
CIFAR = (
    "no benchmark yet, and the data are missing: cifar-10-python.tar.gz of "
    "www.cs.toronto.edu/~kriz/cifar.html; its 15,552 features of 50,000 images take 3.1 GB"
)
# Published, not measured here: (epsilon, accuracy in percent) at delta 1e-5.
PUBLISHED = {
    "Opacus (convolutional network)": ((1.16, 94.9), (2.9, 96.8), (6.9, 97.1)),
    "Tramèr and Boneh 2021 (scattering)": ((2.93, 98.7),),
}


class Recipe(NamedTuple):
    """What is chosen before a run; the defaults are for scattering features."""

    epsilon: float
    rounds: int
    learning_rate: float
    rate: float = 1 / 16
    clip: float = 0.1


# Those of 0.5, 2 and 5 lie between the others and were not tuned.
RECIPES = {
    0.5: Recipe(0.5, 80, 200.0),
    1.0: Recipe(1.0, 160, 200.0),
    2.0: Recipe(2.0, 240, 200.0),
    3.0: Recipe(3.0, 320, 200.0),
    5.0: Recipe(5.0, 480, 250.0),
    8.0: Recipe(8.0, 640, 300.0),
}
# The best of eight recipes of 400 to 3,200 rounds on 10,000 held-out training records with eight
# directions (98.55 %; 98.29 % with 400 rounds and 2000): many short steps, as the noise of a step
# grows slower than their number. Rates of 1/8, and rows less their released mean, were no better
# within a standard error (0.12) with 400.
FULL = RECIPES | {3.0: Recipe(3.0, 1600, 500.0, clip=0.02)}
# The best of eight recipes (tanh or relu) on 10,000 held-out training records.
PIXELS = Recipe(3.0, 240, 2.0, rate=1 / 8, clip=1.0)
PIXEL_NETWORK = mlp(SIDE**2, (256,), CLASSES, "tanh")


class Outcome(NamedTuple):
    """Accuracy of one run in percent, what its certificate claims, and what it took."""

    accuracy: float
    epsilon: float
    fellow: float
    wall: float
    processor: float


# --------------------------------------------------------------------- features and model


def waves(data: PublicDataset, full: bool) -> PublicDataset:
    """Scattering features of each image on its own, as rows of length one."""

    def rows(pixels: np.ndarray) -> np.ndarray:
        angles, groups = (8, 27) if full else (4, 5)
        features = scattering(pixels.reshape(-1, SIDE, SIDE), angles=angles)
        flat = group_normalised(features, groups).reshape(len(features), -1)
        return flat / np.maximum(np.linalg.norm(flat, axis=1, keepdims=True), 1e-12)

    train, test = rows(data.train), rows(data.test)
    bounds = np.repeat([[-1.0], [1.0]], train.shape[1], axis=1)
    return data._replace(train=train, test=test, bounds=bounds)


@lru_cache
def linear(features: int) -> Network:
    """Logistic regression without intercept, from zero."""

    def loss(weights: Any, record: Any) -> Any:
        row, label = record
        scores = row @ weights
        return jax.nn.logsumexp(scores) - scores @ jax.nn.one_hot(label.astype(jnp.int32), CLASSES)

    def init(key: Any) -> Any:
        return np.zeros((features, CLASSES), np.float32)

    return Network("logistic", init, loss, lambda weights, rows: rows @ weights, CLASSES)


# --------------------------------------------------------------------- one run


@lru_cache
def algorithm(recipe: Recipe, network: Network, features: int) -> Method:
    record = (np.zeros(features, np.float32), np.float32(0))
    return DP_SGD.method(
        RecordLoss(network.loss, network.init(jax.random.key(0)), record),
        Privacy(recipe.epsilon, DELTA, Relation.ADD_OR_REMOVE),
        rounds=recipe.rounds,
        sampling_rate=recipe.rate,
        clipping=Clipping(bound=recipe.clip, block=512),
        learning_rate=recipe.learning_rate,
    )


def members(data: PublicDataset, epsilon: float, parties: int, seed: int) -> list[Party]:
    """The records dealt out like cards; other parties, who see less noise, are granted more."""
    found = []
    for j in range(parties):
        policy = Policy(
            f"digits-{j}",
            Budget(epsilon, DELTA),
            ((PARTY, Budget(2 * epsilon, DELTA)),),
            Relation.ADD_OR_REMOVE,
        )
        own = (data.train[j::parties], data.train_labels[j::parties].astype(np.float32))
        found.append(Party(f"{j}", Private(own), Ledger.in_memory(policy, ACCOUNTANT, seed)))
    return found


def learned(
    data: PublicDataset, recipe: Recipe, seed: int, parties: int = 1, network: Network | None = None
) -> Outcome:
    """One run: pooled at one party, or a secure sum over several that must all answer."""
    wall, processor = time.perf_counter(), time.process_time()
    records, features = data.train.shape
    network = network or linear(features)
    sizes = tuple(len(range(j, records, parties)) for j in range(parties))
    facts = Facts(sizes, features, minimum_parties=parties, colluders=0, exact_sizes=False)
    trust = Trust.SECURE_SUM if parties > 1 else Trust.LOCAL
    study = Study(algorithm(recipe, network, features), facts, trust)
    result = in_process.run(study, members(data, recipe.epsilon, parties, seed))
    wall, processor = time.perf_counter() - wall, time.process_time() - processor
    scores = np.asarray(network.predict(result.value.parameters, data.test))
    right = 100 * float(np.mean(np.argmax(scores, axis=1) == data.test_labels))
    claims = [result.certificate.epsilon(v, Relation.ADD_OR_REMOVE) for v in (ITERATES, PARTY)]
    return Outcome(right, claims[0], claims[1], wall, processor)


# --------------------------------------------------------------------- tables


def heading() -> None:
    print(
        f"{'':<30}{'epsilon':>9}{'to a party':>11}   accuracy (each seed), "
        "seconds of wall and of processor for one run"
    )


def line(title: str, outcomes: Sequence[Outcome], aim: float | None = None) -> None:
    table = np.array(outcomes)
    mean, each = table[:, 0].mean(), " ".join(f"{value:.2f}" for value in table[:, 0])
    verdict = ""
    if aim is not None:
        verdict = f"   aim {aim:g}: {'reached' if mean >= aim else 'MISSED'}"
        figures.report(f"MNIST, {title}", mean, "% accuracy", aim=aim, peer="published")
    wall, processor = table[:, 3:].mean(axis=0)
    print(
        f"{title:<30}{table[0, 1]:>9.4f}{table[0, 2]:>11.4f}   {mean:.2f} ({each})"
        f"  {wall:6.1f} {processor:6.1f}{verdict}",
        flush=True,
    )


def over_epsilon(
    data: PublicDataset, seeds: int, epsilons: Sequence[float], recipes: dict[float, Recipe]
) -> list[list[Outcome]]:
    heading()
    found = []
    for epsilon in epsilons:
        recipe = recipes[epsilon]
        found.append([learned(data, recipe, seed) for seed in range(seeds)])
        line(f"epsilon {epsilon:g}, {recipe.rounds} rounds", found[-1], AIMS.get(epsilon))
    for name, points in PUBLISHED.items():
        for epsilon, accuracy in points:
            print(f"published, not measured: {accuracy:.1f} at epsilon {epsilon:g}, {name}")
    return found


def over_parties(data: PublicDataset, seeds: int) -> None:
    heading()
    for parties in (1, 10, 100):
        title = "pooled at one party" if parties == 1 else f"{parties} parties, secure sum"
        line(title, [learned(data, RECIPES[3.0], seed, parties) for seed in range(seeds)])


def picture(found: Sequence[Sequence[Outcome]], path: str) -> None:
    """Accuracy over epsilon, the published points beside ours."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 5))
    table = np.array(found)[:, :, 0]
    ours = f"Unisono: scattering, logistic regression ({table.shape[1]} seeds)"
    axes.errorbar(
        list(RECIPES), table.mean(axis=1), yerr=table.std(axis=1), fmt="o-", capsize=3, label=ours
    )
    for mark, (name, points) in zip("s^", PUBLISHED.items(), strict=True):
        axes.plot(*zip(*points, strict=True), mark, label=f"published: {name}")
    axes.plot(list(AIMS), list(AIMS.values()), "_k", markersize=16, label="our aims")
    axes.set(
        xscale="log",
        xlabel="epsilon (delta = 1e-5, add-or-remove)",
        ylabel="test accuracy, %",
        title="MNIST with differential privacy",
    )
    axes.set_xticks(list(RECIPES), [f"{epsilon:g}" for epsilon in RECIPES])
    axes.minorticks_off()
    axes.legend(fontsize=8, loc="lower right")
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    print("picture:", path)


# --------------------------------------------------------------------- command line


def held_out(data: PublicDataset) -> PublicDataset:
    """To choose constants by: the last training records take the place of the test file."""
    rows, labels = data.train, data.train_labels
    return PublicDataset(
        "held out", rows[:-HELD], labels[:-HELD], rows[-HELD:], labels[-HELD:], data.bounds
    )


def smoke() -> dict[str, float]:
    """Two rounds of logistic regression on noise."""
    generator = np.random.default_rng(0)
    rows, labels = generator.random((128, 8)), generator.integers(0, CLASSES, 128)
    bounds = np.repeat([[0.0], [1.0]], 8, axis=1)
    data = PublicDataset("noise", rows, labels, rows, labels, bounds)
    found = learned(data, Recipe(3.0, 2, 1.0), 0)
    return {"epsilon": found.epsilon, "accuracy": found.accuracy}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--data", help="folder with the four IDX files (default: UNISONO_DATA)")
    parser.add_argument("--full", action="store_true", help="eight directions: 3,969 features")
    parser.add_argument("--federated", action="store_true")
    parser.add_argument("--network", action="store_true")
    parser.add_argument("--held-out", action="store_true", help="judge by 10,000 training records")
    parser.add_argument("--picture", metavar="FILE", help="accuracy over six epsilons")
    arguments = figures.options(parser, smoke)
    try:
        data = mnist(data_folder(arguments.data))
    except MissingData as reason:
        print(f"skipped: {reason}")
        return 0
    compilation_cache.enable()
    data = held_out(data) if arguments.held_out else data
    print(f"MNIST, {len(data.train)} training records, {len(data.test)} to judge by")
    if arguments.network:
        heading()
        runs = [learned(data, PIXELS, s, 1, PIXEL_NETWORK) for s in range(arguments.seeds)]
        line(f"raw pixels, {PIXELS.rounds} rounds", runs)
        return 0
    began = time.process_time()
    data = waves(data, arguments.full)
    print(f"{data.train.shape[1]} features, {time.process_time() - began:.0f} s of processor")
    if arguments.federated:
        over_parties(data, arguments.seeds)
        return 0
    recipes = FULL if arguments.full else RECIPES
    epsilons = list(RECIPES if arguments.picture else AIMS)
    found = over_epsilon(data, arguments.seeds, epsilons, recipes)
    figures.unmeasured("CIFAR-10, epsilon 3", CIFAR, aim=69.0, peer="published")
    if arguments.picture:
        picture(found, arguments.picture)
    return 0


if __name__ == "__main__":
    sys.exit(main())
