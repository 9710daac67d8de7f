"""A party's records: where they come from, what was declared about them, how they become rows.

A record is read by itself, from public declarations. `cells` says what one cell is; `sources` reads
files, arrays and lists, `frames` other libraries' frames, `parquet_files` and `databases` what is
larger than memory, as `streams` of batches; `columns` and `schema` declare what they hold;
`encoding` turns checked values into a model's rows; `scaling` brings rows into the unit ball.
"""

from unisono.data.cells import as_number, as_text, codes, listed, numbers
from unisono.data.frames import as_table
from unisono.data.sources import (
    Bounds,
    RecordTable,
    UnreadValues,
    read_table,
    still_divided,
    warn_unread,
)

__all__ = [
    "Bounds",
    "RecordTable",
    "UnreadValues",
    "as_number",
    "as_table",
    "as_text",
    "codes",
    "listed",
    "numbers",
    "read_table",
    "still_divided",
    "warn_unread",
]
