"""`unisono report`: where it writes, what it prints, what it refuses."""

import json
import warnings

import pytest

with warnings.catch_warnings():  # Typer imports names that Click deprecates: theirs to mend
    warnings.filterwarnings("ignore", message=r".*removed in Click 9", category=DeprecationWarning)
    from typer.testing import CliRunner

from unisono.cli import app
from unisono.runs.folder import REPORT_HTML, REPORT_JSON, REPORT_MARKDOWN


def run(*arguments):
    return CliRunner().invoke(app, ["report", *map(str, arguments)])


def test_all_three_forms_are_written_into_the_folder(folder):
    place = folder()
    done = run(place)
    assert done.exit_code == 0
    assert done.stdout == f"the report is in {place / REPORT_HTML}\n"
    for name in (REPORT_HTML, REPORT_MARKDOWN, REPORT_JSON):
        assert (place / name).stat().st_size > 1000


def test_the_heading_itself_names_its_folder(folder):
    assert run(folder() / "run.json").exit_code == 0


@pytest.mark.parametrize(
    ("form", "begins"),
    [
        ("html", "<!doctype html>"),
        ("markdown", "# Three hospitals"),
        ("json", '{\n "format": "unisono-report-1"'),
    ],
)
def test_one_form_to_the_terminal_or_to_a_file(folder, tmp_path, form, begins):
    place, target = folder(), tmp_path / "elsewhere.txt"
    shown = run(place, "--format", form, "--output", "-")
    assert shown.stdout.startswith(begins)
    assert not (place / REPORT_HTML).exists()
    done = run(place, "--format", form, "--output", target, "--json")
    assert json.loads(done.stdout) == {"report": str(target), "format": form}
    assert target.read_text() == shown.stdout


def test_it_opens_what_it_wrote(folder, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda address: bool(opened.append(address)))
    place = folder()
    done = run(place, "--open")
    assert opened == [(place / REPORT_HTML).resolve().as_uri()]
    assert "open file://" in done.stderr  # no browser: it says what to open


def test_plain_words_for_wrong_folders(folder, tmp_path):
    missing = run(tmp_path / "nowhere")
    assert (missing.exit_code, "there is no folder" in missing.stderr) == (2, True)
    empty = run(tmp_path)
    assert (empty.exit_code, "holds no run: name a folder" in empty.stderr) == (2, True)
    place = folder()
    above = run(tmp_path)
    assert f"holds no run: name one of {place}" in above.stderr
    (place / "run.json").write_text("{")
    assert run(place).exit_code == 2
    assert run(place, "--format", "pdf").exit_code == 2


def test_an_unwritable_output_is_refused(folder, tmp_path):
    done = run(folder(), "--output", tmp_path / "no" / "such" / "folder.html")
    assert done.exit_code == 2
    assert "cannot write" in done.stderr
