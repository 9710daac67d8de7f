"""Results are signed, are told once, and are of rounds that can have been opened."""

import numpy as np
import pytest

from unisono.core.trust import Trust
from unisono.engines import wire
from unisono.engines.distributed.envelope import HEAD_BYTES
from unisono.engines.distributed.results import ResultSigner, Signed, require_signed, result_hash
from unisono.engines.distributed.server import Conditions, coordinate
from unisono.engines.flower.certificates import issue
from unisono.errors import InvalidInput, PrivacyViolation

from .cluster import Cluster, descent

RESULT = np.zeros(2, np.float32)


def told(cluster, party, leaves=(RESULT,), opened=3, signer=None):
    """Tell a party a result; returns whether it accepts it."""
    beside = []
    if signer is not None:
        beside = signer.sign(result_hash(cluster.session, opened, leaves)).arrays
    scalars = {"session": cluster.session.id.hex(), "opened": opened}
    reply = cluster.parties[party].answer(wire.encode("finish", scalars, [*leaves, *beside]))
    return wire.decode(reply[HEAD_BYTES:]).tag == "finish"


def ask(cluster, party, number):
    cluster.parties[party].answer(
        cluster.request("ask", number, 0, RESULT, counted=[-1] * cluster.study.facts.parties)
    )


def server(folder):
    """An authority's certificate, and the signer of a server under it."""
    files = issue(folder, ["127.0.0.1"])
    return files.authority.read_bytes(), ResultSigner.load(files.certificate, files.key)


# ------------------------------------------------- rounds that can have been


def test_no_result_is_believed_before_the_first_turn(tmp_path):
    """Four parties, four results, and nobody was asked anything."""
    cluster = Cluster(descent(), tmp_path)
    for party in range(4):
        assert not told(cluster, party, [np.full(2, 1000.0 * party, np.float32)])
        assert not cluster.parties[party].finished
    assert cluster.run().opened == 3
    assert all(party.finished and party.opened == 3 for party in cluster.parties.values())


@pytest.mark.parametrize("answered", [1, 2, 3])
def test_where_all_must_answer_no_more_rounds_open_than_a_party_answered(tmp_path, answered):
    cluster = Cluster(descent(Trust.LOCAL, parties=3, minimum=3), tmp_path)
    for number in range(answered):
        ask(cluster, 0, number)
    assert len(cluster.turns(0)) == answered
    for opened in range(answered + 1, 4):
        assert not told(cluster, 0, opened=opened)
    assert told(cluster, 0, opened=answered)


def test_where_fewer_may_answer_rounds_open_without_a_party(tmp_path):
    """The control: it was away for two of three rounds, and is told of all."""
    cluster = Cluster(descent(Trust.LOCAL, parties=3, minimum=2), tmp_path)
    ask(cluster, 0, 0)
    assert told(cluster, 0, opened=3)


def test_a_restarted_party_knows_its_turns_from_its_ledger(tmp_path):
    cluster = Cluster(descent(Trust.LOCAL, parties=3, minimum=3), tmp_path)
    for number in range(2):
        ask(cluster, 0, number)
    cluster.kill(0)
    cluster.start(0)
    assert not told(cluster, 0, opened=3)
    assert told(cluster, 0, opened=2)


def test_a_second_result_is_refused_and_the_same_one_is_not(tmp_path):
    cluster = Cluster(descent(), tmp_path)
    outcome = cluster.run()
    party = cluster.parties[0]
    assert told(cluster, 0, [outcome.value])
    assert not told(cluster, 0, [outcome.value + 1])
    assert not told(cluster, 0, [outcome.value], opened=2)
    np.testing.assert_array_equal(party.result, outcome.value)


def test_everybody_holds_the_same_hash(tmp_path):
    cluster = Cluster(descent(), tmp_path)
    outcome = cluster.run()
    assert {party.result_hash for party in cluster.parties.values()} == {outcome.result_hash}
    other = result_hash(cluster.session, 3, [outcome.value + 1]).hex()
    assert other != outcome.result_hash


# ------------------------------------------------------------- signatures


def test_a_signed_result_is_accepted_and_kept(tmp_path):
    cluster = Cluster(descent(), tmp_path)
    authority, signer = server(tmp_path / "tls")
    for party in cluster.parties.values():
        party.authority = authority
    outcome = coordinate(
        cluster.study,
        cluster.link,
        cluster.session,
        conditions=Conditions(1.0, connect_timeout=0.0),
        signer=signer,
    )
    for party in cluster.parties.values():
        assert party.finished
        require_signed(authority, bytes.fromhex(outcome.result_hash), party.signed)


@pytest.mark.parametrize("forged", ["nothing", "another server", "another result", "garbage"])
def test_a_result_that_the_studys_server_did_not_sign_is_refused(tmp_path, forged):
    cluster = Cluster(descent(Trust.LOCAL), tmp_path)
    authority, signer = server(tmp_path / "tls")
    _, other = server(tmp_path / "another")
    cluster.parties[0].authority = authority
    ask(cluster, 0, 0)
    signed = {
        "nothing": [],
        "another server": other.sign(result_hash(cluster.session, 3, [RESULT])).arrays,
        "another result": signer.sign(result_hash(cluster.session, 3, [RESULT + 1])).arrays,
        "garbage": [np.zeros(9, np.uint8)] * 2,
    }[forged]
    scalars = {"session": cluster.session.id.hex(), "opened": 3}
    cluster.parties[0].answer(wire.encode("finish", scalars, [RESULT, *signed]))
    assert not cluster.parties[0].finished
    assert told(cluster, 0, signer=signer)


def test_what_stands_beside_a_result_is_a_signature_or_nothing():
    assert Signed.read([]) is None
    for arrays in ([RESULT, RESULT], [np.zeros(3, np.uint8)], [np.zeros((2, 2), np.uint8)] * 2):
        with pytest.raises(InvalidInput, match="something else than a signature"):
            Signed.read(arrays)


def test_a_certificate_that_the_authority_did_not_issue_proves_nothing(tmp_path):
    """Also one that names the authority as its issuer."""
    authority, _ = server(tmp_path / "tls")
    _, other = server(tmp_path / "another")
    with pytest.raises(PrivacyViolation, match="did not sign"):
        require_signed(authority, b"statement", other.sign(b"statement"))
