"""The server's side on Flower: push asks, pull answers until a deadline, merge.

No strategies, mods or secure aggregation of Flower's are used; deadlines are our own,
because a message otherwise lives for twelve hours.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flwr.app import Message
from flwr.serverapp import Grid

from unisono.core.algorithm import Aggregate
from unisono.core.study import Study
from unisono.core.transcript import EVERYONE, EVERYONE_AT_THE_END, Transcript
from unisono.core.trust import SERVER, Trust
from unisono.core.values import Masked
from unisono.engines import wire
from unisono.engines.flower.messages import MESSAGE_TYPE, unwrap, wrap
from unisono.engines.requirements import asked
from unisono.errors import InvalidInput
from unisono.secagg.ideal import Dealer, signed


def coordinate(
    study: Study, grid: Grid, *, dealer: Dealer | None = None, deadline: float = 30.0,
    server_noise: Callable[[int, tuple[int, ...]], np.ndarray] | None = None,
    progress: Callable[[int], None] | None = None,
) -> tuple[np.ndarray, Transcript]:  # fmt: skip
    """Run all rounds; returns the result and what the server saw.

    `server_noise` draws the noise of a trusted server, in grid steps.
    """
    algorithm, facts, trust = study.algorithm, study.facts, study.trust
    state, _ = algorithm.init(facts)
    merge = jax.jit(algorithm.merge)
    unit = algorithm.inner.grid if algorithm.inner else algorithm.grid(facts, trust)
    needed = np.minimum(facts.minimum_survivors, asked(study).sum(axis=1))
    transcript = Transcript()
    counted = [-1] * facts.parties  # the last round whose opened sum held each party's answer
    for number in range(algorithm.rounds):
        public = algorithm.ask(state)
        seen = jax.tree.map(np.asarray, public)
        transcript.record(number, "public", seen, EVERYONE)
        scalars: dict[str, Any] = {"study": study.hash, "round": number, "counted": counted}
        packets = exchange(grid, study, scalars, jax.tree.leaves(public), deadline)
        answers = {int(p.scalars["party"]): p.arrays[0] for p in packets.values()}
        transcript.record(number, "messages", answers, frozenset({SERVER}))
        if len(answers) >= needed[number]:
            total = _total(study, number, answers, dealer, server_noise)
            transcript.record(number, "sum", total, EVERYONE)
            for party in answers:
                counted[party] = number
            records = sum(facts.records[party] for party in answers)
            present = np.isin(np.arange(facts.parties), list(answers))
            scaled = jnp.asarray(total.astype(np.int32)) * unit
            state = merge(state, Aggregate(scaled, len(answers), float(records), present))
        if progress is not None:
            progress(number + 1)
    value = jax.tree.map(np.asarray, algorithm.result(state))
    transcript.record(algorithm.rounds, "result", value, EVERYONE_AT_THE_END)
    return value, transcript


def exchange(
    grid: Grid, study: Study, scalars: Mapping[str, Any], public: list[Any], deadline: float
) -> Mapping[int, wire.Packet]:
    """Ask every node and collect well-formed answers of this round until the deadline.

    An ask also says which answers counted: parties that remember settle by it.
    """
    ask, number = wire.encode("ask", scalars, public), scalars["round"]
    messages = [
        Message(wrap(ask), dst_node_id=node, message_type=MESSAGE_TYPE, ttl=deadline)
        for node in grid.get_node_ids()
    ]
    waiting = set(grid.push_messages(messages))
    packets: dict[int, wire.Packet] = {}
    ends = time.monotonic() + deadline
    while waiting and time.monotonic() < ends:
        for reply in grid.pull_messages(list(waiting)):
            waiting.discard(reply.metadata.reply_to_message_id)
            if reply.has_error():
                continue
            try:
                packet = wire.decode(unwrap(reply))
            except InvalidInput:
                continue
            expected = {"secure-sum": "masked", "local": "released"}.get(study.trust, "disclosed")
            if packet.tag == expected and packet.scalars.get("round") == number:
                packets[reply.metadata.src_node_id] = packet
        if waiting:
            time.sleep(0.002)
    return packets


def _total(
    study: Study, number: int, answers: Mapping[int, np.ndarray], dealer: Dealer | None,
    server_noise: Callable[[int, tuple[int, ...]], np.ndarray] | None,
) -> np.ndarray:  # fmt: skip
    """The noisy sum of a round as integers that wrap modulo 2^32, as in process."""
    if study.trust is Trust.SECURE_SUM:
        assert dealer is not None
        simulated = False
        masked = {p: Masked(v, dealer.bits, simulated) for p, v in answers.items()}
        return dealer.open(number, masked)
    if study.algorithm.combine == "each":
        shape = next(iter(answers.values())).shape
        messages = np.zeros((study.facts.parties, *shape), np.int64)
        for party, value in answers.items():
            messages[party] = value
        return messages
    total = np.sum([v.astype(np.int64) for v in answers.values()], axis=0)
    if study.trust is Trust.TRUSTED_SERVER:
        if server_noise is None:
            raise InvalidInput("a trusted server needs its own source of noise")
        total = total + server_noise(number, total.shape)
    return signed(total.astype(np.uint64), 32)
