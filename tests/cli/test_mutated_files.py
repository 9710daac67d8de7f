"""Mutated CSV, Parquet and study files: answers or clear refusals, never a traceback, never a hang.

Each file is a good one with one to four seeded mutations of its bytes, lines or words. Whatever is
refused is refused as `InvalidInput` or `PrivacyViolation`, in words that fit a terminal.
"""

import datetime
import signal
import warnings
from contextlib import contextmanager

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

from unisono.cli import app
from unisono.errors import InvalidInput, PrivacyViolation
from unisono.studies.build import build
from unisono.studies.codebook import read_codebook
from unisono.studies.file import load_study, parse_study
from unisono.studies.inspection import inspect_file

LONGEST = 20  # seconds; what takes longer hangs, on any machine
STUDY = """\
title = "Mutants"
[data]
target = "died"
csv = { separator = ";", decimal = "," }
interactions = [["age", "sex"]]
[data.columns]
age = { kind = "number", bounds = [18, 100], bins = [40, 65] }
creatinine = { kind = "number", bounds = [0, 9], missing = "indicator", fill = 1, power = 2 }
sex = { kind = "category", values = ["F", "M"], other = true, missing = "category" }
stage = { kind = "ordinal", values = ["I", "II", "III"], missing = "I" }
seen = { kind = "date", bounds = ["2000-01-01", "2024-12-31"], parts = ["year", "month"] }
died = { kind = "true-false" }
[[parties]]
name = "clinic"
records = 12
[[parties]]
name = "other"
records = 900
[privacy]
epsilon = 1.0
delta = 1e-3
[trust]
mode = "local"
[model]
name = "logistic-regression"
[algorithm]
name = "gradient-perturbation"
rounds = 5
"""
CODEBOOK = """\
name,type,minimum,maximum,values,label
age,integer,18,100,,"age, in years"
sex,category,,,1=male|2=female,
seen,date,2000-01-01,2024-12-31,,
died,boolean,,,,
"""
CELLS = {
    "age": [50 + n for n in range(12)],
    "creatinine": [0.5 * n or None for n in range(12)],
    "sex": ["F", "M", "größer", ""] * 3,
    "stage": ["I", "II", "III"] * 4,
    "seen": [datetime.date(2020, 1, 1 + n) for n in range(12)],
    "died": [True, False] * 6,
}
# Bytes and words that readers trip over.
NASTY = (
    *(b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b'"', b"'", b'"""', b";", b",", b"\t", b"\r", b"\n"),
    *(b"\r\n", b"=", b"{", b"}", b"[", b"]", b"#", b"nan", b"inf", b"-1", b"1e999", b"9" * 400),
    *(b"TODO", b"true", b"null", "\u2028".encode(), "é".encode("latin-1"), b"\x1a", b"0x10"),
    *(
        b"99999999999999999999",
        b"a.b.c",
        b"1979-05-27",
        b"-0",
        b"1_000",
        b"\\u0000",
        b"''",
        b"..\\",
    ),
)


def csv_bytes():
    lines = [";".join(CELLS)]
    for row in zip(*CELLS.values(), strict=True):
        lines.append(";".join("" if cell is None else str(cell).replace(".", ",") for cell in row))
    return ("\r\n".join(lines) + "\r\n").encode()


def parquet_bytes():
    sink = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(pyarrow.table(CELLS), sink)
    return sink.getvalue().to_pybytes()


def mutated(content, generator):
    """One to four changes of bytes, runs of bytes, or lines."""
    for _ in range(generator.integers(1, 5)):
        content = changed(content, generator)
    return content


def changed(content, generator):
    size = len(content)
    at = int(generator.integers(size + 1))
    end = min(size, at + int(generator.integers(1, 20)))
    nasty = NASTY[generator.integers(len(NASTY))]
    lines = content.split(b"\n")
    line = int(generator.integers(len(lines)))
    marks = (b";", b",", b'"', b"=", b"1")
    one, other = (marks[place] for place in generator.permutation(len(marks))[:2])
    choices = (
        content[:at] + bytes([generator.integers(256)]) + content[at + 1 :],
        content[:at] + nasty + content[at:],
        content[:at] + nasty + content[end:],
        content[:at] + content[end:],
        content[:at],
        content[:end] + content[at:],
        b"\n".join([*lines[:line], *lines[line + 1 :]]),
        b"\n".join([*lines[:line], lines[line], *lines[line:]]),
        content.replace(one, other),
    )
    return choices[generator.integers(len(choices))]


@contextmanager
def in_time():
    def late(*_):
        raise AssertionError(f"took longer than {LONGEST} seconds")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(LONGEST)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def refused_clearly(seed):
    """Only refusals on purpose, in words without names of our or others' types."""
    try:
        with warnings.catch_warnings(), in_time():
            warnings.simplefilter("ignore")
            yield
    except (InvalidInput, PrivacyViolation) as error:
        text = str(error)
        assert text.strip(), seed
        assert all(len(line) < 3000 for line in text.splitlines()), (seed, text)
        for word in ("Traceback", "pydantic", "literal[", "<class", "object at 0x"):
            assert word not in text, (seed, text)
    except Exception as error:
        raise AssertionError(f"seed {seed}: {error!r}") from error


AGREED = build(parse_study(STUDY))


def try_records(folder, content, suffix, seed):
    path = folder / f"clinic.{suffix}"
    path.write_bytes(mutated(content, np.random.default_rng(seed)))
    with refused_clearly(seed):
        found = inspect_file(AGREED.file, path, "clinic")
        assert found.records is not None or found.problems
    with refused_clearly(seed):
        rows, labels = AGREED.columns(AGREED.table(path), "clinic")
        assert len(rows) == len(labels) == 12


def try_csv(folder, seed):
    try_records(folder, csv_bytes(), "csv", seed)


def try_parquet(folder, seed):
    try_records(folder, parquet_bytes(), "parquet", seed)


def try_study(folder, seed):
    path = folder / "study.toml"
    path.write_bytes(mutated(STUDY.encode(), np.random.default_rng(seed)))
    with refused_clearly(seed):
        build(load_study(path))


def try_codebook(folder, seed):
    path = folder / "codebook.csv"
    path.write_bytes(mutated(CODEBOOK.encode(), np.random.default_rng(seed)))
    with refused_clearly(seed):
        assert read_codebook(path).columns


TRIED = {"csv": try_csv, "parquet": try_parquet, "study": try_study, "codebook": try_codebook}


@pytest.mark.parametrize("kind", TRIED)
def test_mutated_files(tmp_path, kind):
    for seed in range(75):
        TRIED[kind](tmp_path, seed)


@pytest.mark.slow
@pytest.mark.parametrize("kind", TRIED)
def test_many_mutated_files(tmp_path, kind):
    for seed in range(1000, 3500):
        TRIED[kind](tmp_path, seed)


def test_commands_end_with_a_message_and_a_code(tmp_path):
    """The same files, as users meet them."""
    for seed in range(12):
        generator = np.random.default_rng(seed)
        study, records = tmp_path / "study.toml", tmp_path / "clinic.csv"
        study.write_bytes(mutated(STUDY.encode(), generator) if seed % 2 else STUDY.encode())
        records.write_bytes(mutated(csv_bytes(), generator))
        with in_time(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            done = CliRunner().invoke(app, ["check", str(study), "--data", str(records)])
        assert done.exit_code in (0, 1, 2, 4), (seed, done.output)
        assert done.exception is None or isinstance(done.exception, SystemExit), seed
        assert "Traceback" not in done.output
        assert done.output.strip()


def test_the_files_are_good_before_they_are_mutated(tmp_path):
    """Or everything would be refused, and nothing tested."""
    for suffix, content in (("csv", csv_bytes()), ("parquet", parquet_bytes())):
        (tmp_path / f"clinic.{suffix}").write_bytes(content)
        found = inspect_file(AGREED.file, tmp_path / f"clinic.{suffix}", "clinic")
        assert not found.problems
        assert (found.records, found.complete) == (12, 12)
    changed = [
        mutated(csv_bytes(), np.random.default_rng(seed)) != csv_bytes() for seed in range(50)
    ]
    assert sum(changed) > 45
