"""A node's side of Flower's fleet protocol: the one file that needs Flower's private names.

A message is a tree of objects (message, records, record, data), each named by its hash and moved
by a request of its own; the server announces a message before its objects are there. Requests
cost the server about the same whatever their size, so a party pulls the record alone: the
message and its record list say nothing that the announcement does not.

Flower's own connection is not used, because the server could end the party's process through it
(its retry answers status 401, and its version check a certain error, by exiting). Here a refused
request raises an error of `httpx`, and the caller decides. A test holds the signatures of all
that is imported here: a new version of Flower is checked in one place.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import httpx
from flwr.app import Error, Message, RecordDict
from flwr.app.message import make_message, remove_content_from_message
from flwr.app.metadata import Metadata
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.fleet_pb2 import (
    ActivateNodeRequest,
    DeactivateNodeRequest,
    PullMessagesRequest,
    PushMessagesRequest,
    RegisterNodeFleetRequest,
)
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest
from flwr.proto.message_pb2 import ObjectTree
from flwr.proto.node_pb2 import Node
from flwr.supercore.inflatable.inflatable_object import (
    get_all_nested_objects,
    get_object_tree,
    no_object_id_recompute,
)
from flwr.supercore.inflatable.inflatable_protobuf_utils import (
    make_pull_object_fn_protobuf,
    make_push_object_fn_protobuf,
)
from flwr.supercore.inflatable.inflatable_utils import (
    ObjectPullError,
    ObjectPushError,
    inflate_object_from_contents,
    pull_objects,
    push_objects,
)
from flwr.supercore.primitives.asymmetric import generate_key_pairs, public_key_to_bytes
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from unisono.engines import wire
from unisono.engines.flower.careful import CarefulClient
from unisono.engines.flower.certificates import NodeKeys
from unisono.engines.flower.messages import MESSAGE_TYPE, unwrap, wrap
from unisono.errors import InvalidInput

# The shortest interval Flower allows: the server counts a party out after twice as long.
HEARTBEAT_INTERVAL = 10.0
_FIRST_WAIT, _LONGEST_WAIT = 0.005, 0.05  # seconds, for an object that is still being uploaded
_UNKNOWN = 0  # Flower's code for an error that says nothing
_OBJECTS_OF_A_MESSAGE = 3  # message, record list, record


class Request(NamedTuple):
    """A message as the server announced it."""

    head: Message
    tree: ObjectTree

    @property
    def identifier(self) -> str:
        return str(self.head.metadata.message_id)

    @property
    def lifetime(self) -> float:
        """Seconds from when it was sent to when it expires."""
        return float(self.head.metadata.ttl)


class Reply(NamedTuple):
    """A message ready to be sent: what is announced, and its objects by name."""

    head: Message
    tree: ObjectTree
    contents: dict[str, bytes]


class Fleet:
    """One party's connection; without keys it introduces itself under a fresh one."""

    def __init__(
        self, address: str, insecure: bool, root_certificates: bytes | None, keys: NodeKeys | None
    ) -> None:
        own = keys or generate_key_pairs()
        self._public_key, self._registers = public_key_to_bytes(own[1]), keys is None
        self._client = FleetHttpClient.from_server_address(
            address, insecure, root_certificates, [NodeAuthHttpInterceptor(*own)]
        )
        self._client._client.close()
        self._client._client = CarefulClient(root_certificates)
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
            public_key=self._public_key, heartbeat_interval=HEARTBEAT_INTERVAL
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

    def heartbeat(self) -> bool:
        """Says that this party is there; false when the server does not know it."""
        request = SendNodeHeartbeatRequest(node=self._node, heartbeat_interval=HEARTBEAT_INTERVAL)
        return bool(self._client.SendNodeHeartbeat(request).success)

    def receive(self) -> Request | None:
        """The next message for this party, if there is one."""
        response = self._client.PullMessages(PullMessagesRequest(node=self._node))
        if not response.messages_list:
            return None
        head = message_from_proto(response.messages_list[0])
        return Request(head, response.message_object_trees[0])

    def content(self, request: Request) -> bytes:
        """The bytes in a message; anything but one packet is refused."""
        metadata, records = request.head.metadata, list(request.tree.children)
        if metadata.message_type != MESSAGE_TYPE:
            raise InvalidInput(f"a message of type {metadata.message_type!r}")
        if len(records) != 1 or len(records[0].children) != 1:
            raise InvalidInput("a message that does not hold exactly one record")
        record = records[0].children[0]
        if record.children:  # a packet is one object: nothing else is fetched
            raise InvalidInput("a message that holds more than one object")
        names = [record.object_id]
        pull = make_pull_object_fn_protobuf(self._client.PullObject, self._node, metadata.run_id)
        contents = _pulled(names, pull, metadata.ttl)
        if (size := sum(map(len, contents.values()))) > wire.MAXIMUM_BYTES:
            raise InvalidInput(f"a message of {size} bytes: at most {wire.MAXIMUM_BYTES}")
        inflated: Any = inflate_object_from_contents(record.object_id, contents)
        (name,) = wrap(b"")
        return unwrap(Message(RecordDict({name: inflated}), reply_to=request.head))

    def reply(self, request: Request, data: bytes | None) -> Reply:
        """The reply that carries `data`, or an error without a reason.

        It expires with the request on the server's clock, so the two clocks need not agree.
        """
        content: Any = Error(_UNKNOWN) if data is None else wrap(data)
        message = Message(content, reply_to=request.head)
        message.metadata.created_at = request.head.metadata.created_at
        message.metadata.ttl = request.head.metadata.ttl
        with no_object_id_recompute():
            message.metadata.__dict__["_message_id"] = message.object_id
            tree, objects = get_object_tree(message), get_all_nested_objects(message)
            contents = {name: item.deflate() for name, item in objects.items()}
        return Reply(remove_content_from_message(message), tree, contents)

    def send(self, reply: Reply) -> None:
        """Sends a reply; sending it again does no harm."""
        announcement = PushMessagesRequest(
            node=self._node,
            messages_list=[message_to_proto(reply.head)],
            message_object_trees=[reply.tree],
        )
        response = self._client.PushMessages(announcement)
        push = make_push_object_fn_protobuf(
            self._client.PushObject, self._node, reply.head.metadata.run_id, response.session_id
        )
        for name in response.objects_to_push:
            push(name, reply.contents[name])

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
        names, pull, max_time=seconds, max_tries_per_object=None,
        initial_backoff=_FIRST_WAIT, backoff_cap=_LONGEST_WAIT,
    )  # fmt: skip


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
        objects: dict[str, Any], push_object_fn: Callable[[str, bytes], None],
        object_ids_to_push: set[str],
    ) -> None:  # fmt: skip
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
