"""Runs that are unfinished, broken, large or hostile: a report always comes out."""

import json
import re

import pytest

from unisono.errors import InvalidInput
from unisono.reports.document import document, report
from unisono.reports.html import html, write_report
from unisono.reports.markdown import markdown
from unisono.runs.folder import read_run

EVIL = "<script>alert(1)</script>"
ALONE = dict.fromkeys(("progress", "budgets", "result", "certificate", "evaluation", "transcript"))


def all_forms(run):
    text = json.dumps(document(run), allow_nan=False)
    return html(run), markdown(run), text


def test_a_run_that_has_only_begun(folder):
    run = read_run(
        folder(**{**ALONE, "run": folder.heading(state="running", ended=None)}, timeline=[])
    )
    page, text, _ = all_forms(run)
    assert "cannot be shown" not in page
    assert "There is no result yet" in text
    assert "(as planned): The success probability of the best attack" in text
    assert "is at most 56.3 % for inferring which of two values" in text
    assert "has no certificate yet" in text


def test_a_run_without_any_other_document(folder):
    page, text, _ = all_forms(read_run(folder(**ALONE, study=None, timeline=[])))
    assert "cannot be shown" not in page
    assert "nothing is guaranteed" in text


def test_a_failed_run_says_why_and_that_payments_stay(folder):
    run = read_run(
        folder(run=folder.heading(state="failed", error="two parties fell silent"), result=None)
    )
    assert "FAILED: two parties fell silent" in report(run).notice
    assert "tried to learn" in markdown(run)
    opened = read_run(folder(result={"title": "x", "failed": "in no round did enough answer"}))
    assert "in no round did enough answer. What was paid stays paid" in markdown(opened)


def test_a_run_whose_process_is_gone_was_stopped(folder):
    run = read_run(folder(run=folder.heading(state="running", process=2**22 + 1)))
    assert "its process is gone" in report(run).notice


@pytest.mark.parametrize(
    "name", ["progress", "result", "certificate", "transcript", "evaluation", "budgets", "attacks"]
)
def test_a_torn_document_is_named_and_left_out(folder, name):
    run = read_run(folder(**{name: '{"half": '}))
    assert f"Damaged and left out: {name}.json" in report(run).notice
    assert all(all_forms(run))


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        [1, 2],
        {},
        {"value": "many"},
        "words",
        7,
        {"viewers": 3},
        {"guarantees": 5},
        {"answers": [None]},
        {"table": [1]},
        {"weights": [1]},
    ],
)
@pytest.mark.parametrize(
    "name", ["progress", "result", "certificate", "transcript", "evaluation", "attacks"]
)
def test_a_document_of_another_shape_costs_at_most_its_section(folder, name, wrong):
    run = read_run(folder(**{name: json.dumps(wrong)}))
    page, text, _ = all_forms(run)
    assert "What this report does not say" in page
    assert "What this report does not say" in text


def test_names_cannot_become_markup(folder):
    """Titles, columns, categories, parties, errors: all come from files of others."""
    result = {
        **folder.result,
        "weights": {EVIL: 1.0},
        "positive": EVIL,
        "note": EVIL,
        "intercept": 0.0,
        "target": EVIL,
    }
    study = folder.study.replace("radius =", f'"{EVIL}" =').replace('"benign"', f'"{EVIL}"')
    study = study.replace("Three hospitals", EVIL)
    run = read_run(
        folder(
            run=folder.heading(title=EVIL, error=EVIL, command=EVIL),
            result=result,
            study=study,
            budgets=[folder.budget(EVIL)],
            evaluation={"measure": EVIL, "value": 1, "how": EVIL},
            certificate=folder.certificate(secure_sum=EVIL, ledger_heads={EVIL: EVIL}),
            attacks={EVIL: EVIL, "audit": {"claim": 1, "bound": 0.5, EVIL: EVIL}},
            transcript={
                "messages": [
                    {"name": EVIL, "rounds": [0, 3], "shape": [EVIL], "viewers": ["server"]}
                ]
            },
        )
    )
    page, text, _ = all_forms(run)
    assert "<script" not in page.lower()
    assert "&lt;script&gt;" in page
    fenced = re.sub(r"(?ms)^(`{3,})\n.*?^\1$", "", text)  # inside a fence nothing is obeyed
    assert "<script" not in fenced.replace("\\<", "")
    without = {**folder.result, "weights": {EVIL: 1.0}, "intercept": 0.0}
    failed = read_run(folder(result={**without, "failed": EVIL}))
    assert "<script" not in html(failed).lower()


def test_a_fence_in_the_study_file_does_not_end_the_block(folder):
    text = markdown(read_run(folder(study=folder.study + "# ```\n# <b>\n")))
    assert "````\n" in text


def test_150_parties_are_grouped(folder):
    budgets = [folder.budget(f"p{number}", 0.0, 1.0 + number % 3) for number in range(150)]
    run = read_run(folder(budgets=budgets, study=None))
    [gauges] = [
        block
        for section in document(run)["sections"]
        if section["anchor"] == "budgets"
        for block in section["blocks"]
        if block["kind"] == "gauges"
    ]
    assert [one["label"] for one in gauges["items"]] == [
        "each of 50 parties, such as p2",
        "each of 50 parties, such as p1",
        "each of 50 parties, such as p0",
    ]


def test_150_different_parties_are_cut_short_and_it_is_said(folder):
    budgets = [folder.budget(f"p{number}", 0.0, number / 100) for number in range(150)]
    run = read_run(folder(budgets=budgets, study=None))
    assert "Shown are 24 of 150 gauges" in markdown(run)
    assert "p149" in html(run)


def test_infinite_budgets_and_spending(folder):
    free = folder.budget("north")
    free["viewers"]["server"] = {"before": 0.0, "spent": "inf", "budget": "inf"}
    over = folder.budget("south", 0.0, "inf", 2.0)
    run = read_run(folder(budgets=[free, over]))
    _, text, data = all_forms(run)
    assert "No limit was set against the server" in text
    assert "Infinity" not in data
    assert "NaN" not in data


def test_a_server_falls_back_on_what_the_certificate_knows(folder):
    given = folder.certificate(
        spending=[
            {
                "parties": 3,
                "example": "north",
                "epsilon": {"server": 1.0},
                "budget": {"server": 4.0},
            }
        ]
    )
    assert "each of 3 parties, such as north" in markdown(
        read_run(folder(budgets=None, certificate=given))
    )
    assert "knows no party's budget" in markdown(read_run(folder(budgets=None)))


def test_an_unwritable_folder_is_refused_in_plain_words(folder, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    place = folder()
    monkeypatch.setattr("os.replace", full)
    with pytest.raises(InvalidInput, match=r"cannot be written into .*--output FILE"):
        write_report(place)


def test_a_folder_without_a_run(tmp_path):
    with pytest.raises(InvalidInput, match=r"holds no run"):
        write_report(tmp_path)


def test_a_laboratory_has_no_study_to_tell_of(folder):
    """Its own sections come from `reports.laboratory`; here only that nothing else is claimed."""
    run = read_run(folder(**ALONE, run=folder.heading(engine="laboratory"), study=None))
    assert [part.anchor for part in report(run).parts] == []


LABORATORY = {
    "seed": 0,
    "quick": True,
    "baseline": {"error": 0.9, "psnr": 8.0, "blind_ratio": 0.96},
    "setting": {
        "records": "digits",
        "viewer": "server",
        "unit": "record",
        "relation": "zero-out",
        "sampler": "everyone",
    },
    "rows": [
        {
            "defence": EVIL,
            "accuracy": 0.9,
            "labels_ratio": 0.9,
            "inversion": {"error": 0.1, "ratio": 0.2, "psnr": 30.0, "naive_error": 0.4},
            "closed_form": None,
            "tensor": {
                "neurons": [1000],
                "errors": [0.5],
                "slope": -0.5,
                "predicted": -0.5,
                "bound": "B",
                "verdict": "holds",
                "polished": 1e-9,
                "naive_polished": 1e-9,
            },
            "membership": {"area": 0.5, "naive_area": 0.5},
            "privacy": {
                "delta": 1e-5,
                "epsilon_round": "inf",
                "epsilon_training": 8.0,
                "empirical_direct": 1.0,
                "empirical_model_based": None,
            },
        }
    ],
}


def test_a_laboratory_is_told_with_its_pictures(folder):
    place = folder(
        **ALONE,
        run=folder.heading(engine="laboratory"),
        study=None,
        attacks={"laboratory": LABORATORY},
    )
    (place / "attack-grid.png").write_bytes(b"png")
    page, text, _ = all_forms(read_run(place))
    assert "cannot be shown" not in page
    assert "data:image/png;base64,cG5n" in page
    assert "<script" not in page.lower()
    assert "Defences against attacks" in text


def test_a_damaged_laboratory_costs_its_sections_only(folder):
    run = read_run(folder(attacks={"laboratory": {"rows": [{}]}}))
    page, text, _ = all_forms(run)
    assert "cannot be shown" in page
    assert "cannot be shown" in text
    assert "What is guaranteed" in page


def test_an_audit_that_refutes_is_loud(folder):
    found = {"claim": 1.0, "bound": 1.5, "verdict": "refuted", "runs": 4000, "unit": "record"}
    assert "The claim is refuted" in markdown(read_run(folder(attacks={"audit": found})))
    found = {**found, "bound": 0.8, "verdict": "not refuted"}
    assert "does not prove it either" in markdown(read_run(folder(attacks={"audit": found})))
