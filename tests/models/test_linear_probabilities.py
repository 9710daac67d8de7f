"""What a run's result says of probabilities is enough to compute them, and no more than is true."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import expit, softmax

from unisono.algorithms.gradient_perturbation import GRADIENT_PERTURBATION
from unisono.algorithms.preconditioned_gradients import MOST_FEATURES, PRECONDITIONED_GRADIENTS
from unisono.core.privacy import Privacy
from unisono.core.trust import Unit
from unisono.data.schema import Schema
from unisono.models.linear import LOGISTIC_REGRESSION

PRIVACY = Privacy(1.0, 1e-6)
AGES = np.array([10.0, 47.0, 200.0, 88.0])  # one beyond the bounds
SMOKES = np.array([0.0, 1.0, 1.0, 0.0])


def schema(*classes, columns=()):
    known = {
        "age": {"kind": "number", "bounds": (18.0, 95.0)},
        "smokes": {"kind": "category", "values": ("no", "yes")},
        **{name: {"kind": "number", "bounds": (0.0, 1.0)} for name in columns},
        "ill": {"kind": "category", "values": classes},
    }
    return Schema.model_validate({"columns": known, "target": "ill"})


def posed(algorithm, *classes):
    config = LOGISTIC_REGRESSION.configured()
    return LOGISTIC_REGRESSION.pose(config, schema(*classes), algorithm, PRIVACY)


def study(algorithm, own, **settings):
    return SimpleNamespace(method=algorithm.method(own.problem, PRIVACY, **settings))


def scores(shown, model):
    """As somebody would compute them who has the result alone."""
    found = np.full(len(AGES), model["intercept"])
    for column, (name, weight) in zip((AGES, SMOKES), model["weights"].items(), strict=True):
        found += weight * np.clip(column, *shown["features"][name]["bounds"])
    return found


@pytest.mark.parametrize("classes", [("no", "yes"), ("no", "mild", "severe")])
def test_a_result_holds_what_a_probability_needs(classes):
    own = posed(PRECONDITIONED_GRADIENTS, *classes)
    rows = own.encode({"age": AGES, "smokes": SMOKES, "ill": np.zeros(4)})[0]
    several = len(classes) > 2
    shape = (rows.shape[1], len(classes)) if several else rows.shape[1]
    beta = np.random.default_rng(0).normal(size=shape)
    shown = own.present(study(PRECONDITIONED_GRADIENTS, own), SimpleNamespace(value=beta))
    assert shown["calibrated"] is not several
    if several:
        found = softmax(np.stack([scores(shown, m) for m in shown["classes"].values()], 1), axis=1)
        assert (shown["link"], found) == ("softmax", pytest.approx(softmax(rows @ beta, axis=1)))
    else:
        assert shown["link"] == "logit"
        assert expit(scores(shown, shown)) == pytest.approx(expit(rows @ beta))
    assert "Probabilities are those of logistic regression" in shown["note"]
    assert ("not calibrated" in shown["note"]) is several


@pytest.mark.parametrize("settings", [{"rounds": 20}, {"regularisation": 0.1}])
def test_without_rounds_for_it_probabilities_are_not_called_calibrated(settings):
    own = posed(PRECONDITIONED_GRADIENTS, "no", "yes")
    asked = study(PRECONDITIONED_GRADIENTS, own, **settings)
    assert not own.present(asked, SimpleNamespace(value=np.ones(3)))["calibrated"]


def test_scores_of_unit_rows_are_not_called_probabilities():
    own = posed(GRADIENT_PERTURBATION, "no", "yes")
    shown = own.present(study(GRADIENT_PERTURBATION, own), SimpleNamespace(value=np.ones(3)))
    assert shown["calibrated"] is False
    assert "link" not in shown
    assert "not effects or log-odds" in shown["note"]


def test_the_rule_follows_public_facts():
    def chosen(privacy=PRIVACY, unit=Unit.RECORD, columns=()):
        config, known = LOGISTIC_REGRESSION.configured(), schema("no", "yes", columns=columns)
        return LOGISTIC_REGRESSION.choose(config, known, privacy, unit).algorithm

    many = [f"x{number}" for number in range(MOST_FEATURES)]
    assert chosen() == "preconditioned-gradients"
    assert chosen(columns=many[:-3]) == "preconditioned-gradients"
    assert chosen(columns=many) == chosen(unit=Unit.PARTY) == "gradient-perturbation"
    assert chosen(Privacy(1.0, 0.0)) == "output-perturbation"
