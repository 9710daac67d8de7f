"""The answers of `unisono privacy` as text: plain words before symbols."""

import math

from rich.console import Console
from rich.table import Table

from unisono.cli import words
from unisono.cli.answers import Calibration, Picture, StatedCost, UnderRelation
from unisono.cli.comparison import ComparisonLine
from unisono.cli.inputs import TypedQuestion
from unisono.cli.output import console
from unisono.core.trust import Unit


def write_cost(found: StatedCost) -> None:
    out = console()
    out.print(describe(found.question, found.noise), style="dim")
    out.print()
    _write_meaning(out, found)
    out.print()
    out.print(_numbers(found))


def write_calibration(found: Calibration) -> None:
    out = console()
    cost = found.cost
    noise = words.plain(cost.noise, 6)
    out.print(
        f"Use a noise multiplier of {noise}, the least {cost.question.mechanism} noise that keeps "
        f"epsilon at or below {words.plain(found.target)}.",
        style="bold",
    )
    out.print(describe(cost.question, cost.noise), style="dim")
    out.print()
    _write_meaning(out, cost)
    out.print()
    out.print(_numbers(cost))
    if found.classical is not None:
        out.print()
        line = found.classical
        mark = "" if line.valid else "INVALID: "
        out.print(
            f"For comparison, {line.name}: noise multiplier {words.number(line.noise)}, true "
            f"epsilon {words.number(line.true_epsilon)} ({mark}{line.reason})."
        )


def write_comparison(
    question: TypedQuestion, noise: float, lines: list[ComparisonLine], plot: str | None
) -> None:
    out = console()
    out.print(describe(question, noise), style="dim")
    out.print()
    usable = [line for line in lines if line.valid]
    if usable:
        out.print(
            f"The tightest true bound is epsilon {words.number(usable[0].epsilon)} at delta "
            f"{words.plain(question.delta)} under {question.relation}, by: {usable[0].name}.",
            style="bold",
        )
    if len(usable) < len(lines):
        out.print("A number marked INVALID is not a guarantee, however small it looks.")
    out.print()
    notes = list(dict.fromkeys(line.note for line in lines if line.note))
    out.print(_comparison_table(lines, notes))
    for mark, note in enumerate(notes, start=1):
        out.print(f"[{mark}] {note}")
    _mention_picture(out, plot)


def write_picture(found: Picture, plot: str | None) -> None:
    out = console()
    out.print(describe(found.question, found.noise), style="dim")
    out.print()
    last = found.question.count
    out.print(
        f"After {words.times(last, 'release')} epsilon is at most "
        f"{words.number(found.epsilons[-1])} at delta {words.plain(found.question.delta)} "
        f"(after the first: {words.number(found.epsilons[0])})."
    )
    for alpha in (0.01, 0.1):
        missed = _interpolate(found, alpha)
        out.print(
            f"A test that raises a false alarm {words.percent(alpha)} of the time misses at least "
            f"{math.floor(1000 * missed) / 10:g} % of the true cases (chance: "
            f"{100 * (1 - alpha):g} %)."
        )
    out.print()
    if plot is None:
        out.print(_rounds_table(found))
        out.print("Add --plot curve.png for a picture.", style="dim")
    _mention_picture(out, plot)


def describe(question: TypedQuestion, noise: float) -> str:
    """The question in one sentence.

    >>> from unisono.cli.inputs import MechanismName
    >>> print(describe(TypedQuestion(MechanismName("laplace"), count=2), 4.0))
    2 releases with laplace noise of multiplier 4 (a scale of 4 times the largest norm of one \
record); every record takes part.
    """
    size = words.plain(noise, 6)
    return (
        f"{words.times(question.count, 'release')} with {question.mechanism} noise of multiplier "
        f"{size} ({question.entry.measure.format(size)}); {words.sampler_words(question.sampler)}."
    )


def _write_meaning(out: Console, found: StatedCost) -> None:
    if found.success is not None:
        out.print(found.success.sentence, style="bold")
    for blind, bound in found.reconstruction:
        out.print(words.reconstruction_words(blind, bound))
    asked = found.question
    out.print(words.promise_words(found.epsilon, asked.delta, asked.relation, Unit.RECORD))
    meaning = found.question.entry.meaning(found.question.event(found.noise).noise)
    if meaning:
        out.print(meaning)


def _numbers(found: StatedCost) -> Table:
    table = _table("", "value")
    table.add_row("epsilon", words.number(found.epsilon))
    table.add_row("delta", words.plain(found.question.delta))
    if math.isfinite(found.pure_epsilon) and found.question.delta > 0:
        table.add_row("epsilon at delta 0", words.number(found.pure_epsilon))
    table.add_row("method", found.method)
    table.add_row("membership advantage", words.number(found.advantage))
    for blind, bound in found.reconstruction:
        table.add_row(f"reconstruction, {words.one_in(blind)} guess", words.number(bound))
    for under in found.relations:
        table.add_row(f"epsilon, {under.relation}", _under_words(under))
    return table


def _under_words(under: UnderRelation) -> str:
    if under.epsilon is None:
        return "not defined for this release (--json says why)"
    return f"{words.number(under.epsilon)}  ({words.RELATION_WORDS[under.relation]})"


def _comparison_table(lines: list[ComparisonLine], notes: list[str]) -> Table:
    """One row for each accountant, its remark by number."""
    table = _table("accountant", "epsilon", "", right=(1,))
    for line in lines:
        shown = words.number(line.epsilon)
        if line.lower is not None:
            shown = f"{math.floor(line.lower * 1e4) / 1e4:.6g} .. {shown}"
        remark = "" if line.valid else "INVALID "
        remark += f"[{notes.index(line.note) + 1}]" if line.note else ""
        table.add_row(line.name, shown, remark, style=None if line.valid else "dim")
    return table


def _rounds_table(found: Picture) -> Table:
    table = _table("releases", "epsilon", "share", right=(0, 1))
    top = max((e for e in found.epsilons if math.isfinite(e)), default=1.0) or 1.0
    for count, epsilon in zip(found.rounds, found.epsilons, strict=True):
        table.add_row(f"{count:,}", words.number(epsilon), words.bar(epsilon / top, 30).rstrip("-"))
    return table


def _interpolate(found: Picture, alpha: float) -> float:
    """Smallest false negative rate after all releases: convex, so the lower neighbour's chord
    would overstate it; the next tabulated rate to the right is a valid lower bound."""
    rates = found.trade_offs[-1][1]
    return next(r for a, r in zip(found.false_positives, rates, strict=True) if a >= alpha)


def _mention_picture(out: Console, plot: str | None) -> None:
    if plot is not None:
        out.print(f"\nPicture written to {plot}")


def _table(*headings: str, right: tuple[int, ...] = ()) -> Table:
    from rich import box

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_header=any(headings[:1]))
    for index, heading in enumerate(headings):
        table.add_column(
            heading,
            justify="right" if index in right else "left",
            no_wrap=index in right,
            overflow="fold",
        )
    return table
