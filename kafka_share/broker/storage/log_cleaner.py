"""The log cleaner: now and then the logs of compacted topics lose what later records of the same keys have replaced.

Polled by `BrokerMachine`; the cluster tells it when a log has grown. One round after the other, each in turns, so that
a large log holds up nobody. While no log has a closed segment nothing has to be looked at, so an idle broker is not
woken. Source: Kafka's `LogCleaner`; `compaction` has the rules of a round, `segments` when one is due.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from kafka_share.broker.refusals import Refusal
from kafka_share.broker.storage.compaction import Compaction, CompactionRound
from kafka_share.broker.storage.segments import joined
from kafka_share.protocol.record_batches import RecordBatchError

if TYPE_CHECKING:
    from collections.abc import Generator

    from kafka_share.broker.configs.configs import Configs
    from kafka_share.broker.storage.topics import Partition, Topics

logger: logging.Logger = logging.getLogger(__name__)

_AT_ONCE_MS: Final = 0
"""In the middle of a round: the driver is to come back as soon as others have had their turn."""


class LogCleaner:
    """Of all logs of the cluster."""

    def __init__(self, topics: Topics, configs: Configs) -> None:
        self._topics = topics
        self._configs = configs
        self._next_at_ms: int | None = None
        """When the logs are looked at next; None while all have one segment."""
        self._look: Generator[None, None, None] | None = None
        """What is left of the look that has begun."""

    def log_advanced(self, partition: Partition, now_ms: int) -> None:
        """A log has grown."""
        if self._next_at_ms is None and len(partition.log.segments) > 1:
            self._next_at_ms = now_ms + self._configs.broker_int("log.cleaner.backoff.ms")

    def poll(self, now_ms: int) -> None:
        """Do one turn of what there is to do."""
        if self._look is None:
            if self._next_at_ms is None or now_ms < self._next_at_ms:
                return
            self._next_at_ms = None
            self._look = self._clean_all(now_ms)
        try:
            next(self._look)
        except StopIteration:
            self._look = None
            self.look_later(now_ms)

    def look_later(self, now_ms: int) -> None:
        """Any log may have something to compact."""
        for topic in self._topics:
            for partition in topic.partitions:
                self.log_advanced(partition, now_ms)

    def wake_at_ms(self) -> int | None:
        """When `poll` has to run."""
        return self._next_at_ms if self._look is None else _AT_ONCE_MS

    def _clean_all(self, now_ms: int) -> Generator[None, None, None]:
        for topic in self._topics:
            for partition in topic.partitions:
                try:
                    yield from self._clean(partition, now_ms)
                except RecordBatchError as error:
                    logger.warning("%s-%d is not compacted: %s", topic.name, partition.partition, error)
                except Refusal:
                    pass  # the disk is full, which has been logged; the next look tries it again

    def _clean(self, partition: Partition, now_ms: int) -> Generator[None, None, None]:
        """One round over a log, if it is due. Raises `RecordBatchError` and `Refusal`."""
        log = partition.log
        segments = log.to_compact(now_ms)
        if not segments:
            return
        settings = self._configs.log_settings(partition.topic)
        end_offset = log.segments[len(segments)].base_offset
        compaction = Compaction(
            CompactionRound(
                dirty_from=log.clean_to,
                aborted=log.aborted_ranges(log.start_offset, end_offset - 1),
                last_records=partition.producers.last_records(),
                delete_retention_ms=settings.delete_retention_ms,
                now_ms=now_ms,
            )
        )
        yield from compaction.index(log.batches_of(segments))
        for group in joined(segments, settings):
            batches = log.batches_of(group)
            if not batches:
                return
            kept = yield from compaction.rewrite(batches)
            is_as_before = len(group) == 1 and [one.data for one in batches] == kept
            if not is_as_before and not log.rewrite(group, kept):
                return  # records were deleted meanwhile; what is left has its turn the next time
        log.compacted(end_offset, compaction.gone_transactions)
