"""`unisono report`: what a run did, for people."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from unisono.cli import inputs
from unisono.cli.output import echo, warn, write_json, write_text
from unisono.errors import InvalidInput


class Form(StrEnum):
    HTML = "html"
    MARKDOWN = "markdown"
    JSON = "json"


def report(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="A run's folder, such as study.run.")
    ],
    form: Annotated[
        Form, typer.Option("--format", metavar="NAME", help=f"One of {', '.join(Form)}.")
    ] = Form.HTML,
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write to this file alone; - for the terminal."),
    ] = None,
    show: Annotated[bool, typer.Option("--open", help="Open it, in a browser if HTML.")] = False,
    json: inputs.JsonOption = False,
) -> None:
    """Write the report of a run, at any moment of its life: what was learnt, at what price.

    One HTML file that opens offline, and the same as Markdown and as JSON, in the run's folder. No
    records are read and nothing is spent.

    \b
    Examples:
      unisono report study.run --open
      unisono report study.run --format markdown --output -
      unisono report study.run --output board/minutes.html
    """
    place = _run_folder(folder)
    if output == Path("-"):
        if show or json:
            raise InvalidInput("what goes to the terminal is no file to open or to name")
        write_text(_made(place, form), None)
        return
    path = _written(place, form) if output is None else output
    if output is not None:
        write_text(_made(place, form), output)
    if json:
        write_json({"report": str(path), "format": str(form)})
    else:
        echo(f"the report is in {path}")
    if show and not _opened(path):
        warn(f"no browser could be started: open {path.resolve().as_uri()} yourself")


def _run_folder(given: Path) -> Path:
    """The run's folder, or words that say where one is."""
    from unisono.runs.folder import HEADING, find_runs

    folder = given.parent if given.name == HEADING.file else given
    if HEADING.exists(folder):
        return folder
    if not folder.exists():
        raise InvalidInput(f"there is no folder {folder}: name the one that `unisono run` wrote")
    below = find_runs(folder)
    hint = (
        f"name one of {', '.join(map(str, below[:5]))}"
        if below
        else (f"name a folder with a {HEADING.file}, as `unisono run` writes it")
    )
    raise InvalidInput(f"{folder} holds no run: {hint}")


def _made(folder: Path, form: Form) -> str:
    from unisono.reports.html import as_json, html
    from unisono.reports.markdown import markdown
    from unisono.runs.folder import read_run

    run = read_run(folder)
    return {Form.HTML: html, Form.MARKDOWN: markdown, Form.JSON: as_json}[form](run)


def _written(folder: Path, form: Form) -> Path:
    from unisono.reports.html import write_report
    from unisono.runs.folder import REPORT_JSON, REPORT_MARKDOWN

    page = write_report(folder)
    names = {Form.MARKDOWN: REPORT_MARKDOWN, Form.JSON: REPORT_JSON}
    return folder / names[form] if form in names else page


def _opened(path: Path) -> bool:
    import webbrowser

    return webbrowser.open(path.resolve().as_uri())
