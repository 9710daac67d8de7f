"""KDDCup99 over 1,000 parties: the comparison of Jayaraman et al. (2018), with noise that is right.

    python benchmarks/kddcup.py [--seeds 3] [--parties 1000] [--epsilon 0.5] [--data folder]

Task: normal or attack. 70,000 records of the 10 % file drawn with a public seed, 50,000 to train
on and 20,000 to test on, dealt to the parties in turn: as in the paper. J is the mean logistic loss
of all training records + (λ/2)||θ||², λ = 1e-3, 122 features, rows projected onto the unit ball.
Features are scaled by the constants below, none of which is read from records. Replace-one,
delta = 1/n² (the paper's own code takes 1e-3: no protection among 50,000 records, E000-2).

    gap         J(θ) - J(θ*), θ* the exact minimiser over all training records
    lost        test accuracy of θ* minus that of θ
    true eps    what the accountant charges: at delta 0 for Laplace and norm noise, else at delta

All methods run through `in_process.run` with ledgers in memory. The secure sum keeps all parties
and holds against the server and one colluding party; a certificate counts that party too.
"""

import argparse
import gzip
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

import figures
import unisono
from datasets import MissingData, data_folder
from unisono.algorithms.choose import choose
from unisono.algorithms.gradient_perturbation import GRADIENT_PERTURBATION
from unisono.algorithms.output_perturbation import OUTPUT_PERTURBATION, published_laplace
from unisono.core.trust import FINAL_MODEL, SERVER, Relation, Trust, Viewer
from unisono.engines import compilation_cache, in_process
from unisono.problems.linear import LinearLoss
from unisono.problems.losses import loss_named
from unisono.releases import solver
from unisono.releases.algorithm import Method

RESULTS = Path(__file__).parent / "results"
LAMBDA = 1e-3
TRAIN, TEST, SPLIT_SEED = 50_000, 20_000, 2018
# 1/n²; and, to show what delta buys in one release, half the largest that is not absurd (1/n).
DELTA, LOOSE_DELTA = 1 / TRAIN**2, 1e-5
LOSS = loss_named("logistic")

# Public knowledge of the 41 fields (task description of KDD Cup 1999). One-hot: the protocols,
# services and connection states of its feature list. Rates lie in [0, 1]; counters of the last
# two seconds stop at 511, those of the last 255 connections at 255. What has no natural end is
# log(1 + x) / log(1 + limit), cut at 1.
_PROTOCOLS = "tcp udp icmp"
_STATES = "OTH REJ RSTO RSTOS0 RSTR S0 S1 S2 S3 SF SH"
_SERVICES = (
    "aol auth bgp courier csnet_ns ctf daytime discard domain domain_u echo eco_i ecr_i efs exec "
    "finger ftp ftp_data gopher harvest hostnames http http_2784 http_443 http_8001 imap4 IRC "
    "iso_tsap klogin kshell ldap link login mtp name netbios_dgm netbios_ns netbios_ssn netstat "
    "nnsp nntp ntp_u other pm_dump pop_2 pop_3 printer private red_i remote_job rje shell smtp "
    "sql_net ssh sunrpc supdup systat telnet tftp_u tim_i time urh_i urp_i uucp uucp_path vmnet "
    "whois X11 Z39_50"
)
_CATEGORIES = {1: _PROTOCOLS, 2: _SERVICES, 3: _STATES}
_LIMITS = {22: 511.0, 23: 511.0, 31: 255.0, 32: 255.0}
_LOGARITHMIC = {0: 86_400.0, 4: 1e9, 5: 1e9} | dict.fromkeys((7, 8, 9, 10, 12, 15, 16, 17, 18), 1e3)
_LOGARITHMIC |= {14: 2.0}


class Split(NamedTuple):
    """Rows in the unit ball (n, 122) and labels -1 (normal), +1 (attack)."""

    train: np.ndarray
    train_labels: np.ndarray
    test: np.ndarray
    test_labels: np.ndarray


class Line(NamedTuple):
    """A line of the table; `alone` takes the first party's records only."""

    name: str
    method: Method | None
    trust: Trust
    pure: bool = False
    private: bool = True
    alone: bool = False
    delta: float = DELTA


def load(folder: Path) -> Split:
    """The records, scaled and split."""
    path = folder / "kddcup.data_10_percent.gz"
    if not path.exists():
        raise MissingData(
            f"{path.name} is not in {folder}: download it from the UCI KDD archive (KDD Cup 1999) "
            "and set UNISONO_DATA to its folder"
        )
    with gzip.open(path, "rt", encoding="ascii") as file:
        lines = file.readlines()
    chosen = np.random.default_rng(SPLIT_SEED).permutation(len(lines))[: TRAIN + TEST]
    rows = [lines[i].rstrip(".\n").split(",") for i in chosen]
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    parts = []
    for index, column in enumerate(columns[:-1]):
        if index in _CATEGORIES:
            parts.append((column[:, None] == np.array(_CATEGORIES[index].split())).astype(float))
            continue
        values = column.astype(float)
        if index in _LOGARITHMIC:
            values = np.log1p(values) / math.log1p(_LOGARITHMIC[index])
        parts.append(np.clip(values / _LIMITS.get(index, 1.0), 0.0, 1.0)[:, None])
    features = np.concatenate(parts, axis=1)
    features /= np.maximum(1.0, np.linalg.norm(features, axis=1, keepdims=True))
    labels = np.where(columns[-1] == "normal", -1.0, 1.0)
    return Split(features[:TRAIN], labels[:TRAIN], features[TRAIN:], labels[TRAIN:])


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


def lines(epsilon: float) -> list[Line]:
    """Everything compared; step sizes and rounds follow from public numbers."""
    problem, privacy = LinearLoss("logistic"), unisono.Privacy(epsilon, DELTA)

    def output(delta: float) -> Method:
        promise = unisono.Privacy(epsilon, delta)
        return OUTPUT_PERTURBATION.method(problem, promise, regularisation=LAMBDA)

    pure, approximate, loose = output(0.0), output(DELTA), output(LOOSE_DELTA)
    published = published_laplace(pure)
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
        Line("one party alone, output, pure", pure, local, pure=True, alone=True),
        Line("averaging, one party's noise (Pathak)", None, secure, pure=True, private=False),
        Line("averaging local noisy models, pure", pure, local, pure=True),
        Line("averaging local noisy models, Gaussian", approximate, local),
        Line("local gradient, 100 rounds", plain, local),
        Line("local gradient, shipped rule", chosen, local),
        Line("secure output, as published", published, secure, pure=True, private=False),
        Line("secure output, pure (Laplace shares)", pure, secure, pure=True),
        Line("secure output, pure (norm, one place)", pure, Trust.TRUSTED_SERVER, pure=True),
        Line("secure output, Gaussian", approximate, secure),
        Line(f"secure output, Gaussian, delta {LOOSE_DELTA:g}", loose, secure, delta=LOOSE_DELTA),
        Line("secure gradient, 100 rounds", plain, secure),
        Line("secure gradient, shipped rule", chosen, secure),
    ]


def deal(split: Split, parties: int) -> tuple[np.ndarray, np.ndarray]:
    """Features (parties, n, p) and labels (parties, n): records in turn."""
    size = TRAIN // parties
    order = np.arange(size * parties).reshape(size, parties).T
    return split.train[order], split.train_labels[order]


def run(line: Line, facts: unisono.Facts, dealt: Any, allowed: float, seed: int) -> np.ndarray:
    """The parameters that one run releases."""
    features, labels = dealt
    assert line.method is not None
    if line.alone:
        facts = unisono.Facts(facts.records[:1], facts.features, 1)
    study = unisono.Study(line.method, facts, line.trust)
    # Ledgers allow what the method claims; the published noise costs more, and they must allow it.
    budget = unisono.Budget(allowed * (1 + 1e-6), 0.0 if line.pure else line.delta)
    trusted: tuple[tuple[Viewer, unisono.Budget], ...] = ()
    if line.trust is Trust.TRUSTED_SERVER:
        # A trusted server's seeded noise follows from the study alone: take fresh entropy.
        trusted = tuple((v, unisono.Budget(math.inf)) for v in (SERVER, Viewer.colluders(1)))
    parties = [
        unisono.Party(
            f"party{j}",
            unisono.Private((features[j], labels[j])),
            unisono.Ledger.in_memory(
                unisono.Policy(f"party{j}", budget, exceptions=trusted),
                unisono.ACCOUNTANT,
                seed=None if trusted else 1_000_003 * seed + j,
            ),
        )
        for j in range(facts.parties)
    ]
    return np.asarray(in_process.run(study, parties).value, float)


def charged(line: Line, facts: unisono.Facts) -> float:
    """The accountant's epsilon for whoever sees the model."""
    assert line.method is not None
    if line.alone:
        facts = unisono.Facts(facts.records[:1], facts.features, 1)
    cost = unisono.Study(line.method, facts, line.trust).cost[FINAL_MODEL]
    return unisono.ACCOUNTANT.epsilon(cost, Relation.REPLACE_ONE, 0.0 if line.pure else line.delta)


def table(split: Split, parties: int, epsilon: float, seeds: int) -> dict[str, list[float]]:
    """Print one line per method; gaps per method and seed."""
    dealt = deal(split, parties)
    size, p = dealt[0].shape[1:]
    facts = unisono.Facts((size,) * parties, p, parties, colluders=1)
    best = minimisers(split.train[None], split.train_labels[None])[0]
    average = minimisers(*dealt).mean(axis=0)
    lowest, top = objective(best, split), accuracy(best, split)
    print(
        f"KDDCup99: {parties} parties x {size} records, {p} features, epsilon = {epsilon:g}, "
        f"delta = {DELTA:.0e}, lambda = {LAMBDA:g}, {seeds} seeds"
    )
    print(
        f"exact minimiser over all records: J = {lowest:.5f}, test accuracy {top:.4f}; "
        f"predicting zero: gap {objective(np.zeros(p), split) - lowest:.3f}"
    )
    bias = objective(average, split) - lowest
    print(
        f"average of exact local models, no noise: gap {bias:.2e}, "
        f"lost {top - accuracy(average, split):.4f}\n"
    )
    print(
        f"{'method':<42}{'true eps':>9}{'gap':>12}{'±':>10}{'lost':>9}{'±':>9}{'  x published':>13}"
    )
    gaps: dict[str, list[float]] = {}
    losses: dict[str, list[float]] = {}
    truths = {}
    for line in lines(epsilon):
        for seed in range(seeds):
            if line.method is None:
                noise = np.random.default_rng(seed).laplace(0, 2 / (size * LAMBDA * epsilon), p)
                found = average + noise
                truths[line.name] = math.sqrt(p) * epsilon
            else:
                truths[line.name] = charged(line, facts)
                allowed = epsilon if line.private else truths[line.name]
                found = run(line, facts, dealt, allowed, seed)
            gaps.setdefault(line.name, []).append(objective(found, split) - lowest)
            losses.setdefault(line.name, []).append(top - accuracy(found, split))
        name, gap, lost = line.name, gaps[line.name], losses[line.name]
        truth = f"{truths[name]:.3g}{'' if line.private else ' !'}"
        reference = gaps.get("secure output, as published")
        ratio = f"{np.mean(gap) / np.mean(reference):>12.2f}x" if reference else ""
        print(
            f"{name:<42}{truth:>9}{np.mean(gap):>12.2e}{np.std(gap):>10.1e}"
            f"{np.mean(lost):>9.4f}{np.std(lost):>9.4f}{ratio}",
            flush=True,
        )
    print(
        "\n! not private at the epsilon it claims: iid Laplace noise against an l2 sensitivity "
        f"costs sqrt({p}) = {math.sqrt(p):.1f} times as much (E000-8)"
    )
    reached = np.mean(gaps["secure gradient, shipped rule"])
    print(
        f"goal: secure gradient perturbation, gap at most 6e-3: {reached:.1e} "
        f"{'reached' if reached <= 6e-3 else 'MISSED'}"
    )
    figures.report(
        "KDDCup99: secure gradient perturbation",
        reached,
        "gap of the objective",
        aim=6e-3,
        peer="Jayaraman et al. 2018",
        lower=True,
    )
    return gaps


def picture(gaps: dict[str, list[float]], title: str) -> str:
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(9, 5))
    names = list(gaps)[::-1]
    colour: Callable[[str], str] = lambda name: (  # noqa: E731
        "tab:red"
        if "published" in name or "Pathak" in name
        else "tab:blue"
        if name.startswith("secure")
        else "tab:grey"
    )
    means = [float(np.mean(gaps[name])) for name in names]
    axes.barh(names, means, color=[colour(name) for name in names])
    for row, name in enumerate(names):
        axes.plot(gaps[name], [row] * len(gaps[name]), "k|", markersize=8)
        axes.text(
            max(gaps[name]) * 1.3,
            row,
            f"{means[row]:.1e}",
            va="center",
            fontsize=8,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
        )
    axes.axvline(6e-3, color="green", linestyle=":", label="goal 6e-3")
    axes.set(xscale="log", xlabel="optimality gap J(θ) - J(θ*), lower is better", title=title)
    axes.set_xlim(right=max(means) * 8)
    axes.legend(
        handles=[
            pyplot.Rectangle((0, 0), 1, 1, color="tab:blue", label="secure"),
            pyplot.Rectangle((0, 0), 1, 1, color="tab:grey", label="each party adds its own noise"),
            pyplot.Rectangle((0, 0), 1, 1, color="tab:red", label="as published: not private"),
            *axes.get_legend_handles_labels()[0],
        ],
        fontsize=8,
        loc="lower right",
    )
    figure.tight_layout()
    RESULTS.mkdir(exist_ok=True)
    figure.savefig(RESULTS / "kddcup.png", dpi=120)
    return "benchmarks/results/kddcup.png"


def smoke() -> dict[str, float]:
    """The first private method on two synthetic parties of 100 records."""
    generator = np.random.default_rng(0)
    features = generator.normal(size=(2, 100, 5))
    features /= np.linalg.norm(features, axis=2, keepdims=True)
    labels = np.sign(features[..., 0])
    facts = unisono.Facts((100, 100), 5, 2, colluders=1)
    line = next(one for one in lines(0.5) if one.method is not None and not one.alone)
    found = run(line, facts, (features, labels), max(0.5, charged(line, facts)), 0)
    return {f"length of {line.name}": float(np.linalg.norm(found))}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--parties", type=int, default=1_000)
    parser.add_argument("--epsilon", type=float, default=0.5)
    parser.add_argument("--data", help="folder of kddcup.data_10_percent.gz (or UNISONO_DATA)")
    arguments = figures.options(parser, smoke)
    try:
        split = load(data_folder(arguments.data))
    except MissingData as reason:
        print(f"skipped: {reason}")
        return 0
    compilation_cache.enable()
    gaps = table(split, arguments.parties, arguments.epsilon, arguments.seeds)
    title = f"KDDCup99, {arguments.parties} parties, epsilon = {arguments.epsilon:g}"
    print("picture:", picture(gaps, title))
    return 0


if __name__ == "__main__":
    sys.exit(main())
