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
        Budget(epsilon, delta),
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
    """What is allowed, what is spent, and the last entries. Reads only; never locks the file.

    \b
    Examples:
      unisono ledger show ages.ledger
      unisono ledger show ages.ledger --last 20
    """
    from unisono.cli import ledger_text
    from unisono.cli.ledger_reader import read_book

    book = read_book(file)
    if json:
        write_json(book.to_json(last))
    else:
        ledger_text.write_book(book, last)


@app.command()
def verify(
    file: FileArgument,
    head: Annotated[
        str | None,
        typer.Option(
            metavar="HEX", help="A head noted elsewhere, to notice lost or rewritten lines."
        ),
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

    finding = check_book(file, check_head(head))
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
    from unisono.cli import export as exporting
    from unisono.cli.ledger_reader import read_book

    book = read_book(file)
    chosen = Format.JSON if json else format
    text = {
        Format.JSON: exporting.as_json,
        Format.CSV: exporting.as_csv,
        Format.MARKDOWN: exporting.as_markdown,
    }[chosen](book)
    write_text(text, output)
