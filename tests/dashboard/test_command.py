"""`unisono dashboard`: the address, clear refusals, and a clean end."""

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import warnings
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

with warnings.catch_warnings():  # as in tests/cli/conftest.py
    warnings.filterwarnings("ignore", message=r".*removed in Click 9", category=DeprecationWarning)
    from typer.testing import CliRunner

from unisono.cli import app

from .conftest import Client
from .sample import Sample

RUNNER = CliRunner()


def test_it_prints_its_address_answers_there_and_ends_well(tmp_path):
    Sample(tmp_path / "a.run", "Incomes").advance(3)
    process = subprocess.Popen(
        [sys.executable, "-m", "unisono", "dashboard", "--json"],
        cwd=tmp_path,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        printed = "".join(process.stdout.readline() for _ in range(3))
        url = urlsplit(json.loads(printed)["url"])
        (token,) = parse_qs(url.query)["token"]
        assert len(token) >= 43
        client = Client(url.port)
        assert client.get("/api/runs", signed=False).status == 401
        answer = client.get("/api/runs", {"Authorization": f"Bearer {token}"})
        assert [one["title"] for one in answer.json["runs"]] == ["Incomes"]
        process.send_signal(signal.SIGINT)
        rest, complaints = process.communicate(timeout=20)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    assert (rest, complaints) == ("", "")


@pytest.fixture
def served(monkeypatch):
    """What would be served, without serving it."""
    calls = []

    class Silent:
        def run(self, sockets):
            raise KeyboardInterrupt

    def server(folders, door):
        calls.append((folders, door))
        return Silent()

    monkeypatch.setattr("unisono.dashboard.serve.server", server)
    return calls


def test_this_folder_is_shown_unless_others_are_given(served, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("a").mkdir()
    Path("b").mkdir()
    assert RUNNER.invoke(app, ["dashboard", "--no-open"]).exit_code == 0
    assert RUNNER.invoke(app, ["dashboard", "a", "b", "--no-open"]).exit_code == 0
    assert [[one.resolve() for one in folders] for folders, _ in served] == [
        [tmp_path],
        [tmp_path / "a", tmp_path / "b"],
    ]
    tokens = [door.token for _, door in served]
    assert tokens[0] != tokens[1]
    assert [door.host for _, door in served] == ["127.0.0.1"] * 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nowhere"], "no folder nowhere"),
        (["file"], "file is a file"),
        (["--host", "no.such.host.invalid"], "is no address of this machine"),
        (["--host", "192.0.2.1"], "cannot listen on 192.0.2.1"),
        (["--token", "0123456789-abcdef"], "No such option"),
    ],
)
def test_what_cannot_be_used_is_refused_in_a_line(served, tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    result = RUNNER.invoke(app, ["dashboard", "--no-open", *arguments])
    assert result.exit_code == 2
    assert words in result.stderr
    assert result.stdout == ""
    assert not served


def test_a_port_in_use_is_named(served):
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        result = RUNNER.invoke(app, ["dashboard", "--no-open", "--port", str(port)])
    assert result.exit_code == 2
    assert f"port {port}" in result.stderr
    assert "choose another --port" in result.stderr


def test_other_machines_are_let_in_with_a_loud_warning_only(served):
    quiet = RUNNER.invoke(app, ["dashboard", "--no-open"])
    loud = RUNNER.invoke(app, ["dashboard", "--no-open", "--host", "0.0.0.0"])
    assert "WARNING" not in quiet.stderr
    assert loud.stderr.count("WARNING") == 4
    assert "ssh -L" in loud.stderr
    assert served[1][1].token
    assert "token=" in loud.stdout


@pytest.mark.parametrize("token", ["short", "with spaces and such things"])
def test_a_token_that_can_be_guessed_is_refused(served, monkeypatch, token):
    monkeypatch.setenv("UNISONO_DASHBOARD_TOKEN", token)
    result = RUNNER.invoke(app, ["dashboard", "--no-open"])
    assert result.exit_code == 2
    assert "16 to 128" in result.stderr


def test_a_token_can_come_from_the_environment(served, monkeypatch):
    monkeypatch.setenv("UNISONO_DASHBOARD_TOKEN", "0123456789-abcdef")
    assert "token=0123456789-abcdef" in RUNNER.invoke(app, ["dashboard", "--no-open"]).stdout


def test_a_browser_gets_the_token_by_a_file_of_its_owner(served, monkeypatch):
    opened = []

    def launch(url):
        page = Path(urlsplit(url).path)
        rights = stat.S_IMODE(os.stat(page.parent).st_mode)
        opened.append((url, page.read_text(), rights))

    monkeypatch.setattr("webbrowser.open", launch)
    monkeypatch.setenv("DISPLAY", ":0")
    RUNNER.invoke(app, ["dashboard", "--no-open"])
    RUNNER.invoke(app, ["dashboard", "--json"])
    assert opened == []
    RUNNER.invoke(app, ["dashboard"])
    ((url, text, rights),) = opened
    token = served[-1][1].token
    assert url.startswith("file://")
    assert token not in url
    assert f"?token={token}" in text
    assert rights == 0o700
    assert not Path(urlsplit(url).path).exists()
