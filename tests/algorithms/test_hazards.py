"""Hazard ratios by bounded martingale scores: bounds, means, coverage, and what is refused.

Statistical tests have fixed seeds; comments say how often a correct method would fail them.
"""

import json
import math
import warnings
from functools import partial
from itertools import combinations, product

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import unisono
from unisono.accounting.accountant import ACCOUNTANT
from unisono.algorithms import hazard_scoring
from unisono.algorithms.hazard_scales import HAZARD_SCALES, HazardScales, scales_of
from unisono.algorithms.hazard_scoring import HAZARD_SCORING, Asked, Point, record_scores
from unisono.attacks.audit import audit, check
from unisono.core.algorithm import Facts
from unisono.core.costs import added
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.privacy import Privacy
from unisono.core.study import Party, Study
from unisono.core.trust import Relation, Trust
from unisono.core.values import Private
from unisono.data.schema import Schema
from unisono.data.sources import UnreadValues
from unisono.engines import in_process
from unisono.errors import ClippedValues, InvalidInput
from unisono.estimators import FewEvents
from unisono.models import inference
from unisono.models.hazards import HAZARDS
from unisono.problems.glm import Columns
from unisono.problems.survival import BEYOND, ProportionalHazards
from unisono.releases.rows import ScoredPoint
from unisono.releases.together import together

from ..methods import CleanSums

PROBLEM = ProportionalHazards((Columns("age", 1, number=True), Columns("arm", 1, number=False)), 3)
scores_of = jax.jit(partial(record_scores, PROBLEM))
TRUTH = {"age": 0.02, "arm=drug": -0.5}
SCHEMA = Schema.model_validate(
    {
        "columns": {
            "months": {"kind": "number", "bounds": (0.0, 200.0)},
            "died": {"kind": "category", "values": ("no", "yes")},
            "age": {"kind": "number", "bounds": (20.0, 100.0)},
            "arm": {"kind": "category", "values": ("placebo", "drug")},
        },
        "target": "months",
    }
)


def patients(n, generator):
    age, arm = generator.normal(60, 12, n).clip(20, 100), generator.integers(0, 2, n)
    risk = TRUTH["age"] * (age - 60) + TRUTH["arm=drug"] * arm
    time = 40 * generator.weibull(1.2, n) * np.exp(-risk / 1.2)
    censored = generator.exponential(80, n)
    died = (time <= censored).astype(float)
    return {"months": np.minimum(time, censored), "died": died, "age": age, "arm": 1.0 * arm}


def asked(generator, theta=None, norms=(2.0, 3.0)):
    """Public values of a round, with pieces that differ in length."""
    p = PROBLEM.parameters
    theta = generator.normal(size=p) if theta is None else theta
    start = HazardScales(
        jnp.array([0.1, 0.4]), jnp.array([0.3, 0.5]), jnp.array([0.0, 0.2, 0.7, 1.0]), 0.0, 0.5
    )
    point = Point(jnp.asarray(theta), jnp.asarray(generator.normal(size=(p, p))), 1.0)
    return Asked(point, start, *norms, jnp.ones(3) / math.sqrt(3))


def rows(generator, n):
    time = np.where(generator.random(n) < 0.1, BEYOND, generator.random(n))
    time[:4] = 0.0, 0.2, 1.0, BEYOND
    features = np.column_stack([generator.uniform(-1, 1, n), generator.integers(0, 2, n)])
    return np.column_stack([features, time, generator.integers(0, 2, n)]).astype(np.float32)


@pytest.mark.parametrize("norms", [(0.1, 0.1), (2.0, 0.5), (1e3, 1e3)])
def test_no_record_adds_more_than_its_bound(norms):
    """Points are in their balls before the release moves them there, whatever a record holds."""
    generator = np.random.default_rng(1)
    p, pieces = PROBLEM.parameters, PROBLEM.pieces
    for _ in range(5):
        public = asked(generator, norms=norms)
        found = np.asarray(scores_of(public, jnp.asarray(rows(generator, 500))))
        assert found.shape == (500, (pieces + 2) * p + 3)
        assert np.linalg.norm(found[:, :p], axis=1).max() <= 1 + 1e-4
        assert np.linalg.norm(found[:, p : (pieces + 1) * p], axis=1).max() <= 1 + 1e-4


def test_the_supremum_is_attained():
    """Of one record, over all times and events: the bound is met, and not much too wide."""
    generator = np.random.default_rng(2)
    for _ in range(3):
        public = asked(generator, norms=(1e-3, 1e9))
        time = np.concatenate([np.linspace(1e-6, 1, 4001)] * 2)
        event = np.repeat([0.0, 1.0], 4001)
        same = np.column_stack([np.full(8002, 0.4), np.ones(8002), time, event])
        found = scores_of(public, jnp.asarray(same, jnp.float32))
        longest = np.linalg.norm(np.asarray(found)[:, : PROBLEM.parameters], axis=1).max()
        assert 0.99 < longest <= 1 + 1e-4


def test_scores_have_mean_zero_at_the_truth():
    """Stopped martingales: each of the five means is below 4.5 deviations; fails in 1 of 30,000."""
    generator = np.random.default_rng(3)
    n = 60_000
    theta = np.array([0.3, 0.9, -0.2, 0.4, -0.6])
    cumulative = np.concatenate([np.log([0.2, 0.5, 0.3]), np.zeros(2)])
    public = asked(generator, theta + cumulative)
    standard = np.column_stack([generator.uniform(-1, 1, n), generator.integers(0, 2, n)])
    z = (standard - np.asarray(public.start.centre)) / np.asarray(public.start.scale)
    hazard = np.exp(theta[:3] + (z @ theta[3:])[:, None]) * np.array([0.2, 0.5, 0.3])
    left = generator.exponential(size=n)
    ends, spent = np.array([0.0, 0.2, 0.7, 1.0]), np.zeros(n)
    time = np.full(n, BEYOND)
    for piece in range(3):
        share = (left - spent) / hazard[:, piece]
        here = (time == BEYOND) & (share < 1)
        time[here] = ends[piece] + share[here] * (ends[piece + 1] - ends[piece])
        spent += hazard[:, piece]
    censored = generator.exponential(0.7, n)
    event = (time <= censored) & (time < BEYOND)
    seen = np.where(np.minimum(time, censored) > 1, BEYOND, np.minimum(time, censored))
    made = np.column_stack([standard, seen, event])
    scores = np.asarray(scores_of(public, jnp.asarray(made, jnp.float32)))[:, :5]
    assert np.abs(scores.mean(axis=0) / scores.std(axis=0) * math.sqrt(n)).max() < 4.5


def test_sums_of_outer_products_are_as_near_as_single_ones():
    """Two records of a point of several outer products: alone 1 and apart sqrt 2 at most."""
    generator = np.random.default_rng(4)
    kind = ScoredPoint(3, 3, points=4)
    values = generator.normal(size=(4000, 3 + 12 + 3 + 3)) * generator.choice(
        [0.1, 1, 9], (4000, 1)
    )
    made = np.asarray(kind.of(jnp.asarray(values, jnp.float32)), float)
    assert made.shape == (4000, len(kind.exact))
    assert np.linalg.norm(made, axis=1).max() <= kind.alone.l2 + 1e-5
    assert np.abs(made).sum(axis=1).max() <= kind.alone.l1 + 1e-4
    apart = np.linalg.norm(made[:2000] - made[2000:], axis=1).max()
    assert 0.8 * kind.within.l2 < apart <= kind.within.l2 + 1e-5


def test_pieces_follow_the_events():
    """Without noise: about equally many events in each, and the hazards of the law."""
    generator = np.random.default_rng(5)
    n = 20_000
    time = generator.exponential(0.5, n)
    problem = ProportionalHazards((Columns("x", 1, number=True),))
    event = (time <= 1).astype(float)
    seen = np.where(time > 1, BEYOND, time)
    made = np.column_stack([generator.uniform(-1, 1, n), seen, event]).astype(np.float32)
    study = Study(
        HAZARD_SCALES.method(problem, Privacy(900.0, 1e-6)), Facts((n,), 3, 1), Trust.LOCAL
    )
    book = Ledger.in_memory(Policy("all", Budget(1e3, 1e-5)), ACCOUNTANT, seed=1)
    found = scales_of(problem, in_process.run(study, [Party("all", Private((made,)), book)]).value)
    counts = np.histogram(time, found.ends)[0]
    assert counts == pytest.approx(np.full(problem.pieces, event.sum() / problem.pieces), rel=0.1)
    hazards = np.exp(found.log_hazards) / np.diff(found.ends**found.power)
    assert hazards == pytest.approx(np.full(problem.pieces, 2.0), rel=0.1)
    assert found.events == pytest.approx(event.mean(), abs=0.01)
    assert (np.diff(scales_of(problem, None).ends) > 0).all()


def test_pieces_are_never_empty_intervals():
    """Whatever noise does to the table: ends rise from 0 to 1."""
    generator = np.random.default_rng(6)
    problem = ProportionalHazards((Columns("x", 1, number=True),))
    for noise in (0.0, 10.0, 1e4):
        cells = noise * generator.normal(size=32 + 41)
        found = scales_of(problem, np.concatenate([cells, [1.0, 100.0]]))
        assert found.ends[[0, -1]].tolist() == [0.0, 1.0]
        assert (np.diff(found.ends) > 0.01).all()
        assert np.isfinite(found.log_hazards).all()


def test_a_power_of_time_makes_the_hazard_constant():
    """Without noise: k of a Weibull law, and alike hazards in all pieces of t^k."""
    problem = ProportionalHazards((Columns("x", 1, number=True),))
    for shape in (0.7, 1.0, 1.6):
        ends = np.arange(21) / 20
        left = np.exp(-1.2 * ends**shape)
        times = np.concatenate([-np.diff(left), np.zeros(20), left[-1:]]) * 1e5
        found = scales_of(problem, np.concatenate([np.ones(32), times, [1.0, 1e5]]))
        assert found.power == pytest.approx(shape, rel=0.05)
        hazards = np.exp(found.log_hazards) / np.diff(found.ends**found.power)
        assert hazards == pytest.approx(np.full(problem.pieces, 1.2), rel=0.1)


# ------------------------------------------------------------- what it hides


@pytest.mark.parametrize("factor", [1.0, 0.5])
def test_audit_of_both_stages(factor):
    """One record at any corner of what a record may be, or at any other: honest noise passes,
    halved noise is caught; honest noise would be accused once in 10,000. A clip that was forgotten,
    or a neighbour that moves farther than is claimed, fails before any noise is drawn."""
    delta, generator = 1e-5, np.random.default_rng(11)
    facts, privacy = Facts((12,), 4, 1), Privacy(1.0, delta)
    first = Study(HAZARD_SCALES.method(PROBLEM, privacy), facts, Trust.LOCAL)
    # Small norms, so that every record is near both of its bounds.
    norms = {"rounds": 1, "gradient_norm": 0.2, "curvature_norm": 0.55}
    second = Study(HAZARD_SCORING.method(PROBLEM, privacy, **norms), facts, Trust.LOCAL)
    others = rows(np.random.default_rng(12), 12)
    corners = product((-1, 1), (0, 1), (0.0, 0.5, 1.0, BEYOND), (0, 1))
    corners = [own for own in corners if own[2] < BEYOND or own[3] == 0]
    for study in (first, second.begun(None)):
        algorithm = study.algorithm
        public = algorithm.ask(algorithm.init(facts)[0])
        sums, worlds = CleanSums(algorithm, facts, public), []
        for corner in corners:
            here = others.copy()
            here[0] = corner
            worlds.append(sums(here))
        gap = max((one - two for one, two in combinations(worlds, 2)), key=np.linalg.norm)
        length = np.linalg.norm(gap)
        bound = sums.sensitivity.under(Relation.REPLACE_ONE).in_norm("l2")
        assert 0.7 * bound < length <= bound
        scale = factor * algorithm.event(facts, Trust.LOCAL).noise.std
        scores = [c + scale * length * generator.normal(size=10_000) for c in (gap @ gap, 0.0)]
        found = audit(*scores, delta, confidence=0.9999, gaussian=True)
        best = max(found.epsilon_direct, found.epsilon_model_based or 0.0)
        if factor == 1:
            check(1.0, delta, found)
        assert best > (0.25 if factor == 1 else 1.0)


# ------------------------------------------------------------- the regression


def planned(n, epsilon, **settings):
    config = HAZARDS.configured(event="died", horizon=60.0, **settings)
    facts = Facts((n // 2, n - n // 2), 4, 2)

    def made(kind, part):
        posed = HAZARDS.pose(config, SCHEMA, kind, part)
        return posed, Study(kind.method(posed.problem, part), facts, Trust.SECURE_SUM)

    return together(
        Privacy(epsilon, 1e-6),
        hazard_scoring.SCALES_SHARE,
        lambda part: made(HAZARD_SCALES, part),
        lambda part: made(HAZARD_SCORING, part),
        lambda one, other: (one[1].costs, other[1].costs),
    )


def finished(plan, values, seed):
    """Both stages of a plan: the second study, and its result."""
    (_, first), (posed, second) = plan
    whole = posed.encode(values)[0].astype(np.float32)
    parties = [
        Party(
            str(place),
            Private((own,)),
            Ledger.in_memory(Policy(str(place), Budget(1e4, 1e-6)), ACCOUNTANT, seed=seed),
        )
        for place, own in enumerate(np.array_split(whole, 2))
    ]
    found = in_process.run(first, parties).value
    return second, in_process.run(second.begun(found), parties)


def fitted(plan, values, seed):
    posed, (study, result) = plan[1][0], finished(plan, values, seed)
    return posed.present(study, result), posed.prediction(study, result)


def test_a_larger_part_of_the_promise_may_pay_for_another_round():
    """Rounds differ in noise, so that parties no longer pay alike; one round and two are compared
    while the promise is divided."""
    (_, first), (_, second) = planned(1028, 1.0)
    method, facts = second.method, second.facts
    rounds = [
        hazard_scoring.resolve(method.config, method.problem, facts, part, second.trust).rounds
        for part in (Privacy(0.75, 1e-6), method.privacy)
    ]
    assert rounds == [1, 2]
    for one, other in zip(first.costs, second.costs, strict=True):
        for viewer, history in added((one, other)).items():
            # A party knows its own half of the noise: nothing was promised against it.
            if not history.discloses and viewer != "party":
                assert ACCOUNTANT.fits(history, method.privacy.relation, 1.0, 1e-6), viewer


def test_hazard_ratios_without_noise_are_those_of_the_model():
    shown, model = fitted(planned(20_000, 500.0), patients(20_000, np.random.default_rng(7)), 1)
    shown = json.loads(json.dumps(shown))
    for name, true in TRUTH.items():
        own = shown["coefficients"][name]
        assert own["determined"]
        assert abs(own["estimate"] - true) < 4 * own["std_error"]
        assert own["std_error"] < 0.06 * abs(true) + 0.02
        assert own["ratio"] == pytest.approx(math.exp(own["estimate"]))
    ends, hazards = shown["baseline"]["ends"], shown["baseline"]["hazard"]
    assert (ends[0], ends[-1]) == (0.0, 60.0)
    assert hazards == pytest.approx([1.2 / 40 * (30 / 40) ** 0.2] * len(hazards), rel=0.7)
    # Who survives is told in time itself, not in the power of it that pieces are of.
    times = np.array([3.0, 10.0, 25.0, 60.0])
    expected = np.exp(-((times / 40) ** 1.2))
    assert model.survival(np.array([[60.0, 0.0]]), times)[0] == pytest.approx(expected, abs=0.02)


def coverage(n, epsilon, fits, seed):
    plan, generator = planned(n, epsilon), np.random.default_rng(seed)
    held = []
    for number in range(fits):
        shown = fitted(plan, patients(n, generator), 1000 * seed + number)[0]["coefficients"]
        for name, true in TRUTH.items():
            low, high = shown[name]["interval"] if shown[name]["determined"] else (-9.0, 9.0)
            held.append(low <= true <= high)
    return float(np.mean(held))


def test_intervals_cover_quickly():
    """15 fits, 30 intervals: a method that covers 94 % holds fewer than 25 in 1 of 250."""
    assert coverage(4000, 1.0, 15, seed=8) >= 25 / 30


@pytest.mark.slow
def test_intervals_cover():
    """300 fits, 600 intervals: a method that covers 94.5 % fails this in 1 of 500."""
    assert coverage(4000, 1.0, 300, seed=9) > 0.918


def _no_events(values):
    return {**values, "died": 0 * values["died"]}


def _no_events_in_a_group(values):
    return {**values, "died": values["died"] * (values["arm"] == 0)}


def _one_age(values):
    return {**values, "age": 0 * values["age"] + 60}


def _no_cases_at_one_party(values):
    half = len(values["died"]) // 2
    return {**values, "died": values["died"] * (np.arange(2 * half) < half)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("spoilt", "known", "words"),
    [
        (_no_events, {"age": False, "arm=drug": False}, "Too few events for 2 coefficients"),
        (_no_events_in_a_group, {"age": True}, ""),
        (_one_age, {"age": False, "arm=drug": True}, "Noise drowned age, or it hardly varies"),
        (_no_cases_at_one_party, {"age": True, "arm=drug": True}, ""),
    ],
)
def test_awkward_records_get_a_clear_word(spoilt, known, words):
    values = spoilt(patients(4000, np.random.default_rng(12)))
    shown = json.loads(json.dumps(fitted(planned(4000, 3.0), values, 2)[0]))
    found = shown["coefficients"]
    for name, own in known.items():
        assert found[name]["determined"] == own
    assert words in shown["note"]
    if spoilt is _no_events_in_a_group:  # the ratio is zero: the interval must be far below one
        own = found["arm=drug"]
        assert not own["determined"] or own["interval"][1] < -0.5


def ledger(epsilon=3.0):
    return Ledger.in_memory(Policy("trial", Budget(epsilon, 1e-5)), ACCOUNTANT, seed=4)


def frame(n=1500):
    values = patients(n, np.random.default_rng(10))
    return {**values, "arm": [("placebo", "drug")[int(one)] for one in values["arm"]]}


DECLARED = {"bounds": {"age": (20, 100)}, "categories": {"arm": ["placebo", "drug"]}}


def test_hazard_ratios_of_a_frame_in_one_call():
    book = ledger()
    model = unisono.HazardRatios(horizon=60.0, **DECLARED)
    found = model.fit(frame(), "months", "died", epsilon=2.5, delta=1e-6, ledger=book)
    assert found is model
    assert book.grants == 2
    assert list(model.params_) == ["age", "arm=drug"]
    for name, true in TRUTH.items():
        low, high = model.confidence_intervals_[name]
        assert low <= true <= high
        assert model.hazard_ratios_[name] == pytest.approx(math.exp(model.params_[name]))
    assert "hazard ratio" in model.summary()
    assert "guarantee: epsilon = 2." in str(model)


def test_records_of_a_real_fit_are_shuffled(monkeypatch):
    """A sorted array would let one replaced record move all others (`PricedAlgorithm.by_company`);
    200 records are left as they lie once in 200! times."""
    seen = []

    def run(study, parties, purpose):
        seen.append(parties[0].data.open(parties[0].ledger.authorize(study.cost))[0])
        raise InterruptedError

    monkeypatch.setattr(in_process, "run", run)
    given = frame(200)
    given["age"] = np.sort(given["age"])
    book = Ledger.in_memory(Policy("trial", Budget(3.0, 1e-5)), ACCOUNTANT)
    with pytest.raises(InterruptedError):
        unisono.HazardRatios(horizon=60.0, **DECLARED).fit(
            given, "months", "died", epsilon=1.0, delta=1e-6, ledger=book
        )
    ages = seen[0][:, 0]
    assert (np.diff(ages) < 0).any()
    assert np.allclose(np.sort(ages), (given["age"] - 60) / 40, atol=1e-6)


def fit(given, epsilon=2.5, **settings):
    model = unisono.HazardRatios(horizon=60.0, **DECLARED)
    return model.fit(
        given, "months", "died", epsilon=epsilon, delta=1e-6, ledger=ledger(), **settings
    )


def test_few_events_determine_nothing_and_are_warned_of():
    """Without any, and with 8 events of 1500 records: in 20 fits with other noise nothing is ever
    determined. The count of events would have to be 6 deviations of its noise too high for that."""
    plan, values = planned(1500, 2.5), patients(1500, np.random.default_rng(15))
    for events in (0, 8):
        died = values["died"] * (np.cumsum(values["died"]) <= events)
        for seed in range(10):
            shown = fitted(plan, {**values, "died": died}, seed)[0]
            assert not any(own["determined"] for own in shown["coefficients"].values())
            assert "Too few events for 2 coefficients, or none: about" in shown["note"]
    given = {**frame(), "died": 0 * frame()["died"]}
    with (
        pytest.warns(FewEvents, match="at least five for each are needed"),
        pytest.warns(UnreadValues, match="no record has an event: none of 1500 is 1"),
    ):
        model = fit(given)
    assert np.isnan(list(model.params_.values())).all()
    assert str(model).count("not determined: noise hides what data say") == 2


def test_rounds_count_the_events():
    """Σ w dN of every round, whatever point is asked at: nearly without noise it is no more than
    the events of the records, and no less than half of them, for weights are at most 1."""
    values = patients(4000, np.random.default_rng(16))
    study, result = finished(planned(4000, 500.0), values, 1)
    read = hazard_scoring.fitted(hazard_scoring.terms_for(study), result.value)
    events = np.count_nonzero(values["died"][values["months"] <= 60])
    assert 0.5 * events < read.events < events + 5 * read.events_std
    assert read.events_std < 5
    assert not read.few_events


def test_values_that_cannot_be_read_are_told_to_their_holder():
    given = frame()
    given["age"] = [None if place < 30 else one for place, one in enumerate(given["age"])]
    given["arm"] = ["other" if place < 9 else one for place, one in enumerate(given["arm"])]
    with (
        pytest.warns(UnreadValues, match=r"30 of 1500 values of 'age' are not numbers.*nowhere"),
        pytest.warns(UnreadValues, match="9 of 1500 values of 'arm' are not any of placebo, drug"),
    ):
        fit(given)


@pytest.mark.parametrize(
    ("coded", "value"), [(("alive", "dead"), "dead"), ((1, 2), 2), ((1.0, 2.0), "2")]
)
def test_the_value_of_an_event_is_named(coded, value):
    """What is fitted is the same as with 0 and 1; other codings are warned of before it is paid."""
    given = frame()
    other = {**given, "died": [coded[int(one)] for one in given["died"]]}
    assert fit(other, event_value=value).params_ == fit(given).params_
    book = ledger()
    model = unisono.HazardRatios(horizon=60.0, **DECLARED)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UnreadValues)
        warnings.simplefilter("ignore", ClippedValues)
        with pytest.raises(UnreadValues, match=r"not 0 and 1, or False.*event_value=2 or 'dead'"):
            model.fit(other, "months", "died", epsilon=1.0, delta=1e-6, ledger=book)
    assert book.grants == 0


def test_reversed_bounds_are_told_by_name(ledger):
    ratios = unisono.HazardRatios(horizon=5.0, bounds={"age": (105, 50)})
    frame = {"months": [1.0, 2.0], "died": [0, 1], "age": [60, 70]}
    with pytest.raises(InvalidInput, match=r"bounds of 'age' are \(105, 50\): give two numbers"):
        ratios.fit(frame, "months", "died", epsilon=1.0, delta=1e-6, ledger=ledger)
    assert ledger.grants == 0


def test_an_event_value_needs_events():
    with pytest.raises(InvalidInput, match="event_value = 'dead' without event_observed"):
        unisono.KaplanMeier(horizon=9.0).fit(
            [1.0, 2.0], event_value="dead", epsilon=1.0, ledger=ledger()
        )
    with pytest.raises(InvalidInput, match="event_value = '': give the value of an event"):
        fit(frame(20), event_value="")


def test_the_event_is_what_ratios_are_of():
    shown = fitted(planned(4000, 3.0), patients(4000, np.random.default_rng(17)), 1)[0]
    assert inference.outcome(shown) == "died = yes"
    assert "multiplies the hazard of died = yes by" in inference.effect_in_words(shown, "age")


def strong(n, generator):
    """Light chains and age (as in R's flchain): effects that spread log hazards by more than 1."""
    age = np.clip(50 + generator.gamma(1.9, 7.5, n), 50, 105)
    chains = 0.18 + 0.013 * (age - 64) + 0.45 * generator.standard_normal(n)
    chains, sex = np.log1p(np.exp(chains)).clip(0, 3.2), generator.integers(0, 2, n)
    risk = 0.1 * (age - 64) + 1.2 * (chains - 0.85) + 0.3 * sex
    time = 2.8 * generator.weibull(1.15, n) * np.exp(-risk / 1.15)
    leaves = generator.uniform(0.6, 1.04, n)
    return {
        "time": np.minimum(time, leaves),
        "died": (time <= leaves).astype(int),
        "age": age,
        "chains": chains,
        "sex": sex,
    }


def test_strong_effects_do_not_bend_the_rounds():
    """Of the same 8,000 records with noise 60 times: estimates spread by no more than is stated of
    noise. They do by .9 of it, so that the test fails in 1 of 80 choices of seeds; they did by 1.1
    to 1.2 of it while the second round was asked at a baseline that is too high."""
    model = unisono.HazardRatios(
        horizon=1.0, bounds={"age": (50, 105), "chains": (0, 3.2)}, categories={"sex": [0, 1]}
    )
    given, found, stated = strong(8000, np.random.default_rng(18)), [], []
    for seed in range(60):
        book = Ledger.in_memory(Policy("trial", Budget(3.0, 1e-5)), ACCOUNTANT, seed=seed)
        model.fit(given, "time", "died", epsilon=1.0, delta=1e-6, ledger=book)
        own = model.figures_["coefficients"].values()
        found.append([one["estimate"] for one in own])
        shares = [one["privacy_share"] for one in own]
        errors = np.array([one["std_error"] for one in own])
        stated.append(errors**2 * (1 - (1 - np.array(shares)) ** 2))
    spread, noise = np.std(found, axis=0), np.sqrt(np.mean(stated, axis=0))
    assert (spread < 1.1 * noise).all()


def _model(coefficients):
    """A model as it is after a fit."""
    model = unisono.HazardRatios(horizon=60.0, **DECLARED)
    model.figures_ = {
        "coefficients": coefficients,
        "target": "months",
        "event": "died",
        "scores": {"middle": 1.0, "spread": 0.4},
    }
    return model


def test_the_scores_of_a_model_order_times():
    """Without another look at the data but for the table, which is paid for. Within .03 of the C of
    about .60; noise has a deviation of .004."""
    known = {name: {"determined": True, "estimate": own} for name, own in TRUTH.items()}
    model, book = _model(known), ledger(9.0)
    records = frame(3000)
    assert model.scores(records)[0] == pytest.approx(
        TRUTH["age"] * records["age"][0] + TRUTH["arm=drug"] * (records["arm"][0] == "drug")
    )
    found = model.concordance(records, epsilon=8.0, delta=1e-6, ledger=book)
    assert book.grants == 1
    assert model.concordance_index_ == found.value == pytest.approx(0.60, abs=0.03)
    assert np.isnan(model.scores({"age": [None], "arm": ["drug"]})).all()


def test_no_concordance_without_a_model():
    with pytest.raises(InvalidInput, match="concordance before fit"):
        unisono.HazardRatios(horizon=60.0).concordance({}, epsilon=1.0, ledger=ledger())
    unknown = {name: {"determined": False} for name in TRUTH}
    with pytest.raises(InvalidInput, match="no coefficient is determined"):
        _model(unknown).concordance(frame(20), epsilon=1.0, ledger=ledger())


@pytest.mark.parametrize(
    ("made", "columns", "message"),
    [
        ({"horizon": 0.0}, ("months", "died"), "give a public time above zero"),
        ({}, ("days", "died"), "no column 'days': it has months, died, age, arm"),
        ({"bounds": {"months": (0, 9)}}, ("months", "died"), "explains nothing"),
        ({"bounds": {}, "categories": {}}, ("months", "died"), "no column is left"),
        ({"bounds": {"age": (9, 1)}}, ("months", "died"), "give two numbers, the public lowest"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_spent(made, columns, message):
    book = ledger()
    with pytest.raises(ValueError, match=message):
        unisono.HazardRatios(**{"horizon": 60.0, **DECLARED, **made}).fit(
            frame(60), *columns, epsilon=1.0, delta=1e-6, ledger=book
        )
    assert book.grants == 0


def test_pure_epsilon_is_refused():
    with pytest.raises(InvalidInput, match="its noise is Gaussian; set delta"):
        Study(HAZARD_SCORING.method(PROBLEM, Privacy(1.0)), Facts((50,), 4, 1), Trust.LOCAL)


def test_rows_of_another_width_are_refused():
    with pytest.raises(InvalidInput, match="rows of 3 numbers for 2 features, time and event"):
        PROBLEM.parts(np.zeros((5, 3)))


def test_the_schema_is_checked():
    def faults(**settings):
        return [words for _, words in HAZARDS.faults(HAZARDS.configured(**settings), SCHEMA)]

    assert faults(event="died") == []
    assert "is no column" in faults(event="death")[0]
    assert "beyond the bounds" in faults(event="died", horizon=300.0)[0]
    alone = SCHEMA.model_copy(
        update={"columns": {n: SCHEMA.columns[n] for n in ("months", "died")}}
    )
    [(_, words)] = HAZARDS.faults(HAZARDS.configured(event="died"), alone)
    assert "no column is left" in words


# ------------------------------------------------------------- what it hides


def test_audit_by_the_records_that_are_furthest_apart():
    """Two records that are furthest apart, asked at a point that tells them apart best: honest
    noise passes, halved noise is caught; 95 % confidence, one fixed seed."""
    delta, generator = 1e-5, np.random.default_rng(7)
    facts, p = Facts((2,), 4, 1), PROBLEM.parameters
    for kind, settings in ((HAZARD_SCALES, {}), (HAZARD_SCORING, {"rounds": 1})):
        method = kind.method(PROBLEM, Privacy(1.0, delta), **settings)
        algorithm = Study(method, facts, Trust.LOCAL).algorithm
        public = algorithm.ask(algorithm.init(facts)[0])
        if kind is HAZARD_SCORING:  # gradients alone, of features alone, where hazards are large
            point = Point(
                jnp.array([1.0] * PROBLEM.pieces + [0.0] * PROBLEM.features),
                jnp.diag((jnp.arange(p) >= PROBLEM.pieces) * 1.0),
                1.0,
            )
            weights = jnp.array([1.0, 0.0, 0.0])
            public = public._replace(point=point, weights=weights, gradient_norm=np.float32(0.1))
        sums, worlds = CleanSums(algorithm, facts, public), []
        for own in ([1, 1, 1.0, 0], [-1, 0, 0.9, 0]):
            there = np.array([own, [0, 0, 0.5, 1]], np.float32)
            worlds.append(sums(there))
        length = np.linalg.norm(worlds[0] - worlds[1])
        bound = sums.sensitivity.under(Relation.REPLACE_ONE).in_norm("l2")
        assert 0.95 * bound < length <= bound
        noise = algorithm.event(facts, Trust.LOCAL).noise.std
        for factor in (1.0, 0.5):
            scores = [
                centre + factor * noise * generator.normal(size=10_000) for centre in (length, 0.0)
            ]
            found = audit(*scores, delta=delta, gaussian=True)
            best = max(found.epsilon_direct, found.epsilon_model_based or 0.0)
            if factor == 1:
                check(1.0, delta, found)
                assert best > 0.5
            else:
                assert best > 1.0
