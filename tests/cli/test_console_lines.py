"""What a line of `kafka-share-console --produce` becomes."""

from __future__ import annotations

import pytest

from kafka_share.cli.console.lines import BadLineError, JsonLines, Line, TextLines


@pytest.mark.parametrize(
    ("parse", "line", "expected"),
    [
        (TextLines(), b"a:b", Line(None, b"a:b")),
        (TextLines(b":"), b"a:b:c", Line(b"a", b"b:c")),
        (TextLines(b":"), b":", Line(b"", b"")),
        (TextLines(b":", b"-"), b"a:-", Line(b"a", None)),
        (TextLines(b":", b""), b"a:", Line(b"a", None)),
        (TextLines(b":", b"-"), b"-:a", Line(None, b"a")),
        (TextLines(None, b"-", (("h", b"1"),)), b"\xff", Line(None, b"\xff", (("h", b"1"),))),
        (JsonLines(), b'{"value": "\xc3\xa4"}', Line(None, b"\xc3\xa4")),
        (JsonLines(), b'{"key": {"base64": "/w=="}, "value": null, "offset": 7}', Line(b"\xff", None)),
        (JsonLines((("b", b""),)), b'{"value": "", "headers": [["a", ""]]}', Line(None, b"", (("a", b""), ("b", b"")))),
    ],
)  # fmt: skip
def test_a_line_is_a_record(parse: TextLines | JsonLines, line: bytes, expected: Line) -> None:
    assert parse(line) == expected


@pytest.mark.parametrize(
    ("parse", "line", "said"),
    [
        (TextLines(b":"), b"ab", "no separator ':'"),
        (TextLines(None, b"-"), b"-", "neither a key nor a value"),
        (JsonLines(), b"{", "not JSON"),
        (JsonLines(), b"\xff", "not JSON"),
        (JsonLines(), b"[]", 'not an object with a "value"'),
        (JsonLines(), b'{"vaule": "1"}', 'not an object with a "value"'),
        (JsonLines(), b'{"value": "1", "keys": "2"}', "no field 'keys'"),
        (JsonLines(), b'{"value": 1}', '"value" is text, null'),
        (JsonLines(), b'{"value": {"base64": "!"}}', '"value" is not base64'),
        (JsonLines(), b'{"value": {"base64": 1}}', '"value" is text, null'),
        (JsonLines(), b'{"value": "\\ud800"}', "half of a character"),
        (JsonLines(), b'{"value": "1", "headers": {"a": "b"}}', '"headers" is a list'),
        (JsonLines(), b'{"value": "1", "headers": [["a"]]}', '"headers" is a list'),
        (JsonLines(), b'{"value": "1", "headers": [["a", null]]}', "header 'a' is null"),
        (JsonLines(), b'{"value": null}', "neither a key nor a value"),
    ],
)
def test_a_line_that_is_no_record_says_what_it_lacks(parse: TextLines | JsonLines, line: bytes, said: str) -> None:
    with pytest.raises(BadLineError, match=said.replace("(", r"\(")):
        parse(line)
