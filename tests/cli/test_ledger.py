"""What `unisono ledger` shows, checks and exports; a read-only or broken file loses nothing."""

import csv
import fcntl
import io
import json
import os

import pytest
from typer.testing import CliRunner

from unisono.accounting.accountant import ACCOUNTANT
from unisono.cli import app
from unisono.core.costs import everyone
from unisono.core.events import NOTHING, Event, Gaussian, NoNoise, bounded_sum
from unisono.core.journal import Journal, read
from unisono.core.ledger import Ledger
from unisono.core.ledger_summary import summary
from unisono.core.policy import Budget, Policy
from unisono.core.trust import FINAL_MODEL, ITERATES, NETWORK, PARTY, SERVER
from unisono.errors import LedgerCorrupted

RUNNER = CliRunner()
BOUND = bounded_sum(l2=1.0)
EVENT = Event(Gaussian(40.0), BOUND)
POLICY = Policy("ages", Budget(1.0, 1e-6), ((SERVER, Budget(float("inf"))),))
NASTY = "=SUM(A1)|<b>[red]\x1b[31m"


@pytest.fixture
def book(tmp_path):
    path = tmp_path / "ages.ledger"
    ledger = Ledger.create(path, POLICY, ACCOUNTANT)
    for ward in range(3):
        seen = everyone(EVENT * 3) | {FINAL_MODEL: EVENT * 1, SERVER: NOTHING}
        ledger.authorize(seen, 3, f"mean age, ward {ward}")
    hidden = dict.fromkeys((FINAL_MODEL, PARTY, NETWORK), NOTHING)
    clean = Event(NoNoise(), BOUND) * 1
    ledger.authorize(hidden | {ITERATES: EVENT * 2, SERVER: clean}, 2, NASTY)
    ledger.close()
    return path


def run(*arguments: object, code: int = 0) -> str:
    result = RUNNER.invoke(app, ["ledger", *(str(a) for a in arguments)])
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return " ".join((result.stdout if code == 0 else result.output).split())


# -------------------------------------------------------------------- summary


def test_summary_agrees_with_the_ledger_itself(book):
    found = summary(read(book)[0])
    ledger = Ledger.open(book, ACCOUNTANT)
    assert found.policy == ledger.policy
    assert len(found.entries) == ledger.grants == 4
    assert tuple(found.histories) == ledger.viewers
    for viewer, history in found.histories.items():
        assert history == ledger.history(viewer)
    assert found.grants == {FINAL_MODEL: 3, ITERATES: 4, NETWORK: 3, PARTY: 3, SERVER: 1}
    ledger.close()


def test_summary_takes_no_unknown_line_as_free(book):
    lines, _ = read(book)
    with pytest.raises(LedgerCorrupted, match="never taken as free"):
        summary([*lines, {"kind": "gift"}])
    with pytest.raises(LedgerCorrupted, match="cannot be understood"):
        summary([*lines, {"kind": "grant", "cost": "unheard of"}])
    with pytest.raises(LedgerCorrupted, match="does not begin"):
        summary(lines[1:])


# ----------------------------------------------------------------------- show


def test_show_says_what_is_allowed_and_spent(book):
    text = run("show", book)
    assert "protects each single record: exchanging it for any other" in text
    assert "is at most 73.2 % for inferring which of two values one record has" in " ".join(
        text.split()
    )
    assert "the server is trusted and may see everything" in text
    assert "4 grants so far" in text
    ledger = Ledger.open(book, ACCOUNTANT)
    spent, share = ledger.spent(ITERATES), ledger.left(ITERATES).share
    ledger.close()
    assert "anyone who sees every intermediate result (4 grants): [#" in text
    own = text.split("intermediate result")[1]
    assert f"guaranteed: epsilon 1 at delta 1e-06 (1 in 1,000,000); {int(100 * share)} %" in own
    shown = float(own.split("fixed in advance: epsilon ")[1].split(" ")[0])
    assert spent <= shown <= spent * 1.001
    assert "chosen from earlier answers" in text
    assert "has seen clean values" in text
    assert "\x1b[31m" not in RUNNER.invoke(app, ["ledger", "show", str(book)]).stdout


def test_show_lists_the_last_entries(book):
    assert "ward 0" in run("show", book)
    text = run("show", book, "--last", "2")
    assert "The last 2 of 4 entries" in text
    assert "ward 2" in text
    assert "ward 1" not in text
    assert "entries" not in run("show", book, "--last", "0")


def test_show_as_json(book):
    found = json.loads(run("show", book, "--json", "--last", "1"))
    assert found["grants"] == 4
    assert len(found["entries"]) == 1
    assert {v["viewer"]: v["budget"] for v in found["viewers"]}["server"] == "inf"


def test_show_neither_writes_nor_locks(book):
    os.chmod(book, 0o444)
    os.chmod(book.parent, 0o555)
    before = book.read_bytes()
    holder = os.open(book, os.O_RDONLY)
    try:
        fcntl.flock(holder, fcntl.LOCK_EX)  # as if another process were writing
        run("show", book)
        run("verify", book)
        run("export", book)
    finally:
        os.close(holder)
        os.chmod(book.parent, 0o755)
    assert book.read_bytes() == before


def test_a_torn_last_line_is_mentioned_and_left_alone(book):
    book.write_bytes(book.read_bytes() + b'{"kind":"grant","cos')
    before = book.read_bytes()
    for command in ("show", "verify"):
        assert "never paid for anything" in run(command, book)
    assert book.read_bytes() == before


def test_a_last_line_without_its_newline_counts_for_every_reader(book):
    commands = (("show",), ("verify",), ("export",), ("show", "--json"), ("verify", "--json"))
    expected = [run(command, book, *options) for command, *options in commands]
    book.write_bytes(book.read_bytes().rstrip(b"\n"))
    before = book.read_bytes()
    assert [run(command, book, *options) for command, *options in commands] == expected
    assert book.read_bytes() == before


# --------------------------------------------------------------------- verify


def test_verify_finds_a_sound_book_sound(book):
    head = read(book)[1]
    assert head in run("verify", book)
    assert "is part of this book" in run("verify", book, "--head", head.upper())
    found = json.loads(run("verify", book, "--json"))
    assert found["sound"] is True
    assert found["head"] == head


def test_verify_notices_a_changed_line(book):
    book.write_bytes(book.read_bytes().replace(b"ward 1", b"ward 7"))
    assert "NOT SOUND" in run("verify", book, code=5)
    for command in ("show", "export"):
        assert "hash chain" in run(command, book, code=5)


def test_verify_notices_truncation_only_with_a_head(book):
    head = read(book)[1]
    lines = book.read_bytes().splitlines(keepends=True)
    book.write_bytes(b"".join(lines[:-1]))
    run("verify", book)
    assert "lines were removed" in run("verify", book, "--head", head, code=5)
    assert json.loads(run("verify", book, "--head", head, "--json", code=5))["sound"] is False


def test_verify_refuses_half_a_head(book):
    assert "64 hexadecimal" in run("verify", book, "--head", "abc", code=2)


def test_verify_understands_every_line(book):
    journal = Journal(book)
    with journal.locked():
        journal.append([{"kind": "gift"}])
    journal.close()
    assert "never free" in run("verify", book, code=5)


# --------------------------------------------------------------------- export


def test_export_json_holds_every_event(book):
    found = json.loads(run("export", book))
    assert [entry["number"] for entry in found["entries"]] == [0, 1, 2, 3]
    assert found["entries"][0]["viewers"]["iterates"]["events"][0]["count"] == 3
    assert found == json.loads(run("export", book, "--format", "csv", "--json"))


def test_export_csv_is_a_table_without_formulas(book, tmp_path):
    target = tmp_path / "book.csv"
    run("export", book, "--format", "csv", "--output", target)
    rows = list(csv.DictReader(io.StringIO(target.read_text())))
    assert len(rows) == 14
    assert all(not row["purpose"].startswith("=") for row in rows)
    alone = ACCOUNTANT.epsilon(EVENT * 3, POLICY.relation, 1e-6)
    assert float(rows[1]["epsilon_alone"]) == pytest.approx(alone)


def test_export_markdown_keeps_its_cells(book):
    result = RUNNER.invoke(app, ["ledger", "export", str(book), "--format", "markdown"])
    table = [line for line in result.stdout.splitlines() if line.startswith("| 3 |")]
    assert len(table) == 2
    assert all(line.replace("\\|", "").count("|") == 8 for line in table)
    assert "<b>" not in result.stdout
    assert "\x1b" not in result.stdout


# --------------------------------------------------------------------- create


def test_create_writes_the_policy_and_never_overwrites(tmp_path):
    path = tmp_path / "new.ledger"
    arguments = (
        "create",
        path,
        "--dataset",
        "icu",
        "--epsilon",
        2,
        "--delta",
        "1e-7",
        "--relation",
        "zero-out",
        "--unit",
        "party",
        "--trust-server",
    )
    assert "icu" in run(*arguments)
    before = path.read_bytes()
    policy = summary(read(path)[0]).policy
    assert policy.budget == Budget(2.0, 1e-7)
    assert policy.relation == "zero-out"
    assert policy.unit == "party"
    assert policy.budget_for(SERVER).epsilon == float("inf")
    assert "never overwritten" in run(*arguments, code=2)
    assert path.read_bytes() == before


def test_create_as_json_gives_the_head(tmp_path):
    path = tmp_path / "new.ledger"
    found = json.loads(
        run("create", path, "--dataset", "icu", "--epsilon", 1, "--delta", 0, "--json")
    )
    assert found["head"] == read(path)[1]


@pytest.mark.parametrize(
    "options",
    [
        "--dataset a --epsilon 0 --delta 1e-6",
        "--dataset a --epsilon -1 --delta 1e-6",
        "--dataset a --epsilon nan --delta 1e-6",
        "--dataset a --epsilon inf --delta 1e-6",
        "--dataset a --epsilon 1 --delta 1",
        "--dataset a --epsilon 1 --delta nan",
        "--dataset a --epsilon 1 --delta -1",
        "--dataset a --epsilon 1",
        "--epsilon 1 --delta 0",
        "--dataset a --epsilon 1 --delta 0 --relation cousin",
        "--dataset a --epsilon 1 --delta 0 --records-per-person 0",
    ],
)
def test_bad_policies_create_no_file(tmp_path, options):
    path = tmp_path / "new.ledger"
    run("create", path, *options.split(), code=2)
    assert not path.exists()


# ------------------------------------------------------------------ bad files


@pytest.mark.parametrize("command", ["show", "verify", "export"])
def test_files_that_are_no_ledger(tmp_path, command):
    assert "no ledger at" in run(command, tmp_path / "missing", code=2)
    assert "folder" in run(command, tmp_path, code=5)
    empty = tmp_path / "empty"
    empty.touch()
    assert "does not begin" in run(command, empty, code=5)
    noise = tmp_path / "noise"
    noise.write_bytes(bytes(range(256)) * 20)
    run(command, noise, code=5)


def test_create_where_no_folder_is(tmp_path):
    path = tmp_path / "nowhere" / "new.ledger"
    text = run("create", path, "--dataset", "a", "--epsilon", 1, "--delta", 0, code=2)
    assert "does not exist" in text


def test_export_to_an_impossible_place(book, tmp_path):
    assert "cannot write" in run("export", book, "--output", tmp_path, code=2)
