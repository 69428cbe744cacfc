"""What a dead letter says: the record as it was, and headers with its place and why it was set aside.

The names are those of Kafka 4.4 (KIP-1191), whose brokers write dead letters too, and some more below the same prefix.
All values are UTF-8 text. A worker writes dead letters, `kafka-share dlq` reads them; nothing here does I/O.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import attrs

from kafka_share.harmless import excerpt
from kafka_share.producing.producer import OutgoingRecord
from kafka_share.producing.retries import own_headers, returned
from kafka_share.records import ShareRecord

PREFIX: Final = "__dlq.errors."
TOPIC: Final = f"{PREFIX}topic"
PARTITION: Final = f"{PREFIX}partition"
OFFSET: Final = f"{PREFIX}offset"
GROUP: Final = f"{PREFIX}group"
DELIVERY_COUNT: Final = f"{PREFIX}delivery.count"
MESSAGE: Final = f"{PREFIX}message"
"""Why: in Kafka's words or in ours. This one and those above are of KIP-1191, those below are ours."""
EXCEPTION_CLASS: Final = f"{PREFIX}exception.class.name"
EXCEPTION_MESSAGE: Final = f"{PREFIX}exception.message"
TIMESTAMP: Final = f"{PREFIX}timestamp"
"""Of the record, in milliseconds since 1970. The dead letter has the time of its writing, since retention counts from
there."""

COPY: Final = f"{PREFIX}copy"
"""Only where there is none: the record is at its place, as long as its topic keeps it."""
_NO_COPY: Final = b"none: it is larger than the worker's max_bytes"

TOPIC_PREFIX: Final = "dlq."
"""What the name of a dead-letter topic begins with: the default of Kafka's errors.deadletterqueue.topic.name.prefix."""
_WHY: Final = "Set aside by a worker of kafka_share."


def default_topic(topic: str) -> str:
    """Where dead letters of a topic go, unless something else is said."""
    return TOPIC_PREFIX + topic


def dead_letter(
    record: ShareRecord[Any, Any], topic: str, group_id: str, error: BaseException, max_bytes: int | None = None
) -> OutgoingRecord:
    """The record for a dead-letter topic, after this error. Key, value and headers are as they were received.

    If all of it would be more than `max_bytes`, it has the headers of a dead letter only. Headers of an earlier dead
    letter are replaced. A record from a retry topic is named by the place that it had first. Raises `AttributeError`
    for a record without its bytes.
    """
    origin = returned(record)
    said = {
        TOPIC: origin.topic,
        PARTITION: str(origin.partition),
        OFFSET: str(origin.offset),
        GROUP: group_id,
        DELIVERY_COUNT: str(record.delivery_count),
        MESSAGE: _WHY,
        EXCEPTION_CLASS: class_name(error),
        EXCEPTION_MESSAGE: _text(error),
        TIMESTAMP: str(origin.timestamp),
    }
    headers = tuple((name, value.encode()) for name, value in said.items())
    letter = OutgoingRecord(topic, record.raw_key, record.raw_value, (*own_headers(record.headers), *headers))
    if max_bytes is None or _bytes_of(letter) <= max_bytes:
        return letter
    # kafka-python refuses a record that has neither key nor value
    return OutgoingRecord(topic, None, b"", (*headers, (COPY, _NO_COPY)))


def lacks_copy(headers: Iterable[tuple[str, bytes | None]]) -> bool:
    """Whether a dead letter with these headers says that it has nothing of the record."""
    return any(name == COPY for name, _ in headers)


def _bytes_of(letter: OutgoingRecord) -> int:
    of_headers = sum(len(name.encode()) + len(value or b"") for name, value in letter.headers)
    return len(letter.key or b"") + len(letter.value or b"") + of_headers


def class_name(error: BaseException) -> str:
    """With its module, unless it is one of Python's own."""
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _text(error: BaseException) -> str:
    try:
        return excerpt(str(error))
    except Exception:  # noqa: BLE001 - what an application's exception says of itself must not keep its record
        return ""


@attrs.frozen
class Origin:
    """What a dead letter says about the record that it is a copy of. Empty or None: it does not say it."""

    topic: str
    partition: int | None
    offset: int | None
    group: str = ""
    delivery_count: int | None = None
    message: str = ""
    exception_class: str = ""
    exception_message: str = ""
    timestamp: int | None = None

    @property
    def error(self) -> str:
        """What distinguishes one cause from another: the class of the exception, or what the broker says."""
        return self.exception_class or self.message


def origin_of(headers: Iterable[tuple[str, bytes | None]]) -> Origin | None:
    """None: this is no dead letter."""
    said = {name: (value or b"").decode(errors="replace") for name, value in headers if name.startswith(PREFIX)}
    if not said.get(TOPIC):
        return None
    return Origin(
        topic=said[TOPIC],
        partition=_number(said, PARTITION),
        offset=_number(said, OFFSET),
        group=said.get(GROUP, ""),
        delivery_count=_number(said, DELIVERY_COUNT),
        message=said.get(MESSAGE, ""),
        exception_class=said.get(EXCEPTION_CLASS, ""),
        exception_message=said.get(EXCEPTION_MESSAGE, ""),
        timestamp=_number(said, TIMESTAMP),
    )


def _number(said: dict[str, str], name: str) -> int | None:
    text = said.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() else None
