"""Accuracy of private linear models over epsilon, parties and algorithms.

    python benchmarks/convex_accuracy.py [--seeds 5] [--data folder]

1. breast_cancer and digits (from scikit-learn), as one party and as ten under a secure sum.
2. A regression and a support vector machine on synthetic planes.
3. Adult spread over m = 1 .. 10,000 parties: a secure sum against local noise and no privacy.

Defaults of the estimators everywhere, delta = 1e-5, replace-one; nothing is tuned on test records.
"""

import argparse
import sys
import warnings
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression

import figures
from datasets import MissingData, PublicDataset, adult, breast_cancer, data_folder, digits
from unisono.data.scaling import scaling
from unisono.errors import InvalidInput
from unisono.estimators import PrivateLogisticRegression, PrivateRidge, RepeatedFits

SCORECARD = figures.Benchmark(quick=None)

DELTA = 1e-5
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
ALGORITHMS = (
    "gradient-perturbation",
    "objective-perturbation",
    "output-perturbation",
    "dp-sgd-convex",
)
PARTIES = (1, 10, 100, 1_000, 10_000)
RESULTS = Path(__file__).parent / "results"


def score(
    data: PublicDataset,
    epsilon: float,
    seed: int,
    parties: int,
    trust: str,
    algorithm: str = "auto",
) -> float:
    """Test accuracy of one fit; records are dealt to parties in turn. No curious party, all
    survive: the noise of the secure sum is then that of one data holder."""
    model = PrivateLogisticRegression(
        epsilon,
        DELTA,
        bounds=data.bounds,
        classes=np.unique(data.train_labels),
        trust=trust,
        algorithm=algorithm,
        colluders=0,
        random_state=seed,
    )
    model.fit(data.train, data.train_labels, parties=np.arange(len(data.train)) % parties)
    return float(model.score(data.test, data.test_labels))


def ceiling(data: PublicDataset) -> float:
    """Logistic regression without privacy on the same rows."""
    scale = scaling(data.bounds, data.train.shape[1])
    model = LogisticRegression(C=1e3, max_iter=3000, fit_intercept=False)
    model.fit(scale.rows(data.train)[0], data.train_labels)
    return float(model.score(scale.rows(data.test)[0], data.test_labels))


def small_tables(seeds: int) -> None:
    curves = {}
    for data in (breast_cancer(), digits()):
        print(f"\n{data.name}: {len(data.train)} training records, {data.train.shape[1]} features")
        print(
            f"{'test accuracy (' + str(seeds) + ' seeds)':<44}"
            + "".join(f"{f'epsilon {e:g}':>13}" for e in EPSILONS)
        )
        for parties, trust in ((1, "local"), (10, "secure-sum")):
            for algorithm in ALGORITHMS:
                count = 1 if algorithm == "dp-sgd-convex" else seeds
                title = f"{algorithm}, {parties} part{'y' if parties == 1 else 'ies'}"
                try:
                    means = [
                        float(
                            np.mean(
                                [
                                    score(data, epsilon, seed, parties, trust, algorithm)
                                    for seed in range(count)
                                ]
                            )
                        )
                        for epsilon in EPSILONS
                    ]
                except InvalidInput as reason:
                    print(f"{title:<44}  not defined: {str(reason)[:80]}", flush=True)
                    continue
                print(f"{title:<44}" + "".join(f"{m:>13.3f}" for m in means), flush=True)
                curves[data.name, title] = means
        top = ceiling(data)
        print(f"{'no privacy':<44}" + f"{top:>13.3f}" * len(EPSILONS))
        curves[data.name, "no privacy"] = [top] * len(EPSILONS)
    print("picture:", picture_epsilon(curves))


def planes(seeds: int) -> None:
    """R² of private ridge regression on a plane in ten dimensions."""
    print(f"\nridge on a synthetic plane, 10 features, bounded noise ({seeds} seeds)")
    print(f"{'R² on fresh records':<44}" + "".join(f"{f'epsilon {e:g}':>13}" for e in EPSILONS))
    for records in (1_000, 10_000, 100_000):
        cells = []
        for epsilon in EPSILONS:
            values = []
            for seed in range(seeds):
                generator = np.random.default_rng(seed)
                plane = generator.uniform(-1, 1, 10)
                X = generator.uniform(-1, 1, (records + 2000, 10))
                y = X @ plane + generator.uniform(-0.5, 0.5, len(X))
                model = PrivateRidge(
                    epsilon,
                    DELTA / 10,
                    bounds=(-1, 1),
                    target_bounds=(-10.5, 10.5),
                    random_state=seed,
                )
                model.fit(X[:records], y[:records])
                values.append(model.score(X[records:], y[records:]))
            cells.append(np.mean(values))
        print(f"{f'{records} records':<44}" + "".join(f"{c:>13.3f}" for c in cells), flush=True)


def over_parties(data: PublicDataset, epsilon: float) -> None:
    top = ceiling(data)
    print(f"\nAdult spread over m parties, epsilon = {epsilon:g}, accuracy (no privacy {top:.4f})")
    print(f"{'m':<12}{'secure sum':>14}{'local noise':>14}")
    curves: dict[str, list[float]] = {"secure sum": [], "local noise": []}
    for parties in PARTIES:
        count = 3 if parties <= 100 else 1
        cells = {}
        for name, trust in (("secure sum", "secure-sum"), ("local noise", "local")):
            trust = "local" if parties == 1 else trust
            values = [score(data, epsilon, seed, parties, trust) for seed in range(count)]
            cells[name] = float(np.mean(values))
            curves[name].append(cells[name])
        print(f"{parties:<12}{cells['secure sum']:>14.4f}{cells['local noise']:>14.4f}", flush=True)
    print("picture:", picture_parties(curves, top, majority(data), epsilon))


def picture_epsilon(curves: dict[tuple[str, str], list[float]]) -> str:
    names = list(dict.fromkeys(name for name, _ in curves))
    figure, axes = _pyplot().subplots(1, len(names), figsize=(12, 5), squeeze=False)
    for panel, name in zip(axes[0], names, strict=True):
        for (owner, title), means in curves.items():
            if owner != name:
                continue
            if title == "no privacy":
                panel.axhline(means[0], color="black", linewidth=1, label=title)
                continue
            color = f"C{ALGORITHMS.index(title.split(',')[0])}"
            style = "s--" if "10 parties" in title else "o-"
            panel.plot(EPSILONS, means, style, color=color, label=title, markersize=4)
        panel.set(
            xscale="log",
            xlabel="epsilon (delta = 1e-5, replace-one)",
            title=name,
            ylabel="test accuracy",
        )
        panel.set_xticks(EPSILONS, [f"{e:g}" for e in EPSILONS])
        panel.minorticks_off()
        panel.grid(alpha=0.3)
        panel.legend(fontsize=7)
    return _save(figure, "convex_accuracy_epsilon.png")


def majority(data: PublicDataset) -> float:
    """Accuracy of always saying the larger class."""
    return float(np.bincount(data.test_labels).max() / len(data.test_labels))


def picture_parties(
    curves: dict[str, list[float]], top: float, bottom: float, epsilon: float
) -> str:
    figure, axes = _pyplot().subplots(figsize=(7, 4.5))
    for name, values in curves.items():
        axes.plot(PARTIES, values, "o-", label=name)
    axes.axhline(top, color="black", linewidth=1, label="no privacy")
    axes.axhline(bottom, color="grey", linestyle=":", label="always the larger class")
    axes.set(
        xscale="log",
        xlabel="parties m (the same 32,561 records in all)",
        ylabel="test accuracy",
        title=f"Adult, epsilon = {epsilon:g} per record",
    )
    axes.grid(alpha=0.3)
    axes.legend()
    return _save(figure, "convex_accuracy_parties.png")


def _pyplot():  # type: ignore[no-untyped-def]
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    return pyplot


def _save(figure, name: str) -> str:  # type: ignore[no-untyped-def]
    RESULTS.mkdir(exist_ok=True)
    figure.tight_layout()
    figure.savefig(RESULTS / name, dpi=120)
    return f"benchmarks/results/{name}"


def smoke() -> dict[str, float]:
    warnings.simplefilter("ignore", RepeatedFits)
    return {"accuracy on breast cancer": score(breast_cancer(), 1.0, 0, 1, "local")}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--data", help="folder with adult.data.gz (default: UNISONO_DATA)")
    parser.add_argument("--only", choices=("small", "planes", "parties"))
    arguments = figures.options(parser, smoke)
    warnings.simplefilter("ignore", RepeatedFits)  # simulations on public data
    if arguments.only in (None, "small"):
        small_tables(arguments.seeds)
    if arguments.only in (None, "planes"):
        planes(arguments.seeds)
    if arguments.only in (None, "parties"):
        try:
            over_parties(adult(data_folder(arguments.data)), 0.5)
        except MissingData as reason:
            print(f"\nover parties: skipped: {reason}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
