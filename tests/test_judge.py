"""`unisono.evaluate`: any model that predicts, judged in one call."""

import numpy as np
import pytest
from sklearn import metrics as textbook
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.svm import LinearSVC

import unisono
from unisono.errors import InvalidInput
from unisono.estimators import PrivateLogisticRegression, PrivateRidge

DRAW = np.random.default_rng(3)
X = DRAW.normal(size=(4000, 3))
Y = np.where(X @ [1.0, -0.5, 0.2] + DRAW.logistic(size=4000) > 0, "ill", "well")
T = 50 + X @ [5.0, 2.0, 0.0] + DRAW.normal(0, 4, 4000)


def ledger(seed=1):
    policy = unisono.Policy("new", unisono.Budget(1e4, 1e-3))
    return unisono.Ledger.in_memory(policy, unisono.ACCOUNTANT, seed=seed)


def judged(model, y=Y, **options):
    given = {"epsilon": 40.0, "delta": 1e-6, "ledger": ledger()} | options
    return unisono.evaluate(model, X, y, **given)


def test_a_classifier_over_parties_by_group():
    model = LogisticRegression().fit(X[:500], Y[:500])
    parties = np.arange(4000) % 3
    found = judged(
        model,
        parties=parties,
        ledger={k: ledger(k) for k in range(3)},
        groups=np.where(X[:, 2] > 0, "f", "m"),
        labels=["f", "m"],
    )
    assert found["accuracy"].value == pytest.approx(model.score(X, Y), abs=0.01)
    chances = model.predict_proba(X)[:, 1]
    exact = textbook.roc_auc_score(Y == "well", chances)
    assert found["AUC"].low < exact < found["AUC"].high
    assert [one["group"] for one in found.to_json()["groups"]] == ["f", "m"]
    assert "calibration slope" in str(found)
    assert "epsilon" in str(found)
    assert "<td>0." in found._repr_html_()
    assert 30 < found.epsilon <= 40
    with pytest.raises(KeyError, match="there are accuracy"):
        found["R²"]


def test_a_machine_without_probabilities():
    found = judged(model := LinearSVC().fit(X[:500], Y[:500]))
    assert found["accuracy"].value == pytest.approx(model.score(X, Y), abs=0.01)
    assert "AUC" not in str(found)


def test_a_regression():
    model = LinearRegression().fit(X[:500], T[:500])
    found = judged(model, T, bounds=(0.0, 100.0))
    exact = textbook.root_mean_squared_error(T, model.predict(X))
    assert found["RMSE"].value == pytest.approx(exact, abs=0.2)
    assert found["R²"].value == pytest.approx(model.score(X, T), abs=0.02)


def test_unknown_labels_count_nowhere():
    model = LogisticRegression().fit(X[:500], Y[:500])
    odd = Y.astype(object)
    odd[::4] = None
    odd[1::4] = "dead"
    found = judged(model, odd)
    there = np.isin(odd.astype(str), ["ill", "well"])
    exact = model.score(X[there], Y[there])
    assert found["accuracy"].value == pytest.approx(exact, abs=0.01)
    assert found.to_json()["records"] == pytest.approx(2000, abs=20)


class Panic(BaseException):
    """What a model written in Rust may raise."""


class Moody:
    """Raises, or says something of another kind, where a record's first number is large."""

    classes_ = np.array(["ill", "well"])
    n_features_in_ = 3

    def __init__(self, mood):
        self.mood = mood

    def predict_proba(self, rows):
        rows = np.asarray(rows, float)
        chance = np.full(len(rows), 0.7)
        if (rows[:, 0] > 99).any():
            if self.mood == "raises":
                raise RuntimeError("a large number")
            if self.mood == "panics":
                raise Panic
            if self.mood == "too large":
                return [[0.3, 10**400 if large else 0.7] for large in rows[:, 0] > 99]
            if self.mood == "two answers":
                return np.full((len(rows) + 1, 2), 0.5)
            chance[rows[:, 0] > 99] = np.nan
        return np.stack([1 - chance, chance], axis=1)

    def predict(self, rows):
        return self.classes_[self.predict_proba(rows).argmax(axis=1)]


def own_model():
    book = ledger(7)
    bounds = ([-4.0] * 3, [4.0] * 3)
    model = PrivateLogisticRegression(
        epsilon=9.0, delta=1e-6, bounds=bounds, classes=["ill", "well"], ledger=book
    )
    return model.fit(X[:500], Y[:500])


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "own"
    own_model().save(folder)
    return unisono.load(folder)


@pytest.mark.parametrize("rowwise", [False, True])
@pytest.mark.parametrize("cell", [np.nan, np.inf, 1e300, None, "n/a", "12,5", b"?", [1], 10**400])
def test_one_cell_refuses_nothing(saved, cell, rowwise):
    """Whatever stands in it: the evaluation is released and charged, and others count."""
    rows = X[:60].astype(object)
    rows[7, 1] = cell
    for model in (LogisticRegression().fit(X[:500], Y[:500]), saved):
        book = ledger()
        found = unisono.evaluate(
            model, rows, Y[:60], epsilon=300.0, delta=0.0, ledger=book, rowwise=rowwise
        )
        assert book.grants == 2  # two rounds
        assert 59 <= round(found.to_json()["records"]) <= 60


@pytest.mark.parametrize("record", [[], [1.0], {}, {"x0": 1.0}, None, "x", [1, 2, [3]], [[1]] * 3])
def test_one_record_of_another_shape_refuses_nothing(saved, record):
    rows = [*X[:30].tolist(), record, *({"x0": a, "x1": b, "x2": c} for a, b, c in X[30:59])]
    for model in (saved, Moody("")):
        book = ledger()
        found = unisono.evaluate(model, rows, Y[:60], epsilon=300.0, ledger=book)
        assert book.grants == 2  # two rounds
        count = round(found.to_json()["records"])
        assert count == 59 if model is saved else count in (30, 31)


@pytest.mark.parametrize("rowwise", [False, True])
@pytest.mark.parametrize("mood", ["raises", "panics", "NaN", "too large", "two answers"])
def test_a_model_without_an_answer_for_a_record(mood, rowwise):
    rows = X[:70].copy()
    rows[5, 0] = 100.0
    found = unisono.evaluate(
        Moody(mood), rows, ["well"] * 70, epsilon=300.0, ledger=ledger(), rowwise=rowwise
    )
    assert round(found.to_json()["records"]) == 69
    assert round(found.to_json()["confusion"][1][1]) == 69


@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("kind", ["own", "chances", "labels", "numbers", "times"])
def test_records_that_nothing_can_be_said_of_refuse_nothing(saved, kind, delta):
    """Neither before the release is charged, nor when it is read."""
    rows, book = np.full((20, 3), np.nan), ledger()
    y, more = Y[:20], {}
    model = {"own": saved, "chances": LogisticRegression(), "labels": LinearSVC()}.get(kind)
    if kind in ("numbers", "times"):
        model, y, more = LinearRegression(), T[:20], {"bounds": (0.0, 100.0)}
    if kind == "times":
        more |= {"events": [1] * 20, "cuts": range(7)}
    if kind != "own":
        model.fit(X[:500], T[:500] if more else Y[:500])
    found = unisono.evaluate(model, rows, y, epsilon=50.0, delta=delta, ledger=book, **more)
    assert book.grants == (2 if kind in ("own", "chances") else 1)  # scores take two rounds
    assert abs(found.to_json()["records"]) < 5
    assert str(found)


def test_a_statement_about_a_model_stands_in_the_certificate(saved):
    model = LogisticRegression().fit(X[:500], Y[:500])
    plain, stated = (
        unisono.evaluate(model, X[:70], Y[:70], epsilon=300.0, ledger=ledger(), rowwise=rowwise)
        for rowwise in (False, True)
    )
    assert plain.to_json()["confusion"] == stated.to_json()["confusion"]
    assert "rowwise" not in plain.certificate.text()
    assert "predicting each row by itself (rowwise), stated by the data owner" in (
        stated.certificate.text()
    )
    said = stated.certificate.to_json()["declarations"]
    assert said["model_predicts_each_row_by_itself"] == "stated by the data owner"
    own = unisono.evaluate(saved, X[:70], Y[:70], epsilon=300.0, ledger=ledger(), rowwise=True)
    assert "rowwise" not in own.certificate.text()  # nothing rests on it


def test_a_model_of_ones_own_gets_one_record_at_a_time():
    seen = []

    class Counting(Moody):
        def predict_proba(self, rows):
            seen.append(len(rows))
            return super().predict_proba(rows)

    for rowwise, sizes in ((False, [1] * 70), (True, [64] * 2)):
        unisono.evaluate(
            Counting(""), X[:70], Y[:70], epsilon=1.0, ledger=ledger(), rowwise=rowwise
        )
        assert seen == sizes
        seen.clear()


class Spelled:
    """Predicts by how a cell is written, or by the number of its category."""

    classes_ = np.array(["ill", "well"])

    def predict(self, rows):
        column = rows["code"]
        codes = column.cat.codes == 0 if column.dtype.name == "category" else None
        return np.where(column.astype(str) == "1.0" if codes is None else codes, "ill", "well")


class Listing:
    classes_ = np.array(["true", "2.5"])

    def predict(self, rows):
        return [True if row[0] < 99 else 2.5 for row in rows]


@pytest.mark.parametrize("case", ["whole", "object", "category", "array", "list"])
def test_what_a_library_makes_of_a_column_moves_no_other_record(case):
    """The type of a column, and its categories, follow from all records. With the same noise two
    tables that differ in one record have counts that differ by two at most."""
    pandas = pytest.importorskip("pandas")
    codes, more = [1, 3] * 30, {}
    other = [*codes[:59], {"object": "?", "category": "0"}.get(case)]
    model, y = Spelled(), ["ill", "well"] * 30
    if case == "category":
        codes, other = ([str(one) for one in own] for own in (codes, other))
    tables = [pandas.DataFrame({"code": own}) for own in (codes, other)]
    if case == "category":
        tables = [one.astype("category") for one in tables]
    if case == "array":

        class Typed(Spelled):
            def predict(self, rows):
                return ["ill" if rows.dtype.kind == "i" else "well"]

        model, tables = Typed(), [np.array([[1]] * 60), np.array([[1]] * 59 + [[2.5]])]
    if case == "list":
        model, y, more = Listing(), ["true"] * 60, {"rowwise": True}
        tables = [np.ones((60, 1)), np.array([[1.0]] * 59 + [[100.0]])]
    one, two = (
        np.array(
            unisono.evaluate(model, table, y, epsilon=50.0, ledger=ledger(), **more).to_json()[
                "confusion"
            ]
        )
        for table in tables
    )
    assert np.abs(one - two).sum() < 2.5


def test_a_fitted_estimator_is_evaluated_as_it_predicts():
    model = own_model()
    pandas = pytest.importorskip("pandas")
    exact = model.score(X[:300], Y[:300])
    for rows in (X[:300], X[:300].tolist(), pandas.DataFrame(X[:300], columns=list("abc"))):
        found = unisono.evaluate(model, rows, Y[:300], epsilon=300.0, ledger=ledger())
        assert found["accuracy"].value == pytest.approx(exact, abs=1e-3)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"classes": ["ill"]}, "the model predicts 'well'"),
        ({"groups": np.zeros(4000)}, "public labels"),
        ({"groups": np.zeros(7), "labels": ["0"]}, "7 groups for 4000 records"),
        ({"bounds": (3, 1)}, "the first must be below the second"),
        ({"bounds": (0, 100), "largest_error": -1.0}, "above zero"),
        ({"bounds": (0, 1), "events": np.ones(7)}, "7 events for 4000 times"),
        ({"bounds": (0, 1), "events": np.ones(4000)}, "give cuts="),
        ({"bounds": (0, 1), "events": np.ones(4000), "cuts": [1, 0]}, "7 numbers are needed"),
        ({"events": np.ones(4000)}, r"give \(low, high\) of y"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_spent(options, words):
    model, book, y = LogisticRegression().fit(X[:500], Y[:500]), ledger(), Y
    if "events" in options:  # scores are numbers
        model, y = LinearRegression().fit(X[:500], T[:500]), T
    with pytest.raises(InvalidInput, match=words):
        judged(model, y, ledger=book, **options)
    assert not book.purposes()


@pytest.mark.parametrize(
    ("model", "rows", "words"),
    [
        (LogisticRegression(), X[:, :2], "2 columns, and the model was fitted to 3"),
        (LogisticRegression(), X[:7], "7 rows of X for 4000 values of y"),
        (LogisticRegression(), {"a": X[:, 0]}, "X is a dict"),
        (LogisticRegression(), "rows.csv", "X is a str"),
    ],
)
def test_rows_of_another_shape_are_refused_and_nothing_is_spent(model, rows, words):
    book = ledger()
    with pytest.raises(InvalidInput, match=words):
        unisono.evaluate(model.fit(X[:500], Y[:500]), rows, Y, epsilon=1.0, ledger=book)
    assert not book.purposes()


def test_a_model_that_is_not_fitted_is_refused_and_nothing_is_spent():
    book = ledger()
    for model in (LinearRegression(), PrivateRidge()):
        with pytest.raises(InvalidInput, match="is not fitted"):
            unisono.evaluate(model, X, T, bounds=(0, 1), epsilon=1.0, ledger=book)
    assert not book.purposes()


def test_a_regression_needs_bounds():
    with pytest.raises(InvalidInput, match="names no classes"):
        judged(LinearRegression().fit(X[:500], T[:500]), T)


class Risk:
    """A score that is higher where the event is expected sooner."""

    def predict(self, rows):
        return rows @ [1.0, 0.5, 0.0]


def test_a_survival_model_by_group():
    """Beside Harrell's C of all pairs, which 30 lines of another test count one by one."""
    score = Risk().predict(X)
    time = DRAW.exponential(size=4000) * np.exp(-score)
    censored = DRAW.exponential(1.5, 4000)
    events, seen = time <= censored, np.minimum(time, censored)
    sex = np.where(X[:, 2] > 0, "f", "m")
    cuts = list(1.1 * np.array([-1.15, -0.67, -0.32, 0.0, 0.32, 0.67, 1.15]))
    found = judged(
        Risk(), seen, bounds=(0.0, 1.0), events=events, cuts=cuts, groups=sex, labels=["f", "m"]
    )

    def harrell(own):
        t, e, s = np.minimum(seen[own], 1.0), events[own] & (seen[own] <= 1), score[own]
        first = e[:, None] & (t[:, None] < t[None])
        return (first * (s[:, None] > s[None])).sum() / first.sum()

    assert found["concordance"].value == pytest.approx(harrell(np.ones(4000, bool)), abs=0.01)
    assert found["concordance"].low < found["concordance"].value < found["concordance"].high
    for group in found.to_json()["groups"]:
        [metric] = group["metrics"]
        assert metric["value"] == pytest.approx(harrell(sex == group["group"]), abs=0.015)
    assert "concordance, m less f" in [one["name"] for one in found.to_json()["gaps"]]


def test_a_ledger_that_paid_for_training_labels_the_figures():
    book = ledger()
    bounds = ([-4.0] * 3, [4.0] * 3)
    model = PrivateLogisticRegression(
        epsilon=9.0, delta=1e-6, bounds=bounds, classes=["ill", "well"], ledger=book
    )
    model.fit(X[:500], Y[:500])
    found = judged(model, ledger=book)
    assert len(found.learnt_from) == 1
    assert "ON RECORDS THAT WERE LEARNT FROM" in str(found)
    assert found.to_json()["learnt_from"] == list(found.learnt_from)
    assert "ON RECORDS THAT WERE LEARNT FROM" in found._repr_html_()
    other = judged(model, ledger=ledger(2))
    assert other.learnt_from == ()
    assert "LEARNT FROM" not in str(other)
