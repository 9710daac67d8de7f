"""Sample runs, a real dashboard that shows them, and someone who asks it."""

import http.client
import json
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from unisono.dashboard.address import bind, door_of
from unisono.dashboard.serve import server as serving

from .sample import make_all

TOKEN = "a-token-that-tests-know-0123456789"


@dataclass
class Answer:
    """What came back; header names are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self):
        return self.body.decode()

    @property
    def json(self):
        def refuse(word):
            raise AssertionError(f"{word} is no JSON")

        return json.loads(self.body, parse_constant=refuse)


@dataclass
class Client:
    """Someone who asks a dashboard, with the token unless told otherwise."""

    port: int
    room: str = ""

    @property
    def base(self):
        return f"http://127.0.0.1:{self.port}"

    @property
    def inside(self):
        """Where browsers are led, and where alone they send the cookie."""
        return f"{self.base}/{self.room}"

    def get(self, path, headers=None, method="GET", signed=True):
        own = {"Host": f"127.0.0.1:{self.port}", **(headers or {})}
        if signed:
            own.setdefault("Authorization", f"Bearer {TOKEN}")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in own.items():
                if value is not None:
                    connection.putheader(name, value)
            connection.endheaders()
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, found, answer.read())
        finally:
            connection.close()

    def runs(self):
        """The runs by title."""
        return {one["title"]: one for one in self.get("/api/runs").json["runs"]}

    def page(self, title, query=""):
        return self.get(f"/runs/{self.runs()[title]['id']}{query}")


@contextmanager
def dashboard(*folders):
    """A dashboard of these folders on a free port, in a thread."""
    listener = bind("127.0.0.1", 0)
    door = door_of("127.0.0.1", listener, TOKEN)
    server = serving(list(folders), door)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.01)
        yield Client(door.port, door.room)
    finally:
        server.should_exit = True
        thread.join(10)
        listener.close()


@pytest.fixture(scope="session")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="session")
def samples(root):
    return make_all(root)


@pytest.fixture(scope="session")
def client(root, samples):
    with dashboard(root) as asking:
        yield asking
