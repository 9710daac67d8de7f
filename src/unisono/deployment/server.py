"""The server's part of a study, as the process that Flower starts runs it."""

import time
from pathlib import Path

from unisono.accounting.accountant import ACCOUNTANT
from unisono.core.certificate import certify
from unisono.core.release import server_noise
from unisono.core.trust import Trust
from unisono.deployment.files import save_result, write_json
from unisono.deployment.job import Job, Progress
from unisono.engines import compilation_cache
from unisono.engines.distributed.link import Link
from unisono.engines.distributed.server import coordinate


def main(link: Link, folder: Path) -> None:
    """Run the study of a job folder, or go on with it, and write what comes out."""
    compilation_cache.enable()
    job = Job(folder)
    agreed = job.agreement()
    study, session = agreed.built.study, agreed.session
    done, rounds = [job.progress.rounds], study.algorithm.rounds

    def say(words: str) -> None:
        job.note(Progress(done[0], rounds, words))

    def progress(number: int) -> None:
        done[0] = number
        say("")

    noise = None
    if study.trust is Trust.TRUSTED_SERVER:
        noise = server_noise(study.algorithm, study.facts, study.trust, seed=None)
    began = time.monotonic()
    outcome = coordinate(
        study, link, session, conditions=job.conditions, server_noise=noise,
        checkpoint=job.checkpoint, progress=progress, say=say,
    )  # fmt: skip
    certificate = certify(
        study, {}, ACCOUNTANT, delta=agreed.built.file.privacy.delta,
        secure_sum=session.describe() if session.masked else "",
    )  # fmt: skip
    write_json(
        folder / "run.json",
        {"rounds": rounds, "opened": outcome.opened, "retries": outcome.attempts,
         "seconds": round(time.monotonic() - began, 3), "bytes": dict(outcome.traffic),
         "session": session.id.hex()},
    )  # fmt: skip
    save_result(folder, agreed.built, outcome.value, outcome.opened, certificate)
