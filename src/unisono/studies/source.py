"""TOML in, frozen models out, and errors that point at the line.

A file is read in three steps, each of which may refuse it: TOML, the model's own types and ranges,
and what the sections say about each other (`checks`). Every refusal names file, line, value, cause
and remedy, and all of a step's refusals come together.
"""

import difflib
import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from unisono.core.config import Config
from unisono.core.words import clean, controls, did_you_mean
from unisono.errors import InvalidInput

Place = tuple[str | int, ...]
TODO = "TODO"  # stands where people are to fill in what a draft cannot know
Fault = tuple[Place, str]
_LARGEST_FILE, _MOST_ENTRIES = 2**20, 100_000
_PARTS, _MOST_FAULTS, _LONGEST_VALUE = 32, 50, 200
_LONG_KEY = re.compile(
    rf"""(?:(?:"[^"\n]*+"|'[^'\n]*+'|(?<![\w-])[\w-]++)[ \t]*+\.[ \t]*+){{{_PARTS}}}"""
)


DIALECT = "https://json-schema.org/draft/2020-12/schema"
NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
Model = TypeVar("Model", bound=Config)


@dataclass(frozen=True)
class Source:
    """Where a model was read from; models that say the same are equal wherever they lie."""

    path: str = field(default="", compare=False)
    text: str = field(default="", compare=False)

    @cached_property
    def lines(self) -> Mapping[Place, int]:
        """The line on which each key, table or entry of a list of tables begins."""
        return _lines(self.text)

    def where(self, place: Place) -> str:
        """`study.toml line 7`, for the place or the nearest table around it."""
        while place and place not in self.lines:
            place = place[:-1]
        return f"{self.path} line {self.lines.get(place, 1)}"

    def refusal(self, faults: Iterable[Fault], more: int = 0) -> InvalidInput:
        """One error for all faults, in the order of the lines; `more` are not shown."""
        found = [(self.where(place), _path(place), words) for place, words in faults]
        found.sort(key=lambda fault: int(fault[0].rsplit(" ", 1)[1]))
        shown = [f"{where}: {path}{words}" for where, path, words in found]
        return InvalidInput("\n".join([*shown, f"and {more} more"] if more > 0 else shown))


def read(
    path: str | Path, model: type[Model], checks: Callable[[Model], Iterable[Fault]] = lambda _: ()
) -> tuple[Model, Source]:
    """The model that a file says, and where it was said."""
    file = Path(path)
    try:
        if file.stat().st_size > _LARGEST_FILE:
            raise _too_large(path)
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidInput(
            f"{path} cannot be read: {error.strerror}; check the name and the permissions"
        ) from None
    except UnicodeDecodeError:
        raise InvalidInput(f"{path} is not UTF-8 text: is it a TOML file?") from None
    return parse(text, str(path), model, checks)


def parse(
    text: str,
    path: str,
    model: type[Model],
    checks: Callable[[Model], Iterable[Fault]] = lambda _: (),
) -> tuple[Model, Source]:
    """The model that a text says; `path` is what errors call it."""
    source = Source(path, text)
    document, plain = toml_document(text, path)
    if forged := list(_forged(document)):
        raise source.refusal(forged[:_MOST_FAULTS], len(forged) - _MOST_FAULTS)
    if unfilled := list(_unfilled(document)):
        raise source.refusal(unfilled[:_MOST_FAULTS], len(unfilled) - _MOST_FAULTS)
    try:
        made = model.model_validate_json(plain)
    except ValidationError as error:
        details = [
            one
            for one in error.errors(include_url=False)
            if one["type"] != "default_factory_not_called"  # it follows from another fault
        ]
        grouped = _by_place(document, details)
        shown = islice(grouped.items(), _MOST_FAULTS)
        faults = [_fault_at(model, document, place, own) for place, own in shown]
        raise source.refusal(faults, len(grouped) - _MOST_FAULTS) from None
    if faults := list(checks(made)):
        raise source.refusal(faults[:_MOST_FAULTS], len(faults) - _MOST_FAULTS)
    return made, source


def toml_document(text: str, path: str) -> tuple[dict[str, Any], str]:
    """What a text says, and the same as JSON: of that, strict models take lists for tuples and
    names for choices, and nothing else. Its size is limited before it is read."""
    if len(text) > _LARGEST_FILE:
        raise _too_large(path)
    if (entries := text.count("\n") + text.count(",")) > _MOST_ENTRIES:
        raise InvalidInput(
            f"{path} has {entries:,} lines and list entries, and at most {_MOST_ENTRIES:,} are "
            "read: shorten it"
        )
    if found := _LONG_KEY.search(text):  # reading one takes the square of its length
        number = text.count("\n", 0, found.start()) + 1
        raise InvalidInput(f"{path} line {number}: a key of more than {_PARTS} parts: shorten it")
    try:
        document = tomllib.loads(text)
        return document, json.dumps(document, default=str)
    except tomllib.TOMLDecodeError as error:
        words, line = str(error), re.search(r"at line (\d+)", str(error))
        number = int(line[1]) if line else text.count("\n") + 1
        raise InvalidInput(f"{path} line {number}: this is not TOML: {words}") from None
    except RecursionError:
        raise InvalidInput(f"{path}: lists or tables lie too deep in each other") from None
    except ValueError:
        raise InvalidInput(f"{path}: a number has too many digits: write a smaller one") from None


def _too_large(path: object) -> InvalidInput:
    return InvalidInput(f"{path} is larger than 1 MB: it cannot be the file that is meant")


def _unfilled(document: Any) -> Iterator[Fault]:
    """Everything that a draft left open."""
    for place, said in _texts(document):
        if said == TODO:
            words = (
                "fill in what is public knowledge (a codebook, a guideline), never what records "
                "show"
            )
            yield place, f"is still {TODO}: {words}"


# A query may take several lines, and cells may be separated by tabs.
_SQL: Place = ("source", "sql")
_LAYOUT: dict[Place, bytes] = {_SQL: b"\n\r\t", ("csv", "separator"): b"\t"}
# Spaces, and letters that look like them.
_BLANKS = re.compile("[\\s\u115f\u1160\u2800\u3164\uffa0]{8,}")


def _forged(document: Any) -> Iterator[Fault]:
    """Text with which a file could write lines of its own on the screen of whoever checks it."""
    for place, said in _texts(document):
        key = place[-1] if place else ""
        shown = said.translate(dict.fromkeys(_LAYOUT.get(place[-2:], b""), " "))
        for text in (shown, key if isinstance(key, str) else ""):
            if found := controls(text):
                yield (
                    place,
                    f"{_short(ascii(text))} holds {_named(found)}: write plain text on one line, "
                    "without control characters",
                )
            elif place[-2:] != _SQL and _BLANKS.search(text):  # a screen is only so wide
                seen = _short(ascii(_BLANKS.sub(" ... ", text)))
                yield place, f"{seen} holds 8 or more blanks in a row: remove them"


def _named(letters: str) -> str:
    return ", ".join(f"U+{ord(letter):04X}" for letter in list(dict.fromkeys(letters))[:3])


def _texts(said: Any, place: Place = ()) -> Iterator[tuple[Place, str]]:
    """All texts of a document and where they stand; empty ones for keys of anything else."""
    if isinstance(said, dict | list):
        inner: Iterable[tuple[str | int, Any]]
        inner = said.items() if isinstance(said, dict) else enumerate(said)
        if place:
            yield place, ""
        for key, own in inner:
            yield from _texts(own, (*place, key))
    else:
        yield place, said if isinstance(said, str) else ""


# ------------------------------------------------------------- lines

# Strings, comments, brackets and ends of lines: what tells where a statement ends.
_TOKEN = re.compile(
    r'"{3}(?:\\.|[^\\])*?"{3,5}|"(?:\\.|[^"\\\n])*+"|' + r"'{3}.*?'{3,5}|'[^'\n]*+'"
    r"|#[^\n]*+|[\[{]|[\]}]|\n",
    re.DOTALL,
)


def _statements(text: str) -> Iterator[tuple[int, str]]:
    """Each statement of a TOML text, which may go on over lines, and the line it begins on."""
    depth = begin = 0
    line = begun = 1
    for token in _TOKEN.finditer(text + "\n"):
        said = token[0]
        if said in "[{":
            depth += 1
        elif said in "]}":
            depth -= 1
        line += said.count("\n")
        if said == "\n" and not depth:
            statement = text[begin : token.end()]
            if statement.strip() and not statement.lstrip().startswith("#"):
                yield begun, statement
            begin, begun = token.end(), line


def _lines(text: str) -> dict[Place, int]:
    """Where each key of a valid text stands; every statement is read once."""
    found: dict[Place, int] = {}
    counts: dict[Place, int] = {}
    table: Place = ()
    for begun, statement in _statements(text):
        keys = _keys(tomllib.loads(statement), statement.lstrip().startswith("["))
        if statement.lstrip().startswith("[["):
            outer = _numbered(keys, counts)
            counts[outer] = counts.get(outer, -1) + 1
            table, keys = (*outer, counts[outer]), ()
        elif statement.lstrip().startswith("["):
            table, keys = _numbered(keys, counts, last=True), ()
        for depth in range(len(keys) + 1):
            found.setdefault((*table, *keys[:depth]), begun)
    return found


def _keys(said: Any, header: bool) -> tuple[str, ...]:
    """`a.b = 1` says a.b: the path of single keys; a header's innermost table is empty."""
    keys: list[str] = []
    while isinstance(said, dict) and len(said) == 1:
        [(key, said)] = said.items()
        keys.append(key)
        if not header and not isinstance(said, dict):
            break
        said = said[0] if header and isinstance(said, list) else said
    return tuple(keys)


def _numbered(keys: Place, counts: Mapping[Place, int], last: bool = False) -> Place:
    """A header's path, with the number of the present entry after each list of tables."""
    place: Place = ()
    for depth, key in enumerate(keys, start=1):
        place = (*place, key)
        if place in counts and (last or depth < len(keys)):
            place = (*place, counts[place])
    return place


def _path(place: Place) -> str:
    shown = ""
    for part in place:
        shown += f"[{part + 1}]" if isinstance(part, int) else f".{part}" if shown else part
    shown = _BLANKS.sub(" ... ", clean(shown))
    return f"{shown}: " if shown else ""


# ------------------------------------------------------------- words

_WORDS = {
    "bool_type": "write true or false",
    "int_type": "write a whole number",
    "int_from_float": "write a whole number",
    "float_type": "write a number",
    "finite_number": "write a finite number",
    "string_type": "write text in quotes",
    "tuple_type": "write a list in square brackets",
    "list_type": "write a list in square brackets",
    "dict_type": "write a table",
    "model_type": "write a table",
    "model_attributes_type": "write a table",
}


def _by_place(document: Any, errors: Iterable[Any]) -> dict[Place, list[Any]]:
    grouped: dict[Place, list[Any]] = {}
    for error in errors:
        grouped.setdefault(_place(error, document), []).append(error)
    return grouped


def _fault_at(model: type[BaseModel], document: Any, place: Place, own: list[Any]) -> Fault:
    """One fault for each place. A value that may be of several kinds has an error for each of them,
    which only together say what may be written."""
    if len(own) == 1:
        return _fault(model, document, own[0])
    said = _short(json.dumps(own[0]["input"], default=str, ensure_ascii=False))
    choices = dict.fromkeys(_remedy(error) for error in own)
    return place, f"{said} is not allowed: {', or '.join(choices)}"


def _remedy(error: Any) -> str:
    """What to write instead."""
    kind, context = error["type"], error.get("ctx", {})
    if kind in ("literal_error", "enum"):
        return f"choose one of {context['expected']}"
    if kind == "value_error":
        return str(context["error"])
    if kind == "too_short":
        return f"write at least {context['min_length']}, not {context['actual_length']}"
    if kind == "too_long":
        return f"write at most {context['max_length']}, not {context['actual_length']}"
    return _WORDS.get(kind) or error["msg"].replace("Input should be", "it must be", 1)


def _fault(model: type[BaseModel], document: Any, error: Any) -> Fault:
    place = _place(error, document)
    value, kind, context = error["input"], error["type"], error.get("ctx", {})
    said = f"{_short(json.dumps(value, default=str, ensure_ascii=False))} "
    match kind:
        case "missing":
            return place, "is missing: add it"
        case "extra_forbidden":
            return place, _unknown(model, error["loc"])
        case "union_tag_not_found":
            return place, f"{context['discriminator'].strip(chr(39))} is missing: add it"
        case "union_tag_invalid":
            key = context["discriminator"].strip("'")
            known = re.findall(r"'([^']*)'", context["expected_tags"])
            return (*place, key), (
                f"'{context['tag']}' is unknown: choose one of {context['expected_tags']}"
                f"{did_you_mean(context['tag'], known)}"
            )
        case "literal_error" | "enum":
            known = re.findall(r"'([^']*)'", context["expected"])
            hint = did_you_mean(value, known) if isinstance(value, str) else ""
            return place, f"{said}is unknown: choose one of {context['expected']}{hint}"
        case "value_error":
            return place, str(context["error"])
        case "string_pattern_mismatch":
            return place, f"{said}does not fit the pattern {context['pattern']}"
    return place, f"{said}is not allowed: {_remedy(error)}"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"


def _place(error: Any, document: Any) -> Place:
    """The path in the document: pydantic also names the branch of a choice, which no key is. Only
    a key that is missing is in no document."""
    place: Place = ()
    loc, absent = error["loc"], error["type"] == "missing"
    for number, part in enumerate(loc):
        known = (isinstance(document, dict) and part in document) or (
            isinstance(document, list) and isinstance(part, int) and part < len(document)
        )
        if known:
            document = document[part]
        elif number < len(loc) - 1 or not absent:
            continue
        place = (*place, part)
    return place


def _unknown(model: type[BaseModel], loc: Place) -> str:
    """What might have been meant: a key of the same table before those of others."""
    schema = _schema(model)
    own = difflib.get_close_matches(str(loc[-1]), _table(schema, loc[:-1]), n=1)
    if own:
        return f"is unknown: did you mean '{own[0]}'?"
    keys = sorted(_fields(schema))
    if loc[-1] in keys:
        return "belongs into another table, or to another choice than this one: remove it"
    close = difflib.get_close_matches(str(loc[-1]), keys, n=1)
    return f"is unknown: did you mean '{close[0]}'?" if close else "is unknown: remove it"


@lru_cache(maxsize=8)
def _schema(model: type[BaseModel]) -> dict[str, Any]:
    return model.model_json_schema()


def _table(schema: dict[str, Any], loc: Place) -> list[str]:
    """The keys of the table at a place, which names the branch of every choice; none where the
    schema does not lead there."""
    here: Any = schema
    for part in loc:
        here = _resolved(schema, here)
        if isinstance(part, int):
            here = here.get("items", {})
        elif part in here.get("properties", {}):
            here = here["properties"][part]
        elif part in (branches := here.get("discriminator", {}).get("mapping", {})):
            here = {"$ref": branches[part]}
        else:
            here = here.get("additionalProperties") or {}
    return sorted(_resolved(schema, here).get("properties", ()))


def _resolved(schema: dict[str, Any], here: Any) -> Any:
    """What a reference, or a table that may be left out, stands for."""
    if not isinstance(here, dict):
        return {}
    given = [one for one in here.get("anyOf", ()) if one.get("type") != "null"]
    here = given[0] if len(given) == 1 else here
    return schema["$defs"][here["$ref"].rpartition("/")[2]] if "$ref" in here else here


def _fields(schema: Any) -> set[str]:
    found = set(schema.get("properties", ()))
    return found.union(*(_fields(inner) for inner in schema.get("$defs", {}).values()))


__all__ = ["NAME", "TODO", "Fault", "Place", "Source", "parse", "read", "toml_document"]
