"""The reference of the command line, written from the commands themselves."""

import inspect
from collections.abc import Iterator
from typing import Any


def reference() -> str:
    """Every command with its help, arguments and options, as Markdown."""
    import typer

    from unisono.cli import app

    root = typer.main.get_command(app)
    panels: dict[str, list[str]] = {}
    for name, command in root.commands.items():  # type: ignore[attr-defined]
        panel = getattr(command, "rich_help_panel", None) or "Commands"
        panels.setdefault(str(panel), []).extend(_commands(f"unisono {name}", command))
    parts = [line for title, lines in panels.items() for line in (f"## {title}", *lines)]
    return "\n\n".join(parts)


def _commands(path: str, command: Any) -> Iterator[str]:
    """A command, or all commands of a group."""
    if hasattr(command, "commands"):
        for name, inner in command.commands.items():
            yield from _commands(f"{path} {name}", inner)
        return
    yield f"### `{path}`"
    yield _help(command.help or "")
    rows = [_row(parameter) for parameter in command.params if parameter.name != "help"]
    if rows:
        yield "\n".join(["| argument or option | meaning | unless given |", "|---|---|---|", *rows])


def _help(text: str) -> str:
    """Help as paragraphs; what is marked to keep its lines becomes a block of text."""
    paragraphs = []
    for paragraph in inspect.cleandoc(text).replace("\r", "").split("\n\n"):
        if paragraph.startswith("\b"):
            lines = paragraph.lstrip("\b").strip("\n").rstrip()
            paragraphs.append(f"```text\n{lines}\n```")
        elif paragraph.strip():
            paragraphs.append(_plain(paragraph))
    return "\n\n".join(paragraphs)


def _row(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        several = "..." if parameter.nargs == -1 else ""
        name = f"`{parameter.metavar or parameter.name.upper() + several}`"
    else:
        name = ", ".join(f"`{option}`" for option in (*parameter.opts, *parameter.secondary_opts))
    default = parameter.default
    shown = "" if default in (None, False, (), [], ...) or callable(default) else f"`{default}`"
    needed = "**needed**" if parameter.required else shown
    return f"| {name} | {_plain(getattr(parameter, 'help', '') or '')} | {needed} |"


def _plain(text: str) -> str:
    """Text that Markdown and tables leave as it is."""
    for sign in ("|", "<", "*", "_", "["):
        text = text.replace(sign, f"\\{sign}" if sign != "<" else "&lt;")
    return " ".join(text.split())
