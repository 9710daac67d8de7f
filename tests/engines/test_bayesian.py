"""Bayesian algorithms on both engines: parties that remember, take turns, or differ in budget."""

import math
from functools import partial

import jax
import numpy as np
import pytest

from unisono.accounting.accountant import ACCOUNTANT
from unisono.algorithms.pvi import Climb, infer
from unisono.algorithms.pvi_dp_sga import started
from unisono.core.algorithm import Facts
from unisono.core.compiled import numbers
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.study import Party, Study
from unisono.core.trust import ITERATES, NETWORK, PARTY, SERVER, Relation, Trust, Unit, Viewer
from unisono.core.values import Private
from unisono.engines import in_process
from unisono.engines.rounds import stack
from unisono.errors import BudgetExceeded, InvalidInput
from unisono.problems import gaussian_family as family
from unisono.problems import likelihoods

from .. import methods

loopback = pytest.importorskip("unisono.engines.flower.loopback", reason="flwr is not installed")

SIZES = (40, 25, 40, 40)
ENGINES = {"in-process": in_process.run, "flower-loopback": loopback.run}
DELTA = 1e-5


def toy(seed=0, features=2):
    generator = np.random.default_rng(seed)
    truth = np.array([1.5, -1.0])[:features]
    rows = [generator.normal(size=(n, features)) for n in SIZES]
    return [(x, x @ truth + 0.5 * generator.normal(size=len(x))) for x in rows]


def signs(data):
    return [(x, np.where(y > 0, 1.0, -1.0)) for x, y in data]


def members(data, epsilons, unit, relation, trust, seed=5):
    exceptions = ()
    if trust is Trust.TRUSTED_SERVER:
        open_to = (SERVER, Viewer.colluders(1), PARTY, NETWORK)
        exceptions = tuple((viewer, Budget(math.inf, DELTA)) for viewer in open_to)
    return [
        Party(
            f"party-{index}",
            Private(columns),
            Ledger.in_memory(
                Policy(f"data-{index}", Budget(epsilon, DELTA), exceptions, relation, unit=unit),
                ACCOUNTANT,
                seed=seed,
            ),
        )
        for index, (columns, epsilon) in enumerate(zip(data, epsilons, strict=True))
    ]


def dp_sga(**changes):
    settings = {
        "epsilon": 8.0,
        "delta": DELTA,
        "rounds": 6,
        "local_steps": 3,
        "sampling_rate": 0.5,
        "clipping_norm": 2.0,
        "prior_variance": 4.0,
        "relation": Relation.ZERO_OUT,
        **changes,
    }
    return methods.dp_sga(**settings)


def updates(**changes):
    settings = {
        "epsilon": 8.0,
        "delta": DELTA,
        "rounds": 8,
        "clipping_norm": 5.0,
        "damping": 0.5,
        "prior_variance": 4.0,
        **changes,
    }
    return methods.clipped_updates(**settings)


OWN = (2.0, 4.0, 6.0, 8.0)
CASES = {
    "dp-sga": (dp_sga(), Trust.LOCAL, {}),
    "dp-sga-in-turn": (dp_sga(order="sequential", own=OWN), Trust.LOCAL, {"epsilons": OWN}),
    "dp-sga-stale": (dp_sga(order="asynchronous"), Trust.LOCAL, {}),
    "a-party": (updates(), Trust.SECURE_SUM, {"unit": Unit.PARTY}),
    "a-party-by-coins": (updates(sampling_rate=0.5), Trust.SECURE_SUM, {"unit": Unit.PARTY}),
    "a-subset-of-parties": (
        updates(subset=2),
        Trust.TRUSTED_SERVER,
        {"unit": Unit.PARTY},
    ),
    "virtual-parties": (updates(unit=Unit.RECORD, shards=5), Trust.SECURE_SUM, {}),
    "local-averaging": (updates(unit=Unit.RECORD, shards=5, averaged_shards=True), Trust.LOCAL, {}),
    "natural-gradient": (
        methods.natural_gradient(
            likelihoods.probit(), 8.0, DELTA, Relation.ZERO_OUT, rounds=6, full_covariance=True
        ),
        Trust.SECURE_SUM,
        {},
    ),
    "line-by-dp-sga": (
        methods.line_by_dp_sga(
            8.0,
            DELTA,
            Relation.ZERO_OUT,
            noise_std=0.5,
            rounds=5,
            local_steps=2,
            sampling_rate="sqrt",
            end_rate=0.5,
            clipping_norm=4.0,
        ),
        Trust.LOCAL,
        {},
    ),
    "line-by-updates": (
        methods.line_by_updates(
            8.0, DELTA, noise_std=0.5, rounds=5, clipping_norm=5.0, full_covariance=True
        ),
        Trust.TRUSTED_SERVER,
        {"unit": Unit.PARTY},
    ),
    "line-by-natural-gradient": (
        methods.line_by_natural_gradient(
            8.0, DELTA, Relation.ZERO_OUT, noise_std=0.5, rounds=5, full_covariance=True
        ),
        Trust.SECURE_SUM,
        {},
    ),
    "one-shot": (
        methods.one_shot_regression(8.0, DELTA, Relation.ZERO_OUT, clipping_norm=4.0),
        Trust.SECURE_SUM,
        {},
    ),
    "iterated": (
        methods.iterated_regression(
            8.0, DELTA, Relation.ZERO_OUT, clipping_norm=4.0, rounds=5, placement="local"
        ),
        Trust.LOCAL,
        {},
    ),
}


# In the fast tests: turns and own epsilons, parties' coins, shards that are averaged, full
# covariances, and one release. The others run the same code with other settings.
QUICK = (
    *("dp-sga-in-turn", "a-party-by-coins", "local-averaging", "natural-gradient", "one-shot"),
    *("line-by-dp-sga", "line-by-updates"),
)


def agreed(name):
    algorithm, trust, _ = CASES[name]
    return Study(algorithm, Facts(SIZES, 2, 3, 1), trust)


def parties(name, data=None):
    _, trust, kinds = CASES[name]
    return members(
        data or signs(toy()),
        [epsilon * 1.0001 for epsilon in kinds.get("epsilons", (8.0,) * 4)],
        kinds.get("unit", Unit.RECORD),
        kinds.get("relation", Relation.ZERO_OUT),
        trust,
    )


def sums(result):
    return [m.value for m in result.transcript.seen_by(SERVER) if m.name == "sum"]


@pytest.mark.parametrize(
    "name",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in CASES],
)
def test_engines_agree_with_dropouts(name):
    """Same ledgers, same sums within rounding, same posterior, whoever fails to answer."""
    study = agreed(name)
    silent = np.zeros((study.algorithm.rounds, 4), bool)
    if study.algorithm.rounds > 3:
        silent[1, 2] = True
        silent[3, :2] = True  # two of four are fewer than the three that must survive
    results, books = [], []
    for run in ENGINES.values():
        people = parties(name)
        results.append(run(study, people, dropouts=silent))
        books.append([(p.ledger.grants, p.ledger.history(ITERATES)) for p in people])
    first, second = results
    assert books[0] == books[1]
    scale = float(np.abs(first.value.shift).max()) + 1.0
    assert np.asarray(first.value.shift) == pytest.approx(
        np.asarray(second.value.shift), abs=1e-2 * scale
    )
    assert first.certificate.lines == second.certificate.lines
    assert first.value.floored == second.value.floored


def test_every_party_keeps_its_own_epsilon():
    study = agreed("dp-sga-in-turn")
    people = parties("dp-sga-in-turn")
    result = in_process.run(study, people)
    for party, epsilon in zip(people, OWN, strict=True):
        assert epsilon * 0.97 < party.ledger.spent(SERVER) <= epsilon
    # The certificate speaks for the party that is protected least.
    assert result.certificate.epsilon(SERVER, Relation.ZERO_OUT) == pytest.approx(8.0, rel=0.03)
    rounds = [study.algorithm.turns(study.facts, party) for party in range(4)]
    assert rounds == [2, 2, 1, 1]


@pytest.mark.parametrize("name", ["one-shot", "natural-gradient"])
def test_other_algorithms_keep_own_epsilons_too(name):
    if name == "one-shot":
        algorithm = methods.one_shot_regression(8.0, DELTA, Relation.ZERO_OUT, OWN)
    else:
        algorithm = methods.natural_gradient(
            delta=DELTA, rounds=3, relation=Relation.ZERO_OUT, own=OWN
        )
    study = Study(algorithm, Facts(SIZES, 2, 3, 1), Trust.LOCAL)
    people = parties("dp-sga-in-turn")
    in_process.run(study, people)
    for party, epsilon in zip(people, OWN, strict=True):
        assert party.ledger.spent(SERVER) == pytest.approx(epsilon, rel=1e-3)
    with pytest.raises(InvalidInput, match="use trust 'local'"):
        Study(algorithm, Facts(SIZES, 2, 3, 1), Trust.SECURE_SUM)


def test_a_removed_record_does_not_change_how_others_are_rounded():
    """X-1: vector instructions treat the tail of an array differently; hidden sizes are padded to
    a number of rows that everybody knows."""
    hidden = Relation.ADD_OR_REMOVE
    method = methods.natural_gradient(rounds=1, clipping_norm=1e3, relation=hidden)
    study = Study(method, Facts((70,), 9, 1, exact_sizes=False), Trust.LOCAL)
    algorithm = study.algorithm
    generator = np.random.default_rng(0)
    rows = generator.normal(size=(71, 9))
    labels = np.where(generator.random(71) < 0.5, 1.0, -1.0)
    server, _ = algorithm.init(study.facts)
    local = jax.jit(numbers(partial(algorithm.local, study.facts)))
    for count in (71, 70, 66):
        data = stack(study, [(rows[:count], labels[:count])])
        assert data.real.shape == (1, 192)
        whole = [np.asarray(array[0]) for array in data.arrays]
        for record in (0, 33, count - 1):
            alone = np.zeros(192, bool)
            alone[record] = True
            _, one, _ = local(algorithm.ask(server), None, tuple(whole), alone)
            reference = stack(study, [(rows, labels)])
            _, same, _ = local(
                algorithm.ask(server), None, tuple(a[0] for a in reference.arrays), alone
            )
            assert np.array_equal(one, same)


def test_one_poor_party_stops_everyone_before_anything_is_spent():
    people = parties("dp-sga-in-turn")
    poor = Ledger.in_memory(
        Policy("poor", Budget(1.0, DELTA), (), Relation.ZERO_OUT), ACCOUNTANT, seed=1
    )
    people[0] = Party("poor", people[0].data, poor)
    for run in ENGINES.values():
        with pytest.raises(BudgetExceeded, match="'poor'"):
            run(agreed("dp-sga-in-turn"), people)
        assert [p.ledger.grants for p in people] == [0, 0, 0, 0]


def test_without_noise_worth_speaking_of_updates_find_the_posterior():
    """Clipped updates with a vast clip and budget are partitioned inference (fix A of E003-16)."""
    data = signs(toy())
    prior = family.prior(2, 0.0, 4.0)
    reference = infer(likelihoods.logistic(), prior, data, passes=40, damping=0.5).posterior
    algorithm = updates(epsilon=1e8, clipping_norm=30.0, rounds=24)
    study = Study(algorithm, Facts(SIZES, 2, 4, 0), Trust.TRUSTED_SERVER)
    people = members(data, (1.1e8,) * 4, Unit.PARTY, Relation.ZERO_OUT, Trust.TRUSTED_SERVER)
    found = in_process.run(study, people).value
    assert float(family.kl(found.natural, reference)) < 0.05


def test_a_public_subset_amplifies_nothing_and_everyone_pays_for_its_turns():
    study = agreed("a-subset-of-parties")
    people = parties("a-subset-of-parties")
    certificate = in_process.run(study, people).certificate
    turns = [study.algorithm.turns(study.facts, party) for party in range(4)]
    assert sum(turns) == 8 * 2
    counts = [sum(n for _, n in p.ledger.history(ITERATES).parts) for p in people]
    assert counts == turns
    assert certificate.epsilon(ITERATES, Relation.ZERO_OUT) == pytest.approx(8.0, rel=1e-3)
    assert certificate.epsilon(SERVER, Relation.ZERO_OUT) == math.inf
    with pytest.raises(InvalidInput, match="shares of noise are missing"):
        Study(study.algorithm, study.facts, Trust.SECURE_SUM)


def test_what_parties_remember_is_not_written_to_disk(tmp_path):
    """X-9: factors without noise are private; those made of releases may be saved."""
    with pytest.raises(InvalidInput, match="must not be written"):
        in_process.run(agreed("a-party"), parties("a-party"), checkpoint=tmp_path / "a")
    with pytest.raises(InvalidInput, match="take turns"):
        in_process.run(
            agreed("dp-sga-in-turn"), parties("dp-sga-in-turn"), checkpoint=tmp_path / "b"
        )
    study = Study(dp_sga(own=OWN), Facts(SIZES, 2, 3, 1), Trust.LOCAL)
    with pytest.raises(InvalidInput, match="pay differently"):
        in_process.run(study, parties("dp-sga-in-turn"), checkpoint=tmp_path / "d")
    own = parties("dp-sga")
    result = in_process.run(agreed("dp-sga"), own, checkpoint=tmp_path / "c")
    again = in_process.run(agreed("dp-sga"), own, checkpoint=tmp_path / "c")
    assert np.array_equal(result.value.shift, again.value.shift)


@pytest.mark.parametrize(
    ("method", "full"),
    [
        ("natural", True),
        ("gradient", False),  # plain gradients climb a mean-field q only
        pytest.param("natural", False, marks=pytest.mark.slow),
    ],
)
def test_an_empty_party_sends_nothing_but_noise(method, full):
    """A party whose records are all zeroed out proposes no change, whatever the server asks: a
    climb would make something of rounding errors and of a hostile q (found by a review)."""
    chosen = updates(full_covariance=full, climb=Climb(method, size=0.05))
    study = Study(chosen, Facts(SIZES, 2, 3, 1), Trust.SECURE_SUM)
    algorithm = study.algorithm
    server, state = algorithm.init(study.facts)
    rows, labels = signs(toy())[0]
    columns = (rows.astype(np.float32), labels.astype(np.float32))
    nobody = np.zeros(len(labels), bool)
    generator = np.random.default_rng(0)
    public = algorithm.ask(server)
    local = jax.jit(numbers(partial(algorithm.local, study.facts)))
    for scale in (1.0, 1e4, 1e8):
        noise = scale * generator.normal(size=public.q.precision.shape)
        hostile = public.q._replace(precision=(noise + noise.T).astype(np.float32))
        for q in (public.q, hostile):
            asked = public._replace(q=q)
            state, value, _ = local(asked, state, columns, nobody)
            assert not np.asarray(value).any()
            state = algorithm.settle(state, True)


@pytest.mark.parametrize("averaged", [True, False])
def test_one_record_moves_one_shard_however_long_the_run(averaged):
    """Two worlds that differ in one record, nobody clipped: the sums differ by at most 2 C in every
    round. A factor that all shards share would spread the record over all of them (a review)."""
    clip, size = 2.0, 10
    facts = Facts((20,), 1, 1)
    algorithm = methods.clipped_updates(
        likelihoods.linear(3.0),
        clipping_norm=clip,
        rounds=30,
        damping=1.0,
        shards=size,
        averaged_shards=averaged,
        unit=Unit.RECORD,
        relation=Relation.REPLACE_ONE,
    ).bind(facts, Trust.LOCAL)
    generator = np.random.default_rng(1)
    rows = generator.normal(size=(20, 1)).astype(np.float32)
    labels = generator.normal(size=20).astype(np.float32)
    others = labels.copy()
    others[0] = 500.0
    server, start = algorithm.init(facts)
    bound = (
        algorithm.event(facts, Trust.LOCAL).sensitivity.under(Relation.REPLACE_ONE).in_norm("l2")
    )
    states = [start, start]
    everyone = np.ones(20, bool)
    public, local = algorithm.ask(server), jax.jit(numbers(partial(algorithm.local, facts)))
    for _ in range(30):
        made = [
            local(public, state, (rows, marks), everyone)
            for state, marks in zip(states, (labels, others), strict=True)
        ]
        apart = (made[0][1] - made[1][1]) * algorithm.grid(facts, Trust.LOCAL)
        assert np.linalg.norm(apart) <= bound
        states = [algorithm.settle(state, True) for state, _, _ in made]


def test_the_hybrid_starts_where_an_earlier_release_left_off():
    """003 §4.2.3: both releases are in the ledger, and the climb begins at the first posterior."""
    data = [(x[:, :1], y) for x, y in toy()]
    facts = Facts(SIZES, 1, 3, 1)
    first = methods.one_shot_regression(
        2.0, DELTA, Relation.ZERO_OUT, clipping_norm=4.0, noise_std=0.5, prior_variance=4.0
    )
    people = members(data, (6.0,) * 4, Unit.RECORD, Relation.ZERO_OUT, Trust.LOCAL)
    known = in_process.run(Study(first, facts, Trust.LOCAL), people).value
    factor = family.Natural(known.shift, np.diagonal(known.precision) - 1 / 4)
    second = methods.dp_sga(
        likelihoods.linear(0.5),
        2.0,
        DELTA,
        Relation.ZERO_OUT,
        rounds=2,
        local_steps=5,
        sampling_rate=0.5,
        prior_variance=4.0,
        start=started(factor),
    ).bind(facts, Trust.LOCAL)
    server, _ = second.init(facts)
    assert np.asarray(server.q.shift) == pytest.approx(known.shift, rel=1e-4)
    in_process.run(Study(second, facts, Trust.LOCAL), people)
    spent = people[0].ledger.spent(SERVER)
    assert 2.0 < spent < 4.0  # composed, and no worse than the sum
    whole = family.Natural(known.shift, known.precision)
    with pytest.raises(InvalidInput, match="mean-field"):
        started(whole)
    longer = started(family.Natural(np.ones(2), np.ones(2)))
    with pytest.raises(InvalidInput, match="mean-field"):
        dp_sga(start=longer).bind(facts, Trust.LOCAL)


def bound(method):
    return Study(method, Facts(SIZES, 2, 3), Trust.LOCAL).costs


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: bound(updates(relation=Relation.ADD_OR_REMOVE)), "presence"),
        (lambda: updates(shards=3), "one shard"),
        (lambda: updates(sampling_rate=0.5, subset=2), "by `sampling_rate` or by `subset`"),
        (lambda: updates(unit=Unit.RECORD, sampling_rate=0.5), "unit PARTY"),
        (lambda: bound(updates(subset=5)), "between 1 and all"),
        (lambda: updates(prior_variance=0.0), "positive number"),
        (lambda: updates(damping=0.0), "damping"),
        (lambda: dp_sga(sampling_rate=2.0), "sampling_rate"),
        (lambda: dp_sga(own=(1.0, -1.0)), "epsilon of party 1"),
        (lambda: dp_sga(least_precision=0.0), "least_precision"),
        (lambda: bound(dp_sga(own=(1.0,))), "give every party its own"),
        (lambda: Study(dp_sga(), Facts(SIZES, 2, 3), Trust.SECURE_SUM), "trust"),
    ],
)
def test_bad_settings_are_refused(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()
