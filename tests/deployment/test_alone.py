"""A study in one process on files: what it writes, that it runs once, and that it can be killed."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from unisono.accounting.accountant import ACCOUNTANT
from unisono.core import journal
from unisono.core.ledger import Ledger
from unisono.data import read_table
from unisono.deployment import paid_rounds
from unisono.deployment.alone import Place, prepare
from unisono.deployment.parties_here import find_data
from unisono.errors import BudgetExceeded, GrantMisused, InvalidInput, PrivacyViolation
from unisono.reports.run import read_run
from unisono.studies.build import build
from unisono.studies.file import load_study

from .trial import DESCENT, MARKER, NAMES, POLICY, RECORDS, study_text, write_records

ROUNDS = 4
DESCENDING = DESCENT.format(rounds=ROUNDS)
PRIVATE = "\n[evaluation]\nholdout = 0.25\nepsilon = 1.0\n"


@pytest.fixture
def made(tmp_path):
    """A study with three parties' files; `more` is added to its end."""

    def place(more: str = "", *, seed=None, algorithm=DESCENDING, **options):
        study = tmp_path / "study.toml"
        study.write_text(study_text(algorithm, **options) + more)
        for number, name in enumerate(NAMES):
            if not (tmp_path / f"{name}.csv").exists():
                write_records(tmp_path / f"{name}.csv", number)
        data = find_data(NAMES, tmp_path)
        return Place(study, data, tmp_path / "run", tmp_path / "ledgers", seed=seed)

    return place


def run(place, follow=lambda progress: None):
    task = prepare(place)
    with task.opened() as books:
        return task.run(books, follow)


def charges(place, name="north"):
    lines, _ = journal.read(place.ledgers / name / f"{name}.ledger")
    return [line["purpose"] for line in lines if line["kind"] == "grant"]


def spent(place, name="north"):
    ledger = Ledger.open(place.ledgers / name / f"{name}.ledger", ACCOUNTANT)
    found = {str(viewer): ledger.spent(viewer) for viewer in ledger.viewers}
    ledger.close()
    return found


class Killed(BaseException):
    """In place of a signal: nothing in the package catches it."""


@pytest.fixture
def kill(monkeypatch):
    """Die in the n-th piece from now, when it is paid for and nothing has come of it yet."""
    whole = paid_rounds._Work.piece

    def at(number: int) -> None:
        left = [number]

        def piece(self, *arguments):
            left[0] -= 1
            if left[0] < 0:
                monkeypatch.setattr(paid_rounds._Work, "piece", whole)
                raise Killed
            return whole(self, *arguments)

        monkeypatch.setattr(paid_rounds._Work, "piece", piece)

    return at


# ------------------------------------------------------------- documents


def test_a_run_writes_what_whoever_looks_on_may_read(made):
    place = made()
    seen = []
    shown = run(place, seen.append)
    (place.folder / "run.json").write_text(
        json.dumps({"format": "unisono-run-1", "title": "", "engine": "in process",
                    "state": "finished", "started": ""})
    )  # fmt: skip
    found = read_run(place.folder)
    assert not found.damaged
    assert found.result == shown
    assert shown["rounds_opened"] == ROUNDS
    assert found.progress == {
        "rounds": ROUNDS, "of": ROUNDS, "words": "", "answered": list(NAMES)
    }  # fmt: skip
    assert [line["round"] for line in found.timeline] == [1, 2, 3, 4]
    assert found.timeline[0]["change"] is None
    assert all(line["change"] > 0 for line in found.timeline[1:])
    assert [progress.rounds for progress in seen] == [0, 1, 2, 3, 4]
    names = [message["name"] for message in found.transcript["messages"]]
    assert names == ["public", "sum", "result"]  # a secure sum: nobody sees a single message
    assert found.transcript["messages"][1]["shape"] == [3]
    assert found.transcript["viewers"]["final-model"] == ["result"]
    for entry in found.budgets:
        now = spent(place, entry["party"])
        for viewer, numbers in entry["viewers"].items():
            assert numbers["before"] == 0
            assert numbers["spent"] == pytest.approx(now[viewer])
            assert numbers["spent"] <= numbers["budget"]
    assert found.certificate["entropy"] == "os"
    for path in [*place.folder.iterdir(), *place.ledgers.rglob("*.*")]:
        assert path.is_dir() or MARKER.encode() not in path.read_bytes()


def test_budgets_drain_while_it_runs(made):
    place, left = made(), []

    def follow(progress):
        if progress.rounds:
            budgets = json.loads((place.folder / "budgets.json").read_text())
            left.append(budgets[0]["viewers"]["server"]["spent"])

    run(place, follow)
    assert len(left) == ROUNDS
    assert all(earlier < later for earlier, later in pairwise(left))


# ------------------------------------------------------------- once


def test_an_edition_runs_once_in_whatever_folder(made, tmp_path):
    place = made()
    run(place)
    before = charges(place)
    with pytest.raises(InvalidInput, match="holds the result of this study already"):
        prepare(place)
    elsewhere = replace(place, folder=tmp_path / "elsewhere")
    with pytest.raises(GrantMisused, match="agree on the next edition"):
        run(elsewhere)
    assert not elsewhere.folder.exists()
    made(survivors=3)
    with pytest.raises(InvalidInput, match="belongs to another study"):
        prepare(place)
    made(survivors=1)
    with pytest.raises(PrivacyViolation, match=r"(?s)minimum_quorum.*made for one study only"):
        prepare(elsewhere)
    assert charges(place) == before


def test_a_ledger_with_room_refuses_the_same_edition_and_takes_the_next(made, tmp_path):
    """A party with a policy of its own could pay twice; the names of payments say that it did."""
    place = made()
    for number, name in enumerate(NAMES):
        home = tmp_path / name
        home.mkdir()
        (home / "policy.toml").write_text(POLICY.format(name=name, epsilon=10.0))
        write_records(home / "records.csv", number)
        (tmp_path / f"{name}.csv").unlink()
    place = replace(place, data=find_data(NAMES, tmp_path))
    run(place)
    assert not place.ledgers.exists()
    again = replace(place, folder=tmp_path / "again")
    with pytest.raises(GrantMisused, match="agree on the next edition"):
        run(again)
    text = place.study.read_text()
    place.study.write_text(text.replace("\n\n[data]", "\nedition = 2\n\n[data]", 1))
    assert run(again)["rounds_opened"] == ROUNDS


def test_a_made_policy_says_how_to_go_on_when_it_is_used_up(made, tmp_path):
    place = made()
    run(place)
    text = place.study.read_text()
    place.study.write_text(text.replace("\n\n[data]", "\nedition = 2\n\n[data]", 1))
    with pytest.raises(BudgetExceeded, match=r"was made for one study only: .* --seed"):
        run(replace(place, folder=tmp_path / "second"))


def test_a_folder_serves_one_process_at_a_time(made):
    task = prepare(made())
    with task.opened(), pytest.raises(InvalidInput, match="another process runs"), task.opened():
        pass


# ------------------------------------------------------------- killed


def test_a_killed_run_goes_on_and_leaves_out_what_was_lost(made, kill):
    place = made()
    kill(2)
    with pytest.raises(Killed):
        run(place)
    assert len(charges(place)) == 3
    shown = run(place)
    assert shown["rounds_opened"] == ROUNDS - 1
    for name in NAMES:
        own = charges(place, name)
        assert len(own) == len(set(own)) == ROUNDS  # every round is paid for once
    lines = [json.loads(x) for x in (place.folder / "timeline.jsonl").read_text().splitlines()]
    assert [line["round"] for line in lines] == [1, 2, 3, 4]
    budgets = json.loads((place.folder / "budgets.json").read_text())
    assert budgets[0]["viewers"]["server"]["before"] == 0


def test_retries_give_a_lost_round_back(made, kill):
    place, words = made(retries=1), []
    kill(1)
    with pytest.raises(Killed):
        run(place)
    kill(2)
    with pytest.raises(Killed):  # once more: the retry is used up by now
        run(place, lambda progress: words.append(progress.words))
    assert any("round 2: paid for and lost" in line and "tried again" in line for line in words)
    shown = run(place, lambda progress: words.append(progress.words))
    assert any("round 4: paid for and lost" in line and "left out" in line for line in words)
    assert shown["rounds_opened"] == ROUNDS - 1
    assert len(charges(place)) == ROUNDS + 1
    study = build(load_study(place.study)).study
    for viewer, history in study.costs[0].items():
        most = ACCOUNTANT.epsilon(history, load_study(place.study).privacy.relation, 1e-5)
        assert spent(place)[str(viewer)] <= most * (1 + 1e-9)


def test_a_lost_run_without_other_rounds_says_so(made, kill):
    questions = '[[algorithm.questions]]\nask = "mean"\ncolumn = "age"\n'
    place = made(algorithm=f'name = "statistics"\n{questions}')
    text = place.study.read_text().replace('target = "diagnosis"\n', "")
    place.study.write_text(text)
    kill(0)
    with pytest.raises(Killed):
        run(place)
    shown = run(place)
    assert "paid for and lost" in shown["failed"]
    assert len(charges(place)) == 1


def test_a_run_that_is_paid_for_at_once_ends_with_its_process(made, kill, monkeypatch):
    monkeypatch.setattr(paid_rounds, "_in_parts", lambda study, state: False)
    place = made()
    kill(1)
    with pytest.raises(Killed):
        run(place)
    with pytest.raises(GrantMisused, match="agree on the next edition"):
        run(place)
    assert len(charges(place)) == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pvi-clipped-updates", "dp-ftrl", "local-dp-sgd", "k-means"])
def test_every_kind_of_payment_runs(made, name):
    """Parties that remember, correlated noise, noisy steps at home, clusters."""
    more = {"dp-ftrl": "hidden = [3]", "local-dp-sgd": "hidden = [3]\nsteps = 2",
            "k-means": "clusters = 2"}.get(name, "")  # fmt: skip
    trust = "local" if name == "local-dp-sgd" else "secure-sum"
    place = made(algorithm=f'name = "{name}"\nrounds = 2\n{more}', survivors=3, trust=trust)
    text = place.study.read_text()
    if name == "pvi-clipped-updates":
        hidden = 'delta = 1e-5\nunit = "party"\nrelation = "zero-out"\n'
        text = text.replace("delta = 1e-5\n", hidden)
    if name == "k-means":
        text = text.replace('target = "diagnosis"\n', "")
        text = text.replace(
            'diagnosis = { kind = "category", values = ["benign", "malignant"] }\n', ""
        )
    place.study.write_text(text)
    assert run(place)["rounds_opened"] == 2
    whole = name in ("pvi-clipped-updates", "dp-ftrl")
    assert len(charges(place)) == (1 if whole else 2)


def test_a_process_that_is_killed_by_signal_leaves_a_folder_that_goes_on(made):
    """SIGKILL between payment and computation: no handler runs, the lock is free, it goes on."""
    place = made()
    code = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from unisono.deployment import paid_rounds\n"
        "from unisono.deployment.alone import Place, prepare\n"
        "whole, done = paid_rounds._Work.piece, []\n"
        "def piece(self, *arguments):\n"
        "    done.append(1)\n"
        "    if len(done) == 3: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return whole(self, *arguments)\n"
        "paid_rounds._Work.piece = piece\n"
        "study, folder, ledgers, *data = map(Path, sys.argv[1:])\n"
        "task = prepare(Place(study, {p.stem: p for p in data}, folder, ledgers))\n"
        "with task.opened() as books: task.run(books, lambda progress: None)\n"
    )
    arguments = [place.study, place.folder, place.ledgers, *place.data.values()]
    ended = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, timeout=120,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
    )  # fmt: skip
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert len(charges(place)) == 3
    shown = run(place)
    assert shown["rounds_opened"] == ROUNDS - 1
    assert len(charges(place)) == len(set(charges(place))) == ROUNDS


# ------------------------------------------------------------- simulations


def test_a_simulation_spends_nothing_and_can_be_repeated(made):
    place = made(seed=7)
    first, second = run(place), run(place)
    assert first == second
    assert not place.ledgers.exists()
    certificate = json.loads((place.folder / "certificate.json").read_text())
    assert certificate["entropy"] == "simulation"
    with pytest.raises(InvalidInput, match="holds a simulation"):
        prepare(replace(place, seed=None))


def test_a_simulation_keeps_away_from_a_real_run(made):
    place = made()
    run(place)
    with pytest.raises(InvalidInput, match="holds a real run"):
        prepare(replace(place, seed=1))


# ------------------------------------------------------------- tests of the result


def test_a_private_test_is_paid_for_in_addition(made):
    """Noise of epsilon 1000 vanishes: the answer is that of the records that were kept out."""
    place = made("\n[evaluation]\nholdout = 0.25\nepsilon = 1000\n", epsilon=50.0)
    built = build(load_study(place.study))
    assert built.study.facts.records == (30, 30, 30)
    assert built.test.study.facts.records == (10, 10, 10)
    shown = run(place)
    found = json.loads((place.folder / "evaluation.json").read_text())
    assert found["records"] == 30
    assert found["how"] == "held-out records, paid with epsilon 1000"
    right = []
    for name in NAMES:
        table = read_table(place.data[name], built.column_names)
        kept = np.arange(1, RECORDS + 1) % 4 == 0
        score = np.full(RECORDS, shown["intercept"])
        for column, weight in shown["weights"].items():
            score += weight * np.clip(table.columns[column], 0, 120)
        ill = table.columns["diagnosis"] == "malignant"
        right.append(((score > 0) == ill)[kept])
    assert found["value"] == pytest.approx(np.mean(right), abs=0.01)
    assert found["low"] < found["value"] <= found["high"]
    assert (place.folder / "evaluation-certificate.json").exists()
    assert [purpose for purpose in charges(place) if "evaluation" in purpose]
    budget = json.loads((place.folder / "budgets.json").read_text())[0]["viewers"]["server"]
    assert 1000 < budget["spent"] <= budget["budget"]


def test_a_test_that_was_paid_for_and_lost_is_left_out(made, kill):
    place, words = made(PRIVATE), []
    kill(ROUNDS)
    with pytest.raises(Killed):
        run(place)
    shown = run(place, lambda progress: words.append(progress.words))
    assert shown["rounds_opened"] == ROUNDS
    assert any("the test was paid for and lost" in line for line in words)
    assert not (place.folder / "evaluation.json").exists()
    assert len(charges(place)) == ROUNDS + 1


def test_public_records_cost_nothing(made, tmp_path):
    write_records(tmp_path / "test.csv", 9, records=60)
    place = made('\n[evaluation]\nfile = "test.csv"\n', epsilon=50.0)
    run(place)
    found = json.loads((place.folder / "evaluation.json").read_text())
    truth = list(read_table(tmp_path / "test.csv").columns["diagnosis"])
    assert found["records"] == 60
    assert found["baseline"] == max(truth.count(w) for w in set(truth)) / 60
    assert found["low"] <= found["value"] <= found["high"]
    lines = (place.folder / "timeline.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["score"] == found["value"]
    assert len(charges(place)) == ROUNDS
    missing = replace(place, folder=tmp_path / "other", test=tmp_path / "nothing.csv")
    with pytest.raises(InvalidInput, match=r"nothing.csv: no such file"):
        prepare(missing)
