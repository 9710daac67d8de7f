"""Whose mean loss is minimised where parties are of different sizes.

    pooled          (1/n) sum over all records of l(θ; record)            as if in one place
    equal-parties   (1/m) sum_j (1/n_j) sum over party j's records of l   every party weighs 1/m

The second is the first with weights: a record of party j weighs w_j = n / (m n_j), which is 1
where all parties are of one size. Sizes n_j are the public ones.

What the weights cost: noise hides the heaviest record, one of the smallest party n_(1), so its
standard deviation in the mean gradient is in proportion to n / (m n_(1)) / n = 1 / (m n_(1)), as if
all parties held as few records as the smallest (the m n_(1) of Jayaraman et al. 2018). The pooled
objective has 1 / n.
"""

from typing import Annotated, Any, Literal

from pydantic import Field

from unisono.core.algorithm import Aggregate, Facts
from unisono.core.config import AddedLater
from unisono.releases.algorithm import AlgorithmConfig

Objective = Literal["pooled", "equal-parties"]
DESCRIPTION = (
    "Whose mean loss is minimised: of all records alike (pooled), or of all parties alike, "
    "whatever their sizes (equal-parties); noise then follows the smallest."
)


class ObjectiveConfig(AlgorithmConfig):
    """An algorithm's settings with the choice of its objective."""

    objective: Annotated[Objective, AddedLater] = Field("pooled", description=DESCRIPTION)


def as_printed(config: Any) -> Any:
    """Theorems of Chen (2019) are about parties that weigh the same: so is what runs as printed."""
    if not config.published:
        return config
    return config.model_copy(update={"objective": "equal-parties"})


def record_weight(objective: Objective, facts: Facts, size: Any) -> Any:
    """w_j of a party of this public size.

    >>> facts = Facts((60, 20), 1, 2)
    >>> record_weight("equal-parties", facts, 20), largest_weight("pooled", facts)
    (2.0, 1.0)
    """
    if objective == "pooled":
        return 1.0
    return sum(facts.records) / facts.parties / size


def largest_weight(objective: Objective, facts: Facts) -> float:
    """The weight of a record of the smallest party, to which noise is in proportion."""
    return float(record_weight(objective, facts, min(facts.records)))


def effective_records(objective: Objective, facts: Facts) -> float:
    """How many records count beside the noise: n, or m n_(1).

    >>> effective_records("equal-parties", Facts((60, 20), 1, 2))
    40.0
    """
    if objective == "pooled":
        return float(sum(facts.records))
    return float(facts.parties * min(facts.records))


def mean_of(objective: Objective, facts: Facts, sums: Aggregate) -> Any:
    """The mean over the parties that arrived, of a sum over their weighted records: divided by
    their records, or where parties weigh the same, by n / m for each of them."""
    if objective == "pooled":
        return sums.total / sums.records
    return sums.total / (sums.survivors * (sum(facts.records) / facts.parties))


__all__ = [
    "DESCRIPTION",
    "Objective",
    "ObjectiveConfig",
    "as_printed",
    "effective_records",
    "largest_weight",
    "mean_of",
    "record_weight",
]
