"""`unisono dashboard`: running and finished studies, in a browser on this machine."""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from unisono.cli import inputs
from unisono.cli.output import echo, write_json
from unisono.errors import InvalidInput

_VARIABLE = "UNISONO_DASHBOARD_TOKEN"
_TOKEN = re.compile(r"[A-Za-z0-9_-]{16,128}")
_LOUD = """\
unisono: WARNING: {host} can be reached from other machines. Whoever has the token, or can listen
unisono: WARNING: on the network (this is plain HTTP), sees every run here and is a viewer of its
unisono: WARNING: iterates. Safer: leave --host out and forward the port, with
unisono: WARNING:     ssh -L {port}:127.0.0.1:{port} this-machine
"""


def dashboard(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[FOLDER]...", help="Where runs lie; this folder if left out."),
    ] = None,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes any free one.")
    ] = 0,
    host: Annotated[
        str, typer.Option(help="Address to listen on; others than this machine's are a risk.")
    ] = "127.0.0.1",
    no_open: Annotated[bool, typer.Option("--no-open", help="Open no browser.")] = False,
    json: inputs.JsonOption = False,
) -> None:
    """Show running and finished studies as a web page of this machine.

    Rounds, parties alive, budgets draining, curves, what each viewer saw, certificates, results
    and attacks. The page reads the folders of runs and changes nothing. It answers this machine
    only, and only whoever opens the address that is printed here: it holds a token. Whoever watches
    a run under way is a viewer of its iterates. Ctrl-C stops it.

    The token is a new random one, or what the variable UNISONO_DASHBOARD_TOKEN says: 16 letters,
    digits, - or _ at least. There is no option for it: others on this machine read command lines.

    \b
    Examples:
      unisono dashboard
      unisono dashboard studies/ --port 8123 --no-open
      unisono dashboard --json  # the address, for scripts
    """
    chosen = [_folder(folder) for folder in folders or [Path()]]
    token = os.environ.get(_VARIABLE)
    if token is not None and not _TOKEN.fullmatch(token):
        raise InvalidInput(
            f"{_VARIABLE} has {len(token)} characters: give 16 to 128 letters, digits, - or _, or "
            "leave it out and a random one is made"
        )
    from unisono.dashboard.address import address, bind, door_of
    from unisono.dashboard.guard import is_loopback

    with bind(host, port) as listener:
        door = door_of(host, listener, token)
        if not is_loopback(host):
            echo(_LOUD.format(host=host, port=door.port).rstrip("\n"), err=True)
        url = address(door)
        _say(url, json)
        with _browser(url, wanted=not (no_open or json) and _has_display()):
            try:
                from unisono.dashboard.serve import server  # seconds; the socket listens already

                server(chosen, door).run(sockets=[listener])
            except KeyboardInterrupt:
                pass  # this is how a dashboard ends
    if not json:
        echo("\nunisono: the dashboard has stopped", err=True)


def _folder(folder: Path) -> Path:
    if not folder.exists():
        raise InvalidInput(f"no folder {folder}: check the name")
    if not folder.is_dir():
        raise InvalidInput(f"{folder} is a file: give the folder in which runs lie")
    if not os.access(folder, os.R_OK | os.X_OK):
        raise InvalidInput(f"{folder} may not be read: ask its owner")
    return folder


def _say(url: str, json: bool) -> None:
    if json:
        write_json({"url": url})
    else:
        echo(f"Open {url}\nCtrl-C stops it.")
    sys.stdout.flush()


@contextmanager
def _browser(url: str, wanted: bool) -> Iterator[None]:
    """Open the address by way of a file that only its owner reads.

    As an argument of the browser's program everyone on this machine could read the token.
    """
    if not wanted:
        yield
        return
    import webbrowser

    from unisono.core.scratch import scratch_folder

    with scratch_folder() as folder:
        page = folder / "open.html"
        page.write_text(f'<meta http-equiv="refresh" content="0; url={url}">', encoding="utf-8")
        webbrowser.open(page.as_uri())
        yield


def _has_display() -> bool:
    """A browser needs a screen; without one nothing is started."""
    if sys.platform in ("darwin", "win32"):
        return True
    return any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
