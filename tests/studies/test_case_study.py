"""A Bayesian line by every algorithm for likelihoods, from study files; its start, its parties' own
epsilons, and what a trusted server adds."""

import json

import numpy as np
import pytest

from unisono.accounting.accountant import ACCOUNTANT
from unisono.algorithms.posterior import PosteriorAnswer
from unisono.algorithms.pvi_dp_sga import mean_field
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.privacy import Privacy
from unisono.core.study import Party
from unisono.core.trust import ITERATES, SERVER, Relation, Trust
from unisono.core.values import Private
from unisono.deployment.local_run import RunPlace, prepare
from unisono.engines import in_process
from unisono.errors import InvalidInput, PrivacyViolation
from unisono.planning.verdicts import Grade
from unisono.problems.bayesian import BayesianProblem, GaussianRegression
from unisono.problems.gaussian_family import mean
from unisono.problems.likelihoods import linear
from unisono.studies.build import build
from unisono.studies.explain import explain
from unisono.studies.file import parse_study
from unisono.studies.policy import require_allowed
from unisono.studies.policy_file import PolicyFile
from unisono.studies.stages import FIT, START, costs_of

NAMES, RECORDS = ("north", "south", "west"), 60
PARTIES = "".join(f'\n[[parties]]\nname = "{name}"\nrecords = {RECORDS}\n' for name in NAMES)
STUDY = """\
title = "A line"

[data]
target = "y"

[data.columns]
x = {{ kind = "number", bounds = [0, 10] }}
y = {{ kind = "number", bounds = [0, 40] }}

[privacy]
epsilon = {epsilon}
delta = 1e-4
unit = "{unit}"

[trust]
mode = "{trust}"

[model]
name = "bayesian-linear-regression"
noise_std = 4

[algorithm]
{algorithm}
{parties}"""
DP_SGA = 'name = "pvi-dp-sga"\nrounds = 2\nlocal_steps = 3'
HYBRID = f'{DP_SGA}\nstart = "one-shot"\nstart_share = 0.25'
UPDATES = 'name = "pvi-clipped-updates"\nrounds = 3'
NEWTON = 'name = "pvi-natural-gradient"'


def text(algorithm, trust="local", unit="record", epsilon=4.0, parties=PARTIES):
    return STUDY.format(
        algorithm=algorithm, trust=trust, unit=unit, epsilon=epsilon, parties=parties
    )


def built(*given, **more):
    return build(parse_study(text(*given, **more)))


def values(seed, size=RECORDS):
    """y = 10 + 2 x."""
    generator = np.random.default_rng(seed)
    x = generator.uniform(0, 10, size)
    return {"x": x, "y": 10 + 2 * x + 4 * generator.normal(size=size)}


def files(folder, study):
    (folder / "study.toml").write_text(study)
    for seed, name in enumerate(NAMES):
        own = values(seed)
        rows = "".join(f"{x},{y}\n" for x, y in zip(own["x"], own["y"], strict=True))
        (folder / f"{name}.csv").write_text("x,y\n" + rows)
    return RunPlace(
        folder / "study.toml",
        {name: folder / f"{name}.csv" for name in NAMES},
        folder / "run",
        seed=1,
    )


def run(folder, study):
    """What `unisono run` shows, and every party's ledger."""
    ready = prepare(files(folder, study))
    with ready.opened() as books:
        return ready.run(books, lambda progress: None), books


# ------------------------------------------------------------- a number as target


def test_a_line_is_a_problem_of_its_likelihood():
    line = GaussianRegression(0.5, prior_variance=3.0)
    assert isinstance(line, BayesianProblem)
    assert line.likelihood is linear(0.5)
    assert line == GaussianRegression(0.5, prior_variance=3.0) != GaussianRegression(0.4)
    assert line.agreed == {"noise_std": 0.5, "prior_mean": 0.0, "prior_variance": 3.0}


@pytest.mark.parametrize(
    ("algorithm", "trust", "unit", "aware"),
    [
        (DP_SGA.replace("= 2", "= 8"), "local", "record", False),
        pytest.param(UPDATES, "secure-sum", "party", False, marks=pytest.mark.slow),
        (UPDATES, "trusted-server", "party", False),
        pytest.param(NEWTON, "secure-sum", "record", True, marks=pytest.mark.slow),
    ],
)
def test_a_line_is_found_in_the_user_s_units(algorithm, trust, unit, aware):
    """At an epsilon whose noise hardly counts; without intervals where noise is not counted in."""
    study = built(algorithm, trust, unit, 200.0)
    parties = []
    for seed, name in enumerate(NAMES):
        open_to = [] if trust != "trusted-server" else list(study.study.cost)
        exceptions = tuple((viewer, Budget(float("inf"), 1e-4)) for viewer in open_to)
        policy = Policy(
            name,
            Budget(201.0, 1e-4),
            exceptions,
            relation=study.file.privacy.relation,
            unit=study.file.privacy.unit,
        )
        columns = tuple(a.astype(np.float32) for a in study.posed.encode(values(seed)))
        ledger = Ledger.in_memory(policy, ACCOUNTANT, seed=seed)
        parties.append(Party(name, Private(columns), ledger))
    shown = study.present(in_process.run(study.study, parties))
    assert shown["mean"]["x"] == pytest.approx(2.0, abs=0.6)
    assert shown["mean"]["intercept"] == pytest.approx(10.0, abs=4.0)
    assert shown["noise_aware"] is aware
    assert ("No intervals" in shown["note"]) is not aware
    said = " ".join(explain(study.file).learnt)
    assert ("will not know of the noise" in said) is not aware


def test_the_rule_takes_fisher_scoring_unless_it_is_called_useless(monkeypatch):
    assert built('name = "auto"', epsilon=8.0).algorithm.name == "fisher-scoring"
    drowned = built('name = "auto"', epsilon=0.01)
    assert drowned.algorithm.name == "fisher-scoring"
    assert "cost most of what it could learn" in drowned.reason
    grades = {"pvi-natural-gradient": Grade.USABLE, "one-shot-regression": Grade.DOUBTFUL}
    monkeypatch.setattr(
        "unisono.studies.build.planned_grade",
        lambda file, kind: grades.get(kind.name, Grade.USELESS),
    )
    better = built('name = "auto"', epsilon=4.0)
    assert better.algorithm.name == "pvi-natural-gradient"
    assert better.reason.startswith("fisher-scoring is predicted to be useless here")


def test_steps_follow_public_facts():
    """σ² / d for a step, 1 / parties of a change, samples of sqrt(n); what is said goes first."""
    settings = built(f'{DP_SGA}\nsampling_rate = "sqrt"').study.algorithm.settings
    spread = 4 / 20
    assert settings["learning_rate"] == settings["variance_rate"] == pytest.approx(spread**2 / 2)
    assert settings["damping"] == pytest.approx(1 / 3, rel=1e-5)
    assert settings["sampling_rate"] == pytest.approx(RECORDS**-0.5, rel=1e-5)
    own = built(f"{DP_SGA}\nlearning_rate = 0.5\ndamping = 1\nsampling_rate = 0.2")
    said = own.study.algorithm.settings
    assert (said["learning_rate"], said["damping"], said["sampling_rate"]) == (0.5, 1.0, 0.2)


def test_learning_rates_fall_linearly():
    """Without noise in the way: each step is its rate times the same gradient."""
    steps = {}
    for end in (1.0, 0.25):
        algorithm = built(f"{DP_SGA}\nend_rate = {end}\nlearning_rate = 1e-6").study.algorithm
        facts = built(DP_SGA).study.facts
        server, own = algorithm.init(facts)
        noisy = np.ones(4, np.float32)
        steps[end] = []
        for turn in range(2):
            public = algorithm.ask(server)._replace(round=np.int32(turn))
            start = own._replace(step=np.int32(0))
            for _ in range(3):
                before = np.asarray(start.point[0]) if int(start.step) else 0.0
                start = algorithm.inner.absorb(facts, public, start, noisy)
                steps[end].append(float(start.point[0]) - float(before))
    ratios = np.array(steps[0.25]) / np.array(steps[1.0])
    assert ratios == pytest.approx(np.linspace(1.0, 0.25, 6), rel=1e-3)


# ------------------------------------------------------------- a server that is trusted


def test_a_trusted_server_opens_what_a_secure_sum_opens():
    """Both open the parties' clipped integers plus Gaussian noise: the same integers before the
    noise, the same sensitivity, and the noise of the server is as wide as that of a secure sum
    whose every share is certain, up to what shares cost beyond one draw."""
    summed, trusted = (
        built(UPDATES, trust, "party").study for trust in ("secure-sum", "trusted-server")
    )
    facts = trusted.facts
    assert summed.algorithm.grid(summed.facts, summed.trust) == trusted.algorithm.grid(
        facts, trusted.trust
    )
    own, other = (study.algorithm.event(study.facts, study.trust) for study in (summed, trusted))
    assert own.sensitivity == other.sensitivity
    assert own.noise.std == pytest.approx(other.noise.std, rel=1e-3)
    columns = built(UPDATES, "trusted-server", "party").posed.encode(values(0))
    columns = tuple(column.astype(np.float32) for column in columns)
    made = []
    for study in (summed, trusted):
        server, state = study.algorithm.init(study.facts)
        public, here = study.algorithm.ask(server), np.ones(RECORDS, bool)
        made.append(study.algorithm.local(study.facts, public, state, columns, here)[1])
    assert np.asarray(made[0].value).tolist() == np.asarray(made[1].value).tolist()
    length = np.linalg.norm(np.asarray(made[1].value) * made[1].grid)
    assert length <= other.sensitivity.under(Relation.ZERO_OUT).in_norm("l2")  # and no further
    assert trusted.cost[ITERATES] == other * 3
    assert ACCOUNTANT.epsilon(trusted.cost[SERVER], Relation.ZERO_OUT, 1e-4) == np.inf


# ------------------------------------------------------------- a start by another release


def test_both_stages_keep_the_promise_together():
    study = built(HYBRID)
    assert [stage.name for stage in study.stages] == [START, FIT]
    first, second = study.stages
    assert (first.study.algorithm.name, second.study.algorithm.name) == (
        "one-shot-regression",
        "pvi-dp-sga",
    )
    for cost in costs_of(study.stages):
        assert cost[ITERATES] == first.study.cost[ITERATES] + second.study.cost[ITERATES]
        whole = ACCOUNTANT.epsilon(cost[ITERATES], Relation.REPLACE_ONE, 1e-4)
        assert 0.95 * 4.0 < whole <= 4.0  # priced together, next to nothing is left over
    parts = [
        ACCOUNTANT.epsilon(one.study.cost[ITERATES], Relation.REPLACE_ONE, 1e-4)
        for one in (first, second)
    ]
    assert parts[0] / parts[1] == pytest.approx(1 / 3, rel=0.02)  # a quarter, and the rest
    assert "It begins with the answer of one-shot-regression" in " ".join(
        explain(study.file).learnt
    )


def test_a_promise_is_split_without_a_rest():
    first, rest = Privacy(2.0, 1e-6, own=(1.0, 2.0)).split(0.3)
    assert first.epsilon + rest.epsilon == 2.0
    assert first.delta + rest.delta == pytest.approx(1e-6, rel=1e-12)
    assert [a + b for a, b in zip(first.own, rest.own, strict=True)] == [1.0, 2.0]
    for share in (0.0, 1.0, -1.0):
        with pytest.raises(InvalidInput, match="share"):
            Privacy(1.0).split(share)


def test_the_climb_begins_where_the_first_stage_ended():
    """Its mean, and the diagonal of its precision; price and hash are those of before."""
    study = built(HYBRID).stage(FIT).study
    precision = np.array([[500.0, 100.0], [100.0, 800.0]])
    told = PosteriorAnswer(precision @ [0.7, -0.2], precision, 0)
    begun = study.begun(told)
    assert begun.hash == study.hash
    assert begun.costs == study.costs
    server, own = begun.algorithm.init(begun.facts)
    assert np.asarray(mean(server.q)) == pytest.approx([0.7, -0.2], rel=1e-5)
    assert np.asarray(server.q.precision) == pytest.approx([500.0, 800.0], rel=1e-5)
    assert np.asarray(mean_field(told).precision) == pytest.approx([500.0, 800.0])
    prior = 1 / 9
    assert 3 * np.asarray(own.factor.precision) == pytest.approx([500 - prior, 800 - prior])
    assert begun.begun(told) is begun


def test_no_engine_begins_without_the_first_stage():
    study = built(HYBRID).study
    people = [
        Party(name, Private((np.zeros((RECORDS, 2)), np.zeros(RECORDS))), ledger)
        for name, ledger in (
            (name, Ledger.in_memory(Policy(name, Budget(9.0, 1e-4)), ACCOUNTANT)) for name in NAMES
        )
    ]
    with pytest.raises(InvalidInput, match="an earlier stage of the study"):
        in_process.run(study, people)
    assert all(party.ledger.grants == 0 for party in people)


def test_a_start_needs_sums_that_tell_a_posterior():
    logistic = text(HYBRID).replace("bayesian-linear", "bayesian-logistic")
    logistic = logistic.replace("noise_std = 4\n", "")
    logistic = logistic.replace(
        'y = { kind = "number", bounds = [0, 40] }',
        'y = { kind = "category", values = ["a", "b"] }',
    )
    with pytest.raises(InvalidInput, match="only a linear regression"):
        build(parse_study(logistic))


def test_both_stages_are_paid_for_and_certified(tmp_path):
    shown, books = run(tmp_path, text(HYBRID))
    assert shown["noise_aware"] is False
    for name, book in books.items():
        assert book.grants == 2, name
        assert 2.0 < book.spent(SERVER) <= 4.0
    certificate = json.loads((tmp_path / "run" / "certificate.json").read_text())
    [line] = [
        line["epsilon"]
        for line in certificate["guarantees"]
        if (line["viewer"], line["relation"]) == ("server", "replace-one")
    ]
    assert line == pytest.approx(next(iter(books.values())).spent(SERVER), rel=1e-6)
    seen = json.loads((tmp_path / "run" / "transcript.json").read_text())["viewers"]
    assert all(("start" in names) is (who != "final-model") for who, names in seen.items())


def test_a_policy_must_allow_both_algorithms():
    study = built(HYBRID)
    said = {
        "dataset": {"name": "north", "ledger": "records.ledger"},
        "budget": {"epsilon": 9.0, "delta": 1e-4},
        "allow": {
            "algorithms": ("pvi-dp-sga",),
            "maximum_epsilon": 9.0,
            "maximum_delta": 1e-4,
            "minimum_parties": 2,
        },
    }
    with pytest.raises(PrivacyViolation, match="algorithms one-shot-regression"):
        require_allowed(
            PolicyFile.model_validate(said), study.file, study.study, "north", study.costs
        )
    said["allow"]["algorithms"] = ("pvi-dp-sga", "one-shot-regression")
    require_allowed(PolicyFile.model_validate(said), study.file, study.study, "north", study.costs)


# ------------------------------------------------------------- epsilons of their own


OWN = PARTIES.replace('"north"\nrecords = 60\n', '"north"\nrecords = 60\nepsilon = 0.5\n')


@pytest.mark.parametrize("algorithm", [DP_SGA, HYBRID])
def test_every_party_pays_what_it_agreed_to(algorithm):
    study = built(algorithm, parties=OWN)
    spent = [ACCOUNTANT.epsilon(cost[SERVER], Relation.REPLACE_ONE, 1e-4) for cost in study.costs]
    for found, own in zip(spent, (0.5, 4.0, 4.0), strict=True):
        assert 0.5 * own < found <= own
    assert spent[1] == spent[2]
    shown = {cost.parties for cost in explain(study.file).costs}
    assert shown == {("north",), ("south", "west")}


def test_files_without_own_epsilons_mean_what_they_meant():
    plain = parse_study(text(DP_SGA))
    assert all("epsilon" not in party for party in plain.meaning["parties"])
    assert plain.promise == Privacy(4.0, 1e-4)
    assert parse_study(text(DP_SGA, parties=OWN)).hash != plain.hash


def test_an_epsilon_of_its_own_is_refused_where_noise_is_for_all():
    with pytest.raises(InvalidInput, match=r"line \d+.*one-shot-regression opens sums"):
        built('name = "one-shot-regression"', parties=OWN)
    with pytest.raises(InvalidInput, match=r"5 is above the study's 4"):
        built(DP_SGA, parties=OWN.replace("0.5", "5"))


def test_own_epsilons_are_for_noise_of_their_own():
    assert built(DP_SGA, parties=OWN).study.trust is Trust.LOCAL


def test_a_share_belongs_to_a_start():
    with pytest.raises(InvalidInput, match=r"start_share = 0.5 without a start"):
        built(f"{DP_SGA}\nstart_share = 0.5")
