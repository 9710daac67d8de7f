"""What the dashboard must not promise of a simulation, what it counts, and who waits for whom."""

import json
import threading

import pytest

from unisono.dashboard import catalogue as module
from unisono.dashboard.catalogue import Catalogue
from unisono.runs.folder import LINES

from .conftest import dashboard
from .sample import NOBODY, Sample, write


@pytest.mark.parametrize(
    ("state", "more"),
    [("running", {}), ("running", {"process": NOBODY}), ("failed", {"error": "fell silent"})],
)
def test_a_simulation_without_a_certificate_is_loud_and_promises_nothing(tmp_path, state, more):
    """Running, stopped or failed: only its heading says so."""
    Sample(tmp_path / "a.run", "A").advance(3).heading(state, simulated=True, **more)
    with dashboard(tmp_path) as asking:
        listed, page, one = asking.get("/").text, asking.page("A").text, asking.runs()["A"]
    assert one["simulated"]
    assert (one["spent"], one["budget"]) == (None, None)
    for text in (listed, page):
        assert '<p class="notice inner" role="note">SIMULATION' in text
        assert "Epsilon that" not in text
    viewer = page.partition('<section id="viewer"')[2].partition("</section>")[0]
    assert "Nothing is promised against anybody" in viewer
    assert 'class="gauge"' not in page
    assert "this run costs at most" not in page
    assert "hatever comes out" not in page
    assert "is a SIMULATION" in page.partition('<section id="guarantees"')[2]


def test_the_certificate_of_a_simulation_promises_nothing_either(tmp_path):
    sample = Sample(tmp_path / "a.run", "A").finish()
    path = sample.folder / "certificate.json"
    write(path, {**json.loads(path.read_text()), "entropy": "simulation"})
    with dashboard(tmp_path) as asking:
        page = asking.page("A").text
    assert "this run costs at most" not in page
    assert 'class="gauge"' not in page


def test_rounds_that_were_opened_are_counted(tmp_path):
    sample = Sample(tmp_path / "a.run", "A").finish()
    path = sample.folder / "result.json"
    write(path, {**json.loads(path.read_text()), "rounds_opened": 17})
    with dashboard(tmp_path) as asking:
        assert asking.runs()["A"]["opened"] == 17
        page = asking.page("A", "?viewer=server").text
        listed = asking.get("/").text
    for text in (listed, page):
        assert '<span class="value">17 of 20 opened</span>' in text
    assert "Finished, 17 of 20 rounds opened" in page
    viewer = page.partition('<section id="viewer"')[2].partition("</section>")[0]
    assert "1 to 20, of which 17 were opened" in viewer


def test_a_run_that_is_being_read_keeps_nobody_from_the_others(tmp_path, monkeypatch):
    for name in "ab":
        Sample(tmp_path / f"{name}.run", name).advance()
    here = Catalogue([tmp_path], rescan=0)
    names = {one.folder.name: one.identifier for one in here.entries()}
    (tmp_path / "a.run" / "timeline.jsonl").write_text("")
    begun, go_on, real = threading.Event(), threading.Event(), module.read_run

    def slow(folder):
        if folder.name == "a.run":
            begun.set()
            assert go_on.wait(20)
        return real(folder)

    monkeypatch.setattr(module, "read_run", slow)
    reading = threading.Thread(target=here.entry, args=[names["a.run"]])
    reading.start()
    found = []
    asking = threading.Thread(target=lambda: found.append(here.entry(names["b.run"])))
    try:
        assert begun.wait(20)
        asking.start()
        asking.join(5)
        assert [one.run.heading.title for one in found] == ["b"]
    finally:
        go_on.set()
        reading.join()
        asking.join()


def test_a_very_long_timeline_has_a_page(tmp_path):
    """Only the latest lines and a sample are read, and the documents say so."""
    sample = Sample(tmp_path / "a.run", "A").advance()
    lines = (tmp_path / "a.run" / "timeline.jsonl").read_text()
    (sample.folder / "timeline.jsonl").write_text(lines * 50_000)
    with dashboard(tmp_path) as asking:
        assert asking.page("A").status == 200
        documents = asking.get(f"/api/runs/{asking.runs()['A']['id']}").json["documents"]
    assert len(documents["timeline"]) <= 2 * LINES
    assert documents["thinned"] is True
