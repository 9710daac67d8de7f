"""`unisono keygen`, `roster`, `coordinate`, `join`: what is refused before anything is spent.

No test here reaches a network; see tests/deployment for those that do.
"""

import fcntl
import json
import re
import shutil
import socket
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from unisono.accounting.accountant import ACCOUNTANT
from unisono.cli import app
from unisono.core.ledger import Ledger
from unisono.deployment.local import _require_enough
from unisono.engines.flower.certificates import issue
from unisono.errors import InvalidInput
from unisono.runs.folder import INFORMED
from unisono.studies.build import build
from unisono.studies.data_set import ledger_for
from unisono.studies.file import load_study
from unisono.studies.keys import keygen
from unisono.studies.policy_file import load_policy
from unisono.studies.roster import make_roster

from ..deployment.trial import DESCENT, MARKER, NAMES, Trial, study_text, write_records

RUNNER = CliRunner()


def run(*arguments: object, code: int = 0) -> str:
    """What the command says, on both streams; never a traceback, never a record."""
    result = RUNNER.invoke(app, [str(part) for part in arguments])
    assert result.exit_code == code, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert "Traceback" not in result.output
    assert MARKER not in result.output
    return " ".join((result.stdout if code == 0 else result.stderr).split())


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Keys, roster and records are made once."""
    trial = Trial(tmp_path_factory.mktemp("made"), study_text())
    issue(trial.authority.parent, ["127.0.0.1"])
    return trial


@pytest.fixture
def trial(made, tmp_path):
    copy = Trial.__new__(Trial)
    copy.folder = shutil.copytree(made.folder, tmp_path / "trial")
    copy.study, copy.roster = copy.folder / "study.toml", copy.folder / "roster.toml"
    return copy


def join(trial, *more, **options):
    """North joins; what is not refused as it should be ends soon."""
    return trial.join("north", "--connect-timeout", 0.1, *more, **options)


def coordinate(trial, *more, **options):
    return trial.coordinate("--connect-timeout", 0.1, *more, **options)


def change(path, *pairs):
    text = path.read_text()
    for old, new in pairs:
        assert old in text, old
        text = text.replace(old, new)
    path.write_text(text)


def require_untouched(trial, *outputs):
    """A party that was refused has spent nothing, made no ledger and said nothing of its data."""
    assert not list(trial.folder.rglob("*.ledger"))
    trial.require_no_records(*outputs)


# ----------------------------------------------------------------------- help


@pytest.mark.parametrize("command", ["keygen", "roster", "coordinate", "join", "local-cluster"])
def test_help_shows_an_example(command):
    text = run(command, "--help")
    assert f"unisono {command} " in text
    assert "Example" in text


# ------------------------------------------------------------- keys and roster


def test_keys_and_a_roster(tmp_path):
    cards = []
    for name in NAMES:
        text = run("keygen", name, "--folder", tmp_path / name)
        card = tmp_path / name / f"{name}.card"
        assert str(card) in text
        assert text.split("fingerprint: ")[1] in card.read_text()
        cards.append(card)
        for secret in ("signing", "node"):
            assert (tmp_path / name / f"{name}.{secret}").stat().st_mode & 0o077 == 0
    text = run("roster", *cards, "--output", tmp_path / "roster.toml")
    assert "north, south, west" in text
    assert text.rpartition(" ")[2] in (tmp_path / "roster.toml").read_text()


def test_keys_and_a_roster_as_json(tmp_path):
    made = [json.loads(run("keygen", n, "--folder", tmp_path, "--json")) for n in NAMES]
    assert [one["name"] for one in made] == list(NAMES)
    assert len({one["fingerprint"] for one in made}) == 3
    cards = [tmp_path / f"{name}.card" for name in NAMES]
    found = json.loads(run("roster", *cards, "--output", tmp_path / "r.toml", "--json"))
    assert found["fingerprint"] in (tmp_path / "r.toml").read_text()


def test_a_key_is_never_overwritten(tmp_path):
    run("keygen", "north", "--folder", tmp_path)
    before = (tmp_path / "north.signing").read_bytes()
    assert "never overwritten" in run("keygen", "north", "--folder", tmp_path, code=2)
    assert (tmp_path / "north.signing").read_bytes() == before


def test_keys_go_into_a_folder_that_can_be_made(tmp_path):
    (tmp_path / "file").touch()
    assert "file" in run("keygen", "north", "--folder", tmp_path / "file", code=2)
    assert "letters" in run("keygen", "../north", "--folder", tmp_path, code=2)


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda text: text.replace('name = "north"', 'name = "norm"'), "fingerprint"),
        (lambda text: text.replace("signing = ", "sign = "), "signing"),
        (lambda text: text[:40], "card"),
        (lambda text: "\x00", "card"),
    ],
)
def test_a_card_that_was_changed_is_refused(tmp_path, spoil, words):
    run("keygen", "north", "--folder", tmp_path)
    card = tmp_path / "north.card"
    card.write_text(spoil(card.read_text()))
    assert words in run("roster", card, "--output", tmp_path / "roster.toml", code=2)
    assert not (tmp_path / "roster.toml").exists()


def test_a_roster_with_a_party_twice_or_in_place_of_another_is_refused(made, tmp_path):
    card = made.folder / "north" / "keys" / "north.card"
    assert "twice" in run("roster", card, card, "--output", tmp_path / "roster.toml", code=2)
    assert "never overwritten" in run("roster", card, "--output", made.roster, code=2)
    assert "nobody.card" in run("roster", tmp_path / "nobody.card", code=2)


def test_the_folder_of_another_run_is_not_taken_over(trial, tmp_path):
    """Of a finished one, of another study's, or of a result that says not whose it is."""
    folder = tmp_path / "output"
    folder.mkdir()
    (folder / "result.json").write_text("{}")
    assert "holds a result already" in run(*join(trial, "--output", folder), code=2)
    shutil.copy(trial.study, folder)
    assert "it runs once" in run(*join(trial, "--output", folder), code=2)
    (folder / "result.json").unlink()
    change(folder / "study.toml", ("epsilon = 2.0", "epsilon = 1.5"))
    before = (folder / "study.toml").read_bytes()
    assert "belongs to another study" in run(*join(trial, "--output", folder), code=2)
    assert (folder / "study.toml").read_bytes() == before
    assert not trial.ledger("north").exists()


# ------------------------------------------------------------- the server


def test_a_coordinators_folder_belongs_to_one_study(trial):
    home = trial.folder / "home"
    home.mkdir()
    for name in ("study.toml", "roster.toml"):
        shutil.copy(trial.folder / name, home)
    change(trial.study, ("epsilon = 2.0", "epsilon = 1.5"))
    text = run(*coordinate(trial, "--folder", home), code=2)
    assert "belongs to another study or roster ('Three hospitals')" in text


def test_another_roster_is_another_session(trial):
    home = trial.folder / "home"
    home.mkdir()
    for name in ("study.toml", "roster.toml"):
        shutil.copy(trial.folder / name, home)
    trial.roster.unlink()
    make_roster([keygen(trial.folder / name / "new", name) for name in NAMES], trial.roster)
    assert "another study or roster" in run(*coordinate(trial, "--folder", home), code=2)


def test_a_study_runs_once(trial):
    shutil.copy(trial.study, trial.job)
    shutil.copy(trial.roster, trial.job)
    (trial.job / "result.json").write_text("{}")
    assert "it runs once" in run(*coordinate(trial), code=2)


def test_a_study_that_is_over_runs_on_for_who_lacks_the_result(trial):
    """And for nobody else."""
    for file in (trial.study, trial.roster):
        shutil.copy(file, trial.job)
    (trial.job / "result.json").write_text("{}")
    INFORMED.write(trial.job, {"parties": ["north"]})
    said = run(*coordinate(trial, address="192.0.2.1:9092"), code=2)
    assert "the study is over; south, west may fetch the result now" in said
    assert "no server can listen at 192.0.2.1:9092" in said
    INFORMED.write(trial.job, {"parties": list(NAMES)})
    assert "it runs once" in run(*coordinate(trial), code=2)


@pytest.mark.parametrize("address", ["nowhere", "host:", ":9092", "host:port"])
def test_an_address_is_a_host_and_a_port(trial, address):
    assert "HOST:PORT" in run(*coordinate(trial, address=address), code=2)


def test_a_server_needs_an_address(trial):
    assert "names no server" in run("coordinate", trial.study, code=2)


def test_no_server_without_tls_but_on_this_machine(trial):
    text = run(*coordinate(trial, "--insecure", address="10.1.2.3:9092"), code=2)
    assert "10.1.2.3 is refused" in text


def test_a_port_that_somebody_else_has(trial):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert f"no server can listen at {address}" in run(
            *coordinate(trial, address=address), code=2
        )
    assert "--listen" in run(*coordinate(trial, address="192.0.2.1:9092"), code=2)


def test_one_coordinator_at_a_time(trial):
    with (trial.job / "lock").open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert "another process coordinates" in run(*coordinate(trial), code=2)


def test_stock_nodes_take_no_part_in_a_secure_sum(trial):
    assert "secure sum" in run(*coordinate(trial, "--stock"), code=2)


def test_a_roster_of_other_parties_is_refused(trial):
    change(trial.study, ('name = "west"', 'name = "east"'))
    assert "the study north, south, east" in run(*coordinate(trial), code=2)


# ------------------------------------------------------------- a party's own terms


@pytest.mark.parametrize(
    ("pair", "words"),
    [
        (("minimum_parties = 2", "minimum_parties = 3"), "at least 3 parties must take part"),
        (("maximum_epsilon = 10.0", "maximum_epsilon = 1.0"), "at most epsilon 1"),
        (("[allow]", '[allow]\nalgorithms = ["k-means"]'), "only k-means may be used"),
        (("[allow]", '[allow]\ncolumns = ["radius", "diagnosis"]'), "columns age: only radius"),
        (("[allow]", '[allow]\nservers = ["10.0.0.5:1"]'), "only 10.0.0.5:1 may be used"),
        (('["secure-sum", "local"]', '["local"]'), "trust secure-sum"),
        (("delta = 1e-5\n\n[allow]", 'delta = 1e-5\nunit = "party"\n\n[allow]'), "unit"),
    ],
)
def test_a_policy_that_does_not_allow_the_study(trial, pair, words):
    change(trial.policy("north"), pair)
    text = run(*join(trial), code=4)
    assert words in text
    require_untouched(trial, text)


def test_a_party_whose_records_would_be_the_public_test_takes_no_part(trial):
    named = '\n[evaluation]\nfile = "north/records.csv"\n'
    trial.study.write_text(trial.study.read_text() + named)
    text = run(*join(trial), code=4)
    assert "holds the records of 'north'" in text
    require_untouched(trial, text)
    text = run("local-cluster", trial.study, "--data", trial.folder, code=4)
    assert "holds the records of 'north'" in text


def test_a_budget_that_is_gone(trial):
    """The ledger is another study's too; the party is refused before it connects."""
    built = build(load_study(trial.study))
    change(
        trial.policy("north"),
        ("epsilon = 10.0\ndelta", "epsilon = 3.0\ndelta"),
        ("maximum_epsilon = 10.0", "maximum_epsilon = 3.0"),
    )
    ledger = Ledger.create(
        trial.ledger("north"), load_policy(trial.policy("north")).core_policy(), ACCOUNTANT
    )
    rounds = built.study.algorithm.rounds
    ledger.authorize(built.study.costs[0], rounds, "an earlier study")
    ledger.close()
    text = run(*join(trial), code=3)
    assert "3" in text
    assert trial.charges("north") == ["an earlier study"]
    trial.require_no_records(text)


def test_a_ledger_of_another_policy(trial):
    ledger = Ledger.create(
        trial.ledger("north"), load_policy(trial.policy("north")).core_policy(), ACCOUNTANT
    )
    ledger.close()
    change(trial.policy("north"), ("epsilon = 10.0\ndelta", "epsilon = 11.0\ndelta"))
    text = run(*join(trial), code=2)
    assert "policy" in text
    assert trial.charges("north") == []


def test_a_policy_that_pays_from_another_ledger_than_everything_else(trial):
    own = trial.policy("north")
    other = trial.folder / "other.toml"
    other.write_text(own.read_text().replace("records.ledger", "other.ledger"))
    text = run(*join(trial), "--policy", other, code=4)
    assert "are paid for from" in text
    assert str(trial.ledger("north")) in text
    assert not (trial.folder / "other.ledger").exists()
    require_untouched(trial, text)


def test_records_that_another_ledger_knows(trial):
    """Renamed beside their ledger: the party would begin anew."""
    home = trial.folder / "north"
    ledger_for(home / "records.csv").close()
    (home / "records.csv").rename(home / "data.csv")
    (home / "data.policy.toml").write_text(
        trial.policy("north").read_text().replace("records.ledger", "data.ledger")
    )
    options = ("--data", home / "data.csv", "--policy", home / "data.policy.toml")
    text = run(*join(trial), *options, code=4)
    assert "holds the records of" in text
    assert not (home / "data.ledger").exists()


def test_a_broken_ledger(trial):
    trial.ledger("north").write_text("no book\n")
    assert "restore the file from a backup" in run(*join(trial), code=5)


# ------------------------------------------------------------- mistakes


def test_records_that_do_not_fit_the_study(trial):
    records = trial.folder / "north" / "records.csv"
    whole = records.read_text()
    faults = {
        "age": whole.replace("age", "years"),
        "holds 41 records, and the study states 40": whole + "12,30,benign,\n",
        "records.csv": "",
    }
    for words, content in faults.items():
        records.write_text(content)
        text = run(*join(trial), code=2)
        assert words in text
        require_untouched(trial, text)


@pytest.mark.filterwarnings("always::unisono.data.UnreadValues")
@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("malignant", r"values of 'diagnosis' in \S+ are not any of benign, malignant"),
        (MARKER, r"1 of 40 values of 'radius' in \S+ are not numbers, first in record 1"),
    ],
)
def test_records_that_cannot_be_read_are_told_to_the_party_and_stop_nothing(trial, cell, words):
    """It goes on to look for the server, which is not there."""
    records = trial.folder / "north" / "records.csv"
    whole = records.read_text()
    records.write_text(whole.replace(f"{cell},", f"about {MARKER},"))
    try:
        text = run(*join(trial), code=2)
    finally:
        records.write_text(whole)
    assert re.search(words, text)
    trial.require_no_records(text)


def test_files_that_are_missing_or_unreadable(trial, tmp_path):
    home = trial.folder / "north"
    for path in (
        trial.roster,
        home / "records.csv",
        home / "policy.toml",
        trial.study,
        home / "keys" / "north.signing",
        home / "keys" / "north.node",
        trial.authority,
    ):
        aside = path.rename(tmp_path / path.name)
        assert path.name in run(*join(trial), code=2)
        if path.suffix != ".csv":
            path.write_bytes(b"\xff\xfe no file of that kind")
            assert path.name in run(*join(trial), code=2)
        path.unlink(missing_ok=True)
        path.mkdir()
        assert path.name in run(*join(trial), code=2)
        path.rmdir()
        aside.rename(path)
    require_untouched(trial)


def test_a_key_that_others_can_read(trial):
    (trial.folder / "north" / "keys" / "north.signing").chmod(0o644)
    assert "chmod 600" in run(*join(trial), code=2)
    require_untouched(trial)


def test_a_key_that_is_not_in_the_roster(trial):
    shutil.rmtree(trial.folder / "north" / "keys")
    keygen(trial.folder / "north" / "keys", "north")
    assert "lists another key for 'north'" in run(*join(trial), code=2)
    require_untouched(trial)


def test_a_name_that_is_not_in_the_study(trial):
    text = run(*join(trial, "--name", "east"), code=2)
    assert "no party 'east'" in text
    require_untouched(trial, text)


def test_no_connection_without_tls_but_on_this_machine(trial):
    text = run(*join(trial, "--insecure", server="10.1.2.3:9092"), code=2)
    assert "an insecure connection to 10.1.2.3 is refused" in text
    require_untouched(trial, text)


def test_a_party_needs_an_address(trial):
    arguments = join(trial)
    place = arguments.index("--server")
    text = run(*arguments[:place], *arguments[place + 2 :], code=2)
    assert "names no server" in text
    require_untouched(trial, text)


def test_a_study_that_costs_everything_is_refused_by_the_default_policy(trial):
    """Under trusted-server noise the server sees everything; a policy must say so to allow it."""
    change(trial.study, ('mode = "secure-sum"', 'mode = "trusted-server"'))
    change(trial.policy("north"), ('["secure-sum", "local"]', '["trusted-server"]'))
    assert "everything (no noise)" in run(*join(trial), code=4)
    require_untouched(trial)


# ------------------------------------------------------------- all on one machine


def test_local_cluster_names_the_file_that_is_missing(trial):
    (trial.folder / "west" / "records.csv").unlink()
    text = run("local-cluster", trial.study, "--data", trial.folder, code=2)
    assert "no file for 'west'" in text


def test_local_cluster_wants_a_budget_where_no_policy_says_one(trial):
    for name in ("north", "south"):
        trial.policy(name).unlink()
    text = run("local-cluster", trial.study, "--data", trial.folder, code=2)
    assert re.search(r"north, south have no budget yet.* This study takes epsilon [0-9.]+", text)
    assert "--budget 6" in text
    text = run("local-cluster", trial.study, "--data", trial.folder, "--budget", "0.1", code=4)
    assert "at most epsilon 0.1" in text
    assert not list(trial.folder.rglob("*.ledger"))


def test_local_cluster_refuses_a_study_it_cannot_read(trial):
    change(trial.study, (DESCENT.format(rounds=3), DESCENT.format(rounds=0)))
    assert "rounds" in run("local-cluster", trial.study, "--data", trial.folder, code=2)


def test_local_cluster_says_what_is_wrong_with_a_partys_records(trial):
    """Before a server is started: the party's own process could only say it in a log."""
    write_records(trial.folder / "west" / "records.csv", 0, records=12)
    text = run("local-cluster", trial.study, "--data", trial.folder, code=2)
    assert "holds 12 records, and the study states 40 for west" in text


def test_local_cluster_reports_the_party_that_its_own_policy_keeps_away(trial):
    """The others would wait for it in vain; the words are the party's own."""
    processes = [subprocess.Popen([sys.executable, "-c", f"exit({code})"]) for code in (0, 4, 4)]
    for process in processes:
        process.wait()
    logs = [trial.folder / f"{name}.log" for name in NAMES]
    for log in logs:
        log.write_text("connecting\nunisono: the policy does not allow it\n")
    _require_enough(processes, logs, 1)
    with pytest.raises(InvalidInput, match=r"south.log: unisono: the policy does not allow it\n"):
        _require_enough(processes, logs, 2)
