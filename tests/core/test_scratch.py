"""Temporary folders: what a killed process left is removed, and nothing of anybody else."""

import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import unisono
from unisono.core import scratch
from unisono.core.scratch import scratch_folder

HOLD = """
import sys
from unisono.core.scratch import scratch_folder
with scratch_folder() as folder:
    (folder / "spilled").write_text("records")
    print(folder, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


@pytest.fixture
def holder():
    """Processes that have a temporary folder, and wait."""
    started = []

    def start():
        process = subprocess.Popen(
            [sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        started.append(process)
        return process, Path(process.stdout.readline().strip())

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_a_folder_is_its_owners_and_gone_at_the_end(place):
    with scratch_folder() as folder:
        assert folder.parent == place
        assert folder.stat().st_mode & 0o777 == 0o700
        (folder / "inner").mkdir()
        with scratch_folder() as other:
            assert other != folder
        assert folder.is_dir()
    assert not list(place.iterdir())


def test_the_next_process_removes_what_a_killed_one_left(place, holder):
    killed, left = holder()
    _, kept = holder()
    ended, gone = holder()
    ended.communicate()
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert (left / "spilled").exists()  # nobody could clean up
    assert not gone.exists()
    with scratch_folder():
        assert not left.exists()
        assert (kept / "spilled").exists()  # its process lives


def test_nothing_else_is_removed(place):
    for name in ("unisono-data", "unisono-scratch-", "unisono-scratch-mine-2026"):
        (place / name).mkdir()
    (place / "unisono-scratch-aaaaaaaa").write_text("a file")
    (place / "unisono-scratch-bbbbbbbb").symlink_to(place / "unisono-data")
    before = sorted(place.iterdir())
    with scratch_folder():
        pass
    assert sorted(place.iterdir()) == before


def test_folders_of_others_stay(place, monkeypatch):
    (place / "unisono-scratch-aaaaaaaa").mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with scratch_folder():
        pass
    assert (place / "unisono-scratch-aaaaaaaa").exists()


def test_a_folder_that_is_removed_before_it_is_locked_is_made_again(place, monkeypatch):
    make, made = tempfile.mkdtemp, []

    def interrupted(**options):
        made.append(make(**options))
        if len(made) == 1:
            scratch._remove_abandoned()  # another process, just now
        return made[-1]

    monkeypatch.setattr(tempfile, "mkdtemp", interrupted)
    with scratch_folder() as folder:
        assert str(folder) == made[1]
        assert folder.is_dir()
    assert not list(place.iterdir())


def test_no_other_temporary_folders_are_made():
    """Those of `tempfile` stay when a process is killed."""
    root = Path(unisono.__file__).parent
    found = [
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        if re.search(r"\b(mkdtemp|TemporaryDirectory)\b", path.read_text("utf-8"))
    ]
    assert found == ["core/scratch.py"]
