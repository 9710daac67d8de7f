"""Each way a server can turn a party away has its own words."""

import datetime
import email.utils
import re

import httpx
import pytest

from unisono.engines.flower.refusals import explain, is_loopback

ADDRESS = "hospital.example:9443"


def answer(status, json=None, ahead=0.0):
    now = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=ahead)
    headers = {"date": email.utils.format_datetime(now, usegmt=True)}
    response = httpx.Response(status, json=json, headers=headers)
    return httpx.HTTPStatusError("", request=httpx.Request("POST", "https://a"), response=response)


@pytest.mark.parametrize(
    ("error", "words", "final"),
    [
        (lambda: answer(412, {"code": 2004, "detail": ""}), "holds this party's card", False),
        (lambda: answer(403, {"code": 2001, "detail": ""}), "registered keys only", True),
        (lambda: answer(401, ahead=600), r"clocks differ by \+6\d\d s", True),
        (lambda: answer(401), "does not admit this party's transport key", False),
        (lambda: answer(503), "status 503", False),
        (lambda: answer(404), "no Flower server", True),
        (lambda: answer(200, ["not", "an", "object"]), "no Flower server", True),
        (
            httpx.ConnectError(
                "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: "
                "unable to get local issuer certificate (_ssl.c:1006)"
            ),
            r"\(unable to get local issuer certificate\)",
            True,
        ),
        (
            httpx.ConnectError(
                "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: "
                "certificate is not yet valid (_ssl.c:1006)"
            ),
            r"this machine's time, 20.*\(certificate is not yet valid\): set this machine's clock",
            True,
        ),
        (
            httpx.ConnectError(
                "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: "
                "certificate has expired (_ssl.c:1006)"
            ),
            r"\(certificate has expired\): set this machine's clock",
            True,
        ),
        (httpx.ConnectError("[SSL: WRONG_VERSION_NUMBER] wrong version number"), "TLS", True),
        (httpx.ConnectError("[Errno 111] Connection refused"), "nobody answers", False),
        (httpx.ReadTimeout(""), r"nobody answers .*ReadTimeout", False),
        (ValueError("Invalid protobuf response payload"), "not Flower's protocol", False),
    ],
)
def test_reasons(error, words, final):
    """Answers are made when they are needed: they bear the time."""
    refusal = explain(error() if callable(error) else error, ADDRESS)
    assert refusal.final is final
    assert ADDRESS in refusal.reason
    assert re.search(words, refusal.reason)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "localhost", "::1", "[::1]"])
def test_loopback(host):
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "10.0.0.1", "localhost.example", "::", ""])
def test_not_loopback(host):
    assert not is_loopback(host)
