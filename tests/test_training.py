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
from unisono.accounting.validation import LargeDeltaWarning
from unisono.algorithms.clipping import Clipping
from unisono.algorithms.dp_sgd import Settings, dp_sgd
from unisono.algorithms.optimise import Problem
from unisono.core.algorithm import Facts
from unisono.core.events import compose
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.study import Study
from unisono.core.trust import ITERATES, PARTY, Relation, Trust
from unisono.errors import BudgetExceeded, InvalidInput
from unisono.estimators.schedules import schedule
from unisono.models.networks import logistic
from unisono.training import train
from unisono.training.data import collect
from unisono.training.progress import epsilon_so_far, following

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


def book(epsilon=2.0, delta=1e-4, seed=None, relation=Relation.ADD_OR_REMOVE):
    policy = Policy("people", Budget(epsilon, delta), relation=relation)
    return Ledger.in_memory(policy, ACCOUNTANT, seed=seed)


# ------------------------------------------------------------------ learning

SHARED = {
    "parameters": START, "epsilon": 2.0, "delta": 1e-4, "rate": 0.25, "rounds": 12, "seed": 5,
    "clipping": Clipping(loss_range=2.0, gauge=1.0), "sizes": 300, "averaged": 0.5,
}  # fmt: skip


@pytest.fixture(scope="module")
def federated():
    steps = []
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
    assert [step.round for step in steps][-1] == steps[-1].rounds == 12
    assert steps[-1].loss == trained.loss is not None
    assert steps[-2].loss is None
    assert steps[-1].epsilon == trained.certificate.epsilon(ITERATES, Relation.ADD_OR_REMOVE)


def test_a_column_of_labels_is_the_same_as_a_list(federated):
    both = jax.tree.map(lambda *parts: np.concatenate(parts), people(300, 1), people(290, 2))
    labels = np.repeat(["party 1", "party 2"], [300, 290])
    # Parties' rows in between each other's, each party's in their own order.
    mixed = np.argsort(np.r_[np.arange(300), np.arange(290)], kind="stable")
    again = train(
        cost, jax.tree.map(lambda column: column[mixed], both), parties=labels[mixed],
        progress=False, **SHARED,
    )  # fmt: skip
    jax.tree.map(np.testing.assert_array_equal, again.parameters, federated[0].parameters)


def test_without_noise_it_is_plain_gradient_descent():
    """Full batches, a clip that nothing reaches and an enormous budget: momentum, in NumPy.

    The noise of twenty rounds is about 0.04 in the parameters; five times that is allowed.
    """
    data = people(200, 4)
    trained = train(
        cost, data, parameters=START, epsilon=1e3, delta=1e-4, rate=1, rounds=20, clipping=5.0,
        learning_rate=0.3, relation="zero-out", seed=0, progress=False,
    )  # fmt: skip
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
    ledger = book(epsilon=2.5)
    options = {
        "epsilon": 2.0, "delta": 1e-4, "sizes": 150, "batch_size": 50, "epochs": 1,
        "ledger": ledger, "optimizer": optax.adam(0.1), "progress": False,
    }  # fmt: skip
    trained = train(logistic(3, 2), data, **options)
    assert not trained.certificate.simulated
    assert trained.predict(data[0]).shape == (150, 2)
    assert trained.loss is None
    assert ledger.grants == 1
    with pytest.raises(BudgetExceeded, match="'people'"):
        train(logistic(3, 2), data, **options)
    assert ledger.grants == 1


def test_divergence_is_told_and_stays_spent():
    ledger = book(seed=1)
    with pytest.raises(InvalidInput, match=r"learning_rate = 3e\+38.*IS SPENT"):
        train(
            lambda w, record: (record[0] @ w) ** 2, (people(100)["row"],), sizes=100, rate=0.5,
            parameters=np.ones(3, np.float32), epsilon=1.0, delta=1e-4, rounds=6, ledger=ledger,
            learning_rate=3e38, progress=False,
        )  # fmt: skip
    assert ledger.grants == 1


# ---------------------------------------------------------------- accounting


def study(scales):
    problem = Problem(lambda w, record: (record[0] @ w) ** 2, START["slope"], (np.ones(3),))
    settings = Settings(2.0, 1e-4, rounds=12, rate=0.25, noise_scales=scales)
    facts = Facts((100,), 3, 1, exact_sizes=False)
    return Study(dp_sgd(settings, problem, optax.sgd(0.1)), facts, Trust.LOCAL)


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
    with following(True, study(()), Relation.ADD_OR_REMOVE, 1e-4) as tell:
        tell(6)
        tell(12, 0.25)
    shown = " ".join(capsys.readouterr().err.split())
    assert "12/12" in shown
    assert "epsilon 2.000 at delta 0.0001, noisy loss 0.25" in shown
    with following(False, study(()), Relation.ADD_OR_REMOVE, 1e-4) as tell:
        assert tell is None


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
    refused("132 records, more than the 128 places", records=people(132), sizes=40)
    refused("more than 4 times", records=people(60), sizes=10)


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
    refused("the optimizer has its own", optimizer=optax.sgd(1.0), learning_rate=0.1)
    refused("learning_rate", learning_rate=-1.0)
    refused("bound", clipping=-1.0)
    refused("the ledger is real", seed=3)
    with pytest.warns(LargeDeltaWarning, match="whole record"):
        refused("rate = 2.0", delta=0.5, rate=2.0)


def test_import_is_light():
    code = "import sys, unisono.training; assert 'jax' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


# ------------------------------------------------------------------- example


def test_the_example_runs(capsys):
    pytest.importorskip("equinox", reason="equinox is not installed")
    path = Path(__file__).parents[1] / "examples" / "equinox_network.py"
    spec = importlib.util.spec_from_file_location("equinox_network", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.main(records=120, rounds=4)
    assert "epsilon" in capsys.readouterr().out
