"""Do 5 % tests under noise reject a true hypothesis in 5 % of all releases, and a false one often?

    python benchmarks/table_tests.py [--quick | --smoke] [--releases n] [--only NAME]

Each release has its own records, dealt to five unequal parties, and its own noise (secure sum,
delta 1e-6, replace-one; rows with delta 0 are pure epsilon). Records are sampled, the law of the
noise is the one that the study was priced at, and what is read is what a study reads; the driver is
left out, as it adds nothing but time. Printed for every setting: how often a true hypothesis is
rejected at 5 %, how often a false one is, the same of the usual test without noise (Welch, the
two-sample z, Pearson, Fisher, Mood), how often the 95 % interval holds the truth (where the
hypothesis is true, and where it is false), its median width over that without privacy, and how
often nothing was determined, which rejects nothing and is counted apart.

The designs are meant to be awkward: groups of 1 : 3, unequal spreads, means off the centre of the
bounds, a share of 5 %, a table with few expected, medians of different laws. Of 2,000 releases a
share of 5 % has a standard error of half a point.
"""

import argparse
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

import figures
from unisono.algorithms import hypothesis_tests, quantiles, statistics
from unisono.algorithms.noise_law import NoiseLaw
from unisono.algorithms.quantiles import Tree
from unisono.algorithms.readings import read_blocks
from unisono.algorithms.survey import STATISTICS, Question, Survey
from unisono.core.algorithm import agree_facts
from unisono.core.privacy import Privacy
from unisono.core.study import Study
from unisono.core.trust import Trust

SCORECARD = figures.Benchmark(seconds=3600)
LEVEL = 0.05
PARTIES = np.array([0.4, 0.25, 0.2, 0.1, 0.05])
BOUNDS, TREE = (0.0, 100.0), Tree(0.0, 100.0, 10, 3)
TWO = statistics.Groups(0, ("a", "b"))


class Setting(NamedTuple):
    """A test, and what is spent on how many records."""

    test: str
    records: int
    epsilon: float
    delta: float = 1e-6


class Outcome(NamedTuple):
    """Of every release (n,): both p values, whether the interval holds, its width over that without
    privacy, and whether anything was determined."""

    p: np.ndarray
    plain: np.ndarray
    inside: np.ndarray
    width: np.ndarray
    known: np.ndarray


def law_of(question: Question, setting: Setting) -> NoiseLaw:
    """That of a block's noise, as the study is priced."""
    sizes = np.maximum(1, np.round(PARTIES * setting.records)).astype(int)
    method = STATISTICS.method(Survey([question]), Privacy(setting.epsilon, setting.delta))
    trust = Trust.SECURE_SUM
    study = Study(method, agree_facts(tuple(map(int, sizes)), 3, trust), trust)
    table = Survey([question]).table(study.facts)
    zeros = np.zeros(table.dimension)
    return read_blocks(table, study, zeros, len(sizes), int(sizes.sum()))[0].law


def noise(generator: np.random.Generator, law: NoiseLaw, shape: tuple[int, ...]) -> np.ndarray:
    """Laplace shares are normal, of a variance that is Gamma."""
    drawn = generator.normal(size=shape)
    if law.gaussian:
        return drawn * law.std
    return drawn * np.sqrt(2 * generator.gamma(law.shape, size=shape)) * law.scale


# ------------------------------------------------------------------- designs


def means(generator: np.random.Generator, setting: Setting, releases: int, effect: bool) -> Outcome:
    """A quarter of the records with a spread of 18 and a long tail, the others with one of 10."""
    law = law_of(statistics.mean(0, BOUNDS, by=TWO), setting)
    sizes = (setting.records // 4, setting.records - setting.records // 4)
    shift = 3.2 * 18 / np.sqrt(sizes[0]) if effect else 0.0
    sums = np.zeros((releases, 2, 3))
    plain, widths = np.zeros(releases), np.zeros(releases)
    for k in range(releases):
        first = 30 + shift + 18 * (generator.gamma(9, size=sizes[0]) - 9) / 3
        second = generator.normal(30, 10, sizes[1])
        groups = [np.clip(own, *BOUNDS) for own in (first, second)]
        u = [(own - 50) / 50 for own in groups]
        sums[k] = [[len(v), v.sum(), np.sqrt(2) * (v**2 - 0.75).sum()] for v in u]
        found = stats.ttest_ind(*groups, equal_var=False)
        plain[k] = found.pvalue
        widths[k] = np.diff(found.confidence_interval())[0]
    truth = _clipped_gamma_mean(30 + shift) - _clipped_normal_mean(30, 10)
    found = hypothesis_tests.compare_means(sums + noise(generator, law, sums.shape), law, LEVEL)
    low, high = (50 * end for end in found.interval)
    return Outcome(
        found.p_value,
        plain,
        (low <= truth) & (truth <= high),
        (high - low) / widths,
        found.known.all(axis=-1),
    )


def _clipped_gamma_mean(centre: float) -> float:
    drawn = centre + 18 * (stats.gamma(9).ppf((np.arange(200_000) + 0.5) / 200_000) - 9) / 3
    return float(np.clip(drawn, *BOUNDS).mean())


def _clipped_normal_mean(centre: float, spread: float) -> float:
    drawn = stats.norm(centre, spread).ppf((np.arange(200_000) + 0.5) / 200_000)
    return float(np.clip(drawn, *BOUNDS).mean())


def proportions(
    generator: np.random.Generator, setting: Setting, releases: int, effect: bool
) -> Outcome:
    """5 % in a quarter of the records and in the rest."""
    law = law_of(statistics.proportion(0, by=TWO), setting)
    sizes = np.array([setting.records // 4, setting.records - setting.records // 4])
    more = 3.2 * np.sqrt(0.05 * 0.95 / sizes[0]) if effect else 0.0
    chances = np.array([0.05 + more, 0.05])
    yes = generator.binomial(sizes, chances, (releases, 2))
    counts = np.stack([sizes - yes, yes], axis=-1)
    noisy = counts + noise(generator, law, counts.shape)
    found = hypothesis_tests.compare_proportions(noisy, law, LEVEL)
    pooled = yes.sum(1) / sizes.sum()
    error = np.sqrt(np.maximum(pooled * (1 - pooled), 1e-9) * (1 / sizes).sum())
    share = yes / sizes
    plain = 2 * stats.norm.sf(np.abs(share[:, 0] - share[:, 1]) / error)
    low, high = found.interval
    usual = 2 * 1.96 * np.sqrt((share * (1 - share) / sizes).sum(1))
    return Outcome(
        found.p_value,
        plain,
        (low <= more) & (more <= high),
        (high - low) / np.maximum(usual, 1e-9),
        found.known.all(axis=-1),
    )


def medians(
    generator: np.random.Generator, setting: Setting, releases: int, effect: bool
) -> Outcome:
    """A quarter of the records with a long tail, the others normal; both have the median 30."""
    question = quantiles.quantiles(0, BOUNDS, (0.5,), branching=10, depth=3, by=TWO)
    law = law_of(question, setting)
    sizes = (setting.records // 4, setting.records - setting.records // 4)
    shift = 3.6 * 1.25 * 15 / np.sqrt(sizes[0]) if effect else 0.0
    found, plain = [], []
    for _ in range(releases):
        first = 30 * np.exp(0.5 * generator.normal(size=sizes[0])) + shift
        second = generator.normal(30, 10, sizes[1])
        groups = [np.clip(own, *BOUNDS) for own in (first, second)]
        plain.append(stats.median_test(*groups, correction=False).pvalue)
        nodes = np.stack([tree_counts(own) for own in groups])
        nodes = nodes + noise(generator, law, nodes.shape)
        found.append(hypothesis_tests.compare_medians(nodes, TREE, law, LEVEL))
    low, high = (np.array([one.interval[end] for one in found]) for end in (0, 1))
    # The densities at the medians are 1 / (30 · 0.5 √2π) and 1 / (10 √2π).
    root = np.sqrt(2 * np.pi) / 2
    usual = 2 * 1.96 * np.hypot(15 * root / np.sqrt(sizes[0]), 10 * root / np.sqrt(sizes[1]))
    return Outcome(
        np.array([one.p_value for one in found]),
        np.array(plain),
        (low <= shift) & (shift <= high),
        (high - low) / usual,
        np.array([one.known.all() for one in found]),
    )


def tree_counts(values: np.ndarray) -> np.ndarray:
    leaves, _ = np.histogram(values, TREE.edges)
    levels = [leaves]
    while len(levels[0]) > TREE.branching:
        levels.insert(0, levels[0].reshape(-1, TREE.branching).sum(axis=1))
    return np.concatenate(levels).astype(float)


def _tables(
    rows: np.ndarray, columns: np.ndarray, bend: np.ndarray, plainly: Callable[[np.ndarray], float]
) -> Callable[..., Outcome]:
    """Chances of both margins, and what is added to the cells where they depend."""

    def run(
        generator: np.random.Generator, setting: Setting, releases: int, effect: bool
    ) -> Outcome:
        groups = (
            statistics.Groups(0, tuple(range(len(rows)))),
            statistics.Groups(1, tuple(range(len(columns)))),
        )
        law = law_of(statistics.contingency(*groups), setting)
        even = np.outer(rows, columns)
        chances = even + (bend * 3.4 / np.sqrt(setting.records) if effect else 0.0)
        counts = generator.multinomial(setting.records, chances.ravel(), releases)
        counts = counts.reshape(releases, *even.shape).astype(float)
        noisy = counts + noise(generator, law, counts.shape)
        square = even.shape == (2, 2)
        read: Any = hypothesis_tests.fisher if square else hypothesis_tests.independence
        found = [read(own, law, LEVEL) for own in noisy]
        if square:
            truth = chances[0, 0] * chances[1, 1] / (chances[0, 1] * chances[1, 0])
        else:
            p, q = chances.sum(1), chances.sum(0)
            off = chances - np.outer(p, q)
            truth = np.sqrt((off**2 / np.outer(p, q)).sum() / (min(even.shape) - 1))
        low, high = (np.array([one.interval[end] for one in found]) for end in (0, 1))
        plain = [plainly(own) for own in counts]
        return Outcome(
            np.array([one.p_value for one in found]),
            np.array(plain),
            (low <= truth) & (truth <= high),
            log_width(low, high, counts) if square else np.full(releases, np.nan),
            np.array([np.all(one.known) for one in found]),
        )

    return run


def log_width(low: np.ndarray, high: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Of odds ratios, on the scale of logarithms, over that of Woolf's interval."""
    usual = 2 * 1.96 * np.sqrt((1 / np.maximum(counts, 0.5)).sum(axis=(1, 2)))
    return np.log(high / low) / usual


def pearson(table: np.ndarray) -> float:
    kept = table[table.sum(1) > 0][:, table.sum(0) > 0]
    return float(stats.chi2_contingency(kept, correction=False).pvalue)


def fisher(table: np.ndarray) -> float:
    return float(stats.fisher_exact(table).pvalue)


THREE, FOUR = np.array([0.6, 0.37, 0.03]), np.array([0.5, 0.3, 0.17, 0.03])
TILT = np.array([[0.24, -0.2, -0.04, 0.0], [-0.24, 0.2, 0.04, 0.0], [0.0, 0.0, 0.0, 0.0]])
PAIR = np.array([[0.2, -0.2], [-0.2, 0.2]])
TESTS: dict[str, Callable[..., Outcome]] = {
    "means": means,
    "proportions": proportions,
    "medians": medians,
    "chi-square": _tables(THREE, FOUR, TILT, pearson),
    "fisher": _tables(np.array([0.3, 0.7]), np.array([0.1, 0.9]), PAIR * 0.6, fisher),
}


# ------------------------------------------------------------------- running


def settings(options: argparse.Namespace) -> Iterator[Setting]:
    for test in TESTS:
        if options.only and options.only != test:
            continue
        if options.quick:
            yield from (Setting(test, 2000, 1.0), Setting(test, 2000, 1.0, 0.0))
            continue
        for records in (500, 2000, 8000):
            for epsilon in (0.3, 1.0, 3.0):
                yield Setting(test, records, epsilon)
        yield Setting(test, 500, 1.0, 0.0)
        yield Setting(test, 2000, 1.0, 0.0)


def share(flags: np.ndarray, known: np.ndarray) -> float:
    return float(flags[known].mean()) if known.any() else float("nan")


def measure(setting: Setting, releases: int) -> tuple[Outcome, Outcome]:
    place = list(TESTS).index(setting.test)
    seed = [20, place, setting.records, int(100 * setting.epsilon), int(setting.delta > 0)]
    run = TESTS[setting.test]
    still, moved = (
        run(np.random.default_rng([*seed, int(effect)]), setting, releases, effect)
        for effect in (False, True)
    )
    return still, moved


def main(options: argparse.Namespace) -> None:
    releases = options.releases or (400 if options.quick else 2000)
    levels: dict[str, list[float]] = {}
    covered: dict[str, list[float]] = {}
    for setting in settings(options):
        still, moved = measure(setting, releases)
        level = share(still.p < LEVEL, still.known)
        both = [share(one.inside, one.known) for one in (still, moved)]
        widths = still.width[still.known]
        width = np.median(widths) if len(widths) else np.nan
        wide = f"  width x{width:.2f}" if np.isfinite(width) else ""
        print(
            f"{setting.test:<11} n = {setting.records:<5} epsilon {setting.epsilon:<3g} delta "
            f"{setting.delta:<5g} level {level:.4f} "
            f"(without noise {np.mean(still.plain < LEVEL):.4f})  "
            f"power {share(moved.p < LEVEL, moved.known):.3f} "
            f"(without noise {np.mean(moved.plain < LEVEL):.3f})  covered {both[0]:.3f} "
            f"{both[1]:.3f}{wide}  not determined {1 - still.known.mean():.3f}",
            flush=True,
        )
        if still.known.mean() > 0.5:
            levels.setdefault(setting.test, []).append(level)
            covered.setdefault(setting.test, []).extend(both)
    for test, found in levels.items():
        worst = max(found)
        figures.report(
            f"type-I error of a 5 % test, {test}: the largest of {len(found)} settings",
            worst,
            "share of true hypotheses rejected",
            aim=0.065,
            lower=True,
            peer="nominal level",
            command="python benchmarks/table_tests.py",
        )
        figures.report(
            f"95 % intervals, {test}: the least coverage of {len(covered[test])} settings",
            min(covered[test]),
            "share that hold the truth",
            aim=0.93,
            peer="nominal level",
            command="python benchmarks/table_tests.py",
        )


def smoke() -> dict[str, float]:
    found = {}
    for test in TESTS:
        still, _ = measure(Setting(test, 500, 3.0), 20)
        found[f"rejected, {test}"] = share(still.p < LEVEL, still.known)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="two settings for each test")
    parser.add_argument("--releases", type=int, help="for each setting [2000, quick 400]")
    parser.add_argument("--only", choices=list(TESTS), help="one of the tests")
    main(figures.options(parser, smoke))
