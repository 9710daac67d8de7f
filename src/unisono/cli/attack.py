"""`unisono attack`: the built-in laboratory, linkage, or a study on made-up records."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unisono.cli import inputs, synthetic
from unisono.cli.output import console, echo, write_json
from unisono.errors import InvalidInput

if TYPE_CHECKING:
    from unisono.attacks.laboratory import LaboratoryOutcome, LinkageFound

_LINKAGE = Path(
    "linkage"
)  # a word in the place of a study: write ./linkage for a file of that name
_WIDTH = 140  # of the table; a narrower terminal wraps its lines


def attack(
    study: Annotated[
        Path | None,
        typer.Argument(
            metavar="[STUDY]", help="A study file, or `linkage`; without one, the laboratory."
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer defences and repetitions: rougher numbers.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Where the laboratory writes; default: laboratory.run or linkage.run",
        ),
    ] = None,
    only: Annotated[
        str | None, typer.Option(metavar="DEFENCE,...", help="Only these defences.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Another seed makes other networks and noise.")] = 0,
    json: inputs.JsonOption = False,
) -> None:
    """Try to get records back: from digits under every defence, or from a study of yours.

    Without a study: gradient inversion, the closed form, the tensor method and membership inference
    against every defence, by attackers who know the defence and by naive ones, on scikit-learn's
    digits. It takes some minutes and writes a run folder with a report and two pictures.

    With `linkage`: an "anonymised" table of patients is joined with a register of names, under
    generalisation, suppression and a private release, in seconds, with a report and a picture.

    With a study: made-up records within its public bounds, attacked with what one viewer sees under
    the study's trust. No real data are read and nothing is spent.

    An attack that fails certifies nothing; differential privacy bounds all of them.

    \b
    Examples:
      unisono attack
      unisono attack --quick --only none,pruning,dp-8
      unisono attack linkage --quick
      unisono attack study.toml --json
    """
    if study == _LINKAGE:
        if only:
            raise InvalidInput("--only belongs to the laboratory: leave it out for linkage")
        _linkage(output or Path("linkage.run"), quick, seed, json)
        return
    if study is not None:
        if only or output:
            raise InvalidInput("--only and --output belong to the laboratory: leave them out")
        _study(study, quick, seed, json)
        return
    from unisono.attacks import laboratory
    from unisono.runs.folder import REPORT_HTML

    cases = laboratory.chosen(only, quick)
    folder = output or Path("laboratory.run")
    with synthetic.bar(json, "building networks") as progress:
        document = in_folder(
            folder,
            "Attack laboratory",
            lambda: _written(
                folder, laboratory.run(cases, seed=seed, quick=quick, progress=progress)
            ),
        )
    if json:
        write_json({"laboratory": document, "folder": str(folder)})
        return
    _print_table(document)
    echo(f"\nReport: {folder / REPORT_HTML}")


def in_folder(folder: Path, title: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Run an attack of the laboratory inside a run folder, whose heading says how it goes."""
    import os
    from dataclasses import replace
    from datetime import UTC, datetime

    from unisono.deployment.files import folder_for
    from unisono.runs.folder import Heading

    def now() -> str:
        return datetime.now(UTC).isoformat(timespec="seconds")

    def note(heading: Heading) -> None:
        heading.write(folder)

    folder_for(folder)
    heading = Heading(
        title,
        "laboratory",
        "running",
        now(),
        command=" ".join(["unisono", *sys.argv[1:]]),
        process=os.getpid(),
    )
    note(heading)
    try:
        document = work()
    except BaseException as error:
        words = str(error) or type(error).__name__
        note(replace(heading, state="failed", ended=now(), process=None, error=words))
        raise
    note(replace(heading, state="finished", ended=now(), process=None))
    return document


def _written(folder: Path, outcome: "LaboratoryOutcome") -> dict[str, Any]:
    from unisono.attacks.laboratory import document, pictures
    from unisono.reports.laboratory import AXIS, GRID, laboratory_page, markdown
    from unisono.runs.folder import ATTACKS, REPORT_HTML, REPORT_MARKDOWN, write

    found = document(outcome.laboratory)
    drawn = {
        GRID: pictures.grid(outcome.laboratory, outcome.gallery),
        AXIS: pictures.axis(outcome.laboratory),
    }
    for name, content in drawn.items():
        write(folder / name, content)
    ATTACKS.write(folder, {"laboratory": found})
    write(folder / REPORT_MARKDOWN, f"# Attack laboratory\n\n{markdown(found)}".encode())
    write(folder / REPORT_HTML, laboratory_page(found, drawn).encode())
    return found


def _print_table(document: dict[str, Any]) -> None:
    from rich.table import Table

    from unisono.reports.laboratory import summary_table

    header, rows = summary_table(document)
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for place, name in enumerate(header):
        shown.add_column(name, justify="left" if place in (0, 8) else "right")
    for row in rows:
        shown.add_row(*row)
    screen = console()
    screen.width = max(screen.width, _WIDTH)
    screen.print(shown)
    baseline = document["baseline"]
    screen.print(
        f"\nRelative errors; the mean image errs by {baseline['error']:.2f} (tensor: by 1). Slopes "
        "of the tensor method in m beside the exponent of lecture 13. Epsilon at delta "
        f"{document['rows'][0]['privacy']['delta']:g}: one record, add-or-remove, one round, by "
        "somebody who knows who took part; and what an audit shows at least.\n"
        "An attack that fails certifies nothing.",
        soft_wrap=True,
    )


def _linkage(folder: Path, quick: bool, seed: int, json: bool) -> None:
    from rich.table import Table

    from unisono.attacks import laboratory
    from unisono.reports.linkage import linkage_table, linkage_words

    document = in_folder(
        folder,
        "Linkage attack",
        lambda: _written_linkage(folder, laboratory.run_linkage(seed=seed, quick=quick)),
    )
    if json:
        write_json({"linkage": document, "folder": str(folder)})
        return
    header, rows = linkage_table(document)
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for place, name in enumerate(header):
        shown.add_column(name, justify="right" if place else "left")
    for row in rows:
        shown.add_row(*row)
    screen = console()
    screen.width = max(screen.width, _WIDTH)
    screen.print(shown)
    screen.print(f"\n{linkage_words(document)}", soft_wrap=True)
    echo(f"\nReport: {folder / 'report.html'}")


def _written_linkage(folder: Path, found: "LinkageFound") -> dict[str, Any]:
    from unisono.attacks.laboratory import linkage_document, pictures
    from unisono.reports.linkage import PICTURE, linkage_markdown, linkage_page
    from unisono.runs.folder import ATTACKS, REPORT_HTML, REPORT_MARKDOWN, write

    document, picture = linkage_document(found), pictures.linked(found)
    write(folder / PICTURE, picture)
    ATTACKS.write(folder, {"linkage": document})
    write(folder / REPORT_MARKDOWN, linkage_markdown(document).encode())
    write(folder / REPORT_HTML, linkage_page(document, picture).encode())
    return document


def _study(path: Path, quick: bool, seed: int, json: bool) -> None:
    from unisono.cli.attack_study import attacked, words

    with synthetic.bar(json) as progress:
        found = attacked(path, quick, seed, progress)
    if json:
        write_json(found)
    else:
        echo(words(found))
