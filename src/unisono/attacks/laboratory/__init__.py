"""The built-in laboratory: attacks on defences, of updates (digits) and of tables (linkage)."""

from unisono.attacks.laboratory.cases import CASES, Case, chosen
from unisono.attacks.laboratory.experiment import QUICK, LaboratoryEffort, LaboratoryOutcome, run
from unisono.attacks.laboratory.linking import LinkageFound, linkage_document, run_linkage
from unisono.attacks.laboratory.results import LaboratoryResults, Row, document

__all__ = [
    "CASES",
    "QUICK",
    "Case",
    "LaboratoryEffort",
    "LaboratoryOutcome",
    "LaboratoryResults",
    "LinkageFound",
    "Row",
    "chosen",
    "document",
    "linkage_document",
    "run",
    "run_linkage",
]
