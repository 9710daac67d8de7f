"""`unisono predict`: what a finished run says of new records."""

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unisono.cli import inputs
from unisono.cli.deploy_record import plain_warnings
from unisono.cli.output import echo, warn, write_json, write_text
from unisono.errors import InvalidInput

if TYPE_CHECKING:
    import numpy as np

    from unisono.data import RecordTable
    from unisono.models.fitted import FittedModel

RunArgument = Annotated[
    Path, typer.Argument(metavar="RUN", help="A finished run's folder, such as study.run.")
]


def predict(
    run: RunArgument,
    records: Annotated[
        Path, typer.Argument(metavar="RECORDS", help="New records, .csv or .parquet.")
    ],
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write to this .csv. (default: the terminal)"),
    ] = None,
    proba: Annotated[
        bool, typer.Option("--proba", help="Also the probability of every class.")
    ] = False,
    interval: Annotated[
        bool,
        typer.Option(
            "--interval", help="Also an interval of what is expected, where there is one."
        ),
    ] = False,
    level: Annotated[float, typer.Option(help="How often intervals hold.")] = 0.95,
    times: Annotated[
        str | None,
        typer.Option(
            metavar="A,B", help="Also the chance of no event up to these times (hazards)."
        ),
    ] = None,
    json: inputs.JsonOption = False,
) -> None:
    """Predict new records with the result of a finished run; nothing is spent.

    Columns are read as those of training were: same names, kinds, bounds and rules for missing
    cells; other columns stay as they are, and the target need not be there. A record that misses
    what it needs has an empty prediction. Also for what an estimator has saved (`estimator.save`).
    Predictions of records that the model learnt from are no measure of how good it is.

    \b
    Examples:
      unisono predict study.run new.csv --output scored.csv
      unisono predict study.run new.csv --proba
      unisono predict trial.run new.csv --interval --level 0.9
    """
    from unisono.models.fitted import load

    if output is not None and output.resolve() == records.resolve():
        raise InvalidInput(f"{output} is the file of the records: choose another --output")
    with plain_warnings():
        model = load(run_with_result(run))
        if model.simulated:
            warn("this model is of a simulation: its noise was predictable, it protects nobody")
        table = model.table(records)
        new = _predicted(model, table, proba, interval, level, times)
    taken = sorted(set(new) & set(table.columns))
    if taken:
        raise InvalidInput(
            f"{records} has a column {taken[0]!r} already, which predictions are called: rename it"
        )
    if output is not None or not json:
        write_text(_as_csv(model, table, new), output)
    empty = sum(cell is None for cell in next(iter(new.values())))
    if empty:
        warn(
            f"{empty} of {table.rows} records have no prediction: they miss what the model needs, "
            "and nothing was agreed on that stands in for it"
        )
    if json:
        write_json({"records": table.rows, "empty": empty, "columns": new})
    elif output is not None:
        echo(f"{table.rows - empty} records predicted: {output}")


def run_with_result(given: Path) -> Path:
    """The folder of a result, or words that say where one is."""
    from unisono.runs.folder import RESULT, find_runs

    if given.is_dir() and not RESULT.exists(given):
        below = [str(one) for one in find_runs(given) if RESULT.exists(one)]
        if below:
            raise InvalidInput(f"{given} holds no result: name one of {', '.join(below[:5])}")
    return given


def _predicted(
    model: "FittedModel",
    table: "RecordTable",
    proba: bool,
    interval: bool,
    level: float,
    times: str | None,
) -> dict[str, list[Any]]:
    """The new columns; None where there is no prediction."""
    import numpy as np

    name = f"predicted_{model.target}" if model.target else "prediction"
    new = {name: _cells(model.predict(table, incomplete="empty"))}
    if proba:
        chances = model.predict_proba(table, incomplete="empty")
        for label, own in zip(model.classes_, chances.T, strict=True):
            new[f"probability_{label}"] = _cells(own)
    if interval:
        low, high = model.predict_interval(table, level, incomplete="empty").T
        new |= {"interval_low": _cells(low), "interval_high": _cells(high)}
    if times is not None:
        try:
            asked = [float(one) for one in times.split(",")]
        except ValueError:
            raise InvalidInput(f"--times {times!r}: give numbers, as 12,24") from None
        found = model.predict_survival(table, np.array(asked), incomplete="empty")
        for time, own in zip(asked, found.T, strict=True):
            new[f"survival_{time:g}"] = _cells(own)
    return new


def _cells(values: "np.ndarray") -> list[Any]:
    return [None if value != value else value for value in values.tolist()]


def _as_csv(model: "FittedModel", table: "RecordTable", new: dict[str, list[Any]]) -> str:
    """The records as they came, and the new columns, written as the study says CSV files are."""
    text = io.StringIO()
    dialect = model.schema.csv
    separator = dialect.separator or (";" if dialect.decimal == "," else ",")
    writer = csv.writer(text, delimiter=separator, quotechar=dialect.quote, lineterminator="\n")
    writer.writerow([*table.columns, *new])

    def shown(cell: Any) -> Any:
        if isinstance(cell, float):
            return f"{cell:.12g}".replace(".", dialect.decimal)
        return "" if cell is None else cell

    made = ([shown(cell) for cell in cells] for cells in new.values())
    columns = [["" if cell is None else cell for cell in own] for own in table.columns.values()]
    writer.writerows(zip(*columns, *made, strict=True))
    return text.getvalue()
