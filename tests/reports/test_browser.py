"""The report in a real browser: offline, silent, readable in light and dark, wide and narrow."""

import shutil
from itertools import pairwise

import pytest

from unisono.reports.html import write_report

from .test_document import ODDS

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def visit(browser):
    """Opens a file without a network; returns the page, its requests and its complaints."""
    contexts = []

    def opened(path, **options):
        context = browser.new_context(offline=True, **options)
        contexts.append(context)
        page = context.new_page()
        requests, complaints = [], []
        page.on("request", lambda request: requests.append(request.url))
        page.on("requestfailed", lambda request: complaints.append(request.failure))
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(path.as_uri())
        return page, requests, complaints

    yield opened
    for context in contexts:
        context.close()


@pytest.fixture(scope="module")
def path(real_run):
    return write_report(real_run)


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 400)])
def test_it_opens_offline_silently_and_fits(visit, path, scheme, width):
    size = {"width": width, "height": 900}
    page, requests, complaints = visit(path, color_scheme=scheme, viewport=size)
    assert requests == [path.as_uri()]
    assert complaints == []
    assert page.evaluate("document.documentElement.scrollWidth") == width
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    brightness = sum(map(int, ground.strip("rgb()").split(",")))
    assert brightness > 600 if scheme == "light" else brightness < 150
    assert len(page.screenshot(full_page=True)) > 50_000


def test_what_a_screen_reader_needs_is_there(visit, path):
    page, _, _ = visit(path)
    count = page.evaluate
    assert count("document.querySelectorAll('h1').length") == 1
    levels = count("[...document.querySelectorAll('h1,h2,h3,h4')].map(h => +h.tagName[1])")
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert count("document.querySelectorAll('main').length") == 1
    assert count("document.querySelectorAll('nav[aria-label]').length") == 1
    assert count("document.documentElement.lang") == "en"
    assert count("[...document.querySelectorAll('img')].every(i => i.alt)")
    tables = count("document.querySelectorAll('table').length")
    assert tables >= 3
    assert count("document.querySelectorAll('table > caption').length") == tables
    assert count("[...document.querySelectorAll('th')].every(h => h.scope)")
    charts = count("document.querySelectorAll('svg.chart').length")
    assert charts >= 7
    assert count("document.querySelectorAll('svg.chart[role=img] > title + desc').length") == charts
    ids = count("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))
    targets = count("[...document.querySelectorAll('a[href^=\"#\"]')].map(a => a.hash.slice(1))")
    assert set(targets) <= set(ids)


OUTSIDE = (
    "[...document.querySelectorAll('svg.chart text')].filter(t => {"
    " const box = t.getBoundingClientRect();"
    " return box.left < 0 || box.right > 400; }).map(t => t.textContent)"
)


def test_no_text_of_a_chart_leaves_a_narrow_page(visit, path):
    page, _, _ = visit(path, viewport={"width": 400, "height": 900})
    assert page.evaluate(OUTSIDE) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_forest_fits_a_phone_and_its_bars_can_be_told_apart(visit, folder, scheme):
    """Two determined effects: sampling is drawn thicker than what privacy adds."""
    path = write_report(folder(result=ODDS))
    size = {"width": 400, "height": 900}
    page, _, complaints = visit(path, color_scheme=scheme, viewport=size)
    assert complaints == []
    assert page.evaluate("document.documentElement.scrollWidth") == 400
    assert page.evaluate(OUTSIDE) == []

    def drawn(kind, what):
        return page.evaluate(
            f"[...document.querySelectorAll('#result line.{kind}')].map(e => {what})"
        )

    widths = "parseFloat(getComputedStyle(e).strokeWidth)"
    thin, thick = drawn("thin", widths), drawn("thick", widths)
    assert len(thin) == len(thick) == 2
    assert min(thick) > 2 * max(thin)
    long, short = (drawn(kind, "e.getBoundingClientRect().width") for kind in ("thin", "thick"))
    assert all(0.6 < inner / outer < 0.9 for inner, outer in zip(short, long, strict=True))


def test_hostile_names_run_nothing(visit, folder):
    evil = "<script>window.broken = 1</script><img src=x onerror='window.broken = 1'>"
    result = {**folder.result, "weights": {evil: 1.0}, "positive": evil}
    place = folder(run=folder.heading(title=evil), result=result, budgets=[folder.budget(evil)])
    page, requests, complaints = visit(write_report(place))
    assert page.evaluate("window.broken") is None
    assert len(requests) == 1
    assert complaints == []


def test_the_policy_of_the_page_forbids_even_a_script_that_got_in(visit, folder):
    """The second line of defence: escaping failed, and still nothing runs or loads."""
    path = write_report(folder())
    hole = "<script>window.broken = 1</script><img src='https://example.com/a.png'></main>"
    path.write_text(path.read_text().replace("</main>", hole))
    page, requests, complaints = visit(path)
    assert page.evaluate("window.broken") is None
    assert requests[1:] == ["https://example.com/a.png"]
    assert "csp" in complaints  # forbidden by the page, not merely without a network
