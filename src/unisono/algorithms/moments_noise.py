"""DP-SGD's noise by the moments accountant, as it is printed: for `published = true`.

    ε = min over λ = 1, ..., 32 of (T α(λ) - log δ) / λ,           noise of standard deviation z C

with the least noise multiplier z for which that is the study's ε (Abadi et al. 2016; Sharma 2019,
equations 2.5-2.16). The relation behind it is add-or-remove, where it is more than enough: other
proofs take less noise. Definitions that replace a record, as the thesis's do, are not what it
counts, and there it costs about twice the epsilon, and more.
"""

from typing import Any

from unisono.accounting import moments
from unisono.core.algorithm import Facts
from unisono.core.events import Gaussian
from unisono.core.privacy import Privacy
from unisono.core.sensitivity import Sensitivity
from unisono.core.trust import Relation
from unisono.releases.algorithm import Publication


def printed_noise(
    config: Any, problem: Any, facts: Facts, privacy: Privacy, sensitivity: Sensitivity
) -> Gaussian:
    """One record, taken out, moves the sum by its clipping norm."""
    multiplier = moments.noise_multiplier_for(
        privacy.epsilon, privacy.delta, config.sampling_rate, config.rounds
    )
    return Gaussian(multiplier * sensitivity.under(Relation.ZERO_OUT).in_norm("l2"))


MOMENTS_ACCOUNTANT = Publication(
    "Sharma 2019, the moments accountant",
    "it counts a record that is added or removed, with 32 moments; a replaced one costs more",
    printed_noise,
)

__all__ = ["MOMENTS_ACCOUNTANT"]
