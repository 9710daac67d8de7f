"""Ranges and scales that are paid for: near the truth, ordered, within the promise."""

import numpy as np
import pytest

from unisono.accounting.accountant import ACCOUNTANT
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.study import Party
from unisono.core.trust import SERVER, Relation, Trust
from unisono.core.values import Private
from unisono.engines import in_process
from unisono.errors import BudgetExceeded, InvalidInput
from unisono.scaling import PrivateScaler

SIZES = (900, 1100, 1000)


def columns(seed=0):
    generator = np.random.default_rng(seed)
    return [
        np.column_stack(
            [generator.normal(50, 10, n), generator.lognormal(9, 1, n), np.full(n, 3.0)]
        )
        for n in SIZES
    ]


def members(data, budget=10.0, colluders=1):
    return [
        Party(
            f"p{j}",
            Private((rows, rows[:, 0])),
            Ledger.in_memory(
                Policy(f"d{j}", Budget(budget, 1e-5), colluders=colluders), ACCOUNTANT, seed=1
            ),
        )
        for j, rows in enumerate(data)
    ]


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_scaling_is_near_the_truth(delta):
    data = columns()
    parties = members(data)
    scaling = PrivateScaler(2.0, delta, reach=1e6).fit(parties, records=SIZES, features=3)
    truth = np.quantile(np.concatenate(data), [0.01, 0.5, 0.99], axis=0)
    assert scaling.centre == pytest.approx(truth[1], rel=0.12)
    assert np.all(scaling.low < scaling.centre)
    assert np.all(scaling.centre < scaling.high)
    assert np.all(scaling.scale > 0)
    assert scaling.scale[0] == pytest.approx(6.7, rel=0.25)
    inside = np.mean(
        (np.concatenate(data) >= scaling.low) & (np.concatenate(data) <= scaling.high), axis=0
    )
    assert np.all(inside > 0.93)
    assert scaling.certificate.epsilon(SERVER, Relation.REPLACE_ONE) <= 2.0
    assert [p.ledger.grants for p in parties] == [1, 1, 1]
    moved = scaling.transform(data[0])
    assert np.abs(moved).max() <= 1 + 1e-9
    assert scaling.standardise(data[0]).shape == data[0].shape
    scaled = parties[0].data.map(scaling.apply)
    assert repr(scaled) == "<Private records>"
    assert scaling.text.count("median") == 3
    assert all(low < high for low, high in scaling.bounds)


def test_runs_on_the_other_engine_and_locally():
    loopback = pytest.importorskip("unisono.engines.flower.loopback")
    scaler = PrivateScaler(5.0, 1e-6, reach=1e6)
    found = [
        scaler.fit(
            members(columns(), colluders=0), records=SIZES, features=3, trust=Trust.LOCAL, run=run
        )
        for run in (in_process.run, loopback.run)
    ]
    assert found[0].centre == pytest.approx(found[1].centre, rel=1e-3)


def test_over_budget_nothing_is_learnt_or_spent():
    parties = members(columns(), budget=0.1)
    with pytest.raises(BudgetExceeded):
        PrivateScaler(1.0, 1e-6).fit(parties, records=SIZES, features=3)
    assert [p.ledger.grants for p in parties] == [0, 0, 0]


@pytest.mark.parametrize(
    ("options", "message"),
    [({"beyond": 0.3}, "no bounds"), ({"reach": 0.0}, "reach"), ({"epsilon": 0.0}, "epsilon")],
)
def test_bad_settings(options, message):
    with pytest.raises(InvalidInput, match=message):
        PrivateScaler(**{"epsilon": 1.0, **options})
