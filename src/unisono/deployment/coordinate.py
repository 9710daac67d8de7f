"""The server of a study: Flower's SuperLink with TLS, the parties' keys, one submitted run."""

import contextlib
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unisono.core.scratch import scratch_folder
from unisono.deployment.files import held
from unisono.deployment.job import Job, Progress
from unisono.engines.flower.app import write_app
from unisono.engines.flower.certificates import ServerFiles, issue
from unisono.engines.flower.cluster import SuperLink
from unisono.engines.flower.processes import marked
from unisono.errors import InvalidInput
from unisono.runs.folder import RESULT

_POLL = 0.1
_COMPONENT = "unisono.deployment.app:app"
_STOCK = "unisono.deployment.stock:app"


@dataclass(frozen=True)
class ServerPlace:
    """Where the server listens, under which names parties reach it, and which kinds of party."""

    host: str
    port: int | None
    names: tuple[str, ...] = ()
    insecure: bool = False
    stock: bool = False


def place_of(
    address: str, listen: str | None, names: tuple[str, ...], insecure: bool
) -> ServerPlace:
    """The study's address; a server that listens elsewhere is reached by that address too."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise InvalidInput(f"address {address!r}: write HOST:PORT, as 10.0.0.5:9092")
    return ServerPlace(listen or host, int(port), tuple(dict.fromkeys((host, *names))), insecure)


def authority_of(job: Job) -> Path:
    """The certificate that parties need to recognise this server."""
    return job.folder / "tls" / "authority.crt"


def certificates(job: Job, place: ServerPlace) -> ServerFiles | None:
    """TLS files in the job's folder; the authority is made once."""
    return None if place.insecure else issue(job.folder / "tls", list(place.names))


@contextmanager
def serving(job: Job, place: ServerPlace) -> Iterator[SuperLink]:
    """A SuperLink that admits exactly the parties of the roster."""
    members = job.agreement().members
    with _alone(job.folder), _superlink(job, place) as link, scratch_folder() as scratch:
        if not place.insecure:
            public = [scratch / f"{name}.pub" for name in members.roster.names]
            for path, key in zip(public, members.node_keys, strict=True):
                path.write_bytes(key + b"\n")
            link.register(*public)
        yield link


def run(
    job: Job, link: SuperLink, follow: Callable[[Progress], None], *, stock: bool = False
) -> dict[str, Any]:
    """Submit the study and follow it to its end; returns what came out."""
    with scratch_folder() as scratch:
        client = {"client": _STOCK} if stock else {}
        app = write_app(scratch / "unisono-study", _COMPONENT, job.folder.resolve(), **client)
        submitted = link.submit(app)
        try:
            while submitted.alive():
                follow(job.progress)
                time.sleep(_POLL)
            submitted.wait(timeout=0)
        except BaseException:
            if link.alive():
                submitted.stop()
            raise
    follow(job.progress)
    return RESULT.read(job.folder) or {}


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One coordinator for a folder; what a killed one left running is ended first."""
    with held(folder, "coordinates the study in"):
        home = str((folder / "flower").resolve())
        while left := marked("FLWR_HOME", home):
            for process in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            time.sleep(_POLL)
        yield


def _superlink(job: Job, place: ServerPlace) -> SuperLink:
    link = SuperLink(
        job.folder,
        host=place.host,
        port=place.port,
        tls=certificates(job, place),
        insecure=place.insecure,
        stock=place.stock,
    )
    if place.port is not None:
        _require_free(place.host, place.port)
    return link


def _require_free(host: str, port: int) -> None:
    """Refuse an address that is not this machine's, or a port that somebody else has."""
    try:
        family, kind, _, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(where)
    except OSError as error:
        raise InvalidInput(
            f"no server can listen at {host}:{port} ({error.strerror}): choose another port, or, "
            "if that is not an address of this machine, one that is (--listen 0.0.0.0)"
        ) from None
