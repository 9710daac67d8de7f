"""`unisono check --data` and `unisono join --dry-run`: a party's own file, before the joint run.

Nothing is sent, no ledger is begun and nothing is spent. What is shown is about records, so it is
for whoever holds them, at their own terminal.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from unisono.cli.output import echo, write_json
from unisono.cli.words import clean
from unisono.errors import InvalidInput, UnisonoError

if TYPE_CHECKING:
    from unisono.studies.build import Built
    from unisono.studies.inspection import Finding, Inspection
    from unisono.studies.policy_file import PolicyFile
    from unisono.studies.schema import StudyFile

FOUND = 1  # the exit code where something is to be corrected


@dataclass(frozen=True)
class Rehearsal:
    """What was found in the file, and why the party would not take part; nothing if it would."""

    inspection: "Inspection"
    allowed: str
    refusals: tuple[str, ...]

    @property
    def ready(self) -> bool:
        return not self.inspection.problems and not self.refusals

    def to_json(self) -> dict[str, Any]:
        return {
            "ready": self.ready,
            **self.inspection.to_json(),
            "takes_part": not self.refusals,
            "refusals": list(self.refusals),
        }


def party_of(file: "StudyFile", data: Path, party: str | None, policy: "PolicyFile | None") -> str:
    """Whose file it is: as given, by the policy, or by the file's own name."""
    from unisono.studies.data_set import data_set

    named = party or (policy.dataset.name if policy is not None else None)
    if named is not None:
        file.party(named)
        return named
    own = data_set(data).name
    if own in file.names:
        return own
    if len(file.names) == 1:
        return file.names[0]
    raise InvalidInput(
        f"{data}: whose records are these? Give --party, one of {', '.join(file.names)}"
    )


def rehearse(
    built: "Built", data: Path, party: str, policy: "PolicyFile | None" = None
) -> Rehearsal:
    """Everything that is wrong with a party's file, and whether its policy and budget agree."""
    from unisono.studies.data_set import data_set, require_only_ledger
    from unisono.studies.inspection import inspect_file

    found = inspect_file(built.file, data, party)
    refusals: list[str] = []
    allowed = (
        "no policy lies beside the records: write one (`unisono policy init`), so that a budget "
        "limits all studies"
    )
    own = refused(lambda: data_set(data), refusals)
    if own is not None:
        refused(lambda: require_only_ledger(own), refusals)
        terms = policy or refused(lambda: own.policy, refusals)
        if terms is None and not refusals and own.ledger_path.exists():
            from unisono.deployment.parties_here import policy_for

            terms = refused(lambda: policy_for(built, own, party, None, False), refusals)
        if terms is not None:
            reason = refused(lambda: refusal(built, terms, party), refusals)
            refusals += [reason] if reason else []
            allowed = f"{terms.source.path} allows it, and the budget suffices"
    return Rehearsal(found, allowed, tuple(refusals))


def refusal(built: "Built", policy: "PolicyFile", party: str) -> str:
    """Why the party would not take part by its policy and its budget; nothing if it would."""
    from unisono.accounting.accountant import ACCOUNTANT
    from unisono.core.ledger import Ledger
    from unisono.errors import BudgetExceeded, PrivacyViolation
    from unisono.studies.policy import require_allowed
    from unisono.studies.search import each_candidate

    place = built.file.party(party)
    try:
        for one in each_candidate(built):
            require_allowed(policy, one.file, one.study, party, built.costs)
    except PrivacyViolation as error:
        return str(error)
    kept = policy.ledger_path.exists()
    book = policy.open_ledger() if kept else Ledger.in_memory(policy.core_policy(), ACCOUNTANT)
    try:
        book.check(built.costs[place])
    except (BudgetExceeded, PrivacyViolation) as error:
        return str(error)
    finally:
        book.close()
    return ""


def refused(made: Callable[[], Any], refusals: list[str]) -> Any:
    """What is made, or nothing and one reason more."""
    try:
        return made()
    except UnisonoError as error:
        refusals.append(str(error))
        return None


def with_refusals(found: Rehearsal, more: list[str]) -> Rehearsal:
    """And why else it would not; each reason once."""
    return replace(found, refusals=tuple(dict.fromkeys((*found.refusals, *more))))


def show(found: Rehearsal, study: Path, json: bool) -> None:
    """All of it, and exit code 1 where something is to be corrected."""
    if json:
        write_json({"study": str(study), **found.to_json()})
    else:
        echo(text_of(found, study))
    if not found.ready:
        raise typer.Exit(FOUND)


# ------------------------------------------------------------- words


def text_of(found: Rehearsal, study: Path) -> str:
    seen = found.inspection
    of = "" if seen.persons is None else f" of {seen.persons} persons"
    records = f": {seen.records} records{of}, {seen.complete} complete"
    records = "" if seen.records is None else records
    head = [
        clean(f"{seen.path} for {seen.party} in {study}{records}"),
        "  This is about your records: keep it to yourself. Nothing was sent, nothing was spent.",
    ]
    blocks = [head]
    if seen.columns:
        blocks.append(["COLUMNS", *_table(seen)])
    if seen.problems:
        blocks.append(["PROBLEMS", *(_lines(one, "! ") for one in seen.problems)])
    if seen.notes:
        blocks.append(["WHAT THE DECLARATIONS DO", *(_lines(one, "- ") for one in seen.notes)])
    parts = [_wrapped(reason, "! ") for reason in found.refusals] or [
        _wrapped(f"{found.allowed}.", "")
    ]
    blocks.append(["WOULD THIS PARTY TAKE PART?", *parts])
    count = len(seen.problems) + len(found.refusals)
    end = "nothing is to be corrected" if found.ready else f"{count} to be corrected, marked with !"
    return "\n\n".join("\n".join(block) for block in [*blocks, [end]])


def _table(seen: "Inspection") -> list[str]:
    width = max(len(column.name) for column in seen.columns)
    titles = ("kind", "readable", "missing", "unreadable", "outside")
    lines = [f"  {'':<{width}}" + "".join(f"{title:>12}" for title in titles)]
    for column in seen.columns:
        cells = (column.kind, column.readable, column.missing, column.unreadable, column.outside)
        lines.append(f"  {clean(column.name):<{width}}" + "".join(f"{cell:>12}" for cell in cells))
    return lines


def _lines(finding: "Finding", mark: str) -> str:
    """What was found, where, and what to do."""
    where = "" if finding.column is None else f"{finding.column}: "
    words = f"{where}{finding.words}"
    if finding.records:
        more = (finding.count or 0) - len(finding.records)
        numbers = ", ".join(map(str, finding.records)) + (f" and {more} more" if more > 0 else "")
        words += f" ({'record' if finding.count == 1 else 'records'} {numbers})"
    if finding.values:
        shown = ", ".join(f"{value!r} {times}x" for value, times in finding.values)
        words += f": {shown}"
    return f"{_wrapped(clean(words), mark)}\n{_wrapped(clean(f'{finding.remedy}.'), '  → ')}"


def _wrapped(text: str, mark: str) -> str:
    import textwrap

    indent = "  " + mark
    return "\n".join(
        textwrap.fill(
            line,
            100,
            initial_indent=indent if not number else " " * len(indent),
            subsequent_indent=" " * len(indent),
            break_long_words=False,
        )
        for number, line in enumerate(text.splitlines())
    )
