"""Arrow's columns as cells, by the types that their schema states."""

from typing import Any

from unisono.errors import InvalidInput


def arrow_cells(what: str, values: Any) -> list[Any]:
    """Values as numbers, truths or text, by the type that the file's schema states.

    Text is decoded cell by cell, and dates are written by Arrow: converted to Python's all at once,
    one that cannot be would take the others with it.
    """
    import pyarrow
    from pyarrow import types

    kind = values.type
    if types.is_dictionary(kind):  # Arrow would decode it only if all of it is UTF-8
        cells = []
        for chunk in getattr(values, "chunks", [values]):
            known = arrow_cells(what, chunk.dictionary)
            cells += [None if i is None else known[i] for i in chunk.indices.to_pylist()]
        return cells
    if types.is_null(kind) or types.is_boolean(kind) or types.is_integer(kind):
        return values.to_pylist()
    if types.is_floating(kind) or types.is_decimal(kind):
        return values.cast(pyarrow.float64(), safe=False).to_pylist()
    if types.is_date(kind) or types.is_timestamp(kind):
        return values.cast(pyarrow.string()).to_pylist()
    if any(
        check(kind)
        for check in (
            types.is_string,
            types.is_large_string,
            types.is_binary,
            types.is_large_binary,
        )
    ):
        return [_decoded(value) for value in values.cast(pyarrow.large_binary()).to_pylist()]
    raise InvalidInput(
        f"{what} has type {kind}, which is neither number, text, date nor true/false: convert it "
        "first"
    )


def _decoded(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


__all__ = ["arrow_cells"]
