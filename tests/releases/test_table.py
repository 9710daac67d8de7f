"""Tables bound whatever they are given: rows, cells and levels, honest or not."""

import numpy as np
import pytest

from unisono.core.algorithm import Facts
from unisono.core.privacy import Privacy
from unisono.core.trust import Relation
from unisono.errors import InvalidInput
from unisono.releases.release import Release
from unisono.releases.rows import BallPoint, Interval, Moments, Ones, OuterProduct
from unisono.releases.table import Block, Table, lone_weight

KINDS = {
    "ones": (Ones(), ()),
    "interval": (Interval(-0.25, 0.75), ()),
    "whole interval": (Interval(-0.5, 1.25, whole=True, multiple=4), ()),
    "mean": (Moments(spread=False, sized=False), ()),
    "moments": (Moments(spread=True, sized=False), ()),
    "whole moments": (Moments(spread=True, sized=True, whole=True, multiple=5), ()),
    "ball point": (BallPoint(3), (3,)),
    "products": (OuterProduct(3, sized=False), (3,)),
    "sized products": (OuterProduct(3, sized=True), (3,)),
}
FACTS = Facts((6, 6), 1, 2, 1, exact_sizes=False)
PRIVACY = Privacy(1.0, 1e-6, Relation.ADD_OR_REMOVE)


def wild(shape, count=400, seed=0):
    """Values far outside of every domain, at its edges and inside of it."""
    generator = np.random.default_rng(seed)
    scales = generator.choice([0.1, 1.0, 1.0, 30.0, 1e12], size=(count, *[1] * len(shape)))
    edges = generator.choice([-1.0, -0.5, 0.0, 0.5, 1.0], size=(count, *shape))
    inner = generator.normal(size=(count, *shape))
    chosen = np.where(generator.random((count, *shape)) < 0.4, edges, inner * scales)
    return chosen.astype(np.float32)


@pytest.mark.parametrize("name", KINDS)
def test_rows_keep_their_bounds_for_any_values(name):
    kind, shape = KINDS[name]
    rows = np.asarray(kind.of(wild(shape)), float)
    gaps = rows[:, None] - rows[None]
    assert rows.shape == (400, len(kind.exact))
    assert np.abs(rows).max() <= kind.limit * (1 + 1e-6)
    for norm, alone, within in (
        (1, kind.alone.l1, kind.within.l1),
        (2, kind.alone.l2, kind.within.l2),
    ):
        assert np.linalg.norm(rows, norm, axis=-1).max() <= alone * (1 + 1e-6)
        assert np.linalg.norm(gaps, norm, axis=-1).max() <= within * (1 + 1e-6) + 1e-6
    assert np.linalg.norm(gaps, 2, axis=-1).max() >= 0.8 * kind.within.l2
    multiples = rows[:, np.array(kind.exact)] * kind.multiple
    assert multiples == pytest.approx(np.round(multiples), abs=1e-5)


@pytest.mark.parametrize("name", KINDS)
def test_what_is_missing_is_left_out(name):
    kind, shape = KINDS[name]
    values = np.full((5, *shape), np.nan, np.float32)
    table = Table((Block("missing", kind, lambda public, features: features),))
    step = next(table.steps(Release(table), FACTS, PRIVACY))
    made, _ = table.integers(FACTS, PRIVACY, step, ((), values), np.ones(5, bool))
    assert not np.asarray(made.value).any()


def counted(cells, levels=(2, 4)):
    table = Table((Block("tree", Ones(), lambda _, f: f[:, 0], cells=cells, level_sizes=levels),))
    rows, mask = np.zeros((3, 1), np.float32), np.array([True, True, False])
    made, _ = table.integers(FACTS, PRIVACY, 1.0, ((), rows), mask)
    return np.asarray(made.value).tolist()


def test_a_record_counts_once_on_every_level():
    assert counted(lambda *_: np.array([[0, 2], [1, 5], [1, 5]])) == [1, 1, 1, 0, 0, 1]


def test_a_record_cannot_count_twice_in_one_cell():
    """Cells of another level, and cells that are none, count nowhere."""
    assert counted(lambda *_: np.array([[0, 0], [3, 6], [0, 2]])) == [1, 0, 0, 0, 0, 0]


def test_a_record_counts_once_on_every_level_of_its_group_and_in_no_other():
    tree = Block(
        "tree",
        Ones(),
        lambda _, f: f[:, 1],
        cells=lambda _, f: np.stack([f[:, 1] // 2, 2 + f[:, 1]], axis=1).astype(np.int32),
        level_sizes=(2, 4),
    ).by(0, 3)
    assert tree.level_sizes == (6, 12)
    features = np.array([[2.0, 3.0], [0.0, 0.0], [7.0, 1.0], [np.nan, 1.0]], np.float32)
    places = np.asarray(tree.cells(None, features))
    assert places.tolist() == [[5, 17], [0, 6], [-1, -1], [-1, -1]]


@pytest.mark.parametrize("options", [{"share": 0.0}, {"level_sizes": ()}, {"level_sizes": (0,)}])
def test_blocks_that_cannot_be_are_refused(options):
    with pytest.raises(InvalidInput, match="positive share"):
        Block("broken", Ones(), lambda _, f: f[:, 0], **options)


@pytest.mark.parametrize("step", [2.0**-20, 0.25, 1.0, 8.0])
def test_the_weight_of_a_lone_block(step):
    table = Table((Block("one", BallPoint(2), lambda _, f: f),))
    assert table.factors(PRIVACY, step) == (lone_weight(step) / step,)
