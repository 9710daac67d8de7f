"""Temporary folders that stay no longer than their process, however it ends.

A folder is locked as long as its process lives. A process that is killed loses its lock, so the
next one that makes a temporary folder removes those that nobody holds.
"""

import contextlib
import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

_PREFIX = "unisono-scratch-"
_NAME = re.compile(rf"{_PREFIX}[a-z0-9_]{{8}}")  # as `tempfile` makes names
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@contextlib.contextmanager
def scratch_folder() -> Iterator[Path]:
    """A folder that its owner alone may enter, gone at the end."""
    _remove_abandoned()
    folder, lock = _made()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _made() -> tuple[Path, int]:
    """A new folder and its lock. Another process may have removed it before it was locked."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        with contextlib.suppress(FileNotFoundError):
            lock = os.open(folder, _FOLDER)
            with contextlib.suppress(OSError):  # without locks nobody removes it either
                fcntl.flock(lock, fcntl.LOCK_EX)
            if folder.exists():
                return folder, lock
            os.close(lock)


def _remove_abandoned() -> None:
    with contextlib.suppress(OSError), os.scandir(tempfile.gettempdir()) as found:
        for one in found:
            if _NAME.fullmatch(one.name):
                with contextlib.suppress(OSError):  # somebody holds it, or may alone remove it
                    _remove_unless_held(one.path)


def _remove_unless_held(path: str) -> None:
    lock = os.open(path, _FOLDER)
    try:
        if os.fstat(lock).st_uid == os.geteuid():
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(lock)


__all__ = ["scratch_folder"]
