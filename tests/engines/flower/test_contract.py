"""What we rely on in Flower's private parts, so that a new version is met by a red test."""

import ast
import inspect
import textwrap
from base64 import b64decode
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest
from flwr.app.message import make_message
from flwr.app.metadata import Metadata
from flwr.cli.build import build_fab_from_disk
from flwr.common.serde import run_from_proto
from flwr.proto import (
    control_pb2,
    fab_pb2,
    fleet_pb2,
    heartbeat_pb2,
    node_pb2,
    runtime_pb2,
)
from flwr.server.superlink.linkstate.sql_linkstate import SqlLinkState
from flwr.supercore.control.control_http_client import ControlHttpClient
from flwr.supercore.date import now
from flwr.supercore.heartbeat import HeartbeatSender, make_task_heartbeat_fn_http
from flwr.supercore.inflatable import inflatable_utils
from flwr.supercore.primitives import asymmetric
from flwr.supercore.protobuf.translation import PROTOBUF_REQUEST_TYPES
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.superlink.config_loader import SuperLinkLifespanConfig
from flwr.superlink.grid import http_grid
from flwr.superlink.main import create_app
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from unisono.engines.flower import fleet, superlink

PUBLIC = ("flwr.app", "flwr.serverapp", "flwr.clientapp")
FOLDER = Path(fleet.__file__).parent

SIGNATURES = {
    FleetHttpClient.from_server_address: "server_address insecure root_certificates interceptors "
    "retry_invoker",
    FleetHttpClient.RegisterNode: "self request",
    FleetHttpClient.ActivateNode: "self request",
    FleetHttpClient.DeactivateNode: "self request",
    FleetHttpClient.SendNodeHeartbeat: "self request",
    FleetHttpClient.close: "self",
    NodeAuthHttpInterceptor: "private_key public_key",
    NodeAuthHttpInterceptor.intercept: "self context call_next",
    SqlLinkState.get_node_id_by_public_key: "self public_key",
    SqlLinkState.acknowledge_node_heartbeat: "self node_id heartbeat_interval",
    Metadata: "run_id message_id src_node_id dst_node_id reply_to_message_id group_id created_at "
    "ttl message_type src_task_id dst_task_id",
    make_message: "metadata content error",
    asymmetric.generate_key_pairs: "",
    asymmetric.public_key_to_bytes: "public_key",
    inflatable_utils.inflate_object_from_contents: "object_id object_contents "
    "keep_object_contents objects",
    inflatable_utils.pull_objects: "object_ids pull_object_fn max_concurrent_pulls max_time "
    "max_tries_per_object initial_backoff backoff_cap",
    inflatable_utils.push_objects: "objects push_object_fn object_ids_to_push keep_objects "
    "max_concurrent_pushes",
    asymmetric.bytes_to_public_key: "public_key_bytes",
    asymmetric.verify_signature: "public_key message signature",
    build_fab_from_disk: "app",
    run_from_proto: "run_proto",
    ControlHttpClient.from_server_address: "server_address insecure root_certificates interceptors "
    "retry_invoker",
    ControlHttpClient.ListNodes: "self request",
    ControlHttpClient.RegisterNode: "self request",
    ControlHttpClient.StartRun: "self request",
    RuntimeHttpClient.AcquireTask: "self request",
    RuntimeHttpClient.PullTaskInput: "self request",
    RuntimeHttpClient.PushTaskOutput: "self request",
    HeartbeatSender: "heartbeat_fn",
    make_task_heartbeat_fn_http: "client",
    http_grid.HttpGrid: "runtime_api_address insecure root_certificates token",
    http_grid.HttpGrid.set_run: "self run",
    create_app: "config superlink_lifespan_class",
    SuperLinkLifespanConfig: "control_address health_server_address host port insecure "
    "certificates superexec_auth_secret authn_plugin event_log_plugin fleet_event_log_plugin "
    "enable_event_log artifact_provider enable_supernode_auth fleet_api_type fleet_api_address "
    "simulation ssl_ca_certfile ssl_certfile ssl_keyfile database isolation "
    "runtime_dependency_install",
}

FIELDS = {
    fleet_pb2.RegisterNodeFleetRequest: "public_key",
    fleet_pb2.ActivateNodeRequest: "public_key heartbeat_interval",
    fleet_pb2.ActivateNodeResponse: "node_id",
    fleet_pb2.DeactivateNodeRequest: "node_id",
    heartbeat_pb2.SendNodeHeartbeatRequest: "node heartbeat_interval",
    heartbeat_pb2.SendNodeHeartbeatResponse: "success",
    node_pb2.Node: "node_id",
    node_pb2.NodeInfo: "node_id public_key",
    fab_pb2.Fab: "hash_str content",
    control_pb2.RegisterNodeRequest: "public_key",
    control_pb2.ListNodesResponse: "nodes_info",
    control_pb2.StartRunRequest: "fab",
    control_pb2.StartRunResponse: "run_id",
    runtime_pb2.AcquireTaskRequest: "supported_task_types",
    runtime_pb2.AcquireTaskResponse: "task token",
    runtime_pb2.PullTaskInputResponse: "task_id run context",
    runtime_pb2.PushTaskOutputRequest: "sub_status details",
}


def test_the_version_is_the_one_that_was_checked():
    assert version("flwr") == "1.41.0"


@pytest.mark.parametrize("function", SIGNATURES, ids=lambda f: f.__qualname__)
def test_signatures(function):
    assert " ".join(inspect.signature(function).parameters) == SIGNATURES[function]


@pytest.mark.parametrize("message", FIELDS, ids=lambda m: m.__name__)
def test_fields(message):
    assert set(FIELDS[message].split()) <= set(message.DESCRIPTOR.fields_by_name)


def test_a_request_is_signed_by_three_headers():
    """The process of the SuperLink reads them where Flower would not."""
    private, public = asymmetric.generate_key_pairs()
    request = httpx.Request("POST", "https://localhost/")
    signer = NodeAuthHttpInterceptor(private, public)
    signer.intercept(SimpleNamespace(request=request), lambda context: None)
    signed = request.headers[superlink.TIMESTAMP_HEADER]
    key, signature = (
        b64decode(request.headers[name])
        for name in (superlink.FLEET_HTTP_PUBLIC_KEY_HEADER, superlink.FLEET_HTTP_SIGNATURE_HEADER)
    )
    assert abs((now() - datetime.fromisoformat(signed)).total_seconds()) < 60
    assert asymmetric.verify_signature(
        asymmetric.bytes_to_public_key(key), signed.encode(), signature
    )


def test_the_grid_pulls_through_the_two_names_that_are_replaced():
    """With other names, or other arguments, deadlines on the server's side would not hold."""
    source = inspect.getsource(http_grid.HttpGrid.pull_messages)
    calls = {
        node.func.id: [keyword.arg for keyword in node.keywords] or len(node.args)
        for node in ast.walk(ast.parse(textwrap.dedent(source)))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert calls["pull_objects"] == ["object_ids", "pull_object_fn"]
    assert calls["inflate_object_from_contents"] == 2


def test_what_the_grid_pushes_goes_through_the_name_that_is_replaced():
    """With another name, one party's message that cannot be stored would end the push of all."""
    source = inspect.getsource(http_grid.HttpGrid._try_push_messages)
    (call,) = (
        node
        for node in ast.walk(ast.parse(textwrap.dedent(source)))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "push_objects"
    )
    assert len(call.args) == 1
    assert [k.arg for k in call.keywords] == ["push_object_fn", "object_ids_to_push"]


def test_the_fleet_serves_what_was_looked_at():
    """A new request is open to parties only when somebody has read what it does."""
    fleet = {
        path.removeprefix("/v1/fleet/")
        for _, path in PROTOBUF_REQUEST_TYPES
        if path.startswith("/v1/fleet/")
    }
    assert fleet == {
        *superlink._REQUESTS,
        *superlink._OBJECTS,
        *superlink._STOCK,
        *superlink._NOTED,
        *superlink._INTRODUCTION,
        "unregister-node",
    }


def test_private_names_are_imported_in_one_file_for_each_side():
    """`loopback.py` may set the task identity, which has no public way."""
    allowed = {"fleet.py", "superlink.py", "loopback.py"}
    for path in FOLDER.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("flwr"):
                assert node.module in PUBLIC or path.name in allowed, (path.name, node.module)
