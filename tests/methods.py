"""Algorithms as tests want them: small, with plain steps, and a promise beside their settings."""

from dataclasses import replace

import jax
import numpy as np

from unisono.algorithms.adaptive_statistics import ADAPTIVE_STATISTICS
from unisono.algorithms.clustering import K_MEANS
from unisono.algorithms.column_scales import COLUMN_SCALES
from unisono.algorithms.dp_ftrl import DP_FTRL
from unisono.algorithms.dp_sgd import DP_SGD
from unisono.algorithms.dp_sgd_convex import CONVEX_DP_SGD
from unisono.algorithms.evaluation import ClassEvaluation
from unisono.algorithms.exit_times import EXIT_TIMES
from unisono.algorithms.fed_avg import FED_AVG
from unisono.algorithms.fisher_scoring import FISHER_SCORING
from unisono.algorithms.gradient_perturbation import GRADIENT_PERTURBATION
from unisono.algorithms.hazard_scales import HAZARD_SCALES
from unisono.algorithms.hazard_scoring import HAZARD_SCORING
from unisono.algorithms.local_dp_sgd import LOCAL_DP_SGD
from unisono.algorithms.log_rank import LOG_RANK
from unisono.algorithms.objective_perturbation import OBJECTIVE_PERTURBATION
from unisono.algorithms.output_perturbation import OUTPUT_PERTURBATION
from unisono.algorithms.preconditioned_gradients import PRECONDITIONED_GRADIENTS
from unisono.algorithms.pvi_analytic import ITERATED_REGRESSION, ONE_SHOT_REGRESSION
from unisono.algorithms.pvi_dp_sga import DP_SGA
from unisono.algorithms.pvi_natural_gradient import NATURAL_GRADIENT
from unisono.algorithms.pvi_updates import CLIPPED_UPDATES
from unisono.algorithms.row_moments import ROW_MOMENTS
from unisono.algorithms.score_influence import SCORE_COUNTS, SCORE_INFLUENCE
from unisono.algorithms.sgd_sequential import SEQUENTIAL_SGD
from unisono.algorithms.sgd_synchronous import SYNCHRONOUS_SGD
from unisono.algorithms.survey import STATISTICS, Survey
from unisono.algorithms.survival_table import SURVIVAL_TABLE
from unisono.core.defaults import PARTY_RELATION
from unisono.core.privacy import Privacy
from unisono.core.trust import Relation
from unisono.problems.bayesian import BayesianProblem, GaussianRegression
from unisono.problems.columns import ClusteredColumns
from unisono.problems.glm import Columns, GeneralizedLinear
from unisono.problems.likelihoods import logistic
from unisono.problems.linear import linear_loss
from unisono.problems.survival import ProportionalHazards, SurvivalTimes


def _linear(kind, usual):
    def made(
        epsilon,
        delta=0.0,
        loss="logistic",
        classes=2,
        relation=Relation.REPLACE_ONE,
        weighted=False,
        **settings,
    ):
        privacy = Privacy(epsilon, delta, relation)
        return kind.method(linear_loss(loss, classes, weighted), privacy, **usual | settings)

    return made


_PLAIN = {"rounds": 100, "clipping_norm": 1.0}
gradient_perturbation = _linear(
    GRADIENT_PERTURBATION, _PLAIN | {"learning_rate": 4.0, "momentum": 0.0, "average_last": 0.0}
)
preconditioned_gradients = _linear(PRECONDITIONED_GRADIENTS, {})
row_moments = _linear(ROW_MOMENTS, {})
dp_sgd_convex = _linear(CONVEX_DP_SGD, _PLAIN | {"learning_rate": 1.0})
output_perturbation = _linear(OUTPUT_PERTURBATION, {})
objective_perturbation = _linear(OBJECTIVE_PERTURBATION, {})
sgd_sequential = _linear(SEQUENTIAL_SGD, {})
sgd_synchronous = _linear(SYNCHRONOUS_SGD, {})


def adaptive_statistics(epsilon, delta=0.0, relation=Relation.REPLACE_ONE, **settings):
    privacy = Privacy(epsilon, delta, relation)
    return ADAPTIVE_STATISTICS.method(linear_loss("squares"), privacy, **settings)


def statistics(questions, epsilon, delta=0.0, relation=Relation.REPLACE_ONE, **settings):
    return STATISTICS.method(Survey(questions), Privacy(epsilon, delta, relation), **settings)


def _survival(kind):
    def made(
        groups,
        epsilon,
        delta=0.0,
        relation=Relation.REPLACE_ONE,
        complete=True,
        visits=(),
        **settings,
    ):
        problem = SurvivalTimes(groups, complete, visits)
        return kind.method(problem, Privacy(epsilon, delta, relation), **settings)

    return made


def _scores(kind):
    def made(classes, groups, epsilon, delta=0.0, relation=Relation.REPLACE_ONE):
        problem = ClassEvaluation(classes, groups=groups, complete=False).survey
        return kind.method(problem, Privacy(epsilon, delta, relation))

    return made


score_counts = _scores(SCORE_COUNTS)
score_influence = _scores(SCORE_INFLUENCE)
exit_times = _survival(EXIT_TIMES)
survival_table = _survival(SURVIVAL_TABLE)
log_rank = _survival(LOG_RANK)


def _hazards(kind):
    def made(features, epsilon, delta, relation=Relation.REPLACE_ONE, **settings):
        numbers = range(features if features < 3 else features - 2)
        columns = tuple(Columns(f"x{place}", 1, number=True) for place in numbers)
        if features >= 3:
            columns = (Columns("stage", 2, number=False), *columns)
        problem = ProportionalHazards(columns)
        return kind.method(problem, Privacy(epsilon, delta, relation), **settings)

    return made


hazard_scales = _hazards(HAZARD_SCALES)
hazard_scoring = _hazards(HAZARD_SCORING)


def k_means(bounds, clusters, epsilon, delta, relation=Relation.REPLACE_ONE, **settings):
    privacy = Privacy(epsilon, delta, relation)
    return K_MEANS.method(ClusteredColumns(bounds, clusters), privacy, **settings)


def generalised_linear(family, features):
    """Numbers, and a category of three values where there is room for it."""
    columns = [Columns(f"x{n}", 1, number=True) for n in range(max(features - 2, 1))]
    columns += [Columns("c", 2, number=False)] if features > 2 else []
    ends = {"binomial": (0.0, 1.0), "gaussian": (-1.0, 1.0), "poisson": (0.0, 20.0)}[family]
    return GeneralizedLinear(family, tuple(columns), ends)


def fisher_scoring(family, features, epsilon, delta, relation=Relation.REPLACE_ONE, **settings):
    problem = generalised_linear(family, features)
    return FISHER_SCORING.method(problem, Privacy(epsilon, delta, relation), **settings)


def by_site(kind, features, epsilon, delta, relation=Relation.REPLACE_ONE, **settings):
    """The last two features are effects of three parties, whose sizes are public."""
    problem = generalised_linear("binomial", features)
    *others, last = problem.columns
    problem = replace(problem, columns=(*others, last._replace(name="site", shares=(0.3, 0.2))))
    return kind.method(problem, Privacy(epsilon, delta, relation), **settings)


def column_scales(family, features, epsilon, delta, relation=Relation.REPLACE_ONE):
    problem = generalised_linear(family, features)
    return COLUMN_SCALES.method(problem, Privacy(epsilon, delta, relation))


def _network(kind, usual=Relation.REPLACE_ONE):
    def made(
        problem, optimizer, epsilon, delta, relation=usual, own=(), average_last=0.0, **settings
    ):
        privacy = Privacy(epsilon, delta, relation, own)
        return kind.method(
            problem, privacy, optimizer=optimizer, average_last=average_last, **settings
        )

    return made


def _bayesian(kind, usual, relation=Relation.REPLACE_ONE):
    def made(
        likelihood=None,
        epsilon=1.0,
        delta=1e-5,
        relation=relation,
        own=(),
        prior_mean=0.0,
        prior_variance=1.0,
        **settings,
    ):
        problem = BayesianProblem(
            likelihood or logistic(), prior_mean=prior_mean, prior_variance=prior_variance
        )
        return kind.method(problem, Privacy(epsilon, delta, relation, own), **usual | settings)

    return made


def _regression(kind, relation=Relation.REPLACE_ONE):
    def made(
        epsilon,
        delta,
        relation=relation,
        own=(),
        noise_std=1.0,
        prior_mean=0.0,
        prior_variance=1.0,
        **settings,
    ):
        problem = GaussianRegression(
            noise_std, prior_mean=prior_mean, prior_variance=prior_variance
        )
        return kind.method(problem, Privacy(epsilon, delta, relation, own), **settings)

    return made


dp_sgd = _network(DP_SGD)
local_dp_sgd = _network(LOCAL_DP_SGD)
dp_ftrl = _network(DP_FTRL)
fed_avg = _network(FED_AVG, Relation.ZERO_OUT)
natural_gradient = _bayesian(NATURAL_GRADIENT, {"damping": 0.0})
dp_sga = _bayesian(DP_SGA, {})
clipped_updates = _bayesian(CLIPPED_UPDATES, {}, PARTY_RELATION)
one_shot_regression = _regression(ONE_SHOT_REGRESSION)
iterated_regression = _regression(ITERATED_REGRESSION)
line_by_dp_sga = _regression(DP_SGA)
line_by_updates = _regression(CLIPPED_UPDATES, PARTY_RELATION)
line_by_natural_gradient = _regression(NATURAL_GRADIENT)


class CleanSums:
    """What one party would add noise to, in value units, and what it states about it: compiled
    once for all the worlds that a test looks at."""

    def __init__(self, algorithm, facts, public=()):
        def steps(public, columns, mask):
            _, made = algorithm.local(facts, public, None, columns, mask)
            self._grid, self.sensitivity = made.grid, made.sensitivity
            return made.value

        self._steps, self._public = jax.jit(steps), public

    def __call__(self, *columns):
        steps = self._steps(self._public, columns, np.ones(len(columns[0]), bool))
        return np.asarray(steps, np.float64).ravel() * self._grid
