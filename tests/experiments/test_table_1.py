"""Table 1 of source 002: its rows, what its defences do to a gradient, and its exponents."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from unisono.experiments import table_1

TINY = table_1.QUICK._replace(
    features=6, batch=2, counts=(1_000, 2_000, 4_000), neurons=2_000, dimensions=(4, 6, 8), seeds=1
)


@pytest.fixture(scope="module")
def one():
    return table_1.problem(1_500, 0, d=5, batch=3, stored=True)


def test_every_row_and_every_size_of_the_table_has_an_exponent():
    """B √(d/m) and each defence's own size; clipping's d and B are those of no defence."""
    found = {(sweep.defence, sweep.what): sweep.predicted for sweep in table_1.sweeps(TINY)}
    rows = ("none", "clipping", "local steps", "noise", "DP-SGD", "dropout")
    assert {row for row, what in found if what == "m"} == {*rows, "none, network's residuals"}
    assert found["DP-SGD", "m"] == 0.0
    assert all(
        power == -0.5 for (row, what), power in found.items() if what == "m" and row != "DP-SGD"
    )
    own = {("none", "B"): 1, ("local steps", "k"): 1, ("noise", "σ"): 1, ("DP-SGD", "σ"): 1}
    own |= {("DP-SGD", "s"): -1, ("dropout", "p"): -0.5}
    assert {pair: found[pair] for pair in own} == own
    assert {row for row, what in found if what == "d"} == {"none", "noise", "DP-SGD"}
    assert table_1.clipping_changes(TINY) < 1e-3


def test_one_local_step_sends_the_gradient(one):
    assert table_1.local_steps(one, 1, 0) == pytest.approx(one.gradient)
    assert not np.allclose(table_1.local_steps(one, 4, 0), 4 * one.gradient, rtol=1e-3)


def test_every_record_is_clipped_before_the_noise(one):
    """Without noise the sum of three records clipped to s is at most 3 s long, and s scales it."""
    short = table_1.dp_sgd(one, 0.0, 0, clip=0.5)
    assert np.linalg.norm(short) <= 1.5 + 1e-9
    assert table_1.dp_sgd(one, 0.0, 0, clip=1.0) == pytest.approx(2 * short)
    loud = table_1.dp_sgd(one, 0.3, 0, clip=0.5) - short
    assert loud.std() == pytest.approx(0.3, rel=0.1)  # 1,500 draws: five standard errors
    assert table_1.dp_sgd(one, 0.0, 0, clip=1e9) == pytest.approx(one.gradient)


def test_a_sweep_fits_the_exponent_of_its_errors():
    """Errors made to grow as size^0.7: loose against 1, violated against 0.5."""
    sizes = (1.0, 2.0, 4.0)
    sweep = table_1.Sweep("none", "B", 1.0, (0, 1), sizes, lambda b, seed: np.full(3, b**0.7))
    found = table_1.fitted(sweep, 2)
    assert found.slope.exponent == pytest.approx(0.7)
    assert found.verdict == "loose"
    assert table_1.fitted(sweep._replace(predicted=0.5), 2).verdict == "violated"


def test_the_picture_has_a_panel_for_every_size():
    found = [
        table_1.fitted(sweep._replace(errors=lambda size, seed: np.full(2, 0.1 + size / 1e6)), 1)
        for sweep in table_1.sweeps(TINY)
    ]
    figure = Figure(figsize=(14, 7.5), layout="constrained")
    table_1.draw(figure, found)
    figure.canvas.draw()
    assert len(figure.axes) == 8
    assert all(axes.has_data() for axes in figure.axes)


@pytest.mark.slow
def test_every_exponent_is_as_expected():
    """Fixed seeds; a minute of computing."""
    found = table_1.run(True)
    assert [number for number in found.numbers if not number.as_expected] == []
    assert len(found.numbers) == 17
