"""A server that asks parties differently: model inconsistency (Pasquini et al. 2022).

The liar keeps to no check of its own: it sends every party what it likes and uses whatever comes
back. Each attack ends with nothing unmasked, parties that name the reason and stop, and no charge
beyond what was charged when they noticed.
"""

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from unisono.core.algorithm import Facts
from unisono.core.study import Study
from unisono.core.trust import Trust
from unisono.engines import in_process, wire
from unisono.engines.distributed import packets
from unisono.engines.distributed.envelope import HEAD_BYTES
from unisono.engines.distributed.opening import SumAttempt
from unisono.engines.distributed.questions import Question, require_public
from unisono.engines.distributed.server import Conditions, _Run
from unisono.engines.distributed.sessions import session_of
from unisono.errors import DishonestServer
from unisono.problems.record_loss import RecordLoss
from unisono.releases.blocked_sum import Clipping
from unisono.secagg import party as protocol
from unisono.secagg import server as secure_sum

from ... import methods
from . import links
from .cluster import DELTA, Cluster, descent
from .links import FaultyLink
from .test_memory import updates

PARTIES, VICTIM = 5, 2
NEVER = [-1] * PARTIES
MODEL, POINT = np.zeros(2, np.float32), np.full(2, 40, np.float32)


@pytest.fixture
def cluster(tmp_path):
    return Cluster(descent(parties=PARTIES, minimum=4, rounds=3, retries=1), tmp_path)


class Liar:
    """A server that asks whom it likes for what it likes."""

    def __init__(self, cluster):
        self.cluster = cluster
        conditions = Conditions(1.0, 0.0, ahead=False)
        self.run = _Run(cluster.study, cluster.link, cluster.session, conditions, None, None, str)
        self.run.present.meet()

    def said(self, party, tag, place, *arrays, **scalars):
        request = self.cluster.request(tag, *place, *arrays, **scalars)
        return wire.decode(self.cluster.parties[party].answer(request)[HEAD_BYTES:])

    def vectors(self, questions, place=(0, 0), places=None):
        """What each party answers to its own question: masked vectors and signatures."""
        dealers = self.dealers = self.run.opening.set_up(SumAttempt(*place))
        found = {}
        for party, asked in questions.items():
            reply = self.said(
                party,
                "ask",
                (places or {}).get(party, place),
                *asked.public,
                *packets.questions(asked.earlier),
                *packets.deals(dealers)(party),
                counted=list(asked.counted),
            )
            if reply.tag == "masked":
                found[party] = reply.arrays[0], packets.read_signatures(reply.arrays[1:])[party]
        return found

    def opened(self, vectors, question, place=(0, 0), groups=None):
        """Sums that it can unmask, by groups of parties, where each group is told that it alone has
        survived; all of them are, where no groups are named."""
        found = {}
        for group in groups or [sorted(vectors)]:
            shown = {i: vectors[i][1] for i in group if i in vectors}
            votes = {}
            for i in shown:
                reply = self.said(i, "agree", place, *packets.signatures(shown))
                if reply.tag == "agree":
                    votes[i] = packets.read_signatures(reply.arrays)[i]
            shares = {}
            for i in shown:
                reply = self.said(i, "unmask", place, *packets.signatures(votes))
                if reply.tag == "unmask":
                    shares[i] = packets.read_shares(reply.arrays)
            masked = np.sum([vectors[i][0] for i in shown], axis=0, dtype=np.uint32)
            asked = question.digest(self.cluster.session.attempt(*place))
            survivors = secure_sum.Survivors(self.dealers, asked, shown, masked)
            try:
                found[tuple(group)] = secure_sum.open_sum(survivors, shares)
            except secure_sum.TooFew:
                continue
        return found


def question(public=MODEL, counted=NEVER, earlier=None):
    return Question([public], counted, earlier or {})


def differently(asked, others, victim=VICTIM):
    """One party is asked one thing, and all others another."""
    return {i: asked if i == victim else others for i in range(PARTIES)}


def require_stopped(cluster, parties, reason="asked parties differently", charged=(0,)):
    """They say why, answer nothing any more, and are charged for nothing more."""
    liar = Liar(cluster)
    for party in parties:
        assert reason in cluster.parties[party].stopped
        assert liar.said(party, "announce", (2, 0)).tag == "dropout"
        assert cluster.turns(party) == list(charged)
    cluster.require_sound()


def test_the_liar_unmasks_what_all_were_asked_alike(cluster):
    """The control: with one question for all, what it does is the protocol."""
    liar = Liar(cluster)
    vectors = liar.vectors(dict.fromkeys(range(PARTIES), question()))
    [total] = liar.opened(vectors, question()).values()
    noise = cluster.study.algorithm.event(cluster.study.facts, cluster.study.trust).noise.std
    step = cluster.study.algorithm.grid(cluster.study.facts, cluster.study.trust)
    reach = cluster.study.algorithm.reach(cluster.study.facts)
    assert np.abs(total).max() * step < reach + 12 * noise  # uniform residues are 2^31 steps
    assert not any(one.stopped for one in cluster.parties.values())


@pytest.mark.parametrize("groups", [None, [[2], [0, 1, 3, 4]], [[2, 4, 0, 1]]], ids=str)
def test_two_models(cluster, groups):
    """The model for one and another point for all others: the one's vector never opens, however
    the others are told of survivors."""
    liar = Liar(cluster)
    vectors = liar.vectors(differently(question(), question(POINT)))
    assert len(vectors) == PARTIES
    opened = liar.opened(vectors, question(POINT), groups=groups)
    assert set(opened) <= {(0, 1, 3, 4)}  # four that were asked alike, without the victim
    shown = groups[-1] if groups else range(PARTIES)
    if VICTIM in shown:
        require_stopped(cluster, shown)


def test_two_models_without_looking_at_signatures(cluster, monkeypatch):
    """Were signatures over questions not looked at, masks would not cancel: the sum is uniform.

    Were it the sum, all of its two numbers would be small: a false alarm needs both uniform numbers
    within a 64th of their range.
    """
    monkeypatch.setattr(protocol, "_require_signed", lambda *_: None)
    liar = Liar(cluster)
    vectors = liar.vectors(differently(question(), question(POINT)))
    [total] = liar.opened(vectors, question(POINT)).values()
    alike = Liar(cluster)
    vectors = alike.vectors(dict.fromkeys(range(PARTIES), question(POINT)), (1, 0))
    [control] = alike.opened(vectors, question(POINT), (1, 0)).values()
    assert np.abs(control).max() < 2**25
    assert np.abs(total).max() > 2**25


@pytest.mark.parametrize("point", [np.nan, np.inf, -np.inf, 3e38], ids=str)
def test_points_at_which_others_have_nothing_to_say(cluster, point):
    """NaN for all but one: they refuse before anything is charged, and one is too few."""
    liar = Liar(cluster)
    nowhere = question(np.full(2, point, np.float32))
    vectors = liar.vectors(differently(question(), nowhere))
    assert list(vectors) == [VICTIM]
    assert not liar.opened(vectors, question())
    others = [i for i in range(PARTIES) if i != VICTIM]
    require_stopped(cluster, others, "no honest server asks there", charged=())
    assert cluster.turns(VICTIM) == [0]


def test_a_stale_model(cluster):
    """After an honest round one party is shown the model of the round before."""
    liar = Liar(cluster)
    first = question()
    place = cluster.session.attempt(0, 0)
    liar.opened(liar.vectors(dict.fromkeys(range(PARTIES), first)), first)
    earlier = {0: first.digest(place)}
    counted = [0] * PARTIES
    stale, new = (question(public, counted, earlier) for public in (MODEL, POINT))
    vectors = liar.vectors(differently(stale, new), (1, 0))
    assert len(vectors) == PARTIES
    assert not liar.opened(vectors, new, (1, 0))
    require_stopped(cluster, range(PARTIES), charged=(0, 1))


def test_one_party_a_round_behind(cluster):
    """The keys of a round fit no other: who is asked for another round has no part in it."""
    liar = Liar(cluster)
    vectors = liar.vectors(
        dict.fromkeys(range(PARTIES), question()), (1, 0), places={VICTIM: (0, 0)}
    )
    assert VICTIM not in vectors
    opened = liar.opened(vectors, question(), (1, 0))
    assert set(opened) == {(0, 1, 3, 4)}
    assert cluster.turns(VICTIM) == []


@pytest.mark.parametrize("what", ["counted", "earlier"])
def test_false_words_about_which_answers_counted(cluster, what):
    """Parties' states follow from it, so that it is part of the question."""
    liar = Liar(cluster)
    first = question()
    liar.opened(liar.vectors(dict.fromkeys(range(PARTIES), first)), first)
    digest = first.digest(cluster.session.attempt(0, 0))
    true = question(counted=[0] * PARTIES, earlier={0: digest})
    false = {
        "counted": question(counted=[0, 0, 0, 0, -1], earlier={0: digest}),
        "earlier": question(counted=[0] * PARTIES, earlier={0: bytes(32)}),
    }[what]
    vectors = liar.vectors(differently(true, false), (1, 0))
    assert not liar.opened(vectors, true, (1, 0))
    if what == "earlier":  # who answered that round knows better, and pays nothing
        assert list(vectors) == [VICTIM]
        others = [i for i in range(PARTIES) if i != VICTIM]
        require_stopped(cluster, others)
    else:
        require_stopped(cluster, range(PARTIES), charged=(0, 1))


def test_a_state_that_remembers_a_round_in_which_parties_were_asked_differently(tmp_path):
    """Round 0 is asked differently and not opened; in round 1 all are told alike that it counted,
    so that the states of parties would differ. Whoever answered another question refuses."""
    cluster = Cluster(updates(), tmp_path, epsilon=1000.0, seed=3)
    liar = Liar(cluster)
    start = [np.asarray(leaf) for leaf in _leaves(cluster.study)]
    away = [leaf + 1 if leaf.dtype.kind == "f" else leaf for leaf in start]
    asked = {i: Question(away if i == 1 else start, [-1] * 3, {}) for i in range(3)}
    liar.vectors(asked)
    digest = asked[0].digest(cluster.session.attempt(0, 0))
    after = Question(start, [0] * 3, {0: digest})
    vectors = liar.vectors(dict.fromkeys(range(3), after), (1, 0))
    assert sorted(vectors) == [0, 2]
    assert "answered another question" in cluster.parties[1].stopped
    assert cluster.turns(1) == [0]


def test_a_question_that_is_refused_moves_no_state(tmp_path):
    """What the server says of earlier answers counts with the question that is answered: else one
    party could be told otherwise first, in a question that it refuses."""
    cluster = Cluster(updates(), tmp_path, epsilon=1000.0, seed=3)
    liar = Liar(cluster)
    start = [np.asarray(leaf) for leaf in _leaves(cluster.study)]
    first = Question(start, [-1] * 3, {})
    liar.opened(liar.vectors(dict.fromkeys(range(3), first)), first)
    one = cluster.parties[1]
    true, false = [0] * 3, [0, -1, 0]
    states = [jax.tree.leaves(one._settled(counted)) for counted in (true, false)]
    assert any(not np.array_equal(a, b) for a, b in zip(*states, strict=True))  # it would matter
    digest = {0: first.digest(cluster.session.attempt(0, 0))}
    for counted in (false, true):  # without keys for that round nothing is answered
        reply = liar.said(1, "ask", (1, 0), *start, *packets.questions(digest), counted=counted)
        assert reply.tag == "dropout"
        after = jax.tree.leaves(one._settled(true))
        assert all(np.array_equal(a, b) for a, b in zip(after, states[0], strict=True))


@lru_cache(maxsize=1)
def correlated():
    """DP-FTRL, whose parties take their batches by a clock and send noise after the last round."""
    problem = RecordLoss(
        lambda weights, record: jnp.logaddexp(0.0, -record[1] * (record[0] @ weights)),
        np.zeros(1, np.float32),
        (np.zeros(1, np.float32), np.float32(0)),
    )
    turns = {"rounds": 4, "separation": 2, "bands": 2, "clipping": Clipping(loss_range=2.0)}
    algorithm = methods.dp_ftrl(problem, optax.sgd(1.0), 8.0, DELTA, **turns)
    return Study(algorithm, Facts((400,) * PARTIES, 1, 4, 1), Trust.SECURE_SUM)


def test_a_round_that_is_not_unmasked_puts_no_clock_forward(tmp_path):
    """All but one are told, in a round that is never unmasked, that the run is over; then all are
    asked alike. If clocks followed the server, only noise of the others would be in the sum."""
    alike = {party: (np.ones((400, 1)), np.ones(400)) for party in range(PARTIES)}
    cluster = Cluster(correlated(), tmp_path, epsilon=1000.0, seed=3, data=alike)
    liar = Liar(cluster)
    start = [np.asarray(leaf) for leaf in _leaves(cluster.study)]
    over = [np.full_like(leaf, 4) if leaf.dtype.kind == "i" else leaf for leaf in start]
    others = [party for party in range(PARTIES) if party != VICTIM]
    assert list(liar.vectors(dict.fromkeys(others, Question(over, NEVER, {})))) == others
    asked = Question(start, NEVER, {})
    vectors = liar.vectors(dict.fromkeys(range(PARTIES), asked), (1, 0))
    [total] = liar.opened(vectors, asked, (1, 0)).values()
    step = cluster.study.algorithm.grid(cluster.study.facts, cluster.study.trust)
    # Half of 400 records are in a batch, each with a gradient of -1/2.
    assert total[0] * step == pytest.approx(-100 * PARTIES, abs=40)


def test_a_round_that_was_said_not_to_count_does_not_count_later(tmp_path):
    """One party is told, in a round that is never unmasked, that its answer was lost. Told alike
    later that it counted, its state would differ from the others'."""
    cluster = Cluster(updates(), tmp_path, epsilon=1000.0, seed=3)
    liar = Liar(cluster)
    start = [np.asarray(leaf) for leaf in _leaves(cluster.study)]
    first = Question(start, [-1] * 3, {})
    liar.opened(liar.vectors(dict.fromkeys(range(3), first)), first)
    earlier = {0: first.digest(cluster.session.attempt(0, 0))}
    true, false = Question(start, [0] * 3, earlier), Question(start, [0, -1, 0], earlier)
    liar.vectors({0: true, 1: false, 2: true}, (1, 0))
    vectors = liar.vectors(dict.fromkeys(range(3), true), (2, 0))
    assert sorted(vectors) == [0, 2]
    assert "said otherwise" in cluster.parties[1].stopped
    assert cluster.turns(1) == [0, 1]


@pytest.mark.parametrize("told", [0, 1], ids=["another question", "the true one"])
def test_memory_reaches_back_to_the_last_round_that_counted(tmp_path, told):
    """A party answers two rounds and is killed. Its state follows from the first, so that it still
    knows the question of that one."""
    cluster = Cluster(updates(), tmp_path, epsilon=1000.0, seed=3, remember=True)
    liar = Liar(cluster)
    start = [np.asarray(leaf) for leaf in _leaves(cluster.study)]
    first = Question(start, [-1] * 3, {})
    liar.vectors(dict.fromkeys(range(3), first))
    earlier = {0: first.digest(cluster.session.attempt(0, 0))}
    liar.vectors(dict.fromkeys(range(3), Question(start, [0] * 3, earlier)), (1, 0))
    cluster.kill(1)
    cluster.start(1)
    after = Question(start, [0] * 3, earlier if told else {0: bytes(32)})
    assert (1 in liar.vectors({0: after, 1: after, 2: after}, (2, 0))) == bool(told)
    assert bool(cluster.parties[1].stopped) != bool(told)


def test_a_party_that_lost_its_memory_does_not_answer(tmp_path):
    """Its state is not the one that the question speaks of."""
    cluster = Cluster(updates(), tmp_path, epsilon=1000.0, seed=3, remember=True)
    liar = Liar(cluster)
    start = [np.asarray(leaf) for leaf in _leaves(cluster.study)]
    first = Question(start, [-1] * 3, {})
    liar.vectors(dict.fromkeys(range(3), first))
    cluster.kill(1)
    cluster.memory(1).unlink()
    cluster.start(1)
    earlier = {0: first.digest(cluster.session.attempt(0, 0))}
    after = Question(start, [0] * 3, earlier)
    assert sorted(liar.vectors(dict.fromkeys(range(3), after), (1, 0))) == [0, 2]
    assert cluster.turns(1) == [0]


def test_memory_holds_the_question_too(tmp_path):
    """A party that was killed refuses as well: what it answered is in its file."""
    cluster = Cluster(updates(), tmp_path, epsilon=1000.0, seed=3, remember=True)
    liar = Liar(cluster)
    start = [np.asarray(leaf) for leaf in _leaves(cluster.study)]
    liar.vectors(dict.fromkeys(range(3), Question(start, [-1] * 3, {})))
    cluster.kill(1)
    cluster.start(1)
    after = Question(start, [0] * 3, {0: bytes(32)})
    assert 1 not in liar.vectors({1: after}, (1, 0))
    assert "answered another question" in cluster.parties[1].stopped


def _leaves(study):
    return jax.tree.leaves(study.algorithm.ask(study.algorithm.init(study.facts)[0]))


def test_different_studies_of_equal_shape(cluster):
    """One party holds a study with other settings: nothing that it says fits the others'."""
    other = descent(parties=PARTIES, minimum=4, rounds=4, retries=1)
    session = session_of(other, cluster.roster)
    cluster.start(VICTIM, study=other, session=session)
    liar = Liar(cluster)
    dealers = liar.run.opening.set_up(SumAttempt(0, 0))
    assert VICTIM not in dealers.deals
    # Passed on under the name of its own session, the others' keys are not signed for it.
    for tag in ("announce", "deal"):
        keys = packets.announcements(dealers.table.announcements) if tag == "deal" else []
        said = {"session": session.id.hex(), "round": 0, "attempt": 0}
        reply = cluster.parties[VICTIM].answer(wire.encode(tag, said, keys))
    assert wire.decode(reply[HEAD_BYTES:]).tag == "dropout"
    assert cluster.turns(VICTIM) == []


def test_another_version_or_another_earlier_result_is_another_session(cluster):
    own = cluster.session
    others = [
        session_of(cluster.study, cluster.roster, "a").id,
        own.after(["00" * 32]).id,
        own.after(["11" * 32]).id,
        own.after(["11" * 32, "00" * 32]).id,
        own.__class__(**{**_fields(own), "version": "9.9"}).id,
    ]
    assert len({own.id, *others}) == 6
    assert own.after(["11" * 32]).account == own.account  # and no reason to pay again


def _fields(session):
    return {name: getattr(session, name) for name in session.__dataclass_fields__}


# -------------------------------------------------------------- the honest run


def sums(outcome):
    return [np.asarray(m.value) for m in outcome.transcript.messages if m.name == "sum"]


def test_honest_sums_are_what_they_are_in_one_process(tmp_path):
    """The control: bit for bit the sums of the ideal functionality, which has no masks."""
    study = descent(rounds=3)
    cluster = Cluster(study, tmp_path, seed=3)
    for party in range(4):
        cluster.kill(party)
        cluster.start(party, at_once=True)
    outcome = cluster.run()
    (tmp_path / "again").mkdir()
    again = Cluster(study, tmp_path / "again", seed=3)
    members = [one.party for one in again.parties.values()]
    ideal = in_process.run(study, members)
    assert [m.tolist() for m in sums(outcome)] == [m.tolist() for m in sums(ideal)]


@pytest.mark.parametrize("dropped", [("ask", 2, 1), ("agree", 3, 0), ("unmask", 1, 2)], ids=str)
def test_honest_runs_bear_dropouts_and_retries(tmp_path, dropped):
    cluster = Cluster(descent(retries=2), tmp_path)
    missed = {dropped: links.drop_reply, ("ask", 1, 0): links.drop_reply}
    missed |= {("ask", node, 0): links.drop_reply for node in (2, 3)}  # the first attempt fails
    outcome = cluster.run(FaultyLink(cluster.link, missed))
    assert outcome.opened == 3
    assert not any(one.stopped for one in cluster.parties.values())
    cluster.require_sound()


def test_who_missed_rounds_takes_part_again(tmp_path):
    cluster = Cluster(descent(rounds=3), tmp_path)
    gone = {("announce", 2, 1): links.drop_request}
    outcome = cluster.run(FaultyLink(cluster.link, gone), ahead=False)
    assert outcome.opened == 3
    assert cluster.turns(1) == [0, 2]
    assert outcome.informed == frozenset(range(4))
    assert not any(one.stopped for one in cluster.parties.values())


def test_a_server_that_was_killed_remembers_its_questions(tmp_path):
    cluster = Cluster(descent(retries=1), tmp_path)
    for stop in (5, 6):
        with pytest.raises(links.ServerKilled):
            cluster.run(FaultyLink(cluster.link, stops_at=stop), tmp_path / "checkpoint")
    assert cluster.run(checkpoint=tmp_path / "checkpoint").opened >= 2
    assert not any(one.stopped for one in cluster.parties.values())


def test_a_model_that_is_no_longer_finite_costs_nobody_anything(tmp_path):
    """An honest server does not ask for it, so that no party is charged or stops."""
    study = descent(Trust.LOCAL)
    lost = study.algorithm._replace(ask=lambda state: state.parameters + np.float32(np.nan))
    cluster = Cluster(study, tmp_path)
    diverged = object.__new__(type(study))
    diverged.__dict__.update(study.__dict__, algorithm=lost)
    cluster.study = diverged
    assert cluster.run().opened == 0
    assert any("no honest server" in words for words in cluster.said)
    assert cluster.turns(0) == []
    assert not any(one.stopped for one in cluster.parties.values())


def test_a_point_outside_of_the_declared_set_is_refused():
    method = methods.sgd_synchronous(2.0, 1e-5, rounds=3, radius=2.0)
    study = Study(method, Facts((40,) * 3, 2, 2), Trust.SECURE_SUM)
    require_public(study.algorithm, np.array([2, 0], np.float32))
    with pytest.raises(DishonestServer, match="outside of the set"):
        require_public(study.algorithm, np.array([2.1, 0], np.float32))
