"""One data set, one ledger: where the policy and the ledger of a file of records lie.

    DATA/NAME.csv            DATA/NAME.policy.toml     DATA/NAME.ledger
    DATA/NAME/records.csv    DATA/NAME/policy.toml     DATA/NAME/NAME.ledger

    DATA/NAME/policy.toml with [source]: a folder, a database, a query; the ledger is beside it

Links are followed first, so that whatever a file is called, wherever one works and whatever is
asked, the same records are paid for from the same ledger. A policy may name another place for it.

A data set is known by its place: records may be added to it. A file that was renamed or copied has
another place and would begin with nothing spent, so beside every ledger lies a mark of the bytes
that it has paid for (`NAME.ledger.source`), and a file whose bytes another ledger of its folder
knows is refused. Whoever reads a mark can check a guess about all records, so it is its owner's
alone, as the records are, and no part of the ledger, which may be shown.

Records that a policy's [source] names are known by that policy: give it in place of a file. Two
policies of one folder that read the same place pay from the same ledger, whatever their queries.
"""

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from unisono.accounting.accountant import ACCOUNTANT
from unisono.core import journal
from unisono.core import policy as core
from unisono.core.ledger import Ledger
from unisono.core.trust import Relation
from unisono.data import RecordTable, read_table
from unisono.data.csv_file import CsvDialect
from unisono.data.csv_stream import csv_stream
from unisono.data.parquet_files import parquet_stream
from unisono.data.streams import RecordStream
from unisono.errors import InvalidInput, PrivacyViolation
from unisono.studies.policy_file import PolicyFile, load_policy
from unisono.studies.record_source import RecordSource


@dataclass(frozen=True)
class DataSet:
    """Records, by the name of their resolved file; what they are paid from, and on whose terms."""

    name: str
    records: Path
    policy_path: Path
    ledger_path: Path
    source: RecordSource | None = None

    @property
    def policy(self) -> PolicyFile | None:
        """What its owner allows, where a policy lies beside it."""
        return load_policy(self.policy_path) if self.policy_path.exists() else None


def data_set(records: str | os.PathLike[str]) -> DataSet:
    """The data set in a file, by whatever name it is given.

    >>> data_set("clinics/north.csv").ledger_path.name
    'north.ledger'
    >>> data_set("clinics/north/records.csv").ledger_path.name
    'north.ledger'
    """
    if (policy := sourced(records)) is not None:
        return _of_source(policy)
    given, own = Path(records).absolute(), Path(os.path.realpath(records))
    beside = dict.fromkeys(_policy_beside(path) for path in (given, own))
    there = [path for path in beside if path.exists()]
    if len({path.resolve() for path in there}) > 1:
        raise InvalidInput(
            f"{records} has two policies, {there[0]} and {there[1]}: keep the one that counts"
        )
    name = _name(own)
    if there:
        return DataSet(name, own, there[0], _real(load_policy(there[0]).ledger_path))
    return DataSet(name, own, _policy_beside(own), _ledger_beside(own))


def sourced(path: str | os.PathLike[str]) -> PolicyFile | None:
    """The policy at this path that names its source; None where a path holds records themselves."""
    file = Path(path)
    if not (file.name.endswith("policy.toml") and file.is_file()):
        return None
    policy = load_policy(os.path.realpath(file))
    if policy.records is None:
        raise InvalidInput(
            f"{path} names no [source]: add where the records come from, or give their file"
        )
    return policy


def records_at(
    path: str | os.PathLike[str],
    columns: Sequence[str] | None = None,
    multiline: bool = False,
    dialect: CsvDialect | None = None,
) -> RecordTable | RecordStream:
    """The records in a file, or in the source that a policy names; Parquet and databases are
    read when they are asked for."""
    if (policy := sourced(path)) is not None:
        assert policy.records is not None
        return policy.records.records(policy.home, columns, multiline, dialect)
    file = Path(path)
    if file.suffix.lower() == ".parquet" and file.is_file():
        return parquet_stream(file, columns)
    if file.suffix.lower() == ".csv" and file.is_file():
        return csv_stream(file, columns, multiline, dialect)
    return read_table(file, columns, multiline, dialect)


def _of_source(policy: PolicyFile) -> DataSet:
    source, path = policy.records, Path(policy.source.path)
    assert source is not None
    records = source.file(policy.home) or path.parent
    return DataSet(policy.dataset.name, records, path, _real(policy.ledger_path), source)


def ledger_for(
    records: str | os.PathLike[str],
    epsilon: float | None = None,
    delta: float = 0.0,
    *,
    relation: Relation | str = Relation.REPLACE_ONE,
) -> Ledger:
    """The ledger of a file of records, which `unisono query`, `run` and `join` pay from too.

    The first to ask begins it, with this budget or with that of the policy beside the records; from
    then on only its owner changes the budget, by a policy that lowers it or a signed raise.
    """
    own = data_set(records)
    require_only_ledger(own)
    budget = None if epsilon is None else core.Budget(epsilon, delta)
    policy = own.policy
    if own.ledger_path.exists():
        found = Ledger.open(
            own.ledger_path, ACCOUNTANT, None if policy is None else policy.core_policy()
        )
    elif policy is not None:
        found = policy.open_ledger()
    elif budget is None:
        raise InvalidInput(
            f"{own.ledger_path} does not exist yet: say with epsilon how much may ever be spent on "
            "these records"
        )
    else:
        terms = core.Policy(own.name, budget, relation=Relation(relation))
        found = Ledger.create(own.ledger_path, terms, ACCOUNTANT)
    kept = found.policy
    own_terms = kept.budget.epsilon, kept.budget.delta, kept.relation
    if budget is not None and own_terms != (budget.epsilon, budget.delta, relation):
        found.close()
        raise InvalidInput(
            f"epsilon = {epsilon:g} at delta {delta:g} ({relation}): {own.ledger_path} has epsilon "
            f"{kept.budget.epsilon:g} at delta {kept.budget.delta:g} ({kept.relation}), which only "
            "its owner changes; leave epsilon out"
        )
    remember(own)
    return found


# ------------------------------------------------------------- renamed and copied files


def require_apart(files: Mapping[str, Path]) -> None:
    """Refuse the same records for two parties: what is said of a record would be false of them."""
    known: dict[bytes, str] = {}
    for name, path in files.items():
        other = known.setdefault(digest(path), name)
        if other != name:
            raise PrivacyViolation(
                f"{files[other]} and {path} hold the same records, which would be released twice "
                "and protected as if once: give every party its own"
            )
    ledgers: dict[Path, str] = {}
    for name, path in files.items():
        ledger = data_set(path).ledger_path
        other = ledgers.setdefault(ledger, name)
        if other != name:
            raise InvalidInput(
                f"{files[other]} and {path} share the ledger {ledger}: every data set has its own; "
                "keep them in folders of their own, or name another ledger in a policy"
            )


def require_only_ledger(own: DataSet) -> None:
    """Refuse records for which another ledger of their folder has paid: they were renamed, or
    they are a copy; and those whose own ledger has paid and is gone."""
    mark = _mark_path(own.ledger_path)
    if mark.exists() and not own.ledger_path.exists():
        raise PrivacyViolation(
            f"{mark.name} says that {own.ledger_path} has paid for these records, and it is gone: "
            "restore it from a backup; if what it has spent may be forgotten, remove the mark too"
        )
    _require_place(own)
    for other in other_ledgers(own):
        raise PrivacyViolation(
            f"{own.records} holds the records of {other}, so that their ledger would be another "
            f"one, {own.ledger_path}, in which nothing of that is spent: give the file its name "
            "back, or rename the ledger with it; if it is a copy, use the first file"
        )
    _require_one_name(own)


def _require_place(own: DataSet) -> None:
    """Refuse a policy that leads to another ledger than the records do by themselves: records that
    changed since they were paid for have other bytes, and the same place."""
    if own.source is not None:
        _require_one_source(own, own.source)
        return
    beside = _ledger_beside(own.records)
    if own.ledger_path == beside:
        return
    if beside.exists():
        raise PrivacyViolation(
            f"{own.policy_path} names the ledger {own.ledger_path}, which would know nothing of "
            f"what {beside} has paid for: name that one in the policy, or move it there"
        )
    if own.policy_path.resolve() != _policy_beside(own.records).resolve():
        raise PrivacyViolation(
            f"{own.policy_path} lies beside a link and names the ledger {own.ledger_path}, which "
            f"nobody finds who opens {own.records} itself: keep the policy beside the records, as "
            f"{_policy_beside(own.records)}"
        )


def _require_one_source(own: DataSet, source: RecordSource) -> None:
    """Refuse a source for which another ledger has paid: one beside its file, or that of another
    policy in the same folder which reads the same place."""
    home = own.policy_path.parent
    places = source.places(home)
    for place in places:
        beside = _ledger_beside(Path(place))
        if beside.exists() and beside != own.ledger_path:
            raise PrivacyViolation(
                f"{own.policy_path} names the ledger {own.ledger_path}, which would know nothing "
                f"of what {beside} has paid for: name that one in the policy, or move it there"
            )
    for path in _policies_in(home):
        try:
            other = load_policy(path)
        except InvalidInput:
            continue
        if other.records is None or _real(other.ledger_path) == own.ledger_path:
            continue
        if shared := set(places) & set(other.records.places(home)):
            raise PrivacyViolation(
                f"{own.policy_path} and {path} read the same place ({min(shared)}) and pay from "
                "two ledgers, whatever their queries: name one ledger in both; if their rows are "
                "of different people, keep each policy in a folder of its own"
            )


def _require_one_name(own: DataSet) -> None:
    """Refuse to begin a ledger for a file that has other names (hard links): one of them may have
    another ledger, and no path leads there."""
    if own.ledger_path.exists() or own.policy is not None or not own.records.is_file():
        return
    if (names := own.records.stat().st_nlink) > 1:
        raise PrivacyViolation(
            f"{own.records} is one of {names} names of a file (hard links), and what was paid for "
            "by another name is not known here: remove the other names, use a symbolic link, or "
            "write a policy beside this one that names the ledger of all"
        )


def other_ledgers(own: DataSet) -> Iterator[Path]:
    """Ledgers in the folder of the records, or named by a policy there, that have paid for the
    same bytes."""
    if not own.records.is_file():
        return
    found = None
    for ledger in _ledgers_in(own.records.parent):
        if ledger == own.ledger_path or not ledger.exists():
            continue
        mark = _mark(ledger)
        if mark is None:
            continue
        found = found or digest(own.records)
        if _keyed(mark["key"], found) in mark["versions"]:
            yield ledger


def remember(own: DataSet, ledger: Path | None = None) -> None:
    """Mark the present bytes as paid for by their ledger."""
    if not own.records.is_file():
        return
    place = ledger or own.ledger_path
    mark = _mark(place, mine=True) or {"key": secrets.token_hex(32), "versions": []}
    version = _keyed(mark["key"], digest(own.records))
    if version in mark["versions"]:
        return
    path = _mark_path(place)
    content = json.dumps({"key": mark["key"], "versions": [*mark["versions"], version]})
    journal.replace(path, f"{content}\n".encode())


def digest(path: Path) -> bytes:
    """The same for a file and its copy; for a policy, that of what it reads."""
    if path.name.endswith("policy.toml") and (policy := sourced(path)) is not None:
        assert policy.records is not None
        file = policy.records.file(policy.home)
        if file is None or policy.records.sql is not None:
            return policy.records.digest(policy.home)
        path = file
    try:
        status = path.stat()
        return _digest(path.absolute(), status.st_ino, status.st_size, status.st_mtime_ns)
    except OSError as error:
        raise InvalidInput(
            f"{path} cannot be read: {error.strerror}; check the name and the permissions"
        ) from None


@lru_cache(maxsize=64)
def _digest(path: Path, *version: int) -> bytes:
    """Read once for all that one command wants to know."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def _ledgers_in(folder: Path) -> Iterator[Path]:
    yield from (_real(path) for path in sorted(folder.glob("*.ledger")))
    for path in _policies_in(folder):
        try:
            yield _real(load_policy(path).ledger_path)
        except InvalidInput:
            continue  # whoever uses that policy is told what is wrong with it


def _policies_in(folder: Path) -> list[Path]:
    return sorted([*folder.glob("*.policy.toml"), *folder.glob("policy.toml")])


def policies_of(ledger: Path) -> Iterator[tuple[Path, PolicyFile]]:
    """Policies in the ledger's folder that name it."""
    folder = ledger.absolute().parent
    for path in _policies_in(folder):
        try:
            policy = load_policy(path)
        except InvalidInput:
            continue  # whoever uses that policy is told what is wrong with it
        if _real(policy.ledger_path) == _real(ledger):
            yield path, policy


def _mark_path(ledger: Path) -> Path:
    return ledger.with_name(f"{ledger.name}.source")


def _mark(ledger: Path, mine: bool = False) -> dict[str, Any] | None:
    path = _mark_path(ledger)
    try:
        found = json.loads(path.read_bytes())
        return {"key": str(found["key"]), "versions": [str(one) for one in found["versions"]]}
    except FileNotFoundError:
        return None
    except PermissionError as error:
        if mine:
            raise journal.unavailable(path, error) from None
        return None  # a stranger's mark is for its owner to read, as the records are
    except OSError as error:
        raise journal.unavailable(path, error) from None
    except (ValueError, KeyError, TypeError):
        raise InvalidInput(
            f"{path} is damaged, so that nobody knows what {ledger.name} has paid for: restore it "
            "from a backup"
        ) from None


def _keyed(key: str, content: bytes) -> str:
    """Two marks of the same bytes do not look alike."""
    return hmac.digest(bytes.fromhex(key), content, "sha256").hex()


# ------------------------------------------------------------- places


def _policy_beside(records: Path) -> Path:
    name = "policy.toml" if _in_own_folder(records) else f"{records.stem}.policy.toml"
    return records.with_name(name)


def _ledger_beside(records: Path) -> Path:
    return _real(records.with_name(f"{_name(records)}.ledger"))


def _name(records: Path) -> str:
    return records.parent.name if _in_own_folder(records) else records.stem


def _in_own_folder(records: Path) -> bool:
    return records.stem in ("records", records.parent.name)


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


__all__ = [
    "DataSet",
    "data_set",
    "digest",
    "ledger_for",
    "other_ledgers",
    "policies_of",
    "records_at",
    "remember",
    "require_apart",
    "require_only_ledger",
    "sourced",
]
