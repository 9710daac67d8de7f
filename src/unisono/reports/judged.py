"""Metrics of a model, as a report shows them: tables, ROC and calibration."""

from collections.abc import Mapping, Sequence
from typing import Any

from unisono.algorithms.evaluation_text import (
    ESTIMAND,
    clear_gaps,
    clipped_scores,
    header,
    metric_row,
)
from unisono.reports.blocks import Block, Calibration, Curves, ReportGrid, Text
from unisono.reports.charts import CalibrationBin
from unisono.reports.reading import share


def judged_blocks(found: Mapping[str, Any], confidence: float) -> list[Block]:
    """All that one release says, subgroups and clear differences below."""
    head = header(confidence)
    blocks: list[Block] = [
        Text(f"Metrics are {ESTIMAND}. Intervals count sampling and the noise of privacy."),
        ReportGrid("Metrics", head, [metric_row(own) for own in found["metrics"]]),
    ]
    if found.get("clipped"):
        blocks.append(Text(clipped_scores(found), "warning"))
    if found.get("roc"):
        blocks.append(_roc(found["roc"]))
    if found.get("calibration"):
        blocks.append(_calibrated(found["calibration"], confidence))
    for one in found["groups"]:
        rows = [metric_row(own) for own in one["metrics"]]
        blocks.append(ReportGrid(str(one["group"]), head, rows))
    clear = clear_gaps(found)
    if clear:
        rows = [metric_row(own) for own in clear]
        blocks.append(ReportGrid("Differences whose intervals leave out zero", head, rows))
    elif found["gaps"]:
        blocks.append(Text("No difference between the groups is clear of zero."))
    return blocks


def _roc(points: Sequence[Sequence[float]]) -> Block:
    rising = [(float(x), float(y)) for x, y in points]
    return Curves(
        "ROC",
        {"the model": rising, "chance": [(0.0, 0.0), (1.0, 1.0)]},
        "false positive rate",
        "true positive rate",
        "How many records with the outcome are found (up) for how many of those without it that "
        "are taken for one (right). Read off noisy counts: small steps are noise.",
        square=True,
    )


def _calibrated(bins: Sequence[Mapping[str, float]], confidence: float) -> Block:
    shown = [
        CalibrationBin(*(float(one[key]) for key in ("score", "share", "low", "high")))
        for one in bins
    ]
    return Calibration(
        "Calibration",
        shown,
        f"Bars are {share(confidence)} intervals. On the dashed line chances come true as often as "
        "they say; a bar that leaves it out says that they do not.",
    )
