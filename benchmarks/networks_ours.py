"""Our side of the network benchmark: `ours(model, steps, noise)` trains and waits for the end.

The library's own DP-SGD as its engine runs it, chunk by chunk: exact secret coins of every record,
a grant's key for every step, batches padded to their public size, norms and sums as `dp_sgd`
computes them, ChaCha20 noise in the graph. Left out are the set-up (calibration, compilation) and,
where asked, the drawing of the noise.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import optax

from networks_common import CLIP, RATE, TASKS, data
from unisono.accounting.accountant import ACCOUNTANT
from unisono.algorithms.dp_sgd import DP_SGD
from unisono.core.algorithm import Facts
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.privacy import Privacy
from unisono.core.study import Study
from unisono.core.trust import Relation, Trust
from unisono.engines.chunks import Chunk
from unisono.engines.rounds import stack
from unisono.problems.networks import convolutional, logistic, mlp
from unisono.problems.record_loss import RecordLoss
from unisono.releases.blocked_sum import Clipping

NETWORKS = {
    "mlp": lambda: mlp(784, (256,), 10, activation="relu"),
    "conv": lambda: convolutional((28, 28, 1), 10),
    "logistic": lambda: logistic(100, 2),
}
ROUNDS = {"mlp": 20_000, "conv": 20_000, "logistic": 400_000}


@functools.cache
def _trained(model: str, noise: bool) -> Callable[[int], None]:
    task, network = TASKS[model], NETWORKS[model]()
    rows, labels = data(model)
    records = (rows.reshape(task.records, -1), labels.astype(np.float32))
    rounds, first = ROUNDS[model], network.init(jax.random.key(0))
    example = (records[0][0], records[1][0])
    method = DP_SGD.method(
        RecordLoss(network.loss, first, example),
        Privacy(8.0, 1e-5, Relation.ADD_OR_REMOVE),
        rounds=rounds,
        sampling_rate=task.batch / task.records,
        clipping=Clipping(bound=CLIP),
        optimizer=optax.sgd(RATE),
    )
    facts = Facts((task.records,), records[0].shape[1], 1, exact_sizes=False)
    study = Study(method, facts, Trust.LOCAL)
    policy = Policy("benchmark", Budget(8.01, 1e-5), relation=Relation.ADD_OR_REMOVE)
    ledger = Ledger.in_memory(policy, ACCOUNTANT, seed=1)
    grant = ledger.authorize(study.cost, rounds)
    alive = np.ones((rounds, 1), bool)
    chunk = Chunk(study, stack(study, [records], [grant]), alive, seed=1)
    del rows, records
    if not noise:
        chunk._fill = lambda noise, jobs: None  # type: ignore[method-assign]
        empty = chunk._empty
        chunk._empty = lambda n: (empty(n)[0], np.zeros((n, 1, 1, 1), np.int32))  # type: ignore
    server, _ = study.algorithm.init(facts)
    carry: Any = (server, None, None)
    done = 0

    def run(steps: int) -> None:
        nonlocal carry, done
        for _ in range(steps // task.chunk):
            carry, _ = chunk.run(carry, [grant], 0, range(done, done + task.chunk))
            done += task.chunk
        jax.block_until_ready(carry)

    return run


def ours(model: str, steps: int, noise: bool) -> None:
    """Train `model` for `steps` steps (whole chunks), with or without noise."""
    _trained(model, noise)(steps)
