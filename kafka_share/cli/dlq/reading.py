"""Reads dead-letter topics with kafka-python's consumer, as plain topics: no group is joined, nothing is committed."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Self

import kafka
from kafka.errors import KafkaError

from kafka_share.admin import KafkaShareAdmin
from kafka_share.cli.dlq.letters import Choice, Letter, Offsets, letter_of, ranges_of_note
from kafka_share.cli.endings import ToolFailedError
from kafka_share.cli.foreign import client_settings
from kafka_share.errors import KafkaShareError
from kafka_share.producing.dead_letters import TOPIC_PREFIX
from kafka_share.records import TopicPartition

_POLL_MS: Final = 500
Spans = dict[TopicPartition, tuple[int, int]]
"""From the first offset of a partition to the one behind the last."""


class Reader:
    """Reads topics from their beginning to where they ended when they were looked at. Raises `ToolFailedError`."""

    def __init__(self, admin: KafkaShareAdmin, settings: Mapping[str, Any], timeout_ms: int) -> None:
        self._admin = admin
        self._timeout_ms = timeout_ms
        self._missing: dict[str, bool] = {}
        with _told():
            self._consumer = kafka.KafkaConsumer(
                **client_settings(settings, timeout_ms), enable_auto_commit=False, auto_offset_reset="earliest"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._consumer.close()

    def topics(self) -> list[str]:
        """All that have the prefix of dead-letter topics and may be seen."""
        with _told():
            return sorted(name for name in self._consumer.topics() if name.startswith(TOPIC_PREFIX))

    def spans(self, choice: Choice) -> Spans:
        """Of the chosen topics and partitions as they are now."""
        with _told():
            places = [
                kafka.TopicPartition(topic, partition)
                for topic in choice.topics
                for partition in sorted(self._consumer.partitions_for_topic(topic) or ())
                if choice.partition in (None, partition)
            ]
            firsts, ends = self._consumer.beginning_offsets(places), self._consumer.end_offsets(places)
        return {TopicPartition(*place): (firsts[place], ends[place]) for place in places}

    def notes(self, spans: Spans) -> dict[TopicPartition, Offsets]:
        """What was written back before."""
        found: dict[TopicPartition, Offsets] = {}
        for record in self._records(spans):
            ranges = ranges_of_note(record.headers)
            if ranges:
                found.setdefault(TopicPartition(record.topic, record.partition), Offsets()).add(ranges)
        return found

    def letters(self, choice: Choice, spans: Spans, notes: dict[TopicPartition, Offsets]) -> Iterator[Letter]:
        """The chosen ones, in the order of their offsets within each partition."""
        if choice.offsets is not None:
            first, last = choice.offsets
            spans = {place: (max(first, begin), min(last + 1, end)) for place, (begin, end) in spans.items()}
        for record in self._records(spans):
            letter = letter_of(record, notes)
            if letter is not None and choice.has(letter):
                yield letter

    def original(self, letter: Letter) -> Any:
        """The record that a letter is about, in its own topic; None if it is not there any more."""
        origin = letter.origin
        if origin.partition is None or origin.offset is None:
            return None
        place = kafka.TopicPartition(origin.topic, origin.partition)
        with _told():
            if self._is_missing(origin.topic):
                return None
            if origin.partition not in (self._consumer.partitions_for_topic(origin.topic) or ()):
                return None
            first, end = self._consumer.beginning_offsets([place])[place], self._consumer.end_offsets([place])[place]
        if not first <= origin.offset < end:
            return None
        span = {TopicPartition(*place): (origin.offset, origin.offset + 1)}
        return next(self._records(span), None)

    def _is_missing(self, topic: str) -> bool:
        """kafka-python would have the brokers create it."""
        if topic not in self._missing:
            described = self._admin.describe_topics([topic], timeout_ms=self._timeout_ms)[topic]
            self._missing[topic] = isinstance(described, KafkaShareError)
        return self._missing[topic]

    def _records(self, spans: Spans) -> Iterator[Any]:
        left = {kafka.TopicPartition(*place): end for place, (first, end) in spans.items() if first < end}
        with _told():
            self._consumer.assign(sorted(left))
            for place in left:
                self._consumer.seek(place, spans[TopicPartition(*place)][0])
        heard_at_s = time.monotonic()
        while left:
            with _told():
                polled = self._consumer.poll(timeout_ms=_POLL_MS)
            for place, records in polled.items():
                yield from (record for record in records if record.offset < left.get(place, 0))
            with _told():
                left = {place: end for place, end in left.items() if self._consumer.position(place) < end}
            heard_at_s = time.monotonic() if polled else heard_at_s
            if (time.monotonic() - heard_at_s) * 1_000 > self._timeout_ms:
                text = f"no record came for {self._timeout_ms} ms, and {', '.join(map(_shown, left))} is not at its end"
                raise ToolFailedError(text, code="OPERATION_TIMEOUT")


def _shown(place: Any) -> str:
    return f"{place.topic}-{place.partition}"


@contextmanager
def _told() -> Iterator[None]:
    """kafka-python's errors become ours."""
    try:
        yield
    except KafkaError as error:
        raise ToolFailedError(f"{type(error).__name__}: {error}", code="KAFKA_PYTHON") from error
