"""`--budget`: what all studies together may ever take, said before the first of them is paid."""

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from unisono.cli.output import echo
from unisono.errors import InvalidInput

if TYPE_CHECKING:
    from unisono.core.outlook import Outlook
    from unisono.core.policy import Budget
    from unisono.deployment.parties_here import Unbudgeted

BudgetOption = Annotated[
    str | None,
    typer.Option(
        metavar="EPS[:DELTA]",
        help="What all studies together may EVER take of records that have neither a policy nor a "
        "ledger, as 6 or 6:1e-6 (default of DELTA: the study's). Asked for on a terminal.",
    ),
]


def parse_budget(text: str, delta: float, option: str = "--budget") -> "Budget":
    """A budget as it is typed: epsilon, or epsilon and delta."""
    from unisono.core.policy import Budget

    epsilon, colon, own = text.partition(":")
    try:
        found = float(epsilon), float(own) if colon else delta
    except ValueError:
        raise InvalidInput(
            f"{option} {text!r} is no budget: write EPSILON, as 6, or EPSILON:DELTA, as 6:1e-6"
        ) from None
    return Budget(*found)


def ask_on_terminal(found: "Unbudgeted") -> "Budget":
    """The budget, by whoever sits at the terminal; where nobody does, a refusal says how."""
    from unisono.deployment.parties_here import refuse

    if not on_terminal():
        refuse(found)
    echo(f"{found.words}, and nothing gives that back.", err=True)
    while True:
        said = typer.prompt(
            "What may all studies together ever take? EPSILON or EPSILON:DELTA", err=True
        )
        try:
            return parse_budget(str(said).strip(), found.delta)
        except InvalidInput as error:
            echo(str(error), err=True)


def on_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def say_outlooks(found: Mapping[str, "Outlook"], what: str = "this study") -> None:
    """What is taken of whose budget, before it is; parties alike in one line."""
    groups: dict[str, list[str]] = {}
    for name, own in found.items():
        groups.setdefault(own.words(what), []).append(name)
    for line, names in groups.items():
        shown = ", ".join(names[:5])
        shown += f" and {len(names) - 5} more" if len(names) > 5 else ""
        echo(f"{shown}: {line}", err=True)
