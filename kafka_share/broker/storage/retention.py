"""Retention: now and then every log drops the segments that are too old or too much for its topic's settings.

Polled by `BrokerMachine`; the cluster tells it when a log has grown, and is told of each log that has lost its head.
Without records nothing has to be looked at, so an idle broker is not woken. Source: Kafka's `log.retention.*`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka_share.broker.configs.configs import Configs
    from kafka_share.broker.storage.topics import Partition, Topics


class Retention:
    """`start_moved` is called with a partition whose log begins later now, and the time."""

    def __init__(self, topics: Topics, configs: Configs, start_moved: Callable[[Partition, int], None]) -> None:
        self._topics = topics
        self._configs = configs
        self._start_moved = start_moved
        self._next_at_ms: int | None = None
        """When the logs are looked at next; None while all are empty."""

    def log_advanced(self, now_ms: int) -> None:
        """A log has grown."""
        if self._next_at_ms is None:
            self._next_at_ms = now_ms + self._configs.broker_int("log.retention.check.interval.ms")

    def poll(self, now_ms: int) -> None:
        """Look at all logs if it is time."""
        if self._next_at_ms is None or now_ms < self._next_at_ms:
            return
        self._next_at_ms = None
        for topic in self._topics:
            for partition in topic.partitions:
                if partition.log.delete_old(now_ms):
                    self._start_moved(partition, now_ms)
                if partition.log.start_offset < partition.log.high_watermark:
                    self.log_advanced(now_ms)

    def wake_at_ms(self) -> int | None:
        """When `poll` has to run."""
        return self._next_at_ms
