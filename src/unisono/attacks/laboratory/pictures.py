"""The laboratory's pictures, as PNG bytes.

    grid    defence x attack: the same five digits as the adaptive attacker found them
    axis    error of one record against epsilon and against parties, on one scale of errors
    linked  linkage, defence by defence: who is named, what is guessed, what epsilon allows

Readable in grey and by the colour-blind: colour, line and marker all differ (Okabe and Ito).
"""

import io
import math
from typing import Any

import matplotlib
import numpy as np

matplotlib.use("Agg")

from matplotlib import pyplot

from unisono.attacks.laboratory.experiment import Gallery
from unisono.attacks.laboratory.linking import LinkageFound
from unisono.attacks.laboratory.results import LaboratoryResults, Row, TensorPoint
from unisono.attacks.laboratory.testbed import BATCH, SIDE

_ATTACKS = {
    "inversion": "gradient inversion",
    "closed form": "closed form, one record",
    "tensor": "tensor method",
}
_BLUE, _ORANGE, _GREY = "#0072B2", "#D55E00", "#666666"
_STYLE: Any = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "figure.dpi": 110,
    "savefig.facecolor": "white",
    "axes.titlelocation": "left",
}


def grid(found: LaboratoryResults, gallery: Gallery) -> bytes:
    """True digits in the first row, then one row for each defence; errors under each strip."""
    rows = found.rows
    with pyplot.rc_context(_STYLE):
        figure, axes = pyplot.subplots(
            len(rows) + 1,
            len(_ATTACKS),
            figsize=(9.6, 0.72 * (len(rows) + 1) + 0.5),
            layout="constrained",
            squeeze=False,
        )
        engine: Any = figure.get_layout_engine()
        engine.set(wspace=0.06, hspace=0.0)
        for column, words in enumerate(_ATTACKS.values()):
            _strip(axes[0, column], gallery["truth"]["truth"])
            axes[0, column].set_title(words, fontsize=10)
        axes[0, 0].set_ylabel("the truth", **_label())
        for line, row in zip(axes[1:], rows, strict=True):
            line[0].set_ylabel(_wrapped(row), **_label())
            for place, attack in zip(line, _ATTACKS, strict=True):
                _strip(place, gallery[row.name].get(attack))
                place.set_xlabel(_error(row, attack), fontsize=8, labelpad=1)
        return _png(figure)


def axis(found: LaboratoryResults) -> bytes:
    """Two panels that share the axis of errors, and the line of the mean image through both."""
    with pyplot.rc_context(_STYLE):
        figure, (left, right) = pyplot.subplots(
            1, 2, figsize=(9.6, 3.9), sharey=True, layout="constrained"
        )
        for panel in (left, right):
            panel.axhline(found.single_baseline, color=_GREY, linestyle="--", linewidth=1.4)
            panel.set_xscale("log")
            panel.set_yscale("log")
            panel.grid(alpha=0.25)
        left.text(
            0.02,
            found.single_baseline * 0.9,
            "mean image: nothing was learned",
            color=_GREY,
            fontsize=9,
            transform=left.get_yaxis_transform(),
            va="top",
        )
        _line(left, found.by_epsilon, _BLUE, "o", "-", "gradient inversion")
        left.invert_xaxis()
        left.axvspan(left.get_xlim()[1], 8, color=_BLUE, alpha=0.08, linewidth=0)
        left.text(7, left.get_ylim()[0] * 1.6, "epsilon\nat most 8", color=_BLUE, fontsize=9)
        left.set_xlabel("epsilon of one round of DP-SGD (better protected to the right)")
        left.set_ylabel("relative error of the record")
        left.set_title("noise: one record, one party", fontsize=10)
        _line(right, found.by_parties, _ORANGE, "s", "-", "gradient inversion")
        points = found.by_parties
        right.plot(
            [p.at for p in points],
            [p.control for p in points],
            color=_GREY,
            linestyle=":",
            marker="x",
            markersize=5,
            label="best of as many public images",
        )
        right.set_xticks([p.at for p in points], [f"{p.at:g}" for p in points])
        right.minorticks_off()
        right.set_xlabel("parties in the secure sum, one record each")
        right.set_title("crowd: no noise at all", fontsize=10)
        right.legend(frameon=False, fontsize=9, loc="center left")
        return _png(figure)


def linked(found: LinkageFound) -> bytes:
    """One line for each defence: bars of the re-identified, marks of both attackers' guesses."""
    rows = found.rows
    with pyplot.rc_context(_STYLE):
        figure, panel = pyplot.subplots(figsize=(9.6, 0.42 * len(rows) + 1.5), layout="constrained")
        places = np.arange(len(rows))
        panel.axvline(found.baseline, color=_GREY, linestyle="--", linewidth=1.4, zorder=1)
        panel.barh(
            places,
            [row.reidentified or 0.0 for row in rows],
            height=0.5,
            color="#CCCCCC",
            label="rightly given a name",
            zorder=0,
        )
        bounded = [(row.bound, at) for at, row in enumerate(rows) if row.bound is not None]
        panel.plot(
            *zip(*bounded, strict=True),
            linestyle="none",
            marker="|",
            markersize=18,
            markeredgewidth=2.2,
            color="black",
            label="most that epsilon allows",
        )
        insiders, outsiders = [row.insider for row in rows], [row.outsider for row in rows]
        panel.plot(insiders, places, "s", color=_ORANGE, markersize=8, label="insider guesses")
        panel.plot(outsiders, places, "o", color=_BLUE, markersize=6, label="outsider guesses")
        panel.set_yticks(places, [row.defence for row in rows])
        panel.set(xlim=(0, 1.02), xlabel="share of patients (dashed: blind guess of a diagnosis)")
        panel.invert_yaxis()
        panel.xaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
        panel.grid(axis="x", alpha=0.25)
        figure.legend(loc="outside upper center", ncols=4, frameon=False, fontsize=9)
        return _png(figure)


def _line(
    panel: Any, points: tuple[TensorPoint, ...], colour: str, marker: str, line: str, label: str
) -> None:
    where, errors = [p.at for p in points], [p.error for p in points]
    panel.plot(where, errors, color=colour, marker=marker, linestyle=line, label=label)


def _strip(place: Any, rows: np.ndarray | None) -> None:
    """Five digits side by side, or a dash where the attack is not defined."""
    place.set(xticks=[], yticks=[])
    for side in place.spines.values():
        side.set_visible(False)
    if rows is None:
        place.text(0.5, 0.5, "not defined", ha="center", va="center", color=_GREY, fontsize=9)
        return
    gap = np.zeros((SIDE, 1))
    pictures = [np.hstack([row.reshape(SIDE, SIDE), gap]) for row in rows[:BATCH]]
    place.imshow(np.hstack(pictures)[:, :-1], cmap="gray_r", vmin=0, vmax=1)


def _error(row: Row, attack: str) -> str:
    if attack == "tensor":
        return f"error {row.tensor.polished:.2g}"
    found = row.inversion if attack == "inversion" else row.closed_form
    return "" if found is None else f"error {found.error:.2g}"


def _label() -> dict[str, Any]:
    return {"rotation": 0, "ha": "right", "va": "center", "fontsize": 9}


def _wrapped(row: Row) -> str:
    epsilon = row.privacy.epsilon_round
    words = row.defence
    if math.isfinite(epsilon):
        words = f"DP-SGD, epsilon {epsilon:.{0 if epsilon > 100 else 1}f}"
    return words.replace(", ", ",\n")


def _png(figure: Any) -> bytes:
    buffer = io.BytesIO()
    try:
        figure.savefig(buffer, format="png")
    finally:
        pyplot.close(figure)
    return buffer.getvalue()
