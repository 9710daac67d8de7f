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
`test_estimators.py`, lie beside it in `tests`. What was corrected also runs as it was printed, at
its true cost: [as printed, and corrected](printed-and-corrected.md) compares the two.

Of {total} errata {serious} touch privacy. The others cost accuracy or a reader's time, or are
claims that hold and only needed a condition or a constant; they have tables of their own.

*This page is written by `python tests/errata/write_page.py` from `tests/errata/registry.py`; a test
fails when it is out of date.*
"""
TABLE = ("| id | what is wrong | what we do instead, and the test |", "|---|---|---|")


def page(entries, sources, at_stake):
    """The page as one string: for each source what touches privacy, then the rest."""
    parts = [HEAD.format(total=len(entries), serious=len(at_stake))]
    for prefix, title in sources.items():
        own = [entry for entry in entries if entry.id.rpartition("-")[0] == prefix]
        own.sort(key=lambda entry: int(entry.id.rpartition("-")[2]))
        rest = [entry for entry in own if entry.id not in at_stake]
        parts += [f"\n## {title}\n", *TABLE]
        parts += [row(entry) for entry in own if entry.id in at_stake]
        if rest:
            parts += ["\nNo privacy is lost by these:\n", *TABLE, *map(row, rest)]
    return "\n".join(parts) + "\n"


def row(entry):
    """One line of the table, with an anchor so that other pages can point to it."""
    shown = entry.instead + (f" *Still to come: {entry.coming}.*" if entry.coming else "")
    if entry.pending is None:
        names = (*entry.tests, *entry.elsewhere)
        tests = "<br>".join(f"`{name.replace('::', '` `')}`" for name in names)
    else:
        tests = f"pending: {entry.pending.reason} (comes with {entry.pending.capability})"
    wrong = f"*{entry.where}.* **{entry.severity[0].upper()}{entry.severity[1:]}.** {entry.claim}"
    head = f'<a id="{entry.id}"></a>**{entry.id}**'
    cells = (head, wrong, f"{shown}<br><small>{tests}</small>")
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


if __name__ == "__main__":
    registry = runpy.run_path(str(HERE / "registry.py"))
    text = page(registry["ENTRIES"], registry["SOURCES"], registry["AT_STAKE"])
    PAGE.write_text(text, encoding="utf-8")
