"""Every Python block of the documentation runs."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
# Blocks that take seconds each to compile; others of the same kind stay.
SLOW = {"bayesian": {1, 2}, "networks": {0, 2, 3, 4, 5}}
BLOCKS = [
    pytest.param(
        block,
        id=f"{page.stem}-{number}",
        marks=[pytest.mark.slow] if number in SLOW.get(page.stem, ()) else [],
    )
    for page in sorted(DOCS.glob("*.md"))
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.S))
]


@pytest.mark.parametrize("block", BLOCKS)
def test_code_runs(block, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "docs", "exec"), {})
    assert capsys.readouterr().out


def test_pages_link_to_pages_that_exist():
    for page in DOCS.glob("*.md"):
        for target in re.findall(r"\]\(([\w-]+\.md)", page.read_text()):
            assert (DOCS / target).exists(), f"{page.name} links to {target}"
