"""The folder that is submitted, and what a run notes about itself."""

import tomllib
from types import SimpleNamespace

import pytest
from flwr.app import Context, Message, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from unisono.engines.flower.app import (
    client_app,
    outcome,
    residents_only,
    server_app,
    write_app,
)
from unisono.engines.flower.link import GridLink
from unisono.engines.flower.messages import MESSAGE_TYPE, unwrap, wrap
from unisono.errors import BudgetExceeded, InvalidInput


def test_the_folder_names_installed_code_and_the_job(tmp_path):
    job = tmp_path / 'a "quoted" jöb'
    folder = write_app(tmp_path / "app", "some.module:server", job)
    assert [path.name for path in folder.iterdir()] == ["pyproject.toml"]
    app = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["flwr"][
        "app"
    ]
    assert app["components"]["serverapp"] == "some.module:server"
    assert app["components"]["clientapp"] == "unisono.engines.flower.app:residents_only"
    assert app["config"] == {"job": str(job)}
    assert job.is_dir()


@pytest.mark.parametrize("component", ["module", "module:", ":app", "a b:c", 'a:b"\nc = "d'])
def test_a_component_is_a_reference_and_nothing_else(tmp_path, component):
    with pytest.raises(InvalidInput, match="module:attribute"):
        write_app(tmp_path, component, tmp_path)


def run(main, job, run_id=7):
    context = Context(run_id, 1, {}, RecordDict(), {"job": str(job)})
    server_app(main)(SimpleNamespace(), context)


def test_a_run_gets_its_link_and_folder_and_notes_that_it_finished(tmp_path):
    seen = []
    run(lambda link, job: seen.append((type(link), job, outcome(job, 7)[0])), tmp_path)
    assert seen == [(GridLink, tmp_path, "running")]
    assert outcome(tmp_path, 7) == ("finished", "")


@pytest.mark.parametrize(
    ("error", "state", "words"),
    [
        (BudgetExceeded("hospital A has spent its budget"), "failed", "hospital A has spent"),
        (RuntimeError("a mistake"), "failed", "Traceback"),
        (SystemExit(1), "stopped", "stopped"),
        (KeyboardInterrupt(), "stopped", "stopped"),
    ],
)
def test_a_run_notes_how_it_failed(tmp_path, error, state, words):
    def main(link, job):
        raise error

    with pytest.raises(type(error)):
        run(main, tmp_path)
    noted, detail = outcome(tmp_path, 7)
    assert noted == state
    assert words in detail
    assert ("Traceback" in detail) == isinstance(error, RuntimeError)


def test_the_note_of_another_run_is_not_taken_for_ours(tmp_path):
    assert outcome(tmp_path, 7) == ("", "")
    run(lambda link, job: None, tmp_path, run_id=6)
    assert outcome(tmp_path, 7) == ("", "")


def call(app, data):
    TaskIdentity.run_id, TaskIdentity.task_id, TaskIdentity.node_id = 1, 1, 1
    return app(Message(wrap(data), 1, MESSAGE_TYPE), Context(1, 1, {}, RecordDict(), {}))


def test_the_app_for_stock_nodes_answers_and_the_default_one_refuses():
    assert unwrap(call(client_app(bytes.upper), b"a")) == b"A"
    with pytest.raises(InvalidInput, match="unisono join"):
        call(residents_only, b"a")
