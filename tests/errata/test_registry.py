"""The registry is complete and true: an id without a test, or a test without an id, fails here."""

import ast
import os
import re
import runpy
from collections import Counter
from pathlib import Path

import pytest

HERE = Path(__file__).parent
REGISTRY = runpy.run_path(str(HERE / "registry.py"))
WRITER = runpy.run_path(str(HERE / "write_page.py"))
ENTRIES, REQUIRED, SOURCES = REGISTRY["ENTRIES"], REGISTRY["REQUIRED"], REGISTRY["SOURCES"]
Entry, Pending = REGISTRY["Entry"], REGISTRY["Pending"]
AT_STAKE = REGISTRY["AT_STAKE"]
SERIOUS = {REGISTRY[name] for name in ("FALSE", "CONDITION", "UNCLEAR", "ENGINEERING")}


def collectable():
    """Docstrings of all test functions in this folder, by "file::function"."""
    found = {}
    for path in sorted(HERE.glob("test_*.py")):
        if path.name == Path(__file__).name:
            continue
        for node in functions(path):
            name = f"{path.name}::{node.name}"
            assert name not in found, f"{name} is defined twice, so one is never run"
            found[name] = ast.get_docstring(node) or ""
    return found


def functions(path):
    """All test functions of one file."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    return [n for n in body if isinstance(n, ast.FunctionDef) and n.name.startswith("test_")]


def exists(name):
    """Whether "folder/file::function" is a test of this project."""
    file, _, function = name.partition("::")
    path = HERE.parent / file
    return path.exists() and [node.name for node in functions(path)].count(function) == 1


def problems(entries, required, tests):
    """Everything that is wrong with a registry, in words."""
    counts = Counter(entry.id for entry in entries)
    found = [f"{name} is required but not registered" for name in required if not counts[name]]
    found += [f"{name} is registered {times} times" for name, times in counts.items() if times > 1]
    for entry in entries:
        if entry.id not in required:
            found.append(f"{entry.id} is registered but not required")
        if bool(entry.tests) == (entry.pending is not None):
            found.append(f"{entry.id} needs tests or a reason why it has none, and not both")
        if entry.pending is not None and (
            len(entry.pending.reason.split()) < 6 or not entry.pending.capability.strip()
        ):
            found.append(f"{entry.id} is pending without a reason of substance and a capability")
        if min(len(text) for text in (entry.where, entry.claim, entry.instead)) < 6:
            found.append(f"{entry.id} does not say where, what is wrong and what holds instead")
        for name in entry.tests:
            if name not in tests:
                found.append(f"{entry.id} names {name}, which does not exist")
            elif not tests[name].startswith(f"{entry.id}: "):
                found.append(f"the docstring of {name} does not begin with {entry.id}")
        found += [
            f"{entry.id} names {name}, which does not exist"
            for name in entry.elsewhere
            if not exists(name)
        ]
    named = {name for entry in entries for name in entry.tests}
    return found + [f"{name} is not registered" for name in tests if name not in named]


def test_every_required_id_has_its_tests():
    assert problems(ENTRIES, REQUIRED, collectable()) == []


def test_required_ids_are_known_and_distinct():
    assert len(set(REQUIRED)) == len(REQUIRED) == 81
    assert {name.rpartition("-")[0] for name in REQUIRED} == set(SOURCES)


def test_what_touches_privacy_is_called_so():
    """And nothing else is; each of these has a test in this folder, not only elsewhere."""
    serious = {entry.id for entry in ENTRIES if entry.severity in SERIOUS}
    assert serious == set(AT_STAKE)
    assert len(AT_STAKE) == 41
    assert all(entry.tests for entry in ENTRIES if entry.id in AT_STAKE)


def test_the_ids_are_those_of_the_theory():
    """The list frozen above against the documents themselves, where they are at hand.

    `UNISONO_THEORY` names the folder with ERRATA.md and INVENTORY.md.
    """
    folder = os.environ.get("UNISONO_THEORY")
    if not folder:
        pytest.skip("UNISONO_THEORY does not name the folder of the theory documents")
    errata, inventory = (
        (Path(folder) / name).read_text(encoding="utf-8") for name in ("ERRATA.md", "INVENTORY.md")
    )
    pattern = r"\b(E00\d-\d+|X-\d+)\b"
    assert set(re.findall(pattern, errata)) == {name for name in REQUIRED if name[0] != "I"}
    assert set(re.findall(pattern, inventory)) <= set(REQUIRED)
    heads = r"^\W*(E00\d-\d+)\b([^\n]*)"  # an id at the head of its own line, with its marks
    marked = {
        name for name, line in re.findall(heads, errata, re.M) if re.search(r"\[[TU/]*P\??\]", line)
    }
    assert marked | {name for name in REQUIRED if name[0] in "XI"} == set(AT_STAKE)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"id": "E999-1"}, "E000-2 is required but not registered"),
        ({"id": "E000-3"}, "E000-3 is registered 2 times"),
        ({"tests": ("test_000.py::test_nothing",)}, "does not exist"),
        ({"elsewhere": ("algorithms/test_pvi.py::test_nothing",)}, "does not exist"),
        ({"elsewhere": ("algorithms/test_nothing.py::test_nothing",)}, "does not exist"),
        ({"tests": ("test_001.py::test_a_thousand_randomized_responses",)}, "does not begin with"),
        ({"tests": ()}, "is not registered"),
        ({"tests": ()}, "needs tests or a reason"),
        ({"pending": Pending("the reason is long enough to be read", "x")}, "and not both"),
        ({"tests": (), "pending": Pending("later", "x")}, "without a reason of substance"),
        ({"claim": ""}, "does not say where"),
    ],
)
def test_a_faulty_registry_is_noticed(change, complaint):
    faulty = (ENTRIES[0]._replace(**change), *ENTRIES[1:])
    assert any(complaint in problem for problem in problems(faulty, REQUIRED, collectable()))


def test_a_pending_id_with_its_reason_is_accepted():
    reason = Pending("no solver exists yet whose tolerance could be missed", "convex learning")
    entries = (ENTRIES[0]._replace(tests=(), pending=reason), *ENTRIES[1:])
    kept = {name: text for name, text in collectable().items() if not text.startswith("E000-2:")}
    assert problems(entries, REQUIRED, kept) == []


def test_the_page_is_up_to_date():
    """Run `python tests/errata/write_page.py` after changing the registry."""
    written = WRITER["PAGE"].read_text(encoding="utf-8")
    assert written == WRITER["page"](ENTRIES, SOURCES, AT_STAKE)
    for name in REQUIRED:
        assert f'\n| <a id="{name}"></a>**{name}** | ' in written
