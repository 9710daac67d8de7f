"""Runs are named by a hash of a folder that was found; nothing else is ever opened."""

import os

import pytest

from unisono.dashboard.catalogue import Catalogue

from .sample import NOBODY, Sample, write


@pytest.fixture
def sample(tmp_path):
    return Sample(tmp_path / "inside" / "one.run", "One").advance(2)


def catalogue(*folders):
    return Catalogue(folders, rescan=0)


def test_running_ones_come_first_then_the_youngest(root, samples):
    states = [entry.state for entry in Catalogue([root]).entries()]
    assert states[0] == "running"
    titles = [entry.run.heading.title for entry in Catalogue([root]).entries()]
    assert titles[1:] == [
        "Five hospitals",
        "A hundred clinics",
        'Names <script>alert("x")</script>',
        "Attack laboratory",
        "Drug response",
        "Digits",
    ]


def test_new_runs_appear_and_removed_ones_go(tmp_path):
    here = catalogue(tmp_path)
    assert here.entries() == []
    first = Sample(tmp_path / "a.run", "A")
    (found,) = here.entries()
    assert here.entry(found.identifier).folder == first.folder
    (first.folder / "run.json").unlink()
    assert here.entries() == []
    assert here.entry(found.identifier) is None


def test_a_changed_file_is_read_and_an_unchanged_one_is_not_read_again(sample, tmp_path):
    here = catalogue(tmp_path)
    (before,) = here.entries()
    assert here.entry(before.identifier) is before
    sample.advance()
    after = here.entry(before.identifier)
    assert after.run.progress["rounds"] == 3
    assert after.version != before.version


def test_a_run_whose_process_is_gone_has_stopped(sample, tmp_path):
    here = catalogue(tmp_path)
    assert here.entries()[0].state == "running"
    sample.heading("running", process=NOBODY)
    assert here.entries()[0].state == "stopped"
    sample.heading("running", process=None)
    assert here.entries()[0].state == "running"
    sample.heading("finished", process=NOBODY)
    assert here.entries()[0].state == "finished"


@pytest.mark.parametrize(
    "name", ["..", "../..", "one.run", "%2e%2e", "", "run.json", "0" * 16, "/etc/passwd"]
)
def test_only_hashes_of_folders_that_were_found_name_a_run(sample, tmp_path, name):
    assert catalogue(tmp_path).entry(name) is None
    assert catalogue(tmp_path).report(name) is None


def test_a_folder_that_a_link_leads_to_outside_is_not_shown(sample, tmp_path):
    outer = tmp_path / "shown"
    outer.mkdir()
    (outer / "link").symlink_to(sample.folder)
    assert catalogue(outer).entries() == []
    assert len(catalogue(outer, tmp_path / "inside").entries()) == 1


@pytest.mark.parametrize("name", ["study.toml", "result.json", "run.json"])
def test_a_document_that_is_a_link_is_not_opened(sample, tmp_path, name):
    secret = tmp_path / "secret.toml"
    secret.write_text('{"format": "unisono-run-1", "password": "hunter2"}')
    (sample.folder / name).unlink(missing_ok=True)
    (sample.folder / name).symlink_to(secret)
    (entry,) = catalogue(tmp_path / "inside").entries()
    assert entry.state == "unreadable"
    assert name in entry.trouble
    assert "hunter2" not in repr(entry)


def test_a_pipe_is_not_waited_for(sample, tmp_path):
    os.mkfifo(sample.folder / "result.json")
    os.mkfifo(sample.folder / "report.html")
    (entry,) = catalogue(tmp_path).entries()
    assert entry.state == "unreadable"
    assert catalogue(tmp_path).report(entry.identifier) is None


def test_a_report_that_is_a_link_is_not_served(sample, tmp_path):
    secret = tmp_path / "secret.html"
    secret.write_text("hunter2")
    (sample.folder / "report.html").symlink_to(secret)
    here = catalogue(tmp_path / "inside")
    (entry,) = here.entries()
    assert not entry.has_report
    assert here.report(entry.identifier) is None
    (sample.folder / "report.html").unlink()
    write(sample.folder / "report.html", "plain")
    assert here.report(entry.identifier) == b"plain"


@pytest.mark.parametrize(
    "heading", ["", "[]", "{", "null", '{"format": "unisono-run-1"}', '{"format": "other"}']
)
def test_a_damaged_heading_is_named_and_hides_no_other_run(sample, tmp_path, heading):
    write(Sample(tmp_path / "other.run", "Other").folder / "run.json", heading)
    states = sorted(entry.state for entry in catalogue(tmp_path).entries())
    assert states == ["running", "unreadable"]
