"""Public test records: which file it is, and that it is no party's own.

Whoever is scored on a file sees those scores without noise, round after round. So a file that holds
a party's records, under whatever name, is refused here; a file that shares some of them cannot be
told from a public one, and is the word of whoever names it.
"""

from collections.abc import Mapping
from pathlib import Path

from unisono.data.encoding import Values
from unisono.errors import PrivacyViolation
from unisono.studies.build import Built
from unisono.studies.data_set import digest
from unisono.studies.schema import StudyFile

Test = tuple[Values, str]  # public records, and what their file is called


def public_test(file: StudyFile, study: Path, given: Path | None = None) -> Path | None:
    """The file of public records that is given, or that the study names: beside it."""
    asked = file.evaluation
    if given is None and asked is not None and asked.file is not None:
        return study.parent / asked.file
    return given


def read_public_test(built: Built, path: Path | None, data: Mapping[str, Path]) -> Test | None:
    """Public records, checked before anything is spent."""
    if path is None:
        return None
    values = built.testable(built.public_table(path))
    require_public(path, data)
    return values, path.name


def require_public(path: Path | None, data: Mapping[str, Path]) -> None:
    """Refuse a test file that is a party's data, or a copy of them."""
    if path is None or not path.is_file():
        return
    own = digest(path)
    for name, records in data.items():
        if path.samefile(records) or own == digest(records):
            raise PrivacyViolation(
                f"{path} holds the records of {name!r}, and whoever looks on would see how well "
                "they are predicted, without noise: test on public records, or keep some out of "
                "training with [evaluation] holdout and epsilon"
            )


__all__ = ["Test", "public_test", "read_public_test", "require_public"]
