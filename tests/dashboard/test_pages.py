"""What the pages and the API say, of whole runs and of damaged ones."""

import re

import pytest

from .conftest import dashboard
from .sample import HOSTILE, PICTURE, Sample, certificate, laboratory, write


def test_the_list_says_where_each_run_stands(client):
    text = client.get("/").text
    assert "7 runs, 1 running." in text
    card = text.partition('id="run-' + client.runs()["Drug response"]["id"])[2]
    card = card.partition("</article>")[0]
    assert re.search(r'class="state failed"><span aria-hidden="true">✕</span> failed<', card)
    assert '<progress max="20" value="7" aria-label="Rounds of Drug response">7 of 20' in card
    assert "5 of 5" in card
    assert "2.17 of 4" in card
    assert "in process" in card
    assert "2026-11-12T08:00:00+00:00" in card
    assert "north refuses" in card


def test_an_empty_folder_says_what_to_do(tmp_path):
    with dashboard(tmp_path) as asking:
        text = asking.get("/").text
    assert "No runs here yet" in text
    assert "unisono run" in text
    assert str(tmp_path) in text


@pytest.mark.parametrize(
    ("viewer", "sees", "hidden"),
    [
        ("final-model", {"the result"}, {"masked contribution", "opened sums"}),
        ("party", {"opened sums", "the result"}, {"masked contribution"}),
        ("server", {"masked contribution", "opened sums", "the result"}, set()),
        ("colluders:1", {"masked contribution", "opened sums", "the result"}, set()),
    ],
)
def test_each_viewer_has_its_own_transcript_and_budgets(client, viewer, sees, hidden):
    text = client.page("Five hospitals", f"?viewer={viewer}").text
    part = text.partition('<section id="viewer"')[2].partition("</section>")[0]
    rows = set(re.findall(r'<th scope="row">([^<]+)</th>', part.partition("Messages it saw")[2]))
    assert rows == sees
    for name in hidden:
        assert name in part.partition("Hidden from it:")[2]
    assert "the end" in part
    spent = {"final-model": "1.6", "colluders:1": "2.3"}.get(viewer, "1.98")
    gauge = re.search(r"<title>north</title><desc>([^<]+)<", part)
    assert gauge.group(1).startswith(f"north: {spent} of 4, of which 0 before.")
    assert len(re.findall('aria-current="true"', part)) == 1


def test_by_default_the_viewer_who_has_seen_most_is_shown(client):
    for query in ("", "?viewer=nobody", "?viewer=%3Cscript%3E", "?viewer="):
        text = client.page("Five hospitals", query).text
        assert "Through the eyes of the server and 1 party working together" in text


def test_who_answered_is_told_in_words_too(client):
    text = client.page("Five hospitals").text
    part = text.partition('<section id="parties"')[2].partition("</section>")[0]
    assert "west: 14 of 20 answers" in part
    assert "14 of 20, not in 3, 6, 9, 12, 15, 18" in part
    assert part.count('class="unheard"') == 6
    assert part.count('class="heard"') == 94


def test_a_hundred_parties_are_grouped(client):
    text = client.page("A hundred clinics").text
    part = text.partition('<section id="parties"')[2].partition("</section>")[0]
    assert part.count("</tr>") == 1 + 3
    assert "97 other parties answered every time." in part
    viewer = text.partition('<section id="viewer"')[2].partition("</section>")[0]
    assert viewer.count('class="chart"') == 12
    assert viewer.partition("All 100 budgets as a table")[2].count("</tr>") >= 101


def test_curves_have_their_numbers_as_a_table(client):
    part = client.page("Five hospitals").text.partition('<section id="curves"')[2]
    part = part.partition("</section>")[0]
    assert part.count('<svg class="chart"') == 2
    assert part.count('<th scope="row">') == 20
    assert "0.72" in part


def test_long_runs_have_short_pages(tmp_path):
    """Ten thousand rounds; the last one is always shown."""
    Sample(tmp_path / "a.run", "A", ["north", "south"], rounds=10_000, lazy=["south"]).advance(
        9_999
    )
    with dashboard(tmp_path) as asking:
        answer = asking.page("A")
    assert answer.status == 200
    assert len(answer.body) < 200_000
    rows = re.findall(r'<th scope="row">([\d,]+)</th>', answer.text.partition('id="curves"')[2])
    assert rows[-1] == "9,999"
    assert 80 < len(rows) <= 101


def test_names_are_escaped_everywhere(client):
    for path in ("/", f"/runs/{client.runs()[f'Names {HOSTILE}']['id']}"):
        text = client.get(path).text
        assert "alert(" in text
        assert "<script>" not in text
        # One script, by its address; no inline style or handler, which the policy would refuse.
        assert text.count("<script") == 1
        assert not re.search(r"<[^>]+\sstyle=", text)
        assert "<style" not in text
        assert not re.search(r"<[^>]+\son\w+=", text)


def test_attacks_are_shown_with_their_pictures(client):
    audit = client.page("Five hospitals").text.partition('<section id="attacks"')[2]
    assert "epsilon is at least 1.41" in audit
    found = client.page("Attack laboratory").text
    assert found.count('<img src="data:image/png;base64,iVBORw0') == 1
    assert "DP-SGD &lt;b&gt;" in found
    assert "no protection" in found
    assert "Noise or a crowd" not in found  # its picture is not there


def test_a_picture_that_is_a_link_is_not_shown(tmp_path):
    sample = Sample(tmp_path / "shown" / "a.run", "A", (), engine="laboratory")
    write(sample.folder / "attacks.json", laboratory())
    (tmp_path / "secret.png").write_bytes(PICTURE)
    (sample.folder / "attack-grid.png").symlink_to(tmp_path / "secret.png")
    with dashboard(tmp_path / "shown") as asking:
        assert "<img" not in asking.page("A").text
        (sample.folder / "attack-grid.png").unlink()
        (sample.folder / "attack-grid.png").write_bytes(PICTURE)
        assert "<img" in asking.page("A").text


def test_failures_and_stops_are_told_with_what_to_do(client):
    assert "north refuses: epsilon 2.3" in client.page("Drug response").text
    stopped = client.page("Digits").text
    assert "its process is gone" in stopped
    assert "unisono run study.toml --data data" in stopped


def test_a_report_is_offered_where_there_is_one(client):
    assert "/report" in client.page("Five hospitals").text
    assert "/report" not in client.page("Digits").text
    assert client.page("Digits", "/report").status == 404
    assert "Report</h1>" in client.page("Five hospitals", "/report").text


def test_a_page_that_has_not_changed_is_not_sent_again(tmp_path):
    sample = Sample(tmp_path / "a.run", "A").advance()
    with dashboard(tmp_path) as asking:
        for path in ("/", f"/runs/{asking.runs()['A']['id']}"):
            first = asking.get(path)
            known = {"If-None-Match": first.headers["etag"]}
            again = asking.get(path, known)
            assert (again.status, again.body) == (304, b"")
            sample.advance()
            changed = asking.get(path, known)
            assert changed.status == 200
            assert f"{sample.done} of 20" in changed.text


@pytest.mark.parametrize(
    "path",
    [
        "/nothing",
        "/runs/0123456789abcdef",
        "/runs/..%2f..%2fetc",
        "/api/runs/0123456789abcdef",
        "/static/..%2fapp.py",
        "/static/app.py",
        "/static/../app.py",
        "/runs/x/report",
    ],
)
def test_what_is_not_there_is_not_found(client, path):
    answer = client.get(path)
    assert answer.status == 404
    assert "All runs" in answer.text


def test_the_api_has_all_documents(client):
    listed = client.get("/api/runs").json
    assert listed["format"] == "unisono-dashboard-1"
    one = client.runs()["Five hospitals"]
    assert (one["state"], one["rounds"], one["of"], one["answered"], one["parties"]) == (
        "finished",
        20,
        20,
        5,
        5,
    )
    assert (one["budget"], one["spent_by"]) == (4.0, "east")
    assert one["spent"] == pytest.approx(3.1)
    whole = client.get(f"/api/runs/{one['id']}").json
    assert {name: whole[name] for name in one} == one
    documents = whole["documents"]
    assert len(documents["timeline"]) == 20
    assert documents["budgets"][0]["party"] == "north"
    assert documents["certificate"]["format"] == "unisono-certificate-1"
    assert documents["study"].startswith("title")


def test_infinite_costs_are_said_in_words(tmp_path):
    sample = Sample(tmp_path / "a.run", "A", ["north"]).advance()
    write(
        sample.folder / "budgets.json",
        [
            {
                "party": "north",
                "relation": "replace-one",
                "delta": 1e-5,
                "viewers": {
                    "server": {"before": 0.0, "spent": "inf", "budget": "inf"},
                    "final-model": {"before": 0.0, "spent": 1.0, "budget": 2.0},
                },
            }
        ],
    )
    with dashboard(tmp_path) as asking:
        one = asking.runs()["A"]
        assert (one["spent"], one["budget"]) == (1.0, 2.0)
        assert "no protection" in asking.page("A", "?viewer=server").text
        whole = asking.get(f"/api/runs/{one['id']}").json
    assert whole["documents"]["budgets"][0]["viewers"]["server"]["spent"] == "inf"


def test_a_simulation_says_loudly_that_it_protects_nobody(tmp_path):
    sample = Sample(tmp_path / "a.run", "A").finish()
    write(sample.folder / "certificate.json", {**certificate(5), "entropy": "simulation"})
    with dashboard(tmp_path) as asking:
        assert "protects nobody" in asking.get("/").text
        now = asking.page("A").text.partition('<section id="now"')[2].partition("</section>")[0]
        assert asking.runs()["A"]["simulated"]
    assert "SIMULATION" in now


def test_a_server_without_budgets_says_where_they_are(tmp_path):
    sample = Sample(tmp_path / "a.run", "A", engine="server").advance()
    (sample.folder / "budgets.json").unlink()
    with dashboard(tmp_path) as asking:
        assert "stands in its own ledger" in asking.page("A", "?viewer=server").text
        assert asking.runs()["A"]["spent"] is None
        assert "Epsilon that" not in asking.get("/").text


def test_raises_and_the_allowance_of_the_year_stand_beside_the_gauges(tmp_path):
    sample = Sample(tmp_path / "a.run", "A").advance(2).finish()
    raised = {
        "from": [4.0, 1e-5],
        "to": [6.0, 1e-5],
        "time": "2026-03-01T10:00:00+00:00",
        "reason": HOSTILE,
        "signer": "north",
        "key": "cd" * 32,
    }
    group = {"parties": 1, "example": "north", "raises": [raised], "year": 2026}
    group |= {"this_year": {"server": 0.5}, "per_year": {"server": 2.0}}
    write(sample.folder / "certificate.json", {**certificate(5), "spending": [group]})
    with dashboard(tmp_path) as asking:
        text = asking.page("A", "?viewer=server").text
    part = text.partition('<section id="viewer"')[2].partition("</section>")[0]
    assert "Budgets that were raised" in part
    assert "epsilon 6 at delta 1e-05" in part
    assert "Allowances of this year" in part
    assert HOSTILE not in text
