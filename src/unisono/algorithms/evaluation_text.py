"""An evaluation in words, from its JSON document."""

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from unisono.algorithms.estimates import UNDETERMINED
from unisono.algorithms.score_distributions import LIMIT
from unisono.core import notebook

Document = Mapping[str, Any]
ESTIMAND = "for the population that these records were drawn from"


def metric_row(metric: Document) -> list[str]:
    """Name, figure, interval and the part of its width that is noise.

    >>> metric_row({"name": "AUC", "determined": True, "value": 0.81, "low": 0.78, "high": 0.84,
    ...             "privacy_share": 0.25})
    ['AUC', '0.810', '0.780 to 0.840', '25 %']
    """
    name = str(metric["name"])
    if not metric["determined"]:
        return [name, UNDETERMINED, "", ""]
    value, low, high = (_figure(float(metric[key])) for key in ("value", "low", "high"))
    return [name, value, f"{low} to {high}", f"{float(metric['privacy_share']):.0%}"[:-1] + " %"]


def _figure(value: float) -> str:
    return f"{value:.3f}" if abs(value) < 100 else f"{value:.4g}"


def header(confidence: float) -> list[str]:
    return ["metric", "value", f"{100 * confidence:g} % interval", "privacy"]


def evaluation_text(found: Document, confidence: float) -> str:
    """All metrics as a table; subgroups and gaps below, those that are clear first."""
    table = _aligned([header(confidence), *map(metric_row, found["metrics"])])
    parts = list(filter(None, [ESTIMAND, table, clipped_scores(found)]))
    for one in found["groups"]:
        title = f"{one['group']}, about {max(0.0, float(one['records'])):.0f} records"
        parts.append(f"{title}\n{_aligned([metric_row(own) for own in one['metrics']])}")
    clear = clear_gaps(found)
    if found["gaps"]:
        rows = _aligned([metric_row(one) for one in clear]) if clear else "  none is clear of zero"
        parts.append(f"differences between groups whose intervals leave out zero\n{rows}")
    parts.append("intervals count sampling and noise; privacy: the part of them that is noise")
    return "\n".join(parts)


def evaluation_parts(found: Document, confidence: float) -> list[Markup]:
    """The same as tables for notebooks: of everybody, of every subgroup, and clear differences."""
    rows: list[list[str]] = [metric_row(one) for one in found["metrics"]]
    for one in found["groups"]:
        about = f"{one['group']}, about {max(0.0, float(one['records'])):.0f} records"
        rows += [[about], *map(metric_row, one["metrics"])]
    clear = clear_gaps(found)
    if clear:
        rows += [["differences whose intervals leave out zero"], *map(metric_row, clear)]
    none = "No difference between the groups is clear of zero."
    return [
        notebook.sentence(f"Metrics are {ESTIMAND}.", "note"),
        notebook.grid(header(confidence), rows),
        notebook.sentence(clipped_scores(found), "warning"),
        notebook.sentence(none if found["gaps"] and not clear else "", "note"),
        notebook.sentence(learnt_from(found), "warning"),
        notebook.sentence(
            "Intervals count sampling and noise; privacy: the part of them that is noise.",
            "note",
        ),
    ]


def judged_text(result: Document) -> str:
    """What was judged.

    >>> judged_text({"judged": {"model": "glm", "title": "Who is ill?", "inputs": ["age", "sex"]},
    ...              "target": "ill"})
    "how well the glm 'Who is ill?' predicts ill from age, sex"
    """
    judged = result["judged"]
    inputs = [str(one) for one in judged["inputs"]]
    more = f" and {len(inputs) - 8} more" if len(inputs) > 8 else ""
    named = f"the {judged['model']} {judged['title']!r}"
    return f"how well {named} predicts {result['target']} from {', '.join(inputs[:8])}{more}"


def learnt_from(result: Document) -> str:
    """What is said where ledgers have paid for the training of the model that is judged."""
    parties = result.get("learnt_from") or []
    if not parties:
        return ""
    return (
        f"ON RECORDS THAT WERE LEARNT FROM: the ledgers of {', '.join(parties)} have paid for the "
        "training of this model, so expect too good a figure; for new records keep a ledger apart"
    )


def clipped_scores(found: Document) -> str:
    """What is said where many scores are 0 or 1, or nearly.

    >>> clipped_scores({"clipped": 0.031})[:54]
    'warning: about 3 % of the scores are 0 or 1, or nearly'
    """
    if not found.get("clipped"):
        return ""
    return (
        f"warning: about {100 * found['clipped']:.0f} % of the scores are 0 or 1, or nearly; "
        f"their log-odds count as {LIMIT:g}, on which calibration slope and intercept depend"
    )


def clear_gaps(found: Document) -> list[Document]:
    """Differences between groups whose intervals leave out zero."""
    return [g for g in found["gaps"] if g["determined"] and not g["low"] <= 0 <= g["high"]]


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
    return "\n".join(f"  {line}" for line in lines)
