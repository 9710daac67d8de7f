"""What is submitted to Flower: a folder that names installed code, and nothing else.

A run of Flower has an app directory. Ours holds one pyproject.toml: the server's entry point (a
`module:attribute` of installed code) and the job folder, as the run's configuration. The run
notes in `outcome.json` there how it fares, so that whoever submitted it need not ask Flower.

Two kinds of party can meet it. Resident parties (resident.py) ignore the app altogether. Stock
SuperNodes run `client_app`, which serves for compatibility only: the server decides which code
runs beside their data, so their privacy rests on trust in the server, and certificates say so.
"""

import json
import traceback
from collections.abc import Callable
from pathlib import Path

from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

from unisono.engines.flower.link import GridLink
from unisono.engines.flower.messages import MESSAGE_TYPE, unwrap, wrap
from unisono.errors import InvalidInput, UnisonoError

OUTCOME, _FORMAT = "outcome.json", "unisono-outcome-1"


def server_app(main: Callable[[GridLink, Path], None]) -> ServerApp:
    """A `ServerApp` that calls main(link, job folder) and notes the outcome in the folder."""
    app = ServerApp()

    @app.main()
    def run(grid: Grid, context: Context) -> None:
        job = Path(str(context.run_config["job"]))
        note(job, context.run_id, "running")
        try:
            main(GridLink(grid), job)
        except UnisonoError as error:
            note(job, context.run_id, "failed", f"{type(error).__name__}: {error}")
            raise
        except Exception:
            note(job, context.run_id, "failed", traceback.format_exc())
            raise
        except BaseException:  # an interrupt, or Flower ending the process
            note(job, context.run_id, "stopped", "the run was stopped")
            raise
        note(job, context.run_id, "finished")

    return app


def client_app(answer: Callable[[bytes], bytes]) -> ClientApp:
    """A `ClientApp` for stock SuperNodes; weaker trust, see the module's head."""
    app = ClientApp()

    @app.query(MESSAGE_TYPE.partition(".")[2])
    def query(message: Message, context: Context) -> Message:
        return Message(wrap(answer(unwrap(message))), reply_to=message)

    return app


def _no_answer(data: bytes) -> bytes:
    raise InvalidInput(
        "this study is for resident parties: join it with `unisono join`, not with a SuperNode"
    )


# What a stock SuperNode that joins a study for resident parties gets to run.
residents_only = client_app(_no_answer)


def write_app(
    folder: Path, component: str, job: Path, client: str = f"{__name__}:residents_only"
) -> Path:
    """The app directory for `flwr run`; `component` is "module:attribute" of a `server_app`."""
    for reference in (component, client):
        module, _, attribute = reference.partition(":")
        if not all(part.isidentifier() for part in (module + "." + attribute).split(".")):
            raise InvalidInput(f"{reference!r} is not of the form module:attribute")
    folder.mkdir(parents=True, exist_ok=True)
    job.mkdir(parents=True, exist_ok=True)
    lines = [
        "[project]",
        'name = "unisono-study"',
        'version = "1.0.0"',
        'description = "Runs installed code; holds none."',
        'license = "Apache-2.0"',
        "dependencies = []",
        "[tool.flwr.app]",
        'publisher = "unisono"',
        "[tool.flwr.app.components]",
        f'serverapp = "{component}"',
        f'clientapp = "{client}"',
        "[tool.flwr.app.config]",
        f"job = {json.dumps(str(job.resolve()), ensure_ascii=False)}",
    ]
    (folder / "pyproject.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def outcome(job: Path, run_id: int) -> tuple[str, str]:
    """State ("" before it started) and detail of a run, as it noted them itself."""
    try:
        found = json.loads((job / OUTCOME).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return "", ""
    if found.get("format") != _FORMAT:
        raise InvalidInput(
            f"{job / OUTCOME} is of another format than {_FORMAT!r}: it was written by another "
            "version of unisono; install the same one for both"
        )
    return (found["state"], found["detail"]) if found["run"] == run_id else ("", "")


def note(job: Path, run_id: int, state: str, detail: str = "") -> None:
    """Write down how a run fares, for whoever started it."""
    part = job / f"{OUTCOME}.part"
    written = {"format": _FORMAT, "run": run_id, "state": state, "detail": detail}
    part.write_text(json.dumps(written), encoding="utf-8")
    part.replace(job / OUTCOME)
