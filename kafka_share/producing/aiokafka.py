"""aiokafka's producer for a worker. aiokafka is no dependency: the application makes, starts and stops the producer."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, Final

from kafka_share.producing.producer import FORBIDDEN, MISSING, OutgoingRecord, Told, not_written

_REMEDIES: Final = {
    "UnknownTopicOrPartitionError": MISSING,
    "KafkaTimeoutError": MISSING,
    "TopicAuthorizationFailedError": FORBIDDEN,
}
"""By the names of its errors."""


class AiokafkaProducer:
    """Writes with an `aiokafka.AIOKafkaProducer` of the application, which starts and stops it.

    It belongs to one event loop, on which the worker has to run: for a handler that is `async def`, with `run_async`.
    Its `acks` has to be "all", which it is with `enable_idempotence=True`; the default is 1.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self._sending: set[asyncio.Task[None]] = set()

    def produce(self, record: OutgoingRecord, told: Told) -> None:
        task = asyncio.get_running_loop().create_task(self._send(record))
        self._sending.add(task)
        task.add_done_callback(partial(self._sent, record.topic, told))

    async def _send(self, record: OutgoingRecord) -> None:
        await self._client.send_and_wait(
            record.topic, value=record.value, key=record.key, partition=record.partition, headers=list(record.headers)
        )

    def _sent(self, topic: str, told: Told, task: asyncio.Task[None]) -> None:
        self._sending.discard(task)
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error is None:
            told(None)
        else:
            told(not_written(topic, error, _REMEDIES.get(type(error).__name__, "")))

    def close(self, timeout_ms: int) -> None:
        """The application stops its producer, which sends what it has."""
