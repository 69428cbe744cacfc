"""Parsing and counting, and which input is refused for which reason."""

from __future__ import annotations

import ast
import warnings

import pytest

from kafka_share.cli.demo import definitions
from kafka_share.cli.demo.definitions import Definitions, UnparsableError, count_definitions, quiet_parsing


def test_definitions_are_counted_when_they_are_nested_in_any_statement() -> None:
    source = b"""
def one():
    class Inner:
        async def two(self): pass
if True:
    def three(): pass
elif True:
    class Second: pass
else:
    def four(): pass
for _ in ():
    def five(): pass
else:
    def six(): pass
while False:
    async def seven(): pass
with open('x'):
    def eight(): pass
try:
    def nine(): pass
except OSError:
    def ten(): pass
else:
    def eleven(): pass
finally:
    class Third: pass
match 1:
    case 1:
        def twelve(): pass
lambda: (1 if 2 else 3)
"""
    assert count_definitions("a.py", source) == Definitions(functions=10, async_functions=2, classes=3)


def test_nothing_is_counted_when_the_file_is_empty() -> None:
    assert count_definitions("empty.py", b"") == Definitions()


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(b"def (:\n", id="broken"),
        pytest.param(b"print 'python 2'\n", id="python 2"),
        pytest.param(b"name = '\xff\xfe'\n", id="not UTF-8"),
        pytest.param(b"# -*- coding: no-such-codec -*-\n", id="unknown encoding"),
        pytest.param(b"a = 1\x00\n", id="null byte"),
        pytest.param(b"(" * 100_000, id="too many parentheses"),
        pytest.param(b"-" * 100_000 + b"1", id="nested too deep"),
    ],
)
def test_a_file_is_unparsable_when_python_refuses_it(source: bytes) -> None:
    with pytest.raises(UnparsableError) as caught:
        count_definitions("bad.py", source)
    assert caught.value.reason in {"SyntaxError", "ValueError", "IndentationError", "RecursionError", "MemoryError"}


def test_an_encoding_declaration_is_obeyed_when_the_file_has_one() -> None:
    assert count_definitions("a.py", b"# coding: latin-1\nname = '\xe9'\nclass A: pass\n") == Definitions(classes=1)


def test_the_parsers_warnings_are_silent_when_parsing_is_quiet() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with quiet_parsing():
            count_definitions("folder/a.py", b"name = '\\d'\n")
            warnings.warn("something else", DeprecationWarning, stacklevel=1)
    assert [str(warning.message) for warning in caught] == ["something else"]


def test_no_two_files_are_parsed_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python 3.11 raises SystemError now and then if they are."""
    held: list[bool] = []

    def parse(source: bytes, filename: str) -> ast.Module:
        held.append(definitions._one_parse_at_a_time.locked())
        return ast.Module(body=[], type_ignores=[])

    monkeypatch.setattr("kafka_share.cli.demo.definitions.ast.parse", parse)
    count_definitions("a.py", b"")
    assert held == [True]
    assert not definitions._one_parse_at_a_time.locked()


def test_definitions_add_up() -> None:
    assert Definitions(1, 2, 3) + Definitions(10, 20, 30) == Definitions(11, 22, 33)
