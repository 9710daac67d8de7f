"""The server's folder of one study: what it was given, how far it is, and what came out.

study.toml, roster.toml   copies: the run goes on with what it began with
job.json                  how long to wait
server.checkpoint         where the run stands; a killed server goes on from here (a stage that
                          is not the one that learns has its own, as evaluation.checkpoint)
progress.json             rounds done and the last words, for whoever looks on
informed.json             the parties that hold the result
lots.json                 of a search by random stopping: how many runs count, and of what each is;
                          not for who sees the final model only, nor are checkpoints of runs
result.json, ...          the end
"""

import os
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from unisono.core.trust import FINAL_MODEL
from unisono.data.encoding import Values
from unisono.deployment.files import folder_for
from unisono.engines.distributed.results import ResultSigner
from unisono.engines.distributed.server import Conditions
from unisono.engines.distributed.sessions import session_of
from unisono.errors import InvalidInput
from unisono.runs.folder import (
    INFORMED,
    JOB,
    LOTS_DRAWN,
    PENDING,
    PROGRESS,
    RESULT,
    ROSTER,
    SERVER_CHECKPOINT,
    STUDY,
    checkpoint_of,
    write,
)
from unisono.secagg.session import Session
from unisono.studies.build import Built, build
from unisono.studies.file import load_study
from unisono.studies.roster import Members, load_roster
from unisono.studies.search import LOTS, Lots, SearchBuilt
from unisono.studies.stages import FIT, Found, Stage


@dataclass(frozen=True)
class Progress:
    """How far a run is."""

    rounds: int = 0
    of: int = 0
    words: str = ""
    answered: list[str] | None = None


@dataclass(frozen=True)
class JobAgreement:
    """What everybody holds: the study, its parties, and the sessions that follow from both, one for
    each stage of the study, in order, as they are before any stage has a result (`session_at`)."""

    built: Built
    members: Members
    sessions: tuple[Session, ...]

    @property
    def session(self) -> Session:
        """That of the stage that learns, or of the lots, where runs are drawn: by it the whole is
        known."""
        names = [stage.name for stage in self.built.course]
        return self.sessions[names.index(FIT) if FIT in names else 0]

    def session_at(self, results: Sequence[str]) -> Session:
        """The session of the stage after those with these results, by their hashes: whoever was
        told another result is in another session."""
        return self.sessions[len(results)].after(results)

    def known(self, found: Found) -> "JobAgreement":
        """The same, once it is known what a stage told of those that follow."""
        built = self.built.informed(found)
        return self if built is self.built else _agreed(built, self.members)


def agreement(study: Path, roster: Path) -> JobAgreement:
    """Read and check what the parties agreed on; the same at the server and at every party."""
    built = build(load_study(study))
    return _agreed(built, load_roster(roster).of_study(built.file))


def _agreed(built: Built, members: Members) -> JobAgreement:
    sessions = tuple(
        session_of(stage.study, members.roster, f"{built.file.hash}{stage.suffix}")
        for stage in built.course
    )
    return JobAgreement(built, members, sessions)


@dataclass(frozen=True)
class Job:
    """One study at the server."""

    folder: Path

    @classmethod
    def begin(cls, folder: Path, study: Path, roster: Path, conditions: Conditions) -> "Job":
        """Set up the folder, or find it set up for the same study."""
        given, job = agreement(study, roster), cls(folder_for(folder))
        if (folder / STUDY).exists():
            before = job.agreement()
            if before.session.account != given.session.account:
                raise InvalidInput(
                    f"{folder} belongs to another study or roster ({before.built.file.title!r}): "
                    "give this one its own folder (--folder)"
                )
        else:
            shutil.copyfile(study, folder / STUDY)
            shutil.copyfile(roster, folder / ROSTER)
        job._keep_test(given.built, study)
        JOB.write(folder, asdict(conditions))
        return job

    def _keep_test(self, built: Built, study: Path) -> None:
        """A copy of the public test records, read once to refuse what cannot be used."""
        if built.file.evaluation is not None and built.file.evaluation.file is not None:
            path = study.parent / built.file.evaluation.file
            built.testable(built.public_table(path))
            shutil.copyfile(path, self.folder / f"test{path.suffix.lower()}")

    def test(self, built: Built) -> tuple[Values, str] | None:
        """The public test records, and what they were called; None where there are none."""
        asked = built.file.evaluation
        if asked is None or asked.file is None:
            return None
        copy = self.folder / f"test{Path(asked.file).suffix.lower()}"
        return built.testable(built.public_table(copy)), Path(asked.file).name

    def agreement(self) -> JobAgreement:
        return agreement(self.folder / STUDY, self.folder / ROSTER)

    @property
    def conditions(self) -> Conditions:
        return Conditions(**(JOB.content(self.folder) or {}))

    @property
    def signer(self) -> ResultSigner | None:
        """Signs the result with the key of the server's certificate; none without TLS."""
        tls = self.folder / "tls"
        found = tls / "server.crt", tls / "server.key"
        return ResultSigner.load(*found) if found[1].exists() else None

    def lots(self, built: SearchBuilt) -> Lots:
        """Of a search by random stopping, drawn once: a server that goes on reads what it drew."""
        kept = LOTS_DRAWN.read(self.folder)
        if kept is None:
            law: Any = built.costs[0][FINAL_MODEL].parts[0][0].noise
            number, places = law.drawn(os.urandom(32), len(built.candidates))
            kept = LOTS_DRAWN.write(self.folder, {"number": number, "candidates": list(places)})
        return Lots(int(kept["number"]), tuple(map(int, kept["candidates"])))

    def told(self, stage: Stage) -> bool:
        """Whether something came of a stage before; lots are told from where they are kept."""
        return stage.name == LOTS or self.checkpoint(stage).exists()

    def checkpoint(self, stage: Stage) -> Path:
        return self.folder / (SERVER_CHECKPOINT if stage.name == FIT else checkpoint_of(stage.name))

    @property
    def finished(self) -> bool:
        return RESULT.exists(self.folder) and not self.pending

    @property
    def pending(self) -> bool:
        """Whether there is a result, and its private test is not over."""
        return (self.folder / PENDING).exists()

    def pend(self) -> None:
        write(self.folder / PENDING, b"")

    def end(self) -> None:
        (self.folder / PENDING).unlink(missing_ok=True)

    def uninformed(self, names: Sequence[str]) -> list[str]:
        """Of a finished study, the parties that do not hold its result: away when it was handed
        out. None of a run from before this was written down."""
        told = INFORMED.read(self.folder)
        return [] if told is None else [name for name in names if name not in told["parties"]]

    def inform(self, names: Iterable[str]) -> None:
        """These parties hold the result, too."""
        told = (INFORMED.read(self.folder) or {"parties": []})["parties"]
        INFORMED.write(self.folder, {"parties": sorted({*told, *names})})

    def note(self, progress: Progress) -> None:
        PROGRESS.write(self.folder, asdict(progress))

    @property
    def progress(self) -> Progress:
        found = PROGRESS.content(self.folder)
        return Progress(**found) if found else Progress()
