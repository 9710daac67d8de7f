"""Pictures. Readable in grayscale and by the colour-blind: hue, style and marker all differ."""

import math
import textwrap
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot, ticker

from unisono.cli import words
from unisono.cli.answers import Picture
from unisono.cli.comparison import ComparisonLine
from unisono.cli.inputs import TypedQuestion
from unisono.cli.privacy_text import describe
from unisono.core.success import neighbors_label, question
from unisono.core.trust import Unit
from unisono.errors import InvalidInput

# Okabe and Ito's colours, chosen so that their lightness differs too.
_DARK, _BRIGHT, _GRAY = "#0072B2", "#E69F00", "#767676"
_STYLE: Any = {
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "figure.dpi": 150,
    "savefig.facecolor": "white",
}


def draw_picture(found: Picture, path: str) -> None:
    """Two panels: epsilon over the rounds, and the trade-off curve."""
    with pyplot.rc_context(_STYLE):
        figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4.4), layout="constrained")
        _head(figure, found.question, found.noise, 110)
        _draw_rounds(left, found)
        _draw_trade_off(right, found)
        _save(figure, path)


def _head(figure: Any, question: TypedQuestion, noise: float, width: int) -> None:
    text = "\n".join(textwrap.wrap(describe(question, noise), width))
    figure.suptitle(text, x=0.01, ha="left", fontsize=10)


def _draw_rounds(axes: Any, found: Picture) -> None:
    finite = [(n, e) for n, e in zip(found.rounds, found.epsilons, strict=True) if math.isfinite(e)]
    axes.set_title("What has been spent after each release")
    axes.set_xlabel("releases")
    axes.set_ylabel(f"epsilon at delta {words.plain(found.question.delta)}")
    if not finite:
        axes.text(
            0.5, 0.5, "no guarantee: epsilon is infinite", ha="center", transform=axes.transAxes
        )
        return
    rounds, epsilons = zip(*finite, strict=True)
    axes.plot(rounds, epsilons, color=_DARK, linewidth=2, marker="o", markersize=3.5)
    axes.set_ylim(bottom=0, top=1.15 * max(epsilons) or 1)
    axes.set_xlim(left=0)
    axes.annotate(
        words.number(epsilons[-1]),
        (rounds[-1], epsilons[-1]),
        textcoords="offset points",
        xytext=(0, 7),
        ha="right",
        color=_DARK,
        fontweight="bold",
    )


def _draw_trade_off(axes: Any, found: Picture) -> None:
    alphas = [100 * a for a in found.false_positives]
    axes.plot([0, 100], [100, 0], color=_GRAY, linestyle=":", linewidth=1.5, label="chance")
    styles = [(_BRIGHT, "--"), (_DARK, "-")] if len(found.trade_offs) > 1 else [(_DARK, "-")]
    for (count, rates), (colour, line) in zip(found.trade_offs, styles, strict=True):
        label = f"after {words.times(count, 'release')}"
        axes.plot(
            alphas, [100 * r for r in rates], color=colour, linestyle=line, linewidth=2, label=label
        )
    last = [100 * r for r in found.trade_offs[-1][1]]
    axes.fill_between(alphas, last, 0, color=_DARK, alpha=0.08, linewidth=0)
    axes.text(3, 3, "no test gets here", color=_DARK, fontsize=9, va="bottom")
    _mark_best(axes, found)
    axes.set_title("Errors of any test: " + question(found.question.relation, Unit.RECORD))
    axes.set_xlabel("false alarms, %")
    axes.set_ylabel("true cases missed, %")
    axes.set_xlim(0, 100)
    axes.set_ylim(0, 100)
    axes.set_aspect("equal")
    axes.legend(frameon=False, loc="upper right")


def _mark_best(axes: Any, found: Picture) -> None:
    """The point where attacks succeed most often, with the certified bound on that."""
    points = list(zip(found.false_positives, found.trade_offs[-1][1], strict=True))
    alpha, missed = min(points, key=lambda point: point[0] + point[1])
    axes.plot(100 * alpha, 100 * missed, marker="o", color=_DARK, markersize=6, clip_on=False)
    axes.annotate(
        neighbors_label(found.guess),
        (100 * alpha, 100 * missed),
        textcoords="data",
        xytext=(41, 68),
        fontsize=9,
        arrowprops={"arrowstyle": "-", "color": _GRAY},
        color="black",
        va="center",
    )


def draw_comparison(
    question: TypedQuestion, noise: float, lines: list[ComparisonLine], path: str
) -> None:
    """One row for each accountant; invalid ones hollow and crossed out in words."""
    shown = [line for line in lines if math.isfinite(line.epsilon)]
    if not shown:
        raise InvalidInput("no accountant has a finite epsilon here, so there is nothing to draw")
    with pyplot.rc_context(_STYLE):
        size = (9.5, 1.7 + 0.36 * len(shown))
        figure, axes = pyplot.subplots(figsize=size, layout="constrained")
        _head(figure, question, noise, 95)
        for row, line in enumerate(reversed(shown)):
            _draw_line(axes, row, line)
        axes.set_yticks(range(len(shown)), [_wrapped(line.name) for line in reversed(shown)])
        axes.set_ylim(-0.6, len(shown) - 0.4)
        axes.grid(axis="y", visible=False)
        _scale(axes, [line.epsilon for line in shown])
        axes.set_xlabel(
            f"epsilon at delta {words.plain(question.delta)}, {question.relation}\n"
            "(smaller is tighter; a hollow cross is not a guarantee)"
        )
        _save(figure, path)


def _draw_line(axes: Any, row: int, line: ComparisonLine) -> None:
    colour = _DARK if line.valid else _GRAY
    axes.plot(
        line.epsilon,
        row,
        marker="o" if line.valid else "X",
        markersize=9,
        color=colour,
        markerfacecolor=colour if line.valid else "white",
        linestyle="none",
    )
    label = words.number(line.epsilon) + ("" if line.valid else "  invalid")
    axes.annotate(
        label,
        (line.epsilon, row),
        textcoords="offset points",
        xytext=(9, 0),
        va="center",
        color=colour,
    )


def _wrapped(name: str) -> str:
    return "\n".join(textwrap.wrap(name, 34))


def _scale(axes: Any, values: list[float]) -> None:
    """A logarithmic axis if the answers differ widely; room for the labels at the right."""
    largest, smallest = max(values), min(values)
    if smallest > 0 and largest > 20 * smallest:
        axes.set_xscale("log")
        axes.set_xlim(smallest / 1.6, largest * (largest / smallest) ** 0.3)
        axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    else:
        axes.set_xlim(0, 1.3 * largest or 1)


def _save(figure: Any, path: str) -> None:
    try:
        figure.savefig(path)
    except OSError as error:
        raise InvalidInput(f"cannot write {path}: {error.strerror}; choose another file") from None
    finally:
        pyplot.close(figure)
