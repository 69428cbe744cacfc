"""From what a broker acquired to what an application holds: records, gaps, and what could not be decoded.

Called by `ApplicationSide`, on the application's thread: decoding costs the most CPU of all that the client does,
and must not delay heartbeats. Values in, values out; no state outlives one fetched partition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import attrs

from kafka_share.core.events import FetchedPartition, GatheredAcknowledgements
from kafka_share.core.fetching.offsets import AcknowledgementRun
from kafka_share.core.fetching.share_session import encode_runs
from kafka_share.deserializers import Deserializer
from kafka_share.errors import CorruptRecordError, DataError, RecordDeserializationError, UnsupportedRecordError
from kafka_share.locks import AcquisitionLock
from kafka_share.native import IS_COMPILED, RecordBlock, Slab, WholeMaker, with_values
from kafka_share.protocol.record_batches import (
    BatchTooLargeError,
    RecordBatch,
    RecordBatchError,
    UnsupportedBatchError,
    iter_batches,
)
from kafka_share.protocol.record_format import LENGTH_END, MAGIC, MAGIC_AT, MAX_BATCH_BYTES, Codec, RecordTuple
from kafka_share.protocol.record_headers import EncodedHeaders
from kafka_share.protocol.share_values import GAP, AcquiredRange
from kafka_share.records import AcknowledgeType, ShareRecord, TimestampType, TopicIdPartition, TopicPartition

if TYPE_CHECKING:
    from kafka_share.native import Run

Record: TypeAlias = ShareRecord[Any, Any]

_TIMESTAMP_TYPES = (TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME)
_NO_LIMIT = 1 << 62


@attrs.frozen
class Decoder:
    """How records are made: the deserializers, what is done when they fail, and whether checksums are verified."""

    key_deserializer: Deserializer | None = None
    value_deserializer: Deserializer | None = None
    check_crcs: bool = True
    max_batch_bytes: int = MAX_BATCH_BYTES
    """What the records of one batch may grow to."""
    marks_errors: bool = False
    """A record that cannot be deserialized becomes a record with an error, instead of a problem."""

    @property
    def deserializes(self) -> bool:
        """Whether keys or values are made of the bytes."""
        return self.key_deserializer is not None or self.value_deserializer is not None


@attrs.frozen
class Problem:
    """Acquired offsets that cannot be delivered: what to raise, and what is said about them unless overridden."""

    error: DataError
    runs: tuple[AcknowledgementRun, ...]


def whole_maker(decoder: Decoder, now_ms: Callable[[], int]) -> WholeMaker:
    """What makes answers with nothing between their records, of which nothing has to be deserialized."""
    return WholeMaker(
        now_ms=now_ms,
        lock_type=AcquisitionLock,
        place_type=TopicPartition,
        run_type=AcknowledgementRun,
        gathered_type=GatheredAcknowledgements,
        encode=encode_runs,
        timestamp_types=_TIMESTAMP_TYPES,
        headers_type=EncodedHeaders,
        decompress=_decompress,
        check_crcs=decoder.check_crcs,
        max_batch_bytes=decoder.max_batch_bytes,
    )


def _block_of(partition: TopicIdPartition, data: bytes | memoryview, lock: AcquisitionLock | None) -> RecordBlock:
    _, topic, number = partition
    return RecordBlock(topic, number, data, lock, _TIMESTAMP_TYPES, EncodedHeaders)


class PartitionDecoding:
    """One fetched partition being turned into records, resumable behind each problem, and anywhere after an interrupt.

    `next_step()` returns the next records, or the next problem, or None at the end; `confirm` says that the step is in
    safe hands, without which the next one is the same again. `gaps()` are the acquired offsets without a record up to
    there. Each acquired offset is in exactly one of the three.
    """

    def __init__(self, fetched: FetchedPartition, decoder: Decoder, lock: AcquisitionLock | None = None) -> None:
        self.fetched = fetched
        self._decoder = decoder
        self._lock = lock
        self._gaps: list[AcknowledgementRun] = []
        self._pending = list(reversed(fetched.acquired))
        self._done_up_to = -1
        self._limit = _NO_LIMIT
        self._steps = self._decode()
        self._is_ahead = False
        """The generator is at another place than the last confirmed step, or has ended by an exception."""

    def next_step(self, limit: int | None = None) -> Run | Problem | None:
        """A step has no more than `limit` records, but for the rest of the record batch that reaches it.

        Whatever a deserializer raises beyond `Exception` (an interrupt) passes through, and costs no record.
        """
        self._limit = _NO_LIMIT if limit is None else limit
        if self._is_ahead:
            self._begin_again()
        self._is_ahead = True
        step = next(self._steps, None)
        if step is None:
            self.confirm_up_to(max((r.last for r in self.fetched.acquired), default=-1))
        return step

    def confirm(self, step: Run | Problem) -> None:
        """What comes next is behind this step."""
        self.confirm_up_to(step.runs[-1].last if isinstance(step, Problem) else step[-1].offset)
        self._is_ahead = False

    def confirm_up_to(self, offset: int) -> None:
        """The same without knowing where the generator is."""
        self._done_up_to = max(self._done_up_to, offset)
        if self.fetched.acquired and self.is_done:
            # It refers to this object: what the broker sent would stay until the garbage collector comes.
            self._steps = iter(())

    @property
    def is_done(self) -> bool:
        """Whether the last acquired offset has been confirmed; of a gap at the end only `next_step` knows."""
        return self._done_up_to >= self.fetched.acquired[-1].last

    def gaps(self) -> list[AcknowledgementRun]:
        """The gaps before and between the confirmed steps."""
        return [run for run in self._gaps if run.last <= self._done_up_to] if self._gaps else []

    def drop_gaps(self) -> None:
        """The gaps so far have been taken over."""
        self._gaps = [run for run in self._gaps if run.last > self._done_up_to]

    def released_rest(self) -> list[AcknowledgementRun]:
        """What to acknowledge if the decoding ends here: the gaps so far, and RELEASE for all that is not confirmed."""
        return self.gaps() + [AcknowledgementRun(r.first, r.last, AcknowledgeType.RELEASE) for r in self._rest()]

    def _rest(self) -> list[AcquiredRange]:
        first = self._done_up_to + 1
        return [AcquiredRange(max(r.first, first), *r[1:]) for r in self.fetched.acquired if r.last >= first]

    def _begin_again(self) -> None:
        """Go on behind the last confirmed step."""
        self._gaps = [run for run in self._gaps if run.last <= self._done_up_to]
        self._pending = self._rest()[::-1]
        self._steps = self._decode()

    def _decode(self) -> Iterator[Run | Problem]:
        records, position = memoryview(self.fetched.records), 0
        block = self._new_block()
        while self._pending:
            if block is not None:
                before = position
                position, found = self._scan(block, position)
                if found:
                    yield from self._deserialized(found)
                if position > before:
                    continue
            # One record batch in Python: without a block each of them, else what is damaged or of an old format.
            try:
                batch = next(iter_batches(records[position:]), None)
            except RecordBatchError as error:
                stop = self._end_of_batch(position)
                if stop is None:
                    yield self._damaged_rest(str(error))
                    return
                yield from self._unreadable_batch(self._offset_at(position), self._offset_before(stop), error)
                position = stop
                continue
            if batch is None:
                break
            position += len(batch.data)
            self._gaps_before(batch.base_offset)
            if self._pending and self._pending[-1].first <= batch.last_offset:
                yield from self._decode_batch(batch, position)
        if position < len(records) and self._pending:
            yield self._damaged_rest("the record batch is cut off")
        self._gaps_before(None)

    def _new_block(self) -> RecordBlock | None:
        """What finds sound records; None where it was not compiled."""
        if not IS_COMPILED:
            return None
        return _block_of(self.fetched.partition, self.fetched.records, self._lock)

    def _scan(self, block: RecordBlock, position: int) -> tuple[int, Run]:
        """Sound record batches from a byte on: where they end, and their records."""
        decoder = self._decoder
        # An interrupt inside of a deserializer makes those of one batch come again, and not of all of them.
        limit = 1 if decoder.deserializes else self._limit
        position, found, gaps, reached = block.scan(
            position, self._pending[::-1], decoder.check_crcs, decoder.max_batch_bytes, _decompress, limit
        )
        self._gaps += [AcknowledgementRun(first, last, GAP) for first, last in gaps]
        self._acquired_up_to(reached - 1)
        return position, found

    def _decode_batch(self, batch: RecordBatch, position: int) -> Iterator[Run | Problem]:
        try:
            if self._decoder.check_crcs:
                batch.verify_crc()
            raw = [] if batch.is_control else batch.records(self._decoder.max_batch_bytes)
        except RecordBatchError as error:
            yield from self._unreadable_batch(batch.base_offset, self._reach(batch, position), error)
            return
        yield from self._match(raw, self._acquired_up_to(batch.last_offset), batch)

    def _unreadable_batch(self, base_offset: int, last_offset: int | None, why: RecordBatchError) -> Iterator[Problem]:
        """REJECT is for what is damaged for everybody; what another client may read goes back."""
        self._gaps_before(base_offset)
        ranges = self._acquired_up_to(last_offset)
        if not ranges:
            return
        if isinstance(why, UnsupportedBatchError):
            advice = "; raise max_record_batch_bytes" if isinstance(why, BatchTooLargeError) else ""
            what = f"cannot be read by this client ({why}{advice}); its records have been marked RELEASE"
            yield self._problem(UnsupportedRecordError, base_offset, what, ranges, AcknowledgeType.RELEASE)
        else:
            what = f"is damaged ({why}); its records have been marked REJECT"
            yield self._problem(CorruptRecordError, base_offset, what, ranges, AcknowledgeType.REJECT)

    def _damaged_rest(self, why: str) -> Problem:
        """Behind bytes that are no record batch nothing can be told apart: give the offsets back to be read again."""
        rest = self._acquired_up_to(None)
        return self._problem(
            CorruptRecordError,
            rest[0].first,
            f"and all that follows it in the broker's answer is damaged ({why}); the records have been marked RELEASE",
            rest,
            AcknowledgeType.RELEASE,
        )

    def _problem(
        self,
        error_class: type[CorruptRecordError | UnsupportedRecordError],
        offset: int,
        what: str,
        ranges: list[AcquiredRange],
        kind: AcknowledgeType,
    ) -> Problem:
        where = self.fetched.partition
        error = error_class(
            f"The record batch of partition {where} at offset {offset} {what}.",
            topic=where.topic,
            partition=where.partition,
            offset=offset,
        )
        return Problem(error, tuple(AcknowledgementRun(r.first, r.last, kind) for r in ranges))

    def _offset_at(self, position: int) -> int:
        """The base offset of the batch at this byte; it stands there in every format."""
        return int.from_bytes(self.fetched.records[position : position + 8], "big", signed=True)

    def _reach(self, batch: RecordBatch, stop: int) -> int | None:
        """The last offset of a batch that cannot be read, which may be damaged too; None: all that follows."""
        if batch.magic == MAGIC:
            return self._offset_before(stop)
        is_followed = stop + MAGIC_AT < len(self.fetched.records) and self.fetched.records[stop + MAGIC_AT] == MAGIC
        return self._offset_before(stop) if is_followed else batch.last_offset

    def _offset_before(self, position: int) -> int | None:
        """The last offset below the batch at this byte; None if there is no batch.

        (A message of an old format begins with its last offset. It never follows a batch of the newer one.)
        """
        if position + LENGTH_END > len(self.fetched.records):
            return None
        return self._offset_at(position) - 1

    def _end_of_batch(self, position: int) -> int | None:
        """Where a batch that cannot be read ends, if its length is believable; it too stands there in every format."""
        length = int.from_bytes(self.fetched.records[position + 8 : position + LENGTH_END], "big", signed=True)
        stop = position + LENGTH_END + length
        return stop if position + MAGIC_AT < stop <= len(self.fetched.records) else None

    def _match(
        self, raw: Sequence[RecordTuple], ranges: list[AcquiredRange], batch: RecordBatch
    ) -> Iterator[Run | Problem]:
        """The records of a batch that lie in acquired ranges; acquired offsets without a record become gaps."""
        if len(ranges) == 1 and raw:
            first, last, count = ranges[0]
            # Offsets ascend, so that as many records as offsets between the same ends are all of them.
            if raw[0][0] == first and raw[-1][0] == last and len(raw) == last - first + 1:
                yield from self._make(raw, count, batch)
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
                    self._gaps.append(AcknowledgementRun(expected, offset - 1, GAP))
                expected = offset + 1
                at += 1
            if expected <= last:
                self._gaps.append(AcknowledgementRun(expected, last, GAP))
            if at > start:
                yield from self._make(raw[start:at], count, batch)

    def _make(self, raw: Sequence[RecordTuple], count: int, batch: RecordBatch) -> Iterator[Run | Problem]:
        _, topic, partition = self.fetched.partition
        kind, lock = TimestampType(batch.timestamp_type), self._lock
        epoch = batch.partition_leader_epoch if batch.partition_leader_epoch >= 0 else None
        yield from self._deserialized(
            [
                ShareRecord(topic, partition, offset, timestamp, kind, key, value, headers, epoch, count, None, lock)
                for offset, timestamp, key, value, headers in raw
            ]
        )

    def _deserialized(self, records: Run) -> Iterator[Run | Problem]:
        keys, values = self._decoder.key_deserializer, self._decoder.value_deserializer
        if keys is None and values is None:
            yield records
            return
        made: list[Record] = []
        for record in records:
            key, value, headers = record.key, record.value, record.headers
            origin: Literal["key", "value"] = "key"
            failed: RecordDeserializationError | None = None
            try:
                new_key = key if keys is None else keys.deserialize(record.topic, headers, key)
                origin = "value"
                new_value = value if values is None else values.deserialize(record.topic, headers, value)
            except Exception as error:  # noqa: BLE001 - whatever the application's deserializer raises is the news
                failed = self._undeserializable(record, origin, error)
                new_key, new_value = key, value
            if failed is None or self._decoder.marks_errors:
                made.append(with_values(record, new_key, new_value, failed))
                continue
            if made:
                yield made
                made = []
            yield Problem(failed, (AcknowledgementRun(record.offset, record.offset, AcknowledgeType.RELEASE),))
        if made:
            yield made

    def _undeserializable(
        self, record: Record, origin: Literal["key", "value"], cause: Exception
    ) -> RecordDeserializationError:
        where = self.fetched.partition
        error = RecordDeserializationError(
            # Not what the exception says: it may hold the payload, and messages are logged.
            f"The {origin} of the record of partition {where} at offset {record.offset} could not be deserialized: "
            f"its deserializer raised {type(cause).__name__}."
            + ("" if self._decoder.marks_errors else " The record has been marked RELEASE."),
            topic=where.topic,
            partition=where.partition,
            offset=record.offset,
            origin=origin,
            key=record.key,
            value=record.value,
            headers=record.headers,
            timestamp=record.timestamp,
        )
        error.__cause__ = cause
        return error

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
            self._gaps.append(AcknowledgementRun(first, last, GAP))


def _decompress(codec: Codec, data: memoryview, limit: int) -> memoryview:
    from kafka_share.protocol.compression import decompressed  # only who meets compressed bytes needs cramjam

    return decompressed(codec, data, limit, Slab)
