"""Parties with ledgers on a disk, for one study; any of them can be killed and started again."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from unisono.accounting.accountant import ACCOUNTANT
from unisono.core import journal
from unisono.core.algorithm import Facts
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.study import Party, Study
from unisono.core.trust import Relation, Trust, Viewer
from unisono.core.values import Private
from unisono.engines import wire
from unisono.engines.distributed.party import Responder
from unisono.engines.distributed.server import Conditions, StageOutcome, coordinate
from unisono.engines.distributed.sessions import session_of
from unisono.secagg.roster import Identity, Roster

from ... import methods
from .links import DirectLink, Fault, FaultyLink

DELTA = 1e-5
RECORDS, FEATURES = 5, 2


@lru_cache(maxsize=32)
def descent(
    trust: Trust = Trust.SECURE_SUM,
    parties: int = 4,
    minimum: int = 3,
    rounds: int = 3,
    retries: int = 0,
    features: int = FEATURES,
    exact_sizes: bool = True,
    records: int = RECORDS,
    colluders: int = 0,
) -> Study:
    """A few rounds of gradient perturbation; one object per kind, so it is compiled once."""
    relation = Relation.REPLACE_ONE if exact_sizes else Relation.ADD_OR_REMOVE
    facts = Facts((records,) * parties, features, minimum, colluders, exact_sizes, retries)
    method = methods.gradient_perturbation(2.0, DELTA, rounds=rounds, relation=relation)
    return Study(method, facts, trust)


def columns(study: Study, party: int, records: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Rows and labels of one party."""
    generator = np.random.default_rng(party)
    count = study.facts.records[party] if records is None else records
    rows = generator.normal(size=(count, study.facts.features))
    return rows, np.where(rows[:, 0] > 0, 1.0, -1.0)


class Remembering(Roster):
    """A roster that checks the same signature once: all parties of a test live in one process."""

    def verify(self, index: int, signature: bytes, message: bytes) -> bool:
        return 0 <= index < len(self) and _verified(self.keys[index], signature, message)


@lru_cache(maxsize=10_000)
def _verified(key: bytes, signature: bytes, message: bytes) -> bool:
    return Roster(("one",), (key,)).verify(0, signature, message)


class Cluster:
    """One study, its parties and a link to them; party i is at node i + 1."""

    def __init__(
        self,
        study: Study,
        folder: Path,
        *,
        epsilon: float = 100.0,
        remember: bool = False,
        data: Mapping[int, tuple[np.ndarray, ...]] | None = None,
        seed: int | None = None,
    ) -> None:
        self.study, self.folder, self.seed, self.remember = study, folder, seed, remember
        self.identities = [Identity.fresh(f"party-{i}") for i in range(study.facts.parties)]
        names = tuple(identity.name for identity in self.identities)
        self.roster = Remembering(names, tuple(identity.public for identity in self.identities))
        self.session = session_of(study, self.roster)
        self.data = {i: columns(study, i) for i in range(study.facts.parties)} | dict(data or {})
        self.allow: dict[int, Callable[[int], None]] = {}
        self.link = DirectLink()
        self.parties: dict[int, Responder] = {}
        self.said: list[str] = []
        event = study.algorithm.event(study.facts, study.trust)
        self.relation = study.algorithm.privacy.relation
        for party in range(study.facts.parties):
            policy = Policy(
                f"data-{party}",
                Budget(epsilon, DELTA),
                (),
                self.relation,
                unit=event.sensitivity.unit,
            )
            Ledger.create(self.book(party), policy, ACCOUNTANT, seed).close()
            self.start(party)

    def book(self, party: int) -> Path:
        return self.folder / f"{party}.ledger"

    def memory(self, party: int) -> Path:
        return self.folder / f"{party}.memory"

    # ------------------------------------------------------ life and death

    def start(self, party: int, **changes: Any) -> Responder:
        """A new process of a party: it knows its files, and nothing else."""
        ledger = Ledger.open(self.book(party), ACCOUNTANT, seed=self.seed)
        name = self.identities[party].name
        arguments = {
            "study": self.study,
            "session": self.session,
            "identity": self.identities[party],
            "party": Party(name, Private(self.data[party], "records"), ledger),
            "allow": self.allow.get(party),
            "memory": self.memory(party) if self.remember else None,
            **changes,
        }
        responder = Responder(**arguments)
        self.parties[party] = responder
        self.link.answers[party + 1] = responder.answer
        return responder

    def kill(self, party: int) -> None:
        """The process and all it held in memory are gone."""
        del self.link.answers[party + 1]
        self.parties.pop(party).party.ledger.close()

    def killed(self, when: str, back_after: int = 1) -> Fault:
        """A fault: the party dies `before` it reads a request or `after` it made its reply; it is
        back before the exchange that comes `back_after` exchanges later."""

        def die(link: FaultyLink, node: int, request: bytes) -> bytes | None:
            if when == "after":
                link.link.deliver(node, request)
            self.kill(node - 1)
            link.later(back_after, lambda: self.start(node - 1) and None)

        return die

    # --------------------------------------------------------------- runs

    def run(
        self,
        link: FaultyLink | None = None,
        checkpoint: Path | None = None,
        *,
        ahead: bool = True,
        progress: Callable[[int], None] | None = None,
    ) -> StageOutcome:
        return coordinate(
            self.study,
            link or self.link,
            self.session,
            conditions=Conditions(1.0, connect_timeout=0.0, ahead=ahead),
            checkpoint=checkpoint,
            say=self.said.append,
            progress=progress,
        )

    def request(self, tag: str, number: int, attempt: int, *arrays: Any, **scalars: Any) -> bytes:
        """What a server of this session might say."""
        said = {"session": self.session.id.hex(), "round": number, "attempt": attempt, **scalars}
        return wire.encode(tag, said, arrays)

    # ------------------------------------------------------------ accounts

    def charges(self, party: int) -> list[str]:
        """The purposes of all grants in a party's book, in order, as they stand on the disk."""
        lines, _ = journal.read(self.book(party))
        return [line["purpose"] for line in lines if line["kind"] == "grant"]

    def turns(self, party: int) -> list[int]:
        """Which turns were paid for."""
        return [int(purpose.split(" turn ")[1]) for purpose in self.charges(party)]

    def spent(self, party: int, *viewers: Viewer) -> list[float]:
        """Epsilon spent against each of the viewers, by the file on the disk."""
        ledger = Ledger.open(self.book(party), ACCOUNTANT, seed=self.seed)
        try:
            return [ledger.spent(viewer, DELTA) for viewer in viewers]
        finally:
            ledger.close()

    def most(self, party: int, viewer: Viewer) -> float:
        """What noise was calibrated for: epsilon of the whole run with all its retries."""
        return ACCOUNTANT.epsilon(self.study.costs[party][viewer], self.relation, DELTA)

    def require_affordable(self, party: int) -> None:
        """Nothing is spent beyond the calibrated cost, against anybody; no turn is paid twice."""
        turns = self.turns(party)
        most = self.study.facts.attempts(self.study.algorithm.turns(self.study.facts, party))
        assert len(turns) == len(set(turns)) <= most
        viewers = list(self.study.costs[party])
        for viewer, spent in zip(viewers, self.spent(party, *viewers), strict=True):
            assert spent <= self.most(party, viewer) * (1 + 1e-9)

    def require_sound(self) -> None:
        """Every party's book is affordable, and no turn ever gave two values."""
        for party in range(self.study.facts.parties):
            self.require_affordable(party)
            values = self.values(party)
            assert len(values) == len(set(values)) <= len(self.turns(party))

    def values(self, party: int) -> list[int]:
        """The turns of which a value was ever made, wherever it ended up."""
        return [
            said.request.scalars["round"] + said.request.scalars["attempt"]
            for said in self.link.heard
            if said.node == party + 1 and said.reply.tag in ("released", "masked", "disclosed")
        ]
