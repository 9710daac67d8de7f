"""How the cost of learning a linear model grows: records, features, parties and rounds.

    python benchmarks/scaling.py [--picture scaling.png] [--repeats 3] [--quick]

Logistic regression by gradient perturbation over parties in one process, ledgers, noise and
certificate included, after compilation. One of the four numbers is varied over factors of two, the
others are kept; with more parties the records of all of them together stay as many. The cost is
seconds of processor time of a whole fit, the least of several. Exponents are slopes of straight
lines through the logarithms of the larger half of each series, where what every fit costs no longer
counts: 1 is linear, 0 is flat.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

import figures
import linear_fits


class Setting(NamedTuple):
    """The size of a fit."""

    records: int = 50_000
    features: int = 50
    parties: int = 10
    rounds: int = 50


SERIES = {
    "records": (25_000, 50_000, 100_000, 200_000, 400_000, 800_000),
    "features": (12, 25, 50, 100, 200, 400),
    "parties": (2, 5, 10, 20, 40),
    "rounds": (25, 50, 100, 200, 400),
}
# What the hardware allows: linear in what is computed, and flat in who holds the records.
AIMS = {"records": 1.1, "features": 1.1, "parties": 0.5, "rounds": 1.1}


def seconds(setting: Setting, repeats: int) -> float:
    """Processor time of a fit after compilation."""
    columns = linear_fits.records(setting.records, setting.features)

    def fit() -> np.ndarray:
        return linear_fits.fit(columns, setting.parties, setting.rounds)

    fit()
    return figures.least({"fit": fit}, repeats)["fit"]


def exponent(sizes: Sequence[float], costs: Sequence[float]) -> float:
    """The slope of the larger half on log axes.

    >>> round(exponent([1, 2, 4, 8], [3, 6, 12, 24]), 6)
    1.0
    """
    half = len(sizes) // 2
    return float(np.polyfit(np.log(sizes[half:]), np.log(costs[half:]), 1)[0])


def draw(found: dict[str, tuple[Sequence[int], list[float]]], place: Path) -> None:
    """All series on log axes, each with its exponent."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, len(found), figsize=(3 * len(found), 3), sharey=True)
    for axis, (name, (sizes, costs)) in zip(axes, found.items(), strict=True):
        axis.loglog(sizes, costs, "o-", color="#3f51b5")
        axis.set(xlabel=name, title=f"exponent {exponent(sizes, costs):.2f}")
        axis.set_xticks(sizes, [f"{size:,}" for size in sizes], rotation=45)
        axis.set_xticks([], minor=True)
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("processor time of a fit, s")
    figure.tight_layout()
    figure.savefig(place, dpi=120)
    print(f"picture: {place}")


def smoke() -> dict[str, float]:
    """Two tiny fits."""
    sizes = (200, 400)
    costs = [seconds(Setting(size, 4, 2, 2), 1) for size in sizes]
    return {"seconds": costs[-1], "exponent": exponent([1, *sizes], [costs[0] / 2, *costs])}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    results = Path(__file__).parent / "results"
    parser.add_argument("--picture", type=Path, default=results / "scaling.png")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="four sizes of each, once")
    arguments = figures.options(parser, smoke)
    linear_fits.one_thread()
    found: dict[str, tuple[Sequence[int], list[float]]] = {}
    for name, sizes in SERIES.items():
        sizes = sizes[:4] if arguments.quick else sizes
        repeats = 1 if arguments.quick else arguments.repeats
        costs = [seconds(Setting()._replace(**{name: size}), repeats) for size in sizes]
        found[name] = sizes, costs
        shown = "  ".join(f"{n:,}: {s:.2f}" for n, s in zip(sizes, costs, strict=True))
        slope = exponent(sizes, costs)
        print(f"{name:<9} exponent {slope:5.2f}   seconds {shown}", flush=True)
        figures.report(
            f"growth of a linear fit's cost over {name}",
            slope,
            "exponent",
            aim=AIMS[name],
            lower=True,
        )
    arguments.picture.parent.mkdir(parents=True, exist_ok=True)
    draw(found, arguments.picture)


if __name__ == "__main__":
    main()
