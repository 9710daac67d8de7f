"""All models by name: those of this package, and those of plugins (`releases.plugins`)."""

from collections.abc import Mapping
from functools import lru_cache

from unisono.algorithms.registry import algorithms
from unisono.core.words import did_you_mean
from unisono.errors import InvalidInput
from unisono.models.average import AVERAGE
from unisono.models.bayesian import BAYESIAN_LINEAR_REGRESSION, BAYESIAN_LOGISTIC_REGRESSION
from unisono.models.concordance import CONCORDANCE
from unisono.models.evaluation import EVALUATION
from unisono.models.glm import GLM
from unisono.models.hazards import HAZARDS
from unisono.models.k_means import K_MEANS
from unisono.models.kaplan_meier import KAPLAN_MEIER
from unisono.models.linear import LINEAR_REGRESSION, LINEAR_SVM, LOGISTIC_REGRESSION
from unisono.models.model import ModelKind
from unisono.models.network import NETWORK
from unisono.models.statistics import STATISTICS
from unisono.models.table_one import TABLE_ONE
from unisono.releases.algorithm import AlgorithmKind
from unisono.releases.plugins import with_plugins

OWN = (
    STATISTICS,
    TABLE_ONE,
    GLM,
    KAPLAN_MEIER,
    HAZARDS,
    CONCORDANCE,
    LOGISTIC_REGRESSION,
    LINEAR_SVM,
    LINEAR_REGRESSION,
    NETWORK,
    BAYESIAN_LINEAR_REGRESSION,
    BAYESIAN_LOGISTIC_REGRESSION,
    K_MEANS,
    EVALUATION,
)


@lru_cache(maxsize=1)
def models() -> Mapping[str, ModelKind]:
    """Every model by its name."""
    return with_plugins(OWN, "unisono.models")


def model_named(name: str) -> ModelKind:
    """One model."""
    known = models()
    if name not in known:
        hint = did_you_mean(name, known)
        raise InvalidInput(f"model = {name!r}: choose one of {', '.join(known)}{hint}")
    return known[name]


def kind_read(name: str) -> ModelKind:
    """The kind of a model that was saved: one that studies name, or an average of such."""
    return AVERAGE if name == AVERAGE.name else model_named(name)


def algorithms_for(model: ModelKind) -> list[AlgorithmKind]:
    """The algorithms that can learn a model: those for the problem that it poses."""
    return [kind for kind in algorithms().values() if model.solved_by(kind)]
