"""One page of all figures: ours, the peer's, the ratio, the aim, met or missed.

`run.py` keeps what each benchmark handed over in a store, from which the page and its picture
follow to the letter. Nothing is left out in silence: a benchmark that failed is a row that says
so, as is one that never ran, data that are not there, and a peer that could not be installed.
"""

import html
import json
import math
import os
import platform
import runpy
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

LIBRARIES = ("unisono", "jax", "jaxlib", "numpy", "scipy", "scikit-learn", "flwr", "dp-accounting")
ALONE = "unisono alone"
PAGE, PICTURE, STORE = "scorecard.md", "pictures/scorecard.svg", "make/scorecard.json"
FRONT, BEGIN, END = "../README.md", "<!-- measured, by benchmarks/run.py -->", "<!-- end -->"
DRAWING = Path(__file__).parents[1] / "docs" / "pictures" / "make.py"

# {"benchmarks": names, "runs": {name: {"quick" or "full": run}}, "peers": {name: why not}}
Store = dict[str, Any]


class Figure(NamedTuple):
    """One measured number, what it should be, and where it comes from."""

    benchmark: str
    name: str
    value: float | None
    unit: str = ""
    aim: float | None = None
    peer: str = ALONE
    lower: bool = False
    ratio: bool = False
    ours: float | None = None
    theirs: float | None = None
    measure: str = ""
    why: str = ""
    command: str = ""
    measured: str = ""

    @property
    def verdict(self) -> str:
        if self.value is None:
            return "not measured" + (f": {self.why}" if self.why else "")
        if self.aim is None:
            return "-"
        met = self.value <= self.aim if self.lower else self.value >= self.aim
        return "met" if met else "MISSED"

    @property
    def aimed(self) -> str:
        if self.aim is None:
            return "-"
        return f"{'at most' if self.lower else 'at least'} {self.aim:g}"

    def cost(self, value: float) -> float:
        """Of a ratio, ours over the peer's: below 1 where we need less."""
        return value if self.lower else 1 / value


@dataclass(frozen=True)
class Card:
    """Everything that the page says."""

    figures: tuple[Figure, ...]
    missing: tuple[tuple[str, str, str], ...]  # peer, benchmark, how to get it
    runs: tuple[tuple[str, str, dict[str, Any]], ...]  # benchmark, form, run ({}: never ran)
    machines: tuple[dict[str, str], ...]

    @property
    def failed(self) -> list[str]:
        return [name for name, _, run in self.runs if run.get("state", "").startswith("failed")]

    def count(self, verdict: str) -> int:
        return sum(one.verdict == verdict for one in self.figures)


# ------------------------------------------------------------- the store


def read(folder: Path) -> Store:
    path = folder / STORE
    found: Store = {"benchmarks": [], "runs": {}, "peers": {}}
    return found | json.loads(path.read_text(encoding="utf-8")) if path.exists() else found


def write_store(store: Store, folder: Path) -> None:
    """At once: whoever stops the program keeps the old file or the new one."""
    path = folder / STORE
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".new")
    beside.write_text(json.dumps(store, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    beside.replace(path)


def shown(forms: dict[str, dict[str, Any]]) -> tuple[str, dict[str, Any]]:
    """The newer of the quick and the full run; of one day, or one code, the full one says more."""
    full, quick = forms.get("full"), forms.get("quick")
    if full is None or quick is None:
        return ("quick", quick) if quick else ("full", full or {})
    newer = quick["date"] > full["date"] and quick["code"] != full["code"]
    return ("quick", quick) if newer and quick["figures"] else ("full", full)


def collect(store: Store) -> Card:
    """What the benchmarks handed over; those that never ran are named too."""
    figures, missing, runs, machines = [], [], [], list[dict[str, str]]()
    for name in store["benchmarks"]:
        form, run = shown(store["runs"].get(name, {}))
        runs.append((name, form, run))
        if run and run["machine"] not in machines:
            machines.append(run["machine"])
    for name, form, run in runs:
        missing += [(one["missing"], name, one["install"]) for one in run.get("missing", ())]
        for one in run.get("figures", ()):
            own = {key: value for key, value in one.items() if key in Figure._fields}
            where = f" on {_letter(run, machines)}" if len(machines) > 1 else ""
            own["measured"] = f"{run['date']}, {form}{where}"
            own["command"] = one.get("command") or run["command"]
            own["peer"] = one["peer"] or ALONE
            figures.append(Figure(name, **own))
    for name, peer in store["peers"].items():
        if peer["why"]:
            missing.append((name, peer["why"], peer["install"]))
    return Card(tuple(figures), tuple(dict.fromkeys(missing)), tuple(runs), tuple(machines))


def _letter(run: dict[str, Any], machines: Sequence[dict[str, str]]) -> str:
    return chr(ord("A") + machines.index(run["machine"]))


def machine() -> dict[str, str]:
    """Processor and system of this machine; no names."""
    model = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(x.partition(":")[2].strip() for x in lines if x.startswith("model name"))
    except (OSError, StopIteration):
        pass
    return {
        "processor": model,
        "cores": str(os.cpu_count()),
        "system": f"{platform.system()}, Python {platform.python_version()}",
    }


def versions() -> dict[str, str]:
    """Of the libraries of ours that matter here."""
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def summary(card: Card) -> str:
    ran = sum(run.get("state") == "done" for _, _, run in card.runs)
    absent = len({peer for peer, _, _ in card.missing})
    return (
        f"{card.count('met')} aims met, {card.count('MISSED')} missed; {ran} of "
        f"{len(card.runs)} benchmarks done, {len(card.failed)} failed; "
        f"{absent} peer{'' if absent == 1 else 's'} missing"
    )


# ------------------------------------------------------------- the page


# What the README tells, met or not: figures as they are named, and in plain words.
HEADLINES = {
    "Adult, gradient perturbation, replace-one (10 seeds), epsilon 1": "Adult, logistic "
    "regression at epsilon 1, replace-one (without privacy .847)",
    "Adult, accuracy gained at epsilon 1": "the same beside diffprivlib",
    "MNIST, epsilon 3, 1600 rounds": "MNIST by fixed wavelets and a linear model, epsilon 3 "
    "(Tramèr and Boneh 2021: 98.7)",
    "intervals of glm, design 0, binomial, 8,000 records, epsilon 1: coverage of 95 %": "95 % "
    "intervals of odds ratios, ten columns, 8,000 records, epsilon 1, secure sum: coverage",
    "intervals of glm, design 0, binomial, 8,000 records, epsilon 1: width over that without "
    "privacy": "their width over that without privacy",
    "hazard ratios, unequal, n = 10,000, epsilon 1, mean coverage of 95 %": "95 % intervals of "
    "hazard ratios, 10,000 records, epsilon 1, the widest of four designs: coverage",
    "hazard ratios, unequal, n = 10,000, epsilon 1, median width over Cox's": "their width over "
    "Cox's without privacy",
    "type-I error of a 5 % test, means: the largest of 11 settings": "a t test at 5 %: how often "
    "it rejects what is true, the most of 11 settings",
    "95 % intervals of an evaluation, pooled": "95 % intervals of a private evaluation (accuracy, "
    "AUC, calibration, ...): coverage",
    "line on survey, epsilon 1: R² lost": "R² of linear regression, 10,000 records of a survey, "
    "epsilon 1",
    "20 candidates, everybody (all 20, secure sum)": "choosing among 20 models: cost in runs of "
    "one, secure sum",
    "plan, 14 tables not used to fit, by every algorithm": "runs that end where `unisono plan` "
    "said, 14 tables it had not seen",
    "logistic fit over 10 parties, 1,000,000 x 100, processor time": "logistic regression of "
    "1,000,000 x 100 over 10 parties, processor time",
    "private mean of 10,000,000 doubles over NumPy's clip and mean": "`unisono.mean` of 10,000,000 "
    "doubles, beside clip and mean",
    "private mean of 10,000,000 doubles over NumPy's mean": "the same beside the mean alone",
    "logistic: of non-private time, with noise": "a step of DP-SGD, logistic, 100 columns, batch "
    "480",
    "logistic: times faster than Opacus ghost": "the same beside Opacus",
    "epsilon q=0.01 noise=1.0 T=10000": "epsilon of 10,000 sampled Gaussians",
    "discrete Gaussian, std 1000": "an exact discrete Gaussian, standard deviation 1,000",
    "100,000 parties x 100 rounds": "100 rounds of 100,000 simulated parties, ledgers included",
    "a round of 500 parties, all included": "one round of 500 simulated parties",
    "sum of 1,000,000 integers of 3 parties": "secure sum of 1,000,000 integers, 3 parties",
    "an exchange of 1e5 floats": "100,000 floats sent to a party and back, between processes",
    "ledger, one thread": "payments a second of a ledger on disk",
}


def write(card: Card, folder: Path) -> list[Path]:
    """The page and its picture, and the README's rows, if there is one."""
    found = {PAGE: page(card), PICTURE: picture(card.figures)}
    front = folder / FRONT
    if front.exists() and BEGIN in (text := front.read_text(encoding="utf-8")):
        found[FRONT] = with_headlines(text, card)
    for name, text in found.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return [(folder / name).resolve() for name in found]


def with_headlines(text: str, card: Card) -> str:
    """The README with its rows of figures written anew."""
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{headlines(card)}\n\n{END}{rest.partition(END)[2]}"


def headlines(card: Card) -> str:
    first = {one.name: one for one in reversed(card.figures)}
    rows = []
    for name, words in HEADLINES.items():
        if name not in first:
            continue
        one = first[name]
        _, ours, theirs, ratio, aim, verdict, _, command = _rows([one])[0]
        told = ", ".join(text for text in (theirs, ratio) if text != "-")
        beside = "-" if one.peer == ALONE else one.peer + (f": {told}" if told else "")
        rows.append([words, ours, beside, aim, verdict, command])
    return _table(["what", "ours", "beside it", "aim", "verdict", "command"], rows)


INTRODUCTION = (
    "Every figure of the benchmarks beside its peer and its aim, met or not. `make bench` writes "
    "this page in its quick form, in at most 20 minutes, `make bench-full` in full, and `make "
    "bench ONLY=ledger` measures a part again; peers' environments are made on the way. A ratio "
    "is taken in one run on one machine; the aims are those of full runs on a machine that does "
    "nothing else."
)
DESCRIPTION = (
    "Cost of ours over that of the peer for every ratio on this page, on a logarithmic axis: left "
    "of the line at 1 ours needs less; a tick is the aim, a filled dot met it, a hollow one did not"
)
_HEADER = ["what", "ours", "peer", "ratio", "aim", "verdict", "measured", "command"]


def page(card: Card) -> str:
    parts = ["# Scorecard", INTRODUCTION, f"**{summary(card)}.**"]
    parts += [f"![{DESCRIPTION}](pictures/scorecard.svg)", DESCRIPTION + "."]
    failed = [(name, form, run) for name, form, run in card.runs if name in card.failed]
    if failed:
        rows = [
            [name, f"{run['state']} ({form})", run["last"], _code(run)]
            for name, form, run in failed
        ]
        parts += ["## Failed", _table(["benchmark", "state", "last words", "command"], rows)]
    for peer in _peers(card):
        own = [one for one in card.figures if one.peer == peer]
        parts += [f"## {peer if peer == ALONE else 'Against ' + peer}", _table(_HEADER, _rows(own))]
    if card.missing:
        rows = [[peer, why, f"`{how}`"] for peer, why, how in card.missing]
        parts += ["## Missing peers", _table(["peer", "for, or why", "installed by"], rows)]
    parts += ["## Runs", _table(_RUNS, _run_rows(card))]
    parts += ["## Machine and versions", _table(["what", "which"], _where(card))]
    return "\n\n".join(parts) + "\n"


def _peers(card: Card) -> list[str]:
    names = dict.fromkeys(one.peer for one in card.figures)
    return sorted(names, key=lambda peer: (peer == ALONE, peer.lower()))


def number(value: float, digits: int = 3) -> str:
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e9 else f"{value:.{digits}g}"


def amount(value: float, measure: str) -> str:
    """Seconds in the unit that is read most easily; anything else as it is."""
    if measure == "s":
        for size, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")):
            if value >= size:
                return f"{number(value / size)} {unit}"
    return f"{number(value, 4)} {measure}".rstrip()


def _rows(figures: Sequence[Figure]) -> list[list[str]]:
    rows = []
    for one in figures:
        # A figure that is no ratio is ours itself, unless it compares what ours and theirs are.
        compared = one.ratio or one.ours is not None
        ratio = "-" if one.value is None or not compared else f"{number(one.value)} {one.unit}"
        ours = one.ours if compared else one.value
        measure = one.measure if compared else one.unit
        sides = ["-" if x is None else amount(x, measure) for x in (ours, one.theirs)]
        judged = [one.aimed, one.verdict, one.measured, f"`{one.command}`"]
        rows.append([one.name, *sides, ratio, *judged])
    return rows


_RUNS = ["benchmark", "state", "took", "load before", "date", "commit", "command"]


def _run_rows(card: Card) -> list[list[str]]:
    rows = []
    for name, form, run in card.runs:
        if not run:
            rows.append([name, "not run", "-", "-", "-", "-", f"`python benchmarks/{name}.py`"])
            continue
        state = f"{run['state']} ({form})" + ("" if run["figures"] else ", no figures")
        state += f"; {run['last']}" if run["last"] else ""
        took, load = f"{run['seconds']:.0f} s", f"{run['load']:g}"
        rows.append([name, state, took, load, run["date"], run["commit"], _code(run)])
    return rows


def _code(run: dict[str, Any]) -> str:
    return f"`{run['command']}`"


def _where(card: Card) -> list[list[str]]:
    """Machines, and every version that some run had."""
    rows = []
    for place, own in enumerate(card.machines):
        name = f"machine {chr(ord('A') + place)}" if len(card.machines) > 1 else "machine"
        rows.append([name, f"{own['processor']}, {own['cores']} cores; {own['system']}"])
    found: dict[str, set[str]] = {}
    for _, _, run in card.runs:
        for name, version in run.get("versions", {}).items():
            found.setdefault(name.lower().replace("_", "-"), set()).add(version)
    return rows + [[name, ", ".join(sorted(found[name]))] for name in sorted(found)]


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def row(cells: Sequence[str]) -> str:
        return "| " + " | ".join(map(_cell, cells)) + " |"

    return "\n".join([row(header), row(["---"] * len(header)), *map(row, rows)])


def _cell(words: str) -> str:
    """Code as it is; in words nothing is markup."""
    text = " ".join(words.split()).replace("|", "\\|")
    return text if text.startswith("`") else html.escape(text, quote=False).replace("*", "\\*")


# ------------------------------------------------------------- the picture


_LABELS, _WIDTH, _ROW = 470, 960, 21


def picture(figures: Sequence[Figure]) -> str:
    """All ratios as costs, ours over the peer's, grouped by peer."""
    pen = runpy.run_path(str(DRAWING))
    text, drawing, met, missed = pen["text"], pen["drawing"], pen["BLUE"], pen["RED"]
    ratios = [one for one in figures if one.ratio and one.value]
    if not ratios:
        return drawing(_WIDTH, 40, text(_WIDTH / 2, 25, "no ratio has been measured"))
    seen = [one.cost(x) for one in ratios for x in (one.value, one.aim) if x] + [1.0]
    low, high = math.floor(math.log10(min(seen))), math.ceil(math.log10(max(seen)))
    high = max(high, low + 1)

    def across(cost: float) -> float:
        return _LABELS + 20 + (math.log10(cost) - low) / (high - low) * (_WIDTH - _LABELS - 40)

    peers = sorted({one.peer for one in ratios}, key=str.lower)
    bottom = 46 + _ROW * (len(ratios) + len(peers))
    parts = [text((_LABELS + _WIDTH) / 2, 16, "cost of ours / cost of the peer", "s")]
    for power in range(low, high + 1):
        x, kind = across(10.0**power), "l" if power == 0 else "g"
        parts.append(f'<path class="d-{kind}" d="M{x:.1f},40V{bottom}"/>')
        parts.append(text(x, 34, f"{10.0**power:g}", "s"))
    y = 42
    for peer in peers:
        y += _ROW
        parts.append(text(10, y, _short(peer), "b", "start"))
        for one in sorted(
            (f for f in ratios if f.peer == peer), key=lambda f: f.cost(f.value or 1)
        ):
            y += _ROW
            parts.append(text(_LABELS, y, _short(one.name), "s", "end"))
            if one.aim:
                x = across(one.cost(one.aim))
                parts.append(f'<path class="d-l" d="M{x:.1f},{y - 12}v15"/>')
            x, bad = across(one.cost(one.value or 1)), one.verdict == "MISSED"
            parts.append(
                f'<circle cx="{x:.1f}" cy="{y - 4.5}" r="5" stroke="{missed if bad else met}" '
                f'stroke-width="2.5" fill="{"none" if bad else met}"/>'
            )
    return str(drawing(_WIDTH, bottom + 10, *parts))


def _short(words: str, limit: int = 66) -> str:
    return words if len(words) <= limit else words[: limit - 1] + "…"
