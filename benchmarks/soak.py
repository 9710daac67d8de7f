"""A long study in which everything fails, again and again: what is lost, and what is paid.

    python benchmarks/soak.py [--rounds 1000] [--parties 6] [--seed 1] [--smoke]

The real engine (server, parties, ledgers and checkpoints on a disk, secure sums) in one process,
over a network whose time is simulated, so that hours take minutes. At random

    parties are killed        before they read a request, between payment and answer, or before
                              the reply leaves; they come back with what is on their disk
    the server is killed      before an exchange, in the middle of it, or after it
    parties are cut off       from the server: requests are lost, or only replies are
    disks are full            of a party or of the server, for a while (ENOSPC)
    parties are late          a request is answered after nobody waits for it any more

and the study must end with every round opened or left out, and with

    nothing lost              every sum that was opened is the sum of what its parties sent, and no
                              round that was saved is run again
    nothing paid twice        no party has paid for a turn twice, made two values in one turn, or
                              spent more than noise was calibrated for
    memory flat               resident memory over rounds has no slope worth mentioning

As it is a function of the seed, a failure can be had again.
"""

import argparse
import contextlib
import errno
import logging
import os
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

import figures
from unisono.accounting.accountant import ACCOUNTANT
from unisono.algorithms.gradient_perturbation import GRADIENT_PERTURBATION
from unisono.core import journal
from unisono.core.algorithm import Facts
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.privacy import Privacy
from unisono.core.study import Party, Study
from unisono.core.transcript import LastMessages
from unisono.core.trust import Relation, Trust, Viewer
from unisono.core.values import Private
from unisono.deployment import server as deployed
from unisono.engines.checkpoint import Checkpoint
from unisono.engines.distributed import opening, presence
from unisono.engines.distributed.party import Responder
from unisono.engines.distributed.server import Conditions, coordinate
from unisono.engines.distributed.sessions import session_of
from unisono.errors import LedgerUnavailable
from unisono.problems.linear import LinearLoss
from unisono.secagg.roster import Identity, Roster

SCORECARD = figures.Benchmark(quick=("--smoke",), seconds=3600)

DELTA, RECORDS, FEATURES = 1e-5, 20, 8
DEADLINE, PATIENCE = 30.0, 1800.0
MISSED = 20.0  # seconds after which a party that was killed no longer counts as connected
# kB a round, of all parties and the server together: ledgers know their turns, and what JAX keeps
# of programs outlives the simulated processes that compiled them.
AIM_SLOPE = 10.0


class Chances(NamedTuple):
    """Of each fault, for each party, or for the server, in each exchange."""

    party_killed: float = 0.006
    party_cut_off: float = 0.006
    party_late: float = 0.004
    party_disk: float = 0.003
    server_killed: float = 0.004
    server_disk: float = 0.002


NEVER = Chances(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


class Killed(BaseException):
    """A process ends here."""


class Clock:
    """Time that passes when somebody waits."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Disks:
    """Folders whose disk is full, until when; system calls on files there fail."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self._full = clock, dict[Path, float]()
        self.failures = 0

    def fill(self, folder: Path, seconds: float) -> None:
        self._full[folder] = self._clock.now + seconds

    def free(self) -> None:
        self._full.clear()

    def is_full(self, path: Path) -> bool:
        return any(
            until > self._clock.now and path.is_relative_to(folder)
            for folder, until in self._full.items()
        )

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Inside, writing and confirming what was written asks here first."""
        calls = {name: getattr(os, name) for name in ("write", "fsync", "fdatasync")}

        def guarded(call: Callable[..., Any]) -> Callable[..., Any]:
            def guard(descriptor: int, *rest: Any) -> Any:
                if self._full and self.is_full(Path(os.readlink(f"/proc/self/fd/{descriptor}"))):
                    self.failures += 1
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                return call(descriptor, *rest)

            return guard

        for name, call in calls.items():
            setattr(os, name, guarded(call))
        try:
            yield
        finally:
            for name, call in calls.items():
                setattr(os, name, call)


class Sums(LastMessages):
    """The server's transcript; every sum is compared with what its parties sent."""

    def __init__(self, made: Mapping[tuple[int, int], np.ndarray]) -> None:
        super().__init__()
        self._made, self._sent = made, list[int]()
        self.opened: dict[int, int] = {}

    def record(self, round_number: int, name: str, value: Any, viewers: frozenset[Viewer]) -> None:
        super().record(round_number, name, value, viewers)
        if name == "messages":
            self._sent = list(value)
        if name == "sum":
            own = [self._made[party, round_number] for party in self._sent]
            total = np.sum(own, axis=0).astype(np.int64).astype(np.uint32).astype(np.int32)
            assert np.array_equal(total.ravel(), np.asarray(value).ravel()), round_number
            self.opened[round_number] = self.opened.get(round_number, 0) + 1


class Home:
    """A party's folder, and its process while it has one."""

    def __init__(self, world: "World", index: int) -> None:
        self.world, self.index = world, index
        self.folder = world.folder / f"party-{index}"
        self.folder.mkdir()
        self.identity = Identity.fresh(f"party-{index}")
        policy = Policy(f"data-{index}", Budget(1e6, DELTA), (), Relation.REPLACE_ONE)
        Ledger.create(self.book, policy, ACCOUNTANT).close()
        generator = np.random.default_rng(index)
        rows = generator.normal(size=(RECORDS, FEATURES))
        self.columns = rows, np.where(rows[:, 0] > 0, 1.0, -1.0)
        self.process: Responder | None = None
        self.back_at = self.cut_until = 0.0
        self.gone_at = self.cut_at = -float("inf")
        self.hears = True  # while it is cut off: requests arrive, and replies do not
        self.dies_within = False
        self.turns_made: set[int] = set()

    @property
    def book(self) -> Path:
        return self.folder / "records.ledger"

    def start(self) -> None:
        ledger = Ledger.open(self.book, ACCOUNTANT)
        records = Party(self.identity.name, Private(self.columns, "records"), ledger)
        self.process = Responder(
            self.world.study,
            records,
            self.identity,
            self.world.session,
            memory=self.folder / "memory",
        )
        worker, release = self.process._worker, self.process._worker.one_release

        def one_release(*turn_of: Any) -> Any:
            if self.dies_within:
                raise Killed
            found, number = release(*turn_of), turn_of[4]
            assert self.process is not None
            turn = self.process.spender.last
            assert turn not in self.turns_made, f"two values in turn {turn}"
            self.turns_made.add(turn)
            self.world.made[self.index, number] = np.array(found[0].value, np.int64)
            return found

        worker.one_release = one_release  # type: ignore[method-assign]

    def kill(self, away: float) -> None:
        assert self.process is not None
        self.process.party.ledger.close()
        self.process, self.back_at = None, self.world.clock.now + away

    def turns(self) -> list[int]:
        lines, _ = journal.read(self.book)
        granted = [line["purpose"] for line in lines if line["kind"] == "grant"]
        return [int(purpose.split(" turn ")[1]) for purpose in granted]


class World:
    """All parties, the server's folder, the network between them, and what goes wrong there."""

    def __init__(self, folder: Path, rounds: int, parties: int, seed: int) -> None:
        self.folder, self.rounds = folder, rounds
        self.random, self.clock = random.Random(seed), Clock()
        self.disks, self.chances = Disks(self.clock), Chances()
        minimum = max(2 * parties // 3, parties // 2 + 1)
        facts = Facts((RECORDS,) * parties, FEATURES, minimum, 0, True, max(3, rounds // 10))
        privacy = Privacy(8.0, DELTA)
        method = GRADIENT_PERTURBATION.method(LinearLoss(), privacy, rounds=rounds)
        self.study = Study(method, facts, Trust.SECURE_SUM)
        self.made: dict[tuple[int, int], np.ndarray] = {}
        self.homes = [Home(self, index) for index in range(parties)]
        names = tuple(home.identity.name for home in self.homes)
        keys = tuple(home.identity.public for home in self.homes)
        self.session = session_of(self.study, Roster(names, keys))
        self.happened: dict[str, int] = {}
        self.late: list[tuple[Home, bytes]] = []
        self.server = folder / "server"
        self.server.mkdir()
        for home in self.homes:
            home.start()

    def count(self, what: str) -> None:
        self.happened[what] = self.happened.get(what, 0) + 1

    def strikes(self, chance: float, what: str) -> bool:
        struck = self.random.random() < chance
        if struck:
            self.count(what)
        return struck

    # ------------------------------------------------------ the network, as the server sees it

    def nodes(self) -> list[int]:
        """Who counts as connected; whoever is gone or cut off does until it is missed."""
        self._pass()
        now = self.clock.now
        return [
            home.index + 1
            for home in self.homes
            if (home.process is not None or now < home.gone_at + MISSED)
            and (now >= home.cut_until or now < home.cut_at + MISSED)
        ]

    def exchange(self, requests: Mapping[int, bytes], deadline: float) -> dict[int, bytes]:
        self._pass()
        dies = self.random.choice(["before", "within", "after"])
        struck = self.strikes(self.chances.server_killed, "server killed")
        if struck and dies == "before":
            raise Killed
        if self.strikes(self.chances.server_disk, "server's disk full"):
            self.disks.fill(self.server, self.random.expovariate(1 / 300))
        replies, slowest = {}, 0.0
        for node, request in requests.items():
            if struck and dies == "within" and self.random.random() < 0.3:
                raise Killed
            reply, seconds = self._asked(self.homes[node - 1], request)
            if reply is None or seconds > deadline:
                slowest = deadline
            else:
                replies[node], slowest = reply, max(slowest, seconds)
        self.clock.sleep(min(slowest, deadline))
        if struck and dies != "before":
            raise Killed
        return replies

    def _asked(self, home: Home, request: bytes) -> tuple[bytes | None, float]:
        """A party's reply and how long it took; None if there is none, or it is lost."""
        chances, draw = self.chances, self.random
        seconds = draw.uniform(0.5, 9.0)
        if self.strikes(chances.party_disk, "party's disk full"):
            self.disks.fill(home.folder, draw.expovariate(1 / 300))
        if self.strikes(chances.party_cut_off, "party cut off"):
            home.cut_at, home.hears = self.clock.now, draw.random() < 0.5
            home.cut_until = self.clock.now + draw.expovariate(1 / 120)
        cut = self.clock.now < home.cut_until
        if home.process is None or (cut and not home.hears):
            return None, 0.0
        if self.strikes(chances.party_late, "request late"):
            self.late.append((home, request))
            return None, 0.0
        if self.strikes(chances.party_killed, "party killed"):
            when = draw.choice(["before", "within", "after"])
            if when != "before":
                home.dies_within = when == "within"
                with contextlib.suppress(Killed):
                    home.process.answer(request)
                home.dies_within = False
            home.gone_at = self.clock.now
            home.kill(draw.expovariate(1 / 90))
            return None, 0.0
        reply = home.process.answer(request)
        return (None if cut else reply), seconds

    def _pass(self) -> None:
        """What has come due: late requests arrive, killed parties are back."""
        late, self.late = self.late, []
        for home, request in late:
            if home.process is not None:
                home.process.answer(request)  # nobody waits for the reply any more
        for home in self.homes:
            full = self.disks.is_full(home.folder)
            if home.process is None and self.clock.now >= home.back_at and not full:
                home.start()

    def heal(self) -> None:
        """Everything works from now on."""
        self.chances = NEVER
        self.disks.free()
        self.late.clear()
        for home in self.homes:
            home.back_at = home.cut_until = 0.0

    # ------------------------------------------------------------------- the server's processes

    def run(self, watch: Callable[[int], None]) -> dict[str, Any]:
        """From the first round to the result, through as many processes as it takes."""
        sums, left_out = Sums(self.made), set[str]()
        checkpoint = self.server / "checkpoint"
        saved, deaths = 0, 0

        def progress(number: int) -> None:
            watch(number)
            if number == self.rounds:
                self.heal()
            for key in [key for key in self.made if key[1] < number - 2]:
                del self.made[key]  # no attempt at those rounds comes any more

        def say(words: str) -> None:
            if "left out" in words:  # said again by a process that could not save it
                left_out.add(words.split()[1])

        while True:
            now = _next_round(checkpoint, self)
            assert now >= saved, f"round {now + 1} after {saved} rounds were saved"
            saved = now
            try:
                outcome = coordinate(
                    self.study,
                    deployed.Unhurried(self, self.study.facts.minimum_parties),
                    self.session,
                    conditions=Conditions(DEADLINE, PATIENCE),
                    checkpoint=checkpoint,
                    progress=progress,
                    say=say,
                    transcript=sums,
                )
            except Killed:
                deaths += 1
            except LedgerUnavailable as error:
                if "the disk is full" not in str(error):
                    raise
                self.count("server ended for its full disk")
            else:
                break
            self.clock.sleep(self.random.uniform(5.0, 120.0))  # until somebody starts it again
        self._require_sound(outcome, sums, len(left_out), deaths)
        return {
            "opened": outcome.opened,
            "left out": len(left_out),
            "retries": outcome.attempts,
            "hours": self.clock.now / 3600,
            "faults": {**self.happened, "failed system calls": self.disks.failures},
        }

    def _require_sound(self, outcome: Any, sums: Sums, left_out: int, deaths: int) -> None:
        facts, rounds = self.study.facts, self.rounds
        assert outcome.opened + left_out == rounds, (outcome.opened, left_out)
        # A sum is opened again only if the server died before it was saved.
        assert sum(sums.opened.values()) <= outcome.opened + deaths + self.happened.get(
            "server ended for its full disk", 0
        )
        for home in self.homes:
            assert home.process is not None, f"{home.identity.name} is not back"
            assert home.process.finished, f"{home.identity.name} has no result"
            assert home.process.result_hash == outcome.result_hash
            turns = home.turns()
            assert turns == sorted(set(turns)), f"{home.identity.name} paid for a turn twice"
            assert len(turns) <= facts.attempts(rounds)
            assert home.turns_made <= set(turns), "a value was made in a turn that nobody paid for"
            ledger = home.process.party.ledger
            for viewer, history in self.study.costs[home.index].items():
                most = ACCOUNTANT.epsilon(history, Relation.REPLACE_ONE, DELTA)
                assert ledger.spent(viewer, DELTA) <= most * (1 + 1e-9)


def _next_round(path: Path, world: World) -> int:
    """Which round a new process of the server begins with."""
    if not path.exists():
        return 0
    state, _ = world.study.algorithm.init(world.study.facts)
    nothing = np.asarray(0)
    like = (state, np.zeros(world.study.facts.parties), nothing, nothing, nothing)
    return Checkpoint(path, world.session.id.hex()).load(like)[0]


@contextlib.contextmanager
def simulated(clock: Clock) -> Iterator[None]:
    """Inside, the engine's waiting takes simulated time."""
    modules = (opening, presence, deployed)
    pretended = SimpleNamespace(sleep=clock.sleep, monotonic=clock.monotonic)
    real = [module.time for module in modules]
    for module in modules:
        module.time = pretended  # type: ignore[attr-defined]
    try:
        yield
    finally:
        for module, own in zip(modules, real, strict=True):
            module.time = own  # type: ignore[attr-defined]


def megabytes() -> float:
    """Resident memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def slope(samples: list[tuple[int, float]]) -> float:
    """kB a round, by least squares over the second half: what is set up once is set up by then."""
    half = samples[len(samples) // 2 :]
    if len(half) < 3:
        return 0.0
    rounds, sizes = zip(*half, strict=True)
    return float(np.polyfit(rounds, sizes, 1)[0]) * 1024


def soak(folder: Path, rounds: int, parties: int, seed: int) -> dict[str, Any]:
    """One long study; raises an AssertionError if anything was lost, or paid for twice."""
    samples: list[tuple[int, float]] = []
    began = time.monotonic()

    def watch(number: int) -> None:
        if number % max(1, rounds // 100) == 0:
            samples.append((number, megabytes()))

    logging.getLogger("unisono.party").setLevel(logging.CRITICAL)
    try:
        world = World(folder, rounds, parties, seed)
        with simulated(world.clock), world.disks.installed():
            found = world.run(watch)
    finally:
        logging.getLogger("unisono.party").setLevel(logging.NOTSET)
    return found | {
        "seconds": time.monotonic() - began,
        "memory": samples[-1][1],
        "slope": slope(samples),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--parties", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--smoke", action="store_true", help="thirty rounds")
    arguments = parser.parse_args()
    rounds = 30 if arguments.smoke else arguments.rounds
    with tempfile.TemporaryDirectory() as temporary:
        found = soak(Path(temporary), rounds, arguments.parties, arguments.seed)
    print(
        f"{arguments.parties} parties, {rounds} rounds, {found['hours']:.1f} simulated hours in "
        f"{found['seconds']:.0f} s (seed {arguments.seed})"
    )
    print(
        f"  opened {found['opened']}, left out {found['left out']}, retries {found['retries']}; "
        "nothing lost, nothing paid twice"
    )
    for fault, times in sorted(found["faults"].items()):
        print(f"  {fault:32s}{times:6d}")
    print(f"  memory {found['memory']:.0f} MB, slope {found['slope']:+.1f} kB a round")
    if arguments.smoke:
        figures.smoked({"opened": found["opened"], "left out": found["left out"]})
    else:
        figures.report(
            "memory over a soak", found["slope"], "kB a round", aim=AIM_SLOPE, lower=True
        )
        assert found["slope"] <= AIM_SLOPE, "memory grows with the rounds"


if __name__ == "__main__":
    sys.exit(main())
