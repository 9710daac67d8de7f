"""Checking a ledger file: its chain, its lines, and a head that was kept elsewhere."""

import os
from dataclasses import dataclass
from typing import Protocol

from unisono.core.events import Composed
from unisono.core.journal import heads, read
from unisono.core.ledger import Accountant, Ledger
from unisono.core.trust import Relation
from unisono.core.wallet import Wallet
from unisono.errors import LedgerCorrupted, UnknownEvent


class CheckingAccountant(Accountant, Protocol):
    """An accountant that checks states as they were written."""

    def follows(self, before: Wallet, after: Wallet, history: Composed, relation: Relation) -> bool:
        """Whether a state may certainly follow another after these releases."""


@dataclass(frozen=True)
class Verification:
    """What checking a ledger file found."""

    entries: int
    head: str
    sound: bool
    finding: str


def verify_charges(
    path: str | os.PathLike[str], accountant: CheckingAccountant, head: str | None = None
) -> Verification:
    """Check a ledger file, and that every charge covers its releases; with a `head` kept elsewhere,
    truncation and rewriting show too."""
    try:
        lines, now = read(path)
        reader = Ledger.replica(lines[:1], accountant)
        for line in lines[1:]:
            before = reader._wallets
            reader._learn([line])
            reader._require_charged(before, line)
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
