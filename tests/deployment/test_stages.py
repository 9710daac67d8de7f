"""A study of several stages between machines: the model, then its private test."""

import json

import numpy as np
import pytest

from unisono.accounting.accountant import ACCOUNTANT
from unisono.deployment import party, server
from unisono.deployment.job import Job, agreement
from unisono.engines import wire
from unisono.engines.distributed.server import Conditions
from unisono.errors import BudgetExceeded, PrivacyViolation
from unisono.studies.build import build
from unisono.studies.file import load_study
from unisono.studies.stages import EVALUATION, FIT, Stage, costs_of

from .test_standing import Network, member
from .trial import NAMES, RECORDS, Trial, study_text

PRIVATE = "\n[evaluation]\nholdout = 0.25\nepsilon = 1000\n"


@pytest.fixture
def trial(tmp_path, monkeypatch):
    monkeypatch.setattr("unisono.engines.distributed.server._RETURN", 0.0)
    found = Trial(tmp_path, study_text() + PRIVATE, epsilon=2000.0)
    Job.begin(found.job, found.study, found.roster, Conditions(5.0, 5.0))
    return found


def document(folder, name="evaluation.json"):
    return json.loads((folder / name).read_text())


def test_the_test_of_a_result_is_a_stage_between_machines(trial):
    members = [member(trial, name) for name in NAMES]
    server.main(Network(members), trial.job)
    assert all(one.finished for one in members)
    shown = [one.finish() for one in members]
    found = document(trial.job)
    assert found["records"] == len(NAMES) * RECORDS // 4
    [_, test] = members[0].agreed.built.stages
    fitted = {FIT: members[0]._responders[0].result}
    scores = np.concatenate([test.prepare(one._records, fitted)[0] for one in members])
    # Noise of epsilon 1000 vanishes.
    assert found["value"] == pytest.approx(scores.mean(), abs=0.01)
    for name, result in zip(NAMES, shown, strict=True):
        assert result == document(trial.job, "result.json")
        assert document(trial.output(name)) == found
        assert len(trial.charges(name)) == 3 + 1
        certificate = document(trial.output(name), "certificate.json")
        [line] = [
            line["epsilon"]
            for line in certificate["guarantees"]
            if (line["viewer"], line["relation"]) == ("server", "replace-one")
        ]
        assert line == pytest.approx(certificate["spending"][0]["epsilon"]["server"])
        assert line > 1000
        left = {path.suffix for path in trial.ledger(name).parent.iterdir()}
        assert left.isdisjoint({".told", ".lock", ".memory", ".order"})
    seen = document(trial.job, "transcript.json")["viewers"]
    assert all("test" in names for names in seen.values())
    assert not (trial.job / "evaluation.pending").exists()


class Dies(Exception):
    """A process that ends here."""


def test_server_and_party_die_between_the_stages(trial, monkeypatch):
    """The server goes on with the test; who was killed is told the model again and tests it on the
    records that it kept out before. Nothing is paid twice."""
    members = [member(trial, name) for name in NAMES]
    kept = members[2]._records.kept["radius"].tolist()
    whole = server._Server._stage

    def dies(self, stage, session, late):
        if stage.name == EVALUATION:
            raise Dies
        return whole(self, stage, session, late)

    with monkeypatch.context() as patch:
        patch.setattr(server._Server, "_stage", dies)
        with pytest.raises(Dies):
            server.main(Network(members), trial.job)
    assert document(trial.job, "result.json")["rounds_opened"] == 3
    assert not Job(trial.job).finished
    members[2].close()
    members[2] = member(trial, "west")
    assert members[2]._records.kept["radius"].tolist() == kept
    server.main(Network(members), trial.job)
    assert Job(trial.job).finished
    assert [len(trial.charges(name)) for name in NAMES] == [4, 4, 4]
    results = [one.finish() for one in members]
    assert results[0] == results[1] == results[2] == document(trial.job, "result.json")
    assert document(trial.output("west")) == document(trial.job)


def test_who_misses_the_end_of_a_stage_is_told_before_the_next(trial, monkeypatch):
    members = [member(trial, name) for name in NAMES]
    network, told = Network(members), []
    answer = type(members[2]).answer

    def deaf(self, data):
        """West hears nothing of the first result when it is handed out."""
        packet = wire.decode(data)
        if self is members[2] and packet.tag == "finish" and not told:
            told.append(packet.scalars["session"])
            return b""
        return answer(self, data)

    monkeypatch.setattr(type(members[2]), "answer", deaf)
    server.main(network, trial.job)
    assert told == [members[2].agreed.sessions[0].id.hex()]
    assert all(one.finished for one in members)
    assert [len(trial.charges(name)) for name in NAMES] == [4, 4, 4]
    for one in members:
        one.close()


def test_a_stage_that_is_over_answers_nothing_more(trial):
    members = [member(trial, name) for name in NAMES]
    server.main(Network(members), trial.job)
    first = members[0].agreed.sessions[0].id.hex()
    paid = trial.charges("north")
    asked = wire.encode("announce", {"session": first, "round": 2, "attempt": 0})
    reply = wire.decode(members[0].answer(asked)[68:])
    assert reply.tag == "dropout"
    assert trial.charges("north") == paid
    for one in members:
        one.close()


def test_where_nothing_was_learnt_nothing_is_tested(trial, monkeypatch):
    """Too few parties answer: the study ends with its first stage, for everybody."""
    members = [member(trial, name) for name in NAMES]
    network = Network(members)
    monkeypatch.setattr("unisono.engines.distributed.opening.Opening.set_up", lambda *_: None)
    server.main(network, trial.job)
    assert all(one.finished for one in members)
    assert "failed" in document(trial.job, "result.json")
    assert "failed" in members[0].finish()
    assert trial.charges("north") == []
    assert not (trial.job / "evaluation.json").exists()
    for one in members:
        one.close()


def test_a_budget_that_pays_for_the_model_alone_is_refused_first(trial, monkeypatch):
    policy = trial.policy("north")
    with monkeypatch.context() as patch:
        patch.setattr(party, "require_allowed", lambda *_: None)  # the ledger asks once more
        policy.write_text(policy.read_text().replace("2000.0", "500.0"))
        with pytest.raises(BudgetExceeded):
            member(trial)
    with pytest.raises(PrivacyViolation, match="epsilon"):
        member(trial)
    assert trial.charges("north") == []


def test_all_stages_are_paid_for_by_everybody(trial):
    built = build(load_study(trial.study))
    assert [stage.name for stage in built.stages] == [FIT, EVALUATION]
    fit, test = built.stages
    for viewer, history in costs_of(built.stages)[0].items():
        assert history == fit.study.cost[viewer] + test.study.cost[viewer]
        both, alone = (
            ACCOUNTANT.epsilon(cost, built.file.privacy.relation, 1e-5)
            for cost in (history, fit.study.cost[viewer])
        )
        assert both > alone
    assert costs_of([fit]) is fit.study.costs
    assert len({id(cost) for cost in costs_of(built.stages)}) == 1
    sessions = agreement(trial.study, trial.roster).sessions
    assert len({session.id for session in sessions}) == len(built.stages)
    assert len({session.account for session in sessions}) == len(built.stages)
    assert isinstance(fit, Stage)


def test_where_sizes_are_hidden_coins_are_tossed_once_and_counted_with_noise(tmp_path, monkeypatch):
    """A party that is killed and comes back tests the records that it kept out before; the number
    of all that were kept is released with their scores."""
    monkeypatch.setattr("unisono.engines.distributed.server._RETURN", 0.0)
    text = study_text().replace("delta = 1e-5", 'delta = 1e-5\nrelation = "add-or-remove"')
    text = text.replace('target = "diagnosis"', 'target = "diagnosis"\nsizes = "hidden"')
    trial = Trial(tmp_path, text + PRIVATE, epsilon=2000.0)
    for name in NAMES:
        policy = trial.policy(name)
        counted = 'delta = 1e-5\nrelation = "add-or-remove"\n\n[allow]'
        policy.write_text(policy.read_text().replace("delta = 1e-5\n\n[allow]", counted))
    Job.begin(trial.job, trial.study, trial.roster, Conditions(5.0, 5.0))
    members = [member(trial, name) for name in NAMES]
    kept = members[2]._records.kept["radius"].tolist()
    members[2].close()
    members[2] = member(trial, "west")
    assert members[2]._records.kept["radius"].tolist() == kept
    server.main(Network(members), trial.job)
    number = sum(len(one._records.kept["radius"]) for one in members)
    for one in members:
        one.finish()
    found = document(trial.job)
    assert found["records"] == pytest.approx(number, abs=2)
    assert found["records_noise"] < 1
    assert document(trial.output("west")) == found
