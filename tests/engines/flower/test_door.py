"""What strangers find at the server: a port where only a party's requests pass, and nothing else.

The requests are made by another user of this machine, who also looks for other ways in.
"""

import asyncio
import contextlib
import gc
import json
import os
import socket
import ssl
import subprocess
import sys
import threading
import tracemalloc
from asyncio.sslproto import SSLProtocol
from pathlib import Path

import httpx
import pytest
import uvicorn
from flwr.supercore.protobuf.translation import PROTOBUF_REQUEST_TYPES

from unisono.engines.flower.certificates import (
    generate_node_keys,
    issue,
    load_node_keys,
    public_path,
)
from unisono.engines.flower.cluster import SuperLink
from unisono.engines.flower.connections import (
    MOST_STRANGERS,
    Loop,
    Strangers,
    listeners,
    small_buffers,
)
from unisono.engines.flower.fleet import Fleet
from unisono.engines.flower.mailboxes import PARTYS_PATH, SERVERS_PATH
from unisono.engines.flower.processes import marked
from unisono.engines.flower.public_gateway import SHORT, Door
from unisono.engines.flower.superlink import Control, _patient_for

pytestmark = pytest.mark.cluster

PARTIES = {"activate-node", "deactivate-node", "send-node-heartbeat"}
STOCK = PARTIES | {
    "pull-messages",
    "push-messages",
    "push-object",
    "pull-object",
    "get-run",
    "get-fab",
    "confirm-message-received",
}
# Modules are loaded first: the other user may not be able to read them.
STRANGER = """
import http.client, json, os, socket, ssl, sys
import encodings.idna
port, private, requests = int(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3])
trusting = ssl.create_default_context()
trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
if os.getuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
found = {}
for method, path, size in requests:
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=trusting, timeout=20)
    connection.putrequest(method, path)
    connection.putheader("content-type", "application/protobuf")
    connection.putheader("content-length", str(size))
    connection.endheaders(b"" if size > 100 else bytes(size))
    response = connection.getresponse()
    found[f"{method} {path} {size}"] = [response.status, len(response.read())]
try:
    socket.socket(socket.AF_UNIX).connect(private)
    found["socket"] = "open"
except OSError as error:
    found["socket"] = type(error).__name__
print(json.dumps(found))
"""


def through(headers, path="/short", method="POST", kind="http", member=True):
    """With which status a request ends at the door, or the request as it is inside."""
    inside, said = [], []

    async def inner(scope, receive, send):
        inside.append(scope)

    async def send(event):
        said.append(event)

    door = Door(
        inner,
        short={"/short", "/signed"},
        long={"/long"},
        noted={"/noted"},
        maximum=10**6,
        signed={"/signed"},
        admits=lambda path, headers: member and headers[b"flwr-key"] == b"own",
    )
    scope = {
        "type": kind,
        "method": method,
        "path": path,
        "query_string": b"a=b",
        "headers": [(name.encode(), value.encode()) for name, value in headers],
    }
    asyncio.run(door(scope, None, send))
    return inside[0] if inside else said[0]["status"]


OWN = ("flwr-key", "own")


@pytest.mark.parametrize(
    ("status", "headers", "options"),
    [
        (404, [("content-length", "1")], {"path": "/shorter"}),
        (404, [("content-length", "1")], {"path": "/short/"}),
        (404, [("content-length", "1")], {"kind": "websocket"}),
        (405, [("content-length", "1")], {"method": "GET"}),
        (411, [], {}),
        (411, [("content-length", "-1")], {}),
        (411, [("content-length", "1"), ("transfer-encoding", "chunked")], {}),
        (413, [("content-length", str(SHORT + 1)), OWN], {}),
        (413, [("content-length", "9" * 5000), OWN], {"path": "/long"}),
        (413, [("content-length", str(SHORT + 1)), OWN], {"path": "/long", "member": False}),
        (413, [("content-length", str(10**7)), OWN], {"path": "/long"}),
        (413, [("content-length", str(SHORT + 1)), OWN], {"path": "/noted"}),
        (401, [("content-length", "1"), OWN], {"path": "/signed", "member": False}),
        (200, [("content-length", "1")], {"path": "/noted"}),
    ],
)
def test_what_ends_at_the_door(status, headers, options):
    assert through(headers, **options) == status


def test_what_passes_is_stripped_of_what_it_does_not_need():
    needed = [("content-type", "application/protobuf"), ("content-length", "70000"), OWN]
    more = [("host", "x/v1/runtime/pull-object?"), ("x-forwarded-for", "1.2.3.4"), ("cookie", "a")]
    inside = through([*more, *needed], path="/long")
    assert dict(inside["headers"]) == {
        b"host": b"localhost",
        **{name.encode(): value.encode() for name, value in needed},
    }
    assert inside["query_string"] == b""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("door")
    generate_node_keys(folder / "party")
    with SuperLink(folder, tls=issue(folder / "tls", ["127.0.0.1"])) as server:
        server.register(public_path(folder / "party"))
        yield server


def stranger(server, *requests):
    """What another user finds: by request, the status and the length of the answer."""
    port = server.address.rpartition(":")[2]
    command = [sys.executable, "-c", STRANGER, port, str(server.inside), json.dumps(requests)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_nothing_but_a_partys_requests_passes(server):
    """Every path that Flower serves, and its description of itself."""
    paths = [path for _, path in PROTOBUF_REQUEST_TYPES]
    closed = [p for p in paths if p.removeprefix("/v1/fleet/") not in PARTIES]
    assert len(closed) > 50
    described = ("/docs", "/openapi.json", "/health", "/redoc", "/", "/forget")
    roundabout = (
        "/forget",
        "/v1/responses",
        "//v1/control/list-nodes",
        "/v1/fleet/../control/list-runs",
        "/v1/fleet/%2e%2e/control/list-runs",
    )
    asked = [("POST", path, 0) for path in (*closed, *roundabout)]
    asked += [("GET", path, 0) for path in described]
    found = stranger(server, *asked)
    found.pop("socket")
    assert set(map(tuple, found.values())) == {(404, 0)}


def test_a_partys_requests_are_refused_without_its_key(server):
    found = stranger(server, *[("POST", f"/v1/fleet/{name}", 0) for name in sorted(PARTIES)])
    found.pop("socket")
    assert set(map(tuple, found.values())) == {(401, 0)}  # by the door: Flower would say why


def test_what_stock_supernodes_need_is_there_for_them_only(tmp_path):
    with SuperLink(tmp_path, tls=issue(tmp_path / "tls", ["127.0.0.1"]), stock=True) as server:
        found = stranger(server, *[("POST", f"/v1/fleet/{name}", 0) for name in sorted(STOCK)])
    found.pop("socket")
    assert found.pop("POST /v1/fleet/confirm-message-received 0") == [200, 0]  # and goes no further
    assert {status for status, _ in found.values()} == {401}


@pytest.mark.parametrize("size", [0, 24, 25])
def test_messages_are_for_parties_of_the_roster(server, size):
    """A body that is too short, and one that names a node, without a signature."""
    found = stranger(server, ("POST", PARTYS_PATH, size), ("POST", SERVERS_PATH, size))
    found.pop("socket")
    statuses = {request.split()[1]: status for request, (status, _) in found.items()}
    assert statuses == {PARTYS_PATH: 401, SERVERS_PATH: 404}


def test_long_bodies_of_strangers_are_refused_unread(server):
    sizes = {"send-node-heartbeat": SHORT + 1, "activate-node": 10**12, "deactivate-node": 2**63}
    asked = [("POST", f"/v1/fleet/{n}", size) for n, size in sizes.items()]
    found = stranger(server, *asked, ("POST", PARTYS_PATH, SHORT + 1))
    found.pop("socket")
    assert {status for status, _ in found.values()} == {413}


@pytest.mark.parametrize("registers", [True, False], ids=["introduces itself", "has a key"])
def test_a_stranger_with_a_key_of_its_own_is_not_admitted(server, tmp_path, registers):
    """So that the server's part never sees it, and never waits for it."""
    keys = None if registers else generate_node_keys(tmp_path / "stranger")
    authority = (server.folder.parent / "tls" / "authority.crt").read_bytes()
    fleet = Fleet(server.address, False, authority, keys)
    with pytest.raises(httpx.HTTPStatusError):
        fleet.open(None)
    with pytest.raises(httpx.HTTPStatusError):
        fleet.heartbeat()
    with pytest.raises(httpx.HTTPStatusError):
        fleet.next_message(b"", b"", wait=True)
    fleet.close()
    with Control(server.inside) as control:
        assert len(control.registered()) == 1


def test_what_a_party_signed_for_another_server_is_worth_nothing_here(server, tmp_path):
    """Whoever runs that one cannot be the party here, read its messages or take them away."""
    authority, folder = server.folder.parent / "tls" / "authority.crt", server.folder.parent
    fleet = Fleet(server.address, False, authority.read_bytes(), load_node_keys(folder / "party"))
    node = fleet.open(None)
    assert fleet.next_message(b"", b"", wait=False) is None
    fleet._signer._authority = issue(tmp_path / "tls", ["127.0.0.1"]).authority.read_bytes()
    for request in (fleet.heartbeat, fleet.leave, fleet.beat, lambda: fleet.open(None)):
        with pytest.raises(httpx.HTTPStatusError, match="401"):
            request()
    fleet._signer._authority = authority.read_bytes()
    assert fleet.open(node) == node  # nobody made it leave
    fleet.leave()
    fleet.close()


@pytest.mark.skipif(os.getuid() != 0, reason="becoming another user needs to be root")
def test_the_private_socket_admits_no_other_user(server):
    assert stranger(server)["socket"] == "PermissionError"
    with Control(server.inside) as control:
        assert len(control.registered()) == 1


def test_nothing_else_listens(server):
    """One port in all, whichever processes the server has started."""
    held = {
        os.readlink(entry)
        for process in marked("UNISONO_SUPERLINK", server._mark)
        for entry in Path(f"/proc/{process}/fd").iterdir()
        if entry.is_symlink()
    }
    listening = []
    for table in ("/proc/net/tcp", "/proc/net/tcp6", "/proc/net/udp", "/proc/net/udp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if f"socket:[{fields[9]}]" in held and fields[3] in ("0A", "07"):
                listening.append(int(fields[1].rpartition(":")[2], 16))
    assert listening == [int(server.address.rpartition(":")[2])]


@pytest.mark.parametrize(
    ("sent", "answer"),
    [
        (b"", b""),
        (b"POST /busy HTTP/1.1\r\nhost: x\r\nconte", b""),
        (b"POST /refused HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nx", b"HTTP/1.1 404"),
        (b"POST /busy HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n", b"HTTP/1.1 200"),
    ],
    ids=["nothing", "a piece of a request", "a request that is refused", "one that takes long"],
)
def test_whoever_asks_for_nothing_is_not_waited_for(sent, answer):
    """Others are answered however long it takes."""
    begun = []

    async def app(scope, receive, send):
        begun.append(scope["path"])
        await asyncio.sleep(1.0 if scope["path"] == "/busy" else 0.0)
        status = 200 if scope["path"] == "/busy" else 404
        headers = [(b"content-length", b"0")]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b""})

    async def scenario():
        own = {"http": _patient_for(0.3), "ws": "none", "lifespan": "off"}
        server = uvicorn.Server(uvicorn.Config(app, **own))
        with socket.create_server(("127.0.0.1", 0)) as listening:
            serving = asyncio.create_task(server.serve(sockets=[listening]))
            while not server.started:
                await asyncio.sleep(0.01)
            reader, writer = await asyncio.open_connection(*listening.getsockname())
            writer.write(sent)
            found = await asyncio.wait_for(reader.read(), 60)  # until it is closed
            writer.close()
            await writer.wait_closed()
            server.should_exit = True
            await serving
        return found

    assert asyncio.run(scenario()).startswith(answer)
    assert begun == ([] if not answer else [sent.split()[1].decode()])


async def fine(scope, receive, send):
    """Answers parties only: those who ask at /party."""
    status = 200 if scope["path"] == "/party" else 401
    headers = [(b"content-length", b"0")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b""})


@contextlib.contextmanager
def with_strangers(tmp_path, most):
    """A TLS server in a thread that holds so many strangers at most; a way to connect to it."""
    files, strangers = issue(tmp_path / "tls", ["127.0.0.1"]), Strangers(most)
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    tls = {"ssl_certfile": files.certificate, "ssl_keyfile": files.key}
    own = {"http": _patient_for(600.0), "ws": "none", "lifespan": "off", "log_level": "critical"}
    server = uvicorn.Server(uvicorn.Config(strangers.watching(fine), **own, **tls))
    [listening] = listeners("127.0.0.1", 0, strangers)
    listening.listen()  # connections wait until it serves
    address = listening.getsockname()

    def serve():
        with asyncio.Runner(loop_factory=Loop) as runner:
            runner.run(server.serve(sockets=[listening]))

    with contextlib.ExitStack() as stack:

        def connect(secure=True):
            plain = stack.enter_context(socket.create_connection(address, timeout=60))
            return stack.enter_context(trusting.wrap_socket(plain)) if secure else plain

        serving = threading.Thread(target=serve)
        serving.start()
        try:
            yield connect, strangers
        finally:
            stack.close()
            server.should_exit = True
            serving.join()


def asked(connection, path):
    """The status with which a request is answered."""
    request = f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n"
    connection.sendall(request.encode())
    head = b""
    while b"\r\n\r\n" not in head:
        head += connection.recv(1000)
    return int(head.split()[1])


def is_closed(connection):
    try:
        return connection.recv(1) == b""
    except (ConnectionError, ssl.SSLError):
        return True


def tls_connections():
    """The server's TLS connections of which this process still holds anything."""
    gc.collect()
    return sum(type(one) is SSLProtocol for one in gc.get_objects())


def test_strangers_make_room_for_each_other_and_parties_stay(tmp_path):
    """By order of arrival alone: no clock decides who is closed."""
    with with_strangers(tmp_path, most=4) as (connect, strangers):
        party = connect()
        assert asked(party, "/party") == 200
        assert len(strangers) == 0
        idle = []
        for number in range(20):
            idle.append(connect(secure=number % 4 != 0))  # some never begin a handshake
            if number % 4 == 1:  # asking for something makes nobody a party
                assert asked(idle[-1], "/nothing") == 401
        assert all(is_closed(one) for one in idle[:16])
        assert len(strangers) == 4
        assert asked(party, "/party") == 200
        assert asked(idle[-1], "/party") == 200
        assert len(strangers) == 3


def test_what_closed_connections_took_is_given_back(tmp_path):
    """Once a newer connection is answered, older ones that were closed hold no memory."""
    before = tls_connections()
    with with_strangers(tmp_path, most=4) as (connect, _):
        idle = [connect() for _ in range(20)]
        assert all(is_closed(one) for one in idle[:16])
        left = []
        for _ in range(1000):  # the loop closes transports in turns of its own
            left.append(tls_connections() - before)
            if left[-1] <= 4:
                break
            assert asked(idle[-1], "/nothing") == 401
    assert left[-1] <= 4


def test_an_idle_connection_takes_little_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(SSLProtocol, "max_size", SSLProtocol.max_size)  # is put back
    sizes = []
    for shrink in (lambda: None, small_buffers):
        shrink()
        with with_strangers(tmp_path / str(len(sizes)), most=20) as (connect, _):
            idle = [connect()]
            assert asked(idle[0], "/nothing") == 401
            tracemalloc.start()
            before = tracemalloc.get_traced_memory()[0]
            idle += [connect() for _ in range(8)]
            assert all(asked(one, "/nothing") == 401 for one in idle)
            sizes.append((tracemalloc.get_traced_memory()[0] - before) / 8)
            tracemalloc.stop()
    usual, small = sizes
    assert usual > 256 * 1024  # the control
    assert small < usual / 3


def test_the_server_of_a_study_bounds_strangers(server):
    """The same at the process that listens: the oldest of many idle strangers is closed."""
    port = int(server.address.rpartition(":")[2])
    idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(MOST_STRANGERS + 8)]
    try:
        for one in idle[:8]:
            one.settimeout(60)
            with contextlib.suppress(ConnectionError):
                assert one.recv(1) == b""
        found = stranger(server, ("POST", PARTYS_PATH, 0))
        assert found[f"POST {PARTYS_PATH} 0"][0] == 401
    finally:
        for one in idle:
            one.close()
