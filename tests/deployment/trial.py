"""A small study between three parties, with the files that users have; tests change one of them."""

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from unisono.core import journal
from unisono.studies.keys import keygen
from unisono.studies.roster import make_roster

NAMES = ("north", "south", "west")
RECORDS = 40
# Stands in every party's file, once as a number of a column that is read: nobody may print it.
MARKER = "17.73182736"
ADDRESS = "127.0.0.1:9092"

STUDY = """\
title = "Three hospitals"

[data]
target = "diagnosis"

[data.columns]
radius = {{ kind = "number", bounds = [5, 30] }}
age = {{ kind = "number", bounds = [0, 120], integer = true }}
diagnosis = {{ kind = "category", values = ["benign", "malignant"] }}
{parties}
[privacy]
epsilon = {epsilon}
delta = 1e-5

[trust]
mode = "{trust}"
minimum_parties = {survivors}
colluders = 0
retries = {retries}

[model]
{model}

[algorithm]
{algorithm}
"""

POLICY = """\
[dataset]
name = "{name}"
ledger = "records.ledger"

[budget]
epsilon = {epsilon}
delta = 1e-5

[allow]
maximum_epsilon = {epsilon}
maximum_delta = 1e-5
minimum_parties = 2
maximum_retries = 5
trust = ["secure-sum", "local"]
"""

LINEAR = 'name = "logistic-regression"'
DESCENT = 'name = "gradient-perturbation"\nrounds = {rounds}'


def study_text(
    algorithm: str = DESCENT.format(rounds=3),
    *,
    epsilon: float = 2.0,
    trust: str = "secure-sum",
    survivors: int = 2,
    retries: int = 0,
    model: str = LINEAR,
) -> str:
    parties = "".join(f'\n[[parties]]\nname = "{name}"\nrecords = {RECORDS}\n' for name in NAMES)
    return STUDY.format(
        parties=parties,
        epsilon=epsilon,
        trust=trust,
        survivors=survivors,
        retries=retries,
        model=model,
        algorithm=algorithm,
    )


def write_records(path: Path, seed: int, records: int = RECORDS) -> None:
    """Made-up patients, and a column that no study reads."""
    generator = np.random.default_rng(seed)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["radius", "age", "diagnosis", "remark"])
        for number in range(records):
            ill = generator.random() < 0.5
            radius = f"{11 + 8 * ill + generator.normal():.6f}" if number else MARKER
            age = generator.integers(20, 90)
            diagnosis = "malignant" if ill else "benign"
            writer.writerow([radius, age, diagnosis, f"remark {MARKER}"])


class Trial:
    """A folder as all parties and the server would have it, each its own part.

    study.toml, roster.toml, NAME/records.csv, NAME/policy.toml, NAME/keys
    """

    def __init__(self, folder: Path, study: str, epsilon: float = 10.0) -> None:
        self.folder = folder
        self.study, self.roster = folder / "study.toml", folder / "roster.toml"
        folder.mkdir(parents=True, exist_ok=True)
        self.study.write_text(study)
        for number, name in enumerate(NAMES):
            home = folder / name
            home.mkdir()
            write_records(home / "records.csv", number)
            (home / "policy.toml").write_text(POLICY.format(name=name, epsilon=epsilon))
        make_roster([keygen(folder / name / "keys", name) for name in NAMES], self.roster)

    @property
    def job(self) -> Path:
        return self.folder / "study.run"

    @property
    def authority(self) -> Path:
        return self.job / "tls" / "authority.crt"

    def policy(self, name: str) -> Path:
        return self.folder / name / "policy.toml"

    def ledger(self, name: str) -> Path:
        return self.folder / name / "records.ledger"

    def output(self, name: str) -> Path:
        return self.folder / name / f"study.{name}"

    def join(self, name: str = "north", *more: object, server: str = ADDRESS) -> list[str]:
        """The arguments with which a party joins."""
        home = self.folder / name
        files = {
            "--data": home / "records.csv",
            "--policy": home / "policy.toml",
            "--ca-cert": self.authority,
            "--server": server,
        }
        return ["join", str(self.study), *_options(files), *map(str, more)]

    def coordinate(self, *more: object, address: str = ADDRESS) -> list[str]:
        return ["coordinate", str(self.study), "--address", address, *map(str, more)]

    def charges(self, name: str) -> list[str]:
        """What was paid for, by the file on the disk, in order."""
        lines, _ = journal.read(self.ledger(name))
        return [line["purpose"] for line in lines if line["kind"] == "grant"]

    def turns(self, name: str) -> list[int]:
        return [int(purpose.split(" turn ")[1].split()[0]) for purpose in self.charges(name)]

    def files(self) -> Sequence[Path]:
        """Everything but the records themselves."""
        found = [path for path in self.folder.rglob("*") if path.is_file()]
        return [path for path in found if path.suffix != ".csv"]

    def require_no_records(self, *outputs: str) -> None:
        """No file and no output holds a value of the records."""
        assert not any(MARKER in output for output in outputs)
        for path in self.files():
            assert MARKER.encode() not in path.read_bytes(), path


def _options(files: dict[str, object]) -> list[str]:
    return [str(part) for pair in files.items() for part in pair]
