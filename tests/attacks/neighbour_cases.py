"""What the neighbour fuzzer runs over: every algorithm, with public sizes and with hidden ones.

The party that is looked at is one of three of different sizes, so that all kinds of trust are
offered, a secure sum among them, and what one record can do does not follow from everybody's size.
"""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import optax

from unisono.algorithms import (
    comparisons,
    components,
    labels,
    quantiles,
    ranges,
    statistics,
)
from unisono.algorithms.column_scales import COLUMN_SCALES
from unisono.algorithms.fisher_scoring import FISHER_SCORING
from unisono.algorithms.readings import Sizes
from unisono.algorithms.table_one import NamedVariable, NumberVariable, TableOne
from unisono.core.algorithm import Facts
from unisono.core.privacy import Privacy
from unisono.core.study import Study
from unisono.core.trust import Relation, Trust, Unit
from unisono.data.spelling import Grid
from unisono.estimators.networks import _weighted
from unisono.problems import likelihoods
from unisono.problems.columns import Groups
from unisono.problems.record_loss import RecordLoss, of_persons
from unisono.releases.blocked_sum import Clipping

from .. import methods

FEATURES, RECORDS = 9, 72
PARTY, SIZES = 1, (50, RECORDS, 90)
ROW, LABELLED = ((FEATURES,),), ((FEATURES,), ())
WEIGHTED = ((FEATURES,), (2,))  # a label, and the share that a record counts with
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
WEIGHTED_LOSS = RecordLoss(
    _weighted(LOGISTIC.loss),
    np.zeros(FEATURES, np.float32),
    (np.zeros(FEATURES, np.float32), np.float32(0), np.float32(0)),
)
QUESTIONS = {
    "moments": statistics.mean(0, BOX, wanted=("mean", "variance")),
    "histogram": statistics.histogram(1, (0, 1, 2), edges=(-1.0, -0.3, 0.3, 1.0)),
    "quantiles": quantiles.median(2, BOX, branching=4),
    "components": components.principal_components((0, 1, 2), (BOX,) * 3, 2),
    "labels": labels.label_names(4, "labels", 2, grid=Grid(levels=5, cells=1, symbols=3)),
    "range": ranges.column_range(3, "range"),
    "range-fine": ranges.column_range(3, "range", replace(ranges.EXACT, branching=4)),
    "moments-counted": statistics.mean(0, BOX, wanted=("mean", "variance")).counting(Sizes()),
    "mean-counted": statistics.mean(0, BOX, spread=False).counting(Sizes()),
    "moments-present": statistics.mean(0, BOX).counting(Sizes(1.5, True)),
    "whole-present": statistics.mean(0, BOX, step=1.0).counting(Sizes(1.5, True)),
    "mean-present": statistics.mean(0, BOX, spread=False).counting(Sizes(1.0, True)),
    "proportion-present": statistics.proportion(1).counting(Sizes(1.5, True)),
    "quantiles-counted": quantiles.median(2, BOX, branching=4).counting(Sizes()),
}

TABLE = (
    NumberVariable("dose", 0, BOX, median=False, incomplete=True),
    NumberVariable("visits", 1, (-3.0, 3.0), step=1.0),
    NamedVariable("stage", 2, ("I", "II", "(missing)"), total=True),
)

PURE = {"histogram", "quantiles", "range", "mean-counted", "mean-present", "quantiles-counted"}
SIDES = Groups(3, ("f", "m"))
COMPARED = (
    comparisons.difference_of_means(0, BOX, SIDES),
    comparisons.difference_of_medians(1, (-3.0, 3.0), SIDES, step=1.0),
    comparisons.difference_of_proportions(2, SIDES),
    comparisons.chi_square(SIDES, Groups(2, (0, 1, 2))),
)


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
    yield "comparisons", ROW, lambda: methods.statistics(COMPARED, 1.0, 1e-6, relation)
    table = TableOne(TABLE, Groups(3, ("f", "m")), Privacy(1.0, 1e-6, relation)).survey.questions
    yield "table-one", ROW, lambda: methods.statistics(table, 1.0, 1e-6, relation)
    groups = ("a", "b", "c")
    yield "survival-table", ROW, lambda: methods.survival_table(("all",), 1.0, 0.0, relation)
    yield "exit-times", ROW, lambda: methods.exit_times(groups, 1.0, 1e-6, relation)
    yield (
        "survival-table-incomplete",
        ROW,
        lambda: methods.survival_table(groups, 1.0, 1e-6, relation, complete=False),
    )
    features = FEATURES - 2
    yield "hazard-scales", ROW, lambda: methods.hazard_scales(features, 1.0, 1e-6, relation)
    yield (
        "hazard-scoring",
        ROW,
        lambda: methods.hazard_scoring(features, 2.0, 1e-6, relation, rounds=2),
    )
    for number in (2, 3):
        own = ("a", "b", "c")[:number], () if number == 2 else SIDES.labels, 1.0, 1e-6, relation
        yield f"score-counts-{number}-classes", ROW, lambda own=own: methods.score_counts(*own)
        yield (
            f"score-influence-{number}-classes",
            ROW,
            lambda own=own: methods.score_influence(*own),
        )
        yield (
            f"log-rank-{number}-groups",
            ROW,
            lambda own=groups[:number]: methods.log_rank(own, 1.0, 1e-6, relation),
        )


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
        "gradient-perturbation-weighted",
        WEIGHTED,
        lambda: methods.gradient_perturbation(
            2.0, DELTA, "multinomial", 3, rounds=2, relation=relation, weighted=True
        ),
    )
    yield "row-moments", LABELLED, lambda: methods.row_moments(2.0, DELTA, relation=relation)
    for loss, classes in (("logistic", 2), ("multinomial", 3)):
        own = {"loss": loss, "classes": classes, "rounds": 2, "relation": relation}
        yield (
            f"preconditioned-gradients-{loss}",
            LABELLED,
            lambda own=own: methods.preconditioned_gradients(2.0, DELTA, **own),
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
    equal = {"objective": "equal-parties", "relation": relation}
    yield (
        "gradient-perturbation-equal-parties",
        LABELLED,
        lambda: methods.gradient_perturbation(2.0, DELTA, rounds=2, **equal),
    )
    yield (
        "output-perturbation-equal-parties",
        LABELLED,
        lambda: methods.output_perturbation(2.0, DELTA, regularisation=0.1, **equal),
    )
    yield (
        "sgd-synchronous-equal-parties",
        LABELLED,
        lambda: methods.sgd_synchronous(2.0, DELTA, rounds=2, **equal),
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
        "dp-sgd-weighted",
        (*LABELLED, ()),
        lambda: methods.dp_sgd(WEIGHTED_LOSS, optax.sgd(0.1), 2.0, DELTA, **sampled),
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
        "adaptive-statistics",
        LABELLED,
        lambda: methods.adaptive_statistics(2.0, DELTA, relation),
    )
    yield (
        "pvi-dp-sga",
        LABELLED,
        lambda: methods.dp_sga(
            epsilon=8.0,
            rounds=2,
            local_steps=2,
            sampling_rate=0.5,
            clipping_norm=2.0,
            relation=relation,
        ),
    )
    for family in ("binomial", "gaussian", "poisson"):
        yield (
            f"fisher-scoring-{family}",
            ROW,
            lambda f=family: methods.fisher_scoring(
                f, FEATURES - 1, 2.0, DELTA, relation, rounds=2
            ),
        )
    yield (
        "line-by-fisher-scoring",
        ROW,
        lambda: methods.fisher_scoring(
            "gaussian", FEATURES - 1, 2.0, DELTA, relation, prediction=True
        ),
    )
    yield (
        "column-scales",
        ROW,
        lambda: methods.column_scales("poisson", FEATURES - 1, 2.0, DELTA, relation),
    )
    yield (
        "fisher-scoring-by-site",
        ROW,
        lambda: methods.by_site(FISHER_SCORING, FEATURES - 1, 2.0, DELTA, relation, rounds=2),
    )
    yield from _as_printed(relation)
    if relation is not Relation.ADD_OR_REMOVE:
        yield (
            "line-by-dp-sga",
            LABELLED,
            lambda: methods.line_by_dp_sga(
                8.0,
                DELTA,
                relation,
                noise_std=0.5,
                rounds=2,
                local_steps=2,
                sampling_rate="sqrt",
                variance_weight=0.5,
                end_rate=0.5,
                clipping_norm=2.0,
            ),
        )
        yield (
            "line-by-updates",
            LABELLED,
            lambda: methods.line_by_updates(
                8.0, DELTA, relation, noise_std=0.5, rounds=2, full_covariance=True
            ),
        )
        yield (
            "sgd-sequential",
            LABELLED,
            lambda: methods.sgd_sequential(2.0, DELTA, steps=12, uses=2, relation=relation),
        )
        yield (
            "iterated-regression",  # the program of one-shot-regression, in rounds
            LABELLED,
            lambda: methods.iterated_regression(2.0, DELTA, relation, rounds=2),
        )
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


def _as_printed(relation):
    """Noise of publications beside true sensitivities."""
    usual = {"relation": relation, "published": True}
    yield (
        "gradient-perturbation-printed",
        LABELLED,
        lambda: methods.gradient_perturbation(2.0, DELTA, rounds=2, **usual),
    )
    yield (
        "moments-printed",
        ROW,
        lambda: methods.statistics([QUESTIONS["moments"]], 1.0, 1e-6, **usual),
    )
    yield (
        "dp-sgd-printed",
        LABELLED,
        lambda: methods.dp_sgd(
            LOGISTIC, optax.sgd(0.1), 2.0, DELTA, rounds=2, sampling_rate=0.5, **usual
        ),
    )
    if relation is not Relation.ADD_OR_REMOVE:
        yield (
            "output-perturbation-printed",
            LABELLED,
            lambda: methods.output_perturbation(2.0, regularisation=0.1, **usual),
        )
        yield (
            "sgd-synchronous-printed",
            LABELLED,
            lambda: methods.sgd_synchronous(2.0, DELTA, rounds=2, **usual),
        )
        yield (
            "sgd-sequential-printed",
            LABELLED,
            lambda: methods.sgd_sequential(2.0, DELTA, steps=12, uses=2, **usual),
        )
        yield (
            "clipped-updates-printed",
            LABELLED,
            lambda: methods.clipped_updates(epsilon=2.0, rounds=2, **usual),
        )


def cases():
    """(name, build, shapes of a record): each with public sizes and with hidden ones."""
    for exact in (True, False):
        relation = Relation.REPLACE_ONE if exact else Relation.ADD_OR_REMOVE
        facts = Facts(SIZES, FEATURES, 3, 1, exact_sizes=exact)
        for name, shapes, build in algorithms(relation):
            yield f"{name}-{'public' if exact else 'hidden'}", build, facts, shapes


PERSON = 3
OF_PERSONS = ((PERSON, FEATURES), (PERSON,))


def _persons(relation):
    """Algorithms that add up a person's records: a row is a person, all of which changes."""
    together = list(QUESTIONS.values())[:3]
    sampled = {"rounds": 2, "sampling_rate": 0.5, "relation": relation}
    yield "survey", lambda: methods.statistics(together, 1.0, 1e-6, relation)
    yield "histogram", lambda: methods.statistics([QUESTIONS["histogram"]], 1.0, 0.0, relation)
    yield "range", lambda: methods.statistics([QUESTIONS["range"]], 1.0, 1e-6, relation)
    yield (
        "k-means",
        lambda: methods.k_means((BOX,) * FEATURES, 2, 2.0, 1e-6, relation, rounds=2),
    )
    yield (
        "gradient-perturbation",
        lambda: methods.gradient_perturbation(
            2.0, DELTA, "multinomial", 3, rounds=2, relation=relation
        ),
    )
    yield (
        "dp-sgd-convex",
        lambda: methods.dp_sgd_convex(2.0, DELTA, rounds=2, relation=relation),
    )
    yield (
        "dp-sgd",
        lambda: methods.dp_sgd(of_persons(NETWORK, PERSON), optax.sgd(0.1), 2.0, DELTA, **sampled),
    )
    for family in ("binomial", "gaussian", "poisson"):
        yield (
            f"fisher-scoring-{family}",
            lambda f=family: methods.fisher_scoring(
                f, FEATURES - 1, 2.0, DELTA, relation, rounds=2
            ),
        )
    yield (
        "column-scales-by-site",
        lambda: methods.by_site(COLUMN_SCALES, FEATURES - 1, 2.0, DELTA, relation),
    )


def persons():
    """As `cases`, for studies whose rows are persons with several records."""
    for exact in (True, False):
        relation = Relation.REPLACE_ONE if exact else Relation.ADD_OR_REMOVE
        facts = Facts(SIZES, FEATURES, 3, 1, exact_sizes=exact, records_per_person=PERSON)
        for name, build in _persons(relation):
            yield f"persons-{name}-{'public' if exact else 'hidden'}", build, facts, OF_PERSONS


def study_of(build, facts):
    """The study, and the relations under which its releases claim anything."""
    study = Study(build(), facts, Trust.LOCAL)
    offered = study.algorithm.event(facts, Trust.LOCAL).sensitivity.relations
    return study, tuple(r for r in (PUBLIC if facts.exact_sizes else HIDDEN) if r in offered)


# ------------------------------------------------------------- public parameters, drawn


def drawn(generator, relation):
    """Any algorithm with any public parameters; many are refused, which is an answer too."""
    families = (_survey, _survey, _linear, _clusters, _network_of, _posterior, _regression)
    families = (*families, _survival, _scored, _evaluated)
    return families[int(generator.integers(len(families)))](generator, relation)


def _pick(generator, *choices):
    return choices[int(generator.integers(len(choices)))]


def _size(generator, low, high):
    return float(10.0 ** generator.uniform(low, high))


def _bounds(generator):
    centre = _pick(generator, 0.0, 0.0, 1.0, -7.3, 1e3, 1e6, 2.0**24, -1e-3, 1e20, 3e38, 1e-38)
    width = _size(generator, -12, 9)
    if generator.random() < 0.3:
        width = abs(centre) * _pick(generator, 1e-7, 1e-6, 1e-3, 1.0, 10.0) or 1.0
    return centre - width * _pick(generator, 0.0, 0.5), centre + width


def _question(generator):
    by = _pick(generator, None, None, Groups(1, ("a", "b", "c")))
    bounds, step = _bounds(generator), None
    if generator.random() < 0.4:
        low = float(generator.integers(-50, 50))
        bounds, step = (
            (low, low + float(generator.integers(1, 2000))),
            _pick(generator, 1.0, 2.0, 0.5, 0.1),
        )
    edges = np.unique(generator.normal(size=4)) * _size(generator, -3, 3)
    return _pick(
        generator,
        lambda: statistics.count(0, by=by),
        lambda: statistics.total(0, bounds, step=step, by=by),
        lambda: statistics.mean(0, bounds, step=step, by=by),
        lambda: statistics.variance(0, bounds, by=by),
        lambda: statistics.proportion(0, by=by),
        lambda: statistics.histogram(2, (0, 1, 2), edges=tuple(map(float, edges))),
        lambda: statistics.contingency(Groups(0, ("a", "b")), Groups(1, ("a", "b", "c"))),
        lambda: quantiles.median(0, bounds, branching=_pick(generator, 2, 4, 8)),
        lambda: quantiles.median(0, bounds, branching=_pick(generator, 2, 4, 8), by=by),
        lambda: components.principal_components((0, 1), (_bounds(generator), bounds), 2),
    )()


def _survey(generator, relation):
    asked = [_question(generator) for _ in range(int(generator.integers(1, 4)))]
    promise = (_size(generator, -1, 1.5), _pick(generator, 0.0, 1e-6), relation)
    return ROW, methods.statistics(asked, *promise)


def _linear(generator, relation):
    loss = _pick(generator, "logistic", "multinomial", "squares", "huber-svm")
    how = {"loss": loss, "classes": 3 if loss == "multinomial" else 2, "relation": relation}
    objective = _pick(generator, "pooled", "equal-parties")
    return LABELLED, _pick(
        generator,
        lambda: methods.gradient_perturbation(
            2.0,
            DELTA,
            rounds=2,
            clipping_norm=_size(generator, -4, 0.3),
            objective=objective,
            **how,
        ),
        lambda: methods.dp_sgd_convex(2.0, DELTA, rounds=2, **how),
        lambda: methods.sgd_synchronous(2.0, DELTA, rounds=2, objective=objective, **how),
        lambda: methods.sgd_sequential(
            2.0, DELTA, steps=2, lipschitz=_size(generator, -4, 0.3), **how
        ),
    )()


def _clusters(generator, relation):
    bounds = tuple(_bounds(generator) for _ in range(FEATURES))
    return ROW, methods.k_means(bounds, 3, _size(generator, -1, 1.5), 1e-6, relation, rounds=2)


def _scored(generator, relation):
    """Generalised linear models with offsets and weights, or hazards; where they are bounded is
    drawn too."""
    promise = Privacy(_size(generator, -1, 1), DELTA, relation)
    norms = {
        "rounds": int(generator.integers(1, 4)),
        "gradient_norm": _size(generator, -3, 3),
        "curvature_norm": _size(generator, -3, 3),
    }
    if generator.random() < 0.3:
        return ROW, methods.hazard_scoring(FEATURES - 2, promise.epsilon, DELTA, relation, **norms)
    problem = methods.generalised_linear(
        _pick(generator, "binomial", "gaussian", "poisson"), FEATURES - 3
    )
    problem = replace(problem, offset=_bounds(generator), weighted=True)
    norms["bend_at"] = float(generator.uniform(0.6, 6.0))
    return ROW, FISHER_SCORING.method(problem, promise, **norms)


def _survival(generator, relation):
    groups = tuple("abcde"[: int(generator.integers(1, 6))])
    promise = (_size(generator, -1, 1.5), 1e-6, relation, _pick(generator, True, False))
    if generator.random() < 0.5:
        return ROW, methods.log_rank(groups, *promise)
    if generator.random() < 0.2:
        return ROW, methods.exit_times(groups, *promise)
    visits = _pick(generator, (), (0.1, 0.5, 1.0))
    bins = None if visits else _pick(generator, None, 2, 7, 40)
    return ROW, methods.survival_table(groups, *promise, visits=visits, bins=bins)


def _evaluated(generator, relation):
    classes, groups = (
        "abc"[: int(generator.integers(2, 4))],
        "fmo"[: int(generator.integers(0, 4))],
    )
    promise = (_size(generator, -1, 1.5), _pick(generator, 0.0, 1e-6), relation)
    kind = _pick(generator, methods.score_counts, methods.score_influence)
    return ROW, kind(tuple(classes), tuple(groups), *promise)


def _network_of(generator, relation):
    style = _pick(generator, "flat", "per-layer", "normalised")
    problem = _pick(generator, NETWORK, LOGISTIC)
    # An epsilon and a rate whose noise is calibrated in a moment.
    settings = {"rounds": 2, "sampling_rate": _pick(generator, 0.5, 1.0), "relation": relation}
    clipping = Clipping(style, bound=_size(generator, -4, 4))
    return LABELLED, methods.dp_sgd(
        problem, optax.sgd(0.1), 2.0, DELTA, clipping=clipping, **settings
    )


def _posterior(generator, relation):
    likelihood = _pick(
        generator,
        likelihoods.logistic(),
        likelihoods.probit(),
        likelihoods.linear(_size(generator, -2, 2)),
    )
    common = {"epsilon": 8.0, "rounds": 2, "relation": relation}
    common["clipping_norm"] = _size(generator, -4, 4)
    if generator.random() < 0.5:
        weight = 1.0 if generator.random() < 0.5 else _size(generator, -3, 3)
        return LABELLED, methods.dp_sga(
            likelihood, local_steps=2, sampling_rate=0.5, variance_weight=weight, **common
        )
    full = _pick(generator, True, False)
    return LABELLED, methods.natural_gradient(likelihood, full_covariance=full, **common)


def _regression(generator, relation):
    return LABELLED, methods.iterated_regression(
        _size(generator, -1, 1.5),
        DELTA,
        relation,
        clipping_norm=_size(generator, -4, 4),
        rounds=2,
        placement=_pick(generator, "statistic", "local", "sum"),
    )
