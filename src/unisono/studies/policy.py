"""`policy.toml`: what a party allows, whatever a study or a server asks.

The party keeps this file to itself and checks it on its own machine: once before it joins
(`require_allowed`, all objections together) and again in every round (`check_round`). What a study
costs is computed here from the study itself, per viewer; the epsilon that the study's file claims
is not believed. The budget over all studies is the ledger's business.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unisono.accounting.accountant import ACCOUNTANT
from unisono.algorithms.survey import STATISTICS
from unisono.core import policy as core
from unisono.core.costs import counted
from unisono.core.events import Composed
from unisono.core.study import Study
from unisono.core.trust import Relation, Trust, Unit, Viewer, describe
from unisono.errors import InvalidInput, PrivacyViolation, UnisonoError
from unisono.releases.plugins import plugins_of
from unisono.studies.policy_file import PolicyFile, load_policy
from unisono.studies.schema import StudyFile

Costs = Sequence[Mapping[Viewer, Composed]]

# ------------------------------------------------------------- before joining


@dataclass(frozen=True)
class Request:
    """What a party is asked for, by the names that its policy may list."""

    title: str
    trust: Trust
    model: str
    algorithm: str
    columns: tuple[str, ...]
    server: str | None
    unit: Unit
    relation: Relation
    earlier: tuple[str, ...] = ()  # algorithms of stages before
    person: str | None = None  # the column that says whose a record is


def require_allowed(
    policy: PolicyFile,
    file: StudyFile,
    study: Study,
    party: str,
    costs: Costs | None = None,
    simulated: bool = False,
) -> None:
    """Refuse a study that this party does not allow, with every reason.

    `costs` is what is paid where that is more than the study's own (`Built.costs`). In a simulation
    noise may be as a publication prints it, which nobody relies on. Mistakes (a
    name that is not in the study) alone are `InvalidInput`; whatever would show more than the party
    allows is a `PrivacyViolation`.
    """
    request = Request(
        file.source.path or "this study",
        file.trust.mode,
        file.model.name,
        study.algorithm.name,
        file.data.read,
        None if file.server is None else file.server.address,
        file.privacy.unit,
        file.privacy.relation,
        (
            *(kind.name for kind in study.method.before),
            *((STATISTICS.name,) if file.data.unknown else ()),
        ),
        file.data.person,
    )
    known = party in file.names
    cost = (study.costs if costs is None else costs)[file.party(party)] if known else {}
    limits = _objections(policy, request, study, cost, simulated)
    mistakes = [f"the study has no party {party!r}: it names {', '.join(file.names)}"]
    _refuse(policy, request, [] if known else mistakes, limits)


def require_question_allowed(
    policy: PolicyFile, request: Request, study: Study, cost: Mapping[Viewer, Composed]
) -> None:
    """As `require_allowed`, for a question that is in no study file."""
    _refuse(policy, request, [], _objections(policy, request, study, cost))


def _objections(
    policy: PolicyFile,
    request: Request,
    study: Study,
    cost: Mapping[Viewer, Composed],
    simulated: bool = False,
) -> list[str]:
    """Whatever would show more than the policy allows."""
    return [
        *_named(policy, request),
        *([] if simulated else _printed(policy, study)),
        *_crowd(policy, study),
        *_cost(policy, request, cost),
    ]


def _printed(policy: PolicyFile, study: Study) -> Iterator[str]:
    """Noise that was not calibrated."""
    printed = study.algorithm.printed
    if printed is None:
        return
    if printed.refusal:
        yield f"published = true: {printed.refusal}"
    elif not policy.allow.published:
        yield (
            f"published = true: noise as printed in {printed.where}, which keeps no promise of "
            f"epsilon {printed.epsilon:g}, is not allowed: leave published out, run it as a "
            "simulation (--seed), or write published = true under [allow] of a policy of your own"
        )


def _refuse(
    policy: PolicyFile, request: Request, mistakes: Sequence[str], limits: Sequence[str]
) -> None:
    if not mistakes and not limits:
        return
    kind: type[UnisonoError] = PrivacyViolation if limits else InvalidInput
    origin = policy.source.path or "the policy"
    reasons = "".join(f"\n  - {reason}" for reason in (*mistakes, *limits))
    raise kind(
        f"{origin} of data set {policy.dataset.name!r} does not allow {request.title}:{reasons}\n"
        "nothing was read and nothing was spent"
    )


def _named(policy: PolicyFile, request: Request) -> Iterator[str]:
    """What is allowed by name."""
    allow = policy.allow
    lists: list[tuple[str, Any, tuple[str, ...]]] = [
        ("trust", allow.trust, (request.trust,)),
        ("models", allow.models, (request.model,)),
        ("algorithms", allow.algorithms, (request.algorithm, *request.earlier)),
        ("plugins", allow.plugins, _plugins(request)),
        ("columns", allow.columns, request.columns),
        ("servers", allow.servers, () if request.server is None else (request.server,)),
    ]
    for word, allowed, asked in lists:
        refused = [] if allowed is None else [one for one in asked if one not in allowed]
        if refused:
            yield (
                f"{word} {', '.join(refused)}: only {', '.join(allowed) or 'nothing'} may be used "
                f"({policy.source.where(('allow', word))})"
            )


def _plugins(request: Request) -> tuple[str, ...]:
    """The distributions whose code would run here."""
    return tuple(name for name, _ in plugins_of(request.model, request.algorithm, *request.earlier))


def _crowd(policy: PolicyFile, study: Study) -> Iterator[str]:
    """Who else must be there."""
    allow, facts = policy.allow, study.facts
    if facts.minimum_parties < allow.minimum_parties:
        yield (
            f"minimum_parties = {facts.minimum_parties}: at least {allow.minimum_parties} "
            "parties must take part in every round (minimum_parties)"
        )
    if facts.honest < allow.minimum_honest:
        yield (
            f"minimum_parties = {facts.minimum_parties}, colluders = {facts.colluders}: at least "
            f"{allow.minimum_honest} must be honest (minimum_honest)"
        )
    if facts.colluders < policy.budget.colluders:
        yield (
            f"colluders = {facts.colluders}: the budget is to hold against "
            f"{policy.budget.colluders} parties that work with the server"
        )
    if facts.retries > allow.maximum_retries:
        yield f"retries = {facts.retries}: at most {allow.maximum_retries} (maximum_retries)"


def _cost(policy: PolicyFile, request: Request, cost: Mapping[Viewer, Composed]) -> Iterator[str]:
    """What is shown of this party, to each viewer, in the units that its budget counts."""
    budget, allow = policy.budget, policy.allow
    if request.unit is not Unit.PARTY and budget.unit is Unit.PARTY:
        yield (
            f'unit = "{request.unit}": the budget counts whole parties, to whom what hides a '
            f"{request.unit} promises nothing"
        )
        return
    if request.unit is Unit.RECORD and budget.unit is Unit.PERSON:
        yield (
            'unit = "record": the budget counts persons, to whom what hides a single record '
            "promises nothing"
        )
        return
    if Unit.PERSON is request.unit is budget.unit and request.person != budget.person:
        yield (
            f'person = "{request.person}": the budget counts persons by the column '
            f'"{budget.person}", and other groups of records are not those persons'
        )
    if request.unit is budget.unit and request.relation is not budget.relation:
        yield f'relation = "{request.relation}": the budget counts by relation "{budget.relation}"'
    try:
        cost = counted(cost, budget.unit, budget.relation)
    except PrivacyViolation as error:
        yield str(error)
        return
    usual = core.Budget(allow.maximum_epsilon, allow.maximum_delta)
    exceptions, told = dict(policy.core_policy().exceptions), set()
    for viewer, history in cost.items():
        limit = exceptions.get(viewer, usual)
        if math.isinf(limit.epsilon) or (history, limit) in told:
            continue  # viewers who see the same under the same limit are one reason
        told.add((history, limit))
        try:
            fits = ACCOUNTANT.fits(history, budget.relation, limit.epsilon, limit.delta)
            shown = "" if fits else _shown(history, budget.relation, limit.delta)
        except PrivacyViolation as error:
            fits, shown = False, str(error)
        if not fits:
            yield (
                f"against {describe(viewer)} it costs {shown}: at most epsilon "
                f"{limit.epsilon:g} at delta {limit.delta:g} in one study"
            )


def _shown(history: Any, relation: Relation, delta: float) -> str:
    if history.discloses:
        return "everything (no noise)"
    epsilon = ACCOUNTANT.epsilon(history, relation, delta)
    return f"epsilon {epsilon:.4g}" if math.isfinite(epsilon) else "more than any epsilon"


def require_server(policy: PolicyFile, address: str) -> None:
    """Refuse a server that is not on the list, wherever its address came from."""
    allowed = policy.allow.servers
    if allowed is not None and address not in allowed:
        raise PrivacyViolation(
            f"{policy.source.path} does not allow the server {address}: only "
            f"{', '.join(allowed) or 'none'} may be used"
        )


# ------------------------------------------------------------- in every round


def check_round(policy: PolicyFile) -> None:
    """Refuse further rounds once the policy on disk says something else, or is gone.

    A party takes part only as long as its present policy is the one it joined under.
    """
    path = policy.source.path
    try:
        present = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise PrivacyViolation(
            f"{path} cannot be read any more: without its policy this party takes no further part"
        ) from None
    if present == policy.source.text:
        return
    if load_policy(path) != policy:
        raise PrivacyViolation(
            f"{path} was changed while the study ran: this party takes no further part; join again "
            "to be checked against the new policy"
        )


__all__ = [
    "PolicyFile",
    "Request",
    "check_round",
    "load_policy",
    "require_allowed",
    "require_question_allowed",
    "require_server",
]
