"""Files of a run are written whole, in their own folder, and through nobody's links."""

import json
import os

import numpy as np
import pytest

from unisono.core import journal
from unisono.deployment.files import held, read_json, write, write_json
from unisono.deployment.record import Diary
from unisono.engines.checkpoint import Checkpoint
from unisono.errors import InvalidInput, LedgerUnavailable

WRITERS = {
    "document": ("result.json", lambda path: write_json(path, {"a": 1})),
    "bytes": ("page.html", lambda path: write(path, b"page")),
    "checkpoint": ("run.checkpoint", lambda path: Checkpoint(path, "study").save(0, np.ones(2))),
    "progress": ("progress.json", lambda path: Diary(path.parent, 2).step(1)),
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
        lambda folder: Diary(folder, 2).step(1),
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
    write_json(tmp_path / "a.json", 1)

    def full(*_):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(journal.os, "fsync", full)
    with pytest.raises(LedgerUnavailable, match="the disk is full"):
        write_json(tmp_path / "a.json", 2)
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
    assert json.loads((tmp_path / "a.json").read_text()) == 1


@pytest.mark.parametrize("content", [b"{", b"\xff", b"[" * 10**5, b""])
def test_a_damaged_document_is_refused_in_words(tmp_path, content):
    path = tmp_path / "a.json"
    path.write_bytes(content)
    with pytest.raises(InvalidInput, match="is damaged"):
        read_json(path)
