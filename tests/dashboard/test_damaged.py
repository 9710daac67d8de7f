"""Whatever lies in a run's folder: the list, the page and the API answer, and say why."""

import json
import os
import random
import shutil
from pathlib import Path

import pytest

from unisono.runs import folder as run_folder
from unisono.runs.folder import SHOWN_FILES, find_runs

from .conftest import dashboard
from .sample import Sample, laboratory, write

LONE = "\ud800"  # half of a pair: JSON can write it, UTF-8 cannot


def nested(depth):
    return [] if depth == 0 else [nested(depth - 1)]


ODD = [
    *(None, 3, -1, 10**400, float("nan"), True, "x", LONE, {LONE: [1]}),
    *([], {}, [[]], [None, {"a": 1}], {"a": {"b": [1]}}, nested(300)),
    "0001-01-01T00:00:00+00:00",
]
STUDIES = [
    f"a = 1{'0' * 5000}",  # more digits than Python reads
    "parties = 3",
    "parties = [{name = []}]",
    f"a = {'[' * 900}{']' * 900}",
    "\x00",
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A finished run that has every document."""
    sample = Sample(tmp_path_factory.mktemp("whole") / "a.run", "Whole").advance(3).finish()
    write(sample.folder / "attacks.json", laboratory())
    assert {path.name for path in sample.folder.iterdir()} >= set(SHOWN_FILES)
    return sample.folder


def put(document, chance, odd, everywhere):
    """The document with an odd value in every place of the first level, or in one place below."""
    if everywhere:
        return {key: value if key == "format" else odd for key, value in document.items()}
    changed = here = json.loads(json.dumps(document))
    key = chance.choice([key for key in here if key != "format"])
    while isinstance(here[key], dict | list) and here[key] and chance.random() < 0.8:
        here = here[key]
        key = chance.choice(list(here) if isinstance(here, dict) else range(len(here)))
    here[key] = odd
    return changed


def damages(whole, chance):
    """By name: a file, and what stands in it instead; None if it is missing."""
    for name in SHOWN_FILES:
        content = (whole / name).read_bytes()
        yield f"{name} garbage", name, chance.randbytes(2000)
        yield f"{name} empty", name, b""
        for size in chance.sample(range(1, len(content)), 2):
            yield f"{name} cut at {size}", name, content[:size]
        if name != "run.json":
            yield f"{name} missing", name, None
        if not name.endswith(".json"):
            continue
        yield f"{name} a list", name, b"[1, [2], null]"
        yield f"{name} of another format", name, b'{"format": "other"}'
        for number, odd in enumerate(ODD):
            found = put(json.loads(content), chance, odd, everywhere=chance.random() < 0.5)
            yield f"{name} odd {number}", name, json.dumps(found).encode()
    first = json.loads((whole / "timeline.jsonl").read_text().partition("\n")[0])
    for number, odd in enumerate(ODD):
        line = json.dumps(put(first, chance, odd, True)).encode()
        yield f"timeline odd {number}", "timeline.jsonl", line + b"\n"
    for number, text in enumerate(STUDIES):
        yield f"study {number}", "study.toml", text.encode()


def answers(asking, expected):
    """Every address answers; the runs of the list by their folders."""
    assert asking.get("/").status == 200
    found = asking.get("/api/runs").json["runs"]
    assert len(found) == expected
    for one in found:
        page = asking.get(f"/runs/{one['id']}")
        assert page.status == 200, one["folder"]
        assert asking.get(f"/api/runs/{one['id']}").json["id"] == one["id"]
        assert one["state"] != "unreadable" or (one["error"] and "notice" in page.text)
    return {Path(one["folder"]).name: one for one in found}


def test_one_damaged_file_hides_no_run(tmp_path, whole):
    shutil.copytree(whole, tmp_path / "whole")
    made = list(damages(whole, random.Random(28)))
    for name, file, content in made:
        folder = shutil.copytree(whole, tmp_path / name)
        (folder / file).unlink()
        if content is not None:
            (folder / file).write_bytes(content)
    with dashboard(tmp_path) as asking:
        found = answers(asking, len(made) + 1)
    assert found["whole"]["title"] == "Whole"
    assert found["whole"]["state"] == "finished"
    for name in ("garbage", "empty", "a list", "of another format"):
        assert found[f"run.json {name}"]["state"] == "unreadable"
    assert found["study.toml missing"]["state"] == "finished"


def test_folders_and_files_of_every_kind_are_told(tmp_path, whole):
    def copied(name):
        return shutil.copytree(whole, tmp_path / name)

    copied("whole")
    os.rename(copied("bytes"), os.fsencode(tmp_path) + b"/\xff\xfe")
    loop = copied("loop") / "result.json"
    loop.unlink()
    loop.symlink_to(loop)
    with (copied("huge") / "result.json").open("ab") as file:
        file.truncate(2**31)
    (copied("inner") / "budgets.json").unlink()
    (tmp_path / "inner" / "budgets.json").mkdir()
    os.mkfifo(copied("pipe") / "fifo.json")
    (tmp_path / "pipe" / "progress.json").unlink()
    os.rename(tmp_path / "pipe" / "fifo.json", tmp_path / "pipe" / "progress.json")
    (tmp_path / "gone").symlink_to(tmp_path / "gone")
    (tmp_path / "long").symlink_to("x" * 3000)
    (tmp_path / "empty").mkdir()
    with dashboard(tmp_path) as asking:
        found = answers(asking, 6)
    for name in ("loop", "huge", "inner", "pipe"):
        assert found[name]["state"] == "unreadable"
        assert "larger than" in found[name]["error"]
    assert sorted(one["state"] for one in found.values())[:2] == ["finished", "finished"]


def test_a_file_that_may_not_be_read_is_named(tmp_path, whole, monkeypatch):
    """In place of permissions, which do not bind a superuser."""
    shutil.copytree(whole, tmp_path / "own")
    shutil.copytree(whole, tmp_path / "other")
    read = Path.read_bytes

    def refused(path):
        if path.parent.name == "other" and path.name in kept:
            raise PermissionError(13, "Permission denied", str(path))
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", refused)
    for kept, state in (({"run.json"}, "unreadable"), ({"result.json"}, "finished")):
        with dashboard(tmp_path) as asking:
            found = answers(asking, 2)
            page = asking.get(f"/runs/{found['other']['id']}").text
        assert found["own"]["state"] == "finished"
        assert found["other"]["state"] == state
        assert f"{min(kept)} (Permission denied)" in page


def test_folders_that_link_to_each_other_are_looked_through_once(tmp_path, whole, monkeypatch):
    """With forty links to the folder itself, three levels have 64,000 paths."""
    shutil.copytree(whole, tmp_path / "a.run")
    for number in range(40):
        (tmp_path / f"link{number}").symlink_to(tmp_path)
    looked = []
    below = run_folder._below
    monkeypatch.setattr(
        run_folder, "_below", lambda folder, *more: looked.append(folder) or below(folder, *more)
    )
    assert find_runs(tmp_path) == [tmp_path / "a.run"]
    assert len(looked) < 100
