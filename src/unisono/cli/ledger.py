"""`unisono ledger`: create a book, read it, check it, hand it to others."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from unisono.cli import inputs
from unisono.cli.output import warn, write_json, write_text
from unisono.core.trust import SERVER, Relation, Unit

app = typer.Typer(
    no_args_is_help=True,
    help="""The book of a data set: what was allowed, what has been spent, and whether it is intact.

    \b
    Examples:
      unisono ledger create ages.ledger --dataset ages --epsilon 1 --delta 1e-6
      unisono ledger show ages.ledger
      unisono ledger raise ages.ledger --to 2 --reason "agreed on 3 May"
      unisono ledger verify ages.ledger
      unisono ledger export ages.ledger --format markdown
    """,
)

FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="The ledger file.")]


class Format(StrEnum):
    """What `export` writes."""

    JSON = "json"
    CSV = "csv"
    MARKDOWN = "markdown"


@app.command()
def create(
    file: FileArgument,
    dataset: Annotated[str, typer.Option(help="Name of the data set.")],
    epsilon: Annotated[float, typer.Option(help="Budget: at most this epsilon, for every viewer.")],
    delta: inputs.DeltaOption,
    per_year: Annotated[
        float | None,
        typer.Option(help="At most this epsilon in one calendar year (UTC), below the budget."),
    ] = None,
    relation: inputs.RelationOption = Relation.REPLACE_ONE,
    unit: Annotated[Unit, typer.Option(help="Whose presence is hidden.")] = Unit.RECORD,
    trust_server: Annotated[
        bool, typer.Option("--trust-server", help="The server may see clean values.")
    ] = False,
    colluders: Annotated[
        int, typer.Option(help="Hold the budget also against the server and this many parties.")
    ] = 0,
    records_per_person: Annotated[
        int, typer.Option(help="Records that one person may have at most.")
    ] = 1,
    records: inputs.RecordsOption = None,
    json: inputs.JsonOption = False,
) -> None:
    """Begin the book of a data set. A ledger is never overwritten.

    \b
    Examples:
      unisono ledger create ages.ledger --dataset ages --epsilon 1 --delta 1e-6
      unisono ledger create icu.ledger --dataset icu --epsilon 2 --delta 1e-7
    """
    import math

    from unisono.core.policy import Budget, Policy
    from unisono.errors import InvalidInput

    if not file.absolute().parent.is_dir():
        raise InvalidInput(f"cannot create {file}: the folder {file.parent} does not exist")
    exceptions = ((SERVER, Budget(math.inf)),) if trust_server else ()
    policy = Policy(
        dataset,
        Budget(epsilon, delta, per_year),
        exceptions,
        relation,
        unit,
        colluders=colluders,
        records_per_person=records_per_person,
    )
    warn(inputs.warn_if_large(delta, records))
    from unisono.accounting.accountant import ACCOUNTANT
    from unisono.cli import ledger_text
    from unisono.core.ledger import Ledger

    book = Ledger.create(file, policy, ACCOUNTANT)
    head = book.head
    book.close()
    if json:
        write_json({"file": str(file), "head": head, "policy": policy.to_json()})
    else:
        ledger_text.write_created(file, policy, head)


@app.command()
def show(
    file: FileArgument,
    last: Annotated[int, typer.Option(min=0, help="How many of the last entries to list.")] = 5,
    json: inputs.JsonOption = False,
) -> None:
    """What is allowed, what is spent, what may still be asked, and the last entries.

    Reads only; never locks the file.

    \b
    Examples:
      unisono ledger show ages.ledger
      unisono ledger show ages.ledger --last 20
    """
    from unisono.cli import ledger_text
    from unisono.cli.ledger_ahead import ahead
    from unisono.cli.ledger_reader import read_book
    from unisono.studies.data_set import policies_of

    # What the owner allows holds, where that is less than the ledger does.
    owner = next(policies_of(file), None)
    book = read_book(file, None if owner is None else owner[1].core_policy())
    future = ahead(book)
    if json:
        write_json(book.to_json(last) | {"ahead": future.to_json()})
    else:
        ledger_text.write_book(book, last, future)


@app.command(name="raise")
def raise_budget(
    file: FileArgument,
    to: Annotated[
        str | None,
        typer.Option(
            metavar="EPS[:DELTA]",
            help="The new budget for all studies ever, such as 8 or 8:2e-6. (default: as it is)",
        ),
    ] = None,
    reason: Annotated[
        str, typer.Option(help="Who decided it and why, for whoever reads the ledger later.")
    ] = "",
    per_year: Annotated[
        float | None,
        typer.Option(help="The new allowance of one calendar year. (default: as it is)"),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Whose key signs. (default: the data set's name)")
    ] = None,
    keys: Annotated[
        Path | None, typer.Option(help="This party's keys. (default: keys beside the ledger)")
    ] = None,
    json: inputs.JsonOption = False,
) -> None:
    """Raise the budget, by a line that is signed with the party's key and stays for good.

    The line gives the date and the reason, and is printed on every certificate from then on. After
    the first release an increase is a second budget beside the first: epsilons and deltas add up,
    and a study is charged to one of the two as a whole. Without a DELTA the increase has the delta
    with which the ledger began; with the same DELTA as before it admits pure epsilon only.
    Keys are made by `unisono keygen`; the first raise decides which key signs the others. A policy
    beside the records that allows less goes on to hold: change it too. There a budget is lowered.

    \b
    Examples:
      unisono ledger raise ages.ledger --to 8 --reason "agreed by the board"
      unisono ledger raise ages.ledger --to 8:2e-6 --per-year 3 --reason "..." \\
        --keys keys
    """
    from dataclasses import replace

    from unisono.accounting.accountant import ACCOUNTANT
    from unisono.cli import ledger_text
    from unisono.cli.budget import parse_budget
    from unisono.core.ledger import Ledger
    from unisono.errors import InvalidInput
    from unisono.studies.data_set import policies_of
    from unisono.studies.keys import load_identity

    if to is None and per_year is None:
        raise InvalidInput("a raise names the new budget: give --to 8, or --per-year 3, or both")
    book = Ledger.open(file, ACCOUNTANT)
    try:
        present = book.policy
        # After answers an increase is a budget of its own beside the first, with its own delta.
        delta = present.budget.delta + (book.issued.delta if book.grants else 0.0)
        budget = present.budget if to is None else parse_budget(to, delta, "--to")
        budget = replace(budget, per_year=per_year or present.budget.per_year)
        signer = load_identity(keys or file.parent / "keys", name or present.dataset)
        found = book.raise_budget(budget, reason, signer)
        head = book.head
    finally:
        book.close()
    lower = [path for path, own in policies_of(file) if not budget.within(own.core_policy().budget)]
    if json:
        limits = [str(path) for path in lower]
        write_json({"file": str(file), "head": head, "raise": found.to_json(), "lower": limits})
    else:
        ledger_text.write_raised(file, found, head, lower)


@app.command()
def verify(
    file: FileArgument,
    head: Annotated[
        str | None,
        typer.Option(
            metavar="HEX", help="A head noted elsewhere, to notice lost or rewritten lines."
        ),
    ] = None,
    card: Annotated[
        Path | None,
        typer.Option(help="The party's card: were all raises of the budget signed with its key?"),
    ] = None,
    json: inputs.JsonOption = False,
) -> None:
    """Is the book intact? Exit code 5 if not.

    \b
    Examples:
      unisono ledger verify ages.ledger
      unisono ledger verify ages.ledger --head 3f6c...e1
    """
    from unisono.cli import ledger_text
    from unisono.cli.ledger_reader import check_book, check_head
    from unisono.core.journal import is_torn
    from unisono.errors import LedgerError

    key = None
    if card is not None:
        from unisono.studies.keys import load_card

        key = load_card(card).signing_key
    finding = check_book(file, check_head(head), key)
    if json:
        write_json({"file": str(file), **vars(finding), "compared_with_head": head})
    else:
        ledger_text.write_verification(file, finding, head is not None, is_torn(file))
    if not finding.sound:
        raise typer.Exit(LedgerError.exit_code)


@app.command()
def export(
    file: FileArgument,
    format: Annotated[Format, typer.Option(help="What to write.")] = Format.JSON,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write here instead of to the screen.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
) -> None:
    """The whole book for other programs (json), spreadsheets (csv) or a report (markdown).

    \b
    Examples:
      unisono ledger export ages.ledger --format csv --output ages.csv
      unisono ledger export ages.ledger --format markdown
    """
    from unisono.cli import ledger_export as exporting
    from unisono.cli.ledger_reader import read_book

    book = read_book(file)
    chosen = Format.JSON if json else format
    text = {
        Format.JSON: exporting.as_json,
        Format.CSV: exporting.as_csv,
        Format.MARKDOWN: exporting.as_markdown,
    }[chosen](book)
    write_text(text, output)
