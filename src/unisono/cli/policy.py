"""`unisono policy`: what a party allows, written before the first study asks."""

from pathlib import Path
from typing import Annotated

import typer

from unisono.cli import inputs
from unisono.cli.output import echo, warn, write_json
from unisono.errors import InvalidInput

app = typer.Typer(
    no_args_is_help=True,
    help="""A party's policy: what all studies may ever take, and what one study may be.

    \b
    Example:
      unisono policy init --budget 6 north.csv
    """,
)


@app.callback()
def _policy() -> None:
    """So that `init` is named even while it is the only command."""


@app.command()
def init(
    files: Annotated[
        list[Path], typer.Argument(metavar="DATA...", help="Files of records, one per party.")
    ],
    budget: Annotated[
        str,
        typer.Option(
            metavar="EPS[:DELTA]", help="What all studies together may ever take, as 6 or 6:1e-7."
        ),
    ],
    delta: Annotated[
        float, typer.Option(help="Delta of the budget, far below 1 / number of records.")
    ] = 1e-6,
    per_year: Annotated[
        float | None,
        typer.Option(help="What the studies of one calendar year may take, below the budget."),
    ] = None,
    minimum_parties: Annotated[
        int, typer.Option(help="So many parties must take part in a study.")
    ] = 1,
    records: inputs.RecordsOption = None,
    json: inputs.JsonOption = False,
) -> None:
    """Write a commented policy beside each file of records; nothing is overwritten.

    No record is read and no ledger is begun: the first study or query does that, on these terms.
    Where a ledger is there already, the policy may lower its budget.

    \b
    Examples:
      unisono policy init --budget 6 north.csv
      unisono policy init --budget 6 --per-year 2 --delta 1e-7 hospitals/*.csv
    """
    from dataclasses import replace

    from unisono.cli.budget import parse_budget
    from unisono.studies.policy_template import policy_draft

    given = replace(parse_budget(budget, delta), per_year=per_year)
    warn(inputs.warn_if_large(given.delta, records))
    drafts = [policy_draft(file, given, minimum_parties) for file in files]
    for draft in drafts:
        _write(draft.path, draft.text)
    if json:
        write_json([{"file": str(one.path), "policy": one.policy.to_json()} for one in drafts])
        return
    for draft in drafts:
        echo(f"{draft.path}: all studies together may take {draft.policy.budget.words}")
    echo("Read it, and change what you would not allow: it is obeyed from now on.")


def _write(path: Path, text: str) -> None:
    """A new file; whatever is there already stays."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise InvalidInput(f"{path} cannot be written: {error.strerror}") from None
