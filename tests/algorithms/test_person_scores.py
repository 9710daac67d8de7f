"""Persons with several records in Fisher scoring: what one adds is bounded like a record's, and
errors count how alike the records of a person are."""

from dataclasses import replace
from itertools import combinations, product

import jax.numpy as jnp
import numpy as np
import pytest

from unisono.accounting.accountant import ACCOUNTANT
from unisono.algorithms import fisher_scoring
from unisono.algorithms.fisher_scoring import (
    FISHER_SCORING,
    histogram_row,
    record_scores,
    recorded,
)
from unisono.algorithms.person_scores import AskedOfPersons, person_scores
from unisono.attacks.audit import audit, check
from unisono.core.algorithm import agree_facts
from unisono.core.events import Composed
from unisono.core.privacy import Privacy
from unisono.core.study import Study
from unisono.core.trust import Relation, Trust
from unisono.errors import InvalidInput
from unisono.releases.rows import unpacked

from .. import methods

FAMILIES = ("binomial", "gaussian", "poisson")
MANY, FEATURES = 3, 4
PRIVACY = Privacy(2.0, 1e-6)


def asked(family, **settings):
    """The configuration of a study of records, its problem, and what its first round asks."""
    problem = methods.generalised_linear(family, FEATURES)
    facts = agree_facts((50, 60), problem.width, Trust.SECURE_SUM)
    study = Study(FISHER_SCORING.method(problem, PRIVACY, rounds=2), facts, Trust.SECURE_SUM)
    config = fisher_scoring.resolve(study.method.config, problem, facts, PRIVACY, study.trust)
    state = study.algorithm.begin(facts, None)[0]
    return config, problem, study.algorithm.ask(state)


def people(family, persons=40, seed=0, wild=0.0):
    """Records (persons, k, columns), x of wild ones far outside its bounds, and which are there."""
    generator = np.random.default_rng(seed)
    points = generator.uniform(-1, 1, (persons, MANY, FEATURES + 1))
    points = points * np.exp(wild * generator.normal(size=points.shape))
    points[..., -1] = generator.integers(0, 2, (persons, MANY))
    marks = generator.integers(0, 2, (persons, MANY))
    marks[:, 0] = 1
    return jnp.asarray(points, jnp.float32), jnp.asarray(marks, jnp.float32)


def parts(family, points, marks, clustered=True):
    """What persons add, before any clip: v, z, y and a, in units of their bounds."""
    _, problem, public = asked(family)
    public = AskedOfPersons(public, clustered)
    values = person_scores(recorded, histogram_row, problem, public, points, marks)
    values, p = np.asarray(values), problem.parameters
    width = values.shape[1] - 2 * MANY * p - 3
    ends = np.cumsum([width, MANY * p, MANY * p])
    return np.split(values, ends, axis=1)


@pytest.mark.parametrize("clustered", [True, False])
@pytest.mark.parametrize("family", FAMILIES)
def test_weights_of_x_alone_bound_whatever_a_person_holds(family, clustered):
    """Norms are at most 1 before the release clips anything, so that it never has to."""
    if family == "poisson" and not clustered:
        pytest.skip("counts are never asked for the meat of single records")
    for wild in (0.0, 3.0):
        found = parts(family, *people(family, 300, wild=wild), clustered)
        for part in found[:3]:
            assert np.linalg.norm(part, axis=1).max() <= 1 + 1e-4


@pytest.mark.parametrize("family", FAMILIES)
def test_the_meat_is_the_square_of_a_persons_sum(family):
    """Its only point is the gradient: dependence within a person is counted."""
    points, marks = people(family)
    vector, _, meat, _ = parts(family, points, marks)
    _, problem, public = asked(family)
    p = problem.parameters
    gradient = vector[:, :p] / float(public.split[0])
    assert meat[:, :p] == pytest.approx(gradient, abs=1e-5)
    assert not meat[:, p:].any()
    if family != "poisson":
        apart = parts(family, points, marks, clustered=False)[2]
        assert np.abs(apart[:, p:]).max() > 0.01


@pytest.mark.parametrize("family", FAMILIES)
def test_who_has_one_record_adds_what_the_record_would(family):
    points, _ = people(family)
    marks = jnp.zeros((40, MANY)).at[:, 1].set(1.0)
    _, problem, public = asked(family)
    p = problem.parameters
    record = np.asarray(record_scores(problem, public, points[:, 1]))
    vector, curvature, meat, _ = parts(family, points, marks)
    width = vector.shape[1]
    assert vector == pytest.approx(record[:, :width], abs=1e-5)
    assert curvature[:, p : 2 * p] == pytest.approx(record[:, width : width + p], abs=1e-5)
    assert meat[:, :p] == pytest.approx(record[:, width + p : width + 2 * p], abs=1e-5)


def test_a_record_that_is_incomplete_is_left_out_of_its_person():
    points, marks = people("gaussian")
    lacking = points.at[:, 0, 2].set(jnp.nan)
    marks = marks.at[:, 1].set(1.0)
    found = parts("gaussian", lacking, marks)
    wanted = parts("gaussian", points, marks.at[:, 0].set(0.0))
    for one, other in zip(found, wanted, strict=True):
        assert one == pytest.approx(other, abs=1e-6)


def test_sums_of_outer_products_are_those_of_all_points():
    """The release adds up what k points of a person make."""
    problem = methods.generalised_linear("binomial", FEATURES)
    facts = agree_facts((50, 60), problem.width, Trust.SECURE_SUM)
    facts = replace(facts, records_per_person=MANY)
    config, _, public = asked("binomial")
    points, marks = people("binomial")
    [block] = fisher_scoring.table(config, problem, facts).blocks
    values = block.values(AskedOfPersons(public, True), (points, marks))
    rows = np.asarray(block.rows.of(values))
    p = problem.parameters
    z = np.asarray(values)[:, p : p + MANY * p].reshape(-1, MANY, p)
    half = p * (p + 1) // 2
    matrix = unpacked(p, rows[0, p : p + half])
    weight = float(public.weights[1])
    assert matrix == pytest.approx(weight * np.einsum("kp,kq->pq", z[0], z[0]), abs=1e-5)


def test_rounds_and_records_of_persons_are_refused_in_words():
    problem = methods.generalised_linear("gaussian", FEATURES)
    facts = agree_facts((50, 60), problem.width, Trust.SECURE_SUM)

    def made(many, **settings):
        method = FISHER_SCORING.method(problem, PRIVACY, **settings)
        return Study(method, replace(facts, records_per_person=many), Trust.SECURE_SUM).cost

    with pytest.raises(InvalidInput, match="Set rounds = 2"):
        made(2, rounds=1)
    with pytest.raises(InvalidInput, match="say records_per_person = 200"):
        made(900)


@pytest.mark.parametrize("family", FAMILIES)
def test_audit_by_the_persons_that_are_furthest_apart(family):
    """One person whose records all lie at one corner, or at another: honest noise passes, halved
    noise is caught. A person moves nearly as far as is claimed, so a clip of records in place of
    persons (k times as far) fails before noise is drawn. Honest noise is accused by chance once in
    10,000, with one fixed seed."""
    delta, generator, persons = 1e-5, np.random.default_rng(5), 12
    problem = methods.generalised_linear(family, FEATURES)
    facts = agree_facts((persons,), problem.width, Trust.LOCAL)
    facts = replace(facts, records_per_person=MANY)
    method = FISHER_SCORING.method(problem, Privacy(2.0, delta), rounds=2)
    algorithm = Study(method, facts, Trust.LOCAL).begun(None).algorithm
    public = algorithm.ask(algorithm.init(facts)[0])
    points, _ = people(family, persons)
    points, marks = np.array(points), np.ones((persons, MANY), np.float32)
    worlds = []
    for corner in product(*[(-1, 1)] * FEATURES, (0, 1)):
        points[0] = corner
        _, made = algorithm.local(facts, public, None, (points, marks), np.ones(persons, bool))
        worlds.append(np.asarray(made.value, np.float64).ravel() * made.grid)
    length = max(np.linalg.norm(one - two) for one, two in combinations(worlds, 2))
    bound = made.sensitivity.under(Relation.REPLACE_ONE).in_norm("l2")
    assert 0.7 * bound < length <= bound
    event = algorithm.event_of(facts, Trust.LOCAL, 0, number=1)
    noise = event.noise.std
    claimed = ACCOUNTANT.epsilon(Composed(((event, 1),)), Relation.REPLACE_ONE, delta)
    for factor in (1.0, 0.5):
        scores = [
            centre + factor * noise * generator.normal(size=10_000) for centre in (length, 0.0)
        ]
        found = audit(*scores, delta, confidence=0.9999, gaussian=True)
        best = max(found.epsilon_direct, found.epsilon_model_based or 0.0)
        if factor == 1:
            check(claimed, delta, found)
        assert best > (0.4 if factor == 1 else 1.0) * claimed
