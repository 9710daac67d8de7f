"""The built-in laboratory: every attack on every defence, on digits, in minutes."""

from unisono.attacks.laboratory.cases import CASES, Case, chosen
from unisono.attacks.laboratory.experiment import QUICK, Effort, Outcome, run
from unisono.attacks.laboratory.results import Laboratory, Row, document

__all__ = [
    "CASES",
    "QUICK",
    "Case",
    "Effort",
    "Laboratory",
    "Outcome",
    "Row",
    "chosen",
    "document",
    "run",
]
