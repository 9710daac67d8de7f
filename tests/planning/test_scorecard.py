"""The scorecard says everything: met, missed, failed, not run, and which peers are missing."""

import importlib.util
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


scorecard, peers, run, figures = load("scorecard"), load("peers"), load("run"), load("figures")

MACHINE = {"processor": "a processor", "cores": "2", "system": "Linux, Python 3.11.7"}


def line(name, value, aim, **more):
    own = {"unit": "times faster", "peer": "MPyC", "command": "", "lower": False, "ratio": True}
    return {"name": name, "value": value, "aim": aim, **own, **more}


def ran(**own):
    usual = {
        "state": "done",
        "seconds": 3.0,
        "command": "python benchmarks/sums.py --quick",
        "figures": [],
        "missing": [],
        "last": "",
        "load": 0.5,
        "date": "2026-01-02",
        "commit": "0123456789",
        "code": "abc",
        "machine": MACHINE,
        "versions": {"numpy": "2.4.6"},
    }
    return {**usual, **own}


SUMS = ran(
    missing=[{"missing": "Opacus", "install": "pip install opacus"}],
    figures=[
        line("fast", 146.0, 100.0, ours=0.055, theirs=8.03, measure="s"),
        line("slow", 4.0, 40.0),
        line("small <b>", 2.0, 3.0, lower=True, ratio=False, peer=""),
        line("large", 5.0, 3.0, lower=True, ratio=False, peer=""),
        line("costly", 1.2, 2.0, lower=True, unit="of its time"),
        line("free", 5.0, None),
        line("nothing", None, 1.0),
        {"name": "hearts", "value": None, "unit": "", "aim": 0.8, "peer": "", "why": "no data | x"},
    ],
)
BROKEN = ran(state="failed: exit code 1", last="ZeroDivisionError: <oh>")
STORE = {
    "benchmarks": ["sums", "broken", "never"],
    "runs": {"sums": {"quick": SUMS}, "broken": {"full": BROKEN}},
    "peers": {"ray": {"why": "not installed in time", "install": "pip install ray"}},
}


@pytest.fixture
def card():
    return scorecard.collect(STORE)


def test_aims_are_judged_in_their_direction(card):
    verdicts = {one.name: one.verdict for one in card.figures}
    assert verdicts == {
        "fast": "met",
        "slow": "MISSED",
        "small <b>": "met",
        "large": "MISSED",
        "costly": "met",
        "free": "-",
        "nothing": "not measured",
        "hearts": "not measured: no data | x",
    }
    assert scorecard.summary(card) == (
        "3 aims met, 2 missed; 1 of 3 benchmarks done, 1 failed; 2 peers missing"
    )


def test_the_page_names_what_failed_what_is_missing_and_what_never_ran(card, tmp_path):
    page, picture = (path.read_text() for path in scorecard.write(card, tmp_path))
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    assert (
        "| fast | 55 ms | 8.03 s | 146 times faster | at least 100 | met | 2026-01-02, quick | "
        "`python benchmarks/sums.py --quick` |"
    ) in rows
    (failed,) = (row for row in rows if row.startswith("| broken | failed: exit code 1 (full) | Z"))
    assert "ZeroDivisionError: &lt;oh&gt;" in failed
    assert any(row.startswith("| never | not run |") for row in rows)
    assert any(row.startswith("| hearts |") and "no data \\| x" in row for row in rows)
    assert "| Opacus | sums | `pip install opacus` |" in rows
    assert "| ray | not installed in time | `pip install ray` |" in rows
    assert "| machine | a processor, 2 cores; Linux, Python 3.11.7 |" in rows
    assert "| numpy | 2.4.6 |" in rows
    assert "small &lt;b&gt;" in page
    assert card.failed == ["broken"]
    widths = {row.count(" | ") for row in rows if "2026-01-02, quick" in row}
    assert widths == {7}, "a cell that breaks its row"
    # Ratios are drawn, three of them with a tick for the aim; only the missed one is hollow.
    assert picture.count("<circle") == 4
    assert picture.count('fill="none"/>') == 1
    assert picture.count('v15"/>') == 3


def test_a_ratio_is_drawn_as_a_cost(card):
    costs = {one.name: one.cost(one.value) for one in card.figures if one.ratio and one.value}
    assert costs == pytest.approx({"fast": 1 / 146, "slow": 0.25, "costly": 1.2, "free": 0.2})
    assert "no ratio" in scorecard.picture(())


def test_the_page_follows_from_the_store():
    """`python benchmarks/run.py --page` after a change of the page's form."""
    docs = BENCHMARKS.parent / "docs"
    card = scorecard.collect(scorecard.read(docs))
    assert (docs / scorecard.PAGE).read_text(encoding="utf-8") == scorecard.page(card)
    drawn = scorecard.picture(card.figures)
    assert (docs / scorecard.PICTURE).read_text(encoding="utf-8") == drawn
    front = (docs / scorecard.FRONT).read_text(encoding="utf-8")
    assert front == scorecard.with_headlines(front, card)


def test_the_readme_tells_only_what_is_measured():
    """A figure that is named otherwise, or is gone, would vanish from the README in silence."""
    card = scorecard.collect(scorecard.read(BENCHMARKS.parent / "docs"))
    known = {one.name for one in card.figures}
    assert [name for name in scorecard.HEADLINES if name not in known] == []
    told = scorecard.headlines(card)
    assert told.count("\n") == 1 + len(scorecard.HEADLINES)
    assert "MISSED" in told or "MISSED" not in scorecard.page(card)


def test_the_newer_run_counts_but_the_full_one_on_the_same_code():
    full, row = ran(figures=[line("a", 1.0, None)]), [line("b", 2.0, None)]
    same = ran(figures=row, date="2026-01-03")
    later, empty = ran(figures=row, date="2026-01-03", code="new"), ran(date="2026-01-03", code="n")
    older = ran(figures=row, date="2026-01-01", code="old")
    assert scorecard.shown({"full": full, "quick": same}) == ("full", full)
    assert scorecard.shown({"full": full, "quick": later}) == ("quick", later)
    today = ran(figures=row, date=full["date"], code="new")
    assert scorecard.shown({"full": full, "quick": today}) == ("full", full)
    assert scorecard.shown({"full": full, "quick": empty}) == ("full", full)
    assert scorecard.shown({"full": full, "quick": older}) == ("full", full)
    assert scorecard.shown({"quick": older}) == ("quick", older)
    assert scorecard.shown({}) == ("full", {})


def test_runs_of_two_machines_are_told_apart():
    other = ran(figures=[line("a", 1.0, None)], machine={**MACHINE, "cores": "64"})
    runs = {"one": {"full": SUMS}, "two": {"full": other}}
    card = scorecard.collect({"benchmarks": ["one", "two"], "runs": runs, "peers": {}})
    assert {one.measured for one in card.figures if one.benchmark == "two"} == {
        "2026-01-02, full on B"
    }
    assert "| machine B | a processor, 64 cores; Linux, Python 3.11.7 |" in scorecard.page(card)


# ------------------------------------------------------------- running


def small(tmp_path, monkeypatch, code, limit=5):
    (tmp_path / "small.py").write_text(code)
    monkeypatch.setattr(run, "HERE", tmp_path)
    return run.run("small", figures.Benchmark(), True, {}, limit)


def test_figures_are_handed_over_by_lines(tmp_path, monkeypatch):
    code = (
        f"import sys; sys.path.append({str(BENCHMARKS)!r})\n"
        "import figures\n"
        "figures.report('sum', 2.5, 'times', aim=2, peer='MPyC', ratio=True, ours=1, theirs=2.5)\n"
        "figures.report('odd', float('nan'), 's')\n"
        "figures.report('backwards', -1.0, 'times', ratio=True)\n"
        "figures.unmeasured('hearts', 'no data', aim=0.8)\n"
        "figures.missing('Opacus', 'pip install opacus')\n"
        "print('words')\n"
    )
    found = small(tmp_path, monkeypatch, code)
    assert found["state"] == "done"
    assert [one["name"] for one in found["figures"]] == ["sum", "odd", "backwards", "hearts"]
    assert [one["value"] for one in found["figures"]] == [2.5, None, None, None]
    assert found["missing"] == [{"missing": "Opacus", "install": "pip install opacus"}]
    assert found["printed"] == "words\n"
    runs = {"small": {"full": found}}
    card = scorecard.collect({"benchmarks": ["small"], "runs": runs, "peers": {}})
    assert [one.theirs for one in card.figures] == [2.5, None, None, None]
    assert card.figures[-1].verdict == "not measured: no data"


def test_failures_and_time_limits_are_failures(tmp_path, monkeypatch):
    found = small(tmp_path, monkeypatch, "raise SystemExit(3)")
    assert found["state"] == "failed: exit code 3"
    found = small(tmp_path, monkeypatch, "import no_such_peer")
    assert found["state"] == "failed: exit code 1"
    assert found["missing"][0]["missing"] == "no_such_peer"
    assert (
        str(tmp_path) not in small(tmp_path, monkeypatch, f"raise OSError('{tmp_path}/x')")["last"]
    )
    found = small(tmp_path, monkeypatch, f"print('skipped: a.gz is not in {tmp_path}/data')")
    assert (found["state"], found["last"]) == ("done", "skipped: a.gz is not in data")
    found = small(tmp_path, monkeypatch, "import time; time.sleep(60)", limit=1)
    assert found["state"] == "failed: not done after 1 s"


def test_a_benchmark_sees_its_peer_and_only_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "HERE", tmp_path)
    monkeypatch.setenv("UNISONO_PEER_PYTHON", "somebody else's")
    (tmp_path / "small.py").write_text(
        "import os\nfor name in ('PYTHON', 'TORCH', 'RAY'):\n"
        "    print(os.environ.get('UNISONO_PEER_' + name))\n"
    )
    known = {"torch": peers.Made("torch/python", {"torch": "2.13.0"})}
    found = run.run("small", figures.Benchmark(peer="torch"), True, known, 5)
    assert found["printed"].split() == ["torch/python", "torch/python", "None"]
    assert found["versions"]["torch"] == "2.13.0"
    found = run.run("small", figures.Benchmark(peer="ray"), True, known, 5)
    assert found["printed"].split() == ["None", "torch/python", "None"]


def test_what_ran_on_the_same_code_is_kept(tmp_path, monkeypatch, capsys):
    """Until its code, or the peer, is another; and a run that failed is tried again."""
    monkeypatch.setattr(run, "HERE", tmp_path)
    monkeypatch.setattr(run, "ROOT", tmp_path)
    monkeypatch.setattr(run, "PRINTED", tmp_path / "build")
    monkeypatch.setattr(run, "environments_of", lambda *_: environments)
    environments = {}
    known = {"small": figures.Benchmark(quick=())}

    def told(code, again=False, full=False):
        (tmp_path / "small.py").write_text(code)
        run.measure(["small"], known, full, again, tmp_path)
        return capsys.readouterr().out.partition("\n")[0]

    assert "failed: exit code 1" in told("raise SystemExit(1)")
    assert "failed: exit code 1" in told("raise SystemExit(1)")
    assert "done" in told("pass")
    assert "kept" in told("pass")
    assert "done" in told("pass", again=True)
    assert "done" in told("pass", full=True)
    assert "done" in told("pass # changed")
    environments["in-process"] = peers.Made(sys.executable, {"jax-privacy": "3"})
    assert "done" in told("pass # changed")
    assert "kept" in told("pass # changed")
    known["small"] = figures.Benchmark(quick=None)
    assert "left to the full form" in told("pass")
    assert (tmp_path / "build" / "small.txt").exists()


def test_only_environments_that_are_needed_are_made(monkeypatch, capsys):
    asked = []
    monkeypatch.setattr(run.peers, "made", lambda peer, _: asked.append(peer.name) or peers.Made())
    known = {
        "ledger": figures.Benchmark(),
        "networks": figures.Benchmark(peer="torch"),
        "mnist": figures.Benchmark(quick=None, peer="ray"),
    }
    run.environments_of(list(known), known, False)
    assert asked == ["in-process", "torch"]
    assert "torch ... not installed" in capsys.readouterr().out
    asked.clear()
    run.environments_of(["mnist"], known, True)
    assert asked == ["in-process", "ray"]


def test_the_quick_form_ends_in_time(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(run, "PRINTED", tmp_path)
    monkeypatch.setattr(run, "environments_of", lambda *_: {})
    monkeypatch.setattr(run, "QUICK_MINUTES", 0.0)
    run.measure(["ledger"], run.discovered(), False, False, tmp_path)
    assert "ledger: not run, the 0 minutes of the quick form are over" in capsys.readouterr().out


def test_a_slow_benchmark_of_the_quick_form_takes_nobody_elses_turn(tmp_path, monkeypatch, capsys):
    """It comes last, by what it took; the full form keeps its order."""
    monkeypatch.setattr(run, "PRINTED", tmp_path / "build")
    monkeypatch.setattr(run, "environments_of", lambda *_: {})
    monkeypatch.setattr(run, "kept", lambda *_: False)
    asked = []

    def measured(name, benchmark, full, environments, limit):
        asked.append(name)
        return ran(printed="", seconds={"slow": 240.0, "fast": 1.0, "never": 30.0}[name])

    monkeypatch.setattr(run, "run", measured)
    names = ["slow", "never", "fast"]
    known = dict.fromkeys(names, figures.Benchmark())
    past = {"slow": {"quick": ran(seconds=240.0)}, "fast": {"quick": ran(seconds=1.0)}}
    scorecard.write_store({"benchmarks": names, "runs": past, "peers": {}}, tmp_path)
    run.measure(names, known, False, False, tmp_path)
    assert asked == ["fast", "never", "slow"]
    asked.clear()
    run.measure(names, known, True, False, tmp_path)
    assert asked == names


# ------------------------------------------------------------- what there is


def test_a_script_is_found_by_what_it_says(tmp_path):
    main = 'if __name__ == "__main__":\n    pass\n'
    (tmp_path / "told.py").write_text(
        "raise SystemExit\nSCORECARD = figures.Benchmark(quick=None, seconds=7, peer='ray')\n"
        + main
    )
    (tmp_path / "plain.py").write_text("figures.report('a', 1, 's')\n" + main)
    (tmp_path / "swift.py").write_text("add('--x', \"--quick\"); report('a', 1, 's')\n" + main)
    (tmp_path / "part.py").write_text(main)
    assert run.discovered(tmp_path) == {
        "plain": figures.Benchmark(quick=()),
        "swift": figures.Benchmark(quick=("--quick",)),
        "told": figures.Benchmark(quick=None, seconds=7, peer="ray"),
    }


def test_every_benchmark_is_found_and_knows_its_peer():
    """A script that is not found is machinery, or is called by one that is."""
    sources = {path.stem: path.read_text(encoding="utf-8") for path in BENCHMARKS.glob("*.py")}
    known = run.discovered()
    for name in set(sources) - set(known) - set(run.MACHINERY):
        assert any(name in sources[other] for other in known), f"{name} reports no figures"
    names = {peer.name for peer in peers.PEERS} | {""}
    assert {one.peer for one in known.values()} <= names
    assert run.chosen(["ledger"], known) == ["ledger"]
    with pytest.raises(SystemExit, match="no benchmark is named like nonsense: choose from"):
        run.chosen(["nonsense"], known)


def test_an_environment_is_made_once_or_its_absence_explained(tmp_path, monkeypatch):
    peer = peers.Peer("numbers", ("numpy",), ("json",))
    assert peer.install == "python -m venv peer && peer/bin/pip install numpy"
    calls = []

    def installed(peer, home, deadline):
        calls.append(peer.requirements)
        (home / "bin").mkdir(parents=True)
        (home / "bin" / "python").symlink_to(sys.executable)
        return ""

    monkeypatch.setattr(peers, "_installed", installed)
    found = peers.made(peer, 60, tmp_path)
    assert found.python == str(tmp_path / "numbers" / "bin" / "python")
    assert peers.made(peer, 60, tmp_path) == found
    assert len(calls) == 1
    peers.made(peer._replace(requirements=("numpy<3",)), 60, tmp_path)
    assert len(calls) == 2, "other requirements, another environment"
    found = peers.made(peer._replace(modules=("json", "no_such_peer")), 60, tmp_path / "new")
    assert not found.python
    assert found.why == "no_such_peer: ModuleNotFoundError: No module named 'no_such_peer'"
    assert not (tmp_path / "new" / "numbers").exists()
    monkeypatch.setattr(peers, "_installed", lambda *_: "not installed in time")
    assert peers.made(peer, 60, tmp_path / "new") == peers.Made(why="not installed in time")
    monkeypatch.setenv("UNISONO_PEER_NUMBERS", sys.executable)
    assert peers.made(peer, 60, tmp_path / "new").python == sys.executable


@pytest.mark.slow
def test_an_environment_over_ours_and_one_that_cannot_be_made(tmp_path, monkeypatch):
    """Without a network: nothing to install, and something that does not exist."""
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    found = peers.made(peers.Peer("beside", (), ("numpy",), beside=True), 60, tmp_path)
    assert found.versions.keys() == {"numpy"}, "the environment that runs this lies beneath"
    found = peers.made(peers.Peer("absent", ("no-such-peer==9",), ("no_such_peer",)), 60, tmp_path)
    assert not found.python
    assert "no-such-peer==9" in found.why
    assert not (tmp_path / "absent").exists()


def test_without_a_file_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("UNISONO_FIGURES", raising=False)
    figures.report("sum", 1.0, "s")
    figures.unmeasured("sum", "no data")
    assert list(tmp_path.iterdir()) == []
