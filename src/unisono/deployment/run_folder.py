"""Where a run lies, and whose its folder is: one study's, and a real run's or a simulation's."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from unisono.core.policy import Budget
from unisono.deployment.files import folder_for, held
from unisono.errors import InvalidInput
from unisono.runs.folder import (
    CERTIFICATE,
    CHECKPOINT,
    HEADING,
    OUTCOME_FILES,
    PENDING,
    RESULT,
    STUDY,
)
from unisono.studies.file import load_study
from unisono.studies.schema import StudyFile


@dataclass(frozen=True)
class RunPlace:
    """Which study, whose files, and where everything goes; a seed makes it a simulation.

    `second_ledgers` is a folder for new books of parties that bring no policy: what the records'
    own ledgers, beside them, have spent is not counted there. `budget` is what all studies together
    may ever take of a party that has neither a policy nor a ledger: nobody else chooses it.
    """

    study: Path
    data: Mapping[str, Path]
    folder: Path
    second_ledgers: Path | None = None
    test: Path | None = None
    seed: int | None = None
    budget: Budget | None = None


def default_folder(study: Path, simulated: bool) -> Path:
    """Where a run is kept unless it is said."""
    return study.with_suffix(".simulation" if simulated else ".run")


def require_folder(folder: Path, file: StudyFile, simulated: bool, unwritten: bool = False) -> None:
    """Refuse a folder of another study, of the other kind of run, or whose study is over, unless a
    process was killed while it wrote the result (`unwritten`)."""
    if not (folder / STUDY).exists():
        if RESULT.exists(folder):
            raise InvalidInput(f"{folder} holds a result already: choose another folder")
        return
    before_simulated = _simulated(folder)
    if simulated:
        if before_simulated is False:
            raise InvalidInput(f"{folder} holds a real run: give a simulation its own --folder")
        return
    if before_simulated:
        raise InvalidInput(f"{folder} holds a simulation: give the real run its own --folder")
    before = load_study(folder / STUDY)
    if before.hash != file.hash:
        raise InvalidInput(
            f"{folder} belongs to another study ({before.title!r}, edition {before.edition}), or "
            "to this one before it was changed: keep this one elsewhere (--folder); its parties "
            "pay from the same ledgers wherever it is kept"
        )
    if RESULT.exists(folder) and not unwritten and not (folder / PENDING).exists():
        raise InvalidInput(
            f"{folder} holds the result of this study already: it runs once; to run it again, "
            f"agree on edition = {before.edition + 1}, for which every party pays anew, and keep "
            "it elsewhere (--folder)"
        )


def _simulated(folder: Path) -> bool | None:
    """Whether a simulation's or a real run's documents are there; None where neither says so."""
    if (folder / CHECKPOINT).exists():
        return False
    entropy = (CERTIFICATE.read(folder) or {}).get("entropy")
    if entropy is not None:
        return bool(entropy == "simulation")
    said = (HEADING.read(folder) or {}).get("simulated")
    return None if said is None else bool(said)


@contextmanager
def claimed(folder: Path) -> Iterator[Path]:
    """The folder, made if need be and held by this process alone; a run that is refused before it
    has written anything leaves none behind."""
    folder_for(folder)
    with held(folder, "runs the study in"):
        try:
            yield folder
        finally:  # only who holds the lock may remove it
            if [path.name for path in folder.iterdir()] == ["lock"]:
                (folder / "lock").unlink()
                folder.rmdir()


def begin(folder: Path) -> None:
    """A run that begins leaves nothing of one before: of a simulation that is repeated, or of a
    run that ended before it had anything to go on from."""
    if (folder / STUDY).exists() and not (folder / CHECKPOINT).exists():
        for name in OUTCOME_FILES:
            (folder / name).unlink(missing_ok=True)


__all__ = [
    "RunPlace",
    "begin",
    "claimed",
    "default_folder",
    "require_folder",
]
