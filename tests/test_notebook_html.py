"""What objects show of themselves in notebooks: escaped, scoped, silent, light and dark."""

import re
import warnings
from html.parser import HTMLParser

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import unisono
from unisono.core import notebook
from unisono.core.trust import FINAL_MODEL
from unisono.core.words import remaining
from unisono.estimators import (
    BayesianLinearRegression,
    BayesianLogisticRegression,
    PrivateClassifier,
    PrivateGLM,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateRegressor,
    PrivateRidge,
)

DRAW = np.random.default_rng(0)
X = DRAW.normal(size=(600, 2)).clip(-3, 3)
LABELS = np.where(X[:, 0] + DRAW.normal(size=600) > 0, "<ill>", "well")
NUMBERS = np.clip(X[:, 0] + DRAW.normal(size=600), -5, 5)
STRANGE = "<script>alert(1)</script>"
ESTIMATORS = [
    BayesianLinearRegression,
    BayesianLogisticRegression,
    PrivateClassifier,
    PrivateGLM,
    PrivateLinearSVC,
    PrivateLogisticRegression,
    PrivateRegressor,
    PrivateRidge,
]
VOID = {"line", "circle", "rect", "polygon", "polyline"}


class _Balanced(HTMLParser):
    """Tags that are open; refuses what is closed in the wrong order, and whatever could run."""

    def __init__(self):
        super().__init__()
        self.open = []
        self.words = []

    def handle_starttag(self, tag, attrs):
        assert tag not in ("script", "iframe", "link", "img", "ill"), tag
        assert not any(name.startswith("on") or name in ("src", "href") for name, _ in attrs)
        self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        assert tag in VOID

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def words_of(page):
    """The text of a page that is sound."""
    reader = _Balanced()
    reader.feed(page)
    reader.close()
    assert reader.open == []
    for rules in re.findall(r"<style>(.*?)</style>", page, re.S):
        selectors = re.findall(r"([^{}]+)\{[^{}]*\}", re.sub(r"@media\([^)]*\)\{", "", rules))
        for own in (one for group in selectors for one in group.split(",")):
            assert ".unisono" in own or ".table-one" in own, own  # nothing else in the page
    return " ".join(reader.words)


def ledger(dataset=STRANGE, **options):
    policy = unisono.Policy(dataset, unisono.Budget(50.0, 1e-5))
    return unisono.Ledger.in_memory(policy, unisono.ACCOUNTANT, seed=1, **options)


@pytest.fixture(scope="module", autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", unisono.PredictableNoiseWarning)
        yield


def test_answers_are_shown_with_intervals_and_what_they_cost():
    book = ledger()
    names = ["flu", STRANGE]
    page = unisono.histogram(
        DRAW.choice(names, 500), names, epsilon=1.0, ledger=book, name=STRANGE
    )._repr_html_()
    said = words_of(page)
    assert STRANGE in said
    assert "epsilon = 1" in said
    assert "SIMULATION" in said
    assert page.count("<circle") == 2
    alone = unisono.mean(NUMBERS, (-5, 5), epsilon=1.0, ledger=book)._repr_html_()
    assert "<circle" not in alone  # an axis of its own would say nothing
    tested = unisono.t_test(
        NUMBERS, LABELS, (-5, 5), between=["<ill>", "well"], epsilon=2.0, delta=1e-6, ledger=book
    )
    assert "Welch" in words_of(tested._repr_html_())
    levels = unisono.quantile(NUMBERS, [0.25, 0.5], (-5, 5), epsilon=2.0, delta=1e-6, ledger=book)
    assert "0.25" in words_of(levels._repr_html_())


def test_a_ledger_shows_what_is_left_and_for_what_it_paid():
    book = ledger()
    assert "Nothing is spent yet" in words_of(book._repr_html_())
    unisono.count(NUMBERS > 0, epsilon=1.5, ledger=book, name="how many")
    said = words_of(book._repr_html_())
    assert STRANGE in said
    left = book.left(FINAL_MODEL)
    assert f"{remaining(left.epsilon)} of 50" in said
    assert "had they been fixed" in said
    assert "how many" in said


def test_a_certificate_and_a_table_one_are_sound():
    book = ledger()
    found = unisono.mean(NUMBERS, (-5, 5), epsilon=1.0, ledger=book)
    said = words_of(found.certificate._repr_html_())
    assert "anyone who sees the final result" in said
    assert "parties disjoint: True" in said
    table = unisono.table_one(
        {"sex": LABELS}, categories={"sex": ["<ill>", "well"]}, epsilon=1.0, ledger=book
    )
    assert "<ill>" in words_of(table._repr_html_())


def test_survival_is_drawn():
    times = DRAW.exponential(10, 800)
    groups = DRAW.choice(["a", "<b>"], 800)
    curves = unisono.KaplanMeier(horizon=20, labels=["a", "<b>"])
    assert curves._repr_html_() is None  # nothing to show: the notebook prints it
    curves.fit(times, None, groups, epsilon=20.0, delta=1e-6, ledger=ledger())
    page = curves._repr_html_()
    assert "Log-rank" in words_of(page)
    assert page.count("<polyline") == 2
    assert "at risk, with noise" in words_of(page)
    left = [own["at_risk"][0] for own in curves.to_json()["groups"].values()]
    assert all(f">{number:.0f}</text>" in page for number in left)


@pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda one: one.__name__)
def test_estimators_are_shown_without_a_warning_before_a_fit(kind):
    model = kind()
    page = model._repr_mimebundle_()["text/html"]  # warnings are errors
    assert "Parameters" in page
    assert 'class="unisono"' not in page
    assert model._repr_html_()
    assert make_pipeline(FunctionTransformer(), model)._repr_html_()


@pytest.mark.parametrize(
    ("model", "y", "found"),
    [
        (PrivateLinearSVC(classes=["<ill>", "well"], rounds=3), LABELS, "intercept"),
        (PrivateRidge(target_bounds=(-5, 5), algorithm="adaptive-statistics"), NUMBERS, "x1"),
        (
            BayesianLinearRegression(target_bounds=(-5, 5), algorithm="one-shot-regression"),
            NUMBERS,
            "chance to be above 0",
        ),
    ],
    ids=["weights", "ridge", "posterior"],
)
def test_fitted_estimators_show_what_was_found_and_promised(model, y, found, tmp_path):
    model.set_params(epsilon=20.0, bounds=(-3, 3), random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y)
    page = model._repr_mimebundle_()["text/html"]
    said = words_of(page[page.index('<div class="unisono">') :])
    assert found in said
    assert "Certificate" in said
    assert said.count("SIMULATION") == 1
    model.save(tmp_path)
    assert "epsilon" in words_of(unisono.load(tmp_path)._repr_html_())


def test_themes_are_told_apart_and_text_has_the_colour_of_its_surroundings():
    style = str(notebook.STYLE)
    for theme in ('data-jp-theme-light="false"', ".vscode-dark", "prefers-color-scheme:dark"):
        assert theme in style
    assert "color:inherit" in style
    assert not re.search(r"(?<![-\w])color:#", style)
