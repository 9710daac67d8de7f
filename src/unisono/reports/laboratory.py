"""The attack laboratory as sections of a page: what was attacked, the table, the pictures.

Reads the plain JSON of attacks.json, so that a report can be made again from its folder alone.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from unisono.reports.page import Section, figure, page, paragraphs, table

GRID, AXIS = "attack-grid.png", "attack-axis.png"
_WARNING = (
    "An attack that fails certifies nothing: a better one may succeed. Differential privacy bounds "
    "every attack, known or not. Reconstruction already dies at an epsilon far too weak to protect "
    "anybody, so that its failure is no evidence of a good epsilon."
)


def laboratory_sections(
    document: Mapping[str, Any], pictures: Mapping[str, bytes] | None = None
) -> list[Section]:
    """Sections for attacks.json {"laboratory": ...}; pictures by file name, left out if absent."""
    pictures = pictures or {}
    found = [
        Section("What these attacks say", _summary(document), "attacks-say"),
        Section("Reconstruction", _reconstruction(document), "attacks-reconstruction"),
        Section("The tensor method against its bounds", _tensor(document), "attacks-tensor"),
        Section("Privacy and what it costs", _privacy(document), "attacks-privacy"),
    ]
    if GRID in pictures:
        picture = figure(
            pictures[GRID],
            "Five handwritten digits as each attack recovers them under each "
            "defence; the true digits are in the first row.",
            "The same five digits, as adaptive attackers see them. Under each strip its error.",
        )
        found.insert(1, Section("What the attackers see", picture, "attacks-grid"))
    if AXIS in pictures:
        picture = figure(
            pictures[AXIS],
            "Error of one record against epsilon of DP-SGD, and against the number "
            "of parties in a secure sum, with the error of the mean image.",
            "One record, protected by noise or by a crowd. At the dashed line nothing was learned.",
        )
        found.append(Section("Noise or a crowd", picture, "attacks-axis"))
    return found


def laboratory_page(document: Mapping[str, Any], pictures: Mapping[str, bytes]) -> str:
    """A page of its own, for a run folder of the laboratory."""
    subtitle = f"{len(document['rows'])} defences, digits, seed {document['seed']}"
    notice = "Quick: fewer repetitions, rougher numbers." if document["quick"] else ""
    sections = laboratory_sections(document, pictures)
    return page("Attack laboratory", sections, subtitle=subtitle, notice=notice)


def read_pictures(folder: Path) -> dict[str, bytes]:
    """The laboratory's pictures in a run folder, as far as they are there."""
    return {
        name: (folder / name).read_bytes() for name in (GRID, AXIS) if (folder / name).is_file()
    }


def summary_table(document: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """The one table, defence x attack, as words: for terminals and Markdown."""
    header = [
        "defence",
        "inversion",
        "naive",
        "one record",
        "tensor",
        "naive",
        "slope",
        "002",
        "verdict",
        "member",
        "accuracy",
        "epsilon",
        "at least",
    ]
    rows = []
    for row in document["rows"]:
        inversion, closed, tensor = row["inversion"], row["closed_form"], row["tensor"]
        privacy = row["privacy"]
        rows.append(
            [
                row["defence"],
                number(inversion["error"]),
                number(inversion["naive_error"]),
                "-" if closed is None else number(closed["error"]),
                number(tensor["polished"]),
                number(tensor["naive_polished"]),
                _slope(tensor),
                "-" if tensor["predicted"] is None else f"{tensor['predicted']:.1f}",
                tensor["verdict"] or "-",
                f"{row['membership']['area']:.2f}",
                f"{row['accuracy']:.3f}",
                _epsilon(privacy["epsilon_round"]),
                number(_empirical(privacy)),
            ]
        )
    return header, rows


def markdown(document: Mapping[str, Any]) -> str:
    """The same table for a page of documentation."""
    header, rows = summary_table(document)
    lines = [header, ["---"] * len(header), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def number(value: Any) -> str:
    """Two significant digits; small errors in powers of ten.

    >>> number(0.1234), number(2.3e-7), number("inf"), number(None)
    ('0.12', '2e-07', '∞', '-')
    """
    if value is None:
        return "-"
    if isinstance(value, str):
        return "∞" if value == "inf" else value
    return f"{value:.0e}" if 0 < abs(value) < 1e-3 else f"{value:.2g}"


def _summary(document: Mapping[str, Any]) -> Markup:
    setting, baseline = document["setting"], document["baseline"]
    return paragraphs(
        _WARNING,
        f"Records: {setting['records']}. Viewer: {setting['viewer']}. Adaptive attackers model the "
        "defence; naive ones take every update for a plain gradient.",
        f"Whoever saw nothing guesses the mean image and errs by {baseline['error']:.3f} (PSNR "
        f"{baseline['psnr']:.1f} dB). Class means of blind labels err by "
        f"{baseline['blind_ratio']:.2f} of that, because the best assignment counts: labels that "
        "an update gives away are compared with this control.",
    )


def _reconstruction(document: Mapping[str, Any]) -> Markup:
    header = [
        "defence",
        "inversion",
        "over the mean image",
        "PSNR, dB",
        "naive",
        "labels' means",
        "one record",
        "naive, one record",
        "tensor, polished",
        "naive, tensor",
    ]
    rows = []
    for row in document["rows"]:
        inversion, closed, tensor = row["inversion"], row["closed_form"], row["tensor"]
        rows.append(
            [
                row["defence"],
                number(inversion["error"]),
                number(inversion["ratio"]),
                _decibel(inversion["psnr"]),
                number(inversion["naive_error"]),
                number(row["labels_ratio"]),
                "-" if closed is None else number(closed["error"]),
                "-" if closed is None else number(closed["naive_error"]),
                number(tensor["polished"]),
                number(tensor["naive_polished"]),
            ]
        )
    return table(
        header,
        rows,
        "Relative errors: 0 is the record itself. In the tensor column, and in those "
        "over the mean image, 1 is what somebody gets who saw nothing.",
    )


def _slope(tensor: Mapping[str, Any]) -> str:
    """The slope, with its standard error where there is one."""
    spread = tensor.get("slope_error")
    return f"{tensor['slope']:.2f}" + ("" if spread is None else f" ± {spread:.2f}")


def _tensor(document: Mapping[str, Any]) -> Markup:
    sizes = document["rows"][0]["tensor"]["neurons"] if document["rows"] else []
    header = ["defence", *(f"m = {size:g}" for size in sizes), "slope", "002", "bound", "verdict"]
    rows = []
    for row in document["rows"]:
        own = row["tensor"]
        predicted = "-" if own["predicted"] is None else f"{own['predicted']:.1f}"
        rows.append(
            [
                row["defence"],
                *(number(error) for error in own["errors"]),
                _slope(own),
                predicted,
                own["bound"],
                own["verdict"] or "-",
            ]
        )
    words = paragraphs(
        "Errors before the polish, by number of neurons, and their slope in logarithms. Bounds are "
        "from above and about this estimate alone: the polish that follows obeys none of them.",
        "Errors near 1 cannot grow any more: a slope near 0 there says that nothing was found. A "
        "bound counts as violated, or as loose, beyond two standard errors of the slope and 0.1.",
    )
    caption = "Error of the tensor method against B sqrt(d/m) and its relatives"
    return words + table(header, rows, caption)


def _privacy(document: Mapping[str, Any]) -> Markup:
    header = [
        "defence",
        "right predictions",
        "epsilon of the round",
        "shown at least",
        "model-based",
        "epsilon of the training",
        "membership, area",
        "naive",
    ]
    rows: list[Sequence[str]] = []
    for row in document["rows"]:
        own, member = row["privacy"], row["membership"]
        rows.append(
            [
                row["defence"],
                f"{row['accuracy']:.3f}",
                _epsilon(own["epsilon_round"]),
                number(own["empirical_direct"]),
                number(own["empirical_model_based"]),
                _epsilon(own["epsilon_training"]),
                f"{member['area']:.2f}",
                f"{member['naive_area']:.2f}",
            ]
        )
    setting = document["setting"]
    delta = document["rows"][0]["privacy"]["delta"] if document["rows"] else 1e-5
    words = paragraphs(
        f"Epsilon at delta {delta:g}, unit {setting['unit']}, {setting['relation']}; sampler: "
        f"{setting['sampler']}. No protection is an infinite epsilon.",
        "“Shown at least” is an audit of the same code on the same kind of round, with confidence "
        "0.95: direct, whatever the mechanism, and model-based for Gaussian noise. Where a "
        "defence has no noise it is as high as so many runs can show. Where a defence has other "
        "secret coins, masks or other parties' records, a low bound is no promise.",
    )
    return words + table(header, rows, "What a defence promises, what was shown, what it costs")


def _empirical(privacy: Mapping[str, Any]) -> Any:
    return max(privacy["empirical_direct"], privacy["empirical_model_based"] or 0.0)


def _epsilon(value: Any) -> str:
    if isinstance(value, str):
        return "no protection"
    return f"{value:.0f}" if value >= 100 else f"{value:.2f}"


def _decibel(value: Any) -> str:
    return number(value) if isinstance(value, str) else f"{value:.1f}"


__all__ = [
    "AXIS",
    "GRID",
    "laboratory_page",
    "laboratory_sections",
    "markdown",
    "read_pictures",
    "summary_table",
]
