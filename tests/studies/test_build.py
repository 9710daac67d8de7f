"""Every algorithm of the registry builds a study from a file, the same one everywhere."""

import json
import os
import subprocess
import sys
import typing
from dataclasses import replace
from functools import cache

import jax
import numpy as np
import pytest
from unisono.studies.layered import first_parameters
from unisono.studies.plan import rounded

from unisono.accounting.accountant import ACCOUNTANT
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.study import Party
from unisono.core.values import Private
from unisono.data import UnreadValues
from unisono.engines import in_process
from unisono.errors import InvalidInput, LargeDeltaWarning
from unisono.studies import layered, plan, settings
from unisono.studies.build import BUILDERS, build
from unisono.studies.file import parse_study

QUESTIONS = """
[[algorithm.questions]]
ask = "mean"
column = "age"
by = "sex"
[[algorithm.questions]]
ask = "variance"
column = "age"
by = "sex"
[[algorithm.questions]]
ask = "sum"
column = "radius"
weight = 2.0
[[algorithm.questions]]
ask = "histogram"
column = "radius"
bins = 5
[[algorithm.questions]]
ask = "histogram"
column = "sex"
[[algorithm.questions]]
ask = "quantiles"
column = "radius"
levels = [0.25, 0.5]
[[algorithm.questions]]
ask = "count"
column = "diagnosis"
value = "malignant"
[[algorithm.questions]]
ask = "proportion"
column = "sex"
value = "f"
"""
NO_TARGET = ('target = "diagnosis"\n', "")
NUMBER = ('target = "diagnosis"', 'target = "radius"')
LOCAL = ('"secure-sum"', '"local"')
PARTY = ('unit = "record"\nrelation = "replace-one"', 'unit = "party"\nrelation = "zero-out"')
FEWER = [('sex = { kind = "category", values = ["f", "m"] }\n', ""),
         ('diagnosis = { kind = "category", values = ["benign", "malignant"] }\n', "")]  # fmt: skip
SMALL = "rounds = 3\nhidden = [3]"
CASES = {
    "statistics": (QUESTIONS, NO_TARGET),
    "k-means": ("clusters = 2", NO_TARGET, *FEWER),
    "gradient-perturbation": ("rounds = 20",),
    "dp-sgd-convex": ("rounds = 5\nrate = 0.5",),
    "output-perturbation": ("",),
    "sgd-synchronous": ('rounds = 5\nloss = "squares"', NUMBER),
    "dp-sgd": (SMALL,),
    "local-dp-sgd": (SMALL + "\nsteps = 2", LOCAL),
    "dp-ftrl": (SMALL, NUMBER),
    "fed-avg": (SMALL, PARTY, ("epsilon = 1\n", "epsilon = 8\n")),
    "one-shot-regression": ("noise_std = 2.0", NUMBER),
    "pvi-natural-gradient": ("rounds = 4",),
    "pvi-dp-sga": ("rounds = 2\nsteps = 2", LOCAL),
    "pvi-clipped-updates": ("rounds = 2", PARTY),
}


def file_of(algorithm, name):
    more, *pairs = CASES[name]
    return parse_study(algorithm(name, more, *pairs))


@cache
def built_once(text):
    """Networks take seconds to build: tests share them."""
    return build(parse_study(text))


def test_the_registry_is_complete():
    union = typing.get_args(typing.get_args(settings.Settings)[0])
    named = {typing.get_args(one.model_fields["name"].annotation)[0] for one in union}
    assert named == set(BUILDERS) == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_every_algorithm_builds_the_study_that_the_file_says(algorithm, name, table):
    more, *pairs = CASES[name]
    built = built_once(algorithm(name, more, *pairs))
    file, facts = built.file, built.study.facts
    assert built.study.algorithm.name == name
    assert facts.records == (40, 50, 40)
    assert (facts.minimum_survivors, facts.colluders, facts.retries) == (3, 1, 0)
    assert built.study.trust is file.trust.mode
    for event in built.study.algorithm.events(facts, file.trust.mode):
        assert event.sensitivity.unit is file.privacy.unit
    agreed = built.study.algorithm.settings  # where a study finds the delta that it warns of
    assert agreed.get("privacy", agreed)["delta"] == file.privacy.delta
    # What the file promises is what every viewer but the party's neighbours pays, and no less.
    history = built.study.cost["iterates"]
    relation, privacy = file.privacy.relation, file.privacy
    assert ACCOUNTANT.fits(history, relation, privacy.epsilon * (1 + 1e-9), privacy.delta)
    assert not ACCOUNTANT.fits(history, relation, 0.9 * privacy.epsilon, privacy.delta)
    columns = built.columns(table(40), "north")
    assert all(len(column) == 40 and column.dtype == np.float32 for column in columns)
    assert columns[0].shape == (40, facts.features)
    assert np.abs(columns[0]).max() <= (120 if len(columns) == 1 else 1)


def test_equal_files_build_equal_studies_in_another_process(algorithm):
    """Another process, with other hash seeds, other flags of the compiler and 64-bit defaults."""
    names = ["statistics", "gradient-perturbation", "pvi-natural-gradient", "dp-sgd"]
    texts = [algorithm(name, CASES[name][0], *CASES[name][1:]) for name in names]
    code = (
        "import json, sys\n"
        "from unisono.studies.build import build\n"
        "from unisono.studies.file import parse_study\n"
        "files = [parse_study(text) for text in json.load(sys.stdin)]\n"
        "print(json.dumps([[file.hash, build(file).study.hash] for file in files]))\n"
    )
    surroundings = {"PYTHONHASHSEED": "7", "XLA_FLAGS": "", "JAX_ENABLE_X64": "1"}
    answer = subprocess.run(
        [sys.executable, "-c", code], input=json.dumps(texts), capture_output=True, text=True,
        check=True, timeout=120, env={**os.environ, **surroundings},
    )  # fmt: skip
    mine = [[built_once(text).file.hash, built_once(text).study.hash] for text in texts]
    assert json.loads(answer.stdout) == mine
    assert len({study for _, study in mine}) == len(names)


def test_settings_and_facts_reach_the_study(algorithm, change):
    first = build(parse_study(change())).study.hash
    for pair in (("rounds = 20", "rounds = 21"), ("records = 50", "records = 51"),
                 ("retries = 0", "retries = 2"), ("epsilon = 1", "epsilon = 1.1")):  # fmt: skip
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


def test_what_an_algorithm_refuses_is_an_error_of_the_file(algorithm):
    with pytest.raises(InvalidInput, match=r"line 37: pvi-dp-sga: .*cannot run with trust"):
        build(parse_study(algorithm("pvi-dp-sga")))
    with pytest.raises(InvalidInput, match=r"study.toml line 34: k-means: delta = 0"):
        build(parse_study(algorithm("k-means", "clusters = 2", NO_TARGET, *FEWER,
                                    ("delta = 1e-4", "delta = 0"))))  # fmt: skip
    twice = "[[algorithm.questions]]\nask = 'mean'\ncolumn = 'age'\n" * 2
    with pytest.raises(InvalidInput, match="the mean of 'age' is asked for twice"):
        build(parse_study(algorithm("statistics", twice, NO_TARGET)))


def test_a_large_delta_warns(change):
    with pytest.warns(LargeDeltaWarning):
        build(parse_study(change(("delta = 1e-4", "delta = 0.01"))))


def test_hidden_sizes_and_pure_epsilon(algorithm):
    hidden = (('sizes = "exact"', 'sizes = "hidden"'), ('"replace-one"', '"add-or-remove"'))
    study = build(parse_study(algorithm("gradient-perturbation", "", *hidden))).study
    assert not study.facts.exact_sizes
    pure = build(parse_study(algorithm("output-perturbation", "", ("delta = 1e-4", "delta = 0"))))
    assert pure.study.algorithm.privacy.delta == 0


# ------------------------------------------------------------- results


def run(file, table):
    built = build(file)
    privacy = file.privacy
    parties = [
        Party(
            party.name, Private(built.columns(table(party.records, seed), party.name)),
            Ledger.in_memory(
                Policy(party.name, Budget(2e6, privacy.delta), (), privacy.relation, privacy.unit),
                ACCOUNTANT, seed=seed,
            ),
        )
        for seed, party in enumerate(file.parties)
    ]  # fmt: skip
    return built, in_process.run(built.study, parties)


LOUD = ("epsilon = 1\n", "epsilon = 2e3\n")


def test_statistics_come_back_by_name(algorithm, table):
    """Epsilon so large that noise vanishes: answers are those of the records."""
    more, *pairs = CASES["statistics"]
    file = parse_study(algorithm("statistics", more, *pairs, LOUD))
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


def test_linear_weights_come_back_in_units_of_the_columns(algorithm, table):
    """Least squares of the radius, almost without noise, finds the gap of 8 between classes."""
    more = 'loss = "squares"\nrounds = 200'
    built, result = run(parse_study(algorithm("gradient-perturbation", more, NUMBER, LOUD)), table)
    shown = json.loads(json.dumps(built.present(result)))
    assert list(shown["weights"]) == ["age", "sex=m", "diagnosis=malignant"]
    assert shown["weights"]["diagnosis=malignant"] == pytest.approx(8, abs=1.0)
    assert "they are not effects" in shown["note"]
    assert shown["intercept"] == pytest.approx(10, abs=1.5)


def test_classes_come_back_by_name(algorithm, table):
    built, result = run(parse_study(algorithm("gradient-perturbation", "rounds = 50", LOUD)), table)
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


def test_a_posterior_comes_back_in_units_of_the_columns(algorithm, table):
    file = parse_study(
        algorithm("one-shot-regression", "noise_std = 1.0\nprior_variance = 4.0", NUMBER, LOUD)
    )
    built, result = run(file, table)
    shown = json.loads(json.dumps(built.present(result)))
    assert shown["mean"]["diagnosis=malignant"] == pytest.approx(8, abs=0.6)
    assert shown["mean"]["intercept"] == pytest.approx(10, abs=0.8)
    assert shown["noise_aware"]
    assert shown["converged"]
    assert shown["learnt"] == dict.fromkeys(shown["mean"], True)
    assert "The noise of privacy is part of these intervals" in shown["note"]
    assert np.shape(shown["covariance"]) == (4, 4)
    assert shown["std"]["intercept"] == pytest.approx(np.sqrt(shown["covariance"][3][3]))


def test_a_coefficient_that_is_only_its_prior_is_no_estimate(algorithm, table):
    """Epsilon 0.05 for some dozens of records."""
    quiet = ("epsilon = 1\n", "epsilon = 0.05\n")
    file = parse_study(algorithm("one-shot-regression", "noise_std = 1.0", NUMBER, quiet))
    built, result = run(file, table)
    shown = built.present(result)
    assert shown["learnt"] == dict.fromkeys(shown["mean"], False)
    assert "Nothing was learnt of" in shown["note"]
    assert "is part of these intervals" not in shown["note"]


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_every_algorithm_runs_from_a_file(algorithm, table, name):
    built, result = run(file_of(algorithm, name), table)
    shown = json.loads(json.dumps(built.present(result)))
    assert shown["algorithm"] == name
    if name in ("pvi-dp-sga", "pvi-clipped-updates"):
        assert not {"std", "covariance", "learnt"} & set(shown)
        assert "No intervals" in shown["note"]
        assert "not effects or log-odds" in shown["note"]
    layered = name in ("dp-sgd", "local-dp-sgd", "dp-ftrl", "fed-avg")
    assert bool(built.arrays(result)) == layered
    if layered:
        assert built.arrays(result)["dense0.weights"].shape == (built.study.facts.features, 3)


@pytest.mark.parametrize("name", CASES)
def test_a_record_that_cannot_be_read_adds_nothing_and_spoils_nothing(
    algorithm, name, table, monkeypatch
):  # fmt: skip
    """In every algorithm a party with such a record answers, bit for bit, as if it were absent; a
    local minimum is still divided by the public number of records, as if its row were zero."""
    monkeypatch.setattr(plan, "secret_order", lambda records, *_: np.arange(records))
    more, *pairs = CASES[name]
    built = built_once(algorithm(name, more, *pairs))
    facts, own = built.study.facts, table(40)
    broken = {column: np.array(cells, object) for column, cells in own.columns.items()}
    for cells in broken.values():
        cells[0] = "unknown"
    with pytest.warns(UnreadValues):
        unread = built.columns(replace(own, columns=broken), "north")
    read = built.columns(own, "north")
    server, party = built.study.algorithm.init(facts)
    public = built.study.algorithm.ask(server)
    there = np.arange(facts.places) < 40

    @jax.jit
    def answer(data, mask):
        return built.study.algorithm.local(facts, public, party, data, mask)[1].value

    def placed(arrays):
        rest = facts.places - 40
        return tuple(np.pad(a, [(0, rest)] + [(0, 0)] * (a.ndim - 1)) for a in arrays)

    first = np.arange(facts.places) == 0
    without = np.asarray(answer(placed(read), there & ~first))
    if name == "output-perturbation":
        rows, labels = placed(read)
        without = np.asarray(answer((np.where(first[:, None], 0, rows), labels * ~first), there))
    assert np.array_equal(np.asarray(answer(placed(unread), there)), without)
    assert not np.array_equal(np.asarray(answer(placed(read), there)), without)


NETWORK = 'name = "dp-sgd"\nrounds = 20\nhidden = '


def test_a_network_is_refused_before_anything_of_its_size_is_made(change, monkeypatch):
    """3.6 thousand million parameters would take 27 GB; the first array is never asked for."""
    made = []
    monkeypatch.setattr(layered, "first_parameters", lambda *size: made.append(size))
    text = change(('name = "gradient-perturbation"\nrounds = 20', f"{NETWORK}[60000, 60000]"))
    with pytest.raises(InvalidInput) as caught:
        build(parse_study(text))
    assert "line 37: dp-sgd: hidden = [60000, 60000] makes 3,600," in str(caught.value)
    assert "at most 10,000,000" in str(caught.value)
    assert not made


@pytest.mark.parametrize(
    ("algorithm", "place"),
    [
        (f"{NETWORK}[{'1, ' * 33}]", "algorithm.hidden"),
        (f"{NETWORK}[1_000_001]", r"algorithm.hidden\[1\]"),
        ('name = "gradient-perturbation"\nrounds = 10_000_000_000', "algorithm.rounds"),
    ],
)
def test_numbers_that_would_become_vast_arrays_are_refused_in_the_file(change, algorithm, place):
    with pytest.raises(InvalidInput, match=place):
        parse_study(change(('name = "gradient-perturbation"\nrounds = 20', algorithm)))
