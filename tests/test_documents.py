"""The page that leads from the five documents to the software: complete, true and up to date.

Every Python line is run after its document's setup, every command is at least understood, and those
that take seconds are run; `make test-slow` runs the rest.
"""

import os
import re
import runpy
import shlex
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

with warnings.catch_warnings():  # Typer 0.20 imports names that Click 8.5 deprecates
    warnings.filterwarnings("ignore", message=r".*removed in Click 9", category=DeprecationWarning)
    from typer.main import get_command
    from typer.testing import CliRunner

    from unisono.cli import app
from unisono.attacks.laboratory import CASES
from unisono.experiments import catalogue

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
TABLE = runpy.run_path(str(DOCS / "make" / "documents.py"))
DOCUMENTS = TABLE["DOCUMENTS"]
ITEMS = [(number, one) for number, doc in enumerate(DOCUMENTS, 1) for one in doc.items]
SHELL = ("unisono ", "python ")
# Every command, with the lines of its item that make its data.
COMMANDS = {
    line: [other for other in one.run if other.startswith("python ")]
    for _, one in ITEMS
    for line in one.run
    if line.startswith("unisono ")
}
# Experiments whose quick runs take a second or less; the others are slow tests.
SECONDS = ("fig4.2", "fig4.3", "histogram-accuracy", "composition")
# Python lines that compile for seconds and have a faster relative on the page.
SLOW_LINES = (
    "inverted(",
    "run(OUTPUT_PERTURBATION",
    "run(GRADIENT_PERTURBATION",
    "run(CONVEX_DP_SGD",
    "run(DP_SGA",
    "run(CLIPPED_UPDATES",
)
# What other work in progress brings; an item leaves this list with its `pending`.
PENDING: dict[str, int] = {}


def test_the_page_is_what_the_table_says():
    """`python docs/make/documents.py` after a change."""
    assert (DOCS / "documents.md").read_text(encoding="utf-8") == TABLE["page"]()


def test_what_is_being_added_is_listed():
    found = [one.pending for _, one in ITEMS if one.pending]
    assert {text: found.count(text) for text in found} == PENDING


# ----------------------------------------------------------------------------- complete

# All that the documents number, by the names that they use.
NUMBERED = {
    2: [f"Definition {n}" for n in ("1.1", "2.1", "2.2", "2.3", "2.4")]
    + [f"Fact {n}" for n in ("1.1", "1.2", "1.3", "2.2", "2.7")]
    + [f"Theorem {n}" for n in ("2.1", "2.4", "2.5", "2.6", "3.1")]
    + ["Corollary 2.3"],
    3: [f"Definition {n}" for n in (1, 2, 3, 4)]
    + ["Theorem 5", "Figure 1", "Figure 2", "Table 1"]
    + ["(2.1)", *(f"(3.{n})" for n in range(1, 10)), *(f"(4.{n})" for n in range(1, 11))]
    + ["(5.1)", "(5.2)"],
    4: [f"Definition 2.1.{n}" for n in (1, 2, 3, 5, 6)]
    + ["Theorem 2.1.4", "Theorem 2.1.7", "Definition 2.2.1", "Definition 2.2.2", "Theorem 2.2.3"]
    + [f"Algorithm {n}" for n in (1, 2, 3)]
    + ["Fig. 1.1", "Fig. 3.1", "Fig. 3.2", "Fig. 3.3", *(f"Fig. 4.{n}" for n in range(1, 8))]
    + [f"(2.{n})" for n in range(1, 29)]
    + [f"(3.{n})" for n in range(1, 9)]
    + [f"(4.{n})" for n in range(1, 25)]
    + [f"Chapter {n}" for n in (1, 5)]
    + [f"Section {n}" for n in ("2.1.1", "2.1.3", "3.1", "3.2.1", "3.2.2", "3.2.3", "4.1.1")]
    + [f"Section {n}" for n in ("4.1.2", "4.1.3", "4.1.4", "4.2.1", "4.2.2", "4.2.3", "4.3")]
    + ["Appendix A", "Appendix B"],
    5: [f"Definition {n}" for n in (1, 2, 3, 4)]
    + ["Algorithm SGD1", "Algorithm SGD2", "Lemma 1", "Lemma 2"]
    + [f"Theorem {n}" for n in (1, 2, 3, 4)]
    + [f"({n})" for n in range(1, 13)],
}


def spelled_out(name):
    """The name with ranges such as (4.4)-(4.6) written in full."""

    def between(found):
        chapter, first, last = found[1] or "", int(found[2]), int(found[3])
        return " ".join(f"({chapter}{n})" for n in range(first, last + 1))

    return re.sub(r"\((\d\.)?(\d+)\)-\((?:\d\.)?(\d+)\)", between, name)


@pytest.mark.parametrize("document", NUMBERED)
def test_everything_that_has_a_number_has_a_row(document):
    names = " | ".join(spelled_out(one.name) for number, one in ITEMS if number == document) + " "
    found = [
        name for name in NUMBERED[document] if re.search(rf"{re.escape(name)}(?![.\d])", names)
    ]
    assert found == NUMBERED[document]


def test_every_erratum_of_a_document_is_linked_from_its_rows():
    registry = runpy.run_path(str(ROOT / "tests" / "errata" / "registry.py"))
    for number, (prefix, count) in enumerate(list(registry["COUNTS"].items())[:5], 1):
        text = " ".join(one.here + one.why for own, one in ITEMS if own == number)
        linked = set(re.findall(r"\]\((E\d{3}-\d+)\)", text))
        assert linked == {f"{prefix}-{n + 1}" for n in range(count)}


@pytest.mark.parametrize(("document", "one"), ITEMS, ids=[one.name[:50] for _, one in ITEMS])
def test_a_row_says_how_it_runs_or_why_it_does_not(document, one):
    linked = re.search(r"\]\(E\d{3}-\d+\)", one.why)
    assert one.run or one.status == TABLE["TEXT"] or one.pending
    assert one.here
    if one.status == TABLE["CORRECTED"]:
        assert linked
    if one.status == TABLE["ADDED"]:
        assert one.pending
    if one.status in (TABLE["BOTH"], TABLE["TEXT"]):
        assert one.why


def test_links_and_anchors_lead_somewhere():
    text = TABLE["page"]()
    targets = re.findall(r"\]\(([\w./-]*)(?:#([\w-]+))?\)", text)
    assert len(targets) > 150
    for target, anchor in targets:
        page = DOCS / target if target else DOCS / "documents.md"
        assert page.exists(), target
        if anchor:
            there = page.read_text(encoding="utf-8")
            headings = {
                re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-")
                for heading in re.findall(r"^#+ (.+)$", there, re.M)
            }
            assert f'id="{anchor}"' in there or anchor in headings, f"{target}#{anchor}"


# ----------------------------------------------------------------------------- true


def shown(value):
    """A result as the page writes it: numbers with four digits."""
    if isinstance(value, tuple):
        return f"({', '.join(map(shown, value))})"
    if isinstance(value, int | float | np.number):
        return f"{value:.4g}"
    return str(value)


def run_lines(document, slow):
    """Run a document's setup and its lines, in order; a wrong result names the line."""
    place = {}
    exec(compile(document.setup, "setup", "exec"), place)
    for one in document.items:
        for line in one.run:
            code, expected = TABLE["line_and_result"](line)
            if code.startswith(SHELL):
                continue
            if code.startswith(SLOW_LINES) is not slow:
                continue
            if re.match(r"\w+ = ", code):
                exec(compile(code, one.name, "exec"), place)
                continue
            value = eval(compile(code, one.name, "eval"), place)
            assert value is not None, code
            assert not expected or shown(value) == expected, code


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.title[:20])
def test_python_lines_run_and_give_what_they_say(document, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_lines(document, slow=False)


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 2, 3])
def test_python_lines_that_take_longer_run(number, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_lines(DOCUMENTS[number], slow=True)


def test_lines_that_wait_for_the_slow_tests_exist():
    lines = [line for _, one in ITEMS for line in one.run]
    assert all(any(line.startswith(start) for line in lines) for start in SLOW_LINES)


def is_quick(line):
    words = shlex.split(line)[1:]
    if words[0] == "reproduce":
        return words[1] in SECONDS
    if words[0] == "plan":
        return "network" not in words
    return words[0] != "attack" or "--help" in words


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_are_understood(line):
    """The command, its options, and the names of experiments and defences exist."""
    command, words = get_command(app), shlex.split(line)[1:]
    while hasattr(command, "commands"):
        assert words[0] in command.commands
        command, words = command.commands[words[0]], words[1:]
    known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
    assert {word for word in words if word.startswith("--")} <= known
    if line.startswith("unisono reproduce"):
        assert words[0] in catalogue.EXPERIMENTS
    if "--only" in words:
        assert words[-1] in {case.name for case in CASES}


def run_command(line, monkeypatch):
    for made in COMMANDS[line]:
        words = shlex.split(made)
        monkeypatch.setattr(sys, "argv", words[1:])
        runpy.run_path(str(ROOT / words[1]), run_name="__main__")
    words = shlex.split(line.replace(" examples/", f" {ROOT}/examples/"))
    done = CliRunner().invoke(app, words[1:])
    assert done.exit_code == 0, f"{line}\n{done.output}\n{done.exception!r}"
    assert done.output
    if line.startswith("unisono reproduce"):
        assert "outside" not in done.output


@pytest.mark.parametrize("line", [line for line in COMMANDS if is_quick(line)])
def test_commands_run(line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_command(line, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("line", [line for line in COMMANDS if not is_quick(line)])
def test_commands_that_take_longer_run(line, tmp_path, monkeypatch):
    if set(shlex.split(line)) & set(catalogue.DATA) and not os.environ.get("UNISONO_DATA"):
        pytest.skip("UNISONO_DATA names no folder with the files of Adult and KDDCup99")
    monkeypatch.chdir(tmp_path)
    run_command(line, monkeypatch)
