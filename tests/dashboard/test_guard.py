"""Who may ask: by this machine's name, with the token, to read; and what every answer forbids."""

import re

import pytest

from unisono.dashboard.guard import GuardedDoor

from .conftest import TOKEN

PATHS = (
    "/",
    "/about",
    "/api/runs",
    "/api/runs/0123456789abcdef",
    "/runs/0123456789abcdef",
    "/runs/0123456789abcdef/report",
    "/nothing",
)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Basic {TOKEN}"},
        {"Authorization": f"Bearer {TOKEN[:-1]}"},
        {"Cookie": f"unisono-1={TOKEN}"},
        {"Cookie": f"unisono-{{room}}={TOKEN}"},  # a browser sends it to the room only
        {"Cookie": "unisono-{room}=wrong"},
        {"Cookie": "unisono-{room}="},
        {"Cookie": '"; = ,;;'},
    ],
)
def test_without_the_token_nothing_is_shown(client, path, headers):
    own = {name: value.replace("{room}", client.room) for name, value in headers.items()}
    answer = client.get(path, own, signed=False)
    assert answer.status == 401
    assert "token" in answer.text
    assert "hospitals" not in answer.text
    assert "set-cookie" not in answer.headers
    assert client.room not in answer.text  # nor where browsers send the cookie


@pytest.mark.parametrize("cookie", ["", "unisono-1={token}", "unisono-{room}=wrong"])
def test_who_knows_the_room_still_needs_the_token(client, cookie):
    given = {"Cookie": cookie.replace("{room}", client.room).replace("{token}", TOKEN)}
    for path in PATHS:
        assert client.get(f"/{client.room}{path}", given, signed=False).status == 401


def test_links_of_a_page_stay_where_it_was_asked_for(client):
    pair = {"Cookie": f"unisono-{client.room}={TOKEN}"}
    run = f"/runs/{client.runs()['Five hospitals']['id']}"
    for path in ("/", "/about", run, "/nothing"):
        text = client.get(f"/{client.room}{path}", pair, signed=False).text
        links = re.findall(r'(?:href|src)="(/[^"]*)"', text)
        assert len(links) >= 6
        assert all(link.startswith(f"/{client.room}/") for link in links)
        assert client.room not in client.get(path).text
        for link in links:
            assert client.get(link, pair, signed=False).status == 200


def test_every_dashboard_has_a_room_of_its_own():
    rooms = {GuardedDoor(TOKEN, "127.0.0.1", 80).room for _ in range(3)}
    assert len(rooms) == 3
    assert all(len(room) >= 32 for room in rooms)


def test_the_token_in_the_address_becomes_a_cookie_and_leaves_the_address(client):
    answer = client.get(f"/?token={TOKEN}", signed=False)
    assert answer.status == 303
    inside = f"/{client.room}/"
    assert answer.headers["location"] == inside
    cookie = answer.headers["set-cookie"]
    assert cookie.startswith(f"unisono-{client.room}={TOKEN};")
    assert "httponly" in cookie.lower()
    assert "samesite=strict" in cookie.lower()
    # Servers on other ports of this machine are not asked for that folder, so do not get it.
    assert f"path={inside};" in cookie.lower() + ";"
    pair = cookie.partition(";")[0]
    assert client.get(inside, {"Cookie": pair}, signed=False).status == 200
    # Cookies of other servers on this machine, whatever they look like, lock nobody out.
    beside = f'odd={{"a": 1}}; _x=2|3; {pair}; last'
    assert client.get(inside, {"Cookie": beside}, signed=False).status == 200


def test_after_a_link_elsewhere_a_page_of_our_own_leads_on(client):
    """A redirect would be sent without the Strict cookie; test_browser follows it in a browser."""
    answer = client.get(f"/?token={TOKEN}", {"Sec-Fetch-Site": "cross-site"}, signed=False)
    assert answer.status == 200
    assert f'content="0; url=/{client.room}/"' in answer.text
    assert "set-cookie" in answer.headers
    assert TOKEN not in answer.text


@pytest.mark.parametrize(
    "path", ["/?token=wrong", "/?token=", "/about?token=" + TOKEN, "//evil.example/?token=" + TOKEN]
)
def test_other_tokens_and_other_addresses_open_nothing(client, path):
    answer = client.get(path, signed=False)
    assert answer.status == 401
    assert "set-cookie" not in answer.headers
    assert "location" not in answer.headers
    assert TOKEN not in answer.text


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:{port}",
        "127.0.0.1",
        "127.0.0.1:1",
        "localhost.evil:{port}",
        "127.0.0.1.evil.example:{port}",
        "127.0.0.1@evil:{port}",
        "",
        "10.0.0.1:{port}",
        "[::1]:1",
        "[::1]",
    ],
)
def test_other_names_are_refused_even_with_the_token(client, host):
    answer = client.get("/", {"Host": host.replace("{port}", str(client.port))})
    assert answer.status == 421
    assert "hospitals" not in answer.text
    given = client.get(
        f"/?token={TOKEN}", {"Host": host.replace("{port}", str(client.port))}, signed=False
    )
    assert given.status == 421
    assert "set-cookie" not in given.headers


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST", "[::1]"])
def test_this_machine_has_three_names(client, host):
    assert client.get("/", {"Host": f"{host}:{client.port}"}).status == 200


def test_a_request_without_a_host_is_refused(client):
    assert client.get("/", {"Host": None}).status in (400, 421)


@pytest.mark.parametrize(
    ("listens", "asked", "answers"),
    [
        ("0.0.0.0", "192.168.1.7:80", True),
        ("0.0.0.0", "evil.example:80", False),
        ("::", "[fe80::1]:80", True),
        ("192.168.1.7", "192.168.1.7:80", True),
        ("192.168.1.7", "192.168.1.8:80", False),
        ("lab.example", "LAB.example:80", True),
        ("lab.example", "lab.example", True),
        ("lab.example", "evil.example:80", False),
        ("fd00::5", "[fd00::5]:80", True),
        ("::1", "localhost:80", True),
        ("127.0.0.1", "192.168.1.7:80", False),
    ],
)
def test_names_follow_from_where_it_listens(listens, asked, answers):
    assert GuardedDoor(TOKEN, listens, 80).named(asked) is answers


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_nothing_can_be_changed(client, method):
    answer = client.get("/", method=method)
    assert answer.status == 405
    assert answer.headers["allow"] == "GET, HEAD"


def test_head_has_no_body(client):
    answer = client.get("/", method="HEAD")
    assert (answer.status, answer.body) == (200, b"")


@pytest.mark.parametrize("path", ["/", "/about", "/api/runs", "/static/dashboard.js", "/nothing"])
@pytest.mark.parametrize("signed", [True, False])
def test_every_answer_forbids_framing_sniffing_storing_and_referring(client, path, signed):
    headers = client.get(path, signed=signed).headers
    policy = dict(
        part.strip().partition(" ")[::2] for part in headers["content-security-policy"].split(";")
    )
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-frame-options"] == "DENY"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cache-control"] == "no-store"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert "access-control-allow-origin" not in headers
    assert "server" not in headers


def test_a_report_runs_nothing_and_fetches_nothing(client):
    answer = client.page("Five hospitals", "/report")
    assert answer.status == 200
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:;")
    assert policy.endswith("sandbox")
    assert "script-src" not in policy
    assert answer.headers["x-frame-options"] == "DENY"
