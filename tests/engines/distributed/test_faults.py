"""One fault at every stage of a round: the table that the documentation prints."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from unisono.core.trust import SERVER, Trust

from . import faults, links
from .cluster import Cluster, descent
from .links import FaultyLink

PARTY, NODE = 1, 2
CASES = [(row, name) for row in faults.ROWS for name in row.faults]


def fault_named(cluster, name):
    if name.startswith("killed_"):
        return cluster.killed(name.removeprefix("killed_"))
    return getattr(links, name)


def counted_at_first(cluster):
    """Whether the party's answer was in the first sum, by what the server says in round two."""
    asked = [said.request.scalars for said in cluster.link.heard if said.request.tag == "ask"]
    return next(ask for ask in asked if ask["round"] == 1)["counted"][PARTY] == 0


@pytest.mark.parametrize(("row", "name"), CASES, ids=[f"{r.stage}-{name}" for r, name in CASES])
def test_the_table(tmp_path, row, name):
    """What becomes of the round, of the party's value, and of its budget is what the row says."""
    trust = Trust.LOCAL if row.stage == "plain" else Trust.SECURE_SUM
    cluster = Cluster(descent(trust, parties=3, minimum=2), tmp_path)
    tag = "ask" if row.stage == "plain" else row.stage
    link = FaultyLink(cluster.link, {(tag, NODE, 0): fault_named(cluster, name)})
    outcome = cluster.run(link)
    assert link.befallen == 1
    assert outcome.opened == 3
    assert np.isfinite(outcome.value).all()
    assert counted_at_first(cluster) is row.counted
    answers = [seen for seen in outcome.transcript.seen_by(SERVER) if seen.name == "messages"]
    assert (PARTY in answers[1].value) is row.next
    assert PARTY in answers[2].value  # whoever failed once takes part again
    assert cluster.turns(PARTY) == [0] * row.paid + [1] * row.next + [2]
    assert all(cluster.turns(other) == [0, 1, 2] for other in (0, 2))
    cluster.require_sound()


@pytest.mark.parametrize("name", faults.EVERY)
def test_a_result_that_does_not_arrive(tmp_path, name):
    """All rounds are over: the run ends well, whether or not one party hears of its result."""
    cluster = Cluster(descent(Trust.LOCAL, rounds=1), tmp_path)
    fault = fault_named(cluster, name)
    outcome = cluster.run(FaultyLink(cluster.link, {("finish", NODE, 0): fault}))
    assert outcome.opened == 1
    others = [responder for party, responder in cluster.parties.items() if party != PARTY]
    assert all(np.array_equal(responder.result, outcome.value) for responder in others)
    cluster.require_sound()


def test_every_fault_at_every_stage_has_one_row():
    """The table is complete: a pair that is missing, or stands twice, fails here."""
    expected = {(stage, name) for stage in faults.STAGES for name in faults.EVERY}
    expected |= {("ask", "corrupt_public"), ("plain", "corrupt_public")}
    # Nothing is older than the greeting; the result has a test of its own.
    expected -= {("hello", name) for name in set(faults.EVERY) - set(faults.FIRST)}
    expected -= {("finish", name) for name in faults.EVERY}
    found = Counter((row.stage, name) for row, name in CASES)
    assert set(found) == expected
    assert max(found.values()) == 1
    assert all(f"| {row.why} |" in faults.table() for row in faults.ROWS)


@pytest.mark.parametrize("retries", [0, 1])
@pytest.mark.parametrize("stage", ["announce", "deal", "ask", "agree", "unmask"])
def test_too_few_answers(tmp_path, stage, retries):
    """Two of three fail: the round is tried again if the study allows it, else it is left out.

    Keys and shares cost nothing, so only from the masked vectors on is anything spent.
    """
    cluster = Cluster(descent(parties=3, minimum=2, retries=retries), tmp_path)
    link = FaultyLink(cluster.link, {(stage, node, 0): links.drop_request for node in (1, 2)})
    outcome = cluster.run(link)
    assert outcome.opened == 2 + retries
    assert outcome.attempts == retries
    first = [0] if stage not in ("announce", "deal") else []
    assert cluster.turns(2) == [*first, *range(1, 3 + retries)]
    silent = [] if stage == "ask" else first
    assert cluster.turns(0) == [*silent, *range(1, 3 + retries)]
    left_out = [text for text in cluster.said if "left out" in text]
    assert len(left_out) == 1 - retries
    cluster.require_sound()


def test_too_few_answers_without_a_secure_sum(tmp_path):
    cluster = Cluster(descent(Trust.LOCAL, retries=1), tmp_path)
    drop = {("ask", node, occurrence): links.drop_reply for node in (1, 2) for occurrence in (0, 1)}
    outcome = cluster.run(FaultyLink(cluster.link, drop))
    assert (outcome.opened, outcome.attempts) == (2, 1)  # the retry failed too
    assert all(cluster.turns(party) == [0, 1, 2, 3] for party in range(4))
    cluster.require_sound()


def test_nobody_is_there(tmp_path):
    """The run ends, no round is opened, nothing is spent."""
    cluster = Cluster(descent(), tmp_path)
    for party in range(4):
        cluster.kill(party)
    outcome = cluster.run()
    assert outcome.opened == 0
    assert [cluster.turns(party) for party in range(4)] == [[]] * 4


def test_the_documentation_prints_these_tables():
    page = Path(__file__).parents[3] / "docs" / "deployment.md"
    shown = page.read_text().split("faults.py -->\n")[1].split("<!-- end")[0]
    assert shown.strip() == faults.table().strip()
