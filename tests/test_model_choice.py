"""PrivateSearch: one budget for all fits, scores and the choice, and what each viewer pays."""

import json
import math
import pickle
from dataclasses import replace

import numpy as np
import pandas
import pytest

pytest.importorskip("sklearn", reason="scikit-learn is not installed")

import unisono
from unisono.accounting import gaussian
from unisono.accounting.accountant import ACCOUNTANT
from unisono.algorithms.held_out_scores import HELD_OUT_SCORES, JudgedModels, score_deviation
from unisono.attacks.neighbours import EXTREMES
from unisono.core.algorithm import agree_facts
from unisono.core.certificate import Line
from unisono.core.costs import added
from unisono.core.events import composed_from_json
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.privacy import Privacy
from unisono.core.study import Party, Study
from unisono.core.trust import (
    FINAL_MODEL,
    ITERATES,
    NETWORK,
    PARTY,
    SERVER,
    Relation,
    Trust,
    describe,
)
from unisono.core.values import Private
from unisono.core.words import budget_guess, percent
from unisono.core.words import number as shown_number
from unisono.engines import in_process
from unisono.engines.payments import paid_training
from unisono.errors import BudgetExceeded, InvalidInput
from unisono.estimators import (
    DrownedByNoise,
    PrivateClassifier,
    PrivateLogisticRegression,
    PrivateRegressor,
    PrivateRidge,
    PrivateSearch,
)
from unisono.estimators import model_choice as module
from unisono.estimators.averaged import AveragedModel
from unisono.estimators.candidates import told_apart
from unisono.estimators.search import private_search
from unisono.exports import statement
from unisono.planning.verdicts import network_beside_line

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


def ridge(**more):
    given = {"bounds": (-1, 1), "target_bounds": (-1, 1), "algorithm": "adaptive-statistics"}
    return PrivateRidge(**given | more)


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
    return search(method="random-stopping", holdout=0.25).fit(X, y, parties)


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


def ledgers():
    return {
        name: Ledger.in_memory(Policy(name, Budget(9.0, DELTA), colluders=1), ACCOUNTANT, seed=0)
        for name in ("north", "south", "west")
    }


@pytest.mark.parametrize(("holdout", "grants"), [(0.0, 4), (0.25, 1)])
def test_the_ledgers_paid_what_the_certificate_states(holdout, grants):
    """Three fits and scores, one by one; or all together, where records are kept apart."""
    X, y, parties = table()
    books = ledgers()
    found = search(ledger=books, holdout=holdout).fit(X, y, parties)
    stated = found.certificate_.epsilon(ITERATES, REPLACE)
    for book in books.values():
        assert book.spent(ITERATES) == pytest.approx(stated, rel=1e-9)
        assert book.grants == grants
        assert paid_training(book, study=found.certificate_.study)  # "learnt from" is known
    assert found.best_estimator_.ledger is books
    words = "none learnt from" if holdout else "were learnt from"
    assert f"scores on records that {words}" in found.summary()


def test_records_that_learn_and_judge_pay_for_both():
    """One release of two ridges, and their scores, by two Gaussians that are composed."""
    X, _, _ = table()
    book = Ledger.in_memory(Policy("own", Budget(2.0, DELTA)), ACCOUNTANT, seed=0)
    found = search(ridge(), {"regularisation": [0.0, 0.1]}, epsilon=2.0, ledger=book).fit(
        X, 0.4 * X[:, 0]
    )
    strengths = []
    for event, count in found.certificate_.events[ITERATES].parts:
        bound = event.sensitivity.under(REPLACE).in_norm("l2")
        strengths += [bound / event.noise.deviation(1)] * count
    assert len(strengths) == book.grants == 2
    alone = [gaussian.epsilon(DELTA, own) for own in strengths]
    both = gaussian.epsilon(DELTA, math.hypot(*strengths))
    assert max(alone) < 0.99 * both  # neither is for nothing
    assert both == pytest.approx(book.spent(ITERATES), rel=0.01)
    assert both <= 2.0


def test_all_records_learn_and_judge_without_a_holdout(monkeypatch):
    X, y, parties = table(300)
    judged, learnt = [], []
    scores, fit = module.released_scores, module.Split.fitted
    monkeypatch.setattr(
        module,
        "released_scores",
        lambda study, found, *more: judged.append(len(found)) or scores(study, found, *more),
    )
    monkeypatch.setattr(
        module.Split,
        "fitted",
        lambda self, model, *more: (
            learnt.append(sum(map(len, self.learning))) or fit(self, model, *more)
        ),
    )
    search(candidates={"regularisation": [1e-2, 1.0]}).fit(X, y, parties)
    assert (judged, learnt) == ([300], [300, 300])


def test_scores_of_many_records_get_little_of_epsilon():
    """By a rule of public facts: noise of half a point between two scores is small enough."""
    shares = []
    for records in (300, 12_000, 100_000):
        X, y, parties = table(records)
        own = search(epsilon=1.0)
        models = own._candidates(2)[1]
        split = module.split_records(models[0], module.membership(parties, len(X)), 0.0, 0)
        plan = own._priced(models, 0.5, X, y, split, apart=False)
        shares.append(ACCOUNTANT.epsilon(plan.scores[0].cost[ITERATES], REPLACE, DELTA) / 0.5)
    assert shares[0] == pytest.approx(module._ADDED * math.sqrt(3), rel=0.02)
    assert shares[0] > 1.5 * shares[1] > 3 * shares[2]


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
    assert told_apart(bounds[0]) != told_apart(bounds[1])


@pytest.mark.parametrize("kind", ["frame", "objects"])
def test_long_columns_that_differ_in_the_middle_are_told_apart(kind):
    pandas = pytest.importorskip("pandas")
    one = np.ones(2000, object)
    other = one.copy()
    other[1000] = 3.0
    assert repr(one) == repr(other)
    if kind == "frame":
        one, other = pandas.Series(one), pandas.Series(other)
    assert told_apart((one, 1)) != told_apart((other, 1))
    assert told_apart((one, 1)) == told_apart((one.copy(), 1))


def test_a_ledger_that_cannot_bear_all_runs_refuses_before_the_first():
    X, y, _ = table(300)
    poor = Ledger.in_memory(Policy("own", Budget(4.0, DELTA)), ACCOUNTANT, seed=0)
    with pytest.raises(BudgetExceeded, match="intermediate result"):
        search(method="random-stopping", ledger=poor).fit(X, y)
    assert poor.grants == 0
    search(ledger=poor).fit(X, y)  # all candidates for the same epsilon against everyone
    with pytest.raises(BudgetExceeded):
        search(ledger=poor).fit(X, y)


SUBSETS = [{}, {"features": 1}, {"features": [0, 1]}, {"features": [2]}, {"regularisation": 10.0}]


@pytest.mark.parametrize("method", ["all", "random-stopping"])
@pytest.mark.parametrize("algorithm", ["adaptive-statistics", "fisher-scoring"])
def test_ridges_and_subsets_of_the_same_noisy_sums_share_them(method, algorithm):
    """One payment for the sums and one for the scores, whatever the number of candidates."""
    X, _, parties = table()
    X = np.column_stack([X, X[:, 1] / 2])
    many = SUBSETS if algorithm == "adaptive-statistics" else SUBSETS[:-1]
    own = search(ridge(algorithm=algorithm), many, epsilon=3.0, method=method, ledger=ledgers())
    if method == "random-stopping":  # what is paid for the most that can be, beside the promise
        own.set_params(ledger=None)
    found = own.fit(X, 0.4 * X[:, 0], parties)
    assert found.best_params_ != {"features": [2]}  # which knows nothing of the target
    assert found.best_params_.get("regularisation") is None
    if method == "all":
        assert found.epsilon_of_one_fit_ > 0.9 * 3.0  # not 3 / sqrt(5)
        fits = 1 if algorithm == "adaptive-statistics" else 2  # scales of columns come before
        assert {book.grants for book in own.ledger.values()} == {fits + 1}
    else:
        [(event, count)] = found.certificate_.events[ITERATES].parts
        assert (count, len(event.noise.options)) == (2, 1)  # of one release, scores included
    again = found.best_estimator_
    assert again._released is None  # nothing beside the model is kept
    assert again._kept is None
    assert pickle.loads(pickle.dumps(again)).predict(X[:3]) == pytest.approx(again.predict(X[:3]))


@pytest.mark.parametrize("algorithm", ["adaptive-statistics", "fisher-scoring"])
def test_columns_that_are_left_out_have_no_weight(algorithm):
    """Named, by place, or so many as matter most; next to no noise, so that it is plain which."""
    generator = np.random.default_rng(1)
    X = generator.uniform(-1, 1, (600, 4))
    y = 0.1 * X[:, 0] + 0.5 * X[:, 2] + 0.3 * X[:, 3] + 0.01 * generator.normal(size=600)
    whole = ridge(algorithm=algorithm, epsilon=500.0, random_state=1)

    def kept(features, rows=X):
        own = PrivateRidge(**{**whole.get_params(), "features": features}).fit(rows, y)
        return np.flatnonzero(own.coef_).tolist(), own

    assert kept(2)[0] == [2, 3]
    assert kept(1)[0] == [2]
    assert kept(9)[0] == [0, 1, 2, 3]
    places, own = kept([0, 2])
    assert places == [0, 2]
    assert own.coef_[[0, 2]] == pytest.approx([0.1, 0.5], abs=0.05)
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["a", "b", "c", "d"])
    assert kept(["c", "a"], frame)[0] == [0, 2]
    for wrong, words in (([4], "from 0 to 3"), ([1, 1], "each once"), (["e"], "no column")):
        with pytest.raises(InvalidInput, match=words):
            kept(wrong, frame)


@pytest.mark.parametrize("wrong", [[True, False], np.array([True, False]), [0.7], [None]])
def test_features_are_names_or_whole_places(wrong):
    """A mask would otherwise name the columns 1 and 0, and 0.7 the first."""
    X, _, _ = table(300)
    with pytest.raises(InvalidInput, match="by name, or by place from 0 to 1; nothing was spent"):
        ridge(features=wrong).fit(X, X[:, 0])


def test_features_are_for_sums_of_products():
    X, _, _ = table(300)
    with pytest.raises(InvalidInput, match="choose one of fisher-scoring, adaptive-statistics"):
        ridge(algorithm="gradient-perturbation", features=1).fit(X, X[:, 0])
    assert ridge(algorithm="auto", features=1).fit(X, X[:, 0]).algorithm_ in (
        "fisher-scoring",
        "adaptive-statistics",
    )


def test_what_is_tried_where_nobody_says():
    """The estimator as it is, subsets that share its release, and a network; none for delta 0."""
    lines = module.usual_candidates(ridge(), 8)
    assert lines[:3] == [{}, {"features": 4}, {"features": 2}]
    assert lines[3]["estimator"].target_bounds == (-1, 1)
    classes = module.usual_candidates(logistic(relation="zero-out"), 8)
    assert classes[0] == {}
    assert classes[1]["estimator"].relation == "zero-out"
    assert len(module.usual_candidates(ridge(), 8, pure=True)) == 3
    with pytest.raises(InvalidInput, match="give candidates"):
        module.usual_candidates(logistic(), 8, pure=True)


def test_the_usual_candidates_warn_where_they_cannot_be_expected_to_help():
    """Before anything is paid, by public facts: few records for each class, and any numbers."""
    X, y, _ = table(300)
    poor = Ledger.in_memory(Policy("own", Budget(0.01, DELTA)), ACCOUNTANT, seed=0)
    own = PrivateSearch(logistic(relation="zero-out"), epsilon=4.0, delta=DELTA, ledger=poor)
    with pytest.warns(DrownedByNoise, match="cannot be expected"), pytest.raises(BudgetExceeded):
        own.fit(X, y)
    assert poor.grants == 0
    with pytest.warns(DrownedByNoise, match="here these are 480"), pytest.raises(BudgetExceeded):
        own.set_params(holdout=0.2).fit(X, y)  # by those that learn
    assert network_beside_line(300, 4.0, 2)
    assert network_beside_line(15_000, 2.0, 26)
    assert "average" in network_beside_line(15_000, 2.0, 0)
    assert not network_beside_line(15_000, 2.0, 0, average=True)
    assert "nor was the average" in network_beside_line(15_000, 2.0, 26, average=True)
    assert not network_beside_line(15_000, 2.0, 2)
    assert not network_beside_line(8_244, 2.0, 10)


def test_random_stopping_with_networks_states_what_is_known():
    """Their secret samples have no bound under replace-one, of which nothing is stated."""
    X, y, _ = table(300)
    given = {"bounds": (-1, 1), "classes": [0, 1], "relation": "zero-out"}
    network = PrivateClassifier(hidden=(4,), batch_size=100, **given)
    own = search(
        PrivateLogisticRegression(**given), [{}, {"estimator": network}], method="random-stopping"
    ).fit(X, y)
    assert own.certificate_.epsilon(FINAL_MODEL, Relation.ZERO_OUT) <= 4
    assert REPLACE not in {line.relation for line in own.certificate_.lines}
    said = replace(own.certificate_, simulated=False).text()
    assert "whether one record was used or left blank" in said
    assert "for inferring which of two values one record has" in said  # by two steps


def test_words_of_a_certificate_are_about_what_is_stated_against_everybody():
    """Of replace-one something may be known against some, which says nothing of the others."""
    found = search(candidates=PENALTIES, random_state=0).fit(*table(300)).certificate_
    viewers = list(dict.fromkeys(line.viewer for line in found.lines))

    def line(viewer, relation, epsilon):
        return Line(viewer, relation, epsilon, 0.0, budget_guess(epsilon, 0.0))

    lines = [line(viewer, Relation.ZERO_OUT, 1.0) for viewer in viewers]
    some = replace(found, simulated=False, lines=[line(viewers[0], REPLACE, 0.1), *lines])
    once = percent(budget_guess(1.0, 0.0))
    two_steps = percent(1 - math.exp(-1) / 2)
    assert f"at most {once} for inferring whether one record was used" in some.text()
    assert f"at most {two_steps} for inferring which of two values" in some.text()
    all_of = [line(viewer, REPLACE, 1.5) for viewer in viewers]
    for asked, directly in ((REPLACE, True), (Relation.ZERO_OUT, False)):
        settings = {"privacy": {"relation": str(asked)}}
        text = replace(some, lines=[*all_of, *lines], settings=settings).text()
        assert ("whether one record" not in text) is directly
        bound = percent(budget_guess(1.5, 0.0)) if directly else two_steps
        assert f"at most {bound} for inferring which of two values" in text


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


def test_a_certificate_states_the_settings_of_the_chosen_one():
    """Of candidates that share a release: not those of the first, which made it."""
    X, _, _ = table()
    own = search(ridge(), [{"regularisation": 1e3}, {"features": [0]}], epsilon=9.0)
    found = own.fit(X, 0.9 * X[:, 0])
    assert found.best_params_ == {"features": [0]}
    settings = found.certificate_.settings
    assert (settings["regularisation"], [*settings["features"]]) == (None, [0])
    assert found.best_estimator_._keeping is False  # a later fit keeps its model only


def test_scores_of_numbers_have_one_unit():
    """Errors are in units of the target's bounds: the widest would always win."""
    X, _, _ = table(300)
    wide = [{}, {"target_bounds": (-100, 100)}]
    with pytest.raises(InvalidInput, match="differ in target_bounds"):
        search(ridge(), wide).fit(X, 0.4 * X[:, 0])
    alike = [{"target_bounds": np.array([-1.0, 1.0])}, {"target_bounds": [-1, 1], "features": 1}]
    assert len(search(ridge(), alike).fit(X, 0.4 * X[:, 0]).tried_) == 2


def test_a_search_finds_the_better_candidate_where_there_is_budget(everything):
    X, y, _ = table(400, seed=9)
    assert everything.best_params_["regularisation"] < 1e3
    assert everything.score(X, y) > 0.85
    assert everything.predict_proba(X[:2]).shape == (2, 2)


def test_twenty_candidates_stay_within_the_aims():
    """At most 3 times one run for who sees the final model, 5.5 times under a secure sum: by the
    prices alone, at epsilon 1 for one run and delta 1e-6."""
    X, y, parties = table(12_000)
    many = [{"regularisation": float(r)} for r in np.geomspace(1e-4, 1, 20)]
    models = search(candidates=many)._candidates(2)[1]
    aims = {"random-stopping": 3.0, "all": 5.5}
    for holdout in (0.0, 0.25):
        split = module.split_records(models[0], module.membership(parties, len(X)), holdout, 0)
        for method, aim in aims.items():
            own = search(candidates=many, method=method, epsilon=aim, delta=DELTA)
            plan = own._priced(models, 1.0, X, y, split, apart=bool(holdout))
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


def test_coins_that_leave_nobody_to_judge_change_nothing_but_the_scores():
    """Where sizes are hidden, an error after fits were paid for would tell how few there are."""
    X, y, _ = table(3)
    own = search(logistic(relation="add-or-remove", records=20), holdout=0.25, random_state=9)
    split = module.split_records(own.estimator, module.membership(None, 3), 0.25, 9)
    assert [len(rows) for rows in split.judging] == [0]
    found = own.set_params(candidates={"regularisation": [1e-2, 1.0]}).fit(X, y)
    assert len(found.tried_) == 2


@pytest.mark.parametrize("wrong", [2.5, "many", True, 0, 1001])
def test_a_number_of_runs_is_a_whole_one(wrong):
    X, y, parties = table(300)
    own = search(method="random-stopping", most_runs=wrong)
    with pytest.raises(InvalidInput, match=r"most_runs = .*: give a whole number from 1 to 1000"):
        own.fit(X, y, parties)


@pytest.mark.parametrize("how", ["rows", "frame", "one party"])
def test_no_error_quotes_a_cell(how):
    X, y, parties = table(30)
    secret = X.astype(object)
    secret[3, 1] = "hunter2"
    if how == "frame":
        secret = pandas.DataFrame(secret, columns=["a", "b"])

    def fit():
        if how == "one party":
            return private_search([logistic(), logistic()], secret, y, epsilon=1.0)
        return search().fit(secret, y, parties)

    with pytest.raises(InvalidInput, match="X holds text") as found:
        fit()
    assert "hunter2" not in str(found.value)


# ------------------------------------------------------------------- scores


@pytest.mark.parametrize(("models", "gain"), [(1, 1.0), (2, 1.0), (20, 1.0), (3, 8.0)])
@pytest.mark.parametrize("trust", [Trust.LOCAL, Trust.SECURE_SUM])
def test_one_record_moves_the_scores_by_no_more_than_was_authorised(models, gain, trust):
    """The neighbour fuzzer on what would be released before the noise, odd numbers included."""
    sizes = (30, 20)
    facts = agree_facts(sizes, models, trust)
    problem = JudgedModels(models, gain)
    study = Study(HELD_OUT_SCORES.method(problem, Privacy(1.0, DELTA)), facts, trust)
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


@pytest.mark.parametrize("gain", [1.0, 8.0])
def test_a_gain_takes_noise_from_small_differences_and_changes_no_mean(gain):
    """Next to no noise: scores are means, as long as no record is shortened."""
    facts = agree_facts((200,), 3, Trust.LOCAL)
    problem = JudgedModels(3, gain)
    study = Study(HELD_OUT_SCORES.method(problem, Privacy(1e4, DELTA)), facts, Trust.LOCAL)
    scores = 0.7 + 0.05 * np.random.default_rng(0).random((200, 3)).astype(np.float32)
    book = Ledger.in_memory(Policy("own", Budget(1e5, DELTA)), ACCOUNTANT, seed=0)
    found = in_process.run(study, [Party("own", Private((scores,)), book)]).value
    assert found == pytest.approx(scores.mean(axis=0), abs=2e-3)
    alone = JudgedModels(3)
    assert score_deviation(problem, 1.0, 200) == pytest.approx(
        score_deviation(alone, 1.0, 200) / gain
    )


@pytest.mark.parametrize("scoring", ["accuracy", "brier"])
def test_a_score_lies_between_0_and_1_whatever_a_record_holds(scoring):
    X, y, _ = table(300)
    model = logistic(random_state=0).fit(X, y)
    line = ridge(random_state=0).fit(X, 0.4 * X[:, 0])
    odd = np.array([[0.0, 0.0], [1e150, -1e150], [-3.0, 7.0]])
    own = module.record_scores(model, scoring, odd, np.array([0, 1, 7]))
    assert ((own >= 0) & (own <= 1)).all()
    own = module.record_scores(line, scoring, odd, np.array([np.nan, 1e300, -np.inf]))
    assert ((own >= 0) & (own <= 1)).all()


# ------------------------------------------------------------------ averages


def averaged(books=None, penalty=1e3, **more):
    """A steep line beside one that is drawn to zero, of which the first is nearly the average."""
    X, y, parties = table()
    candidates = [{}, {"regularisation": penalty}]
    return search(candidates=candidates, average=True, ledger=books, **more), (X, y, parties)


def test_an_average_of_candidates_is_judged_beside_them_and_paid_by_nobody():
    books = ledgers()
    own, given = averaged(books)
    found = own.fit(*given)
    alone = search(candidates=[{}, {"regularisation": 1e3}]).fit(*given)
    assert found.epsilon_of_one_fit_ == pytest.approx(alone.epsilon_of_one_fit_, rel=0.02)
    assert [one.settings for one in found.tried_][2:] == [{"average": (0, 1)}]
    assert all(book.grants == 3 for book in books.values())  # two fits and the scores
    stated = found.certificate_.epsilon(ITERATES, REPLACE)
    assert stated <= 4
    assert all(book.spent(ITERATES) == pytest.approx(stated, rel=1e-9) for book in books.values())


def test_an_average_answers_by_the_mean_of_its_members():
    X, y, parties = table()
    lines = [logistic(epsilon=4.0, delta=DELTA, random_state=k).fit(X, y, parties) for k in (0, 1)]
    mean = AveragedModel(lines)
    chances = mean.predict_proba(X)
    assert chances.sum(axis=1) == pytest.approx(1.0)
    odds = [np.log(own.predict_proba(X)[:, 1] / own.predict_proba(X)[:, 0]) for own in lines]
    assert np.log(chances[:, 1] / chances[:, 0]) == pytest.approx(np.mean(odds, axis=0), abs=1e-6)
    assert mean.score(X, y) == np.mean(mean.predict(X) == y)
    numbers = [ridge(epsilon=4.0, delta=DELTA, random_state=k).fit(X, X[:, 0]) for k in (0, 1)]
    both = AveragedModel(numbers)
    assert both.predict(X) == pytest.approx((numbers[0].predict(X) + numbers[1].predict(X)) / 2)
    with pytest.raises(InvalidInput, match="no probabilities"):
        both.predict_proba(X)


def test_a_chosen_average_has_the_certificate_of_the_search(monkeypatch):
    own, given = averaged()
    monkeypatch.setattr(module, "released_scores", lambda study, judged, *rest: [0, 0, 1.0])
    found = own.fit(*given)
    assert isinstance(found.best_estimator_, AveragedModel)
    for member in (found.best_estimator_, *found.best_estimator_.members_):
        assert member.certificate_ is found.certificate_
    again = pickle.loads(pickle.dumps(found.best_estimator_))
    assert (again.predict(given[0]) == found.predict(given[0])).all()


@pytest.mark.parametrize("kind", ["classes", "numbers"])
def test_an_average_is_saved_as_one_model(kind, tmp_path, monkeypatch):
    """A line and a network, which scale numbers in their own ways."""
    X, y, parties = table(300)
    line, network = logistic(), PrivateClassifier(bounds=(-1, 1), classes=[0, 1])
    if kind == "numbers":
        y = X[:, 0]
        line, network = ridge(), PrivateRegressor(bounds=(-1, 1), target_bounds=(-1, 1))
    line.set_params(relation="zero-out")
    network.set_params(relation="zero-out", hidden=(4,), epochs=1)
    candidates = [{}, {"estimator": network}]
    own = search(line, candidates, average=True)
    monkeypatch.setattr(module, "released_scores", lambda study, judged, *rest: [0, 0, 1.0])
    found = own.fit(X, y, parties)
    found.save(tmp_path / "model")
    loaded = unisono.load(tmp_path / "model")
    new = np.random.default_rng(5).uniform(-1.5, 1.5, (50, 2))  # wider than the bounds
    if kind == "classes":
        wanted = found.predict_proba(new)
        np.testing.assert_allclose(loaded.predict_proba(new), wanted, atol=1e-6)
    np.testing.assert_allclose(loaded.predict(new), found.predict(new), atol=1e-6)
    assert loaded.model == "average"
    assert loaded.certificate == json.loads(json.dumps(found.certificate_.to_json()))
    assert "average of several models" in loaded.summary()
    assert "SIMULATION" in statement.as_markdown(loaded)
    with pytest.raises(InvalidInput, match="without intervals"):
        loaded.predict_interval(new)
    document = json.loads((tmp_path / "model" / "result.json").read_text())
    del document["fitted"]["prediction"]["members"][1]
    (tmp_path / "model" / "result.json").write_text(json.dumps(document))
    with pytest.raises(InvalidInput, match="1 members"):
        unisono.load(tmp_path / "model")


def test_an_average_needs_candidates_that_are_all_released():
    own, given = averaged(method="random-stopping", holdout=0.25)
    with pytest.raises(InvalidInput, match='use method="all"'):
        own.fit(*given)


def test_a_summary_states_epsilon_at_the_delta_of_the_ledger_and_is_pickled_without_it():
    X, y, _ = table(300)
    policy = Policy("clinic", Budget(50.0, 1e-4))
    ledger = Ledger.in_memory(policy, ACCOUNTANT, seed=1)
    own = search(candidates=PENALTIES, ledger=ledger).fit(X, y)
    [line] = [
        one for one in own.certificate_.lines if (one.viewer, one.relation) == (ITERATES, REPLACE)
    ]
    told = [row for row in own.summary().splitlines() if describe(ITERATES) in row]
    assert told == [f"  {describe(ITERATES)}: {shown_number(line.epsilon)} at delta 0.0001"]
    again = pickle.loads(pickle.dumps(own))
    assert np.array_equal(again.predict(X), own.predict(X))
    with pytest.raises(InvalidInput, match="its ledger was left out"):
        again.fit(X, y)
    assert again.set_params(ledger=ledger).fit(X, y).best_params_


def test_generalised_linear_models_are_searched_too():
    X, y, _ = table(300)
    model = unisono.PrivateGLM(classes=[0, 1], bounds=(-1, 1))
    own = unisono.PrivateSearch(
        model, [{}, {"rounds": 2}], epsilon=50.0, delta=DELTA, random_state=0
    )
    assert own.fit(X, y).score(X, y) > 0.6
