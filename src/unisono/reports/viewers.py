"""What each adversary sees: a picture of the way that numbers take, and a table."""

from collections.abc import Mapping, Sequence
from typing import Any

from unisono.core.success import PHRASE
from unisono.core.words import times
from unisono.reports.blocks import Block, Flow, Part, ReportGrid, Text
from unisono.reports.guarantees import sees, shown
from unisono.reports.reading import RunReading, who
from unisono.reports.state import opened

MESSAGES = {
    "public": "what parties are sent",
    "messages": "single messages of parties",
    "sum": "opened sums",
    "result": "the result",
    "bounds": "the noisy counts that ranges of columns were read from",
    "bounds messages": "single messages of these counts",
    "first": "the noisy counts that the first release began with",
    "first messages": "single messages of these counts",
    "start": "the noisy sum that the run began with",
    "start messages": "single messages of that release",
    "test": "the noisy test of it",
    "test messages": "single messages of the test",
}
COALITION = {"server", "party", "iterates"}  # whose views colluders put together
_CAPTIONS = {
    "local": "Noise is added at each party, before anything leaves it.",
    "secure-sum": "Each party adds a share of the noise. Masks cancel in the sum only, so that "
    "nobody can read a single message.",
    "trusted-server": "The server sees clean values: against it there is no protection. Noise is "
    "added before anything is published.",
}


def viewers(reading: RunReading) -> Part:
    blocks: list[Block] = []
    if reading.trust:
        blocks.append(
            Flow(
                "From the parties to the public",
                reading.trust,
                reading.names[:8],
                reading.parties,
                _CAPTIONS[reading.trust],
            )
        )
    known = list(dict.fromkeys(one.viewer for one in reading.guarantees))
    messages = (reading.run.transcript or {}).get("messages")
    header = [
        "who looks",
        "what they may see",
        *(["in this run"] if messages else []),
        *reading.success(()).questions,
        "epsilon",
    ]
    rows = [_row(reading, viewer, messages) for viewer in known]
    if rows:
        blocks.append(ReportGrid(f"Who sees what, and the {PHRASE}, by question", header, rows))
    if not messages:
        blocks.append(
            Text(
                "This folder holds no transcript, so the table says what each may see, "
                "not what was counted.",
                "note",
            )
        )
    return Part("What each adversary sees", "viewers", blocks)


def _row(
    reading: RunReading, viewer: str, messages: Sequence[Mapping[str, Any]] | None
) -> list[str]:
    one = reading.promised.get(viewer)
    asks = reading.success(()).shown  # of no viewer: 100 %
    price = [*("–" for _ in asks), "–"]
    if reading.simulated:
        price = [*asks.values(), "no protection"]
    elif one:
        price = [*reading.success([one]).shown.values(), shown(one.epsilon)]
    return [
        who(viewer),
        sees(reading, viewer),
        *([_seen(viewer, messages, opened(reading.run))] if messages else []),
        *price,
    ]


def _seen(viewer: str, messages: Sequence[Mapping[str, Any]], done: int | None) -> str:
    eyes = COALITION if viewer.startswith("colluders") else {viewer}
    seen = [one for one in messages if eyes & set(one.get("viewers", ()))]
    found = [_message(one, done) for one in seen if 0 not in (one.get("shape") or ())]
    return "; ".join(found) or "none"


def _message(one: Mapping[str, Any], done: int | None) -> str:
    name = str(one["name"])
    words = MESSAGES.get(name, name)
    rounds = one.get("rounds")
    many = ""
    if isinstance(rounds, list) and len(rounds) == 2 and rounds[1] > rounds[0]:
        planned = int(rounds[1]) - int(rounds[0]) + 1
        many = f", {times(planned, 'round')}{left_out(done, planned)}"
    shape = one.get("shape")
    size = f" of {' × '.join(str(n) for n in shape)} numbers" if shape else ""
    return f"{words}{size}{many}"


def left_out(done: int | None, planned: int) -> str:
    """Where fewer rounds were opened than there were.

    >>> left_out(17, 20), left_out(20, 20), left_out(None, 20)
    (', of which 17 were opened', '', '')
    """
    return f", of which {done} were opened" if done is not None and done < planned else ""


__all__ = ["COALITION", "MESSAGES", "left_out", "viewers"]
