"""Where text goes: answers to stdout, warnings to stderr, JSON only if asked for.

Names, titles and values come from files of others. Whatever a command prints passes here, and loses
what a terminal would obey: escape codes, other control characters and turns of direction.
"""

import json
import logging
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from unisono.cli.words import clean_lines, controls, jsonable
from unisono.errors import InvalidInput

if TYPE_CHECKING:
    from rich.console import Console


def echo(text: object = "", err: bool = False) -> None:
    """A line, or several, on stdout or stderr."""
    typer.echo(clean_lines(str(text)), err=err)


def console(stderr: bool = False) -> "Console":
    """A console on stdout or stderr; it honours NO_COLOR and drops colours when piped."""
    from rich.console import Console

    class CleanConsole(Console):
        """Styles and cursors are the console's own; text is cleaned."""

        def render(self, renderable: Any, options: Any = None) -> Iterable[Any]:
            for segment in super().render(renderable, options):
                text = segment.text
                yield segment if segment.control else segment._replace(text=clean_lines(text))

    return CleanConsole(highlight=False, markup=False, emoji=False, soft_wrap=False, stderr=stderr)


def write_json(document: Any) -> None:
    """One JSON document, full precision; infinity is written as "inf"."""
    text = json.dumps(jsonable(document), indent=2, ensure_ascii=False)
    # Line feeds inside strings are escaped already; what is left of them is layout.
    for letter in set(controls(text)) - {"\n"}:
        text = text.replace(letter, json.dumps(letter)[1:-1])
    sys.stdout.write(text + "\n")


def write_text(text: str, output: Path | None) -> None:
    """Text to a file or a pipe as it is, to a terminal cleaned."""
    if output is None:
        sys.stdout.write(clean_lines(text) if sys.stdout.isatty() else text)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidInput(
            f"cannot write {output}: {error.strerror}; choose another file"
        ) from None


def warn(message: str | None) -> None:
    """A warning on stderr, if there is one."""
    if message:
        echo(f"unisono: warning: {message}", err=True)


class CleanFormatter(logging.Formatter):
    """Messages of a log, as everything else."""

    def format(self, record: logging.LogRecord) -> str:
        return clean_lines(super().format(record))
