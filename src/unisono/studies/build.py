"""From a `StudyFile` to a `Study`: one builder for each algorithm.

Building reads no records and is deterministic: every party that builds an equal file gets an equal
`study.hash`, on any machine with the same versions of this package and of JAX (a network's program
is part of its hash). What a rule computes is rounded before it enters the study, and first
parameters of networks are made from integers.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from unisono.core.study import Study
from unisono.data import Table
from unisono.errors import InvalidInput, PrivacyViolation
from unisono.studies import layered, linear, posteriors, surveys
from unisono.studies.evaluation import Examination, examination
from unisono.studies.plan import Built, Parts
from unisono.studies.schema import StudyFile

BUILDERS: Mapping[str, Callable[[StudyFile, Any], Parts]] = MappingProxyType(
    {
        "statistics": surveys.statistics_of,
        "k-means": surveys.k_means,
        "gradient-perturbation": linear.gradient_perturbation,
        "dp-sgd-convex": linear.dp_sgd_convex,
        "output-perturbation": linear.output_perturbation,
        "sgd-synchronous": linear.sgd_synchronous,
        "dp-sgd": layered.dp_sgd,
        "local-dp-sgd": layered.local_dp_sgd,
        "dp-ftrl": layered.dp_ftrl,
        "fed-avg": layered.fed_avg,
        "one-shot-regression": posteriors.one_shot_regression,
        "pvi-natural-gradient": posteriors.pvi_natural_gradient,
        "pvi-dp-sga": posteriors.pvi_dp_sga,
        "pvi-clipped-updates": posteriors.pvi_clipped_updates,
    }
)


def build(file: StudyFile) -> Built:
    """The study that the file describes; what the algorithm refuses is an error of the file."""
    try:
        parts = BUILDERS[file.algorithm.name](file, file.algorithm)
        study = Study(parts.algorithm, parts.facts, file.trust.mode)
        study.costs  # noqa: B018  (what cannot be paid for is refused here, before anyone joins)
    except (InvalidInput, PrivacyViolation) as error:
        words = f"{file.source.where(('algorithm',))}: {file.algorithm.name}: {error}"
        raise type(error)(words) from None
    return Built(file, study, parts, _test(file))


def _test(file: StudyFile) -> Examination | None:
    try:
        return examination(file)
    except (InvalidInput, PrivacyViolation) as error:
        where = file.source.where(("evaluation", "epsilon"))
        raise type(error)(f"{where}: evaluation: {error}") from None


def columns(file: StudyFile, table: Table, party: str) -> tuple[np.ndarray, ...]:
    """A party's records as the study's algorithm reads them (see `Built.columns`)."""
    return build(file).columns(table, party)


__all__ = ["BUILDERS", "build", "columns"]
