"""Every algorithm's events, recomputed by another accountant; a new one is tested by registering.

Studies are those of the neighbour fuzzer, one for each algorithm, with three parties.
"""

import json
from dataclasses import replace

import pytest

from unisono.accounting.accountant import ACCOUNTANT
from unisono.algorithms.registry import algorithms
from unisono.core.algorithm import agree_facts
from unisono.core.events import Poisson, composed_from_json, composed_to_json
from unisono.core.study import Study
from unisono.core.trust import ITERATES, SERVER, Relation, Trust
from unisono.errors import InvalidInput
from unisono.exports.dp_events import _delta, counterpart

from . import methods
from .attacks.neighbour_cases import cases
from .test_exports import made

pytestmark = pytest.mark.filterwarnings("ignore")
DELTA = 1e-5


def studies():
    """One study of each algorithm, under the first trust that it offers."""
    found = {}
    for _, build, facts, *_ in cases():
        method = build()
        trust = next(one for one in Trust if one in method.trusts)
        study = Study(method, replace(facts, records=(72, 40, 55)), trust)
        found.setdefault(study.algorithm.name, study)
    if "objective-perturbation" not in found:  # it has no release before its noise to be fuzzed
        method = methods.objective_perturbation(2.0, DELTA)
        facts = agree_facts((72, 40, 55), 3, Trust.LOCAL)
        found["objective-perturbation"] = Study(method, facts, Trust.LOCAL)
    return found


STUDIES = studies()


def test_every_algorithm_has_a_study():
    assert set(algorithms()) <= set(STUDIES)


def _replaced_in_a_sample(history, relation):
    sampled = any(isinstance(event.sampler, Poisson) for event, _ in history.parts)
    return sampled and relation is Relation.REPLACE_ONE


@pytest.mark.parametrize("name", sorted(STUDIES))
def test_another_accountant_finds_the_epsilon_of_every_algorithm(name):
    """Within 1 %, under at least one relation; refused only where a record of a secret sample is
    replaced, which dp-accounting does not know."""
    from dp_accounting.pld import PLDAccountant
    from dp_accounting.privacy_accountant import NeighboringRelation

    found = 0
    cost = STUDIES[name].cost
    for viewer in (ITERATES, SERVER):
        history = composed_from_json(json.loads(json.dumps(composed_to_json(cost[viewer]))))
        for relation in history.relations:
            ours = ACCOUNTANT.epsilon(history, relation, DELTA)
            if _replaced_in_a_sample(history, relation):
                with pytest.raises(InvalidInput, match="a record is replaced by another"):
                    counterpart(history, relation)
                continue
            document = counterpart(history, relation)
            left = _delta(history, {"epsilon": ours, "delta": DELTA})
            accountant = PLDAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE)
            accountant.compose(made(document))
            theirs = accountant.get_epsilon(left["delta_for_events"]) + left["epsilon_added"]
            assert theirs == pytest.approx(ours, rel=0.01)
            found += 1
    assert found
