"""`unisono query`: private statistics over several parties' files, paid from their ledgers."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unisono.cli import inputs
from unisono.cli.budget import BudgetOption, ask_on_terminal, parse_budget, say_outlooks
from unisono.cli.deploy_record import plain_warnings
from unisono.cli.output import echo, warn, write_json
from unisono.cli.second_ledgers import SecondLedgersOption, forgotten
from unisono.core.trust import Relation, Trust

if TYPE_CHECKING:
    from unisono.core.outlook import Outlook


def query(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILES...", help="For each party a CSV or Parquet file, or a policy."
        ),
    ],
    epsilon: Annotated[float, typer.Option(help="What this query may cost, for all answers.")],
    delta: inputs.DeltaOption = 1e-6,
    count: Annotated[
        list[str] | None,
        typer.Option(metavar="CONDITION", help="How many records, as \"disease == 'flu'\" or all."),
    ] = None,
    proportion: Annotated[
        list[str] | None,
        typer.Option(metavar="CONDITION", help="Which part of the records, or of each group."),
    ] = None,
    sum: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Sum of a column.")
    ] = None,
    mean: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Average of a column.")
    ] = None,
    variance: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Variance of a column.")
    ] = None,
    std: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Standard deviation of a column.")
    ] = None,
    quantile: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN:LEVEL", help="A quantile, as age:0.9.")
    ] = None,
    median: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Median of a column.")
    ] = None,
    minimum: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="The lowest value that noise does not hide."),
    ] = None,
    maximum: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="The highest value that noise does not hide."),
    ] = None,
    histogram: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN[:BINS]", help="Counts per bin, or per public category."),
    ] = None,
    table: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN,COLUMN", help="Counts per pair of public categories."),
    ] = None,
    t_test: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Difference of means of two groups (--by), Welch's t."),
    ] = None,
    median_test: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Difference of medians of two groups (--by)."),
    ] = None,
    proportion_test: Annotated[
        list[str] | None,
        typer.Option(metavar="CONDITION", help="Difference of shares in two groups (--by)."),
    ] = None,
    chi_square: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN,COLUMN", help="Whether two categories are independent."),
    ] = None,
    fisher: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN,COLUMN", help="The same of two values each: odds ratio."),
    ] = None,
    by: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="One answer per public category.")
    ] = None,
    between: Annotated[
        str | None,
        typer.Option(metavar="FIRST,SECOND", help="The groups of --by that tests compare."),
    ] = None,
    bounds: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN=LOW:HIGH", help="Public bounds; values outside are clipped."),
    ] = None,
    categories: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN=A,B,C", help="Public categories; records with another count nowhere."
        ),
    ] = None,
    integer: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="Whole numbers, which are added without rounding."),
    ] = None,
    complete: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN",
            help="Every record has a value, by public knowledge: the public number of records "
            "divides. Elsewhere the number of values is released too.",
        ),
    ] = None,
    missing_codes: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMN=-9,999", help="Numbers of the codebook that stand for a missing value."
        ),
    ] = None,
    decimal: Annotated[
        str,
        typer.Option(metavar="MARK", help="Decimal mark of numbers in CSV files: . or a comma."),
    ] = ".",
    encoding: Annotated[
        str, typer.Option(help="Of CSV files: utf-8, utf-16 or latin-1.")
    ] = "utf-8",
    multiline: Annotated[
        bool,
        typer.Option(
            "--multiline",
            help="Quoted CSV cells hold newlines; then a stray quote joins records.",
        ),
    ] = False,
    person: Annotated[
        str | None,
        typer.Option(
            metavar="COLUMN",
            help="Whose each record is: hide all records of a person, who counts once.",
        ),
    ] = None,
    records_per_person: Annotated[
        int | None,
        typer.Option(
            help="Records of a person that are read at most, drawn in secret. (default: 8)"
        ),
    ] = None,
    trust: Annotated[
        Trust | None,
        typer.Option(
            metavar="NAME",
            help=f"Who adds the noise: {', '.join(Trust)}. "
            "(default: secure-sum; of one file: local)",
        ),
    ] = None,
    relation: inputs.RelationOption = Relation.REPLACE_ONE,
    budget: BudgetOption = None,
    second_ledgers: SecondLedgersOption = None,
    survivors: Annotated[
        int | None, typer.Option(help="How many parties must answer. (default: all)")
    ] = None,
    colluders: Annotated[
        int | None, typer.Option(help="Parties that may work together with the server.")
    ] = None,
    nominal_rows: Annotated[
        int | None,
        typer.Option(help="Public upper limit of rows per file, where sizes are hidden."),
    ] = None,
    confidence: Annotated[float, typer.Option(help="Of the intervals.")] = 0.95,
    seed: Annotated[
        int | None, typer.Option(help="Make it a SIMULATION: predictable noise, no privacy.")
    ] = None,
    json: inputs.JsonOption = False,
) -> None:
    """Ask several parties for statistics, privately; all answers are one release.

    Noise is Gaussian, or discrete Laplace with --delta 0. Every file has one ledger, beside it
    (a.ledger beside a.csv, links followed), which `unisono run` and `join` pay from too. The first
    query begins it with --budget, unless a policy beside the file says more; on a terminal you are
    asked. What the query takes of it is shown before it is paid. One file is one party, which adds
    all of the noise itself (--trust local); the shares of several are added in secret.

    \b
    Examples:
      unisono query clinics/*.csv --sum age --bounds age=0:120 --integer age \\
        --epsilon 1 --budget 4
      unisono query a.csv b.csv --mean income --median income \\
        --bounds income=0:200000 --epsilon 0.5
      unisono query a.parquet b.parquet --proportion "disease == 'flu'" \\
        --by population --categories population=north,south \\
        --epsilon 1 --delta 0
      unisono query lab.csv --mean creatinine --bounds creatinine=0:15 \\
        --missing-codes creatinine=-9 --decimal , --encoding latin-1 --epsilon 1
      unisono query visits.csv --mean pressure --bounds pressure=0:300 \\
        --person patient --epsilon 1 --budget 4
      unisono query a.csv b.csv --t-test income --bounds income=0:200000 \\
        --by place --categories place=rural,urban --epsilon 1
    """
    from unisono.cli import query_plan
    from unisono.cli.query_run import Setting, answer, usual_trust

    asked = query_plan.Asked(
        count or (),
        proportion or (),
        sum or (),
        mean or (),
        variance or (),
        std or (),
        quantile or (),
        median or (),
        minimum or (),
        maximum or (),
        histogram or (),
        table or (),
        by,
        query_plan.parse_bounds(bounds or ()),
        query_plan.parse_categories(categories or ()),
        tuple(integer or ()),
        multiline,
        tuple(complete or ()),
        query_plan.parse_codes(missing_codes or ()),
        query_plan.parse_dialect(decimal, encoding),
        t_test or (),
        median_test or (),
        proportion_test or (),
        chi_square or (),
        fisher or (),
        between,
    )
    setting = Setting(
        epsilon,
        delta,
        relation,
        trust or usual_trust(len(files)),
        second_ledgers,
        None if budget is None else parse_budget(budget, delta),
        survivors,
        colluders,
        nominal_rows,
        confidence,
        seed,
        person,
        records_per_person,
    )

    def say(outlooks: "Mapping[str, Outlook]") -> None:
        say_outlooks(outlooks, "this query")

    if second_ledgers is not None and seed is None:
        warn(forgotten(second_ledgers, files))
    if multiline:
        warn(
            "--multiline: a quote that is not closed joins a record to those after it, so one "
            "record can change many, and what is promised of one does not cover that"
        )
    with plain_warnings():
        found = answer(files, asked, setting, ask_on_terminal, say)
    if json:
        write_json(found.to_json())
    else:
        echo(found.text())
