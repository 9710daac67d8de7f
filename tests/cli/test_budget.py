"""A budget for years at the terminal: `policy init`, `ledger raise`, what may still be asked."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from unisono.accounting.accountant import ACCOUNTANT
from unisono.cli import app
from unisono.cli.ledger_ahead import MOST, ahead
from unisono.cli.ledger_reader import read_book
from unisono.core import journal
from unisono.core.costs import everyone
from unisono.core.events import Event, Gaussian, Laplace, bounded_sum
from unisono.core.ledger import Ledger, terms
from unisono.core.policy import Budget, Policy
from unisono.core.trust import SERVER
from unisono.errors import BudgetExceeded
from unisono.studies.policy_file import load_policy

RUNNER = CliRunner()
JUNE = 1_780_300_000.0  # in June 2026
WHOLE = Event(Laplace(2.0, discrete=False), bounded_sum(l1=1.0))  # epsilon 1 for replacing
STUDY = Event(Gaussian(8.0), bounded_sum(l2=1.0))


def run(*arguments, code=0):
    result = RUNNER.invoke(app, list(map(str, arguments)))
    assert result.exit_code == code, result.output
    assert "Traceback" not in result.output
    return " ".join((result.stdout if code == 0 else result.output).split())


@pytest.fixture
def north(tmp_path):
    path = tmp_path / "north.csv"
    path.write_text("age\n34\n51\n29\n62\n")
    return path


def asked(north, epsilon=1, *more, code=0):
    ask = ("--mean", "age", "--bounds", "age=18:100", "--trust", "local")
    return run("query", north, *ask, "--epsilon", epsilon, *more, code=code)


# ------------------------------------------------------------------- policy init


def test_a_policy_is_written_beside_the_records_and_obeyed(north):
    text = run("policy", "init", "--budget", "6", "--per-year", "2", "--delta", "1e-5", north)
    assert "epsilon 6 at delta 1e-05, 2 of it in a year" in text
    path = north.with_name("north.policy.toml")
    own = load_policy(path)
    assert own.core_policy().budget == Budget(6.0, 1e-5, 2.0)
    assert own.ledger_path == north.with_name("north.ledger")
    assert not own.ledger_path.exists()
    before = path.read_bytes()
    assert "is left as it is" in run("policy", "init", "--budget", "9", north, code=2)
    assert path.read_bytes() == before
    asked(north, 1.9)
    refused = asked(north, 1.9, code=3)
    assert re.search(r"Of epsilon 2 for \d{4}, the allowance of one year, .* is left", refused)


def test_every_setting_of_a_policy_is_there_with_its_help(north):
    from unisono.studies.policy_file import Allowed, BudgetSection, Dataset

    run("policy", "init", "--budget", "6", north)
    text = north.with_name("north.policy.toml").read_text()
    for section in (Dataset, BudgetSection, Allowed):
        for name, info in section.model_fields.items():
            if name != "exceptions":
                line = next(r for r in text.splitlines() if re.match(rf"(# )?{name} = ", r))
                assert line.endswith(f"# {info.description}")
    assert "[budget.exceptions.server]" in text


@pytest.mark.parametrize("options", [("--per-year", "7"), ("--delta", "2"), ("--per-year", "0")])
def test_a_policy_that_cannot_be_is_not_written(north, options):
    run("policy", "init", "--budget", "6", *options, north, code=2)
    assert list(north.parent.iterdir()) == [north]


def test_a_policy_for_records_that_have_a_ledger_may_lower_its_budget(north):
    asked(north, 1, "--budget", "4", "--relation", "zero-out")
    assert "may only lower it" in run("policy", "init", "--budget", "5", north, code=2)
    run("policy", "init", "--budget", "3", "--per-year", "1", north)
    own = load_policy(north.with_name("north.policy.toml"))
    assert own.budget.relation == "zero-out"
    ledger = own.open_ledger()
    assert ledger.policy.budget == Budget(3.0, 1e-6, 1.0)
    ledger.close()


def test_what_a_query_takes_is_said_before_it_is_paid(north):
    arguments = f"query {north} --mean age --bounds age=18:100 --trust local --epsilon 1"
    result = RUNNER.invoke(app, [*arguments.split(), "--budget", "6:1e-6"])
    assert result.exit_code == 0
    assert "north: this query takes epsilon 1 of 6; left: epsilon 5.8" in result.stderr


# ------------------------------------------------------------------- raising


@pytest.fixture
def keys(north):
    run("keygen", "north", "--folder", north.parent / "keys")
    return north.parent / "keys"


def test_a_raise_is_signed_dated_and_on_every_certificate(north, keys):
    ledger = north.with_name("north.ledger")
    asked(north, 1, "--budget", "1")
    assert "nothing remains" not in asked(north, 1, code=3)
    identity = read_book(ledger).summary.identity
    text = run("ledger", "raise", ledger, "--to", "8", "--reason", "the board, 3 May")
    assert "From epsilon 1 at delta 1e-06 to epsilon 8 at delta 2e-06" in text
    certificate = asked(north, 1)
    assert "the budget began with epsilon 1 at delta 1e-06" in certificate
    assert re.search(
        r"raised on \d{4}-\d\d-\d\d to epsilon 8 at delta 2e-06, signed by north \(key [0-9a-f]+…\)"
        r": the board, 3 May",
        certificate,
    )
    assert re.search(r"epsilon 8, of which \d\.\d+ is left, against", certificate)
    assert re.search(r"had they been fixed in advance: epsilon 1\.\d+", certificate)
    document = json.loads(RUNNER.invoke(app, ["ledger", "show", str(ledger), "--json"]).stdout)
    assert document["identity"] == identity
    assert document["issued"] == [1.0, 1e-6]
    assert document["raises"][0]["to"] == [8.0, 2e-6]
    assert "the board, 3 May" in run("ledger", "show", ledger)
    assert "the board, 3 May" in run("ledger", "export", ledger, "--format", "markdown")
    run("ledger", "verify", ledger, "--card", keys / "north.card")
    run("keygen", "other", "--folder", keys)
    wrong = run("ledger", "verify", ledger, "--card", keys / "other.card", code=5)
    assert "somebody else raised it" in wrong


def test_who_may_not_raise_leaves_the_ledger_as_it_is(north, keys):
    ledger = north.with_name("north.ledger")
    asked(north, 1, "--budget", "2")
    before = ledger.read_bytes()
    for options, words in (
        (("--reason", "x"), "names the new budget"),
        (("--to", "8"), "gives its reason"),
        (("--to", "1.5", "--reason", "x"), "not above the present budget"),
        (("--to", "much", "--reason", "x"), "--to 'much' is no budget"),
        (("--to", "inf", "--reason", "x"), "infinite"),
        (("--to", "8", "--reason", "x", "--name", "south"), "unisono keygen"),
    ):
        assert words in run("ledger", "raise", ledger, *options, code=2)
    (keys / "north.signing").chmod(0o644)
    run("ledger", "raise", ledger, "--to", "8", "--reason", "x", code=2)
    assert ledger.read_bytes() == before


def test_a_lower_policy_is_named_when_a_budget_is_raised_and_counts_in_show(north, keys):
    run("policy", "init", "--budget", "2", north)
    asked(north, 1)
    ledger = north.with_name("north.ledger")
    text = run("ledger", "raise", ledger, "--to", "8", "--reason", "x")
    # Long paths are broken wherever a line ends.
    assert "north.policy.tomlallowsless,andgoesontohold" in "".join(text.split())
    shown = run("ledger", "show", ledger)
    assert "The policy beside it allows less, and holds." in shown
    assert "of epsilon 2 in all studies together, epsilon 1." in shown
    path = north.with_name("north.policy.toml")
    path.write_text(path.read_text().replace("epsilon = 2 ", "epsilon = 8 "))
    assert "of epsilon 8 in all studies together, epsilon 6" in run("ledger", "show", ledger)
    asked(north, 1)
    path.write_text(path.read_text().replace("epsilon = 8 ", "epsilon = 9 "))
    assert "ledger raise" in asked(north, 0.1, code=2)
    assert terms(journal.read(ledger)[0], ledger).budget.epsilon == 8.0


# ------------------------------------------------------------------- what may still be asked


def test_show_counts_what_the_ledger_then_pays(tmp_path):
    """The numbers are the accountant's: so many more are granted, and not one beyond."""
    path = tmp_path / "a.ledger"
    policy = Policy("ages", Budget(4.5, 1e-6, 2.5))
    ledger = Ledger.create(path, policy, ACCOUNTANT, clock=lambda: JUNE)
    ledger.authorize(everyone(STUDY * 1), purpose="a mean")
    future = ahead(read_book(path, clock=lambda: JUNE))
    assert future.year == 2026
    assert future.ever.left == ledger.left(SERVER)
    assert future.this_year.left == ledger.left_this_year(SERVER)
    assert 0 < future.this_year.left.pure < future.this_year.left.gaussian < 2.5
    whole, small, last = future.examples
    assert whole.what == "a mean at epsilon 1"
    assert 0 == whole.this_year < whole.more < small.more <= MOST
    assert 0 < last.this_year < last.more < MOST
    assert last.what.startswith("a study like the last one (2026-06-01 'a mean', epsilon 1")
    with pytest.raises(BudgetExceeded, match="for 2026"):
        ledger.authorize(everyone(WHOLE * 1))
    for _ in range(last.this_year):
        ledger.authorize(everyone(STUDY * 1))
    with pytest.raises(BudgetExceeded, match="for 2026"):
        ledger.authorize(everyone(STUDY * 1))
    later = ahead(read_book(path, clock=lambda: JUNE + 366 * 86400))
    assert later.year == 2027
    assert later.this_year.left.epsilon == 2.5
    assert ahead(read_book(path, clock=lambda: JUNE - 366 * 86400)).year == 2026  # never back


def test_a_study_that_was_paid_in_pieces_counts_as_one(tmp_path):
    path = tmp_path / "a.ledger"
    ledger = Ledger.create(path, Policy("ages", Budget(4.5, 1e-6)), ACCOUNTANT)
    event = Event(Gaussian(8.0), bounded_sum(l2=1.0))
    for piece in ("rounds 0-4", "rounds 4-8", "evaluation"):
        ledger.authorize(everyone(event * 1), purpose=f"run abc123 {piece}")
    last = ahead(read_book(path)).examples[-1]
    together = everyone(event * 3)
    for _ in range(last.more):
        ledger.authorize(together)
    with pytest.raises(BudgetExceeded):
        ledger.authorize(together)
    assert last.more > 0
    assert last.this_year is None


def test_a_ledger_that_began_with_nothing_spent_says_so_and_what_fits(tmp_path):
    path = tmp_path / "a.ledger"
    run("ledger", "create", path, "--dataset", "a", "--epsilon", "0.5", "--delta", "0")
    shown = run("ledger", "show", path)
    assert "of epsilon 0.5 in all studies together, epsilon 0.5" in shown
    assert "a mean at epsilon 1: no more" in shown
    assert "a mean at epsilon 0.1: 5 more" in shown


def test_paths_of_policies_elsewhere_do_not_matter(north, tmp_path):
    Path(tmp_path / "other.policy.toml").write_text("nonsense")
    asked(north, 1, "--budget", "2")
    shown = run("ledger", "show", north.with_name("north.ledger"))
    assert "of epsilon 2 in all studies together, epsilon 1." in shown
