"""`unisono export`: a finished model for other programs, people, registries and accountants."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unisono.cli import inputs
from unisono.cli.output import echo, warn, write_json, write_text
from unisono.cli.predict import RunArgument, run_with_result
from unisono.errors import InvalidInput

if TYPE_CHECKING:
    from unisono.models.fitted import FittedModel


class To(StrEnum):
    """What `export` writes."""

    SKLEARN = "sklearn"
    ONNX = "onnx"
    JSON = "json"
    CARD = "card"
    REGISTRY = "registry"
    DP_EVENTS = "dp-events"


# Where nobody says where: the name of the file, beside the run.
_NAMES = {
    To.SKLEARN: "model.pkl",
    To.ONNX: "model.onnx",
    To.JSON: "model.json",
    To.CARD: "card.md",
    To.REGISTRY: "registry.json",
    To.DP_EVENTS: "dp-events.json",
}


def export(
    run: RunArgument,
    to: Annotated[To, typer.Option(metavar="NAME", help=f"One of {', '.join(To)}.")],
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write here; a card as .md or .html. (default: in RUN)"),
    ] = None,
    relation: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="dp-events: between which neighbours, as zero-out."),
    ] = None,
    json: inputs.JsonOption = False,
) -> None:
    """Write a finished model for others; no records are read, and nothing is spent.

    sklearn: a pickled pipeline of scikit-learn's own parts, which predicts without unisono. onnx: a
    graph for ONNX runtimes (needs the extra "onnx"). json: plain numbers, which thirty lines of any
    language score with. card: purpose, data, privacy, quality and limits for people. registry: the
    fields of the public registry of deployments. dp-events: what was shown, as events that Google's
    dp-accounting adds up by itself.

    \b
    Examples:
      unisono export study.run --to card
      unisono export study.run --to card --output card.html
      unisono export study.run --to onnx --output risk.onnx
      unisono export study.run --to dp-events --relation zero-out
    """
    from unisono.models.fitted import load

    if relation is not None and to is not To.DP_EVENTS:
        raise InvalidInput(f"--relation is for dp-events, not for {to}: leave it out")
    model = load(run_with_result(run))
    if model.simulated:
        warn("this model is of a simulation: its noise was predictable, it protects nobody")
    path = output or model.folder / _NAMES[to]
    content = _content(model, to, path, relation)
    if isinstance(content, bytes):
        try:
            path.write_bytes(content)
        except OSError as error:
            raise InvalidInput(f"cannot write {path}: {error.strerror}; choose another") from None
    else:
        write_text(content, path)
    if json:
        write_json({"export": str(path), "to": str(to)})
    else:
        echo(f"{to} is in {path}")


def _content(model: "FittedModel", to: To, path: Path, relation: str | None) -> str | bytes:
    if to is To.SKLEARN:
        from unisono.exports import scikit_learn

        return scikit_learn.as_bytes(model)
    if to is To.ONNX:
        from unisono.exports import onnx_graph

        return onnx_graph.as_bytes(model)
    if to is To.JSON:
        from unisono.exports import plain_json

        return plain_json.as_text(model)
    if to is To.DP_EVENTS:
        from unisono.exports import dp_events

        return dp_events.as_text(model, relation)
    from unisono.exports import statement

    if to is To.REGISTRY:
        return statement.as_registry(model)
    if path.suffix.lower() in (".html", ".htm"):
        return statement.as_html(model)
    return statement.as_markdown(model)
