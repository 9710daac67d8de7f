"""A node's side of Flower's fleet protocol: the one file that needs Flower's private names.

A resident party introduces itself as Flower's nodes do, and has its messages from `mailboxes`, by
requests that are signed as Flower's are. Stock SuperNodes exchange Flower's own messages: trees of
objects (message, records, record, data), each named by its hash and moved by a request of its own.
`patient_until` keeps the server's side of that within its deadline.

Flower's own connection is not used, because the server could end the party's process through it
(its retry answers status 401, and its version check a certain error, by exiting). Here a refused
request raises an error of `httpx`, and the caller decides. A test holds the signatures of all
that is imported here: a new version of Flower is checked in one place.
"""

import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import SimpleNamespace
from typing import Any, NamedTuple

import httpx
from flwr.app import Error, Message
from flwr.app.message import make_message
from flwr.app.metadata import Metadata
from flwr.common.constant import TIMESTAMP_HEADER
from flwr.proto.fleet_pb2 import (
    ActivateNodeRequest,
    DeactivateNodeRequest,
    RegisterNodeFleetRequest,
)
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest
from flwr.proto.node_pb2 import Node
from flwr.supercore.inflatable.inflatable_utils import (
    ObjectPullError,
    ObjectPushError,
    inflate_object_from_contents,
    pull_objects,
    push_objects,
)
from flwr.supercore.primitives.asymmetric import (
    generate_key_pairs,
    public_key_to_bytes,
    sign_message,
)
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from unisono.engines.flower import mailboxes
from unisono.engines.flower.certificates import NodeKeys, statement
from unisono.engines.flower.http_client import CarefulClient
from unisono.engines.flower.messages import MESSAGE_TYPE
from unisono.errors import InvalidInput

_FIRST_WAIT, _LONGEST_WAIT = 0.005, 0.05  # seconds, for an object that is still being uploaded
_LONGEST_LIFE = 86_400.0  # seconds, whatever a server says
_UNKNOWN = 0  # Flower's code for an error that says nothing
_OBJECTS_OF_A_MESSAGE = 3  # message, record list, record


class FleetRequest(NamedTuple):
    """A message from the server, and for how many seconds somebody waits for the answer."""

    identifier: bytes
    lifetime: float
    data: bytes


class _Signer(NodeAuthHttpInterceptor):
    """Signs requests as Flower does, and for this server only."""

    def __init__(self, keys: NodeKeys, authority: bytes | None) -> None:
        super().__init__(*keys)
        self._own, self._authority = keys[0], authority

    def intercept(self, context: Any, call_next: Callable[[Any], httpx.Response]) -> httpx.Response:
        """The answer to the signed request."""

        def signed(given: Any) -> httpx.Response:
            request: httpx.Request = given.request
            said = statement(self._authority, request.url.path, request.headers[TIMESTAMP_HEADER])
            signature = b64encode(sign_message(self._own, said)).decode("ascii")
            request.headers[mailboxes.SIGNATURE_HEADER] = signature
            return call_next(given)

        return super().intercept(context, signed)


class Fleet:
    """One party's connection; without keys it introduces itself under a fresh one."""

    def __init__(
        self, address: str, insecure: bool, root_certificates: bytes | None, keys: NodeKeys | None
    ) -> None:
        own = keys or generate_key_pairs()
        self._public_key, self._registers = public_key_to_bytes(own[1]), keys is None
        self._signer = _Signer(own, root_certificates)
        self._client = FleetHttpClient.from_server_address(
            address, insecure, root_certificates, [self._signer]
        )
        self._client._client.close()
        self._client._client = self._http = CarefulClient(root_certificates)
        self._url = f"{'http' if insecure else 'https'}://{address}{mailboxes.PARTYS_PATH}"
        self._node = Node()

    def open(self, previous: int | None) -> int:
        """Makes this party count as present; returns its node id."""
        if previous is not None and self._recalled(previous):
            return previous
        if self._registers:
            try:
                self._client.RegisterNode(RegisterNodeFleetRequest(public_key=self._public_key))
            except httpx.HTTPStatusError as error:
                if error.response.status_code != httpx.codes.PRECONDITION_FAILED:
                    raise  # 412: this key is registered already
        request = ActivateNodeRequest(
            public_key=self._public_key, heartbeat_interval=mailboxes.HEARTBEAT_INTERVAL
        )
        self._node = Node(node_id=self._client.ActivateNode(request).node_id)
        return int(self._node.node_id)

    def leave(self) -> None:
        """Tells the server that this party goes, so that nobody waits for it."""
        if self._node.node_id:
            self._client.DeactivateNode(DeactivateNodeRequest(node_id=self._node.node_id))

    def close(self) -> None:
        """Closes the connection."""
        self._client.close()

    def next_message(self, identifier: bytes, reply: bytes, wait: bool) -> FleetRequest | None:
        """Hands over the reply to a message and returns the next one; None if there is none yet.

        An empty reply says that there will be none. Handing over a reply again does no harm.
        Without `wait` no message is asked for, and another request that waits for one is over.
        """
        purpose = mailboxes.AWAIT if wait else mailboxes.END
        answer = self._asked(purpose, identifier or mailboxes.NOTHING, reply)
        if not answer:
            return None
        if len(answer) < mailboxes.ANSWERED.size:
            raise InvalidInput(f"a message of {len(answer)} bytes, which has no room for its name")
        name, lifetime = mailboxes.ANSWERED.unpack_from(answer)
        if not lifetime >= 0:
            raise InvalidInput(f"a message that lives for {lifetime} s")
        return FleetRequest(name, min(lifetime, _LONGEST_LIFE), answer[mailboxes.ANSWERED.size :])

    def beat(self) -> None:
        """Says that this party is there, while it is busy with an answer."""
        self._asked(mailboxes.BEAT, mailboxes.NOTHING, b"")

    def _asked(self, purpose: int, identifier: bytes, reply: bytes) -> bytes:
        head = mailboxes.ASKED.pack(self._node.node_id, purpose, identifier)
        request = self._http.build_request("POST", self._url, content=head + reply)
        context: Any = SimpleNamespace(request=request)
        response = self._signer.intercept(context, lambda signed: self._http.send(signed.request))
        return response.raise_for_status().content

    def heartbeat(self) -> bool:
        """Whether the server knows this party."""
        request = SendNodeHeartbeatRequest(
            node=self._node, heartbeat_interval=mailboxes.HEARTBEAT_INTERVAL
        )
        return bool(self._client.SendNodeHeartbeat(request).success)

    def _recalled(self, node_id: int) -> bool:
        """Whether the server still knows this party under an earlier node id."""
        self._node = Node(node_id=node_id)
        try:
            return self.heartbeat()
        except httpx.HTTPStatusError:
            self._node = Node()
            return False


def _pulled(names: list[str], pull: Callable[[str], bytes], seconds: float) -> dict[str, bytes]:
    """Objects by name, as they become available: within `seconds`, each tried at least once."""
    return pull_objects(
        names,
        pull,
        max_time=seconds,
        max_tries_per_object=None,
        initial_backoff=_FIRST_WAIT,
        backoff_cap=_LONGEST_WAIT,
    )


@contextmanager
def patient_until(deadline: float) -> Iterator[None]:
    """Inside, exchanging messages on the server's side of Flower is bounded and cannot be broken.

    By itself Flower sleeps a second or more when an object is not there yet, waits two hours for a
    party that was killed while it uploaded its reply, and one malformed reply ends the pull of
    all, as one object that is not taken ends the push of all. `deadline` is on the monotonic
    clock.
    """
    # Only here: with it come a database and a web server, which a party does not need.
    from flwr.superlink.grid import http_grid

    def pull(object_ids: list[str], pull_object_fn: Callable[[str], bytes]) -> dict[str, bytes]:
        if len(object_ids) > _OBJECTS_OF_A_MESSAGE:
            raise ObjectPullError(object_ids[0], f"one of {len(object_ids)} objects")
        return _pulled(object_ids, pull_object_fn, deadline - time.monotonic())

    def push(
        objects: dict[str, Any],
        push_object_fn: Callable[[str, bytes], None],
        object_ids_to_push: set[str],
    ) -> None:
        def attempt(name: str, content: bytes) -> None:
            with suppress(ObjectPushError, httpx.HTTPStatusError):  # whoever misses it is silent
                push_object_fn(name, content)

        push_objects(objects, attempt, object_ids_to_push=object_ids_to_push)

    def inflate(object_id: str, object_contents: dict[str, bytes]) -> Any:
        try:
            inflated = inflate_object_from_contents(object_id, object_contents)
            return inflated if isinstance(inflated, Message) else _nobodys_error()
        except Exception:  # a reply that its sender garbled
            return _nobodys_error()

    replaced = {"pull_objects": pull, "push_objects": push, "inflate_object_from_contents": inflate}
    names = vars(http_grid)
    stock = {name: names[name] for name in replaced}
    names.update(replaced)
    try:
        yield
    finally:
        names.update(stock)


def _nobodys_error() -> Message:
    """An error that answers no message."""
    metadata = Metadata(0, "", 0, 0, "", "", 0.0, 0.0, MESSAGE_TYPE)
    return make_message(metadata, error=Error(_UNKNOWN))
