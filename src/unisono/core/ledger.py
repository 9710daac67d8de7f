"""The book of one data set: it authorises before data is read, and remembers for good.

    book = Ledger.create("ages.ledger", Policy("ages", Budget(1.0, 1e-6)), accountant)
    grant = book.authorize({viewer: history, ...}, releases=1)

The cost is checked against every viewer's budget and is on the disk before the grant
exists; a grant that is taken and never used stays spent. The ledger is handed its
accountant, so it depends on nothing above `core`.
"""

import contextlib
import datetime
import gc
import hashlib
import hmac
import math
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Protocol

from unisono.core import journal
from unisono.core.costs import Cost, KnownCost, checked_cost, cost_name, counted_again
from unisono.core.events import NOTHING, Composed, composed_from_json
from unisono.core.grant import _LEDGERS_ONLY, Grant, _Uncopyable, derive
from unisono.core.journal import Held, Journal, MemoryJournal
from unisono.core.policy import Budget, Policy
from unisono.core.trust import Relation, Viewer, describe
from unisono.errors import (
    BudgetExceeded,
    GrantMisused,
    InvalidInput,
    LedgerCorrupted,
)

FORMAT = "unisono-ledger-1"
_AHEAD = 64


class Accountant(Protocol):
    """What a ledger needs to know about costs."""

    def fits(self, history: Composed, relation: Relation, epsilon: float, delta: float) -> bool:
        """Whether the history is certainly (epsilon, delta)-private."""

    def epsilon(self, history: Composed, relation: Relation, delta: float) -> float:
        """An upper bound on epsilon at this delta."""


@dataclass(frozen=True)
class Receipt:
    """Proof that a release has left, once."""

    entry: int
    index: int
    digest: str


class Ledger(_Uncopyable):
    """One append-only book per data set; the only source of grants."""

    def __init__(
        self,
        maker: object,
        journal: Journal | MemoryJournal,
        policy: Policy,
        accountant: Accountant,
        seed: int | None,
    ) -> None:
        if maker is not _LEDGERS_ONLY:
            raise GrantMisused("use Ledger.create, Ledger.open or Ledger.in_memory")
        self.policy, self.accountant = policy, accountant
        self._journal = journal
        self._seed = seed
        self._seal_key = os.urandom(32)
        self._costs: dict[str, dict[Viewer, Composed]] = {}
        self._histories: dict[Viewer, Composed] | None = {}
        self._last: tuple[Any, Any] = (None, None)
        self._room: tuple[KnownCost | None, int] = (None, 0)
        self._times: dict[str, int] = {}
        self._purposes: set[str] = set()
        self._grants = 0
        self._dispatched: set[tuple[int, int]] = set()
        self._lock = threading.Lock()

    # ------------------------------------------------------------ opening

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        policy: Policy,
        accountant: Accountant,
        seed: int | None = None,
    ) -> "Ledger":
        """A new book at `path`; a seed makes it, and all it pays for, a simulation."""
        journal.create(path, [_policy_line(policy, seed, _now())])
        return cls.open(path, accountant, policy, seed)

    @classmethod
    def in_memory(cls, policy: Policy, accountant: Accountant, seed: int | None = None) -> "Ledger":
        """A book that is forgotten with the process: for simulations and trying out."""
        book = MemoryJournal(partial(_policy_line, policy, seed, _now()))
        return cls(_LEDGERS_ONLY, book, policy, accountant, seed)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        accountant: Accountant,
        policy: Policy | None = None,
        seed: int | None = None,
    ) -> "Ledger":
        """The book at `path`, with all it remembers; `policy`, if given, must be its own, or one
        that only lowers budgets: what it has spent must fit into them."""
        file = Journal(path)
        try:
            return cls._opened(file, accountant, policy, seed)
        except BaseException:
            file.close()
            raise

    @classmethod
    def _opened(
        cls, file: Journal, accountant: Accountant, policy: Policy | None, seed: int | None
    ) -> "Ledger":
        path = file.path
        with file.locked() as lines:
            written, entropy = header(lines, path)
            if policy is not None and not policy.tightens(written):
                raise InvalidInput(
                    f"the ledger {path} belongs to data set {written.dataset!r} under another "
                    "policy: open it without a policy, or use the ledger of this data set; budgets "
                    "may be lowered, and nothing else may change"
                )
            if (entropy == "simulation") != (seed is not None):
                raise InvalidInput(
                    f"the ledger {path} was made "
                    + (
                        "for a simulation: give its seed"
                        if entropy == "simulation"
                        else "for real data: a seed would make its noise predictable, leave it out"
                    )
                )
            ledger = cls(_LEDGERS_ONLY, file, policy or written, accountant, seed)
            ledger._learn(lines[1:])
            if policy is not None and policy.identity != written.identity:
                ledger._require_spent_fits()
        return ledger

    def _require_spent_fits(self) -> None:
        """Refuse a budget that was lowered below what is spent: nobody can take that back."""
        for viewer in sorted({viewer for cost in self._costs.values() for viewer in cost}):
            budget, history = self.policy.budget_for(viewer), self._history(viewer)
            if math.isinf(budget.epsilon) or history == NOTHING:
                continue
            if not self._fits(history, budget):
                spent = self.accountant.epsilon(history, self.policy.relation, budget.delta)
                raise InvalidInput(
                    f"a budget of epsilon {budget.epsilon:.4g} at delta {budget.delta:g}, where "
                    f"{spent:.4g} is spent against {describe(viewer)}: lower it no further than "
                    "that"
                )

    # -------------------------------------------------------- authorising

    def check(self, cost: Cost) -> None:
        """Refuse, as `authorize` would, without writing anything."""
        known = self._known(cost)
        with self._up_to_date():
            self._require_fits(known.counted)

    def authorize(
        self,
        cost: Cost,
        releases: int = 1,
        purpose: str = "",
        once: bool = False,
        records: int | None = None,
    ) -> Grant:
        """Write the cost down and grant `releases` draws, or refuse and spend nothing.

        The cost covers all releases of the grant, against each viewer; with `records`, all releases
        of any one of so many that are released one at a time. What is to be granted `once` is
        refused if any process was ever granted this purpose.
        """
        _require_whole(releases)
        known = self._known(cost)
        with self._up_to_date():
            if once and purpose in self._purposes:
                raise GrantMisused(
                    f"{purpose!r} was granted before: its noise is gone with the process that "
                    "asked, and it is not granted twice"
                )
            self._make_room(known)
            grant = self._grant(known, releases, purpose, _now(), records)
            written = self._journal.written
        # Waiting for the disk outside the lock lets others write meanwhile: one sync serves all.
        self._journal.sync(written)
        return grant

    def _up_to_date(self) -> Held[None]:
        """Hold the book alone, with what others have written in it: only then is it read."""
        return Held(self._journal, self._learn)

    def _make_room(self, known: KnownCost) -> None:
        """Refuse if the cost does not fit; else remember for how many equal ones it would.

        Costs only grow, so if sixty-four more fit together, each of them fits in its turn: a
        loop of equal authorisations is accounted for once in sixty-four.
        """
        if self._room[0] is known and self._room[1] > 0:
            return
        many = {viewer: history * _AHEAD for viewer, history in known.counted.items()}
        if self._overspent(many) is None:
            self._room = (known, _AHEAD)
        else:
            self._require_fits(known.counted)
            self._room = (known, 1)

    def _grant(
        self,
        known: KnownCost,
        releases: int,
        purpose: str,
        now: str,
        records: int | None = None,
    ) -> Grant:
        """Write first, then remember; the caller hands it out once the disk has confirmed."""
        number = self._grants
        lines: list[dict[str, Any]] = [] if known.name in self._costs else [known.line]
        lines.append(
            {
                "kind": "grant",
                "number": number,
                "cost": known.name,
                "releases": releases,
                "purpose": purpose,
                "time": now,
            }
        )
        self._journal.write(lines)
        self._costs.setdefault(known.name, known.counted)
        self._times[known.name] = self._times.get(known.name, 0) + 1
        self._purposes.add(purpose)
        self._grants += 1
        self._histories = None
        self._room = (known, self._room[1] - 1) if self._room[0] is known else (None, 0)
        secret = self._fresh_secret(number)
        return Grant(_LEDGERS_ONLY, self, number, known.cost, releases, secret, records)

    @staticmethod
    def authorize_all(
        ledgers: Sequence["Ledger"], cost: Cost, releases: int = 1, purpose: str = ""
    ) -> list[Grant]:
        """Authorise one cost with many parties: all of them, or none.

        Ledgers with equal budgets and equal histories are asked once, so the cost of accounting
        follows the number of distinct histories.
        """
        _require_whole(releases)
        now = _now()
        with _collector_paused(), _all_held(ledgers):
            checked = Ledger._ask_all(ledgers, cost)
            grants = [
                ledger._grant(known, releases, purpose, now)
                for ledger, known in zip(ledgers, checked, strict=True)
            ]
            written = [ledger._journal.written for ledger in ledgers]
        for ledger, own in zip(ledgers, written, strict=True):
            ledger._journal.sync(own)
        return grants

    @staticmethod
    def check_all(ledgers: Sequence["Ledger"], cost: Cost) -> None:
        """Refuse, as `authorize_all` would, without writing anything."""
        with _all_held(ledgers):
            Ledger._ask_all(ledgers, cost)

    @staticmethod
    def _ask_all(ledgers: Sequence["Ledger"], cost: Cost) -> list[KnownCost]:
        """Refuse if one ledger would; those who must answer alike are asked once."""
        answers: dict[Any, KnownCost] = {}
        given = []
        for ledger in ledgers:
            question = ledger._question
            if question not in answers:
                known = ledger._known(cost)
                ledger._require_fits(known.counted)
                answers[question] = known
            given.append(answers[question])
        return given

    @property
    def _question(self) -> Any:
        """Equal for ledgers that must give the same answer to the same cost."""
        policy = self.policy
        return (
            policy.budget,
            policy.exceptions,
            policy.relation,
            policy.unit,
            policy.colluders,
            self.history_key,
        )

    def _known(self, cost: Cost) -> KnownCost:
        """The cost, checked once per unit and relation, and the name under which it is written."""
        items, policy = tuple(cost.items()), self.policy
        last = self._last  # one read: another thread may ask about another cost meanwhile
        if items != last[0]:
            checked = checked_cost(items, policy.unit, policy.relation, policy.colluders)
            last = self._last = (items, checked)
        return last[1]

    def _require_fits(self, cost: Cost) -> None:
        """Refuse a cost that some viewer's budget cannot bear on top of what is spent."""
        viewer = self._overspent(cost)
        if viewer is not None:
            budget = self.policy.budget_for(viewer)
            raise BudgetExceeded(self._refusal(viewer, budget, cost[viewer]))

    def _overspent(self, cost: Cost) -> Viewer | None:
        """The first viewer against whom the cost does not fit."""
        asked = set()
        for viewer, history in cost.items():
            budget, total = self.policy.budget_for(viewer), self._history(viewer) + history
            # Viewers who have seen the same under the same budget are asked about once.
            if math.isinf(budget.epsilon) or (total, budget) in asked:
                continue
            if not self._fits(total, budget):
                return viewer
            asked.add((total, budget))
        return None

    def _fits(self, history: Composed, budget: Budget) -> bool:
        relation = self.policy.relation
        return self.accountant.fits(history, relation, budget.epsilon, budget.delta)

    def _refusal(self, viewer: Viewer, budget: Budget, asked: Composed) -> str:
        spent = self.spent(viewer, budget.delta)
        alone = self.accountant.epsilon(asked, self.policy.relation, budget.delta)
        fitting = self._largest_fitting(viewer, budget, asked)
        return (
            f"refused before reading {self.policy.dataset!r}: against {describe(viewer)} this "
            f"asks for epsilon {alone:.4g} (alone), {spent:.4g} of {budget.epsilon:.4g} is spent "
            f"at delta {budget.delta:g}; {fitting}"
        )

    def _largest_fitting(self, viewer: Viewer, budget: Budget, asked: Composed) -> str:
        """Which part of what was asked would still fit, for the message of a refusal."""
        history = self._history(viewer)
        if len(asked.parts) != 1:
            return "ask for fewer releases or add more noise"
        event, count = asked.parts[0]
        low, high = 0, count
        while high - low > 1:
            middle = (low + high) // 2
            fits = self._fits(history + event * middle, budget)
            low, high = (middle, high) if fits else (low, middle)
        if low:
            return f"{low} of the {count} releases would fit, or add more noise to each"
        return "not even one such release would fit: add more noise, or stop here"

    # ------------------------------------------------------- dispatching

    def seal(self, entry: int, index: int, content: bytes) -> bytes:
        """A mark only this open ledger can make; it tells its releases from forged ones."""
        return hmac.digest(
            self._seal_key, derive(self._seal_key, "seal", entry, index, content), "sha256"
        )

    def dispatch(self, release: Any) -> Receipt:
        """Let a sealed release leave, at most once.

        Nothing is written: seal key and noise keys die with the process, so no other
        process can make, open or repeat this release.
        """
        content = getattr(release, "content", None)
        if not callable(content) or not isinstance(getattr(release, "seal", None), bytes):
            raise GrantMisused(
                f"a {type(release).__name__} is not a release: only values that went through a "
                "mechanism may leave"
            )
        entry, index, body = release.entry, release.index, content()
        if not hmac.compare_digest(release.seal, self.seal(entry, index, body)):
            raise GrantMisused(
                f"release {index} of entry {entry} was not made under this ledger, or was changed "
                "after its noise was added"
            )
        with self._lock:
            if (entry, index) in self._dispatched:
                raise GrantMisused(f"release {index} of entry {entry} has left already")
            self._dispatched.add((entry, index))
        digest = hashlib.sha256(body).hexdigest()
        return Receipt(entry, index, digest)

    # ------------------------------------------------------------ answers

    @property
    def simulated(self) -> bool:
        return self._seed is not None

    @property
    def seed(self) -> int | None:
        """The seed of a simulation; None where noise comes from the operating system."""
        return self._seed

    @property
    def place(self) -> tuple[int, ...]:
        """Equal for ledgers of one file, however often and by whatever names it was opened."""
        return self._journal.place

    @property
    def identity(self) -> str:
        return self.policy.identity

    @property
    def head(self) -> str:
        """The last link of the chain: keep it elsewhere to notice truncation."""
        return self._journal.head

    @property
    def grants(self) -> int:
        return self._grants

    def purposes(self) -> frozenset[str]:
        """What was ever granted, by any process: so a restarted one knows what it paid for."""
        with self._up_to_date():
            return frozenset(self._purposes)

    def spent(self, viewer: Viewer, delta: float | None = None) -> float:
        """Epsilon spent so far against a viewer, at the budget's delta unless another is given."""
        delta = self.policy.budget_for(viewer).delta if delta is None else delta
        history = self.history(viewer)
        if history == NOTHING:
            return 0.0
        return self.accountant.epsilon(history, self.policy.relation, delta)

    def history(self, viewer: Viewer) -> Composed:
        """Everything this viewer has been shown, equal events counted together."""
        self._require_counted(viewer)
        with self._up_to_date():
            return self._history(viewer)

    def _require_counted(self, viewer: Viewer) -> None:
        if Viewer(viewer).coalition not in (0, self.policy.colluders):
            raise InvalidInput(
                f"this ledger counts coalitions of {self.policy.colluders} parties, not {viewer}"
            )

    @property
    def viewers(self) -> tuple[Viewer, ...]:
        """Everyone who has been shown something."""
        with self._up_to_date():
            return tuple(sorted({v for cost in self._costs.values() for v in cost}))

    @property
    def history_key(self) -> frozenset[tuple[str, int]]:
        """Equal for ledgers that have paid for the same things equally often."""
        return frozenset(self._times.items())

    def _history(self, viewer: Viewer) -> Composed:
        """Only while the book is held: another thread could change it meanwhile."""
        if self._histories is None:
            self._histories = {}
            for name, times in self._times.items():
                for seen_by, history in self._costs[name].items():
                    before = self._histories.get(seen_by, NOTHING)
                    self._histories[seen_by] = before + history * times
        return self._histories.get(viewer, NOTHING)

    def close(self) -> None:
        self._journal.close()

    # ---------------------------------------------------------- internals

    def _learn(self, lines: list[dict[str, Any]]) -> None:
        """Take in lines written by others; nothing written before can be redefined."""
        if not lines:
            return
        pending: Counter[str] = Counter()
        with journal.understood("a line"):
            for line in lines:
                match line.get("kind"):
                    case "grant" if line["cost"] in self._costs:
                        if line["number"] != self._grants + pending.total():
                            raise LedgerCorrupted(
                                f"grant {line['number']} is out of order: "
                                "lines were removed or added by hand"
                            )
                        pending[line["cost"]] += 1
                        self._purposes.add(line["purpose"])
                    case "cost" if line["cost"] not in self._costs:
                        cost = {
                            Viewer(v): composed_from_json(p) for v, p in line["viewers"].items()
                        }
                        if cost_name(cost) != line["cost"]:
                            raise LedgerCorrupted(
                                "a cost does not bear its own name: it was changed by hand"
                            )
                        self._costs[line["cost"]] = counted_again(cost, self.policy)
                    case other:
                        raise LedgerCorrupted(
                            f"a line of kind {other!r} cannot stand where it "
                            "does: it was written by hand or by another version; it is never free"
                        )
        for name, times in pending.items():
            self._times[name] = self._times.get(name, 0) + times
        self._grants += pending.total()
        self._histories, self._room = None, (None, 0)

    def _fresh_secret(self, number: int) -> bytes:
        if self._seed is None:
            return os.urandom(32)
        seed = hashlib.sha256(f"simulation {self._seed}".encode()).digest()
        return derive(seed, "grant", self.identity.encode(), number)


@contextlib.contextmanager
def _collector_paused() -> Iterator[None]:
    """Without automatic garbage collection: a hundred thousand new grants are all kept, and walking
    through everything that lives, again and again as they grow, takes longer than making them."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextlib.contextmanager
def _all_held(ledgers: Sequence[Ledger]) -> Iterator[None]:
    """All books at once and up to date, taken in one order for all: nobody waits in a circle."""
    places = {ledger.place: ledger for ledger in ledgers}
    if len(places) < len(ledgers):
        raise InvalidInput("two parties share one ledger: every data set has its own")
    held: list[Journal | MemoryJournal] = []
    try:
        for place in sorted(places):
            book = places[place]._journal
            book.acquire()
            held.append(book)
            places[place]._learn(book.news())
        yield
    finally:
        for book in reversed(held):
            book.release()


def _require_whole(releases: int) -> None:
    if int(releases) != releases or releases < 1:
        raise InvalidInput(f"releases = {releases!r}: authorize at least one whole release")


def header(lines: Sequence[Mapping[str, Any]], path: object) -> tuple[Policy, str]:
    if not lines or (lines[0].get("kind"), lines[0].get("format")) != ("policy", FORMAT):
        raise LedgerCorrupted(
            f"{path} does not begin with the policy of a {FORMAT} file: it is not a ledger, or its "
            "beginning is lost"
        )
    with journal.understood("the first line"):
        return Policy.from_json(lines[0]["policy"]), str(lines[0]["entropy"])


def _policy_line(policy: Policy, seed: int | None, now: str) -> dict[str, Any]:
    """The first line of every ledger."""
    entropy = "os" if seed is None else "simulation"
    return {
        "kind": "policy",
        "format": FORMAT,
        "policy": policy.to_json(),
        "entropy": entropy,
        "time": now,
    }


def _now() -> str:
    return _written_time(int(time.time()))


@lru_cache(maxsize=1)
def _written_time(second: int) -> str:
    return datetime.datetime.fromtimestamp(second, datetime.UTC).isoformat()
