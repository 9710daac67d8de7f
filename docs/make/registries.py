"""The tables of models and algorithms in docs/studies.md, written from the two registries.

    python docs/make/registries.py        after a change of a model or an algorithm

A test fails while the page says something else. Plugins that happen to be installed stay out.
"""

import json
import re
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from unisono.algorithms import registry as algorithms
from unisono.models import registry as models
from unisono.releases.algorithm import AlgorithmKind
from unisono.studies.schema import ALGORITHM_SECTIONS, MODEL_SECTIONS

PAGE = Path(__file__).parents[1] / "studies.md"
BEGIN, END = "<!-- {}: written by docs/make/registries.py -->", "<!-- end of {} -->"


def tables() -> dict[str, str]:
    """Each generated part of the page by its name."""
    own = [kind.name for kind in algorithms.OWN]
    return {
        "models": _models(),
        "model settings": _meanings({kind.name: MODEL_SECTIONS[kind.name] for kind in models.OWN}),
        "algorithms": _algorithms(),
        "algorithm settings": _meanings({name: ALGORITHM_SECTIONS[name] for name in own}),
    }


def written(page: str) -> str:
    """The page with every generated part as it should be."""
    for name, table in tables().items():
        begin, end = BEGIN.format(name), END.format(name)
        inside = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.S)
        if not inside.search(page):
            raise ValueError(f"the page has no place for {name}: add {begin} and {end}")
        page = inside.sub(lambda _, new=f"{begin}\n{table}\n{end}": new, page)
    return page


def _models() -> str:
    own = [kind.name for kind in algorithms.OWN]
    rows = [
        (
            f"`{kind.name}`",
            kind.summary,
            str(kind.target),
            _settings(MODEL_SECTIONS[kind.name]),
            ", ".join(f"`{one.name}`" for one in models.algorithms_for(kind) if one.name in own),
        )
        for kind in models.OWN
    ]
    return _table(("`[model] name`", "what is learnt", "target", "settings", "algorithms"), rows)


def _algorithms() -> str:
    rows = [
        (
            f"`{kind.name}`",
            kind.summary,
            " or ".join(kind.units),
            _trusts(kind),
            _settings(ALGORITHM_SECTIONS[kind.name]),
        )
        for kind in algorithms.OWN
    ]
    return _table(("`[algorithm] name`", "how it is learnt", "hides a", "trust", "settings"), rows)


def _trusts(kind: AlgorithmKind) -> str:
    return "any" if len(kind.trusts) == 3 else ", ".join(f"`{one}`" for one in sorted(kind.trusts))


def _settings(section: Any) -> str:
    """Names with their defaults in brackets; required ones are bold."""
    shown = []
    for name, info in section.model_fields.items():
        if name == "name":
            continue
        default = None if info.is_required() else _toml(info.get_default(call_default_factory=True))
        word = f"**`{name}`**" if info.is_required() else f"`{name}`"
        shown.append(word if default is None else f"{word} [{default}]")
    return ", ".join(shown) or "none"


def _toml(value: Any) -> str | None:
    """A default as a study file would say it; None where a rule fills it in."""
    if value is None:
        return None
    if is_dataclass(value) and not isinstance(value, type):
        usual = type(value)()
        other = {
            one.name: getattr(value, one.name)
            for one in fields(value)
            if getattr(value, one.name) != getattr(usual, one.name)
        }
        return "{" + ", ".join(f"{name} = {_toml(one)}" for name, one in other.items()) + "}"
    return json.dumps(value)


def _meanings(sections: dict[str, Any]) -> str:
    """Every setting once for each meaning that it has, with those who have it."""
    found: dict[tuple[str, str], list[str]] = {}
    for owner, section in sections.items():
        for name, info in section.model_fields.items():
            if name != "name":
                meaning = f"{info.description}{_keys(info)}"
                found.setdefault((name, meaning), []).append(owner)
    rows = [
        (f"`{name}`", meaning, ", ".join(f"`{owner}`" for owner in owners))
        for (name, meaning), owners in sorted(found.items())
    ]
    return _table(("setting", "meaning", "of"), rows)


def _keys(info: Any) -> str:
    """The keys of a setting that is a table of its own, with their defaults."""
    default = None if info.is_required() else info.get_default(call_default_factory=True)
    if not is_dataclass(default):
        return ""
    usual = type(default)()
    said = [(one.name, _toml(getattr(usual, one.name))) for one in fields(usual)]
    keys = ", ".join(f"`{name}`" + (f" [{value}]" if value else "") for name, value in said)
    return f" Keys: {keys}."


def _table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    first, *others = ("| " + " | ".join(line) + " |" for line in (header, *rows))
    return "\n".join([first, "|" + "---|" * len(header), *others])


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
