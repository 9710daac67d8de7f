"""`train`: any loss and any pytree, one data set or several, what it costs, and what it refuses."""

import importlib.util
import math
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from unisono.accounting.accountant import ACCOUNTANT
from unisono.core.algorithm import Facts
from unisono.core.costs import everyone
from unisono.core.defaults import default_relation
from unisono.core.events import Event, Gaussian, bounded_sum, compose
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.privacy import Privacy
from unisono.core.study import Party, Study
from unisono.core.trust import FINAL_MODEL, ITERATES, PARTY, SERVER, Relation, Trust, Unit, Viewer
from unisono.core.values import Private
from unisono.engines import chunks, in_process
from unisono.errors import (
    BudgetExceeded,
    ClippedValues,
    FreshBudgetWarning,
    InvalidInput,
    LargeDeltaWarning,
    PredictableNoiseWarning,
    UndefinedRelation,
)
from unisono.estimators.schedules import schedule
from unisono.problems.networks import logistic
from unisono.problems.record_loss import RecordLoss
from unisono.releases.algorithm import Method
from unisono.releases.blocked_sum import Clipping
from unisono.training import train
from unisono.training.choices import chosen, configured, epsilons_of
from unisono.training.data import collect
from unisono.training.progress import epsilon_so_far, following

from . import methods

# A test's seeds and budgets are its own; that users are told of theirs is a test below.
pytestmark = pytest.mark.filterwarnings(
    "ignore::unisono.PredictableNoiseWarning", "ignore::unisono.FreshBudgetWarning"
)
START = {"slope": np.zeros(3, np.float32), "offset": np.float32(0)}


@pytest.fixture(autouse=True, scope="module")
def cache(tmp_path_factory):
    """Compiled programs of the tests stay out of the user's own cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.getbasetemp() / "cache"))
        yield


def cost(parameters, record):
    """Logistic loss of a record that is a dict, with labels 0 and 1."""
    score = record["row"] @ parameters["slope"] + parameters["offset"]
    return jax.nn.softplus((1 - 2 * record["label"]) * score)


def people(count, seed=0):
    generator = np.random.default_rng(seed)
    rows = generator.normal(size=(count, 3))
    return {"row": rows, "label": (rows @ [2.0, -1.0, 0.5] > 0.3).astype(int)}


def book(
    epsilon=2.0,
    delta=1e-4,
    seed=None,
    relation=Relation.ADD_OR_REMOVE,
    unit=Unit.RECORD,
    name="people",
):
    policy = Policy(name, Budget(epsilon, delta), relation=relation, unit=unit)
    return Ledger.in_memory(policy, ACCOUNTANT, seed=seed)


# ------------------------------------------------------------------ learning

SHARED = {
    "parameters": START,
    "epsilon": 2.0,
    "delta": 1e-4,
    "rate": 0.25,
    "rounds": 12,
    "seed": 5,
    "clipping": Clipping(loss_range=2.0, gauge=1.0),
    "sizes": 300,
    "averaged": 0.5,
    "relation": "add-or-remove",
}


@pytest.fixture(scope="module")
def federated():
    """Twelve rounds in chunks of four, after each of which somebody looks."""
    steps = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "_CHUNK_ROUNDS", 4)
        trained = train(cost, [people(300, 1), people(290, 2)], progress=steps.append, **SHARED)
    return trained, steps


def test_several_parties_learn_one_model(federated):
    trained, _ = federated
    assert set(trained.parameters) == {"slope", "offset"}
    assert trained.parameters["slope"].shape == (3,)
    new = people(2000, 3)
    scores = new["row"] @ trained.parameters["slope"] + trained.parameters["offset"]
    assert ((scores > 0) == new["label"]).mean() > 0.8
    losses = jax.vmap(cost, (None, 0))(trained.parameters, new)
    assert trained.loss == pytest.approx(float(losses.mean()), abs=0.15)


def test_the_certificate_holds_the_budget_and_names_the_simulation(federated):
    trained, _ = federated
    certificate = trained.certificate
    assert 1.98 < trained.epsilon <= 2.0
    assert (certificate.parties, certificate.colluders) == (2, 1)
    assert certificate.epsilon(PARTY, Relation.ADD_OR_REMOVE) <= 2.0
    assert certificate.simulated
    assert "SIMULATION" in certificate.text()


def test_progress_tells_what_the_rounds_so_far_cost(federated):
    """The last step costs what the certificate says; see below for a prefix."""
    trained, steps = federated
    assert [step.round for step in steps] == [4, 8, 12]
    assert [step.rounds for step in steps] == [12] * 3
    assert steps[0].epsilon < steps[1].epsilon < steps[2].epsilon
    assert steps[2].epsilon == trained.certificate.epsilon(ITERATES, Relation.ADD_OR_REMOVE)


def test_the_released_loss_is_told_while_the_run_goes_on(federated):
    """It falls from log 2; its noise here is about 0.02, and single batches differ as much."""
    trained, steps = federated
    losses = [step.loss for step in steps]
    assert losses[2] == trained.loss
    assert len(set(losses)) == 3
    assert losses[2] < losses[0] < math.log(2)


def test_whoever_watches_an_engine_gets_the_result_so_far(monkeypatch):
    """The loss of a chunk's last round, read by hand from the sum that everybody saw then."""
    monkeypatch.setattr(chunks, "_CHUNK_ROUNDS", 2)
    clipping = Clipping(loss_range=2.0, gauge=0.5)
    plan = study((), rounds=4, clipping=clipping)
    member = Party("one", Private((people(100)["row"],)), book(seed=1))
    watched, counted = {}, []
    result = in_process.run(plan, [member], progress=counted.append, watch=watched.__setitem__)
    assert counted == list(watched) == [2, 4]
    jax.tree.map(np.testing.assert_array_equal, watched[4], result.value)
    assert not np.array_equal(watched[2].parameters, watched[4].parameters)
    step = plan.algorithm.grid(plan.facts, plan.trust)
    seen = [m.value for m in result.transcript.seen_by(SERVER) if m.name == "sum"]
    for done, value in watched.items():
        average = seen[done - 1][-1] * step / (0.5 * 0.25 * 100)
        assert value.loss == pytest.approx(2.0 * (1 - average) / 2, rel=1e-4)


def test_a_column_of_labels_is_the_same_as_a_list(federated, monkeypatch):
    monkeypatch.setattr(chunks, "_CHUNK_ROUNDS", 4)  # the same program as theirs
    both = jax.tree.map(lambda *parts: np.concatenate(parts), people(300, 1), people(290, 2))
    labels = np.repeat(["party 1", "party 2"], [300, 290])
    # Parties' rows in between each other's, each party's in their own order.
    mixed = np.argsort(np.r_[np.arange(300), np.arange(290)], kind="stable")
    again = train(
        cost,
        jax.tree.map(lambda column: column[mixed], both),
        parties=labels[mixed],
        progress=False,
        **SHARED,
    )
    jax.tree.map(np.testing.assert_array_equal, again.parameters, federated[0].parameters)


def test_without_noise_it_is_plain_gradient_descent():
    """Full batches, a clip that nothing reaches and an enormous budget: momentum, in NumPy.

    The noise of twenty rounds is about 0.04 in the parameters; five times that is allowed.
    """
    data = people(200, 4)
    trained = train(
        cost,
        data,
        parameters=START,
        epsilon=1e3,
        delta=1e-4,
        rate=1,
        rounds=20,
        clipping=5.0,
        learning_rate=0.3,
        relation="zero-out",
        seed=0,
        progress=False,
    )
    rows = np.column_stack([data["row"], np.ones(200)])
    theta, speed = np.zeros(4), np.zeros(4)
    for _ in range(20):
        residual = 1 / (1 + np.exp(-rows @ theta)) - data["label"]
        speed = 0.9 * speed + rows.T @ residual / 200
        theta = theta - 0.3 * speed
    found = np.append(trained.parameters["slope"], trained.parameters["offset"])
    assert found == pytest.approx(theta, abs=0.2)


def test_a_ledger_pays_and_refuses_the_second_run():
    data = tuple(people(150, 6).values())
    ledger = book(epsilon=2.5, relation=Relation.REPLACE_ONE)
    options = {
        "epsilon": 2.0,
        "delta": 1e-4,
        "batch_size": 50,
        "epochs": 1,
        "ledger": ledger,
        "optimizer": optax.adam(0.1),
        "progress": False,
    }
    trained = train(logistic(3, 2), data, **options)
    assert not trained.certificate.simulated
    assert trained.predict(data[0]).shape == (150, 2)
    assert trained.loss is None
    assert ledger.grants == 1
    with pytest.raises(BudgetExceeded, match="'people'"):
        train(logistic(3, 2), data, **options)
    assert ledger.grants == 1


def test_predictable_noise_and_a_fresh_budget_are_told():
    given = {"epsilon": 2.0, "delta": 1e-4, "rate": 0.5, "rounds": 1, "progress": False}
    with pytest.warns(PredictableNoiseWarning, match="no privacy") as told:
        train(cost, people(150), parameters=START, seed=0, **given)
    assert [one.filename for one in told] == [__file__]
    with pytest.warns(FreshBudgetWarning, match="forgotten") as told:
        train(cost, FEW, parameters=START, **given)
    assert [one.filename for one in told] == [__file__]


def test_divergence_is_told_and_stays_spent():
    ledger = book(seed=1, relation=Relation.REPLACE_ONE)
    with pytest.raises(InvalidInput, match=r"learning_rate = 3e\+38.*IS SPENT"):
        train(
            lambda w, record: (record[0] @ w) ** 2,
            (people(100)["row"],),
            rate=0.5,
            parameters=np.ones(3, np.float32),
            epsilon=1.0,
            delta=1e-4,
            rounds=6,
            ledger=ledger,
            learning_rate=3e38,
            progress=False,
        )
    assert ledger.grants == 1


# ------------------------------------------------------------ other algorithms

FEW = [people(60, 1), people(60, 2), people(50, 3)]
MANY = [people(20, seed) for seed in range(40)]  # enough parties to hide one among them
TINY = {"parameters": START, "delta": 1e-4, "seed": 1}


def finds_the_direction(trained):
    slope = trained.parameters["slope"]
    return slope @ [2.0, -1.0, 0.5] > 0.8 * np.linalg.norm(slope) * np.linalg.norm([2.0, -1.0, 0.5])


def test_local_dp_sgd_gives_every_party_its_own_epsilon():
    steps = []
    trained = train(
        cost,
        FEW,
        algorithm="local-dp-sgd",
        rate=0.5,
        rounds=4,
        steps=3,
        epsilons={"party 3": 4.0, "party 1": 2.0, "party 2": 4.0},
        progress=steps.append,
        **TINY,
    )
    assert finds_the_direction(trained)
    assert (trained.bounds, trained.loss) == (None, None)
    certificate = trained.certificate
    assert (certificate.trust, certificate.unit) == (Trust.LOCAL, "record")
    assert certificate.settings["privacy"]["own"] == [2.0, 4.0, 4.0]
    assert 3.99 < trained.epsilon <= 4.0
    assert trained.epsilon == steps[-1].epsilon
    spending = {one.example: one for one in certificate.spending}
    assert spending["party 1"].budget[SERVER] == 2.0
    assert 1.99 < spending["party 1"].epsilon[SERVER] <= 2.0
    assert spending["party 2"].parties == 2


def test_fed_avg_hides_a_party_and_says_so():
    """Under zero-out; whether it is present is not hidden (E003-16), and not claimed."""
    trained = train(
        cost,
        MANY,
        algorithm="fed-avg",
        epsilon=8.0,
        rounds=6,
        rate=0.5,
        epochs=2,
        batch_size=20,
        learning_rate=0.5,
        progress=False,
        **TINY,
    )
    assert finds_the_direction(trained)
    assert trained.bounds.shape == (1,)
    assert trained.certificate.settings["clipping"]["quantile"] == 0.5  # it follows the median
    assert trained.loss is None
    certificate = trained.certificate
    assert certificate.unit == "party"
    assert "protects   one party;" in certificate.text()
    assert 7.99 < certificate.epsilon(Viewer.colluders(1), Relation.ZERO_OUT) <= 8.0
    with pytest.raises(UndefinedRelation):
        certificate.epsilon(FINAL_MODEL, Relation.ADD_OR_REMOVE)
    assert 7.99 < certificate.spending[0].epsilon[SERVER] <= 8.0


def test_hidden_parties_draw_on_the_ledgers_of_their_records():
    """One ledger counts both: what hides a party is counted as replacing it, for a record."""
    names = [f"party {number + 1}" for number in range(len(MANY))]
    books = {name: book(40.0, relation=Relation.REPLACE_ONE, name=name) for name in names}
    event = Event(Gaussian(5.0), bounded_sum(l2=1.0))
    for ledger in books.values():
        ledger.authorize(everyone(event * 1), purpose="a statistic before")
    before = books["party 1"].spent(SERVER)
    trained = train(
        cost,
        MANY,
        algorithm="fed-avg",
        epsilon=8.0,
        rounds=2,
        rate=0.5,
        batch_size=20,
        learning_rate=0.5,
        progress=False,
        ledger=books,
        delta=1e-4,
        parameters=START,
    )
    [spending] = trained.certificate.spending
    assert (trained.certificate.unit, spending.unit) == ("party", "record")
    assert ", for one record" in trained.certificate.text()
    alone = ACCOUNTANT.epsilon(trained.certificate.events[SERVER], Relation.REPLACE_ONE, 1e-4)
    assert max(before, alone, 8.0) < spending.epsilon[SERVER] <= before + alone


def test_dp_ftrl_is_paid_for_as_a_whole(monkeypatch):
    monkeypatch.setattr(chunks, "_CHUNK_ROUNDS", 6)
    steps = []
    trained = train(
        cost,
        FEW,
        algorithm="dp-ftrl",
        epsilon=4.0,
        separation=4,
        epochs=3,
        clipping=Clipping(loss_range=2.0),
        progress=steps.append,
        **TINY,
    )
    assert finds_the_direction(trained)
    settings = trained.certificate.settings
    assert [settings[name] for name in ("rounds", "separation", "bands")] == [12, 4, 4]
    assert trained.certificate.unit == "record"
    assert [step.round for step in steps] == [6, 12]
    assert 3.99 < trained.epsilon == steps[0].epsilon == steps[1].epsilon <= 4.0
    assert trained.loss == steps[1].loss != steps[0].loss


def settings(name, options=None, **given):
    """What an algorithm is agreed to be, from what a user gives; nothing runs."""
    kind = chosen(name, options or {})
    privacy = Privacy(4.0, 1e-4, default_relation(kind.units[0]))
    problem = RecordLoss(lambda w, record: record[0] @ w, START["slope"], (np.ones(3),))
    config = configured(kind, 600, **given, **(options or {}))
    method = Method(kind, config, problem, privacy)
    return method.bind(Facts((300, 300), 3, 2), Trust.LOCAL).settings


@pytest.mark.parametrize(
    ("name", "given", "found"),
    [
        ("dp-sgd", {"batch_size": 60, "epochs": 3}, {"sampling_rate": 0.1, "rounds": 30}),
        # Five steps of a tenth are half an epoch a round.
        (
            "local-dp-sgd",
            {"batch_size": 60, "epochs": 3, "options": {"steps": 5}},
            {"sampling_rate": 0.1, "rounds": 6, "steps": 5},
        ),
        ("local-dp-sgd", {"rate": 0.1, "rounds": 7}, {"rounds": 7, "steps": 10}),
        (
            "dp-ftrl",
            {"batch_size": 60, "epochs": 3},
            {"separation": 10, "rounds": 30, "bands": 10, "momentum": 0.9},
        ),
        (
            "dp-ftrl",
            {"rounds": 5, "optimizer": optax.sgd(0.1), "options": {"separation": 8}},
            {"bands": 5, "momentum": 0.0},
        ),
        (
            "dp-ftrl",
            {"rounds": 5, "options": {"separation": 8, "bands": 2, "momentum": 0.5}},
            {"bands": 2, "momentum": 0.5},
        ),
        (
            "fed-avg",
            {"rounds": 5},
            {
                "sampling_rate": 1.0,
                "epochs": 1,
                "batch_size": 32,
                "privacy": {"epsilon": 4.0, "delta": 1e-4, "relation": "zero-out"},
            },
        ),
        (
            "fed-avg",
            {"rounds": 5, "rate": 0.2, "epochs": 3, "batch_size": 7},
            {"sampling_rate": 0.2, "epochs": 3, "batch_size": 7},
        ),
    ],
)
def test_what_is_given_becomes_settings(name, given, found):
    agreed = settings(name, **given)
    assert {key: agreed[key] for key in found} == found


def test_fed_avg_has_an_optimizer_at_home_and_one_at_the_server():
    usual = settings("fed-avg", rounds=2)
    server = settings("fed-avg", rounds=2, optimizer=optax.adam(0.1))
    home = settings("fed-avg", rounds=2, options={"home": optax.adam(0.1)})
    assert server["optimizer"] == home["home"] != usual["home"] == server["home"]
    assert (
        home["optimizer"]
        == usual["optimizer"]
        == settings("fed-avg", rounds=2, learning_rate=1.0)["home"]
    )


def test_epsilons_by_name_or_in_order():
    assert epsilons_of(2.0, None, ["a", "b"]) == (2.0, 2.0)
    assert epsilons_of(None, [1.0, 3.0], ["a", "b"]) == (1.0, 3.0)
    assert epsilons_of(None, {2: 3.0, 1: 1.0}, ["1", "2"]) == (1.0, 3.0)


# ---------------------------------------------------------------- accounting


def study(scales, rounds=12, clipping=None):
    problem = RecordLoss(lambda w, record: (record[0] @ w - 1) ** 2, START["slope"], (np.ones(3),))
    method = methods.dp_sgd(
        problem,
        optax.sgd(0.1),
        2.0,
        1e-4,
        Relation.ADD_OR_REMOVE,
        rounds=rounds,
        sampling_rate=0.25,
        noise_scales=scales,
        clipping=clipping or Clipping(),
    )
    return Study(method, Facts((100,), 3, 1, exact_sizes=False), Trust.LOCAL)


@pytest.mark.parametrize("scales", [(), (2.0, 1.0)])
def test_the_cost_of_a_prefix(scales):
    """Against the accountant's answer for the composed events themselves."""
    plan = study(scales)
    found = [epsilon_so_far(plan, t, Relation.ADD_OR_REMOVE, 1e-4) for t in (4, 8, 12)]
    events = [plan.algorithm.event_of(plan.facts, plan.trust, 0, number) for number in range(8)]
    history = compose(event * 1 for event in events)
    assert found[1] == pytest.approx(ACCOUNTANT.epsilon(history, Relation.ADD_OR_REMOVE, 1e-4))
    assert found[0] < found[1] < found[2] <= 2.0
    if scales:  # the first half has twice the noise, and costs less than half
        assert epsilon_so_far(plan, 6, Relation.ADD_OR_REMOVE, 1e-4) < 1.0


def test_the_bar_shows_round_cost_and_released_loss(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    arguments = (study(()), Relation.ADD_OR_REMOVE, 1e-4, lambda value: value)
    for loss, shown in [(0.25, ", noisy loss 0.25"), (None, "")]:
        with following(True, *arguments) as watch:
            watch(6, 0.5)
            watch(12, loss)
        bar = " ".join(capsys.readouterr().err.split())
        assert "12/12" in bar
        assert f"epsilon 2.000 at delta 0.0001{shown} \x1b" in bar
    with following(False, *arguments) as watch:
        assert watch is None


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ((1000, 50, None, 4, None), (0.05, 80)),
        ((1000, None, 0.5, None, 7), (0.5, 7)),
        ((1000, 1000, None, 3, None), (1.0, 3)),
        ((1000, 1000, None, 0.1, None), (1.0, 1)),
    ],
)
def test_schedules(given, found):
    assert schedule(*given) == found


def test_bad_schedules():
    for given, match in [
        ((100, 101, None, 1, None), "batch_size = 101 of 100 records"),
        ((100, 0, None, 1, None), "batch_size"),
        ((100, None, 1.5, 1, None), "rate = 1.5"),
        ((100, None, math.nan, 1, None), "rate = nan"),
        ((100, 5, 0.5, 1, None), "one of the first two"),
        ((100, 5, None, None, None), "one of the last two"),
        ((100, 5, None, 1, 1), "one of the last two"),
        ((100, 5, None, math.inf, None), "epochs"),
        ((100, 5, None, None, 2.5), "whole rounds"),
    ]:
        with pytest.raises(InvalidInput, match=match):
            schedule(*given)


# ------------------------------------------------------------------- records


def test_records_keep_their_structure():
    held = collect([people(4), people(5)], ["north", "south"])
    assert held.members.names == ("north", "south")
    assert held.members.sizes == (4, 5)
    assert held.features in (1, 3)
    one = jax.tree.unflatten(held.structure, held.columns[1])
    assert one["row"].dtype == one["label"].dtype == np.float32
    np.testing.assert_allclose(one["row"], people(5)["row"], rtol=1e-6)


def refused(match, model=cost, records=None, **options):
    """The run raises before anything is spent."""
    given = {**SHARED, "seed": None, "sizes": 60, "progress": False, **options}
    ledger = given.setdefault("ledger", book())
    with pytest.raises(InvalidInput, match=match):
        train(model, people(60) if records is None else records, **given)
    if isinstance(ledger, Ledger):
        assert ledger.grants == 0


def test_bad_records():
    good = people(60)
    broken = good["row"].copy()
    broken[7, 1] = np.nan
    refused("not finite.*nothing was spent", records={**good, "row": broken})
    refused("not finite", records={**good, "row": 1e39 * np.ones((60, 3))})
    refused(r"columns of \[59, 60\] rows", records={**good, "label": good["label"][1:]})
    refused("encode categories", records={**good, "label": np.array(["a"] * 60)})
    refused("cannot tell", records={**good, "label": np.full(60, 2**24 + 1)})
    refused("holds no records", records=[good, people(0)])
    refused("different shapes", records=[good["row"], good["label"]])
    refused("a name of its own", records=[good, good], parties=["a", "a"])
    refused("one party label for each row", parties=["a", "b"])


def test_bad_models():
    refused("give its first parameters", parameters=None)
    refused("a Network, or a loss", model="mlp")
    refused("has type int32", parameters={**START, "slope": np.zeros(3, np.int32)})
    refused("fails on one record", parameters={**START, "slope": np.zeros(4, np.float32)})
    refused("must be one number", model=lambda w, record: record["row"] * w["offset"])
    refused(
        "gradient that is not finite",
        model=lambda w, record: jnp.log(-jnp.exp(w["offset"])) + record["label"],
    )
    refused(
        "Replace batch normalisation",
        model=lambda w, record: jax.lax.pmean(record["row"] @ w["slope"], "batch"),
    )


def test_bad_choices():
    refused("give sizes, a public estimate", sizes=None)
    refused("sizes is given", relation="zero-out")
    refused("relation = 'none'", relation="none")
    refused("trust = 'blind'", trust="blind")
    refused("algorithm = 'magic': choose one of dp-sgd", algorithm="magic")
    refused("one party alone", trust="secure-sum")
    refused("beside an optimizer, which has its own", optimizer=optax.sgd(1.0), learning_rate=0.1)
    refused("learning_rate", learning_rate=-1.0)
    refused("bound", clipping=-1.0)
    refused("the ledger is real", seed=3)
    with pytest.warns(LargeDeltaWarning, match="whole record"):
        refused("the ledger is real", delta=0.5, seed=3)


def test_arguments_of_other_algorithms():
    local = {"algorithm": "local-dp-sgd", "clipping": None}
    ftrl = {"algorithm": "dp-ftrl", "rate": None}
    refused("dp-sgd does not know 'bands' .it belongs to dp-ftrl.*takes .*noise_scales", bands=3)
    refused("dp-sgd does not know 'learning_rates' .nor does train", learning_rates=0.1)
    refused("local-dp-sgd does not know 'noise_scales'", noise_scales=(2.0, 1.0), **local)
    refused("'home' .it belongs to fed-avg.*separation, bands", home=optax.sgd(1.0), **ftrl)
    refused("stays with the party", **{**local, "clipping": Clipping(loss_range=1.0)})
    refused("steps = 2.5", steps=2.5, **local)
    refused("steps = 0", steps=0, **local)
    refused("use trust 'local'|choose one of local", trust="trusted-server", **local)
    refused("give one epsilon for all", epsilons=[1.0], **local)
    refused("2 epsilons for 1 parties", epsilon=None, epsilons=[1.0, 2.0], **local)
    refused("epsilons for a, where", epsilon=None, epsilons={"a": 1.0}, **local)
    refused("epsilon = None and epsilons = None", epsilon=None)
    refused("nothing is sampled in dp-ftrl", algorithm="dp-ftrl", rate=0.5)
    refused("separation = None, batch_size = None", **ftrl)
    refused("separation = 5, batch_size = 10", separation=5, batch_size=10, **ftrl)
    refused("batch_size = 61 of 60", batch_size=61, **ftrl)
    refused("bands = 13 of 12 rounds", separation=5, bands=13, **ftrl)
    refused("separation = 129 where", separation=129, **ftrl)


def test_arguments_of_fed_avg():
    given = {
        "algorithm": "fed-avg",
        "clipping": None,
        "sizes": None,
        "rate": None,
        "relation": None,
    }
    whole = book(relation=Relation.ZERO_OUT, unit=Unit.PARTY)
    refused("rounds is missing", **{**given, "rounds": None, "epochs": 3})
    refused("epochs = 1.5", epochs=1.5, **given)
    refused("rate = 1.5", **{**given, "rate": 1.5})
    refused("no loss is released", **{**given, "clipping": Clipping(loss_range=1.0)})
    refused(
        "presence .add-or-remove. is not hidden",
        **{**given, "relation": "add-or-remove", "sizes": 60},
    )
    refused(
        "beside an optimizer, which has its own", home=optax.sgd(1.0), learning_rate=0.1, **given
    )
    refused("the budget counts whole parties", relation="zero-out", sizes=None, ledger=whole)
    with pytest.warns(LargeDeltaWarning, match="with 2 parties"):
        refused(
            "one ledger for 2 parties",
            records=[people(60)] * 2,
            ledger=whole,
            **{**given, "delta": 0.5},
        )


def test_import_is_light():
    code = "import sys, unisono.training; assert 'jax' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


# ------------------------------------------------------------------- example


@pytest.mark.slow
def test_the_example_runs(capsys):
    pytest.importorskip("equinox", reason="equinox is not installed")
    path = Path(__file__).parents[1] / "examples" / "equinox_network.py"
    spec = importlib.util.spec_from_file_location("equinox_network", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.main(records=120, rounds=4)
    assert "epsilon" in capsys.readouterr().out


# ------------------------------------------------------------- persons


def test_persons_are_hidden_by_the_sum_of_their_gradients():
    """A person's three equal records pull three times as far, up to the clip of one record."""
    generator = np.random.default_rng(0)
    owners = np.repeat(np.arange(60), 3)
    rows = generator.uniform(-1, 1, (60, 2)).astype(np.float32)[owners]
    labels = (rows[:, 0] > 0).astype(int)
    shared = {"epsilon": 4.0, "delta": 1e-5, "rate": 0.5, "rounds": 3, "seed": 0, "progress": False}
    shared |= {"learning_rate": 0.1}
    trained = train(logistic(2, 2), (rows, labels), persons=owners, records_per_person=3, **shared)
    assert trained.certificate.unit == "person"
    assert trained.epsilon <= 4.0
    half = len(rows) // 2
    parts = [(rows[:half], labels[:half]), (rows[half:], labels[half:])]
    ids = [owners[:half], owners[half:]]
    both = train(logistic(2, 2), parts, persons=ids, records_per_person=3, **shared)
    assert both.certificate.parties == 2
    for group in (1, 3):  # everybody is at both, and counts at one of them
        with pytest.warns(ClippedValues) as told:
            train(
                logistic(2, 2),
                parts,
                persons=[owners[:half]] * 2,
                records_per_person=group,
                **shared,
            )
        assert any("person_at_parties, which is 1" in str(one.message) for one in told)
    with pytest.raises(InvalidInput, match=r"10 persons for 180 records"):
        train(logistic(2, 2), (rows, labels), persons=owners[:10], **shared)
    with pytest.raises(InvalidInput, match=r"dp-ftrl: it does not add up"):
        train(logistic(2, 2), (rows, labels), persons=owners, algorithm="dp-ftrl", **shared)


def test_records_of_persons_arrive_together(monkeypatch):
    """A row for each person, whatever the order of the records, and NaN where it has fewer."""
    seen = []

    def caught(study, parties, **_):
        seen.append((study.facts, [party.data._value for party in parties]))
        raise InvalidInput("enough")

    monkeypatch.setattr("unisono.engines.in_process.run", caught)
    rows, owners = np.arange(6, dtype=np.float32)[:, None], ["b", "a", "b", "c", "a", "b"]
    shared = {"epsilon": 4.0, "delta": 1e-5, "rate": 0.5, "rounds": 2, "seed": 0, "progress": False}
    with pytest.raises(InvalidInput, match="enough"):
        train(
            lambda weight, record: weight * record[0],
            rows,
            parameters=np.float32(0),
            persons=owners,
            records_per_person=3,
            learning_rate=0.1,
            **shared,
        )
    [(facts, [(held,)])] = seen
    assert (facts.records, facts.records_per_person) == ((3,), 3)
    found = sorted(sorted(person[~np.isnan(person)].tolist()) for person in held[:, :, 0])
    assert found == [[0.0, 2.0, 5.0], [1.0, 4.0], [3.0]]
