"""Algorithms as tests want them: small, with plain steps, and a promise beside their settings."""

from unisono.algorithms.clustering import K_MEANS
from unisono.algorithms.dp_ftrl import DP_FTRL
from unisono.algorithms.dp_sgd import DP_SGD
from unisono.algorithms.dp_sgd_convex import CONVEX_DP_SGD
from unisono.algorithms.fed_avg import FED_AVG
from unisono.algorithms.gradient_perturbation import GRADIENT_PERTURBATION
from unisono.algorithms.local_dp_sgd import LOCAL_DP_SGD
from unisono.algorithms.output_perturbation import OUTPUT_PERTURBATION
from unisono.algorithms.sgd_synchronous import SYNCHRONOUS_SGD
from unisono.algorithms.survey import STATISTICS, Survey
from unisono.core.privacy import Privacy
from unisono.core.trust import Relation
from unisono.problems.columns import ClusteredColumns
from unisono.problems.linear import LinearLoss


def _linear(kind, usual):
    def made(
        epsilon, delta=0.0, loss="logistic", classes=2, relation=Relation.REPLACE_ONE, **settings
    ):
        privacy = Privacy(epsilon, delta, relation)
        return kind.method(LinearLoss(loss, classes), privacy, **usual | settings)

    return made


_PLAIN = {"rounds": 100, "clipping_norm": 1.0}
gradient_perturbation = _linear(
    GRADIENT_PERTURBATION, _PLAIN | {"learning_rate": 4.0, "momentum": 0.0, "average_last": 0.0}
)
dp_sgd_convex = _linear(CONVEX_DP_SGD, _PLAIN | {"learning_rate": 1.0})
output_perturbation = _linear(OUTPUT_PERTURBATION, {})
sgd_synchronous = _linear(SYNCHRONOUS_SGD, {})


def statistics(questions, epsilon, delta=0.0, relation=Relation.REPLACE_ONE):
    return STATISTICS.method(Survey(questions), Privacy(epsilon, delta, relation))


def k_means(bounds, clusters, epsilon, delta, relation=Relation.REPLACE_ONE, **settings):
    privacy = Privacy(epsilon, delta, relation)
    return K_MEANS.method(ClusteredColumns(bounds, clusters), privacy, **settings)


def _network(kind, usual=Relation.REPLACE_ONE):
    def made(problem, optimizer, epsilon, delta, relation=usual, own=(), **settings):
        privacy = Privacy(epsilon, delta, relation, own)
        return kind.method(problem, privacy, optimizer=optimizer, **settings)

    return made


dp_sgd = _network(DP_SGD)
local_dp_sgd = _network(LOCAL_DP_SGD)
dp_ftrl = _network(DP_FTRL)
fed_avg = _network(FED_AVG, Relation.ZERO_OUT)
