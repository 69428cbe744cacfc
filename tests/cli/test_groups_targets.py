"""What the values of the reset and config options of `kafka-share-groups` mean."""

from __future__ import annotations

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_share.cli.endings import ToolFailedError
from kafka_share.cli.groups.targets import (
    offsets_as_csv,
    parse_config_changes,
    parse_offsets_file,
    parse_span_ms,
    parse_time_ms,
    parse_topics,
)
from kafka_share.cli.options import MAX_OFFSET
from kafka_share.records import TopicPartition


def test_a_topic_may_name_its_partitions() -> None:
    """t is all of a topic, t:0,1 are two of its partitions; what is named twice is taken together."""
    assert parse_topics(["a", "b:0,1"]) == {"a": None, "b": (0, 1)}
    assert parse_topics(["b:0", "b:1,0"]) == {"b": (0, 1)}
    assert parse_topics(["b:0", "b"]) == {"b": None}
    assert parse_topics(["b", "b:0"]) == {"b": None}


@pytest.mark.parametrize("text", ["t:x", "t:", "t:0,", "t:-1", "t:1:2", "t:²"])
def test_a_partition_that_is_no_number_is_a_usage_error(text: str) -> None:
    """The partitions behind a topic are whole numbers."""
    with pytest.raises(click.UsageError, match="is not the number of a partition"):
        parse_topics([text])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2023-11-14T22:13:24.500", 1_700_000_004_500),
        ("2023-11-14T22:13:24.500Z", 1_700_000_004_500),
        ("2023-11-14T22:13:24.500+00:00", 1_700_000_004_500),
        ("2023-11-15T00:13:24.500+02:00", 1_700_000_004_500),
        ("2023-11-14T16:43:24.500-0530", 1_700_000_004_500),
        ("2023-11-14T21:13:24.5-01", 1_700_000_004_500),
        ("2023-11-14T22:13:24", 1_700_000_004_000),
        ("2023-11-14T22:13", 1_699_999_980_000),
        ("1969-12-31T23:59:59.999", -1),
    ],
)
def test_a_time_is_utc_unless_it_says_otherwise(text: str, expected: int) -> None:
    """Times are read as milliseconds since 1970, in UTC without an offset."""
    assert parse_time_ms(text) == expected


def test_a_day_is_its_first_moment_in_utc() -> None:
    assert parse_time_ms("2023-11-14") == parse_time_ms("2023-11-14T00:00:00.000Z")


@pytest.mark.parametrize("text", ["nonsense", "2023-11-1", "2023-13-14T00:00:00.000", "2023-11-14T25:00", "", "T"])
def test_what_is_no_time_is_refused_with_an_example(text: str) -> None:
    """The message shows how a time is written."""
    with pytest.raises(ToolFailedError, match="is not a time") as refused:
        parse_time_ms(text)
    assert refused.value.kind == "value"


def test_a_span_is_an_iso_duration() -> None:
    """Days, hours, minutes and seconds; backwards only."""
    assert parse_span_ms("PT1H30M") == 5_400_000
    assert parse_span_ms("P2D") == 172_800_000
    assert parse_span_ms("1h30m") == 5_400_000
    assert parse_span_ms("2d4s") == 172_804_000
    for text in ("1", "1m1h", "h", "-1h", "-PT1H", "P", ""):
        with pytest.raises(ToolFailedError, match="such as 1h30m"):
            parse_span_ms(text)


names = st.text(st.characters(codec="ascii", exclude_categories=["Cc"]), min_size=1).filter(lambda s: s == s.strip())
partitions = st.builds(TopicPartition, names, st.integers(0, 2**31 - 1))


@given(st.dictionaries(partitions, st.integers(0, MAX_OFFSET), min_size=1))
def test_exported_offsets_are_read_back(offsets: dict[TopicPartition, int]) -> None:
    """What --export prints is what --from-file reads."""
    assert parse_offsets_file(offsets_as_csv(offsets), "g", "file") == offsets


def test_a_file_may_name_its_group() -> None:
    """Lines with four fields begin with the group, which has to be the one that is reset."""
    assert parse_offsets_file("g,t,0,5\n\nt,1,6\n", "g", "f") == {TopicPartition("t", 0): 5, TopicPartition("t", 1): 6}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("other,t,0,5\n", "f, line 1 is about group 'other'"),
        ("t,0,5\nt,0\n", "f, line 2: 't,0' is not topic,partition,offset"),
        ("t,0,-1\n", "is not topic,partition,offset"),
        ("t,x,1\n", "is not topic,partition,offset"),
        (",0,1\n", "is not topic,partition,offset"),
        ("t,0,5\nt,0,6\n", "f, line 2: t-0 has an offset already"),
        (f"t,0,{MAX_OFFSET + 1}\n", "is larger than an offset can be"),
        ("", "f has no line"),
    ],
)
def test_a_file_that_is_wrong_is_refused_with_its_line(text: str, message: str) -> None:
    """A file of offsets is taken as a whole or not at all."""
    with pytest.raises(ToolFailedError, match=message):
        parse_offsets_file(text, "g", "f")


def test_config_changes_are_written_as_for_kafkas_own_tool() -> None:
    """Pairs are separated by commas; brackets keep a value with commas together; no value unsets."""
    assert parse_config_changes(["a=1,b=[x,y]", "c=by_duration:PT1H"], ["d,e"]) == {
        "a": "1",
        "b": "x,y",
        "c": "by_duration:PT1H",
        "d": None,
        "e": None,
    }
    assert parse_config_changes(["a="], []) == {"a": ""}


@pytest.mark.parametrize(
    ("to_set", "to_unset", "message"),
    [
        (["a"], [], "NAME=VALUE"),
        (["=1"], [], "NAME=VALUE"),
        (["a=1,a=2"], [], "a is changed twice"),
        (["a=1"], ["a"], "a is changed twice"),
        ([], ["a,"], "NAME"),
    ],
)
def test_config_changes_that_contradict_themselves_are_usage_errors(
    to_set: list[str], to_unset: list[str], message: str
) -> None:
    """Each config is set or unset once, and has a name."""
    with pytest.raises(click.UsageError, match=message):
        parse_config_changes(to_set, to_unset)
