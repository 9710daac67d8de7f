"""Record counts: with hidden sizes no message tells how many records a party holds."""

import numpy as np
import pytest

from unisono.core.trust import Trust
from unisono.engines import wire
from unisono.engines.distributed.envelope import HEAD_BYTES

from .cluster import RECORDS, Cluster, columns, descent

TRUSTS = [Trust.SECURE_SUM, Trust.LOCAL]


def outside(cluster):
    """What an onlooker sees of party 0's replies, but for the encrypted or noisy bytes: lengths,
    and headers with tag, scalars, types and shapes."""
    seen = []
    answer = cluster.link.answers[1]

    def watched(request):
        reply = answer(request)
        body = reply[HEAD_BYTES:]
        packet = wire.decode(body)
        parts = wire.unbundle(packet) if packet.tag == "bundle" else []
        shapes = [[(a.dtype.str, a.shape) for a in p.arrays] for p in [packet, *parts]]
        told = [(p.tag, dict(p.scalars)) for p in [packet, *parts]]
        header = body[: 9 + int.from_bytes(body[5:9], "little")]
        seen.append((len(reply), header, told, shapes))
        return reply

    cluster.link.answers[1] = watched
    cluster.run()
    return seen


def world(study, folder, records):
    folder.mkdir()
    return Cluster(study, folder, data={0: columns(study, 0, records)})


@pytest.mark.parametrize("trust", TRUSTS)
@pytest.mark.parametrize("records", [63, 65, 100])
def test_messages_do_not_depend_on_the_number_of_records(tmp_path, trust, records):
    """Same length, tag, header and shapes in every exchange, also where the padding grows (65)."""
    study = descent(trust, parties=3, minimum=2, exact_sizes=False, records=64)
    first = outside(world(study, tmp_path / "a", 64))
    second = outside(world(study, tmp_path / "b", records))
    tags = [tag for entry in first for tag, _ in entry[2]]
    assert tags.count("released" if trust is Trust.LOCAL else "unmask") == 3
    assert first == second


@pytest.mark.parametrize("trust", TRUSTS)
def test_with_public_sizes_another_number_of_records_is_a_dropout(tmp_path, trust):
    """The control: the comparison above would notice."""
    study = descent(trust, parties=3, minimum=2)
    first = outside(world(study, tmp_path / "a", RECORDS))
    second = outside(world(study, tmp_path / "b", RECORDS + 1))
    assert first != second


def test_far_more_records_than_agreed_change_nothing_outside(tmp_path):
    """The most extreme records: all gradients point the same way at full length. One record more
    must not turn an answer into a dropout, or the number of records shows."""
    study = descent(Trust.LOCAL, parties=3, minimum=2, exact_sizes=False)
    answers = []
    for records in range(10, 24):
        folder = tmp_path / str(records)
        folder.mkdir()
        rows = np.tile([100.0, 0.0], (records, 1))
        cluster = Cluster(study, folder, data={0: (rows, np.ones(records))})
        request = cluster.request("ask", 0, 0, np.zeros(2, np.float32), counted=[-1] * 3)
        answers.append(wire.decode(cluster.parties[0].answer(request)[HEAD_BYTES:]).tag)
    assert answers == ["released"] * 14
