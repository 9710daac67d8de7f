"""What MkDocs does to the pages while it builds them: equations, pictures, the list of commands.

Nothing is loaded from elsewhere when a page is read: equations become MathML, which browsers draw
by themselves, and pictures become part of the page, so that they follow its light or dark colours.
"""

import html
import re
import runpy
from pathlib import Path
from typing import Any

from latex2mathml.converter import convert

DOCS = Path(__file__).parents[1]
COMMANDS = "<!-- commands -->"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the commands in, where a page asks for them."""
    if COMMANDS not in markdown:
        return markdown
    written = runpy.run_path(str(DOCS / "make" / "commands.py"))["reference"]()
    return markdown.replace(COMMANDS, written)


def on_page_content(content: str, **_: Any) -> str:
    """Equations as MathML, and pictures inside the page."""
    content = re.sub(r'<(span|div) class="arithmatex">(.*?)</\1>', _equation, content, flags=re.S)
    return re.sub(r'<img alt="([^"]*)" src="[^"]*pictures/([\w-]+\.svg)"\s*/?>', _picture, content)


def _equation(found: re.Match[str]) -> str:
    display = found[1] == "div"
    tex = html.unescape(found[2]).strip()[2:-2].strip()  # without \( \) or \[ \]
    return equation(tex, display)


def equation(tex: str, display: bool) -> str:
    r"""MathML of one formula, with its source for whoever copies it or cannot see it.

    >>> equation(r"\mu", False)[:47]
    '<math xmlns="http://www.w3.org/1998/Math/MathML'
    """
    drawn = convert(tex, display="block" if display else "inline")
    label = html.escape(" ".join(tex.split()), quote=True)
    return drawn.replace("<math ", f'<math aria-label="{label}" ', 1) if display else drawn


def _picture(found: re.Match[str]) -> str:
    drawing = (DOCS / "pictures" / found[2]).read_text(encoding="utf-8")
    label = f'<svg role="img" aria-label="{found[1]}" class="drawing" '
    # On a telephone the picture keeps its size and can be moved, also by keyboard.
    return f'<span class="frame" tabindex="0">{drawing.replace("<svg ", label, 1)}</span>'
