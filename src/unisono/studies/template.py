"""A first study file from a few answers, with a comment on every line that people ask about."""

import json
import math
import re
from dataclasses import dataclass
from typing import Literal

from unisono.core.defaults import default_colluders, default_relation, default_trust
from unisono.core.trust import Trust, Unit
from unisono.errors import InvalidInput

Goal = Literal["statistics", "classes", "number", "network", "posterior", "clusters"]
GOALS: dict[Goal, str] = {
    "statistics": "means, histograms and the like",
    "classes": "predict a category (yes or no, or several) by a linear model",
    "number": "predict a number by a linear model",
    "network": "predict a category or a number by a network",
    "posterior": "a model with probabilities of its weights (Bayesian)",
    "clusters": "groups of records that resemble each other",
}
WHOLE_PARTIES = ("fed-avg", "pvi-clipped-updates")
AT_HOME = ("local-dp-sgd", "pvi-dp-sga")
_OWN = {
    "statistics": "",
    "k-means": "clusters = 3\nrounds = 8\n",
    "gradient-perturbation": "rounds = 50\n",
    "dp-sgd-convex": "rounds = 100\nrate = 0.1                     # a record's chance per round\n",
    "output-perturbation": "",
    "sgd-synchronous": "rounds = 100\n",
    "dp-sgd": "hidden = [32]\nrounds = 100\nrate = 0.1                     # a record's chance\n",
    "local-dp-sgd": "hidden = [32]\nrounds = 20\nsteps = 10\n",
    "dp-ftrl": "hidden = [32]\nrounds = 100\nseparation = 10\n",
    "fed-avg": "hidden = [32]\nrounds = 50\n",
    "one-shot-regression": "",
    "pvi-natural-gradient": "rounds = 12\n",
    "pvi-dp-sga": "rounds = 10\nsteps = 20\n",
    "pvi-clipped-updates": "rounds = 10\n",
}
_LINEAR = ("gradient-perturbation", "dp-sgd-convex", "output-perturbation", "sgd-synchronous")


@dataclass(frozen=True)
class Answers:
    """What `unisono init` asks. A column is a pair of bounds, or the values of a category."""

    title: str
    goal: Goal
    columns: dict[str, tuple[float, float] | tuple[str, ...]]
    parties: dict[str, int]
    target: str | None = None
    epsilon: float = 1.0
    delta: float | None = None
    trust: Trust | None = None
    algorithm: str | None = None
    server: str | None = None
    test: str | None = None


def parse_column(text: str) -> tuple[float, float] | tuple[str, ...]:
    """LOW:HIGH are the bounds of a number, words with commas the values of a category.

    >>> parse_column("0:120"), parse_column("yes, no")
    ((0.0, 120.0), ('yes', 'no'))
    """
    low, colon, high = text.partition(":")
    if colon and "," not in text:
        try:
            bounds = float(low), float(high)
        except ValueError:
            raise InvalidInput(f"{text!r} are no bounds: write LOW:HIGH, as 0:120") from None
        if not (math.isfinite(sum(bounds)) and bounds[0] < bounds[1]):
            raise InvalidInput(f"{text!r} are no bounds: the lowest comes first, as 0:120")
        return bounds
    values = tuple(value.strip() for value in text.split(","))
    if len(values) < 2 or not all(values) or len(set(values)) < len(values):
        raise InvalidInput(
            f"{text!r}: write LOW:HIGH for a number, as 0:120, or all values of a category, as "
            "yes,no"
        )
    return values


def parse_parties(text: str) -> dict[str, int]:
    """Names with their numbers of records.

    >>> parse_parties("north=300, south=200")
    {'north': 300, 'south': 200}
    """
    found: dict[str, int] = {}
    for part in text.split(","):
        name, _, records = (piece.strip() for piece in part.partition("="))
        if not name or not records.isdecimal() or not int(records) or name in found:
            raise InvalidInput(
                f"{part.strip()!r}: write each party once as NAME=RECORDS, as north=300,south=200"
            )
        found[name] = int(records)
    return found


def algorithm_for(answers: Answers) -> str:
    """The algorithm that a goal asks for, unless one is named."""
    if answers.algorithm is not None:
        if answers.algorithm not in _OWN:
            raise InvalidInput(
                f"algorithm {answers.algorithm!r} is unknown: choose one of {', '.join(_OWN)}"
            )
        return answers.algorithm
    if answers.goal == "posterior":
        return "one-shot-regression" if _is_number(answers) else "pvi-natural-gradient"
    return {
        "statistics": "statistics", "classes": "gradient-perturbation",
        "number": "gradient-perturbation", "network": "dp-sgd", "clusters": "k-means",
    }[answers.goal]  # fmt: skip


def study_text(answers: Answers) -> str:
    """The file; whoever writes it should read it back first (`file.parse_study`)."""
    name = algorithm_for(answers)
    whole = name in WHOLE_PARTIES
    unit = Unit.PARTY if whole else Unit.RECORD
    usual = Trust.LOCAL if name in AT_HOME else default_trust(len(answers.parties))
    mode = answers.trust or usual
    units = len(answers.parties) if whole else sum(answers.parties.values())
    delta = small_delta(units) if answers.delta is None else answers.delta
    asks = name in ("statistics", "k-means")
    target = f"target = {_quoted(answers.target or '')}"
    predicted = "" if asks else f"{target:<30} # the column to predict\n"
    parties = "".join(
        f"\n[[parties]]\nname = {_quoted(party)}\nrecords = {records}\n"
        for party, records in answers.parties.items()
    )
    return f"""\
# What all parties agree on, each before it reads a record. `unisono check` explains this file.
title = {_quoted(answers.title)}
edition = 1                    # a study runs once; to run it again, agree on the next edition

[data]
{predicted}sizes = "exact"                # "hidden" goes with relation = "add-or-remove"

[data.columns]                 # bounds and values are public knowledge, never read from records
{_columns(answers, name)}{parties}
[privacy]                      # what the whole study may cost
epsilon = {answers.epsilon:g}                    # smaller hides more; 1 is good, above 8 is weak
delta = {delta:g}                  # far below 1 / number of {"parties" if whole else "records"}
unit = "{unit}"                # whose presence is hidden
relation = "{default_relation(unit)}"       # what is hidden of it

[trust]
mode = "{mode}"{_trust_comment(mode)}
{_crowd(answers, mode)}
[algorithm]
name = "{name}"
{_algorithm(answers, name)}{_tail(answers)}"""


def small_delta(units: int) -> float:
    """A power of ten well below 1 / units.

    >>> small_delta(569)
    1e-05
    """
    return float(f"1e-{math.ceil(math.log10(max(units, 2))) + 2}")


def _columns(answers: Answers, name: str) -> str:
    lines = []
    for column, said in answers.columns.items():
        key = column if re.fullmatch(r"[A-Za-z0-9_-]+", column) else _quoted(column)
        if _numeric(said):
            kind = f'{{ kind = "number", bounds = [{said[0]:g}, {said[1]:g}] }}'
        elif name == "k-means":
            lines.append(f"# {key}: left out, clusters are of numbers")
            continue
        else:
            values = ", ".join(_quoted(str(value)) for value in said)
            kind = f'{{ kind = "category", values = [{values}] }}'
        lines.append(f"{key} = {kind}")
    return "\n".join(lines) + "\n"


def _algorithm(answers: Answers, name: str) -> str:
    if name == "statistics":
        return "".join(
            f'\n[[algorithm.questions]]\nask = "{"mean" if _numeric(said) else "histogram"}"\n'
            f"column = {_quoted(column)}\n"
            for column, said in answers.columns.items()
        )
    if name in _LINEAR:
        loss = "squares" if _is_number(answers) else "logistic"
        return f'loss = "{loss}"\n{_OWN[name]}'
    return _OWN[name]


def _crowd(answers: Answers, mode: Trust) -> str:
    parties = len(answers.parties)
    survivors = max(parties - 1, 3) if parties > 3 else parties
    lines = f"minimum_survivors = {survivors}          # so many must answer in every round\n"
    colluders = default_colluders(mode, survivors)
    return lines + f"colluders = {colluders}                  # so many may work with the server\n"


def _tail(answers: Answers) -> str:
    tail = ""
    if answers.test:
        words = "public records to test the result on, beside this file"
        tail += f"\n[evaluation]\nfile = {_quoted(answers.test)}          # {words}\n"
    if answers.server:
        tail += f"\n[server]\naddress = {_quoted(answers.server)}\n"
    return tail


def _trust_comment(mode: Trust) -> str:
    return {
        Trust.SECURE_SUM: "            # the server learns noisy sums only",
        Trust.LOCAL: "                 # every party adds all of the noise itself",
        Trust.TRUSTED_SERVER: "        # the server sees everything",
    }[mode]


def _is_number(answers: Answers) -> bool:
    return _numeric(answers.columns.get(answers.target or "", ("", "")))


def _numeric(said: tuple[float, float] | tuple[str, ...]) -> bool:
    return all(isinstance(end, float) for end in said)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


ALGORITHMS = tuple(_OWN)

__all__ = ["ALGORITHMS", "GOALS", "Answers", "Goal", "algorithm_for", "parse_column",
           "parse_parties", "small_delta", "study_text"]  # fmt: skip
