"""All models by name: those of this package, and those of plugins (entry point `unisono.models`)."""

from collections.abc import Mapping
from functools import lru_cache
from importlib import metadata
from types import MappingProxyType

from unisono.algorithms.registry import algorithms
from unisono.errors import InvalidInput
from unisono.models.bayesian import BAYESIAN_LINEAR_REGRESSION, BAYESIAN_LOGISTIC_REGRESSION
from unisono.models.k_means import K_MEANS
from unisono.models.linear import LINEAR_REGRESSION, LINEAR_SVM, LOGISTIC_REGRESSION
from unisono.models.model import ModelKind
from unisono.models.network import NETWORK
from unisono.models.statistics import STATISTICS
from unisono.releases.algorithm import AlgorithmKind

OWN = (
    STATISTICS, LOGISTIC_REGRESSION, LINEAR_SVM, LINEAR_REGRESSION, NETWORK,
    BAYESIAN_LINEAR_REGRESSION, BAYESIAN_LOGISTIC_REGRESSION, K_MEANS,
)  # fmt: skip


@lru_cache(maxsize=1)
def models() -> Mapping[str, ModelKind]:
    """Every model by its name."""
    found = {kind.name: kind for kind in OWN}
    for entry in metadata.entry_points(group="unisono.models"):
        kind = entry.load()
        if not isinstance(kind, ModelKind) or kind.name in found:
            raise InvalidInput(
                f"the plugin {entry.value!r} names no new model: its entry point must be a "
                "ModelKind whose name is not taken; uninstall it, or tell its author"
            )
        found[kind.name] = kind
    return MappingProxyType(found)


def model_named(name: str) -> ModelKind:
    """One model."""
    known = models()
    if name not in known:
        raise InvalidInput(f"model = {name!r}: choose one of {', '.join(known)}")
    return known[name]


def algorithms_for(model: ModelKind) -> list[AlgorithmKind]:
    """The algorithms that can learn a model: those for the problem that it poses."""
    return [kind for kind in algorithms().values() if model.solved_by(kind)]
