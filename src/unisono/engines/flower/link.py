"""Rounds over Flower's grid: bytes to each party, bytes back, and never later than the deadline.

Resident parties have their messages from `mailboxes`, stock SuperNodes from Flower. Flower's own
`send_and_receive` sleeps three seconds between looks, waits until a killed node has
missed its heartbeats, and lets a message live for half a day. Here a message lives as long as its
deadline, so a party never spends privacy budget on a question nobody waits for any more.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from uuid import uuid4

import httpx
from flwr.app import Message
from flwr.serverapp import Grid

from unisono.engines import wire
from unisono.engines.flower.fleet import patient_until
from unisono.engines.flower.messages import MESSAGE_TYPE, unwrap, wrap
from unisono.errors import InvalidInput

_SHORTEST_PAUSE, _LONGEST_PAUSE, _GROWTH = 0.004, 0.02, 1.3
# A message is asked for until the deadline, and an expired one may not be asked for.
_GRACE = 2.0


# The bytes for each node, and seconds to wait; tells of each node its reply, or None if it is not a
# resident party.
Deliver = Callable[[Mapping[int, bytes], float], Iterator[tuple[int, bytes | None]]]


class GridLink:
    """`Link` over a Flower grid."""

    def __init__(self, grid: Grid) -> None:
        self._grid = grid
        # Ours hands messages to resident parties itself; a grid without it has none.
        self._deliver: Deliver | None = getattr(grid, "deliver", None)
        # Ours keeps messages until it is told; a grid without a server has nothing to keep.
        self._forget: Callable[[list[str]], None] = getattr(grid, "forget", lambda names: None)

    def nodes(self) -> Sequence[int]:
        """Who counts as connected: a killed party does until it has missed two heartbeats."""
        return sorted(self._grid.get_node_ids())

    def exchange(self, requests: Mapping[int, bytes], deadline: float) -> Mapping[int, bytes]:
        """Replies by node; whoever errs, is gone or is late is missing."""
        if not deadline > 0:
            raise InvalidInput(f"a deadline of {deadline} s: give the parties time to answer")
        end = time.monotonic() + deadline
        replies: dict[int, bytes] = {}
        with patient_until(end):
            waiting: dict[str, int] = {}
            if self._deliver is None:
                waiting = self._pushed(requests, deadline)
            else:
                for node, data in self._deliver(requests, deadline):
                    if data is not None:
                        replies[node] = data
                    elif (left := end - time.monotonic()) > 0:  # no resident: a stock SuperNode
                        waiting |= self._pushed({node: requests[node]}, left)
            sent, pause = list(waiting), _SHORTEST_PAUSE
            while waiting:
                for reply in self._pulled(waiting):
                    sender = waiting.pop(reply.metadata.reply_to_message_id, None)
                    content = _content(reply)
                    if sender is not None and content is not None:
                        replies[sender] = content
                left = end - time.monotonic()
                if not waiting or left <= 0:
                    break
                time.sleep(min(pause, left))
                pause = min(_GROWTH * pause, _LONGEST_PAUSE)
        if sent:
            self._forget(sent)
        return replies

    def _pulled(self, waiting: dict[str, int]) -> list[Message]:
        """Replies that are there; whoever's reply the SuperLink cannot hand out has not answered.

        Asked for all at once. If that is refused, one of them is to blame, and each is asked for
        by itself: no party's reply may cost the others theirs.
        """
        try:
            return list(self._grid.pull_messages(list(waiting)))
        except httpx.HTTPStatusError:
            found: list[Message] = []
            for name in list(waiting):
                try:
                    found += self._grid.pull_messages([name])
                except httpx.HTTPStatusError:
                    del waiting[name]
            if not waiting and not found:
                raise  # it refuses everything: the fault is not a party's
            return found

    def _pushed(self, requests: Mapping[int, bytes], deadline: float) -> dict[str, int]:
        """Sends each node its bytes; returns the node behind each message id.

        A message id is a hash of the message. A random group makes it impossible to guess, so
        that no party can answer in another's name.
        """
        messages = [
            Message(wrap(data), node, MESSAGE_TYPE, ttl=deadline + _GRACE, group_id=uuid4().hex)
            for node, data in requests.items()
        ]
        names = list(self._grid.push_messages(messages))
        if len(names) != len(messages):
            size = sum(map(len, requests.values()))
            raise InvalidInput(f"the SuperLink takes no {size} bytes at once: ask fewer parties")
        return {name: node for name, node in zip(names, requests, strict=True) if name}


def _content(reply: Message) -> bytes | None:
    """What a party answered, if it is an answer."""
    if reply.has_error():
        return None
    try:
        data = unwrap(reply)
    except Exception:  # whatever a party sends, it harms only its own part in this round
        return None
    return data if len(data) <= wire.MAXIMUM_BYTES else None
