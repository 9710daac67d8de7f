"""The pages in a real Chromium, against a real server: live, by keyboard, in light and dark."""

import shutil
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from .conftest import TOKEN, dashboard
from .sample import Sample

pytest.importorskip("playwright", reason="playwright is not installed: pip install -e '.[test]'")

from playwright.sync_api import expect, sync_playwright

PATIENCE = 30_000  # milliseconds, for busy machines; only failures take so long
expect.set_options(timeout=PATIENCE)
_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
# Everything a screen reader needs a name for, and rules that hold for every page.
_FAULTS = """() => {
  const faults = [];
  const shown = (one) => one.checkVisibility();
  const label = (one) => (one.getAttribute("aria-label")
    ?? document.getElementById(one.getAttribute("aria-labelledby") ?? "")?.textContent
    ?? one.querySelector(":scope > title")?.textContent ?? one.getAttribute("alt")
    ?? one.textContent).trim();
  const named = "a, button, summary, nav, main section, article, progress, svg.chart, img";
  for (const one of document.querySelectorAll(named))
    if (shown(one) && !label(one)) faults.push("no name: " + one.outerHTML.slice(0, 80));
  for (const one of document.querySelectorAll("progress, nav, [role=region]"))
    if (!one.getAttribute("aria-label")) faults.push("no label: " + one.outerHTML.slice(0, 80));
  for (const one of document.querySelectorAll("table"))
    if (!one.caption?.textContent.trim()) faults.push("no caption: " + one.outerHTML.slice(0, 80));
  const headings = [...document.querySelectorAll("h1, h2, h3, h4")];
  const levels = headings.map((one) => Number(one.tagName[1]));
  if (levels.filter((level) => level === 1).length !== 1 || levels[0] !== 1) faults.push("h1");
  if (levels.some((level, n) => n && level > levels[n - 1] + 1)) faults.push("skipped a level");
  const ids = [...document.querySelectorAll("[id]")].map((one) => one.id);
  ids.filter((id, n) => ids.indexOf(id) !== n).forEach((id) => faults.push("twice: " + id));
  for (const one of ["main", "header", "footer", "[role=status]", "html[lang]", "a.skip"])
    if (document.querySelectorAll(one).length !== 1) faults.push("not one " + one);
  return faults;
}"""


def _program(playwright):
    found = next((path for name in _NAMES if (path := shutil.which(name))), None)
    own = playwright.chromium.executable_path
    return own if Path(own).exists() else found


@pytest.fixture(scope="module")
def browser():
    """Closed after this file: while it is open, no other test could start an event loop."""
    with sync_playwright() as playwright:
        program = _program(playwright)
        if program is None:
            pytest.skip(f"no browser: none of {', '.join(_NAMES)} is installed")
        opened = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield opened
        opened.close()


@contextmanager
def looking(browser, client, **options):
    """A page that has shown its token; afterwards nothing may have been complained about."""
    context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **options})
    context.set_default_timeout(PATIENCE)
    page, said, asked = context.new_page(), [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(f"{client.base}/?token={TOKEN}")
    yield page
    context.close()
    # The browser reports each violation of the Content-Security-Policy on the console.
    assert said == []
    assert [url for url in asked if not url.startswith(client.base + "/")] == []


def paths(client):
    return ["/", "/about", *(f"/runs/{one['id']}" for one in client.runs().values())]


def test_the_address_loses_its_token_and_the_cookie_is_hidden_from_scripts(browser, client):
    with looking(browser, client) as page:
        assert page.url == f"{client.inside}/"
        assert page.evaluate("document.cookie") == ""
        assert TOKEN not in page.content()
        (cookie,) = page.context.cookies()
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")


def test_other_servers_of_this_machine_do_not_get_the_token(browser, client):
    """Browsers send cookies to all ports of a name; the folder keeps this one at home."""
    heard = {}

    class Curious(BaseHTTPRequestHandler):
        def do_GET(self):
            heard[self.path] = self.headers.get("Cookie", "")
            self.send_response(200)
            self.end_headers()

        def log_message(self, *words):
            pass

    with HTTPServer(("127.0.0.1", 0), Curious) as other:
        thread = threading.Thread(target=other.serve_forever)
        thread.start()
        context = browser.new_context()
        page = context.new_page()
        try:
            page.goto(f"{client.base}/?token={TOKEN}")
            page.goto(f"http://127.0.0.1:{other.server_port}/runs")
            page.goto(f"http://127.0.0.1:{other.server_port}/{client.room}/")  # had it known
        finally:
            context.close()
            other.shutdown()
            thread.join()
    assert TOKEN not in heard["/runs"]
    assert TOKEN in heard[f"/{client.room}/"]  # so it would have been noticed


def test_a_file_can_open_the_dashboard(browser, client, tmp_path):
    """As the command opens it; a redirect would arrive without the Strict cookie."""
    opener = tmp_path / "open.html"
    address = f"{client.base}/?token={TOKEN}"
    opener.write_text(f'<meta http-equiv="refresh" content="0; url={address}">')
    context = browser.new_context()
    page = context.new_page()
    page.goto(opener.as_uri())
    page.wait_for_url(f"{client.inside}/")
    expect(page.get_by_role("heading", name="Runs")).to_be_visible()
    context.close()


def test_rounds_and_new_runs_appear_without_a_reload(browser, tmp_path):
    sample = Sample(tmp_path / "a.run", "Incomes").advance(3)
    with dashboard(tmp_path) as client, looking(browser, client) as page:
        page.evaluate("window.same = true")
        expect(page.get_by_role("progressbar", name="Rounds of Incomes")).to_have_text("3 of 20")
        sample.advance()
        Sample(tmp_path / "b.run", "Newcomer", started="2026-11-16T23:00:00+00:00")
        expect(page.get_by_role("progressbar", name="Rounds of Incomes")).to_have_text("4 of 20")
        expect(page.get_by_role("heading", level=2).first).to_have_text("Newcomer")
        assert page.evaluate("window.same")

        page.get_by_role("link", name="Incomes").click()
        page.evaluate("window.same = true")
        with page.expect_response(lambda answer: answer.status == 304):
            pass  # nothing changed, and nothing was sent
        page.locator("#viewer details summary").click()
        page.locator("#see-2").focus()
        gauge = page.locator("#viewer svg.chart desc").first
        before = gauge.text_content()
        sample.advance()
        expect(page.get_by_role("progressbar", name="Rounds of Incomes")).to_have_text("5 of 20")
        expect(gauge).not_to_have_text(before)
        assert page.title().startswith("5/20 Incomes")
        # Those who listen are not interrupted by every round.
        assert page.get_by_role("status").text_content() == ""
        # What one was doing goes on.
        assert page.evaluate("document.activeElement.id") == "see-2"
        assert page.locator("#viewer details").get_attribute("open") is not None
        expect(page.locator("#result")).to_have_count(0)
        sample.finish()
        expect(page.locator("#result")).to_be_visible()
        expect(page.get_by_role("status")).to_contain_text("Finished, 20 of 20 rounds")
        assert page.evaluate("window.same")


def test_from_the_list_to_a_viewer_by_keyboard_alone(browser, client):
    with looking(browser, client) as page:
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
        page.keyboard.press("Enter")
        _tab_to(page, "Five hospitals")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_have_text("Five hospitals")
        _tab_to(page, "another party")
        width = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert width == "solid"
        page.keyboard.press("Enter")
        expect(page.locator("#viewer-title")).to_have_text("Through the eyes of another party")
        assert page.url.endswith("?viewer=party#viewer")
        expect(page.locator("#viewer [aria-current]")).to_have_text("another party")


def test_single_keys(browser, client):
    with looking(browser, client) as page:
        first, second = page.locator("article h2 a").all_text_contents()[:2]
        for key, name in (("j", first), ("j", second), ("k", first)):
            page.keyboard.press(key)
            assert page.evaluate("document.activeElement.textContent") == name
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_have_text(first)
        page.wait_for_load_state()  # the heading is there before the script that reads keys
        for goal in ("viewer-title", "parties-title"):
            page.keyboard.press("j")
            assert page.evaluate("document.activeElement.id") == goal
        page.keyboard.press("v")
        assert page.evaluate("document.activeElement.getAttribute('aria-current')") == "true"
        page.keyboard.press("u")
        expect(page.get_by_role("heading", level=1)).to_have_text("Runs")
        page.wait_for_load_state()  # the heading is there before the script that reads keys
        page.keyboard.press("?")
        expect(page.get_by_role("heading", level=1)).to_have_text("Help")
        page.get_by_role("button", name="Turn these keys off").click()
        page.keyboard.press("u")
        page.wait_for_timeout(200)
        expect(page.get_by_role("heading", level=1)).to_have_text("Help")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark_follow_the_system_until_told_otherwise(browser, client, scheme):
    other = {"light": "dark", "dark": "light"}[scheme]
    with looking(browser, client, color_scheme=scheme) as page:
        assert _scheme(page) == scheme
        page.get_by_role("button", name=f"{other} theme").click()
        assert _scheme(page) == other
        page.reload()
        assert _scheme(page) == other
        page.goto(f"{client.inside}/about")
        assert _scheme(page) == other
        page.keyboard.press("t")
        assert _scheme(page) == scheme


def test_every_page_fits_and_has_names_for_everything_and_runs_no_name(browser, client):
    with looking(browser, client) as page:
        page.on("dialog", lambda dialog: pytest.fail("a name was run as a script"))
        for path in paths(client):
            page.goto(client.inside + path)
            for width in (1280, 400):
                page.set_viewport_size({"width": width, "height": 900})
                assert page.evaluate(_FAULTS) == [], (path, width)
                assert page.evaluate("document.documentElement.scrollWidth") <= width, path


def test_pages_are_complete_without_scripts(browser, client):
    with looking(browser, client, java_script_enabled=False) as page:
        page.get_by_role("link", name="Five hospitals").click()
        page.get_by_role("link", name="the server", exact=True).click()
        expect(page.locator("#viewer-title")).to_have_text("Through the eyes of the server")
        expect(page.locator("#connection")).to_contain_text("reload it")
        assert not page.locator("#theme").is_visible()


def test_a_report_is_shown_and_runs_nothing(browser, client):
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{client.base}/?token={TOKEN}")
    page.get_by_role("link", name="Five hospitals").click()
    page.get_by_role("link", name="Report", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Report")
    assert page.title() == "report"  # its script would have changed it
    colour = page.evaluate("getComputedStyle(document.querySelector('h1')).color")
    assert colour == "rgb(17, 34, 51)"
    context.close()


def test_a_dashboard_that_is_gone_is_said_to_be(browser, tmp_path):
    Sample(tmp_path / "a.run", "Incomes")
    context = browser.new_context()
    page = context.new_page()
    with dashboard(tmp_path) as client:
        page.goto(f"{client.base}/?token={TOKEN}")
        expect(page.locator("#connection")).to_contain_text("Live")
    expect(page.locator("#connection")).to_contain_text("No answer from the dashboard")
    expect(page.get_by_role("link", name="Incomes")).to_be_visible()
    context.close()


def _tab_to(page, words, most=60):
    for _ in range(most):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent.trim()") == words:
            return
    raise AssertionError(f"{words!r} cannot be reached by Tab")


def _scheme(page):
    red = page.evaluate("Number(getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0])")
    return "dark" if red < 128 else "light"
