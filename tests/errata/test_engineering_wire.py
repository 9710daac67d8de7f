"""X-6, X-9 and E003-16 at a party on the wire: failures, retries, and where the noise stays."""

import jax.numpy as jnp
import numpy as np
import pytest

from unisono.accounting.accountant import ACCOUNTANT
from unisono.core.algorithm import Facts
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.study import Party, Study
from unisono.core.trust import SERVER, Trust
from unisono.core.values import Private
from unisono.engines import wire
from unisono.engines.distributed.envelope import HEAD_BYTES
from unisono.engines.distributed.sessions import session_of
from unisono.secagg.roster import Identity, Roster

from .. import methods

loopback = pytest.importorskip("unisono.engines.flower.loopback", reason="flwr is not installed")

ROUNDS = 3
STUDY = Study(
    methods.gradient_perturbation(epsilon=1.0, delta=1e-5, rounds=ROUNDS),
    Facts((8, 8, 8), 2, 2),
    Trust.LOCAL,
)
ROWS = np.linspace(-0.6, 0.6, 16).reshape(8, 2)
GOOD = (ROWS, np.sign(ROWS[:, 0]))
BAD = {
    "missing column": (ROWS[:, :1], GOOD[1]),
    "labels of another length": (ROWS, np.ones(5)),
    "not numbers": (np.full((8, 2), "x"), GOOD[1]),
}
ODD = {
    "one class only": (ROWS, np.ones(8)),
    "NaN": (np.where(ROWS > 0.5, np.nan, ROWS), GOOD[1]),
    "out of range": (ROWS * 1e30, GOOD[1]),
}


def party(data, name="p", epsilon=1.0, seed=1):
    book = Ledger.in_memory(Policy(name, Budget(epsilon, 1e-5)), ACCOUNTANT, seed=seed)
    return Party(name, Private(data), book)


IDENTITIES = [Identity(name, bytes([number]) * 32) for number, name in enumerate("abc")]
ROSTER = Roster(tuple("abc"), tuple(identity.public for identity in IDENTITIES))


def ask(number=0, study=STUDY):
    session = session_of(study, ROSTER).id.hex()
    scalars = {"session": session, "round": number, "attempt": 0, "counted": [-1, -1, -1]}
    return wire.encode("ask", scalars, [np.zeros(2, np.float32)])


def respond(member, study=STUDY):
    """What party b answers, without the signature in front."""
    session = session_of(study, ROSTER)
    responder = loopback.Responder(study, member, IDENTITIES[1], session, at_once=True)
    return responder, lambda data: responder.answer(data)[HEAD_BYTES:]


@pytest.mark.parametrize("cause", BAD)
def test_failures_of_the_data_look_like_any_dropout(cause):
    """X-6: bytes of a party whose data fail equal those of one that cannot or will not answer."""
    failed = respond(party(BAD[cause]))[1](ask())
    refused = respond(party(GOOD, epsilon=0.1))[1](ask())
    assert failed == refused == wire.encode("dropout", {})


@pytest.mark.parametrize("case", ODD)
def test_odd_data_answer_like_good_data(case):
    """X-6: one class, NaN or huge values change neither size, tag nor form of the answer."""
    usual, odd = (respond(party(data))[1](ask()) for data in (GOOD, ODD[case]))
    assert len(odd) == len(usual)
    assert wire.decode(odd).tag == wire.decode(usual).tag == "released"
    assert wire.decode(odd).scalars == wire.decode(usual).scalars


def test_the_server_cannot_tell_bad_data_from_silence():
    """X-6: a run with a failing party shows the server what a run with a silent one shows."""
    failing = [party(GOOD, "a"), party(BAD["missing column"], "b"), party(GOOD, "c")]
    silent = [party(GOOD, name) for name in "abc"]
    dropouts = np.zeros((ROUNDS, 3), bool)
    dropouts[:, 1] = True
    one = loopback.run(STUDY, failing)
    other = loopback.run(STUDY, silent, dropouts=dropouts)
    for seen, expected in zip(
        one.transcript.seen_by(SERVER), other.transcript.seen_by(SERVER), strict=True
    ):
        assert seen.name == expected.name
        if seen.name == "messages":
            assert seen.value.keys() == expected.value.keys() == {0, 2}
        else:
            np.testing.assert_array_equal(seen.value, expected.value)


def test_retries_get_no_second_answer_and_burn_no_budget():
    """X-9: asking the same round again, or a round beyond the paid ones, yields a dropout."""
    member = party(GOOD)
    _, answer = respond(member)
    assert wire.decode(answer(ask(0))).tag == "released"
    spent = member.ledger.spent(SERVER)
    for number in (0, 0, ROUNDS, 10**6):
        assert wire.decode(answer(ask(number))).tag == "dropout"
    assert wire.decode(answer(ask(1))).tag == "released"
    assert member.ledger.grants == 1
    assert member.ledger.spent(SERVER) == spent <= 1.0


def test_a_partys_state_never_sees_its_own_noise():
    """E003-16: the engine adds noise after `local`, so states are equal where messages differ."""
    algorithm = STUDY.algorithm

    def init(facts):
        return algorithm.init(facts)[0], jnp.zeros(2, jnp.int32)

    def local(facts, public, state, data, mask, size):
        _, contribution = algorithm.local(facts, public, None, data, mask, size)
        return state + contribution.value, contribution

    keeping = algorithm._replace(init=init, local=local, settle=lambda state, accepted: state)
    study = Study(keeping, STUDY.facts, STUDY.trust)
    responders = [respond(party(GOOD, seed=seed), study) for seed in (1, 2)]
    for number in range(ROUNDS):
        answers = [wire.decode(answer(ask(number, study))) for _, answer in responders]
        assert [a.tag for a in answers] == ["released"] * 2
        assert not np.array_equal(answers[0].arrays[0], answers[1].arrays[0])
    one, other = (np.asarray(r._state) for r, _ in responders)
    np.testing.assert_array_equal(one, other)
    assert np.any(one)
