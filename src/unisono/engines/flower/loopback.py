"""Flower's message path without sockets: a `Grid` that calls the parties' apps directly.

Real Flower messages, records and apps, and the real secure sum, in one process. It serves tests
and trying out, and may carry simulated values.
"""

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

from unisono.core.certificate import certify
from unisono.core.release import server_noise
from unisono.core.study import Party, Result, Study, require_same_kind
from unisono.core.trust import Trust
from unisono.engines.distributed.party import Responder
from unisono.engines.distributed.server import Conditions, coordinate
from unisono.engines.distributed.sessions import session_of
from unisono.engines.flower.app import client_app
from unisono.engines.flower.link import GridLink
from unisono.engines.record_order import order_of
from unisono.errors import InvalidInput
from unisono.secagg.roster import Identity, Roster


class LoopbackGrid(Grid):
    """Delivers each message to its node's app at once; nodes in `silent` do not answer."""

    def __init__(self, apps: dict[int, ClientApp]) -> None:
        self._apps = apps
        self.silent: set[int] = set()
        self._replies: dict[str, Message] = {}
        self._numbers = itertools.count(1)
        TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = 1, 1, 1

    def set_run(self, run: Any) -> None:
        TaskIdentity.run_id = run.run_id

    @property
    def run(self) -> Any:
        raise InvalidInput("a loopback grid has no run record: it exists in this process only")

    def create_message(
        self,
        content: RecordDict,
        message_type: str,
        dst_node_id: int,
        group_id: str,
        ttl: float | None = None,
    ) -> Message:
        return Message(content, dst_node_id, message_type, group_id=group_id, ttl=ttl)

    def get_node_ids(self) -> Iterable[int]:
        return list(self._apps)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        identifiers = []
        for message in messages:
            identifier = f"loopback-{next(self._numbers)}"
            message.metadata.__dict__["_message_id"] = identifier
            node = message.metadata.dst_node_id
            identifiers.append(identifier)
            if node in self.silent:
                self._replies[identifier] = Message(Error(code=0), reply_to=message)
                continue
            context = Context(1, node, {}, RecordDict(), {})
            self._replies[identifier] = self._apps[node](message, context)
        return identifiers

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        return [self._replies.pop(i) for i in message_ids if i in self._replies]

    def send_and_receive(
        self, messages: Iterable[Message], *, timeout: float | None = None
    ) -> Iterable[Message]:
        return self.pull_messages(self.push_messages(messages))


def run(
    study: Study,
    parties: Sequence[Party],
    *,
    dropouts: np.ndarray | None = None,
    deadline: float = 30.0,
    progress: Callable[[int], None] | None = None,
    at_once: bool = True,
    order: np.ndarray | None = None,
) -> Result:
    """The study through Flower's messages, in this process; same meaning as `in_process.run`.

    `at_once` pays for the run in one grant, as in one process; otherwise turn by turn, as real
    parties do.
    """
    require_same_kind(study, parties)
    for party, cost in zip(parties, study.costs, strict=True):
        party.ledger.check(cost)
    identities = [Identity.fresh(party.name) for party in parties]
    roster = Roster(tuple(i.name for i in identities), tuple(i.public for i in identities))
    session = session_of(study, roster)
    apps = {
        index + 1: client_app(Responder(study, party, identity, session, at_once=at_once).answer)
        for index, (party, identity) in enumerate(zip(parties, identities, strict=True))
    }
    grid = LoopbackGrid(apps)
    silent = None if dropouts is None else np.asarray(dropouts, bool)

    def fall_silent(done: int) -> None:
        """Who drops out of the next round."""
        if silent is not None and done < len(silent):
            grid.silent = {int(index) + 1 for index in np.flatnonzero(silent[done])}
        if progress is not None and done:
            progress(done)

    fall_silent(0)
    server = (study.algorithm, study.facts, study.trust, parties[0].ledger.seed)
    outcome = coordinate(
        study,
        GridLink(grid),
        session,
        # Silence is for single rounds here; a round that is set up ahead carries it over.
        conditions=Conditions(deadline, connect_timeout=0.0, ahead=silent is None),
        server_noise=server_noise(*server),
        progress=fall_silent,
        order=order_of(study, order, parties[0].ledger.seed),
    )
    certificate = certify(
        study,
        {party.name: party.ledger for party in parties},
        parties[0].ledger.accountant,
        secure_sum=session.describe() if study.trust is Trust.SECURE_SUM else "",
    )
    return Result(outcome.value, certificate, outcome.transcript)
