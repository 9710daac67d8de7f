"""A first study file from a few answers, with a comment on every line that people ask about."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, is_dataclass
from types import MappingProxyType
from typing import Any

from pydantic import BaseModel, TypeAdapter

from unisono.core.config import Config
from unisono.core.defaults import default_colluders, default_relation, default_trust
from unisono.core.privacy import Privacy
from unisono.core.trust import Trust, Unit
from unisono.data.schema import Schema
from unisono.errors import InvalidInput
from unisono.models.model import ModelKind, Target
from unisono.models.registry import algorithms_for, model_named
from unisono.releases.algorithm import AlgorithmKind
from unisono.studies.schema import ALGORITHM_SECTIONS, AUTO, MODEL_SECTIONS
from unisono.studies.source import TODO

# A column: public bounds, the values of a category, or a declaration as study files write it.
Said = tuple[float, float] | tuple[str, ...] | Mapping[str, Any]
# What stands in for a TODO where only the kind of a column matters.
_FILLED: dict[str, dict[str, Any]] = {
    "number": {"bounds": (0.0, 1.0)},
    "date": {"bounds": ("2000-01-01", "2001-01-01")},
    "category": {"values": ("a", "b")},
    "ordinal": {"values": ("a", "b")},
}
_DAY = re.compile(r"\d{4}-\d\d-\d\d")


@dataclass(frozen=True)
class Answers:
    """What `unisono init` asks. Declarations may hold TODO, which `unisono check` refuses; `labels`
    say what columns are, for whoever reads the file."""

    title: str
    model: str
    columns: dict[str, Said]
    parties: dict[str, int]
    target: str | None = None
    epsilon: float = 1.0
    delta: float | None = None
    trust: Trust | None = None
    algorithm: str = AUTO
    server: str | None = None
    test: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def unfilled(self) -> tuple[str, ...]:
        """The columns of which something is left for people to fill in."""
        return tuple(n for n, said in self.columns.items() if TODO in declaration(said).values())

    @property
    def schema(self) -> Schema:
        """The columns as they are declared, with something in place of what is left open."""
        columns = {
            name: {**own, **(_FILLED[own["kind"]] if name in self.unfilled else {})}
            for name, own in ((name, declaration(said)) for name, said in self.columns.items())
        }
        return Schema.model_validate({"columns": columns, "target": self.target})


def declaration(said: Said) -> dict[str, Any]:
    """A column as study files declare it.

    >>> declaration((0.0, 120.0)), declaration(("yes", "no"))["kind"]
    ({'kind': 'number', 'bounds': (0.0, 120.0)}, 'category')
    """
    if isinstance(said, Mapping):
        return dict(said)
    if all(isinstance(end, float) for end in said):
        return {"kind": "number", "bounds": said}
    return {"kind": "category", "values": said}


def parse_column(text: str) -> Said:
    """LOW:HIGH are the bounds of a number or of dates, words with commas the values of a category,
    and with < between them in order.

    >>> parse_column("0:120"), parse_column("yes, no")
    ((0.0, 120.0), ('yes', 'no'))
    >>> parse_column("I<II<III")["kind"], parse_column("2010-01-01:2024-12-31")["kind"]
    ('ordinal', 'date')
    """
    if text == "true-false":
        return {"kind": "true-false"}
    if "<" in text:
        values = tuple(value.strip() for value in text.split("<"))
        if not all(values) or len(set(values)) < len(values):
            raise InvalidInput(f"{text!r}: write all values from low to high, as mild<severe")
        return {"kind": "ordinal", "values": values}
    low, colon, high = text.partition(":")
    if _DAY.fullmatch(low.strip()) and _DAY.fullmatch(high.strip()):
        return {"kind": "date", "bounds": (low.strip(), high.strip())}
    if colon and "," not in text:
        try:
            bounds = float(low), float(high)
        except ValueError:
            raise InvalidInput(f"{text!r} are no bounds: write LOW:HIGH, as 0:120") from None
        if not (math.isfinite(sum(bounds)) and bounds[0] < bounds[1]):
            raise InvalidInput(f"{text!r} are no bounds: the lowest comes first, as 0:120")
        return bounds
    values = tuple(value.strip() for value in text.split(","))
    if len(values) < 2 or not all(values) or len(set(values)) < len(values):
        raise InvalidInput(
            f"{text!r}: write LOW:HIGH for a number, as 0:120, or all values of a category, as "
            "yes,no; also mild<severe, true-false, or 2010-01-01:2024-12-31"
        )
    return values


def parse_parties(text: str) -> dict[str, int]:
    """Names with their numbers of records.

    >>> parse_parties("north=300, south=200")
    {'north': 300, 'south': 200}
    """
    found: dict[str, int] = {}
    for part in text.split(","):
        name, _, records = (piece.strip() for piece in part.partition("="))
        if not name or not records.isdecimal() or not int(records) or name in found:
            raise InvalidInput(
                f"{part.strip()!r}: write each party once as NAME=RECORDS, as north=300,south=200"
            )
        found[name] = int(records)
    return found


def algorithm_for(answers: Answers) -> AlgorithmKind:
    """The algorithm that is named, or the one that the model's rule takes."""
    model = model_named(answers.model)
    wanted = answers.algorithm
    if wanted == AUTO:
        settings = _configured(model, answers)
        rule = model.choose(settings, answers.schema, _promise(answers), Unit.RECORD)
        wanted = rule.algorithm
    known = {kind.name: kind for kind in algorithms_for(model)}
    if wanted not in known:
        raise InvalidInput(
            f"algorithm {wanted!r} cannot learn a {model.name}: choose {', '.join(known)} or auto"
        )
    return known[wanted]


def study_text(answers: Answers) -> str:
    """The file; whoever writes it should read it back first (`file.parse_study`)."""
    model, kind = model_named(answers.model), algorithm_for(answers)
    unit = kind.units[0]
    whole = unit is Unit.PARTY
    usual = default_trust(len(answers.parties))
    mode = answers.trust or (usual if usual in kind.trusts else Trust.LOCAL)
    units = len(answers.parties) if whole else sum(answers.parties.values())
    delta = small_delta(units) if answers.delta is None else answers.delta
    target = f"target = {_quoted(answers.target or '')}"
    predicts = model.target is not Target.NONE
    predicted = f"{target:<30} # the column to predict\n" if predicts else ""
    parties = "".join(
        f"\n[[parties]]\nname = {_quoted(party)}\nrecords = {records}\n"
        for party, records in answers.parties.items()
    )
    return f"""\
# What all parties agree on, each before it reads a record. `unisono check` explains this file.
title = {_quoted(answers.title)}
edition = 1                    # a study runs once; to run it again, agree on the next edition

[data]
{predicted}sizes = "exact"                # "hidden" goes with relation = "add-or-remove"

[data.columns]                 # bounds and values are public knowledge, never read from records
{_columns(answers)}{parties}
[privacy]                      # what the whole study may cost
epsilon = {answers.epsilon:g}                    # smaller hides more; 1 is good, above 8 is weak
delta = {delta:g}                  # far below 1 / number of {"parties" if whole else "records"}
unit = "{unit}"                # whose presence is hidden
relation = "{default_relation(unit)}"       # what is hidden of it

[trust]
mode = "{mode}"{_trust_comment(mode)}
{_crowd(answers, mode)}
[model]
name = "{model.name}"
{_left_out(MODEL_SECTIONS[model.name])}{model.draft(answers.schema)}
[algorithm]
name = "{answers.algorithm}"
{_algorithm(answers, kind)}{_tail(answers)}"""


def small_delta(units: int) -> float:
    """A power of ten well below 1 / units.

    >>> small_delta(569)
    1e-05
    """
    return float(f"1e-{math.ceil(math.log10(max(units, 2))) + 2}")


def _promise(answers: Answers) -> Privacy:
    return Privacy(answers.epsilon, 1e-6 if answers.delta is None else answers.delta)


def _configured(model: ModelKind, answers: Answers) -> Config:
    """The model's configuration, as its draft would be read."""
    import tomllib

    said = tomllib.loads(f"[model]\n{model.draft(answers.schema)}")["model"]
    return model.config.model_validate_json(json.dumps(said))


def _columns(answers: Answers) -> str:
    lines = []
    for column, said in answers.columns.items():
        key = column if re.fullmatch(r"[A-Za-z0-9_-]+", column) else _quoted(column)
        label = f"   # {answers.labels[column]}" if column in answers.labels else ""
        lines.append(f"{key} = {toml_value(_plain(declaration(said)))}{label}")
    return "\n".join(lines) + "\n"


def _algorithm(answers: Answers, kind: AlgorithmKind) -> str:
    """The settings that may be given, each with its default and one line of help, as comments."""
    if answers.algorithm == AUTO:
        return f"# that is {kind.name} here; `unisono check` says why\n"
    model = model_named(answers.model)
    posed = model.pose(_configured(model, answers), answers.schema, kind, _promise(answers))
    return _left_out(ALGORITHM_SECTIONS[kind.name], posed.settings)


def _left_out(section: type[Config], suggested: Mapping[str, Any] = MappingProxyType({})) -> str:
    """Settings as comments: with the model's suggestion, or with the default."""
    lines = []
    for name, info in section.model_fields.items():
        if name == "name" or info.is_required():
            continue
        default = suggested.get(name, info.get_default(call_default_factory=True))
        shown = "..." if default is None else toml_value(default)
        lines.append(f"# {f'{name} = {shown}':<28} # {info.description}\n")
    return "".join(lines)


def toml_value(value: Any) -> str:
    """A setting as study files write it; what is None inside a table is left out.

    >>> toml_value((1.5, True)), toml_value({"bound": 1.0, "quantile": None})
    ('[1.5, true]', '{ bound = 1.0 }')
    """
    if isinstance(value, BaseModel) or is_dataclass(value):
        value = TypeAdapter(type(value)).dump_python(value, mode="json")
    if isinstance(value, Mapping):
        said = (f"{key} = {toml_value(own)}" for key, own in value.items() if own is not None)
        return f"{{ {', '.join(said)} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    return json.dumps(value, ensure_ascii=False)


def _crowd(answers: Answers, mode: Trust) -> str:
    parties = len(answers.parties)
    survivors = max(parties - 1, 3) if parties > 3 else parties
    lines = f"minimum_parties = {survivors}            # so many must answer in every round\n"
    colluders = default_colluders(mode, survivors)
    return lines + f"colluders = {colluders}                  # so many may work with the server\n"


def _tail(answers: Answers) -> str:
    tail = ""
    if answers.test:
        words = "public records to test the result on, beside this file"
        tail += f"\n[evaluation]\nfile = {_quoted(answers.test)}          # {words}\n"
    if answers.server:
        tail += f"\n[server]\naddress = {_quoted(answers.server)}\n"
    return tail


def _trust_comment(mode: Trust) -> str:
    return {
        Trust.SECURE_SUM: "            # the server learns noisy sums only",
        Trust.LOCAL: "                 # every party adds all of the noise itself",
        Trust.TRUSTED_SERVER: "        # the server sees everything",
    }[mode]


def _plain(said: Any) -> Any:
    """Whole numbers without a point."""
    if isinstance(said, Mapping):
        return {key: _plain(own) for key, own in said.items()}
    if isinstance(said, list | tuple):
        return [_plain(own) for own in said]
    return int(said) if isinstance(said, float) and said.is_integer() else said


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


__all__ = [
    "Answers",
    "algorithm_for",
    "declaration",
    "parse_column",
    "parse_parties",
    "small_delta",
    "study_text",
    "toml_value",
]
