"""What each adversary sees: a picture of the way that numbers take, and a table."""

from collections.abc import Mapping, Sequence
from typing import Any

from unisono.core.words import percent, times
from unisono.reports.blocks import Block, Flow, Grid, Part, Text
from unisono.reports.guarantees import sees, shown
from unisono.reports.reading import Reading, who

_MESSAGES = {
    "public": "what parties are sent",
    "messages": "single messages of parties",
    "sum": "opened sums",
    "result": "the result",
}  # fmt: skip
_COALITION = {"server", "party", "iterates"}  # whose views colluders put together
_CAPTIONS = {
    "local": "Noise is added at each party, before anything leaves it.",
    "secure-sum": "Each party adds a share of the noise. Masks cancel in the sum only, so that "
                  "nobody can read a single message.",
    "trusted-server": "The server sees clean values: against it there is no protection. Noise is "
                      "added before anything is published.",
}  # fmt: skip


def viewers(reading: Reading) -> Part:
    blocks: list[Block] = []
    if reading.trust:
        blocks.append(Flow("From the parties to the public", reading.trust, reading.names[:8],
                           reading.parties, _CAPTIONS[reading.trust]))  # fmt: skip
    known = list(dict.fromkeys(one.viewer for one in reading.guarantees))
    messages = (reading.run.transcript or {}).get("messages")
    header = ["who looks", "what they may see", *(["in this run"] if messages else []),
              "right at most", "epsilon"]  # fmt: skip
    rows = [_row(reading, viewer, messages) for viewer in known]
    if rows:
        blocks.append(Grid("Who sees what", header, rows))
    if not messages:
        blocks.append(Text("This folder holds no transcript, so the table says what each may see, "
                           "not what was counted.", "note"))  # fmt: skip
    return Part("What each adversary sees", "viewers", blocks)


def _row(reading: Reading, viewer: str, messages: Sequence[Mapping[str, Any]] | None) -> list[str]:
    one = reading.promised.get(viewer)
    return [
        who(viewer), sees(reading, viewer), *([_seen(viewer, messages)] if messages else []),
        percent(one.guess) if one else "–", shown(one.epsilon) if one else "–",
    ]  # fmt: skip


def _seen(viewer: str, messages: Sequence[Mapping[str, Any]]) -> str:
    eyes = _COALITION if viewer.startswith("colluders") else {viewer}
    seen = [one for one in messages if eyes & set(one.get("viewers", ()))]
    found = [_message(one) for one in seen if 0 not in (one.get("shape") or ())]
    return "; ".join(found) or "none"


def _message(one: Mapping[str, Any]) -> str:
    name = str(one["name"])
    words = _MESSAGES.get(name, name)
    rounds = one.get("rounds")
    many = ""
    if isinstance(rounds, list) and len(rounds) == 2 and rounds[1] > rounds[0]:
        many = f", {times(int(rounds[1]) - int(rounds[0]) + 1, 'round')}"
    shape = one.get("shape")
    size = f" of {' × '.join(str(n) for n in shape)} numbers" if shape else ""
    return f"{words}{size}{many}"


__all__ = ["viewers"]
