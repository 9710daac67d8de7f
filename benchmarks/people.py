"""Persons with up to five records: hidden as persons, or as groups of five records.

    python benchmarks/people.py [--seeds 10] [--persons 5000]
    python benchmarks/people.py --smoke                     one study, in seconds

Five clinics hold persons with 1 to 5 visits (2.1 on average), or with 5 each: ten numbers and a
diagnosis for every visit, where a person's visits resemble each other. At the same protection of a
person (epsilon 1 at delta 1e-6, replace-one, a secure sum with one colluder) two studies learn:

    persons     rows are persons; what a person's records add is bounded together
    groups      rows are records, and the noise hides any five of them: five times the distance, so
                that of epsilon' with mu(epsilon') = mu(epsilon) / 5 for one record

Errors: of a mean, the standard deviation of the noise, in half ranges; of logistic regression
(gradient perturbation with its defaults), the excess of the log loss on visits of other persons
over a fit without privacy. Aim: persons have less than half of the error of groups.
"""

import argparse
import math
import warnings
from typing import NamedTuple

import numpy as np

import figures
import unisono
from unisono.accounting import gaussian
from unisono.algorithms import statistics
from unisono.algorithms.gradient_perturbation import GRADIENT_PERTURBATION
from unisono.algorithms.survey import STATISTICS, Survey
from unisono.core.trust import Trust, Unit
from unisono.engines import compilation_cache, in_process
from unisono.problems.linear import linear_loss

MOST, FEATURES, PARTIES = 5, 10, 5
EPSILON, DELTA = 1.0, 1e-6
VISITS = {
    "1 to 5 visits": np.array([0.45, 0.25, 0.15, 0.10, 0.05]),
    "5 visits each": np.array([0.0, 0.0, 0.0, 0.0, 1.0]),
}
AIM = 0.5
SCORECARD = figures.Benchmark(quick=("--seeds", "1"))


class Visits(NamedTuple):
    """Rows (persons, 5, features) in the unit ball and labels -1 / 1, NaN where there is no visit;
    a row ends in a constant."""

    rows: np.ndarray
    labels: np.ndarray

    @property
    def there(self) -> np.ndarray:
        return np.isfinite(self.labels)

    @property
    def records(self) -> tuple[np.ndarray, np.ndarray]:
        return self.rows[self.there], self.labels[self.there]


def visits(persons: int, chances: np.ndarray, seed: int) -> Visits:
    """Half of the variance of a visit is its person's."""
    generator = np.random.default_rng(seed)
    own = generator.normal(size=(persons, 1, FEATURES))
    points = (own + generator.normal(size=(persons, MOST, FEATURES))) / math.sqrt(2)
    weights = np.linspace(1.5, -1.5, FEATURES)
    sick = generator.random((persons, MOST)) < 1 / (1 + np.exp(-points @ weights))
    rows = np.concatenate([points / math.sqrt(FEATURES), np.ones((persons, MOST, 1))], axis=2)
    rows /= np.linalg.norm(rows, axis=2, keepdims=True)
    many = generator.choice(np.arange(1, MOST + 1), persons, p=chances)
    gone = np.arange(MOST) >= many[:, None]
    rows[gone] = np.nan
    labels = np.where(gone, np.nan, np.where(sick, 1.0, -1.0))
    return Visits(rows.astype(np.float32), labels.astype(np.float32))


def privacy_of(unit: Unit) -> unisono.Privacy:
    """For a person: its own epsilon, or that of a record of whom any five are hidden."""
    if unit is Unit.PERSON:
        return unisono.Privacy(EPSILON, DELTA)
    of_one = gaussian.epsilon(DELTA, gaussian.mu_for(EPSILON, DELTA) / MOST)
    return unisono.Privacy(of_one, DELTA)


def facts_of(unit: Unit, sizes: tuple[int, ...], features: int) -> unisono.Facts:
    many = MOST if unit is Unit.PERSON else None
    return unisono.Facts(sizes, features, len(sizes), 1, records_per_person=many)


def parts(data: Visits, unit: Unit) -> list[tuple[np.ndarray, np.ndarray]]:
    """Every party's columns."""
    cut = [
        Visits(*pair)
        for pair in zip(
            np.array_split(data.rows, PARTIES), np.array_split(data.labels, PARTIES), strict=True
        )
    ]
    return [tuple(one) if unit is Unit.PERSON else one.records for one in cut]


def mean_error(data: Visits, unit: Unit) -> float:
    """The noise in a mean over all parties, in half ranges."""
    sizes = tuple(len(labels) for _, labels in parts(data, unit))
    survey = Survey([statistics.mean(0, (-1.0, 1.0))])
    method = STATISTICS.method(survey, privacy_of(unit))
    study = unisono.Study(method, facts_of(unit, sizes, 1), Trust.SECURE_SUM)
    event = study.algorithm.event(study.facts, study.trust)
    # In units of the distance of what is weighed: one record's, or one person's, within [-1, 1].
    distance = event.sensitivity.replace_one.l2
    shared = PARTIES / study.facts.honest
    return event.noise.std / distance * 2 * math.sqrt(shared) / sum(sizes)


def fitted(data: Visits, unit: Unit, seed: int) -> np.ndarray:
    """Parameters of logistic regression."""
    columns = parts(data, unit)
    sizes = tuple(len(labels) for _, labels in columns)
    method = GRADIENT_PERTURBATION.method(linear_loss("logistic"), privacy_of(unit))
    study = unisono.Study(method, facts_of(unit, sizes, FEATURES + 1), Trust.SECURE_SUM)
    policy = {"unit": unit}
    members = [
        unisono.Party(
            f"clinic-{number}",
            unisono.Private(own),
            unisono.Ledger.in_memory(
                unisono.Policy(f"clinic-{number}", unisono.Budget(2 * EPSILON, DELTA), **policy),
                unisono.ACCOUNTANT,
                seed=seed,
            ),
        )
        for number, own in enumerate(columns)
    ]
    return np.asarray(in_process.run(study, members).value, float)


def log_loss(parameters: np.ndarray, test: tuple[np.ndarray, np.ndarray]) -> float:
    rows, labels = test
    return float(np.mean(np.logaddexp(0.0, -labels * (rows @ parameters))))


def without_privacy(train: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    from sklearn.linear_model import LogisticRegression

    model = LogisticRegression(C=1e3, max_iter=3000, fit_intercept=False)
    return np.ravel(model.fit(*train).coef_)


def regression_errors(chances: np.ndarray, persons: int, seeds: range) -> dict[Unit, float]:
    """The mean excess of the log loss, of each way."""
    found: dict[Unit, list[float]] = {Unit.PERSON: [], Unit.RECORD: []}
    for seed in seeds:
        data, test = visits(persons, chances, seed), visits(4000, chances, 1000 + seed).records
        least = log_loss(without_privacy(data.records), test)
        for unit, errors in found.items():
            errors.append(log_loss(fitted(data, unit, seed), test) - least)
    return {unit: float(np.mean(errors)) for unit, errors in found.items()}


def smoke() -> dict[str, float]:
    data = visits(100, VISITS["1 to 5 visits"], 0)
    found = fitted(data, Unit.PERSON, 0)
    ratio = mean_error(data, Unit.PERSON) / mean_error(data, Unit.RECORD)
    return {"parameters": float(found.size), "ratio of a mean": ratio}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--persons", type=int, default=5000)
    arguments = figures.options(parser, smoke)
    warnings.simplefilter("ignore")
    compilation_cache.enable()
    print(f"{'':16} {'':10} {'persons':>9} {'groups':>9} {'ratio':>7}")
    for name, chances in VISITS.items():
        data = visits(arguments.persons, chances, 0)
        means = {unit: mean_error(data, unit) for unit in (Unit.PERSON, Unit.RECORD)}
        learnt = regression_errors(chances, arguments.persons, range(arguments.seeds))
        for what, errors in (("mean", means), ("regression", learnt)):
            ratio = errors[Unit.PERSON] / errors[Unit.RECORD]
            shown = f"{errors[Unit.PERSON]:9.4f} {errors[Unit.RECORD]:9.4f} {ratio:7.2f}"
            print(f"{name:16} {what:10} {shown}", flush=True)
            figures.report(
                f"error of a {what} for persons of {name}, to group privacy of {MOST} records",
                ratio,
                "times",
                aim=AIM,
                lower=True,
                command=f"python benchmarks/people.py --seeds {arguments.seeds}",
            )


if __name__ == "__main__":
    main()
