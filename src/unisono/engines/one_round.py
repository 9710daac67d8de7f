"""One release of each party, computed in doubles and 64-bit integers, outside of programs.

    authorise     every party's ledger writes the cost down, or refuses
    open          the records, for the grant that was paid for
    bound         local(...): clipped, quantized and added up by the bound of the release
    noise         exact integer noise of the grant's own draw
    dispatch      the sealed release leaves, once

The steps are the driver's (`driver`), and so are the first two (`payments`). What the driver adds
is what needs JAX: compiled rounds over stacked parties, shares of noise in a secure sum, sums
modulo 2^32. A mean of one list needs none of that, keeps every bit of its doubles, and is there
before JAX would be imported; so studies of one round under trust LOCAL may run here.
"""

from collections.abc import Sequence

import numpy as np

from unisono.core.algorithm import Aggregate
from unisono.core.certificate import certify
from unisono.core.release import release
from unisono.core.study import Party, Result, Study, require_same_kind
from unisono.core.transcript import (
    EVERYONE,
    EVERYONE_AT_THE_END,
    Transcript,
    viewers_of_contribution,
)
from unisono.core.trust import Trust
from unisono.engines.payments import authorized, local_costs, opened
from unisono.engines.sum_limits import StudyLimits, refused
from unisono.errors import InvalidInput


def run(study: Study, parties: Sequence[Party], *, purpose: str = "") -> Result:
    """Run a study of one round: authorise at every party, and only then read the data."""
    algorithm, facts = study.algorithm, study.facts
    _require_single(study)
    require_same_kind(study, parties)
    ledgers = [party.ledger for party in parties]
    grants = authorized(study, ledgers, turns=1, purpose=purpose)
    columns = opened(study, parties, grants)
    server, own = algorithm.init(facts)
    public, event = algorithm.ask(server), algorithm.event(facts, study.trust)
    messages, limits = [], StudyLimits(study)
    for index, (ledger, grant, data) in enumerate(zip(ledgers, grants, columns, strict=True)):
        everybody = np.ones(len(data[0]), bool)
        _, contribution = algorithm.local(facts, public, own, data, everybody)
        released = release(grant.draw(0), contribution, event)
        ledger.dispatch(released)
        fault = limits.fault_of(released.value, index, 0) if facts.exact_sizes else ""
        if fault:
            raise refused(0, f"the value of {parties[index].name}", fault, single=True)
        messages.append(released.array)
    total = np.sum(messages, axis=0)
    sums = Aggregate(total, len(parties), sum(facts.records), np.ones(len(parties), bool))
    value = algorithm.result(algorithm.merge(server, sums))
    transcript = Transcript()
    transcript.record(0, "messages", np.stack(messages), viewers_of_contribution(study.trust))
    transcript.record(0, "sum", total, EVERYONE)
    transcript.record(algorithm.rounds, "result", value, EVERYONE_AT_THE_END)
    certificate = certify(
        study,
        {party.name: party.ledger for party in parties},
        ledgers[0].accountant,
        costs=local_costs(study, study.costs, ledgers),
        spending=False,  # a small release, of which there may be many: ledgers say it when asked
    )
    return Result(value, certificate, transcript)


def _require_single(study: Study) -> None:
    algorithm = study.algorithm
    if algorithm.rounds != 1 or algorithm.draws != 1 or not algorithm.alike:
        raise InvalidInput(
            f"{algorithm.name} makes more than one release, or not the same of every party: run "
            "it with engines.in_process"
        )
    if study.trust is not Trust.LOCAL:
        raise InvalidInput(
            f"{algorithm.name} with trust {study.trust!s}: only noise that a party adds all by "
            "itself (LOCAL) is added here; run it with engines.in_process"
        )


__all__ = ["run"]
