"""Text from outside, made harmless: names, error texts and payloads must not move a terminal's cursor or colour it.

Every view of the command-line tools sends through `harmless` what a cluster told it, and writes JSON with `json_text`.
On a pipe the bytes of payloads stay as they are; `kafka_share.cli.console` decides that. Pure functions.
"""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Any, Final

_DIRECTIONS: Final = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
"""They change the order in which a line is shown."""
_LINES: Final = "\u2028\u2029"
_SURROGATES: Final = "\ud800-\udfff"
_UNSAFE: Final = re.compile(f"[\x00-\x1f\x7f-\x9f{_LINES}{_DIRECTIONS}{_SURROGATES}]")
_UNSAFE_IN_JSON: Final = re.compile(f"[\x7f-\x9f{_LINES}{_DIRECTIONS}{_SURROGATES}]")
"""What `json.dumps` lets through; the controls below the blank it writes as escapes itself."""
_NAMED: Final = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def harmless(text: str) -> str:
    r"""The text with its controls as visible escapes, such as \n and \x1b. Everything else stays, in any script."""
    return _UNSAFE.sub(_visible, text)


def harmless_bytes(data: bytes) -> str:
    r"""Bytes as such a text; what is not UTF-8 becomes \xff."""
    return harmless(data.decode("utf-8", "backslashreplace"))


def json_text(document: Any, *, indent: int | None = None, ascii_only: bool = True) -> str:
    """The document as JSON, without a line end; nothing in it controls a terminal, and nothing of it is lost."""
    text = json.dumps(document, indent=indent, ensure_ascii=ascii_only)
    return _UNSAFE_IN_JSON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def display_width(text: str) -> int:
    """How many columns of a terminal the text takes."""
    if text.isascii():
        return len(text)
    return sum(map(_columns, text))


def _columns(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _visible(found: re.Match[str]) -> str:
    character = found[0]
    number = ord(character)
    return _NAMED.get(character) or (f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}")
