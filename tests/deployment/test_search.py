"""A study file with [search]: what it means, what it costs, and a run that goes on."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from unisono.accounting.accountant import ACCOUNTANT
from unisono.cli import app
from unisono.cli.ledger_text import history_words
from unisono.core.events import RandomStopping, composed_from_json
from unisono.core.ledger import Ledger
from unisono.core.study import Result
from unisono.core.transcript import Transcript
from unisono.core.trust import EVERYONE, FINAL_MODEL, ITERATES
from unisono.data.sources import RecordTable, read_table
from unisono.deployment import server
from unisono.deployment.job import Job
from unisono.deployment.local_run import LocalRun
from unisono.engines import wire
from unisono.engines.distributed.server import Conditions
from unisono.errors import BudgetExceeded, InvalidInput, PrivacyViolation
from unisono.models.fitted import load
from unisono.studies.build import build
from unisono.studies.file import parse_study
from unisono.studies.search import LOTS, Choice, SearchBuilt, cannot_help

from .test_standing import Network, member
from .trial import NAMES, RECORDS, Trial, study_text, write_records

RUNNER = CliRunner()
OUTPUT = 'name = "output-perturbation"'
CANDIDATES = """
[search]
holdout = 0.25
[[search.candidates]]
[[search.candidates]]
algorithm = { name = "output-perturbation", regularisation = 0.5 }
[[search.candidates]]
model = { name = "linear-svm" }
"""
AT_RANDOM = CANDIDATES.replace("[search]\n", '[search]\nmethod = "random-stopping"\n', 1)
LEARNT_FROM = CANDIDATES.replace("holdout = 0.25\n", "")
AT_RANDOM_LEARNT = AT_RANDOM.replace("holdout = 0.25\n", "")
REGRESSION = (
    study_text('name = "adaptive-statistics"', model='name = "linear-regression"')
    .replace('target = "diagnosis"', 'target = "age"')
    .replace("bounds = [0, 120], integer = true", "bounds = [0, 120]")
    .replace('diagnosis = { kind = "category", values = ["benign", "malignant"] }\n', "")
    + '[search.grid]\n"algorithm.regularisation" = [0.001, 10.0]\n"algorithm.features" = [1, 2]\n'
)


def text(search=CANDIDATES, **more):
    return study_text(OUTPUT, survivors=3, **more) + search


def built(search=CANDIDATES, **more):
    return build(parse_study(text(search, **more)))


def test_a_file_without_a_search_means_what_it_meant_before():
    plain = parse_study(study_text(OUTPUT))
    assert "search" not in plain.meaning
    assert parse_study(text()).hash != plain.hash


def test_all_stages_together_keep_the_promise_of_the_file():
    found = built()
    assert isinstance(found, SearchBuilt)
    assert [stage.name for stage in found.stages] == ["fit", "candidate-2", "candidate-3", "scores"]
    assert [own.file.model.name for own in found.candidates] == [
        "logistic-regression",
        "logistic-regression",
        "linear-svm",
    ]
    privacy = found.file.privacy
    [cost] = {id(cost): cost for cost in found.costs}.values()
    for viewer in EVERYONE:
        if viewer == "party":  # who knows its own share, as colluders = 0 says
            continue
        epsilon = ACCOUNTANT.epsilon(cost[viewer], privacy.relation, privacy.delta)
        assert 0.95 * privacy.epsilon < epsilon <= privacy.epsilon
    assert found.epsilon < privacy.epsilon
    assert found.file.training == (RECORDS - RECORDS // 4,) * 3


def test_penalties_of_the_same_noisy_sums_share_a_stage():
    found = build(parse_study(REGRESSION))
    assert [stage.name for stage in found.stages] == ["fit", "scores"]
    assert found.shared == (0, 0, 0, 0)
    assert found.epsilon > 0.9 * found.file.privacy.epsilon


@pytest.mark.parametrize("places", ["[9]", "[0, 0]", "[]"])
def test_columns_that_do_not_exist_are_refused_before_anything_is_paid(places):
    wrong = REGRESSION.replace(
        '"algorithm.features" = [1, 2]', f'"algorithm.features" = [1, {places}]'
    )
    with pytest.raises(InvalidInput, match="name each once, by its place"):
        build(parse_study(wrong))


def test_without_a_holdout_all_records_learn_and_judge_and_pay_for_both():
    found = built(LEARNT_FROM)
    assert found.file.training == found.file.judges == (RECORDS,) * 3
    assert found.noise < built().noise  # of more records
    privacy, cost = found.file.privacy, found.costs[0]
    assert (
        0.95
        < ACCOUNTANT.epsilon(cost[ITERATES], privacy.relation, privacy.delta)
        <= (privacy.epsilon)
    )
    random = built(AT_RANDOM_LEARNT)
    for party, parts in enumerate(random.parts):
        assert len(parts) == 3  # each a candidate and its score
        scores = random.judged.costs[party][ITERATES].parts
        assert all(set(scores) <= set(one[ITERATES].parts) for one in parts)
        assert random.run_of(parts, 1) == [parts[1]]
    assert ACCOUNTANT.epsilon(random.costs[0][FINAL_MODEL], privacy.relation, privacy.delta) <= (
        privacy.epsilon
    )


def test_records_that_judge_stand_in_a_secret_order():
    found = built(LEARNT_FROM)
    ages = np.arange(RECORDS) + 20
    columns = {
        "radius": [12.0] * RECORDS,
        "age": ages,
        "diagnosis": ["benign", "malignant"] * (RECORDS // 2),
    }
    records = found.records(RecordTable("north", columns, RECORDS), "north", bytes(32))
    assert sorted(records.learnt["age"]) == ages.tolist()
    assert records.learnt["age"].tolist() != ages.tolist()


def test_a_grid_is_all_combinations_after_the_list():
    grid = """
[search]
[search.grid]
"algorithm.regularisation" = [0.1, 1.0]
"model.name" = ["logistic-regression", "linear-svm"]
"""
    asked = parse_study(text(grid)).search.overrides
    assert len(asked) == 4
    assert asked[1] == {"model": {"name": "linear-svm"}, "algorithm": {"regularisation": 0.1}}


@pytest.mark.parametrize(
    ("search", "words"),
    [
        ("[search]\n", "0 candidates"),
        ("[search]\n[[search.candidates]]\n", "1 candidate: "),
        (CANDIDATES.replace("linear-svm", "linear-svn"), "did you mean"),
        (CANDIDATES.replace("0.5", "-0.5"), "candidate 2: regularisation"),
        (CANDIDATES.replace("linear-svm", "statistics"), "candidate 3"),
        ('[search.grid]\n"privacy.epsilon" = [1.0, 2.0]\n', "is no setting"),
        (CANDIDATES + "[evaluation]\nholdout = 0.2\nepsilon = 0.5\n", "records that chose"),
    ],
)
def test_what_cannot_be_searched_is_an_error_of_the_file(search, words):
    with pytest.raises(InvalidInput, match=words):
        parse_study(text(search))


def test_check_says_what_is_tried_and_where_a_search_cannot_help(tmp_path):
    study = tmp_path / "study.toml"
    study.write_text(text())
    shown = RUNNER.invoke(app, ["check", str(study)])
    said = " ".join(shown.output.split())
    assert "one of 3 candidates" in said
    assert "a search cannot help here" in said  # 30 records judge
    many = text().replace(f"records = {RECORDS}", "records = 40000")
    assert cannot_help(build(parse_study(many))) == ""


def test_networks_beside_a_line_need_records_for_every_class():
    tried = """
[search]
[[search.candidates]]
[[search.candidates]]
model = { name = "network" }
algorithm = { name = "auto" }
"""
    few = build(parse_study(text(tried, epsilon=3.0).replace("records = 40", "records = 250")))
    assert "networks were found to be no better" in cannot_help(few)
    many = build(parse_study(text(tried, epsilon=3.0).replace("records = 40", "records = 9000")))
    assert cannot_help(many) == ""


@pytest.fixture
def between(tmp_path, monkeypatch):
    """A study that may begin between machines, by its text."""
    monkeypatch.setattr("unisono.engines.distributed.server._RETURN", 0.0)

    def begun(study, epsilon=2000.0):
        found = Trial(tmp_path, study, epsilon=epsilon)
        Job.begin(found.job, found.study, found.roster, Conditions(5.0, 5.0))
        return found

    return begun


@pytest.fixture
def trial(between):
    return between(text(epsilon=500.0))


def document(folder, name="result.json"):
    return json.loads((folder / name).read_text())


def test_a_search_between_machines(trial):
    """Every candidate, then the scores: all take the same one, and pay for all of them."""
    members = [member(trial, name) for name in NAMES]
    server.main(Network(members), trial.job)
    assert all(one.finished for one in members)
    shown = [one.finish() for one in members]
    found = document(trial.job)
    scores = [one["score"] for one in found["search"]["candidates"]]
    assert found["search"]["chosen"] == 1 + scores.index(max(scores))
    whole = members[0].agreed.built
    *_, judged = whole.stages
    value = {
        stage.name: responder.result
        for stage, responder in zip(whole.stages, members[0]._responders, strict=True)
    }
    clean = np.concatenate([judged.prepare(one._records, value)[0] for one in members])
    assert scores == pytest.approx(clean.mean(axis=0), abs=0.05)  # noise of epsilon 500 vanishes
    for name, result in zip(NAMES, shown, strict=True):
        assert result == found
        assert len(trial.charges(name)) == 4
        certificate = document(trial.output(name), "certificate.json")
        [line] = [
            line["epsilon"]
            for line in certificate["guarantees"]
            if (line["viewer"], line["relation"]) == ("server", "replace-one")
        ]
        assert line == pytest.approx(certificate["spending"][0]["epsilon"]["server"])
        assert line <= 500
        left = {path.suffix for path in trial.ledger(name).parent.iterdir()}
        assert left.isdisjoint({".told", ".lock", ".memory", ".order"})


def test_candidates_that_share_a_release_between_machines(between):
    """One release and the scores; everybody makes all four models of what was told, and all take
    the same one, also who was started again after it was told."""
    trial = between(REGRESSION.replace("epsilon = 2.0", "epsilon = 500.0"))
    members = [member(trial, name) for name in NAMES]
    server.main(Network(members), trial.job)
    assert all(one.finished for one in members)
    whole = members[0].agreed.built
    assert [stage.name for stage in whole.stages] == ["fit", "scores"]
    found = [
        {stage.name: r.result for stage, r in zip(whole.stages, one._responders, strict=True)}
        for one in members
    ]
    values = [[whole.value(place, own) for place in range(4)] for own in found]
    for own in values[1:]:
        for one, other in zip(own, values[0], strict=True):
            np.testing.assert_array_equal(one, other)
    assert len({np.asarray(value).tobytes() for value in values[0]}) == 2  # of one column, not two
    members[0].close()
    members[0] = member(trial, NAMES[0])  # another process of it
    assert members[0].recall()
    shown = [one.finish() for one in members]
    result = document(trial.job)
    scores = [one["score"] for one in result["search"]["candidates"]]
    assert result["search"]["chosen"] == 1 + scores.index(max(scores))
    *_, judged = whole.stages
    clean = np.concatenate([judged.prepare(one._records, found[0])[0] for one in members])
    assert scores == pytest.approx(clean.mean(axis=0), abs=0.05)
    place = result["search"]["chosen"] - 1
    weights = whole.candidates[place].posed.present(
        whole.candidates[place].study, Result(values[0][place], None, Transcript())
    )["weights"]
    assert result["weights"] == pytest.approx(weights)
    for name, own in zip(NAMES, shown, strict=True):
        assert own == result
        assert len(trial.charges(name)) == 2


AVERAGE = LEARNT_FROM.replace("[search]\n", "[search]\naverage = true\n", 1).replace(
    'model = { name = "linear-svm" }',
    'algorithm = { name = "output-perturbation", regularisation = 0.01 }',
)


def takes_the_average(monkeypatch):
    monkeypatch.setattr(
        SearchBuilt, "choice", lambda self, found: Choice(3, tuple(map(float, found["scores"])))
    )


def test_an_average_is_judged_and_taken_between_machines(between, monkeypatch):
    takes_the_average(monkeypatch)
    trial = between(text(AVERAGE, epsilon=500.0))
    members = [member(trial, name) for name in NAMES]
    server.main(Network(members), trial.job)
    shown = [one.finish() for one in members]
    result = document(trial.job)
    assert all(own == result for own in shown)
    assert result["model"] == "average"
    assert [one["model"] for one in result["search"]["candidates"]][3:] == [
        "the average of candidates 1, 2, 3"
    ]
    assert {len(trial.charges(name)) for name in NAMES} == {4}  # as without an average
    cells = {"radius": [8.0, 12.0, 25.0], "age": [30, 40, 90]}
    chances = [load(folder).predict_proba(cells) for folder in (trial.job, trial.output("west"))]
    np.testing.assert_array_equal(*chances)
    whole = members[0].agreed.built
    clean = whole.stages[-1].prepare(
        members[0]._records,
        {s.name: r.result for s, r in zip(whole.stages, members[0]._responders, strict=True)},
    )[0]
    right = load(trial.job).predict(trial.folder / "north" / "records.csv")
    truth = RecordTable.column(read_table(trial.folder / "north" / "records.csv"), "diagnosis")
    assert clean[:, 3].sum() == np.sum(right == np.asarray(list(truth)))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_an_average_of_a_study_is_a_model_as_any_other(tmp_path, monkeypatch):
    takes_the_average(monkeypatch)
    study, data = tmp_path / "study.toml", tmp_path / "data"
    study.write_text(text(AVERAGE))
    data.mkdir()
    for number, name in enumerate(NAMES):
        write_records(data / f"{name}.csv", number)
    shown = RUNNER.invoke(app, ["run", str(study), "--data", str(data), "--budget", "2.95"])
    assert shown.exit_code == 0, shown.output
    assert "average of candidates 1, 2, 3" in shown.output
    folder = str(tmp_path / "study.run")
    assert "What was tried" in (tmp_path / "study.run" / "report.html").read_text()
    for arguments in (
        ["predict", folder, str(data / "north.csv")],
        ["export", folder, "--to", "json"],
        ["export", folder, "--to", "card"],
    ):
        done = RUNNER.invoke(app, arguments)
        assert done.exit_code == 0, done.output
    refused = RUNNER.invoke(app, ["export", folder, "--to", "sklearn"])
    assert refused.exit_code == 2
    assert "logarithms" in refused.output


@pytest.mark.parametrize(
    ("search", "words"),
    [
        (AT_RANDOM.replace("[search]\n", "[search]\naverage = true\n", 1), "which shows one model"),
        (LEARNT_FROM.replace("[search]\n", "[search]\naverage = true\n", 1), "no probabilities"),
    ],
)
def test_an_average_that_cannot_be_made_is_refused_before_anything_is_paid(search, words):
    with pytest.raises(InvalidInput, match=words):
        build(parse_study(text(search)))
    sharing = REGRESSION.replace("[search.grid]", "[search]\naverage = true\n[search.grid]")
    with pytest.raises(InvalidInput, match="functions of one release"):
        build(parse_study(sharing))


def test_a_server_that_dies_between_candidates_goes_on(trial, monkeypatch):
    members = [member(trial, name) for name in NAMES]
    whole = server._Server._stage

    def dies(self, stage, session, late):
        if stage.name == "candidate-3":
            raise KeyboardInterrupt
        return whole(self, stage, session, late)

    monkeypatch.setattr(server._Server, "_stage", dies)
    with pytest.raises(KeyboardInterrupt):
        server.main(Network(members), trial.job)
    monkeypatch.setattr(server._Server, "_stage", whole)
    server.main(Network(members), trial.job)
    assert all(one.finished for one in members)
    assert len(document(trial.job)["search"]["candidates"]) == 3
    assert {len(trial.charges(name)) for name in NAMES} == {4}


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_run_that_is_stopped_goes_on_and_pays_nothing_twice(tmp_path, monkeypatch):
    study, data = tmp_path / "study.toml", tmp_path / "data"
    study.write_text(text())
    data.mkdir()
    for number, name in enumerate(NAMES):
        write_records(data / f"{name}.csv", number)
    arguments = ["run", str(study), "--data", str(data), "--budget", "2.95"]
    stage, seen = LocalRun._stage, []

    def stopped(self, one, *rest, **more):
        seen.append(one.name)
        if one.name == "candidate-3" and seen.count("candidate-3") == 1:
            raise KeyboardInterrupt
        return stage(self, one, *rest, **more)

    monkeypatch.setattr(LocalRun, "_stage", stopped)
    assert RUNNER.invoke(app, arguments).exit_code != 0
    shown = RUNNER.invoke(app, [*arguments, "--json"])
    assert shown.exit_code == 0, shown.output
    found = json.loads(shown.stdout)["result"]
    search = found["search"]
    scores = [one["score"] for one in search["candidates"]]
    assert scores.index(max(scores)) + 1 == search["chosen"]
    assert found["model"] == search["candidates"][search["chosen"] - 1]["model"]
    assert found["file"] == parse_study(text()).hash
    folder = tmp_path / "study.run"
    book = Ledger.open(data / f"{NAMES[0]}.ledger", ACCOUNTANT)
    assert len(book.purposes()) == book.grants == 4  # three candidates and scores, once each
    book.close()
    assert "What was tried" in (folder / "report.html").read_text()
    certificate = json.loads((folder / "certificate.json").read_text())
    assert max(line["epsilon"] for line in certificate["guarantees"]) < 2.95
    predicted = RUNNER.invoke(app, ["predict", str(folder), str(data / f"{NAMES[0]}.csv")])
    assert predicted.exit_code == 0, predicted.output
    again = RUNNER.invoke(app, arguments)
    assert again.exit_code == 2
    assert "runs once" in again.output


# ------------------------------------------------------------- random stopping


def test_at_random_the_promise_is_to_who_sees_the_final_model():
    found = built(AT_RANDOM)
    privacy = found.file.privacy
    cost = found.costs[0]
    spent = {v: ACCOUNTANT.epsilon(cost[v], privacy.relation, privacy.delta) for v in cost}
    assert 0.95 * privacy.epsilon < spent[FINAL_MODEL] <= privacy.epsilon
    assert all(spent[v] > privacy.epsilon for v in EVERYONE if v != FINAL_MODEL)
    assert found.epsilon > built().epsilon  # each run gets more than by the composition of all
    grid = '[search]\nmethod = "random-stopping"\n[search.grid]'
    sharing = parse_study(REGRESSION.replace("[search.grid]", grid))
    with pytest.raises(InvalidInput, match="functions of one release"):
        build(sharing)


def begun(tmp_path, search=AT_RANDOM):
    """A study with records; how it is run."""
    study, data = tmp_path / "study.toml", tmp_path / "data"
    study.write_text(text(search))
    data.mkdir()
    for number, name in enumerate(NAMES):
        write_records(data / f"{name}.csv", number)
    return data, ["run", str(study), "--data", str(data), "--budget", "30"]


def histories(data, viewer):
    """What each ledger has paid for against a viewer."""
    books = [Ledger.open(data / f"{name}.ledger", ACCOUNTANT) for name in NAMES]
    found = [book.history(viewer) for book in books]
    for book in books:
        book.close()
    return found


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_search_that_was_stopped_pays_again_in_full(tmp_path, monkeypatch):
    """Stopped in its second run: nothing shows that nobody saw a result of it, so all pay again,
    with lots of their own. As many runs are made as there can be, whatever was drawn."""
    data, arguments = begun(tmp_path)
    one_run, drawn, runs, keys = LocalRun._one_run, RandomStopping.drawn, [], []

    def lots(law, key, candidates):
        keys.append(key)
        assert drawn(law, key, candidates)[0] in range(1, 7)
        return 3, (1, 2, 1, 0, 0, 0)

    def stopped(self, found, place, pots):
        runs.append(place)
        if len(runs) == 2:
            raise KeyboardInterrupt
        score, outcome = one_run(self, found, place, pots)
        return (99.0 if place == 0 else score), outcome  # the last would win, and do not count

    monkeypatch.setattr(RandomStopping, "drawn", lots)
    monkeypatch.setattr(LocalRun, "_one_run", stopped)
    assert RUNNER.invoke(app, arguments).exit_code != 0
    shown = RUNNER.invoke(app, [*arguments, "--json"])
    assert shown.exit_code == 0, shown.output
    assert runs == [1, 2, 1, 2, 1, 0, 0, 0]
    assert keys[0] != keys[1]
    assert "candidate 2" not in shown.stderr  # which candidate a run is of
    search = json.loads(shown.stdout)["result"]["search"]
    assert [one["score"] is None for one in search["candidates"]].count(False) == 1
    assert search["chosen"] in (2, 3)
    cost = built(AT_RANDOM).costs[0]
    stated = json.loads((tmp_path / "study.run" / "certificate.json").read_text())["events"]
    for viewer in (FINAL_MODEL, ITERATES):
        assert histories(data, viewer) == [cost[viewer] * 1 + cost[viewer] * 1] * len(NAMES)
        assert composed_from_json(stated[viewer]) == histories(data, viewer)[0]
    assert history_words(cost[ITERATES]) == "6 x run of a search"
    assert history_words(cost[FINAL_MODEL]) == "1 x best of up to 6 runs"


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_no_party_is_left_out_of_the_payment(tmp_path, monkeypatch):
    """Killed when the first ledger has paid and the second has not: afterwards all have paid at
    least for what was released."""
    data, arguments = begun(tmp_path, AT_RANDOM_LEARNT)
    authorize, calls = Ledger.authorize, []

    def killed(self, cost, releases=1, purpose="", **more):
        calls.append(purpose)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return authorize(self, cost, releases, purpose, **more)

    monkeypatch.setattr(Ledger, "authorize", killed)
    assert RUNNER.invoke(app, arguments).exit_code != 0
    assert RUNNER.invoke(app, arguments).exit_code == 0
    [cost, *_] = built(AT_RANDOM_LEARNT).costs
    first, *others = histories(data, FINAL_MODEL)
    assert first == cost[FINAL_MODEL] + cost[FINAL_MODEL]
    assert all(own == cost[FINAL_MODEL] for own in others)


# ------------------------------------------------------------- random stopping between machines


@pytest.fixture(params=["secure-sum", "local"])
def drawing(between, monkeypatch, request):
    """Three parties; the first three of six runs count."""
    monkeypatch.setattr(RandomStopping, "drawn", lambda law, key, n: (3, (1, 2, 1, 0, 0, 0)))
    trial = between(text(AT_RANDOM, epsilon=50.0, trust=request.param), epsilon=20_000.0)
    return trial, [member(trial, name) for name in NAMES]


def test_random_stopping_between_machines(drawing, monkeypatch):
    trial, members = drawing
    score = SearchBuilt.score

    def judged(self, place, value, records):  # candidate 1 would win, and its runs do not count
        return np.ones_like(score(self, place, value, records)) * (0.99 if place == 0 else 0.3)

    monkeypatch.setattr(SearchBuilt, "score", judged)
    server.main(Network(members), trial.job)
    assert all(one.finished for one in members)
    whole = members[0].agreed.built
    assert [stage.name for stage in whole.course][:4] == ["lots", "run-1", "run-1-scores", "run-2"]
    assert len(whole.course) == 13
    opened = {s.name: r.opened for s, r in zip(whole.course, members[0]._responders, strict=True)}
    assert set(opened.values()) == {0, 1}
    assert [name for name, number in opened.items() if not number] == ["lots"]
    shown = [one.finish() for one in members]
    result = document(trial.job)
    assert all(own == result for own in shown)
    search = result["search"]
    assert search["chosen"] in (2, 3)
    assert [one["score"] is None for one in search["candidates"]].count(False) == 1
    [cost, *_] = whole.costs
    stated = document(trial.job, "certificate.json")
    for name in NAMES:
        book = Ledger.open(trial.ledger(name), ACCOUNTANT)
        assert book.grants == 1
        assert all(book.history(viewer) == cost[viewer] for viewer in (FINAL_MODEL, ITERATES))
        book.close()
        own = document(trial.output(name), "certificate.json")
        assert own["result"] == stated["result"]
        for viewer in (FINAL_MODEL, ITERATES):
            assert composed_from_json(own["events"][viewer]) == cost[viewer]


def test_no_document_tells_which_run_was_taken(drawing):
    """A hash that names the session of a run would, to whoever tries all of them."""
    trial, members = drawing
    server.main(Network(members), trial.job)
    known = [one.session.id.hex() for one in members[0]._responders[1:]]
    hashes = [one.result_hash for one in members[0]._responders[1:]]
    for one in members:
        one.finish()
    for folder in (trial.job, trial.output("north")):
        for name in ("result.json", "certificate.json", "certificate.txt", "transcript.json"):
            if not (folder / name).exists():
                continue
            said = (folder / name).read_text()
            assert not any(own[:16] in said for own in (*known, *hashes)), name
            assert "run-" not in said
    assert not (trial.output("north") / "signature.json").exists()


def test_lots_are_drawn_once_and_survive_a_restart(between, monkeypatch):
    """The server dies in the second run: it goes on with the lots that it drew, and nobody pays
    again. So do parties that stay."""
    trial = between(text(AT_RANDOM, epsilon=50.0), epsilon=20_000.0)
    members = [member(trial, name) for name in NAMES]
    whole, drawn, draws = server._Server._stage, RandomStopping.drawn, []

    def draw(law, key, candidates):
        draws.append(drawn(law, key, candidates))
        return draws[-1]

    def dies(self, stage, session, late):
        if stage.name == "run-2":
            raise KeyboardInterrupt
        return whole(self, stage, session, late)

    monkeypatch.setattr(RandomStopping, "drawn", draw)
    monkeypatch.setattr(server._Server, "_stage", dies)
    with pytest.raises(KeyboardInterrupt):
        server.main(Network(members), trial.job)
    first = members[0]._responders[1].result_hash
    monkeypatch.setattr(server._Server, "_stage", whole)
    server.main(Network(members), trial.job)
    [(number, places)] = draws
    assert all(one.finished for one in members)
    assert members[0]._responders[1].result_hash == first
    assert members[0].agreed.built.lots == (number, places)
    assert {len(trial.charges(name)) for name in NAMES} == {1}
    found = [one.finish() for one in members]
    assert found[0] == document(trial.job)


def test_a_party_that_is_started_again_pays_nothing_and_answers_nothing_more(between, monkeypatch):
    """Its noise is gone with its process. Others go on without it, and it reads the result."""
    trial = between(study_text(OUTPUT, survivors=2, epsilon=50.0) + AT_RANDOM, epsilon=20_000.0)
    members = [member(trial, name) for name in NAMES]
    network, whole = Network(members), server._Server._stage

    def replaced(self, stage, session, late):
        if stage.name == "run-3":
            network.members[2].close()
            network.members[2] = member(trial, NAMES[2])
            assert not network.members[2].recall()
        return whole(self, stage, session, late)

    monkeypatch.setattr(server._Server, "_stage", replaced)
    server.main(network, trial.job)
    assert all(one.finished for one in network.members)
    counted = [r.spender.paid for r in network.members[2]._responders]
    assert set(counted) == {0}
    assert {len(trial.charges(name)) for name in NAMES} == {1}
    found = [one.finish() for one in network.members]
    assert found[2] == found[0] == document(trial.job)


def test_a_party_that_misses_a_run_takes_part_in_the_next(between, monkeypatch):
    trial = between(study_text(OUTPUT, survivors=2, epsilon=50.0) + AT_RANDOM, epsilon=20_000.0)
    members = [member(trial, name) for name in NAMES]
    network, whole = Network(members), server._Server._stage

    def missed(self, stage, session, late):
        network.away = {"west"} if stage.name.startswith("run-2") else set()
        return whole(self, stage, session, late)

    monkeypatch.setattr(server._Server, "_stage", missed)
    server.main(network, trial.job)
    assert all(one.finished for one in members)
    counted = [r.spender.paid for r in members[2]._responders]
    assert counted == [0, 1, 1, 0, 0, *[1] * 8]
    assert {len(trial.charges(name)) for name in NAMES} == {1}
    assert members[2].finish() == document(trial.job)


def test_a_ledger_that_cannot_bear_all_runs_lets_nobody_join(between):
    """The truncated worst case is asked for before records are shown to anybody."""
    cost = built(AT_RANDOM).costs[0]
    privacy = built(AT_RANDOM).file.privacy
    all_runs = ACCOUNTANT.epsilon(cost[ITERATES], privacy.relation, privacy.delta)
    trial = between(text(AT_RANDOM), epsilon=0.9 * all_runs)
    with pytest.raises((BudgetExceeded, PrivacyViolation)):
        member(trial, NAMES[0])
    assert not trial.ledger(NAMES[0]).exists() or not trial.charges(NAMES[0])


def test_a_party_goes_no_further_with_lots_that_cannot_be(between):
    trial = between(text(AT_RANDOM, epsilon=50.0), epsilon=20_000.0)
    own = member(trial)
    said = {"session": own.agreed.session.id.hex(), "opened": 0}
    own.answer(wire.encode("finish", said, [np.full(7, 99, np.int32)]))
    assert own.responder.finished  # with what it was told, of which nothing follows
    assert not own.finished
    assert own.agreed.built.lots is None
    own.answer(wire.encode("hello", {"session": "0" * 64, "nonce": "0" * 32}))
    own.close()
    assert not trial.charges("north")


def test_lots_that_cannot_be_are_refused():
    found = built(AT_RANDOM)
    for told in ([0, 0, 0, 0, 0, 0, 0], [7, 0, 0, 0, 0, 0, 0], [1, 3, 0, 0, 0, 0, 0]):
        with pytest.raises(InvalidInput, match="lots of runs or candidates"):
            found.informed({LOTS: np.array(told, np.int32)})
