"""Predicted widths of intervals: from public facts alone, right where what is supposed holds."""

import math

import numpy as np
import pytest

from unisono.accounting.accountant import ACCOUNTANT
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.study import Party
from unisono.core.trust import Trust
from unisono.core.values import Private
from unisono.engines import in_process
from unisono.errors import InvalidInput
from unisono.planning.widths import PlannedWidth, Widths, widths_of
from unisono.studies.build import build
from unisono.studies.file import parse_study
from unisono.studies.stages import FIT, START

STUDY = """\
title = "Odds"
[data]
target = "y"
[data.columns]
a = { kind = "number", bounds = [-4, 4] }
b = { kind = "number", bounds = [-4, 4] }
s = { kind = "category", values = ["u", "v"] }
y = TARGET
[[parties]]
name = "north"
records = 4000
[[parties]]
name = "south"
records = 2500
[[parties]]
name = "west"
records = 1500
[privacy]
epsilon = EPSILON
delta = 1e-6
[trust]
mode = "secure-sum"
[model]
name = "glm"
"""
RECORDS = (4000, 2500, 1500)
TARGETS = {
    "binomial": '{ kind = "category", values = ["no", "yes"] }',
    "gaussian": '{ kind = "number", bounds = [-5, 5] }',
}


def built(family="binomial", epsilon=1.0):
    text = STUDY.replace("TARGET", TARGETS[family]).replace("EPSILON", str(epsilon))
    return build(parse_study(text))


@pytest.fixture(scope="module")
def planned():
    return widths_of(built().study)


def test_without_noise_errors_are_those_of_the_information(planned):
    """1 / sqrt(n v) of a number per deviation, twice that of one value of two."""
    sampling = 1 / math.sqrt(sum(RECORDS) / 4)
    a, b, s = planned.columns
    assert a.sampling_error == pytest.approx(sampling, rel=0.1)
    assert b.sampling_error == pytest.approx(sampling, rel=0.1)
    assert s.sampling_error == pytest.approx(2 * sampling, rel=0.1)
    assert (a.values, s.values) == (0, 2)


def test_noise_widens_and_a_large_epsilon_hardly_does(planned):
    almost = widths_of(built(epsilon=20).study)
    for one, other in zip(planned.columns, almost.columns, strict=True):
        assert one.inflation > other.inflation > 0.99
        assert other.inflation < 1.05


def test_less_trust_and_rarer_outcomes_are_wider(planned):
    study = built().study
    local = widths_of(study.under(Trust.LOCAL))
    rare = widths_of(study, share=0.1)
    for one, other, rarer in zip(planned.columns, local.columns, rare.columns, strict=True):
        assert other.std_error > one.std_error
        # Of sampling alone, sqrt(.25 / .09); noise weighs more beside less information.
        assert rarer.sampling_error == pytest.approx(one.sampling_error / 0.6, rel=0.15)
        assert rarer.inflation > one.inflation


def test_it_is_the_same_every_time(planned):
    assert widths_of(built().study) == planned


def test_power_and_the_least_effect_agree():
    one = PlannedWidth("a", True, 0, 0.1, 0.08, 1.0)
    assert one.power(0.0) == pytest.approx(0.05)
    assert one.power(one.detectable(0.8)) == pytest.approx(0.8, abs=1e-6)
    assert one.power(-0.3) == one.power(0.3)
    drowned = PlannedWidth("a", True, 0, 0.1, 0.08, 0.5)
    assert drowned.power(1.0) == pytest.approx(0.5)


def test_effects_are_ratios_or_differences():
    odds = Widths("binomial", 100, 1, ())
    assert odds.coefficient(1.2) == pytest.approx(math.log(1.2))
    with pytest.raises(InvalidInput, match="a ratio is above zero"):
        odds.coefficient(-1.0)
    with pytest.raises(InvalidInput, match="this one is gaussian"):
        widths_of(built("gaussian").study, share=0.5)
    with pytest.raises(InvalidInput, match="between 0 and 1"):
        widths_of(built().study, share=1.5)


def test_no_noise_leaves_anything_where_there_is_hardly_a_budget():
    hopeless = widths_of(built(epsilon=0.01).study)
    assert max(one.determined for one in hopeless.columns) < 0.5
    assert max(one.power(1.0) for one in hopeless.columns) < 0.5


def measured(study, y_of):
    """Standard errors of one run on records as they are supposed, in the prediction's units."""
    random, n = np.random.default_rng(7), sum(RECORDS)
    a, b = np.clip(random.normal(size=(2, n)), -4, 4)
    s = random.integers(0, 2, n).astype(float)
    table = {"a": a, "b": b, "s": s, "y": y_of(random, n)}
    [rows] = study.posed.encode(table)
    parts = np.split(rows.astype(np.float32), np.cumsum(RECORDS)[:-1])
    parties = [
        Party(
            name,
            Private((own,)),
            Ledger.in_memory(Policy(name, Budget(10.0, 1e-4)), ACCOUNTANT, seed=k),
        )
        for k, (name, own) in enumerate(zip(study.file.names, parts, strict=True))
    ]
    stages = {stage.name: stage.study for stage in study.stages}
    start = in_process.run(stages[START], parties)
    shown = study.present(in_process.run(stages[FIT].begun(start.value), parties))
    return [shown["coefficients"][name]["std_error"] for name in ("a", "b", "s=v")]


LAWS = {
    "binomial": lambda random, n: (random.random(n) < 0.5).astype(float),
    "gaussian": lambda random, n: np.clip(random.normal(size=n), -5, 5),
}


@pytest.mark.slow
@pytest.mark.parametrize("family", LAWS)
def test_a_run_on_such_records_has_errors_as_predicted(family):
    """One run: its errors vary by some hundredths with the noise in them."""
    study = built(family)
    predicted = [one.std_error for one in widths_of(study.study).columns]
    assert predicted == pytest.approx(measured(study, LAWS[family]), rel=0.25)
