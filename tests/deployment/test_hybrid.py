"""A study that begins with another release, between machines: its start, then its rounds."""

import json

import numpy as np
import pytest

from unisono.core.trust import SERVER
from unisono.deployment import local_run, server
from unisono.deployment.job import Job
from unisono.deployment.local_run import RunPlace, prepare
from unisono.engines.distributed.server import Conditions
from unisono.problems.gaussian_family import mean
from unisono.studies.stages import FIT, START

from .test_standing import Network, member
from .trial import NAMES, Trial, study_text

LINE = 'name = "bayesian-linear-regression"\nnoise_std = 4'
HYBRID = 'name = "pvi-dp-sga"\nrounds = 2\nlocal_steps = 2\nsampling_rate = 0.5\nstart = "one-shot"'


def text(algorithm=HYBRID, **more):
    said = study_text(algorithm, trust="local", epsilon=4.0, model=LINE, **more)
    return said.replace('target = "diagnosis"', 'target = "radius"')


@pytest.fixture
def trial(tmp_path, monkeypatch):
    monkeypatch.setattr("unisono.engines.distributed.server._RETURN", 0.0)
    found = Trial(tmp_path, text())
    Job.begin(found.job, found.study, found.roster, Conditions(5.0, 5.0))
    return found


def document(folder, name):
    return json.loads((folder / name).read_text())


def test_the_rounds_begin_where_the_start_ended(trial):
    members = [member(trial, name) for name in NAMES]
    server.main(Network(members), trial.job)
    assert all(one.finished for one in members)
    first, second = members[0]._responders
    q = first.result
    began = second.study.algorithm.init(second.study.facts)[0].q
    expected = np.linalg.solve(np.asarray(q.precision), np.asarray(q.shift))
    assert np.asarray(mean(began)) == pytest.approx(expected, rel=1e-3, abs=1e-4)
    shown = [one.finish() for one in members]
    for name, result in zip(NAMES, shown, strict=True):
        assert result == document(trial.job, "result.json")
        assert len(trial.charges(name)) == 1 + 2
        certificate = document(trial.output(name), "certificate.json")
        [line] = [
            line["epsilon"]
            for line in certificate["guarantees"]
            if (line["viewer"], line["relation"]) == ("server", "replace-one")
        ]
        assert line == pytest.approx(certificate["spending"][0]["epsilon"][str(SERVER)])
        assert 2.0 < line <= 4.0
        left = {path.suffix for path in trial.ledger(name).parent.iterdir()}
        assert left.isdisjoint({".told", ".lock", ".memory", ".order"})
    assert Job(trial.job).finished
    seen = document(trial.job, "transcript.json")["viewers"]
    assert {"start", "start messages"} <= set(seen["server"])


class Dies(Exception):
    """A process that ends here."""


def test_server_and_party_die_after_the_start(trial, monkeypatch):
    """They go on with the same start; nothing is paid twice."""
    members = [member(trial, name) for name in NAMES]
    whole = server._Server._stage

    def dies(self, stage, session, late):
        if stage.name == FIT:
            raise Dies
        return whole(self, stage, session, late)

    with monkeypatch.context() as patch:
        patch.setattr(server._Server, "_stage", dies)
        with pytest.raises(Dies):
            server.main(Network(members), trial.job)
    found = members[0].responder.result
    assert not (trial.job / "result.json").exists()
    members[2].close()
    members[2] = member(trial, "west")
    server.main(Network(members), trial.job)
    assert [len(trial.charges(name)) for name in NAMES] == [3, 3, 3]
    results = [one.finish() for one in members]
    assert results[0] == results[1] == results[2] == document(trial.job, "result.json")
    assert (np.asarray(members[2]._responders[0].result.shift) == np.asarray(found.shift)).all()


def test_a_start_that_was_lost_leaves_the_usual_one(trial, monkeypatch):
    """Nobody's answer is opened in the first stage: the rounds begin with the prior."""
    members = [member(trial, name) for name in NAMES]
    plain = server.coordinate

    def silent(study, link, session, **more):
        if study.algorithm.name == "one-shot-regression":
            monkeypatch.setattr("unisono.engines.distributed.server._Run._plain", lambda *_: None)
        else:
            monkeypatch.undo()
        return plain(study, link, session, **more)

    monkeypatch.setattr(server, "coordinate", silent)
    server.main(Network(members), trial.job)
    assert all(one.finished for one in members)
    assert [len(trial.charges(name)) for name in NAMES] == [2, 2, 2]
    began = members[0].responder.study.algorithm.init(members[0].responder.study.facts)[0].q
    assert np.asarray(mean(began)) == pytest.approx(0.0)
    shown = [one.finish() for one in members]
    assert shown[0]["rounds_opened"] == 2
    assert [stage.name for stage in members[0].agreed.built.stages] == [START, FIT]


def test_a_trusted_server_adds_the_noise_to_clipped_updates(tmp_path, monkeypatch):
    """Whole parties are hidden from whoever sees results; the server gets bounded vectors."""
    monkeypatch.setattr("unisono.engines.distributed.server._RETURN", 0.0)
    said = text('name = "pvi-clipped-updates"\nrounds = 2\nclipping_norm = 1')
    said = said.replace('mode = "local"', 'mode = "trusted-server"')
    said = said.replace("delta = 1e-5", 'delta = 1e-5\nunit = "party"')
    trial = Trial(tmp_path, said)
    for name in NAMES:
        policy = trial.policy(name)
        open_to = "".join(
            f"[budget.exceptions.{who}]\nepsilon = inf\ndelta = 1e-5\n"
            for who in ("server", "party", "network")
        )
        budget = f'unit = "party"\nrelation = "zero-out"\n{open_to}\n[allow]'
        policy.write_text(
            policy.read_text()
            .replace('["secure-sum", "local"]', '["trusted-server"]')
            .replace("[allow]", budget)
        )
    Job.begin(trial.job, trial.study, trial.roster, Conditions(5.0, 5.0))
    members = [member(trial, name) for name in NAMES]
    server.main(Network(members), trial.job)
    shown = [one.finish() for one in members]
    assert shown[0] == shown[1] == shown[2]
    assert shown[0]["rounds_opened"] == 2
    assert set(shown[0]["mean"]) == {"age", "diagnosis=malignant", "intercept"}


def test_a_run_in_one_process_goes_on_after_its_start(trial, monkeypatch):
    """Killed between the stages: the start is read from its checkpoint, and not paid for again."""
    data = {name: trial.folder / name / "records.csv" for name in NAMES}
    place = RunPlace(trial.study, data, trial.folder / "here")
    drive, told = local_run.drive, []

    def dies(study, *given, **more):
        if study.algorithm.name == "pvi-dp-sga":
            raise Dies
        told.append(drive(study, *given, **more))
        return told[-1]

    def go():
        ready = prepare(place)
        with ready.opened() as books:
            return ready.run(books, lambda progress: None)

    with monkeypatch.context() as patch:
        patch.setattr(local_run, "drive", dies)
        with pytest.raises(Dies):
            go()
    assert [len(trial.charges(name)) for name in NAMES] == [1, 1, 1]
    began = []

    def goes_on(study, *given, **more):
        began.append(study)
        return drive(study, *given, **more)

    monkeypatch.setattr(local_run, "drive", goes_on)
    assert go()["rounds_opened"] == 2
    first, second = began
    assert (first.algorithm.name, second.algorithm.name) == ("one-shot-regression", "pvi-dp-sga")
    q = second.algorithm.init(second.facts)[0].q
    expected = np.linalg.solve(told[0].value.precision, told[0].value.shift)
    assert np.asarray(mean(q)) == pytest.approx(expected, rel=1e-3, abs=1e-4)
    charges = [trial.charges(name) for name in NAMES]
    assert all(sum("start" in line for line in own) == 1 for own in charges)
    certificate = document(trial.folder / "here", "certificate.json")
    assert all(
        line["epsilon"] <= 4.0
        for line in certificate["guarantees"]
        if line["relation"] == "replace-one"
    )
