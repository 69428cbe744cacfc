"""Dead letters as the tool knows them, which of them are meant, and the notes about those that were written back. Pure.

A note is a record in the partition of the letters that it is about, with neither key nor value. Its header names their
offsets, as in "0-17,19". It is written after them, so that the topic's retention never takes it before them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

import attrs

from kafka_share.producing.dead_letters import EXCEPTION_CLASS, Origin, lacks_copy, origin_of
from kafka_share.producing.producer import Headers, OutgoingRecord
from kafka_share.producing.retries import own_headers
from kafka_share.records import TopicPartition

REPLAYED: Final = "__dlq.replayed"
"""The header of a note."""
_RANGE: Final = re.compile(r"(\d+)(?:-(\d+))?", re.ASCII)


@attrs.frozen
class Letter:
    """A dead letter in its topic."""

    place: TopicPartition
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    origin: Origin
    is_replayed: bool = False

    @property
    def is_from_worker(self) -> bool:
        """Whether a worker wrote it, with all that the record had; a broker copies no headers, and perhaps nothing."""
        return any(name == EXCEPTION_CLASS for name, _ in self.headers) and not lacks_copy(self.headers)

    @property
    def has_copy(self) -> bool:
        """Whether it has the key and the value of the record."""
        return not lacks_copy(self.headers) and (self.is_from_worker or self.key is not None or self.value is not None)

    def as_record(self, topic: str) -> OutgoingRecord:
        """The record that it is a copy of, for this topic."""
        return OutgoingRecord(topic, self.key, self.value, own_headers(self.headers))


def letter_of(record: Any, notes: dict[TopicPartition, Offsets]) -> Letter | None:
    """Of a record of kafka-python; None if it is no dead letter."""
    headers: Headers = tuple(record.headers)
    origin = origin_of(headers)
    if origin is None:
        return None
    place = TopicPartition(record.topic, record.partition)
    is_replayed = place in notes and record.offset in notes[place]
    return Letter(place, record.offset, record.timestamp, record.key, record.value, headers, origin, is_replayed)


class Offsets:
    """A set of offsets, as ranges."""

    def __init__(self) -> None:
        self._ranges: list[tuple[int, int]] = []

    def add(self, ranges: Iterable[tuple[int, int]]) -> None:
        self._ranges += ranges

    def __contains__(self, offset: int) -> bool:
        return any(first <= offset <= last for first, last in self._ranges)


def ranges_of_note(headers: Iterable[tuple[str, bytes | None]]) -> list[tuple[int, int]]:
    """The offsets that a note is about; none of a record that is no note."""
    found = []
    for name, value in headers:
        if name == REPLAYED and value is not None:
            for part in value.decode("ascii", "replace").split(","):
                one = _RANGE.fullmatch(part)
                if one is not None:
                    found.append((int(one[1]), int(one[2] or one[1])))
    return found


def note(place: TopicPartition, offsets: Iterable[int]) -> OutgoingRecord:
    """About these offsets of a partition."""
    ranges: list[list[int]] = []
    for offset in sorted(offsets):
        if ranges and offset == ranges[-1][1] + 1:
            ranges[-1][1] = offset
        else:
            ranges.append([offset, offset])
    text = ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)
    return OutgoingRecord(place.topic, None, None, ((REPLAYED, text.encode()),), place.partition)


@attrs.frozen(kw_only=True)
class Choice:
    """Which dead letters are meant. None and empty: all."""

    topics: Sequence[str] = ()
    """Dead-letter topics."""
    partition: int | None = None
    offsets: tuple[int, int] | None = None
    """First and last, in the dead-letter topic."""
    origin: str | None = None
    group: str | None = None
    error: str | None = None
    """The class of the exception, with its module or without; or what Kafka says."""

    def has(self, letter: Letter) -> bool:
        """Whether it is meant, once its place is."""
        origin = letter.origin
        first, last = self.offsets or (letter.offset, letter.offset)
        return (
            first <= letter.offset <= last
            and self.origin in (None, origin.topic)
            and self.group in (None, origin.group)
            and self.error in (None, origin.error, origin.exception_class.rpartition(".")[2])
        )
