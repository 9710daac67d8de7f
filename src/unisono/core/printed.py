"""Noise as a publication prints it: run beside what we calibrate, and never believed.

Several theorems and algorithms in print promise more than they keep. With `published = true` in an
algorithm's settings the noise is the printed one, not calibrated, and everything else follows from
what really happens:

* ledgers are charged the event with the printed noise and the true sensitivity, an upper bound of
  the true cost; the printed epsilon is charged nowhere;
* whoever reads a check, a certificate, a report or a result is told both;
* a real ledger pays for it only where its policy says so (`Policy.published`), and not at all where
  the publication is for simulations only. Simulated ledgers protect nobody, and just pay.
"""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

from unisono.core.ledger import Ledger
from unisono.core.words import number
from unisono.errors import PrivacyViolation


class Printed(NamedTuple):
    """Which publication a study's noise is from, what it claims, and what is wrong with it."""

    where: str
    flaw: str
    epsilon: float
    delta: float
    simulations_only: bool = False

    def words(self, true_epsilon: float) -> str:
        """Both epsilons, in plain words; `true_epsilon` is an upper bound of what it costs."""
        true = f"at most {number(true_epsilon)}" if math.isfinite(true_epsilon) else "infinite"
        return (
            f"noise as printed in {self.where}; the printed epsilon is {self.epsilon:g}, the true "
            f"one {true} ({self.flaw})"
        )

    @property
    def refusal(self) -> str:
        """Why a real ledger does not pay for it, whatever its policy says; empty if it may."""
        if not self.simulations_only:
            return ""
        return f"as printed in {self.where} it is for simulations only: {self.flaw}"


def require_printed_allowed(study: Any, ledgers: Iterable[Ledger]) -> None:
    """Refuse printed noise to real ledgers that do not allow it, before anything is touched."""
    printed: Printed | None = study.algorithm.printed
    if printed is None:
        return
    for ledger in ledgers:
        if ledger.simulated:
            continue
        if printed.refusal:
            raise PrivacyViolation(
                f"{study.algorithm.name} with published = true, and the ledger of "
                f"{ledger.policy.dataset!r} is real: {printed.refusal}; give ledgers a seed, or "
                "leave published out"
            )
        if not ledger.policy.published:
            raise PrivacyViolation(
                f"{study.algorithm.name} with published = true, noise as printed in "
                f"{printed.where}: the policy of {ledger.policy.dataset!r} does not allow that "
                "(published); leave published out, or try it with a seed"
            )


__all__ = ["Printed", "require_printed_allowed"]
