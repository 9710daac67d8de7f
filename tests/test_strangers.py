"""The benchmark of settings that others chose: its controls, and a tenth of it."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def load():
    """Import the benchmark, and leave no module of its folder behind under a plain name."""
    before = set(sys.modules)
    sys.path.insert(0, str(BENCHMARKS))
    try:
        spec = importlib.util.spec_from_file_location("strangers", BENCHMARKS / "strangers.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(BENCHMARKS))
        for name in set(sys.modules) - before:
            if Path(getattr(sys.modules[name], "__file__", None) or "").parent == BENCHMARKS:
                del sys.modules[name]
    return module


strangers = load()
TENTH = list(strangers.chosen(list(strangers.FAMILIES), [], quick=True))


def found(own, truth=2.0, peer=(1.8, 2.2), names=("x1",)):
    return strangers.Found(names, np.array([truth]), np.array([own]), np.array([peer]), ())


def test_an_interval_that_is_not_estimable_is_a_miss_where_the_effect_is_clear():
    known, lost = found((1.7, 2.3)), found((np.nan, np.nan))
    clear = strangers.summarize("gaussian", "", [known, lost], 0.0)
    assert clear.covered["x1"] == 0.5
    assert clear.lost == 0.5
    unclear = strangers.summarize(
        "gaussian", "", [found((-0.2, 0.4), 0.1, (-0.1, 0.3)), lost._replace(truth=[0.1])], 0.0
    )
    assert unclear.covered["x1"] == 1.0


def test_an_infinite_truth_needs_an_infinite_end():
    one = found((-5.0, -3.0), -np.inf, (np.nan, np.nan))
    other = found((-np.inf, -3.0), -np.inf, (np.nan, np.nan))
    assert strangers.summarize("binomial", "", [one, other], 0.0).covered["x1"] == 0.5


def test_a_low_coverage_is_named_and_one_like_the_controls_is_not():
    low = [found((0.0, 1.0)) for _ in range(20)]
    cell = strangers.summarize("gaussian", "", low, 0.0)
    assert cell.refuted() == ["x1"]
    assert not cell._replace(control={"x1": 0.01}).refuted()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("family", ["binomial", "gaussian", "poisson"])
def test_the_regression_without_privacy_is_that_of_statsmodels(family):
    pytest.importorskip("statsmodels")
    g = np.random.default_rng(3)
    x = np.column_stack([g.normal(60, 10, 500), g.random(500) < 0.3]).astype(float)
    y = g.poisson(1.0, 500).astype(float)
    y = np.minimum(y, 1) if family == "binomial" else y
    offset = g.normal(size=500) / 5 if family == "poisson" else None
    ours = strangers.regression(family, x, y, offset)
    theirs = strangers.regression(family, x, y, offset, peer=True)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)


@pytest.mark.filterwarnings("ignore")
def test_curves_and_tests_without_privacy_are_those_of_lifelines():
    pytest.importorskip("lifelines")
    from lifelines import KaplanMeierFitter
    from lifelines.statistics import multivariate_logrank_test
    from lifelines.utils import restricted_mean_survival_time

    g = np.random.default_rng(4)
    time, event = np.ceil(g.exponential(5, 400)), (g.random(400) < 0.7).astype(int)
    group = g.integers(0, 3, 400)
    at, curve, _ = strangers.product_limit(time, event)
    peer = KaplanMeierFitter().fit(time, event)
    np.testing.assert_allclose(curve, peer.survival_function_at_times(at), rtol=1e-9)
    area, error = strangers._area(at, curve, time, event, 12.0)
    mean, variance = restricted_mean_survival_time(peer, 12.0, return_variance=True)
    assert area == pytest.approx(mean)
    assert error > 0
    assert np.isfinite(variance)
    assert strangers.plain_log_rank(time, event, group, 100.0) == pytest.approx(
        multivariate_logrank_test(time, group, event).p_value
    )


def test_every_family_has_five_settings_that_were_written_before_any_run():
    for family, (settings, _) in strangers.FAMILIES.items():
        if family != "tables":
            assert sum(name[0] == "N" and name[1].isupper() for name in settings) == 5, family


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("family", "name"), TENTH, ids=[name for _, name in TENTH])
def test_intervals_of_a_tenth_of_the_settings(family, name):
    try:
        cell = strangers.measure(family, name, 20, "test")
    except strangers.MissingTableError as why:
        pytest.skip(str(why))
    assert not cell.refuted() or cell.warned > 0.5, strangers.line(cell)
