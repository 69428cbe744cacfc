"""What a copy in a retry topic says: the record as it was, where it comes from, and when it is to be tried again.

A worker writes such copies, and the worker that gets one waits until its time has come. All values are UTF-8 text.
Nothing here does I/O or reads a clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import attrs

from kafka_share.errors import RemoteProtocolError
from kafka_share.producing.producer import Headers, OutgoingRecord
from kafka_share.records import ShareRecord

PREFIX: Final = "__retry."
ATTEMPT: Final = f"{PREFIX}attempt"
"""Which copy of the record this is, from 1."""
NOT_BEFORE: Final = f"{PREFIX}not.before"
"""The time from which it is to be tried, in milliseconds since 1970."""
TOPIC: Final = f"{PREFIX}topic"
PARTITION: Final = f"{PREFIX}partition"
OFFSET: Final = f"{PREFIX}offset"
TIMESTAMP: Final = f"{PREFIX}timestamp"
"""These four are of the record itself, also of a copy of a copy."""

_NOT_THE_RECORDS: Final = ("__dlq.errors.", PREFIX)


@attrs.frozen
class Returned:
    """Where a record comes from, and how often it was sent round."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    attempt: int = 0
    not_before_ms: int = 0


def returned(record: ShareRecord[Any, Any]) -> Returned:
    """What its headers say; of a record that was not sent round, where it is."""
    try:
        said = {name: value for name, value in record.headers if name.startswith(PREFIX)} if record.headers else {}
        if ATTEMPT in said:
            place = [int(said[name] or b"") for name in (PARTITION, OFFSET, TIMESTAMP, ATTEMPT, NOT_BEFORE)]
            return Returned((said[TOPIC] or b"").decode(), *place)
    except (RemoteProtocolError, ValueError, KeyError):
        pass  # somebody else's headers
    return Returned(record.topic, record.partition, record.offset, record.timestamp)


def not_before_ms(record: ShareRecord[Any, Any]) -> int:
    """When a copy is to be tried; 0 for a record that was not sent round, which most have no header to say."""
    try:
        if not record.headers:
            return 0
    except RemoteProtocolError:
        return 0
    return returned(record).not_before_ms


def retry_copy(record: ShareRecord[Any, Any], topic: str, attempt: int, not_before_ms: int) -> OutgoingRecord:
    """The record for a retry topic. Raises `AttributeError` for a record without its bytes."""
    origin = returned(record)
    said = {
        ATTEMPT: str(attempt),
        NOT_BEFORE: str(not_before_ms),
        TOPIC: origin.topic,
        PARTITION: str(origin.partition),
        OFFSET: str(origin.offset),
        TIMESTAMP: str(origin.timestamp),
    }
    headers = (*own_headers(record.headers), *((name, value.encode()) for name, value in said.items()))
    return OutgoingRecord(topic, record.raw_key, record.raw_value, headers)


def own_headers(headers: Iterable[tuple[str, bytes | None]]) -> Headers:
    """The headers without those of a dead letter and of a copy in a retry topic."""
    return tuple((name, value) for name, value in headers if not name.startswith(_NOT_THE_RECORDS))
