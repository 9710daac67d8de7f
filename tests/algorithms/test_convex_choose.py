"""The "auto" rule: public facts in, the same choice out, and it learns."""

import math

import numpy as np
import pytest

from unisono.accounting.accountant import ACCOUNTANT
from unisono.algorithms.choose import choose
from unisono.algorithms.descent import signal
from unisono.core.algorithm import Facts
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.privacy import Privacy
from unisono.core.study import Party, Study
from unisono.core.trust import Relation, Trust
from unisono.core.values import Private
from unisono.engines import in_process
from unisono.errors import InvalidInput
from unisono.problems.linear import LinearLoss

from .. import methods

FACTS = Facts((2000, 3000), 3, 2)
LOGISTIC = LinearLoss("logistic")


@pytest.mark.parametrize(
    ("wanted", "name"),
    [
        ({"delta": 0.0}, "output-perturbation"),
        ({"delta": 1e-5, "most_rounds": 1}, "output-perturbation"),
        ({"delta": 1e-5}, "gradient-perturbation"),
        ({"delta": 1e-5, "most_rounds": 20}, "gradient-perturbation"),
    ],
)
def test_the_rule(wanted, name):
    facts = Facts(FACTS.records, 3, 2, 1)
    privacy = Privacy(1.0, wanted.pop("delta"))
    first, second = (choose(LOGISTIC, privacy, **wanted) for _ in range(2))
    made = [Study(choice.method, facts, Trust.SECURE_SUM).algorithm for choice in (first, second)]
    assert made[0].name == name
    assert made[0].settings == made[1].settings
    assert made[0].rounds <= wanted.get("most_rounds", 200)
    assert first.reason


def test_noisier_studies_step_more_carefully_and_regularise_more():
    method = choose(LOGISTIC, Privacy(0.05, 1e-5)).method
    weak, strong = (
        method.bind(FACTS, trust).settings["learning_rate"]
        for trust in (Trust.LOCAL, Trust.SECURE_SUM)
    )
    assert weak < strong
    ridges = [
        methods.output_perturbation(e, 1e-5).bind(FACTS, Trust.LOCAL).settings["regularisation"]
        for e in (0.1, 1.0, 10.0)
    ]
    assert ridges == sorted(ridges, reverse=True)
    zeroed, replaced = (
        signal(FACTS, Trust.LOCAL, Privacy(1.0, 1e-5, relation), 3)
        for relation in (Relation.ZERO_OUT, Relation.REPLACE_ONE)
    )
    assert zeroed == pytest.approx(2 * replaced)


@pytest.mark.parametrize(("delta", "least"), [(1e-5, 0.95), (0.0, 0.8)])
def test_it_learns(delta, least):
    generator = np.random.default_rng(0)
    data = []
    for size in FACTS.records:
        rows = generator.normal(size=(size, 3))
        rows /= np.maximum(1, np.linalg.norm(rows, axis=1, keepdims=True))
        data.append((rows, np.where(rows @ [2.0, -1.0, 0.5] > 0, 1.0, -1.0)))
    parties = [
        Party(
            str(j),
            Private(columns),
            Ledger.in_memory(Policy(str(j), Budget(1.0, delta)), ACCOUNTANT, seed=5),
        )
        for j, columns in enumerate(data)
    ]
    chosen = choose(LOGISTIC, Privacy(1.0, delta))
    value = in_process.run(Study(chosen.method, FACTS, Trust.LOCAL), parties).value
    hits = np.concatenate([np.sign(x @ value) == y for x, y in data])
    assert hits.mean() > least


def test_nonsense_is_refused():
    for epsilon in (0.0, -1.0, math.nan):
        with pytest.raises(InvalidInput, match="epsilon"):
            choose(LOGISTIC, Privacy(epsilon, 1e-5))
    with pytest.raises(InvalidInput, match="delta"):
        choose(LOGISTIC, Privacy(1.0, 1.0))
    with pytest.raises(InvalidInput, match="most_rounds"):
        choose(LOGISTIC, Privacy(1.0, 1e-5), most_rounds=0)
