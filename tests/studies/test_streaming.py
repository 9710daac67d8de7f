"""Records that are read in blocks give the same integers as records in memory."""

import math
from functools import partial

import jax
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from unisono.accounting.accountant import ACCOUNTANT
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.streamed import BLOCK, StreamedColumns
from unisono.core.study import Party
from unisono.core.values import Private
from unisono.data import RecordTable
from unisono.data.arrow import ArrowColumn
from unisono.data.cells import numbers
from unisono.data.streams import read_ahead
from unisono.engines import in_process
from unisono.engines.streaming import BlockSums, streamable
from unisono.errors import InvalidInput
from unisono.studies import build as building
from unisono.studies.build import build
from unisono.studies.data_set import records_at
from unisono.studies.file import parse_study
from unisono.studies.streamed import StreamedRecords

STUDY = """\
title = "Long tables"
[data]
{target}
sizes = "{sizes}"
[data.columns]
age = {{ kind = "number", bounds = [18, 100] }}
weight = {{ kind = "number", bounds = [0, 150], missing = "drop record" }}
sex = {{ kind = "category", values = ["F", "M"] }}
[[parties]]
name = "clinic"
records = {records}
[privacy]
epsilon = 1.0
delta = 1e-9
{relation}
[trust]
mode = "local"
[model]
name = "{model}"
{model_settings}
"""
ASKED = """
[[model.questions]]
ask = "mean"
column = "age"
[[model.questions]]
ask = "mean"
column = "weight"
by = "sex"
[[model.questions]]
ask = "quantiles"
column = "weight"
levels = [0.5]
[[model.questions]]
ask = "histogram"
column = "sex"
"""
GLM = '[algorithm]\nname = "gradient-perturbation"\nrounds = 3'
RECORDS = BLOCK + 4321


def study(model="statistics", settings=ASKED, sizes="exact", target="", relation=""):
    return build(
        parse_study(
            STUDY.format(
                model=model,
                model_settings=settings,
                sizes=sizes,
                records=RECORDS,
                target=target,
                relation=relation,
            ),
            "study.toml",
        )
    )


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A folder of partitions, with nulls, in row groups of another length than blocks."""
    generator = np.random.default_rng(3)
    folder = tmp_path_factory.mktemp("visits")
    columns = {
        "age": generator.uniform(15, 95, RECORDS),
        "weight": generator.normal(75, 20, RECORDS).astype(np.float32),
        "noise": generator.random(RECORDS),
    }
    female = generator.random(RECORDS) < 0.6
    missing = generator.random(RECORDS) < 0.2
    for name, own in (("F", female), ("M", ~female)):
        part = folder / f"sex={name}"
        part.mkdir()
        made = {key: pyarrow.array(value[own]) for key, value in columns.items()}
        made["weight"] = pyarrow.array(columns["weight"][own], mask=missing[own])
        pyarrow.parquet.write_table(pyarrow.table(made), part / "a.parquet", row_group_size=7000)
    policy = folder.parent / "policy.toml"
    policy.write_text(
        '[dataset]\nname = "clinic"\nledger = "clinic.ledger"\n'
        "[budget]\nepsilon = 9\ndelta = 1e-6\n"
        "[allow]\nmaximum_epsilon = 2\nmaximum_delta = 1e-6\nminimum_parties = 1\n"
        f'[source]\nkind = "parquet"\npath = "{folder.name}"\n'
    )
    return policy


def result(built, columns, seed=5):
    ledger = Ledger.in_memory(Policy("clinic", Budget(9.0, 1e-6)), ACCOUNTANT, seed=seed)
    return in_process.run(built.study, [Party("clinic", Private(columns), ledger)])


def both(built, path, monkeypatch):
    """What a study reads of the records, streamed and in memory."""
    monkeypatch.setattr(building, "STREAMED", 0)
    monkeypatch.setattr(building, "STREAMED_ROUNDS", 0)
    streamed = built.records(built.table(path), "clinic")
    assert isinstance(streamed, StreamedRecords)
    monkeypatch.setattr(building, "STREAMED", 2**40)
    monkeypatch.setattr(building, "STREAMED_ROUNDS", 2**40)
    whole = built.records(built.table(path), "clinic")
    fit = built.stages[-1]
    return fit.columns(streamed, {}), fit.columns(whole, {})


@pytest.mark.filterwarnings("ignore::unisono.errors.ClippedValues")
@pytest.mark.filterwarnings("ignore::unisono.data.UnreadValues")
def test_a_streamed_survey_is_the_survey_of_the_same_records_in_memory(path, monkeypatch):
    built = study()
    monkeypatch.setattr(building, "secret_order", lambda records, key: np.arange(records))
    streamed, whole = both(built, path, monkeypatch)
    assert isinstance(streamed, StreamedColumns)
    assert streamed.rows == RECORDS
    found = np.concatenate([block[0][mask] for block, mask in streamed.blocks()])
    np.testing.assert_array_equal(found, whole[0])
    np.testing.assert_array_equal(result(built, streamed).value, result(built, whole).value)


@pytest.mark.filterwarnings("ignore::unisono.errors.ClippedValues")
@pytest.mark.filterwarnings("ignore::unisono.data.UnreadValues")
def test_gradients_of_streamed_records_follow_those_in_memory(path, monkeypatch):
    built = study("logistic-regression", GLM, target='target = "sex"')
    streamed, whole = both(built, path, monkeypatch)
    one, other = result(built, streamed).value, result(built, whole).value
    # Sums in floats differ by their order within blocks, and by no more.
    np.testing.assert_allclose(np.asarray(one), np.asarray(other), atol=1e-3)


def test_a_record_adds_the_same_integers_in_every_place():
    """So that a record that comes or goes, and shifts all others, moves the sum by itself alone."""
    built = study(sizes="hidden", relation='relation = "add-or-remove"')
    assert streamable(built.study, unordered=True)
    generator = np.random.default_rng(9)
    rows = np.column_stack(
        [
            generator.uniform(0, 120, 900),
            generator.normal(70, 40, 900),
            generator.integers(0, 3, 900),
        ]
    ).astype(np.float32)
    rows[generator.random(rows.shape) < 0.1] = np.nan
    sums = BlockSums(built.study)
    slots = built.study.facts.features
    rows = np.column_stack([rows, rows, rows])[:, :slots]

    def total(given):
        return sums.of((), StreamedColumns.of((given,)), np.int32(RECORDS))[0]

    whole = total(rows)
    assert np.any(whole)
    for shift in (1, 7, 63, 64, 65, 500):
        np.testing.assert_array_equal(total(np.roll(rows, shift, axis=0)), whole)
    found = built.study.algorithm.in_parts
    parts = jax.jit(partial(found.local, found.constants))

    def exact(given):
        padded = np.zeros((64, slots), np.float32)
        padded[: len(given)] = given
        return np.asarray(parts((), None, (padded,), np.arange(64) < len(given)), np.int64)

    alone = sum(exact(rows[number : number + 1]) for number in range(40))
    np.testing.assert_array_equal(alone, exact(rows[:40]))


def test_so_it_does_to_sums_of_gradients():
    """In a file that is sorted, or a folder of partitions, a record that is replaced shifts many
    others: no block of them may be rounded as a whole."""
    built = study("logistic-regression", GLM, target='target = "sex"')
    facts, algorithm = built.study.facts, built.study.algorithm
    generator = np.random.default_rng(9)
    size = 64 * 150
    rows = np.zeros((size + 1, facts.features), np.float32)
    rows[:, -1] = 1.0
    # The first record of each block and the second add just less than half a step; one place
    # further on, just more: together that would be as many steps as there are blocks.
    step = algorithm.grid(facts, built.study.trust) / 0.4
    first = (0.02 * np.arange(151)) % 1
    rows[::64, 0], rows[1::64, 0] = step * first, step * ((0.49 - first[:-1]) % 1)
    labels = np.ones(size + 1, np.float32)
    sums = BlockSums(built.study)
    public = algorithm.ask(algorithm.init(facts)[0])

    def total(given):
        columns = StreamedColumns.of((rows[given], labels[given]))
        return sums.of(public, columns, np.int32(RECORDS))[0].astype(np.int64)

    whole = total(np.arange(size))
    np.testing.assert_array_equal(whole, total(np.roll(np.arange(size), 17)))
    claimed = algorithm.event(facts, built.study.trust).sensitivity.replace_one.l2
    moved = np.linalg.norm(whole - total(np.arange(1, size + 1)))
    assert moved <= 2  # it is two records without any feature that come and go

    public = generator.normal(size=facts.features).astype(np.float32)
    rows[:] = generator.normal(size=rows.shape)
    rows[generator.random(rows.shape) < 0.001] = np.nan
    labels = np.sign(generator.normal(size=size + 1)).astype(np.float32)
    whole = total(np.arange(size))
    for shift in (1, 7, 63, 64, 65, 5000):
        np.testing.assert_array_equal(total(np.roll(np.arange(size), shift)), whole)
    other = np.append(np.arange(1, size), size)
    moved = algorithm.grid(facts, built.study.trust) * np.linalg.norm(whole - total(other))
    assert 0 < moved <= claimed


def test_records_in_memory_that_are_added_up_in_blocks_stand_in_a_secret_order():
    built = study("logistic-regression", GLM, target='target = "sex"')
    ages = np.linspace(20, 90, RECORDS)  # sorted, as files are
    columns = {"age": ages, "weight": ages, "sex": ["F", "M"] * (RECORDS // 2) + ["F"]}
    table = RecordTable("visits", columns, RECORDS)
    one, other = (built.columns(table, "clinic")[0] for _ in range(2))
    assert not np.array_equal(one, other)
    np.testing.assert_array_equal(np.sort(one, axis=0), np.sort(other, axis=0))


def test_what_depends_on_places_is_not_streamed():
    glm = study(
        "logistic-regression",
        GLM,
        sizes="hidden",
        target='target = "sex"',
        relation='relation = "add-or-remove"',
    )
    assert not streamable(glm.study)
    assert not streamable(study("logistic-regression", GLM, target='target = "sex"').study, True)
    sampled = GLM.replace("gradient-perturbation", "dp-sgd-convex").replace("rounds = 3", "")
    assert not streamable(study("logistic-regression", sampled, target='target = "sex"').study)


def test_records_that_change_while_they_are_read_are_refused(path):
    stream = records_at(path, ["age"])
    other = type(stream)(stream.name, stream.names, stream.rows + 1, stream.read)
    with pytest.raises(InvalidInput, match="let nobody write there"):
        list(other.batches())


def test_blocks_are_full_but_for_the_last():
    batches = [np.arange(n, dtype=np.float32)[:, None] for n in (BLOCK - 1, 3, BLOCK * 2, 5)]
    columns = StreamedColumns(
        sum(map(len, batches)), ((1,),), lambda: iter([(b,) for b in batches])
    )
    blocks = list(columns.blocks())
    assert [int(mask.sum()) for _, mask in blocks] == [BLOCK, BLOCK, BLOCK, 7]
    found = np.concatenate([block[0][mask] for block, mask in blocks])
    np.testing.assert_array_equal(found, np.concatenate(batches))


def test_reading_ahead_gives_the_same_batches_and_the_same_errors():
    read = []

    def batches():
        for number in range(4):
            read.append(number)
            yield number
        raise InvalidInput("it is damaged")

    ahead = read_ahead(batches())
    assert [next(ahead) for _ in range(4)] == [0, 1, 2, 3]
    with pytest.raises(InvalidInput, match="it is damaged"):
        next(ahead)
    read.clear()
    ahead = read_ahead(batches())
    assert next(ahead) == 0
    ahead.close()  # whoever stops early has read one batch too many at most
    assert read == [0, 1]


@pytest.mark.parametrize("kind", [pyarrow.float32(), pyarrow.float64(), pyarrow.int16()])
def test_numbers_of_arrow_are_read_as_its_cells_are(kind):
    """Without copies: where a slice begins, null, NaN and infinity must not matter."""
    cells = [3, None, 5, 7, None, 11]
    if kind != pyarrow.int16():
        cells += [math.inf, math.nan, -math.inf, 0.5]
    whole = pyarrow.array(cells, kind)
    for part in (whole, whole[1:], whole[2:4], whole[:0], pyarrow.chunked_array([whole, whole])):
        column = ArrowColumn("x", part)
        np.testing.assert_array_equal(numbers(column), numbers(list(column)))
    with pytest.raises(ValueError, match="read-only"):
        numbers(ArrowColumn("x", whole[2:4]))[0] = 1
