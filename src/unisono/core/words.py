"""Plain words and rounded numbers. Upper bounds are rounded up, so that what is printed is true."""

import difflib
import math
from collections.abc import Iterable, Mapping
from typing import Any
from unicodedata import category

from unisono.core.trust import Relation

# Said of a coefficient in every output, in place of an estimate.
NOTHING_LEARNT = "nothing was learnt (this is the prior)"
# Of a cluster in which noise counts more records than there may be.
NO_GROUP = "the noise is larger than the group, which may have no records at all"


def number(value: float, digits: int = 4) -> str:
    """An upper bound with `digits` significant digits, rounded up.

    >>> number(0.123412), number(1234567.0), number(math.inf), number(2.0)
    ('0.1235', '1234567', 'infinite', '2')
    """
    if math.isnan(value):
        return "-"
    if math.isinf(value):
        return "infinite"
    return plain(round_up(value, digits), digits)


def round_up(value: float, digits: int) -> float:
    """The least decimal of `digits` significant digits that is not below `value` (>= 0).

    >>> round_up(3.73063, 4), round_up(2.5, 4)
    (3.731, 2.5)
    """
    if value == 0 or not math.isfinite(value):
        return value
    places = digits - 1 - math.floor(math.log10(abs(value)))
    if places <= 0:
        return float(math.ceil(value))
    rounded = round(value, places)
    return rounded if rounded >= value else round(value + 10.0**-places, places)


def remaining(value: float, digits: int = 4) -> str:
    """What is left of something, rounded down.

    >>> remaining(5.00007), remaining(4.99999), remaining(0.0), remaining(0.123456)
    ('5', '4.999', '0', '0.1234')
    """
    if value <= 0:
        return "0"
    places = digits - 1 - math.floor(math.log10(value))
    return plain(math.floor(value * 10.0**places) / 10.0**places, digits)


def p_text(value: float) -> str:
    """A p value as journals print it.

    >>> p_text(0.0321), p_text(1e-7), p_text(1.0)
    ('.032', '<.001', '1.000')
    """
    return "<.001" if value < 0.001 else f"{value:.3f}".lstrip("0")


def chance_text(value: float) -> str:
    """A probability that is neither certain nor impossible.

    >>> chance_text(0.304), chance_text(1e-9), chance_text(0.99999)
    ('30.4 %', '<0.1 %', '>99.9 %')
    """
    if value < 0.001:
        return "<0.1 %"
    return ">99.9 %" if value > 0.999 else f"{100 * value:.1f} %"


def plain(value: float, digits: int = 4) -> str:
    """A number without exponent where that stays readable.

    >>> plain(1e-6), plain(0.25), plain(10000.0)
    ('1e-06', '0.25', '10000')
    """
    if value == int(value) and abs(value) < 1e15:
        return str(int(value))
    return f"{value:.{digits}g}"


def percent(probability: float) -> str:
    """A probability as a percentage, rounded up: one decimal, or two digits below 1 %.

    >>> percent(0.69146), percent(1.0), percent(0.5), percent(0.004796)
    ('69.2 %', '100 %', '50 %', '0.48 %')
    """
    if probability < 0.01:
        return f"{number(100 * probability, 2)} %"
    return f"{hundredths(probability):g} %"


def hundredths(probability: float) -> float:
    """How many of a hundred, to one decimal, rounded up.

    >>> hundredths(0.73106), hundredths(0.5), hundredths(1.0)
    (73.2, 50.0, 100.0)
    """
    return min(math.ceil(round(probability * 1000, 9)) / 10, 100.0)


def one_in(probability: float) -> str:
    """A small probability as odds.

    >>> one_in(1e-5), one_in(0.001), one_in(0)
    ('1 in 100,000', '1 in 1,000', 'nothing')
    """
    if probability == 0:
        return "nothing"
    odds = math.floor(1 / probability + 1e-6)
    return f"1 in {odds:,}" if odds < 1e15 else f"{probability:g}"


def times(count: int, thing: str, things: str = "") -> str:
    """A counted noun.

    >>> times(1, "release"), times(2000, "release"), times(2, "entry", "entries")
    ('1 release', '2,000 releases', '2 entries')
    """
    return f"{count:,} {thing if count == 1 else things or thing + 's'}"


RELATION_WORDS = {
    Relation.REPLACE_ONE: "your record exchanged for any other",
    Relation.ZERO_OUT: "your values blanked out",
    Relation.ADD_OR_REMOVE: "your record there or not",
}


def budget_guess(epsilon: float, delta: float) -> float:
    """The largest success probability of an attack that tells two neighbors apart, both as likely,
    under any (epsilon, delta) mechanism.

    The trade-off curve's line with slope -e^epsilon bounds the sum of both errors:
    success <= (e^epsilon + delta) / (1 + e^epsilon).

    >>> budget_guess(0.0, 0.0), round(budget_guess(1.0, 0.0), 4)
    (0.5, 0.7311)
    """
    return 1.0 if epsilon > 700 else (math.exp(epsilon) + delta) / (1 + math.exp(epsilon))


_UNITS = {"person": "all records of one person", "party": "the data of one party"}
_CHANGES: Mapping[str, str] = {
    Relation.REPLACE_ONE: "exchanging {} for any other",
    Relation.ZERO_OUT: "leaving {} blank",
    Relation.ADD_OR_REMOVE: "adding or removing {}",
}


def promise_words(epsilon: float, delta: float, relation: str, unit: str) -> str:
    """The definition of (epsilon, delta) for a reader who has never seen it.

    >>> print(promise_words(1.0, 0.0, "zero-out", "record"))
    Whatever comes out, leaving one record blank makes it at most 2.72 times as likely (e^epsilon).
    """
    if math.isinf(epsilon):
        return "There is no guarantee: epsilon is infinite."
    allowance = f", apart from an allowance of {one_in(delta)} (delta)" if delta > 0 else ""
    change = _CHANGES.get(relation, "a change of {}").format(_UNITS.get(unit, f"one {unit}"))
    if epsilon > 20:
        return (
            f"{change[:1].upper()}{change[1:]} may make a result more than a hundred million times "
            f"as likely{allowance}: hardly a guarantee."
        )
    return (
        f"Whatever comes out, {change} makes it at most "
        f"{number(math.exp(epsilon), 3)} times as likely (e^epsilon){allowance}."
    )


# Categories of characters that begin another line, move a cursor, turn the direction of writing or
# are not text at all; two of them join letters in Persian and Hindi, and stay.
_CONTROLS = frozenset(("Cc", "Cf", "Cs", "Zl", "Zp"))
_JOINERS = "\u200c\u200d"


def controls(text: str) -> str:
    """The characters of a text that could forge what a screen or a page shows.

    >>> controls("title\\n  epsilon 0.1"), controls("naïve α"), controls("\\u202egpj.exe")
    ('\\n', '', '\\u202e')
    """
    if text.isprintable():
        return ""
    return "".join(c for c in text if category(c) in _CONTROLS and c not in _JOINERS)


def clean(text: str) -> str:
    """Somebody else's text for one line of a screen or a page.

    >>> clean("a\\x1b[31mb\\nc\\u202e")
    'a?[31mb?c?'
    """
    found = controls(text)
    return text.translate(dict.fromkeys(map(ord, found), "?")) if found else text


def clean_lines(text: str) -> str:
    """The same for text of several lines, in which tabs stay."""
    kept = ("\t".join(map(clean, line.split("\t"))) for line in text.split("\n"))
    return "\n".join(kept)


def did_you_mean(said: object, known: Iterable[str]) -> str:
    """What was probably meant by an unknown name, as the end of a sentence; else nothing.

    >>> did_you_mean("logistic-regresion", ["statistics", "logistic-regression"])
    "; did you mean 'logistic-regression'?"
    """
    plain = {name.casefold().replace("_", "-"): name for name in known}
    word = str(said).strip().casefold().replace("_", "-").replace(" ", "-")
    close = difflib.get_close_matches(word, plain, n=1, cutoff=0.7)
    return f"; did you mean {plain[close[0]]!r}?" if close else ""


def jsonable(value: Any) -> Any:
    """The same document with infinity as "inf" and NaN as null, which JSON can hold."""
    if isinstance(value, float):
        return "inf" if math.isinf(value) else None if math.isnan(value) else value
    if isinstance(value, Mapping):
        return {str(k): jsonable(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(v) for v in value]
    return value
