"""The README's Python runs, and names what the project has."""

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(), re.S)


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_code_runs(block, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(compile(block, "README", "exec"), {})
    assert "epsilon" in capsys.readouterr().out


def test_public_names_exist_and_are_pinned():
    import unisono

    for name in unisono.__all__:
        assert getattr(unisono, name) is not None
    assert set(unisono.__all__) == {
        "ACCOUNTANT", "Algorithm", "Answer", "Budget", "ClippedValues", "Composed",
        "DiscreteGaussian", "Event", "Everyone", "Facts", "FreshBudgetWarning", "Gaussian",
        "Laplace", "LargeDeltaWarning", "Ledger", "MECHANISMS", "NoNoise", "NormNoise", "Party",
        "Poisson", "Policy", "PredictableNoiseWarning", "Privacy", "PrivacyCurve", "PrivacyWarning",
        "Private", "RandomizedResponse", "Relation", "Result", "Selection", "Sensitivity",
        "Skellam", "Study", "Trust", "Unit", "Viewer", "WithoutReplacement", "__version__",
        "bounded_sum",
        "clipped_sum", "count", "histogram", "ledger_for", "mean", "open_ledger", "total", "verify",
    }  # fmt: skip
    with pytest.raises(AttributeError, match="no attribute"):
        unisono.nothing  # noqa: B018
