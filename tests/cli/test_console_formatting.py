"""How `kafka-share-console` prints records: byte for byte as Kafka's own tool did, and as JSON."""

from __future__ import annotations

import base64
import json
import struct
import uuid
from typing import Any

import pytest

from kafka_share import ShareRecord
from kafka_share.cli.console.deserializers import deserializer_of
from kafka_share.cli.console.formatting import PROPERTIES, Formatter, Record
from kafka_share.records import TimestampType

ALL = {name: "true" for name in PROPERTIES if name.startswith("print.")}


def record(offset: int = 0, **changes: Any) -> Record:
    values: dict[str, Any] = {
        "topic": "cli1",
        "partition": 0,
        "offset": offset,
        "timestamp": 1_700_000_000_000 + offset * 1_000,
        "timestamp_type": TimestampType.CREATE_TIME,
        "key": b"k%d" % offset if offset % 2 == 0 else None,
        "value": b"v%d" % offset,
        "headers": (("h", b"x"),),
        "leader_epoch": 0,
        "delivery_count": 1,
    }
    return ShareRecord(**{**values, **changes})


@pytest.mark.behaviour("tools")
def test_all_columns_are_those_of_kafkas_tool() -> None:
    """The console consumer prints the same columns in the same order as Kafka's own tool."""
    printed = b"".join(Formatter(ALL).text(record(offset)) for offset in range(4))
    assert printed == (
        b"CreateTime:1700000000000\tPartition:0\tOffset:0\tDelivery:1\tEpoch:NOT_PRESENT\th:x\tk0\tv0\n"
        b"CreateTime:1700000001000\tPartition:0\tOffset:1\tDelivery:1\tEpoch:NOT_PRESENT\th:x\tnull\tv1\n"
        b"CreateTime:1700000002000\tPartition:0\tOffset:2\tDelivery:1\tEpoch:NOT_PRESENT\th:x\tk2\tv2\n"
        b"CreateTime:1700000003000\tPartition:0\tOffset:3\tDelivery:1\tEpoch:NOT_PRESENT\th:x\tnull\tv3\n"
    )


def test_the_value_alone_is_printed_by_default() -> None:
    """Without properties a record is its value and a line end; no value is the word null."""
    assert Formatter().text(record()) == b"v0\n"
    assert Formatter().text(record(value=None)) == b"null\n"


def test_two_columns_are_as_kafkas_tool_prints_them() -> None:
    """The old property names of the samples: offset and delivery count before the value."""
    formatter = Formatter({"print.offset": "true", "print.delivery": "true"})
    assert formatter.text(record(7)) == b"Offset:7\tDelivery:1\tv7\n"


def test_separators_and_the_null_word_can_be_chosen() -> None:
    """Separators of columns, lines and headers, and the word for nothing, are properties."""
    formatter = Formatter(
        {
            "print.headers": "true",
            "print.key": "TRUE",
            "key.separator": "|",
            "line.separator": ";",
            "headers.separator": "&",
            "null.literal": "-",
        }
    )
    assert formatter.text(record(1, headers=(("a", b"1"), ("b", None)))) == b"a:1&b:-|-|v1;"
    assert formatter.text(record(1, headers=())) == b"NO_HEADERS|-|v1;"


def test_the_kind_of_the_timestamp_is_told() -> None:
    """A timestamp that the broker made, and none, have names of their own."""
    formatter = Formatter({"print.timestamp": "true", "print.value": "false"})
    assert formatter.text(record(timestamp_type=TimestampType.LOG_APPEND_TIME)) == b"LogAppendTime:1700000000000\n"
    assert formatter.text(record(timestamp=-1)) == b"NoTimestampType:-1\n"


def test_json_has_everything_whatever_the_switches_say() -> None:
    """The JSON form is one object per line with every field; bytes that are no text are kept."""
    line = Formatter({"print.value": "false"}).json(record(1, value=b"\xff\n", headers=(("h", None),)))
    assert line.count(b"\n") == 1
    assert json.loads(line) == {
        "topic": "cli1",
        "partition": 0,
        "offset": 1,
        "timestamp_ms": 1_700_000_001_000,
        "timestamp_type": "CreateTime",
        "delivery_count": 1,
        "headers": [["h", None]],
        "key": None,
        "value": {"base64": "/wo="},
    }


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("string", "ä".encode(), "ä"),
        ("org.apache.kafka.common.serialization.StringDeserializer", b"x", "x"),
        ("org.apache.kafka.common.serialization.ByteArrayDeserializer", b"x", "x"),
        ("hex", b"\x00\xff", "00ff"),
        ("short", struct.pack(">h", -2), "-2"),
        ("org.apache.kafka.common.serialization.IntegerDeserializer", struct.pack(">i", -2), "-2"),
        ("long", struct.pack(">q", 2**40), str(2**40)),
        ("float", struct.pack(">f", 0.5), "0.5"),
        ("double", struct.pack(">d", 0.25), "0.25"),
        ("uuid", str(uuid.UUID(int=7)).encode(), str(uuid.UUID(int=7))),
    ],
)
def test_a_deserializer_is_known_by_its_short_and_its_java_name(name: str, data: bytes, expected: str) -> None:
    """What Java's serializers wrote is printed as they meant it."""
    deserialize = deserializer_of(name)
    assert deserialize is not None
    assert deserialize(data) == expected.encode()


def test_a_number_of_the_wrong_size_is_an_error() -> None:
    """Bytes that cannot be what the deserializer says are refused, not guessed at."""
    deserialize = deserializer_of("integer")
    assert deserialize is not None
    with pytest.raises(ValueError, match="1 bytes instead of 4"):
        deserialize(b"1")
    assert deserializer_of("avro") is None


def test_the_bytes_of_payloads_are_printed_as_they_are() -> None:
    """What goes through a pipe is what the producer wrote, whatever it would do to a terminal."""
    anything = bytes(range(256))
    switches = {"print.key": "true", "print.headers": "true"}
    one = record(key=anything, value=anything, headers=(("h", anything),))
    assert Formatter(switches).text(one) == b"h:" + anything + b"\t" + anything + b"\t" + anything + b"\n"


def test_a_terminal_is_safe_from_payloads() -> None:
    """On a terminal, controls of keys, values, header names and header values stand as escapes; letters stay."""
    switches = {"print.key": "true", "print.headers": "true"}
    one = record(key=b"\x1b[2J", value="größe\n\x9b".encode() + b"\xff", headers=(("\x1b]0;", b"\x07"),))
    shown = Formatter(switches, for_terminal=True).text(one).decode()
    assert shown == "\\x1b]0;:\\x07\t\\x1b[2J\tgröße\\n\\x9b\\xff\n"


def test_json_of_payloads_controls_no_terminal_and_loses_nothing() -> None:
    """Text stays text, with C1 controls as escapes; what is not UTF-8 stands as base64."""
    one = record(key="\x9b2J ä".encode(), value=b"\xff\x00", headers=(("h", b"\xfe"),))
    line = Formatter().json(one)
    assert b"\\u009b2J \xc3\xa4" in line
    document = json.loads(line)
    assert document["key"] == "\x9b2J ä"
    assert base64.b64decode(document["value"]["base64"]) == b"\xff\x00"
    assert base64.b64decode(document["headers"][0][1]["base64"]) == b"\xfe"
