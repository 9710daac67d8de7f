"""`unisono check`: a study in plain words, before anything runs."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unisono.cli import inputs
from unisono.cli.deploy import StudyArgument
from unisono.cli.output import echo, write_json
from unisono.errors import InvalidInput

if TYPE_CHECKING:
    from unisono.studies.explain import Explanation

_REFUSED = 3


def check(
    study: StudyArgument,
    policy: Annotated[
        Path | None, typer.Option(help="Would this party take part? Its policy.toml.")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="Test this party's own records, .csv or .parquet; nothing leaves."),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option(
            "--party",
            "--name",
            help="The party's name. (default: the policy's data set, or the file's name)",
        ),
    ] = None,
    json: inputs.JsonOption = False,
) -> None:
    """Explain a study: what is learnt, what it costs whom against whom, what could go wrong.

    Nothing is run, no record is read and nothing is spent. With a policy, also whether that party
    would take part, and whether its ledger could pay.

    With --data a party tests its own file before the joint run: all problems at once, what the
    declarations do with odd cells, and whether policy and budget (beside the records, or --policy)
    agree. This alone reads records. Nothing leaves the machine or is spent; what is shown is for
    this party's own screen (--json leaves out the values of cells).

    Exits with 2 if the file is wrong, 3 if the policy or the budget refuses, 4 if a promise of the
    file could not be kept; with --data, 1 if anything is to be corrected.

    \b
    Examples:
      unisono check study.toml
      unisono check study.toml --policy policy.toml
      unisono check study.toml --data records.csv --party north
    """
    from unisono.cli.check_data import party_of, refusal, rehearse, show
    from unisono.studies.build import build
    from unisono.studies.explain import explain
    from unisono.studies.file import load_study
    from unisono.studies.policy_file import load_policy

    file = load_study(study)
    own = None if policy is None else load_policy(policy)
    if data is not None:
        party = party_of(file, data, name, own)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # without --data all of it is said, with remedies
            built = build(file)
        show(rehearse(built, data, party, own), study, json)
        return
    found = explain(file)
    _require_test_file(study, found)
    reason = "" if own is None else refusal(found.built, own, name or own.dataset.name)
    if json:
        answer = None if own is None else {"allowed": not reason, "reason": reason or None}
        write_json({**found.to_json(), "policy": answer})
    else:
        echo(_text(found))
        if own is not None and not reason:
            echo(f"\nPOLICY\n  {policy} allows it, and the budget suffices.")
    if reason:
        echo(f"unisono: {reason}", err=True)
        raise typer.Exit(_REFUSED)


def _require_test_file(study: Path, found: "Explanation") -> None:
    asked = found.built.file.evaluation
    if asked is not None and asked.file is not None and not (study.parent / asked.file).is_file():
        where = found.built.file.source.where(("evaluation", "file"))
        raise InvalidInput(
            f"{where}: evaluation.file: there is no {study.parent / asked.file}: put the public "
            "test records there (the path begins at the study file)"
        )


# ------------------------------------------------------------- words


def _text(found: "Explanation") -> str:
    file = found.built.file
    edition = f", edition {file.edition}" if file.edition > 1 else ""
    blocks = [
        ("WHAT WILL BE LEARNT", [_wrapped(line) for line in found.learnt]),
        (f"WHAT IT COSTS: epsilon at delta {file.privacy.delta:g}, at most", _table(found)),
        (
            "WHAT ONE PERSON IS PROMISED"
            if file.data.person is not None
            else f"WHAT ONE {str(file.privacy.unit).upper()}'S OWNER IS PROMISED",
            [_wrapped(line) for line in found.promise],
        ),
        ("NOISE", [_wrapped(line) for line in (found.noise_words, *_intervals(found))]),
        ("WHAT COULD GO WRONG", [_danger(found, danger) for danger in found.dangers]),
    ]
    head = f"{file.title}{edition}\n  file {file.hash[:16]}…, the same at every party"
    parts = ["\n".join([title, *lines]) for title, lines in blocks]
    return "\n\n".join([head, *parts])


def _intervals(found: "Explanation") -> list[str]:
    """Of coefficients that have intervals, how wide these will be."""
    from unisono.problems.glm import GeneralizedLinear
    from unisono.problems.survival import ProportionalHazards

    if not isinstance(found.built.posed.problem, (GeneralizedLinear, ProportionalHazards)):
        return []
    from unisono.cli.plan_widths import summary
    from unisono.planning.hazard_widths import interval_widths

    return [summary(interval_widths(found.built.study))]


def _table(found: "Explanation") -> list[str]:
    """Viewers by relations; parties that pay differently one after the other."""
    from unisono.cli.words import number
    from unisono.core.trust import describe

    lines = []
    groups = dict.fromkeys(cost.parties for cost in found.costs)
    for parties in groups:
        own = [cost for cost in found.costs if cost.parties == parties]
        relations = list(dict.fromkeys(cost.relation for cost in own))
        viewers = list(dict.fromkeys(cost.viewer for cost in own))
        width = max(len(describe(viewer)) for viewer in viewers)
        if len(groups) > 1:
            lines.append(f"  {', '.join(parties)}:")
        lines.append("  " + " " * width + "".join(f"{relation!s:>15}" for relation in relations))
        shown: dict[Any, float] = {(cost.viewer, cost.relation): cost.epsilon for cost in own}
        for viewer in viewers:
            cells = [
                number(shown[viewer, relation]) if (viewer, relation) in shown else "-"
                for relation in relations
            ]
            lines.append(f"  {describe(viewer):<{width}}" + "".join(f"{c:>15}" for c in cells))
    return lines


def _danger(found: "Explanation", danger: Any) -> str:
    file = found.built.file
    where = f" ({file.source.where(danger.place)})" if danger.place else ""
    mark = "! " if danger.level == "warning" else "- "
    first = _wrapped(f"{danger.words}{where}.", mark)
    return f"{first}\n{_wrapped(f'{danger.remedy}.', '  → ')}"


def _wrapped(text: str, mark: str = "") -> str:
    import textwrap

    indent = "  " + mark
    return textwrap.fill(
        text,
        100,
        initial_indent=indent,
        subsequent_indent=" " * len(indent),
        break_long_words=False,
    )
