"""Predictions from public facts: the noise that will be drawn, and what it will cost.

Seeds are fixed; the false-alarm rate of a test that runs studies is stated with it.
"""

import math
from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest
from scipy.linalg import toeplitz

from unisono.accounting.accountant import ACCOUNTANT
from unisono.accounting.matrix_mechanism import optimised
from unisono.algorithms.descent import signal
from unisono.algorithms.registry import OWN, algorithm_named
from unisono.cli.plan_studies import PlanRequest, candidate, candidates, document, prediction
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.privacy import Privacy
from unisono.core.study import Party
from unisono.core.trust import SERVER, Trust, Unit
from unisono.core.values import Private
from unisono.data.encoding import Frame
from unisono.engines import in_process
from unisono.errors import InvalidInput
from unisono.models.fitted import features_of
from unisono.models.registry import algorithms_for, model_named
from unisono.planning import noise
from unisono.planning.alone import both, fewer_records
from unisono.planning.laws import FEWER_RECORDS, Band, Runs, UtilityLaw, band, fit, holds
from unisono.planning.noise import noise_of
from unisono.planning.posteriors import width_of
from unisono.planning.predict import predict
from unisono.planning.tasks import Task
from unisono.planning.verdicts import HEADROOM, Grade, headroom, limits, verdict

CLASSES = PlanRequest(Task.CLASSIFICATION, (300, 400, 350), 10, 2)
# Enough budget that something is learnt: without it every width is the prior's.
POSTERIOR = replace(CLASSES, task=Task.POSTERIOR)
MEAN = PlanRequest(Task.MEAN, (300, 400, 350), bounds=(0.0, 120.0))
SMALL = PlanRequest(Task.REGRESSION, (200, 200, 200), 3, epsilon=8.0)
LEARNT = (Task.CLASSIFICATION, Task.REGRESSION, Task.NETWORK)
MODELS = {
    Task.CLASSIFICATION: model_named("logistic-regression"),
    Task.REGRESSION: model_named("linear-regression"),
    Task.NETWORK: model_named("network"),
}
UNMEASURED = {"objective-perturbation", "sgd-sequential"}
FAST = ("gradient-perturbation", "output-perturbation", "sgd-synchronous")


def built(request, name, trust=Trust.SECURE_SUM):
    found = candidate(document(request, name, trust))
    assert found.built is not None, found.reason
    return found


def likely(request, name, trust=Trust.SECURE_SUM):
    return prediction(request, built(request, name, trust)).likely


def run(made, values, seed):
    """A simulated run on the same records at every party."""
    trusted = made.study.trust is Trust.TRUSTED_SERVER
    columns = tuple(np.asarray(c, np.float32) for c in made.posed.encode(values))
    parties = []
    for number, party in enumerate(made.file.parties):
        policy = Policy(
            party.name,
            Budget(1e3, made.file.privacy.delta),
            ((SERVER, Budget(math.inf, 0.0)),) if trusted else (),
            relation=made.file.privacy.relation,
        )
        ledger = Ledger.in_memory(policy, ACCOUNTANT, seed=1000 * seed + number)
        parties.append(Party(party.name, Private(columns), ledger))
    return in_process.run(made.study, parties)


# ------------------------------------------------------------- noise


@pytest.mark.parametrize("trust", Trust)
@pytest.mark.parametrize("name", ["gradient-perturbation", "dp-sgd-convex"])
def test_the_ratio_is_the_signal_that_learning_rates_follow(name, trust):
    """Another module computes q by hand; noise from the event agrees but for the grid."""
    study = built(CLASSES, name, trust).built.study
    q = signal(study.facts, trust, Privacy(1.0, 1e-6), 11)
    assert noise_of(study).total == pytest.approx(q, rel=0.02)


@pytest.mark.parametrize("trust", Trust)
def test_noise_comes_from_the_event_that_will_be_paid_for(trust):
    study = built(CLASSES, "gradient-perturbation", trust).built.study
    event = study.algorithm.event(study.facts, trust)
    copies = {Trust.LOCAL: 3, Trust.SECURE_SUM: 3 / 2, Trust.TRUSTED_SERVER: 1}[trust]
    found = noise_of(study)
    assert found.scale == event.noise.std
    assert found.std == pytest.approx(event.noise.std * math.sqrt(copies), rel=1e-3)


def test_pure_epsilon_is_planned_too():
    for trust in Trust:
        found = built(replace(CLASSES, delta=0.0, colluders=1), "output-perturbation", trust)
        assert noise_of(found.built.study).kind in ("NormNoise", "Laplace")


def test_correlated_noise_counts_as_what_is_left_of_it():
    """One band is independent noise; more bands leave less of it in the sum of all rounds."""
    assert noise._remaining({"coefficients": [4096]}, 40) == 1
    found = np.round(4096 * optimised(10, 40, 10, 0.0)).astype(int).tolist()
    matrix = toeplitz(np.pad(np.array(found) / 4096, (0, 30)), np.zeros(40))
    sums = np.linalg.inv(matrix).sum(axis=0)  # of the noise of all rounds, by its first round
    assert noise._remaining({"coefficients": found}, 40) == pytest.approx(
        np.linalg.norm(sums) / math.sqrt(40)
    )
    assert 0.1 < noise._remaining({"coefficients": found}, 40) < 0.9


# ------------------------------------------------------------- means


def test_the_standard_error_of_a_mean_is_exact():
    """Errors of 4 x 10 means have the predicted spread (chi-square of 40: false alarm 1e-4)."""
    request = replace(MEAN, records=(100,) * 3, features=10)
    made = built(request, "statistics")
    expected = prediction(request, made).answers
    values = {f"x{n}": np.linspace(0, 120, 100) for n in range(1, 11)}
    ratios = []
    for seed in range(4):
        shown = made.built.posed.present(made.built.study, run(made.built, values, seed))
        for one, other in zip(expected, shown["answers"], strict=True):
            assert one.name == other["name"]
            ratios.append((other["value"] - 60) / one.error)
    low, high = shown["answers"][0]["interval"]
    # The noise of the count by which it is divided differs from run to run.
    assert (high - low) / 2 == pytest.approx(expected[0].margin, rel=0.3)
    assert 0.6 < float(np.sqrt(np.mean(np.square(ratios)))) < 1.45


def test_the_standard_error_does_not_depend_on_made_up_records():
    """By hand: with Gaussian noise σ on Σ u the mean of a range of width w errs by σ w / (2 n)."""
    found = built(MEAN, "statistics", Trust.TRUSTED_SERVER)
    std = noise_of(found.built.study).std
    assert prediction(MEAN, found).likely == pytest.approx(std * 60 / 1050, rel=1e-6)


def test_every_answer_of_a_survey_is_predicted():
    said = document(MEAN, "statistics", Trust.SECURE_SUM)
    said["data"]["columns"]["sex"] = {"kind": "category", "values": ["f", "m"]}
    said["model"]["questions"] = [
        {"ask": "mean", "column": "x1"},
        {"ask": "count", "column": "sex", "value": "f"},
        {"ask": "variance", "column": "x1"},
        {"ask": "histogram", "column": "sex"},
    ]
    found = prediction(MEAN, candidate(said))
    names = [one.name for one in found.answers]
    assert names == ["mean of x1", "variance of x1", "count of sex = f", "histogram of sex"]
    for one in found.answers:
        assert 0 < one.error < one.margin
    assert found.answers[2].value == pytest.approx(525)


def test_widths_of_tests_are_predicted():
    said = document(MEAN, "statistics", Trust.SECURE_SUM)
    said["data"]["columns"]["sex"] = {"kind": "category", "values": ["f", "m"]}
    said["data"]["columns"]["ill"] = {"kind": "category", "values": ["no", "yes"]}
    said["model"]["questions"] = [
        {"ask": "difference of means", "column": "x1", "by": "sex"},
        {"ask": "difference of proportions", "column": "ill", "value": "yes", "by": "sex"},
        {"ask": "chi-square", "columns": ["sex", "ill"]},
    ]
    for one in prediction(MEAN, candidate(said)).answers:
        assert 0 < one.margin < 100


# ------------------------------------------------------------- monotone, and in order of trust


@pytest.mark.parametrize(
    ("task", "name"),
    [(Task.CLASSIFICATION, name) for name in FAST] + [(Task.REGRESSION, "sgd-synchronous")],
)
def test_more_budget_and_more_records_lose_less(task, name):
    request = PlanRequest(task, (300,) * 4, 10, 2 if task is Task.CLASSIFICATION else 0)
    over_epsilon = [likely(replace(request, epsilon=e), name) for e in (0.1, 0.5, 1.0, 4.0)]
    over_records = [likely(replace(request, records=(n,) * 4), name) for n in (100, 300, 3000)]
    over_parties = [likely(request.crowd(times), name) for times in (1, 2, 8)]
    over_features = [likely(replace(request, features=d), name) for d in (40, 10, 3)]
    for losses in (over_epsilon, over_records, over_parties, over_features):
        assert losses == sorted(losses, reverse=True)
        assert losses[0] > losses[-1]


@pytest.mark.parametrize(
    ("planned", "names"),
    [
        (MEAN, ["statistics"]),
        (CLASSES, ["gradient-perturbation", "dp-sgd-convex", "output-perturbation"]),
        (replace(POSTERIOR, classes=0), ["one-shot-regression"]),
        (POSTERIOR, ["pvi-natural-gradient", "pvi-clipped-updates"]),
    ],
    ids=["mean", "classification", "regression posterior", "classes posterior"],
)
def test_less_trust_never_loses_less(planned, names):
    for name in names:
        losses = [likely(planned, name, trust) for trust in Trust]
        assert losses[0] > losses[1] > losses[2]


def test_more_colluders_cost_more():
    losses = [
        likely(replace(CLASSES, records=(300,) * 6, colluders=count), "gradient-perturbation")
        for count in (0, 2, 4)
    ]
    assert losses == sorted(losses)
    assert losses[0] < losses[2]


def test_what_cannot_run_has_a_reason():
    found = {(one.algorithm, one.trust): one for one in candidates(replace(CLASSES, delta=0.0))}
    assert found["gradient-perturbation", Trust.LOCAL].built is None
    assert "delta" in found["gradient-perturbation", Trust.LOCAL].reason
    assert found["output-perturbation", Trust.LOCAL].built is not None
    assert {one.unit for one in found.values()} == {Unit.RECORD, Unit.PARTY}


# ------------------------------------------------------------- laws


def made_up(law, spread, count, seed):
    """Runs of a law whose odds scatter by this much."""
    generator = np.random.default_rng(seed)
    ratios = np.exp(generator.uniform(0, 3, count))
    odds = np.exp(generator.normal(0, spread, count)) * (ratios / law.half) ** -law.power
    return Runs(ratios, [2] * count, 0.5 * odds / (1 + odds), [0.0] * count)


def test_laws_are_found_again_from_their_own_runs():
    """Two algorithms of different scatter: each has its line and its spread, and together the bands
    hold nineteen of twenty runs, as narrowly as that goes (of a normal of 0.5, 1.96 * 0.5)."""
    calm, wild = UtilityLaw(3.0, 1.2, 0.0, 0.0), UtilityLaw(8.0, 0.9, 0.0, 0.0)
    runs = {"calm": made_up(calm, 0.5, 150, 0), "wild": made_up(wild, 1.0, 150, 1)}
    found = fit(runs)
    for name, law in (("calm", calm), ("wild", wild)):
        assert found[name].half == pytest.approx(law.half, rel=0.2)
        assert found[name].power == pytest.approx(law.power, rel=0.15)
    assert found["calm"].below + found["calm"].above == pytest.approx(1.96, abs=0.4)
    assert found["wild"].above == pytest.approx(2 * found["calm"].above, rel=0.2)
    inside = [
        holds(found[name], *run) for name, own in runs.items() for run in zip(*own, strict=True)
    ]
    assert 0.95 <= np.mean(inside) < 0.97


def test_few_runs_at_one_ratio_do_not_turn_a_law_around():
    """Ten runs that happen to lose more at larger ratios: more signal still costs less."""
    ratios = np.linspace(10, 12, 10)
    lost = np.linspace(0.2, 0.3, 10)
    assert fit({"one": Runs(ratios, [2] * 10, lost, [0.0] * 10)})["one"].power > 0.5


def test_laws_are_complete_and_end_in_guessing():
    """Every algorithm for a task has a law, but those whose use is said here to be unmeasured."""
    assert {task for kind in OWN for task in kind.laws} == {str(task) for task in LEARNT}
    for task in LEARNT:
        request = PlanRequest(task, (10, 10), 2, 2)
        able = {kind.name for kind in algorithms_for(MODELS[task])}
        own = {kind.name: kind.laws[task] for kind in OWN if task in kind.laws}
        assert set(own) == set(request.algorithms)
        assert able - set(own) <= UNMEASURED
        for law in own.values():
            drowning = band(law, 1e-9, 4)
            assert drowning.low <= drowning.likely <= drowning.high <= 0.75
            assert drowning.likely > 0.7
            assert band(law, 1e60, 4).high < 0.02


def test_what_nobody_has_measured_is_not_predicted(study_of):
    iterated = study_of("bayesian-linear-regression", "iterated-regression")
    with pytest.raises(InvalidInput, match="how wide the posteriors of iterated-regression get"):
        predict(iterated, Task.POSTERIOR)
    objective = study_of("logistic-regression", "objective-perturbation")
    with pytest.raises(InvalidInput, match="what noise costs objective-perturbation in a class"):
        predict(objective, Task.CLASSIFICATION, 2)


@pytest.fixture
def study_of():
    """A study of the registries' defaults, whether or not it is planned."""

    def made(model, name):
        classes = 0 if model == "bayesian-linear-regression" else 2
        request = PlanRequest(Task.CLASSIFICATION, (300, 300), 3, classes)
        said = document(request, "gradient-perturbation", Trust.LOCAL)
        said |= {"model": {"name": model}, "algorithm": {"name": name}}
        return candidate(said).built.study

    return made


# ------------------------------------------------------------- predictions hold


SIZES = (400, 120, 60, 20)  # unequal parties
TABLES = ("even", "skewed", "categories")


def _table(kind, seed, records):
    """Columns as a study declares them, and records: even numbers, skewed ones that fill a small
    part of their bounds, or categories of unequal frequency."""
    random = np.random.default_rng([seed, len(kind)])
    columns, values, scores = {}, {}, np.zeros(records)
    for place in range(5):
        if kind == "categories":
            levels = 2 + 2 * place
            values[f"x{place}"] = np.minimum(random.geometric(0.4, records) - 1, levels - 1) * 1.0
            names = [f"v{level}" for level in range(levels)]
            columns[f"x{place}"] = {"kind": "category", "values": names}
            scores += np.random.default_rng(place).normal(size=levels)[
                values[f"x{place}"].astype(int)
            ]
            continue
        low, high = (-1.0, 1.0) if kind == "even" else (0.0, 60.0)
        drawn = random.uniform(-1, 1, records) if kind == "even" else random.normal(size=records)
        seen = drawn if kind == "even" else np.minimum(np.exp(drawn), high)
        values[f"x{place}"], scores = seen, scores + (place - 1.5) * drawn
        columns[f"x{place}"] = {"kind": "number", "bounds": (low, high)}
    chances = 1 / (1 + np.exp(-3 * (scores - np.median(scores)) / scores.std()))
    values["y"] = (random.random(records) < chances).astype(float)
    columns["y"] = {"kind": "category", "values": ["no", "yes"]}
    return columns, values


def planned_and_run(kind, epsilon, seed, sizes=SIZES):
    """What `plan` says of a study by what auto takes, and what a run of it then lost."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    total = sum(sizes)
    columns, values = _table(kind, seed, total + 3000)
    request = PlanRequest(Task.CLASSIFICATION, sizes, len(columns) - 1, 2, epsilon=epsilon)
    said = document(request, "auto", Trust.SECURE_SUM)
    said["data"]["columns"] = columns
    found = candidate(said)
    made = found.built
    ends = np.cumsum([0, *sizes])
    parts = [
        {key: own[low:high] for key, own in values.items()}
        for low, high in pairwise(map(int, ends))
    ]
    study = made.study
    if made.start is not None:
        first = in_process.run(made.start.study, list(parties(made, made.start.posed, parts, seed)))
        study = study.begun(first.value)
    result = in_process.run(study, list(parties(made, made.posed, parts, seed)))
    frame = Frame(made.file.data)
    fresh = {key: own[total:] for key, own in values.items()}
    learnt = {key: own[:total] for key, own in values.items()}
    predicted = made.posed.prediction(study, result)
    guesses = predicted.predict(predicted.rows(features_of(made.file.data, predicted), fresh))
    scale = StandardScaler().fit(frame.rows(learnt))
    plain = LogisticRegression().fit(scale.transform(frame.rows(learnt)), learnt["y"])
    accuracy = plain.score(scale.transform(frame.rows(fresh)), fresh["y"])
    return prediction(request, found), accuracy - np.mean(guesses == fresh["y"])


def parties(made, posed, parts, seed):
    for number, (party, part) in enumerate(zip(made.file.parties, parts, strict=True)):
        policy = Policy(party.name, Budget(1e3, made.file.privacy.delta))
        ledger = Ledger.in_memory(policy, ACCOUNTANT, seed=1000 * seed + number)
        columns = tuple(np.asarray(c, np.float32) for c in posed.encode(part))
        yield Party(party.name, Private(columns), ledger)


def test_what_was_planned_is_what_happened():
    """Six studies by what auto takes, of even and skewed numbers and of categories, with unequal
    parties: at least four lie in their bands (false alarm 1.6 % if a band holds 90 %)."""
    inside = []
    for seed, (kind, epsilon) in enumerate(product(TABLES, (1.0, 8.0))):
        planned, lost = planned_and_run(kind, epsilon, seed)
        assert planned.algorithm == "preconditioned-gradients"
        law = algorithm_named(planned.algorithm).laws[Task.CLASSIFICATION]
        inside.append(holds(law, planned.noise.total, 2, lost))
    assert sum(inside) >= 4, inside


def test_bands_are_not_so_wide_that_they_say_nothing():
    """At epsilon 8 a thousand records lose little, at 0.1 much: the bands do not overlap."""
    request = replace(CLASSES, epsilon=8.0)
    well = prediction(request, built(request, "preconditioned-gradients")).band
    badly = prediction(
        replace(CLASSES, epsilon=0.1),
        built(replace(CLASSES, epsilon=0.1), "preconditioned-gradients"),
    ).band
    assert well.high < badly.low
    assert well.high - well.low < 0.2


def test_fewer_records_lose_more_without_noise():
    for task, classes in ((Task.CLASSIFICATION, 2), (Task.REGRESSION, 0), (Task.NETWORK, 2)):
        losses = [
            band(FEWER_RECORDS[task], n / 11, classes).likely for n in (20, 200, 2000, 20_000)
        ]
        assert losses == sorted(losses, reverse=True)
        assert losses[-1] < 0.02
    assert fewer_records(Task.CLASSIFICATION, 100, 100, 5, 2) == Band(0.0, 0.0, 0.0)


def test_what_noise_and_few_records_cost_adds_up_to_no_more_than_everything():
    half = Band(0.1, 0.25, 0.4)
    found = both(half, half, 2)
    assert found.likely == pytest.approx(0.375)  # half, and half of the other half, of 0.5
    assert half.high < found.high < 0.5
    assert both(Band(0.0, 0.0, 0.0), half, 2) == pytest.approx(half)


def test_the_width_of_a_posterior_is_as_predicted():
    """One run of 3 x 200 even records: widths of slopes are within a fifth of the prediction."""
    request = replace(SMALL, task=Task.POSTERIOR)
    found = built(request, "one-shot-regression")
    expected = prediction(request, found)
    generator = np.random.default_rng(1)
    values = {f"x{n}": generator.uniform(-1, 1, 200) for n in (1, 2, 3)}
    values["y"] = np.clip(0.2 * values["x1"] + generator.uniform(-0.5, 0.5, 200), -1, 1)
    shown = found.built.posed.present(found.built.study, run(found.built, values, 5))
    width = width_of(found.built.study, expected.noise)
    assert width.plain == pytest.approx(1 / math.sqrt(1 / 9 + 600 / 3), rel=1e-6)
    assert expected.likely == width.private / width.plain
    for name in ("x1", "x2", "x3"):
        assert shown["std"][name] == pytest.approx(width.private, rel=0.2)
    assert not expected.rough
    assert expected.grade is not Grade.USELESS


def test_a_posterior_that_stays_at_its_prior_is_useless():
    request = replace(SMALL, task=Task.POSTERIOR, epsilon=0.01)
    found = prediction(request, built(request, "one-shot-regression"))
    assert found.grade is Grade.USELESS


# ------------------------------------------------------------- verdicts


def exactly(lost):
    return Band(lost, lost, lost)


def test_losing_half_of_r2_is_not_good():
    """Losses are shares of R²; good loses 0.02 of it, a fifteenth of an R² of 0.3."""
    assert verdict(Task.REGRESSION, exactly(0.5), HEADROOM[Task.REGRESSION]) is Grade.USABLE
    assert verdict(Task.REGRESSION, exactly(0.51), 0.3) is Grade.USELESS
    assert verdict(Task.REGRESSION, exactly(0.06), 0.3) is Grade.GOOD
    assert verdict(Task.REGRESSION, exactly(0.07), 0.3) is Grade.USABLE


def test_what_is_below_the_commonest_class_is_useless():
    """Adult: 0.85 without privacy, 0.76 of the commonest class; twelve points are more."""
    room = headroom(Task.CLASSIFICATION, 0.85, 0.76)
    assert verdict(Task.CLASSIFICATION, exactly(0.12), room) is Grade.USELESS
    for lost in np.linspace(0, 0.3, 61):
        if verdict(Task.CLASSIFICATION, exactly(lost), room) is not Grade.USELESS:
            assert 0.85 - lost >= (0.85 + 0.76) / 2 - 1e-12
    assert verdict(Task.CLASSIFICATION, exactly(0.02), room) is Grade.GOOD


def test_a_grade_that_only_the_likely_loss_has_is_doubtful():
    assert verdict(Task.CLASSIFICATION, Band(0.0, 0.01, 0.06), 0.1) is Grade.DOUBTFUL
    assert verdict(Task.CLASSIFICATION, Band(0.0, 0.01, 0.04), 0.1) is Grade.USABLE
    assert verdict(Task.CLASSIFICATION, Band(0.0, 0.06, 0.2), 0.1) is Grade.USELESS


def test_limits_never_cross():
    for task in Task:
        for room in (1e-3, 0.01, 0.1, 1.0):
            good, usable = limits(task, room)
            assert 0 < good <= usable
