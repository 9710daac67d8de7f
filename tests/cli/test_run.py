"""`unisono run`: one command from files to a report, and one clear line for whatever is wrong."""

import json
import re
import shutil

import pytest
from typer.testing import CliRunner

from unisono.cli import app
from unisono.cli.deploy_text import bar_of_rounds
from unisono.cli.results import result_text
from unisono.deployment.job import Progress
from unisono.deployment.local_run import LocalRun
from unisono.engines import driver
from unisono.runs.folder import read_run

from ..deployment.trial import DESCENT, LINEAR, MARKER, NAMES, study_text, write_records
from .test_evaluate import TIMES, patients, write

RUNNER = CliRunner()


BUDGET = ("--budget", "3")  # for one of these studies, and not for two


def run(*arguments: object, code: int = 0) -> str:
    """What the command says; never a traceback, never a record."""
    result = RUNNER.invoke(app, ["run", *map(str, arguments), *BUDGET])
    assert result.exit_code == code, result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)
    assert "Traceback" not in result.output
    assert MARKER not in result.output
    return " ".join((result.stdout if code == 0 else result.stderr).split())


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "study.toml").write_text(study_text(DESCENT.format(rounds=2)))
    (tmp_path / "data").mkdir()
    for number, name in enumerate(NAMES):
        write_records(tmp_path / "data" / f"{name}.csv", number)
    return tmp_path


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """One run that several tests look at."""
    home = tmp_path_factory.mktemp("finished")
    (home / "study.toml").write_text(study_text(DESCENT.format(rounds=2)))
    for number, name in enumerate(NAMES):
        write_records(home / f"{name}.csv", number)
    write_records(home / "public.csv", 9)
    text = run(home / "study.toml", "--data", home, "--test", home / "public.csv")
    return home, text


def require_untouched(folder):
    assert sorted(path.name for path in folder.iterdir()) == ["data", "study.toml"]


def test_one_command_leaves_everything_in_a_folder(finished):
    home, text = finished
    assert "RESULT Three hospitals" in text
    assert "CERTIFICATE" in text
    assert "TEST share of right predictions" in text
    found = read_run(home / "study.run")
    assert (found.heading.state, found.heading.engine) == ("finished", "in process")
    assert found.heading.command.startswith("unisono")  # and what the process was given
    assert found.heading.started <= found.heading.ended
    assert not found.damaged
    for document in (
        "progress",
        "timeline",
        "budgets",
        "result",
        "certificate",
        "evaluation",
        "transcript",
        "study",
    ):
        assert getattr(found, document), document
    report = home / "study.run" / "report.html"
    assert report.read_text().startswith("<!doctype html>") or "<html" in report.read_text()
    assert str(report) in text
    assert not found.heading.simulated
    for name in NAMES:
        assert (home / f"{name}.ledger").exists()
    assert not list(home.glob("*.policy.toml"))


def test_the_same_edition_is_refused(finished, tmp_path):
    home, _ = finished
    study, data = home / "study.toml", home
    assert "it runs once" in run(study, "--data", data, code=2)
    elsewhere = tmp_path / "elsewhere"
    text = run(study, "--data", data, "--folder", elsewhere, code=4)
    assert "agree on the next edition" in text
    assert not elsewhere.exists()


def test_the_same_records_in_another_study_are_refused_by_their_budget(finished, tmp_path):
    home, _ = finished
    study = tmp_path / "copy.toml"
    study.write_text((home / "study.toml").read_text().replace("Three hospitals", "A copy"))
    text = run(study, "--data", home, code=3)
    assert "was given (--budget)" in text
    assert not (tmp_path / "copy.run").exists()


def test_a_budget_is_wanted_before_anything_is_spent(folder):
    """Nobody sits at a terminal here."""
    arguments = ["run", str(folder / "study.toml"), "--data", str(folder / "data")]
    result = RUNNER.invoke(app, arguments)
    assert result.exit_code == 2
    said = " ".join(result.stderr.split())
    assert re.search(r"This study takes epsilon 2\.9\d+ at delta 1e-05: say what all studies", said)
    assert "unisono policy init" in said
    require_untouched(folder)
    result = RUNNER.invoke(app, [*arguments, "--budget", "six"])
    assert (result.exit_code, "EPSILON:DELTA" in result.stderr) == (2, True)
    require_untouched(folder)


def test_on_a_terminal_the_budget_is_asked_for_and_what_is_taken_is_shown(folder, monkeypatch):
    from unisono.cli import budget

    monkeypatch.setattr(budget, "on_terminal", lambda: True)
    arguments = ["run", str(folder / "study.toml"), "--data", str(folder / "data")]
    result = RUNNER.invoke(app, arguments, input="much\n9:1e-6\n")
    assert result.exit_code == 0, result.output
    said = " ".join(result.stderr.split())
    for words in (
        "have no budget yet",
        "'much' is no budget",
        "What may all studies together ever take?",
        "of 9; left: epsilon",
    ):
        assert words in said
    assert said.index("left:") < said.index("round 1 of 2")
    assert 'budget":[9.0,1e-06]' in (folder / "data" / "north.ledger").read_text()


def test_second_ledgers_are_begun_on_purpose_and_say_what_they_forget(folder):
    data = folder / "data"
    arguments = ("run", folder / "study.toml", "--data", data, *BUDGET)
    second = ("--second-ledgers", folder / "books", "--folder", folder / "again")
    first = RUNNER.invoke(app, [*map(str, arguments), "--second-ledgers", str(folder / "none")])
    assert first.exit_code == 0, first.output
    assert "none is known so far" in " ".join(first.stderr.split())
    assert not list(data.glob("*.ledger"))
    edition = (
        (folder / "study.toml").read_text().replace("\n\n[data]", "\nedition = 2\n\n[data]", 1)
    )
    (folder / "study.toml").write_text(edition)
    own = RUNNER.invoke(app, [*map(str, arguments), "--folder", str(folder / "own")])
    assert own.exit_code == 0, own.output
    result = RUNNER.invoke(app, [*map(str, arguments), *map(str, second)])
    assert result.exit_code == 0, result.output
    said = " ".join(result.stderr.split())
    for name in NAMES:
        assert (folder / "books" / f"{name}.ledger").exists()
        spent = (
            rf"NOT counted are:.*{name}.ledger: [0-9]+ % of epsilon [0-9.]+ at delta .* is spent"
        )
        assert re.search(spent, said)


def test_json_has_everything(folder):
    arguments = (folder / "study.toml", "--data", folder / "data", "--seed", 3, "--json")
    document = json.loads(run(*arguments))
    assert set(document) == {"result", "folder", "evaluation", "report"}
    assert document["result"]["rounds_opened"] == 2
    assert document["folder"].endswith("study.simulation")
    again = json.loads(run(*arguments))["result"]
    for found in (again, document["result"]):
        found["fitted"].pop("certificate")  # whose ledgers hash the time of day
    assert again == document["result"]
    assert not list((folder / "data").glob("*.ledger"))


def test_a_simulation_says_so_from_its_beginning(folder, monkeypatch):
    def stop(self, books, follow):
        assert read_run(folder / "study.simulation").heading.simulated
        raise KeyboardInterrupt

    arguments = (folder / "study.toml", "--data", folder / "data")
    monkeypatch.setattr(LocalRun, "run", stop)
    run(*arguments, "--seed", 3, code=130)
    text = run(*arguments, "--folder", folder / "study.simulation", code=2)
    assert "holds a simulation" in text


def test_an_interrupted_run_says_so_and_goes_on(folder, monkeypatch):
    whole = driver._Work.piece
    calls = []

    def piece(self, *arguments):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return whole(self, *arguments)

    monkeypatch.setattr(driver._Work, "piece", piece)
    arguments = (folder / "study.toml", "--data", folder / "data")
    assert "interrupted" in run(*arguments, code=130)
    heading = read_run(folder / "study.run").heading
    assert heading.state == "failed"
    assert "the same command goes on" in heading.error
    run(*arguments)
    after = read_run(folder / "study.run").heading
    assert (after.state, after.error, after.started) == ("finished", None, heading.started)


def test_a_fault_of_ours_is_written_down_without_its_words(folder, monkeypatch):
    def broken(self, books, follow):
        raise RuntimeError(f"record {MARKER}")

    monkeypatch.setattr(LocalRun, "run", broken)
    arguments = ("run", folder / "study.toml", "--data", folder / "data", *BUDGET)
    result = RUNNER.invoke(app, list(map(str, arguments)))
    assert isinstance(result.exception, RuntimeError)
    heading = read_run(folder / "study.run").heading
    assert (heading.state, heading.error) == ("failed", "RuntimeError: see the terminal")


def test_mistakes_are_one_message_and_leave_nothing(folder):
    study, data = folder / "study.toml", folder / "data"
    good = study.read_text()
    assert "no file for 'north'" in run(study, "--data", folder / "nowhere", code=2)
    assert "cannot be read" in run(folder / "nothing.toml", "--data", data, code=2)
    assert "only .csv and .parquet" in run(study, "--data", data, "--test", data, code=2)
    aside = (data / "west.csv").rename(folder.parent / "west.csv")
    assert "no file for 'west'" in run(study, "--data", data, code=2)
    write_records(data / "west.csv", 0, records=12)
    assert "holds 12 records, and the study states 40" in run(study, "--data", data, code=2)
    shutil.move(aside, data / "west.csv")
    for old, new, words in (
        ("rounds = 2", "rounds = 0", "line 38"),
        ("epsilon = 2.0", "epsilon = ", "not TOML"),
        ("radius =", "diameter =", "has no column 'diameter'"),
        ('"secure-sum"', '"trusted"', "choose one of"),
        ("[algorithm]", "[evaluation]\nholdout = 0.2\n\n[algorithm]", "needs both"),
        ("[algorithm]", '[evaluation]\nfile = "no.csv"\n\n[algorithm]', "no.csv: no such file"),
    ):
        assert old in good
        study.write_text(good.replace(old, new))
        assert words in run(study, "--data", data, code=2)
        study.write_text(good)
    require_untouched(folder)
    (folder / "file").touch()
    assert "cannot be made into a folder" in run(
        study, "--data", data, "--folder", folder / "file", code=2
    )


def test_statistics_are_not_tested_on_records(folder):
    text = (folder / "study.toml").read_text().replace('target = "diagnosis"\n', "")
    questions = 'name = "statistics"\n[[model.questions]]\nask = "mean"\ncolumn = "age"\n'
    text = text.replace(LINEAR, questions).replace(DESCENT.format(rounds=2), 'name = "auto"')
    (folder / "study.toml").write_text(text)
    data = folder / "data"
    arguments = (folder / "study.toml", "--data", data, "--test", data / "north.csv")
    assert "predicts nothing that could be right or wrong" in run(*arguments, code=2)
    require_untouched(folder)


def test_help_shows_an_example():
    text = " ".join(RUNNER.invoke(app, ["run", "--help"]).stdout.split())
    assert "unisono run study.toml --data" in text


def test_coefficients_are_printed_as_a_table_that_fits():
    """A hundred columns hold it, however long names are; what drowned has words, no numbers."""
    known = {
        "determined": True,
        "estimate": -0.123456,
        "std_error": 0.0123456,
        "interval": [-0.147654, -0.099258],
        "z": -10.0,
        "p_value": 1e-9,
        "privacy_share": 0.333,
        "ratio": 0.883861,
        "ratio_interval": [0.862731, 0.905509],
    }
    long = "diagnosis=essential (primary) hypertension"
    shown = {
        "title": "odds",
        "family": "binomial",
        "link": "log-odds",
        "target": "flu",
        "negative": "no",
        "positive": "yes",
        "confidence": 0.95,
        "ratio": "odds ratio",
        "names": [long, "sex=male"],
        "covariance": [[1.0, 0.0], [0.0, 1.0]],
        "rounds": 3,
        "coefficients": {long: known, "sex=male": {"determined": False}},
        "features": {long: {}, "sex=male": {"reference": "sex=female"}},
        "note": "Noise drowned sex=male.",
    }
    printed = result_text(shown)
    table = printed.partition("compared with")[0]
    assert max(map(len, table.splitlines())) <= 100
    assert "0.884 (0.863 to 0.906)" in table
    assert re.search(r"sex=male +not determined: noise hides what data say", table)
    assert "compared with sex=female" in printed
    assert printed.endswith("Noise drowned sex=male.")
    for hidden in ("covariance", "features", "names", "std_error"):
        assert hidden not in printed


def test_a_posterior_is_printed_without_estimates_of_what_was_not_learnt():
    shown = {
        "title": "doses",
        "mean": {"age": 0.5, "dose": 0.1},
        "std": {"age": 0.1, "dose": 9.0},
        "learnt": {"age": True, "dose": False},
        "covariance": [[0.01, 0.0], [0.0, 81.0]],
        "names": ["age", "dose"],
        "converged": True,
        "note": "Nothing was learnt of dose.",
    }
    printed = result_text(shown)
    assert "age: 0.5, 95 % interval 0.304 to 0.696" in printed
    assert "dose: nothing was learnt (this is the prior)" in printed
    assert "covariance" not in printed
    blind = {"title": "doses", "mean": {"age": 0.5}, "note": "No intervals."}
    assert "interval " not in result_text(blind)


def test_a_log_has_a_line_for_every_tenth_of_many_rounds(capsys):
    for of, lines in ((100, 11), (6, 6)):
        with bar_of_rounds(quiet=False) as follow:
            for number in range(1, of + 1):
                follow(Progress(number, of))
        said = capsys.readouterr().err.splitlines()
        assert len(said) == lines
        assert said[-1] == f"round {of} of {of}"


@pytest.mark.parametrize(
    ("model", "title"),
    [
        ('name = "hazards"\nevent = "died"', "log-hazard of died = yes"),
        ('name = "glm"\nfamily = "gaussian"', "mean of months"),
    ],
)
def test_a_table_in_which_nothing_is_determined_is_shown(tmp_path, model, title):
    """After it was paid for, above all."""
    study = TIMES.partition("[model]")[0].replace("epsilon = 50.0", "epsilon = 0.05")
    (tmp_path / "study.toml").write_text(f"{study}[model]\n{model}\n")
    for number, name in enumerate(("north", "south")):
        write(tmp_path / f"{name}.csv", patients(number))
    text = run(tmp_path / "study.toml", "--data", tmp_path, "--seed", 1)
    assert f"regression: {title}" in text
    for name in ("age", "sex=m"):
        assert f"{name} not determined: noise hides what data say" in text
