"""The server of a study (SuperLink) as a context: started, used, and gone without a trace.

    with SuperLink(folder, tls=issue(folder / "tls", ["127.0.0.1"])) as server:
        server.register(party_key.pub)
        server.submit(write_app(...)).wait()

Parties reach it at `server.address`, and only what parties need is there; all else goes through a
socket that no other user of this machine can open (`superlink`). Its state is in memory unless
`database` names a file; a server that was killed comes back on the same port, and without a
database it has forgotten who was registered: `register` may be repeated at any time. What a study
must remember is in its own checkpoint, not in Flower's state.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import tomllib
import uuid
import warnings
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, NoReturn, Self

from cryptography.hazmat.primitives import serialization

from unisono.core.scratch import scratch_folder
from unisono.engines.flower import child_process
from unisono.engines.flower.certificates import ServerFiles, load_public_key
from unisono.engines.flower.processes import free_port, marked
from unisono.engines.flower.refusals import is_loopback
from unisono.engines.flower.runs import ServerFailed, SubmittedRun
from unisono.errors import InvalidInput

_START, _END = 60.0, 5.0  # seconds to come up, and to go down by itself
_POLL = 0.05
_MARK = "UNISONO_SUPERLINK"  # in the environment of every process that a SuperLink starts
_QUIET = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1"}


class SuperLink:
    """A process of our own; everything it writes is in `folder`/flower.

    `stock` also admits Flower's own SuperNodes, and what they ask for.
    """

    def __init__(
        self,
        folder: Path,
        *,
        host: str = "127.0.0.1",
        port: int | None = None,
        tls: ServerFiles | None = None,
        insecure: bool = False,
        database: Path | None = None,
        stock: bool = False,
    ) -> None:
        if insecure == (tls is not None):
            raise InvalidInput("a SuperLink needs either TLS files or insecure=True, not both")
        if insecure and not is_loopback(host):
            raise InvalidInput(
                f"an insecure server on {host} is refused: it is for trying out on one machine "
                "(127.0.0.1); give it TLS files (certificates.issue)"
            )
        self.folder, self._host, self._tls, self._database = folder / "flower", host, tls, database
        self._port, self._stock = port or free_port(host), stock
        self._process: subprocess.Popen[bytes] | None = None
        self._runs: list[subprocess.Popen[bytes]] = []
        self._mark = uuid.uuid4().hex
        self._previous_handler: Any = None
        self._private: Path | None = None
        self._scratch = contextlib.ExitStack()

    @property
    def address(self) -> str:
        """Where parties on this machine reach it."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self._host, self._host)
        return f"[{host}]:{self._port}" if ":" in host else f"{host}:{self._port}"

    @property
    def log(self) -> Path:
        """What Flower says."""
        return self.folder / "superlink.log"

    def __enter__(self) -> Self:
        if self._tls is None:
            warnings.warn(f"no TLS at {self.address}: for trying out only", stacklevel=2)
        if threading.current_thread() is threading.main_thread():
            self._previous_handler = signal.signal(signal.SIGTERM, _raise_exit)
        try:
            self.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
        self._scratch.close()
        if self._previous_handler is not None:
            signal.signal(signal.SIGTERM, self._previous_handler)

    @property
    def inside(self) -> Path:
        """Where processes of the same user reach all of it.

        Nobody else can enter the folder. It is not in `self.folder` because the path of a socket
        may have about a hundred characters only.
        """
        if self._private is None:
            self._private = self._scratch.enter_context(scratch_folder())
        return self._private / "superlink"

    def start(self) -> None:
        """Starts the process and waits until it accepts connections."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.inside.unlink(missing_ok=True)
        tls = {}
        if self._tls is not None:
            tls = {"ssl_certfile": str(self._tls.certificate), "ssl_keyfile": str(self._tls.key)}
        database = None if self._database is None else str(self._database)
        authority = None if self._tls is None else str(self._tls.authority)
        settings = {
            "host": self._host,
            "port": self._port,
            "socket": str(self.inside),
            "tls": tls,
            "database": database,
            "authority": authority,
            "stock": self._stock,
        }
        self._process = self._started("superlink", json.dumps(settings))
        limit = time.monotonic() + _START
        while self._process.poll() is None and time.monotonic() < limit:
            if self._accepts():
                return
            time.sleep(_POLL)
        raise ServerFailed(f"the SuperLink at {self.address} did not start:\n{self.tail()}")

    def stop(self, *, kill: bool = False) -> None:
        """Ends the process and all it started: politely unless `kill`, and then for certain."""
        if self._process is None:
            return
        if not kill and self._process.poll() is None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_END)
        for process in marked(_MARK, self._mark):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        for child in (self._process, *self._runs):
            child.kill()
            child.wait()
        self._process, self._runs = None, []

    def register(self, *public_keys: Path) -> None:
        """Admits the parties with these transport keys; harmless for those admitted already."""
        from unisono.engines.flower.superlink import Control

        keys = [
            load_public_key(path).public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
            for path in public_keys
        ]
        with Control(self.inside) as control:
            for key in keys:
                control.register(key)

    def submit(self, app: Path) -> SubmittedRun:
        """Starts the server's part of a study, as `write_app` wrote it."""
        from unisono.engines.flower.superlink import Control

        settings = tomllib.loads((app / "pyproject.toml").read_text(encoding="utf-8"))
        flower = settings["tool"]["flwr"]["app"]
        component, job = flower["components"]["serverapp"], flower["config"]["job"]
        with Control(self.inside) as control:
            number = control.start(app)
        process = self._started("serverapp", str(self.inside), str(number), component, job)
        self._runs.append(process)
        return SubmittedRun(self, number, Path(job), process)

    def alive(self) -> bool:
        """Whether the process is there."""
        return self._process is not None and self._process.poll() is None

    def tail(self, lines: int = 15) -> str:
        """The last lines of Flower's log."""
        if not self.log.exists():
            return "(no log)"
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def _started(self, module: str, *arguments: str) -> subprocess.Popen[bytes]:
        """A process of ours that ends when this one does."""
        own = {"FLWR_HOME": str(self.folder.resolve()), _MARK: self._mark}
        # -P: nothing is imported from the folder in which somebody happens to stand.
        command = [sys.executable, "-P", "-m", f"{__package__}.{module}", *arguments]
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, child_process.__file__, str(os.getpid()), *command],
                env={**os.environ, **_QUIET, **own},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _accepts(self) -> bool:
        host, _, port = self.address.rpartition(":")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), timeout=1):
                pass
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(str(self.inside))
                return True
        except OSError:
            return False


def _raise_exit(number: int, frame: FrameType | None) -> NoReturn:
    """Lets a terminated process leave its contexts, and so end its children."""
    raise SystemExit(128 + number)
