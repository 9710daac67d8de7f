"""`[evaluation]`: what it says, how records are kept out, and what scores and intervals are."""

import numpy as np
import pytest

from unisono.accounting.accountant import ACCOUNTANT
from unisono.algorithms.survey import Opened, pack
from unisono.attacks.neighbours import CleanParty, World, distances, without
from unisono.core.ledger import Ledger
from unisono.core.policy import Budget, Policy
from unisono.core.study import Party, Result
from unisono.core.transcript import Transcript
from unisono.core.values import Private
from unisono.data import RecordTable
from unisono.data.columns import Category
from unisono.engines import in_process
from unisono.engines.layout import spread
from unisono.errors import InvalidInput
from unisono.planning.noise import noise_of
from unisono.studies import build as building
from unisono.studies.build import build
from unisono.studies.evaluation import mean_interval, read_private, read_public, share_interval
from unisono.studies.file import parse_study
from unisono.studies.order import new_key, secret_order, secret_share
from unisono.studies.stages import EVALUATION, EVALUATION_START, FIT

HELD = "\n[evaluation]\nholdout = 0.25\nepsilon = 0.5\n"
NUMBER = ('target = "diagnosis"', 'target = "radius"')


def test_files_without_it_keep_their_hash(change):
    """Numbers of the format unisono-study-2: a change makes every agreed study another one."""
    file = parse_study(change())
    assert file.hash == "f956d5bd57940af3251f5eb9593ceb1f9c64dba7fdafeacc07b866d79f4a3cb0"
    assert build(file).study.hash == (
        "158f773b589915e10e7c053c8675cd3273b37dfdd50fb5f19ab7224dfc349d81"
    )
    tested = parse_study(change() + HELD)
    assert tested.hash != file.hash
    assert parse_study(change() + HELD.replace("0.5", "0.6")).hash != tested.hash


@pytest.mark.parametrize(
    ("more", "pairs", "words"),
    [
        ("holdout = 0.2", (), "epsilon: is missing: a private test needs both"),
        ("epsilon = 0.2", (), "holdout: is missing"),
        ("confidence = 0.9", (), "evaluation: says nothing"),
        ("holdout = 0.6\nepsilon = 1", (), "holdout: 0.6 is not allowed"),
        ("holdout = 0.02\nepsilon = 1", (), "of 40 records of north none would be kept"),
        ('file = ""', (), "file"),
        ("holdout = 0.2\nepsilon = 1\nfolds = 3", (), "folds: is unknown"),
    ],
)
def test_what_cannot_be_asked_for(change, more, pairs, words):
    with pytest.raises(InvalidInput, match=words) as error:
        parse_study(f"{change(*pairs)}\n[evaluation]\n{more}\n")
    assert "study.toml line " in str(error.value)


def test_whole_parties_and_statistics_have_no_private_test(study):
    party = ('unit = "record"\nrelation = "replace-one"', 'unit = "party"\nrelation = "zero-out"')
    with pytest.raises(InvalidInput, match="hides whole parties"):
        parse_study(study("bayesian-logistic-regression", "pvi-clipped-updates", party) + HELD)
    nothing = ('target = "diagnosis"\n', "")
    questions = "[[model.questions]]\nask = 'mean'\ncolumn = 'age'\n"
    with pytest.raises(InvalidInput, match="predicts nothing"):
        parse_study(study(f"statistics\n{questions}", "", nothing) + HELD)


def test_a_secret_fourth_of_the_records_is_kept_out(change, table):
    built = build(parse_study(change() + HELD))
    assert built.file.held_out == (10, 12, 10)
    assert built.study.facts.records == (30, 38, 30)
    whole = build(parse_study(change())).columns(table(40), "north")
    everybody = [row.tobytes() for row in np.column_stack(whole)]
    drawn = []
    for key in (None, None, b"1" * 32, b"1" * 32):
        records = built.records(table(40), "north", key)
        training, kept = map(built._encoded, records)
        learnt, tested = ([row.tobytes() for row in np.column_stack(s)] for s in (training, kept))
        assert (len(learnt), len(tested)) == (30, 10)
        assert sorted(learnt + tested) == sorted(everybody)
        drawn.append(sorted(tested))
    assert drawn[0] != drawn[1]  # equal by chance once in 10^8
    assert drawn[2] == drawn[3]
    assert len(built.columns(table(40), "north")[0]) == 30


def test_a_sorted_file_says_nothing_about_who_is_kept_out(change, table):
    """Files that are sorted, and differ in one record: by places nearly all others would move from
    training to test or back. By a secret order every record is kept equally often: of 4000 draws
    of 10 in 40 each place gets 1000, with a standard deviation of 27; 150 off has chance 10^-6."""
    counts = np.zeros(40)
    for _ in range(4000):
        counts[secret_order(40, new_key())[:10]] += 1
    assert np.abs(counts - 1000).max() < 150
    built, own = build(parse_study(change() + HELD)), table(40)

    def in_order(radius):
        order = np.argsort(radius)
        columns = {n: np.asarray(c)[order] for n, c in {**own.columns, "radius": radius}.items()}
        return RecordTable("north.csv", columns, 40)

    other = own.columns["radius"].copy()
    other[np.argmin(other)] = 29.0
    # The same order of records, as the proof couples them: exactly one differs.
    lists = []
    for radius in (own.columns["radius"], other):
        back = np.argsort(np.argsort(radius))
        order = back[secret_order(40, b"3" * 32)]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(building, "secret_order", lambda *_, order=order: order)
            records = built.records(in_order(radius), "north")
            lists.append(tuple(map(built._encoded, records)))
    changed = sum(int((a[0] != b[0]).any(axis=1).sum()) for a, b in zip(*lists, strict=True))
    assert changed == 1


# ------------------------------------------------------------- hidden sizes

HIDDEN = ('sizes = "exact"', 'sizes = "hidden"'), ('"replace-one"', '"add-or-remove"')
ALL = 'metrics = "all"\n'


def test_where_sizes_are_hidden_every_record_has_its_own_coin(change, table):
    """4000 draws of 40 coins, one in four: each record is kept 1000 times, give or take 27, and the
    number that is kept has the variance of independent coins, 7.5, give or take .17."""
    built = build(parse_study(change(*HIDDEN) + HELD))
    assert built.file.held_out == (10, 12, 10)  # of the numbers that were agreed on
    assert not built.test.study.facts.exact_sizes
    coins = np.array([secret_share(40, 4, new_key()) for _ in range(4000)])
    assert np.abs(coins.sum(axis=0) - 1000).max() < 150
    assert coins.sum(axis=1).var() == pytest.approx(7.5, abs=0.8)
    first, again, other = (
        built.records(table(40), "north", key).kept["radius"].tolist()
        for key in (b"1" * 32, b"1" * 32, b"2" * 32)
    )
    assert first == again != other


def drawn_together(monkeypatch, built, full, gone, order, share):
    """Both stages' arrays of a party with a record and without it: the same order and, by `share`
    of who is there, the same coins for all others."""
    value = np.linspace(-1, 1, 4).astype(np.float32)  # any model will do
    found = []
    for missing in (None, gone):
        there = np.arange(full.rows) != missing
        columns = {name: np.asarray(own)[there] for name, own in full.columns.items()}
        drawn = (np.cumsum(there) - 1)[order[there[order]]]
        monkeypatch.setattr(building, "secret_order", lambda *_, drawn=drawn: drawn)
        kept = share(there[order])
        monkeypatch.setattr(building, "secret_share", lambda *_, kept=kept: kept)
        records = built.records(RecordTable("north.csv", columns, int(there.sum())), "north")
        found.append([stage.prepare(records, {FIT: value}) for stage in built.stages])
    return found


def missing_row(larger, smaller):
    """Which row has to be taken out of arrays to make them the others; None where none has."""
    for row in range(len(larger[0])):
        pairs = zip(larger, smaller, strict=True)
        if all(np.array_equal(np.delete(a, row, axis=0), b) for a, b in pairs):
            return row
    return None


def moved_by_one_record(monkeypatch, built, table, pairs, share=None):
    """In how many stages one record's presence shows, of each pair of neighbours; None where it
    moves others, or its release further than the event claims, by the fuzzer's own party."""
    generator, moved = np.random.default_rng(7), []
    parties = [CleanParty(stage.study) for stage in built.stages]
    for number in range(pairs):
        full = table(int(generator.integers(2, 90)), number)
        order, gone = generator.permutation(full.rows), int(generator.integers(full.rows))
        coins = generator.random(full.rows) < 0.25
        own_share = share or (lambda there, coins=coins: coins[there])
        stages = drawn_together(monkeypatch, built, full, gone, order, own_share)
        apart = 0
        for party, larger, smaller in zip(parties, *stages, strict=True):
            if len(larger[0]) == len(smaller[0]) and all(map(np.array_equal, larger, smaller)):
                continue
            own = missing_row(larger, smaller)
            if own is None or not _within_claim(party, larger, own, generator):
                apart = None
                break
            apart += 1
        moved.append(apart)
    return moved


def _within_claim(party, larger, own, generator):
    size, segment, study = len(larger[0]), party.layout.segment, party.study
    rows = spread(generator.permutation(size), generator.permutation(segment), segment)
    world = World(larger, np.ones(size, bool), rows)
    algorithm, facts = study.algorithm, study.facts
    server, state = algorithm.init(facts)
    publics = [algorithm.ask(server)] * party.turns
    both = (world, without(world, own, party.layout))
    before, after = (party.releases(one, publics, state)[0] for one in both)
    found = distances(before, after, algorithm.grid(facts, study.trust))
    claim = party.event.sensitivity.under(study.method.privacy.relation)
    claims = {norm: getattr(claim, norm) for norm in found}
    assert any(claims.values())
    return all(one is None or found[n] <= one * (1 + 1e-12) for n, one in claims.items())


@pytest.mark.filterwarnings("ignore::unisono.studies.table.OneClass")
@pytest.mark.parametrize("more", ["", ALL])
def test_one_record_more_is_in_the_training_or_in_the_test_and_moves_nobody(
    monkeypatch, change, table, more
):
    built = build(parse_study(change(*HIDDEN, ("rounds = 20", "rounds = 2")) + HELD + more))
    begun = [EVALUATION_START] if more else []
    assert [stage.name for stage in built.stages] == [FIT, *begun, EVALUATION]
    moved = moved_by_one_record(monkeypatch, built, table, 24)
    assert set(moved) == ({1, 2} if more else {1})  # a test of all metrics has two rounds


@pytest.mark.filterwarnings("ignore::unisono.studies.table.OneClass")
def test_a_share_that_is_counted_off_would_be_noticed(monkeypatch, change, table):
    """Of n records n // 4 are kept: one more moves another one across, in some pairs."""
    built = build(parse_study(change(*HIDDEN, ("rounds = 20", "rounds = 2")) + HELD))

    def counted(there):
        return np.arange(there.sum()) < there.sum() // 4

    assert moved_by_one_record(monkeypatch, built, table, 24, counted) != [1] * 24


@pytest.mark.filterwarnings("ignore::unisono.studies.table.OneClass")
@pytest.mark.parametrize(("model", "target", "more"), [
    ("logistic-regression", "diagnosis", ""),
    ("logistic-regression", "diagnosis", ALL),
    ("linear-regression", "radius", ""),
])  # fmt: skip
def test_how_many_are_kept_is_released_with_their_scores(study, table, model, target, more):
    """Almost without noise the document says what the parties kept; one of them has a single
    record, so that either its training or its test is empty, and nobody is told."""
    pairs = (
        *HIDDEN,
        ('target = "diagnosis"', f'target = "{target}"'),
        ("epsilon = 1\n", "epsilon = 900\n"),
    )
    held = HELD.replace("0.5", "900")
    built = build(
        parse_study(study(model, "gradient-perturbation\nrounds = 3", *pairs) + held + more)
    )
    tables = [table(size, seed) for seed, size in enumerate((57, 31, 1))]
    records = [
        built.records(own, name, bytes([9]) * 32)
        for own, name in zip(tables, built.file.names, strict=True)
    ]
    kept = sum(len(own.kept["radius"]) for own in records)
    assert len(records[2].kept["radius"]) + len(records[2].learnt["radius"]) == 1
    books = [
        Ledger.in_memory(
            Policy(name, Budget(1e5, 1e-2), relation="add-or-remove"), ACCOUNTANT, seed=1
        )
        for name in built.file.names
    ]
    found = {}
    for stage in built.stages:
        parties = [
            Party(name, Private(stage.columns(own, found)), book)
            for name, own, book in zip(built.file.names, records, books, strict=True)
        ]
        result = in_process.run(stage.begun(found), parties)
        found[stage.name] = result.value
    document = built.tested(found[EVALUATION], result.certificate)
    assert document["records"] == pytest.approx(kept, abs=2)
    assert 0 < document["records_noise"] < 2
    assert "their number is noisy" in document["how"]
    assert document["low"] <= document["value"] <= document["high"]
    if not more:
        [test] = [stage for stage in built.stages if stage.name == EVALUATION]
        scores = np.concatenate([test.columns(own, found)[0] for own in records])
        unit = 1.0 if target == "diagnosis" else 25.0
        assert document["value"] == pytest.approx(unit * scores.mean(), abs=0.05 * unit)


def test_records_of_a_study_stand_in_a_random_order(study, table):
    built = build(parse_study(study("network\nhidden = [3]", "dp-ftrl\nrounds = 2")))
    assert built.study.algorithm.rows is not None
    local = ('mode = "secure-sum"', 'mode = "local"')
    named = build(parse_study(study("linear-svm", "sgd-sequential\nsteps = 9", local)))
    blocks = build(parse_study(study("linear-svm", "gradient-perturbation\nrounds = 2")))
    plain = build(parse_study(study("linear-svm", "output-perturbation", local)))
    for one in (built, named, blocks, plain):
        first, second = (one.columns(table(40), "north")[0] for _ in range(2))
        assert not np.array_equal(first, second)
        assert np.array_equal(np.sort(first, axis=0), np.sort(second, axis=0))


@pytest.mark.parametrize(
    "path", ["/data/north.csv", "../north.csv", "a/../../b.csv", "..\\\\b.csv", "C:/b.csv"]
)
def test_a_public_file_lies_beside_the_study(change, path):
    with pytest.raises(InvalidInput, match="leads away from the study"):
        parse_study(f'{change()}\n[evaluation]\nfile = "{path}"\n')
    parse_study(f'{change()}\n[evaluation]\nfile = "public/test..csv"\n')


def test_the_test_is_paid_for_on_top(change):
    built = build(parse_study(change() + HELD))
    privacy = built.file.privacy
    for viewer, history in built.costs[0].items():
        both = ACCOUNTANT.epsilon(history, privacy.relation, privacy.delta)
        alone = ACCOUNTANT.epsilon(built.study.cost[viewer], privacy.relation, privacy.delta)
        test = built.test.study.cost[viewer]
        own = ACCOUNTANT.epsilon(test, privacy.relation, privacy.delta)
        assert own == pytest.approx(0.5, rel=1e-3)
        assert alone < both <= alone + own + 1e-9


# ------------------------------------------------------------- scores


def predictions(built, value, arrays):
    scores = built.posed.score(built.study, value, arrays)
    assert scores.shape == (len(arrays[0]),)
    assert ((scores >= 0) & (scores <= 1)).all()
    # A record that cannot be read counts as predicted as badly as can be, and no other changes.
    unread = tuple(np.concatenate([np.full_like(array[:1], np.nan), array[1:]]) for array in arrays)
    classes = isinstance(built.file.data.columns[built.file.data.target], Category)
    worst = np.concatenate([[0.0 if classes else 1.0], scores[1:]])
    assert built.posed.score(built.study, value, unread) == pytest.approx(worst, abs=1e-6)
    return scores


def test_scores_of_a_linear_classifier(change, table):
    built = build(parse_study(change()))
    arrays = built.columns(table(40), "north")
    weights = np.array([1.0, 0.0, 0.0, -0.45])
    right = np.sign(arrays[0] @ weights) == arrays[1]
    assert np.array_equal(predictions(built, weights, arrays), right.astype(float))
    assert np.array_equal(predictions(built, -weights, arrays), 1.0 - right)


def test_scores_of_several_classes(change, table):
    three = change(('"benign", "malignant"', '"benign", "malignant", "unknown"'))
    built = build(parse_study(three))
    arrays = built.columns(table(40), "north")
    value = np.zeros((arrays[0].shape[1], 3))
    value[-1, 1] = 1.0  # always the second
    assert predictions(built, value, arrays).mean() == np.mean(arrays[1] == 1)


def test_scores_of_a_linear_regression_are_shares_of_the_range(study, table, in_order):
    """Always the middle of the range: the error is the distance from 17.5, over 25."""
    built = build(parse_study(study("linear-regression", "gradient-perturbation", NUMBER)))
    own = table(40)
    value = np.zeros(len(built.columns(own, "north")[0][0]))
    expected = np.abs(np.clip(own.columns["radius"], 5, 30) - 17.5) / 25
    found = predictions(built, value, built.columns(own, "north"))
    assert found == pytest.approx(expected, abs=1e-6)
    value[-1] = 0.4  # an intercept in scaled units: 17.5 + 0.4 * 12.5
    expected = np.abs(np.clip(own.columns["radius"], 5, 30) - 22.5) / 25
    found = predictions(built, value, built.columns(own, "north"))
    assert found == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("model", "name", "pairs"),
    [
        ("bayesian-linear-regression", "one-shot-regression", (NUMBER,)),
        pytest.param(
            "bayesian-logistic-regression", "pvi-natural-gradient", (), marks=pytest.mark.slow
        ),
    ],
)
def test_scores_of_posteriors(study, table, model, name, pairs):
    """Almost without noise the mean of the posterior predicts well."""
    loud = ("epsilon = 1\n", "epsilon = 2e3\n")
    file = parse_study(study(model, name, *pairs, loud))
    built = build(file)
    books = [
        Ledger.in_memory(Policy(name, Budget(1e5, 1e-4)), ACCOUNTANT, seed=1) for name in file.names
    ]
    parties = [
        Party(p.name, Private(built.columns(table(p.records, n), p.name)), book)
        for n, (p, book) in enumerate(zip(file.parties, books, strict=True))
    ]
    value = in_process.run(built.study, parties).value
    scores = predictions(built, value, built.columns(table(40, 9), "north"))
    assert scores.mean() < 0.1 if pairs else scores.mean() > 0.9


@pytest.mark.slow
@pytest.mark.parametrize("target", ["diagnosis", "radius"])
def test_scores_of_networks(study, table, target):
    pair = ('target = "diagnosis"', f'target = "{target}"')
    built = build(parse_study(study("network\nhidden = [3]", "dp-sgd\nrounds = 2", pair)))
    server, _ = built.study.algorithm.init(built.study.facts)
    value = built.study.algorithm.result(server)
    scores = predictions(built, value, built.columns(table(40), "north"))
    assert (set(scores) <= {0.0, 1.0}) == (target == "diagnosis")


# ------------------------------------------------------------- intervals


@pytest.mark.parametrize(
    ("epsilon", "truth", "more_noise"), [(0.3, 0.8, True), (20.0, 0.97, False)]
)
def test_the_interval_of_a_private_test_holds_noise_and_sampling(
    change, epsilon, truth, more_noise
):
    """500 repetitions at 90 %, of records and of noise: at exactly 90 % fewer than 429 hits have
    chance 1 in 10^3."""
    more = f"\n[evaluation]\nholdout = 0.25\nepsilon = {epsilon}\nconfidence = 0.9\n"
    larger = (("records = 40", "records = 200"), ("records = 50", "records = 200"))
    file = parse_study(change(*larger) + more)
    test = build(file).test
    std, hits, records = noise_of(test.study).std, 0, sum(file.held_out)
    generator = np.random.default_rng(5)
    assert (std > np.sqrt(records * truth * (1 - truth))) == more_noise
    for right in generator.binomial(records, truth, 500):
        opened = Opened(np.array([right + generator.normal(0, std)]), 3, float(records))
        document = read_private(file, test, Result(pack(opened), None, Transcript()))
        hits += document["low"] <= truth <= document["high"]
    assert hits >= 429
    assert document["records"] == records == 150
    assert document["how"] == f"held-out records, paid with epsilon {epsilon:g}"


def test_the_interval_holds_where_the_number_of_records_is_noisy_too(change):
    """300 repetitions at 90 %, of coins, records and noise: at exactly 90 % fewer than 253 hits
    have chance 1 in 10^3. The interval takes the worst of a box, so it holds more often."""
    more = "\n[evaluation]\nholdout = 0.25\nepsilon = 1.0\nconfidence = 0.9\n"
    larger = (("records = 40", "records = 400"), ("records = 50", "records = 400"))
    file = parse_study(change(*larger, *HIDDEN) + more)
    test = build(file).test
    std, hits, generator = noise_of(test.study).std, 0, np.random.default_rng(6)
    for kept in generator.binomial(1200, 0.25, 300):
        right = generator.binomial(kept, 0.8)
        noisy = np.array([kept - right, right]) + generator.normal(0, std, 2)
        opened = Opened(noisy, 3, float(sum(file.held_out)))
        document = read_private(file, test, Result(pack(opened), None, Transcript()))
        hits += document["low"] <= 0.8 <= document["high"]
    assert hits >= 253
    assert document["records"] == pytest.approx(noisy.sum(), abs=1)
    assert document["records_noise"] == pytest.approx(std * np.sqrt(2), rel=0.01)
    assert document["high"] - document["low"] < 0.5


def test_intervals_of_public_tests_hold_as_often_as_they_say():
    """2000 repetitions at 90 %: at exactly 90 % fewer than 1750 hits have chance 1 in 10^3."""
    generator = np.random.default_rng(3)
    hits = 0
    for right in generator.binomial(60, 0.9, 2000):
        low, high = share_interval(int(right), 60, 0.9)
        hits += low <= 0.9 <= high
    assert hits >= 1750
    assert share_interval(0, 5, 0.95)[0] == 0
    assert share_interval(5, 5, 0.95)[1] == 1
    means = [mean_interval(generator.uniform(0, 1, 60), 0.9) for _ in range(2000)]
    assert 1750 <= sum(low <= 0.5 <= high for low, high in means) <= 1850
    assert mean_interval(np.array([0.3]), 0.9) == (0.0, 1.0)


def test_a_public_test_speaks_in_units_of_the_target(study):
    file = parse_study(study("linear-regression", "gradient-perturbation", NUMBER))
    found = read_public(file, np.array([0.1, 0.3]), np.array([10.0, 20.0]), "test.csv")
    assert (found["measure"], found["records"]) == ("mean absolute error", 2)
    assert found["value"] == pytest.approx(0.2 * 25)
    assert found["baseline"] == pytest.approx(5.0)
    assert found["how"] == "public file test.csv"
