"""The documentation as a site: equations, commands, and every page in a real browser, offline.

The browser tests build the whole site (`mkdocs build --strict`), so they are slow; they are skipped
with a reason where MkDocs, Playwright or Chromium is missing.
"""

import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FORMULA = re.compile(r"\$\$(.+?)\$\$|(?<![\w$\\])\$([^$\n]+?)\$(?!\d)", re.S)


def formulas():
    """Every formula of every page, outside code: (page, tex, whether it has a line of its own)."""
    for page in sorted(DOCS.rglob("*.md")):
        text = re.sub(r"```.*?```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.S)
        for found in FORMULA.finditer(text):
            yield page.name, (found[1] or found[2]).strip(), found[1] is not None


def test_every_equation_becomes_mathml():
    """No command of TeX is left over, which a reader would see as it is."""
    pytest.importorskip("latex2mathml", reason="comes with the extra 'docs'")
    equation = runpy.run_path(str(DOCS / "make" / "pages.py"))["equation"]
    written = [(page, tex, equation(tex, display)) for page, tex, display in formulas()]
    assert len(written) > 60
    for page, tex, drawn in written:
        inside = re.sub(r"<[^>]*>", "", drawn)
        assert drawn.startswith("<math "), (page, tex)
        assert "\\" not in inside, f"{page}: {tex}"
        assert inside.strip(), (page, tex)


@pytest.mark.filterwarnings("ignore:.*removed in Click 9:DeprecationWarning")
def test_the_reference_lists_every_command():
    written = runpy.run_path(str(DOCS / "make" / "commands.py"))["reference"]()
    for command in ("run", "check", "join", "privacy cost", "ledger verify", "dashboard"):
        assert f"### `unisono {command}`" in written
    assert "| `--epsilon`" in written


# ------------------------------------------------------------------------- in a browser


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The whole site, built as `make docs` builds it."""
    for needed in ("mkdocs", "material", "mkdocstrings", "latex2mathml"):
        pytest.importorskip(needed, reason="comes with the extra 'docs'")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="comes with the extra 'test'")
    if CHROMIUM is None:
        pytest.skip("there is no Chromium on this machine")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


class Watched:
    """A page of the browser, with everything that it asked for and complained about."""

    def __init__(self, browser, **options):
        self.page = browser.new_context(**options).new_page()
        self.outside, self.complaints = [], []
        self.page.on("request", self._asked)
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _asked(self, request):
        if not request.url.startswith(("file:", "data:", "about:", "blob:")):
            self.outside.append(request.url)

    def _said(self, message):
        if message.type == "error":
            self.complaints.append(message.text)

    def open(self, path):
        self.page.goto(f"file://{path}")
        return self.page


@pytest.mark.slow
def test_every_page_opens_offline_without_complaint(site, browser):
    """No request leaves the folder, nothing fails, equations and pictures have a size, and at the
    width of a telephone nothing but tables, code and equations is wider than the page."""
    watched = Watched(browser, viewport={"width": 400, "height": 800})
    pages = sorted(path for path in site.rglob("*.html") if path.name != "404.html")
    assert len(pages) > 50
    for path in pages:
        page = watched.open(path)
        assert page.evaluate("document.querySelectorAll('h1').length") == 1, path
        assert page.evaluate("document.documentElement.scrollWidth") <= 400, path
        heights = page.evaluate(
            "[...document.querySelectorAll('math, svg.drawing, article img')]"
            ".map(e => e.getBoundingClientRect().height)"
        )
        assert all(height > 5 for height in heights), path
        named = page.evaluate(
            "[...document.querySelectorAll('svg.drawing')].every(e => e.getAttribute('aria-label'))"
            " && [...document.querySelectorAll('article img')].every(e => e.alt)"
        )
        assert named, path
    assert watched.outside == []
    assert watched.complaints == []


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pictures_have_contrast_in_light_and_dark(site, browser, scheme):
    """Text of a picture against the page: 4.5 to 1, the least for reading (WCAG AA)."""
    page = Watched(browser, color_scheme=scheme).open(site / "concepts" / "trust.html")
    colours = page.evaluate(
        "[getComputedStyle(document.body).backgroundColor, "
        "...[...document.querySelectorAll('svg.drawing text')].map(e => getComputedStyle(e).fill)]"
    )
    paper, *inks = [tuple(map(float, re.findall(r"[\d.]+", colour))) for colour in colours]
    assert len(inks) > 10
    for ink in inks:
        assert contrast(over(ink, paper), paper[:3]) >= 4.5


def over(ink, paper):
    """A colour with some transparency, as it looks on the paper."""
    part = ink[3] if len(ink) > 3 else 1.0
    return tuple(part * a + (1 - part) * b for a, b in zip(ink[:3], paper[:3], strict=True))


def contrast(one, other):
    def luminance(colour):
        parts = [c / 255 for c in colour]
        parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", ["objective perturbation", "secure aggregation", "membership inference", "zCDP"]
)
def test_the_search_finds_a_page_from_a_folder(site, browser, words):
    """Opened from a folder there are no workers; the search works all the same."""
    watched = Watched(browser, viewport={"width": 1280, "height": 900})
    page = watched.open(site / "index.html")
    page.click("input.md-search__input")
    page.keyboard.type(words, delay=20)
    page.wait_for_selector(".md-search-result__item a", timeout=15_000)
    first = page.inner_text(".md-search-result__item:first-child")
    assert words.split()[0].lower() in first.lower()
    assert watched.outside == []
    assert watched.complaints == []


@pytest.mark.slow
def test_colours_can_be_changed_and_stay(site, browser):
    page = Watched(browser, color_scheme="light").open(site / "index.html")

    def scheme():
        return page.evaluate("document.body.getAttribute('data-md-color-scheme')")

    assert scheme() == "default"
    page.click("label[title='Dark colours']")
    assert scheme() == "slate"
    page.goto(f"file://{site / 'tutorial.html'}")
    assert scheme() == "slate"
