"""What `unisono reproduce` leaves in its folder: a picture and a document each, and an index."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from matplotlib import pyplot
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from unisono.cli.words import jsonable
from unisono.errors import InvalidInput
from unisono.experiments.findings import ExpectedNumber, Findings

# Okabe and Ito's colours, without yellow, which is hard to see on white.
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000")
_STYLE: Any = {
    "font.size": 10,
    "legend.fontsize": 9,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "axes.titlesize": 10,
    "axes.prop_cycle": pyplot.cycler(color=_COLOURS),
    "savefig.facecolor": "white",
}
_PIXELS_PER_INCH = 150
_FORMAT = "unisono-experiment-1"


def prepare(folder: Path) -> Path:
    """Make the folder if it is not there, and try whether it can be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InvalidInput(
            f"cannot write into {folder}: {error.strerror}; choose another --folder"
        ) from None
    return folder


def save(folder: Path, name: str, findings: Findings, quick: bool) -> dict[str, Any]:
    """Write NAME.png and NAME.json; returns the document."""
    document = {
        "format": _FORMAT,
        "name": name,
        "title": findings.title,
        "source": findings.source,
        "quick": quick,
        "as_expected": findings.as_expected,
        "numbers": [
            {**number._asdict(), "verdict": verdict(number)} for number in findings.numbers
        ],
        "remarks": list(findings.remarks),
        "picture": f"{name}.png",
    }
    with pyplot.rc_context(_STYLE):
        figure = Figure(figsize=findings.size, layout="constrained")
        FigureCanvasAgg(figure)
        findings.draw(figure)
        _write(
            folder / f"{name}.png",
            lambda path: figure.savefig(path, dpi=_PIXELS_PER_INCH, format="png"),
        )
    text = json.dumps(jsonable(document), indent=2, ensure_ascii=False) + "\n"
    _write(folder / f"{name}.json", lambda path: path.write_text(text, encoding="utf-8"))
    return document


def write_index(folder: Path) -> Path:
    """index.md over every experiment in the folder, from this run or an earlier one."""
    lines = ["# Experiments, run again", ""]
    for path in sorted(folder.glob("*.json")):
        document = _read(path)
        if document is not None:
            lines += _section(document)
    place = folder / "index.md"
    _write(place, lambda path: path.write_text("\n".join(lines), encoding="utf-8"))
    return place


def _section(document: dict[str, Any]) -> list[str]:
    lines = [f"## {document['name']}: {document['title']}", "", document["source"] + ".", ""]
    if document["quick"]:
        lines += ["*A quick run: fewer draws and points than the full one.*", ""]
    lines += [f"![{document['title']}]({document['picture']})", ""]
    lines += ["| number | measured | expected | verdict | |", "|---|---|---|---|---|"]
    for entry in document["numbers"]:
        number = ExpectedNumber(
            entry["name"],
            _float(entry["measured"]),
            _float(entry["low"]),
            _float(entry["high"]),
            entry["note"],
        )
        cells = (
            number.name,
            shown(number.measured),
            range_words(number),
            entry["verdict"],
            number.note,
        )
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return [*lines, "", *(f"- {remark}" for remark in document["remarks"]), ""]


def verdict(number: ExpectedNumber) -> str:
    """The one word that counts."""
    return "as expected" if number.as_expected else "outside"


def shown(value: float) -> str:
    """Four digits, more for large whole parts.

    >>> shown(0.47606), shown(577.833), shown(6910)
    ('0.4761', '577.8', '6910')
    """
    return f"{value:.0f}" if 1000 <= abs(value) < 1e6 else f"{value:.4g}"


def range_words(number: ExpectedNumber) -> str:
    """Where the number is expected.

    >>> range_words(ExpectedNumber("n", 1, 0, float("inf")))
    'at least 0'
    >>> range_words(ExpectedNumber("n", 18, 18, 18))
    '18'
    """
    if number.high == float("inf"):
        return f"at least {shown(number.low)}"
    if number.low == number.high:
        return shown(number.low)
    return f"{shown(number.low)} to {shown(number.high)}"


def _float(value: Any) -> float:
    """JSON writes infinity as "inf" and not-a-number as null."""
    return float("nan") if value is None else float(value)


def _read(path: Path) -> dict[str, Any] | None:
    """A document of ours, or nothing."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    ours = isinstance(document, dict) and document.get("format") == _FORMAT
    return document if ours else None


def _write(path: Path, write: Any) -> None:
    """Write beside the place, then rename: an interrupted run leaves no half file."""
    partial = path.with_name(path.name + ".partial")
    try:
        write(partial)
        os.replace(partial, path)
    except OSError as error:
        raise InvalidInput(
            f"cannot write {path}: {error.strerror}; choose another --folder"
        ) from None
    finally:
        partial.unlink(missing_ok=True)
