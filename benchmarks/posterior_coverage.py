"""Do 95 % intervals of Bayesian estimators hold the true coefficients, in the user's units?

    python benchmarks/posterior_coverage.py [--quick | --smoke] [--fits n] [--designs 0 c j l]

1. Designs of `inference_coverage.py` (skewed, correlated and rare columns; binaries; zero-inflated
and two-humped ones; records far out) through the study of `bayesian-logistic-regression` and
`bayesian-linear-regression` with every default, 8,000 records of five unequal parties under a
secure sum, delta 1e-6, epsilon 1. Seeds are other ones than there. Printed: the share of intervals
that hold the truth, pooled over coefficients of which something was learnt; the worst coefficient;
the share of which nothing was; and the median width over that of `glm` from the same release, and
over that of maximum likelihood without privacy.

2. The estimators. Records are made up as a user has them: columns in their own units inside public
bounds that are wider than the data, dealt to four parties; the model that makes the labels is the
one that is fitted, with every default of the estimator (delta 1e-5, replace-one, secure sum; nobody
says how far targets scatter). Each fit has its own records and its own noise. Printed for every
setting: the share of intervals that hold the truth, pooled, the worst coefficient, those of which
something was learnt, how often rounds disagreed (not converged), and the median width over that of
maximum likelihood without privacy.

Of 100 fits the share of one coefficient has a standard error of 2 points at a true 95 %: a worst
of six coefficients below 90 % is then a chance of one in 40.
"""

import argparse
import sys
import warnings
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

import inference_coverage as coverage
from figures import Benchmark, report, smoked
from unisono.accounting.accountant import ACCOUNTANT
from unisono.algorithms.fisher_scoring import FISHER_SCORING
from unisono.core.algorithm import agree_facts
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.privacy import Privacy
from unisono.core.study import Party, Study
from unisono.core.trust import Trust
from unisono.core.values import Private
from unisono.engines import in_process
from unisono.estimators import BayesianLinearRegression, BayesianLogisticRegression
from unisono.models.bayesian import BAYESIAN_LINEAR_REGRESSION, BAYESIAN_LOGISTIC_REGRESSION
from unisono.models.glm import GLM
from unisono.releases.together import together

SCORECARD = Benchmark()
RECORDS, EPSILON = 8_000, 1.0
MODELS = {"binomial": BAYESIAN_LOGISTIC_REGRESSION, "gaussian": BAYESIAN_LINEAR_REGRESSION}

# Age in years, body mass, smoker, a laboratory value with a long tail, treated.
LOW, HIGH = np.array([18.0, 10, 0, 0, 0]), np.array([90.0, 70, 1, 50, 1])
USUAL = np.array([52.0, 27, 0.3, 7.8, 0.5])
ODDS = np.array([0.03, 0.06, 0.7, 0.06, -0.5])
EFFECTS, SPREAD, TARGETS = np.array([0.5, 0.8, 6.0, 0.4, -5.0]), 12.0, (60.0, 220.0)
PARTIES = 4


class Design(NamedTuple):
    """A model, how strong its effects are, and what is spent on how many records."""

    kind: str
    effects: float
    records: int
    epsilon: float


class Fit(NamedTuple):
    """Of every coefficient (6,): inside, learnt, width over that without privacy; and the run."""

    inside: np.ndarray
    learnt: np.ndarray
    width: np.ndarray
    converged: bool


class Seen(NamedTuple):
    """Of one simulation, by coefficient without the intercept (p - 1,): whether an interval holds
    the truth, whether anything was learnt, and its width over others."""

    holds: np.ndarray
    learnt: np.ndarray
    over_glm: np.ndarray
    over_plain: np.ndarray


def by_design(name: str, family: str, records: int, epsilon: float, fits: int) -> list[Seen]:
    """Simulations of a design; the same release is read as a posterior and as a table of `glm`."""
    schema, promise = coverage.schema_of(name, family), Privacy(epsilon, coverage.DELTA)
    model = MODELS[family]
    posed = model.pose(model.configured(), schema, FISHER_SCORING, promise)
    table = GLM.pose(GLM.configured(family=family), schema, FISHER_SCORING, promise)
    cuts = np.cumsum([int(share * records) for share in coverage.SHARES[:-1]])
    sizes = [len(part) for part in np.split(np.arange(records), cuts)]
    facts = agree_facts(sizes, posed.features, Trust.SECURE_SUM)
    before = FISHER_SCORING.method(posed.problem, promise).earlier
    assert before is not None

    def study(kind: Any) -> Any:
        return lambda part: Study(kind.method(posed.problem, part), facts, Trust.SECURE_SUM)

    first, second = together(
        promise,
        before.share,
        study(before.kind),
        study(FISHER_SCORING),
        lambda one, other: (one.costs, other.costs),
    )
    seed, found = zlib.crc32(f"posterior {name} {family} {records} {epsilon}".encode()), []
    truth, policy = coverage.wanted(name, family)[1:], Policy("d", Budget(1e3, 1e-3))
    for number in range(fits):
        drawn = coverage.draw(name, family, records, np.random.default_rng([seed, number]))
        values = {f"x{k}": own for k, own in enumerate(drawn.numbers.T)}
        values |= {f"c{k}": own.astype(float) for k, own in enumerate(drawn.places.T)}
        rows = posed.encode(values | {"y": drawn.y})[0].astype(np.float32)
        parties = [
            Party(
                f"p{k}",
                Private((part,)),
                Ledger.in_memory(policy, ACCOUNTANT, seed=10 * (seed % 99_991 + number) + k),
            )
            for k, part in enumerate(np.split(rows, cuts))
        ]
        start = in_process.run(first, parties)
        result = in_process.run(second.begun(start.value), parties)
        shown = posed.present(second, result)
        names = [own for own in shown["names"] if own != "intercept"]
        mean, std, learnt = (
            np.array([shown[word][own] for own in names]) for word in ("mean", "std", "learnt")
        )
        rows_of = table.present(second, result)["coefficients"]
        other = np.array([rows_of[own].get("std_error", np.nan) for own in names])
        errors = coverage.likelihood(coverage.DESIGNS[name], family, drawn)[1][1:]
        found.append(Seen(np.abs(mean - truth) < 1.959964 * std, learnt, std / other, std / errors))
    return found


def design_rows(names: list[str], records: int, fits: int) -> dict[str, float]:
    """All of them, printed and handed over; what is returned is pooled by family."""
    shares = {}
    for family in MODELS:
        pooled = []
        for name in names:
            own = by_design(name, family, records, EPSILON, fits)
            holds, learnt, over_glm, over_plain = (
                np.array(part) for part in zip(*own, strict=True)
            )
            pooled.append(holds[learnt])
            worst = np.where(learnt, holds, np.nan)
            print(
                f"design {name} {family:8} n = {records} epsilon {EPSILON:g}: covered "
                f"{holds[learnt].mean():.3f} worst {np.nanmin(np.nanmean(worst, axis=0)):.3f} "
                f"nothing learnt {1 - learnt.mean():.2f} width over glm "
                f"{np.nanmedian(over_glm):.2f}, over no privacy {np.median(over_plain):.2f}",
                flush=True,
            )
            where = f"posterior of {family}, design {name}, {records:,} records, epsilon 1"
            report(f"{where}: coverage of 95 %", holds[learnt].mean(), "of the intervals", aim=0.94)
            report(
                f"{where}: width over glm's",
                float(np.nanmedian(over_glm)),
                "times as wide",
                aim=1.5,
                lower=True,
            )
        shares[family] = float(np.concatenate(pooled).mean())
        print(f"{family}: pooled {shares[family]:.4f}", flush=True)
    return shares


def columns(generator: np.random.Generator, records: int) -> np.ndarray:
    normal = generator.normal(size=(3, records))
    mass = 27 + 5 * (0.4 * normal[0] + np.sqrt(0.84) * normal[1])
    smoker, treated = generator.random((2, records)) < [[0.3], [0.5]]
    found = [52 + 16 * normal[0], mass, smoker, np.exp(1.9 + 0.55 * normal[2]), treated]
    return np.clip(np.column_stack(found), LOW, HIGH)


def fit(design: Design, seed: int) -> Fit:
    """One user's study from beginning to end; a seed simulates the noise."""
    generator = np.random.default_rng([seed, 5])
    X = columns(generator, design.records)
    party = np.arange(design.records) % PARTIES
    options: dict[str, Any] = {"epsilon": design.epsilon, "delta": 1e-5, "random_state": seed}
    if design.kind == "logistic":
        slopes = design.effects * ODDS
        truth = np.r_[slopes, -1 - slopes @ USUAL]
        y = (generator.random(design.records) < expit(X @ slopes + truth[-1])).astype(int)
        model = BayesianLogisticRegression(bounds=(LOW, HIGH), classes=[0, 1], **options)
    else:
        slopes = design.effects * EFFECTS
        truth = np.r_[slopes, 130 - slopes @ USUAL]
        noise = SPREAD * generator.normal(size=design.records)
        y = np.clip(X @ slopes + truth[-1] + noise, *TARGETS)
        model = BayesianLinearRegression(bounds=(LOW, HIGH), target_bounds=TARGETS, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = model.fit(X, y, parties=party).posterior_
    low, high = found.interval(0.95).T
    plain = 1.96 * without_privacy(design.kind, X, y)
    learnt = getattr(found, "learnt", np.ones(len(truth), bool))
    return Fit(
        (low < truth) & (truth < high),
        learnt,
        (high - low) / 2 / plain,
        getattr(found, "converged", True),
    )


def without_privacy(kind: str, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Standard errors of maximum likelihood."""
    rows, theta = np.column_stack([X, np.ones(len(X))]), np.zeros(X.shape[1] + 1)
    if kind == "linear":
        return SPREAD * np.sqrt(np.diag(np.linalg.inv(rows.T @ rows)))
    for _ in range(12):
        chance = expit(rows @ theta)
        bend = (rows * (chance * (1 - chance))[:, None]).T @ rows
        theta = theta + np.linalg.solve(bend, rows.T @ (y - chance))
    return np.sqrt(np.diag(np.linalg.inv(bend)))


def designs(smoke: bool) -> Iterator[Design]:
    if smoke:
        yield Design("logistic", 1.0, 2000, 3.0)
        yield Design("linear", 1.0, 2000, 3.0)
        return
    for kind in ("logistic", "linear"):
        for records in (2000, 8000):
            for epsilon in (1.0, 3.0, 100.0):
                yield Design(kind, 1.0, records, epsilon)
    yield Design("logistic", 2.5, 8000, 3.0)
    yield Design("logistic", 2.5, 8000, 100.0)


def main(options: argparse.Namespace) -> None:
    count = options.fits or (1 if options.smoke else 20 if options.quick else 100)
    pooled: list[tuple[str, float]] = []
    warnings.simplefilter("ignore")
    if options.smoke:
        pooled += design_rows(["c"], 1500, 1).items()
    else:
        design_rows(options.designs, RECORDS, count)
    if options.only_designs:
        return
    for design in designs(options.smoke):
        fits = [fit(design, seed) for seed in range(options.first, options.first + count)]
        inside, learnt, width = (np.array(part) for part in list(zip(*fits, strict=True))[:3])
        doubted = count - sum(one.converged for one in fits)
        sure = f"{inside[learnt].mean():.3f}" if learnt.any() else "-"
        print(
            f"{design.kind:<8} effects x{design.effects:g}  n = {design.records}  epsilon "
            f"{design.epsilon:<3g} covered {inside.mean():.3f}  worst {inside.mean(0).min():.2f}  "
            f"learnt {learnt.mean():.2f}, of these covered {sure}  not converged {doubted} of "
            f"{count}  by coefficient {inside.mean(0).round(2).tolist()}  width "
            f"{np.median(width, axis=0).round(1).tolist()}",
            flush=True,
        )
        pooled.append((design.kind, inside.mean()))
    if options.smoke:
        smoked({f"covered, {kind}": share for kind, share in pooled})
        return
    for kind in ("logistic", "linear"):
        report(
            f"95 % intervals, {kind}",
            float(np.mean([s for own, s in pooled if own == kind])),
            "share that hold the truth",
            aim=0.95,
            peer="nominal level",
            command="python benchmarks/posterior_coverage.py",
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="20 fits of every design")
    parser.add_argument("--smoke", action="store_true", help="one fit, as a line of JSON")
    parser.add_argument("--fits", type=int)
    parser.add_argument("--designs", nargs="+", default=["0", "c", "j", "l"])
    parser.add_argument("--only-designs", action="store_true", help="leave out the estimators")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    sys.exit(main(parser.parse_args()))
