"""Bayesian estimators: scikit-learn's checks, posteriors, honest intervals, engines, bad input."""

import math
import sys

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="scikit-learn is not installed")

from scipy.special import expit, ndtr
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from unisono.accounting.accountant import ACCOUNTANT
from unisono.accounting.gaussian import mu_for
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.trust import FINAL_MODEL, PARTY, SERVER, Relation
from unisono.errors import BudgetExceeded, InvalidInput
from unisono.estimators import (
    BayesianLinearRegression,
    BayesianLogisticRegression,
    DrownedByNoise,
    Posterior,
)
from unisono.estimators.noise_aware import Descent, from_descent, from_statistics, response
from unisono.models.gaussian_family import Natural, covariance, gaussian, mean, prior

# A test's seeds and budgets are its own; that users are told of theirs is in test_estimators.
pytestmark = pytest.mark.filterwarnings(
    "ignore::unisono.PredictableNoiseWarning", "ignore::unisono.FreshBudgetWarning"
)
LOW, HIGH = np.array([0.0, 10.0, -5.0]), np.array([2.0, 50.0, -1.0])
MIDDLE, HALF = (LOW + HIGH) / 2, (HIGH - LOW) / 2
LINEAR = {"bounds": (LOW, HIGH), "target_bounds": (50, 150), "noise_std": 5.0}
CLASSES = {"bounds": (-1, 1), "classes": [0, 1]}
NOISELESS = {"epsilon": 1e7, "delta": 0.5}


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    """Compiled programs of the tests stay out of the user's own cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))


def plane(records=2000, seed=0):
    """X, y and the true coefficients, the intercept last; targets keep inside (50, 150)."""
    generator = np.random.default_rng(seed)
    theta = np.clip(0.15 * generator.normal(size=4), -0.2, 0.2)
    X = generator.uniform(LOW, HIGH, (records, 3))
    scaled = (X - MIDDLE) / HALF @ theta[:3] + theta[3] + 0.1 * generator.normal(size=records)
    slopes = 50 * theta[:3] / HALF
    return X, 100 + 50 * scaled.clip(-1, 1), np.r_[slopes, 100 + 50 * theta[3] - slopes @ MIDDLE]


def coins(records=2000, features=3, seed=0, link=expit, spread=2.0):
    """X in the unit ball, labels, and the true coefficients under a bound on the norm."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(records, features))
    X *= (generator.random(records) ** (1 / features) / np.linalg.norm(X, axis=1))[:, None]
    beta = spread * generator.normal(size=features + 1) / math.sqrt(2)
    chance = link(X @ beta[:-1] + beta[-1])
    return X, (generator.random(records) < chance).astype(int), beta


def book(epsilon=3.0, delta=1e-4, relation=Relation.REPLACE_ONE):
    policy = Policy("ages", Budget(epsilon, delta), relation=relation)
    return Ledger.in_memory(policy, ACCOUNTANT, seed=0)


def covered(posterior, truth):
    low, high = posterior.interval(0.95).T
    return (low < truth) & (truth < high)


# ------------------------------------------------------------- scikit-learn

quietly = pytest.mark.filterwarnings(
    "ignore::unisono.estimators.UnboundedFeatures",
    "ignore::unisono.estimators.DrownedByNoise",
    "ignore::unisono.ClippedValues",
    "ignore::unisono.PrivacyWarning",
)


@quietly
@pytest.mark.slow
@parametrize_with_checks([BayesianLinearRegression(), BayesianLogisticRegression(rounds=2)])
def test_scikit_learn_checks(estimator, check, labels_are_public):
    check(estimator)


# ------------------------------------------------------------ the posterior


def made(seed=0, size=3):
    generator = np.random.default_rng(seed)
    factor = generator.normal(size=(size, size))
    names = tuple("abcdef"[:size])
    return Posterior(generator.normal(size=size), factor @ factor.T + np.eye(size), names)


def test_intervals_are_those_of_a_normal():
    q = Posterior(np.array([1.0, -2.0]), np.diag([4.0, 9.0]), ("slope", "intercept"))
    assert q.std == pytest.approx([2, 3])
    assert q.interval() == pytest.approx(
        np.array([[1 - 3.919928, 1 + 3.919928], [-2 - 5.879892, -2 + 5.879892]]), abs=1e-6
    )
    assert q.interval(0.6826894921)[0] == pytest.approx([-1, 3])
    for level in (0, 1, -1, math.nan):
        with pytest.raises(InvalidInput, match="level"):
            q.interval(level)


def test_divergence():
    """KL(N(m, s²) || N(n, t²)) = log(t/s) + (s² + (m - n)²) / (2 t²) - 1/2, in any units."""
    q = Posterior(np.array([1.0]), np.array([[4.0]]), ("a",))
    p = Posterior(np.array([0.0]), np.array([[9.0]]), ("a",))
    assert q.kl(p) == pytest.approx(math.log(3 / 2) + 5 / 18 - 0.5)
    assert q.kl(q) == pytest.approx(0, abs=1e-12)
    one, two = made(0), made(1)
    units = np.diag([1e6, 1.0, 1e-6])
    far = one.mapped(units, np.ones(3), "abc").kl(two.mapped(units, np.ones(3), "abc"))
    assert far == pytest.approx(one.kl(two), rel=1e-6)
    with pytest.raises(InvalidInput, match="same coefficients"):
        q.kl(Posterior(q.mean, q.covariance, ("b",)))


def test_draws_have_the_moments():
    """40 000 draws: six deviations, a false alarm once in 10^8 per number."""
    q = made()
    draws = q.sample(40_000, random_state=0)
    assert np.all(np.abs(draws.mean(0) - q.mean) < 6 * q.std / 200)
    scale = np.sqrt(np.outer(q.std**2, q.std**2) + q.covariance**2)
    assert np.all(np.abs(np.cov(draws.T) - q.covariance) < 6 * scale / 200)
    assert np.array_equal(q.sample(3, random_state=1), q.sample(3, random_state=1))


def test_an_affine_map_and_natural_parameters():
    q, matrix = made(), np.array([[1.0, 2.0, 0.0], [0.0, 1.0, -1.0]])
    moved = q.mapped(matrix, np.array([1.0, 0.0]), ("u", "v"))
    assert moved.mean == pytest.approx(matrix @ q.mean + [1, 0])
    assert moved.covariance == pytest.approx(matrix @ q.covariance @ matrix.T)
    assert q.natural.precision @ q.covariance == pytest.approx(np.eye(3), abs=1e-9)
    assert q.natural.shift == pytest.approx(q.natural.precision @ q.mean)


def test_the_summary_is_plain():
    q = Posterior(np.array([1.0]), np.array([[4.0]]), ("age",), floored=1, noise_aware=False)
    assert "95 % interval" in repr(q)
    assert "age" in q.summary()
    assert "-2.92" in q.summary()
    assert "NOT part" in repr(q)
    assert "1 of 1 directions" in repr(q)
    assert "is part of" in repr(made())


# ------------------------------------------------------- aware of the noise


def statistics(seed, records, features, variance):
    """A release of Σ uuᵀ and Σ u t with noise of this variance, and the θ behind it."""
    generator = np.random.default_rng(seed)
    size = features + 1
    theta = generator.normal(size=size)
    rows = np.c_[generator.uniform(-1, 1, (records, features)), np.ones(records)]
    noise = math.sqrt(variance / 4) * generator.normal(size=(size, size))
    targets = rows @ theta + 0.2 * generator.normal(size=records)
    shift = rows.T @ targets + math.sqrt(variance) * generator.normal(size=size)
    return Natural(shift, rows.T @ rows + noise + noise.T), theta


def test_packed_noise_is_what_the_formula_says():
    """The test's own noise: variance v on the diagonal, v / 2 beside it (2000 draws, 6 sd)."""
    draws = [statistics(seed, 1, 1, 4.0)[0].precision for seed in range(2000)]
    clean = [statistics(seed, 1, 1, 1e-30)[0].precision for seed in range(2000)]
    spread = np.var(np.array(draws) - np.array(clean), axis=0)
    assert spread == pytest.approx(np.array([[4, 2], [2, 4]]), rel=6 * math.sqrt(2 / 2000))


@pytest.mark.parametrize(("records", "features"), [(500, 2), (2000, 5), (10_000, 3)])
def test_intervals_of_a_regression_cover(records, features):
    """200 seeds at epsilon 1, delta 1e-5, replace-one, without the engine: between 90 and 99 %
    covered; at a true 95 % and 600 numbers or more that is 5 deviations. Naive ones fail."""
    size = features + 1
    variance = (2 * math.sqrt(size**2 + size) / mu_for(1.0, 1e-5)) ** 2
    start, aware, naive = prior(size, 0.0, 1.0, full=True), [], []
    for seed in range(200):
        raw, theta = statistics(seed, records, features, variance)
        answer = Natural(raw.shift / 0.04, start.precision + raw.precision / 0.04)
        if np.linalg.eigvalsh(raw.precision)[0] < 0:
            continue
        q = from_statistics(answer, start, 0.2, variance)
        for found, into in ((q, aware), (answer, naive)):
            names = tuple(map(str, range(size)))
            into.append(covered(Posterior(mean(found), covariance(found), names), theta))
    assert 0.90 <= np.mean(aware) <= 0.99
    assert np.mean(naive) < 0.75
    assert len(aware) > 190


def test_without_noise_nothing_changes_and_with_much_the_prior_remains():
    raw, _ = statistics(0, 1000, 2, 1e-12)
    start = prior(3, 0.0, 1.0, full=True)
    exact = Natural(start.shift + raw.shift / 0.04, start.precision + raw.precision / 0.04)
    same = from_statistics(exact, start, 0.2, 1e-12)
    assert same.precision == pytest.approx(exact.precision, rel=1e-6)
    assert mean(same) == pytest.approx(mean(exact), rel=1e-6)
    lost = from_statistics(exact, start, 0.2, 1e16)
    assert mean(lost) == pytest.approx(np.zeros(3), abs=1e-3)
    assert covariance(lost) == pytest.approx(np.eye(3), abs=1e-3)


DESCENT = Descent(15, 0.3, 0.5, 20.0, 0.2, variance=9.0)


def test_the_response_of_a_descent():
    """Against the iteration itself, run many times: six deviations."""
    p, generator, runs = np.array([3.0, 60.0]), np.random.default_rng(0), 20_000
    error, velocity, kept = np.full((runs, 2), -1.0), np.zeros((runs, 2)), []
    for t in range(15):
        velocity = 0.5 * velocity - p * error + 3 * generator.normal(size=(runs, 2))
        error = error + 0.3 / (p + 20.0) * velocity
        if t >= 12:
            kept.append(error)
    ends = np.mean(kept, axis=0)
    gain, noise = response(p, DESCENT)
    spread = 9.0 * noise
    assert np.all(np.abs(ends.mean(0) + 1 - gain) < 6 * np.sqrt(spread / runs))
    assert ends.var(0) == pytest.approx(spread, rel=6 * math.sqrt(2 / runs))


def test_a_descent_without_noise_and_with_too_much():
    start = prior(2, 0.0, 0.5, full=True)
    answer = gaussian(np.array([1.0, -1.0]), np.array([[0.1, 0.02], [0.02, 0.05]]))
    arrived = DESCENT._replace(rounds=300, damping=0.0, variance=1e-12)
    same = from_descent(answer, start, arrived)
    assert same.precision == pytest.approx(answer.precision, rel=1e-4)
    assert mean(same) == pytest.approx(mean(answer), rel=1e-4)
    lost = from_descent(answer, start, arrived._replace(variance=1e12))
    assert covariance(lost) == pytest.approx(0.5 * np.eye(2), abs=1e-4)
    # A descent that stopped half-way: what is missing is made up for, and nothing else changes.
    short = DESCENT._replace(rounds=2, variance=1e-9)
    values, vectors = np.linalg.eigh(answer.precision)
    gone = response(values, short)[0]
    assert np.all(gone < 0.6)
    made_up = vectors @ ((vectors.T @ mean(answer)) / gone)
    assert mean(from_descent(answer, start, short)) == pytest.approx(made_up, rel=1e-4)
    assert from_descent(answer, start, short).precision == pytest.approx(answer.precision, rel=1e-4)


# ------------------------------------------------------------------- linear


def test_without_noise_the_regression_is_the_textbooks_in_the_users_units():
    X, y, _ = plane(500)
    model = BayesianLinearRegression(**NOISELESS, **LINEAR, prior_variance=0.25, random_state=0)
    with pytest.warns(UserWarning, match="delta"):
        model.fit(X, y)
    U = np.c_[(X - MIDDLE) / HALF, np.ones(500)]
    precision = np.eye(4) / 0.25 + U.T @ U / 0.1**2
    spread = np.linalg.inv(precision)
    theta = spread @ U.T @ ((y - 100) / 50) / 0.1**2
    slopes = np.c_[np.diag(50 / HALF), np.zeros(3)]
    matrix = np.r_[slopes, [np.r_[-50 * MIDDLE / HALF, 50]]]
    posterior = model.posterior_
    apart = posterior.mean - (matrix @ theta + [0, 0, 0, 100])
    assert np.all(np.abs(apart) < 0.05 * posterior.std)  # the grid rounds every record
    assert posterior.covariance == pytest.approx(matrix @ spread @ matrix.T, rel=5e-3)
    assert model.coef_ == pytest.approx(posterior.mean[:3])
    assert model.intercept_ == pytest.approx(posterior.mean[3])
    expected, std = model.predict(X, return_std=True)
    rows = np.c_[X, np.ones(500)]
    assert expected == pytest.approx(rows @ posterior.mean)
    unknown = np.einsum("ij,jk,ik->i", rows, posterior.covariance, rows)
    assert std == pytest.approx(np.sqrt(unknown + 5.0**2), rel=1e-6)
    assert np.array_equal(model.predict(X), expected)


@pytest.mark.parametrize(
    ("trust", "parties"),
    [
        pytest.param("local", 3, marks=pytest.mark.slow),
        ("secure-sum", 3),
        (None, 1),
    ],
)
def test_the_noise_in_the_sum_is_the_noise_that_is_counted(trust, parties, monkeypatch):
    """Rows and targets of zero: the released shift is noise alone. 310 numbers, 16 % is four
    deviations of their spread: a false alarm once in 10 000."""
    import unisono.estimators.bayesian as module

    counted, found = [], []
    exact = module.opened_variance
    monkeypatch.setattr(
        module, "opened_variance", lambda *a: counted.append(exact(*a)) or counted[-1]
    )
    X, y = np.zeros((60, 30)), np.zeros(60)
    for seed in range(10):
        model = BayesianLinearRegression(
            bounds=(-1, 1), target_bounds=(-1, 1), noise_std=1.0, trust=trust, random_state=seed,
            noise_aware=False, ledger=None,
        )  # fmt: skip
        with pytest.warns(DrownedByNoise, match="of 31 directions"):
            model.fit(X, y, parties=np.arange(60) % parties)
        found.append(model._posterior.natural.shift)
    assert len(set(counted)) == 1
    assert np.std(found) == pytest.approx(math.sqrt(counted[0]), rel=0.16)


def test_a_drowned_regression_is_the_prior():
    X, y, _ = plane(20)
    model = BayesianLinearRegression(0.05, 1e-6, **LINEAR, random_state=0)
    with pytest.warns(DrownedByNoise, match="directions noise drowned the data"):
        model.fit(X, y)
    q = model._posterior
    assert q.floored > 0
    assert np.abs(q.mean).max() < 1  # naively: dozens of prior deviations
    assert q.std == pytest.approx(np.ones(4), abs=0.35)
    assert "drowned" in " ".join(model.statements_)
    assert "drowned" in model.posterior_.summary()


@pytest.mark.slow
def test_intervals_cover_through_the_engine():
    """200 seeds, 4 coefficients, epsilon 1: 90 to 99 % at a true 95 % is 5 deviations and more."""
    hits, naive = [], []
    for seed in range(200):
        X, y, truth = plane(2000, seed)
        model = BayesianLinearRegression(1.0, 1e-5, **LINEAR, random_state=seed).fit(X, y)
        hits.append(covered(model.posterior_, truth))
        if seed < 40:
            blind = BayesianLinearRegression(noise_aware=False, random_state=seed, **LINEAR)
            naive.append(covered(blind.fit(X, y).posterior_, truth))
    assert 0.90 <= np.mean(hits) <= 0.99
    assert np.mean(naive) < 0.5


# ---------------------------------------------------------------- guarantees


@quietly
@pytest.mark.parametrize(
    ("kind", "relation"),
    [
        *(("linear", relation) for relation in ("replace-one", "zero-out", "add-or-remove")),
        ("logistic", "add-or-remove"),
        pytest.param("logistic", "replace-one", marks=pytest.mark.slow),
        pytest.param("logistic", "zero-out", marks=pytest.mark.slow),
    ],
)
def test_certificate_and_ledger(kind, relation):
    extra = {"records": 300} if relation == "add-or-remove" else {}
    ledger = book(relation=Relation(relation), epsilon=1.0, delta=1e-6)
    options = {"relation": relation, "ledger": ledger, **extra}
    if kind == "linear":
        X, y, _ = plane(300)
        model = BayesianLinearRegression(0.7, 1e-6, **LINEAR, **options).fit(X, y)
        assert model.certificate_.algorithm == "one-shot-regression"
    else:
        X, y, _ = coins(300)
        model = BayesianLogisticRegression(0.7, 1e-6, **CLASSES, **options).fit(X, y)
        assert model.certificate_.algorithm == "pvi-natural-gradient"
    epsilon = model.certificate_.epsilon(FINAL_MODEL, Relation(relation))
    assert 0.699 < epsilon <= 0.7
    assert model.epsilon_spent_ == pytest.approx(epsilon)
    assert ledger.grants == 1
    assert ledger.spent(FINAL_MODEL, 1e-6) == pytest.approx(epsilon)
    with pytest.raises(BudgetExceeded):
        clone(model).fit(X, y)
    assert ledger.grants == 1


def test_pure_epsilon_is_laplace():
    X, y, truth = plane(20_000)
    model = BayesianLinearRegression(1.0, 0.0, **LINEAR, random_state=0).fit(X, y)
    assert model.certificate_.epsilon(FINAL_MODEL, Relation.REPLACE_ONE) <= 1.0
    assert np.all(np.abs(model.posterior_.mean - truth) < 4 * model.posterior_.std)


def test_a_trusted_server_and_a_curious_party():
    X, y, _ = plane(400)
    hospital = np.arange(400) % 4
    options = {**LINEAR, "random_state": 0}
    seen = BayesianLinearRegression(trust="trusted-server", **options).fit(X, y, parties=hospital)
    assert math.isinf(seen.certificate_.epsilon(SERVER, Relation.REPLACE_ONE))
    summed = BayesianLinearRegression(**options).fit(X, y, parties=hospital)
    assert summed.certificate_.epsilon(PARTY, Relation.REPLACE_ONE) <= 1.0
    assert summed.certificate_.colluders == 1


@quietly
@pytest.mark.parametrize(
    ("kind", "trust"),
    [
        ("linear", "secure-sum"),
        ("logistic", "local"),
        pytest.param("linear", "local", marks=pytest.mark.slow),
        pytest.param("logistic", "secure-sum", marks=pytest.mark.slow),
    ],
)
def test_both_engines_give_the_same_posterior(kind, trust):
    """The same simulated noise and the same integers; 32-bit programs may round differently."""
    pytest.importorskip("flwr", reason="Flower is not installed")
    if kind == "linear":
        (X, y, _), options = plane(200), LINEAR
        model = BayesianLinearRegression(trust=trust, random_state=3, **options)
    else:
        X, y, _ = coins(600)
        model = BayesianLogisticRegression(trust=trust, random_state=3, rounds=4, **CLASSES)
    parties = np.arange(len(X)) % 2
    ours = clone(model).fit(X, y, parties=parties)
    theirs = clone(model).set_params(engine="flower").fit(X, y, parties=parties)
    reach = ours.posterior_.std
    assert np.all(np.abs(ours.posterior_.mean - theirs.posterior_.mean) < 1e-3 * reach)
    assert theirs.posterior_.covariance == pytest.approx(ours.posterior_.covariance, rel=1e-3)
    assert theirs.certificate_.epsilon(SERVER, Relation.REPLACE_ONE) == pytest.approx(
        ours.certificate_.epsilon(SERVER, Relation.REPLACE_ONE)
    )


# ------------------------------------------------------------------ logistic


@pytest.mark.parametrize(
    ("link", "form"),
    [("logistic", "diagonal"), pytest.param("probit", "full", marks=pytest.mark.slow)],
)
def test_the_classifier_learns_and_averages_over_its_posterior(link, form):
    from unisono.models.likelihoods import likelihood_named, predictive

    X, y, beta = coins(5000, link={"logistic": expit, "probit": ndtr}[link], spread=3.0)
    model = BayesianLogisticRegression(
        2.0, bounds=1.0, classes=[0, 1], link=link, covariance=form, prior_variance=9.0,
        random_state=0,
    ).fit(X, y)  # fmt: skip
    best = np.mean(((X @ beta[:3] + beta[3]) > 0) == y)
    assert model.score(X, y) > best - 0.02
    chances = model.predict_proba(X)
    assert chances.sum(1) == pytest.approx(1)
    q = gaussian(
        *(part.astype("f") for part in (model._posterior.mean, model._posterior.covariance))
    )
    expected = predictive(likelihood_named(link), q, model._rows(X).astype("f"))
    assert chances[:, 1] == pytest.approx(np.asarray(expected), abs=1e-3)
    labels, std = model.predict(X, return_std=True)
    assert np.array_equal(labels, (model.decision_function(X) > 0).astype(int))
    draws = model.posterior_.sample(4000, random_state=0)
    scores = draws @ np.r_[X[0], 1.0]
    sampled = {"logistic": expit, "probit": ndtr}[link](scores)
    assert std[0] == pytest.approx(np.std(sampled), rel=0.07)  # 6 deviations of a spread
    assert model.coef_.shape == (1, 3)
    assert model.predict_log_proba(X) == pytest.approx(np.log(chances))


@pytest.mark.slow
@pytest.mark.parametrize("form", ["diagonal", "full"])
@pytest.mark.parametrize(("records", "features", "spread"), [(5000, 3, 1.0), (20_000, 5, 2.0)])
def test_intervals_of_the_classifier_cover(records, features, spread, form):
    """50 seeds not used to choose the constants. Mean field and a descent that is linear only near
    its end are approximations, so 85 to 99 % is asked for (93 to 98 % found), and clearly more
    than without the noise (82 to 85 % found)."""
    aware, naive = [], []
    for seed in range(1000, 1050):
        X, y, beta = coins(records, features, seed, spread=spread)
        model = BayesianLogisticRegression(
            1.0, 1e-5, bounds=1.0, classes=[0, 1], covariance=form, prior_variance=spread**2,
            random_state=seed,
        )  # fmt: skip
        aware.append(covered(model.fit(X, y).posterior_, beta))
        blind = BayesianLogisticRegression(**(model.get_params() | {"noise_aware": False}))
        naive.append(covered(blind.fit(X, y).posterior_, beta))
    assert 0.85 <= np.mean(aware) <= 0.99
    assert np.mean(naive) < np.mean(aware) - 0.05


# ----------------------------------------------------------------- bad input


def refused(match, model, X, y, parties=None):
    """The fit raises before anything is spent."""
    ledger = book()
    model.set_params(ledger=model.ledger or ledger)
    with pytest.raises(InvalidInput, match=match):
        model.fit(X, y, parties=parties)
    assert ledger.grants == 0


def test_bad_regressions():
    X, y, _ = plane(50)
    for name in ("noise_std", "prior_variance", "clip", "epsilon"):
        for value in (0.0, -1.0, math.nan, math.inf):
            refused(name, BayesianLinearRegression(**(LINEAR | {name: value})), X, y)
    refused("engine = 'magic'", BayesianLinearRegression(engine="magic", **LINEAR), X, y)
    empty = {"a": book(), "b": book(), "c": book()}
    half = np.array(["a", "b"])[np.arange(50) % 2]
    refused("hold no records", BayesianLinearRegression(ledger=empty, **LINEAR), X, y, half)
    assert sum(ledger.grants for ledger in empty.values()) == 0
    X[3, 1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        BayesianLinearRegression(**LINEAR).fit(X, y)


def test_bad_classifications():
    X, y, _ = coins(50)
    for name, value in (("link", "tanh"), ("covariance", "round"), ("engine", "magic")):
        refused(f"{name} = '{value}'", BayesianLogisticRegression(**CLASSES, **{name: value}), X, y)
    for name in ("prior_variance", "clip", "rounds", "delta"):
        refused(name, BayesianLogisticRegression(**CLASSES, **{name: -1}), X, y)
    refused("one class only", BayesianLogisticRegression(classes=[0]), X, np.zeros(50))
    refused("Only binary", BayesianLogisticRegression(classes=range(3)), X, np.arange(50) % 3)
    refused("not among the public classes", BayesianLogisticRegression(**CLASSES), X, y + 1)


def test_flower_that_is_not_installed(monkeypatch):
    X, y, _ = plane(50)
    name = "unisono.engines.flower"
    monkeypatch.delitem(sys.modules, f"{name}.loopback", raising=False)
    if name in sys.modules:
        monkeypatch.delattr(sys.modules[name], "loopback", raising=False)
    monkeypatch.setitem(sys.modules, "flwr.app", None)
    refused(
        "flwr.app is not installed: pip", BayesianLinearRegression(engine="flower", **LINEAR), X, y
    )


def test_what_the_user_is_told():
    X, y, _ = plane(500)
    model = BayesianLinearRegression(bounds=(LOW, HIGH), target_bounds=(50, 150), ledger=book())
    assert "no noise_std" in " ".join(model.fit(X, y).statements_)
    assert BayesianLinearRegression(**LINEAR, ledger=book()).fit(X, y).statements_ == ()
    with pytest.raises(NotFittedError):
        BayesianLinearRegression().predict(X)
    with pytest.raises(NotFittedError):
        BayesianLogisticRegression().predict_proba(X)
