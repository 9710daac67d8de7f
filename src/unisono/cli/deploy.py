"""A study between machines: `unisono keygen`, `roster`, `coordinate`, `join`, `local-cluster`."""

import logging
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unisono.cli import inputs
from unisono.cli.budget import BudgetOption, ask_on_terminal, parse_budget, say_outlooks
from unisono.cli.deploy_record import add_report, evaluation_in, plain_warnings, recorded
from unisono.cli.deploy_text import bar_of_rounds, consent, report, require_flower
from unisono.cli.output import CleanFormatter, echo, write_json
from unisono.errors import InvalidInput

if TYPE_CHECKING:
    from unisono.cli.check_data import Rehearsal
    from unisono.deployment.party import PartyConfig

StudyArgument = Annotated[Path, typer.Argument(metavar="STUDY", help="The study file, study.toml.")]
RosterOption = Annotated[
    Path | None,
    typer.Option(help="The roster of all parties. (default: roster.toml beside the study)"),
]
InsecureOption = Annotated[
    bool, typer.Option("--insecure", help="Without TLS and node keys: on this machine only.")
]
DeadlineOption = Annotated[
    float | None, typer.Option(help="Seconds to wait for an answer. (default: the study's)")
]
ConnectTimeoutOption = Annotated[
    float, typer.Option(help="Seconds to wait for the other side to appear.")
]


def keygen(
    name: Annotated[str, typer.Argument(help="The party's name, as in the study.")],
    folder: Annotated[Path, typer.Option(help="Where the keys go.")] = Path("keys"),
    json: inputs.JsonOption = False,
) -> None:
    """Make a party's keys, and the card that it gives to the others.

    The signing key proves that a message is the party's own, the node key opens the connection.
    Both stay here, readable by you only; NAME.card is public. Read its fingerprint to the others
    over the phone: nothing else tells them that the card is yours.

    \b
    Example:
      unisono keygen north --folder keys
    """
    from unisono.deployment.files import folder_for
    from unisono.studies.keys import keygen as make

    card = make(folder_for(folder), name)
    if json:
        write_json({"name": name, "folder": str(folder), "fingerprint": card.fingerprint})
        return
    echo(f"keys of {name} are in {folder}; give {folder / f'{name}.card'} to the others")
    echo(f"fingerprint: {card.fingerprint}")


def roster(
    cards: Annotated[list[Path], typer.Argument(help="The cards of all parties, in any order.")],
    output: Annotated[Path, typer.Option(help="The roster to write.")] = Path("roster.toml"),
    json: inputs.JsonOption = False,
) -> None:
    """Put the cards of all parties into one roster, which everybody holds.

    \b
    Example:
      unisono roster north.card south.card east.card
    """
    from unisono.studies.keys import load_card
    from unisono.studies.roster import make_roster

    members = make_roster([load_card(card) for card in cards], output)
    if json:
        write_json({"roster": str(output), "fingerprint": members.fingerprint})
        return
    echo(f"{output} names {', '.join(members.roster.names)}")
    echo(f"fingerprint, the same at every party: {members.fingerprint}")


def coordinate(
    study: StudyArgument,
    roster: RosterOption = None,
    folder: Annotated[
        Path | None, typer.Option(help="Where the run is kept. (default: STUDY.run)")
    ] = None,
    address: Annotated[
        str | None, typer.Option(help="HOST:PORT for the parties. (default: the study's)")
    ] = None,
    listen: Annotated[
        str | None, typer.Option(help="Address to listen on, as 0.0.0.0. (default: HOST)")
    ] = None,
    san: Annotated[
        list[str] | None, typer.Option(help="Another name of this host, for its certificate.")
    ] = None,
    deadline: DeadlineOption = None,
    connect_timeout: ConnectTimeoutOption = 600.0,
    stock: Annotated[
        bool, typer.Option("--stock", help="Also serve stock SuperNodes (weaker; no secure sum).")
    ] = False,
    insecure: InsecureOption = False,
    json: inputs.JsonOption = False,
) -> None:
    """Run the server of a study; it learns what the study's trust says, and nothing more.

    Parties need the file tls/authority.crt from the folder to recognise this server. If the server
    stops for any reason, the same command goes on where it was: nothing is paid twice. When a party
    was away at the end, the same command hands out the result once more.

    \b
    Examples:
      unisono coordinate study.toml
      unisono coordinate study.toml --address study.example.org:9092 \\
        --listen 0.0.0.0
    """
    require_flower()
    from unisono.core.trust import Trust
    from unisono.deployment import coordinate as server
    from unisono.deployment.job import Job
    from unisono.engines.distributed.server import Conditions
    from unisono.studies.file import load_study

    file = load_study(study)
    where = address or (file.server.address if file.server else None)
    if where is None:
        raise InvalidInput(
            f'{study} names no server: add [server] address = "HOST:PORT", or give --address'
        )
    if stock and file.trust.mode is Trust.SECURE_SUM:
        raise InvalidInput(
            "a secure sum needs parties that stay, and a stock SuperNode forgets everything after "
            "each message: leave out --stock, or agree on trust local"
        )
    place = server.place_of(where, listen, tuple(san or ()), insecure)
    place = replace(place, stock=stock)
    wait = deadline or (file.server.deadline if file.server else 60.0)
    home = folder or study.with_suffix(".run")
    job = Job.begin(home, study, _roster(study, roster), Conditions(wait, connect_timeout))
    late = job.uninformed(file.names)
    if job.finished and not late:
        raise InvalidInput(f"{home} holds the result of this study already: it runs once")
    if job.finished:
        echo(f"the study is over; {_listed(late)} may fetch the result now", err=True)
    with (
        plain_warnings(),
        server.serving(job, place) as link,
        bar_of_rounds(json) as follow,
        recorded(home, file.title, "server") as record,
    ):
        if not insecure:
            echo(f"parties need {server.authority_of(job)}", err=True)
        echo(f"the server is at {where} ({link.address} here)", err=True)
        shown = server.run(job, link, follow, stock=stock)
        record.end(shown.get("failed"))
    report(shown, home, json, page=add_report(home), evaluation=evaluation_in(home))
    if late := job.uninformed(file.names):
        echo(
            f"{_listed(late)} could not be given the result: when they are back, run this command "
            "again, and `unisono join` as before",
            err=True,
        )


def _listed(names: list[str]) -> str:
    """A few names, and how many more."""
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def join(
    study: StudyArgument,
    policy: Annotated[Path, typer.Option(help="What this party allows, policy.toml.")],
    data: Annotated[
        Path | None,
        typer.Option(help="This party's records, .csv or .parquet. (default: the policy's source)"),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="This party's name. (default: the policy's data set)")
    ] = None,
    roster: RosterOption = None,
    keys: Annotated[
        Path | None, typer.Option(help="This party's keys. (default: keys beside the policy)")
    ] = None,
    server: Annotated[
        str | None, typer.Option(help="HOST:PORT of the server. (default: the study's)")
    ] = None,
    ca_cert: Annotated[
        Path | None,
        typer.Option(help="The server's certificate. (default: authority.crt beside the study)"),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Where the result goes. (default: beside the policy)")
    ] = None,
    connect_timeout: ConnectTimeoutOption = 600.0,
    insecure: InsecureOption = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Only test all of it: nothing is sent, nothing is spent."),
    ] = False,
    json: inputs.JsonOption = False,
) -> None:
    """Take part in a study with this party's records, on this party's own terms.

    Before anything is sent, the study is checked against the policy and the budget. In every round
    this party pays from its own ledger, adds its own noise and signs what it says; only code that
    is installed here touches the records. If this process stops for any reason, the same command
    goes on.

    With --dry-run records, policy, budget, keys, roster and the server's certificate are tested,
    and all problems are shown at once, on this screen only; exits with 1 if there are any.

    \b
    Examples:
      unisono join study.toml --data records.csv --policy policy.toml
      unisono join study.toml --data records.csv --policy policy.toml --dry-run
    """
    require_flower()
    from unisono.cli.check_data import show
    from unisono.deployment import party
    from unisono.studies.file import load_study
    from unisono.studies.policy_file import load_policy

    log = logging.StreamHandler(sys.stderr)
    log.setFormatter(CleanFormatter("unisono: %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[log])
    logging.getLogger("httpx").setLevel(logging.WARNING)  # it would log every request
    file = load_study(study)
    where = server or (file.server.address if file.server else None)
    if where is None:
        raise InvalidInput(f"{study} names no server: give --server HOST:PORT")
    own = name or load_policy(policy).dataset.name
    seat = party.PartyConfig(
        own,
        study,
        _roster(study, roster),
        data or policy,
        policy,
        keys or policy.parent / "keys",
        output or policy.parent / f"{study.stem}.{own}",
    )
    authority = ca_cert or study.parent / "authority.crt"
    if dry_run:
        show(_rehearsed(seat, where, authority, insecure), study, json)
        return
    shown = party.written_result(seat)
    if shown is not None:
        with recorded(seat.output, file.title, "party", own) as record:
            record.end(shown.get("failed"))
        report(shown, seat.output, json, page=add_report(seat.output))
        return
    rounds = [0]

    def turn(number: int) -> None:
        echo(f"{own}: round {number + 1} of {rounds[0]}", err=True)

    connection = party.connection(where, authority, insecure)
    with plain_warnings():
        member = party.Member(seat, where, turn=turn)
    rounds[0] = member.agreed.built.study.algorithm.rounds
    consent(member)
    with recorded(seat.output, file.title, "party", own) as record:
        member.prepare()
        party.serve(
            member,
            connection,
            connect_timeout=connect_timeout,
            connected=lambda node: echo(f"{own}: connected to {where}", err=True),
        )
        shown = member.finish()
        record.end(shown.get("failed"))
    report(shown, seat.output, json, page=add_report(seat.output))


def local_cluster(
    study: StudyArgument,
    data: Annotated[
        Path, typer.Option(help="Folder with NAME.csv or NAME/records.csv for every party.")
    ],
    folder: Annotated[
        Path | None,
        typer.Option(help="Keep keys and results here. (default: removed at the end)"),
    ] = None,
    budget: BudgetOption = None,
    deadline: DeadlineOption = None,
    connect_timeout: ConnectTimeoutOption = 120.0,
    json: inputs.JsonOption = False,
) -> None:
    """Try a study on this machine as between many: a server and a process for each party.

    Keys, roster, certificates and missing policies are made for you; TLS, node keys, signatures
    and the secure sum are the real ones. So is what it costs: ledgers lie beside the records, and
    where there is neither policy nor ledger, --budget says what all studies may ever take.

    \b
    Example:
      unisono local-cluster study.toml --data hospitals --folder trial --budget 6
    """
    require_flower()
    from unisono.core.scratch import scratch_folder
    from unisono.deployment.local import run_local
    from unisono.deployment.parties_here import find_data
    from unisono.engines.distributed.server import Conditions
    from unisono.runs.folder import CERTIFICATE_TEXT
    from unisono.studies.file import load_study

    file = load_study(study)
    given = None if budget is None else parse_budget(budget, file.privacy.delta)
    wait = deadline or (file.server.deadline if file.server else 60.0)
    with scratch_folder() as scratch:
        home = folder or scratch
        server = home.resolve() / "server"
        with plain_warnings(), bar_of_rounds(json) as follow:
            shown = run_local(
                study,
                find_data(file.names, data),
                home.resolve(),
                follow,
                Conditions(wait, connect_timeout),
                lambda: recorded(server, file.title, "server"),
                given,
                ask_on_terminal,
                say_outlooks,
            )
        text = (server / CERTIFICATE_TEXT).read_text(encoding="utf-8")
        page = add_report(server) if folder else None
        found = evaluation_in(server)
        report(shown, home if folder else None, json, text, evaluation=found, page=page)


# ------------------------------------------------------------------- parts


def _rehearsed(seat: "PartyConfig", where: str, authority: Path, insecure: bool) -> "Rehearsal":
    """Whatever would keep a party from joining: its records, its terms, and its files."""
    from unisono.cli.check_data import rehearse, with_refusals
    from unisono.deployment import party
    from unisono.studies.build import build
    from unisono.studies.file import load_study
    from unisono.studies.policy_file import load_policy

    file, policy = load_study(seat.study), load_policy(seat.policy)
    file.party(seat.name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # `unisono check` says all of it, with remedies
        built = build(file)
    found = rehearse(built, seat.data, seat.name, policy)
    return with_refusals(found, party.objections(seat, built, policy, where, authority, insecure))


def _roster(study: Path, given: Path | None) -> Path:
    return given or study.parent / "roster.toml"
