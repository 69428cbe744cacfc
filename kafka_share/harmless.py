"""Text from outside, made harmless: names, error texts and payloads move no terminal's cursor and forge no log line.

Errors, log lines and every view of the command-line tools send through here what a cluster or a record told them. On a
pipe the bytes of payloads stay as they are; `kafka_share.cli.console` decides that. Pure functions.
"""

from __future__ import annotations

import re
from typing import Final

_DIRECTIONS: Final = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
"""They change the order in which a line is shown."""
_LINES: Final = "\u2028\u2029"
_SURROGATES: Final = "\ud800-\udfff"
UNSAFE: Final = re.compile(f"[\x00-\x1f\x7f-\x9f{_LINES}{_DIRECTIONS}{_SURROGATES}]")
"""Every character that a terminal or the reader of a log could take for something else than text."""
_NAMED: Final = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}
_LONGEST_EXCERPT: Final = 1_000


def harmless(text: str) -> str:
    r"""The text with its controls as visible escapes, such as \n and \x1b. Everything else stays, in any script."""
    return UNSAFE.sub(_visible, text)


def excerpt(text: str) -> str:
    """The same for an error's message or a line of a log: of an endless text only the beginning, and its length."""
    if len(text) > _LONGEST_EXCERPT:
        text = f"{text[:_LONGEST_EXCERPT]}… ({len(text)} characters)"
    return harmless(text)


def _visible(found: re.Match[str]) -> str:
    character = found[0]
    number = ord(character)
    return _NAMED.get(character) or (f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}")
