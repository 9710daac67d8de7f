"""`study.toml`: what it says, its hash, and an error for every line that is wrong."""

import difflib
import json
import sys
import tomllib

import pytest

from unisono.algorithms.pvi_analytic import OneShotRegressionConfig
from unisono.errors import InvalidInput
from unisono.studies import source
from unisono.studies.build import build
from unisono.studies.file import json_schema, load_study, parse_study
from unisono.studies.schema import StudyFile


def test_a_file_says_what_it_says(tmp_path, text):
    path = tmp_path / "study.toml"
    path.write_text(text)
    file = load_study(path)
    assert file.names == ("north", "south", "west")
    assert file.privacy.epsilon == 1.0
    assert file.data.columns["age"].bounds == (0.0, 120.0)
    assert list(file.data.features) == ["radius", "age", "sex"]
    assert file.algorithm.rounds == 20
    assert file.party("south") == 1
    assert file == parse_study(text)
    with pytest.raises(InvalidInput, match="has no party 'east': it names north, south, west"):
        file.party("east")


def test_what_is_left_out_is_part_of_the_meaning(change):
    short = change(
        ("minimum_parties = 3\ncolluders = 1\nretries = 0\n", ""),
        ('unit = "record"\nrelation = "replace-one"\n', ""),
    )
    assert parse_study(short).hash == parse_study(change()).hash
    layout = change(("epsilon = 1\n", "epsilon = 1.0   # for all\n"))
    layout = layout.replace('radius = { kind = "number", bounds = [5, 30] }', "").replace(
        "age = {", 'radius.kind = "number"\nradius.bounds = [\n  5.0,\n  30.0,\n]\nage = {'
    )
    assert parse_study(layout).hash == parse_study(change()).hash


def test_what_an_algorithm_is_told_differs_from_what_is_left_to_a_rule(study):
    """A model may suggest another value than the default: files that mean different studies have
    different hashes, also where one of them states the default."""
    number = ('target = "diagnosis"', 'target = "radius"')
    model = "bayesian-linear-regression\nnoise_std = 2.0"
    default = OneShotRegressionConfig.model_fields["clipping_norm"].default
    silent = parse_study(study(model, "one-shot-regression", number))
    stated = f"one-shot-regression\nclipping_norm = {default}"
    stated = parse_study(study(model, stated, number))
    assert build(silent).study.hash != build(stated).study.hash
    assert silent.hash != stated.hash


CHANGES = [
    ("Three hospitals", "Other"),
    ('"diagnosis"\nsizes', '"sex"\nsizes'),
    ("radius =", "size ="),
    ("[5, 30]", "[5, 31]"),
    ("integer = true", "integer = false"),
    ('"f", "m"', '"m", "f"'),
    ('"benign", "malignant"', '"malign", "malignant"'),
    ('"north"', '"nord"'),
    ("records = 50", "records = 51"),
    ("epsilon = 1", "epsilon = 1.01"),
    ("delta = 1e-4", "delta = 1e-5"),
    ('"replace-one"', '"zero-out"'),
    ('"secure-sum"', '"local"'),
    ("minimum_parties = 3", "minimum_parties = 2"),
    ("colluders = 1", "colluders = 0"),
    ("retries = 0", "retries = 1"),
    ("rounds = 20", "rounds = 21"),
    ("rounds = 20", "rounds = 20\nclipping_norm = 0.3"),
    ('"logistic-regression"', '"linear-svm"'),
    ("[algorithm]", '[server]\naddress = "host:9092"\n[algorithm]'),
    ('name = "north"\nrecords = 40', 'name = "west"\nrecords = 40'),
]


@pytest.mark.parametrize("pair", CHANGES, ids=lambda pair: pair[1].splitlines()[0])
def test_every_word_is_in_the_hash(change, pair):
    pairs = [pair]
    if pair[1].startswith('name = "west"'):  # the order of the parties
        pairs = [('"north"', '"x"'), ('"west"', '"north"'), ('"x"', '"west"')]
    assert parse_study(change(*pairs)).hash != parse_study(change()).hash


def test_the_order_of_columns_is_in_the_hash(change):
    radius = 'radius = { kind = "number", bounds = [5, 30] }\n'
    moved = change((radius, ""), ("sex =", f"{radius}sex ="))
    assert parse_study(moved).hash != parse_study(change()).hash


# (what is written instead, line, words)
FAULTS = [
    (('title = "Three hospitals"', "title = 3"), 1, "title: 3 is not allowed: write text"),
    (('target = "diagnosis"', ""), 3, "data.target: is missing: say which column"),
    (
        ('target = "diagnosis"', 'target = "diagnose"'),
        4,
        "'diagnose' is no column: there are radius",
    ),
    (
        ('target = "diagnosis"', 'target = "age"'),
        4,
        "'age' is a number, and logistic-regression predicts classes",
    ),
    (('sizes = "exact"', 'sizes = "hidden"'), 5, 'data.sizes: "hidden" with relation'),
    (('sizes = "exact"', 'sizes = "about"'), 5, "\"about\" is unknown: choose one of 'exact'"),
    (("bounds = [5, 30]", "bounds = [30, 5]"), 8, "bounds 30 to 5 are no range"),
    (("bounds = [5, 30]", "bounds = [5, inf]"), 8, "Infinity is not allowed: write a finite"),
    (("bounds = [5, 30]", "bounds = [5]"), 8, "data.columns.radius.bounds"),
    (("bounds = [0, 120]", "bound = [0, 120]"), 9, "age.bound: is unknown: did you mean 'bounds'?"),
    (("integer = true", "integer = 1"), 9, "1 is not allowed: write true or false"),
    (
        ('kind = "category", values = ["f"', 'kind = "class", values = ["f"'),
        10,
        "sex.kind: 'class' is unknown: choose one of 'number', 'category'",
    ),
    (('"f", "m"', '"f", "f"'), 10, "name each value once"),
    (('"f", "m"', '"f"'), 10, "data.columns.sex.values"),
    (('"south"', '"north"'), 18, "parties[2].name: 'north' stands twice"),
    (('"south"', '"../south"'), 18, "does not fit the pattern"),
    (("records = 50", "records = 0"), 19, "parties[2].records: 0 is not allowed"),
    (("records = 50", "records = 5.5"), 19, "5.5 is not allowed: write a whole number"),
    (("records = 50", ""), 17, "parties[2].records: is missing"),
    (("epsilon = 1", "epsilon = -1"), 26, "privacy.epsilon: -1 is not allowed"),
    (("epsilon = 1", 'epsilon = "1"'), 26, 'privacy.epsilon: "1" is not allowed: write a number'),
    (("delta = 1e-4", "delta = 1"), 27, "privacy.delta: 1 is not allowed"),
    (('unit = "record"', 'unit = "party"'), 28, "gradient-perturbation hides a record"),
    (('relation = "replace-one"', 'relation = "swap"'), 29, "is unknown: choose one of"),
    (('mode = "secure-sum"', 'mode = "secret"'), 32, 'trust.mode: "secret" is unknown'),
    (("minimum_parties = 3", "minimum_parties = 4"), 33, "4 of 3 parties"),
    (("colluders = 1", "colluders = 3"), 34, "leaves no honest party"),
    (
        (
            'mode = "secure-sum"\nminimum_parties = 3\ncolluders = 1\nretries = 0',
            'mode = "trusted-server"\nretries = 1',
        ),
        33,
        "trust.retries: a trusted server",
    ),
    (('name = "gradient-perturbation"', 'name = "magic"'), 41, "'magic' is unknown: choose one of"),
    (('name = "gradient-perturbation"', ""), 40, "algorithm: name is missing"),
    (('name = "logistic-regression"', 'name = "magic"'), 38, "'magic' is unknown: choose one of"),
    (('name = "logistic-regression"', ""), 37, "model: name is missing"),
    (('[model]\nname = "logistic-regression"\n', ""), 1, "model: is missing"),
    (
        ('"logistic-regression"', '"logistic-regression"\ncolour = 3'),
        39,
        "model.colour: is unknown",
    ),
    (
        ('"logistic-regression"', '"network"\nhiden = [3]'),
        39,
        "model.hiden: is unknown: did you mean 'hidden'?",
    ),
    (('"logistic-regression"', '"k-means"'), 37, "model.clusters: is missing"),
    (('"logistic-regression"', '"statistics"'), 37, "model.questions: is missing"),
    (
        ('"logistic-regression"', '"logistic-regression"\nclusters = 3'),
        39,
        "model.clusters: belongs into another table",
    ),
    (("rounds = 20", "rounds = 20\nclusters = 3"), 43, "clusters: belongs into another table"),
    (("rounds = 20", 'rounds = 20\n\n[server]\naddress = "host"'), 45, "server.address"),
    (("rounds = 20", 'rounds = 20\n\n[server]\naddress = "host:99999"'), 45, "port 99999"),
    (("rounds = 20", "rounds = "), 42, "this is not TOML"),
    (("[privacy]", "[privacy"), 25, "this is not TOML"),
]


@pytest.mark.parametrize(("pair", "line", "words"), FAULTS)
def test_errors_point_at_the_line(change, pair, line, words):
    with pytest.raises(InvalidInput) as caught:
        parse_study(change(pair), "studies/three.toml")
    message = str(caught.value)
    assert f"studies/three.toml line {line}: " in message
    assert words in message
    for inside in ("pydantic", "Traceback", "type=", "For further information", "input_value"):
        assert inside not in message


def test_all_errors_come_together_in_order(change):
    wrong = change(
        ("epsilon = 1", "epsilon = 0"),
        ("records = 50", "record = 50"),
        ("bounds = [5, 30]", "bounds = [6, 5]"),
    )
    with pytest.raises(InvalidInput) as caught:
        parse_study(wrong)
    lines = [int(line.split()[2].rstrip(":")) for line in str(caught.value).splitlines()]
    assert lines == [8, 17, 19, 26]


@pytest.mark.parametrize(
    "value",
    [
        '"""\n# [ {\n"""',
        '"""a\\"""\n[\n"""',
        '"""\n""""',
        "'''\n[ \\\n'''",
        "'''\n''''",
        '"[{#"',
        "'[{#\"'",
        '"\\"["',
        "[\n'[', # ]\n['a'],\n]",
        "{ a = '}', b = [1] }",
        "1 # [",
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_brackets_and_quotes_inside_values_end_no_statement(value, end):
    text = f"first = 1\nvalue = {value}\nlast.but.one = 2\n\n[table]\nx = 1\n"
    tomllib.loads(text)
    after = 3 + value.count("\n")
    assert source._lines(text.replace("\n", end)) == {
        (): 1,
        ("first",): 1,
        ("value",): 2,
        ("last",): after,
        ("last", "but"): after,
        ("last", "but", "one"): after,
        ("table",): after + 2,
        ("table", "x"): after + 3,
    }


@pytest.mark.parametrize(
    "text",
    [
        "title = [\n" + "1,\n" * 4000 + "]\n",
        "".join(f"x{n} = [\n]\n" for n in range(2000)),
        "title = " + "[" * 10**4 + "]" * 10**4,
        "title = " + "{a=" * 10**4 + "1" + "}" * 10**4,
        ".".join(["a"] * 10**4) + " = 1",
        "[" + " . ".join(['"a b"'] * 10**4) + "]",
        "title = " + "9" * 10**4,
        "title = 0x" + "f" * 10**4,
        "a" * 10**5,
        '"' * 10**5,
        "title = '''" + "'\n" * 10**4,
        ".".join(["a"] * 31) + " = '" + "a." * 10**4,
        "".join(f"[t{n}]\n" for n in range(2000)),
        "[[parties]]\n" * 2000,
        "[data.columns]\n" + "".join(f"c{n} = {{}}\n" for n in range(2000)),
        "x = 1\n" * (10**5 + 1),
        "x = [" + "1," * (10**5 + 1) + "]",
        "x = '" + "1" * 2**20 + "'",
    ],
    ids=[
        "a-long-list",
        "many-keys",
        "deep-lists",
        "deep-tables",
        "a-long-key",
        "a-long-header",
        "many-digits",
        "many-hexadecimal-digits",
        "a-long-word",
        "quotes",
        "open-text",
        "dots",
        "many-tables",
        "many-entries",
        "many-columns",
        "too-many-lines",
        "too-many-values",
        "too-many-letters",
    ],
)
def test_no_text_takes_long_to_refuse(text, monkeypatch):
    """Every statement is read once and few faults are explained, in a message that can be read."""
    read, loads = [], tomllib.loads
    monkeypatch.setattr(source.tomllib, "loads", lambda said: read.append(len(said)) or loads(said))
    compared, close = [], difflib.get_close_matches
    monkeypatch.setattr(
        source.difflib,
        "get_close_matches",
        lambda *said, **k: compared.append(1) or close(*said, **k),
    )
    with pytest.raises(InvalidInput) as caught:
        parse_study(text)
    assert sum(read) <= 2 * len(text) + 10
    assert len(compared) <= 100  # two for each fault that is shown
    assert len(str(caught.value)) < 20_000


@pytest.mark.parametrize("text", ["x = 1\n" * (10**5 + 1), "x = '" + "1" * 2**20 + "'"])
def test_a_text_that_is_too_large_is_refused_before_it_is_read(text, monkeypatch):
    monkeypatch.delattr(source.tomllib, "loads")
    with pytest.raises(InvalidInput, match=r"study\.toml (has|is larger than) .*: "):
        parse_study(text)


def calls(text):
    """How many functions are called to read a text: its work, whatever the machine."""
    made = []

    def count(frame, event, argument):
        if event in ("call", "c_call"):
            made.append(1)

    sys.setprofile(count)
    try:
        parse_study(text)
    except InvalidInput:
        pass
    finally:
        sys.setprofile(None)
    return len(made)


@pytest.mark.parametrize(
    "line",
    [
        "[t{n}]\n",
        "t{n}.a.b.c = 1\n",
        "[[parties]]\nname = 'p{n}'\nrecords = 30\n",
        "[[parties]]\nname = 'p'\nrecords = 30\n",
        "[data.columns.x{n}]\nkind = 'number'\nbounds = [0, 1]\n",
    ],
    ids=["tables", "dotted-keys", "parties", "equal-parties", "columns"],
)
def test_the_work_grows_with_the_length_of_the_text(line, change):
    """Twice as many lines take twice as many calls, and no list is searched for each of them."""
    calls(change())  # whatever is made once
    small, large = (
        calls(change() + "\n" + "".join(line.format(n=n) for n in range(size)))
        for size in (400, 800)
    )
    assert large < 2.2 * small


def test_many_faults_are_counted_and_the_first_are_shown():
    with pytest.raises(InvalidInput) as caught:
        parse_study("".join(f"x{n} = 1\n" for n in range(200)))
    lines = str(caught.value).splitlines()
    assert len(lines) == 51
    assert lines[-1].startswith("and ")


def test_lines_are_found_in_every_way_of_writing(change):
    dotted = change(("[data]\n", "server.deadline = 9\nserver.address = 'host'\n\n[data]\n"))
    with pytest.raises(InvalidInput, match=r"line 4: server\.address"):
        parse_study(dotted)
    sex = 'sex = { kind = "category", values = ["f", "m"] }'
    lines = '"sex" = { kind = "category", values = [\n  "f", # [not] = a "key"\n  3,\n] }'
    quoted = change((sex, lines))
    with pytest.raises(InvalidInput, match=r"line 10: data\.columns\.sex\.values"):
        parse_study(quoted)
    below = change(("retries = 0", "retries = 0\n\n\n[trust.extra]\nx = 1"))
    with pytest.raises(InvalidInput, match=r"line 38: trust\.extra: is unknown"):
        parse_study(below)


QUESTION = "[[model.questions]]\nask = {ask!r}\ncolumn = {column!r}\n{more}\n"


@pytest.mark.parametrize(
    ("ask", "column", "more", "words"),
    [
        ("mean", "sex", "", "'sex' is a category, and a number is needed here"),
        ("mean", "weight", "", "'weight' is no column"),
        ("mean", "age", "by = 'radius'", "'radius' is a number, and a category is needed"),
        ("median", "age", "", "'median' is unknown: choose one of"),
        ("count", "sex", "value = 'x'", "'x' is none of f, m"),
        ("count", "sex", "", "value: is missing"),
        ("histogram", "age", "", "is needed here; give bins"),
        ("quantiles", "age", "levels = [1.5]", "levels[1]: 1.5 is not allowed"),
        ("quantiles", "age", "levels = []", "questions[2].levels"),
        ("difference of means", "age", "", "by: is missing"),
        ("difference of means", "sex", "by = 'sex'", "'sex' is a category, and a number is needed"),
        ("difference of medians", "age", "by = 'sex'\nbetween = ['f', 'x']", "'x' is no group of"),
        ("difference of medians", "age", "by = 'sex'\nbetween = ['f', 'f']", "with itself"),
        ("difference of proportions", "sex", "value = 'x'\nby = 'diagnosis'", "none of f, m"),
    ],
)
def test_questions_are_checked(study, ask, column, more, words):
    good = QUESTION.format(ask="mean", column="radius", more="")
    bad = QUESTION.format(ask=ask, column=column, more=more)
    with pytest.raises(InvalidInput) as caught:
        parse_study(study(f"statistics\n{good}{bad}", "", ('target = "diagnosis"\n', "")))
    assert "model.questions[2]" in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ("['sex', 'age']", "'age' is a number, and a category is needed here"),
        ("['sex', 'weight']", "'weight' is no column"),
        ("['sex', 'sex']", "name two different columns"),
        ("['sex']", "questions[1].columns"),
    ],
)
@pytest.mark.parametrize("ask", ["table", "chi-square", "fisher"])
def test_tables_of_two_categories_are_checked(study, ask, columns, words):
    text = f"statistics\n[[model.questions]]\nask = {ask!r}\ncolumns = {columns}\n"
    with pytest.raises(InvalidInput) as caught:
        parse_study(study(text, "", ('target = "diagnosis"\n', "")))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("values", "question", "words"),
    [
        (
            ["f", "m", "x"],
            "ask = 'difference of means'\ncolumn = 'age'\nby = 'sex'",
            "questions[1].by: 'sex' has 3 groups, f, m, x: say with `between`",
        ),
        (
            ["f", "m", "x"],
            "ask = 'fisher'\ncolumns = ['sex', 'diagnosis']",
            "questions[1].columns: fisher test of sex and diagnosis: Fisher's test is of two",
        ),
    ],
)
def test_tests_of_too_many_groups_are_refused(study, values, question, words):
    text = f"statistics\n[[model.questions]]\n{question}\n"
    pairs = (('target = "diagnosis"\n', ""), ('values = ["f", "m"]', f"values = {values}"))
    with pytest.raises(InvalidInput) as caught:
        parse_study(study(text, "", *pairs))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ("by = 'radius'", "model.by: 'radius' is a number, and a category is needed here"),
        ("by = 'arm'", "model.by: 'arm' is no column"),
        ("columns = ['weight']", "model.columns: 'weight' is no column"),
        ("columns = ['age', 'age']", "a column is named twice"),
        ("by = 'sex'\ncolumns = ['sex']", "no column is left besides the groups"),
        ("mean_only = ['sex']", "'sex' is a category, and a number is needed here"),
        ("mean_only = ['age']\nmedian_only = ['age']", "'age' is in mean_only too"),
        ("weights = { weight = 2.0 }", "is no row of the table"),
        ("weights = { age = 0.0 }", "model.weights.age"),
    ],
)
def test_a_table_one_is_checked(study, settings, words):
    with pytest.raises(InvalidInput) as caught:
        parse_study(study(f"table-one\n{settings}\n", "", ('target = "diagnosis"\n', "")))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ("", "model.event"),
        ("event = 'death'", "model.event: 'death' is no column"),
        ("event = 'radius'", "'radius' is a number, and a category is needed here"),
        ("event = 'sex'\nby = 'sex'", "'sex' is the event: groups are of another column"),
        ("event = 'sex'\nevent_value = 'x'", "'x' is no value of sex: it has f, m"),
        ("event = 'sex'\nhorizon = 200", "200 lies beyond the bounds of 'age', 120"),
        ("event = 'sex'\nbins = 61", "model.bins"),
        ("event = 'sex'\nvisits = [30.0, 20.0]", "model.visits: must rise"),
    ],
)
def test_a_survival_study_is_checked(study, settings, words):
    time = ('target = "diagnosis"', 'target = "age"')
    with pytest.raises(InvalidInput) as caught:
        parse_study(study(f"kaplan-meier\n{settings}\n", "", time))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("kaplan-meier", "kaplan-meier predicts nothing that could be right"),
        ("hazards", "hazards is judged by its concordance, over all records"),
    ],
)
def test_what_describes_times_cannot_be_tested_on_records(study, model, words):
    time = ('target = "diagnosis"', 'target = "age"')
    text = study(f"{model}\nevent = 'sex'", "", time) + "\n[evaluation]\nfile = 'test.csv'\n"
    with pytest.raises(InvalidInput, match=words):
        parse_study(text)


def test_times_are_not_negative(study):
    time = ('target = "diagnosis"', 'target = "age"')
    with pytest.raises(InvalidInput, match="times cannot be negative: the bounds of 'age' begin"):
        parse_study(
            study(
                "kaplan-meier\nevent = 'sex'", "", time, ("bounds = [0, 120]", "bounds = [-1, 120]")
            )
        )


def test_a_target_where_none_is_wanted(study):
    with pytest.raises(InvalidInput, match="k-means has no target") as caught:
        parse_study(study("k-means\nclusters = 2"))
    assert "data.columns.sex: is a category: k-means measures distances" in str(caught.value)


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(InvalidInput, match="cannot be read: No such file"):
        load_study(tmp_path / "none.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidInput, match="is not UTF-8 text"):
        load_study(tmp_path / "binary.toml")
    (tmp_path / "huge.toml").write_bytes(b"#" * (2**20 + 1))
    with pytest.raises(InvalidInput, match="larger than 1 MB"):
        load_study(tmp_path / "huge.toml")


def test_a_file_cannot_be_changed(text):
    with pytest.raises(Exception, match="frozen"):
        parse_study(text).title = "other"  # type: ignore[misc]


def test_the_schema_names_every_table():
    schema = json.loads(json.dumps(json_schema()))
    assert set(schema["properties"]) == {
        "title",
        "edition",
        "data",
        "parties",
        "privacy",
        "trust",
        "model",
        "algorithm",
        "evaluation",
        "server",
        "search",
    }
    assert schema["additionalProperties"] is False
    names = {StudyFile.model_fields[name].alias or name for name in StudyFile.model_fields}
    assert names == set(schema["properties"])


def test_a_plugin_that_the_rule_takes_is_in_the_hash(study, monkeypatch):
    """A study that leaves the algorithm open is run by one of some version, too."""
    text, versions = study("logistic-regression"), {"gradient-perturbation": ("theirs", "1.0")}

    def plugins_of(*names):
        yield from sorted({versions[name] for name in names if name in versions})

    monkeypatch.setattr("unisono.studies.schema.plugins_of", plugins_of)
    first = parse_study(text)
    assert first.meaning["plugins"] == {"theirs": "1.0"}
    versions["gradient-perturbation"] = ("theirs", "2.0")
    assert parse_study(text).hash != first.hash
