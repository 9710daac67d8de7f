"""A finished model, judged between machines: one release, and whose records it was learnt from."""

import csv
import json
import shutil

import numpy as np
import pytest

import unisono
from unisono.accounting.accountant import ACCOUNTANT
from unisono.cli.results import result_text
from unisono.core.costs import everyone
from unisono.core.events import Event, Gaussian
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.values import sum_sensitivity
from unisono.deployment import server
from unisono.deployment.evaluating import Asked, evaluation_text_of
from unisono.deployment.job import Job
from unisono.engines import wire
from unisono.engines.distributed.server import Conditions
from unisono.engines.payments import file_label, paid_training, run_name

from .test_standing import Network, member
from .trial import NAMES, POLICY, RECORDS, Trial, study_text, write_records


class Later(Trial):
    """The same parties and folders, and another study."""

    def __init__(self, before, study):
        self.folder, self.roster = before.folder, before.roster
        self.study = before.folder / "judge.toml"
        self.study.write_text(study)

    @property
    def job(self):
        return self.folder / "judge.run"

    def output(self, name):
        return self.folder / name / f"judge.{name}"


def trained(folder):
    """Three parties learn a model between machines; afterwards west has other records."""
    trial = Trial(folder, study_text(epsilon=50.0), epsilon=2000.0)
    Job.begin(trial.job, trial.study, trial.roster, Conditions(5.0, 5.0))
    members = [member(trial, name) for name in NAMES]
    server.main(Network(members), trial.job)
    for one in members:
        one.finish()
        one.close()
    west = trial.folder / "west"
    for path in [*west.glob("records*"), west / "study.west"]:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    (west / "policy.toml").write_text(POLICY.format(name="west, new", epsilon=2000.0))
    write_records(west / "records.csv", 77)
    return trial


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("unisono.engines.distributed.server._RETURN", 0.0)
        return trained(tmp_path_factory.mktemp("judged"))


@pytest.fixture
def trial(before, tmp_path, monkeypatch):
    """An evaluation that may begin, in folders of its own."""
    monkeypatch.setattr("unisono.engines.distributed.server._RETURN", 0.0)
    shutil.copytree(before.folder, tmp_path / "all")
    again = Trial.__new__(Trial)
    again.folder, again.roster = tmp_path / "all", tmp_path / "all" / "roster.toml"
    text = evaluation_text_of(unisono.load(before.job), Asked(30.0))
    found = Later(again, text)
    Job.begin(found.job, found.study, found.roster, Conditions(5.0, 5.0))
    return found


def result(folder):
    return json.loads((folder / "result.json").read_text())


def test_all_machines_name_whose_records_a_model_was_learnt_from(trial):
    members = [member(trial, name) for name in NAMES]
    server.main(Network(members), trial.job)
    shown = [one.finish() for one in members]
    found = result(trial.job)
    assert found["learnt_from"] == ["north", "south"]
    words = "ON RECORDS THAT WERE LEARNT FROM: the ledgers of north, south have paid"
    assert words in result_text(found)
    metrics = {one["name"]: one for one in found["evaluation"]["metrics"]}
    model, right = unisono.load(trial.folder / "study.run"), []
    for name in NAMES:
        with (trial.folder / name / "records.csv").open() as file:
            rows = list(csv.DictReader(file))
        said = model.predict({key: [row[key] for row in rows] for key in ("radius", "age")})
        right += [one == row["diagnosis"] for one, row in zip(said, rows, strict=True)]
    assert metrics["accuracy"]["value"] == pytest.approx(np.mean(right), abs=0.03)
    assert found["evaluation"]["records"] == pytest.approx(len(NAMES) * RECORDS, abs=10)
    for name, own in zip(NAMES, shown, strict=True):
        assert own == found == result(trial.output(name))
        paid = [one for one in trial.charges(name) if " turn 0 of " in one]
        # The training's first turn, and the two rounds of this one.
        assert len(paid) == (2 if name == "west" else 3)
    for one in members:
        one.close()


class Dies(Exception):
    """A process that ends here."""


def test_who_was_learnt_from_survives_a_restart_of_the_server(trial, monkeypatch):
    """It ends when the sum is opened and nobody was told; the next one has it from its checkpoint
    and only hands the result out."""
    members = [member(trial, name) for name in NAMES]
    with monkeypatch.context() as patch:

        def dies(*_):
            raise Dies

        patch.setattr("unisono.engines.distributed.server._Run._inform", dies)
        with pytest.raises(Dies):
            server.main(Network(members), trial.job)
    server.main(Network(members), trial.job)
    assert [one.finish()["learnt_from"] for one in members] == [["north", "south"]] * 3
    for one in members:
        one.close()


@pytest.mark.parametrize("said", [[], [0, 1, 2], [2]])
def test_no_server_says_of_a_party_what_its_ledger_does_not(trial, monkeypatch, said):
    members = [member(trial, name) for name in NAMES]
    answer = type(members[0]).answer

    def told(self, data):
        packet = wire.decode(data)
        parts = wire.unbundle(packet) if packet.tag == "bundle" else [packet]
        if parts[-1].tag == "finish" and len(self._responders) == 2:  # of the last round
            lies = [{**part.scalars} for part in parts]
            lies[-1]["learnt_from"] = said
            pairs = zip(parts, lies, strict=True)
            falsified = [wire.encode(part.tag, lie, part.arrays) for part, lie in pairs]
            data = wire.bundle(falsified) if parts[1:] else falsified[0]
        return answer(self, data)

    monkeypatch.setattr(type(members[0]), "answer", told)
    server.main(Network(members), trial.job)
    truth = [True, True, False]
    for number, one in enumerate(members):
        assert one.finished == ((number in said) == truth[number])
        one.close()


def test_a_ledger_knows_every_way_of_training():
    file, study = "ab" * 32, "cd" * 32
    names = {
        f"{run_name(file)} rounds 0-3": True,
        run_name(file): True,
        f"session {'0' * 32} turn 2{file_label(file)}": True,
        f"session {'0' * 32}{file_label(file)}": True,
        f"study {study[:16]}": True,
        f"fit, study {study[:16]}": True,
        f"session {'0' * 32} turn 2{file_label(file, ' bounds')}": False,
        f"{run_name('ef' * 32)} rounds 0-3": False,
        f"session {'0' * 32} turn 2": False,
    }
    once = sum_sensitivity(1.0, 2.0**-10, 1)
    for purpose, known in names.items():
        book = Ledger.in_memory(Policy("d", Budget(9.0, 1e-5)), ACCOUNTANT, seed=1)
        book.authorize(everyone(Event(Gaussian(20.0), once) * 1), purpose=purpose)
        assert paid_training(book, file, study) == known, purpose
        assert not paid_training(book)
