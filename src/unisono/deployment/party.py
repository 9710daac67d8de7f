"""A party's part: everything is checked on its own machine before it connects.

The order matters. Files, keys, policy and records are checked first; then the ledger is opened and
asked whether it could pay for the whole study; only then does the party connect. Records are read
by the algorithm turn by turn, each paid for before.
"""

import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from cryptography import x509

from unisono.core.certificate import certify
from unisono.core.costs import Cost
from unisono.core.grant import Grant
from unisono.core.ledger import Ledger
from unisono.core.prepaid import exhausted, one_of, prepaid
from unisono.core.streamed import StreamedColumns
from unisono.core.study import Party
from unisono.core.trust import ITERATES
from unisono.core.values import Private
from unisono.deployment.files import folder_for, locked, save_chosen, save_result
from unisono.deployment.job import JobAgreement, agreement
from unisono.deployment.public_test import public_test, require_public
from unisono.deployment.record import Budgets, RunLog
from unisono.deployment.run_folder import require_folder
from unisono.engines import compilation_cache, wire
from unisono.engines.distributed.party import Responder
from unisono.engines.distributed.results import unnamed_hash
from unisono.engines.distributed.sessions import objection
from unisono.engines.payments import file_label, paid_training
from unisono.errors import DishonestServer, InvalidInput, PrivacyViolation, UnisonoError
from unisono.runs import folder as runs
from unisono.runs.folder import CERTIFICATE, NODE, REPORT_HTML, RESULT, SIGNATURE, STUDY, write
from unisono.secagg.session import Session
from unisono.studies.build import Built
from unisono.studies.clipped_people import warn_of_clipping
from unisono.studies.data_set import DataSet, data_set, remember, require_only_ledger
from unisono.studies.file import load_study
from unisono.studies.keys import load_identity, load_node_key
from unisono.studies.order import found_key, keep_key, new_key
from unisono.studies.policy import check_round, require_allowed, require_server
from unisono.studies.policy_file import PolicyFile, load_policy
from unisono.studies.roster import load_roster
from unisono.studies.search import SearchBuilt, each_candidate
from unisono.studies.stages import EVALUATION, FIT, Stage, costs_of

log = logging.getLogger("unisono.party")

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


class PaidRuns:
    """A party's payment for a search by random stopping: for as many runs as there can be, in one
    grant before the first. A run that was begun by another process of this party is over for it,
    and so are those after it: their noise is gone, and nothing is paid twice."""

    def __init__(self, built: SearchBuilt, ledger: Ledger, party: str, session: Session) -> None:
        self._ledger, self._place = ledger, built.file.party(party)
        self._cost = built.costs[self._place]
        label = file_label(built.file.hash)
        self._purpose = f"session {session.account.hex()[:32]} search{label}"
        self._grant: Grant | None = None
        self._run: tuple[int, Ledger] | None = None

    @property
    def _paid(self) -> bool:
        return self._purpose in self._ledger.purposes()

    def check(self) -> None:
        """Refuse, before the party joins, a search that its ledger could not pay."""
        if not self._paid:
            self._ledger.check(self._cost)

    def ledger_of(self, built: Built, stage: Stage) -> tuple[Ledger, bool]:
        """Who pays for a stage, and whether this party may only look on: where others are enough, a
        run that it missed is no reason to miss those that follow."""
        assert isinstance(built, SearchBuilt)
        run, facts = built.run_at(stage), stage.study.facts
        if run is None:  # of the lots, which read nothing
            return exhausted(self._ledger), True
        if self._run is None or self._run[0] != run:
            self._run = (run, self._begun(built, run))
        return self._run[1], self._grant is None or facts.minimum_parties < facts.parties

    def _begun(self, built: SearchBuilt, run: int) -> Ledger:
        assert built.lots is not None
        assert built.file.search is not None
        if self._grant is None and run == 0 and not self._paid:
            most = built.file.search.most
            self._grant = self._ledger.authorize(self._cost, most, self._purpose, once=True)
        if self._grant is None:
            return exhausted(self._ledger)
        parts = built.parts[self._place]
        bought = built.run_of(parts, built.lots.places[run])
        return prepaid(self._grant.draw(run), one_of(parts, ITERATES), bought)


class Member:
    """A party that is ready to answer."""

    def __init__(
        self,
        seat: PartyConfig,
        server: str,
        *,
        transport: str = RESIDENT,
        turn: Callable[[int], None] = lambda number: None,
        agreed: JobAgreement | None = None,
    ) -> None:
        self.seat, self._transport, self._turn = seat, transport, turn
        self._diary: RunLog | None = None
        self._budgets: Budgets | None = None
        # Parties of one process share what everybody holds, and so what is compiled for it.
        self.agreed: JobAgreement = agreed or agreement(seat.study, seat.roster)
        built, session = self.agreed.built, self.agreed.session
        self._policy: PolicyFile = load_policy(seat.policy)
        own = data_set(seat.data)
        _require_own_ledger(self._policy, own)
        require_server(self._policy, server)
        for one in each_candidate(built):
            require_allowed(self._policy, one.file, one.study, seat.name, built.costs)
        require_folder(seat.output, built.file, simulated=False, unwritten=self._unwritten)
        self._identity = load_identity(seat.keys, seat.name)
        session.roster.require(self._identity)
        load_node_key(seat.keys, seat.name)
        require_public(public_test(built.file, seat.study), {seat.name: seat.data})
        # Two processes of one party would take each other's messages and each miss half a round.
        self._lock = self._private(session, "lock")
        self._alone = ExitStack()
        self._alone.enter_context(
            locked(
                self._lock,
                f"{seat.name} takes part in this study already: another process holds "
                f"{self._lock}; let it go on, or stop it first",
            )
        )
        order = self._private(session, "order")
        key = found_key(order) or new_key()
        try:
            self._records = built.records(built.table(seat.data), seat.name, key)
            folder_for(seat.output)
            if built.file.draws:
                keep_key(order, key)
        except BaseException:
            self._alone.close()
            raise
        self.ledger = self._policy.open_ledger()
        remember(own)
        self.authority: bytes | None = None  # who issues the server's certificate, where it has one
        # One for each stage that has begun, the last of which is under way.
        self._responders: list[Responder] = []
        self._runs: PaidRuns | None = None
        if isinstance(built, SearchBuilt) and built.at_random:
            self._runs = PaidRuns(built, self.ledger, seat.name, session)
        try:
            self._begin()
            if self._runs is not None:
                self._runs.check()
            else:
                self.responder.spender.check()
                if not (self.responder.spender.begun or self.responder.spender.declared):
                    self.ledger.check(built.costs[built.file.party(seat.name)])
        except BaseException:
            self.close()
            raise

    def _private(self, session: Session, what: str) -> Path:
        """A file of this party in a session, as private as the records: it lies beside their ledger
        and not with the result.

        "told" is the server's last message, until everything that follows from it is written: the
        first stage's goes first, and without it nothing is left to write (`_unwritten`).
        """
        return _private(self._policy, session, what)

    @property
    def _unwritten(self) -> bool:
        """Whether a process of this party was told a result and has not written all of it."""
        return self._private(self.agreed.sessions[0], "told").exists()

    # -------------------------------------------------------------- stages

    @property
    def responder(self) -> Responder:
        """Who answers in the stage that is under way."""
        return self._responders[-1]

    @property
    def finished(self) -> bool:
        """Whether this party knows all that will come of the study: where a stage found nothing
        that the next ones need, none follows."""
        number, stages = len(self._responders), self.agreed.built.course
        lost = not self.responder.opened and stages[number - 1].last_if_lost
        whole = number == len(stages) and self.agreed.built.course_known
        return self.responder.finished and (whole or lost)

    def _begin(self) -> None:
        """The next stage: the records, as it reads them, given what the stages before found."""
        number, stages = len(self._responders), self.agreed.built.course
        stage, session, name = stages[number], self._following, self.seat.name
        found = self._found
        ledger, bystander = self.ledger, False
        if self._runs is not None:
            ledger, bystander = self._runs.ledger_of(self.agreed.built, stage)
        columns = stage.columns(self._records, found)
        responder = Responder(
            stage.begun(found),
            Party(name, Private(columns, name), ledger),
            self._identity,
            session,
            allow=self._allow if stage.name == FIT else lambda _: check_round(self._policy),
            memory=self._private(session, "memory"),
            keep=partial(write, self._private(session, "told")),
            label=file_label(self.agreed.built.file.hash, stage.suffix),
            learnt_from=self._learnt_from,
            bystander=bystander,
            plan=self._plan,
        )
        responder.authority = self.authority
        streamed = isinstance(columns, StreamedColumns)
        shapes = columns.block_shapes if streamed else [one.shape for one in columns]
        self._compile = partial(responder.prepare, shapes, streamed)
        self._responders.append(responder)
        if number and stage.name == FIT:  # compiled before anybody waits for a round of it
            self._compile()

    @property
    def _plan(self) -> tuple[str, Cost]:
        """All stages, which the ledger charges for together."""
        built, first = self.agreed.built, self.agreed.sessions[0]
        return f"session {first.account.hex()[:32]}", built.costs[built.file.party(self.seat.name)]

    @property
    def _found(self) -> dict[str, Any]:
        """What the stages that have begun were told, by their names."""
        stages = self.agreed.built.course
        return {one.name: r.result for one, r in zip(stages, self._responders, strict=False)}

    @property
    def _learnt_from(self) -> bool:
        """Whether a model is judged whose training this party's ledger has paid for."""
        file = self.agreed.built.file
        judges = file.model_kind.judges
        return judges is not None and paid_training(self.ledger, judges(file.model_settings))

    def answer(self, data: bytes) -> bytes:
        """Bytes in, bytes out, by whoever answers for the stage that is asked about."""
        self.responder.authority = self.authority
        asked = _session(data)
        over = self.responder.finished and not self.finished and not self._at_a_loss
        if over and asked == self._following.id.hex():
            try:
                self._begin()
            except Exception as error:  # whatever the data provoke looks like a dropout
                log.error("%s: cannot begin the next stage: %s", self.seat.name, error)
        known = {responder.session.id.hex(): responder for responder in self._responders}
        reply = known.get(asked, self.responder).answer(data)
        if self.responder.finished:
            try:
                self.agreed = self.agreed.known(self._found)
            except UnisonoError as error:  # a server that tells what cannot be: nothing follows
                log.error("%s: %s", self.seat.name, error)
        return reply

    @property
    def _following(self) -> Session:
        """The session of the stage that comes next, after the results that this party was told."""
        return self.agreed.session_at([one.result_hash for one in self._responders])

    @property
    def _at_a_loss(self) -> bool:
        """Whether nothing is known that could follow."""
        return len(self._responders) >= len(self.agreed.sessions)

    def objection(self, data: bytes) -> str:
        """Why this party takes part no longer after such a message; empty where it does.

        The server asked what an honest one never asks; a sum is beyond its limits; the server
        greets in another version, or after another result of an earlier stage; or it runs another
        study: it greets the parties of one, and never asked this party for anything.
        """
        if self.responder.refusal is not None:
            return str(self.responder.refusal)
        if self.responder.stopped:
            return f"The server is not honest: {self.responder.stopped}.\n{self._spent}"
        said = _greeting(data)
        if said is None:
            return ""
        sessions = [one.session for one in self._responders]
        if self.responder.finished and not self._at_a_loss:
            sessions.append(self._following)
        if said.get("session") in {session.id.hex() for session in sessions}:
            return ""
        for session in reversed(sessions):
            reason = objection(session, said)
            if reason is not None:
                return f"{reason}\n{self._spent}"
        studies = {session.account.hex() for session in self.agreed.sessions}
        if said.get("study") in studies or self._responders[0].spender.begun:
            return ""
        return (
            f"The server runs another study than {self.seat.study}, or the same with another "
            f"roster.\nCompare both files with the coordinator's. {self._spent}"
        )

    @property
    def _spent(self) -> str:
        if any(responder.spender.begun for responder in self._responders):
            return "What was charged before stays charged, and nothing more was."
        return "No privacy budget was spent."

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
        self._compile()

    def _allow(self, number: int) -> None:
        check_round(self._policy)
        self._turn(number)
        if self._diary is not None and self._budgets is not None:
            self._diary.step(number)
            self._budgets.refresh()

    def recall(self) -> bool:
        """Take up what an earlier process of this party was told, stage by stage. Whether it was
        all, and ended before it had written its certificate: then nothing is left to ask for."""
        number = 0
        while number < len(self.agreed.sessions):  # of which lots, once told, make more
            try:
                told = self._private(self.agreed.sessions[number], "told").read_bytes()
            except OSError:
                return False
            self.answer(told)
            if self.finished:
                return True
            number += 1
        return False

    def finish(self) -> dict[str, Any]:
        """Write the result and this party's own certificate; returns the result."""
        built, session = self.agreed.built, self.agreed.session
        by_name = dict(zip((stage.name for stage in built.course), self._responders, strict=False))
        # Where not even ranges were found, nothing was learnt: that stage opened nothing.
        answered, books = by_name.get(FIT, self.responder), {self.seat.name: self.ledger}
        choice, search = None, built if isinstance(built, SearchBuilt) else None
        study, result = built.study, answered.result
        if search is not None:
            opened_rounds = {name: one.opened for name, one in by_name.items()}
            choice, taken = search.outcome(self._found, opened_rounds)
            result, study, answered = taken.value, taken.study, by_name[taken.stage]
        built = built.bounded({name: one.result for name, one in by_name.items() if one.opened})
        begun = [stage for stage in built.stages if stage.name in by_name]
        at_random = search is not None and search.at_random
        costs = built.costs if at_random else costs_of(begun)
        told = answered.result_hash
        if at_random:  # a hash that names its session would name the run
            told = unnamed_hash(session, answered.opened, result)
        certificate = certify(
            study if search is not None else built.study,
            books,
            self.ledger.accountant,
            secure_sum=session.describe() if session.masked else "",
            transport=self._transport,
            costs=[costs[built.file.party(self.seat.name)]],
            file=built.file.hash,
            result=told,
        )
        rounds = built.study.algorithm.rounds
        if self._diary is not None and self._budgets is not None:
            self._diary.step(rounds, result)
            self._budgets.write()
        if answered.signed is not None and not at_random:
            proof = answered.signed.to_json(answered.result_hash)
            SIGNATURE.write(self.seat.output, proof)
        output, opened = self.seat.output, answered.opened
        if search is None:
            judged = [built.file.names[party] for party in answered.learnt_from]
            shown = save_result(output, built, result, opened, certificate, learnt_from=judged)
        else:
            shown = save_chosen(output, search, choice, result, opened, certificate)
        if answered.opened and search is None:
            warn_of_clipping(built, self._records, self.seat.name, answered.result)
        tested = by_name.get(EVALUATION)
        if tested is not None and tested.opened:
            stated = certify(begun[-1].study, books, self.ledger.accountant)
            runs.EVALUATION.write(self.seat.output, built.tested(tested.result, stated))
        for what in ("memory", "order", "told"):
            for one in self.agreed.sessions:
                self._private(one, what).unlink(missing_ok=True)
        self._lock.unlink(missing_ok=True)
        self._alone.close()
        return shown


def _private(policy: PolicyFile, session: Session, what: str) -> Path:
    return policy.ledger_path.with_suffix(f".{session.account.hex()[:16]}.{what}")


def written_result(seat: PartyConfig) -> dict[str, Any] | None:
    """The result of this study, if an earlier process of this party wrote all of it and was killed
    before its report; None otherwise."""
    output = seat.output
    documents = (output / STUDY).exists() and CERTIFICATE.exists(output) and RESULT.exists(output)
    if not documents or (output / REPORT_HTML).exists():
        return None
    agreed = agreement(seat.study, seat.roster)
    if load_study(output / STUDY).hash != agreed.built.file.hash:
        return None
    unwritten = _private(load_policy(seat.policy), agreed.sessions[0], "told").exists()
    return None if unwritten else RESULT.read(output)


def objections(
    seat: PartyConfig,
    built: Built,
    policy: PolicyFile,
    server: str,
    authority: Path,
    insecure: bool,
) -> list[str]:
    """Whatever beside records and budget would keep a party from joining, all of it at once.
    Nothing is written, opened for writing, or sent."""

    def known() -> None:
        identity = load_identity(seat.keys, seat.name)
        load_roster(seat.roster).of_study(built.file).roster.require(identity)

    checks: list[Callable[[], object]] = [
        lambda: _require_own_ledger(policy, data_set(seat.data)),
        lambda: require_server(policy, server),
        lambda: require_folder(seat.output, built.file, simulated=False),
        known,
        lambda: load_node_key(seat.keys, seat.name),
        lambda: require_public(public_test(built.file, seat.study), {seat.name: seat.data}),
        lambda: connection(server, authority, insecure),
    ]
    found = []
    for check in checks:
        try:
            check()
        except UnisonoError as error:
            found.append(str(error))
    return found


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
    """Answer the server until the study is over; refuses one that runs another study or another
    version, or that is caught lying.

    A process that is asked to end (SIGTERM), or whoever sets `stop`, lets the party answer what it
    has begun; then it takes its leave and ends.
    """
    from unisono.engines.flower import party_client
    from unisono.engines.flower.certificates import load_node_keys

    stop = stop or threading.Event()
    seat, insecure = member.seat, server.authority is None
    member.authority = server.authority
    if member.recall():
        return
    keys = None if insecure else load_node_keys(load_node_key(seat.keys, seat.name))
    objections_found: list[str] = []

    def answer(data: bytes) -> bytes:
        reply = member.answer(data)
        if reason := member.objection(data):
            objections_found.append(reason)
        if member.finished or objections_found:
            stop.set()
        return reply

    def came_in(node: int) -> None:
        """Remembered, so that a restarted party need not wait until its last process is missed."""
        NODE.write(seat.output, {"node": node, "server": server.address})
        connected(node)

    before = NODE.read(seat.output) or {}
    with ends_by(stop):
        party_client.serve(
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
    if stop.is_set() and not (member.finished or objections_found):
        raise SystemExit(128 + signal.SIGTERM)
    if member.responder.refusal is not None:
        raise member.responder.refusal
    if objections_found:
        dishonest = bool(member.responder.stopped)
        raise (DishonestServer if dishonest else InvalidInput)(objections_found[0])


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


def _greeting(data: bytes) -> Mapping[str, Any] | None:
    """What a greeting says; None of other messages."""
    try:
        packet = wire.decode(data)
    except InvalidInput:
        return None
    return packet.scalars if packet.tag == "hello" else None


def _session(data: bytes) -> str:
    """Which session a message belongs to, by what it says itself; empty where it cannot be read."""
    try:
        packet = wire.decode(data)
        if packet.tag == "bundle":
            packet = wire.unbundle(packet)[0]
        return str(packet.scalars.get("session"))
    except (InvalidInput, IndexError):
        return ""


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
