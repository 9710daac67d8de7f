"""Modules that docstrings name exist."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

import unisono

SOURCE = Path(unisono.__file__).parent
PACKAGES = {path.name for path in SOURCE.iterdir() if (path / "__init__.py").exists()}
# `package.module`, and `package.module.name`; what a user calls begins with the package's name.
_PATH = re.compile(r"``?((?:unisono\.)?[a-z_]\w*(?:\.\w+)+)(?:\([^`]*\))?``?")
# Attributes of objects that are named like one of our packages.
_OBJECTS = {"data.person", "data.columns", "data.private", "data.unlisted", "data.sizes"}


def texts(source):
    """Docstrings and comments of a module."""
    if not _PATH.search(source):
        return  # most of them, which need not be parsed
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""
    yield from re.findall(r"#.*", source)


def named(source):
    """Paths that look like modules of ours."""
    for text in texts(source):
        for path in _PATH.findall(text):
            first = path.removeprefix("unisono.").partition(".")[0]
            if first in PACKAGES and path not in _OBJECTS:
                yield path.removeprefix("unisono.")


@cache
def resolves(path):
    """Whether a path is a module, or a name inside one."""
    parts = path.split(".")
    for depth in range(len(parts), 0, -1):
        place = SOURCE.joinpath(*parts[:depth])
        file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
        if file.is_file():
            text = file.read_text(encoding="utf-8")
            return depth == len(parts) or re.search(rf"\b{parts[depth]}\b", text) is not None
    return False


def test_modules_that_docstrings_name_exist():
    found = {
        (file.relative_to(SOURCE).as_posix(), path)
        for file in SOURCE.rglob("*.py")
        for path in named(file.read_text(encoding="utf-8"))
    }
    assert len(found) > 20  # it looks
    assert sorted(one for one in found if not resolves(one[1])) == []


@pytest.mark.parametrize(
    ("text", "there"),
    [
        ("`accounting.translate`", False),
        ("`core.kinds`", True),
        ("`core.journal.Journal`", True),
        ("`unisono.core.journal.Joumal`", False),
        ("``accounting.pld.compose``", True),
    ],
)
def test_the_search_notices_what_is_missing(text, there):
    [path] = named(f'"""See {text}."""')
    assert bool(resolves(path)) is there
