"""Small facts about this machine that running Flower needs."""

import socket
import sysconfig
from importlib.util import find_spec
from pathlib import Path

from unisono.errors import InvalidInput


def script(name: str) -> str:
    """Flower's command of this environment, not another one on the path: beside this Python, or
    beside the library where one environment borrows it from another."""
    here = Path(sysconfig.get_path("scripts"))
    library = find_spec("flwr")
    homes = [here]
    if library is not None and library.origin is not None:
        homes += [parent / here.name for parent in Path(library.origin).parents[3:5]]
    for home in homes:
        if (home / name).exists():
            return str(home / name)
    raise InvalidInput(f"{name} is not installed beside this Python: pip install unisono[flower]")


def free_port(host: str) -> int:
    """A port nobody listens on now."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.bind((host, 0))
        return int(listener.getsockname()[1])


def marked(name: str, value: str) -> list[int]:
    """Processes whose environment holds name=value; only where /proc tells (Linux).

    Flower starts processes in sessions of their own, so a process group does not hold them.
    They end by themselves when their parent is gone; this finds those that did not.
    """
    found, mark = [], f"{name}={value}".encode()
    for entry in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in entry.read_bytes().split(b"\0"):
                found.append(int(entry.parent.name))
        except OSError:  # gone meanwhile, or another user's
            continue
    return found
