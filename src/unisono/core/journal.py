"""An append-only, hash-chained, crash-safe file of JSON lines.

Every line ends in a `chain` field, the SHA-256 of the previous chain value and of the
line's own bytes, so a changed, removed or reordered line breaks every later one. A line
counts once it is on the disk: `append` returns after fsync. A crash in the middle of a
write leaves a last line without its newline; nobody was ever told that it exists, so the
next writer cuts it off. Two processes take turns through an advisory lock on the file.
"""

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from unisono.core.events import canonical
from unisono.errors import InvalidInput, LedgerCorrupted, LedgerUnavailable

GENESIS = "0" * 64
_CHAIN_LENGTH = len(',"chain":""}') + 64


def link(previous: str, body: bytes) -> str:
    """The chain value of a line whose JSON, without its chain field, is `body`."""
    return hashlib.sha256(previous.encode() + body).hexdigest()


def _chain_field(head: str) -> bytes:
    return b',"chain":"' + head.encode() + b'"}'


def parse(lines: Sequence[bytes], head: str, first: int) -> tuple[list[dict[str, Any]], str]:
    """Check the chain of complete `lines` after `head`; return documents and the new head."""
    documents = []
    for number, line in enumerate(lines, start=first):
        body = line[:-_CHAIN_LENGTH] + b"}"
        head = link(head, body)
        if line[-_CHAIN_LENGTH:] != _chain_field(head):
            raise LedgerCorrupted(
                f"line {number + 1} does not continue the hash chain: it, or a line before it, "
                "was changed, removed or damaged; restore the file from a backup, never edit it"
            )
        documents.append(json.loads(body))
    return documents, head


class Journal:
    """One journal file, opened for appending; use it inside `locked()`."""

    def __init__(self, path: str | os.PathLike[str], create: bool) -> None:
        self.path = Path(path)
        self.head = GENESIS
        self.length = 0
        self._offset = 0
        self._thread_lock = threading.RLock()
        self._sync_lock = threading.Lock()
        self._synced = 0
        self._depth = 0
        self._create = create
        self._open()

    def _open(self) -> None:
        flags = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC
        if self._create:
            flags |= os.O_CREAT | os.O_EXCL
        try:
            self._file = os.open(self.path, flags, 0o600)
            if self._create:
                _sync_folder(self.path.parent)
        except FileExistsError:
            if self.path.is_file() and b"\n" not in self.path.read_bytes():
                # A crash before the first line: nothing was ever granted from this file.
                self.path.unlink()
                self._open()
                return
            raise InvalidInput(
                f"{self.path} exists already: open it, or choose another name; "
                "a ledger is never overwritten"
            ) from None
        except FileNotFoundError:
            raise InvalidInput(f"no ledger at {self.path}: create one first") from None
        except OSError as error:
            raise unavailable(self.path, error) from None
        self._create = False
        self._process = os.getpid()

    @contextlib.contextmanager
    def locked(self) -> Iterator[list[dict[str, Any]]]:
        """Hold the file alone; yields what other processes have appended meanwhile."""
        with self._thread_lock:
            if self._file < 0:
                raise LedgerUnavailable(f"the ledger {self.path} was closed: open it again")
            if self._process != os.getpid():  # a forked child must not share the parent's lock
                self._open()
            if self._depth == 0:
                fcntl.flock(self._file, fcntl.LOCK_EX)
            self._depth += 1
            try:
                yield self._read_new(repair=True)
            finally:
                self._depth -= 1
                if self._depth == 0:
                    fcntl.flock(self._file, fcntl.LOCK_UN)

    def _read_new(self, repair: bool) -> list[dict[str, Any]]:
        status = os.fstat(self._file)
        self._require_same_file(status)
        size = status.st_size
        if size == self._offset:
            return []
        if size < self._offset:
            raise LedgerCorrupted(
                f"{self.path} shrank from {self._offset} to {size} bytes while in use: "
                "spending has been erased; restore it from a backup"
            )
        data = os.pread(self._file, size - self._offset, self._offset)
        complete = data.rfind(b"\n") + 1
        try:
            documents, head = parse(data[:complete].split(b"\n")[:-1], self.head, self.length)
        except LedgerCorrupted as error:
            raise LedgerCorrupted(f"{self.path}: {error}") from None
        if repair and complete < len(data):  # torn by a crash: it never paid for anything
            os.ftruncate(self._file, self._offset + complete)
            os.fsync(self._file)
        self._offset += complete
        self.head = head
        self.length += len(documents)
        return documents

    def _require_same_file(self, open_file: os.stat_result) -> None:
        """Refuse to write into a file that was moved away or replaced under its name."""
        try:
            named = os.stat(self.path)
        except OSError as error:
            raise unavailable(self.path, error) from None
        if (named.st_ino, named.st_dev) != (open_file.st_ino, open_file.st_dev):
            raise LedgerCorrupted(
                f"{self.path} was replaced while it was open: spending would go to the old file; "
                "open it again"
            )

    def append(self, documents: Sequence[dict[str, Any]]) -> None:
        """Write the documents and wait for the disk; on any failure nothing remains."""
        before = self._offset, self.head, self.length
        self.write(documents)
        try:
            self.sync(self._offset)
        except LedgerUnavailable:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, before[0])
            self._offset, self.head, self.length = before
            raise

    def sync(self, written: int) -> None:
        """Wait until the first `written` bytes are on the disk; threads share one wait.

        Bytes reach the disk in their order, so whatever another process built on these lines
        cannot survive a crash without them.
        """
        with self._sync_lock:
            if self._synced >= written:
                return
            target = self._offset
            try:
                os.fdatasync(self._file)
            except OSError as error:
                raise unavailable(self.path, error, "what was asked counts as spent") from None
            self._synced = target

    @property
    def written(self) -> int:
        """How many bytes this journal has read or written."""
        return self._offset

    def write(self, documents: Sequence[dict[str, Any]]) -> None:
        """Append the documents without waiting for the disk; a failed write leaves nothing."""
        if self._depth == 0:
            raise LedgerUnavailable("append outside locked(): another process could interleave")
        head, encoded = self.head, []
        for document in documents:
            body = canonical(document)
            head = link(head, body)
            encoded.append(body[:-1] + _chain_field(head) + b"\n")
        data = b"".join(encoded)
        try:
            written = 0
            while written < len(data):
                written += os.write(self._file, data[written:])
        except OSError as error:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file, self._offset)
            raise unavailable(self.path, error) from None
        self._offset += len(data)
        self.head = head
        self.length += len(documents)

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


class MemoryJournal:
    """The same chain without a file, for simulations and short-lived books."""

    path = None

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        self._head, self._linked = GENESIS, 0
        self._thread_lock, self._process = threading.RLock(), os.getpid()

    @property
    def head(self) -> str:
        """Linked when it is asked for, so that a hundred thousand books stay cheap."""
        for line in self.lines[self._linked :]:
            self._head = link(self._head, canonical(line))
        self._linked = len(self.lines)
        return self._head

    @property
    def length(self) -> int:
        return len(self.lines)

    @contextlib.contextmanager
    def locked(self) -> Iterator[list[dict[str, Any]]]:
        with self._thread_lock:
            if self._process != os.getpid():
                raise LedgerUnavailable(
                    "a ledger in memory cannot be shared with a forked process: both would spend "
                    "it; use a ledger file"
                )
            yield []

    @property
    def written(self) -> int:
        return len(self.lines)

    def write(self, documents: Sequence[dict[str, Any]]) -> None:
        self.lines.extend(documents)

    append = write

    def sync(self, written: int) -> None:
        """Memory needs no waiting."""

    def close(self) -> None:
        self.lines = []


def read(path: str | os.PathLike[str]) -> tuple[list[dict[str, Any]], str]:
    """All documents of a journal and its head, without locking or repairing it."""
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError:
        raise InvalidInput(f"no ledger at {path}: check the name") from None
    except OSError as error:
        raise unavailable(path, error) from None
    return parse(data[: data.rfind(b"\n") + 1].split(b"\n")[:-1], GENESIS, 0)


def heads(path: str | os.PathLike[str]) -> list[str]:
    """Every head the journal ever had, oldest first, to compare with one kept elsewhere."""
    read(path)
    lines = Path(path).read_bytes().split(b"\n")[:-1]
    return [GENESIS, *(line[-66:-2].decode() for line in lines)]


def unavailable(
    path: object, error: OSError, consequence: str = "nothing was spent"
) -> LedgerUnavailable:
    """What a user should read when the storage refuses."""
    remedy = {
        errno.ENOSPC: "the disk is full: free some space and try again",
        errno.EDQUOT: "the disk quota is used up: free some space and try again",
        errno.EACCES: "permission is denied: make the file writable for you",
        errno.EPERM: "the operation is not permitted: make the file writable for you",
        errno.EROFS: "the disk is read-only: move it to writable storage",
        errno.EISDIR: "that is a folder: name a file",
    }.get(error.errno or 0, error.strerror or str(error))
    return LedgerUnavailable(f"cannot use {path}: {remedy}; {consequence}")


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
