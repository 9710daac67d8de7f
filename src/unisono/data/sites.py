"""Whose a record is, as a column that a model may learn from: an intercept of its own for each
party.

No file holds this column: a party knows who it is. It is public, whatever the record holds, and
stays what it is when a record is replaced, since that happens within its party; where records may
be added or removed, one of a public party is. Releases do not rely on either: their bounds hold for
any record. What is saved is the count of its values, which are the parties' public sizes; where
sizes are hidden, nominal ones stand for them, because all that they do is to standardise.
"""

from collections.abc import Sequence

import numpy as np

from unisono.data.columns import Category

SITE = "site"


class SiteColumn(Category):
    """The party of each record, the reference first, with public sizes of all."""

    sizes: tuple[int, ...]

    @property
    def shares(self) -> tuple[float, ...]:
        """The public shares of all parties but the reference."""
        return tuple(size / sum(self.sizes) for size in self.sizes[1:])


def site_column(names: Sequence[str], sizes: Sequence[int]) -> SiteColumn:
    """The column of these parties. The largest of them is the reference, the first of several:
    others are compared with what is known best.

    >>> column = site_column(["north", "south", "west"], [100, 300, 300])
    >>> column.values, column.shares[0]
    (('south', 'north', 'west'), 0.14285714285714285)
    """
    largest = int(np.argmax(sizes))
    order = [largest, *(place for place in range(len(names)) if place != largest)]
    return SiteColumn.model_validate(
        {
            "kind": "category",
            "values": tuple(names[place] for place in order),
            "sizes": tuple(int(sizes[place]) for place in order),
        }
    )


__all__ = ["SITE", "SiteColumn", "site_column"]
