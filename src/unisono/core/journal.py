"""An append-only, hash-chained, crash-safe file of JSON lines.

Every line ends in a `chain` field, the SHA-256 of the previous chain value and of the
line's own bytes, so a changed, removed or reordered line breaks every later one. A line
counts once it is on the disk: `append` returns after fsync. A crash in the middle of a
write leaves a last line without its chain; nobody was ever told that it exists, so the
next writer cuts it off. A line may name in `after` the chain value before it, so that who signs
the line signs all before it. A last line that lacks only its newline (an editor strips it) is
whole, and counts. Two processes take turns through an advisory lock on the file: one that waits
for longer than a second says for whom, and gives up after a minute. A file is there with its first
lines or not at all.
"""

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from unisono.core.events import canonical
from unisono.core.words import clean
from unisono.errors import (
    BusyLedgerWarning,
    InvalidInput,
    LedgerCorrupted,
    LedgerError,
    LedgerUnavailable,
    UnisonoError,
    UnknownEvent,
    warn,
)

T = TypeVar("T")
GENESIS = "0" * 64
_CHAIN_LENGTH = len(',"chain":""}') + 64
# Quotes inside strings are escaped, so that only the end of a line looks like this. What has one
# was not torn by a crash, whatever comes after it.
_LINE_END = re.compile(rb',"chain":"[0-9a-f]{64}"\}')


def link(previous: str, body: bytes) -> str:
    """The chain value of a line whose JSON, without its chain field, is `body`."""
    return hashlib.sha256(previous.encode() + body).hexdigest()


def _chain_field(head: str) -> bytes:
    return b',"chain":"' + head.encode() + b'"}'


def split(data: bytes) -> tuple[list[bytes], bytes]:
    """The whole lines, and what a crash in the middle of a write left of one more.

    >>> split(b'{"a":1}\\n{"b":')
    ([b'{"a":1}'], b'{"b":')
    """
    *lines, last = data.split(b"\n")
    return ([*lines, last], b"") if _LINE_END.search(last) else (lines, last)


def parse(lines: Sequence[bytes], head: str, first: int) -> tuple[list[dict[str, Any]], str]:
    """Check the chain of complete `lines` after `head`; return documents and the new head."""
    documents = []
    for number, line in enumerate(lines, start=first):
        body = line[:-_CHAIN_LENGTH] + b"}"
        before, head = head, link(head, body)
        if line[-_CHAIN_LENGTH:] != _chain_field(head):
            raise LedgerCorrupted(
                f"line {number + 1} does not continue the hash chain: it, or a line before it, "
                "was changed, removed or damaged; restore the file from a backup, never edit it"
            )
        with understood(f"line {number + 1}"):
            document = json.loads(body)
            if not isinstance(document, dict):
                raise TypeError("no table")
            if document.get("after", before) != before:
                raise LedgerCorrupted(
                    f"line {number + 1} was signed after other lines than those before it: it was "
                    "moved here, or lines before it were rewritten; restore a backup"
                )
        documents.append(document)
    return documents, head


@contextlib.contextmanager
def understood(what: str) -> Iterator[None]:
    """Inside, whatever a chained line provokes that nobody expects of one is corruption: a chain
    proves that lines are in order, not that this program wrote them."""
    try:
        yield
    except (LedgerError, UnknownEvent):
        raise
    except (
        UnisonoError,
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
        ArithmeticError,
        RecursionError,
    ) as error:
        raise LedgerCorrupted(
            f"{what} of the ledger cannot be understood ({type(error).__name__}: {str(error)[:200]}"
            "): it was written by another version, or by hand; restore a backup"
        ) from None


@dataclass(frozen=True)
class LockWait:
    """How long to wait for a file that another process holds: it is named after `notice` seconds,
    and waiting ends after `limit`. Nobody holds a ledger for longer than one authorization takes.

    A kernel's own wait has no limit but by signals, which belong to the program around; so the lock
    is tried again, at first after a fraction of a millisecond."""

    notice: float = 1.0
    limit: float = 60.0
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep

    def lock(self, file: int, path: Path) -> None:
        """Hold the file alone, or say why not."""
        if _locks(file):
            return
        begin, pause, said = self.clock(), 2e-4, False
        while not _locks(file):
            waited = self.clock() - begin
            if waited >= self.limit:
                raise LedgerUnavailable(
                    f"the ledger {path} is locked by {_holder(file)}, for longer than "
                    f"{self.limit:g} seconds.\nEnd that process, or try again when it is done. No "
                    "privacy budget was spent."
                )
            if waited >= self.notice and not said:
                said = True
                warn(
                    f"the ledger {path} is locked by {_holder(file)}: waiting for up to "
                    f"{self.limit:g} seconds",
                    BusyLedgerWarning,
                )
            self.sleep(pause)
            pause = min(2 * pause, 0.02)


def _locks(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(file: int) -> str:
    """Who holds a file, as far as the system says: Linux lists locks by device and inode."""
    status = os.fstat(file)
    device = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    try:
        locks = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
        held = [one for one in locks if device in one and "->" not in one]
        process = next(int(one[one.index(device) - 1]) for one in held)
        if process == os.getpid():
            return f"this process ({process}) itself, through another opened ledger"
        name = Path(f"/proc/{process}/comm").read_text().strip()
    except (OSError, ValueError, StopIteration):
        return "another process (`lsof` names it, on its own machine)"
    return f"process {process} ({clean(name)})"


class Journal:
    """One journal file, opened for appending; use it inside `locked()`."""

    wait = LockWait()

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._name = os.fspath(self.path)
        self.head = GENESIS
        self.length = 0
        self._offset = 0
        self._thread_lock = threading.RLock()
        self._sync_lock = threading.Lock()
        self._synced = 0
        self._depth = 0
        self._open()

    def _open(self) -> None:
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        except FileNotFoundError:
            raise InvalidInput(f"no ledger at {self.path}: create one first") from None
        except OSError as error:
            raise unavailable(self.path, error) from None
        self._process = os.getpid()

    @property
    def place(self) -> tuple[int, ...]:
        """Equal for journals of one file, by whatever names they were opened."""
        self._require_open()
        status = os.fstat(self._file)
        return (1, status.st_dev, status.st_ino)

    def locked(self) -> "Held[list[dict[str, Any]]]":
        """Hold the file alone; inside is known what other processes have appended meanwhile."""
        return Held(self, lambda news: news)

    def acquire(self) -> None:
        """Wait until no other thread or process holds the file (`LockWait`)."""
        self._thread_lock.acquire()
        try:
            self._require_open()
            if self._process != os.getpid():  # a forked child must not share the parent's lock
                self._open()
            if self._depth == 0:
                self.wait.lock(self._file, self.path)
        except BaseException:
            self._thread_lock.release()
            raise
        self._depth += 1

    def _require_open(self) -> None:
        if self._file < 0:
            raise LedgerUnavailable(f"the ledger {self.path} was closed: open it again")

    def release(self) -> None:
        self._depth -= 1
        if self._depth == 0:
            fcntl.flock(self._file, fcntl.LOCK_UN)
        self._thread_lock.release()

    def news(self) -> list[dict[str, Any]]:
        """What was appended since the last look; whoever asks holds the file."""
        status = os.fstat(self._file)
        self._require_same_file(status)
        size = status.st_size
        if size == self._offset > 0:
            return []
        if size < self._offset:
            raise LedgerCorrupted(
                f"{self.path} shrank from {self._offset} to {size} bytes while in use: "
                "spending has been erased; restore it from a backup"
            )
        data = os.pread(self._file, size - self._offset, self._offset)
        lines, torn = split(data)
        if not lines and self._offset == 0:
            raise LedgerCorrupted(_not_a_ledger(self.path))
        try:
            documents, head = parse(lines, self.head, self.length)
        except LedgerCorrupted as error:
            raise LedgerCorrupted(f"{self.path}: {error}") from None
        try:
            if torn:  # by a crash: it never paid for anything
                os.ftruncate(self._file, size - len(torn))
                os.fsync(self._file)
            elif not data.endswith(b"\n"):  # lost on the way; the line was paid with
                os.write(self._file, b"\n")
                os.fsync(self._file)
        except OSError as error:
            raise unavailable(self.path, error) from None
        self._offset += sum(len(line) + 1 for line in lines)
        self.head = head
        self.length += len(documents)
        return documents

    def _require_same_file(self, open_file: os.stat_result) -> None:
        """Refuse to write into a file that was moved away or replaced under its name."""
        try:
            named = os.stat(self._name)
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
        data, head = _encoded(documents, self.head)
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
    """The same chain without a file, for simulations and short-lived books.

    `first` makes its first line of what is `given`, when somebody looks at lines: of a hundred
    thousand books that are simulated nobody does.
    """

    path = None

    def __init__(
        self, first: Callable[[Any], dict[str, Any]] | None = None, given: Any = None
    ) -> None:
        self._first, self._given = first, given
        self._later: list[dict[str, Any]] | None = None
        self._head, self._linked = GENESIS, 0
        self._thread_lock, self._process = threading.RLock(), os.getpid()

    @property
    def head(self) -> str:
        """Linked when it is asked for, so that a hundred thousand books stay cheap."""
        with self._thread_lock:
            for line in self.lines[self._linked :]:
                self._head = link(self._head, canonical(line))
            self._linked = len(self.lines)
            return self._head

    @property
    def lines(self) -> list[dict[str, Any]]:
        with self._thread_lock:
            later = self._written_later()
            if self._first is not None:
                later.insert(0, self._first(self._given))
                self._first = None
            return later

    def _written_later(self) -> list[dict[str, Any]]:
        if self._later is None:
            self._later = []
        return self._later

    @property
    def length(self) -> int:
        with self._thread_lock:
            return len(self._later or ()) + (self._first is not None)

    @property
    def place(self) -> tuple[int, ...]:
        return (0, id(self))

    def locked(self) -> "Held[list[dict[str, Any]]]":
        return Held(self, lambda news: news)

    def acquire(self) -> None:
        if self._process != os.getpid():
            raise LedgerUnavailable(
                "a ledger in memory cannot be shared with a forked process: both would spend it; "
                "use a ledger file"
            )
        self._thread_lock.acquire()

    def release(self) -> None:
        self._thread_lock.release()

    def news(self) -> list[dict[str, Any]]:
        """Nobody else writes here."""
        return []

    @property
    def written(self) -> int:
        return self.length

    def write(self, documents: Sequence[dict[str, Any]]) -> None:
        self._written_later().extend(documents)

    append = write

    def sync(self, written: int) -> None:
        """Memory needs no waiting."""

    def close(self) -> None:
        self._first, self._later = None, None


class Held(Generic[T]):
    """A journal that is held alone inside a `with`, whose value is what `learn` makes of its news.

    Written out rather than as a generator: an authorisation holds its journal once, and a generator
    takes as long as its system calls do.
    """

    __slots__ = ("_journal", "_learn")

    def __init__(
        self, journal: Journal | MemoryJournal, learn: Callable[[list[dict[str, Any]]], T]
    ) -> None:
        self._journal, self._learn = journal, learn

    def __enter__(self) -> T:
        self._journal.acquire()
        try:
            return self._learn(self._journal.news())
        except BaseException:
            self._journal.release()
            raise

    def __exit__(self, *_: object) -> None:
        self._journal.release()


def create(path: str | os.PathLike[str], documents: Sequence[dict[str, Any]]) -> None:
    """A new file with these first documents; whatever is there already is left alone.

    It is written under another name and linked to its own, which of two processes only one can
    do, and which no crash can leave half done.
    """
    place = Path(path)
    data, _ = _encoded(documents, GENESIS)
    try:
        with _draft(place, data, 0o600) as draft:
            _link(draft, place)
        _sync_folder(place.parent)
    except FileExistsError:
        raise _exists(place) from None
    except FileNotFoundError:
        raise InvalidInput(
            f"there is no folder {place.parent} for {place.name}: make it first"
        ) from None
    except OSError as error:
        raise unavailable(place, error) from None


def replace(
    path: Path, data: bytes, mode: int = 0o600, consequence: str = "nothing was spent"
) -> None:
    """Put a file in the place of another: whoever reads sees the old one or the new one."""
    try:
        with _draft(path, data, mode) as draft:
            os.replace(draft, path)
    except OSError as error:
        raise unavailable(path, error, consequence) from None


@contextlib.contextmanager
def _draft(place: Path, data: bytes, mode: int) -> Iterator[Path]:
    """A whole file beside its place, under a name that nobody could guess and so link elsewhere;
    gone at the end, unless it was moved."""
    draft = place.with_name(f".{place.name}.{secrets.token_hex(8)}.part")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(draft, flags, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        yield draft
    finally:
        draft.unlink(missing_ok=True)


def read(path: str | os.PathLike[str]) -> tuple[list[dict[str, Any]], str]:
    """All documents of a journal and its head, without locking or repairing it."""
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError:
        raise InvalidInput(f"no ledger at {path}: check the name") from None
    except OSError as error:
        raise unavailable(path, error) from None
    return parse(split(data)[0], GENESIS, 0)


def is_torn(path: str | os.PathLike[str]) -> bool:
    """Whether the last line is incomplete: a crash during a write that never paid for anything."""
    return bool(split(Path(path).read_bytes())[1])


def heads(path: str | os.PathLike[str]) -> list[str]:
    """Every head the journal ever had, oldest first, to compare with one kept elsewhere."""
    read(path)
    lines, _ = split(Path(path).read_bytes())
    return [GENESIS, *(line[-66:-2].decode() for line in lines)]


def _encoded(documents: Sequence[dict[str, Any]], head: str) -> tuple[bytes, str]:
    """The documents as lines that continue `head`, and the new head."""
    lines = []
    for document in documents:
        body = canonical(document)
        head = link(head, body)
        lines.append(body[:-1] + _chain_field(head) + b"\n")
    return b"".join(lines), head


def _link(draft: Path, place: Path) -> None:
    try:
        os.link(draft, place)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP):
            raise
        raise LedgerUnavailable(
            f"the file system of {place} cannot link files, so that two processes could begin it "
            "at once: keep the ledger on another one"
        ) from None


def _exists(path: Path) -> InvalidInput:
    """Why nothing is created where something is."""
    try:
        begun = bool(read(path)[0])
    except (UnisonoError, ValueError):
        begun = False
    if begun:
        return InvalidInput(
            f"{path} exists already: open it, or choose another name; a ledger is never overwritten"
        )
    return InvalidInput(
        f"{path} exists and is not a ledger: choose another name; it was left as it is"
    )


def _not_a_ledger(path: Path) -> str:
    return (
        f"{path} holds no complete line: it is not a ledger, or its beginning is lost; it was left "
        "as it is"
    )


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
        errno.ELOOP: "that is a link: remove it, or name the file itself",
    }.get(error.errno or 0, error.strerror or str(error))
    return LedgerUnavailable(f"cannot use {path}: {remedy}; {consequence}")


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
