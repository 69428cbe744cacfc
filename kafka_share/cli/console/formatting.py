"""How `kafka-share-console` prints a record: the columns of Kafka's own tool, or JSON. Pure functions.

Bytes of keys, values and headers are printed as they are, unless a terminal reads them: then their controls stand as
escapes. In JSON, what is not UTF-8 is {"base64": …}, so nothing is lost.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from kafka_share.cli.console.deserializers import DESERIALIZERS, Deserializer
from kafka_share.cli.output import json_bytes, json_text
from kafka_share.harmless import harmless
from kafka_share.records import ShareRecord

Record = ShareRecord[bytes | None, bytes | None]

_SWITCHES: Final = (
    "print.timestamp",
    "print.partition",
    "print.offset",
    "print.delivery",
    "print.epoch",
    "print.headers",
    "print.key",
    "print.value",
)
_TEXTS: Final = {
    "key.separator": "\t",
    "line.separator": "\n",
    "headers.separator": ",",
    "null.literal": "null",
}
PROPERTIES: Final = (*_SWITCHES, *_TEXTS)
"""The properties of the formatter, in the order of the columns that they switch."""


@attrs.frozen
class Formatter:
    """Output of records, by the formatter properties."""

    properties: Mapping[str, str] = attrs.field(factory=dict)
    key: Deserializer = DESERIALIZERS["string"]
    value: Deserializer = DESERIALIZERS["string"]
    for_terminal: bool = False

    def _is_on(self, name: str) -> bool:
        return self.properties.get(name, str(name == "print.value")).strip().lower() == "true"

    def _text(self, name: str) -> bytes:
        return self.properties.get(name, _TEXTS[name]).encode()

    def text(self, record: Record) -> bytes:
        """The columns that are on, with separator and line end. Raises ValueError if a deserializer does."""
        columns = [column for name, column in self._columns(record) if self._is_on(name)]
        return self._text("key.separator").join(columns) + self._text("line.separator")

    def _columns(self, record: Record) -> list[tuple[str, bytes]]:
        return [
            ("print.timestamp", f"{_timestamp_type(record)}:{record.timestamp}".encode()),
            ("print.partition", b"Partition:%d" % record.partition),
            ("print.offset", b"Offset:%d" % record.offset),
            ("print.delivery", b"Delivery:%d" % record.delivery_count),
            # Kafka's own share consumer tells no leader epoch either.
            ("print.epoch", b"Epoch:NOT_PRESENT"),
            ("print.headers", self._headers(record) if self._is_on("print.headers") else b""),
            ("print.key", self._bytes(record.key, self.key) if self._is_on("print.key") else b""),
            ("print.value", self._bytes(record.value, self.value) if self._is_on("print.value") else b""),
        ]

    def _headers(self, record: Record) -> bytes:
        if not record.headers:
            return b"NO_HEADERS"
        text = DESERIALIZERS["string"]
        return self._text("headers.separator").join(
            self._shown(name.encode()) + b":" + self._bytes(value, text) for name, value in record.headers
        )

    def _bytes(self, data: bytes | None, deserialize: Deserializer) -> bytes:
        return self._text("null.literal") if data is None else self._shown(deserialize(data))

    def _shown(self, data: bytes) -> bytes:
        return harmless(data.decode("utf-8", "backslashreplace")).encode() if self.for_terminal else data

    def json(self, record: Record) -> bytes:
        """One object, one line; the switches have no say in it. Raises ValueError if a deserializer does."""
        document: dict[str, Any] = {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp_ms": record.timestamp,
            "timestamp_type": _timestamp_type(record),
            "delivery_count": record.delivery_count,
            "headers": [[name, json_bytes(value)] for name, value in record.headers],
            "key": json_bytes(None if record.key is None else self.key(record.key)),
            "value": json_bytes(None if record.value is None else self.value(record.value)),
        }
        return json_text(document, ascii_only=False).encode() + b"\n"


def _timestamp_type(record: Record) -> str:
    return "NoTimestampType" if record.timestamp < 0 else ("CreateTime", "LogAppendTime")[record.timestamp_type]
