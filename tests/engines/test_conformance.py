"""Every algorithm on both engines: same ledgers, same integers, same certificate."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from unisono.accounting import gaussian
from unisono.accounting.accountant import ACCOUNTANT
from unisono.algorithms import (
    components,
    quantiles,
    ranges,
    statistics,
)
from unisono.algorithms.labels import label_names
from unisono.algorithms.table_one import NamedVariable, NumberVariable, TableOne
from unisono.core.algorithm import Facts
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
    Unit,
    Viewer,
)
from unisono.core.values import Private
from unisono.data.spelling import Grid
from unisono.engines import in_process
from unisono.errors import BudgetExceeded, GrantMisused, InvalidInput
from unisono.problems.columns import Groups
from unisono.problems.record_loss import RecordLoss, of_persons
from unisono.releases.blocked_sum import Clipping

from .. import methods

loopback = pytest.importorskip("unisono.engines.flower.loopback", reason="flwr is not installed")

SIZES = (40, 25, 60, 31)
ENGINES = {"in-process": in_process.run, "flower-loopback": loopback.run}
BOX = (-1.0, 1.0)
SURVEYS = {
    "moments": ([statistics.mean(0, BOX, wanted=("mean", "variance"))], 1.0, 1e-6),
    "histogram-pure": (
        [statistics.histogram(1, (0, 1, 2), edges=(-1.0, -0.3, 0.3, 1.0))],
        1.0,
    ),
    "quantiles": ([quantiles.median(2, BOX, branching=4)], 1.0, 1e-6),
    "labels": ([label_names(0, "labels", 2, grid=Grid(3, 1, 3))], 1.0, 1e-6),
    "ranges": ([ranges.column_range(j, f"column {j}") for j in range(3)], 1.0, 1e-6),
    "table-one": (
        TableOne(
            (NumberVariable("dose", 0, (-3.0, 3.0), step=1.0), NamedVariable("arm", 1, ("a", "b"))),
            Groups(2, ("f", "m")),
            Privacy(1.0, 1e-6),
        ).survey.questions,
        1.0,
        1e-6,
    ),
    "components": (
        [components.principal_components((0, 1, 2), (BOX,) * 3, 2)],
        1.0,
        1e-6,
    ),
}
PROBLEM = RecordLoss(
    lambda weights, record: jnp.logaddexp(0.0, -record[1] * (record[0] @ weights)),
    np.zeros(3, np.float32),
    (np.zeros(3, np.float32), np.float32(0)),
)
AT_HOME = {"rounds": 4, "steps": 3, "sampling_rate": 0.3, "relation": Relation.REPLACE_ONE}
ALGORITHMS = {
    "gradient-perturbation": methods.gradient_perturbation(epsilon=2.0, delta=1e-5, rounds=12),
    **{name: methods.statistics(*survey) for name, survey in SURVEYS.items()},
    "output-perturbation": methods.output_perturbation(2.0, 1e-5, regularisation=0.01),
    "output-perturbation-pure": methods.output_perturbation(2.0, regularisation=0.01),
    **{
        f"{name}-equal-parties": method(2.0, 1e-5, objective="equal-parties", **settings)
        for name, method, settings in (
            ("gradient-perturbation", methods.gradient_perturbation, {"rounds": 12}),
            ("output-perturbation", methods.output_perturbation, {"regularisation": 0.01}),
            ("objective-perturbation", methods.objective_perturbation, {}),
        )
    },
    "gradient-perturbation-printed": methods.gradient_perturbation(
        2.0, 1e-5, rounds=12, published=True
    ),
    "clipped-updates-printed": methods.clipped_updates(
        epsilon=0.5, rounds=3, relation=Relation.REPLACE_ONE, published=True
    ),
    "row-moments": methods.row_moments(2.0, 1e-5),
    "preconditioned-gradients": methods.preconditioned_gradients(2.0, 1e-5, rounds=12),
    "dp-sgd-convex": methods.dp_sgd_convex(2.0, 1e-5, rounds=12),
    "sgd-synchronous": methods.sgd_synchronous(2.0, 1e-5, rounds=12),
    "sgd-sequential": methods.sgd_sequential(2.0, 1e-5, steps=40, uses=5),
    "objective-perturbation": methods.objective_perturbation(2.0, 1e-5),
    "adaptive-statistics": methods.adaptive_statistics(2.0, 1e-5),
    "adaptive-statistics-pure": methods.adaptive_statistics(2.0),
    "k-means": methods.k_means((BOX,) * 3, 2, 2.0, 1e-6, rounds=3),
    "score-influence": methods.score_influence(("no", "yes"), ("a", "b"), 2.0, 1e-6),
    "exit-times": methods.exit_times(("a", "b"), 2.0, 1e-6),
    "survival-table": methods.survival_table(("a", "b"), 2.0, 1e-6, complete=False),
    "hazard-scoring": methods.hazard_scoring(1, 2.0, 1e-6, rounds=2),
    "log-rank": methods.log_rank(("a", "b", "c"), 2.0, 1e-6),
    "column-scales": methods.column_scales("gaussian", 2, 2.0, 1e-6),
    "fed-avg-by-coins": methods.fed_avg(
        PROBLEM,
        optax.adam(0.1),
        2.0,
        1e-5,
        Relation.REPLACE_ONE,
        rounds=4,
        sampling_rate=0.5,
        batch_size=16,
        home=optax.sgd(1.0, momentum=0.5),
    ),
    "dp-ftrl": methods.dp_ftrl(
        PROBLEM,
        optax.sgd(1.0, momentum=0.5),
        2.0,
        1e-5,
        rounds=12,
        separation=5,
        bands=4,
        clipping=Clipping(loss_range=2.0),
    ),
    **{
        f"local-dp-sgd{name}": methods.local_dp_sgd(
            PROBLEM, optax.adam(0.1), 2.0, 1e-5, own=own, **AT_HOME
        )
        for name, own in (("", ()), ("-own-epsilons", (0.5, 1.0, 1.5, 2.0)))
    },
}


def toy(sizes=SIZES, features=3, seed=0):
    """Rows in the unit ball, labels by a hidden direction with some noise."""
    generator = np.random.default_rng(seed)
    direction = np.array([2.0, -1.0, 0.5])[:features]
    parties = []
    for size in sizes:
        rows = generator.normal(size=(size, features))
        rows /= np.maximum(1, np.linalg.norm(rows, axis=1, keepdims=True))
        labels = np.where(rows @ direction + 0.1 * generator.normal(size=size) > 0, 1.0, -1.0)
        parties.append((rows, labels))
    return parties


def members(data, trust=Trust.SECURE_SUM, seed=11, budget=3.0, unit=Unit.RECORD):
    trusted = (SERVER, Viewer.colluders(1)) if trust is Trust.TRUSTED_SERVER else ()
    exceptions = tuple((viewer, Budget(math.inf)) for viewer in trusted)
    return [
        Party(
            f"party-{j}",
            Private(columns),
            Ledger.in_memory(
                Policy(f"data-{j}", Budget(budget, 1e-5), exceptions, unit=unit),
                ACCOUNTANT,
                seed=seed,
            ),
        )
        for j, columns in enumerate(data)
    ]


def study(algorithm, trust, sizes=SIZES, survivors=3, colluders=1):
    return Study(algorithm, Facts(sizes, 3, survivors, colluders), trust)


def sums(result):
    return np.array([m.value for m in result.transcript.seen_by(SERVER) if m.name == "sum"])


def every_algorithm_and_trust():
    """Each algorithm under its most demanding trust, and one under all; the rest is slow."""
    for name, algorithm in ALGORITHMS.items():
        offered = algorithm.trusts
        first = Trust.SECURE_SUM if Trust.SECURE_SUM in offered else Trust.LOCAL
        for trust in sorted(offered):
            quick = trust is first or name == "gradient-perturbation"
            yield pytest.param(name, trust, marks=[] if quick else [pytest.mark.slow])


@pytest.mark.parametrize(("name", "trust"), list(every_algorithm_and_trust()))
def test_engines_agree(name, trust):
    """Encodings agree within two grid steps a party, so sums within eight; ledgers are equal."""
    agreed = study(ALGORITHMS[name], trust).begun(None)  # as where an earlier stage was lost
    unit = agreed.algorithm.event(agreed.facts, trust).sensitivity.unit
    results, books = {}, {}
    for engine, run in ENGINES.items():
        parties = members(toy(), trust, unit=unit)
        results[engine] = run(agreed, parties)
        books[engine] = [(p.ledger.grants, p.ledger.history(ITERATES)) for p in parties]
    first, second = results.values()
    assert books["in-process"] == books["flower-loopback"]
    assert jax.tree.structure(first.value) == jax.tree.structure(second.value)
    assert np.abs(sums(first) - sums(second)).max() <= 2 * len(SIZES)
    for one, other in zip(jax.tree.leaves(first.value), jax.tree.leaves(second.value), strict=True):
        assert one == pytest.approx(other, abs=1e-3)
    assert first.certificate.lines == second.certificate.lines
    assert first.certificate.simulated


PERSONS = {
    "persons-gradient-perturbation": ALGORITHMS["gradient-perturbation"],
    "persons-dp-sgd-convex": methods.dp_sgd_convex(2.0, 1e-5, rounds=4),
    "persons-moments": ALGORITHMS["moments"],
    "persons-dp-sgd": methods.dp_sgd(
        of_persons(PROBLEM, 2), optax.sgd(0.1), 2.0, 1e-5, rounds=3, sampling_rate=0.5
    ),
}


def people(data, marked):
    """Every row as a person with the row before it as a second record, or with one alone."""
    for rows, labels in data:
        second = np.arange(len(rows)) % 3 > 0
        own = np.stack([rows, np.where(second[:, None], np.roll(rows, 1, axis=0), np.nan)], axis=1)
        more = np.stack([labels, np.where(second, np.roll(labels, 1), np.nan)], axis=1)
        there = np.stack([np.ones(len(rows)), second], axis=1)
        yield own, there if marked else more


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] if "sgd" in name else []) for name in PERSONS],
)
def test_engines_agree_on_persons(name):
    """As above, where rows are persons of up to two records."""
    agreed = Study(PERSONS[name], Facts(SIZES, 3, 3, 1, records_per_person=2), Trust.SECURE_SUM)
    results, books = [], []
    for run in ENGINES.values():
        parties = members(people(toy(), name == "persons-moments"), unit=Unit.PERSON)
        results.append(run(agreed, parties))
        books.append([(p.ledger.grants, p.ledger.history(ITERATES)) for p in parties])
    assert books[0] == books[1]
    assert np.abs(sums(results[0]) - sums(results[1])).max() <= 2 * len(SIZES)
    assert np.abs(sums(results[0])).max() > 0
    assert results[0].certificate.lines == results[1].certificate.lines
    assert {result.certificate.unit for result in results} == {"person"}


@pytest.mark.parametrize("trust", list(Trust))
@pytest.mark.parametrize(
    "name",
    [
        "gradient-perturbation",
        "moments",
        "output-perturbation-pure",
        "k-means",
        "dp-ftrl",
        "objective-perturbation",
        "sgd-sequential",
    ],
)
def test_turns_paid_one_by_one_add_up_to_the_run(name, trust):
    """Real parties pay before every turn: the same history as one payment, in other lines."""
    if trust not in ALGORITHMS[name].trusts:
        pytest.skip(f"{name} does not offer trust {trust}")
    agreed, parties = study(ALGORITHMS[name], trust), members(toy(), trust)
    result = loopback.run(agreed, parties, at_once=False)
    for party in parties:
        for viewer in (FINAL_MODEL, ITERATES, SERVER, PARTY, NETWORK):
            assert party.ledger.history(viewer) == agreed.cost[viewer]
        at_once = name in ("dp-ftrl", "sgd-sequential")
        grants = 1 if at_once else agreed.algorithm.rounds
        assert party.ledger.grants == grants
    assert len(sums(result)) == agreed.algorithm.rounds


def test_noise_is_calibrated_for_retries_that_are_paid_only_when_used():
    """Three retries on twelve rounds: all fifteen cost epsilon, the twelve that ran cost less."""
    agreed = Study(
        ALGORITHMS["gradient-perturbation"], Facts(SIZES, 3, 3, 1, retries=3), Trust.SECURE_SUM
    )
    whole = agreed.algorithm.event(agreed.facts, agreed.trust) * 15
    assert agreed.cost[SERVER] == whole
    assert ACCOUNTANT.epsilon(whole, Relation.REPLACE_ONE, 1e-5) == pytest.approx(2.0, rel=1e-4)
    parties = members(toy())
    certificate = loopback.run(agreed, parties, at_once=False).certificate
    assert certificate.epsilon(SERVER, Relation.REPLACE_ONE) == pytest.approx(2.0, rel=1e-4)
    spent = parties[0].ledger.spent(SERVER)
    mu = gaussian.mu_for(2.0, 1e-5) * math.sqrt(12 / 15)
    assert spent == pytest.approx(gaussian.epsilon(1e-5, mu), rel=1e-3)


def test_retries_are_refused_where_rounds_depend_on_each_other():
    with pytest.raises(InvalidInput, match="cannot be tried again"):
        Study(ALGORITHMS["dp-ftrl"], Facts(SIZES, 3, 3, 1, retries=1), Trust.SECURE_SUM)


@pytest.mark.parametrize("run", ENGINES.values(), ids=ENGINES)
def test_learns_something(run):
    data = toy((400, 300, 500, 350))
    algorithm = methods.gradient_perturbation(epsilon=4.0, delta=1e-5, rounds=40)
    result = run(
        study(algorithm, Trust.SECURE_SUM, (400, 300, 500, 350)), members(data, budget=4.5)
    )
    accuracy = np.mean([np.mean(np.sign(x @ result.value) == y) for x, y in data])
    assert accuracy > 0.85


@pytest.mark.parametrize("run", ENGINES.values(), ids=ENGINES)
def test_certificate_states_every_viewer(run):
    result = run(study(ALGORITHMS["gradient-perturbation"], Trust.SECURE_SUM), members(toy()))
    certificate = result.certificate
    for viewer in (FINAL_MODEL, ITERATES, SERVER, NETWORK, PARTY, Viewer.colluders(1)):
        epsilon = certificate.epsilon(viewer, Relation.REPLACE_ONE)
        assert 1.99 < epsilon <= 2.0
        assert certificate.epsilon(viewer, Relation.ZERO_OUT) < epsilon
    text = certificate.text()
    assert "SIMULATION" in text
    assert "3 answer, 1 may collude" in text
    assert (
        certificate.to_json()["study"]
        == study(ALGORITHMS["gradient-perturbation"], Trust.SECURE_SUM).hash
    )


def test_one_curious_party_knows_its_own_share():
    """Without tolerated colluders a party subtracts its share: mu grows by sqrt(m / (m - 1))."""
    agreed = study(ALGORITHMS["gradient-perturbation"], Trust.SECURE_SUM, survivors=4, colluders=0)
    certificate = in_process.run(agreed, members(toy(), budget=3.5)).certificate
    mu = gaussian.mu_for(2.0, 1e-5) * math.sqrt(4 / 3)
    assert certificate.epsilon(PARTY, Relation.REPLACE_ONE) == pytest.approx(
        gaussian.epsilon(1e-5, mu), rel=1e-4
    )


@pytest.mark.parametrize("run", ENGINES.values(), ids=ENGINES)
def test_dropouts_down_to_the_minimum_are_survived_and_no_further(run):
    agreed = study(ALGORITHMS["gradient-perturbation"], Trust.SECURE_SUM)
    silent = np.zeros((12, 4), bool)
    silent[2, 0] = True
    silent[5, :2] = True  # two survivors, three are needed
    result = run(agreed, members(toy()), dropouts=silent)
    iterates = [m.value for m in result.transcript.seen_by(ITERATES) if m.name == "public"]
    assert not np.array_equal(iterates[2], iterates[3])
    assert np.array_equal(iterates[5], iterates[6])


def test_noise_of_the_sum_has_the_promised_spread():
    """Empty signal, many rounds: the sum's variance is total * parties / honest.

    False-alarm rate: a chi-square with 1200 degrees of freedom lies within 20 % of its mean
    but for 1e-6.
    """
    rounds = 400
    algorithm = methods.gradient_perturbation(epsilon=2.0, delta=1e-5, rounds=rounds)
    agreed = study(algorithm, Trust.SECURE_SUM)
    data = [(np.zeros((n, 3)), np.ones(n)) for n in SIZES]
    result = in_process.run(agreed, members(data))
    event = agreed.algorithm.event(agreed.facts, agreed.trust)
    grid = agreed.algorithm.grid(agreed.facts, agreed.trust)
    measured = np.var(sums(result) * grid)
    assert measured == pytest.approx(event.noise.std**2 * 4 / 2, rel=0.2)


def test_messages_under_a_secure_sum_look_uniform():
    result = loopback.run(
        study(ALGORITHMS["gradient-perturbation"], Trust.SECURE_SUM), members(toy())
    )
    words = np.concatenate(
        [
            np.concatenate(list(m.value.values()))
            for m in result.transcript.seen_by(SERVER)
            if m.name == "messages"
        ]
    )
    # 144 uniform 32-bit words: mean within six standard errors.
    assert abs(words.mean() / 2**32 - 0.5) < 6 * 0.2887 / math.sqrt(len(words))
    assert not [m for m in result.transcript.seen_by(ITERATES) if m.name == "messages"]


@pytest.mark.parametrize("run", ENGINES.values(), ids=ENGINES)
def test_nobody_pays_when_one_party_cannot(run):
    parties = members(toy())
    poor = Ledger.in_memory(Policy("poor", Budget(0.5, 1e-5)), ACCOUNTANT, seed=1)
    parties[2] = Party("poor", parties[2].data, poor)
    with pytest.raises(BudgetExceeded, match="'poor'"):
        run(study(ALGORITHMS["gradient-perturbation"], Trust.SECURE_SUM), parties)
    assert [p.ledger.grants for p in parties] == [0, 0, 0, 0]


def test_bad_studies_are_refused():
    algorithm = ALGORITHMS["gradient-perturbation"]
    with pytest.raises(InvalidInput, match="one party alone"):
        Study(algorithm, Facts((10,), 3, 1), Trust.SECURE_SUM)
    with pytest.raises(InvalidInput, match="no honest party"):
        Facts(SIZES, 3, 2, 2)
    with pytest.raises(InvalidInput, match="at least one record"):
        Facts((10, 0), 3, 1)
    agreed = study(algorithm, Trust.SECURE_SUM)
    with pytest.raises(InvalidInput, match="4 parties, 3 are here"):
        in_process.run(agreed, members(toy())[:3])
    with pytest.raises(InvalidInput, match="public sizes"):
        in_process.run(agreed, members(toy((41, 25, 60, 31))))
    mixed = members(toy())
    mixed[0] = Party("real", mixed[0].data, Ledger.in_memory(mixed[0].ledger.policy, ACCOUNTANT))
    with pytest.raises(InvalidInput, match="one or the other"):
        in_process.run(agreed, mixed)
    same = members(toy())
    same[1] = Party("other", same[1].data, same[0].ledger)
    with pytest.raises(InvalidInput, match="share one ledger"):
        in_process.run(agreed, same)


def test_not_finite_records_contribute_nothing():
    data = toy()
    rows = data[0][0].copy()
    rows[0] = np.nan
    clean = in_process.run(
        study(ALGORITHMS["gradient-perturbation"], Trust.SECURE_SUM),
        members([(rows, data[0][1]), *data[1:]]),
    )
    assert np.isfinite(clean.value).all()


@pytest.mark.parametrize("run", ENGINES.values(), ids=ENGINES)
def test_a_party_that_dropped_out_of_the_wire_is_not_special(run):
    """Real entropy: two runs differ, nothing is stamped as a simulation."""
    agreed = study(ALGORITHMS["gradient-perturbation"], Trust.LOCAL)
    first = run(agreed, members(toy(), seed=None))
    second = run(agreed, members(toy(), seed=None))
    assert not first.certificate.simulated
    assert not np.array_equal(first.value, second.value)


@pytest.mark.parametrize("run", ENGINES.values(), ids=ENGINES)
def test_an_algorithm_that_forgets_its_clip_does_not_run(run):
    """The contribution is checked against the event before anything is released."""
    honest = study(ALGORITHMS["gradient-perturbation"], Trust.LOCAL).algorithm
    wild = methods.gradient_perturbation(epsilon=2.0, delta=1e-5, rounds=12, clipping_norm=1000.0)
    forgetful = honest._replace(local=study(wild, Trust.LOCAL).algorithm.local)
    agreed = study(forgetful, Trust.LOCAL)
    if run is in_process.run:
        with pytest.raises(GrantMisused, match="more than was authorised"):
            run(agreed, members(toy()))
    else:  # on the wire it looks like a dropout, so no round is ever opened
        assert not run(agreed, members(toy())).value.any()


def test_a_run_can_be_stopped_and_resumed(tmp_path):
    """Chunks that were merged are not paid again; what was granted and lost stays spent."""
    algorithm = methods.gradient_perturbation(epsilon=2.0, delta=1e-5, rounds=150)
    agreed = study(algorithm, Trust.SECURE_SUM)
    parties = members(toy(), budget=3.0)
    place = tmp_path / "run.checkpoint"

    merged = []

    def stop(done):
        merged.append(done)
        if done >= 64:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        in_process.run(agreed, parties, checkpoint=place, progress=stop)
    spent = parties[0].ledger.spent(SERVER)
    assert oct(place.stat().st_mode)[-3:] == "600"
    result = in_process.run(agreed, parties, checkpoint=place)
    assert parties[0].ledger.grants == -(-150 // merged[0])
    assert spent < parties[0].ledger.spent(SERVER) <= 2.0
    assert len([m for m in result.transcript.messages if m.name == "sum"]) == 150 - merged[-1]
    other = study(ALGORITHMS["gradient-perturbation"], Trust.SECURE_SUM)
    with pytest.raises(InvalidInput, match="another study"):
        in_process.run(other, members(toy()), checkpoint=place)
    place.write_bytes(b"nonsense")
    with pytest.raises(InvalidInput, match="cannot be read"):
        in_process.run(agreed, members(toy()), checkpoint=place)


def test_a_thousand_parties_share_one_accounting():
    """Joint draws above 64 parties: right spread, one distinct history, nothing drawable left."""
    sizes = (2,) * 1000
    algorithm = methods.gradient_perturbation(epsilon=2.0, delta=1e-5, rounds=100)
    agreed = Study(algorithm, Facts(sizes, 3, 900, 100), Trust.SECURE_SUM)
    data = [(np.zeros((2, 3)), np.ones(2)) for _ in sizes]
    parties = members(data)
    result = in_process.run(agreed, parties)
    assert len(result.certificate.spending) == 1
    assert result.certificate.spending[0].parties == 1000
    event = agreed.algorithm.event(agreed.facts, agreed.trust)
    grid = agreed.algorithm.grid(agreed.facts, agreed.trust)
    # 300 draws: a variance off by more than 40 % has probability below 1e-5.
    assert np.var(sums(result) * grid) == pytest.approx(event.noise.std**2 * 1000 / 800, rel=0.4)
