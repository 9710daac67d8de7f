"""Who sends what to whom, and where noise is added: one picture for each kind of trust.

From top to bottom: parties, what leaves them, the server, what leaves it, the public. Positions
are shares of the width, so it fits a phone.
"""

from collections.abc import Sequence
from typing import NamedTuple

from markupsafe import Markup

from unisono.reports import marks
from unisono.reports.marks import cut

_BOXES = 4  # parties that are drawn; the last stands for all others


class Road(NamedTuple):
    """What goes along the arrows, and what is done at each stop."""

    party: str
    up: str
    server: str
    server_kind: str
    down: str


_ROADS = {
    "local": Road(
        "+ all noise",
        "each message already holds its noise",
        "adds the messages up",
        "box",
        "the result, and every round's model",
    ),
    "secure-sum": Road(
        "+ share of noise",
        "masked: unreadable one by one",
        "can open only the noisy sum",
        "box",
        "the noisy sums, and the result",
    ),
    "trusted-server": Road(
        "no noise",
        "clean values, encrypted on the way",
        "sees clean values; adds the noise",
        "open",
        "the noisy sums, and the result",
    ),
}


def flow(trust: str, names: Sequence[str], parties: int) -> Markup:
    """The picture; `parties` may be more than are known by name."""
    road = _ROADS[trust]
    shown = [cut(name, 11) for name in names[:_BOXES]] or ["a party"]
    if parties > len(shown):
        shown = [*shown[: _BOXES - 1], f"{parties - min(len(shown), _BOXES - 1)} more"]
    width, gap = 0.94 / len(shown), 0.06 / max(len(shown) - 1, 1)
    width = min(width, 0.3)
    left = (1 - len(shown) * width - (len(shown) - 1) * gap) / 2
    parts: list[Markup] = []
    for number, name in enumerate(shown):
        start = left + number * (width + gap)
        middle = start + width / 2
        parts += [
            *_arrow(middle, 62, 0.5 + (middle - 0.5) * 0.45, 128),
            marks.rectangle(start, start + width, 4, 58, "box"),
            marks.text(middle, 28, name, "strong middle"),
            marks.text(middle, 47, road.party, "soft middle"),
        ]
    parts += [
        marks.text(0.5, 97, road.up, "middle halo"),
        marks.rectangle(0.12, 0.88, 130, 52, road.server_kind),
        marks.text(0.5, 151, "Server", "strong middle"),
        marks.text(0.5, 170, road.server, "middle"),
        *_arrow(0.5, 182, 0.5, 246),
        marks.text(0.5, 216, road.down, "middle halo"),
        marks.rectangle(0.12, 0.88, 248, 52, "box"),
        marks.text(0.5, 269, "Everybody", "strong middle"),
        marks.text(0.5, 288, "sees what is published", "middle"),
    ]
    return marks.chart(304, "From the parties to the public", told(trust, parties), parts)


def told(trust: str, parties: int) -> str:
    """The picture in words."""
    road = _ROADS[trust]
    return (
        f"{parties} parties ({road.party}) send to the server: {road.up}. The server "
        f"{road.server}. It publishes {road.down}."
    )


def _arrow(x1: float, y1: float, x2: float, y2: float) -> list[Markup]:
    """A line, and a dot where it arrives: heads of arrows would need a fixed width."""
    return [marks.line(x1, y1, x2, y2, "flow"), marks.dot(x2, y2, "head", 3.5)]


__all__ = ["flow", "told"]
