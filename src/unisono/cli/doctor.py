"""`unisono doctor`: whether this installation can be relied on, and what to do if not."""

from pathlib import Path
from typing import Annotated

import typer

from unisono.cli import inputs
from unisono.cli.output import console, write_json


def doctor(
    folder: Annotated[
        Path, typer.Option(help="Where ledgers will lie: its disk and its locks are tried.")
    ] = Path(),
    json: inputs.JsonOption = False,
) -> None:
    """Is this installation sound? Every line says what to do about it; exit code 1 if not.

    \b
    Examples:
      unisono doctor
      unisono doctor --folder /srv/ledgers
      unisono doctor --json
    """
    from unisono.cli.doctor_checks import examine

    found = examine(folder)
    problems = [one for one in found if one.state == "problem"]
    if json:
        write_json({"sound": not problems, "checks": [one._asdict() for one in found]})
    else:
        from rich.text import Text

        out = console()
        styles = {"ok": "green", "warning": "yellow", "problem": "bold red"}
        for one in found:
            line = Text.assemble(
                (f"{one.state:<8}", styles[one.state]), f" {one.check}: {one.words}"
            )
            out.print(line)
            if one.remedy:
                out.print(f"         -> {one.remedy}")
        out.print()
        warnings = sum(one.state == "warning" for one in found)
        out.print(
            f"{len(problems)} of {len(found)} checks failed: mend these first."
            if problems
            else f"Sound. {warnings} of {len(found)} checks warn."
            if warnings
            else "Sound."
        )
    if problems:
        raise typer.Exit(1)
