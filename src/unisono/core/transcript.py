"""Every message of a run, filed by who saw it.

Attacks and audits may read one viewer's part only, so the declared trust is what is
attacked. The transcript of a real run is each participant's own view.
"""

from dataclasses import dataclass, field
from typing import Any

from unisono.core.trust import FINAL_MODEL, ITERATES, NETWORK, PARTY, SERVER, Trust, Viewer


@dataclass(frozen=True)
class Message:
    """One value, in one round, and who saw it."""

    round: int
    name: str
    value: Any
    viewers: frozenset[Viewer]


@dataclass
class Transcript:
    """Messages in order; `seen_by` is the only way an adversary looks at them."""

    messages: list[Message] = field(default_factory=list)

    def record(self, round_number: int, name: str, value: Any, viewers: frozenset[Viewer]) -> None:
        self.messages.append(Message(round_number, name, value, viewers))

    def seen_by(self, viewer: Viewer) -> list[Message]:
        """What one viewer saw; colluders see what the server and parties see."""
        if viewer.startswith("colluders"):
            return [m for m in self.messages if m.viewers & {SERVER, PARTY, ITERATES}]
        return [m for m in self.messages if viewer in m.viewers]


class LastMessages(Transcript):
    """A transcript that keeps the last message of each name: what a long run needs, in memory that
    does not grow with its rounds."""

    def record(self, round_number: int, name: str, value: Any, viewers: frozenset[Viewer]) -> None:
        self.messages = [message for message in self.messages if message.name != name]
        super().record(round_number, name, value, viewers)


EVERYONE = frozenset({ITERATES, SERVER, PARTY, NETWORK})
EVERYONE_AT_THE_END = EVERYONE | {FINAL_MODEL}


def viewers_of_contribution(trust: Trust) -> frozenset[Viewer]:
    """Who sees one party's message; under a secure sum nobody sees an unmasked one."""
    if trust is Trust.SECURE_SUM:
        return frozenset()
    return frozenset({SERVER})
