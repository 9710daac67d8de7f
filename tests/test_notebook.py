"""The notebook of the examples, run from its first cell to its last, with what every cell shows.

A kernel is not needed: cells run one after another in one namespace, and the last expression of a
cell is shown as notebooks show it, by `_repr_mimebundle_`, `_repr_html_` or `repr`.
"""

import ast
import json
import re
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[1] / "examples" / "notebook" / "readmission.ipynb"
# What has to be in what a cell shows, by a line of the cell.
SHOWN = {
    "unisono.mean(": ["mean of age", "95% interval", "epsilon = 0.3"],
    "unisono.quantile(": ["0.25", "0.75", "<circle"],
    "unisono.histogram(": ["usual", "calls", "<circle"],
    "book": ["Ledger of patients", "of 4"],
    "unisono.table_one(": ["age, median [quartiles]", "Guarantee"],
    "model": ["PrivateLogisticRegression"],
    "model.fit(": ["intercept", "Certificate"],
    "model.certificate_": [
        "the server and 1 party working together",
        "each of 3 parties, such as Aalborg",
    ],
    "unisono.evaluate(": ["AUC", "calibration slope"],
    "loaded": ["Promise: epsilon"],
    "{": ["'back?': ['yes', 'no']"],
    'ledgers["Bergen"]': ["Ledger of Bergen"],
}


def cells():
    document = json.loads(NOTEBOOK.read_text("utf-8"))
    assert (document["nbformat"], document["nbformat_minor"]) == (4, 5)
    ids = [cell["id"] for cell in document["cells"]]
    assert len(set(ids)) == len(ids)
    for cell in document["cells"]:
        assert cell["cell_type"] in ("code", "markdown")
        assert cell.get("outputs", []) == []  # what a cell shows is what it shows today
    return ["".join(c["source"]) for c in document["cells"] if c["cell_type"] == "code"]


def displayed(value):
    """As a notebook's front end chooses; text where there is no HTML."""
    if value is None:
        return ""
    if hasattr(value, "_repr_mimebundle_"):
        bundle = value._repr_mimebundle_()
        return bundle.get("text/html", bundle["text/plain"])
    if hasattr(value, "_repr_html_"):
        return value._repr_html_()
    return repr(value)


def run(source, names):
    """The value of a cell's last expression, or None."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, str(NOTEBOOK), "exec"), names)
    if last is None:
        return None
    return eval(compile(ast.Expression(last.value), str(NOTEBOOK), "eval"), names)


@pytest.mark.filterwarnings("error")  # a newcomer is warned of nothing
def test_the_notebook_runs_and_shows_what_it_says(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    names, seen = {"__name__": "__main__"}, set()
    for source in cells():
        page = displayed(run(source, names))
        last = ast.get_source_segment(source, ast.parse(source).body[-1])
        for line, wanted in SHOWN.items():
            if last == line or (line.endswith(("(", "{")) and last.startswith(line)):
                seen.add(line)
                missing = [words for words in wanted if words not in page]
                assert not missing, (line, missing, re.sub("<[^>]*>", " ", page)[-800:])
    assert seen == set(SHOWN)
    assert "Budget exceeded for" in capsys.readouterr().out
