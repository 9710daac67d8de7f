"""The result, by kind: answers, coefficients, weights, networks, posteriors and clusters.

Weights of linear models are scores for prediction without intervals, so they are listed in the
order of the columns and never ranked. Effects with intervals are ranked where the run released how
far columns vary: by what a change of two deviations does. The width of a public range says nothing
of that. A coefficient of which nothing was learnt is not drawn.
"""

import json
import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from unisono.algorithms.concordance import as_text as concordance_text
from unisono.algorithms.estimates import UNDETERMINED
from unisono.algorithms.evaluation_text import (
    judged_text,
    learnt_from,
)
from unisono.algorithms.survival_curves import (
    curve_rows,
    log_rank_text,
    measure_text,
    median_text,
    steps,
)
from unisono.algorithms.table_layout import layout
from unisono.core.words import NO_GROUP, NOTHING_LEARNT, chance_text, p_text, times
from unisono.data.columns import NumericColumn
from unisono.models.inference import (
    NOT_DETERMINED,
    end_texts,
    example_in_words,
    outcome,
    ratio_text,
    tests_in_words,
)
from unisono.reports.blocks import (
    BandedCurves,
    Bells,
    Block,
    Code,
    FactList,
    Forest,
    Intervals,
    JournalTable,
    Part,
    ReportGrid,
    Text,
    shorter,
)
from unisono.reports.blocks import ReportHeading as Title
from unisono.reports.charts import (
    RECORDS,
    BandedCurve,
    Bell,
    DrawnInterval,
    ForestRow,
    said_in,
)
from unisono.reports.judged import judged_blocks
from unisono.reports.marks import short
from unisono.reports.reading import RunReading, listed, share
from unisono.studies.schema import StudyFile
from unisono.studies.search import candidate_words

_UNRANKED = (
    "Weights hold the noise that privacy added and have no intervals; they are listed in the order "
    "of the columns, since they cannot be ranked."
)
MOST = 30  # weights, or numbers of one answer, that a picture shows
_PICTURES = 12  # answers that get a picture each
_Z = 1.959964  # 95 % of a normal distribution lie within so many standard deviations


def findings(reading: RunReading) -> Part:
    """What came out, or why nothing did."""
    return Part("Result", "result", _blocks(reading))


def _blocks(reading: RunReading) -> Sequence[Block]:
    result = reading.run.result
    if reading.failed:
        return [Text(f"Nothing came out: {reading.failed}. What was paid stays paid.", "warning")]
    if result is None:
        return [
            Text(
                "There is no result yet."
                if reading.run.heading.state == "running"
                else "This folder holds no result."
            )
        ]
    for key, draw in _KINDS.items():
        if key in result:
            return [*_searched(result), *draw(reading, result), *_paid_ranges(result)]
    return [
        Text("This kind of result has no picture; here it is as it was written."),
        Code("result.json", _indented(result)),
    ]


def _searched(result: Mapping[str, Any]) -> list[Block]:
    """What a search tried, and which it took."""
    found = result.get("search")
    if not found:
        return []
    rows = [
        [
            f"{place}{' (taken)' if place == found['chosen'] else ''}",
            candidate_words(one),
            ", ".join(f"{name} = {value}" for name, value in one["settings"].items()) or "-",
            "-" if one["score"] is None else f"{one['score']:.3f}",
        ]
        for place, one in enumerate(found["candidates"], 1)
    ]
    among = (
        f"one of {len(rows)} candidates, each"
        if found["method"] == "all"
        else f"the best of a secret number of runs of {len(rows)} candidates, each"
    )
    judged = "they learnt from" if found.get("learnt_from") else "none of them learnt from"
    words = (
        f"This model is {among} learnt for epsilon "
        f"{found['epsilon_of_one']:.3g}. It was taken by noisy scores ({found['measure']}) on "
        f"{found['judges']:,} records that {judged}; noise alone makes two scores "
        f"differ by about {found['noise']:.2g}. What the certificate states is for all of them, "
        "the scores and the choice together."
    )
    return [
        Text(words),
        ReportGrid("What was tried", ["candidate", "model", "settings", "noisy score"], rows),
        Text("The score of the one that was taken is too good on average.", "note"),
    ]


def _paid_ranges(result: Mapping[str, Any]) -> list[Block]:
    """Ranges of columns without public bounds, which were released before the rest."""
    found = result.get("private_bounds")
    if not found:
        return _paid_values(result)
    rows = [[name, *(short(float(end)) for end in ends)] for name, ends in found.items()]
    shown, note = shorter(rows, MOST, "ranges; result.json has all")
    words = (
        "Nobody knew bounds of these columns: a part of epsilon paid for noisy ranges that hold "
        "all but about 2 % of the records, others were clipped. They are public from now on."
    )
    return [
        Text(words),
        ReportGrid("Ranges that were paid for", ["column", "lowest", "highest"], shown),
        *note,
        *_paid_values(result),
    ]


def _paid_values(result: Mapping[str, Any]) -> list[Block]:
    """Values of columns without a public list, which were released before the rest."""
    found = result.get("private_values")
    if not found:
        return []
    rows = [[name, ", ".join(own) or "none"] for name, own in found.items()]
    words = (
        "Nobody knew the values of these columns: a part of epsilon paid for noisy counts that "
        "show the most frequent ones. Records with others taught nothing. They are public from "
        "now on."
    )
    return [Text(words), ReportGrid("Values that were paid for", ["column", "values"], rows)]


# ------------------------------------------------------------- statistics


def _answers(reading: RunReading, result: Mapping[str, Any]) -> list[Block]:
    answers = result["answers"]
    blocks: list[Block] = [
        Text(
            f"{times(len(answers), 'answer')}. A dot is the answer, with its noise; the bar holds "
            "the value that the records have, with the stated confidence."
        )
    ]
    for answer in answers[:_PICTURES]:
        items = _flat(answer)
        if len(items) == 1:
            items = _alone(answer, items[0])
        shown, note = shorter(items, MOST, "numbers; the table below has more")
        sure = f"{share(answer['confidence'])} confidence"
        several = f"{sure}, for all of them at once" if len(_numbers(answer["value"])) > 1 else sure
        caption = f"{several[:1].upper()}{several[1:]}. {_sentence(answer.get('note', ''))}"
        unit = str(answer.get("unit", ""))
        blocks += [Intervals(str(answer["name"]), shown, caption, unit), *note]
    rows = [
        [
            f"{answer['name']}: {one.label}" if one.label != answer["name"] else one.label,
            said(one.middle) if known else UNDETERMINED,
            f"{said(one.low)} to {said(one.high)}",
            people,
        ]
        for answer in answers
        for said in [said_in(str(answer.get("unit", "")))]
        for one, people, known in zip(
            _flat(answer), _population(answer), _determined(answer), strict=True
        )
    ]
    shown, note = shorter(rows, 8 * MOST, "numbers; result.json has all")
    header = ["question", "answer", "interval for these records", "interval for the population"]
    return [
        *blocks,
        Title("All answers"),
        ReportGrid("Answers with their intervals", header, shown),
        *note,
        *_tests(answers),
    ]


def _tests(answers: Sequence[Mapping[str, Any]]) -> list[Block]:
    """Statistics and p values of those answers that compare."""
    tested = [(str(answer["name"]), answer["test"]) for answer in answers if "test" in answer]
    if not tested:
        return []
    rows = []
    for name, test in tested:
        known = "p_value" in test
        degrees = f", df {test['degrees']:.0f}" if "degrees" in test else ""
        rows.append(
            [
                f"{name}: that {test['hypothesis']}",
                f"{test['kind']} = {test['statistic']:.3g}{degrees}" if known else UNDETERMINED,
                p_text(test["p_value"]) if known else "–",
                p_text(test["adjusted_p"]) if "adjusted_p" in test else "–",
                share(test["privacy_share"]) if known else "–",
            ]
        )
    shown, note = shorter(rows, 8 * MOST, "tests; result.json has all")
    header = ["hypothesis", "statistic", "p", "p after Holm", "privacy's part of the width"]
    words = (
        "The noise is counted in: a true hypothesis has a p below 0.05 in about one of twenty "
        "releases. With several tests compare the values after Holm, which hold for all together."
    )
    return [Title("Tests"), Text(words), ReportGrid("Tests of no difference", header, shown), *note]


def _flat(answer: Mapping[str, Any]) -> list[DrawnInterval]:
    values = _numbers(answer["value"])
    low, high = (_numbers(end) for end in answer["interval"])
    labels = answer.get("labels") or (
        [answer["name"]] if len(values) == 1 else [str(k + 1) for k in range(len(values))]
    )
    # A table by groups has fewer labels than numbers: they are numbered on.
    labels = [*labels, *(str(k + 1) for k in range(len(labels), len(values)))]
    pairs = zip(labels, values, low, high, strict=False)
    return [DrawnInterval(str(label), *ends) for label, *ends in pairs]


def _alone(answer: Mapping[str, Any], one: DrawnInterval) -> list[DrawnInterval]:
    """A single number, for these records and for the population that they were drawn from."""
    found = [one._replace(label="these records")]
    if answer.get("population_interval") is not None:
        low, high = (_numbers(end)[0] for end in answer["population_interval"])
        found.append(DrawnInterval("the population", one.middle, low, high))
    return found


def _population(answer: Mapping[str, Any]) -> list[str]:
    count = len(_numbers(answer["value"]))
    if answer.get("population_interval") is None:
        return ["–"] * count
    low, high = (_numbers(end) for end in answer["population_interval"])
    return [f"{short(a)} to {short(b)}" for a, b in zip(low, high, strict=True)]


def _determined(answer: Mapping[str, Any]) -> list[bool]:
    """Of each number, whether noise leaves anything of it."""
    found, count = answer.get("determined", True), len(_numbers(answer["value"]))
    return [bool(one) for one in _numbers(found)] if isinstance(found, list) else [found] * count


def _numbers(value: Any) -> list[float]:
    if isinstance(value, list):
        return [number for inner in value for number in _numbers(inner)]
    return [float(value)]


# ------------------------------------------------------------- Table 1


def _table_one(reading: RunReading, result: Mapping[str, Any]) -> list[Block]:
    made = layout(result["table"])
    by = result["table"]["by"]
    caption = f"Table 1. Characteristics of the records{f' by {by}' if by else ''}"
    rows = [(row.label, row.inner, row.cells) for row in made.rows]
    return [JournalTable(caption, made.header, rows), Text(made.note, "note")]


# ------------------------------------------------------------- evaluations


def _judged(reading: RunReading, result: Mapping[str, Any]) -> list[Block]:
    found, what = result["evaluation"], judged_text(result)
    counted = max(0.0, float(found["records"]))
    if reading.file is not None and reading.file.data.sizes != "hidden":
        counted = min(counted, sum(party.records for party in reading.file.parties))
    words = f"{what[:1].upper()}{what[1:]}, by about {counted:,.0f} records that were asked once."
    said = learnt_from(result)
    return [
        *([Text(_sentence(said), "warning")] if said else []),
        Text(words),
        *judged_blocks(found, float(result["confidence"])),
        Text(_sentence(result.get("note", "")), "note"),
    ]


# ------------------------------------------------------------- survival


def _survival(reading: RunReading, result: Mapping[str, Any]) -> list[Block]:
    found = result["kaplan_meier"]
    sure = share(found["confidence"])
    rows = [
        [
            name,
            short(max(0.0, sum(own["events"]))),
            median_text(own),
            measure_text(own["restricted_mean"]),
        ]
        for name, own in found["groups"].items()
    ]
    head = ["group", "events", f"median {found['time']}", f"mean up to {short(found['horizon'])}"]
    blocks: list[Block] = [
        BandedCurves(
            f"Survival until {found['event']}",
            {name: _banded(own) for name, own in found["groups"].items()},
            str(found["time"]),
            "share without the event",
            f"Shaded: a band that holds at all times at once, with {sure} confidence. Below: "
            "numbers at risk, with noise. A curve ends where it is too noisy to estimate.",
        ),
        ReportGrid(f"Medians and restricted means, with {sure} intervals", head, rows),
    ]
    differences = found.get("restricted_mean_differences", {})
    if differences:
        pairs = [[name, measure_text(own)] for name, own in differences.items()]
        blocks.append(
            ReportGrid(
                "Differences of restricted means",
                ["groups", f"difference ({sure} interval)"],
                pairs,
            )
        )
    if found.get("log_rank"):
        words = log_rank_text(found["log_rank"])
        blocks.append(Text(f"{_sentence(words)} It counts the noise in."))
    for name, own in list(found["groups"].items())[:_PICTURES]:
        header, *numbers = curve_rows(own)
        blocks.append(ReportGrid(f"Curve of {name}", header, numbers))
    return [*blocks, Text(_sentence(result.get("note", "")), "note")]


def _banded(own: Mapping[str, Any]) -> BandedCurve:
    times, values, low, high, at_risk = steps(own)
    return BandedCurve(tuple(times), tuple(values), tuple(low), tuple(high), tuple(at_risk))


def _concordance(reading: RunReading, result: Mapping[str, Any]) -> list[Block]:
    words = concordance_text(result["concordance"])
    return [Text(_sentence(words)), Text(_sentence(result.get("note", "")), "note")]


# ------------------------------------------------------------- linear models


def _weights(reading: RunReading, result: Mapping[str, Any]) -> list[Block]:
    target = str(result.get("target", ""))
    words = (
        f"A high score speaks for {result['positive']}, a low one for {result['negative']}."
        if "positive" in result
        else f"The estimate of {target} is the intercept plus each value times its weight."
    )
    return [
        Text(f"{words} {_unranked(result)}"),
        *_scored(result, target if "positive" not in result else f"for {result['positive']}"),
        Text(_sentence(result.get("note", "")), "note"),
    ]


def _unranked(result: Mapping[str, Any]) -> str:
    """What weights are not, unless the note below says so already."""
    told = "not effects" in str(result.get("note", ""))
    return _UNRANKED if told else f"{_UNRANKED} They are scores for prediction, not effects."


def _classes(reading: RunReading, result: Mapping[str, Any]) -> list[Block]:
    blocks: list[Block] = [
        Text(f"The class with the largest score is predicted. {_unranked(result)}"),
        Text(_sentence(result.get("note", "")), "note"),
    ]
    for name, model in list(result["classes"].items())[:MOST]:
        blocks += [Title(str(name)), *_scored(model, f"for {name}", 8)]
    return blocks


def _scored(model: Mapping[str, Any], what: str, most: int = MOST) -> list[Block]:
    """Weights in the order of the columns: they are no effects, so none is larger than another."""
    rows = [[name, short(float(weight))] for name, weight in model["weights"].items()]
    shown, note = shorter(rows, most, "weights, in the order of the columns; result.json has all")
    return [
        ReportGrid(
            f"Weights {what}, intercept {short(float(model['intercept']))}",
            ["column", "weight per unit"],
            shown,
        ),
        *note,
    ]


def public_widths(
    file: StudyFile | None, released: Mapping[str, Sequence[float]]
) -> dict[str, float]:
    """How wide each number's public range is, or the one that was released; a category is there or
    not, so it moves by 1."""
    if file is None:
        return {}
    return {
        name: column.span[1] - column.span[0]
        for name, column in file.data.columns.items()
        if isinstance(column, NumericColumn)
    } | {name: float(high) - float(low) for name, (low, high) in released.items()}


# ------------------------------------------------------------- coefficients with intervals


def _regression(reading: RunReading, result: Mapping[str, Any]) -> list[Block]:
    """A forest plot, a row of it in plain words, and the table."""
    found, ratio = result["coefficients"], str(result["ratio"])
    sure = f"{share(result['confidence'])} interval"
    drowned = [name for name, own in found.items() if not own["determined"]]
    blocks: list[Block] = [
        Text(f"A {result['family']} regression of {outcome(result)}. {example_in_words(result)}")
    ]
    if drowned:
        words = f"Not determined: {listed(drowned, 12)}. Noise hides what the records say of them."
        blocks.append(Text(words, "warning"))
    effects = {name: own for name, own in found.items() if name in result["features"]}
    rows, left = shorter(
        [_forest_row(result, name) for name in effects], MOST, "effects; the table has more"
    )
    what = f"{ratio[:1].upper()}{ratio[1:]}s" if ratio else "Differences of the mean"
    none = "1" if ratio else "0"
    caption = (
        f"Dots are estimates, bars their {sure}s: the thick part is what the sample alone would "
        f"have had, the thin part beyond it is the noise of privacy. A bar across the dashed line "
        f"at {none} may be no effect. Numbers are drawn for the step that is named; the table has "
        "them for one unit."
    )
    known = any(own["determined"] for own in effects.values())
    drawing = Forest(f"{what} for {outcome(result)}", rows, bool(ratio), caption if known else "")
    first = [f"{ratio} ({sure})", "estimate"] if ratio else ["estimate", sure]
    head = ["", *first, "standard error", "z", "p", "width from privacy"]
    lines = [_regression_row(result, name, len(head)) for name in found]
    shown, note = shorter(lines, 8 * MOST, "coefficients; result.json has all")
    return [
        *blocks,
        *([drawing, *left] if effects else []),
        *_ranked(result, effects),
        ReportGrid(f"Coefficients: {result['link']} of {outcome(result)}, per unit", head, shown),
        *note,
        *map(Text, tests_in_words(result)),
        Text(_sentence(result.get("note", "")), "note"),
    ]


def _ranked(result: Mapping[str, Any], effects: Mapping[str, Any]) -> list[Block]:
    """Standardised effects, the largest first: of a change of a number by two of its deviations,
    and of a value of a category against its reference, which can be compared (Gelman 2008). Public
    ranges say nothing of how far a column varies. Deviations are those that the run released; where
    it did not, nothing is ranked."""
    steps = {
        name: 2 * float(result["features"][name].get("deviation", 0.0))
        if "bounds" in result["features"][name]
        else 1.0
        for name, own in effects.items()
        if own["determined"] and None not in own["interval"]
    }
    if len(steps) < 2 or not all(steps.values()):
        return []
    items = []
    for name, step in steps.items():
        own, number = effects[name], "bounds" in result["features"][name]
        label = f"{name}, by {short(step)}" if number else _named(result, name, "vs")
        ends = (own["estimate"], *own["interval"])
        items.append(DrawnInterval(label, *(step * float(end) for end in ends)))
    items.sort(key=lambda one: -abs(one.middle))
    shown, note = shorter(items, MOST, "effects, the largest first; the table has more")
    caption = (
        "A number is moved by two of its standard deviations, as the run found them with noise, "
        "and a category from its reference: so effects can be compared, whatever their units and "
        f"public ranges are. Bars are {share(result['confidence'])} intervals; where two of them "
        "overlap, which effect is larger is not certain."
    )
    unit = f"{result['link']} of {outcome(result)}" if result["ratio"] else outcome(result)
    title, none = "Standardised effects, the largest first", ("no effect", 0.0)
    return [Intervals(title, shown, caption, unit, none), *note]


def _forest_row(result: Mapping[str, Any], name: str) -> ForestRow:
    """An effect as it is drawn: of a number for a round step of its public range, as one unit of
    one column may be much and of another next to nothing."""
    own, feature = result["coefficients"][name], result["features"][name]
    step = _round_step(*feature["bounds"]) if "bounds" in feature else 1.0
    label = f"{name}, per {short(step)}" if "bounds" in feature else _named(result, name, "vs")
    if not own["determined"]:
        return ForestRow(label, None, words=NOT_DETERMINED)
    if None in own["interval"]:
        scaled = (None if end is None else step * end for end in own["interval"])
        said = (lambda end: ratio_text(_ratio(end))) if result["ratio"] else short
        return ForestRow(label, None, words=" to ".join(end_texts([*scaled], said)))
    middle, (low, high) = float(own["estimate"]), map(float, own["interval"])
    kept = 1 - float(own["privacy_share"])
    ends = [middle, low, high, middle + kept * (low - middle), middle + kept * (high - middle)]
    drawn = [_ratio(step * end) if result["ratio"] else step * end for end in ends]
    return ForestRow(label, (drawn[0], drawn[1], drawn[2]), (drawn[3], drawn[4]))


def _ratio(difference: float) -> float:
    return math.exp(min(max(difference, -300.0), 300.0))


def _round_step(low: float, high: float) -> float:
    """About a tenth of a public range, as people count it.

    >>> _round_step(18, 100), _round_step(10, 70), _round_step(0, 1), _round_step(0, 3000)
    (10.0, 5.0, 0.1, 200.0)
    """
    rough = (high - low) / 8
    power = math.floor(math.log10(rough)) if rough > 0 else 0
    return max(float(f"{m}e{power}") for m in (1, 2, 5) if m == 1 or float(f"{m}e{power}") <= rough)


def _regression_row(result: Mapping[str, Any], name: str, cells: int) -> list[str]:
    own, label = result["coefficients"][name], _named(result, name)
    if not own["determined"]:
        return [label, "not determined", *["–"] * (cells - 2)]
    if not result["ratio"]:
        first = [short(own["estimate"]), " to ".join(end_texts(own["interval"], short))]
    elif "ratio" in own:
        low, high = end_texts(own["ratio_interval"], ratio_text)
        first = [f"{ratio_text(own['ratio'])} ({low} to {high})", short(own["estimate"])]
    else:
        first = ["–", short(own["estimate"])]
    return [
        label,
        *first,
        short(own["std_error"]),
        f"{own['z']:.2f}".replace("-", "−"),
        p_text(own["p_value"]),
        f"{100 * own['privacy_share']:.0f} %",
    ]


def _named(result: Mapping[str, Any], name: str, against: str = "against") -> str:
    """A coefficient with what it is compared with.

    >>> _named({"features": {"sex=male": {"reference": "sex=female"}}}, "sex=male")
    'sex=male against female'
    """
    reference = str(result["features"].get(name, {}).get("reference", ""))
    level = reference.partition("=")[2] or reference
    return f"{name} {against} {level}" if reference else name


# ------------------------------------------------------------- posteriors


def _posterior(reading: RunReading, result: Mapping[str, Any]) -> list[Block]:
    for_class = f" for {result['positive']}" if "positive" in result else ""
    note = Text(_sentence(result.get("note", "")), "note")
    if not result.get("noise_aware"):
        means = [[name, short(float(mean))] for name, mean in result["mean"].items()]
        shown, left = shorter(means, MOST, "weights; result.json has all")
        return [
            Text(
                "There are no intervals: the noise of privacy is not counted in, so deviations "
                "would be far too small.",
                "warning",
            ),
            ReportGrid(f"Means of the weights{for_class}", ["column", "mean"], shown),
            *left,
            note,
        ]
    learnt = result.get("learnt", {})
    known = [name for name in result["mean"] if learnt.get(name, True)]
    unknown = [name for name in result["mean"] if name not in known]
    blocks: list[Block] = []
    if not result.get("converged", True):
        doubt = "Not converged: intervals are not to be trusted. More rounds would help."
        blocks.append(Text(doubt, "warning"))
    if unknown:
        which = f"Nothing was learnt of {listed(unknown, 12)}"
        blocks.append(Text(f"{which}: noise hides what the records say.", "warning"))
    if known:
        blocks += _hills(reading, result, known, for_class)
    rows = [[name, NOTHING_LEARNT, "–", "–", "–"] for name in unknown]
    shown, left = shorter(
        [*_coefficients(result, known), *rows], 2 * MOST, "weights; result.json has all"
    )
    head = ["column", "mean", "standard deviation", "95 % interval", "chance to be above 0"]
    return [*blocks, ReportGrid("Weights in the columns' own units", head, shown), *left, note]


def _hills(
    reading: RunReading, result: Mapping[str, Any], known: Sequence[str], for_class: str
) -> list[Block]:
    ranges = public_widths(reading.file, result.get("private_bounds", {}))
    found = result.get("deviations", {})
    standard = bool(found) and all(name in found for name in known if name in ranges)

    def step(name: str) -> float:
        if standard:
            return 2 * float(found[name]) if name in found else 1.0
        return _round_step(0.0, ranges[name]) if name in ranges else 1.0

    bells = [
        Bell(
            f"{name}, {'by' if standard else 'per'} {short(step(name))}"
            if name in ranges
            else name,
            float(result["mean"][name]) * step(name),
            float(result["std"][name]) * step(name),
        )
        for name in known
        if name != "intercept"
    ]
    if standard:
        bells.sort(key=lambda bell: -abs(bell.mean))
    order = "the largest first" if standard else "in the order of the columns"
    shown, note = shorter(bells, MOST, f"weights, {order}; result.json has all")
    if not bells:
        return []
    caption = (
        "Standardised effects, the largest first: a number is moved by two of its standard "
        "deviations, as the run found them with noise, and a category from its reference."
        if standard
        else "In the order of the columns, each for the step that is named. How far columns vary "
        "was not released, so effects cannot be ranked."
    )
    return [
        Text(
            "A posterior says which weights fit the records, and how sure that is: a narrow hill "
            "is sure, a wide one is not; a hill across the dashed line may as well be zero."
        ),
        Bells(
            f"Posterior of the weights{for_class}",
            shown,
            caption,
        ),
        *note,
    ]


def _coefficients(result: Mapping[str, Any], known: Sequence[str]) -> list[list[str]]:
    pairs = [(name, float(result["mean"][name]), float(result["std"][name])) for name in known]
    return [
        [name, short(m), short(s), f"{short(m - _Z * s)} to {short(m + _Z * s)}", _above(m, s)]
        for name, m, s in pairs
    ]


def _above(mean: float, std: float) -> str:
    if std <= 0:
        return "–"
    return chance_text(0.5 * math.erfc(-mean / std / math.sqrt(2)))


# ------------------------------------------------------------- networks and clusters


def _network(reading: RunReading, result: Mapping[str, Any]) -> list[Block]:
    layers = [int(size) for size in result["layers"]]
    count = sum((a + 1) * b for a, b in pairwise(layers))
    pairs = [
        ("predicts", str(result.get("target", ""))),
        ("from", listed([str(name) for name in result.get("features", [])], 12)),
        ("layers", " → ".join(f"{size:,}" for size in layers)),
        ("activation", str(result.get("activation", ""))),
        ("parameters", f"{count:,}"),
        (
            "classes",
            listed([str(name) for name in result["classes"]], 12)
            if "classes" in result
            else "none: it estimates a number",
        ),
        ("where", 'result.npz beside this report: numpy.load("result.npz")'),
    ]
    return [
        Text(
            "A network's single parameters mean nothing to people; what counts is how well it "
            "does, which the next section says."
        ),
        FactList(pairs),
    ]


def _clusters(reading: RunReading, result: Mapping[str, Any]) -> list[Block]:
    groups = result["clusters"]
    margin, sure = float(result["size_margin"]), f"{share(result['confidence'])} confidence"
    names = [f"group {number + 1}" for number in range(len(groups))]
    sizes = [
        DrawnInterval(
            name, float(one["size"]), max(0.0, one["size"] - margin), one["size"] + margin
        )
        for name, one in zip(names, groups, strict=True)
    ]
    columns = list(groups[0]["centre"]) if groups else []
    blocks: list[Block] = [
        Text(
            f"{times(len(groups), 'typical group')} of records. Bars hold what these records "
            "have, before the noise."
        ),
        Intervals("How many records each group has", sizes, sure, RECORDS),
    ]
    for column in columns[:8]:
        items = [
            DrawnInterval(
                name,
                one["centre"][column],
                one["centre"][column] - one["margin"][column],
                one["centre"][column] + one["margin"][column],
            )
            for name, one in zip(names, groups, strict=True)
            if one["size"] > margin
        ]
        if items:
            blocks.append(Intervals(f"{column}, typical of each group", items, sure))
    rows = [
        [
            name,
            f"{short(one['size'])} ± {short(margin)}",
            *(
                f"{short(one['centre'][c])} ± {short(one['margin'][c])}"
                if one["size"] > margin
                else UNDETERMINED
                for c in columns
            ),
        ]
        for name, one in zip(names, groups, strict=True)
    ]
    blocks.append(ReportGrid("Groups: sizes and centres", ["group", "records", *columns], rows))
    if any(one["size"] <= margin for one in groups):
        blocks.append(Text(f"{UNDETERMINED.capitalize()}: {NO_GROUP}.", "note"))
    return blocks


def _average(reading: RunReading, result: Mapping[str, Any]) -> list[Block]:
    return [
        Text(f"{_sentence(result['note'])} Averaged are:"),
        *(Text(f"{place}. {own}") for place, own in enumerate(result["average"], 1)),
    ]


_KINDS = {
    "average": _average,
    "table": _table_one,
    "evaluation": _judged,
    "answers": _answers,
    "kaplan_meier": _survival,
    "concordance": _concordance,
    "clusters": _clusters,
    "layers": _network,
    "coefficients": _regression,
    "mean": _posterior,
    "weights": _weights,
    "classes": _classes,
}


def _sentence(words: Any) -> str:
    text = str(words).strip()
    return text[:1].upper() + text[1:] + ("" if not text or text[-1] in ".!?" else ".")


def _indented(document: Any) -> str:
    return json.dumps(document, indent=1, ensure_ascii=False)


__all__ = ["MOST", "findings", "public_widths"]
