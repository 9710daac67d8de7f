"""`--second-ledgers`: beginning anew on purpose, and what is forgotten then."""

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

SecondLedgersOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="Pay from second ledgers in this folder. What the data sets' own ledgers, beside "
        "their files, have spent is NOT counted then. A data set with a policy keeps its ledger.",
    ),
]


def forgotten(folder: Path, files: Iterable[Path]) -> str:
    """What ledgers in `folder` do not know: every ledger of the same records, and its spending."""
    from unisono.studies.data_set import data_set, other_ledgers

    sets = [data_set(file) for file in files]
    known = [
        ledger
        for own in sets
        if own.policy is None
        for ledger in (own.ledger_path, *other_ledgers(own))
        if ledger.exists()
    ]
    spent = "".join(f"\n  {_spent(ledger)}" for ledger in known) or " (none is known so far)"
    return (
        f"second ledgers in {folder} forget what was spent on the same records from any other, and "
        f"together they may exceed every budget; NOT counted are:{spent}"
    )


def _spent(ledger: Path) -> str:
    from unisono.cli.ledger_reader import read_book
    from unisono.core.trust import describe

    spending = read_book(ledger).spending
    if not spending:
        return f"{ledger}: nothing is spent"
    worst = max(spending, key=lambda one: (one.share, one.epsilon))
    return (
        f"{ledger}: {100 * worst.share:.0f} % of epsilon {worst.budget.epsilon:g} at delta "
        f"{worst.delta:g} is spent against {describe(worst.viewer)}"
    )
