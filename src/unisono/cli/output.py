"""Where text goes: answers to stdout, warnings to stderr, JSON only if asked for."""

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unisono.cli.words import jsonable
from unisono.errors import InvalidInput

if TYPE_CHECKING:
    from rich.console import Console


def console() -> "Console":
    """A console on stdout; it honours NO_COLOR and drops colours when piped."""
    from rich.console import Console

    return Console(highlight=False, markup=False, emoji=False, soft_wrap=False)


def write_json(document: Any) -> None:
    """One JSON document, full precision; infinity is written as "inf"."""
    sys.stdout.write(json.dumps(jsonable(document), indent=2, ensure_ascii=False) + "\n")


def write_text(text: str, output: Path | None) -> None:
    """Text to a file, or to stdout."""
    if output is None:
        sys.stdout.write(text)
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
        sys.stderr.write(f"unisono: warning: {message}\n")
