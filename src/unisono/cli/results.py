"""A result in plain words: names and numbers, indented."""

from textwrap import indent
from typing import Any

from unisono.algorithms.estimates import answer_text
from unisono.core.words import NOTHING_LEARNT

# Said elsewhere, or for machines.
_HIDDEN = ("format", "title", "study", "file")


def result_text(shown: dict[str, Any]) -> str:
    """The document as lines; numbers with four digits, answers of a survey as it says them.

    >>> print(result_text({"title": "ages", "rounds_opened": 1, "answers": [
    ...     {"name": "mean of age", "value": 41.23, "interval": [40.5, 42.0], "confidence": 0.95,
    ...      "note": "noise was added."}]}))
    RESULT  ages
      rounds_opened: 1
      mean of age: 41.23, 95% interval [40.5, 42]
        noise was added.
    """
    rest = {key: value for key, value in shown.items() if key not in _HIDDEN}
    answers = rest.pop("answers", [])
    if "learnt" in rest:
        rest = _posterior(rest)
    said = [indent(answer_text(answer), "  ") for answer in answers]
    return "\n".join([f"RESULT  {shown.get('title', '')}", *_lines(rest, "  "), *said])


def _posterior(shown: dict[str, Any]) -> dict[str, Any]:
    """Coefficients with their intervals, or that nothing was learnt of them; no covariance.

    >>> found = {"mean": {"age": 0.5, "dose": 0.1}, "std": {"age": 0.1, "dose": 9.0},
    ...          "learnt": {"age": True, "dose": False}, "note": ""}
    >>> _posterior(found)["coefficients"]
    {'age': '0.5, 95 % interval 0.304 to 0.696', 'dose': 'nothing was learnt (this is the prior)'}
    """
    hidden = ("mean", "std", "learnt", "covariance", "names")
    said = {}
    for name, learnt in shown["learnt"].items():
        mean, reach = shown["mean"][name], 1.959964 * shown["std"][name]
        ends = f"{_plain(mean - reach)} to {_plain(mean + reach)}"
        said[name] = f"{_plain(mean)}, 95 % interval {ends}" if learnt else NOTHING_LEARNT
    rest = {key: value for key, value in shown.items() if key not in hidden}
    note = {"note": rest.pop("note")}
    return {**rest, "coefficients": said, **note}


def _lines(value: Any, margin: str) -> list[str]:
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
