"""From what a broker acquired to what an application holds: records, gaps, and what could not be decoded.

Called by `core.application`, on the application's thread: decoding costs the most CPU of all that the client does,
and must not delay heartbeats. Values in, values out; no state outlives one fetched partition.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, TypeAlias

import attrs

from kafka_share.core.events import FetchedPartition
from kafka_share.core.offsets import AcknowledgementRun, AcquiredRange
from kafka_share.deserializers import Deserializer
from kafka_share.errors import CorruptRecordError, DataError, RecordDeserializationError
from kafka_share.protocol.record_batches import CorruptBatchError, RecordBatch, iter_batches
from kafka_share.records import AcknowledgeType, ShareRecord, TimestampType

GAP = 0
"""The acknowledgement type of an acquired offset that has no record (KIP-932)."""

Record: TypeAlias = ShareRecord[Any, Any]
RawRecord: TypeAlias = tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]


@attrs.frozen
class Decoder:
    """How records are made: the deserializers, and whether checksums are verified."""

    key_deserializer: Deserializer | None = None
    value_deserializer: Deserializer | None = None
    check_crcs: bool = True


class PartitionDecoding:
    """One fetched partition being turned into records, resumable behind each problem.

    `next_step()` answers the next records, or the next problem, or None at the end. `settled` collects what needs no
    word from the application: GAP runs, and the RELEASE or REJECT of what could not be decoded.
    """

    def __init__(self, fetched: FetchedPartition, decoder: Decoder) -> None:
        self.fetched = fetched
        self.settled: list[AcknowledgementRun] = []
        self._decoder = decoder
        self._pending = list(reversed(fetched.acquired))
        self._steps = self._decode()

    def next_step(self) -> list[Record] | DataError | None:
        return next(self._steps, None)

    def _decode(self) -> Iterator[list[Record] | DataError]:
        consumed = 0
        try:
            for batch in iter_batches(self.fetched.records):
                consumed += len(batch.data)
                if not self._pending:
                    return
                self._gaps_before(batch.base_offset)
                if self._pending and self._pending[-1].first <= batch.last_offset:
                    yield from self._decode_batch(batch)
        except CorruptBatchError as error:
            yield from self._damaged_rest(str(error))
        else:
            if consumed < len(self.fetched.records) and self._pending:
                yield from self._damaged_rest("the record batch is cut off")
            self._gaps_before(None)

    def _decode_batch(self, batch: RecordBatch) -> Iterator[list[Record] | DataError]:
        ranges = self._acquired_up_to(batch.last_offset)
        try:
            if self._decoder.check_crcs:
                batch.verify_crc()
            raw = [] if batch.is_control else batch.records()
        except CorruptBatchError as error:
            self.settled += [AcknowledgementRun(r.first, r.last, AcknowledgeType.REJECT) for r in ranges]
            where = self.fetched.partition
            yield CorruptRecordError(
                f"The record batch of partition {where} at offset {batch.base_offset} is damaged ({error}); "
                f"its records have been marked REJECT.",
                topic=where.topic,
                partition=where.partition,
                offset=batch.base_offset,
            )
            return
        yield from self._match(raw, ranges, batch)

    def _match(
        self, raw: Sequence[RawRecord], ranges: list[AcquiredRange], batch: RecordBatch
    ) -> Iterator[list[Record] | DataError]:
        """The records of a batch that lie in acquired ranges; acquired offsets without a record become gaps."""
        if len(ranges) == 1 and len(raw) == ranges[0].last - ranges[0].first + 1 and raw[0][0] == ranges[0].first:
            yield from self._make(raw, ranges[0].delivery_count, batch)
            return
        at = 0
        for first, last, count in ranges:
            while at < len(raw) and raw[at][0] < first:
                at += 1
            start = at
            expected = first
            while at < len(raw) and raw[at][0] <= last:
                offset = raw[at][0]
                if offset > expected:
                    self.settled.append(AcknowledgementRun(expected, offset - 1, GAP))
                expected = offset + 1
                at += 1
            if expected <= last:
                self.settled.append(AcknowledgementRun(expected, last, GAP))
            if at > start:
                yield from self._make(raw[start:at], count, batch)

    def _make(self, raw: Sequence[RawRecord], count: int, batch: RecordBatch) -> Iterator[list[Record] | DataError]:
        _, topic, partition = self.fetched.partition
        kind = TimestampType(batch.timestamp_type)
        epoch = batch.partition_leader_epoch if batch.partition_leader_epoch >= 0 else None
        keys, values = self._decoder.key_deserializer, self._decoder.value_deserializer
        if keys is None and values is None:
            yield [
                ShareRecord(topic, partition, offset, timestamp, kind, key, value, headers, epoch, count)
                for offset, timestamp, key, value, headers in raw
            ]
            return
        made: list[Record] = []
        for item in raw:
            offset, timestamp, key, value, headers = item
            origin: Literal["key", "value"] = "key"
            try:
                new_key = key if keys is None else keys.deserialize(topic, headers, key)
                origin = "value"
                new_value = value if values is None else values.deserialize(topic, headers, value)
            except Exception as error:  # noqa: BLE001 - whatever the application's deserializer raises is the news
                if made:
                    yield made
                    made = []
                yield self._undeserializable(item, origin, error)
                continue
            made.append(
                ShareRecord(topic, partition, offset, timestamp, kind, new_key, new_value, headers, epoch, count)
            )
        if made:
            yield made

    def _undeserializable(self, item: RawRecord, origin: Literal["key", "value"], cause: Exception) -> DataError:
        offset, timestamp, key, value, headers = item
        where = self.fetched.partition
        self.settled.append(AcknowledgementRun(offset, offset, AcknowledgeType.RELEASE))
        error = RecordDeserializationError(
            f"The {origin} of the record of partition {where} at offset {offset} could not be deserialized: {cause!r}. "
            f"The record has been marked RELEASE.",
            topic=where.topic,
            partition=where.partition,
            offset=offset,
            origin=origin,
            key=key,
            value=value,
            headers=headers,
            timestamp=timestamp,
        )
        error.__cause__ = cause
        return error

    def _damaged_rest(self, why: str) -> Iterator[DataError]:
        """Behind bytes that are no record batch nothing can be told apart: give the offsets back to be read again."""
        rest = self._acquired_up_to(None)
        if not rest:
            return
        self.settled += [AcknowledgementRun(r.first, r.last, AcknowledgeType.RELEASE) for r in rest]
        where = self.fetched.partition
        yield CorruptRecordError(
            f"The broker's answer for partition {where} is damaged from offset {rest[0].first} on ({why}); "
            f"the records have been marked RELEASE.",
            topic=where.topic,
            partition=where.partition,
            offset=rest[0].first,
        )

    def _acquired_up_to(self, last_offset: int | None) -> list[AcquiredRange]:
        """Take the acquired ranges up to an offset, cutting the one that reaches beyond it."""
        taken: list[AcquiredRange] = []
        while self._pending and (last_offset is None or self._pending[-1].first <= last_offset):
            first, last, count = self._pending.pop()
            if last_offset is not None and last > last_offset:
                self._pending.append(AcquiredRange(last_offset + 1, last, count))
                last = last_offset
            taken.append(AcquiredRange(first, last, count))
        return taken

    def _gaps_before(self, offset: int | None) -> None:
        """Acquired offsets that no batch covers: compacted away, or below the first batch."""
        for first, last, _ in self._acquired_up_to(None if offset is None else offset - 1):
            self.settled.append(AcknowledgementRun(first, last, GAP))
