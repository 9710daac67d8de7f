"""One name, one guarantee: every entrance has the defaults that `docs/defaults.md` states.

Those of the command line are in `cli/test_conventions.py`.
"""

import inspect
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import unisono
from unisono import estimators
from unisono.algorithms.choose import choose
from unisono.algorithms.dp_sgd_convex import ConvexDpSgdConfig
from unisono.algorithms.gradient_perturbation import GradientPerturbationConfig
from unisono.algorithms.registry import OWN
from unisono.core.algorithm import Facts, agree_facts
from unisono.core.defaults import PARTY_RELATION, RELATION, RIDGE, default_colluders
from unisono.core.policy import Budget, Policy
from unisono.core.privacy import Privacy
from unisono.core.trust import Relation, Trust, Unit
from unisono.errors import ClippedValues, InvalidInput
from unisono.estimators import configuration
from unisono.estimators.members import facts_of
from unisono.models.registry import algorithms_for, model_named
from unisono.problems.linear import LinearLoss
from unisono.problems.networks import logistic
from unisono.scaling import PrivateScaler
from unisono.studies.file import parse_study
from unisono.studies.policy_file import PolicyFile
from unisono.studies.schema import ALGORITHM_SECTIONS
from unisono.studies.template import Answers, study_text
from unisono.training import algorithms as network_algorithms
from unisono.training import train

pytest.importorskip("sklearn", reason="scikit-learn is not installed")

PAGE = (Path(__file__).parents[1] / "docs" / "defaults.md").read_text()


def study_file(unit="record", trust="secure-sum", parties=3, minimum=None):
    least = "" if minimum is None else f"minimum_parties = {minimum}"
    algorithm = 'name = "fed-avg"' if unit == "party" else 'name = "dp-sgd"'
    members = "".join(f'[[parties]]\nname = "p{k}"\nrecords = 50\n' for k in range(parties))
    return parse_study(f"""
title = "a study"
[data]
target = "ill"
[data.columns]
age = {{ kind = "number", bounds = [0, 120] }}
ill = {{ kind = "category", values = ["no", "yes"] }}
{members}
[privacy]
epsilon = 1
delta = 1e-6
unit = "{unit}"
[trust]
mode = "{trust}"
{least}
[model]
name = "network"
[algorithm]
{algorithm}
""")


# ------------------------------------------------------------- the relation


def test_the_relation_of_python_and_of_files():
    assert (RELATION, PARTY_RELATION) == (Relation.REPLACE_ONE, Relation.ZERO_OUT)
    for unit, relation in ((Unit.RECORD, RELATION), (Unit.PARTY, PARTY_RELATION)):
        assert study_file(str(unit)).privacy.relation is relation
    assert Policy("ages", Budget(1.0)).relation is RELATION
    budget = PolicyFile.model_fields["budget"].annotation
    assert budget.model_fields["relation"].default is RELATION
    assert Privacy(1.0).relation is PrivateScaler(1.0).relation is RELATION
    assert inspect.signature(unisono.open_ledger).parameters["relation"].default is RELATION


def test_an_unknown_unit_is_one_fault_of_a_study_file():
    with pytest.raises(InvalidInput, match=r"^study.toml line \d+: privacy.unit: [^\n]*$"):
        study_file("recrd")


def test_the_relation_of_every_estimator():
    found = [getattr(estimators, name) for name in estimators.__all__]
    fitted = [one for one in found if isinstance(one, type) and hasattr(one, "fit")]
    fitted.remove(estimators.PrivateSearch)  # that of its estimator
    assert len(fitted) >= 7
    for one in fitted:
        assert one().relation == RELATION


def test_the_relation_of_every_algorithm():
    for kind in OWN:  # the promise is the study's
        assert not {"epsilon", "delta", "relation"} & set(kind.config.model_fields)
    hiding = [kind.name for kind in OWN if kind.units == (Unit.PARTY,)]
    assert sorted(hiding) == ["fed-avg", "pvi-clipped-updates"]
    assert Privacy(1.0).relation is RELATION


@pytest.mark.parametrize("name", network_algorithms())
def test_the_relation_of_train(name):
    """Told by a refusal: exact sizes are public under both, so nobody may state them again."""
    relation = PARTY_RELATION if network_algorithms()[name].units == (Unit.PARTY,) else RELATION
    with pytest.raises(InvalidInput, match=f"under {relation!s} sizes are exact and public"):
        train(
            logistic(2, 2),
            (np.zeros((9, 2)), np.zeros(9)),
            algorithm=name,
            sizes=9,
            epsilon=1.0,
            delta=1e-4,
            rounds=1,
        )


# ------------------------------------------------------------- colluders


@pytest.mark.parametrize(
    ("trust", "parties", "minimum"),
    [*product(Trust, (1, 2, 5), (None, 1)), *product(Trust, [5], [3])],
)
def test_the_number_of_colluders(trust, parties, minimum):
    survivors = parties if minimum is None else minimum
    expected = int(survivors > 1 and trust is not Trust.TRUSTED_SERVER)
    assert default_colluders(trust, survivors) == expected
    sizes = (50,) * parties
    assert agree_facts(sizes, 1, trust, minimum_parties=minimum).colluders == expected
    assert facts_of(sizes, 1, trust, RELATION, minimum, None).colluders == expected
    if parties > 1 or trust is not Trust.SECURE_SUM:  # one party alone has nobody to add up with
        assert study_file(trust=str(trust), parties=parties, minimum=minimum).colluders == expected


@pytest.mark.parametrize("trust", [Trust.LOCAL, Trust.SECURE_SUM, Trust.TRUSTED_SERVER])
def test_a_first_study_file_states_the_defaults(trust):
    """Without the lines that state them it says the same."""
    answers = Answers(
        "ages",
        "logistic-regression",
        {"age": (0.0, 120.0), "ill": ("yes", "no")},
        {"a": 500, "b": 500, "c": 500},
        "ill",
        trust=trust,
    )
    text = study_text(answers)
    stated = parse_study(text)
    silent = "\n".join(
        line for line in text.splitlines() if not line.startswith(("colluders", "relation"))
    )
    assert "colluders" in text.replace(silent, "")
    assert parse_study(silent).hash == stated.hash


# ------------------------------------------------------------- ridge, names, bounds


def test_the_ridge(monkeypatch):
    assert RIDGE == 0
    for name in ("gradient-perturbation", "dp-sgd-convex"):
        assert ALGORITHM_SECTIONS[name](name=name).regularisation == RIDGE
    name = "output-perturbation"
    assert ALGORITHM_SECTIONS[name](name=name).regularisation is None
    facts = Facts((1000, 1000), 3, 2)
    chosen = choose(LinearLoss("logistic"), Privacy(1.0, 1e-6))
    assert chosen.method.bind(facts, Trust.LOCAL).settings["regularisation"] == RIDGE
    request = configuration.FitRequest("auto", "logistic", 2, 1.0, 1e-6, RELATION, None, 5)
    monkeypatch.setattr(configuration, "in_rounds", lambda method, *_: method)
    assert configuration.plan(request, facts, Trust.LOCAL).config.regularisation == RIDGE
    for config in (GradientPerturbationConfig(), ConvexDpSgdConfig()):
        assert config.regularisation == RIDGE


def test_a_name_means_one_algorithm_wherever_it_is_used():
    known = {kind.name for kind in OWN}
    assert set(network_algorithms()) <= known
    assert set(configuration.ALGORITHMS) - {"auto"} <= known
    linear = {kind.name for kind in algorithms_for(model_named("logistic-regression"))}
    assert set(configuration.ALGORITHMS) - {"auto"} <= linear
    # Linear models, and networks.
    assert not set(configuration.ALGORITHMS) & set(network_algorithms())


def test_statistics_clip_and_tell_whoever_holds_the_values(ledger):
    with pytest.warns(ClippedValues, match="1 of 3 values lie outside the public bounds 0 to 9"):
        unisono.mean([1.0, 2.0, 50.0], (0, 9), epsilon=0.5, ledger=ledger)


def test_the_page_states_what_is_decided():
    for words in (f"`{RELATION}`", f"`{PARTY_RELATION}`", "`dp-sgd-convex`", "`ClippedValues`"):
        assert words in PAGE, words
    for warning in ("LargeDeltaWarning", "PredictableNoiseWarning", "FreshBudgetWarning"):
        assert f"`{warning}`" in PAGE
        assert issubclass(getattr(unisono, warning), unisono.PrivacyWarning)
