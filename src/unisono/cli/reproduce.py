"""`unisono reproduce`: published and constructed experiments, run again."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unisono.cli import inputs
from unisono.cli.output import console, echo, write_json

if TYPE_CHECKING:
    from unisono.experiments.findings import Findings


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAMES]...", help="Experiments, or a group: thesis, constructed, all, data."
        ),
    ] = None,
    folder: Annotated[
        Path, typer.Option(help="Where pictures, numbers and an index are written.")
    ] = Path("reproduced"),
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer draws and points: seconds, not minutes.")
    ] = False,
    listed: Annotated[
        bool, typer.Option("--list", help="Show what there is, and run nothing.")
    ] = False,
    json: inputs.JsonOption = False,
) -> None:
    """Run experiments again; every number is shown beside the range where it is expected.

    Data are synthetic and noise is simulated, except in the group `data`, which reads public files
    from the folder UNISONO_DATA and is not part of `all`. Each experiment leaves NAME.png and
    NAME.json in the folder, and index.md tells about all that lie there.

    \b
    Examples:
      unisono reproduce --list
      unisono reproduce fig4.2 composition --folder results
      unisono reproduce constructed --quick
    """
    from unisono.experiments import catalogue

    wanted = catalogue.chosen(names or ())
    if listed:
        _list(wanted, json)
        return
    from unisono.cli import reproduced

    catalogue.require_data(wanted)
    place = reproduced.prepare(folder)
    documents = []
    for number, name in enumerate(wanted, 1):
        echo(f"{number}/{len(wanted)} {name} ...", err=True)
        findings = catalogue.experiment(name)(quick)
        documents.append(reproduced.save(place, name, findings, quick))
        if not json:
            _show(findings)
    index = reproduced.write_index(place)
    if json:
        write_json({"folder": str(place), "experiments": documents})
    else:
        echo(f"Pictures, numbers and {index.name} are in {place}.")


def _list(wanted: list[str], json: bool) -> None:
    from unisono.experiments import catalogue

    titles = {name: catalogue.summary(name) for name in wanted}
    if json:
        write_json(titles)
        return
    width = max(map(len, titles))
    for name, title in titles.items():
        echo(f"{name:<{width}}  {title}")


def _show(findings: "Findings") -> None:
    from rich.table import Table
    from rich.text import Text

    from unisono.cli import reproduced

    table = Table(title=Text(f"{findings.name}: {findings.title}"), title_justify="left")
    for head in ("number", "measured", "expected", "verdict"):
        table.add_column(head, justify="right" if head in ("measured", "expected") else "left")
    for number in findings.numbers:
        verdict = reproduced.verdict(number)
        style: Any = "green" if number.as_expected else "bold red"
        table.add_row(
            number.name,
            reproduced.shown(number.measured),
            reproduced.range_words(number),
            Text(verdict, style=style),
        )
    out = console()
    out.print(table)
    for remark in findings.remarks:
        out.print(Text(f"- {remark}"))
    out.print()
