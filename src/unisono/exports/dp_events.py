"""What a run has shown, as events of Google's dp-accounting, so that others can check our epsilon.

Each event is replaced by the pair of distributions that dominates it (`accounting.law_costs`), and
the pair by the event of dp-accounting that has it. Distances between neighbours are counted into
noise multipliers, so an accountant of relation ADD_OR_REMOVE_ONE is right for all of them:

    N(0, 1) against N(μ, 1)       GaussianDpEvent(1 / μ)
    Laplace at distance ε         LaplaceDpEvent(1 / ε)
    discrete Laplace, m steps     DiscreteLaplaceDpEvent(1 / scale, m)
    pure ε                        DiscreteLaplaceDpEvent(ε, 1), which every ε-DP release is
                                  post-processed from (Kairouz et al. 2015)
    a Poisson sample of these     PoissonSampledDpEvent, where neighbours differ by one record
    the value itself              NonPrivateDpEvent

Noise that differs from its law by a gap and a slack costs ε = ε₀ + 2 slack at δ, with ε₀ that of
the events at `delta_for_events` (`accounting.curve`). What has no such pair is refused.
"""

import json
import math
from typing import Any

from unisono.accounting.laplace_pairs import DiscreteLaplacePair
from unisono.accounting.law_costs import pair
from unisono.accounting.pairs import PurePair
from unisono.accounting.shift_pairs import GaussianPair, LaplacePair
from unisono.core.events import Composed, Event, composed_from_json
from unisono.core.trust import Relation
from unisono.errors import InvalidInput, UndefinedRelation
from unisono.models.fitted import FittedModel

FORMAT = "unisono-dp-events-1"


def dp_events(model: FittedModel, relation: str | None = None) -> dict[str, Any]:
    """Events, delta and our epsilon against every viewer, under a relation; without one, under the
    first that the certificate states and that has counterparts."""
    certificate = model.certificate
    stated = list(dict.fromkeys(str(line["relation"]) for line in certificate["guarantees"]))
    if relation is not None and relation not in stated:
        raise InvalidInput(f"relation {relation!r}: the certificate states {', '.join(stated)}")
    refusals = []
    for one in stated if relation is None else [relation]:
        try:
            return _under(certificate, Relation(one))
        except InvalidInput as error:
            refusals.append(f"{one}: {error}")
    raise InvalidInput(
        f"these events have no counterparts in dp-accounting ({'; '.join(refusals)})"
    )


def _under(certificate: Any, relation: Relation) -> dict[str, Any]:
    viewers = {}
    for line in certificate["guarantees"]:
        if line["relation"] != str(relation):
            continue
        history = composed_from_json(certificate["events"][line["viewer"]])
        viewers[line["viewer"]] = {
            "epsilon": line["epsilon"],
            **_delta(history, line),
            "event": counterpart(history, relation),
        }
    return {
        "format": FORMAT,
        "study": certificate.get("study", ""),
        "unit": certificate["unit"],
        "relation": str(relation),
        "neighboring_relation": "ADD_OR_REMOVE_ONE",
        "viewers": viewers,
    }


def _delta(history: Composed, line: Any) -> dict[str, float]:
    """Delta, what of it is left for the events, and what is added to their epsilon."""
    parts = history.parts
    gap = math.fsum(count * getattr(event.noise, "gap", 0.0) for event, count in parts)
    slack = math.fsum(count * getattr(event.noise, "slack", 0.0) for event, count in parts)
    epsilon = math.inf if line["epsilon"] == "inf" else float(line["epsilon"])
    left = line["delta"]
    if math.isfinite(epsilon):
        left = (line["delta"] - gap * (1 + math.exp(min(epsilon, 700.0)))) * math.exp(-slack)
    return {"delta": line["delta"], "delta_for_events": max(left, 0.0), "epsilon_added": 2 * slack}


def counterpart(history: Composed, relation: Relation) -> dict[str, Any]:
    """The composition of all events, each so often as it happened."""
    parts = [
        {"class": "SelfComposedDpEvent", "event": _event(event, relation), "count": count}
        for event, count in history.parts
    ]
    return {"class": "ComposedDpEvent", "events": parts}


def _event(event: Event, relation: Relation) -> dict[str, Any]:
    if event.noise.discloses:
        return {"class": "NonPrivateDpEvent"}
    try:
        found = pair(event, relation)
    except UndefinedRelation as error:
        raise InvalidInput(str(error)) from None
    rate = getattr(found, "rate", 1.0)
    if rate < 1 and found is not None and getattr(found, "relation", "") == "replace-one":
        raise InvalidInput(
            "a secret sample in which a record is replaced by another: dp-accounting knows samples "
            "of neighbours that differ by one record; say --relation zero-out"
        )
    match found:
        case GaussianPair(mu=mu):
            made = {"class": "GaussianDpEvent", "noise_multiplier": 1 / mu}
        case LaplacePair(epsilon=epsilon):
            made = {"class": "LaplaceDpEvent", "noise_multiplier": 1 / epsilon}
        case PurePair(epsilon=epsilon):
            made = _discrete(epsilon, 1)
        case DiscreteLaplacePair(units=units, scale=scale) if rate == 1:
            made = _discrete(1 / scale, units)
        case _:
            raise InvalidInput(
                f"{event.noise.kind} noise: no pair of distributions is known that "
                "dp-accounting has too"
            )
    if rate == 1:
        return made
    return {"class": "PoissonSampledDpEvent", "sampling_probability": rate, "event": made}


def _discrete(parameter: float, sensitivity: int) -> dict[str, Any]:
    return {
        "class": "DiscreteLaplaceDpEvent",
        "noise_parameter": parameter,
        "sensitivity": sensitivity,
    }


def as_text(model: FittedModel, relation: str | None = None) -> str:
    return json.dumps(dp_events(model, relation), indent=1, allow_nan=False) + "\n"


__all__ = ["FORMAT", "as_text", "counterpart", "dp_events"]
