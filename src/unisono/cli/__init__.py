"""The command line: `unisono privacy`, `ledger`, `query`, `reproduce`, `audit`, and a study's
`keygen`, `roster`, `coordinate`, `join` and `local-cluster`.

Only typer is imported here; JAX, SciPy, matplotlib and the accountants are imported inside the
commands that need them, so that `unisono --help` answers at once.
"""

import sys
from typing import Annotated, Any

import click
import typer
from typer.core import TyperGroup

from unisono.cli import deploy
from unisono.cli.audit import audit as audit_command
from unisono.cli.ledger import app as ledger_commands
from unisono.cli.privacy import app as privacy_commands
from unisono.cli.query import query as query_command
from unisono.cli.reproduce import reproduce as reproduce_command
from unisono.errors import UnisonoError

INTERRUPTED = 130

_HELP = """Differentially private learning across parties that cannot share their data.

\b
Examples:
  unisono privacy cost --noise 4 --count 10          what does this cost?
  unisono privacy calibrate --epsilon 1 --delta 1e-6 how much noise do I need?
  unisono ledger show ages.ledger                    what has been spent?
  unisono query a.csv b.csv --mean age ...           ask several parties at once
  unisono reproduce composition                      run an experiment again
  unisono audit study.toml                           try to prove a promise wrong
  unisono local-cluster study.toml --data folder     try a study between machines on this one
  unisono coordinate study.toml                      run a study's server
  unisono join study.toml --data a.csv --policy p.toml   take part in a study

\b
Exit codes:
  0 done                  2 bad input           3 over budget
  4 claim would be false  5 ledger is broken    6 an audit failed
  130 interrupted
"""


class PlainErrors(TyperGroup):
    """Errors raised on purpose become one message on stderr and their own exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except UnisonoError as error:
            click.echo(f"unisono: {error}", err=True)
            raise click.exceptions.Exit(error.exit_code) from None
        except KeyboardInterrupt:
            click.echo("unisono: interrupted", err=True)
            raise click.exceptions.Exit(INTERRUPTED) from None


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        click.echo(f"unisono {version('unisono')}")
        raise typer.Exit


app = typer.Typer(
    name="unisono",
    cls=PlainErrors,
    help=_HELP,
    no_args_is_help=True,
    add_completion=False,
    # Local variables in a traceback could hold someone's records.
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(privacy_commands, name="privacy")
app.add_typer(ledger_commands, name="ledger")
app.command()(query_command)
app.command()(audit_command)
app.command()(reproduce_command)
for _command in (deploy.keygen, deploy.roster, deploy.coordinate, deploy.join):
    app.command()(_command)
app.command("local-cluster")(deploy.local_cluster)


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and stop."
        ),
    ] = False,
) -> None:
    """Options that come before every command."""


def main() -> None:
    """Entry point of the `unisono` program."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal without Unicode shows '?' for a letter it lacks instead of failing.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")
    app()
