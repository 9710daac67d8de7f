"""The "auto" rule: public facts in, the same choice out, and it learns."""

import math

import numpy as np
import pytest

from unisono.accounting.accountant import ACCOUNTANT
from unisono.algorithms.choose import choose, output_ridge, signal
from unisono.core.algorithm import Facts
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.study import Party, Study
from unisono.core.trust import Relation, Trust
from unisono.core.values import Private
from unisono.engines import in_process
from unisono.errors import InvalidInput

FACTS = Facts((2000, 3000), 3, 2)


@pytest.mark.parametrize(
    ("wanted", "name"),
    [({"delta": 0.0}, "output-perturbation"),
     ({"delta": 1e-5, "most_rounds": 1}, "output-perturbation"),
     ({"delta": 1e-5}, "gradient-perturbation"),
     ({"delta": 1e-5, "most_rounds": 20}, "gradient-perturbation")],
)  # fmt: skip
def test_the_rule(wanted, name):
    first = choose(FACTS, Trust.SECURE_SUM, epsilon=1.0, **wanted)
    second = choose(FACTS, Trust.SECURE_SUM, epsilon=1.0, **wanted)
    assert first.algorithm.name == name
    assert first.algorithm.settings == second.algorithm.settings
    assert first.algorithm.rounds <= wanted.get("most_rounds", 200)
    assert first.reason


def test_noisier_studies_step_more_carefully_and_regularise_more():
    weak, strong = (
        choose(FACTS, trust, epsilon=0.05, delta=1e-5).algorithm.settings["learning_rate"]
        for trust in (Trust.LOCAL, Trust.SECURE_SUM)
    )
    assert weak < strong
    ridges = [
        output_ridge(FACTS, Trust.LOCAL, e, 1e-5, "logistic", 2, Relation.REPLACE_ONE)
        for e in (0.1, 1.0, 10.0)
    ]
    assert ridges == sorted(ridges, reverse=True)
    assert signal(FACTS, Trust.LOCAL, 1.0, 1e-5, Relation.ZERO_OUT, 3) == pytest.approx(
        2 * signal(FACTS, Trust.LOCAL, 1.0, 1e-5, Relation.REPLACE_ONE, 3)
    )


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
    chosen = choose(FACTS, Trust.LOCAL, epsilon=1.0, delta=delta)
    value = in_process.run(Study(chosen.algorithm, FACTS, Trust.LOCAL), parties).value
    hits = np.concatenate([np.sign(x @ value) == y for x, y in data])
    assert hits.mean() > least


def test_nonsense_is_refused():
    for epsilon in (0.0, -1.0, math.nan):
        with pytest.raises(InvalidInput, match="epsilon"):
            choose(FACTS, Trust.LOCAL, epsilon=epsilon, delta=1e-5)
    with pytest.raises(InvalidInput, match="delta"):
        choose(FACTS, Trust.LOCAL, epsilon=1.0, delta=1.0)
    with pytest.raises(InvalidInput, match="most_rounds"):
        choose(FACTS, Trust.LOCAL, epsilon=1.0, delta=1e-5, most_rounds=0)
