"""Raising a budget: a line of the ledger that the party has signed, with its reason and its date.

    {"kind": "raise", "number": 0, "budget": [8.0, 1e-06], "reason": "...", "time": "...",
     "after": HEAD, "signer": "north", "key": HEX, "signature": HEX, "chain": HEX}

The signature (Ed25519, the key that `unisono keygen` makes) covers all of the line, the ledger's
identity and, as `after`, the chain before it: it cannot be moved to another ledger or another
place, and it vouches for every line before. A ledger believes one key, that of its first raise;
whoever holds the party's card compares that key with it. Nobody lowers a budget here: that is done
in the policy file, down to what is spent.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from unisono.core.events import canonical
from unisono.core.policy import Budget, Policy
from unisono.errors import InvalidInput, LedgerCorrupted

_DOMAIN = b"unisono/budget-raise/1\n"
_LONGEST_REASON = 1000


class Signer(Protocol):
    """A party's name and keys, as `studies.keys.load_identity` reads them."""

    name: str
    public: bytes

    def sign(self, message: bytes) -> bytes:
        """The Ed25519 signature of a message."""


@dataclass(frozen=True)
class Raise:
    """From which budget to which, when, why, and by whom."""

    before: Budget
    budget: Budget
    time: str
    reason: str
    signer: str
    key: str

    def to_json(self) -> dict[str, Any]:
        return {
            "from": self.before.to_json(),
            "to": self.budget.to_json(),
            "time": self.time,
            "reason": self.reason,
            "signer": self.signer,
            "key": self.key,
        }


def raised(policy: Policy, budget: Budget) -> Policy:
    """The policy with a larger budget, or a refusal."""
    before = policy.budget
    if math.isinf(budget.epsilon):
        raise InvalidInput(
            "an infinite budget protects nobody: name the epsilon that all studies may cost"
        )
    if budget == before or not before.within(budget):
        raise InvalidInput(
            f"{budget.words} is not above the present budget, {before.words}: name a larger "
            "one; a budget is lowered in the policy file, down to what is spent"
        )
    return replace(policy, budget=budget)


def raise_line(
    policy: Policy,
    budget: Budget,
    reason: str,
    signer: Signer,
    *,
    identity: str,
    number: int,
    after: str,
    time: str,
) -> dict[str, Any]:
    """The signed line that raises the budget of `policy`."""
    raised(policy, budget)
    if not reason.strip() or len(reason) > _LONGEST_REASON:
        raise InvalidInput(
            "a raise gives its reason, for whoever reads the ledger later: who decided, and why, "
            f"in at most {_LONGEST_REASON} characters"
        )
    line = {
        "kind": "raise",
        "number": number,
        "budget": budget.to_json(),
        "reason": reason.strip(),
        "time": time,
        "after": after,
        "signer": signer.name,
        "key": signer.public.hex(),
    }
    return line | {"signature": signer.sign(_message(line, identity)).hex()}


def read_raise(
    line: Mapping[str, Any], policy: Policy, identity: str, earlier: tuple[Raise, ...]
) -> Raise:
    """What a line of the ledger raises `policy`'s budget to; refused unless it is signed, by the
    key of those before it, and is the next."""
    key = line["key"]
    if line["number"] != len(earlier):
        raise LedgerCorrupted(
            f"raise {line['number']} of the budget is out of order: lines were removed or added by "
            "hand"
        )
    if earlier and key != earlier[0].key:
        raise LedgerCorrupted(
            f"raise {line['number']} of the budget is signed with another key than the first: it "
            "is not the party's own"
        )
    if not isinstance(line.get("after"), str) or not _signed(line, identity):
        raise LedgerCorrupted(
            f"raise {line['number']} of the budget is not signed by {str(line['signer'])!r}: it "
            "was written or changed by hand, or belongs to another ledger"
        )
    budget = Budget.from_json(line["budget"])
    raised(policy, budget)
    own = str(line["time"]), str(line["reason"]), str(line["signer"]), str(key)
    return Raise(policy.budget, budget, *own)


def require_key(raises: tuple[Raise, ...], public: bytes, whose: str) -> None:
    """Refuse a ledger whose budget was raised with another key than the party's."""
    for one in raises:
        if one.key != public.hex():
            raise LedgerCorrupted(
                f"the budget was raised to {one.budget.words} on {one.time[:10]} with key "
                f"{one.key[:16]}…, and {whose} is {public.hex()[:16]}…: somebody else raised it; "
                "restore the ledger from a backup"
            )


def _signed(line: Mapping[str, Any], identity: str) -> bool:
    # Only whoever meets a raise needs cryptography, which takes a while to import.
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(line["key"]))
        key.verify(bytes.fromhex(line["signature"]), _message(line, identity))
    except (InvalidSignature, KeyError, TypeError, ValueError):
        return False
    return True


def _message(line: Mapping[str, Any], identity: str) -> bytes:
    own = {word: value for word, value in line.items() if word not in ("signature", "chain")}
    return _DOMAIN + canonical({"ledger": identity, "line": own})
