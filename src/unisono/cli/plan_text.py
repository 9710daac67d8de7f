"""The plan as text: what to choose first, then every algorithm and trust."""

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from unisono.cli import words
from unisono.cli.output import console
from unisono.cli.plan_advice import AdviceLine, Remedy, reason
from unisono.cli.plan_studies import PlanRequest
from unisono.core.trust import Unit
from unisono.planning.alone import Alone, who
from unisono.planning.laws import Band
from unisono.planning.predict import MEASURES, Prediction
from unisono.planning.tasks import Task
from unisono.planning.verdicts import HEADROOM, Grade, limits

_STYLES = {
    Grade.GOOD: "green",
    Grade.USABLE: "yellow",
    Grade.DOUBTFUL: "magenta",
    Grade.USELESS: "red",
}
_HEADS = {
    **MEASURES,
    Task.MEAN: "standard error",
    Task.CLASSIFICATION: "points lost",
    Task.NETWORK: "points lost",
    Task.REGRESSION: "% of R² lost",
    Task.POSTERIOR: "times wider",
}
_KNOWN = {
    Task.MEAN: "Errors of the noise are exact for means of public sizes; sampling people adds its "
    "own.",
    Task.POSTERIOR: "Widths suppose features that are even over their bounds; those marked ~ are "
    "rough.",
}
_ALIKE = {
    Task.MEAN: "Errors of noise and of having asked so many people, who are even over the range.",
    Task.POSTERIOR: "Widths over those of all records without privacy, if all parties are alike.",
}
_APART = "Lost against the same model of all records without privacy, if all parties are alike."
_ROUGH = (
    "Losses are rough: a law of the ratio, fitted to simulations. How often its band held, on "
    "made-up and on real data, is in docs/planning.md."
)


def amount(task: Task, value: float) -> str:
    """A loss in the words of the task.

    >>> amount(Task.CLASSIFICATION, 0.0234), amount(Task.POSTERIOR, 1.5), amount(Task.MEAN, 0.25)
    ('2.3 points', '1.5 times', '0.25')
    """
    match task:
        case Task.CLASSIFICATION | Task.NETWORK:
            return f"{100 * value:.{1 if value < 0.1 else 0}f} points"
        case Task.REGRESSION:
            return f"{100 * value:.{1 if value < 0.1 else 0}f} %"
        case Task.POSTERIOR:
            return f"{value:.3g} times"
        case _:
            return f"{value:.3g}"


def expected(found: Prediction, bare: bool = False) -> str:
    """The likely loss, and its band where there is one; `bare` without the unit."""
    likely = amount(found.task, found.likely)
    likely = likely.partition(" ")[0] if bare else likely
    if found.band.low == found.band.high:
        return likely
    ends = (found.band.low, found.band.high)
    low, high = (amount(found.task, end).partition(" ")[0] for end in ends)
    return f"{likely} ({low}{'-' if bare else ' to '}{high})"


def write_plan(
    request: PlanRequest,
    unit: Unit,
    lines: Sequence[AdviceLine],
    chosen: Prediction | None,
    fixes: Sequence[Remedy],
    apart: Sequence[Alone],
    plot: str | None,
) -> None:
    out = console()
    out.print(described(request), style="dim")
    out.print()
    out.print(sentence(request, chosen), style="bold")
    for fix in fixes:
        out.print(f"  To make it usable: {fix.words}: {expected(fix.prediction)}.")
    for one in apart:
        out.print(alone_in_words(request.task, one))
    if apart:
        out.print(_ALIKE.get(request.task, _APART), style="dim")
    out.print()
    out.print(_table(request, lines))
    for line in lines:
        if line.prediction is None:
            found = line.candidate
            out.print(
                f"{found.algorithm}, {found.trust}: not possible: {found.reason}", style="dim"
            )
    for note in dict.fromkeys(_weights(line) for line in lines if line.prediction):
        if note:
            out.print(note)
    out.print()
    out.print(
        "Noise is the standard deviation of one number of the sum that is opened; the ratio is "
        "that of all records, each at its bound, to the length of the noise, over the run."
    )
    out.print(_KNOWN.get(request.task, _ROUGH))
    if request.task in HEADROOM:
        out.print(_meaning(request))
    if chosen and chosen.answers:
        out.print()
        out.print(_answers(chosen))
    if plot:
        out.print(f"Picture: {plot}")
    out.print("No data were read and nothing was spent.")


def _weights(line: AdviceLine) -> str:
    """What weights of parties cost an algorithm in noise, if anything."""
    found = line.prediction
    return f"{found.algorithm}: {found.weights}." if found and found.weights else ""


def _meaning(request: PlanRequest) -> str:
    """What the grades were measured against."""
    good, usable = (amount(request.task, limit) for limit in limits(request.task, request.headroom))
    where = f"has R² {request.headroom:g}"
    if request.task is not Task.REGRESSION:
        where = f"beats guessing by {amount(request.task, request.headroom)}"
    guessed = "a cautious guess; --without-privacy says more"
    said = "as you say" if request.without_privacy else guessed
    return (
        f"Good loses at most {good}, usable at most {usable}, both at the far end of the band; "
        f"doubtful likely so, useless not. Supposed: a model without privacy {where} ({said})."
    )


def described(request: PlanRequest) -> str:
    total = f"{sum(request.records):,}"
    size = f"{words.times(len(request.records), 'party', 'parties')}, {total} records in all"
    shape = "" if request.task is Task.MEAN else f", {_features(request)}"
    classes = f", {request.classes} classes" if request.classes else ""
    delta = words.plain(request.delta)
    budget = f"epsilon {request.epsilon:g} at delta {delta}, {request.relation}"
    return f"{request.task}: {size}{shape}{classes}; {budget}"


def _features(request: PlanRequest) -> str:
    """How many features, and of how many columns where these are fewer or more."""
    said = words.times(request.encoded, "feature")
    several = f" of {words.times(request.columns, 'column')}"
    return said + several if request.encoded != request.columns else said


def sentence(request: PlanRequest, chosen: Prediction | None) -> str:
    """The recommendation and its reason."""
    if chosen is None:
        return "No algorithm can run this: see the reasons below."
    share = f"{chosen.likely / chosen.compared_with:.1%}".replace("%", " %")
    about = f" ({chosen.about}, the worst answer: {share} of its range)" if chosen.about else ""
    what = f"{MEASURES[request.task]} {expected(chosen)}{about}"
    if chosen.grade is Grade.USELESS:
        best = f"the best, {chosen.algorithm} with trust {chosen.trust}"
        return f"Do not run this: {reason(chosen)}; {best}: {what}."
    choice = f"{chosen.algorithm} with trust {chosen.trust} ({chosen.grade})"
    return f"Use {choice}: {what}; {reason(chosen)}."


def alone_in_words(task: Task, found: Alone) -> str:
    """One sentence for a party."""
    together, unshared = (_band(task, one) for one in (found.together, found.unshared))
    promised = f"nothing under the same promise, since {found.reason}"
    if found.promised is not None:
        promised = f"{_band(task, found.promised)} under the same promise"
    sure = "" if found.clear or task in _KNOWN else ", as far as a plan can tell"
    return (
        f"{who(found.party, found.place, found.records)} {found.gain}{sure}: together {together}; "
        f"alone {promised}, and {unshared} without noise, for its own eyes."
    )


def _band(task: Task, found: Band) -> str:
    likely = amount(task, found.likely)
    if task in (Task.MEAN, Task.POSTERIOR):
        return likely
    low, high = (amount(task, end).partition(" ")[0] for end in (found.low, found.high))
    return f"{likely} ({low} to {high})"


def _table(request: PlanRequest, lines: Sequence[AdviceLine]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for head in ("algorithm", "trust", "hides"):
        table.add_column(head, no_wrap=True)
    for head in ("noise", "ratio", _HEADS[request.task]):
        table.add_column(head, justify="right", no_wrap=head != _HEADS[request.task])
    table.add_column("")
    for line in lines:
        found = line.prediction
        if found is None:
            continue
        mark = "~ " if found.rough and request.task is Task.POSTERIOR else ""
        table.add_row(
            found.algorithm,
            str(found.trust),
            str(found.unit),
            f"{found.noise.std:.3g}",
            f"{found.noise.total:.2g}",
            mark + expected(found, bare=True),
            _graded(found),
        )
    return table


def _graded(found: Prediction) -> Text:
    return Text(str(found.grade), style=_STYLES[found.grade])


def _answers(chosen: Prediction) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("answer")
    table.add_column("standard error", justify="right")
    table.add_column("margin", justify="right")
    for one in chosen.answers:
        error = "-" if one.error is None else f"{one.error:.4g}"
        table.add_row(one.name, error, f"{one.margin:.4g} ({one.confidence:.0%})")
    return table


__all__ = ["alone_in_words", "amount", "described", "expected", "sentence", "write_plan"]
