"""One data set, one ledger: by whatever name, and never a second one by accident."""

import os
import stat

import pytest

import unisono
from unisono.core.journal import read
from unisono.core.trust import SERVER, Relation
from unisono.errors import BudgetExceeded, InvalidInput, PrivacyViolation
from unisono.studies.data_set import data_set, ledger_for, other_ledgers, remember, require_apart

POLICY = """\
[dataset]
name = "coast"
ledger = "{ledger}"

[budget]
epsilon = 3.0
delta = 1e-6

[allow]
maximum_epsilon = 1.0
maximum_delta = 1e-6
minimum_parties = 1
"""


@pytest.fixture
def coast(tmp_path):
    file = tmp_path / "incomes" / "coast.csv"
    file.parent.mkdir()
    file.write_text("age\n30\n40\n")
    return file


def spend(file, epsilon=1.0):
    """Ages are not read here: the ledger is the file's, whatever is asked of it."""
    book = ledger_for(file, epsilon=1.0)
    answer = unisono.mean([30, 40], (18, 100), epsilon=epsilon, ledger=book)
    book.close()
    return answer


# ------------------------------------------------------------- one place


def test_every_way_to_a_file_leads_to_one_ledger(coast, tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "coast_2024.csv").symlink_to(coast)
    (tmp_path / "folder").symlink_to(coast.parent)
    monkeypatch.chdir(tmp_path / "elsewhere")
    ways = [
        coast,
        str(coast),
        "../incomes/coast.csv",
        "coast_2024.csv",
        tmp_path / "folder/coast.csv",
    ]
    assert {data_set(way).ledger_path for way in ways} == {coast.with_name("coast.ledger")}
    assert {data_set(way).name for way in ways} == {"coast"}
    spend(coast)
    for way in ways:
        with pytest.raises(BudgetExceeded):
            spend(way)
    assert list(tmp_path.rglob("*.ledger")) == [coast.with_name("coast.ledger")]


def test_records_in_a_folder_of_their_own_bear_its_name(tmp_path):
    found = data_set(tmp_path / "north" / "records.csv")
    assert (found.name, found.ledger_path) == ("north", tmp_path / "north" / "north.ledger")
    assert found.policy_path == tmp_path / "north" / "policy.toml"


def test_a_policy_names_another_place(coast, tmp_path):
    place = tmp_path / "vault" / "incomes.ledger"
    place.parent.mkdir()
    coast.with_name("coast.policy.toml").write_text(POLICY.format(ledger=place))
    assert data_set(coast).ledger_path == place
    book = ledger_for(coast)
    assert book.policy.budget.epsilon == 3.0
    assert place.exists()
    assert not list(coast.parent.glob("*.ledger"))


def test_two_policies_are_refused(coast, tmp_path):
    link = tmp_path / "link.csv"
    link.symlink_to(coast)
    for path in (coast.with_name("coast.policy.toml"), tmp_path / "link.policy.toml"):
        path.write_text(POLICY.format(ledger="coast.ledger"))
    with pytest.raises(InvalidInput, match="has two policies"):
        data_set(link)


# ------------------------------------------------------------- in Python


def test_a_ledger_is_begun_once_and_its_budget_is_fixed(coast):
    with pytest.raises(InvalidInput, match="say with epsilon how much may ever be spent"):
        ledger_for(coast)
    assert not coast.with_name("coast.ledger").exists()
    spend(coast, epsilon=0.4)
    book = ledger_for(coast)
    assert book.spent(SERVER) == pytest.approx(0.4)
    assert book.policy.dataset == "coast"
    for other in (
        {"epsilon": 2.0},
        {"epsilon": 1.0, "delta": 1e-6},
        {"epsilon": 1.0, "relation": Relation.ZERO_OUT},
    ):
        with pytest.raises(InvalidInput, match="which only its owner changes"):
            ledger_for(coast, **other)


def test_the_budget_of_a_policy_counts(coast):
    coast.with_name("coast.policy.toml").write_text(POLICY.format(ledger="coast.ledger"))
    with pytest.raises(
        InvalidInput, match=r"epsilon = 9 at delta 0 .*has epsilon 3 at delta 1e-06"
    ):
        ledger_for(coast, epsilon=9.0)
    assert ledger_for(coast).policy.budget.epsilon == 3.0


# ------------------------------------------------------------- renamed and copied


def copied(coast, way):
    other = coast.with_name("west.csv")
    match way:
        case "renamed":
            coast.rename(other)
        case "copied":
            other.write_bytes(coast.read_bytes())
        case "linked":
            os.link(coast, other)
    return other


@pytest.mark.parametrize("way", ["renamed", "copied", "linked"])
@pytest.mark.parametrize("place", ["beside", "by policy"])
def test_another_name_does_not_begin_another_ledger(coast, tmp_path, way, place):
    if place == "by policy":
        (tmp_path / "vault").mkdir()
        text = POLICY.format(ledger=tmp_path / "vault" / "coast.ledger")
        coast.with_name("coast.policy.toml").write_text(text)
        ledger_for(coast).close()
    else:
        spend(coast)
    other = copied(coast, way)
    with pytest.raises(PrivacyViolation, match=r"west.csv holds the records of .*coast.ledger"):
        ledger_for(other, epsilon=1.0)
    assert not coast.with_name("west.ledger").exists()


def test_a_hard_link_in_another_folder_begins_no_ledger(coast, tmp_path):
    """The same file, and no path leads from one of its names to the other."""
    spend(coast, epsilon=0.4)
    (tmp_path / "elsewhere").mkdir()
    other = tmp_path / "elsewhere" / "west.csv"
    os.link(coast, other)
    with pytest.raises(PrivacyViolation, match=r"west.csv is one of 2 names of a file"):
        ledger_for(other, epsilon=1.0)
    assert not list(other.parent.glob("*.ledger*"))
    spend(coast, epsilon=0.4)  # a ledger that was begun goes on
    text = POLICY.replace("3.0\ndelta = 1e-6", "1.0\ndelta = 0.0").format(
        ledger=coast.with_name("coast.ledger")
    )
    other.with_name("west.policy.toml").write_text(text)
    assert ledger_for(other).spent(SERVER) == pytest.approx(0.8)  # one ledger for all names


@pytest.mark.parametrize("beside", ["records", "link"])
def test_a_policy_does_not_lead_away_from_a_ledger_that_has_paid(coast, tmp_path, beside):
    """Records that changed since have other bytes than the mark knows."""
    spend(coast, epsilon=0.4)
    coast.write_text("age\n30\n40\n50\n")
    way = coast
    if beside == "link":
        way = tmp_path / "link.csv"
        way.symlink_to(coast)
    place = tmp_path / "fresh.ledger"
    way.with_name(f"{way.stem}.policy.toml").write_text(POLICY.format(ledger=place))
    with pytest.raises(PrivacyViolation, match=r"know nothing of what .*coast.ledger has paid for"):
        ledger_for(way)
    assert not place.exists()


def test_a_policy_beside_a_link_names_no_ledger_that_the_records_do_not_find(coast, tmp_path):
    link = tmp_path / "link.csv"
    link.symlink_to(coast)
    policy = tmp_path / "link.policy.toml"
    policy.write_text(POLICY.format(ledger="link.ledger"))
    with pytest.raises(PrivacyViolation, match=r"link.policy.toml lies beside a link"):
        ledger_for(link)
    policy.write_text(POLICY.format(ledger=coast.with_name("coast.ledger")))
    ledger_for(link).close()
    assert ledger_for(coast).policy.budget.epsilon == 3.0


def test_a_ledger_is_renamed_with_its_records(coast):
    spend(coast, epsilon=0.4)
    west = copied(coast, "renamed")
    for name in ("ledger", "ledger.source"):
        coast.with_name(f"coast.{name}").rename(coast.with_name(f"west.{name}"))
    assert ledger_for(west).spent(SERVER) == pytest.approx(0.4)


def test_records_that_change_keep_their_ledger_and_so_do_their_older_copies(coast):
    spend(coast, epsilon=0.4)
    before = coast.read_bytes()
    with coast.open("a") as file:
        file.write("50\n")
    assert ledger_for(coast).spent(SERVER) == pytest.approx(0.4)
    for content in (before, coast.read_bytes()):
        coast.with_name("west.csv").write_bytes(content)
        [known] = other_ledgers(data_set(coast.with_name("west.csv")))
        assert known == coast.with_name("coast.ledger")
    coast.with_name("west.csv").write_bytes(b"age\n70\n")
    assert not list(other_ledgers(data_set(coast.with_name("west.csv"))))


def test_the_mark_is_its_owners_alone_and_no_part_of_the_ledger(coast, tmp_path):
    spend(coast)
    own = data_set(coast)
    mark = coast.with_name("coast.ledger.source")
    assert stat.S_IMODE(mark.stat().st_mode) == 0o600
    remember(own, tmp_path / "second.ledger")
    second = (tmp_path / "second.ledger.source").read_text()
    assert not set(mark.read_text().split('"')[1::2]) & set(second.split('"')[1::2]) - {
        "key",
        "versions",
    }
    assert "source" not in str(read(own.ledger_path)[0])
    assert sorted(path.name for path in coast.parent.iterdir()) == [
        "coast.csv",
        "coast.ledger",
        "coast.ledger.source",
    ]


def test_a_damaged_mark_is_named(coast):
    spend(coast, epsilon=0.4)
    coast.with_name("coast.ledger.source").write_text("{")
    for file in (coast, copied(coast, "copied")):
        with pytest.raises(InvalidInput, match=r"coast.ledger.source is damaged"):
            ledger_for(file, epsilon=1.0)


@pytest.mark.parametrize("way", ["copied", "linked", "same"])
def test_one_file_is_not_two_parties(coast, way):
    other = copied(coast, way) if way != "same" else coast
    with pytest.raises(PrivacyViolation, match="hold the same records"):
        require_apart({"north": coast, "south": other})


def test_two_files_that_share_a_ledger_are_refused(coast):
    other = coast.with_suffix(".txt")
    other.write_text("age\n1\n")
    with pytest.raises(InvalidInput, match=r"share the ledger .*coast.ledger"):
        require_apart({"north": coast, "south": other})
    with pytest.raises(InvalidInput, match="cannot be read"):
        require_apart({"north": coast, "south": coast.with_name("nothing.csv")})


def test_a_ledger_that_is_gone_is_missed(tmp_path):
    records = tmp_path / "ages.csv"
    records.write_text("age\n30\n41\n")
    unisono.ledger_for(records, epsilon=1.0).close()
    (tmp_path / "ages.ledger").unlink()
    with pytest.raises(PrivacyViolation, match="has paid for these records, and it is gone"):
        unisono.ledger_for(records, epsilon=1.0)
