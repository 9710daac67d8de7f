"""Text of others forges no screen and no page: control characters are refused where files are
parsed, and whatever is printed or drawn passes one cleaner."""

import ast
import io
import json
import logging
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest
from tests.reports.conftest import STUDY
from typer.testing import CliRunner

import unisono
from unisono.cli import app
from unisono.cli.output import CleanFormatter, console, echo, warn, write_json, write_text
from unisono.core import notebook
from unisono.core.documents import CERTIFICATE
from unisono.core.words import clean, clean_lines, controls
from unisono.dashboard import app as dashboard
from unisono.errors import InvalidInput
from unisono.exports import statement
from unisono.reports.markdown import plain
from unisono.reports.page import page
from unisono.studies.codebook import read_codebook
from unisono.studies.file import parse_study
from unisono.studies.policy_file import parse_policy
from unisono.studies.source import parse

# Lines of one's own, colors, a cleared screen, the same in one character, turned writing (both
# kinds), invisible letters, ends of lines that only some programs see, and what is not text.
ODD = {
    "line feed": "\n",
    "carriage return": "\r",
    "tab": "\t",
    "color": "\x1b[32m",
    "clear": "\x1b[2J",
    "one character control": "\x9b31m",
    "delete": "\x7f",
    "override": "\u202e",
    "isolate": "\u2066",
    "mark": "\u200f",
    "zero width": "\u200b",
    "byte order": "\ufeff",
    "tag": "\U000e0041",
    "line": "\u2028",
    "paragraph": "\u2029",
    "bell": "\x07",
}
FORGED = pytest.mark.parametrize("odd", ODD.values(), ids=list(ODD))
RUNNER = CliRunner()


def quoted(text):
    """As TOML writes it: escaped, so that no rule about raw characters helps."""
    return '"' + "".join(f"\\U{ord(letter):08X}" for letter in text) + '"'


def harmless(text):
    return not controls(text.replace("\n", "").replace("\t", ""))


# ------------------------------------------------------------- parsing


PLACES = {
    "a title": lambda odd: STUDY.replace('"Three hospitals"', quoted(f"a{odd}b")),
    "a column": lambda odd: STUDY.replace("radius =", f"{quoted(f'ra{odd}dius')} ="),
    "a category": lambda odd: STUDY.replace('"benign"', quoted(f"be{odd}nign")),
    "the target": lambda odd: STUDY.replace('target = "diagnosis"', f"target = {quoted(odd)}"),
    "a party": lambda odd: STUDY.replace('"north"', quoted(f"no{odd}rth")),
    "an unknown key": lambda odd: f"{quoted(f'a{odd}')} = 1\n" + STUDY,
    "an unknown table": lambda odd: STUDY + f"\n[{quoted(f'a{odd}')}]\nb = 1\n",
    "a value of another kind": lambda odd: STUDY.replace("epsilon = 1", f"epsilon = {quoted(odd)}"),
}


@FORGED
@pytest.mark.parametrize("place", PLACES)
def test_a_study_file_is_refused_with_what_it_wrote(place, odd):
    with pytest.raises(InvalidInput) as refused:
        parse_study(PLACES[place](odd))
    said = str(refused.value)
    assert f"U+{ord(odd[0]):04X}" in said
    assert ascii(odd)[1:-1] in said
    assert "control characters" in said
    assert harmless(said)
    # One line for each fault, each of which begins with its place.
    assert all(" line " in one for one in said.splitlines())


@pytest.mark.parametrize(
    "blank", [" ", "\u3000", "\u00a0", "\u2800", "\u3164", "\u115f"], ids=ascii
)
@pytest.mark.parametrize("place", PLACES)
def test_blanks_do_not_push_text_to_another_line(place, blank):
    """Text behind as many blanks as a screen is wide looks like a line of its own."""
    with pytest.raises(InvalidInput, match="blanks in a row") as refused:
        parse_study(PLACES[place](f"a{70 * blank}epsilon 0.01"))
    assert 8 * blank not in str(refused.value)


def test_a_few_blanks_are_text():
    title = "Three  hospitals   (2026)"
    assert parse_study(STUDY.replace("Three hospitals", title)).title == title
    text = Path("examples/omop/policy.toml").read_text(encoding="utf-8")
    spaced = text.replace('sql = """', 'sql = """' + 40 * " ")  # a query may be laid out
    assert spaced != text
    parse_policy(spaced, "policy.toml")


def test_letters_of_all_people_are_text():
    """Joiners that Persian and Hindi need, marks, spaces that do not break, and emoji."""
    title = "می\u200cخواهم क्\u200dष naïve 東京\u3000\u00a0🧬"
    assert parse_study(STUDY.replace("Three hospitals", title)).title == title
    assert clean(title) == title


@FORGED
def test_policies_and_rosters_are_refused_too(odd):
    policy = (
        f'[dataset]\nname = {quoted(f"a{odd}")}\nledger = "l"\n[budget]\nepsilon = 1\ndelta = 0\n'
    )
    with pytest.raises(InvalidInput, match="control characters"):
        parse_policy(policy, "policy.toml")
    from unisono.studies.roster import RosterFile

    with pytest.raises(InvalidInput, match="control characters"):
        parse(f"[[parties]]\nname = {quoted(f'a{odd}')}\n", "roster.toml", RosterFile)


def test_a_query_of_several_lines_is_no_forgery():
    """Of SQL alone, and of line feeds and tabs alone."""
    text = Path("examples/omop/policy.toml").read_text(encoding="utf-8")
    assert "\n" in tomllib.loads(text)["source"]["sql"]
    parse_policy(text, "policy.toml")
    forged = text.replace('sql = """', 'sql = """\\u001B[2J')
    with pytest.raises(InvalidInput, match="U\\+001B"):
        parse_policy(forged, "policy.toml")


def test_tabs_separate_cells_and_nothing_else():
    tabs = STUDY.replace("[data.columns]", '[data.csv]\nseparator = "\\t"\n[data.columns]')
    assert parse_study(tabs).data.csv.separator == "\t"
    with pytest.raises(InvalidInput, match="U\\+000A"):
        parse_study(tabs.replace('"\\t"', '"\\n"'))


@FORGED
@pytest.mark.parametrize("field", ["name", "values", "label"])
def test_a_codebook_is_refused(tmp_path, field, odd):
    row = {"name": "sex", "type": "category", "values": "F|M", "label": "sex"}
    row[field] = f"a{odd}b|c"
    book = tmp_path / "book.csv"
    cells = ",".join(f'"{cell}"' for cell in row.values())
    book.write_text(f"{','.join(row)}\n{cells}\n", encoding="utf-8", newline="")
    if odd in "\n\r\u2028\u2029":  # lines are cut here, before cells are
        assert not controls(str(read_codebook(book)))
        return
    with pytest.raises(InvalidInput, match="control characters") as refused:
        read_codebook(book)
    assert harmless(str(refused.value))


# ------------------------------------------------------------- screens

TEXT = "title{}  epsilon 0.001, forged"


@FORGED
def test_everything_that_a_command_prints_is_cleaned(odd, capsys):
    text = TEXT.format(odd)
    echo(text)
    echo(text, err=True)
    warn(text)
    console().print(text)
    from rich.table import Table
    from rich.text import Text

    table = Table("head")
    table.add_row(text)
    console().print(table)
    console().print(Text(text))
    write_json({text: [text]})
    out, err = capsys.readouterr()
    for shown in (out, err):
        assert "epsilon 0.001" in shown.replace("\n", " ")
        assert harmless(shown)
    lines = out[out.index("{") :]
    assert json.loads(lines) == {text: [text]}  # nothing is lost, all is escaped


@FORGED
def test_text_for_a_terminal_is_cleaned_and_for_a_pipe_as_it_is(odd, monkeypatch):
    text = TEXT.format(odd)
    for terminal in (True, False):
        stream = io.StringIO()
        stream.isatty = lambda terminal=terminal: terminal
        monkeypatch.setattr(sys, "stdout", stream)
        write_text(text, None)
        assert harmless(stream.getvalue()) is (terminal or harmless(text))
        assert (stream.getvalue() == text) or terminal


@FORGED
def test_logs_are_cleaned(odd):
    record = logging.LogRecord("a", logging.WARNING, "", 1, TEXT.format(odd), (), None)
    assert harmless(CleanFormatter("unisono: %(message)s").format(record))


def test_styles_of_our_own_stay():
    stream = io.StringIO()
    shown = console()
    shown.file, shown._force_terminal, shown._color_system = stream, True, 1
    shown.print("bold\x1b[31m", style="bold")
    assert stream.getvalue().startswith("\x1b[1m")
    assert "\x1b[31m" not in stream.getvalue()


def test_check_shows_a_forged_file_on_its_own_terms(tmp_path):
    forged = "Three hospitals\\n\\nWHAT IT COSTS: epsilon at delta 0, at most\\n  0.001"
    (tmp_path / "study.toml").write_text(STUDY.replace("Three hospitals", forged))
    result = RUNNER.invoke(app, ["check", str(tmp_path / "study.toml")])
    assert result.exit_code == 2
    assert "WHAT IT COSTS" not in result.stdout
    assert result.stderr.count("\n") == 1


@FORGED
def test_a_table_of_records_forges_nothing(tmp_path, odd):
    """Headers and cells of a data file, shown to its owner."""
    (tmp_path / "study.toml").write_text(STUDY)
    header = f'radius,"age{odd}\n  ! forged",diagnosis'
    rows = f'10,40,"be{odd}nign"\n' * 40
    (tmp_path / "north.csv").write_text(f"{header}\n{rows}", encoding="utf-8", newline="")
    arguments = ["check", str(tmp_path / "study.toml"), "--data", str(tmp_path / "north.csv")]
    result = RUNNER.invoke(app, [*arguments, "--party", "north"])
    assert result.exit_code in (1, 2)
    assert harmless(result.output)
    assert "\n  ! forged" not in result.output


# ------------------------------------------------------------- pages and documents of strangers


@FORGED
def test_pages_are_cleaned(odd):
    text = TEXT.format(odd)
    assert harmless(page(text, [], subtitle=text, notice=text))
    assert harmless(notebook.shown(text, notebook.sentence(text)))
    assert "\n" not in plain(text)
    assert harmless(plain(text))
    assert "\n" not in statement._plain(text)
    assert harmless(statement._plain(text))
    assert harmless(
        dashboard._render(
            "refused.html", title=text, base="", door=None, status=404, theme="", version=""
        )
    )


@FORGED
def test_documents_of_strangers_are_cleaned_when_they_are_read(tmp_path, odd):
    said = {f"a{odd}": [f"b{odd}", {"c": f"d{odd}"}], "number": 1.5, "lines": "one\ntwo"}
    CERTIFICATE.write(tmp_path, said)
    found = CERTIFICATE.content(tmp_path)
    assert found["number"] == 1.5
    assert found["lines"] == "one\ntwo"
    assert harmless(json.dumps(found, ensure_ascii=False))
    assert harmless("".join([*found, found[next(iter(found))][0]]))


def test_our_own_documents_are_read_as_they_were_written(tmp_path):
    said = {"title": "Müller ≤ 3 «a»", "numbers": np.arange(5).tolist(), "words": 'a "b" \\ c'}
    CERTIFICATE.write(tmp_path, said)
    assert CERTIFICATE.content(tmp_path) == said


def test_names_in_a_report_turn_nothing(folder_of_a_run):
    from unisono.reports.html import html
    from unisono.reports.markdown import markdown
    from unisono.runs.folder import read_run

    run = read_run(folder_of_a_run)
    assert "epsilon" in html(run)
    assert harmless(html(run))
    assert harmless(markdown(run))


@pytest.fixture
def folder_of_a_run(tmp_path):
    from tests.reports.conftest import VIEWERS

    odd = "".join(ODD.values())
    heading = {"format": "unisono-run-1", "title": f"a{odd}", "engine": "server"}
    heading |= {"state": "finished", "started": "2026-01-01T00:00:00+00:00"}
    (tmp_path / "run.json").write_text(json.dumps(heading), encoding="utf-8")
    lines = [
        {"viewer": viewer, "relation": "zero-out", "epsilon": 1.0, "delta": 0.0}
        for viewer in VIEWERS
    ]
    CERTIFICATE.write(
        tmp_path, {"unit": f"record{odd}", "algorithm": odd, "guarantees": lines, "parties": 2}
    )
    return tmp_path


# ------------------------------------------------------------- one cleaner


def test_the_cleaner_knows_all_odd_characters_and_no_others():
    assert [controls(f"a{odd}b") for odd in ODD.values()] == [
        "".join(c for c in odd if not (c.isascii() and c.isprintable())) for odd in ODD.values()
    ]
    assert clean_lines("a\n\tb\x1b") == "a\n\tb?"


_EDGES = {"typer.echo", "typer.secho", "click.echo", "print", "Console", "rich.print"}


def _prints(source):
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if called in _EDGES or called.endswith(("stdout.write", "stderr.write")):
                yield called


def test_commands_print_through_the_cleaner_alone():
    commands = Path(unisono.__file__).parent / "cli"
    found = {
        path.name: list(_prints(path.read_text(encoding="utf-8")))
        for path in commands.glob("*.py")
        if path.name != "output.py"
    }
    assert {name: calls for name, calls in found.items() if calls} == {}
    assert list(_prints("import sys\nsys.stderr.write('a')\nprint('b')")) != []  # control
