"""Flower's message path without sockets: a `Grid` that calls the parties' apps directly.

Real Flower messages, records and apps, one process. It serves tests and trying out; its
secure sum is the ideal functionality, and it may carry simulated values.
"""

import itertools
import os
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
from unisono.engines.flower.party import Responder, party_app
from unisono.engines.flower.server import coordinate
from unisono.errors import InvalidInput
from unisono.secagg.ideal import DESCRIPTION, Dealer


class LoopbackGrid(Grid):
    """Delivers each message to its node's app at once; `fails` names nodes that stay silent."""

    def __init__(
        self, apps: dict[int, ClientApp], fails: Callable[[int, int], bool] | None = None
    ) -> None:
        self._apps, self._fails = apps, fails
        self._replies: dict[str, Message] = {}
        self._numbers = itertools.count(1)
        self._pushes = itertools.count()
        TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = 1, 1, 1

    def set_run(self, run: Any) -> None:
        TaskIdentity.run_id = run.run_id

    @property
    def run(self) -> Any:
        raise InvalidInput("a loopback grid has no run record: it exists in this process only")

    def create_message(
        self, content: RecordDict, message_type: str, dst_node_id: int, group_id: str,
        ttl: float | None = None,
    ) -> Message:  # fmt: skip
        return Message(content, dst_node_id, message_type, group_id=group_id, ttl=ttl)

    def get_node_ids(self) -> Iterable[int]:
        return list(self._apps)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        round_number, identifiers = next(self._pushes), []
        for message in messages:
            identifier = f"loopback-{next(self._numbers)}"
            message.metadata.__dict__["_message_id"] = identifier
            node = message.metadata.dst_node_id
            identifiers.append(identifier)
            if self._fails is not None and self._fails(round_number, node):
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
    study: Study, parties: Sequence[Party], *, dropouts: np.ndarray | None = None,
    deadline: float = 30.0, progress: Callable[[int], None] | None = None,
) -> Result:  # fmt: skip
    """The study through Flower's messages, in this process; same meaning as `in_process.run`."""
    simulated = require_same_kind(study, parties)
    for party, cost in zip(parties, study.costs, strict=True):
        party.ledger.check(cost)
    dealer = None
    if study.trust is Trust.SECURE_SUM:
        dealer = Dealer(os.urandom(32), len(parties), study.facts.minimum_survivors)
    apps = {
        index + 1: party_app(Responder(study, party, index, dealer, simulation=simulated))
        for index, party in enumerate(parties)
    }
    silent = None if dropouts is None else np.asarray(dropouts, bool)
    fails = None if silent is None else (lambda number, node: bool(silent[number, node - 1]))
    server = (study.algorithm, study.facts, study.trust, parties[0].ledger.seed)
    value, transcript = coordinate(
        study, LoopbackGrid(apps, fails), dealer=dealer, deadline=deadline,
        server_noise=server_noise(*server),
        progress=progress,
    )  # fmt: skip
    certificate = certify(
        study, {party.name: party.ledger for party in parties}, parties[0].ledger.accountant,
        secure_sum=DESCRIPTION if dealer else "",
    )  # fmt: skip
    return Result(value, certificate, transcript)
