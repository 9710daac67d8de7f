"""Docstrings as Markdown: examples that begin with >>> become blocks of code."""

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"(?:^[ ]*>>> .*(?:\n(?![ ]*$).*)*\n?)", re.M)


class Examples(griffe.Extension):
    """Fences around doctests, which Markdown would take for quotations."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = fenced(obj.docstring.value)


def fenced(text: str) -> str:
    """The same text with every doctest in a block of its own.

    >>> fenced("One.\\n\\n>>> 1 + 1\\n2").splitlines()[2]
    '```pycon'
    """
    return _EXAMPLE.sub(lambda found: f"```pycon\n{found[0].rstrip()}\n```\n", text)
