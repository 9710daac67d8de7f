"""`unisono plan`: noise and usefulness of every algorithm and trust, before anything is spent."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unisono.cli import inputs
from unisono.cli.output import warn, write_json
from unisono.core.trust import Relation, Trust, Unit
from unisono.errors import InvalidInput
from unisono.planning.tasks import Task

if TYPE_CHECKING:
    from unisono.cli.plan_advice import AdviceLine
    from unisono.cli.plan_studies import PlanRequest
    from unisono.studies.schema import StudyFile

_EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0)
_FEW_EPSILONS = (0.25, 1.0, 4.0)  # networks take a second each to build


def plan(
    study: Annotated[
        Path | None, typer.Argument(metavar="[STUDY.toml]", help="Plan this study file.")
    ] = None,
    task: Annotated[
        Task, typer.Option(metavar="NAME", help=f"What is learnt: {', '.join(Task)}.")
    ] = Task.CLASSIFICATION,
    records: Annotated[
        str, typer.Option(help="Records of each party, such as 300,400,350; or of every party.")
    ] = "300",
    parties: Annotated[
        int | None, typer.Option(help="How many parties, if all have equally many records.")
    ] = None,
    features: Annotated[int, typer.Option(help="How many numbers a record has.")] = 10,
    categories: Annotated[
        str | None,
        typer.Option(help="Besides: how many values each column of named values has, as 5,7,8."),
    ] = None,
    classes: Annotated[
        int | None, typer.Option(help="How many classes; posterior: 2, or a number is predicted.")
    ] = None,
    parameters: Annotated[
        int | None, typer.Option(help="About how many parameters a network has.")
    ] = None,
    bounds: Annotated[
        str, typer.Option(metavar="LOW:HIGH", help="Public bounds of the number to average.")
    ] = "-1:1",
    epsilon: Annotated[float, typer.Option(help="The budget.")] = 1.0,
    delta: inputs.DeltaOption = 1e-6,
    relation: inputs.RelationOption = Relation.REPLACE_ONE,
    unit: Annotated[
        Unit, typer.Option(metavar="NAME", help="Who is hidden: record or party.")
    ] = Unit.RECORD,
    survivors: Annotated[
        int | None, typer.Option(help="How many parties must answer; all unless told.")
    ] = None,
    colluders: Annotated[
        int | None,
        typer.Option(help="How many parties may work with the server; 1 in a secure sum."),
    ] = None,
    without_privacy: Annotated[
        float | None,
        typer.Option(help="Accuracy or R² that you expect without privacy; cautious unless told."),
    ] = None,
    majority: Annotated[
        float | None, typer.Option(help="Share of the commonest class, if you know it.")
    ] = None,
    effect: Annotated[
        list[float] | None,
        typer.Option(
            help="Of a glm study: an effect to find, an odds or rate ratio as 1.2 (for a change by "
            "one standard deviation, or a category's value), or a difference in deviations of the "
            "target as 0.1. Repeatable."
        ),
    ] = None,
    plot: inputs.PlotOption = None,
    json: inputs.JsonOption = False,
) -> None:
    """How much noise, and how useful a result? Predicted for every trust; no data are read.

    \b
    Examples:
      unisono plan --records 300,400,350 --features 30 --epsilon 1
      unisono plan --task mean --parties 5 --records 300 --bounds 0:120
      unisono plan --task network --parties 20 --records 1000 --features 64 \\
        --classes 10
      unisono plan --task posterior --parties 3 --records 500 --features 4 --json
      unisono plan study.toml --plot trade-off.png
      unisono plan odds.toml --effect 1.2 --majority 0.9
    """
    inputs.check_picture(plot)
    sizes = _sizes(records, parties)
    import warnings

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        from unisono.cli.plan_studies import PlanRequest, request_of

        if study is not None:
            from unisono.models.kaplan_meier import KAPLAN_MEIER
            from unisono.studies.file import load_study

            file = load_study(study)
            if file.search is not None:
                _say_of_search(file)
            if _has_intervals(file):
                from unisono.cli.plan_widths import width_plan, write_widths

                _require_no_picture(plot, without_privacy)
                write_widths(width_plan(file, effect or (), majority), json)
                return
            if file.model_kind is KAPLAN_MEIER:
                from unisono.cli.plan_curves import curve_plan, write_curves

                _require_no_picture(plot, without_privacy)
                found = curve_plan(file, effect or (), majority)
                write_curves(file, *found, json, majority)
                return
            request, unit = request_of(file, without_privacy, majority), file.privacy.unit
        else:
            several = 2 if task in (Task.CLASSIFICATION, Task.NETWORK) else 0
            request = PlanRequest(
                task,
                sizes,
                1 if task is Task.MEAN else features,
                several if classes is None else classes,
                parameters,
                _bounds(bounds),
                epsilon,
                delta,
                relation,
                survivors,
                colluders,
                None,
                without_privacy,
                majority,
                _values(categories),
            )
        _answer(request, unit, plot, json)
    for text in dict.fromkeys(str(one.message) for one in caught):
        warn(text)


def _say_of_search(file: "StudyFile") -> None:
    """What is compared below is one model with all of epsilon: whether a search would do better."""
    from unisono.studies.build import build
    from unisono.studies.search import SearchBuilt, cannot_help

    built = build(file)
    assert isinstance(built, SearchBuilt)
    if words := cannot_help(built):
        warn(f"a search cannot help here: {words}; leave [search] out")
        return
    warn(
        f"the plan is for one model with all of epsilon; the study searches among "
        f"{len(built.candidates)} candidates, each for epsilon {built.epsilon:.3g}, and noise of "
        f"standard deviation {built.noise:.2g} lies between two of their scores"
    )


def _has_intervals(file: "StudyFile") -> bool:
    """Whether intervals of coefficients are what is predicted."""
    from unisono.problems.glm import GeneralizedLinear
    from unisono.problems.survival import ProportionalHazards

    return issubclass(file.model_kind.problems[0], (GeneralizedLinear, ProportionalHazards))


def _require_no_picture(plot: str | None, without_privacy: float | None) -> None:
    if plot is not None or without_privacy is not None:
        raise InvalidInput(
            "--plot and --without-privacy are for accuracies: of a study with intervals the "
            "widths of these are predicted; leave them out"
        )


def _answer(request: "PlanRequest", unit: Unit, plot: str | None, json: bool) -> None:
    from unisono.cli import plan_advice, plan_alone, plan_studies
    from unisono.planning.verdicts import Grade

    lines = [
        plan_advice.AdviceLine(
            one, None if one.built is None else plan_studies.prediction(request, one)
        )
        for one in plan_studies.candidates(request)
    ]
    taken = plan_advice.taken_by_auto(request, unit)
    chosen = plan_advice.recommended(lines, unit, taken)
    fixes = []
    if chosen is not None and chosen.grade in (Grade.DOUBTFUL, Grade.USELESS):
        fixes = list(plan_advice.remedies(request, chosen, lines))
    apart = [] if chosen is None else list(plan_alone.alone(request, chosen))
    if plot:
        from unisono.cli.plan_picture import draw_trade_off

        draw_trade_off(request, _curves(request, unit, lines, taken), plot)
    if json:
        write_json(_document(request, unit, lines, chosen, fixes, apart, plot))
    else:
        from unisono.cli.plan_text import write_plan

        write_plan(request, unit, lines, chosen, fixes, apart, plot)


def _curves(
    request: "PlanRequest", unit: Unit, lines: list["AdviceLine"], taken: dict[Trust, str]
) -> dict[Trust, Any]:
    """Predictions over epsilon, of the best algorithm under each trust."""
    from dataclasses import replace

    from unisono.cli.plan_advice import best_by_trust
    from unisono.cli.plan_studies import candidate, document, prediction

    chosen = _FEW_EPSILONS if request.task is Task.NETWORK else _EPSILONS
    epsilons = sorted({*chosen, request.epsilon})
    curves = {}
    for trust, line in best_by_trust(lines, unit, taken).items():
        points = []
        for epsilon in epsilons:
            other = replace(request, epsilon=epsilon)
            made = candidate(document(other, line.candidate.algorithm, trust))
            if made.built is not None:
                points.append((epsilon, prediction(other, made)))
        curves[trust] = points
    if not curves:
        raise InvalidInput(
            f"nothing to draw: no algorithm for {request.task} that hides a {unit} can run; leave "
            "out --plot to see the reasons"
        )
    return curves


def _document(
    request: "PlanRequest",
    unit: Unit,
    lines: list["AdviceLine"],
    chosen: Any,
    fixes: list[Any],
    apart: list[Any],
    plot: str | None,
) -> dict[str, Any]:
    from unisono.cli.plan_text import sentence

    return {
        "task": str(request.task),
        "records": list(request.records),
        "columns": request.columns,
        "features": request.encoded,
        "classes": request.classes,
        "epsilon": request.epsilon,
        "delta": request.delta,
        "relation": str(request.relation),
        "unit": str(unit),
        "headroom": request.headroom,
        "studies": [line.prediction.to_json() for line in lines if line.prediction],
        "not_possible": [
            {
                "algorithm": line.candidate.algorithm,
                "trust": str(line.candidate.trust),
                "unit": str(line.candidate.unit),
                "reason": line.candidate.reason,
            }
            for line in lines
            if line.prediction is None
        ],
        "recommended": None if chosen is None else chosen.to_json(),
        "reason": sentence(request, chosen),
        "remedies": [{"change": fix.words, **fix.prediction.to_json()} for fix in fixes],
        "parties": [one.to_json() for one in apart],
        "picture": plot,
    }


def _sizes(records: str, parties: int | None) -> tuple[int, ...]:
    try:
        sizes = tuple(int(part) for part in records.split(","))
    except ValueError:
        raise InvalidInput(
            f"--records {records!r}: give whole numbers, one for each party, as 300,400,350"
        ) from None
    if min(sizes) < 1 or (parties is not None and parties < 1):
        raise InvalidInput("--records and --parties: there is at least one of each")
    if parties is None:
        return sizes
    if len(sizes) not in (1, parties):
        raise InvalidInput(
            f"--parties {parties} and {len(sizes)} sizes in --records: give one size for all, or "
            "one for each party"
        )
    return sizes * parties if len(sizes) == 1 else sizes


def _values(text: str | None) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(",")) if text else ()
    except ValueError:
        raise InvalidInput(
            f"--categories {text!r}: give whole numbers, one for each column of named values, as "
            "5,7,8"
        ) from None


def _bounds(text: str) -> tuple[float, float]:
    from unisono.data import Bounds

    return Bounds.parse(text).pair
