"""PrivateSearch: one budget for all fits, scores and the choice, and what each viewer pays."""

import math
import pickle

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="scikit-learn is not installed")

from unisono.accounting import gaussian
from unisono.accounting.accountant import ACCOUNTANT
from unisono.algorithms.held_out_scores import HELD_OUT_SCORES, JudgedModels
from unisono.attacks.neighbours import EXTREMES
from unisono.core.algorithm import agree_facts
from unisono.core.costs import added
from unisono.core.events import composed_from_json
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.privacy import Privacy
from unisono.core.study import Study
from unisono.core.trust import FINAL_MODEL, ITERATES, NETWORK, PARTY, SERVER, Relation, Trust
from unisono.errors import BudgetExceeded, InvalidInput
from unisono.estimators import PrivateLogisticRegression, PrivateRidge, PrivateSearch
from unisono.estimators import model_choice as module

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
REPLACE = Relation.REPLACE_ONE
DELTA = 1e-6


def table(records=900, seed=0):
    generator = np.random.default_rng(seed)
    X = generator.uniform(-1, 1, (records, 2))
    y = (X[:, 0] + 0.1 * generator.normal(size=records) > 0).astype(int)
    return X, y, np.array(["north", "south", "west"])[generator.integers(0, 3, records)]


def logistic(**more):
    return PrivateLogisticRegression(
        bounds=(-1, 1), classes=[0, 1], algorithm="output-perturbation", **more
    )


PENALTIES = {"regularisation": [1e-3, 1e-2, 1e3]}


def search(estimator=None, candidates=None, **more):
    given = {"epsilon": 4.0, "delta": DELTA, "random_state": 0} | more
    return PrivateSearch(estimator or logistic(), candidates or PENALTIES, **given)


@pytest.fixture(scope="module")
def everything():
    X, y, parties = table()
    return search().fit(X, y, parties)


@pytest.fixture(scope="module")
def stopped():
    X, y, parties = table()
    return search(method="random-stopping").fit(X, y, parties)


def test_all_candidates_cost_one_epsilon_against_everybody(everything):
    certificate = everything.certificate_
    for line in certificate.lines:
        if line.relation is REPLACE:
            assert 0.95 * 4 < line.epsilon <= 4
    spent = [group.epsilon for group in certificate.spending]
    assert all(value <= 4 for own in spent for value in own.values())
    assert everything.epsilon_of_one_fit_ < 4 / math.sqrt(2)
    assert len(everything.tried_) == 3
    assert all(one.score is not None for one in everything.tried_)
    assert everything.best_score_ == max(one.score for one in everything.tried_)
    assert everything.best_params_ == everything.tried_[everything.best_index_].settings


def test_the_ledgers_paid_what_the_certificate_states():
    X, y, parties = table()
    books = {
        name: Ledger.in_memory(Policy(name, Budget(9.0, DELTA), colluders=1), ACCOUNTANT, seed=0)
        for name in ("north", "south", "west")
    }
    found = search(ledger=books).fit(X, y, parties)
    stated = found.certificate_.epsilon(ITERATES, REPLACE)
    for book in books.values():
        assert book.spent(ITERATES) == pytest.approx(stated, rel=1e-9)
        assert book.grants == 1  # for all fits and scores, before the first
    assert found.best_estimator_.ledger is books


def test_whoever_sees_the_best_run_only_pays_less_than_who_sees_all(stopped):
    certificate = stopped.certificate_
    epsilon = {
        viewer: certificate.epsilon(viewer, REPLACE)
        for viewer in (FINAL_MODEL, ITERATES, SERVER, PARTY, NETWORK)
    }
    assert 0.95 * 4 < epsilon[FINAL_MODEL] <= 4
    assert all(epsilon[viewer] > 4 for viewer in (ITERATES, SERVER, PARTY, NETWORK))
    # The events alone prove it, and they say nothing of how many runs there were.
    written = composed_from_json(certificate.to_json()["events"]["final-model"])
    assert ACCOUNTANT.epsilon(written, REPLACE, DELTA) == epsilon[FINAL_MODEL]
    [(event, count)] = certificate.events[ITERATES].parts
    assert (count, event.noise.most, len(event.noise.options)) == (6, 1, 4)  # 3 fits, scores


def test_of_random_stopping_one_score_is_shown(stopped):
    shown = [one.score is not None for one in stopped.tried_]
    assert sum(shown) == 1
    assert shown[stopped.best_index_]
    assert "not shown" in stopped.summary()
    assert stopped.best_estimator_.certificate_ is stopped.certificate_


def test_the_certificate_does_not_depend_on_how_many_runs_there_were(monkeypatch):
    """Certificate and ledgers after one run and after as many as there can be."""
    X, y, parties = table(300)
    found = []
    for number in (1, 4):
        monkeypatch.setattr(
            module.RandomStopping,
            "drawn",
            lambda law, key, _, number=number: (number, (0,) * law.most),
        )
        own = search(candidates={"regularisation": [1e-2, 1.0]}, method="random-stopping")
        own.fit(X, y, parties)
        document = own.certificate_.to_json()
        del document["ledger_heads"]  # they hash the time
        found.append(document)
    assert found[0] == found[1]


def test_with_a_trusted_server_parties_pay_for_all_runs():
    """Their records judge every model, so that they are told of it."""
    X, y, parties = table(300)
    own = search(logistic(trust="trusted-server"), method="random-stopping", epsilon=4.0)
    own.fit(X, y, parties)
    assert own.certificate_.epsilon(FINAL_MODEL, REPLACE) <= 4
    assert all(own.certificate_.epsilon(v, REPLACE) > 4 for v in (PARTY, NETWORK, ITERATES))
    assert math.isinf(own.certificate_.epsilon(SERVER, REPLACE))


def test_candidates_that_differ_anywhere_share_nothing():
    """Also where NumPy's words for a long array leave the difference out."""
    bounds = [(np.full(1100, -1.0), np.full(1100, 1.0)) for _ in range(2)]
    bounds[1][1][500] = 2.0
    assert repr(bounds[0]) == repr(bounds[1])
    assert module._told(bounds[0]) != module._told(bounds[1])


def test_a_ledger_that_cannot_bear_all_runs_refuses_before_the_first():
    X, y, _ = table(300)
    poor = Ledger.in_memory(Policy("own", Budget(4.0, DELTA)), ACCOUNTANT, seed=0)
    with pytest.raises(BudgetExceeded, match="intermediate result"):
        search(method="random-stopping", ledger=poor).fit(X, y)
    assert poor.grants == 0
    search(ledger=poor).fit(X, y)  # all candidates for the same epsilon against everyone
    with pytest.raises(BudgetExceeded):
        search(ledger=poor).fit(X, y)


def test_ridges_on_the_same_noisy_sums_share_them():
    X, _, parties = table()
    target = 0.4 * X[:, 0]
    estimator = PrivateRidge(bounds=(-1, 1), target_bounds=(-1, 1), algorithm="adaptive-statistics")
    many = {"regularisation": [0.0, 1e-3, 1e-2, 1e-1, 1.0, 10.0]}
    found = search(estimator, many, epsilon=2.0).fit(X, target, parties)
    assert found.epsilon_of_one_fit_ > 0.97 * 2.0  # not 2 / sqrt(6)
    [(event, _)] = found.certificate_.events[ITERATES].parts
    fits, _ = event.noise.options
    assert [count for _, count in fits.parts] == [1]
    assert found.best_params_["regularisation"] < 10
    again = found.best_estimator_
    assert again._released is None  # nothing beside the model is kept
    assert again._kept is None
    assert pickle.loads(pickle.dumps(again)).predict(X[:3]) == pytest.approx(again.predict(X[:3]))
    with pytest.raises(InvalidInput, match="functions of one release"):
        search(estimator, many, method="random-stopping").fit(X, target, parties)


def test_a_shared_release_gives_what_a_fit_of_its_own_would():
    """With next to no noise: the second ridge by the first one's sums, and by its own fit."""
    X, _, _ = table(300)
    target = 0.4 * X[:, 0]
    one, other = (
        PrivateRidge(
            1e4,
            DELTA,
            bounds=(-1, 1),
            target_bounds=(-1, 1),
            algorithm="adaptive-statistics",
            regularisation=penalty,
            random_state=3,
        )
        for penalty in (0.0, 0.1)
    )
    one._keeping = True
    one.fit(X, target)
    other.fit(X, target)
    shared = PrivateRidge(**other.get_params())
    shared._released = one._kept
    shared.fit(X, target)
    assert shared.coef_ == pytest.approx(other.coef_, abs=5e-3)
    assert abs(shared.coef_[0] - one.coef_[0]) > 0.03


def test_a_search_finds_the_better_candidate_where_there_is_budget(everything):
    X, y, _ = table(400, seed=9)
    assert everything.best_params_["regularisation"] < 1e3
    assert everything.score(X, y) > 0.85
    assert everything.predict_proba(X[:2]).shape == (2, 2)


def test_twenty_candidates_stay_within_the_aims():
    """At most 3 times one run for who sees the final model, 5.5 times under a secure sum: by the
    prices alone, at epsilon 1 for one run and delta 1e-6."""
    X, y, parties = table(3000)
    many = [{"regularisation": float(r)} for r in np.geomspace(1e-4, 1, 20)]
    models = search(candidates=many)._candidates()[1]
    split = module._split(models[0], module.membership(parties, len(X)), 0.25, 0)
    aims = {"random-stopping": 3.0, "all": 5.5}
    for method, aim in aims.items():
        own = search(candidates=many, method=method, epsilon=aim, delta=DELTA)
        plan = own._priced(models, 1.0, X, y, split)
        assert ACCOUNTANT.epsilon(plan.total[FINAL_MODEL], REPLACE, DELTA) <= aim


def test_a_record_is_in_one_of_two_parts_and_pays_for_the_dearer():
    """A learnt number and a judged number with the same noise, of different records: the exact
    privacy profile of both together, with a secret even split, is within that of one of them, and
    without the split (everybody in both) it is not."""
    mu = 0.8
    points = np.linspace(-8, 8 + mu, 1201)
    step = points[1] - points[0]

    def normal(shift):
        return np.exp(-0.5 * (points - shift) ** 2) / math.sqrt(2 * math.pi) * step

    with_, without = normal(mu), normal(0.0)
    changed = 0.5 * (np.outer(with_, without) + np.outer(without, with_))
    usual = np.outer(without, without)
    for epsilon in (0.0, 0.5, 1.0, 2.0):
        one = gaussian.delta(epsilon, mu)
        for first, second in ((changed, usual), (usual, changed)):
            assert np.maximum(first - math.exp(epsilon) * second, 0).sum() <= one + 1e-9
        both = np.outer(with_, with_)
        assert np.maximum(both - math.exp(epsilon) * usual, 0).sum() > one * 1.2


def test_what_cannot_be_searched_is_refused_before_anything_is_spent():
    X, y, parties = table(300)
    refused = {
        "two or more": search(candidates=[{}]),
        "has no parameter 'regularization'": search(candidates=[{}, {"regularization": 1.0}]),
        "sets epsilon": search(candidates=[{}, {"epsilon": 1.0}]),
        "choose one of all, random-stopping": search(method="best"),
        "public classes": search(PrivateLogisticRegression(bounds=(-1, 1))),
        "holdout": search(holdout=1.5),
        "differ in relation": search(candidates=[{}, {"relation": "zero-out"}]),
        "its own ledger": search(logistic(ledger=object())),
    }
    for words, own in refused.items():
        with pytest.raises(InvalidInput, match=words):
            own.fit(X, y, parties)
    with pytest.raises(InvalidInput, match="missing or infinite"):
        search().fit(np.where(X > 0.99, np.nan, X), y, parties)


@pytest.mark.parametrize("method", ["all", "random-stopping"])
def test_pure_epsilon_stays_pure(method):
    X, y, _ = table(300)
    found = search(candidates={"regularisation": [1e-2, 1.0]}, method=method, delta=0.0).fit(X, y)
    assert 0.9 * 4 < found.certificate_.epsilon(FINAL_MODEL, REPLACE) <= 4
    assert {line.delta for line in found.certificate_.lines} == {0.0}


def test_hidden_sizes_toss_a_coin_for_each_record():
    X, y, _ = table(400)
    model = logistic(relation="add-or-remove", records=400)
    found = search(model, {"regularisation": [1e-2, 1.0]}).fit(X, y)
    assert found.certificate_.epsilon(FINAL_MODEL, Relation.ADD_OR_REMOVE) <= 4


# ------------------------------------------------------------------- scores


@pytest.mark.parametrize("models", [1, 2, 20])
@pytest.mark.parametrize("trust", [Trust.LOCAL, Trust.SECURE_SUM])
def test_one_record_moves_the_scores_by_no_more_than_was_authorised(models, trust):
    """The neighbour fuzzer on what would be released before the noise, odd numbers included."""
    sizes = (30, 20)
    facts = agree_facts(sizes, models, trust)
    study = Study(HELD_OUT_SCORES.method(JudgedModels(models), Privacy(1.0, DELTA)), facts, trust)
    event = study.algorithm.event(facts, trust)
    bound = event.sensitivity.under(REPLACE).in_norm("l2")
    grid = study.algorithm.grid(facts, trust)
    generator = np.random.default_rng(models)

    def total(scores):
        _, sent = study.algorithm.local(facts, (), None, (scores,), np.ones(30, bool), 30)
        return np.asarray(sent.value, np.int64) * grid

    worst = 0.0
    for _ in range(60):
        scores = generator.random((30, models)).astype(np.float32)
        kinds = [
            generator.choice(EXTREMES, models),
            (generator.random(models) < 0.5) * 1.0,
            np.zeros(models),
            np.ones(models),
            np.arange(models) % 2 * 1.0,
        ]
        first, second = scores.copy(), scores.copy()
        first[7] = kinds[generator.integers(5)]
        second[7] = kinds[generator.integers(5)]
        worst = max(worst, float(np.linalg.norm(total(first) - total(second))))
    assert worst <= bound
    assert worst > 0.4 * bound


def test_scores_are_means_and_their_noise_does_not_grow_with_candidates():
    study = {
        models: Study(
            HELD_OUT_SCORES.method(JudgedModels(models), Privacy(1.0, DELTA)),
            agree_facts((500,), models, Trust.LOCAL),
            Trust.LOCAL,
        )
        for models in (2, 20)
    }
    deviations = [
        own.algorithm.event(own.facts, own.trust).noise.deviation(1) for own in study.values()
    ]
    assert deviations[0] == pytest.approx(deviations[1], rel=0.01)
    assert added([study[2].cost, study[20].cost])  # both have the same viewers
