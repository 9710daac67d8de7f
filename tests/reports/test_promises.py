"""What a report must not promise: privacy of a simulation, of training without its test, of people.

And what it counts: rounds that were opened, lines of a long timeline, epsilon rounded up.
"""

import json
import time
from itertools import pairwise

import pytest

from unisono.accounting.accountant import ACCOUNTANT
from unisono.core.trust import FINAL_MODEL, Relation
from unisono.core.words import number
from unisono.reports.charts import gauge
from unisono.reports.document import report
from unisono.reports.html import html
from unisono.reports.laboratory import AXIS, GRID
from unisono.reports.markdown import markdown
from unisono.reports.reading import RunReading
from unisono.runs.folder import LINES, TIMELINE_FORMAT, read_run
from unisono.studies.build import build
from unisono.studies.file import parse_study

from .conftest import STUDY, TIMELINE
from .test_document import blocks, of_kind, words

TEST = "\n[evaluation]\nholdout = 0.2\nepsilon = 0.5\n"


# ------------------------------------------------------------- simulations


@pytest.mark.parametrize(
    "state",
    [
        {"state": "running", "ended": None},
        {"state": "running", "process": 2**22 + 1},
        {"state": "failed", "error": "two fell silent"},
    ],
)
def test_a_simulation_without_a_certificate_promises_nothing(folder, state):
    """Running, stopped or failed: only its heading says so."""
    given = folder.heading(simulated=True, **state)
    run = read_run(folder(run=given, certificate=None, result=None))
    assert report(run).notice.startswith("SIMULATION")
    text = words(run)
    assert "What is NOT promised: anything" in text
    for promise in (
        "What is promised",
        "success probability of the best attack (50 % is chance) is at most 73.2 %",
        "Whatever comes out",
        "whatever comes out",
        "cannot be foreseen",
    ):
        assert promise not in text
    assert not of_kind(run, "summary", "guesses")
    assert not [
        tile
        for block in of_kind(run, "summary", "tiles")
        for tile in block["pairs"]
        if "ε" in tile[0]
    ]
    [seen] = of_kind(run, "viewers", "grid")
    assert all(row[-2:] == ["100 %", "no protection"] for row in seen["rows"])
    assert "would spend" in blocks(run, "budgets")[0]["words"]
    assert "not of this run" in blocks(run, "rounds")[-1]["words"]


def test_a_real_run_is_no_simulation(folder):
    run = read_run(folder())
    assert not RunReading(run).simulated
    assert "SIMULATION" not in words(run)


# ------------------------------------------------------------- training and test


def planned(study):
    [both] = {cost[FINAL_MODEL] for cost in build(parse_study(study)).costs}
    return ACCOUNTANT.epsilon(both, Relation.REPLACE_ONE, 1e-4)


@pytest.mark.parametrize("certified", [True, False])
def test_the_promise_holds_training_and_test(folder, certified):
    """Planned ones, and those of a certificate that forgot the test (epsilon 1 alone)."""
    study = folder.study + TEST
    changes = {} if certified else {"certificate": None, "result": None}
    run = read_run(folder(study=study, **changes))
    both = planned(study)
    assert 1.05 < both <= 1.5
    assert RunReading(run).promised["server"].epsilon == pytest.approx(both)
    text = words(run)
    assert f"(Epsilon {number(both)} at delta 1 in 10,000, for the training and the private" in text
    assert f"together epsilon is at most {number(both)}" in text
    assert f"ε {number(both)}" in text
    [grid] = of_kind(run, "guarantees", "grid")
    assert all(row[2] == number(both) for row in grid["rows"])
    [curves] = of_kind(run, "rounds", "curves")
    assert curves["reference"][0] == "promised for the training: 1"
    assert "certificate of its own" not in text


def test_a_certificate_of_both_is_taken_as_it_is(folder):
    lines = [{**one, "epsilon": 1.75} for one in folder.certificate()["guarantees"]]
    run = read_run(
        folder(study=folder.study + TEST, certificate=folder.certificate(guarantees=lines))
    )
    assert {one.epsilon for one in RunReading(run).guarantees} == {1.75}
    assert "together epsilon is at most 1.75" in words(run)


# ------------------------------------------------------------- records and people


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ({}, "a person with several records is protected less"),
        (
            {"records_per_person": 5, "parties_disjoint": True},
            "a person may have 5, and such a person is protected about 5 times less",
        ),
        (
            {"records_per_person": 1, "parties_disjoint": False},
            "a person may be at several parties, and with a record at k of them is protected "
            "about k "
            "times less",
        ),
        (
            {"records_per_person": 2, "parties_disjoint": False},
            "A person may also be at several parties",
        ),
    ],
)
def test_the_summary_promises_for_a_record_and_says_what_a_person_gets(folder, declared, said):
    run = read_run(folder(certificate=folder.certificate(declarations=declared)))
    promise = blocks(run, "summary")[1]["words"]
    assert "What is promised" in promise
    assert "one person" not in promise
    assert said in promise


def test_one_record_a_person_needs_no_caveat(folder):
    promise = blocks(read_run(folder()), "summary")[1]["words"]
    assert "which of two values one record has" in promise
    assert "person" not in promise


@pytest.mark.parametrize(
    ("places", "said"),
    [
        (1, "(by the column patient), with all of its records at one party: whoever is at several"),
        (2, "(by the column patient), with all of its records at up to 2 parties"),
    ],
)
def test_the_promise_of_persons_is_for_all_of_their_records(folder, places, said):
    people = f'[data]\nperson = "patient"\nperson_at_parties = {places}\n'
    study = STUDY.replace("[data]\n", people).replace("1e-4", '1e-4\nunit = "person"')
    run = read_run(folder(study=study, certificate=folder.certificate(unit="person")))
    promise = blocks(run, "summary")[1]["words"]
    assert "which of two sets of records one person has" in promise
    assert said in promise
    text = words(run)
    assert "130 persons" in text
    assert "exchanging all records of one person for any other makes it at most" in text


# ------------------------------------------------------------- rounds that were left out


def test_rounds_that_were_opened_are_counted_not_those_planned(folder):
    run = read_run(folder(result={**folder.result, "rounds_opened": 5}))
    [tiles] = of_kind(run, "summary", "tiles")
    assert ["5 of 8", "rounds opened"] in [list(pair) for pair in tiles["pairs"]]
    rows = {row[0]: row[2] for row in of_kind(run, "viewers", "grid")[0]["rows"]}
    assert rows["the server"] == "opened sums of 3 numbers, 8 rounds, of which 5 were opened"
    [facts] = of_kind(run, "course", "facts")
    assert ["opened", "5 rounds of 8; the others were left out"] in [
        list(pair) for pair in facts["pairs"]
    ]
    assert "8 of 8" not in words(run)


# ------------------------------------------------------------- roughness


def test_an_interval_of_an_error_is_called_rough(folder):
    measured = {"measure": "mean absolute error", "value": 2, "low": 1.5, "high": 2.5}
    run = read_run(folder(evaluation=measured))
    assert of_kind(run, "quality", "intervals")[0]["title"].endswith("with its rough 95 % interval")
    assert "confidence, roughly" in words(run)
    assert "rough" not in words(read_run(folder()))


def test_a_gauge_rounds_what_was_spent_up():
    drawn = gauge("north", 1.23001, 2.0, words="", before=0.50004)
    assert "1.231 of 2" in drawn  # as certificates say it
    assert "1.23 of 2" not in drawn
    assert "of which 0.5001 before" in drawn


# ------------------------------------------------------------- long timelines


@pytest.mark.parametrize("many", [2 * LINES, 2 * LINES + 1, 50_001])
def test_a_long_timeline_keeps_its_latest_lines_and_an_even_sample(folder, many):
    made = folder(timeline=[{"round": number} for number in range(1, many + 1)])
    run = read_run(made)
    rounds = [line["round"] for line in run.timeline]
    assert rounds[-LINES:] == list(range(many - LINES + 1, many + 1))
    assert rounds[0] == 1
    early = rounds[:-LINES]
    assert LINES / 2 <= len(early) <= LINES
    assert len({b - a for a, b in pairwise(early)}) == 1
    assert run.thinned is (many > 2 * LINES)


def test_half_a_last_line_is_left_out(folder):
    made = folder()
    with open(made / "timeline.jsonl", "a", encoding="utf-8") as file:
        file.write('{"round": 9, "answ')
    assert len(read_run(made).timeline) == len(TIMELINE)


def test_a_very_long_timeline_is_read_quickly(folder):
    """400,000 lines took 12 s a page; they take 0.3 s, and 2 s leave room for slow machines."""
    made = folder(timeline=[])
    names = ["north", "south", "west"]
    line = json.dumps(
        {
            "format": TIMELINE_FORMAT,
            "round": 7,
            "time": "2026-11-16T09:00:30+00:00",
            "answered": names,
        }
    )
    (made / "timeline.jsonl").write_text(f"{line}\n" * 400_000)
    begin = time.process_time()
    run = read_run(made)
    assert time.process_time() - begin < 2
    assert len(run.timeline) <= 2 * LINES
    assert "in the lines that were read" in markdown(run)


# ------------------------------------------------------------- pictures


def test_a_laboratory_report_shows_both_pictures(folder):
    from ..dashboard.sample import PICTURE, laboratory

    made = folder(run=folder.heading(engine="laboratory"), attacks=laboratory())
    assert "<img" not in html(read_run(made))
    for name in (GRID, AXIS):
        (made / name).write_bytes(PICTURE)
    page = html(read_run(made))
    assert page.count('<img src="data:image/png;base64,') == 2
    assert "What the attackers see" in page
    assert "Noise or a crowd" in page
