"""A server that asks what it should not: other turns, more of them, or steps out of order."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unisono.core.trust import SERVER, Trust
from unisono.engines import wire
from unisono.engines.distributed import packets
from unisono.engines.distributed.envelope import HEAD_BYTES
from unisono.engines.distributed.opening import SumAttempt
from unisono.engines.distributed.presence import Ask
from unisono.engines.distributed.server import Conditions, _Run

from .cluster import Cluster, descent

PUBLIC = np.zeros(2, np.float32)


def said(cluster, party, request):
    return wire.decode(cluster.parties[party].answer(request)[HEAD_BYTES:])


def ask(cluster, number, attempt, party=0):
    parties = cluster.study.facts.parties
    request = cluster.request("ask", number, attempt, PUBLIC, counted=[-1] * parties)
    return said(cluster, party, request).tag


def liar(cluster):
    """A server whose rounds and attempts can be chosen at will."""
    conditions = Conditions(1.0, 0.0, ahead=False)
    run = _Run(cluster.study, cluster.link, cluster.session, conditions, None, None, print)
    run.present.meet()
    return run


def attempt_at(run, number, attempt):
    """All five steps of one attempt, to the opened sum; None if too few parties went along."""
    run.attempt = np.asarray(attempt)
    width = run.study.facts.features
    found = run._secure(number, [np.zeros(width, np.float32)])
    return None if found is None else found[0]


# ------------------------------------------------------------------- turns


def test_which_turns_a_party_answers(tmp_path):
    """Three rounds and one retry: turn = round + attempt, each once, in order, four at most."""
    cluster = Cluster(descent(Trust.LOCAL, retries=1), tmp_path)
    answers = [
        ((0, 2), "dropout"),  # more attempts than the study allows
        ((0, -1), "dropout"),
        ((3, 0), "dropout"),  # no such round
        ((0, 0), "released"),
        ((0, 0), "dropout"),  # the same turn twice
        ((0, 1), "released"),  # the retry
        ((1, 0), "dropout"),  # would be turn 1, which was paid for as the retry of round 0
        ((2, 1), "released"),  # turn 2 is skipped
        ((1, 1), "dropout"),  # and is over
        ((2, 1), "dropout"),
    ]
    assert [(place, ask(cluster, *place)) for place, _ in answers] == answers
    assert cluster.turns(0) == [0, 1, 3]


def test_which_attempts_open_a_sum(tmp_path):
    """The same through the secure sum, all parties honest, the server not."""
    cluster = Cluster(descent(retries=1), tmp_path)
    run = liar(cluster)
    places = [(0, 2), (1, 0), (1, 0), (0, 1), (0, 0), (2, 1), (2, 0), (2, 1)]
    opened = [attempt_at(run, *place) is not None for place in places]
    assert opened == [False, True, False, False, False, True, False, False]
    assert all(cluster.turns(party) == [1, 3] for party in range(4))
    cluster.require_sound()


@given(
    st.lists(
        st.tuples(st.integers(-1, 4), st.integers(-1, 3), st.booleans(), st.integers(0, 1)),
        max_size=16,
    )
)
@settings(max_examples=40, deadline=None)
def test_no_sequence_of_asks_spends_more_than_was_calibrated(asks):
    """Rounds, attempts, restarts and two processes of one party in any order: the ledger's own
    budget is a hundred, so that only the count of turns can stop it."""
    with tempfile.TemporaryDirectory() as folder:
        cluster = Cluster(descent(Trust.LOCAL, retries=1), Path(folder))
        processes = [cluster.parties[0], cluster.start(0)]
        for number, attempt, restart, process in asks:
            if restart:
                processes[process] = cluster.start(0)
            request = cluster.request("ask", number, attempt, PUBLIC, counted=[-1] * 4)
            processes[process].answer(request)
        cluster.require_affordable(0)


def test_the_calibrated_total_can_be_spent_and_is_epsilon(tmp_path):
    """The control: asked for everything, a party spends exactly what the study promises."""
    cluster = Cluster(descent(Trust.LOCAL, retries=1), tmp_path)
    assert [ask(cluster, number, 0) for number in range(3)] == ["released"] * 3
    assert cluster.spent(0, SERVER)[0] < 1.9
    assert ask(cluster, 2, 1) == "released"
    assert 1.999 < cluster.spent(0, SERVER)[0] <= 2.0


def test_differencing_a_withheld_attempt_gains_nothing(tmp_path):
    """The server opens attempt 0, calls it failed, and opens attempt 1 over the same records.

    Records of zeros make both sums pure noise. Were noise shared, the sums would correlate; for
    independent noise |r| > 5.5 / sqrt(512) has a probability below 4e-8. Their difference must
    have twice the variance: a mean square of 512 numbers errs by 35 % with probability below 1e-6.
    """
    width = 512
    study = descent(features=width, retries=1)
    nothing = np.zeros((5, width)), np.ones(5)
    cluster = Cluster(study, tmp_path, data=dict.fromkeys(range(4), nothing))
    run = liar(cluster)
    first, second = (attempt_at(run, 0, attempt).astype(float) for attempt in (0, 1))
    assert abs(np.corrcoef(first, second)[0, 1]) * np.sqrt(width) < 5.5
    event = study.algorithm.event(study.facts, study.trust)
    claimed = event.noise.std / study.algorithm.grid(study.facts, study.trust)
    # Four shares arrive where three are certain.
    variance = claimed**2 * 4 / 3
    for values, times in ((first, 1), (second, 1), (first - second, 2)):
        assert np.mean(values**2) / (times * variance) == pytest.approx(1, abs=0.35)
    assert all(cluster.turns(party) == [0, 1] for party in range(4))


def test_a_bundle_of_questions_is_no_way_around(tmp_path):
    """Many turns in one message: two questions are answered, and more are not read."""
    cluster = Cluster(descent(Trust.LOCAL, retries=1), tmp_path)
    asks = [cluster.request("ask", n, 0, PUBLIC, counted=[-1] * 4) for n in (0, 0, 1, 2)]
    many = wire.encode("bundle", {}, [np.frombuffer(one, np.uint8) for one in asks])
    assert said(cluster, 0, many).tag == "dropout"
    assert cluster.turns(0) == []
    reply = said(cluster, 0, wire.bundle(asks[:2]))
    assert [part.tag for part in wire.unbundle(reply)] == ["released", "dropout"]
    assert cluster.turns(0) == [0]
    assert said(cluster, 0, wire.bundle([wire.bundle(asks[:2])])).tag == "dropout"
    assert wire.unbundle(said(cluster, 0, wire.bundle([]))) == []
    assert cluster.turns(0) == [0]


def test_an_older_attempt_is_over_once_the_next_has_begun(tmp_path):
    """Vectors of attempt 0 were sent but not opened; after attempt 1 nobody helps to open them."""
    cluster = Cluster(descent(retries=1), tmp_path)
    run = liar(cluster)
    place = SumAttempt(0, 0)
    dealers = run.opening.set_up(place)
    asks = {
        party: [
            Ask(
                "ask",
                {**place.scalars, "counted": [-1] * 4},
                [PUBLIC, *packets.questions({}), *packets.deals(dealers)(party)],
                "masked",
            )
        ]
        for party in dealers.deals
    }
    sent = run.present.exchange(asks)["ask"]
    assert len(sent) == 4
    assert attempt_at(run, 0, 1) is not None
    signed = {p: packets.read_signatures(packet.arrays[1:])[p] for p, packet in sent.items()}
    agree = Ask("agree", place.scalars, packets.signatures(signed), "agree")
    assert run.present.exchange({party: [agree] for party in range(4)}) == {"agree": {}}
    assert all(cluster.turns(party) == [0, 1] for party in range(4))


def test_steps_out_of_order_give_nothing(tmp_path):
    """No step of the secure sum is answered before, after or instead of another."""
    cluster = Cluster(descent(), tmp_path)
    for tag in ("deal", "agree", "unmask"):
        assert said(cluster, 0, cluster.request(tag, 0, 0)).tag == "dropout"
    assert ask(cluster, 0, 0) == "dropout"
    assert said(cluster, 0, cluster.request("announce", 0, 0)).tag == "announce"
    assert ask(cluster, 0, 0) == "dropout"
    assert cluster.turns(0) == []


def test_a_public_state_of_another_shape_or_type_is_refused_unpaid(tmp_path):
    cluster = Cluster(descent(Trust.LOCAL), tmp_path)
    for public in (np.zeros(3, np.float32), np.zeros(2), np.zeros((2, 1), np.float32)):
        request = cluster.request("ask", 0, 0, public, counted=[-1] * 4)
        assert said(cluster, 0, request).tag == "dropout"
    assert said(cluster, 0, cluster.request("ask", 0, 0, counted=[-1] * 4)).tag == "dropout"
    assert cluster.turns(0) == []


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, -1e38, 1e19])
def test_a_public_state_that_no_honest_server_asks_for_is_refused_unpaid(tmp_path, value):
    """Not finite, or so large that its square is not: the party says so and stops."""
    cluster = Cluster(descent(Trust.LOCAL), tmp_path)
    hostile = np.array([0, value], np.float32)
    assert (
        said(cluster, 0, cluster.request("ask", 0, 0, hostile, counted=[-1] * 4)).tag == "dropout"
    )
    assert "no honest server" in cluster.parties[0].stopped
    assert ask(cluster, 0, 0) == "dropout"  # where it would have answered before
    assert cluster.turns(0) == []


@pytest.mark.parametrize("value", [9e18, -1e18])
def test_a_hostile_public_state_moves_nothing_beyond_the_clip(tmp_path, value):
    """Gradients at such a point are huge; each record still adds at most the clip, and the answer
    is noise around a bounded sum."""
    cluster = Cluster(descent(Trust.LOCAL), tmp_path)
    study = cluster.study
    request = cluster.request("ask", 0, 0, np.full(2, value, np.float32), counted=[-1] * 4)
    reply = said(cluster, 0, request)
    assert reply.tag == "released"
    noise = study.algorithm.event(study.facts, study.trust).noise.std
    bound = (study.algorithm.reach(study.facts) + 9 * noise) / study.algorithm.grid(
        study.facts, study.trust
    )  # nine standard deviations: a false alarm has probability below 1e-18
    assert np.abs(reply.arrays[0]).max() < bound
