"""A study in plain words, before anything runs: what is learnt, what it costs, what may go wrong.

All of it follows from the file. Costs are computed from the study itself, as every party and every
ledger computes them; the epsilon that the file states is not believed.
"""

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unisono.accounting.accountant import ACCOUNTANT
from unisono.core.certificate import TRUST_WORDS
from unisono.core.success import attack_success
from unisono.core.trust import FINAL_MODEL, Relation, Unit, Viewer, describe
from unisono.core.words import number, promise_words, times
from unisono.data.schema import Schema
from unisono.errors import LargeDeltaWarning
from unisono.planning.noise import Noise, noise_of
from unisono.studies.build import Built, build
from unisono.studies.dangers import Danger, dangers
from unisono.studies.schema import StudyFile
from unisono.studies.search import SearchBuilt, plan_words


@dataclass(frozen=True)
class ExplainedCost:
    """What the whole study shows of some parties' records to one viewer, under one relation."""

    parties: tuple[str, ...]
    viewer: Viewer
    relation: Relation
    epsilon: float
    delta: float
    guess: float


@dataclass(frozen=True)
class Explanation:
    """Everything that `unisono check` says."""

    built: Built
    learnt: tuple[str, ...]
    costs: tuple[ExplainedCost, ...]
    promise: tuple[str, ...]
    noise: Noise
    noise_words: str
    dangers: tuple[Danger, ...]

    def to_json(self) -> dict[str, Any]:
        file = self.built.file
        return {
            "title": file.title,
            "edition": file.edition,
            "file": file.hash,
            "study": self.built.study.hash,
            "learnt": list(self.learnt),
            "costs": [
                {
                    "parties": list(cost.parties),
                    "viewer": str(cost.viewer),
                    "relation": str(cost.relation),
                    "epsilon": cost.epsilon,
                    "delta": cost.delta,
                    "guess": cost.guess,
                }
                for cost in self.costs
            ],
            "promise": list(self.promise),
            "noise": {
                **self.noise._asdict(),
                "signal_to_noise": self.noise.ratio,
                "signal_to_noise_of_the_run": self.noise.total,
                "words": self.noise_words,
            },
            "dangers": [danger.to_json(file) for danger in self.dangers],
        }


def explain(file: StudyFile) -> Explanation:
    """Read a study as its parties should, before they agree to it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LargeDeltaWarning)  # said below, with a remedy
        built = build(file)
    costs, noise = tuple(_costs(built)), noise_of(built.study)
    worst = _worst(file, costs)
    return Explanation(
        built,
        tuple(_learnt(built, worst)),
        costs,
        tuple(_promise(file, worst, costs)),
        noise,
        _noise_words(file, noise),
        tuple(dangers(built, worst, noise)),
    )


def warnings_of(built: Built) -> list[Danger]:
    """What nobody should overlook who is about to run a study: promises that are weak, results that
    will be useless, and settings that do something else than they seem to."""
    worst = _worst(built.file, tuple(_costs(built)))
    found = dangers(built, worst, noise_of(built.study))
    return [danger for danger in found if danger.level == "warning" or danger.unmeant]


def _worst(file: StudyFile, costs: tuple[ExplainedCost, ...]) -> dict[str, float]:
    """The largest cost of any party against each viewer, under the study's own relation."""
    worst: dict[str, float] = {}
    for cost in costs:
        if cost.relation is file.privacy.relation:
            worst[str(cost.viewer)] = max(cost.epsilon, worst.get(str(cost.viewer), 0.0))
    return worst


# ------------------------------------------------------------- what is learnt


def _answering(built: Built) -> str:
    algorithm, facts = built.study.algorithm, built.study.facts
    if algorithm.named is not None:
        return (
            f"In each of {times(algorithm.rounds, 'step')} one party answers, for one record that "
            f"the coordinator names; at most {times(algorithm.named.uses, 'time')} for each"
        )
    return (
        f"At least {facts.minimum_parties} of {facts.parties} parties must answer in each of "
        f"{times(algorithm.rounds, 'round')}"
    )


def _learnt(built: Built, worst: Mapping[str, float]) -> list[str]:
    file, facts = built.file, built.study.facts
    names = file.names if len(file.names) <= 6 else (*file.names[:5], f"{len(file.names) - 5} more")
    people = f"{times(len(file.names), 'party', 'parties')} ({', '.join(names)}) with "
    about = "about " if file.data.sizes == "hidden" else ""
    lines = [
        f"{_aim(built)}, from {people}{about}{sum(p.records for p in file.parties):,} "
        f"{_counted(file)}.",
        f"{str(file.trust.mode).capitalize()}: {TRUST_WORDS[file.trust.mode]}. "
        f"{_answering(built)}; {facts.colluders} may work together with the server.",
    ]
    if isinstance(built, SearchBuilt):
        lines.append(plan_words(built))
    if built.reason:
        lines.append(f"The algorithm was left open; {built.algorithm.name}: {built.reason}.")
    if built.study.algorithm.printed is not None:
        finite = [value for value in worst.values() if math.isfinite(value)]
        words = built.study.algorithm.printed.words(max(finite, default=math.inf))
        lines.append(f"{words[:1].upper()}{words[1:]}.")
    if built.start is not None and (first := built.study.method.earlier) is not None:
        before = " and ".join(kind.name for kind in built.study.method.before)
        lines.append(
            f"It begins with the answer of {before}: "
            f"{times(built.start.study.algorithm.rounds, 'release')} before the first round, for "
            f"{first.share:.0%} of epsilon and delta. The costs below are for all of it."
        )
    if built.bounds is not None and file.data.unlisted:
        found = built.bounds
        lines.append(
            f"The values of {_listed(tuple(file.data.unlisted))} are not known: noisy counts, "
            f"released before all else, find the most frequent ones for epsilon "
            f"{_first(built):.3g} of {file.privacy.epsilon:g} (bounds_share = "
            f"{file.privacy.bounds_share:g}). Usual ones, as whole numbers, yes and no, and the "
            f"candidates, are found from about "
            f"{found.least_count:,.0f} records on, others from about "
            f"{found.least_spelt:,.0f}; records with values that are not found teach nothing."
        )
    if built.bounds is not None and file.data.private:
        ranges = built.bounds
        lines.append(
            f"The ranges of {_listed(file.data.private)} are not known: one noisy histogram of "
            f"each, released before all else, pays for them with epsilon {_first(built):.3g} of "
            f"{file.privacy.epsilon:g} (bounds_share = {file.privacy.bounds_share:g}). A range "
            f"holds all but about 2 % of the records; others are clipped to it."
            + ("" if ranges.ratio >= 3 else f" {_GUESSES}")
        )
    lines += _missing(file.data)
    lines += file.model_kind.notes(file.model_settings, built.algorithm)
    if built.test is not None and file.evaluation is not None:
        some = f"{sum(file.held_out):,} {_counted(file)}"
        if file.data.sizes == "hidden":
            some = f"About {some}, by a secret coin for each,"
        lines.append(
            f"{some} are kept out of training to test the "
            f"result, which costs epsilon {file.evaluation.epsilon:g} in addition."
        )
    if file.evaluation is not None and file.evaluation.file is not None:
        lines.append(f"The result is also tested on {file.evaluation.file}, which is public.")
    return lines


def _missing(data: Schema) -> Iterator[str]:
    """What becomes of missing values, by what is declared."""
    if fills := data.fills:
        said = "; ".join(f"{name}: {words}" for name, words in fills.items())
        yield f"A public value takes the place of a missing one: {said}."
    counted = tuple(name for name, own in data.columns.items() if own.incomplete and own.drops)
    if counted:
        more = ""
        if data.target is None:
            more = (
                ". How many values are there is released with each answer, and intervals include "
                "its noise: declare complete = true for a column in which none can be missing"
            )
        yield f"A missing value of {_listed(counted)} does not count{more}."


_GUESSES = (
    "There are so few records beside the noise that these ranges will be guesses: declare public "
    "bounds, or raise bounds_share."
)


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(names if len(names) <= 6 else (*names[:5], f"{len(names) - 5} more"))


def _first(built: Built) -> float:
    """What the ranges cost against whoever sees results, of the party that pays most."""
    assert built.bounds is not None
    privacy = built.file.privacy
    return max(
        ACCOUNTANT.epsilon(cost[FINAL_MODEL], privacy.relation, privacy.delta)
        for cost in built.bounds.study.costs
    )


def _counted(file: StudyFile) -> str:
    """What a party's public size counts."""
    return "records" if file.data.person is None else "persons"


def _aim(built: Built) -> str:
    """What is learnt, and how."""
    file = built.file
    phrase = file.model_kind.learns(file.model_settings, file.data)
    return f"Learns {phrase}, by {built.algorithm.name}"


# ------------------------------------------------------------- what it costs


def _costs(built: Built) -> list[ExplainedCost]:
    """Parties that pay alike are one line."""
    groups: dict[tuple[Any, ...], list[str]] = {}
    kinds: dict[tuple[Any, ...], Mapping[Viewer, Any]] = {}
    for name, cost in zip(built.file.names, built.costs, strict=True):
        key = tuple(cost.items())
        groups.setdefault(key, []).append(name)
        kinds[key] = cost
    delta = built.file.privacy.delta
    return [
        ExplainedCost(
            tuple(names),
            viewer,
            relation,
            ACCOUNTANT.epsilon(history, relation, delta),
            delta,
            ACCOUNTANT.guess(history, relation, delta),
        )
        for key, names in groups.items()
        for viewer, history in kinds[key].items()
        for relation in history.relations
    ]


def _promise(
    file: StudyFile, worst: Mapping[str, float], costs: Sequence[ExplainedCost]
) -> list[str]:
    """What one unit's owner is promised, and against whom not."""
    privacy = file.privacy
    finite = [value for value in worst.values() if math.isfinite(value)]
    lines = []
    if (success := attack_success(costs, privacy.relation, privacy.unit)) is not None:
        stated = promise_words(max(finite), privacy.delta, privacy.relation, privacy.unit)
        lines += [stated, success.sentence]
    lines += [
        f"No promise at all against {describe(Viewer(viewer))}."
        for viewer, value in worst.items()
        if math.isinf(value)
    ]
    return lines


def _noise_words(file: StudyFile, noise: Noise) -> str:
    """How the noise compares with what there is to learn."""
    unit = "parties" if file.privacy.unit is Unit.PARTY else _counted(file)
    alike = noise.std * math.sqrt(noise.numbers) / noise.bound
    many = (
        ""
        if noise.rounds == 1
        else (
            f"; over all rounds what is common to them outweighs it {number(noise.total, 2)} times "
            "at best"
        )
    )
    each = "The sum" if noise.rounds == 1 else "The sum of each round"
    if noise.units == 1 and noise.rounds > 1:
        single = f"Each message is of one record, and its noise weighs {number(alike, 2)} times"
        return f"{single} as much{many}."
    return (
        f"{each} is over about {number(noise.units, 3)} {unit}, and its noise weighs as much as "
        f"{number(alike, 2)} of them{many}."
    )


__all__ = ["ExplainedCost", "Explanation", "explain", "warnings_of"]
