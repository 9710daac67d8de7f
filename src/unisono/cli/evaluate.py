"""`unisono evaluate`: how good a finished model is, by one private release."""

from pathlib import Path
from typing import Annotated

import typer

from unisono.cli import budget as terminal
from unisono.cli import inputs
from unisono.cli.budget import BudgetOption
from unisono.cli.deploy_record import plain_warnings
from unisono.cli.output import echo, warn
from unisono.cli.predict import RunArgument, run_with_result
from unisono.cli.run import prepared, run_prepared
from unisono.cli.second_ledgers import SecondLedgersOption
from unisono.errors import InvalidInput


def evaluate(
    run: RunArgument,
    data: Annotated[
        Path | None,
        typer.Option(
            help="Folder with NAME.csv or NAME/records.csv for every party: records that the "
            "model did not learn from. Left out: the study is only written."
        ),
    ] = None,
    epsilon: Annotated[float, typer.Option(help="What the evaluation costs.")] = 1.0,
    by: Annotated[
        str | None, typer.Option(metavar="COLUMN", help="Also by the values of this category.")
    ] = None,
    records: Annotated[
        str | None,
        typer.Option(
            metavar="NAME=N,...",
            help="How many records each party brings, which is public. (default: as in training)",
        ),
    ] = None,
    study: Annotated[
        Path | None,
        typer.Option(help="Where the study is written. (default: RUN's name.evaluation.toml)"),
    ] = None,
    edition: Annotated[int, typer.Option(help="Which time this is asked.")] = 1,
    budget: BudgetOption = None,
    second_ledgers: SecondLedgersOption = None,
    learnt: Annotated[
        bool,
        typer.Option(
            "--learnt",
            help="Judge it even on records that it learnt from, which flatters it; without this "
            "you are asked on a terminal, and refused in a script.",
        ),
    ] = False,
    seed: Annotated[
        int | None,
        typer.Option(help="Only a simulation: predictable noise, no privacy, nothing is spent."),
    ] = None,
    json: inputs.JsonOption = False,
) -> None:
    """Judge a finished model by records of the parties: one release gives all metrics.

    Accuracy, AUC, Brier score, log loss, calibration and confusion of classifiers; RMSE, R² and the
    coverage of intervals of regressions; by subgroup with --by. Intervals count sampling and noise.
    The evaluation is a study of its own, written beside the run: every party can read and check it,
    and it runs between machines as any study does (coordinate, join, local-cluster). It is paid for
    in the parties' ledgers, in addition to training. Ledgers know whether they have paid for the
    training of this model: then you are told before anything is paid, and asked (--learnt agrees).

    \b
    Examples:
      unisono evaluate flu.run --data new-patients \\
        --records north=800,south=400 --epsilon 0.5
      unisono evaluate flu.run --data new-patients --by sex
      unisono evaluate flu.run --study judge.toml  # only write it
    """
    from unisono.deployment.evaluating import Asked, write_evaluation
    from unisono.models.fitted import load

    model = load(run_with_result(run))
    place = study or run.parent / f"{run.name.removesuffix('.run')}.evaluation.toml"
    asked = Asked(epsilon, by, _sizes(records), edition)
    written = write_evaluation(model, asked, place)
    if data is None:
        echo(f"written: {written}; check it, then run it or let the parties join")
        return
    with plain_warnings():
        task = prepared(written, data, None, second_ledgers, None, seed, budget)
        if not learnt:
            _agree_to_learnt(task.learnt_from())
        run_prepared(task, json)


def _agree_to_learnt(parties: list[str]) -> None:
    """Where ledgers have paid for the training, whoever asks agrees before they pay again."""
    if not parties:
        return
    from unisono.algorithms.evaluation_text import learnt_from

    words = learnt_from({"learnt_from": parties})
    if not terminal.on_terminal():
        raise InvalidInput(
            f"{words}; nothing was paid: give --data with other records, or --learnt to judge the "
            "model on these all the same"
        )
    warn(words)
    if not typer.confirm("Pay for this all the same?", err=True):
        raise typer.Exit(1)


def _sizes(said: str | None) -> dict[str, int] | None:
    """NAME=N, ..."""
    if said is None:
        return None
    found = {}
    for part in said.split(","):
        name, _, count = part.partition("=")
        if not count.strip().isdigit() or int(count) < 1:
            raise InvalidInput(
                f"--records {said!r}: write NAME=N for every party, as north=800,south=400"
            )
        found[name.strip()] = int(count)
    return found
