"""Folders of runs whose documents somebody changed: a report comes out, or words that say why."""

import contextlib
import copy
import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unisono.dashboard.catalogue import Catalogue
from unisono.dashboard.detail import sections
from unisono.dashboard.summary import summarise
from unisono.errors import UnisonoError
from unisono.reports.document import document
from unisono.reports.html import write_report
from unisono.runs.folder import read_run

from .conftest import DOCUMENTS, TIMELINE, formatted, write


def read_everywhere(folder):
    with contextlib.suppress(UnisonoError):
        run = read_run(folder)
        write_report(folder)
        json.dumps(document(run), allow_nan=False)
    for entry in Catalogue([folder]).entries():
        summarise(entry).to_json()
        if entry.run is not None:
            sections(entry.run, None)


def places(value, place=()):
    """Every place in a document."""
    yield place
    if isinstance(value, dict | list):
        inner = value.items() if isinstance(value, dict) else enumerate(value)
        for key, one in inner:
            yield from places(one, (*place, key))


JUNK = st.sampled_from(
    [
        None,
        True,
        -1,
        10**30,
        10**400,
        1.5,
        -1e308,
        "",
        "inf",
        "nan",
        "\ud800",
        [],
        [[]],
        {},
        {"x": 1},
        [None],
    ]
)


@given(st.data())
@settings(max_examples=25, deadline=None)
def test_any_change_of_a_document_is_shown_or_named(data):
    documents = {
        name: json.loads(json.dumps(formatted(name, one))) for name, one in DOCUMENTS.items()
    }
    documents["timeline"] = copy.deepcopy(TIMELINE)
    for _ in range(data.draw(st.integers(1, 3))):
        name = data.draw(st.sampled_from(sorted(documents)))
        depth = data.draw(st.sampled_from([1, 2, 9]))
        place = data.draw(st.sampled_from([p for p in places(documents[name]) if len(p) <= depth]))
        if not place:
            documents[name] = copy.deepcopy(data.draw(JUNK))
            continue
        inside = documents[name]
        for key in place[:-1]:
            inside = inside[key]
        if data.draw(st.booleans()):
            inside[place[-1]] = copy.deepcopy(data.draw(JUNK))  # it must not be put into itself
        else:
            del inside[place[-1]]
    lines = documents.pop("timeline")
    with tempfile.TemporaryDirectory() as folder:
        lines = lines if isinstance(lines, list) else [lines]
        texts = {name: json.dumps(one) for name, one in documents.items()}
        read_everywhere(write(Path(folder) / "study.run", texts, timeline=lines))


@pytest.mark.parametrize("name", [*DOCUMENTS, "timeline"])
@pytest.mark.parametrize("content", ["[" * 10**5, '{"a":' * 10**5, "9" * 5000, '"\\ud800"', "\x00"])
def test_a_document_that_no_parser_takes_is_named(folder, name, content):
    place = folder()
    (place / ("timeline.jsonl" if name == "timeline" else f"{name}.json")).write_text(content)
    read_everywhere(place)
