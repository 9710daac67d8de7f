"""The study of an evaluation, from a finished run: its columns and parties, and the model."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from unisono.errors import InvalidInput
from unisono.models.fitted import FittedModel, portable_text
from unisono.runs.folder import STUDY
from unisono.studies.file import load_study, parse_study
from unisono.studies.schema import StudyFile
from unisono.studies.template import toml_value


class Asked(NamedTuple):
    """How a model is to be judged: what it may cost, by which subgroups, on how many records of
    whom (left out: as many as it was learnt from), and which edition of the question it is."""

    epsilon: float
    by: str | None = None
    records: Mapping[str, int] | None = None
    edition: int = 1


def evaluation_text_of(model: FittedModel, asked: Asked) -> str:
    """A study file, as text, that judges the model of a run among the parties of its study."""
    path = model.folder / STUDY
    if not path.exists():
        raise InvalidInput(
            f"{model.folder} holds no {STUDY}: evaluate the folder of a run, which says who its "
            "parties are and what their columns mean"
        )
    file = load_study(path)
    records = _records(file, asked.records)
    text = _text(model, file, records, asked)
    parse_study(text, "the evaluation")  # what is wrong with it is said here
    return text


def _records(file: StudyFile, given: Mapping[str, int] | None) -> dict[str, int]:
    found = {party.name: party.records for party in file.parties}
    unknown = [name for name in given or {} if name not in found]
    if unknown:
        raise InvalidInput(
            f"{unknown[0]!r} is no party of this study: there are {', '.join(found)}"
        )
    return found if given is None else {n: m for n, m in {**found, **given}.items() if n in given}


def _text(model: FittedModel, file: StudyFile, records: Mapping[str, int], asked: Asked) -> str:
    schema = model.schema.model_dump(mode="json", exclude_defaults=True)
    columns = {
        name: column.model_dump(mode="json", exclude_defaults=True) | {"kind": column.kind}
        for name, column in model.schema.columns.items()
    }
    data = {key: own for key, own in schema.items() if key != "columns"}
    lines = [
        f"title = {toml_value(f'How good is: {file.title}')}",
        f"edition = {asked.edition}",
        "",
        "[data]",
        *(f"{key} = {toml_value(own)}" for key, own in data.items()),
        "",
        "[data.columns]",
        *(f"{toml_value(name)} = {toml_value(own)}" for name, own in columns.items()),
        "",
        "[privacy]",
        f"epsilon = {asked.epsilon:g}",
        f"delta = {file.privacy.delta:g}",
        f'relation = "{file.privacy.relation.value}"',
        "",
        "[trust]",
        f'mode = "{file.trust.mode.value}"',
    ]
    if len(records) == len(file.parties):
        lines += [f"minimum_parties = {file.survivors}", f"colluders = {file.colluders}"]
    lines += ["", "[model]", 'name = "evaluation"']
    lines += [] if asked.by is None else [f"by = {toml_value(asked.by)}"]
    lines += [f"records = {sum(records.values())}", f"judged = {toml_value(portable_text(model))}"]
    for name, own in records.items():
        lines += ["", "[[parties]]", f"name = {toml_value(name)}", f"records = {own}"]
    return "\n".join(lines) + "\n"


def write_evaluation(model: FittedModel, asked: Asked, path: Path) -> Path:
    """Write the study beside the run; one that is there and says something else is kept."""
    text = evaluation_text_of(model, asked)
    if path.exists() and path.read_text(encoding="utf-8") != text:
        raise InvalidInput(
            f"{path} says something else: name another --study, or remove it; an evaluation that "
            "has run needs another --edition"
        )
    path.write_text(text, encoding="utf-8")
    return path


__all__ = ["Asked", "evaluation_text_of", "write_evaluation"]
