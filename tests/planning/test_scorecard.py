"""The scorecard says everything: met, missed, failed, not run, and which peers are missing."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def load(name):
    """A module of the benchmarks, which are no package; they import each other by name."""
    if str(BENCHMARKS) not in sys.path:
        sys.path.append(str(BENCHMARKS))
    spec = importlib.util.spec_from_file_location(name, BENCHMARKS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


scorecard, run, figures = load("scorecard"), load("run"), load("figures")


def line(name, value, aim, **more):
    own = {"unit": "times faster", "peer": "MPyC", "command": "", "lower": False, "ratio": True}
    return {"name": name, "value": value, "aim": aim, **own, **more}


@pytest.fixture
def card(tmp_path):
    runs = {
        "sums": {
            "state": "done",
            "seconds": 3.0,
            "command": "python benchmarks/sums.py --quick",
            "quick": True,
            "missing": [{"missing": "Opacus", "install": "pip install opacus"}],
            "figures": [
                line("fast", 146.0, 100.0),
                line("slow", 4.0, 40.0),
                line("small <b>", 2.0, 3.0, lower=True, ratio=False, peer=""),
                line("large", 5.0, 3.0, lower=True, ratio=False, peer=""),
                line("free", 5.0, None),
                line("nothing", None, 1.0),
            ],
        },
        "broken": {
            "state": "failed: exit code 1",
            "seconds": 1.0,
            "figures": [],
            "missing": [],
            "printed": "Traceback\nZeroDivisionError: <oh>",
        },
    }
    for name, found in runs.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(found))
    return scorecard.collect(tmp_path, ["sums", "broken", "never"])


def test_aims_are_judged_in_their_direction(card):
    verdicts = {one.name: one.verdict for one in card.figures}
    assert verdicts == {
        "fast": "met",
        "slow": "MISSED",
        "small <b>": "met",
        "large": "MISSED",
        "free": "-",
        "nothing": "not measured",
    }
    assert scorecard.summary(card) == (
        "2 aims met, 2 missed; 1 of 3 benchmarks done, 1 failed; 1 peer missing"
    )


def test_the_page_names_what_failed_what_is_missing_and_what_never_ran(card, tmp_path):
    html, markdown = scorecard.write(card, tmp_path)
    for text in (html.read_text(), markdown.read_text()):
        assert "failed: exit code 1" in text
        assert "not run" in text
        assert "pip install opacus" in text
        assert "MISSED" in text
        assert "python benchmarks/sums.py --quick" in text
    page = html.read_text()
    assert "ZeroDivisionError: &lt;oh&gt;" in page
    assert "small &lt;b&gt;" in page
    assert "data:image/png" in page
    assert "<script" not in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert card.failed == ["broken"]


def small(tmp_path, monkeypatch, code):
    (tmp_path / "small.py").write_text(code)
    monkeypatch.setattr(run, "HERE", tmp_path)
    return run.run(run.Benchmark("small", (), seconds=5), quick=False)


def test_figures_are_handed_over_by_lines(tmp_path, monkeypatch):
    code = (
        f"import sys; sys.path.append({str(BENCHMARKS)!r})\n"
        "import figures\n"
        "figures.report('sum', 2.5, 'times', aim=2, peer='MPyC', ratio=True)\n"
        "figures.report('odd', float('nan'), 's')\n"
        "figures.report('backwards', -1.0, 'times', ratio=True)\n"
        "figures.missing('Opacus', 'pip install opacus')\n"
        "print('words')\n"
    )
    found = small(tmp_path, monkeypatch, code)
    assert found["state"] == "done"
    assert [one["name"] for one in found["figures"]] == ["sum", "odd", "backwards"]
    assert [one["value"] for one in found["figures"]] == [2.5, None, None]
    assert found["missing"] == [{"missing": "Opacus", "install": "pip install opacus"}]
    assert found["printed"] == "words\n"


def test_failures_and_time_limits_are_failures(tmp_path, monkeypatch):
    found = small(tmp_path, monkeypatch, "raise SystemExit(3)")
    assert found["state"] == "failed: exit code 3"
    found = small(tmp_path, monkeypatch, "import no_such_peer")
    assert found["state"] == "failed: exit code 1"
    assert found["missing"][0]["missing"] == "no_such_peer"
    monkeypatch.setattr(run, "QUICK_SECONDS", 1)
    (tmp_path / "small.py").write_text("import time; time.sleep(60)")
    found = run.run(run.Benchmark("small", ()), quick=True)
    assert found["state"] == "failed: not done after 1 s"


def test_every_benchmark_is_on_the_list():
    """Those that others call, and helpers, are the only files that are not."""
    parts = {
        "datasets",
        "figures",
        "run",
        "scorecard",
        "flower_ray",
        "gradient_inversion_torch",
        "networks_common",
        "networks_ours",
        "networks_peer_jax",
        "networks_peer_torch",
        "secure_sum_mpyc",
    }
    files = {path.stem for path in BENCHMARKS.glob("*.py")}
    assert {one.name for one in run.BENCHMARKS} == files - parts


def test_without_a_file_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("UNISONO_FIGURES", raising=False)
    figures.report("sum", 1.0, "s")
    assert list(tmp_path.iterdir()) == []
