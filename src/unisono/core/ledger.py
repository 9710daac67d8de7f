"""The book of one data set: it authorises before data is read, and remembers for good.

    book = Ledger.create("ages.ledger", Policy("ages", Budget(1.0, 1e-6)), accountant)
    grant = book.authorize({viewer: history, ...}, releases=1)

The cost is checked against every viewer's budget and is on the disk before the grant
exists; a grant that is taken and never used stays spent. The ledger is handed its
accountant, so it depends on nothing above `core`, and its clock.

Budgets hold under fully adaptive use: the next request, its mechanism and its noise may depend on
all earlier answers. What is left of each budget is the state of a privacy filter (`core.wallet`,
`accounting.filter`), written into every line that spends. A plan whose releases are declared
together, before the first of them, is one request (`declare`). A budget that is increased after
answers is no larger guarantee: the increase is a wallet of its own, whose epsilon and delta add up.

Two budgets are kept to: one for all releases ever, and one for those of a calendar year (UTC), the
allowance `per_year`. Dates never go back: whatever a clock says, a
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
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

from unisono.core import journal, notebook
from unisono.core.clock import ledger_clock
from unisono.core.collector import collector_paused
from unisono.core.costs import Cost, KnownCost, checked_cost, cost_name, counted_again
from unisono.core.events import NOTHING, Composed, Event, canonical, composed_from_json
from unisono.core.grant import _LEDGERS_ONLY, Grant, _Uncopyable, derive
from unisono.core.journal import Held, Journal, MemoryJournal
from unisono.core.policy import Budget, Policy
from unisono.core.raises import Raise, Signer, raise_line, raised, read_raise
from unisono.core.trust import Relation, Viewer, describe
from unisono.core.wallet import (
    ADAPTIVE,
    Remaining,
    Wallet,
    Wallets,
    alternatives,
    increase,
    states_from_json,
    states_to_json,
    together,
)
from unisono.core.words import number, remaining
from unisono.errors import (
    BudgetExceeded,
    GrantMisused,
    InvalidInput,
    LedgerCorrupted,
)

FORMAT = "unisono-ledger-3"
_OLDER = "unisono-ledger-2"  # without a filter; its lines are replayed under it
_BOUGHT = "bought"
Clock = Callable[[], float]  # seconds since 1970; without one, `ledger_clock` of the seed


class Accountant(Protocol):
    """What a ledger needs to know about costs."""

    def begin(self, epsilon: float, delta: float) -> Wallet:
        """What is left of a budget before the first release."""

    def charge(self, wallet: Wallet, history: Composed, relation: Relation) -> Wallet | None:
        """What is left after releases that are declared together; None if they do not fit."""

    def left(self, wallet: Wallet) -> Remaining:
        """What may still be released, at the wallet's delta."""

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
    format: str = FORMAT

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
        clock: Clock | None = None,
    ) -> None:
        if maker is not _LEDGERS_ONLY:
            raise GrantMisused("use Ledger.create, Ledger.open or Ledger.in_memory")
        self._header, self._clock = header, clock or ledger_clock(seed)
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
        # By viewer and year (0: for ever); one mapping is shared by ledgers that are alike.
        self._wallets: Wallets = {}
        self._own_wallets: Wallets | None = None if policy is None else {}
        self._requests: list[tuple[str, str]] = []  # names of costs that were charged, with times
        self._plans: dict[str, dict[Viewer, dict[Event, int]]] = {}  # what is left of each
        self._planned: dict[int, str] = {}  # the plan from which a thread draws; 0: every thread
        self._filtered = header.format == FORMAT  # whether lines carry what is left
        self._unproved: dict[Viewer, None] = {}  # whose older lines do not fit the filter
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
        clock: Clock | None = None,
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
        clock: Clock | None = None,
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
        clock: Clock | None = None,
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
        clock: Clock | None = None,
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
        clock: Clock | None,
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

    @classmethod
    def replica(
        cls,
        lines: Sequence[dict[str, Any]],
        accountant: Accountant,
        policy: Policy | None = None,
        clock: Clock | None = None,
    ) -> "Ledger":
        """A book rebuilt from the lines of a file: no lock, no repair, no writing."""
        ledger = cls(
            _LEDGERS_ONLY, MemoryJournal(), header(lines, "the file"), accountant, None, None, clock
        )
        ledger._learn(list(lines[1:]))
        if policy is not None and policy.tightens(ledger._allowed):
            ledger._own = ledger.policy = policy
            ledger._own_wallets = None
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
        with self._up_to_date():
            self._lowered()

    def _lowered(self) -> Wallets:
        """What is left of the owner's lower budgets: all requests, replayed under them. The
        guarantee is that of the ledger's own budget; a lower one only stops earlier."""
        if self._own_wallets is None:
            found: Wallets = {}
            for name, time in self._requests:
                after = self._charged(found, self._costs[name], time, self.policy)
                if isinstance(after, _Limit):
                    budget = after.budget
                    spent = self.accountant.epsilon(
                        self._history(after.viewer), self.policy.relation, budget.delta
                    )
                    raise InvalidInput(
                        f"Invalid budget: epsilon {budget.epsilon:.4g} at delta {budget.delta:g} "
                        f"is less than what is spent against {describe(after.viewer)} "
                        f"(epsilon {spent:.4g}).\nLower it no further than that."
                    )
                found = {**found, **after}
            self._own_wallets = found
        return self._own_wallets

    # -------------------------------------------------------- authorising

    def check(self, cost: Cost) -> None:
        """Refuse, as `authorize` would, without writing anything."""
        known = self._known(cost)
        with self._up_to_date():
            if self._plan_of(known) is None:
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
            grant = self._grant(known, releases, purpose, self._now(), records)
            written = self._journal.written
        # Waiting for the disk outside the lock lets others write meanwhile: one sync serves all.
        self._journal.sync(written)
        return grant

    def declare(self, cost: Cost, name: str) -> None:
        """Charge for all releases of a plan as one request, before the first of them.

        Grants whose purpose belongs to the plan are then drawn from it (`declared`). What a plan
        does not use stays charged. A plan of this name that was declared before goes on.
        """
        known = self._known(cost)
        with self._up_to_date():
            if name in self._plans:
                return
            now = self._now()
            after = self._require_fits(known.counted, now)
            lines = self._upgrade() + ([] if known.name in self._costs else [known.line])
            lines.append({"kind": "plan", "name": name, "cost": known.name, "time": now})
            lines[-1]["left"] = after.written
            self._journal.append(lines)
            self._costs.setdefault(known.name, known.counted)
            self._take_plan(name, known.name, now)
            self._take(known.name, now, after.all)

    def has_plan(self, name: str) -> bool:
        """Whether a plan of this name was declared, by any process."""
        with self._up_to_date():
            return name in self._plans

    @staticmethod
    @contextlib.contextmanager
    def declared(
        ledgers: Sequence["Ledger"], costs: Sequence[Cost], name: str | None = None
    ) -> Iterator[None]:
        """Inside, what these ledgers grant is drawn from a plan that is charged as a whole: each
        ledger declares its cost first, unless a plan is open already."""
        pairs = [
            (ledger, cost)
            for ledger, cost in zip(ledgers, costs, strict=True)
            if ledger._plan is None
        ]
        with _all_held([ledger for ledger, _ in pairs]):  # all of them, or none
            names = [name or f"plan {len(ledger._plans)}" for ledger, _ in pairs]
            for (ledger, cost), own in zip(pairs, names, strict=True):
                if own not in ledger._plans:
                    ledger._require_fits(ledger._known(cost).counted, ledger._now())
            for (ledger, cost), own in zip(pairs, names, strict=True):
                ledger.declare(cost, own)
        try:
            for (ledger, _), own in zip(pairs, names, strict=True):
                ledger._planned[threading.get_ident()] = own
            yield
        finally:
            for ledger, _ in pairs:
                ledger._planned.pop(threading.get_ident(), None)

    @property
    def _plan(self) -> str | None:
        """The plan from which this thread draws; others may have studies of their own."""
        planned = self._planned
        return planned.get(threading.get_ident(), planned.get(0)) if planned else None

    def _up_to_date(self) -> Held[None]:
        """Hold the book alone, with what others have written in it: only then is it read."""
        return Held(self._journal, self._learn)

    def _grant(
        self,
        known: KnownCost,
        releases: int,
        purpose: str,
        now: str,
        records: int | None = None,
        after: "_After | None" = None,
    ) -> Grant:
        """Write first, then remember; the caller hands it out once the disk has confirmed. `after`
        is what is left then, where that is known."""
        number = self._grants
        plan = self._plan_of(known)
        if plan is None and after is None:
            after = self._require_fits(known.counted, now)
        lines: list[dict[str, Any]] = [] if known.name in self._costs else [known.line]
        line = {
            "kind": "grant",
            "number": number,
            "cost": known.name,
            "releases": releases,
            "purpose": purpose,
            "time": now,
        }
        if plan is not None:
            line["plan"] = plan
        else:
            assert after is not None
            line["left"] = after.written
        self._journal.write([*self._upgrade(), *lines, line])
        self._costs.setdefault(known.name, known.counted)
        self._count(known.name, now)
        self._purposes[purpose] = None
        self._grants += 1
        self._histories = self._year_histories = None
        if plan is not None:
            self._use(plan, known.name)
        else:
            assert after is not None
            self._take(known.name, now, after.all)
        secret = self._fresh_secret(number)
        return Grant(_LEDGERS_ONLY, self, number, known.cost, releases, secret, records)

    @staticmethod
    def authorize_all(
        ledgers: Sequence["Ledger"], cost: Cost, releases: int = 1, purpose: str = ""
    ) -> list[Grant]:
        """Authorise one cost with many parties: all of them, or none.

        Ledgers with equal budgets and equal states are asked once, so the cost of accounting
        follows the number of distinct states.
        """
        _require_whole(releases)
        with collector_paused(), _all_held(ledgers):
            times = [ledger._now() for ledger in ledgers]
            checked = Ledger._ask_all(ledgers, cost, times)
            grants = [
                ledger._grant(known, releases, purpose, now, after=after)
                for ledger, (known, after), now in zip(ledgers, checked, times, strict=True)
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
    def _ask_all(
        ledgers: Sequence["Ledger"], cost: Cost, times: Sequence[str]
    ) -> "list[tuple[KnownCost, _After | None]]":
        """Refuse if one ledger would; those who must answer alike are asked once."""
        answers: dict[Any, tuple[KnownCost, _After | None]] = {}
        given = []
        for ledger, now in zip(ledgers, times, strict=True):
            question = ledger._question(now)
            if question not in answers:
                known = ledger._known(cost)
                planned = ledger._plan_of(known) is not None
                after = None if planned else ledger._require_fits(known.counted, now)
                answers[question] = known, after
            given.append(answers[question])
        return given

    def _question(self, now: str) -> Any:
        """Equal for ledgers that must give the same answer to the same cost."""
        policy = self.policy
        own = id(self) if self._plan is not None or self._own is not None else 0
        return (
            id(self._wallets) if self._wallets else 0,  # shared where histories were alike
            id(self.accountant),
            own,
            _year(now) if policy.paced else 0,
            policy.budget,
            policy.exceptions,
            policy.relation,
            policy.unit,
            policy.colluders,
        )

    def _known(self, cost: Cost) -> KnownCost:
        """The cost, checked once per unit and relation, and the name under which it is written."""
        items, policy = tuple(cost.items()), self.policy
        last = self._last  # one read: another thread may ask about another cost meanwhile
        if items != last[0]:
            checked = checked_cost(items, policy.unit, policy.relation, policy.colluders)
            last = self._last = (items, checked)
        return last[1]

    def _limits(self) -> list[tuple[Wallets, Policy]]:
        """What the ledger allows, and what its owner does, if that is less."""
        limits = [(self._wallets, self._allowed)]
        if self._own is not None and self._own != self._allowed:
            limits.append((self._lowered(), self.policy))
        return limits

    def _require_fits(self, cost: Cost, now: str) -> "_After":
        """What is left after a cost; refused if some viewer's budget, or this year's allowance,
        cannot bear it."""
        found = []
        for wallets, policy in self._limits():
            after = self._charged(wallets, cost, now, policy)
            if isinstance(after, _Limit):
                raise BudgetExceeded(self._refusal(after, cost[after.viewer]))
            found.append(after)
        return _After({**self._wallets, **found[0]}, states_to_json(found[0]))

    def _charged(
        self,
        wallets: Wallets,
        cost: Cost,
        now: str,
        policy: Policy,
    ) -> "Wallets | _Limit":
        """The wallets that a cost changes, or the first limit that cannot bear it. A request is
        charged as a whole to the first wallet in which it fits."""
        found: dict[tuple[Viewer, int], tuple[Wallet, ...]] = {}
        for viewer, history in cost.items():
            if history == NOTHING:
                continue
            for year, own in self._opened_wallets(wallets, viewer, now, policy):
                for place, wallet in enumerate(own):
                    after = self.accountant.charge(wallet, history, policy.relation)
                    if after is not None:
                        found[viewer, year] = (*own[:place], after, *own[place + 1 :])
                        break
                else:
                    return _Limit(viewer, policy.budget_for(viewer), own, year or None)
        return found

    def _opened_wallets(
        self,
        wallets: Wallets,
        viewer: Viewer,
        now: str,
        policy: Policy,
    ) -> "Iterator[tuple[int, tuple[Wallet, ...]]]":
        """What holds against a viewer, by year (0: for ever): one wallet for the budget at the
        first release, and one for every later increase."""
        budget, begin = policy.budget_for(viewer), self.accountant.begin
        if math.isinf(budget.epsilon):
            return
        yield 0, wallets.get((viewer, 0)) or (begin(budget.epsilon, budget.delta),)
        if budget.per_year is not None:
            key = viewer, _year(now)
            yield key[1], wallets.get(key) or (begin(budget.per_year, budget.delta),)

    def _plan_of(self, known: KnownCost) -> str | None:
        """The open plan, if it still holds all of a cost."""
        plan = self._plan
        if plan is None:
            return None
        left = self._plans[plan]
        covered = all(
            left.get(viewer, {}).get(event, 0) >= count
            for viewer, history in known.counted.items()
            for event, count in history.parts
        )
        return plan if covered else None

    def _buy(self, own: Mapping[Viewer, Composed]) -> None:
        """Grant these releases and nothing else: another ledger has charged for them."""
        self._plans[_BOUGHT] = {viewer: dict(history.parts) for viewer, history in own.items()}
        self._planned[0] = _BOUGHT

    def _take_plan(self, name: str, cost: str, now: str) -> None:
        own = {viewer: dict(history.parts) for viewer, history in self._costs[cost].items()}
        self._plans[name] = own
        if now is not self._last_time:
            self._date(now)

    def _use(self, plan: str, cost: str) -> None:
        """Take what a grant releases from what is left of its plan."""
        left = self._plans[plan]
        for viewer, history in self._costs[cost].items():
            for event, count in history.parts:
                if left.get(viewer, {}).get(event, 0) < count:
                    raise LedgerCorrupted(
                        f"A grant draws more from the plan {plan!r} than was declared: lines were "
                        "removed or added by hand."
                    )
                left[viewer][event] -= count

    def _take(self, cost: str, now: str, left: Wallets) -> None:
        """Remember a request, and all that is left after it."""
        self._requests.append((cost, now))
        if self._own_wallets is not None:
            self._own_wallets = None
        self._wallets = left

    def _upgrade(self) -> list[dict[str, Any]]:
        """The line with which an older ledger goes on under the filter."""
        if self._filtered:
            return []
        self._filtered = True
        return [{"kind": "filter", "left": states_to_json(self._wallets)}]

    def _replayed(self, cost: str, time: str) -> None:
        """Charge a line that was written without the filter."""
        counted = self._costs[cost]
        after = self._charged(self._wallets, counted, time, self._allowed)
        if isinstance(after, _Limit):
            after = dict[tuple[Viewer, int], tuple[Wallet, ...]]()
            for viewer, history in counted.items():
                for year, own in self._opened_wallets(self._wallets, viewer, time, self._allowed):
                    one = self._charged(
                        {(viewer, year): own}, {viewer: history}, time, self._allowed
                    )
                    if isinstance(one, _Limit):
                        self._unproved[viewer] = None
                        after[viewer, year] = tuple(
                            wallet._replace(window=None, mu2=0.0, left=0.0) for wallet in own
                        )
                    else:
                        after.update(one)
        self._take(cost, time, {**self._wallets, **after})

    def _written(self, line: Mapping[str, Any]) -> None:
        """Take in what a line says is left. It never grows; `verify` checks every charge."""
        time = line["time"]
        due = {
            (viewer, year): own
            for viewer, history in self._costs[line["cost"]].items()
            if history != NOTHING
            for year, own in self._opened_wallets(self._wallets, viewer, time, self._allowed)
        }
        after = states_from_json(line["left"], due)
        for viewer, _ in due.keys() - after.keys():
            raise LedgerCorrupted(
                f"A grant does not charge {describe(viewer)} for its releases: the line was "
                "written or changed by hand."
            )
        self._take(line["cost"], time, {**self._wallets, **after})

    def _refusal(self, over: "_Limit", asked: Composed) -> str:
        budget, year, policy = over.budget, over.year, self.policy
        alone = self.accountant.epsilon(asked, policy.relation, budget.delta)
        head = f"Budget exceeded for {policy.dataset!r} against {describe(over.viewer)}"
        if math.isinf(alone):
            return (
                f"{head}: this request has no finite epsilon at the budget's delta "
                f"{budget.delta:g}.\n{_no_epsilon(budget.delta)}\nNo data was read."
            )
        limit = budget.epsilon if year is None else budget.per_year
        when = "" if year is None else f" for {year}, the allowance of one year"
        later = "" if year is None else f", or wait for 1 January {year + 1} (UTC)"
        left = alternatives([self.accountant.left(wallet) for wallet in over.wallets])
        unproved = (
            "\nOlder releases of this ledger exceed the budget under adaptive use: nothing more is "
            "granted from it. The owner may increase the budget (unisono ledger raise)."
            if over.viewer in self._unproved
            else ""
        )
        return (
            f"{head}: this request needs epsilon {alone:.4g} at delta {budget.delta:g}. Of "
            f"epsilon {limit:g}{when}, {left.words(budget.delta)} is left.\n"
            f"{self._largest_fitting(over, asked, alone <= left.epsilon)}{later}. "
            f"No data was read.{unproved}"
        )

    def _largest_fitting(self, over: "_Limit", asked: Composed, small: bool) -> str:
        """Which part of what was asked would still fit, for the message of a refusal; a request
        that would fit alone may be too `small` to seem refused."""
        if len(asked.parts) == 1:
            event, count = asked.parts[0]
            low, high = 0, count
            while high - low > 1:
                middle = (low + high) // 2
                fits = any(
                    self.accountant.charge(wallet, event * middle, self.policy.relation)
                    for wallet in over.wallets
                )
                low, high = (middle, high) if fits else (low, middle)
            if low:
                return f"{low} of its {count} releases would fit: ask for fewer or add more noise"
        if small:
            return (
                "After other releases this much is left for Gaussian noise only, and noise of "
                "another distribution costs more. Use Gaussian noise (a delta above 0), or declare "
                "all requests as one study"
            )
        return "Ask for less, add more noise, or ask the data owner to increase the budget"

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
        before, self._allowed = self._allowed, raised(self._allowed, found.budget)
        if self._own is None:
            self.policy = self._allowed
        epsilon = increase(before.budget.epsilon, found.budget.epsilon)
        delta = increase(before.budget.delta, found.budget.delta)
        year, now = found.budget.per_year, _year(found.time)
        grown = {}
        for (viewer, of), own in self._wallets.items():
            paced = self._allowed.budget_for(viewer).per_year
            if of == 0 and paced is not None and before.budget_for(viewer).per_year is None:
                # Earlier releases of this year count: until now the budget was its allowance.
                more = increase(before.budget_for(viewer).epsilon, paced)
                added = (self.accountant.begin(more, delta),) if more > 0 else ()
                grown[viewer, now] = own + added
            if before.excepts(viewer):
                continue  # an exception, which is not raised
            if of == 0 and (epsilon or delta):
                grown[viewer, of] = (*own, self.accountant.begin(epsilon, delta))
            elif of == now and year is not None and year > (before.budget.per_year or year):
                more = increase(before.budget.per_year or 0.0, year)
                grown[viewer, of] = (*own, self.accountant.begin(more, delta))
        self._wallets = {**self._wallets, **grown}

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

    def left(self, viewer: Viewer, after: Composed = NOTHING) -> Remaining:
        """What may still be released against a viewer, for ever, `after` a request that counts so
        much."""
        return self._left(viewer, 0, after)

    def left_this_year(self, viewer: Viewer, after: Composed = NOTHING) -> Remaining:
        """What this calendar year's allowance still admits against a viewer."""
        return self._left(viewer, self.year, after)

    def _left(self, viewer: Viewer, year: int, after: Composed) -> Remaining:
        self._require_counted(viewer)
        with self._up_to_date():
            now = self._now()
            return together(
                alternatives([self.accountant.left(wallet) for wallet in own])
                for wallets, policy in self._limits()
                for charged in [self._charged(wallets, {viewer: after}, now, policy)]
                for of, own in self._opened_wallets(
                    wallets if isinstance(charged, _Limit) else {**wallets, **charged},
                    viewer,
                    now,
                    policy,
                )
                if of == year
            )

    def fits_more(self, cost: Cost, most: int, this_year: bool = False) -> int:
        """How often what counts against the budget (`core.costs.counted`) still fits, asked for
        again and again, up to `most` times."""
        with self._up_to_date():
            now = self._now()
            limits = self._limits()
            if not this_year:
                limits = [(wallets, _for_ever(policy)) for wallets, policy in limits]
            return min(self._fits_more(*limit, cost, now, most) for limit in limits)

    def _fits_more(
        self,
        wallets: Wallets,
        policy: Policy,
        cost: Cost,
        now: str,
        most: int,
    ) -> int:
        for count in range(most):
            after = self._charged(wallets, cost, now, policy)
            if isinstance(after, _Limit):
                return count
            wallets = {**wallets, **after}
        return most

    @property
    def older(self) -> tuple[Viewer, ...]:
        """Against whom releases that an older version authorised exceed the budget, if requests
        were chosen from earlier answers."""
        with self._up_to_date():
            return tuple(sorted(self._unproved))

    def spent(self, viewer: Viewer, delta: float | None = None) -> float:
        """Epsilon of all releases so far against a viewer, had they been fixed in advance; at the
        budget's delta unless another is given. The guarantee is the budget."""
        delta = self.policy.budget_for(viewer).delta if delta is None else delta
        history = self.history(viewer)
        if history == NOTHING:
            return 0.0
        return self.accountant.epsilon(history, self.policy.relation, delta)

    def spent_this_year(self, viewer: Viewer, delta: float | None = None) -> float:
        """Epsilon of this calendar year's releases against a viewer, had they been fixed in
        advance."""
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
            left = self.left(viewer)
            said = "-" if math.isinf(budget.epsilon) else f"{remaining(left.epsilon)} of {limit}"
            rows.append(
                [
                    describe(viewer),
                    limit,
                    notebook.gauge(1 - left.share, 1.0, said),
                    said,
                    f"{budget.delta:g}",
                    number(spent),
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
                ["against", "epsilon", "", "left", "at delta", "releases, had they been fixed"],
                rows,
                f"Budgets, {ADAPTIVE}",
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
                tuple(sorted(self._wallets.items())),
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
                        if "plan" in line:
                            self._use(line["plan"], line["cost"])
                        else:
                            self._charge_line(line)
                    case "plan" if line["cost"] in self._costs and line["name"] not in self._plans:
                        time = require_later(line["time"], self._last_time)
                        self._take_plan(line["name"], line["cost"], time)
                        self._charge_line(line)
                    case "filter" if not self._filtered:
                        self._filtered = True
                        left = states_from_json(line["left"], self._wallets, charged=0)
                        if left.keys() != self._wallets.keys():
                            raise LedgerCorrupted(
                                "The line with which the filter began leaves somebody out who was "
                                "shown something: it was written or changed by hand."
                            )
                        self._wallets = left
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

    def _charge_line(self, line: Mapping[str, Any]) -> None:
        if "left" in line and self._filtered:
            self._written(line)
        elif self._filtered or "left" in line:
            raise LedgerCorrupted(
                "A line that spends does not say what is left, or says it before the filter began: "
                "it was written by hand."
            )
        else:
            self._replayed(line["cost"], line["time"])

    def _require_charged(self, before: Wallets, line: Mapping[str, Any]) -> None:
        """Refuse a line whose written charge does not cover its releases."""
        if "left" not in line or line["kind"] == "filter":
            return
        counted = self._costs[line["cost"]]
        checked: Any = self.accountant
        for (viewer, year), own in self._wallets.items():
            opened = self._opened_wallets(before, viewer, line["time"], self._allowed)
            earlier = dict(opened).get(year, own)
            for one, after in zip(earlier, own, strict=True):
                if one != after and not checked.follows(
                    one, after, counted[viewer], self._allowed.relation
                ):
                    raise LedgerCorrupted(
                        f"A line charges {describe(viewer)} less than its releases cost: it was "
                        "written or changed by hand."
                    )

    def _fresh_secret(self, number: int) -> bytes:
        if self._prepaid is not None:
            return derive(self._prepaid, "grant", number)
        if self._seed is None:
            return os.urandom(32)
        seed = hashlib.sha256(f"simulation {self._seed}".encode()).digest()
        return derive(seed, "grant", self._header.policy.fingerprint.encode(), number)


class _Limit(NamedTuple):
    """A budget that does not bear a cost, for ever or in one year, and what is left of it."""

    viewer: Viewer
    budget: Budget
    wallets: tuple[Wallet, ...]
    year: int | None = None


def _for_ever(policy: Policy) -> Policy:
    """A policy without the allowance of a year."""
    exceptions = tuple((v, replace(own, per_year=None)) for v, own in policy.exceptions)
    return replace(policy, budget=replace(policy.budget, per_year=None), exceptions=exceptions)


class _After(NamedTuple):
    """What a request leaves in all wallets, and, as a line says it, in those that it changes."""

    all: Wallets
    written: list[Any]


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
    known = [("policy", FORMAT), ("policy", _OLDER)]
    if not lines or (lines[0].get("kind"), lines[0].get("format")) not in known:
        raise LedgerCorrupted(
            f"{path} does not begin with the policy of a {FORMAT} file: it is not a ledger, or one "
            "of another version, or its beginning is lost"
        )
    with journal.understood("the first line"):
        first = lines[0]
        if not isinstance(first["id"], str) or len(first["id"]) < 32:
            raise TypeError("no id")
        time = require_later(first["time"], "")
        policy = Policy.from_json(first["policy"])
        return Header(policy, str(first["entropy"]), first["id"], time, first["format"])


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


def _begun(policy: Policy, seed: int | None, clock: Clock | None) -> Header:
    """What a new ledger begins with; a simulation is the same every time."""
    own = secrets.token_hex(16) if seed is None else _simulated_id(seed)
    entropy = "os" if seed is None else "simulation"
    return Header(policy, entropy, own, _written_time(int((clock or ledger_clock(seed))())))


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
