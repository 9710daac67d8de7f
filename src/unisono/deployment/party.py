"""A party's part: everything is checked on its own machine before it connects.

The order matters. Files, keys, policy and records are checked first; then the ledger is opened and
asked whether it could pay for the whole study; only then does the party connect. Records are read
by the algorithm turn by turn, each paid for before.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from cryptography import x509

from unisono.core.certificate import certify
from unisono.core.study import Party
from unisono.core.values import Private
from unisono.deployment.files import folder_for, locked, save_result
from unisono.deployment.job import Agreement, agreement
from unisono.deployment.public_test import public_test, require_public
from unisono.deployment.record import Budgets, RunLog
from unisono.deployment.run_folder import require_folder
from unisono.engines import compilation_cache, wire
from unisono.engines.distributed.party import Responder
from unisono.errors import InvalidInput, PrivacyViolation
from unisono.runs.folder import NODE, SIGNATURE, STUDY, write
from unisono.studies.data_set import DataSet, data_set, remember, require_only_ledger
from unisono.studies.keys import load_identity, load_node_key
from unisono.studies.policy import check_round, require_allowed, require_server
from unisono.studies.policy_file import PolicyFile, load_policy

RESIDENT = "a resident party: only code installed here has touched the records"
STOCK = (
    "a stock SuperNode, which runs whatever code the server ships: all of this holds only if the "
    "server shipped this library unchanged"
)


@dataclass(frozen=True)
class PartyConfig:
    """Whose part it is, and where its files lie."""

    name: str
    study: Path
    roster: Path
    data: Path
    policy: Path
    keys: Path
    output: Path


@dataclass(frozen=True)
class Connection:
    """Where the server is, and the certificate by which it is known; none without TLS."""

    address: str
    authority: bytes | None


def connection(address: str, authority: Path, insecure: bool) -> Connection:
    """A connection that may be made; refused before anything else is touched."""
    from unisono.engines.flower.refusals import require_address

    require_address(address, insecure)
    return Connection(address, None if insecure else _authority(authority))


class Member:
    """A party that is ready to answer."""

    def __init__(
        self,
        seat: PartyConfig,
        server: str,
        *,
        transport: str = RESIDENT,
        turn: Callable[[int], None] = lambda number: None,
        agreed: Agreement | None = None,
    ) -> None:
        self.seat, self._transport, self._turn = seat, transport, turn
        self._diary: RunLog | None = None
        self._budgets: Budgets | None = None
        # Parties of one process share what everybody holds, and so what is compiled for it.
        self.agreed: Agreement = agreed or agreement(seat.study, seat.roster)
        built, session = self.agreed.built, self.agreed.session
        self._policy: PolicyFile = load_policy(seat.policy)
        own = data_set(seat.data)
        _require_own_ledger(self._policy, own)
        require_server(self._policy, server)
        require_allowed(self._policy, built.file, built.study, seat.name)
        require_folder(seat.output, built.file, simulated=False)
        identity = load_identity(seat.keys, seat.name)
        session.roster.require(identity)
        load_node_key(seat.keys, seat.name)
        require_public(public_test(built.file, seat.study), {seat.name: seat.data})
        columns = built.columns(built.table(seat.data), seat.name)
        ours = f".{session.id.hex()[:16]}"
        # Two processes of one party would take each other's messages and each miss half a round.
        self._lock = self._policy.ledger_path.with_suffix(f"{ours}.lock")
        self._alone = ExitStack()
        self._alone.enter_context(
            locked(
                self._lock,
                f"{seat.name} takes part in this study already: another process holds "
                f"{self._lock}; let it go on, or stop it first",
            )
        )
        folder_for(seat.output)
        self.ledger = self._policy.open_ledger()
        remember(own)
        party = Party(seat.name, Private(columns, seat.name), self.ledger)
        # As private as the records, so it lies beside their ledger and not with the result.
        self._memory = self._policy.ledger_path.with_suffix(f"{ours}.memory")
        # The server's last message, until everything that follows from it is written.
        self._told = self._policy.ledger_path.with_suffix(f"{ours}.told")
        self.responder = Responder(
            built.study,
            party,
            identity,
            session,
            allow=self._allow,
            memory=self._memory,
            keep=self._keep,
        )
        try:
            self.responder.spender.check()
        except BaseException:
            self.close()
            raise
        self._shapes = [column.shape for column in columns]

    def close(self) -> None:
        """Let go of the ledger and of this party's place; nothing that was paid is lost."""
        self.ledger.close()
        self._alone.close()

    def prepare(self) -> None:
        """Compile before anybody waits, and begin to write down what happens."""
        compilation_cache.enable()
        built, output = self.agreed.built, self.seat.output
        write(output / STUDY, built.file.source.text.encode())
        self._diary = RunLog(output, built.study.algorithm.rounds)
        books = {self.seat.name: self.ledger}
        self._budgets = Budgets(output, list(built.study.cost), books)
        self.responder.prepare(self._shapes)

    def _allow(self, number: int) -> None:
        check_round(self._policy)
        self._turn(number)
        if self._diary is not None and self._budgets is not None:
            self._diary.step(number)
            self._budgets.refresh()

    def _keep(self, message: bytes) -> None:
        """Before the server hears that this party holds the result, it does."""
        write(self._told, message)

    def recall(self) -> bool:
        """Whether an earlier process of this party was told the result and ended before it had
        written its certificate: then nothing is left to ask the server for."""
        try:
            told = self._told.read_bytes()
        except OSError:
            return False
        self.responder.answer(told)
        return self.responder.finished

    def finish(self) -> dict[str, Any]:
        """Write the result and this party's own certificate; returns the result."""
        built, session = self.agreed.built, self.agreed.session
        certificate = certify(
            built.study,
            {self.seat.name: self.ledger},
            self.ledger.accountant,
            secure_sum=session.describe() if session.masked else "",
            transport=self._transport,
            file=built.file.hash,
            result=self.responder.result_hash,
        )
        self._memory.unlink(missing_ok=True)
        answered = self.responder
        rounds = built.study.algorithm.rounds
        if self._diary is not None and self._budgets is not None:
            self._diary.step(rounds, answered.result)
            self._budgets.write()
        if answered.signed is not None:
            proof = answered.signed.to_json(answered.result_hash)
            SIGNATURE.write(self.seat.output, proof)
        shown = save_result(self.seat.output, built, answered.result, answered.opened, certificate)
        self._told.unlink(missing_ok=True)
        self._lock.unlink(missing_ok=True)
        self._alone.close()
        return shown


def _require_own_ledger(policy: PolicyFile, own: DataSet) -> None:
    """Refuse a policy that pays for these records from another ledger than everything else does."""
    if Path(os.path.realpath(policy.ledger_path)) != own.ledger_path:
        raise PrivacyViolation(
            f"{policy.source.path} names the ledger {policy.ledger_path}, and the records in "
            f"{own.records} are paid for from {own.ledger_path}: name that one in the policy, or "
            f"keep the policy beside the records, as {own.policy_path}"
        )
    require_only_ledger(own)


def serve(
    member: Member,
    server: Connection,
    *,
    connect_timeout: float,
    connected: Callable[[int], None],
    stop: threading.Event | None = None,
) -> None:
    """Answer the server until the study is over; refuses a server that runs another one.

    A process that is asked to end (SIGTERM), or whoever sets `stop`, lets the party answer what it
    has begun; then it takes its leave and ends.
    """
    from unisono.engines.flower import resident
    from unisono.engines.flower.certificates import load_node_keys

    stop = stop or threading.Event()
    seat, insecure = member.seat, server.authority is None
    member.responder.authority = server.authority
    if member.recall():
        return
    keys = None if insecure else load_node_keys(load_node_key(seat.keys, seat.name))
    other = threading.Event()

    def answer(data: bytes) -> bytes:
        reply = member.responder.answer(data)
        if member.responder.spender.last < 0 and _greets_others(
            data, member.agreed.session.id.hex()
        ):
            other.set()
        if member.responder.finished or other.is_set():
            stop.set()
        return reply

    def came_in(node: int) -> None:
        """Remembered, so that a restarted party need not wait until its last process is missed."""
        NODE.write(seat.output, {"node": node, "server": server.address})
        connected(node)

    before = NODE.read(seat.output) or {}
    with ends_by(stop):
        resident.serve(
            answer,
            server.address,
            stop=stop,
            insecure=insecure,
            connected=came_in,
            connect_timeout=connect_timeout,
            root_certificates=server.authority,
            keys=keys,
            previous=before.get("node") if before.get("server") == server.address else None,
        )
    if stop.is_set() and not (member.responder.finished or other.is_set()):
        raise SystemExit(128 + signal.SIGTERM)
    if other.is_set():
        raise InvalidInput(
            f"the server at {server.address} runs another study than {seat.study}, or the same "
            "with another roster: compare both files with the coordinator's; nothing was spent "
            "on it"
        )


@contextmanager
def ends_by(*stops: threading.Event) -> Iterator[None]:
    """Inside, SIGTERM sets these events."""

    def end(number: int, frame: FrameType | None) -> None:
        for stop in stops:
            stop.set()

    if threading.current_thread() is not threading.main_thread():  # signals are the main thread's
        yield
        return
    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _greets_others(data: bytes, session: str) -> bool:
    """Whether it is a greeting to the parties of another session."""
    try:
        packet = wire.decode(data)
    except InvalidInput:
        return False
    return packet.tag == "hello" and packet.scalars.get("session") != session


def _authority(path: Path) -> bytes:
    remedy = "ask the coordinator for authority.crt, which `unisono coordinate` writes, and give it"
    try:
        content = path.read_bytes()
        x509.load_pem_x509_certificate(content)
    except OSError as error:
        raise InvalidInput(
            f"the server's authority {path} cannot be read ({error.strerror}): {remedy} with "
            "--ca-cert"
        ) from None
    except ValueError:
        raise InvalidInput(f"{path} is no certificate: {remedy} with --ca-cert") from None
    return content
