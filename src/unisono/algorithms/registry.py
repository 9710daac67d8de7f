"""All algorithms by name: those of this package, and those of plugins (`releases.plugins`)."""

from collections.abc import Mapping
from functools import lru_cache

from unisono.algorithms.adaptive_statistics import ADAPTIVE_STATISTICS
from unisono.algorithms.clustering import K_MEANS
from unisono.algorithms.dp_ftrl import DP_FTRL
from unisono.algorithms.dp_sgd import DP_SGD
from unisono.algorithms.dp_sgd_convex import CONVEX_DP_SGD
from unisono.algorithms.fed_avg import FED_AVG
from unisono.algorithms.fisher_scoring import FISHER_SCORING
from unisono.algorithms.gradient_perturbation import GRADIENT_PERTURBATION
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
from unisono.algorithms.score_influence import SCORE_INFLUENCE
from unisono.algorithms.sgd_sequential import SEQUENTIAL_SGD
from unisono.algorithms.sgd_synchronous import SYNCHRONOUS_SGD
from unisono.algorithms.survey import STATISTICS
from unisono.algorithms.survival_table import SURVIVAL_TABLE
from unisono.core.words import did_you_mean
from unisono.errors import InvalidInput
from unisono.releases.algorithm import AlgorithmKind
from unisono.releases.plugins import with_plugins

OWN = (
    *(STATISTICS, SCORE_INFLUENCE, K_MEANS, FISHER_SCORING),
    *(SURVIVAL_TABLE, LOG_RANK, HAZARD_SCORING),
    *(PRECONDITIONED_GRADIENTS, GRADIENT_PERTURBATION, CONVEX_DP_SGD, OUTPUT_PERTURBATION),
    *(ADAPTIVE_STATISTICS, OBJECTIVE_PERTURBATION, SYNCHRONOUS_SGD, SEQUENTIAL_SGD),
    *(DP_SGD, LOCAL_DP_SGD, DP_FTRL, FED_AVG),
    *(ONE_SHOT_REGRESSION, ITERATED_REGRESSION),
    *(NATURAL_GRADIENT, CLIPPED_UPDATES, DP_SGA),
)


@lru_cache(maxsize=1)
def algorithms() -> Mapping[str, AlgorithmKind]:
    """Every algorithm by its name."""
    return with_plugins(OWN, "unisono.algorithms")


def algorithm_named(name: str) -> AlgorithmKind:
    """One algorithm."""
    known = algorithms()
    if name not in known:
        hint = did_you_mean(name, known)
        raise InvalidInput(f"algorithm = {name!r}: choose one of {', '.join(known)}{hint}")
    return known[name]
