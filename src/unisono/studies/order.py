"""A secret, exactly uniform order of a party's records, where places in a file would count.

A study whose split or schedule goes by places (records kept out for a test; `dp-ftrl`, where
records take turns; `sgd-sequential`, where they are named) is private only if one record that is
exchanged leaves all others in their places. Files do not promise that: in one that is sorted,
another value moves many records. So each party shuffles its records first, in memory, by a key that
nobody else learns: it lies beside the party's ledger until the study is over, so that whoever goes
on after a crash keeps out of training the same records. Where sizes are hidden the same key tosses
a coin for each record instead of counting records off.

Why that suffices is said in `data.order`, which draws it.

A key that was lost is drawn anew. The argument holds for every pair of orders, as each payment
covers a record in any place, and ledgers add up training and test rather than take the larger. A
run in which places matter from round to round (`dp-ftrl`, `sgd-sequential`) is paid for at once and
ends with its process, so it never sees two orders.
"""

from pathlib import Path

from unisono.core import journal
from unisono.data.order import KEY_BYTES, new_key, secret_order, secret_share, simulated_key


def found_key(path: Path) -> bytes | None:
    """The key that an earlier process of this run left in its owner's file."""
    try:
        key = path.read_bytes()
    except OSError:
        return None
    return key if len(key) == KEY_BYTES else None


def keep_key(path: Path, key: bytes) -> None:
    """Leave the key for a later process of this run; the file is its owner's alone."""
    journal.replace(path, key, 0o600)


__all__ = ["found_key", "keep_key", "new_key", "secret_order", "secret_share", "simulated_key"]
