"""Producers that have written nothing for long are forgotten by the partitions that they wrote to.

Polled by `BrokerMachine`; the cluster tells it when a log has grown. While no partition knows a producer nothing has to
be looked at. A producer with an open transaction stays. Source: Kafka's `producer.id.expiration.ms` (what counts is the
timestamp of its last records) and a broker 4.3.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafka_share.broker.configs.configs import Configs
    from kafka_share.broker.storage.topics import Topics


class ProducerExpiry:
    """Of all partitions of a cluster."""

    def __init__(self, topics: Topics, configs: Configs) -> None:
        self._topics = topics
        self._configs = configs
        self._next_at_ms: int | None = None
        """When the partitions are looked at next; None while they know no producer."""

    def log_advanced(self, now_ms: int) -> None:
        """A log has grown."""
        if self._next_at_ms is None:
            self._next_at_ms = now_ms + self._configs.broker_int("producer.id.expiration.check.interval.ms")

    def poll(self, now_ms: int) -> None:
        """Look at all partitions if it is time."""
        if self._next_at_ms is not None and now_ms >= self._next_at_ms:
            self.look(now_ms)

    def look(self, now_ms: int) -> None:
        """Forget whoever has written nothing for long."""
        self._next_at_ms = None
        before_ms = now_ms - self._configs.broker_int("producer.id.expiration.ms")
        for topic in self._topics:
            for partition in topic.partitions:
                if partition.producers.expire(before_ms, partition.log.open_since):
                    self.log_advanced(now_ms)

    def wake_at_ms(self) -> int | None:
        """When `poll` has to run."""
        return self._next_at_ms
