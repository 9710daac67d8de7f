"""The shell of every page: one HTML file that opens offline, in light, dark and on paper.

Nothing is loaded and no script runs: a Content-Security-Policy in the page forbids both, so that
even a mistake in escaping could send nothing anywhere. Whatever is given as plain text is escaped;
only `Markup` is taken as it is.
"""

import base64
import re
from collections.abc import Sequence
from functools import lru_cache
from importlib import resources
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from unisono.core.words import clean_lines

STYLE: str = (resources.files("unisono.reports") / "templates" / "style.css").read_text("utf-8")
_NUMBER = re.compile(r"(1 in )?[-−+<>]?[\d.,\s]*\d(e[-−+]?\d+)?\s?%?")
_LIKE_NUMBERS = ("", "-", "–", "no protection")
_WIDE = 4  # columns from which a table becomes a list of cards on a phone


class Section(NamedTuple):
    """A part of a page; `anchor` is its id, for links."""

    title: str
    body: Markup
    anchor: str


@lru_cache(maxsize=1)
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("unisono.reports"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def render(template: str, **values: Any) -> Markup:
    """A template of this package, filled in; plain text is escaped."""
    return Markup(_environment().get_template(template).render(**values))


def page(title: str, sections: Sequence[Section], *, subtitle: str = "", notice: str = "") -> str:
    """One self-contained HTML file. `notice` is shown loudly above everything."""
    made = render(
        "page.html",
        title=title,
        sections=sections,
        subtitle=subtitle,
        notice=notice,
        style=Markup(STYLE),
    )
    return clean_lines(str(made))  # no text of somebody else's turns what stands beside it


def table(
    header: Sequence[str], rows: Sequence[Sequence[str | Markup]], caption: str = ""
) -> Markup:
    """A table whose first column names its rows.

    On a phone a table of four columns and more becomes cards, a smaller one scrolls sideways.

    >>> print(table(["party", "epsilon"], [["<north>", "1.5"]], "Spent"))
    <div class="scroll" tabindex="0" role="region" aria-label="Spent"><table class="small">
    <caption>Spent</caption>
    <thead><tr><th scope="col">party</th><th scope="col" class="number">epsilon</th></tr></thead>
    <tbody><tr><th scope="row">&lt;north&gt;</th>\
<td class="number" data-label="epsilon">1.5</td></tr></tbody>
    </table></div>
    """
    numeric = [
        column > 0 and bool(rows) and all(_is_number(row[column]) for row in rows)
        for column in range(len(header))
    ]
    return render(
        "table.html",
        header=header,
        rows=rows,
        caption=caption,
        numeric=numeric,
        wide=len(header) >= _WIDE,
    )


def _is_number(words: str) -> bool:
    return words in _LIKE_NUMBERS or _NUMBER.fullmatch(str(words)) is not None


def figure(svg_or_png: str | bytes, alt: str, caption: str = "") -> Markup:
    """A picture with its description in words.

    Charts of this package (`Markup`) are drawn in place; PNG bytes and SVG text from elsewhere are
    embedded as images, in which no script can run.
    """
    if isinstance(svg_or_png, Markup):
        picture = Markup('<div role="img" aria-label="{}">{}</div>').format(alt, svg_or_png)
    else:
        vector = isinstance(svg_or_png, str)
        data = svg_or_png.encode() if isinstance(svg_or_png, str) else svg_or_png
        picture = Markup('<img src="data:image/{};base64,{}" alt="{}">').format(
            "svg+xml" if vector else "png", base64.b64encode(data).decode(), alt
        )
    named = Markup("<figcaption>{}</figcaption>").format(caption) if caption else ""
    return Markup("<figure>{}{}</figure>").format(picture, named)


def paragraphs(*words: str, kind: str = "") -> Markup:
    """Sentences as paragraphs; empty ones are left out."""
    opening = Markup('<p class="{}">').format(kind) if kind else Markup("<p>")
    return Markup("\n").join(opening + Markup("{}</p>").format(word) for word in words if word)


__all__ = ["STYLE", "Section", "figure", "page", "paragraphs", "render", "table"]
