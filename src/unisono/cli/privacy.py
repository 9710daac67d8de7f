"""`unisono privacy`: what a release costs, how much noise it needs, and how accountants differ."""

from typing import Annotated

import typer

from unisono.cli import inputs
from unisono.cli.inputs import TypedQuestion
from unisono.cli.output import warn, write_json
from unisono.core.trust import Relation

app = typer.Typer(
    no_args_is_help=True,
    help="""What does privacy cost, and how much noise does it need?

    \b
    Examples:
      unisono privacy cost --noise 4 --count 10
      unisono privacy calibrate --epsilon 1 --delta 1e-6
      unisono privacy compare --noise 1 --rate 0.01 --relation zero-out
      unisono privacy curve --noise 8 --count 100 --plot curve.png
    """,
)


@app.command()
def cost(
    noise: inputs.NoiseOption,
    mechanism: inputs.MechanismOption = inputs.GAUSSIAN,
    count: inputs.CountOption = 1,
    rate: inputs.RateOption = None,
    subset: inputs.SubsetOption = None,
    delta: inputs.DeltaOption = 1e-6,
    relation: inputs.RelationOption = Relation.REPLACE_ONE,
    records: inputs.RecordsOption = None,
    dimension: inputs.DimensionOption = 1,
    grid: inputs.GridOption = 2.0**-10,
    choices: inputs.ChoicesOption = 2,
    json: inputs.JsonOption = False,
) -> None:
    """What does this cost? Plain words first, then the numbers.

    \b
    Examples:
      unisono privacy cost --noise 4
      unisono privacy cost --noise 1 --rate 0.01 --count 1000 --delta 1e-5
      unisono privacy cost --mechanism laplace --noise 10 --delta 0
      unisono privacy cost --noise 4 --subset 256/10000 --count 100
    """
    question = TypedQuestion(
        mechanism,
        count,
        inputs.sampler_from(rate, subset),
        relation,
        delta,
        dimension,
        grid,
        choices,
    )
    warn(inputs.warn_if_large(delta, records))
    from unisono.cli import answers, privacy_text

    found = answers.cost(question, noise)
    if json:
        write_json(found.to_json())
    else:
        privacy_text.write_cost(found)


@app.command()
def calibrate(
    epsilon: Annotated[float, typer.Option(help="The promise: at most this epsilon.")],
    mechanism: inputs.MechanismOption = inputs.GAUSSIAN,
    count: inputs.CountOption = 1,
    rate: inputs.RateOption = None,
    subset: inputs.SubsetOption = None,
    delta: inputs.DeltaOption = 1e-6,
    relation: inputs.RelationOption = Relation.REPLACE_ONE,
    records: inputs.RecordsOption = None,
    dimension: inputs.DimensionOption = 1,
    grid: inputs.GridOption = 2.0**-10,
    choices: inputs.ChoicesOption = 2,
    json: inputs.JsonOption = False,
) -> None:
    """How much noise keeps a promise? The least noise multiplier; epsilon is never exceeded.

    \b
    Examples:
      unisono privacy calibrate --epsilon 1 --delta 1e-6
      unisono privacy calibrate --epsilon 1 --delta 1e-5 --rate 0.01 --count 1000
      unisono privacy calibrate --epsilon 0.5 --delta 0 --mechanism laplace
    """
    question = TypedQuestion(
        mechanism,
        count,
        inputs.sampler_from(rate, subset),
        relation,
        delta,
        dimension,
        grid,
        choices,
    )
    warn(inputs.warn_if_large(delta, records))
    from unisono.cli import answers, privacy_text

    found = answers.calibrate(question, epsilon)
    if json:
        write_json(found.to_json())
    else:
        privacy_text.write_calibration(found)


@app.command()
def compare(
    noise: inputs.NoiseOption,
    mechanism: inputs.MechanismOption = inputs.GAUSSIAN,
    count: inputs.CountOption = 1,
    rate: inputs.RateOption = None,
    subset: inputs.SubsetOption = None,
    delta: inputs.DeltaOption = 1e-6,
    relation: inputs.RelationOption = Relation.REPLACE_ONE,
    records: inputs.RecordsOption = None,
    dimension: inputs.DimensionOption = 1,
    grid: inputs.GridOption = 2.0**-10,
    choices: inputs.ChoicesOption = 2,
    plot: inputs.PlotOption = None,
    json: inputs.JsonOption = False,
) -> None:
    """All accountants side by side; those that must not be used here are marked, with the reason.

    \b
    Examples:
      unisono privacy compare --noise 10 --count 100
      unisono privacy compare --noise 1 --rate 0.01 --relation zero-out
      unisono privacy compare --mechanism laplace --noise 2 --count 1000
      unisono privacy compare --noise 4 --count 10 --plot compare.png
    """
    question = TypedQuestion(
        mechanism,
        count,
        inputs.sampler_from(rate, subset),
        relation,
        delta,
        dimension,
        grid,
        choices,
    )
    inputs.check_picture(plot)
    warn(inputs.warn_if_large(delta, records))
    from unisono.cli import comparison, privacy_text

    lines = comparison.compare(question, noise)
    if plot:
        from unisono.cli import plots

        plots.draw_comparison(question, noise, lines, plot)
    if json:
        document = {"delta": delta, "relation": str(relation), "picture": plot}
        write_json({**document, "accountants": [line.to_json() for line in lines]})
    else:
        privacy_text.write_comparison(question, noise, lines, plot)


@app.command()
def curve(
    noise: inputs.NoiseOption,
    mechanism: inputs.MechanismOption = inputs.GAUSSIAN,
    count: inputs.CountOption = 100,
    rate: inputs.RateOption = None,
    subset: inputs.SubsetOption = None,
    delta: inputs.DeltaOption = 1e-6,
    relation: inputs.RelationOption = Relation.REPLACE_ONE,
    records: inputs.RecordsOption = None,
    dimension: inputs.DimensionOption = 1,
    grid: inputs.GridOption = 2.0**-10,
    choices: inputs.ChoicesOption = 2,
    plot: inputs.PlotOption = None,
    json: inputs.JsonOption = False,
) -> None:
    """A picture: epsilon over the rounds, and how well any test can tell two records apart.

    \b
    Examples:
      unisono privacy curve --noise 40 --count 100 --plot curve.png
      unisono privacy curve --noise 1 --rate 0.01 --count 1000 --plot curve.pdf
      unisono privacy curve --noise 40 --count 100 --json
    """
    question = TypedQuestion(
        mechanism,
        count,
        inputs.sampler_from(rate, subset),
        relation,
        delta,
        dimension,
        grid,
        choices,
    )
    inputs.check_picture(plot)
    warn(inputs.warn_if_large(delta, records))
    from unisono.cli import answers, privacy_text

    found = answers.picture(question, noise)
    if plot:
        from unisono.cli import plots

        plots.draw_picture(found, plot)
    if json:
        write_json({**found.to_json(), "picture": plot})
    else:
        privacy_text.write_picture(found, plot)
