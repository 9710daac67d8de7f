"""Unisono: many parties, one model, and no voice that can be picked out.

Names are imported when they are first used, so that `import unisono` is quick.
"""

from importlib import import_module
from typing import Any

__version__ = "0.2.0"

_PLACES = {
    "unisono.statistics": (
        "chi_square",
        "count",
        "fisher",
        "histogram",
        "mean",
        "median",
        "median_test",
        "open_ledger",
        "proportion_test",
        "quantile",
        "std",
        "t_test",
        "total",
        "variance",
        "verify",
    ),
    "unisono.describe": ("table_one",),
    "unisono.judge": ("Evaluation", "evaluate"),
    "unisono.algorithms.estimates": ("Estimate", "HypothesisTest"),
    "unisono.accounting.accountant": ("ACCOUNTANT",),
    "unisono.accounting.curve": ("PrivacyCurve",),
    "unisono.core.algorithm": ("Facts",),
    "unisono.core.events": (
        "Composed",
        "DiscreteGaussian",
        "Event",
        "Everyone",
        "Gaussian",
        "Laplace",
        "NoNoise",
        "NormNoise",
        "Poisson",
        "RandomizedResponse",
        "Selection",
        "Sensitivity",
        "Skellam",
        "WithoutReplacement",
        "bounded_sum",
    ),
    "unisono.core.ledger": ("Ledger",),
    "unisono.core.policy": ("Budget", "Policy"),
    "unisono.core.privacy": ("Privacy",),
    "unisono.core.study": ("Party", "Result", "Study"),
    "unisono.core.trust": ("Relation", "Trust", "Unit", "Viewer"),
    "unisono.core.values": ("Private", "clipped_sum"),
    "unisono.errors": (
        "ClippedValues",
        "FreshBudgetWarning",
        "LargeDeltaWarning",
        "PredictableNoiseWarning",
        "PrivacyWarning",
    ),
    "unisono.estimators.glm": ("PrivateGLM",),
    "unisono.estimators.model_choice": ("PrivateSearch",),
    "unisono.mechanisms": ("MECHANISMS",),
    "unisono.models.fitted": ("FittedModel", "load"),
    "unisono.releases.algorithm": ("Algorithm",),
    "unisono.scaling": ("PrivateScaler",),
    "unisono.studies.data_set": ("ledger_for",),
    "unisono.survival": ("ConcordanceIndex", "HazardRatios", "KaplanMeier", "concordance"),
}
_WHERE = {name: module for module, names in _PLACES.items() for name in names}

__all__ = sorted([*_WHERE, "__version__"])


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'unisono' has no attribute {name!r}")
    value = getattr(import_module(_WHERE[name]), name)
    globals()[name] = value  # asked for once
    return value


def __dir__() -> list[str]:
    return list(__all__)
