"""The server's side of Flower, as far as it needs names that Flower does not promise.

One process holds Flower's server (SuperLink). It listens twice:

    public address   what parties ask for, through a gateway (`public_gateway`), over TLS
    unix socket      everything, for processes of the same user: its folder admits nobody else

Over the socket `Control` registers keys and begins runs, and `Task` is a run's connection, for the
process in which we run the server's part of a study (`serverapp`). Flower's executor is off: what
is submitted is never executed. A test holds the signatures of all that is imported here, as it
does for `fleet`.
"""

import asyncio
import contextlib
import hashlib
import json
import resource
import socket
import sys
import time
import warnings
from base64 import b64decode
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx
from flwr.app import Context, RecordDict
from flwr.cli.build import build_fab_from_disk
from flwr.common.constant import (
    ISOLATION_MODE_PROCESS,
    SYSTEM_TIME_TOLERANCE,
    TIMESTAMP_HEADER,
    TIMESTAMP_TOLERANCE,
    TRANSPORT_TYPE_GRPC_RERE,
    SubStatus,
)
from flwr.common.serde import run_from_proto
from flwr.proto.control_pb2 import ListNodesRequest, RegisterNodeRequest, StartRunRequest
from flwr.proto.fab_pb2 import Fab
from flwr.proto.runtime_pb2 import AcquireTaskRequest, PullTaskInputRequest, PushTaskOutputRequest
from flwr.supercore.constant import (
    FLEET_HTTP_PUBLIC_KEY_HEADER,
    FLEET_HTTP_SIGNATURE_HEADER,
    FLWR_IN_MEMORY_DB_NAME,
    TaskType,
)
from flwr.supercore.control.control_http_client import ControlHttpClient
from flwr.supercore.date import now
from flwr.supercore.heartbeat import HeartbeatSender, make_task_heartbeat_fn_http
from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor
from flwr.supercore.primitives.asymmetric import bytes_to_public_key, verify_signature
from flwr.supercore.protobuf.client import ProtobufClient
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supercore.task_identity import TaskIdentity

from unisono.engines import wire
from unisono.engines.flower import connections, mailboxes
from unisono.engines.flower.certificates import statement
from unisono.engines.flower.public_gateway import Application, Door, Headers, Receive, Scope, Send
from unisono.errors import InvalidInput

# Requests of a party, besides those for its messages.
_REQUESTS = ("activate-node", "deactivate-node", "send-node-heartbeat")
# What stock SuperNodes ask for besides: their messages, and what they are to run. Only objects,
# which carry the messages, are long.
_STOCK = ("pull-messages", "push-messages", "pull-object", "get-run", "get-fab")
_OBJECTS = ("push-object",)
# Confirming deletes a message, which the server may still be uploading, so parties' word on it
# goes no further: the server's part forgets what it sent (`forget`).
_NOTED = ("confirm-message-received",)
# Without TLS there are no keys that were registered before.
_INTRODUCTION = ("register-node",)
_FORGET = "/forget"
_KEY_IN_USE = 23  # Flower's code
_SECONDS = 30.0  # for a request over the socket
_KEPT = 30  # seconds for which a connection stays open between two requests of a party
_PATIENCE = 2.0 * _KEPT  # seconds in which a connection asks for something
_MOMENT = 3.0  # seconds in which a party that is there need not be noted again

AnyClient = TypeVar("AnyClient", bound=ProtobufClient)


def _over(path: Path, client: AnyClient) -> AnyClient:
    """The client, with the socket for its connection."""
    client._client.close()
    client._client = httpx.Client(transport=httpx.HTTPTransport(uds=str(path)), timeout=_SECONDS)
    return client


# ------------------------------------------------------------------ whoever runs the server


class Control:
    """Flower's control interface."""

    def __init__(self, path: Path) -> None:
        own = [RuntimeVersionHttpInterceptor(component_name="unisono")]
        client = ControlHttpClient.from_server_address("localhost", True, None, own)
        self._client = _over(path, client)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._client.close()

    def register(self, public_key: bytes) -> None:
        """Admits the party with this transport key (PEM); harmless if it is admitted already."""
        try:
            self._client.RegisterNode(RegisterNodeRequest(public_key=public_key))
        except httpx.HTTPStatusError as error:
            if json.loads(error.response.text).get("code") != _KEY_IN_USE:
                raise InvalidInput(
                    f"the SuperLink does not register a key: {error.response.text}"
                ) from None

    def registered(self) -> list[bytes]:
        """The transport keys that are admitted."""
        nodes = self._client.ListNodes(ListNodesRequest()).nodes_info
        return [bytes(node.public_key) for node in nodes]

    def start(self, app: Path) -> int:
        """A new run of the app in a folder; returns its number. Somebody must carry it out."""
        with warnings.catch_warnings():  # Flower's own, about how it names patterns
            warnings.simplefilter("ignore", DeprecationWarning)
            content = build_fab_from_disk(app)
        fab = Fab(hash_str=hashlib.sha256(content).hexdigest(), content=content)
        return int(self._client.StartRun(StartRunRequest(fab=fab)).run_id)


# ------------------------------------------------------------------ the server's part of a study


def _grid(token: str) -> Any:
    # Only here: with it come a database and a web server, which whoever registers does not need.
    from flwr.superlink.grid import HttpGrid

    return HttpGrid("localhost", True, token=token)


class HeldTask:
    """The connection of the process that carries out a run."""

    def __init__(self, path: Path, run: int) -> None:
        self._path = path
        self.grid = _grid(self._token(run))
        self._client: RuntimeHttpClient = _over(path, self.grid._runtime_client)
        given = self._client.PullTaskInput(PullTaskInputRequest())
        self._node = given.context.node_id
        TaskIdentity.task_id, TaskIdentity.run_id = given.task_id, run
        TaskIdentity.node_id = self._node
        self.grid.set_run(run_from_proto(given.run))
        self.grid.forget, self.grid.deliver = self._forget, self._deliver
        self._heart = HeartbeatSender(make_task_heartbeat_fn_http(self._client))
        self._heart.start()

    def context(self, configuration: dict[str, Any]) -> Context:
        """What Flower hands to an app."""
        return Context(TaskIdentity.run_id, self._node, {}, RecordDict(), configuration)

    def end(self, failure: str | None) -> None:
        """Tells the SuperLink, if it still listens, that the run is over."""
        self.grid._retry_invoker.max_tries = 1
        status = SubStatus.COMPLETED if failure is None else SubStatus.FAILED
        with contextlib.suppress(httpx.HTTPError):
            self._client.PushTaskOutput(
                PushTaskOutputRequest(sub_status=status, details=failure or "")
            )
        with contextlib.suppress(RuntimeError, httpx.HTTPError):
            self._heart.stop()
        self.grid.close()

    def _forget(self, messages: list[str]) -> None:
        """Deletes messages that nobody waits for any more, all in one request."""
        content = "\n".join(messages)
        self._client._client.post(f"http://localhost{_FORGET}", content=content).raise_for_status()

    def _deliver(
        self, requests: Mapping[int, bytes], deadline: float
    ) -> Iterator[tuple[int, bytes | None]]:
        """Hands out messages to resident parties in one request; tells of each node its reply, as
        it comes in, or None if it is not a resident party."""

        def written() -> Iterator[bytes]:
            yield mailboxes.DEADLINE.pack(deadline)
            for node, data in requests.items():
                yield mailboxes.OUT.pack(node, len(data))
                yield data

        url = f"http://localhost{mailboxes.SERVERS_PATH}"
        connect_timeout = httpx.Timeout(_SECONDS, read=deadline + _SECONDS)
        with self._client._client.stream(
            "POST", url, content=written(), timeout=connect_timeout
        ) as come:
            come.raise_for_status()
            buffer = bytearray()
            for chunk in come.iter_raw():
                buffer += chunk
                yield from _replies(buffer)

    def _token(self, run: int) -> str:
        own = [RuntimeVersionHttpInterceptor(component_name="flwr-serverapp")]
        client = RuntimeHttpClient.from_server_address("localhost", True, None, own)
        with _over(self._path, client) as connection:
            request = AcquireTaskRequest(supported_task_types=[TaskType.SERVER_APP])
            while (found := connection.AcquireTask(request)).token:
                if found.task.run_id == run:
                    return str(found.token)
        raise InvalidInput(f"the SuperLink has no run {run} to carry out")


def _replies(buffer: bytearray) -> Iterator[tuple[int, bytes | None]]:
    """Whole replies from the beginning of a buffer, which are taken out of it."""
    head = mailboxes.BACK
    while len(buffer) >= head.size:
        node, resident, length = head.unpack_from(buffer)
        if len(buffer) < head.size + length:
            return
        data = bytes(memoryview(buffer)[head.size : head.size + length])
        del buffer[: head.size + length]
        yield node, data if resident else None


# ------------------------------------------------------------------ the process of the SuperLink


def _application(database: str | None, secure: bool) -> Any:
    """Flower's web application; it starts nothing besides."""
    from flwr.superlink.auth_plugin import NoOpControlAuthnPlugin
    from flwr.superlink.config_loader import SuperLinkLifespanConfig
    from flwr.superlink.main import create_app

    nothing: dict[str, Any] = dict.fromkeys(
        (
            "health_server_address",
            "certificates",
            "superexec_auth_secret",
            "event_log_plugin",
            "fleet_event_log_plugin",
            "artifact_provider",
            "fleet_api_address",
            "ssl_ca_certfile",
            "ssl_certfile",
            "ssl_keyfile",
        )
    )
    config = SuperLinkLifespanConfig(
        control_address="",
        host="",
        port=0,
        insecure=not secure,
        enable_event_log=False,
        authn_plugin=NoOpControlAuthnPlugin(),
        enable_supernode_auth=secure,
        simulation=False,
        fleet_api_type=TRANSPORT_TYPE_GRPC_RERE,
        database=database or FLWR_IN_MEMORY_DB_NAME,
        isolation=ISOLATION_MODE_PROCESS,
        runtime_dependency_install=False,
        **nothing,
    )
    beside: Any = lambda config, factory: None  # noqa: E731 - what runs beside it: nothing
    app = create_app(config, beside)
    state = app.state.linkstate_factory.state()

    async def forget(request: Any) -> Any:
        from starlette.responses import Response

        names = set((await request.body()).decode().split())
        await asyncio.to_thread(state.delete_messages, names)
        for name in names:
            state.object_store.delete(name)
        return Response()

    app.add_route(_FORGET, forget, methods=["POST"])
    return app


class _Roster:
    """Who may ask: the nodes whose keys are registered, by their signatures for this server.

    Stock SuperNodes sign as Flower does, which would do at any server.
    """

    def __init__(self, app: Any, authority: bytes | None, stock: bool) -> None:
        self._authority, self._stock = authority, stock
        self._state = app.state.linkstate_factory.state()
        self._seen: dict[int, float] = {}

    def signer(self, path: str, headers: Headers) -> int | None:
        """The node that signed a request, lately; None for a stranger."""
        time_said = headers.get(TIMESTAMP_HEADER.encode(), b"").decode("ascii", "replace")
        header, signed = mailboxes.SIGNATURE_HEADER, statement(self._authority, path, time_said)
        if self._stock and path != mailboxes.PARTYS_PATH:
            header, signed = FLEET_HTTP_SIGNATURE_HEADER, time_said.encode()
        try:
            key, signature = (
                b64decode(headers[name.encode()], validate=True)
                for name in (FLEET_HTTP_PUBLIC_KEY_HEADER, header)
            )
            age = (now() - datetime.fromisoformat(time_said)).total_seconds()
            if not -SYSTEM_TIME_TOLERANCE < age < TIMESTAMP_TOLERANCE + SYSTEM_TIME_TOLERANCE:
                return None
            node: int | None = self._state.get_node_id_by_public_key(key)
            if node is None or not verify_signature(bytes_to_public_key(key), signed, signature):
                return None
            return node
        except (KeyError, ValueError, TypeError):
            return None

    def present(self, node: int) -> None:
        """A request of a party says that it is there; once in a while Flower is told."""
        moment = time.monotonic()
        if moment > self._seen.get(node, 0.0) + _MOMENT:
            self._seen[node] = moment
            self._state.acknowledge_node_heartbeat(node, mailboxes.HEARTBEAT_INTERVAL)


def _beside(app: Application, path: str, own: Application) -> Application:
    """The application with another one at one path, past all that Flower does with a request."""

    async def both(scope: Scope, receive: Receive, send: Send) -> None:
        await (own if scope.get("path") == path else app)(scope, receive, send)

    return both


def _applications(
    app: Any, authority: bytes | None, stock: bool
) -> tuple[Application, Application]:
    """What listens at the public address, and what at the socket; without TLS no authority."""
    secure = authority is not None
    roster = _Roster(app, authority, stock)
    boxes = mailboxes.Mailboxes(
        lambda headers: roster.signer(mailboxes.PARTYS_PATH, headers), roster.present
    )
    names = {
        "short": (*_REQUESTS, *(_STOCK if stock else ()), *(() if secure else _INTRODUCTION)),
        "long": _OBJECTS if stock else (),
        "noted": _NOTED if stock else (),
        # Stock SuperNodes are refused by Flower itself.
        "signed": _REQUESTS if secure and not stock else (),
    }
    paths = {kind: {f"/v1/fleet/{name}" for name in own} for kind, own in names.items()}
    paths["long"].add(mailboxes.PARTYS_PATH)
    door = Door(
        _beside(app, mailboxes.PARTYS_PATH, boxes.for_party),
        **paths,
        admits=lambda path, headers: roster.signer(path, headers) is not None,
        maximum=wire.MAXIMUM_BYTES,
    )
    return door, _beside(app, mailboxes.SERVERS_PATH, boxes.for_server)


def _patient_for(seconds: float) -> Any:
    """The protocol of a connection that is closed when it asks for nothing for so long.

    By itself the server waits for ever for the first request, and for the rest of one that comes
    byte by byte.
    """
    import h11
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class Patient(H11Protocol):
        answered = 0

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._expect()

        def on_response_complete(self) -> None:
            self.answered += 1
            super().on_response_complete()
            self._expect()

        def _expect(self) -> None:
            self.loop.call_later(seconds, self._look, self.answered)

        def _look(self, before: int) -> None:
            busy = self.conn.our_state is h11.SEND_RESPONSE or self.conn.our_state is h11.SEND_BODY
            if self.answered == before and not busy:
                self.transport.close()

    return Patient


async def _serve(
    host: str, port: int, path: Path, tls: dict[str, Any], apps: tuple[Application, Application]
) -> None:
    import uvicorn

    # h11 bounds the headers. A party says where it comes from itself: no proxy is believed.
    common: dict[str, Any] = {
        "lifespan": "off",
        "ws": "none",
        "access_log": False,
        "log_level": "warning",
        "proxy_headers": False,
        "server_header": False,
        "timeout_graceful_shutdown": 1,
        "timeout_keep_alive": _KEPT,
    }
    public, private = apps
    strangers = connections.Strangers()
    own = {"http": _patient_for(_PATIENCE), **tls, **common}
    door = uvicorn.Config(strangers.watching(public), host=host, port=port, **own)
    inside = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    path.unlink(missing_ok=True)
    inside.bind(str(path))
    await asyncio.gather(
        uvicorn.Server(uvicorn.Config(private, http="h11", **common)).serve(sockets=[inside]),
        uvicorn.Server(door).serve(sockets=connections.listeners(host, port, strangers)),
    )


def main(settings: str) -> None:
    """The process; `settings` as `cluster` writes them."""
    given = json.loads(settings)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # idle connections are files
    app = _application(given["database"], bool(given["tls"]))
    place = given["host"], given["port"], Path(given["socket"]), given["tls"]
    authority = Path(given["authority"]).read_bytes() if given["authority"] else None
    connections.small_buffers()
    with asyncio.Runner(loop_factory=connections.Loop) as runner:
        runner.run(_serve(*place, _applications(app, authority, given["stock"])))


if __name__ == "__main__":
    main(*sys.argv[1:])
