"""Do 95 % intervals of Bayesian estimators hold the true coefficients, in the user's units?

    python benchmarks/posterior_coverage.py [--quick | --smoke] [--fits n]

Records are made up as a user has them: columns in their own units inside public bounds that are
wider than the data, dealt to four parties; the model that makes the labels is the one that is
fitted, with every default of the estimator (delta 1e-5, replace-one, secure sum). Each fit has its
own records and its own noise. Printed for every setting: the share of intervals that hold the
truth, pooled, the worst coefficient, those of which something was learnt, how often rounds
disagreed (not converged), and the median width over that of maximum likelihood without privacy.

Of 100 fits the share of one coefficient has a standard error of 2 points at a true 95 %: a worst
of six coefficients below 90 % is then a chance of one in 40.
"""

import argparse
import sys
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

from figures import Benchmark, report, smoked
from unisono.estimators import BayesianLinearRegression, BayesianLogisticRegression

SCORECARD = Benchmark()

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
        model = BayesianLinearRegression(
            bounds=(LOW, HIGH), target_bounds=TARGETS, noise_std=SPREAD, **options
        )
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
    pooled = []
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
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    sys.exit(main(parser.parse_args()))
