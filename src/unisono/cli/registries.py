"""`unisono models` and `unisono algorithms`: what can be learnt, and how, one line each."""

from typing import Annotated, Any

import typer

from unisono.cli import inputs
from unisono.cli.output import echo, write_json


def models(json: inputs.JsonOption = False) -> None:
    """List what can be learnt, with the algorithms that learn it.

    \b
    Examples:
      unisono models
      unisono models --json
    """
    from unisono.models.registry import algorithms_for
    from unisono.models.registry import models as known

    found = [
        {
            "name": kind.name,
            "summary": kind.summary,
            "algorithms": [one.name for one in algorithms_for(kind)],
        }
        for kind in known().values()
    ]
    if json:
        write_json(found)
        return
    for one in found:
        echo(f"{one['name']:<30}{one['summary']}")
        echo(f"{'':<30}by {', '.join(one['algorithms'])}")


def algorithms(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="Explain this one's settings.")
    ] = None,
    json: inputs.JsonOption = False,
) -> None:
    """List how models are learnt privately, or explain the settings of one algorithm.

    \b
    Examples:
      unisono algorithms
      unisono algorithms gradient-perturbation
    """
    from unisono.algorithms.registry import algorithm_named
    from unisono.algorithms.registry import algorithms as known
    from unisono.studies.schema import ALGORITHM_SECTIONS

    if name is not None:
        kind = algorithm_named(name)
        schema = ALGORITHM_SECTIONS[kind.name].model_json_schema()
        if json:
            write_json(schema)
            return
        echo(f"{kind.name}: {kind.summary}")
        for key, field in schema["properties"].items():
            if key != "name":
                default = _default(field, key in schema.get("required", ()))
                echo(f"  {key:<20}{field['description']} [{default}]")
        return
    if json:
        write_json([{"name": one.name, "summary": one.summary} for one in known().values()])
        return
    for one in known().values():
        trusts = "" if len(one.trusts) == 3 else f" (trust {', '.join(sorted(one.trusts))} only)"
        hides = "".join(f"; hides a whole {unit}" for unit in one.units if unit == "party")
        echo(f"{one.name:<26}{one.summary}{hides}{trusts}")


def _default(field: dict[str, Any], needed: bool) -> str:
    """What holds where a setting is left out, as a study file would say it."""
    from unisono.studies.template import toml_value

    if "default" not in field:  # made anew for each, as a section with defaults of its own
        return "required" if needed else "its own defaults"
    return "rule" if field["default"] is None else toml_value(field["default"])
