"""Three-line statistics: right values, honest margins, honest costs, clear refusals."""

import math

import numpy as np
import pytest

import unisono
from unisono.accounting.accountant import ACCOUNTANT
from unisono.attacks.audit import audit, check, two_worlds
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.trust import SERVER, Relation
from unisono.errors import BudgetExceeded, ClippedValues, InvalidInput

AGES = np.random.default_rng(3).integers(18, 90, 500)


def book(epsilon=50.0, delta=1e-4, relation=Relation.REPLACE_ONE, seed=0):
    return Ledger.in_memory(
        Policy("ages", Budget(epsilon, delta), relation=relation), ACCOUNTANT, seed=seed
    )


RELEASES = {
    "count": (lambda b, **k: unisono.count(AGES > 65, ledger=b, **k), np.count_nonzero(AGES > 65)),
    "sum": (lambda b, **k: unisono.total(AGES, (0, 120), ledger=b, **k), AGES.sum()),
    "mean": (lambda b, **k: unisono.mean(AGES, (0, 120), ledger=b, **k), AGES.mean()),
    "histogram": (
        lambda b, **k: unisono.histogram(AGES // 50, [0, 1, 2], ledger=b, **k),
        np.bincount(AGES // 50, minlength=3),
    ),
}


@pytest.mark.parametrize("relation", list(Relation))
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("name", RELEASES)
def test_margin_holds_as_often_as_it_says(name, delta, relation):
    """95 % margins over 60 releases miss more than 12 times with probability below 1e-5."""
    release, truth = RELEASES[name]
    misses = 0
    for seed in range(60):
        answer = release(book(relation=relation, seed=seed), epsilon=1.0, delta=delta)
        misses += np.abs(answer.value - truth).max() > answer.margin
    assert misses <= 12
    assert answer.epsilon == pytest.approx(1.0, rel=1e-6)
    assert answer.epsilon <= 1.0


@pytest.mark.parametrize(("delta", "halved"), [(0.0, False), (1e-5, False), (0.0, True)])
def test_audit_of_the_mean(delta, halved):
    """An empirical lower bound stays below the claim, and a halved noise is caught.

    One audit at 95 % confidence with a fixed seed.
    """
    ones = np.ones(20)
    other = np.concatenate([np.ones(19), [-1.0]])
    epsilon = 2.0 if halved else 1.0

    def release(data, runs, seed):
        ledger = book(epsilon=1e6, delta=0.5, seed=seed)
        return np.array(
            [unisono.mean(data, (-1, 1), epsilon=epsilon, delta=delta, ledger=ledger).value
             for _ in range(runs)]
        )  # fmt: skip

    scores = two_worlds(release, ones, other, runs=1500, seed=5, difference=np.array([1.0]))
    found = audit(*scores, delta=delta, gaussian=delta > 0)
    if halved:
        assert found.epsilon_direct > 1.0
    else:
        check(1.0, delta, found)
        assert found.epsilon_direct > 0.3 or (found.epsilon_model_based or 0) > 0.3


def test_budget_is_shared_over_all_statistics(tmp_path):
    path = tmp_path / "ages.ledger"
    ledger = unisono.open_ledger(path, dataset="ages", epsilon=1.0)
    unisono.mean(AGES, (0, 120), epsilon=0.6, ledger=ledger)
    ledger = unisono.open_ledger(path, dataset="ages", epsilon=1.0)
    with pytest.raises(BudgetExceeded, match=r"asks for epsilon 0\.6"):
        unisono.count(AGES > 65, epsilon=0.6, ledger=ledger)
    unisono.count(AGES > 65, epsilon=0.399, ledger=ledger)
    assert ledger.spent(SERVER) == pytest.approx(0.999)


def test_an_answer_explains_itself(tmp_path):
    ledger = unisono.open_ledger(tmp_path / "l", dataset="ages", epsilon=1.0)
    text = str(unisono.mean(AGES, (0, 120), epsilon=0.5, ledger=ledger))
    assert "epsilon = 0.5" in text
    assert "62.2 %" in text
    assert "SIMULATED" not in text
    assert "SIMULATED" in str(unisono.mean(AGES, (0, 120), epsilon=0.5, ledger=book()))


def test_bounds_do_not_come_from_the_data_and_outliers_are_clipped():
    with pytest.warns(ClippedValues, match="1000 of 1000 values lie outside"):
        answer = unisono.mean([1e9] * 1000, (0, 10), epsilon=5.0, ledger=book())
    assert answer.value == pytest.approx(10, abs=0.1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda b: unisono.mean([], (0, 1), epsilon=1, ledger=b), "empty"),
        (lambda b: unisono.mean([1, math.nan], (0, 1), epsilon=1, ledger=b), "NaN"),
        (lambda b: unisono.mean([1], (1, 0), epsilon=1, ledger=b), "not a finite range"),
        (lambda b: unisono.mean([1], (0, math.inf), epsilon=1, ledger=b), "not a finite range"),
        (lambda b: unisono.mean([1], (0, 1), epsilon=0, ledger=b), "epsilon"),
        (lambda b: unisono.mean([1], (0, 1), epsilon=math.nan, ledger=b), "epsilon"),
        (lambda b: unisono.mean([1], (0, 1), epsilon=1, delta=1.5, ledger=b), "delta"),
        (lambda b: unisono.count([1, 2], epsilon=1, ledger=b), "true/false"),
        (lambda b: unisono.histogram([1], [1, 1], epsilon=1, ledger=b), "distinct"),
        (lambda b: unisono.histogram([], [1], epsilon=1, ledger=b), "at least one value"),
    ],
)
def test_bad_input_is_refused_and_nothing_is_spent(call, message):
    ledger = book()
    with pytest.raises(InvalidInput, match=message):
        call(ledger)
    assert ledger.grants == 0


def test_a_large_delta_is_warned_about():
    with pytest.warns(UserWarning, match="1 / records"):
        unisono.mean(AGES, (0, 120), epsilon=1.0, delta=0.01, ledger=book(delta=0.1))
