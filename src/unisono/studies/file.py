"""Reading `study.toml`, and what its sections must say of each other.

Everything here follows from the file alone; what the algorithm itself refuses is found when the
study is built.
"""

from collections.abc import Iterator
from pathlib import Path, PureWindowsPath
from typing import Any

from unisono.core.trust import Relation, Trust, Unit
from unisono.studies import source
from unisono.studies.questions import Histogram, Share
from unisono.studies.schema import Category, Number, StudyFile
from unisono.studies.settings import KMeans, Statistics
from unisono.studies.source import Fault


def load_study(path: str | Path) -> StudyFile:
    """The study that a file describes, or an error for every line that is wrong."""
    file, origin = source.read(path, StudyFile, faults)
    return file.placed(origin)


def parse_study(text: str, path: str = "study.toml") -> StudyFile:
    """As `load_study`, from a text that errors call `path`."""
    file, origin = source.parse(text, path, StudyFile, faults)
    return file.placed(origin)


def json_schema() -> dict[str, Any]:
    """The format as a JSON schema, for editors and other programs."""
    from unisono.studies.descriptions import study_schema

    return study_schema()


# ------------------------------------------------------------- what sections say of each other


def faults(file: StudyFile) -> Iterator[Fault]:
    """Everything that is wrong between the sections, by public facts alone."""
    yield from _people(file)
    yield from _claims(file)
    yield from _target(file)
    yield from _evaluation(file)
    if isinstance(file.algorithm, Statistics):
        yield from _questions(file, file.algorithm)
    elif not file.data.features:
        yield ("data", "columns"), "only the target is there: name columns to learn from"
    if isinstance(file.algorithm, KMeans):
        for name, column in file.data.columns.items():
            if column.kind != "number":
                words = "is a category: k-means measures distances of numbers; leave it out"
                yield ("data", "columns", name), words


def _people(file: StudyFile) -> Iterator[Fault]:
    for number, name in enumerate(file.names):
        if name in file.names[:number]:
            yield ("parties", number, "name"), f"'{name}' stands twice: give each party its own"
    survivors, parties, mode = file.survivors, len(file.parties), file.trust.mode
    if survivors > parties:
        words = f"{survivors} of {parties} parties: it lies between 1 and {parties}"
        yield ("trust", "minimum_survivors"), words
    elif file.colluders >= survivors:
        words = f"{survivors} survivors of whom {file.colluders} may collude leave no honest party"
        remedy = "require more survivors, or tolerate fewer colluders"
        yield ("trust", "colluders"), f"{words}: {remedy}"
    if parties == 1 and mode is Trust.SECURE_SUM:
        words = "one party alone in a secure sum: its sum is its own value"
        yield ("trust", "mode"), f'{words}; use "local", or invite another party'
    if file.trust.retries and mode is Trust.TRUSTED_SERVER:
        words = "a trusted server sees clean values: attempts are counted in other modes only"
        yield ("trust", "retries"), f"{words}; leave retries out"


def _claims(file: StudyFile) -> Iterator[Fault]:
    hidden, relation = file.data.sizes == "hidden", file.privacy.relation
    if hidden != (relation is Relation.ADD_OR_REMOVE):
        words = "add-or-remove hides how many records there are and goes with hidden sizes"
        said = f'"{file.data.sizes}" with relation "{relation}"'
        yield ("data", "sizes"), f"{said}: {words}, the other relations with exact ones"
    own, unit = file.algorithm.name, file.algorithm.unit
    if file.privacy.unit is not unit:
        remedy = f'say unit = "{unit}", or choose another algorithm'
        yield ("privacy", "unit"), f'"{file.privacy.unit}", but {own} hides a {unit}: {remedy}'
    if file.server is not None:
        port = int(file.server.address.rpartition(":")[2])
        if not 0 < port < 2**16:
            yield ("server", "address"), f"port {port}: it lies between 1 and 65535"


def _target(file: StudyFile) -> Iterator[Fault]:
    wanted, target = file.algorithm.target, file.data.target
    place = ("data", "target")
    if wanted == "none":
        if target is not None:
            yield place, f"'{target}': {file.algorithm.name} has no target; leave it out"
        return
    if target is None:
        yield place, f"is missing: say which column {file.algorithm.name} predicts"
        return
    column = file.data.columns.get(target)
    if column is None:
        yield place, f"'{target}' is no column: it has {', '.join(file.data.columns)}"
    elif wanted == "number" and not isinstance(column, Number):
        yield place, f"'{target}' is a category, and a number is predicted here: change the loss"
    elif wanted in ("classes", "two classes") and not isinstance(column, Category):
        yield place, f"'{target}' is a number, and classes are predicted here: change the loss"
    elif wanted == "two classes" and isinstance(column, Category) and len(column.values) > 2:
        yield place, f"'{target}' has {len(column.values)} values, {file.algorithm.name} takes two"


def _evaluation(file: StudyFile) -> Iterator[Fault]:
    asked, public = file.evaluation, 'test on public records (file = "test.csv")'
    if asked is None:
        return
    place = ("evaluation",)
    if file.algorithm.target == "none":
        words = f"{file.algorithm.name} predicts nothing that could be right or wrong"
        yield place, f"{words}: leave [evaluation] out; its answers come with intervals"
        return
    if (asked.holdout is None) != (asked.epsilon is None):
        missing = "epsilon" if asked.epsilon is None else "holdout"
        yield (*place, missing), "is missing: a private test needs both holdout and epsilon"
    elif asked.holdout is None and asked.file is None:
        yield place, "says nothing: give holdout and epsilon, or file"
    if asked.file is not None and _leads_away(asked.file):
        words = "is a path that leads away from the study: put the public records beside it"
        yield (*place, "file"), f"{asked.file!r} {words}, and give their name"
    if asked.holdout is None:
        return
    if file.data.sizes == "hidden":
        words = "with hidden sizes one record more or less would move all others"
        yield (*place, "holdout"), f"{words}: {public}, or agree on exact sizes"
    if file.privacy.unit is Unit.PARTY:
        words = "hides single records, and this study hides whole parties"
        yield (*place, "holdout"), f"{words}: {public}"
    for party, held in zip(file.parties, file.held_out, strict=True):
        if held == 0:
            words = f"of {party.records} records of {party.name} none would be kept"
            yield (*place, "holdout"), f"{words}: take a larger share, or {public}"


def _leads_away(path: str) -> bool:
    """Whether a path could name a file outside the study's folder, on any system."""
    windows = PureWindowsPath(path)  # which also takes / as a separator
    return bool(windows.anchor) or ".." in windows.parts


def _questions(file: StudyFile, asked: Statistics) -> Iterator[Fault]:
    columns = file.data.columns
    for number, question in enumerate(asked.questions):
        place = ("algorithm", "questions", number)
        needed = "number"
        if isinstance(question, Share) or (isinstance(question, Histogram) and not question.bins):
            needed = "category"
        for key, kind in (("column", needed), ("by", "category")):
            name = getattr(question, key, None)
            if name is not None and name not in columns:
                yield (*place, key), f"'{name}' is no column: it has {', '.join(columns)}"
            elif name is not None and columns[name].kind != kind:
                hint = "; give bins" if question.ask == "histogram" and key == "column" else ""
                words = f"'{name}' is a {columns[name].kind}, and a {kind} is needed here"
                yield (*place, key), f"{words}{hint}"
        column = columns.get(question.column)
        known = column.values if isinstance(column, Category) else ()
        if isinstance(question, Share) and known and question.value not in known:
            yield (*place, "value"), f"'{question.value}' is none of {', '.join(known)}"


__all__ = ["faults", "json_schema", "load_study", "parse_study"]
