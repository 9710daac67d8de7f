"""Small facts about this machine that running a server needs."""

import socket
from pathlib import Path


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
