"""What a run leaves behind, written whole or not at all."""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from unisono.core import journal
from unisono.core.certificate import Certificate
from unisono.core.study import Result
from unisono.core.transcript import Transcript
from unisono.errors import InvalidInput, UnisonoError
from unisono.models.average import AVERAGE, Average
from unisono.models.fitted import fitted_document, save_model
from unisono.runs.folder import CERTIFICATE, CERTIFICATE_TEXT, RESULT, no_link, write
from unisono.studies.build import Built
from unisono.studies.search import Choice, SearchBuilt


def folder_for(path: Path) -> Path:
    """A folder that exists and is its owner's, or a clear refusal."""
    try:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise InvalidInput(
            f"{path} cannot be made into a folder: {error.strerror}; choose another place"
        ) from None
    return path


@contextmanager
def held(folder: Path, words: str) -> Iterator[None]:
    """One process at a time for a folder; `words` say what another one does with it."""
    with locked(folder / "lock", f"another process {words} {folder}: stop it, or let it go on"):
        yield


@contextmanager
def locked(path: Path, refusal: str) -> Iterator[None]:
    """One process at a time inside; another one is refused at once, in these words."""
    try:
        lock = os.fdopen(no_link(str(path), os.O_WRONLY | os.O_APPEND | os.O_CREAT), "ab")
    except FileNotFoundError:
        raise InvalidInput(f"another process has just removed {path.parent}: try again") from None
    except OSError as error:
        raise journal.unavailable(path, error) from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InvalidInput(refusal) from None
        if not path.exists() or path.stat().st_ino != os.fstat(lock.fileno()).st_ino:
            # A lock on a file that is gone holds nothing.
            raise InvalidInput(f"another process has just left {path.parent}: try again")
        yield


def save_result(
    folder: Path,
    built: Built,
    value: Any,
    opened: int,
    certificate: Certificate,
    *,
    alone: bool = False,
    learnt_from: Sequence[str] = (),
) -> dict[str, Any]:
    """The result in plain words, large arrays beside it, and the certificate; returns the first.
    Not `alone`, where every machine writes the same result beside a certificate of its own. Of a
    model that is judged, parties are named whose ledgers paid for its training."""
    CERTIFICATE.write(folder, certificate.to_json())
    write(folder / CERTIFICATE_TEXT, (certificate.text() + "\n").encode())
    result = Result(value, certificate, Transcript())
    shown: dict[str, Any] = {"title": built.file.title, "rounds_opened": opened}
    if learnt_from:
        shown["learnt_from"] = list(learnt_from)
    fitted: Mapping[str, Any] | None = None
    arrays: Mapping[str, np.ndarray] = {}
    if opened:
        try:
            shown |= json.loads(json.dumps(built.present(result), allow_nan=False))
            arrays = built.arrays(result)
            fitted, more = built.fitted(result, arrays)
            arrays = {**arrays, **more}
        except (UnisonoError, ArithmeticError, ValueError) as error:
            shown["failed"] = f"what the server sent cannot be read as a result ({error})"
    else:
        shown["failed"] = (
            "in no round did enough parties answer, so nothing was learnt: ask the parties what "
            "their logs say; what they paid stays spent"
        )
    if fitted is None:
        return RESULT.write(folder, shown)
    return save_model(folder, shown, fitted, arrays, alone=alone)


def save_chosen(
    folder: Path,
    built: SearchBuilt,
    choice: Choice | None,
    value: Any,
    opened: int,
    certificate: Certificate,
    *,
    alone: bool = False,
) -> dict[str, Any]:
    """As `save_result`, of the candidate that a search took; the first, where no scores say which
    is the best."""
    if isinstance(value, Average):
        shown = _save_average(folder, built, value, opened, certificate, alone)
    else:
        chosen = built.candidates[0 if choice is None else choice.best]
        shown = save_result(folder, chosen, value, opened, certificate, alone=alone)
    said: dict[str, Any] = {"file": built.file.hash, "search": built.shown(choice)}
    if choice is None:
        said["note"] = f"{_SCORES_LOST} {shown.get('note', '')}".strip()
    return RESULT.write(folder, shown | said)


def _save_average(
    folder: Path,
    built: SearchBuilt,
    value: Average,
    opened: int,
    certificate: Certificate,
    alone: bool,
) -> dict[str, Any]:
    CERTIFICATE.write(folder, certificate.to_json())
    write(folder / CERTIFICATE_TEXT, (certificate.text() + "\n").encode())
    members = [built.candidates[place] for place in built.members]
    names = [own.file.model.name for own in members]
    shown: dict[str, Any] = {
        "title": built.file.title,
        "rounds_opened": opened,
        "model": AVERAGE.name,
        "algorithm": ", ".join(dict.fromkeys(own.algorithm.name for own in members)),
        "study": certificate.study,
        "average": [f"{own.file.model.name} by {own.algorithm.name}" for own in members],
        "target": built.file.data.target,
        "note": _AVERAGE,
    }
    try:
        fitted, arrays = fitted_document(AVERAGE.name, {"members": names}, built.file.data, value)
    except InvalidInput as error:  # numbers that are none: a member diverged
        return RESULT.write(folder, shown | {"failed": f"the average cannot be written ({error})"})
    return save_model(folder, shown, fitted, arrays, alone=alone)


_AVERAGE = (
    "It predicts by the average of several models; the certificate names the study of the first."
)
_SCORES_LOST = (
    "The scores were paid for and lost, so nothing says which candidate is the best: this is the "
    "first."
)
