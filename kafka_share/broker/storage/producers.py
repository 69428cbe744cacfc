"""What one partition remembers of idempotent producers: the producer epoch and the last few batches of each.

Called by the produce handler before it appends. Source of the rules: KIP-98; five batches are remembered because a
producer may have five requests in flight.
"""

from __future__ import annotations

import enum
from collections import deque
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable

_REMEMBERED_BATCHES: Final = 5
_MAX_PRODUCERS: Final = 10_000
"""Per partition; the producer that wrote least recently is forgotten first."""
_SEQUENCES: Final = 2**31
NO_PRODUCER: Final = -1


class SequenceVerdict(enum.Enum):
    """What to do with a batch that an idempotent producer sent."""

    APPEND = "append"
    DUPLICATE = "duplicate"
    OUT_OF_ORDER = "out of order"
    FENCED = "fenced"


class MarkerVerdict(enum.Enum):
    """What to do with the marker that is to end a transaction."""

    APPEND = "append"
    PRODUCER_FENCED = "producer fenced"
    COORDINATOR_FENCED = "coordinator fenced"


NO_COORDINATOR: Final = -1
"""The coordinator epoch of a producer that has ended no transaction in this partition."""


@attrs.frozen
class ProducerSummary:
    """What DescribeProducers tells of a producer; the sequence is -1 if none of its batches is remembered."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_timestamp: int
    coordinator_epoch: int


@attrs.frozen
class AppendedBatch:
    """A batch of a producer as it went into the log."""

    first_sequence: int
    last_sequence: int
    base_offset: int

    @property
    def last_offset(self) -> int:
        return self.base_offset + (self.last_sequence - self.first_sequence) % _SEQUENCES


@attrs.frozen
class LastRecord:
    """The end of what a producer has written: the last offset of its last batch; None if only its epoch is known."""

    offset: int | None
    epoch: int


@attrs.define
class _Producer:
    epoch: int
    last_timestamp: int = -1
    coordinator_epoch: int = NO_COORDINATOR
    is_whole: bool = True
    """Whether its batches are all there are; not after a start, when they may be gone from the log."""
    batches: deque[AppendedBatch] = attrs.Factory(lambda: deque(maxlen=_REMEMBERED_BATCHES))


class ProducerStates:
    """The idempotent producers of one partition."""

    def __init__(self) -> None:
        self._producers: dict[int, _Producer] = {}

    def judge(
        self, producer_id: int, epoch: int, first_sequence: int, last_sequence: int
    ) -> tuple[SequenceVerdict, AppendedBatch | None]:
        """Whether the batch is the next one. With DUPLICATE comes the batch as it was appended the first time."""
        producer = self._producers.get(producer_id)
        if producer is None:
            return SequenceVerdict.APPEND, None
        if epoch < producer.epoch:
            return SequenceVerdict.FENCED, None
        if epoch > producer.epoch:
            return (SequenceVerdict.APPEND if first_sequence == 0 else SequenceVerdict.OUT_OF_ORDER), None
        for batch in producer.batches:
            if (batch.first_sequence, batch.last_sequence) == (first_sequence, last_sequence):
                return SequenceVerdict.DUPLICATE, batch
        if not producer.batches and not producer.is_whole:
            return SequenceVerdict.APPEND, None
        last_sequence = producer.batches[-1].last_sequence if producer.batches else -1
        if first_sequence == (last_sequence + 1) % _SEQUENCES:
            return SequenceVerdict.APPEND, None
        return SequenceVerdict.OUT_OF_ORDER, None

    def knows(self, producer_id: int) -> bool:
        """Whether the producer is remembered."""
        return producer_id in self._producers

    def expire(self, before_ms: int, open_since: Callable[[int], int | None]) -> bool:
        """Forget those whose last timestamp is no later, and who have no open transaction; returns whether any stay."""
        for producer_id in [
            producer_id
            for producer_id, one in self._producers.items()
            if one.last_timestamp <= before_ms and open_since(producer_id) is None
        ]:
            del self._producers[producer_id]
        return bool(self._producers)

    def appended(self, producer_id: int, epoch: int, batch: AppendedBatch, timestamp: int) -> None:
        """Remember a batch that has been appended."""
        producer = self._touched(producer_id, epoch)
        producer.batches.append(batch)
        producer.last_timestamp = timestamp

    def _touched(self, producer_id: int, epoch: int) -> _Producer:
        """The producer, as the one that wrote last; another epoch starts without batches."""
        producer = self._producers.pop(producer_id, None)
        if producer is None:
            producer = _Producer(epoch)
        elif producer.epoch != epoch:
            producer = _Producer(epoch, coordinator_epoch=producer.coordinator_epoch)
        self._producers[producer_id] = producer
        if len(self._producers) > _MAX_PRODUCERS:
            del self._producers[next(iter(self._producers))]
        return producer

    # ---- transactions

    def judge_marker(self, producer_id: int, epoch: int, coordinator_epoch: int) -> MarkerVerdict:
        """Whether a transaction coordinator may end the producer's transaction here."""
        producer = self._producers.get(producer_id)
        if producer is not None and epoch < producer.epoch:
            return MarkerVerdict.PRODUCER_FENCED
        if producer is not None and coordinator_epoch < producer.coordinator_epoch:
            return MarkerVerdict.COORDINATOR_FENCED
        return MarkerVerdict.APPEND

    def wrote(self, producer_id: int, epoch: int) -> None:
        """A coordinator has appended what belongs to the producer's transaction."""
        self._touched(producer_id, epoch)

    def transaction_ended(
        self, producer_id: int, epoch: int, coordinator_epoch: int, timestamp: int, *, restored: bool = False
    ) -> None:
        """A marker has been appended: earlier epochs are fenced from now on. It may have been before the start."""
        producer = self._touched(producer_id, epoch)
        producer.is_whole = producer.is_whole and not restored
        producer.coordinator_epoch, producer.last_timestamp = coordinator_epoch, timestamp

    def last_records(self) -> dict[int, LastRecord]:
        """What compaction has to leave of each producer that is remembered, by its id."""
        return {
            producer_id: LastRecord(one.batches[-1].last_offset if one.batches else None, one.epoch)
            for producer_id, one in self._producers.items()
        }

    def summaries(self) -> list[ProducerSummary]:
        """The producers that are remembered, the one that wrote last at the end."""
        return [
            ProducerSummary(
                producer_id,
                one.epoch,
                one.batches[-1].last_sequence if one.batches else -1,
                one.last_timestamp,
                one.coordinator_epoch,
            )
            for producer_id, one in self._producers.items()
        ]
