"""Between machines, too, records that are read in blocks give the release of records in memory."""

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from unisono.algorithms.survey import unpack
from unisono.core.streamed import BLOCK, StreamedColumns
from unisono.studies import build as building
from unisono.studies.build import build
from unisono.studies.file import parse_study

from .cluster import Cluster

SIZES = {"north": BLOCK + 777, "south": 4321}
STUDY = """\
title = "Long tables"
[data.columns]
age = {{ kind = "number", bounds = [18, 100], integer = true }}
weight = {{ kind = "number", bounds = [0, 150], missing = "drop record" }}
sex = {{ kind = "category", values = ["F", "M"] }}
{parties}
[privacy]
epsilon = 1.0
delta = 1e-9
[trust]
mode = "{trust}"
minimum_parties = 2
colluders = 0
[model]
name = "statistics"
[[model.questions]]
ask = "mean"
column = "weight"
[[model.questions]]
ask = "standard deviation"
column = "age"
by = "sex"
[[model.questions]]
ask = "histogram"
column = "sex"
"""


def study(trust):
    parties = "".join(f'[[parties]]\nname = "{n}"\nrecords = {size}\n' for n, size in SIZES.items())
    return build(parse_study(STUDY.format(parties=parties, trust=trust), "study.toml"))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Parquet files with nulls, in row groups of another length than blocks."""
    folder = tmp_path_factory.mktemp("visits")
    for number, (name, size) in enumerate(SIZES.items()):
        generator = np.random.default_rng(number)
        table = {
            "age": generator.integers(10, 110, size),
            "weight": pyarrow.array(
                generator.normal(75, 20, size).astype(np.float32),
                mask=generator.random(size) < 0.2,
            ),
            "sex": np.where(generator.random(size) < 0.6, "F", "M"),
        }
        path = folder / f"{name}.parquet"
        pyarrow.parquet.write_table(pyarrow.table(table), path, row_group_size=7000)
    return folder


def columns(built, files, limit, monkeypatch):
    """What the study reads of every party: streamed above so many cells."""
    monkeypatch.setattr(building, "STREAMED", limit)
    fit = built.stages[-1]
    return {
        number: fit.columns(built.records(built.table(files / f"{name}.parquet"), name), {})
        for number, name in enumerate(SIZES)
    }


@pytest.mark.filterwarnings("ignore::unisono.errors.ClippedValues")
@pytest.mark.filterwarnings("ignore::unisono.data.UnreadValues")
@pytest.mark.parametrize("trust", ["secure-sum", "local"])
def test_a_streamed_study_between_machines_is_the_same_release(files, trust, tmp_path, monkeypatch):
    built = study(trust)
    released = []
    for kind, limit in (("streamed", 0), ("whole", 2**40)):
        own = columns(built, files, limit, monkeypatch)
        assert all(isinstance(c, StreamedColumns) == (kind == "streamed") for c in own.values())
        (tmp_path / kind).mkdir()
        cluster = Cluster(built.study, tmp_path / kind, data=own, seed=7)
        shapes = own[0].block_shapes if kind == "streamed" else [one.shape for one in own[0]]
        sums = cluster.parties[0]._worker._block_sums._local.func
        before = sums._cache_size()
        cluster.parties[0].prepare(shapes, kind == "streamed")
        assert sums._cache_size() == before + 1
        found = cluster.run()
        assert sums._cache_size() == before + 1
        assert found.opened == 1
        cluster.require_sound()
        released.append(np.asarray(found.value))
    np.testing.assert_array_equal(*released)
    opened = unpack(released[0])
    assert opened.records == sum(SIZES.values())
    assert np.all(opened.total[-2:] > 1000)  # of each sex
