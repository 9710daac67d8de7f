"""A study in one process on files: what it writes, that it runs once, and that it can be killed."""

import json
import os
import re
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
from unisono.core.policy import Budget
from unisono.core.trust import Viewer
from unisono.data import UnreadValues, read_table
from unisono.deployment import local_run
from unisono.deployment.local_run import LocalRun, RunPlace
from unisono.deployment.parties_here import find_data
from unisono.deployment.run_folder import claimed
from unisono.engines import driver
from unisono.errors import (
    BudgetExceeded,
    GrantMisused,
    InvalidInput,
    LedgerCorrupted,
    PrivacyViolation,
)
from unisono.runs.folder import BUDGETS, read_run
from unisono.studies import build as building
from unisono.studies.build import Built, build
from unisono.studies.data_set import ledger_for
from unisono.studies.file import load_study
from unisono.studies.policy_file import load_policy

from .trial import DESCENT, MARKER, NAMES, POLICY, RECORDS, study_text, write_records

ROUNDS = 4
DESCENDING = DESCENT.format(rounds=ROUNDS)
BAYESIAN = 'name = "bayesian-logistic-regression"'
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
        return RunPlace(study, data, tmp_path / "run", seed=seed)

    return place


def once(found):
    """A budget that pays for this study and no second one."""
    return Budget(found.epsilon * (1 + 1e-6), found.delta)


def prepare(place):
    return local_run.prepare(place, once)


def run(place, follow=lambda progress: None):
    task = prepare(place)
    with task.opened() as books:
        return task.run(books, follow)


def book(place, name="north"):
    """Beside the party's records."""
    return place.data[name].with_name(f"{name}.ledger")


def charges(place, name="north"):
    lines, _ = journal.read(book(place, name))
    return [line["purpose"] for line in lines if line["kind"] == "grant"]


def spent(place, name="north"):
    ledger = Ledger.open(book(place, name), ACCOUNTANT)
    found = {str(viewer): ledger.spent(viewer) for viewer in ledger.viewers}
    ledger.close()
    return found


class Killed(BaseException):
    """In place of a signal: nothing in the package catches it."""


@pytest.fixture
def kill(monkeypatch):
    """Die in the n-th piece from now, when it is paid for and nothing has come of it yet."""
    whole = driver._Work.piece

    def at(number: int) -> None:
        left = [number]

        def piece(self, *arguments):
            left[0] -= 1
            if left[0] < 0:
                monkeypatch.setattr(driver._Work, "piece", whole)
                raise Killed
            return whole(self, *arguments)

        monkeypatch.setattr(driver._Work, "piece", piece)

    return at


# ------------------------------------------------------------- documents


def test_a_run_writes_what_whoever_looks_on_may_read(made):
    place = made()
    seen = []
    shown = run(place, seen.append)
    (place.folder / "run.json").write_text(
        json.dumps(
            {
                "format": "unisono-run-1",
                "title": "",
                "engine": "in process",
                "state": "finished",
                "started": "",
            }
        )
    )
    found = read_run(place.folder)
    assert not found.damaged
    assert found.result == shown
    assert shown["rounds_opened"] == ROUNDS
    assert found.progress == {
        "format": "unisono-progress-1",
        "rounds": ROUNDS,
        "of": ROUNDS,
        "words": "",
        "answered": list(NAMES),
    }
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
    books = [path for name in NAMES for path in place.study.parent.glob(f"{name}.[lp]*")]
    assert len(books) == 2 * len(NAMES)
    for path in [*place.folder.iterdir(), *books]:
        assert path.is_dir() or MARKER.encode() not in path.read_bytes()


def test_budgets_drain_while_it_runs(made):
    place, left = made(), []

    def follow(progress):
        if progress.rounds:
            budgets = json.loads((place.folder / "budgets.json").read_text())["parties"]
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
    with pytest.raises(PrivacyViolation, match=r"(?s)it costs.*was given \(--budget\)"):
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
    assert not list(tmp_path.glob("*.ledger"))
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
    with pytest.raises(BudgetExceeded, match=r"(?s)was given \(--budget\).*ledger raise.* --seed"):
        run(replace(place, folder=tmp_path / "second"))


def test_a_budget_is_never_chosen_for_those_who_have_none(made, tmp_path):
    """Nothing is begun, and whoever runs the study learns what it takes, and how to go on."""
    place = made()
    with pytest.raises(
        InvalidInput, match=r"north, south, west have no budget.*--budget 6"
    ) as told:
        local_run.prepare(place)
    assert re.search(r"takes epsilon [0-9.]+ at delta 1e-05", str(told.value))
    asked = []

    def ask(found):
        asked.append(found)
        return Budget(9.0, 1e-6)

    task = local_run.prepare(place, ask)
    assert [one.names for one in asked] == [NAMES]
    assert not list(tmp_path.glob("*.ledger"))
    with task.opened() as books:
        for name, found in task.outlooks(books).items():
            assert books[name].policy.budget == Budget(9.0, 1e-6)
            assert 0 < found.alone < found.left.epsilon < 9.0
        words = found.words()
        task.run(books, lambda progress: None)
        assert books["west"].left(found.viewer) == found.left
    assert re.match(r"this study takes epsilon (.*) of 9; left: epsilon (.*) at delta 1e-06", words)
    local_run.prepare(another(place, tmp_path), ask)  # the ledgers that are there have budgets
    assert len(asked) == 1


def test_a_study_may_not_take_more_than_the_budget_that_is_given(made, tmp_path):
    place = replace(made(), budget=Budget(0.5, 1e-5))
    with pytest.raises(PrivacyViolation, match=r"at most epsilon 0\.5"):
        local_run.prepare(place)
    assert not list(tmp_path.glob("*.ledger"))


def test_a_folder_serves_one_process_at_a_time(made):
    task = prepare(made())
    with task.opened(), pytest.raises(InvalidInput, match="another process runs"), task.opened():
        pass


def test_who_is_refused_leaves_the_folder_of_the_other_alone(tmp_path):
    """Also while the first has written nothing but its lock."""
    with claimed(tmp_path / "run"):
        for _ in range(2):
            with pytest.raises(InvalidInput, match="another process"), claimed(tmp_path / "run"):
                pass
        assert (tmp_path / "run" / "lock").exists()
    assert not (tmp_path / "run").exists()


# ------------------------------------------------------------- one book for the same records


def another(place, tmp_path, title="Three clinics"):
    """The same records in another study, under another name and in another folder."""
    study = tmp_path / "elsewhere" / "copy.toml"
    study.parent.mkdir(parents=True)
    study.write_text(place.study.read_text().replace("Three hospitals", title))
    return replace(place, study=study, folder=study.parent / "x.run")


@pytest.mark.parametrize("links", ["none", "first", "second"])
def test_the_same_records_are_paid_for_from_one_book(made, tmp_path, links):
    place = made()
    other = another(place, tmp_path)
    through = other.study.parent
    for name in NAMES:
        (through / f"{name}.csv").symlink_to(tmp_path / f"{name}.csv")
    first, second = (
        replace(one, data=find_data(NAMES, through if links == which else tmp_path))
        for one, which in ((place, "first"), (other, "second"))
    )
    run(first)
    before = charges(place)
    with pytest.raises(BudgetExceeded, match=r"(?s)is left.*was given \(--budget\)") as error:
        run(second)
    assert "own folder" not in str(error.value)
    assert charges(place) == before
    assert not second.folder.exists()
    assert not list(through.glob("*.ledger"))


def test_records_in_a_folder_of_their_own_have_their_book_there(made, tmp_path):
    place = made()
    for name in NAMES:
        (tmp_path / name).mkdir()
        (tmp_path / f"{name}.csv").rename(tmp_path / name / "records.csv")
    place = replace(place, data=find_data(NAMES, tmp_path))
    run(place)
    for name in NAMES:
        found = {path.name for path in (tmp_path / name).iterdir()}
        assert found == {"records.csv", f"{name}.ledger", f"{name}.ledger.source"}


def test_without_its_policy_a_book_is_still_that_of_the_records(made, tmp_path):
    place = made()
    for name in NAMES:
        policy = tmp_path / f"{name}.policy.toml"
        policy.write_text(POLICY.format(name=name, epsilon=3.0).replace("records.l", f"{name}.l"))
    run(place)
    for name in NAMES:
        (tmp_path / f"{name}.policy.toml").unlink()
    other = another(place, tmp_path)
    with pytest.raises(BudgetExceeded, match=r"Of epsilon 3, .* is left"):
        run(other)
    assert len(charges(place)) == ROUNDS
    other.study.write_text(other.study.read_text().replace("epsilon = 2.0", "epsilon = 0.2"))
    run(other)
    assert len(charges(place)) == 2 * ROUNDS


def test_a_ledger_that_somebody_else_began_pays_within_its_budget(made, tmp_path):
    """By a query or in Python; whoever comes first fixes the budget."""
    place = made()
    for name in NAMES:
        ledger_for(place.data[name], epsilon=5.0, delta=1e-5).close()
    run(place)
    assert len(charges(place)) == ROUNDS
    assert 2 < max(spent(place).values()) < 5
    run(another(place, tmp_path))
    assert len(charges(place)) == 2 * ROUNDS
    with pytest.raises(BudgetExceeded, match=r"Of epsilon 5, .* is left"):
        run(replace(another(place, tmp_path / "data", "Four clinics"), folder=tmp_path / "third"))


@pytest.mark.parametrize("seed", [None, 3])
def test_the_same_records_for_two_parties_are_refused(made, seed):
    place = made(seed=seed)
    place.data["south"].write_bytes(place.data["north"].read_bytes())
    with pytest.raises(PrivacyViolation, match="hold the same records"):
        prepare(place)


def test_renamed_records_are_refused(made, tmp_path):
    place = made()
    run(place)
    west = place.data["west"]
    west.rename(tmp_path / "data.csv")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "west.csv").symlink_to(tmp_path / "data.csv")
    moved = {**place.data, "west": tmp_path / "elsewhere" / "west.csv"}
    with pytest.raises(PrivacyViolation, match=r"data.csv holds the records of .*west.ledger"):
        prepare(replace(place, data=moved, folder=tmp_path / "again"))


def test_a_party_is_hidden_from_the_ledger_of_its_records(made, tmp_path):
    """One ledger for both units: what hides a party costs its records what replacing it costs."""
    text = 'name = "pvi-clipped-updates"\nrounds = 1'
    place = made(model=BAYESIAN, algorithm=text, survivors=3)
    hidden = 'delta = 1e-5\nunit = "party"\nrelation = "zero-out"\n'
    place.study.write_text(place.study.read_text().replace("delta = 1e-5\n", hidden))
    for name in NAMES:
        ledger_for(place.data[name], epsilon=9.0, delta=1e-5).close()
    run(place)
    certificate = json.loads((place.folder / "certificate.json").read_text())
    assert certificate["unit"] == "party"
    assert {one["unit"] for one in certificate["spending"]} == {"record"}
    assert 2 < spent(place)["server"] < 9


def test_a_refusal_begins_no_book_for_the_others(made, tmp_path):
    place = made()
    poor = POLICY.format(name="south", epsilon=4.0)
    (tmp_path / "south.policy.toml").write_text(poor)
    ledger = load_policy(tmp_path / "south.policy.toml").open_ledger()
    ledger.authorize(build(load_study(place.study)).study.costs[1], 4, "an earlier study")
    ledger.close()
    with pytest.raises(BudgetExceeded):
        run(place)
    assert not (tmp_path / "north.ledger").exists()


def test_two_files_for_one_party_are_refused(made, tmp_path):
    made()
    (tmp_path / "west").mkdir()
    write_records(tmp_path / "west" / "records.csv", 5)
    with pytest.raises(InvalidInput, match=r"several files for 'west'.*west/records.csv"):
        find_data(NAMES, tmp_path)


@pytest.mark.parametrize(("own", "study"), [(0, 1), (1, 2), (2, 2)])
def test_a_policy_may_count_fewer_colluders_than_the_study(made, tmp_path, own, study):
    """The ledger counts the coalition that its policy names; a study may tolerate a larger one."""
    place = made(survivors=3)
    text = place.study.read_text()
    place.study.write_text(text.replace("colluders = 0", f"colluders = {study}"))
    for name in NAMES:
        policy = POLICY.format(name=name, epsilon=50.0)
        policy = policy.replace("\n\n[allow]", f"\ncolluders = {own}\n\n[allow]")
        policy = policy.replace("records.ledger", f"{name}.ledger")
        (tmp_path / f"{name}.policy.toml").write_text(policy)
    assert run(place)["rounds_opened"] == ROUNDS
    budgets = json.loads((place.folder / "budgets.json").read_text())["parties"]
    coalitions = [v for v in budgets[0]["viewers"] if v.startswith("colluders")]
    assert coalitions == ([f"colluders:{own}"] if own else [])


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
    budgets = json.loads((place.folder / "budgets.json").read_text())["parties"]
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
    questions = '[[model.questions]]\nask = "mean"\ncolumn = "age"\n'
    place = made(model=f'name = "statistics"\n{questions}', algorithm='name = "auto"')
    text = place.study.read_text().replace('target = "diagnosis"\n', "")
    place.study.write_text(text)
    kill(0)
    with pytest.raises(Killed):
        run(place)
    shown = run(place)
    assert "paid for and lost" in shown["failed"]
    assert len(charges(place)) == 1


def test_a_run_that_is_paid_for_at_once_ends_with_its_process(made, kill, monkeypatch):
    monkeypatch.setattr(driver, "in_pieces", lambda study, state: False)
    place = made()
    kill(1)
    with pytest.raises(Killed):
        run(place)
    with pytest.raises(GrantMisused, match="agree on the next edition"):
        run(place)
    assert len(charges(place)) == 1


@pytest.mark.parametrize("how", ["all gone", "one gone", "one older"])
def test_a_run_goes_on_only_with_the_books_that_paid_for_it(made, kill, how):
    place = made()
    copies = {}

    def follow(progress):
        if progress.rounds == 1:
            copies["north"] = book(place).read_bytes()

    kill(2)
    with pytest.raises(Killed):
        run(place, follow)
    for name in NAMES if how == "all gone" else NAMES[:1]:
        book(place, name).unlink()
    if how == "one older":
        book(place).write_bytes(copies["north"])
    if how == "one older":
        with pytest.raises(LedgerCorrupted, match="ledger of 'north' lacks the payment of"):
            run(place)
        assert len(charges(place)) == 1
    else:
        with pytest.raises(PrivacyViolation, match="has paid for these records, and it is gone"):
            run(place)
        assert not book(place).exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["pvi-clipped-updates", "dp-ftrl", "local-dp-sgd", "k-means", "sgd-sequential"]
)
def test_every_kind_of_payment_runs(made, name):
    """Parties that remember, correlated noise, noisy steps at home, clusters, named records."""
    small = 'name = "network"\nhidden = [3]'
    model = {
        "dp-ftrl": small,
        "local-dp-sgd": small,
        "k-means": 'name = "k-means"\nclusters = 2',
        "pvi-clipped-updates": BAYESIAN,
        "sgd-sequential": 'name = "linear-svm"',
    }[name]
    trust, more = ("local", "steps = 2") if name == "local-dp-sgd" else ("secure-sum", "")
    algorithm = f'name = "{name}"\nrounds = 2\n{more}'
    if name == "sgd-sequential":
        trust, algorithm = "local", f'name = "{name}"\nsteps = 2\nuses = 2'
    place = made(model=model, algorithm=algorithm, survivors=3, trust=trust)
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
    whole = name in ("pvi-clipped-updates", "dp-ftrl", "sgd-sequential")
    assert len(charges(place)) == (1 if whole else 2)


def test_a_process_that_is_killed_by_signal_leaves_a_folder_that_goes_on(made):
    """SIGKILL between payment and computation: no handler runs, the lock is free, it goes on."""
    place = made()
    code = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from unisono.engines import driver\n"
        "from unisono.core.policy import Budget\n"
        "from unisono.deployment.local_run import RunPlace, prepare\n"
        "whole, done = driver._Work.piece, []\n"
        "def piece(self, *arguments):\n"
        "    done.append(1)\n"
        "    if len(done) == 3: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    return whole(self, *arguments)\n"
        "driver._Work.piece = piece\n"
        "study, folder, *data = map(Path, sys.argv[1:])\n"
        "data, budget = {p.stem: p for p in data}, Budget(20.0, 1e-5)\n"
        "task = prepare(RunPlace(study, data, folder, budget=budget))\n"
        "with task.opened() as books: task.run(books, lambda progress: None)\n"
    )
    arguments = [place.study, place.folder, *place.data.values()]
    ended = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        capture_output=True,
        timeout=120,
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert len(charges(place)) == 3
    shown = run(place)
    assert shown["rounds_opened"] == ROUNDS - 1
    assert len(charges(place)) == len(set(charges(place))) == ROUNDS


# ------------------------------------------------------------- simulations


def test_a_simulation_spends_nothing_and_can_be_repeated(made, set_ahead):
    place = made(seed=7)
    first = run(place)
    files = {path.name: path.read_bytes() for path in place.folder.iterdir() if path.is_file()}
    set_ahead()
    assert run(place) == first
    assert {"result.json", "certificate.json", "certificate.txt", "timeline.jsonl"} <= set(files)
    assert {name: (place.folder / name).read_bytes() for name in files} == files
    assert not list(place.study.parent.glob("*.ledger"))
    assert not list(place.study.parent.glob("*.policy.toml"))
    certificate = json.loads((place.folder / "certificate.json").read_text())
    assert certificate["entropy"] == "simulation"
    with pytest.raises(InvalidInput, match="holds a simulation"):
        prepare(replace(place, seed=None))


def test_a_simulation_keeps_away_from_a_real_run(made):
    place = made()
    run(place)
    with pytest.raises(InvalidInput, match="holds a real run"):
        prepare(replace(place, seed=1))


@pytest.mark.parametrize("said", [True, False])
def test_a_simulation_that_stopped_does_not_become_a_real_run(made, kill, said):
    """Its heading says what it is; where there is none, nothing of it stays."""
    place = made(seed=7)
    kill(2)
    with pytest.raises(Killed):
        run(place)
    if said:
        (place.folder / "run.json").write_text('{"format": "unisono-run-1", "simulated": true}')
        with pytest.raises(InvalidInput, match="holds a simulation"):
            prepare(replace(place, seed=None))
        return
    run(replace(place, seed=None))
    lines = [json.loads(x) for x in (place.folder / "timeline.jsonl").read_text().splitlines()]
    assert [line["round"] for line in lines] == [1, 2, 3, 4]
    with pytest.raises(InvalidInput, match="holds a real run"):
        prepare(place)


def test_a_real_run_that_has_just_begun_is_no_place_for_a_simulation(made):
    place = made()
    place.folder.mkdir()
    (place.folder / "study.toml").write_text(place.study.read_text())
    (place.folder / "run.json").write_text('{"format": "unisono-run-1", "simulated": false}')
    with pytest.raises(InvalidInput, match="holds a real run"):
        prepare(replace(place, seed=1))


def test_a_run_that_begins_touches_no_file_of_others(made):
    place = made(seed=1)
    place.folder.mkdir()
    for name in ("notes.txt", "readme.md", "other.json"):
        (place.folder / name).write_text("mine")
    run(place)
    run(place)
    assert (place.folder / "notes.txt").read_text() == "mine"
    assert (place.folder / "other.json").exists()


# ------------------------------------------------------------- tests of the result


def test_a_certificate_covers_the_training_and_the_test(made):
    place = made(PRIVATE)
    run(place)
    built = build(load_study(place.study))
    found = json.loads((place.folder / "certificate.json").read_text())
    heads = {n: Ledger.open(book(place, n), ACCOUNTANT) for n in NAMES}
    assert found["ledger_heads"] == {name: ledger.head for name, ledger in heads.items()}
    [spending] = found["spending"]
    for line in found["guarantees"]:
        if line["relation"] != "replace-one":
            continue
        history = built.costs[0][Viewer(line["viewer"])]
        both = ACCOUNTANT.epsilon(history, load_study(place.study).privacy.relation, 1e-5)
        assert line["epsilon"] == pytest.approx(both)
        assert spending["epsilon"][line["viewer"]] == pytest.approx(both)
        assert heads["north"].spent(Viewer(line["viewer"])) == pytest.approx(both)
    for ledger in heads.values():
        ledger.close()
    seen = json.loads((place.folder / "transcript.json").read_text())["viewers"]
    assert all("test" in names for names in seen.values())
    assert not (place.folder / "evaluation.pending").exists()


def test_a_study_that_was_killed_when_it_was_charged_goes_on(made, monkeypatch):
    """Between charging for all of it and the first release: it is not charged for again."""
    place, whole = made(PRIVATE), LocalRun._run

    def killed(self, books, follow):
        raise KeyboardInterrupt

    monkeypatch.setattr(LocalRun, "_run", killed)
    with pytest.raises(KeyboardInterrupt):
        run(place)
    viewer = Viewer("server")
    with prepare(place).opened() as books:
        left = books["north"].left(viewer)
        while True:  # somebody else takes the rest
            try:
                books["north"].authorize(build(load_study(place.study)).costs[0], 99)
            except BudgetExceeded:
                break
    monkeypatch.setattr(LocalRun, "_run", whole)
    assert "failed" not in run(place)
    assert left.share < 1
    assert (place.folder / "evaluation.json").exists()


def test_what_others_spend_meanwhile_stops_no_study_that_has_begun(made, monkeypatch):
    """All stages are charged as one plan before the first, so that the test of the result is paid
    for when somebody else, with the same ledger open, spends all that is left."""
    place = made(PRIVATE)
    whole, refused = LocalRun._stage, []

    def spend(self, stage, books, found, *rest):
        if stage.name == "evaluation":
            other = Ledger.open(books["north"]._journal.path, ACCOUNTANT)
            while not refused:
                try:
                    other.authorize(stage.study.cost, 1, "another study, meanwhile")
                except BudgetExceeded as error:
                    refused.append(error)
            other.close()
        return whole(self, stage, books, found, *rest)

    monkeypatch.setattr(LocalRun, "_stage", spend)
    shown = run(place)
    assert refused
    assert "failed" not in shown
    assert (place.folder / "evaluation.json").exists()


def test_a_private_test_is_paid_for_in_addition(made, monkeypatch):
    """Noise of epsilon 1000 vanishes: the answer is that of the records that were kept out."""
    monkeypatch.setattr(building, "secret_order", lambda records, *_: np.arange(records))
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
        kept = np.arange(RECORDS) < 10
        score = np.full(RECORDS, shown["intercept"])
        for column, weight in shown["weights"].items():
            score += weight * np.clip(table.numbers(column), 0, 120)
        ill = table.codes("diagnosis", ("malignant",)) == 0
        right.append(((score > 0) == ill)[kept])
    assert found["value"] == pytest.approx(np.mean(right), abs=0.01)
    assert found["low"] < found["value"] <= found["high"]
    assert [purpose for purpose in charges(place) if "evaluation" in purpose]
    budget = BUDGETS.read(place.folder)["parties"][0]["viewers"]["server"]
    assert 1000 < budget["spent"] <= budget["budget"]


def test_a_test_that_was_paid_for_and_lost_is_left_out(made, kill):
    place, words = made(PRIVATE), []
    kill(ROUNDS)
    with pytest.raises(Killed):
        run(place)
    assert json.loads((place.folder / "result.json").read_text())["rounds_opened"] == ROUNDS
    shown = run(place, lambda progress: words.append(progress.words))
    assert shown["rounds_opened"] == ROUNDS
    assert any("the test was paid for and lost" in line for line in words)
    assert not (place.folder / "evaluation.json").exists()
    assert len(charges(place)) == ROUNDS + 1
    document = json.loads((place.folder / "certificate.json").read_text())
    spending = document["spending"][0]["epsilon"]["server"]  # what was lost was paid for
    [line] = [
        line
        for line in document["guarantees"]
        if (line["viewer"], line["relation"]) == ("server", "replace-one")
    ]
    assert line["epsilon"] == pytest.approx(spending)


@pytest.mark.parametrize("lost", [False, True])
def test_after_a_stop_the_same_records_are_kept_out(made, kill, monkeypatch, lost):
    """Their secret order lies beside the ledgers until the end; without it the test says so."""
    place, keys = made(PRIVATE), []
    records = Built.records

    def noted(self, table, party, key=None):
        keys.append(key)
        return records(self, table, party, key)

    monkeypatch.setattr(Built, "records", noted)
    kill(1)
    with pytest.raises(Killed):
        run(place)
    orders = sorted({p for name in NAMES for p in book(place, name).parent.glob("*.order")})
    assert len(orders) == len(NAMES)
    for path in orders:
        assert path.stat().st_mode & 0o077 == 0
        if lost:
            path.unlink()
    run(place)
    assert (keys[: len(NAMES)] == keys[len(NAMES) :]) is not lost
    said = json.loads((place.folder / "evaluation.json").read_text())["how"]
    assert ("learnt from before" in said) is lost
    assert not any(path.exists() for path in orders)


@pytest.mark.parametrize("how", ["same", "link", "copy"])
def test_a_partys_records_are_no_public_test(made, tmp_path, how):
    place = made('\n[evaluation]\nfile = "public.csv"\n')
    public, records = tmp_path / "public.csv", tmp_path / "south.csv"
    if how == "copy":
        public.write_bytes(records.read_bytes())
    else:
        public.symlink_to(records)
    if how == "same":
        place = replace(place, test=records)
    with pytest.raises(PrivacyViolation, match=r"holds the records of 'south'.*without noise"):
        prepare(place)


@pytest.mark.parametrize("line", ["", 'x,"', "x,x,x,x,x,x,x", "\x00"])
def test_a_record_that_cannot_be_read_stops_nothing_and_is_written_nowhere(made, tmp_path, line):
    """In training, in the private test and in the sizes: whoever holds it is told, and nobody."""
    place = made(PRIVATE, seed=1)
    records = tmp_path / "north.csv"
    lines = records.read_text().split("\n")
    lines[3] = line
    records.write_text("\n".join(lines))
    with pytest.warns(
        UnreadValues, match=r"north\.csv: empty cells among 40 records, the first in record 3"
    ):
        shown = run(place)
    assert all(np.isfinite(weight) for weight in shown["weights"].values())
    for path in place.folder.rglob("*"):
        if path.is_file():
            assert b"unread" not in path.read_bytes().lower()
            assert b"are not numbers" not in path.read_bytes()


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
