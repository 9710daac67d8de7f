"""A server of runs, on a socket that already listens."""

from collections.abc import Sequence
from pathlib import Path

import uvicorn

from unisono.dashboard.app import make_app
from unisono.dashboard.catalogue import Catalogue
from unisono.dashboard.guard import GuardedDoor


def server(folders: Sequence[Path], door: GuardedDoor) -> uvicorn.Server:
    """The runs under these folders; its `run(sockets=[...])` blocks until Ctrl-C.

    It keeps no log of requests: the first one holds the token.
    """
    config = uvicorn.Config(
        make_app(Catalogue(folders), door),
        log_level="warning",
        access_log=False,
        ws="none",
        lifespan="off",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=2,
    )
    return uvicorn.Server(config)


__all__ = ["server"]
