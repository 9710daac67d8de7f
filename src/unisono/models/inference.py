"""Coefficients that a journal can print: estimates, errors, intervals, tests, and what drowned.

An `Inference` is N(estimate, covariance) of named coefficients in the user's units. Where noise
drowned a coefficient it is *not determined*, and has no numbers: what would be printed there is the
weak prior and nothing else. That is judged by direction, not by coefficient alone: with D the
prior's deviations, the eigenvectors of D⁻¹ V D⁻¹ with eigenvalues above 1/4 are those of which data
say little, and a coefficient that has most of its variance from them is one of them. V itself is
not known where noise may have made the curvature (`noisy_scores.weak_directions`): a coefficient of
whose prior variance a quarter lies there is not determined, however small V came out.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from markupsafe import Markup
from scipy.special import chdtrc, ndtr, ndtri

from unisono.algorithms.nested_tests import Evidence, distance
from unisono.core import notebook
from unisono.core.words import did_you_mean, p_text
from unisono.errors import InvalidInput

# Eigenvalues of a covariance over the prior's, above which a direction is not determined.
_UNKNOWN = 0.25
# What of a coefficient's variance may come from such directions.
_MOSTLY = 0.5
_SHORTEST = 12  # letters of a name that are left in any case
NOT_DETERMINED = "not determined: noise hides what data say"


@dataclass(frozen=True)
class Inference:
    """`estimate` (p,) of `names`, their `covariance` (p, p), the part of it that a sample without
    noise would have (`sampling`), and which are `determined` (p,). The intercept comes first.
    `ratio` says what exp(estimate) is called, where it has a name; `doubts` say in sentences why
    estimates and intervals may be wrong, `remarks` what else is to be known. `evidence` is what
    tests of nested models take, of coefficients that are multiples of those here but for the
    intercept. `limits` (p, 2) replace ends of intervals where they are not NaN: an infinite one
    where data set no limit on that side, as for a group without events."""

    names: tuple[str, ...]
    estimate: np.ndarray
    covariance: np.ndarray
    sampling: np.ndarray
    determined: np.ndarray
    ratio: str = ""
    doubts: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    evidence: Evidence | None = None
    limits: np.ndarray | None = None

    @property
    def std_error(self) -> np.ndarray:
        """Of every estimate (p,), sampling and noise together."""
        return np.sqrt(np.diagonal(self.covariance))

    @property
    def privacy_share(self) -> np.ndarray:
        """Which part of an interval's width the noise of privacy is (p,)."""
        without = np.clip(np.diagonal(self.sampling) / np.diagonal(self.covariance), 0.0, 1.0)
        return 1 - np.sqrt(without)

    @property
    def z(self) -> np.ndarray:
        return self.estimate / self.std_error

    @property
    def p_value(self) -> np.ndarray:
        """Two-sided (p,), that a coefficient is zero."""
        return 2 * ndtr(-np.abs(self.z))

    def interval(self, confidence: float = 0.95) -> np.ndarray:
        """Each holds its coefficient this often (p, 2)."""
        if not 0 < confidence < 1:
            raise InvalidInput(f"confidence = {confidence!r}: it lies between 0 and 1, as 0.95")
        reach = ndtri(0.5 + confidence / 2) * self.std_error
        ends = np.stack([self.estimate - reach, self.estimate + reach], axis=1)
        return ends if self.limits is None else np.where(np.isnan(self.limits), ends, self.limits)

    def wald(self, names: Sequence[str]) -> "WaldTest":
        """That all of these coefficients are zero at once."""
        places = self._tested(names)
        own = self.estimate[places]
        statistic = float(own @ np.linalg.solve(self.covariance[np.ix_(places, places)], own))
        return WaldTest(statistic, len(places), float(chdtrc(len(places), statistic)))

    def likelihood_ratio(self, names: Sequence[str]) -> "LikelihoodRatioTest":
        """Of this model against the smaller one without these columns, by how far the
        quasi-likelihood of what was released falls (`algorithms.nested_tests`)."""
        places = self._tested(names)
        if self.evidence is None or 0 in places:
            what = "the intercept" if 0 in places else "this result"
            raise InvalidInput(
                f"a likelihood-ratio test of {what}: it compares a model with one that has fewer "
                "columns; use Wald's test"
            )
        statistic = distance(self.evidence, places)
        p_value = float(chdtrc(len(places), statistic))
        return LikelihoodRatioTest(statistic, len(places), p_value)

    def _tested(self, names: Sequence[str]) -> list[int]:
        """Places of coefficients that can be tested."""
        places = [self._place(name) for name in names]
        unknown = [name for name, k in zip(names, places, strict=True) if not self.determined[k]]
        if unknown or not places:
            what = ", ".join(unknown) or "no coefficient"
            raise InvalidInput(f"a test of {what}: {NOT_DETERMINED}, so there is nothing to test")
        if len(set(places)) < len(places):
            raise InvalidInput(f"a test of {', '.join(names)}: name each once")
        return places

    def _place(self, name: str) -> int:
        if name not in self.names:
            raise InvalidInput(
                f"{name!r} is no coefficient: there are {', '.join(self.names)}"
                f"{did_you_mean(name, self.names)}"
            )
        return self.names.index(name)

    def to_json(self, confidence: float = 0.95) -> dict[str, Any]:
        """Every coefficient by its name; what is not determined has no numbers, and an end of an
        interval that is infinite is None."""
        ends = self.interval(confidence)
        found: dict[str, Any] = {}
        for place, name in enumerate(self.names):
            if not self.determined[place]:
                found[name] = {"determined": False}
                continue
            own = {
                "determined": True,
                "estimate": float(self.estimate[place]),
                "std_error": float(self.std_error[place]),
                "interval": [_finite(end) for end in ends[place]],
                "z": float(self.z[place]),
                "p_value": float(self.p_value[place]),
                "privacy_share": float(self.privacy_share[place]),
            }
            if self.ratio and name != "intercept":
                own["ratio"] = _exp(self.estimate[place])
                own["ratio_interval"] = [
                    None if _finite(end) is None else _exp(end) for end in ends[place]
                ]
            found[name] = own
        return found

    @cached_property
    def drowned(self) -> tuple[str, ...]:
        """The coefficients that are not determined."""
        return tuple(n for n, known in zip(self.names, self.determined, strict=True) if not known)


@dataclass(frozen=True)
class WaldTest:
    """Of `degrees` coefficients at once: a chi-square statistic."""

    statistic: float
    degrees: int
    p_value: float


@dataclass(frozen=True)
class LikelihoodRatioTest(WaldTest):
    """Of a model against a smaller one, with `degrees` coefficients fewer."""


def _exp(value: float) -> float:
    return float(math.exp(min(max(value, -700.0), 700.0)))


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def end_texts(ends: Sequence[float | None], text: Callable[[float], str]) -> list[str]:
    """Both ends of an interval; what is None is infinite.

    >>> end_texts([None, -1.25], "{:.3g}".format)
    ['no lower limit', '-1.25']
    """
    sides = zip(ends, ("lower", "upper"), strict=True)
    return [f"no {side} limit" if end is None else text(end) for end, side in sides]


def determined(
    covariance: np.ndarray,
    prior: np.ndarray,
    matrix: np.ndarray,
    weak: np.ndarray | None = None,
) -> np.ndarray:
    """Which rows of matrix · θ data say more of than the prior N(0, diag(prior²)) of θ (k,). `weak`
    (p, p) is the prior's covariance along directions of which data may say nothing."""
    relative = covariance / np.outer(prior, prior)
    values, vectors = np.linalg.eigh((relative + relative.T) / 2)
    parts = ((matrix * prior) @ vectors) ** 2
    variance = parts @ np.maximum(values, 0.0)
    unknown = parts @ np.where(values > _UNKNOWN, values, 0.0)
    before = parts.sum(axis=1)
    known = (unknown <= _MOSTLY * variance) & (variance <= _UNKNOWN * before)
    if weak is None:
        return known
    left = np.einsum("ij,jk,ik->i", matrix, weak, matrix)
    return known & (left <= _UNKNOWN * before)


def as_text(
    coefficients: Mapping[str, Any],
    ratio: str = "",
    confidence: float = 0.95,
    widest: int | None = None,
) -> str:
    """A table of coefficients, as `to_json` has them. Where lines would be longer than `widest`,
    long names lose their middle; numbers stay whole."""
    titles = _titles(ratio, confidence)
    rows = [_cells(name, own, bool(ratio)) for name, own in coefficients.items()]
    if widest is not None:
        room = widest - sum(
            2 + max([len(title), *(len(row[place]) for row in rows if place < len(row))])
            for place, title in enumerate(titles[1:], start=1)
        )
        rows = [[_without_middle(row[0], max(room, _SHORTEST)), *row[1:]] for row in rows]
    widths = [
        max([len(title), *(len(row[place]) for row in rows if place < len(row))])
        for place, title in enumerate(titles)
    ]

    def line(cells: Sequence[str]) -> str:
        pairs = list(zip(cells, widths, strict=True))
        first, others = pairs[0], pairs[1:]
        aligned = (cell.rjust(width) for cell, width in others)
        return "  ".join([first[0].ljust(first[1]), *aligned]).rstrip()

    def row_line(row: list[str]) -> str:
        known = len(row) == len(titles)
        return line(row) if known else f"{row[0].ljust(widths[0])}  {NOT_DETERMINED}"

    return "\n".join([line(titles), *map(row_line, rows)])


def as_grid(coefficients: Mapping[str, Any], ratio: str = "", confidence: float = 0.95) -> Markup:
    """The same table as HTML."""
    rows = [_cells(name, own, bool(ratio)) for name, own in coefficients.items()]
    shown = [row if len(row) > 1 else [*row, NOT_DETERMINED] for row in rows]
    return notebook.grid(_titles(ratio, confidence), shown)


def _titles(ratio: str, confidence: float) -> list[str]:
    percent = f"{100 * confidence:g} %"
    titles = ["", "estimate", "std err", f"{percent} interval", "z", "p", "privacy"]
    return [*titles, f"{ratio} ({percent})"] if ratio else titles


def _cells(name: str, own: Mapping[str, Any], ratio: bool) -> list[str]:
    if not own["determined"]:
        return [name]
    low, high = end_texts(own["interval"], "{:.3g}".format)
    cells = [
        name,
        f"{own['estimate']:.4g}",
        f"{own['std_error']:.3g}",
        f"{low} to {high}",
        f"{own['z']:.2f}",
        p_text(own["p_value"]),
        f"{100 * own['privacy_share']:.0f} %",
    ]
    if ratio:
        ends = own.get("ratio_interval")
        low, high = end_texts(ends, ratio_text) if ends else ("", "")
        cells.append(f"{ratio_text(own['ratio'])} ({low} to {high})" if ends else "")
    return cells


def _without_middle(name: str, letters: int) -> str:
    """
    >>> _without_middle("diagnosis=essential hypertension", 20), _without_middle("age", 20)
    ('diagnosis=…ertension', 'age')
    """
    if len(name) <= letters:
        return name
    return f"{name[: letters // 2]}…{name[len(name) - (letters - 1) // 2 :]}"


# ------------------------------------------------------------- in plain words


def outcome(shown: Mapping[str, Any]) -> str:
    """What the coefficients of a result explain: the target, its second value, or the event.

    >>> outcome({"target": "flu", "positive": "yes"}), outcome({"target": "visits"})
    ('flu = yes', 'visits')
    >>> outcome({"target": "months", "event": "status", "event_value": "dead"})
    'status = dead'
    """
    what, value = shown["target"], shown.get("positive")
    if "event" in shown:
        what, value = shown["event"], shown.get("event_value")
    return f"{what} = {value}" if value is not None else str(what)


def step_in_words(name: str, feature: Mapping[str, Any]) -> str:
    """What one step of a feature is.

    >>> step_in_words("age", {"bounds": [18, 100]})
    'one more unit of age'
    >>> step_in_words("sex=male", {"reference": "sex=female"})
    'sex=male instead of sex=female'
    """
    if "reference" in feature:
        return f"{name} instead of {feature['reference']}"
    return f"one more unit of {name}" if "bounds" in feature else f"{name}, where that holds,"


def effect_in_words(shown: Mapping[str, Any], name: str) -> str:
    """What a row of the table means, as a sentence about one step of its feature.

    >>> age = {"determined": True, "estimate": 0.03, "interval": [0.02, 0.04],
    ...        "ratio": 1.03, "ratio_interval": [1.02, 1.04]}
    >>> print(effect_in_words(
    ...     {"target": "flu", "positive": "yes", "ratio": "odds ratio", "confidence": 0.95,
    ...      "coefficients": {"age": age}, "features": {"age": {"bounds": [18, 100]}}}, "age"))
    One more unit of age multiplies the odds of flu = yes by 1.030 (95 % interval 1.020 to 1.040).
    """
    own = shown["coefficients"][name]
    step = step_in_words(name, shown["features"].get(name, {}))
    if not own["determined"]:
        return f"What {step} does is {NOT_DETERMINED}."
    what = shown["ratio"].removesuffix(" ratio")
    if what:
        number, ends = ratio_text(own["ratio"]), end_texts(own["ratio_interval"], ratio_text)
        does = f"multiplies the {what} of {outcome(shown)} by"
    else:
        number, ends = f"{own['estimate']:.3g}", end_texts(own["interval"], "{:.3g}".format)
        does = f"changes the mean of {outcome(shown)} by"
    low, high = ends
    sure = f"{100 * shown['confidence']:g} % interval {low} to {high}"
    return f"{step[:1].upper()}{step[1:]} {does} {number} ({sure})."


def example_in_words(shown: Mapping[str, Any]) -> str:
    """The clearest row of a table in plain words, or nothing where no row is determined."""
    known = {
        name: abs(own["z"])
        for name, own in shown["coefficients"].items()
        if own["determined"] and name in shown["features"]
    }
    return effect_in_words(shown, max(known, key=lambda name: known[name])) if known else ""


def tests_in_words(shown: Mapping[str, Any]) -> list[str]:
    """What the tests of columns with several coefficients say, a sentence for each.

    >>> ratio = {"statistic": 12.3, "p_value": 0.0021}
    >>> tests_in_words({"tests": {"stage": {"degrees": 2, "likelihood_ratio": ratio}}})
    ['Without stage the model is worse by a likelihood-ratio chi-square of 12.3 (2 df), p = .002.']
    """
    said = []
    for name, own in shown.get("tests", {}).items():
        found, degrees = own["likelihood_ratio"], own["degrees"]
        p_value = p_text(found["p_value"])
        p_value = p_value if p_value.startswith("<") else f"= {p_value}"
        said.append(
            f"Without {name} the model is worse by a likelihood-ratio chi-square of "
            f"{found['statistic']:.3g} ({degrees} df), p {p_value}."
        )
    return said


def ratio_text(value: float) -> str:
    """A ratio; those close to 1 with as many digits behind the point as those just below it.

    >>> ratio_text(1.0247), ratio_text(0.9731), ratio_text(2.041), ratio_text(12.34)
    ('1.025', '0.973', '2.04', '12.3')
    """
    return f"{value:.3f}" if 1 <= value < 1.1 else f"{value:.3g}"


__all__ = [
    "NOT_DETERMINED",
    "Inference",
    "LikelihoodRatioTest",
    "WaldTest",
    "as_grid",
    "as_text",
    "determined",
    "effect_in_words",
    "end_texts",
    "example_in_words",
    "outcome",
    "p_text",
    "ratio_text",
    "step_in_words",
    "tests_in_words",
]
