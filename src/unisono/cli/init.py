"""`unisono init`: a few questions, and a study file that `unisono check` accepts."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from unisono.cli import inputs
from unisono.cli.output import echo, write_json
from unisono.core.trust import Trust
from unisono.errors import InvalidInput

if TYPE_CHECKING:
    from unisono.studies.template import Answers

_LONGEST_HEADER = 2**20
_T = TypeVar("_T")


def init(
    file: Annotated[Path, typer.Argument(metavar="[FILE]", help="The study file to write.")] = Path(
        "study.toml"
    ),
    title: Annotated[str | None, typer.Option(help="What the study is about.")] = None,
    model: Annotated[
        str | None, typer.Option(help="What is to be learnt; `unisono models` lists them.")
    ] = None,
    header: Annotated[
        Path | None,
        typer.Option(help="A file whose header line names the columns; its records stay unread."),
    ] = None,
    codebook: Annotated[
        Path | None,
        typer.Option(
            help="Declare columns from a codebook (.csv), an export of information_schema.columns, "
            "or the schema of a .parquet file; no value is read."
        ),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=WHAT",
            help="A column: age=0:120 (public bounds), smoker=yes,no (all values), "
            "stage=mild<severe, ill=true-false or seen=2010-01-01:2024-12-31. Repeatable.",
        ),
    ] = None,
    target: Annotated[str | None, typer.Option(help="The column to predict.")] = None,
    parties: Annotated[
        str | None, typer.Option(help="Names and public sizes: north=300,south=200.")
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="What the study may cost. (default: 1)")
    ] = None,
    delta: Annotated[float | None, typer.Option(help="(default: far below 1 / records)")] = None,
    trust: Annotated[
        Trust | None,
        typer.Option(metavar="MODE", help=f"{', '.join(Trust)}. (default: secure-sum)"),
    ] = None,
    algorithm: Annotated[
        str, typer.Option(help="How it is learnt; `unisono algorithms` lists them.")
    ] = "auto",
    server: Annotated[str | None, typer.Option(help="HOST:PORT, for several machines.")] = None,
    test: Annotated[str | None, typer.Option(help="A file of PUBLIC test records.")] = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Ask nothing that has a default.")
    ] = False,
    json: inputs.JsonOption = False,
) -> None:
    """Write a first study file from a few answers.

    Of a data file only the names in its header are read, never a record: bounds and values must be
    public knowledge. A codebook names them in columns name, type, minimum, maximum, values and
    label; what it leaves open is written as TODO, which `unisono check` refuses until it is filled
    in. What is given as an option is not asked for. No file is overwritten.

    \b
    Examples:
      unisono init
      unisono init --header north.csv
      unisono init --codebook codebook.csv
      unisono init ages.toml --title Ages --model statistics --column age=0:120 \\
          --parties north=300,south=200 --yes
    """
    from unisono.studies.template import Answers

    _require_new(file)
    ask = _Asking(quiet=yes or json)
    wanted = _model(ask, model)
    named, labels = _declared(ask, codebook, column or [], header)
    answers = Answers(
        title=title or ask.text("What is the study about?", "--title", "A first study"),
        model=wanted,
        columns=named,
        target=_target(ask, target, wanted, named),
        parties=_parties(ask, parties),
        epsilon=ask.number("How much may it cost (epsilon; 1 is good)?", "--epsilon", 1.0, epsilon),
        delta=delta,
        trust=trust,
        algorithm=algorithm,
        server=server,
        test=test,
        labels=labels,
    )
    _write(file, answers)
    if json:
        more = {"to_fill_in": list(answers.unfilled)} if answers.unfilled else {}
        write_json({"file": str(file), **more})
        return
    if answers.unfilled:
        echo(
            f"to fill in, from public knowledge, where the file says TODO: "
            f"{', '.join(answers.unfilled)}"
        )
    echo(f"wrote {file}; read it, and change what you like. Then:")
    echo(f"  unisono check {file}               what it means and costs")
    echo(f"  unisono run {file} --data FOLDER   run it on this machine")


# ------------------------------------------------------------- asking


class _Asking:
    """Questions at the terminal; what nobody answers is an error that names the option."""

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet

    def text(self, question: str, option: str, default: str | None = None) -> str:
        if self.quiet and default is not None:
            return default
        if self.quiet:
            raise InvalidInput(f"nothing answers {question!r}: give {option}")
        try:
            return str(typer.prompt(question, default=default, err=True)).strip()
        except typer.Abort:
            raise InvalidInput(
                f"no answer to {question!r}: give {option}, or run this at a terminal; nothing was "
                "written"
            ) from None

    def answer(
        self, question: str, option: str, read: Callable[[str], _T], default: str | None = None
    ) -> _T:
        """An answer that can be read; who mistypes at a terminal is asked again."""
        while True:
            said = self.text(question, option, default)
            try:
                return read(said)
            except InvalidInput as error:
                if self.quiet or not sys.stdin.isatty():
                    raise
                echo(f"  {error}", err=True)

    def number(self, question: str, option: str, default: float, given: float | None) -> float:
        if given is not None:
            return given

        def read(said: str) -> float:
            try:
                return float(said)
            except ValueError:
                raise InvalidInput(f"{said!r} is no number: answer as {default:g}") from None

        return self.answer(question, option, read, f"{default:g}")


def _model(ask: _Asking, given: str | None) -> str:
    from unisono.models.registry import model_named, models

    def known(said: str) -> str:
        return model_named(said).name

    if given is not None:
        return known(given)
    for kind in models().values():
        echo(f"  {kind.name:<30}{kind.summary}", err=True)
    return ask.answer("What do you want to learn?", "--model", known)


def _declared(
    ask: _Asking, codebook: Path | None, given: list[str], header: Path | None
) -> tuple[dict[str, Any], dict[str, str]]:
    """The columns, and what people call them; what is given counts before the codebook."""
    if codebook is None:
        return _columns(ask, given, _names(header)), {}
    from unisono.studies.codebook import read_codebook

    if header is not None:
        raise InvalidInput("--codebook and --header both name the columns: give one of them")
    found = read_codebook(codebook)
    for name, kind in found.left_out.items():
        echo(f"left out: {name}, as no column of a study holds {kind}", err=True)
    named = dict(found.columns)
    if given:
        named.update(_columns(ask, given, []))
    return named, dict(found.labels)


def _columns(ask: _Asking, given: list[str], names: list[str]) -> dict[str, Any]:
    from unisono.studies.source import TODO
    from unisono.studies.template import parse_column

    found: dict[str, Any] = {}
    for entry in given:
        name, _, what = (part.strip() for part in entry.partition("="))
        if not name or not what:
            raise InvalidInput(f"--column {entry!r}: write NAME=LOW:HIGH or NAME=VALUE,VALUE")
        if names and name not in names:
            raise InvalidInput(f"--column {name!r}: the header has {', '.join(names)}")
        found[name] = parse_column(what)
    if given and (not names or set(names) <= set(found)):
        return found
    if ask.quiet and names and not given:
        # Nobody is there to ask: what only people know is left to be filled in, as of a codebook.
        return {name: {"kind": "number", "bounds": TODO} for name in names}
    echo(
        "For each column: LOW:HIGH are the public bounds of a number, words with commas all values "
        "of a category; '-' leaves it out.",
        err=True,
    )
    for name in names or ask.answer("Which columns (names with commas)?", "--column", _listed):
        if name not in found:
            default = "-" if names else None
            what = ask.answer(f"  {name}", f"--column {name}=...", _column, default)
            if what is not None:
                found[name] = what
    if not found:
        raise InvalidInput("no column is left: give at least one with --column NAME=LOW:HIGH")
    return found


def _listed(said: str) -> list[str]:
    names = [part.strip() for part in said.split(",") if part.strip()]
    if not names or any("=" in name or ":" in name for name in names):
        raise InvalidInput(f"{said!r}: only names here, as age,sex; bounds are asked for next")
    return names


def _column(said: str) -> Any:
    """What a column holds, or None where it is left out."""
    from unisono.studies.template import parse_column

    return None if said == "-" else parse_column(said)


def _target(ask: _Asking, given: str | None, model: str, columns: dict[str, Any]) -> str | None:
    from unisono.models.model import Target
    from unisono.models.registry import model_named

    def known(said: str) -> str:
        if said not in columns:
            raise InvalidInput(f"target {said!r} is no column: there are {', '.join(columns)}")
        return said

    if given is not None:
        return known(given)
    if model_named(model).target is Target.NONE:
        return None
    question = "Which column is to be predicted?"
    return ask.answer(question, "--target", known, list(columns)[-1])


def _parties(ask: _Asking, given: str | None) -> dict[str, int]:
    from unisono.studies.template import parse_parties

    question = "Who takes part, with how many records (north=300,south=200,...)?"
    return parse_parties(given) if given else ask.answer(question, "--parties", parse_parties)


# ------------------------------------------------------------- files


def _names(header: Path | None) -> list[str]:
    """Column names, from the first line and nothing else; separated as it says."""
    from unisono.data.csv_file import header_of

    if header is None:
        return []
    try:
        if header.suffix.lower() == ".parquet":
            import pyarrow.parquet

            return list(pyarrow.parquet.read_schema(header).names)
        with header.open("rb", buffering=0) as file:  # not a byte beyond the first line
            line = file.readline(_LONGEST_HEADER).rstrip(b"\r\n")
        names = [name.strip() for name in header_of(header, line).names]
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no table"
        raise InvalidInput(f"{header}: its header cannot be read: {reason}") from None
    names = [name for name in names if name]  # R and pandas write row numbers without a name
    if not names or any(map(_is_value, names)):
        raise InvalidInput(
            f"{header}: the first line looks like a record, not like names of columns: name the "
            "columns in it, or give --column"
        )
    return names


def _is_value(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _require_new(file: Path) -> None:
    if file.exists():
        raise InvalidInput(f"{file} exists already: it is not overwritten; name another file")
    if not file.parent.is_dir():
        raise InvalidInput(f"{file}: there is no folder {file.parent}; make it first")


def _write(file: Path, answers: "Answers") -> None:
    """Read it back before it is written: what `check` would refuse is refused here."""
    import warnings

    from unisono.studies.build import build
    from unisono.studies.file import parse_study
    from unisono.studies.template import study_text

    text = study_text(answers)
    if not answers.unfilled:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # `check` says all of it, with remedies
            build(parse_study(text, str(file)))
    try:
        with file.open("x", encoding="utf-8") as output:
            output.write(text)
    except OSError as error:
        raise InvalidInput(f"{file} cannot be written: {error.strerror}") from None
