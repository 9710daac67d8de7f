"""Everything that can go wrong, in one tree.

Every message says the value, the cause and the remedy. The command line turns
each class into its exit code and prints the message without a traceback.

    UnisonoError
    ├── InvalidInput            a value the user gave cannot be used          exit 2
    ├── BudgetExceeded          the ledger refuses, before data is read       exit 3
    ├── PrivacyViolation        a claim would be false                        exit 4
    │   ├── UnknownEvent            no accountant knows the event
    │   ├── UndefinedRelation       no sensitivity under this relation
    │   ├── ConditionViolated       a theorem used outside its conditions
    │   └── GrantMisused            forged, replayed, copied or mismatched grant
    ├── LedgerError             the book cannot be trusted or written         exit 5
    │   ├── LedgerCorrupted         the hash chain is broken
    │   └── LedgerUnavailable       read-only, full or locked storage
    └── AuditFailed             an empirical bound exceeds the claim          exit 6
"""


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
