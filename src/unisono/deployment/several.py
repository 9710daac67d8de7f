"""Several parties in one process, for whoever keeps several parties' records anyway.

Each has its own keys, policy, ledger, records and folder, its own connection and its own part in
the secure sum, and pays for itself; what one of them is refused stops none of the others. They
share code, compiled programs and what all parties hold (study and roster). Processes keep apart
what operators may not see of each other: parties of different operators do not share one.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

from unisono.deployment.job import JobAgreement, agreement
from unisono.deployment.party import Connection, Member, PartyConfig, ends_by, serve
from unisono.errors import InvalidInput

WAKES = 0.5  # seconds after which the main thread looks whether it was asked to end


def members(seats: Sequence[PartyConfig], server: str) -> list[Member]:
    """The parties, ready to answer; if one may not take part, none does."""
    names = [seat.name for seat in seats]
    if len(set(names)) != len(names):
        raise InvalidInput(f"a party stands twice in {', '.join(names)}: name each once")
    shared: dict[tuple[Any, Any], JobAgreement] = {}
    made: list[Member] = []
    try:
        for seat in seats:
            files = seat.study, seat.roster
            if files not in shared:
                shared[files] = agreement(*files)
            made.append(Member(seat, server, agreed=shared[files]))
    except BaseException:
        for member in made:
            member.close()
        raise
    return made


def join(
    parties: Sequence[Member],
    server: Connection,
    *,
    connect_timeout: float,
    connected: Callable[[str, int], None] = lambda name, node: None,
) -> Mapping[str, dict[str, Any] | BaseException]:
    """Serves all until the study is over; what came of each: its result, or why it has none.

    A process that is asked to end (SIGTERM) lets each answer what it has begun.
    """
    stops = [threading.Event() for _ in parties]

    def part(member: Member, stop: threading.Event) -> dict[str, Any]:
        name = member.seat.name
        serve(
            member,
            server,
            connect_timeout=connect_timeout,
            stop=stop,
            connected=lambda node: connected(name, node),
        )
        return member.finish()

    with ends_by(*stops), ThreadPoolExecutor(max_workers=max(len(parties), 1)) as pool:
        futures = {
            member.seat.name: pool.submit(part, member, stop)
            for member, stop in zip(parties, stops, strict=True)
        }
        # Python runs a signal's handler when the main thread next executes something of its own. A
        # signal that comes just before that thread lies down on a lock would wait for the lock.
        while wait(futures.values(), timeout=WAKES).not_done:
            pass
    return {name: _outcome(future) for name, future in futures.items()}


def _outcome(future: Future[dict[str, Any]]) -> dict[str, Any] | BaseException:
    error = future.exception()
    return future.result() if error is None else error


__all__ = ["join", "members"]
