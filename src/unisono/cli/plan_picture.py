"""The trade-off: what is lost over epsilon, a line for each trust, and the epsilon in question."""

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib

matplotlib.use("Agg")

from matplotlib import pyplot, ticker

from unisono.cli.plan_studies import PlanRequest
from unisono.cli.plan_text import described
from unisono.cli.plots import _STYLE, _save
from unisono.core.trust import Trust
from unisono.planning.predict import MEASURES, Prediction
from unisono.planning.tasks import Task
from unisono.planning.verdicts import limits

# Okabe and Ito's colours; style and marker differ too.
_LOOKS = {
    Trust.LOCAL: ("#D55E00", ":", "s"),
    Trust.SECURE_SUM: ("#0072B2", "-", "o"),
    Trust.TRUSTED_SERVER: ("#009E73", "--", "^"),
}
_POINTS = (Task.CLASSIFICATION, Task.NETWORK, Task.REGRESSION)  # hundredths


def draw_trade_off(
    request: PlanRequest, curves: Mapping[Trust, Sequence[tuple[float, Prediction]]], path: str
) -> None:
    """One chart for people; bands where predictions are rough."""
    with pyplot.rc_context(_STYLE):
        figure, axes = pyplot.subplots(figsize=(8, 4.8), layout="constrained")
        axes.set_xscale("log")
        figure.suptitle(described(request), x=0.01, ha="left", fontsize=9, color="#555555")
        shaded = Trust.SECURE_SUM if Trust.SECURE_SUM in curves else next(iter(curves))
        for trust, points in curves.items():
            _draw(axes, request, trust, points, trust is shaded)
        axes.axvline(request.epsilon, color="#555555", linewidth=1)
        axes.annotate(
            f"chosen: {request.epsilon:g}",
            (request.epsilon, 1),
            xycoords=("data", "axes fraction"),
            xytext=(4, -10),
            textcoords="offset points",
            color="#555555",
            fontsize=9,
        )
        _finish(axes, request)
        _save(figure, path)


def _draw(
    axes: Any,
    request: PlanRequest,
    trust: Trust,
    points: Sequence[tuple[float, Prediction]],
    shaded: bool,
) -> None:
    colour, line, marker = _LOOKS[trust]
    scale = 100 if request.task in _POINTS else 1
    epsilons = [epsilon for epsilon, _ in points]
    name = f"{trust} ({points[0][1].algorithm})"
    axes.plot(
        epsilons,
        [scale * one.likely for _, one in points],
        color=colour,
        linestyle=line,
        marker=marker,
        markersize=4.5,
        linewidth=2,
        label=name,
    )
    axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
    if shaded and points[0][1].band.low < points[0][1].band.high:
        low, high = ([scale * one.band[end] for _, one in points] for end in (0, 2))
        label = "where it should lie (rough)"
        axes.fill_between(epsilons, low, high, color=colour, alpha=0.1, linewidth=0, label=label)


def _finish(axes: Any, request: PlanRequest) -> None:
    axes.set_title("What privacy costs: predicted, no data were read")
    axes.set_xlabel(f"epsilon at delta {request.delta:g}: larger is less private")
    axes.minorticks_off()
    unit = {
        Task.CLASSIFICATION: ", points",
        Task.NETWORK: ", points",
        Task.REGRESSION: ", %",
        Task.POSTERIOR: ", times",
    }
    axes.set_ylabel(MEASURES[request.task] + unit.get(request.task, "") + ": less is better")
    if request.task in (Task.MEAN, Task.POSTERIOR):
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
        axes.yaxis.set_minor_formatter(ticker.NullFormatter())
    else:
        axes.set_ylim(bottom=0)
    if request.task is not Task.MEAN:
        good = limits(request.task, request.headroom)[0] * (100 if request.task in _POINTS else 1)
        bottom = axes.get_ylim()[0]
        axes.axhspan(bottom, good, color="#009E73", alpha=0.08, linewidth=0)
        axes.text(
            0.995,
            good,
            "good",
            transform=axes.get_yaxis_transform(),
            ha="right",
            va="top",
            fontsize=9,
            color="#00664B",
        )
    axes.legend(frameon=False, loc="upper right")


__all__ = ["draw_trade_off"]
