"""Which study a plan recommends, and what would make a useless one work.

The rule, of all studies that hide the unit that was asked for:

    1. local noise, if it is good: nobody needs to be trusted with anything
    2. else a secure sum, if it is good or usable: only a noisy sum is opened
    3. else local noise, if it is usable
    4. else a trusted server, if it is good or usable
    5. else a doubtful one, in the same order, with the remedies
    6. else whatever loses least, with the remedies

Under a trust it takes the algorithm that `auto` takes (`studies.build.chosen`): what is recommended
is what will run. Where `auto` has none that hides the unit, it takes the first algorithm that loses
at most a tenth more than the best one; where only some predictions are rough (posteriors), the
others come first. Remedies are tried, not
guessed: the study is built again with a larger budget, more parties or fewer features until the
prediction is usable.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from unisono.cli.plan_studies import (
    Candidate,
    PlanRequest,
    automatic,
    candidate,
    document,
    prediction,
)
from unisono.core.trust import Trust, Unit
from unisono.planning.predict import Prediction
from unisono.planning.tasks import Task
from unisono.planning.verdicts import Grade

USEFUL = (Grade.GOOD, Grade.USABLE)
_NEARLY = 1.1
_DOUBLINGS = 7
_WHO = {
    Trust.LOCAL: "every party adds its own noise, so nobody needs to be trusted",
    Trust.SECURE_SUM: "only the noisy sum is opened, so nobody sees a party's own values",
    Trust.TRUSTED_SERVER: "only a server that sees clean values adds little enough noise",
}


class AdviceLine(NamedTuple):
    """A candidate and what is expected of it; no prediction where it cannot run."""

    candidate: Candidate
    prediction: Prediction | None


class Remedy(NamedTuple):
    """A change after which a study would be usable."""

    words: str
    prediction: Prediction


def taken_by_auto(request: PlanRequest, unit: Unit) -> dict[Trust, str]:
    """The algorithm that `auto` takes under each trust, where it can run and hides the unit."""
    found = {trust: automatic(request, trust) for trust in Trust}
    return {
        trust: one.algorithm
        for trust, one in found.items()
        if one.built is not None and one.unit is unit
    }


def recommended(
    lines: Sequence[AdviceLine], unit: Unit, taken: Mapping[Trust, str] = MappingProxyType({})
) -> Prediction | None:
    """The study that the rule takes; None where none can run."""
    best = {trust: _prediction(line) for trust, line in best_by_trust(lines, unit, taken).items()}
    local = best.get(Trust.LOCAL)
    if local and local.grade is Grade.GOOD:
        return local
    for grades in (USEFUL, (Grade.DOUBTFUL,)):
        for trust in (Trust.SECURE_SUM, Trust.LOCAL, Trust.TRUSTED_SERVER):
            if trust in best and best[trust].grade in grades:
                return best[trust]
    return min(best.values(), default=None, key=lambda one: one.likely)


def best_by_trust(
    lines: Sequence[AdviceLine], unit: Unit, taken: Mapping[Trust, str] = MappingProxyType({})
) -> dict[Trust, AdviceLine]:
    """The study to take under each trust: by the algorithm that is `taken` there, if there is one,
    else by what is predicted."""
    found = {}
    for trust in Trust:
        able = [x for x in lines if x.prediction and x.candidate[1:3] == (trust, unit)]
        able = [x for x in able if x.candidate.algorithm == taken.get(trust)] or able
        able = [x for x in able if not _prediction(x).rough] or able
        least = min((_prediction(x).likely for x in able), default=0.0)
        for line in able:
            if _prediction(line).likely <= _NEARLY * least:
                found[trust] = line
                break
    return found


def _prediction(line: AdviceLine) -> Prediction:
    assert line.prediction is not None
    return line.prediction


def reason(chosen: Prediction) -> str:
    """Why the rule took it, in a sentence."""
    if chosen.grade is Grade.USELESS:
        return "no study would give a useful result with this budget"
    if chosen.grade is Grade.DOUBTFUL:
        return "it may turn out to be useless"
    return _WHO[chosen.trust]


def remedies(
    request: PlanRequest, found: Prediction, lines: Sequence[AdviceLine]
) -> Iterator[Remedy]:
    """What would make a doubtful or useless study usable, each change by itself."""
    for line in lines:
        other = line.prediction
        same = line.candidate.unit is found.unit and other and other.trust is not found.trust
        if other and same and other.grade in USEFUL:
            name = f"{other.algorithm} with trust {other.trust}"
            yield Remedy(f"{name} instead of {found.trust}", other)
            break
    yield from _first(
        request,
        found,
        lambda times: replace(request, epsilon=request.epsilon * times),
        lambda times: f"epsilon {request.epsilon * times:g} instead of {request.epsilon:g}",
    )
    count = len(request.records)
    yield from _first(
        request,
        found,
        request.crowd,
        lambda times: f"{count * times} parties of this size instead of {count}",
    )
    numbers_only = request.file is None and not request.categories
    if numbers_only and request.task is not Task.MEAN and request.parameters is None:
        yield from _first(
            request,
            found,
            lambda times: replace(request, features=max(1, request.features // times)),
            lambda times: (
                f"{max(1, request.features // times)} features instead of {request.features}"
            ),
            request.features,
        )


def _first(
    request: PlanRequest,
    found: Prediction,
    changed: Callable[[int], PlanRequest],
    words: Callable[[int], str],
    most: int = 2**_DOUBLINGS,
) -> Iterator[Remedy]:
    """The least doubling after which the study is usable, if there is one."""
    times = 2
    while times <= most and sum(changed(times).records) <= 10**7:
        other = changed(times)
        made = candidate(document(other, found.algorithm, found.trust))
        if made.built is not None:
            seen = prediction(other, made)
            if seen.grade in USEFUL:
                yield Remedy(words(times), seen)
                return
        times *= 2


__all__ = [
    "USEFUL",
    "AdviceLine",
    "Remedy",
    "best_by_trust",
    "reason",
    "recommended",
    "remedies",
    "taken_by_auto",
]
