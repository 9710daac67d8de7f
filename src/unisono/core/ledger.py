"""The book of one data set: it authorises before data is read, and remembers for good.

    book = Ledger.create("ages.ledger", Policy("ages", Budget(1.0, 1e-6)), accountant)
    grant = book.authorize({viewer: history, ...}, releases=1)

The cost is checked against every viewer's budget and is on the disk before the grant
exists; a grant that is taken and never used stays spent. The ledger is handed its
accountant, so it depends on nothing above `core`, and its clock.

Two compositions are kept to: all releases ever, within the budget's epsilon, and those of one
calendar year (UTC), within its allowance `per_year`. Dates never go back: whatever a clock says, a
line is dated no earlier than the line before it, so that a clock that was set back counts towards
the later year, and a study under way is not stopped by a clock that is corrected.
"""

import contextlib
import datetime
import hashlib
import hmac
import math
import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

from unisono.core import journal, notebook
from unisono.core.collector import collector_paused
from unisono.core.costs import Cost, KnownCost, checked_cost, cost_name, counted_again
from unisono.core.events import NOTHING, Composed, canonical, composed_from_json
from unisono.core.grant import _LEDGERS_ONLY, Grant, _Uncopyable, derive
from unisono.core.journal import Held, Journal, MemoryJournal
from unisono.core.policy import Budget, Policy
from unisono.core.raises import Raise, Signer, raise_line, raised, read_raise
from unisono.core.trust import Relation, Viewer, describe
from unisono.core.words import number, remaining
from unisono.errors import (
    BudgetExceeded,
    GrantMisused,
    InvalidInput,
    LedgerCorrupted,
)

FORMAT = "unisono-ledger-2"
_AHEAD = 64
Clock = Callable[[], float]  # seconds since 1970, as time.time


class Accountant(Protocol):
    """What a ledger needs to know about costs."""

    def fits(self, history: Composed, relation: Relation, epsilon: float, delta: float) -> bool:
        """Whether the history is certainly (epsilon, delta)-private."""

    def epsilon(self, history: Composed, relation: Relation, delta: float) -> float:
        """An upper bound on epsilon at this delta."""

    def guess(self, history: Composed, relation: Relation, delta: float) -> float:
        """An upper bound on how often the best guess between two neighbours is right, no more than
        epsilon at this delta allows."""


@dataclass(frozen=True)
class Receipt:
    """Proof that a release has left, once."""

    entry: int
    index: int
    digest: str


class Header(NamedTuple):
    """What the first line says: the policy with the budget at issue, who the ledger is, and when it
    began."""

    policy: Policy
    entropy: str
    id: str
    time: str

    @property
    def identity(self) -> str:
        """What the ledger is known by, wherever its file lies and whatever its budget is: its data
        set and a random number."""
        return hashlib.sha256(canonical([self.policy.dataset, self.id])).hexdigest()


class Ledger(_Uncopyable):
    """One append-only book per data set; the only source of grants."""

    def __init__(
        self,
        maker: object,
        journal: Journal | MemoryJournal,
        header: Header,
        accountant: Accountant,
        seed: int | None,
        policy: Policy | None = None,
        clock: Clock = time.time,
    ) -> None:
        if maker is not _LEDGERS_ONLY:
            raise GrantMisused("use Ledger.create, Ledger.open or Ledger.in_memory")
        self._header, self._clock = header, clock
        # What the ledger allows, and what its owner does, who may allow less.
        self._allowed, self._own = header.policy, policy
        self._raises: tuple[Raise, ...] = ()
        self._identity: str | None = None  # a hash, of which many ledgers are never asked
        self.policy, self.accountant = policy or header.policy, accountant
        self._journal = journal
        self._seed = seed
        self._seal_key = os.urandom(32)
        self._prepaid: bytes | None = None  # what secrets follow from, if another ledger has paid
        self._costs: dict[str, dict[Viewer, Composed]] = {}
        self._histories: dict[Viewer, Composed] | None = {}
        self._last: tuple[Any, Any] = (None, None)
        self._room: tuple[KnownCost | None, int] = (None, 0)
        self._times: dict[str, int] = {}
        self._last_time = header.time
        self._year_times: dict[str, int] = {}  # of the year of the last line
        self._year_histories: dict[Viewer, Composed] | None = {}
        # Dicts where sets would do: an empty set is an object that the garbage collector visits.
        self._purposes: dict[str, None] = {}
        self._grants = 0
        self._dispatched: dict[tuple[int, int], object] = {}

    # ------------------------------------------------------------ opening

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        policy: Policy,
        accountant: Accountant,
        seed: int | None = None,
        clock: Clock = time.time,
    ) -> "Ledger":
        """A new book at `path`; a seed makes it, and all it pays for, a simulation."""
        journal.create(path, [_first_line(_begun(policy, seed, clock))])
        found = cls.open(path, accountant, None, seed, clock)
        # A permission that is not written down.
        found._allowed = replace(found._allowed, published=policy.published, queried=policy.queried)
        found.policy = found._allowed
        return found

    @classmethod
    def in_memory(
        cls,
        policy: Policy,
        accountant: Accountant,
        seed: int | None = None,
        clock: Clock = time.time,
    ) -> "Ledger":
        """A book that is forgotten with the process: for simulations and trying out."""
        first = _begun(policy, seed, clock)
        book = MemoryJournal(_first_line, first)
        return cls(_LEDGERS_ONLY, book, first, accountant, seed, clock=clock)

    @classmethod
    def all_in_memory(
        cls,
        policies: Iterable[Policy],
        accountant: Accountant,
        seed: int | None = None,
        clock: Clock = time.time,
    ) -> "list[Ledger]":
        """A book in memory for each of very many parties of a simulation."""
        with collector_paused():
            return [cls.in_memory(policy, accountant, seed, clock) for policy in policies]

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        accountant: Accountant,
        policy: Policy | None = None,
        seed: int | None = None,
        clock: Clock = time.time,
    ) -> "Ledger":
        """The book at `path`, with all it remembers; `policy`, if given, must be its own, or one
        that only lowers budgets: what it has spent must fit into them."""
        file = Journal(path)
        try:
            return cls._opened(file, accountant, policy, seed, clock)
        except BaseException:
            file.close()
            raise

    @classmethod
    def _opened(
        cls,
        file: Journal,
        accountant: Accountant,
        policy: Policy | None,
        seed: int | None,
        clock: Clock,
    ) -> "Ledger":
        path = file.path
        with file.locked() as lines:
            first = header(lines, path)
            if (first.entropy == "simulation") != (seed is not None):
                raise InvalidInput(
                    f"the ledger {path} was made "
                    + (
                        "for a simulation: give its seed"
                        if first.entropy == "simulation"
                        else "for real data: a seed would make its noise predictable, leave it out"
                    )
                )
            ledger = cls(_LEDGERS_ONLY, file, first, accountant, seed, policy, clock)
            ledger._learn(lines[1:])
            ledger._require_allowed(path)
        return ledger

    def _require_allowed(self, path: object) -> None:
        """Refuse an owner's policy that allows more than the ledger, or says something else."""
        own, allowed = self._own, self._allowed
        if own is None or own == allowed:
            return
        if not own.tightens(allowed):
            if replace(own, budget=allowed.budget, exceptions=allowed.exceptions) == allowed:
                raise InvalidInput(
                    f"the policy allows more than the ledger {path} ({own.budget.words}, where "
                    f"the ledger has {allowed.budget.words}; or an exception does): a policy by "
                    "itself may lower a budget; to raise it, sign for it (unisono ledger raise)"
                )
            raise InvalidInput(
                f"the ledger {path} belongs to data set {allowed.dataset!r} under another "
                "policy: open it without a policy, or use the ledger of this data set; budgets "
                "may be lowered, and nothing else may change"
            )
        self._require_spent_fits()

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
            self._require_fits(known.counted, self._now())

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
            now = self._now()
            self._make_room(known, now)
            grant = self._grant(known, releases, purpose, now, records)
            written = self._journal.written
        # Waiting for the disk outside the lock lets others write meanwhile: one sync serves all.
        self._journal.sync(written)
        return grant

    def _up_to_date(self) -> Held[None]:
        """Hold the book alone, with what others have written in it: only then is it read."""
        return Held(self._journal, self._learn)

    def _make_room(self, known: KnownCost, now: str) -> None:
        """Refuse if the cost does not fit; else remember for how many equal ones it would.

        Costs only grow, so if sixty-four more fit together, each of them fits in its turn: a
        loop of equal authorisations is accounted for once in sixty-four. A new year allows no less.
        """
        if self._room[0] is known and self._room[1] > 0:
            return
        many = {viewer: history * _AHEAD for viewer, history in known.counted.items()}
        if self._overspent(many, now) is None:
            self._room = (known, _AHEAD)
        else:
            self._require_fits(known.counted, now)
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
        self._count(known.name, now)
        self._purposes[purpose] = None
        self._grants += 1
        self._histories = self._year_histories = None
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
        with collector_paused(), _all_held(ledgers):
            times = [ledger._now() for ledger in ledgers]
            checked = Ledger._ask_all(ledgers, cost, times)
            grants = [
                ledger._grant(known, releases, purpose, now)
                for ledger, known, now in zip(ledgers, checked, times, strict=True)
            ]
            written = [ledger._journal.written for ledger in ledgers]
        for ledger, own in zip(ledgers, written, strict=True):
            ledger._journal.sync(own)
        return grants

    @staticmethod
    def check_all(ledgers: Sequence["Ledger"], cost: Cost) -> None:
        """Refuse, as `authorize_all` would, without writing anything."""
        with collector_paused(), _all_held(ledgers):
            Ledger._ask_all(ledgers, cost, [ledger._now() for ledger in ledgers])

    @staticmethod
    def _ask_all(ledgers: Sequence["Ledger"], cost: Cost, times: Sequence[str]) -> list[KnownCost]:
        """Refuse if one ledger would; those who must answer alike are asked once."""
        answers: dict[Any, KnownCost] = {}
        given = []
        for ledger, now in zip(ledgers, times, strict=True):
            question = ledger._question(now)
            if question not in answers:
                known = ledger._known(cost)
                ledger._require_fits(known.counted, now)
                answers[question] = known
            given.append(answers[question])
        return given

    def _question(self, now: str) -> Any:
        """Equal for ledgers that must give the same answer to the same cost."""
        policy = self.policy
        return (
            frozenset(self._of_year(now).items()) if policy.paced else None,
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

    def _require_fits(self, cost: Cost, now: str) -> None:
        """Refuse a cost that some viewer's budget, or this year's allowance of it, cannot bear on
        top of what is spent."""
        over = self._overspent(cost, now)
        if over is not None:
            raise BudgetExceeded(self._refusal(over, cost[over.viewer], now))

    def _overspent(self, cost: Cost, now: str) -> "_Limit | None":
        """The first limit into which the cost does not fit."""
        asked = set()
        for viewer, history in cost.items():
            for limit in self._limits(viewer, now):
                total = limit.spent + history
                # Viewers who have seen the same under the same budget are asked about once.
                if (total, limit.budget) in asked:
                    continue
                if not self._fits(total, limit.budget):
                    return limit
                asked.add((total, limit.budget))
        return None

    def _limits(self, viewer: Viewer, now: str) -> "Iterator[_Limit]":
        """What holds against a viewer, with what is spent of it: the budget, and that of a year."""
        budget = self.policy.budget_for(viewer)
        if math.isinf(budget.epsilon):
            return
        yield _Limit(viewer, Budget(budget.epsilon, budget.delta), self._history(viewer))
        if budget.per_year is not None:
            spent, year = self._year_history(viewer, now), _year(now)
            yield _Limit(viewer, Budget(budget.per_year, budget.delta), spent, year)

    def _fits(self, history: Composed, budget: Budget) -> bool:
        relation = self.policy.relation
        return self.accountant.fits(history, relation, budget.epsilon, budget.delta)

    def _refusal(self, over: "_Limit", asked: Composed, now: str) -> str:
        viewer, budget, year = over.viewer, over.budget, over.year
        relation = self.policy.relation
        spent = (
            0.0
            if over.spent == NOTHING
            else self.accountant.epsilon(over.spent, relation, budget.delta)
        )
        alone = self.accountant.epsilon(asked, relation, budget.delta)
        if math.isinf(alone):
            return (
                f"refused before reading {self.policy.dataset!r}: against {describe(viewer)} this "
                f"has no finite epsilon at the budget's delta {budget.delta:g}: "
                f"{_no_epsilon(budget.delta)}"
            )
        fitting = self._largest_fitting(over, asked)
        when = "" if year is None else f" in {year}, the allowance of one year,"
        later = "" if year is None else f"; or wait for 1 January {year + 1} (UTC)"
        return (
            f"refused before reading {self.policy.dataset!r}: against {describe(viewer)} this "
            f"asks for epsilon {alone:.4g} (alone), {spent:.4g} of {budget.epsilon:.4g} is spent"
            f"{when} at delta {budget.delta:g}; {fitting}{later}"
        )

    def _largest_fitting(self, over: "_Limit", asked: Composed) -> str:
        """Which part of what was asked would still fit, for the message of a refusal."""
        if len(asked.parts) != 1:
            return "ask for fewer releases or add more noise"
        event, count = asked.parts[0]
        low, high = 0, count
        while high - low > 1:
            middle = (low + high) // 2
            fits = self._fits(over.spent + event * middle, over.budget)
            low, high = (middle, high) if fits else (low, middle)
        if low:
            return f"{low} of the {count} releases would fit, or add more noise to each"
        return "not even one such release would fit: add more noise, or stop here"

    # ------------------------------------------------------------- raising

    def raise_budget(self, budget: Budget, reason: str, signer: Signer) -> Raise:
        """Raise the general budget by a line that the party signs; on the disk when this returns.

        A policy that its owner gave and that allows less goes on to hold."""
        with self._up_to_date():
            first = self._raises[:1]
            if any(one.key != signer.public.hex() for one in first):
                raise InvalidInput(
                    f"this ledger's budget was raised with the key {first[0].key[:16]}… of "
                    f"{first[0].signer!r}, and this is {signer.public.hex()[:16]}… of "
                    f"{signer.name!r}: sign with the key that was used before"
                )
            line = raise_line(
                self._allowed,
                budget,
                reason,
                signer,
                identity=self.identity,
                number=len(self._raises),
                after=self._journal.head,
                time=self._now(),
            )
            found = read_raise(line, self._allowed, self.identity, self._raises)
            self._journal.append([line])
            self._take_raise(found)
        return found

    def _take_raise(self, found: Raise) -> None:
        self._date(found.time)
        self._raises += (found,)
        self._allowed = raised(self._allowed, found.budget)
        if self._own is None:
            self.policy = self._allowed

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
        mine = object()
        # One step, so that of two threads only one finds its own object there.
        if self._dispatched.setdefault((entry, index), mine) is not mine:
            raise GrantMisused(f"release {index} of entry {entry} has left already")
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
        """What it is known by, wherever the file lies and whatever its budget is."""
        if self._identity is None:
            self._identity = self._header.identity
        return self._identity

    @property
    def issued(self) -> Budget:
        """The general budget with which it began."""
        return self._header.policy.budget

    @property
    def raises(self) -> tuple[Raise, ...]:
        """How the general budget was raised since, oldest first."""
        with self._up_to_date():
            return self._raises

    @property
    def year(self) -> int:
        """The calendar year (UTC) whose allowance is being spent."""
        with self._up_to_date():
            return _year(self._now())

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

    def spent_this_year(self, viewer: Viewer, delta: float | None = None) -> float:
        """Epsilon that the releases of this calendar year compose to, against a viewer."""
        delta = self.policy.budget_for(viewer).delta if delta is None else delta
        history = self.history_this_year(viewer)
        if history == NOTHING:
            return 0.0
        return self.accountant.epsilon(history, self.policy.relation, delta)

    def history_this_year(self, viewer: Viewer) -> Composed:
        """Everything this viewer has been shown in this calendar year (UTC)."""
        self._require_counted(viewer)
        with self._up_to_date():
            return self._year_history(viewer, self._now())

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

    def _repr_html_(self) -> str:
        """As notebooks show it: what is spent and what is left, against whom, and on what."""
        policy, viewers = self.policy, self.viewers
        rows = []
        for viewer in viewers:
            spent, budget = self.spent(viewer), policy.budget_for(viewer)
            limit = "no limit" if math.isinf(budget.epsilon) else number(budget.epsilon)
            left = "-" if math.isinf(budget.epsilon) else remaining(budget.epsilon - spent)
            rows.append(
                [
                    describe(viewer),
                    f"{number(spent)} of {limit}",
                    notebook.gauge(spent, budget.epsilon, f"{number(spent)} of {limit}"),
                    left,
                    f"{budget.delta:g}",
                ]
            )
        purposes = sorted(self.purposes())
        more = f" and {len(purposes) - 12} more" if len(purposes) > 12 else ""
        raised = [f"{one.time[:10]} to {one.budget.words}: {one.reason}" for one in self.raises]
        return notebook.shown(
            f"Ledger of {policy.dataset}",
            notebook.sentence(
                f"Nobody may ever learn more of one {policy.unit} than {policy.budget.words}, "
                f"under {policy.relation!s}; what would is refused before records are read."
            ),
            notebook.grid(
                ["against", "epsilon spent", "", "left", "at delta"], rows, "Spent by all releases"
            )
            if rows
            else notebook.sentence("Nothing is spent yet."),
            notebook.facts(
                {
                    "releases paid": str(self.grants) if self.grants else "",
                    "paid for": f"{'; '.join(purposes[:12])}{more}",
                    "raised": "; ".join(raised),
                    "head": self.head,
                }
            ),
            simulated=self.simulated,
        )

    def _year_key(self) -> Any:
        """Equal for ledgers that have paid for the same things this year, where that is limited."""
        if not self.policy.paced:
            return None
        now = self._now()
        return _year(now), frozenset(self._of_year(now).items())

    @property
    def spending_key(self) -> Any:
        """Equal for ledgers of which certificates say the same: terms, payments and raises."""
        with self._up_to_date():
            policy = self.policy
            return (
                policy.budget,
                policy.exceptions,
                policy.relation,
                policy.unit,
                self.history_key,
                self.issued,
                self._raises,
                self._year_key(),
            )

    @property
    def history_key(self) -> frozenset[tuple[str, int]]:
        """Equal for ledgers that have paid for the same things equally often."""
        return frozenset(self._times.items())

    def _history(self, viewer: Viewer) -> Composed:
        """Only while the book is held: another thread could change it meanwhile."""
        if self._histories is None:
            self._histories = _composed(self._times, self._costs)
        return self._histories.get(viewer, NOTHING)

    def _of_year(self, now: str) -> Mapping[str, int]:
        """What was paid for in the year of `now`, which no line is later than."""
        return self._year_times if _year(now) == _year(self._last_time) else {}

    def _year_history(self, viewer: Viewer, now: str) -> Composed:
        if _year(now) != _year(self._last_time):
            return NOTHING
        if self._year_histories is None:
            self._year_histories = _composed(self._year_times, self._costs)
        return self._year_histories.get(viewer, NOTHING)

    def _now(self) -> str:
        """The present time, or that of the last line, whichever is later."""
        now, last = _written_time(int(self._clock())), self._last_time
        return last if now <= last else now

    def _date(self, now: str) -> None:
        """Take in the date of the next line; with another year another allowance begins."""
        if now[:4] != self._last_time[:4]:
            self._year_times, self._year_histories = {}, {}
        self._last_time = now

    def _count(self, name: str, now: str) -> None:
        """A cost of this name was paid once more."""
        if now is not self._last_time:
            self._date(now)
        self._times[name] = self._times.get(name, 0) + 1
        self._year_times[name] = self._year_times.get(name, 0) + 1

    def close(self) -> None:
        self._journal.close()

    # ---------------------------------------------------------- internals

    def _learn(self, lines: list[dict[str, Any]]) -> None:
        """Take in lines written by others; nothing written before can be redefined."""
        if not lines:
            return
        with journal.understood("a line"):
            for line in lines:
                match line.get("kind"):
                    case "grant" if line["cost"] in self._costs:
                        if line["number"] != self._grants:
                            raise LedgerCorrupted(
                                f"grant {line['number']} is out of order: "
                                "lines were removed or added by hand"
                            )
                        self._count(line["cost"], require_later(line["time"], self._last_time))
                        self._grants += 1
                        self._purposes[line["purpose"]] = None
                    case "cost" if line["cost"] not in self._costs:
                        cost = {
                            Viewer(v): composed_from_json(p) for v, p in line["viewers"].items()
                        }
                        if cost_name(cost) != line["cost"]:
                            raise LedgerCorrupted(
                                "a cost does not bear its own name: it was changed by hand"
                            )
                        self._costs[line["cost"]] = counted_again(cost, self.policy)
                    case "raise":
                        require_later(line["time"], self._last_time)
                        self._take_raise(
                            read_raise(line, self._allowed, self.identity, self._raises)
                        )
                    case other:
                        raise LedgerCorrupted(
                            f"a line of kind {other!r} cannot stand where it "
                            "does: it was written by hand or by another version; it is never free"
                        )
        self._histories = self._year_histories = None
        self._room = (None, 0)

    def _fresh_secret(self, number: int) -> bytes:
        if self._prepaid is not None:
            return derive(self._prepaid, "grant", number)
        if self._seed is None:
            return os.urandom(32)
        seed = hashlib.sha256(f"simulation {self._seed}".encode()).digest()
        return derive(seed, "grant", self._header.policy.fingerprint.encode(), number)


class _Limit(NamedTuple):
    """A budget that holds against a viewer, for ever or in one year, and what is spent of it."""

    viewer: Viewer
    budget: Budget
    spent: Composed
    year: int | None = None


def _composed(
    times: Mapping[str, int], costs: Mapping[str, Mapping[Viewer, Composed]]
) -> dict[Viewer, Composed]:
    """What each viewer was shown by costs that were paid so many times."""
    found: dict[Viewer, Composed] = {}
    for name, count in times.items():
        for viewer, history in costs[name].items():
            found[viewer] = found.get(viewer, NOTHING) + history * count
    return found


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


def header(lines: Sequence[Mapping[str, Any]], path: object) -> Header:
    """What the first line says."""
    if not lines or (lines[0].get("kind"), lines[0].get("format")) != ("policy", FORMAT):
        raise LedgerCorrupted(
            f"{path} does not begin with the policy of a {FORMAT} file: it is not a ledger, or one "
            "of another version, or its beginning is lost"
        )
    with journal.understood("the first line"):
        first = lines[0]
        if not isinstance(first["id"], str) or len(first["id"]) < 32:
            raise TypeError("no id")
        time = require_later(first["time"], "")
        return Header(Policy.from_json(first["policy"]), str(first["entropy"]), first["id"], time)


def raises_in(lines: Sequence[Mapping[str, Any]], first: Header) -> tuple[Raise, ...]:
    """How the budget was raised, from the lines of a ledger."""
    found: tuple[Raise, ...] = ()
    policy = first.policy
    with journal.understood("a raise"):
        for line in lines:
            if line.get("kind") == "raise":
                found += (read_raise(line, policy, first.identity, found),)
                policy = raised(policy, found[-1].budget)
    return found


def terms(lines: Sequence[Mapping[str, Any]], path: object) -> Policy:
    """What a ledger allows at present, from its lines: the policy it began with, and its raises."""
    first = header(lines, path)
    raises = raises_in(lines, first)
    return replace(first.policy, budget=raises[-1].budget) if raises else first.policy


def require_later(time: object, last: str) -> str:
    """A date as ledgers write it, that is no earlier than the last."""
    if time == last:
        return last
    if not isinstance(time, str) or time != datetime.datetime.fromisoformat(time).astimezone(
        datetime.UTC
    ).isoformat(timespec="seconds"):
        raise LedgerCorrupted(f"{time!r} is no date of a ledger: it was written by hand")
    if time < last:
        raise LedgerCorrupted(
            f"a line of {time} comes after one of {last}: dates never go back in a ledger, so it "
            "was written or changed by hand"
        )
    return time


def _begun(policy: Policy, seed: int | None, clock: Clock) -> Header:
    """What a new ledger begins with; a simulation is the same every time."""
    own = secrets.token_hex(16) if seed is None else _simulated_id(seed)
    entropy = "os" if seed is None else "simulation"
    return Header(policy, entropy, own, _written_time(int(clock())))


@lru_cache(maxsize=1)
def _simulated_id(seed: int) -> str:
    return hashlib.sha256(f"simulation {seed}".encode()).hexdigest()[:32]


def _first_line(first: Header) -> dict[str, Any]:
    """The first line of every ledger."""
    return {
        "kind": "policy",
        "format": FORMAT,
        "id": first.id,
        "policy": first.policy.to_json(),
        "entropy": first.entropy,
        "time": first.time,
    }


def _year(time: str) -> int:
    return int(time[:4])


@lru_cache(maxsize=1)
def _written_time(second: int) -> str:
    return datetime.datetime.fromtimestamp(second, datetime.UTC).isoformat()


def _no_epsilon(delta: float) -> str:
    """What to do where a release has no finite epsilon, by the delta of the budget."""
    if delta == 0:
        return (
            "Gaussian noise, and whatever is sampled, needs a delta above 0; give the budget one, "
            "such as 1e-6, when its ledger begins, or ask for pure epsilon (delta = 0), for which "
            "noise is Laplace"
        )
    return "it would see values without noise; change the trust, or exempt this viewer"
