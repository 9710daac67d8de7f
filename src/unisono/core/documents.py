"""JSON documents on disk: each begins with its format, and another format is refused.

Files are replaced whole: whoever reads sees the old one or the new one.
"""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unisono.core import journal
from unisono.core.words import clean_lines
from unisono.errors import InvalidInput


def write(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Replace a file: whoever reads sees the old one or the new one."""
    journal.replace(path, content, mode)


def no_link(name: str, flags: int) -> int:
    """Opens a file that is its owner's, and no link that somebody laid in its place."""
    return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


@dataclass(frozen=True)
class Document:
    """A JSON document of a run: its file and its format."""

    file: str
    format: str

    def exists(self, folder: Path) -> bool:
        return (folder / self.file).exists()

    def write(self, folder: Path, content: Mapping[str, Any]) -> dict[str, Any]:
        """Replace the document; returns it as it was written, with its format."""
        whole = {"format": self.format, **content}
        if whole["format"] != self.format:
            raise InvalidInput(
                f"{self.file} is of format {self.format!r}, not {whole['format']!r}: write it "
                "under its own name"
            )
        write(folder / self.file, json.dumps(whole, indent=1, allow_nan=False).encode())
        return whole

    def read(self, folder: Path) -> dict[str, Any] | None:
        """The document with its format, None where there is none yet; another one is refused."""
        path = folder / self.file
        try:
            return self._understood(path.read_bytes())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise journal.unavailable(path, error) from None
        except _Damaged:
            raise InvalidInput(
                f"{path} is damaged: remove it, or restore it from a backup"
            ) from None
        except _OtherFormat as other:
            raise InvalidInput(
                f"{path} {other}: read it with the version of unisono that wrote it"
            ) from None

    def look(self, folder: Path, damaged: list[str]) -> dict[str, Any] | None:
        """As `read`, for those who only look on: what cannot be read is named, and left out."""
        try:
            return self._understood((folder / self.file).read_bytes())
        except FileNotFoundError:
            pass
        except _Damaged:
            damaged.append(self.file)
        except _OtherFormat as other:
            damaged.append(f"{self.file} ({other})")
        except OSError as error:
            damaged.append(f"{self.file} ({error.strerror})")
        return None

    def content(self, folder: Path) -> dict[str, Any] | None:
        """What was written, without the format; see `read`."""
        found = self.read(folder)
        return None if found is None else {k: v for k, v in found.items() if k != "format"}

    def _understood(self, text: bytes) -> dict[str, Any]:
        try:
            found = loads(text)
        except (ValueError, RecursionError):
            raise _Damaged from None
        if not isinstance(found, dict):
            raise _Damaged
        if found.get("format") != self.format:
            raise _OtherFormat(other_format(found, self.format))
        return _shown(found) if _MAY_FORGE.search(text) else found


# Other letters than printable ASCII, or escapes of other letters than those of several lines.
_MAY_FORGE = re.compile(rb"[^\x20-\x7e\n\r\t]|\\[^n\"\\/]")


def _shown(said: Any) -> Any:
    """A document of somebody else's as it may be shown: without letters that a screen obeys."""
    if isinstance(said, str):
        return clean_lines(said)
    if isinstance(said, dict):
        return {clean_lines(key): _shown(own) for key, own in said.items()}
    return [_shown(own) for own in said] if isinstance(said, list) else said


def loads(text: bytes) -> Any:
    """What a JSON text in UTF-8 says; ValueError or RecursionError if it is none. JSON can escape
    half of a pair of surrogates, which no text can hold: a question mark stands for it.

    >>> loads(b'{"title": "a \\\\ud800 b"}')
    {'title': 'a ? b'}
    """
    words = text.decode()
    found = json.loads(words)
    if "\\ud" in words.lower():
        found = json.loads(json.dumps(found, ensure_ascii=False).encode(errors="replace"))
    return found


def other_format(found: Mapping[str, Any], known: str) -> str:
    said = f"is of format {found['format']!r:.60}" if "format" in found else "names no format"
    return f"{said}, where {known!r} is read"


class _Damaged(Exception):
    """No JSON object."""


class _OtherFormat(Exception):
    """Which format a document has, and which is read."""


# What every finished run leaves, and what an estimator saves: the model and what it promises.
RESULT = Document("result.json", "unisono-result-2")
CERTIFICATE = Document("certificate.json", "unisono-certificate-1")
ARRAYS = "result.npz"

__all__ = [
    "ARRAYS",
    "CERTIFICATE",
    "RESULT",
    "Document",
    "loads",
    "no_link",
    "other_format",
    "write",
]
