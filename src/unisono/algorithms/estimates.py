"""A released statistic: its value, how far the noise may have moved it, and what it cost.

Every statistic that leaves Unisono is an `Estimate`: those of `unisono.mean` and its neighbours, of
`unisono query`, of statistics studies, of private scaling and of private tests.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from markupsafe import Markup

from unisono.accounting.curve import PrivacyCurve
from unisono.core import notebook
from unisono.core.certificate import Certificate
from unisono.core.success import AttackSuccess, attack_success
from unisono.core.trust import Relation, Viewer, describe
from unisono.core.words import number, p_text

Interval = tuple[Any, Any]
# Said in place of a number that noise swamps.
UNDETERMINED = "not determined"
# What the two intervals of an estimate are about.
RECORDS, POPULATION = "these records", "the population they were drawn from"


@dataclass(frozen=True)
class Guarantee:
    """What a release costs one `unit` (a record, a party): epsilon at delta under a relation,
    against these viewers, who all see the same.

    `success` bounds the success probability of the best attack, and says on which question; None
    where nothing is promised. It is read off the whole privacy curve, not off epsilon alone.
    """

    viewers: tuple[Viewer, ...]
    epsilon: float
    delta: float
    relation: Relation
    unit: str
    success: AttackSuccess | None

    @property
    def guess(self) -> float:
        """The success probability of the best attack that tells two neighbors apart."""
        return 1.0 if self.success is None else self.success.neighbors


@dataclass(frozen=True)
class HypothesisTest:
    """What a release says of a hypothesis, with the noise counted in.

    `privacy_share` is the part of the interval's width that the noise of privacy is. Where noise
    hides the sizes that everything else is divided by, there is neither statistic nor p value.
    `adjusted_p` is Holm's, for all tests of one release together, where there are several.
    """

    hypothesis: str
    kind: str
    statistic: float | None
    degrees: float | None
    p_value: float | None
    privacy_share: float
    adjusted_p: float | None = None

    def to_json(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if value is not None}


@dataclass(frozen=True)
class Estimate:
    """A released statistic.

    `interval` holds the statistic *of these records* (after clipping to the public bounds) with
    probability `confidence`: noise and rounding are in it, and it holds for all numbers of an
    array at once. `population_interval`, where it is given, also accounts for the sampling error:
    it is about the population that the records were drawn from, if they were drawn independently.
    Texts, pages and reports label the two.

    `determined`, where it is given, says of each number whether the noise leaves anything of it: a
    standard deviation that may as well be 0 is not printed as one. `test`, where two groups or two
    categories are compared, is of the hypothesis that there is no difference.

    `guarantees` say what the release cost, at the delta and under the relation that were asked for;
    all estimates of one release were paid for together. `str` tells everything in plain words,
    `text` leaves out the guarantee, which the `certificate` states once for all estimates.
    """

    name: str
    value: Any
    interval: Interval
    confidence: float
    note: str
    certificate: Certificate
    population_interval: Interval | None = None
    labels: tuple[Any, ...] = field(default=())
    determined: Any = None
    test: HypothesisTest | None = None
    unit: str = ""  # "records" of counts

    @cached_property
    def guarantees(self) -> tuple[Guarantee, ...]:
        """One for all viewers who see the same, the worst first."""
        return tuple(sorted(_guarantees(self.certificate), key=lambda one: -one.epsilon))

    @property
    def epsilon(self) -> float:
        """What the release cost, against the viewer who sees most."""
        return self.guarantees[0].epsilon

    @property
    def delta(self) -> float:
        return self.guarantees[0].delta

    @property
    def relation(self) -> Relation:
        return self.guarantees[0].relation

    @property
    def guess(self) -> float:
        """The success probability of the best attack that tells two neighbors apart, at most, by
        whoever sees most."""
        return self.guarantees[0].guess

    @property
    def simulated(self) -> bool:
        """Whether the noise came from a seed, and protects nobody."""
        return self.certificate.simulated

    @property
    def text(self) -> str:
        """The answer in plain words."""
        return answer_text(self.to_json())

    def to_json(self) -> dict[str, Any]:
        document: dict[str, Any] = {
            "name": self.name,
            "value": _plain(self.value),
            "interval": [_plain(end) for end in self.interval],
            "confidence": self.confidence,
            "note": self.note,
        }
        if self.population_interval is not None:
            document["population_interval"] = [_plain(end) for end in self.population_interval]
        if self.unit:
            document["unit"] = self.unit
        if self.labels:
            document["labels"] = [_label(name) for name in self.labels]
        if self.determined is not None and not np.all(self.determined):
            document["determined"] = np.asarray(self.determined, bool).tolist()
        if self.test is not None:
            document["test"] = self.test.to_json()
        return document

    def _repr_html_(self) -> str:
        """As notebooks show it: the answer with its interval drawn, and what it cost."""
        return notebook.shown(
            self.name,
            *answer_parts(self.to_json()),
            *guaranteed_parts(self.certificate),
            simulated=self.simulated,
        )

    def __str__(self) -> str:
        alone = len(self.guarantees) == 1
        lines = [self.text]
        for one in self.guarantees:
            lines.append(_guarantee_words(one, "everyone" if alone else _named(one.viewers)))
        if self.simulated:
            lines.append("  SIMULATED: seeded noise protects nobody.")
        return "\n".join(lines)


def joined(
    name: str,
    labels: tuple[Any, ...],
    found: Sequence[Estimate],
    confidence: float,
    note: str,
) -> Estimate:
    """Single numbers of one release, whose intervals hold at once, as one estimate."""

    def ends(pairs: Sequence[Interval]) -> Interval:
        low, high = (np.array(end) for end in zip(*pairs, strict=True))
        return low, high

    known = np.array([one.determined is None or bool(np.all(one.determined)) for one in found])
    wider = [one.population_interval for one in found if one.population_interval is not None]
    return Estimate(
        name,
        np.array([one.value for one in found]),
        ends([one.interval for one in found]),
        confidence,
        note,
        found[0].certificate,
        ends(wider) if len(wider) == len(found) else None,
        labels,
        None if known.all() else known,
    )


def answer_text(shown: Mapping[str, Any]) -> str:
    """An estimate's JSON in plain words, one line for each of several numbers.

    >>> print(answer_text({"name": "flu", "value": [3.0, 1.0], "interval": [[1.0, 0.0], [5.0, 3.0]],
    ...                    "confidence": 0.95, "note": "noise.", "labels": ["north", "south"]}))
    flu: 95% intervals hold for all numbers at once, for these records
        north: 3 [1, 5]
        south: 1 [0, 3]
      noise.
    """
    (low, high), sure = shown["interval"], f"{shown['confidence']:.0%}"
    value, known = shown["value"], np.ravel(shown.get("determined", True))
    if np.ndim(value) == 0:
        said = _shown(value, low, high) if known[0] else UNDETERMINED
        lines = [f"{shown['name']}: {said}, {sure} interval {_span(low, high)} for {RECORDS}"]
        if "population_interval" in shown:
            span = _span(*shown["population_interval"])
            lines.append(f"  {sure} interval {span} for {POPULATION}")
    else:
        names = shown.get("labels") or range(np.size(value))
        known = np.broadcast_to(known, np.size(value))
        rows = zip(names, np.ravel(value), np.ravel(low), np.ravel(high), known, strict=True)
        lines = [f"{shown['name']}: {sure} intervals hold for all numbers at once, for {RECORDS}"]
        wider = [""] * np.size(value)
        if "population_interval" in shown:
            lines[0] += f"; then for {POPULATION}"
            ends = zip(*map(np.ravel, shown["population_interval"]), strict=True)
            wider = [f"; {_span(*pair)}" for pair in ends]
        lines += [
            f"    {name}: {_shown(v, a, b) if sees else UNDETERMINED} {_span(a, b)}{more}"
            for (name, v, a, b, sees), more in zip(rows, wider, strict=True)
        ]
    if "test" in shown:
        lines.append(f"  {_test_words(shown['test'])}")
    elif not known.all():
        lines.append(
            f"  {UNDETERMINED}: too noisy to estimate with so few records at this epsilon."
        )
    return "\n".join([*lines, f"  {shown['note']}"])


def answer_parts(shown: Mapping[str, Any]) -> list[Markup]:
    """The same as HTML."""
    (low, high), sure = shown["interval"], f"{shown['confidence']:.0%}"
    values, alone = np.ravel(shown["value"]), np.ndim(shown["value"]) == 0
    known = np.broadcast_to(np.ravel(shown.get("determined", True)), values.shape)
    names = [RECORDS] if alone else shown.get("labels") or range(1, len(values) + 1)
    rows = zip(names, values, np.ravel(low), np.ravel(high), known, strict=True)
    numbers = [
        notebook.ShownNumber(
            str(name),
            _shown(v, a, b) if sees else UNDETERMINED,
            _span(a, b),
            float(v) if sees else None,
            float(a),
            float(b),
        )
        for name, v, a, b, sees in rows
    ]
    if "population_interval" in shown:
        ends = map(np.ravel, shown["population_interval"])
        pairs = [
            (
                one,
                one._replace(
                    label=POPULATION if alone else f"{one.label}: {POPULATION}",
                    span=_span(a, b),
                    low=float(a),
                    high=float(b),
                ),
            )
            for one, a, b in zip(numbers, *ends, strict=True)
        ]
        numbers = [one for pair in pairs for one in pair]
    several = "" if alone else ", all at once"
    head = ["", "answer", f"{sure} interval{several}"]
    tested = _test_words(shown["test"]) if "test" in shown else ""
    return [
        # Numbers of one kind begin at zero where none is below it: lengths can be compared.
        notebook.intervals(numbers, head, zero=not alone),
        notebook.sentence(f"{tested[:1].upper()}{tested[1:]}." if tested else ""),
        notebook.sentence(f"{shown['note'][:1].upper()}{shown['note'][1:]}", "note"),
    ]


def guaranteed_parts(certificate: Certificate) -> list[Markup]:
    """What a release cost, in words, and its certificate for whoever opens it."""
    found = sorted(_guarantees(certificate), key=lambda one: -one.epsilon)
    alone = len(found) == 1
    said = [_guarantee_words(one, "everyone" if alone else _named(one.viewers)) for one in found]
    lines = [line.strip() for words in said for line in words.splitlines()]
    words = [f"{line[:1].upper()}{line[1:]}" for line in lines]
    return [
        *(notebook.sentence(one) for one in words),
        notebook.folded("Certificate", *certificate.as_parts(words=False)),
    ]


def _test_words(test: Mapping[str, Any]) -> str:
    """A test's JSON in plain words.

    >>> print(_test_words({"hypothesis": "means are equal", "kind": "t", "statistic": 2.31,
    ...                    "degrees": 431.2, "p_value": 0.0213, "privacy_share": 0.35,
    ...                    "adjusted_p": 0.0426}))
    that means are equal: t = 2.31 (df 431), p = .021, after Holm .043; privacy is 35 % of the width
    """
    if "p_value" not in test:
        return f"that {test['hypothesis']}: {UNDETERMINED}"
    said = p_text(test["p_value"])
    parts = [
        f"{test['kind']} = {test['statistic']:.3g}",
        f" (df {test['degrees']:.0f})" if "degrees" in test else "",
        f", p {said}" if said.startswith("<") else f", p = {said}",
        f", after Holm {p_text(test['adjusted_p'])}" if "adjusted_p" in test else "",
        f"; privacy is {100 * test['privacy_share']:.0f} % of the width",
    ]
    return f"that {test['hypothesis']}: {''.join(parts)}"


def _guarantees(certificate: Certificate) -> Iterator[Guarantee]:
    """From what each viewer was shown, at the delta and under the relation that were asked for."""
    asked = certificate.settings["privacy"]
    relation, delta = Relation(asked["relation"]), float(asked["delta"])
    viewers: dict[Any, list[Viewer]] = {}
    for viewer, history in certificate.events.items():
        viewers.setdefault(history, []).append(viewer)
    for history, seen_by in viewers.items():
        curve = PrivacyCurve(history, relation)
        # Events are the first party's: where parties have epsilons of their own, the weakest holds.
        epsilon = max(curve.epsilon(delta), *asked.get("own", ()), 0.0)
        stated = [line for line in certificate.lines if line.viewer in seen_by]
        success = attack_success(stated, relation, certificate.unit)
        yield Guarantee(tuple(seen_by), epsilon, delta, relation, certificate.unit, success)


def _guarantee_words(one: Guarantee, against: str) -> str:
    if not np.isfinite(one.epsilon) or one.success is None:
        return f"  guarantee: none against {against}"
    return (
        f"  guarantee: epsilon = {number(one.epsilon)}, delta = {one.delta:g}, {one.relation}, one "
        f"{one.unit}, against {against}\n"
        f"  in words:  {one.success.words}."
    )


def _named(viewers: tuple[Viewer, ...]) -> str:
    return ", ".join(describe(viewer) for viewer in viewers)


def _plain(value: Any) -> Any:
    return np.asarray(value, np.float64).tolist()


def _label(name: Any) -> str:
    return ", ".join(str(part) for part in name) if isinstance(name, tuple) else str(name)


def _shown(value: Any, low: Any, high: Any) -> str:
    """A number as exactly as its interval means: to the second digit of half its width.

    >>> _shown(866.867, 814.786, 918.949), _shown(0.471242, 0.469047, 0.473437)
    ('867', '0.4712')
    """
    return _written(round(float(value), _places(low, high)))


def _span(low: Any, high: Any) -> str:
    """An interval, rounded outwards: what it holds it still holds.

    >>> _span(59.9628, 63.6988), _span(0.0, 3.0), _span(1.0, 1.0)
    ('[59.9, 63.7]', '[0, 3]', '[1, 1]')
    """
    places = _places(low, high)
    return f"[{_written(_outwards(low, places, -1))}, {_written(_outwards(high, places, 1))}]"


def _places(low: Any, high: Any) -> int:
    """Decimals that say something: two digits of half the width, and never less than whole."""
    reach = (float(high) - float(low)) / 2
    if not (reach > 0 and math.isfinite(reach)):
        return 6
    return max(0, 1 - math.floor(math.log10(reach)))


def _outwards(end: Any, places: int, sign: int) -> float:
    """The nearest decimal that is not inside the end.

    >>> _outwards(0.3, 1, 1), _outwards(0.31, 1, 1), _outwards(-0.31, 1, -1)
    (0.3, 0.4, -0.4)
    """
    number = float(end)
    near = round(number, places)
    inside = (near - number) * sign < 0
    return round(near + sign * 10.0**-places, places) if inside else near


def _written(number: float) -> str:
    """Without an exponent where that stays readable.

    >>> _written(1234567.0), _written(3.0), _written(-0.0), _written(1e-9), _written(0.4712)
    ('1234567', '3', '0', '1e-09', '0.4712')
    """
    if number and not 1e-4 <= abs(number) < 1e15:
        return f"{number:g}"
    return f"{number + 0.0:.12f}".rstrip("0").rstrip(".")


__all__ = [
    "UNDETERMINED",
    "Estimate",
    "Guarantee",
    "HypothesisTest",
    "Interval",
    "answer_parts",
    "answer_text",
    "guaranteed_parts",
    "joined",
]
