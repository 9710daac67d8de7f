"""The answers of `unisono ledger` as text: plain words before symbols."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.table import Column, Table

from unisono.cli import words
from unisono.cli.ledger_ahead import MOST, Ahead, Example
from unisono.cli.ledger_reader import Book, PlannedSpending
from unisono.cli.output import console
from unisono.core.events import Composed, Event, Poisson, WithoutReplacement
from unisono.core.ledger_summary import Summary
from unisono.core.policy import Budget, Policy
from unisono.core.raises import Raise
from unisono.core.success import budget_success
from unisono.core.trust import FINAL_MODEL, describe
from unisono.core.verification import Verification

_TORN = "The last line is incomplete: a crash while writing; it never paid for anything."


def policy_words(policy: Policy) -> list[str]:
    """The policy as sentences for a reader who has never seen one."""
    name = words.clean(policy.dataset)
    lines = [
        f"The data set '{name}' protects {words.protection_words(policy.unit, policy.relation)}.",
        _budget_meaning(policy),
        f"Nobody may learn more than {_budget_words(policy.budget)}.",
    ]
    if policy.budget.per_year is not None:
        lines.append(
            f"In one calendar year nobody may learn more than epsilon "
            f"{words.plain(policy.budget.per_year)} of it."
        )
    for viewer, budget in policy.exceptions:
        if math.isinf(budget.epsilon):
            lines.append(f"Exception: {describe(viewer)} is trusted and may see everything.")
        else:
            lines.append(f"Exception: {describe(viewer)} may learn up to {_budget_words(budget)}.")
    if policy.records_per_person > 1:
        lines.append(
            f"One person may have up to {policy.records_per_person} records, and is protected "
            "less than one record is."
        )
    if not policy.parties_disjoint:
        lines.append("A person may appear at several parties, and is then protected less.")
    return lines


def _budget_meaning(policy: Policy) -> str:
    budget = policy.budget
    found = budget_success(budget.epsilon, budget.delta, policy.relation, policy.unit)
    return f"Even when the whole budget is spent, {found.words}."


def _budget_words(budget: Budget) -> str:
    epsilon = f"epsilon {words.plain(budget.epsilon)}"
    if budget.delta == 0:
        return epsilon + " (delta 0)"
    return f"{epsilon} at delta {words.plain(budget.delta)} ({words.one_in(budget.delta)})"


def write_created(file: Path, policy: Policy, head: str) -> None:
    out = console()
    out.print(f"Created {file}.", style="bold")
    for line in policy_words(policy):
        out.print(line)
    out.print()
    _write_head(out, head)


def raise_words(found: Summary) -> list[str]:
    """How the budget became what it is."""
    if not found.raises:
        return []
    lowered = found.policy.budget != found.raises[-1].budget
    return [
        f"The budget began with {found.issued.words}.",
        *(
            f"Raised on {one.time[:10]} to {one.budget.words}: {words.clean(one.reason)} (signed "
            f"by {words.clean(one.signer)}, key {one.key[:16]}…)."
            for one in found.raises
        ),
        *(["The policy beside it allows less, and holds."] if lowered else []),
    ]


def ahead_words(future: Ahead) -> list[str]:
    """What may still be asked, in plain words."""
    ever, year = future.ever, future.this_year
    lines = [
        "What may still be asked:",
        f"  of epsilon {words.plain(ever.of)} in all studies together, "
        f"{ever.left.words(ever.delta)} is left",
    ]
    if year is not None:
        lines.append(
            f"  of epsilon {words.plain(year.of)} in {future.year}, {year.left.words(year.delta)} "
            f"is left; on 1 January {future.year + 1} (UTC) there is a new allowance, as long as "
            "the whole budget lasts"
        )
    lines += [f"  {one.what}: {_times_more(one, future.year)}" for one in future.examples]
    if future.clock_behind is not None:
        lines.append(
            f"  the last line is of {future.clock_behind}, which is later than this machine's "
            "clock: what is asked now counts from there, as dates never go back"
        )
    return lines


def _times_more(one: Example, year: int) -> str:
    if one.more == 0:
        return "no more"
    many = f"{one.more} more" if one.more < MOST else f"{MOST} more at least"
    if one.this_year is None or one.this_year == one.more:
        return many
    return f"{many}, {one.this_year or 'none'} of them in {year}"


def write_raised(file: Path, found: Raise, head: str, lower: Sequence[Path]) -> None:
    out = console()
    out.print(f"Raised the budget of {file}.", style="bold")
    out.print(f"From {found.before.words} to {found.budget.words}, on {found.time[:10]}.")
    out.print(f"Signed by {words.clean(found.signer)} with key {found.key[:16]}….")
    for path in lower:
        out.print(f"{path} allows less, and goes on to hold: change its budget too.")
    out.print()
    _write_head(out, head)


def write_book(book: Book, last: int, future: Ahead) -> None:
    out = console()
    found = book.summary
    for line in policy_words(found.policy):
        out.print(line, style="bold")
    if found.simulated:
        out.print("SIMULATION: the noise is predictable; nothing here protects real data.")
    out.print(
        f"Created {words.clean(found.created)}; {words.times(len(found.entries), 'grant')} so far."
    )
    for line in raise_words(found):
        out.print(line)
    if book.torn:
        out.print(_TORN)
    out.print()
    if not book.spending:
        out.print("Nothing has been spent.")
    alike: dict[PlannedSpending, list[str]] = {}
    for one in book.spending:
        alike.setdefault(replace(one, viewer=FINAL_MODEL), []).append(describe(one.viewer))
    for spending, viewers in alike.items():
        _write_spending(out, spending, viewers)
    for line in rule_words(book):
        out.print(line)
    out.print()
    for line in ahead_words(future):
        out.print(line)
    if last and found.entries:
        out.print()
        out.print(_entries_table(book, last))
    out.print()
    _write_head(out, book.head)


def rule_words(book: Book) -> list[str]:
    """Under which rule the budgets hold."""
    if not book.spending:
        return []
    older = [describe(viewer) for viewer in book.ledger.older]
    return [
        "The budgets hold for requests that were chosen from earlier answers, in their noise too, "
        "if whoever chose them saw no more than the adversary.",
        *(
            [
                f"Against {' and '.join(older)}, releases from before this rule exceed the budget "
                "if they were chosen from earlier answers. Nothing more is released from it."
            ]
            if older
            else []
        ),
    ]


def _write_spending(out: Console, spending: PlannedSpending, viewers: Sequence[str]) -> None:
    grants = words.times(spending.grants, "grant")
    out.print(f"Against {', '.join(viewers)} ({grants}):")
    if math.isinf(spending.budget.epsilon):
        seen = (
            "has seen clean values"
            if math.isinf(spending.epsilon)
            else (
                f"has learnt up to epsilon {words.number(spending.epsilon)} at delta "
                f"{words.plain(spending.delta)}"
            )
        )
        out.print(f"  trusted, no limit; {seen}")
        return
    out.print(
        f"  [{words.bar(spending.share)}] guaranteed: {_budget_words(spending.budget)}; "
        f"{math.floor(100 * spending.left.share)} % left"
    )
    out.print(
        f"  These releases, had they been fixed in advance: epsilon "
        f"{words.number(spending.epsilon)} at delta {words.plain(spending.delta)}."
    )


def _entries_table(book: Book, last: int) -> Table:
    from rich import box

    entries = book.summary.entries
    shown = entries[-last:]
    table = Table(
        "entry",
        Column("time", no_wrap=True),
        "purpose",
        "what",
        Column("epsilon alone", width=10),
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        title_justify="left",
        title=f"The last {len(shown)} of {words.times(len(entries), 'entry', 'entries')}",
    )
    for entry in shown:
        worst = max(entry.cost, key=lambda viewer: book.alone(entry, viewer))
        table.add_row(
            str(entry.number),
            words.clean(entry.time)[:16].replace("T", " "),
            words.clean(entry.purpose) or "-",
            history_words(entry.cost[worst]),
            words.number(book.alone(entry, worst)),
        )
    return table


def history_words(history: Composed) -> str:
    """What was released, in a few words."""
    return ", ".join(f"{count} x {_event_words(event)}" for event, count in history.parts) or "-"


def _event_words(event: Event) -> str:
    noise = event.noise
    if noise.discloses:
        return "clean value"
    if noise.nested:
        return "run of a search" if noise.size == 1 else f"best of up to {noise.size:g} runs"
    match event.sampler:
        case Poisson(rate):
            sample = f" at rate {rate:g}"
        case WithoutReplacement(size=drawn, population=population):
            sample = f" on {drawn} of {population}"
        case _:
            sample = ""
    return f"{type(noise).__name__} {words.plain(noise.size)}{sample}"


def write_verification(file: Path, finding: Verification, compared: bool, torn: bool) -> None:
    out = console()
    if not finding.sound:
        out.print(f"NOT SOUND: {file}", style="bold")
        out.print(words.clean(finding.finding))
        return
    out.print(f"Sound: {file}", style="bold")
    out.print(f"{finding.finding}; {words.times(finding.entries, 'grant')}.")
    if torn:
        out.print(_TORN)
    if compared:
        out.print("The head you gave is part of this book: nothing before it was lost or changed.")
    else:
        out.print(
            "Lines cut off at the end can only be noticed with a head noted elsewhere: "
            "compare with --head."
        )
    _write_head(out, finding.head)


def _write_head(out: Console, head: str) -> None:
    out.print("Head (note it outside this file, to notice later if lines are lost):")
    out.print(head, soft_wrap=True)
