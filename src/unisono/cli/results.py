"""A result in plain words, as `run` prints it: what people read, not how it is written down."""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from shutil import get_terminal_size
from textwrap import indent
from typing import Any

from unisono.algorithms.concordance import as_text as concordance_text
from unisono.algorithms.estimates import UNDETERMINED, answer_text
from unisono.algorithms.evaluation_text import evaluation_text, judged_text, learnt_from
from unisono.algorithms.survival_curves import as_text as survival_text
from unisono.algorithms.table_layout import as_text
from unisono.core.words import NO_GROUP, NOTHING_LEARNT
from unisono.models import inference

# Said elsewhere, or for machines.
_HIDDEN = ("format", "title", "study", "file", "fitted")
_MOST = 40  # rows of a list that a terminal shows
_WIDEST = 98  # letters of a line on a narrow terminal, beside its margin of two
_Z = 1.959964  # 95 % of a normal distribution lie within so many standard deviations
Document = Mapping[str, Any]


def result_text(shown: Document) -> str:
    """The document as lines; numbers with four digits, answers of a survey as it says them.

    >>> print(result_text({"title": "ages", "rounds_opened": 1, "answers": [
    ...     {"name": "mean of age", "value": 41.23, "interval": [40.5, 42.0], "confidence": 0.95,
    ...      "note": "noise was added."}]}))
    RESULT  ages
      rounds_opened: 1
      mean of age: 41.23, 95% interval [40.5, 42] for these records
        noise was added.
    """
    rest = {key: value for key, value in shown.items() if key not in _HIDDEN}
    if "fills" in rest:
        rest["in the place of missing values"] = rest.pop("fills")
    if "private_bounds" in rest:
        rest["ranges that were paid for"] = _ranges(rest.pop("private_bounds"))
    if "private_values" in rest:
        rest["values that were paid for"] = _values(rest.pop("private_values"))
    if "search" in rest:
        from unisono.studies.search import searched_words

        rest["chosen"] = "\n    ".join(searched_words(rest.pop("search")))
    for key, said in _KINDS.items():
        if key in rest and "failed" not in rest:
            words, hidden = said(rest)
            general = {k: v for k, v in rest.items() if k not in hidden}
            lines = [*_lines(general, "  "), indent(words, "  ")]
            return "\n".join([f"RESULT  {shown.get('title', '')}", *lines])
    return "\n".join([f"RESULT  {shown.get('title', '')}", *_lines(rest, "  ")])


def _ranges(found: Mapping[str, Sequence[float]]) -> str:
    """Ranges of columns that had no bounds.

    >>> _ranges({"age": [18.0, 90.0], "dose": [0.0, 2.5]})
    'age 18 to 90, dose 0 to 2.5'
    """
    return ", ".join(_shorter([f"{n} {_plain(a)} to {_plain(b)}" for n, (a, b) in found.items()]))


def _values(found: Mapping[str, Sequence[str]]) -> str:
    """Values of columns that had no list.

    >>> _values({"diagnosis": ["flu", "cold"], "ward": []})
    'diagnosis: flu, cold; ward: none'
    """
    return "; ".join(f"{name}: {', '.join(own) or 'none'}" for name, own in found.items())


# ------------------------------------------------------------- by kind
# Each gives its words, and the keys that they take the place of.


def _table(shown: Document) -> tuple[str, Sequence[str]]:
    return as_text(shown["table"], get_terminal_size().columns - 2), ("table",)


def _evaluation(shown: Document) -> tuple[str, Sequence[str]]:
    text = evaluation_text(shown["evaluation"], float(shown["confidence"]))
    hidden = ("evaluation", "judged", "target", "by", "confidence", "note", "learnt_from")
    words = [judged_text(shown), text, learnt_from(shown), str(shown.get("note", ""))]
    return "\n".join(one for one in words if one), hidden


def _answers(shown: Document) -> tuple[str, Sequence[str]]:
    return "\n".join(answer_text(answer) for answer in shown["answers"]), ("answers",)


def _survival(shown: Document) -> tuple[str, Sequence[str]]:
    note = str(shown.get("note", ""))
    lines = [survival_text(shown["kaplan_meier"]), *([note] if note else [])]
    return "\n".join(lines), ("kaplan_meier", "target", "note")


def _concordance(shown: Document) -> tuple[str, Sequence[str]]:
    note = str(shown.get("note", ""))
    lines = [concordance_text(shown["concordance"]), *([note] if note else [])]
    return "\n".join(lines), ("concordance", "target", "note")


def _posterior(shown: Document) -> tuple[str, Sequence[str]]:
    """Coefficients with their intervals, or that nothing was learnt of them; no covariance.

    >>> found = {"mean": {"age": 0.5, "dose": 0.1}, "std": {"age": 0.1, "dose": 9.0},
    ...          "learnt": {"age": True, "dose": False}, "note": ""}
    >>> print(_posterior(found)[0])
    coefficients
      age: 0.5, 95 % interval 0.304 to 0.696
      dose: nothing was learnt (this is the prior)
    """
    said = []
    for name, mean in shown["mean"].items():
        if "std" not in shown:
            said.append(f"{name}: {_plain(mean)}")
        elif not shown["learnt"][name]:
            said.append(f"{name}: {NOTHING_LEARNT}")
        else:
            reach = _Z * shown["std"][name]
            ends = f"{_plain(mean - reach)} to {_plain(mean + reach)}"
            said.append(f"{name}: {_plain(mean)}, 95 % interval {ends}")
    note = str(shown.get("note", ""))
    lines = ["coefficients", *(f"  {line}" for line in _shorter(said)), *([note] if note else [])]
    hidden = (
        *("mean", "std", "learnt", "covariance", "names", "note"),
        *("noise_aware", "converged", "floored"),  # the note says so, where it matters
    )
    return "\n".join(lines), hidden


def _coefficients(shown: Document) -> tuple[str, Sequence[str]]:
    """A regression table as journals print it; what noise drowned has words and no numbers.

    >>> age = {"determined": True, "estimate": 0.03, "std_error": 0.0027, "z": 11.1,
    ...        "interval": [0.0247, 0.0353], "p_value": 1e-9, "privacy_share": 0.32,
    ...        "ratio": 1.03, "ratio_interval": [1.025, 1.036]}
    >>> print(_coefficients({
    ...     "family": "binomial", "link": "log-odds", "target": "flu", "positive": "yes",
    ...     "confidence": 0.95, "ratio": "odds ratio", "note": "Noise drowned sex=male.",
    ...     "coefficients": {"age": age, "sex=male": {"determined": False}},
    ...     "features": {"age": {"bounds": [0, 99]}, "sex=male": {"reference": "sex=female"}}})[0])
    binomial regression: log-odds of flu = yes
              estimate  std err     95 % interval      z      p  privacy       odds ratio (95 %)
    age           0.03   0.0027  0.0247 to 0.0353  11.10  <.001     32 %  1.030 (1.025 to 1.036)
    sex=male  not determined: noise hides what data say
    compared with sex=female
    "privacy": the part of an interval's width that is noise
    One more unit of age multiplies the odds of flu = yes by 1.030 (95 % interval 1.025 to 1.036).
    Noise drowned sex=male.
    """
    found = shown["coefficients"]
    kept = dict(list(found.items())[:_MOST])
    widest = max(_WIDEST, get_terminal_size().columns - 2)
    table = inference.as_text(kept, str(shown["ratio"]), float(shown["confidence"]), widest)
    example = inference.example_in_words(shown)
    lines = [f"{shown['family']} regression: {shown['link']} of {inference.outcome(shown)}", table]
    if len(found) > len(kept):
        lines.append(f"and {len(found) - len(kept)} more in result.json")
    references = dict.fromkeys(
        str(own["reference"]) for own in shown["features"].values() if "reference" in own
    )
    if references:
        lines.append(f"compared with {_listed(list(references))}")
    if any(own["determined"] for own in found.values()):
        lines.append('"privacy": the part of an interval\'s width that is noise')
    lines += [example] if example else []
    lines += inference.tests_in_words(shown)
    hidden = (
        *("family", "link", "target", "confidence", "coefficients", "ratio", "names", "features"),
        *("covariance", "rounds", "negative", "positive", "note", "baseline", "errors", "tests"),
        *("scores", "event", "event_value", "doubts", "few_events"),
    )
    return "\n".join([*lines, str(shown["note"])]), hidden


def _clusters(shown: Document) -> tuple[str, Sequence[str]]:
    """A group in each row: how many records it has, and its centre.

    >>> one = {"centre": {"age": 41.0}, "margin": {"age": 2.0}, "size": 120.0}
    >>> print(_clusters({"clusters": [one], "size_margin": 9.0, "confidence": 0.95})[0])
    groups, each number ± its 95 % margin
               records  age
      group 1  120 ± 9  41 ± 2
    >>> none = {"centre": {"age": 120.0}, "margin": {"age": 240.0}, "size": 3.0}
    >>> print(_clusters({"clusters": [none], "size_margin": 9.0, "confidence": 0.95})[0])
    groups, each number ± its 95 % margin
               records  age
      group 1  3 ± 9    not determined
    not determined: the noise is larger than the group, which may have no records at all
    """
    groups, margin = shown["clusters"], shown["size_margin"]
    columns = list(groups[0]["centre"]) if groups else []
    rows = [["", "records", *columns]]
    for place, one in enumerate(groups, start=1):
        centre = (
            f"{_plain(one['centre'][c])} ± {_plain(one['margin'][c])}"
            if one["size"] > margin
            else UNDETERMINED
            for c in columns
        )
        rows.append([f"group {place}", f"{one['size']:.0f} ± {margin:.0f}", *centre])
    title = f"groups, each number ± its {shown['confidence']:.0%} margin".replace("%", " %")
    lines = [title, *_aligned(rows)]
    if any(one["size"] <= margin for one in groups):
        lines.append(f"{UNDETERMINED}: {NO_GROUP}")
    return "\n".join(lines), ("clusters", "size_margin", "confidence")


def _network(shown: Document) -> tuple[str, Sequence[str]]:
    """A network's parameters mean nothing to people: what it is, and where they lie."""
    layers = [int(size) for size in shown["layers"]]
    count = sum((a + 1) * b for a, b in pairwise(layers))
    words = " → ".join(map(str, layers))
    lines = [
        f"a network of layers {words} ({shown['activation']}), {count:,} parameters in result.npz",
        f"from {_listed(shown['features'])}",
    ]
    if "classes" in shown:
        lines += [f"classes: {_listed(shown['classes'])}", str(shown["note"])]
    hidden = (
        "layers",
        "activation",
        "features",
        "classes",
        "arrays",
        "target_scaling",
        "note",
        "calibrated",
    )
    return "\n".join(lines), hidden


# The note says what they come to.
_OF_PROBABILITIES = ("calibrated", "link", "features")


def _weights(shown: Document) -> tuple[str, Sequence[str]]:
    note = str(shown.get("note", ""))
    lines = [*_weighted(shown), *([note] if note else [])]
    return "\n".join(lines), ("weights", "intercept", "note", *_OF_PROBABILITIES)


def _classes(shown: Document) -> tuple[str, Sequence[str]]:
    """A class in each column."""
    models = shown["classes"]
    names = list(next(iter(models.values()))["weights"])
    rows = [["", *models], ["intercept", *(_plain(one["intercept"]) for one in models.values())]]
    rows += [[n, *(_plain(one["weights"][n]) for one in models.values())] for n in names]
    note = str(shown.get("note", ""))
    lines = ["weights of each class", *_aligned([rows[0], *_shorter(rows[1:], [])])]
    said = "\n".join([*lines, *([note] if note else [])])
    return said, ("classes", "note", *_OF_PROBABILITIES)


def _weighted(model: Document) -> list[str]:
    rows = [["intercept", _plain(model["intercept"])]]
    rows += [[name, _plain(weight)] for name, weight in model["weights"].items()]
    return ["weights", *_aligned(_shorter(rows, []))]


# In this order: of two keys that a result has, the first says what it is.
_KINDS: dict[str, Callable[[Document], tuple[str, Sequence[str]]]] = {
    "table": _table,
    "evaluation": _evaluation,
    "answers": _answers,
    "kaplan_meier": _survival,
    "concordance": _concordance,
    "clusters": _clusters,
    "layers": _network,
    "coefficients": _coefficients,
    "mean": _posterior,
    "weights": _weights,
    "classes": _classes,
}


# ------------------------------------------------------------- pieces


def _shorter(rows: Sequence[Any], more: Any = "") -> list[Any]:
    """Not more rows than people read."""
    if len(rows) <= _MOST:
        return list(rows)
    words = f"and {len(rows) - _MOST} more in result.json"
    return [*rows[:_MOST], words if more == "" else [words, *[""] * (len(rows[0]) - 1)]]


def _listed(names: Sequence[Any], most: int = 12) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(str(name) for name in names[:most]) + more


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    return [
        "  " + "  ".join(w.ljust(size) for w, size in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _lines(value: Any, margin: str) -> list[str]:
    """Names and numbers, indented: what no kind above says in words."""
    if isinstance(value, dict):
        lines = []
        for key, inner in value.items():
            if isinstance(inner, (dict, list)) and inner and not _short(inner):
                lines += [f"{margin}{key}", *_lines(inner, margin + "  ")]
            else:
                lines.append(f"{margin}{key}: {_plain(inner)}")
        return lines
    if isinstance(value, list):
        lines = []
        for inner in value:
            block = _lines(inner, margin + "  ")
            block[0] = f"{margin}- {block[0].lstrip()}"
            lines += block
        return lines
    return [f"{margin}{_plain(value)}"]


def _short(value: Any) -> bool:
    """A list of a few plain values stays on one line."""
    return isinstance(value, list) and not any(isinstance(one, (dict, list)) for one in value)


def _plain(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return "[" + ", ".join(_plain(one) for one in value) + "]"
    return str(value)
