"""Widths of intervals as `unisono plan` predicts them for a glm study, beside those of runs.

    python benchmarks/interval_widths.py [--quick] [--seeds 5]

Standard errors in the plan's units (per deviation of a number, for a value of a category, gaussian
targets in their own deviations), the median over runs with simulated noise. Designs:

    as supposed     four independent normal columns, a balanced value, a balanced outcome
    the same, few   with 2,000 records, where noise is large
    survey          age, a skewed number with 3 % missing, unequal values; 22 % have the outcome,
                    and the plan is told so, or not
    pressure        the same columns, a gaussian target
    visits          the same columns, counts more dispersed than Poisson's
    against it      columns correlated by .7, one log-normal, a value that 5 % have, large effects

The plan knows none of a design but its public columns, and the share of the outcome where told.
"""

import argparse
import sys
import warnings
from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

import figures
from unisono.accounting.accountant import ACCOUNTANT
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.study import Party
from unisono.core.values import Private
from unisono.engines import in_process
from unisono.planning.widths import Widths, widths_of
from unisono.studies.build import Built, build
from unisono.studies.file import parse_study
from unisono.studies.stages import FIT, START

SCORECARD = figures.Benchmark(seconds=900)

Columns = dict[str, np.ndarray]


class Design(NamedTuple):
    """Columns as study files declare them, records of each party, and how records are drawn."""

    columns: Mapping[str, str]
    records: tuple[int, ...]
    draw: Callable[[np.random.Generator, int], Columns]
    settings: str = ""
    share: float | None = None


def number(low: float, high: float, more: str = "") -> str:
    return f'{{ kind = "number", bounds = [{low}, {high}]{more} }}'


def category(*values: str) -> str:
    return f'{{ kind = "category", values = {list(values)!r} }}'


def chance(scores: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-scores))


def supposed(random: np.random.Generator, n: int) -> Columns:
    x = np.clip(random.normal(size=(n, 4)), -4, 4)
    s = random.integers(0, 2, n).astype(float)
    scores = 0.2 * x[:, 0] - 0.1 * x[:, 1] + 0.2 * (s - 0.5)
    found = dict(zip("abcd", x.T, strict=True))
    return {**found, "s": s, "y": (random.random(n) < chance(scores)).astype(float)}


def survey(random: np.random.Generator, n: int) -> Columns:
    age = np.clip(random.normal(55, 14, n), 18, 95)
    bmi = np.clip(random.lognormal(3.25, 0.18, n), 14, 60)
    sex = random.integers(0, 2, n).astype(float)
    smoke = random.choice(3, n, p=[0.5, 0.3, 0.2]).astype(float)
    scores = -1.6 + 0.03 * (age - 55) + 0.05 * (bmi - 26) + 0.3 * sex
    scores += 0.2 * (smoke == 1) + 0.6 * (smoke == 2)
    y = (random.random(n) < chance(scores)).astype(float)
    bmi = np.where(random.random(n) < 0.03, np.nan, bmi)
    return {"age": age, "bmi": bmi, "sex": sex, "smoke": smoke, "y": y}


def pressure(random: np.random.Generator, n: int) -> Columns:
    found = survey(random, n)
    bmi = np.nan_to_num(found["bmi"], nan=26.0)
    mean = 120 + 0.5 * (found["age"] - 55) + 0.8 * (bmi - 26) + 4 * found["sex"]
    return {**found, "y": np.clip(mean + random.normal(0, 15, n), 70, 250)}


def visits(random: np.random.Generator, n: int) -> Columns:
    found = survey(random, n)
    mean = np.exp(0.3 + 0.02 * (found["age"] - 55) + 0.4 * (found["smoke"] == 2))
    return {**found, "y": np.minimum(random.poisson(mean * random.gamma(2, 0.5, n)), 30.0)}


def against(random: np.random.Generator, n: int) -> Columns:
    x = random.normal(size=(n, 4))
    x[:, 1] = 0.7 * x[:, 0] + np.sqrt(0.51) * x[:, 1]
    x[:, 2] = np.clip(np.exp(0.8 * x[:, 2]), 0, 20)
    x = np.clip(x, -6, 20)
    s = (random.random(n) < 0.05).astype(float)
    scores = -1 + 0.8 * x[:, 0] - 0.5 * x[:, 1] + 0.2 * x[:, 2] + 0.5 * s
    found = dict(zip("abcd", x.T, strict=True))
    return {**found, "s": s, "y": (random.random(n) < chance(scores)).astype(float)}


EVEN = {**dict.fromkeys("abcd", number(-4, 4)), "s": category("u", "v"), "y": category("no", "yes")}
SURVEY = {
    "age": number(18, 100),
    "bmi": number(10, 70, ', missing = "drop record"'),
    "sex": category("female", "male"),
    "smoke": category("never", "former", "current"),
}
HARD = {**EVEN, **dict.fromkeys("abd", number(-6, 6)), "c": number(0, 20)}
THREE, FIVE = (5000, 2500, 1500), (3000, 2000, 1500, 1000, 500)
OUTCOME = {"y": category("no", "yes")}
DESIGNS = {
    "as supposed": Design(EVEN, FIVE, supposed),
    "the same, few": Design(EVEN, (800, 500, 400, 300), supposed),
    "survey, told": Design({**SURVEY, **OUTCOME}, THREE, survey, share=0.22),
    "survey, not told": Design({**SURVEY, **OUTCOME}, THREE, survey),
    "pressure": Design({**SURVEY, "y": number(60, 260)}, THREE, pressure),
    "visits": Design({**SURVEY, "y": number(0, 30)}, THREE, visits, 'family = "poisson"'),
    "against it": Design(HARD, THREE, against, share=0.34),
}


def built(design: Design) -> Built:
    columns = "\n".join(f"{name} = {said}" for name, said in design.columns.items())
    parties = "\n".join(
        f'[[parties]]\nname = "party-{k}"\nrecords = {size}'
        for k, size in enumerate(design.records, start=1)
    )
    return build(
        parse_study(
            f'title = "Widths"\n[data]\ntarget = "y"\n[data.columns]\n{columns}\n{parties}\n'
            '[privacy]\nepsilon = 1\ndelta = 1e-6\n[trust]\nmode = "secure-sum"\n'
            f'[model]\nname = "glm"\n{design.settings}\n'
        )
    )


def errors(study: Built, design: Design, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Standard errors of one run, and which part of them sampling is; the intercept left out."""
    table = design.draw(np.random.default_rng(900 + seed), sum(design.records))
    [rows] = study.posed.encode(table)
    parts = np.split(rows.astype(np.float32), np.cumsum(design.records)[:-1])
    parties = []
    for k, (name, own) in enumerate(zip(study.file.names, parts, strict=True)):
        policy = Policy(name, Budget(10.0, 1e-4))
        ledger = Ledger.in_memory(policy, ACCOUNTANT, seed=10 * seed + k)
        parties.append(Party(name, Private((own,)), ledger))
    stages = {stage.name: stage.study for stage in study.stages}
    start = in_process.run(stages[START], parties)
    shown = study.present(in_process.run(stages[FIT].begun(start.value), parties))
    found = list(shown["coefficients"].values())[1:]
    wide = np.array([one.get("std_error", np.nan) for one in found])
    return wide, np.array([1 - one.get("privacy_share", np.nan) for one in found])


def units(design: Design, planned: Widths) -> np.ndarray:
    """What errors in the columns' own units are multiplied by, one for each coefficient."""
    many = design.draw(np.random.default_rng(1), 100_000)
    target = float(np.std(many["y"])) if planned.family == "gaussian" else 1.0
    return np.array(
        [
            (float(np.nanstd(many[one.name])) if one.number else 1.0) / target
            for one in planned.columns
            for _ in range(max(one.values - 1, 1))
        ]
    )


def compared(design: Design, seeds: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Predicted over measured errors, and how many times wider privacy makes them: predicted and
    measured; one of each for every coefficient."""
    study = built(design)
    planned = widths_of(study.study, design.share)
    wide, part = zip(*(errors(study, design, seed) for seed in range(seeds)), strict=True)
    measured = np.nanmedian(wide, axis=0) * units(design, planned)
    times = [max(one.values - 1, 1) for one in planned.columns]
    predicted = np.repeat([one.std_error for one in planned.columns], times)
    wider = np.repeat([one.inflation for one in planned.columns], times)
    return predicted / measured, wider, 1 / np.nanmedian(part, axis=0)


def smoke() -> dict[str, float]:
    warnings.simplefilter("ignore")
    found, _, _ = compared(DESIGNS["as supposed"], 1)
    return {"predicted over measured": float(np.median(found))}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="one seed")
    arguments = figures.options(parser, smoke)
    warnings.simplefilter("ignore")  # simulations on made-up data
    seeds = 1 if arguments.quick else arguments.seeds
    for name, design in DESIGNS.items():
        found, planned, measured = compared(design, seeds)
        print(
            f"{name:18} predicted / measured {found.min():.2f} to {found.max():.2f}; wider by "
            f"privacy {planned.min():.2f} to {planned.max():.2f}, measured {measured.min():.2f} "
            f"to {measured.max():.2f}",
            flush=True,
        )
        figures.report(f"width of intervals, {name}", float(np.median(found)), "of measured")
    return 0


if __name__ == "__main__":
    sys.exit(main())
