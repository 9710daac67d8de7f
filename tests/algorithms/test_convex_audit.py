"""Audits: what can be measured never exceeds the claim, exceeds half of it, and a halved noise is
caught.

Neighbours and parameters are the worst case, so that clean messages are as far apart as the event
allows; noise comes from grants, as in a real run. False-alarm rate of every audit: 1e-3.
"""

from dataclasses import replace

import jax
import numpy as np
import pytest

from unisono.accounting.accountant import ACCOUNTANT
from unisono.attacks.audit import audit, check
from unisono.core.algorithm import Facts
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.release import noise_steps
from unisono.core.study import Party, Study
from unisono.core.trust import SERVER, Trust
from unisono.core.values import Private
from unisono.engines import chunks, in_process
from unisono.errors import AuditFailed

from .. import methods

EPSILON, DELTA, RUNS, CONFIDENCE = 4.0, 1e-5, 6000, 0.999
# SGD1 runs for real, and attacks every one of its records. Its claim is chosen so large that 700 of
# them have the power to show half of it: an ideal Gaussian passes in at least 99 of 100 simulated
# audits (at epsilon 4 and 400 records it would in 43 only); 250 catch a halved noise in all of 600.
SEQUENTIAL_EPSILON = 8.0
FACTS = Facts((8,), 3, 1)
# The audited party beside one of half its size, which its model outweighs.
UNEQUAL = Facts((8, 4), 3, 2)


def worst_case():
    """One record of eight flips its label."""
    rows = np.tile(np.array([[0.6, 0.8, 0.0]]), (8, 1)).astype(np.float32)
    labels = np.ones(8, np.float32)
    flipped = labels.copy()
    flipped[0] = -1.0
    return (rows, labels), (rows, flipped)


def halved(event):
    return replace(event, noise=replace(event.noise, std=event.noise.std / 2))


METHODS = {
    # Huber's loss with λ = 2 is linear where it is minimised; clipping at 1/2 is the logistic
    # slope at 0.
    "output-perturbation": methods.output_perturbation(
        EPSILON, DELTA, loss="huber-svm", regularisation=2.0
    ),
    "gradient-perturbation": methods.gradient_perturbation(
        EPSILON, DELTA, rounds=10, clipping_norm=0.5
    ),
    "sgd-synchronous": methods.sgd_synchronous(EPSILON, DELTA, rounds=10, lipschitz=0.5),
}
ALGORITHMS = {name: (method.bind(FACTS, Trust.LOCAL), FACTS) for name, method in METHODS.items()}
ALGORITHMS["output-perturbation-unequal"] = (
    METHODS["output-perturbation"].bind(UNEQUAL, Trust.LOCAL),
    UNEQUAL,
)


def messages(algorithm, facts, data, seed, fault):
    """All rounds' messages (rounds, runs, p) of `RUNS` runs; the parameters stay at zero."""
    event = algorithm.event(facts, Trust.LOCAL)
    grid = algorithm.grid(facts, Trust.LOCAL)
    server, state = algorithm.init(facts)

    @jax.jit
    def clean(columns, mask):
        public, size = algorithm.ask(server), np.int32(facts.records[0])
        _, contribution = algorithm.local(facts, public, state, columns, mask, size)
        return contribution.value, contribution.valid

    value, valid = clean(data, np.ones(8, bool))
    assert bool(valid)
    book = Ledger.in_memory(Policy("audit", Budget(100.0, DELTA)), ACCOUNTANT, seed=seed)
    grant = book.authorize(algorithm.cost(facts, Trust.LOCAL), algorithm.rounds)
    keys = [grant.draw(i).take(event) for i in range(algorithm.rounds)]
    drawn = fault(event) if fault else event
    noise = np.stack([noise_steps(key, drawn, grid, (RUNS, 3), 1, (3,)) for key in keys])
    return np.asarray(value).ravel() + noise


def scores(algorithm, facts, fault=None):
    worlds = [
        messages(algorithm, facts, data, seed, fault) for seed, data in enumerate(worst_case(), 1)
    ]
    direction = worlds[0].mean((0, 1)) - worlds[1].mean((0, 1))
    exact = np.array([0.6, 0.8, 0.0]) * np.sign(direction[0])
    return [world.sum(0) @ exact for world in worlds]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_claims_hold_and_are_not_idle(name):
    found = audit(*scores(*ALGORITHMS[name]), delta=DELTA, confidence=CONFIDENCE)
    check(EPSILON, DELTA, found)
    assert found.epsilon_model_based > EPSILON / 2


@pytest.mark.parametrize("name", ALGORITHMS)
def test_halved_noise_is_caught(name):
    found = audit(*scores(*ALGORITHMS[name], halved), delta=DELTA, confidence=CONFIDENCE)
    with pytest.raises(AuditFailed):
        check(EPSILON, DELTA, found)


def sequential_scores(records):
    """SGD1 itself, against the coordinator, who names every record as often as is allowed. Each of
    them is an attack of its own: it flips its label, and its messages are n times its gradient,
    which depends on nobody else where Huber's loss is linear."""
    study = Study(
        methods.sgd_sequential(
            SEQUENTIAL_EPSILON, DELTA, loss="huber-svm", radius=0.1, steps=5 * records, uses=5
        ),
        Facts((records,), 3, 1),
        Trust.LOCAL,
    )
    order, worlds = np.arange(5 * records) % records, []
    for world, label in enumerate((1.0, -1.0)):
        rows = np.tile(np.array([[0.6, 0.8, 0.0]], np.float32), (records, 1))
        ledger = Ledger.in_memory(Policy("audit", Budget(100.0, DELTA)), ACCOUNTANT, seed=world)
        party = Party("only", Private((rows, np.full(records, label, np.float32))), ledger)
        result = in_process.run(study, [party], order=order)
        sent = [m.value for m in result.transcript.seen_by(SERVER) if m.name == "messages"]
        worlds.append(np.array(sent).reshape(5, records, 3).sum(0) @ [-0.6, -0.8, 0.0])
    return worlds


def test_sgd1_claim_holds_against_the_coordinator():
    found = audit(*sequential_scores(700), delta=DELTA, confidence=CONFIDENCE)
    check(SEQUENTIAL_EPSILON, DELTA, found)
    assert found.epsilon_model_based > SEQUENTIAL_EPSILON / 2


def test_sgd1_with_halved_noise_is_caught(monkeypatch):
    def too_little(key, event, *rest):
        return noise_steps(key, halved(event), *rest)

    monkeypatch.setattr(chunks, "noise_steps", too_little)
    found = audit(*sequential_scores(250), delta=DELTA, confidence=CONFIDENCE)
    with pytest.raises(AuditFailed):
        check(SEQUENTIAL_EPSILON, DELTA, found)
