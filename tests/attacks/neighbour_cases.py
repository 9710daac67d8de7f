"""What the neighbour fuzzer runs over: every algorithm, with public sizes and with hidden ones."""

import jax.numpy as jnp
import numpy as np
import optax

from unisono.algorithms import (
    components,
    quantiles,
    statistics,
)
from unisono.core.algorithm import Facts
from unisono.core.study import Study
from unisono.core.trust import Relation, Trust, Unit
from unisono.problems.record_loss import RecordLoss
from unisono.releases.blocked_sum import Clipping

from .. import methods

FEATURES, RECORDS = 9, 72
ROW, LABELLED = ((FEATURES,),), ((FEATURES,), ())
BOX = (-1.0, 1.0)
DELTA = 1e-5
PUBLIC = (Relation.REPLACE_ONE, Relation.ZERO_OUT)
HIDDEN = (Relation.ADD_OR_REMOVE, *PUBLIC)


def _network(weights, record):
    inside = jnp.tanh(record[0] @ weights["inner"])
    return jnp.logaddexp(0.0, -record[1] * (inside @ weights["outer"]))


LOGISTIC = RecordLoss(
    lambda weights, record: jnp.logaddexp(0.0, -record[1] * (record[0] @ weights)),
    np.zeros(FEATURES, np.float32),
    (np.zeros(FEATURES, np.float32), np.float32(0)),
)
NETWORK = RecordLoss(
    _network,
    {"inner": np.full((FEATURES, 4), 0.1, np.float32), "outer": np.ones(4, np.float32)},
    (np.zeros(FEATURES, np.float32), np.float32(0)),
)
QUESTIONS = {
    "moments": statistics.mean(0, BOX, wanted=("mean", "variance")),
    "histogram": statistics.histogram(1, (0, 1, 2), edges=(-1.0, -0.3, 0.3, 1.0)),
    "quantiles": quantiles.median(2, BOX, branching=4),
    "components": components.principal_components((0, 1, 2), (BOX,) * 3, 2),
}

PURE = {"histogram", "quantiles"}


def _surveys(relation):
    for name, question in QUESTIONS.items():
        delta = 0.0 if name in PURE else 1e-6
        yield (
            name,
            ROW,
            lambda q=question, d=delta: methods.statistics([q], 1.0, d, relation),
        )
    together = list(QUESTIONS.values())[:3]
    yield "survey", ROW, lambda: methods.statistics(together, 1.0, 1e-6, relation)


def algorithms(relation):
    """Name, shapes of a record's columns, and how to build it for this relation."""
    sampled = {"rounds": 2, "sampling_rate": 0.5, "relation": relation}
    small = 64 if relation is Relation.ADD_OR_REMOVE else 4
    blocks = Clipping("per-layer", block=small, quantile=0.5, loss_range=2.0)
    yield from _surveys(relation)
    yield (
        "gradient-perturbation",
        LABELLED,
        lambda: methods.gradient_perturbation(2.0, DELTA, rounds=2, relation=relation),
    )
    yield (
        "dp-sgd-convex",
        LABELLED,
        lambda: methods.dp_sgd_convex(2.0, DELTA, rounds=2, relation=relation),
    )
    yield (
        "output-perturbation",
        LABELLED,
        lambda: methods.output_perturbation(2.0, DELTA, regularisation=0.1, relation=relation),
    )
    yield (
        "sgd-synchronous",
        LABELLED,
        lambda: methods.sgd_synchronous(2.0, DELTA, rounds=2, relation=relation),
    )
    yield (
        "k-means",
        ROW,
        lambda: methods.k_means((BOX,) * FEATURES, 2, 2.0, 1e-6, relation, rounds=2),
    )
    yield (
        "dp-sgd",
        LABELLED,
        lambda: methods.dp_sgd(NETWORK, optax.sgd(0.1), 2.0, DELTA, **sampled),
    )
    yield (
        "dp-sgd-small-blocks",
        LABELLED,
        lambda: methods.dp_sgd(NETWORK, optax.sgd(0.1), 2.0, DELTA, clipping=blocks, **sampled),
    )
    yield (
        "dp-sgd-normalised",
        LABELLED,
        lambda: methods.dp_sgd(
            LOGISTIC, optax.sgd(0.1), 2.0, DELTA, clipping=Clipping("normalised"), **sampled
        ),
    )
    yield (
        "local-dp-sgd",
        LABELLED,
        lambda: methods.local_dp_sgd(LOGISTIC, optax.sgd(0.1), 2.0, DELTA, steps=2, **sampled),
    )
    turns = {"rounds": 8, "separation": 3, "bands": 4, "relation": relation}
    yield (
        "dp-ftrl",
        LABELLED,
        lambda: methods.dp_ftrl(LOGISTIC, optax.sgd(0.1), 2.0, DELTA, **turns),
    )
    yield (
        "natural-gradient",
        LABELLED,
        lambda: methods.natural_gradient(rounds=2, full_covariance=True, relation=relation),
    )
    yield (
        "one-shot-regression",
        LABELLED,
        lambda: methods.one_shot_regression(2.0, DELTA, relation=relation),
    )
    yield (
        "pvi-dp-sga",
        LABELLED,
        lambda: methods.dp_sga(
            epsilon=8.0, rounds=2, local_steps=2, sampling_rate=0.5, clipping_norm=2.0,
            relation=relation,
        ),
    )  # fmt: skip
    if relation is not Relation.ADD_OR_REMOVE:
        yield (
            "fed-avg",
            LABELLED,
            lambda: methods.fed_avg(
                LOGISTIC,
                optax.sgd(0.1),
                2.0,
                DELTA,
                home=optax.sgd(1.0),
                batch_size=8,
                **sampled,
            ),
        )
        for unit, shards in ((Unit.PARTY, 1), (Unit.RECORD, 4)):
            yield (
                f"clipped-updates-{unit}",
                LABELLED,
                lambda u=unit, s=shards: methods.clipped_updates(
                    epsilon=8.0, rounds=2, unit=u, shards=s, relation=relation
                ),
            )


def cases():
    """(name, build, shapes of a record): each with public sizes and with hidden ones."""
    for exact in (True, False):
        relation = Relation.REPLACE_ONE if exact else Relation.ADD_OR_REMOVE
        facts = Facts((RECORDS,), FEATURES, 1, 0, exact_sizes=exact)
        for name, shapes, build in algorithms(relation):
            yield f"{name}-{'public' if exact else 'hidden'}", build, facts, shapes


def study_of(build, facts):
    """The study, and the relations under which its releases claim anything."""
    study = Study(build(), facts, Trust.LOCAL)
    offered = study.algorithm.event(facts, Trust.LOCAL).sensitivity.relations
    return study, tuple(r for r in (PUBLIC if facts.exact_sizes else HIDDEN) if r in offered)
