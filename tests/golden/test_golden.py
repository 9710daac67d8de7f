"""Golden fixtures: what every algorithm claims, pays and computes must not change unnoticed.

For each case of the neighbour fuzzer and every trust that it offers: the events and what they cost
each viewer; and, with one party and a fixed seed, the integers before the noise, the result and the
certificate. `golden.json` is written anew by

    python -m pytest tests/golden --write-golden

and whatever then differs is a change of a guarantee or of an answer, to be explained.
"""

import json
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest

from unisono.accounting.accountant import ACCOUNTANT
from unisono.attacks.neighbours import CleanParty, World
from unisono.core.events import Everyone, composed_to_json, releases_of
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.study import Party, Study
from unisono.core.trust import ITERATES, Relation, Trust, Unit
from unisono.core.values import Private
from unisono.engines import in_process
from unisono.engines.layout import spread

from ..attacks.neighbour_cases import RECORDS, cases, persons

FILE = Path(__file__).with_name("golden.json")
CASES = {name: rest for name, *rest in (*cases(), *persons())}
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def studies(name):
    """The case with three parties, under every trust that it offers."""
    build, facts, _ = CASES[name]
    several = replace(facts, records=(72, 40, 55))
    for trust in Trust:
        algorithm = build()
        if trust in algorithm.trusts:
            yield trust, Study(algorithm, several, trust)


def paid(study):
    """Every kind of event of the run, and its epsilon against who sees iterates."""
    parts = {}
    for viewer, history in study.cost.items():
        parts.setdefault(json.dumps(composed_to_json(history)), []).append(str(viewer))
    relations = study.cost[ITERATES].relations
    return {
        "hides": [
            {"viewers": viewers, "events": json.loads(text)} for text, viewers in parts.items()
        ],
        "epsilon": {
            str(r): f"{ACCOUNTANT.epsilon(study.cost[ITERATES], r, 1e-5):.10g}" for r in relations
        },
    }


def records(shapes):
    generator = np.random.default_rng(7)
    columns = [generator.normal(size=(RECORDS, *s)).astype(np.float32) for s in shapes]
    if len(columns) > 1:
        columns[1] = np.sign(columns[1])
    return tuple(columns)


def integers(study, columns):
    """What one party would add noise to, where every record takes part."""
    party = CleanParty(study)
    server, state = study.algorithm.init(study.facts)
    public = study.algorithm.ask(server)
    size = party.layout.segment
    world = World(
        columns, np.ones(RECORDS, bool), spread(np.arange(RECORDS)[:size], np.arange(size), size)
    )
    value, _ = party.releases(world, [public] * party.turns, state)
    return value.reshape(len(value), -1)[:2].tolist()


def learnt(study, columns):
    """Result and certificate of a seeded run, to seven digits; noise that is drawn with a seed
    follows from the study's hash, so that this is the same whatever settings are called."""
    study.__dict__["hash"] = "golden"
    event = study.algorithm.event(study.facts, study.trust)
    unit = event.sensitivity.unit
    relation = Relation.REPLACE_ONE if study.facts.exact_sizes else Relation.ADD_OR_REMOVE
    policy = Policy("golden", Budget(50.0, 1e-5), relation=relation, unit=unit)
    ledger = Ledger.in_memory(policy, ACCOUNTANT, seed=5)
    later = study.algorithm.begin is not None
    started = study.begun(None) if later else study
    result = in_process.run(started, [Party("only", Private(columns), ledger)])
    # Stages that begin with another's answer solve equations, whose last digits are the library's.
    kept = () if later else jax.tree.leaves(result.value)
    leaves = [np.asarray(leaf, np.float64).ravel() for leaf in kept]
    return {
        "result": [[f"{number:.7g}" for number in leaf[:40]] for leaf in leaves],
        "certificate": [
            [str(line.viewer), str(line.relation), f"{line.epsilon:.10g}", line.delta]
            for line in result.certificate.lines
        ],
        "releases": releases_of(event),
        "sampled": not isinstance(event.sampler, Everyone),
        "unit": str(Unit(unit)),
    }


def golden(name):
    build, facts, shapes = CASES[name]
    one = replace(facts, records=(RECORDS,), minimum_parties=1, colluders=0)
    alone, columns = Study(build(), one, Trust.LOCAL), records(shapes)
    return {
        "paid": {str(trust): paid(study) for trust, study in studies(name)},
        "integers": integers(alone, columns),
        "learnt": learnt(alone, columns),
    }


def compare(found, kept, where=""):
    """Exactly equal, but for results, whose last digits depend on the processor."""
    if isinstance(kept, dict):
        assert set(found) == set(kept), where
        for key in kept:
            compare(found[key], kept[key], f"{where}/{key}")
    elif isinstance(kept, list):
        assert len(found) == len(kept), where
        for number, (one, other) in enumerate(zip(found, kept, strict=True)):
            compare(one, other, f"{where}/{number}")
    elif "/integers/" in where:
        assert abs(found - kept) <= 2, where
    elif isinstance(kept, (int, float)) or "/result/" in where or "/epsilon" in where:
        assert float(found) == pytest.approx(float(kept), rel=1e-6, abs=1e-5, nan_ok=True), where
    else:
        assert found == kept, where


@pytest.mark.parametrize("name", CASES)
def test_nothing_changes_unnoticed(name, request):
    found = json.loads(json.dumps(golden(name)))
    kept = json.loads(FILE.read_text()) if FILE.exists() else {}
    if request.config.getoption("--write-golden"):
        FILE.write_text(json.dumps(kept | {name: found}, indent=1, sort_keys=True) + "\n")
        return
    compare(found, kept[name], name)
