"""What all parties of a secure aggregation agree on before the first message.

The session's id hashes the roster, the study with its privacy, the parameters of the protocol, its
number and the version of the package, and the results of earlier stages of the study. Every
signature covers it, so nothing said in one session means anything in another.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from unisono.errors import InvalidInput
from unisono.secagg import neighbours
from unisono.secagg.encoding import word
from unisono.secagg.roster import Roster, digest

# Counts up whenever messages, signatures or masks of one version mean nothing to another.
PROTOCOL = 2


@dataclass(frozen=True)
class Session:
    """A roster, what is studied, and how many must survive and may collude.

    A set of survivors counts once `minimum` parties have signed it. Two different sets could only
    both be signed if n - c honest parties signed once each and c colluders twice:
    2 minimum <= n + c, which is refused. Sessions that mask nothing only name what is signed.

    `version` is that of the package; `earlier` digests the results of earlier stages (`after`).

    >>> from unisono.secagg.roster import Identity
    >>> people = [Identity(name, bytes([i]) * 32) for i, name in enumerate("abc")]
    >>> roster = Roster(("a", "b", "c"), tuple(person.public for person in people))
    >>> Session(roster, b"", 2, 1)
    Traceback (most recent call last):
    unisono.errors.InvalidInput: 2 survivors of 3 parties of whom 1 may collude: a lying server \
could open two different sums; require at least 3 survivors, or tolerate fewer colluders
    """

    roster: Roster
    study: bytes
    minimum: int
    colluders: int = 0
    bits: int = 32
    masked: bool = True
    version: str = ""
    earlier: bytes = b""

    def __post_init__(self) -> None:
        word(self.bits)
        if not self.masked:
            return
        if not 0 <= self.colluders < self.minimum <= self.parties:
            raise InvalidInput(
                f"{self.minimum} survivors of {self.parties} parties with {self.colluders} "
                "colluders: survivors are at most all, and more than may collude"
            )
        needed = (self.parties + self.colluders) // 2 + 1
        if self.minimum < needed:
            remedy = f"require at least {needed} survivors, or " if needed <= self.parties else ""
            raise InvalidInput(
                f"{self.minimum} survivors of {self.parties} parties of whom {self.colluders} may "
                f"collude: a lying server could open two different sums; {remedy}tolerate fewer "
                "colluders"
            )

    @property
    def parties(self) -> int:
        return len(self.roster)

    @property
    def degree(self) -> int:
        """With how many others a party masks."""
        return neighbours.choose(self.parties, self.minimum, self.colluders)[0]

    @property
    def threshold(self) -> int:
        """How many holders open a party's secret of one attempt."""
        return neighbours.choose(self.parties, self.minimum, self.colluders)[1]

    def after(self, results: Sequence[str]) -> "Session":
        """The session once earlier stages have these results, by their hashes, in order."""
        told = digest("earlier results", *map(bytes.fromhex, results)) if results else b""
        return replace(self, earlier=told)

    @cached_property
    def id(self) -> bytes:
        """What every signature and every mask covers."""
        return digest("run", self.account, PROTOCOL, self.version.encode(), self.earlier)

    @cached_property
    def account(self) -> bytes:
        """What payments and files are known by: neither another version nor another result of an
        earlier stage makes a party pay twice for one turn."""
        agreed = (
            bytes.fromhex(self.roster.hash),
            self.study,
            self.parties,
            self.minimum,
            self.colluders,
        )
        if not self.masked:
            return digest("session without masks", *agreed)
        return digest("session", *agreed, self.bits, self.degree, self.threshold)

    def attempt(self, round_number: int, attempt: int) -> bytes:
        """The id of one attempt at one round."""
        return digest("attempt", self.id, round_number, attempt)

    def neighbours(self, party: int) -> tuple[int, ...]:
        """The parties with whom one masks and shares."""
        if self.degree == self.parties - 1:
            return tuple(other for other in range(self.parties) if other != party)
        return neighbours.ring(self._order, self.degree, self._places[party])

    def holders(self, party: int) -> tuple[int, ...]:
        """Who holds shares of a party's secrets: its neighbours and itself."""
        return tuple(sorted((*self.neighbours(party), party)))

    def describe(self) -> str:
        """What certificates say about it."""
        return (
            f"X25519, AES-256-CTR, Ed25519, Shamir: {self.minimum} of {self.parties} parties sign "
            f"and open each sum, {self.colluders} may collude with a lying server; "
            f"{self.degree} masks per party modulo 2^{self.bits}"
        )

    @cached_property
    def _order(self) -> list[int]:
        return sorted(range(self.parties), key=lambda party: digest("place", self.account, party))

    @cached_property
    def _places(self) -> Mapping[int, int]:
        return {party: place for place, party in enumerate(self._order)}
