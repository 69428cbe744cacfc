"""Regular expressions of subscriptions: the same names match as with Python's `re`, and nothing takes long."""

from __future__ import annotations

import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_share.broker.name_pattern import NamePattern, PatternError

_pieces = st.recursive(
    st.sampled_from(["a", "b", "-", ".", "[ab]", "[^a]", r"\.", r"\d", r"\W", "^", "$", "[a-c1]"]),
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=1, max_size=3).map(lambda found: f"(?:{'|'.join(found)})"),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "*?"])).map(lambda p: f"(?:{p[0]}){p[1]}"),
    ),
    max_leaves=8,
)


@given(_pieces, st.text("abc-.1", max_size=8))
def test_the_names_match_that_match_for_python(pattern: str, name: str) -> None:
    assert NamePattern(pattern).matches(name) is (re.fullmatch(pattern, name) is not None)


@pytest.mark.parametrize(
    ("pattern", "names", "others"),
    [
        ("", [""], ["a"]),
        ("orders.*", ["orders", "orders-eu"], ["my-orders"]),
        ("(?i)Orders", ["ORDERS", "orders"], ["order"]),
        ("(?i:a)b", ["Ab", "ab"], ["aB"]),
        (r"\Qa.b\E+", ["a.b", "a.bb"], ["axb"]),
        ("[[:alpha:]_]+", ["a_B"], ["a1"]),
        ("(?P<region>eu|us)-x", ["eu-x"], ["eu"]),
        (r"\Aa\z|\x62", ["a", "b"], ["ab"]),
        ("a{2,}", ["aa", "aaaa"], ["a"]),
        ("a{x}", ["a{x}"], ["a"]),
        ("[]a]", ["a"], ["b"]),
    ],
)
def test_what_re2_understands_is_understood(pattern: str, names: list[str], others: list[str]) -> None:
    compiled = NamePattern(pattern)
    assert [name for name in names if not compiled.matches(name)] == []
    assert [name for name in others if compiled.matches(name)] == []


@pytest.mark.parametrize(
    "pattern",
    [
        "(",
        ")",
        "a)",
        "[a",
        "[b-a]",
        "*a",
        "a**",
        "a{3,2}",
        "a{1001}",
        "(?=a)",
        "(?<!a)b",
        r"(a)\1",
        "\\",
        r"\x",
        "(" * 2_000,
        "((a{100}){100}){100}",
    ],
)
def test_what_re2_refuses_is_refused(pattern: str) -> None:
    with pytest.raises(PatternError):
        NamePattern(pattern)


def test_a_pattern_that_backtracking_would_take_years_for_is_answered() -> None:
    assert not NamePattern("(a+)+$").matches("a" * 248 + "b")
    assert not NamePattern("((((a*)*b*)*c*)*d){1000}").matches("abcd" * 60)


def test_without_its_library_a_pattern_is_refused_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(PatternError, match=r"install kafka-share\[broker-patterns\]"):
        NamePattern("a")
