"""Ledgers that somebody wrote by hand and chained again: refused in words, whoever reads them."""

import contextlib
import copy
import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unisono.accounting.accountant import ACCOUNTANT
from unisono.cli import ledger_export as export
from unisono.cli.ledger_ahead import ahead
from unisono.cli.ledger_reader import check_book, read_book
from unisono.core import journal
from unisono.core.costs import everyone
from unisono.core.events import Event, Gaussian
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.trust import SERVER
from unisono.core.values import sum_sensitivity
from unisono.errors import LedgerCorrupted, UnisonoError
from unisono.statistics.ledgers import verify


@pytest.fixture(scope="module")
def genuine(tmp_path_factory):
    path = tmp_path_factory.mktemp("genuine") / "a.ledger"
    book = Ledger.create(path, Policy("ages", Budget(10.0, 1e-6)), ACCOUNTANT)
    for std in (4.0, 5.0):
        event = Event(Gaussian(std), sum_sensitivity(1.0, 2.0**-10, 2))
        book.authorize(everyone(event * 2), 2, f"std {std}")
    book.close()
    return journal.read(path)[0]


def read_everywhere(path):
    """All who read ledgers: each understands it or says why not."""
    verify(path)
    check_book(path, None)
    with contextlib.suppress(UnisonoError):
        book = read_book(path)
        for format in (export.as_json, export.as_csv, export.as_markdown):
            format(book)
        json.dumps(book.to_json(3))
        ahead(book)
    with contextlib.suppress(UnisonoError):
        book = Ledger.open(path, ACCOUNTANT)
        try:
            book.spent(SERVER)
        finally:
            book.close()


def chained(lines, path):
    path.unlink(missing_ok=True)
    journal.create(path, lines)
    return path


def places(document, place=()):
    """Every place in a document."""
    yield place
    if isinstance(document, dict | list):
        inner = document.items() if isinstance(document, dict) else enumerate(document)
        for key, value in inner:
            yield from places(value, (*place, key))


JUNK = st.sampled_from(
    [None, True, -1, 0, 10**30, 1.5, -1e308, "", "inf", "nan", "x", [], [[]], {}, {"x": 1}, [None]]
)


@given(st.data())
@settings(
    max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_change_of_a_rechained_ledger_is_read_or_refused(genuine, data):
    lines = copy.deepcopy(genuine)
    for _ in range(data.draw(st.integers(1, 2))):
        deepest = data.draw(st.sampled_from([2, 3, 9]))  # most places lie deep inside of events
        place = data.draw(st.sampled_from([p for p in places(lines) if 0 < len(p) <= deepest]))
        inside = lines
        for key in place[:-1]:
            inside = inside[key]
        if data.draw(st.booleans()):
            inside[place[-1]] = data.draw(JUNK)
        elif isinstance(inside, list) and data.draw(st.booleans()):
            inside.insert(place[-1], copy.deepcopy(inside[place[-1]]))
        else:
            del inside[place[-1]]
    lines = [line if isinstance(line, dict) else {"line": line} for line in lines]
    with tempfile.TemporaryDirectory() as folder:
        read_everywhere(chained(lines, Path(folder) / "a.ledger"))


def test_the_genuine_ledger_is_read(genuine, tmp_path):
    """The control."""
    path = chained(genuine, tmp_path / "a.ledger")
    read_everywhere(path)
    assert check_book(path, None).sound
    assert len(read_book(path).summary.entries) == 2


@pytest.mark.parametrize("body", [b"[1", b"nonsense", b"[" * 10**5, b'{"a":' + b"9" * 5000])
def test_a_chained_line_that_is_no_table_is_corruption(genuine, tmp_path, body):
    path = chained(genuine, tmp_path / "a.ledger")
    head = journal.link(journal.read(path)[1], body + b"}")
    with path.open("ab") as file:
        file.write(body + journal._chain_field(head) + b"\n")
    read_everywhere(path)
    with pytest.raises(LedgerCorrupted, match="cannot be understood"):
        read_book(path)
    assert not verify(path).sound
