"""`unisono schema`: the format of study files and policies, for editors."""

import json
from pathlib import Path
from typing import Annotated

import typer

from unisono.cli.output import echo, write_text


def schema(
    policy: Annotated[
        bool, typer.Option("--policy", help="Of policy.toml instead of study.toml.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option(help="The file to write. (default: print it)")
    ] = None,
) -> None:
    """Print the JSON schema of study files, so that editors complete and check them.

    Editors with Taplo (Even Better TOML) read it from a first line `#:schema ./study.schema.json`.

    \b
    Examples:
      unisono schema --output study.schema.json
      unisono schema --policy --output policy.schema.json
    """
    from unisono.studies.file import json_schema
    from unisono.studies.policy_file import PolicyFile
    from unisono.studies.schema import StudyFile

    document = json_schema(PolicyFile if policy else StudyFile)
    write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", output)
    if output is not None:
        echo(f"wrote {output}", err=True)
