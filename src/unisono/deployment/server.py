"""The server's part of a study, as the process that Flower starts runs it."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from unisono.accounting.accountant import ACCOUNTANT
from unisono.core.certificate import certify
from unisono.core.release import server_noise
from unisono.core.study import Study
from unisono.core.transcript import LastMessages, Transcript
from unisono.core.trust import Trust
from unisono.deployment.files import save_result
from unisono.deployment.job import Agreement, Job, Progress
from unisono.deployment.record import RunLog, model_so_far, write_transcript
from unisono.engines import compilation_cache
from unisono.engines.checkpoint import Checkpoint
from unisono.engines.distributed.link import Link
from unisono.engines.distributed.server import coordinate
from unisono.errors import InvalidInput
from unisono.runs.folder import EVALUATION, TRAFFIC

_PAUSE = 0.5  # seconds between looks at who is there
_FIRST_REST, _LONGEST_REST = 5.0, 60.0  # seconds after failed exchanges, doubled each time


def main(link: Link, folder: Path) -> None:
    """Run the study of a job folder, or go on with it, and write what comes out.

    Of a study that is finished, hand out the result to the parties that do not hold it.
    """
    compilation_cache.enable()
    job = Job(folder)
    agreed = job.agreement()
    study, session = agreed.built.study, agreed.session
    done, rounds = [job.progress.rounds], study.algorithm.rounds
    diary, test = RunLog(folder, rounds), job.test(agreed.built)

    def say(words: str) -> None:
        job.note(Progress(done[0], rounds, words, job.progress.answered))

    def progress(number: int) -> None:
        done[0] = number
        state, answered = _standing(job, agreed, number)
        score = None
        if test is not None:
            score = agreed.built.judge(model_so_far(study, state), *test)["value"]
        diary.step(number, study.algorithm.ask(state), answered=answered, score=score)

    noise = None
    if study.trust is Trust.TRUSTED_SERVER:
        noise = server_noise(study.algorithm, study.facts, study.trust, seed=None)
    if done[0] < rounds:
        _await_parties(link, study.facts.minimum_parties, job.conditions.connect_timeout, say)
    began, names = time.monotonic(), agreed.built.file.names
    late = [names.index(name) for name in job.uninformed(names)] if job.finished else None
    unhurried = Unhurried(link, study.facts.minimum_parties)
    outcome = coordinate(
        study,
        unhurried,
        session,
        conditions=job.conditions,
        server_noise=noise,
        checkpoint=job.checkpoint,
        progress=progress,
        say=say,
        signer=job.signer,
        transcript=LastMessages(),
        uninformed=late,
    )
    job.inform(names[party] for party in outcome.informed)
    if late is not None:
        return
    certificate = certify(
        study,
        {},
        ACCOUNTANT,
        delta=agreed.built.file.privacy.delta,
        secure_sum=session.describe() if session.masked else "",
        file=agreed.built.file.hash,
        result=outcome.result_hash,
    )
    TRAFFIC.write(
        folder,
        {
            "rounds": rounds,
            "opened": outcome.opened,
            "retries": outcome.attempts,
            "seconds": round(time.monotonic() - began, 3),
            "bytes": dict(outcome.traffic),
            "session": session.id.hex(),
        },
    )
    write_transcript(folder, study, _shape(study, outcome.transcript), outcome.value, rounds)
    if test is not None and outcome.opened:
        EVALUATION.write(folder, agreed.built.judge(outcome.value, *test))
    save_result(folder, agreed.built, outcome.value, outcome.opened, certificate)


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


def _standing(job: Job, agreed: Agreement, number: int) -> tuple[Any, list[str]]:
    """The server's state after so many rounds, and whose answers are in the last: both are in the
    checkpoint that was just written."""
    study = agreed.built.study
    state, _ = study.algorithm.init(study.facts)
    nothing = np.asarray(0)
    like = (state, np.zeros(study.facts.parties), nothing, nothing, nothing)
    _, (state, counted, *_) = Checkpoint(job.checkpoint, agreed.session.id.hex()).load(like)
    names = agreed.built.file.names
    return state, [n for n, last in zip(names, counted, strict=True) if last == number - 1]


def _shape(study: Study, transcript: Transcript) -> tuple[int, ...]:
    """The shape of what a party sends, by the last sum that was opened."""
    sums = [np.shape(message.value) for message in transcript.messages if message.name == "sum"]
    each = study.algorithm.combine == "each"
    return () if not sums else tuple(sums[-1][1:] if each else sums[-1])
