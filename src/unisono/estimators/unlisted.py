"""Labels whose classes nobody has listed: read one by one, and placed once classes are released."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unisono.data import listed
from unisono.data.spelling import among, identities, label_of, places
from unisono.errors import InvalidInput
from unisono.estimators.records import FitRecords, Records

PRIVATE = "private"


@dataclass(frozen=True)
class UnlistedClasses:
    """Of each record what stands for its label (n,), and the label's places in the public grid
    (n, levels); how many classes there are; whether two are -1 and +1; and the kind of the array
    that the labels came in ("" for a list)."""

    labels: np.ndarray
    places: np.ndarray
    number: int
    signed: bool
    kind: str

    def among(self, names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """The classes of these names, sorted, and the place of each record's label, or -1."""
        classes = np.unique(np.array([self._value(name) for name in names]))
        if len(classes) < len(names) or not all(map(_is_whole, names)):
            classes = np.unique(np.array(names, dtype=str)) if self.kind != "b" else classes
        return classes, among(self.labels, [label_of(own) or "" for own in classes.tolist()])

    def numbers(self, found: np.ndarray) -> np.ndarray:
        """Places as the loss wants them."""
        return 2.0 * found - 1 if self.signed else found.astype(float)

    def _value(self, name: str) -> Any:
        """A class as labels in such an array are: text where they are text; in lists whole numbers
        are numbers."""
        if self.kind == "b" and name in ("true", "false"):
            return name == "true"
        return int(name) if _is_whole(name) and self.kind != "U" else name


def _is_whole(name: str) -> bool:
    return name.removeprefix("-").isdecimal()


def unlisted(
    classes: Any, records: Records, number: int, delta: float, signed: bool
) -> UnlistedClasses | None:
    """The labels of a fit whose `classes` are "private"; None where they are public.

    Labels in a list are read one by one (see `classifiers.places_of`).
    """
    if not isinstance(classes, str):
        return None
    if classes != PRIVATE:
        raise InvalidInput(
            f"classes = {classes!r}: give the public list of all labels, or {PRIVATE!r} to find "
            "them with a part of epsilon; nothing was spent"
        )
    if not delta:
        raise InvalidInput(
            "classes = 'private' with delta = 0: Laplace noise would drown the classes; pass "
            "classes=[...], the public list of all labels, or choose delta above 0; nothing was "
            "spent"
        )
    if isinstance(number, bool) or not isinstance(number, (int, np.integer)) or number < 2:
        raise InvalidInput(
            f"number_of_classes = {number!r}: give a whole number, 2 or more, known without "
            "looking at the data; nothing was spent"
        )
    if not isinstance(records, FitRecords):
        raise InvalidInput(
            "classes = 'private' with files or batches: labels are looked for in memory; pass "
            "classes=[...], the public list of all labels, or a frame; nothing was spent"
        )
    if records.people is not None:
        raise InvalidInput(
            "classes = 'private' with persons: it hides single records, and this fit hides "
            "persons; pass classes=[...], the public list of all labels; nothing was spent"
        )
    given = records.given
    labels = records.y if isinstance(getattr(given, "dtype", None), np.dtype) else listed(given)
    return UnlistedClasses(identities(labels), places(labels), int(number), signed, records.kind)


__all__ = ["PRIVATE", "UnlistedClasses", "unlisted"]
