"""Sums of products as one release: an audit by the records that are furthest apart."""

from itertools import combinations, product

import numpy as np
import pytest

from unisono.attacks.audit import audit, check
from unisono.core.algorithm import agree_facts
from unisono.core.study import Study
from unisono.core.trust import Relation, Trust

from .. import methods

DELTA = 1e-5


@pytest.mark.parametrize("factor", [1.0, 0.5])
def test_an_audit_catches_halved_noise(factor):
    """One record at a corner of what it may be, or at another: honest noise passes, halved noise is
    caught; honest noise would be accused once in 10,000. A clip that was forgotten, or a neighbour
    that moves farther than is claimed, fails before any noise is drawn."""
    generator = np.random.default_rng(5)
    facts = agree_facts((40,), 3, Trust.LOCAL)
    study = Study(methods.adaptive_statistics(1.0, DELTA), facts, Trust.LOCAL)
    algorithm = study.algorithm
    public = algorithm.ask(algorithm.init(facts)[0])
    rows = generator.normal(size=(40, 3)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    targets = generator.uniform(-1, 1, 40).astype(np.float32)
    sums, worlds = methods.CleanSums(algorithm, facts, public), []
    for *corner, target in product((-3, 0, 3), (-3, 0, 3), (0, 3), (-3, 0, 3)):
        here, marks = rows.copy(), targets.copy()
        here[0], marks[0] = corner, target
        worlds.append(sums(here, marks))
    gap = max((one - two for one, two in combinations(worlds, 2)), key=np.linalg.norm)
    length = np.linalg.norm(gap)
    bound = sums.sensitivity.under(Relation.REPLACE_ONE).in_norm("l2")
    assert 0.7 * bound < length <= bound
    scale = factor * algorithm.event(facts, Trust.LOCAL).noise.std
    scores = [c + scale * length * generator.normal(size=10_000) for c in (gap @ gap, 0.0)]
    found = audit(*scores, DELTA, confidence=0.9999, gaussian=True)
    best = max(found.epsilon_direct, found.epsilon_model_based or 0.0)
    if factor == 1:
        check(1.0, DELTA, found)
    assert best > (0.25 if factor == 1 else 1.0)
