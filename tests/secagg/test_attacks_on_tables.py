"""A server that lies about who announced keys and dealt shares, or who is in the session at all."""

import numpy as np
import pytest

from unisono.errors import PrivacyViolation
from unisono.secagg import party
from unisono.secagg.session import Session

from .harness import QUESTION, Relay, crowd, ring, run, share

VECTORS = {i: np.array([1000 + i, -(7**i)]) for i in range(5)}


class Shows(Relay):
    """Shows one party a part of what it has."""

    def __init__(self, stage, receiver, kept):
        self.stage, self.receiver, self.kept = stage, receiver, kept

    def show(self, stage, receiver, shown):
        if (stage, receiver) != (self.stage, self.receiver):
            return shown
        return {i: one for i, one in shown.items() if i in self.kept}


def accepts_other_keys():
    """Party 0 hears of the keys of 0 to 3, the others of all five; then it sees their deals."""
    done = run(crowd(5), VECTORS, until="announce")
    keys = done.messages["announce"]
    told = {i: {k: keys[k] for k in range(4)} if i == 0 else keys for i in range(4)}
    dealt = {i: party.deal(done.states["announce"][i], told[i]) for i in range(4)}
    return party.accept(dealt[0][0], {i: deal for i, (_, deal) in dealt.items()})


def agrees_with_other_dealers():
    """Party 0 hears that 0 to 3 dealt shares, the others that all did; then it sees who sent."""
    done = run(crowd(5), VECTORS, until="deal")
    deals = done.messages["deal"]
    states, sealed = {}, {}
    for i in range(4):
        told = {k: deals[k] for k in range(4)} if i == 0 else deals
        accepted = party.accept(done.states["deal"][i], told)
        states[i], _, sealed[i] = party.mask(accepted, share(VECTORS[i]), QUESTION)
    return party.agree(states[0], sealed)


TABLES = [
    (accepts_other_keys, "digest_of_table", "the keys of all"),
    (agrees_with_other_dealers, "digest_of_dealers", "its vector"),
]


@pytest.mark.parametrize(("attack", "binding", "what"), TABLES)
def test_two_tables_of_keys_or_dealers(attack, binding, what):
    """Who was told otherwise notices at the next step, by the others' signatures."""
    with pytest.raises(PrivacyViolation, match=f"has not signed {what}"):
        attack()


@pytest.mark.parametrize(("attack", "binding", "what"), TABLES)
def test_two_tables_would_go_unnoticed_if_they_were_not_signed(monkeypatch, attack, binding, what):
    monkeypatch.setattr(party, binding, lambda first, rows: b"the same for all")
    assert attack()


@pytest.mark.parametrize(
    ("stage", "did"), [("deal", "announced keys"), ("mask", "dealt shares"), ("agree", "sent")]
)
def test_shrinking_the_set_below_the_minimum(stage, did):
    """A server that shows one party itself and a colluder, at each step."""
    done = run(crowd(5, colluders=1), VECTORS, relay=Shows(stage, 0, (0, 4)))
    at, error = done.refusals[0]
    assert at == stage
    assert f"2 parties {did}" in str(error)


def test_shrinking_the_roster_or_the_minimum():
    """A session with fewer parties or another minimum has another id: its keys are refused."""
    people, smaller = crowd(5, 4), crowd(4, 3)
    state, _ = people.announce(0)
    for other in (smaller, crowd(5, 3), crowd(5, 4, colluders=1), crowd(5, 4, bits=64)):
        assert other.session.id != people.session.id
        keys = {i: other.announce(i)[1] for i in range(1, other.session.parties)}
        with pytest.raises(PrivacyViolation, match="has not signed its keys"):
            party.deal(state, {0: state.announcement, **keys})
    with pytest.raises(PrivacyViolation, match="does not hold the key"):
        party.announce(people.session, people.identities[1], 0, 0, 0, bytes(32))


def test_a_smaller_session_would_do_if_ids_were_the_same(monkeypatch):
    monkeypatch.setattr(Session, "id", b"the same for all")
    people, smaller = crowd(5, 3), crowd(4, 3)
    state, _ = people.announce(0)
    keys = {i: smaller.announce(i)[1] for i in range(1, 4)}
    party.deal(state, {0: state.announcement, **keys})


def test_a_dealer_without_keys_a_survivor_without_shares_a_voter_who_did_not_survive():
    """Sets only shrink from step to step, whatever is signed."""
    people = crowd(5, 3)
    done = run(people, VECTORS, {4: "deal"}, until="announce")
    keys = {i: one for i, one in done.messages["announce"].items() if i != 4}
    dealt = {i: party.deal(done.states["announce"][i], keys) for i in keys}
    state, attempt = dealt[0][0], people.session.attempt(0, 0)
    deals = {i: deal for i, (_, deal) in dealt.items()}
    signature = people.identities[4].sign(party.dealt(attempt, 4, state.table_digest, bytes(32)))
    with pytest.raises(PrivacyViolation, match="has not announced keys"):
        party.accept(state, {**deals, 4: party.Deal(bytes(32), signature, {})})

    done = run(people, VECTORS, {4: "deal", 3: "mask"}, until="mask")
    state = done.states["mask"][0]
    sealed = {i: one for i, (_, one) in done.messages["mask"].items()}
    outsider = people.identities[4].sign(party.sent(attempt, 4, state.dealers_digest, QUESTION))
    with pytest.raises(PrivacyViolation, match="dealt no shares"):
        party.agree(state, {**sealed, 4: outsider})

    agreed = {i: party.agree(done.states["mask"][i], sealed) for i in sealed}
    votes = {i: vote for i, (_, vote) in agreed.items() if i != 2}
    votes[3] = people.identities[3].sign(agreed[0][0].statement)
    with pytest.raises(PrivacyViolation, match="not among them"):
        party.unmask(agreed[0][0], votes)


def test_too_few_holders_on_a_ring(monkeypatch):
    """Enough parties in all, and too few around one of them: its secrets are not shared."""
    people = ring(monkeypatch, 14, 4, 4)
    around = people.session.neighbours(0)[:2]
    keys = {i: people.announce(i)[1] for i in range(14) if i not in around}
    with pytest.raises(PrivacyViolation, match="3 holders of shares where 4"):
        party.deal(people.announce(0)[0], keys)


def test_a_dealer_who_commits_to_two_self_masks():
    """A colluder's two signed commitments, one for each half: they do not agree on survivors."""
    people = crowd(3)
    done = run(people, VECTORS, until="deal")
    deals, attempt = done.messages["deal"], people.session.attempt(0, 0)
    statement = party.dealt(attempt, 2, done.states["deal"][2].table_digest, bytes(32))
    second = deals[2]._replace(commitment=bytes(32), signature=people.identities[2].sign(statement))
    sent = {}
    for i, told in ((0, deals), (1, {**deals, 2: second})):
        sent[i] = party.mask(
            party.accept(done.states["deal"][i], told), share(VECTORS[i]), QUESTION
        )
    with pytest.raises(PrivacyViolation, match="p1 has not signed its vector"):
        party.agree(sent[0][0], {i: sealed for i, (_, _, sealed) in sent.items()})
