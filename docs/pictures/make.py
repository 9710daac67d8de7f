"""Draw the pictures of the concept pages: `python docs/pictures/make.py`.

Each is an SVG of a few boxes, arrows and lines. Colours are variables of the page, with fallbacks
for readers who open the file alone, so that light and dark both have contrast. Numbers in the
pictures are computed here by the library, never typed in.
"""

import html
import math
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent
STYLE = """<style>
.drawing{--ink:var(--md-default-fg-color,#222);--soft:var(--md-default-fg-color--light,#555)}
.drawing{--paper:var(--md-default-bg-color,#fff)}
svg:root{--ink:#222;--soft:#555;--paper:#fff}
@media (prefers-color-scheme:dark){
svg:root{--ink:#e8e8e8;--soft:#b5b5b5;--paper:#1e2129;background:#1e2129}}
text{paint-order:stroke;stroke:var(--paper);stroke-width:0}.d-o{stroke-width:7px}
.d-t,.d-o{fill:var(--ink);font:15px system-ui,sans-serif}
.d-s{fill:var(--soft);font:13px system-ui,sans-serif}
.d-b{fill:var(--ink);font:600 16px system-ui,sans-serif}
.d-l{stroke:var(--ink);stroke-width:1.6;fill:none}.d-g{stroke:var(--soft);stroke-width:1;opacity:.35}
</style>"""
# Okabe and Ito's palette, which people with any colour vision tell apart.
BLUE, ORANGE, GREEN, RED, PURPLE = "#0a84c8", "#e69f00", "#009e73", "#d55e00", "#cc79a7"


def text(x: float, y: float, words: str, kind: str = "t", anchor: str = "middle") -> str:
    """Words: "b" bold, "t" plain, "s" small, "o" plain over a line."""
    place = f'x="{x:g}" y="{y:g}" text-anchor="{anchor}"'
    return f'<text class="d-{kind}" {place}>{html.escape(words)}</text>'


def box(x: float, y: float, w: float, h: float, words: Sequence[str], colour: str) -> str:
    """A rounded box around lines of text, the first of them bold."""
    parts = [
        f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="9" fill="{colour}" '
        f'fill-opacity=".14" stroke="{colour}" stroke-width="2"/>'
    ]
    top = y + h / 2 - 10 * (len(words) - 1) + 5
    for number, line in enumerate(words):
        parts.append(text(x + w / 2, top + 20 * number, line, "s" if number else "b"))
    return "".join(parts)


def arrow(x: float, y: float, to_x: float, to_y: float, colour: str, dashed: bool = False) -> str:
    """A line with a head, drawn as two strokes so that it needs no shared marker."""
    angle = math.atan2(to_y - y, to_x - x)
    ends = " ".join(
        f"M{to_x - 10 * math.cos(angle + turn):.1f},{to_y - 10 * math.sin(angle + turn):.1f}"
        f"L{to_x:.1f},{to_y:.1f}"
        for turn in (0.45, -0.45)
    )
    dash = ' stroke-dasharray="5 4"' if dashed else ""
    return (
        f'<path d="M{x:.1f},{y:.1f}L{to_x:.1f},{to_y:.1f}" stroke="{colour}" stroke-width="2"'
        f'{dash} fill="none"/><path d="{ends}" stroke="{colour}" stroke-width="2" fill="none"/>'
    )


def drawing(width: int, height: int, *parts: str) -> str:
    inside = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">{STYLE}\n'
        f"{inside}\n</svg>\n"
    )


# ------------------------------------------------------------------------- the pictures


def trust() -> str:
    """Three columns: where the noise is added, and what the server sees."""
    columns = (
        ("local", "all noise at home", "noisy values", "single noisy values", GREEN),
        ("secure sum", "a share of the noise", "masked numbers", "the noisy sum only", BLUE),
        ("trusted server", "no noise at home", "clean values", "everything: trust it", RED),
    )
    parts = []
    for number, (name, home, sent, seen, colour) in enumerate(columns):
        left = 10 + 250 * number
        parts += [text(left + 115, 20, name, "b"), text(left + 115, 40, home, "s")]
        for k in range(3):
            parts.append(box(left + 78 * k, 52, 70, 40, ["ABC"[k]], colour))
            parts.append(arrow(left + 35 + 78 * k, 95, left + 95 + 20 * k, 172, colour))
        parts.append(text(left + 115, 134, sent, "o"))
        parts.append(box(left + 30, 176, 170, 58, ["server", f"sees {seen}"], colour))
        parts.append(arrow(left + 115, 236, left + 115, 276, colour))
        parts.append(text(left + 115, 296, "the public sees the noisy result", "s"))
    return drawing(750, 310, *parts)


def viewers() -> str:
    """Who stands where, along the way from records to result."""
    stops = ((95, "records"), (300, "message"), (505, "noisy sum"), (690, "result"))
    parts = [
        box(x - 80, 90, 160 if x < 650 else 120, 50, [name], BLUE if x > 400 else ORANGE)
        for x, name in stops
    ]
    parts += [arrow(a, 115, b, 115, BLUE) for a, b in ((178, 216), (383, 421), (588, 606))]
    seen = (
        (95, "the party itself", "knows its records: no claim", 190),
        (300, "network", "encrypted channels", 190),
        (300, "server", "a noisy, masked or clean value", 40),
        (505, "iterates", "every intermediate result", 190),
        (505, "another party", "knows its own share of noise", 40),
        (670, "final-model", "the result alone", 190),
    )
    for x, name, what, y in seen:
        parts += [text(x, y, name, "b"), text(x, y + 19, what, "s")]
        parts.append(
            arrow(x, y - 18, x, 144, PURPLE, True)
            if y > 100
            else arrow(x, y + 24, x, 86, PURPLE, True)
        )
    parts.append(text(375, 256, "colluders:t = the server and t parties, with all they know"))
    return drawing(750, 275, *parts)


def relations() -> str:
    """One data set and its neighbour under each relation."""
    rows = (
        ("replace-one", "your record becomes any other", 5, "swap", "moves a sum by up to 2"),
        ("zero-out", "your record counts as nothing", 5, "blank", "moves a sum by up to 1"),
        ("add-or-remove", "your record is not there", 4, "gone", "and the number is hidden"),
    )
    parts = []
    for number, (name, words, count, change, price) in enumerate(rows):
        y = 62 + 84 * number
        parts += [text(10, y + 2, name, "b", "start"), text(10, y + 22, words, "s", "start")]
        for side, start in (("before", 265), ("after", 470)):
            for k in range(5 if side == "before" else count):
                mine = k == 2
                shape = change if side == "after" and mine and change != "gone" else ""
                fill = ORANGE if mine and (side == "before" or shape == "swap") else BLUE
                fill = PURPLE if shape == "swap" else fill
                opacity = "0" if shape == "blank" else ".75"
                dash = ' stroke-dasharray="3 3"' if shape == "blank" else ""
                if side == "after" and change == "gone":
                    fill = BLUE
                parts.append(
                    f'<circle cx="{start + 34 * k}" cy="{y}" r="13" fill="{fill}" '
                    f'fill-opacity="{opacity}" stroke="{fill}" stroke-width="2"{dash}/>'
                )
        parts.append(arrow(424, y, 446, y, GREEN))
        parts.append(text(538, y + 36, price, "s"))
    parts += [text(333, 24, "one world", "b"), text(538, 24, "its neighbour", "b")]
    return drawing(750, 290, *parts)


def masks() -> str:
    """A secure sum of three numbers modulo 100, with masks that cancel."""
    values, pairs = (12, 30, 25), {(0, 1): 58, (0, 2): 17, (1, 2): 83}
    sent = list(values)
    for (one, other), mask in pairs.items():
        sent[one], sent[other] = (sent[one] + mask) % 100, (sent[other] - mask) % 100
    parts = []
    for k, name in enumerate("ABC"):
        x = 30 + 250 * k
        terms = [f"{'+' if k == pair[0] else '-'} {m}" for pair, m in pairs.items() if k in pair]
        parts.append(box(x, 20, 190, 62, [name, f"{values[k]} {' '.join(terms)}"], ORANGE))
        parts.append(arrow(x + 95, 84, 375 + 60 * (k - 1), 168, BLUE))
        parts.append(text(x + 95 + 70 * (1 - k), 130, f"sends {sent[k]}", "o"))
    total = sum(sent) % 100
    added = " + ".join(map(str, sent))
    parts.append(box(245, 170, 260, 62, ["server", f"{added} = {total}"], BLUE))
    truth = " + ".join(map(str, values))
    words = f"modulo 100: every mask is added once and subtracted once; {total} = {truth}"
    parts.append(text(375, 262, words, "s"))
    return drawing(750, 280, *parts)


def chart(
    series: Sequence[tuple[str, str, Sequence[float]]],
    across: Sequence[float],
    *,
    x_label: str,
    y_label: str,
    top: float,
    ticks: Sequence[float],
    marks: Sequence[float],
) -> str:
    """Lines over a linear axis, each named at its right end."""
    left, right, up, down = 70, 560, 20, 270

    def place(x: float, y: float) -> tuple[float, float]:
        return (left + (right - left) * x / across[-1], down - (down - up) * min(y, top) / top)

    parts = [f'<path class="d-l" d="M{left},{up}V{down}H{right}"/>']
    for y in ticks:
        parts.append(f'<path class="d-g" d="M{left},{place(0, y)[1]:.1f}H{right}"/>')
        parts.append(text(left - 10, place(0, y)[1] + 5, f"{y:g}", "s", "end"))
    parts += [text(place(x, 0)[0], down + 20, f"{x:g}", "s") for x in marks]
    for name, colour, values in series:
        shown = [(x, y) for x, y in zip(across, values, strict=True) if y <= top * 1.001]
        points = "L".join(f"{a:.1f},{b:.1f}" for a, b in (place(x, y) for x, y in shown))
        parts.append(f'<path d="M{points}" stroke="{colour}" stroke-width="3" fill="none"/>')
        x, y = place(*shown[-1])
        parts.append(text(min(x + 10, right + 8), max(y + 5, 30), name, "t", "start"))
    parts.append(text((left + right) / 2, 308, x_label))
    parts.append(f'<g transform="rotate(-90 18 145)">{text(18, 145, y_label)}</g>')
    return drawing(750, 320, *parts)


def composition() -> str:
    """What T Gaussian releases cost: basic composition, a theorem, and the exact curve."""
    from unisono.accounting import gaussian, theorems

    mu, delta = gaussian.mu_for(0.2, 5e-8), 1e-5
    counts = [1, *range(5, 101, 5)]
    exact = [gaussian.epsilon(delta, mu * math.sqrt(t)) for t in counts]
    strong = [min(0.2 * t, theorems.strong(0.2, 5e-8, t, delta)) for t in counts]
    return chart(
        [
            ("added up", RED, [0.2 * t for t in counts]),
            ("advanced theorem", ORANGE, strong),
            ("exact: what we book", BLUE, exact),
        ],
        counts,
        x_label="releases of epsilon 0.2 each",
        y_label="epsilon of all, delta 1e-5",
        top=20,
        ticks=(5, 10, 15, 20),
        marks=(1, 25, 50, 75, 100),
    )


def guesses() -> str:
    """The success probability of the best attack, for an epsilon."""
    across = [k / 20 for k in range(161)]
    pure = [100 * math.exp(e) / (1 + math.exp(e)) for e in across]
    return chart(
        [("best attack", BLUE, pure), ("chance", ORANGE, [50.0] * len(across))],
        across,
        x_label="epsilon",
        y_label="success, per cent, at most",
        top=100,
        ticks=(50, 75, 90, 100),
        marks=(0, 1, 2, 4, 6, 8),
    )


PICTURES = {
    "trust": trust,
    "viewers": viewers,
    "relations": relations,
    "masks": masks,
    "composition": composition,
    "guesses": guesses,
}

if __name__ == "__main__":
    for name, draw in PICTURES.items():
        (HERE / f"{name}.svg").write_text(draw(), encoding="utf-8")
