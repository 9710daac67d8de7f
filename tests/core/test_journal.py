"""The journal: append-only, chained, repaired after a crash, shared between processes."""

import errno
import fcntl
import json
import os
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unisono.core.journal import GENESIS, Journal, LockWait, create, heads, is_torn, read
from unisono.errors import (
    BusyLedgerWarning,
    InvalidInput,
    LedgerCorrupted,
    LedgerUnavailable,
)


def write(path, documents):
    """Begin a journal with these documents, or append them."""
    if not path.exists():
        create(path, documents)
        journal = Journal(path)
        with journal.locked():
            return journal
    journal = Journal(path)
    with journal.locked():
        journal.append(documents)
    return journal


def test_what_is_written_is_read_back_by_another_process(tmp_path):
    path = tmp_path / "book"
    journal = write(path, [{"a": 1}, {"b": [2.5, "x"]}])
    documents, head = read(path)
    assert documents == [{"a": 1}, {"b": [2.5, "x"]}]
    assert head == journal.head != GENESIS
    assert heads(path)[-1] == head
    assert oct(path.stat().st_mode)[-3:] == "600"


def test_lines_are_json_for_people(tmp_path):
    write(tmp_path / "book", [{"kind": "grant", "number": 3}])
    line = json.loads((tmp_path / "book").read_text())
    assert line["kind"] == "grant"
    assert len(line["chain"]) == 64


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_any_changed_byte_is_noticed(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("j") / "book"
    write(path, [{"n": n, "text": "abc"} for n in range(4)])
    raw = bytearray(path.read_bytes())
    where = data.draw(st.integers(0, len(raw) - 1))
    flip = data.draw(st.integers(1, 255))
    raw[where] ^= flip
    path.write_bytes(bytes(raw))
    with pytest.raises(LedgerCorrupted):
        read(path)


@pytest.mark.parametrize("cut", [2, 5, 40, 100])
def test_a_torn_last_line_is_cut_off_by_the_next_writer(tmp_path, cut):
    path = tmp_path / "book"
    write(path, [{"n": 0}])
    whole = path.read_bytes()
    write(path, [{"n": 1}])
    torn = path.read_bytes()[:-cut] if cut < len(whole) else whole + b"{"
    path.write_bytes(torn)
    assert is_torn(path)
    write(path, [{"n": 2}])
    assert [d["n"] for d in read(path)[0]] == [0, 2]


def test_a_last_line_without_its_newline_is_whole(tmp_path):
    """An editor or a copy strips it; the line was written, and whoever wrote it was paid."""
    path = tmp_path / "book"
    head = write(path, [{"n": 0}, {"n": 1}]).head
    whole = path.read_bytes()
    path.write_bytes(whole.rstrip(b"\n"))
    assert [d["n"] for d in read(path)[0]] == [0, 1]
    assert heads(path)[-1] == read(path)[1] == head
    assert not is_torn(path)
    with Journal(path).locked() as documents:
        assert [d["n"] for d in documents] == [0, 1]
    assert path.read_bytes() == whole
    write(path, [{"n": 2}])
    assert [d["n"] for d in read(path)[0]] == [0, 1, 2]


def test_a_changed_last_line_without_its_newline_is_not_taken_for_a_torn_one(tmp_path):
    path = tmp_path / "book"
    write(path, [{"n": 0}, {"n": 1}])
    changed = path.read_bytes().rstrip(b"\n").replace(b'"n":1', b'"n":0')
    path.write_bytes(changed)
    with pytest.raises(LedgerCorrupted, match="hash chain"), Journal(path).locked():
        pass
    assert path.read_bytes() == changed


def test_a_line_that_quotes_the_end_of_a_line_and_is_torn_is_cut_off(tmp_path):
    path = tmp_path / "book"
    write(path, [{"n": 0}])
    quoted = ',"chain":"' + "0" * 64 + '"}'
    write(path, [{"a": quoted, "b": quoted}])
    lines = path.read_bytes()
    for end in range(len(lines.splitlines(keepends=True)[0]) + 1, len(lines) - 1):
        path.write_bytes(lines[:end])
        assert read(path)[0] == [{"n": 0}]
        assert is_torn(path)


@pytest.mark.parametrize("content", [b"", bytes(range(11, 43)), b"key", b"a\nb\n", b'{"n":0}'])
def test_what_is_not_a_ledger_is_never_touched(tmp_path, content):
    path = tmp_path / "key.bin"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match="exists and is not a ledger"):
        create(path, [{"n": 0}])
    with pytest.raises(LedgerCorrupted), Journal(path).locked():
        pass
    assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


def test_of_several_creators_one_begins_the_journal(tmp_path):
    path, gate = tmp_path / "book", threading.Barrier(8)

    def begin(number):
        gate.wait()
        try:
            create(path, [{"n": number}])
        except InvalidInput as error:
            return str(error)
        return number

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(begin, range(8)))
    [winner] = [one for one in found if isinstance(one, int)]
    assert sum("exists already" in str(one) for one in found) == 7
    assert read(path)[0] == [{"n": winner}]
    assert list(tmp_path.iterdir()) == [path]


def test_a_crash_during_creation_leaves_no_journal(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(errno.EIO, "bad")))
    with pytest.raises(LedgerUnavailable):
        create(tmp_path / "book", [{"n": 0}])
    assert not list(tmp_path.iterdir())


def test_a_file_system_without_links_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "link", lambda *_: (_ for _ in ()).throw(OSError(errno.EPERM, "no")))
    with pytest.raises(LedgerUnavailable, match="cannot link files"):
        create(tmp_path / "book", [{"n": 0}])


def test_a_removed_or_swapped_line_breaks_the_chain(tmp_path):
    path = tmp_path / "book"
    write(path, [{"n": n} for n in range(3)])
    first, second, third = path.read_bytes().splitlines(keepends=True)
    for broken in (first + third, second + first + third, second + third):
        path.write_bytes(broken)
        with pytest.raises(LedgerCorrupted, match="hash chain"):
            read(path)


def test_shrinking_under_an_open_journal_is_noticed(tmp_path):
    path = tmp_path / "book"
    journal = write(path, [{"n": 0}, {"n": 1}])
    path.write_bytes(path.read_bytes().splitlines(keepends=True)[0])
    with pytest.raises(LedgerCorrupted, match="shrank"), journal.locked():
        pass


def test_a_full_disk_leaves_nothing_behind(tmp_path, monkeypatch):
    path = tmp_path / "book"
    journal = write(path, [{"n": 0}])
    before = path.read_bytes()
    real = os.write

    def half_then_full(descriptor, data):
        if len(data) > 10:
            return real(descriptor, data[:10])
        raise OSError(errno.ENOSPC, "no space")

    calls = iter([half_then_full, lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full"))])
    monkeypatch.setattr(os, "write", lambda *a: next(calls)(*a))
    with journal.locked(), pytest.raises(LedgerUnavailable, match="disk is full"):
        journal.append([{"n": 1}])
    monkeypatch.undo()
    assert path.read_bytes() == before
    with journal.locked():
        journal.append([{"n": 2}])
    assert [d["n"] for d in read(path)[0]] == [0, 2]


def test_a_failing_sync_is_not_success(tmp_path, monkeypatch):
    path = tmp_path / "book"
    journal = write(path, [{"n": 0}])
    monkeypatch.setattr(os, "fdatasync", lambda _: (_ for _ in ()).throw(OSError(errno.EIO, "bad")))
    with journal.locked(), pytest.raises(LedgerUnavailable):
        journal.append([{"n": 1}])
    assert [d["n"] for d in read(path)[0]] == [0]


def test_clear_errors_for_places_that_cannot_hold_a_journal(tmp_path):
    with pytest.raises(InvalidInput, match="create one first"):
        Journal(tmp_path / "nothing")
    with pytest.raises(InvalidInput, match="no folder"):
        create(tmp_path / "nothing" / "book", [{"n": 0}])
    write(tmp_path / "book", [{"n": 0}])
    with pytest.raises(InvalidInput, match="never overwritten"):
        create(tmp_path / "book", [{"n": 0}])
    with pytest.raises(LedgerUnavailable, match="folder"):
        Journal(tmp_path)
    with pytest.raises(LedgerUnavailable, match="outside locked"):
        Journal(tmp_path / "book").append([{"n": 1}])


WRITER = """
import sys
from unisono.core.journal import Journal
journal = Journal(sys.argv[1])
for n in range(int(sys.argv[3])):
    with journal.locked():
        journal.append([{"who": sys.argv[2], "n": n}])
"""


def test_two_processes_take_turns(tmp_path):
    path = tmp_path / "book"
    write(path, [{"n": -1}])
    command = [sys.executable, "-c", WRITER, str(path)]
    processes = [subprocess.Popen([*command, who, "40"]) for who in "ab"]
    assert [p.wait(timeout=60) for p in processes] == [0, 0]
    documents, _ = read(path)
    for who in "ab":
        assert [d["n"] for d in documents if d.get("who") == who] == list(range(40))


def test_a_forked_child_opens_its_own_lock(tmp_path):
    path = tmp_path / "book"
    journal = write(path, [{"n": 0}])
    with journal.locked():
        child = subprocess.Popen([sys.executable, "-c", WRITER, str(path), "c", "1"])
        with pytest.raises(subprocess.TimeoutExpired):
            child.wait(timeout=1.5)
    assert child.wait(timeout=60) == 0


# ------------------------------------------------------------- waiting for others


class Clock:
    """Time that passes only where somebody sleeps."""

    def __init__(self, at=()):
        self.now, self.at = 0.0, dict(at)

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds
        for moment in [one for one in self.at if one <= self.now]:
            self.at.pop(moment)()


def waiting(journal, clock):
    journal.wait = LockWait(clock=clock, sleep=clock.sleep)
    return journal


def test_a_ledger_that_another_process_holds_is_waited_for_and_the_holder_named(tmp_path):
    path = tmp_path / "book"
    write(path, [{"a": 1}]).close()
    program = (
        "import fcntl, sys\n"
        f"file = open({str(path)!r}, 'r+b')\n"
        "fcntl.flock(file, fcntl.LOCK_EX)\n"
        "print('held', flush=True)\n"
        "sys.stdin.read()\n"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert holder.stdout.readline() == b"held\n"
        before, clock = path.read_bytes(), Clock()
        journal = waiting(Journal(path), clock)
        with (
            pytest.warns(BusyLedgerWarning, match=f"process {holder.pid} .*waiting for up to 60"),
            pytest.raises(LedgerUnavailable, match=f"(?s)process {holder.pid} .*No privacy budget"),
            journal.locked(),
        ):
            pytest.fail("it was locked")
        assert 60 <= clock.now < 60.1
        assert path.read_bytes() == before
    finally:
        holder.communicate()
    with journal.locked():  # nothing remains of the attempt, in the thread's lock neither
        journal.append([{"b": 2}])
    assert len(read(path)[0]) == 2


@pytest.mark.parametrize(("moment", "warned"), [(0.5, False), (30.0, True)])
def test_a_ledger_that_becomes_free_in_time_is_used(tmp_path, moment, warned):
    path = tmp_path / "book"
    first = write(path, [{"a": 1}])
    first.acquire()
    clock = Clock({moment: first.release})
    second = waiting(Journal(path), clock)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with second.locked():
            second.append([{"b": 2}])
    assert [one.category for one in said] == [BusyLedgerWarning] * warned
    assert all("this process" in str(one.message) for one in said)
    assert moment <= clock.now < moment + 0.1
    assert len(read(path)[0]) == 2


def test_a_free_ledger_is_locked_by_one_call_and_without_a_look_at_the_time(tmp_path, monkeypatch):
    journal = write(tmp_path / "book", [{"a": 1}])
    calls, lock = [], fcntl.flock
    monkeypatch.setattr(fcntl, "flock", lambda *how: (calls.append(how), lock(*how)))
    journal.wait = LockWait(sleep=lambda _: pytest.fail("nobody holds it"))
    with journal.locked():
        assert len(calls) == 1


def test_who_holds_it_may_be_unknown(tmp_path, monkeypatch):
    """Other systems than Linux have no list of locks."""
    path = tmp_path / "book"
    first = write(path, [{"a": 1}])
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: "")
    with first.locked():
        second = waiting(Journal(path), Clock())
        with (
            pytest.warns(BusyLedgerWarning, match="another process"),
            pytest.raises(LedgerUnavailable, match="another process"),
        ):
            second.acquire()
