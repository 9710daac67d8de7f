"""The success probability of the best attack: every medium states it by one function, and a
simulated optimal attacker never exceeds it, under any neighboring relation, for any unit."""

import ast
import functools
import html
import math
import re
import warnings
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import unisono
from unisono import ACCOUNTANT, Budget, Ledger, Policy
from unisono.algorithms.estimates import Estimate
from unisono.cli import answers
from unisono.cli.inputs import MechanismName, TypedQuestion
from unisono.cli.ledger_text import policy_words
from unisono.core.certificate import Certificate, Line
from unisono.core.events import Event, Gaussian, Laplace
from unisono.core.sensitivity import Sensitivity, bounded_sum
from unisono.core.success import PHRASE, attack_success, budget_success, neighbors_label
from unisono.core.trust import EVERYONE, Relation, Trust, Unit
from unisono.exports import statement
from unisono.reports.reading import RunReading
from unisono.reports.summary import _promise, split
from unisono.studies import explain

SOURCE = Path(unisono.__file__).parent
DRAWS = 200_000
MARGIN = 4 * math.sqrt(0.25 / DRAWS)  # one false alarm in 30,000 comparisons
LAWS = {
    "gaussian": (Gaussian(1.0), 1e-3),
    "little gaussian noise": (Gaussian(0.4), 1e-3),
    "laplace": (Laplace(1.0), 0.0),
    "laplace at delta > 0": (Laplace(0.7), 1e-2),
}


@dataclass(frozen=True)
class Case:
    """A release of which each unit adds between -1 and 1 to a sum, and its certificate."""

    law: Gaussian | Laplace
    delta: float
    relation: Relation
    unit: Unit
    alone: bool  # whether nothing is known under the other relations

    @functools.cached_property
    def history(self):
        whole = bounded_sum(l1=1.0, l2=1.0, unit=self.unit)
        if self.alone:
            name = self.relation.replace("-", "_")
            whole = Sensitivity(self.unit, **{name: getattr(whole, name)})
        return Event(self.law, whole) * 1

    @functools.cached_property
    def lines(self):
        return [
            Line(
                viewer,
                relation,
                ACCOUNTANT.epsilon(self.history, relation, self.delta),
                self.delta,
                ACCOUNTANT.guess(self.history, relation, self.delta),
            )
            for viewer in EVERYONE
            for relation in self.history.relations
        ]

    @functools.cached_property
    def epsilon(self):
        return ACCOUNTANT.epsilon(self.history, self.relation, self.delta)

    @functools.cached_property
    def certificate(self):
        privacy = {"relation": str(self.relation), "delta": self.delta, "epsilon": self.epsilon}
        return Certificate(
            study="0" * 64,
            algorithm="sum",
            settings={"privacy": privacy},
            trust=Trust.LOCAL,
            parties=1,
            minimum_parties=1,
            colluders=0,
            unit=str(self.unit),
            events=dict.fromkeys(EVERYONE, self.history),
            lines=self.lines,
            spending=[],
            declarations={},
            simulated=False,
            heads={},
            secure_sum="",
            versions={},
        )


CASES = [
    pytest.param(
        Case(law, delta, relation, unit, alone), id=f"{name}, {relation}, {unit}, {alone=}"
    )
    for name, (law, delta) in LAWS.items()
    for relation in Relation
    for unit in Unit
    for alone in (False, True)
]


# ------------------------------------------------------------- the attacker


def _noise(law, generator):
    if isinstance(law, Gaussian):
        return generator.normal(0.0, law.std, DRAWS)
    return generator.laplace(0.0, law.scale, DRAWS)


@functools.cache
def attacked(law, distance):
    """How often the likelihood ratio names the right one of two worlds that lie `distance` apart:
    for symmetric, log-concave noise it compares with the middle between them."""
    generator = np.random.default_rng(5)
    lower, upper = _noise(law, generator), distance + _noise(law, generator)
    return (np.mean(lower < distance / 2) + np.mean(upper > distance / 2)) / 2


def measured(case):
    """By question: whether the unit took part (its value is 1, or none), and which of the values
    1 and -1 it has."""
    return {"whether": attacked(case.law, 1.0), "which": attacked(case.law, 2.0)}


# ------------------------------------------------------------- the media


def estimate(case):
    return Estimate("sum", 0.0, (0.0, 0.0), 0.95, "", case.certificate)


def card(case):
    model = SimpleNamespace(certificate=case.certificate.to_json(), simulated=False)
    return next(iter(own for own in statement._privacy(model) if _when(case) in own))


def _when(case):
    return statement._RELATIONS[case.relation].format(unit=case.unit)


def report(case):
    heading = SimpleNamespace(state="finished", error="", engine="", simulated=False)
    run = SimpleNamespace(
        study=None, certificate=case.certificate.to_json(), result=None, heading=heading
    )
    reading = RunReading(run)
    return _promise(reading, split(reading)[0])


def check(case):
    privacy = SimpleNamespace(relation=case.relation, unit=case.unit, delta=case.delta)
    worst = {str(viewer): case.epsilon for viewer in EVERYONE}
    costs = [
        explain.ExplainedCost(("a",), one.viewer, one.relation, one.epsilon, one.delta, one.guess)
        for one in case.lines
    ]
    return " ".join(explain._promise(SimpleNamespace(privacy=privacy), worst, costs))


def ledger(case):
    budget = Budget(case.epsilon, case.delta)
    return " ".join(policy_words(Policy("d", budget, (), case.relation, case.unit)))


def privacy_cost(case):
    name = "gaussian" if isinstance(case.law, Gaussian) else "laplace"
    asked = TypedQuestion(MechanismName(name), relation=case.relation, delta=case.delta)
    return answers.cost(asked, case.law.size).success.sentence


# By the module that states it. Whatever imports the function is here: see below.
MEDIA = {
    "core/certificate.py": [
        lambda case: case.certificate.text(),
        lambda case: case.certificate._repr_html_(),
    ],
    "algorithms/estimates.py": [
        lambda case: str(estimate(case)),
        lambda case: estimate(case)._repr_html_(),
    ],
    "exports/statement.py": [card],
    "reports/reading.py": [report],
    "studies/explain.py": [check],
    "cli/ledger_text.py": [ledger],
    "cli/answers.py": [privacy_cost],
}
# They lay out what `reports.reading` states, or name the question of a picture.
LAYOUT = {"reports/summary.py", "reports/guarantees.py", "reports/viewers.py", "cli/plots.py"}


def stated(text):
    """Each question that a text answers, by its first word, and the bound."""
    plain = " ".join(html.unescape(re.sub(r"<[^>]*>", " ", text)).split())
    found = re.findall(r"at most ([\d.]+) % for inferring (whether|which)", plain)
    assert PHRASE in plain
    return {question: float(bound) / 100 for bound, question in found}


@pytest.mark.parametrize("case", CASES)
def test_no_attacker_succeeds_more_often_than_any_medium_states(case):
    truth = measured(case)
    asked = {"which"} if case.relation is Relation.REPLACE_ONE else {"whether", "which"}
    for module, forms in MEDIA.items():
        if module == "cli/answers.py" and case.unit is not Unit.RECORD:
            continue  # it is about records
        for form in forms:
            found = stated(form(case))
            assert set(found) == asked, module
            for question, bound in found.items():
                assert truth[question] <= bound + MARGIN, (module, question)


@pytest.mark.parametrize("case", CASES)
def test_what_is_stated_is_not_far_from_what_an_attacker_reaches(case):
    """Two steps cost little: 4 points for Gaussian noise of which only one relation is known."""
    truth = measured(case)
    for question, bound in stated(str(estimate(case))).items():
        loose = 0.043 if case.alone and question == "which" else 2e-3
        assert bound <= truth[question] + MARGIN + loose


@pytest.mark.parametrize("relation", [Relation.ZERO_OUT, Relation.ADD_OR_REMOVE])
@pytest.mark.parametrize("law", LAWS)
def test_the_measurement_would_notice_the_former_sentence(law, relation):
    """It stated the success of inferring presence as that of inferring which of two it is."""
    case = Case(*LAWS[law], relation, Unit.RECORD, False)
    guess = ACCOUNTANT.guess(case.history, relation, case.delta)
    assert measured(case)["which"] > guess + 5 * MARGIN


@pytest.mark.parametrize("relation", Relation)
def test_real_answers_keep_to_their_sentence(relation):
    """As a user sees it: 800 sums with real noise, told apart at zero."""
    runs = 400

    def answer(value):
        policy = Policy("d", Budget(1.0, 0.0), relation=relation)
        own = Ledger.in_memory(policy, ACCOUNTANT)
        return unisono.total([value, 0.0], (-1, 1), epsilon=1.0, ledger=own)

    right = sum(answer(1.0).value > 0 for _ in range(runs))
    right += sum(answer(-1.0).value < 0 for _ in range(runs))
    bounds = stated(str(answer(1.0)))
    assert right / (2 * runs) <= bounds["which"] + 4 * math.sqrt(0.25 / (2 * runs))
    if relation is not Relation.REPLACE_ONE:  # control: 81.6 % are right, 69.7 % were stated
        assert right / (2 * runs) > bounds["whether"] + 0.05


@pytest.mark.parametrize("relation", Relation)
def test_evaluations_and_tables_say_what_their_certificate_says(relation):
    generator = np.random.default_rng(2)
    X = generator.normal(size=(60, 1))
    y = (X[:, 0] > 0).astype(int)

    class Sign:
        classes_ = np.array([0, 1])

        def predict_proba(self, rows):
            right = (np.asarray(rows)[:, 0] > 0).astype(float)
            return np.stack([1 - right, right], axis=1)

        def predict(self, rows):
            return self.predict_proba(rows).argmax(axis=1)

    def book():
        return Ledger.in_memory(Policy("d", Budget(1.0, 0.0), relation=relation), ACCOUNTANT)

    hidden = relation is Relation.ADD_OR_REMOVE
    sizes, rows = ({"records": 60}, {"nominal_rows": 60}) if hidden else ({}, {})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = [
            unisono.evaluate(Sign(), X, y, epsilon=1.0, ledger=book(), **sizes),
            unisono.table_one(
                {"age": X[:, 0]}, bounds={"age": (-3, 3)}, epsilon=1.0, ledger=book(), **rows
            ),
        ]
    for one in found:
        expected = attack_success(one.certificate.lines, relation, "record")
        for text in (str(one), one._repr_html_()):
            plain = html.unescape(text).casefold()
            assert expected.words.casefold() in plain


# ------------------------------------------------------------- one function


def test_a_budget_is_stated_for_both_questions():
    found = budget_success(1.0, 0.0, Relation.ADD_OR_REMOVE, Unit.RECORD)
    assert found.neighbors == pytest.approx(math.e / (1 + math.e))
    assert found.values == pytest.approx(1 - math.exp(-1) / 2)
    assert budget_success(math.inf, 0.0, Relation.ZERO_OUT, Unit.RECORD).values == 1.0


def test_parties_that_pay_differently_are_stated_by_the_worst():
    def line(relation, epsilon, guess):
        return Line(EVERYONE[0], relation, epsilon, 0.0, guess)

    lines = [
        line(Relation.REPLACE_ONE, 2.0, 0.85),
        line(Relation.ZERO_OUT, 1.0, 0.7),
        line(Relation.REPLACE_ONE, 0.2, 0.55),
        line(Relation.ZERO_OUT, 0.1, 0.52),
    ]
    for order in (lines, lines[::-1]):
        found = attack_success(order, Relation.ZERO_OUT, "record")
        assert (found.neighbors, found.values) == (0.7, pytest.approx(1 - math.exp(-1) / 2))


def test_nothing_is_stated_where_nothing_is_promised():
    line = Line(EVERYONE[0], Relation.ZERO_OUT, math.inf, 0.0, 1.0)
    assert attack_success([line], Relation.ZERO_OUT, "record") is None
    assert attack_success([], Relation.ZERO_OUT, "record") is None


def _strings(tree):
    """String constants of a module that are not docstrings."""
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value


_OWN_WORDS = re.compile(
    r"50 ?%|coin toss|toss a coin|tossing|blind guess|best guess|best attack|right at most"
    r"|success prob|for inferring|tells? yours",
    re.IGNORECASE,
)
# What attacks in simulations measured, beside what a blind guess would.
_MEASURED = {"reports/linkage.py", "cli/plan_text.py"}


def _own_implementations(source, name):
    """Why a module states success probabilities by itself."""
    if not (_OWN_WORDS.search(source) or "percent(" in source or "hundredths(" in source):
        return  # most of them, which need not be parsed
    tree = ast.parse(source)
    for text in _strings(tree):
        if _OWN_WORDS.search(text):
            yield f"{name}: {text!r}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in (
            "percent",
            "hundredths",
        ):
            shown = ast.unparse(node)
            if "guess" in shown or "neighbors" in shown or "success" in shown:
                yield f"{name}: {shown}"


def _modules():
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        if name != "core/success.py" and not name.startswith(("attacks/", "experiments/")):
            yield name, path.read_text(encoding="utf-8")


def test_no_medium_writes_its_own_sentence():
    found = [
        why
        for name, source in _modules()
        if name not in _MEASURED
        for why in _own_implementations(source, name)
    ]
    assert found == []
    for former in (
        'f"at most {percent(one.guess)} success (50 % is a blind guess)."',
        "words.percent(found.guess)",
        '"the best guess is right at most"',
    ):
        assert list(_own_implementations(former + "\nx = 1\nf(" + former + ")", "control"))


def test_every_medium_is_measured():
    """A module that states success probabilities is in the list above."""
    using = {name for name, source in _modules() if "unisono.core.success import" in source}
    assert using == set(MEDIA) | LAYOUT
    assert "best attack" in neighbors_label(0.6)
