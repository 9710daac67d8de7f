"""Small facts about this machine that running Flower needs."""

import socket
import sysconfig
from pathlib import Path

from unisono.errors import InvalidInput


def script(name: str) -> str:
    """Flower's command of this environment, not another one on the path."""
    path = Path(sysconfig.get_path("scripts")) / name
    if not path.exists():
        raise InvalidInput(
            f"{name} is not installed beside this Python: pip install unisono[flower]"
        )
    return str(path)


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
