"""A party's records: where they come from, what was declared about them, how they become rows.

A record is read by itself, from public declarations. `sources` reads files, arrays and lists;
`schema` declares columns; `encoding` turns checked values into a model's rows; `scaling` brings
rows into the unit ball.
"""

from unisono.data.sources import (
    Bounds,
    RecordTable,
    UnreadValues,
    as_number,
    as_text,
    codes,
    listed,
    numbers,
    read_table,
    warn_unread,
)

__all__ = [
    "Bounds",
    "RecordTable",
    "UnreadValues",
    "as_number",
    "as_text",
    "codes",
    "listed",
    "numbers",
    "read_table",
    "warn_unread",
]
