"""What a cluster or a record says reaches a terminal only as text."""

from __future__ import annotations

import json
import logging
import re
import unicodedata

import pytest
from support.documentation import ROOT

from kafka_share.cli.groups.tables import display_width
from kafka_share.cli.logs import logging_to_stderr
from kafka_share.cli.output import json_text
from kafka_share.harmless import excerpt, harmless


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


def test_one_place_makes_text_harmless() -> None:
    """Errors, log lines and tools write the same escapes; only an endless text is cut, where a line has to be short."""
    text = "".join(map(chr, range(0x250))) + "注文\u200d\u202e\u2066\u2028\ud800"
    assert excerpt(text) == harmless(text)
    shown = excerpt("\x1b" * 2_000)
    assert shown == r"\x1b" * 1_000 + "… (2000 characters)"
    tree = ROOT / "kafka_share"
    others = [path for path in tree.rglob("*.py") if re.search(r"unicode_escape|isprintable", path.read_text("utf-8"))]
    assert {path.relative_to(tree).as_posix() for path in others} == {"cli/front.py", "core/metadata.py"}, (
        "these only look"
    )


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
