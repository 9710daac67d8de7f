"""How the end of the server's part of a study is noticed, whatever ended it."""

import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from unisono.engines.flower.app import note
from unisono.engines.flower.runs import ServerFailed, SubmittedRun

SERVER = SimpleNamespace(alive=lambda: True, tail=lambda: "the last words")


@contextmanager
def running(folder, code="import time; time.sleep(60)", server=SERVER):
    process = subprocess.Popen([sys.executable, "-c", code])
    try:
        yield SubmittedRun(server, 7, folder, process)
    finally:
        process.kill()
        process.wait()


def test_a_killed_process_is_noticed_at_once_and_said(tmp_path):
    note(tmp_path, 7, "running")
    with running(tmp_path) as run:
        assert run.alive()
        run.process.send_signal(signal.SIGKILL)
        with pytest.raises(ServerFailed, match=r"killed \(signal 9\).*memory(.|\n)*last words"):
            run.wait(30)
        assert not run.alive()


def test_a_process_that_could_not_even_write_down_its_failure_is_noticed(tmp_path):
    """As on a full disk."""
    note(tmp_path, 7, "running")
    with (
        running(tmp_path, "raise SystemExit(3)") as run,
        pytest.raises(ServerFailed, match="code 3"),
    ):
        run.wait(30)


def test_what_the_run_wrote_down_is_said(tmp_path):
    note(tmp_path, 7, "failed", "hospital A has spent its budget")
    with (
        running(tmp_path, "raise SystemExit(1)") as run,
        pytest.raises(ServerFailed, match="spent"),
    ):
        run.wait(30)
    note(tmp_path, 7, "finished")
    with running(tmp_path, "") as run:
        run.wait(30)


def test_a_superlink_that_is_gone_ends_the_wait(tmp_path):
    gone = SimpleNamespace(alive=lambda: False, tail=lambda: "out of space")
    with running(tmp_path, server=gone) as run, pytest.raises(ServerFailed, match="out of space"):
        run.wait(30)


def test_a_run_is_stopped_politely_and_then_for_certain(tmp_path, monkeypatch):
    monkeypatch.setattr("unisono.engines.flower.runs._END", 0.5)
    said = tmp_path / "deaf"
    deaf = "import signal, time, pathlib; signal.signal(15, signal.SIG_IGN); "
    deaf += f"pathlib.Path({str(said)!r}).touch(); time.sleep(60)"
    with running(tmp_path, deaf) as run:
        while not said.exists():
            assert run.process.poll() is None
            time.sleep(0.01)
        run.stop()
        assert run.process.poll() is not None
