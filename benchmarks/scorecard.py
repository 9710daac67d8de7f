"""One page of all figures: peer by peer, ratio by ratio, aim, met or missed.

`run.py` calls it with the folder of what each benchmark handed over. Nothing is left out in
silence: a benchmark that failed is shown as failed, one that did not run as not run, and a peer
that is missing with the command that installs it.
"""

import io
import json
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup

from unisono.reports.page import Section, figure, page, table

LIBRARIES = (
    "unisono",
    "jax",
    "jaxlib",
    "numpy",
    "scipy",
    "scikit-learn",
    "flwr",
    "dp-accounting",
    "jax-privacy",
    "opendp",
)
ALONE = "unisono alone"


class Figure(NamedTuple):
    """One measured number, and what it should be."""

    benchmark: str
    name: str
    value: float | None
    unit: str
    aim: float | None
    peer: str
    lower: bool
    ratio: bool
    command: str

    @property
    def verdict(self) -> str:
        if self.value is None:
            return "not measured"
        if self.aim is None:
            return "-"
        met = self.value <= self.aim if self.lower else self.value >= self.aim
        return "met" if met else "MISSED"

    @property
    def aimed(self) -> str:
        if self.aim is None:
            return "-"
        return f"{'at most' if self.lower else 'at least'} {self.aim:g}"


@dataclass(frozen=True)
class Card:
    """Everything that the page says."""

    figures: tuple[Figure, ...]
    missing: tuple[tuple[str, str, str], ...]  # peer, benchmark, command
    states: tuple[tuple[str, dict[str, Any]], ...]

    @property
    def failed(self) -> list[str]:
        return [name for name, run in self.states if run["state"].startswith("failed")]

    def count(self, verdict: str) -> int:
        return sum(one.verdict == verdict for one in self.figures)


def collect(folder: Path, names: Sequence[str]) -> Card:
    """What the benchmarks handed over; those that never ran are named too."""
    figures, missing, states = [], [], []
    for name in names:
        path = folder / f"{name}.json"
        run = json.loads(path.read_text()) if path.exists() else {"state": "not run"}
        states.append((name, run))
        command = run.get("command", f"python benchmarks/{name}.py")
        for one in run.get("figures", ()):
            own = {key: one[key] for key in ("name", "value", "unit", "aim", "lower", "ratio")}
            figures.append(
                Figure(name, peer=one["peer"] or ALONE, command=one["command"] or command, **own)
            )
        missing += [(one["missing"], name, one["install"]) for one in run.get("missing", ())]
    return Card(tuple(figures), tuple(dict.fromkeys(missing)), tuple(states))


def summary(card: Card) -> str:
    ran = sum(run["state"] == "done" for _, run in card.states)
    peers = len({peer for peer, _, _ in card.missing})
    return (
        f"{card.count('met')} aims met, {card.count('MISSED')} missed; {ran} of "
        f"{len(card.states)} benchmarks done, {len(card.failed)} failed; "
        f"{peers} peer{'' if peers == 1 else 's'} missing"
    )


def write(card: Card, folder: Path) -> list[Path]:
    """The page as HTML and as Markdown."""
    found = {"scorecard.html": as_html(card, folder), "scorecard.md": as_markdown(card)}
    for name, text in found.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in found]


# ------------------------------------------------------------- tables that both forms share


def _peers(card: Card) -> list[str]:
    names = dict.fromkeys(one.peer for one in card.figures)
    return sorted(names, key=lambda peer: (peer == ALONE, peer.lower()))


def _number(value: float) -> str:
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.3g}"


def _rows(figures: Sequence[Figure]) -> list[list[str]]:
    return [
        [
            one.name,
            "-" if one.value is None else _number(one.value),
            one.unit,
            one.aimed,
            one.verdict,
            one.command,
        ]
        for one in figures
    ]


_RUN_HEADER = ["benchmark", "state", "took", "load before", "command"]
_HEADER = ["figure", "value", "unit", "aim", "verdict", "command"]


def _runs(card: Card) -> list[list[str]]:
    return [
        [
            name,
            run["state"] + (" (quick)" if run.get("quick") else ""),
            f"{run['seconds']:g} s" if "seconds" in run else "-",
            f"{run.get('load', '-')}",
            run.get("command", "-"),
        ]
        for name, run in card.states
    ]


def _machine() -> list[list[str]]:
    def version(name: str) -> str:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            return "not installed"

    model = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(x.partition(":")[2].strip() for x in lines if x.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return [
        ["written", datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")],
        ["processor", f"{model}, {os.cpu_count()} cores"],
        ["system", f"{platform.system()} {platform.release()}, Python {platform.python_version()}"],
        *([name, version(name)] for name in LIBRARIES),
    ]


# ------------------------------------------------------------- HTML


def as_html(card: Card, folder: Path) -> str:
    sections = []
    picture = ratios(card.figures)
    if picture:
        body = figure(picture, "how many times faster than each peer", "On a logarithmic axis.")
        sections.append(Section("Ratios", body, "ratios"))
    for number, peer in enumerate(_peers(card)):
        own = [one for one in card.figures if one.peer == peer]
        title = peer if peer == ALONE else f"Against {peer}"
        sections.append(Section(title, table(_HEADER, _rows(own)), f"peer-{number}"))
    if card.missing:
        body = table(["peer", "benchmark", "installed by"], card.missing)
        sections.append(Section("Missing peers", body, "missing"))
    body = table(_RUN_HEADER, _runs(card))
    sections.append(Section("Benchmarks", body + _tails(card), "benchmarks"))
    pictures = [
        figure(path.read_bytes(), path.stem.replace("_", " "), path.name)
        for path in sorted(folder.glob("*.png"))
    ]
    if pictures:
        sections.append(Section("Pictures", Markup("").join(pictures), "pictures"))
    body = table(["what", "which"], _machine())
    sections.append(Section("Machine and versions", body, "machine"))
    notice = f"Failed: {', '.join(card.failed)}" if card.failed else ""
    return page("Scorecard of Unisono", sections, subtitle=summary(card), notice=notice)


def _tails(card: Card) -> Markup:
    """The last words of what failed."""
    parts = []
    for name in card.failed:
        printed = dict(card.states)[name].get("printed", "")
        words = "\n".join(printed.splitlines()[-12:])
        parts.append(Markup("<h3>{}</h3><pre>{}</pre>").format(f"{name} failed", words))
    return Markup("").join(parts)


def ratios(figures: Sequence[Figure]) -> bytes:
    """Bars of all ratios as PNG; empty where there is none."""
    shown = [one for one in figures if one.ratio and one.value]
    if not shown:
        return b""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    shown = sorted(shown, key=lambda one: (one.peer.lower(), one.value or 0))
    size = (9, 1.2 + 0.3 * len(shown))
    drawn, axes = pyplot.subplots(figsize=size, layout="constrained")
    for row, one in enumerate(shown):
        value = float(one.value or 0)
        colour = "#D55E00" if one.verdict == "MISSED" else "#0072B2"
        axes.barh(row, value - 1, left=1, color=colour, height=0.6)
        axes.annotate(
            _number(value),
            (max(value, 1), row),
            xytext=(4, 0),
            va="center",
            textcoords="offset points",
            fontsize=8,
        )
        if one.aim:
            axes.plot([one.aim, one.aim], [row - 0.4, row + 0.4], color="black", linewidth=1.5)
    axes.set_yticks(range(len(shown)), [f"{one.peer}: {one.name}" for one in shown], fontsize=8)
    axes.set_xscale("log")
    axes.set_xlim(right=3 * max(float(one.value or 1) for one in shown))
    axes.axvline(1, color="#767676", linewidth=1)
    axes.set_xlabel("times faster than the peer (a black mark is the aim; orange missed it)")
    axes.invert_yaxis()
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    buffer = io.BytesIO()
    drawn.savefig(buffer, dpi=110)
    pyplot.close(drawn)
    return buffer.getvalue()


# ------------------------------------------------------------- Markdown


def as_markdown(card: Card) -> str:
    parts = ["# Scorecard of Unisono", summary(card)]
    for peer in _peers(card):
        own = [one for one in card.figures if one.peer == peer]
        parts += [f"## {peer}", _markdown(_HEADER, _rows(own))]
    if card.missing:
        rows = [list(one) for one in card.missing]
        parts += ["## Missing peers", _markdown(["peer", "benchmark", "installed by"], rows)]
    parts += ["## Benchmarks", _markdown(_RUN_HEADER, _runs(card))]
    parts += ["## Machine and versions", _markdown(["what", "which"], _machine())]
    return "\n\n".join(parts) + "\n"


def _markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def row(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    return "\n".join([row(header), row(["---"] * len(header)), *map(row, rows)])
