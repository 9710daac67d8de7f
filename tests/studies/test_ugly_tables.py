"""Tables with all their ugliness, from the file to the answer: what is missing biases nothing."""

import warnings

import numpy as np
import pytest

from unisono.accounting.accountant import ACCOUNTANT
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.study import Party
from unisono.core.values import Private
from unisono.engines import in_process
from unisono.studies.build import build
from unisono.studies.file import parse_study

pytestmark = pytest.mark.usefixtures("in_order")

TEXT = """\
title = "Free light chains"
[data]
{target}
csv = {{ decimal = "," }}
{more}
[data.columns]
age = {{ kind = "number", bounds = [18, 100] }}
creatinine = {{ kind = "number", bounds = [0, 10], {missing} }}
sex = {{ kind = "category", values = ["F", "M"], other = true, missing = "category" }}
died = {{ kind = "true-false" }}
[[parties]]
name = "clinic"
records = 400
[privacy]
epsilon = {epsilon}
delta = 1e-4
[trust]
mode = "local"
[model]
name = "{model}"
{settings}
"""
ASKED = """
[[model.questions]]
ask = "mean"
column = "creatinine"
[[model.questions]]
ask = "standard deviation"
column = "creatinine"
[[model.questions]]
ask = "sum"
column = "creatinine"
[[model.questions]]
ask = "quantiles"
column = "creatinine"
levels = [0.5]
[[model.questions]]
ask = "histogram"
column = "sex"
"""


def written(path, seed=1):
    """A third of the creatinines is missing, in several spellings; also unknown sexes."""
    generator = np.random.default_rng(seed)
    ages, creatinine = generator.uniform(40, 90, 400), generator.uniform(0.5, 2.5, 400)
    missing = generator.random(400) < 1 / 3
    died = generator.random(400) < 1 / (1 + np.exp(-(creatinine + missing - 1.5) * 3))
    spelled = generator.choice(["", "NA", "?", "nicht gemessen"], 400)
    lines = ["age;creatinine;sex;died"]
    for n in range(400):
        own = spelled[n] if missing[n] else f"{creatinine[n]:.3f}".replace(".", ",")
        sex = ["F", "M", "", "divers"][n % 4]
        lines.append(f"{ages[n]:.1f};{own};{sex};{['no', 'yes'][int(died[n])]}".replace(".", ","))
    path.write_text("\n".join(lines) + "\n")
    return creatinine[~missing], died, missing


def answered(path, epsilon=500.0, model="statistics", settings=ASKED, **said):
    given = {"target": "", "more": "", "missing": 'missing = "drop record"', **said}
    file = parse_study(
        TEXT.format(epsilon=epsilon, model=model, settings=settings, **given), "study.toml"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a huge epsilon, and what the owner is told
        built = build(file)
        columns = built.columns(built.table(path), "clinic")
    policy = Policy("clinic", Budget(2 * epsilon, 1e-3))
    ledger = Ledger.in_memory(policy, ACCOUNTANT, seed=5)
    result = in_process.run(built.study.begun(None), [Party("clinic", Private(columns), ledger)])
    return built.present(result), columns


def test_statistics_are_about_the_values_that_are_there(tmp_path):
    known, _, _ = written(tmp_path / "clinic.csv")
    shown, _ = answered(tmp_path / "clinic.csv")
    mean, deviation, total, median, histogram = shown["answers"]
    assert mean["value"] == pytest.approx(known.mean(), abs=0.05)
    assert mean["interval"][0] <= known.mean() <= mean["interval"][1]
    assert deviation["value"] == pytest.approx(known.std(), abs=0.1)
    assert total["value"] == pytest.approx(known.sum(), rel=0.03)
    assert median["value"] == pytest.approx(np.median(known), abs=0.1)
    assert histogram["labels"] == ["F", "M", "(other)", "(missing)"]
    assert histogram["value"] == pytest.approx([100] * 4, abs=5)


def test_the_public_number_divides_where_a_column_is_declared_complete(tmp_path):
    """Then a missing value counts as the center of the bounds, and elsewhere it does not count."""
    known, _, missing = written(tmp_path / "clinic.csv")
    shown, _ = answered(tmp_path / "clinic.csv", missing="integer = false")
    assert shown["answers"][0]["value"] == pytest.approx(known.mean(), abs=0.05)
    shown, _ = answered(tmp_path / "clinic.csv", missing="complete = true")
    expected = (known.sum() + 5 * missing.sum()) / 400
    assert shown["answers"][0]["value"] == pytest.approx(expected, abs=0.05)


def test_an_owner_is_told_of_declared_cells_in_one_line_and_of_others_apart(tmp_path):
    _, _, missing = written(tmp_path / "clinic.csv")
    given = {"target": "", "more": "", "missing": 'missing = "drop record"'}
    file = parse_study(TEXT.format(epsilon=1.0, model="statistics", settings=ASKED, **given), "s")
    built = build(file)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        built.columns(built.table(tmp_path / "clinic.csv"), "clinic")
    words = [str(one.message) for one in told if "creatinine" in str(one.message)]
    (empty,) = [text for text in words if "empty cells among 400 records" in text]
    (odd,) = [text for text in words if "values of 'creatinine' in" in text]
    assert "which do not count unless declared: creatinine " in empty
    assert "correct them" in odd  # "nicht gemessen" may be a mistake
    counts = int(empty.rpartition("creatinine ")[2].split(".")[0]) + int(odd.split()[0])
    assert counts == missing.sum()


def test_an_indicator_keeps_every_record_and_tells_a_model(tmp_path):
    _, died, missing = written(tmp_path / "clinic.csv")
    shown, (rows, labels) = answered(
        tmp_path / "clinic.csv",
        model="logistic-regression",
        settings="",
        target='target = "died"',
        missing='missing = "indicator", fill = 0.0',
        more='interactions = [["creatinine", "sex"]]',
    )
    assert np.isfinite(rows).all()
    assert np.array_equal(labels > 0, died)
    assert shown["weights"]["creatinine=(missing)"] > 0
    assert [name for name in shown["weights"] if ":" in name] == [
        f"{one}:sex={sex}"
        for one in ("creatinine", "creatinine=(missing)")
        for sex in ("M", "(other)", "(missing)")
    ]
    _, (rows, labels) = answered(
        tmp_path / "clinic.csv",
        model="logistic-regression",
        settings="",
        target='target = "died"',
    )
    assert np.array_equal(np.isnan(labels), missing)
    assert np.array_equal(np.isnan(rows).all(axis=1), missing)
