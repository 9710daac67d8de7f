"""Studies on a real SuperLink with TLS and node keys, with resident parties and real entropy.

One SuperLink serves all tests. Parties are threads that run what `unisono join` runs, or, where
one is killed, processes. Times depend on the machine: deadlines are generous and never the point.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pytest
from typer.testing import CliRunner

from unisono.accounting.accountant import ACCOUNTANT
from unisono.cli import app
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.study import Party
from unisono.core.values import Private
from unisono.data import read_table
from unisono.deployment import party
from unisono.deployment.coordinate import ServerPlace, authority_of, run, serving
from unisono.deployment.job import Job
from unisono.engines import in_process
from unisono.engines.distributed.server import Conditions
from unisono.engines.flower.certificates import issue
from unisono.engines.flower.processes import free_port, script
from unisono.errors import InvalidInput
from unisono.studies.build import build
from unisono.studies.file import load_study
from unisono.studies.keys import keygen
from unisono.studies.roster import make_roster

from .trial import DESCENT, LINEAR, NAMES, POLICY, Trial, study_text, write_records

pytestmark = [pytest.mark.slow, pytest.mark.cluster]

HUGE = 1e4  # an epsilon at which noise is negligible
TOLERANCE = 0.03
DEADLINE, PATIENCE = 60.0, 60.0
DESCENT_3 = DESCENT.format(rounds=3)
QUESTIONS = """\
name = "statistics"
[[model.questions]]
ask = "mean"
column = "age"
[[model.questions]]
ask = "histogram"
column = "diagnosis"
"""
BAYESIAN = 'name = "bayesian-logistic-regression"\nprior_variance = 1.0'
UPDATES = 'name = "pvi-clipped-updates"\nrounds = 2'  # its parties remember something


class Shared:
    """A SuperLink that knows three parties, and one study after another on it."""

    def __init__(self, folder):
        self.folder, self.studies = folder, 0
        self.base = Trial(folder / "base", study_text())
        self.job = Job.begin(self.base.job, self.base.study, self.base.roster, Conditions())

    def study(self, text, epsilon=10.0, unit="record", relation="replace-one"):
        """Another study of the same parties, each with a copy of its records and a new ledger."""
        self.studies += 1
        trial = Trial.__new__(Trial)
        trial.folder, trial.roster = self.folder / f"study-{self.studies}", self.base.roster
        trial.study = trial.folder / "study.toml"
        trial.folder.mkdir()
        trial.study.write_text(text)
        counted = f'delta = 1e-5\nunit = "{unit}"\nrelation = "{relation}"\n\n[allow]'
        for name in NAMES:
            (trial.folder / name).mkdir()
            home, base = trial.folder / name, self.base.folder / name
            shutil.copyfile(base / "records.csv", home / "records.csv")
            (home / "keys").symlink_to(base / "keys")
            policy = POLICY.format(name=name, epsilon=epsilon)
            trial.policy(name).write_text(policy.replace("delta = 1e-5\n\n[allow]", counted))
        return trial

    def seat(self, trial, name):
        home = trial.folder / name
        return party.PartyConfig(
            name,
            trial.study,
            trial.roster,
            home / "records.csv",
            trial.policy(name),
            home / "keys",
            trial.output(name),
        )

    def member(self, trial, name, turn=lambda number: None):
        """A party, and how many messages it has answered."""
        member = party.Member(self.seat(trial, name), self.link.address, turn=turn)
        member.answered, answer = [0], member.answer

        def counted(data):
            member.answered[0] += 1
            return answer(data)

        member.answer = counted
        return member

    def command(self, trial, name, *more):
        """The command with which this party joins."""
        arguments = trial.join(
            name,
            "--roster",
            trial.roster,
            "--ca-cert",
            authority_of(self.job),
            *more,
            server=self.link.address,
        )
        return [str(part) for part in arguments]

    @contextmanager
    def joined(self, *members):
        """Parties that are connected; in the end all of them have got what there is to get."""
        server = party.connection(self.link.address, authority_of(self.job), insecure=False)
        ready = threading.Barrier(len(members) + 1)

        def serve(member):
            first = threading.Event()

            def connected(node):
                if not first.is_set():
                    first.set()
                    ready.wait(PATIENCE)

            party.serve(member, server, connect_timeout=PATIENCE, connected=connected)
            return member.finish()

        with ThreadPoolExecutor() as pool:
            futures = [pool.submit(serve, member) for member in members]
            ready.wait(PATIENCE)
            yield futures
            for future in futures:
                future.result(PATIENCE)

    def run(self, trial, deadline=DEADLINE, connect_timeout=PATIENCE, **options):
        job = Job.begin(trial.job, trial.study, trial.roster, Conditions(deadline, connect_timeout))
        # One server for all studies of these tests: it signs their results with its own key.
        shutil.copytree(self.job.folder / "tls", job.folder / "tls", dirs_exist_ok=True)
        return run(job, self.link, lambda progress: None, **options)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    made = Shared(tmp_path_factory.mktemp("cluster"))
    with serving(made.job, ServerPlace("127.0.0.1", None, ("127.0.0.1",), stock=True)) as made.link:
        yield made


def in_one_process(trial, built):
    """The same study in this process, each party with a ledger of its own."""
    privacy, parties = built.file.privacy, []
    for name in NAMES:
        table = read_table(trial.folder / name / "records.csv", built.column_names)
        policy = Policy(name, Budget(4 * HUGE, 1e-5), (), privacy.relation, privacy.unit)
        ledger = Ledger.in_memory(policy, ACCOUNTANT)
        parties.append(Party(name, Private(built.columns(table, name), name), ledger))
    return built.present(in_process.run(built.study, parties))


def learnt(shown):
    """The numbers that a result is about: weights, the posterior's mean, or answers."""
    about = shown.get("weights") or shown.get("mean")
    if about is None:
        about = {str(i): answer for i, answer in enumerate(numbers(shown["answers"]))}
    return [*about.values(), shown.get("intercept", 0.0)]


def numbers(shown):
    """Every number in it, in order."""
    if isinstance(shown, dict):
        return [number for key in sorted(shown) for number in numbers(shown[key])]
    if isinstance(shown, list):
        return [number for one in shown for number in numbers(one)]
    return [shown] if isinstance(shown, float) else []


# ------------------------------------------------------------- conformance


@pytest.mark.parametrize(
    ("model", "algorithm", "trust", "messages"),
    [
        # A greeting, two exchanges to set up the first sum, three for each round, the result.
        (LINEAR, DESCENT_3, "secure-sum", 1 + 2 + 3 * 3 + 1),
        (LINEAR, DESCENT_3, "local", 1 + 3 + 1),
        (QUESTIONS, 'name = "statistics"', "secure-sum", 1 + 2 + 3 + 1),
        (BAYESIAN, UPDATES, "secure-sum", 1 + 2 + 3 * 2 + 1),
    ],
    ids=["descent", "descent-local", "statistics", "updates"],
)
def test_a_study_between_machines_is_the_study_in_one_process(
    shared, model, algorithm, trust, messages
):
    text, counted = study_text(algorithm, epsilon=HUGE, trust=trust, model=model), {}
    if model is QUESTIONS:
        text = text.replace('target = "diagnosis"\n', "")
    if algorithm is UPDATES:
        counted = {"unit": "party", "relation": "zero-out"}
        text = text.replace("delta = 1e-5", 'delta = 1e-5\nunit = "party"\nrelation = "zero-out"')
    trial = shared.study(text, epsilon=4 * HUGE, **counted)
    members = [shared.member(trial, name) for name in NAMES]
    with shared.joined(*members):
        shown = shared.run(trial)
    built = build(load_study(trial.study))
    rounds = built.study.algorithm.rounds
    assert shown["rounds_opened"] == rounds
    found = learnt(shown)
    expected = learnt(in_one_process(trial, built))
    assert len(found) > 2
    assert np.all(np.isfinite(found))
    np.testing.assert_allclose(found, expected, rtol=TOLERANCE, atol=TOLERANCE)
    server = json.loads((trial.job / "certificate.json").read_text())
    for index, (name, member) in enumerate(zip(NAMES, members, strict=True)):
        assert json.loads((trial.output(name) / "result.json").read_text()) == shown
        assert trial.turns(name) == list(range(rounds))
        ledger = Ledger.open(trial.ledger(name), ACCOUNTANT)
        for viewer, history in built.study.costs[index].items():
            assert ledger.history(viewer) == history
        assert not ledger.simulated
        ledger.close()
        own = json.loads((trial.output(name) / "certificate.json").read_text())
        assert own["guarantees"] == server["guarantees"]
        assert own["events"] == server["events"]
        assert own["transport"] == party.RESIDENT
        assert own["entropy"] == "os"
        assert member.answered[0] == messages
    trial.require_no_records(json.dumps(shown))


def test_a_model_is_judged_over_three_machines_by_local_cluster(tmp_path):
    """As a user would: learn, write the evaluation, run it by processes of their own; and the
    records are those that the model was learnt from, which all machines say."""
    study, data = tmp_path / "study.toml", tmp_path / "data"
    study.write_text(study_text(epsilon=HUGE))
    for number, name in enumerate(NAMES):
        (data / name).mkdir(parents=True)
        write_records(data / name / "records.csv", number)

    def cluster(path, folder):
        arguments = ["local-cluster", path, "--data", data, "--folder", folder]
        done = CliRunner().invoke(
            app, [*map(str, arguments), "--budget", f"{4 * HUGE}", "--connect-timeout", "60"]
        )
        assert done.exit_code == 0, done.output
        return done.output

    cluster(study, tmp_path / "learnt")
    judge = tmp_path / "judge.toml"
    run = ["evaluate", str(tmp_path / "learnt" / "server"), "--study", str(judge)]
    assert CliRunner().invoke(app, [*run, "--epsilon", "50"]).exit_code == 0
    said = cluster(judge, tmp_path / "judged")
    assert f"LEARNT FROM: the ledgers of {', '.join(NAMES)} have paid" in said
    shown = json.loads((tmp_path / "judged" / "server" / "result.json").read_text())
    assert shown["learnt_from"] == list(NAMES)
    assert {one["name"] for one in shown["evaluation"]["metrics"]} >= {"accuracy", "AUC"}
    for name in NAMES:
        own = tmp_path / "judged" / name / "output" / "result.json"
        assert json.loads(own.read_text()) == shown


# ------------------------------------------------------------- who does not belong


def test_a_party_with_another_study_is_told_and_the_others_go_on(shared):
    trial = shared.study(study_text(trust="local"))
    other = shared.study(study_text(trust="local", epsilon=1.5))
    stranger = shared.member(other, "west")
    others = [shared.member(trial, name) for name in ("north", "south")]
    told = pytest.raises(InvalidInput, match=r"(?s)runs another study than .*Compare both files")
    with told, shared.joined(*others, stranger):
        shown = shared.run(trial, connect_timeout=3.0)
    assert shown["rounds_opened"] == 3
    assert trial.turns("north") == trial.turns("south") == [0, 1, 2]
    assert other.charges("west") == []


def refused(*arguments):
    result = CliRunner().invoke(app, [str(part) for part in arguments])
    assert result.exit_code == 2, result.output
    assert "Traceback" not in result.output
    return " ".join(result.stderr.split())


def test_a_wrong_authority_is_refused_at_once(shared, tmp_path):
    trial = shared.study(study_text())
    wrong = issue(tmp_path / "tls", ["127.0.0.1"]).authority
    text = refused(*shared.command(trial, "north", "--ca-cert", wrong, "--connect-timeout", 30))
    assert "is not accepted" in text
    assert trial.charges("north") == []


def test_a_party_that_is_not_in_the_roster_is_not_admitted(shared, tmp_path):
    """It has made a roster in which it stands; the server knows another one."""
    trial = shared.study(study_text())
    keys = {name: keygen(tmp_path / "keys", name) for name in NAMES}
    make_roster(list(keys.values()), tmp_path / "roster.toml")
    more = [
        "--roster",
        tmp_path / "roster.toml",
        "--keys",
        tmp_path / "keys",
        "--connect-timeout",
        1,
    ]
    text = refused(*shared.command(trial, "west", *more))
    assert "does not admit this party's transport key" in text
    assert trial.charges("west") == []


# ------------------------------------------------------------- a party is killed


def until(condition, what, seconds=90.0):
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, f"{what} took longer than {seconds} s"
        time.sleep(0.05)


def test_a_killed_party_joins_again_and_pays_every_turn_once(shared):
    """West dies in round 2; in round 3 the others wait until it is back.

    Round 4 may have been set up without it: it takes part from round 5 on, or earlier.
    """
    trial = shared.study(study_text(DESCENT.format(rounds=6)))
    log = trial.folder / "west.log"
    west = []

    def start():
        command = [sys.executable, "-m", "unisono", *shared.command(trial, "west")]
        with log.open("ab") as output:
            west.append(subprocess.Popen(command, stdout=output, stderr=output))

    def said(words):
        return log.read_text().count(words)

    def turn(number):
        if number == 1:
            until(lambda: said("round 1 of 6"), "west's first turn")
            west[0].send_signal(signal.SIGKILL)
            west[0].wait()
        if number == 2 and len(west) == 1:
            start()
            until(lambda: said("connected to") == 2, "joining again")

    start()
    try:
        until(lambda: said("connected to"), "joining")
        with shared.joined(shared.member(trial, "north", turn), shared.member(trial, "south")):
            shown = shared.run(trial, deadline=45.0)
        assert shown["rounds_opened"] == 6
        assert west[1].wait(60) == 0
    finally:
        for process in west:
            process.kill()
            process.wait()
    turns = trial.turns("west")
    assert turns == sorted(set(turns))
    assert turns[0] == 0
    assert turns[-1] == 5  # it took part again
    assert trial.turns("north") == list(range(6))
    assert json.loads((trial.output("west") / "result.json").read_text()) == shown
    trial.require_no_records(log.read_text())
    assert "Traceback" not in log.read_text()


# ------------------------------------------------------------- a stock SuperNode


def test_a_stock_supernode_takes_part_under_local_trust_and_its_certificate_says_so(shared):
    trial = shared.study(study_text(DESCENT.format(rounds=1), trust="local", survivors=3))
    seat = shared.seat(trial, "west")
    places = {
        **{key: str(value) for key, value in vars(seat).items()},
        "server": shared.link.address,
    }
    port = free_port("127.0.0.1")
    command = [
        script("flower-supernode"),
        "--superlink",
        shared.link.address,
        "--root-certificates",
        authority_of(shared.job),
        "--auth-supernode-private-key",
        seat.keys / "west.node",
        "--host",
        "127.0.0.1",
        "--port",
        port,
        "--node-config",
        " ".join(f'{key}="{value}"' for key, value in places.items()),
    ]
    log = trial.folder / "supernode.log"
    quiet = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_HOME": str(trial.folder / "flwr")}
    path = f"{os.path.dirname(command[0])}{os.pathsep}{os.environ['PATH']}"
    with log.open("wb") as output:
        node = subprocess.Popen(
            [str(part) for part in command],
            stdout=output,
            stderr=output,
            env={**os.environ, **quiet, "PATH": path},
            start_new_session=True,
        )
    try:
        with shared.joined(shared.member(trial, "north"), shared.member(trial, "south")):
            shown = shared.run(trial, stock=True)
        assert shown["rounds_opened"] == 1, log.read_text()
        until((trial.output("west") / "result.json").exists, "the node's result")
    finally:
        os.killpg(node.pid, signal.SIGTERM)
        node.wait(30)
    certificate = (trial.output("west") / "certificate.txt").read_text()
    assert "runs whatever code the server ships" in certificate
    assert "runs whatever code" not in (trial.output("north") / "certificate.txt").read_text()
    assert trial.turns("west") == [0]
    trial.require_no_records(log.read_text())
