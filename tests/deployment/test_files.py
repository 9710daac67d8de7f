"""Files of a run are written whole, in their own folder, and through nobody's links."""

import contextlib
import json
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unisono.accounting.accountant import ACCOUNTANT
from unisono.core import journal
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.trust import SERVER
from unisono.deployment.files import held
from unisono.deployment.record import Budgets, RunLog
from unisono.engines.checkpoint import Checkpoint
from unisono.errors import InvalidInput, LedgerUnavailable
from unisono.runs.folder import (
    BUDGETS,
    PROGRESS,
    RESULT,
    SHOWN,
    TIMELINE_FORMAT,
    Document,
    Heading,
    append_line,
    read_run,
    write,
)

ANY = Document("a.json", "unisono-any-1")

WRITERS = {
    "document": ("result.json", lambda path: RESULT.write(path.parent, {"a": 1})),
    "bytes": ("page.html", lambda path: write(path, b"page")),
    "checkpoint": ("run.checkpoint", lambda path: Checkpoint(path, "study").save(0, np.ones(2))),
    "progress": ("progress.json", lambda path: RunLog(path.parent, 2).step(1)),
}


@pytest.mark.parametrize("kind", WRITERS)
def test_a_link_in_the_place_of_a_file_or_its_draft_leads_nowhere(tmp_path, kind):
    """Somebody who may write into the folder laid links to a file of the one who runs."""
    name, save = WRITERS[kind]
    precious = tmp_path / "precious"
    precious.write_text("untouched")
    folder = tmp_path / "folder"
    folder.mkdir()
    for link in (name, f"{name}.part", f".{name}.part"):
        (folder / link).symlink_to(precious)
    save(folder / name)
    assert precious.read_text() == "untouched"
    assert not (folder / name).is_symlink()
    assert (folder / name).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "use",
    [
        lambda folder: RunLog(folder, 2).step(1),
        lambda folder: held(folder, "uses").__enter__(),
    ],
    ids=["timeline.jsonl", "lock"],
)
def test_what_is_appended_to_or_locked_is_no_link(tmp_path, use):
    precious = tmp_path / "precious"
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in ("timeline.jsonl", "lock"):
        (folder / name).symlink_to(precious)
    with pytest.raises(LedgerUnavailable, match="that is a link: remove it"):
        use(folder)
    assert not precious.exists()


def test_a_draft_is_gone_when_writing_fails(tmp_path, monkeypatch):
    ANY.write(tmp_path, {"value": 1})

    def full(*_):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(journal.os, "fsync", full)
    with pytest.raises(LedgerUnavailable, match="the disk is full"):
        ANY.write(tmp_path, {"value": 2})
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
    assert ANY.content(tmp_path) == {"value": 1}


@pytest.mark.parametrize("content", [b"{", b"\xff", b"[" * 10**5, b"", b"[1]", b"1"])
def test_a_damaged_document_is_refused_in_words(tmp_path, content):
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match="is damaged"):
        ANY.read(tmp_path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({}, "names no format, where 'unisono-any-1' is read"),
        ({"format": "unisono-any-2", "value": 1}, "is of format 'unisono-any-2', where"),
        ({"format": None}, "is of format None, where"),
    ],
)
def test_a_document_of_another_format_is_refused_by_name(tmp_path, content, words):
    (tmp_path / "a.json").write_text(json.dumps(content))
    with pytest.raises(InvalidInput, match=rf"a\.json {words}.*version of unisono that wrote it"):
        ANY.read(tmp_path)
    damaged = []
    assert ANY.look(tmp_path, damaged) is None
    assert damaged[0].startswith(f"a.json ({words[:20]}")


def test_a_document_is_written_with_its_own_format_only(tmp_path):
    assert ANY.read(tmp_path) is None
    assert ANY.write(tmp_path, {"value": 1}) == {"format": "unisono-any-1", "value": 1}
    assert ANY.read(tmp_path) == {"format": "unisono-any-1", "value": 1}
    with pytest.raises(InvalidInput, match="under its own name"):
        ANY.write(tmp_path, {"format": "unisono-any-2"})


def test_whoever_looks_on_names_what_another_version_wrote(tmp_path):
    """All other documents are still read."""
    Heading("a study", "in process", "running", "2026-11-16T09:00:00+00:00").write(tmp_path)
    PROGRESS.write(tmp_path, {"rounds": 1, "of": 2})
    (tmp_path / RESULT.file).write_text('{"title": "from version 0.1"}')
    (tmp_path / BUDGETS.file).write_text('[{"party": "north"}]')
    append_line(tmp_path, {"round": 1})
    with (tmp_path / "timeline.jsonl").open("a") as file:
        file.write('{"format": "unisono-timeline-9", "round": 2}\n')
    run = read_run(tmp_path)
    assert run.progress == {"format": PROGRESS.format, "rounds": 1, "of": 2}
    assert run.timeline == ({"format": TIMELINE_FORMAT, "round": 1},)
    assert run.result is None
    assert run.budgets is None
    assert sorted(name.split(" ")[0] for name in run.damaged) == [
        "budgets.json",
        "result.json",
        "timeline.jsonl",
    ]


def test_documents_have_files_and_formats_of_their_own():
    assert len({one.file for one in SHOWN}) == len({one.format for one in SHOWN}) == len(SHOWN)


@pytest.mark.parametrize(
    "entries", ["{}", "[1]", '[{"party": "north"}]', '[{"party": [], "viewers": 1}]', "1"]
)
def test_damaged_budgets_are_refused_in_words(tmp_path, entries):
    text = f'{{"format": "unisono-budgets-1", "parties": {entries}}}'
    (tmp_path / "budgets.json").write_text(text if entries != "{}" else "[]")
    ledger = Ledger.in_memory(Policy("north", Budget(20.0, 1e-5)), ACCOUNTANT)
    with pytest.raises(InvalidInput, match=r"budgets\.json is damaged"):
        Budgets(tmp_path, [SERVER], {"north": ledger})


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_a_damaged_checkpoint_is_read_or_refused_in_words(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("checkpoint") / "run.checkpoint"
    saved = Checkpoint(path, "study")
    saved.save(3, (np.ones(2), np.zeros((2, 2))))
    content = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(content[: data.draw(st.integers(len(content) // 2, len(content)))])
    with contextlib.suppress(InvalidInput):
        saved.load((np.ones(2), np.zeros((2, 2))))


@pytest.mark.parametrize("header", [[], {}, {"format": "unisono-checkpoint-1", "study": "study"}])
def test_a_checkpoint_with_another_header_is_refused_in_words(tmp_path, header):
    path = tmp_path / "run.checkpoint"
    text = np.frombuffer(json.dumps(header).encode(), np.uint8)
    with path.open("wb") as file:
        np.savez(file, header=text, leaf0=np.ones(2))
    with pytest.raises(InvalidInput, match=r"run\.checkpoint"):
        Checkpoint(path, "study").load(np.ones(2))


def test_a_checkpoint_of_other_shapes_is_refused(tmp_path):
    saved = Checkpoint(tmp_path / "run.checkpoint", "study")
    saved.save(1, np.ones(3))
    with pytest.raises(InvalidInput, match="other shapes"):
        saved.load(np.ones(2))
