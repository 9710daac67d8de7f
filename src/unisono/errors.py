"""Everything that can go wrong, and what users are warned of, in two trees.

Every message says the value, the cause and the remedy. The command line turns
each class into its exit code and prints the message without a traceback.

    UnisonoError
    ├── InvalidInput            a value the user gave cannot be used          exit 2
    ├── BudgetExceeded          the ledger refuses, before data is read       exit 3
    ├── PrivacyViolation        a claim would be false                        exit 4
    │   ├── UnknownEvent            no accountant knows the event
    │   ├── UndefinedRelation       no sensitivity under this relation
    │   ├── ConditionViolated       a theorem used outside its conditions
    │   ├── DishonestServer         it asked what an honest one never does: a party stops
    │   └── GrantMisused            forged, replayed, copied or mismatched grant
    ├── LedgerError             the book cannot be trusted or written         exit 5
    │   ├── LedgerCorrupted         the hash chain is broken
    │   └── LedgerUnavailable       read-only, full or locked storage
    ├── AuditFailed             an empirical bound exceeds the claim          exit 6
    └── SumRefused              a noised sum beyond what parties may send     exit 7

    UserWarning
    ├── PrivacyWarning          what was asked for promises less than it seems
    │   ├── LargeDeltaWarning       delta >= 1 / units: a whole unit could be published
    │   ├── PredictableNoiseWarning a seed: whoever knows it subtracts the noise
    │   └── FreshBudgetWarning      no ledger was given: this budget is forgotten
    ├── ClippedValues           some values lay outside their public bounds
    └── BusyLedgerWarning       another process holds the ledger, and this one waits

Whoever wants none of these promises weakened makes them errors, before anything is spent:
``warnings.simplefilter("error", unisono.PrivacyWarning)``.
"""

import sys
import warnings


class UnisonoError(Exception):
    """Base of all errors raised on purpose."""

    exit_code = 1


class InvalidInput(UnisonoError, ValueError):
    """A value the user gave cannot be used."""

    exit_code = 2


class BudgetExceeded(UnisonoError):
    """The ledger refuses to pay; no data was read."""

    exit_code = 3


class PrivacyViolation(UnisonoError):
    """Going on would make a privacy claim false."""

    exit_code = 4


class UnknownEvent(PrivacyViolation):
    """No accountant knows the event; unknown is never free."""


class UndefinedRelation(PrivacyViolation):
    """The event has no sensitivity under the relation asked for."""


class ConditionViolated(PrivacyViolation):
    """A theorem was asked for outside the conditions under which it holds."""


class DishonestServer(PrivacyViolation):
    """A server asked what an honest one never asks; a party that notices takes part no longer."""


class GrantMisused(PrivacyViolation):
    """A grant was forged, replayed, copied or used for another event."""


class LedgerError(UnisonoError):
    """The ledger cannot be trusted or written."""

    exit_code = 5


class LedgerCorrupted(LedgerError):
    """The hash chain or the format of the ledger is broken."""


class LedgerUnavailable(LedgerError):
    """The ledger cannot be written: read-only, full or locked storage."""


class AuditFailed(UnisonoError):
    """An empirical lower bound on epsilon exceeds the claim."""

    exit_code = 6


class SumRefused(UnisonoError):
    """A sum with its noise is beyond what records, bounds and noise allow."""

    exit_code = 7


class PrivacyWarning(UserWarning):
    """What was asked for promises less than it seems; raised before anything is spent."""


class LargeDeltaWarning(PrivacyWarning):
    """delta is so large that publishing all of one unit would be allowed."""


class PredictableNoiseWarning(PrivacyWarning):
    """A seed makes the noise predictable: a simulation, which protects nobody."""


class FreshBudgetWarning(PrivacyWarning):
    """No ledger was given, so nothing adds this release to others of the same records."""


class ClippedValues(UserWarning):
    """Some of the values lie outside their public bounds; whoever holds them is told so alone."""


class BusyLedgerWarning(UserWarning):
    """Another process holds the ledger; this one waits for it, up to a limit."""


def warn(text: str, category: type[Warning]) -> None:
    """Warn at the line of whoever called this package."""
    frame, depth = sys._getframe(1), 2
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] == "unisono":
        frame, depth = frame.f_back, depth + 1
    warnings.warn(text, category, stacklevel=depth)
