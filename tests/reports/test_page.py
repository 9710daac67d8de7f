"""The page shell and its charts: one file, escaped, told in words, nothing drawn that is not so."""

import math
import re
from xml.etree import ElementTree

import pytest
from markupsafe import Markup

from unisono.reports import charts, diagram, marks
from unisono.reports.page import STYLE, Section, figure, page, paragraphs, table

EVIL = "<img src=x onerror=alert(1)>"
SVG = "{http://www.w3.org/2000/svg}"
CHARTS = {
    "gauge": lambda name: charts.gauge(name, 1.5, 2.0, words=name, before=0.5),
    "lines": lambda name: charts.lines(
        {name: [(0, 1), (1, 2)], "b": [(0, 0), (1, 1)]},
        x_label=name,
        y_label=name,
        reference=(name, 2.0),
    ),
    "intervals": lambda name: charts.intervals(
        [charts.DrawnInterval(name, 2, 1, 3)], title=name, unit=name, reference=(name, 1.5)
    ),
    "forest": lambda name: charts.forest(
        [
            charts.ForestRow(name, (2.0, 1.0, 4.0), (1.5, 3.0)),
            charts.ForestRow(name, None, words=name),
        ],
        title=name,
        ratios=True,
        unit=name,
    ),
    "bells": lambda name: charts.bells([charts.Bell(name, 1.0, 0.5)], title=name, unit=name),
    "guesses": lambda name: charts.guesses(0.732, title=name),
}


def test_a_page_is_one_file_that_loads_and_runs_nothing():
    made = page(
        "Title",
        [Section("One", Markup("<p>1</p>"), "one"), Section("Two", Markup("<p>2</p>"), "two")],
    )
    assert "default-src 'none'" in made
    assert not re.search(r"<(script|link|iframe|object)\b|https?://(?!www\.w3\.org/2000/svg)", made)
    assert made.count("<h1>") == 1
    assert STYLE in made
    assert re.findall(r'href="#(\w+)"', made) == ["content", "one", "two"]


def test_everything_plain_is_escaped():
    made = page(
        EVIL,
        [
            Section(
                EVIL,
                table([EVIL], [[EVIL]], EVIL) + figure(b"png", EVIL, EVIL) + paragraphs(EVIL),
                EVIL,
            )
        ],
        subtitle=EVIL,
        notice=EVIL,
    )
    assert "<img src=x" not in made
    assert made.count("&lt;img src=x") > 10


def test_drawings_from_elsewhere_become_images_in_which_nothing_runs():
    assert "data:image/svg+xml;base64," in figure("<svg onload='alert(1)'/>", "a")
    assert "onload" not in figure("<svg onload='alert(1)'/>", "a")
    assert "data:image/png;base64,cG5n" in figure(b"png", "a")
    assert "<svg" in figure(charts.bells([charts.Bell("a", 1, 1)], title="t"), "a")


def test_numbers_stand_at_the_right_and_words_at_the_left():
    made = table(["a", "b", "c"], [["x", "1,250.5", "word"], ["y", "1 in 10,000", "2"]])
    assert made.count('class="number"') == 3  # the head and both rows of the second column
    assert "no-such" not in table(["a"], [])


def test_a_wide_table_keeps_its_roles_when_it_becomes_cards():
    made = table(["a", "b", "c", "d"], [["1", "2", "3", "4"]], "Wide")
    for role in ("table", "row", "columnheader", "rowheader", "cell"):
        assert f'role="{role}"' in made
    assert 'data-label="d"' in made


@pytest.mark.parametrize("name", CHARTS)
def test_a_chart_is_well_formed_told_in_words_and_escaped(name):
    made = str(CHARTS[name](EVIL))
    assert "<img" not in made
    assert "style=" not in made  # a strict policy forbids it
    tree = ElementTree.fromstring(made[made.index("<svg") : made.rindex("</svg>") + 6])
    assert tree.find(f"{SVG}title").text
    assert len(tree.find(f"{SVG}desc").text) > 10


@pytest.mark.parametrize("name", ["local", "secure-sum", "trusted-server"])
@pytest.mark.parametrize("parties", [1, 3, 4, 5, 200])
def test_the_way_of_the_numbers_is_drawn_for_every_trust(name, parties):
    names = [f"party-{number}" for number in range(min(parties, 8))]
    made = diagram.flow(name, names, parties)
    ElementTree.fromstring(str(made))
    drawn = made.count('class="strong middle"') - 2  # server and public
    assert drawn == min(parties, 4)
    assert ("more" in made) == (parties > 4)
    if parties > 4:
        assert f"{parties - 3} more" in made


def shares(drawing, attribute):
    return [float(one) / 100 for one in re.findall(rf' {attribute}="([-\d.]+)%"', drawing)]


def test_a_gauge_is_as_full_as_the_budget_is_used():
    drawing = charts.gauge("north", 1.5, 2.0, words="", before=0.5)
    assert re.findall(r'x="([\d.]+%)" y="22" width="([\d.]+%)"', drawing) == [
        ("0%", "100%"),
        ("25%", "50%"),
        ("0%", "25%"),
    ]
    assert "over" not in drawing.partition("<desc>")[2]
    assert 'class="over"' in charts.gauge("north", 2.5, 2.0, words="")
    assert 'class="over"' in charts.gauge("north", math.inf, 2.0, words="")
    unlimited = charts.gauge("north", 1.0, math.inf, words="")
    assert '"0%" height="12" rx="2" class="spent"' in unlimited


def test_an_interval_lies_where_its_numbers_are():
    drawing = charts.intervals([charts.DrawnInterval("a", 2, 1, 4)], title="t")
    scale = marks.ticks(1, 4)
    [whisker] = re.findall(
        r'<line x1="([\d.]+)%" y1="\d+" x2="([\d.]+)%" y2="\d+" class="whisker', drawing
    )
    low, high = (float(end) / 100 * (scale[-1] - scale[0]) + scale[0] for end in whisker)
    assert (low, high) == (pytest.approx(1), pytest.approx(4))
    [middle] = shares(drawing, "cx")
    assert middle * (scale[-1] - scale[0]) + scale[0] == pytest.approx(2, abs=1e-4)


@pytest.mark.parametrize("ratios", [True, False])
def test_a_forest_has_bars_where_its_numbers_are_and_a_line_of_no_effect(ratios):
    rows = [charts.ForestRow("a", (2.0, 0.5, 8.0), (1.0, 4.0)), charts.ForestRow("b", None)]
    drawing = charts.forest(rows, title="t", ratios=ratios)
    scale = marks.log_ticks(0.5, 8.0) if ratios else marks.ticks(0.0, 8.0)
    ends = [math.log(end) if ratios else end for end in (scale[0], scale[-1])]

    def value(percent):
        at = ends[0] + float(percent) / 100 * (ends[1] - ends[0])
        return pytest.approx(math.exp(at) if ratios else at, abs=1e-3)

    def bars(kind):
        found = re.findall(
            rf'<line x1="([\d.]+)%" y1="\d+" x2="([\d.]+)%" y2="\d+" class="{kind}', drawing
        )
        return [(value(low), value(high)) for low, high in found]

    assert bars("thin") == [(0.5, 8.0)]
    assert bars("thick") == [(1.0, 4.0)]
    none = 1.0 if ratios else 0.0
    assert bars("reference") == [(none, none)]
    assert "not determined" in drawing


def test_ratios_that_no_log_axis_holds_are_said_in_words():
    """Whatever a document says, nothing below zero is drawn as a ratio."""
    drawing = charts.forest([charts.ForestRow("a", (1.0, -1.0, 2.0))], title="t", ratios=True)
    assert "not determined" in drawing
    assert 'class="thin' not in drawing
    assert charts.forest([], title="t", ratios=True) == marks.nothing("t")


@pytest.mark.parametrize("low", [1e-250, 1e-9, 0.03, 0.4, 0.99, 1.0, 3.0])
@pytest.mark.parametrize("high", [1.0, 1.02, 2.0, 70.0, 1e9, 1e250])
def test_ticks_of_ratios_hold_the_range_and_one(low, high):
    low, high = sorted((low, high))
    scale = marks.log_ticks(low, high)
    assert 0 < scale[0] <= low * (1 + 1e-9)
    assert high <= scale[-1] * (1 + 1e-9)
    assert 1.0 in scale
    assert scale == sorted(set(scale))
    assert 2 <= len(scale) <= 9


def test_a_curve_goes_through_its_points():
    drawing = charts.lines({"a": [(0, 0), (5, 1), (10, 2)]}, x_label="x", y_label="y")
    [points] = re.findall(r'points="([^"]+)"', drawing)
    x, y = zip(*(map(float, point.split(",")) for point in points.split()), strict=True)
    assert x == (0, 500, 1000)
    assert y[0] - y[1] == pytest.approx(y[1] - y[2])
    assert y[2] == 0  # the highest tick is 2


def test_what_is_not_a_number_is_left_out():
    assert "nothing to draw" in charts.lines({"a": [(0, math.nan)]}, x_label="x", y_label="y")
    assert "nothing to draw" in charts.intervals(
        [charts.DrawnInterval("a", 1, 0, math.inf)], title="t"
    )
    assert "nothing to draw" in charts.bells([charts.Bell("a", 1, 0.0)], title="t")
    assert "nothing to draw" in charts.bells([], title="t")
    drawing = charts.bells([charts.Bell("a", math.nan, 1.0), charts.Bell("b", 1.0, 1.0)], title="t")
    assert "nan" not in drawing


def test_a_hundred_guesses():
    drawing = charts.guesses(0.732, title="t")
    # One for each line of the legend, and the part of a guess that is right.
    assert drawing.count("<circle") == 100 + 3 + 1
    assert drawing.count("fill s2") == 23 + 1 + 1
    assert "23.2 more succeed, at most" in drawing
    assert "26.8 fail, at least" in drawing
    assert "0 more succeed" in charts.guesses(0.5, title="t")
    assert "0 fail, at least" in charts.guesses(1.0, title="t")


@pytest.mark.parametrize(
    ("low", "high"),
    [(0, 0), (1, 1), (-3, -3), (0, 1e-9), (-1e12, 1e12), (0.123, 0.124), (0, 1.97), (-5, 12)],
)
def test_ticks_hold_the_range_and_are_few(low, high):
    found = marks.ticks(low, high)
    assert found[0] <= low
    assert found[-1] >= high
    assert 2 <= len(found) <= 8


def relative(colour):
    """Relative luminance of #rrggbb or #rgb (WCAG 2)."""
    digits = colour.lstrip("#")
    digits = "".join(2 * digit for digit in digits) if len(digits) == 3 else digits
    parts = [int(digits[k : k + 2], 16) / 255 for k in (0, 2, 4)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, two):
    light, dark = sorted((relative(one), relative(two)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("place", range(4))
def test_colours_can_be_read_in_light_dark_and_print(place):
    """Text 4.5, and marks 3, against every ground (WCAG 2.1 AA)."""
    themes = [
        dict(re.findall(r"--([\w-]+): (#[0-9a-f]+)", block))
        for block in re.findall(r"\{([^{}]*--ground:[^{}]*)\}", STYLE)
    ]
    assert len(themes) == 4
    assert themes[1] == themes[2]  # asked for by the system, or by the page
    theme = themes[place]
    for ground in ("ground", "raised"):
        for text in ("ink", "soft", "link", "good", "bad"):
            assert contrast(theme[text], theme[ground]) >= 4.5, (text, ground)
    assert contrast(theme["warn"], theme["warn-ground"]) >= 4.5
    for number in (1, 2, 3, 5):
        assert contrast(theme[f"series-{number}"], theme["ground"]) >= 3, number


def test_counts_begin_at_zero():
    items = [charts.DrawnInterval("a", 950, 940, 960), charts.DrawnInterval("b", 990, 980, 999)]
    assert ">0</text>" in charts.intervals(items, title="t", unit=charts.RECORDS)
    assert ">0</text>" not in charts.intervals(items, title="t", unit="years")


def test_calibration_is_drawn_beside_the_line_on_which_chances_come_true():
    bins = [charts.CalibrationBin(0.1, 0.12, 0.05, 0.2), charts.CalibrationBin(0.9, 0.8, 0.7, 1.1)]
    drawing = charts.calibration(bins, title="t")
    assert drawing.count("<circle") == 2
    assert drawing.count('class="reference"') == 1
    assert "predicted 0.9: 0.8, between 0.7 and 1.1" in drawing
    broken = [charts.CalibrationBin(math.nan, 0.1, 0.0, 0.2)]
    assert "nothing to draw" in charts.calibration(broken, title="t")
