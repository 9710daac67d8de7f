"""What a report says, of runs in every state; the same in its three forms."""

import html as entities
import json
import math
import re
from itertools import pairwise

import pytest

from unisono.reports import charts
from unisono.reports.document import FORMAT, document, report
from unisono.reports.html import html, write_report
from unisono.reports.markdown import markdown
from unisono.reports.spending import histories
from unisono.runs.folder import (
    REPORT_HTML,
    REPORT_JSON,
    REPORT_MARKDOWN,
    TABLE_CSV,
    read_run,
)

from .conftest import RESULT, STUDY, certificate

BROKEN = "cannot be shown"


def words(run):
    """The page's text, and that nothing in it was given up."""
    page = html(run)
    assert BROKEN not in page
    body = page.partition("</head>")[2]
    return " ".join(entities.unescape(re.sub(r"<[^>]+>", " ", body)).split())


def blocks(run, anchor):
    [section] = [one for one in document(run)["sections"] if one["anchor"] == anchor]
    return section["blocks"]


def of_kind(run, anchor, kind):
    return [block for block in blocks(run, anchor) if block["kind"] == kind]


# ------------------------------------------------------------- a real run


def test_a_real_run_is_reported_in_three_forms(real_run):
    path = write_report(real_run)
    assert path == real_run / REPORT_HTML
    text = (real_run / REPORT_JSON).read_text()
    read = json.loads(text, parse_constant=lambda name: pytest.fail(name))
    assert read["format"] == FORMAT
    titles = [section["title"] for section in read["sections"]]
    assert titles == [
        "Summary",
        "Result",
        "How good is it?",
        "What is guaranteed",
        "What each adversary sees",
        "Budgets",
        "Epsilon over the rounds",
        "How the run went",
        "How to reproduce it",
        "What this report does not say",
    ]
    for text in ((real_run / REPORT_HTML).read_text(), (real_run / REPORT_MARKDOWN).read_text()):
        assert BROKEN not in text
        assert all(title in text for title in titles)
    assert not list(real_run.glob("*.part"))


def test_the_copy_of_the_file_builds_the_study_that_ran(real_run):
    assert "study.toml builds this very study" in words(read_run(real_run))


def test_another_file_beside_the_result_is_noticed(folder):
    assert "builds ANOTHER study" in words(read_run(folder()))


def test_epsilon_over_rounds_ends_at_what_was_certified(real_run):
    """The curve is computed from the file alone, the certificate from the ledgers."""
    run = read_run(real_run)
    [curves] = of_kind(run, "rounds", "curves")
    points = curves["series"]["everyone"]
    certified = next(g for g in run.certificate["guarantees"] if g["relation"] == "replace-one")
    assert points[0] == [0.0, 0.0]
    assert points[-1] == [8.0, pytest.approx(certified["epsilon"], rel=1e-9)]
    assert points[-1][1] == pytest.approx(1.0, rel=0.01)
    assert all(a[1] < b[1] for a, b in pairwise(points))


def test_gauges_hold_what_the_ledgers_spent(real_run):
    [gauges] = of_kind(read_run(real_run), "budgets", "gauges")
    assert sorted(one["label"] for one in gauges["items"]) == ["north", "south", "west"]
    assert all(one["value"] == pytest.approx(1.0, rel=0.01) for one in gauges["items"])
    assert all(one["limit"] == 2.0 for one in gauges["items"])


RAISED = {
    "parties": 1,
    "example": "north",
    "unit": "record",
    "epsilon": {"server": 1.5},
    "budget": {"server": 8.0},
    "issued": [6.0, 1e-6],
    "raises": [
        {
            "from": [6.0, 1e-6],
            "to": [8.0, 1e-6],
            "time": "2026-03-01T10:00:00+00:00",
            "reason": "the <board> agreed",
            "signer": "north",
            "key": "ab" * 32,
        }
    ],
    "year": 2026,
    "this_year": {"server": 0.75, "network": 0.5},
    "per_year": {"server": 2.0, "network": "inf"},
}


def test_raises_and_the_allowance_of_the_year_are_told(folder):
    run = read_run(folder(certificate=certificate(spending=[RAISED])))
    raised, years = of_kind(run, "budgets", "grid")
    assert raised["rows"] == [
        [
            "north",
            "2026-03-01",
            "epsilon 6 at delta 1e-06",
            "epsilon 8 at delta 1e-06",
            f"north (key {'ab' * 8}…)",
            "the <board> agreed",
        ]
    ]
    assert years["rows"] == [["north", "2026", "2", "1.25", "0.75", "the server"]]
    assert "the &lt;board&gt; agreed" in html(run)
    assert not of_kind(read_run(folder()), "budgets", "grid")


@pytest.mark.parametrize("odd", [None, 3, [], [4], [[]], {"a": 1}, "x", [{"from": 1}]])
@pytest.mark.parametrize("name", ["raises", "per_year", "this_year", "year", "parties"])
def test_damaged_lines_about_budgets_say_nothing(odd, name):
    for _, header, rows in histories({"spending": [RAISED | {name: odd}]}):
        assert all(len(row) == len(header) for row in rows)
    assert histories({"spending": odd}) == []


@pytest.mark.parametrize("odd", [None, 3, ["x"], {"diagnosis": 4}, {"diagnosis": []}, {}])
def test_values_that_were_paid_for_stand_in_the_summary(folder, odd):
    study = re.sub(r"(diagnosis = .*values = )\[.*?\]", r'\1"private"', STUDY)
    assert study != STUDY
    found = {"private_values": {"diagnosis": ["benign", "malignant"]}}
    text = words(read_run(folder(study=study, result=RESULT | found)))
    assert "predicts diagnosis (benign or malignant) from" in text
    assert "Values that were paid for" in text
    assert "to be found" not in text
    report(read_run(folder(study=study, result=RESULT | {"private_values": odd})))


# ------------------------------------------------------------- what is said


def test_the_summary_says_what_is_promised_and_what_not(folder):
    text = words(read_run(folder()))
    assert "3 parties (north, south and west) with 130 records learned a linear model that" in text
    assert "predicts diagnosis (benign or malignant) from " in text
    # (e + 1e-4) / (1 + e) = 0.73108..., rounded up
    assert "is at most 73.2 % for inferring which of two values one record has" in text
    assert (
        "What is NOT promised: protection against the server together with more than 1 party"
        in (text)
    )
    assert "All records lay on one machine" in text


@pytest.mark.parametrize(
    ("engine", "kept"), [("server", "No record left its party"), ("in process", "one machine")]
)
def test_records_stay_at_home_between_machines_only(folder, engine, kept):
    run = read_run(folder(run=folder.heading(engine=engine)))
    assert kept in blocks(run, "summary")[0]["words"]


def test_a_trusted_server_sees_everything_and_the_report_says_so(folder):
    lines = [
        {
            "viewer": v,
            "relation": "replace-one",
            "delta": 1e-4,
            "epsilon": "inf" if v in ("server", "colluders:1") else 1.0,
        }
        for v in ("final-model", "server", "party", "colluders:1")
    ]
    study = folder.study.replace("secure-sum", "trusted-server")
    given = folder.certificate(trust="trusted-server", guarantees=lines)
    run = read_run(folder(certificate=given, study=study))
    text = words(run)
    assert "What is NOT promised: protection against the server;" in text
    assert "Against the server; the server and 1 party working together: no protection" in text
    [grid] = of_kind(run, "guarantees", "grid")
    rows = {row[0]: row for row in grid["rows"]}
    assert rows["the server"][1:3] == ["100 %", "no protection"]
    assert rows["another party"][1:3] == ["73.2 %", "1"]
    assert of_kind(run, "viewers", "flow")[0]["trust"] == "trusted-server"


def test_every_viewer_and_relation_of_the_certificate_is_in_the_table(folder):
    [grid] = of_kind(read_run(folder()), "guarantees", "grid")
    assert len(grid["rows"]) == 6
    assert grid["header"][2:4] == ["ε, exchanged for any other", "ε, values blanked out"]
    assert all(row[2:] == ["1", "0.4581", "1 in 10,000"] for row in grid["rows"])


def test_a_simulation_is_loud_and_promises_nothing(folder):
    run = read_run(folder(certificate=folder.certificate(entropy="simulation")))
    assert report(run).notice.startswith("SIMULATION")
    text = words(run)
    assert "What is NOT promised: anything" in text
    assert "What is promised" not in text
    assert not of_kind(run, "summary", "guesses")


def test_what_each_viewer_saw_comes_from_the_transcript(folder):
    [grid] = of_kind(read_run(folder()), "viewers", "grid")
    rows = {row[0]: row[2] for row in grid["rows"]}
    assert rows["anyone who sees the final result"] == "the result of 3 numbers"
    assert rows["the server"] == "opened sums of 3 numbers, 8 rounds"
    assert rows["the server and 1 party working together"] == "opened sums of 3 numbers, 8 rounds"


def test_who_missed_an_answer_is_named(folder):
    [grid] = of_kind(read_run(folder()), "course", "grid")
    assert grid["rows"] == [["west", "1", "8"]]


@pytest.mark.parametrize(
    ("value", "low", "high", "verdict"),
    [
        (0.93, 0.90, 0.95, "better than 0.63"),
        (0.65, 0.60, 0.70, "not clearly better than 0.63"),
        (0.50, 0.45, 0.55, "worse than 0.63"),
    ],
)
def test_a_score_is_compared_with_doing_without(folder, value, low, high, verdict):
    measured = {
        "measure": "share of right predictions",
        "value": value,
        "low": low,
        "high": high,
        "records": 113,
        "how": "test.csv",
        "baseline": 0.63,
    }
    assert f"That is {verdict}," in words(read_run(folder(evaluation=measured)))


def test_a_small_error_is_better_than_a_large_one(folder):
    measured = {
        "measure": "mean absolute error",
        "value": 2,
        "low": 1.5,
        "high": 2.5,
        "baseline": 4,
    }
    assert "That is better than 4," in words(read_run(folder(evaluation=measured)))


def test_a_private_test_is_told_with_its_price_and_the_public_one_beside_it(folder):
    public = {
        "measure": "share of right predictions",
        "value": 0.9,
        "low": 0.8,
        "high": 0.95,
        "how": "public file test.csv",
        "records": 60,
        "baseline": 0.6,
    }
    private = {
        **public,
        "value": 0.85,
        "how": "held-out records, paid with epsilon 0.5",
        "baseline": None,
        "also": [public],
    }
    study = folder.study + "\n[evaluation]\nholdout = 0.2\nepsilon = 0.5\n"
    run = read_run(folder(evaluation=private, study=study))
    assert [block["items"][0][1] for block in of_kind(run, "quality", "intervals")] == [0.85, 0.9]
    assert "for epsilon 0.5 under the same relation" in words(run)


def test_nobody_measured_it(folder):
    assert "Nobody measured how well" in words(read_run(folder(evaluation=None)))


# ------------------------------------------------------------- results of every kind


def test_weights_are_scores_in_the_order_of_the_columns_and_never_ranked(folder):
    weights = {"age": -0.01, "radius": 0.5}
    run = read_run(folder(result={**folder.result, "weights": weights}))
    [grid] = of_kind(run, "result", "grid")
    assert grid["rows"] == [["age", "−0.01"], ["radius", "0.5"]]
    assert grid["header"] == ["column", "weight per unit"]
    assert "scores for prediction, not effects" in words(run)
    assert "cannot be ranked" in words(run)
    told = {**folder.result, "weights": weights, "note": "Scores, not effects or log-odds."}
    assert words(read_run(folder(result=told))).count("not effects") == 1


def test_of_500_weights_the_first_30_are_shown(folder):
    weights = {f"gene{number}": (-1) ** number * number for number in range(500)}
    run = read_run(folder(result={**folder.result, "weights": weights}, study=None))
    [grid] = of_kind(run, "result", "grid")
    assert [row[0] for row in grid["rows"]] == [f"gene{n}" for n in range(30)]
    assert "Shown are 30 of 500 weights" in words(run)


def test_statistics_have_intervals_for_records_and_population(folder):
    answers = [
        {
            "name": "mean of age",
            "value": 43.5,
            "interval": [41, 46],
            "confidence": 0.95,
            "note": "noise",
            "population_interval": [38, 49],
        },
        {
            "name": "histogram of sex",
            "value": [10.0, 20.0],
            "interval": [[5, 15], [15, 25]],
            "confidence": 0.95,
            "note": "noise",
            "labels": ["f", "m"],
        },
    ]
    run = read_run(folder(result={"algorithm": "statistics", "answers": answers}))
    one, two = of_kind(run, "result", "intervals")
    assert one["items"] == [
        ["these records", 43.5, 41.0, 46.0],
        ["the population", 43.5, 38.0, 49.0],
    ]
    assert two["items"] == [["f", 10.0, 5.0, 15.0], ["m", 20.0, 15.0, 25.0]]
    [grid] = of_kind(run, "result", "grid")
    assert grid["rows"][0] == ["mean of age", "43.5", "41 to 46", "38 to 49"]
    assert grid["rows"][2] == ["histogram of sex: m", "20", "15 to 25", "–"]


def figure(value, low, high, determined=True):
    return {"value": value, "low": low, "high": high, "determined": determined}


TABLE = {
    "by": "arm",
    "columns": ["Overall", "a<b>", "drug"],
    "records": [figure(100.0, 95.0, 105.0)] * 3,
    "rows": [
        {
            "variable": "age",
            "kind": "number",
            "mean": [figure(50.0, 49.0, 51.0)] * 3,
            "deviation": [figure(0.0, 0.0, 3.37, False)] * 3,
            "difference": figure(0.1, 0.0, 0.3),
        }
    ],
    "confidence": 0.95,
}


def test_a_table_one_is_shown_as_journals_print_it(folder):
    where = folder(result={"algorithm": "statistics", "table": TABLE})
    run = read_run(where)
    [table] = of_kind(run, "result", "journal-table")
    assert table["header"] == ["", "Overall", "a<b>", "drug", "SMD"]
    label, inner, cells = table["rows"][1]
    assert (label, inner) == ("age, mean (SD)", False)
    assert cells[0] == ["50 (not determined)", "49 to 51 (0 to 4)"]
    assert cells[3] == ["0.10", "0.00 to 0.30"]
    write_report(where)
    page = (where / REPORT_HTML).read_text()
    assert "<span>49 to 51</span> <span>(0 to 4)</span>" in page
    assert "a&lt;b&gt;" in page
    assert "a<b>" not in page
    assert "50 (not determined)<br>49 to 51 (0 to 4)" in (where / REPORT_MARKDOWN).read_text()
    assert (where / TABLE_CSV).read_text().startswith(',Overall,"Overall, 95% interval",a<b>')


CURVE = {
    "times": [0.0, 5.0, 10.0],
    "survival": [1.0, 0.6, None],
    "interval": [[1.0, 0.5, 0.0], [1.0, 0.7, 0.7]],
    "band": [[1.0, 0.4, 0.0], [1.0, 0.8, 0.8]],
    "determined": [True, True, False],
    "at_risk": [90.0, 30.0, -2.0],
    "events": [0.0, 36.0, 1.0],
    "median": {"value": None, "interval": [5.5, None]},
    "restricted_mean": {"value": None, "interval": [None, None]},
}


def test_survival_curves_are_drawn_with_their_bands(folder):
    found = {
        "time": "months",
        "event": "status",
        "by": "arm",
        "horizon": 10.0,
        "confidence": 0.95,
        "groups": {"a<b>": CURVE, "drug": CURVE},
        "restricted_mean_differences": {"drug - a<b>": CURVE["restricted_mean"]},
        "log_rank": {"statistic": 4.2, "degrees": 1, "p_value": 0.0404},
    }
    where = folder(result={"algorithm": "log-rank", "kaplan_meier": found, "note": "noted"})
    run = read_run(where)
    [drawing] = of_kind(run, "result", "banded-curves")
    stepped = [[0.0, 5.0, 5.0], [1.0, 1.0, 0.6], [0.4, 0.4, 0.4], [1.0, 1.0, 0.8]]
    assert drawing["curves"]["drug"] == [*stepped, [[0.0, 90.0], [5.0, 30.0]]]
    page = html(run)
    assert page.count("<polygon") == 2
    assert "a&lt;b&gt;" in page
    text = words(run)
    assert "not determined (above 5.5)" in text
    assert "chi-square 4.20, 1 df, p = .040" in text
    write_report(where)
    assert (
        "| 5 | 30 | 0.600 | 0.500 to 0.700 | 0.400 to 0.800 |"
        in (where / REPORT_MARKDOWN).read_text()
    )


def test_a_deviation_that_noise_swamps_is_not_shown_as_zero(folder):
    answer = {
        "name": "standard deviation of age",
        "value": [0.0, 12.0],
        "interval": [[0.0, 11.0], [3.37, 13.0]],
        "confidence": 0.95,
        "note": "",
        "labels": ["f", "m"],
        "determined": [False, True],
    }
    [grid] = of_kind(read_run(folder(result={"answers": [answer]})), "result", "grid")
    assert [row[1] for row in grid["rows"]] == ["not determined", "12"]


def test_tests_have_a_table_of_their_own(folder):
    test = {"hypothesis": "the means are equal", "kind": "Welch's t", "privacy_share": 0.35}
    answer = {"name": "gap", "value": 1.0, "interval": [0.5, 1.5], "confidence": 0.95, "note": ""}
    known = {"statistic": 2.31, "degrees": 431.2, "p_value": 0.0213, "adjusted_p": 0.0426}
    said = [{**answer, "test": {**test, **known}}, {**answer, "determined": [False], "test": test}]
    _, grid = of_kind(read_run(folder(result={"answers": said})), "result", "grid")
    first, second = grid["rows"]
    assert first[0] == "gap: that the means are equal"
    assert first[1:4] == ["Welch's t = 2.31, df 431", ".021", ".043"]
    assert second[1:4] == ["not determined", "–", "–"]


def test_intervals_have_their_lower_and_upper_ends_apart(folder):
    """An interval is [lows, highs], not a list of pairs."""
    answer = {
        "name": "two",
        "value": [1.0, 2.0],
        "interval": [[0.0, 1.0], [3.0, 4.0]],
        "confidence": 0.9,
        "note": "",
    }
    run = read_run(folder(result={"answers": [answer]}))
    [drawn] = of_kind(run, "result", "intervals")
    assert drawn["items"] == [["1", 1.0, 0.0, 3.0], ["2", 2.0, 1.0, 4.0]]


HILLS = {
    "target": "diagnosis",
    "mean": {"radius": 0.1, "age": 0.0, "intercept": -2.0},
    "std": {"radius": 0.02, "age": 0.1, "intercept": 1.0},
    "noise_aware": True,
    "learnt": {"radius": True, "age": True, "intercept": True},
    "converged": True,
    "note": "",
    "positive": "malignant",
    "negative": "benign",
}


def test_a_posterior_is_hills_and_intervals(folder):
    run = read_run(folder(result=HILLS))
    [bells] = of_kind(run, "result", "bells")
    # Nobody released how far columns vary: a round step each, in their order, and no ranking.
    assert [item[0] for item in bells["items"]] == ["radius, per 2", "age, per 10"]
    assert bells["items"][0][1:] == pytest.approx([0.2, 0.04])
    assert "cannot be ranked" in bells["caption"]
    rows = {row[0]: row for row in of_kind(run, "result", "grid")[0]["rows"]}
    assert rows["age"][4] == "50.0 %"
    assert rows["radius"][3] == "0.0608 to 0.139"
    for doubt in ("Nothing was learnt", "no intervals", "Not converged"):
        assert doubt not in words(run)


def test_effects_are_ranked_by_two_deviations_and_not_by_public_ranges(folder):
    """The range of age is five times that of radius, and its effect over it the larger one."""
    shown = {**HILLS, "mean": {**HILLS["mean"], "age": 0.03}, "deviations": {"age": 4, "radius": 3}}
    [bells] = of_kind(read_run(folder(result=shown)), "result", "bells")
    assert [item[0] for item in bells["items"]] == ["radius, by 6", "age, by 8"]
    assert bells["items"][0][1:] == pytest.approx([6 * 0.1, 6 * 0.02])
    features = {**ODDS["features"], "age": {"bounds": [0, 120], "deviation": 15.0}}
    run = read_run(folder(result={**ODDS, "features": features}))
    [ranked] = of_kind(run, "result", "intervals")
    found = ODDS["coefficients"]
    assert [item[0] for item in ranked["items"]] == ["age, by 30", "ward=b vs a"]
    ends = [found["age"]["estimate"], *found["age"]["interval"]]
    assert ranked["items"][0][1:] == pytest.approx([30 * end for end in ends])
    assert of_kind(read_run(folder(result=ODDS)), "result", "intervals") == []


@pytest.mark.parametrize("result", ["HILLS", "ODDS", "weights", "classes"])
def test_nothing_is_said_twice(folder, result):
    model = {"intercept": 1.0, "weights": {"age": 0.5, "radius": 1.0}}
    own = {
        "HILLS": HILLS,
        "ODDS": ODDS,
        "weights": folder.result,
        "classes": {"algorithm": "x", "classes": {"a": model, "b": model, "c": model}},
    }[result]
    parts = document(read_run(folder(result=own)))["sections"]
    said = [
        sentence
        for part in parts
        for block in part["blocks"]
        for text in (block.get("words"), block.get("caption"))
        for sentence in ([text] if isinstance(text, str) else text or [])
        if len(sentence) > 25
    ]
    repeated = {one for one in said if said.count(one) > 1}
    assert {one for one in repeated if not one.startswith("Weights for")} == set()


def test_numbers_of_one_guess_agree(folder):
    run = read_run(folder())
    [dots] = of_kind(run, "summary", "guesses")
    text = words(run)
    shown = re.search(r"is at most ([\d.]+) % for inferring", text)[1]
    assert dots["title"] == f"Of 100 attacks, at most {shown} succeed on average"
    drawn = charts.guesses(dots["right"], title="t")
    assert f"{round(float(shown) - 50, 1):g} more succeed, at most" in drawn
    assert f"{round(100 - float(shown), 1):g} fail, at least" in drawn


def test_a_coefficient_that_is_only_its_prior_is_no_estimate(folder):
    run = read_run(folder(result={**HILLS, "learnt": {**HILLS["learnt"], "age": False}}))
    [bells] = of_kind(run, "result", "bells")
    assert [item[0] for item in bells["items"]] == ["radius, per 2"]
    rows = {row[0]: row for row in of_kind(run, "result", "grid")[0]["rows"]}
    assert rows["age"][1:] == ["nothing was learnt (this is the prior)", "–", "–", "–"]
    assert "Nothing was learnt of age" in words(run)
    nothing = read_run(folder(result={**HILLS, "learnt": dict.fromkeys(HILLS["mean"], False)}))
    assert of_kind(nothing, "result", "bells") == []


def test_a_posterior_that_does_not_know_of_the_noise_has_no_intervals(folder):
    blind = {key: value for key, value in HILLS.items() if key not in ("std", "learnt")}
    run = read_run(folder(result={**blind, "noise_aware": False}))
    assert of_kind(run, "result", "bells") == []
    assert of_kind(run, "result", "grid")[0]["header"] == ["column", "mean"]
    assert "There are no intervals" in words(run)


def test_rounds_that_disagree_are_a_warning(folder):
    assert "Not converged: intervals are not to be trusted" in words(
        read_run(folder(result={**HILLS, "converged": False}))
    )


def determined(estimate, reach, ratio=True):
    """A coefficient as `models.inference` writes it; a quarter of its interval is privacy."""
    ends = [estimate - reach, estimate + reach]
    found = {
        "determined": True,
        "estimate": estimate,
        "std_error": reach / 1.96,
        "interval": ends,
        "z": 1.96 * estimate / reach,
        "p_value": 0.01,
        "privacy_share": 0.25,
    }
    if ratio:
        found |= {"ratio": math.exp(estimate), "ratio_interval": [math.exp(end) for end in ends]}
    return found


ODDS = {
    "family": "binomial",
    "link": "log-odds",
    "target": "diagnosis",
    "confidence": 0.95,
    "ratio": "odds ratio",
    "names": ["intercept", "age", "ward=b", "ward=c"],
    "coefficients": {
        "intercept": determined(-2.0, 0.5, ratio=False),
        "age": determined(0.03, 0.01),
        "ward=b": determined(0.5, 0.4),
        "ward=c": {"determined": False},
    },
    "features": {
        "age": {"bounds": [0, 120]},
        "ward=b": {"reference": "ward=a"},
        "ward=c": {"reference": "ward=a"},
    },
    "covariance": [[0.0] * 4] * 4,
    "rounds": 3,
    "negative": "benign",
    "positive": "malignant",
    "note": "Noise drowned ward=c.",
}


def test_odds_ratios_are_a_forest_with_the_part_of_privacy(folder):
    run = read_run(folder(result=ODDS))
    [forest] = of_kind(run, "result", "forest")
    age, b, c = forest["rows"]
    assert age[0] == "age, per 10"  # a round step of the public range, ten times the coefficient
    assert age[1] == pytest.approx([math.exp(0.3), math.exp(0.2), math.exp(0.4)])
    assert age[2] == pytest.approx([math.exp(0.225), math.exp(0.375)])
    assert b[0] == "ward=b vs a"
    assert c[1] is None
    assert c[3] == "not determined: noise hides what data say"
    rows = {row[0]: row for row in of_kind(run, "result", "grid")[0]["rows"]}
    assert rows["age"][1] == "1.030 (1.020 to 1.041)"
    assert rows["ward=c against a"][1] == "not determined"
    assert set(rows["ward=c against a"][2:]) == {"–"}
    text = words(run)
    assert "One more unit of age multiplies the odds of diagnosis = malignant by 1.030" in text
    assert "Not determined: ward=c" in text
    assert "| age | 1.030 (1.020 to 1.041) |" in markdown(run)


def test_differences_have_no_ratio_and_all_may_drown(folder):
    plain = {
        **ODDS,
        "family": "gaussian",
        "link": "mean",
        "ratio": "",
        "coefficients": {"intercept": determined(1.0, 0.1, False), "age": determined(2, 1, False)},
    }
    del plain["positive"], plain["negative"]
    run = read_run(folder(result=plain))
    [forest] = of_kind(run, "result", "forest")
    assert forest["ratios"] is False
    assert forest["rows"][0][1] == [20.0, 10.0, 30.0]
    assert "One more unit of age changes the mean of diagnosis by 2 (95 %" in words(run)
    drowned = {**ODDS, "coefficients": {key: {"determined": False} for key in ODDS["names"]}}
    text = words(read_run(folder(result=drowned)))
    assert "multiplies" not in text
    assert "Dots are estimates" not in text


def test_networks_clusters_and_classes(folder):
    network = {
        "target": "diagnosis",
        "features": ["radius", "age"],
        "layers": [3, 4, 2],
        "activation": "tanh",
        "classes": ["benign", "malignant"],
        "arrays": {},
    }
    assert "26" in words(read_run(folder(result=network)))  # (3+1)·4 + (4+1)·2
    clusters = {
        "clusters": [{"centre": {"age": 40.0}, "margin": {"age": 2.0}, "size": 70.0}],
        "size_margin": 5.0,
        "confidence": 0.95,
    }
    run = read_run(folder(result=clusters))
    assert of_kind(run, "result", "grid")[0]["rows"] == [["group 1", "70 ± 5", "40 ± 2"]]
    model = {"intercept": 1.0, "weights": {"age": 2.0}}
    classes = {"classes": {"a": model, "b": model, "c": model}, "note": "", "loss": "multinomial"}
    assert len(of_kind(read_run(folder(result=classes)), "result", "grid")) == 3


def test_a_result_of_a_new_kind_is_shown_as_it_is(folder):
    assert "curious" in words(read_run(folder(result={"novelty": "curious"})))
