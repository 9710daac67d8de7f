"""What studies between machines say: costs before, rounds meanwhile, results after."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from unisono.cli.budget import say_outlooks
from unisono.cli.output import console, echo, warn, write_json
from unisono.errors import InvalidInput

if TYPE_CHECKING:
    from unisono.deployment.job import Progress

_MANY_ROUNDS = 20  # of fewer, each is told


def require_flower() -> None:
    """Studies between machines need Flower, which the library alone does not install."""
    if find_spec("flwr") is None:
        raise InvalidInput(
            "studies between machines travel over Flower, which is not installed: "
            "run pip install 'unisono[flower]'"
        )


def consent(member: Any) -> None:
    """What taking part will cost, before it costs anything."""
    from unisono.accounting.accountant import ACCOUNTANT
    from unisono.core.costs import counted
    from unisono.core.outlook import outlook
    from unisono.core.trust import describe

    built, policy, name = member.agreed.built, member.ledger.policy, member.seat.name
    privacy, costs = built.file.privacy, built.costs[built.file.party(name)]
    costs = counted(costs, policy.unit, policy.relation)
    epsilon, viewer = max(
        (ACCOUNTANT.epsilon(history, policy.relation, privacy.delta), viewer)
        for viewer, history in costs.items()
        if policy.budget_for(viewer).epsilon != float("inf")
    )
    echo(
        f"{name}: {built.file.title!r} costs at most epsilon {epsilon:.4g} at delta "
        f"{privacy.delta:g} ({policy.relation}, one {policy.unit}), against {describe(viewer)}; "
        f"budget {policy.budget.epsilon:g}",
        err=True,
    )
    if not member.responder.spender.begun:  # else some of it is paid already
        found = outlook(member.ledger, built.costs[built.file.party(name)])
        say_outlooks({} if found is None else {name: found})


@contextmanager
def bar_of_rounds(quiet: bool) -> Iterator[Callable[["Progress"], None]]:
    """A bar of rounds on stderr, and the server's words under it. Where that is a file, a line for
    every tenth of many rounds."""
    if quiet or not sys.stderr.isatty():
        said, tenth = [""], [-1]

        def plain(progress: "Progress") -> None:
            words = progress.words or (progress.of and f"round {progress.rounds} of {progress.of}")
            if not words or words == said[0] or quiet:
                return
            if not progress.words and progress.of > _MANY_ROUNDS:
                done = 10 * progress.rounds // progress.of
                if done == tenth[0]:
                    return
                tenth[0] = done
            said[0] = words
            echo(words, err=True)

        yield plain
        return
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    words = TextColumn("{task.description}", markup=False)
    columns = (words, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    bar = Bar(*columns, console=console(stderr=True))
    task = bar.add_task("starting", total=None)

    def follow(progress: "Progress") -> None:
        bar.start()  # not before: somebody may be asked something first
        bar.update(
            task,
            completed=progress.rounds,
            total=progress.of or None,
            description=progress.words or "rounds",
        )

    try:
        yield follow
    finally:
        bar.stop()


def report(
    shown: dict[str, Any],
    folder: Path | None,
    json: bool,
    text: str = "",
    evaluation: dict[str, Any] | None = None,
    page: Path | None = None,
) -> None:
    """What came out, how good it is, what it rests on, and where all of it lies."""
    if json:
        document = {"result": shown, "folder": str(folder) if folder else None}
        more = {"evaluation": evaluation, "report": str(page) if page else None}
        write_json(document | more)
    else:
        from unisono.cli.results import result_text

        echo(result_text(shown))
        if evaluation is not None:
            echo(_evaluation_text(evaluation))
        if folder is not None and not text:
            from unisono.runs.folder import CERTIFICATE_TEXT

            text = (folder / CERTIFICATE_TEXT).read_text(encoding="utf-8")
        echo(text.rstrip())
        if folder:
            echo(f"everything is in {folder}")
        if page:
            echo(f"for people: {page}")
    if "failed" in shown:
        warn("the study has no result; see above")
        raise typer.Exit(1)


def _evaluation_text(found: dict[str, Any]) -> str:
    """How good a result is, in a line; and what blind guessing would reach, where it is known. All
    metrics, where they were asked for, are a table."""
    many = f"{'about ' if found.get('records_noise') else ''}{found['records']}"
    if "metrics" in found:
        from unisono.algorithms.evaluation_text import evaluation_text

        table = evaluation_text(found["metrics"], float(found["confidence"]))
        line = f"TEST  {many} records; {found['how']}\n{table}"
        return "\n".join([line, *(_evaluation_text(one) for one in found.get("also", ()))])
    span = f"{found['low']:.3g} to {found['high']:.3g}"
    line = f"TEST  {found['measure']} {found['value']:.3g}, {found['confidence']:.0%} {span}"
    line += f" ({many} records; {found['how']})"
    if found["baseline"] is not None:
        line += f"; without a model {found['baseline']:.3g}"
    return "\n".join([line, *(_evaluation_text(one) for one in found.get("also", ()))])
