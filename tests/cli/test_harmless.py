"""What a cluster or a record says reaches a terminal only as text."""

from __future__ import annotations

import json
import logging
import unicodedata

import pytest

from kafka_share.cli.harmless import display_width, harmless, harmless_bytes, json_text
from kafka_share.cli.logs import logging_to_stderr


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain äöü 注文 🙂 \\", "plain äöü 注文 🙂 \\"),
        ("a\tb\r\nc", r"a\tb\r\nc"),
        ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
        ("\x9b2J\x85\x7f\x00", r"\x9b2J\x85\x7f\x00"),
        ("a\u202egpj.exe\u2028b\u200f", r"a\u202egpj.exe\u2028b\u200f"),
        ("\ud800", r"\ud800"),
    ],
)
def test_controls_become_visible_escapes(text: str, shown: str) -> None:
    assert harmless(text) == shown


def test_no_control_of_unicode_gets_through() -> None:
    """Every control character, line separator and change of direction is caught, one by one."""
    for number in range(0x11_0000):
        character = chr(number)
        unsafe = unicodedata.category(character) in ("Cc", "Zl", "Zp", "Cs")
        unsafe = unsafe or unicodedata.bidirectional(character) in (
            "LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI",
        )  # fmt: skip
        if unsafe:
            assert harmless(character).isascii(), hex(number)
            assert json_text(character, ascii_only=False).isascii(), hex(number)
            assert json.loads(json_text(character, ascii_only=False)) == character


def test_bytes_that_are_no_text_are_shown_as_escapes() -> None:
    assert harmless_bytes(b"a\xff\x1b[2J\xc3\xa4") == r"a\xff\x1b[2Jä"


def test_json_keeps_its_lines_and_its_letters() -> None:
    """The line ends of an indented document are JSON's own; letters stay readable where the output can have them."""
    assert json_text({"a": "ä\x9b"}, indent=1, ascii_only=False) == '{\n "a": "ä\\u009b"\n}'
    assert json_text("ä\x7f") == '"\\u00e4\\u007f"'


@pytest.mark.parametrize(("text", "columns"), [("abc", 3), ("注文", 4), ("e\u0301", 1), ("ｱ", 1)])
def test_the_width_of_a_text_is_in_columns(text: str, columns: int) -> None:
    assert display_width(text) == columns


def test_a_log_line_of_a_tool_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """What a broker says may stand in a log line, but cannot make a second one; a stack trace stays below it."""
    with logging_to_stderr(debug=True):
        try:
            raise ValueError("why")
        except ValueError:
            logging.getLogger("kafka_share.test").exception("refused: %s", "bad\n2026-01-01 CRITICAL: forged\x1b[2J")
    first, *trace = capsys.readouterr().err.splitlines()
    assert first.endswith(r"refused: bad\n2026-01-01 CRITICAL: forged\x1b[2J")
    assert trace[0].startswith("Traceback")
