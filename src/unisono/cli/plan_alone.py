"""Whether the smallest and the largest party would do better alone, for every task of a plan."""

from collections.abc import Iterator
from dataclasses import replace

from unisono.cli.plan_studies import (
    Candidate,
    PlanRequest,
    automatic,
    candidate,
    document,
    prediction,
)
from unisono.core.trust import Trust, Unit
from unisono.planning.alone import Alone, Place, both, exactly, fewer_records, of_a_mean, places
from unisono.planning.laws import Band
from unisono.planning.noise import noise_of
from unisono.planning.posteriors import Width, width_of
from unisono.planning.predict import Prediction
from unisono.planning.tasks import Task

_WHOLE = "alone it cannot hide that it takes part"


def alone(request: PlanRequest, chosen: Prediction) -> Iterator[Alone]:
    """What the smallest and the largest party have to expect, beside the study that is chosen."""
    whole = None
    if request.task is Task.POSTERIOR and len(request.records) > 1:
        whole = _width(candidate(document(request, chosen.algorithm, chosen.trust)))
    for place, number in places(request.records).items():
        yield _alone(request, chosen, whole, place, number)


def _alone(
    request: PlanRequest, chosen: Prediction, whole: Width | None, place: Place, number: int
) -> Alone:
    records, names = request.records[number], request.names
    own = replace(
        request,
        records=(records,),
        survivors=None,
        colluders=None,
        epsilon=request.epsilons[number],
    )
    found = _built(own, chosen)
    total, name = sum(request.records), names[number]
    match request.task:
        case Task.MEAN:
            together, promised, unshared = _mean(chosen, own, found, records, total)
        case Task.POSTERIOR:
            together, promised, unshared = _posterior(chosen, whole, found, records / total)
        case _:
            unshared = fewer_records(request.task, records, total, request.encoded, request.classes)
            together, promised = chosen.band, None
            if found.built is not None:
                noise = prediction(own, found).band
                promised = both(unshared, noise, request.classes)
    return Alone(name, place, records, together, promised, unshared, found.reason)


def _built(own: PlanRequest, chosen: Prediction) -> Candidate:
    """The study of one party, by what `auto` takes, or else by the algorithm that is chosen."""
    if chosen.unit is Unit.PARTY:
        return Candidate(chosen.algorithm, Trust.LOCAL, chosen.unit, None, _WHOLE)
    found = automatic(own, Trust.LOCAL)
    if found.built is not None and found.algorithm in own.algorithms:
        return found
    return candidate(document(own, chosen.algorithm, Trust.LOCAL))


def _mean(
    chosen: Prediction,
    own: PlanRequest,
    found: Candidate,
    records: int,
    total: int,
) -> tuple[Band, Band | None, Band]:
    width = chosen.compared_with
    promised = None
    if found.built is not None:
        noise = prediction(own, found)
        error = next(
            (one.error for one in noise.answers if one.name == chosen.about and one.error), None
        )
        promised = of_a_mean(noise.likely if error is None else error, width, records)
    return of_a_mean(chosen.likely, width, total), promised, of_a_mean(0.0, width, records)


def _posterior(
    chosen: Prediction, whole: Width | None, found: Candidate, share: float
) -> tuple[Band, Band | None, Band]:
    """Widths over that of a posterior of all records without privacy; of a share of them without
    noise it is as many times wider as roots of records go, up to the prior."""
    assert whole is not None
    unshared = exactly(min(whole.prior / whole.plain, share**-0.5))
    promised = None
    if found.built is not None:
        promised = exactly(_width(found).private / whole.plain)
    return chosen.band, promised, unshared


def _width(found: Candidate) -> Width:
    assert found.built is not None
    return width_of(found.built.study, noise_of(found.built.study))


__all__ = ["alone"]
