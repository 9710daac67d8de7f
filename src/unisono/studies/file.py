"""Reading `study.toml`, and what its sections must say of each other.

Everything here follows from the file alone; what the algorithm itself refuses is found when the
study is built.
"""

from collections.abc import Iterator
from pathlib import Path, PureWindowsPath
from typing import Any

from pydantic import ValidationError

from unisono.algorithms.registry import algorithm_named
from unisono.core.config import Config
from unisono.core.trust import Relation, Trust, Unit
from unisono.data.sites import SITE
from unisono.errors import InvalidInput
from unisono.models.evaluation import group_faults
from unisono.models.model import target_faults
from unisono.models.prediction import HazardRatio
from unisono.models.registry import algorithms_for
from unisono.releases.algorithm import AlgorithmKind
from unisono.studies import source
from unisono.studies.schema import AUTO, StudyFile, tried
from unisono.studies.source import Fault


def load_study(path: str | Path) -> StudyFile:
    """The study that a file describes, or an error for every line that is wrong."""
    file, origin = source.read(path, StudyFile, faults)
    return file.placed(origin)


def parse_study(text: str, path: str = "study.toml") -> StudyFile:
    """As `load_study`, from a text that errors call `path`."""
    file, origin = source.parse(text, path, StudyFile, faults)
    return file.placed(origin)


def json_schema(model: type[Config] = StudyFile) -> dict[str, Any]:
    """The format of study files, or of another kind, as a JSON schema for editors and programs."""
    return {"$schema": source.DIALECT, **model.model_json_schema()}


# ------------------------------------------------------------- what sections say of each other


def faults(file: StudyFile) -> Iterator[Fault]:
    """Everything that is wrong between the sections, by public facts alone."""
    yield from _people(file)
    yield from _claims(file)
    yield from _target(file)
    yield from _evaluation(file)
    yield from _private(file)
    yield from _sites(file)
    yield from _search(file)
    if not file.data.features:
        yield ("data", "columns"), "only the target is there: name columns to learn from"
    yield from file.model_kind.faults(file.model_settings, file.data)


def _people(file: StudyFile) -> Iterator[Fault]:
    known: set[str] = set()
    for number, party in enumerate(file.parties):
        if party.name in known:
            words = f"'{party.name}' stands twice: give each party its own"
            yield ("parties", number, "name"), words
        known.add(party.name)
        own, most = party.epsilon, file.privacy.epsilon
        if own is not None and own > most:
            words = f"{own:g} is above the study's {most:g}, which is stated for all parties"
            yield ("parties", number, "epsilon"), f"{words}: raise privacy.epsilon, or lower this"
    survivors, parties, mode = file.survivors, len(file.parties), file.trust.mode
    if survivors > parties:
        words = f"{survivors} of {parties} parties: it lies between 1 and {parties}"
        yield ("trust", "minimum_parties"), words
    elif file.colluders >= survivors:
        words = f"{file.colluders} may collude, and only {survivors} must answer: that leaves no "
        words += "honest party"
        remedy = "raise minimum_parties, or lower colluders"
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
    if file.algorithm.name != AUTO:
        own = algorithm_named(file.algorithm.name)
        if file.privacy.unit is Unit.PERSON and not own.hides(Unit.PERSON, file.data.group or 1):
            yield ("privacy", "unit"), _adds_up_nobody(file, own)
        elif not own.hides(file.privacy.unit):
            hides = " or a ".join(own.units)
            remedy = f'say unit = "{own.units[0]}", or choose another algorithm'
            words = f'"{file.privacy.unit}", but {own.name} hides a {hides}: {remedy}'
            yield ("privacy", "unit"), words
    yield from _persons(file)
    if file.server is not None:
        port = int(file.server.address.rpartition(":")[2])
        if not 0 < port < 2**16:
            yield ("server", "address"), f"port {port}: it lies between 1 and 65535"


def _private(file: StudyFile) -> Iterator[Fault]:
    """Ranges that are to be paid for hide records; of anything larger they promise nothing."""
    if file.privacy.unit is not Unit.RECORD:
        words = f'"private" hides single records, and this study hides a {file.privacy.unit}'
        for name in file.data.private:
            yield ("data", "columns", name, "bounds"), f"{words}: declare public bounds"
        for name in file.data.unlisted:
            yield ("data", "columns", name, "values"), f"{words}: list the values"
    if not file.privacy.delta:
        for name in file.data.unlisted:
            words = '"private" with delta = 0: Laplace noise would drown the values'
            remedy = "list them from public knowledge, or choose delta above 0"
            yield ("data", "columns", name, "values"), f"{words}; {remedy}"


def _sites(file: StudyFile) -> Iterator[Fault]:
    """Effects of parties need several, and a name that no column has."""
    if not getattr(file.model_settings, "site_effects", False):
        return
    if len(file.parties) == 1:
        yield ("model", "site_effects"), "one party alone has no other to be compared with"
    if SITE in file.data.columns:
        words = f"the table has a row {SITE!r} for each party, and there is a column of that name"
        yield ("data", "columns", SITE), f"{words}: give the column another one"


def _persons(file: StudyFile) -> Iterator[Fault]:
    """Whose records are whose, and only where persons are hidden."""
    data, hidden = file.data, file.privacy.unit is Unit.PERSON
    if hidden and data.person is None:
        words = 'is missing: unit = "person" needs the column that says whose a record is'
        yield ("data", "person"), f'{words}, as person = "patient_id"'
    if data.person is not None and not hidden:
        words = f"'{data.person}', but unit = \"{file.privacy.unit}\" does not look at persons"
        yield ("data", "person"), f'{words}: say unit = "person" under [privacy], or leave it out'
    if data.person is not None and data.person in data.columns:
        words = f"'{data.person}' is also one of the columns that are learnt from"
        yield ("data", "person"), f"{words}: take it out there, as it says who somebody is"
    if data.person is None and data.records_per_person is not None:
        yield ("data", "records_per_person"), "is about persons: name their column in data.person"
    if data.person is None and data.person_at_parties > 1:
        yield ("data", "person_at_parties"), "is about persons: name their column in data.person"
    if data.person_at_parties > len(file.parties):
        words = f"{data.person_at_parties} of {len(file.parties)} parties"
        yield ("data", "person_at_parties"), f"{words}: it lies between 1 and their number"


def _adds_up_nobody(file: StudyFile, own: AlgorithmKind) -> str:
    """That an algorithm does not bound the records of a person together, and what to do."""
    able = [one.name for one in algorithms_for(file.model_kind) if Unit.PERSON in one.units]
    remedies = ["say data.records_per_person = 1 (one of each is drawn in secret)"]
    remedies = remedies if own.hides(Unit.PERSON) else []
    remedies += [f"choose {' or '.join(able)}"] if able else []
    words = f'"person", but {own.name} does not add up the records of a person'
    return f"{words}: {', or '.join(remedies) or 'choose another model'}"


def _target(file: StudyFile) -> Iterator[Fault]:
    for words in target_faults(file.model_kind, file.data):
        yield ("data", "target"), words


def _evaluation(file: StudyFile) -> Iterator[Fault]:
    asked, public = file.evaluation, 'test on public records (file = "test.csv")'
    if asked is None:
        return
    place = ("evaluation",)
    if file.model_kind.prediction is HazardRatio:
        if asked.holdout is None or asked.metrics != "all":
            words = "is judged by its concordance, over all records that were kept out"
            remedy = 'give holdout, epsilon and metrics = "all"'
            yield place, f"{file.model.name} {words}: {remedy}"
            return
    elif not file.model_kind.predicts:
        words = f"{file.model.name} predicts nothing that could be right or wrong"
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
        if asked.metrics != "score":
            yield (*place, "metrics"), "is about the private test: give holdout and epsilon, too"
        return
    if asked.metrics == "all":
        yield from group_faults((*place, "by"), asked.by, file.data)
        if file.data.target in file.data.unknown:
            words = f"needs to know what {file.data.target} may be before anything is released"
            yield (*place, "metrics"), f'{words}: declare it, or leave metrics = "score"'
    elif asked.by is not None:
        yield (*place, "by"), 'needs metrics = "all": one score is for everybody'
    if file.privacy.unit is Unit.PARTY:
        words = "hides single records, and this study hides whole parties"
        yield (*place, "holdout"), f"{words}: {public}"
    for party, held in zip(file.parties, file.held_out, strict=True):
        if held == 0:
            words = f"of {party.records} records of {party.name} none would be kept"
            yield (*place, "holdout"), f"{words}: take a larger share, or {public}"


_MOST_CANDIDATES = 100


def _search(file: StudyFile) -> Iterator[Fault]:
    """What a search asks for, and each of its candidates as a file of its own."""
    asked, place = file.search, ("search",)
    if asked is None:
        return
    for name in asked.grid:
        section, _, setting = name.partition(".")
        if section not in ("model", "algorithm") or not setting:
            words = "is no setting: write it as model.NAME or algorithm.NAME, in quotation marks"
            yield (*place, "grid", name), f"{name!r} {words}"
            return
    number = len(asked.overrides)
    if not 2 <= number <= _MOST_CANDIDATES:
        words = f"{number} {'candidate' if number == 1 else 'candidates'}: a choice is among 2 to "
        words += str(_MOST_CANDIDATES)
        yield place, f"{words}; list them as [[search.candidates]], or give a [search.grid]"
        return
    if asked.average and asked.method != "all":
        words = f"true with method = {asked.method!r}, which shows one model"
        yield (*place, "average"), f'{words}: use method = "all", or leave it out'
    unit, own = file.privacy.unit, any(party.epsilon for party in file.parties)
    reasons: list[tuple[bool, source.Place, str]] = [
        (bool(file.data.unknown), ("data",), "bounds or values that are private"),
        (file.data.person is not None, ("data", "person"), "persons"),
        (file.data.sizes == "hidden", ("data", "sizes"), "hidden sizes"),
        (unit is not Unit.RECORD, ("privacy", "unit"), "a unit other than a record"),
        (own, ("parties",), "parties' own epsilons"),
    ]
    for so, where, words in reasons:
        if so:
            yield where, f"{words} in a study with [search]: not offered; leave one of them out"
    if file.evaluation is not None and file.evaluation.epsilon is not None:
        words = "judges by records that chose the model, so it would be too good"
        yield ("evaluation", "epsilon"), f"{words}: test on public records, or evaluate afterwards"
    for party, held in zip(file.parties, file.held_out, strict=True):
        if asked.holdout and held == 0:
            words = f"of {party.records} records of {party.name} none would judge"
            yield (*place, "holdout"), f"{words}: take a larger share"
    for count, override in enumerate(asked.overrides, 1):
        try:
            candidate = tried(file, override)
        except (InvalidInput, ValidationError) as error:
            said = error if isinstance(error, InvalidInput) else _first_error(error)
            yield place, f"candidate {count}: {said}"
            continue
        if not candidate.model_kind.predicts:
            words = f"{candidate.model.name} predicts nothing that could be right or wrong"
            yield place, f"candidate {count}: {words}: leave it out"
        elif override["model"] or override["algorithm"]:
            for _, words in faults(candidate.model_copy(update={"search": None})):
                yield place, f"candidate {count}: {words}"


def _first_error(error: ValidationError) -> str:
    one = error.errors(include_url=False)[0]
    return f"{'.'.join(map(str, one['loc']))} = {one['input']!r}: {one['msg']}"


def _leads_away(path: str) -> bool:
    """Whether a path could name a file outside the study's folder, on any system."""
    windows = PureWindowsPath(path)  # which also takes / as a separator
    return bool(windows.anchor) or ".." in windows.parts


__all__ = ["faults", "json_schema", "load_study", "parse_study"]
