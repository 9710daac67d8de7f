"""Run the benchmarks beside their peers, each in a process of its own, and write the scorecard.

    make bench              python benchmarks/run.py            quick, at most 20 minutes
    make bench-full         python benchmarks/run.py --full     everything, some hours
    make bench ONLY=linear  python benchmarks/run.py linear     those whose names say so
                            python benchmarks/run.py --page     only write the page anew

    docs/scorecard.md, docs/pictures/scorecard.svg   every figure, peer by peer
    docs/make/scorecard.json                         the figures that the page is made from
    build/bench/<name>.txt                           what each benchmark printed

Peers' environments are made first (`peers.py`). A benchmark that has run on the same code with the
same peers is kept, so that a run that was stopped goes on where it was; --again measures anew. The
quick form runs the shortest first, so that a slow one takes nobody else's turn.
Aims are those of full runs on a machine that does nothing else.
"""

import argparse
import ast
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import figures
import peers
import scorecard
from figures import Benchmark

HERE = Path(__file__).parent
ROOT = HERE.parent
PRINTED = ROOT / "build" / "bench"
QUICK_MINUTES = 20.0
QUICK_SECONDS = 240  # for one benchmark of the quick form
PRESUMED_SECONDS = 60.0  # of a quick benchmark that never ran
INSTALL_SECONDS = 1200  # for one environment of the full form; the quick form has half its time
MACHINERY = ("figures", "peers", "run", "scorecard")

Environments = Mapping[str, peers.Made]


# ------------------------------------------------------------- what there is


def discovered(folder: Path = HERE) -> dict[str, Benchmark]:
    """Every script that says how it is called, or that reports figures; nothing is imported."""
    found = {}
    for path in sorted(folder.glob("*.py")):
        source = path.read_text(encoding="utf-8")
        if path.stem in MACHINERY or 'if __name__ == "__main__":' not in source:
            continue
        said = _said(source)
        if said is None and re.search(r"\breport\(", source):
            said = Benchmark(quick=("--quick",) if '"--quick"' in source else ())
        if said is not None:
            found[path.stem] = said
    return found


def _said(source: str) -> Benchmark | None:
    """What `SCORECARD = figures.Benchmark(...)` says."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            (target, *_) = node.targets
            if isinstance(target, ast.Name) and target.id == "SCORECARD":
                words = node.value.keywords
                return Benchmark(
                    **{one.arg: ast.literal_eval(one.value) for one in words if one.arg}
                )
    return None


def chosen(words: Sequence[str], known: Mapping[str, Benchmark]) -> list[str]:
    """Benchmarks whose names contain one of the words; all without words."""
    unknown = [word for word in words if not any(word in name for name in known)]
    if unknown:
        raise SystemExit(
            f"no benchmark is named like {', '.join(unknown)}: choose from {', '.join(known)}"
        )
    return [name for name in known if not words or any(word in name for word in words)]


def fingerprint(name: str) -> str:
    """Of all code that a benchmark measures: the library, itself, and the scripts it names."""
    paths, seen = [HERE / f"{name}.py"], set[Path]()
    while paths:
        path = paths.pop()
        if path in seen or not path.exists():
            continue
        seen.add(path)
        words = set(re.findall(r"\w+", path.read_text(encoding="utf-8")))
        paths += [one for one in HERE.glob("*.py") if one.stem in words - set(MACHINERY)]
    digest = hashlib.sha256()
    for path in [*sorted(seen), *sorted((ROOT / "src").rglob("*.py"))]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


# ------------------------------------------------------------- one run


def run(
    name: str, benchmark: Benchmark, full: bool, environments: Environments, limit: float
) -> dict[str, Any]:
    """One benchmark: its state, what it printed and the figures that it handed over."""
    options = benchmark.full if full else benchmark.quick
    assert options is not None
    own = environments.get(peers.IN_PROCESS, peers.Made())
    peer = environments.get(benchmark.peer, peers.Made())
    command = [own.python or sys.executable, str(HERE / f"{name}.py"), *options]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "figures.jsonl"
        began, load = time.monotonic(), round(os.getloadavg()[0], 1)
        known = _variables(peer, environments) | {"UNISONO_FIGURES": str(place)}
        code, text = peers.ended(command, limit, known)
        lines = place.read_text().splitlines() if place.exists() else []
    found = [json.loads(line) for line in lines]
    state, handed = _state(code, limit), [one for one in found if "name" in one]
    return {
        "state": state,
        "seconds": round(time.monotonic() - began, 1),
        "command": " ".join(["python", f"benchmarks/{name}.py", *options]),
        "figures": handed,
        "missing": [one for one in found if "missing" in one] + _absent(text),
        "last": without_paths(_last(state, text, handed)),
        "printed": text,
        "load": load,
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "commit": _commit(),
        "code": fingerprint(name),
        "machine": scorecard.machine(),
        "versions": {**scorecard.versions(), **own.versions, **peer.versions},
    }


def _last(state: str, text: str, handed: list[Any]) -> str:
    """The last words of what failed, and why what did not fail has nothing to show."""
    if state != "done":
        return peers.last_line(text)
    skipped = [line.strip() for line in text.splitlines() if "skipped" in line]
    return skipped[0] if skipped and not handed else ""


def without_paths(text: str) -> str:
    """Folders of this machine are nobody's business."""
    return re.sub(r"(?:/[\w.+-]+)+/(?=[\w.+-])", "", text)


def _absent(text: str) -> list[dict[str, str]]:
    """A library whose absence ended a benchmark."""
    name = peers.last_line(text).partition("No module named ")[2].strip("'\"").partition(".")[0]
    return [{"missing": name, "install": "pip install -e '.[test,flower]'"}] if name else []


def _variables(peer: peers.Made, environments: Environments) -> dict[str, str]:
    """Every environment's Python by its name, and the benchmark's own peer."""
    named = {
        one.variable: environments[one.name].python
        for one in peers.PEERS
        if _has(one, environments)
    }
    known = {k: v for k, v in os.environ.items() if k != "UNISONO_PEER_PYTHON"}
    return known | named | ({"UNISONO_PEER_PYTHON": peer.python} if peer.python else {})


def _has(peer: peers.Peer, environments: Environments) -> bool:
    return bool(environments.get(peer.name, peers.Made()).python)


def _commit() -> str:
    try:
        told = subprocess.run(
            ["git", "describe", "--always", "--dirty=+", "--abbrev=10", "--match="],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return told.stdout.strip()


def _state(code: int | None, limit: float) -> str:
    if code is None:
        return f"failed: not done after {limit:.0f} s"
    return "done" if code == 0 else f"failed: exit code {code}"


# ------------------------------------------------------------- all of them


def kept(
    store: scorecard.Store, name: str, benchmark: Benchmark, full: bool, environments: Environments
) -> bool:
    """Whether this code has run with these peers; a full run will do for a quick one."""
    for form in ("full",) if full else ("full", "quick"):
        past = store["runs"].get(name, {}).get(form)
        if past is None or past["state"] != "done" or past["code"] != fingerprint(name):
            continue
        now = {
            **environments.get(peers.IN_PROCESS, peers.Made()).versions,
            **environments.get(benchmark.peer, peers.Made()).versions,
        }
        if now.items() <= past["versions"].items():
            return True
    return False


def in_turn(names: Sequence[str], store: scorecard.Store) -> list[str]:
    """The quick form's order: by what each took last time, so that one that is slow, or hangs,
    takes nobody else's turn; one that never ran is presumed to take a minute."""

    def took(name: str) -> float:
        past = store["runs"].get(name, {}).get("quick")
        return PRESUMED_SECONDS if past is None else float(past["seconds"])

    return sorted(names, key=took)


def environments_of(
    names: Sequence[str], known: Mapping[str, Benchmark], full: bool
) -> dict[str, peers.Made]:
    """The environments that these benchmarks need; those that cannot be made are told."""
    run = [name for name in names if full or known[name].quick is not None]
    wanted = {peers.IN_PROCESS, *(known[name].peer for name in run)}
    wanted |= {peer.name for peer in peers.PEERS for name in run if peer.variable in _source(name)}
    found, until = {}, time.monotonic() + 30 * QUICK_MINUTES
    for peer in peers.PEERS:
        if peer.name in wanted:
            began = time.monotonic()
            print(f"== environment {peer.name} ... ", end="", flush=True)
            one = peers.made(peer, INSTALL_SECONDS if full else until - began)
            found[peer.name] = one._replace(why=without_paths(one.why))
            told = ", ".join(f"{name} {version}" for name, version in one.versions.items())
            took = time.monotonic() - began
            print(f"{told or 'not installed'} {one.why}".rstrip() + f" ({took:.0f} s)", flush=True)
    return found


def _source(name: str) -> str:
    return (HERE / f"{name}.py").read_text(encoding="utf-8")


def measure(
    names: Sequence[str], known: Mapping[str, Benchmark], full: bool, again: bool, place: Path
) -> None:
    """Run them in turn; the store is written after each, so nothing is lost by stopping."""
    form, began = ("full" if full else "quick"), time.monotonic()
    left = float("inf") if full else 60 * QUICK_MINUTES
    environments = environments_of(names, known, full)
    store = scorecard.read(place)
    names = names if full else in_turn(names, store)
    store["peers"] |= {
        name: {"why": one.why, "install": next(p.install for p in peers.PEERS if p.name == name)}
        for name, one in environments.items()
    }
    PRINTED.mkdir(parents=True, exist_ok=True)
    for number, name in enumerate(names, 1):
        gone, told = time.monotonic() - began, f"[{number}/{len(names)}] {name}"
        own = store["runs"].setdefault(name, {})
        if (known[name].full if full else known[name].quick) is None:
            print(f"{told}: left to the full form")
        elif not again and kept(store, name, known[name], full, environments):
            print(f"{told}: kept, measured on the same code")
        elif gone > left - 5:
            print(f"{told}: not run, the {QUICK_MINUTES:g} minutes of the quick form are over")
        else:
            limit = min(known[name].seconds if full else QUICK_SECONDS, left - gone)
            print(f"{told} ... ", end="", flush=True)
            found = run(name, known[name], full, environments, limit)
            (PRINTED / f"{name}.txt").write_text(found.pop("printed"))
            own[form] = found
            count = len(found["figures"])
            print(
                f"{found['state']}, {count} figures, {found['seconds']:.0f} s "
                f"({(time.monotonic() - began) / 60:.1f} minutes in all)",
                flush=True,
            )
            scorecard.write_store(store, place)
    scorecard.write_store(store, place)


def smoke() -> dict[str, float]:
    """All scripts are found, and a page about them, none of which has run, is written."""
    known = discovered()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        card = scorecard.collect(scorecard.read(place) | {"benchmarks": list(known)})
        written = scorecard.write(card, place)
        assert all(path.stat().st_size for path in written)
    return {"benchmarks": len(known), "not run": sum(not run for _, _, run in card.runs)}


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    known = discovered()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(known))
    parser.add_argument("--full", action="store_true", help="everything, which takes some hours")
    parser.add_argument("--again", action="store_true", help="also what this code has run already")
    parser.add_argument("--page", action="store_true", help="only write the page anew")
    parser.add_argument("--into", metavar="FOLDER", type=Path, default=ROOT / "docs")
    arguments = figures.options(parser, smoke)
    names = chosen(arguments.names, known)
    if not arguments.page:
        measure(names, known, arguments.full, arguments.again, arguments.into)
    store = scorecard.read(arguments.into) | {"benchmarks": list(known)}
    scorecard.write_store(store, arguments.into)
    card = scorecard.collect(store)
    for path in scorecard.write(card, arguments.into):
        print(f"written: {path.name}")
    print(scorecard.summary(card))
    return 1 if set(card.failed) & set(names) else 0


if __name__ == "__main__":
    sys.exit(main())
