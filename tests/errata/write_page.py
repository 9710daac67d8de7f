"""Write docs/errata.md from the registry: `python tests/errata/write_page.py`."""

import runpy
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "errata.md"

HEAD = """\
# What the literature got wrong, with the tests that show it

Unisono was built from five public documents. Several formulas in them promise more privacy than
they give, and several ways of programming a correct formula make it false. Each line below says
where, what is wrong, what Unisono does instead, and which test shows the published version fail
and ours hold. Run them all with `pytest tests/errata`; tests named with a folder, and
`test_estimators.py`, lie beside it in `tests`.

*This page is written by `python tests/errata/write_page.py` from `tests/errata/registry.py`; a test
fails when it is out of date.*
"""


def page(entries, sources):
    """The page as one string: a table for each source."""
    parts = [HEAD]
    for prefix, title in sources.items():
        parts.append(f"\n## {title}\n")
        parts.append("| id | where | what is wrong | what we do instead | test |")
        parts.append("|---|---|---|---|---|")
        parts += [row(entry) for entry in entries if entry.id.rpartition("-")[0] == prefix]
    return "\n".join(parts) + "\n"


def row(entry):
    """One line of the table."""
    shown = entry.instead + (f" *Still to come: {entry.coming}.*" if entry.coming else "")
    if entry.pending is None:
        names = (*entry.tests, *entry.elsewhere)
        tests = "<br>".join(f"`{name.replace('::', '` `')}`" for name in names)
    else:
        tests = f"pending: {entry.pending.reason} (comes with {entry.pending.capability})"
    cells = (entry.id, entry.where, f"**{entry.severity}.** {entry.claim}", shown, tests)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


if __name__ == "__main__":
    registry = runpy.run_path(str(HERE / "registry.py"))
    PAGE.write_text(page(registry["ENTRIES"], registry["SOURCES"]), encoding="utf-8")
