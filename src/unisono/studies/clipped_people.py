"""How many of a party's persons a study cut, told to it alone (`algorithms.clipped_people`)."""

from typing import Any

import numpy as np

from unisono.algorithms.clipped_people import person_lengths, warn_of_cut_persons
from unisono.studies.build import Built
from unisono.studies.stages import FIT, SplitRecords
from unisono.studies.streamed import StreamedRecords


def warn_of_clipping(
    built: Built, records: SplitRecords | StreamedRecords, party: str, value: Any
) -> None:
    """Tell whoever holds the records, and nobody else, how many persons are clipped at a result."""
    if isinstance(records, StreamedRecords):  # persons are not streamed
        return
    found = lengths(built, records, party, value)
    if found is not None:
        warn_of_cut_persons(party, *found)


def lengths(
    built: Built, records: SplitRecords, party: str, value: Any
) -> tuple[np.ndarray, float] | None:
    """The norms of persons' gradients at a result (persons,), and where they are clipped; None
    where no sums over a person's records are."""
    if built.study.facts.group == 1:
        return None
    columns = built.stage(FIT).prepare(records, {})
    return person_lengths(built.study, built.file.party(party), columns, value)


__all__ = ["lengths", "warn_of_clipping"]
