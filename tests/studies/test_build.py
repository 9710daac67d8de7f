"""Every model with every algorithm that learns it builds a study from a file, equal everywhere."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import jax
import numpy as np
import pytest

from unisono.accounting.accountant import ACCOUNTANT
from unisono.algorithms.ranges import Range
from unisono.algorithms.registry import algorithms
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.study import Party
from unisono.core.values import Private
from unisono.data import UnreadValues
from unisono.engines import in_process
from unisono.errors import InvalidInput, LargeDeltaWarning
from unisono.models import network
from unisono.models.evaluation import EVALUATION
from unisono.models.network import first_parameters
from unisono.models.registry import algorithms_for, models
from unisono.releases.algorithm import rounded
from unisono.studies import build as building
from unisono.studies.build import build
from unisono.studies.explain import explain
from unisono.studies.file import parse_study
from unisono.studies.schema import ALGORITHM_SECTIONS, AUTO, MODEL_SECTIONS
from unisono.studies.stages import BOUNDS, FIRST, FIT, START, costs_of

from .conftest import TEXT

PRIVATE_BOUNDS = """\
title = "T"
data.target = "dose"
data.columns.age = { kind = "number", bounds = "private" }
data.columns.dose = { kind = "number", bounds = [0, 10] }
parties = [{ name = "oslo", records = 4000 }, { name = "bergen", records = 3000 }]
privacy = { epsilon = 1.0, delta = 1e-6 }
trust = { mode = "secure-sum" }
model = { name = "MODEL" }
"""

QUESTIONS = """
[[model.questions]]
ask = "mean"
column = "age"
by = "sex"
[[model.questions]]
ask = "variance"
column = "age"
by = "sex"
[[model.questions]]
ask = "sum"
column = "radius"
weight = 2.0
[[model.questions]]
ask = "histogram"
column = "radius"
bins = 5
[[model.questions]]
ask = "histogram"
column = "sex"
[[model.questions]]
ask = "quantiles"
column = "radius"
levels = [0.25, 0.5]
[[model.questions]]
ask = "count"
column = "diagnosis"
value = "malignant"
[[model.questions]]
ask = "proportion"
column = "sex"
value = "f"
"""
NO_TARGET = ('target = "diagnosis"\n', "")
NUMBER = ('target = "diagnosis"', 'target = "radius"')
TIME = ('target = "diagnosis"', 'target = "age"')
LOCAL = ('"secure-sum"', '"local"')
PARTY = ('unit = "record"\nrelation = "replace-one"', 'unit = "party"\nrelation = "zero-out"')
FEWER = [
    ('sex = { kind = "category", values = ["f", "m"] }\n', ""),
    ('diagnosis = { kind = "category", values = ["benign", "malignant"] }\n', ""),
]
# A model that knows nothing, over the columns of the file.
JUDGED = EVALUATION.draft(parse_study(TEXT).data)
# Settings, and what else changes in the file.
MODELS = {
    "statistics": (QUESTIONS, NO_TARGET),
    "table-one": ('by = "sex"', NO_TARGET),
    "glm": ("",),
    "logistic-regression": ("",),
    "linear-svm": ("",),
    "linear-regression": ("", NUMBER),
    "network": ("hidden = [3]",),
    "bayesian-linear-regression": ("noise_std = 2.0", NUMBER),
    "bayesian-logistic-regression": ("",),
    "k-means": ("clusters = 2", NO_TARGET, *FEWER),
    "kaplan-meier": ('event = "diagnosis"\nby = "sex"', TIME),
    "hazards": ('event = "diagnosis"', TIME),
    "concordance": ('event = "diagnosis"\nscore = "radius"', TIME),
    "evaluation": (JUDGED,),
}
ALGORITHMS = {
    "statistics": ("",),
    "score-influence": ("",),
    "k-means": ("",),
    "survival-table": ("",),
    "log-rank": ("",),
    "hazard-scoring": ("",),
    "fisher-scoring": ("",),
    "preconditioned-gradients": ("rounds = 20",),
    "adaptive-statistics": ("",),
    "gradient-perturbation": ("rounds = 20",),
    "dp-sgd-convex": ("rounds = 5\nsampling_rate = 0.5",),
    "output-perturbation": ("",),
    "objective-perturbation": ("", LOCAL),
    "sgd-sequential": ("steps = 9", LOCAL),
    "sgd-synchronous": ("rounds = 5",),
    "dp-sgd": ("rounds = 3",),
    "local-dp-sgd": ("rounds = 3\nsteps = 2", LOCAL),
    "dp-ftrl": ("rounds = 3",),
    "fed-avg": ("rounds = 3", PARTY, ("epsilon = 1\n", "epsilon = 8\n")),
    "one-shot-regression": ("",),
    "iterated-regression": ("rounds = 3",),
    "pvi-natural-gradient": ("rounds = 4",),
    "pvi-dp-sga": ("rounds = 2\nlocal_steps = 2", LOCAL),
    "pvi-clipped-updates": ("rounds = 2", PARTY),
}
CASES = [
    (model.name, algorithm.name)
    for model in models().values()
    for algorithm in algorithms_for(model)
]


def text_of(study, model, algorithm, *more):
    """The smallest file that asks for these two."""
    told, *pairs = MODELS[model]
    set_up, *others = ALGORITHMS[algorithm]
    return study(f"{model}\n{told}", f"{algorithm}\n{set_up}", *pairs, *others, *more)


@cache
def built_once(text):
    """Networks take seconds to build: tests share them."""
    return build(parse_study(text))


def test_the_registry_is_complete():
    assert set(MODELS) == set(models()) == set(MODEL_SECTIONS)
    assert set(ALGORITHMS) == set(algorithms()) == set(ALGORITHM_SECTIONS)
    assert {name for _, name in CASES} == set(algorithms())
    assert AUTO not in algorithms()


@pytest.mark.parametrize(("model", "name"), CASES)
def test_every_pair_builds_the_study_that_the_file_says(study, model, name, table):
    built = built_once(text_of(study, model, name))
    assert (built.file.model_kind.name, built.algorithm.name, built.reason) == (model, name, "")
    file, facts = built.file, built.study.facts
    assert built.study.algorithm.name == name
    assert facts.records == (40, 50, 40)
    assert (facts.minimum_parties, facts.colluders, facts.retries) == (3, 1, 0)
    assert built.study.trust is file.trust.mode
    for event in built.study.algorithm.events(facts, file.trust.mode):
        assert event.sensitivity.unit is file.privacy.unit
    agreed = built.study.algorithm.settings  # where a study finds the delta that it warns of
    assert agreed.get("privacy", agreed)["delta"] == file.privacy.delta
    # What the file promises is what every viewer but the party's neighbours pays, and no less.
    history = costs_of(built.stages)[0]["iterates"]
    relation, privacy = file.privacy.relation, file.privacy
    assert ACCOUNTANT.fits(history, relation, privacy.epsilon * (1 + 1e-9), privacy.delta)
    assert not ACCOUNTANT.fits(history, relation, 0.9 * privacy.epsilon, privacy.delta)
    columns = built.columns(table(40), "north")
    assert all(len(column) == 40 and column.dtype == np.float32 for column in columns)
    assert columns[0].shape == (40, facts.features)
    assert np.abs(columns[0]).max() <= (255 if len(columns) == 1 else 1)  # 256 leaves of scores


def test_equal_files_build_equal_studies_in_another_process(study):
    """Another process, with other hash seeds, other flags of the compiler and 64-bit defaults."""
    pairs = [
        ("statistics", "statistics"),
        ("linear-svm", "gradient-perturbation"),
        ("bayesian-logistic-regression", "pvi-natural-gradient"),
        ("network", "dp-sgd"),
    ]
    texts = [text_of(study, *pair) for pair in pairs]
    code = (
        "import json, sys\n"
        "from unisono.studies.build import build\n"
        "from unisono.studies.file import parse_study\n"
        "files = [parse_study(text) for text in json.load(sys.stdin)]\n"
        "print(json.dumps([[file.hash, build(file).study.hash] for file in files]))\n"
    )
    surroundings = {"PYTHONHASHSEED": "7", "XLA_FLAGS": "", "JAX_ENABLE_X64": "1"}
    answer = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(texts),
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
        env={**os.environ, **surroundings},
    )
    mine = [[built_once(text).file.hash, built_once(text).study.hash] for text in texts]
    assert json.loads(answer.stdout) == mine
    assert len({study for _, study in mine}) == len(pairs)


SUGGESTED = [
    ("bayesian-linear-regression", "one-shot-regression", "clipping_norm = 1.0"),
    ("bayesian-logistic-regression", "pvi-natural-gradient", "memory = 0.8"),
]


@pytest.mark.parametrize(("model", "algorithm", "default"), SUGGESTED)
def test_files_that_build_different_studies_have_different_hashes(study, model, algorithm, default):
    """A default that is said counts; one that is left out gives way to what the model suggests."""
    told, *pairs = MODELS[model]
    left_out = built_once(study(f"{model}\n{told}", algorithm, *pairs))
    said = built_once(study(f"{model}\n{told}", f"{algorithm}\n{default}", *pairs))
    assert left_out.study.hash != said.study.hash
    assert left_out.file.hash != said.file.hash


def test_settings_and_facts_reach_the_study(change):
    first = build(parse_study(change())).study.hash
    for pair in (
        ("rounds = 20", "rounds = 21"),
        ("records = 50", "records = 51"),
        ("retries = 0", "retries = 2"),
        ("epsilon = 1", "epsilon = 1.1"),
    ):
        assert build(parse_study(change(pair))).study.hash != first


def test_retries_are_planned_for(change):
    file = parse_study(change(("retries = 0", "retries = 2")))
    built = build(file)
    assert built.study.facts.retries == 2
    assert sum(count for _, count in built.study.cost["server"].parts) == 22
    assert ACCOUNTANT.fits(built.study.cost["server"], file.privacy.relation, 1.0, 1e-4)


def test_first_parameters_are_the_same_numbers_everywhere():
    """Integers and correctly rounded arithmetic only: the bits are known beforehand."""
    layers = first_parameters((3, 4, 2), "tanh")
    weights = layers["dense0"]["weights"]
    assert not layers["dense0"]["bias"].any()
    assert weights.shape == (3, 4)
    assert weights.dtype == np.float32
    raw = np.random.PCG64(20_240_229).random_raw()
    expected = np.float32((int(raw) >> 40) / 2**23 - 1) * np.sqrt(3 * 2 / 7)
    assert abs(weights[0, 0] - expected) < 1e-7
    many = first_parameters((400, 100, 2), "relu")["dense0"]["weights"]
    assert abs(many.var() / (2 / 400) - 1) < 0.02
    assert np.abs(many).max() <= np.sqrt(3 * 2 / 400)


def test_rules_are_rounded():
    assert rounded(0.1 + 0.2) == rounded(0.3)
    assert rounded(123456.789) == 123457.0


def test_what_an_algorithm_refuses_is_an_error_of_the_file(study):
    with pytest.raises(InvalidInput, match=r"line 40: pvi-dp-sga: .*cannot run with trust"):
        build(parse_study(study("bayesian-logistic-regression", "pvi-dp-sga")))
    with pytest.raises(InvalidInput, match=r"study.toml line 38: k-means: delta = 0"):
        build(parse_study(text_of(study, "k-means", "k-means", ("delta = 1e-4", "delta = 0"))))
    twice = "[[model.questions]]\nask = 'mean'\ncolumn = 'age'\n" * 2
    with pytest.raises(InvalidInput, match="the mean of 'age' is asked for twice"):
        build(parse_study(study(f"statistics\n{twice}", "", NO_TARGET)))


@pytest.mark.parametrize("model", MODELS)
def test_an_algorithm_that_cannot_learn_the_model_is_refused_with_those_that_can(study, model):
    told, *pairs = MODELS[model]
    able = [kind.name for kind in algorithms_for(models()[model])]
    for name in set(algorithms()) - set(able):
        fits = algorithms()[name].units[0]
        pair = PARTY if fits == "party" else ("title", "title")
        with pytest.raises(InvalidInput) as caught:
            build(parse_study(study(f"{model}\n{told}", name, *pairs, pair)))
        said = f"{name} cannot learn a {model}: choose {', '.join(able)} or auto"
        assert said in str(caught.value)
        assert "study.toml line " in str(caught.value)


AUTOMATIC = [
    ("statistics", (), "statistics", "one noisy release answers all questions"),
    ("table-one", (), "statistics", "one noisy release holds the whole table"),
    ("glm", (), "fisher-scoring", "intervals count the noise in"),
    ("logistic-regression", (), "preconditioned-gradients", "noisy gradients of the model itself"),
    (
        "logistic-regression",
        (("delta = 1e-4", "delta = 0"),),
        "output-perturbation",
        "pure epsilon was asked for",
    ),
    ("linear-svm", (), "gradient-perturbation", "compose exactly as one release"),
    (
        "linear-regression",
        (),
        "gradient-perturbation",
        "R² lost is predicted to be all (fisher-scoring all",
    ),
    (
        "linear-regression",
        (("epsilon = 1\n", "epsilon = 60\n"),),
        "fisher-scoring",
        "R² lost is predicted to be 0.0",
    ),
    (
        "linear-regression",
        (("delta = 1e-4", "delta = 0"),),
        "adaptive-statistics",
        "R² lost is predicted to be all (output-perturbation all",
    ),
    ("network", (), "dp-sgd", "secret batches"),
    ("network", (PARTY, ("epsilon = 1\n", "epsilon = 8\n")), "fed-avg", "whole parties"),
    ("bayesian-linear-regression", (), "fisher-scoring", "the posterior counts in"),
    (
        "bayesian-linear-regression",
        (("delta = 1e-4", "delta = 0"),),
        "one-shot-regression",
        "one noisy release",
    ),
    ("bayesian-logistic-regression", (), "fisher-scoring", "the posterior counts in"),
    (
        "bayesian-logistic-regression",
        (
            (
                'name = "bayesian-logistic-regression"',
                'name = "bayesian-logistic-regression"\nlink = "probit"',
            ),
        ),
        "pvi-natural-gradient",
        "the posterior counts in",
    ),
    ("bayesian-logistic-regression", (PARTY,), "pvi-clipped-updates", "whole parties"),
    ("k-means", (), "k-means", "noisy sums and counts of every cluster"),
    ("hazards", (), "hazard-scoring", "few noisy rounds of bounded martingale scores"),
    ("concordance", (), "survival-table", "holds all pairs"),
    ("evaluation", (), "score-influence", "then one bounded row a record"),
    ("kaplan-meier", (), "log-rank", "then a bounded score for the test"),
    ("kaplan-meier", (("delta = 1e-4", "delta = 0"),), "survival-table", "but every curve"),
]


@pytest.mark.parametrize(("model", "more", "name", "reason"), AUTOMATIC)
def test_auto_takes_the_published_rule_and_says_why(study, model, more, name, reason):
    told, *pairs = MODELS[model]
    left_out = built_once(study(f"{model}\n{told}", "", *pairs, *more))
    assert left_out.algorithm.name == left_out.study.algorithm.name == name
    assert reason in left_out.reason
    said = parse_study(study(f"{model}\n{told}", "auto", *pairs, *more))
    assert said.hash == left_out.file.hash
    lines = explain(left_out.file).learnt
    assert f"The algorithm was left open; {name}: {left_out.reason}." in lines


def test_every_model_has_a_case_of_the_rule():
    assert {model for model, *_ in AUTOMATIC} == set(models())


def test_a_study_hides_what_its_file_says_or_is_refused(study):
    """Neither a rule nor a setting of the algorithm may put a record where a party was promised."""
    with pytest.raises(InvalidInput, match=r"line 28: .*gradient-perturbation hides a record"):
        build(parse_study(study("logistic-regression", "", PARTY)))
    text = study("bayesian-logistic-regression", 'pvi-clipped-updates\nunit = "record"', PARTY)
    with pytest.raises(InvalidInput, match=r"line 28: .*pvi-clipped-updates hides a record"):
        build(parse_study(text))


def test_a_large_delta_warns(change):
    with pytest.warns(LargeDeltaWarning):
        build(parse_study(change(("delta = 1e-4", "delta = 0.01"))))


def test_hidden_sizes_and_pure_epsilon(study, change):
    hidden = (('sizes = "exact"', 'sizes = "hidden"'), ('"replace-one"', '"add-or-remove"'))
    assert not build(parse_study(change(*hidden))).study.facts.exact_sizes
    zero = ("delta = 1e-4", "delta = 0")
    pure = build(parse_study(text_of(study, "logistic-regression", "output-perturbation", zero)))
    assert pure.study.algorithm.privacy.delta == 0


# ------------------------------------------------------------- results


def run(file, table):
    built = build(file)
    privacy = file.privacy
    parties = [
        Party(
            party.name,
            Private(built.columns(table(party.records, seed), party.name)),
            Ledger.in_memory(
                Policy(party.name, Budget(2e6, privacy.delta), (), privacy.relation, privacy.unit),
                ACCOUNTANT,
                seed=seed,
            ),
        )
        for seed, party in enumerate(file.parties)
    ]
    return built, in_process.run(built.study, parties)


LOUD = ("epsilon = 1\n", "epsilon = 2e3\n")


def test_statistics_come_back_by_name(study, table):
    """Epsilon so large that noise vanishes: answers are those of the records."""
    file = parse_study(text_of(study, "statistics", "statistics", LOUD))
    built, result = run(file, table)
    shown = json.loads(json.dumps(built.present(result)))
    shares = {one["name"]: one["share"] for one in built.study.algorithm.settings["questions"]}
    assert (shares["sum of radius"], shares["histogram of sex"]) == (2.0, 1.0)
    answers = {answer["name"]: answer for answer in shown["answers"]}
    tables = [table(party.records, seed) for seed, party in enumerate(file.parties)]
    age, sex, radius, ill = (
        np.concatenate([one.columns[name] for one in tables])
        for name in ("age", "sex", "radius", "diagnosis")
    )
    by_sex = [age[sex == value].mean() for value in ("f", "m")]
    assert answers["mean of age by sex"]["value"] == pytest.approx(by_sex, abs=0.5)
    spread = [age[sex == value].var() for value in ("f", "m")]
    assert answers["variance of age by sex"]["value"] == pytest.approx(spread, rel=0.05)
    assert answers["sum of radius"]["value"] == pytest.approx(radius.sum(), rel=0.01)
    count = np.count_nonzero(ill == "malignant")
    assert answers["count of diagnosis = malignant"]["value"] == pytest.approx(count, abs=0.2)
    share = (sex == "f").mean()
    assert answers["proportion of sex = f"]["value"] == pytest.approx(share, abs=0.01)
    assert answers["histogram of sex"]["labels"] == ["f", "m"]
    assert sum(answers["histogram of radius"]["value"]) == pytest.approx(130, abs=1)
    assert shown["file"] == file.hash
    assert shown["study"] == built.study.hash


_GROUPED = 'by = "sex"\n'
BY_GROUP = """
[[model.questions]]
ask = "quantiles"
column = "radius"
levels = [0.25, 0.5]
by = "sex"
[[model.questions]]
ask = "table"
columns = ["sex", "diagnosis"]
"""


def test_quantiles_by_group_and_tables_of_two_categories(study, table):
    nothing = ('target = "diagnosis"\n', "")
    file = parse_study(study(f"statistics\n{BY_GROUP}", "", LOUD, nothing))
    built, result = run(file, table)
    answers = {answer["name"]: answer for answer in built.present(result)["answers"]}
    tables = [table(party.records, seed) for seed, party in enumerate(file.parties)]
    sex, radius, ill = (
        np.concatenate([one.columns[name] for one in tables])
        for name in ("sex", "radius", "diagnosis")
    )
    median = [np.median(radius[sex == value]) for value in ("f", "m")]
    assert answers["median of radius by sex"]["labels"] == ["f", "m"]
    assert answers["median of radius by sex"]["value"] == pytest.approx(median, abs=0.5)
    found = answers["table of sex by diagnosis"]
    counts = [
        np.count_nonzero((sex == label.split(", ")[0]) & (ill == label.split(", ")[1]))
        for label in found["labels"]
    ]
    assert sum(counts) == len(sex)
    assert found["value"] == pytest.approx(counts, abs=0.5)


TESTS = """
[[model.questions]]
ask = "difference of means"
column = "radius"
by = "diagnosis"
between = ["malignant", "benign"]
[[model.questions]]
ask = "difference of medians"
column = "radius"
by = "diagnosis"
weight = 2.0
[[model.questions]]
ask = "difference of proportions"
column = "sex"
value = "f"
by = "diagnosis"
[[model.questions]]
ask = "chi-square"
columns = ["sex", "diagnosis"]
[[model.questions]]
ask = "fisher"
columns = ["sex", "diagnosis"]
"""


def test_tests_come_back_with_p_values_of_each_and_of_all(study, table):
    """The gap of 8 between classes is found, and nothing between sexes; see `table`."""
    nothing = ('target = "diagnosis"\n', "")
    file = parse_study(study(f"statistics\n{TESTS}", "", LOUD, nothing))
    built, result = run(file, table)
    answers = json.loads(json.dumps(built.present(result), allow_nan=False))["answers"]
    means, medians, shares, chi_square, fisher = answers
    assert means["name"] == "difference of means of radius, malignant less benign"
    assert means["value"] == pytest.approx(8, abs=0.6)
    assert medians["value"] == pytest.approx(-8, abs=0.8)
    assert "difference of proportions of sex = f, benign less malignant" in shares["name"]
    for one in (means, medians):
        assert one["test"]["p_value"] < one["test"]["adjusted_p"] < 0.01
    assert {chi_square["name"], fisher["name"]} == {
        "Cramér's V of sex by diagnosis",
        "odds ratio of sex by diagnosis (odds of benign in f divided by those in m)",
    }
    # Of one 2x2 table all three are the same hypothesis.
    p = [one["test"]["p_value"] for one in (shares, chi_square, fisher)]
    assert max(p) - min(p) < 0.12
    learns = str(explain(file))
    assert "difference of means of radius by diagnosis" in learns
    assert "fisher test of sex and diagnosis" in learns


TABLE_ONE = """
by = "sex"
mean_only = ["age"]
"""


def test_a_table_one_comes_back_by_column(study, table):
    nothing = ('target = "diagnosis"\n', "")
    file = parse_study(study(f"table-one\n{TABLE_ONE}", "", LOUD, nothing))
    built, result = run(file, table)
    shown = json.loads(json.dumps(built.present(result)))["table"]
    assert shown["columns"] == ["Overall", "f", "m"]
    rows = {row["variable"]: row for row in shown["rows"]}
    assert "sex" not in rows
    assert "quantiles" not in rows["age"]
    assert "quantiles" in rows["radius"]
    tables = [table(party.records, seed) for seed, party in enumerate(file.parties)]
    sex, age = (np.concatenate([one.columns[name] for one in tables]) for name in ("sex", "age"))
    means = [age.mean(), *(age[sex == value].mean() for value in ("f", "m"))]
    assert [one["value"] for one in rows["age"]["mean"]] == pytest.approx(means, abs=0.5)


def test_survival_curves_come_back_by_group(study, table):
    """All stages of a study whose noise vanishes: every record is an event, or censored."""
    settings = 'event = "diagnosis"\nby = "sex"\nhorizon = 90'
    file = parse_study(study(f"kaplan-meier\n{settings}", "", LOUD, TIME))
    built, found, ledgers = build(file), {}, {}
    for stage in built.stages:
        parties = []
        for seed, party in enumerate(file.parties):
            policy = Policy(party.name, Budget(2e6, 1e-4), (), file.privacy.relation)
            book = ledgers.setdefault(party.name, Ledger.in_memory(policy, ACCOUNTANT, seed=seed))
            records = built.records(table(party.records, seed), party.name, b"k" * 32)
            columns = Private(stage.columns(records, found))
            parties.append(Party(party.name, columns, book))
        result = in_process.run(stage.begun(found), parties)
        found[stage.name] = result.value
    assert list(found) == [FIRST, START, FIT]
    shown = json.loads(json.dumps(built.present(result)))["kaplan_meier"]
    assert list(shown["groups"]) == ["f", "m"]
    tables = [table(party.records, seed) for seed, party in enumerate(file.parties)]
    sex, age, ill = (
        np.concatenate([one.columns[name] for one in tables])
        for name in ("sex", "age", "diagnosis")
    )
    for value, own in shown["groups"].items():
        events = np.count_nonzero((sex == value) & (ill == "malignant") & (age <= 90))
        assert sum(own["events"]) == pytest.approx(events, abs=1)
        assert own["at_risk"][0] == pytest.approx(np.count_nonzero(sex == value), abs=1)
    assert 0 < shown["log_rank"]["p_value"] <= 1
    assert shown["log_rank"]["degrees"] == 1


def test_what_a_new_setting_leaves_out_changes_no_hash(study):
    """Questions of studies that were agreed on before quantiles had groups."""
    nothing = ('target = "diagnosis"\n', "")
    file = parse_study(study(f"statistics\n{BY_GROUP}", "", nothing))
    quantiles = file.meaning["model"]["questions"][0]
    assert quantiles["by"] == "sex"
    plain = parse_study(study(f"statistics\n{BY_GROUP.replace(_GROUPED, '')}", "", nothing))
    assert "by" not in plain.meaning["model"]["questions"][0]
    assert plain.hash != file.hash


def test_linear_weights_come_back_in_units_of_the_columns(study, table):
    """Least squares of the radius, almost without noise, finds the gap of 8 between classes."""
    text = study("linear-regression", "gradient-perturbation\nrounds = 200", NUMBER, LOUD)
    built, result = run(parse_study(text), table)
    shown = json.loads(json.dumps(built.present(result)))
    assert list(shown["weights"]) == ["age", "sex=m", "diagnosis=malignant"]
    assert shown["weights"]["diagnosis=malignant"] == pytest.approx(8, abs=1.0)
    assert "they are not effects" in shown["note"]
    assert shown["intercept"] == pytest.approx(10, abs=1.5)


def test_classes_come_back_by_name(study, table):
    text = study("logistic-regression", "gradient-perturbation\nrounds = 50", LOUD)
    built, result = run(parse_study(text), table)
    shown = built.present(result)
    assert (shown["positive"], shown["negative"]) == ("malignant", "benign")
    assert "scores for prediction, not effects or log-odds" in shown["note"]
    own = table(40, 9)
    scores = shown["intercept"] + shown["weights"]["radius"] * own.columns["radius"]
    scores = scores + shown["weights"]["age"] * own.columns["age"]
    scores = scores + shown["weights"]["sex=m"] * (own.columns["sex"] == "m")
    assert np.mean((scores > 0) == (own.columns["diagnosis"] == "malignant")) > 0.9


def test_several_classes_have_weights_each(change, table):
    three = change(('"benign", "malignant"', '"benign", "malignant", "unknown"'), LOUD)
    built, result = run(parse_study(three), table)
    assert built.study.algorithm.settings["loss"] == "multinomial"
    shown = built.present(result)
    assert list(shown["classes"]) == ["benign", "malignant", "unknown"]
    assert set(shown["classes"]["benign"]["weights"]) == {"radius", "age", "sex=m"}
    assert "scores for prediction, not effects or log-odds" in shown["note"]


def test_a_posterior_comes_back_in_units_of_the_columns(study, table):
    model = "bayesian-linear-regression\nnoise_std = 1.0\nprior_variance = 4.0"
    built, result = run(parse_study(study(model, "one-shot-regression", NUMBER, LOUD)), table)
    shown = json.loads(json.dumps(built.present(result)))
    assert shown["mean"]["diagnosis=malignant"] == pytest.approx(8, abs=0.6)
    assert shown["mean"]["intercept"] == pytest.approx(10, abs=0.8)
    assert shown["noise_aware"]
    assert shown["converged"]
    assert shown["learnt"] == dict.fromkeys(shown["mean"], True)
    assert "The noise of privacy is part of these intervals" in shown["note"]
    assert np.shape(shown["covariance"]) == (4, 4)
    assert shown["std"]["intercept"] == pytest.approx(np.sqrt(shown["covariance"][3][3]))


def test_a_coefficient_that_is_only_its_prior_is_no_estimate(study, table):
    """Epsilon 0.05 for some dozens of records."""
    quiet = ("epsilon = 1\n", "epsilon = 0.05\n")
    model = "bayesian-linear-regression\nnoise_std = 1.0"
    built, result = run(parse_study(study(model, "one-shot-regression", NUMBER, quiet)), table)
    shown = built.present(result)
    assert shown["learnt"] == dict.fromkeys(shown["mean"], False)
    assert "Nothing was learnt of" in shown["note"]
    assert "is part of these intervals" not in shown["note"]


@pytest.mark.slow
@pytest.mark.parametrize(("model", "name"), CASES)
def test_every_pair_runs_from_a_file(study, table, model, name):
    built, result = run(parse_study(text_of(study, model, name)), table)
    shown = json.loads(json.dumps(built.present(result)))
    assert (shown["model"], shown["algorithm"]) == (model, name)
    if name in ("pvi-dp-sga", "pvi-clipped-updates"):
        assert not {"std", "covariance", "learnt"} & set(shown)
        assert "No intervals" in shown["note"]
        assert "not effects or log-odds" in shown["note"]
    layered = model == "network"
    assert bool(built.arrays(result)) == layered
    if layered:
        assert built.arrays(result)["dense0.weights"].shape == (built.study.facts.features, 3)


@pytest.mark.parametrize(("model", "name"), CASES)
def test_a_record_that_cannot_be_read_adds_nothing_and_spoils_nothing(
    study, model, name, table, monkeypatch
):
    """In every algorithm a party with such a record answers, bit for bit, as if it were absent; a
    local minimum is still divided by the public number of records, as if its row were zero."""
    monkeypatch.setattr(building, "secret_order", lambda records, *_: np.arange(records))
    built = built_once(text_of(study, model, name))
    facts, own = built.study.facts, table(40)
    broken = {column: np.array(cells, object) for column, cells in own.columns.items()}
    for cells in broken.values():
        cells[0] = "unknown"
    with pytest.warns(UnreadValues):
        unread = built.columns(replace(own, columns=broken), "north")
    read = built.columns(own, "north")
    server, party = built.study.algorithm.init(facts)
    public = built.study.algorithm.ask(server)
    there, size = np.arange(facts.places) < 40, np.int32(facts.records[0])
    if built.study.algorithm.inside is not None:  # no noise inside the objective
        party = np.zeros(built.study.algorithm.dimension)

    @jax.jit
    def answer(data, mask):
        return built.study.algorithm.local(facts, public, party, data, mask, size)[1].value

    def placed(arrays):
        rest = facts.places - 40
        return tuple(np.pad(a, [(0, rest)] + [(0, 0)] * (a.ndim - 1)) for a in arrays)

    first = np.arange(facts.places) == 0
    without = np.asarray(answer(placed(read), there & ~first))
    if name in ("output-perturbation", "objective-perturbation"):
        rows, labels = placed(read)
        without = np.asarray(answer((np.where(first[:, None], 0, rows), labels * ~first), there))
    told, whole = (np.asarray(answer(placed(one), there)) for one in (unread, read))
    if name == "survival-table":  # its last cell counts the incomplete records
        cell = 2 if model == "kaplan-meier" else 1  # a count, and of curves the place
        assert told[-cell] > without[-cell] == 0
        told, without, whole = told[:-cell], without[:-cell], whole[:-cell]
    assert np.array_equal(told, without)
    assert not np.array_equal(whole, without)


def test_a_network_is_refused_before_anything_of_its_size_is_made(study, monkeypatch):
    """3.6 thousand million parameters would take 27 GB; the first array is never asked for."""
    made = []
    monkeypatch.setattr(network, "first_parameters", lambda *size: made.append(size))
    with pytest.raises(InvalidInput) as caught:
        build(parse_study(study("network\nhidden = [60000, 60000]", "dp-sgd")))
    assert "line 41: dp-sgd: hidden = [60000, 60000] makes 3,600," in str(caught.value)
    assert "at most 10,000,000" in str(caught.value)
    assert not made


@pytest.mark.parametrize(
    ("model", "algorithm", "place"),
    [
        (f"network\nhidden = [{'1, ' * 33}]", "dp-sgd", "model.hidden"),
        ("network\nhidden = [1_000_001]", "dp-sgd", r"model.hidden\[1\]"),
        (
            "logistic-regression",
            "gradient-perturbation\nrounds = 10_000_000_000",
            "algorithm.rounds",
        ),
    ],
)
def test_numbers_that_would_become_vast_arrays_are_refused_in_the_file(
    study, model, algorithm, place
):
    with pytest.raises(InvalidInput, match=place):
        parse_study(study(model, algorithm))


@pytest.mark.parametrize(
    ("model", "ends"), [("glm", (-40.0, 140.0)), ("linear-regression", (20.0, 80.0))]
)
def test_ranges_of_models_that_a_clip_would_bias_are_moved_outward(model, ends):
    text = PRIVATE_BOUNDS.replace("MODEL", model)
    built = build(parse_study(text))
    found = Range(20.0, 45.0, 80.0)
    released = SimpleNamespace(study=built.bounds.study, read=lambda value: {"age": found})
    known = replace(built, bounds=released).bounded({BOUNDS: None})
    assert known.ranges["age"].bounds == ends
    assert known.known_file.data.columns["age"].span == ends
