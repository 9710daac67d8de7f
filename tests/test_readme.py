"""The README's Python runs, and names what the project has; so do the files beside it."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
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
        "ACCOUNTANT",
        "Algorithm",
        "Budget",
        "ClippedValues",
        "Composed",
        "ConcordanceIndex",
        "concordance",
        "DiscreteGaussian",
        "Estimate",
        "Evaluation",
        "evaluate",
        "Event",
        "Everyone",
        "Facts",
        "FittedModel",
        "HazardRatios",
        "KaplanMeier",
        "FreshBudgetWarning",
        "Gaussian",
        "HypothesisTest",
        "Laplace",
        "LargeDeltaWarning",
        "Ledger",
        "MECHANISMS",
        "NoNoise",
        "NormNoise",
        "Party",
        "Poisson",
        "Policy",
        "PredictableNoiseWarning",
        "Privacy",
        "PrivacyCurve",
        "PrivacyWarning",
        "Private",
        "PrivateGLM",
        "PrivateScaler",
        "PrivateSearch",
        "RandomizedResponse",
        "Relation",
        "Result",
        "Selection",
        "Sensitivity",
        "Skellam",
        "Study",
        "Trust",
        "Unit",
        "Viewer",
        "WithoutReplacement",
        "__version__",
        "bounded_sum",
        "chi_square",
        "clipped_sum",
        "count",
        "fisher",
        "histogram",
        "ledger_for",
        "mean",
        "median",
        "median_test",
        "open_ledger",
        "proportion_test",
        "quantile",
        "std",
        "t_test",
        "load",
        "table_one",
        "total",
        "variance",
        "verify",
    }
    with pytest.raises(AttributeError, match="no attribute"):
        unisono.nothing  # noqa: B018


@pytest.mark.parametrize(
    "page", ["README.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md"]
)
def test_links_and_pictures_are_there(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    for words, target in re.findall(r"\[([^\]]*)\]\(([\w./-]+)\)", text):
        assert (ROOT / target).exists(), f"{page} links to {target}"
        if target.endswith(".png"):
            assert len(words.split()) >= 8, f"{words!r} describes no picture"
            assert (ROOT / target).stat().st_size < 300_000


def test_every_benchmark_that_is_cited_exists():
    for script in re.findall(r"`python (benchmarks/\w+\.py)", README.read_text(encoding="utf-8")):
        assert (ROOT / script).exists()


def test_the_first_paragraph_is_in_the_words_of_the_field():
    first = README.read_text(encoding="utf-8").partition("```")[0]
    for word in (
        "federated learning",
        "differential privacy",
        "Secure\naggregation",
        "privacy budget",
        "user-level privacy",
        "membership inference",
    ):
        assert word in first


def test_the_lock_file_names_versions_only():
    """No path, host or editable install; and everything that `pip install` needs is in it."""
    lines = (ROOT / "requirements-lock.txt").read_text().split()
    assert all(re.fullmatch(r"[\w.-]+==[\w.!+]+", line) for line in lines)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    locked = {line.partition("==")[0].lower().replace("_", "-") for line in lines}
    needed = {re.match(r"[\w-]+", line)[0].lower() for line in project["dependencies"]}
    assert needed <= locked


def test_the_version_is_the_same_wherever_it_is_said():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"version: {version}\n" in (ROOT / "CITATION.cff").read_text()


def test_ci_runs_what_anybody_can_run():
    assert "run: bash .ci/run\n" in (ROOT / ".github" / "workflows" / "ci.yml").read_text()
