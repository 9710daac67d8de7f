"""The server's part of a study, as the process that Flower starts runs it."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from unisono.accounting.accountant import ACCOUNTANT
from unisono.core.certificate import certify
from unisono.core.release import server_noise
from unisono.core.study import Study
from unisono.core.transcript import LastMessages, Transcript
from unisono.core.trust import Trust
from unisono.deployment.files import save_chosen, save_result
from unisono.deployment.job import Job, JobAgreement, Progress
from unisono.deployment.record import RunLog, model_so_far, write_transcript
from unisono.engines import compilation_cache
from unisono.engines.checkpoint import Checkpoint
from unisono.engines.distributed.link import Link
from unisono.engines.distributed.results import unnamed_hash
from unisono.engines.distributed.server import StageOutcome, coordinate
from unisono.errors import InvalidInput
from unisono.runs import folder as runs
from unisono.secagg.session import Session
from unisono.studies.build import Built
from unisono.studies.search import LOTS, SearchBuilt
from unisono.studies.stages import BOUNDS, EVALUATION, FIRST, FIT, START, TESTS, Stage, costs_of

_PAUSE = 0.5  # seconds between looks at who is there
_FIRST_REST, _LONGEST_REST = 5.0, 60.0  # seconds after failed exchanges, doubled each time


def main(link: Link, folder: Path) -> None:
    """Run the study of a job folder, or go on with it, and write what comes out.

    Of a study that is finished, hand out the result to the parties that do not hold it.
    """
    compilation_cache.enable()
    _Server(link, Job(folder)).main()


class _Server:
    """One job, stage after stage: what each found is told to all before the next begins."""

    def __init__(self, link: Link, job: Job) -> None:
        self.job, self.agreed = job, job.agreement()
        searched = self.agreed.built
        if isinstance(searched, SearchBuilt) and searched.at_random:
            self.agreed = self.agreed.known({LOTS: job.lots(searched).told})
        self.study, self.names = self.agreed.built.study, self.agreed.built.file.names
        self.link = link
        self.unhurried = Unhurried(link, self.study.facts.minimum_parties)
        self.rounds = self.study.algorithm.rounds
        self.done = job.progress.rounds
        self.diary, self.test = RunLog(job.folder, self.rounds), job.test(self.agreed.built)
        self.outcomes: dict[str, StageOutcome] = {}

    def main(self) -> None:
        """Run all stages, or go on with them; of a study that is over, hand out what was found."""
        job, built = self.job, self.agreed.built
        late = None
        if job.finished:
            late = [self.names.index(name) for name in job.uninformed(self.names)]
        elif self.done < self.rounds:
            facts, patience = self.study.facts, job.conditions.connect_timeout
            _await_parties(self.link, facts.minimum_parties, patience, self._say)
        began = time.monotonic()
        for stage in built.course:
            if late is not None and not job.told(stage):
                break
            session = self.agreed.session_at([one.result_hash for one in self.outcomes.values()])
            waits = late
            if waits is None and stage.name not in TESTS and job.pending:
                waits = []  # it is over: whoever missed it is told before the next stage
            outcome = self._stage(stage, session, waits)
            ends = not outcome.opened and stage.last_if_lost
            learnt = FIT in self.outcomes
            if isinstance(built, SearchBuilt):
                learnt = stage.name == built.course[-1].name
            if late is None and (learnt or ends):
                self._write(stage, session, outcome, time.monotonic() - began)
            if ends:
                break
        last = list(self.outcomes.values())[-1:]
        job.inform(self.names[party] for outcome in last for party in outcome.informed)
        job.end()

    def _stage(self, stage: Stage, session: Session, late: Collection[int] | None) -> StageOutcome:
        study = stage.begun({name: outcome.value for name, outcome in self.outcomes.items()})
        noise = None
        if study.trust is Trust.TRUSTED_SERVER:
            noise = server_noise(study.algorithm, study.facts, study.trust, seed=None)
        if stage.name != FIT and late is None:
            self._say(f"{stage.name}: {_doing(study)} the parties")
        outcome = coordinate(
            study,
            self.unhurried,
            session,
            conditions=self.job.conditions,
            server_noise=noise,
            checkpoint=self.job.checkpoint(stage),
            progress=self._progress if stage.name == FIT else None,
            say=self._say,
            signer=self.job.signer,
            transcript=LastMessages(),
            uninformed=late,
            earlier=[before.told for before in self.outcomes.values()],
        )
        self.outcomes[stage.name] = outcome
        return outcome

    @property
    def _built(self) -> Built:
        """The study, with the ranges that were released, if any were."""
        opened = {name: one.value for name, one in self.outcomes.items() if one.opened}
        return self.agreed.built.bounded(opened)

    def _say(self, words: str) -> None:
        self.job.note(Progress(self.done, self.rounds, words, self.job.progress.answered))

    def _progress(self, number: int) -> None:
        self.done, study = number, self.study
        session = self.agreed.session_at([one.result_hash for one in self.outcomes.values()])
        state, answered = _standing(self.job, self.agreed, session, number)
        score = None
        if self.test is not None:
            score = self._built.judge(model_so_far(study, state), *self.test)["value"]
        self.diary.step(number, study.algorithm.ask(state), answered=answered, score=score)

    def _write(self, stage: Stage, session: Session, outcome: StageOutcome, seconds: float) -> None:
        """The documents, as far as the study is. A result is there before its test begins: a test
        that fails costs no model."""
        built, folder, study = self._built, self.job.folder, self.study
        if isinstance(built, SearchBuilt):
            self._write_choice(built, session)
            return
        fit = self.outcomes.get(FIT, outcome)  # or a stage before, without which none follows
        begun = [one for one in built.stages if one.name in self.outcomes]
        certificate = certify(
            study,
            {},
            ACCOUNTANT,
            delta=built.file.privacy.delta,
            secure_sum=session.describe() if session.masked else "",
            costs=costs_of(begun),
            file=built.file.hash,
            result=fit.result_hash,
        )
        if stage.name == FIT:
            runs.TRAFFIC.write(
                folder,
                {
                    "rounds": self.rounds,
                    "opened": outcome.opened,
                    "retries": outcome.attempts,
                    "seconds": round(seconds, 3),
                    "bytes": dict(outcome.traffic),
                    "session": session.id.hex(),
                },
            )
            if built.test is not None and outcome.opened:
                self.job.pend()
        tests = []
        if EVALUATION in self.outcomes and outcome.opened:
            delta = built.file.privacy.delta
            stated = certify(stage.study, {}, ACCOUNTANT, delta=delta)
            tests.append(built.tested(outcome.value, stated))
        if self.test is not None and fit.opened:
            tests.append(built.judge(fit.value, *self.test))
        if tests:
            also = {"also": tests[1:]} if tests[1:] else {}
            runs.EVALUATION.write(folder, tests[0] | also)
        if FIT in self.outcomes:
            before = {
                one.name: _shape(one.study, self.outcomes[one.name].transcript)
                for one in begun
                if one.name in (BOUNDS, FIRST, START)
            }
            tested = [
                _shape(one.study, self.outcomes[one.name].transcript)
                for one in begun
                if one.name in TESTS
            ]
            shape = _shape(study, fit.transcript)
            write_transcript(folder, study, shape, fit.value, self.rounds, tested, **before)
        learnt_from = [self.names[party] for party in fit.learnt_from]
        save_result(folder, built, fit.value, fit.opened, certificate, learnt_from=learnt_from)

    def _write_choice(self, built: SearchBuilt, session: Session) -> None:
        """The documents of a search: all of it is over, or a candidate could not be learnt."""
        folder, outcomes = self.job.folder, self.outcomes
        found = {name: one.value for name, one in outcomes.items()}
        choice, taken = built.outcome(found, {name: one.opened for name, one in outcomes.items()})
        study, fit = taken.study, outcomes[taken.stage]
        begun, result = [one for one in built.stages if one.name in outcomes], fit.result_hash
        if built.at_random:  # a hash that names its session would name the run
            result = unnamed_hash(self.agreed.session, fit.opened, taken.value)
        certificate = certify(
            study,
            {},
            ACCOUNTANT,
            delta=built.file.privacy.delta,
            secure_sum=session.describe() if session.masked else "",
            costs=built.costs if built.at_random else costs_of(begun),
            file=built.file.hash,
            result=result,
        )
        if self.test is not None and fit.opened:
            runs.EVALUATION.write(folder, built.judge_taken(choice, taken.value, self.test))
        shape, rounds = _shape(study, fit.transcript), study.algorithm.rounds
        write_transcript(folder, study, shape, taken.value, rounds)
        save_chosen(folder, built, choice, taken.value, fit.opened, certificate)


class Unhurried:
    """A link that takes its time after exchanges that too few parties answered.

    A killed party counts as connected until it has missed its heartbeats. Tried again at once, a
    round would fail for the same reason, and those who answered would pay for each attempt.
    """

    def __init__(self, link: Link, needed: int) -> None:
        self._link, self._needed = link, needed
        self._failed, self._rest = 0, 0.0

    def nodes(self) -> Sequence[int]:
        """Who is connected, once those who were silent have had time to be missed."""
        time.sleep(self._rest)
        self._rest = 0.0
        return self._link.nodes()

    def exchange(self, requests: Mapping[int, bytes], deadline: float) -> Mapping[int, bytes]:
        """As the link's; whether it failed is remembered."""
        replies = self._link.exchange(requests, deadline)
        if len(requests) >= self._needed:  # else not even all answers would have been enough
            self._failed = self._failed + 1 if len(replies) < self._needed else 0
            if self._failed:
                self._rest = min(_FIRST_REST * 2 ** (self._failed - 1), _LONGEST_REST)
        return replies


def _await_parties(
    link: Link, needed: int, connect_timeout: float, say: Callable[[str], None]
) -> None:
    """Returns when a round could be opened; without parties no round begins, and none is lost."""
    ends = time.monotonic() + connect_timeout
    while (here := len(link.nodes())) < needed:
        if time.monotonic() > ends:
            raise InvalidInput(
                f"{here} parties are connected after {connect_timeout:g} s and a round needs "
                f"{needed}: "
                "nothing was asked or spent; start the server again, the parties join when they "
                "are ready (--connect-timeout SECONDS waits longer)"
            )
        say(f"waiting for parties: {here} of at least {needed} are connected")
        time.sleep(_PAUSE)


def _standing(
    job: Job, agreed: JobAgreement, session: Session, number: int
) -> tuple[Any, list[str]]:
    """The server's state after so many rounds, and whose answers are in the last: both are in the
    checkpoint that was just written."""
    study = agreed.built.study
    [stage] = [one for one in agreed.built.stages if one.name == FIT]
    state, _ = study.algorithm.init(study.facts)
    nothing = np.asarray(0)
    like = (state, np.zeros(study.facts.parties), nothing, nothing, nothing)
    _, (state, counted, *_) = Checkpoint(job.checkpoint(stage), session.id.hex()).load(like)
    names = agreed.built.file.names
    return state, [n for n, last in zip(names, counted, strict=True) if last == number - 1]


def _doing(study: Study) -> str:
    return "one release over" if study.algorithm.rounds else "told to"


def _shape(study: Study, transcript: Transcript) -> tuple[int, ...]:
    """The shape of what a party sends, by the last sum that was opened."""
    sums = [np.shape(message.value) for message in transcript.messages if message.name == "sum"]
    each = study.algorithm.combine == "each"
    return () if not sums else tuple(sums[-1][1:] if each else sums[-1])
