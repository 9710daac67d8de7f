"""What a party allows: every objection, in plain words, and none where all is well."""

from types import SimpleNamespace

import pytest

from unisono.core.trust import Relation, Viewer
from unisono.errors import BudgetExceeded, InvalidInput, PrivacyViolation
from unisono.releases import plugins
from unisono.studies.build import build
from unisono.studies.file import parse_study
from unisono.studies.policy import (
    check_round,
    load_policy,
    require_allowed,
    require_server,
)

POLICY = """\
[dataset]
name = "north"
ledger = "north.ledger"
records_per_person = 2

[budget]
epsilon = 2.5
delta = 1e-4
colluders = 1

[allow]
maximum_epsilon = 1.0
maximum_delta = 1e-4
minimum_parties = 3
minimum_honest = 2
trust = ["secure-sum", "trusted-server"]
algorithms = ["gradient-perturbation", "statistics"]
columns = ["radius", "age", "sex", "diagnosis"]
servers = ["host:9092"]
"""


@pytest.fixture
def policy(tmp_path):
    """The policy with replacements, on disk."""

    def made(*pairs):
        text = POLICY
        for old, new in pairs:
            assert old in text
            text = text.replace(old, new)
        path = tmp_path / "policy.toml"
        path.write_text(text)
        return load_policy(path)

    return made


def objections(policy, text, party="north", kind=PrivacyViolation):
    file = parse_study(text, "study.toml")
    with pytest.raises(kind) as caught:
        require_allowed(policy, file, build(file).study, party)
    message = str(caught.value)
    assert "nothing was read and nothing was spent" in message
    return [line[4:] for line in message.splitlines() if line.startswith("  - ")]


def test_a_study_within_limits_is_allowed(policy, text):
    file = parse_study(text)
    require_allowed(policy(), file, build(file).study, "north")


# (changes of the study, words of the one objection)
STUDIES = [
    ([("epsilon = 1\n", "epsilon = 1.2\n")], "it costs epsilon 1.2: at most epsilon 1 at delta"),
    ([("delta = 1e-4", "delta = 2e-4")], "at most epsilon 1 at delta 0.0001 in one study"),
    (
        [("minimum_parties = 3", "minimum_parties = 2"), ("colluders = 1", "colluders = 0")],
        "minimum_parties = 2: at least 3 parties",
    ),
    ([("colluders = 1", "colluders = 2")], "at least 2 must be honest"),
    ([("colluders = 1", "colluders = 0")], "the budget is to hold against 1 parties"),
    ([("retries = 0", "retries = 3")], "retries = 3: at most 0"),
    ([('"secure-sum"', '"local"')], "trust local: only secure-sum, trusted-server may be used"),
    (
        [('name = "gradient-perturbation"', 'name = "sgd-synchronous"')],
        "algorithms sgd-synchronous: only gradient-perturbation, statistics",
    ),
    ([("radius =", "income =")], "columns income: only radius, age"),
    (
        [("[algorithm]", '[server]\naddress = "elsewhere:9092"\n\n[algorithm]')],
        "servers elsewhere:9092: only host:9092",
    ),
    ([('"replace-one"', '"zero-out"')], 'relation = "zero-out": the budget counts by relation'),
]


@pytest.mark.parametrize(("pairs", "words"), STUDIES)
def test_every_limit_refuses(policy, change, pairs, words):
    found = objections(policy(), change(*pairs))
    assert any(words in reason for reason in found), found


def test_all_objections_come_together(policy, change):
    pairs = [
        ("epsilon = 1\n", "epsilon = 9\n"),
        ("retries = 0", "retries = 3"),
        ("radius =", "income ="),
    ]
    found = objections(policy(), change(*pairs), party="east")
    assert len(found) == 3  # the cost is not known for a party that is not there
    assert found[0].startswith("the study has no party 'east'")
    found = objections(policy(), change(*pairs))
    assert [word for word in ("income", "retries", "epsilon 9") if word in str(found)] == [
        "income",
        "retries",
        "epsilon 9",
    ]


def test_only_a_wrong_name_is_a_mistake(policy, text):
    assert objections(policy(), text, "east", InvalidInput) == [
        "the study has no party 'east': it names north, south, west"
    ]


def test_a_claim_in_the_file_is_not_believed(policy, text):
    """A study that costs more than its file says is refused by what it costs."""
    file = parse_study(text)
    costly = build(parse_study(text.replace("epsilon = 1\n", "epsilon = 4\n"))).study
    with pytest.raises(PrivacyViolation, match="it costs epsilon 4"):
        require_allowed(policy(), file, costly, "north")


def test_a_trusted_server_needs_an_exception(policy, change):
    trusted = change(('mode = "secure-sum"', 'mode = "trusted-server"'))
    found = objections(policy(), trusted)
    assert any("against the server it costs everything (no noise)" in one for one in found)
    exceptions = "[budget.exceptions]\nserver = { epsilon = inf }\n"
    exceptions += '"colluders:1" = { epsilon = inf }\n\n[allow]'
    allowed = policy(("[allow]", exceptions))
    file = parse_study(trusted)
    require_allowed(allowed, file, build(file).study, "north")
    assert allowed.core_policy().budget_for(Viewer("server")).epsilon == float("inf")


def test_what_hides_a_party_is_allowed_by_what_it_costs_a_record(policy, study):
    pair = ('unit = "record"\nrelation = "replace-one"', 'unit = "party"\nrelation = "zero-out"')
    text = study("bayesian-logistic-regression", "pvi-clipped-updates\nrounds = 2", pair)
    any_name = ('algorithms = ["gradient-perturbation", "statistics"]\n', "")
    found = objections(policy(any_name), text)  # zeroing a party is less than replacing it
    assert all("it costs epsilon 2" in one and "at most epsilon 1 at" in one for one in found)
    ample = ("maximum_epsilon = 1.0", "maximum_epsilon = 2.5")
    file = parse_study(text)
    require_allowed(policy(any_name, ample), file, build(file).study, "north")


def test_models_are_allowed_by_name(policy, text):
    listed = ("algorithms =", 'models = ["statistics", "k-means"]\nalgorithms =')
    [found] = objections(policy(listed), text)
    assert "models logistic-regression: only statistics, k-means may be used" in found
    file = parse_study(text)
    own = policy(("algorithms =", 'models = ["logistic-regression"]\nalgorithms ='))
    require_allowed(own, file, build(file).study, "north")


def test_an_algorithm_that_was_left_open_is_allowed_by_the_name_of_the_one_that_learns(
    policy, study
):
    zero = (("delta = 1e-4", "delta = 0"),)
    assert any(
        "algorithms output-perturbation: only gradient-perturbation, statistics" in one
        for one in objections(policy(), study("logistic-regression", "", *zero))
    )
    assert any(  # the stage that it begins with has a name, too
        "algorithms preconditioned-gradients, row-moments: only gradient-perturbation" in one
        for one in objections(policy(), study("logistic-regression"))
    )
    file = parse_study(study("linear-svm"))
    require_allowed(policy(), file, build(file).study, "north")


def test_code_of_others_runs_only_where_it_is_listed(policy, text, monkeypatch):
    """By distribution, whether it brings the model or the algorithm."""
    brought = {"logistic-regression": "their-models", "gradient-perturbation": "their-algorithms"}

    def plugins_of(*names):
        yield from sorted((brought[name], "1.0") for name in names)

    monkeypatch.setattr("unisono.studies.policy.plugins_of", plugins_of)
    [found] = objections(policy(), text)
    assert "plugins their-algorithms, their-models: only nothing may be used" in found
    one = ("algorithms =", 'plugins = ["their-models"]\nalgorithms =')
    [found] = objections(policy(one), text)
    assert "plugins their-algorithms: only their-models may be used" in found
    both = ("algorithms =", 'plugins = ["their-models", "their-algorithms"]\nalgorithms =')
    file = parse_study(text)
    require_allowed(policy(both), file, build(file).study, "north")


def test_printed_noise_is_allowed_by_whoever_says_so(policy, text):
    """A real party; in a simulation nobody relies on it."""
    printed = text.replace("rounds = 20", "rounds = 20\npublished = true")
    file = parse_study(printed)
    study = build(file).study
    [found] = objections(policy(), printed)
    assert "published = true: noise as printed in Chen 2019" in found
    assert "is not allowed" in found
    assert not policy().core_policy().published
    require_allowed(policy(), file, study, "north", simulated=True)
    allowed = policy(("[allow]", "[allow]\npublished = true"))
    require_allowed(allowed, file, study, "north")
    assert allowed.core_policy().published


def test_what_is_for_simulations_only_is_allowed_by_nobody(policy, study):
    pairs = (
        ('unit = "record"\nrelation = "replace-one"', 'unit = "party"\nrelation = "zero-out"'),
        ('mode = "secure-sum"', 'mode = "local"'),
    )
    algorithm = "pvi-clipped-updates\nrounds = 2\npublished = true"
    text = study("bayesian-logistic-regression", algorithm, *pairs)
    own = policy(
        ("[allow]", "[allow]\npublished = true"),
        ("maximum_epsilon = 1.0", "maximum_epsilon = 2.5"),
        ('trust = ["secure-sum", "trusted-server"]\n', ""),
        ('algorithms = ["gradient-perturbation", "statistics"]\n', ""),
    )
    found = objections(own, text)
    assert any("Algorithm 3 it is for simulations only" in one for one in found)


def test_a_model_and_an_algorithm_of_one_name_may_come_from_two_distributions(monkeypatch):
    """Or the one that a policy lists would speak for the other."""

    def entry_points(group):
        dist = {"unisono.models": "theirs", "unisono.algorithms": "listed"}[group]
        yield SimpleNamespace(name="same", dist=SimpleNamespace(name=dist, version="1.0"))
        yield SimpleNamespace(name="nobody's", dist=None)

    monkeypatch.setattr(plugins.metadata, "entry_points", entry_points)
    monkeypatch.setattr(plugins, "_brought", plugins._brought.__wrapped__)
    assert list(plugins.plugins_of("same", "gradient-perturbation")) == [("theirs", "1.0")]
    assert list(plugins.plugins_of("same", "same")) == [("listed", "1.0"), ("theirs", "1.0")]
    assert [name for name, _ in plugins.plugins_of("nobody's", "same")] == [
        "an unknown distribution",
        "listed",
    ]


def test_what_hides_a_record_is_nothing_to_a_budget_of_parties(policy, text):
    whole = policy(("\n\n[allow]", '\nunit = "party"\nrelation = "zero-out"\n\n[allow]'))
    [found] = objections(whole, text)
    assert "counts whole parties" in found


def test_servers_by_address(policy):
    require_server(policy(), "host:9092")
    with pytest.raises(PrivacyViolation, match="does not allow the server other:1"):
        require_server(policy(), "other:1")
    require_server(policy(('servers = ["host:9092"]\n', "")), "other:1")


def test_the_ledger_is_made_once_and_belongs_to_the_policy(policy, text):
    own = policy()
    study = build(parse_study(text)).study
    book = own.open_ledger()
    assert own.ledger_path.name == "north.ledger"
    assert book.policy.relation is Relation.REPLACE_ONE
    assert (book.policy.records_per_person, book.policy.colluders) == (2, 1)
    for _ in range(4):  # Gaussian studies compose in squares: four of epsilon 1 fit below 2.5
        book.authorize(study.cost, releases=20)
    book.close()
    again = own.open_ledger()
    with pytest.raises(BudgetExceeded):
        again.authorize(study.cost, releases=20)
    again.close()
    with pytest.raises(InvalidInput, match="allows more than the ledger"):
        policy(("epsilon = 2.5", "epsilon = 50")).open_ledger()


def test_a_budget_can_be_lowered_to_what_is_spent_and_not_raised(policy, text):
    """The file keeps the budget it was made with: nobody gets more than that, whoever opens it."""
    study = build(parse_study(text)).study
    book = policy().open_ledger()
    book.authorize(study.cost, releases=20)
    spent = max(book.spent(viewer) for viewer in book.viewers)
    book.close()
    assert spent < 1.5
    lower = policy(("epsilon = 2.5", "epsilon = 1.5")).open_ledger()
    assert lower.policy.budget.epsilon == 1.5
    with pytest.raises(BudgetExceeded, match=r"Of epsilon 1\.5, .* is left"):
        [lower.authorize(study.cost, releases=20) for _ in range(3)]
    lower.close()
    with pytest.raises(InvalidInput, match="Lower it no further"):
        policy(
            ("epsilon = 2.5", "epsilon = 0.5"), ("maximum_epsilon = 1.0", "maximum_epsilon = 0.5")
        ).open_ledger()
    with pytest.raises(InvalidInput, match="may lower a budget; to raise it, sign"):
        policy(("epsilon = 2.5", "epsilon = 2.6")).open_ledger()
    policy().open_ledger().close()


def test_a_policy_that_changes_ends_the_study(policy):
    own = policy()
    check_round(own)
    path = own.ledger_path.parent / "policy.toml"
    path.write_text("# the same in other words\n" + POLICY)
    check_round(own)
    path.write_text(POLICY.replace("maximum_epsilon = 1.0", "maximum_epsilon = 0.5"))
    with pytest.raises(PrivacyViolation, match="was changed while the study ran"):
        check_round(own)
    path.write_text("[dataset")
    with pytest.raises(InvalidInput, match="this is not TOML"):
        check_round(own)
    path.unlink()
    with pytest.raises(PrivacyViolation, match="cannot be read any more"):
        check_round(own)


@pytest.mark.parametrize(
    ("pair", "line", "words"),
    [
        (("epsilon = 2.5", "epsilon = inf"), 7, "budget.epsilon: Infinity is not allowed"),
        (("delta = 1e-4\ncolluders", "delta = 2\ncolluders"), 8, "budget.delta"),
        (("minimum_parties = 3\n", ""), 11, "allow.minimum_parties: is missing"),
        (("maximum_epsilon = 1.0", "maximum_epsilon = 3.0"), 12, "exceeds the whole budget 2.5"),
        (
            ("[allow]", "[budget.exceptions]\nsever = { epsilon = 3.0 }\n\n[allow]"),
            12,
            "unknown viewer 'sever'",
        ),
        (("servers =", "server ="), 19, "allow.server: is unknown: did you mean 'servers'?"),
        (('["secure-sum", "trusted-server"]', '["secure"]'), 16, 'allow.trust[1]: "secure"'),
    ],
)
def test_errors_point_at_the_line(policy, pair, line, words):
    with pytest.raises(InvalidInput) as caught:
        policy(pair)
    assert f"policy.toml line {line}: " in str(caught.value)
    assert words in str(caught.value)
