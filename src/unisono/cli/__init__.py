"""The command line, in the order in which people meet it: plan, ask, study, join, look, attack.

Only typer is imported here, never the click under it: newer versions of typer carry a click of
their own, which does not know the other's exceptions. JAX, SciPy, matplotlib and the accountants
are imported inside the commands that need them, so that `unisono --help` answers at once.
"""

import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from unisono.cli import deploy
from unisono.cli.attack import attack
from unisono.cli.audit import audit
from unisono.cli.check import check
from unisono.cli.dashboard import dashboard
from unisono.cli.doctor import doctor
from unisono.cli.evaluate import evaluate
from unisono.cli.export import export
from unisono.cli.init import init
from unisono.cli.ledger import app as ledger_commands
from unisono.cli.output import echo
from unisono.cli.plan import plan
from unisono.cli.policy import app as policy_commands
from unisono.cli.predict import predict
from unisono.cli.privacy import app as privacy_commands
from unisono.cli.query import query
from unisono.cli.registries import algorithms, models
from unisono.cli.report import report
from unisono.cli.reproduce import reproduce
from unisono.cli.run import run
from unisono.cli.schema import schema
from unisono.errors import UnisonoError

INTERRUPTED = 130

_HELP = """Differentially private learning across parties that cannot share their data.

\b
Examples:
  unisono models                             # what can be learnt?
  unisono init                               # write a study file
  unisono plan study.toml                    # how good will it be?
  unisono check study.toml                   # what does it mean, cost, risk?
  unisono policy init --budget 6 a.csv       # what may ever be taken?
  unisono run study.toml --data folder       # run it on this machine
  unisono predict study.run new.csv          # use what was learnt
  unisono export study.run --to card         # a model card, ONNX, ...
  unisono evaluate study.run --data folder   # how good, on other records?
  unisono query a.csv b.csv --mean age ...   # ask several parties at once
  unisono local-cluster study.toml --data f  # a rehearsal, on this machine
  unisono coordinate study.toml              # run a study's server
  unisono join study.toml --data a.csv ...   # take part in a study
  unisono dashboard                          # look at all runs here
  unisono ledger show ages.ledger            # what is spent, what is left?
  unisono privacy cost --noise 4 --count 10  # what does this cost?
  unisono attack study.toml                  # try to get records back
  unisono audit study.toml                   # try to prove a promise wrong

\b
Exit codes:
  0 done                  2 bad input           3 over budget
  4 claim would be false  5 ledger is broken    6 an audit failed
  130 interrupted
"""


class PlainErrors(TyperGroup):
    """Errors raised on purpose become one message on stderr and their own exit code."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except UnisonoError as error:
            echo(f"unisono: {error}", err=True)
            raise typer.Exit(error.exit_code) from None
        except KeyboardInterrupt:
            echo("unisono: interrupted", err=True)
            raise typer.Exit(INTERRUPTED) from None


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        echo(f"unisono {version('unisono')}")
        raise typer.Exit


app = typer.Typer(
    name="unisono",
    cls=PlainErrors,
    help=_HELP,
    no_args_is_help=True,
    add_completion=True,
    # Local variables in a traceback could hold someone's records.
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
_COMMANDS: dict[str, list[Callable[..., None]]] = {
    "Before anything is spent": [models, algorithms, plan, init, check, schema],
    "Ask and learn": [query, run, predict, evaluate, export],
    "Between machines": [
        deploy.keygen,
        deploy.roster,
        deploy.coordinate,
        deploy.join,
        deploy.local_cluster,
    ],
    "Look and attack": [report, dashboard, audit, attack, reproduce, doctor],
}
for _panel, _functions in _COMMANDS.items():
    for _function in _functions:
        _name = _function.__name__.replace("_", "-")
        app.command(_name, rich_help_panel=_panel)(_function)
app.add_typer(policy_commands, name="policy", rich_help_panel="Before anything is spent")
app.add_typer(privacy_commands, name="privacy", rich_help_panel="Before anything is spent")
app.add_typer(ledger_commands, name="ledger", rich_help_panel="Look and attack")


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
