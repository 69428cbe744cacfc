"""How `kafka-share-console` prints a record: the columns of Kafka's own tool, or JSON. Pure functions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

import attrs

from kafka_share.cli.console.deserializers import DESERIALIZERS, Deserializer
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
    """Text of records, by the formatter properties."""

    properties: Mapping[str, str] = attrs.field(factory=dict)
    key: Deserializer = DESERIALIZERS["string"]
    value: Deserializer = DESERIALIZERS["string"]

    def _is_on(self, name: str) -> bool:
        return self.properties.get(name, str(name == "print.value")).strip().lower() == "true"

    def _text(self, name: str) -> str:
        return self.properties.get(name, _TEXTS[name])

    def text(self, record: Record) -> str:
        """The columns that are on, with separator and line end. Raises ValueError if a deserializer does."""
        columns = [column for name, column in self._columns(record) if self._is_on(name)]
        return self._text("key.separator").join(columns) + self._text("line.separator")

    def _columns(self, record: Record) -> list[tuple[str, str]]:
        return [
            ("print.timestamp", f"{_timestamp_type(record)}:{record.timestamp}"),
            ("print.partition", f"Partition:{record.partition}"),
            ("print.offset", f"Offset:{record.offset}"),
            ("print.delivery", f"Delivery:{record.delivery_count}"),
            # Kafka's own share consumer tells no leader epoch either.
            ("print.epoch", "Epoch:NOT_PRESENT"),
            ("print.headers", self._headers(record) if self._is_on("print.headers") else ""),
            ("print.key", self._bytes(record.key, self.key) if self._is_on("print.key") else ""),
            ("print.value", self._bytes(record.value, self.value) if self._is_on("print.value") else ""),
        ]

    def _headers(self, record: Record) -> str:
        if not record.headers:
            return "NO_HEADERS"
        text = DESERIALIZERS["string"]
        return self._text("headers.separator").join(
            f"{name}:{self._bytes(value, text)}" for name, value in record.headers
        )

    def _bytes(self, data: bytes | None, deserialize: Deserializer) -> str:
        return self._text("null.literal") if data is None else deserialize(data)

    def json(self, record: Record) -> str:
        """One object, one line; the switches have no say in it."""
        text = DESERIALIZERS["string"]
        document: dict[str, Any] = {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp_ms": record.timestamp,
            "timestamp_type": _timestamp_type(record),
            "delivery_count": record.delivery_count,
            "headers": [[name, None if value is None else text(value)] for name, value in record.headers],
            "key": None if record.key is None else self.key(record.key),
            "value": None if record.value is None else self.value(record.value),
        }
        return json.dumps(document, ensure_ascii=False) + "\n"


def _timestamp_type(record: Record) -> str:
    return "NoTimestampType" if record.timestamp < 0 else ("CreateTime", "LogAppendTime")[record.timestamp_type]
