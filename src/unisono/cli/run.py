"""`unisono run`: a study in this process, all parties' files on this machine."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unisono.cli import inputs
from unisono.cli.budget import BudgetOption, ask_on_terminal, parse_budget, say_outlooks
from unisono.cli.deploy import StudyArgument
from unisono.cli.deploy_record import add_report, evaluation_in, plain_warnings, recorded
from unisono.cli.deploy_text import bar_of_rounds, report
from unisono.cli.output import warn
from unisono.cli.second_ledgers import SecondLedgersOption, forgotten

if TYPE_CHECKING:
    from unisono.deployment.local_run import LocalRun


def run(
    study: StudyArgument,
    data: Annotated[
        Path, typer.Option(help="Folder with NAME.csv or NAME/records.csv for every party.")
    ],
    folder: Annotated[
        Path | None, typer.Option(help="Where the run is kept. (default: STUDY.run)")
    ] = None,
    budget: BudgetOption = None,
    second_ledgers: SecondLedgersOption = None,
    test: Annotated[
        Path | None,
        typer.Option(help="PUBLIC records to test the result on, .csv or .parquet; costs nothing."),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(help="Only a simulation: predictable noise, no privacy, nothing is spent."),
    ] = None,
    json: inputs.JsonOption = False,
) -> None:
    """Run a study on this machine: check, pay, learn, test, and write a report.

    Files are read and checked first. Then every party pays from a ledger of its own, on disk beside
    its records, before anything is computed from them. A party's policy beside its records
    (NAME/policy.toml or NAME.policy.toml) is obeyed; where there is neither policy nor ledger,
    --budget says what all studies together may ever take (on a terminal you are asked). What this
    study takes of it is shown first. An edition of a study runs once. If the run stops for any
    reason, the same command goes on: nothing is paid twice (a search by
    random stopping alone begins, and pays, anew).

    \b
    Examples:
      unisono run study.toml --data hospitals --budget 6
      unisono run study.toml --data hospitals --test public.csv
      unisono run study.toml --data hospitals --seed 1  # a trial: no privacy
    """
    from unisono.algorithms.evaluation_text import learnt_from

    with plain_warnings():
        task = prepared(study, data, folder, second_ledgers, test, seed, budget)
        warn(learnt_from({"learnt_from": task.learnt_from()}))
        run_prepared(task, json)


def run_prepared(task: "LocalRun", json: bool) -> None:
    """Say what is dangerous and what it takes, then pay, learn and report."""
    from unisono.studies.explain import warnings_of

    place, title = task.place, task.built.file.title
    for danger in warnings_of(task.built):  # before anything is paid
        warn(f"{danger.words}: {danger.remedy}")
    with (
        task.opened() as books,
        recorded(place.folder, title, "in process", simulated=place.seed is not None) as record,
        bar_of_rounds(json) as follow,
    ):
        say_outlooks(task.outlooks(books))
        shown = task.run(books, follow)
        record.end(shown.get("failed"))
    page = add_report(place.folder)
    report(shown, place.folder, json, page=page, evaluation=evaluation_in(place.folder))


def prepared(
    study: Path,
    data: Path,
    folder: Path | None,
    second_ledgers: Path | None,
    test: Path | None,
    seed: int | None,
    budget: str | None,
) -> "LocalRun":
    from unisono.deployment.local_run import RunPlace, prepare
    from unisono.deployment.parties_here import find_data
    from unisono.deployment.run_folder import default_folder
    from unisono.studies.file import load_study

    file = load_study(study)
    found = find_data(file.names, data)
    given = None if budget is None else parse_budget(budget, file.privacy.delta)
    home = (folder or default_folder(study, seed is not None)).absolute()
    if second_ledgers is not None and seed is None:
        warn(forgotten(second_ledgers, found.values()))
    books = None if second_ledgers is None else second_ledgers.absolute()
    return prepare(RunPlace(study, found, home, books, test, seed, given), ask_on_terminal)
