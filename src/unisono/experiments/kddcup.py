"""KDDCup99 over many parties: the comparison of Jayaraman et al. (2018), with noise that is right.

Task: normal or attack. 50,000 records of the 10 % file to train on and 20,000 to test on, dealt to
1,000 parties in turn, as in the paper that Chen 2019 presents. J is the mean logistic loss of all
training records + (λ/2)||θ||², λ = 1e-3, 122 features, rows in the unit ball, scaled by public
constants. Replace-one, ε = 0.5, δ = 1/n² (the paper's own code takes 1e-3, which protects
nobody among 50,000 records).

    gap         J(θ) - J(θ*), θ* the exact minimiser over all training records
    lost        test accuracy of θ* minus that of θ
    true eps    what the accountant charges: at delta 0 for Laplace and norm noise, else at delta

All methods run through the engine with ledgers in memory. The secure sum keeps all parties and
holds against the server and one colluding party. The data are public, and read from the folder
that UNISONO_DATA names.
"""

import math
from typing import Any, NamedTuple

import jax
import numpy as np

from unisono.accounting.accountant import ACCOUNTANT
from unisono.algorithms.choose import choose
from unisono.algorithms.gradient_perturbation import GRADIENT_PERTURBATION
from unisono.algorithms.output_perturbation import OUTPUT_PERTURBATION
from unisono.core.algorithm import Facts
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.privacy import Privacy
from unisono.core.study import Party, Study
from unisono.core.trust import FINAL_MODEL, SERVER, Relation, Trust, Viewer
from unisono.core.values import Private
from unisono.engines import in_process
from unisono.experiments import datasets
from unisono.experiments.datasets import TRAIN, Split
from unisono.experiments.findings import ExpectedNumber, Findings
from unisono.problems.linear import LinearLoss
from unisono.problems.losses import loss_named
from unisono.releases import solver
from unisono.releases.algorithm import Method

LAMBDA = 1e-3
# 1/n²; and, to show what delta buys in one release, half the largest that is not absurd (1/n).
DELTA, LOOSE_DELTA = 1 / TRAIN**2, 1e-5
LOSS = loss_named("logistic")


class KddLine(NamedTuple):
    """A line of the table; `alone` takes the first party's records only."""

    name: str
    method: Method | None
    trust: Trust
    pure: bool = False
    private: bool = True
    alone: bool = False
    delta: float = DELTA


def objective(parameters: np.ndarray, split: Split) -> float:
    """J over all training records."""
    margins = split.train_labels * (split.train @ parameters)
    return float(np.logaddexp(0.0, -margins).mean() + LAMBDA / 2 * parameters @ parameters)


def accuracy(parameters: np.ndarray, split: Split) -> float:
    return float(np.mean(np.where(split.test @ parameters >= 0, 1, -1) == split.test_labels))


def minimisers(features: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Exact minimisers (parties, p) of features (parties, n, p): no privacy."""
    count, p = features.shape[1:]

    def one(rows: Any, marks: Any) -> Any:
        keep = np.ones(count, bool)
        return solver.minimise(LOSS, rows, marks, keep, float(count), LAMBDA, (p,), 1e-9).parameters

    with jax.enable_x64(True):
        return np.asarray(jax.jit(jax.vmap(one))(features, labels))


def lines(epsilon: float) -> list[KddLine]:
    """Everything compared; step sizes and rounds follow from public numbers."""
    problem, privacy = LinearLoss("logistic"), Privacy(epsilon, DELTA)

    def output(delta: float, published: bool = False) -> Method:
        promise = Privacy(epsilon, delta)
        return OUTPUT_PERTURBATION.method(
            problem, promise, regularisation=LAMBDA, published=published
        )

    pure, approximate, loose = output(0.0), output(DELTA), output(LOOSE_DELTA)
    published = output(0.0, published=True)
    # The paper's descent, step 1 / smoothness; and the rule that the estimators use.
    plain = GRADIENT_PERTURBATION.method(
        problem,
        privacy,
        rounds=100,
        clipping_norm=1.0,
        learning_rate=4.0,
        momentum=0.0,
        average_last=0.0,
        regularisation=LAMBDA,
    )
    chosen = choose(problem, privacy, regularisation=LAMBDA).method
    local, secure = Trust.LOCAL, Trust.SECURE_SUM
    return [
        KddLine("one party alone, output, pure", pure, local, pure=True, alone=True),
        KddLine("averaging, one party's noise (Pathak)", None, secure, pure=True, private=False),
        KddLine("averaging local noisy models, pure", pure, local, pure=True),
        KddLine("averaging local noisy models, Gaussian", approximate, local),
        KddLine("local gradient, 100 rounds", plain, local),
        KddLine("local gradient, shipped rule", chosen, local),
        KddLine("secure output, as published", published, secure, pure=True, private=False),
        KddLine("secure output, pure (Laplace shares)", pure, secure, pure=True),
        KddLine("secure output, pure (norm, one place)", pure, Trust.TRUSTED_SERVER, pure=True),
        KddLine("secure output, Gaussian", approximate, secure),
        KddLine(
            f"secure output, Gaussian, delta {LOOSE_DELTA:g}", loose, secure, delta=LOOSE_DELTA
        ),
        KddLine("secure gradient, 100 rounds", plain, secure),
        KddLine("secure gradient, shipped rule", chosen, secure),
    ]


def deal(split: Split, parties: int) -> tuple[np.ndarray, np.ndarray]:
    """Features (parties, n, p) and labels (parties, n): records in turn."""
    size = TRAIN // parties
    order = np.arange(size * parties).reshape(size, parties).T
    return split.train[order], split.train_labels[order]


def learn(line: KddLine, facts: Facts, dealt: Any, allowed: float, seed: int) -> np.ndarray:
    """The parameters that one run releases."""
    features, labels = dealt
    assert line.method is not None
    if line.alone:
        facts = Facts(facts.records[:1], facts.features, 1)
    study = Study(line.method, facts, line.trust)
    # Ledgers allow what the method claims; the published noise costs more, and they must allow it.
    budget = Budget(allowed * (1 + 1e-6), 0.0 if line.pure else line.delta)
    trusted: tuple[tuple[Viewer, Budget], ...] = ()
    if line.trust is Trust.TRUSTED_SERVER:
        # A trusted server's seeded noise follows from the study alone: take fresh entropy.
        trusted = tuple((v, Budget(math.inf)) for v in (SERVER, Viewer.colluders(1)))
    parties = [
        Party(
            f"party{j}",
            Private((features[j], labels[j])),
            Ledger.in_memory(
                Policy(f"party{j}", budget, exceptions=trusted),
                ACCOUNTANT,
                seed=None if trusted else 1_000_003 * seed + j,
            ),
        )
        for j in range(facts.parties)
    ]
    return np.asarray(in_process.run(study, parties).value, float)


def charged(line: KddLine, facts: Facts) -> float:
    """The accountant's epsilon for whoever sees the model."""
    assert line.method is not None
    if line.alone:
        facts = Facts(facts.records[:1], facts.features, 1)
    cost = Study(line.method, facts, line.trust).cost[FINAL_MODEL]
    return ACCOUNTANT.epsilon(cost, Relation.REPLACE_ONE, 0.0 if line.pure else line.delta)


class KddOutcome(NamedTuple):
    """Gaps of J and lost accuracies over seeds, and the epsilon that is really paid."""

    line: KddLine
    gaps: list[float]
    lost: list[float]
    true_epsilon: float


class Baselines(NamedTuple):
    """Without privacy: J and accuracy of the exact minimiser, and of the average of exact local
    models; `average` are that average's parameters."""

    lowest: float
    top: float
    average: np.ndarray


def baselines(split: Split, dealt: Any) -> Baselines:
    """What there is to reach."""
    best = minimisers(split.train[None], split.train_labels[None])[0]
    return Baselines(objective(best, split), accuracy(best, split), minimisers(*dealt).mean(axis=0))


def outcome(
    line: KddLine, split: Split, dealt: Any, base: Baselines, epsilon: float, seeds: int
) -> KddOutcome:
    """One line of the table, over seeds."""
    parties, size, p = dealt[0].shape
    facts = Facts((size,) * parties, p, parties, colluders=1)
    gaps, lost, truth = [], [], math.sqrt(p) * epsilon
    for seed in range(seeds):
        if line.method is None:  # Pathak et al. 2010: one party's noise on the average
            noise = np.random.default_rng(seed).laplace(0, 2 / (size * LAMBDA * epsilon), p)
            found = base.average + noise
        else:
            truth = charged(line, facts)
            found = learn(line, facts, dealt, epsilon if line.private else truth, seed)
        gaps.append(objective(found, split) - base.lowest)
        lost.append(base.top - accuracy(found, split))
    return KddOutcome(line, gaps, lost, truth)


# ------------------------------------------------------------- findings

PARTIES, EPSILON, GOAL = 1_000, 0.5, 6e-3
_PUBLISHED, _BEST = "secure output, as published", "secure gradient, shipped rule"
_QUICK = (
    "averaging, one party's noise (Pathak)",
    "averaging local noisy models, Gaussian",
    "local gradient, shipped rule",
    _PUBLISHED,
    "secure output, Gaussian",
    _BEST,
)


def check() -> None:
    """Refuse where the file is missing, before anything runs."""
    datasets.require(datasets.data_folder(), datasets.KDDCUP_FILE)


def run(quick: bool) -> Findings:
    """Quick: six of thirteen methods, 100 parties, one seed. Full: 1,000 parties, three seeds."""
    split = datasets.kddcup(datasets.data_folder())
    parties, seeds = (100, 1) if quick else (PARTIES, 3)
    dealt = deal(split, parties)
    base = baselines(split, dealt)
    wanted = [line for line in lines(EPSILON) if not quick or line.name in _QUICK]
    found = {line.name: outcome(line, split, dealt, base, EPSILON, seeds) for line in wanted}
    gap = {name: float(np.mean(one.gaps)) for name, one in found.items()}
    root = math.sqrt(dealt[0].shape[2])
    private = [one for one in found.values() if one.line.private]
    best = min(private, key=lambda one: float(np.mean(one.gaps)))
    zero = objective(np.zeros(dealt[0].shape[2]), split)
    numbers = (
        ExpectedNumber("test accuracy without privacy", base.top, 0.985, 1.0),
        ExpectedNumber(
            "gap of secure gradient perturbation",
            gap[_BEST],
            0,
            GOAL,
            "the shipped rule, whose goal is 6e-3",
        ),
        ExpectedNumber(
            "accuracy lost by secure gradient perturbation",
            float(np.mean(found[_BEST].lost)),
            -0.005,
            0.02,
        ),
        ExpectedNumber(
            "local over secure gradient perturbation, gap",
            gap["local gradient, shipped rule"] / gap[_BEST],
            1.5,
            math.inf,
            "what the secure sum is worth",
        ),
        ExpectedNumber(
            "true over claimed epsilon of output perturbation as published",
            found[_PUBLISHED].true_epsilon / EPSILON,
            0.99 * root,
            1.01 * root,
            "√122: Laplace noise beside an L2 sensitivity",
        ),
        ExpectedNumber(
            "largest true over claimed epsilon of the others",
            max(one.true_epsilon for one in private) / EPSILON,
            0.9,
            1 + 1e-6,
        ),
    )
    remarks = (
        f"{parties:,} parties of {dealt[0].shape[1]} records, ε = {EPSILON:g}, δ = {DELTA:.0e}; "
        f"predicting zero has a gap of {zero - base.lowest:.2f}, the average of exact local models "
        f"without noise one of {objective(base.average, split) - base.lowest:.1e}.",
        f"Output perturbation as published has a gap of {gap[_PUBLISHED]:.1e}, but at a true ε of "
        f"{found[_PUBLISHED].true_epsilon:.1f}: the figures of the paper compare different "
        "promises.",
        f"Of the methods that keep their promise, {best.line.name} has the smallest gap: "
        f"{np.mean(best.gaps):.1e}, {100 * float(np.mean(best.lost)):.2f} points of accuracy below "
        "no privacy.",
    )
    return Findings(
        "kddcup",
        f"KDDCup99 over {parties:,} parties, ε = {EPSILON:g}",
        "Chen 2019, after Jayaraman et al. 2018",
        numbers,
        remarks,
        lambda figure: draw(figure, list(found.values())),
        (10.0, 5.0),
    )


def draw(figure: Any, found: list[KddOutcome]) -> None:
    """Gaps of all methods, those that do not keep their promise in another colour."""
    axes = figure.subplots()
    names = [one.line.name for one in found][::-1]
    means = [float(np.mean(one.gaps)) for one in found][::-1]
    colours = [
        "C3" if not one.line.private else "C0" if one.line.name.startswith("secure") else "grey"
        for one in found
    ][::-1]
    axes.barh(names, means, color=colours, alpha=0.7)
    for row, one in enumerate(reversed(found)):
        axes.plot(one.gaps, [row] * len(one.gaps), "k|", markersize=8)
        words = f"{means[row]:.2g}, true ε {one.true_epsilon:.2g}"
        axes.annotate(words, (max(one.gaps), row), (6, 0), textcoords="offset points", va="center")
    axes.axvline(GOAL, color="C2", linestyle=":", label=f"goal {GOAL:g}")
    axes.set(xscale="log", xlabel="gap J(θ) - J(θ*), lower is better")
    axes.set_xlim(right=30 * max(means))
    labels = {
        "C0": "secure sum",
        "C6": "each party adds its own noise",
        "C3": "not private as told",
    }
    for colour, label in labels.items():
        axes.plot([], [], "s", color=colour, alpha=0.7, label=label)
    axes.legend(loc="lower right")
