"""A party that cheats: it can be left out, and it cannot stop the others."""

import jax.numpy as jnp
import numpy as np
import optax
import pytest

from unisono.core.algorithm import Facts
from unisono.core.study import Study
from unisono.core.trust import Relation, Trust
from unisono.engines import wire
from unisono.engines.distributed.envelope import HEAD_BYTES, seal
from unisono.problems.record_loss import RecordLoss

from ... import methods
from .cluster import Cluster, columns, descent


def cheating(cluster, party, change):
    """The party changes arrays of its replies before it signs them."""
    honest = cluster.link.answers[party + 1]

    def answer(request):
        packet = wire.decode(honest(request)[HEAD_BYTES:])
        parts = wire.unbundle(packet) if packet.tag == "bundle" else [packet]
        changed = [
            wire.encode(p.tag, p.scalars, change(p.tag, [a.copy() for a in p.arrays]))
            for p in parts
        ]
        body = wire.bundle(changed, packet.scalars) if packet.tag == "bundle" else changed[0]
        return seal(cluster.session, cluster.identities[party], request, body)

    cluster.link.answers[party + 1] = answer


def garbage_for(*receivers):
    def change(tag, arrays):
        if tag == "deal":
            for row, receiver in enumerate(arrays[2]):
                if not receivers or receiver in receivers:
                    arrays[3][row] = 7
        return arrays

    return change


def test_a_party_that_seals_garbage_for_all_is_named_and_left_out(tmp_path):
    """Nobody could answer, so nobody paid: the same attempt begins anew, without a retry."""
    cluster = Cluster(descent(parties=6, minimum=4), tmp_path)
    cheating(cluster, 0, garbage_for())
    outcome = cluster.run()
    assert any("begins anew without whoever is to blame" in words for words in cluster.said)
    assert outcome.opened == 3
    assert outcome.attempts == 0
    assert all(cluster.turns(party) == [0, 1, 2] for party in range(1, 6))
    cluster.require_sound()


def test_a_party_that_seals_garbage_for_one_is_left_out(tmp_path):
    """The other misses the round in which it could not open its shares, and no more."""
    cluster = Cluster(descent(parties=6, minimum=4), tmp_path)
    cheating(cluster, 0, garbage_for(5))
    assert cluster.run().opened == 3
    assert cluster.turns(0) == [0]
    assert cluster.turns(1) == [0, 1, 2]
    assert cluster.turns(5) == [1, 2]
    cluster.require_sound()


def test_where_one_may_collude_one_word_against_another_costs_both(tmp_path):
    cluster = Cluster(descent(parties=6, minimum=4, colluders=1), tmp_path)
    cheating(cluster, 0, garbage_for(5))
    assert cluster.run().opened == 3
    assert (cluster.turns(0), cluster.turns(1), cluster.turns(5)) == ([0], [0, 1, 2], [])


@pytest.mark.parametrize("dealer", [[1], {"a": 1}, None, "1", 1.5, True, 10**30, -1])
def test_blame_of_nobody_stops_nobody(tmp_path, dealer):
    """A party answers every question with a strange complaint: it is left out, the others go on."""
    cluster = Cluster(descent(parties=4, minimum=3), tmp_path)
    honest = cluster.link.answers[1]

    def answer(request):
        if wire.decode(request).tag == "hello":
            return honest(request)
        packet = wire.encode("blame", {"dealer": dealer})
        return seal(cluster.session, cluster.identities[0], request, packet)

    cluster.link.answers[1] = answer
    assert cluster.run().opened == 3


def result_packet(cluster, leaves, opened):
    scalars = {"session": cluster.session.id.hex(), "opened": opened}
    return wire.encode("finish", scalars, leaves)


@pytest.mark.parametrize(
    ("leaves", "opened"),
    [
        ([np.zeros(2, np.float32)], -5),
        ([np.zeros(2, np.float32)], 4),
        ([np.zeros(2, np.float32)], True),
        ([np.zeros(2, np.float64)], 3),
        ([np.zeros(3, np.float32)], 3),
        ([], 3),
    ],
)
def test_a_result_that_cannot_be_is_refused(tmp_path, leaves, opened):
    cluster = Cluster(descent(), tmp_path)
    party = cluster.parties[0]
    reply = party.answer(result_packet(cluster, leaves, opened))
    assert wire.decode(reply[HEAD_BYTES:]).tag == "dropout"
    assert not party.finished
    party.answer(cluster.request("ask", 0, 0, np.zeros(2, np.float32), counted=[-1] * 4))
    party.answer(result_packet(cluster, [np.zeros(2, np.float32)], 3))
    assert party.finished


def test_correlated_noise_with_hidden_sizes_runs(tmp_path):
    """Its sensitivity is known in one norm only."""
    problem = RecordLoss(
        lambda weights, record: jnp.logaddexp(0.0, -record[1] * (record[0] @ weights)),
        np.zeros(2, np.float32),
        (np.zeros(2, np.float32), np.float32(0)),
    )
    turns = {"rounds": 3, "separation": 3, "bands": 2, "relation": Relation.ADD_OR_REMOVE}
    algorithm = methods.dp_ftrl(problem, optax.sgd(0.5), 2.0, 1e-5, **turns)
    study = Study(algorithm, Facts((5,) * 3, 2, 2, 0, exact_sizes=False), Trust.LOCAL)
    data = {i: columns(study, i) for i in range(3)}
    assert Cluster(study, tmp_path, data=data).run().opened == 3
