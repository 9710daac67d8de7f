"""The journal: append-only, chained, repaired after a crash, shared between processes."""

import errno
import json
import os
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unisono.core.journal import GENESIS, Journal, heads, read
from unisono.errors import InvalidInput, LedgerCorrupted, LedgerUnavailable


def write(path, documents, create=True):
    journal = Journal(path, create=create)
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
    if where == len(raw) - 1:
        # The last newline is gone: to a reader the last line is torn, and it is left out.
        assert len(read(path)[0]) == 3
    else:
        with pytest.raises(LedgerCorrupted):
            read(path)


@pytest.mark.parametrize("cut", [1, 5, 40, 100])
def test_a_torn_last_line_is_cut_off_by_the_next_writer(tmp_path, cut):
    path = tmp_path / "book"
    write(path, [{"n": 0}])
    whole = path.read_bytes()
    write(path, [{"n": 1}], create=False)
    torn = path.read_bytes()[:-cut] if cut < len(whole) else whole + b"{"
    path.write_bytes(torn)
    write(path, [{"n": 2}], create=False)
    assert [d["n"] for d in read(path)[0]] == [0, 2]


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
        Journal(tmp_path / "nothing", create=False)
    write(tmp_path / "book", [{"n": 0}])
    with pytest.raises(InvalidInput, match="never overwritten"):
        Journal(tmp_path / "book", create=True)
    with pytest.raises(LedgerUnavailable, match="folder"):
        Journal(tmp_path, create=False)
    with pytest.raises(LedgerUnavailable, match="outside locked"):
        Journal(tmp_path / "book", create=False).append([{"n": 1}])


WRITER = """
import sys
from unisono.core.journal import Journal
journal = Journal(sys.argv[1], create=False)
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
