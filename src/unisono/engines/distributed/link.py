"""What the rounds need of a network: who is there, and one exchange of bytes."""

from collections.abc import Mapping, Sequence
from typing import Protocol


class Link(Protocol):
    """A connection from the server to nodes; which party a node is, it has to prove."""

    def nodes(self) -> Sequence[int]:
        """The nodes that are connected now."""

    def exchange(self, requests: Mapping[int, bytes], deadline: float) -> Mapping[int, bytes]:
        """Send each node its bytes and collect replies for at most `deadline` seconds.

        A node that errs, is gone or answers too late is missing from what comes back.
        """
