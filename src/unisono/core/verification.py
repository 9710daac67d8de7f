"""Checking a ledger file: its chain, its lines, and a head that was kept elsewhere."""

import math
import os
from dataclasses import dataclass

from unisono.core.events import Composed
from unisono.core.grant import _LEDGERS_ONLY
from unisono.core.journal import MemoryJournal, heads, read
from unisono.core.ledger import Ledger, header
from unisono.core.trust import Relation
from unisono.errors import LedgerCorrupted, UnknownEvent


@dataclass(frozen=True)
class Verification:
    """What checking a ledger file found."""

    entries: int
    head: str
    sound: bool
    finding: str


def verify(path: str | os.PathLike[str], head: str | None = None) -> Verification:
    """Check a ledger file; with a `head` kept elsewhere, truncation and rewriting show too."""
    try:
        lines, now = read(path)
        first = header(lines, path)
        reader = Ledger(_LEDGERS_ONLY, MemoryJournal(), first, _NO_ACCOUNTANT, None)
        reader._learn(lines[1:])
    except (LedgerCorrupted, UnknownEvent) as error:
        return Verification(0, "", False, str(error))
    grants = sum(line["kind"] == "grant" for line in lines)
    if head is not None and head not in heads(path):
        finding = (
            f"the head {head[:12]}… kept elsewhere is not in this file: lines were removed or "
            "the file was rewritten"
        )
        return Verification(grants, now, False, finding)
    return Verification(grants, now, True, f"{len(lines)} lines, unbroken chain")


class _NoAccountant:
    """For reading a book without asking what it costs."""

    def fits(self, history: Composed, relation: Relation, epsilon: float, delta: float) -> bool:
        return False

    def epsilon(self, history: Composed, relation: Relation, delta: float) -> float:
        return math.inf

    def guess(self, history: Composed, relation: Relation, delta: float) -> float:
        return 1.0


_NO_ACCOUNTANT = _NoAccountant()
