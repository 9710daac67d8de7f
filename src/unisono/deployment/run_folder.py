"""Whose a run's folder is: one study's, and a real run's or a simulation's."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from unisono.deployment.files import CERTIFICATE, RESULT, folder_for, held, read_json
from unisono.errors import InvalidInput
from unisono.studies.file import load_study
from unisono.studies.schema import StudyFile

STUDY, CHECKPOINT, TESTED = "study.toml", "run.checkpoint", "evaluation.checkpoint"


def default_folder(study: Path, simulated: bool) -> Path:
    """Where a run is kept unless it is said."""
    return study.with_suffix(".simulation" if simulated else ".run")


def require_folder(folder: Path, file: StudyFile, simulated: bool) -> None:
    """Refuse a folder of another study, or one whose study is over."""
    if not (folder / STUDY).exists():
        return
    entropy = (read_json(folder / CERTIFICATE) or {}).get("entropy")
    if simulated:
        if (folder / CHECKPOINT).exists() or entropy == "os":
            raise InvalidInput(f"{folder} holds a real run: give a simulation its own --folder")
        return
    before = load_study(folder / STUDY)
    if before.hash != file.hash:
        raise InvalidInput(
            f"{folder} belongs to another study ({before.title!r}, edition {before.edition}), or "
            "to this one before it was changed: give this one its own folder (--folder)"
        )
    if entropy == "simulation":
        raise InvalidInput(f"{folder} holds a simulation: give the real run its own --folder")
    if (folder / RESULT).exists():
        raise InvalidInput(
            f"{folder} holds the result of this study already: it runs once; to run it again, "
            f"agree on edition = {before.edition + 1} and give it its own folder (--folder)"
        )


@contextmanager
def claimed(folder: Path) -> Iterator[Path]:
    """The folder, made if need be and held by this process alone; a run that is refused before it
    has written anything leaves none behind."""
    folder_for(folder)
    try:
        with held(folder, "runs the study in"):
            yield folder
    finally:
        if [path.name for path in folder.iterdir()] == ["lock"]:
            (folder / "lock").unlink()
            folder.rmdir()


def clear(folder: Path) -> None:
    """A simulation that is repeated leaves nothing of the last one."""
    for path in folder.iterdir():
        if path.suffix in (".json", ".jsonl", ".txt", ".npz", ".html", ".md"):
            path.unlink()


__all__ = ["CHECKPOINT", "STUDY", "TESTED", "claimed", "clear", "default_folder", "require_folder"]
